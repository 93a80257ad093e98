"""Raw scores of training rows by fits without the row's fold, and the detectors themselves.

One-class members learn from rows that are not known anomalies. Experts come after them, learn from
both classes and see the fused score of the one-class members beside the features. Unlabelled rows
stand in for normal ones, each with a weight that says how probably it is one.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing, check_random_state

from lpfuse._arrays.operations import Host, column_ranks
from lpfuse._validation.params import warn_user
from lpfuse.answers import answer_weights
from lpfuse.ensemble.combination import scale_scores, without_gaps
from lpfuse.ensemble.defaults import Strategy, make_members, seed_members
from lpfuse.ensemble.folds import Part, Training
from lpfuse.ensemble.pool import (
    MeanOfFits,
    Member,
    Pool,
    TooFewCompleteRows,
    check_scores_by_row,
    fit_members,
    group_members,
    leave_one_out_scores,
    scorable_rows,
    score_members,
    scores_or_error,
    share_preparation,
)
from lpfuse.ensemble.rows import Index, Table

# Normal rows that an expert learns from, at most; chosen by hand.
EXPERT_ROWS = 2_000
# Rows from which on detectors that share no more than their preparation are fitted one by one: then
# cores are used evenly, and progress shows. Below, preparing rows once for all of them is faster.
ALONE_FROM = 10_000

Progress = Callable[[int, int], None]
# What experts see of all rows, and how much each row counts; None: all alike.
ExpertView = tuple[Table, Host | None]


@dataclass
class FitScheduler:
    """Runs fits on so many cores, and tells how much of the work is done.

    Attributes
    ----------
    n_jobs : int or None
        Fits at a time.
    progress : callable or None
        Is told how much work is done, and how much there is in all.
    later : int
        Work that is known to follow.
    done : int
        Work that is done.
    """

    n_jobs: int | None = None
    progress: Progress | None = None
    later: int = 0
    done: int = 0

    @classmethod
    def for_user(cls, n_jobs: int | None, progress: bool | Progress) -> FitScheduler:
        """Make one of what users pass to `FusedDetector.fit`."""
        return cls(n_jobs, progress if callable(progress) else _to_stderr if progress else None)

    def run(self, tasks: Sequence[Any], work: Sequence[int] | None = None) -> Iterator[Any]:
        """Yield results of the tasks in order; `work` says how long each takes, 1 for all."""
        work = [1] * len(tasks) if work is None else work
        total = self.done + sum(work) + self.later
        one_by_one = get_active_backend()[0].supports_return_generator  # "multiprocessing": not
        kind = "generator" if one_by_one else "list"
        results = Parallel(n_jobs=self.n_jobs, return_as=kind)(tasks)
        for result, took in zip(results, work, strict=True):
            self.done += took
            if self.progress is not None:
                self.progress(self.done, total)
            yield result


def _to_stderr(done: int, total: int) -> None:
    end = "\n" if done == total else ""
    print(f"\rFitting detectors: {done / total:.0%}", end=end, file=sys.stderr, flush=True)


class ScoredMembers(NamedTuple):
    """Fitted one-class members, and scores of rows that they did not learn from.

    Attributes
    ----------
    members : list of Member
        Fitted on all rows but anomalies; as they were given, where rows were hidden: those fits
        have said all that they will.
    scores : ndarray of shape (n + artificial, R)
        Of the training rows, out of fold; NaN where no fit could, or should, score a row.
    hidden : ndarray of shape (m, R) or None
        Of the rows that were hidden.
    """

    members: list[Member]
    scores: Host
    hidden: Host | None = None


def fit_one_class(
    members: list[Member],
    trainings: Sequence[tuple[Training, Table | None]],
    scheduler: FitScheduler,
) -> list[ScoredMembers]:
    """Fit one-class members on all rows but anomalies; score every row by fits without its fold.

    Parameters
    ----------
    members : list of Member
        To be fitted to each training.
    trainings : sequence of (Training, table or None)
        Rows to learn from, and rows to hide meanwhile. All fits run side by side.
    scheduler : FitScheduler
        Runs them.
    """
    plans = [_FitPlan(members, training, hidden) for training, hidden in trainings]
    tasks = [task for plan in plans for task in plan.tasks]
    work = [work for plan in plans for work in plan.work]
    results = scheduler.run(tasks, work)
    return [plan.collect(results) for plan in plans]


def score_out_of_fold(
    members: list[Member],
    training: Training,
    parts: Sequence[Part],
    strategy: Strategy,
    scheduler: FitScheduler,
) -> tuple[ScoredPool, list[ScoredMembers]]:
    """Fit all members, and score every row by fits without its fold.

    Parameters
    ----------
    members : list of Member
        One-class members and experts.
    training : Training
        Rows, labels and folds.
    parts : sequence of Part
        Rows that calibrate, each hidden from fits of its own.
    strategy : Strategy
        Chooses the members to keep.
    scheduler : FitScheduler
        Runs the fits.

    Returns
    -------
    scored : ScoredPool
        From all rows.
    without : list of ScoredMembers
        One-class members without each part: what experts without the part see comes from these.
    """
    one_class = [member for member in members if not member.learns_from_anomalies]
    experts = [member for member in members if member.learns_from_anomalies]
    n, n_folds = len(training.labels), len(training.folds.pairs) if training.folds else 0
    learners = min(n, EXPERT_ROWS + int((training.labels < 0).sum()))
    scheduler.later = 2 * len(experts) * n_folds * learners
    rows = [(part.training, _safe_indexing(training.X, part.scored, axis=0)) for part in parts]
    found = fit_one_class(one_class, [(training, None), *rows], scheduler)
    trainings = [training, *(part.training for part in parts)]
    whole, *without = [
        _keep(scored, each, strategy) for scored, each in zip(found, trainings, strict=True)
    ]
    scheduler.later = 0
    of_all = []
    if experts and training.gap is None:  # in time order the folds of experts are no parts
        of_all = [
            (_scores_of_all_rows(part, scored, n), part.learn)
            for part, scored in zip(parts, without, strict=True)
        ]
    return add_experts(whole, experts, training, scheduler, strategy, of_all), without


def _keep(scored: ScoredMembers, training: Training, strategy: Strategy) -> ScoredMembers:
    """Return the one-class members that the strategy keeps, with their scores."""
    kept = strategy.keep_members(scored.members, scored.scores, training)
    if np.array_equal(kept, np.arange(len(scored.members))):
        return scored
    hidden = None if scored.hidden is None else scored.hidden[:, kept]
    return ScoredMembers([scored.members[i] for i in kept], scored.scores[:, kept], hidden)


def _scores_of_all_rows(part: Part, scored: ScoredMembers, n: int) -> Host:
    """Return scores of all n training rows by one-class members without a part."""
    found = np.full((n, scored.scores.shape[1]), np.nan)
    found[part.learn] = scored.scores[: len(part.learn)]
    found[part.scored] = scored.hidden
    return found


def fit_detectors(
    detectors: Any,
    X: Table,
    *,
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: Progress | None = None,
) -> list[tuple[str, Any, Any]]:
    """Fit detectors once, to all rows, for ``FusedDetector(..., cv="prefit")``.

    Kernel learners with the same columns and preparation share the kernel's work.

    Parameters
    ----------
    detectors : list of (name, detector) or (name, detector, columns)
        That learn from normal rows, as `FusedDetector` takes them.
    X : array or data frame of shape (n, d)
        Normal rows.
    n_jobs : int, optional
        Fits at a time, as in joblib.
    random_state : int, RandomState or None, default=None
        Seeds the detectors whose own ``random_state`` is None.
    progress : callable, optional
        Is told how many fits are done, and of how many.

    Returns
    -------
    list of (name, detector, columns)
        In the order given.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import GMMDetector
    >>> from lpfuse.ensemble.components import fit_detectors
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> ((name, gmm, columns),) = fit_detectors([("gmm", GMMDetector(), [0, 2])], X)
    >>> gmm.n_features_in_
    2
    """
    members = seed_members(make_members(detectors, X), check_random_state(random_state))
    groups = group_members(members)
    tasks = [delayed(fit_members)([members[i] for i in group], X) for group in groups]
    fitted: dict[int, Member] = {}
    for group, done in zip(groups, FitScheduler(n_jobs, progress).run(tasks), strict=True):
        fitted.update(zip(group, done, strict=True))
    return [(fitted[i].name, fitted[i].estimator, fitted[i].columns) for i in sorted(fitted)]


class _FitPlan:
    """The fits of one-class members to the rows of one training, and where results belong."""

    def __init__(self, members: list[Member], training: Training, hidden: Table | None) -> None:
        self.members, self.training, self.hidden = members, training, hidden
        n, folds = len(training.labels), training.folds
        n_learn = int((training.labels >= 0).sum())
        by_formula = {i for i, member in enumerate(members) if _leaves_one_out(member, training)}
        self.by_folds = [] if folds is None else [
            i for i in range(len(members)) if i not in by_formula
        ]  # fmt: skip
        self.tasks: list[Any] = []
        self.work: list[int] = []
        # Columns and rows of the results; no rows: those of fits to all rows.
        self.places: list[tuple[list[int], Index | None]] = []
        for group in group_members(members, alone=n_learn >= ALONE_FROM):
            score = folds is None or any(i in by_formula for i in group)
            chosen = [members[i] for i in group]
            self.tasks.append(delayed(_fit_on_all)(chosen, training, score, hidden))
            self.work.append(_work(chosen, n_learn))
            self.places.append((group, None))
        for positions in group_members([members[i] for i in self.by_folds]):
            group = [self.by_folds[i] for i in positions]
            for fold, (learn, score_rows) in enumerate(folds.pairs if folds else []):
                jittered = np.flatnonzero(training.fold_of_truth[n:] == fold)
                learn = learn[training.labels[learn] >= 0]
                if len(learn) == 0:
                    raise ValueError(
                        "A fold leaves no normal row to learn from. Use folds, or groups, that "
                        "spread the normal rows."
                    )
                chosen = [members[i] for i in group]
                task = delayed(_fit_and_score)(chosen, training, learn, score_rows, jittered)
                self.tasks.append(task)
                self.work.append(_work(chosen, len(learn)))
                self.places.append((group, np.concatenate([score_rows, n + jittered])))

    def collect(self, results: Iterator[Any]) -> ScoredMembers:
        """Collect the next results, which are of the tasks in their order."""
        fitted: dict[int, Member] = {}
        scores = np.full((len(self.training.truth), len(self.members)), np.nan)
        hidden = None
        if self.hidden is not None:
            hidden = np.full((self.hidden.shape[0], len(self.members)), np.nan)
        for group, rows in self.places:
            result = next(results)
            if rows is not None:
                scores[np.ix_(rows, np.array(group))] = result
                continue
            done, whole, scored = result
            fitted.update(zip(group, done, strict=True))
            for column, i in enumerate(group):
                if whole is not None and i not in self.by_folds:
                    scores[:, i] = whole[:, column]
                if hidden is not None and not isinstance(scored[column], str):
                    hidden[:, i] = scored[column]
        members = share_preparation([fitted[i] for i in range(len(self.members))])
        return ScoredMembers(members, scores, hidden)


def _work(members: Sequence[Member], n: int) -> int:
    """Estimate how long fits to n rows take, beside those of other members."""
    return round(n * sum(float(getattr(member.last, "relative_work", 1.0)) for member in members))


def _leaves_one_out(member: Member, training: Training) -> bool:
    """Tell whether a formula can replace the folds: rows are independent, none is jittered."""
    return (
        training.folds is not None
        and training.folds.independent
        and training.jittered is None
        and hasattr(member.last, "leave_one_out_scores")
        and getattr(member.last, "leaves_one_out_of", bool)((training.labels >= 0).sum())
        and len(scorable_rows(member, training.X)) == len(training.labels)
    )


def _fit_on_all(
    members: list[Member], training: Training, score: bool, hidden: Table | None
) -> tuple[list[Member], Host | None, list[Any] | None]:
    """Fit members on all rows but anomalies; score all rows where asked, and hidden ones.

    Where rows were hidden the fits are of no further use, and the members come back as they were.
    """
    learn = np.flatnonzero(training.labels >= 0)
    X = _safe_indexing(training.X, learn, axis=0)
    fitted = fit_members(members, X)
    for member in [] if training.is_part else fitted:
        check_scores_by_row(member, X)
    scores = _scores_of_all(fitted, training, X) if score else None
    if hidden is None:
        return fitted, scores, None
    return members, scores, scores_or_error(fitted, hidden)


def _scores_of_all(fitted: list[Member], training: Training, X: Table) -> Host:
    """Score all rows by members that were fitted to those that are not anomalies, `X`."""
    if training.folds is None:
        parts = [training.X, *([] if training.jittered is None else [training.jittered])]
        return np.concatenate([score_members(fitted, part) for part in parts])
    scores = np.full((len(training.labels), len(fitted)), np.nan)
    anomalies = np.flatnonzero(training.labels < 0)
    if len(anomalies):
        scores[anomalies] = score_members(fitted, _safe_indexing(training.X, anomalies, axis=0))
    by_formula = [i for i, member in enumerate(fitted) if _leaves_one_out(member, training)]
    if by_formula:
        found = leave_one_out_scores([fitted[i] for i in by_formula], X)
        scores[np.ix_(training.labels >= 0, np.array(by_formula))] = found
    return scores


def _fit_and_score(
    members: list[Member], training: Training, learn: Index, score: Index, jittered: Index
) -> Host:
    """Score rows, then jittered ones, by members fitted to others."""
    fitted = fit_members(members, _safe_indexing(training.X, learn, axis=0))
    scores = [score_members(fitted, _safe_indexing(training.X, score, axis=0))]
    if len(jittered):
        scores.append(score_members(fitted, _safe_indexing(training.jittered, jittered, axis=0)))
    return np.concatenate(scores)


def learners_of_experts(training: Training, rows: Index) -> Index:
    """Choose the rows that experts learn from: all anomalies, and at most so many normal ones.

    Labelled ones come first; the others are taken evenly.
    """
    normal = rows[training.labels[rows] >= 0]
    if len(normal) <= EXPERT_ROWS:
        return rows
    labelled = normal[training.labels[normal] > 0]
    labelled = labelled if len(labelled) <= EXPERT_ROWS // 2 else labelled[:0]
    others = np.setdiff1d(normal, labelled)
    some = others[np.linspace(0, len(others) - 1, EXPERT_ROWS - len(labelled)).astype(np.intp)]
    return np.concatenate([rows[training.labels[rows] < 0], labelled, some])


def fit_expert(
    expert: Member,
    inputs: Table,
    labels: Host,
    learn: Index,
    score: Index,
    weights: Host | None = None,
    check: bool = True,
) -> tuple[Member, Host] | None:
    """Fit an expert and score some rows; None where too few complete rows can be learnt.

    With `check`, an expert that scores a row by its batch is refused.
    """
    try:
        rows = _safe_indexing(inputs, learn, axis=0)
        counts = None if weights is None else weights[learn]
        (fitted,) = fit_members([expert], rows, labels[learn], counts)
    except TooFewCompleteRows:
        return None
    if check:
        check_scores_by_row(fitted, rows)
    if len(score) == 0:
        return fitted, np.empty(0)
    return fitted, score_members([fitted], _safe_indexing(inputs, score, axis=0))[:, 0]


# ------------------------------------------------------------------------------------------ experts


# Normal rows by which it is told how much the fits of an expert differ; by hand.
PROBES = 300


class ScoredPool(NamedTuple):
    """A pool with out-of-fold scores of its training rows, and what these rows are worth.

    Attributes
    ----------
    pool : Pool
        Fitted on all rows.
    scores : ndarray of shape (n + artificial, R)
        Out-of-fold scores of the rows, then of the artificial anomalies.
    weights : ndarray of shape (n,) or None
        How much each row counts; None: all alike.
    shrinkage : ndarray of shape (experts,) or None
        How far below the median the mean of an expert's fits puts a row that one of them puts at
        1: see `ensemble_shrinkage`; None: as far.
    """

    pool: Pool
    scores: Host
    weights: Host | None
    shrinkage: Host | None = None


def add_experts(
    one_class: ScoredMembers,
    experts: list[Member],
    training: Training,
    scheduler: FitScheduler,
    strategy: Strategy,
    without: Sequence[tuple[Host, Index]] = (),
) -> ScoredPool:
    """Fit experts beside one-class members, and say how much each row counts.

    Experts see one column beside the features: the scaled scores of the one-class members, fused by
    prior weights.

    Parameters
    ----------
    one_class : ScoredMembers
        Fitted to all rows.
    experts : list of Member
        To be fitted.
    training : Training
        Rows, labels and folds.
    scheduler : FitScheduler
        Runs the fits.
    strategy : Strategy
        Chooses the scale and the prior weights.
    without : sequence of (scores, rows)
        For each fold, scores of all rows by one-class members without its normal rows, and the rows
        that may be learnt from. What is learnt without the fold then knows nothing of it at all.
        Empty, or of rows in time order: the scores of `one_class` serve for every fold.
    """
    n, fitted = len(training.labels), one_class.members
    whole = one_class.scores[:n]
    scaler = strategy.expert_scaler()
    names = [member.name for member in [*fitted, *experts]]
    prior = strategy.prior_weights(names, training.labels[training.labels >= 0])
    counts = count_rows(whole, fitted, training, scaler, prior)
    if not experts:
        return ScoredPool(Pool(fitted, []), one_class.scores, counts)
    weights = _weights_of(fitted, prior) if fitted else None
    if fitted:
        experts = _beside_score(experts, training.X.shape[1])

    def seen_with(scores: Host, rows: Index, scale: Any = None) -> tuple[Pool, ExpertView]:
        """Return what experts see of all rows, where these rows may set scale and weights."""
        normal = rows[training.weight_labels[rows] > 0]
        if scale is None and fitted:
            scale = _fit_scale(scaler, scores[normal])
        pool = Pool(fitted, experts, scale, weights)
        count = count_rows(scores, fitted, training, scaler, prior, rows)
        if count is not None:
            count[rows] = expert_weights(count[rows], training.labels[rows])
        return pool, (pool.expert_inputs(training.X, scores), count)

    pool, view = seen_with(whole, np.arange(n))
    n_folds = len(training.folds.pairs) if training.folds else 0
    scale = pool.score_scaler if training.one_scale else None
    without = without if training.gap is None else ()  # a rehearsal is no fold
    views = [seen_with(*each, scale)[1] for each in without] or [view] * n_folds
    learnt, expert_scores, shrinkage = fit_experts(experts, view, views, training, scheduler)
    pool = replace(pool, experts=learnt)
    scores = np.column_stack([one_class.scores, expert_scores])
    return ScoredPool(pool, scores, counts, shrinkage)


def count_rows(
    scores: Host,
    one_class: Sequence[Member],
    training: Training,
    scaler: Any,
    prior: Mapping[str, float] | None,
    rows: Index | None = None,
) -> Host | None:
    """Return how much each row counts, by its one-class scores; None: all alike.

    Where no row is labelled, or all are, rows count alike. With `rows`, these alone
    are looked at, and what the others count is of no use.
    """
    chances = np.full(len(scores), np.nan) if training.chances is None else training.chances
    unlabelled = training.labels == 0
    if np.isnan(chances).all() and (unlabelled.all() or not unlabelled.any()):
        return None
    rows = np.arange(len(scores)) if rows is None else rows
    labels, counts = training.labels[rows], np.ones(len(scores))
    seen = _fused_by_prior(scores[rows], labels, one_class, scaler, prior)
    hidden = hidden_chance(strangeness(seen), SHARE)
    counts[rows] = answer_weights(1.0 - hidden, labels, chances[rows])
    return counts


def _fit_scale(scaler: Any, normal: Host) -> Any:
    """Fit a copy of the scaler to the scores of normal rows."""
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
    """Fuse scores of one-class members by prior weights; equal where there are none."""
    normal = scores[labels >= 0]
    if not members or np.isnan(normal).any(axis=1).all():
        return np.zeros(len(scores))
    scaled = scale_scores(_fit_scale(scaler, normal), scores)
    weights = _weights_of(members, prior)
    fused: Host = without_gaps(scaled * weights, weights).sum(axis=1)
    return fused


def _weights_of(members: Sequence[Member], prior: Mapping[str, float] | None) -> Host:
    """Return prior weights of one-class members, with sum 1; equal ones where none has any."""
    weights = np.array([0.0 if prior is None else prior[member.name] for member in members])
    return weights / weights.sum() if weights.any() else np.full(len(members), 1 / len(members))


def fit_experts(
    experts: list[Member],
    whole: ExpertView,
    views: Sequence[ExpertView],
    training: Training,
    scheduler: FitScheduler,
) -> tuple[list[Member], Host, Host | None]:
    """Fit experts, and score every row by fits without its fold.

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
    shrinkage : ndarray of shape (len(fitted),) or None
        See `ensemble_shrinkage`; None where an expert is one fit.
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
            check = number == len(rounds) - 1  # one of its fits stands for all
            asked = np.concatenate([score, probes])
            tasks.append(delayed(fit_expert)(made, view[0], known, some, asked, view[1], check))
            places.append((i, number, score))
    fits: dict[int, list[Member]] = {i: [] for i in range(len(experts))}
    left_out: set[int] = set()
    scores = np.full((len(known), len(experts)), np.nan)
    probed = np.full((len(rounds), len(probes), len(experts)), np.nan)
    work = [2 * len(task[1][3]) for task in tasks]  # experts take twice as long as detectors
    for (i, number, score), result in zip(places, scheduler.run(tasks, work), strict=True):
        if result is None:
            left_out.add(i)
        else:
            fits[i].append(result[0])
            scores[score, i], probed[number, :, i] = np.split(result[1], [len(score)])
    if left_out:
        names = ", ".join(repr(experts[i].name) for i in sorted(left_out))
        warn_user(
            f"{names} are left out: they cannot do with missing cells, and whichever fold is "
            "hidden, complete rows of both classes must remain."
        )
    kept = [i for i in range(len(experts)) if i not in left_out]
    fold = training.fold_of_truth[: len(known)]
    levelled = align_fold_medians(scores[:, kept], known, fold)
    if not training.folds.dealt:
        return [fits[i][-1] for i in kept], levelled, None
    fit_without = np.full(len(known), -1)
    for number, (_, score) in enumerate(training.folds.pairs):
        fit_without[score] = number
    shrinkage = ensemble_shrinkage(levelled[probes], probed[:, :, kept], fit_without[probes])
    means = {i: MeanOfFits([fit.estimator for fit in fits[i]]) for i in kept}
    return [fits[i][0].with_estimator(means[i]) for i in kept], levelled, shrinkage


