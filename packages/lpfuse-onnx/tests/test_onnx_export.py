"""A model of ONNX says what the estimator says."""

import warnings

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.covariance import EllipticEnvelope
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    RidgeClassifier,
    SGDClassifier,
    SGDOneClassSVM,
)
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, LocalOutlierFactor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC, OneClassSVM
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from helpers.pairwise import each_value
from lpfuse import (
    SVDD,
    ColumnForest,
    FixedRule,
    FusedDetector,
    GMMDetector,
    HistogramDetector,
    KernelPCADetector,
    KNNDetector,
    LOFDetector,
    LpFusion,
    OneClassGP,
    RobustCovarianceDetector,
    TailScaler,
    TwoSidedMinMax,
)
from lpfuse.adapters import ClassifierExpert, PyODDetector, ScoreColumn, ScoreFunction
from lpfuse.ensemble.pool import MeanOfFits
from lpfuse.selection import FusedDetectorCV
from lpfuse.views import NormalQuantiles
from lpfuse_onnx import to_onnx
from lpfuse_onnx.graph import Graph

rng = np.random.default_rng(0)
UNITS, PLACE = np.array([1.0, 20.0, 0.1, 1.0]), np.array([0.0, 100.0, 0.0, -3.0])
X = rng.normal(size=(120, 4)) * UNITS + PLACE
ANOMALIES = (rng.normal(size=(30, 4)) * 1.5 + 2.0) * UNITS + PLACE
BOTH, Y = np.vstack([X, ANOMALIES]), np.repeat([1, -1], [120, 30])
NEW = np.vstack([rng.normal(size=(150, 4)) * 3 * UNITS + PLACE, PLACE + 100 * UNITS, X[:20]])


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    with threadpool_limits(1):
        yield


