"""Kernels k(x, x′), and the functions of them that learners become: values, block by block.

Whatever a kernel learner was fitted on, it ends as an *expansion* ``B(x) · coefficients``, where B
is a row of basis functions: similarities to training rows (exact) or to landmarks (Nyström), or
waves (random Fourier features, in `_features`). So all of them score in one way, and learners with
the same anchors share the work (`score_together`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.blocks import head_of, map_rows
from lpfuse._arrays.linalg import add_to_diagonal, diagonal_of, times_few_columns, times_triangle
from lpfuse._arrays.operations import (
    Array,
    beside,
    concatenate,
    exp_in_place,
    filled,
    is_blocked,
    is_numpy,
    map_row_blocks,
    namespace,
    to_host,
)
from lpfuse._arrays.threads import one_blas_thread
from lpfuse._base import Detector
from lpfuse._checks.tables import check_columns, check_features
from lpfuse._saved import WithoutCaches, saved_as
from lpfuse.detectors._distances import RowFunction, distances_to, square_norms, square_of

# Parts that a triangle of coefficients is cut to, columns from which on that pays, and rows.
ENDS, COLUMNS_OF_ENDS, ROWS_OF_ENDS = 8, 200, 32
INNER_PRODUCTS = ("linear", "poly", "polynomial", "sigmoid", "cosine")  # in any array library
UNIT_DIAGONAL = ("rbf", "laplacian", "chi2")


@saved_as("Kernel", name=PAIRWISE_KERNEL_FUNCTIONS)
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

    def against(self, Z: Array) -> RowFunction:
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
            return beside(filled(X.shape[0], 1.0, X), X)
        if self.name == "additive_chi2":
            return beside(filled(X.shape[0], 0.0, X), X)
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
        values = square_of(self.against(X), X)
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


def _normalised(X: Array) -> Array:
    xp = namespace(X)
    norms = xp.sqrt(square_norms(X))
    return X / xp.where(norms > 0, norms, xp.ones_like(norms))


class Basis(Protocol):
    """Basis functions, and the kernel that they stand for."""

    @property
    def kernel(self) -> Kernel:
        """The kernel."""

    @property
    def width(self) -> int:
        """Number of basis functions."""

    def rows(self, X: Array) -> RowFunction:
        """The function that maps rows, of the library of X, to the values of the basis."""


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
        """The function that maps rows, of the library of X, to their similarities."""
        return self.kernel.against(beside(self.anchors, X))


@saved_as("Expansion")
@dataclass(frozen=True)
class Expansion(WithoutCaches):
    """``B(x) · coefficients``: one column for each function of x that a learner needs.

    It may need the first columns only, of coefficients that it shares with others.
    """

    basis: Basis
    coefficients: Array  # (width, columns or more)
    columns: int

    @cached_property
    def _host_rows(self) -> RowFunction:
        """`Basis.rows` for double precision of NumPy, prepared once: rows may come one by one."""
        return self.basis.rows(np.empty((0, 0)))

    @cached_property
    def _ends(self) -> list[int]:
        """Where the coefficients of each part of the columns end; empty where all are full.

        Those of a Gaussian process are a triangle, half of which is zero.
        """
        if self.columns < COLUMNS_OF_ENDS:
            return []
        parts = np.array_split(to_host(self.coefficients[:, 1 : self.columns]), ENDS, axis=1)
        used = [np.flatnonzero(part.any(axis=1)) for part in parts]
        ends = [int(rows[-1]) + 1 if len(rows) else 0 for rows in used]
        return ends if sum(ends) < 0.75 * ENDS * len(self.coefficients) else []

    def map(self, X: Array, finish: Callable[[Array, Array], Array]) -> Array:
        """``finish(k(x, x), B(x) · coefficients)`` of all rows, in blocks of bounded size."""
        kernel, usual = self.basis.kernel, is_numpy(X) and X.dtype == np.float64
        rows = self._host_rows if usual else self.basis.rows(X)
        coefficients = beside(self.coefficients[:, : self.columns], X)

        ends = self._ends if usual else []

        def work(block: slice) -> Array:
            some = X[block, :]
            values = rows(some)
            if len(ends) > 1 and len(values) >= ROWS_OF_ENDS:
                return finish(kernel.diagonal(some), times_triangle(values, coefficients, ends))
            return finish(kernel.diagonal(some), times_few_columns(values, coefficients))

        with one_blas_thread:
            return concatenate(map_row_blocks(work, X, width=self.basis.width))


class KernelScorer(Detector):
    """A detector whose score is a formula of ``k(x, x)`` and of the values of its expansion.

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
        """Scores from ``k(x, x)``, of shape (n,), and the values of the expansion."""
        raise NotImplementedError


