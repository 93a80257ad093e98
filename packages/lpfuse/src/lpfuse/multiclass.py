"""Multiclass classification by one-class detectors, with a label for unknown classes."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils import _safe_indexing, assert_all_finite, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from lpfuse._arrays.operations import Host
from lpfuse._base import logged_once
from lpfuse._files import ANY, saved_as
from lpfuse._validation.params import check_choice, check_share, wrong_shape_message
from lpfuse._validation.tables import DirectionWarning, check_table, record_columns
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.defaults import seeded_copy
from lpfuse.ensemble.rows import Table
from lpfuse.io.safety import LoadError

__all__ = ["OneClassEnsembleClassifier"]


@saved_as("OneClassEnsembleClassifier", others=("anomalies", "ignore"), unknown_label=ANY)
class OneClassEnsembleClassifier(ClassifierMixin, BaseEstimator):
    r"""A classifier made of one-class detectors: a `FusedDetector` for each class.

    Each detector learns one class. Its fused score ``f_k`` is converted to a probability (Platt
    scaling on held-out scores), and the class of the highest probability is predicted:

    .. math:: P_k(x) = \frac{1}{1 + \exp(-\alpha_k f_k(x) - \beta_k)}, \qquad
              \hat y(x) = \arg\max_k P_k(x)

    A row with small p-values for all classes can be given `unknown_label`.
    One-class decompositions of many classes were studied in [1]_.

    Parameters
    ----------
    detector : FusedDetector, default=None
        Fitted for each class; None: ``FusedDetector()``.
    others : {"anomalies", "ignore"}, default="anomalies"
        Role of the rows of other classes: labelled anomalies for weights and experts, or unused.
        Calibration uses them in either case.
    unknown_label : label, default=None
        The prediction if every class has a p-value of at most `false_alarm_rate`; of the type of
        the labels, and not one of them. None: always predict a known class.
    false_alarm_rate : float in (0, 0.5], default=0.05
        Share of the rows of known classes that may be predicted as unknown.
    random_state : int, RandomState or None, default=None
        Seeds detectors without a seed of their own.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels, sorted.
    detectors_ : list of FusedDetector
        The fitted detector of each class.
    calibration_ : ndarray of shape (K, 2)
        ``α`` and ``β`` of each.
    n_features_in_ : int
        Number of columns of `X`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, when `X` had them.

    Notes
    -----
    **The calibration** was chosen by accuracy in 3-fold cross-validation on iris, wine,
    breast cancer and 600 digits, with three kernel and mixture learners: mean 0.942, and 0.954 with
    ``others="ignore"``. Scores standardised on held-out rows of the class came to 0.928 and 0.914,
    p-values, which tie where no class fits well, to 0.920 and 0.923; an error-correcting output
    code, at twice the fits, to 0.938 and 0.926. With the default detectors, whose experts learn
    from the other classes, "anomalies" was better than "ignore": 0.978 against 0.969 on iris and
    wine.

    **False alarms.** A row of class k is predicted as unknown only if its own class rejects it, so
    the rate holds if that of the detectors does, and is conservative in practice. A class needs
    1/rate − 1 rows, 19 by default, to reject any row.

    References
    ----------
    .. [1] Krawczyk, Woźniak and Herrera (2015). On the usefulness of one-class classifier ensembles
       for decomposition of multi-class problems. Pattern Recognition 48(12), 3969–3982.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from lpfuse import FusedDetector, GMMDetector, KernelPCADetector
    >>> from lpfuse.multiclass import OneClassEnsembleClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> fused = FusedDetector([("kpca", KernelPCADetector()), ("gmm", GMMDetector())])
    >>> classifier = OneClassEnsembleClassifier(fused, unknown_label=-1, random_state=0).fit(X, y)
    >>> classifier.predict([X[0], X[60], X[120], [20.0, 0.0, 0.0, 20.0]])
    array([ 0,  1,  2, -1])
    """

    def __init__(
        self,
        detector: FusedDetector | None = None,
        *,
        others: Literal["anomalies", "ignore"] = "anomalies",
        unknown_label: Any = None,
        false_alarm_rate: float = 0.05,
        random_state: Any = None,
    ) -> None:
        self.detector = detector
        self.others = others
        self.unknown_label = unknown_label
        self.false_alarm_rate = false_alarm_rate
        self.random_state = random_state

    @logged_once
    def fit(self, X: Any, y: Any) -> Self:
        """Fit a detector for each class.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            The class of each row: numbers or strings. At least two rows of each.

        Returns
        -------
        OneClassEnsembleClassifier
            The fitted classifier.
        """
        prototype = self._prototype()
        self._check_parameters()
        table = check_table(X)
        classes, y = self._check_classes(y, table.shape[0])
        random = check_random_state(self.random_state)
        detectors, calibration = [], []
        for k in range(len(classes)):
            one = seeded_copy(prototype, random)
            fused, scores, rows = self._fit_one_class(one, table, y == k)
            calibration.append(log_odds(scores, y[rows] == k))
            detectors.append(fused)
        self.classes_, self.detectors_ = classes, detectors
        self.calibration_ = np.array(calibration)
        record_columns(self, X)
        return self

    def decision_function(self, X: Any) -> Host:
        """Return a score of each class for each row; the class of the highest is predicted.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, K), or (n,) for two classes
            ``log P_k``. For two classes, the second minus the first.
        """
        fits = self._class_scores(X)
        return fits[:, 1] - fits[:, 0] if len(self.classes_) == 2 else fits

    def predict_proba(self, X: Any) -> Host:
        """Return probabilities of the known classes.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, K)
            ``P_k``, normalised to sum to one.
        """
        probabilities: Host = softmax(self._class_scores(X), axis=1)
        return probabilities

    def pvalues(self, X: Any) -> Host:
        """Return the p-value of each row under each class.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, K)
            Conformal p-values: small if a row does not belong to the class.
        """
        check_is_fitted(self)
        table = check_table(X, estimator=self)
        return np.column_stack([fused.pvalues(table) for fused in self.detectors_])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row, or `unknown_label`.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            Labels.
        """
        fits = self._class_scores(X)
        best = np.where(np.isnan(fits), -np.inf, fits).argmax(axis=1)
        if self.unknown_label is None:
            return self.classes_[best]
        owned = (self.pvalues(X) > self.false_alarm_rate).any(axis=1)
        return np.append(self.classes_, self.unknown_label)[np.where(owned, best, -1)]

    def _class_scores(self, X: Any) -> Host:
        """Return ``log P_k`` of each row, of shape (n, K)."""
        check_is_fitted(self)
        table = check_table(X, estimator=self)
        scores = np.column_stack([fused.score_samples(table) for fused in self.detectors_])
        return log_expit(self.calibration_[:, 0] * scores + self.calibration_[:, 1])

    def _fit_one_class(
        self, fused: FusedDetector, table: Table, own: NDArray[np.bool_]
    ) -> tuple[FusedDetector, Host, NDArray[np.intp]]:
        """Return the fitted detector, held-out scores, and the rows of these scores."""
        rows, strangers = np.arange(len(own)), np.flatnonzero(~own)
        if self.others == "anomalies":
            with warnings.catch_warnings():  # a class may surround another
                warnings.simplefilter("ignore", DirectionWarning)
                fused.fit(table, np.where(own, 1, -1))
            return fused, fused.held_out_.fused, rows
        fused.fit(_safe_indexing(table, np.flatnonzero(own), axis=0))
        scores = fused.held_out_.fused
        if len(strangers):
            scores = np.append(
                scores, fused.score_samples(_safe_indexing(table, strangers, axis=0))
            )
        return fused, scores, np.append(np.flatnonzero(own), strangers)

    def _prototype(self) -> FusedDetector:
        if self.detector is None:
            return FusedDetector(calibration="plain")
        if not isinstance(self.detector, FusedDetector):
            raise TypeError(
                "detector must be a FusedDetector, whose out-of-fold scores are calibrated, got "
                f'{self.detector!r}. Wrap it: FusedDetector([("mine", detector)]).'
            )
        # Only out-of-fold scores are used, not the thresholds of the detectors.
        return clone(self.detector).set_params(calibration="plain")

    def _check_parameters(self) -> None:
        check_choice("others", self.others, ("anomalies", "ignore"))
        check_share("false_alarm_rate", self.false_alarm_rate, of="the rows")

    def _check_classes(self, y: Any, n: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """Return the classes, and the number of each row's class."""
        if y is None:
            raise ValueError(
                "OneClassEnsembleClassifier requires y to be passed, but the target y is None. "
                "Pass the class of each row."
            )
        labels = column_or_1d(y, warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        if len(labels) != n:
            raise ValueError(wrong_shape_message("y", "label", n, labels.shape))
        classes, numbers, counts = np.unique(labels, return_inverse=True, return_counts=True)
        if (counts < 2).any():
            raise ValueError(
                "Each class needs at least 2 rows, but class "
                f"{classes[counts < 2].tolist()[0]!r} has one, of n_samples={n}. Add rows, or drop "
                "the class."
            )
        unknown = self.unknown_label
        if unknown is not None:
            alike = isinstance(unknown, str) == isinstance(classes.tolist()[0], str)
            if not alike or unknown in classes:
                raise ValueError(
                    "unknown_label must be of the type of the labels, and not one of them; got "
                    f"{unknown!r} for the labels {', '.join(map(repr, classes.tolist()[:5]))}."
                )
        return classes, numbers

    # Attributes of files of earlier versions, which knew error-correcting output codes.
    saved_formerly: ClassVar[frozenset[str]] = frozenset((
        "code_", "code_size", "coupling", "templates_",
    ))  # fmt: skip

    @classmethod
    def upgrade_saved(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return the attributes of a file of an earlier version without those that are gone."""
        if values.get("coupling") == "ecoc":
            raise LoadError('coupling="ecoc" is gone: fit and save the classifier again.')
        return {name: value for name, value in values.items() if name not in cls.saved_formerly}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def log_odds(scores: Host, own: NDArray[np.bool_]) -> tuple[float, float]:
    r"""Fit Platt scaling: α and β such that ``α s + β`` is the log-odds of the own class.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Held-out scores, high = own class; NaN is ignored.
    own : ndarray of shape (n,)
        Whether each row belongs to the class.

    Returns
    -------
    tuple of float
        α ≥ 0 and β; 1 and 0 if there is only one kind of row.

    References
    ----------
    Platt (1999). Probabilistic outputs for support vector machines and comparisons to regularized
    likelihood methods. Advances in Large Margin Classifiers, MIT Press, 61–74.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse.multiclass import log_odds
    >>> slope, intercept = log_odds(np.array([3.0, 2.0, 1.0, 0.0]), np.array([1, 1, 0, 0]) > 0)
    >>> round(-intercept / slope, 6)  # even odds halfway
    1.5
    """
    known = ~np.isnan(scores)
    values, own = scores[known], own[known]
    if own.all() or not own.any():
        return 1.0, 0.0
    middle, spread = values.mean(), values.std() or 1.0
    fitted = LogisticRegression().fit((values[:, None] - middle) / spread, own)
    slope = float(fitted.coef_[0, 0] / spread)
    if slope <= 0:  # no information beyond the share of the class
        return 0.0, float(np.log(own.sum() / (~own).sum()))
    return slope, float(fitted.intercept_[0] - slope * middle)
