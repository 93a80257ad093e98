"""The rows that learners are fitted on, and the width of the kernel that suits them.

`TrainingRows` holds what several fits on the same rows can share. `settle_kernel` turns the
parameters of an estimator into a kernel for these rows; `warn_about_width` warns where its width
makes scores tie.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

from lpfuse._arrays.linalg import add_to_diagonal, diagonal_of
from lpfuse._arrays.operations import (
    Array,
    Host,
    is_numpy,
    is_single,
    like,
    namespace,
    take,
    to_host,
)
from lpfuse._base import lower_quantile
from lpfuse._checks.arguments import check_labels, check_number, check_sample_weight
from lpfuse._checks.tables import check_features
from lpfuse.detectors._distances import distances_to, square_of
from lpfuse.detectors._features import FeatureMap
from lpfuse.detectors._kernels import INNER_PRODUCTS, Kernel

Scoring = Callable[[Array], Array]  # from rows to their scores

PAPER_WIDTHS = (0.01, 0.1, 0.5, 1.0, 10.0)  # the widths σ of the paper's grid
# Multiples of 1 / (d · Var X). Three times scikit-learn's rule ranks better on the 30 development
# sets (SVDD 24 : 5, Gaussian process 23 : 5) and never sets off the warning below, which ten times
# does in 21 of 90 fits: docs/adr/0004.
SCALES = {"scale": 1.0, "narrow": 3.0}
# The numbers below are chosen by hand.
MEDIAN_ROWS = 1000  # rows that the median distance is taken over: half a million pairs
PROBES = 32  # rows that are looked at as if they were held out
OTHERS = 20_000  # rows that they are compared with, at most
NEGLIGIBLE = 1e-3  # a similarity that no longer tells near from far
FEWEST = 20  # rows below which a share of them says little
MOST, SOME = 0.9, 0.1  # shares of the probes without a similar row: all scores tie, many do


class TrainingRows:
    """Rows with their weights and, where there are some, labels.

    Parameters
    ----------
    X : array of shape (n, d)
        Checked rows.
    weights : ndarray of shape (n,), optional
        How often each row counts; rows of weight zero are left out.
    labels : ndarray of shape (n,), optional
        +1 normal, −1 anomaly; None: all rows are normal.
    share : bool, default=False
        Keep what was computed for the latest kernel, and on the host the squared distances, for
        other fits.
    """

    is_sample = False  # whether the rows were drawn from rows in blocks, ...
    stands_for_more = False  # ... of which there are many more

    def __init__(
        self, X: Array, weights: Host | None, labels: Host | None = None, *, share: bool = False
    ) -> None:
        # Positions in X of the rows that count; None: all of them.
        self.positions: NDArray[np.int64] | None = None
        if weights is not None and not weights.all():
            counting = self.positions = np.flatnonzero(weights)
            X, weights = take(X, counting), weights[counting]
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
        """What a kernel matrix of these rows takes."""
        return len(self) ** 2 * 4 * (1 if is_single(self.X) else 2)

    @property
    def anchors(self) -> Array:
        """A copy of the rows for learners to keep, the same for all: the user may change theirs."""
        if self._anchors is None:
            self._anchors = self.X + 0.0
        return self._anchors

    def without(self, part: NDArray[np.int64], *, share: bool = False) -> TrainingRows:
        """The rows but for those at some positions."""
        kept = np.delete(np.arange(len(self)), part)
        labels = None if self.labels is None else self.labels[kept]
        return TrainingRows(take(self.X, kept), self.weights[kept], labels, share=share)

    def forget(self) -> None:
        """Drop what was computed for kernels, maybe matrices with a number for every two rows."""
        self._kernel, self._distances, self._cache = None, None, {}

    def moments(self, features: FeatureMap, *, mean: bool = False) -> tuple[Array, Array]:
        """``Σ w φ`` and ``Σ w φφᵀ`` of the rows' features; with `mean` the weights sum to one."""
        return features.moments(self.X, self.weights / self.weights.sum() if mean else self.weights)

    def lower_quantile(self, scores: Array, share: float, score: Scoring) -> float:
        """The score that the given share of the rows, by weight, lies strictly below.

        `scores` are those of the rows; `score` gives them of others, for rows that stand for more.
        """
        return lower_quantile(scores, self.weights, share)

    def gram(self, kernel: Kernel, *, to_overwrite: bool = False) -> Array:
        """The kernel matrix, of shape (n, n); it is shared unless it is taken to overwrite."""
        if not self.share:
            return kernel.gram(self.X)
        cache = self.cache(kernel)
        if to_overwrite and not is_numpy(self.X):
            return kernel.gram(self.X)  # a device makes it again nearly as fast as it copies it
        if "gram" not in cache:
            cache["gram"] = self._gram_from_distances(kernel)
        return cache["gram"] + 0.0 if to_overwrite else cache["gram"]

    def cache(self, kernel: Kernel) -> dict[str, Any]:
        """What was computed for this kernel; that of another, maybe an n×n matrix, is dropped."""
        if not self.share or kernel != self._kernel:
            self._kernel, self._cache = kernel, {}
        return self._cache

    def _gram_from_distances(self, kernel: Kernel) -> Array:
        if kernel.name != "rbf" or not is_numpy(self.X):  # a device's memory is short, not its time
            return kernel.gram(self.X)
        if self._distances is None:
            self._distances = squared_distances(self.X)
        return kernel.of_distances(self._distances)


