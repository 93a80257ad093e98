"""Times: of one call, of repeats that fit a budget, and of rivals that take turns."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any, TypeVar

T = TypeVar("T")
Samples = dict[str, list[float]]

FEWEST = 3  # repeats of which a median means something


def timed(
    action: Callable[[], T], clock: Callable[[], float] = time.perf_counter
) -> tuple[float, T]:
    """Seconds by the clock, that on the wall where none is given, and the result."""
    gc.collect()
    start = clock()
    result = action()
    return clock() - start, result


def cpu_timed(action: Callable[[], T]) -> tuple[float, T]:
    """Seconds that this process has worked, whoever else keeps the machine busy; and the result."""
    return timed(action, time.process_time)


def repeats_for(seconds: float, most: int, *, budget: float = 2.0, slow: float = 10.0) -> int:
    """How often to time what takes so long: as often as fits the budget, once where it is slow.

    Parameters
    ----------
    seconds : float
        Of one run.
    most : int
        Repeats at most, however fast.
    budget, slow : float
        Seconds for all repeats, and from where on one run must do. Chosen by hand: a grid of a
        thousand cells then takes hours, not days.
    """
    if seconds > slow:
        return 1
    return max(min(FEWEST, most), min(most, round(budget / max(seconds, 1e-9))))


def race(
    actions: Mapping[str, Callable[[], Any]],
    judge: Callable[[dict[str, Any]], Mapping[str, bool]],
    most: int,
    *,
    budget: float = 4.0,
    slow: float = 60.0,
    timer: Callable[[Callable[[], Any]], tuple[float, Any]] = timed,
) -> Samples:
    """Seconds of every run of every action, round by round, in one process: ratios mean something.

    The first round is handed to the judge. Those whose results it accepts run again, as often as
    suits their speed, in turns and in reversed order every other round; the others have no times.
    `timer` runs an action and returns its seconds and its result.
    """
    first = {name: timer(action) for name, action in actions.items()}
    accepted = judge({name: result for name, (_, result) in first.items()})
    samples = {name: [seconds] for name, (seconds, _) in first.items() if accepted[name]}
    del first
    rounds = {
        name: repeats_for(seconds[0], most, budget=budget, slow=slow)
        for name, seconds in samples.items()
    }
    for turn in range(1, max(rounds.values(), default=0)):
        names = list(samples) if turn % 2 == 0 else list(samples)[::-1]
        for name in names:
            if turn < rounds[name]:
                samples[name].append(timer(actions[name])[0])
    return samples


def repeated(action: Callable[[], Any], most: int, *, budget: float) -> list[float]:
    """Seconds of repeats after a warm-up by the very same call."""
    first, _ = timed(action)
    return [timed(action)[0] for _ in range(repeats_for(first, most, budget=budget, slow=math.inf))]


def ratio(samples: Mapping[str, list[float]], name: str, other: str) -> float | None:
    """How many times as long one takes: the median over the rounds that both ran in."""
    if not samples.get(name) or not samples.get(other):
        return None
    return median(a / b for a, b in zip(samples[name], samples[other], strict=False))
