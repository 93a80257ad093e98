"""Converters to ONNX: detectors and scalers of lpfuse, scikit-learn estimators, and skl2onnx."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import log, pi
from typing import Any

import numpy as np
import skl2onnx
from numpy.typing import NDArray
from onnx import TensorProto, compose, helper, numpy_helper
from skl2onnx.common.data_types import DoubleTensorType
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

from lpfuse._arrays.operations import Host, to_host
from lpfuse._quantiles import tolerance_of
from lpfuse.adapters import MIN_PROBABILITY
from lpfuse.detectors import (
    SVDD,
    ColumnForest,
    GMMDetector,
    HistogramDetector,
    KernelPCADetector,
    KNNDetector,
    LOFDetector,
    OneClassGP,
    RobustCovarianceDetector,
    columns,
    neighbours,
)
from lpfuse.detectors.gaussian_process import SMALLEST_MEAN
from lpfuse.detectors.kernels import Kernel
from lpfuse.detectors.mixture import log_heights, precision_roots
from lpfuse.scaling import FAR, QUARTILES, TailScaler, TwoSidedMinMax
from lpfuse.views import FARTHEST, FilledGaps, NormalQuantiles
from lpfuse_onnx.graph import ML_OPSET, Converters, Tensor, hstack

# --------------------------------------------------------------------------------------------------
# Scalers and kernel learners of lpfuse

KERNELS = ("rbf", "laplacian", "linear", "poly", "polynomial", "sigmoid", "cosine")


def _between_quantiles(scaler: TailScaler | TwoSidedMinMax, S: Tensor) -> Tensor:
    """Scale scores so that the lower quantile is 0 and the upper one 1."""
    width = scaler.upper_ - scaler.lower_
    slope = np.divide(1.0, width, out=np.zeros_like(width), where=width > 0)
    return 0.5 + (S - (scaler.lower_ + width / 2)) * slope


def tail_scaler(scaler: TailScaler, S: Tensor) -> Tensor:
    """Cubes of robust standard deviations below the usual."""
    u = (1.0 - QUARTILES * (_between_quantiles(scaler, S) - 0.5)).clip(low=0.0)
    far = (u.clip(low=FAR) / FAR).apply("Log")
    return 0.0 - ((u.clip(high=FAR) + FAR * far) / 2.0) ** 3


def two_sided_min_max(scaler: TwoSidedMinMax, S: Tensor) -> Tensor:
    """Scores on the common scale."""
    z = _between_quantiles(scaler, S)
    if scaler.clip:
        inside = z.clip(0.0, 1.0)
        beyond = z - inside
        bent = beyond.apply("Sign") * (1.0 + beyond.apply("Abs")).apply("Log")
        z = inside + bent if scaler.clip == "soft" else inside
    low, high = scaler.feature_range
    return low + (high - low) * z


def svdd(detector: SVDD, X: Tensor) -> Tensor:
    """Minus the squared distance to the centre."""
    basis, coefficients = _expansion(detector, X)
    inner = basis @ coefficients[:, 0]
    return 2.0 * inner - diagonal(detector.kernel_, X) - detector.center_norm2_


def kernel_pca(detector: KernelPCADetector, X: Tensor) -> Tensor:
    """Minus the squared distance to the principal components."""
    basis, coefficients = _expansion(detector, X)
    projections = basis @ coefficients[:, 1:] - detector.mean_projections_
    length = diagonal(detector.kernel_, X) - 2.0 * (basis @ coefficients[:, 0])
    return (projections**2).sum() - (length + detector.mean_norm2_)


def gaussian_process(detector: OneClassGP, X: Tensor) -> Tensor:
    """One of the four scores of the Gaussian process."""
    basis, coefficients = _expansion(detector, X)
    mean = basis @ coefficients[:, 0]
    if detector.score_type == "mean":
        return mean
    known = ((basis @ coefficients[:, 1:]) ** 2).sum()
    variance = (diagonal(detector.kernel_, X) - known).clip(low=0.0) + detector.noise
    if detector.score_type == "variance":
        return -variance
    variance = variance.clip(low=float(np.finfo(np.float64).eps))
    if detector.score_type == "density":
        return -0.5 * (log(2 * pi) + variance.apply("Log") + (1.0 - mean) ** 2 / variance)
    return mean.clip(low=SMALLEST_MEAN).apply("Log") - 0.5 * variance.apply("Log")


def mixture(detector: GMMDetector, X: Tensor) -> Tensor:
    """Return the distance to the nearest component, or the likelihood."""
    squares = _mixture_distances(detector.mixture_, X)
    if detector.score_type == "mahalanobis":
        return -(-(-squares).highest().sum()).apply("Sqrt")
    return mixture_likelihood(detector.mixture_, X)


def mixture_likelihood(model: Any, X: Tensor) -> Tensor:
    """Return the logarithm of the density of a Gaussian mixture."""
    exponents = log_heights(model) - 0.5 * _mixture_distances(model, X)
    most = exponents.highest().clip(low=-1e300)  # so far away that all are −∞: so is the sum
    return (exponents - most).apply("Exp").sum().apply("Log") + most.sum()


def _mixture_distances(model: Any, X: Tensor) -> Tensor:
    """Squared Mahalanobis distances to the components of a Gaussian mixture."""
    columns = []
    for mean, root in zip(model.means_, precision_roots(model), strict=True):
        whitened = (X - mean) @ root if root.ndim == 2 else (X - mean) * root
        columns.append((whitened**2).sum(keepdims=True))
    return hstack(columns)


def similarities(kernel: Kernel, X: Tensor, Z: Host) -> Tensor:
    """``k(x_i, z_j)``."""
    if kernel.name not in KERNELS:
        raise NotImplementedError(
            f"kernel={kernel.name!r} has no converter to ONNX; {', '.join(KERNELS)} have one."
        )
    if kernel.name == "laplacian":
        apart = (X.apply("Unsqueeze", np.array([1])) - Z[None]).apply("Abs")
        return (-kernel.gamma * apart.apply("ReduceSum", np.array([2]), keepdims=0)).apply("Exp")
    if kernel.name == "rbf":
        centre = Z.mean(axis=0)
        X, Z = X - centre, Z - centre  # a common offset would cancel digits
        squares = (X**2).sum(keepdims=True) + (Z**2).sum(axis=1) - 2.0 * (X @ Z.T)
        return (-kernel.gamma * squares.clip(low=0.0)).apply("Exp")
    if kernel.name == "cosine":
        lengths = np.linalg.norm(Z, axis=1, keepdims=True)
        own = (X**2).sum(keepdims=True).apply("Sqrt")
        X = X / own.apply("Max", np.finfo(np.float64).tiny)
        Z = Z / np.where(lengths > 0, lengths, 1.0)
    return _from_products(kernel, X @ Z.T)


def diagonal(kernel: Kernel, X: Tensor) -> Any:
    """``k(x_i, x_i)``: a tensor, or the number that it always is."""
    if kernel.has_unit_diagonal:
        return 1.0
    squares = (X**2).sum()
    return squares.apply("Sign") if kernel.name == "cosine" else _from_products(kernel, squares)


def _from_products(kernel: Kernel, products: Tensor) -> Tensor:
    if kernel.name in ("poly", "polynomial"):
        return (kernel.gamma * products + kernel.coef0) ** kernel.degree
    if kernel.name == "sigmoid":
        return (kernel.gamma * products + kernel.coef0).apply("Tanh")
    return products


def _expansion(detector: Any, X: Tensor) -> tuple[Tensor, Host]:
    """Return the similarities to a kernel learner's anchors, and its coefficients."""
    basis, columns = detector.expansion_.basis, detector.expansion_.columns
    coefficients = to_host(detector.expansion_.coefficients)[:, :columns]
    return similarities(basis.kernel, X, to_host(basis.anchors)), coefficients


