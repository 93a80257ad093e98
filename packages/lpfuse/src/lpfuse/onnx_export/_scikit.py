"""Detectors, classifiers and scalers of scikit-learn as formulas of ONNX.

Where skl2onnx has a converter that works in double precision, it does the work; most of the
detectors have none, or one that fails on today's scikit-learn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.covariance import EllipticEnvelope
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.ensemble._iforest import _average_path_length
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    RidgeClassifier,
    SGDClassifier,
    SGDOneClassSVM,
)
from sklearn.mixture import GaussianMixture
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, LocalOutlierFactor
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC, OneClassSVM
from sklearn.tree import DecisionTreeClassifier

from lpfuse.adapters import SUREST
from lpfuse.detectors._kernels import Kernel
from lpfuse.onnx_export._graph import ML_OPSET, Converters, Tensor, extra, side_by_side
from lpfuse.onnx_export._learners import mixture_likelihood, similarities
from lpfuse.onnx_export._trees import Tree, as_trees_see, sum_of_leaves

SURE = float(np.log((1 - SUREST) / SUREST))


def _standard_scaler(scaler: Any, X: Tensor) -> Tensor:
    """``(x − mean) / scale``."""
    return _affine(X, scaler.mean_ if scaler.with_mean else None, scaler.scale_)


def _robust_scaler(scaler: Any, X: Tensor) -> Tensor:
    """``(x − median) / range``."""
    return _affine(X, scaler.center_, scaler.scale_)


def _max_abs_scaler(scaler: Any, X: Tensor) -> Tensor:
    """``x / max |x|``."""
    return _affine(X, None, scaler.scale_)


def _min_max_scaler(scaler: Any, X: Tensor) -> Tensor:
    """``x · scale + min``."""
    scaled = X * scaler.scale_ + scaler.min_
    return scaled.clip(*map(float, scaler.feature_range)) if scaler.clip else scaled


def _affine(X: Tensor, centre: Any, scale: Any) -> Tensor:
    X = X if centre is None else X - centre
    return X if scale is None else X / scale


def isolation_forest(forest: Any, X: Tensor) -> Tensor:
    """``−2^(−d / c)``, with d the mean depth of a row and c the depth that is to be expected."""
    trees = []
    for member, columns in zip(forest.estimators_, forest.estimators_features_, strict=True):
        tree = member.tree_
        depths = tree.compute_node_depths() + _average_path_length(tree.n_node_samples) - 1.0
        trees.append(Tree.of(tree, depths, columns))
    expected = len(trees) * _average_path_length(np.array([forest.max_samples_]))[0]
    depth = sum_of_leaves(as_trees_see(X), trees).sum()
    share = depth / expected if expected else depth * 0.0 + 1.0  # as scikit-learn has it
    return -(-np.log(2.0) * share).apply("Exp")


def local_outlier_factor(detector: Any, X: Tensor) -> Tensor:
    """Minus the density of the neighbours relative to the row's own."""
    return _by_skl2onnx(detector, X, "score_samples", score_samples=True).sum()


def one_class_svm(detector: Any, X: Tensor) -> Tensor:
    """``Σ α_j k(x, x_j)``."""
    return _support_vectors(detector, X)


def _linear_one_class_svm(detector: Any, X: Tensor) -> Tensor:
    """``xᵀw``."""
    return X @ detector.coef_.ravel()


def _elliptic_envelope(detector: Any, X: Tensor) -> Tensor:
    """Minus the squared Mahalanobis distance."""
    centred = X - detector.location_
    return -((centred @ detector.get_precision()) * centred).sum()


def _linear_classifier(classifier: Any, X: Tensor) -> Tensor:
    """``xᵀw + b``."""
    return X @ classifier.coef_.ravel() + classifier.intercept_.ravel()


def _support_vector_classifier(classifier: Any, X: Tensor) -> Tensor:
    """``Σ α_j k(x, x_j) + b``."""
    return _support_vectors(classifier, X) + classifier.intercept_


def _gradient_boosting(classifier: Any, X: Tensor) -> Tensor:
    """The sum of all trees on top of a constant."""
    if not (classifier.init_ == "zero" or isinstance(classifier.init_, DummyClassifier)):
        raise NotImplementedError("GradientBoostingClassifier has a converter for init=None only.")
    members = [member.tree_ for member in classifier.estimators_.ravel()]
    trees = [Tree.of(tree, classifier.learning_rate * tree.value) for tree in members]
    start = classifier._raw_predict_init(np.zeros((1, classifier.n_features_in_)))
    return sum_of_leaves(as_trees_see(X), trees).sum() + start.ravel()


def _histogram_boosting(classifier: Any, X: Tensor) -> Tensor:
    """The sum of all trees on top of a constant."""
    if classifier.is_categorical_ is not None:
        raise NotImplementedError(
            "HistGradientBoostingClassifier has a converter for columns of numbers only."
        )
    members = [predictor.nodes for (predictor,) in classifier._predictors]
    return sum_of_leaves(X, map(Tree.of_histograms, members)).sum() + float(
        classifier._baseline_prediction.item()
    )


