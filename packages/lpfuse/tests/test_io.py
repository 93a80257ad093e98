"""What is saved comes back exactly; what is damaged or hostile is refused, and nothing runs."""

import json
import os
import pickle
import re
import stat
import struct
import sys
import zipfile
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.covariance import EllipticEnvelope
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDOneClassSVM
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, LocalOutlierFactor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC, OneClassSVM
from threadpoolctl import threadpool_limits

from helpers.cases import cases
from helpers.model_files import forge, members_of, npy, seal, write_manifest, write_members
from helpers.pairwise import each_value
from lpfuse import (
    SVDD,
    ColumnForest,
    FixedRule,
    FusedDetector,
    GMMDetector,
    KernelPCADetector,
    LpFusion,
    OneClassGP,
    TailScaler,
    TwoSidedMinMax,
    lp_path,
)
from lpfuse.adapters import ClassifierExpert, PyODDetector, ScoreColumn, ScoreFunction
from lpfuse.detectors import fit_together
from lpfuse.io import load, save
from lpfuse.io import safety as archive
from lpfuse.selection import FusedDetectorCV

pytest.importorskip("skops", reason="skops is an extra")

# Scores of these tests are features, whose anomalies are high.
pytestmark = pytest.mark.filterwarnings("ignore:Scores of .* are higher for known anomalies")

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
BOTH = np.vstack([X, rng.normal(4.0, 1.0, size=(15, 3))])
Y = np.repeat([1, -1], [60, 15])
FRAME = pd.DataFrame(BOTH, columns=["height", "width", "depth"])
FEW = {"approximation": "nystroem", "n_components": 6, "random_state": 0}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    with threadpool_limits(1):
        yield


@pytest.fixture
def path(tmp_path):
    return tmp_path / "estimator.lpfuse"


def copy_of(thing, path, **how):
    save(thing, path)
    return load(path, **how)


# ------------------------------------------------------------------------------- what comes back

ESTIMATORS = {
    "SVDD": SVDD(gamma=0.3),
    "SVDD, linear": SVDD(kernel="linear", nu=0.3),
    "SVDD, landmarks": SVDD(gamma=0.3, **FEW),
    "GP": OneClassGP(gamma=0.3),
    "GP, density": OneClassGP("density", gamma=0.3),
    "GP, landmarks": OneClassGP("ratio", gamma=0.3, **FEW),
    "KPCA": KernelPCADetector(4, gamma=0.3),
    "KPCA, landmarks": KernelPCADetector(
        0.9, gamma=0.3, approximation="nystroem", random_state=np.random.RandomState(3)
    ),
    "GMM": GMMDetector(2, random_state=0),
    "GMM, likelihood": GMMDetector(2, "log_likelihood", "diag", random_state=0),
    "expert": ClassifierExpert(LogisticRegression()),
    "method": ScoreFunction(GaussianMixture(random_state=0), "normal", "score_samples"),
    "hinge": LpFusion(p=1.5, fit_intercept=True, class_weight="balanced"),
    "least squares": LpFusion(p=float("inf"), loss="least_squares"),
    "sum": FixedRule(),
    "scaler": TwoSidedMinMax(clip=True),
    "tail": TailScaler(),
    "pipeline": make_pipeline(StandardScaler(), RobustScaler(), SVDD(gamma=0.3)),
    "frozen": FrozenEstimator(make_pipeline(StandardScaler(), GMMDetector(2, random_state=0))),
}


def fitted(name, rows):
    estimator = clone(ESTIMATORS[name])
    if isinstance(estimator, FrozenEstimator):
        return FrozenEstimator(clone(estimator.estimator).fit(rows))
    return estimator.fit(rows, Y)


def answers(estimator, rows):
    """Everything that an estimator says of rows."""
    methods = ("score_samples", "decision_function", "predict", "contributions", "transform")
    return {name: getattr(estimator, name)(rows) for name in methods if hasattr(estimator, name)}


@each_value(name=ESTIMATORS, rows=[FRAME, BOTH])
def test_a_fitted_estimator_answers_to_the_bit(name, rows, path):
    estimator = fitted(name, rows)
    copy = copy_of(estimator, path)
    assert type(copy) is type(estimator)
    expected, found = answers(estimator, rows), answers(copy, rows)
    assert expected.keys() == found.keys()
    assert expected
    for method in expected:
        np.testing.assert_array_equal(found[method], expected[method], strict=True)
    if rows is FRAME and hasattr(estimator, "feature_names_in_"):
        assert list(copy.feature_names_in_) == list(FRAME.columns)
        with pytest.raises(ValueError, match="feature names"):
            copy.score_samples(FRAME[["width", "depth", "height"]]) if hasattr(
                copy, "score_samples"
            ) else copy.transform(FRAME[["width", "depth", "height"]])


@cases("name", ESTIMATORS)
def test_an_unfitted_estimator_keeps_its_parameters(name, path):
    estimator = ESTIMATORS[name]
    copy = copy_of(estimator, path)
    assert re.sub(" at 0x.*", "", repr(copy)) == re.sub(" at 0x.*", "", repr(estimator))
    if not isinstance(estimator, FrozenEstimator):
        copy.fit(BOTH, Y)  # and can be fitted


def test_the_certificate_comes_along(path):
    fusion = fitted("hinge", BOTH)
    certificate = copy_of(fusion, path).certificate_
    assert certificate == fusion.certificate_
    np.testing.assert_array_equal(certificate.alpha, fusion.certificate_.alpha)
    least = lp_path(BOTH, Y, ps=[1, 2])
    found = copy_of(least, path)
    np.testing.assert_array_equal(found.weights, least.weights)
    assert found.certificates == least.certificates