LEARNER_TRANSFORMERS: Converters = {TailScaler: tail_scaler, TwoSidedMinMax: two_sided_min_max}
LEARNER_DETECTORS: Converters = {
    SVDD: svdd,
    OneClassGP: gaussian_process,
    KernelPCADetector: kernel_pca,
    GMMDetector: mixture,
}


# --------------------------------------------------------------------------------------------------
# Tree ensembles as one ONNX operator


@dataclass(frozen=True)
class Tree:
    """Nodes of a tree: children for ``x[feature] ≤ threshold``, and values of leaves."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    leaf: NDArray[np.bool_]
    values: NDArray[np.float64]  # of each node, for each target; those of leaves count

    @classmethod
    def of(cls, tree: Any, values: Any, columns: Any = None) -> Tree:
        """Return a tree of scikit-learn that sees some columns (None: all) of the table."""
        leaf = tree.children_left == -1
        feature = np.where(leaf, 0, tree.feature)  # of a leaf it is −2
        seen = feature if columns is None else np.asarray(columns)[feature]
        parts = tree.children_left, tree.children_right, seen
        return cls(*parts, tree.threshold, leaf, np.reshape(values, (len(leaf), -1)))

    @classmethod
    def of_histograms(cls, nodes: Any) -> Tree:
        """Return a tree of scikit-learn's histogram-based boosting."""
        leaf = nodes["is_leaf"] != 0
        left, right, feature = (
            nodes[name].astype(np.int64) for name in ("left", "right", "feature_idx")
        )
        return cls(left, right, feature, nodes["num_threshold"], leaf, nodes["value"][:, None])


