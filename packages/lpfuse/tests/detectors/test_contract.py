"""What a user of scikit-learn expects of every detector."""

import re

import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import make_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from helpers.cases import cases
from helpers.contract import assert_passes_checks, refused_labels
from helpers.pairwise import each_value
from lpfuse import (
    SVDD,
    ColumnForest,
    GMMDetector,
    HistogramDetector,
    KernelPCADetector,
    KNNDetector,
    LOFDetector,
    OneClassGP,
    RobustCovarianceDetector,
)

NAMES = ["height", "width", "depth"]
CLASSES = [
    SVDD, OneClassGP, KernelPCADetector, GMMDetector, KNNDetector, LOFDetector, HistogramDetector,
    ColumnForest, RobustCovarianceDetector,
]  # fmt: skip
FEW = {"approximation": "nystroem", "n_components": 5, "random_state": 0}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """On rows as few as these, scikit-learn's mixtures spend their time waiting for threads."""
    with threadpool_limits(1):
        yield


class LabelsDropped(SVDD):
    """Fit without y: scikit-learn's checks feed labels other than ±1, which we refuse."""

    def fit(self, X, y=None, sample_weight=None):
        return super().fit(X, sample_weight=sample_weight)


def expected_failures(estimator):
    """Weights against repetitions, to seven digits: tested elsewhere to the digits there are.

    And thresholds by scores of rows that were held out, as of scikit-learn's LocalOutlierFactor.
    """
    reason = "the threshold leaves its share of held-out scores below, not of training scores"
    failures = dict.fromkeys(("check_outliers_train", "check_outliers_fit_predict"), reason)
    if getattr(estimator, "offset_from", "unseen") == "training":
        failures = {}
    failures |= refused_labels()
    check = "check_sample_weight_equivalence_on_dense_data"
    if getattr(estimator, "approximation", None) == "nystroem":
        failures[check] = "other landmarks are drawn among repeated rows"
    elif isinstance(estimator, SVDD):
        failures[check] = "libsvm stops at its tolerance, as in scikit-learn's OneClassSVM"
    return failures


quiet = pytest.mark.filterwarnings(
    # Some checks feed few, equal or far-apart rows, to which no width of a kernel does justice.
    "ignore::lpfuse.detectors.KernelWidthWarning",
    "ignore:n_components=.* of .* rows. there are:UserWarning",
    # Some allow a single step.
    "ignore:Best performing initialization did not converge:sklearn.exceptions.ConvergenceWarning",
)


@quiet
@pytest.mark.parametrize(
    "estimator",
    [
        LabelsDropped(),
        OneClassGP(),
        KernelPCADetector(),
        GMMDetector(2),
        KNNDetector(),
        LOFDetector(),
        HistogramDetector(),
        ColumnForest(8, random_state=0),
        RobustCovarianceDetector(),
    ],
    ids=str,
)
def test_scikit_learn_contract(estimator):
    assert_passes_checks(estimator, expected_failures(estimator))


@pytest.mark.slow
@quiet
@pytest.mark.parametrize(
    "estimator",
    [
        LabelsDropped(nu=0.5, kernel="linear", contamination=0.2, offset_from="training"),
        LabelsDropped(gamma="median", **FEW),
        OneClassGP(offset_from="training"),
        OneClassGP("density", kernel="laplacian"),
        OneClassGP("variance", **FEW),
        KernelPCADetector(offset_from="training"),
        KernelPCADetector(0.9, kernel="poly"),
        KernelPCADetector(2, approximation="nystroem", n_approximation=5, random_state=0),
        GMMDetector(offset_from="training"),
        GMMDetector(1, "log_likelihood", "diag"),
        KNNDetector(2, n_subspaces=3, max_samples=20, random_state=0),
    ],
    ids=str,
)
def test_scikit_learn_contract_of_variants(estimator):
    assert_passes_checks(estimator, expected_failures(estimator))


# ------------------------------------------------------------------------------- the same for all

