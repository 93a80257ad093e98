"""ℓp fusion over an elastic ball: it never paid (ADR 0053), so `LpFusion` has no such parameter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lpfuse import LpFusion
from lpfuse.optim import Problem
from lpfuse.optim.balls import ElasticBall


class ElasticFusion(LpFusion):
    """`LpFusion` with ``ρ‖v‖₁ + (1 − ρ)‖v‖₂² ≤ 1`` instead of ``‖v‖_p ≤ 1``, v = (w − w₀)/r.

    Parameters
    ----------
    l1_ratio : float in (0, 1]
        ρ.
    **parameters
        Those of `LpFusion`.

    Examples
    --------
    >>> import numpy as np
    >>> S = np.random.default_rng(0).normal([1.0, 0.5, 0.1], 0.5, size=(200, 3))
    >>> fusion = ElasticFusion(0.5).fit(S)
    >>> fusion.weights_[:2].round(2), fusion.certificate_.status
    (array([0.86, 0.31]), 'optimal')
    """

    def __init__(self, l1_ratio: float = 0.5, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.l1_ratio = l1_ratio

    def _problem(self, S: Any, y: Any, sample_weight: Any, p: float) -> Problem:
        problem = super()._problem(S, y, sample_weight, p)
        ball = problem.ball
        if self.l1_ratio == 1.0:
            problem.ball = replace(ball, p=1.0)
        else:
            common = ball.p, ball.nonnegative, ball.centre, ball.radius
            problem.ball = ElasticBall(*common, l1_ratio=self.l1_ratio)
        return problem


def fusion_with(parameters: dict[str, Any]) -> LpFusion:
    """`LpFusion` with these parameters, or `ElasticFusion` where ``l1_ratio`` is one of them.

    Examples
    --------
    >>> fusion_with({"p": 2.0}), type(fusion_with({"l1_ratio": 0.5})).__name__
    (LpFusion(p=2.0), 'ElasticFusion')
    """
    return (ElasticFusion if "l1_ratio" in parameters else LpFusion)(**parameters)
