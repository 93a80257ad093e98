"""Tie-break among weights without violations: those nearest to uniform, or to the prior.

Where the optimum is f* = 0, every w in the ball with all margins at least 1 is optimal. The choice
is then

    minimise   ½ ‖w − u‖²    subject to    y_i (s_iᵀw + b) ≥ 1 for all i,   w in the ball

with u the uniform weights, or the centre of a ball that has one: strictly convex, so every solver
and platform gives the same answer. A free intercept goes to the middle of its interval.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from lpfuse._arrays.operations import (
    Host,
    dot,
    largest,
    nonzero,
    positive_part,
    take,
    to_host,
    total,
)
from lpfuse.optim.balls import LpBall
from lpfuse.optim.interior_point import interior_point, surface
from lpfuse.optim.newton import Model
from lpfuse.optim.tuning import DEFAULT, FAST, ROBUST, Tuning


class Violations(NamedTuple):
    """The value of a point, the number of rows that violate their margin, and the worst ones.

    Rows near their margin may be among them.
    """

    value: float
    n_short: int
    rows: Host  # (k, coordinates): a_i = y_i s_i, with y_i last when there is an intercept


class RowSource(Protocol):
    """Source of the rows that a point violates."""

    R: int
    free: int  # 1 when the last coordinate is an intercept, else 0
    total_cost: float

    def violations(self, point: Host, most: int) -> Violations:
        """Return the value of a point, and the rows that violate their margin most there."""

    def class_score_range(self, point: Host) -> tuple[float, float]:
        """Return the lowest normal and the highest anomalous fused score, without b."""

    def sample(self) -> Host | None:
        """Return sampled rows to check before a pass; None where a pass is cheap."""


class ModelRows:
    """The rows of a model in memory."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.R, self.free = model.n_weights, model.free
        self.total_cost = total(model.costs)
        # Whether rows that the next point may violate are added, too, which saves rounds.
        self.adds_near = not model.ball.is_lp or _by_newton(model.ball, model.free)

    def violations(self, point: Host, most: int) -> Violations:
        """Return the value of a point, and the rows that violate their margin most there."""
        r = self.model.residuals(point)
        value, n_short = dot(self.model.costs, positive_part(r)), int(nonzero(r > 0).shape[0])
        chosen = nonzero(r > (-largest(r) if self.adds_near else 0.0))
        worst = np.argsort(-r[chosen], kind="stable")[:most]
        rows = to_host(take(self.model.columns, chosen[worst], axis=1)).T
        return Violations(value, n_short, rows)

    def class_score_range(self, point: Host) -> tuple[float, float]:
        """Return the lowest normal and the highest anomalous fused score, without b."""
        labels = self.model.columns[-1]
        fused = labels * self.model.margins(np.append(point[:-1], 0.0))
        normal, anomalous = fused[labels > 0], fused[labels < 0]
        return float(normal.min(initial=np.inf)), float(anomalous.max(initial=-np.inf))

    def sample(self) -> Host | None:
        """Return None: all rows are in memory."""
        return None


def _by_newton(ball: LpBall, free: int) -> bool:
    """Return whether `newton.nearest_by_newton` handles the ball."""
    return ball.is_lp and 2.0 <= ball.p <= 1000.0 and not free and not ball.nonnegative


def nearest_to_uniform(
    source: RowSource,
    ball: LpBall,
    *,
    thorough: bool,
    tuning: Tuning = DEFAULT,
) -> Host | None:
    """Return the point (w, b) above, by adding violated rows until none is left; None if it fails.

    Parameters
    ----------
    source : RowSource
        Returns the rows that a point violates.
    ball : LpBall
        The constraint set.
    thorough : bool
        False stops early, where the uniform weights violate many rows or a few rounds are not
        enough: a cheap check before the solve.
    """
    rules, size = tuning.tie_break, source.R + source.free
    uniform = np.zeros(size)
    uniform[: source.R] = ball.preferred(source.R)
    most = rules.rows + rules.rows_per_weight * size
    penalties = rules.penalties
    if not thorough:  # where Newton's method fails there is rarely such a point
        penalties = () if _by_newton(ball, source.free) else penalties[:1]
    search = _Projection(source.R, ball, uniform, penalties, tuning)
    if thorough and (sample := source.sample()) is not None and not search.satisfy(sample, most):
        return None
    for _ in range(rules.rounds if thorough else rules.quick_rounds):
        value, n_short, rows = source.violations(search.point, most)
        if value <= rules.clean * source.total_cost:
            return _centre_intercept(source, search.point, rules.clean * source.total_cost)
        if not thorough and n_short > rules.violated_per_weight * source.R:
            return None
        if not search.add(rows):
            return None
    return None


