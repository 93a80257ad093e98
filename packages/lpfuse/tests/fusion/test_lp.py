import re
import warnings
from copy import copy

import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import make_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from helpers.cases import cases
from helpers.contract import assert_passes_checks, refused_labels
from helpers.pairwise import each_value
from lpfuse import LpFusion, TailScaler, TwoSidedMinMax, lp_path
from lpfuse.optim import Problem
from oracles import naive
from oracles.optimum import optimum
from oracles.problems import GRID

IDLE_COLUMNS = "ignore:Scores have no spread:UserWarning", "ignore:Some detectors give:UserWarning"
NAMES = ["forest", "svm", "lof"]


@pytest.fixture
def labelled():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(120) < 0.25, -1, 1)
    return y[:, None] * [0.9, 0.4, 0.1] + rng.normal(0.0, 0.6, (120, 3)), y


class LabelsDropped(LpFusion):
    """Fit without y: scikit-learn's checks feed labels other than ±1, which we refuse."""

    def fit(self, S, y=None, sample_weight=None):
        return super().fit(S, sample_weight=sample_weight)


@pytest.mark.filterwarnings(*IDLE_COLUMNS)
@pytest.mark.parametrize("estimator", [LabelsDropped()], ids=str)
def test_scikit_learn_contract(estimator):
    assert_passes_checks(estimator, refused_labels())


@pytest.mark.slow
@pytest.mark.filterwarnings(*IDLE_COLUMNS)
@pytest.mark.parametrize(
    "estimator",
    [
        LabelsDropped(p=1, nonnegative=True),
        LabelsDropped(p=float("inf"), loss="least_squares"),
    ],
    ids=str,
)
def test_scikit_learn_contract_of_variants(estimator):
    assert_passes_checks(estimator, refused_labels())


# -------------------------------------------------------------------------------------- learning


@each_value(p=GRID, loss=("hinge", "least_squares"))
def test_the_weights_are_optimal_and_carry_their_proof(labelled, p, loss):
    S, y = labelled
    fusion = LpFusion(p=p, loss=loss, fit_intercept=True).fit(S, y)
    problem = Problem(S, y, p=p, loss=loss, fit_intercept=True)
    best = naive.value(problem, *optimum(problem))
    assert naive.value(problem, fusion.weights_, fusion.intercept_) == pytest.approx(best, rel=1e-7)
    assert fusion.certificate_.status == "optimal"
    assert fusion.certificate_.relative_gap <= 1e-8


def test_a_certificate_can_be_checked_by_its_reader(labelled):
    S, y = labelled
    proof = LpFusion(p=4 / 3).fit(S, y).certificate_
    assert Problem(S, y, p=4 / 3).dual_value(proof.alpha) == pytest.approx(proof.dual, rel=1e-12)
    squares = LpFusion(p=4 / 3, loss="least_squares").fit(S, y).certificate_
    problem = Problem(S, y, p=4 / 3, loss="least_squares")
    alpha = problem.dual_point(squares.dual_weights)
    assert problem.dual_value(alpha) == pytest.approx(squares.dual, rel=1e-10)


def test_without_labels_all_rows_are_normal(labelled):
    S, _ = labelled
    np.testing.assert_array_equal(LpFusion().fit(S).weights_, LpFusion().fit(S, [1] * 120).weights_)


