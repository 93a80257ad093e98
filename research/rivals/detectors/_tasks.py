"""What is asked of the rivals: one dataclass for each kind of race."""

from __future__ import annotations

from dataclasses import dataclass

from lpfuse.detectors import PAPER_WIDTHS

PAPER_COMPONENTS = tuple(range(2, 51, 4))


@dataclass(frozen=True)
class SVDDTask:
    """One ball: the same ν, γ and libsvm tolerance for everyone."""

    nu: float
    gamma: float
    tol: float = 1e-3


@dataclass(frozen=True)
class KPCATask:
    """q components of one Gaussian kernel, and reconstruction errors."""

    q: int
    gamma: float


@dataclass(frozen=True)
class GridTask:
    """The paper's: for each width one SVDD, one Gaussian process and kernel PCA for every q."""

    widths: tuple[float, ...] = PAPER_WIDTHS
    components: tuple[int, ...] = PAPER_COMPONENTS
    nu: float = 0.1
    noise: float = 0.01
    tol: float = 1e-3

    def members(self) -> list[Member]:
        """One a learner, in the order of the columns of scores."""
        return [
            member
            for width in self.widths
            for gamma in [1 / (2 * width**2)]
            for member in [
                Member("svdd", gamma),
                Member("gp", gamma),
                *(Member("kpca", gamma, q) for q in self.components),
            ]
        ]


@dataclass(frozen=True)
class Member:
    """One learner of the grid."""

    learner: str
    gamma: float
    q: int = 0
