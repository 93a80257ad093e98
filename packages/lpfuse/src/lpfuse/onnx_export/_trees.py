"""Forests of scikit-learn as one operator of ONNX each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpfuse.onnx_export._graph import Tensor


@dataclass(frozen=True)
class Tree:
    """A tree by its nodes: where to go for ``x[feature] ≤ threshold``, and what leaves say."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    leaf: NDArray[np.bool_]
    values: NDArray[np.float64]  # of each node, for each target; those of leaves count

    @classmethod
    def of(cls, tree: Any, values: Any, columns: Any = None) -> Tree:
        """A tree of scikit-learn that sees some columns (None: all) of the table."""
        leaf = tree.children_left == -1
        feature = np.where(leaf, 0, tree.feature)  # of a leaf it is −2
        seen = feature if columns is None else np.asarray(columns)[feature]
        parts = tree.children_left, tree.children_right, seen
        return cls(*parts, tree.threshold, leaf, np.reshape(values, (len(leaf), -1)))

    @classmethod
    def of_histograms(cls, nodes: Any) -> Tree:
        """A tree of scikit-learn's histogram-based boosting."""
        leaf = nodes["is_leaf"] != 0
        left, right, feature = (
            nodes[name].astype(np.int64) for name in ("left", "right", "feature_idx")
        )
        return cls(left, right, feature, nodes["num_threshold"], leaf, nodes["value"][:, None])


def sum_of_leaves(X: Tensor, trees: Iterable[Tree]) -> Tensor:
    """For each target, the sum over all trees of what the leaf of a row says."""
    trees = list(trees)
    sizes = [len(tree.leaf) for tree in trees]
    numbers = np.concatenate([np.arange(size) for size in sizes])
    owner = np.repeat(np.arange(len(trees)), sizes)
    leaf = np.concatenate([tree.leaf for tree in trees])
    values = np.concatenate([tree.values for tree in trees])
    told = np.nonzero(leaf)[0].repeat(values.shape[1])
    targets = np.tile(np.arange(values.shape[1]), leaf.sum())
    graph = X.graph

    def joined(name: str) -> Any:
        return np.concatenate([getattr(tree, name) for tree in trees])

    def numbers_of(name: str, content: Any) -> Any:
        return graph.numpy.from_array(np.asarray(content, dtype=np.float64), name)

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


def as_trees_see(X: Tensor) -> Tensor:
    """Trees compare numbers in single precision with thresholds in double precision."""
    return X.cast(np.float32).cast(np.float64)
