"""Warm starts along p: from the optimum at one p to the optimum at the next.

Between neighbouring p few rows change side, and their gradient changes little. Newton's method on
the surface of the ball (`newton.SurfaceSystem`) starts from there:

1. *Near*: the hinges are smoothed within a band, which shrinks until few rows are left in it.
2. *At the kink*: the method of multipliers finds the exact sides. Where many rows lie at their
   kink, or without progress, the interior point finishes on the few remaining rows.

The result is a proposal with its bounds, or None; a solver without a warm start is used then.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from lpfuse._arrays.operations import Host, kth_smallest
from lpfuse.optim.balls import LpBall
from lpfuse.optim.interior_point import Optimum, WarmStart, interior_point, surface
from lpfuse.optim.newton import ALL, Breakdown, Model, Spread
from lpfuse.optim.screening import Screen
from lpfuse.optim.tuning import AlongTuning, InteriorPointTuning, Tuning


class PathState(NamedTuple):
    """The optimum at one p, as a warm start for the next."""

    ball: LpBall
    found: Optimum
    pull: Host  # (coordinates,): Aα − g, the negative gradient
    gain: float  # k + Σα

    @classmethod
    def of(cls, model: Model, found: Optimum) -> PathState:
        """Return the state of an optimum, by one product with the rows."""
        pull = model.columns @ found.alpha - model.linear
        return cls(model.ball, found, pull, model.constant + float(found.alpha.sum()))

    def reuse_if_optimal(self, model: Model, tol: float, scale: float) -> Optimum | None:
        """Return the same weights and multipliers if they are optimal over the model's ball.

        An optimum inside a ball is optimal in every larger one. Only the support function of the
        new ball is evaluated.
        """
        found, ball, R = self.found, model.ball, model.n_weights
        dual = self.gain - ball.support(self.pull[:R])
        same = Optimum(found.w, found.alpha, found.primal, dual, 1, found.witness)
        return same if same.within(tol, scale) and ball.gauge(found.w[:R]) <= 1.0 else None


def follow(
    model: Model, before: PathState, tol: float, scale: float, tuning: Tuning
) -> Optimum | None:
    """Return the optimum over the model's ball from that over a neighbouring one.

    None with w ≥ 0, at the corners of p = 1 and p = ∞, and where the iteration fails.
    """
    w, pull = before.found.w, before.pull[: model.n_weights]
    if not _smooth(model, pull, tuning.along):
        return None
    ahead = _ahead(model, w, before.pull, before.found.alpha, tuning.along)
    if ahead is not None:
        return settle(model, ahead, None, tol, scale, tuning)
    return settle(model, w, pull, tol, scale, tuning)


def settle(
    model: Model, w: Host, pull: Host | None, tol: float, scale: float, tuning: Tuning
) -> Optimum | None:
    """Return the optimum from weights w, or from the negative gradient `pull` if known."""
    rules = tuning.along
    if not _smooth(model, w if pull is None else pull, rules):
        return None
    with np.errstate(all="ignore"):  # a diverging step may overflow: it is detected
        try:
            run = _Run(model, w, pull, rules)
            run.near()
        except Breakdown:
            return None
        found = run.at_kink(tol, scale) if run.whole else None
        if found is None:
            screen = Screen(model, tol, scale, None, tuning, run.finish)
            found = screen.solve_within(run.system.r, rules.reach * run.band, None)
        return found if found.within(tol, scale) or found.primal <= tol * scale else None


def _smooth(model: Model, pull: Host, rules: AlongTuning) -> bool:
    """Return whether the equations on the surface are smooth, with a direction to start from."""
    ball = model.ball
    if not ball.is_lp or ball.nonnegative or model.quadratic is not None or ball.radius < 1e-6:
        return False
    return rules.least_p <= ball.p <= rules.most_p and float(np.abs(pull).max()) > 0.0


def _ahead(model: Model, w: Host, pull: Host, alpha: Host, rules: AlongTuning) -> Host | None:
    """Return the estimate of a sample for the next p.

    A linear term gives the sample the gradient of all rows at the neighbour's optimum, so that its
    error is relative to the change, not to the weights.
    """
    stride = model.n_rows // (rules.sample + rules.sample_per_weight * model.size)
    if stride < rules.least_stride:
        return None
    columns = np.ascontiguousarray(model.columns[:, ::stride])
    off = columns @ (stride * alpha[::stride]) - pull
    costs = stride * model.costs[::stride]
    few = Model(columns, costs, model.ball, off, free=model.free)
    with np.errstate(all="ignore"):
        try:
            run = _Run(few, w, pull[: model.n_weights], rules)
            run.near()
        except Breakdown:
            return None
    return run.w


class SamplePath:
    """Approximate optima of a sample along p, by smoothed hinges, without bounds.

    Attributes
    ----------
    inside : bool
        Whether the last one lies inside its ball and is optimal for all larger balls, too.
    """

    def __init__(self, sample: Model, w: Host, rules: AlongTuning) -> None:
        """Start from the optimum w over the ball of the sample."""
        self.sample, self.w, self.rules, self.inside = sample, w, rules, False
        self.alpha = sample.costs * (sample.residuals(w) > 0.0)
        self.pull = sample.columns @ self.alpha - sample.linear

    def follow(self, ball: LpBall) -> bool:
        """Move to the optimum over another ball; return whether it was found."""
        model = replace(self.sample, ball=ball)
        if self.inside:
            return True
        R, rules = model.n_weights, self.rules
        if not _smooth(model, self.pull[:R], rules):
            return False
        ahead = _ahead(model, self.w, self.pull, self.alpha, rules)
        with np.errstate(all="ignore"):
            try:
                known = ahead is None
                start = self.w if ahead is None else ahead
                run = _Run(model, start, self.pull[:R] if known else None, rules)
                run.near(rules.sample_band)
            except Breakdown:
                return False
        self.w, self.pull, self.alpha = model.feasible(run.w), run.system.pull, run.system.alpha
        self.inside = bool(ball.gauge(self.w[: model.n_weights]) < self.rules.well_inside)
        return True


class _Run:
    """One run: a system on the surface of the ball, and its band."""

    def __init__(self, model: Model, w: Host, pull: Host | None, rules: AlongTuning) -> None:
        self.rules, self.model, R = rules, model, model.n_weights
        ball, inside = model.ball, False
        if pull is not None and ball.p < 2.0:  # for small p the gradient determines the direction
            x = ball.from_centre(ball.linear_oracle(-pull)) / ball.radius
        else:
            x = ball.from_centre(w[:R]) / ball.radius
            norm = ball.norm(x)
            inside = pull is None and norm < rules.well_inside
            x = x if inside else x / norm
        self.system: Any = surface.SurfaceSystem(model, x, w[R:], inside)
        some = abs(self.system.r[:: max(1, model.n_rows // 256)])
        share = rules.first_band if pull is not None else rules.near_band
        share = min(0.5, max(share, 1.5 * self.enough / max(model.n_rows, 1)))
        self.band = kth_smallest(some, int(share * some.size)) + 1e-12
        self.steps = 0

    @property
    def enough(self) -> int:
        """Number of rows in the band at which their sides are nearly known."""
        return self.rules.resolved + self.rules.resolved_per_weight * self.model.n_weights

    @property
    def whole(self) -> bool:
        """Whether the model is small enough for last steps with all its rows."""
        return bool(self.model.columns.size <= self.rules.whole)

    @property
    def w(self) -> Host:
        """The current point."""
        w: Host = self.system.w
        return w

    @property
    def _care(self) -> float:
        """Factor of the tolerance: an optimum inside the ball is reused for larger balls."""
        return 0.1 if self.system.inside else 1.0

    def near(self, share: float = 0.0) -> None:
        """Shrink the band to few rows, or to a share of the rows."""
        rules, system, R = self.rules, self.system, self.model.n_weights
        enough = max(self.enough, int(share * self.model.n_rows))
        wanted = rules.curvature_rows + rules.curvature_rows_per_weight * R
        system.look(self.band)
        for _ in range(rules.near_steps):
            length = self._step(wanted)
            if length == 1.0 and system.moved < rules.settled * self.band:
                inside = system.n_within(self.band)
                if inside <= enough:
                    return
                self.band *= max(rules.shrink, 0.7 * enough / inside)
                system.look(self.band)
        raise Breakdown("the band does not shrink")

    def _step(self, wanted: int) -> float:
        self.steps += 1
        self.system.newton(wanted)
        length = float(self.system.search(self.rules.tries))
        if length == 0.0:
            raise Breakdown("the objective does not fall")
        return length

    def at_kink(self, tol: float, scale: float) -> Optimum | None:
        """Find the exact sides by the method of multipliers."""
        rules, system, halted = self.rules, self.system, 0
        tol *= self._care
        most = max(rules.at_kink, rules.at_kink_per_weight * self.model.n_weights)
        band, constant, free = rules.closer * self.band, self.model.constant, self.model.free
        system.hold()
        system.look(band)
        for attempt in range(rules.kink_steps):
            primal, dual = (constant + bound for bound in system.bounds())
            if primal - dual <= tol * max(primal, scale) or primal <= tol * scale:
                found = self._proposal(primal, dual)
                if not free or found.within(tol, scale) or primal <= tol * scale:
                    return found
            try:
                length = self._step(ALL)
            except Breakdown:
                return None
            if length == 1.0:
                system.follow()
                band *= rules.closer
            else:
                halted += 1
                band *= rules.wider
            if halted > rules.halts or (attempt > 0 and system.n_near > most):
                return None
            system.look(band)
        return None

    def _proposal(self, primal: float, dual: float) -> Optimum:
        model, alpha, w = self.model, self.system.alpha, self.w
        if model.free:  # the multipliers of both classes must balance
            dual, alpha = model.dual(w, alpha)
        return Optimum(model.feasible(w), alpha, primal, dual, self.steps, w)

    def finish(
        self,
        model: Model,
        tol: float,
        scale: float,
        max_iter: int | None,
        start: WarmStart | None,
        rules: InteriorPointTuning,
    ) -> Optimum:
        """Solve a reduced model from the current point."""
        if not self.whole:
            system, self.model = self.system, model
            self.system = surface.SurfaceSystem(model, system.x, system.free, system.inside)
            self.system.look(self.band)
            if (found := self.at_kink(tol, scale)) is not None:
                return found
        tol *= self._care
        found = interior_point(model, tol, scale, max_iter, self._warm(model), rules)
        steps = self.steps + found.n_iter
        return Optimum(found.w, found.alpha, found.primal, found.dual, steps, found.witness)

    def _warm(self, model: Model) -> WarmStart:
        if not self.system.inside:
            return WarmStart.near(model, self.w)
        # Inside, the multipliers of the ball are zero at the optimum: start small.
        ball, R, w = model.ball, model.n_weights, self.w
        w[:R] = ball.shrunk(w[:R], min(1.0, 0.995 / max(ball.gauge(w[:R]), 1e-300)))
        product = 0.1 * self.band * float(model.costs.mean()) * ball.radius
        return WarmStart(w, Spread(product, evenness=0.01))