DETECTORS = {
    "SVDD": SVDD(gamma=0.3),
    "SVDD, linear": SVDD(kernel="linear", nu=0.3),
    "SVDD, landmarks": SVDD(gamma=0.3, **FEW),
    "GP": OneClassGP(gamma=0.3),
    "GP, density": OneClassGP("density", gamma=0.3),
    "GP, landmarks": OneClassGP("ratio", gamma=0.3, **FEW),
    "KPCA": KernelPCADetector(4, gamma=0.3),
    "KPCA, share": KernelPCADetector(0.8, gamma=0.3),
    "KPCA, landmarks": KernelPCADetector(
        4, gamma=0.3, approximation="nystroem", n_approximation=10, random_state=0
    ),
    "GMM": GMMDetector(2, random_state=0),
    "GMM, likelihood": GMMDetector(2, "log_likelihood", "tied", random_state=0),
    "KNN": KNNDetector(3),
    "KNN, subspaces": KNNDetector(1, n_subspaces=4, random_state=0),
    "KNN, samples": KNNDetector(2, n_subspaces=4, max_samples=7, random_state=0),
    "histogram": HistogramDetector(),
    "columns": ColumnForest(8, random_state=0),
    "LOF": LOFDetector(5),
    "LOF, samples": LOFDetector(5, max_samples=15, random_state=0),
    "covariance": RobustCovarianceDetector(),
}
every_detector = pytest.mark.parametrize("name", DETECTORS)
ONE_OF_EACH_CLASS = [
    "SVDD",
    "GP",
    "KPCA",
    "GMM",
    "KNN",
    "histogram",
    "columns",
    "LOF",
    "covariance",
]
one_of_each_class = pytest.mark.parametrize("name", ONE_OF_EACH_CLASS)
every_class = pytest.mark.parametrize("make", CLASSES)


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(40, 3))


@pytest.fixture
def new():
    return np.random.default_rng(1).normal(size=(25, 3)) * 2


def detector(name):
    return clone(DETECTORS[name])


def state(estimator):
    """What a fit leaves behind."""
    return {
        key: value for key, value in vars(estimator).items() if key not in estimator.get_params()
    }


@cases("make", CLASSES)
def test_parameters_are_stored_untouched_until_fit(make):
    for parameter in make().get_params():
        nonsense = object()
        assert make(**{parameter: nonsense}).get_params()[parameter] is nonsense
        assert make().set_params(**{parameter: nonsense}).get_params()[parameter] is nonsense


@one_of_each_class
def test_fit_keeps_parameters_and_rows_and_a_clone_forgets_it(name, X):
    made, before = detector(name), X.copy()
    parameters = made.get_params()
    made.fit(X)
    made.score_samples(X)
    assert made.get_params() == parameters
    np.testing.assert_array_equal(X, before)
    copy = clone(made)
    assert copy.get_params() == parameters
    assert state(copy) == {}


@cases("make", CLASSES)
def test_nothing_can_be_asked_before_fit(make, X):
    for method in ("score_samples", "decision_function", "predict"):
        with pytest.raises(NotFittedError):
            getattr(make(), method)(X)


@one_of_each_class
def test_rows_are_scaled_in_a_pipeline(name, X, new):
    moved, scaler = 100 * X + 7, StandardScaler().fit(100 * X + 7)
    pipeline = make_pipeline(StandardScaler(), detector(name)).fit(moved)
    alone = detector(name).fit(scaler.transform(moved))
    np.testing.assert_array_equal(
        pipeline.score_samples(new), alone.score_samples(scaler.transform(new))
    )
    np.testing.assert_array_equal(pipeline.predict(new), alone.predict(scaler.transform(new)))