def test_multipliers_of_rows_that_live_elsewhere_stay_there(path):
    dask_array = pytest.importorskip("dask.array", reason="dask is not installed")
    rows = dask_array.from_array(np.asarray(BOTH), chunks=(20, -1))
    fusion = LpFusion().fit(rows, Y)
    assert fusion.certificate_.alpha is not None  # lazy
    copy = copy_of(fusion, path)
    assert copy.certificate_ == fusion.certificate_
    assert copy.certificate_.alpha is None
    np.testing.assert_array_equal(copy.weights_, fusion.weights_)


def fused(**parameters):
    detectors = [
        ("svdd", make_pipeline(StandardScaler(), SVDD())),
        ("gmm", make_pipeline(StandardScaler(), GMMDetector(2))),
        ("forest", IsolationForest(n_estimators=10), [0, 2]),
        ("logistic", LogisticRegression()),
    ]
    return FusedDetector(detectors, cv=2, random_state=0, **parameters)


@pytest.mark.filterwarnings("ignore::UserWarning")
@each_value(rows=[BOTH, FRAME], labels=[None, Y])
def test_a_fused_detector_answers_to_the_bit(rows, labels, path):
    detector = fused().fit(rows, labels)
    detector.save(path)
    copy = load(path)
    for method in ("score_samples", "decision_function", "predict", "contributions", "pvalues"):
        expected, found = getattr(detector, method)(rows), getattr(copy, method)(rows)
        np.testing.assert_array_equal(found, expected, strict=True)
    np.testing.assert_array_equal(copy.weights_, detector.weights_)
    np.testing.assert_array_equal(copy.calibration_, detector.calibration_)
    assert copy.detector_names_ == detector.detector_names_


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_default_pool_answers_to_the_bit(path):
    detector = FusedDetector(cv=2, random_state=0).fit(BOTH, Y)
    copy = copy_of(detector, path)
    np.testing.assert_array_equal(copy.decision_function(BOTH), detector.decision_function(BOTH))
    np.testing.assert_array_equal(copy.with_fusion(None).weights_, detector.weights_)
    assert repr(copy) == repr(detector)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_detector_that_chose_its_parameters(path):
    detectors = [("kpca", KernelPCADetector()), ("gmm", GMMDetector(2))]
    grids = {"kpca": {"n_components": [2, 4]}}
    detector = FusedDetectorCV(detectors, ps=[1, 2, 8], grids=grids, cv=2, random_state=0)
    copy = copy_of(detector.fit(BOTH, Y), path)
    np.testing.assert_array_equal(copy.decision_function(X), detector.decision_function(X))
    assert copy.best_params_ == detector.best_params_
    np.testing.assert_array_equal(copy.path_.weights, detector.path_.weights)
    for name, values in detector.cv_results_.items():
        np.testing.assert_array_equal(copy.cv_results_[name], values)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_detector_that_fails_on_some_rows_still_does(path):
    detector = FusedDetector([("gmm", GMMDetector(2)), ("first", ScoreColumn("normal"), [0])], cv=2)
    rows = X.copy()
    rows[::7, 2] = np.nan
    copy = copy_of(detector.fit(X), path)
    np.testing.assert_array_equal(copy.decision_function(rows), detector.decision_function(rows))
    np.testing.assert_array_equal(copy.pvalues(rows), detector.pvalues(rows))


@pytest.mark.parametrize("prior", ["tables", None, {"svdd": 1, "gmm": 0.5}, [1, 2, 3, 4]], ids=str)
def test_an_unfitted_fused_detector_keeps_its_parameters(prior, path):
    detector = fused(false_alarm_rate=0.01, prior=prior)
    assert repr(copy_of(detector, path)) == repr(detector)


@pytest.mark.parametrize(
    "estimator",
    [
        IsolationForest(n_estimators=5, random_state=0),
        IsolationForest(n_estimators=5, max_features=2, random_state=0),
        LocalOutlierFactor(novelty=True),
        LocalOutlierFactor(novelty=True, algorithm="ball_tree", metric="manhattan"),
        LocalOutlierFactor(novelty=True, algorithm="brute"),
        OneClassSVM(),
        SGDOneClassSVM(random_state=0),
        EllipticEnvelope(random_state=0),
        GaussianMixture(2, random_state=0),
        StandardScaler(),
        RobustScaler(),
        PCA(2),
        SimpleImputer(),
        FunctionTransformer(np.tanh),
        ColumnTransformer([("s", StandardScaler(), slice(0, 2))], remainder="passthrough"),
        ColumnTransformer([("t", TwoSidedMinMax(), [0, 1])]),
        ColumnTransformer([("o", OneHotEncoder(handle_unknown="ignore"), [0])]),
        ExtraTreesClassifier(5, random_state=0),
        RandomForestClassifier(5, random_state=0),
        GradientBoostingClassifier(n_estimators=5),
        HistGradientBoostingClassifier(max_iter=5),
        BaggingClassifier(n_estimators=3, random_state=0),
        CalibratedClassifierCV(LinearSVC(), cv=2),
        VotingClassifier([("a", LogisticRegression()), ("b", GaussianNB())]),
        GridSearchCV(LogisticRegression(), {"C": [1, 2]}, cv=2),
        KNeighborsClassifier(),
        LogisticRegression(),
        SVC(),
    ],
    ids=lambda estimator: repr(estimator)[:40],
)
def test_what_people_use_of_scikit_learn_is_trusted(estimator, path):
    estimator.fit(BOTH, Y)
    copy = copy_of(estimator, path)
    for method in ("score_samples", "decision_function", "predict_proba", "transform"):
        if hasattr(estimator, method):
            expected, found = getattr(estimator, method)(BOTH), getattr(copy, method)(BOTH)
            if hasattr(expected, "toarray"):
                expected, found = expected.toarray(), found.toarray()
            np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_network_is_trusted(path):
    estimator = MLPClassifier(5, max_iter=3, random_state=0).fit(BOTH, Y)
    copy = copy_of(estimator, path)
    np.testing.assert_array_equal(copy.predict_proba(X), estimator.predict_proba(X))


