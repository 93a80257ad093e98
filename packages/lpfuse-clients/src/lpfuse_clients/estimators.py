"""Detectors in other roles of scikit-learn: as a classifier, and to remove outliers."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from lpfuse import FusedDetector
from lpfuse._arrays.operations import Host
from lpfuse._format import quote

__all__ = ["DetectorClassifier", "OutlierRemoval"]

# Held-out rows of each class from which a slope and an intercept are learnt. Chosen by hand.
FEWEST_OF_A_CLASS = 10


class DetectorClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    r"""A detector as a binary classifier, for tools of scikit-learn that accept no detectors.

    ``RocCurveDisplay.from_estimator`` and ``cross_val_predict(method="decision_function")`` with
    labels need a classifier. Probabilities are calibrated by a logistic curve (Platt) of the
    held-out decisions :math:`f_i` of the labelled training rows:

    .. math:: P(\text{normal} \mid x) = \frac{1}{1 + \exp(-a f(x) - b)}

    Parameters
    ----------
    detector : detector, default=None
        An outlier detector of lpfuse or scikit-learn. None: ``FusedDetector()``. A copy is fitted.
    normal : label, default=1
        The label of normal rows.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels, sorted.
    detector_ : detector
        The fitted copy.
    calibrator_ : LogisticRegression or None
        The curve; None where there are no held-out decisions, or fewer than 10 of a class.

    Notes
    -----
    `predict` applies the threshold of the detector, which keeps a false-alarm rate, and not a
    probability of 0.5. Probabilities hold for rows with the share of anomalies of the training
    rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import RocCurveDisplay
    >>> from lpfuse import FusedDetector
    >>> from lpfuse_clients.estimators import DetectorClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(size=(200, 2)), rng.normal(4, 1, size=(20, 2))])
    >>> y = np.repeat([1, -1], [200, 20])
    >>> clf = DetectorClassifier(FusedDetector(["gmm", "knn"], random_state=0)).fit(X, y)
    >>> clf.predict_proba([[0.0, 0.0], [4.0, 4.0]]).round().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    >>> RocCurveDisplay.from_estimator(clf, X, y).roc_auc > 0.9
    True
    """

    def __init__(self, detector: Any = None, normal: Any = 1) -> None:
        self.detector = detector
        self.normal = normal

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the detector and, where it has held-out scores, the probabilities.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Two different labels.
        sample_weight : array-like of shape (n,), optional
            0 leaves a row out. Any other weight must be the same for all rows: thresholds are
            quantiles that count rows.

        Returns
        -------
        DetectorClassifier
            The fitted classifier.
        """
        y = np.asarray(y)
        if sample_weight is not None:
            rows = _weighted_rows(sample_weight, len(y))
            X, y = _safe_indexing(X, rows, axis=0), y[rows]
        classes = np.unique(y)
        if len(classes) != 2 or self.normal not in classes:
            raise ValueError(
                f"y must hold two labels, one of them normal={quote(self.normal)}; got "
                f"{', '.join(map(quote, classes[:5].tolist()))}. Pass the label of normal rows: "
                "DetectorClassifier(detector, normal=…)."
            )
        labels = np.where(y == self.normal, 1, -1)
        inner = FusedDetector() if self.detector is None else clone(self.detector)
        self.detector_ = inner.fit(X, labels)
        self.classes_ = classes
        self.calibrator_ = _calibrator(self.detector_, labels)
        self.n_features_in_ = np.shape(X)[1]
        return self

    def decision_function(self, X: Any) -> Host:
        """Return the signed distance to the threshold, positive for ``classes_[1]``.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows with the columns that `fit` saw.
        """
        check_is_fitted(self)
        return self._side() * np.asarray(self.detector_.decision_function(X))

    def predict(self, X: Any) -> Host:
        """Return the label of each row by the threshold of the detector.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows with the columns that `fit` saw.
        """
        check_is_fitted(self)
        side = self._side() * np.asarray(self.detector_.predict(X))
        return self.classes_[(side > 0).astype(int)]

    def predict_proba(self, X: Any) -> Host:
        """Return the probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows with the columns that `fit` saw.
        """
        check_is_fitted(self)
        if self.calibrator_ is None:
            raise ValueError(
                "Probabilities need a FusedDetector, whose training scores are held out, at least "
                f"{FEWEST_OF_A_CLASS} rows of each class, and scores that are higher for normal "
                "rows. Use decision_function, or pass more labelled rows."
            )
        decisions = np.reshape(self.detector_.decision_function(X), (-1, 1))
        found = self.calibrator_.predict_proba(decisions)
        return found if self._side() > 0 else found[:, ::-1]

    def _side(self) -> int:
        return 1 if self.classes_[1] == self.normal else -1

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _weighted_rows(sample_weight: Any, n: int) -> NDArray[np.intp]:
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,) or (weights < 0).any() or len(set(weights[weights > 0])) != 1:
        raise ValueError(
            "sample_weight must be 0 or one positive number for each row: the threshold of a "
            f"detector counts rows. Got shape {weights.shape} with {len(set(weights))} different "
            "values. Leave rows out with weight 0, or omit sample_weight."
        )
    return np.flatnonzero(weights)