def sum_tree_outputs(X: Tensor, trees: Iterable[Tree]) -> Tensor:
    """Return, for each target, the sum of the leaf values over all trees."""
    trees = list(trees)
    sizes = [len(tree.leaf) for tree in trees]
    numbers = np.concatenate([np.arange(size) for size in sizes])
    owner = np.repeat(np.arange(len(trees)), sizes)
    leaf = np.concatenate([tree.leaf for tree in trees])
    values = np.concatenate([tree.values for tree in trees])
    told = np.nonzero(leaf)[0].repeat(values.shape[1])
    targets = np.tile(np.arange(values.shape[1]), leaf.sum())

    def joined(name: str) -> Any:
        return np.concatenate([getattr(tree, name) for tree in trees])

    def numbers_of(name: str, content: Any) -> Any:
        return numpy_helper.from_array(np.asarray(content, dtype=np.float64), name)

    return X.apply(
        "TreeEnsembleRegressor",
        domain="ai.onnx.ml",
        n_targets=values.shape[1],
        nodes_treeids=owner.tolist(),
        nodes_nodeids=numbers.tolist(),
        nodes_modes=np.where(leaf, "LEAF", "BRANCH_LEQ").tolist(),
        nodes_featureids=joined("feature").tolist(),
        nodes_truenodeids=np.where(leaf, 0, joined("left")).tolist(),
        nodes_falsenodeids=np.where(leaf, 0, joined("right")).tolist(),
        nodes_values_as_tensor=numbers_of("thresholds", np.where(leaf, 0, joined("threshold"))),
        target_treeids=owner[told].tolist(),
        target_nodeids=numbers[told].tolist(),
        target_ids=targets.tolist(),
        target_weights_as_tensor=numbers_of("leaves", values[told, targets]),
    ).cast(np.float64)


def to_tree_precision(X: Tensor) -> Tensor:
    """Round to single precision, as scikit-learn does before comparing with thresholds."""
    return X.cast(np.float32).cast(np.float64)


# --------------------------------------------------------------------------------------------------
# Feature transformers, and column and neighbour detectors of lpfuse


# Columns that are processed at once: each number is compared with up to 255 edges, which takes 10
# MB for 256 rows; one by one, 500 columns would take thousands of nodes. Chosen by hand.
COLUMN_BATCH = 32


def normal_quantiles(view: NormalQuantiles, X: Tensor) -> Tensor:
    """Interpolate each column between knots, and extrapolate linearly beyond them."""
    parts = []
    for some in _groups(len(view.knots_)):
        knots, levels = [view.knots_[j] for j in some], [view.quantiles_[j] for j in some]
        # After the last knot, and after one alone, the line is level.
        slopes = [np.r_[np.diff(z) / np.diff(u), 0.0] for u, z in zip(knots, levels, strict=True)]
        ends = [np.array([u[end] for u in knots]) for end in (0, -1)]
        x = X.take(some)
        inside = x.apply("Max", ends[0]).apply("Min", ends[1])
        beyond = ((x - inside) / view.scale_[some]).clip(-FARTHEST, FARTHEST)
        start, level, slope = _lookup_bins(inside, [u[1:] for u in knots], knots, levels, slopes)
        parts.append((level + (inside - start) * slope) + beyond)
    return hstack(parts)


