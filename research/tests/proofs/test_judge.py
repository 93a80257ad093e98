"""The judge is judged: it finds what was planted, and agrees with definitions and with an LP."""

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize

from helpers.cases import cases
from lpfuse import LpFusion
from research.proofs.families import GRID, make
from research.proofs.judge import judge
from research.proofs.problem import ExactProblem

RNG = np.random.default_rng(0)
Y = np.where(RNG.random(40) < 0.3, -1.0, 1.0)
S = RNG.normal(size=(40, 3)) + 0.4 * Y[:, None]
WEIGHT = RNG.random(40) + 0.1
HINGE = {"p": 4 / 3, "fit_intercept": True, "class_weight": "balanced", "imaginary_anomalies": 3.0}
SQUARES = HINGE | {"loss": "least_squares"}


def fitted(parameters, **changes):
    """A fit whose weights, intercept or certificate may be changed."""
    fusion = LpFusion(**parameters).fit(S, Y, WEIGHT)
    seen = {"weights_": fusion.weights_, "intercept_": fusion.intercept_}
    own = {name: changes.pop(name) for name in list(changes) if name in seen}
    certificate = replace(fusion.certificate_, **changes)
    return SimpleNamespace(**(seen | own), certificate_=certificate)


def verdict(parameters, **changes):
    return judge(S, Y, WEIGHT, parameters, fitted(parameters, **changes))


@cases("parameters", [HINGE, SQUARES, {"p": 1.0}, {"p": math.inf}])
def test_a_true_certificate_holds(parameters):
    found = verdict(parameters)
    assert found.reasons == ()
    assert found.relative_gap <= 1e-8
    assert abs(found.excess) < 1e-9


@pytest.mark.parametrize("parameters", [HINGE, SQUARES])
def test_a_gap_that_is_too_small_is_found(parameters):
    fusion = LpFusion(**parameters, max_iter=3)
    with pytest.warns(match="short of tol"):
        fusion.fit(S, Y, WEIGHT)
    true = fusion.certificate_
    assert true.status != "optimal"
    assert judge(S, Y, WEIGHT, parameters, fusion).reasons == ()
    gaps = [{"gap": 0.5 * true.gap}, {"relative_gap": 0.5 * true.relative_gap}]
    for less in (*gaps, {"gap": true.gap * (1 - 1e-6)}):
        fusion.certificate_ = replace(true, **less)
        assert "the witness proves less than the gap says" in (
            judge(S, Y, WEIGHT, parameters, fusion).reasons
        )
    fusion.certificate_ = replace(true, status="optimal")
    assert judge(S, Y, WEIGHT, parameters, fusion).reasons == ("optimal is not proven within tol",)


@pytest.mark.parametrize("parameters", [HINGE, SQUARES])
def test_values_below_and_bounds_above_the_truth_are_found(parameters):
    true = fitted(parameters).certificate_
    low = verdict(parameters, primal=0.999 * true.primal)
    assert low.reasons == ("the value is higher than the primal says",)
    high = verdict(parameters, dual=1.001 * true.dual)
    assert high.reasons == ("the witness proves less than the dual says",)
    # Both may be rounded by what is said, and counted in the gap.
    rounded = {"primal": true.primal * (1 - 1e-9), "dual": true.dual * (1 + 1e-9)}
    assert len(verdict(parameters, **rounded).reasons) == 2
    assert verdict(parameters, **rounded, rounding=2e-9 * true.primal).reasons == ()


def test_a_gap_clamped_at_zero_is_found():
    true = fitted(SQUARES).certificate_
    weights = 0.9 * fitted(SQUARES).weights_
    found = verdict(SQUARES, weights_=weights, gap=0.0, relative_gap=0.0, dual=2 * true.primal)
    assert "the witness proves less than the gap says" in found.reasons