def test_p_moves_the_weights_from_one_detector_to_all():
    S = np.random.default_rng(0).normal([0.5, 0.4, 0.3], 0.05, (200, 3))
    sparse, even = LpFusion(p=1).fit(S).weights_, LpFusion(p=float("inf")).fit(S).weights_
    np.testing.assert_allclose(sparse, [1.0, 0.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(even, [1.0, 1.0, 1.0], atol=1e-6)


def test_nonnegative_weights_never_turn_a_detector_upside_down(labelled):
    S, y = labelled
    S = S * [1.0, 1.0, -3.0]
    assert LpFusion().fit(S, y).weights_[2] < 0
    assert LpFusion(nonnegative=True).fit(S, y).weights_.min() >= 0


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", ["hinge", "least_squares"])
def test_a_sample_weight_is_a_repetition(labelled, loss, fit_intercept):
    S, y = labelled
    times = np.arange(120) % 3 + (np.arange(120) == 0)
    fusion = LpFusion(p=4 / 3, loss=loss, fit_intercept=fit_intercept, tol=1e-10)
    weighted = clone(fusion).fit(S, y, sample_weight=times)
    repeated = clone(fusion).fit(np.repeat(S, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, atol=1e-4)
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=1e-8)


def test_balanced_classes_have_the_same_say(labelled):
    S, y = labelled
    share = np.where(y > 0, 60 / (y > 0).sum(), 60 / (y < 0).sum())
    balanced = LpFusion(class_weight="balanced").fit(S, y)
    weighted = LpFusion().fit(S, y, sample_weight=share)
    np.testing.assert_allclose(balanced.weights_, weighted.weights_, atol=1e-6)
    assert balanced.certificate_.primal == pytest.approx(weighted.certificate_.primal, rel=1e-8)


def test_balance_counts_sample_weights(labelled):
    S, y = labelled
    times = np.arange(120) % 3
    weighted = LpFusion(class_weight="balanced").fit(S, y, sample_weight=times)
    repeated = LpFusion(class_weight="balanced").fit(
        np.repeat(S, times, axis=0), np.repeat(y, times)
    )
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, atol=1e-4)
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=1e-7)


def test_pure_data_have_nothing_to_balance_and_no_intercept(labelled):
    S, _ = labelled
    plain = LpFusion().fit(S)
    asked = LpFusion(class_weight="balanced", fit_intercept=True).fit(S)
    np.testing.assert_array_equal(asked.weights_, plain.weights_)
    assert asked.intercept_ == asked.offset_ == 0.0


def test_uniform_weights_are_kept_when_they_make_no_error():
    S = 3.0 + np.random.default_rng(0).random((50, 4))
    for solver in ("interior-point", "frank-wolfe"):
        weights = LpFusion(p=2, solver=solver).fit(S).weights_
        np.testing.assert_array_equal(weights, np.full(4, 0.5))


def test_weights_of_zero_are_warned_of():
    """Each row stands once in either class, so that every weight adds to the squared error."""
    S = np.random.default_rng(0).normal(size=(10, 2))
    with pytest.warns(UserWarning, match="The best weights are zero"):
        LpFusion(loss="least_squares").fit(np.vstack([S, S]), np.repeat([1, -1], 10))


# -------------------------------------------------------------------------------------- deciding


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_contributions_add_up_and_decisions_follow_the_offset(labelled, fit_intercept):
    S, y = labelled
    fusion = LpFusion(fit_intercept=fit_intercept).fit(S, y)
    scores = fusion.score_samples(S)
    by_hand = [sum(s * w for s, w in zip(row, fusion.weights_, strict=True)) for row in S]
    np.testing.assert_allclose(scores, by_hand, rtol=1e-12, atol=1e-12)
    assert fusion.contributions(S).shape == S.shape
    np.testing.assert_allclose(fusion.contributions(S).sum(axis=1), scores, rtol=0, atol=1e-12)
    assert fusion.offset_ == -fusion.intercept_
    assert (fusion.intercept_ != 0.0) == fit_intercept
    np.testing.assert_array_equal(fusion.decision_function(S), scores - fusion.offset_)
    assert fusion.predict(S).tolist() == [1 if s >= fusion.offset_ else -1 for s in scores]


def test_a_score_on_the_threshold_is_normal(labelled):
    assert LpFusion().fit(*labelled).predict([[0.0, 0.0, 0.0]]).tolist() == [1]


def test_anomalies_score_lower(labelled):
    S, y = labelled
    assert roc_auc_score(y, LpFusion(class_weight="balanced").fit(S, y).score_samples(S)) > 0.9


