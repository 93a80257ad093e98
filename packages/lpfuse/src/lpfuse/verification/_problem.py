"""The problem that a fusion has solved, stated anew, and what its dual point proves about it.

minimise  f(w, b) = Σ c_i loss(1 − y_i (s_iᵀw + b))  subject to  ‖w − w₀‖_p ≤ r  (and w ≥ 0)

Each loss is above its tangents. For the hinge and any α in [0, 1], for r² and α = 2 r̃ with any r̃,

    f(w, b) ≥ Σ c_i gain(α_i) − vᵀw − β b,     v = Σ c_i α_i y_i s_i,     β = Σ c_i α_i y_i,

with gain(α) = α and α − α²/4. Where b is free α must have β = 0, and is changed so that it has:
hinge multipliers of the heavier class by a factor, those of r² by moving the intercept of r̃. So
``Σ c gain(α) − max{vᵀw : w in the ball}`` is below the optimum. Costs are sums and quotients of
what was passed, by class: they stay rational.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse.verification._intervals import Interval, conjugate, norm, total
from lpfuse.verification._rows import Rows

Vector = NDArray[np.float64]

FLOOR = Fraction(1, 1000)  # gaps are relative to max(f, FLOOR Σ c): see `Certificate`
IMAGINARY_SCORE = -2.0  # what every detector gives to the imaginary anomaly: see `LpFusion`
BLOCK = 65_536  # rows at a time: rows as integers take some ten times the memory of floats
SEARCH = 120  # steps that leave two thirds of a range of 40 each: below the last digit of float64
TRIED = 4  # of what they find, in exact numbers; by hand


class Ball(NamedTuple):
    """``‖w − w₀‖_p ≤ r``, with w ≥ 0 where `nonnegative`."""

    p: Fraction | float
    centre: list[Fraction]
    radius: Fraction
    nonnegative: bool

    def distance(self, w: Vector) -> Interval:
        """``‖w − w₀‖_p``."""
        apart = [Fraction(x) - c for x, c in zip(w.tolist(), self.centre, strict=True)]
        return norm(apart, self.p)

    def support(self, v: Sequence[Interval]) -> Interval:
        """``max {vᵀw : w in the ball}``, or more: ``r‖u‖_q + uᵀw₀``, with w ≥ 0 for some u ≥ v."""
        off = [each.radius for each in v]
        beyond = self._reach(off, [abs(c) for c in self.centre]).high
        found = min(
            (self._reach(u, self.centre) for u in self._raised([each.middle for each in v])),
            key=lambda each: each.high,
        )
        return Interval(found.low - beyond, found.high + beyond)

    def _reach(self, u: Sequence[Fraction], centre: Sequence[Fraction]) -> Interval:
        """``r‖u‖_q + uᵀw₀``."""
        along = sum((x * c for x, c in zip(u, centre, strict=True)), Fraction(0))
        out = norm(u, conjugate(self.p))
        return Interval(self.radius * out.low + along, self.radius * out.high + along)

    def _raised(self, v: list[Fraction]) -> list[list[Fraction]]:
        """Some u that are worth a try.

        Without w ≥ 0 it is v. With it any u ≥ v is a bound; around 0 the best is the positive part,
        and else some ``max(v_j, −λ (w₀_j / r)^{p−1})``: λ is sought in float64, as whatever is
        found is a bound.
        """
        if not self.nonnegative:
            return [v]
        above = [max(x, Fraction(0)) for x in v]
        top = max(map(abs, v))
        if not any(self.centre):
            return [above]
        if not (top and self.radius):
            return [v, above]
        small = np.array([float(x / top) for x in v])
        shares = np.array([min(float(c / self.radius), 1e300) for c in self.centre])
        with np.errstate(all="ignore"):
            powers = np.where(shares < 1.0, shares ** (float(self.p) - 1.0), np.inf)
            levels = _levels(small, shares, powers, float(conjugate(self.p)))
            found = [zip(v, _floors(level, powers).tolist(), strict=True) for level in levels]
            tried = [
                [x if floor == -math.inf else max(x, Fraction(floor) * top) for x, floor in pairs]
                for pairs in found
            ]
        return [v, above, *tried]


def _floors(level: Any, powers: Vector) -> Any:
    """``−λ (w₀_j / r)^{p−1}``."""
    return -np.where(powers > 0.0, level * powers, 0.0)


def _levels(v: Vector, shares: Vector, powers: Vector, q: float) -> list[float]:
    """The λ at which ``‖u‖_q + uᵀ(w₀ / r)`` is least, or nearly.

    Between two λ at which an entry of u stops to fall, u is linear in λ and the sum convex: there
    thirds of the range of log λ that cannot hold the least are left out. Where λ is far below the
    upper end it changes nothing, so that equal sums tell to go up.
    """

    def bound(logs: Vector) -> Vector:
        u = np.maximum(v, _floors(np.exp(logs)[:, None], powers))
        size = np.abs(u)
        most = size.max(axis=1, keepdims=True)  # divided out: its power may be too small
        parts = np.where(most > 0.0, size / most, 0.0)
        return most[:, 0] * np.linalg.norm(parts, q, axis=1) + (u * shares).sum(axis=1)

    falling = (v < 0.0) & (powers > 0.0) & (powers < np.inf)
    ends = np.unique(np.log(-v[falling]) - np.log(powers[falling]))
    ends = ends[np.abs(ends) < 700.0]  # beyond, exp is no number
    if not ends.size:
        return [1.0]
    high = ends.copy()
    low = np.maximum(np.append(-np.inf, ends[:-1]), ends - 40.0)
    for _ in range(SEARCH):
        third = (high - low) / 3.0
        is_below = bound(low + third) < bound(high - third)
        low, high = np.where(is_below, low, low + third), np.where(is_below, high - third, high)
    logs = np.concatenate([low, high, ends])
    best = logs[np.argsort(bound(logs))[:TRIED]]
    # At q = ∞ the least is at a corner, the size of an entry, which thirds meet but for rounding.
    corners = np.abs(v[v != 0.0]).tolist() if q == np.inf else []
    return [*np.exp(best).tolist(), *corners]


class Sides(NamedTuple):
    """Both sides of a certificate, recomputed."""

    value: Interval  # f(w, b)
    bound: Interval  # what the dual point proves; at least 0, as no loss is negative
    cost: Interval  # Σ c

    @property
    def gap(self) -> Interval:
        """``value − bound``."""
        return self.value.minus(self.bound)

    @property
    def scale(self) -> Interval:
        """What gaps are relative to."""
        return Interval(*(max(v, FLOOR * c) for v, c in zip(self.value, self.cost, strict=True)))

    @property
    def relative_gap(self) -> Interval:
        """The gap as a share; costs are positive."""
        return self.gap.over(self.scale)


@dataclass(frozen=True)
class Stated:
    """A problem as it was passed to a fit, by class: rows, weights m, and the factor of the costs.

    With imaginary anomalies the last row of the class −1 is theirs, and the last dual number.
    """

    S: Vector
    y: Vector
    m: Vector
    imaginary: float
    factors: Mapping[int, Fraction]
    ball: Ball
    squares: bool
    fit_intercept: bool

    @classmethod
    def of(cls, S: Vector, y: Vector, m: Vector, names: Any, parameters: Mapping[str, Any]) -> Any:
        """From checked rows and the parameters of the fusion."""
        imaginary = float(parameters["imaginary_anomalies"])
        is_normal = y > 0.0
        has_anomalies = imaginary > 0.0 or not is_normal.all()
        factors = {1: Fraction(1), -1: Fraction(1)}
        if parameters["class_weight"] == "balanced" and has_anomalies:
            normal = _exact_sum(m[is_normal])
            anomalies = _exact_sum(m[~is_normal]) + Fraction(imaginary)
            if normal and anomalies:
                half = (normal + anomalies) / 2
                factors = {1: half / normal, -1: half / anomalies}
        p, R = float(parameters["p"]), S.shape[1]
        ball = Ball(
            math.inf if p == math.inf else Fraction(p),
            _prior(parameters["prior"], names, R),
            Fraction(float(parameters["radius"])),
            bool(parameters["nonnegative"]),
        )
        squares = parameters["loss"] == "least_squares"
        free = bool(parameters["fit_intercept"]) and bool(has_anomalies)
        return cls(S, y, m, imaginary, factors, ball, squares, free)

    @property
    def n_multipliers(self) -> int:
        """Rows, the imaginary one included."""
        return len(self.y) + int(self.imaginary > 0.0)

    def blocks(self, kind: type[Rows], alpha: Vector | None) -> Iterator[tuple[int, Any, Any]]:
        """Class, rows and multipliers, block by block."""
        for start in range(0, len(self.y), BLOCK):
            part = slice(start, min(start + BLOCK, len(self.y)))
            for label in (1, -1):
                mine = (self.y[part] > 0.0) == (label > 0)
                if mine.any():
                    rows = kind(self.S[part][mine].astype(np.float64), self.m[part][mine])
                    yield label, rows, None if alpha is None else rows.numbers(alpha[part][mine])
        if self.imaginary > 0.0:
            row = np.full((1, self.S.shape[1]), IMAGINARY_SCORE)
            rows = kind(row, np.array([self.imaginary]))
            yield -1, rows, None if alpha is None else rows.numbers(alpha[-1:])

    def sides(self, kind: type[Rows], w: Vector, b: float, dual: Vector | None) -> Sides:
        """Both sides at weights and a dual point: multipliers, or weights w̃ for least squares.

        Without a dual point, or with one that is not allowed, the bound is 0.
        """
        values: list[Interval] = []
        costs: list[Interval] = []
        sums: dict[int, list[_Sums]] = {1: [], -1: []}
        alpha = None if self.squares or not self._allows(dual) else dual
        with np.errstate(all="ignore"):
            for label, rows, multipliers in self.blocks(kind, alpha):
                factor = Interval.point(self.factors[label])
                r = rows.residuals(label, w, b)
                losses = rows.square(r) if self.squares else rows.positive(r)
                values.append(factor.times(rows.total(losses)))
                ones = rows.numbers(np.ones(rows.n))
                costs.append(factor.times(rows.total(ones)))
                if self.squares and self._allows(dual):
                    multipliers = rows.residuals(label, dual, b)
                if multipliers is not None:
                    sums[label].append(_Sums.of(rows, multipliers, ones, self.squares, factor))
        zero = Fraction(0)
        bound = Interval.point(zero)
        if any(sums.values()):
            merged = [_Sums.merged(sums[label], self.S.shape[1]) for label in (1, -1)]
            found = self._squares_bound(*merged) if self.squares else self._hinge_bound(*merged)
            bound = Interval(max(found.low, zero), max(found.high, zero))
        return Sides(total(values), bound, total(costs))

    def _allows(self, dual: Vector | None) -> bool:
        """Whether a dual point has the right length, is finite, and within [0, 1] for the hinge."""
        if dual is None:
            return False
        length = self.S.shape[1] if self.squares else self.n_multipliers
        if dual.shape != (length,) or not np.isfinite(dual).all():
            return False
        return self.squares or bool(((dual >= 0.0) & (dual <= 1.0)).all())

    def _hinge_bound(self, normal: _Sums, anomalies: _Sums) -> Interval:
        pulls = [normal.pull, anomalies.pull]
        gain = normal.first.plus(anomalies.first)
        if self.fit_intercept:
            # Σ cα of the heavier class, whichever it may be, comes down to that of the other.
            sizes = normal.first, anomalies.first
            least = Interval(min(x.low for x in sizes), min(x.high for x in sizes))
            if least.low <= 0:
                return Interval.point(Fraction(0))
            gain = least.plus(least)
            factors = [least.over(x) for x in sizes]
            factors = [Interval(f.low, min(f.high, Fraction(1))) for f in factors]
            pulls = [[f.times(x) for x in each] for f, each in zip(factors, pulls, strict=True)]
        v = [x.minus(z) for x, z in zip(*pulls, strict=True)]
        return gain.minus(self.ball.support(v))

    def _squares_bound(self, normal: _Sums, anomalies: _Sums) -> Interval:
        """With r̃ less y δ, δ = Σ c y r̃ / Σ c, where b is free: then Σ c y r̃ = 0."""
        linear, squares = normal.first.plus(anomalies.first), normal.second.plus(anomalies.second)
        v = [x.minus(z) for x, z in zip(normal.pull, anomalies.pull, strict=True)]
        if self.fit_intercept:
            beta = normal.first.minus(anomalies.first)
            delta = beta.over(normal.cost.plus(anomalies.cost))
            linear = linear.minus(delta.times(normal.cost.minus(anomalies.cost)))
            squares = squares.minus(delta.times(beta))
            centres = zip(normal.centre, anomalies.centre, strict=True)
            v = [x.minus(delta.times(s.plus(z))) for x, (s, z) in zip(v, centres, strict=True)]
        two = Interval.point(Fraction(2))
        gain = two.times(linear).minus(squares)
        return gain.minus(self.ball.support([two.times(x) for x in v]))


class _Sums(NamedTuple):
    """Of the rows of one class, for numbers x: costs included, labels not."""

    first: Interval  # Σ c x
    second: Interval  # Σ c x²
    pull: list[Interval]  # Σ c x s
    cost: Interval  # Σ c
    centre: list[Interval]  # Σ c s

    @classmethod
    def of(cls, rows: Rows, x: Any, ones: Any, squares: bool, factor: Interval) -> _Sums:
        """Of one block; what only least squares asks for is left at 0 without it."""
        nothing = Interval.point(Fraction(0))
        return cls(
            factor.times(rows.total(x)),
            factor.times(rows.total(rows.square(x))) if squares else nothing,
            [factor.times(each) for each in rows.pull(x)],
            factor.times(rows.total(ones)) if squares else nothing,
            [factor.times(each) for each in rows.pull(ones)] if squares else [],
        )

    @classmethod
    def merged(cls, parts: Sequence[_Sums], R: int) -> _Sums:
        """Of several blocks."""
        return cls(
            total([part.first for part in parts]),
            total([part.second for part in parts]),
            [total([part.pull[j] for part in parts]) for j in range(R)],
            total([part.cost for part in parts]),
            [total([part.centre[j] for part in parts if part.centre]) for j in range(R)],
        )


def _exact_sum(m: Vector) -> Fraction:
    """The sum of floats, as `math.fsum` rounds it, and of what that leaves, until nothing is."""
    terms, found = m.tolist(), Fraction(0)
    while part := math.fsum(terms):
        found += Fraction(part)
        terms.append(-part)
    return found


def _prior(prior: Any, names: Sequence[str] | None, R: int) -> list[Fraction]:
    """The centre of the ball, one weight a column."""
    if prior is None:
        return [Fraction(0)] * R
    if hasattr(prior, "to_dict") and all(isinstance(key, str) for key in prior.index):
        prior = prior.to_dict()  # a series with names
    if isinstance(prior, Mapping):
        prior = [prior.get(name, 0.0) for name in names or ()]
    return [Fraction(float(x)) for x in prior]