@cases(
    "break_it",
    [
        lambda alpha: np.where(alpha > 0.5, 1 + 2.0**-52, alpha),
        lambda alpha: np.where(alpha < 0.5, -5e-324, alpha),
        lambda alpha: 1 - alpha,
        lambda alpha: -alpha,
        lambda alpha: alpha[:-1],
        lambda alpha: np.where(alpha > 0.5, np.nan, alpha),
        lambda alpha: None,
    ],
)
def test_a_broken_multiplier_proves_nothing(break_it):
    alpha = break_it(fitted(HINGE).certificate_.alpha)
    assert "optimal is not proven within tol" in verdict(HINGE, alpha=alpha).reasons


def test_the_wrong_sign_of_dual_weights_is_found():
    weights = -fitted(SQUARES).certificate_.dual_weights
    assert "optimal is not proven within tol" in verdict(SQUARES, dual_weights=weights).reasons


def test_infeasible_points_are_found():
    w = fitted({"p": 2.0}).weights_
    grown = verdict({"p": 2.0}, weights_=w / np.linalg.norm(w) * (1 + 1e-11))
    assert "weights outside the ball" in grown.reasons
    moved = verdict({"p": 2.0}, intercept_=1e-300)
    assert "an intercept that was not asked for" in moved.reasons
    down = {"p": 2.0, "nonnegative": True}
    assert "negative weights" in verdict(down, weights_=np.array([1e-9, -1e-300, 0.5])).reasons
    assert verdict(HINGE, weights_=np.full(3, np.nan)).reasons
    assert verdict(HINGE, gap=math.nan).reasons


def test_weights_too_far_from_the_prior_are_found():
    prior = np.array([0.5, 0.2, 0.0])
    for radius, too_far in ((0.1, 0.1 * (1 + 1e-11)), (0.0, 5e-324)):
        around = {"p": 2.0, "prior": prior, "radius": radius, "nonnegative": True}
        assert verdict(around).reasons == ()
        moved = np.array([0.5, 0.2, too_far])
        assert "weights outside the ball" in verdict(around, weights_=moved).reasons


# ------------------------------------------------------------------- the definitions, once more


@pytest.mark.parametrize("family", ["mixtures", "decaying weights, intercept", "one huge weight"])
def test_values_are_those_of_the_definition(family):
    for seed in range(20, 35):
        made = make(family, seed)
        labels, mass = _rows(made)
        w, b = np.linspace(-0.3, 0.2, made.S.shape[1]), 0.1
        problem = ExactProblem(made.S, made.y, made.sample_weight, made.parameters)
        b = b if problem.fit_intercept else 0.0
        scores = [list(map(float, row)) for row in made.S]
        if made.parameters["imaginary_anomalies"]:
            scores.append([-2.0] * len(w))
        r = [
            1
            - y
            * (sum(Fraction(s) * Fraction(x) for s, x in zip(row, w, strict=True)) + Fraction(b))
            for row, y in zip(scores, labels, strict=True)
        ]
        cost = [max(x, 0) if made.parameters["loss"] == "hinge" else x * x for x in r]
        assert problem.value(w, b) == sum(c * x for c, x in zip(mass, cost, strict=True))
        assert problem.total_cost == sum(mass)


def _rows(made):
    """Labels and exact costs, the imaginary row's last."""
    n = len(made.S)
    labels = [1] * n if made.y is None else [int(y) for y in made.y]
    mass = [Fraction(1)] * n
    if made.sample_weight is not None:
        mass = [Fraction(float(x)) for x in made.sample_weight]
    if more := made.parameters["imaginary_anomalies"]:
        labels, mass = [*labels, -1], [*mass, Fraction(more)]
    sums = {k: sum(m for m, y in zip(mass, labels, strict=True) if y == k) for k in (1, -1)}
    if made.parameters["class_weight"] and all(sums.values()):
        mass = [m * sum(sums.values()) / (2 * sums[y]) for m, y in zip(mass, labels, strict=True)]
    return labels, mass


