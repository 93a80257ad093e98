import warnings

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from scipy.stats import rankdata, spearmanr
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor
from sklearn.svm import LinearSVC

from helpers.cases import cases
from helpers.contract import assert_passes_checks, refused_labels
from helpers.pairwise import each_value
from lpfuse import FusedDetector, GMMDetector, KernelPCADetector
from lpfuse.fusion.stacking import BestSingle, LinearSVMStacker, LogisticStacker

STACKERS = [LinearSVMStacker, LogisticStacker]
ALL = [BestSingle, *STACKERS]
IDLE_COLUMNS = "ignore:Scores have no spread:UserWarning", "ignore:Some detectors give:UserWarning"
NO_ANOMALY = "ignore:.* got no anomalies:UserWarning"


@pytest.fixture
def labelled():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(120) < 0.2, -1, 1)
    return y[:, None] * [0.2, 0.7, -0.1] + rng.normal(0.0, 0.6, (120, 3)), y


class LabelsDropped:
    """Fit without y: scikit-learn's checks feed labels other than ±1, which we refuse."""

    def fit(self, S, y=None, sample_weight=None):
        return super().fit(S, sample_weight=sample_weight)


class Best(LabelsDropped, BestSingle):
    pass


class LinearSVM(LabelsDropped, LinearSVMStacker):
    pass


class Logistic(LabelsDropped, LogisticStacker):
    pass


@pytest.mark.filterwarnings(*IDLE_COLUMNS, NO_ANOMALY)
@pytest.mark.parametrize("estimator", [Best(), LinearSVM(), Logistic()], ids=str)
def test_scikit_learn_contract(estimator):
    assert_passes_checks(estimator, refused_labels())


# ------------------------------------------------------------------------------------ best single


def test_labels_tell_the_best_by_its_area_under_the_curve(labelled):
    S, y = labelled
    best = BestSingle().fit(S, y)
    pairs = [(i, j) for i in np.flatnonzero(y > 0) for j in np.flatnonzero(y < 0)]
    areas = [np.mean([(s[i] > s[j]) + (s[i] == s[j]) / 2 for i, j in pairs]) for s in S.T]
    np.testing.assert_allclose(best.criterion_, areas)
    assert best.weights_.tolist() == [0.0, 1.0, 0.0]
    np.testing.assert_array_equal(best.score_samples(S), S[:, 1])
    assert best.offset_ == 0.0


@given(
    st.tuples(st.integers(2, 15), st.integers(2, 5)).flatmap(
        lambda shape: arrays(np.float64, shape, elements=st.integers(-3, 3).map(float))
    )
)
@settings(max_examples=50, deadline=None)
@pytest.mark.filterwarnings(*IDLE_COLUMNS)
def test_without_labels_the_best_agrees_most_with_the_others(S):
    best = BestSingle().fit(S)
    ranks = rankdata(S, axis=0)
    for j, found in enumerate(best.criterion_):
        others = np.delete(ranks, j, axis=1).mean(axis=1)
        if np.ptp(S[:, j]) == 0 or np.ptp(others) == 0:
            assert found == 0.0
        else:
            assert found == pytest.approx(spearmanr(S[:, j], others).statistic, abs=1e-10)
    chosen = int(best.weights_.argmax())
    assert best.weights_.sum() == 1.0
    assert (best.criterion_ <= best.criterion_[chosen] + 1e-12).all()
    assert (best.criterion_[:chosen] < best.criterion_[chosen]).all()


def test_all_rows_labelled_normal_is_no_labels(labelled):
    S, _ = labelled
    found = BestSingle().fit(S, [1] * 120).criterion_
    np.testing.assert_array_equal(found, BestSingle().fit(S).criterion_)


def test_the_one_who_follows_the_crowd_is_trusted_without_labels():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=200)
    S = truth[:, None] * [0.0, 1.0, 1.0, 1.0] + rng.normal(size=(200, 4)) * [1.0, 0.8, 0.3, 0.8]
    assert BestSingle().fit(S).weights_.argmax() == 2


@pytest.mark.parametrize("with_labels", [False, True])
def test_only_the_order_of_scores_matters(labelled, with_labels):
    S, y = labelled
    y = y if with_labels else None
    found = BestSingle().fit(np.exp(S) * [1.0, 5.0, 100.0], y)
    np.testing.assert_allclose(found.criterion_, BestSingle().fit(S, y).criterion_, atol=1e-12)


