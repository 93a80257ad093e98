"""The page of the ten data sets: tables of ours beside the paper's, and what they tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from lpfuse._arrays.operations import Host
from research.common.comparison import Figures
from research.common.datasets import UCI
from research.common.drawing import new_figure
from research.common.protocol import SETTINGS
from research.common.ranks import critical_difference, friedman, mean_ranks
from research.common.statistics import Comparison, compare, holm, interval
from research.common.tables import gain, markdown, page, prose
from research.paper import paper
from research.paper.learners import LEARNERS
from research.rivals.fusion import NOTES

OURS = "lpfuse, validated"
CONTENDERS = ("ℓp", "lpfuse, defaults", OURS, "lpfuse, all known")
REFERENCES = ("sum", "best single")
OWN_NOTES = {
    OURS: """`FusedDetector` of SVDD, GP, KPCA, GMM, isolation forest and LOF, each with its best
        setting on validation, the best m of them; with experts where anomalies teach""",
    "lpfuse, defaults": "`FusedDetector()`, nothing chosen",
    "lpfuse, local": """the same detectors, weights by region: in the style of Nourmohammadi et al.
        (2024)""",
    "lpfuse, all known": """`FusedDetector()`, taught by all known anomalies: it keeps none for
        choosing""",
    "best single": "of the four learners, the one that is best on validation",
}


def uci_page(figures: Figures, drawn: str) -> str:
    """All tables, as Markdown; `drawn` is the line that shows the figure."""
    measured = dict.fromkeys(m for setting in SETTINGS for m in figures.methods(setting))
    notes = {name: text for name, text in {**NOTES, **OWN_NOTES}.items() if name in measured}
    return page(
        "# The paper's ten data sets" if figures.are_the_papers else "# Under the paper's protocol",
        prose(
            f"""{figures.scope[0].upper()}{figures.scope[1:]}: normal rows 70/20/10 for training,
            validation, test; anomalies half for validation, half for the test, and in the
            *non-pure* setting half of the former teach the weights. Widths, q, ρ and p are chosen
            on validation, and so is the threshold behind the G-mean. GMM, SVDD, GP, KPCA, sum and
            ℓp are the paper's methods in the paper's way (scores of the learners' own training
            rows, no balance of the classes), the weights solved to a certified optimum. Written by
            `lpfuse reproduce uci` from `uci.jsonl`."""
        ),
        *_main_tables(figures),
        *_gains(figures),
        drawn,
        "## Every method",
        _everyone(figures),
        "\n".join(prose(f"- *{name}*: {text}.") for name, text in notes.items()),
        *_doubts(figures),
    )


_COLUMNS = (
    *((learner, "pure", learner) for learner in LEARNERS),
    ("sum", "pure", None),
    ("ℓp", "pure", "pure"),
    ("ℓp", "non-pure", "non-pure"),
    (OURS, "pure", None),
    (OURS, "non-pure", None),
)  # method, setting, column of the paper's table


def _main_tables(figures: Figures) -> list[str]:
    """Sections of the methods that the paper has, where these were measured."""
    shown = [column for column in _COLUMNS if column[0] in figures.methods(column[1])]
    if not shown:
        return []
    spread = "mean ± standard deviation over splits" if figures.seeds > 1 else "of one split"
    beside = " (what the paper prints)" if set(figures.sets) & set(UCI) else ""
    about = """The four learners and the sum are chosen on all anomalies of validation, as in the
        pure setting; the table at the end has both settings."""
    return [
        f"## AUC in %: {spread}{beside}",
        _main_table(figures, "auc", shown),
        prose(about),
        "## G-mean in %",
        _main_table(figures, "g_mean", shown),
    ]


def _main_table(figures: Figures, metric: str, shown: Sequence[tuple[str, str, str | None]]) -> str:
    heads = [name if name in LEARNERS else f"{name}, {setting}" for name, setting, _ in shown]
    rows = [["", *heads]]
    for name in figures.sets:
        title = f"{UCI[name].code} {UCI[name].title}" if name in UCI else name
        printed = paper.UCI[metric].get(name, {})
        cells = [
            _spread(figures.of(setting, method, name, metric)) + _beside(printed.get(column or ""))
            for method, setting, column in shown
        ]
        rows.append([title, *cells])
    if len(figures.sets) > 1:
        rows.append(["**mean**", *(_mean(figures, metric, *column) for column in shown)])
    return markdown(rows)


def _spread(values: Host) -> str:
    deviation = f" ± {values.std(ddof=1):.1f}" if len(values) > 1 else ""
    return f"{values.mean():.1f}{deviation}"


def _beside(printed: paper.Mean | None) -> str:
    return "" if printed is None else f" ({printed.mean:.1f})"


def _mean(figures: Figures, metric: str, method: str, setting: str, column: str | None) -> str:
    mean = f"**{figures.means(setting, method, metric).mean():.1f}**"
    if column is None or not figures.are_the_papers:
        return mean
    printed = [row[column].mean for row in paper.UCI[metric].values()]
    return f"{mean} ({np.mean(printed):.1f})"


def comparisons(figures: Figures, setting: str) -> dict[tuple[str, str], Comparison]:
    """Contenders against the references, paired by data set: (contender, reference) → comparison.

    P-values are Holm's, for all comparisons of the setting.
    """
    measured = figures.methods(setting)
    pairs = [pair for pair in product(CONTENDERS, REFERENCES) if set(pair) <= set(measured)]
    found = [compare(*(figures.means(setting, name) for name in pair)) for pair in pairs]
    if not found:
        return {}
    corrected = holm([each.p_value for each in found])
    return {
        pair: replace(each, p_value=float(p_value))
        for pair, each, p_value in zip(pairs, found, corrected, strict=True)
    }


def _gains(figures: Figures) -> list[str]:
    """A section, where there are sets enough to compare over."""
    found = {setting: comparisons(figures, setting) for setting in SETTINGS}
    contenders = [
        c for c in CONTENDERS if any(c == name for each in found.values() for name, _ in each)
    ]
    if len(figures.sets) < 2 or not contenders:
        return []
    columns = list(product(SETTINGS, REFERENCES))
    rows = [["", *(f"{setting}, against {reference}" for setting, reference in columns)]]
    for name in contenders:
        cells = [found[setting].get((name, reference)) for setting, reference in columns]
        rows.append([name, *("" if cell is None else gain(cell) for cell in cells)])
    about = """Difference of the mean AUC with its 95 % interval over data sets; sets won : equal :
        lost; Wilcoxon's p-value, with Holm's correction for the comparisons of a setting."""
    return ["## Which gains are real", prose(about), markdown(rows)]


def _everyone(figures: Figures) -> str:
    """Mean AUC, mean rank and mean G-mean of all methods, in every setting."""
    columns: dict[str, dict[str, list[str]]] = {}
    heads: list[str] = []
    settings = [setting for setting in SETTINGS if figures.methods(setting)]
    for setting in settings:
        names = figures.methods(setting)
        aucs = figures.table(setting, names)
        told = ""
        if len(aucs) > 1 and len(names) > 2:
            difference = critical_difference(len(names), len(aucs))
            told = f" (Friedman p = {friedman(aucs).p_value:.1g}, CD {difference:.1f})"
        heads += [f"{setting}: AUC", f"rank{told}", "G-mean"]
        g_means = figures.table(setting, names, "g_mean").mean(axis=0)
        figures_of = zip(names, aucs.mean(axis=0), mean_ranks(aucs), g_means, strict=True)
        for name, *numbers in figures_of:
            columns.setdefault(name, {})[setting] = [f"{number:.1f}" for number in numbers]
    empty = ["", "", ""]
    rows = [
        [name, *(cell for setting in settings for cell in by_setting.get(setting, empty))]
        for name, by_setting in columns.items()
    ]
    return markdown([["", *heads], *rows])


def _doubts(figures: Figures) -> list[str]:
    """What cannot be right in the paper's table."""
    lines = [
        f"- {UCI[doubt.set].code} {UCI[doubt.set].title}, {doubt.method}: {doubt.reason}"
        for doubt in paper.impossible_cells()
        if doubt.set in figures.sets
    ]
    title = "## Cells of the paper's table that cannot be right"
    return [title, "\n".join(lines)] if lines else []