@cases("p", GRID)
@cases("loss", ["hinge", "least_squares"])
def test_no_feasible_point_is_below_a_bound(p, loss):
    # Weak duality, over witnesses and points near the best: too large a bound would be below one.
    rng = np.random.default_rng(1)
    for trial in range(8):
        signs = {"nonnegative": trial % 2 > 0, "class_weight": "balanced"}
        parameters = signs | {"p": p, "loss": loss, "fit_intercept": trial > 2}
        far = 10.0 ** (trial % 4 - 1)
        data = S + 0.5 * Y[:, None] + far, Y, rng.random(40) + 1e-9
        best, problem = LpFusion(**parameters).fit(*data), ExactProblem(*data, parameters)
        values = []
        for size in (0.0, *10.0 ** rng.uniform(-9, 0, size=20)):
            w = best.weights_ + size * rng.normal(size=3)
            w = np.maximum(w, 0) if trial % 2 else w
            w = w / max(1.0, float(problem.norm(w)) * (1 + 1e-15))
            b = best.intercept_ + size * rng.normal() if problem.fit_intercept else 0.0
            values.append(problem.value(w, b))
        for size in (0.0, 1e-12, 1e-6, 1e-2):
            if loss == "hinge":
                alpha = best.certificate_.alpha + size * rng.normal(size=40)
                bound = problem.hinge_bound(alpha.clip(0, 1), min(values))
            else:
                w = best.certificate_.dual_weights * (1 + size * rng.normal(size=3))
                bound = problem.least_squares_bound(w)
            assert bound <= min(values)
            assert bound >= (1 - 1e-6) * min(values) or size > 0


@cases("p", [*GRID, 1 + 1e-8, 1e6])
@cases("nonnegative", [False, True])
def test_the_support_around_a_prior_is_tight(p, nonnegative):
    rng, R = np.random.default_rng(2), 4
    for trial in range(6):
        prior = np.where(rng.random(R) < 0.3, 0.0, rng.random(R)) * (1, 40, 0.01)[trial % 3]
        around = {"p": p, "prior": prior, "radius": 0.5, "nonnegative": nonnegative}
        v = rng.normal(size=R) * 10.0 ** rng.integers(-3, 3, size=R)
        exact = ExactProblem(np.ones((1, R)), None, None, around)
        support = float(exact.support([Fraction(x) for x in v]))
        # Points whose entries are as steep as each other or at their bound, and corners.
        size = np.abs(v) / np.abs(v).max()
        ratio = (size / 10.0 ** np.linspace(-9, 9, 2001)[:, None]).clip(0, 1)
        steps = ratio ** (1 / max(p - 1, 1e-9))
        z = np.sign(v) * np.vstack([steps, np.eye(R), np.ones(R)])
        w = prior + 0.5 * z
        w = np.maximum(w, 0) if nonnegative else w
        distance = np.array([np.linalg.norm((x - prior) / 0.5, p) for x in w])
        w = prior + (w - prior) / np.maximum(distance, 1.0)[:, None]
        best, scale = float((w @ v).max()), float(np.abs(v) @ prior) + 0.5 * np.abs(v).sum()
        assert best <= support + 1e-12 * scale
        if 1.05 < p < 20:
            assert best >= support - 1e-3 * scale


@cases("p", [1.0, math.inf])
@cases("intercept", [False, True])
def test_linear_programs_agree(p, intercept):
    """min Σ c ξ over ξ ≥ 1 − y(sᵀ(u − v) + b), u, v, ξ ≥ 0, in the ball: by HiGHS."""
    parameters = {"p": p, "fit_intercept": intercept}
    found = judge(S, Y, WEIGHT, parameters, LpFusion(**parameters).fit(S, Y, WEIGHT))
    a = Y[:, None] * S
    rows = [np.hstack([-a, a, -np.eye(40), -Y[:, None] * intercept])]
    limits = [-np.ones(40)]
    if p == 1.0:
        rows.append(np.hstack([np.ones((1, 6)), np.zeros((1, 41))]))
        limits.append(np.ones(1))
    top = None if p == 1.0 else 1.0
    best = scipy.optimize.linprog(
        np.r_[np.zeros(6), WEIGHT, 0.0],
        A_ub=np.vstack(rows),
        b_ub=np.concatenate(limits),
        bounds=[(0, top)] * 6 + [(0, None)] * 40 + [(None, None)],
    ).fun
    assert found.bound <= best * (1 + 1e-9)
    assert found.value >= best * (1 - 1e-9)
    assert found.value == pytest.approx(best, rel=2e-8)
