"""Detectors by name and together: fitted to rows, asked for raw scores, and checked.

`Member` is one named detector, `Pool` all that are fitted. Members that are prepared alike share
that work. Three shortcuts give the same scores faster: `MeanOfFits` evaluates several support
vector machines by one product, `SingleRowScorer` takes members apart for one row at a time, and
`fit_together` and `score_together` of `lpfuse.detectors` share kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeVar

import joblib
import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host, map_row_blocks, one_blas_thread, openmp_threads_for
from lpfuse._base import Detector, sklearn_name
from lpfuse._files import ANY, FieldsOnlyState, saved_as
from lpfuse._format import quote
from lpfuse._validation.params import LARGEST_SCORE
from lpfuse.adapters import ClassifierExpert, check_detector_scores, innermost, log_odds
from lpfuse.detectors import fit_together, score_together
from lpfuse.detectors.base import HeldOutDetector, RefittedDetector
from lpfuse.detectors.columns import FlatTrees, Nodes
from lpfuse.detectors.kernels import Kernel, KernelScorer
from lpfuse.ensemble.combination import scale_scores, without_gaps
from lpfuse.ensemble.rows import (
    Index,
    Table,
    complete_rows,
    frame_with_scores,
    on_usable_rows,
    rows_with_any_cell,
)
from lpfuse.views import FilledGaps, NormalQuantiles

T = TypeVar("T")


class TooFewCompleteRows(ValueError):
    """An expert refuses missing cells, and the complete rows are not of both classes."""


@saved_as("Member", name=ANY)
@dataclass(frozen=True)
class Member:
    """A detector by name, with the columns that it sees.

    Attributes
    ----------
    name : str
        As users call it.
    estimator : estimator
        With ``fit`` and ``score_samples``, high = normal; may be a Pipeline.
    columns : ndarray of positions or None
        None: all columns.
    """

    name: str
    estimator: Any
    columns: Index | None = None

    @property
    def learns_from_anomalies(self) -> bool:
        """Whether it is an expert: one that needs rows of both classes."""
        return getattr(self.last, "learns_from_anomalies", False)

    @property
    def is_own(self) -> bool:
        """Whether it is a detector of lpfuse, which can share work with others."""
        return isinstance(self.last, Detector)

    @property
    def last(self) -> Any:
        """The detector behind whatever prepares its rows."""
        return self.estimator[-1] if isinstance(self.estimator, Pipeline) else self.estimator

    @property
    def last_name(self) -> str:
        """What the detector is called in its pipeline."""
        return self.estimator.steps[-1][0] if isinstance(self.estimator, Pipeline) else self.name

    @property
    def head(self) -> Pipeline | None:
        """What prepares the rows for the detector."""
        is_pipeline = isinstance(self.estimator, Pipeline) and len(self.estimator) > 1
        return self.estimator[:-1] if is_pipeline else None

    @property
    def fills_gaps(self) -> bool:
        """Whether the first thing it does is to fill missing cells in."""
        kinds = () if self.head is None else type(self.head[0]).__mro__
        names = map(sklearn_name, kinds)
        return FilledGaps in kinds or not {"KNNImputer", "SimpleImputer"}.isdisjoint(names)

    def with_estimator(self, estimator: Any) -> Member:
        """Return the same member with another estimator, for instance a fitted one."""
        return replace(self, estimator=estimator)


def group_members(
    members: Sequence[Member], *, fitted: bool = False, alone: bool = False
) -> list[list[int]]:
    """Group positions of members that can share work.

    These are lpfuse's own detectors with the same columns and preparation; fitted ones, where they
    hold the very same fitted preparation. All others are on their own; with `alone` also those that
    have no kernel, whose preparation is all that they could share.
    """
    groups: dict[Any, list[int]] = {}
    for i, member in enumerate(members):
        shares = member.is_own and not (alone and not isinstance(member.last, RefittedDetector))
        groups.setdefault(_key(member, i, fitted) if shares else i, []).append(i)
    return list(groups.values())


def _key(member: Member, i: int, fitted: bool) -> Any:
    """Return a key that is equal for members with the same columns and preparation."""
    columns = None if member.columns is None else tuple(member.columns)
    return columns, _preparation(member, i, fitted)


def share_preparation(members: Sequence[Member]) -> list[Member]:
    """Let members that were fitted apart to the same rows share equal preparations.

    Rows to be scored are then prepared once for all of them.
    """
    heads: dict[Any, Pipeline] = {}
    shared = []
    for i, member in enumerate(members):
        head = member.head
        if head is None or not member.is_own:
            shared.append(member)
            continue
        unfitted = member.with_estimator(clone(member.estimator))
        head = heads.setdefault(_key(unfitted, i, False), head)
        shared.append(member.with_estimator(_behind(head, member.last, member.last_name)))
    return shared


def _preparation(member: Member, i: int, fitted: bool) -> Any:
    head = member.head
    if head is None:
        return None
    if fitted:
        return tuple(id(step) for _, step in head.steps)
    try:
        return joblib.hash([step for _, step in head.steps])
    except Exception:  # what cannot be hashed, such as a lambda in a step, is not shared
        return i


def fit_members(
    members: Sequence[Member], X: Table, labels: Host | None = None, weights: Host | None = None
) -> list[Member]:
    """Fit copies of members that see the same columns, prepared in the same way.

    Kernel learners share the kernel's work. Where rows with missing cells are refused, the
    complete ones are learnt from.

    Parameters
    ----------
    members : sequence of Member
        One group of `group_members`.
    X : table of shape (n, d)
        Rows, with all columns.
    labels, weights : ndarrays of shape (n,), optional
        For experts: ±1, and how much each row counts.

    Raises
    ------
    TooFewCompleteRows
        The members are experts that refuse missing cells, and the complete rows are of one class.
    """

    def fit(rows: Table, index: Index) -> list[Member]:
        if labels is not None and len(index) < len(labels) and len(np.unique(labels[index])) < 2:
            raise TooFewCompleteRows("Complete rows of both classes are needed.")
        head = members[0].head
        if head is not None:
            head = clone(head)
            with np.errstate(all="ignore"):  # what is no number then is refused below
                rows = head.fit_transform(rows)
        detectors = [clone(member.last) for member in members]
        if isinstance(detectors[0], Detector):
            fit_together(detectors, rows, thresholds=False)  # the fused scores have their own
        else:
            known = [] if labels is None else [labels[index]]
            if weights is not None and isinstance(detectors[0], ClassifierExpert):
                known.append(weights[index])
            with openmp_threads_for(len(index)):
                detectors[0].fit(rows, *known)
        return [
            member.with_estimator(_behind(head, detector, member.last_name))
            for member, detector in zip(members, detectors, strict=True)
        ]

    return _on_usable_rows(fit, X, members, "fitting")[0]


def _behind(head: Pipeline | None, detector: Any, name: str) -> Any:
    """Put the fitted preparation in front of the detector."""
    return detector if head is None else Pipeline([*head.steps, (name, detector)])


def score_members(members: Sequence[Member], X: Table) -> Host:
    """Score rows by fitted members of one group, a column each.

    NaN where rows with missing cells are refused. Infinite scores become very large ones.

    Parameters
    ----------
    members : sequence of Member
        One group of `group_members`, fitted.
    X : table of shape (n, d)
        Rows, with all columns.
    """

    def score(rows: Table, index: Index) -> Host:
        if len(index) == 0:
            return np.empty((0, len(members)))
        head = members[0].head
        if head is not None:
            rows = head.transform(rows)
        if isinstance(members[0].last, Detector):
            together = score_together([member.last for member in members], rows)
            return np.asarray(together, dtype=np.float64)
        with openmp_threads_for(len(index)):
            answer = members[0].last.score_samples(rows)
        return check_detector_scores(answer, len(index), members[0].name)[:, None]

    found, rows = _on_usable_rows(score, X, members, "scoring with")
    scores = np.full((X.shape[0], len(members)), np.nan)
    scores[rows] = np.clip(found, -LARGEST_SCORE, LARGEST_SCORE)
    return scores


def leave_one_out_scores(members: Sequence[Member], X: Table) -> Host:
    """Score each training row by fits to all others, by the formulas of detectors of one group."""
    columns, head = members[0].columns, members[0].head
    rows = X if columns is None else _safe_indexing(X, columns, axis=1)
    rows = rows if head is None else head.transform(rows)
    found = [member.last.leave_one_out_scores(rows) for member in members]
    return np.stack(found, axis=1, dtype=np.float64)


def scorable_rows(member: Member, X: Table) -> Index:
    """Find the rows that a member can score in any case, whether it takes NaN or not."""
    view = X if member.columns is None else _safe_indexing(X, member.columns, axis=1)
    return rows_with_any_cell(view) if member.fills_gaps else complete_rows(view)


def _on_usable_rows(
    work: Callable[[Table, Index], T], X: Table, members: Sequence[Member], doing: str
) -> tuple[T, Index]:
    """Do the work on the rows that members of one group can use, and return which these are."""
    columns, fills_gaps = members[0].columns, members[0].fills_gaps
    view = X if columns is None else _safe_indexing(X, columns, axis=1)
    names = ", ".join(repr(member.name) for member in members)
    return on_usable_rows(work, view, f"{doing} {names}", fills_gaps, must_have=doing == "fitting")


def scores_or_error(members: Sequence[Member], X: Table) -> list[Host | str]:
    """Return the scores of each member, or its error: the others go on without it.

    Members of a group that fails are asked apart, which finds the one that is to blame.
    """
    try:
        return list(score_members(members, X).T)
    except Exception as error:
        if len(members) > 1:
            return [answer for member in members for answer in scores_or_error([member], X)]
        return [f"{type(error).__name__}: {error}"]


# -------------------------------------------------------------------------------------- all members


@saved_as("Pool")
@dataclass(frozen=True)
class Pool(FieldsOnlyState):
    """Fitted detectors: rows in, raw scores out.

    Attributes
    ----------
    one_class : list of Member
        Fitted on rows that are not known anomalies.
    experts : list of Member
        Fitted on both classes.
    score_scaler : estimator or None
        Puts the scores of the one-class members on the scale that experts know; None: experts see
        features alone.
    score_weights : ndarray of shape (len(one_class),) or None
        Of the one fused score that experts see; None: they see the score of each.
    """

    one_class: list[Member]
    experts: list[Member]
    score_scaler: Any = None
    score_weights: Host | None = None

    @property
    def members(self) -> list[Member]:
        """All of them, in the order of the scores' columns."""
        return [*self.one_class, *self.experts]

    @property
    def names(self) -> list[str]:
        """Names of the members."""
        return [member.name for member in self.members]

    def scores(self, X: Table, n_jobs: int | None = None) -> tuple[Host, dict[str, str]]:
        """Return raw scores, high = normal, and the errors of the detectors that failed.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows.
        n_jobs : int, optional
            Threads.

        Returns
        -------
        scores : ndarray of shape (n, R)
            NaN where a detector gives no score.
        errors : dict
            Name of a detector: its error.
        """
        row = self._of_one_row(X)
        if row is not None:
            return row, {}
        scores, errors = _scores_and_errors(self.one_class, X, n_jobs)
        expert_scores, expert_errors = self.expert_scores(X, scores, n_jobs)
        return np.column_stack([scores, expert_scores]), errors | expert_errors

    @cached_property
    def _quick(self) -> tuple[SingleRowScorer, SingleRowScorer]:
        return SingleRowScorer(self.one_class), SingleRowScorer(self.experts)

    def _of_one_row(self, X: Table) -> Host | None:
        """Score one complete row without checks on the way; None of any other table."""
        one = isinstance(X, np.ndarray) and X.shape[0] == 1 and X.dtype == np.float64
        if not one or np.isnan(X).any():
            return None
        one_class, experts = self._quick
        try:
            with one_blas_thread:  # once for all members, who then need not set it
                scores, more = one_class.scores(X), np.empty((1, 0))
                if self.experts:
                    more = experts.scores(self.expert_inputs(X, scores))
        except Exception:  # who fails, and why, is found out where members are asked one by one
            return None
        found = np.concatenate([scores, more], axis=1)
        return None if np.isnan(found).any() else found

    def expert_scores(
        self, X: Table, scores: Host, n_jobs: int | None = None
    ) -> tuple[Host, dict[str, str]]:
        """Score by the experts alone, given the scores of the one-class members."""
        if not self.experts:
            return np.empty((len(scores), 0)), {}
        return _scores_and_errors(self.experts, self.expert_inputs(X, scores), n_jobs)

    def expert_inputs(self, X: Table, scores: Host) -> Table:
        """Return what experts see of rows: features and, to their right, one-class scores.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows.
        scores : ndarray of shape (n, len(one_class))
            Their raw scores by the one-class members.
        """
        if self.score_scaler is None:
            return X
        seen = scale_scores(self.score_scaler, scores)
        names = [member.name for member in self.one_class]
        if self.score_weights is not None:
            terms = without_gaps(seen * self.score_weights, np.abs(self.score_weights))
            seen, names = terms.sum(axis=1, keepdims=True), ["one-class detectors"]
        if isinstance(X, np.ndarray):
            return np.column_stack([X, seen])
        return frame_with_scores(X, seen, names)


