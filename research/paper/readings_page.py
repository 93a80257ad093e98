"""The page of all readings of the paper, from stored rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from lpfuse._arrays.operations import Host
from research.common.comparison import Figures
from research.common.datasets import UCI
from research.common.protocol import SETTINGS
from research.common.store import Row
from research.common.tables import markdown, page, prose
from research.paper import paper
from research.paper.learners import LEARNERS

PLAIN = "as on the other pages"
TAUGHT_PREFIX = "anomalies teach"
HINDSIGHT = "HINDSIGHT"
IRIS, GLASS = ("iris, setosa", "iris, versicolor"), "glass, with its row number"
VARIANTS = (*IRIS, GLASS)
AUC, G_MEAN, G_MEAN_ON_TEST = "auc", "g_mean", "g_mean, threshold on test"


FIRST = (
    ("question", "the choice of the first reading"),
    ("kernel of a width w", "exp(−D / 2w²), with D = ‖x − x′‖²"),
    ("", "*variance*: exp(−D / 2w); *scale*: exp(−D / w²)"),
    ("", "*denominator*: exp(−D / w); *gamma*: exp(−wD)"),
    (
        "normalisation of scores",
        "s′ = (s − l) / (u − l), not clipped; ρ/2 % lie below l and above u",
    ),
    ("who learns from anomalies", "the weights; half of the known ones teach, the others validate"),
    ("scores that teach the weights", "those of the learners' own training rows"),
    ("", "*out of fold*: of rows that the learners have not seen"),
    ("", "*batch*: each part of the split is scaled by its own quantiles"),
    ("scale of the features", "means and deviations of the training normals"),
    ("threshold of the G-mean", "the best G-mean on validation, the lowest of equals"),
    ("missing values", "the median of the training normals"),
    ("ties between settings", "the widest kernel, the fewest components, first ρ, largest p"),
    ("largest q", "2, 6, 10, … up to the number of training rows"),
    ("normal class of iris", "virginica"),
)


class ReadingFigures:
    """Stored rows of all readings, as means over splits.

    Examples
    --------
    >>> row = {"set": "iris", "seed": 0, "setting": "pure", "reading": PLAIN, "metric": "auc"}
    >>> figures = ReadingFigures([row | {"values": {"ℓp": 97.0}}, row | {"values": {"ℓp": 99.0}}])
    >>> figures.of(PLAIN, "pure", "ℓp")
    array([98.])
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        rows = sorted(rows, key=lambda row: row["seed"])
        self.rows = rows
        self.names = list(dict.fromkeys(row["reading"] for row in rows))
        names = dict.fromkeys(row["set"] for row in rows)
        self.sets = [name for name in names if name not in VARIANTS]
        found: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for row in rows:
            for method, value in row["values"].items():
                key = row["reading"], row["setting"], row["metric"], method, row["set"]
                found[key].append(value)
        self._splits = {key: np.array(values) for key, values in found.items()}
        self._means = {key: float(np.mean(values)) for key, values in found.items()}

    def value(self, reading: str, setting: str, method: str, name: str, metric: str = AUC) -> float:
        """The mean over splits of one set."""
        if setting == "pure":
            reading = without_teaching(reading)
        return self._means[reading, setting, metric, method, name]

    def splits(self, reading: str, setting: str, method: str, name: str, metric: str = AUC) -> Host:
        """The values of one set, one a split."""
        if setting == "pure":
            reading = without_teaching(reading)
        return self._splits[reading, setting, metric, method, name]

    def of(self, reading: str, setting: str, method: str, metric: str = AUC) -> Host:
        """Means over splits, one a data set of the paper."""
        return np.array([self.value(reading, setting, method, name, metric) for name in self.sets])

    def has(self, reading: str, setting: str, method: str) -> bool:
        """Whether a method was measured under a reading."""
        if setting == "pure":
            reading = without_teaching(reading)
        return (reading, setting, AUC, method, self.sets[0]) in self._means

    @property
    def scope(self) -> str:
        """How much was measured, in words."""
        return Figures([row | {"method": "", "value": 0.0} for row in self.of_sets]).scope

    @property
    def of_sets(self) -> list[Row]:
        """The rows, but for those of variants of a set."""
        return [row for row in self.rows if row["set"] not in VARIANTS]

    @property
    def readings(self) -> list[str]:
        """All that choose on validation, as the paper says that it does."""
        return [name for name in self.names if HINDSIGHT not in name]

    @property
    def pure(self) -> list[str]:
        """Those that differ where there is no anomaly to learn from."""
        return list(dict.fromkeys(map(without_teaching, self.readings)))

    def distance(self, reading: str) -> tuple[float, float]:
        """Mean absolute distance to the paper's AUCs: learners, and the two columns of ℓp."""
        columns = [
            *(("pure", learner, learner) for learner in LEARNERS),
            *((setting, "ℓp", setting) for setting in SETTINGS),
        ]
        apart = [
            np.abs(self.of(reading, setting, method) - self.printed(column)).mean()
            for setting, method, column in columns
        ]
        return float(np.mean(apart[: len(LEARNERS)])), float(np.mean(apart[len(LEARNERS) :]))

    def printed(self, column: str, metric: str = AUC) -> Host:
        """The paper's cells of a column, in the order of the sets."""
        return np.array([paper.UCI[metric][name][column].mean for name in self.sets])


