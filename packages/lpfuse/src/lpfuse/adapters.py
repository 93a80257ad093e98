"""Adapters of third-party detectors, classifiers and functions: scores are high for normal rows.

Signs are converted only here. Adapters have ``fit(X, y=None)`` and ``score_samples(X)``; if
``learns_from_anomalies`` is true, ``fit`` needs rows of both classes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, signature
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.base import (
    BaseEstimator,
    MetaEstimatorMixin,
    clone,
    is_classifier,
    is_outlier_detector,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from lpfuse._arrays.operations import Host, fill_masked
from lpfuse._command_package import import_package
from lpfuse._files import saved_as
from lpfuse._format import quote
from lpfuse._validation.params import check_choice, check_labels
from lpfuse._validation.tables import DirectionWarning

__all__ = [
    "ClassifierExpert",
    "DirectionWarning",
    "PyODDetector",
    "ScoreColumn",
    "ScoreFunction",
    "frozen",
]

T = TypeVar("T")

DIRECTIONS = ("normal", "anomaly")
# Methods that `ScoreFunction` may call. The list is fixed because files name a method.
METHODS = ("decision_function", "score_samples", "predict", "score")
# Detectors of PyOD that score a row by its batch; each row is joined to the training rows.
JOINED = ("CD", "COF", "COPOD", "ECOD", "ROD", "SOD")
MIN_PROBABILITY = 1e-3  # probabilities of classifiers are clipped to [this, 1 − this]


class Adapter(MetaEstimatorMixin, BaseEstimator):
    """Base of adapters: a third-party object, which is not modified, as a detector."""

    learns_from_anomalies = False
    _adapts: str  # the parameter that holds what is adapted

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit a copy of the adapted object.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.
        y : array-like of shape (n,), optional
            +1 normal, −1 anomaly; needed where ``learns_from_anomalies``.

        Returns
        -------
        Adapter
            The fitted adapter.
        """
        raise NotImplementedError

    def score_samples(self, X: Any) -> Host:
        """Return the score of each row, high = normal.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            Scores.
        """
        check_is_fitted(self)
        return call_on_protected_rows(self._scores, X)

    def _scores(self, X: Any) -> Host:
        raise NotImplementedError


@saved_as("PyODDetector")
class PyODDetector(Adapter):
    """A detector of PyOD, whose scores are high for anomalies.

    Parameters
    ----------
    detector : pyod.models.base.BaseDetector
        Any detector of PyOD. Those that require labels (XGBOD) learn from both classes.

    Attributes
    ----------
    detector_ : BaseDetector
        The fitted copy.
    reference_ : dict of ndarray, or None
        What is kept of the training rows for a detector that compares the rows of a batch.

    Notes
    -----
    PyOD's ECOD, COPOD, COF, SOD, CD and ROD score a row by the other rows of its batch. Here each
    row is scored alone: as the last row of a batch that consists of the training rows (for CD at
    most 1,000 of them) and this row. ECOD and COPOD give what PyOD gives for a batch of one row.
    LMDD, LOCI and SOS would have to be computed anew over all training rows for every row; they
    score the batch, and raise an error in a :class:`~lpfuse.FusedDetector`. So does a detector of
    the first six that was fitted elsewhere and frozen, since its training rows are not known.

    Examples
    --------
    >>> from lpfuse.adapters import PyODDetector
    >>> from pyod.models.hbos import HBOS  # doctest: +SKIP
    >>> PyODDetector(HBOS()).fit(X).score_samples(X)  # doctest: +SKIP
    """

    _adapts = "detector"

    def __init__(self, detector: Any) -> None:
        self.detector = detector

    @property
    def learns_from_anomalies(self) -> bool:  # type: ignore[override]
        """Whether the detector is not fitted yet and requires labels."""
        labels = signature(_last(self.detector).fit).parameters.get("y")
        needs_labels = labels is not None and labels.default is Parameter.empty
        return needs_labels and not isinstance(self.detector, FrozenEstimator)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit a copy of the detector.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows; normal ones only, unless the detector needs labels.
        y : array-like of shape (n,), optional
            +1 normal, −1 anomaly; converted to PyOD's 0 and 1.

        Returns
        -------
        PyODDetector
            The fitted adapter.
        """
        rows = _convert_rows(self.detector, X)
        if self.learns_from_anomalies:
            is_anomaly = (_require_both_classes(y, len(X)) < 0).astype(int)
            self.detector_ = _fit_clone(self.detector, rows, is_anomaly)
        else:
            self.detector_ = _fit_clone(self.detector, rows)
        *_, last = self.detector if isinstance(self.detector, Pipeline) else [self.detector]
        is_joined = type(last).__name__ in JOINED and _is_pyod_detector(last)
        self.reference_ = None
        if is_joined:
            self.reference_ = _joined_rows().learn_reference(*self._final(rows))
        return self

    def _scores(self, X: Any) -> Host:
        rows, reference = _convert_rows(self.detector, X), getattr(self, "reference_", None)
        if reference is None:
            scores = self.detector_.decision_function(rows)
        else:
            scores = _joined_rows().score_joined(*self._final(rows), reference)
        return -check_detector_scores(scores, len(X), self.detector)

    def _final(self, rows: Any) -> tuple[Any, Host]:
        """Return PyOD's detector, and the rows as the pipeline before it, if any, gives them."""
        if isinstance(self.detector_, Pipeline):
            return self.detector_[-1], np.asarray(self.detector_[:-1].transform(rows))
        return self.detector_, np.asarray(rows)