def score_together(detectors: Sequence[Detector], X: Any) -> Array:
    """The scores of several fitted detectors, faster than one by one.

    Learners with the same training rows share the distances to them, and those of the same width
    the kernel's values. No more than a block of either is held at a time.

    Parameters
    ----------
    detectors : sequence of detectors
        Fitted, for instance by `fit_together`.
    X : array-like of shape (n, d)
        Rows to score.

    Returns
    -------
    array of shape (n, R)
        One column a detector, high = normal.
    """
    if not detectors:
        raise ValueError("There are no detectors to score with; pass at least one.")
    for detector in detectors:
        check_is_fitted(detector)
        check_columns(head_of(X) if is_blocked(X) else X, detector)
    if is_blocked(X):
        return map_rows(_scores_of_block, X, list(detectors), width=len(detectors))
    checked = check_features(X)
    columns: dict[int, Array] = {}
    for group in _groups(detectors):
        if len(group) == 1:
            columns[group[0]] = detectors[group[0]]._scores(checked)
        else:
            scores = _share_distances([detectors[i] for i in group], checked)
            columns.update((i, scores[:, j]) for j, i in enumerate(group))
    return namespace(checked).stack([columns[i] for i in range(len(detectors))], axis=1)


def _scores_of_block(block: Any, detectors: list[Detector]) -> Array:
    if block.shape[0] == 0:
        return np.empty((0, len(detectors)))
    return score_together(detectors, block)


def _groups(detectors: Sequence[Detector]) -> list[list[int]]:
    """Positions of detectors whose Gaussian kernels have the same anchors."""
    groups: dict[Any, list[int]] = {}
    for i, detector in enumerate(detectors):
        anchors = _anchors(detector)
        groups.setdefault(("alone", i) if anchors is None else id(anchors), []).append(i)
    return list(groups.values())


def _anchors(detector: Detector) -> Array | None:
    """The rows that a Gaussian kernel compares with; None for other detectors."""
    basis = detector.expansion_.basis if isinstance(detector, KernelScorer) else None
    if isinstance(basis, Similarities) and basis.kernel.name == "rbf":
        return basis.anchors
    return None


def _share_distances(detectors: list[Any], X: Array) -> Array:
    """Scores of detectors whose Gaussian kernels have the same anchors."""
    xp = namespace(X)
    expansions = [detector.expansion_ for detector in detectors]
    distances = distances_to(beside(expansions[0].basis.anchors, X))
    # What is to be computed: the most columns that anyone needs of some kernel and coefficients.
    products: dict[tuple[Kernel, int], Array] = {}
    for expansion in sorted(expansions, key=lambda expansion: expansion.columns):
        columns = beside(expansion.coefficients[:, : expansion.columns], X)
        products[expansion.basis.kernel, id(expansion.coefficients)] = columns

    def work(block: slice) -> Array:
        some = X[block, :]
        apart = distances(some)
        similarities: dict[Kernel, Array] = {}
        values = {}
        for (kernel, coefficients), columns in products.items():
            if kernel not in similarities:
                similarities[kernel] = kernel.of_distances(apart)
            values[kernel, coefficients] = times_few_columns(similarities[kernel], columns)
        scores = [
            detector._score_from(
                expansion.basis.kernel.diagonal(some),
                values[expansion.basis.kernel, id(expansion.coefficients)],
            )
            for detector, expansion in zip(detectors, expansions, strict=True)
        ]
        return xp.stack(scores, axis=1)

    with one_blas_thread:
        return concatenate(map_row_blocks(work, X, width=expansions[0].basis.width))
