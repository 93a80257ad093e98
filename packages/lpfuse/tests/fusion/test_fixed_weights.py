"""Fixed rules with known weights, and the ways to draw subgroups, against PyOD's and by hand."""

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from helpers.cases import cases
from helpers.pairwise import each_value
from lpfuse import FixedRule, FusedDetector, GMMDetector, KNNDetector, load

GROUPED = ("aom", "moa")
S = np.random.default_rng(0).normal(size=(50, 12))
W = np.random.default_rng(1).uniform(size=12)

weighted_tables = st.tuples(st.integers(1, 8), st.integers(1, 6)).flatmap(
    lambda shape: st.tuples(
        arrays(np.float64, shape, elements=st.floats(-3, 3)),
        arrays(np.float64, shape[1], elements=st.floats(0.01, 10)),
    )
)


@pytest.fixture(scope="module")
def pyod():
    pytest.importorskip("combo", reason="PyOD's combinations need combo, which is not installed")
    return pytest.importorskip("pyod.models.combination", reason="PyOD is not installed")


# ------------------------------------------------------------------------------------- weights


@given(weighted_tables)
def test_a_weighted_sum_adds_what_its_contributions_say(table):
    scores, weights = table
    rule = FixedRule(weights=weights).fit(scores)
    by_hand = [sum(w * s for w, s in zip(weights, row, strict=True)) for row in scores]
    assert_allclose(rule.score_samples(scores), by_hand, rtol=1e-12, atol=1e-9)
    assert_allclose(rule.contributions(scores).sum(axis=1), by_hand, rtol=1e-12, atol=1e-9)
    assert_array_equal(rule.weights_, weights)


@given(weighted_tables)
def test_a_weighted_vote_is_the_share_of_normal_weight(table):
    scores, weights = table
    rule = FixedRule("vote", weights=weights).fit(scores)
    by_hand = [weights[row >= 0].sum() / weights.sum() for row in scores]
    assert_allclose(rule.score_samples(scores), by_hand, atol=1e-11)
    assert not hasattr(rule, "weights_")


def test_weights_of_one_are_no_weights():
    for rule in ("sum", "vote"):
        plain, ones = FixedRule(rule).fit(S), FixedRule(rule, weights=np.ones(12)).fit(S)
        assert_allclose(ones.score_samples(S), plain.score_samples(S), rtol=1e-12)
        assert_array_equal(ones.predict(S), plain.predict(S))


def test_a_tie_by_weight_is_normal_despite_rounding():
    table = np.array([[1.0, 1.0, 1.0, -1.0], [-1.0, -1.0, -1.0, 1.0], [-1.0, -1.0, 1.0, -1.0]])
    vote = FixedRule("vote", weights=[0.1, 0.2, 0.3, 0.6]).fit(table)
    assert vote.score_samples(table)[:2].tolist() == [0.5, 0.5]
    assert vote.predict(table).tolist() == [1, 1, -1]


def test_a_detector_of_weight_zero_is_not_heard():
    loud = np.c_[S, np.full(50, -1e6)]
    for rule in ("sum", "vote"):
        found = FixedRule(rule, weights=[*W, 0.0]).fit(loud).score_samples(loud)
        assert_allclose(found, FixedRule(rule, weights=W).fit(S).score_samples(S), rtol=1e-9)


def test_weights_by_name_follow_the_columns():
    frame = pd.DataFrame(S[:, :3], columns=["svdd", "knn", "gmm"])
    rule = FixedRule(weights={"gmm": 2, "svdd": 0.5}).fit(frame)
    assert rule.weights_.tolist() == [0.5, 0.0, 2.0]
    assert_allclose(rule.score_samples(frame), 0.5 * S[:, 0] + 2 * S[:, 2])


def test_weights_stay_in_the_library_of_the_scores():
    strict = array_api_strict.asarray(S)
    for rule in ("sum", "vote"):
        fused = FixedRule(rule, weights=W).fit(S)
        found = fused.score_samples(strict)
        assert found.__array_namespace__() is array_api_strict
        assert_allclose(np.asarray(found), fused.score_samples(S))


@cases(
    "changes, words",
    [
        ({"weights": [1, 2]}, "weights has 2 weights, but there are 12 columns"),
        ({"weights": [-1, *W[1:]]}, "weights must not be negative"),
        ({"weights": np.zeros(12)}, "at least one must be positive"),
        ({"weights": [np.nan, *W[1:]]}, "weights"),
        ({"weights": [np.inf, *W[1:]]}, "weights"),
        ({"weights": {"svdd": 1}}, "weights is a mapping, but the columns of S have no names"),
        ({"weights": W, "rule": "min"}, "weights require rule 'sum' or 'vote', got rule='min'"),
        ({"subgroups": "static"}, "subgroups must be one of 'partition', 'bootstrap', 'dynamic'"),
    ],
)
def test_unusable_weights_are_refused_before_anything_is_written(changes, words):
    rule = FixedRule().fit(S)
    with pytest.raises(ValueError, match=words):
        rule.set_params(**changes).fit(S)
    assert_array_equal(rule.weights_, np.ones(12))