def _joined_rows() -> Any:
    import_package(
        "lpfuse_clients", f"PyOD's {', '.join(JOINED)} need lpfuse-clients.", extra="pyod"
    )
    return import_module("lpfuse_clients.joined_rows")


@saved_as("ClassifierExpert")
class ClassifierExpert(Adapter):
    r"""A classifier trained with anomalies, scored by the log-odds of "normal".

    .. math:: \log \frac{P(\text{normal} \mid x)}{1 - P(\text{normal} \mid x)}

    Parameters
    ----------
    classifier : classifier
        Any classifier with the scikit-learn interface. Scores are its decision function if it has
        one, and the log-odds of its probabilities, clipped to [0.001, 0.999], otherwise.

    Attributes
    ----------
    classifier_ : classifier
        The fitted copy.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from lpfuse.adapters import ClassifierExpert
    >>> X, y = [[0.0], [1.0], [5.0], [6.0]], [1, 1, -1, -1]
    >>> expert = ClassifierExpert(LogisticRegression()).fit(X, y)
    >>> (expert.score_samples([[0.5], [5.5]]) > 0).tolist()
    [True, False]
    """

    _adapts = "classifier"

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier

    @property
    def learns_from_anomalies(self) -> bool:  # type: ignore[override]
        """Whether the classifier is not fitted yet."""
        return not isinstance(self.classifier, FrozenEstimator)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit a copy of the classifier.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows of both classes.
        y : array-like of shape (n,)
            +1 normal, −1 anomaly.
        sample_weight : array-like of shape (n,), optional
            How much each row counts; ignored by a classifier without sample weights.

        Returns
        -------
        ClassifierExpert
            The fitted adapter.
        """
        learns = self.learns_from_anomalies
        labels = _require_both_classes(y, len(X)).astype(int) if learns else None
        takes_weights = learns and has_fit_parameter(self.classifier, "sample_weight")
        weights = {"sample_weight": sample_weight} if takes_weights else {}
        classifier = _fit_clone(self.classifier, X, labels, **weights)
        if set(classifier.classes_) != {1, -1}:  # a classifier fitted elsewhere
            raise ValueError(
                f"{self.classifier!r} has the classes {list(classifier.classes_)}; expected +1 "
                "(normal) and -1 (anomaly). Fit it with these labels."
            )
        self.classifier_ = classifier
        return self

    def _scores(self, X: Any) -> Host:
        if hasattr(self.classifier_, "decision_function"):
            scores = self.classifier_.decision_function(X)
            return check_detector_scores(scores, len(X), self.classifier)
        normal = list(self.classifier_.classes_).index(1)
        return log_odds(self.classifier_.predict_proba(X)[:, normal])


def log_odds(share: Host) -> Host:
    """Return the log-odds of probabilities, clipped to [0.001, 0.999]."""
    share = np.clip(share, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return np.log(share / (1 - share))


def _turned(scores: Host, high: str) -> Host:
    """Return scores high = normal; a fitted adapter is checked here, for `fit` may never run."""
    check_choice("high", high, DIRECTIONS)
    return scores if high == "normal" else -scores


@saved_as("ScoreFunction", high=DIRECTIONS, method=METHODS)
class ScoreFunction(Adapter):
    """A function of rows, or a method of an object, with a stated direction.

    Parameters
    ----------
    scorer : callable or object
        A function ``X ↦ scores``, or an object with the method `method` and optionally ``fit``.
    high : {"normal", "anomaly"}
        What high scores mean.
    method : {"decision_function", "score_samples", "predict", "score"}, \
            default="decision_function"
        The method of an object. For any other, pass the bound method: it is a function.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse.adapters import ScoreFunction
    >>> distance = ScoreFunction(lambda X: np.linalg.norm(X, axis=1), high="anomaly")
    >>> distance.fit([[0.0, 0.0]]).score_samples([[3.0, 4.0]])
    array([-5.])
    """

    _adapts = "scorer"

    def __init__(self, scorer: Any, high: str, method: str = "decision_function") -> None:
        self.scorer = scorer
        self.high = high
        self.method = method

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit a copy of the object; do nothing for a function.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Normal rows.
        y : object
            Ignored.

        Returns
        -------
        ScoreFunction
            The adapter, ready to score.
        """
        check_choice("high", self.high, DIRECTIONS)
        check_choice("method", self.method, METHODS)
        if hasattr(self.scorer, "fit"):
            self.scorer_ = _fit_clone(self.scorer, _convert_rows(self.scorer, X))
        return self

    def _scores(self, X: Any) -> Host:
        check_choice("method", self.method, METHODS)
        scorer = getattr(self, "scorer_", self.scorer)
        score = getattr(scorer, self.method, scorer)
        scores = check_detector_scores(score(_convert_rows(self.scorer, X)), len(X), self.scorer)
        return _turned(scores, self.high)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "scorer_") or not hasattr(self.scorer, "fit")


