"""Weights of `LpFusion` that follow labels as they come: what `partial_fit` keeps and does.

Four strategies name weights before each row: the *average* of the detectors, which stays; a
*gradient* learner, which competes with the best fixed weights; and two exact solutions, *certified*
of all rows that are kept and *recent* of the last of them, solved anew every so often. They are
mixed one after the other, each time so that little can be lost: see `lpfuse.optim._following`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from lpfuse._arrays.operations import Array, Host, is_blocked, to_host
from lpfuse._saved import saved_as
from lpfuse._validation.params import LEAST_WEIGHT, check_new_labels, weights_beside
from lpfuse._validation.tables import check_scores
from lpfuse.optim import Solution, solve
from lpfuse.optim._following import GradientLearner, SafeMixture
from lpfuse.optim.balls import LpBall
from lpfuse.optim.problem import LOSSES, Loss

# --------------------------------------------------------------------------------------------------

# Rows of each class that are kept to solve anew; by hand: the weights of ten detectors are known
# well from so many, a solve takes milliseconds, and a rare anomaly is kept for a thousand others.
KEPT = 1000
# The last rows, which are solved by themselves, and of each class so many at least.
RECENT, FEWEST_OF_CLASS = 200, 20
# New solutions are due when the rows since the last ones are this share of those to solve, and at
# least so many: the time that solves take is then a small part of the whole.
SHARE_OF_NEWS, FEWEST_NEWS = 0.125, 25
# Least scale of the differences between strategies to start from; it grows with what is seen.
LEAST_SCALE = 1e-3

STRATEGIES = ("average", "gradient", "certified", "recent")
SOLVED = STRATEGIES[2:]


class Row(NamedTuple):
    """One labelled row of a stream: scores, ±1, its weight, the costs that follow from it."""

    scores: Host
    label: float
    weight: float
    cost: float
    imaginary: float  # cost of the imaginary anomaly that comes with it


@saved_as("LabelledWindow")
class LabelledWindow:
    """The last rows of each class: an anomaly is forgotten for newer anomalies alone.

    Attributes
    ----------
    rows : ndarray of shape (2, room, R + 2)
        Scores, sample weight and number: of normal rows, then of anomalies. They go round where
        there is no more room to be had, a thousand rows of a class.
    seen : ndarray of shape (2,)
        How many rows of each there were in all.
    mass : ndarray of shape (2,)
        Their sample weights in all.
    """

    def __init__(self, R: int, kept: int = KEPT) -> None:
        self.R, self.kept = R, kept
        self.rows = np.zeros((2, min(kept, 16), R + 2))  # it grows with the rows, up to `kept`
        self.seen = np.zeros(2, dtype=np.int64)
        self.mass = np.zeros(2)

    def add(self, scores: Host, label: float, weight: float) -> None:
        """Take a row in, and let the oldest of its class go where there is no room."""
        side = int(label < 0)
        self._make_room(int(self.seen[side]) + 1)
        place = self.seen[side] % self.rows.shape[1]
        self.rows[side, place, :-2] = scores
        self.rows[side, place, -2:] = weight, self.seen.sum()
        self.seen[side] += 1
        self.mass[side] += weight

    def _make_room(self, rows: int) -> None:
        """Room for so many rows of a class, or for all that are kept."""
        room = self.rows.shape[1]
        if rows > room and room < self.kept:
            more = min(max(rows, 2 * room), self.kept) - room
            self.rows = np.concatenate([self.rows, np.zeros((2, more, self.rows.shape[2]))], axis=1)

    def extend(self, S: Host, y: Host, weights: Host) -> None:
        """Take many rows in, as `add` would one after the other."""
        numbers = self.seen.sum() + np.arange(len(y))
        for side, of_side in enumerate((y > 0, y < 0)):
            self._make_room(int(self.seen[side] + of_side.sum()))
            last = np.flatnonzero(of_side)[-self.rows.shape[1] :]
            skipped = int(of_side.sum()) - len(last)
            places = (self.seen[side] + skipped + np.arange(len(last))) % self.rows.shape[1]
            self.rows[side, places] = np.column_stack([S[last], weights[last], numbers[last]])
            self.seen[side] += skipped + len(last)
            self.mass[side] += weights[of_side].sum()

    def __len__(self) -> int:
        return int(np.minimum(self.seen, self.rows.shape[1]).sum())

    def problem(self, recent: int | None = None) -> tuple[Host, Host, Host]:
        """Scores, labels and costs, of all that is kept or of the last rows.

        Of all, each class counts for all of its rows that there ever were. The last rows hold the
        last of each class, however long ago they came.
        """
        parts = []
        for side, label in enumerate((1.0, -1.0)):
            rows = self.rows[side, : self.seen[side]]  # as many as there are, where there are fewer
            rows = rows[rows[:, -2] > LEAST_WEIGHT]
            if recent is not None:
                newest = np.argsort(-rows[:, -1])
                late = rows[newest, -1] >= self.seen.sum() - recent
                rows = rows[newest[: max(int(late.sum()), FEWEST_OF_CLASS)]]
            weights, here = rows[:, -2], rows[:, -2].sum()
            if recent is None and here > 0:
                weights = self.mass[side] / here * weights
            parts.append((rows[:, :-2], np.full(len(rows), label), weights))
        S, y, weights = (np.concatenate(several) for several in zip(*parts, strict=True))
        return S, y, weights


@saved_as("OnlineWeights", loss=tuple(LOSSES))
@dataclass(eq=False)
class OnlineWeights:
    r"""The state behind `LpFusion.partial_fit`: strategies, how far they are trusted, their losses.

    With :math:`w \oplus_\beta v = (1 - \beta) w + \beta v`, the weights in use are

    .. math:: w_{\text{average}} \oplus_{\beta_3} \big( (w_{\text{gradient}} \oplus_{\beta_1}
        w_{\text{certified}}) \oplus_{\beta_2} w_{\text{recent}} \big)

    with shares β of three :class:`~lpfuse.optim._following.SafeMixture`.

    Attributes
    ----------
    losses : dict
        The sum of the losses of each row *before* it was learnt from: of the weights that were in
        "used", and of each strategy.
    n_rows : int
        Rows that were learnt from one by one; those of the first call are not among them.
    n_solves : int
        How many problems were solved.
    window : LabelledWindow
        The rows to solve.
    """

    loss: str
    balanced: bool
    imaginary: float
    window: LabelledWindow
    points: Host  # (4, R + 1): weights and intercept of each strategy
    learner: GradientLearner
    mixtures: list[SafeMixture]
    sums: Host = field(default_factory=lambda: np.zeros(1 + len(STRATEGIES)))
    n_rows: int = 0
    n_solves: int = 0
    news: Host = field(default_factory=lambda: np.zeros(len(SOLVED)))  # rows since each solution

    # ------------------------------------------------------------------------- what is in use

    @property
    def shares(self) -> dict[str, float]:
        """How much of the weights in use is each strategy's; they sum to 1."""
        return dict(zip(STRATEGIES, self._shares()[0].tolist(), strict=True))

    @property
    def point(self) -> Host:
        """Weights and intercept in use, of shape (R + 1,)."""
        found: Host = self._shares()[0] @ self.points
        return found

    @property
    def strategies(self) -> dict[str, Host]:
        """Weights and intercept of each strategy, of shape (R + 1,)."""
        return dict(zip(STRATEGIES, self.points.copy(), strict=True))

    @property
    def losses(self) -> dict[str, float]:
        """Sums of losses, each before it was learnt from."""
        return dict(zip(("used", *STRATEGIES), self.sums.tolist(), strict=True))

    def regret_bounds(self) -> dict[str, float]:
        """Proven of "used", on the rows so far: regret to the "average", and to the "best".

        The best are all fixed weights of the ball, in hindsight, with an intercept in the interval
        that the gradient learner has; while there is no anomaly, with the intercept of the start.
        """
        first, second, last = self.mixtures
        learnt = first.bound_to_base() + second.bound_to_base() + self.learner.bound()
        return {"average": last.bound_to_base(), "best": last.bound_to_other() + learnt}

    def _shares(self) -> Host:
        """What each strategy has in the weights in use, in the second mixture and in the first."""
        one, two, three = (mixture.share for mixture in self.mixtures)
        gradient, certified = (1.0 - two) * (1.0 - one), (1.0 - two) * one
        return np.array([
            [1.0 - three, three * gradient, three * certified, three * two],
            [0.0, gradient, certified, two],
            [0.0, 1.0 - one, one, 0.0],
        ])  # fmt: skip

    # ----------------------------------------------------------------------------- learning

    def row(self, scores: Host, label: float, weight: float) -> Row:
        """Return a row with its costs, by the classes so far, this row among them.

        Balanced costs are at most the row's weight: the rarer class has the weights of its rows,
        the other one so little that both come to the same. The imaginary anomaly is dealt out to
        the normal rows.
        """
        mass = self.window.mass.copy()
        mass[int(label < 0)] += weight
        costs = _class_costs(mass, self.imaginary, self.balanced)
        imaginary = 0.0
        if self.imaginary and label > 0 and mass[0] > 0.0:
            imaginary = self.imaginary * weight / float(mass[0]) * float(costs[1])
        return Row(scores, label, weight, weight * float(costs[int(label < 0)]), imaginary)

    def update(self, ball: LpBall, row: Row, imaginary_score: float) -> None:
        """Learn from one row: microseconds, whatever came before."""
        loss, R = LOSSES[self.loss], row.scores.size
        signed = np.empty(R + 1)
        signed[:R], signed[R] = row.label * row.scores, row.label
        points = np.concatenate([self._shares() @ self.points, self.points])
        residuals = 1.0 - points @ signed
        losses = row.cost * loss.value(residuals)
        slope = -row.cost * float(loss.slope(residuals[4:5])[0]) * signed
        if row.imaginary:
            far = np.full(R + 1, -imaginary_score)
            far[R] = -1.0
            beyond = 1.0 - points @ far
            losses = losses + row.imaginary * loss.value(beyond)
            slope = slope - row.imaginary * float(loss.slope(beyond[4:5])[0]) * far
        used, second, first, average, gradient, certified, recent = losses.tolist()
        self.sums += (used, average, gradient, certified, recent)
        self.mixtures[0].update(gradient - certified)
        self.mixtures[1].update(first - recent)
        self.mixtures[2].update(average - second)
        if not (self.window.mass[1] or self.imaginary or row.label < 0):
            slope[-1] = 0.0  # normal rows alone would lift the intercept without end
        self.learner.update(ball, slope)
        self.points[1] = self.learner.point
        self.window.add(row.scores, row.label, row.weight)
        self.n_rows += 1
        self.news += 1

    def due(self) -> list[str]:
        """Names of the solutions of which so much is new that they should be solved again."""
        if not self.window.mass[0] > LEAST_WEIGHT:
            return []
        sizes = len(self.window), min(len(self.window), RECENT)
        return [
            name
            for name, size, news in zip(SOLVED, sizes, self.news, strict=True)
            if news >= max(FEWEST_NEWS, SHARE_OF_NEWS * size)
        ]

    def problem(self, name: str) -> tuple[Host, Host, Host]:
        """Scores, labels and costs of a problem that is due."""
        return self.window.problem(RECENT if name == "recent" else None)

    def solved(self, name: str, point: Host) -> None:
        """A new solution takes the place of the last one, with a chance of its own."""
        place = SOLVED.index(name)
        self.points[2 + place] = point
        self.news[place] = 0
        self.n_solves += 1
        self.mixtures[place].refill()
        self.mixtures[2].refill()


