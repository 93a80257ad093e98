"""The pool as a whole: one-class members, then experts, which may see their scores.

Experts learn from both classes. Rows that nobody looked at stand in for normal ones, each with a
weight that says how probably it is one (`lpfuse.ensemble._suspicion`).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import delayed
from numpy.typing import NDArray
from sklearn.base import clone

from lpfuse._arrays.operations import Host
from lpfuse.ensemble._members import Member, Pool
from lpfuse.ensemble._out_of_fold import (
    Choice,
    FitScheduler,
    fit_expert,
    fit_one_class,
    learners_of_experts,
)
from lpfuse.ensemble._scoring import scale_scores, without_gaps
from lpfuse.ensemble._suspicion import expert_weights, row_weights
from lpfuse.ensemble._tables import Table
from lpfuse.ensemble._training import Training
from lpfuse.scaling import TailScaler


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
    """

    pool: Pool
    scores: Host
    weights: Host | None


def fit_pool(
    members: Sequence[Member],
    training: Training,
    scheduler: FitScheduler,
    *,
    scaler: Any = None,
    fused: bool = False,
    prior: Mapping[str, float] | None = None,
    choose: Choice | None = None,
) -> FittedPool:
    """Fit a pool, and score its training rows by detectors that have not seen them.

    Fits on all rows run beside those on folds, so that no core waits for either. A copy of `scaler`
    puts scores on the scale on which experts see them; without one they see features alone. With
    `fused` they see one score, fused by the weights of `prior`, all alike if it is None.
    `choose` says which of the one-class members to keep, given these and their out-of-fold scores.
    """
    one_class = [member for member in members if not member.learns_from_anomalies]
    experts = [member for member in members if member.learns_from_anomalies]
    n_folds = len(training.folds.pairs) if training.folds else 0
    scheduler.later = len(experts) * (1 + n_folds)
    fitted, scores = fit_one_class(one_class, training, scheduler)
    if choose is not None:
        kept = choose(fitted, scores)
        fitted, scores = [fitted[i] for i in kept], scores[:, kept]
    learnt = OneClass(fitted, scores)
    return add_experts(
        learnt, experts, training, scheduler, scaler=scaler, fused=fused, prior=prior
    )


class OneClass(NamedTuple):
    """Fitted one-class members, and what they say of the training rows.

    Attributes
    ----------
    members : list of Member
        Fitted on all rows but anomalies.
    scores : ndarray of shape (n + artificial, R)
        Out-of-fold scores.
    """

    members: list[Member]
    scores: Host


def add_experts(
    one_class: OneClass,
    experts: list[Member],
    training: Training,
    scheduler: FitScheduler,
    *,
    scaler: Any = None,
    fused: bool = False,
    prior: Mapping[str, float] | None = None,
) -> FittedPool:
    """Fit experts beside one-class members; without labels that tell them apart, all rows count 1.

    Parameters are those of `fit_pool`.
    """
    fitted, scores = one_class
    n = len(training.labels)
    seen = _fused_by_prior(one_class, training, scaler, prior)
    chances = np.full(n, np.nan) if training.chances is None else training.chances
    weights, unseen = row_weights(seen, training.labels, chances)
    # Where nobody looked at any row, or at all of them, rows count alike.
    alike = np.isnan(chances).all() and (unseen.all() or not unseen.any())
    if not experts:
        return FittedPool(Pool(fitted, []), scores, None if alike else weights)
    score_scaler, score_weights = None, None
    if scaler is not None and fitted:
        score_scaler = _fit_scale(scaler, scores[:n][training.weight_labels > 0])
        score_weights = _weights_of(fitted, prior) if fused else None
        experts = _beside_scores(experts, training.X.shape[1], 1 if fused else len(fitted))
    pool = Pool(fitted, experts, score_scaler, score_weights)
    counts = None if alike else expert_weights(weights, training.labels)
    inputs = pool.expert_inputs(training.X, scores)
    scheduler.later = 0
    learnt, expert_scores = fit_experts(experts, inputs, training, scheduler, counts)
    pool = Pool(fitted, learnt, score_scaler, score_weights)
    scores = np.column_stack([scores, expert_scores])
    return FittedPool(pool, scores, None if alike else weights)


