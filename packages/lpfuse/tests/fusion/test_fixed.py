import math
import statistics

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import trim_mean
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor

from helpers.cases import cases
from helpers.contract import assert_passes_checks, refused_labels
from helpers.pairwise import each_value
from lpfuse import FixedRule, FusedDetector, GMMDetector, KernelPCADetector, load
from lpfuse.fusion.fixed import RULES, Rule

GROUPED = ["aom", "moa"]
OTHERS = [rule for rule in RULES if rule != "sum"]
FEW = settings(max_examples=20, deadline=None)  # for each of the rules
MEANS = ["min", "max", "median", "trimmed_mean", "aom", "moa"]  # on the scale of the scores
score_tables = st.tuples(st.integers(1, 20), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(-1e3, 1e3))
)


class LabelsDropped(FixedRule):
    """Fit without y: scikit-learn's checks feed labels other than ±1, which we refuse."""

    def fit(self, S, y=None, sample_weight=None):
        return super().fit(S, sample_weight=sample_weight)


@pytest.mark.parametrize("estimator", [LabelsDropped()], ids=str)
def test_scikit_learn_contract(estimator):
    assert_passes_checks(estimator, refused_labels())


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [LabelsDropped("product"), LabelsDropped("aom")], ids=str)
def test_scikit_learn_contract_of_variants(estimator):
    assert_passes_checks(estimator, refused_labels())


def test_the_documented_rules_are_those_there_are():
    """So the table of the docstring, which the parameter refers to, cannot be forgotten."""
    table = FixedRule.__doc__.split("============\n")[2]
    documented = [line.split()[0] for line in table.splitlines() if line.strip(" =")]
    assert documented == list(RULES)


def test_a_registered_rule_can_be_used(monkeypatch):
    """Adding a function to the table is all that it takes."""
    monkeypatch.setitem(RULES, "first", Rule(lambda S, settings: S[:, 0], offset=0.25))
    rule = FixedRule("first").fit(PLAIN)
    np.testing.assert_array_equal(rule.score_samples(PLAIN), PLAIN[:, 0])
    np.testing.assert_array_equal(rule.predict(PLAIN), np.where(PLAIN[:, 0] >= 0.25, 1, -1))
    assert not hasattr(rule, "weights_")
    assert not hasattr(rule, "contributions")


@given(score_tables)
def test_sum_adds_the_columns_and_contributions_explain_it(S):
    rule = FixedRule("sum").fit(S)
    by_hand = [sum(row) for row in S.tolist()]
    np.testing.assert_allclose(rule.score_samples(S), by_hand, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(rule.contributions(S).sum(axis=1), rule.score_samples(S))
    assert rule.contributions(S).shape == S.shape


@given(score_tables)
def test_predictions_follow_the_sign_of_the_decision(S):
    rule = FixedRule().fit(S)
    np.testing.assert_array_equal(rule.decision_function(S), rule.score_samples(S) - rule.offset_)
    np.testing.assert_array_equal(
        rule.predict(S), [1 if d >= 0 else -1 for d in rule.decision_function(S)]
    )


def test_a_score_on_the_threshold_is_normal():
    assert FixedRule().fit([[1.0, 1.0]]).predict([[1.0, -1.0]]).tolist() == [1]


def test_every_detector_weighs_one():
    rule = FixedRule().fit(np.eye(3))
    assert rule.weights_.tolist() == [1.0, 1.0, 1.0]
    assert rule.offset_ == 0.0


def test_labels_and_sample_weights_change_nothing():
    S = np.random.default_rng(0).normal(size=(10, 3))
    plain = FixedRule().fit(S)
    labelled = FixedRule().fit(S, [1] * 9 + [-1], sample_weight=np.arange(10))
    np.testing.assert_array_equal(labelled.score_samples(S), plain.score_samples(S))


def test_contributions_are_not_a_view_of_the_scores():
    S = np.ones((2, 2))
    FixedRule().fit(S).contributions(S)[:] = 0.0
    np.testing.assert_array_equal(S, 1.0)


def test_array_api_scores_stay_in_their_library():
    S = array_api_strict.asarray([[1.0, 0.5], [-1.0, 0.25]])
    rule = FixedRule().fit(S)
    for result in (rule.score_samples(S), rule.predict(S), rule.contributions(S)):
        assert result.__array_namespace__() is array_api_strict
    assert np.asarray(rule.predict(S)).tolist() == [1, -1]


def test_torch_scores_stay_in_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    S = torch.tensor([[1.0, 0.5], [-1.0, 0.25]])
    rule = FixedRule().fit(S)
    assert rule.score_samples(S).tolist() == [1.5, -0.75]
    assert rule.predict(S).tolist() == [1, -1]


def test_an_unknown_rule_is_refused_with_those_that_exist():
    with pytest.raises(ValueError, match=r"one of 'sum', 'product'.*'moa'; got 'mean'"):
        FixedRule("mean").fit(np.eye(2))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"y": [0, 1]}, "Choose one of"),
        ({"sample_weight": [-1, 1]}, "not negative"),
    ],
)
def test_unusable_labels_and_weights_are_refused_though_unused(arguments, words):
    with pytest.raises(ValueError, match=words):
        FixedRule().fit(np.eye(2), **arguments)


