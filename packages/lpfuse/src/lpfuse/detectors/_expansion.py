"""What every kernel learner becomes once fitted: ``B(x) · coefficients``, evaluated in blocks.

``B(x)`` is a row of basis functions: similarities to training rows (exact), to landmarks (Nyström),
or waves (random Fourier features). So all learners score in one way, whatever they learnt from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from lpfuse._arrays import Array, beside, concatenate, map_row_blocks, namespace, one_blas_thread
from lpfuse._arrays.linalg import times_few_columns
from lpfuse._saved import saved_as
from lpfuse.detectors._kernels import Kernel, Rows


class Basis(Protocol):
    """Basis functions, and the kernel that they stand for."""

    @property
    def kernel(self) -> Kernel:
        """The kernel."""

    @property
    def width(self) -> int:
        """Number of basis functions."""

    def rows(self, X: Array) -> Rows:
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

    def rows(self, X: Array) -> Rows:
        """The function that maps rows, of the library of X, to their similarities."""
        return self.kernel.against(beside(self.anchors, X))


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

    def rows(self, X: Array) -> Rows:
        """The function that maps rows, of the library of X, to the values of their waves."""
        xp = namespace(X)
        frequencies = beside(self.frequencies, X)
        scale = frequencies.shape[1] ** -0.5

        def waves(block: Array) -> Array:
            phases = block @ frequencies
            return scale * xp.concat([xp.cos(phases), xp.sin(phases)], axis=1)

        return waves


@saved_as("Expansion")
@dataclass(frozen=True)
class Expansion:
    """``B(x) · coefficients``: one column for each function of x that a learner needs.

    It may need the first columns only, of coefficients that it shares with others.
    """

    basis: Basis
    coefficients: Array  # (width, columns or more)
    columns: int

    def map(self, X: Array, finish: Callable[[Array, Array], Array]) -> Array:
        """``finish(k(x, x), B(x) · coefficients)`` of all rows, in blocks of bounded size."""
        rows, kernel = self.basis.rows(X), self.basis.kernel
        coefficients = beside(self.coefficients[:, : self.columns], X)

        def work(block: slice) -> Array:
            some = X[block, :]
            return finish(kernel.diagonal(some), times_few_columns(rows(some), coefficients))

        with one_blas_thread:
            return concatenate(map_row_blocks(work, X, width=self.basis.width))