def training_rows(
    X: Any, sample_weight: Any = None, y: Any = None, *, share: bool = False
) -> TrainingRows:
    """What a user passed to ``fit``, checked."""
    rows = check_features(X)
    n = int(rows.shape[0])
    weights, labels = check_sample_weight(sample_weight, n), check_labels(y, n)
    if weights is not None and labels is not None and not weights[labels > 0].any():
        raise ValueError(
            "sample_weight is zero for all normal rows (+1); give some of them a weight above zero."
        )
    return TrainingRows(rows, weights, labels, share=share)


def gamma_from_sigma(sigma: float) -> float:
    """The `gamma` of a Gaussian kernel of width `sigma`: ``γ = 1 / (2σ²)``.

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


def sigma_from_gamma(gamma: float) -> float:
    """The width of a Gaussian kernel with that `gamma`: ``σ = 1 / √(2γ)``.

    Parameters
    ----------
    gamma : float
        As scikit-learn uses it, above zero.

    Returns
    -------
    float
        The width σ.

    Examples
    --------
    >>> from lpfuse.detectors import sigma_from_gamma
    >>> sigma_from_gamma(2.0)
    0.5
    """
    return float((2.0 * check_number("gamma", gamma, above=0)) ** -0.5)


def settle_kernel(
    X: Array,
    kernel: Any,
    gamma: Any,
    degree: float,
    coef0: float,
    params: dict[str, Any] | None,
    weights: Host | None,
) -> Kernel:
    """The kernel that an estimator's parameters mean for the rows X."""
    known = isinstance(kernel, str) and kernel in PAIRWISE_KERNEL_FUNCTIONS
    if not known and not callable(kernel):
        raise ValueError(
            f"kernel must be one of {', '.join(sorted(PAIRWISE_KERNEL_FUNCTIONS))}, or a function "
            f"of two rows; got {kernel!r}."
        )
    if not is_numpy(X) and kernel not in ("rbf", *INNER_PRODUCTS):
        raise ValueError(
            f"kernel={kernel!r} is scikit-learn's and needs NumPy arrays, got {type(X).__name__}. "
            f"Use one of rbf, {', '.join(INNER_PRODUCTS)}, or pass X as a NumPy array."
        )
    return Kernel(
        kernel,
        settle_gamma(gamma, X, weights),
        check_number("degree", degree),
        check_number("coef0", coef0),
        params or {},
        id(params) if params else 0,  # equal kernels without any, also when loaded
    )


