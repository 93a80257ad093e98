"""A Gaussian mixture as a detector: its density, or the distance to its nearest component."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from lpfuse._arrays import operations as ops
from lpfuse._arrays.blocks import meta_of
from lpfuse._arrays.operations import Array, Host
from lpfuse._base import logged_once
from lpfuse._files import saved_as
from lpfuse._validation.params import check_choice, check_count, check_number
from lpfuse._validation.tables import record_columns
from lpfuse.detectors.base import OFFSET_FROM, RefittedDetector, set_offsets
from lpfuse.detectors.kernels import (
    STEPS,
    TrainingRows,
    kmeans_parallel_init,
    lloyd_step,
    sampled_rows,
    training_rows,
)

if TYPE_CHECKING:
    from sklearn.mixture import GaussianMixture

# --------------------------------------------------------------------------------------------------
# The EM algorithm for Gaussian mixtures on a device.
#
# Steps and stopping rule are those of scikit-learn. A step reads the rows once: moments are taken
# about the previous means, which avoids cancellation, and shifted afterwards.


Shares = Callable[[list[Array]], Array]  # from rows centred at each mean to responsibilities, m×k
START_ROWS = 20_000  # sample of k-means; chosen by hand
# Added to the weight of each component to avoid division by zero, as in scikit-learn.
NO_ROWS = 10 * float(np.finfo(np.float64).eps)
MATRICES = ("full", "tied")  # covariance types with off-diagonal entries


@dataclass(frozen=True)
class Gaussians:
    """The k components of a mixture, in float64 on the rows' device; vectors if diagonal.

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
        diagonals = [ops.diagonal_of(root) if root.ndim == 2 else root for root in self.roots]
        log_dets = np.array([np.log(ops.to_host(diagonal)).sum() for diagonal in diagonals])
        d = self.means[0].shape[0]
        return np.log(self.weights) + log_dets - 0.5 * d * np.log(2 * np.pi)


def fit_on_device(mixture: GaussianMixture, X: Array) -> GaussianMixture:
    """Fit a mixture of scikit-learn to rows of any library, in that library and on their device.

    Parameters
    ----------
    mixture : GaussianMixture
        With the parameters; its fitted attributes are set as NumPy arrays.
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
            f"The mixture has not converged after {mixture.max_iter} steps. Raise max_iter, or use "
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
    """Return components from the nearest of the k-means centres of a sample."""
    xp, k, n = ops.namespace(X), mixture.n_components, int(X.shape[0])
    drawn = ops.take(X, np.sort(rng.choice(n, min(n, START_ROWS), replace=False)))
    found = ops.take(drawn, kmeans_parallel_init(drawn, k, rng))
    for _ in range(STEPS):
        found = lloyd_step(drawn, found)
    means = [ops.as_float64(found[i, :]) for i in range(k)]
    numbers = ops.array_range(k, X)

    def nearest(about: list[Array]) -> Array:
        squares = xp.stack([xp.sum(rows**2, axis=1) for rows in about], axis=1)
        belongs = xp.argmin(squares, axis=1)[:, None] == numbers[None, :]
        return xp.astype(belongs, xp.float64)

    return _refit(_sums(X, means, nearest, mixture), means, mixture)


def _ascend(
    X: Array, gaussians: Gaussians, mixture: GaussianMixture
) -> tuple[Gaussians, list[float], bool]:
    """Iterate until the mean log-likelihood converges; return it for each step."""
    bounds: list[float] = []
    for _ in range(mixture.max_iter):
        gaussians, bound = _step(X, gaussians, mixture)
        bounds.append(bound)
        if len(bounds) > 1 and abs(bounds[-1] - bounds[-2]) < mixture.tol:
            return gaussians, bounds, True
    return gaussians, bounds, False


def _step(X: Array, before: Gaussians, mixture: GaussianMixture) -> tuple[Gaussians, float]:
    """Return the components after one EM step, and the mean log-likelihood before it."""
    xp, heights = ops.namespace(X), ops.like(before.log_heights, X)
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
    return _refit(sums, before.means, mixture), bound


def _sums(X: Array, means: list[Array], shares: Shares, mixture: GaussianMixture) -> Array:
    """Return ``Σ r z zᵀ`` per mean, over z = (x − mean, 1) with responsibilities r.

    Of shape (k, d + 1, d + 1); for diagonal components (k, 2d + 1): of squares, rows, ones.
    """
    xp = ops.namespace(X)
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

    return ops.sum_row_blocks(work, X, width=(len(means) + 3) * int(X.shape[1]))


def _refit(sums: Array, means: list[Array], mixture: GaussianMixture) -> Gaussians:
    """Return the maximum-likelihood components for the moments of `_sums`."""
    xp, d = ops.namespace(sums), means[0].shape[0]
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
    weights = ops.to_host(of_each)
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
    return ops.add_to_diagonal(covariance, reg) if covariance.ndim == 2 else covariance + reg


def _root(covariance: Array) -> Array:
    """Return P with ``Σ⁻¹ = P Pᵀ``: upper triangular, or the vector of its diagonal."""
    if covariance.ndim == 2:
        lower = ops.cholesky(covariance + 0.0)
        if lower is not None:
            return ops.invert_lower(lower).T
    elif float(ops.namespace(covariance).min(covariance)) > 0:
        return 1.0 / covariance**0.5
    raise ValueError(
        "A component of the mixture has collapsed: its covariance is not positive definite. Use "
        "fewer components, or a larger reg_covar."
    )


def _fill(mixture: GaussianMixture, gaussians: Gaussians) -> None:
    """Set the fitted attributes of scikit-learn's mixture."""
    kind = mixture.covariance_type
    shapes: dict[str, Callable[[list[Host]], Any]] = {
        "full": np.stack,
        "tied": lambda matrices: matrices[0],
        "diag": np.stack,
        "spherical": lambda vectors: np.array([vector[0] for vector in vectors]),
    }

    def shaped(arrays: list[Array]) -> Any:
        return shapes[kind]([ops.to_host(one) for one in arrays])

    mixture.weights_ = gaussians.weights
    mixture.means_ = np.stack([ops.to_host(mean) for mean in gaussians.means])
    mixture.covariances_ = shaped(gaussians.covariances)
    mixture.precisions_cholesky_ = shaped(gaussians.roots)
    roots = gaussians.roots
    mixture.precisions_ = shaped([root @ root.T if root.ndim == 2 else root**2 for root in roots])


