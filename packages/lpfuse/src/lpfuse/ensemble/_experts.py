"""The pool as a whole: one-class members, then experts, which may see their scores.

Experts learn from both classes. Rows that nobody looked at stand in for normal ones, each with a
weight that says how probably it is one (`lpfuse.ensemble._suspicion`).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from joblib import delayed
from sklearn.base import clone

from lpfuse._arrays.operations import Host
from lpfuse.ensemble._levels import calm_of_mean, on_one_level
from lpfuse.ensemble._mean_of_fits import MeanOfFits
from lpfuse.ensemble._members import Member
from lpfuse.ensemble._out_of_fold import FitScheduler, OneClass, fit_expert, learners_of_experts
from lpfuse.ensemble._pool import Pool
from lpfuse.ensemble._scoring import scale_scores, without_gaps
from lpfuse.ensemble._suspicion import expert_weights, row_weights
from lpfuse.ensemble._tables import Index, Table
from lpfuse.ensemble._training import Training
from lpfuse.scaling import TailScaler

# Normal rows by which it is told how much the fits of an expert differ; by hand.
PROBES = 300


class FittedPool(NamedTuple):
    """A pool with what it says of its training rows, and what these are worth.

    Attributes
    ----------
    pool : Pool
        Fitted on all rows.
    scores : ndarray of shape (n + artificial, R)
        Out-of-fold scores of the rows, then of the artificial anomalies.
    weights : ndarray of shape (n,) or None
        How much each row counts; None: all alike.
    calm : ndarray of shape (experts,) or None
        How far below the median the mean of an expert's fits puts a row that one of them puts at
        1: see `calm_of_mean`; None: as far.
    """

    pool: Pool
    scores: Host
    weights: Host | None
    calm: Host | None = None


def add_experts(
    one_class: OneClass,
    experts: list[Member],
    training: Training,
    scheduler: FitScheduler,
    *,
    scaler: Any = None,
    fused: bool = False,
    prior: Mapping[str, float] | None = None,
    without: Sequence[WithoutFold] = (),
) -> FittedPool:
    """Fit experts beside one-class members; without labels that tell them apart, all rows count 1.

    Parameters
    ----------
    one_class : OneClass
        Fitted to all rows.
    experts : list of Member
        To be fitted.
    training : Training
        Rows, labels and folds.
    scheduler : FitScheduler
        Runs the fits.
    scaler : transformer, optional
        A copy of it puts scores on the scale on which experts see them; without one they see
        features alone.
    fused : bool
        Whether they see one score, fused by the weights of `prior`, all alike if it is None.
    prior : mapping, optional
        Weights by name.
    without : sequence of WithoutFold
        For each fold what one-class members say that have not seen its normal rows. What is learnt
        without the fold then knows nothing of it at all. None: `one_class` speaks for every fold.
    """
    n, fitted = len(training.labels), one_class.members
    whole = one_class.scores[:n]
    counts = count_rows(whole, fitted, training, scaler, prior)
    if not experts:
        return FittedPool(Pool(fitted, []), one_class.scores, counts)
    weights = _weights_of(fitted, prior) if fused and fitted else None
    sees_scores = scaler is not None and bool(fitted)
    if sees_scores:
        experts = _beside_scores(experts, training.X.shape[1], 1 if fused else len(fitted))

    def seen_with(scores: Host, rows: Index) -> tuple[Pool, ExpertView]:
        """What experts see, of all rows, where these rows may set scale and weights."""
        normal = rows[training.weight_labels[rows] > 0]
        scale = _fit_scale(scaler, scores[normal]) if sees_scores else None
        pool = Pool(fitted, experts, scale, weights)
        count = count_rows(scores, fitted, training, scaler, prior, rows)
        if count is not None:
            count[rows] = expert_weights(count[rows], training.labels[rows])
        return pool, ExpertView(pool.expert_inputs(training.X, scores), count)

    pool, view = seen_with(whole, np.arange(n))
    n_folds = len(training.folds.pairs) if training.folds else 0
    views = [seen_with(*each)[1] for each in without] or [view] * n_folds
    learnt, expert_scores, calm = fit_experts(experts, view, views, training, scheduler)
    pool = replace(pool, experts=learnt)
    return FittedPool(pool, np.column_stack([one_class.scores, expert_scores]), counts, calm)


class WithoutFold(NamedTuple):
    """What one-class members that have not seen the normal rows of a fold say.

    Attributes
    ----------
    scores : ndarray of shape (n, R)
        Of all training rows.
    rows : ndarray of positions
        Rows that may be learnt from.
    """

    scores: Host
    rows: Index


class ExpertView(NamedTuple):
    """What experts see of all rows, and how much each counts; None: all alike."""

    inputs: Table
    counts: Host | None


def count_rows(
    scores: Host,
    one_class: Sequence[Member],
    training: Training,
    scaler: Any,
    prior: Mapping[str, float] | None,
    rows: Index | None = None,
) -> Host | None:
    """How much each row counts, by its scores by one-class members; None: all alike.

    Where nobody looked at any row, or at all of them, rows count alike. With `rows`, these alone
    are looked at, and what the others count is of no use.
    """
    chances = np.full(len(scores), np.nan) if training.chances is None else training.chances
    unseen = training.labels == 0
    if np.isnan(chances).all() and (unseen.all() or not unseen.any()):
        return None
    rows = np.arange(len(scores)) if rows is None else rows
    labels, counts = training.labels[rows], np.ones(len(scores))
    seen = _fused_by_prior(scores[rows], labels, one_class, scaler, prior)
    counts[rows] = row_weights(seen, labels, chances[rows])[0]
    return counts


def _fit_scale(scaler: Any, normal: Host) -> Any:
    """A copy of the scaler, fitted to the scores of normal rows."""
    with warnings.catch_warnings():  # what there is to say of the scores is said by the audit
        warnings.simplefilter("ignore")
        return clone(scaler).fit(normal[~np.isnan(normal).any(axis=1)])


def _fused_by_prior(
    scores: Host,
    labels: Host,
    members: Sequence[Member],
    scaler: Any,
    prior: Mapping[str, float] | None,
) -> Host:
    """What one-class members say of the rows together; equal where there are none."""
    normal = scores[labels >= 0]
    if not members or np.isnan(normal).any(axis=1).all():
        return np.zeros(len(scores))
    scaled = scale_scores(_fit_scale(TailScaler() if scaler is None else scaler, normal), scores)
    weights = _weights_of(members, prior)
    fused: Host = without_gaps(scaled * weights, weights).sum(axis=1)
    return fused


def _weights_of(members: Sequence[Member], prior: Mapping[str, float] | None) -> Host:
    """Prior weights of one-class members, which sum to 1; equal ones where none has any."""
    weights = np.array([0.0 if prior is None else prior[member.name] for member in members])
    return weights / weights.sum() if weights.any() else np.full(len(members), 1 / len(members))


def fit_experts(
    experts: list[Member],
    whole: ExpertView,
    views: Sequence[ExpertView],
    training: Training,
    scheduler: FitScheduler,
) -> tuple[list[Member], Host, Host | None]:
    """Experts, and what they say of rows that they have not seen.

    An expert is fitted without each fold, whose rows it then scores. Of new rows it says what these
    fits say in the mean: on 151 tables that ranks better than one more fit to all rows, and its
    scores of new rows are of the kind that those of the folds are (``docs/adr/0023``). Where users
    deal out folds of their own, which may be many or small, it is fitted to all rows as well.

    Parameters
    ----------
    experts : list of Member
        That learn from both classes.
    whole : ExpertView
        What they see of the rows.
    views : sequence of ExpertView
        What they see where they learn without each fold.
    training : Training
        Labels and folds.
    scheduler : FitScheduler
        Runs the fits.

    Returns
    -------
    fitted : list of Member
        Without those that complete rows are too few for.
    scores : ndarray of shape (n, len(fitted))
        Of each row by the fit without its fold.
    calm : ndarray of shape (len(fitted),) or None
        See `calm_of_mean`; None where an expert is one fit.
    """
    known, every = training.weight_labels, np.arange(len(training.labels))
    nothing = np.empty(0, dtype=np.intp)
    assert training.folds is not None  # without folds there are no experts
    rounds = [(*pair, view) for pair, view in zip(training.folds.pairs, views, strict=True)]
    if not training.folds.dealt:
        rounds.append((every, nothing, whole))
    normal = np.flatnonzero(known > 0)
    probes = normal[np.linspace(0, len(normal) - 1, min(len(normal), PROBES)).astype(np.intp)]
    probes = probes if training.folds.dealt else nothing
    tasks, places = [], []
    for i, expert in enumerate(experts):
        for number, (learn, score, view) in enumerate(rounds):
            made = _reseeded(expert, number) if training.folds.dealt else expert
            some = learners_of_experts(training, learn)
            check = number == len(rounds) - 1  # one of its fits speaks for all
            asked = np.concatenate([score, probes])
            tasks.append(
                delayed(fit_expert)(made, view.inputs, known, some, asked, view.counts, check)
            )
            places.append((i, number, score))
    fits: dict[int, list[Member]] = {i: [] for i in range(len(experts))}
    left_out: set[int] = set()
    scores = np.full((len(known), len(experts)), np.nan)
    probed = np.full((len(rounds), len(probes), len(experts)), np.nan)
    for (i, number, score), result in zip(places, scheduler.run(tasks, _work(tasks)), strict=True):
        if result is None:
            left_out.add(i)
        else:
            fits[i].append(result[0])
            scores[score, i], probed[number, :, i] = np.split(result[1], [len(score)])
    if left_out:
        names = ", ".join(repr(experts[i].name) for i in sorted(left_out))
        warnings.warn(
            f"{names} are left out: they cannot do with missing cells, and whichever fold is "
            "hidden, complete rows of both classes must remain.",
            UserWarning,
            stacklevel=4,
        )
    kept = [i for i in range(len(experts)) if i not in left_out]
    fold = training.fold_of_truth[: len(known)]
    levelled = on_one_level(scores[:, kept], known, fold)
    if not training.folds.dealt:
        return [fits[i][-1] for i in kept], levelled, None
    fit_without = np.full(len(known), -1)
    for number, (_, score) in enumerate(training.folds.pairs):
        fit_without[score] = number
    calm = calm_of_mean(levelled[probes], probed[:, :, kept], fit_without[probes])
    return [_mean_of(fits[i]) for i in kept], levelled, calm


def _reseeded(expert: Member, number: int) -> Member:
    """The expert with seeds of its own for each fold: a mean of fits that draw alike gains less."""
    made = clone(expert.estimator)
    seeds = {
        key: (int(value) + number) % 2**31
        for key, value in made.get_params(deep=True).items()
        if key.endswith("random_state") and isinstance(value, Integral)
    }
    return expert.with_estimator(made.set_params(**seeds) if seeds else made)


def _work(tasks: Sequence[Any]) -> list[int]:
    """How long fits of experts take, beside those of detectors to as many rows: twice as long."""
    return [2 * len(task[1][3]) for task in tasks]


def _mean_of(fits: Sequence[Member]) -> Member:
    """A member that says what several say in the mean."""
    return fits[0].with_estimator(MeanOfFits([fit.estimator for fit in fits]))


def _beside_scores(experts: list[Member], d: int, n_scores: int) -> list[Member]:
    """Experts that see, with the columns that they saw of d, the scores to their right."""
    scores = np.arange(d, d + n_scores)
    return [
        expert
        if expert.columns is None
        else Member(expert.name, expert.estimator, np.concatenate([expert.columns, scores]))
        for expert in experts
    ]
