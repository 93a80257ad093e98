"""The ball of Tax & Duin (2004) by general-purpose optimisation (cvxpy and CLARABEL).

Signs y_i = ±1 say on which side of the ball a row belongs, C_i is what the wrong side costs. With
d_i the distances to the centre,

    primal: min R² + Σ C_i max(0, y_i (d_i² − R²)),
    dual:   max Σ β_i k_ii − βᵀKβ   subject to   Σ β = 1,   0 ≤ y_i β_i ≤ C_i.
"""

from typing import NamedTuple

import cvxpy as cp
import numpy as np

from oracles.cvxpy_models import minimise

TIGHT = 1e-12


class Optimum(NamedTuple):
    value: float
    beta: np.ndarray


def by_dual(K, C, signs):
    """The optimum from a kernel matrix that need be positive only where Σ β is fixed.

    There the objective is ½ βᵀDβ for the squared distances D; written with β = 1/n + Jβ, where J
    takes the mean away, it is concave and no digits are lost to an offset of K.
    """
    n = len(K)
    D = K.diagonal()[:, None] + K.diagonal() - 2 * K
    J = np.eye(n) - 1 / n
    G = -0.5 * J @ D @ J
    sizes, directions = np.linalg.eigh((G + G.T) / 2)
    assert sizes.min() >= -1e-9 * max(sizes.max(), 1e-300), "the ball's problem is not convex"
    root = np.sqrt(np.maximum(sizes, 0.0))[:, None] * directions.T
    beta = cp.Variable(n)
    constraints = [cp.sum(beta) == 1, cp.multiply(signs, beta) >= 0]
    constraints += [cp.multiply(signs, beta) <= C]
    minimise(cp.sum_squares(root @ beta) - (D.mean(axis=0) @ J) @ beta, constraints, TIGHT)
    return Optimum(dual_value(K, beta.value), beta.value)


def by_primal(features, kappa, C, signs):
    """The optimum's value and centre from explicit features.

    The rows may stick out of the features' space: ``κ_i ≥ ‖φ_i‖²``. Distances are taken from the
    mean and in units of their own, so that neither an offset nor the scale costs digits.
    """
    mean = features.mean(axis=0)
    rows, above = features - mean, np.maximum(kappa - (features**2).sum(axis=1), 0.0)
    unit = np.sqrt(((rows**2).sum(axis=1) + above).max()) or 1.0
    rows, squares = rows / unit, ((rows**2).sum(axis=1) + above) / unit**2
    a, rho = cp.Variable(rows.shape[1]), cp.Variable()
    slack = cp.pos(cp.multiply(signs, squares - 2 * rows @ a - rho))
    minimise(cp.sum_squares(a) + rho + C @ slack, [], TIGHT)
    radius2 = float(rho.value) + a.value @ a.value
    distances2 = squares - 2 * rows @ a.value + a.value @ a.value
    return unit**2 * primal_value(distances2, radius2, C, signs), mean + unit * a.value


def dual_value(K, beta):
    return float(beta @ K.diagonal() - beta @ K @ beta)


def primal_value(distances2, radius2, C, signs):
    return float(radius2 + C @ np.maximum(0.0, signs * (distances2 - radius2)))


def distances2(beta, K, to_rows, diagonal):
    """Squared distances to the centre Σ β_i φ_i of rows with similarities `to_rows` to the x_i."""
    return diagonal - 2 * to_rows @ beta + beta @ K @ beta
