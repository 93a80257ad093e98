"""Verdicts follow from figures by fixed rules."""

import numpy as np
import pytest

from helpers.cases import cases
from research.common.comparison import Figures
from research.common.statistics import compare
from research.paper import claims, contamination
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


@cases(
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
    assert "| against | lpfuse, defaults | lpfuse, validated |" in page
    assert "| sum | +10.0" in page


EXISTING = ("genetic", "dynamic", "dynamic bootstraps", "iterative")


def with_g_means(figures_rows):
    return [*figures_rows, *(row | {"metric": "g_mean"} for row in figures_rows)]


@pytest.mark.parametrize(("ours", "expected"), [(80.0, HOLDS), (60.0, NOT)])
def test_existing_methods_are_those_of_the_paper_s_table(ours, expected):
    means = dict.fromkeys((*EXISTING, "genetic, out of fold"), 70.0) | {"ℓp": ours}
    claim = claims._existing(Figures(with_g_means(rows_of(**means))))
    assert claim.verdict == expected
    for name in means:
        assert name in claim.evidence or name == "ℓp"


def test_one_unbeaten_method_makes_the_claim_hold_in_part():
    means = dict.fromkeys(EXISTING, 70.0) | {"iterative": 81.0, "ℓp": 80.0}
    claim = claims._existing(Figures(with_g_means(rows_of(**means))))
    assert claim.verdict == IN_PART


@pytest.mark.parametrize(("gain", "expected"), [(9.0, HOLDS), (4.0, IN_PART), (0.0, NOT)])
def test_the_gain_on_haberman_is_judged_over_its_splits(gain, expected):
    rows = [
        {"set": "haberman", "seed": seed, "setting": "pure", "method": method,
         "metric": "g_mean", "value": 60 + seed / 10 + gain * (method == "ℓp")
         + 0.2 * (seed % 2) * (method == "ℓp")}
        for seed in range(10) for method in ("ℓp", "genetic", "sum", "best single")
    ]  # fmt: skip
    claim = claims._haberman(Figures(rows))
    assert claim.verdict == expected
    assert "66.57 and 60.32" in " ".join(claim.evidence.split())


def test_forgeries_are_judged_by_the_paper_s_own_tables():
    claim = claims._forgeries()
    assert claim.verdict == IN_PART
    told = " ".join(claim.evidence.split())
    assert "c40: of the 4 kinds for which it prints a rival it is ahead on 3" in told
    assert "c23: of the 4 kinds for which it prints a rival it is ahead on 2" in told


@pytest.mark.parametrize(("gain", "expected"), [(5.0, HOLDS), (0.0, NOT)])
def test_robustness_is_the_gain_at_every_level(gain, expected):
    rows = [
        {"set": name, "seed": 0, "setting": level, "method": method, "metric": "auc",
         "value": 80 + NOISE[k] + (gain + NOISE[-k] if method == "ℓp, hinge" else 0)}
        for k, name in enumerate(SETS) for level in ("0 %", "5 %", "20 %")
        for method in contamination.METHODS
    ]  # fmt: skip
    assert claims._robust(contamination.Levels(rows)).verdict == expected


def test_a_claim_of_many_parts_corrects_its_p_values():
    """Holm's correction is for all parts: p = 0.02 among eight is 0.16."""
    weak = compare(70 + np.array([1.0] * 8 + [-0.9, -0.8]), np.full(10, 70.0))
    assert better(weak)
    alone, _ = claims._settled({"a": weak})
    many, _ = claims._settled({str(k): weak for k in range(8)})
    assert (alone, many) == (HOLDS, NOT)
