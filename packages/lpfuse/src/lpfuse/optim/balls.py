"""The constraint set: the unit ℓp ball, optionally cut to non-negative weights.

Everything that mentions p is here. Vectors have R entries and live on the host.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def _norm(v: Vector, p: float) -> float:
    """``‖v‖_p`` without overflow: the largest entry is divided out before any power is taken."""
    size = np.abs(v)
    top = float(size.max(initial=0.0))
    if top == 0.0 or p == np.inf:
        return top
    if p == 1.0:
        return float(size.sum())
    return top * float(((size / top) ** p).sum() ** (1.0 / p))


@dataclass(frozen=True)
class LpBall:
    """The set ``{w : ‖w‖_p ≤ 1}``, with ``w ≥ 0`` added when `nonnegative`.

    Parameters
    ----------
    p : float in [1, ∞]
        1 favours a single learner, ∞ trusts all of them.
    nonnegative : bool
        Keep only the part of the ball with ``w ≥ 0``.

    Examples
    --------
    >>> import numpy as np
    >>> ball = LpBall(2.0)
    >>> ball.norm(np.array([3.0, 4.0])), ball.dual_norm(np.array([3.0, 4.0]))
    (5.0, 5.0)
    >>> ball.linear_oracle(np.array([3.0, -4.0]))
    array([-0.6,  0.8])
    """

    p: float
    nonnegative: bool = False

    @property
    def q(self) -> float:
        """The conjugate exponent: ``1/p + 1/q = 1``."""
        if self.p == 1.0:
            return np.inf
        return 1.0 if self.p == np.inf else self.p / (self.p - 1.0)

    def norm(self, w: Vector) -> float:
        """``‖w‖_p``."""
        return _norm(w, self.p)

    def dual_norm(self, v: Vector) -> float:
        """``max {vᵀz : z in the ball}``: ``‖v‖_q``, of the positive part when `nonnegative`."""
        return _norm(np.maximum(v, 0.0) if self.nonnegative else v, self.q)

    def linear_oracle(self, g: Vector) -> Vector:
        """``argmin {gᵀz : z in the ball}``; the zero vector where g gives no direction.

        The gradient is divided by its largest entry first: its power reaches 31 on the paper's
        grid of p and would overflow. At p = 1 the first of several equal entries wins.
        """
        v = np.maximum(-g, 0.0) if self.nonnegative else -g
        size = np.abs(v)
        top = size.max(initial=0.0)
        if top == 0.0:
            return np.zeros_like(v)
        if self.p == 1.0:
            z = np.zeros_like(v)
            best = int(np.argmax(size))
            z[best] = np.sign(v[best])
            return z
        if self.p == np.inf:
            return np.sign(v)
        z = np.sign(v) * (size / top) ** (1.0 / (self.p - 1.0))
        return z / _norm(z, self.p)

    def scale_into(self, w: Vector) -> Vector:
        """The multiple of w nearest to w that lies in the ball (negative entries cut first)."""
        if self.nonnegative:
            w = np.maximum(w, 0.0)
        # One rounding error of slack keeps ‖w‖_p ≤ 1 true in floating point as well.
        norm = self.norm(w) * (1.0 + 1e-15)
        return w / norm if norm > 1.0 else w

    def uniform(self, size: int) -> Vector:
        """``R^{-1/p} · 1``: equal weights on the surface, the start of the paper's Algorithm 1."""
        return np.full(size, 1.0 if self.p == np.inf else size ** (-1.0 / self.p))
