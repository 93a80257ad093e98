"""Honest models: together they hold every class that a file may hold, in few attributes each."""

import warnings
from copy import deepcopy
from functools import partial
from inspect import signature

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.covariance import EllipticEnvelope
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier, LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, OneClassSVM
from sklearn.tree import DecisionTreeClassifier

from fuzz.careless import Careless
from helpers.pumps import pumps
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
    lp_path,
)
from lpfuse.adapters import ClassifierExpert, PyODDetector, ScoreColumn, ScoreFunction
from lpfuse.ensemble.fused import TableModel
from lpfuse.fusion import BestSingle, LinearSVMStacker, LogisticStacker
from lpfuse.io.reading import loadable_classes
from lpfuse.monitor import DriftMonitor
from lpfuse.multiclass import OneClassEnsembleClassifier
from lpfuse.paper import Pipeline
from lpfuse.selection import FusedDetectorCV
from lpfuse.threshold import OnlineDiscoveries
from lpfuse.views import FilledGaps, NormalQuantiles
from lpfuse_cli.watch.state import WatchState

_rng = np.random.default_rng(0)
X = np.vstack([_rng.normal(size=(24, 3)), _rng.normal(3.0, 1.0, size=(12, 3))])
Y = np.repeat([1, -1], [24, 12])
NEW = _rng.normal(size=(7, 3))
FEW = {"approximation": "nystroem", "n_components": 4, "random_state": 0}
PAIR = [("gmm", GMMDetector(1, random_state=0)), ("kpca", KernelPCADetector(2, gamma=0.3))]
fused = partial(FusedDetector, cv=2, random_state=0)