def _reseeded(expert: Member, number: int) -> Member:
    """Seed the expert anew for each fold: a mean of fits that draw alike gains less."""
    made = clone(expert.estimator)
    seeds = {
        key: (int(value) + number) % 2**31
        for key, value in made.get_params(deep=True).items()
        if key.endswith("random_state") and isinstance(value, Integral)
    }
    return expert.with_estimator(made.set_params(**seeds) if seeds else made)


def _beside_score(experts: list[Member], d: int) -> list[Member]:
    """Let experts see, with the columns that they saw of d, the score to their right."""
    return [
        expert
        if expert.columns is None
        else Member(expert.name, expert.estimator, np.append(expert.columns, d))
        for expert in experts
    ]


# --------------------------------------------------------------------- fits without different folds


def ensemble_shrinkage(scores: Host, by_fit: Host, fold: NDArray[np.intp]) -> Host:
    r"""Estimate how much nearer to the median a mean of K fits puts rows than one fit does.

    A row's score by the one fit without its fold scatters by what rows and what fits differ in,
    :math:`\sigma^2 + \tau^2`, the mean of all fits of a new row by :math:`\sigma^2 + \tau^2 / K`.
    How fits differ about a row, :math:`\tau^2`, is read off the others. The result is the root of
    the ratio, of rows below the median, where thresholds are. Without it, thresholds that rest on
    single fits are too low for means: 4.0 % alarms for 5 % with 5 labels, 4.4 % with 20.

    Parameters
    ----------
    scores : ndarray of shape (m, experts)
        Of some normal rows, by the fit without their fold.
    by_fit : ndarray of shape (K, m, experts)
        Of the same rows, by every fit.
    fold : ndarray of shape (m,)
        Their folds: the number of the fit without them.
    """
    n_fits = len(by_fit)
    if n_fits < 3 or len(scores) < 2:
        return np.ones(scores.shape[1])
    others = by_fit.copy()
    others[fold, np.arange(len(fold))] = np.nan
    below = scores - _median(scores)
    low = np.where(below < 0, 1.0, np.nan)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Mean of empty slice|Degrees of freedom")
        fits_differ = np.nanmean(low * np.nanvar(others, axis=0, ddof=1), axis=0)
        whole = np.nanmean(low * below**2, axis=0)
    share = np.divide(fits_differ, whole, out=np.zeros_like(whole), where=whole > 0)
    shrinkage: Host = np.sqrt(1.0 - np.clip(np.nan_to_num(share), 0.0, 1.0) * (1.0 - 1.0 / n_fits))
    return shrinkage


