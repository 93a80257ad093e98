"""The paper's four learners with every setting of their grids, and the choice among these."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lpfuse._arrays.operations import Host
from lpfuse.detectors import (
    PAPER_WIDTHS,
    SVDD,
    GMMDetector,
    KernelPCADetector,
    OneClassGP,
    fit_together,
    gamma_from_sigma,
    score_together,
)

LEARNERS = ("GMM", "SVDD", "GP", "KPCA")  # in the order of the paper's table
COMPONENTS = 3  # of the mixture, as in the paper


@dataclass(frozen=True)
class Candidate:
    """A learner with one setting of its grid.

    Attributes
    ----------
    learner : str
        One of `LEARNERS`.
    settings : dict
        The width ``sigma`` and the number ``q`` of components, where the learner has them.
    detector : Detector
        The learner, to be fitted.
    """

    learner: str
    settings: dict[str, float]
    detector: Any


def candidates(
    n: int,
    *,
    widths: Sequence[float] = PAPER_WIDTHS,
    component_step: int = 4,
    random_state: Any = None,
) -> list[Candidate]:
    """The grid for n training rows.

    Where candidates are equally good the first is taken: hence the widest kernels and the fewest
    components come first.

    Parameters
    ----------
    n : int
        Number of normal rows to learn from, at least 2.
    widths : sequence of float
        Widths σ of the Gaussian kernel ``exp(−‖x − x′‖² / 2σ²)``.
    component_step : int
        Kernel PCA has q = 2, 2 + step, 2 + 2·step, … up to n components.
    random_state : int, RandomState or None
        Seeds the mixture.

    Returns
    -------
    list of Candidate
        Of all learners.

    Examples
    --------
    >>> from lpfuse.paper import candidates
    >>> [(c.learner, c.settings) for c in candidates(10, widths=[0.5], component_step=4)]
    [('GMM', {}), ('SVDD', {'sigma': 0.5}), ('GP', {'sigma': 0.5}),
     ('KPCA', {'sigma': 0.5, 'q': 2}), ('KPCA', {'sigma': 0.5, 'q': 6}),
     ('KPCA', {'sigma': 0.5, 'q': 10})]
    """
    # Scores as in the paper: the mean of the process, the distance to the nearest component.
    mixture = GMMDetector(min(COMPONENTS, n), score_type="mahalanobis", random_state=random_state)
    grid = [Candidate("GMM", {}, mixture)]
    for sigma in sorted(widths, reverse=True):
        kernel: dict[str, Any] = {"gamma": gamma_from_sigma(sigma), "approximation": None}
        grid.append(Candidate("SVDD", {"sigma": sigma}, SVDD(**kernel)))
        process = OneClassGP(score_type="mean", **kernel)
        grid.append(Candidate("GP", {"sigma": sigma}, process))
        grid += [
            Candidate("KPCA", {"sigma": sigma, "q": q}, KernelPCADetector(q, **kernel))
            for q in range(2, n + 1, component_step)
        ]
    return grid


def fit_candidates(grid: Sequence[Candidate], X: Any) -> Host:
    """Fit every candidate to normal rows, all kernel work done once.

    Parameters
    ----------
    grid : sequence of Candidate
        From `candidates`; their detectors are fitted.
    X : array-like of shape (n, d)
        Normal rows.

    Returns
    -------
    ndarray of shape (n, candidates)
        Scores of the rows themselves, high = normal: in-sample, as in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse.paper import candidates, fit_candidates
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> fit_candidates(candidates(30, widths=[1.0], component_step=20), X).shape
    (30, 5)
    """
    detectors = [candidate.detector for candidate in grid]
    with warnings.catch_warnings():  # widths far from the data are part of the grid
        warnings.simplefilter("ignore", UserWarning)
        fit_together(detectors, X, thresholds=False)
        return score_together(detectors, X)


def best_of_each(grid: Sequence[Candidate], areas: Host) -> list[int]:
    """The place of each learner's best candidate, in the order of `LEARNERS`.

    Parameters
    ----------
    grid : sequence of Candidate
        With at least one candidate of each learner.
    areas : ndarray of shape (candidates,)
        How good each is, for instance its AUC on validation. Of equals the first is taken.

    Returns
    -------
    list of int
        One a learner.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse.paper import best_of_each, candidates
    >>> best_of_each(candidates(9, widths=[1.0]), np.array([0.7, 0.8, 0.9, 0.6, 0.6]))
    [0, 1, 2, 3]
    """

    def best(learner: str) -> int:
        rivals = [i for i, candidate in enumerate(grid) if candidate.learner == learner]
        return max(rivals, key=lambda i: areas[i])

    return [best(learner) for learner in LEARNERS]
