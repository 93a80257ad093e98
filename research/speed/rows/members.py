"""Each member of the default pool by itself, fitted once: the unit that a whole fit is told in."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone
from sklearn.utils import check_random_state

from lpfuse.adapters import as_detector
from lpfuse.ensemble.components import default_detectors
from lpfuse.ensemble.defaults import seeded_copy
from research.studies.tables.splits import Training

from .data import Rows


def drawn(rows: Rows) -> Training:
    """The rows that a method learns from, as the page of tables hands them out."""
    return Training(rows.normal(), rows.anomalies(), vouched=True)


class Alone:
    """A member of the pool, and the rows that it learns from.

    An expert learns from all rows and their labels, and sees the features only: what a
    `FusedDetector` shows it beside them, the fused score of the others, costs the others' work.
    """

    def __init__(self, member: Any, training: Training) -> None:
        self.member = member
        self.is_expert = bool(getattr(member, "learns_from_anomalies", False))
        self.given = (training.X, training.y) if self.is_expert else (training.rows,)

    def fit(self) -> Any:
        """A fitted copy."""
        return clone(self.member).fit(*self.given)


def default_members(training: Training, seed: int) -> dict[str, Alone]:
    """The default pool for so many rows and labels, by name."""
    random = check_random_state(seed)
    return {
        name: Alone(as_detector(seeded_copy(without_refits(estimator), random)), training)
        for name, estimator in default_detectors(len(training.rows), len(training.anomalies))
    }


def without_refits(estimator: Any) -> Any:
    """A copy that is fitted once: a threshold of its own would take refits without some rows."""
    names = [name for name in estimator.get_params() if name.endswith("offset_from")]
    return clone(estimator).set_params(**dict.fromkeys(names, "training"))