def settle_gamma(gamma: Any, X: Array, weights: Host | None = None) -> float:
    """The number that `gamma` stands for: a float, "narrow", "scale" or "median"."""
    if isinstance(gamma, str) and gamma in SCALES:
        variance, square = _variance(X, weights), float(namespace(X).mean(X * X))
        # Equal but for rounding: the squares of 1e-6 and 1e-14, some digits above what each
        # precision resolves.
        constant = variance <= (1e-12 if is_single(X) else 1e-28) * square
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
    """``γ = 1 / (2 m)``, with m the median squared distance of two rows: σ² is that median."""
    n = X.shape[0]
    some = take(X, np.linspace(0, n - 1, min(n, MEDIAN_ROWS)).astype(int))
    distances = squared_distances(to_host(some))
    pairs = distances[np.triu_indices(len(distances), 1)]
    # Repeated rows say nothing about the width; rounding may set them apart.
    apart = pairs[pairs > 1e-12 * pairs.max(initial=0.0)]
    return 0.5 / float(np.median(apart)) if apart.size else 1.0


def _variance(X: Array, weights: Host | None) -> float:
    """The variance of all entries; rows count as often as they weigh."""
    if weights is None:
        return float(namespace(X).var(X))
    share = like(weights / weights.sum() / X.shape[1], X)[:, None]
    xp = namespace(X)
    mean = float(xp.sum(share * X))
    return float(xp.sum(share * (X - mean) ** 2))


class KernelWidthWarning(UserWarning):
    """The kernel's width makes scores tie, or nearly so."""


def warn_about_width(kernel: Kernel, X: Array, probes: int = PROBES, others: int = OTHERS) -> None:
    """Warn where the kernel matrix is near the identity or constant, or held-out rows saturate.

    A held-out row without any similar row gets the score of a point at infinity, whatever it is.
    So many rows, the `probes`, are compared with so many `others`.
    """
    if kernel.name not in ("rbf", "laplacian") or X.shape[0] < 3:
        return
    similarities = _similarities_to_others(kernel, X, probes, others)
    lonely = float((np.nanmax(similarities, axis=1) < NEGLIGIBLE).mean())
    if lonely > MOST:
        rule = "median"
        problem = "too narrow: the kernel matrix is near the identity, and all scores tie"
    elif lonely > SOME and X.shape[0] >= FEWEST:
        rule = "median"
        problem = (
            f"narrow: about {lonely:.0%} of the rows resemble no other row, so the scores of "
            "held-out rows like them are saturated, all alike"
        )
    elif np.nanmean(similarities) > 1 - NEGLIGIBLE and not _all_equal(X):
        rule = "narrow"
        problem = "too wide: the kernel matrix is nearly constant, and scores differ in few digits"
    else:
        return
    warnings.warn(
        f"gamma={kernel.gamma:.3g} makes the kernel {problem}. Try "
        f"{_better_gamma(kernel, X, rule)}.",
        KernelWidthWarning,
        stacklevel=4,
    )


def _all_equal(X: Array) -> bool:
    return bool(namespace(X).all(X == X[:1, :]))


def _better_gamma(kernel: Kernel, X: Array, rule: str) -> str:
    if kernel.name == "rbf":
        return f'gamma={settle_gamma(rule, X):.3g} (gamma="{rule}")'
    some = to_host(take(X, _evenly(X.shape[0], MEDIAN_ROWS)))
    distances = pdist(some, "cityblock")  # what a Laplacian kernel sees
    return f"gamma={1 / np.median(distances[distances > 0]):.3g}"


def _similarities_to_others(kernel: Kernel, X: Array, n_probes: int, n_others: int) -> Host:
    """Similarities of some rows to the other rows, NaN for the row itself."""
    others = _evenly(X.shape[0], n_others)
    probes = _evenly(len(others), n_probes)
    known = X if len(others) == X.shape[0] else take(X, others)
    similarities = to_host(kernel.between(take(known, probes), known))
    similarities[np.arange(len(probes)), probes] = np.nan
    return similarities


def _evenly(n: int, at_most: int) -> NDArray[np.int64]:
    return np.linspace(0, n - 1, min(n, at_most)).astype(int)


def squared_distances(X: Array) -> Array:
    """``‖x_i − x_j‖²``, of shape (n, n); exactly zero on the diagonal."""
    distances = square_of(distances_to(X), X)
    return add_to_diagonal(distances, -diagonal_of(distances))
