"""Times that may be divided by each other: rivals take turns, in one process and one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from research.common.clock import timed

Samples = dict[str, list[float]]

FEWEST, BUDGET_SECONDS, SLOW_SECONDS = 3, 4.0, 60.0


def race(
    actions: Mapping[str, Callable[[], Any]],
    judge: Callable[[dict[str, Any]], Mapping[str, bool]],
    most: int,
) -> Samples:
    """Seconds of every run of every action, round by round.

    The first round is handed to the judge. Those whose results it accepts run again, as often as
    suits their speed, in turns and in reversed order every other round; the others have no times.
    """
    first = {name: timed(action) for name, action in actions.items()}
    accepted = judge({name: result for name, (_, result) in first.items()})
    samples = {name: [seconds] for name, (seconds, _) in first.items() if accepted[name]}
    del first
    rounds = {name: rounds_for(seconds[0], most) for name, seconds in samples.items()}
    for turn in range(1, max(rounds.values(), default=0)):
        names = list(samples) if turn % 2 == 0 else list(samples)[::-1]
        for name in names:
            if turn < rounds[name]:
                samples[name].append(timed(actions[name])[0])
    return samples


def rounds_for(seconds: float, most: int) -> int:
    """As many as fit the budget; one where a run is slow."""
    if seconds > SLOW_SECONDS:
        return 1
    return max(min(FEWEST, most), min(most, round(BUDGET_SECONDS / max(seconds, 1e-9))))


def ratio(samples: Mapping[str, list[float]], name: str, other: str) -> float | None:
    """How many times as long one takes: the median over the rounds that both ran in."""
    if not samples.get(name) or not samples.get(other):
        return None
    return median(a / b for a, b in zip(samples[name], samples[other], strict=False))