def filled_gaps(view: FilledGaps, X: Tensor) -> Tensor:
    """Return the rows unchanged: those with missing values get NaN at the end."""
    return X


def histogram(detector: HistogramDetector, X: Tensor) -> Tensor:
    """Return the sum of the logarithms of shares."""
    n, half, parts = detector.n_samples_, columns.PSEUDO, []
    outside = float(np.log(columns.OUTSIDE / n))
    # Log-density of a bin relative to that outside of all bins.
    gains = [np.log((c + half) / (n + half * len(c))) - outside for c in detector.counts_]
    pairs = list(zip(detector.edges_, gains, strict=True))
    few = [j for j, (edges, gain) in enumerate(pairs) if len(edges) == len(gain)]
    many = [j for j in range(len(pairs)) if j not in few]
    if few:
        hits = _one_hot(X, few, [detector.edges_[j] for j in few])
        parts.append((hits * np.concatenate([gains[j] for j in few])).sum(keepdims=True))
    for group in _groups(len(many)):
        some = [many[k] for k in group]
        edges, x = [detector.edges_[j] for j in some], X.take(some)
        low, high = (np.array([each[end] for each in edges]) for end in (0, -1))
        inside = _compare(x, "GreaterOrEqual", low) * _compare(x, "LessOrEqual", high)
        (found,) = _lookup_bins(x, [each[1:-1] for each in edges], [gains[j] for j in some])
        parts.append((inside * found).sum(keepdims=True))
    return hstack(parts).sum() + outside * len(pairs)


def nearest_neighbours(detector: KNNDetector, X: Tensor) -> Tensor:
    """Return the mean distance to the k-th nearest row over subsets of the columns."""
    parts = []
    for b, (chosen, sample) in enumerate(zip(detector.columns_, detector.samples_, strict=True)):
        anchors, x = detector.rows_[np.ix_(sample, chosen)], X.take(chosen)
        centre = anchors.mean(axis=0)
        near, Z = x - centre, anchors - centre  # a common offset would cancel digits
        squares = (Z**2).sum(axis=1) - 2.0 * (near @ Z.T)  # and what all anchors have in common
        k = min(int(detector.n_neighbors), len(anchors))
        nearest = squares.apply("TopK", np.array([k]), output=1, axis=1, largest=0).take(k - 1)
        # Computed anew from the difference: of equal rows the squares would leave 1e-8.
        apart = x - X.graph.apply("Gather", anchors, nearest, axis=0)
        distance = (apart**2).sum(keepdims=True).apply("Sqrt")
        if detector.n_subspaces is not None:
            units = distance / detector.scale_[b]
            far = (units / neighbours.FAR).clip(low=1.0).apply("Log")
            distance = units.clip(high=neighbours.FAR) + far
        parts.append(distance)
    return -hstack(parts).sum() / len(parts)


def local_density(detector: LOFDetector, X: Tensor) -> Tensor:
    """Return the mean ratio of reachability distances, from the nearest kept rows."""
    rows, apply = detector.rows_, X.graph.apply
    near, Z = X - rows.mean(axis=0), rows - rows.mean(axis=0)
    squares = (Z**2).sum(axis=1) - 2.0 * (near @ Z.T)
    k = min(int(detector.n_neighbors), len(rows) - 1)
    nearest = squares.apply("TopK", np.array([k]), output=1, axis=1, largest=0)
    apart = X.as_column() - apply("Gather", rows, nearest, axis=0)
    distances = (apart**2).apply("ReduceSum", np.array([2]), keepdims=0).apply("Sqrt")
    reach = distances.apply("Max", apply("Gather", detector.farthest_, nearest, axis=0)).sum() / k
    inverse = apply("Gather", 1.0 / detector.reach_, nearest, axis=0)
    return -((reach + detector.least_) * inverse.sum() / k)


def robust_covariance(detector: RobustCovarianceDetector, X: Tensor) -> Tensor:
    """Return the logarithm of the squared Mahalanobis distance."""
    white = (X - detector.location_) @ detector.whitening_
    return -((white**2).sum() + 1.0).apply("Log")