def _scores_and_errors(
    members: Sequence[Member], X: Table, n_jobs: int | None
) -> tuple[Host, dict[str, str]]:
    groups = group_members(members, fitted=True)
    work = [[members[i] for i in group] for group in groups]
    if effective_n_jobs(n_jobs) == 1:  # joblib takes longer than a row does
        answers = [scores_or_error(some, X) for some in work]
    else:
        jobs = (delayed(scores_or_error)(some, X) for some in work)
        answers = Parallel(n_jobs=n_jobs, prefer="threads")(jobs)
    scores = np.full((X.shape[0], len(members)), np.nan)
    errors = {}
    for group, group_answers in zip(groups, answers, strict=True):
        for i, answer in zip(group, group_answers, strict=True):
            if isinstance(answer, str):
                errors[members[i].name] = answer
            else:
                scores[:, i] = answer
    return scores, errors


# -------------------------------------------------------------------------------- rows scored alone


# Rows that are scored again in another batch: a two-hundredth of those learnt from, so that a batch
# that is added to the training rows still moves their ranks; within bounds, as time is short.
FEWEST_CHECKED, MOST_CHECKED, SHARE_OF_ROWS = 32, 1_000, 200
# What rounding may change, of the spread of the scores and of each score: networks in single
# precision differ by 1e-6, detectors in double by 1e-15, ECOD by 1e-3 or more. Chosen by hand.
OF_SPREAD, OF_SCORE = 1e-4, 1e-6
# Terms of size 1 that cancel leave such scores: a row that a full basis rebuilds, for instance.
NOISE = 1e-12