@pytest.mark.filterwarnings(*IDLE_COLUMNS)
def test_of_equally_good_detectors_the_first_is_taken(labelled):
    S, y = labelled
    twice = S[:, [0, 1, 1]]
    assert BestSingle().fit(twice, y).weights_.tolist() == [0.0, 1.0, 0.0]
    for seed in range(20):  # two agree equally with each other, whatever the rounding
        rng = np.random.default_rng(seed)
        best = BestSingle().fit(rng.normal(size=(40, 2)), sample_weight=rng.random(40))
        assert best.weights_.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("with_labels", [False, True])
def test_a_sample_weight_is_a_repetition_for_the_best(labelled, with_labels):
    S, y = np.round(labelled[0], 1), labelled[1]
    times = np.arange(120) % 3
    kept = {"y": y} if with_labels else {}
    repeated = {name: np.repeat(values, times) for name, values in kept.items()}
    weighted = BestSingle().fit(S, **kept, sample_weight=times)
    expected = BestSingle().fit(np.repeat(S, times, axis=0), **repeated).criterion_
    np.testing.assert_allclose(weighted.criterion_, expected, atol=1e-12)
    assert not np.allclose(weighted.criterion_, BestSingle().fit(S, **kept).criterion_, atol=1e-6)


# --------------------------------------------------------------------------------------- stackers


def cost(kind, w, S, y, C=1.0, mass=None):
    """What a stacker minimises, written out."""
    mass = np.ones(len(y)) if mass is None else mass
    halves = {side: mass[y == side].sum() for side in (1, -1)}
    costs = mass * [mass.sum() / (2 * halves[side]) for side in y]
    margins = y * (S @ w[:-1] + w[-1])
    if kind is LogisticStacker:
        return w[:-1] @ w[:-1] / 2 + C * costs @ np.logaddexp(0, -margins)
    return w[:-1] @ w[:-1] / 2 + w[-1] ** 2 / 200 + C * costs @ np.maximum(0, 1 - margins) ** 2


@each_value(kind=STACKERS, C=(0.01, 1.0, 30.0))
def test_weights_and_intercept_are_the_best_ones(labelled, kind, C):
    S, y = labelled
    mass = 1.0 + np.arange(120) % 3
    stacker = kind(C=C).fit(S, y, sample_weight=mass)
    found = np.append(stacker.weights_, stacker.intercept_)
    best = minimize(lambda w: cost(kind, w, S, y, C, mass), np.zeros(4), tol=1e-12)
    np.testing.assert_allclose(found, best.x, atol=1e-4)
    assert cost(kind, found, S, y, C, mass) <= best.fun * (1 + 1e-9)


@pytest.mark.parametrize(
    ("kind", "rival"),
    [
        (LinearSVMStacker, LinearSVC(dual=False, intercept_scaling=10, tol=1e-8)),
        (LogisticStacker, LogisticRegression(tol=1e-8, max_iter=1000)),
    ],
)
def test_they_are_scikit_learns_classifiers_with_balanced_classes(labelled, kind, rival):
    S, y = labelled
    stacker = kind().fit(S, y)
    rival.set_params(class_weight="balanced").fit(S, y)
    np.testing.assert_allclose(stacker.weights_, rival.coef_[0], atol=1e-5)
    np.testing.assert_allclose(stacker.decision_function(S), rival.decision_function(S), atol=1e-5)
    np.testing.assert_array_equal(stacker.predict(S), rival.predict(S))


@pytest.mark.parametrize("kind", STACKERS)
def test_good_detectors_weigh_more_and_reversed_ones_are_turned(kind, labelled):
    S, y = labelled
    stacker = kind().fit(S, y)
    assert stacker.weights_.argmax() == 1
    turned = kind().fit(S * [1, -1, 1], y)
    np.testing.assert_allclose(turned.weights_, stacker.weights_ * [1, -1, 1], atol=1e-6)
    assert turned.weights_[1] < 0
    assert roc_auc_score(y, stacker.score_samples(S)) > roc_auc_score(y, S.sum(axis=1))


