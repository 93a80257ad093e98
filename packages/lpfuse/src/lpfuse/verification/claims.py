"""Independent verification of certificates: the problem, its bounds, and the checks of `verify`."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_array_api_obj
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import is_blocked, is_numpy, to_host
from lpfuse._format import number, quote
from lpfuse._validation.params import check_labels, check_sample_weight
from lpfuse._validation.tables import check_scores, column_names
from lpfuse.verification.intervals import (
    CompensatedRows,
    ExactRows,
    Interval,
    OutOfRangeError,
    Rows,
    conjugate,
    norm,
    total,
)

# --------------------------------------------------------------------------------------------------
# The problem of a fusion, restated from its parameters, and the bound of its dual point.
#
# minimise  f(w, b) = Σ c_i loss(1 − y_i (s_iᵀw + b))  subject to  ‖w − w₀‖_p ≤ r  (and w ≥ 0)
#
# Each loss is above its tangents. For the hinge and any α in [0, 1], for r² and α = 2 r̃ with any
# r̃,
#
#     f(w, b) ≥ Σ c_i gain(α_i) − vᵀw − β b,     v = Σ c_i α_i y_i s_i,     β = Σ c_i α_i y_i,
#
# with gain(α) = α and α − α²/4. With an intercept α must have β = 0 and is adjusted: hinge
# multipliers of the heavier class by a factor, those of r² by moving the intercept of r̃. So
# ``Σ c gain(α) − max{vᵀw : w in the ball}`` is below the optimum. Costs are sums and quotients of
# the user's weights, by class: they stay rational.
#
# With groups the norm is that of p of the norms of q of the groups; the dual norm has the
# conjugates of both.


Vector = NDArray[np.float64]

FLOOR = Fraction(1, 1000)  # gaps are relative to max(f, FLOOR Σ c): see `Certificate`
IMAGINARY_SCORE = -2.0  # what every detector gives to the imaginary anomaly: see `LpFusion`
BLOCK = 65_536  # rows at a time: rows as integers take some ten times the memory of floats
SEARCH = 70  # halvings of a bracket of 1,400: below the last digit of float64


class Ball(NamedTuple):
    """``‖w − w₀‖ ≤ r``, with w ≥ 0 where `nonnegative`."""

    p: Fraction | float
    centre: list[Fraction]
    radius: Fraction
    nonnegative: bool
    groups: list[list[int]] | None = None  # the positions of the weights of each
    inner: Fraction | float = 2.0

    def distance(self, w: Vector) -> Interval:
        """``‖w − w₀‖``."""
        apart = [Fraction(x) - c for x, c in zip(w.tolist(), self.centre, strict=True)]
        return self._norm(apart, self.p, self.inner)

    def _norm(self, v: Sequence[Fraction], p: Any, q: Any) -> Interval:
        """``‖v‖_p``; with groups, that of their norms of q."""
        if self.groups is None:
            return norm(v, p)
        each = [norm([v[j] for j in group], q) for group in self.groups]
        return Interval(norm([x.low for x in each], p).low, norm([x.high for x in each], p).high)

    def support(self, v: Sequence[Interval]) -> Interval:
        """``max {vᵀw : w in the ball}``, or more: ``r‖u‖_q + uᵀw₀``, with w ≥ 0 for some u ≥ v."""
        off = [each.radius for each in v]
        beyond = self._reach(off, [abs(c) for c in self.centre]).high
        found = min(
            (self._reach(u, self.centre) for u in self._candidates([each.middle for each in v])),
            key=lambda each: each.high,
        )
        return Interval(found.low - beyond, found.high + beyond)

    def _reach(self, u: Sequence[Fraction], centre: Sequence[Fraction]) -> Interval:
        """``r‖u‖_q + uᵀw₀``."""
        along = sum((x * c for x, c in zip(u, centre, strict=True)), Fraction(0))
        out = self._norm(u, conjugate(self.p), conjugate(self.inner))
        return Interval(self.radius * out.low + along, self.radius * out.high + along)

    def _candidates(self, v: list[Fraction]) -> list[list[Fraction]]:
        """Return some u that are worth a try.

        Without w ≥ 0 it is v. With it any u ≥ v is a bound; around 0 the best is the positive part,
        and else ``max(v_j, −λ (w₀_j / r)^{p−1})`` with λ = ‖u‖_q, where the derivative of the bound
        vanishes. ‖u‖_q / λ falls as λ grows, so that halving finds it; in float64, as whatever is
        found is a bound. Where the norm has corners, it is among the sizes of the entries.
        """
        if not self.nonnegative:
            return [v]
        above = [max(x, Fraction(0)) for x in v]
        top = max(map(abs, v))
        if not any(self.centre):
            return [above]
        if not (top and self.radius) or self.groups is not None:
            return [v, above]
        small = np.array([float(x / top) for x in v])
        shares = np.array([min(float(c / self.radius), 1e300) for c in self.centre])
        with np.errstate(all="ignore"):
            powers = np.where(shares < 1.0, shares ** (float(self.p) - 1.0), np.inf)

            def floors(level: Any) -> Any:
                return -np.where(powers > 0.0, level * powers, 0.0)

            def beyond(log_level: float) -> bool:
                u = np.maximum(small, floors(math.exp(log_level)))
                most = float(np.abs(u).max()) or 1.0  # a high power of small numbers is nothing
                size = most * float(np.linalg.norm(u / most, float(conjugate(self.p))))
                return size > math.exp(log_level)

            low, high = -700.0, 700.0
            for _ in range(SEARCH):
                middle = (low + high) / 2.0
                low, high = (middle, high) if beyond(middle) else (low, middle)
            levels = [math.exp(low), math.exp(high), *np.abs(small[small != 0.0]).tolist()]
            found = [list(zip(v, floors(level).tolist(), strict=True)) for level in levels]
        return [
            v,
            above,
            *(
                [x if f == -math.inf else max(x, Fraction(f) * top) for x, f in pairs]
                for pairs in found
            ),
        ]


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
class StatedProblem:
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
    def of(
        cls, S: Vector, y: Vector, m: Vector, centre: list[Fraction], options: Mapping[str, Any]
    ) -> Any:
        """From checked rows, the centre of the ball and the other parameters of the fusion."""
        imaginary = options["imaginary_anomalies"]
        is_normal = y > 0.0
        has_anomalies = imaginary > 0.0 or not is_normal.all()
        factors = {1: Fraction(1), -1: Fraction(1)}
        if options["class_weight"] == "balanced" and has_anomalies:
            normal = _exact_sum(m[is_normal])
            anomalies = _exact_sum(m[~is_normal]) + Fraction(imaginary)
            if normal and anomalies:
                half = (normal + anomalies) / 2
                factors = {1: half / normal, -1: half / anomalies}
        p, radius = options["p"], Fraction(options["radius"])
        exact = math.inf if p == math.inf else Fraction(p)
        inner = math.inf if options["q"] == math.inf else Fraction(options["q"])
        common = exact, centre, radius, bool(options["nonnegative"])
        ball = Ball(*common, options["groups"], inner)
        squares = options["loss"] == "least_squares"
        free = bool(options["fit_intercept"]) and bool(has_anomalies)
        return cls(S, y, m, imaginary, factors, ball, squares, free)

    @property
    def n_multipliers(self) -> int:
        """Rows, the imaginary one included."""
        return len(self.y) + int(self.imaginary > 0.0)

    def size(self, weights: Sequence[Fraction | float], b: float, cost: Fraction) -> Fraction:
        """Return ``Σ c loss(1 + |b| + max|s| Σ|w|)``: no term of a sum is larger."""
        largest = float(max(self.S.max(), -self.S.min(), -IMAGINARY_SCORE))
        reach = sum(abs(Fraction(w)) for w in weights)
        return cost * (1 + abs(Fraction(b)) + Fraction(largest) * reach) ** (1 + self.squares)

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
        """Return both sides at weights and a dual point.

        Multipliers, or weights w̃ for least squares. Without a dual point the bound is 0.
        """
        values: list[Interval] = []
        costs: list[Interval] = []
        sums: dict[int, list[_Sums]] = {1: [], -1: []}
        alpha = None if self.squares else dual
        with np.errstate(all="ignore"):
            for label, rows, multipliers in self.blocks(kind, alpha):
                factor = Interval.point(self.factors[label])
                r = rows.residuals(label, w, b)
                losses = rows.square(r) if self.squares else rows.positive(r)
                values.append(factor.times(rows.total(losses)))
                ones = rows.numbers(np.ones(rows.n))
                costs.append(factor.times(rows.total(ones)))
                if self.squares and dual is not None:
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
    """Return the exact sum of floats, by repeated `math.fsum` of the remainder."""
    terms, found = m.tolist(), Fraction(0)
    while part := math.fsum(terms):
        found += Fraction(part)
        terms.append(-part)
    return found


def _prior(prior: Any, names: Sequence[str] | None, R: int) -> Any:
    """Return the centre of the ball as an array of one weight a column, if the prior is one."""
    if prior is None:
        return np.zeros(R)
    if hasattr(prior, "to_dict") and all(isinstance(key, str) for key in prior.index):
        prior = prior.to_dict()  # a series with names
    if isinstance(prior, Mapping):
        prior = [prior.get(name, 0.0) for name in names or ()]
    with suppress(TypeError, ValueError):
        found = np.asarray(prior)
        return found.astype(np.float64) if found.dtype.kind in "iufO" else prior
    return prior


def _groups(groups: Any, names: Sequence[str] | None, R: int, read: Reader) -> Any:
    """Return the positions of the columns of each group; None without groups."""
    if groups is None:
        return None
    labels = (
        [groups.get(name, name) for name in names or ()] if isinstance(groups, Mapping) else groups
    )
    labels = list(labels)
    if len(labels) != R:
        read.faults.append(f"groups must have {R} labels, got {len(labels)}.")
        return None
    return [[j for j in range(R) if labels[j] == label] for label in dict.fromkeys(labels)]


# --------------------------------------------------------------------------------------------------
# Comparison of the certificate's claims with the recomputed values.


# Relative tolerance for the rounding of the claims: sixteen units in the last place.
SLACK = Fraction(1, 2**49)
NORM_SLACK = Fraction(1, 10**12)  # relative tolerance of the norm: a sum of R powers is rounded
# Most that rounding may be of the size of the terms: 17,000 certificates of problems of all scales
# state at most 2^-39 of it.
LARGEST_ROUNDING = Fraction(1, 2**30)


@dataclass(frozen=True)
class Verification:
    """Result of `verify`.

    Attributes
    ----------
    holds : bool
        Whether all claims of the certificate hold for the rows.
    faults : tuple of str
        A sentence for each claim that does not.
    value : tuple of float
        Bounds of f(w, b).
    bound : tuple of float
        Bounds of the dual value: no weights in the ball have a value below the first.
    gap, relative_gap : float
        The proven gap, at most ``value[1] − bound[0]``, and its share of ``max(f, 1e-3 Σ c)``.
    claimed_value, claimed_bound, claimed_gap, claimed_relative_gap : float
        As the certificate says.
    status : str
        As the certificate says.
    arithmetic : {"exact", "compensated"}
        Rational numbers, with powers between two bounds; or pairs of floats, with a bound of what
        rounding did to their sums.
    """

    holds: bool
    faults: tuple[str, ...]
    value: tuple[float, float]
    bound: tuple[float, float]
    gap: float
    relative_gap: float
    claimed_value: float
    claimed_bound: float
    claimed_gap: float
    claimed_relative_gap: float
    status: str
    arithmetic: str

    def sentence(self) -> str:
        """Return the result as a sentence."""
        how = "in compensated sums with a bound of their rounding"
        how = "in exact arithmetic" if self.arithmetic == "exact" else how
        if self.holds:
            return (
                f"The certificate holds, recomputed {how}: the value is {number(self.value[1], 6)},"
                f" and no weights in the ball are below {number(self.bound[0], 6)}, a relative gap "
                f"of {number(self.relative_gap, 2)} where "
                f"{number(self.claimed_relative_gap, 2)} was claimed ({self.status})."
            )
        return f"The certificate does not hold, recomputed {how}: " + " ".join(self.faults)

    def __str__(self) -> str:
        return self.sentence()


FINITE = sys.float_info.max


class Range(NamedTuple):
    """Real numbers from `low` to `high`; all finite ones by default."""

    low: float = -FINITE
    high: float = FINITE

    def __str__(self) -> str:
        least = "" if self.low == -FINITE else f"at least {number(self.low)} and "
        return least + ("finite" if self.high == FINITE else f"at most {number(self.high)}")


# What each parameter and each field of a certificate may be: numbers, or one of some values. No
# figure is below 0, as no loss is.
YES_OR_NO, LARGEST = (False, True), 1e9
PARAMETERS: dict[str, Any] = {
    "p": Range(1.0, math.inf), "q": Range(1.0, math.inf), "tol": Range(math.ulp(0.0), 1.0),
    "radius": Range(0.0, LARGEST),
    "imaginary_anomalies": Range(0.0), "loss": ("hinge", "least_squares"),
    "class_weight": (None, "balanced"), "fit_intercept": YES_OR_NO, "nonnegative": YES_OR_NO,
}  # fmt: skip
FIGURES = ("primal", "dual", "gap", "relative_gap", "rounding", "passes")
STATUSES = ("optimal", "rounding", "stopped", "max_iter")
FIELDS: dict[str, Any] = {**dict.fromkeys(FIGURES, Range(0.0)), "status": STATUSES}
# Types whose instances are what they show: a subclass may compare or convert as it likes.
NUMBERS = (float, int, Fraction, *(np.dtype(kind).type for kind in "bhilqBHILQefd"))
CHOICES = (str, type(None), bool, int, np.bool_)
FLOATS = ("float64", "float32", "torch.float64", "torch.float32")


class Reader:
    """Read values that may have been altered; what is outside its domain becomes a fault."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def value(self, owner: Any, name: str, domain: Any) -> Any:
        """Return an attribute, a number or choice inside its domain; NaN or None for any other."""
        x: Any = getattr(owner, name, None)
        if not isinstance(domain, Range):
            if type(x) in CHOICES and x in domain:
                return x
            return self._refuse(name, " or ".join(map(quote, domain)), x)
        with suppress(OverflowError):  # a long integer
            if type(x) in NUMBERS and domain.low <= float(x) <= domain.high:
                return float(x)
        self._refuse(name, f"a number, {domain}", x)
        return math.nan

    def vector(self, name: str, x: Any, n: int, domain: Range) -> Any:
        """Return n real numbers inside a domain as a plain array; None for anything else."""
        x = x.compute() if is_blocked(x) else x  # multipliers beside scores of Dask are lazy
        known = type(x) in (np.ndarray, np.memmap) or (is_array_api_obj(x) and not is_numpy(x))
        if known and str(x.dtype) in FLOATS and tuple(x.shape) == (n,):
            found = to_host(x)
            outside = ~((found >= domain.low) & (found <= domain.high))
            if not outside.any():
                return found
            x = float(found[outside][0])
        return self._refuse(name, f"an array of {n} floats, {domain}", x)

    def _refuse(self, name: str, expected: str, x: Any) -> None:
        got = type(x).__name__
        with suppress(ValueError):  # a long integer
            if type(x) in (*NUMBERS, *CHOICES):
                got = quote(x)
            elif isinstance(x, np.ndarray):
                got += f" of shape {x.shape} and dtype {x.dtype}"
        self.faults.append(f"{name} must be {expected}, got {got}.")


