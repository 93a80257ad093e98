"""skl2onnx converts pipelines of scikit-learn that end in estimators of ours."""

import numpy as np
import onnx
import onnxruntime
import pytest
import skl2onnx
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from helpers.cases import cases
from lpfuse import (
    SVDD,
    ColumnForest,
    FixedRule,
    FusedDetector,
    FusedDetectorCV,
    GMMDetector,
    HistogramDetector,
    KernelPCADetector,
    KNNDetector,
    LpFusion,
    OneClassGP,
    TailScaler,
    TwoSidedMinMax,
)
from lpfuse.views import NormalQuantiles
from lpfuse_onnx import register_converters

rng = np.random.default_rng(0)
X, NEW = rng.normal(size=(100, 4)), 2 * rng.normal(size=(40, 4))
GAPS = np.where(rng.uniform(size=NEW.shape) < 0.2, np.nan, NEW)


@pytest.fixture(autouse=True, scope="module")
def registered():
    register_converters()


def outputs(pipeline, rows, **how):
    model = skl2onnx.to_onnx(pipeline, rows[:1], **how)
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": rows}), strict=True))


def fused(**how):
    members = [
        ("svdd", SVDD()),
        ("gmm", GMMDetector(2)),
        ("forest", IsolationForest(n_estimators=5)),
    ]
    return FusedDetector(members, cv=3, random_state=0, **how)


DETECTORS = [
    SVDD(),
    OneClassGP("density"),
    KernelPCADetector(5),
    GMMDetector(2, random_state=0),
    GMMDetector(2, "log_likelihood", random_state=0),
    KNNDetector(),
    HistogramDetector(),
    ColumnForest(random_state=0),
    fused(),
    FusedDetectorCV(detectors=[("a", SVDD()), ("b", GMMDetector())], cv=2, random_state=0),
    make_pipeline(NormalQuantiles(), KNNDetector()),
    make_pipeline(TwoSidedMinMax(), LpFusion()),
    make_pipeline(TailScaler(), FixedRule(weights=[1, 2, 3])),
]


@pytest.mark.filterwarnings("ignore::lpfuse.detectors.KernelWidthWarning")
@pytest.mark.parametrize("detector", DETECTORS, ids=lambda one: repr(one).replace("\n", "")[:50])
def test_a_pipeline_that_ends_in_one_of_ours(detector):
    pipeline = make_pipeline(StandardScaler(), PCA(3), detector).fit(X)
    found, expected = outputs(pipeline, NEW), pipeline.decision_function(NEW)
    assert found.keys() == {"label", "scores"}
    assert found["scores"].dtype == np.float64
    assert found["scores"].shape == found["label"].shape == (40, 1)
    within = 1e-5 * np.ptp(expected)
    np.testing.assert_allclose(found["scores"][:, 0], expected, rtol=0, atol=within)
    sure = np.abs(expected) > within
    np.testing.assert_array_equal(found["label"][sure, 0], pipeline.predict(NEW)[sure])


@pytest.fixture(scope="module")
def pipeline():
    return make_pipeline(StandardScaler(), fused()).fit(X)


@pytest.mark.parametrize("opset", [13, 15, 17, 18, 21])
def test_whatever_the_opset(pipeline, opset):
    """Operators that changed from one to the next are not used, or made by skl2onnx."""
    found = outputs(pipeline, NEW, target_opset=opset)["scores"][:, 0]
    np.testing.assert_allclose(found, pipeline.decision_function(NEW), rtol=1e-6, atol=1e-6)


def test_rows_in_single_precision_give_scores_in_single_precision():
    pipeline = make_pipeline(StandardScaler(), SVDD()).fit(X)
    found = outputs(pipeline, NEW.astype(np.float32))["scores"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[:, 0], pipeline.decision_function(NEW), atol=1e-4)


@cases("view", [TailScaler(), TwoSidedMinMax(), NormalQuantiles()])
def test_scalers_and_views(view):
    view.fit(np.c_[X, rng.integers(0, 3, 100)])
    rows = np.c_[NEW, rng.integers(0, 4, 40)]
    np.testing.assert_allclose(outputs(view, rows)["variable"], view.transform(rows), atol=1e-9)


def test_behind_a_column_transformer_and_an_imputer():
    columns = [("two", StandardScaler(), [2, 0]), ("one", SimpleImputer(), [1])]
    pipeline = make_pipeline(ColumnTransformer(columns), SimpleImputer(), fused()).fit(X)
    rows = GAPS.astype(np.float32)  # onnxruntime has skl2onnx's imputer for these only
    found = outputs(pipeline, rows)["scores"][:, 0]
    np.testing.assert_allclose(found, pipeline.decision_function(GAPS), atol=1e-4)


def test_two_estimators_in_one_model_keep_their_names():
    views = ColumnTransformer([("a", NormalQuantiles(), [0, 1]), ("b", TailScaler(), [2, 3])])
    pipeline = make_pipeline(views, TwoSidedMinMax(), GMMDetector(random_state=0)).fit(X)
    found = outputs(pipeline, NEW)["scores"][:, 0]
    np.testing.assert_allclose(found, pipeline.decision_function(NEW), atol=1e-6)