def begin(
    ball: LpBall,
    solution: Host,
    average: Host,
    rows: tuple[Host, Host, Host] | None,
    *,
    loss: str,
    balanced: bool,
    imaginary: float,
    fit_intercept: bool,
) -> OnlineWeights:
    """Return the state after a fit, given the rows of that fit, if they are at hand."""
    window = LabelledWindow(len(solution) - 1)
    differences, sizes, slopes = np.zeros(1), np.zeros(1), np.zeros(2)
    if rows is not None:
        S, y, weights = rows
        window.extend(S, y, weights)
        costs = weights * _class_costs(window.mass, imaginary, balanced)[(y < 0).astype(int)]
        differences, sizes, slopes = _looked_at(LOSSES[loss], solution, average, S, y, costs)
    # The intercept may go twice as far as scores and margin together usually reach.
    reach = 2.0 * (1.0 + abs(float(solution[-1])) + float(np.median(sizes)))
    scale = max(LEAST_SCALE, float(differences.max()))
    return OnlineWeights(
        loss,
        balanced,
        float(imaginary),
        window,
        np.stack([average, solution, solution, solution]),
        GradientLearner.start(ball, solution, reach if fit_intercept else 0.0, slopes),
        [SafeMixture(scale) for _ in range(3)],
    )