def test_missing_scores_are_refused_after_fit_too():
    rule = FixedRule().fit(pd.DataFrame({"svm": [1.0, 2.0], "lof": [0.0, 1.0]}))
    with pytest.raises(ValueError, match="NaN or infinity in column 'lof'"):
        rule.predict(pd.DataFrame({"svm": [1.0], "lof": [np.nan]}))


# ---------------------------------------------------------------------------- rules without weights


def one_by_one(rule, row, groups=()):
    """A rule as its sentence has it, for one row of Python numbers."""
    match rule:
        case "product":
            return math.prod(1 + math.tanh(s) for s in row)
        case "min":
            return min(row)
        case "max":
            return max(row)
        case "median":
            return statistics.median(row)
        case "vote":
            return len([s for s in row if s >= 0]) / len(row)
        case "trimmed_mean":
            cut = len(row) // 4
            return statistics.fmean(sorted(row)[cut : len(row) - cut])
        case "aom":
            return statistics.fmean(min(row[j] for j in group) for group in groups)
        case "moa":
            return min(statistics.fmean(row[j] for j in group) for group in groups)


moderate_tables = st.tuples(st.integers(1, 8), st.integers(1, 12)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(-3, 3))
)


@pytest.mark.parametrize("rule", OTHERS)
@FEW
@given(S=moderate_tables)
def test_rules_are_what_they_are_called(rule, S):
    fused = FixedRule(rule, n_buckets=3).fit(S)
    found = fused.score_samples(S)
    found = np.exp(found) if rule == "product" else found
    groups = getattr(fused, "groups_", ())
    np.testing.assert_allclose(
        found, [one_by_one(rule, row, groups) for row in S.tolist()], rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("rule", RULES)
@FEW
@given(S=moderate_tables, up=st.floats(0, 3), data=st.data())
def test_a_higher_score_never_makes_a_row_less_normal(rule, S, up, data):
    better = S.copy()
    better[:, data.draw(st.integers(0, S.shape[1] - 1))] += up
    fused = FixedRule(rule).fit(S)
    assert (fused.score_samples(better) >= fused.score_samples(S) - 1e-12).all()


@pytest.mark.parametrize("rule", MEANS)
@FEW
@given(S=moderate_tables, factor=st.floats(0.1, 10), shift=st.floats(-5, 5))
def test_means_move_with_the_scale_and_stay_within_the_scores(rule, S, factor, shift):
    fused = FixedRule(rule).fit(S)
    found = fused.score_samples(S)
    assert (S.min(axis=1) - 1e-12 <= found).all()
    assert (found <= S.max(axis=1) + 1e-12).all()
    moved = fused.score_samples(factor * S + shift)
    np.testing.assert_allclose(moved, factor * found + shift, atol=1e-9)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in GROUPED])
@FEW
@given(S=moderate_tables, seed=st.integers(0, 99))
def test_the_order_of_the_detectors_does_not_matter(rule, S, seed):
    shuffled = S[:, np.random.default_rng(seed).permutation(S.shape[1])]
    expected = FixedRule(rule).fit(S).score_samples(S)
    found = FixedRule(rule).fit(S).score_samples(shuffled)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("rule", RULES)
@FEW
@given(S=moderate_tables)
def test_a_row_on_every_border_is_normal(rule, S):
    fused = FixedRule(rule).fit(S)
    border, below = np.zeros_like(S), np.full_like(S, -1e-9)
    assert (fused.predict(border) == 1).all()
    assert (fused.predict(below) == -1).all()
    if rule != "vote":
        np.testing.assert_array_equal(fused.decision_function(border), 0.0)


