"""One row at a time: straight through a pool whose parts are known here, without checks on the way.

A service scores rows one by one, and what checks, pipelines and compiled trees cost for each call
is then nearly all that there is. `quick_scorer` takes a fitted estimator apart, once, into
functions of a checked row; the result is the same to rounding. What is not known here is asked as
it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from lpfuse._arrays.operations import Host
from lpfuse._validation.params import LARGEST_SCORE
from lpfuse.adapters import ClassifierExpert, log_odds
from lpfuse.detectors.base import HeldOutDetector
from lpfuse.detectors.columns import FlatTrees, Nodes
from lpfuse.detectors.kernels import KernelScorer
from lpfuse.ensemble._mean_of_fits import MeanOfFits
from lpfuse.views import FilledGaps, NormalQuantiles

Score = Callable[[Host], Any]  # a row of shape (1, d), without gaps ↦ its score
View = Callable[[Host], Host]


class QuickMembers:
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
        """Raw scores of a complete row of shape (1, d)."""
        seen = [view(row if some is None else row[:, some]) for some, view in self.views]
        found = np.array([[score(seen[place]) for place, score in self.scorers]])
        return np.clip(found, -LARGEST_SCORE, LARGEST_SCORE)


def quick_scorer(estimator: Any) -> Score:
    """The score of one complete row by a fitted estimator."""
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
    """What prepares a row, as one function; None where a step is not known here."""
    views: list[View] = []
    for _, step in steps:
        if type(step) is FilledGaps and not np.isnan(step.medians_).any():
            continue  # there is no gap to fill
        if type(step) is NormalQuantiles:
            views.append(step.single_row_transform())
        elif type(step) is StandardScaler and step.mean_ is not None and step.scale_ is not None:
            views.append(lambda row, step=step: (row - step.mean_) / step.scale_)  # type: ignore[misc]
        else:
            return None

    def view(row: Host) -> Host:
        for each in views:
            row = each(row)
        return row

    return view


def _mean(fits: Sequence[Any]) -> Score | None:
    """The mean score of several fits of one classifier; None where it is not known here."""
    parts = [_apart(fit) for fit in fits]
    kinds = {type(part[1]) for part in parts if part is not None}
    if None in parts or len(kinds) != 1:
        return None
    views, classifiers = zip(*(part for part in parts if part is not None), strict=True)
    for kind, made in QUICK.items():
        if kinds == {kind}:
            try:
                return made(views, classifiers)
            except AttributeError:  # what scikit-learn keeps to itself may change
                return None
    return None


def _apart(fit: Any) -> tuple[View, Any] | None:
    """What prepares rows for a classifier, and the classifier."""
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


QUICK: dict[type, Callable[[Sequence[View], Sequence[Any]], Score]] = {
    ExtraTreesClassifier: _forests,
    RandomForestClassifier: _forests,
    HistGradientBoostingClassifier: _boosting,
    SVC: _machines,
}