def column_forest(detector: ColumnForest, X: Tensor) -> Tensor:
    """Return the squared standardised errors of the predictions of each column."""
    d, trees = detector.n_features_in_, []
    for tree, seen, told in zip(detector.trees_, detector.inputs_, detector.outputs_, strict=True):
        values = np.zeros((tree.node_count, d))
        values[:, told] = tree.value[:, :, 0]
        trees.append(Tree.of(tree, values, seen if len(seen) else None))
    far = columns.FARTHEST
    rows = ((X - detector.mean_) / detector.scale_).clip(-far, far)
    count = np.bincount(np.concatenate(detector.outputs_), minlength=d) * 1.0
    predicted = sum_tree_outputs(to_tree_precision(rows), trees) / count
    off = ((rows - predicted) / detector.errors_).apply("Abs").clip(high=columns.FAR)
    return -(off**2).sum()


def _groups(count: int) -> list[list[int]]:
    return [list(range(k, min(k + COLUMN_BATCH, count))) for k in range(0, count, COLUMN_BATCH)]


def _lookup_bins(x: Tensor, inner: list[Host], *tables: list[Host]) -> list[Tensor]:
    """Look up the bin of each number in tables; `inner` holds the inner edges of each column."""
    width = max(2, 1 + max(map(len, inner)))
    edges = np.full((len(inner), width - 1), np.inf)
    for row, values in zip(edges, inner, strict=True):
        row[: len(values)] = values
    reached = x.apply("Unsqueeze", np.array([2])).apply("GreaterOrEqual", edges[None])
    place = reached.cast(np.float32).apply("ReduceSum", np.array([2]), keepdims=0).cast(np.int64)
    found = []
    for table in tables:
        flat = np.zeros((len(inner), width))
        for row, values in zip(flat, table, strict=True):
            row[: len(values)] = values
        at = place + np.arange(len(inner)) * width
        found.append(x.graph.apply("Gather", flat.ravel(), at, axis=0))
    return found


def _one_hot(X: Tensor, which: list[int], values: list[Host]) -> Tensor:
    """Return one-hot indicators of the values."""
    sizes = [len(each) for each in values]
    off = (X.take(np.repeat(which, sizes)) - np.concatenate(values)).apply("Abs")
    near = np.repeat([tolerance_of(each) for each in values], sizes)
    return _compare(off, "LessOrEqual", near)


def _compare(x: Tensor, comparison: str, other: Host | float) -> Tensor:
    return x.apply(comparison, other).cast(np.float64)


COLUMN_TRANSFORMERS: Converters = {
    FilledGaps: filled_gaps,
    NormalQuantiles: normal_quantiles,
}
COLUMN_DETECTORS: Converters = {
    KNNDetector: nearest_neighbours,
    LOFDetector: local_density,
    RobustCovarianceDetector: robust_covariance,
    HistogramDetector: histogram,
    ColumnForest: column_forest,
}


# --------------------------------------------------------------------------------------------------
# Scikit-learn estimators
#
# skl2onnx is used where its converter works in double precision; most detectors have none, or one
# that fails with current scikit-learn.


MAX_LOG_ODDS = float(np.log((1 - MIN_PROBABILITY) / MIN_PROBABILITY))


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
    for member, seen in zip(forest.estimators_, forest.estimators_features_, strict=True):
        tree = member.tree_
        depths = tree.compute_node_depths() + _average_path_length(tree.n_node_samples) - 1.0
        trees.append(Tree.of(tree, depths, seen))
    expected = len(trees) * _average_path_length(np.array([forest.max_samples_]))[0]
    depth = sum_tree_outputs(to_tree_precision(X), trees).sum()
    share = depth / expected if expected else depth * 0.0 + 1.0  # as scikit-learn has it
    return -(-np.log(2.0) * share).apply("Exp")


