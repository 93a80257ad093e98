"""The paper's four learners with every setting of its grids, fitted on one table of frames.

SVDD, Gaussian process (its mean) and kernel PCA have widths σ of 0.01, 0.1, 0.5, 1 and 10; kernel
PCA has q of 2, 6, 10, … up to the number n of training frames; a mixture of three Gaussians with
full covariances is scored by the least Mahalanobis distance. Whatever the paper does not name
(SVDD's ν, the noise of the process, what is added to covariances) has the library's default.

The paper does not say how kernels of its 366,000 training frames were held: their matrix has a
terabyte. Up to 2,000 frames are taken exactly here; beyond, 500 landmarks stand for them (Nyström),
and q ends there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse.detectors import (
    PAPER_WIDTHS,
    SVDD,
    GMMDetector,
    KernelPCADetector,
    OneClassGP,
    fit_together,
    gamma_from_sigma,
)

COMPONENTS = 3  # of the mixture
EXACT_ROWS = 2_000  # by hand: five full decompositions take a minute or two
LANDMARKS = 500  # the default of the kernel learners


def component_grid(n: int) -> range:
    """Return the numbers q of kernel principal components for n training frames.

    2, 6, 10, … up to n.

    Examples
    --------
    >>> from lpfuse_faces.evaluation._paper_grid import component_grid
    >>> list(component_grid(13))
    [2, 6, 10]
    """
    return range(2, n + 1, 4)


@dataclass(frozen=True, eq=False)
class FittedLearner:
    """A fitted learner, and the settings of the grid that it gives scores for.

    Attributes
    ----------
    name : str
        "svdd", "gp", "kpca" or "gmm".
    detector : detector
        Fitted.
    settings : list of dict
        One for each column of `scores`.
    """

    name: str
    detector: Any
    settings: list[dict[str, float]]

    def scores(self, X: Host, columns: Sequence[int] | None = None) -> Host:
        """Scores of frames, a column for each setting, or for those at some positions."""
        if self.name != "kpca":
            found: Host = self.detector.score_samples(X)[:, None]
            return found
        chosen = range(len(self.settings)) if columns is None else columns
        # Components without variance are left out: more than there are is all of them.
        most = self.detector.n_components_
        path: Host = self.detector.score_path(
            X, [min(int(self.settings[i]["q"]), most) for i in chosen]
        )
        return path


def fitted_grid(learners: Sequence[str], X: Host, seed: int) -> Iterator[list[FittedLearner]]:
    """Yield every setting of the paper's grids, fitted on standardised genuine frames.

    One width of the kernel after the other, the widest first, then the mixture: of settings that
    are equally good the first one, and the fewest components, can then be kept.

    Parameters
    ----------
    learners : sequence of str
        Of "svdd", "gp", "kpca" and "gmm".
    X : ndarray of shape (n, d)
        Frames.
    seed : int
        Of the mixture's start and of the landmarks.
    """
    for sigma in sorted(PAPER_WIDTHS, reverse=True) if _kernels(learners) else ():
        detectors = {
            name: _kernel_learner(name, sigma, len(X), seed) for name in _kernels(learners)
        }
        fit_together(list(detectors.values()), X, thresholds=False)
        yield [
            FittedLearner(name, each, _settings(name, sigma, each))
            for name, each in detectors.items()
        ]
    if "gmm" in learners:
        mixture = GMMDetector(
            COMPONENTS, score_type="mahalanobis", covariance_type="full", random_state=seed
        )
        wide = X.shape[1] > len(X)
        fitted = (
            WideMixture(mixture).fit(X) if wide else fit_together([mixture], X, thresholds=False)[0]
        )
        yield [FittedLearner("gmm", fitted, [{}])]


class WideMixture:
    r"""A mixture with full covariances of fewer rows than columns, in the space of the rows.

    The n rows span n − 1 dimensions around their mean. Outside of these each covariance is the
    regularisation λ times the identity, so that a rotation onto them changes nothing:

    .. math:: d_k(x)^2 = d_k(B^\top z)^2 + (\|z\|^2 - \|B^\top z\|^2) / \lambda,
              \qquad z = x - \bar x,

    with the orthonormal basis B. With 200 frames of 4,096 columns a covariance has 199 columns.

    Parameters
    ----------
    mixture : GMMDetector
        With ``score_type="mahalanobis"`` and full covariances.
    """

    def __init__(self, mixture: GMMDetector) -> None:
        self.mixture = mixture

    def fit(self, X: Host) -> Self:
        """Find the space of the rows, and fit the mixture in it."""
        self.mean_ = X.mean(axis=0)
        _, sizes, directions = np.linalg.svd(X - self.mean_, full_matrices=False)
        resolution = max(X.shape) * np.finfo(X.dtype).eps * sizes[0]
        self.basis_ = directions[: max(1, int((sizes > resolution).sum()))].T
        fit_together([self.mixture], (X - self.mean_) @ self.basis_, thresholds=False)
        return self

    def score_samples(self, X: Host) -> Host:
        """Return minus the least Mahalanobis distance to a component."""
        centred = X - self.mean_
        inside = centred @ self.basis_
        outside = np.square(centred).sum(axis=1) - np.square(inside).sum(axis=1)
        found = self.mixture.score_samples(inside)
        total: Host = found**2 + np.maximum(outside, 0.0) / self.mixture.reg_covar
        return -np.sqrt(total)


def n_fits(learners: Sequence[str]) -> int:
    """Return how many steps `fitted_grid` takes."""
    return len(PAPER_WIDTHS) * bool(_kernels(learners)) + ("gmm" in learners)


def grid_size(learners: Sequence[str], n: int) -> int:
    """Return how many settings there are for n training frames, of all learners together.

    Examples
    --------
    >>> from lpfuse_faces.evaluation._paper_grid import grid_size
    >>> grid_size(["svdd", "gp", "kpca", "gmm"], 13)  # 5 widths × (1 + 1 + 3 numbers q) + 1
    26
    """
    each = {"kpca": len(component_grid(_most_components(n)))}
    return len(PAPER_WIDTHS) * sum(each.get(name, 1) for name in _kernels(learners)) + (
        "gmm" in learners
    )


def _most_components(n: int) -> int:
    return n if n <= EXACT_ROWS else LANDMARKS


def _kernels(learners: Sequence[str]) -> list[str]:
    return [name for name in learners if name != "gmm"]


def _kernel_learner(name: str, sigma: float, n: int, seed: int) -> Any:
    kernel: dict[str, Any] = {
        "gamma": gamma_from_sigma(sigma),
        "approximation": None if n <= EXACT_ROWS else "nystroem",
        "random_state": seed,
    }
    if name == "svdd":
        return SVDD(n_components=LANDMARKS, **kernel)
    if name == "gp":
        return OneClassGP("mean", n_components=LANDMARKS, **kernel)
    q = component_grid(_most_components(n))[-1]  # its decomposition serves all smaller ones
    return KernelPCADetector(q, n_approximation=LANDMARKS, **kernel)


def _settings(name: str, sigma: float, detector: Any) -> list[dict[str, float]]:
    if name != "kpca":
        return [{"sigma": sigma}]
    # From the first q that takes all components there are, scores no longer change.
    grid, there = component_grid(detector.n_components), detector.n_components_
    return [{"sigma": sigma, "q": q} for q in grid if q - 4 < there]