def _class_costs(mass: Host, imaginary: float, balanced: bool) -> Host:
    """Return what a row of each class costs.

    At most 1, and the same in all where that is asked for.
    """
    mass = mass + np.array([0.0, imaginary])
    least = float(mass.min())
    return least / mass if balanced and least > 0.0 else np.ones(2)


def _looked_at(
    loss: Loss, one: Host, other: Host, S: Host, y: Host, costs: Host
) -> tuple[Host, Host, Host]:
    """Return how far apart two points are in the loss of each row; fused scores of one; its slopes.

    Sizes of the first, and of the last the sums of squares: of weights, and of the intercept.
    """
    fused = [S @ point[:-1] for point in (one, other)]
    residuals = [1.0 - y * (f + p[-1]) for f, p in zip(fused, (one, other), strict=True)]
    apart = costs * np.abs(loss.value(residuals[0]) - loss.value(residuals[1]))
    steep = (costs * loss.slope(residuals[0])) ** 2
    return apart, np.abs(fused[0]), np.array([steep @ (S * S).sum(axis=1), steep.sum()])


# --------------------------------------------------------------------------------------------------
# `LpFusion.partial_fit`: from checked rows to the state of `lpfuse.fusion.online`, and back.


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
    """Return the state after a fit, which goes on from the fitted weights.

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
    """Return where the weights of a fitted fusion are."""
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
    """Return what a fit to rows would find, without its checks: they were checked as they came."""
    problem = fusion._stated(*rows, float(fusion.p), centre)
    return solve(problem, solver=fusion.solver, tol=fusion.tol, max_iter=fusion.max_iter)
