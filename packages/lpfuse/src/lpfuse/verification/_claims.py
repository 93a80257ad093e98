"""What a certificate claims, held against what is recomputed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import to_host
from lpfuse._checks.arguments import check_labels, check_sample_weight
from lpfuse._checks.tables import check_scores, column_names
from lpfuse._format import number, quote
from lpfuse.verification._intervals import Interval
from lpfuse.verification._problem import Sides, Stated
from lpfuse.verification._rows import CompensatedRows, ExactRows, OutOfRangeError, Rows

Vector = NDArray[np.float64]

# Scores up to this many are read in rational numbers at once, in a tenth of a second or so; more,
# only where float64 pairs leave a doubt. By hand.
EXACT_SCORES = 100_000
FLOOR = Fraction(1, 1000)  # gaps are relative to max(f, FLOOR Σ c): documented in `Certificate`
# What a claim may be wrong by, of that: its own differences and quotients were rounded. Sixteen
# units in the last place.
SLACK = Fraction(1, 2**49)
NORM_SLACK = Fraction(1, 10**12)  # how far weights may be outside: a sum of R powers is rounded
PARAMETERS = {
    "p", "loss", "tol", "class_weight", "fit_intercept", "nonnegative", "imaginary_anomalies",
    "prior", "radius",
}  # fmt: skip


@dataclass(frozen=True)
class Verification:
    """What `verify` found.

    Attributes
    ----------
    holds : bool
        Whether everything that the certificate says is true of the rows.
    faults : tuple of str
        Each thing that is not, in a sentence.
    value : tuple of float
        f(w, b) lies between these two.
    bound : tuple of float
        What the dual point of the certificate proves lies between these two: no weights in the ball
        have a value below the first.
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
        """What was found, in words."""
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
        fusion, S, y, sample_weight = _kept_by(fusion, y, sample_weight)
    parameters = _parameters_of(fusion)
    names = column_names(S, fusion)
    scores = to_host(check_scores(S, estimator=fusion))
    n = len(scores)
    labels, weights = check_labels(y, n), check_sample_weight(sample_weight, n)
    ones = np.ones(n)
    stated = Stated.of(
        scores,
        ones if labels is None else labels,
        ones if weights is None else weights,
        names,
        parameters,
    )
    fit = _Fit.of(fusion, parameters, stated)
    kinds: list[type[Rows]] = [ExactRows]
    if scores.size > EXACT_SCORES:
        kinds = [CompensatedRows, ExactRows]
    for kind in kinds:
        try:
            found = fit.judged(stated, kind)
        except OutOfRangeError:
            continue
        if found is not None:
            return found
    raise AssertionError("exact arithmetic leaves no doubt")


def _kept_by(fused: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any, Any]:
    """The fusion inside a `FusedDetector`, and the rows that it was learnt from."""
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
    S = fused.scaler_.transform(kept.scores[usable])
    return fused.fusion_, S, kept.labels[usable], kept.weights_of(usable)


def _parameters_of(fusion: Any) -> Mapping[str, Any]:
    """What the problem is stated by; a fusion that proves nothing is refused."""
    check_is_fitted(fusion)
    parameters: dict[str, Any] = fusion.get_params(deep=False)
    if not (hasattr(fusion, "certificate_") and parameters.keys() >= PARAMETERS):
        raise TypeError(
            f"{quote(type(fusion).__name__)} comes without a certificate, so there is nothing to "
            "verify. Weights with a proof are those of LpFusion, also inside a FusedDetector."
        )
    return parameters