@pytest.mark.parametrize(
    ("made", "grid"),
    [
        (SVDD(gamma=0.3), {"nu": [0.1, 0.5]}),
        (OneClassGP(), {"gamma": np.array([0.1, 1.0]), "score_type": np.array(["mean", "ratio"])}),
        (KernelPCADetector(), {"n_components": np.array([2, 4]), "gamma": ["scale", "median"]}),
        (GMMDetector(random_state=0), {"n_components": np.arange(1, 3)}),
        (KNNDetector(random_state=0), {"n_neighbors": np.arange(1, 3), "n_subspaces": [None, 3]}),
        (ColumnForest(random_state=0), {"n_trees": np.array([8, 16]), "min_samples_leaf": [1, 3]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_parameters_can_be_chosen_by_grid_search(made, grid, X):
    y = np.where(np.arange(40) % 4 == 0, -1, 1)
    rows = np.where(y[:, None] < 0, 4 + X, X)
    auc = make_scorer(roc_auc_score, response_method="decision_function")
    search = GridSearchCV(made, grid, scoring=auc, cv=3, error_score="raise").fit(rows, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_score_ > 0.8 if isinstance(made, SVDD) else True
    assert search.best_estimator_.n_features_in_ == 3


@every_detector
def test_scores_can_be_repeated_in_any_order_of_rows(name, X, new):
    fitted, again = (detector(name).fit(X) for _ in range(2))
    order = np.random.default_rng(2).permutation(25)
    scores = fitted.score_samples(new)
    np.testing.assert_array_equal(again.score_samples(new), scores)  # the seed is the same
    np.testing.assert_allclose(fitted.score_samples(new[order]), scores[order], rtol=1e-9)
    one_by_one = np.concatenate([fitted.score_samples(row[None]) for row in new])
    np.testing.assert_allclose(one_by_one, scores, rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------------- names and kinds of data


@each_value(name=ONE_OF_EACH_CLASS, frame=(pd.DataFrame, pl.DataFrame))
def test_names_of_columns_are_kept_and_compared(name, frame, X, new):
    fitted = detector(name).fit(frame(dict(zip(NAMES, X.T, strict=True))))
    assert fitted.feature_names_in_.tolist() == NAMES
    assert fitted.n_features_in_ == 3
    plain = detector(name).fit(X)
    assert not hasattr(plain, "feature_names_in_")
    scores = fitted.score_samples(frame(dict(zip(NAMES, new.T, strict=True))))
    np.testing.assert_allclose(scores, plain.score_samples(new), rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame(dict(zip(["a", "b", "c"], new.T, strict=True))))
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame(dict(zip(NAMES[::-1], new.T, strict=True))))


@every_class
def test_names_and_number_of_columns_are_remembered(make, X):
    fitted = make().fit(pd.DataFrame(X, columns=NAMES))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        fitted.predict(X)
    fitted = make().fit(X)
    with pytest.raises(ValueError, match=f"2 features, but {make.__name__} is expecting 3"):
        fitted.score_samples(X[:, :2])


@every_detector
def test_single_precision_comes_back_and_is_close(name, X, new):
    fitted, single = detector(name).fit(X), detector(name).fit(X.astype(np.float32))
    scores = single.score_samples(new.astype(np.float32))
    expected = fitted.score_samples(new)
    assert expected.dtype == np.float64
    assert scores.dtype == single.decision_function(new.astype(np.float32)).dtype == np.float32
    atol = 5e-3 * max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(scores, expected, rtol=0, atol=atol)
    # The precision of what is scored decides, not that of what was learnt from.
    assert fitted.score_samples(new.astype(np.float32)).dtype == np.float32
    assert single.score_samples(new).dtype == np.float64
    np.testing.assert_allclose(single.score_samples(new), expected, rtol=0, atol=atol)
    assert (single.predict(X.astype(np.float32)) == fitted.predict(X)).mean() >= 0.95


@one_of_each_class
def test_the_layout_in_memory_does_not_matter(name, X, new):
    expected = detector(name).fit(X).score_samples(new)
    wide = np.zeros((80, 6))
    wide[::2, ::2] = X
    for layout in (np.asfortranarray(X), wide[::2, ::2], X.tolist()):
        scores = detector(name).fit(layout).score_samples(np.asfortranarray(new))
        np.testing.assert_allclose(scores, expected, rtol=1e-7, atol=1e-9)


def seeded(make):
    made = make()
    return made.set_params(random_state=0) if "random_state" in made.get_params() else made


@every_class
def test_whole_numbers_are_numbers(make):
    X = np.random.default_rng(0).integers(0, 20, (30, 3))
    np.testing.assert_array_equal(
        seeded(make).fit(X).score_samples(X),
        seeded(make).fit(X * 1.0).score_samples(X * 1.0),
    )


# ---------------------------------------------------------------------------- other array libraries


def close(theirs, expected):
    np.testing.assert_allclose(np.asarray(theirs), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.usefixtures("same_landmarks")
@every_detector
def test_torch_in_torch_out(name, X, new):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    rows, unseen = torch.tensor(X), torch.tensor(new)
    plain, theirs = detector(name).fit(X), detector(name).fit(rows)
    for method in ("score_samples", "decision_function", "predict"):
        result = getattr(theirs, method)(unseen)
        assert isinstance(result, torch.Tensor)
        close(result, getattr(plain, method)(new))
        # Learnt in one library, asked in another.
        crossed, back = getattr(plain, method)(unseen), getattr(theirs, method)(new)
        assert isinstance(crossed, torch.Tensor)
        assert isinstance(back, np.ndarray)
        close(crossed, getattr(plain, method)(new))
        close(back, getattr(plain, method)(new))
    assert theirs.offset_ == pytest.approx(plain.offset_, rel=1e-6)
    single = detector(name).fit(rows.float()).score_samples(unseen.float())
    assert single.dtype == torch.float32
    expected = plain.score_samples(new)
    atol = 5e-3 * max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(single.numpy(), expected, rtol=0, atol=atol)


@pytest.mark.usefixtures("same_landmarks")
@pytest.mark.parametrize(
    "name", [name for name in DETECTORS if name.startswith(("SVDD", "GP", "KPCA"))]
)
def test_torch_takes_weights_of_any_kind(name, X, new):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    weights = np.arange(40) % 3 + 1.0
    weights[5] = 0.0
    expected = detector(name).fit(X, sample_weight=weights).score_samples(new)
    for given in (weights, torch.tensor(weights), weights.tolist()):
        fitted = detector(name).fit(torch.tensor(X), sample_weight=given)
        close(fitted.score_samples(torch.tensor(new)), expected)


@pytest.mark.usefixtures("same_landmarks")
@every_detector
def test_any_library_of_the_array_standard_will_do(name, X, new):
    rows, unseen = array_api_strict.asarray(X), array_api_strict.asarray(new)
    plain, theirs = detector(name).fit(X), detector(name).fit(rows)
    for method in ("score_samples", "decision_function", "predict"):
        result, expected = getattr(theirs, method)(unseen), getattr(plain, method)(new)
        assert result.__array_namespace__() is array_api_strict
        close(result, expected)
        close(getattr(plain, method)(unseen), expected)
        close(getattr(theirs, method)(new), expected)


@pytest.mark.usefixtures("same_landmarks")
def test_torch_learns_with_known_anomalies(X, new):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    y = np.where(np.arange(40) % 5 == 0, -1, 1)
    for settings in ({}, {"kernel": "linear"}, FEW):
        expected = SVDD(nu=0.4, **settings).fit(X, y).score_samples(new)
        for labels in (y, torch.tensor(y)):
            fitted = SVDD(nu=0.4, **settings).fit(torch.tensor(X), labels)
            close(fitted.score_samples(torch.tensor(new)), expected)


@cases("make", [SVDD, OneClassGP, KernelPCADetector])
def test_a_kernel_of_scikit_learn_needs_numpy_and_says_so(make, X):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for kernel in ("laplacian", lambda x, z: float(x @ z)):
        with pytest.raises(ValueError, match=r"needs NumPy arrays, got Tensor.*Use one of rbf"):
            make(kernel=kernel).fit(torch.tensor(X))


@cases("make", CLASSES)
def test_a_gradient_is_not_asked_for(make, X):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    rows = torch.tensor(X, requires_grad=True)
    scores = make().fit(rows).score_samples(rows)
    assert not scores.requires_grad


# -------------------------------------------------------------------------------------- bad input

FOUR = np.random.default_rng(1).normal(size=(4, 2))
BAD_DATA = {
    "NaN": (np.where(np.eye(4, 2) == 1, np.nan, 1.0), "NaN or infinity in column 0 (1 row)"),
    "NaN, named": (
        pd.DataFrame({"height": [1.0, 2.0, 3.0, 4.0], "width": [1.0, np.nan, 0.0, np.nan]}),
        "NaN or infinity in column 'width' (2 rows)",
    ),
    "NaN, polars": (
        pl.DataFrame({"height": [1.0, 2.0, 3.0, 4.0], "width": [1.0, float("nan"), 0.0, 1.0]}),
        "NaN or infinity in column 'width' (1 row)",
    ),
    "infinity": (
        np.where(np.eye(4, 2) == 1, np.inf, FOUR),
        "column 0 (1 row) and column 1 (1 row)",
    ),
    "text": (
        pd.DataFrame({"height": [1.0, 2.0, 3.0, 4.0], "colour": ["red", "blue", "red", "red"]}),
        "column 'colour' cannot be read as numbers",
    ),
    "text in an array": (np.array([["a", "b"]] * 4), "could not convert string to float"),
    "complex": (FOUR + 1j, "Complex data not supported"),
    "no rows": (np.empty((0, 2)), "0 sample"),
    "no columns": (np.empty((4, 0)), "0 feature"),
    "one dimension": (np.ones(4), "Expected a 2D array"),
    "three dimensions": (
        np.ones((4, 2, 2)),
        "got 3D of shape (4, 2, 2). Reshape your data with (len(X), -1) if each item is a row",
    ),
    "sparse": (sparse.csr_matrix(FOUR), "Sparse data was passed"),
    "sparse array": (sparse.csc_array(FOUR), "toarray()"),
    "nothing": (None, "Expected a 2D array"),
}
BAD_ARGUMENTS = {  # of SVDD; sample weights of all that take them
    "0/1 labels": ({"y": [0, 1, 1, 0]}, "{0: 1, 1: -1}"),
    "only anomalies": ({"y": [-1, -1, -1, -1]}, "pass -y"),
    "missing labels": ({"y": [1, np.nan, -1, 1]}, "and 1 missing"),
    "too few labels": ({"y": [1, 1, -1]}, "expected shape (4,), got (3,)"),
    "negative weights": ({"sample_weight": [1, -2, 1, 1]}, "got -2.0 in row 1"),
    "weights that are NaN": ({"sample_weight": [1, np.nan, 1, 1]}, "finite and not negative"),
    "no weight at all": ({"sample_weight": [0, 0, 0, 0]}, "zero in every row"),
    "too many weights": ({"sample_weight": [1] * 5}, "expected shape (4,), got (5,)"),
    "weights in words": ({"sample_weight": ["a", "b", "c", "d"]}, "sample_weight must be numbers"),
    "no weight on the normal rows": (
        {"y": [1, 1, -1, -1], "sample_weight": [0, 0, 1, 1]},
        "normal rows",
    ),
}
KERNEL = {
    "contamination": [0.0, 0.6, -0.1, "all", None, float("nan"), True],
    "offset_from": ["held-out", None, True],
    "kernel": ["gaussian", None, 3, ["rbf"]],
    "gamma": [0.0, -1.0, "auto", None, float("inf"), float("nan"), [0.1]],
    "degree": ["two", None, float("nan")],
    "coef0": ["one", None, float("inf")],
    "approximation": ["nystrom", 5, False, 0, True],
}
BAD_PARAMETERS = {
    SVDD: {
        **KERNEL,
        "nu": [0.0, 1.5, -0.1, "half", None, float("nan"), True],
        "C": [0.0, -1.0, "big", float("inf"), float("nan"), True],
        "C_negative": [0.0, -1.0, "big", float("inf")],
        "tol": [0.0, -1e-3, "tight", None],
        "n_components": [0, -1, 2.5, "many", None, True],
    },
    OneClassGP: {
        **KERNEL,
        "score_type": ["median", None, 3],
        "noise": [-0.1, "loud", None, float("inf")],
        "n_components": [0, -1, 2.5, "many", None],
    },
    KernelPCADetector: {
        **KERNEL,
        "n_components": [0, -1, 0.0, 1.0, 1.5, "all", None, True, float("nan")],
        "n_approximation": [0, 2.5, None],
    },
    GMMDetector: {
        "contamination": KERNEL["contamination"],
        "offset_from": KERNEL["offset_from"],
        "n_components": [0, 1.5, "three", None, True],
        "score_type": ["mean", None],
        "covariance_type": ["round", None, 1],
        "reg_covar": [-1e-3, "some", None, float("nan")],
        "n_init": [0, 1.5, None],
        "max_iter": [0, 10.5, None],
    },
    KNNDetector: {
        "contamination": KERNEL["contamination"],
        "n_neighbors": [0, 1.5, "three", None, True],
        "n_subspaces": [0, 1.5, "three", True],
        "max_samples": [0, 2.5, None],
    },
    HistogramDetector: {"contamination": KERNEL["contamination"]},
    ColumnForest: {
        "contamination": KERNEL["contamination"],
        "n_trees": [0, 1.5, "many", None, True],
        "min_samples_leaf": [0, 0.5, None],
        "max_samples": [0, 2.5, None],
    },
    LOFDetector: {
        "contamination": KERNEL["contamination"],
        "n_neighbors": [0, 1.5, "three", None, True],
        "max_samples": [0, 2.5, None],
    },
    RobustCovarianceDetector: {
        "contamination": KERNEL["contamination"],
        "support_fraction": [0.4, 1.1, "some", None],
    },
}


@pytest.mark.filterwarnings("ignore:X has feature names:UserWarning")  # where fit saw none
@pytest.mark.filterwarnings("ignore:n_components=.* rows. there are:UserWarning")
@every_class
def test_unusable_rows_are_refused_with_a_remedy(make):
    fitted = make().fit(FOUR)
    for rows, words in BAD_DATA.values():
        for refuses in (make().fit, fitted.score_samples):
            with pytest.raises((ValueError, TypeError), match=re.escape(words)):
                refuses(rows)


@cases("make", [SVDD, OneClassGP, KernelPCADetector])
def test_unusable_labels_and_weights_are_refused(make):
    for data, words in BAD_ARGUMENTS.values():
        if make is SVDD or "y" not in data:  # the others do not look at y
            with pytest.raises(ValueError, match=re.escape(words)):
                make().fit(FOUR, **data)


@every_class
def test_a_bad_parameter_is_named_with_what_came(make):
    for parameter, values in BAD_PARAMETERS[make].items():
        others = {"kernel": "poly"} if parameter in ("degree", "coef0") else {}
        for value in values:
            with pytest.raises(ValueError, match=rf"\b{parameter}\b") as told:
                make(**{parameter: value}, **others).fit(FOUR)
            assert repr(value) in str(told.value)
            assert re.search(r"must be|is not", str(told.value))


@cases(
    "made, advice",
    [
        (OneClassGP(gamma="auto"), ['"narrow", "scale" or "median"', "gamma_from_sigma(sigma)"]),
        (SVDD(kernel="gaussian"), ["rbf", "function of two rows"]),
        (SVDD(contamination=0.9), ['Or pass "auto"', "share of unseen rows like the training"]),
        (SVDD(approximation="fourier"), ["None, 'auto', 'nystroem'; got 'fourier'"]),
        (KernelPCADetector(n_components=1.5), ["whole number", "share of the variance"]),
        (GMMDetector(score_type="mean"), ["'mahalanobis', 'log_likelihood'"]),
    ],
)
def test_messages_tell_what_to_do(made, advice):
    with pytest.raises(ValueError, match=re.escape(advice[0])) as told:
        made.fit(FOUR)
    assert all(words in str(told.value) for words in advice)


def refusals(make):
    """Parameters and data that a fit refuses."""
    for rows, _ in BAD_DATA.values():
        yield {}, {"X": rows}
    yield {}, {"X": pd.DataFrame(FOUR, columns=["height", 2])}  # names of two kinds
    for parameter, values in BAD_PARAMETERS[make].items():
        yield {parameter: values[0]}, {}
    if make is SVDD:
        for data, _ in BAD_ARGUMENTS.values():
            yield {}, data
        yield {"C": 0.01}, {}
        yield {"C": 0.01, "approximation": "nystroem"}, {}
    if make is OneClassGP:
        yield {"kernel": lambda x, z: -float(x @ z), "approximation": None, "noise": 1e-9}, {}


@every_class
def test_a_refused_fit_leaves_no_trace(make):
    for parameters, data in refusals(make):
        made = make(**parameters)
        with pytest.raises((ValueError, TypeError)):
            made.fit(**{"X": FOUR, **data})
        assert state(made) == {}, (parameters, data)


@every_class
def test_a_refused_fit_leaves_an_earlier_one_as_it_was(make, X):
    fitted = make().fit(pd.DataFrame(X, columns=NAMES))
    before, defaults = state(fitted), make().get_params()
    for parameters, data in refusals(make):
        fitted.set_params(**{**defaults, **parameters})
        with pytest.raises((ValueError, TypeError)):
            fitted.fit(**{"X": FOUR, **data})
        after = state(fitted)
        assert after.keys() == before.keys(), (parameters, data)
        assert all(after[key] is before[key] for key in before), (parameters, data)