class Fit(NamedTuple):
    """Weights, intercept, dual point and claims of a fit, as plain numbers."""

    w: Vector
    b: float
    dual: Vector | None
    claim: Mapping[str, Any]
    tol: Fraction

    @classmethod
    def of(cls, fusion: Any, claim: Mapping[str, Any], stated: StatedProblem, read: Reader) -> Fit:
        """Read a fit, which may have been altered: invalid values are reported, not raised."""
        R, proof = stated.S.shape[1], fusion.certificate_
        w = read.vector("weights_", getattr(fusion, "weights_", None), R, Range())
        b = read.value(fusion, "intercept_", Range())
        domains = {"alpha": (stated.n_multipliers, Range(0.0, 1.0)), "dual_weights": (R, Range())}
        duals = {
            name: read.vector(name, getattr(proof, name), *domain)
            for name, domain in domains.items()
            if getattr(proof, name, None) is not None
        }
        dual = duals.get("dual_weights" if stated.squares else "alpha")
        return cls(w, b, dual, claim, Fraction(float(fusion.tol)))

    def check(self, stated: StatedProblem, kind: type[Rows]) -> Verification | None:
        """Compare claims with recomputed values; None where the arithmetic is not conclusive."""
        sides = stated.sides(kind, self.w, self.b, self.dual)
        checks = [*self._feasibility_checks(stated), *self._claim_checks(stated, sides)]
        faults = [check.fault for check in checks if check.is_false]
        if not faults and not all(check.is_true for check in checks):
            if kind is not ExactRows:
                return None
            # Inconclusive only by the width of powers, 1e-60: not proven.
            faults = [check.fault for check in checks if not check.is_true]
        how = "exact" if kind is ExactRows else "compensated"
        return _verification(self.claim, faults, sides, how)

    def _feasibility_checks(self, stated: StatedProblem) -> Iterator[_Check]:
        """Yield checks of the constraints on weights and intercept."""
        ball, zero = stated.ball, Fraction(0)
        far, least = ball.distance(self.w), float(self.w.min())
        told = f"{number(_up(far.high), 15)}, its radius {number(float(ball.radius), 15)}."
        yield _Check(
            far,
            ball.radius * (1 + NORM_SLACK),
            f"The weights are outside the ball: their distance from its centre is {told}",
        )
        if ball.nonnegative:
            told = f"A weight is negative, {number(least)}: none may be."
            yield _Check(Interval.point(Fraction(-least)), zero, told)
        if not stated.fit_intercept:
            told = f"There is an intercept, {number(self.b)}, that was not asked for."
            yield _Check(Interval.point(Fraction(abs(self.b))), zero, told)

    def _claim_checks(self, stated: StatedProblem, sides: Sides) -> Iterator[_Check]:
        """Yield checks of the claims, each a number that must not exceed a limit.

        Value and bound may be off by the stated rounding, but not by more than rounding can do to
        terms of their size, and all by `SLACK`.
        """
        claim, ball, cost = self.claim, stated.ball, sides.cost.high
        value, bound, gap, relative = sides.value, sides.bound, sides.gap, sides.relative_gap
        primal, dual, claimed, share, rounding = (Fraction(claim[name]) for name in FIGURES[:5])
        slack = SLACK * sides.scale.low
        at_weights = LARGEST_ROUNDING * stated.size(self.w.tolist(), self.b, cost)
        # Sums of the dual side have terms of any weights in the ball, and of the dual weights.
        off = np.zeros(len(self.w)) if self.dual is None or not stated.squares else self.dual
        reach = [*ball.centre, *[ball.radius] * len(self.w), *off.tolist()]
        most = LARGEST_ROUNDING * stated.size(reach, self.b, cost)
        yield _Check(
            Interval.point(rounding),
            most,
            f"The claimed rounding is {number(claim['rounding'], 2)}, where sums of these rows are "
            f"off by at most {number(_up(most), 2)}.",
        )
        yield _Check(
            value.minus(Interval.point(primal)).size(),
            min(rounding, at_weights) + slack,
            f"These rows give the weights the value {number(_up(value.high), 6)}, where "
            f"{number(claim['primal'], 6)} was claimed: they are other rows, labels or sample "
            "weights than those of the fit, or weights or certificate were changed since.",
        )
        yield _Check(
            Interval.point(dual).minus(bound),
            rounding + slack,
            f"The dual point proves the bound {number(_down(bound.low), 6)}, where "
            f"{number(claim['dual'], 6)} was claimed.",
        )
        yield _Check(
            Interval.point(primal - dual + rounding),
            claimed + SLACK * (primal + dual + rounding),
            "The claimed gap is less than value − bound + rounding.",
        )
        told = f"{number(_up(gap.high), 2)}, where {number(claim['gap'], 2)} was claimed."
        yield _Check(gap, claimed + slack, f"The proven gap is {told}")
        told = f"The proven relative gap is {number(_up(relative.high), 2)}, where"
        said = number(claim["relative_gap"], 2)
        yield _Check(relative, share + SLACK, f"{told} {said} was claimed.")
        if claim["status"] in ("optimal", "rounding"):  # the latter: within tol but for rounding
            off_by = rounding / sides.scale.low if claim["status"] == "rounding" else Fraction(0)
            limit = self.tol + (1 + self.tol) * off_by + SLACK
            said = f"at most {number(_up(limit), 2)}."
            yield _Check(relative, limit, f'{told} "{claim["status"]}" is {said}')


