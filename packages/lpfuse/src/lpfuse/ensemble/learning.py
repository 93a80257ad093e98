"""From out-of-fold scores to scale and weights, learnt from all rows and without each part."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host, column_ranks
from lpfuse._validation.params import warn_user
from lpfuse._validation.tables import DirectionWarning, is_constant, warn_reversed_columns
from lpfuse.adapters import has_known_direction
from lpfuse.ensemble.calibration import (
    CalibratedFit,
    CalibrationPart,
    CalibrationRows,
    FitResult,
    HeldOutScores,
    OutOfFoldScores,
    ThresholdParameters,
    calibrate,
)
from lpfuse.ensemble.combination import Combination, report_gaps
from lpfuse.ensemble.defaults import ROBUST, Strategy
from lpfuse.ensemble.folds import Part, Training, assign_folds
from lpfuse.ensemble.out_of_fold import (
    ScoredMembers,
    ScoredPool,
    count_rows,
    shrink_to_ensemble_variance,
)
from lpfuse.ensemble.pool import Member, Pool, fit_members, group_members
from lpfuse.ensemble.rows import Table, draw_seed, duplicated_rows, fit_imputer, impute_features

# Share of the unlabelled rows that are scored by detectors which learnt from none of them: of 10,
# 20, 35 and 50 % that with the best average precision on twenty sets (docs/adr/0049).
SUSPECTS = 0.2
FOLDS_OF_WEIGHTS = 5  # where the detectors have no folds, the weights still need some; as cv=5
# Bounds of the audit, chosen by hand: rather too lax, for a warning that cries wolf is not read.
ALIKE = 0.999  # rank correlation from which two detectors are as good as one
TIED = 0.9  # share of rows with one and the same score from which a detector tells too little
CERTAIN = 4.0  # standard errors of the AUC from 1/2 beyond which chance explains nothing
MOST_ROWS = 2000  # that are compared; more would tell the same
TURN = (
    'say high="anomaly" where its scores enter: lpfuse.adapters.ScoreColumn(high="anomaly"), or '
    'ScoreFunction(..., high="anomaly").'
)


def fuse_pool(
    scored: ScoredPool,
    training: Training,
    strategy: Strategy,
    random: np.random.RandomState,
    whole: FitResult | None = None,
) -> FitResult:
    """Learn scale and weights from the out-of-fold scores of a pool.

    Parameters
    ----------
    scored : ScoredPool
        The pool, its scores of the rows, and what these are worth.
    training : Training
        The rows.
    strategy : Strategy
        Chooses scale and fusion.
    random : RandomState
        Draws folds where there are none, and seeds.
    whole : FitResult, optional
        Where the rows are a part: what was learnt from all of them.
    """
    pool = scored.pool
    imputer = None
    if getattr(strategy.fusion, "uses_features", False):
        imputer = fit_imputer(training.X, training.labels)
    out_of_fold = _collect(scored, training, strategy.artificial_anomalies, imputer, random)
    if getattr(strategy.fusion, "needs_scorer", False) and isinstance(training.X, np.ndarray):
        out_of_fold = replace(out_of_fold, ask=lambda X: pool.scores(X)[0])
    in_folds = (out_of_fold.labels != 0) & (out_of_fold.fold >= 0)
    report_gaps(scored.scores[in_folds], pool.names)
    fit = fuse_scores(out_of_fold, pool, strategy, imputer, whole, training.one_scale)
    held_out = fit.held_out[: len(training.labels)]  # without artificial anomalies
    return replace(fit, held_out=held_out, shrinkage=scored.shrinkage)


def _collect(
    scored: ScoredPool,
    training: Training,
    artificial_anomalies: bool,
    imputer: Any,
    random: np.random.RandomState,
) -> OutOfFoldScores:
    """Put the scores beside what is known of their rows: all that the weights are learnt from."""
    scores, weights = scored.scores, scored.weights
    n, fold, truth = len(training.labels), training.fold_of_truth, training.truth
    if training.folds is None:
        dealt = assign_folds(n, training.groups, FOLDS_OF_WEIGHTS, random)
        fold = np.concatenate([dealt, dealt[training.source]])
    labels = truth.copy()
    if not artificial_anomalies:
        labels[n:] = 0
    features = None
    if imputer is not None:
        tables = [training.X, *([] if training.jittered is None else [training.jittered])]
        features = np.concatenate([impute_features(imputer, table) for table in tables])
    seed = draw_seed(random)
    if weights is not None:
        weights = np.concatenate([weights, np.ones(len(training.source))])
    found = OutOfFoldScores(
        scores, labels, fold, truth, training.kinds, features, seed, weights,
        training.labels, training.chances,
    )  # fmt: skip
    gaps = np.isnan(scores[labels > 0])
    missing = [
        repr(name) for name, column in zip(scored.pool.names, gaps.T, strict=True) if column.all()
    ]
    if missing:
        raise ValueError(f"{', '.join(missing)} scored none of the normal rows.")
    if not (labels[found.usable] > 0).any():
        raise ValueError(
            "No normal row has a score by every detector: all have missing cells in some "
            "detector's columns. Fill them in, or leave columns out."
        )
    return found


def fuse_scores(
    out_of_fold: OutOfFoldScores,
    pool: Pool,
    strategy: Strategy,
    imputer: Any = None,
    whole: FitResult | None = None,
    one_scale: bool = False,
) -> FitResult:
    """Learn scale and weights from out-of-fold scores; those of a part are of the kind of `whole`.

    The choice of a part is that of all rows, unless the strategy says otherwise. With `one_scale`,
    of all rows, their scale is that of their folds and parts: see `Training.one_scale`.
    """
    one_scale = one_scale if whole is None else whole.one_scale
    search = None
    if whole is None or strategy.chooses_in_parts:
        scaler, fusion, search = strategy.choose_fusion(out_of_fold, pool)
    else:
        scaler, fusion = whole.combination.scaler, clone(whole.combination.fusion)
        scaler = FrozenEstimator(scaler) if one_scale else clone(scaler)
    combination = _fuse_and_audit(scaler, fusion, out_of_fold, pool, strategy)
    if one_scale:
        scaler = FrozenEstimator(combination.scaler)
    held_out = HeldOutScores.out_of_fold(scaler, fusion, out_of_fold)
    out_of_fold = replace(out_of_fold, features=None, ask=None)  # for no other weights
    return FitResult(
        pool, combination, imputer, out_of_fold, held_out, search=search, one_scale=one_scale
    )


def score_calibration_rows(
    fit: FitResult,
    training: Training,
    parts: Sequence[Part],
    without: Sequence[ScoredMembers],
    strategy: Strategy,
    random: np.random.RandomState,
    n_jobs: int | None,
) -> tuple[CalibrationRows, list[FitResult]]:
    """Score rows that nothing learnt from; also return what was learnt without each part.

    Parameters
    ----------
    fit : FitResult
        From all rows.
    training : Training
        The rows, and those set aside.
    parts : sequence of Part
        Normal rows to hide, part by part; none where rows are set aside.
    without : sequence of ScoredMembers
        One-class members that were fitted without each part.
    strategy, random, n_jobs
        As in `fuse_pool`; threads.
    """
    if training.calibration_X is not None:
        raw, features = _raw_scores(fit, training.calibration_X, n_jobs)
        known = training.calibration_known
        return CalibrationRows("split", scores=raw, features=features, known=known), []
    if not parts:
        return CalibrationRows(), []
    found, others = [], []
    for part, members in zip(parts, without, strict=True):
        with warnings.catch_warnings():  # the fit to all rows has warned of them
            warnings.simplefilter("ignore")
            other, scores = _fit_without(part, members, fit, training, strategy, random)
        found.append(scores)
        others.append(other)
    if training.gap is not None:
        return CalibrationRows("forward", found), others
    copied = duplicated_rows(training.X)
    raw, features = _raw_scores(fit, _safe_indexing(training.X, copied, axis=0), n_jobs)
    return CalibrationRows("cross", found, copied, raw, features), others


def _fit_without(
    part: Part,
    one_class: ScoredMembers,
    fit: FitResult,
    training: Training,
    strategy: Strategy,
    random: np.random.RandomState,
) -> tuple[FitResult, CalibrationPart]:
    """Learn scale and weights without a part, and score its hidden rows.

    Expert scores are out of fold, and the part is one of the folds. Its hidden rows are therefore
    scored by experts that have not seen the part. The scores of the other rows, which set scale and
    weights, come from experts that have: this is all that the part contributes.
    """
    scores, hidden, n = one_class.scores, one_class.hidden, len(part.learn)
    assert hidden is not None
    experts = fit.out_of_fold.scores[: len(training.labels), scores.shape[1] :]
    rows, names = part.training, fit.pool.names
    more = np.concatenate([experts[part.learn], np.empty((len(scores) - n, experts.shape[1]))])
    prior = strategy.prior_weights(names, rows.labels[rows.labels >= 0])
    counts = count_rows(scores[:n], one_class.members, rows, strategy.expert_scaler(), prior)
    scored = ScoredPool(fit.pool, np.column_stack([scores, more]), counts)
    other = fuse_pool(scored, rows, strategy, random, fit)
    features = None
    if other.imputer is not None:
        features = impute_features(other.imputer, _safe_indexing(training.X, part.hidden, axis=0))
    normal = experts[training.weight_labels > 0]
    shrunk = shrink_to_ensemble_variance(experts[part.hidden], fit.shrinkage, normal)
    raw = np.column_stack([hidden[: len(part.hidden)], shrunk])
    report_gaps(raw, names)
    return other, CalibrationPart(part.learn, part.hidden, other.out_of_fold, raw, features)


def _raw_scores(fit: FitResult, X: Table, n_jobs: int | None) -> tuple[Host, Host | None]:
    """Score rows by the pool; also return their features, where the fusion looks at them."""
    if X.shape[0] == 0:
        return np.empty((0, len(fit.pool.members))), None
    raw, errors = fit.pool.scores(X, n_jobs)
    report_gaps(raw, fit.pool.names, errors)
    return raw, None if fit.imputer is None else impute_features(fit.imputer, X)


def fuse_again(
    result: CalibratedFit, strategy: Strategy, rule: ThresholdParameters
) -> CalibratedFit:
    """Learn other weights, of another strategy, from the scores at hand: no detector is fitted."""
    one_scale = len(result.calibration.copied) > 0
    fit = fuse_scores(result.out_of_fold, result.pool, strategy, one_scale=one_scale)
    fit = replace(fit, held_out=fit.held_out[: result.n_learnt])  # without artificial anomalies
    with warnings.catch_warnings():  # the fit to all rows has warned of them
        warnings.simplefilter("ignore")
        others = [
            fuse_scores(part.out_of_fold, result.pool, strategy, whole=fit)
            for part in result.calibration.parts
        ]
    return calibrate(fit, others, result.calibration, rule, result.rows, result.rounds, result.own)


def known_answers(result: CalibratedFit) -> tuple[Host, Host]:
    """Return labels as they were given, and chances, of the rows learnt from, then of those aside.

    A chance is NaN where a row was not asked about.
    """
    known, chances = result.out_of_fold.known, result.out_of_fold.chances
    assert known is not None  # they are known of all rows that were fitted to
    chances = np.full(len(known), np.nan) if chances is None else chances
    if result.calibration.known is None:
        return known, chances
    below = result.calibration.known.T
    return np.concatenate([known, below[0]]), np.concatenate([chances, below[1]])


def score_suspects(
    result: CalibratedFit, training: Training, members: Sequence[Member], n_jobs: int | None
) -> CalibratedFit:
    """Score the training rows themselves, the strangest by detectors that learnt from none of them.

    A group of anomalies hides its members from detectors that leave out one row at a time. So the
    share `SUSPECTS` of the unlabelled rows that `ROBUST` detectors call strangest is scored by fits
    of the other one-class detectors without all of it. So are rows that were asked about, of which
    nothing was known: their ranks tell how many anomalies there are (`estimate_contamination`).

    Parameters
    ----------
    result : CalibratedFit
        From all rows.
    training : Training
        The rows, and those set aside.
    members : sequence of Member
        As they were before they were fitted.
    n_jobs : int or None
        Threads.
    """
    names, (labels, chances) = result.pool.names, known_answers(result)
    robust = [names.index(name) for name in ROBUST if name in names]
    if not robust or 0 not in labels or training.folds is None or result.imputer is not None:
        return result
    X, scores, n = training.X, result.raw, len(training.labels)
    unlabelled = (labels == 0) | ~np.isnan(chances)
    low, middle, high = np.nanquantile(scores[:, robust], [0.25, 0.5, 0.75], axis=0)
    units = (middle - scores[:, robust]) / np.where(high > low, high - low, 1.0)
    strange = np.arcsinh(np.nan_to_num(units)).mean(axis=1)
    suspects = unlabelled & (strange > np.quantile(strange[unlabelled], 1 - SUSPECTS))
    others = [m for m in members if m.name not in ROBUST and not m.learns_from_anomalies]
    learn = np.flatnonzero((training.labels >= 0) & ~suspects[:n])
    if not suspects.any() or len(learn) < 2:
        return result
    fitted = [
        member
        for group in group_members(others)
        for member in fit_members([others[i] for i in group], _safe_indexing(X, learn, axis=0))
    ]
    where = [names.index(member.name) for member in fitted]
    some = ((X, suspects[:n]), (training.calibration_X, suspects[n:]))
    parts = [_safe_indexing(rows, np.flatnonzero(k), axis=0) for rows, k in some if k.any()]
    scores[np.ix_(np.flatnonzero(suspects), np.array(where))] = np.concatenate(
        [Pool(fitted, []).scores(part, n_jobs)[0] for part in parts]
    )
    return replace(result, own=scores[:, : len(result.pool.one_class)])


# ------------------------------------------------------------------------------------------ audit


def _fuse_and_audit(
    scaler: Any, fusion: Any, scores: OutOfFoldScores, pool: Pool, strategy: Strategy
) -> Combination:
    """Fit copies of `scaler` and `fusion` to the usable rows, and warn of what looks wrong.

    Of the default detectors some tell little on any table, which is no news; the default weights
    are near the prior by design where the labels leave them open.
    """
    S, y = scores.scores[scores.usable], scores.labels[scores.usable]
    features = None if scores.features is None else scores.features[scores.usable]
    with warnings.catch_warnings():  # the audit gives the same warnings with the detectors' names
        warnings.filterwarnings("ignore", message="Scores have no spread")
        warnings.filterwarnings("ignore", message="Some detectors give the same")
        warnings.simplefilter("ignore", DirectionWarning)
        weights = scores.weights_of(scores.usable)
        combination = Combination.learn(scaler, fusion, S, y, features, weights, scores.ask)
    own_fusion = None if strategy.fusion is None else combination.fusion
    if strategy.detectors is not None:
        known = np.array([has_known_direction(member.last) for member in pool.members])
        audit(S, y, pool.names, own_fusion, known)
    else:
        _warn_of_open_weights(own_fusion, y)
        _warn_of_constants(S[y > 0])
    return combination


def audit(
    S: Host,
    y: Host,
    names: Sequence[str],
    fusion: Any = None,
    known: NDArray[np.bool_] | None = None,
) -> None:
    """Warn of detectors without news, alike or reversed, and of weights left open.

    Parameters
    ----------
    S : ndarray of shape (n, R)
        Raw out-of-fold scores without gaps.
    y : ndarray of shape (n,)
        +1 or −1.
    names : sequence of str
        Names of the detectors.
    fusion : estimator, optional
        The fitted fusion; None where its weights are open by design.
    known : ndarray of shape (R,), optional
        Detectors whose makers, not users, said what high scores mean.
    """
    normal = S[y > 0]
    area, error = _areas(S, y)
    said = ~nearly_constant(normal) | (area > 0.5 + CERTAIN * error)
    quoted = np.array([repr(name) for name in names])
    _warn(
        quoted[~said],
        "{} give most normal rows the same score, and so say next to nothing. Leave them out, or "
        "look at what they are fed.",
    )
    _warn(
        [f"{quoted[i]} = {quoted[j]}" for i, j in _alike(normal) if said[i] and said[j]],
        "Some detectors rank all rows alike: {}. Each counts as often as it is repeated.",
    )
    warn_reversed_columns(S, y, quoted.tolist(), TURN, known, stacklevel=4)
    _warn_of_open_weights(fusion, y)


def nearly_constant(S: Host) -> NDArray[np.bool_]:
    """Tell which columns hold one value nearly everywhere."""
    most_common = [np.unique(column, return_counts=True)[1].max() for column in S.T]
    return np.array(most_common) >= TIED * len(S)


def _alike(S: Host) -> list[tuple[int, int]]:
    """Find pairs of columns that put the rows in the same order."""
    step = -(-len(S) // MOST_ROWS)
    ranks = column_ranks(S[::step])
    ranks -= ranks.mean(axis=0)
    lengths = np.linalg.norm(ranks, axis=0)
    together = ranks.T @ ranks >= ALIKE * np.outer(lengths, lengths)
    moving = lengths > 0
    pairs = combinations(range(S.shape[1]), 2)
    return [(i, j) for i, j in pairs if together[i, j] and moving[i] and moving[j]]


def _areas(S: Host, y: Host) -> tuple[Host, float]:
    """Return the AUC of each column, and its standard error for a column that tells nothing."""
    n, anomalies = (y > 0).sum(), (y < 0).sum()
    if anomalies == 0:
        return np.full(S.shape[1], 0.5), 1.0
    error = float(np.sqrt((n + anomalies + 1) / (12 * n * anomalies)))
    from sklearn.metrics import roc_auc_score

    return np.array([roc_auc_score(y, column) for column in S.T]), error


def _warn_of_constants(normal: Host) -> None:
    """Warn where no detector tells normal rows apart, by their scores of shape (n, R)."""
    if (nearly_constant(normal) | is_constant(normal.min(axis=0), normal.max(axis=0))).all():
        _warn(
            [""],
            "All detectors give most normal rows the same score: these rows hardly differ, so "
            "nothing can be told of others. Bring columns that vary.",
        )


def _warn_of_open_weights(fusion: Any, y: Host) -> None:
    certificate = getattr(fusion, "certificate_", None)
    if certificate is None:
        return
    centre = 0.0 if fusion.prior_ is None else fusion.prior_
    if certificate.primal <= 1e-9 * len(y):
        _warn(
            [""],
            "Many weights are equally good: the fused scores of all rows are right with room to "
            "spare. Of these the weights nearest to uniform were taken; p hardly matters.",
        )
    elif np.linalg.norm(fusion.weights_ - centre, fusion.p) < fusion.radius * (1 - 1e-6):
        _warn(
            [""],
            "The constraint ‖w‖_p ≤ 1 is not active: the best weights lie inside the ball, and a "
            "larger p would not change them.",
        )


def _warn(found: Sequence[str] | Host, text: str) -> None:
    if len(found):
        warn_user(text.format(", ".join(found)))