def without_teaching(reading: str) -> str:
    """The reading that this one is in the pure setting, where there is no anomaly to learn from.

    Examples
    --------
    >>> without_teaching("clipped, anomalies teach SVDD too, batch scores")
    'clipped, batch scores'
    >>> without_teaching("anomalies teach SVDD and GP too")
    'as on the other pages'
    """
    kept = [part for part in reading.split(", ") if not part.startswith(TAUGHT_PREFIX)]
    return ", ".join(kept) or PLAIN


def readings_page(rows: Sequence[Row], quick: bool = False, first: Figures | None = None) -> str:
    """All readings with their distance to the paper, set by set where it matters.

    `first` has ℓp under the first reading, on more splits perhaps.
    """
    figures = ReadingFigures(rows)
    scope = Figures([row | {"method": "", "value": 0.0} for row in figures.of_sets], quick)
    parts = [
        "# Every reading of the paper",
        prose(
            f"""The paper leaves open what decides on its figures: what the width of a kernel means,
            whether scaled scores are clipped, who learns from anomalies, which scores teach the
            weights, what scales features, and where the threshold of its G-mean comes from. Below
            are {len(figures.names)} readings of it, {scope.scope}. Each is a few parameters of
            [`lpfuse.paper.Pipeline`](../experiments.md#the-papers-method-in-one-call) or of the
            protocol. Mean test AUC and G-mean in %. *Distance* is the mean absolute difference to
            the paper's 40 cells of single learners and to its 20 cells of ℓp. Written by `lpfuse
            reproduce readings` from
            `readings.jsonl`, which holds every figure by set and split."""
        ),
        prose(
            """A reading is there to see what the paper's authors may have done. None of them is
            chosen for its distance, no other page uses any but the first, and a small distance is
            no proof that it is theirs."""
        ),
        "## All readings",
        markdown(_means(figures, figures.readings)),
        "## The reading of the other pages",
        markdown(FIRST, numbers=False),
    ]
    if scope.are_the_papers:
        parts += _best(figures)
    parts += [
        "## In hindsight, which is no result",
        prose(
            """Every setting, ρ, p and the threshold are chosen on the rows of the test, by their
            labels. No method may do so: these rows tell how far choosing on the test can lift the
            figures, and nothing else."""
        ),
        markdown(_means(figures, [name for name in figures.names if HINDSIGHT in name])),
    ]
    if scope.are_the_papers:
        parts += _by_set(figures, first if first is not None and first.are_the_papers else None)
    parts += _variants(figures)
    return page(*parts)


def _means(figures: ReadingFigures, names: Sequence[str]) -> list[list[str]]:
    head = [
        "reading", "sum, pure", "ℓp, pure", "sum, non-pure", "ℓp, non-pure",
        "G-mean of ℓp, pure / non-pure", "… threshold on test", "distance: learners", "ℓp",
    ]  # fmt: skip
    whole = set(figures.sets) == set(UCI)
    rows = [head]
    if whole:
        printed = {setting: figures.printed(setting).mean() for setting in SETTINGS}
        sums = {setting: paper.LP_EFFECT[setting]["linf"] for setting in SETTINGS}
        means = [f"{each[s]:.1f}" for s in SETTINGS for each in (sums, printed)]
        of_g_mean = " / ".join(f"{figures.printed(s, G_MEAN).mean():.1f}" for s in SETTINGS)
        rows.append(["*printed in the paper*", *means, of_g_mean, "", "", ""])
    for name in names:
        cells = [
            f"{figures.of(name, setting, method).mean():.1f}"
            for setting in SETTINGS
            for method in ("sum", "ℓp")
        ]
        cells += [
            " / ".join(
                f"{figures.of(name, setting, 'ℓp', metric).mean():.1f}" for setting in SETTINGS
            )
            for metric in (G_MEAN, G_MEAN_ON_TEST)
        ]
        apart = [f"{each:.1f}" for each in figures.distance(name)] if whole else ["", ""]
        rows.append([name, *cells, *apart])
    return rows