class _Check(NamedTuple):
    """A number that must not exceed a limit, and the message if it does."""

    x: Interval
    limit: Fraction
    fault: str

    @property
    def is_true(self) -> bool:
        return self.x.high <= self.limit

    @property
    def is_false(self) -> bool:
        return self.x.low > self.limit


def _verification(
    claim: Mapping[str, Any], faults: Sequence[str], sides: Sides | None, how: str
) -> Verification:
    """Return the result; without `sides`, which cannot be recomputed, nothing holds."""
    found: Any = ((-math.inf, math.inf),) * 2 + (math.inf,) * 2
    if sides is not None:
        gaps = _up(sides.gap.high), _up(sides.relative_gap.high)
        found = _outward(sides.value), _outward(sides.bound), *gaps
    holds, says = sides is not None and not faults, [claim[name] for name in FIGURES[:4]]
    fields: Any = holds, tuple(faults), *found, *says, str(claim["status"]), how
    return Verification(*fields)


def _outward(x: Interval) -> tuple[float, float]:
    return _down(x.low), _up(x.high)


def _up(x: Fraction) -> float:
    """Return the least float that is not below x, or the next."""
    try:
        found = float(x)
    except OverflowError:
        return math.inf if x > 0 else -1.7976931348623157e308
    return found if found >= x else math.nextafter(found, math.inf)


