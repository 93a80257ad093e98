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

from lpfuse._arrays.operations import Host, dot, nonzero, positive_part, take, to_host, total
from lpfuse.optim.balls import LpBall
from lpfuse.optim.interior_point import Optimum, interior_point
from lpfuse.optim.newton import Model
from lpfuse.optim.tuning import DEFAULT, FAST, ROBUST, Tuning


class Violations(NamedTuple):
    """The value of a point, the number of rows that violate their margin, and the worst ones."""

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

    def violations(self, point: Host, most: int) -> Violations:
        """Return the value of a point, and the rows that violate their margin most there."""
        r = self.model.residuals(point)
        chosen = nonzero(r > 0)
        value, n_short = dot(self.model.costs, positive_part(r)), int(chosen.shape[0])
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


def nearest_to_uniform(
    source: RowSource,
    ball: LpBall,
    *,
    thorough: bool,
    tuning: Tuning = DEFAULT,
    near: Host | None = None,
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
    near : array of shape (coordinates,) or None
        Such a point for a neighbouring p, as a start.
    """
    rules, size = tuning.tie_break, source.R + source.free
    uniform = np.zeros(size)
    uniform[: source.R] = ball.preferred(source.R)
    most = rules.rows + rules.rows_per_weight * size
    penalties = rules.penalties if thorough else rules.penalties[:1]
    search = _Projection(source.R, ball, uniform, penalties, tuning)
    if thorough and (sample := source.sample()) is not None and not search.satisfy(sample, most):
        return None
    if near is not None:
        search.begin(near, source.violations((1.0 - 1e-7) * near, most).rows)
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

    def begin(self, point: Host, rows: Host) -> None:
        """Start from a point with these binding rows."""
        if len(rows):
            self.point = point
            if not self.add(rows):
                self.point, self.rows = self.uniform, self.rows[:0]

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
        if ball.is_lp and 2.0 <= ball.p <= 32.0 and R == uniform.size and not ball.nonnegative:
            near = ball.scale_into(self.point)
            nearest = _nearest_by_newton(ball, uniform, rows / (1.0 + slack), near)
            if nearest is not None and float((rows @ nearest).min()) >= 1.0:
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
        if self.ball.is_lp and 2.0 <= self.ball.p < np.inf and not model.free:
            found = interior_point(model, 1e-8, 1.0, tuning=fast)
            nearest = _newton_polish(model, self.uniform, found)
            if nearest is not None:
                return nearest
        # To nearly all digits: the point is needed, not its value.
        found = interior_point(model, 1e-13, 1.0, tuning=fast)
        if not found.within(1e-11, 1.0):
            robust = self.tuning.interior_point._replace(rules=(ROBUST,))
            found = interior_point(model, 1e-11, 1.0, tuning=robust)
        return found.w


@np.errstate(all="ignore")  # a wrong guess may run away: the checks at the end refuse it
def _nearest_by_newton(ball: LpBall, uniform: Host, rows: Host, start: Host) -> Host | None:
    """Return the nearest point by Newton's method on the conditions of `_newton_polish`.

    With n the gradient of ‖v‖_p, v = (w − w₀)/r, the curvature H = I + λ diag(n′)/r is diagonal
    except along n, where the step is zero: so a step costs k×k for k binding rows. Rows with a
    negative multiplier leave the active set, and violated ones enter, until the conditions hold;
    None where they do not.
    """
    R, p, r = uniform.size, ball.p, ball.radius
    w, chosen = start, np.flatnonzero(rows @ start < 1.0 + 1e-6)
    held = bool(ball.gauge(w) > 0.9)  # by its surface, or nearly
    nu: Host = np.empty(0)
    for _ in range(25):
        if chosen.size + held > R:
            return None
        A, x = rows[chosen].T, ball.from_centre(w) / r
        norm = ball.norm(x)
        size = np.abs(x) / max(norm, 1e-300)
        power = size ** (p - 2.0)
        B = np.column_stack([A, -np.copysign(power * size, x)]) if held else A
        if nu.size != B.shape[1]:
            nu = np.asarray(np.linalg.lstsq(B, w - uniform, rcond=None)[0], dtype=np.float64)
        H = 1.0 + (max(float(nu[-1]), 0.0) * (p - 1.0) / (norm * r)) * power if held else np.ones(R)
        off = uniform - w + B @ nu
        short = 1.0 - A.T @ w
        short = np.append(short, (norm - 1.0) * r) if held else short
        scaled = B / H[:, None]
        try:
            change = np.linalg.solve(B.T @ scaled, short - scaled.T @ off)
        except np.linalg.LinAlgError:  # rows that depend on each other
            return None
        step = off / H + scaled @ change
        w, nu = w + step, nu + change
        far = float(np.abs(step).max())
        if not far < 1e3:
            return None
        # Signs are known before convergence; with a wrong one full precision is not needed.
        wrong = nu.size > 0 and float(nu.min()) < 0.0
        if far > (1e-3 if wrong else 1e-13):
            continue
        if held and nu[-1] < 0.0:  # the ball is not active
            held, nu = False, nu[:-1]
        elif chosen.size and nu[: chosen.size].min() < 0.0:
            worst = int(nu[: chosen.size].argmin())
            chosen, nu = np.delete(chosen, worst), np.delete(nu, worst)
        else:
            violated = np.setdiff1d(np.flatnonzero(rows @ w < 1.0 - 1e-10), chosen)
            outside = not held and ball.gauge(w) > 1.0
            if not violated.size and not outside:
                return ball.scale_into(w) if ball.gauge(w) <= 1.0 + 1e-12 else None
            zeros = np.zeros(violated.size)
            nu = np.concatenate([nu[: chosen.size], zeros, nu[chosen.size :], [0.0] * outside])
            chosen, held = np.append(chosen, violated), held or outside
    return None


@np.errstate(all="ignore")  # a wrong guess may run away: the checks at the end refuse it
def _newton_polish(model: Model, uniform: Host, found: Optimum) -> Host | None:
    """Apply Newton's method to the optimality conditions with fixed binding rows.

        w − u − Σ ν_i a_i + λ |v|^{p−1} sign(v) = 0,     a_iᵀw = 1,     ‖v‖_p^p = 1

    with v = (w − w₀)/r, in most problems w.

    Converges quadratically from the interior point's result, whose precision is limited for large
    p. The conditions are smooth for 2 ≤ p < ∞; None where the binding rows were wrong.
    """
    ball, p, r, w = model.ball, model.ball.p, model.ball.radius, found.w
    A = model.columns[:, found.alpha > model.margins(w) - 1.0]  # one of the two is nearly zero
    k, R = A.shape[1], w.size
    on_sphere = ball.gauge(w) > 1.0 - 1e-3
    for _ in range(12):
        v = ball.from_centre(w) / r
        size = np.abs(v)
        pull = size ** (p - 1.0) * np.sign(v)
        binding = np.column_stack([A, pull]) if on_sphere else A
        m = binding.shape[1]
        if m > R or m == 0 or not np.isfinite(binding).all():
            return None
        multipliers = np.linalg.lstsq(binding, w - uniform, rcond=None)[0]
        curve = 1.0 - (multipliers[k] * (p - 1.0) * size ** (p - 2.0) / r if on_sphere else 0.0)
        gap = np.append(1.0 - A.T @ w, (1.0 - float((size**p).sum())) * r / p if on_sphere else [])
        kkt = np.block([[np.diag(curve * np.ones(R)), -binding], [binding.T, np.zeros((m, m))]])
        try:
            step = np.linalg.solve(kkt, np.append(uniform - w + binding @ multipliers, gap))
        except np.linalg.LinAlgError:  # rows that depend on each other
            return None
        w = w + step[:R]
        if float(np.abs(step[:R]).max()) < 1e-14:
            break
    signs = multipliers[:k].min(initial=0.0) >= 0.0 and (not on_sphere or multipliers[k] <= 0.0)
    settled = float(np.abs(step[:R]).max()) < 1e-10 and ball.gauge(w) <= 1.0 + 1e-12
    allowed = not ball.nonnegative or float(w.min()) >= 0.0
    allowed = allowed and float(model.residuals(w).max()) <= 1e-10
    return ball.scale_into(w) if signs and settled and allowed else None


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
