"""Kernels k(x, x′): their widths, and their values block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from lpfuse._arrays import (
    Array,
    Host,
    beside,
    empty_beside,
    exp_in_place,
    filled,
    is_numpy,
    is_single,
    largest,
    like,
    map_row_blocks,
    namespace,
    one_blas_thread,
    positive_part,
    take,
    to_host,
)
from lpfuse._arrays.linalg import add_to_diagonal, diagonal_of
from lpfuse._checks.parameters import check_number
from lpfuse._saved import saved_as

PAPER_WIDTHS = (0.01, 0.1, 0.5, 1.0, 10.0)  # the widths σ of the paper's grid
SCALES = {"scale": 1.0, "narrow": 3.0}  # multiples of 1 / (d · Var X)
MEDIAN_ROWS = 1000  # rows that the median distance is taken over
INNER_PRODUCTS = ("linear", "poly", "polynomial", "sigmoid", "cosine")
UNIT_DIAGONAL = ("rbf", "laplacian", "chi2")

Rows = Callable[[Array], Array]  # X of shape (n, d) ↦ one number a row of X and a fixed row


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


@saved_as("Kernel")
@dataclass(frozen=True)
class Kernel:
    """A kernel with all its parameters settled; equal ones compare and hash as equal."""

    name: str | Callable[..., float]
    gamma: float = 1.0
    degree: float = 3.0
    coef0: float = 1.0
    params: dict[str, Any] = field(default_factory=dict, compare=False)  # of a callable
    params_id: int = 0  # parameters may not be comparable: equal ones are the same object

    def between(self, X: Array, Z: Array) -> Array:
        """``k(x_i, z_j)``, of shape (n, m)."""
        with one_blas_thread:
            return self.against(Z)(X)

    def against(self, Z: Array) -> Rows:
        """The function ``X ↦ k(x_i, z_j)``, with all that depends on Z alone done once."""
        if self.name == "rbf":
            exponents = distances_to(Z, -self.gamma)
            return lambda X: exp_in_place(exponents(X))
        if self.name in INNER_PRODUCTS:
            return lambda X: self._of_inner_products(X, Z)
        return lambda X: beside(pairwise_kernels(X, Z, metric=self.name, **self._arguments()), Z)

    def of_distances(self, distances: Array) -> Array:
        """The values of a Gaussian kernel from squared distances."""
        return exp_in_place(-self.gamma * distances)

    def diagonal(self, X: Array) -> Array:
        """``k(x_i, x_i)``, of shape (n,)."""
        if self.name in UNIT_DIAGONAL:
            return _constant(1.0, X)
        if self.name == "additive_chi2":
            return _constant(0.0, X)
        if callable(self.name):
            values = [self.name(x, x, **self.params) for x in X]
            return np.asarray(values, dtype=X.dtype)
        xp = namespace(X)
        norms = xp.sum(X * X, axis=1)
        if self.name == "cosine":
            return xp.astype(norms > 0, X.dtype)
        return self._of_products(norms)

    def gram(self, X: Array) -> Array:
        """``k(x_i, x_j)``, of shape (n, n)."""
        values = _square(self.against(X), X)
        if not self.has_unit_diagonal:
            return values
        return add_to_diagonal(values, 1.0 - diagonal_of(values))  # exact, whatever was rounded

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
            return namespace(products).tanh(self.gamma * products + self.coef0)
        return products

    def _arguments(self) -> dict[str, Any]:
        """What scikit-learn's function of that name takes."""
        takes_gamma = self.name in ("laplacian", "chi2")
        return {"gamma": self.gamma} if takes_gamma else self.params


def squared_distances(X: Array) -> Array:
    """``‖x_i − x_j‖²``, of shape (n, n); exactly zero on the diagonal."""
    distances = _square(distances_to(X, 1.0), X)
    return add_to_diagonal(distances, -diagonal_of(distances))


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
        constant = variance <= (1e-12 if is_single(X) else 1e-28) * square  # but for rounding
        return SCALES[gamma] * (1.0 if constant else 1.0 / (variance * X.shape[1]))
    if isinstance(gamma, str) and gamma == "median":
        return gamma_of_median(X)
    if isinstance(gamma, str) or gamma is None:
        raise ValueError(
            f'gamma must be a number above zero, "narrow", "scale" or "median", got {gamma!r}. '
            "For a width sigma pass gamma=lpfuse.detectors.gamma_from_sigma(sigma)."
        )
    return check_number("gamma", gamma, above=0)


def gamma_of_median(X: Array) -> float:
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


def distances_to(Z: Array, factor: float) -> Rows:
    """The function ``X ↦ factor · ‖x_i − z_j‖²``.

    One product makes it: ``(x, ‖x‖², 1) · (−2z, 1, ‖z‖²)``. Both are measured from the mean of Z,
    which changes no distance and keeps the digits that a common offset would cancel.
    """
    xp = namespace(Z)
    centre = xp.mean(Z, axis=0)
    Z = Z - centre
    norms = _square_norms(Z)
    right = factor * xp.concat([-2.0 * Z, xp.ones_like(norms), norms], axis=1).T
    rounding = 10 * float(xp.finfo(Z.dtype).eps) * abs(factor)

    def distances(X: Array) -> Array:
        X = X - centre
        own = _square_norms(X)
        products = xp.concat([X, own, xp.ones_like(own)], axis=1) @ right
        if factor > 0:
            return positive_part(products)
        if rounding * (largest(own) + largest(norms)) > 1e-13:
            products = xp.clip(products, max=0.0)  # else no similarity is far above one
        return products

    return distances


def _square(rows: Rows, X: Array) -> Array:
    n = X.shape[0]
    values = empty_beside((n, n), X)

    def work(block: slice) -> None:
        values[block, :] = rows(X[block, :])

    with one_blas_thread:
        map_row_blocks(work, X, width=n)
    return values


def _square_norms(X: Array) -> Array:
    return namespace(X).sum(X * X, axis=1, keepdims=True)


def _normalised(X: Array) -> Array:
    xp = namespace(X)
    norms = xp.sqrt(_square_norms(X))
    return X / xp.where(norms > 0, norms, xp.ones_like(norms))


def _constant(value: float, X: Array) -> Array:
    return beside(filled(X.shape[0], value, X), X)