@cases(
    "splitter",
    [KFold(3), StratifiedKFold(2), GroupKFold(4), LeaveOneOut(), TimeSeriesSplit(2)],
)
def test_splitters_are_trusted(splitter, path):
    assert repr(copy_of(splitter, path)) == repr(splitter)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["iforest.IForest", "knn.KNN", "lof.LOF"])
def test_detectors_of_pyod_need_the_users_trust(name, path):
    pytest.importorskip("pyod", reason="PyOD is an extra")
    module, make = name.split(".")
    maker = getattr(pytest.importorskip(f"pyod.models.{module}"), make)
    detector = PyODDetector(maker()).fit(X)
    save(detector, path)
    with pytest.raises(ValueError, match=rf"not trusted: pyod\.models\.{name}.* pass trusted="):
        load(path)
    for trusted in ([f"pyod.models.{name}"], f"pyod.models.{name}", [maker]):
        copy = load(path, trusted=trusted)
        np.testing.assert_array_equal(copy.score_samples(BOTH), detector.score_samples(BOTH))


def test_tensors_come_back_as_arrays(path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    detector = OneClassGP(gamma=0.3).fit(torch.tensor(X, dtype=torch.float32))
    copy = copy_of(detector, path)
    anchors = copy.expansion_.basis.anchors
    assert isinstance(anchors, np.ndarray)
    assert anchors.dtype == np.float32
    rows = torch.tensor(BOTH, dtype=torch.float32)
    torch.testing.assert_close(
        copy.score_samples(rows), detector.score_samples(rows), rtol=0, atol=0
    )


def same(a, b):
    """Whether two values are equal in type and content, NaN included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return all(map(same, a, b)) and all(same(a[k], b[k]) for k in a) and len(a) == len(b)
    if isinstance(a, np.ndarray | np.generic):
        if a.dtype == object:
            return a.shape == b.shape and all(map(same, a.ravel().tolist(), b.ravel().tolist()))
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return a == b or (a != a and b != b)


def object_array(items):
    array = np.empty(len(items), dtype=object)
    for k, item in enumerate(items):
        array[k] = item
    return array


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=[]))
    | st.binary()
)
numpy_scalars = st.one_of(
    st.floats(width=32).map(np.float32),
    st.floats().map(np.float64),
    st.integers(-(2**63), 2**63 - 1).map(np.int64),
    st.booleans().map(np.bool_),
    st.text("añ😀 ", max_size=5).map(np.str_),
)
plain_arrays = st.sampled_from(["f8", "f4", ">i4", "u1", "?", "c16", "U3", "S2", "M8[D]"]).flatmap(
    lambda dtype: arrays(np.dtype(dtype), st.sampled_from([(), (0,), (3,), (2, 0, 2), (2, 3)]))
)
ends = st.none() | st.integers(-5, 5)
slices = st.builds(slice, ends, ends, ends)
keys = st.text() | st.integers() | st.tuples(st.booleans(), st.text()) | st.binary(max_size=4)
values = st.recursive(
    scalars | numpy_scalars | plain_arrays | slices,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
        | st.lists(inner, max_size=4).map(object_array)
    ),
    max_leaves=15,
)


@settings(max_examples=80, deadline=None)
@given(value=values)
def test_any_values_survive(value, tmp_path_factory):
    path = tmp_path_factory.mktemp("values") / "value"
    assert same(copy_of([value], path), [value])


def test_the_order_of_an_array_in_memory_survives(path):
    array = np.asfortranarray(BOTH)
    (copy,) = copy_of([array], path)
    assert copy.flags.f_contiguous
    (every_other,) = copy_of([BOTH[::2, ::-1]], path)
    np.testing.assert_array_equal(every_other, BOTH[::2, ::-1])


def test_masked_arrays_and_arrays_on_the_disk(path, tmp_path):
    masked = np.ma.MaskedArray([1.0, 2.0, 3.0], [False, True, False])
    (copy,) = copy_of([masked], path)
    assert isinstance(copy, np.ma.MaskedArray)
    assert copy.tolist() == [1.0, None, 3.0]
    on_disk = np.memmap(tmp_path / "mapped", dtype=float, mode="w+", shape=(3,))
    assert type(copy_of([on_disk], path)[0]) is np.ndarray


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.random.RandomState(5),
        lambda: np.random.RandomState(np.random.PCG64(5)),
        lambda: np.random.default_rng(5),
        lambda: np.random.Generator(np.random.MT19937(5)),
        lambda: np.random.Generator(np.random.SFC64(5)),
    ],
)
def test_random_states_go_on_where_they_were(make, path):
    source = make()
    source.normal(size=3)
    copy = copy_of(SVDD(random_state=source), path).random_state
    np.testing.assert_array_equal(copy.normal(size=5), source.normal(size=5))


def test_temporary_objects_are_not_confused_with_one_another(path):
    sources = [np.random.RandomState(seed) for seed in range(20)]
    copies = copy_of(sources, path)
    expected = [source.normal() for source in sources]
    assert [copy.normal() for copy in copies] == expected


# ------------------------------------------------------------------------------- what is shared


def test_what_detectors_share_is_held_once_and_stays_shared(path):
    rows = rng.normal(size=(400, 20))
    alone = OneClassGP("mean", gamma=0.1).fit(rows)
    save(alone, path)
    size = path.stat().st_size
    together = fit_together([OneClassGP("mean", gamma=g) for g in (0.1, 0.2, 0.3)], rows)
    copies = copy_of(together, path)
    assert path.stat().st_size < 1.5 * size
    anchors = [copy.expansion_.basis.anchors for copy in copies]
    assert anchors[0] is anchors[1] is anchors[2]


def test_pipelines_share_their_fitted_steps(path):
    scaler = StandardScaler().fit(X)
    pipelines = [make_pipeline(scaler, SVDD()), make_pipeline(scaler, GMMDetector())]
    first, second = copy_of(pipelines, path)
    assert first[0] is second[0]


def test_equal_things_that_are_not_shared_stay_apart(path):
    first, second = copy_of([[1.5], [1.5]], path)
    assert first is not second
    rows = rng.normal(size=(100, 3))
    arrays = rows, rows.copy(), rows[::2].copy(), np.hstack([rows, rows[:, :1]])
    first, *others = copy_of(list(arrays), path)
    assert not any(np.shares_memory(first, other) for other in others)


ROWS = rng.normal(size=(500, 4))
MORE = rng.normal(size=(100, 4))


@cases(
    ("array", "share"),
    [
        (ROWS, 0.01),
        (ROWS[rng.permutation(500)], 0.1),
        (ROWS[rng.integers(500, size=2000)], 0.2),
        (np.concatenate([ROWS[:300], MORE]), 0.35),
        (np.repeat(MORE, 20, axis=0), 0.1),
        (rng.normal(size=(500, 4)), 1.0),
        (np.where(np.arange(4) == 3, -0.0, ROWS), 1.0),
        (np.where(np.arange(4) == 3, np.nan, ROWS), 1.0),
        (np.asfortranarray(ROWS), 1.0),
        (ROWS.astype(np.float32), 0.6),
    ],
)
def test_rows_that_other_arrays_hold_are_stored_once(array, share, path):
    save([ROWS, MORE], path)
    before = path.stat().st_size
    *_, copy = copy_of([ROWS, MORE, array], path)
    assert copy.tobytes("A") == array.tobytes("A")
    assert (copy.dtype, copy.shape, copy.strides) == (array.dtype, array.shape, array.strides)
    assert path.stat().st_size - before < share * array.size * 8 + 600


@cases(
    "model", [OneClassGP(), OneClassGP(approximation="nystroem", n_components=60), ColumnForest(8)]
)
def test_what_rows_determine_is_not_stored(model, path):
    rows = rng.normal(size=(300, 4))
    together = fit_together([model, SVDD()], rows) if isinstance(model, OneClassGP) else None
    fitted = together[0] if together else model.fit(rows)
    copy = copy_of(fitted, path)
    assert path.stat().st_size < 40_000  # a matrix of 300 × 300 takes 720,000 bytes
    np.testing.assert_array_equal(copy.score_samples(ROWS), fitted.score_samples(ROWS))
    np.testing.assert_array_equal(
        copy.leave_one_out_scores(rows), fitted.leave_one_out_scores(rows)
    )


def test_a_matrix_that_rows_do_not_determine_is_stored(path):
    rows = rng.normal(size=(300, 4))
    fitted = OneClassGP().fit(rows, sample_weight=1 + rng.uniform(size=300))
    copy = copy_of(fitted, path)
    assert path.stat().st_size > 300_000
    np.testing.assert_array_equal(copy.score_samples(ROWS), fitted.score_samples(ROWS))


WHOLE = [{"array": "0.npy"}, {"array": "1.npy"}]


@cases(
    ("described", "words"),
    [
        ([{"rows": [[[0]], [1]]}], "out of bounds"),
        ([{"rows": [[[0], [1]], [1]]}], "rows of what is no array of numbers"),
        ([{"rows": [[[0]], 1]}], "is damaged"),
        ([{"rows": [[], [1]]}], "is damaged"),
        ([{"copy": [2]}], "Expected a value or an earlier object"),
        ([{"copy": 7}], "copies what is no array"),
        ([{"beside": [[0], [1]]}], "beside each other what is no array"),
        ([{"view": [[0], [1]]}], "transforms rows by ndarray"),
        ([{"list": []}, {"object": ["SVDD", {}]}, {"view": [[0], [3]]}], "transforms rows by SVDD"),
        ([{"rows": [[[0]], [1]]}] * 2, "out of bounds"),
        ([{"copy": [0]}] * 90_000, "exceeds the limit for its size"),
    ],
)
def test_arrays_by_others_are_checked(described, words, path):
    members = {"0.npy": npy(np.ones((100, 10))), "1.npy": npy(np.array([0, 3, 900]))}
    write_manifest(path, WHOLE + described, members, version=5)
    with pytest.raises(ValueError, match=words):
        load(path)


@cases(
    "content",
    [
        b'["<f8", false, [4]]\n' + bytes(31),
        b'["<f8", false, [-1]]\n',
        b'["<f8", false, [0]]\n',
        b'["|O", false, [1]]\n' + bytes(8),
        b'["<U1", false, [2]]\n' + bytes(8),
        b'["<f8", false, [1099511627776, 1099511627776]]\n' + bytes(64),
        b'["<f8", false, 4]\n' + bytes(32),
        b"[" * 5000,
    ],
)
def test_planes_are_as_large_as_they_say(content, path):
    members = {"0.npy": b"\x93PLANES " + content}
    write_manifest(path, [{"array": "0.npy"}], members, version=5)
    with pytest.raises(ValueError, match=r"is refused|is damaged"):
        load(path)


def test_the_same_estimator_makes_the_same_file(path, tmp_path):
    detector = SVDD().fit(X)
    save(detector, path)
    save(detector, tmp_path / "again")
    assert path.read_bytes() == (tmp_path / "again").read_bytes()


# ------------------------------------------------------------------------- refused before writing


class Unknown:
    def score(self, X):
        return X[:, 0]


class Mine(BaseEstimator):
    def fit(self, X, y=None):
        return self

    def score_samples(self, X):
        return np.asarray(X)[:, 0]


def a_function(rows):
    return rows[:, 0]


def local_class():
    class Local(Mine):
        pass

    return Local()


def selfish():
    items = []
    items.append(items)
    return items


@cases(
    ("thing", "words"),
    [
        (a_function, r"is a function of .*test_io, and cannot be saved"),
        (lambda rows: rows[:, 0], "is a function"),
        (np.linalg.norm, "cannot be saved"),
        (Unknown(), "is of type Unknown"),
        (Unknown, "is the class Unknown"),
        (local_class(), "is of type .*Local"),
        (make_pipeline(FunctionTransformer(lambda X: X), SVDD()), r"steps\[0\].*<lambda>"),
        ({1, 2}, "is of type set"),
        (np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]), "only numbers, dates and text"),
        (np.random.Generator(np.random.Philox(0)), "draws from Philox.*PCG64"),
        ({(1, (2, 3)): 4}, "key"),
        (selfish(), "refers to itself"),
    ],
)
def test_what_cannot_be_saved_is_named_and_nothing_is_written(thing, words, path):
    detector = FusedDetector(
        [("svdd", SVDD()), ("mine", ScoreFunction(thing, high="normal"))], cv=2
    )
    where = r"FusedDetector\.detectors\[1\] 'mine' → ScoreFunction\.scorer"
    path.write_bytes(b"old")
    with pytest.raises(TypeError, match=f"(?s)^{where}.*{words}"):
        save(detector, path)
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == [path.name]


def test_a_users_importable_estimator_needs_trust(path, monkeypatch):
    module = type(sys)("mine")
    monkeypatch.setitem(sys.modules, "mine", module)
    monkeypatch.setattr(Mine, "__module__", "mine")
    module.Mine = Mine
    save(Mine(), path)
    with pytest.raises(ValueError, match=r"not trusted: mine\.Mine"):
        load(path)
    assert isinstance(load(path, trusted=["mine.Mine"]), Mine)
    monkeypatch.setattr(Mine, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "Mine", Mine, raising=False)
    with pytest.raises(TypeError, match="cannot be saved"):
        save(Mine(), path)


def test_an_importable_function_in_a_step_needs_trust(path):
    pipeline = make_pipeline(FunctionTransformer(a_function), SVDD())
    save(pipeline, path)
    with pytest.raises(ValueError, match=r"not trusted: .*\.a_function"):
        load(path)
    copy = load(path, trusted=[f"{a_function.__module__}.a_function"])
    assert copy[0].func is a_function


@pytest.mark.parametrize("fails", ["replace", "fsync"])
def test_a_failure_leaves_the_old_file_alone(fails, path, monkeypatch):
    save(SVDD(nu=0.2), path)

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(archive.os, fails, fail)
    with pytest.raises(OSError, match="disk full"):
        save(SVDD(nu=0.3), path)
    assert load(path).nu == 0.2
    assert os.listdir(path.parent) == [path.name]


def test_the_file_is_like_any_other_of_the_user(path):
    save(SVDD(), path)
    other = path.with_name("other")
    other.write_bytes(b"")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_a_link_stays_a_link(path, tmp_path):
    save(SVDD(nu=0.2), path)
    link = tmp_path / "link"
    link.symlink_to(path)
    save(SVDD(nu=0.3), link)
    assert link.is_symlink()
    assert load(path).nu == 0.3


def test_only_other_makers_need_skops(path, tmp_path, monkeypatch):
    save(PolynomialFeatures().fit(X), path)
    for name in ("skops", "skops.io", "skops.io.exceptions"):
        monkeypatch.setitem(sys.modules, name, None)
    trusted = ["sklearn.preprocessing._polynomial.PolynomialFeatures"]
    for work in (lambda: load(path, trusted), lambda: save(PolynomialFeatures(), path)):
        with pytest.raises(ImportError, match=r'pip install "lpfuse\[persist\]"'):
            work()
    with pytest.raises(ValueError, match=r"not trusted: sklearn\.preprocessing\._polynomial"):
        load(path)
    pipeline = make_pipeline(StandardScaler(), IsolationForest(n_estimators=3)).fit(X)
    assert copy_of(pipeline, tmp_path / "pipeline").predict(X[:1]).shape == (1,)


# --------------------------------------------------------------------------- damaged and hostile


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A file with arrays, a skops member and one of everything else."""
    path = tmp_path_factory.mktemp("whole") / "file"
    pipeline = make_pipeline(StandardScaler(), SVDD(gamma=0.3, tol=float("nan")))
    pipeline.steps[-1][1].tol = 1e-3
    save(pipeline.fit(X), path)
    return path.read_bytes()


def test_a_file_by_hand_is_read(path):
    """The tests below change one thing of files like this one."""
    described = {"object": ["FixedRule", {"rule": "min", "trim": 0.5}]}
    write_manifest(path, [{"list": [1, None, "a", 2.5, True]}, described, {"list": [[0], [1]]}])
    values, rule = load(path)
    assert values == [1, None, "a", 2.5, True]
    assert repr(rule) == "FixedRule(rule='min', trim=0.5)"


def test_a_truncated_file_is_damaged(whole, path):
    for kept in np.linspace(0, 0.999, 40):
        path.write_bytes(whole[: int(kept * len(whole))])
        with pytest.raises(ValueError, match="is damaged"):
            load(path)


def test_a_flipped_byte_is_refused(whole, path):
    for position in np.unique(np.linspace(0, len(whole) - 1, 400).astype(int)):
        flipped = bytearray(whole)
        flipped[position] ^= 0x55
        path.write_bytes(flipped)
        if position >= len(whole) - 65:  # the signature that there is not
            with pytest.raises(ValueError, match="damaged"):
                load(path)
        else:
            with pytest.raises(ValueError, match="is damaged"):
                load(path)


@cases("content", [b"", b"PK", b"hello", b"\0" * 5000, pickle.dumps({"a": 1})])
def test_something_else_is_not_a_file_of_ours(content, path):
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is damaged, or was not written by lpfuse"):
        load(path)


def test_a_file_that_is_not_there_says_so(path):
    with pytest.raises(FileNotFoundError):
        load(path)


def test_a_newer_format_asks_for_an_upgrade(path):
    write_manifest(path, [], version=6, lpfuse="7.0.0")
    with pytest.raises(ValueError, match=r"format 6, of lpfuse 7\.0\.0.*pip install --upgrade"):
        load(path)


@cases("version", [0, -1, 1.0, "1", None, True, [1]])
def test_the_version_is_a_whole_number(version, path):
    write_manifest(path, [], version=version)
    with pytest.raises(ValueError, match="version of the file's format"):
        load(path)


RULE = {"rule": "sum"}


@cases(
    "described",
    [
        {"object": ["os.system", {"command": "true"}]},
        {"object": ["builtins:eval", {}]},
        {"object": ["Popen", {"args": "true"}]},
        {"object": ["Writer", {}]},
        {"object": ["FixedRule", {**RULE, "__class__": "SVDD"}]},
        {"object": ["FixedRule", {**RULE, "__dict__": None}]},
        {"object": ["FixedRule", {**RULE, "__array_interface__": None}]},
        {"object": ["FixedRule", {**RULE, "__setstate__": None}]},
        {"object": ["FixedRule", {**RULE, "score_samples": None}]},
        {"object": ["FixedRule", {**RULE, "_checked": None}]},
        {"object": ["FixedRule", {**RULE, "not a name": None}]},
        {"object": ["LpFusion", {"offset_": 1.0}]},
        {"object": ["Pipeline", {"steps": [], "named_steps": None}]},
        {"object": ["SVDD", {"kernel_": None}]},
        {"object": ["Kernel", {}]},
        {"object": ["Kernel", {"name": "rbf"}]},
        {"object": ["Certificate", {"primal": 1.0}]},
        {"object": ["Member", {"name": "a", "estimator": None, "head": None}]},
        {"object": ["FixedRule", RULE, "more"]},
        {"object": [["FixedRule"], RULE]},
        {"object": "FixedRule"},
        {"function": "os.system"},
        {"list": "abc"},
        {"list": [[2]]},
        {"list": [[-1]]},
        {"list": [[True]]},
        {"list": [[0, 1]]},
        {"list": [{}]},
        {"dict": [[1]]},
        {"dict": [1]},
        {"slice": [1, 2]},
        {"float": 1.0},
        {"float": "one"},
        {"bytes": "xy"},
        {"scalar": ["O", "00"]},
        {"scalar": ["<f8", "00"]},
        {"scalar": ["<f8,<f8", "00" * 16]},
        {"scalar": ["<U999999999", "00"]},
        {"objects": [[2], [1]]},
        {"objects": [[2, 10**12], []]},
        {"array": "missing.npy"},
        {"array": "manifest.json"},
        {"array": "../../etc/passwd"},
        {"skops": "manifest.json"},
        {"random": ["RandomState", 1]},
        {"random": ["RandomState", None]},
        {},
        None,
        [],
        "SVDD",
    ],
)
def test_objects_of_no_known_kind_are_refused(described, path):
    write_manifest(path, [{"list": []}, {"list": []}, described])
    with pytest.raises(ValueError, match=r"is refused|is damaged"):
        load(path)


@cases(
    "fields",
    [
        {"format": "pickle"},
        {"format": None},
        {"root": [5]},
        {"root": {"a": 1}},
        {"objects": None},
        {"objects": 3},
        {"objects": {"list": []}},
    ],
)
def test_the_manifest_has_its_form(fields, path):
    write_manifest(path, [{"list": []}], **fields)
    with pytest.raises(ValueError, match=r"is refused|is damaged"):
        load(path)


@cases(
    "text",
    [
        "",
        "{",
        "[]",
        "NaN",
        '{"format": NaN}',
        '{"format": "lpfuse", "version": 4, "objects": [], "root": Infinity}',
        '{"format": "lpfuse", "version": 4, "objects": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"format": "lpfuse", "version": 4, "root": 1' + "0" * 10_000 + ', "objects": []}',
        b"\xff\xfe",
    ],
)
def test_the_manifest_is_json(text, path):
    write_members(path, {"manifest.json": text})
    with pytest.raises(ValueError, match=r"is refused|is damaged"):
        load(path)


def test_a_dictionary_cannot_be_made_to_hash_for_ever(path):
    nested = [{"tuple": [1, 2]}, *({"tuple": [[k], [k]]} for k in range(20))]
    write_manifest(path, [*nested, {"dict": [[[20], 1]]}])
    with pytest.raises(ValueError, match="Keys of dictionaries"):
        load(path)


def test_lists_in_lists_have_an_end(path):
    write_manifest(path, [{"list": []}, *({"list": [[k]]} for k in range(150))])
    assert load(path)
    write_manifest(path, [{"list": []}, *({"list": [[k]]} for k in range(20_000))])
    with pytest.raises(ValueError, match="lists within lists, 201 deep"):
        load(path)
    write_manifest(path, [{"list": [1]}, *({"list": [[k]] * 1000} for k in range(9))])
    with pytest.raises(ValueError, match=r"lists within lists.* in all"):
        load(path)


def array_file(path, content):
    write_manifest(path, [{"array": "0.npy"}], members={"0.npy": content})


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("pwned",)


@pytest.mark.parametrize(
    "content",
    [
        npy(np.array([Bomb()], dtype=object), allow_pickle=True),
        pickle.dumps(Bomb()),
        npy(np.arange(3.0))[:-1],
        npy(np.arange(3.0)) + b"\0",
        npy(np.arange(3.0)).replace(b"(3,)", b"(10000000000000,)").replace(b" " * 13, b"", 1),
        npy(np.arange(3.0)).replace(b"(3,)", b"(-3,)"),
        npy(np.arange(3.0)).replace(b"'<f8'", b"'|O' "),
        npy(np.array([(1, 2.0)], dtype=[("a", int), ("b", float)])),
        npy(np.arange(3.0)).replace(b"\x93NUMPY\x01", b"\x93NUMPY\x09"),
        npy(np.arange(0.0)).replace(b"'<f8'", b"'<U0'").replace(b"(0,)", b"(9,)"),
        b"\x93NUMPY\x01\x00" + struct.pack("<H", 60_000) + b"(" * 60_000,
        b"",
    ],
    ids=range(12),
)
def test_arrays_are_numbers_and_as_large_as_they_say(content, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    array_file(path, content)
    with pytest.raises(ValueError, match=r"is refused|is damaged"):
        load(path)
    assert not (tmp_path / "pwned").exists()


def test_members_are_those_that_the_manifest_names(path, whole):
    array_file(path, npy(np.arange(3.0)))
    assert load(path).tolist() == [0, 1, 2]
    write_members(path, {**members_of(path.read_bytes()), "more": b""})
    with pytest.raises(ValueError, match=r"does not use: \['more'\]"):
        load(path)
    twice = [{"array": "0.npy"}, {"array": "0.npy"}]
    write_manifest(path, twice, members={"0.npy": npy(np.arange(3.0))})
    with pytest.raises(ValueError, match="twice"):
        load(path)
    members = members_of(whole)
    for name in members:
        write_members(path, {key: members[key] for key in members if key != name})
        with pytest.raises(ValueError, match="is refused"):
            load(path)


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_names_in_the_archive_are_unique(path):
    array_file(path, npy(np.arange(3.0)))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("0.npy", npy(np.arange(4.0)))
    with pytest.raises(ValueError, match="same name"):
        load(path)


def test_a_file_cannot_grow_when_it_is_read(path):
    manifest = {"format": "lpfuse", "version": 4, "root": [0], "objects": [{"array": "0.npy"}]}
    for values, packing, words in (
        (rng.integers(0, 9, 10**4).astype(float), zipfile.ZIP_DEFLATED, None),
        (np.zeros(10**6), zipfile.ZIP_DEFLATED, "exceed the limit"),
        (np.zeros(10**6), zipfile.ZIP_BZIP2, "uses a compression method"),
    ):
        members = {"manifest.json": json.dumps(manifest), "0.npy": npy(values)}
        write_members(path, members, compression=packing)
        if words is None:
            np.testing.assert_array_equal(load(path), values)
        else:
            with pytest.raises(ValueError, match=words):
                load(path)


def test_members_that_overlap_are_refused(path):
    """The same bytes counted twice: a file that grows without any compression."""
    array_file(path, npy(np.zeros(1000)))
    content = path.read_bytes()
    at = content.index(b"PK\x01\x02")
    directory = content[at : content.index(b"PK\x05\x06")]
    entry = directory[directory.rindex(b"PK\x01\x02") :]
    copies = b"".join(entry.replace(b"0.npy", b"%d.npy" % k) for k in range(1, 5))
    count = 6
    size = len(directory) + len(copies)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, size, at, 0)
    path.write_bytes(content[:at] + directory + copies + end)
    seal(path)
    with pytest.raises(ValueError, match="exceed the limit"):
        load(path)


def test_what_shrinks_too_well_is_padded(path):
    for array in (np.zeros(10**5), rng.normal(size=10**5), np.arange(10**5) % 7, np.zeros(10**6)):
        np.testing.assert_array_equal(copy_of(array, path), array)
    save(np.zeros(10**5), path)
    assert 8 * 10**5 / 20 < path.stat().st_size < 8 * 10**5 / 8


# ------------------------------------------------------------------------------ hostile estimators


def skops_file(path, schema, **members):
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as inner:
        inner.writestr(
            "schema.json", json.dumps({"protocol": 2, "_skops_version": "0.16", **schema})
        )
        for name, content in members.items():
            inner.writestr(name.replace("_", "."), content)
    members = {"0.skops": buffer.getvalue()}
    write_manifest(path, [{"skops": ["0.skops", ["mine.Mine"]]}], members=members)


def node(loader, module, name, **fields):
    return {"__loader__": loader, "__module__": module, "__class__": name, **fields}


def text_node(text):
    return node("JsonNode", "builtins", "str", content=json.dumps(text), is_json=True)


def tuple_node(*items):
    return node("TupleNode", "builtins", "tuple", content=list(items))


@pytest.mark.parametrize(
    "schema",
    [
        node("FunctionNode", "os", "system"),
        node("ConstructorFromReduceNode", "os", "mkdir", content=tuple_node(text_node("pwned"))),
        node("ListNode", "os", "mkdir", content=[]),
        node("ObjectNode", "subprocess", "Popen", content=text_node("mkdir pwned")),
        node(
            "PartialNode",
            "functools",
            "partial",
            content={
                "func": node("FunctionNode", "os", "mkdir"),
                "args": tuple_node(text_node("pwned")),
                "kwds": node("DictNode", "builtins", "dict", content={}, key_types=tuple_node()),
                "namespace": text_node(None),
            },
        ),
        node("OperatorFuncNode", "operator", "methodcaller", attrs=tuple_node(text_node("fit"))),
        node("TypeNode", "os", "_wrap_close"),
    ],
    ids=lambda schema: schema["__loader__"],
)
def test_types_that_run_code_are_refused_by_name(schema, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    skops_file(path, schema)
    with pytest.raises(ValueError, match=r"not trusted: mine\.Mine"):
        load(path)
    with pytest.raises(ValueError, match=r"not trusted: .*(os|subprocess|operator)\."):
        load(path, trusted=["mine.Mine"])  # it claims to hold nothing else
    assert not (tmp_path / "pwned").exists()


def test_nested_archives_cannot_grow_either(path):
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", compression=zipfile.ZIP_DEFLATED) as inner:
        inner.writestr("schema.json", "[" * 10**6)
    members = {"0.skops": buffer.getvalue()}
    write_manifest(path, [{"skops": ["0.skops", ["mine.Mine"]]}], members=members)
    with pytest.raises(ValueError, match="exceed the limit"):
        load(path, trusted=["mine.Mine"])


def change_tree(forest, **fields):
    """A tree with other entries in the first of its nodes."""
    tree = forest.estimators_[0].tree_
    state = tree.__getstate__()
    for name, value in fields.items():
        state["nodes"][name][0] = value
    tree.__setstate__(state)


@cases(
    "change",
    [
        {"left_child": 10**9},
        {"left_child": 0},
        {"right_child": -2},
        {"feature": 99},
        {"feature": -3},
    ],
)
def test_trees_that_lead_out_of_their_arrays_are_refused(change, path):
    forest = IsolationForest(n_estimators=2, random_state=0).fit(X)
    change_tree(forest, **change)
    forge(forest, path)
    with pytest.raises(ValueError, match=r"Its Tree holds .* that are inconsistent"):
        load(path)


@cases(
    "forest",
    [
        RandomForestClassifier(2, random_state=0),
        GradientBoostingClassifier(n_estimators=2),
        IsolationForest(n_estimators=2, random_state=0),
        IsolationForest(n_estimators=2, max_features=2, random_state=0),
    ],
)
def test_a_forest_hands_its_trees_the_columns_that_they_know(forest, path):
    forest.fit(BOTH, Y)
    forest.n_features_in_ = 1
    forge(forest, path)
    with pytest.raises(ValueError, match="are inconsistent"):
        load(path)


def test_a_tree_without_end_is_refused(path):
    forest = IsolationForest(n_estimators=2, random_state=0).fit(X)
    tree = forest.estimators_[0].tree_
    state = tree.__getstate__()
    last = np.flatnonzero(state["nodes"]["left_child"] != -1)[-1]
    state["nodes"]["left_child"][last] = 1
    tree.__setstate__(state)
    forge(forest, path)
    with pytest.raises(ValueError, match="Its Tree holds children"):
        load(path)


def test_a_tree_knows_as_many_columns_as_its_owner(path):
    forest = RandomForestClassifier(2, random_state=0).fit(BOTH, Y)
    forest.estimators_[1].n_features_in_ = 2
    forge(forest, path)
    with pytest.raises(ValueError, match="DecisionTreeClassifier holds tree_"):
        load(path)


@cases(
    ("field", "value"), [("left", 10**6), ("right", 0), ("feature_idx", 99), ("is_categorical", 1)]
)
def test_boosted_trees_are_looked_at_too(field, value, path):
    boosted = HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=2).fit(BOTH, Y)
    boosted._predictors[0][0].nodes[field][0] = value
    boosted._predictors[0][0].raw_left_cat_bitsets = np.zeros((1, 8), dtype=np.uint32)
    forge(boosted, path)
    with pytest.raises(ValueError, match="are inconsistent"):
        load(path)


def test_boosted_trees_with_categories(path):
    rows = np.column_stack([np.arange(75) % 4, BOTH[:, 0]])
    boosted = HistGradientBoostingClassifier(
        max_iter=3, min_samples_leaf=2, categorical_features=[0]
    ).fit(rows, np.where(np.arange(75) % 4 == 2, -1, 1))
    copy = copy_of(boosted, path)
    np.testing.assert_array_equal(copy.predict_proba(rows), boosted.predict_proba(rows))


@pytest.mark.parametrize("algorithm", ["kd_tree", "ball_tree"])
def test_trees_of_neighbours_are_made_anew(algorithm, path):
    detector = LocalOutlierFactor(novelty=True, algorithm=algorithm, leaf_size=5).fit(X)
    expected = detector.score_samples(BOTH)
    state = list(detector._tree.__getstate__())
    state[1] = np.full_like(state[1], 10**6)
    detector._tree.__setstate__(tuple(state))
    np.testing.assert_array_equal(copy_of(detector, path).score_samples(BOTH), expected)


def test_a_random_state_stays_within_its_numbers(path):
    save(SVDD(random_state=np.random.RandomState(0)), path)
    members = members_of(path.read_bytes())
    members["manifest.json"] = members["manifest.json"].replace(b'["pos", 624]', b'["pos", 70000]')
    write_members(path, members)
    with pytest.raises(ValueError, match="position 70000"):
        load(path)


# --------------------------------------------------------------------------------- other versions


def test_parameters_that_were_added_later_take_their_defaults(path):
    save(SVDD(nu=0.3), path)
    members = members_of(path.read_bytes())
    manifest = json.loads(members["manifest.json"])
    del manifest["objects"][0]["object"][1]["tol"]
    write_members(path, {"manifest.json": json.dumps(manifest)})
    assert load(path).get_params() == SVDD(nu=0.3).get_params()


def test_a_file_of_the_previous_format_is_refused(path):
    save(SVDD(), path)
    members = members_of(path.read_bytes())
    members["manifest.json"] = members["manifest.json"].replace(b'"version": 5', b'"version": 2')
    write_members(path, members)
    with pytest.raises(ValueError, match=r"has format 2.*reads format 5\. Fit and save"):
        load(path)