# Score tables for fusion rules come from the same rows: three columns, high = normal.
FUSIONS = {
    "LpFusion": LpFusion(p=2.0, fit_intercept=True),
    "LpFusion, prior": LpFusion(prior=np.array([0.5, 0.2, 0.0]), radius=0.3, nonnegative=True),
    "LpFusion, groups": LpFusion(p=1.0, groups=["a", "b", "a"], q=4.0),
    "LpFusion, least squares": LpFusion(loss="least_squares", class_weight="balanced"),
    "FixedRule": FixedRule(),
    "BestSingle": BestSingle(),
    "LinearSVMStacker": LinearSVMStacker(),
    "LogisticStacker": LogisticStacker(),
    "TailScaler": TailScaler(),
    "TwoSidedMinMax": TwoSidedMinMax(),
    "FilledGaps": FilledGaps(),
    "NormalQuantiles": NormalQuantiles(),
}
DETECTORS = {
    "SVDD": SVDD(gamma=0.3),
    "SVDD, landmarks": SVDD(gamma=0.3, **FEW),
    "OneClassGP": OneClassGP(gamma=0.3),
    "KernelPCADetector": KernelPCADetector(2, gamma=0.3),
    "KernelPCADetector, landmarks": KernelPCADetector(
        2, gamma=0.3, approximation="nystroem", random_state=np.random.RandomState(3)
    ),
    "GMMDetector": GMMDetector(1, random_state=0),
    "KNNDetector": KNNDetector(2, n_subspaces=2, random_state=0),
    "HistogramDetector": HistogramDetector(),
    "ColumnForest": ColumnForest(8, random_state=0),
    "LOFDetector": LOFDetector(5),
    "RobustCovarianceDetector": RobustCovarianceDetector(),
    "ClassifierExpert": ClassifierExpert(LogisticRegression()),
    "ScoreFunction": ScoreFunction(GaussianMixture(random_state=0), "normal", "score_samples"),
    "ScoreFunction, pipeline": ScoreFunction(
        make_pipeline(StandardScaler(), GaussianMixture(random_state=0)), "normal", "score_samples"
    ),
    "FrozenEstimator": FrozenEstimator(make_pipeline(StandardScaler(), SVDD(gamma=0.3)).fit(X)),
    "FusedDetector": fused([*PAIR, ("forest", IsolationForest(n_estimators=2, random_state=0))]),
    "FusedDetector, splitter": fused(
        [
            ("column", ScoreColumn("normal"), [0]),
            ("shape", EllipticEnvelope(random_state=0)),
            ("expert", ClassifierExpert(LogisticRegression())),
        ],
        cv=KFold(2),
    ),
    "FusedDetector, experts": fused([PAIR[0], ("expert", DecisionTreeClassifier(max_depth=2))]),
    "FusedDetectorCV": FusedDetectorCV(PAIR, ps=[1.0, 2.0], cv=2, random_state=0),
    "OneClassEnsembleClassifier": OneClassEnsembleClassifier(fused(PAIR)),
}
# What scikit-learn's own estimators need to be made.
ARGUMENTS = {
    "estimator": DecisionTreeClassifier(max_depth=2),
    "test_fold": [0, 1],
    "estimators": [("a", LogisticRegression()), ("b", DecisionTreeClassifier(max_depth=2))],
    "transformers": [("a", StandardScaler(), [0, 1])],
    "steps": [("a", StandardScaler()), ("b", LogisticRegression())],
    "param_grid": {"max_depth": [1, 2]},
}
MADE = {  # that need more than that
    "CalibratedClassifierCV": CalibratedClassifierCV(LogisticRegression(), cv=2),
    "FrozenEstimator": FrozenEstimator(StandardScaler().fit(X)),
    "LinearDiscriminantAnalysis": LinearDiscriminantAnalysis(),
}
VARIANTS = {  # ways through other compiled code
    "KNeighborsClassifier, brute": KNeighborsClassifier(3, algorithm="brute", metric="manhattan"),
    "KNeighborsClassifier, ball": KNeighborsClassifier(3, algorithm="ball_tree", leaf_size=2),
    "LocalOutlierFactor, novelty": LocalOutlierFactor(3, novelty=True),
    "SVC, linear": SVC(kernel="linear"),
    "OneClassSVM, poly": OneClassSVM(kernel="poly", degree=2),
    "BaggingClassifier, columns": BaggingClassifier(n_estimators=2, max_features=2, random_state=0),
    "IsolationForest, columns": IsolationForest(n_estimators=2, max_features=2, random_state=0),
    "OneHotEncoder, infrequent": OneHotEncoder(min_frequency=2, handle_unknown="ignore"),
    "OneHotEncoder, drop": OneHotEncoder(drop="first", sparse_output=False),
    "OneHotEncoder, two": OneHotEncoder(handle_unknown="ignore"),
    "HistGradientBoostingClassifier, categories": HistGradientBoostingClassifier(
        max_iter=2, min_samples_leaf=2, categorical_features=[0]
    ),
    "GradientBoostingClassifier, three": GradientBoostingClassifier(n_estimators=2, max_depth=2),
    "KNNImputer, gaps": KNNImputer(n_neighbors=2),
}
ODD = {  # that take no rows with labels
    "IsotonicRegression": (X[:, 0], Y),
    "OneHotEncoder": (X.round().clip(0, 1),),
    "HistGradientBoostingClassifier": (np.column_stack([X[:, 0].round() + 9, X[:, 1:]]), Y),
    "GradientBoostingClassifier": (X, np.arange(len(X)) % 3),
    "LabelBinarizer": (Y,),
    "LabelEncoder": (Y,),
}
SMALLER = {
    "n_estimators": 2, "max_iter": 20, "hidden_layer_sizes": (3,), "n_components": 2, "cv": 2,
    "n_quantiles": 5, "n_neighbors": 3, "random_state": 0, "n_init": 1, "min_samples_leaf": 2,
    "n_iter": 2, "n_resampling": 2, "degree": 2, "n_clusters": 2,
}  # fmt: skip


def models(kind=None):
    """Pairs of a name and a fitted model; `kind` of them: "ours", "faces", "scikit-learn".

    Of kind "careless" there is one that no package has: the fuzzer must find it unsafe.
    """
    if kind == "careless":
        yield "Careless", Careless()
    for name, make in (("ours", ours), ("faces", faces), ("scikit-learn", scikit)):
        if kind in (None, name):
            yield from make()


