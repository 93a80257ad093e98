"""`LpFusion.partial_fit`: from checked rows to the state of `lpfuse.fusion._online`, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from lpfuse._arrays.operations import Array, Host, is_blocked, to_host
from lpfuse._checks.answers import check_new_labels
from lpfuse._checks.arguments import weights_beside
from lpfuse._checks.tables import check_scores
from lpfuse.fusion._online import OnlineWeights, begin
from lpfuse.optim import Solution, solve
from lpfuse.optim.balls import LpBall

Rows = tuple[Host, Host, Host]  # scores (n, R), labels ±1, sample weights


def learn_online(fusion: Any, S: Any, y: Any, sample_weight: Any, imaginary_score: float) -> Any:
    """Learn from new rows; the first call fits. Returns the fusion, changed.

    Parameters
    ----------
    fusion : LpFusion
        Fitted or not.
    S, y, sample_weight : arrays
        As users pass them.
    imaginary_score : float
        What all detectors say of the imaginary anomaly.
    """
    if is_blocked(S):
        raise ValueError(
            "partial_fit takes rows in memory, got those of Dask. Pass a block at a time, or fit."
        )
    if not hasattr(fusion, "weights_"):
        fusion.fit(S, y, sample_weight)
        fusion.online_ = start_online(fusion, _rows_of(check_scores(S), y, sample_weight))
        return fusion
    fusion._check_parameters()
    rows = check_rows(fusion, S, y, sample_weight)
    online = getattr(fusion, "online_", None)
    if online is None:
        online = start_online(fusion, None)
    ball = ball_of(fusion)
    for scores, label, weight in zip(*rows, strict=True):
        row = online.row(scores, float(label), float(weight))
        online.update(ball, row, imaginary_score)
        for name in online.due():
            _solve_again(fusion, online, name)
    point = online.point
    fusion.online_, fusion.intercept_ = online, float(point[-1])
    fusion.weights_ = ball.scale_into(point[:-1])  # a mixture is inside but for rounding
    return fusion


def start_online(fusion: Any, rows: Rows | None) -> OnlineWeights:
    """The state after a fit, which goes on from the fitted weights.

    Parameters
    ----------
    fusion : LpFusion
        Fitted.
    rows : (scores, labels, sample weights) or None
        What it was fitted to, where that is at hand.
    """
    ball = ball_of(fusion)
    weights = ball.preferred(len(fusion.weights_))
    average = np.append(weights, fusion.intercept_)
    if fusion.fit_intercept and rows is not None:
        # Equal weights, or those of the prior, with the intercept that is best for them.
        alone = clone(fusion).set_params(radius=0.0, solver="auto")
        average[-1] = _solution(alone, rows, weights).intercept
    return begin(
        ball,
        np.append(fusion.weights_, fusion.intercept_),
        average,
        rows,
        loss=fusion.loss,
        balanced=fusion.class_weight == "balanced",
        imaginary=fusion.imaginary_anomalies,
        fit_intercept=fusion.fit_intercept,
    )


def ball_of(fusion: Any) -> LpBall:
    """Where the weights of a fitted fusion are."""
    return LpBall(float(fusion.p), fusion.nonnegative, fusion.prior_, float(fusion.radius))


def check_rows(fusion: Any, S: Any, y: Any, sample_weight: Any) -> Rows:
    """Rows for a fitted fusion, as users pass them."""
    return _rows_of(check_scores(S, estimator=fusion), y, sample_weight)


def _rows_of(S: Array, y: Any, sample_weight: Any) -> Rows:
    n = int(S.shape[0])
    labels, weights = check_new_labels(y, n), weights_beside(sample_weight, S)
    return (
        np.asarray(to_host(S), dtype=np.float64),
        labels,
        np.ones(n) if weights is None else np.asarray(to_host(weights), dtype=np.float64),
    )


def _solve_again(fusion: Any, online: OnlineWeights, name: str) -> None:
    """An exact solution for rows that are kept; of all of them, its certificate is told."""
    solution = _solution(fusion, online.problem(name), fusion.prior_)
    online.solved(name, np.append(solution.weights, solution.intercept))
    if name == "certified":
        fusion.certificate_, fusion.n_iter_ = solution.certificate, solution.n_iter


def _solution(fusion: Any, rows: Rows, centre: Host | None) -> Solution:
    """What a fit to rows would find, without its checks: they were checked as they came."""
    problem = fusion._stated(*rows, float(fusion.p), centre)
    return solve(problem, solver=fusion.solver, tol=fusion.tol, max_iter=fusion.max_iter)