def _calibrator(detector: Any, labels: Host) -> LogisticRegression | None:
    """Fit a logistic curve to the held-out decisions; None where there are too few."""
    if not isinstance(detector, FusedDetector) or detector.cv in ("in-sample", "prefit"):
        return None
    decisions = detector.fitted_scores_ - detector.offset_
    known = np.isfinite(decisions)
    if min((labels[known] > 0).sum(), (labels[known] < 0).sum()) < FEWEST_OF_A_CLASS:
        return None
    # Nearly unpenalised: one slope on the scale of the fused scores.
    curve = LogisticRegression(C=1e6).fit(decisions[known, None], labels[known])
    return curve if curve.coef_[0, 0] > 0 else None


def _delegated(name: str) -> Any:
    def has(self: Any) -> bool:
        return hasattr(getattr(self, "estimator_", self.estimator), name)

    def method(self: Any, X: Any, *args: Any, **named: Any) -> Any:
        check_is_fitted(self)
        return getattr(self.estimator_, name)(X, *args, **named)

    method.__doc__ = f"Return ``{name}`` of the fitted estimator."
    return available_if(has)(method)


class OutlierRemoval(MetaEstimatorMixin, BaseEstimator):
    """Fit an estimator to the rows that a detector calls normal; new rows all pass.

    scikit-learn's pipelines keep the number of rows, so a detector cannot be a step of one
    (scikit-learn#9630). This estimator is the last step instead, with the estimator inside.

    Parameters
    ----------
    estimator : estimator
        What is fitted to the rows that are left.
    detector : detector, default=None
        With ``fit_predict``, +1 for rows to keep. None: ``FusedDetector()``. y is not shown to it.

    Attributes
    ----------
    estimator_, detector_ : estimators
        The fitted copies.
    kept_ : ndarray of bool of shape (n,)
        The training rows that are left.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from lpfuse import GMMDetector
    >>> from lpfuse_clients.estimators import OutlierRemoval
    >>> X = np.concatenate([np.random.default_rng(0).normal(size=(99, 1)), [[50.0]]])
    >>> y = np.append(2 * X[:99, 0], -100.0)
    >>> model = make_pipeline(StandardScaler(), OutlierRemoval(LinearRegression(), GMMDetector()))
    >>> round(float(model.fit(X, y).score(X[:99], y[:99])), 2)
    1.0
    """

    def __init__(self, estimator: Any, detector: Any = None) -> None:
        self.estimator = estimator
        self.detector = detector

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> Self:
        """Remove outliers, and fit the estimator to the other rows.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows.
        y : array-like of shape (n,), optional
            Targets.
        **fit_params
            For ``fit`` of the estimator, one value for each row.

        Returns
        -------
        OutlierRemoval
            The fitted estimator.
        """
        self.detector_ = FusedDetector() if self.detector is None else clone(self.detector)
        self.kept_ = np.asarray(self.detector_.fit_predict(X)) > 0
        kept = np.flatnonzero(self.kept_)
        rest = {name: _safe_indexing(value, kept) for name, value in fit_params.items()}
        target = None if y is None else _safe_indexing(y, kept)
        self.estimator_ = clone(self.estimator)
        self.estimator_.fit(_safe_indexing(X, kept, axis=0), target, **rest)
        return self

    predict = _delegated("predict")
    predict_proba = _delegated("predict_proba")
    decision_function = _delegated("decision_function")
    transform = _delegated("transform")
    score = _delegated("score")

    @property
    def classes_(self) -> Any:
        """The classes of the fitted estimator."""
        return self.estimator_.classes_

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.estimator)
