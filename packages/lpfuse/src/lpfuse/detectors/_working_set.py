"""The dual of the smallest enclosing ball for many rows, of which few matter.

Rows inside the ball have multiplier zero: a solver that sees only the others finds the same ball.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Array, Host, beside, take, to_host
from lpfuse.detectors._kernels import Expansion, Kernel, Similarities

Solver = Callable[..., tuple[Host, float]]
FEW = 250  # rows, at least, that the first guess is made from; chosen by hand


def working_set(
    kernel: Kernel, X: Array, bounds: Host, tol: float, solve: Solver, few: int = FEW
) -> tuple[Host, float]:
    """The multipliers of all rows, and ρ, from solutions for few of them.

    The solver sees the rows that are likely to be outside or on the surface. Rows that turn out to
    be outside of the ball it finds join them; where there are none left, the solution is that of
    all rows, up to the solver's tolerance.

    Parameters
    ----------
    kernel : Kernel
        A Gaussian kernel.
    X : array of shape (n, d)
        All rows.
    bounds : ndarray of shape (n,)
        The C_i.
    tol : float
        The tolerance of `solve`.
    solve : callable
        ``solve(data, bounds, tol, **parameters)`` gives the multipliers and ρ of the rows that
        `data` stands for: their kernel matrix (``kernel="precomputed"``), or the rows themselves.
    few : int
        How many rows, at least, the first guess is made from.
    """
    chosen = _likely_outside(kernel, X, bounds, tol, solve, few)
    tolerance = tol * bounds.max()  # libsvm's, for coefficients that sum to one
    while True:
        part = take(X, chosen)
        # Most of these rows take part, so their matrix is computed at once.
        beta, rho = solve(to_host(kernel.gram(part)), bounds[chosen], tol, kernel="precomputed")
        support = np.flatnonzero(beta)
        near = similarities(kernel, take(part, support), beta[support], X)
        outside = near < rho - tolerance
        outside[chosen] = False
        if not outside.any():
            solution = np.zeros(X.shape[0])
            solution[chosen] = beta
            return solution, rho
        # The worst first: they may pull the ball over the others.
        worst = np.argsort(np.where(outside, near, np.inf))[: len(chosen) // 2]
        chosen = np.union1d(chosen, worst[outside[worst]])


def _likely_outside(
    kernel: Kernel, X: Array, bounds: Host, tol: float, solve: Solver, few: int
) -> NDArray[np.intp]:
    """Positions of somewhat more rows than can be outside, by the ball of a few evenly spaced."""
    n = X.shape[0]
    n_pilot = max(few, n // 10)
    chosen = np.linspace(0, n - 1, n_pilot).astype(int)
    pilot, costs = take(X, chosen), bounds[chosen] * (bounds.sum() / bounds[chosen].sum())
    beta, _ = solve(to_host(pilot), costs, tol, kernel="rbf", gamma=kernel.gamma)
    if np.count_nonzero(beta) > n_pilot / 2:  # so narrow a kernel leaves hardly any row inside
        return np.arange(n)
    order = np.argsort(similarities(kernel, pilot, beta, X))
    # Rows outside have multipliers at their bounds, which sum to at most 1: those whose bounds sum
    # to 1.4 leave room for the guess's errors. Chosen by hand.
    count = int(np.searchsorted(np.cumsum(bounds[order]), 1.4)) + few // 2
    return np.sort(order[:count])


def similarities(kernel: Kernel, anchors: Array, coefficients: Host, X: Array) -> Host:
    """``Σ_j k(x, z_j) c_j`` for all rows x of X."""
    expansion = Expansion(Similarities(kernel, anchors), beside(coefficients[:, None], X), 1)
    return to_host(expansion.map(X, lambda _, values: values[:, 0]))