def _fit_scale(scaler: Any, normal: Host) -> Any:
    """A copy of the scaler, fitted to the scores of normal rows."""
    with warnings.catch_warnings():  # what there is to say of the scores is said by the audit
        warnings.simplefilter("ignore")
        return clone(scaler).fit(normal[~np.isnan(normal).any(axis=1)])


def _fused_by_prior(
    one_class: OneClass, training: Training, scaler: Any, prior: Mapping[str, float] | None
) -> Host:
    """What one-class members say of the rows together; equal where there are none."""
    n = len(training.labels)
    scores, normal = one_class.scores[:n], one_class.scores[:n][training.labels >= 0]
    if not one_class.members or np.isnan(normal).any(axis=1).all():
        return np.zeros(n)
    scaled = scale_scores(_fit_scale(TailScaler() if scaler is None else scaler, normal), scores)
    weights = _weights_of(one_class.members, prior)
    fused: Host = without_gaps(scaled * weights, weights).sum(axis=1)
    return fused


def _weights_of(members: list[Member], prior: Mapping[str, float] | None) -> Host:
    """Prior weights of one-class members, which sum to 1; equal ones where none has any."""
    weights = np.array([0.0 if prior is None else prior[member.name] for member in members])
    return weights / weights.sum() if weights.any() else np.full(len(members), 1 / len(members))


def fit_experts(
    experts: list[Member],
    inputs: Table,
    training: Training,
    scheduler: FitScheduler,
    weights: Host | None = None,
) -> tuple[list[Member], Host]:
    """As `fit_one_class`, for members that learn from both classes of the rows of `inputs`."""
    known, every = training.weight_labels, np.arange(len(training.labels))
    nothing = np.empty(0, dtype=np.intp)
    tasks, places = [], []
    for i, expert in enumerate(experts):
        for learn, score in [(every, nothing), *(training.folds.pairs if training.folds else [])]:
            learn = learners_of_experts(training, learn)
            check = not training.is_part
            tasks.append(delayed(fit_expert)(expert, inputs, known, learn, score, weights, check))
            places.append((i, score))
    fitted: dict[int, Member] = {}
    left_out: set[int] = set()
    scores = np.full((len(known), len(experts)), np.nan)
    for (i, score), result in zip(places, scheduler.run(tasks), strict=True):
        if result is None:
            left_out.add(i)
        elif len(score):
            scores[score, i] = result
        else:
            fitted[i] = result
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
    return [fitted[i] for i in kept], _on_one_level(scores[:, kept], known, fold)


def _on_one_level(scores: Host, labels: Host, fold: NDArray[np.intp]) -> Host:
    """Scores by the experts of each fold; where folds differ more than rows do, on one level.

    Experts that tell the classes apart without fail give all normal rows nearly one score, and
    those of another fold another one. That difference says nothing of the rows, but would be all
    that there is to set a scale by: with it, a hundredth of a score once counted like a standard
    deviation. Such scores are moved so that normal rows have the same median in all folds.
    """
    numbers = [number for number in np.unique(fold) if (labels[fold == number] > 0).any()]
    parts = [scores[(fold == number) & (labels > 0)] for number in numbers]
    medians = np.array([_median(part) for part in parts])
    within = _median(np.array([_median(np.abs(part - _median(part))) for part in parts]))
    apart = np.nan_to_num(_median(np.abs(medians - _median(medians)))) > np.nan_to_num(within)
    found = scores.copy()
    for number, median in zip(numbers, medians, strict=True):
        found[fold == number] += np.where(apart, np.nan_to_num(_median(medians) - median), 0.0)
    return found


def _median(scores: Host) -> Host:
    """Of each column, without gaps; NaN where there is nothing else."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="All-NaN slice")
        middle: Host = np.nanmedian(scores, axis=0)
    return middle


def _beside_scores(experts: list[Member], d: int, n_scores: int) -> list[Member]:
    """Experts that see, with the columns that they saw of d, the scores to their right."""
    scores = np.arange(d, d + n_scores)
    return [
        expert
        if expert.columns is None
        else Member(expert.name, expert.estimator, np.concatenate([expert.columns, scores]))
        for expert in experts
    ]