def local_outlier_factor(detector: Any, X: Tensor) -> Tensor:
    """Minus the density of the neighbours relative to the row's own."""
    return _convert_with_skl2onnx(detector, X, "score_samples", score_samples=True).sum()


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
    """Return the sum of all trees on top of a constant."""
    if not (classifier.init_ == "zero" or isinstance(classifier.init_, DummyClassifier)):
        raise NotImplementedError("GradientBoostingClassifier has a converter for init=None only.")
    members = [member.tree_ for member in classifier.estimators_.ravel()]
    trees = [Tree.of(tree, classifier.learning_rate * tree.value) for tree in members]
    start = classifier._raw_predict_init(np.zeros((1, classifier.n_features_in_)))
    return sum_tree_outputs(to_tree_precision(X), trees).sum() + start.ravel()


def _histogram_boosting(classifier: Any, X: Tensor) -> Tensor:
    """Return the sum of all trees on top of a constant."""
    if classifier.is_categorical_ is not None:
        raise NotImplementedError(
            "HistGradientBoostingClassifier has a converter for columns of numbers only."
        )
    members = [predictor.nodes for (predictor,) in classifier._predictors]
    return sum_tree_outputs(X, map(Tree.of_histograms, members)).sum() + float(
        classifier._baseline_prediction.item()
    )


def _forest_classifier(classifier: Any, X: Tensor) -> Tensor:
    """Return the log-odds of the mean share of normal rows in the leaves."""
    members = getattr(classifier, "estimators_", [classifier])
    trees = []
    for member in members:
        counts = member.tree_.value[:, 0, :]
        trees.append(Tree.of(member.tree_, counts / counts.sum(axis=1, keepdims=True)))
    shares = sum_tree_outputs(to_tree_precision(X), trees).apply("Log")
    normal, anomaly = _position(classifier, 1), _position(classifier, -1)
    # A difference of logarithms is accurate where one share is near 1; limits as in the adapter.
    return (shares.take(normal) - shares.take(anomaly)).clip(-MAX_LOG_ODDS, MAX_LOG_ODDS)


def _probabilistic_classifier(classifier: Any, X: Tensor) -> Tensor:
    """Return the log-odds of a classifier whose probabilities skl2onnx can compute."""
    probabilities = _convert_with_skl2onnx(classifier, X, "probabilities", zipmap=False)
    share = probabilities.take(_position(classifier, 1)).clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return (share / (1.0 - share)).apply("Log")


def _neighbours_classifier(classifier: Any, X: Tensor) -> Tensor:
    """Return the log-odds of the share of normal rows among the neighbours."""
    if classifier.weights != "uniform":  # skl2onnx weights training rows differently
        raise NotImplementedError(
            'KNeighborsClassifier has a converter for weights="uniform" only, got '
            f"{classifier.weights!r}."
        )
    return _probabilistic_classifier(classifier, X)


def _skl2onnx_transformer(transformer: Any, X: Tensor) -> Tensor:
    """Convert a transformer with skl2onnx."""
    return _convert_with_skl2onnx(transformer, X, "variable")


def _support_vectors(machine: Any, X: Tensor) -> Tensor:
    kernel = Kernel(machine.kernel, machine._gamma, machine.degree, machine.coef0)
    return similarities(kernel, X, machine.support_vectors_) @ machine.dual_coef_[0]


def _position(classifier: Any, label: int) -> int:
    return list(classifier.classes_).index(label)


def _convert_with_skl2onnx(estimator: Any, X: Tensor, output: str, **options: Any) -> Tensor:
    try:
        model = skl2onnx.convert_sklearn(
            estimator,
            initial_types=[("X", DoubleTensorType([None, estimator.n_features_in_]))],
            options={id(estimator): options} if options else None,
            target_opset={"": X.graph.opset, "ai.onnx.ml": ML_OPSET},
        )
    except Exception as error:  # of many types, for unsupported parameters
        raise NotImplementedError(f"skl2onnx cannot convert {estimator!r}: {error}") from error
    return X.graph.include(model, X, output)


def _imputer(imputer: Any, X: Tensor) -> Tensor:
    """Replace missing values by the column's statistic; append missing indicators, if any."""
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
    return hstack([filled, missing.cast(np.float64).take(imputer.indicator_.features_)])


def _function(transformer: Any, X: Tensor) -> Tensor:
    """Return the rows unchanged; other functions have no converter."""
    if transformer.func is not None:
        raise NotImplementedError(
            f"{transformer!r} has no converter to ONNX; without a function it has one."
        )
    return X


