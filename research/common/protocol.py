"""The paper's protocol: shares and grids, what a method may learn from, and how it is judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse.detectors import PAPER_WIDTHS
from lpfuse.fusion.lp import PAPER_GRID
from lpfuse.metrics import auc_of_columns, best_g_mean

Setting = Literal["pure", "non-pure"]
SETTINGS: tuple[Setting, ...] = ("pure", "non-pure")


@dataclass(frozen=True)
class Protocol:
    """What is fixed before any data are seen.

    Attributes
    ----------
    training, validation : float
        Shares of the normal rows; the rest is for the test.
    known : float
        Share of the anomalies that validation may see; the rest is for the test.
    teaching : float
        Share of the known anomalies that teach the weights in the non-pure setting; validation
        keeps the others.
    widths : tuple of float
        Widths σ of the Gaussian kernel.
    component_step : int
        The numbers of components of kernel PCA are 2, 2 + step, 2 + 2·step, … up to the number of
        training rows; the paper's step is 4.
    rhos : tuple of float
        Candidates for ρ of the two-sided min–max normalisation.
    ps : tuple of float
        Candidates for p.
    most_rows : int or None
        At most so many normal rows, and so many anomalies, are drawn from a data set; none of the
        paper's ten has as many as 2000.
    """

    training: float = 0.7
    validation: float = 0.2
    known: float = 0.5
    teaching: float = 0.5
    widths: tuple[float, ...] = PAPER_WIDTHS
    component_step: int = 4
    rhos: tuple[float, ...] = tuple(map(float, range(1, 11)))
    ps: tuple[float, ...] = PAPER_GRID
    most_rows: int | None = 2000

    @property
    def description(self) -> dict[str, Any]:
        """All of it, for the record."""
        return asdict(self)


PAPER = Protocol()
QUICK = Protocol(component_step=40, rhos=(1.0, 5.0, 10.0), ps=(32 / 31, 8 / 7, 2.0, 100.0))


@dataclass(frozen=True, eq=False)
class TrainingData:
    """All that a method may learn from, and choose by: there is no row of the test in it.

    Attributes
    ----------
    normals : ndarray of shape (n, d)
        Normal rows that train the learners.
    labelled : ndarray of shape (m, d)
        Anomalies that teach the weights; none in the pure setting.
    validation : ndarray of shape (v, d)
        Rows that settings are chosen on.
    labels : ndarray of shape (v,)
        ±1 of the validation rows.
    protocol : Protocol
        The grids.
    seed : int
        For methods that draw at random.
    cache : dict
        Work that methods share: whatever was computed from `normals` for one setting serves
        the other.
    """

    normals: Host
    labelled: Host
    validation: Host
    labels: Host
    protocol: Protocol
    seed: int
    cache: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_pure(self) -> bool:
        """Whether no anomaly teaches the weights."""
        return len(self.labelled) == 0


class FittedMethod(NamedTuple):
    """What a method has learnt.

    Attributes
    ----------
    score : callable
        Rows of features → scores, high = normal.
    offset : float
        Scores from here on count as normal.
    choices : dict
        What was chosen on validation, for the record.
    """

    score: Callable[[Host], Host]
    offset: float
    choices: dict[str, Any] = {}


Method = Callable[[TrainingData], FittedMethod]
area = auc_of_columns  # from 0 to 1, ties counting half


def auc(normals: Host, anomalies: Host) -> float:
    """Probability, in per cent, that a normal row scores above an anomaly."""
    labels = np.repeat([1.0, -1.0], [len(normals), len(anomalies)])
    return 100 * float(area(labels, np.concatenate([normals, anomalies])))


def threshold(training: TrainingData, scores: Host) -> float:
    """The offset with the best G-mean on the validation rows, given their scores."""
    return best_g_mean(training.labels, scores)[1]
