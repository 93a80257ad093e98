"""Which estimators of scikit-learn a file may hold, and what they have to satisfy.

They are made by their constructors, which only store, and of their fitted attributes. Most of them
score with NumPy, which checks what it is given. The compiled code of some follows indices without
looking: whatever it would follow is checked in `_soundness`, or not read but computed anew
(`_rebuild`), such as the search trees of neighbours. What is not on this list goes through skops,
and needs the user's trust.
"""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from inspect import signature
from types import FunctionType
from typing import Any

import numpy as np
from sklearn.utils._param_validation import validate_parameter_constraints

from lpfuse.io._archive import NUMBER_TYPES, Refused
from lpfuse.io._soundness import check_soundness

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
    """What files call a function; None where they cannot hold it."""
    for name, known in functions().items():
        parts = [getattr(each, "func", each) for each in (thing, known)]
        if parts[0] is parts[1] and getattr(thing, "keywords", 0) == getattr(known, "keywords", 0):
            return name
    return None


def class_called(name: str) -> type | None:
    """The class of that name on the list."""
    home = HOMES.get(name)
    return None if home is None else getattr(import_module(f"sklearn.{home}"), name)


def name_of(thing: Any) -> str | None:
    """What files call the class of an estimator; None with a function that they cannot hold."""
    name = type(thing).__name__
    if name not in HOMES or class_called(name) is not type(thing):
        return None
    functions_held = [each for each in vars(thing).values() if isinstance(each, FunctionType)]
    return name if all(map(function_name, functions_held)) else None


def words_of(cls: Any) -> dict[str, tuple[Any, ...]]:
    """The strings that each parameter may be: what scikit-learn itself declares."""
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
    """The parameters of an estimator, a kernel or a splitter; repeated ones keep some apart."""
    held = {**vars(thing).get("cvargs", {}), **vars(thing)}
    return {name: held[name] for name in signature(type(thing)).parameters if name in held}


def make(cls: Any, parameters: dict[str, Any]) -> Any:
    """An instance that is not fitted, with parameters that scikit-learn would accept."""
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
