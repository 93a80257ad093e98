"""What compiled code of scikit-learn will index: shapes, ranges and order, before it may.

Trees become one array of numbers each, a row for each node, and are made again from it.
"""

from __future__ import annotations

import sys
from functools import cache, partial
from importlib import import_module
from inspect import signature
from types import FunctionType
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import validate_parameter_constraints

from lpfuse._saved import register_all, saved_classes
from lpfuse.io.archive import NUMBER_TYPES, Refused

# --------------------------------------------------------------------------------------------------
# Estimators of other makers, by skops: types are trusted by the user, by name, or not at all.
#
# Nothing of this is used unless the user names a type: then code of that type runs, and skops makes
# whatever of scikit-learn it holds without the checks of `_soundness`.


# Compiled parts of scikit-learn that detectors of PyOD hold; skops leaves them to the user.
PARTS = frozenset((
    "numpy.dtype", "sklearn.neighbors._ball_tree.BallTree", "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.tree._tree.Tree", "sklearn.metrics._dist_metrics.ChebyshevDistance64",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.metrics._dist_metrics.ManhattanDistance64",
    "sklearn.metrics._dist_metrics.MinkowskiDistance64",
))  # fmt: skip


# What skops asks about in detectors of lpfuse beside classes that have a name in files: caches of
# neighbour searches, boosted trees, and the interface of PyOD.
BESIDE = frozenset((
    "lpfuse.detectors.columns.FlatTrees", "lpfuse.detectors.neighbours.Stack",
    "lpfuse.detectors.neighbours.SubsetSearch",
    "lpfuse.pyod.PyODFused", "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
))  # fmt: skip


def skops_trusted_types() -> list[str]:
    """Types of lpfuse, and compiled parts of scikit-learn in them, for ``skops.io.load(trusted=)``.

    For programs that save with skops by themselves, such as MLflow
    (``mlflow.sklearn.log_model(..., skops_trusted_types=...)``). With `lpfuse.load` it is not
    needed.

    Returns
    -------
    list of str
        Full names of classes, sorted: those that `lpfuse.save` writes, and what they hold. None of
        them runs what a file says, but skops does not check what it fills them with: load files
        of people you trust, or use `lpfuse.load`, which checks.

    Examples
    --------
    >>> from lpfuse.io import skops_trusted_types
    >>> "lpfuse.ensemble.fused.FusedDetector" in skops_trusted_types()
    True
    """
    register_all()
    ours = {_name(cls) for cls in saved_classes().values() if cls.__module__.startswith("lpfuse.")}
    return sorted(ours | PARTS | BESIDE)


def dumps(thing: Any, path: str) -> tuple[bytes, list[str]]:
    """Return an estimator as a skops member, and the types that a user has to trust.

    `path` says where it is, should it have to be refused.
    """
    if not _is_estimator(thing):
        raise TypeError(_refusal(path, _told(thing)))
    io = _skops()
    try:
        content = bytes(io.dumps(thing))
    except Exception as error:
        raise TypeError(_refusal(path, f"{_told(thing)} ({error})")) from error
    # One of scikit-learn's that is not on our list has no type that skops would ask about.
    untrusted = {*io.get_untrusted_types(data=content)} - PARTS or {_name(type(thing))}
    hidden = [name for name in sorted(untrusted) if not _can_be_found(name)]
    if hidden:
        raise TypeError(_refusal(path, f"{_told(thing)} with {', '.join(hidden)}"))
    return content, sorted(untrusted)


def check_trust(needed: list[Any], trusted: list[str]) -> None:
    """Refuse types that the user has not named, before anything of them is looked at."""
    told = sorted({str(name) for name in needed} - set(trusted))
    if told or not needed:
        raise Refused(
            f"It holds types that are not trusted: {', '.join(told)[:1000]}. If you know that the "
            f"file comes from where it should, pass trusted={told!r:.1000}; code of theirs will "
            "run."
        )


def loads(content: bytes, trusted: list[str]) -> Any:
    """Return the estimator of a skops member, unless there is a type in it that is not trusted."""
    io = _skops()
    found = {*io.get_untrusted_types(data=content)} - PARTS
    if found:
        check_trust(sorted(found), trusted)
    made = io.loads(content, trusted=sorted({*trusted, *PARTS}))
    if not found:
        check_trust([_name(type(made))], trusted)
    return made


