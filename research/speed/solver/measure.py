"""One cell of the grid: how long a rival needs until the judge accepts its answer.

The rival is run with tightening tolerances. The time that counts is that of the first run the
judge accepts, the median of several such runs; failed attempts cost it nothing. If no run is
accepted, the best gap and its time are kept; a run that overshoots the limit gives a lower
bound on the time.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from research.common.clock import repeats_for
from research.common.isolation import Isolated, Stopped
from research.common.judge import Judge

from .benches import Run

ONCE_FROM = 10.0  # seconds of a run that is not repeated


def measure(
    bench: Isolated,
    judge: Judge,
    p: str,
    tolerances: Sequence[float],
    gap: float,
    time_limit: float,
    most_repeats: int,
    once_from: float = ONCE_FROM,
) -> dict[str, Any]:
    """The record of one rival on one problem, without the names of either."""
    attempts: list[dict[str, Any]] = []
    status = "imprecise"
    for tolerance in tolerances:
        try:
            run = call_solve(bench, p, tolerance, time_limit)
        except Stopped as stop:
            attempts.append({"tolerance": tolerance, "stopped": str(stop)})
            status = stop.reason
            if status == "error":
                continue  # another tolerance may suit the solver better
            break
        attempts.append(judged(judge, run, tolerance))
        if run.seconds > time_limit:
            status = "time"
            break
        if attempts[-1]["relative_gap"] <= gap:
            status = "accepted"
            attempts[-1] |= repeated(bench, p, tolerance, time_limit, run, most_repeats, once_from)
            break
    return {"status": status, **_best(attempts), "attempts": attempts}


def call_solve(bench: Isolated, p: str, tolerance: float, time_limit: float) -> Run:
    """One run. A solver with a limit of its own gets a little longer to hand over what it has."""
    run: Run = bench.call("solve", p, tolerance, time_limit, limit=1.25 * time_limit + 5.0)
    return run


def judged(judge: Judge, run: Run, tolerance: float) -> dict[str, Any]:
    """What is stored of one run."""
    found = judge.judge(run.answer.weights, run.answer.alpha)
    return {
        "tolerance": tolerance,
        "seconds": run.seconds,
        "solver_seconds": run.answer.solver_seconds,
        "relative_gap": found.relative_gap,
        "own_gap": found.own_gap,
        "objective": found.objective,
        "norm": found.norm,
        **run.answer.facts,
    }


def repeated(
    bench: Isolated,
    p: str,
    tolerance: float,
    time_limit: float,
    first: Run,
    most: int,
    once_from: float = ONCE_FROM,
) -> dict[str, Any]:
    """Median time over repeats: as many as fit the budget, at least three unless a run is slow."""
    runs = [first]
    for _ in range(repeats_for(first.seconds, most, slow=once_from) - 1):
        try:
            runs.append(call_solve(bench, p, tolerance, time_limit))
        except Stopped:
            break
    inner = [run.answer.solver_seconds for run in runs if run.answer.solver_seconds is not None]
    samples = [run.seconds for run in runs]
    return {
        "seconds": statistics.median(samples),
        "solver_seconds": statistics.median(inner) if inner else None,
        "samples": samples,
    }


def _best(attempts: list[dict[str, Any]]) -> dict[str, Any]:
    """The attempt with the smallest gap, if any finished."""
    finished = [attempt for attempt in attempts if "relative_gap" in attempt]
    return min(finished, key=lambda attempt: float(attempt["relative_gap"]), default={})