def test_a_fused_detector_with_weights_is_saved_and_exported(tmp_path):
    X = np.random.default_rng(0).normal(size=(80, 2))
    pool = [("gmm", GMMDetector()), ("knn", KNNDetector())]
    rule = FixedRule(weights=[1, 3])
    fused = FusedDetector(pool, fusion=rule, cv=3, random_state=0).fit(X)
    assert dict(zip(fused.detector_names_, fused.weights_, strict=True)) == {"gmm": 1, "knn": 3}
    for each in (rule, FixedRule("vote", weights=[1, 2]), FixedRule("aom", subgroups="dynamic")):
        fused = FusedDetector(pool, fusion=each, cv=3, random_state=0).fit(X)
        fused.save(tmp_path / "model")
        assert_array_equal(load(tmp_path / "model").score_samples(X), fused.score_samples(X))


# ----------------------------------------------------------------------------------- subgroups


@cases("rule", GROUPED)
@cases("R, size", [(12, 3), (7, 1), (2, 1), (1, 1)])
def test_each_subgroup_of_a_bootstrap_draws_from_all_detectors(rule, R, size):
    fused = FixedRule(rule, n_buckets=4, subgroups="bootstrap").fit(S[:, :R])
    assert [len(set(group)) for group in fused.groups_] == [size] * 4
    assert [len(group) for group in fused.groups_] == [size] * 4
    assert all(0 <= j < R for group in fused.groups_ for j in group)


def test_subgroups_of_a_bootstrap_overlap_and_differ():
    groups = FixedRule("aom", n_buckets=4, subgroups="bootstrap").fit(S).groups_
    drawn = np.concatenate(groups)
    assert len(set(drawn)) < 12
    assert len({frozenset(group.tolist()) for group in groups}) > 1


@cases("R", [1, 2, 3, 4, 6, 12])
def test_sizes_of_dynamic_subgroups_are_between_two_and_half(R):
    sizes = set()
    for seed in range(30):
        rule = FixedRule("moa", n_buckets=4, subgroups="dynamic", random_state=seed)
        groups = rule.fit(S[:, :R]).groups_
        assert len(groups) == 4
        assert all(len(set(group.tolist())) == len(group) for group in groups)
        sizes |= {len(group) for group in groups}
    assert sizes == set(range(min(2, R), max(min(2, R), R // 2) + 1))


@pytest.mark.parametrize("how", ["partition", "bootstrap", "dynamic"])
def test_scores_by_subgroups_are_those_of_their_sentence(how):
    aom = FixedRule("aom", n_buckets=4, subgroups=how).fit(S)
    moa = FixedRule("moa", n_buckets=4, subgroups=how).fit(S)
    lowest = [S[:, group].min(axis=1) for group in aom.groups_]
    means = [S[:, group].mean(axis=1) for group in moa.groups_]
    assert_allclose(aom.score_samples(S), np.mean(lowest, axis=0))
    assert_allclose(moa.score_samples(S), np.min(means, axis=0))
    again = FixedRule("aom", n_buckets=4, subgroups=how).fit(S)
    assert_array_equal(again.score_samples(S), aom.score_samples(S))  # by a fixed seed


# ---------------------------------------------------------------------------------------- PyOD


def test_a_weighted_average_is_that_of_pyod(pyod):
    found = FixedRule(weights=W).fit(S).score_samples(S) / W.sum()
    assert_allclose(found, -pyod.average(-S, W[None, :]))
    same = FixedRule(weights=W / W.sum()).fit(S).score_samples(S)
    assert_allclose(same, -pyod.average(-S, W[None, :]))


def test_a_weighted_vote_is_that_of_pyod(pyod):
    alarms = pyod.majority_vote((S < 0).astype(int), weights=W[None, :])
    found = FixedRule("vote", weights=W).fit(S).predict(S)
    assert_array_equal(found, 1 - 2 * alarms)
    assert set(found) == {-1, 1}


@each_value(buckets=(2, 3, 6), rule=GROUPED)
def test_a_bootstrap_draws_what_pyod_draws(pyod, rule, buckets):
    theirs = getattr(pyod, rule)(
        -S,
        n_buckets=buckets,
        method="static",
        bootstrap_estimators=True,
        random_state=np.random.RandomState(3),
    )
    ours = FixedRule(rule, n_buckets=buckets, subgroups="bootstrap", random_state=3)
    assert_allclose(ours.fit(S).score_samples(S), -theirs)


@pytest.mark.parametrize("rule", GROUPED)
def test_pyod_draws_one_dynamic_subgroup_again_and_again(pyod, rule):
    """Why ours are not the same: its subgroups start anew from the seed, and are all alike."""
    many, few = (
        getattr(pyod, rule)(-S, n_buckets=n, method="dynamic", random_state=0) for n in (6, 2)
    )
    assert_allclose(many, few)
    groups = FixedRule(rule, n_buckets=6, subgroups="dynamic").fit(S).groups_
    assert len({frozenset(group.tolist()) for group in groups}) > 1


def test_uneven_subgroups_which_pyod_refuses_are_a_partition_here(pyod):
    with pytest.raises(ValueError, match="remainder"):
        pyod.aom(-S, n_buckets=5)
    groups = FixedRule("aom", n_buckets=5).fit(S).groups_
    assert sorted(np.concatenate(groups)) == list(range(12))
