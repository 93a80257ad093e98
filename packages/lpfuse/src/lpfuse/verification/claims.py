"""Independent verification of certificates: the problem, its bounds, and the checks of `verify`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import is_blocked, to_host
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


Vector = NDArray[np.float64]

FLOOR = Fraction(1, 1000)  # gaps are relative to max(f, FLOOR Σ c): see `Certificate`
IMAGINARY_SCORE = -2.0  # what every detector gives to the imaginary anomaly: see `LpFusion`
BLOCK = 65_536  # rows at a time: rows as integers take some ten times the memory of floats
SEARCH = 70  # halvings of a bracket of 1,400: below the last digit of float64


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
            (self._reach(u, self.centre) for u in self._candidates([each.middle for each in v])),
            key=lambda each: each.high,
        )
        return Interval(found.low - beyond, found.high + beyond)

    def _reach(self, u: Sequence[Fraction], centre: Sequence[Fraction]) -> Interval:
        """``r‖u‖_q + uᵀw₀``."""
        along = sum((x * c for x, c in zip(u, centre, strict=True)), Fraction(0))
        out = norm(u, conjugate(self.p))
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
        if not (top and self.radius):
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
        """Return both sides at weights and a dual point.

        Multipliers, or weights w̃ for least squares.

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
    """Return the exact sum of floats, by repeated `math.fsum` of the remainder."""
    terms, found = m.tolist(), Fraction(0)
    while part := math.fsum(terms):
        found += Fraction(part)
        terms.append(-part)
    return found


def _prior(prior: Any, names: Sequence[str] | None, R: int) -> list[Fraction]:
    """Return the centre of the ball, one weight a column."""
    if prior is None:
        return [Fraction(0)] * R
    if hasattr(prior, "to_dict") and all(isinstance(key, str) for key in prior.index):
        prior = prior.to_dict()  # a series with names
    if isinstance(prior, Mapping):
        prior = [prior.get(name, 0.0) for name in names or ()]
    return [Fraction(float(x)) for x in prior]


# --------------------------------------------------------------------------------------------------
# Comparison of the certificate's claims with the recomputed values.


# Relative tolerance for the rounding of the claims: sixteen units in the last place.
SLACK = Fraction(1, 2**49)
NORM_SLACK = Fraction(1, 10**12)  # relative tolerance of the norm: a sum of R powers is rounded


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
        how = {
            "exact": "in exact arithmetic",
            "compensated": "in compensated sums with a bound of their rounding",
        }[self.arithmetic]
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


class Fit(NamedTuple):
    """Weights, intercept, dual point and certificate of a fit, as floats."""

    w: Vector
    b: float
    dual: Vector | None
    claim: Any
    tol: Fraction

    @classmethod
    def of(cls, fusion: Any, parameters: Mapping[str, Any], stated: StatedProblem) -> Fit:
        """Read a fit, which may have been modified: invalid weights are reported, not raised."""
        claim = fusion.certificate_
        dual = claim.dual_weights if stated.squares else claim.alpha
        return cls(
            _floats(fusion.weights_),
            float(fusion.intercept_),
            None if dual is None else _floats(dual),
            claim,
            Fraction(float(parameters["tol"])),
        )

    def check(self, stated: StatedProblem, kind: type[Rows]) -> Verification | None:
        """Compare claims with recomputed values; None where the arithmetic is not conclusive."""
        claim, how = self.claim, "exact" if kind is ExactRows else "compensated"
        unusable = self._unusable_reason(stated)
        value = bound = (-math.inf, math.inf)
        gap = relative = math.inf
        faults = [unusable] if unusable else []
        if not unusable:
            sides = stated.sides(kind, self.w, self.b, self.dual)
            checks = [*self._feasibility_checks(stated), *self._claim_checks(sides)]
            faults = [check.fault for check in checks if check.is_false]
            if not faults and not all(check.is_true for check in checks):
                if how != "exact":
                    return None
                # Inconclusive only by the width of powers, 1e-60: not proven.
                faults = [check.fault for check in checks if not check.is_true]
            value, bound = _outward(sides.value), _outward(sides.bound)
            gap, relative = _up(sides.gap.high), _up(sides.relative_gap.high)
        return Verification(
            holds=not faults,
            faults=tuple(faults),
            value=value,
            bound=bound,
            gap=gap,
            relative_gap=relative,
            claimed_value=float(claim.primal),
            claimed_bound=float(claim.dual),
            claimed_gap=float(claim.gap),
            claimed_relative_gap=float(claim.relative_gap),
            status=str(claim.status),
            arithmetic=how,
        )

    def _unusable_reason(self, stated: StatedProblem) -> str:
        """Return why nothing can be recomputed; empty if it can."""
        R, claim = stated.S.shape[1], self.claim
        if self.w.shape != (R,) or not (np.isfinite(self.w).all() and math.isfinite(self.b)):
            return f"Weights and intercept are not {R + 1} finite numbers."
        says = claim.primal, claim.dual, claim.gap, claim.relative_gap, claim.rounding
        if any(math.isnan(x) for x in says) or claim.rounding < 0.0:
            return "The certificate holds a NaN, or a rounding below 0."
        return ""

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

    def _claim_checks(self, sides: Sides) -> Iterator[_Check]:
        """Yield checks of the claims, each a number that must not exceed a limit.

        Infinite values claim nothing. Value and bound may be off by the stated rounding, and all by
        `SLACK`.
        """
        claim, slack = self.claim, SLACK * sides.scale.low
        value, bound, gap = sides.value, sides.bound, sides.gap
        says = claim.primal, claim.dual, claim.rounding
        if all(map(math.isfinite, says)):
            primal, dual, rounding = map(Fraction, says)
            yield _Check(
                value.minus(Interval.point(primal)).size(),
                rounding + slack,
                f"These rows give the weights the value {number(_up(value.high), 6)}, where "
                f"{number(claim.primal, 6)} was claimed: they are other rows, labels or sample "
                "weights than those of the fit, or weights or certificate were changed since.",
            )
            yield _Check(
                Interval.point(max(dual, Fraction(0))).minus(bound),
                rounding + slack,
                f"The dual point proves the bound {number(_down(bound.low), 6)}, where "
                f"{number(claim.dual, 6)} was claimed.",
            )
            if math.isfinite(claim.gap):
                yield _Check(
                    Interval.point(primal - dual + rounding),
                    Fraction(claim.gap) + SLACK * (abs(primal) + abs(dual) + rounding),
                    "The claimed gap is less than value − bound + rounding.",
                )
        if math.isfinite(claim.gap):
            told = f"{number(_up(gap.high), 2)}, where {number(claim.gap, 2)} was claimed."
            yield _Check(gap, Fraction(claim.gap) + slack, f"The proven gap is {told}")
        relative = sides.relative_gap
        told = f"The proven relative gap is {number(_up(relative.high), 2)}, where"
        if math.isfinite(claim.relative_gap):
            limit, said = claim.relative_gap, number(claim.relative_gap, 2)
            yield _Check(relative, Fraction(limit) + SLACK, f"{told} {said} was claimed.")
        if claim.status == "optimal":
            said = f'"optimal" is at most {number(float(self.tol), 2)}.'
            yield _Check(relative, self.tol + SLACK, f"{told} {said}")


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


