"""Kernels, kernel expansions, approximate features, and the training rows of kernel learners.

A fitted kernel learner is an *expansion* ``B(x) · coefficients``, where B is a row of basis
functions: similarities to training rows (exact) or to landmarks (Nyström). So all learners score in
the same way, and learners with the same anchors share the work (`score_together`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays import operations as ops
from lpfuse._arrays.blocks import CheckedBlocks, arrays_of, map_rows, meta_of
from lpfuse._arrays.operations import Array, Host, filled, total
from lpfuse._base import Detector, lower_quantile
from lpfuse._files import FieldsOnlyState, saved_as
from lpfuse._validation.dask_blocks import check_feature_blocks
from lpfuse._validation.params import check_labels, check_number, check_sample_weight, warn_user
from lpfuse._validation.tables import check_columns, check_features

# --------------------------------------------------------------------------------------------------
# Squared distances and n×n matrices, block by block.


RowFunction = Callable[[Array], Array]  # rows of shape (n, d) ↦ n rows of numbers


def distances_to(Z: Array, factor: float = 1.0) -> RowFunction:
    """Return the function ``X ↦ factor · ‖x_i − z_j‖²``, with Z prepared once.

    It is one product, ``(x, ‖x‖², 1) · (−2z, 1, ‖z‖²)``. Both are centred at the mean of Z, which
    avoids the cancellation of a common offset.
    """
    xp = ops.namespace(Z)
    centre = xp.mean(Z, axis=0)
    Z = Z - centre
    norms = square_norms(Z)
    right = factor * xp.concat([-2.0 * Z, xp.ones_like(norms), norms], axis=1).T
    # A product of so few terms is off by a few units in the last place; ten are a safe bound.
    rounding = 10 * float(xp.finfo(Z.dtype).eps) * abs(factor)

    def distances(X: Array) -> Array:
        X = X - centre
        own = square_norms(X)
        products = xp.concat([X, own, xp.ones_like(own)], axis=1) @ right
        if factor > 0:
            return ops.positive_part(products)
        # Smaller positive exponents do not change similarities noticeably, and clipping takes a
        # pass over the block.
        if rounding * (ops.largest(own) + ops.largest(norms)) > 1e-13:
            products = xp.clip(products, max=0.0)
        return products

    return distances


def matrix_of_rows(rows: RowFunction, X: Array, columns: int, width: int) -> Array:
    """Return the matrix whose rows a function computes, in blocks for `width` numbers a row."""
    values = ops.new_empty((X.shape[0], columns), X)

    def work(block: slice) -> None:
        values[block, :] = rows(X[block, :])

    with ops.one_blas_thread:
        ops.map_row_blocks(work, X, width=width)
    return values


def square_norms(X: Array) -> Array:
    """Return ``‖x_i‖²``, of shape (n, 1)."""
    return ops.namespace(X).sum(X * X, axis=1, keepdims=True)


# --------------------------------------------------------------------------------------------------
# Kernels and expansions.

INNER_PRODUCTS = ("linear", "poly", "polynomial", "sigmoid", "cosine")  # in any array library
UNIT_DIAGONAL = ("rbf", "laplacian", "chi2")
KERNEL_NAMES = (*INNER_PRODUCTS, *UNIT_DIAGONAL, "additive_chi2")  # of sklearn.metrics.pairwise


@saved_as("Kernel", name=KERNEL_NAMES)
@dataclass(frozen=True)
class Kernel:
    """A kernel with numeric parameters; equal ones compare and hash as equal."""

    name: str | Callable[..., float]
    gamma: float = 1.0
    degree: float = 3.0
    coef0: float = 1.0
    params: dict[str, Any] = field(default_factory=dict, compare=False)  # of a callable
    params_id: int = 0  # parameters may not be comparable: compared by identity

    def between(self, X: Array, Z: Array) -> Array:
        """``k(x_i, z_j)``, of shape (n, m)."""
        with ops.one_blas_thread:
            return self.against(Z)(X)

    def against(self, Z: Array) -> RowFunction:
        """Return the function ``X ↦ k(x_i, z_j)``, with Z prepared once."""
        if self.name == "rbf":
            exponents = distances_to(Z, -self.gamma)
            return lambda X: ops.exp_in_place(exponents(X))
        if self.name in INNER_PRODUCTS:
            return lambda X: self._of_inner_products(X, Z)
        from sklearn.metrics.pairwise import pairwise_kernels

        return lambda X: ops.beside(
            pairwise_kernels(X, Z, metric=self.name, **self._arguments()), Z
        )

    def of_distances(self, distances: Array) -> Array:
        """Return the values of a Gaussian kernel from squared distances."""
        return ops.exp_in_place(-self.gamma * distances)

    def diagonal(self, X: Array) -> Array:
        """``k(x_i, x_i)``, of shape (n,)."""
        if self.name in UNIT_DIAGONAL:
            return ops.beside(filled(X.shape[0], 1.0, X), X)
        if self.name == "additive_chi2":
            return ops.beside(filled(X.shape[0], 0.0, X), X)
        if callable(self.name):
            values = [self.name(x, x, **self.params) for x in X]
            return np.asarray(values, dtype=X.dtype)
        xp = ops.namespace(X)
        norms = xp.sum(X * X, axis=1)
        if self.name == "cosine":
            return xp.astype(norms > 0, X.dtype)
        return self._of_products(norms)

    def gram(self, X: Array) -> Array:
        """``k(x_i, x_j)``, of shape (n, n)."""
        values = matrix_of_rows(self.against(X), X, X.shape[0], X.shape[0])
        if not self.has_unit_diagonal:
            return values
        return ops.add_to_diagonal(values, 1.0 - ops.diagonal_of(values))  # exactly 1

    @property
    def has_unit_diagonal(self) -> bool:
        """Whether every row has ``k(x, x) = 1``, whatever the data."""
        return self.name in UNIT_DIAGONAL

    def _of_inner_products(self, X: Array, Z: Array) -> Array:
        if self.name == "cosine":
            X, Z = _normalised(X), _normalised(Z)
        return self._of_products(X @ Z.T)

    def _of_products(self, products: Array) -> Array:
        if self.name in ("poly", "polynomial"):
            return (self.gamma * products + self.coef0) ** self.degree
        if self.name == "sigmoid":
            return ops.namespace(products).tanh(self.gamma * products + self.coef0)
        return products

    def _arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of scikit-learn's kernel function."""
        takes_gamma = self.name in ("laplacian", "chi2")
        return {"gamma": self.gamma} if takes_gamma else self.params


