"""A fusion problem in exact rationals: the value of weights, and what a witness proves.

minimise  f(w, b) = Σ c_i loss(1 − y_i (s_iᵀw + b))  subject to  ‖w − w₀‖ ≤ r (and w ≥ 0)

For multipliers α and any (w, b), by convexity of the loss,

    f(w, b) ≥ Σ c_i gain(α_i) − vᵀw − βb,    v = Σ c_i α_i y_i s_i,    β = Σ c_i α_i y_i,

with gain(α) = α for α in [0, 1] (hinge) and α − α²/4 (least squares). Without an intercept this
proves ``D(α) = Σ c gain(α) − σ(v)``, σ(v) = max{vᵀw : w in the ball}. Nothing here is shared with
the library, and nothing is rounded but powers, which come as bounds (`research.proofs.exact`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from research.proofs.exact import dyadic, power_of_two
from research.proofs.norms import Norm

Vector = NDArray[np.float64]

IMAGINARY_SCORE = -2.0
SAFE = 1 + 1e-9  # what bounds in float64 are widened by; they err by less than 1e-13
STEPS = 16  # of a search over the exponents of float64: the result is within a tenth


class ExactProblem:
    """What the user passed, as integers: row i is ``rows[i] · 2^e``, its cost ``c[i] · unit``."""

    def __init__(self, S: Any, y: Any, sample_weight: Any, parameters: Mapping[str, Any]) -> None:
        S = np.asarray(S, dtype=np.float64)
        n, R = S.shape
        y = np.ones(n) if y is None else np.asarray(y, dtype=np.float64)
        mass = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if imaginary := float(parameters.get("imaginary_anomalies", 0.0)):
            S = np.vstack([S, np.full((1, R), IMAGINARY_SCORE)])
            y, mass = np.append(y, -1.0), np.append(mass, imaginary)
        self.of_ball = Norm(parameters, R)
        self.squares = parameters.get("loss", "hinge") == "least_squares"
        self.nonnegative = bool(parameters.get("nonnegative", False))
        prior = parameters.get("prior")
        self.centre = [Fraction(float(x)) for x in (np.zeros(R) if prior is None else prior)]
        self.radius = Fraction(float(parameters.get("radius", 1.0)))
        self.y = [1 if label > 0 else -1 for label in y]
        self.fit_intercept = bool(parameters.get("fit_intercept", False)) and -1 in self.y
        flat, self.e = dyadic(S)
        self.rows = [flat[i : i + R] for i in range(0, len(flat), R)]
        self.R = R
        self._set_costs(mass, parameters.get("class_weight") == "balanced")

    def _set_costs(self, mass: np.ndarray, balanced: bool) -> None:
        whole, e = dyadic(mass)
        unit = power_of_two(e)
        by_class = [sum(m for m, y in zip(whole, self.y, strict=True) if y == k) for k in (1, -1)]
        if balanced and all(by_class):
            # The factors Σ / (2 Σ₊) and Σ / (2 Σ₋), over their common denominator.
            everything, (normal, anomalies) = sum(by_class), by_class
            factors = {1: everything * anomalies, -1: everything * normal}
            whole = [m * factors[y] for m, y in zip(whole, self.y, strict=True)]
            unit /= 2 * normal * anomalies
        self.c, self.unit, self.cost = whole, unit, sum(whole)

    @property
    def total_cost(self) -> Fraction:
        """``Σ c``."""
        return self.cost * self.unit

    # ------------------------------------------------------------------------------------ values

    def norm(self, w: Vector) -> Fraction:
        """An upper bound of ``‖w − w₀‖ / r`` that is 2^-190 of it too large at most."""
        v = [Fraction(float(x)) - c for x, c in zip(w, self.centre, strict=True)]
        if not any(v):
            return Fraction(0)
        return self.of_ball.above(v) / (self.radius or Fraction(1, 10**400))

    def value(self, w: Vector, b: float) -> Fraction:
        """``f(w, b)``."""
        residuals, e = self._residuals(w, b)
        if self.squares:
            return self._weighted(r * r for r in residuals) * power_of_two(2 * e)
        return self._weighted(max(r, 0) for r in residuals) * power_of_two(e)

    def _weighted(self, x: Any) -> Fraction:
        return sum(c * r for c, r in zip(self.c, x, strict=True)) * self.unit

    def _residuals(self, w: Vector, b: float) -> tuple[list[int], int]:
        """``1 − y(sᵀw + b)`` as integers times 2^e."""
        (whole, e), ((b_whole,), b_e) = dyadic(w), dyadic([b])
        e += self.e
        least = min(e, b_e, 0)
        one, b_whole, shift = 1 << -least, b_whole << (b_e - least), e - least
        return [
            one - y * ((sum(map(int.__mul__, row, whole)) << shift) + b_whole)
            for row, y in zip(self.rows, self.y, strict=True)
        ], least

    # ------------------------------------------------------------------------------------- bounds

    def support(self, v: Sequence[Fraction]) -> Fraction:
        """``σ(v)``, rounded down by 2^-190 of it at most: that calls no certificate false."""
        candidates = [v] if not self.nonnegative else self._raised(v)
        return min(
            self.radius * self.of_ball.support_below(u)
            + sum(map(Fraction.__mul__, u, self.centre), Fraction(0))
            for u in candidates
        )

    def _raised(self, v: Sequence[Fraction]) -> list[list[Fraction]]:
        """Some u ≥ v: with w ≥ 0 the support of v is the least bound of theirs.

        The best one has ``u_j = max(v_j, −λ (w₀_j / r)^{p−1})`` for some λ. It is found to double
        precision, which is enough for twice the digits of the bound, where it is smooth; where it
        is not, at p = 1, the best λ is a size of some entry.
        """
        zero = Fraction(0)
        found = [list(v), [max(x, zero) for x in v]]
        top = max(map(abs, v))
        if not top or not self.radius or not any(self.centre):
            return found
        shares = [_float(c / self.radius) for c in self.centre]
        with np.errstate(over="ignore"):
            powers = self.of_ball.bend(np.array(shares))
        small = np.array([_float(x / top) for x in v])
        centre = np.minimum(shares, 1e300)

        def raised(level: float) -> Vector:
            with np.errstate(invalid="ignore", over="ignore"):
                floor = np.where(powers == 0.0, 0.0, -level * powers)
            return np.maximum(small, floor)

        def bound(power: float) -> float:
            u = raised(math.exp(power))
            return self.of_ball.float_support(u) + float(u @ centre)

        # Far from the best λ the bound is flat: the search begins near the best of a grid.
        grid = np.linspace(-700.0, 700.0, 1401).tolist()
        best = min(grid, key=bound)
        low, high = best - 1.0, best + 1.0
        for _ in range(100):
            third = (high - low) / 3
            if bound(low + third) <= bound(high - third):
                high -= third
            else:
                low += third
        levels = [math.exp(low), math.exp(high), *(abs(x) for x in small if x)]
        return found + [
            [max(x, Fraction(float(y)) * top) for x, y in zip(v, raised(level), strict=True)]
            for level in levels
        ]

    def combined(self, x: Sequence[int]) -> list[Fraction]:
        """``Σ c_i x_i y_i s_i``."""
        factors = [c * a * y for c, a, y in zip(self.c, x, self.y, strict=True)]
        used = [(f, row) for f, row in zip(factors, self.rows, strict=True) if f]
        scale = self.unit * power_of_two(self.e)
        return [sum(f * row[j] for f, row in used) * scale for j in range(self.R)]

    def least_squares_bound(self, w: Vector) -> Fraction:
        """``D(2r)`` for the residuals at w̃ and its best intercept, so that β = 0 exactly."""
        residuals, e = self._residuals(w, 0.0)
        unit = power_of_two(e)
        if self.fit_intercept and self.cost:
            signed = zip(self.c, self.y, residuals, strict=True)
            imbalance = sum(c * y * r for c, y, r in signed)
            residuals = [
                r * self.cost - y * imbalance for r, y in zip(residuals, self.y, strict=True)
            ]
            unit /= self.cost
        gain = 2 * unit * self._weighted(residuals)
        gain -= unit * unit * self._weighted(r * r for r in residuals)
        return gain - self.support([2 * unit * x for x in self.combined(residuals)])

    def hinge_bound(self, alpha: Vector, value: Fraction) -> Fraction | None:
        """The best that α proves, given that some feasible point has `value`; None: nothing.

        With an intercept and β ≠ 0 there are two ways, and the better one counts:

        1. the α of the heavier class are scaled down until β = 0;
        2. an optimal intercept is bounded: with rows moved by any m, b absorbs mᵀw and
           D = Σ cα − σ(v − βm) − |β| B(m).
        """
        whole, e = dyadic(alpha)
        if not all(0 <= x for x in whole) or max(whole) * power_of_two(e) > 1:
            return None
        unit = power_of_two(e)
        gain, v = self._weighted(whole) * unit, [x * unit for x in self.combined(whole)]
        if not self.fit_intercept:
            return gain - self.support(v)
        beta = self._weighted(a * y for a, y in zip(whole, self.y, strict=True)) * unit
        if not beta:
            return gain - self.support(v)
        return max(
            self._scaled_bound(whole, unit, gain, beta),
            *(
                gain
                - self.support([x - beta * m for x, m in zip(v, middle, strict=True)])
                - abs(beta) * self._reach(middle, 1 if beta > 0 else -1, value)
                for middle in self._middles()
            ),
        )

    def _scaled_bound(
        self, alpha: list[int], unit: Fraction, gain: Fraction, beta: Fraction
    ) -> Fraction:
        heavy = 1 if beta > 0 else -1
        factor = (gain - abs(beta)) / (gain + abs(beta))  # Σ cα of the other class over that of it
        mine = [a if y == heavy else 0 for a, y in zip(alpha, self.y, strict=True)]
        rest = [a if y != heavy else 0 for a, y in zip(alpha, self.y, strict=True)]
        pairs = zip(self.combined(mine), self.combined(rest), strict=True)
        return gain - abs(beta) - self.support([(factor * a + b) * unit for a, b in pairs])

    def _middles(self) -> list[list[Fraction]]:
        """Points that rows may be moved by: midpoints and medians by cost of the columns."""
        used = [row for row, c in zip(self.rows, self.c, strict=True) if c]
        scale = power_of_two(self.e)
        middles = [[Fraction(0)] * self.R]
        columns = list(zip(*used, strict=True))
        middles.append([Fraction(min(x) + max(x), 2) * scale for x in columns])
        costs = [c for c in self.c if c]
        middles.append([_median(x, costs) * scale for x in columns])
        return middles

    def _reach(self, middle: list[Fraction], side: int, value: Fraction) -> Fraction:
        """How far to one side of −mᵀw an optimal intercept may lie.

        With ν_i = r‖s_i − m‖_q + |s_i − m|ᵀ|w₀|: some optimal one makes a residual zero, so it is
        within 1 + max ν; and b = t > 0 costs anomalies c_i (1 + t − ν_i) at least, which the
        optimum cannot exceed (t < 0: the same with normal rows). Both hold with bounds that are a
        little too large.
        """
        used = [i for i, c in enumerate(self.c) if c]
        if not used:
            return Fraction(0)
        reaches = self._distances([self.rows[i] for i in used], middle)
        furthest = 1 + max(reaches)
        other = [(i, nu) for i, nu in zip(used, reaches, strict=True) if self.y[i] != side]
        # In float64, where what is lost to rounding makes the reach larger, never smaller.
        shares = np.array([self.c[i] / self.cost for i, _ in other])
        nearest = 1 - np.array([_float(nu) for _, nu in other]) * SAFE
        limit = _float(value / self.total_cost) * SAFE

        def is_too_far(t: float) -> bool:
            return float((shares * np.maximum(nearest + t, 0.0)).sum()) > limit * SAFE

        low, high = -20.0, math.log2(min(_float(furthest), 1e300))
        if not is_too_far(2.0**high):
            return furthest
        for _ in range(STEPS):
            half = (low + high) / 2
            low, high = (low, half) if is_too_far(2.0**half) else (half, high)
        return min(Fraction(2.0**high * SAFE), furthest)

    def _distances(self, rows: list[list[int]], middle: list[Fraction]) -> list[Fraction]:
        """Upper bounds of ``|(s_i − m)ᵀw|`` in the ball: of the q-norm in float64, widened."""
        common = math.lcm(*(m.denominator for m in middle), (power_of_two(self.e)).denominator)
        scale = power_of_two(self.e) * common
        factor = scale.numerator  # scale is whole
        moved = [m.numerator * (common // m.denominator) for m in middle]
        apart = [[abs(x * factor - m) for x, m in zip(row, moved, strict=True)] for row in rows]
        largest = [max(row) for row in apart]
        shares = np.array(
            [
                [x / top if top else 0.0 for x in row]
                for row, top in zip(apart, largest, strict=True)
            ]
        )
        norms = self.of_ball.reaches(shares)
        return [
            self.radius * Fraction(top, common) * Fraction(float(norm) * SAFE)
            + sum((x * abs(c) for x, c in zip(row, self.centre, strict=True)), Fraction(0)) / common
            for top, norm, row in zip(largest, norms, apart, strict=True)
        ]


def _float(x: Fraction) -> float:
    try:
        return float(x)
    except OverflowError:
        return math.inf


def _median(x: Sequence[int], costs: Sequence[int]) -> Fraction:
    half, order, running = sum(costs), sorted(range(len(x)), key=x.__getitem__), 0
    for i in order:
        running += 2 * costs[i]
        if running >= half:
            return Fraction(x[i])
    return Fraction(x[order[-1]])
