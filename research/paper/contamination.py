"""``lpfuse reproduce contamination``: hidden anomalies among the training rows, from 0 to 20 %.

The paper chooses the hinge because large errors of outliers count linearly. Here it can show it:
some of the known anomalies join the training normals, and nobody is told. All else is the pure
setting of the protocol; validation keeps the other known anomalies, the same at every level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse.ensemble import FusedDetector
from research.common.experiment import measure_splits
from research.common.options import Options
from research.common.protocol import FittedMethod, Method, TrainingData, threshold
from research.common.splits import Split
from research.common.statistics import Comparison, compare, corrected
from research.common.store import Row, write_whole
from research.common.tables import gain, markdown, page, prose
from research.paper.held_out import out_of_fold_tables, shared_tables
from research.paper.methods import OUT_OF_FOLD_PRESET, PAPER_SCALE, Preset, fusion, lp
from research.paper.uci import ensemble
from research.rivals.fusion import ENSEMBLES, RIVALS

LEVELS: tuple[float, ...] = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)  # of the training rows
HINGE, SQUARES, SUM, ITERATIVE, OURS = (
    "ℓp, hinge", "ℓp, least squares", "sum", "iterative", "lpfuse",
)  # fmt: skip
OUR_SUM = "sum of lpfuse's pool"
HIDDEN = 0.5  # of the known anomalies; validation keeps the others
SPLITS = 3  # of the ten


# Readings that change what the weights learn from, for the claim that the hinge is robust.
CLIPPED = PAPER_SCALE | {"clip": True}
READINGS: Mapping[str, Preset] = {
    "clipped": Preset("clipped", shared_tables, CLIPPED),
    "out of fold scores": OUT_OF_FOLD_PRESET,
    "clipped, out of fold scores": Preset("clipped, out of fold", out_of_fold_tables, CLIPPED),
}


def run(options: Options) -> str:
    """Measure what is missing, write results and page, and return the page."""
    text = contamination_page(Levels(measured(options)), of_readings(options))
    write_whole(options.page_folder / "contamination.md", text)
    return text


def measured(options: Options) -> list[Row]:
    """The rows, measured where they are missing."""
    return _measured("contamination", rows_of, list(METHODS), options)


def of_readings(options: Options) -> dict[str, Levels]:
    """The hinge and least squares under other readings of the paper."""
    rows = _measured("robustness", reading_rows, list(READINGS), options)
    return {name: Levels([row for row in rows if row["reading"] == name]) for name in READINGS}


def _measured(
    name: str, work: Callable[..., list[Row]], methods: list[str], options: Options
) -> list[Row]:
    options = replace(options, seeds=min(options.seeds, SPLITS))
    levels = LEVELS[::2] if options.quick else LEVELS
    task = partial(work, levels=levels)
    return measure_splits(name, task, options, quick_splits=1, levels=levels, methods=methods)


def _as_they_come(training: TrainingData, fusion: Any = None) -> FittedMethod:
    """`FusedDetector()`, told that nobody looked at the rows."""
    key = "as they come"
    if key not in training.cache:
        options: dict[str, Any] = {"calibration": "plain", "random_state": training.seed}
        training.cache[key] = FusedDetector(**options).fit(training.normals)
    fused = training.cache[key]
    if fusion is not None:
        fused = fused.with_fusion(fusion)
    scores = fused.score_samples(training.validation)
    return FittedMethod(fused.score_samples, threshold(training, scores))


METHODS: Mapping[str, Method] = {
    SUM: fusion(RIVALS["sum"]),
    HINGE: lp(),
    SQUARES: lp(loss="least_squares"),
    ITERATIVE: ensemble(ITERATIVE, ENSEMBLES[ITERATIVE]),
    OUR_SUM: lambda training: _as_they_come(training, RIVALS["sum"](training.seed)),
    OURS: _as_they_come,
}


def rows_of(parts: Split, levels: Sequence[float]) -> list[Row]:
    """AUC and G-mean of every method at the levels that there are anomalies enough for."""
    rows: list[Row] = []
    for level in levels:
        training = contaminated(parts, level)
        if training is None:
            continue
        for method, learn in METHODS.items():
            found = parts.judge(learn(training))
            rows += [
                {"setting": name_of(level), "method": method, "metric": metric, "value": value}
                for metric, value in found.items()
            ]
    return rows


def reading_rows(parts: Split, levels: Sequence[float]) -> list[Row]:
    """AUC of the hinge and of least squares under each of `READINGS`."""
    found = []
    for level in levels:
        training = contaminated(parts, level) if level > 0 else None
        if training is None:
            continue
        for name, preset in READINGS.items():
            for method, loss in {HINGE: "hinge", SQUARES: "least_squares"}.items():
                value = parts.judge(lp(loss=loss, preset=preset)(training))["auc"]
                row = {"setting": name_of(level), "reading": name, "method": method}
                found.append({**row, "metric": "auc", "value": value})
    return found


def contaminated(parts: Split, level: float) -> TrainingData | None:
    """The pure setting with so large a share of anomalies among the normals; None: too few."""
    cut = round(HIDDEN * len(parts.known))
    hidden = round(level / (1 - level) * len(parts.train))
    if hidden > cut:
        return None
    kept = parts.known[cut:]
    return TrainingData(
        np.concatenate([parts.train, parts.known[:hidden]]),
        parts.known[:0],
        np.concatenate([parts.held_out, kept]),
        np.repeat([1.0, -1.0], [len(parts.held_out), len(kept)]),
        parts.protocol,
        parts.seed,
    )


def name_of(level: float) -> str:
    """The setting of a row.

    Examples
    --------
    >>> name_of(0.05)
    '5 %'
    """
    return f"{100 * level:g} %"


class Levels:
    """Rows, by level and method.

    Examples
    --------
    >>> row = {"set": "iris", "seed": 0, "setting": "5 %", "method": "sum", "metric": "auc"}
    >>> Levels([row | {"value": 97.0}, row | {"seed": 1, "value": 99.0}]).means("5 %", "sum")
    {'iris': 98.0}
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        rows = list(rows)
        self.levels = list(dict.fromkeys(row["setting"] for row in rows))
        self.sets = len({row["set"] for row in rows})
        self.seeds = len({row["seed"] for row in rows})
        self._values: dict[tuple[str, str, str], dict[str, list[float]]] = {}
        for row in rows:
            key = row["setting"], row["method"], row["metric"]
            self._values.setdefault(key, {}).setdefault(row["set"], []).append(row["value"])

    def means(self, level: str, method: str, metric: str = "auc") -> dict[str, float]:
        """Set → mean over splits."""
        found = self._values[level, method, metric]
        return {name: float(np.mean(values)) for name, values in found.items()}

    def pair(self, one: tuple[str, str], other: tuple[str, str]) -> tuple[Host, Host]:
        """Means of two (level, method) on the sets that have both."""
        left, right = self.means(*one), self.means(*other)
        names = [name for name in left if name in right]
        return np.array([left[n] for n in names]), np.array([right[n] for n in names])