def _normalised(X: Array) -> Array:
    xp = ops.namespace(X)
    norms = xp.sqrt(square_norms(X))
    return X / xp.where(norms > 0, norms, xp.ones_like(norms))


@saved_as("Similarities")
@dataclass(frozen=True)
class Similarities:
    """``B_j(x) = k(x, z_j)`` for the anchors ``z_j``: training rows or landmarks."""

    kernel: Kernel
    anchors: Array

    @property
    def width(self) -> int:
        """Number of anchors."""
        return int(self.anchors.shape[0])

    def rows(self, X: Array) -> RowFunction:
        """Return the function from rows, in the library of X, to their similarities."""
        return self.kernel.against(ops.beside(self.anchors, X))


@saved_as("Expansion")
@dataclass(frozen=True)
class Expansion(FieldsOnlyState):
    """``B(x) · coefficients``: one column per function of x that a learner needs.

    Learners may share coefficients and use only the first columns.
    """

    basis: Similarities
    coefficients: Array  # (width, columns or more)
    columns: int

    @cached_property
    def _host_rows(self) -> RowFunction:
        """`Similarities.rows` for float64 NumPy rows, prepared once for calls with single rows."""
        return self.basis.rows(np.empty((0, 0)))

    @cached_property
    def _triangle(self) -> Host | None:
        """All coefficients but the first column, where they are those of a Gaussian process."""
        if self.columns != self.coefficients.shape[0] + 1:
            return None
        rest = np.asfortranarray(ops.to_host(self.coefficients[:, 1 : self.columns]))
        is_triangle = not any(rest[j + 1 :, j].any() for j in range(len(rest)))
        return rest if is_triangle and rest.dtype == np.float64 else None

    def map(self, X: Array, finish: Callable[[Array, Array], Array]) -> Array:
        """Return ``finish(k(x, x), B(x) · coefficients)`` of all rows, in bounded blocks."""
        kernel, usual = self.basis.kernel, ops.is_numpy(X) and X.dtype == np.float64
        rows = self._host_rows if usual else self.basis.rows(X)
        coefficients = ops.beside(self.coefficients[:, : self.columns], X)

        triangle = self._triangle if usual else None

        def work(block: slice) -> Array:
            some = X[block, :]
            values = rows(some)
            if triangle is None:
                return finish(kernel.diagonal(some), ops.times_few_columns(values, coefficients))
            first = values @ coefficients[:, :1]
            products = np.concatenate([first, ops.times_triangle(values, triangle)], axis=1)
            return finish(kernel.diagonal(some), products)

        with ops.one_blas_thread:
            return ops.concatenate(ops.map_row_blocks(work, X, width=self.basis.width))


class KernelScorer(Detector):
    """A detector whose score is a function of ``k(x, x)`` and of the values of its expansion.

    Attributes
    ----------
    expansion_ : Expansion
        The basis, with its kernel and its anchors, and the coefficients.
    kernel_ : Kernel
        The kernel, with its width as a number.
    """

    expansion_: Expansion

    @property
    def kernel_(self) -> Kernel:
        """The kernel, with its width as a number."""
        return self.expansion_.basis.kernel

    def _scores(self, X: Array) -> Array:
        return self.expansion_.map(X, self._score_from)

    def _score_from(self, diagonal: Array, values: Array) -> Array:
        """Return scores from ``k(x, x)``, of shape (n,), and the values of the expansion."""
        raise NotImplementedError


def score_together(detectors: Sequence[Detector], X: Any) -> Array:
    """Return the scores of several fitted detectors, faster than one by one.

    Learners with the same training rows share the distances to them, and those of the same width
    the kernel values, one block at a time.

    Parameters
    ----------
    detectors : sequence of detectors
        Fitted, for instance by `fit_together`.
    X : array-like of shape (n, d)
        Rows to score.

    Returns
    -------
    array of shape (n, R)
        One column per detector, high = normal.
    """
    if not detectors:
        raise ValueError("detectors is empty; pass at least one.")
    for detector in detectors:
        check_is_fitted(detector)
        check_columns(meta_of(X) if ops.is_blocked(X) else X, detector)
    if ops.is_blocked(X):
        return map_rows(_scores_of_block, X, list(detectors), width=len(detectors))
    checked = check_features(X)
    columns: dict[int, Array] = {}
    for group in _groups(detectors):
        if len(group) == 1:
            columns[group[0]] = detectors[group[0]]._scores(checked)
        else:
            scores = _share_distances([detectors[i] for i in group], checked)
            columns.update((i, scores[:, j]) for j, i in enumerate(group))
    return ops.namespace(checked).stack([columns[i] for i in range(len(detectors))], axis=1)


