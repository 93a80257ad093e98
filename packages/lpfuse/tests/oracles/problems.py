"""Random fusion problems, and the independent check that a solution of one is what it claims."""

import numpy as np
import pytest

from lpfuse.optim import Problem
from lpfuse.optim.tuning import ScreeningTuning, SearchTuning, Tuning
from oracles import naive

GRID = (1.0, 32 / 31, 8 / 7, 4 / 3, 2.0, 4.0, 10.0, 100.0, np.inf)
FEW_P = (1.0, 4 / 3, 10.0, np.inf)  # a corner, both sides of the round ball, and a cube
LOSSES = ("hinge", "least_squares")
BOTH = (False, True)
OPTIONS = {"costs": BOTH, "nonnegative": BOTH, "fit_intercept": BOTH}
PURE_OR_LABELLED = (0.0, 0.2)  # shares of anomalies
VARIANTS = {
    "plain": {},
    "costs": {"costs": True},
    "nonnegative": {"nonnegative": True},
    "intercept": {"fit_intercept": True},
    "all": {"costs": True, "nonnegative": True, "fit_intercept": True},
}

# From 60 rows on a model is screened, from 400 on a problem is sampled: small problems, which naive
# loops can check, then go the way of large ones.
LOW_THRESHOLDS = Tuning(
    screening=ScreeningTuning(
        alone=60,
        alone_per_weight=0,
        pilot=60,
        pilot_per_weight=0,
        resolved=0,
        resolved_per_weight=2,
        kept=10,
        kept_per_weight=2,
    ),
    search=SearchTuning(in_memory=400, sample=400, sample_per_weight=40, kept=100, far_kept=100),
)

# What a search may start from: (w, how far margins may still move), made from the right w.
GUESSES = {
    "far too narrow": lambda w: (w, 1e-9),
    "far too wide": lambda w: (w, 1e3),
    "the opposite weights": lambda w: (-w, 0.05),
    "no weights at all": lambda w: (0.0 * w, 0.05),
    "one detector": lambda w: (np.eye(w.size)[0], 1e-3),
}


def random_problem(seed=0, n=60, R=5, anomalies=0.2, costs=False, scale=1.0, **settings):
    """Scores of R detectors of uneven quality; anomalies score lower."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < anomalies, -1.0, 1.0)
    y[0] = 1.0
    quality = rng.uniform(0.0, 1.0, R)
    S = scale * (y[:, None] * quality + rng.normal(0.0, 0.7, (n, R)))
    labels = y if anomalies else None
    return Problem(S, labels, costs=rng.uniform(0.1, 3.0, n) if costs else None, **settings)


def changed(problem, S=None, y=None, costs=None):
    """The problem with other data and the same settings."""
    ball = problem.ball
    return Problem(
        problem.S if S is None else S,
        problem.y if y is None else y,
        costs=problem.costs if costs is None else costs,
        p=ball.p,
        nonnegative=ball.nonnegative,
        loss=problem.loss.name,
        fit_intercept=problem.fit_intercept,
        centre=ball.centre,
        radius=ball.radius,
    )


def assert_feasible(problem, weights):
    """In the ball, to rounding, and free of NaN."""
    assert np.isfinite(weights).all()
    centre = 0.0 if problem.ball.centre is None else problem.ball.centre
    assert naive.norm(weights - centre, problem.ball.p) <= problem.ball.radius * (1 + 1e-12)
    if problem.ball.nonnegative:
        assert min(weights) >= 0


def _rounding(problem, w, alpha):
    """What float64 may lose: the terms of Sw and of Σ c α y s cancel, be they ever so large."""
    costs = np.ones(problem.n) if problem.costs is None else problem.costs
    terms = costs @ np.abs(problem.S) @ w + ((costs * alpha) @ np.abs(problem.S)).sum()
    return 1e-12 * problem.total_cost + 2e-15 * float(terms)


def assert_certified(problem, solution, tol=1e-8):
    """Feasible weights whose gap, proven again by naive loops from α alone, is within tol."""
    assert_feasible(problem, solution.weights)
    proof = solution.certificate
    alpha = problem.dual_point(proof.dual_weights) if proof.alpha is None else proof.alpha
    primal = naive.value(problem, solution.weights, solution.intercept)
    dual = naive.dual_value(problem, alpha)
    rounding = _rounding(problem, np.abs(solution.weights), np.abs(alpha))
    assert proof.primal == pytest.approx(primal, rel=0, abs=rounding)
    # What imbalance costs a bound with an intercept is less than what rounding may cost it.
    assert dual - rounding - proof.rounding <= proof.dual <= dual + rounding
    assert primal - dual <= tol * max(primal, 1e-3 * problem.total_cost) + rounding
    assert proof.status == "optimal"
    assert proof.relative_gap <= tol