def _best(figures: ReadingFigures) -> list[str]:
    """The nearest readings, in words."""
    names = figures.readings
    by_learners = min(names, key=lambda name: figures.distance(name)[0])
    by_fusion = min(names, key=lambda name: figures.distance(name)[1])
    highest = {
        setting: max(names, key=lambda name: figures.of(name, setting, "ℓp").mean())
        for setting in SETTINGS
    }
    printed = {setting: figures.printed(setting).mean() for setting in SETTINGS}
    told = "; ".join(
        f"""{setting} {figures.of(name, setting, "ℓp").mean():.1f} (*{
            without_teaching(name) if setting == "pure" else name
        }*), where the paper prints {printed[setting]:.2f}"""
        for setting, name in highest.items()
    )
    return [
        prose(
            f"""Nearest to the paper's single learners is *{without_teaching(by_learners)}*
            (distance {figures.distance(by_learners)[0]:.1f}), nearest to its ℓp *{by_fusion}*
            ({figures.distance(by_fusion)[1]:.1f}). The highest means of ℓp: {told}."""
        )
    ]


def _by_set(figures: ReadingFigures, first: Figures | None) -> list[str]:
    """Where the difference to the paper lies: set by set, under the reading of the other pages."""
    rows = [["", *(f"{s}: {what}" for s in SETTINGS for what in ("paper", "ours", "paper − ours"))]]
    apart = {}
    for setting in SETTINGS:
        found = figures.of(PLAIN, setting, "ℓp")
        if first is not None:
            found = np.array([first.of(setting, "ℓp", name).mean() for name in figures.sets])
        apart[setting] = figures.printed(setting) - found
    scope = figures.scope if first is None else f"{first.scope} ([ten data sets](uci.md))"
    for i, name in enumerate(figures.sets):
        cells = [UCI[name].title]
        for setting in SETTINGS:
            printed = figures.printed(setting)[i]
            cells += [f"{printed:.2f}", f"{printed - apart[setting][i]:.2f}"]
            cells.append(f"{apart[setting][i]:+.1f}")
        rows.append(cells)
    glass = figures.sets.index("glass")
    told = []
    for setting in SETTINGS:
        rest = np.delete(apart[setting], glass)
        told.append(
            f"""{setting}: the differences sum to {apart[setting].sum():+.1f} points, Glass alone
            has {apart[setting][glass]:+.1f}; without it the paper's mean is {abs(rest.mean()):.1f}
            points {"above" if rest.mean() > 0 else "below"} ours"""
        )
    return [
        "## Set by set, and Glass",
        prose(f"""ℓp under the first reading, {scope}. {"; ".join(told)}."""),
        markdown(rows),
    ]


def _variants(figures: ReadingFigures) -> list[str]:
    """Data sets that Table 1 does not settle."""
    names = [name for name in VARIANTS if name in {row["set"] for row in figures.rows}]
    if not names:
        return []
    bases = [name for name in figures.sets if any(v.startswith(name) for v in names)]
    rows = [["", "GMM", "SVDD", "GP", "KPCA", "ℓp, pure", "ℓp, non-pure"]]
    for name in sorted([*names, *bases]):
        learners = [f"{figures.value(PLAIN, 'pure', m, name):.1f}" for m in LEARNERS]
        fused = [f"{figures.value(PLAIN, setting, 'ℓp', name):.1f}" for setting in SETTINGS]
        title = f"{name}, virginica" if name == "iris" else name
        rows.append([title, *learners, *fused])
        if name in bases:
            cells = [f"{paper.UCI[AUC][name][c].mean:.1f}" for c in (*LEARNERS, *SETTINGS)]
            rows.append([f"*{name}, printed in the paper*", *cells])
    return [
        "## Iris and Glass, which its Table 1 does not settle",
        prose(
            """Any of the three species of iris has the 50 normal rows of Table 1. UCI's file of
            Glass has the number of the row as its first column, and its rows lie class by class:
            with that column the normal class is an interval. Table 1 counts nine features, which
            are those without it. Under the first reading:"""
        ),
        markdown(rows),
    ]