def test_nothing_can_be_asked_before_fit(labelled):
    for method in ("score_samples", "decision_function", "predict", "contributions"):
        with pytest.raises(NotFittedError):
            getattr(LpFusion(), method)(labelled[0])


# --------------------------------------------------------------------------- scikit-learn's world


def test_a_clone_has_the_same_parameters_and_no_memory(labelled):
    fusion = LpFusion(p=4, loss="least_squares", nonnegative=True, tol=1e-6).fit(*labelled)
    copy = clone(fusion)
    assert copy.get_params() == fusion.get_params()
    assert not hasattr(copy, "weights_")


def test_parameters_are_stored_untouched_until_fit():
    nonsense = {"p": "two", "loss": 7, "solver": None, "tol": -1, "max_iter": 0.5}
    assert LpFusion(**nonsense).get_params().items() >= nonsense.items()


def test_scores_are_scaled_and_fused_in_a_pipeline(labelled):
    S, y = labelled
    pipeline = make_pipeline(TwoSidedMinMax(), LpFusion(p=4 / 3)).fit(S, y)
    scaled = TwoSidedMinMax().fit(S, y).transform(S)
    expected = LpFusion(p=4 / 3).fit(scaled, y).predict(scaled)
    np.testing.assert_array_equal(pipeline.predict(S), expected)


