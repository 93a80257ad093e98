"""Squared distances of rows to anchors, and matrices of rows by rows, block by block."""

from __future__ import annotations

from collections.abc import Callable

from lpfuse._arrays.operations import (
    Array,
    empty_beside,
    largest,
    map_row_blocks,
    namespace,
    positive_part,
)
from lpfuse._arrays.threads import one_blas_thread

RowFunction = Callable[[Array], Array]  # rows of shape (n, d) ↦ n rows of numbers


def distances_to(Z: Array, factor: float = 1.0) -> RowFunction:
    """The function ``X ↦ factor · ‖x_i − z_j‖²``, with all that depends on Z alone done once.

    One product makes it: ``(x, ‖x‖², 1) · (−2z, 1, ‖z‖²)``. Both are measured from the mean of Z,
    which changes no distance and keeps the digits that a common offset would cancel.
    """
    xp = namespace(Z)
    centre = xp.mean(Z, axis=0)
    Z = Z - centre
    norms = square_norms(Z)
    right = factor * xp.concat([-2.0 * Z, xp.ones_like(norms), norms], axis=1).T
    # A product of so few terms is off by a few units in the last place; ten are on the safe side.
    rounding = 10 * float(xp.finfo(Z.dtype).eps) * abs(factor)

    def distances(X: Array) -> Array:
        X = X - centre
        own = square_norms(X)
        products = xp.concat([X, own, xp.ones_like(own)], axis=1) @ right
        if factor > 0:
            return positive_part(products)
        # Exponents that rounding lifts above zero by less than this change no similarity in the
        # digits that matter, and cutting them off takes a pass over the block.
        if rounding * (largest(own) + largest(norms)) > 1e-13:
            products = xp.clip(products, max=0.0)
        return products

    return distances


def square_of(rows: RowFunction, X: Array) -> Array:
    """The n×n matrix whose rows a function makes of those of X, block by block."""
    values = empty_beside((X.shape[0], X.shape[0]), X)

    def work(block: slice) -> None:
        values[block, :] = rows(X[block, :])

    with one_blas_thread:
        map_row_blocks(work, X, width=X.shape[0])
    return values


def square_norms(X: Array) -> Array:  # ‖x_i‖², of shape (n, 1)
    return namespace(X).sum(X * X, axis=1, keepdims=True)