def _down(x: Fraction) -> float:
    return -_up(-x)


# --------------------------------------------------------------------------------------------------

# Scores up to this many are read in rational numbers at once, which takes 0.2 to 0.4 s; more, in
# pairs of floats, at 0.1 to 0.3 µs each instead of 2 to 4, and in rational numbers where those
# leave a doubt.
EXACT_SCORES = 100_000


def verify(fusion: Any, S: Any = None, y: Any = None, sample_weight: Any = None) -> Verification:
    r"""Check the certificate of fitted weights, by code that imports nothing of the solver.

    The problem is stated anew from the rows and the parameters of the fusion. Of the fit only its
    weights, its intercept and its certificate are read, and both sides of

    .. math::

        \sum_i c_i \operatorname{gain}(\alpha_i) - \max_{\|w - w_0\|_p \le r} v^\top w
        \;\le\; \text{optimum} \;\le\; f(w, b), \qquad v = \sum_i c_i \alpha_i y_i s_i

    are recomputed: in rational numbers up to 100,000 scores, with compensated sums and a proven
    bound of their rounding beyond, and in rational numbers where that leaves a doubt.

    Every parameter and every field has a domain, such as a finite number of at least 0. A value
    outside it is a fault, and nothing is recomputed then.

    Parameters
    ----------
    fusion : LpFusion or FusedDetector
        Fitted, with a ``certificate_``. Of a `FusedDetector`, the weights over the out-of-fold
        scores that it keeps and its scale are checked; see the notes.
    S : array-like of shape (n, R)
        The scores that it was fitted to. Not for a `FusedDetector`, which keeps them.
    y : array-like of shape (n,), optional
        The labels, as in ``fit``.
    sample_weight : array-like of shape (n,), optional
        The weights of the rows, as in ``fit``.

    Returns
    -------
    Verification
        Whether it `holds`, both sides between two floats each, and what does not hold, in
        sentences: weights outside the ball, other rows than those of the fit, a gap that the dual
        point does not prove, a field outside its domain.

    Notes
    -----
    `holds` says that the figures are true, not that the gap is small: a fit that fell short and
    says so holds. Figures may be off by the rounding that the certificate states, which is limited
    by the size of the scores.

    ``verify(fused)`` fits the scale of a `FusedDetector` anew to the normal rows among the kept
    scores. ``scaler_`` must give these rows the same scores; after `recalibrate`, whose rows are
    not kept, it must give the rows that calibrate the terms that are kept. Not checked are the kept
    scores themselves, which follow from the training rows by a new fit only, the detectors, the
    threshold and the p-values. A key protects these in a file, see :func:`lpfuse.io.save`.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import LpFusion, verify
    >>> S = np.array([[0.9, 0.2], [0.8, -0.4], [-0.7, 0.3], [-0.9, -0.2]])
    >>> y = np.array([1, 1, -1, -1])
    >>> fusion = LpFusion(p=2).fit(S, y)
    >>> found = verify(fusion, S, y)
    >>> found.holds, found.arithmetic, found.relative_gap <= 1e-8
    (True, 'exact', True)
    >>> fusion.weights_ = fusion.weights_[::-1]
    >>> print(verify(fusion, S, y))
    The certificate does not hold, recomputed in exact arithmetic: These rows give the weights
    the value ..., where ... was claimed: ...
    """
    read, fused, rows = Reader(), None, (S, y, sample_weight)
    if S is None or hasattr(fusion, "out_of_fold_"):
        _check_no_rows(fusion, rows)
        fused, fusion = fusion, fusion.fusion_
    _check_certified(fusion)
    try:
        stated = _stated(fusion, rows if fused is None else _stored_rows(fused, read), read)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        if fused is None:
            raise
        read.faults.append(f"The stored scores cannot be scaled and weighted: {error}")
        stated = None
    proof = fusion.certificate_
    claim = {name: read.value(proof, name, domain) for name, domain in FIELDS.items()}
    fit = None if stated is None else Fit.of(fusion, claim, stated, read)
    if stated is None or fit is None or read.faults:
        return _verification(claim, read.faults, None, "exact")
    for kind in (CompensatedRows, ExactRows)[stated.S.size <= EXACT_SCORES :]:
        with suppress(OutOfRangeError):
            if (found := fit.check(stated, kind)) is not None:
                return found
    raise AssertionError("exact arithmetic leaves no doubt")


