"""lpfuse in programs that are written for river: one row at a time, high = anomaly.

`RiverFused` is a fitted detector of lpfuse as a detector of river; `RiverFusion` fuses river's own
detectors, with weights that follow labels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Host
from lpfuse._format import quote
from lpfuse._validation.params import check_count
from lpfuse.ensemble.components import Combination, default_fusion
from lpfuse.scaling import TwoSidedMinMax

try:
    from river.base import AnomalyDetector
except ImportError as error:
    raise ImportError('lpfuse.river needs an extra: pip install "lpfuse[river]"') from error

__all__ = ["RiverFused", "RiverFusion"]

_NORMAL = math.nextafter(0.5, 0.0)  # the highest score of a normal row


class _Labelled(AnomalyDetector):
    """A detector of river that is told labels where its user says so."""

    supervised: bool

    @property
    def _supervised(self) -> bool:
        """Whether river hands labels on to ``learn_one``."""
        return self.supervised


class RiverFused(_Labelled):
    r"""A fitted detector of lpfuse with the interface of river.

    .. math:: \text{score\_one}(x) = \frac12 \Big( 1 - \frac{d}{1 + |d|} \Big), \qquad
        d = \text{decision\_function}(x)

    Scores are in (0, 1), as river's metrics want them, high for anomalies, and from 0.5 on for rows
    that the detector calls anomalies: ``anomaly.ThresholdFilter(RiverFused(fused), threshold=0.5)``
    decides as ``fused.predict`` does.

    Parameters
    ----------
    detector : FusedDetector
        Fitted. A copy follows the stream, the original stays as it is.
    supervised : bool, default=False
        Whether river hands labels on: pipelines and ``evaluate.progressive_val_score`` do then.
    batch_size : int, default=20
        Rows that `learn_one` collects before the detector learns from them; 1: at once.

    Notes
    -----
    A row without a label is learnt from as a normal one, as all of river's detectors do: let
    ``anomaly.QuantileFilter`` keep alarms away, or hand on labels. What learns, and what the
    threshold promises, is told in :meth:`lpfuse.FusedDetector.partial_fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import FusedDetector
    >>> from lpfuse.river import RiverFused
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = RiverFused(FusedDetector(["gmm", "histogram"], random_state=0).fit(X))
    >>> model.score_one({"a": 0.0, "b": 0.1}) < 0.5 < model.score_one({"a": 5.0, "b": 5.0})
    True
    >>> model.learn_one({"a": 0.2, "b": -0.1})
    """

    def __init__(self, detector: Any, supervised: bool = False, batch_size: int = 20) -> None:
        self.detector = detector
        self.supervised = supervised
        self.batch_size = batch_size
        self._now: Any = None
        self._rows: list[Host] = []
        self._labels: list[int] = []

    @property
    def fused(self) -> Any:
        """The detector of lpfuse as it is now."""
        if self._now is None:
            check_is_fitted(self.detector)
            check_count("batch_size", self.batch_size)
            self._now = deepcopy(self.detector)
        return self._now

    def score_one(self, x: Mapping[Any, Any]) -> float:
        """Return how strange a row is, from 0 to 1: from 0.5 on an anomaly.

        Parameters
        ----------
        x : dict
            Features by name.

        Returns
        -------
        float
            High = anomaly.
        """
        return _strangeness(float(self.fused.decision_function(self._table([self._row(x)]))[0]))

    def learn_one(self, x: Mapping[Any, Any], y: Any = None) -> None:
        """Learn from a row: see :meth:`lpfuse.FusedDetector.partial_fit`.

        Parameters
        ----------
        x : dict
            Features by name.
        y : bool or int, optional
            True or 1 for an anomaly, False or 0 for a normal row; None: taken for normal.
        """
        label, row = _label(y), self._row(x)
        self._rows.append(row)
        self._labels.append(label)
        if len(self._rows) >= self.batch_size:
            rows, labels = self._rows, self._labels
            self._rows, self._labels = [], []  # what is refused is not offered again
            self.fused.partial_fit(self._table(rows), np.array(labels))

    def _row(self, x: Mapping[Any, Any]) -> Host:
        """Return the features in the order that the detector knows; without names, as they come."""
        names = getattr(self.fused, "feature_names_in_", None)
        if names is None:
            d = self.fused.n_features_in_
            if len(x) != d:
                raise ValueError(
                    f"A row has {len(x)} features, the detector was fitted to {d}. Pass those, in "
                    "the same order; or fit it to a data frame, and they are known by name."
                )
            return np.array(list(x.values()), dtype=np.float64)
        missing = [name for name in names if name not in x]
        if missing:
            raise ValueError(
                f"A row lacks {quote(missing)}. Pass every column that the detector was fitted to; "
                "float('nan') where a cell is missing."
            )
        return np.array([x[name] for name in names], dtype=np.float64)

    def _table(self, rows: list[Host]) -> Any:
        """Rows as the detector was fitted to: a frame where it knows names."""
        kept = self.fused.rows_
        if kept.names is None:
            return np.stack(rows)
        return type(kept)(np.stack(rows), kept.names, kept.of_polars).table()


class RiverFusion(_Labelled):
    r"""Fuse detectors of river, with weights that follow labels and cannot lose much.

    Each detector's scores are put on one scale by the normal rows so far, and summed up with
    weights: equal ones at first; with labels, those of :meth:`lpfuse.LpFusion.partial_fit`, never
    far behind the average of the detectors, nor behind the best fixed weights.

    Parameters
    ----------
    detectors : dict
        Name → detector of river, or a pipeline that ends in one. Copies of them learn.
    supervised : bool, default=True
        Whether river hands labels on; without labels weights stay near equal.
    grace_period : int, default=100
        Rows before there is a scale. Until then the score is 0.
    fusion : LpFusion, default=None
        None: as in a `FusedDetector` without a prior.

    Attributes
    ----------
    weights : dict
        The weight of each detector.

    Notes
    -----
    A row is scored by each detector before that learns from it, so scale and weights rest on
    scores of rows that were new. Rows that are labelled anomalies teach the weights, not the
    detectors.

    Examples
    --------
    >>> import random
    >>> from river import anomaly, compose, preprocessing
    >>> from lpfuse.river import RiverFusion
    >>> def scaled(detector):
    ...     return compose.Pipeline(preprocessing.MinMaxScaler(), detector)
    >>> model = RiverFusion(
    ...     {
    ...         "trees": scaled(
    ...             anomaly.HalfSpaceTrees(n_trees=5, height=4, window_size=50, seed=1)
    ...         ),
    ...         "svm": scaled(anomaly.OneClassSVM(nu=0.1)),
    ...     }
    ... )
    >>> rng = random.Random(0)
    >>> for _ in range(300):
    ...     model.learn_one({"a": rng.gauss(0, 1), "b": rng.gauss(0, 1)}, False)
    >>> model.score_one({"a": 9, "b": 9}) > model.score_one({"a": 0, "b": 0})
    True
    """

    def __init__(
        self,
        detectors: Mapping[str, Any],
        supervised: bool = True,
        grace_period: int = 100,
        fusion: Any = None,
    ) -> None:
        self.detectors = detectors
        self.supervised = supervised
        self.grace_period = grace_period
        self.fusion = fusion
        self._members: dict[str, Any] | None = None
        self._waiting: list[tuple[Host, int]] = []
        self._combination: Combination | None = None

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each detector; none before there is a scale."""
        if self._combination is None:
            return {}
        found = self._combination.fusion.weights_.tolist()
        return dict(zip(self.detectors, found, strict=True))

    def score_one(self, x: Mapping[Any, Any]) -> float:
        """Return how strange a row is, from 0 to 1; 0 while there is no scale.

        Parameters
        ----------
        x : dict
            Features by name.

        Returns
        -------
        float
            High = anomaly.
        """
        if self._combination is None:
            return 0.0
        found = float(self._combination.score_samples(self._raw(x)[None])[0])
        return 0.0 if math.isnan(found) else _strangeness(found - self._combination.fusion.offset_)

    def learn_one(self, x: Mapping[Any, Any], y: Any = None) -> None:
        """Learn from a row.

        Parameters
        ----------
        x : dict
            Features by name.
        y : bool or int, optional
            True or 1 for an anomaly, False or 0 for a normal row. Without it the detectors and the
            scale take the row for normal, and the weights learn nothing.
        """
        label, raw = _label(y), self._raw(x)
        if label > 0:
            for member in self._made().values():
                member.learn_one(x)
        if np.isnan(raw).any():
            return
        if self._combination is None:
            self._waiting.append((raw, label))
            self._begin()
            return
        scaler, fusion = self._combination.scaler, self._combination.fusion
        if label > 0:
            scaler.partial_fit(raw[None])
        if y is not None:
            fusion.partial_fit(scaler.transform(raw[None]), [label])

    def _begin(self) -> None:
        """A scale and first weights, once there are rows enough."""
        labels = np.array([label for _, label in self._waiting])
        if (labels > 0).sum() < check_count("grace_period", self.grace_period):
            return
        S = np.stack([raw for raw, _ in self._waiting])
        scaler = TwoSidedMinMax().partial_fit(S, labels)
        fusion = clone(default_fusion() if self.fusion is None else self.fusion)
        self._combination = Combination(scaler, fusion.partial_fit(scaler.transform(S), labels))
        self._waiting = []

    def _made(self) -> dict[str, Any]:
        """Copies of the detectors, made when the first row comes."""
        if self._members is None:
            if not self.detectors:
                raise ValueError("detectors is empty: name at least one detector of river.")
            self._members = {name: each.clone() for name, each in self.detectors.items()}
        return self._members

    def _raw(self, x: Mapping[Any, Any]) -> Host:
        """Scores, high = normal; NaN where a detector has none."""
        found = [-float(member.score_one(x)) for member in self._made().values()]
        return np.where(np.isfinite(found), found, np.nan)


def _strangeness(decision: float) -> float:
    """From a signed distance to the threshold, high = normal, to (0, 1), high = anomaly.

    A row at the threshold is normal; one without a decision (NaN) is an anomaly.
    """
    if math.isnan(decision):
        return 1.0
    found = 0.5 - 0.5 * decision / (1.0 + abs(decision))
    return min(found, _NORMAL) if decision >= 0.0 else max(found, 0.5)


def _label(y: Any) -> int:
    """+1 normal, −1 anomaly, of river's False and True."""
    if y is None:
        return 1
    if y not in (0, 1):  # True and False are 1 and 0
        raise ValueError(
            f"river's labels are True or 1 for an anomaly and False or 0 for a normal row, got "
            f"{quote(y)}. Map labels of lpfuse: y == -1."
        )
    return -1 if y else 1
