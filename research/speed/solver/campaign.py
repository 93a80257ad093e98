"""What the published page is measured by: stages that together fit an hour of one core.

All rivals run at n = 1e3 and 1e4; one that takes seconds there is asked at fewer p, and only
CLARABEL is taken to 1e5, to all p where it is done in time. The page says at how many p a rival was
asked. Sizes, limits and p were chosen by hand, from the times of a trial.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from research.rivals.solvers import OURS, names

from .problems import ALL_P

Names = tuple[str, ...]

CLARABEL = "cvxpy_clarabel"
MODELLED = ("cvxpy_clarabel_dual", "cvxpy_ecos", "cvxpy_scs")  # beside CLARABEL and QOCO
FEW_P = ("32/31", "2", "inf")  # the tallest tower of cones, one cone, none
ONE_P = ("2",)
DEFAULTS: dict[str, Any] = {"threads": 1, "repeats": 5, "once_from": 1.0, "fresh": True}


def stages(options: Namespace) -> Iterator[Namespace]:
    """The options of each stage: those given, with what the stage asks for in their place."""
    for stage in _stages():
        yield Namespace(**vars(options) | {"p": list(ALL_P), "parts": ["grid"]} | stage)


def _stages() -> Iterator[dict[str, Any]]:
    yield from _small(1_000, 4)
    yield from _small(1_000, 36, (("cvxpy_scs",), FEW_P, 15.0))
    yield from _small(1_000, 200, (MODELLED, FEW_P, 15.0))
    yield from _small(10_000, 4, (("cvxpy_scs",), FEW_P, 15.0))
    yield from _small(10_000, 36, (MODELLED, FEW_P, 15.0))
    # A run that is stopped shows a ratio of 100 only if its limit is 100 times lpfuse's time.
    slow = (
        (MODELLED, ONE_P, 10.0),
        (("algorithm1", "qoco"), FEW_P, 10.0),
        ((CLARABEL,), FEW_P, 40.0),
    )
    yield from _small(10_000, 200, *slow, time_limit=10.0)
    large = {"time_limit": 20.0, "parts": ["grid", "memory", "path"]}
    yield {**large, "n": [100_000], "R": [4], "rivals": [OURS, CLARABEL]}
    yield {**large, "n": [100_000], "R": [36, 200], "rivals": [OURS]}
    # Lower bounds, most of them, but the page on devices has nobody else to compare with.
    bounds = {"n": [100_000], "R": [36], "rivals": [CLARABEL], "p": list(FEW_P)}
    yield {**bounds, "time_limit": 20.0}
    yield {**large, "n": [1_000_000], "R": [4, 36, 128], "rivals": [OURS]}
    # Times below a millisecond are compared there: more repeats cost little.
    banknotes = {"n": [], "R": [], "rivals": names(), "parts": ["banknotes"]}
    yield {**banknotes, "time_limit": 20.0, "repeats": 15}


def _small(
    n: int, R: int, *slow: tuple[Names, Names, float], time_limit: float = 15.0
) -> Iterator[dict[str, Any]]:
    """One size: every rival on all p, but `slow` ones on the p, and to the limit, beside them."""
    size = {"n": [n], "R": [R]}
    apart = {name for rivals, _, _ in slow for name in rivals}
    quick = [name for name in names() if name not in apart]
    yield {**size, "time_limit": time_limit, "rivals": quick, "parts": ["grid", "path"]}
    for rivals, ps, limit in slow:
        yield {**size, "time_limit": limit, "rivals": list(rivals), "p": list(ps)}
