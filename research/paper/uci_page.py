"""The page of the ten data sets: tables of ours beside the paper's, and what they tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from lpfuse._arrays.operations import Host
from research.common.comparison import Figures
from research.common.datasets import UCI
from research.common.drawing import new_figure
from research.common.protocol import SETTINGS
from research.common.ranks import critical_difference, friedman, mean_ranks
from research.common.statistics import Comparison, compare, corrected, interval
from research.common.tables import gain, markdown, page, prose
from research.paper import paper
from research.paper.doubts import METRICS, doubts
from research.paper.learners import LEARNERS
from research.rivals.fusion import NOTES

OURS = "lpfuse, validated"
# Controls: the same detectors and the same labels, without lpfuse's weights.
OUR_SUM, VALIDATED_SUM = "sum of lpfuse's pool", "sum of the validated pool"
OUR_PICK, OUR_STACKER = "picked from lpfuse's pool", "stacker on lpfuse's scores"
CONTENDERS = ("ℓp", "lpfuse, defaults", OURS, "lpfuse, all known")
SUPERVISED_ALONE = ("trees alone", "boosting alone", "SVM alone")
CONTROLS = (OUR_SUM, VALIDATED_SUM, OUR_PICK, OUR_STACKER, *SUPERVISED_ALONE)
REFERENCES = ("sum", "best single", *CONTROLS)
# What the paper's table calls them, who they are here, and the metric that is printed.
QUOTED = (
    ("Fatemifar", "genetic", "g_mean"),
    ("DEOD homogeneous", "dynamic bootstraps", "auc"),
    ("DEOD heterogeneous", "dynamic", "auc"),
    ("FNDF", "iterative", "auc"),
)
OWN_NOTES = {
    OURS: """`FusedDetector` of SVDD, GP, KPCA, GMM, isolation forest and LOF, each with its best
        setting on validation, the best m of them; with experts where anomalies teach""",
    "lpfuse, defaults": "`FusedDetector()`, nothing chosen",
    "lpfuse, local": """the same detectors, weights by region: in the style of Nourmohammadi et al.
        (2024)""",
    "lpfuse, all known": """`FusedDetector()`, taught by all known anomalies: it keeps none for
        choosing""",
    "best single": "of the four learners, the one that is best on validation",
    "product": 'of probabilities, `FixedRule("product")`',
    "product of scores": """the plain product of scores from 0 to 1, as it is usually written; what
        scores below 0 count for is chosen on validation""",
    OUR_SUM: "all detectors of `FusedDetector()`, experts included, on one scale, added up",
    OUR_PICK: "of the same detectors, the one that is best on validation",
    OUR_STACKER: "a logistic regression of the same scores, its strength chosen on validation",
    VALIDATED_SUM: f"the plain sum of the very detectors of *{OURS}*",
    "trees alone": "300 extremely randomised trees that learn from the same rows and labels",
    "boosting alone": "boosted trees, likewise",
    "SVM alone": "a support vector machine, likewise",
    "…, out of fold": """the same on scores of rows that the learners have not seen; otherwise, as
        in the paper, on scores of their own training rows""",
}


def out_of_fold(method: str) -> str:
    """What a method is called that learns from scores out of fold."""
    return f"{method}, out of fold"


def uci_page(figures: Figures, drawn: str) -> str:
    """All tables, as Markdown; `drawn` is the line that shows the figure."""
    measured = dict.fromkeys(m for setting in SETTINGS for m in figures.methods(setting))
    measured |= {"…, out of fold": None} if any("out of fold" in name for name in measured) else {}
    notes = {name: text for name, text in {**NOTES, **OWN_NOTES}.items() if name in measured}
    return page(
        "# The paper's ten data sets" if figures.are_the_papers else "# Under the paper's protocol",
        prose(
            f"""{figures.scope[0].upper()}{figures.scope[1:]}: normal rows 70/20/10 for training,
            validation, test; anomalies half for validation, half for the test, and in the
            *non-pure* setting half of the former teach the weights. Widths, q, ρ and p are chosen
            on validation, and so is the threshold behind the G-mean. GMM, SVDD, GP, KPCA, sum and
            ℓp are the paper's methods in the paper's way (scores of the learners' own training
            rows, no balance of the classes), the weights solved to a certified optimum. Rivals
            have every ρ and a grid of their own settings to choose from on the same validation
            rows, and learn from the same anomalies where the paper's weights do. Written by `lpfuse
            reproduce uci` from `uci.jsonl`."""
        ),
        *_main_tables(figures),
        *_gains(figures),
        drawn,
        *_quoted(figures),
        "## Every method",
        prose(
            """In brackets what has the same figures on every split, as rules of four detectors
            must: the average of maxima over groups of one is the sum. It has no rank."""
        ),
        _everyone(figures),
        "\n".join(prose(f"- *{name}*: {text}.") for name, text in notes.items()),
        *doubts(figures.sets),
    )


_COLUMNS = (
    *((learner, "pure", learner) for learner in LEARNERS),
    ("sum", "pure", None),
    ("ℓp", "pure", "pure"),
    ("ℓp", "non-pure", "non-pure"),
    (OURS, "pure", None),
    (OURS, "non-pure", None),
    (VALIDATED_SUM, "non-pure", None),
    (OUR_SUM, "non-pure", None),
    ("trees alone", "non-pure", None),
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
    return "" if printed is None else f" ({printed.mean:.2f})"


def _mean(figures: Figures, metric: str, method: str, setting: str, column: str | None) -> str:
    mean = f"**{figures.means(setting, method, metric).mean():.1f}**"
    if column is None or not figures.are_the_papers:
        return mean
    printed = [row[column].mean for row in paper.UCI[metric].values()]
    return f"{mean} ({np.mean(printed):.2f})"


def comparisons(figures: Figures, setting: str) -> dict[tuple[str, str], Comparison]:
    """Contenders against the references, paired by data set: (contender, reference) → comparison.

    P-values are Holm's, for all comparisons of a contender in the setting. The paper's ℓp has no
    part in lpfuse's controls.
    """
    measured = figures.methods(setting)
    found: dict[tuple[str, str], Comparison] = {}
    for name in CONTENDERS:
        references = [
            r for r in REFERENCES if r in measured and not (name == "ℓp" and r in CONTROLS)
        ]
        if name in measured and references:
            against = {
                (name, r): compare(figures.means(setting, name), figures.means(setting, r))
                for r in references
            }
            found |= corrected(against)
    return found


def _gains(figures: Figures) -> list[str]:
    """A section, where there are sets enough to compare over."""
    if len(figures.sets) < 2:
        return []
    tables = [
        part
        for setting in SETTINGS
        if (found := comparisons(figures, setting))
        for part in (f"**{setting}**", gains_table(found))
    ]
    about = """Difference of the mean AUC with its 95 % interval over data sets; sets won : equal :
        lost; Wilcoxon's p-value, with Holm's correction for the comparisons of a column. What is
        compared with stands on the left: the paper's references, and the controls of lpfuse, which
        have its detectors and its labels, but not its weights."""
    return ["## Which gains are real", prose(about), *tables] if tables else []


def gains_table(found: Mapping[tuple[str, str], Comparison]) -> str:
    """Contenders in columns, who they are compared with in rows."""
    contenders = [name for name in CONTENDERS if any(name == pair[0] for pair in found)]
    references = [name for name in REFERENCES if any(name == pair[1] for pair in found)]
    rows = [["against", *contenders]]
    for reference in references:
        cells = [found.get((name, reference)) for name in contenders]
        rows.append([reference, *("" if cell is None else gain(cell) for cell in cells)])
    return markdown(rows)


def _quoted(figures: Figures) -> list[str]:
    """Methods of the literature that the paper quotes, set by set, beside the printed figures."""
    shown = [
        (printed, name, metric)
        for printed, method, metric in QUOTED
        for name in (method, out_of_fold(method))
        if name in figures.methods("pure")
    ]
    if not shown or not set(figures.sets) & set(UCI):
        return []
    heads = [f"{name} ({printed}), {METRICS[metric]}" for printed, name, metric in shown]
    rows = [["", *heads]]
    for name in figures.sets:
        title = f"{UCI[name].code} {UCI[name].title}" if name in UCI else name
        cells = [
            _spread(figures.of("pure", method, name, metric))
            + _beside(paper.UCI[metric].get(name, {}).get(printed))
            for printed, method, metric in shown
        ]
        rows.append([title, *cells])
    about = """In the pure setting, in %, with what the paper prints in brackets, where it prints
        anything. It quotes these figures from the literature, whose splits and settings are not its
        own; ours are in the style of these methods, on the paper's learners or pools of our own."""
    return ["## The literature that the paper quotes", prose(about), markdown(rows)]


def same_figures(figures: Figures, setting: str) -> dict[str, str]:
    """Methods that have the figures of an earlier one on every split: name → the earlier one."""
    first: dict[bytes, str] = {}
    found: dict[str, str] = {}
    for name in figures.methods(setting):
        values = np.concatenate([figures.of(setting, name, each) for each in figures.sets])
        earlier = first.setdefault(values.tobytes(), name)
        if earlier != name:
            found[name] = earlier
    return found


def _everyone(figures: Figures) -> str:
    """Mean AUC, mean rank and mean G-mean of all methods, in every setting."""
    columns: dict[str, dict[str, list[str]]] = {}
    heads: list[str] = []
    settings = [setting for setting in SETTINGS if figures.methods(setting)]
    for setting in settings:
        same = same_figures(figures, setting)
        names = [name for name in figures.methods(setting) if name not in same]
        aucs = figures.table(setting, names)
        told = ""
        if len(aucs) > 1 and len(names) > 2:
            difference = critical_difference(len(names), len(aucs))
            told = f" (Friedman p = {friedman(aucs).p_value:.1g}, CD {difference:.1f})"
        heads += [f"{setting}: AUC", f"rank{told}", "G-mean"]
        ranks = dict(zip(names, mean_ranks(aucs), strict=True))
        for name in figures.methods(setting):
            auc, g_mean = (figures.means(setting, name, metric).mean() for metric in METRICS)
            rank = f"({same[name]})" if name in same else f"{ranks[name]:.1f}"
            columns.setdefault(name, {})[setting] = [f"{auc:.1f}", rank, f"{g_mean:.1f}"]
    empty = ["", "", ""]
    rows = [
        [name, *(cell for setting in settings for cell in by_setting.get(setting, empty))]
        for name, by_setting in columns.items()
    ]
    return markdown([["", *heads], *rows])


def draw(figures: Figures, path: Path) -> None:
    """Mean AUC of every method with its interval over sets, and what the paper prints."""
    settings = [setting for setting in SETTINGS if figures.methods(setting)]
    most = max(len(figures.methods(setting)) for setting in settings)
    figure = new_figure(5.5 * len(settings), 1.5 + 0.24 * most)
    axes = figure.subplots(1, len(settings), squeeze=False)[0]
    for ax, setting in zip(axes, settings, strict=True):
        means = {name: figures.means(setting, name) for name in figures.methods(setting)}
        names = sorted(means, key=lambda name: means[name].mean())
        for place, name in enumerate(names):
            colour = (
                "#D55E00"
                if name.startswith("lpfuse")
                else "#0072B2"
                if name[0] == "ℓ"
                else "#009E73"
                if name in CONTROLS
                else "0.4"
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
        ax.set_ylim(-1, len(names))
        ax.set_title(setting)
        ax.set_xlabel(
            "mean test AUC in %, 95 % interval over sets; × the paper's\n"
            "orange lpfuse, green its controls, blue ℓp",
            fontsize="small",
        )
        ax.set_xlim(right=100)
        ax.grid(axis="x", alpha=0.3)
    figure.savefig(path, dpi=110)