def run(model, rows):
    """The outputs of a model, by name."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": rows}), strict=True))


METHODS = {
    "scores": "score_samples",
    "decision": "decision_function",
    "label": "predict",
    "contributions": "contributions",
    "transformed": "transform",
}


def answer(estimator, method, rows):
    if method == "contributions" and isinstance(estimator, Pipeline):
        estimator, rows = estimator[-1], estimator[:-1].transform(rows)
    return getattr(estimator, method)(rows)


def assert_same(estimator, rows=NEW, within=1e-9):
    """Every output is what the estimator says, within that share of its spread."""
    for dtype in (np.float64, np.float32):
        single = rows.astype(dtype)
        found = run(to_onnx(estimator, dtype=dtype), single)
        asked = single.astype(np.float64)
        spread = None
        for name, values in found.items():
            expected = answer(estimator, METHODS[name], asked)
            assert values.shape == expected.shape
            if name == "label":
                near = np.abs(found["decision"]) <= 2 * within * spread
                np.testing.assert_array_equal(values[~near], expected[~near])
                assert values.dtype == np.int64
                continue
            spread = np.ptp(expected)
            assert np.abs(values - expected).max() <= within * spread
        assert spread > 0


# ------------------------------------------------------------------------------------ our learners

FEW = {"approximation": "nystroem", "n_components": 20, "random_state": 0}
SCALED = [StandardScaler().fit(X).transform(rows) for rows in (X, NEW)]


@pytest.mark.parametrize(
    "detector",
    [
        SVDD(),
        SVDD(kernel="linear", nu=0.3),
        SVDD(kernel="poly", coef0=2.0, nu=0.3),
        SVDD(kernel="cosine", nu=0.3),
        SVDD(kernel="sigmoid", gamma=0.01, nu=0.3),
        SVDD(contamination=0.2, **FEW),
        OneClassGP(),
        OneClassGP("variance"),
        OneClassGP("density"),
        OneClassGP("ratio", gamma=0.05),
        OneClassGP("density", kernel="laplacian"),
        OneClassGP("variance", kernel="poly", degree=2),
        OneClassGP("density", **FEW),
        KernelPCADetector(),
        KernelPCADetector(0.9, gamma="narrow"),
        KernelPCADetector(5, approximation="nystroem", n_approximation=20, random_state=0),
        GMMDetector(random_state=0),
        GMMDetector(2, "log_likelihood", random_state=0),
        *(
            GMMDetector(2, score, shape, random_state=0)
            for score in ("mahalanobis", "log_likelihood")
            for shape in ("tied", "diag", "spherical")
        ),
    ],
    ids=lambda detector: repr(detector).replace("\n", "")[:70],
)
@pytest.mark.filterwarnings("ignore::lpfuse.detectors.KernelWidthWarning")
def test_our_learners(detector):
    assert_same(detector.fit(SCALED[0]), SCALED[1], within=1e-7)


def test_a_learner_far_from_the_origin_keeps_its_digits():
    assert_same(SVDD(gamma=0.3).fit(SCALED[0] + 1e6), SCALED[1] + 1e6, within=1e-6)


def test_a_learner_that_was_fitted_in_single_precision():
    detector = OneClassGP("density").fit(SCALED[0].astype(np.float32))
    assert_same(detector, SCALED[1])


def test_a_learner_that_was_fitted_on_tensors():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for detector in (SVDD(**FEW), OneClassGP()):
        detector.fit(torch.tensor(SCALED[0]))
        found = run(to_onnx(detector), SCALED[1])["scores"]
        np.testing.assert_allclose(found, detector.score_samples(SCALED[1]), atol=1e-9)


# Columns with few values, one with a single one, and many numbers; new rows have other ones too.
FEW_VALUES = np.column_stack([X, rng.integers(0, 3, 120) * 0.1, np.full(120, 7.0)])
OTHERS = rng.integers(0, 5, len(NEW)) * 0.1, rng.integers(7, 9, len(NEW))
NEW_VALUES = np.column_stack([NEW, *OTHERS])
VIEWS = [NormalQuantiles(), StandardScaler()]


@each_value(
    detector=[
        KNNDetector(),
        KNNDetector(200),
        KNNDetector(1, n_subspaces=8, random_state=0),
        KNNDetector(3, n_subspaces=3, max_samples=10, random_state=0),
        HistogramDetector(),
        ColumnForest(random_state=0),
        LOFDetector(),
        LOFDetector(5, max_samples=10, random_state=0),
        RobustCovarianceDetector(),
    ],
    view=VIEWS,
)
def test_views_and_learners_of_columns(view, detector):
    pipeline = make_pipeline(clone(view), clone(detector)).fit(FEW_VALUES)
    assert_same(pipeline, np.vstack([NEW_VALUES, FEW_VALUES]), within=1e-5)


@pytest.mark.parametrize("detector", [KNNDetector(), HistogramDetector(), ColumnForest()], ids=str)
def test_a_learner_of_one_column(detector):
    assert_same(make_pipeline(NormalQuantiles(), clone(detector)).fit(X[:, :1]), NEW[:, :1], 1e-5)
    assert_same(clone(detector).fit(X[:, :1]), NEW[:, :1], within=1e-5)


def test_a_fused_detector_of_views():
    pool = [
        ("neighbours", make_pipeline(NormalQuantiles(), KNNDetector(1, 8, random_state=0))),
        ("columns", make_pipeline(NormalQuantiles(), ColumnForest(random_state=0))),
        ("histogram", HistogramDetector()),
    ]
    assert_same(FusedDetector(pool, cv=3, random_state=0).fit(BOTH, Y), within=1e-5)


@each_value(clip=[False, True, "soft"], feature_range=[(-1, 1), (0, 3)])
def test_scaling(clip, feature_range):
    assert_same(TwoSidedMinMax(10.0, feature_range, clip).fit(X))


def test_scaling_by_cubes():
    scaler = TailScaler().fit(X)
    far = np.vstack([NEW, X.mean(axis=0) - 1e6 * UNITS])  # beyond where it becomes logarithmic
    for rows in (NEW, far):
        assert_same(scaler, rows)


@pytest.mark.filterwarnings("ignore:Scores have no spread")
@pytest.mark.parametrize("scaler", [TailScaler(), TwoSidedMinMax()], ids=str)
def test_a_column_without_spread_becomes_the_middle(scaler):
    flat = X.copy()
    flat[:, 1] = 7.0
    assert_same(clone(scaler).fit(flat))


@pytest.mark.filterwarnings("ignore:Scores of .* are higher for known anomalies")
@pytest.mark.parametrize(
    "fusion", [LpFusion(p=2, fit_intercept=True, class_weight="balanced"), LpFusion(1), FixedRule()]
)
def test_weights(fusion):
    scaler = StandardScaler().fit(X)
    assert_same(fusion.fit(scaler.transform(BOTH), Y), scaler.transform(NEW))


@pytest.mark.filterwarnings("ignore:Scores of .* are higher for known anomalies")
def test_a_pipeline_of_scores():
    assert_same(make_pipeline(TwoSidedMinMax(), LpFusion(p=2, fit_intercept=True)).fit(BOTH, Y))


# ------------------------------------------------------------------------------- scikit-learn's


@pytest.mark.parametrize(
    "step",
    [
        "passthrough",
        StandardScaler(),
        StandardScaler(with_mean=False),
        StandardScaler(with_std=False),
        RobustScaler(),
        RobustScaler(with_centering=False),
        RobustScaler(with_scaling=False),
        MinMaxScaler((-1, 1), clip=True),
        MinMaxScaler(),
        MaxAbsScaler(),
        PCA(3),
        PCA(2, whiten=True),
        FrozenEstimator(StandardScaler().fit(BOTH)),
        make_pipeline(StandardScaler(), PCA(2)),
        QuantileTransformer(n_quantiles=10),
    ],
    ids=lambda step: repr(step)[:50],
)
def test_preparation(step):
    pipeline = Pipeline([("prepare", step), ("detect", GMMDetector(2, random_state=0))]).fit(X)
    assert_same(pipeline)


@pytest.mark.parametrize(
    "detector",
    [
        IsolationForest(n_estimators=40, random_state=0),
        IsolationForest(n_estimators=40, max_features=2, max_samples=60, random_state=0),
        IsolationForest(n_estimators=5, max_samples=1, random_state=0),
        LocalOutlierFactor(novelty=True),
        LocalOutlierFactor(novelty=True, p=3),
        LocalOutlierFactor(5, novelty=True, metric="manhattan"),
        OneClassSVM(nu=0.2),
        OneClassSVM(kernel="poly", nu=0.2, coef0=1.0),
        OneClassSVM(kernel="sigmoid", nu=0.2, gamma=0.01),
        OneClassSVM(kernel="linear", nu=0.2),
        SGDOneClassSVM(random_state=0),
        EllipticEnvelope(random_state=0),
        GaussianMixture(3, random_state=0),
    ],
    ids=lambda detector: repr(detector)[:70],
)
def test_detectors_of_scikit_learn(detector):
    pipeline = make_pipeline(StandardScaler(), detector)
    assert_same_scores(ScoreFunction(pipeline, high="anomaly", method="score_samples"), NEW)
    if hasattr(detector, "decision_function"):
        assert_same_scores(ScoreFunction(pipeline, high="normal"), NEW)


def test_a_column_of_scores_from_elsewhere():
    detectors = [(str(j), ScoreColumn(high=("normal", "anomaly")[j]), [j]) for j in range(2)]
    assert_same(fused(detectors=detectors))


EXPERTS = [
    ExtraTreesClassifier(30, random_state=0),
    RandomForestClassifier(30, min_samples_leaf=2, class_weight="balanced", random_state=0),
    DecisionTreeClassifier(min_samples_leaf=5, random_state=0),
    GradientBoostingClassifier(n_estimators=20, random_state=0),
    GradientBoostingClassifier(n_estimators=5, init="zero", random_state=0),
    HistGradientBoostingClassifier(max_iter=20, min_samples_leaf=5),
    LogisticRegression(),
    LogisticRegressionCV(cv=2, Cs=3),
    LinearSVC(),
    RidgeClassifier(),
    SGDClassifier(random_state=0),
    LinearDiscriminantAnalysis(),
    SVC(),
    SVC(kernel="poly", degree=2),
    KNeighborsClassifier(),
    KNeighborsClassifier(1, metric="manhattan"),
    GaussianNB(),
    MLPClassifier(5, random_state=0, solver="lbfgs", max_iter=500),
]


@pytest.mark.parametrize("classifier", EXPERTS, ids=lambda classifier: repr(classifier)[:50])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_experts(classifier):
    assert_same_scores(ClassifierExpert(make_pipeline(StandardScaler(), classifier)), NEW)


def assert_same_scores(expert, rows):
    expert.fit(BOTH, Y)
    expert.offset_, expert.n_features_in_ = 0.0, 4  # which those in a fused detector do not need
    found, expected = run(to_onnx(expert), rows)["scores"], expert.score_samples(rows)
    assert np.abs(found - expected).max() <= 1e-6 * np.ptp(expected) + 1e-12


def test_rows_on_a_tree_threshold_take_the_same_branch():
    rows = np.arange(64.0)[:, None] / 8 + 0.1
    labels = np.where(rows.ravel() % 1 > 0.5, 1, -1)
    expert = ClassifierExpert(DecisionTreeClassifier(random_state=0)).fit(rows, labels)
    expert.offset_, expert.n_features_in_ = 0.0, 1
    thresholds = expert.classifier_.tree_.threshold[:, None]
    around = np.vstack([np.nextafter(thresholds, -9e9), thresholds, np.nextafter(thresholds, 9e9)])
    around = np.vstack([around, around.astype(np.float32)])
    found = run(to_onnx(expert), around)["scores"]
    np.testing.assert_allclose(found, expert.score_samples(around), atol=1e-5)


# ------------------------------------------------------------------------------- the fused detector


def fused(rows=BOTH, labels=Y, detectors=None, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FusedDetector(detectors, random_state=0, cv=2, **parameters).fit(rows, labels)


@pytest.mark.parametrize("labels", [pytest.param(None, marks=pytest.mark.slow), Y])
def test_the_default_pool(labels):
    assert_same(fused(labels=labels), within=1e-5)


def test_the_pool_of_the_paper():
    assert_same(fused(detectors="paper", threshold="g-mean"))


def test_columns_experts_and_prefit_parts():
    detectors = [
        ("svdd", make_pipeline(StandardScaler(), SVDD()), [0, 3]),
        ("forest", IsolationForest(n_estimators=20), slice(1, 3)),
        ("frozen", FrozenEstimator(make_pipeline(RobustScaler(), GMMDetector()).fit(X))),
        ("logistic", make_pipeline(StandardScaler(), LogisticRegression())),
        ("trees", ExtraTreesClassifier(20), [1, 2]),
    ]
    for scaler in (TwoSidedMinMax(clip=True), TailScaler()):
        detector = fused(detectors=detectors, scaler=scaler)
        assert_same(detector, within=1e-6)
        assert_same(FrozenEstimator(detector), within=1e-6)


def test_experts_alone():
    detectors = [("a", LogisticRegression()), ("b", GaussianNB())]
    assert_same(fused(detectors=detectors), within=1e-6)


def test_an_expert_is_the_mean_of_its_fits():
    logistic = make_pipeline(StandardScaler(), LogisticRegression())
    detectors = [("svdd", SVDD()), ("logistic", logistic)]
    for cv in (3, KFold(3, shuffle=True, random_state=0)):
        detector = FusedDetector(detectors, cv=cv, random_state=0).fit(BOTH, Y)
        assert isinstance(detector.pool_.experts[0].estimator, MeanOfFits) == (cv == 3)
        assert_same(detector, within=1e-6)
    experts = [ClassifierExpert(made).fit(BOTH, Y) for made in (clone(logistic), GaussianNB())]
    mean = MeanOfFits(experts)
    mean.offset_, mean.n_features_in_ = 0.0, 4
    found = run(to_onnx(mean), NEW)["scores"]
    expected = (experts[0].score_samples(NEW) + experts[1].score_samples(NEW)) / 2
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_an_expert_without_a_converter_is_named():
    detectors = [("svdd", SVDD()), ("curved", QuadraticDiscriminantAnalysis())]
    detector = FusedDetector(detectors, cv=3, random_state=0).fit(BOTH, Y)
    with pytest.raises(NotImplementedError, match="'curved': QuadraticDiscriminantAnalysis has no"):
        to_onnx(detector)


def test_a_detector_that_chose_its_parameters():
    detectors = [("svdd", make_pipeline(StandardScaler(), SVDD())), ("gmm", GMMDetector())]
    assert_same(FusedDetectorCV(detectors, cv=2, ps=[1, 2, 8], random_state=0).fit(BOTH, Y))


def test_names_of_columns_do_not_matter():
    frame = pd.DataFrame(BOTH, columns=list("abcd"))
    detector = fused(frame, detectors=[("a", SVDD(gamma=0.01), ["d", "b"]), ("b", GMMDetector())])
    found = run(to_onnx(detector), NEW)["scores"]
    expected = detector.score_samples(pd.DataFrame(NEW, columns=list("abcd")))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_row_with_a_gap_gets_no_score():
    forests = [(str(size), IsolationForest(n_estimators=size)) for size in (5, 10)]
    detector = fused(detectors=forests)  # which could do with gaps
    rows = NEW[:3].copy()
    rows[1, 2] = np.nan
    found = run(to_onnx(detector), rows)
    for name in ("scores", "decision", "contributions"):
        gaps = np.isnan(found[name].reshape(3, -1))
        np.testing.assert_array_equal(gaps.any(axis=1), [False, True, False])
    assert found["label"][1] == -1


def test_one_row_and_many(tmp_path):
    detector = fused()
    to_onnx(detector, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for rows in (NEW[:1], NEW, np.repeat(NEW, 10, axis=0)):
        scores, *_ = session.run(["scores"], {"X": rows})
        np.testing.assert_allclose(scores, detector.score_samples(rows), rtol=1e-5, atol=1e-6)


def test_constants_that_detectors_share_are_held_once():
    alone = OneClassGP(gamma=0.1).fit(SCALED[0])
    pair = [("a", OneClassGP(gamma=0.1)), ("b", OneClassGP(gamma=0.1, score_type="variance"))]
    one, two = to_onnx(alone), to_onnx(fused(SCALED[0], None, pair))
    anchors = [tensor for tensor in two.graph.initializer if list(tensor.dims) == [4, len(X)]]
    assert len(anchors) == 1
    assert sum(list(tensor.dims) == [4, len(X)] for tensor in one.graph.initializer) == 1


# ------------------------------------------------------------------------------------- refused


class Mine(SVDD):
    """Not the class that there is a converter for, whatever it inherits."""


@pytest.mark.parametrize(
    ("detector", "words"),
    [
        (ScoreFunction(lambda X: X[:, 0], high="normal"), "function has no converter"),
        (Mine(), "Mine has no converter to ONNX.*GMMDetector.*SVDD"),
        (SVDD(kernel="chi2"), "kernel='chi2' has no converter.*laplacian"),
        (make_pipeline(StandardScaler(), CalibratedClassifierCV(LinearSVC())), "Calibrated.*SVC"),
        (GradientBoostingClassifier(n_estimators=2, init=LogisticRegression()), "init=None only"),
        (
            HistGradientBoostingClassifier(max_iter=2, categorical_features=[0]),
            "columns of numbers only",
        ),
        (ScoreFunction(GaussianMixture(), "normal", "predict"), "method 'predict'"),
        (KNeighborsClassifier(weights="distance"), "uniform.* only, got 'distance'"),
        (LocalOutlierFactor(novelty=True, metric="canberra"), "skl2onnx cannot convert .*canberra"),
    ],
    ids=[
        "function",
        "class",
        "kernel",
        "classifier",
        "init",
        "categories",
        "method",
        "weights",
        "metric",
    ],
)
def test_what_has_no_converter_is_named(detector, words):
    rows = np.abs(BOTH)
    rows[:, 0] = np.arange(len(rows)) % 3
    last = detector[-1] if isinstance(detector, Pipeline) else detector
    detectors = [("odd", clone(detector)), ("gmm", GMMDetector())]
    model = fused(rows, Y if is_classifier(last) else None, detectors)
    with pytest.raises(NotImplementedError, match=f"(?s)Detector 'odd': .*{words}"):
        to_onnx(model)


# ------------------------------------------------------------------ gaps, and columns of their own

GAPS = BOTH.copy()
GAPS[::7, 1], GAPS[3::11, 2] = np.nan, np.nan
NEW_GAPS = NEW.copy()
NEW_GAPS[::3, 1], NEW_GAPS[1::4, 0], NEW_GAPS[5] = np.nan, np.nan, np.nan


def imputed(**how):
    return make_pipeline(SimpleImputer(**how), GMMDetector(2, random_state=0))


def in_columns(remainder="drop", **how):
    by_column = [
        ("late", make_pipeline(StandardScaler(), SimpleImputer(strategy="median")), [3, 1]),
        ("early", SimpleImputer(strategy="constant", fill_value=2.0), slice(0, 1)),
        ("nothing", StandardScaler(), []),
        ("left out", "drop", [0]),
    ]
    return ColumnTransformer(by_column, remainder=remainder, **how)


@pytest.mark.parametrize(
    "pipeline",
    [
        imputed(),
        imputed(strategy="most_frequent"),
        imputed(strategy="constant", fill_value=-1.0),
        imputed(add_indicator=True),
        make_pipeline(RobustScaler(), StandardScaler(), imputed(strategy="median")),
        make_pipeline(in_columns(), KernelPCADetector(5)),
        make_pipeline(
            in_columns(SimpleImputer()), IsolationForest(n_estimators=20, random_state=0)
        ),
        make_pipeline(in_columns(imputed()[0]), StandardScaler(), PCA(2), GMMDetector()),
    ],
    ids=lambda pipeline: repr(pipeline).replace("\n", "")[:60],
)
def test_rows_with_gaps_are_scored_where_an_imputer_fills_them(pipeline):
    fitted = clone(pipeline).fit(GAPS)
    assert_same(fitted, NEW_GAPS, within=1e-7)
    assert np.isfinite(run(to_onnx(fitted), NEW_GAPS)["scores"]).all()


@pytest.mark.parametrize("remainder", ["drop", "passthrough", StandardScaler()], ids=str)
def test_columns_of_a_transformer(remainder):
    before = [("two", StandardScaler(), [2, 0]), ("mask", MaxAbsScaler(), [False, True] * 2)]
    pipeline = make_pipeline(ColumnTransformer(before, remainder=remainder), GMMDetector())
    assert_same(pipeline.fit(X), within=1e-7)


def test_columns_of_a_transformer_by_name():
    frame = pd.DataFrame(X, columns=list("abcd"))
    before = ColumnTransformer([("two", StandardScaler(), ["d", "a"])], remainder="passthrough")
    pipeline = make_pipeline(before, GMMDetector()).fit(frame)
    found = run(to_onnx(pipeline), NEW)["scores"]
    expected = pipeline.score_samples(pd.DataFrame(NEW, columns=list("abcd")))
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_empty_columns_are_dropped_or_kept_by_the_imputer():
    rows = GAPS.copy()
    rows[:, 2] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scikit-learn, about the empty column
        for how in ({}, {"keep_empty_features": True}):
            fitted = make_pipeline(SimpleImputer(**how), GMMDetector(2, random_state=0)).fit(rows)
            assert_same(fitted, np.where(np.arange(4) == 2, np.nan, NEW_GAPS), within=1e-7)


def test_another_mark_of_a_gap():
    rows, new = np.nan_to_num(GAPS, nan=-999.0), np.nan_to_num(NEW_GAPS, nan=-999.0)
    assert_same(imputed(missing_values=-999.0).fit(rows), new, within=1e-7)


def test_members_of_a_fused_detector_fill_their_gaps():
    members = [
        ("gmm", imputed()),
        ("columns", make_pipeline(in_columns(SimpleImputer()), KNNDetector())),
        ("forest", make_pipeline(SimpleImputer(), IsolationForest(n_estimators=20)), [0, 1]),
        ("expert", make_pipeline(SimpleImputer(), LogisticRegression())),
    ]
    fused = FusedDetector(members, cv=3, random_state=0).fit(GAPS, Y)
    empty = np.isnan(NEW_GAPS[:, :2]).all(axis=1)  # "forest" is silent, and the others step in
    assert empty.sum() == 15
    assert_same(fused, NEW_GAPS[~empty], within=1e-6)
    found = run(to_onnx(fused), NEW_GAPS)
    np.testing.assert_array_equal(np.isnan(found["scores"]), empty)
    assert (found["label"][empty] == -1).all()


def test_one_member_that_fills_nothing_is_enough_for_nan():
    members = [("gmm", imputed()), ("plain", KNNDetector())]
    fused = FusedDetector(members, cv=3, random_state=0).fit(BOTH, Y)
    gaps = np.isnan(NEW_GAPS).any(axis=1)
    found = run(to_onnx(fused), NEW_GAPS)
    assert np.isnan(found["scores"][gaps]).all()
    assert np.isfinite(found["scores"][~gaps]).all()


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (FunctionTransformer(np.abs), "without a function it has one"),
        (ColumnTransformer([("power", PowerTransformer(), [0])]), "PowerTransformer has no"),
    ],
)
def test_other_steps_are_refused_by_name(step, words):
    pipeline = make_pipeline(step, GMMDetector()).fit(X)
    with pytest.raises(NotImplementedError, match=words):
        to_onnx(pipeline)


def test_detectors_of_pyod_have_no_converter():
    pyod = pytest.importorskip("pyod.models.knn", reason="PyOD is an extra")
    detector = PyODDetector(pyod.KNN()).fit(X)
    detector.n_features_in_ = 4
    with pytest.raises(NotImplementedError, match="PyODDetector has no converter"):
        to_onnx(detector)


def test_an_unfitted_estimator_and_a_strange_type_are_refused(tmp_path):
    with pytest.raises(NotFittedError):
        to_onnx(SVDD(), tmp_path / "model")
    with pytest.raises(ValueError, match=r"dtype must be float or np\.float32"):
        to_onnx(SVDD().fit(X), tmp_path / "model", dtype=int)
    assert not list(tmp_path.iterdir())


def test_a_model_that_onnx_cannot_hold_is_refused():
    graph = Graph(2, float)
    outputs = {"y": (graph.X @ np.ones((2, 50)), float, [None, 50])}
    assert graph.model(outputs, largest=800) is not None
    with pytest.raises(ValueError, match="larger than 2 GB"):
        graph.model(outputs, largest=799)


def test_a_weighted_vote_is_not_exported_as_a_sum():
    vote = FixedRule("vote", weights=[1, 2, 1, 1]).fit(X)
    with pytest.raises(NotImplementedError, match="is no weighted sum"):
        to_onnx(vote)


def test_a_rule_that_ignores_missing_scores_is_not_exported_as_a_sum():
    with pytest.raises(NotImplementedError, match="no converter"):
        to_onnx(FixedRule(missing="ignore").fit(X))


def test_a_detector_of_a_data_frame_is_exported_from_its_features():
    kinds = np.where(np.arange(len(X)) % 3, "axial", "radial")
    frame = pd.DataFrame({"bar": X[:, 0], "flow": X[:, 1], "kind": kinds})
    estimator = FusedDetector(["gmm", "kpca"], random_state=0).fit(frame)
    rows = estimator.preparation_.rows_of(frame)
    found = run(to_onnx(estimator), rows)["scores"]
    np.testing.assert_allclose(np.ravel(found), estimator.score_samples(frame), rtol=1e-9)
