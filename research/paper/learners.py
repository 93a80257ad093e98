"""The scores of the paper's four learners on a split; `lpfuse.paper` has grids and choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lpfuse import paper
from lpfuse._arrays.operations import Host
from lpfuse.detectors import score_together
from lpfuse.paper import LEARNERS, Candidate, best_per_learner, fit_candidates
from research.common.protocol import Protocol, TrainingData, area

__all__ = ["LEARNERS", "Candidate", "FittedGrid", "Tables", "candidates", "in_sample_tables"]


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
    """The grid of a protocol for n training rows."""
    return paper.candidates(
        n, widths=protocol.widths, component_step=protocol.component_step, random_state=seed
    )


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
            training.cache["fitted grid"] = cls(grid, fit_candidates(grid, training.normals))
        found: FittedGrid = training.cache["fitted grid"]
        return found


def in_sample_tables(training: TrainingData) -> Tables:
    """The best candidate of each learner by AUC on validation, and their scores.

    As in the paper, the training normals are scored by the learners that were fitted on them.
    """
    fitted_grid = FittedGrid.of(training)
    detectors = [candidate.detector for candidate in fitted_grid.grid]
    validation = score_together(detectors, training.validation)
    chosen = best_per_learner(fitted_grid.grid, area(training.labels, validation))
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
