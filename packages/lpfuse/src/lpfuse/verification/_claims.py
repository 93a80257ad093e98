"""What a certificate claims, held against what is recomputed: `Fit.judged` tells."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import is_blocked, to_host
from lpfuse._format import number
from lpfuse.verification._intervals import Interval
from lpfuse.verification._problem import Sides, Stated
from lpfuse.verification._rows import ExactRows, Rows

Vector = NDArray[np.float64]

# What a claim may be wrong by, of that: its own differences and quotients were rounded. Sixteen
# units in the last place.
SLACK = Fraction(1, 2**49)
NORM_SLACK = Fraction(1, 10**12)  # how far weights may be outside: a sum of R powers is rounded


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


class Fit(NamedTuple):
    """What is asked of a fit, as floats."""

    w: Vector
    b: float
    dual: Vector | None
    claim: Any
    tol: Fraction

    @classmethod
    def of(cls, fusion: Any, parameters: Mapping[str, Any], stated: Stated) -> Fit:
        """Weights of a fit that was changed may be of any form: they are judged, not refused."""
        claim = fusion.certificate_
        dual = claim.dual_weights if stated.squares else claim.alpha
        return cls(
            _floats(fusion.weights_),
            float(fusion.intercept_),
            None if dual is None else _floats(dual),
            claim,
            Fraction(float(parameters["tol"])),
        )

    def judged(self, stated: Stated, kind: type[Rows]) -> Verification | None:
        """The verdict; None where the arithmetic leaves a doubt."""
        claim, how = self.claim, "exact" if kind is ExactRows else "compensated"
        unusable = self._unusable(stated)
        value = bound = (-math.inf, math.inf)
        gap = relative = math.inf
        faults = [unusable] if unusable else []
        if not unusable:
            sides = stated.sides(kind, self.w, self.b, self.dual)
            checks = [*self._in_ball(stated), *self._claims(sides)]
            faults = [check.fault for check in checks if check.is_false]
            if not faults and not all(check.is_true for check in checks):
                if how != "exact":
                    return None
                # Only the width of powers, 1e-60, leaves a doubt: what is not proven is no proof.
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

    def _unusable(self, stated: Stated) -> str:
        """Why nothing can be recomputed; empty: it can."""
        R, claim = stated.S.shape[1], self.claim
        if self.w.shape != (R,) or not (np.isfinite(self.w).all() and math.isfinite(self.b)):
            return f"Weights and intercept are not {R + 1} finite numbers."
        says = claim.primal, claim.dual, claim.gap, claim.relative_gap, claim.rounding
        if any(math.isnan(x) for x in says) or claim.rounding < 0.0:
            return "The certificate holds a NaN, or a rounding below 0."
        return ""

    def _in_ball(self, stated: Stated) -> Iterator[_Check]:
        """Whether the weights are allowed; of what must be 0 or less nothing is rounded."""
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

    def _claims(self, sides: Sides) -> Iterator[_Check]:
        """What was claimed, each as a number that must not exceed a limit.

        Infinite figures claim nothing. Value and bound may err by the stated rounding, and all by
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
    """A number that must not exceed a limit, and what to say if it does."""

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
    """The least float that is not below x, or the next."""
    try:
        found = float(x)
    except OverflowError:
        return math.inf if x > 0 else -1.7976931348623157e308
    return found if found >= x else math.nextafter(found, math.inf)


def _down(x: Fraction) -> float:
    return -_up(-x)