@saved_as("ScoreColumn", high=DIRECTIONS)
class ScoreColumn(Adapter):
    """A column with precomputed scores of a detector.

    Parameters
    ----------
    high : {"normal", "anomaly"}
        What high scores mean.

    Examples
    --------
    >>> from lpfuse.adapters import ScoreColumn
    >>> ScoreColumn(high="anomaly").fit([[0.5], [2.0]]).score_samples([[3.0]])
    array([-3.])
    """

    def __init__(self, high: str) -> None:
        self.high = high

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the column; nothing is learned.

        Parameters
        ----------
        X : array-like of shape (n, 1)
            Scores.
        y : object
            Ignored.

        Returns
        -------
        ScoreColumn
            The adapter, ready to score.
        """
        self._scores(X)
        return self

    def _scores(self, X: Any) -> Host:
        return _turned(self._column(X), self.high)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def _column(self, X: Any) -> Host:
        values = np.asarray(fill_masked(X), dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != 1:
            raise ValueError(
                f"ScoreColumn reads one column of scores, got shape {values.shape}. In a "
                'FusedDetector, name the column: ("mine", ScoreColumn(high="normal"), "column").'
            )
        return values[:, 0]


def as_detector(entry: Any) -> Any:
    """Wrap a detector so that it has ``fit`` and ``score_samples``, high for normal rows.

    Parameters
    ----------
    entry : object
        A detector of lpfuse, scikit-learn or PyOD, a classifier, or an adapter; in a
        :class:`sklearn.frozen.FrozenEstimator` if it is already fitted and must not be refitted.

    Returns
    -------
    estimator
        `entry` itself if it needs no adapter.

    Examples
    --------
    >>> from sklearn.ensemble import IsolationForest, RandomForestClassifier
    >>> from lpfuse.adapters import as_detector
    >>> as_detector(IsolationForest())
    IsolationForest()
    >>> as_detector(RandomForestClassifier())
    ClassifierExpert(classifier=RandomForestClassifier())
    """
    inner, last = _unfreeze(entry), innermost(entry)
    if getattr(last, "novelty", True) is False and is_outlier_detector(last):
        name = type(last).__name__
        raise ValueError(f"{name}(novelty=False) cannot score new rows. Pass {name}(novelty=True).")
    if _is_pyod_detector(_last(inner)):
        return PyODDetector(entry)
    has_tags = hasattr(inner, "__sklearn_tags__")  # required by is_classifier
    if has_tags and is_classifier(inner):
        return ClassifierExpert(entry)
    if hasattr(entry, "score_samples"):
        frozen = inner is not entry
        return ScoreFunction(entry, high="normal", method="score_samples") if frozen else entry
    if has_tags and is_outlier_detector(inner) and hasattr(entry, "decision_function"):
        return ScoreFunction(entry, high="normal")
    raise TypeError(
        f"{entry!r} has no score_samples, and the direction of its scores is unknown. Wrap it: "
        'lpfuse.adapters.ScoreFunction(…, high="anomaly") or high="normal".'
    )


def frozen(entry: Any) -> Any:
    """Freeze a fitted estimator, so that ``fit`` does not change it.

    Parameters
    ----------
    entry : object
        A fitted detector or classifier, or an adapter around one.

    Returns
    -------
    estimator
        In a :class:`sklearn.frozen.FrozenEstimator`; for an unfitted adapter, the adapted object
        is frozen.

    Examples
    --------
    >>> from sklearn.ensemble import IsolationForest
    >>> from lpfuse.adapters import frozen
    >>> frozen(IsolationForest().fit([[0.0], [1.0]]))
    FrozenEstimator(estimator=IsolationForest())
    """
    if isinstance(entry, FrozenEstimator) or not hasattr(entry, "fit"):
        return entry
    if isinstance(entry, Adapter) and not _is_fitted(entry):
        parameters = entry.get_params(deep=False)
        parameters[entry._adapts] = frozen(parameters[entry._adapts])
        return type(entry)(**parameters)
    return FrozenEstimator(entry)


def _is_fitted(estimator: Any) -> bool:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _unfreeze(entry: Any) -> Any:
    return entry.estimator if isinstance(entry, FrozenEstimator) else entry


def _last(entry: Any) -> Any:
    """Return the final estimator inside frozen estimators and pipelines."""
    inner = _unfreeze(entry)
    return _last(inner[-1]) if isinstance(inner, Pipeline) else inner


def innermost(entry: Any) -> Any:
    """Return the final estimator inside adapters, frozen estimators and pipelines.

    Examples
    --------
    >>> from sklearn.ensemble import IsolationForest
    >>> innermost(ScoreFunction(frozen(IsolationForest()), high="normal"))
    IsolationForest()
    """
    inner = _last(entry)
    adapted = getattr(inner, getattr(inner, "_adapts", ""), None)
    return inner if adapted is None else innermost(adapted)


def has_known_direction(detector: Any) -> bool:
    """Return whether the direction of the scores is defined by a library, not by the user.

    Examples
    --------
    >>> from sklearn.ensemble import IsolationForest
    >>> has_known_direction(IsolationForest()), has_known_direction(ScoreColumn(high="normal"))
    (True, False)
    """
    maker = type(innermost(detector)).__module__
    return maker.startswith(("lpfuse.", "pyod.", "sklearn.")) and maker != __name__


def _fit_clone(estimator: Any, X: Any, y: Any = None, **weights: Any) -> Any:
    """Return a fitted clone; frozen estimators are unchanged but require an argument y."""
    copy = clone(estimator, safe=False)  # deep copy of objects without the scikit-learn interface
    labels = () if y is None and not isinstance(copy, FrozenEstimator) else (y,)
    return call_on_protected_rows(lambda rows: copy.fit(rows, *labels, **weights), X)


def call_on_protected_rows(work: Callable[[Any], T], X: Any) -> T:
    """Call third-party code on rows that it cannot modify.

    An array is passed as a read-only view, without a copy. Code that fails because it writes to its
    input gets a copy instead.

    Parameters
    ----------
    work : callable
        A function of rows.
    X : array or data frame
        Rows.
    """
    if not isinstance(X, np.ndarray):
        copy = getattr(X, "clone", None) or getattr(X, "copy", None)  # polars | pandas, lists
        return work(X if copy is None else copy())
    view = X.view()
    view.flags.writeable = False
    try:
        return work(view)
    except (ValueError, TypeError) as error:
        if not re.search("read-?only|writ(e)?able", str(error), re.IGNORECASE):
            raise
        return work(X.copy())


def _convert_rows(maker: Any, X: Any) -> Any:
    """Convert rows for an estimator: only the scikit-learn interface accepts data frames."""
    inner = _unfreeze(maker)
    knows_frames = hasattr(inner, "__sklearn_tags__") and not _is_pyod_detector(inner)
    return X if knows_frames else np.asarray(fill_masked(X))


def _is_pyod_detector(entry: Any) -> bool:
    return any(cls.__module__.startswith("pyod.") for cls in type(entry).__mro__)


def _require_both_classes(y: Any, n: int) -> Host:
    labels = check_labels(y, n)
    if labels is None or (labels > 0).all():
        raise ValueError(
            "A classifier needs anomalies: pass y with +1 (normal) and -1 (anomaly), at least one "
            "row of each."
        )
    return labels


def check_detector_scores(scores: Any, n: int, maker: object) -> Host:
    """Check that a detector, given by itself or its name, returned one real score a row.

    Examples
    --------
    >>> check_detector_scores([1, 2j], 2, "mine")
    Traceback (most recent call last):
    ValueError: 'mine' must give real numbers, got complex128 values. Take their real parts or \
absolute values.
    """
    values = np.asarray(fill_masked(scores))
    if values.dtype.kind == "c":
        raise ValueError(
            f"{quote(maker)} must give real numbers, got {values.dtype} values. Take their "
            "real parts or absolute values."
        )
    if values.shape != (n,):
        raise ValueError(
            f"{quote(maker)} must give one score for each row: expected shape ({n},), got "
            f"{values.shape}."
        )
    return values.astype(np.float64, copy=False)