@cases("rule", RULES)
def test_a_single_detector_keeps_its_order_and_its_decisions(rule):
    S = np.array([[-2.0], [-0.5], [0.0], [0.3], [1.7]])
    fused = FixedRule(rule).fit(S)
    assert (np.diff(fused.score_samples(S)) >= 0).all()
    assert fused.predict(S).tolist() == [-1, -1, 1, 1, 1]
    if rule in MEANS:
        np.testing.assert_array_equal(fused.score_samples(S), S[:, 0])


@cases("rule", RULES)
def test_one_row_and_constant_columns_do_no_harm(rule):
    fused = FixedRule(rule).fit([[0.5, 0.5, 0.5, 0.5]])
    assert fused.predict([[0.5, 0.5, 0.5, 0.5]]).tolist() == [1]
    assert np.isfinite(fused.score_samples([[0.5, 0.5, -0.5, 0.5]])).all()


def test_the_product_of_many_doubts_does_not_underflow():
    S = np.full((2, 500), [[-3.0], [-4.0]])
    sure, surer = FixedRule("product").fit(S).score_samples(S)
    np.testing.assert_allclose([sure, surer], 500 * np.log1p(np.tanh([-3.0, -4.0])), rtol=1e-9)
    far = FixedRule("product").fit(S[:, :2]).score_samples([[-1e6, 0.0], [1e6, 0.0]])
    np.testing.assert_allclose(far, [math.log(2) - 2e6, math.log(2)])


def test_one_doubt_weighs_more_in_a_product():
    S = [[2.0, -1.0], [0.4, 0.5]]
    by_sum, by_product = (FixedRule(rule).fit(S).score_samples(S) for rule in ("sum", "product"))
    assert by_sum[0] > by_sum[1]
    assert by_product[0] < by_product[1]


def test_a_tied_vote_is_normal():
    S = [[1.0, 0.0, -1.0, -9.0], [9.0, -1.0, -1.0, -1.0]]
    vote = FixedRule("vote").fit(S)
    assert vote.score_samples(S).tolist() == [0.5, 0.25]
    assert vote.predict(S).tolist() == [1, -1]


# ------------------------------------------------------------------------ trimming and subgroups


@cases("trim, R", [(0.0, 10), (0.1, 7), (0.25, 3), (0.29, 2), (0.49, 10)])
def test_trimming_is_that_of_scipy(trim, R):
    S = np.random.default_rng(R).normal(size=(5, R))
    found = FixedRule("trimmed_mean", trim=trim).fit(S).score_samples(S)
    np.testing.assert_allclose(found, trim_mean(S, trim, axis=1))


@pytest.mark.parametrize("R", [1, 2, 5, 6])
def test_all_but_the_middle_trimmed_is_the_median(R):
    S = np.random.default_rng(R).normal(size=(5, R))
    found = FixedRule("trimmed_mean", trim=0.5).fit(S).score_samples(S)
    np.testing.assert_allclose(found, np.median(S, axis=1))


@cases("rule", GROUPED)
@cases("R, sizes", [(7, [3, 2, 2]), (6, [2, 2, 2]), (2, [1, 1])])
def test_every_detector_is_in_one_subgroup_of_about_equal_size(rule, R, sizes):
    fused = FixedRule(rule, n_buckets=3).fit(np.eye(R))
    assert [len(group) for group in fused.groups_] == sizes
    assert sorted(np.concatenate(fused.groups_)) == list(range(R))


def test_subgroups_of_one_and_one_subgroup_are_known_rules():
    S = np.random.default_rng(0).normal(size=(6, 4))
    mean, lowest = S.mean(axis=1), S.min(axis=1)
    for rule, many, single in [("aom", mean, lowest), ("moa", lowest, mean)]:
        np.testing.assert_allclose(FixedRule(rule).fit(S).score_samples(S), many)
        found = FixedRule(rule, n_buckets=1).fit(S).score_samples(S)
        np.testing.assert_allclose(found, single)


@pytest.mark.parametrize("rule", GROUPED)
def test_the_seed_draws_the_subgroups(rule):
    S = np.random.default_rng(0).normal(size=(9, 12))

    def fused(**seed):
        return FixedRule(rule, n_buckets=4, **seed).fit(S).score_samples(S)

    np.testing.assert_array_equal(fused(), fused())
    np.testing.assert_array_equal(fused(), fused(random_state=0))
    np.testing.assert_array_equal(fused(), fused(random_state=np.random.RandomState(0)))
    assert not np.array_equal(fused(), fused(random_state=1))


