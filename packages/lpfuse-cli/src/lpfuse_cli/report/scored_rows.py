"""Rows to judge a fusion by, each with fused scores by weights that were not learnt from it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.calibration import OutOfFoldScores
from lpfuse.ensemble.combination import scale_scores, without_gaps
from lpfuse.ensemble.components import Combination
from lpfuse.fusion.lp import LpFusion, lp_path
from lpfuse.optim import LpPath
from lpfuse.threshold import conformal_pvalues

# The p of the slider, chosen by hand: those of the paper (n/(n−1) near 1, their duals, ∞), and the
# few between 1.5 and 8 where weights change most. Another p is added here, and nowhere else.
GRID = (1, 32 / 31, 16 / 15, 8 / 7, 4 / 3, 1.5, 2, 3, 4, 6, 8, 16, 32, 100, float("inf"))

ORIGINS = {
    "given": "the rows given to the report",
    "learnt": "the rows given to the report, most of which are training rows, so figures are "
    "optimistic",
    "out-of-fold": "the training rows, each scored by detectors and weights that were learnt "
    "without it, in folds",
    "prefit": "the rows from which the weights were learnt, each fused by weights learnt without "
    "it; the detectors were fitted to other rows before",
    "in-sample": "the training rows, scored by detectors that were fitted to them, so figures are "
    "optimistic for those that overfit",
}


@dataclass(frozen=True)
class ScoredRows:
    """Rows with the scores of detectors and fusions, as a summary judges them.

    Attributes
    ----------
    origin : str
        Where the rows come from, one of `ORIGINS`.
    rows : ndarray of shape (n,)
        Their positions.
    labels : ndarray of shape (n,)
        +1 normal, −1 anomaly, 0 unknown.
    taken : ndarray of shape (n,)
        The same, but training rows of which nothing is known are +1: they teach as normal ones.
    fold : ndarray of shape (n,)
        Scores of one fold come from the same detectors and weights, and only these compare.
    raw : ndarray of shape (n, R)
        The detectors' scores, high = normal; NaN where one could not score a row.
    equal : ndarray of shape (n,)
        Fused scores, had all detectors the same weight.
    parts : ndarray of shape (n, R) or (n, 1)
        What each detector adds to the fused score; the score itself where that is no sum.
    margin : ndarray of shape (n,)
        Fused score minus threshold.
    pvalues : ndarray of shape (n,)
        Of the rows among normal ones that the weights did not learn from.
    by_p : ndarray of shape (n, k)
        Fused scores for every p of the path; k = 0 where there is none.
    """

    origin: str
    rows: NDArray[np.intp]
    labels: Host
    taken: Host
    fold: NDArray[np.intp]
    raw: Host
    equal: Host
    parts: Host
    margin: Host
    pvalues: Host
    by_p: Host

    @property
    def fused(self) -> Host:
        """Fused scores, high = normal."""
        scores: Host = self.parts.sum(axis=1)
        return scores

    def __getitem__(self, chosen: Any) -> ScoredRows:
        arrays = (getattr(self, field.name)[chosen] for field in fields(self)[1:])
        return ScoredRows(self.origin, *arrays)


def path_of(fused: FusedDetector) -> LpPath | None:
    """Weights for a grid of p, learnt as the model's; at its own p, the model's own.

    None where these were not learnt so: by another fusion, or moved by `partial_fit`.
    """
    if not isinstance(fused.fusion_, LpFusion) or fused.certificate_ is None:
        return None
    training, chosen = fused.out_of_fold_, float(fused.fusion_.p)
    S, y = training.scores[training.usable], training.labels[training.usable]
    with warnings.catch_warnings(action="ignore"):  # fitting the model gave these warnings
        path = _path(fused.fusion_, scale_scores(fused.scaler_, S), y, sorted({*GRID, chosen}))
    at = path.ps.tolist().index(chosen)
    path.weights[at], path.intercepts[at] = fused.weights_, fused.fusion_.intercept_
    path.certificates[at] = fused.certificate_
    return path


def out_of_fold(fused: FusedDetector, path: LpPath | None) -> ScoredRows:
    """Score the training rows out of fold."""
    if fused.feature_imputer_ is not None:
        raise ValueError(
            f"{fused.fusion_!r} looks at the features of the rows, which a model does not keep. "
            "Give the report rows to judge by."
        )
    training, raw = fused.out_of_fold_, fused.out_of_fold_.scores
    n, R = raw.shape
    ps = [] if path is None else path.ps.tolist()
    parts = np.full((n, R if fused.combination_.is_additive else 1), np.nan)
    equal, by_p = np.full(n, np.nan), np.full((n, len(ps)), np.nan)
    real = _are_real(fused)
    can_judge = bool((training.labels[real] < 0).any())
    for inside, rest in _folds(training):
        S, y = raw[rest], training.labels[rest]
        with warnings.catch_warnings():  # fitting the model gave these warnings already
            warnings.simplefilter("ignore")
            learnt = Combination.learn(fused.scaler_, fused.fusion_, S, y)
            parts[inside] = learnt.contributions(raw[inside])
            scaled = scale_scores(learnt.scaler, raw[inside])
            equal[inside] = _fused_by(np.ones((1, R)), scaled)[:, 0]
            if ps and can_judge:
                path_here = _path(fused.fusion_, scale_scores(learnt.scaler, S), y, ps)
                by_p[inside] = _fused_by(path_here.weights, scaled)
    scores: Host = parts.sum(axis=1)
    scored = ScoredRows(
        origin=fused.cv if isinstance(fused.cv, str) else "out-of-fold",
        rows=np.arange(n),
        labels=given_labels(training),
        taken=training.labels,
        fold=training.fold,
        raw=raw,
        equal=equal,
        parts=parts,
        margin=scores - fused.offset_,
        pvalues=_pvalues_across_folds(training, scores),
        by_p=_with_own(by_p, path, fused, scores),
    )
    return scored[real & ~np.isnan(scores)]


def given_labels(training: OutOfFoldScores) -> Host:
    """Labels of training rows as they were given: 0 where there was none."""
    labels, known = training.labels.copy(), training.known
    if known is not None:
        labels[: len(known)] = known
    return labels


def on_rows(fused: FusedDetector, path: LpPath | None, X: Any, labels: Host) -> ScoredRows:
    """Rows that are new to the model, judged by the model as it is."""
    scores, margin, pvalues, parts, raw = fused.verdicts(X)
    parts = scores[:, None] if parts is None else parts
    n, R = raw.shape
    scaled = scale_scores(fused.scaler_, raw)
    weights = np.empty((0, R)) if path is None else path.weights
    scored = ScoredRows(
        origin="given",
        rows=np.arange(n),
        labels=labels,
        taken=labels,
        fold=np.zeros(n, dtype=np.intp),
        raw=raw,
        equal=_fused_by(np.ones((1, R)), scaled)[:, 0],
        parts=parts,
        margin=margin,
        pvalues=pvalues,
        by_p=_with_own(_fused_by(weights, scaled), path, fused, scores),
    )
    return scored[~np.isnan(scores)]


def _folds(training: OutOfFoldScores) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Rows of each fold, and those of the other folds that teach."""
    for number in np.unique(training.fold):
        inside = training.fold == number
        rest = training.usable & ~inside
        if (training.labels[rest] > 0).any():
            yield inside, rest


