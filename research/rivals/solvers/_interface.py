"""What a rival is: a module with a name, a ladder of tolerances and two functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from research.common.judge import FusionProblem, Vector


@dataclass(frozen=True)
class Answer:
    """What a rival returns; only the weights are required.

    ``alpha`` are its dual variables in [0, 1]ⁿ; ``solver_seconds`` is the part of its time that
    was spent in the solver proper, without modelling; ``facts`` are numbers worth storing, such
    as passes or iterations.
    """

    weights: Vector
    alpha: Vector | None = None
    solver_seconds: float | None = None
    facts: dict[str, float] = field(default_factory=dict)


class Rival(Protocol):
    """A module in this folder."""

    name: str

    def tolerances(self, gap: float) -> Sequence[float]:
        """The tolerances to try, loosest first, when the judge asks for this relative gap."""

    def supports(self, problem: FusionProblem) -> bool:
        """Whether the rival can solve this problem at all."""

    def solve(self, problem: FusionProblem, tolerance: float, time_limit: float) -> Answer:
        """Solve; where the solver has a time limit of its own, set it."""


def tightening(gap: float) -> Sequence[float]:
    """The usual ladder, from two decades above the gap: a solver may do better than it promises."""
    return [gap * 10.0**k for k in (2, 1, 0, -1, -2, -3)]