def shrink_to_ensemble_variance(scores: Host, shrinkage: Host | None, normal: Host) -> Host:
    """Shrink scores by single fits to the variance of means, below the median of `normal`."""
    if shrinkage is None:
        return scores
    below = np.minimum(scores - _median(normal), 0.0)
    found: Host = scores - (1.0 - shrinkage) * below
    return found


def align_fold_medians(scores: Host, labels: Host, fold: NDArray[np.intp]) -> Host:
    """Align medians of folds where folds differ more than rows do.

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
    """Return the median of each column, without gaps; NaN where there is nothing else."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="All-NaN slice")
        middle: Host = np.nanmedian(scores, axis=0)
    return middle


# ------------------------------------------------------------------- how much unlabelled rows count


STEEP = 0.38  # 42 % of the hidden anomalies among the strangest tenth, measured at 5 %
SHARE = 0.05  # of hidden anomalies, as rows are weighed by; by hand
SUREST = 0.9  # of no row the suspicion is greater; by hand
# What an unlabelled row counts for beside a labelled one, where experts learn. Ten to thirty times
# less did best on twenty sets: docs/adr/0020.
GUESS = 0.1


def strangeness(scores: Host) -> Host:
    """Return the share of the rows that are at least as strange, in (0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> strangeness(np.array([5.0, 1.0, 3.0, 3.0]))
    array([0.875, 0.125, 0.5  , 0.5  ])
    """
    ranks: Host = (column_ranks(np.nan_to_num(scores, nan=-np.inf)[:, None])[:, 0] - 0.5) / len(
        scores
    )
    return ranks


def hidden_chance(rank: Host, share: float | Host, steep: float = STEEP) -> Host:
    """Return the chance q that rows of these ranks are hidden anomalies, given their share."""
    found: Host = np.minimum(SUREST, share * steep * rank ** (steep - 1.0))
    return found


def expert_weights(weights: Host, known: Host) -> Host:
    """Return the weights by which experts learn: unlabelled rows count less than labelled ones.

    Normal rows count 1 in the mean, so that the classes stay balanced.
    """
    normal, unlabelled = known >= 0, known == 0
    found = np.where(unlabelled, GUESS * weights, weights) if (known > 0).any() else weights.copy()
    return np.where(normal, found / found[normal].mean(), found)