class _Projection:
    """The point nearest to uniform with margin 1 on the rows that have been added so far."""

    def __init__(
        self, R: int, ball: LpBall, uniform: Host, penalties: tuple[float, ...], tuning: Tuning
    ) -> None:
        self.R, self.ball, self.uniform = R, ball, uniform
        self.penalties, self.tuning = penalties, tuning
        self.point, self.rows = uniform, np.empty((0, uniform.size))

    def add(self, rows: Host) -> bool:
        """Move to the nearest point with margin 1 on these rows, too; return whether it exists."""
        self.rows = np.vstack([self.rows, rows])
        nearest = self._nearest()
        self.point = self.point if nearest is None else nearest
        return nearest is not None

    def satisfy(self, sample: Host, most: int) -> bool:
        """Add rows of a sample until none is violated; return whether that is possible."""
        for _ in range(self.tuning.tie_break.rounds):
            margins = sample @ self.point
            worst = np.argsort(margins, kind="stable")[:most]
            worst = worst[margins[worst] < 1.0]
            if worst.size == 0:
                break
            if not self.add(sample[worst]):
                return False
        return True

    def _nearest(self) -> Host | None:
        """Return the nearest point by an exact penalty on violated margins, which grows."""
        R, uniform, rows = self.R, self.uniform, self.rows
        ball, slack = self.ball, self.tuning.tie_break.slack
        if _by_newton(ball, uniform.size - R):
            near = ball.scale_into(self.point)
            nearest = surface.nearest_by_newton(ball, uniform, rows / (1.0 + slack), near)
            if nearest is not None:
                nearest = ball.scale_into(nearest)
                if float((rows @ nearest).min()) >= 1.0:
                    return nearest
        quadratic = np.eye(uniform.size)
        quadratic[R:, R:] = 0.0
        columns = np.ascontiguousarray(rows.T) / (1.0 + self.tuning.tie_break.slack)
        for penalty in self.penalties:
            model = Model(
                columns=columns,
                costs=np.full(len(rows), penalty),
                ball=self.ball,
                linear=-uniform,
                constant=0.5 * float(uniform @ uniform),
                quadratic=quadratic,
                free=uniform.size - R,
            )
            nearest = self._solved(model)
            if float((rows @ nearest).min()) >= 1.0:
                return nearest
        return None

    def _solved(self, model: Model) -> Host:
        fast = self.tuning.interior_point._replace(rules=(FAST,))
        # To nearly all digits: the point is needed, not its value.
        found = interior_point(model, 1e-13, 1.0, tuning=fast)
        if not found.within(1e-11, 1.0):
            robust = self.tuning.interior_point._replace(rules=(ROBUST,))
            found = interior_point(model, 1e-11, 1.0, tuning=robust)
        return found.w


def _centre_intercept(source: RowSource, point: Host, clean: float) -> Host:
    """Return the same weights with the intercept, if any, halfway between the two classes.

    Rows of tiny cost may violate their margin: the middle is used only if its value is `clean`.
    """
    if not source.free:
        return point
    normal, anomaly = source.class_score_range(point)
    if not np.isfinite(normal + anomaly):
        return point
    middle = np.append(point[:-1], -0.5 * (normal + anomaly))
    return middle if source.violations(middle, 1).value <= clean else point
