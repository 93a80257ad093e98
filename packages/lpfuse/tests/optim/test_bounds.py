"""Sums with a bound of their rounding, against exact rationals."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.pairwise import each_value
from lpfuse._arrays.operations import accurate_total, two_product, two_sum
from lpfuse.optim import Problem
from lpfuse.optim.bounds import row_products
from lpfuse.optim.certificate import Certifier
from lpfuse.optim.results import Candidate
from lpfuse.optim.tuning import CHUNK

numbers = st.floats(-1e90, 1e90).filter(lambda x: x == 0.0 or abs(x) > 1e-90)


@given(numbers, numbers)
def test_a_sum_and_a_product_equal_their_two_parts(a, b):
    for exact, parts in ((Fraction(a) + Fraction(b), two_sum(a, b)),
                         (Fraction(a) * Fraction(b), two_product(a, b))):  # fmt: skip
        assert sum(map(Fraction, parts)) == exact


@given(st.lists(numbers, min_size=1, max_size=40))
def test_an_accurate_sum_is_right_to_the_last_digits(values):
    exact = sum(map(Fraction, values))
    size = sum(abs(Fraction(value)) for value in values)
    found = Fraction(accurate_total(np.array(values)))
    assert abs(found - exact) <= Fraction(2.0**-52) * abs(exact) + Fraction(1e-28) * size


@each_value(
    n=(1, CHUNK - 1, 2 * CHUNK, 3 * CHUNK + 7), library=("numpy", "torch", "array_api_strict")
)
def test_products_by_chunks_are_the_products(n, library):
    library = pytest.importorskip(library)
    rng = np.random.default_rng(n)
    x, rows = rng.normal(size=n), rng.normal(size=(n, 3))
    theirs = library.asarray(rows)
    assert np.allclose(row_products(library.asarray(x), theirs), x @ rows, rtol=0, atol=1e-11)
    assert np.allclose(row_products(theirs, theirs), rows.T @ rows, rtol=0, atol=1e-11)


def _exact_value(problem, w, b):
    """f(w, b) in rationals."""
    costs = np.ones(problem.n) if problem.costs is None else problem.costs
    w, b, value = [Fraction(x) for x in w], Fraction(b), Fraction(0)
    for s, y, c in zip(problem.S.tolist(), problem.y.tolist(), costs.tolist(), strict=True):
        r = 1 - int(y) * (sum(Fraction(x) * v for x, v in zip(s, w, strict=True)) + b)
        value += Fraction(c) * (max(r, Fraction(0)) if problem.loss.name == "hinge" else r * r)
    return value


def _exact_sums(problem, alpha):
    """Σ c gain(α), Σ c α y s and Σ c α y in rationals."""
    costs = np.ones(problem.n) if problem.costs is None else problem.costs
    gain, pull, balance = Fraction(0), [Fraction(0)] * problem.R, Fraction(0)
    for s, y, c, a in zip(
        problem.S.tolist(), problem.y.tolist(), costs.tolist(), alpha.tolist(), strict=True
    ):
        x = Fraction(a) * Fraction(c)
        gain += x if problem.loss.name == "hinge" else x - x * Fraction(a) / 4
        pull = [total + int(y) * x * Fraction(v) for total, v in zip(pull, s, strict=True)]
        balance += int(y) * x
    return gain, pull, balance


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from([1e-6, 1.0, 1e3, 1e7]),
    offset=st.sampled_from([0.0, 1e2, 1e8]),
    outlier=st.sampled_from([1.0, 1e6, 1e12]),
    loss=st.sampled_from(["hinge", "least_squares"]),
    fit_intercept=st.booleans(),
    costs=st.booleans(),
)
def test_both_sides_are_off_by_no_more_than_they_say(
    seed, size, offset, outlier, loss, fit_intercept, costs
):
    rng = np.random.default_rng(seed)
    n, R = int(rng.integers(2, 30)), int(rng.integers(1, 5))
    S = size * rng.normal(size=(n, R)) + offset * rng.normal(size=R)
    S[rng.integers(n)] *= outlier
    y = np.where(np.arange(n) % 3, 1.0, -1.0)
    c = np.exp(rng.uniform(-40.0, 3.0, n)) if costs else None
    problem = Problem(S, y, p=1.0, costs=c, loss=loss, fit_intercept=fit_intercept)
    w = rng.dirichlet(np.ones(R))
    b = float(rng.normal() * (size + offset)) if fit_intercept else 0.0
    if loss == "hinge":
        alpha = rng.uniform(0.0, 1.0, n)
        if fit_intercept:  # both classes alike, to rounding
            weight = np.ones(n) if c is None else c
            sums = [float((weight * alpha)[y == side].sum()) for side in (1.0, -1.0)]
            alpha *= np.where(y > 0, min(sums) / sums[0], min(sums) / sums[1])
        candidate = Candidate(np.append(w, [b] * fit_intercept), alpha)
    else:
        candidate = Candidate(np.append(w, [b] * fit_intercept), dual_weights=w)
    found = Certifier(problem, [problem.ball], 1e-8).examine({0: candidate})[0]
    exact = _exact_value(problem, w, b)
    assert abs(Fraction(found.primal) - exact) <= Fraction(found.primal_error)
    if loss == "hinge" and not fit_intercept:
        gain, pull, _ = _exact_sums(problem, alpha)
        bound = gain - max(map(abs, pull))
        assert abs(Fraction(found.dual) - bound) <= Fraction(found.dual_error)
        assert found.dual_error <= 1e-9 * max(found.primal, -found.dual, 1e-3 * problem.total_cost)


def test_an_intercept_keeps_the_digits_of_far_scores():
    rng = np.random.default_rng(0)
    S, y = np.round(rng.normal(size=(40, 3)) * 64) / 64, np.where(np.arange(40) % 4, 1.0, -1.0)
    w, b = np.array([0.5, 0.25, 0.125]), 0.25
    offset = 2.0**24
    moved = Problem(S + offset, y, fit_intercept=True)
    assert moved.value(w, b - offset * w.sum()) == Problem(S, y, fit_intercept=True).value(w, b)


def test_a_bound_above_the_value_is_an_error():
    problem = Problem(np.full((4, 1), 0.5))
    certifier = Certifier(problem, [problem.ball], 1e-8)
    certifier.examine({0: Candidate(np.array([0.5]), np.ones(4))})
    problem.S = 2.0 * problem.S  # scores that change during a fit
    certifier.examine({0: Candidate(np.array([1.0]))})
    with pytest.raises(ArithmeticError, match="changed between two passes"):
        certifier.solution(0, 1, 1.0, "max_iter")


def test_what_rounding_alone_forbids_to_prove_says_so():
    problem = Problem(np.full((4, 1), 0.5))  # the best weight is 1, with the value 2
    for tol, status in ((1e-8, "optimal"), (1e-15, "rounding")):
        certifier = Certifier(problem, [problem.ball], tol)
        certifier.examine({0: Candidate(np.array([1.0]), np.ones(4))})
        proof = certifier.solution(0, 1, 1.0, "max_iter").certificate
        assert (proof.primal, proof.dual, proof.status) == (2.0, 2.0, status)
        assert proof.gap == proof.rounding > 0.0
