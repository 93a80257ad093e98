"""Tests by ranks: against SciPy, naive loops, permutations and published examples."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from helpers.cases import cases
from research.common.ranks import (
    RankTest,
    cliques,
    critical_difference,
    friedman,
    mean_ranks,
    skillings_mack,
)

NAN = np.nan

# Demšar (2006), Table 6: AUC of four learners on 14 data sets. Of two figures that are printed as
# .975 he ranks the first higher, so it is given a digit more here.
DEMSAR = [
    [0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569], [0.954, 0.971, 0.968, 0.967],
    [0.628, 0.661, 0.654, 0.657], [0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931],
    [0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625], [0.775, 0.838, 0.866, 0.875],
    [1.000, 1.000, 1.000, 1.000], [0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669],
    [0.972, 0.981, 0.9751, 0.975], [0.957, 0.978, 0.946, 0.970],
]  # fmt: skip

# Skillings & Mack (1981), Table 1: seconds to assemble a product in four ways.
ASSEMBLY = [
    [3.2, 4.1, 3.8, 4.2], [3.1, 3.9, 3.4, 4.0], [4.3, 3.5, 4.6, 4.8], [3.5, 3.6, 3.9, 4.0],
    [3.6, 4.2, 3.7, 3.9], [4.5, 4.7, 3.7, NAN], [NAN, 4.2, 3.4, NAN], [4.3, 4.6, 4.4, 4.9],
    [3.5, NAN, 3.7, 3.9],
]  # fmt: skip

# Quarters: differences are exact, and ties are common.
quarters = st.integers(-40, 40).map(lambda value: value / 4)
tables = st.tuples(st.integers(1, 12), st.integers(3, 6)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=quarters)
)
rankings = st.integers(3, 6).flatmap(
    lambda k: st.lists(st.permutations(range(k)), min_size=1, max_size=12)
)
gappy = st.tuples(st.integers(1, 12), st.integers(2, 6)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=quarters | st.just(NAN))
)


def random_table(seed, sets=9, methods=4, gaps=0.0):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(sets, methods))
    table[rng.random(table.shape) < gaps] = NAN
    return table


def test_the_best_has_rank_one_and_ties_share():
    ranks = mean_ranks([[90.0, 80.0, 80.0], [70.0, 60.0, 50.0]])
    np.testing.assert_array_equal(ranks, [1.0, 2.25, 2.75])


@given(tables)
def test_ranks_count_who_is_better(table):
    better = (table[:, None, :] > table[:, :, None]).sum(axis=2)
    equal = (table[:, None, :] == table[:, :, None]).sum(axis=2)
    expected = (better + (equal + 1) / 2).mean(axis=0)
    np.testing.assert_allclose(mean_ranks(table), expected)


def test_demsar_s_example():
    ranks = mean_ranks(DEMSAR)
    np.testing.assert_allclose(ranks, [3.143, 2.000, 2.893, 1.964], atol=5e-4)
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=5e-3)
    assert critical_difference(4, 14, level=0.1) == pytest.approx(1.12, abs=5e-3)
    # His statistic makes no allowance for ties; nor does that of Skillings and Mack.
    assert skillings_mack(DEMSAR).statistic == pytest.approx(9.28, abs=5e-3)
    # Even the best and the worst are closer than the critical difference.
    assert cliques(ranks, critical_difference(4, 14)) == [(0, 3)]


@cases(
    ("methods", "level", "q"),
    [(2, 0.05, 1.960), (5, 0.05, 2.728), (10, 0.05, 3.164), (2, 0.1, 1.645), (10, 0.1, 2.920)],
)
def test_critical_differences_are_those_of_demsar_s_table(methods, level, q):
    expected = q * np.sqrt(methods * (methods + 1) / (6 * 30))
    assert critical_difference(methods, 30, level=level) == pytest.approx(expected, rel=5e-4)


def test_cliques_are_the_longest_runs_within_the_difference():
    ranks = [3.0, 1.0, 2.0]
    assert cliques(ranks, 0.5) == []
    assert cliques(ranks, 1.0) == [(0, 1), (1, 2)]
    assert cliques(ranks, 5.0) == [(0, 2)]


@given(st.lists(quarters, min_size=1, max_size=8), st.integers(0, 20))
def test_cliques_hold_exactly_the_indistinguishable_pairs(ranks, quarter):
    difference = quarter / 4
    found = cliques(ranks, difference)
    ordered = sorted(ranks)
    for i, j in product(range(len(ranks)), repeat=2):
        joined = any(first <= i < j <= last for first, last in found)
        assert joined == (i < j and ordered[j] - ordered[i] <= difference)
    for (a, b), (c, d) in permutations(found, 2):
        assert not (a <= c and d <= b)


@given(tables)
def test_friedman_is_scipy_s(table):
    found = friedman(table)
    assert found.degrees == table.shape[1] - 1
    if (table == table[:, :1]).all():
        assert (found.statistic, found.p_value) == (0.0, 1.0)
    else:
        theirs = stats.friedmanchisquare(*table.T)
        assert (found.statistic, found.p_value) == pytest.approx(tuple(theirs))


@pytest.mark.parametrize("test", [friedman, skillings_mack])
def test_the_p_value_is_near_that_of_all_permutations(test):
    table = np.array([[3, 2, 1], [3, 1, 2], [2, 3, 1], [3, 2, 1], [3, 1, 2]])
    seen = test(table)
    rows = list(permutations([1.0, 2.0, 3.0]))
    # The first row may stay: all that matters is how the others are ordered against it.
    statistics = [test([rows[0], *rest]).statistic for rest in product(rows, repeat=4)]
    share = np.mean(np.array(statistics) >= seen.statistic - 1e-9)
    assert seen.p_value == pytest.approx(share, abs=0.03)


def test_two_methods_and_gaps_are_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"got 2\. For two, use compare"):
        friedman([[1, 2], [3, 4]])
    with pytest.raises(ValueError, match=r"gaps \(NaN\), use skillings_mack"):
        friedman([[1, 2, NAN]])
    with pytest.raises(ValueError, match=r"a column for each method, got shape \(3,\)"):
        mean_ranks([1, 2, 3])


def test_the_example_of_skillings_and_mack():
    found = skillings_mack(ASSEMBLY)
    assert found.statistic == pytest.approx(15.493, abs=5e-4)
    assert found.degrees == 3
    assert found.p_value == pytest.approx(stats.chi2.sf(15.493, 3), rel=1e-3)


@given(rankings)
def test_skillings_mack_without_gaps_and_ties_is_friedman_s(rows):
    found, theirs = skillings_mack(rows), stats.friedmanchisquare(*np.transpose(rows))
    expected = RankTest(theirs.statistic, len(rows[0]) - 1, theirs.pvalue)
    assert found.degrees == expected.degrees
    assert found.statistic == pytest.approx(expected.statistic, abs=1e-9)
    assert found.p_value == pytest.approx(expected.p_value)


@given(gappy)
def test_skillings_mack_agrees_with_the_naive_version(table):
    if (np.isfinite(table).sum(axis=1) < 2).all():
        with pytest.raises(ValueError, match="no data set has more than one"):
            skillings_mack(table)
        return
    found = skillings_mack(table)
    statistic, degrees = naive_skillings_mack(table.tolist())
    assert found.degrees == degrees
    assert found.statistic == pytest.approx(statistic, abs=1e-8)
    assert found.p_value == pytest.approx(stats.chi2.sf(statistic, degrees), abs=1e-8)


@cases("seed", range(5))
def test_only_the_order_within_a_data_set_matters(seed):
    table = random_table(seed, gaps=0.2)
    moved = np.exp(table) * np.arange(1, 10)[:, None]
    reordered = moved[::-1][:, [2, 0, 3, 1]]
    expected = skillings_mack(table)
    for other in (moved, reordered, -table):
        assert skillings_mack(other).statistic == pytest.approx(expected.statistic)


def test_data_sets_with_a_single_figure_add_nothing():
    table = random_table(0, gaps=0.2)
    more = np.vstack([table, [[NAN, 1.0, NAN, NAN], [NAN] * 4]])
    assert skillings_mack(more).statistic == pytest.approx(skillings_mack(table).statistic)


def test_methods_without_common_data_sets_are_tested_apart():
    left, right = random_table(0, 8, 3), random_table(1, 7, 2)
    both = np.full((15, 5), NAN)
    both[:8, :3], both[8:, 3:] = left, right
    parts = [skillings_mack(left), skillings_mack(right)]
    found = skillings_mack(both)
    assert found.degrees == 3
    assert found.statistic == pytest.approx(sum(part.statistic for part in parts))


def test_p_values_of_skillings_mack_are_uniform():
    p_values = [skillings_mack(random_table(seed, 20, 5, gaps=0.3)).p_value for seed in range(600)]
    assert np.mean(np.array(p_values) <= 0.05) == pytest.approx(0.05, abs=0.025)
    assert np.mean(p_values) == pytest.approx(0.5, abs=0.04)


def test_infinite_figures_are_refused():
    with pytest.raises(ValueError, match="finite numbers"):
        skillings_mack([[1, np.inf, 2]])


def naive_skillings_mack(table):
    """Step by step after the paper; unconnected methods one group at a time."""
    methods = range(len(table[0]))
    together = [[0] * len(methods) for _ in methods]
    sums = [0.0] * len(methods)
    for row in table:
        there = [j for j in methods if row[j] == row[j]]
        for j in there:
            below = sum(row[other] < row[j] for other in there)
            equal = sum(row[other] == row[j] for other in there)
            rank = below + (equal + 1) / 2
            k = len(there)
            sums[j] += (12 / (k + 1)) ** 0.5 * (rank - (k + 1) / 2)
            for other in there:
                together[j][other] += other != j
    statistic, degrees, left = 0.0, 0, set(methods)
    while left:
        group = [left.pop()]
        for j in group:
            near = {other for other in left if together[j][other]}
            group += near
            left -= near
        *kept, _ = group  # the last one's sum follows from the others'
        if kept:
            covariance = [
                [sum(together[j]) if j == other else -together[j][other] for other in kept]
                for j in kept
            ]
            part = np.array([sums[j] for j in kept])
            statistic += part @ np.linalg.inv(covariance) @ part
            degrees += len(kept)
    return statistic, degrees


def test_the_critical_difference_matches_the_nemenyi_p_value():
    posthocs = pytest.importorskip("scikit_posthocs", exc_type=ImportError)
    rng = np.random.default_rng(0)
    told_apart = []
    for table in (np.array(DEMSAR), rng.normal(size=(9, 5)) + 0.6 * np.arange(5)):
        ranks = mean_ranks(table)
        p_values = np.asarray(posthocs.posthoc_nemenyi_friedman(table))
        apart = np.abs(ranks[:, None] - ranks) > critical_difference(*table.shape[::-1])
        assert (apart == (p_values < 0.05)).all()
        told_apart.append(bool(apart.any()))
    assert told_apart == [False, True]
