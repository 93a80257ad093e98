"""The leading eigenpairs of a centred kernel matrix: by iteration, of many rows few components.

The matrix is ``W^½ H K Hᵀ W^½`` with ``H = I − 1 wᵀ`` and W = diag(w). It is never formed: both
methods see it through its products with vectors, each of which centres the vector, multiplies it
by K and centres the result.
"""

from __future__ import annotations

import warnings
from contextlib import suppress

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from sklearn.exceptions import ConvergenceWarning

from lpfuse._arrays.linalg import block_width, eigh_largest, eigh_leading, symmetric_times
from lpfuse._arrays.operations import Array, Host, beside, is_numpy, namespace

# Chosen by hand.
RESTARTS = 20  # past them the eigenvalues lie too close together for an iteration
DECOMPOSE_UP_TO = 20_000  # rows on a device whose full decomposition is worth the wait
# With ten components of 1,000 rows the iteration takes a fifteenth of the time of scikit-learn's
# full decomposition, of 5,000 rows a thirty-sixth (docs/benchmarks/detectors.md).
ITERATE_FROM = 1000  # rows from which an iteration beats the full decomposition, ...
FEW = 0.025  # ... where no more than this share of the components is wanted


def leading(K: Array, w: Array, means: Array, grand_mean: float, count: int) -> tuple[Host, Array]:
    """The largest eigenvalues, in falling order, and their vectors; all of them where cheaper."""
    n = K.shape[0]
    iterate = n >= ITERATE_FROM and count <= FEW * n
    found = iterated(K, w, count) if iterate else None
    if found is not None:
        return found
    roots = namespace(K).sqrt(w)
    centred = roots[:, None] * (K - means[:, None] - means[None, :] + grand_mean) * roots[None, :]
    return eigh_largest(centred, count, coincide=iterate)


def iterated(K: Array, w: Array, count: int) -> tuple[Host, Array] | None:
    """The largest eigenvalues, in falling order, and their vectors.

    Parameters
    ----------
    K : array of shape (n, n)
        The kernel matrix.
    w : array of shape (n,)
        Weights of the rows, which sum to one.
    count : int
        How many.

    Returns
    -------
    tuple of arrays, or None
        None where eigenvalues nearly coincide: a full decomposition tells them apart.
    """
    return by_arpack(K, w, count) if is_numpy(K) else by_blocks(K, w, count)


def by_arpack(K: Host, w: Host, count: int, restarts: int = RESTARTS) -> tuple[Host, Host] | None:
    """By ARPACK, which sees the centred matrix through its products with vectors only.

    None where eigenvalues nearly coincide.
    """
    roots = np.sqrt(w)

    def product(vector: Host) -> Host:
        v = roots * vector.reshape(-1)
        v = symmetric_times(K, v - w * np.sum(v))
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
    """By products with several vectors at a time, where the matrix lives.

    None where eigenvalues nearly coincide, unless there are too many rows to do better.
    """
    n, width = K.shape[0], block_width(count)
    if 2 * width > n:
        return None
    xp = namespace(K)
    share, roots = w[:, None], xp.sqrt(w)[:, None]

    def times(columns: Array) -> Array:
        v = roots * columns
        v = K @ (v - share * xp.sum(v, axis=0))
        return roots * (v - w @ v)

    start = np.random.default_rng(0).uniform(-1, 1, (n, width))
    found = eigh_leading(times, beside(start, K), count, restarts)
    if not found.settled:
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
