"""Kernel principal components for novelty detection, after Hoffmann (2007)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays import operations as ops
from lpfuse._arrays.blocks import map_rows, meta_of
from lpfuse._arrays.operations import Array, Host, total
from lpfuse._files import saved_as
from lpfuse._validation.params import is_count
from lpfuse._validation.tables import check_columns, check_features
from lpfuse.detectors.base import KERNEL_WORDS, KernelDetector
from lpfuse.detectors.kernels import Expansion, FeatureMap, Kernel, Similarities, TrainingRows

# --------------------------------------------------------------------------------------------------
# Leading eigenpairs of the centred kernel matrix ``W^½ H K Hᵀ W^½``, ``H = I − 1 wᵀ``, W = diag(w).
#
# Iterations for few components of many rows do not form the matrix: each product centres the
# vector, multiplies it by K and centres the result.


# Chosen by hand.
RESTARTS = 20  # beyond, the eigenvalues are too close for an iteration
DECOMPOSE_UP_TO = 20_000  # rows on a device for a full decomposition
# With ten components of 1,000 rows the iteration takes a fifteenth of the time of scikit-learn's
# full decomposition, of 5,000 rows a thirty-sixth (docs/benchmarks/detectors.md).
ITERATE_FROM = 1000  # rows from which an iteration beats the full decomposition, ...
FEW = 0.025  # ... for at most this share of the components


def leading(K: Array, w: Array, means: Array, grand_mean: float, count: int) -> tuple[Host, Array]:
    """Return the largest eigenvalues, descending, and their eigenvectors."""
    n = K.shape[0]
    iterate = n >= ITERATE_FROM and count <= FEW * n
    found = iterated(K, w, count) if iterate else None
    if found is not None:
        return found
    roots = ops.namespace(K).sqrt(w)
    centred = roots[:, None] * (K - means[:, None] - means[None, :] + grand_mean) * roots[None, :]
    return ops.eigh_largest(centred, count, coincide=iterate)


def iterated(K: Array, w: Array, count: int) -> tuple[Host, Array] | None:
    """Return the largest eigenvalues, descending, and their eigenvectors, by iteration.

    Parameters
    ----------
    K : array of shape (n, n)
        The kernel matrix.
    w : array of shape (n,)
        Weights of the rows, which sum to one.
    count : int
        Number of eigenpairs.

    Returns
    -------
    tuple of arrays, or None
        None where eigenvalues nearly coincide and a full decomposition is needed.
    """
    return by_arpack(K, w, count) if ops.is_numpy(K) else by_blocks(K, w, count)


def by_arpack(K: Host, w: Host, count: int, restarts: int = RESTARTS) -> tuple[Host, Host] | None:
    """Iterate with ARPACK; return None where eigenvalues nearly coincide."""
    roots = np.sqrt(w)

    def product(vector: Host) -> Host:
        v = roots * vector.reshape(-1)
        v = ops.symmetric_times(K, v - w * np.sum(v))
        return roots * (v - w @ v)

    n, start = len(K), np.random.default_rng(0).uniform(-1, 1, len(K))
    operator = LinearOperator((n, n), matvec=product, dtype=K.dtype)
    with suppress(ArpackError):
        values, vectors = eigsh(
            operator,
            count,
            which="LA",
            v0=start.astype(K.dtype),
            ncv=2 * count + 24,
            maxiter=restarts,
        )
        return values[::-1].astype(np.float64), vectors[:, ::-1]
    return None


def by_blocks(
    K: Array,
    w: Array,
    count: int,
    restarts: int = RESTARTS,
    decompose_up_to: int = DECOMPOSE_UP_TO,
) -> tuple[Host, Array] | None:
    """Iterate with blocks of vectors on the matrix's device.

    None where eigenvalues nearly coincide, unless there are too many rows to decompose.
    """
    n, width = K.shape[0], ops.block_width(count)
    if 2 * width > n:
        return None
    xp = ops.namespace(K)
    share, roots = w[:, None], xp.sqrt(w)[:, None]

    def times(columns: Array) -> Array:
        v = roots * columns
        v = K @ (v - share * xp.sum(v, axis=0))
        return roots * (v - w @ v)

    start = np.random.default_rng(0).uniform(-1, 1, (n, width))
    found = ops.eigh_leading(times, ops.beside(start, K), count, restarts)
    if not found.converged:
        if n <= decompose_up_to:
            return None
        warnings.warn(
            f"Variances lie so close together that the {count} main directions are only known to "
            f"{found.residual:.1g} of the first variance. Use a smaller gamma, or fewer "
            "n_components.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return found.values, found.vectors


# --------------------------------------------------------------------------------------------------
# The detector.

# Chosen by hand.
NO_VARIANCE = 1e-12  # share of the total variance below which a component is dropped
FIRST_COMPONENTS = 32  # computed first for a share of the variance


@saved_as("KernelPCADetector", **KERNEL_WORDS)
class KernelPCADetector(KernelDetector):
    r"""Distance, in the kernel's feature space, to the main directions of the training rows.

    The rows' features :math:`\varphi` are centred at their mean :math:`\bar\varphi`, and
    :math:`f_1, \dots, f_q` are a row's projections on the q principal components. The score is
    minus the squared reconstruction error

    .. math:: -\Bigl(\|\varphi(x) - \bar\varphi\|^2 - \sum_{l=1}^{q} f_l(x)^2\Bigr), \quad
              \|\varphi(x) - \bar\varphi\|^2
              = k(x, x) - \frac{2}{n} \sum_j k(x, x_j) + \frac{1}{n^2} \sum_{ij} k(x_i, x_j)

    Parameters
    ----------
    n_components : int or float, default=10
        Number q of principal components, or, between 0 and 1, the share of the variance that they
        must explain. Components without variance are left out. With at most as many rows all
        components are used, and `fit` warns.
    kernel : str or callable, default="rbf"
        A kernel of :mod:`sklearn.metrics.pairwise`, or a function of two rows.
    gamma : float, "scale", "narrow" or "median", default="scale"
        Width of the kernel, as in ``exp(−γ‖x − x′‖²)``. "scale": ``1 / (d · Var X)``, as in
        scikit-learn; "narrow": three times that, which ranks rows better on most data; "median":
        ``1 / (2 m)``, m the median squared distance of two rows, however they weigh. For a
        width σ use :func:`lpfuse.detectors.gamma_from_sigma`.
    degree, coef0 : float, default=3 and 1
        Of the polynomial and sigmoid kernels.
    kernel_params : dict, optional
        Further arguments of a callable kernel.
    contamination : float in (0, 0.5], default=0.1
        Share of new normal rows below the threshold, on average.
    approximation : {"auto", None, "nystroem"}, default="auto"
        None: exact, with an n×n matrix. "nystroem": explicit features, for any kernel. "auto":
        exact while that matrix fits, else "nystroem"; for rows of Dask always "nystroem".
    n_approximation : int, default=500
        Number of features of the approximation (`n_components` of the other kernel learners).
    random_state : int, RandomState instance or None, default=None
        Seed of the approximation.
    offset_from : {"unseen", "training"}, default="unseen"
        Rows whose scores set the threshold. "unseen": each is scored by a refit without it; the
        smallest share of n rows is 1 / (n + 1). "training": in-sample scores, which are fast but
        optimistically biased: for 10 %, 14 % of new rows lie below with 300 Gaussian rows, and 34 %
        with 60.

    Attributes
    ----------
    n_components_ : int
        Number of principal components in use.
    explained_variance_, explained_variance_ratio_ : ndarrays of shape (`n_components_`,)
        Variance along each of them, and the same as shares of the total.
    mean_projections_ : ndarray of shape (`n_components_`,)
        Projections of the mean of the rows' features, which centring subtracts.
    mean_norm2_ : float
        Squared distance of that mean from the origin of the feature space.
    offset_ : float
        Threshold of the scores.
    kernel_ : Kernel
        The kernel, with its width as a number.
    n_features_in_ : int
        Number of features d.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features, when `X` had them.

    Notes
    -----
    Only the eigenpairs in use are computed (ARPACK; on a device a block Krylov method).

    References
    ----------
    H. Hoffmann, Kernel PCA for novelty detection, Pattern Recognition 40 (2007).

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import KernelPCADetector
    >>> angles = np.random.default_rng(0).uniform(0, 2 * np.pi, size=300)
    >>> ring = np.column_stack([np.cos(angles), np.sin(angles)])
    >>> detector = KernelPCADetector(n_components=6, contamination=0.01).fit(ring)
    >>> detector.predict([[1.0, 0.0], [0.0, 0.0], [2.0, 0.0]])
    array([ 1, -1, -1])
    """

    _size_name = "n_approximation"
    _needs_only_sums = True

    def __init__(
        self,
        n_components: float = 10,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        contamination: float = 0.1,
        approximation: str | None = "auto",
        n_approximation: int = 500,
        random_state: Any = None,
        offset_from: str = "unseen",
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.contamination = contamination
        self.approximation = approximation
        self.n_approximation = n_approximation
        self.random_state = random_state
        self.offset_from = offset_from

    def score_path(self, X: Any, n_components: Sequence[int]) -> Array:
        """Scores for several numbers of components, from one pass over the kernel.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows to score.
        n_components : sequence of int
            Numbers of components, each from 0 to ``n_components_``.

        Returns
        -------
        array of shape (n, len(n_components))
            One column per number: the scores of a detector with so many components.

        Examples
        --------
        >>> import numpy as np
        >>> from lpfuse import KernelPCADetector
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> detector = KernelPCADetector(n_components=10).fit(X)
        >>> path = detector.score_path(X, [2, 6, 10])
        >>> np.allclose(path[:, 2], detector.score_samples(X))
        True
        """
        check_is_fitted(self)
        wanted = np.asarray(n_components)
        within = wanted.ndim == 1 and wanted.dtype.kind in "iu" and (wanted >= 0).all()
        if not within or (wanted > self.n_components_).any():
            raise ValueError(
                f"n_components must be whole numbers from 0 to {self.n_components_}, got "
                f"{n_components!r}. Fit with a larger n_components for more."
            )
        if ops.is_blocked(X):
            check_columns(meta_of(X), self)
            path = partial(_path_of_block, wanted.tolist())
            return map_rows(path, X, copy(self), width=len(wanted))
        X = check_features(X, estimator=self)

        def finish(diagonal: Array, values: Array) -> Array:
            errors = [self._error(diagonal, values, int(q)) for q in wanted]
            return -ops.namespace(values).stack(errors, axis=1)

        return self.expansion_.map(X, finish)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        share = isinstance(self.n_components, Real) and not isinstance(self.n_components, Integral)
        if not is_count(self.n_components) and not (share and 0 < self.n_components < 1):
            raise ValueError(
                "n_components must be a whole number from 1, or a share of the variance between "
                f"0 and 1, got {self.n_components!r}."
            )

    def _warn_if_few_rows(self, rows: TrainingRows) -> None:
        if isinstance(self.n_components, Integral) and self.n_components >= len(rows):
            warnings.warn(
                f"n_components={self.n_components} of {len(rows)} rows: there are "
                f"{self.n_components_} components, all of them are used, and every training row "
                "lies in their span with a score of about 0. New rows are scored by their distance "
                "to that span. Use fewer components, a share of the variance "
                "(n_components=0.95), or more rows.",
                UserWarning,
                stacklevel=4,
            )

    def _fit_order(self, rows: TrainingRows) -> tuple[str, float]:
        return super()._fit_order(rows)[0], -self.n_components  # the most components first

    def _fit_exactly(self, kernel: Kernel, rows: TrainingRows) -> Array | None:
        cache = rows.cache(kernel)
        spectrum = cache.get("spectrum")
        if spectrum is None or not spectrum.reaches(self.n_components):
            weights = rows.weights / rows.weights.sum()
            spectrum = spectrum_of_gram(rows.gram(kernel), weights, self.n_components)
            cache["spectrum"] = spectrum
        self._keep(spectrum)
        # The mean similarity comes first, so that detectors with fewer components can share it.
        basis = Similarities(kernel, rows.anchors)
        self.expansion_ = Expansion(basis, spectrum.columns, 1 + self.n_components_)
        scores = self._score_from(kernel.diagonal(rows.X), spectrum.training)
        sizes = ops.namespace(scores).abs(kernel.diagonal(rows.X)) + abs(spectrum.grand_mean)
        if ops.largest(scores) > (1e-3 if ops.is_single(scores) else 1e-6) * ops.largest(sizes):
            raise ValueError(
                f"kernel={kernel.name!r} is not positive definite here: some squared distances in "
                "its feature space are negative. Use other parameters or another kernel."
            )
        return scores

    def _fit_features(self, features: FeatureMap, rows: TrainingRows) -> Array | None:
        mean, second = rows.moments(features, mean=True)
        values, vectors = ops.eigh(second - mean[:, None] * mean[None, :])
        xp, values = ops.namespace(vectors), values[::-1]
        vectors = xp.flip(vectors, axis=1)
        variance = float(values.sum())
        negligible = _negligible(variance, total(ops.diagonal_of(second)), rows.X)
        directions = xp.concat([mean[:, None], vectors], axis=1)
        along = ops.to_host(mean @ vectors)
        self._keep(Spectrum(values, directions, along, float(mean @ mean), variance, negligible))
        self.expansion_ = features.expansion(directions[:, : 1 + self.n_components_], rows.X)
        return None

    def _keep(self, spectrum: Spectrum) -> None:
        q = self.n_components_ = spectrum.count(self.n_components)
        self.explained_variance_ = spectrum.values[:q]
        total = spectrum.total if spectrum.total > 0 else 1.0
        self.explained_variance_ratio_ = self.explained_variance_ / total
        self.mean_projections_ = spectrum.mean_projections[:q]
        self.mean_norm2_ = spectrum.grand_mean

    def _score_from(self, diagonal: Array, values: Array) -> Array:
        return -self._error(diagonal, values, self.n_components_)

    def _error(self, diagonal: Array, values: Array, q: int) -> Array:
        """``‖φ(x) − φ̄‖² − Σ_{l ≤ q} f_l(x)²``."""
        projections = values[:, 1 : 1 + q] - ops.beside(self.mean_projections_[:q], values)
        explained = ops.namespace(values).sum(projections**2, axis=1)
        return diagonal - 2 * values[:, 0] + self.mean_norm2_ - explained


def _path_of_block(wanted: Sequence[int], block: Any, detector: KernelPCADetector) -> Array:
    if block.shape[0] == 0:
        return np.empty((0, len(wanted)))
    return detector.score_path(block, wanted)


@dataclass(frozen=True)
class Spectrum:
    """Principal components: the leading ones, or all of them."""

    values: Host  # variances, the largest first
    columns: Array  # coefficients of the mean similarity and of each projection
    mean_projections: Host  # of the mean of the features, which centring subtracts
    grand_mean: float  # ‖φ̄‖²
    total: float  # variance
    negligible: float  # variance that may be rounding error
    training: Array | None = None  # the columns' values for the training rows
    complete: bool = True

    def count(self, wanted: float) -> int:
        """Return the number of wanted components with variance."""
        present = int((self.values > self.negligible).sum())
        if isinstance(wanted, Integral):
            return min(int(wanted), present)
        reached = np.cumsum(self.values[:present]) >= (wanted - 1e-12) * self.total
        return int(reached.argmax()) + 1 if reached.any() else present

    def reaches(self, wanted: float) -> bool:
        """Return whether enough components were computed."""
        if self.complete:
            return True
        if isinstance(wanted, Integral):
            return len(self.values) >= wanted
        return float(self.values.sum()) >= wanted * self.total


def spectrum_of_gram(
    K: Array, weights: Host, wanted: float, first: int = FIRST_COMPONENTS
) -> Spectrum:
    """Return the leading principal components of rows with the kernel matrix K.

    They are the eigenvectors of ``W^½ H K Hᵀ W^½`` with ``H = I − 1 wᵀ`` for weights w that sum to
    one: with equal weights, the centred kernel matrix divided by n. For a share of the variance,
    `first` components are computed, and four times as many until they suffice.
    """
    n, xp = K.shape[0], ops.namespace(K)
    w = ops.beside(weights, K)
    roots = xp.sqrt(w)[:, None]
    means = K @ w
    grand_mean = float(w @ means)
    mean_square = float(w @ ops.diagonal_of(K))
    total = mean_square - grand_mean
    negligible = _negligible(total, mean_square, K)
    count = int(wanted) if isinstance(wanted, Integral) else first
    while True:
        values, vectors = leading(K, w, means, grand_mean, min(count, n))
        # Back from W^½ u to coefficients of the centred features, each component of length one.
        lengths = np.sqrt(np.where(values > negligible, values, np.inf))
        scaled = roots * vectors / ops.beside(lengths, K)
        coefficients = scaled - w[:, None] * xp.sum(scaled, axis=0)
        mean_projections = ops.to_host(means @ coefficients)
        # Of a training row the projection is a multiple of its entry in the eigenvector.
        projections = vectors / roots * ops.beside(np.sqrt(np.maximum(values, 0.0)), K)
        columns = xp.concat([w[:, None], coefficients], axis=1)
        training = xp.concat(
            [means[:, None], projections + ops.beside(mean_projections, K)], axis=1
        )
        known = values, columns, mean_projections, grand_mean, total, negligible, training
        spectrum = Spectrum(*known, complete=len(values) >= n)
        if spectrum.reaches(wanted):
            return spectrum
        count *= 4


def _negligible(total: float, mean_square: float, x: Array) -> float:
    """Return the variance that rounding can cause in features of that mean squared length."""
    resolution = float(np.finfo(np.float32 if ops.is_single(x) else np.float64).eps)
    return max(NO_VARIANCE * total, 10 * resolution * mean_square)
