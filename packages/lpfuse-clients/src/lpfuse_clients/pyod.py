"""lpfuse detectors with the interface of PyOD: high = anomaly, labels 0 and 1.

For detectors of PyOD inside lpfuse see :class:`lpfuse.adapters.PyODDetector`.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Host
from lpfuse._format import quote
from lpfuse.adapters import as_detector
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.defaults import seeded_copy
from lpfuse.ensemble.rows import places_in_training

try:
    from pyod.models.base import BaseDetector
except ImportError as error:
    raise ImportError('lpfuse.pyod needs an extra: pip install "lpfuse[pyod]"') from error

__all__ = ["PyODFused"]


class PyODFused(BaseDetector):
    r"""A detector of lpfuse, fused or single, with the interface of PyOD.

    .. math:: \text{decision\_function}(x) = -\text{score\_samples}(x)

    Scores are high for anomalies, labels 0 for normal rows and 1 for anomalies. ``predict``,
    ``predict_proba``, ``predict_confidence`` and ``predict_with_rejection`` are PyOD's own. It can
    be used wherever a detector of PyOD can: in ``FeatureBagging``, ``LSCP``, ``SUOD``, ``XGBOD``.

    Parameters
    ----------
    detector : detector, default=None
        Anything that :class:`~lpfuse.FusedDetector` takes as a member, or one itself; None:
        ``FusedDetector()``. A copy is fitted.
    contamination : float in (0, 0.5], default=0.1
        Share of the training rows that ``labels_`` calls anomalies.
    random_state : int, RandomState or None, default=None
        Seeds the parts of the detector without a seed of their own.

    Attributes
    ----------
    detector_ : detector
        The fitted detector of lpfuse, high = normal: ``detector_.weights_``,
        ``detector_.save(path)``, ``detector_.pvalues(X)``.
    decision_scores_ : ndarray of shape (n,)
        Scores of the training rows, high = anomaly: out-of-fold for a `FusedDetector`,
        ``leave_one_out_scores`` for detectors that have them, and in-sample for others.
    threshold_ : float
        The quantile 1 − `contamination` of ``decision_scores_``.
    labels_ : ndarray of shape (n,)
        1 where ``decision_scores_`` exceeds ``threshold_``, else 0.
    n_features_in_ : int
        Number of columns.

    Notes
    -----
    Since training scores are out-of-fold, about the share `contamination` of new rows of the same
    distribution exceeds the threshold as well. In-sample scores are optimistically biased, and a
    threshold from these flags more rows.

    Examples
    --------
    >>> from pyod.utils.data import generate_data
    >>> from lpfuse.pyod import PyODFused
    >>> X, X_test, y, y_test = generate_data(n_train=200, n_test=50, random_state=0)
    >>> clf = PyODFused(contamination=0.1, random_state=0).fit(X)
    >>> int(clf.labels_.sum())
    20
    >>> clf.predict_proba(X_test).shape
    (50, 2)
    """

    detector_: Any
    decision_scores_: Host

    def __init__(
        self, detector: Any = None, contamination: float = 0.1, random_state: Any = None
    ) -> None:
        super().__init__(contamination=contamination)  # PyOD checks it here
        self.detector = detector
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit a copy of the detector.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows.
        y : array-like of shape (n,), optional
            0 normal, 1 anomaly, as in PyOD. A `FusedDetector` learns its weights from them;
            detectors without labels ignore them.

        Returns
        -------
        PyODFused
            The fitted detector.
        """
        labels = () if y is None else (_from_pyod_labels(y),)
        inner = FusedDetector() if self.detector is None else as_detector(self.detector)
        fitted = seeded_copy(inner, check_random_state(self.random_state)).fit(X, *labels)
        scores = _training_scores(fitted, X)
        if np.isnan(scores).any():
            raise ValueError(
                f"{quote(fitted)} gives no score to {int(np.isnan(scores).sum())} of its "
                f"{len(scores)} training rows, the first at position "
                f"{int(np.isnan(scores).argmax())}. Impute their missing values, or drop them."
            )
        self.detector_, self.decision_scores_ = fitted, -scores
        self.n_features_in_ = np.shape(X)[1]
        self._classes = 2  # PyOD's predict_proba reads it
        self._process_decision_scores()
        return self

    def decision_function(self, X: Any) -> Host:
        """Return the score of each row, high = anomaly.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows with the columns that `fit` saw.

        Returns
        -------
        ndarray of shape (n,)
            Minus the ``score_samples`` of the fitted detector.
        """
        check_is_fitted(self, ["detector_", "decision_scores_"])
        return -np.asarray(self.detector_.score_samples(X), dtype=np.float64)


def _from_pyod_labels(y: Any) -> Host:
    """Convert labels of PyOD: 0 becomes +1, 1 becomes −1."""
    values = np.asarray(y).ravel()
    known = np.isin(values, (0, 1))
    if not known.all():
        raise ValueError(
            "y must hold PyOD's labels, 0 (normal) and 1 (anomaly), got "
            f"{quote(values[~known][0])}. For +1, -1 and 0 (unlabelled) use "
            "lpfuse.FusedDetector, or omit y."
        )
    return 1.0 - 2.0 * values.astype(np.float64)


def _training_scores(detector: Any, X: Any) -> Host:
    """Return scores of training rows, high = normal: out-of-fold if available."""
    if hasattr(detector, "leave_one_out_scores"):
        return np.asarray(detector.leave_one_out_scores(X), dtype=np.float64)
    scores = np.asarray(detector.score_samples(X), dtype=np.float64)
    kept = detector.rows_.values if isinstance(detector, FusedDetector) else None
    if kept is None or len(detector.held_out_.fused) != len(kept):
        return scores
    place = places_in_training(detector.rows_, X if hasattr(X, "columns") else np.asarray(X))
    found = np.where(place >= 0, detector.held_out_.fused[place], np.nan)
    return np.where(np.isnan(found), scores, found)
