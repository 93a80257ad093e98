"""What a user of scikit-learn expects of a fused detector."""

import warnings
from unittest import SkipTest

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from helpers.contract import OTHER_LABELS_IN_SCORE, refused_labels
from helpers.pools import Distance, both, normal_rows
from lpfuse import SVDD, FusedDetector, KernelPCADetector, LpFusion, OneClassGP, TwoSidedMinMax
from lpfuse.adapters import ScoreColumn, ScoreFunction
from lpfuse.ensemble.rows import TrainingRowsWarning, places_in_training

AUC = make_scorer(roc_auc_score, response_method="decision_function")
X, Y = both(60, 10)
NEW = np.vstack([normal_rows(8, seed=8), both(2, 8, seed=9)[0]])
NAMES = ["height", "width", "depth", "weight"]
QUICK = [("near", Distance(), [0, 1]), ("far", Distance(), [2, 3]), ("all", Distance(power=2))]


class LabelsDropped(FusedDetector):
    """Fit without y: scikit-learn's checks feed labels other than ±1, which we refuse."""

    def fit(self, X, y=None):
        return super().fit(X)


POOLS = {
    "shared preparation": {
        "detectors": [
            ("gp", make_pipeline(StandardScaler(), OneClassGP())),
            ("kpca", make_pipeline(StandardScaler(), KernelPCADetector(1))),
        ],
        "contamination": 0.2,
    },
    "split": {
        "detectors": [
            ("svdd", SVDD()),
            ("lof", LocalOutlierFactor(n_neighbors=3, novelty=True)),
        ],
        "calibration": "split",
    },
}

THRESHOLDS = ("check_outliers_train", "check_outliers_fit_predict")
# The checks of scikit-learn that feed the labels 0, 1, 2 or 1, 2, which are refused: the exceptions
# of docs/adr/0007.
OTHER_LABELS = {
    "check_classifier_data_not_an_array",
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimators_dtypes",
    "check_estimators_fit_returns_self",
    "check_estimators_overwrite_params",
    "check_f_contiguous_array_estimator",
    "check_fit2d_1feature",
    "check_fit2d_predict1d",
    "check_fit_score_takes_y",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
}
# Those that feed 0 and 1, which may be refused as well.
TWO_LABELS = {
    "check_estimators_pickle",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_n_features_in",
}

# Some checks feed rows by the dozen, and a share of them to set the threshold with.
few_rows = pytest.mark.filterwarnings(
    "ignore:.*normal rows cannot hold false alarms:UserWarning",
    "ignore::lpfuse.detectors.KernelWidthWarning",
    # Detectors on few rows, or rows that are all alike, have little to say.
    "ignore:.*give most normal rows the same score:UserWarning",
    "ignore:.*rank all rows alike:UserWarning",
    "ignore:The constraint .* is not active:UserWarning",
    "ignore:The best weights are zero:UserWarning",
    "ignore:y holds 1 and 0:UserWarning",
    "ignore:Consecutive rows resemble each other:UserWarning",  # iris is sorted by its species
)


def expected_failures(_):
    reason = "contamination is a share of held-out scores, not of training"
    return dict.fromkeys(THRESHOLDS, reason) | refused_labels()


def labels_dropped(pool):
    return [LabelsDropped(cv=2, random_state=0, **POOLS[pool])]