def _stated(fusion: Any, rows: Sequence[Any], read: Reader) -> StatedProblem | None:
    """Return the problem of checked rows and parameters; None where a parameter is invalid."""
    S, y, sample_weight = rows
    names = column_names(S, fusion)
    scores = to_host(check_scores(S, estimator=fusion))
    n, R = scores.shape
    checked = check_labels(y, n), check_sample_weight(sample_weight, n)
    labels, weights = (np.ones(n) if each is None else each for each in checked)
    options = {name: read.value(fusion, name, domain) for name, domain in PARAMETERS.items()}
    domain = Range(0.0 if options["nonnegative"] else -LARGEST, LARGEST)
    centre = read.vector("prior", _prior(fusion.prior, names, R), R, domain)
    options["groups"] = _groups(fusion.groups, names, R, read)
    if read.faults:
        return None
    exact = [Fraction(x) for x in centre.tolist()]
    return StatedProblem.of(scores, labels, weights, exact, options)


def _check_no_rows(fused: Any, rows: Sequence[Any]) -> None:
    """Raise where a `FusedDetector` comes with rows, or another estimator without."""
    if not hasattr(fused, "out_of_fold_"):
        check_is_fitted(fused)
        raise TypeError(
            f"{quote(type(fused).__name__)} keeps no scores of its training rows: pass those that "
            "it was fitted to, verify(fusion, S, y, sample_weight)."
        )
    if any(each is not None for each in rows):
        raise TypeError(
            "A FusedDetector keeps the scores, labels and weights that its fusion was learnt from: "
            "call verify(fused) without S, y and sample_weight."
        )


