"""The data behind the benchmark, and the stress suite built on them."""

import math

import numpy as np

from helpers.cases import cases
from research.common.judge import FusionProblem
from research.speed.solver.problems import ALL_P, Case, parse_p, synthetic_scores
from research.speed.solver.stress import VARIANTS, check, recompute, stress_problems, summarise


def test_p_labels():
    assert [parse_p(label) for label in ("1", "32/31", "inf")] == [1.0, 32 / 31, math.inf]


def test_a_case_is_the_same_in_every_process():
    first, second = (Case(500, 5, "negatives", seed=3).data() for _ in range(2))
    assert np.array_equal(first[0], second[0])
    assert np.array_equal(first[1], second[1])


def test_scores_look_like_scores():
    scores, labels = synthetic_scores(20_000, 6, 0.2, seed=0)
    assert np.sum(labels < 0) == 4_000
    outside = np.mean((scores[labels > 0] < 0) | (scores[labels > 0] > 1), axis=0)
    assert np.allclose(outside, 0.04, atol=0.005)
    normal, anomaly = scores[labels > 0].mean(axis=0), scores[labels < 0].mean(axis=0)
    assert np.all(normal > anomaly)
    correlation = np.corrcoef(scores[labels > 0].T)
    assert np.all(correlation > 0.05)


def test_suite_is_large_varied_and_well_named():
    suite = list(stress_problems())
    names = [stress.name for stress in suite]
    assert len(suite) >= 500
    assert len(set(names)) == len(names)
    sizes = {stress.problem.scores.shape for stress in suite}
    assert {1, 200} <= {R for _, R in sizes}
    assert {1, 20_000} <= {n for n, _ in sizes}
    assert {stress.problem.p for stress in suite} == {parse_p(label) for label in ALL_P}
    assert all(any(name.startswith(variant) for name in names) for variant in VARIANTS)
    assert all(np.all(np.isfinite(stress.problem.scores)) for stress in suite)
    assert all((stress.problem.labels > 0).any() for stress in suite)


SAMPLE = [stress for stress in list(stress_problems())[::23] if stress.problem.n <= 1_000]


@cases("stress", SAMPLE)
def test_sample_of_the_suite_is_certified(stress):
    assert check(stress, 1e-8)["status"] == "certified"


def test_recompute_is_not_fooled():
    problem = FusionProblem(np.array([[0.0, 2.0], [0.5, 0.0]]), np.ones(2), 2.0)
    # Small enough to solve by hand: w* touches the first row's margin, the second stays short.
    w = np.array([math.sqrt(3) / 2, 0.5])
    alpha = np.array([math.sqrt(3) / 12, 1.0])
    assert recompute(problem, w, alpha, 1e-8)["status"] == "certified"
    assert recompute(problem, w, 1 - alpha, 1e-8)["status"] == "uncertified"
    assert recompute(problem, 1.001 * w, alpha, 1e-8)["status"] == "infeasible"
    assert recompute(problem, w * np.nan, alpha, 1e-8)["status"] == "nan"


def test_summary_counts_and_names_the_worst():
    rows = [
        {"name": "good", "status": "certified", "relative_gap": 1e-9, "seconds": 1.0},
        {"name": "bad", "status": "uncertified", "relative_gap": 1e-3, "seconds": 1.0},
        {"name": "broken", "status": "error"},
    ]
    summary = summarise(rows)
    assert (summary["certified"], summary["error"], summary["worst_problem"]) == (1, 1, "bad")