def _scores_of_block(block: Any, detectors: list[Detector]) -> Array:
    if block.shape[0] == 0:
        return np.empty((0, len(detectors)))
    return score_together(detectors, block)


def _groups(detectors: Sequence[Detector]) -> list[list[int]]:
    """Return positions of detectors whose Gaussian kernels have the same anchors."""
    groups: dict[Any, list[int]] = {}
    for i, detector in enumerate(detectors):
        is_gaussian = isinstance(detector, KernelScorer) and detector.kernel_.name == "rbf"
        key = id(detector.expansion_.basis.anchors) if is_gaussian else ("alone", i)
        groups.setdefault(key, []).append(i)
    return list(groups.values())


def _share_distances(detectors: list[Any], X: Array) -> Array:
    """Return scores of detectors whose Gaussian kernels have the same anchors."""
    xp = ops.namespace(X)
    expansions = [detector.expansion_ for detector in detectors]
    distances = distances_to(ops.beside(expansions[0].basis.anchors, X))
    # The largest number of columns needed for each kernel and coefficients.
    products: dict[tuple[Kernel, int], Array] = {}
    for expansion in sorted(expansions, key=lambda expansion: expansion.columns):
        columns = ops.beside(expansion.coefficients[:, : expansion.columns], X)
        products[expansion.basis.kernel, id(expansion.coefficients)] = columns

    def work(block: slice) -> Array:
        some = X[block, :]
        apart = distances(some)
        similarities: dict[Kernel, Array] = {}
        values = {}
        for (kernel, coefficients), columns in products.items():
            if kernel not in similarities:
                similarities[kernel] = kernel.of_distances(apart)
            values[kernel, coefficients] = ops.times_few_columns(similarities[kernel], columns)
        scores = [
            detector._score_from(
                expansion.basis.kernel.diagonal(some),
                values[expansion.basis.kernel, id(expansion.coefficients)],
            )
            for detector, expansion in zip(detectors, expansions, strict=True)
        ]
        return xp.stack(scores, axis=1)

    with ops.one_blas_thread:
        return ops.concatenate(ops.map_row_blocks(work, X, width=expansions[0].basis.width))


# --------------------------------------------------------------------------------------------------
# Landmarks: k-means centres, which bound the error of the Nyström approximation (Zhang, Tsang &
# Kwok 2008).


Positions = NDArray[np.int64]

# Sampled rows per landmark: with so many, 125 centres lose less AUC than 500 sampled rows
# (docs/adr/0004).
ROWS_PER_CENTRE = 20
# Chosen by hand.
ROUNDS = 8  # of the initialisation
STEPS = 20  # of Lloyd's algorithm
STILL = 1e-4  # stop where the centres move by this share of the columns' variance, as scikit-learn


def centres(
    X: Array, size: int, rng: np.random.RandomState, rows_per_centre: int = ROWS_PER_CENTRE
) -> Array:
    """Return k-means centres of rows drawn at random: better landmarks than rows."""
    n = X.shape[0]
    drawn = ops.take(X, np.sort(rng.choice(n, min(n, rows_per_centre * size), replace=False)))
    if ops.is_numpy(X):
        return _by_scikit_learn(drawn, size, rng)
    return lloyd(drawn, ops.take(drawn, kmeans_parallel_init(drawn, size, rng)))


