"""The verdict on a fitted `LpFusion`: what its certificate says against what is true.

Only what users see is asked: weights, intercept, and the certificate with its witness, the dual
point `alpha` (hinge) or `dual_weights` (least squares). All is recomputed in exact arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from research.proofs.problem import ExactProblem

FLOOR = Fraction(1, 1000)  # gaps are relative to max(f, FLOOR Σ c): documented in `Certificate`
SLACK = Fraction(1, 10**12)  # of that: what a claim may be wrong by; also ‖w − w₀‖ / r − 1


@dataclass(frozen=True)
class Verdict:
    """What was found.

    Attributes
    ----------
    reasons : tuple of str
        Each thing that is not true, in words; empty: the certificate holds.
    value, bound : float
        True f(w, b), and the lower bound that the witness proves.
    relative_gap : float
        ``(value − bound) / max(value, 1e-3 Σ c)``, true.
    excess : float
        By how much the true gap exceeds the claimed one (the worse of `gap` and `relative_gap`), as
        a share of the same. Negative: the claim is cautious.
    norm_excess : float
        ``‖w − w₀‖_p / r − 1``.
    """

    reasons: tuple[str, ...]
    value: float = math.nan
    bound: float = math.nan
    relative_gap: float = math.nan
    excess: float = math.nan
    norm_excess: float = math.nan

    @property
    def is_false(self) -> bool:
        return bool(self.reasons)


def judge(
    S: Any, y: Any, sample_weight: Any, parameters: Mapping[str, Any], fitted: Any
) -> Verdict:
    """Judge the certificate of a fit.

    Parameters
    ----------
    S, y, sample_weight
        As they were passed to ``LpFusion.fit``.
    parameters : mapping
        Those of `LpFusion`; `p` must be there.
    fitted
        Has ``weights_``, ``intercept_`` and ``certificate_``.

    Examples
    --------
    >>> from lpfuse import LpFusion
    >>> S, y = [[1.0, 0.2], [0.3, 0.9], [-0.5, 0.1]], [1, 1, -1]
    >>> judge(S, y, None, {"p": 2.0}, LpFusion(p=2.0).fit(S, y)).reasons
    ()
    """
    w = np.asarray(fitted.weights_, dtype=np.float64)
    b, claim = float(fitted.intercept_), fitted.certificate_
    if not (np.isfinite(w).all() and math.isfinite(b)):
        return Verdict(("weights or intercept are not finite",))
    if any(math.isnan(x) for x in (claim.primal, claim.dual, claim.gap, claim.relative_gap)):
        return Verdict(("the certificate holds a NaN",))
    problem = ExactProblem(S, y, sample_weight, parameters)
    value = problem.value(w, b)
    bound = _proven(problem, claim, value)
    scale = max(value, FLOOR * problem.total_cost)
    gap = value - bound
    excess = _excess(gap, scale, claim)
    norm_excess = problem.norm(w) - 1
    reasons = [
        *_infeasible(problem, w, b, norm_excess),
        *_false_claims(claim, value, bound, scale),
        *(["the witness proves less than the gap says"] if excess > SLACK else []),
    ]
    tol = Fraction(parameters.get("tol", 1e-8))
    if claim.status == "optimal" and gap > tol * scale:
        reasons.append("optimal is not proven within tol")
    relative = gap / scale if scale else Fraction(0)
    return Verdict(tuple(reasons), *map(_float, (value, bound, relative, excess, norm_excess)))


def _proven(problem: ExactProblem, claim: Any, value: Fraction) -> Fraction:
    """What the witness proves; no witness proves 0, as both losses are at least that."""
    witness = claim.dual_weights if problem.squares else claim.alpha
    if witness is None:
        return Fraction(0)
    witness = np.asarray(witness, dtype=np.float64)
    length = problem.R if problem.squares else len(problem.rows)
    if witness.shape != (length,) or not np.isfinite(witness).all():
        return Fraction(0)
    if problem.squares:
        return max(problem.least_squares_bound(witness), Fraction(0))
    return max(problem.hinge_bound(witness, value) or Fraction(0), Fraction(0))


def _excess(gap: Fraction, scale: Fraction, claim: Any) -> Fraction:
    """True minus claimed gap, as a share of the scale; infinite claims claim nothing."""
    if not scale:
        return Fraction(0)
    relative = gap / scale
    claims = [
        Fraction(claim.gap) / scale if math.isfinite(claim.gap) else relative,
        Fraction(claim.relative_gap) if math.isfinite(claim.relative_gap) else relative,
    ]
    return relative - min(claims)


def _infeasible(problem: ExactProblem, w: np.ndarray, b: float, norm_excess: Fraction) -> list[str]:
    found = []
    if norm_excess > SLACK:
        found.append("weights outside the ball")
    if problem.nonnegative and w.min() < 0:
        found.append("negative weights")
    if not problem.fit_intercept and b:
        found.append("an intercept that was not asked for")
    return found


def _false_claims(claim: Any, value: Fraction, bound: Fraction, scale: Fraction) -> list[str]:
    """Primal and dual as computed may err by the stated rounding."""
    if not all(map(math.isfinite, (claim.primal, claim.dual, claim.gap))):
        return []
    primal, dual = Fraction(claim.primal), Fraction(claim.dual)
    allowance = Fraction(claim.rounding) + SLACK * scale
    found = []
    if value > primal + allowance:
        found.append("the value is higher than the primal says")
    if bound < dual - allowance and dual > 0:
        found.append("the witness proves less than the dual says")
    return found


def _float(x: Fraction) -> float:
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf
