"""Every way in which rows are split, by name.

- `split`: under a protocol; training, validation and test, anomalies known and sought.
- `study_split`: of a development set; training and test, anomalies for the study to divide.

One recipe for all: one generator shuffles the normal rows, then the anomalies; gaps are filled with
medians of the training rows, which decide the scale, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lpfuse._arrays.operations import Host
from lpfuse.metrics import g_mean
from research.common.protocol import FittedMethod, Protocol, Setting, TrainingData, auc

STUDY_SHARE = 0.7  # of the normal rows of a development set that train: the paper's share
FARTHEST = 10.0  # standard deviations; what lies beyond is pulled in


def shuffled(
    is_anomaly: NDArray[Any], seed: int | np.random.Generator
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Numbers of the normal rows and of the anomalies, each in random order."""
    rng = np.random.default_rng(seed)  # a generator goes on from where it is
    normals = rng.permutation(np.flatnonzero(~is_anomaly))
    return normals, rng.permutation(np.flatnonzero(is_anomaly))


def standardised(X: Host, train: NDArray[Any], *others: NDArray[Any]) -> list[Host]:
    """Features of the training rows and of other rows, without gaps, as z-scores of the former."""
    prepare = make_pipeline(
        SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler()
    ).fit(X[train])
    return [
        prepare.transform(X[rows]) if len(rows) else np.empty((0, X.shape[1]))
        for rows in (train, *others)
    ]


def clipped_z_scores(X: Host, train: NDArray[Any], *others: NDArray[Any]) -> list[Host]:
    """Features of the training rows and of other rows, as z-scores of the former, at most 10 off.

    Of sets without gaps: the scale of the protocols that the goals on tables are told in.
    """
    scaler = StandardScaler().fit(X[train])
    return [np.clip(scaler.transform(X[r]), -FARTHEST, FARTHEST) for r in (train, *others)]


class StudySplit(NamedTuple):
    """Standardised features: parts that share no row of the set."""

    train: Host  # normal
    test: Host  # normal
    anomalies: Host  # in random order

    @property
    def tested(self) -> Host:
        """The normal rows of the test, then all anomalies."""
        return np.concatenate([self.test, self.anomalies])

    def auc(self, scores: Host) -> float:
        """AUC, in per cent, from scores of the `tested` rows."""
        return auc(scores[: len(self.test)], scores[len(self.test) :])


def study_split(
    X: Host,
    is_anomaly: NDArray[Any],
    seed: int,
    *,
    most_train: int,
    most_test: int,
    most_anomalies: int | None = None,
) -> StudySplit:
    """Normal rows 70/30 for training and test, and anomalies; at most so many of each.

    Examples
    --------
    >>> import numpy as np
    >>> from research.common.splits import study_split
    >>> X, is_anomaly = np.random.default_rng(0).normal(size=(120, 2)), np.arange(120) >= 100
    >>> parts = study_split(X, is_anomaly, 0, most_train=60, most_test=99)
    >>> [len(rows) for rows in parts]
    [60, 30, 20]
    """
    normals, anomalies = shuffled(is_anomaly, seed)
    cut = int(STUDY_SHARE * len(normals))
    train, test = normals[:cut][:most_train], normals[cut:][:most_test]
    return StudySplit(*standardised(X, train, test, anomalies[:most_anomalies]))


@dataclass(frozen=True, eq=False)
class Split:
    """A random division of a data set; features are z-scores by the training normals.

    Attributes
    ----------
    train, held_out, test : ndarray
        Normal rows for training, validation, test.
    known, sought : ndarray
        Anomalies for validation, of which the first may teach, and for the test.
    """

    train: Host
    held_out: Host
    test: Host
    known: Host
    sought: Host
    protocol: Protocol
    seed: int
    cache: dict[str, Any] = field(default_factory=dict, repr=False)

    def training(self, setting: Setting) -> TrainingData:
        """What methods are given: everything but the test."""
        teachers = round(self.protocol.teaching * len(self.known)) if setting == "non-pure" else 0
        labelled, kept = self.known[:teachers], self.known[teachers:]
        labels = np.repeat([1.0, -1.0], [len(self.held_out), len(kept)])
        rows = np.concatenate([self.held_out, kept])
        return TrainingData(
            self.train, labelled, rows, labels, self.protocol, self.seed, self.cache
        )

    def judge(self, fitted: FittedMethod) -> dict[str, float]:
        """AUC and G-mean on the test, in per cent."""
        rows = np.concatenate([self.test, self.sought])
        labels = np.repeat([1.0, -1.0], [len(self.test), len(self.sought)])
        scores = fitted.score(rows)
        decisions = np.where(scores >= fitted.offset, 1.0, -1.0)
        return {
            "auc": auc(*np.split(scores, [len(self.test)])),
            "g_mean": 100 * g_mean(labels, decisions),
        }


def split(X: Host, y: NDArray[Any], protocol: Protocol, seed: int) -> Split:
    """Divide a data set at random; fill gaps with medians and standardise by training normals.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Features; NaN = missing.
    y : ndarray of shape (n,)
        +1 normal, −1 anomaly.
    protocol : Protocol
        The shares.
    seed : int
        One seed, one division.

    Returns
    -------
    Split
        Five parts that share no row.

    Examples
    --------
    >>> import numpy as np
    >>> from research.common.protocol import PAPER
    >>> from research.common.splits import split
    >>> X, y = np.random.default_rng(0).normal(size=(150, 2)), np.repeat([1, -1], [100, 50])
    >>> parts = split(X, y, PAPER, seed=0)
    >>> [len(rows) for rows in (parts.train, parts.held_out, parts.test, parts.known, parts.sought)]
    [70, 20, 10, 25, 25]
    >>> training = parts.training("non-pure")
    >>> len(training.labelled), (training.labels < 0).sum()
    (12, np.int64(13))
    """
    normals, anomalies = (rows[: protocol.most_rows] for rows in shuffled(y < 0, seed))
    shares = np.cumsum([protocol.training, protocol.validation])
    train, held_out, test = np.split(normals, np.round(shares * len(normals)).astype(int))
    known, sought = np.split(anomalies, [round(protocol.known * len(anomalies))])
    z_train, z_held_out, z_test, z_known, z_sought = standardised(
        X, train, held_out, test, known, sought
    )
    return Split(z_train, z_held_out, z_test, z_known, z_sought, protocol, seed)