# Steps that keep missing values missing and do not spread them to other cells.
KEEP_MISSING_VALUES = (StandardScaler, RobustScaler, MinMaxScaler, MaxAbsScaler)
SCIKIT_TRANSFORMERS: Converters = {
    FunctionTransformer: _function,
    SimpleImputer: _imputer,
    StandardScaler: _standard_scaler,
    RobustScaler: _robust_scaler,
    MinMaxScaler: _min_max_scaler,
    MaxAbsScaler: _max_abs_scaler,
    PCA: _skl2onnx_transformer,
    QuantileTransformer: _skl2onnx_transformer,
}
SCIKIT_DETECTORS: Converters = {
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
    GaussianNB: _probabilistic_classifier,
    GradientBoostingClassifier: _gradient_boosting,
    HistGradientBoostingClassifier: _histogram_boosting,
    KNeighborsClassifier: _neighbours_classifier,
    LinearDiscriminantAnalysis: _linear_classifier,
    LinearSVC: _linear_classifier,
    LogisticRegression: _linear_classifier,
    LogisticRegressionCV: _linear_classifier,
    MLPClassifier: _probabilistic_classifier,
    RandomForestClassifier: _forest_classifier,
    RidgeClassifier: _linear_classifier,
    SGDClassifier: _linear_classifier,
    SVC: _support_vector_classifier,
}


# --------------------------------------------------------------------------------------------------
# Registration with skl2onnx: our models become part of its pipelines


Make = Callable[
    [Any, Any, int], Any
]  # of an estimator, the type of its input and an opset: a model


def register(detectors: Iterable[type], transformers: Iterable[type], make: Make) -> None:
    """Register converters of classes with skl2onnx.

    Parameters
    ----------
    detectors, transformers : iterables of classes
        Which ones.
    make : callable
        ``make(estimator, dtype, opset)`` is a model of ONNX with the input X.
    """

    def convert(scope: Any, operator: Any, container: Any) -> None:
        _include_model(operator, container, scope.get_unique_variable_name("lpfuse"), make)

    for cls in detectors:
        skl2onnx.update_registered_converter(cls, f"Lpfuse{cls.__name__}", _label_shapes, convert)
    for cls in transformers:
        skl2onnx.update_registered_converter(cls, f"Lpfuse{cls.__name__}", _table_shapes, convert)


def _label_shapes(operator: Any) -> None:
    """Set the output shapes of a detector, as skl2onnx does for an isolation forest."""
    n = operator.inputs[0].get_first_dimension()
    operator.outputs[0].type.shape = operator.outputs[1].type.shape = [n, 1]


def _table_shapes(operator: Any) -> None:
    n = operator.inputs[0].get_first_dimension()
    operator.outputs[0].type.shape = [n, int(operator.raw_operator.n_features_in_)]


def _include_model(operator: Any, container: Any, prefix: str, make: Make) -> None:
    """Insert the nodes of our model between the input and the outputs of an operator."""
    opset = container.target_opset_any_domain("")
    model = make(operator.raw_operator, np.float64, opset)
    inner = compose.add_prefix(model, prefix).graph

    def cast(source: str, target: str, to: int) -> None:
        container.nodes.append(helper.make_node("Cast", [source], [target], to=to))

    cast(operator.inputs[0].full_name, inner.input[0].name, TensorProto.DOUBLE)
    container.initializers.extend(inner.initializer)
    container.nodes.extend(inner.node)
    container.node_domain_version_pair_sets |= {("", opset), ("ai.onnx.ml", ML_OPSET)}
    wanted = ("label", "decision") if len(operator.outputs) > 1 else ("transformed",)
    for name, output in zip(wanted, operator.outputs, strict=True):
        kind = output.type.to_onnx_type().tensor_type.elem_type
        found = prefix + name
        if name != "transformed":
            column = found + "_column"
            axes = prefix + name + "_axes"
            container.initializers.append(helper.make_tensor(axes, TensorProto.INT64, [1], [1]))
            container.nodes.append(helper.make_node("Unsqueeze", [found, axes], [column]))
            found = column
        cast(found, output.full_name, kind)
