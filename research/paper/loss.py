"""``lpfuse reproduce loss``: the hinge against least squares."""

from __future__ import annotations

from research.common.comparison import Figures
from research.common.options import Options
from research.common.protocol import SETTINGS
from research.common.statistics import Comparison, compare, corrected
from research.common.store import write_whole
from research.common.tables import gain, gains_over_sets, markdown, page, prose
from research.paper import paper
from research.paper.ablation import LOSSES, PRESET_NOTE, PRESETS, ablation, method_name

NAMES = {"hinge": "hinge", "least_squares": "least squares"}


def run(options: Options) -> str:
    """Measure what is missing, write results and page, and return the page."""
    text = _page(ablation(options))
    write_whole(options.page_folder / "loss.md", text)
    return text


def comparisons(figures: Figures, preset: str) -> dict[str, Comparison]:
    """The hinge against least squares, p chosen on validation: setting → comparison over sets."""
    return {
        setting: compare(
            *(figures.means(setting, method_name(preset, loss, None)) for loss in LOSSES)
        )
        for setting in SETTINGS
    }


def _page(figures: Figures) -> str:
    heads = [f"{setting}, {NAMES[loss]}" for setting in SETTINGS for loss in LOSSES]
    printed = [f"{paper.LOSS[setting][loss]:.2f}" for setting in SETTINGS for loss in LOSSES]
    rows = [["", *heads]]
    if figures.are_the_papers:
        rows.append(["printed in the paper", *printed])
    gains = [["", *(f"{setting}, hinge − least squares" for setting in SETTINGS)]]
    for preset in PRESETS:
        means = [
            figures.means(setting, method_name(preset, loss, None)).mean()
            for setting in SETTINGS
            for loss in LOSSES
        ]
        rows.append([f"measured, {preset}", *(f"{mean:.2f}" for mean in means)])
        gains.append([preset, *map(gain, corrected(comparisons(figures, preset)).values())])
    return page(
        "# Hinge or least squares",
        prose(
            f"""Mean test AUC in % over data sets; {figures.scope},
            p and ρ chosen on validation for each loss. Written by `lpfuse reproduce loss` from
            `ablation.jsonl`. {PRESET_NOTE}"""
        ),
        markdown(rows),
        *gains_over_sets(gains, len(figures.sets)),
    )
