"""Fused kernels against plain passes and exact sums: on a GPU, or by Triton's interpreter."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.kernels import device_for_kernels
from lpfuse._arrays.linalg import GROUPS, cut_rows, may_fuse
from lpfuse.optim import Candidate, Certifier, Problem, solve, solve_path
from lpfuse.optim.bounds import gamma, in_a_row
from lpfuse.optim.distributed import crossings
from lpfuse.optim.passes import PartitionPlan, ScorePasses, TooManyRows
from oracles.problems import LOW_THRESHOLDS, assert_certified, random_problem

few = settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def fused(monkeypatch):
    """Where kernels run; both passes take them there, also on tensors of the CPU."""
    device = device_for_kernels()
    if device == "cpu":
        from lpfuse._arrays import fused_gather, fused_rows
        from lpfuse._arrays import linalg as cutting

        # The interpreter takes a millisecond an operation: four groups instead of 64, and still
        # several chunks to each of them.
        monkeypatch.setattr(cutting, "GROUPS", 4)
        monkeypatch.setattr(fused_rows, "GROUPS", 4)
        monkeypatch.setattr(fused_gather, "GROUPS", 4)
        for module in ("lpfuse.optim.certificate", "lpfuse.optim.passes"):
            monkeypatch.setattr(f"{module}.may_fuse", lambda S: not isinstance(S, np.ndarray))
    return device


problems = st.builds(
    random_problem,
    seed=st.integers(0, 999),
    n=st.sampled_from([1, 7, 300, 700]),
    R=st.sampled_from([1, 4, 5, 13, 36]),
    anomalies=st.sampled_from([0.0, 0.3]),
    costs=st.booleans(),
    fit_intercept=st.booleans(),
)


def there(problem, device, dtype=None):
    """The same problem as tensors."""
    import torch

    def moved(x):
        return None if x is None else torch.as_tensor(x, device=device)

    S = moved(problem.S)
    return Problem(
        S if dtype is None else S.to(getattr(torch, dtype)),
        moved(problem.y),
        p=problem.ball.p,
        costs=moved(problem.costs),
        fit_intercept=problem.fit_intercept,
        nonnegative=problem.ball.nonnegative,
    )


def point_of(problem, seed):
    rng = np.random.default_rng(seed)
    w = rng.dirichlet(np.ones(problem.R)) * rng.choice([-1.0, 1.0], problem.R)
    return np.append(w, [rng.normal()] * problem.fit_intercept)


def shares(problem, seed):
    return np.random.default_rng(seed).choice([0.0, 0.25, 1.0], problem.n)


def assert_same_rows(ours, theirs):
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine, other)


@few
@given(
    problem=problems,
    seed=st.integers(0, 99),
    width=st.sampled_from([0.0, 0.3, 1e9]),
    stride=st.sampled_from([1, 3]),
)
def test_a_partition_is_the_plain_one(fused, problem, seed, width, stride):
    v = point_of(problem, seed)
    plan = PartitionPlan(v, width, stride, 500)
    [plain] = ScorePasses(problem).partition([plan], [problem.ball])
    [ours] = ScorePasses(there(problem, fused)).partition([plan], [problem.ball])
    if isinstance(plain, TooManyRows):
        assert ours == plain
        return
    assert ours.value == pytest.approx(plain.value, rel=1e-12, abs=1e-12)
    assert ours.n_near == plain.n_near
    assert_same_rows((ours.model.columns, ours.positions), (plain.model.columns, plain.positions))
    np.testing.assert_allclose(ours.model.costs, plain.model.costs, rtol=1e-14)
    np.testing.assert_allclose(ours.model.linear, plain.model.linear, rtol=1e-11, atol=1e-10)
    assert ours.model.constant == pytest.approx(plain.model.constant, rel=1e-13)
    if stride == 1:
        assert ours.pieces.side.cpu().numpy().tolist() == plain.pieces.side.tolist()


def test_near_rows_within_a_rounding_of_the_band_are_on_one_side_alone(fused):
    """Rows, constants and sides agree with each other wherever a margin falls."""
    problem = random_problem(n=700, R=5, costs=True, fit_intercept=True)
    v = point_of(problem, 1)
    r = 1.0 - problem.y * (problem.S @ v[:5] + v[5])
    plan = PartitionPlan(v, float(abs(r[17])), 1, 700)  # row 17 lies on the edge
    [found] = ScorePasses(there(problem, fused)).partition([plan], [problem.ball])
    side = found.pieces.side.cpu().numpy()
    assert np.flatnonzero(side == 0).tolist() == found.positions.tolist()
    assert found.model.constant == pytest.approx(problem.costs[side > 0].sum(), rel=1e-13)


def test_several_plans_share_a_pass_each_as_if_alone(fused):
    problem = there(random_problem(n=700, R=9, anomalies=0.3, costs=True), fused)
    plans = [PartitionPlan(point_of(problem, k), 0.1 * k, 1 + k % 2, 10**9) for k in range(4)]
    plans.append(PartitionPlan(point_of(problem, 9), 1e9, 1, 10))
    together = ScorePasses(problem).partition(plans, [problem.ball] * 5)
    assert problem.passes == 1.0
    assert together[-1] == TooManyRows(700)
    for plan, ours in zip(plans[:4], together[:4], strict=True):
        [alone] = ScorePasses(problem).partition([plan], [problem.ball])
        assert_same_rows(
            (ours.positions, ours.model.columns), (alone.positions, alone.model.columns)
        )
        np.testing.assert_allclose(ours.model.linear, alone.model.linear, rtol=1e-12)


def examined(problem, v, alpha, most=10**9):
    certifier = Certifier(problem, [problem.ball], 1e-8)
    watch = {0: crossings(problem.terms, most)}
    return certifier.examine({0: Candidate(v, alpha)}, watch)[0]


@few
@given(problem=problems, seed=st.integers(0, 99))
def test_an_examination_finds_the_plain_sums_and_rows(fused, problem, seed):
    import torch

    v, alpha = point_of(problem, seed), shares(problem, seed)
    plain = examined(problem, v, alpha)
    moved = there(problem, fused)
    ours = examined(moved, v, torch.as_tensor(alpha, device=fused))
    assert moved.passes == 1.0
    assert ours.primal == pytest.approx(plain.primal, rel=1e-13, abs=1e-13)
    assert ours.dual == pytest.approx(plain.dual, rel=1e-11, abs=1e-11)
    assert_same_rows(ours.watched, plain.watched)
    n_wrong = len(plain.watched.costs)
    if n_wrong:
        assert examined(moved, v, torch.as_tensor(alpha, device=fused), n_wrong - 1).watched is None


def exact_sides(problem, w, b, alpha):
    """f(w, b), Σ c α − max |Σ c α y s| and Σ c α y in rationals."""
    y = np.ones(problem.n) if problem.y is None else problem.y
    c = np.ones(problem.n) if problem.costs is None else problem.costs
    value = gain = balance = Fraction(0)
    pull = [Fraction(0)] * problem.R
    for s, label, cost, share in zip(problem.S.tolist(), y, c.tolist(), alpha, strict=True):
        fused = sum((Fraction(x) * Fraction(v) for x, v in zip(s, w, strict=True)), Fraction(b))
        value += Fraction(cost) * max(1 - int(label) * fused, Fraction(0))
        x = Fraction(float(share)) * Fraction(cost)
        gain += x
        balance += int(label) * x
        pull = [total + int(label) * x * Fraction(v) for total, v in zip(pull, s, strict=True)]
    return value, gain - max(map(abs, pull)), balance


@few
@given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from([1e-6, 1.0, 1e7]),
    outlier=st.sampled_from([1.0, 1e6, 1e12]),
    costs=st.booleans(),
)
def test_both_sides_are_off_by_no_more_than_they_say(fused, seed, size, outlier, costs):
    import torch

    rng = np.random.default_rng(seed)
    n, R = int(rng.integers(2, 40)), int(rng.integers(1, 6))
    S = size * rng.normal(size=(n, R))
    S[rng.integers(n)] *= outlier
    y = np.where(np.arange(n) % 3, 1.0, -1.0)
    c = np.exp(rng.uniform(-40.0, 3.0, n)) if costs else None
    problem = Problem(S, y, p=1.0, costs=c)
    w, alpha = rng.dirichlet(np.ones(R)), rng.uniform(0.0, 1.0, n)
    moved = there(problem, fused)
    found = Certifier(moved, [moved.ball], 1e-8).examine(
        {0: Candidate(w, torch.as_tensor(alpha, device=fused))}
    )[0]
    value, bound, _ = exact_sides(problem, w, 0.0, alpha)
    assert abs(Fraction(found.primal) - value) <= Fraction(found.primal_error)
    assert abs(Fraction(found.dual) - bound) <= Fraction(found.dual_error)
    assert found.dual_error <= 1e-9 * max(found.primal, -found.dual, 1e-3 * problem.total_cost)


@few
@given(seed=st.integers(0, 10**6))
def test_the_balance_of_multipliers_is_right_to_the_last_digits(fused, seed):
    """Classes of very different costs: a plain sum would lose the lighter one."""
    from lpfuse.optim._fused_bounds import examine_fused
    from lpfuse.optim.bounds import Reading

    rng = np.random.default_rng(seed)
    n = 300
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    c = np.exp(rng.uniform(-30.0, 30.0, n // 2)).repeat(2)
    alpha = rng.uniform(0.0, 1.0, n // 2).repeat(2)  # pairs that cancel, but for the last
    alpha[-1] *= 1.0 - 2.0**-40
    problem = Problem(rng.normal(size=(n, 2)), y, costs=c, fit_intercept=True)
    moved = there(problem, fused)
    import torch

    candidates = {0: (np.array([0.5, 0.5, 0.0]), torch.as_tensor(alpha, device=fused))}
    sums = examine_fused(moved, Reading.of(moved, 1e-3), candidates, {})[0].dual
    exact = exact_sides(problem, [0.5, 0.5], 0.0, alpha)[2]
    assert abs(Fraction(sums.balance) - exact) <= Fraction(sums.balance_error)
    assert sums.balance_error <= 1e-15 * sums.mass


def test_what_needs_more_digits_is_read_by_the_plain_pass(fused):
    import torch

    problem = random_problem(n=60, R=3, p=1.0)
    problem.S[5] *= 1e13  # one row that hides all others
    alpha = np.full(60, 0.5)
    moved = there(problem, fused)
    v = np.array([0.3, 0.3, -0.4])
    found = Certifier(moved, [moved.ball], 1e-8).examine(
        {0: Candidate(v, torch.as_tensor(alpha, device=fused))}
    )[0]
    assert moved.passes == 2.0
    value = exact_sides(problem, v, 0.0, alpha)[0]
    assert abs(Fraction(found.primal) - value) <= Fraction(found.primal_error)


def test_multipliers_that_are_no_numbers_prove_nothing(fused):
    import torch

    problem = there(random_problem(n=300, R=3), fused)
    for bad in (np.nan, 1.5, -0.5, np.inf):
        alpha = torch.full((300,), 0.5, dtype=torch.float64, device=fused)
        alpha[200] = bad
        candidate = Candidate(np.full(3, 0.1), alpha)
        with np.errstate(invalid="ignore"):  # of the interpreter
            found = Certifier(problem, [problem.ball], 1e-8).examine({0: candidate})
        assert found[0].dual == -np.inf


@pytest.mark.parametrize("n", [1, 31, 256, 10_000, 2_339_189, 10**9])
@pytest.mark.parametrize("R", [1, 4, 5, 36, 128, 129, 512])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("single", [False, True])
def test_sums_round_no_more_often_than_is_counted(n, R, several, single):
    """Every row is in one tile of one chunk, and the way of a term to the host has that length."""
    cut = cut_rows(n, R, several, single=single)
    assert cut.slices * cut.width >= R
    assert (cut.chunks - 1) * cut.rows * cut.tiles < n <= cut.chunks * cut.rows * cut.tiles
    assert cut.chunks <= GROUPS * cut.group
    longest = (cut.tiles - 1) + np.log2(cut.rows) + cut.group / 16 + 4 + (GROUPS - 1)
    assert longest + 8 <= cut.roundings
    if n > 8192:  # and less often than in plain products by chunks
        assert gamma(cut.roundings) < gamma(in_a_row(n, on_host=False))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("variant", [{}, {"costs": True, "fit_intercept": True}])
def test_fits_get_the_same_weights(fused, dtype, variant):
    problem = random_problem(n=1200, R=4, p=4 / 3, **variant)
    problem.S = problem.S.astype(dtype)
    ours = solve(there(problem, fused), tuning=LOW_THRESHOLDS)
    plain = solve(problem, tuning=LOW_THRESHOLDS)
    np.testing.assert_allclose(ours.weights, plain.weights, rtol=0, atol=1e-8)
    proof = ours.certificate
    object.__setattr__(proof, "alpha", proof.alpha.cpu().numpy())
    problem.S = problem.S.astype(np.float64)
    assert_certified(problem, ours)


def test_a_path_gets_the_same_values(fused):
    """Each proven to 1e-8 by itself: so values agree, and weights to about the root of that."""
    problem = random_problem(n=1200, R=4, anomalies=0.3)
    ps = [1.0, 4 / 3, 2.0, np.inf]
    ours = solve_path(there(problem, fused), ps, tuning=LOW_THRESHOLDS)
    for p, solution in zip(ps, ours, strict=True):
        plain = solve(problem.with_ball(p), tuning=LOW_THRESHOLDS)
        assert solution.certificate.relative_gap <= 1e-8
        value = problem.value(solution.weights, solution.intercept)
        assert value == pytest.approx(plain.certificate.primal, rel=2e-8)
        np.testing.assert_allclose(solution.weights, plain.weights, rtol=0, atol=1e-4)


def test_two_runs_give_the_same_bits(fused):
    import torch

    problem = there(random_problem(n=5000, R=13, anomalies=0.3, costs=True), fused)
    v, alpha = point_of(problem, 3), torch.as_tensor(shares(problem, 3), device=fused)
    first, second = (examined(problem, v, alpha) for _ in range(2))
    assert first[:5] == second[:5]


def test_only_what_the_kernels_take_is_fused():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    assert not may_fuse(np.ones((3, 2)))
    assert not may_fuse(torch.ones((3, 2), dtype=torch.float64))
    if torch.cuda.is_available():
        assert not may_fuse(torch.ones((3, 600), dtype=torch.float64, device="cuda"))
        assert not may_fuse(torch.ones((2, 3), dtype=torch.float64, device="cuda").T)
        assert not may_fuse(torch.ones((2, 3), dtype=torch.float16, device="cuda"))