def differences(figures: Levels, rival: str = SQUARES, ours: str = HINGE) -> dict[str, Comparison]:
    """The hinge against least squares at each level above 0."""
    dirty = [level for level in figures.levels if level != name_of(0.0)]
    return {level: compare(*figures.pair((level, ours), (level, rival))) for level in dirty}


def robustness(figures: Levels, rival: str = SQUARES, ours: str = HINGE) -> dict[str, Comparison]:
    """`differences` with p-values corrected after Holm."""
    return corrected(differences(figures, rival, ours))


def contamination_page(figures: Levels, others: Mapping[str, Levels] | None = None) -> str:
    """Means, what hidden anomalies cost, and whether the hinge is the robust one."""
    clean = name_of(0.0)
    dirty = [level for level in figures.levels if level != clean]
    counts = {level: len(figures.means(level, SUM)) for level in figures.levels}
    heads = [f"{level} ({counts[level]} sets)" for level in figures.levels]
    means = [["", *heads]]
    costs = [
        ["", *(head for head, level in zip(heads, figures.levels, strict=True) if level != clean)]
    ]
    for method in METHODS:
        means.append(
            [
                method,
                *(
                    f"{np.mean(list(figures.means(x, method).values())):.1f}"
                    for x in figures.levels
                ),
            ]
        )
        lost = [figures.pair((level, method), (clean, method)) for level in dirty]
        costs.append([method, *(f"{np.mean(one - other):+.1f}" for one, other in lost)])
    tests = [["", *costs[0][1:]]]
    for ours, rival in (
        (HINGE, SQUARES),
        (HINGE, SUM),
        (OURS, HINGE),
        (OURS, OUR_SUM),
        (OURS, ITERATIVE),
    ):
        tests.append([f"{ours} − {rival}", *map(gain, robustness(figures, rival, ours).values())])
    for reading, of_reading in (others or {}).items():
        told = f"{HINGE} − {SQUARES}: {reading}"
        tests.append([told, *map(gain, robustness(of_reading).values())])
    return page(
        "# Hidden anomalies among the training rows",
        prose(
            f"""Mean test AUC in %, {figures.seeds} random splits of each of {figures.sets} data
            sets. Of the known anomalies half may hide among the training normals, as many as the
            level says, and the others validate; a level is measured on the sets that have anomalies
            enough. Everyone takes the rows for normal: the paper's learners, weights and
            normalisation with settings chosen on validation, *{ITERATIVE}* (in the style of FNDF,
            made for such rows), and *{OURS}*, `FusedDetector().fit(X)`, which chooses nothing.
            Written by `lpfuse reproduce contamination` from `contamination.jsonl` and
            `robustness.jsonl`."""
        ),
        markdown(means),
        "## What hidden anomalies cost",
        "Against the same method on the same sets without them, in points:",
        markdown(costs),
        "## Who is the robust one",
        prose(
            """Mean gain with its 95 % interval over sets, sets won : equal : lost, Wilcoxon's
            p-value with Holm's correction for the levels. The last rows are under other [readings
            of the paper](readings.md):"""
        ),
        markdown(tests),
    )
