"""The page: regret beside fixed, oracle and average weights, from stored rows alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from lpfuse._arrays.operations import Host
from research.common.store import Record
from research.common.tables import Goal, goal_table, markdown, page, prose
from research.studies.regret.strategies import EVERY, METHODS, WINDOW
from research.studies.regret.streams import (
    ANOMALIES,
    DRIFTS,
    LABELLED,
    REGIMES,
    ROWS,
    START,
    STREAMS,
)

BEST = "best fixed"
ABOUT = {
    "ours": "`LpFusion.partial_fit`: the mixture of the next four",
    "average": "equal weights, with the intercept that is best for them at the start",
    "gradient": "gradient descent over the ball, the part that competes with the best",
    "certified": "the exact solution of the rows that are kept, a thousand of each class",
    "recent": "the exact solution of the last 200 labelled rows",
    "fixed": "fitted at the start, and left alone",
    "window": f"fitted anew to the last {WINDOW} labelled rows, every {EVERY}; no guarantee",
    BEST: "the oracle: the least loss over the whole stream, in hindsight, certified",
}
CHANGES = {
    "none": "nothing",
    "columns": "from the middle on, half of the columns are those of other rows",
    "kinds": "anomalies of one of two clusters, from the middle on of the other",
    "members": f"in each of {REGIMES} parts other detectors, half of them, judge other rows",
    "shift": "a third of the columns move away, by two standard deviations at the end",
}


def regret_page(rows: Iterable[Record]) -> str:
    """All figures as Markdown."""
    rows = list(rows)
    if not rows:
        return page("# Weights that follow, in drifting streams", "Nothing was measured yet.")
    return page(
        "# Weights that follow, in drifting streams",
        *_about(rows),
        goal_table(goals_of(rows)),
        "![regret](regret.png)",
        *_losses(rows),
        *_aucs(rows),
        *_bounds(rows),
    )


def _about(rows: Sequence[Record]) -> list[str]:
    seeds = len({row["seed"] for row in rows})
    labels = np.mean([row["labelled"] for row in rows])
    return [
        prose(
            f"""Ten tables, a stream of {ROWS:,} rows each, {seeds} times with other rows: the
            default detectors learn from normal rows of one half of a table, the stream draws from
            the other, {100 * ANOMALIES:.0f} % anomalies. The first {START} labels are known; of the
            others {100 * LABELLED:.0f} % are told, {labels:.0f} a stream, after the row was scored.
            All methods have the same fusion, `default_fusion()`, and pay the same costs for the
            same labelled rows. The method was made while looking at another seed of the same
            tables. Made by `python -m research.studies.regret page` from the rows in
            `research/results/studies/regret`; `… run` measures what is missing."""
        ),
        markdown([["method", "weights"], *([k, v] for k, v in ABOUT.items())], numbers=False),
        markdown(
            [["drift", "what changes", "tables"]]
            + [[name, CHANGES[name], ", ".join(_tables(name))] for name in DRIFTS],
            numbers=False,
        ),
    ]


def _tables(drift: str) -> list[str]:
    return [name for name, of in STREAMS.items() if of == drift]


# ---------------------------------------------------------------------------------------- figures


def mean_loss(row: Record, method: str) -> float:
    """Loss of a labelled row, in thousandths."""
    return 1000 * float(row["losses"][method][-1]) / float(row["labelled"])


def mean_auc(row: Record, method: str) -> float:
    """Over blocks."""
    return float(np.mean([auc for auc in row["aucs"][method] if auc is not None]))


def regret(row: Record, to: str) -> float:
    """Of ours, in all."""
    return float(row["losses"]["ours"][-1]) - float(row["losses"][to][-1])


def by_stream(rows: Sequence[Record], of: Callable[[Record], float]) -> Host:
    """The mean over seeds for each stream."""
    names = sorted({row["stream"] for row in rows})
    return np.array([np.mean([of(row) for row in rows if row["stream"] == n]) for n in names])


def told(values: Host, digits: int = 1) -> str:
    """A mean over streams with its standard error."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{np.mean(values):.{digits}f} ± {error:.{digits}f}"


def goals_of(rows: Sequence[Record]) -> list[Goal]:
    """What following must reach."""
    kept = [regret(row, "average") <= row["bounds"]["average"] for row in rows]
    best = [regret(row, BEST) <= row["bounds"]["best"] for row in rows]
    drifting = [row for row in rows if row["drift"] != "none"]

    def against(method: str, some: Sequence[Record]) -> Host:
        return by_stream(some, lambda row: mean_loss(row, "ours") - mean_loss(row, method))

    goals = [
        Goal("regret to the average within its bound", "always", _share(kept), all(kept)),
        Goal(
            "regret to the best fixed weights within its bound", "always", _share(best), all(best)
        ),
    ]
    for title, method, some in (
        ("loss against the average, all streams", "average", rows),
        ("loss against fixed weights, drifting streams", "fixed", drifting),
        ("loss against the sliding window, all streams", "window", rows),
    ):
        if some:
            gain = against(method, some)
            goals.append(Goal(title, "below 0", told(gain), bool(gain.mean() < 0)))
    return goals


def _share(kept: Sequence[bool]) -> str:
    return f"{sum(kept)} of {len(kept)} streams"


def _losses(rows: Sequence[Record]) -> list[str]:
    return [
        "## Loss of a labelled row, in thousandths",
        prose(
            """Hinge loss times cost, mean over seeds; last line: mean over streams ± standard
            error. Lower is better."""
        ),
        _table(rows, mean_loss),
    ]


def _aucs(rows: Sequence[Record]) -> list[str]:
    return [
        "## AUC, each row scored by the weights of its time",
        prose("In per cent, mean over blocks of 200 rows and over seeds. Higher is better."),
        _table(rows, mean_auc),
    ]


def _table(rows: Sequence[Record], of: Callable[[Record, str], float]) -> str:
    lines = [["stream", *METHODS]]
    for name, drift in STREAMS.items():
        here = [row for row in rows if row["stream"] == name]
        if here:
            figures = [f"{np.mean([of(row, method) for row in here]):.1f}" for method in METHODS]
            lines.append([f"{name}, {drift}", *figures])
    whole = [told(by_stream(rows, lambda row, m=method: of(row, m))) for method in METHODS]
    return markdown([*lines, ["**mean**", *whole]])


def _bounds(rows: Sequence[Record]) -> list[str]:
    lines = [
        ["stream", "to the average", "bound", "to the best fixed", "bound", "loss of the best"]
    ]
    for name, drift in STREAMS.items():
        here = [row for row in rows if row["stream"] == name]
        if here:
            figures = [
                [regret(row, "average") for row in here],
                [row["bounds"]["average"] for row in here],
                [regret(row, BEST) for row in here],
                [row["bounds"]["best"] for row in here],
                [row["losses"][BEST][-1] for row in here],
            ]
            lines.append([f"{name}, {drift}", *(f"{np.mean(figure):.1f}" for figure in figures)])
    gap = max(row["gap"] for row in rows)
    seconds = 1e3 * float(np.median([row["seconds"] for row in rows]))
    return [
        "## Regret and its bounds",
        prose(
            """Sums over the labelled rows of a stream, mean over seeds: below 0 ours lost less. The
            bounds hold for any rows, in any order."""
        ),
        markdown(lines),
        prose(
            f"""The best fixed weights are certified to a relative gap of {gap:.0e} or less. A
            labelled row took {seconds:.1f} ms (median over streams, one row a call, with checks and
            solves)."""
        ),
    ]
