"""The paper's four learners with every setting of their grids, and the choice among these."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse.detectors import (
    SVDD,
    GMMDetector,
    KernelPCADetector,
    OneClassGP,
    fit_together,
    gamma_from_sigma,
    score_together,
)
from research.common.protocol import Protocol, TrainingData, area

LEARNERS = ("GMM", "SVDD", "GP", "KPCA")  # in the order of the paper's table


@dataclass(frozen=True)
class Candidate:
    """A learner with one setting of its grid."""

    learner: str
    settings: dict[str, float]
    detector: Any


@dataclass(frozen=True, eq=False)
class Tables:
    """Scores of some learners, high = normal, for those who fuse them.

    Attributes
    ----------
    names : sequence of str
        The learners.
    normals : ndarray of shape (n, R)
        Scores of the training normals.
    labelled : ndarray of shape (m, R)
        Scores of the anomalies that teach the weights.
    validation : ndarray of shape (v, R)
        Scores of the validation rows.
    score : callable
        Any other rows → their scores, of shape (n, R).
    settings : dict
        What was chosen for each learner.
    """

    names: Sequence[str]
    normals: Host
    labelled: Host
    validation: Host
    score: Callable[[Host], Host]
    settings: dict[str, Any]


def candidates(protocol: Protocol, n: int, seed: int) -> list[Candidate]:
    """The grid for n training rows. Where candidates are equally good, the first is taken.

    Hence the widest kernels and the fewest components come first.
    """
    # Scores as in the paper: the mean of the process, the distance to the nearest component.
    mixture = GMMDetector(min(3, n), score_type="mahalanobis", random_state=seed)
    grid = [Candidate("GMM", {}, mixture)]
    for sigma in sorted(protocol.widths, reverse=True):
        kernel: dict[str, Any] = {"gamma": gamma_from_sigma(sigma), "approximation": None}
        grid.append(Candidate("SVDD", {"sigma": sigma}, SVDD(**kernel)))
        process = OneClassGP(score_type="mean", **kernel)
        grid.append(Candidate("GP", {"sigma": sigma}, process))
        grid += [
            Candidate("KPCA", {"sigma": sigma, "q": q}, KernelPCADetector(q, **kernel))
            for q in range(2, n + 1, protocol.component_step)
        ]
    return grid


@dataclass(frozen=True, eq=False)
class FittedGrid:
    """Every candidate fitted on the training normals, with its scores of the rows known so far."""

    grid: list[Candidate]
    normals: Host  # n × candidates, of the training rows themselves

    @classmethod
    def of(cls, training: TrainingData) -> FittedGrid:
        """The grid of a split, fitted once for both settings."""
        if "fitted grid" not in training.cache:
            grid = candidates(training.protocol, len(training.normals), training.seed)
            detectors = [candidate.detector for candidate in grid]
            with warnings.catch_warnings():  # widths far from the data are part of the grid
                warnings.simplefilter("ignore", UserWarning)
                fit_together(detectors, training.normals, thresholds=False)
                training.cache["fitted grid"] = cls(
                    grid, score_together(detectors, training.normals)
                )
        found: FittedGrid = training.cache["fitted grid"]
        return found


def in_sample_tables(training: TrainingData) -> Tables:
    """The best candidate of each learner by AUC on validation, and their scores.

    As in the paper, the training normals are scored by the learners that were fitted on them.
    """
    fitted_grid = FittedGrid.of(training)
    detectors = [candidate.detector for candidate in fitted_grid.grid]
    validation = score_together(detectors, training.validation)
    areas = area(training.labels, validation)
    chosen = [_best(fitted_grid.grid, areas, learner) for learner in LEARNERS]
    fitted = [detectors[i] for i in chosen]
    labelled = training.labelled
    return Tables(
        LEARNERS,
        fitted_grid.normals[:, chosen],
        np.empty((0, len(chosen))) if training.is_pure else score_together(fitted, labelled),
        validation[:, chosen],
        partial(score_together, fitted),
        {
            f"{fitted_grid.grid[i].learner} {name}": value
            for i in chosen
            for name, value in fitted_grid.grid[i].settings.items()
        },
    )


def _best(grid: list[Candidate], areas: Host, learner: str) -> int:
    rivals = [i for i, candidate in enumerate(grid) if candidate.learner == learner]
    return max(rivals, key=lambda i: areas[i])
