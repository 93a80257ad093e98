"""Detectors with the interface of river: one row at a time, high = anomaly.

`RiverFused` wraps a fitted detector of lpfuse; `RiverFusion` fuses detectors of river with weights
fitted to a sliding window.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Host
from lpfuse._format import quote
from lpfuse._validation.params import check_count
from lpfuse.ensemble.components import default_fusion
from lpfuse.frames.cells import polars_module
from lpfuse.scaling import TwoSidedMinMax
from lpfuse.threshold import calibration_promise

try:
    from river.base import AnomalyDetector
except ImportError as error:
    raise ImportError('lpfuse.river needs an extra: pip install "lpfuse[river]"') from error

__all__ = ["RiverFused", "RiverFusion"]

NEGLIGIBLE = 1e-6  # smaller weights are zero, as in the warning of `LpFusion`
_NORMAL = math.nextafter(0.5, 0.0)  # the highest score of a normal row


class _OptionallySupervised(AnomalyDetector):
    """Base of detectors that use labels if `supervised`."""

    supervised: bool

    @property
    def _supervised(self) -> bool:
        """Whether river passes labels to ``learn_one``."""
        return self.supervised


class RiverFused(_OptionallySupervised):
    r"""A fitted detector of lpfuse with the interface of river.

    .. math:: \text{score\_one}(x) = \frac12 \Big( 1 - \frac{d}{1 + |d|} \Big), \qquad
        d = \text{decision\_function}(x)

    Scores are in (0, 1), as river's metrics require, high for anomalies, and at least 0.5 for rows
    that the detector flags: ``anomaly.ThresholdFilter(RiverFused(fused), threshold=0.5)``
    decides as ``fused.predict`` does.

    Parameters
    ----------
    detector : FusedDetector
        Fitted. A copy is recalibrated, the original is unchanged.
    supervised : bool, default=False
        Whether pipelines and ``evaluate.progressive_val_score`` pass labels.
    batch_size : int, default=100
        Normal rows between two recalibrations.
    window_size : int, default=1000
        Number of most recent normal rows that the threshold is recalibrated on.

    Notes
    -----
    `learn_one` recalibrates the threshold on the window, with
    :meth:`lpfuse.FusedDetector.recalibrate`, once it has enough rows for the false-alarm rate (19
    for 5 %). Detectors and weights do not change, and rows labelled as anomalies are ignored. Rows
    without a label count as normal, as in all detectors of river: exclude alarms with
    ``anomaly.QuantileFilter``, or pass labels.

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

    def __init__(
        self,
        detector: Any,
        supervised: bool = False,
        batch_size: int = 100,
        window_size: int = 1000,
    ) -> None:
        self.detector = detector
        self.supervised = supervised
        self.batch_size = batch_size
        self.window_size = window_size
        self._fused: Any = None
        self._normal: deque[Host] = deque()
        self._n_since_fit = 0

    @property
    def fused(self) -> Any:
        """The current detector of lpfuse."""
        if self._fused is None:
            check_is_fitted(self.detector)
            check_count("batch_size", self.batch_size)
            self._normal = deque(maxlen=check_count("window_size", self.window_size))
            self._fused = deepcopy(self.detector)
        return self._fused

    def score_one(self, x: Mapping[Any, Any]) -> float:
        """Return the anomaly score of a row in (0, 1); anomalies have at least 0.5.

        Parameters
        ----------
        x : dict
            Features by name.

        Returns
        -------
        float
            High = anomaly.
        """
        return _anomaly_score(float(self.fused.decision_function(self._table([self._row(x)]))[0]))

    def learn_one(self, x: Mapping[Any, Any], y: Any = None) -> None:
        """Add a row to the window, and recalibrate every `batch_size` normal rows.

        Parameters
        ----------
        x : dict
            Features by name.
        y : bool or int, optional
            True or 1 for an anomaly, False or 0 for a normal row; None counts as normal.
        """
        label, row, fused = _label(y), self._row(x), self.fused
        if label < 0:
            return
        self._normal.append(row)
        self._n_since_fit += 1
        promise = calibration_promise(len(self._normal), fused.false_alarm_rate, fused.confidence)
        if self._n_since_fit >= self.batch_size and promise.k > 0:
            self._n_since_fit = 0
            fused.recalibrate(self._table(list(self._normal)))

    def _row(self, x: Mapping[Any, Any]) -> Any:
        """Return the features in the order of the fit; in the given order if it had no names."""
        names, made = getattr(self.fused, "feature_names_in_", None), self.fused.preparation_
        if names is None:
            d = self.fused.n_features_in_
            if len(x) != d:
                raise ValueError(
                    f"A row has {len(x)} features, the detector was fitted to {d}. Pass the same "
                    "features in the same order, or fit the detector to a data frame."
                )
            return np.array(list(x.values()), dtype=np.float64)
        missing = [name for name in (names if made is None else made.columns) if name not in x]
        if missing:
            raise ValueError(
                f"A row lacks {quote(missing)}. Pass every column that the detector was fitted to, "
                "with float('nan') for missing values."
            )
        if made is not None:
            return {name: x[name] for name in made.names if name in x}
        return np.array([x[name] for name in names], dtype=np.float64)

    def _table(self, rows: list[Any]) -> Any:
        """Return rows as a table; a data frame if the detector was fitted to one."""
        if isinstance(rows[0], dict):
            return polars_module().DataFrame(rows, infer_schema_length=None)
        kept = self.fused.rows_
        if kept.names is None:
            return np.stack(rows)
        return type(kept)(np.stack(rows), kept.names, kept.of_polars).table()


