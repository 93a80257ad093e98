"""FusedDetector: from detectors to decisions."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from copy import copy as shallow_copy
from copy import deepcopy
from dataclasses import replace
from os import PathLike
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays import Host, is_blocked
from lpfuse._base import Scorer, lazily
from lpfuse._checks.data import check_labels, check_row_names, check_table, remember_columns
from lpfuse._checks.parameters import check_choice, check_count, check_number, is_count
from lpfuse._saved import saved_as
from lpfuse.ensemble._artificial import shaken_rows
from lpfuse.ensemble._audit import audit
from lpfuse.ensemble._combination import Combination, Gaps, Judged, by_gaps
from lpfuse.ensemble._defaults import default_entries, default_fusion, paper_entries
from lpfuse.ensemble._folds import deal_out, settle_folds, settle_kinds
from lpfuse.ensemble._lessons import Lessons, Training, Workshop, teaching
from lpfuse.ensemble._members import Member, a_seed, members_of, seeded, with_seed
from lpfuse.ensemble._nested import NamedDetectors
from lpfuse.ensemble._pool import Choice, Pool, learn_pool
from lpfuse.ensemble._portrait import portrait
from lpfuse.ensemble._subsample import subsample_of
from lpfuse.ensemble._tables import Index, Table, numbers_of, rows_of
from lpfuse.io import save
from lpfuse.scaling import TwoSidedMinMax
from lpfuse.threshold import (
    conformal_offset,
    conformal_pvalues,
    contamination_offset,
    g_mean_offset,
)

FOLDS_OF_WEIGHTS = 5  # where the detectors have no folds, the weights still need some
HELD_OUT = 0.2  # share of the normal rows that calibration="split" keeps from everything else


def _n_detectors(fused: FusedDetector) -> int:
    return len(fused.pool_.members)


class Verdicts(NamedTuple):
    """All that a fused detector says of n rows.

    Attributes
    ----------
    scores : ndarray of shape (n,)
        Fused scores, high = normal.
    decision : ndarray of shape (n,)
        Signed distance to the threshold: negative for anomalies.
    pvalues : ndarray of shape (n,)
        Small for anomalies.
    contributions : ndarray of shape (n, R) or None
        What each detector adds to the score; None where that is no sum.
    detector_scores : ndarray of shape (n, R)
        What each detector says, before scaling.
    """

    scores: Host
    decision: Host
    pvalues: Host
    contributions: Host | None
    detector_scores: Host


@saved_as("FusedDetector")
class FusedDetector(NamedDetectors, Scorer):
    r"""Several anomaly detectors, fused into one that is better and knows its false alarms.

    Every row gets the raw scores of R detectors, these are put on one scale, and their weighted
    sum, high = normal, is compared with a threshold:

    .. math:: f(x) = \sum_{j=1}^R w_j \, s'_j(x), \qquad \text{normal} \iff f(x) \ge \text{offset}

    Scale and weights are learnt from *out-of-fold* scores, each by detectors that have not seen the
    row, for a detector's scores of its own training rows flatter those that overfit. The detectors
    are then fitted once more, on all rows.

    Parameters
    ----------
    detectors : None, "paper" or list, default=None
        ``(name, detector)`` or ``(name, detector, columns)``. A detector is one of lpfuse,
        scikit-learn or PyOD; a classifier, which becomes an expert that learns from labelled
        anomalies; a Pipeline that ends in one of these; anything else with a stated direction
        (:class:`lpfuse.adapters.ScoreFunction`); or any of them fitted already, wrapped in
        :class:`sklearn.frozen.FrozenEstimator`. Columns are names, positions, a slice, a mask or a
        function of `X`. "paper": SVDD, Gaussian process, kernel PCA and mixture, on standardised
        features. None: these four in other settings, an isolation forest and local outlier factors;
        with labelled anomalies also experts: trees and a logistic regression from 2 on, a random
        forest from 50 on (``docs/adr/0006``).
    scaler : transformer, default=None
        Puts scores on one scale; None: ``TwoSidedMinMax()``.
    fusion : estimator, default=None
        Learns the weights from scaled scores; None: an `LpFusion` with p = 4, w ≥ 0, an intercept,
        balanced classes and an imaginary anomaly, safe with any number of labels.
    cv : int, splitter, iterable, "in-sample" or "prefit", default=5
        The folds. An int keeps the share of labels equal; any splitter whose test parts do not
        overlap will do. "in-sample": scores of the detectors' own training rows, as in the paper.
        "prefit": the detectors are fitted already, on other rows than these.
    experts_see_scores : bool, default=True
        Whether experts see, beside the features, the scaled scores of the other detectors.
    artificial_anomalies : bool, default=False
        Whether, where no anomaly is labelled, shaken copies of normal rows teach the weights.
    threshold : {"false-alarms", "g-mean"}, default="false-alarms"
        What sets the threshold: conformal calibration to `false_alarm_rate`, or the best geometric
        mean of the hit rates on labelled rows.
    false_alarm_rate : float in (0, 0.5], default=0.05
        Share of normal rows that may be called anomalies.
    contamination : float in (0, 0.5], default=None
        If given, it sets the threshold: that share of the training rows lies below.
    calibration : {"cross", "plain", "split"}, default="cross"
        Which normal rows set the false-alarm rate. "cross": all, by detectors and weights learnt
        without their fold, and continued to detectors that learn from all rows, which comes within
        about a point of the rate. "plain": the same without the continuation, which saves a third
        of the fits and raises too few alarms; where scores alone matter. "split": a fifth of them,
        which nothing else learns from; the rate is then guaranteed, see
        :func:`lpfuse.threshold.conformal_offset`.
    on_missing : {"warn", "raise"}, default="warn"
        What to do where a detector cannot score a row: let the others decide, and say so, or stop.
    n_jobs : int, default=None
        Detectors and folds that are fitted at a time, as in joblib.
    random_state : int, RandomState or None, default=None
        Deals rows out to folds, and seeds the detectors whose own ``random_state`` is None. The
        result does not depend on `n_jobs`.
    progress : bool or callable, default=False
        True: a line on standard error. A function is called with the number of fits that are done
        and of all.
    subsample : int, default=20_000
        Rows that a Dask `X` is cut to for training: drawn evenly, but of known anomalies all are
        taken, up to half of this. Arrays in memory are used whole.

    Attributes
    ----------
    weights_ : ndarray of shape (R,)
        The weight of each detector.
    detector_names_ : list of str
        Names of the detectors in the order of the weights: one-class detectors, then experts.
    detectors_ : list of (name, detector, columns)
        The fitted detectors.
    certificate_ : Certificate or None
        How far the weights can be from optimal.
    offset_ : float
        The threshold.
    scaler_, fusion_ : estimators
        Fitted.
    calibration_ : ndarray
        Fused scores of the normal rows that p-values compare with, ascending.
    lessons_ : Lessons
        What the weights were learnt from: raw out-of-fold ``scores`` (n×R), ``labels``, ``fold``.
    n_features_in_ : int
        Number of columns of `X`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, when `X` had them.

    Notes
    -----
    **Without anomalies** nothing tells whether a detector separates them; the data only show what
    is usual among normal rows. The default weights then rest on a prior, that what all detectors
    find strange is an anomaly, and are near uniform. Artificial anomalies add another, that
    anomalies look like shaken normal rows. A handful of labelled ones is worth more than either.

    **Kinds of anomalies to come.** Experts know the labelled kinds best. Pass ``kind`` to `fit`
    where new kinds must be expected: scores of each kind then come from experts that never saw it,
    and the weights trust them as far as that deserves.

    **Silent detectors.** Where a detector gives no score (a missing cell, an error), the weights of
    the others grow in proportion, so that they sum to the same in absolute value; the threshold and
    the p-values are those that calibration rows give for the same detectors. Nothing is imputed.

    **Dask.** A Dask array or data frame is drawn from for training, in one pass, and what is asked
    of a fitted detector about Dask rows is answered lazily, block by block. Weights can be learnt
    from the scores of all rows, which need not have been trained on::

        S = fused.scaler_.transform(fused.detector_scores(X))  # lazy
        fusion = LpFusion().fit(S, y)  # every row counts; with its certificate

    See Also
    --------
    lpfuse.FusedDetectorCV : Chooses p, ρ and the detectors' parameters as well.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import LocalOutlierFactor
    >>> from lpfuse import FusedDetector, GMMDetector, KernelPCADetector
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))  # normal rows
    >>> detectors = [
    ...     ("kpca", KernelPCADetector()),
    ...     ("gmm", GMMDetector()),
    ...     ("lof", LocalOutlierFactor(novelty=True)),
    ... ]
    >>> fused = FusedDetector(detectors, random_state=0).fit(X)
    >>> fused.predict([[0.0, 0.0], [5.0, 5.0]])
    array([ 1, -1])
    >>> bool((fused.contributions(X).sum(axis=1) == fused.score_samples(X)).all())
    True
    """

    def __init__(
        self,
        detectors: Any = None,
        *,
        scaler: Any = None,
        fusion: Any = None,
        cv: Any = 5,
        experts_see_scores: bool = True,
        artificial_anomalies: bool = False,
        threshold: Literal["false-alarms", "g-mean"] = "false-alarms",
        false_alarm_rate: float = 0.05,
        contamination: float | None = None,
        calibration: Literal["cross", "plain", "split"] = "cross",
        on_missing: Literal["warn", "raise"] = "warn",
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool | Callable[[int, int], None] = False,
        subsample: int = 20_000,
    ) -> None:
        self.detectors = detectors
        self.scaler = scaler
        self.fusion = fusion
        self.cv = cv
        self.experts_see_scores = experts_see_scores
        self.artificial_anomalies = artificial_anomalies
        self.threshold = threshold
        self.false_alarm_rate = false_alarm_rate
        self.contamination = contamination
        self.calibration = calibration
        self.on_missing = on_missing
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress
        self.subsample = subsample

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, kind: Any = None) -> Self:
        """Fit the detectors, learn the weights, set the threshold.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Rows. Cells may be missing; a detector that cannot do with that learns from the rows
            that are complete in its columns. Of Dask, `subsample` rows are learnt from.
        y : array-like, or Dask array or series, of shape (n,), optional
            +1 normal, −1 anomaly, 0 unlabelled. Without it all rows are normal. Unlabelled rows
            train the detectors; they teach the weights only where no row is labelled normal.
        groups : array-like of shape (n,), optional
            Rows of one group (a person, a machine, a day) are never both learnt from and scored.
        kind : array-like of shape (n,) or "clusters", optional
            Kinds of anomalies, by name or as clusters of their features. Each kind is then scored
            by experts that have not seen it, as kinds that are yet to come will be.

        Returns
        -------
        FusedDetector
            The fitted estimator.
        """
        self._check_parameters()
        random = check_random_state(self.random_state)
        if is_blocked(X):
            X, y = self._drawn(X, y, groups, kind, random)
        table = check_table(X)
        n = table.shape[0]
        labels = self._check_labels(y, n)
        groups = check_row_names(groups, n, "groups")
        if not isinstance(kind, str):
            kind = check_row_names(kind, n, "kind")

        spare = self._spare_rows(labels, groups, random)
        training = self._training(table, labels, groups, kind, ~spare, random)
        members = seeded(self._members(training), random)
        found: dict[str, Any] = {}  # attributes of those who choose on the way
        pool, scores, coarser = learn_pool(
            members,
            training,
            Workshop(self.n_jobs, _progress(self.progress)),
            scaler=self._settled_scaler() if self.experts_see_scores else None,
            choose=self._choice(training, found),
            coarser=self.calibration == "cross",
        )
        space_filler = self._space_filler(training)
        lessons = self._lessons(training, scores, coarser, pool, random, space_filler)
        scaler, fusion = self._settle_combination(lessons, found)
        combination = self._learn(scaler, fusion, lessons, pool)

        held_out = self._held_out(scaler, fusion, lessons)[: len(training.labels)]
        ahead = 0.0 if coarser is None else training.folds_ahead
        if spare.any():
            # Rows that nothing has learnt from take the place of normal ones out of fold.
            rows = np.flatnonzero(spare & (teaching(labels) > 0))
            kept_back = rows_of(table, rows)
            raw, errors = pool.scores(kept_back, self.n_jobs)
            self._report_gaps(raw, errors, pool)
            space = _space(space_filler, kept_back)
            unseen = Judged.by(combination, raw, np.ones(len(raw)), space)
            held_out = Judged.joined([unseen, held_out[held_out.labels <= 0]])
        decisive = held_out
        if self.contamination is not None:
            raw, _ = pool.scores(table, self.n_jobs)
            decisive = Judged.by(combination, raw, labels, _space(space_filler, table))
        offset = self._offset(decisive, ahead)

        remember_columns(self, X)
        for name, value in found.items():
            setattr(self, name, value)
        self.pool_ = pool
        self.scaler_, self.fusion_ = combination.scaler, combination.fusion
        self.space_filler_ = space_filler
        self.held_out_, self.decisive_, self.ahead_ = held_out, decisive, ahead
        self.lessons_ = replace(lessons, space=None)
        self.offset_ = offset
        return self

    @lazily(width=_n_detectors, dtype="float64")
    def detector_scores(self, X: Any) -> Host:
        """What each detector says of each row, before scaling.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, R)
            Raw scores, high = normal; NaN where a detector could not score a row.
        """
        return self._seen(X)[0]

    def _seen(self, X: Any) -> tuple[Host, Host | None]:
        """Raw scores of rows; their features, where the fusion looks at them."""
        check_is_fitted(self)
        table = check_table(X, estimator=self)
        raw, errors = self.pool_.scores(table, self.n_jobs)
        self._report_gaps(raw, errors, self.pool_, self._combination.trust)
        return raw, _space(self.space_filler_, table)

    def contributions(self, X: Any) -> Host:
        """What each detector adds to the fused score; rows sum to ``score_samples(X)``.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, R)
            ``w_j s_ij`` with scaled scores ``s_ij``; 0 where a detector was silent, NaN where all
            that have a weight were.
        """
        if not self._combination.is_additive:
            raise AttributeError(
                f"{self.fusion_!r} does not add up the scores of the detectors, so there is no "
                "telling what each of them contributed."
            )
        return self._parts(X)

    @lazily(width=_n_detectors, dtype="float64")
    def _parts(self, X: Any) -> Host:
        return self._combination.parts(*self._seen(X))

    @lazily(dtype="float64")
    def score_samples(self, X: Any) -> Host:
        """Fused score of each row, high = normal.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            Scores; NaN where no detector that has a weight could score the row.
        """
        return self._combination.fused(*self._seen(X))

    @lazily(dtype="float64")
    def decision_function(self, X: Any) -> Host:
        """``score_samples(X) − offset_``: negative for anomalies.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            Signed distance to the threshold. A row of which some detectors are silent is measured
            against the threshold for those that speak, NaN where none does; `predict` calls such
            a row an anomaly, for nobody vouches for it.
        """
        raw, space = self._seen(X)
        return self._decide(raw, self._combination.fused(raw, space))

    def _decide(self, raw: Host, scores: Host) -> Host:
        decision = scores.copy()
        for rows, silent in by_gaps(np.isnan(raw)):
            others = silent.any()
            offset = self._offset(self.decisive_, self.ahead_, silent) if others else self.offset_
            decision[rows] -= offset
        return decision

    @lazily(dtype="float64")
    def pvalues(self, X: Any) -> Host:
        """How unusual each row is among normal ones: small for anomalies.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            Conformal p-values, see :func:`lpfuse.threshold.conformal_pvalues`. Hand those of a
            batch to :func:`lpfuse.threshold.control_false_discoveries`.
        """
        raw, space = self._seen(X)
        return self._unusual(raw, self._combination.fused(raw, space))

    def _unusual(self, raw: Host, scores: Host) -> Host:
        found = np.empty(len(scores))
        for rows, silent in by_gaps(np.isnan(raw)):
            normal = self.held_out_.normal_scores(self.ahead_, silent)
            found[rows] = conformal_pvalues(normal, scores[rows])
        return found

    def verdicts(self, X: Any) -> Verdicts:
        """Everything at once: the detectors are asked only once.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows.

        Returns
        -------
        Verdicts
            What `score_samples`, `decision_function`, `pvalues`, `contributions` and
            `detector_scores` give.
        """
        if is_blocked(X):
            raise TypeError(
                "verdicts are given of rows in memory. Of Dask rows, score_samples, "
                "decision_function, pvalues, contributions and detector_scores each give a lazy "
                "array; dask.compute on several of them reads the rows once."
            )
        raw, space = self._seen(X)
        parts = self._combination.parts(raw, space)
        scores: Host = parts.sum(axis=1)
        contributions = parts if self._combination.is_additive else None
        decision, pvalues = self._decide(raw, scores), self._unusual(raw, scores)
        return Verdicts(scores, decision, pvalues, contributions, raw)

    def with_fusion(self, fusion: Any, scaler: Any = None) -> Self:
        """A copy with other weights, learnt from the same scores: no detector is fitted again.

        Parameters
        ----------
        fusion : estimator or None
            As the parameter of that name. One that looks at features is refused: they are not kept.
        scaler : transformer, optional
            As the parameter of that name; experts that see scaled scores keep the scale they had.

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
        copy = shallow_copy(self).set_params(fusion=fusion, scaler=scaler)
        if getattr(fusion, "uses_features", False):
            raise ValueError(f"{fusion!r} looks at the features of the rows: fit anew with it.")
        if self.contamination is not None or self.calibration == "split":
            raise ValueError(
                "The threshold rests on rows whose scores were not kept, for contamination or "
                'calibration="split" asks for it. Fit anew, or with calibration="cross".'
            )
        n = len(self.held_out_.labels)
        settled_scaler, settled_fusion = copy._settle_combination(self.lessons_, {})
        combination = copy._learn(settled_scaler, settled_fusion, self.lessons_, self.pool_)
        copy.held_out_ = copy._held_out(settled_scaler, settled_fusion, self.lessons_)[:n]
        copy.decisive_, copy.space_filler_ = copy.held_out_, None
        copy.scaler_, copy.fusion_ = combination.scaler, combination.fusion
        copy.offset_ = copy._offset(copy.decisive_, self.ahead_)
        return copy

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted detector to a file, without pickle; `lpfuse.load` reads it.

        Parameters
        ----------
        path : path-like
            The file. It appears whole or not at all.
        """
        save(self, path)

    @property
    def detectors_(self) -> list[tuple[str, Any, Index | None]]:
        """Name, fitted detector and positions of its columns (None: all) of each detector."""
        return [(member.name, member.estimator, member.columns) for member in self.pool_.members]

    @property
    def detector_names_(self) -> list[str]:
        """Names of the detectors, in the order of the weights."""
        return [member.name for member in self.pool_.members]

    @property
    def weights_(self) -> Host:
        """The weight of each detector, for a fusion that is a weighted sum."""
        if not hasattr(self.fusion_, "weights_"):
            raise AttributeError(f"{self.fusion_!r} is no weighted sum: it has no weights.")
        return self.fusion_.weights_

    @property
    def certificate_(self) -> Any:
        """The proof that comes with the weights; None for a fusion without one."""
        return getattr(self.fusion_, "certificate_", None)

    @property
    def calibration_(self) -> Host:
        """Fused scores of normal rows that the weights were not learnt from, ascending."""
        return self.held_out_.normal_scores(self.ahead_)

    @property
    def _combination(self) -> Combination:
        check_is_fitted(self)
        return Combination(self.scaler_, self.fusion_)

    # The steps of fit, in their order; FusedDetectorCV chooses where these settle.

    def _check_parameters(self) -> None:
        check_choice("threshold", self.threshold, ("false-alarms", "g-mean"))
        check_choice("calibration", self.calibration, ("cross", "plain", "split"))
        check_choice("on_missing", self.on_missing, ("warn", "raise"))
        check_count("subsample", self.subsample)
        hint = "It is a share of the normal rows: write 0.05 for 5 %."
        check_number("false_alarm_rate", self.false_alarm_rate, above=0, at_most=0.5, hint=hint)
        if self.contamination is not None:
            hint = "It is a share of the training rows: write 0.1 for 10 %."
            check_number("contamination", self.contamination, above=0, at_most=0.5, hint=hint)
        if isinstance(self.cv, str):
            check_choice("cv", self.cv, ("in-sample", "prefit"))
        if isinstance(self.detectors, str):
            check_choice("detectors", self.detectors, ("paper",))
        if self.cv == "prefit" and (self.detectors is None or isinstance(self.detectors, str)):
            raise ValueError(
                'cv="prefit" needs a list of fitted detectors, got '
                f"detectors={self.detectors!r}, which have yet to be fitted."
            )
        is_listed = not isinstance(self.cv, str) and not hasattr(self.cv, "split")
        if self.calibration == "split" and is_listed and not is_count(self.cv):
            raise ValueError(
                'calibration="split" keeps rows back before there are folds, so a list of splits '
                "cannot be followed. Pass a number of folds or a splitter."
            )

    def _drawn(
        self, X: Any, y: Any, groups: Any, kind: Any, random: np.random.RandomState
    ) -> tuple[Table, Host | None]:
        """Rows of a Dask collection to learn from, in memory; all, where they are few enough."""
        for name, value in (("groups", groups), ("kind", kind)):
            if value is not None and not isinstance(value, str):
                raise TypeError(
                    f"{name} cannot go with rows of Dask, which are drawn from for training. Draw "
                    "rows with what belongs to them, bring them into memory, and pass those."
                )
        # From a copy: where all rows are taken, the rest of the fit is what it is in memory.
        return subsample_of(X, y, int(self.subsample), a_seed(deepcopy(random)))

    def _check_labels(self, y: Any, n: int) -> Host:
        labels = check_labels(y, n, unlabelled=True)
        labels = np.ones(n) if labels is None else labels
        if self.threshold == "g-mean" and self.contamination is None and not (labels < 0).any():
            raise ValueError(
                'threshold="g-mean" needs labelled anomalies, and y has none. Use threshold='
                '"false-alarms", which needs normal rows only.'
            )
        return labels

    def _spare_rows(
        self, labels: Host, groups: NDArray[Any] | None, random: np.random.RandomState
    ) -> NDArray[np.bool_]:
        """Which rows nothing learns from: normal ones for the threshold, with their groups."""
        spare = np.zeros(len(labels), dtype=bool)
        if self.calibration == "split":
            normal = np.flatnonzero(teaching(labels) > 0)
            names = normal if groups is None else np.unique(groups[normal])
            if len(names) < 2:
                what = "n_samples" if groups is None else "groups"
                raise ValueError(
                    'calibration="split" needs normal rows to learn from and others for the '
                    f"threshold, got {what}={len(names)}. Bring more rows."
                )
            chosen = random.permutation(names)[: max(1, round(HELD_OUT * len(names)))]
            spare = np.isin(np.arange(len(labels)) if groups is None else groups, chosen)
        return spare

    def _training(
        self,
        table: Table,
        labels: Host,
        groups: NDArray[Any] | None,
        kind: Any,
        learn: NDArray[np.bool_],
        random: np.random.RandomState,
    ) -> Training:
        """Rows to learn from, dealt out into folds; where wanted, with artificial anomalies."""
        if kind is not None and groups is not None:
            raise ValueError(
                "Pass groups or kind, not both: to hide a kind, its anomalies must share a fold."
            )
        X, labels = rows_of(table, np.flatnonzero(learn)), labels[learn]
        groups = None if groups is None else groups[learn]
        kind = kind if kind is None or isinstance(kind, str) else kind[learn]
        kinds = settle_kinds(kind, X, labels, random)
        folds = None
        if not isinstance(self.cv, str):
            folds = settle_folds(self.cv, labels, groups, kinds, random)
        elif kinds is not None:
            raise ValueError(
                f"kind hides a kind of anomalies at a time, which takes folds; got cv={self.cv!r}."
            )
        training = Training(X, labels, folds, groups, kinds)
        if not self._shakes(training):
            return training
        source = np.flatnonzero(training.teaching > 0)
        return replace(training, shaken=shaken_rows(X, source, random), source=source)

    def _shakes(self, training: Training) -> bool:
        return self.artificial_anomalies and not (training.labels < 0).any()

    def _members(self, training: Training) -> list[Member]:
        """The detectors, without experts that there are no labels for."""
        can_learn = training.experts_can_learn
        if self.detectors is None:
            anomalies = int((training.labels < 0).sum())
            has_folds = training.folds is not None
            entries = default_entries(
                int((training.labels >= 0).sum()), anomalies if can_learn and has_folds else 0
            )
        else:
            entries = paper_entries() if self.detectors == "paper" else self.detectors
        members = members_of(
            entries,
            training.X,
            prefit=self.cv == "prefit",
            reserved=self.get_params(deep=False).keys(),
        )
        experts = [member.name for member in members if member.learns_from_anomalies]
        if not experts:
            return members
        if training.folds is None:
            raise ValueError(
                f"{_named(experts)} learn from anomalies, so their scores of the rows that they "
                "learnt from tell nothing. Use folds: cv=5."
            )
        if can_learn:
            return members
        few = (
            "they learn from anomalies, and whichever fold is hidden, both normal rows and "
            "anomalies must remain: label at least 2 of each, of 2 groups or kinds where these are "
            "kept apart"
        )
        if len(experts) == len(members):
            raise ValueError(
                f"{_named(experts)} cannot be fitted: {few}. Or add detectors that learn from "
                "normal rows."
            )
        warnings.warn(f"{_named(experts)} are left out: {few}.", UserWarning, stacklevel=3)
        return [member for member in members if not member.learns_from_anomalies]

    def _settled_scaler(self) -> Any:
        return TwoSidedMinMax() if self.scaler is None else self.scaler

    def _choice(self, training: Training, found: dict[str, Any]) -> Choice | None:
        """Which members to keep, given their scores; None: all."""
        return None

    def _space_filler(self, training: Training) -> SimpleImputer | None:
        """Places a row with missing cells, for a fusion that looks at features, at their means."""
        if not getattr(self.fusion, "uses_features", False):
            return None
        filler = SimpleImputer(keep_empty_features=True)
        return filler.fit(numbers_of(training.X)[training.labels >= 0])

    def _lessons(
        self,
        training: Training,
        scores: Host,
        coarser: Host | None,
        pool: Pool,
        random: np.random.RandomState,
        space_filler: SimpleImputer | None,
    ) -> Lessons:
        """Scores that teach the weights; rows with gaps do not."""
        fold = training.fold_of_everything
        if training.folds is None:
            dealt = deal_out(len(training.labels), training.groups, FOLDS_OF_WEIGHTS, random)
            fold = np.concatenate([dealt, dealt[training.source]])
        truth = training.everything
        labels = truth.copy()
        if not self.artificial_anomalies:
            labels[len(training.labels) :] = 0
        if coarser is not None:  # artificial anomalies have no such scores, and need none
            others = np.full((len(training.source), coarser.shape[1]), np.nan)
            coarser = np.concatenate([coarser, others])
        seed = a_seed(random)
        lessons = Lessons(scores, labels, fold, truth, training.kinds, seed=seed, coarser=coarser)
        if space_filler is not None:
            tables = [training.X, *([] if training.shaken is None else [training.shaken])]
            numbers = np.concatenate([numbers_of(table) for table in tables])
            lessons = replace(lessons, space=_space(space_filler, numbers))
        silent = np.flatnonzero(np.isnan(scores[labels > 0]).all(axis=0))
        if len(silent):
            names = [pool.members[i].name for i in silent]
            raise ValueError(f"{_named(names)} scored none of the normal rows.")
        if not (labels[lessons.usable] > 0).any():
            raise ValueError(
                "No normal row has a score by every detector: all have missing cells in some "
                "detector's columns. Fill them in, or leave columns out."
            )
        self._report_gaps(scores[(lessons.labels != 0) & (fold >= 0)], {}, pool)
        return lessons

    def _settle_combination(self, lessons: Lessons, found: dict[str, Any]) -> tuple[Any, Any]:
        """The scaler and the fusion to fit."""
        fusion = default_fusion() if self.fusion is None else with_seed(self.fusion, lessons.seed)
        return self._settled_scaler(), fusion

    def _learn(self, scaler: Any, fusion: Any, lessons: Lessons, pool: Pool) -> Combination:
        S, y = lessons.scores[lessons.usable], lessons.labels[lessons.usable]
        with warnings.catch_warnings():  # the audit says the same with the detectors' names
            warnings.filterwarnings("ignore", message="Scores have no spread")
            warnings.filterwarnings("ignore", message="Some detectors give the same")
            space = None if lessons.space is None else lessons.space[lessons.usable]
            combination = Combination.learn(scaler, fusion, S, y, space)
        # Where the default weights are open, they are near uniform, as they should be.
        chosen = None if self.fusion is None else combination.fusion
        audit(S, y, [member.name for member in pool.members], chosen)
        return combination

    def _held_out(self, scaler: Any, fusion: Any, lessons: Lessons) -> Judged:
        """The rows of the lessons, judged by weights that were learnt without them."""
        return Judged.out_of_fold(
            scaler,
            fusion,
            lessons.scores,
            lessons.labels,
            lessons.fold,
            lessons.space,
            lessons.coarser,
        )

    def _offset(self, judged: Judged, ahead: float, silent: Gaps | None = None) -> float:
        """The threshold, by the rows that decide on it, had some detectors been silent."""
        if self.contamination is None and self.threshold == "false-alarms":
            return conformal_offset(judged.normal_scores(ahead, silent), self.false_alarm_rate)
        scores, labels = judged.scores(silent)
        if self.contamination is not None:
            return contamination_offset(scores, self.contamination)
        return g_mean_offset(scores[labels != 0], labels[labels != 0])

    def _report_gaps(
        self, raw: Host, errors: dict[str, str], pool: Pool, trust: Host | None = None
    ) -> None:
        """Say which detectors were silent, and of how many rows."""
        gaps = np.isnan(raw).sum(axis=0)
        if not gaps.any():
            return
        names = [member.name for member in pool.members]
        told = [
            f"{name!r} ({count} of {len(raw)} rows{': ' + errors[name] if name in errors else ''})"
            for name, count in zip(names, gaps, strict=True)
            if count
        ]
        lost = int((np.isnan(raw) | (False if trust is None else trust == 0)).all(axis=1).sum())
        text = f"Some detectors could not score some rows: {', '.join(told)}."
        if self.on_missing == "raise":
            raise ValueError(f'{text} With on_missing="warn" the others would decide.')
        rest = f" Nobody who counts could score {lost} of them." if lost else ""
        warnings.warn(f"{text} The others decide on those rows.{rest}", UserWarning, stacklevel=3)

    def _html_repr(self) -> str:
        """What notebooks show: scikit-learn's diagram and, once fitted, whom the fusion trusts."""
        diagram: str = super()._html_repr()
        if not hasattr(self, "pool_"):
            return diagram
        weights = getattr(self.fusion_, "weights_", None)
        return diagram + portrait(self.detector_names_, weights, self.certificate_, self.offset_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _space(filler: SimpleImputer | None, X: Table) -> Host | None:
    """Features without gaps; None where nobody looks at them."""
    return None if filler is None else np.asarray(filler.transform(numbers_of(X)))


def _named(names: Any) -> str:
    return ", ".join(map(repr, names))


def _progress(wanted: bool | Callable[[int, int], None]) -> Callable[[int, int], None] | None:
    if callable(wanted):
        return wanted
    return _to_stderr if wanted else None


def _to_stderr(done: int, total: int) -> None:
    end = "\n" if done == total else ""
    print(f"\rFitting detectors: {done} of {total}", end=end, file=sys.stderr, flush=True)
