"""The judge: a time counts only where the result is the one that everybody was asked for.

Scores that have a closed form must agree to 1e-8; those of kernel PCA have one where the last
component in use and the first that is left out have different variances. Balls are found by an
iteration that stops at a tolerance, so of each the judge recomputes in float64, on all rows, how
far it is from optimal: in libsvm's own measure, the largest violation of the optimality conditions,
and by its objective.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from sklearn.metrics.pairwise import rbf_kernel

from .data import Matrix, Vector

EQUAL = 1e-8
SLACK = 1.5  # libsvm keeps kernel values in float32: it may stop a little too early by our count
SAME_OBJECTIVE = 1e-5
TIE = 1e-6  # a gap between two eigenvalues, as a share of the largest, that rounding may turn round


class Ball(NamedTuple):
    """A ball by its coefficients, which sum to one, of some training rows."""

    support: np.ndarray
    coefficients: Vector


def difference(scores: Any, reference: Any) -> float:
    """The largest, as a share of the largest score; infinite where one is not a number."""
    apart = np.abs(np.asarray(scores) - np.asarray(reference)).max()
    size = np.abs(reference).max()
    return float(apart / size) if np.isfinite(apart) and size > 0 else float("inf")


def ball_facts(X: Matrix, ball: Ball, nu: float, gamma: float) -> dict[str, float]:
    """What decides whether a ball is the one that was asked for.

    With f = Kβ and C = 1 / (νn): at the optimum no row that could weigh more lies further out than
    a row that could weigh less. libsvm measures the worst such pair for coefficients of sum νn.
    """
    n = len(X)
    beta = np.zeros(n)
    beta[ball.support] = ball.coefficients
    values = np.concatenate(
        [
            rbf_kernel(X[start : start + 2048], X[ball.support], gamma) @ ball.coefficients
            for start in range(0, n, 2048)
        ]
    )
    bound = 1 / (nu * n)
    may_grow, may_shrink = beta < bound * (1 - 1e-9), beta > 0
    violation = values[may_shrink].max() - values[may_grow].min() if may_grow.any() else 0.0
    outside_box = max(-beta.min(), beta.max() - bound, abs(beta.sum() - 1)) / bound
    return {
        "violation": float(violation * nu * n),
        "objective": float(beta @ values),
        "infeasibility": float(outside_box),
        "support": float(np.count_nonzero(beta)),
    }


def is_optimal(facts: dict[str, float], best: float, tol: float) -> bool:
    """Whether a ball meets the tolerance and is as good as the best that was found."""
    return (
        facts["violation"] <= SLACK * tol
        and facts["infeasibility"] <= 1e-6
        and facts["objective"] <= best * (1 + SAME_OBJECTIVE)
    )


def components_without_ties(X: Matrix, gamma: float, most: int) -> np.ndarray:
    """Whether the first q components are one choice only, for q = 0 … most."""
    K = rbf_kernel(X, gamma=gamma)
    means = K.mean(axis=0)
    K -= means
    K -= means[:, None] - means.mean()
    values = scipy.linalg.eigvalsh(K, overwrite_a=True, check_finite=False)[::-1]
    gaps = values[: most + 1] - values[1 : most + 2]
    return np.r_[True, (gaps > TIE * values[0])[:most]]
