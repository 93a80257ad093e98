"""Explicit features whose inner products approximate a kernel: ``k(x, x′) ≈ φ(x)ᵀφ(x′)``.

They let a learner work with r numbers a row instead of one number for every pair of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lpfuse._arrays.linalg import eigh
from lpfuse._arrays.operations import (
    Array,
    Host,
    as_float64,
    beside,
    empty_beside,
    is_single,
    like,
    map_row_blocks,
    namespace,
    sum_row_blocks,
)
from lpfuse._arrays.threads import one_blas_thread
from lpfuse._saved import saved_as
from lpfuse.detectors._distances import RowFunction
from lpfuse.detectors._kernels import Basis, Expansion, Kernel, Similarities
from lpfuse.detectors._landmarks import centres


@saved_as("Waves")
@dataclass(frozen=True)
class Waves:
    """``B(x) = (cos xᵀω_j, sin xᵀω_j) / √m`` for m frequencies of a Gaussian kernel."""

    kernel: Kernel
    frequencies: Array  # (d, m)

    @property
    def width(self) -> int:
        """Number of waves: a cosine and a sine for each frequency."""
        return 2 * int(self.frequencies.shape[1])

    def rows(self, X: Array) -> RowFunction:
        """The function that maps rows, of the library of X, to the values of their waves."""
        xp = namespace(X)
        frequencies = beside(self.frequencies, X)
        scale = frequencies.shape[1] ** -0.5

        def waves(block: Array) -> Array:
            phases = block @ frequencies
            return scale * xp.concat([xp.cos(phases), xp.sin(phases)], axis=1)

        return waves


@saved_as("FeatureMap")
@dataclass(frozen=True)
class FeatureMap:
    """``φ(x) = B(x) · whitening``, for a basis B; no whitening: ``φ = B``."""

    basis: Basis
    whitening: Array | None  # float64

    @property
    def width(self) -> int:
        """Number of features r."""
        return self.basis.width if self.whitening is None else int(self.whitening.shape[1])

    def expansion(self, directions: Array, X: Array) -> Expansion:
        """The functions ``φ(x)ᵀ directions``, for directions (float64) of shape (r, columns)."""
        folded = directions
        if self.whitening is not None:
            folded = beside(self.whitening, directions) @ directions
        return Expansion(self.basis, beside(folded, X), int(directions.shape[1]))

    def rows(self, X: Array) -> RowFunction:
        """The function that maps rows, of the library of X, to their features."""
        basis = self.basis.rows(X)
        if self.whitening is None:
            return basis
        whitening = beside(self.whitening, X)
        return lambda block: basis(block) @ whitening

    def of(self, X: Array) -> Array:
        """The features of all rows, of shape (n, r)."""
        rows, features = self.rows(X), empty_beside((X.shape[0], self.width), X)

        def work(block: slice) -> None:
            features[block, :] = rows(X[block, :])

        with one_blas_thread:
            map_row_blocks(work, X, width=self.basis.width)
        return features

    def moments(self, X: Array, weights: Host) -> tuple[Array, Array]:
        """``Σ_i w_i φ(x_i)`` and ``Σ_i w_i φ(x_i) φ(x_i)ᵀ``: one pass, and no features stored.

        In float64, beside X. The whitening must come before the sum: after it, rounding of the
        large directions would drown the small ones, which it magnifies.
        """
        rows, factors = self.rows(X), like(weights, X)[:, None]
        xp = namespace(X)

        def work(block: slice) -> Array:
            values = as_float64(rows(X[block, :]))
            values = xp.concat([values, xp.ones_like(values[:, :1])], axis=1)
            return values.T @ (factors[block, :] * values)

        with one_blas_thread:
            second = sum_row_blocks(work, X, self.basis.width)
        return second[-1, :-1], second[:-1, :-1]


def nystroem(kernel: Kernel, X: Array, size: int, rng: np.random.RandomState) -> FeatureMap:
    """Features of Williams & Seeger (2001): exact on the span of `size` landmarks.

    With K the kernel matrix of the landmarks, ``K = U Λ Uᵀ``, the features are
    ``φ(x) = Λ^{−1/2} Uᵀ k(landmarks, x)``. Directions without any extent are left out.
    """
    landmarks = X + 0.0 if size >= X.shape[0] else centres(X, size, rng)
    values, vectors = eigh(as_float64(kernel.between(landmarks, landmarks)))
    resolution = np.finfo(np.float32 if is_single(X) else np.float64).eps
    kept = values > len(values) * resolution * max(values[-1], 0.0)
    if not kept.any():
        raise ValueError(
            f"The kernel matrix of {len(values)} rows has no positive eigenvalue, so it cannot be "
            f"approximated. Use another kernel than {kernel.name!r}, or approximation=None."
        )
    first = int(kept.argmax())  # eigenvalues come in rising order
    whitening = vectors[:, first:] / like(np.sqrt(values[first:]), vectors)
    return FeatureMap(Similarities(kernel, landmarks), whitening)


def fourier(kernel: Kernel, X: Array, size: int, rng: np.random.RandomState) -> FeatureMap:
    """Features of Rahimi & Recht (2007): waves whose frequencies are drawn as ``N(0, 2γ I)``."""
    if kernel.name != "rbf":
        raise ValueError(
            'approximation="fourier" stands for the Gaussian kernel only, got '
            f'kernel={kernel.name!r}. Use approximation="nystroem".'
        )
    frequencies = rng.normal(scale=(2 * kernel.gamma) ** 0.5, size=(X.shape[1], max(1, size // 2)))
    return FeatureMap(Waves(kernel, beside(frequencies, X)), None)
