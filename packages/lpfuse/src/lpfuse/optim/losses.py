"""What a row costs, as a function of its residual r = 1 − y(sᵀw + b).

Each loss knows its value, its slope, and the gain of a multiplier in the dual: the dual value of a
point α is ``Σ c_i gain(α_i) − max{(Σ c_i α_i y_i s_i)ᵀz : z in the ball}``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lpfuse._arrays import Array, namespace, positive_part


class Loss(Protocol):
    """Convex, with slope ≥ 0 wherever the margin is short of 1."""

    @property
    def name(self) -> str:
        """What users call it."""

    def value(self, r: Array) -> Array:
        """Cost of each row."""

    def slope(self, r: Array) -> Array:
        """Derivative of the cost in r."""

    def gain(self, alpha: Array) -> Array:
        """Minus the convex conjugate, shifted by the 1 in r: what α adds to the dual value."""


@dataclass(frozen=True)
class Hinge:
    """``max(0, r)``: nothing beyond the margin, linear short of it. Multipliers are in [0, 1]."""

    name: str = "hinge"

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
