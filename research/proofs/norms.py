"""Norms of groups of weights in exact arithmetic, and how they are drawn.

‖w‖ with groups is the p-norm of the q-norms of the groups.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from research.proofs.exact import norm_bounds

Exponent = Fraction | float


def conjugate(p: Exponent) -> Exponent:
    """``1/p + 1/q = 1``."""
    if p == math.inf:
        return Fraction(1)
    return math.inf if p == 1 else p / (p - 1)


def exponent(p: float) -> Exponent:
    """A float as a rational, or ∞."""
    return math.inf if p == math.inf else Fraction(p)


class Norm:
    """``‖v‖_p``, or of groups, as parameters of `LpFusion` state it."""

    def __init__(self, parameters: Any, R: int) -> None:
        self.p = exponent(parameters["p"])
        self.inner = exponent(parameters.get("q", 2.0))
        labels = parameters.get("groups")
        self.groups = [list(range(R))] if labels is None else []
        for label in dict.fromkeys([] if labels is None else labels):
            self.groups.append([j for j in range(R) if labels[j] == label])
        self.plain = labels is None

    def above(self, v: Sequence[Fraction]) -> Fraction:
        """An upper bound of ‖v‖, too large by 2^-190 of it at most."""
        if self.plain:
            return norm_bounds(v, self.p)[1]
        each = [norm_bounds([v[j] for j in group], self.inner)[1] for group in self.groups]
        return norm_bounds(each, self.p)[1]

    def support_below(self, v: Sequence[Fraction]) -> Fraction:
        """``max {vᵀz : ‖z‖ ≤ 1}``, too small by 2^-190 of it at most."""
        if self.plain:
            return norm_bounds(v, conjugate(self.p))[0]
        inner = conjugate(self.inner)
        each = [norm_bounds([v[j] for j in group], inner)[0] for group in self.groups]
        return norm_bounds(each, conjugate(self.p))[0]

    def float_support(self, v: np.ndarray) -> float:
        """The same in float64."""
        size = np.abs(v)
        q, most = float(conjugate(self.p)), float(size.max())
        if most and q != math.inf:
            most *= float(((size / most) ** q).sum() ** (1.0 / q))
        return most

    def bend(self, shares: np.ndarray) -> np.ndarray:
        """How steep the norm is where ``|z_j|`` are these shares of the ball, up to a factor."""
        powers = np.minimum(shares, 1.0) ** (float(self.p) - 1.0)
        return np.where(shares >= 1.0, np.inf, powers)

    def reaches(self, rows: np.ndarray) -> np.ndarray:
        """An upper bound of the support of every row, up to rounding of float64."""
        size = np.abs(rows)
        inner = float(conjugate(self.inner))
        if not self.plain:
            size = np.column_stack([_norms(size[:, group], inner) for group in self.groups])
        return _norms(size, float(conjugate(self.p)))


def _norms(size: np.ndarray, q: float) -> np.ndarray:
    return size.max(axis=1) if q == math.inf else (size**q).sum(axis=1) ** (1 / q)


def draw_norm(rng: np.random.Generator, R: int) -> dict[str, Any]:
    """Groups of any sizes with any q."""
    labels = rng.integers(0, int(rng.integers(1, R + 1)), R).tolist()
    q = rng.choice(
        [1.0, 32 / 31, 4 / 3, 2.0, 2.0, 4.0, 100.0, math.inf, 1.0 + 10 ** rng.uniform(-8, 6)]
    )
    return {"groups": labels, "q": float(q)}