# ------------------------------------------------------------------------------------------ PyOD

PLAIN = np.array(
    [
        [0.9, 0.8, -0.1, 0.4, 1.2, 0.3],
        [-0.7, 0.2, 0.5, -1.5, 0.1, -0.3],
        [-2.0, -0.6, -0.9, 0.0, -1.1, 0.6],
        [0.7, -0.4, 0.2, -0.8, 0.9, -0.5],  # three against three
    ]
)


@cases(
    "rule, expected",
    [  # what PyOD 3.6.7 says of −PLAIN, with the sign turned back
        (FixedRule("sum"), [3.5, -1.7, -4.0, 0.1]),
        (FixedRule("min"), [-0.1, -1.5, -2.0, -0.8]),
        (FixedRule("median"), [0.6, -0.1, -0.75, -0.1]),
        (FixedRule("aom", n_buckets=2), [0.15, -0.9, -1.45, -0.65]),
        (FixedRule("aom", n_buckets=2, random_state=7), [0.1, -0.7, -1.55, -0.6]),
        (FixedRule("aom", n_buckets=3), [0.4, -2.5 / 3, -3.5 / 3, -0.2]),
        (FixedRule("aom", n_buckets=3, random_state=7), [1 / 3, -0.7, -3.1 / 3, -1 / 3]),
        (FixedRule("moa", n_buckets=2), [1 / 3, -0.7, -3.1 / 3, -0.7 / 3]),
        (FixedRule("moa", n_buckets=2, random_state=7), [1.6 / 3, -2.5 / 3, -2.6 / 3, -0.2]),
        (FixedRule("moa", n_buckets=3), [0.1, -0.65, -1.55, -0.6]),
        (FixedRule("moa", n_buckets=3, random_state=7), [0.35, -0.9, -1.45, -0.65]),
    ],
)
def test_rules_give_the_numbers_of_pyod(rule, expected):
    np.testing.assert_allclose(clone(rule).fit(PLAIN).score_samples(PLAIN), expected, atol=1e-12)


def test_votes_decide_as_those_of_pyod():
    assert FixedRule("vote").fit(PLAIN).predict(PLAIN).tolist() == [1, 1, -1, 1]


def test_pyod_itself_agrees():
    pytest.importorskip("combo", reason="PyOD's combinations need combo, which is not installed")
    pyod = pytest.importorskip("pyod.models.combination", reason="PyOD is not installed")
    S = np.random.default_rng(0).normal(size=(50, 12))

    def ours(rule, **parameters):
        return FixedRule(rule, **parameters).fit(S).score_samples(S)

    np.testing.assert_allclose(ours("sum") / 12, -pyod.average(-S))
    np.testing.assert_allclose(ours("min"), -pyod.maximization(-S))
    np.testing.assert_allclose(ours("median"), -pyod.median(-S))
    alarms = pyod.majority_vote((S < 0).astype(int))
    np.testing.assert_array_equal(FixedRule("vote").fit(S).predict(S), 1 - 2 * alarms)
    for buckets, seed in [(2, 0), (3, 1), (6, 2)]:
        same = {"n_buckets": buckets, "random_state": seed}
        np.testing.assert_allclose(ours("aom", **same), -pyod.aom(-S, **same))
        np.testing.assert_allclose(ours("moa", **same), -pyod.moa(-S, **same))


# -------------------------------------------------------------------------------- as an estimator


@cases("rule", OTHERS)
def test_only_a_sum_has_weights_and_contributions(rule):
    fused = FixedRule(rule).fit(PLAIN)
    assert not hasattr(fused, "contributions")
    assert not hasattr(fused, "weights_")
    assert hasattr(FixedRule("sum"), "contributions")


def test_a_new_rule_leaves_nothing_of_the_former_one():
    fused = FixedRule("sum").fit(PLAIN).set_params(rule="aom").fit(PLAIN)
    assert not hasattr(fused, "weights_")
    assert hasattr(fused, "groups_")
    fused.set_params(rule="vote").fit(PLAIN)
    assert not hasattr(fused, "groups_")
    assert fused.offset_ == 0.5
    fused.set_params(rule="sum").fit(PLAIN)
    np.testing.assert_array_equal(fused.weights_, np.ones(6))
    assert fused.offset_ == 0.0


