r"""The dual of the smallest enclosing ball, exactly, by libsvm.

.. math:: \max_\beta \; \sum_i \beta_i k_{ii} - \sum_{ij} \beta_i \beta_j k_{ij}
          \quad \text{subject to} \quad \sum_i \beta_i = 1, \; 0 \le y_i \beta_i \le C_i

Where ``k(x, x)`` is the same for all rows and all are normal, this is the one-class SVM's dual, up
to constants. Any other case is brought to that form: since :math:`\sum \beta` is fixed, a linear
term :math:`\sum_i \ell_i \beta_i` equals a quadratic one with the matrix
:math:`(\ell_i + \ell_j) / (2 \sum \beta)`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.svm import OneClassSVM

from lpfuse._arrays import Array, Host, beside, take, to_host
from lpfuse.detectors._expansion import Expansion, Similarities
from lpfuse.detectors._kernels import Kernel
from lpfuse.detectors._training import TrainingRows

MANY = 2000  # rows from which it pays to look for those that matter first
MATRIX_FROM = 200  # multipliers from which the matrix at once is cheaper than row by row in libsvm
FEW = 250  # rows that stand for all when looking for them, at least
ON_BOUND = 1e-9  # a coefficient this close to its bound is on it


class Dual(NamedTuple):
    """The multipliers, and the ball that they make."""

    beta: Host  # (n,), negative for anomalies
    center_norm2: float
    radius2: float


def solve_dual(kernel: Kernel, rows: TrainingRows, bounds: Host, signs: Host, tol: float) -> Dual:
    """The ball of rows with the costs `bounds`, +1 inside and −1 outside."""
    if bounds[signs > 0].sum() <= 1 + 1e-12:
        beta, level = _all_outside(kernel, rows.X, bounds, signs)
    elif kernel.has_unit_diagonal and rows.labels is None:
        beta, rho = _one_class_svm(kernel, rows, bounds, tol)
        level = 1 - 2 * rho
    else:
        beta, level = _shifted_one_class_svm(kernel, rows, bounds, signs, tol)
    support = np.flatnonzero(beta)
    coefficients, vectors = beta[support], take(rows.X, support)
    similarities = to_host(kernel.between(vectors, vectors)) @ coefficients
    center_norm2 = float(coefficients @ similarities)
    surface = (coefficients > 0) & (coefficients < (1 - ON_BOUND) * bounds[support])
    if surface.any():
        # Equal but for the solver's tolerance; the largest leaves none of them outside.
        level = (to_host(kernel.diagonal(vectors)) - 2 * similarities)[surface].max()
    return Dual(beta, center_norm2, max(0.0, float(level) + center_norm2))


def _all_outside(kernel: Kernel, X: Array, bounds: Host, signs: Host) -> tuple[Host, float]:
    """The dual has one point, all normal rows at their bound: the centre is their mean."""
    beta = np.where(signs > 0, bounds, 0.0)
    return beta, (to_host(kernel.diagonal(X)) - 2 * _similarities(kernel, X, beta, X)).min()


def _one_class_svm(
    kernel: Kernel, rows: TrainingRows, bounds: Host, tol: float
) -> tuple[Host, float]:
    few_take_part = 1 / bounds.max() < MATRIX_FROM  # at least so many have a multiplier
    if kernel.name == "rbf" and not rows.share:
        if len(rows) >= MANY:
            return _working_set(kernel, rows.X, bounds, tol)
        if few_take_part:
            return _libsvm(to_host(rows.X), bounds, tol, kernel="rbf", gamma=kernel.gamma)
    return _libsvm(to_host(rows.gram(kernel)), bounds, tol, kernel="precomputed")


def _working_set(kernel: Kernel, X: Array, bounds: Host, tol: float) -> tuple[Host, float]:
    """The dual with few of many rows: those inside the ball have no part in it.

    libsvm sees the rows that are likely to be outside or on the surface. Rows that turn out to be
    outside of the ball it finds join them; when there are none left, all have been heard.
    """
    chosen = _likely_outside(kernel, X, bounds, tol)
    tolerance = tol * bounds.max()  # libsvm's, for coefficients that sum to one
    while True:
        part = take(X, chosen)
        # Most of these rows take part, so their matrix is computed at once.
        beta, rho = _libsvm(to_host(kernel.gram(part)), bounds[chosen], tol, kernel="precomputed")
        support = np.flatnonzero(beta)
        similarities = _similarities(kernel, take(part, support), beta[support], X)
        outside = similarities < rho - tolerance
        outside[chosen] = False
        if not outside.any():
            solution = np.zeros(X.shape[0])
            solution[chosen] = beta
            return solution, rho
        # The worst first: they may pull the ball over the others.
        worst = np.argsort(np.where(outside, similarities, np.inf))[: len(chosen) // 2]
        chosen = np.union1d(chosen, worst[outside[worst]])


def _likely_outside(kernel: Kernel, X: Array, bounds: Host, tol: float) -> NDArray[np.intp]:
    """Positions of somewhat more rows than can be outside, by the ball of a few evenly spaced."""
    n = X.shape[0]
    n_few = max(FEW, n // 10)
    few = np.linspace(0, n - 1, n_few).astype(int)
    pilot, costs = take(X, few), bounds[few] * (bounds.sum() / bounds[few].sum())
    beta, _ = _libsvm(to_host(pilot), costs, tol, kernel="rbf", gamma=kernel.gamma)
    if np.count_nonzero(beta) > n_few / 2:  # so narrow a kernel leaves hardly any row inside
        return np.arange(n)
    order = np.argsort(_similarities(kernel, pilot, beta, X))
    count = int(np.searchsorted(np.cumsum(bounds[order]), 1.4)) + FEW // 2
    return np.sort(order[:count])


def _shifted_one_class_svm(
    kernel: Kernel, rows: TrainingRows, bounds: Host, signs: Host, tol: float
) -> tuple[Host, float]:
    """For any kernel and for anomalies, whose β in [−C, 0] become γ = β + C in [0, C]."""
    Q = to_host(rows.gram(kernel, to_overwrite=True))
    lower = np.where(signs < 0, -bounds, 0.0)
    reach = 1 - lower.sum()
    linear = 2 * Q @ lower - Q.diagonal()
    Q += linear[:, None] / (2 * reach)
    Q += linear[None, :] / (2 * reach)
    # libsvm keeps single precision: a constant, which changes nothing, must not use it up.
    mean = float(Q.mean())
    size = float(Q.diagonal().mean()) - mean or 1.0  # half the mean squared distance
    Q -= mean
    Q /= size
    gamma, rho = _libsvm(Q, bounds, tol, reach, kernel="precomputed")
    beta = lower + gamma
    beta[np.abs(beta) <= 1e-12 * bounds] = 0.0
    return beta, float(linear @ gamma) / reach - 2 * (size * rho + mean * reach)


def _libsvm(
    data: Host, bounds: Host, tol: float, reach: float = 1.0, **parameters: Any
) -> tuple[Host, float]:
    """The least ``αᵀQα`` with 0 ≤ α_i ≤ C_i and Σ α = `reach`, and the ρ that ``Qα`` has inside.

    libsvm wants the bounds as shares of the largest, and the sum as a share of theirs.
    """
    machine = OneClassSVM(nu=min(1.0, reach / bounds.sum()), tol=tol, **parameters)
    weighted = bounds.min() < bounds.max()
    with config_context(assume_finite=True, skip_parameter_validation=True):
        machine.fit(data, sample_weight=bounds / bounds.max() if weighted else None)
    coefficients = machine.dual_coef_.ravel()
    scale = reach / coefficients.sum()
    solution = np.zeros(len(data))
    solution[machine.support_] = coefficients * scale
    return solution, float(-machine.intercept_[0]) * scale


def _similarities(kernel: Kernel, anchors: Array, coefficients: Host, X: Array) -> Host:
    """``Σ_j k(x, z_j) c_j`` for all rows x of X."""
    expansion = Expansion(Similarities(kernel, anchors), beside(coefficients[:, None], X), 1)
    return to_host(expansion.map(X, lambda _, values: values[:, 0]))
