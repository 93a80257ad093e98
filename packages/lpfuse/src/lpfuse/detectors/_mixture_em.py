"""The EM algorithm for Gaussian mixtures where the rows live: on a device, in its own library.

It takes the steps of scikit-learn's, and stops where that one stops. A step reads the rows once:
sums are taken about the means of the step before, which keeps them exact, and moved afterwards.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.utils import check_random_state

from lpfuse._arrays.linalg import add_to_diagonal, cholesky, diagonal_of, invert_lower
from lpfuse._arrays.operations import (
    Array,
    Host,
    array_range,
    as_float64,
    like,
    namespace,
    sum_row_blocks,
    take,
    to_host,
)
from lpfuse.detectors._landmarks import STEPS, far_apart, lloyd_step

Shares = Callable[[list[Array]], Array]  # from rows about each mean to their share in each, m×k
START_ROWS = 20_000  # that k-means looks at; chosen by hand
# What a component that has lost all rows counts for, so that nothing is divided by zero; as in
# scikit-learn's mixture.
NO_ROWS = 10 * float(np.finfo(np.float64).eps)
MATRICES = ("full", "tied")  # covariance types that are no mere variances


@dataclass(frozen=True)
class Gaussians:
    """The k components of a mixture, in float64 beside the rows; matrices, or vectors if diagonal.

    Attributes
    ----------
    weights : ndarray of shape (k,)
        They sum to one.
    means : list of k arrays
        Of shape (d,).
    covariances, roots : list of k arrays
        Σ and P with ``Σ⁻¹ = P Pᵀ``.
    """

    weights: Host
    means: list[Array]
    covariances: list[Array]
    roots: list[Array]

    @property
    def log_heights(self) -> Host:
        """``log π_k + log det Σ_k^{−1/2} − d/2 · log 2π``: the logarithm of each peak."""
        diagonals = [diagonal_of(root) if root.ndim == 2 else root for root in self.roots]
        log_dets = np.array([np.log(to_host(diagonal)).sum() for diagonal in diagonals])
        d = self.means[0].shape[0]
        return np.log(self.weights) + log_dets - 0.5 * d * np.log(2 * np.pi)


def fit_on_device(mixture: GaussianMixture, X: Array) -> GaussianMixture:
    """Fit a mixture of scikit-learn to rows of any library, in that library and on their device.

    Parameters
    ----------
    mixture : GaussianMixture
        With the parameters; its attributes, as NumPy arrays, are set.
    X : array of shape (n, d)
        Rows.

    Returns
    -------
    GaussianMixture
        The same mixture, fitted.
    """
    rng = check_random_state(mixture.random_state)
    found = [_ascend(X, _start(X, mixture, rng), mixture) for _ in range(mixture.n_init)]
    gaussians, bounds, converged = max(found, key=lambda one: one[1][-1])
    if not converged:
        warnings.warn(
            f"The mixture is not settled after {mixture.max_iter} steps. Raise max_iter, or use "
            "fewer components.",
            ConvergenceWarning,
            stacklevel=4,
        )
    _fill(mixture, gaussians)
    mixture.converged_, mixture.n_iter_ = converged, len(bounds)
    mixture.lower_bound_, mixture.lower_bounds_ = bounds[-1], bounds
    mixture.n_features_in_ = int(X.shape[1])
    return mixture


def _start(X: Array, mixture: GaussianMixture, rng: np.random.RandomState) -> Gaussians:
    """Every row belongs to the nearest of the means that k-means finds in a sample."""
    xp, k, n = namespace(X), mixture.n_components, int(X.shape[0])
    drawn = take(X, np.sort(rng.choice(n, min(n, START_ROWS), replace=False)))
    found = take(drawn, far_apart(drawn, k, rng))
    for _ in range(STEPS):
        found = lloyd_step(drawn, found)
    means = [as_float64(found[i, :]) for i in range(k)]
    numbers = array_range(k, X)

    def nearest(about: list[Array]) -> Array:
        squares = xp.stack([xp.sum(rows**2, axis=1) for rows in about], axis=1)
        belongs = xp.argmin(squares, axis=1)[:, None] == numbers[None, :]
        return xp.astype(belongs, xp.float64)

    return _refitted(_sums(X, means, nearest, mixture), means, mixture)


def _ascend(
    X: Array, gaussians: Gaussians, mixture: GaussianMixture
) -> tuple[Gaussians, list[float], bool]:
    """Steps until the mean log-likelihood of the rows moves no more: it is told for each step."""
    bounds: list[float] = []
    for _ in range(mixture.max_iter):
        gaussians, bound = _step(X, gaussians, mixture)
        bounds.append(bound)
        if len(bounds) > 1 and abs(bounds[-1] - bounds[-2]) < mixture.tol:
            return gaussians, bounds, True
    return gaussians, bounds, False


def _step(X: Array, before: Gaussians, mixture: GaussianMixture) -> tuple[Gaussians, float]:
    """The components that fit the rows, shared out by those before; how likely these made them."""
    xp, heights = namespace(X), like(before.log_heights, X)
    likelihoods: list[Array] = []

    def posterior(about: list[Array]) -> Array:
        whitened = [
            rows @ root if root.ndim == 2 else rows * root
            for rows, root in zip(about, before.roots, strict=True)
        ]
        squares = xp.stack([xp.sum(rows**2, axis=1) for rows in whitened], axis=1)
        exponents = heights - 0.5 * squares
        highest = xp.max(exponents, axis=1, keepdims=True)
        total = highest + xp.log(xp.sum(xp.exp(exponents - highest), axis=1, keepdims=True))
        likelihoods.append(xp.sum(total))
        return xp.exp(exponents - total)

    sums = _sums(X, before.means, posterior, mixture)
    bound = sum(float(part) for part in likelihoods) / X.shape[0]
    return _refitted(sums, before.means, mixture), bound


def _sums(X: Array, means: list[Array], shares: Shares, mixture: GaussianMixture) -> Array:
    """For each mean, ``Σ r z zᵀ`` over z = (x − mean, 1) and r the share that the mean has in x.

    Of shape (k, d + 1, d + 1); where components are diagonal (k, 2d + 1): of squares, rows, ones.
    """
    xp = namespace(X)
    matrices = mixture.covariance_type in MATRICES

    def work(block: slice) -> Array:
        about = [X[block, :] - mean for mean in means]  # in float64, as the means are
        of_each, ones = shares(about), xp.ones_like(about[0][:, :1])
        sums = []
        for k, centred in enumerate(about):
            share = of_each[:, k : k + 1]
            if matrices:
                z = xp.concat([centred, ones], axis=1)
                sums.append(z.T @ (share * z))
            else:
                z = xp.concat([centred**2, centred, ones], axis=1)
                sums.append(xp.sum(share * z, axis=0))
        return xp.stack(sums, axis=0)

    return sum_row_blocks(work, X, width=(len(means) + 3) * int(X.shape[1]))


def _refitted(sums: Array, means: list[Array], mixture: GaussianMixture) -> Gaussians:
    """The components that `_sums` about some means make likeliest."""
    xp, d = namespace(sums), means[0].shape[0]
    matrices = mixture.covariance_type in MATRICES
    counts, moved, covariances = [], [], []
    for k, mean in enumerate(means):
        part = sums[k, ...]
        first, second = (part[-1, :d], part[:d, :d]) if matrices else (part[d:-1], part[:d])
        count = (part[-1, -1] if matrices else part[-1]) + NO_ROWS
        shift = first / count
        outer = shift[:, None] * shift[None, :] if matrices else shift**2
        counts.append(count)
        moved.append(mean + shift)
        covariances.append(second / count - outer)
    of_each = xp.stack(counts)
    weights = to_host(of_each)
    if mixture.covariance_type == "tied":
        together = sum(c * matrix for c, matrix in zip(counts, covariances, strict=True))
        covariances = [together / xp.sum(of_each)]
    if mixture.covariance_type == "spherical":
        covariances = [xp.ones_like(vector) * xp.mean(vector) for vector in covariances]
    covariances = [_regularised(one, mixture.reg_covar) for one in covariances]
    roots = [_root(one) for one in covariances]
    if mixture.covariance_type == "tied":
        covariances, roots = covariances * len(means), roots * len(means)
    return Gaussians(weights / weights.sum(), moved, covariances, roots)


def _regularised(covariance: Array, reg: float) -> Array:
    return add_to_diagonal(covariance, reg) if covariance.ndim == 2 else covariance + reg


def _root(covariance: Array) -> Array:
    """P with ``Σ⁻¹ = P Pᵀ``: upper triangular, or the vector of its diagonal."""
    if covariance.ndim == 2:
        lower = cholesky(covariance + 0.0)
        if lower is not None:
            return invert_lower(lower).T
    elif float(namespace(covariance).min(covariance)) > 0:
        return 1.0 / covariance**0.5
    raise ValueError(
        "A component of the mixture has collapsed: its covariance is not positive definite. Use "
        "fewer components, or a larger reg_covar."
    )


def _fill(mixture: GaussianMixture, gaussians: Gaussians) -> None:
    """The attributes of scikit-learn's mixture, in its shapes."""
    kind = mixture.covariance_type
    shapes: dict[str, Callable[[list[Host]], Any]] = {
        "full": np.stack,
        "tied": lambda matrices: matrices[0],
        "diag": np.stack,
        "spherical": lambda vectors: np.array([vector[0] for vector in vectors]),
    }

    def shaped(arrays: list[Array]) -> Any:
        return shapes[kind]([to_host(one) for one in arrays])

    mixture.weights_ = gaussians.weights
    mixture.means_ = np.stack([to_host(mean) for mean in gaussians.means])
    mixture.covariances_ = shaped(gaussians.covariances)
    mixture.precisions_cholesky_ = shaped(gaussians.roots)
    roots = gaussians.roots
    mixture.precisions_ = shaped([root @ root.T if root.ndim == 2 else root**2 for root in roots])
