"""Which weights, when many make no error at all: those nearest to the uniform ones.

Where the optimum is f* = 0, every w in the ball with all margins at least 1 is optimal. The choice
is then

    minimise   ½ ‖w − u‖²    subject to    y_i (s_iᵀw + b) ≥ 1 for all i,   w in the ball

with u the uniform weights: strictly convex, so every solver and platform gives the same answer. A
free intercept goes to the middle of its interval.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from lpfuse._arrays import Host, namespace, to_host
from lpfuse.optim._large_n.passes import Reader, signed
from lpfuse.optim._large_n.search import MANY
from lpfuse.optim._solvers.interior_point import BOLD, CAREFUL, Optimum, interior_point
from lpfuse.optim._solvers.model import Model
from lpfuse.optim.problem import Block, Problem, Terms

ROUNDS = 30
CLEAN = 1e-13  # a value below this share of Σ c is no error but rounding
PENALTIES = (1e2, 1e5, 1e8)  # of a violated row, tried in turn
HAIR = 1e-9  # margins aim at 1 + this, so that rounding does not leave them short of 1


def nearest_to_uniform(reader: Reader, thorough: bool) -> Host | None:
    """The point (w, b) above, found by adding violated rows until none is left; None if it fails.

    Parameters
    ----------
    thorough : bool
        False gives up early, where the uniform weights violate many rows for the number of weights
        that could mend them or a few rounds do not suffice: a cheap look before the real solve.
    """
    problem = reader.problem
    uniform = np.zeros(problem.size)
    uniform[: problem.R] = problem.ball.uniform(problem.R)
    chosen, rows = uniform, np.empty((0, problem.size))
    few = 100 + 5 * problem.size
    if thorough and problem.n > MANY:  # what a sample can tell needs no pass
        block = problem.draw(MANY)
        sample = to_host(signed(problem.terms, block.S, block.y))
        for _ in range(ROUNDS):
            margins = sample @ chosen
            worst = np.argsort(margins, kind="stable")[:few]
            worst = worst[margins[worst] < 1.0]
            nearest = _nearest(
                problem, rows := np.vstack([rows, sample[worst]]), uniform, PENALTIES
            )
            if nearest is None or worst.size == 0:
                break
            chosen = nearest
    for _ in range(ROUNDS if thorough else 4):
        value, n_wrong, wrong = reader.violations(chosen, few)
        if value <= CLEAN * problem.total_cost:
            return _with_middle_intercept(problem, chosen) if problem.fit_intercept else chosen
        if not thorough and 4 * n_wrong > problem.R:
            return None
        assert wrong is not None
        rows = np.vstack([rows, wrong.a])
        nearest = _nearest(problem, rows, uniform, PENALTIES if thorough else PENALTIES[:1])
        if nearest is None:
            break
        chosen = nearest
    return None


def _nearest(
    problem: Problem, rows: Host, uniform: Host, penalties: tuple[float, ...]
) -> Host | None:
    """The nearest point with margin 1 on a few rows, by an exact penalty that grows as needed."""
    quadratic = np.eye(problem.size)
    quadratic[problem.R :, problem.R :] = 0.0
    columns = np.ascontiguousarray(rows.T) / (1.0 + HAIR)
    for penalty in penalties:
        model = Model(
            columns=columns,
            costs=np.full(len(rows), penalty),
            ball=problem.ball,
            linear=-uniform,
            constant=0.5 * float(uniform @ uniform),
            quadratic=quadratic,
            free=problem.size - problem.R,
        )
        nearest = None
        if 2.0 <= problem.ball.p < np.inf and not problem.fit_intercept:
            found = interior_point(model, 1e-8, 1.0, paces=(BOLD,))
            nearest = _polished(model, uniform, found)
        if nearest is None:
            found = interior_point(model, 1e-13, 1.0, paces=(BOLD,))
            if not found.within(1e-11, 1.0):
                found = interior_point(model, 1e-11, 1.0, paces=(CAREFUL,))
            nearest = found.w
        if float((rows @ nearest).min()) >= 1.0:
            return nearest
    return None


@np.errstate(all="ignore")  # a wrong guess may run away: the checks at the end refuse it
def _polished(model: Model, uniform: Host, found: Optimum) -> Host | None:
    """Newton's method on the optimality conditions, with the binding rows taken as known.

        w − u − Σ ν_i a_i + λ |w|^{p−1} sign(w) = 0,     a_iᵀw = 1,     ‖w‖_p^p = 1

    Quadratic convergence from where the interior point left off, which runs out of digits when p
    is large. The conditions are smooth for 2 ≤ p < ∞; None where the binding rows were mistaken.
    """
    p, w = model.ball.p, found.w
    A = model.columns[:, found.alpha > model.margins(w) - 1.0]  # one of the two is nearly zero
    k, R = A.shape[1], w.size
    on_sphere = model.ball.norm(w) > 1.0 - 1e-3
    for _ in range(12):
        size = np.abs(w)
        pull = size ** (p - 1.0) * np.sign(w)
        binding = np.column_stack([A, pull]) if on_sphere else A
        m = binding.shape[1]
        if m > R or m == 0 or not np.isfinite(binding).all():
            return None
        multipliers = np.linalg.lstsq(binding, w - uniform, rcond=None)[0]
        curve = 1.0 - (multipliers[k] * (p - 1.0) * size ** (p - 2.0) if on_sphere else 0.0)
        gap = np.append(1.0 - A.T @ w, (1.0 - float((size**p).sum())) / p if on_sphere else [])
        kkt = np.block([[np.diag(curve * np.ones(R)), -binding], [binding.T, np.zeros((m, m))]])
        try:
            step = np.linalg.solve(kkt, np.append(uniform - w + binding @ multipliers, gap))
        except np.linalg.LinAlgError:  # rows that depend on each other
            return None
        w = w + step[:R]
        if float(np.abs(step[:R]).max()) < 1e-14:
            break
    signs = multipliers[:k].min(initial=0.0) >= 0.0 and (not on_sphere or multipliers[k] <= 0.0)
    settled = float(np.abs(step[:R]).max()) < 1e-10 and model.ball.norm(w) <= 1.0 + 1e-12
    allowed = not model.ball.nonnegative or float(w.min()) >= 0.0
    allowed = allowed and float(model.residuals(w).max()) <= 1e-10
    return model.ball.scale_into(w) if signs and settled and allowed else None


def _with_middle_intercept(problem: Problem, v: Host) -> Host:
    """The same weights with the intercept halfway between the two classes."""
    normal, anomaly = problem.reduce(partial(_reach, problem.terms, v), _extremes)
    if not np.isfinite(normal + anomaly):
        return v
    return np.append(v[:-1], -0.5 * (normal + anomaly))


def _reach(terms: Terms, v: Host, block: Block) -> tuple[float, float]:
    """The lowest fused score of a normal row and the highest of an anomaly."""
    fused = 1.0 - terms.residuals(block._replace(y=1.0), np.append(v[:-1], 0.0))
    xp = namespace(block.S)
    y = xp.sign(block.c * block.y + 0.0 * fused)  # a row without cost has no say
    return (
        float(xp.min(xp.where(y > 0, fused, fused + np.inf))),
        float(xp.max(xp.where(y < 0, fused, fused - np.inf))),
    )


def _extremes(parts: list[tuple[float, float]]) -> tuple[float, float]:
    lows, highs = zip(*parts, strict=True)
    return min(lows), max(highs)
