"""Tests, ranks and intervals: against SciPy, naive loops, permutations and published examples."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from research.common.statistics import (
    RankTest,
    cliques,
    compare,
    critical_difference,
    friedman,
    holm,
    interval,
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
distinct = st.lists(st.integers(-999, 999).filter(bool), min_size=1, max_size=60, unique_by=abs)
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


def test_the_interval_is_scipy_s_for_independent_values():
    values = [0.3, 0.9, 0.4, 0.7, 0.8]
    theirs = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    found = interval(values, level=0.9)
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high))
    assert found.mean == pytest.approx(0.62)


def test_overlapping_splits_widen_the_interval():
    """Nadeau and Bengio's variance by hand: s² (1/10 + 1/7) with s = 2."""
    values = 90 + 2 * np.array([-1.0, 1.0] * 5) * np.sqrt(0.9)
    found = interval(values, overlap=1 / 7)
    assert found.high - found.mean == pytest.approx(2.262157 * 2 * np.sqrt(17 / 70))
    assert found.mean - found.low == pytest.approx(found.high - found.mean)


def test_the_interval_covers_the_truth_of_overlapping_splits_as_often_as_it_says():
    """Correlation 1/8 between splits is what a tenth for the test and 70 % to train amount to:
    Nadeau and Bengio's correction is exact for the correlation r/(1 + r).
    """
    rng = np.random.default_rng(0)
    shared, own = rng.normal(size=(4000, 1)), rng.normal(size=(4000, 10))
    values = np.sqrt(1 / 8) * shared + np.sqrt(7 / 8) * own
    corrected, plain = (
        np.mean([abs(found.mean) <= found.high - found.mean for found in intervals])
        for intervals in (
            [interval(row, overlap=overlap) for row in values] for overlap in (1 / 7, 0)
        )
    )
    assert corrected == pytest.approx(0.95, abs=0.012)
    assert plain < 0.85


def test_one_value_says_nothing_of_its_spread():
    found = interval([91.0])
    assert (found.mean, found.low, found.high) == (91.0, -np.inf, np.inf)


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]], [1.0, NAN], [np.inf]])
def test_what_is_not_a_row_of_numbers_is_refused(values):
    with pytest.raises(ValueError, match="values must be a row of one or more finite numbers"):
        interval(values)


def test_a_comparison_by_hand():
    found = compare([5, 5, 7, 1], [4, 5, 5, 4])
    assert (found.wins, found.ties, found.losses) == (2, 1, 1)
    assert found.difference == interval([1, 0, 2, -3])
    # Ranks 1, 2 for us and 3 for them: the middle of the distribution.
    assert found.p_value == 1.0


def test_equal_methods_are_not_told_apart():
    found = compare([80, 90, 70], [80, 90, 70])
    assert (found.wins, found.ties, found.losses, found.p_value) == (0, 3, 0, 1.0)
    assert (found.difference.low, found.difference.high) == (0, 0)


@given(distinct, st.integers(0, 3))
def test_the_p_value_of_a_comparison_is_scipy_s(gains, ties):
    ties *= len(gains) > 13  # SciPy takes its time for fewer with ties
    ours = np.array(gains + [0] * ties, dtype=float)
    expected = stats.wilcoxon(ours).pvalue
    assert compare(ours, np.zeros_like(ours)).p_value == pytest.approx(expected)


@settings(max_examples=40)
@given(st.lists(quarters, min_size=1, max_size=8), st.sampled_from([0.95, 0.5]))
def test_the_p_value_of_a_comparison_is_the_share_of_signs_that_say_as_much(gains, level):
    """With ties, and with zeros left out."""
    gains = np.array(gains)
    found = compare(gains + 50, np.full(gains.shape, 50), level=level)
    ranks = stats.rankdata(np.abs(gains[gains != 0]))
    signs = np.array(list(product([-1, 1], repeat=ranks.size)))
    seen = abs(np.sign(gains[gains != 0]) @ ranks)
    assert found.p_value == pytest.approx(np.mean(np.abs(signs @ ranks) >= seen - 1e-9))
    assert found.wins + found.ties + found.losses == gains.size
    assert found.difference == interval(gains, level=level)


@given(st.lists(st.tuples(quarters, quarters), min_size=1, max_size=12))
def test_changing_sides_changes_the_sign_and_nothing_else(pairs):
    ours, theirs = np.array(pairs).T
    there, back = compare(ours, theirs), compare(theirs, ours)
    assert there.difference.mean == -back.difference.mean
    assert there.difference.low == -back.difference.high
    assert (there.wins, there.ties, there.losses) == (back.losses, back.ties, back.wins)
    assert there.p_value == pytest.approx(back.p_value)


def test_p_values_of_comparisons_are_as_rare_as_they_say():
    rng = np.random.default_rng(1)
    p_values = [compare(*rng.normal(size=(2, 10))).p_value for _ in range(1000)]
    assert np.mean(np.array(p_values) <= 0.05) == pytest.approx(0.05, abs=0.02)


def test_figures_must_be_paired():
    with pytest.raises(ValueError, match="in the same order; got 2 and 3 figures"):
        compare([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match=r"theirs must be a row .* 1 that are not finite"):
        compare([1, 2], [1, NAN])


def test_holm_by_hand():
    # Sorted: .01·4, .02·3 = .06, .03·2 = .06, .3·1; and a larger one never falls below.
    np.testing.assert_allclose(holm([0.3, 0.01, 0.03, 0.02]), [0.3, 0.04, 0.06, 0.06])
    np.testing.assert_allclose(holm([0.02, 0.021]), [0.04, 0.04])
    np.testing.assert_allclose(holm([0.6, 0.7]), [1, 1])
    assert holm([0.2]) == [0.2]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.5))
def test_holm_rejects_what_stepping_down_rejects(p_values, level):
    rejected = set()
    for step, i in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[i] * (len(p_values) - step) > level:
            break
        rejected.add(int(i))
    assert set(np.flatnonzero(holm(p_values) <= level)) == rejected


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


@pytest.mark.parametrize(
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
def test_every_pair_that_is_not_told_apart_is_in_a_clique_and_no_other(ranks, quarter):
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


@pytest.mark.parametrize("seed", range(5))
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


def test_methods_that_share_no_data_set_are_two_tests_in_one():
    left, right = random_table(0, 8, 3), random_table(1, 7, 2)
    both = np.full((15, 5), NAN)
    both[:8, :3], both[8:, 3:] = left, right
    parts = [skillings_mack(left), skillings_mack(right)]
    found = skillings_mack(both)
    assert found.degrees == 3
    assert found.statistic == pytest.approx(sum(part.statistic for part in parts))


def test_p_values_of_skillings_mack_are_as_rare_as_they_say():
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