class RiverFusion(_OptionallySupervised):
    r"""Fuse detectors of river with weights fitted to a sliding window.

    The window holds scores and labels. Every `refit_every` rows the scale of each detector and the
    weights w are fitted to it, by :class:`lpfuse.TwoSidedMinMax` and :class:`lpfuse.LpFusion`. The
    score of a row is the weighted mean of its scaled scores,

    .. math:: m = \frac{\sum_j w_j s'_j}{\sum_j |w_j|}, \qquad
        \text{score\_one} = \frac12 \Big( 1 - \frac{m}{1 + |m|} \Big)

    without the intercept of the fusion, which depends on the share of anomalies in the window: with
    it, scores would repeat the last labels.

    Parameters
    ----------
    detectors : dict
        Name → detector of river, or a pipeline that ends in one. Copies are trained.
    supervised : bool, default=True
        Whether river passes labels; without labels weights stay near uniform.
    grace_period : int, default=100
        Number of normal rows before the first fit. Until then the score is 0.
    fusion : LpFusion, default=None
        None: as in a `FusedDetector` without a prior.
    window_size : int, default=1000
        Number of most recent rows that scale and weights are fitted to.
    refit_every : int, default=50
        Rows between two fits.

    Attributes
    ----------
    weights : dict
        The weight of each detector.

    Notes
    -----
    Each detector scores a row before learning from it, so scale and weights are fitted to
    out-of-sample scores. Rows labelled as anomalies are used for the weights, not for the
    detectors. On ten drifting streams window weights had a mean loss of 0.129 a labelled row,
    mixtures with a regret bound 0.130 (``docs/adr/0043``).

    A score of 0.5 is not a threshold: set one with ``anomaly.QuantileFilter``.

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
        window_size: int = 1000,
        refit_every: int = 50,
    ) -> None:
        self.detectors = detectors
        self.supervised = supervised
        self.grace_period = grace_period
        self.fusion = fusion
        self.window_size = window_size
        self.refit_every = refit_every
        self._members: dict[str, Any] = {}
        self._window: deque[tuple[Host, int]] = deque()
        self._n_since_fit = 0
        self._scaler: TwoSidedMinMax | None = None
        self._weights: Host = np.empty(0)

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each detector; none before the first fit."""
        return dict(zip(self.detectors, self._weights.tolist(), strict=False))

    def score_one(self, x: Mapping[Any, Any]) -> float:
        """Return the anomaly score of a row in (0, 1); 0 before the first fit.

        Parameters
        ----------
        x : dict
            Features by name.

        Returns
        -------
        float
            High = anomaly. The mean ignores detectors without a score for this row.
        """
        if self._scaler is None:
            return 0.0
        raw = self._detector_scores(x)
        known = ~np.isnan(raw)
        weights = np.where(known, self._weights, 0.0)
        if not weights.any():
            return 0.0
        scaled = self._scaler.transform(np.where(known, raw, 0.0)[None])[0]
        return _anomaly_score(float(weights @ scaled / np.abs(weights).sum()))

    def learn_one(self, x: Mapping[Any, Any], y: Any = None) -> None:
        """Learn from a row.

        Parameters
        ----------
        x : dict
            Features by name.
        y : bool or int, optional
            True or 1 for an anomaly, False or 0 for a normal row; None counts as normal.
        """
        label, raw = _label(y), self._detector_scores(x)
        if label > 0:
            for member in self._members.values():
                member.learn_one(x)
        if np.isnan(raw).any():
            return
        self._window.append((raw, label))
        self._n_since_fit += 1
        if self._scaler is None or self._n_since_fit >= self.refit_every:
            self._refit()

    def _refit(self) -> None:
        """Fit scale and weights to the window, if it has enough normal rows."""
        y = np.array([label for _, label in self._window])
        if (y > 0).sum() < self.grace_period:
            return
        S = np.stack([raw for raw, _ in self._window])
        self._scaler = TwoSidedMinMax().fit(S, y)
        fusion = clone(default_fusion() if self.fusion is None else self.fusion)
        fusion.fit(self._scaler.transform(S), y if (y < 0).any() else None)
        # If no detector helps, the best weights are zero up to rounding: use uniform weights.
        helps = np.abs(fusion.weights_).max() >= NEGLIGIBLE
        self._weights = fusion.weights_ if helps else np.ones(S.shape[1])
        self._n_since_fit = 0

    def _initialise(self) -> None:
        """Check the parameters and copy the detectors, at the first row."""
        if not self.detectors:
            raise ValueError("detectors is empty: name at least one detector of river.")
        check_count("grace_period", self.grace_period)
        check_count("refit_every", self.refit_every)
        if check_count("window_size", self.window_size) < self.grace_period:
            raise ValueError(
                f"window_size={self.window_size} is below grace_period={self.grace_period}, so "
                "the first fit would never happen. Raise window_size."
            )
        self._window = deque(maxlen=self.window_size)
        self._members = {name: each.clone() for name, each in self.detectors.items()}

    def _detector_scores(self, x: Mapping[Any, Any]) -> Host:
        """Return scores, high = normal; NaN if a detector has none."""
        if not self._members:
            self._initialise()
        found = [-float(member.score_one(x)) for member in self._members.values()]
        return np.where(np.isfinite(found), found, np.nan)


def _anomaly_score(decision: float) -> float:
    """Map a signed distance to the threshold, high = normal, to (0, 1), high = anomaly.

    A row at the threshold is normal; one without a decision (NaN) is an anomaly.
    """
    if math.isnan(decision):
        return 1.0
    found = 0.5 - 0.5 * decision / (1.0 + abs(decision))
    return min(found, _NORMAL) if decision >= 0.0 else max(found, 0.5)


def _label(y: Any) -> int:
    """Convert river's False and True to +1 (normal) and −1 (anomaly)."""
    if y is None:
        return 1
    if y not in (0, 1):  # True and False are 1 and 0
        raise ValueError(
            f"river's labels are True or 1 for an anomaly and False or 0 for a normal row, got "
            f"{quote(y)}. Map labels of lpfuse: y == -1."
        )
    return -1 if y else 1