def _stored_rows(fused: Any, read: Reader) -> tuple[Any, Any, Any]:
    """Return scaled training scores, labels and weights of a `FusedDetector`; check its scale.

    The scale of the fit is set by normal rows. That of a detector that was recalibrated since is
    set by rows that are not kept: then the terms of its calibration rows, which are, must be those
    that it gives.
    """
    kept, used = fused.out_of_fold_, fused.scaler_
    usable = kept.usable
    S, labels = kept.scores[usable], kept.labels[usable]
    scaler = clone(used).fit(S[labels > 0])
    scaled, n = np.asarray(scaler.transform(S)), fused.unseen_.n_split
    if not _alike(scaled, used.transform(S)):
        raw = np.asarray(fused.unseen_.scores, dtype=np.float64)
        terms = used.transform(np.where(np.isnan(raw), 0.0, raw)) * fused.fusion_.weights_
        if not (n and _alike(np.where(np.isnan(raw), np.nan, terms), fused.held_out_.terms[-n:])):
            read.faults.append(
                "scaler_ is neither the scale that the weights were learnt on nor one set by "
                "recalibrate: it was exchanged or altered since."
            )
    return scaled, labels, kept.weights_of(usable)


def _alike(a: Any, b: Any) -> bool:
    """Return whether scores are equal up to rounding."""
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True)


def _check_certified(fusion: Any) -> None:
    """Raise for a fusion without a certificate, or without the parameters of the problem."""
    check_is_fitted(fusion)
    if not all(hasattr(fusion, name) for name in (*PARAMETERS, "prior", "groups", "certificate_")):
        raise TypeError(
            f"{quote(type(fusion).__name__)} comes without a certificate, so there is nothing to "
            "verify. Weights with a proof are those of LpFusion, also inside a FusedDetector."
        )