@pytest.mark.parametrize("kind", STACKERS)
def test_contributions_and_the_intercept_explain_the_decision(kind, labelled):
    S, y = labelled
    stacker = kind().fit(S, y)
    assert stacker.intercept_ != 0.0
    assert stacker.offset_ == -stacker.intercept_
    explained = stacker.contributions(S).sum(axis=1) + stacker.intercept_
    np.testing.assert_allclose(explained, stacker.decision_function(S))


@pytest.mark.parametrize("kind", STACKERS)
@given(seed=st.integers(0, 99))
@settings(max_examples=5, deadline=None)
def test_the_order_of_rows_and_detectors_does_not_matter(kind, seed):
    rng = np.random.default_rng(seed)
    S, y = rng.normal(size=(30, 4)), np.where(np.arange(30) < 20, 1, -1)
    stacker = kind().fit(S, y)
    rows, columns = rng.permutation(30), rng.permutation(4)
    shuffled = kind().fit(S[rows][:, columns], y[rows])
    np.testing.assert_allclose(shuffled.weights_, stacker.weights_[columns], atol=1e-5)
    assert shuffled.intercept_ == pytest.approx(stacker.intercept_, abs=1e-5)


@pytest.mark.parametrize("kind", STACKERS)
def test_a_sample_weight_is_a_repetition(kind, labelled):
    S, y = labelled
    times = np.arange(120) % 3
    weighted = kind().fit(S, y, sample_weight=times)
    repeated = kind().fit(np.repeat(S, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, atol=1e-6)
    assert weighted.intercept_ == pytest.approx(repeated.intercept_, abs=1e-6)


@pytest.mark.parametrize("kind", STACKERS)
@cases("how", ["no labels", "all normal", "anomalies of weight 0"])
def test_without_anomalies_it_is_the_sum_rule_and_says_so(kind, how, labelled):
    S, y = labelled
    known = {
        "no labels": {},
        "all normal": {"y": np.ones(120)},
        "anomalies of weight 0": {"y": y, "sample_weight": y > 0},
    }[how]
    with pytest.warns(UserWarning, match=f"{kind.__name__} got no anomalies") as told:
        stacker = kind().fit(S, **known)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert stacker.weights_.tolist() == [1.0, 1.0, 1.0]
    assert stacker.intercept_ == stacker.offset_ == 0.0
    np.testing.assert_allclose(stacker.score_samples(S), S.sum(axis=1))


# --------------------------------------------------------------------------------- all of them


@pytest.mark.parametrize("kind", ALL)
def test_a_single_detector_keeps_its_order(kind):
    S = np.array([[-2.0], [-0.5], [0.3], [1.7]])
    fusion = kind().fit(S, [-1, -1, 1, 1])
    assert fusion.weights_[0] > 0
    assert fusion.predict(S).tolist() == [-1, -1, 1, 1]


def test_a_single_detector_is_the_best_also_without_labels():
    best = BestSingle().fit([[1.0], [2.0]])
    assert best.weights_.tolist() == [1.0]
    assert best.criterion_.tolist() == [0.0]


@pytest.mark.parametrize("kind", ALL)
def test_one_anomaly_is_enough(kind, labelled):
    S, _ = labelled
    S[0] = [0.0, -3.0, 0.0]
    fusion = kind().fit(S, [-1] + [1] * 119)
    assert fusion.weights_.argmax() == 1
    assert fusion.score_samples(S).argmin() == 0


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("with_labels", [False, True])
@pytest.mark.filterwarnings(NO_ANOMALY)
def test_a_constant_column_is_told_and_not_trusted(kind, with_labels, labelled):
    S, y = labelled
    S = pd.DataFrame({"idle": 0.5, "a": S[:, 0], "b": S[:, 1]})
    with pytest.warns(UserWarning, match="no spread in column 'idle'"):
        fusion = kind().fit(S, y if with_labels else None)
    assert np.isfinite(fusion.score_samples(S)).all()
    if with_labels:
        assert abs(fusion.weights_[0]) < 0.5 * fusion.weights_.max()


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.filterwarnings(*IDLE_COLUMNS, NO_ANOMALY)
def test_one_row(kind):
    fusion = kind().fit([[0.5, 0.7]])
    assert fusion.weights_[0] == 1.0
    assert fusion.predict([[0.5, 0.7], [-1.0, -1.0]]).tolist() == [1, -1]


@pytest.mark.parametrize("kind", ALL)
def test_fitting_twice_gives_the_same(kind, labelled):
    S, y = labelled
    fusion = kind().fit(S, y)
    np.testing.assert_array_equal(clone(fusion).fit(S, y).weights_, fusion.weights_)
    np.testing.assert_array_equal(fusion.fit(S, y).weights_, clone(fusion).fit(S, y).weights_)


@pytest.mark.parametrize("kind", ALL)
def test_arrays_of_other_libraries_are_taken(kind, labelled):
    S, y = labelled
    foreign = array_api_strict.asarray(S)
    fusion = kind().fit(foreign, y)
    np.testing.assert_array_equal(fusion.weights_, kind().fit(S, y).weights_)
    assert fusion.score_samples(foreign).__array_namespace__() is array_api_strict


@cases("kind", ALL)
@cases(
    "arguments, words",
    [
        ({"y": [0, 1, 1]}, "Choose one of"),
        ({"y": [-1, -1, -1]}, "only −1"),
        ({"y": [1, -1]}, r"expected shape \(3,\)"),
        ({"sample_weight": [-1, 1, 1]}, "not negative"),
        ({"y": [1, -1, -1], "sample_weight": [0, 1, 1]}, "only −1"),
    ],
)
def test_unusable_labels_and_weights_leave_no_trace(kind, arguments, words):
    fusion = kind()
    with pytest.raises(ValueError, match=words):
        fusion.fit(np.eye(3), **arguments)
    assert not [name for name in vars(fusion) if name.endswith("_")]
    with pytest.raises(NotFittedError):
        fusion.score_samples(np.eye(3))


@each_value(C=(0, -1.0, np.inf, "1", True), kind=STACKERS)
def test_an_unusable_price_of_errors_is_refused(kind, C, labelled):
    with pytest.raises(ValueError, match="C must be a finite number above 0, got"):
        kind(C=C).fit(*labelled)


@pytest.mark.parametrize("kind", ALL)
def test_names_of_detectors_are_kept_and_asked_for(kind, labelled):
    S, y = labelled
    frame = pd.DataFrame(S, columns=["svm", "lof", "gmm"])
    fusion = kind().fit(frame, y)
    assert fusion.feature_names_in_.tolist() == ["svm", "lof", "gmm"]
    with pytest.raises(ValueError, match="feature names should match"):
        fusion.score_samples(frame[["lof", "svm", "gmm"]])


# ------------------------------------------------------------------------- in the fused detector

DETECTORS = [
    ("kpca", KernelPCADetector(3, gamma=0.1)),
    ("gmm", GMMDetector(1, random_state=0)),
    ("lof", LocalOutlierFactor(n_neighbors=5, novelty=True)),
]


@pytest.mark.parametrize("kind", ALL)
def test_a_fused_detector_learns_with_labels(kind):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(60, 2)), rng.normal(5.0, 1.0, size=(10, 2))])
    y = np.repeat([1, -1], [60, 10])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*rank all rows alike")
        fused = FusedDetector(DETECTORS, fusion=kind(), cv=3, random_state=0).fit(X, y)
    assert roc_auc_score(y, fused.score_samples(X)) > 0.95
    np.testing.assert_allclose(fused.contributions(X).sum(axis=1), fused.score_samples(X))
    scaled = fused.scaler_.transform(fused.detector_scores(X))
    np.testing.assert_allclose(scaled @ fused.weights_, fused.score_samples(X), atol=1e-9)


@pytest.mark.parametrize("kind", ALL)
def test_a_fused_detector_without_labels_warns_once(kind):
    X = np.random.default_rng(0).normal(size=(60, 2))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fused = FusedDetector(DETECTORS, fusion=kind(), cv=3, random_state=0).fit(X)
    of_anomalies = [w for w in told if "no anomalies" in str(w.message)]
    assert len(of_anomalies) == (kind in STACKERS)
    assert fused.weights_.sum() == (3 if kind in STACKERS else 1)
    assert fused.predict([[9.0, 9.0]]).tolist() == [-1]
