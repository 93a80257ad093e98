"""Verdicts follow from figures by fixed rules."""

import numpy as np
import pytest

from research.common.comparison import Figures
from research.common.statistics import compare
from research.paper import claims
from research.paper.claims import HOLDS, IN_PART, NOT, better, verdict
from research.paper.learners import LEARNERS
from research.paper.uci_page import OURS

pytest.importorskip("statsmodels", reason="corrections need statsmodels")

SETS = [f"set {k}" for k in range(10)]
RNG = np.random.default_rng(0)
NOISE = RNG.normal(0, 0.1, size=10)


def rows_of(**means):
    """Rows with so much for each method, a little different on each set."""
    return [
        {"set": name, "seed": 0, "setting": setting, "method": method, "metric": "auc",
         "value": value + NOISE[k] * (method == "ℓp") + k}
        for setting in ("pure", "non-pure")
        for method, value in means.items()
        for k, name in enumerate(SETS)
    ]  # fmt: skip


def figures_of(ours=80.0, **others):
    means = dict.fromkeys((*LEARNERS, "sum", "ℓ2", "ℓ∞", "best single"), 70.0)
    means |= {"ℓp": ours, OURS: ours, "lpfuse, defaults": ours} | others
    return Figures(rows_of(**means))


@pytest.mark.parametrize(
    ("gain", "expected"),
    [([1.0, 2.0] * 5, True), ([-1.0] * 10, False), ([5.0, -4.0] * 5, False), ([0.0] * 10, False)],
)
def test_better_means_beyond_doubt(gain, expected):
    assert better(compare(70 + np.array(gain), np.full(10, 70.0))) is expected


def test_a_verdict_is_all_some_or_none():
    assert verdict([True, True]) == HOLDS
    assert verdict([False, True]) == IN_PART
    assert verdict(iter([False, False])) == NOT


@pytest.mark.parametrize(("ours", "expected"), [(80.0, HOLDS), (60.0, NOT)])
def test_single_learners_and_the_sum(ours, expected):
    figures = figures_of(ours)
    assert claims._singles(figures).verdict == expected
    assert claims._sum_rule(figures).verdict == expected


def test_better_than_some_learners_holds_in_part():
    claim = claims._singles(figures_of(80.0, KPCA=90.0))
    assert claim.verdict == IN_PART
    assert "above all four learners on 0 of 10 sets" in claim.evidence
    assert "KPCA -10.0" in claim.evidence


def test_negatives_are_judged_by_the_method_of_the_paper():
    rows = rows_of(**{"ℓp": 70.0, OURS: 70.0})
    gained = [
        row | {"value": row["value"] + 5 + row["set"].endswith("3")}
        if (row["setting"], row["method"]) == ("non-pure", OURS)
        else row
        for row in rows
    ]
    claim = claims._negatives(Figures(gained))
    assert claim.verdict == NOT
    assert "+5.1" in claim.evidence


SPEED = {"cells": 12, "fast": 12, "fast_solver": 3, "least": 15.0, "least_solver": 2.0, "loose": 1,
         "worst_gap": 0.1, "cvxpy_gap": 1e-9, "lpfuse_gap": 1e-9, "lpfuse": (3.0, 9.0)}  # fmt: skip


@pytest.mark.parametrize(("fast", "expected"), [(12, HOLDS), (9, IN_PART), (0, NOT)])
def test_speed_holds_where_every_cell_is_fast(fast, expected):
    claim = claims._speed({("banknotes", "pure"): SPEED | {"fast": fast}})
    assert claim.verdict == expected
    assert f"in {fast} of 12 cells" in claim.evidence


@pytest.mark.parametrize(("growing", "expected"), [(0, IN_PART), (3, NOT)])
def test_the_counterexample_rules_out_that_the_rate_holds(growing, expected):
    each = {
        "cases": 9,
        "solved": 1,
        "bounded": 8 - growing,
        "growing": growing,
        "stalled": 0,
        "worst": 0.1,
    }
    example = {"gap": 0.226, "steps": 100_000}
    settings = {"pure": each, "non-pure": each}
    claim = claims._convergence({"Algorithm 1": {"counterexample": example, **settings}})
    assert claim.verdict == expected
    assert "23% above the optimum after 100,000 steps" in " ".join(claim.evidence.split())


def weights_of(alone, best, even):
    each = {"alone": alone, "splits": 10, "best_on_validation": best, "best_on_test": best,
            "given_away": 1.0, "by_chance": 2.0, "even": {np.inf: even},
            "deviation": {np.inf: (0.0, 1 - even)}, "negative": {np.inf: 0.0}}  # fmt: skip
    return {"pure": each, "non-pure": each}


@pytest.mark.parametrize(
    ("alone", "best", "expected"), [(1.0, 1.0, HOLDS), (1.0, 0.4, IN_PART), (0.5, 0.4, NOT)]
)
def test_p_to_one_must_select_one_learner_and_the_best(alone, best, expected):
    assert claims._selection(weights_of(alone, best, 1.0)).verdict == expected


@pytest.mark.parametrize(("even", "expected"), [(1.0, HOLDS), (0.7, IN_PART), (0.3, NOT)])
def test_p_to_infinity_must_give_equal_weights(even, expected):
    assert claims._uniform(weights_of(1.0, 1.0, even)).verdict == expected


@pytest.mark.parametrize(("median", "expected"), [(1e-6, IN_PART), (0.2, NOT)])
def test_the_svm_is_a_special_case_in_part_at_most(median, expected):
    found = {"splits": 10, "active": 9, "median": median, "worst": 0.3, "cosine": [0.1, 0.4, 0.7]}
    assert claims._machine(found).verdict == expected


def test_the_page_has_every_claim_twice_and_our_gains():
    figures = figures_of()
    found = [claims._singles(figures), claims._sum_rule(figures)]
    page = claims.claims_page(figures, found)
    for claim in found:
        assert page.count(claim.text) == 2
    assert "10 data sets" in page.replace("\n", " ")
    assert "| lpfuse, validated | +10.0" in page
