"""``lpfuse reproduce lp-effect``: a p that is chosen against ℓ2 and ℓ∞."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lpfuse._format import name_of_p
from research.common.comparison import Figures
from research.common.drawing import figure_line, new_figure
from research.common.options import Options
from research.common.protocol import SETTINGS
from research.common.statistics import Comparison, compare, corrected
from research.common.store import write_whole
from research.common.tables import gain, gains_over_sets, markdown, page, prose
from research.paper import paper
from research.paper.ablation import PRESET_NOTE, PRESETS, ablation, grid, method_name

NORMS = {"ℓ2": 2.0, "ℓ∞": np.inf, "ℓp": None}  # p = None: chosen on validation


def run(options: Options) -> str:
    """Measure what is missing, write results, page and figure, and return the page."""
    figures = ablation(options)
    drawn = figure_line(
        options.page_folder / "lp-effect.png",
        lambda path: _draw(figures, options, path),
        "Mean AUC on test rows over p, pure and non-pure, for each preset",
    )
    text = _page(figures, drawn)
    write_whole(options.page_folder / "lp-effect.md", text)
    return text


def comparisons(figures: Figures, preset: str) -> dict[tuple[str, str], Comparison]:
    """The chosen p against ℓ2 and ℓ∞: (setting, norm) → comparison over data sets."""
    return {
        (setting, norm): compare(
            *(figures.means(setting, method_name(preset, "hinge", p)) for p in (None, NORMS[norm]))
        )
        for setting in SETTINGS
        for norm in ("ℓ2", "ℓ∞")
    }


def _page(figures: Figures, drawn: str) -> str:
    heads = ["", *(f"{setting}, {norm}" for setting in SETTINGS for norm in NORMS)]
    keys = ("l2", "linf", "lp")
    printed = [f"{paper.LP_EFFECT[setting][key]:.2f}" for setting in SETTINGS for key in keys]
    rows = [heads]
    if figures.are_the_papers:
        rows.append(["printed in the paper", *printed])
    gains = [["", *(f"{setting}, ℓp − {norm}" for setting in SETTINGS for norm in ("ℓ2", "ℓ∞"))]]
    for preset in PRESETS:
        means = [
            figures.means(setting, method_name(preset, "hinge", p)).mean()
            for setting in SETTINGS
            for p in NORMS.values()
        ]
        rows.append([f"measured, {preset}", *(f"{mean:.2f}" for mean in means)])
        gains.append([preset, *map(gain, corrected(comparisons(figures, preset)).values())])
    return page(
        "# The effect of p",
        prose(
            f"""Mean test AUC in % over data sets; {figures.scope}.
            ℓp: p chosen on validation. Written by `lpfuse reproduce lp-effect` from
            `ablation.jsonl`. {PRESET_NOTE}"""
        ),
        markdown(rows),
        *gains_over_sets(gains, len(figures.sets)),
        drawn,
    )


def _draw(figures: Figures, options: Options, path: Path) -> None:
    """Mean test AUC against p, each p by itself."""
    ps = grid(options)
    figure = new_figure(8, 4.2)
    axes = figure.subplots(1, len(PRESETS), sharey=True)
    for ax, preset in zip(axes, PRESETS, strict=True):
        for setting, mark in zip(SETTINGS, "os", strict=True):
            means = [figures.means(setting, method_name(preset, "hinge", p)).mean() for p in ps]
            (line,) = ax.plot(range(len(ps)), means, marker=mark, label=setting)
            chosen = figures.means(setting, method_name(preset, "hinge", None)).mean()
            ax.axhline(chosen, color=line.get_color(), linestyle=":", linewidth=1)
        ax.set_xticks(range(len(ps)), [name_of_p(p) for p in ps], rotation=60)
        ax.set_title(f"preset {preset!r}; dotted: p chosen on validation", fontsize="medium")
        ax.set_xlabel("p")
        ax.grid(axis="y", alpha=0.3)
    axes[0].set_ylabel("mean test AUC in %")
    axes[0].legend()
    figure.savefig(path, dpi=130)
