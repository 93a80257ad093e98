"""What compiled code of scikit-learn will index: shapes, ranges and order, before it may.

Trees become one array of numbers each, a row for each node, and are made again from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from lpfuse.io._archive import Refused

Array = np.ndarray[Any, Any]
SPARSE = {cls.__name__: cls for cls in (
    sparse.csr_array, sparse.csc_array, sparse.csr_matrix, sparse.csc_matrix,
)}  # fmt: skip


def is_tree(thing: Any) -> bool:
    """Whether it is a compiled tree of scikit-learn's."""
    return type(thing).__module__ == "sklearn.tree._tree" and type(thing).__name__ == "Tree"


def is_predictor(thing: Any) -> bool:
    """Whether it is a tree of gradient boosting by histograms."""
    return type(thing).__name__ == "TreePredictor" and type(thing).__module__.startswith("sklearn.")


def tree_columns(tree: Any) -> tuple[Any, ...]:
    """What a tree is: names of the columns, features, classes, depth, columns."""
    state = tree.__getstate__()
    nodes, values = state["nodes"], state["values"]
    table = np.column_stack([_columns(nodes), values.reshape(len(values), -1)])
    classes = tree.n_classes.tolist()
    return list(nodes.dtype.names), int(tree.n_features), classes, int(tree.max_depth), table


def make_tree(names: Any, n_features: int, classes: list[int], depth: int, table: Array) -> Any:
    """A tree of `tree_columns`, every path of which ends in a leaf."""
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
    """What a tree of boosting is: names of the columns, columns, its sets of categories."""
    sets = predictor.binned_left_cat_bitsets, predictor.raw_left_cat_bitsets
    return list(predictor.nodes.dtype.names), _columns(predictor.nodes), *sets


def make_predictor(names: Any, table: Array, binned: Array, raw: Array) -> Any:
    """A tree of `predictor_columns`; its features are checked where they are known."""
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
    """A sparse matrix whose indices are within it."""
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
    """The fields of records as columns of float64, which holds all of them exactly."""
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
    """Whether every inner node has two children that come later: so each path ends."""
    here = np.arange(len(left))
    later = (here < left) & (left < len(left)) & (here < right) & (right < len(right))
    return len(left) > 0 and bool((leaf | later).all())


def _within(indices: Any, count: int) -> bool:
    return bool(((indices >= 0) & (indices < count)).all())


def _is(array: Any, kinds: str, *shape: int | None) -> bool:
    """Whether it is an array of these kinds and that shape; None: any size."""
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