def _by_scikit_learn(X: Host, size: int, rng: np.random.RandomState) -> Host:
    from sklearn.cluster import KMeans

    means = KMeans(size, n_init=1, max_iter=STEPS, tol=STILL, random_state=rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than centres
        return ops.beside(means.fit(ops.to_host(X)).cluster_centers_, X)


def lloyd(X: Array, means: Array, steps: int = STEPS, still: float = STILL) -> Array:
    """Run Lloyd's algorithm in the library and on the device of X.

    It stops after `steps` steps, or where the means move by at most the share `still` of the
    columns' variance.
    """
    xp = ops.namespace(X)
    still *= float(xp.mean(xp.var(X, axis=0)))
    for _ in range(steps):
        before, means = means, lloyd_step(X, means)
        if total((means - before) ** 2) <= still:
            break
    return means


def kmeans_parallel_init(X: Array, size: int, rng: np.random.RandomState) -> Positions:
    """Return positions of initial centres for k-means.

    k-means|| of Bahmani et al. (2012), which samples in a few rounds by the rule of Arthur &
    Vassilvitskii (2007): proportionally to the squared distance to the nearest chosen row.
    """
    n = X.shape[0]
    chosen = rng.choice(n, -(-size // ROUNDS), replace=False)
    latest, nearest = chosen, np.full(n, np.inf)
    while len(chosen) < size:
        nearest = np.minimum(nearest, _distance_to_nearest(ops.take(X, latest), X))
        nearest[chosen] = 0.0  # but for rounding
        count = min(-(-size // ROUNDS), size - len(chosen))
        if np.count_nonzero(nearest) < count:  # too few distinct rows
            others = np.setdiff1d(np.arange(n), chosen)
            return np.concatenate([chosen, rng.choice(others, size - len(chosen), replace=False)])
        latest = rng.choice(n, count, replace=False, p=nearest / nearest.sum())
        chosen = np.concatenate([chosen, latest])
    return chosen


def _distance_to_nearest(anchors: Array, X: Array) -> Host:
    """Return the squared distance of each row to the nearest anchor."""
    distances = distances_to(anchors, 1.0)

    def work(block: slice) -> Array:
        return ops.namespace(X).min(distances(X[block, :]), axis=1)

    return ops.to_host(ops.concatenate(ops.map_row_blocks(work, X, width=int(anchors.shape[0]))))


def lloyd_step(X: Array, means: Array) -> Array:
    """Return the mean of the rows nearest to each centre; a centre without rows stays."""
    xp = ops.namespace(X)
    distances, clusters = distances_to(means, 1.0), ops.array_range(means.shape[0], X)

    def sums_and_counts(block: slice) -> Array:
        rows = X[block, :]
        nearest = xp.argmin(distances(rows), axis=1)
        # A product with ones and zeros sums in a fixed order, unlike scatter-add on a device.
        belongs = xp.astype(nearest[:, None] == clusters[None, :], X.dtype)
        return belongs.T @ xp.concat([rows, xp.ones_like(rows[:, :1])], axis=1)

    found = ops.sum_row_blocks(sums_and_counts, X, width=int(means.shape[0]))
    sums, counts = found[:, :-1], found[:, -1:]
    return xp.where(counts > 0, sums / xp.clip(counts, min=1.0), means)


# --------------------------------------------------------------------------------------------------
# Explicit features that approximate a kernel: ``k(x, x′) ≈ φ(x)ᵀφ(x′)``.


@saved_as("FeatureMap")
@dataclass(frozen=True)
class FeatureMap:
    """``φ(x) = B(x) · whitening``, for the similarities B to landmarks."""

    basis: Similarities
    whitening: Array  # float64

    def saved_state(self) -> tuple[dict[str, Any], int]:
        """Return what files hold, no matrix that the landmarks determine, and its size."""
        kernel, landmarks, whitening = self.basis.kernel, self.basis.anchors, self.whitening
        if not recomputed(kernel, landmarks, lambda: _whitening(kernel, landmarks), whitening):
            return vars(self), 0
        return vars(self) | {"whitening": np.empty((len(landmarks), 0))}, 8 * len(landmarks) ** 2

    def restored(self, charge: Callable[[int], None]) -> FeatureMap:
        """Compute the whitening, if a file does not hold it."""
        kernel, landmarks = self.basis.kernel, self.basis.anchors
        if self.width:
            return self
        charge(8 * len(landmarks) ** 2)
        with ops.blas_threads_for(len(landmarks)):
            return replace(self, whitening=_whitening(kernel, landmarks))

    @property
    def width(self) -> int:
        """Number of features r."""
        return int(self.whitening.shape[1])

    def expansion(self, directions: Array, X: Array) -> Expansion:
        """Return the expansion ``φ(x)ᵀ directions``, for directions of shape (r, columns)."""
        folded = ops.beside(self.whitening, directions) @ directions
        return Expansion(self.basis, ops.beside(folded, X), int(directions.shape[1]))

    def rows(self, X: Array) -> RowFunction:
        """Return the function from rows, in the library of X, to their features."""
        basis, whitening = self.basis.rows(X), ops.beside(self.whitening, X)
        return lambda block: basis(block) @ whitening

    def of(self, X: Array) -> Array:
        """Return the features of all rows, of shape (n, r)."""
        return matrix_of_rows(self.rows(X), X, self.width, self.basis.width)

    def moments(self, X: Array, weights: Host) -> tuple[Array, Array]:
        """Return ``Σ_i w_i φ(x_i)`` and ``Σ_i w_i φ(x_i) φ(x_i)ᵀ`` from one pass, in float64.

        Whitening comes before the sum: afterwards it would amplify rounding errors of the small
        directions.
        """
        rows, factors = self.rows(X), ops.like(weights, X)[:, None]
        xp, alike = ops.namespace(X), bool((weights == 1).all())  # NumPy then takes half the time

        def work(block: slice) -> Array:
            values = ops.as_float64(rows(X[block, :]))
            values = xp.concat([values, xp.ones_like(values[:, :1])], axis=1)
            return values.T @ (values if alike else factors[block, :] * values)

        with ops.one_blas_thread:
            second = ops.sum_row_blocks(work, X, self.basis.width)
        return second[-1, :-1], second[:-1, :-1]


def recomputed(
    kernel: Kernel, anchors: Array, compute: Callable[[], Array], expected: Array
) -> bool:
    """Return whether a file may leave out a matrix: the anchors determine it to the bit.

    With more anchors the number of threads would change the last bits.
    """
    usual = all(ops.is_numpy(each) and each.dtype == np.float64 for each in (anchors, expected))
    if not usual or not isinstance(kernel.name, str) or len(anchors) >= ops.THREADS_FROM:
        return False
    with ops.blas_threads_for(len(anchors)):
        found = compute()
    return found.shape == expected.shape and bool((found == expected).all())


def nystroem(kernel: Kernel, X: Array, size: int, rng: np.random.RandomState) -> FeatureMap:
    """Return the features of Williams & Seeger (2001), exact on the span of `size` landmarks.

    With K the kernel matrix of the landmarks, ``K = U Λ Uᵀ``, the features are
    ``φ(x) = Λ^{−1/2} Uᵀ k(landmarks, x)``. Directions with negligible eigenvalues are left out.
    """
    landmarks = X + 0.0 if size >= X.shape[0] else centres(X, size, rng)
    return FeatureMap(Similarities(kernel, landmarks), _whitening(kernel, landmarks))


def _whitening(kernel: Kernel, landmarks: Array) -> Array:
    values, vectors = ops.eigh(ops.as_float64(kernel.between(landmarks, landmarks)))
    resolution = np.finfo(np.float32 if ops.is_single(landmarks) else np.float64).eps
    kept = values > len(values) * resolution * max(values[-1], 0.0)
    if not kept.any():
        raise ValueError(
            f"The kernel matrix of {len(values)} rows has no positive eigenvalue, so it cannot be "
            f"approximated. Use another kernel than {kernel.name!r}, or approximation=None."
        )
    first = int(kept.argmax())  # eigenvalues come in rising order
    return vectors[:, first:] / ops.like(np.sqrt(values[first:]), vectors)


# --------------------------------------------------------------------------------------------------
# Training rows, and the kernel for them.


Scoring = Callable[[Array], Array]  # from rows to their scores

PAPER_WIDTHS = (0.01, 0.1, 0.5, 1.0, 10.0)  # the widths σ of the paper's grid
# Multiples of 1 / (d · Var X). Three times scikit-learn's rule ranks better on the 30 development
# sets (SVDD 24 : 5, Gaussian process 23 : 5) and never triggers the warning below; ten times does
# in 21 of 90 fits: docs/adr/0004.
SCALES = {"scale": 1.0, "narrow": 3.0}
# The numbers below are chosen by hand.
MEDIAN_ROWS = 1000  # rows for the median distance: half a million pairs
PROBES = 32  # rows that are treated as held out
OTHERS = 20_000  # rows that they are compared with, at most
NEGLIGIBLE = 1e-3  # similarity
FEWEST = 20  # rows for a meaningful share of the probes
MOST, SOME = 0.9, 0.1  # shares of the probes without a similar row: all, or many, scores tie


class TrainingRows:
    """Rows with their weights and, where there are some, labels.

    Parameters
    ----------
    X : array of shape (n, d)
        Checked rows.
    weights : ndarray of shape (n,), optional
        Weights of the rows; rows of weight zero are left out.
    labels : ndarray of shape (n,), optional
        +1 normal, −1 anomaly; None: all rows are normal.
    share : bool, default=False
        Keep results for the latest kernel, and on the host the squared distances, for other fits.
    """

    is_sample = False  # whether the rows were drawn from a Dask collection, ...
    is_subsample = False  # ... which has more rows

    def __init__(
        self, X: Array, weights: Host | None, labels: Host | None = None, *, share: bool = False
    ) -> None:
        # Positions in X of the rows with weight; None: all rows.
        self.positions: NDArray[np.int64] | None = None
        if weights is not None and not weights.all():
            counting = self.positions = np.flatnonzero(weights)
            X, weights = ops.take(X, counting), weights[counting]
            labels = None if labels is None else labels[counting]
        self.X = X
        self.is_weighted = weights is not None and bool((weights != weights[0]).any())
        self.weights = np.ones(X.shape[0]) if weights is None else weights
        self.labels = None if labels is None or (labels > 0).all() else labels
        self.share = share
        self._anchors: Array | None = None
        self._distances: Array | None = None
        self._kernel: Kernel | None = None
        self._cache: dict[str, Any] = {}

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def gram_bytes(self) -> int:
        """Size of a kernel matrix of these rows."""
        return len(self) ** 2 * 4 * (1 if ops.is_single(self.X) else 2)

    @property
    def anchors(self) -> Array:
        """A copy of the rows, shared by all learners; the user may modify the original."""
        if self._anchors is None:
            self._anchors = self.X + 0.0
        return self._anchors

    def without(self, part: NDArray[np.int64], *, share: bool = False) -> TrainingRows:
        """Return the rows without those at the given positions."""
        kept = np.delete(np.arange(len(self)), part)
        labels = None if self.labels is None else self.labels[kept]
        return TrainingRows(ops.take(self.X, kept), self.weights[kept], labels, share=share)

    def forget(self) -> None:
        """Free cached results, which may be n×n matrices."""
        self._kernel, self._distances, self._cache = None, None, {}

    def moments(self, features: FeatureMap, *, mean: bool = False) -> tuple[Array, Array]:
        """Return ``Σ w φ`` and ``Σ w φφᵀ`` of the features; with `mean` the weights sum to one."""
        return features.moments(self.X, self.weights / self.weights.sum() if mean else self.weights)

    def lower_quantile(self, scores: Array, share: float, score: Scoring) -> float:
        """Return the score with the given share of the rows, by weight, strictly below it.

        `scores` are those of the rows; `score` computes those of other rows of a larger table.
        """
        return lower_quantile(scores, self.weights, share)

    def gram(self, kernel: Kernel, *, to_overwrite: bool = False) -> Array:
        """Return the kernel matrix, of shape (n, n); a copy `to_overwrite`, else shared."""
        if not self.share:
            return kernel.gram(self.X)
        cache = self.cache(kernel)
        if to_overwrite and not ops.is_numpy(self.X):
            return kernel.gram(self.X)  # on a device nearly as fast as a copy
        if "gram" not in cache:
            cache["gram"] = self._gram_from_distances(kernel)
        return cache["gram"] + 0.0 if to_overwrite else cache["gram"]

    def cache(self, kernel: Kernel) -> dict[str, Any]:
        """Return cached results for this kernel; those for another one are freed."""
        if not self.share or kernel != self._kernel:
            self._kernel, self._cache = kernel, {}
        return self._cache

    def _gram_from_distances(self, kernel: Kernel) -> Array:
        if kernel.name != "rbf" or not ops.is_numpy(self.X):  # on a device memory is scarce
            return kernel.gram(self.X)
        if self._distances is None:
            self._distances = squared_distances(self.X)
        return kernel.of_distances(self._distances)


def training_rows(
    X: Any, sample_weight: Any = None, y: Any = None, *, share: bool = False
) -> TrainingRows:
    """Check the arguments of ``fit``."""
    rows = check_features(X)
    n = int(rows.shape[0])
    weights, labels = check_sample_weight(sample_weight, n), check_labels(y, n)
    if weights is not None and labels is not None and not weights[labels > 0].any():
        raise ValueError(
            "sample_weight is zero for all normal rows (+1); give some of them a weight above zero."
        )
    return TrainingRows(rows, weights, labels, share=share)


def gamma_from_sigma(sigma: float) -> float:
    """Return the `gamma` of a Gaussian kernel of width `sigma`: ``γ = 1 / (2σ²)``.

    scikit-learn writes ``k(x, x′) = exp(−γ ‖x − x′‖²)``, many papers ``exp(−‖x − x′‖² / (2σ²))``.

    Parameters
    ----------
    sigma : float
        The width, above zero.

    Returns
    -------
    float
        What to pass as `gamma`.

    Examples
    --------
    >>> from lpfuse.detectors import PAPER_WIDTHS, gamma_from_sigma
    >>> gamma_from_sigma(0.5)
    2.0
    >>> [round(gamma_from_sigma(sigma), 3) for sigma in PAPER_WIDTHS]
    [5000.0, 50.0, 2.0, 0.5, 0.005]
    """
    return 1.0 / (2.0 * check_number("sigma", sigma, above=0) ** 2)


def resolve_kernel(
    X: Array,
    kernel: Any,
    gamma: Any,
    degree: float,
    coef0: float,
    params: dict[str, Any] | None,
    weights: Host | None,
) -> Kernel:
    """Return the kernel of an estimator's parameters for the rows X."""
    known = isinstance(kernel, str) and kernel in KERNEL_NAMES
    if not known and not callable(kernel):
        raise ValueError(
            f"kernel must be one of {', '.join(sorted(KERNEL_NAMES))}, or a function "
            f"of two rows; got {kernel!r}."
        )
    if not ops.is_numpy(X) and kernel not in ("rbf", *INNER_PRODUCTS):
        raise ValueError(
            f"kernel={kernel!r} of scikit-learn needs NumPy arrays, got {type(X).__name__}. "
            f"Use one of rbf, {', '.join(INNER_PRODUCTS)}, or pass X as a NumPy array."
        )
    return Kernel(
        kernel,
        resolve_gamma(gamma, X, weights),
        check_number("degree", degree),
        check_number("coef0", coef0),
        params or {},
        id(params) if params else 0,  # loaded kernels without parameters compare equal
    )


def resolve_gamma(gamma: Any, X: Array, weights: Host | None = None) -> float:
    """Return `gamma` as a number, from a float, "narrow", "scale" or "median"."""
    if isinstance(gamma, str) and gamma in SCALES:
        variance, square = _variance(X, weights), float(ops.namespace(X).mean(X * X))
        # Constant up to rounding: the squares of 1e-6 and 1e-14, some digits above each precision.
        constant = variance <= (1e-12 if ops.is_single(X) else 1e-28) * square
        return SCALES[gamma] * (1.0 if constant else 1.0 / (variance * X.shape[1]))
    if isinstance(gamma, str) and gamma == "median":
        return _gamma_of_median(X)
    if isinstance(gamma, str) or gamma is None:
        raise ValueError(
            f'gamma must be a number above zero, "narrow", "scale" or "median", got {gamma!r}. '
            "For a width sigma pass gamma=lpfuse.detectors.gamma_from_sigma(sigma)."
        )
    return check_number("gamma", gamma, above=0)


def _gamma_of_median(X: Array) -> float:
    """Return ``γ = 1 / (2 m)``, with m the median squared distance of two rows."""
    n = X.shape[0]
    some = ops.take(X, np.linspace(0, n - 1, min(n, MEDIAN_ROWS)).astype(int))
    distances = squared_distances(ops.to_host(some))
    pairs = distances[np.triu_indices(len(distances), 1)]
    # Without repeated rows, whose computed distance may not be exactly zero.
    apart = pairs[pairs > 1e-12 * pairs.max(initial=0.0)]
    return 0.5 / float(np.median(apart)) if apart.size else 1.0


def _variance(X: Array, weights: Host | None) -> float:
    """Return the weighted variance of all entries."""
    if weights is None:
        return float(ops.namespace(X).var(X))
    share = ops.like(weights / weights.sum() / X.shape[1], X)[:, None]
    xp = ops.namespace(X)
    mean = float(xp.sum(share * X))
    return float(xp.sum(share * (X - mean) ** 2))


class KernelWidthWarning(UserWarning):
    """The kernel's width makes scores tie, or nearly so."""


def warn_about_width(kernel: Kernel, X: Array, probes: int = PROBES, others: int = OTHERS) -> None:
    """Warn where the kernel matrix is near the identity or constant, or held-out scores saturate.

    A held-out row without a similar row has the score of a point at infinity.
    """
    if kernel.name not in ("rbf", "laplacian") or X.shape[0] < 3:
        return
    similarities = _similarities_to_others(kernel, X, probes, others)
    isolated = float((np.nanmax(similarities, axis=1) < NEGLIGIBLE).mean())
    if isolated > MOST:
        rule = "median"
        problem = "too narrow: the kernel matrix is near the identity, and all scores tie"
    elif isolated > SOME and X.shape[0] >= FEWEST:
        rule = "median"
        problem = (
            f"narrow: about {isolated:.0%} of the rows resemble no other row, so the scores of "
            "held-out rows like them are saturated, all alike"
        )
    elif np.nanmean(similarities) > 1 - NEGLIGIBLE and not _all_equal(X):
        rule = "narrow"
        problem = "too wide: the kernel matrix is nearly constant, and scores differ in few digits"
    else:
        return
    warn_user(
        f"gamma={kernel.gamma:.3g} makes the kernel {problem}. Try "
        f"{_better_gamma(kernel, X, rule)}.",
        KernelWidthWarning,
    )


def _all_equal(X: Array) -> bool:
    return bool(ops.namespace(X).all(X == X[:1, :]))


def _better_gamma(kernel: Kernel, X: Array, rule: str) -> str:
    if kernel.name == "rbf":
        return f'gamma={resolve_gamma(rule, X):.3g} (gamma="{rule}")'
    some = ops.to_host(ops.take(X, _evenly_spaced(X.shape[0], MEDIAN_ROWS)))
    from scipy.spatial.distance import pdist

    distances = pdist(some, "cityblock")  # for the Laplacian kernel
    return f"gamma={1 / np.median(distances[distances > 0]):.3g}"


def _similarities_to_others(kernel: Kernel, X: Array, n_probes: int, n_others: int) -> Host:
    """Return similarities of some rows to the others, NaN for the row itself."""
    others = _evenly_spaced(X.shape[0], n_others)
    probes = _evenly_spaced(len(others), n_probes)
    known = X if len(others) == X.shape[0] else ops.take(X, others)
    similarities = ops.to_host(kernel.between(ops.take(known, probes), known))
    similarities[np.arange(len(probes)), probes] = np.nan
    return similarities


def _evenly_spaced(n: int, at_most: int) -> NDArray[np.int64]:
    return np.linspace(0, n - 1, min(n, at_most)).astype(int)


def squared_distances(X: Array) -> Array:
    """``‖x_i − x_j‖²``, of shape (n, n); exactly zero on the diagonal."""
    distances = matrix_of_rows(distances_to(X), X, X.shape[0], X.shape[0])
    return ops.add_to_diagonal(distances, -ops.diagonal_of(distances))


# --------------------------------------------------------------------------------------------------
# Dask rows: a sample, and sums over all rows.
#
# Two passes check the rows and draw the sample. A learner that needs only sums takes a third pass
# over all rows; any other is fitted to the sample. A threshold from held-out rows subtracts a part
# of the sample from the sums; one from in-sample scores takes a further pass.


class SampleSize:
    """Size of the sample of Dask rows; `sample_size` may be changed.

    Attributes
    ----------
    rows : int
        Fine enough for a threshold (steps of 0.005 %), and an exact kernel matrix still fits.
    per_landmark : int
        Rows per landmark, as in k-means (docs/adr/0004), where that is more.
    """

    def __init__(self) -> None:
        self.rows = 20_000
        self.per_landmark = 20


sample_size = SampleSize()
Sample = tuple[Array, Host | None, Host | None]  # rows, labels, weights
Moments = tuple[Array, Array]


class SampledRows(TrainingRows):
    """A sample of Dask rows, with sums over all rows.

    Parameters
    ----------
    checked : CheckedBlocks
        All rows.
    sample : tuple of arrays
        The rows of the sample, and their labels and weights, if any.
    positions : ndarray
        Positions of these rows among all rows.
    """

    is_sample = True

    def __init__(self, checked: CheckedBlocks, sample: Sample, positions: Positions) -> None:
        X, labels, weights = sample
        counts = np.ones(len(positions)) if weights is None else weights
        if not (counts if labels is None else counts[labels > 0]).any():
            raise ValueError(
                f"None of {len(positions):,} rows sampled evenly from X is normal with a "
                "sample_weight above zero. Drop rows of weight zero from X."
            )
        super().__init__(X, weights, labels)
        self.positions = positions if self.positions is None else positions[self.positions]
        self._checked, self.is_subsample = checked, len(positions) < checked.n
        self._summed: tuple[FeatureMap, Moments] | None = None  # the latest

    def without(self, part: Positions, *, share: bool = False) -> TrainingRows:
        """Return the sample without the given rows; its sums are over all other rows."""
        rest = super().without(part, share=share)
        return _SampleWithout(self, part, rest) if self.is_subsample else rest

    def moments(self, features: FeatureMap, *, mean: bool = False) -> Moments:
        """Return ``Σ w φ`` and ``Σ w φφᵀ`` over all blocks."""
        if self._summed is None or self._summed[0] is not features:
            sums = self._checked.blocks.reduce(_moments_of_block, _sum_of_moments, features)
            self._summed = features, sums
        first, second = self._summed[1]
        mass = sum(self._checked.mass) if mean else 1.0
        return first / mass, second / mass

    def lower_quantile(self, scores: Array, share: float, score: Scoring) -> float:
        """Return the highest score of the sample with at most the share of all rows below it."""
        if not self.is_subsample:
            return super().lower_quantile(scores, share, score)
        cuts = np.unique(ops.to_host(scores))
        below = np.cumsum(self._checked.blocks.reduce(_weight_below_cuts, _sum, score, cuts))
        within = below <= share * sum(self._checked.mass) * (1 + 1e-9)
        return float(cuts[within][-1] if within.any() else cuts[0])


class _SampleWithout(TrainingRows):
    """A sample without some of its rows; sums are over all other rows."""

    is_sample = is_subsample = True

    def __init__(self, whole: SampledRows, part: Positions, rest: TrainingRows) -> None:
        super().__init__(rest.X, rest.weights, rest.labels, share=rest.share)
        self._whole, self._left_out = whole, (ops.take(whole.X, part), whole.weights[part])

    def moments(self, features: FeatureMap, *, mean: bool = False) -> Moments:
        """Return ``Σ w φ`` and ``Σ w φφᵀ`` of all rows except those left out."""
        every = self._whole.moments(features)
        first, second = (
            total - own for total, own in zip(every, features.moments(*self._left_out), strict=True)
        )
        mass = sum(self._whole._checked.mass) - self._left_out[1].sum() if mean else 1.0
        return first / mass, second / mass


def sampled_rows(
    X: Any, y: Any, sample_weight: Any, at_least: int, rng: np.random.RandomState
) -> SampledRows:
    """Check the Dask arguments of ``fit`` and draw a sample."""
    checked = check_feature_blocks(X, y=y, sample_weight=sample_weight)
    blocks = checked.blocks
    assert blocks.sizes is not None
    positions = _spread(checked.n, max(sample_size.rows, at_least), rng)
    starts = np.cumsum([0, *blocks.sizes])
    of_blocks = [
        positions[(positions >= start) & (positions < stop)] - start
        for start, stop in pairwise(starts)
    ]
    sample = blocks.reduce(_rows_at, _joined, of_blocks)
    return SampledRows(checked, sample, positions)


def _spread(n: int, count: int, rng: np.random.RandomState) -> Positions:
    """Return a random position in each of `count` equal spans of n; all where n is smaller."""
    edges = np.arange(count + 1) * n // count if n > count else np.arange(n + 1)
    return edges[:-1] + (rng.uniform(size=len(edges) - 1) * np.diff(edges)).astype(np.int64)


def _rows_at(k: int, parts: tuple[Any, ...], positions: list[Positions]) -> Sample:
    chosen = positions[k]
    X, y, c = arrays_of(parts)
    return ops.take(X, chosen), y if y is None else y[chosen], c if c is None else c[chosen]


def _joined(samples: list[Sample]) -> Sample:
    filled = [sample for sample in samples if sample[0].shape[0]] or samples[:1]
    rows, labels, weights = zip(*filled, strict=True)
    return ops.concatenate(list(rows)), _joined_vectors(labels), _joined_vectors(weights)


def _joined_vectors(vectors: tuple[Host | None, ...]) -> Host | None:
    present = [vector for vector in vectors if vector is not None]
    return np.concatenate(present) if present else None


def _moments_of_block(k: int, parts: tuple[Any, ...], features: FeatureMap) -> Moments:
    X, _, weights = arrays_of(parts)
    if X.shape[0] == 0:
        return ops.like(np.zeros(features.width), X), ops.like(np.zeros((features.width,) * 2), X)
    return features.moments(X, np.ones(X.shape[0]) if weights is None else weights)


def _weight_below_cuts(k: int, parts: tuple[Any, ...], score: Scoring, cuts: Host) -> Host:
    """Return the weight of rows with scores between consecutive cuts."""
    X, _, weights = arrays_of(parts)
    if X.shape[0] == 0:
        return np.zeros(len(cuts))
    reached = np.searchsorted(cuts, ops.to_host(score(X)), side="right")
    return np.bincount(reached, weights, minlength=len(cuts) + 1)[:-1].astype(np.float64)


def _sum(parts: list[Host]) -> Host:
    return np.sum(parts, axis=0)


def _sum_of_moments(parts: list[Moments]) -> Moments:
    first, second = zip(*parts, strict=True)
    return sum(first[1:], start=first[0]), sum(second[1:], start=second[0])