def test_p_can_be_chosen_by_grid_search(labelled):
    S, y = labelled
    auc = make_scorer(roc_auc_score, response_method="decision_function")
    search = GridSearchCV(LpFusion(), {"p": [1, 2, float("inf")]}, scoring=auc, cv=3).fit(S, y)
    assert search.best_params_["p"] in (1, 2, float("inf"))
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_names_of_detectors_are_kept_and_compared(labelled, frame):
    S, y = labelled
    named = frame(dict(zip(NAMES, S.T, strict=True)))
    fusion = LpFusion().fit(named, y)
    assert fusion.feature_names_in_.tolist() == NAMES
    np.testing.assert_array_equal(fusion.weights_, LpFusion().fit(S, y).weights_)
    np.testing.assert_allclose(fusion.score_samples(named), S @ fusion.weights_, rtol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        fusion.predict(frame(dict(zip(["a", "b", "c"], S.T, strict=True))))


def test_labels_may_be_a_series(labelled):
    S, y = labelled
    expected = LpFusion().fit(S, y).weights_
    for series in (pd.Series(y, index=range(120, 0, -1)), pl.Series(y), y.tolist(), y * 1.0):
        np.testing.assert_array_equal(LpFusion().fit(S, series).weights_, expected)


@pytest.mark.parametrize("loss", ["hinge", "least_squares"])
def test_array_api_scores_stay_in_their_library(labelled, loss):
    S, y = labelled
    theirs = array_api_strict.asarray(S)
    fusion = LpFusion(loss=loss, fit_intercept=True).fit(theirs, y)
    expected = LpFusion(loss=loss, fit_intercept=True).fit(S, y)
    np.testing.assert_allclose(fusion.weights_, expected.weights_, atol=1e-8)
    for method in ("score_samples", "predict", "contributions"):
        result = getattr(fusion, method)(theirs)
        assert result.__array_namespace__() is array_api_strict
        np.testing.assert_allclose(
            np.asarray(result), getattr(expected, method)(S), rtol=0, atol=1e-7
        )


@pytest.mark.parametrize("loss", ["hinge", "least_squares"])
def test_torch_scores_and_labels_stay_in_torch(labelled, loss):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    S, y = labelled
    fusion = LpFusion(loss=loss, class_weight="balanced").fit(torch.tensor(S), torch.tensor(y))
    expected = LpFusion(loss=loss, class_weight="balanced").fit(S, y)
    np.testing.assert_allclose(fusion.weights_, expected.weights_, atol=1e-8)
    scores = fusion.score_samples(torch.tensor(S))
    assert isinstance(scores, torch.Tensor)
    np.testing.assert_allclose(scores.numpy(), expected.score_samples(S), atol=1e-7)


def test_float32_scores_give_float32_scores(labelled):
    S, y = labelled
    fusion = LpFusion().fit(S.astype(np.float32), y)
    assert fusion.score_samples(S.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(fusion.weights_, LpFusion().fit(S, y).weights_, atol=1e-4)


# -------------------------------------------------------------------------------------- bad input

SCORES = np.random.default_rng(1).normal(size=(4, 2))
GOOD = {"S": SCORES, "y": [1, 1, -1, 1]}
BAD_DATA = {
    "NaN": ({"S": np.where(np.eye(4, 2) == 1, np.nan, 1.0)}, "NaN or infinity in column 0"),
    "NaN, named": (
        {"S": pd.DataFrame({"svm": [1.0, 2.0, 3.0, 4.0], "lof": [1.0, np.nan, 0.0, 1.0]})},
        "NaN or infinity in column 'lof' (1 row)",
    ),
    "infinity": (
        {"S": np.where(np.eye(4, 2) == 1, np.inf, SCORES)},
        "column 0 (1 row) and column 1",
    ),
    "no rows": ({"S": np.empty((0, 2)), "y": []}, "0 sample"),
    "no columns": ({"S": np.empty((4, 0))}, "0 feature"),
    "one dimension": ({"S": np.ones(4)}, "Expected a 2D array"),
    "text": (
        {"S": pd.DataFrame({"svm": [1.0, 2.0, 3.0, 4.0], "id": ["a", "b", "c", "d"]})},
        "column 'id' cannot be read as numbers",
    ),
    "0/1 labels": ({"y": [0, 1, 1, 0]}, "{0: 1, 1: -1}"),
    "labels in words": ({"y": ["ok", "bad", "ok", "ok"]}, "{'ok': 1, 'bad': -1}"),
    "missing labels": ({"y": [1, np.nan, -1, 1]}, "and 1 missing"),
    "only anomalies": ({"y": [-1, -1, -1, -1]}, "pass -y"),
    "too few labels": ({"y": [1, 1, -1]}, "expected shape (4,), got (3,)"),
    "labels in a column": ({"y": [[1], [1], [-1], [1]]}, "np.ravel(y)"),
    "negative weights": ({"sample_weight": [1, -2, 1, 1]}, "got -2.0 in row 1"),
    "weights that are NaN": ({"sample_weight": [1, np.nan, 1, 1]}, "finite and not negative"),
    "no weight at all": ({"sample_weight": [0, 0, 0, 0]}, "zero in every row"),
    "too many weights": ({"sample_weight": [1] * 5}, "expected shape (4,), got (5,)"),
}
BAD_PARAMETERS = {
    "p below 1": ({"p": 0.5}, "p must be in [1, inf], got 0.5"),
    "p is NaN": ({"p": float("nan")}, "p must be in [1, inf], got nan"),
    "p is text": ({"p": "inf"}, 'float("inf")'),
    "p is None": ({"p": None}, "p must be a number"),
    "unknown loss": ({"loss": "squared"}, "'hinge', 'least_squares'; got 'squared'"),
    "unknown solver": ({"solver": "cvx"}, "'frank-wolfe'"),
    "unknown class weight": (
        {"class_weight": {1: 2}},
        "class_weight must be one of None, 'balanced'",
    ),
    "tol of zero": ({"tol": 0.0}, "tol must be a finite number above 0 and at most 1, got 0.0"),
    "tol is text": ({"tol": "tight"}, "got 'tight'"),
    "no steps": ({"max_iter": 0}, "max_iter must be a whole number from 1, got 0"),
    "half a step": ({"max_iter": 1.5}, "got 1.5"),
    "an intercept with Frank–Wolfe": (
        {"fit_intercept": True, "solver": "frank-wolfe"},
        'Use solver="interior-point" or fit_intercept=False.',
    ),
}
UNUSABLE = {
    **{name: ({}, data, words) for name, (data, words) in BAD_DATA.items()},
    **{name: (parameters, {}, words) for name, (parameters, words) in BAD_PARAMETERS.items()},
}


@pytest.fixture
def fitted():
    S = pd.DataFrame(np.random.default_rng(0).normal(size=(9, 3)), columns=NAMES)
    return LpFusion().fit(S)


def state(estimator):
    return {name: value for name, value in vars(estimator).items() if name.endswith("_")}


@cases("misuse", UNUSABLE)
def test_unusable_input_is_refused_without_a_trace(misuse, fitted):
    parameters, data, words = UNUSABLE[misuse]
    fitted = copy(fitted)  # other cases use it too
    fresh, before = LpFusion(**parameters), state(fitted)
    with pytest.raises(ValueError, match=re.escape(words)):
        fresh.fit(**{**GOOD, **data})
    assert state(fresh) == {}
    fitted.set_params(**parameters)
    with pytest.raises(ValueError, match=re.escape(words)):
        fitted.fit(**{**GOOD, **data})
    after = state(fitted)
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in before)


# A path has its own solver.
@cases("misuse", [name for name in UNUSABLE if "solver" not in UNUSABLE[name][0]])
def test_a_path_refuses_the_same_input(misuse):
    parameters, data, words = UNUSABLE[misuse]
    parameters = dict(parameters)
    ps = [parameters.pop("p")] if "p" in parameters else [2.0]
    with pytest.raises(ValueError, match=re.escape(words)):
        lp_path(**{**GOOD, **data}, ps=ps, **parameters)


def test_the_number_of_detectors_is_remembered(labelled):
    fusion = LpFusion().fit(*labelled)
    with pytest.raises(ValueError, match="2 features, but LpFusion is expecting 3"):
        fusion.predict(np.ones((1, 2)))


# --------------------------------------------------------------------------------------- warnings


def test_a_constant_detector_is_named(labelled):
    S, y = labelled
    frame = pd.DataFrame(S, columns=NAMES).assign(lof=0.3)
    with pytest.warns(UserWarning, match="no spread in column 'lof'"):
        LpFusion().fit(frame, y)
    with pytest.warns(UserWarning, match="no spread in column 2"):
        LpFusion().fit(frame.to_numpy(), y)


def test_equal_detectors_are_named(labelled):
    S, y = labelled
    with pytest.warns(UserWarning, match="column 3 = column 0"):
        LpFusion().fit(np.c_[S, S[:, 0]], y)


def test_good_data_give_no_warning(labelled):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LpFusion().fit(*labelled)
        lp_path(*labelled)


def test_frank_wolfe_short_of_the_tolerance_warns_with_its_gap():
    counterexample = np.array([[0.0, 2.0], [0.5, 0.0]])
    with pytest.warns(
        ConvergenceWarning, match=r"relative gap of 1\.8e-01.*solver=\"auto\""
    ) as told:
        fusion = LpFusion(p=2, solver="frank-wolfe", tol=1e-3).fit(counterexample)
    assert told[0].filename == __file__
    assert fusion.certificate_.status == "stopped"
    assert f"{fusion.certificate_.relative_gap:.1e}" in str(told[0].message)


def test_too_few_steps_warn_with_the_gap(labelled):
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        fusion = LpFusion(p=4 / 3, max_iter=2).fit(*labelled)
    assert np.isfinite(fusion.weights_).all()
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        lp_path(*labelled, ps=[4 / 3], max_iter=2)


# ----------------------------------------------------------------------------------- a grid of p


@pytest.mark.parametrize("loss", ["hinge", "least_squares"])
def test_a_path_is_one_fit_for_every_p(labelled, loss):
    S, y = labelled
    settings = {"loss": loss, "fit_intercept": True, "class_weight": "balanced"}
    ps = [100, 1, float("inf"), 4 / 3]
    path = lp_path(S, y, ps=ps, **settings)
    assert path.ps.tolist() == ps
    assert path.weights.shape == (4, 3)
    assert len(path.certificates) == len(path.intercepts) == 4
    for p, weights, b, proof in zip(
        ps, path.weights, path.intercepts, path.certificates, strict=True
    ):
        alone = LpFusion(p=p, **settings).fit(S, y)
        assert proof.status == "optimal"
        assert abs(proof.primal - alone.certificate_.primal) <= (
            max(proof.gap, alone.certificate_.gap) + 1e-12 * 120
        )
        assert naive.norm(weights, p) <= 1 + 1e-12
        costs = np.where(y > 0, 60 / (y > 0).sum(), 60 / (y < 0).sum())
        problem = Problem(S, y, p=p, loss=loss, costs=costs, fit_intercept=True)
        assert naive.value(problem, weights, b) == pytest.approx(proof.primal, rel=1e-10)


def test_a_path_takes_sample_weights(labelled):
    S, y = labelled
    times = np.arange(120) % 3
    path = lp_path(S, y, ps=[4 / 3], sample_weight=times)
    alone = LpFusion(p=4 / 3).fit(S, y, sample_weight=times)
    np.testing.assert_allclose(path.weights[0], alone.weights_, atol=1e-4)


def test_the_default_grid_is_the_papers(labelled):
    path = lp_path(*labelled)
    expected = [32 / 31, 16 / 15, 8 / 7, 4 / 3, 2, 4, 8, 10, 100]
    assert path.ps.tolist() == expected


def test_an_empty_grid_is_refused(labelled):
    with pytest.raises(ValueError, match="ps is empty"):
        lp_path(*labelled, ps=[])


def test_one_bad_p_in_a_grid_is_refused(labelled):
    with pytest.raises(ValueError, match=re.escape("p must be in [1, inf], got 0.9")):
        lp_path(*labelled, ps=[2, 0.9])


@pytest.mark.parametrize("parameters", [{"p": 2.0}, {"solver": "frank-wolfe"}])
def test_what_a_path_would_ignore_is_refused(labelled, parameters):
    with pytest.raises((TypeError, ValueError), match=next(iter(parameters))):
        lp_path(*labelled, **parameters)


def scores_of_three_tools(n=300):
    rng = np.random.default_rng(0)
    return rng.standard_t(2, size=(n, 3)) * [1.0, 3.0, 5000.0] + [0.0, 0.0, 9000.0]


@pytest.mark.parametrize("is_labelled", [False, True])
def test_columns_of_very_unequal_scale_are_told_once(is_labelled):
    S = pd.DataFrame(scores_of_three_tools(), columns=["a", "b", "c"])
    y = np.repeat([1, -1], [280, 20]) if is_labelled else None
    with pytest.warns(UserWarning, match="'c' spread more than 100 times .* 'a'") as told:
        LpFusion(fit_intercept=True, class_weight="balanced").fit(S, y)
    assert len(told) == 1
    scope = {"S": S.to_numpy(), "y": y, "TwoSidedMinMax": TwoSidedMinMax}
    exec(str(told[0].message).rpartition("as well: ")[2], scope)
    LpFusion().fit(scope["S"], y)  # without a warning


@pytest.mark.parametrize("scaler", [TwoSidedMinMax(), TwoSidedMinMax(rho=0), TailScaler()])
@pytest.mark.parametrize("power", [1, 5])
def test_scaled_scores_are_never_told_to_be_scaled(scaler, power):
    S, y = scores_of_three_tools() ** power, np.repeat([1, -1], [150, 150])
    S[:, 0] = S[:, 0].round()  # ties
    S[150:, 2] -= 1e9  # one column finds anomalies, the others do not
    LpFusion().fit(scaler.fit(S, y).transform(S), y)
