"""FusedDetector: check → score out of fold → fuse → calibrate, and fit on all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils import check_random_state

from lpfuse._arrays.operations import is_blocked
from lpfuse._saved import saved_as
from lpfuse._validation.params import check_chances, check_row_names, is_count
from lpfuse._validation.tables import check_table, record_columns
from lpfuse.ensemble._calibration import OutOfFoldScores
from lpfuse.ensemble._copies import without_copies
from lpfuse.ensemble._defaults import (
    check_fit_labels,
    check_parameters,
    choose_combination,
    choose_members,
    seed_members,
)
from lpfuse.ensemble._kept_rows import kept_rows
from lpfuse.ensemble._members import Member
from lpfuse.ensemble._out_of_fold import Choice, FitScheduler
from lpfuse.ensemble._partial_fit import FollowingDetector
from lpfuse.ensemble._subsample import draw_from_blocks
from lpfuse.ensemble._training import Training, draw_seed, prepare_training
from lpfuse.ensemble._unseen import keeps_back
from lpfuse.threshold import THRESHOLD_RULES


@saved_as(
    "FusedDetector",
    detectors=("paper", ...),
    p=("auto",),
    prior=("tables", ...),
    cv=("in-sample", "prefit"),
    experts_see_scores=("fused",),
    threshold=THRESHOLD_RULES,
    calibration=("auto", "cross", "plain", "split"),
    on_missing=("warn", "raise"),
)
class FusedDetector(FollowingDetector):
    r"""Several anomaly detectors, fused into one that is better and knows its false alarms.

    Every row gets the raw scores of R detectors, these are put on one scale, and their weighted
    sum, high = normal, is compared with a threshold:

    .. math:: f(x) = \sum_{j=1}^R w_j \, s'_j(x), \qquad \text{normal} \iff f(x) \ge \text{offset}

    Scale and weights are learnt from *out-of-fold* scores, each by detectors that have not seen the
    row, for a detector's scores of its own training rows flatter those that overfit. New rows are
    scored by one-class detectors that are fitted to all rows, and by the mean of the fits of an
    expert without each fold.

    Parameters
    ----------
    detectors : None, "paper" or list, default=None
        ``(name, detector)`` or ``(name, detector, columns)``, or names alone, as on the command
        line: ``["svdd", "lof", "pyod:HBOS"]`` (:func:`lpfuse.ensemble.components.named_detectors`
        lists them). A detector is one of lpfuse, scikit-learn or PyOD; a classifier, which becomes
        an expert that learns from labelled anomalies; a Pipeline that ends in one of these;
        anything else with a stated direction (:class:`lpfuse.adapters.ScoreFunction`); or any of
        them fitted already, wrapped in :class:`sklearn.frozen.FrozenEstimator`. One that scores a
        row by what else is in its batch, as PyOD's ECOD, COPOD, COF and SOD do, is refused by
        `fit`. Columns are names, positions, a slice, a mask or a function of `X`. "paper": SVDD,
        Gaussian process, kernel PCA and mixture with the paper's scores, on standardised features.
        None: six fast ones that did well together on real tables and, from 2 labelled anomalies on,
        three experts: ``docs/adr/0017``, :func:`lpfuse.ensemble.components.default_detectors`.
    scaler : transformer, default=None
        Puts scores on one scale; None: ``TailScaler()`` for the default pool around its prior, of
        "tables", and ``TwoSidedMinMax()`` otherwise.
    fusion : estimator, default=None
        Learns the weights from scaled scores; None: an `LpFusion` around the `prior` or, without
        one, with p = 4, w ≥ 0, an intercept, balanced classes and an imaginary anomaly.
    p : float in [1, inf] or "auto", default="auto"
        Norm of the weights, for short: a number is that of the fusion without a prior, where
        `fusion` is None; with a `fusion` of another p it is refused. "auto": as `fusion` says.
    prior : "tables", None, mapping or array-like of shape (R,), default="tables"
        The weights to start from, where `fusion` is None. Without labelled anomalies these are the
        weights; with some, the weights leave them as far as held-out rows speak for it. "tables":
        weights of the default pool that were learnt from 151 tables of many fields
        (``docs/adr/0018``), which depend on the number of labelled anomalies; for other
        `detectors` as None, all alike. Or ≥ 0 by the user: by name, or in the order of `detectors`.
        Whatever the `fusion`, they fuse the score that experts see.
    cv : int, splitter, iterable, "in-sample" or "prefit", default=5
        The folds. An int keeps the share of labels equal; any splitter whose test parts do not
        overlap will do. "in-sample": scores of the detectors' own training rows, as in the paper.
        "prefit": the detectors are fitted already, on other rows than these.
    experts_see_scores : bool or "fused", default="fused"
        What experts see beside the features: one column, the scaled scores of the other detectors
        fused by prior weights; True: the scaled score of each; False: nothing.
    artificial_anomalies : bool, default=False
        Whether the weights are learnt from jittered copies of normal rows, too, as anomalies, where
        none is labelled.
    threshold : {"false-alarms", "g-mean"}, default="false-alarms"
        What sets the threshold: conformal calibration to `false_alarm_rate`, or the best geometric
        mean of the hit rates on labelled rows. Names are those of
        :data:`lpfuse.threshold.THRESHOLD_RULES`.
    false_alarm_rate : float in (0, 0.5], default=0.05
        Share of normal rows that may be called anomalies.
    contamination : float in (0, 0.5], default=None
        If given, it sets the threshold: that share of unseen rows like the training rows lies
        below, by scores of rows that nothing has seen. `contamination_offset` of
        :mod:`lpfuse.threshold`, with ``fused.score_samples(X)``, leaves that share of the training
        rows themselves below: of unseen ones then 36 % for 10 % (60 Gaussian rows) or 22 % (300).
    confidence : float in (0, 1), default=None
        None: false alarms keep to the rate on average over training sets. 0.9: with that
        probability they are at most the rate, see :func:`lpfuse.threshold.conformal_offset`; that
        takes more rows, and finds fewer anomalies.
    calibration : {"auto", "cross", "split", "plain"}, default="auto"
        Which normal rows set the false-alarm rate, always by detectors, experts, scale and weights
        that have not seen them. "split": a fifth of them, which nothing learns from; the rate is
        then guaranteed, see :func:`lpfuse.threshold.conformal_offset`. "cross": all, in parts, each
        hidden from fits of its own; that comes within about a point of the rate, and takes as many
        more fits of one-class detectors as there are parts: five, or one for each fold where there
        are experts, whose fits serve again. "auto": "split" from
        2,000 normal rows (of 500 groups) on, whose others are enough to learn from; "cross" with
        fewer, or with a `cv` of one's own. "plain": out-of-fold scores as they are, without
        further fits: where scores alone matter, for their false alarms are off by up to twice the
        rate (60 rows with heavy tails: 9.8 % for 5 %).
    on_missing : {"warn", "raise"}, default="warn"
        What to do where a detector cannot score a row: let the others decide, and say so, or stop.
    n_jobs : int, default=None
        Detectors and folds that are fitted at a time, as in joblib.
    random_state : int, RandomState or None, default=None
        Deals rows out to folds, and seeds the detectors whose own ``random_state`` is None. The
        result does not depend on `n_jobs`.
    progress : bool or callable, default=False
        True: a line on standard error. A function is called with the work that is done and with all
        of it, as whole numbers in proportion to the time that fits are expected to take.
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
        The fitted detectors; an expert comes with its fits without each fold, in ``fits``.
    certificate_ : Certificate or None
        How far the weights can be from optimal; None once `partial_fit` has moved them.
    offset_ : float
        The threshold.
    scaler_, fusion_ : estimators
        Fitted.
    calibration_ : ndarray
        Fused scores of the normal rows that p-values compare with, ascending.
    out_of_fold_ : OutOfFoldScores
        What the weights were learnt from: raw out-of-fold ``scores`` (n×R), ``labels``, ``fold``.
    held_out_ : HeldOutScores
        The same rows fused by weights that were not learnt from them, in ``fused`` (n,), with their
        ``labels``, then those kept back. The threshold and p-values rest on those that nothing has
        seen, where ``calibrates`` is True.
    unseen_ : UnseenRows
        Raw scores of the rows that calibrate, and ``by``: which of "cross", "split" or "plain"
        `calibration` came to.
    pool_ : Pool
        The fitted detectors by what they learnt from: ``one_class`` and ``experts``.
    combination_ : Combination
        `scaler_` and `fusion_` together: raw scores in, fused scores out.
    contamination_ : Estimate
        The share of anomalies among the training rows, with its 95 % interval. The scores do not
        tell it: without answers that have `chances` it is what is believed of any table.
    rows_ : KeptRows
        The training rows, then those kept back, which `teach` and `query` go back to.
    following_ : FollowedRows
        After `partial_fit`: how many rows taught and calibrated, and which members learnt.
    feature_imputer_ : SimpleImputer or None
        Fills in missing cells for a fusion that looks at the features; None for all others.
    n_features_in_ : int
        Number of columns of `X`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, when `X` had them.

    Notes
    -----
    **Without anomalies** nothing tells whether a detector separates them; the data only show what
    is usual among normal rows. The default weights are then those of the `prior`: what did well on
    other tables, or, for a pool of one's own, that what all detectors find strange is an anomaly.
    Artificial anomalies add another, that anomalies look like jittered normal rows. A handful of
    labelled ones is worth more than either.

    **Kinds of anomalies to come.** Experts know the labelled kinds best. Pass ``kind`` to `fit`
    where new kinds must be expected: scores of each kind then come from experts that never saw it,
    and the weights trust them as far as that deserves.

    **Silent detectors.** Where a detector gives no score (a missing cell, an error), the weights of
    the others grow in proportion, so that they sum to the same in absolute value; the threshold and
    the p-values are those that calibration rows give for the same detectors. Detectors of the
    default pool fill missing cells in, and are not silent: :class:`lpfuse.views.FilledGaps`.

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
        p: Any = "auto",
        prior: Any = "tables",
        cv: Any = 5,
        experts_see_scores: bool | Literal["fused"] = "fused",
        artificial_anomalies: bool = False,
        threshold: str = "false-alarms",
        false_alarm_rate: float = 0.05,
        contamination: float | None = None,
        confidence: float | None = None,
        calibration: Literal["auto", "cross", "plain", "split"] = "auto",
        on_missing: Literal["warn", "raise"] = "warn",
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool | Callable[[int, int], None] = False,
        subsample: int = 20_000,
    ) -> None:
        self.detectors = detectors
        self.scaler = scaler
        self.fusion = fusion
        self.p = p
        self.prior = prior
        self.cv = cv
        self.experts_see_scores = experts_see_scores
        self.artificial_anomalies = artificial_anomalies
        self.threshold = threshold
        self.false_alarm_rate = false_alarm_rate
        self.contamination = contamination
        self.confidence = confidence
        self.calibration = calibration
        self.on_missing = on_missing
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress
        self.subsample = subsample

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        kind: Any = None,
        chances: Any = None,
        unlabelled: int | None = None,
    ) -> Self:
        """Fit the detectors, learn the weights, set the threshold.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Rows. Cells may be missing; a detector that cannot do with that learns from the rows
            that are complete in its columns. Of Dask, `subsample` rows are learnt from.
        y : array-like, or Dask array or series, of shape (n,), optional
            +1 normal, −1 anomaly, 0 where nobody looked; without it, at none. Rows that nobody
            looked at always teach, as normal ones, each with a weight that says how probably it is
            one; labelled rows count in full.
        groups : array-like of shape (n,), optional
            Rows of one group (a person, a machine, a day) are never both learnt from and scored.
        kind : array-like of shape (n,) or "clusters", optional
            Kinds of anomalies, by name or as clusters of their features. Each kind is then scored
            by experts that have not seen it, as kinds that are yet to come will be.
        chances : array-like of shape (n,), optional
            With which chance each labelled row was asked about, as `query` tells it; NaN for labels
            from elsewhere. Answers then stand for rows that were not asked about as well. Of rows
            in memory only.
        unlabelled : 0, optional
            Says that 0 in `y` stands for rows that nobody looked at. It always does; but a `y` of 0
            and 1 alone, in PyOD normal and anomaly, is refused unless this is said.

        Returns
        -------
        FusedDetector
            The fitted estimator.
        """
        # Check.
        self._check_parameters()
        random = check_random_state(self.random_state)
        if is_blocked(X):
            if chances is not None:
                raise ValueError(
                    "chances go with rows in memory, got rows of Dask. Fit first, then hand the "
                    "answers to teach(X, y, chances=...)."
                )
            X, y = draw_from_blocks(X, y, groups, kind, self.subsample, random)
        table = check_table(X)
        labels = check_fit_labels(y, table.shape[0], self.threshold, self.contamination, unlabelled)
        asked = None if chances is None else check_chances(chances, table.shape[0])
        groups = check_row_names(groups, table.shape[0], "groups")
        if groups is None and kind is None and is_count(self.cv) and self.calibration != "plain":
            table, labels, asked = without_copies(table, labels, asked)
        split = keeps_back(self.calibration, labels, groups, self.cv)
        training = prepare_training(table, labels, groups, kind, self.cv, split, random, asked)
        if self._needs_artificial_anomalies(training):
            training = training.with_artificial_anomalies(random)
        members = seed_members(self._members(training), random)

        # Score out of fold, and fuse. The fits on all rows run beside those on folds.
        scheduler = FitScheduler.for_user(self.n_jobs, self.progress)
        # Seeded apart, so that detectors do not depend on how their scores are calibrated.
        apart = np.random.RandomState(draw_seed(deepcopy(random)))
        parts = self._hidden_parts(training, members, apart)
        chosen: dict[str, Any] = {}  # what FusedDetectorCV finds on the way
        learnt, without = self._learn_all(members, training, parts, scheduler, chosen, random)

        # Calibrate, by rows that nothing has seen.
        unseen, others = self._score_unseen(learnt, training, parts, without, apart)
        settled = self._settle(learnt, others, unseen)

        record_columns(self, X)
        self.__dict__.update(chosen)
        self._remember(settled)
        self.rows_ = kept_rows(training.X, training.kept_back)
        self.rounds_ = np.zeros(len(settled.held_out.labels), np.intp)
        self.__dict__.pop("following_", None)  # of rows that were before
        return self

    # What FusedDetectorCV does in another way.

    def _check_parameters(self) -> None:
        check_parameters(self)

    def _needs_artificial_anomalies(self, training: Training) -> bool:
        return self.artificial_anomalies and not (training.labels < 0).any()

    def _members(self, training: Training) -> list[Member]:
        """The detectors to fit."""
        prefit, reserved = self.cv == "prefit", self._get_param_names()
        return choose_members(self.detectors, training, prefit=prefit, reserved=reserved)

    def _choice(self, training: Training, chosen: dict[str, Any]) -> Choice | None:
        """Which members to keep, given their scores; None: all."""
        return None

    def _choose_combination(
        self,
        out_of_fold: OutOfFoldScores,
        prior: Mapping[str, float] | None,
        chosen: dict[str, Any],
    ) -> tuple[Any, Any]:
        """The scaler and the fusion to fit."""
        return choose_combination(self, out_of_fold, prior)
