"""Norms of groups of weights and the elastic one in exact arithmetic, and how they are drawn.

‖w‖ with groups is the p-norm of the q-norms of the groups. The elastic ball of ρ is
``ρ‖z‖₁ + κ‖z‖₂² ≤ 1``, κ = 1 − ρ; its gauge and its support function are

    ½ (ρ‖z‖₁ + √(ρ²‖z‖₁² + 4κ‖z‖₂²)),     (√((4κ + kρ²) Σ v²) − ρ Σ |v|) / 2κ

with sums over the k largest entries of v, for the k at which λ² = Σ v² / (4κ + kρ²) lies between
(v_k/ρ)² and (v_{k+1}/ρ)².
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from research.proofs.exact import norm_bounds

Exponent = Fraction | float
BITS = 400  # of a square root


def conjugate(p: Exponent) -> Exponent:
    """``1/p + 1/q = 1``."""
    if p == math.inf:
        return Fraction(1)
    return math.inf if p == 1 else p / (p - 1)


def exponent(p: float) -> Exponent:
    """A float as a rational, or ∞."""
    return math.inf if p == math.inf else Fraction(p)


class Norm:
    """``‖v‖_p``, or of groups, or elastic, as parameters of `LpFusion` state it."""

    def __init__(self, parameters: Any, R: int) -> None:
        self.p = exponent(parameters["p"])
        self.inner = exponent(parameters.get("q", 2.0))
        labels = parameters.get("groups")
        self.groups = [list(range(R))] if labels is None else []
        for label in dict.fromkeys([] if labels is None else labels):
            self.groups.append([j for j in range(R) if labels[j] == label])
        self.plain = labels is None
        ratio = parameters.get("l1_ratio")
        self.ratio = None if ratio is None else Fraction(ratio)
        if self.ratio == 1:
            self.p, self.ratio = Fraction(1), None

    def above(self, v: Sequence[Fraction]) -> Fraction:
        """An upper bound of ‖v‖, too large by 2^-190 of it at most."""
        if self.ratio is not None:
            linear = self.ratio * sum(map(abs, v))
            square = linear**2 + 4 * (1 - self.ratio) * sum(x * x for x in v)
            return (linear + _root(square)[1]) / 2
        if self.plain:
            return norm_bounds(v, self.p)[1]
        each = [norm_bounds([v[j] for j in group], self.inner)[1] for group in self.groups]
        return norm_bounds(each, self.p)[1]

    def support_below(self, v: Sequence[Fraction]) -> Fraction:
        """``max {vᵀz : ‖z‖ ≤ 1}``, too small by 2^-190 of it at most."""
        if self.ratio is not None:
            return self._elastic(v)
        if self.plain:
            return norm_bounds(v, conjugate(self.p))[0]
        inner = conjugate(self.inner)
        each = [norm_bounds([v[j] for j in group], inner)[0] for group in self.groups]
        return norm_bounds(each, conjugate(self.p))[0]

    def _elastic(self, v: Sequence[Fraction]) -> Fraction:
        assert self.ratio is not None
        rho, rest = self.ratio, 4 * (1 - self.ratio)
        best = Fraction(0)
        squares = linear = Fraction(0)
        for k, x in enumerate(sorted(map(abs, v), reverse=True), 1):
            if squares and x * x * (rest + (k - 1) * rho**2) <= rho**2 * squares:
                break  # x ≤ λρ
            squares, linear = squares + x * x, linear + x
            best = 2 * (_root((rest + k * rho**2) * squares)[0] - rho * linear) / rest
        return best

    def float_support(self, v: np.ndarray) -> float:
        """The same in float64."""
        size = np.abs(v)
        if self.ratio is None:
            q = float(conjugate(self.p))
            most = float(size.max())
            if most and q != math.inf:
                most *= float(((size / most) ** q).sum() ** (1.0 / q))
            return most
        rho, rest = float(self.ratio), 4.0 * float(1 - self.ratio)
        ordered = -np.sort(-size)
        scale = rest + rho**2 * np.arange(1, size.size + 1)
        squares = np.cumsum(ordered**2)
        used = np.flatnonzero(ordered**2 * scale > rho**2 * squares)
        if not used.size:
            return 0.0
        level = math.sqrt(squares[used[-1]] / scale[used[-1]])
        if not level:
            return 0.0
        return level * (1.0 + float((np.maximum(size / level - rho, 0.0) ** 2).sum()) / rest)

    def bend(self, shares: np.ndarray) -> np.ndarray:
        """How steep the norm is where ``|z_j|`` are these shares of the ball, up to a factor."""
        if self.ratio is not None:
            return float(self.ratio) + 2.0 * float(1 - self.ratio) * shares
        powers = np.minimum(shares, 1.0) ** (float(self.p) - 1.0)
        return np.where(shares >= 1.0, np.inf, powers)

    def reaches(self, rows: np.ndarray) -> np.ndarray:
        """An upper bound of the support of every row, up to rounding of float64."""
        size = np.abs(rows)
        if self.ratio is not None:
            rho, rest = float(self.ratio), float(1 - self.ratio)
            return np.minimum(size.max(axis=1) / rho, np.sqrt((size**2).sum(axis=1) / rest))
        inner = float(conjugate(self.inner))
        if not self.plain:
            size = np.column_stack([_norms(size[:, group], inner) for group in self.groups])
        return _norms(size, float(conjugate(self.p)))


def _norms(size: np.ndarray, q: float) -> np.ndarray:
    return size.max(axis=1) if q == math.inf else (size**q).sum(axis=1) ** (1 / q)


def _root(x: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds of √x."""
    if not x:
        return x, x
    # So many bits that the root has BITS of its own, however small x is.
    bits = BITS + max(0, x.denominator.bit_length() - x.numerator.bit_length())
    root = math.isqrt((x.numerator << (2 * bits)) // x.denominator)
    return Fraction(root, 1 << bits), Fraction(root + 1, 1 << bits)


def draw_norm(rng: np.random.Generator, R: int, family: str) -> dict[str, Any]:
    """Groups of any sizes with any q, or an elastic ball of any ratio."""
    if family.startswith("elastic"):
        ratios = [0.1, 0.5, 0.9, 1.0, rng.random(), 10.0 ** rng.uniform(-9, 0)]
        return {"l1_ratio": float(rng.choice(ratios)) or 0.5}
    labels = rng.integers(0, int(rng.integers(1, R + 1)), R).tolist()
    q = rng.choice(
        [1.0, 32 / 31, 4 / 3, 2.0, 2.0, 4.0, 100.0, math.inf, 1.0 + 10 ** rng.uniform(-8, 6)]
    )
    return {"groups": labels, "q": float(q)}