def ours():
    for name, estimator in {**DETECTORS, **FUSIONS}.items():
        yield name, _fitted(estimator)
    yield "PyODDetector", PyODDetector(None)  # what it holds needs trust
    with warnings.catch_warnings(action="ignore"):  # the rows are no scores
        path = lp_path(X, Y, ps=[1.0, 2.0])
    yield "LpPath", path
    thin = Pipeline(widths=[1.0], component_step=20, rhos=[5.0], ps=[1.0, 2.0], random_state=0)
    yield "PaperPipeline", thin.fit(X[:24], validation=(X, Y))
    stream = OnlineDiscoveries(0.1)
    stream.update([0.001, 0.5])
    yield "OnlineDiscoveries", stream
    yield "WatchState", WatchState('{"version": 1}', _monitor_of_drift())
    usual = np.random.default_rng(0).normal(size=(300, 3))
    usual[:, 2] += np.arange(300)  # left out
    timed = FusedDetector(["gmm", "kpca"], random_state=0).fit(usual, order="time")
    yield "DriftMonitor", DriftMonitor().fit(timed)
    frame = pumps(40).drop("serial", "when")
    labels = np.where(frame["state"] == "ok", 1, -1)
    fitted = FusedDetector(["gmm", "kpca"]).fit(frame.drop("state"), labels)
    yield "FusedTable", fitted
    in_time = FusedDetector(["gmm", "kpca"], random_state=0)
    yield "FusedDetector, time", in_time.fit(_rng.normal(size=(60, 2)), order="time")
    made = deepcopy(fitted).preparation_  # as files of earlier versions hold it
    yield "TableModel", TableModel(made, deepcopy(fitted), "state", "ok", list(made.notes))


def _monitor_of_drift():
    """One that has declared drift."""
    fused = FusedDetector(["gmm", "kpca"], random_state=0).fit(X[:24])
    usual = np.tile(X[:24], (20, 1)) + np.random.default_rng(0).normal(scale=0.1, size=(480, 3))
    monitor = DriftMonitor().fit(fused, usual)
    monitor.update(usual + 3.0, fused.verdicts(usual + 3.0))
    assert monitor.status_.alarm
    return monitor


def faces():
    """A detector of videos, where lpfuse-faces is installed."""
    try:
        from lpfuse_faces._detector import VideoDetector
        from lpfuse_faces._extractor import Extractor
        from lpfuse_faces._model_file import model_settings
    except ImportError:
        return
    made = VideoDetector(learners=["gmm", "kpca"], random_state=0)
    made.set_params(settings=model_settings(Extractor(), pure=False))
    yield "VideoDetector", made.fit(videos(20) + videos(6, 4.0), np.repeat([1, -1], [20, 6]))


def videos(n, shift=0.0, frames=3):
    from lpfuse_faces._features import VideoFeatures

    rng = np.random.default_rng(n)
    found = []
    for k in range(n):
        sets = {name: rng.normal(shift, 1.0, (frames, 2)) for name in ("azimuthal/face", "b")}
        where = np.arange(frames), np.arange(frames) / 25
        places = np.zeros((frames, 4)), np.zeros((frames, 5, 2))
        found.append(VideoFeatures(f"{k}.mp4", "", *where, *places, sets, n_frames=frames))
    return found


def scikit():
    """One of each class of scikit-learn that a file may hold without the user's trust."""
    for name, known in loadable_classes().items():
        if known.is_own:
            continue
        if name in MADE:
            yield name, _fitted(MADE[name])
        elif name.startswith("_"):
            continue  # a part of others
        else:
            yield name, _made(known.cls)
    for name, estimator in VARIANTS.items():
        yield name, _fitted(estimator)


def donors():
    """Parts that compiled code follows, and estimators that are checked: they go elsewhere."""
    boosting = _fitted(VARIANTS["HistGradientBoostingClassifier, categories"])
    yield "_BinMapper", boosting._bin_mapper
    yield "TreePredictor", boosting._predictors[0][0]
    yield "Tree", _fitted(DecisionTreeClassifier(max_depth=2)).tree_
    for estimator in (
        EllipticEnvelope(random_state=0),
        GradientBoostingClassifier(n_estimators=2, max_depth=2),
        IsolationForest(n_estimators=2, random_state=0),
        VARIANTS["KNeighborsClassifier, brute"],
        VARIANTS["OneHotEncoder, two"],
        SVC(),
    ):
        yield type(estimator).__name__, _fitted(estimator)


def _made(cls):
    """Small, with what it needs; as it comes, where that does not fit the rows."""
    given = {key: ARGUMENTS[key] for key in signature(cls).parameters if key in ARGUMENTS}
    made = cls(**given)
    if not hasattr(made, "fit"):  # a kernel or a splitter
        return made
    small = {key: value for key, value in SMALLER.items() if key in made.get_params()}
    made.set_params(**small)
    return _fitted(made)


def _fitted(estimator):
    given = ODD.get(type(estimator).__name__, (X, Y))
    with warnings.catch_warnings(action="ignore"):
        return estimator.fit(*given)