REMEDY = "Leave it out, or use a detector that scores each row by itself, as all of lpfuse do."


def check_scores_by_row(member: Member, X: Table) -> None:
    """Refuse a fitted member that gives rows other scores when they come in another batch.

    Some detectors rank a row among those that are scored with it, such as PyOD's LOCI. A threshold
    set on one batch says nothing about the next: false alarms went from 5.2 to 0.6 % with the size
    of the batch.
    Some training rows are scored together, then half of them without the rest; two calls in all.
    The detectors of lpfuse are never asked.

    Parameters
    ----------
    member : Member
        Fitted.
    X : table of shape (n, d)
        The rows that it was fitted on.
    """
    if getattr(innermost(member.estimator), "scores_rows_alone", False):
        return
    rows = _rows_to_score(member, X)
    together = _scores_of(member, X, rows)
    known = np.flatnonzero(np.abs(together) < LARGEST_SCORE)  # infinite ones are cut to it
    if len(known) < 2:
        return
    # A half unlike the whole, for a sample of it would have the same ranks: that of the lowest
    # scores, without the very lowest, as who counts the rows below notices no others.
    half = np.sort(known[np.argsort(together[known], kind="stable")[1 : 1 + len(known) // 2]])
    apart = _scores_of(member, X, rows[half])
    if _same(together[half], apart, together[known]):
        return
    who = _who(member)
    if not _same(together[known], _scores_of(member, X, rows)[known], together[known]):
        raise ValueError(
            f"{who} scores at random: the same {len(rows)} rows got other scores a second time. A "
            "threshold needs scores that stay. Fix its seed, or leave it out."
        )
    raise ValueError(
        f"{who} scores a row by what else is in its batch: {len(half)} of {len(rows)} rows got "
        "other scores when they came without the rest. A threshold set on one batch then says "
        f"nothing about the next. {REMEDY}"
    )


def _rows_to_score(member: Member, X: Table) -> Index:
    """Choose training rows, spread evenly; complete ones where there are at least two."""
    n = X.shape[0]
    view = X if member.columns is None else _safe_indexing(X, member.columns, axis=1)
    found = complete_rows(view)
    found = found if len(found) > 1 else np.arange(n)
    count = min(len(found), max(FEWEST_CHECKED, min(MOST_CHECKED, n // SHARE_OF_ROWS)))
    return found[np.linspace(0, len(found) - 1, count).astype(np.intp)]


def _scores_of(member: Member, X: Table, rows: Index) -> Host:
    """Score some training rows; refuse a member that can score only more of them."""
    try:
        return score_members([member], _safe_indexing(X, rows, axis=0))[:, 0]
    except Exception as error:
        score_members([member], X)  # where it fails on all rows as well, that is the error
        raise ValueError(
            f"{_who(member)} scores {X.shape[0]} rows, but not {len(rows)} of them by themselves "
            f"({type(error).__name__}: {error}): what it says of a row depends on its batch. "
            f"{REMEDY}"
        ) from error


def _same(first: Host, second: Host, scale: Host) -> bool:
    """Tell whether two answers agree up to rounding, as far as both are finite."""
    low, high = np.quantile(scale, [0.25, 0.75])
    allowed = OF_SPREAD * (high - low) + OF_SCORE * np.abs(first) + NOISE
    return not np.any(np.abs(first - second) > allowed)  # NaN is no difference


def _who(member: Member) -> str:
    return f"{quote(member.name)} ({type(innermost(member.estimator)).__name__})"


# ------------------------------------------------------------------------- the mean of several fits


@saved_as("MeanOfFits")
class MeanOfFits(BaseEstimator):
    """Several fits of one expert; a row gets the mean of their scores.

    What an expert of a `FusedDetector` is: see :attr:`lpfuse.FusedDetector.detectors_`.

    Parameters
    ----------
    fits : list of estimators
        Fitted, each with ``score_samples``, high = normal.

    Examples
    --------
    >>> from lpfuse.adapters import ScoreFunction
    >>> fits = [ScoreFunction(lambda X, k=k: k * X[:, 0], high="normal") for k in (1.0, 3.0)]
    >>> MeanOfFits(fits).score_samples(np.array([[5.0]]))
    array([10.])
    """

    learns_from_anomalies = True
    _adapts = "first"

    def __init__(self, fits: Sequence[Any]) -> None:
        self.fits = fits

    @property
    def first(self) -> Any:
        """One of them, which shows what kind of expert all are."""
        return self.fits[0]

    def fit(self, X: Any, y: Any = None) -> Self:
        """Do nothing: the fits are fitted."""
        return self

    def score_samples(self, X: Any) -> Host:
        """Return the mean score of each row, high = normal.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            Scores.
        """
        return np.mean([_svm_scores(fit, X) for fit in self.fits], axis=0)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _svm_scores(fit: Any, X: Any) -> Host:
    """Score by a fit; a support vector machine by one product, five times as fast as libsvm."""
    inner: Any = getattr(fit, "classifier_", None)
    machine: Any = inner[-1] if isinstance(inner, Pipeline) else inner
    is_svc = sklearn_name(type(machine)) == "SVC"
    if not is_svc or machine.kernel != "rbf" or list(machine.classes_) != [-1, 1]:
        return np.asarray(fit.score_samples(X))
    rows = inner[:-1].transform(X) if isinstance(inner, Pipeline) and len(inner) > 1 else X
    rows = np.asarray(rows, dtype=np.float64)
    similarity = Kernel("rbf", gamma=machine._gamma).against(machine.support_vectors_)
    dual, intercept = machine.dual_coef_[0], machine.intercept_[0]

    def work(block: slice) -> Host:
        return similarity(rows[block]) @ dual + intercept

    with one_blas_thread:
        return np.concatenate(map_row_blocks(work, rows, width=len(dual)))


# -------------------------------------------------------------------------------- one row at a time


Score = Callable[[Host], Any]  # a row of shape (1, d), without gaps ↦ its score
View = Callable[[Host], Host]


class SingleRowScorer:
    """Fitted members, taken apart once for single rows; a preparation that some share is done once.

    Parameters
    ----------
    members : sequence of Member
        Fitted.
    """

    def __init__(self, members: Sequence[Any]) -> None:
        self.views: list[tuple[NDArray[np.intp] | None, Any]] = []
        self.scorers: list[tuple[int, Any]] = []  # which view, and what is made of it
        known: dict[Any, int] = {}
        for member in members:
            steps = [] if member.head is None else member.head.steps
            view, last = quick_view(steps), member.last
            if view is None:  # a step that is not known there
                view, last = quick_view([]), member.estimator
            key = None if member.columns is None else tuple(member.columns)
            place = known.setdefault(
                (key, *(id(step) for _, step in steps), last is member.last), len(self.views)
            )
            if place == len(self.views):
                self.views.append((member.columns, view))
            self.scorers.append((place, quick_scorer(last)))

    def scores(self, row: Host) -> Host:
        """Return raw scores of a complete row of shape (1, d)."""
        seen = [view(row if some is None else row[:, some]) for some, view in self.views]
        found = np.array([[score(seen[place]) for place, score in self.scorers]])
        return np.clip(found, -LARGEST_SCORE, LARGEST_SCORE)


def quick_scorer(estimator: Any) -> Score:
    """Return a function that scores one complete row by a fitted estimator."""
    known = _known_scorer(estimator)
    return (lambda row: estimator.score_samples(row)[0]) if known is None else known


def _known_scorer(estimator: Any) -> Score | None:
    if isinstance(estimator, MeanOfFits):
        return _mean(estimator.fits)
    if isinstance(estimator, ClassifierExpert):
        return _mean([estimator])
    if isinstance(estimator, HeldOutDetector):
        return lambda row: estimator._score(row)[0]
    if isinstance(estimator, KernelScorer):
        return lambda row: estimator._scores(row)[0]
    return None


def quick_view(steps: Sequence[tuple[str, Any]]) -> View | None:
    """Return what prepares a row, as one function; None where a step is not known here."""
    views: list[View] = []
    for _, step in steps:
        if type(step) is FilledGaps and not np.isnan(step.medians_).any():
            continue  # there is no gap to fill
        if type(step) is NormalQuantiles:
            views.append(step.single_row_transform())
        elif sklearn_name(type(step)) == "StandardScaler" and step.with_mean and step.with_std:
            views.append(lambda row, step=step: (row - step.mean_) / step.scale_)  # type: ignore[misc]
        else:
            return None

    def view(row: Host) -> Host:
        for each in views:
            row = each(row)
        return row

    return view


def _mean(fits: Sequence[Any]) -> Score | None:
    """Return the mean score of several fits of one classifier; None if it is not known here."""
    parts = [_apart(fit) for fit in fits]
    kinds = {sklearn_name(type(part[1])) for part in parts if part is not None}
    if None in parts or len(kinds) != 1:
        return None
    views, classifiers = zip(*(part for part in parts if part is not None), strict=True)
    made = QUICK.get(kinds.pop())
    try:
        return None if made is None else made(views, classifiers)
    except AttributeError:  # what scikit-learn keeps to itself may change
        return None


def _apart(fit: Any) -> tuple[View, Any] | None:
    """Split a fit into what prepares rows for a classifier, and the classifier."""
    classifier = fit.classifier_ if isinstance(fit, ClassifierExpert) else None
    steps = classifier.steps if isinstance(classifier, Pipeline) else [("", classifier)]
    view, last = quick_view(steps[:-1]), steps[-1][1]
    if view is None or list(getattr(last, "classes_", [])) != [-1, 1]:
        return None
    return view, last


def _forests(views: Sequence[View], forests: Sequence[Any]) -> Score:
    trees, shift = [], []
    for k, forest in enumerate(forests):
        for tree in forest.estimators_:
            shares = tree.tree_.value[:, 0, :]
            trees.append(Nodes.of_tree(tree.tree_, shares[:, 1] / shares.sum(axis=1)))
            shift.append(k * forest.n_features_in_)
    flat, k = FlatTrees(trees, shift), len(forests)

    def score(row: Host) -> float:
        seen = np.concatenate([view(row)[0] for view in views]).astype(np.float32)
        shares = flat.values(seen.astype(np.float64)).reshape(k, -1).mean(axis=1)
        return float(log_odds(shares).mean())

    return score


def _boosting(views: Sequence[View], models: Sequence[Any]) -> Score:
    trees, shift = [], []
    for k, model in enumerate(models):
        for (predictor,) in model._predictors:
            trees.append(Nodes.of_boosting(predictor.nodes))
            shift.append(k * model.n_features_in_)
        if model.is_categorical_ is not None:
            raise AttributeError("Columns of categories are coded by scikit-learn alone.")
    start = np.array([float(np.ravel(model._baseline_prediction)[0]) for model in models])
    flat, k = FlatTrees(trees, shift), len(models)

    def score(row: Host) -> float:
        seen = np.concatenate([view(row)[0] for view in views])
        return float((start + flat.values(seen).reshape(k, -1).sum(axis=1)).mean())

    return score


def _machines(views: Sequence[View], machines: Sequence[Any]) -> Score:
    if any(machine.kernel != "rbf" for machine in machines):
        raise AttributeError("Other kernels are left to scikit-learn.")
    parts = [
        (view, m.support_vectors_, m._gamma, m.dual_coef_[0], float(m.intercept_[0]))
        for view, m in zip(views, machines, strict=True)
    ]

    def score(row: Host) -> float:
        total = 0.0
        for view, anchors, gamma, dual, intercept in parts:
            apart = anchors - view(row)
            total += dual @ np.exp(-gamma * np.einsum("ij,ij->i", apart, apart)) + intercept
        return float(total / len(parts))

    return score


QUICK: dict[str, Callable[[Sequence[View], Sequence[Any]], Score]] = {
    "ExtraTreesClassifier": _forests,
    "RandomForestClassifier": _forests,
    "HistGradientBoostingClassifier": _boosting,
    "SVC": _machines,
}