def _floats(x: Any) -> Vector:
    # Multipliers beside scores of Dask are lazy.
    found: Vector = np.asarray(to_host(x.compute() if is_blocked(x) else x), dtype=np.float64)
    return found


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
PARAMETERS = {
    "p", "loss", "tol", "class_weight", "fit_intercept", "nonnegative", "imaginary_anomalies",
    "prior", "radius",
}  # fmt: skip


def verify(fusion: Any, S: Any = None, y: Any = None, sample_weight: Any = None) -> Verification:
    r"""Check the certificate of fitted weights, by code that shares nothing with the solver.

    The problem is stated anew from the rows and the parameters of the fusion. Of the fit only its
    weights, its intercept and its certificate are read, and both sides of

    .. math::

        \sum_i c_i \operatorname{gain}(\alpha_i) - \max_{\|w - w_0\|_p \le r} v^\top w
        \;\le\; \text{optimum} \;\le\; f(w, b), \qquad v = \sum_i c_i \alpha_i y_i s_i

    are recomputed: in rational numbers up to 100,000 scores, with compensated sums and a proven
    bound of their rounding beyond, and in rational numbers where that leaves a doubt.

    Parameters
    ----------
    fusion : LpFusion or FusedDetector
        Fitted, with a ``certificate_``.
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
        point does not prove.

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
    if S is None:
        fusion, S, y, sample_weight = _stored_fit(fusion, y, sample_weight)
    parameters = _problem_parameters(fusion)
    names = column_names(S, fusion)
    scores = to_host(check_scores(S, estimator=fusion))
    n = len(scores)
    labels, weights = check_labels(y, n), check_sample_weight(sample_weight, n)
    ones = np.ones(n)
    stated = StatedProblem.of(
        scores,
        ones if labels is None else labels,
        ones if weights is None else weights,
        names,
        parameters,
    )
    fit = Fit.of(fusion, parameters, stated)
    kinds: list[type[Rows]] = [ExactRows]
    if scores.size > EXACT_SCORES:
        kinds = [CompensatedRows, ExactRows]
    for kind in kinds:
        try:
            found = fit.check(stated, kind)
        except OutOfRangeError:
            continue
        if found is not None:
            return found
    raise AssertionError("exact arithmetic leaves no doubt")


def _stored_fit(fused: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any, Any]:
    """Return the fusion of a `FusedDetector`, and its training scores, labels and weights."""
    kept = getattr(fused, "out_of_fold_", None)
    if kept is None or not hasattr(fused, "fusion_"):
        check_is_fitted(fused)
        raise TypeError(
            f"{quote(type(fused).__name__)} keeps no scores of its training rows: pass those that "
            "it was fitted to, verify(fusion, S, y, sample_weight)."
        )
    if y is not None or sample_weight is not None:
        raise TypeError(
            "A FusedDetector keeps the scores, labels and weights that its fusion was learnt from: "
            "call verify(fused) without y and sample_weight."
        )
    usable = kept.usable
    S, labels = kept.scores[usable], kept.labels[usable]
    # The scale of the fit, which normal rows set: `recalibrate` may have moved `scaler_` since.
    scaler = clone(fused.scaler_).fit(S[labels > 0])
    return fused.fusion_, np.asarray(scaler.transform(S)), labels, kept.weights_of(usable)


def _problem_parameters(fusion: Any) -> Mapping[str, Any]:
    """Return the parameters of the problem; raise for a fusion without a certificate."""
    check_is_fitted(fusion)
    parameters: dict[str, Any] = fusion.get_params(deep=False)
    if not (hasattr(fusion, "certificate_") and parameters.keys() >= PARAMETERS):
        raise TypeError(
            f"{quote(type(fusion).__name__)} comes without a certificate, so there is nothing to "
            "verify. Weights with a proof are those of LpFusion, also inside a FusedDetector."
        )
    return parameters