def _forest_classifier(classifier: Any, X: Tensor) -> Tensor:
    """The log-odds of the mean share of normal rows in the leaves."""
    members = getattr(classifier, "estimators_", [classifier])
    trees = []
    for member in members:
        counts = member.tree_.value[:, 0, :]
        trees.append(Tree.of(member.tree_, counts / counts.sum(axis=1, keepdims=True)))
    shares = sum_of_leaves(as_trees_see(X), trees).apply("Log")
    normal, anomaly = _position(classifier, 1), _position(classifier, -1)
    # Both shares keep their digits where one is near 1; the limits are those of the adapter.
    return (shares.take(normal) - shares.take(anomaly)).clip(-SURE, SURE)


def _probable_classifier(classifier: Any, X: Tensor) -> Tensor:
    """The log-odds of a classifier whose probabilities skl2onnx can compute."""
    probabilities = _by_skl2onnx(classifier, X, "probabilities", zipmap=False)
    share = probabilities.take(_position(classifier, 1)).clip(SUREST, 1 - SUREST)
    return (share / (1.0 - share)).apply("Log")


def _neighbours_classifier(classifier: Any, X: Tensor) -> Tensor:
    """The log-odds of the share of normal rows among the neighbours."""
    if classifier.weights != "uniform":  # skl2onnx weighs rows that were trained on otherwise
        raise NotImplementedError(
            'KNeighborsClassifier has a converter for weights="uniform" only, got '
            f"{classifier.weights!r}."
        )
    return _probable_classifier(classifier, X)


def _other_transformer(transformer: Any, X: Tensor) -> Tensor:
    """Whatever skl2onnx makes of a transformer."""
    return _by_skl2onnx(transformer, X, "variable")


def _support_vectors(machine: Any, X: Tensor) -> Tensor:
    kernel = Kernel(machine.kernel, machine._gamma, machine.degree, machine.coef0)
    return similarities(kernel, X, machine.support_vectors_) @ machine.dual_coef_[0]


def _position(classifier: Any, label: int) -> int:
    return list(classifier.classes_).index(label)


def _by_skl2onnx(estimator: Any, X: Tensor, output: str, **options: Any) -> Tensor:
    types, skl2onnx = extra("skl2onnx.common.data_types"), extra("skl2onnx")  # nosec B610 # no SQL
    try:
        model = skl2onnx.convert_sklearn(
            estimator,
            initial_types=[("X", types.DoubleTensorType([None, estimator.n_features_in_]))],
            options={id(estimator): options} if options else None,
            target_opset={"": X.graph.opset, "ai.onnx.ml": ML_OPSET},
        )
    except Exception as error:  # of many types, for parameters that it does not know
        raise NotImplementedError(f"skl2onnx cannot convert {estimator!r}: {error}") from error
    return X.graph.include(model, X, output)


def _imputer(imputer: Any, X: Tensor) -> Tensor:
    """Missing cells replaced by the column's statistic; indicators of gaps beside, if there are."""
    try:
        statistics = np.asarray(imputer.statistics_, dtype=np.float64)
    except ValueError as error:
        told = f"{imputer!r} has a converter for columns of numbers only."
        raise NotImplementedError(told) from error
    missing = X.apply("IsNaN")
    if not np.isnan(imputer.missing_values):
        missing = X.apply("Equal", float(imputer.missing_values))
    kept = np.flatnonzero(~np.isnan(statistics))  # a column without a value is dropped
    if imputer.keep_empty_features:
        statistics, kept = np.nan_to_num(statistics), np.arange(len(statistics))
    filled = missing.apply("Where", statistics, X).take(kept)
    if imputer.indicator_ is None or not len(imputer.indicator_.features_):
        return filled
    return side_by_side([filled, missing.cast(np.float64).take(imputer.indicator_.features_)])


def _function(transformer: Any, X: Tensor) -> Tensor:
    """The rows as they are; other functions have no converter."""
    if transformer.func is not None:
        raise NotImplementedError(
            f"{transformer!r} has no converter to ONNX; without a function it has one."
        )
    return X


# Steps that leave a missing cell missing, and let nothing of it into others.
KEEP_GAPS = (StandardScaler, RobustScaler, MinMaxScaler, MaxAbsScaler)
TRANSFORMERS: Converters = {
    FunctionTransformer: _function,
    SimpleImputer: _imputer,
    StandardScaler: _standard_scaler,
    RobustScaler: _robust_scaler,
    MinMaxScaler: _min_max_scaler,
    MaxAbsScaler: _max_abs_scaler,
    PCA: _other_transformer,
    QuantileTransformer: _other_transformer,
}
DETECTORS: Converters = {
    IsolationForest: isolation_forest,
    LocalOutlierFactor: local_outlier_factor,
    OneClassSVM: one_class_svm,
    SGDOneClassSVM: _linear_one_class_svm,
    EllipticEnvelope: _elliptic_envelope,
    GaussianMixture: mixture_likelihood,
}
CLASSIFIERS: Converters = {
    DecisionTreeClassifier: _forest_classifier,
    ExtraTreesClassifier: _forest_classifier,
    GaussianNB: _probable_classifier,
    GradientBoostingClassifier: _gradient_boosting,
    HistGradientBoostingClassifier: _histogram_boosting,
    KNeighborsClassifier: _neighbours_classifier,
    LinearDiscriminantAnalysis: _linear_classifier,
    LinearSVC: _linear_classifier,
    LogisticRegression: _linear_classifier,
    LogisticRegressionCV: _linear_classifier,
    MLPClassifier: _probable_classifier,
    RandomForestClassifier: _forest_classifier,
    RidgeClassifier: _linear_classifier,
    SGDClassifier: _linear_classifier,
    SVC: _support_vector_classifier,
}