def draw(figures: Figures, path: Path) -> None:
    """Mean AUC of every method with its interval over sets, and what the paper prints."""
    settings = [setting for setting in SETTINGS if figures.methods(setting)]
    figure = new_figure(5 * len(settings), 8)
    axes = figure.subplots(1, len(settings), squeeze=False)[0]
    for ax, setting in zip(axes, settings, strict=True):
        means = {name: figures.means(setting, name) for name in figures.methods(setting)}
        names = sorted(means, key=lambda name: means[name].mean())
        for place, name in enumerate(names):
            colour = (
                "#D55E00" if name.startswith("lpfuse") else "#0072B2" if name[0] == "ℓ" else "0.4"
            )
            if len(figures.sets) > 1:
                found = interval(means[name])
                ax.plot([found.low, found.high], [place, place], color=colour, alpha=0.4)
            ax.plot(means[name].mean(), place, "o", color=colour)
            column = setting if name == "ℓp" else name
            printed = [row[column].mean for row in paper.UCI["auc"].values() if column in row]
            if len(printed) == len(UCI) and figures.are_the_papers:
                ax.plot(np.mean(printed), place, "x", color="black")
        ax.set_yticks(range(len(names)), names)
        ax.set_title(setting)
        ax.set_xlabel(
            "mean test AUC in %, 95 % interval over sets; × the paper's", fontsize="small"
        )
        ax.set_xlim(right=100)
        ax.grid(axis="x", alpha=0.3)
    figure.savefig(path, dpi=110)
