"""Estimators of scikit-learn and other makers, by skops: types are trusted by name or not at all.

Some types of scikit-learn hold indices that its compiled code follows without looking. skops leaves
it to the user to trust those; here they are looked at first, as soon as they are made.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from lpfuse._saved import register_all, saved_classes
from lpfuse.io._archive import Refused, check_nested

_TREE = "sklearn.tree._tree.Tree"
_PREDICTOR = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
_NEIGHBOURS = ("sklearn.neighbors._kd_tree.KDTree", "sklearn.neighbors._ball_tree.BallTree")

# Beyond what skops trusts by itself: its list of scikit-learn's public estimators.
TRUSTED = (
    _TREE,
    _PREDICTOR,
    *_NEIGHBOURS,
    *(
        f"sklearn.metrics._dist_metrics.{metric}Distance64"
        for metric in ("Euclidean", "Manhattan", "Chebyshev")
    ),
    *(
        f"sklearn.model_selection._split.{splitter}"
        for splitter in (
            "GroupKFold",
            "GroupShuffleSplit",
            "KFold",
            "LeaveOneGroupOut",
            "LeaveOneOut",
            "PredefinedSplit",
            "RepeatedKFold",
            "RepeatedStratifiedKFold",
            "ShuffleSplit",
            "StratifiedGroupKFold",
            "StratifiedKFold",
            "StratifiedShuffleSplit",
            "TimeSeriesSplit",
        )
    ),
    *(
        f"sklearn.gaussian_process.kernels.{kernel}"
        for kernel in ("ConstantKernel", "Matern", "Product", "RBF", "Sum", "WhiteKernel")
    ),
    *(
        f"scipy.sparse._{kind}.{kind}_{what}"
        for kind in ("csr", "csc")
        for what in ("matrix", "array")
    ),
    "functools.partial",  # of a function that must be trusted itself
    "numpy.dtype",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.utils._bunch.Bunch",
    "sklearn.utils.validation.check_array",
)


def dumps(thing: Any, path: str) -> bytes:
    """An estimator as a skops member; `path` says where it is, should it have to be refused."""
    if not _is_estimator(thing):
        raise TypeError(_refusal(path, _told(thing)))
    io = _skops()
    try:
        content = bytes(io.dumps(thing))
        check_nested(content)
    except Exception as error:
        raise TypeError(_refusal(path, f"{_told(thing)} ({error})")) from error
    hidden = [name for name in io.get_untrusted_types(data=content) if not _can_be_found(name)]
    if hidden:
        raise TypeError(_refusal(path, f"{_told(thing)} with {', '.join(hidden)}"))
    return content


def loads(content: bytes, trusted: list[str]) -> Any:
    """The estimator of a skops member, unless there is anything in it that is not trusted."""
    io = _skops()
    check_nested(content)
    names = {*TRUSTED, *trusted}
    strangers = set(io.get_untrusted_types(data=content)) - names
    if strangers:  # estimators of scikit-learn may hold ours, by their import paths
        register_all()
        names |= {f"{cls.__module__}.{cls.__qualname__}" for cls in saved_classes().values()}
        strangers -= names
    if strangers:
        told = sorted(strangers)
        raise Refused(
            f"It holds types that are not trusted: {', '.join(told)}. If you know that the "
            f"file comes from where it should, pass trusted={told}; code of theirs will run."
        )
    made = io.loads(content, trusted=sorted(names))
    _check_indices(made)
    return made


def _skops() -> Any:
    try:
        import skops.io.exceptions
    except ImportError as error:
        raise ImportError(
            "Estimators of scikit-learn and other makers are saved with skops: "
            'pip install "lpfuse[persist]"'
        ) from error
    return skops.io


def _is_estimator(thing: Any) -> bool:
    """Whether it is an object with parameters whose class another program can import."""
    if isinstance(thing, type):
        return False
    name = f"{type(thing).__module__}.{type(thing).__qualname__}"
    return _can_be_found(name) and (name.startswith("sklearn.") or hasattr(thing, "get_params"))


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


def _check_indices(made: Any) -> None:
    """Refuse indices that would lead compiled code out of its arrays, or round in circles."""
    for part in _parts(made):
        known = vars(part) if hasattr(part, "__dict__") else {}
        if _name(part) == _TREE:
            sound = _is_sound_tree(part)
        elif _name(part) in _NEIGHBOURS:
            sound = _are_sound_neighbours(part)
        elif _name(known.get("tree_")) == _TREE:
            sound = known["tree_"].n_features == known.get("n_features_in_")
        elif "estimators_" in known:
            sound = _are_sound_members(known)
        elif "_predictors" in known:
            boosted = [tree for tree in _parts(known["_predictors"]) if _name(tree) == _PREDICTOR]
            sound = all(_is_sound_predictor(tree, part) for tree in boosted)
        else:
            continue
        if not sound:
            raise Refused(f"Its {type(part).__name__} holds indices that lead nowhere.")


def _name(part: Any) -> str:
    return f"{type(part).__module__}.{type(part).__qualname__}"


def _parts(made: Any) -> Iterator[Any]:
    """The object and everything that it holds, each once."""
    seen: set[int] = set()
    waiting = [made]
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, list | tuple | set):
            waiting.extend(part)
        elif isinstance(part, dict):
            waiting.extend(part.values())
        elif isinstance(part, np.ndarray):
            waiting.extend(part.ravel() if part.dtype == object else ())
        elif hasattr(part, "__dict__") and not isinstance(part, type):
            waiting.extend(vars(part).values())


def _is_sound_tree(tree: Any) -> bool:
    left, right, leaf = tree.children_left, tree.children_right, tree.children_left == -1
    return _lead_onwards(left, right, leaf) and _within(tree.feature[~leaf], tree.n_features)


def _is_sound_predictor(tree: Any, owner: Any) -> bool:
    nodes = tree.nodes
    leaf = nodes["is_leaf"] != 0
    features = nodes["feature_idx"][~leaf].astype(np.int64)
    by_category = (nodes["is_categorical"] != 0) & ~leaf
    return (
        _lead_onwards(nodes["left"].astype(np.int64), nodes["right"].astype(np.int64), leaf)
        and _within(features, owner.n_features_in_)
        and _within(nodes["bitset_idx"][by_category], len(tree.raw_left_cat_bitsets))
        and tree.raw_left_cat_bitsets.shape[1:] == (8,)
        and owner._bin_mapper.is_categorical_[nodes["feature_idx"][by_category]].all()
    )


def _are_sound_members(ensemble: dict[str, Any]) -> bool:
    """Whether the trees of a forest see columns that the forest has: it hands them over as is."""
    trees = [vars(member).get("tree_") for member in np.ravel(ensemble["estimators_"])]
    columns = [tree.n_features if _name(tree) == _TREE else None for tree in trees]
    known = ensemble.get("n_features_in_", 0)
    if "estimators_features_" not in ensemble:
        return all(count in (None, known) for count in columns)
    seen = [len(features) for features in ensemble["estimators_features_"]]
    return len(seen) == len(columns) and all(
        count is None or count == shown <= known for count, shown in zip(columns, seen, strict=True)
    )


def _are_sound_neighbours(tree: Any) -> bool:
    data, order, nodes, bounds, _, levels, count, *_ = tree.__getstate__()
    inner = np.arange(count) < count // 2  # the tree is a full one: its last half are leaves
    return (
        count == len(nodes) == 2**levels - 1
        and order.shape == data.shape[:1]
        and _within(order, len(data))
        and _within(nodes["idx_start"], len(data) + 1)
        and _within(nodes["idx_end"], len(data) + 1)
        and bool((nodes["is_leaf"][~inner] != 0).all())
        and bounds.shape[1:] == (count, data.shape[1])
    )


def _lead_onwards(left: Any, right: Any, leaf: Any) -> bool:
    """Whether every inner node has two children that come later: so each path ends."""
    here = np.arange(len(left))
    later = (here < left) & (left < len(left)) & (here < right) & (right < len(right))
    return len(left) > 0 and bool((leaf | later).all())


def _within(indices: Any, count: int) -> bool:
    return bool(((indices >= 0) & (indices < count)).all())
