"""FusedDetector: prepare rows → score out of fold → fuse → calibrate, and answer about new rows.

Every method delegates to functions of the sibling modules, which take and return small records.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Host, is_blocked
from lpfuse._base import auc_of_decisions, lazily, logged_once, signs
from lpfuse._command_package import write_card
from lpfuse._files import ANY, saved_as
from lpfuse._validation import params
from lpfuse._validation.tables import check_table, is_frame, record_columns
from lpfuse.answers import AnswerAudit, Estimate
from lpfuse.ensemble import active, explain, learning, scoring
from lpfuse.ensemble.calibration import (
    CalibratedFit,
    CalibrationRows,
    HeldOutScores,
    OutOfFoldScores,
    ThresholdParameters,
    calibrate,
)
from lpfuse.ensemble.combination import Combination
from lpfuse.ensemble.defaults import Strategy, asked_fusion, seed_members, take_frames, with_names
from lpfuse.ensemble.explain import Explanation
from lpfuse.ensemble.folds import Rows, plan_folds, plan_parts, prepare_rows
from lpfuse.ensemble.out_of_fold import FitScheduler, Progress, score_out_of_fold
from lpfuse.ensemble.pool import Pool
from lpfuse.ensemble.rows import (
    EmptyColumnWarning,
    Index,
    StoredRows,
    Table,
    as_numbers,
    draw_seed,
    hash_rows,
    places_in_training,
    players_of,
    seen_features,
    store_rows,
    warn_of_training_rows,
)
from lpfuse.ensemble.sampling import draw_from_blocks
from lpfuse.ensemble.scoring import Verdicts
from lpfuse.ensemble.summary import describe_learning, promise_of
from lpfuse.frames.cells import OPEN, TableFormat
from lpfuse.frames.preparation import TablePreparation, learn_ranges, take_time
from lpfuse.io import save
from lpfuse.optim import Certificate
from lpfuse.threshold import THRESHOLD_RULES, CalibrationPromise, integrative_pvalues
from lpfuse.time import Stream, Windows
from lpfuse.time.order import RowOrder

LOGGER = logging.getLogger("lpfuse")
HELD_OUT = "fitted_labels_ and fitted_scores_ are by fits that did not see the row"
SUBSAMPLE = 20_000  # rows that a Dask collection is cut to for training, by default


def _n_detectors(fused: FusedDetector) -> int:
    return len(fused.pool_.members)


@saved_as(
    "FusedDetector",
    detectors=("paper", ...),
    p=("auto",),
    prior=("tables", ...),
    cv=("in-sample", "prefit"),
    threshold=THRESHOLD_RULES,
    calibration=("auto", "cross", "plain", "split"),
    time_column_=ANY,
)
class FusedDetector(OutlierMixin, BaseEstimator):
    r"""Fuse several anomaly detectors into one, with a threshold that keeps a false-alarm rate.

    The weighted sum of the scaled scores of R detectors (high = normal) is compared with a
    threshold:

    .. math:: f(x) = \sum_{j=1}^R w_j \, s'_j(x), \qquad \text{normal} \iff f(x) \ge \text{offset}

    Scale and weights are learnt from out-of-fold scores. Arrays and data frames with text, dates
    and missing values are supported. See the user guide, ``docs/fused-detector.md``.

    Parameters
    ----------
    detectors : None, "paper" or list, default=None
        Detectors, names such as "lof" or "pyod:HBOS", ``(name, detector)`` or ``(name, detector,
        columns)``. Classifiers learn from labelled anomalies. None: six fast detectors, plus
        four robust ones if rows are unlabelled, plus three classifiers from 2 labelled anomalies.
        "paper": the four detectors of the paper.
    scaler : transformer, default=None
        Puts scores on one scale. None: `TailScaler` for the default detectors with their prior,
        else `TwoSidedMinMax`.
    fusion : estimator, default=None
        Learns the weights from scaled scores. None: an `LpFusion` around the `prior` or, without
        one, with p = 4, an intercept and weights ≥ 0.
    p : float in [1, inf] or "auto", default="auto"
        Norm of the weights of the default fusion without a prior. "auto": that of `fusion`.
    prior : "tables", None, mapping or array-like of shape (R,), default="tables"
        Initial weights, if `fusion` is None. Labelled anomalies move them as far as held-out rows
        support it. "tables": weights that worked well on 151 other tables, for the default
        detectors; equal weights for others. None: equal weights.
    cv : int, splitter, iterable, "in-sample" or "prefit", default=5
        Folds of the out-of-fold scores. "in-sample": detectors score their own training rows, as
        in the paper. "prefit": detectors are already fitted, to other rows.
    artificial_anomalies : bool, default=False
        Whether normal rows with added noise are used as anomalies if none is labelled.
    threshold : {"false-alarms", "g-mean"}, default="false-alarms"
        How the threshold is set: by conformal calibration to `false_alarm_rate`, or by the best
        geometric mean of both hit rates on labelled rows.
    false_alarm_rate : float in (0, 0.5], default=0.05
        Share of normal rows that may be flagged.
    contamination : float in (0, 0.5], default=None
        Assumed share of anomalies among the unlabelled rows. If given, the threshold flags this
        share of rows like the training rows, and `false_alarm_rate` is not used. None: 0.025 is
        assumed, and `false_alarm_rate` sets the threshold.
    confidence : float in (0, 1), default=None
        Probability with which the false-alarm rate is at most `false_alarm_rate`. None: it is so
        on average.
    calibration : {"auto", "cross", "split", "plain"}, default="auto"
        Normal rows that set the threshold: a fifth that is not used for training ("split",
        guaranteed), all by cross-fitting ("cross", within about a point of the rate), or all by
        their out-of-fold scores ("plain"). "auto": "split" from 2,000 normal rows on, else "cross".
    n_jobs : int, default=None
        Number of detectors and folds fitted in parallel, as in joblib.
    random_state : int, RandomState or None, default=None
        Seed of the folds, and of detectors whose own ``random_state`` is None.

    Attributes
    ----------
    weights_ : ndarray of shape (R,)
        The weight of each detector.
    detector_names_ : list of str
        Their names, in the order of the weights: one-class detectors, then classifiers.
    detectors_ : list of (name, detector, columns)
        The fitted detectors.
    scaler_, fusion_ : estimators
        Fitted scaler and fusion.
    certificate_ : Certificate or None
        Certificate of the weights: a bound on their distance from the optimum.
    offset_ : float
        The threshold.
    fitted_scores_, fitted_labels_ : ndarray of shape (n,)
        Scores and decisions for the rows passed to `fit`, by fits without the row; the strangest
        unlabelled rows are scored by fits without all of them.
    columns_, notes_ : dict and list of str
        Types of the columns of a data frame, and notes on their conversion.
    contamination_ : Estimate
        The share of anomalies among the training rows, with its 95 % interval.
    result_ : CalibratedFit
        The record of the fit: out-of-fold, held-out and calibration scores, stored rows.
    n_features_in_ : int
        Number of columns of `X`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, when `X` had them.

    See Also
    --------
    lpfuse.FusedDetectorCV : Chooses p, ρ and the detectors' parameters as well.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import FusedDetector
    >>> X = np.random.default_rng(0).normal(size=(300, 2))  # normal rows
    >>> fused = FusedDetector(["kpca", "gmm", "lof"], random_state=0).fit(X)
    >>> fused.predict([[0.0, 0.0], [5.0, 5.0]])
    array([ 1, -1])
    """

    result_: CalibratedFit
    scores_rows_alone: ClassVar[bool] = True  # whatever else is in the batch

    def __init__(
        self,
        detectors: Any = None,
        *,
        scaler: Any = None,
        fusion: Any = None,
        p: Any = "auto",
        prior: Any = "tables",
        cv: Any = 5,
        artificial_anomalies: bool = False,
        threshold: str = "false-alarms",
        false_alarm_rate: float = 0.05,
        contamination: float | None = None,
        confidence: float | None = None,
        calibration: Literal["auto", "cross", "plain", "split"] = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.detectors = detectors
        self.scaler = scaler
        self.fusion = fusion
        self.p = p
        self.prior = prior
        self.cv = cv
        self.artificial_anomalies = artificial_anomalies
        self.threshold = threshold
        self.false_alarm_rate = false_alarm_rate
        self.contamination = contamination
        self.confidence = confidence
        self.calibration = calibration
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------------------------------- fitting

    @logged_once
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        kind: Any = None,
        chances: Any = None,
        unlabelled: int | None = None,
        normal: Any = None,
        anomaly: Any = None,
        columns: Mapping[str, str] | TablePreparation | Literal["as-is"] | None = None,
        time: Any = None,
        order: Literal["time", "random"] | None = None,
        subsample: int = SUBSAMPLE,
        progress: bool | Progress = False,
    ) -> Self:
        """Fit the detectors, learn the weights, set the threshold.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Training rows. Values may be missing; a detector that does not support this is fitted
            to the rows that are complete in its columns.
        y : array-like, or Dask array or series, of shape (n,), or one label, optional
            +1 normal, −1 anomaly, 0 or missing (NaN, None, empty) unlabelled; without it, all are
            unlabelled and may contain anomalies. ``y=1`` declares that all rows are normal. Other
            labels need `normal` or `anomaly`, unless one is the word "normal". Unlabelled rows are
            used as normal rows, each with its probability of being normal as weight; labelled rows
            have full weight.
        groups : array-like of shape (n,), optional
            Groups of dependent rows (a person, a machine, a day). Rows of a group are never split
            between training and scoring.
        kind : array-like of shape (n,) or "clusters", optional
            Kinds of anomalies, by name or as clusters of their features. Each kind is then scored
            by experts that were fitted without it, like a kind that is still unknown.
        chances : array-like of shape (n,), optional
            Probability with which `query` drew each labelled row; NaN for other labels. Answers
            are then weighted to represent the rows that were not drawn. Rows in memory only.
        unlabelled : 0, optional
            Declares that 0 in `y` means unlabelled. Needed only if `y` contains just 0 and 1, which
            mean normal and anomaly in PyOD and are refused otherwise.
        normal, anomaly : value or list of values, optional
            Labels of normal rows, and of anomalies: ``normal="ok"``, ``anomaly=1``. If one of the
            two is given, all other labels are of the other class. Missing ones are unlabelled,
            unless ``normal=""`` says that they are normal. Case and blanks around a word do not
            matter. `score` and `teach` read each label as this fit did, and refuse labels that it
            did not see: name both classes where labels are to come that `y` does not hold.
        columns : mapping of str: str, "as-is" or TablePreparation, optional
            Types of columns of a data frame that should not be detected: "number", "category",
            "date", "elapsed" (days since the first), or "id", "text" and "drop", which are left
            out; see :func:`lpfuse.frames.learn_preparation`. "as-is": the detectors receive the
            frame itself, as pipelines do that begin with a `ColumnTransformer`.
        time : array-like of shape (n,) or str, optional
            Times of the rows in ascending order, or the name of a column of a data frame. Detectors
            then use windows of the last rows (`lpfuse.time.Windows`), folds are contiguous, and
            `predict` and `pvalues` follow slow changes (`lpfuse.time.AdaptiveLevel`).
        order : {"time", "random"}, optional
            "time": as with `time`, for evenly spaced rows. "random": the order has no meaning.
            None: if consecutive rows are correlated, a warning states that no rate is guaranteed.
        subsample : int, default=20_000
            Number of evenly drawn rows of a Dask `X` used for training; known anomalies are all
            included, up to half of this. Arrays in memory are used completely.
        progress : bool or callable, default=False
            True: print progress to standard error. A function is called with the work done and the
            total work, as integers proportional to the expected time.

        Returns
        -------
        FusedDetector
            The fitted estimator.
        """
        self._check_parameters()
        if time is not None or order == "time":
            self._check_parameters_for_time()
        if columns is None and take_frames(with_names(self.detectors)):
            columns = "as-is"
        rule, random = self._rule(), self._random()
        rows = prepare_rows(
            X, y, groups=groups, kind=kind, chances=chances, unlabelled=unlabelled,
            normal=normal, anomaly=anomaly, columns=columns, time=time, order=order, random=random,
            subsample=params.check_count("subsample", subsample),
            keep_copies=not params.is_count(self.cv) or self.calibration == "plain",
        )  # fmt: skip
        rule.check_labels(rows.labels)
        strategy = self._strategy(rows)

        training = plan_folds(rows, self.cv, self.calibration, random)
        if strategy.needs_artificial_anomalies(training):
            training = training.with_artificial_anomalies(random)
        members = seed_members(strategy.choose_members(training), random)
        # Seeded apart, so that detectors do not depend on how their scores are calibrated.
        apart = np.random.RandomState(draw_seed(deepcopy(random)))
        parts = plan_parts(
            training, self.cv, self.calibration, apart,
            has_experts=any(member.learns_from_anomalies for member in members),
            is_jittered=strategy.needs_artificial_anomalies,
        )  # fmt: skip

        scheduler = FitScheduler.for_user(self.n_jobs, progress)
        scored, without = score_out_of_fold(members, training, parts, strategy, scheduler)
        LOGGER.info("fitted and scored %d detectors on %d rows", len(members), len(rows.labels))
        fit = learning.fuse_pool(scored, training, strategy, random)
        LOGGER.info("learnt the weights")
        calibration, others = learning.score_calibration_rows(
            fit, training, parts, without, strategy, apart, self.n_jobs
        )
        stored = store_rows(training.X, training.calibration_X)
        result = calibrate(fit, others, calibration, rule, stored)
        LOGGER.info("calibrated")
        if strategy.detectors is None:
            result = learning.score_suspects(result, training, members, self.n_jobs)

        if rows.preparation is not None:
            d = len(rows.preparation.features)  # windows come after them
            learn_ranges(rows.preparation, rows.X[rows.labels >= 0][:, :d])
        record_columns(self, rows.given)
        self.result_ = replace(
            result, preparation=rows.preparation, order=rows.order, windows=rows.windows
        )
        self.time_column_ = time if isinstance(time, str) else None
        self.label_words_, self.fitted_rows_ = rows.label_words, rows.hashes
        self.fitted_directly_ = None
        if rows.hashes is not None and stored.values is not None:
            # Rows that were learnt from with a cell less are scored as they are.
            changed = ~np.isin(rows.hashes, hash_rows(stored.values))
            if changed.any():
                scores = np.full(len(changed), np.nan)
                given = rows.X if rows.windows is not None else self._table(rows.given)
                scores[changed] = self._fused_scores(given[changed])
                self.fitted_directly_ = scores
        return self

    def fit_predict(self, X: Any, y: Any = None, **fit_params: Any) -> NDArray[np.int64]:
        """Fit, and return the decision for each of these rows by fits without it.

        Parameters
        ----------
        X, y, **fit_params
            As in `fit`.

        Returns
        -------
        ndarray of shape (n,)
            +1 normal, −1 anomaly: ``fitted_labels_``. The false-alarm rate is that of new rows;
            with ``fit(X).predict(X)`` it is lower.

        Examples
        --------
        >>> import numpy as np
        >>> from lpfuse import FusedDetector
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> round(float((FusedDetector(["gmm"], random_state=0).fit_predict(X) < 0).mean()), 2)
        0.05
        """
        return self.fit(X, y, **fit_params).fitted_labels_

    def _check_parameters(self) -> None:
        """Refuse parameters that are out of range or do not go together."""
        self._rule().check()
        params.check_choice("calibration", self.calibration, ("auto", "cross", "plain", "split"))
        if isinstance(self.cv, str):
            params.check_choice("cv", self.cv, ("in-sample", "prefit"))
        if isinstance(self.detectors, str) and self.detectors != params.PAPER:
            names = params.parse_detector_names(self.detectors)
            raise ValueError(f'detectors must be a list or "paper": pass detectors={names!r}.')
        if isinstance(self.prior, str):
            params.check_choice("prior", self.prior, ("tables",))
        if self.cv == "prefit" and (self.detectors is None or isinstance(self.detectors, str)):
            raise ValueError(
                'cv="prefit" needs a list of fitted detectors, got '
                f"detectors={self.detectors!r}, which have yet to be fitted."
            )
        is_listed = not isinstance(self.cv, str) and not hasattr(self.cv, "split")
        if self.calibration == "split" and is_listed and not params.is_count(self.cv):
            raise ValueError(
                'calibration="split" sets rows aside before there are folds, so a list of splits '
                "cannot be followed. Pass a number of folds or a splitter."
            )

    def _check_parameters_for_time(self) -> None:
        """Refuse parameters that set a fixed threshold, or do not know the order of rows."""
        needed = {
            "threshold": "false-alarms", "confidence": None,
            "calibration": "plain" if self.calibration == "plain" else "auto",
        }  # fmt: skip
        for name, value in needed.items():
            if getattr(self, name) != value:
                raise ValueError(
                    "Rows in time order are judged by an adaptive level, which takes "
                    f"{name}={value!r}; got {name}={getattr(self, name)!r}."
                )
        if not params.is_count(self.cv):
            raise ValueError(
                "Rows in time order are dealt out to folds in blocks: cv must be a number of "
                f"folds, got cv={self.cv!r}."
            )

    def _strategy(self, rows: Rows | CalibratedFit) -> Strategy:
        """Return what chooses members and fusion; `FusedDetectorCV` has another one."""
        return Strategy(**self._choices(rows))

    def _choices(self, rows: Rows | CalibratedFit) -> dict[str, Any]:
        detectors = with_names(self.detectors)
        if isinstance(detectors, list | tuple):
            detectors = [
                (*each[:2], seen_features(each[2], rows.preparation, rows.windows, each[0]))
                if isinstance(each, tuple | list) and len(each) == 3 and each[2] is not None
                else each
                for each in detectors
            ]
        return {
            "detectors": detectors,
            "scaler": self.scaler,
            "fusion": asked_fusion(self.fusion, self.p),
            "prior": self.prior,
            "prefit": self.cv == "prefit",
            "artificial_anomalies": self.artificial_anomalies,
            "contamination": self.contamination,
            "reserved": self._get_param_names(),
        }

    def _rule(self) -> ThresholdParameters:
        return ThresholdParameters(
            self.threshold, self.false_alarm_rate, self.contamination, self.confidence
        )

    def _random(self, random_state: Any = None) -> np.random.RandomState:
        return check_random_state(self.random_state if random_state is None else random_state)

    def with_fusion(self, fusion: Any, scaler: Any = None) -> Self:
        """Return a copy with another fusion of the same scores, without refitting detectors.

        Parameters
        ----------
        fusion : estimator or None
            As the parameter of that name. One that uses the features is refused.
        scaler : transformer, optional
            As the parameter of that name. Experts that use scaled scores keep their scale.

        Returns
        -------
        FusedDetector
            As if it had been fitted with these parameters; it shares the fitted detectors.

        Examples
        --------
        >>> import numpy as np
        >>> from lpfuse import FixedRule, FusedDetector, GMMDetector, KernelPCADetector
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> pool = [("kpca", KernelPCADetector()), ("gmm", GMMDetector())]
        >>> fused = FusedDetector(pool, random_state=0).fit(X)
        >>> fused.with_fusion(FixedRule("sum")).weights_
        array([1., 1.])
        """
        check_is_fitted(self)
        other = copy(self).set_params(fusion=fusion, scaler=scaler, p="auto")
        if getattr(fusion, "uses_features", False):
            raise ValueError(f"{fusion!r} looks at the features of the rows: fit anew with it.")
        strategy = other._strategy(self.result_)
        result = learning.fuse_again(self.result_, strategy, other._rule())
        other.result_ = self._as_given(result)
        return other

    # ------------------------------------------------------------------------------------- scoring

    def _as_given(self, result: CalibratedFit) -> CalibratedFit:
        """Keep what is known of the rows in a new result."""
        before = self.result_
        return replace(
            result, preparation=before.preparation, order=before.order, windows=before.windows
        )

    def plain_rows(self, X: Any, time: Any = None) -> tuple[Host, Any]:
        """Return the features of rows in time order without their windows, and their times.

        Parameters
        ----------
        X : array-like or data frame of shape (m, d)
            Rows in their order.
        time : array-like of shape (m,), optional
            Their times; of a data frame, by default the column that `fit` took them from.
        """
        self._check_in_time()
        column = self.time_column_
        if time is None and column is not None and column in getattr(X, "columns", ()):
            X, time = take_time(X, column)
        made = self.preparation_
        table = check_table(X, estimator=self) if made is None else made.table(X, self)
        return np.asarray(table, dtype=np.float64), time

    def _check_in_time(self) -> None:
        check_is_fitted(self)
        if self.windows_ is None:
            raise ValueError(
                'The detector was fitted without time. Fit it with time= or order="time".'
            )

    def _table(self, X: Any, time: Any = None) -> Table:
        """Return the rows as the detectors take them: features of a data frame, or a table."""
        check_is_fitted(self)
        made, stored, windows = self.preparation_, self.rows_, self.windows_
        if windows is not None or time is not None:
            width = 0 if windows is None else len(windows.features) * windows.n_features_in_
            if not hasattr(X, "columns") and np.shape(X)[1:] == (width,):
                return check_table(X)  # with their windows
            rows, time = self.plain_rows(X, time)
            assert windows is not None
            return windows.follow(rows, windows.seconds_of(time, len(rows)), windows.history_)[0]
        if getattr(X, "shape", (1,))[:1] == (0,):
            raise ValueError(params.FEATURES.too_small(f"{tuple(X.shape)}"))
        table = check_table(X, estimator=self) if made is None else made.table(X, self)
        # Fitted to an array: names would make each detector warn of them.
        is_named = is_frame(table) and stored.values is not None and stored.names is None
        return check_table(np.asarray(table)) if is_named else table

    def _raw_scores(self, X: Any) -> tuple[Host, Host | None]:
        """Score rows by every detector; also return features, where the fusion looks at them."""
        return self._score_table(self._table(X))

    def _score_table(self, table: Table) -> tuple[Host, Host | None]:
        if self.preparation_ is None:
            return scoring.raw_scores(self.result_, table, self.n_jobs)
        # Medians that were never measured would be the most usual row there is.
        nothing = np.isnan(table[:, : len(self.preparation_.features)]).all(axis=1)
        if nothing.any() and not self.preparation_.scores:
            table = np.where(nothing[:, None], 0.0, table)
        # `lpfuse.frames.column_changes` names columns without a value.
        with warnings.catch_warnings(action="ignore", category=EmptyColumnWarning):
            return scoring.raw_scores(self.result_, table, self.n_jobs, nothing)

    def _fused_scores(self, table: Table) -> Host:
        return self.result_.combination.score_samples(*self._score_table(table))

    def _decisions(self, table: Table) -> Host:
        raw, features = self._score_table(table)
        scores = self.result_.combination.score_samples(raw, features)
        return scoring.decide(self.result_, raw, scores, self._rule())

    @lazily(width=_n_detectors, dtype="float64")
    def detector_scores(self, X: Any) -> Host:
        """Return the score of each detector for each row, before scaling.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, R)
            Raw scores, high = normal; NaN where a detector could not score a row.
        """
        return self._raw_scores(X)[0]

    def contributions(self, X: Any) -> Host:
        """Return what each detector adds to the fused score; rows sum to ``score_samples(X)``.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, R)
            ``w_j s_ij``, scaled scores ``s_ij``; 0 where a detector gives no score, NaN where none
            with a weight does.
        """
        if not self.combination_.is_additive:
            raise AttributeError(
                f"{self.fusion_!r} does not add up the scores of the detectors, so there is no "
                "telling what each of them contributed."
            )
        return self._contributions(X)

    @lazily(width=_n_detectors, dtype="float64")
    def _contributions(self, X: Any) -> Host:
        return self.combination_.contributions(*self._raw_scores(X))

    @lazily(dtype="float64")
    def score_samples(self, X: Any, time: Any = None) -> Host:
        """Return the fused score of each row, high = normal.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Rows.
        time : array-like of shape (n,), optional
            As in `pvalues`.

        Returns
        -------
        ndarray of shape (n,)
            Scores; NaN where no detector that has a weight could score the row.
        """
        return self._fused_scores(self._table(X, time))

    @lazily(dtype="float64")
    def decision_function(self, X: Any, time: Any = None) -> Host:
        """Return ``score_samples(X) − offset_``: negative for anomalies.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Rows.
        time : array-like of shape (n,), optional
            As in `pvalues`.

        Returns
        -------
        ndarray of shape (n,)
            Signed distance to the threshold; where some detectors give no score, to that for the
            others; NaN where none does: `predict` calls such a row an anomaly. After a fit to rows
            in time order, the p-value less the rate.
        """
        if self.windows_ is not None or time is not None:
            return self.verdicts(X, time).decision
        return self._decisions(self._table(X))

    @lazily(dtype="int64")
    def predict(self, X: Any, time: Any = None) -> NDArray[np.int64]:
        """Return +1 for normal rows, −1 for anomalies.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Rows.
        time : array-like of shape (n,), optional
            As in `pvalues`.

        Returns
        -------
        ndarray of shape (n,)
            Integers +1 and −1.
        """
        if self.windows_ is not None or time is not None:
            return signs(self.decision_function(X, time))
        table = self._table(X)
        known = None if self.cv == "prefit" else self.rows_.values
        warn_of_training_rows(known, table, f"predict calls fewer of them anomalies. {HELD_OUT}")
        return signs(self._decisions(table))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the area under the ROC curve.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Labels as `fit` saw them, or ±1 if it took no number otherwise; unlabelled rows are
            left out.
        sample_weight : array-like of shape (n,), optional
            How much each row counts.

        Returns
        -------
        float
            From 0 to 1: the share of pairs of a normal row and an anomaly in which the normal row
            has the higher score; ties count half. A row without a score is below all others.
        """
        words = getattr(self, "label_words_", None)
        if is_blocked(X) or self.windows_ is not None:
            return auc_of_decisions(self.decision_function(X), y, sample_weight, words)
        table = self._table(X)
        known = None if self.cv == "prefit" else self.rows_.values
        warn_of_training_rows(known, table, f"the AUC is higher than on new rows. {HELD_OUT}")
        return auc_of_decisions(self._decisions(table), y, sample_weight, words)

    @lazily(dtype="float64")
    def pvalues(
        self, X: Any, time: Any = None, *, level: Literal["adaptive", "fixed"] = "adaptive"
    ) -> Host:
        """Return the p-value of each row among normal rows: small for anomalies.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Rows; after a fit to rows in time order, in their order.
        time : array-like of shape (n,), optional
            Times of rows in time order; without them they follow the training rows.
        level : {"adaptive", "fixed"}, default="adaptive"
            For rows in time order: compare with the last rows and the training rows
            (`lpfuse.time.AdaptiveLevel`), or with the training rows only. Other rows have a fixed
            level.

        Returns
        -------
        ndarray of shape (n,)
            Conformal p-values, see :func:`lpfuse.threshold.conformal_pvalues`. For a batch, pass
            them to :func:`lpfuse.threshold.control_false_discoveries`, unless rows are in time
            order.
        """
        params.check_choice("level", level, ("adaptive", "fixed"))
        if level == "adaptive" and (time is not None or self.windows_ is not None):
            return self.verdicts(X, time).pvalues
        raw, features = self._score_table(self._table(X, time))
        return scoring.compare(
            self.result_, raw, self.result_.combination.score_samples(raw, features)
        )

    def integrative_pvalues(self, X: Any, method: str = "ratio") -> Host:
        """Return p-values that use labelled anomalies, with the validity of `pvalues`.

        Labelled anomalies choose among the detectors and their fused score: see
        :func:`lpfuse.threshold.integrative_pvalues`.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows.
        method : {"ratio", "best"}, default="ratio"
            How the scores of the detectors are combined.

        Returns
        -------
        ndarray of shape (n,)
            P-values; NaN where a detector gives no score.

        Examples
        --------
        >>> import numpy as np
        >>> from lpfuse import FusedDetector, GMMDetector, KernelPCADetector
        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal(size=(300, 2)), rng.normal(3, 1, size=(20, 2))])
        >>> y = np.repeat([1, -1], [300, 20])
        >>> pool = [("kpca", KernelPCADetector()), ("gmm", GMMDetector())]
        >>> fused = FusedDetector(pool, calibration="split", random_state=0).fit(X, y)
        >>> fused.integrative_pvalues([[3.0, 3.0], [0.0, 0.0]]) < 0.05
        array([ True, False])
        """
        check_is_fitted(self)
        result, known = self.result_, self.out_of_fold_.known
        if result.calibration.by != "split" or known is None or not (known < 0).any():
            raise ValueError(
                "Integrative p-values compare with normal rows that were set aside, and with "
                f'labelled anomalies; got calibration by "{result.calibration.by}" and '
                f"{0 if known is None else int((known < 0).sum())} anomalies. Fit with "
                'calibration="split" and some y = -1, or use pvalues.'
            )
        anomalies, aside = np.flatnonzero(known < 0), result.calibration
        fused, (raw, features) = result.held_out.fused, self._raw_scores(X)
        return integrative_pvalues(
            np.column_stack([aside.scores, fused[-aside.n_split :]]),
            np.column_stack([result.out_of_fold.scores[anomalies], fused[anomalies]]),
            np.column_stack([raw, result.combination.score_samples(raw, features)]),
            method,
        )

    def follow(self) -> Stream:
        """Return a stream that continues the training rows, which are in time order.

        Returns
        -------
        Stream
            ``judge(X)`` gives the verdicts of the next rows.
        """
        self._check_in_time()
        return Stream(self)

    def verdicts(self, X: Any, time: Any = None, *, stream: Stream | None = None) -> Verdicts:
        """Return score, decision, p-value, contributions and raw scores of each row.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows.
        time : array-like of shape (n,), optional
            As in `pvalues`.
        stream : Stream, optional
            Stream that the rows continue; it is updated. None: they continue the training rows.

        Returns
        -------
        Verdicts
            Results of `score_samples`, `decision_function`, `pvalues`, `contributions` and
            `detector_scores`; ``to_frame()`` converts them to a data frame.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from lpfuse import FusedDetector
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> fused = FusedDetector(["gmm", "kpca"], random_state=0).fit(X)
        >>> new = pd.DataFrame([[0.0, 0.0], [9.0, 9.0]], index=["P-1", "P-2"])
        >>> frame = fused.verdicts(new).to_frame()
        >>> frame.columns.tolist()
        ['score', 'p_value', 'decision', 'contribution:gmm', 'contribution:kpca']
        >>> frame["decision"].to_dict()
        {'P-1': 1, 'P-2': -1}
        """
        if is_blocked(X):
            raise TypeError(
                "verdicts are given of rows in memory. Of Dask rows, each of the other methods "
                "gives a lazy array; dask.compute on several of them reads the rows once."
            )
        check_is_fitted(self)
        result = self.result_
        if time is not None or result.windows is not None:
            begins = stream is None
            stream = self.follow() if stream is None else stream
            table = stream.features(X, time)
        else:
            table = self._table(X)
        raw, features = self._score_table(table)
        terms = result.combination.contributions(raw, features)
        scores: Host = terms.sum(axis=1)
        contributions = terms if result.combination.is_additive else None
        if stream is None:
            decision = scoring.decide(result, raw, scores, self._rule())
            pvalues = scoring.compare(result, raw, scores)
        else:
            learnt = np.zeros(len(scores), dtype=bool)
            if begins:  # perhaps with the training rows, which do not move the level
                places = places_in_training(self.rows_, table)
                learnt = (places >= 0) & (np.diff(places, prepend=-1) == 1)  # in their order
                learnt &= learnt[: result.n_learnt].mean() > 0.5
            pvalues = stream.level.update(np.where(learnt, np.nan, scores))
            if learnt.any():
                pvalues[learnt] = scoring.compare(result, raw[learnt], scores[learnt])
            decision = pvalues - np.nextafter(stream.level.rate, 1)  # the rate itself: an alarm
        found = Verdicts(scores, decision, pvalues, contributions, raw)
        return found.of_rows(X, result.pool.names)

    # ---------------------------------------------------------------------------------- explaining

    def explain(
        self,
        X: Any,
        *,
        background: Any = None,
        n_permutations: int | Literal["all"] | None = None,
        groups: Mapping[str, Any] | None = None,
        random_state: Any = 0,
    ) -> Explanation:
        r"""Explain the scores of rows by Shapley values of their columns.

        The columns of a background row are replaced by those of the row, one by one in random
        order. The value of a column is the mean change of the score over orders and background
        rows:

        .. math:: \sum_j \phi_j(x) = f(x) - \frac1B \sum_b f(b)

        with f = `score_samples`. These are interventional values in the terms of SHAP. Each order
        is used in both directions, so sums of functions of one or two columns are attributed
        without error. Up to five columns, all coalitions are evaluated.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows, for instance alarms. Each needs ``2 B (d − 1)`` scores with B background rows and
            one order each.
        background : int, array-like or data frame, default=None
            Background rows, or the number of training rows to draw, evenly over the scores of
            those that are predicted normal and not labelled as anomalies. None: 32.
        n_permutations : int or "all", default=None
            Orders per background row. None: 1 if the background is drawn, 2 if it is given. "all":
            exact values from all coalitions of up to 16 columns or groups.
        groups : mapping of str to columns, optional
            Columns that are explained together, such as the indicators of a category, by name or
            position. Other columns are explained separately.
        random_state : int, RandomState or None, default=0
            Seed for background and orders. The explanation of a row does not depend on the other
            rows.

        Returns
        -------
        Explanation
            ``values``, ``standard_errors``, ``base_value``, ``scores``, ``feature_names``.

        Examples
        --------
        >>> import numpy as np
        >>> from lpfuse import FusedDetector, GMMDetector
        >>> X = np.random.default_rng(0).normal(size=(200, 3))
        >>> fused = FusedDetector([("gmm", GMMDetector())], random_state=0).fit(X)
        >>> found = fused.explain([[0.0, 5.0, 0.0]])
        >>> found.reasons(0)
        ['column 1']
        >>> total = found.values.sum(axis=1) + found.base_value
        >>> bool(np.allclose(total, fused.score_samples([[0.0, 5.0, 0.0]])))
        True
        """
        check_is_fitted(self)
        if is_blocked(X):
            raise TypeError("Rows in memory are explained, got rows of Dask. Pass X.compute().")
        table, random = self._table(X), check_random_state(random_state)
        windows, made = self.windows_, self.preparation_
        rows = table if windows is None else table[:, : windows.n_features_in_]
        if made is None:
            players = explain.find_players(groups, rows, self)
        else:  # what counts are the columns of the frame
            players = explain.find_players(players_of(groups, made), rows, None)
        if windows is not None:  # a column has its windows
            players = players[0], np.tile(players[1], len(windows.features))
        scores = self._fused_scores(table)  # first: it warns of gaps
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            if background is not None and np.ndim(background) > 0:
                others, drawn = self._as_trained(self._table(background)), False
            else:
                n = (
                    explain.BACKGROUND
                    if background is None
                    else params.check_count("background", background)
                )
                others, drawn = explain.draw_background(
                    self.rows_, self.held_out_.labels, self._decisions, n, random
                )
            return explain.explain_rows(
                self._as_trained(table), scores, self._fused_scores, others, players,
                n_permutations=n_permutations, drawn=drawn, random=random,
            )  # fmt: skip

    def _as_trained(self, table: Table) -> Table:
        """Return rows in the form of the training rows, where these are kept."""
        numbers = None if self.rows_.values is None else as_numbers(table)
        return table if numbers is None else replace(self.rows_, values=numbers).table()

    # ------------------------------------------------------------------- answers, and changed rows

    def query(
        self,
        X: Any,
        n_instances: int = 1,
        *,
        groups: Any = None,
        explore: float = 0.1,
        random_state: Any = None,
        return_chances: bool = False,
    ) -> Any:
        r"""Draw informative rows to be labelled by a person, with known probabilities.

        Most questions go to the rows with the lowest scores of one-class detectors or experts, some
        to rows near the threshold, and a share `explore` to rows drawn uniformly. Systematic
        sampling along an order in which similar rows are neighbours makes similar rows rare, and
        equal rows impossible, in one call (see :mod:`lpfuse.answers`).

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (m, d)
            Candidate rows. Rows with a label from `fit` or `teach` are drawn only if there are no
            others. Training rows are recognised by value and have their held-out scores.
        n_instances : int, default=1
            Number of questions, at most the number of distinct rows.
        groups : array-like of shape (m,), optional
            At most one row of a group is drawn.
        explore : float in (0, 1], default=0.1
            Share of the questions drawn uniformly. 0.3 to 0.5 makes `audit_answers` more precise,
            and finds fewer anomalies.
        random_state : int, RandomState or None, default=None
            None: that of the detector.
        return_chances : bool, default=False
            Whether to return the probabilities, too, for `teach`.

        Returns
        -------
        positions : ndarray of shape (n_instances,)
            Rows of `X`.
        chances : ndarray of shape (n_instances,)
            Probability with which each row was drawn. Only if `return_chances`.

        Examples
        --------
        >>> import numpy as np
        >>> from lpfuse import FusedDetector, GMMDetector
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> X[7] = 9.0
        >>> fused = FusedDetector([("gmm", GMMDetector())], random_state=0).fit(X)
        >>> 7 in fused.query(X, 3)
        True
        """
        check_is_fitted(self)
        n = params.check_count("n_instances", n_instances)
        params.check_share("explore", explore, of="the questions", at_most=1)
        random = self._random(random_state)
        described: Any = self._describe(X)
        described = np.asarray(described.compute() if is_blocked(X) else described)
        numbers = None if is_blocked(X) else as_numbers(self._table(X))
        names = params.check_row_names(groups, len(described), "groups")
        positions, chances = active.choose_questions(
            self.result_, described, numbers, names, n, explore, random
        )
        return (positions, chances) if return_chances else positions

    @lazily(width=lambda _: 4, dtype="float64")
    def _describe(self, X: Any) -> Host:
        table = self._table(X)
        return active.describe_rows(self.result_, table, *self._score_table(table))

    @logged_once
    def teach(self, X: Any, y: Any, *, chances: Any = None) -> Self:
        """Refit weights, threshold and experts to answers; keep the one-class detectors.

        Parameters
        ----------
        X : array-like or data frame of shape (m, d)
            Rows with answers: training rows, which are recognised by value, or other rows, which
            are added to them.
        y : array-like of shape (m,)
            Labels as `fit` saw them; missing: don't know. If `fit` took no number otherwise: +1
            normal, −1 anomaly, 0 don't know.
        chances : array-like of shape (m,), optional
            Probability with which each row was drawn, from ``query(..., return_chances=True)``; NaN
            for other labels. Rows of one call belong to one query.

        Returns
        -------
        FusedDetector
            The updated detector. If the input is refused, it is unchanged.

        Notes
        -----
        A fit to the same rows and labels differs in one way: its one-class detectors do not learn
        from rows that turned out anomalous. The threshold rests on rows that nothing learnt from,
        as in a fit.

        Examples
        --------
        >>> import numpy as np
        >>> from lpfuse import FusedDetector, GMMDetector
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> X[:6] += 4.0
        >>> fused = FusedDetector([("gmm", GMMDetector())], random_state=0).fit(X, np.zeros(100))
        >>> rows, chances = fused.query(X, 10, return_chances=True)
        >>> answers = np.where(rows < 6, -1, 1)
        >>> fused = fused.teach(X[rows], answers, chances=chances)
        >>> fused.audit_answers().n_answers
        10
        """
        check_is_fitted(self)
        self._check_teachable()
        self.rows_.table()  # refuses words, which were not kept
        if is_blocked(X):
            raise ValueError(
                "Answers are of few rows: pass them in memory, X[positions].compute()."
            )
        table = self._table(X)
        answers = params.check_answers(y, table.shape[0], getattr(self, "label_words_", None))
        asked = np.full(len(answers), np.nan)
        if chances is not None:
            asked = params.check_chances(chances, len(answers))
        numbers = as_numbers(table)
        if numbers is None:
            raise ValueError("The answered rows hold words where the training rows had numbers.")
        if not answers.any():
            raise ValueError(
                "y has no answer: all rows are unlabelled. Pass labels that the fit saw, +1 "
                "(normal) or -1 (anomaly)."
            )
        result = active.relearn(
            self.result_, numbers, answers, asked, self._strategy(self.result_), self._rule(),
            cv=self.cv, n_jobs=self.n_jobs, random_state=self.random_state,
        )  # fmt: skip
        self.result_ = self._as_given(result)
        return self

    def audit_answers(self, *, confidence: float = 0.95) -> AnswerAudit:
        """Estimate how good the detector is, from the rows that were asked about alone.

        Scores are held-out: by detectors, weights and experts that did not learn from the row.

        Parameters
        ----------
        confidence : float in (0, 1), default=0.95
            Confidence level of the intervals.

        Returns
        -------
        AnswerAudit
            Share of anomalies, hit rate, precision, false alarms and AUC, each with an interval;
            ``.summary()`` returns them in sentences.
        """
        check_is_fitted(self)
        self._check_teachable()
        return active.audit(self.result_, confidence)

    def _check_teachable(self) -> None:
        if self.artificial_anomalies or self.cv == "in-sample":
            raise ValueError(
                'A detector with artificial_anomalies=True or cv="in-sample" cannot be taught, nor '
                "judged by answers: held-out scores of its rows were not kept. Fit it again with "
                "y=."
            )

    def recalibrate(
        self, X: Any, *, scale: bool | Literal["auto"] = "auto", subsample: int = SUBSAMPLE
    ) -> Self:
        r"""Move threshold, p-values and scale together to other normal rows; nothing is fitted.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Current normal rows that were not used for training.
        scale : bool or "auto", default="auto"
            Whether a third of the rows, drawn at random, sets the scale of the detectors' scores,
            and the others the threshold. "auto": from 200 rows on.
        subsample : int, default=20_000
            Number of evenly drawn rows of a Dask `X`.

        Returns
        -------
        FusedDetector
            The updated detector. If the input is refused, it is unchanged.

        Notes
        -----
        **Guarantee.** With m rows that set the threshold and are used for nothing else, a new
        normal row that is exchangeable with them is flagged with probability

        .. math:: \alpha - \frac{1}{m + 1} < P(\text{false alarm}) \le \alpha

        as after ``calibration="split"``; the left inequality needs scores without ties. With
        `confidence`, see :func:`lpfuse.threshold.conformal_offset`. Earlier rows no longer count:
        if X is from one shift or machine, so is the guarantee. Anomalies in X lower the threshold.

        **Unchanged** are detectors and weights. If normal rows of a new kind score as low as
        anomalies, fit again. `teach` and `with_fusion` keep the rows for the threshold, and learn
        the scale from the training rows again.

        Examples
        --------
        >>> import numpy as np
        >>> from lpfuse import FusedDetector
        >>> rng = np.random.default_rng(0)
        >>> fused = FusedDetector(["gmm", "histogram"], random_state=0).fit(
        ...     rng.normal(size=(500, 3))
        ... )
        >>> X = rng.normal(size=(2000, 3)) + 0.6  # the rows have moved
        >>> round(float(np.mean(fused.predict(X[1000:]) < 0)), 2)
        0.14
        >>> fused = fused.recalibrate(X[:1000])
        >>> round(float(np.mean(fused.predict(X[1000:]) < 0)), 2)
        0.04
        """
        check_is_fitted(self)
        params.check_choice("scale", scale, (True, False, "auto"))
        rule, random = self._rule(), self._random()
        if THRESHOLD_RULES[rule.threshold].needs_anomalies or rule.contamination is not None:
            by = f"contamination={rule.contamination}"
            if rule.contamination is None:
                by = f'threshold="{rule.threshold}"'
            raise ValueError(
                "recalibrate takes normal rows, and sets the threshold by a rate of false alarms; "
                f'here it is set by {by}. Fit with threshold="false-alarms", or fit again.'
            )
        if is_blocked(X):
            X, _ = draw_from_blocks(X, None, None, None, subsample, random)
        if self.windows_ is None:
            table, windows = self._table(X), None
        else:  # rows to come follow these
            stream, windows = self.follow(), copy(self.windows_)
            table, windows.history_ = stream.features(X), stream.history
            scale = scale is True
        if self.preparation_ is not None:  # rows without any value calibrate nothing
            table = table[~np.isnan(table).all(axis=1)]
        if not len(table):
            raise ValueError("recalibrate needs normal rows that hold some values, got none.")
        known = None if self.rows_.values is None else self.rows_.values[: self.result_.n_learnt]
        done = "false alarms will exceed the rate. Recalibrate on rows that came later"
        warn_of_training_rows(known, table, done, least=0.5)
        raw, features = self._score_table(table)
        result = active.recalibrate(self.result_, table, raw, features, rule, scale, random)
        self.result_ = replace(self._as_given(result), windows=windows)
        return self

    # ---------------------------------------------------------- parameters of detectors by name

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return parameters, and those of the listed detectors as ``name__parameter``.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include parameters of detectors, scaler and fusion.

        Returns
        -------
        dict
            Names and values.
        """
        parameters: dict[str, Any] = super().get_params(deep)
        if deep:
            for name, detector, *_ in self._listed():
                parameters[name] = detector
                inner = detector.get_params(True) if hasattr(detector, "get_params") else {}
                parameters.update({f"{name}__{key}": value for key, value in inner.items()})
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters, also those of the listed detectors: ``name=``, ``name__parameter=``.

        Parameters
        ----------
        **parameters
            Names and values.

        Returns
        -------
        FusedDetector
            The estimator.
        """
        if "detectors" in parameters:
            self.detectors = parameters.pop("detectors")
        listed = self._listed()
        replaced = {
            entry[0]: parameters.pop(entry[0]) for entry in listed if entry[0] in parameters
        }
        if replaced:
            self.detectors = [
                (name, replaced.get(name, detector), *columns)
                for name, detector, *columns in listed
            ]
        super().set_params(**parameters)
        return self

    def _listed(self) -> list[Any]:
        """Return the listed detectors; none where `fit` would refuse the list."""
        listed = self.detectors if isinstance(self.detectors, list | tuple) else []
        fits = all(isinstance(entry, tuple | list) and len(entry) in (2, 3) for entry in listed)
        return list(listed) if fits else []

    # ------------------------------------------------------------------------ files and notebooks

    def save(self, path: str | PathLike[str], *, key: bytes | None = None) -> None:
        """Write the fitted detector to a file, without pickle; `lpfuse.load` reads it.

        Parameters
        ----------
        path : path-like
            The file. An existing file is replaced only when the new one is complete.
        key : bytes, optional
            Secret to sign the file with, see :func:`lpfuse.io.save`.
        """
        save(self, path, key=key)

    # Attributes of files of earlier versions: parameters that are gone, and what is in `result_`.
    saved_formerly: ClassVar[frozenset[str]] = frozenset((
        "experts_see_scores", "on_missing", "subsample", "feature_imputer_", "following_",
        "fusion_", "held_out_", "offset_", "out_of_fold_", "pool_", "rounds_", "rows_", "scaler_",
        "unseen_",
    ))  # fmt: skip

    @classmethod
    def upgrade_saved(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Bring attributes of a file of an earlier version into today's form.

        Parameters
        ----------
        values : dict
            Attributes by name.

        Returns
        -------
        dict
            The same, without what is gone, and with the fitted ones in ``result_``.
        """
        former: dict[str, Any] = {name: values.get(name) for name in cls.saved_formerly}
        values = {name: value for name, value in values.items() if name not in former}
        held_out = former["held_out_"]
        if former["pool_"] is None or held_out is None:
            return values
        rows, rounds = former["rows_"], former["rounds_"]
        values["result_"] = CalibratedFit(
            former["pool_"], Combination(former["scaler_"], former["fusion_"]),
            former["feature_imputer_"], former["out_of_fold_"], held_out,
            former["unseen_"] or CalibrationRows(), former["offset_"],
            StoredRows(None) if rows is None else rows,
            np.zeros(len(held_out.labels), np.intp) if rounds is None else rounds,
        )  # fmt: skip
        return values

    def card(
        self,
        path: str | PathLike[str],
        X: Any = None,
        y: Any = None,
        *,
        title: str = "Model card",
        use: str | None = None,
    ) -> None:
        """Write a model card in Markdown: data, weights, certificate, calibration, limits.

        Parameters
        ----------
        path : path-like
            The file. An existing file is replaced only when the new one is complete.
        X, y : rows and labels, optional
            Rows to measure on; by default the training rows, out of fold.
        title, use : str, optional
            Title and intended use. See :func:`lpfuse_cli.report.write_card`.
        """
        write_card(self, path, X, y, title=title, use=use)

    def summary(self) -> str:
        """Describe the fit: rows, columns, the origin of the weights, and the threshold.

        Returns
        -------
        str
            Sentences, then a line for each detector, the largest weight first.

        Examples
        --------
        >>> import numpy as np
        >>> from lpfuse import FusedDetector
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> print(FusedDetector(["gmm", "kpca"], random_state=0).fit(X).summary())
        Learnt from 100 rows: 100 unlabelled.
        ...
        """
        check_is_fitted(self)
        lines = [*self.notes_, *describe_learning(self)]
        if self.windows_ is None:
            lines.append(f"A score below {self.offset_:.4g} is an anomaly.")
        if self.windows_ is not None or self.order_.because:
            lines.append(self.calibration_promise_.sentence())
        weights = getattr(self.fusion_, "weights_", None)
        if weights is not None:
            order = np.argsort(-np.abs(weights), kind="stable")
            lines += [f"{weights[j]:8.3f}  {self.detector_names_[j]}" for j in order]
        return "\n".join(lines)

    def _html_repr(self) -> str:
        """Return scikit-learn's diagram and, once fitted, a table of the weights."""
        diagram: str = super()._html_repr()
        if not hasattr(self, "result_"):
            return diagram
        weights = getattr(self.fusion_, "weights_", None)
        table = scoring.weights_table(
            self.detector_names_, weights, describe_learning(self), self.offset_
        )
        return diagram + table

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    # ----------------------------------------------------------------------- views of the result

    @property
    def fitted_scores_(self) -> Host:
        """The fused score of each row that was passed to `fit`, by fits that did not see it."""
        check_is_fitted(self)
        kept, hashes = self.rows_.values, getattr(self, "fitted_rows_", None)
        if kept is None or hashes is None:
            raise AttributeError(
                "Scores of the rows that were fitted are known where these were numbers in memory, "
                "and the model was saved by this version. Use held_out_, or fit again."
            )
        known = hash_rows(kept)
        order = np.argsort(known, kind="stable")
        found = order[np.minimum(np.searchsorted(known, hashes, sorter=order), len(known) - 1)]
        directly = np.nan if self.fitted_directly_ is None else self.fitted_directly_
        return np.where(known[found] == hashes, self.result_.own_fused[found], directly)

    @property
    def fitted_labels_(self) -> NDArray[np.int64]:
        """The decision about each row that was passed to `fit`: +1 normal, −1 anomaly."""
        return signs(self.fitted_scores_ - self.offset_)

    @property
    def columns_(self) -> dict[str, str]:
        """What each column of the data frame was taken for; empty where rows were an array."""
        return {} if self.preparation_ is None else self.preparation_.kinds

    @property
    def notes_(self) -> list[str]:
        """What was taken as what, what was left out and why, in sentences."""
        return [] if self.preparation_ is None else self.preparation_.notes

    @property
    def preparation_(self) -> TablePreparation | None:
        """How the columns of a data frame become features; None where rows were an array."""
        return self.result_.preparation

    @property
    def order_(self) -> RowOrder:
        """What is known of the order of the training rows."""
        return self.result_.order

    @property
    def windows_(self) -> Windows | None:
        """How rows in time order become those that the detectors see; None without time."""
        check_is_fitted(self)
        return self.result_.windows

    @property
    def calibration_promise_(self) -> CalibrationPromise:
        """What is promised about false alarms; false, with the reason, where nothing is."""
        check_is_fitted(self)
        return promise_of(self)

    @property
    def offset_(self) -> float:
        """The threshold; it can be set, for rows that every detector scores."""
        return self.result_.offset

    @offset_.setter
    def offset_(self, value: float) -> None:
        self.result_ = replace(self.result_, offset=value)

    @property
    def weights_(self) -> Host:
        """The weight of each detector, for a fusion that is a weighted sum."""
        if not hasattr(self.fusion_, "weights_"):
            raise AttributeError(f"{self.fusion_!r} is no weighted sum: it has no weights.")
        return self.fusion_.weights_

    @property
    def certificate_(self) -> Certificate | None:
        """The proof that comes with the weights; None for a fusion without one."""
        return getattr(self.fusion_, "certificate_", None)

    @property
    def detectors_(self) -> list[tuple[str, Any, Index | None]]:
        """Name, fitted detector and positions of its columns (None: all) of each detector."""
        return [(member.name, member.estimator, member.columns) for member in self.pool_.members]

    @property
    def detector_names_(self) -> list[str]:
        """Names of the detectors, in the order of the weights."""
        return self.result_.pool.names

    @property
    def pool_(self) -> Pool:
        """The fitted detectors."""
        return self.result_.pool

    @property
    def scaler_(self) -> Any:
        """The fitted scaler."""
        return self.result_.combination.scaler

    @property
    def fusion_(self) -> Any:
        """The fitted fusion."""
        return self.result_.combination.fusion

    @property
    def combination_(self) -> Combination:
        """`scaler_` and `fusion_`: from raw scores to fused ones."""
        check_is_fitted(self)
        return self.result_.combination

    @property
    def feature_imputer_(self) -> Any:
        """What fills in missing cells for a fusion that looks at the features."""
        return self.result_.imputer

    @property
    def out_of_fold_(self) -> OutOfFoldScores:
        """What the weights were learnt from."""
        return self.result_.out_of_fold

    @property
    def held_out_(self) -> HeldOutScores:
        """Fused scores by weights that were not learnt from the row."""
        return self.result_.held_out

    @property
    def calibration_(self) -> Host:
        """Fused scores of the normal rows that calibrate, ascending."""
        return self.result_.held_out.normal_scores()

    @property
    def unseen_(self) -> CalibrationRows:
        """Raw scores of the rows that calibrate."""
        return self.result_.calibration

    @property
    def rows_(self) -> StoredRows:
        """The training rows, then those set aside."""
        return self.result_.rows

    @property
    def rounds_(self) -> NDArray[np.intp]:
        """The round of questions in which each of `rows_` was taught; 0: in none."""
        return self.result_.rounds

    @property
    def contamination_(self) -> Estimate:
        """The share of anomalies among the training rows, with its 95 % interval.

        From rows that were asked about with known chances, by how strange these rows were. Without
        any: what is believed of an unlabelled table.
        """
        return active.estimate_contamination(self.result_)


@saved_as("TableModel", label=ANY, normal=ANY, anomaly=ANY, notes=(...,))
@dataclass(eq=False)
class TableModel:
    """What files of earlier versions hold of a table: they are loaded as a `FusedDetector`."""

    preparation: TablePreparation
    fused: FusedDetector
    label: str | None
    normal: Any
    notes: list[str]
    format: TableFormat = OPEN
    anomaly: Any = None

    def restored(self, charge: Any) -> FusedDetector:
        """Return the detector, which now holds how columns become features."""
        fused, made = self.fused, self.preparation
        made.names = (*made.columns, *made.dropped)
        made.told = tuple(note for note in self.notes if note not in made.notes)
        made.label, made.format = self.label, self.format
        made.normal, made.anomaly = self.normal, self.anomaly
        fused.result_ = replace(fused.result_, preparation=made)
        fused.n_features_in_ = len(made.names)
        fused.feature_names_in_ = np.array(made.names, dtype=object)
        return fused