# --------------------------------------------------------------------------------------------------
# The detector.

SCORES = ("mahalanobis", "log_likelihood")
COVARIANCES = ("full", "tied", "diag", "spherical")


@saved_as("GMMDetector", score_type=SCORES, covariance_type=COVARIANCES, offset_from=OFFSET_FROM)
class GMMDetector(RefittedDetector):
    r"""Density of a Gaussian mixture, or distance to its nearest component.

    With :math:`\pi_k`, :math:`\mu_k` and :math:`\Sigma_k` the weights, means and covariances of the
    components, the scores "log_likelihood" and "mahalanobis" are

    .. math:: \log \sum_k \pi_k \, N(x; \mu_k, \Sigma_k), \qquad
              -\min_k \sqrt{(x - \mu_k)^\top \Sigma_k^{-1} (x - \mu_k)}

    Parameters
    ----------
    n_components : int, default=3
        Number of components; fewer where there are fewer distinct rows.
    score_type : {"mahalanobis", "log_likelihood"}, default="log_likelihood"
        Which score. "mahalanobis" is the paper's: equal on clean rows, but a wide component around
        unlabelled anomalies gives them normal scores (``docs/adr/0029``).
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        Shape of the components, as in :class:`sklearn.mixture.GaussianMixture`.
    reg_covar : float, default=0.01
        Added to the variances; choose it by the scale of the features (1 where standardised).
    contamination : float in (0, 0.5], default=0.1
        Share of new normal rows below the threshold, on average.
    n_init : int, default=1
        Number of initialisations, of which the most likely mixture is kept.
    max_iter : int, default=200
        Most steps of the EM algorithm.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts.
    offset_from : {"unseen", "training"}, default="unseen"
        Rows whose scores set the threshold. "unseen": each is scored by a refit without it; the
        smallest share of n rows is 1 / (n + 1). "training": in-sample scores, which are fast but
        optimistically biased: for 10 %, 14 % of new rows lie below with 300 Gaussian rows, and 32 %
        with 60.

    Attributes
    ----------
    mixture_ : GaussianMixture
        The fitted mixture of scikit-learn.
    n_iter_ : int
        Number of steps of the EM algorithm.
    offset_ : float
        Threshold of the scores.
    n_features_in_ : int
        Number of features d.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features, when `X` had them.

    Notes
    -----
    Sample weights are not supported, as in scikit-learn's EM algorithm. Rows on a GPU are fitted
    there, by the same steps in float64 from means of a sample; other rows by scikit-learn on the
    host. Scoring stays in the library and on the device of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import GMMDetector
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(-5, 1, size=(100, 2)), rng.normal(5, 1, size=(100, 2))])
    >>> detector = GMMDetector(2, score_type="mahalanobis", random_state=0).fit(X)
    >>> detector.score_samples([[5.0, 5.0], [0.0, 0.0]]).round(1)
    array([-0.1, -6.8])
    """

    mixture_: GaussianMixture

    def __init__(
        self,
        n_components: int = 3,
        score_type: str = "log_likelihood",
        covariance_type: str = "full",
        reg_covar: float = 0.01,
        contamination: float = 0.1,
        n_init: int = 1,
        max_iter: int = 200,
        random_state: Any = None,
        offset_from: str = "unseen",
    ) -> None:
        self.n_components = n_components
        self.score_type = score_type
        self.covariance_type = covariance_type
        self.reg_covar = reg_covar
        self.contamination = contamination
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.offset_from = offset_from

    @logged_once
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the mixture from normal rows.

        Parameters
        ----------
        X : array-like, or Dask array or data frame, of shape (n, d)
            Normal rows. Of Dask rows a sample of 20,000 is used.
        y : object
            Ignored; here for scikit-learn's conventions.

        Returns
        -------
        GMMDetector
            The fitted detector.
        """
        rows = self._rows(X, None, None)
        self._fit_rows(rows)
        set_offsets([self], rows)
        record_columns(self, meta_of(X) if ops.is_blocked(X) else X)
        return self

    def _rows(self, X: Any, y: Any, sample_weight: Any) -> TrainingRows:
        if not ops.is_blocked(X):
            return training_rows(X)
        self._check_parameters()
        return sampled_rows(X, None, None, 0, check_random_state(self.random_state))

    def _fit_rows(self, rows: TrainingRows, *, thresholds: bool = True) -> None:
        self._check_parameters()
        self.mixture_ = self._mixture(rows.X)
        if not (thresholds and self._uses_held_out_rows()):
            self._set_training_offset(rows, None)

    def _refit(self, rows: TrainingRows, kept: float) -> Self:
        other = clone(self)
        other.mixture_ = other._mixture(rows.X)
        return other

    @property
    def n_iter_(self) -> int:
        """Number of steps of the EM algorithm."""
        return int(self.mixture_.n_iter_)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("score_type", self.score_type, SCORES)
        check_choice("covariance_type", self.covariance_type, COVARIANCES)
        for name in ("n_components", "n_init", "max_iter"):
            check_count(name, getattr(self, name))
        check_number("reg_covar", self.reg_covar, at_least=0)

    def _mixture(self, rows: Array) -> GaussianMixture:
        from sklearn.mixture import GaussianMixture

        n = int(rows.shape[0])
        if n < 2:
            raise ValueError(
                f"A mixture needs at least 2 rows, got n_samples = {n}. Pass more normal "
                "rows, or use another detector."
            )
        mixture = GaussianMixture(
            n_components=_different_rows(rows, int(self.n_components)),
            covariance_type=self.covariance_type,
            reg_covar=self.reg_covar,
            n_init=self.n_init,
            max_iter=self.max_iter,
            random_state=self.random_state,
        )
        if ops.on_accelerator(rows):
            return fit_on_device(mixture, rows)
        with ops.blas_threads_for(n), config_context(array_api_dispatch=False):
            return mixture.fit(ops.to_host(rows))

    def _scores(self, X: Array) -> Array:
        xp, mixture = ops.namespace(X), self.mixture_
        means = [ops.beside(mean, X) for mean in mixture.means_]
        roots = [ops.beside(root, X) for root in precision_roots(mixture)]

        def distances2(block: Array) -> Array:
            """Return squared Mahalanobis distances of rows to each component."""
            columns = []
            for mean, root in zip(means, roots, strict=True):
                centred = block - mean
                whitened = centred @ root if root.ndim == 2 else centred * root
                columns.append(xp.sum(whitened**2, axis=1))
            return xp.stack(columns, axis=1)

        heights = ops.beside(log_heights(mixture), X)

        def work(rows: slice) -> Array:
            squares = distances2(X[rows, :])
            if self.score_type == "mahalanobis":
                return -xp.sqrt(xp.min(squares, axis=1))
            exponents = heights - 0.5 * squares
            highest = xp.max(exponents, axis=1, keepdims=True)
            sums = xp.sum(xp.exp(exponents - highest), axis=1)
            return highest[:, 0] + xp.log(sums)

        with ops.one_blas_thread:
            return ops.concatenate(ops.map_row_blocks(work, X, width=2 * X.shape[1]))


def _different_rows(rows: Array, at_most: int) -> int:
    """Return the number of distinct rows, up to a limit."""
    # Distinct rows differ along a random direction.
    direction = np.random.default_rng(0).normal(size=rows.shape[1])
    return min(at_most, len(np.unique(ops.to_host(rows @ ops.beside(direction, rows)))))


def precision_roots(mixture: GaussianMixture) -> list[Host]:
    """Return for each component P with ``Σ⁻¹ = P Pᵀ``; a vector where it is diagonal."""
    roots = mixture.precisions_cholesky_
    k, d = mixture.means_.shape
    if mixture.covariance_type == "tied":
        return [roots] * k
    if mixture.covariance_type == "spherical":
        return [np.full(d, root) for root in roots]
    return list(roots)


def log_heights(mixture: GaussianMixture) -> Host:
    """Return ``log π_k + log det Σ_k^{−1/2} − d/2 · log 2π``, the log peak of each component."""
    roots = precision_roots(mixture)
    log_dets = [np.log(root.diagonal() if root.ndim == 2 else root).sum() for root in roots]
    d = mixture.means_.shape[1]
    return np.log(mixture.weights_) + np.array(log_dets) - 0.5 * d * np.log(2 * np.pi)