class _Fit(NamedTuple):
    """What is asked of a fit, as floats."""

    w: Vector
    b: float
    dual: Vector | None
    claim: Any
    tol: Fraction

    @classmethod
    def of(cls, fusion: Any, parameters: Mapping[str, Any], stated: Stated) -> _Fit:
        """Weights of a fit that was changed may be of any form: they are judged, not refused."""
        claim = fusion.certificate_
        dual = claim.dual_weights if stated.squares else claim.alpha
        return cls(
            np.asarray(to_host(fusion.weights_), dtype=np.float64),
            float(fusion.intercept_),
            None if dual is None else _floats(dual),
            claim,
            Fraction(float(parameters["tol"])),
        )

    def judged(self, stated: Stated, kind: type[Rows]) -> Verification | None:
        """The verdict; None where the arithmetic leaves a doubt."""
        unusable = self._unusable(stated)
        if unusable:
            nothing = (-math.inf, math.inf)
            return self._verdict((unusable,), nothing, nothing, math.inf, math.inf, kind)
        sides = stated.sides(kind, self.w, self.b, self.dual)
        checks = [*self._ball(stated), *self._claims(sides)]
        faults = tuple(check.fault() for check in checks if check.is_false)
        if not faults and any(not check.is_true for check in checks):
            if kind is not ExactRows:
                return None
            # Only the width of powers, 1e-60, can leave a doubt: what is not proven does not hold.
            faults = tuple(check.fault() for check in checks if not check.is_true)
        gap = sides.value.high - sides.bound.low
        scale = max(sides.value.low, FLOOR * sides.cost.low)
        value, bound = (_outward(side) for side in (sides.value, sides.bound))
        relative = _up(gap / scale) if scale else 0.0
        return self._verdict(faults, value, bound, _up(gap), relative, kind)

    def _verdict(
        self,
        faults: tuple[str, ...],
        value: tuple[float, float],
        bound: tuple[float, float],
        gap: float,
        relative: float,
        kind: type[Rows],
    ) -> Verification:
        claim = self.claim
        says = (float(x) for x in (claim.primal, claim.dual, claim.gap, claim.relative_gap))
        how = "exact" if kind is ExactRows else "compensated"
        return Verification(
            not faults, faults, value, bound, gap, relative, *says, str(claim.status), how
        )

    def _unusable(self, stated: Stated) -> str:
        """Why nothing can be recomputed; empty: it can."""
        R, claim = stated.S.shape[1], self.claim
        if self.w.shape != (R,) or not (np.isfinite(self.w).all() and math.isfinite(self.b)):
            return f"Weights and intercept are not {R + 1} finite numbers."
        says = claim.primal, claim.dual, claim.gap, claim.relative_gap, claim.rounding
        if any(math.isnan(x) for x in says) or claim.rounding < 0.0:
            return "The certificate holds a NaN, or a rounding below 0."
        return ""

    def _ball(self, stated: Stated) -> list[_Check]:
        ball = stated.ball
        far = ball.distance(self.w)
        checks = [
            _Check(
                far,
                ball.radius * (1 + NORM_SLACK),
                lambda: f"The weights are outside the ball: their distance from its centre is "
                f"{number(_up(far.high), 15)}, its radius {number(float(ball.radius), 15)}.",
            )
        ]
        if ball.nonnegative:
            least = float(self.w.min())
            checks.append(
                _known(-least, lambda: f"A weight is negative, {number(least)}: none may be.")
            )
        if not stated.fit_intercept:
            checks.append(
                _known(abs(self.b), lambda: f"There is an intercept, {number(self.b)}, not asked for.")
            )
        return checks

    def _claims(self, sides: Sides) -> list[_Check]:
        """What was claimed, each as a number that must not exceed a limit."""
        claim, value, bound = self.claim, sides.value, sides.bound
        scale = Interval(*(max(v, FLOOR * c) for v, c in zip(value, sides.cost, strict=True)))
        slack = SLACK * scale.low
        gap = value.minus(bound)
        checks = []
        if math.isfinite(claim.primal) and math.isfinite(claim.rounding):
            primal, allowed = Fraction(claim.primal), Fraction(claim.rounding) + slack
            apart = value.minus(Interval.point(primal))
            checks.append(
                _Check(
                    apart.size(),
                    allowed,
                    lambda: "These rows give the weights the value "
                    f"{number(_up(value.high), 6)}, where {number(claim.primal, 6)} was claimed: "
                    "they are other rows, labels or sample weights than those of the fit, or "
                    "weights or certificate were changed since.",
                )
            )
            if math.isfinite(claim.dual):
                dual = Fraction(claim.dual)
                if dual > 0:
                    checks.append(
                        _Check(
                            Interval.point(dual).minus(bound),
                            allowed,
                            lambda: f"The dual point proves {number(_down(bound.low), 6)}, where "
                            f"{number(claim.dual, 6)} was claimed.",
                        )
                    )
                if math.isfinite(claim.gap):
                    whole = primal - dual + Fraction(claim.rounding)
                    checks.append(
                        _Check(
                            Interval.point(whole),
                            Fraction(claim.gap) + SLACK * max(scale.low, abs(primal)),
                            lambda: "The claimed gap is less than value − bound + rounding.",
                        )
                    )
        if math.isfinite(claim.gap):
            checks.append(
                _Check(
                    gap,
                    Fraction(claim.gap) + slack,
                    lambda: f"The proven gap is {number(_up(gap.high), 2)}, where "
                    f"{number(claim.gap, 2)} was claimed.",
                )
            )
        share = gap.over(scale) if scale.low > 0 else Interval.point(Fraction(0))
        limits = [(claim.relative_gap, "was claimed")]
        if claim.status == "optimal":
            limits.append((float(self.tol), 'is what "optimal" asks for'))
        for limit, said in limits:
            if math.isfinite(limit):
                checks.append(_relative(share, limit, said))
        return checks


class _Check(NamedTuple):
    """A number that must not exceed a limit, and what to say if it does."""

    x: Interval
    limit: Fraction
    fault: Callable[[], str]

    @property
    def is_true(self) -> bool:
        return self.x.high <= self.limit

    @property
    def is_false(self) -> bool:
        return self.x.low > self.limit


def _known(x: float, fault: Callable[[], str]) -> _Check:
    """A float that must not be above 0."""
    return _Check(Interval.point(Fraction(x)), Fraction(0), fault)


def _relative(share: Interval, limit: float, said: str) -> _Check:
    return _Check(
        share,
        Fraction(limit) + SLACK,
        lambda: f"The proven relative gap is {number(_up(share.high), 2)}, where "
        f"{number(limit, 2)} {said}.",
    )


def _floats(x: Any) -> Vector:
    found: Vector = np.asarray(to_host(x), dtype=np.float64)
    return found


def _outward(x: Interval) -> tuple[float, float]:
    return _down(x.low), _up(x.high)


def _up(x: Fraction) -> float:
    """The least float that is not below x, or the next."""
    try:
        found = float(x)
    except OverflowError:
        return math.inf if x > 0 else -1.7976931348623157e308
    return found if found >= x else math.nextafter(found, math.inf)


def _down(x: Fraction) -> float:
    return -_up(-x)