def _path(fusion: LpFusion, scaled: Host, y: Host, ps: Sequence[float]) -> LpPath:
    parameters = fusion.get_params()
    del parameters["p"], parameters["solver"]
    return lp_path(scaled, None if (y > 0).all() else y, ps=ps, **parameters)


def _fused_by(weights: Host, scaled: Host) -> Host:
    """Fused scores of rows (n×R), a column for each row of weights (k×R)."""
    columns = [without_gaps(scaled * w, np.abs(w)).sum(axis=1) for w in weights]
    return np.column_stack(columns) if columns else np.empty((len(scaled), 0))


def _with_own(by_p: Host, path: LpPath | None, fused: FusedDetector, scores: Host) -> Host:
    """Put the model's own scores at its own p: its solver may be another one."""
    if path is not None:
        by_p[:, path.ps.tolist().index(float(fused.fusion_.p))] = scores
    return by_p


def _pvalues_across_folds(training: OutOfFoldScores, scores: Host) -> Host:
    """P-values of each row among the normal ones of the other folds."""
    found = np.full(len(scores), np.nan)
    normal = (training.labels > 0) & ~np.isnan(scores)
    for inside, _ in _folds(training):
        if (normal & ~inside).any():
            found[inside] = conformal_pvalues(scores[normal & ~inside], scores[inside])
    return found


def _are_real(fused: FusedDetector) -> NDArray[np.bool_]:
    """Rows that are no artificial anomalies, of which there are none beside labelled ones."""
    labelled = bool((fused.held_out_.labels < 0).any())
    real: NDArray[np.bool_] = (fused.out_of_fold_.truth >= 0) | labelled
    return real