def _skops() -> Any:
    try:
        import skops.io.exceptions
    except ImportError as error:
        raise ImportError(
            'Estimators of other makers are saved with skops: pip install "lpfuse[persist]"'
        ) from error
    return skops.io


def _is_estimator(thing: Any) -> bool:
    """Return whether it is an object with parameters whose class another program can import."""
    if isinstance(thing, type):
        return False
    name = _name(type(thing))
    return _can_be_found(name) and (name.startswith("sklearn.") or hasattr(thing, "get_params"))


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _can_be_found(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    return module != "__main__" and hasattr(sys.modules.get(module), attribute)


def _told(thing: Any) -> str:
    if isinstance(thing, type):
        return f"the class {thing.__qualname__}"
    kind = "a function" if hasattr(thing, "__code__") else f"of type {type(thing).__qualname__}"
    return f"{kind} of {getattr(thing, '__module__', None) or type(thing).__module__}"


def _refusal(path: str, told: str) -> str:
    return (
        f"{path or 'This'} is {told}, and cannot be saved: a file holds data, and names of "
        "estimators that other programs can import. Turn it into a class derived from "
        "sklearn.base.BaseEstimator in a module of its own, or leave it out."
    )


# --------------------------------------------------------------------------------------------------

Array = np.ndarray[Any, Any]
SPARSE = {cls.__name__: cls for cls in (
    sparse.csr_array, sparse.csc_array, sparse.csr_matrix, sparse.csc_matrix,
)}  # fmt: skip


def is_tree(thing: Any) -> bool:
    """Return whether it is a compiled tree of scikit-learn's."""
    return type(thing).__module__ == "sklearn.tree._tree" and type(thing).__name__ == "Tree"


def is_predictor(thing: Any) -> bool:
    """Return whether it is a tree of gradient boosting by histograms."""
    return type(thing).__name__ == "TreePredictor" and type(thing).__module__.startswith("sklearn.")


def tree_columns(tree: Any) -> tuple[Any, ...]:
    """Return what a tree is: names of the columns, features, classes, depth, columns."""
    state = tree.__getstate__()
    nodes, values = state["nodes"], state["values"]
    table = np.column_stack([_columns(nodes), values.reshape(len(values), -1)])
    classes = tree.n_classes.tolist()
    return list(nodes.dtype.names), int(tree.n_features), classes, int(tree.max_depth), table


def make_tree(names: Any, n_features: int, classes: list[int], depth: int, table: Array) -> Any:
    """Return a tree of `tree_columns`, every path of which ends in a leaf."""
    from sklearn.tree._tree import NODE_DTYPE, Tree

    _need(all(type(each) is int and each > 0 for each in classes) and classes, "Tree", "classes")
    count, width = len(NODE_DTYPE.names), len(classes) * max(classes)
    _need(_is(table, "f", None, count + width) and len(table) > 0, "Tree", "values")
    nodes = _records(names, table[:, :count], NODE_DTYPE)
    leaf = nodes["left_child"] == -1
    _need(_lead_onwards(nodes["left_child"], nodes["right_child"], leaf), "Tree", "children")
    _need(_within(nodes["feature"][~leaf], n_features), "Tree", "features")
    tree = Tree(n_features, np.array(classes, dtype=np.intp), len(classes))
    values = table[:, count:].reshape(len(table), len(classes), -1)
    state = {"max_depth": depth, "node_count": len(table), "nodes": nodes}
    tree.__setstate__(state | {"values": np.ascontiguousarray(values)})
    _need(tree.compute_node_depths().max() - 1 <= depth < 2 * len(table), "Tree", "levels")
    return tree


def predictor_columns(predictor: Any) -> tuple[Any, ...]:
    """Return what a tree of boosting is: names of the columns, columns, its sets of categories."""
    sets = predictor.binned_left_cat_bitsets, predictor.raw_left_cat_bitsets
    return list(predictor.nodes.dtype.names), _columns(predictor.nodes), *sets


def make_predictor(names: Any, table: Array, binned: Array, raw: Array) -> Any:
    """Return a tree of `predictor_columns`; its features are checked where they are known."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    _need(_is(table, "f", None, len(PREDICTOR_RECORD_DTYPE.names)), "TreePredictor", "nodes")
    nodes = _records(names, table, PREDICTOR_RECORD_DTYPE)
    leaf = nodes["is_leaf"] != 0
    left, right = nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)
    by_category = (nodes["is_categorical"] != 0) & ~leaf
    _need(_lead_onwards(left, right, leaf), "TreePredictor", "children")
    for bits in (binned, raw):
        _need(_is(bits, "u", None, 8) and bits.itemsize == 4, "TreePredictor", "categories")
        _need(_within(nodes["bitset_idx"][by_category], len(bits)), "TreePredictor", "categories")
    return TreePredictor(nodes, binned, raw)


def make_sparse(kind: str, shape: Any, data: Any, indices: Any, starts: Any) -> Any:
    """Return a sparse matrix whose indices are within it."""
    lines, width = shape if kind.startswith("csr") else shape[::-1]
    # scipy's own check looks at no order where the last of the starts is zero.
    ordered = _is(starts, "i", lines + 1) and starts[0] == 0 and (np.diff(starts) >= 0).all()
    _need(ordered and starts[-1] <= len(indices) == len(data), kind, "starts of lines")
    _need(_is(indices, "i", None) and _within(indices, width), kind, "indices")
    return SPARSE[kind]((data, indices, starts), shape=tuple(shape))


def check_soundness(made: Any) -> None:
    """Refuse a fitted estimator whose arrays would lead compiled code out of them."""
    name, known = type(made).__name__, vars(made)
    if "tree_" in known:
        _need(is_tree(made.tree_) and made.tree_.n_features == made.n_features_in_, name, "tree_")
        _need(made.tree_.n_outputs == made.n_outputs_ == 1, name, "outputs")
    if "n_classes_" in known and "classes_" in known:
        _need(np.size(made.n_classes_) == 1 and made.n_classes_ == len(made.classes_), name,
              "classes")  # fmt: skip
    # Voting and stacking ask their members, which look at their rows themselves.
    if "estimators_" in known and not hasattr(type(made), "n_features_in_"):
        _need(type(known.get("n_features_in_")) is int, name, "n_features_in_")
        _check_members(made, name)
    for family, check in _CHECKS.items():
        if family in known:
            check(made, name)


def _check_members(made: Any, name: str) -> None:
    """Trees see as many columns as they know: some ensembles hand rows over without a look."""
    held = made.estimators_
    members = list(held.ravel() if isinstance(held, np.ndarray) else held)
    seen = [made.n_features_in_] * len(members)
    if getattr(made, "_max_features", made.n_features_in_) != made.n_features_in_:
        shown = made.estimators_features_
        inside = all(_is(each, "iu", None) and _within(each, made.n_features_in_) for each in shown)
        _need(inside, name, "estimators_features_")
        seen = [len(features) for features in shown]
    _need(len(seen) == len(members), name, "estimators_features_")
    for member, columns in zip(members, seen, strict=True):
        if hasattr(member, "tree_"):
            _need(member.tree_.n_features == columns, name, "estimators_")


def _check_boosting(made: Any, name: str) -> None:
    """The compiled sum writes ``out[i · K + k]`` for K trees a stage."""
    trees, count = made.estimators_, made.n_trees_per_iteration_
    _need(count == (1 if len(made.classes_) == 2 else len(made.classes_)), name, "trees a stage")
    _need(_is(trees, "O", None, count) and len(trees) > 0, name, "estimators_")
    whole = all(is_tree(getattr(tree, "tree_", None)) for tree in trees.ravel())
    _need(whole and all(tree.tree_.value.shape[1:] == (1, 1) for tree in trees.ravel()), name,
          "estimators_")  # fmt: skip
    start = made.init_
    if type(start).__name__ == "DummyClassifier":
        _need(len(start.classes_) == len(made.classes_), name, "init_")
        _need(start._strategy == "prior" and start.n_outputs_ == 1, name, "init_")
        _need(_is(start.class_prior_, "f", len(made.classes_)), name, "init_")
    else:
        _need(isinstance(start, str) and start == "zero", name, "init_")


def _check_histograms(made: Any, name: str) -> None:
    """Features of nodes are columns of the rows, those of categories have at most 256 of them."""
    columns, bins = made.n_features_in_, made._bin_mapper
    by_category = np.asarray(bins.is_categorical_, dtype=bool)
    _need(_is(bins.is_categorical_, "ub", columns), name, "is_categorical_")
    _need(len(bins.bin_thresholds_) == columns, name, "bin_thresholds_")
    for k in np.flatnonzero(by_category):
        values = bins.bin_thresholds_[k]
        _need(_is(values, "f", None) and _within(values, 256), name, "categories")
    for predictor in (tree for stage in made._predictors for tree in stage):
        _need(is_predictor(predictor), name, "_predictors")
        nodes = predictor.nodes[predictor.nodes["is_leaf"] == 0]
        _need(_within(nodes["feature_idx"], columns), name, "features")
        split = nodes["feature_idx"][nodes["is_categorical"] != 0]
        _need(bool(by_category[split].all()), name, "features")
    if made._preprocessor is not None:  # puts columns of categories first, and changes no number
        parts = [part[1:] for part in made._preprocessor.transformers_[:2]]
        kinds = [type(part).__name__ for part in (made._preprocessor, *(part for part, _ in parts))]
        known = ["ColumnTransformer", "OrdinalEncoder", "FunctionTransformer"]
        _need(kinds == known, name, "_preprocessor")
        chosen = [np.asarray(mask) for _, mask in parts]
        whole = all(_is(mask, "b", columns) for mask in chosen) and (chosen[0] ^ chosen[1]).all()
        _need(whole and made._preprocessor.n_features_in_ == columns, name, "_preprocessor")


def _check_neighbours(made: Any, name: str) -> None:
    rows, options = made._fit_X, made.effective_metric_params_
    _need(_is(rows, "f", made.n_samples_fit_, made.n_features_in_), name, "_fit_X")
    _need(bool(np.isfinite(rows).all()), name, "_fit_X")
    plain = isinstance(options, dict) and all(
        key == "p" and isinstance(value, int | float) for key, value in options.items()
    )
    plain = plain and made.metric_params is None and isinstance(made.effective_metric_, str)
    _need(plain, name, "effective_metric_params_")
    if "_y" in vars(made):
        within = _is(made._y, "iu", len(rows)) and _within(made._y, len(made.classes_))
        _need(within and made.classes_.ndim == 1 and not made.outputs_2d_, name, "_y")


def _check_support(made: Any, name: str) -> None:
    """What libsvm copies: m support vectors of K classes, K − 1 rows of coefficients."""
    vectors, counts = made.support_vectors_, made._n_support
    m, one_class = len(vectors), name == "OneClassSVM"
    classes = 2 if one_class else len(made.classes_)
    pairs = classes * (classes - 1) // 2
    _need(_is(vectors, "f", m, made.n_features_in_) and vectors.itemsize == 8, name, "vectors")
    _need(_is(made.support_, "i", m) and made.support_.itemsize == 4, name, "support_")
    _need(_is(counts, "i", classes) and counts.itemsize == 4, name, "_n_support")
    whole = (counts == m).all() if one_class else (counts >= 0).all() and counts.sum() == m
    _need(bool(whole) and not made._sparse, name, "_n_support")
    for each in ("_dual_coef_", "dual_coef_"):
        _need(_is(vars(made)[each], "f", classes - 1, m), name, each)
    for each in ("_intercept_", "intercept_"):
        _need(_is(vars(made)[each], "f", pairs), name, each)
    # What scikit-learn hands to libsvm; 1.7 has the parameter alone.
    gives_chances = getattr(made, "_effective_probability", made.probability)
    for each in (made._probA, made._probB):
        _need(_is(each, "f", pairs if gives_chances else 0), name, "probabilities")


def _check_one_hot(made: Any, name: str) -> None:
    """Codes of categories become columns of a sparse matrix, unchecked: all must be there."""
    widths, columns = made._n_features_outs, made.n_features_in_
    _need(len(made.categories_) == len(widths) == columns, name, "categories_")
    for k, categories in enumerate(made.categories_):
        check_order(categories, name)
        codes = np.arange(len(categories))
        grouped = made._default_to_infrequent_mappings[k] if made._infrequent_enabled else None
        if grouped is not None:
            _need(_is(grouped, "iu", len(categories)), name, "infrequent categories")
            codes = grouped
        dropped = made._drop_idx_after_grouping
        if dropped is not None and dropped[k] is not None:
            _need(len(dropped) == columns, name, "drop_idx_")
            codes = codes[codes != dropped[k]]
            codes = codes - (codes > dropped[k])
        _need(_within(codes, widths[k]), name, "_n_features_outs")


def check_order(categories: Any, name: str) -> None:
    """Numbers among categories are looked up by bisection: they ascend, a missing one is last."""
    _need(type(categories) is np.ndarray and categories.ndim == 1, name, "categories_")
    if categories.dtype.kind in "iuf":
        known = categories[:-1] if np.isnan(categories[-1:]).any() else categories
        _need(bool((np.diff(known) > 0).all()), name, "categories_")


# By an attribute that only this family has.
_CHECKS = {
    "n_trees_per_iteration_": lambda made, name: (
        _check_histograms if "_bin_mapper" in vars(made) else _check_boosting
    )(made, name),
    "n_samples_fit_": _check_neighbours,
    "_n_support": _check_support,
    "_n_features_outs": _check_one_hot,
}


def _columns(records: Any) -> Array:
    """Return the fields of records as columns of float64, which holds all of them exactly."""
    return np.column_stack([records[name].astype(np.float64) for name in records.dtype.names])


def _records(names: Any, table: Array, dtype: Any) -> Array:
    if names != list(dtype.names):
        raise Refused(
            "Its trees are of another version of scikit-learn. Install the one that the file was "
            "written with, or fit the model again."
        )
    records = np.zeros(len(table), dtype=dtype)
    for name, column in zip(names, table.T, strict=True):
        kind = dtype[name]
        if kind.kind in "iu":
            bounds = np.iinfo(kind)
            whole = (column == np.round(column)) & (column >= bounds.min) & (column <= bounds.max)
            _need(bool(whole.all()), "Tree", name)
        records[name] = column
    return records


def _lead_onwards(left: Any, right: Any, leaf: Any) -> bool:
    """Return whether every inner node has two children that come later: so each path ends."""
    here = np.arange(len(left))
    later = (here < left) & (left < len(left)) & (here < right) & (right < len(right))
    return len(left) > 0 and bool((leaf | later).all())


def _within(indices: Any, count: int) -> bool:
    return bool(((indices >= 0) & (indices < count)).all())


def _is(array: Any, kinds: str, *shape: int | None) -> bool:
    """Return whether it is an array of these kinds and that shape; None: any size."""
    return (
        type(array) is np.ndarray  # a mask would hide from us what compiled code sees
        and array.dtype.kind in kinds
        and array.ndim == len(shape)
        and all(size in (None, found) for size, found in zip(shape, array.shape, strict=True))
    )


def _need(sound: Any, name: str, what: str) -> None:
    if not sound:
        raise Refused(
            f"Its {name} holds {what} that do not fit together, and would lead its compiled code "
            "out of its arrays. Restore the file, or fit the model again."
        )


# --------------------------------------------------------------------------------------------------
# Which estimators of scikit-learn a file may hold, and what they have to satisfy.
#
# They are made by their constructors, which only store, and of their fitted attributes. Most of
# them score with NumPy, which checks what it is given. The compiled code of some follows indices
# without looking: whatever it would follow is checked in `_soundness`, or not read but computed
# anew (`_rebuild`), such as the search trees of neighbours. What is not on this list goes through
# skops, and needs the user's trust.


CLASSES = {
    "calibration": "CalibratedClassifierCV _CalibratedClassifier _SigmoidCalibration",
    "compose": "ColumnTransformer",
    "covariance": "EllipticEnvelope EmpiricalCovariance LedoitWolf MinCovDet OAS ShrunkCovariance",
    "decomposition": "FactorAnalysis FastICA IncrementalPCA KernelPCA PCA TruncatedSVD",
    "discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "dummy": "DummyClassifier",
    "ensemble": "AdaBoostClassifier BaggingClassifier ExtraTreesClassifier "
    "GradientBoostingClassifier HistGradientBoostingClassifier IsolationForest "
    "RandomForestClassifier StackingClassifier VotingClassifier",
    "ensemble._hist_gradient_boosting.binning": "_BinMapper",
    "feature_selection": "SelectFromModel SelectKBest VarianceThreshold",
    "frozen": "FrozenEstimator",
    "gaussian_process": "GaussianProcessClassifier GaussianProcessRegressor",
    "gaussian_process._gpc": "_BinaryGaussianProcessClassifierLaplace",
    "gaussian_process.kernels": "ConstantKernel DotProduct Matern Product RBF RationalQuadratic "
    "Sum WhiteKernel",
    "impute": "KNNImputer MissingIndicator SimpleImputer",
    "isotonic": "IsotonicRegression",
    "kernel_approximation": "Nystroem RBFSampler",
    "linear_model": "LogisticRegression LogisticRegressionCV Perceptron RidgeClassifier "
    "RidgeClassifierCV SGDClassifier SGDOneClassSVM",
    "mixture": "BayesianGaussianMixture GaussianMixture",
    "model_selection": "GridSearchCV GroupKFold GroupShuffleSplit KFold LeaveOneGroupOut "
    "LeaveOneOut PredefinedSplit RandomizedSearchCV RepeatedKFold RepeatedStratifiedKFold "
    "ShuffleSplit StratifiedGroupKFold StratifiedKFold StratifiedShuffleSplit TimeSeriesSplit",
    "naive_bayes": "BernoulliNB GaussianNB",
    "neighbors": "KNeighborsClassifier LocalOutlierFactor NearestNeighbors",
    "neural_network": "MLPClassifier",
    "pipeline": "FeatureUnion Pipeline",
    "preprocessing": "FunctionTransformer KBinsDiscretizer KernelCenterer LabelBinarizer "
    "LabelEncoder MaxAbsScaler MinMaxScaler Normalizer OneHotEncoder OrdinalEncoder "
    "PowerTransformer QuantileTransformer RobustScaler StandardScaler",
    "random_projection": "GaussianRandomProjection SparseRandomProjection",
    "svm": "LinearSVC NuSVC OneClassSVM SVC",
    "tree": "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier ExtraTreeRegressor",
}
HOMES = {name: module for module, names in CLASSES.items() for name in names.split()}

# Strings of parameters for which scikit-learn declares none.
UNDECLARED = {
    "method": ("isotonic", "sigmoid", "temperature"),
    **dict.fromkeys((
        "alpha_bounds", "constant_value_bounds", "length_scale_bounds", "noise_level_bounds",
        "sigma_0_bounds",
    ), ("fixed",)),
}  # fmt: skip
# Names of columns, classes, categories, steps: strings that are data.
ANY_TEXT = frozenset(("constant", "fill_value", "missing_values"))
LISTED_TEXT = frozenset((
    "categorical_features", "categories", "class_weight", "classes", "drop", "estimators",
    "param_distributions", "param_grid", "steps", "transformer_list", "transformer_weights",
    "transformers",
))  # fmt: skip
FITTED_TEXT = frozenset((
    "_columns", "_name_to_fitted_passthrough", "_remainder", "_transformer_to_input_indices",
    "best_params_", "categories_", "classes_", "constant_", "cv_results_",
    "effective_metric_params_", "feature_names_in_", "named_estimators_", "output_indices_",
    "statistics_", "transformers_",
))  # fmt: skip
# Other strings in fitted attributes: those that the class declares for its parameters, and these.
FITTED_WORDS = ("binary", "default", "multiclass", "pandas", "polars", "softmax", "transform")
# The rows would be similarities, and `support_` an index into them; the metric a function.
NEVER = frozenset(("precomputed", "pyfunc"))
# Not in files: compiled objects, which are made anew where a score needs them, and what only
# fitting uses. A model that says that it is being fitted takes rows as they come.
LEFT_OUT = frozenset((
    "_average_path_length_per_tree", "_decision_path_lengths", "_in_fit", "_loss",
    "_loss_function_", "_metadata_request", "_optimizer", "_scorer", "_tree", "f_", "scorer_",
))  # fmt: skip


@cache
def functions() -> dict[str, Any]:
    """Functions that parameters may be: NumPy's of a number, and two of scikit-learn's."""
    from sklearn.feature_selection import f_classif
    from sklearn.utils import check_array

    names = ("abs", "arcsinh", "cbrt", "exp", "expm1", "log", "log10", "log1p", "log2", "sqrt",
             "square", "tanh")  # fmt: skip
    # What boosting with categories puts before its columns of numbers.
    numbers = partial(check_array, dtype=[np.float64], ensure_all_finite=False)
    return {name: getattr(np, name) for name in names} | {
        "f_classif": f_classif,
        "numbers": numbers,
    }


def function_name(thing: Any) -> str | None:
    """Return what files call a function; None where they cannot hold it."""
    for name, known in functions().items():
        parts = [getattr(each, "func", each) for each in (thing, known)]
        if parts[0] is parts[1] and getattr(thing, "keywords", 0) == getattr(known, "keywords", 0):
            return name
    return None


def class_called(name: str) -> type | None:
    """Return the class of that name on the list."""
    home = HOMES.get(name)
    return None if home is None else getattr(import_module(f"sklearn.{home}"), name)


def name_of(thing: Any) -> str | None:
    """Return what files call the class of an estimator.

    None with a function that they cannot hold.
    """
    name = type(thing).__name__
    if name not in HOMES or class_called(name) is not type(thing):
        return None
    functions_held = [each for each in vars(thing).values() if isinstance(each, FunctionType)]
    return name if all(map(function_name, functions_held)) else None


def words_of(cls: Any) -> dict[str, tuple[Any, ...]]:
    """Return the strings that each parameter may be: what scikit-learn itself declares."""
    constraints = getattr(cls, "_parameter_constraints", {})
    found: dict[str, tuple[Any, ...]] = {}
    for name, parameter in signature(cls).parameters.items():
        declared = constraints.get(name)
        words = {parameter.default, *(UNDECLARED.get(name, ()) if declared is None else ())}
        for rule in declared if isinstance(declared, list) else []:
            words |= set(getattr(getattr(rule, "constraint", rule), "options", ()))
        texts = {word for word in words if isinstance(word, str)} - NEVER
        kinds = [str] if name in ANY_TEXT else [...] if name in LISTED_TEXT else []
        found[name] = (*sorted(texts), *kinds)
    return found


def parameters_of(thing: Any) -> dict[str, Any]:
    """Return the parameters of an estimator, a kernel or a splitter.

    Repeated ones keep some apart.
    """
    held = {**vars(thing).get("cvargs", {}), **vars(thing)}
    return {name: held[name] for name in signature(type(thing)).parameters if name in held}


def make(cls: Any, parameters: dict[str, Any]) -> Any:
    """Return an instance that is not fitted, with parameters that scikit-learn would accept."""
    made = cls(**parameters)
    for name, value in parameters.items():
        known = function_name(value) or value in NUMBER_TYPES.values() if callable(value) else True
        if not known and "gaussian_process" not in cls.__module__:  # kernels of which are called
            raise Refused(f"{cls.__name__}.{name} is {type(value).__name__}, and would be called.")
    constraints = getattr(cls, "_parameter_constraints", None)
    if constraints is not None:
        try:
            validate_parameter_constraints(constraints, parameters, caller_name=cls.__name__)
        except ValueError as error:
            raise Refused(f"{error}") from error
    return made


def complete(made: Any) -> None:
    """Refuse fitted attributes that compiled code could not follow; make anew what was left out."""
    check_soundness(made)
    known = vars(made)
    if "_fit_method" in known and known["_fit_method"] != "brute":
        from sklearn.neighbors import BallTree, KDTree

        maker = {"kd_tree": KDTree, "ball_tree": BallTree}[known["_fit_method"]]
        made._tree = maker(
            made._fit_X, made.leaf_size, made.effective_metric_, **made.effective_metric_params_
        )
    elif "_fit_method" in known:
        made._tree = None
    if hasattr(made, "_get_loss") and "n_trees_per_iteration_" in known:
        made._loss = made._get_loss(sample_weight=None)
    if "_max_samples" in known and type(made).__name__ == "IsolationForest":
        from sklearn.ensemble._iforest import _average_path_length

        trees = [tree.tree_ for tree in made.estimators_]
        made._average_path_length_per_tree = tuple(
            _average_path_length(tree.n_node_samples) for tree in trees
        )
        made._decision_path_lengths = tuple(tree.compute_node_depths() for tree in trees)
    if "X_thresholds_" in known:
        made._build_f(made.X_thresholds_, made.y_thresholds_)
    if "best_index_" in known and not callable(made.scoring):
        from sklearn.metrics import check_scoring

        made.scorer_ = check_scoring(made.estimator, made.scoring)