@few_rows
@parametrize_with_checks(
    labels_dropped("shared preparation"), expected_failed_checks=expected_failures
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@few_rows
@pytest.mark.slow
@parametrize_with_checks(labels_dropped("split"), expected_failed_checks=expected_failures)
def test_scikit_learn_contract_with_split_calibration(estimator, check):
    check(estimator)


@few_rows
@pytest.mark.slow
def test_which_checks_feed_other_labels_is_what_the_guide_says():
    """`check_estimator` on the class itself: what is excepted, and for which reason."""
    fused = FusedDetector([("near", Distance()), ("far", Distance(power=2))], cv=2, random_state=0)
    excepted, others = set(), {}
    for checked, check in estimator_checks_generator(fused):
        name = getattr(check, "func", check).__name__
        try:
            check(checked)
        except SkipTest:
            continue
        except Exception as error:
            told = f"{error} {error.__cause__}"
            labels = "+1 (normal)", "-1 (anomaly)", "y holds only 0 and 1"
            if any(words in told for words in labels):
                excepted.add(name)
            else:
                others[name] = told
    assert set(others) <= set(THRESHOLDS), others
    assert excepted >= set(OTHER_LABELS_IN_SCORE)
    assert excepted - TWO_LABELS == OTHER_LABELS


# The default pool in the checks that ask most of an estimator; all of them would take long.
CHECKS = [
    "check_fit2d_1sample",
    "check_methods_sample_order_invariance",
    "check_n_features_in_after_fitting",
]


@few_rows
@pytest.mark.parametrize("name", CHECKS)
def test_the_default_pool_keeps_the_contract(name):
    default = LabelsDropped(cv=2, random_state=0)
    checks = [
        check
        for _, check in estimator_checks_generator(default)
        if getattr(check, "func", check).__name__ == name
    ]
    assert checks
    for check in checks:
        check(default)


def test_nothing_can_be_asked_before_fit():
    methods = ("score_samples", "decision_function", "predict", "pvalues", "contributions")
    for method in (*methods, "detector_scores"):
        with pytest.raises(NotFittedError):
            getattr(FusedDetector(), method)(X)
    for attribute in ("weights_", "certificate_", "detectors_", "detector_names_", "calibration_"):
        assert not hasattr(FusedDetector(), attribute)


def test_parameters_are_stored_untouched_until_fit():
    for parameter in FusedDetector().get_params():
        nonsense = object()
        assert FusedDetector(**{parameter: nonsense}).get_params()[parameter] is nonsense
        changed = FusedDetector().set_params(**{parameter: nonsense})
        assert changed.get_params(deep=False)[parameter] is nonsense
    for nonsense in ([("a",)], {"a": SVDD()}, "papers"):
        assert FusedDetector(nonsense).set_params(cv=3).get_params()["detectors"] is nonsense
        with pytest.raises(ValueError, match=r"detectors must be|There is no detector 'papers'"):
            FusedDetector(nonsense).fit(X)
    with pytest.raises(ValueError, match=r"pass detectors=\['lof', 'gmm'\]"):
        FusedDetector("lof, gmm").fit(X)


def test_a_clone_has_the_same_parameters_and_no_memory():
    fused = FusedDetector(QUICK, fusion=LpFusion(p=3), cv=3, random_state=0).fit(X)
    copy = clone(fused)
    assert not [name for name in vars(copy) if name.endswith("_")]
    assert repr(copy) == repr(fused)
    np.testing.assert_array_equal(copy.fit(X).score_samples(NEW), fused.score_samples(NEW))
    assert copy.detectors[0][1] is not fused.detectors[0][1]


def test_parameters_of_parts_have_names():
    fused = FusedDetector(
        [("svdd", make_pipeline(StandardScaler(), SVDD())), ("near", Distance(), [0, 1])],
        fusion=LpFusion(),
        scaler=TwoSidedMinMax(),
    )
    parameters = fused.get_params()
    assert parameters["svdd__svdd__nu"] == 0.1 == SVDD().nu
    assert {"fusion__p", "scaler__rho", "near__power", "svdd", "near"} <= parameters.keys()
    fused.set_params(svdd__svdd__nu=0.3, near__power=2.0, fusion__p=7, scaler__rho=1)
    assert fused.detectors[0][1][-1].nu == 0.3
    assert (fused.detectors[1][1].power, fused.fusion.p, fused.scaler.rho) == (2.0, 7, 1)
    assert fused.detectors[1][2] == [0, 1]
    fused.set_params(near=SVDD(), near__nu=0.2)  # the detector first, then its parameter
    assert repr(fused.detectors[1]) == repr(("near", SVDD(nu=0.2), [0, 1]))
    with pytest.raises(ValueError, match="Invalid parameter 'far'"):
        fused.set_params(far__nu=1)


def test_names_of_detectors_do_not_hide_parameters():
    for name in ("cv", "fusion", "a__b"):
        with pytest.raises(ValueError, match=f"cannot be called '{name}'"):
            FusedDetector([(name, SVDD())]).fit(X)


def test_behind_other_steps_of_a_pipeline():
    moved = 100 * X + 7
    scaler = StandardScaler().fit(moved)
    fused = FusedDetector(QUICK, random_state=0)
    pipeline = make_pipeline(StandardScaler(), clone(fused)).fit(moved, Y)
    alone = fused.fit(scaler.transform(moved), Y)
    for method in ("score_samples", "decision_function", "predict"):
        np.testing.assert_array_equal(
            getattr(pipeline, method)(NEW), getattr(alone, method)(scaler.transform(NEW))
        )


@pytest.mark.filterwarnings("ignore:The constraint .* is not active")
def test_parameters_can_be_chosen_by_grid_search():
    fused = FusedDetector(QUICK, fusion=LpFusion(), cv=2, random_state=0)
    grid = {
        "fusion__p": [1, 2, float("inf")],
        "near__power": np.array([1.0, 3.0]),
        "cv": [2, "in-sample"],
    }
    search = GridSearchCV(fused, grid, scoring=AUC, cv=2, error_score="raise").fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(set(search.cv_results_["mean_test_score"])) > 2
    assert search.best_score_ > 0.6
    assert search.best_estimator_.fusion_.p == search.best_params_["fusion__p"]
    assert np.isfinite(search.score_samples(NEW)).all()


def test_cross_validation_by_area_under_the_curve():
    fused = FusedDetector(QUICK, random_state=0)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(fused, X, Y, cv=folds, scoring="roc_auc", error_score="raise")
    expected = [
        roc_auc_score(Y[test], clone(fused).fit(X[learn], Y[learn]).decision_function(X[test]))
        for learn, test in folds.split(X, Y)
    ]
    np.testing.assert_array_equal(scores, expected)


def test_what_is_frozen_survives_cross_validation():
    before = normal_rows(30, seed=4)
    pool = [(f"{j}", FrozenEstimator(Distance().fit(before[:, [j]])), [j]) for j in range(4)]
    fused = FusedDetector(pool, cv="prefit")
    scores = cross_val_score(fused, X, Y, cv=3, scoring=AUC, error_score="raise")
    assert np.isfinite(scores).all()


def test_fit_predict_judges_rows_by_fits_without_them():
    rows = X[::-1]
    fused = FusedDetector(QUICK, random_state=0)
    found = fused.fit_predict(rows)
    np.testing.assert_array_equal(found, np.where(fused.fitted_scores_ >= fused.offset_, 1, -1))
    np.testing.assert_array_equal(fused.fitted_labels_, found)
    place = places_in_training(fused.rows_, rows)
    np.testing.assert_array_equal(fused.fitted_scores_, fused.held_out_.fused[place])


def test_predicting_training_rows_is_told():
    fused = FusedDetector(QUICK, random_state=0).fit(X)
    y = np.where(np.arange(len(X)) < 5, -1, 1)
    with pytest.warns(TrainingRowsWarning, match="fitted_labels_"):
        fused.predict(X)
    with pytest.warns(TrainingRowsWarning, match="the AUC is higher than on new rows"):
        fused.score(X, y)
    with warnings.catch_warnings(action="error"):
        fused.predict(X[:10])
        fused.predict(X + 1e-9)
        fused.score(X + 1e-9, y)


def test_rows_that_no_detector_learnt_from_are_no_training_rows():
    columns = [("a", ScoreColumn("normal"), [0]), ("b", ScoreColumn("normal"), [1])]
    fused = FusedDetector(columns, cv="prefit", random_state=0).fit(X[:, :2])
    with warnings.catch_warnings(action="error"):
        fused.predict(X[:, :2])


# ------------------------------------------------------------------------------- kinds of tables


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (None, r"or a data frame, got None \(NoneType\)"),
        ("rows.csv", r"got 'rows.csv' \(str\).* pandas.read_csv\(X\)"),
        ({"a": [1.0, 2.0]}, r"\(dict\).* pandas.DataFrame\(X\)"),
        ((1.0, 2.0, 3.0), r"got 1D of shape \(3,\). Reshape your data with \(-1, 1\)"),
        (np.ones((4, 2, 2)), r"got 3D of shape \(4, 2, 2\). Reshape your data with \(len\(X\), -1"),
        (pd.Series([1.0, 2.0]), r"got 1D of shape \(2,\). Reshape your data"),
        (pl.Series([1.0, 2.0]), r"got 1D of shape \(2,\). Reshape your data"),
        (X[:0], "at least one row and one column, got|Found array with 0 sample"),
    ],
)
def test_what_is_no_table_is_refused_in_fit_and_predict(rows, told):
    for train in (X, pd.DataFrame(X, columns=list("abcd")).assign(kind=["x", "y"] * (len(X) // 2))):
        fused = FusedDetector(["gmm"], random_state=0).fit(train)
        for work in (FusedDetector(["gmm"]).fit, fused.predict):
            with pytest.raises(ValueError, match=told):
                work(rows)


def test_no_rows_are_refused():
    frame = pd.DataFrame(X, columns=list("abcd"))
    for train in (X, frame):
        with pytest.raises(ValueError, match=r"at least one row and one column, got \(0, 4\)"):
            FusedDetector(["gmm"], random_state=0).fit(train).predict(frame[:0])


def test_names_that_the_fit_did_not_have_are_told_once():
    fused = FusedDetector(["gmm", "kpca", "histogram"], random_state=0).fit(X)
    with warnings.catch_warnings(record=True, action="always") as told:
        found = fused.score_samples(pd.DataFrame(X, columns=list("abcd")))
    assert [str(each.message) for each in told] == [
        "X has feature names, but FusedDetector was fitted without feature names"
    ]
    np.testing.assert_array_equal(found, fused.score_samples(X))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_names_of_columns_are_kept_and_compared(frame):
    pool = [*QUICK, ("expert", LogisticRegression(), ["width"])]
    fused = FusedDetector(pool, random_state=0).fit(frame(dict(zip(NAMES, X.T, strict=True))), Y)
    assert fused.feature_names_in_.tolist() == NAMES
    assert fused.n_features_in_ == 4
    positions = [*QUICK, ("expert", LogisticRegression(), [1])]
    plain = FusedDetector(positions, random_state=0).fit(X, Y)
    assert not hasattr(plain, "feature_names_in_")
    new = frame(dict(zip(NAMES, NEW.T, strict=True)))
    np.testing.assert_allclose(fused.decision_function(new), plain.decision_function(NEW))
    for names in (["a", "b", "c", "d"], NAMES[::-1]):
        with pytest.raises(ValueError, match="feature names"):
            fused.predict(frame(dict(zip(names, NEW.T, strict=True))))
    with pytest.raises(ValueError, match="3 features, but FusedDetector is expecting 4"):
        plain.predict(NEW[:, :3])


def test_names_that_are_missing_when_scoring_are_told():
    fused = FusedDetector(QUICK, random_state=0).fit(pd.DataFrame(X, columns=NAMES))
    with pytest.warns(UserWarning, match="does not have valid feature names, but FusedDetector"):
        fused.predict(NEW)


def test_frames_without_names():
    frame = pd.DataFrame(X)
    fused = FusedDetector([*QUICK, ("expert", LogisticRegression())], random_state=0).fit(frame, Y)
    plain = FusedDetector([*QUICK, ("expert", LogisticRegression())], random_state=0).fit(X, Y)
    assert not hasattr(fused, "feature_names_in_")
    np.testing.assert_allclose(fused.score_samples(pd.DataFrame(NEW)), plain.score_samples(NEW))


def test_rows_may_have_any_index():
    frame = pd.DataFrame(X, columns=NAMES, index=np.random.default_rng(0).permutation(70) + 1000)
    y = pd.Series(Y, index=frame.index)
    pool = [*QUICK, ("expert", LogisticRegression())]
    fused = FusedDetector(pool, artificial_anomalies=True, random_state=0).fit(frame, y)
    plain = FusedDetector(pool, artificial_anomalies=True, random_state=0).fit(X, Y)
    np.testing.assert_allclose(fused.score_samples(frame), plain.score_samples(X))


def paint(rows, frame):
    """The rows as a frame with a column of words, which tells what the first number would."""
    columns = dict(zip(NAMES, rows.T, strict=True))
    colours = np.array(["red", "green", "blue"])[np.digitize(rows[:, 0], [-0.5, 0.5])]
    return frame(columns | {"colour": colours.tolist()})


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("pure", [True, False])
def test_words_for_some_detectors_and_numbers_for_others(frame, pure):
    table, new = paint(X, frame), paint(NEW, frame)
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    words = make_column_transformer((encoder, ["colour"]), (StandardScaler(), ["width", "depth"]))
    pool = [
        ("words", make_pipeline(words, SVDD())),
        ("numbers", Distance(), NAMES),
        ("forest", make_pipeline(clone(words), IsolationForest(n_estimators=3))),
        ("expert", make_pipeline(clone(words), LogisticRegression())),
    ]
    y = None if pure else Y
    fused = FusedDetector(pool[: 3 + (not pure)], artificial_anomalies=pure, cv=3, random_state=0)
    fused.fit(table, y)
    raw = fused.detector_scores(new)
    normal = table if pure else paint(X[Y > 0], frame)
    alone = make_pipeline(clone(words), SVDD()).fit(normal)
    np.testing.assert_allclose(raw[:, 0], alone.score_samples(new), rtol=1e-9)
    assert raw.shape == (len(NEW), 3 + (not pure))
    assert np.isfinite(fused.decision_function(new)).all()


def test_words_for_a_numeric_detector_raise_with_its_name():
    with pytest.raises(ValueError, match="colour") as caught:
        FusedDetector([*QUICK[:2], ("svdd", SVDD())]).fit(paint(X, pd.DataFrame), columns="as-is")
    assert "while fitting 'svdd'" in caught.value.__notes__[0]


@pytest.mark.filterwarnings("ignore:Some detectors could not score some rows")
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_missing_words_and_numbers(frame):
    columns = paint(X, dict)
    columns["colour"] = [c if i % 7 else None for i, c in enumerate(columns["colour"])]
    columns["width"] = [w if i % 5 else None for i, w in enumerate(columns["width"].tolist())]
    table = frame(columns)
    encoder = OneHotEncoder(sparse_output=False)
    pool = [
        ("filled", make_pipeline(SimpleImputer(), Distance()), NAMES),
        ("gappy", Distance(), NAMES),
        ("words", make_pipeline(encoder, KernelPCADetector(1)), ["colour"]),
        ("picky", make_pipeline(FunctionTransformer(refuse_missing), clone(encoder),
                                KernelPCADetector(2)), ["colour"]),
    ]  # fmt: skip
    fused = FusedDetector(pool, random_state=0).fit(table)
    gaps = np.isnan(fused.detector_scores(table))
    assert not gaps[:, 0].any()
    np.testing.assert_array_equal(gaps[:, 1], np.arange(70) % 5 == 0)
    assert not gaps[:, 2].any()  # to the encoder, missing is one more colour
    np.testing.assert_array_equal(gaps[:, 3], np.arange(70) % 7 == 0)


def refuse_missing(X):
    if any(not isinstance(cell, str) for cell in np.asarray(X).ravel().tolist()):
        raise ValueError("There is a cell missing.")
    return X


def test_single_precision_and_whole_numbers():
    fused = FusedDetector(QUICK, random_state=0).fit(X)
    single = FusedDetector(QUICK, random_state=0).fit(X.astype(np.float32))
    scores = single.score_samples(NEW.astype(np.float32))
    assert scores.dtype == np.float64  # detectors of many makers: their scores meet in double
    np.testing.assert_allclose(scores, fused.score_samples(NEW), rtol=1e-3, atol=1e-3)
    whole = (10 * X).astype(int)
    np.testing.assert_array_equal(
        FusedDetector(QUICK, random_state=0).fit(whole).score_samples(whole),
        FusedDetector(QUICK, random_state=0).fit(whole * 1.0).score_samples(whole * 1.0),
    )


@pytest.mark.filterwarnings("ignore:The constraint .* is not active")
@pytest.mark.filterwarnings("ignore:Scores of .* are higher for known anomalies")
def test_scores_from_files():
    """The recipe "I have score files": columns are scores, in either direction."""
    scores = pd.DataFrame({"mine": X[:, 0], "theirs": -X[:, 1], "third": X[:, 2] ** 2})
    pool = [
        ("mine", ScoreColumn(high="normal"), "mine"),
        ("theirs", ScoreColumn(high="anomaly"), "theirs"),
        ("made", ScoreFunction(lambda X: X[:, 0], high="anomaly"), ["third"]),
    ]
    for cv in (5, "prefit", "in-sample"):
        fused = FusedDetector(pool, cv=cv, random_state=0).fit(scores, Y)
        raw = fused.detector_scores(scores)
        np.testing.assert_array_equal(raw, np.column_stack([X[:, 0], X[:, 1], -(X[:, 2] ** 2)]))


def test_threshold_can_be_set():
    fused = FusedDetector(QUICK, random_state=0).fit(X, Y)
    fused.offset_ = float(np.median(fused.score_samples(X)))
    assert (fused.predict(X) < 0).sum() == len(X) // 2
