"""Least squares needs the scores once: after one pass everything is R×R.

With r = 1 − y(Sw + b) and y² = 1, f(w, b) = Σ c (y − Sw − b)² is a quadratic in G = SᵀCS, SᵀCy and
the weighted means; the intercept is eliminated by centring.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from lpfuse._arrays import Host, like, to_host, total
from lpfuse.optim._solvers.interior_point import BOLD, MAX_ITER, interior_point
from lpfuse.optim._solvers.model import Model
from lpfuse.optim.balls import LpBall
from lpfuse.optim.problem import Block, Problem, sums


@dataclass(frozen=True)
class Moments:
    """``f(w) = constant − 2 cross·w + wᵀ gram w``; intercept ``mean_label − mean_score·w``."""

    gram: Host
    cross: Host
    constant: float
    mean_score: Host
    mean_label: float

    @classmethod
    def of(cls, problem: Problem) -> Moments:
        """Sum them up in one pass over the scores."""
        # With an intercept scores are shifted near their mean first: the sums of squares of scores
        # far from zero would cancel in the centring and take the proof with them.
        shift = np.zeros(problem.R)
        if problem.fit_intercept:
            shift = to_host(problem.some_rows().S).mean(axis=0)
        parts = problem.reduce(partial(_moments, shift), sums)
        gram, cross, total_score, total_label = parts
        k = problem.total_cost
        mean_score, mean_label = total_score / k, total_label / k
        if not problem.fit_intercept:
            return cls(gram, cross, k, np.zeros_like(mean_score), 0.0)
        return cls(
            gram - k * np.outer(mean_score, mean_score),
            cross - k * mean_label * mean_score,
            k * (1.0 - mean_label**2),
            mean_score + shift,
            mean_label,
        )

    def model(self, ball: LpBall) -> Model:
        """The quadratic over a ball: a model without rows."""
        R = self.cross.size
        return Model(
            columns=np.empty((R, 0)),
            costs=np.empty(0),
            ball=ball,
            linear=-2.0 * self.cross,
            constant=self.constant,
            quadratic=2.0 * self.gram,
        )

    def rounding(self, w: Host) -> float:
        """How much of f(w) can be rounding: its terms are sums that largely cancel."""
        size = np.abs(w)
        return 1e-15 * float(
            self.constant + 2 * np.abs(self.cross) @ size + size @ np.abs(self.gram) @ size
        )

    @cached_property
    def null_space(self) -> Host:
        """Directions of w that no score tells about, as columns."""
        eigenvalues, vectors = np.linalg.eigh(self.gram)
        return vectors[:, eigenvalues <= 1e-12 * max(float(eigenvalues[-1]), 1e-300)]

    def intercept(self, w: Host) -> float:
        """The best b for given weights; 0 when none is fitted."""
        return self.mean_label - float(self.mean_score @ w)


def _moments(shift: Host, block: Block) -> tuple[Host, Host, Host, float]:
    """What a block adds to the sums."""
    S, y, c, _ = block
    if shift.any():
        S = S - like(shift, S)
    weighted = S if isinstance(c, float) else S * c[:, None]
    labels = c * y + 0.0 * S[:, 0]
    ones = c + 0.0 * S[:, 0]
    return to_host(weighted.T @ S), to_host(labels @ S), to_host(ones @ S), total(labels)


class QuadraticOptimum(NamedTuple):
    """Feasible weights, the weights that prove the bound, and the two values."""

    w: Host
    dual_weights: Host
    primal: float
    dual: float
    n_iter: int


def minimise_quadratic(
    moments: Moments, ball: LpBall, tol: float, scale: float, max_iter: int = MAX_ITER
) -> QuadraticOptimum:
    """The best weights for the moments.

    Where the scores leave directions open (fewer rows than learners, columns that depend on each
    other), the weights nearest to uniform are taken among the best ones.
    """
    model = moments.model(ball)
    found = interior_point(model, tol, scale, max_iter)
    w, value = found.w, found.primal
    settled = _settled(moments, ball, w)
    if model.primal(settled) <= max(value, found.dual + tol * max(value, scale)):
        w, value = settled, model.primal(settled)
    return QuadraticOptimum(w, found.witness, max(value, 0.0), found.dual, found.n_iter)


def _settled(moments: Moments, ball: LpBall, w: Host) -> Host:
    """w moved within the null space of the Gram matrix to the point nearest the uniform weights."""
    null = moments.null_space
    if null.shape[1] == 0:
        return w
    R = w.size
    open_ = null @ null.T
    stiff = 1e6  # holds what the scores have decided while the rest is chosen
    held = np.eye(R) - open_
    nearest = Model(
        columns=np.empty((R, 0)),
        costs=np.empty(0),
        ball=ball,
        linear=-(open_ @ ball.uniform(R)) - stiff * (held @ w),
        quadratic=open_ + stiff * held,
    )
    moved = interior_point(nearest, 1e-12, 1.0, paces=(BOLD,)).w
    return ball.scale_into(held @ w + open_ @ moved)
