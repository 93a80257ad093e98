"""What a row costs, as a function of its residual r = 1 − y(sᵀw + b).

Each loss knows its value, its slope, and the gain of a multiplier in the dual: the dual value of a
point α is ``Σ c_i gain(α_i) − max{(Σ c_i α_i y_i s_i)ᵀz : z in the ball}``.

A new loss is one class here and an entry in `LOSSES`: the certificate is then right for it. A
solver handles it once its declaration in `lpfuse.optim.solve` names it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from lpfuse._arrays.operations import Array, namespace, positive_part


class Loss(Protocol):
    """Convex, with slope ≥ 0 wherever the margin is short of 1."""

    @property
    def name(self) -> str:
        """What users call it."""

    @property
    def multipliers(self) -> tuple[float, float]:
        """The least and the largest α with a finite gain; beyond them α proves nothing."""

    def value(self, r: Array) -> Array:
        """Cost of each row."""

    def slope(self, r: Array) -> Array:
        """Derivative of the cost in r."""

    def gain(self, alpha: Array) -> Array:
        """What α adds to the dual value: minus the convex conjugate, shifted by the 1 in r."""


@dataclass(frozen=True)
class Hinge:
    """``max(0, r)``: nothing beyond the margin, linear short of it. Multipliers are in [0, 1]."""

    name: str = "hinge"
    multipliers: tuple[float, float] = (0.0, 1.0)

    def value(self, r: Array) -> Array:
        """``max(0, r)``."""
        return positive_part(r)

    def slope(self, r: Array) -> Array:
        """1 short of the margin, else 0."""
        return namespace(r).where(r > 0, 1.0 + 0.0 * r, 0.0 * r)

    def gain(self, alpha: Array) -> Array:
        """``α``."""
        return alpha


@dataclass(frozen=True)
class LeastSquares:
    """``r²``: every row is pulled towards margin 1, from both sides. Any multiplier is allowed."""

    name: str = "least_squares"
    multipliers: tuple[float, float] = (-math.inf, math.inf)

    def value(self, r: Array) -> Array:
        """``r²``."""
        return r * r

    def slope(self, r: Array) -> Array:
        """``2r``."""
        return 2.0 * r

    def gain(self, alpha: Array) -> Array:
        """``α − α²/4``."""
        return alpha - 0.25 * alpha * alpha


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Hinge(), LeastSquares())}