@cases("rule", OTHERS)
def test_other_rules_keep_the_library_and_the_precision(rule):
    fused = FixedRule(rule).fit(PLAIN)
    expected = fused.score_samples(PLAIN)
    strict = fused.score_samples(array_api_strict.asarray(PLAIN))
    assert strict.__array_namespace__() is array_api_strict
    np.testing.assert_allclose(np.asarray(strict), expected, rtol=1e-12)
    assert fused.score_samples(PLAIN.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(fused.score_samples(PLAIN.astype(np.float32)), expected, atol=1e-6)


@each_value(rule=RULES, R=(7, 2, 1, 7))
def test_scores_on_a_device_never_leave_it(rule, R, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    S = np.random.default_rng(R).normal(scale=3.0, size=(50, R))
    fused = FixedRule(rule, n_buckets=3).fit(S)
    expected, decided = fused.score_samples(S), fused.predict(S)
    rows = torch.tensor(S)
    with monkeypatch.context() as there:
        there.setattr(torch.Tensor, "numpy", None)
        there.setattr(torch.Tensor, "__array__", None)
        there.setattr(torch.Tensor, "__dlpack__", None)
        scores, decisions = fused.score_samples(rows), fused.predict(rows)
        single = fused.score_samples(rows.float())
    np.testing.assert_allclose(scores.numpy(), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(decisions.numpy(), decided)
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single.numpy(), expected, rtol=1e-5, atol=1e-5)


@cases("rule", OTHERS)
def test_other_rules_know_their_detectors(rule):
    with pytest.raises(NotFittedError):
        FixedRule(rule).score_samples(PLAIN)
    fused = FixedRule(rule).fit(pd.DataFrame(PLAIN, columns=list("abcdef")))
    assert fused.feature_names_in_.tolist() == list("abcdef")
    with pytest.raises(ValueError, match="feature names should match"):
        fused.predict(pd.DataFrame(PLAIN, columns=list("abcdeg")))
    with pytest.raises(ValueError, match="expecting 6 features"):
        FixedRule(rule).fit(PLAIN).predict(PLAIN[:, :5])
    with pytest.raises(ValueError, match="NaN or infinity in column 'b'"):
        fused.predict(pd.DataFrame(np.where(PLAIN == 0.8, np.nan, PLAIN), columns=list("abcdef")))


@cases(
    "changes, words",
    [
        ({"rule": None}, "rule must be one of 'sum'"),
        ({"trim": 0.6}, "trim must be a finite number at least 0 and at most 0.5, got 0.6"),
        ({"trim": -0.1}, "trim must be"),
        ({"trim": "half"}, "trim must be"),
        ({"n_buckets": 0}, "n_buckets must be a whole number from 1, got 0"),
        ({"n_buckets": 2.0}, "n_buckets must be"),
        ({"random_state": "seed"}, "cannot be used to seed"),
    ],
)
def test_unusable_parameters_are_refused_before_anything_is_written(changes, words):
    fused = FixedRule("aom").fit(PLAIN)
    with pytest.raises(ValueError, match=words):
        fused.set_params(**changes).fit(PLAIN[:, :3])
    assert fused.n_features_in_ == 6
    assert len(fused.groups_) == 5


# ------------------------------------------------------------------------- in the fused detector

DETECTORS = [
    ("kpca", KernelPCADetector(3, gamma=0.1)),
    ("gmm", GMMDetector(1, random_state=0)),
    ("lof", LocalOutlierFactor(n_neighbors=5, novelty=True)),
]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.filterwarnings("ignore:.*rank all rows alike")
def test_a_fused_detector_takes_any_rule_and_can_be_saved(rule, tmp_path):
    rng = np.random.default_rng(0)
    X, far = rng.normal(size=(60, 2)), rng.normal(6.0, 1.0, size=(10, 2))
    fused = FusedDetector(DETECTORS, fusion=FixedRule(rule), cv=3, random_state=0).fit(X)
    told_apart = roc_auc_score(np.repeat([1, -1], [60, 10]), fused.score_samples([*X, *far]))
    assert told_apart > 0.9
    scaled = fused.scaler_.transform(fused.detector_scores(far))
    expected = FixedRule(rule).fit(scaled).score_samples(scaled)
    np.testing.assert_allclose(fused.score_samples(far), expected)
    if rule == "sum":
        np.testing.assert_allclose(fused.contributions(far).sum(axis=1), expected)
    else:
        with pytest.raises(AttributeError, match="does not add up"):
            fused.contributions(far)
    fused.save(tmp_path / "fused.lpfuse")
    copy = load(tmp_path / "fused.lpfuse")
    np.testing.assert_array_equal(copy.decision_function(far), fused.decision_function(far))


# ---------------------------------------------------------------------------------- missing scores


tables_with_gaps = st.tuples(st.integers(1, 8), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(-3, 3) | st.just(math.nan))
)


def present_alone(fused, rule, row):
    """A rule of the detectors that scored a row, one after another."""
    there = [j for j, score in enumerate(row) if not math.isnan(score)]
    if not there:
        return math.nan
    scores = [row[j] for j in there]
    if rule == "sum":
        return sum(scores) * len(row) / len(scores)
    if rule == "product":
        return math.log(one_by_one(rule, scores)) * len(row) / len(scores)
    groups = [[there.index(j) for j in g if j in there] for g in getattr(fused, "groups_", ())]
    return one_by_one(rule, scores, [group for group in groups if group])


@pytest.mark.parametrize("rule", RULES)
@FEW
@given(S=tables_with_gaps)
def test_missing_scores_are_ignored_row_by_row(rule, S):
    fused = FixedRule(rule, n_buckets=3, missing="ignore").fit(S)
    expected = [present_alone(fused, rule, row) for row in S.tolist()]
    found = fused.score_samples(S)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert (fused.predict(S)[np.isnan(S).all(axis=1)] == -1).all()


@pytest.mark.parametrize("rule", RULES)
@FEW
@given(S=tables_with_gaps, value=st.floats(-3, 3))
def test_missing_scores_count_as_a_number(rule, S, value):
    fused = FixedRule(rule, n_buckets=3, missing=value).fit(S)
    whole = np.where(np.isnan(S), value, S)
    expected = FixedRule(rule, n_buckets=3).fit(whole).score_samples(whole)
    np.testing.assert_array_equal(fused.score_samples(S), expected)


@cases("rule", RULES)
def test_without_gaps_missing_scores_change_nothing(rule):
    for missing in ("ignore", 1.0):
        expected = FixedRule(rule).fit(PLAIN).score_samples(PLAIN)
        found = FixedRule(rule, missing=missing).fit(PLAIN).score_samples(PLAIN)
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_weights_of_detectors_that_scored_the_row_grow():
    S = np.array([[1.0, 2.0, -1.0], [math.nan, 2.0, -1.0], [math.nan, math.nan, 5.0]])
    rule = FixedRule(weights=[1, 3, 0], missing="ignore").fit(S)
    np.testing.assert_allclose(rule.score_samples(S), [7.0, 8.0, math.nan])
    np.testing.assert_allclose(rule.contributions(S)[1], [0.0, 8.0, 0.0])
    vote = FixedRule("vote", weights=[1, 3, 0], missing="ignore").fit(S)
    np.testing.assert_allclose(vote.score_samples(S), [1.0, 1.0, math.nan])
    assert rule.predict(S).tolist() == vote.predict(S).tolist() == [1, 1, -1]


@cases("rule", ["sum", "median"])
def test_missing_scores_of_other_libraries(rule):
    S = np.array([[1.0, 0.5, 3.0], [math.nan, 0.25, -1.0]])
    expected = FixedRule(rule, missing="ignore").fit(S).score_samples(S)
    for library in (
        array_api_strict.asarray,
        pytest.importorskip("torch", reason="torch is not installed").asarray,
    ):
        found = FixedRule(rule, missing="ignore").fit(library(S)).score_samples(library(S))
        assert type(found) is type(library(S))
        np.testing.assert_allclose(np.asarray(found), expected)
    frame = pd.DataFrame(S, columns=list("abc"))
    fused = FixedRule(rule, missing="ignore").fit(frame)
    np.testing.assert_allclose(fused.score_samples(frame), expected)


def test_infinite_scores_and_strange_values_of_missing_are_refused():
    with pytest.raises(ValueError, match="NaN or infinity in column 1"):
        FixedRule(missing="ignore").fit([[1.0, math.inf], [math.nan, 2.0]])
    for missing in ("mean", math.nan, None, True):
        with pytest.raises(ValueError, match=r"missing must be a finite number.*'ignore'"):
            FixedRule(missing=missing).fit(PLAIN)


def test_rules_of_files_without_the_parameter_refuse_missing_scores():
    rule = FixedRule("min").fit(PLAIN)
    del rule.__dict__["missing"]
    np.testing.assert_array_equal(rule.score_samples(PLAIN), PLAIN.min(axis=1))
    with pytest.raises(ValueError, match="NaN"):
        rule.score_samples(np.where(PLAIN == PLAIN[0, 0], math.nan, PLAIN))
