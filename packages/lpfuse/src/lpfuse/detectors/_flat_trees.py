"""Many decision trees in one set of arrays: a row walks through all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host


class Nodes(NamedTuple):
    """The nodes of one tree: rows with ``x[feature] <= threshold`` go left; leaves stay."""

    feature: NDArray[np.intp]
    threshold: Host
    left: NDArray[np.intp]
    right: NDArray[np.intp]
    is_leaf: NDArray[np.bool_]
    value: Host

    @classmethod
    def of_tree(cls, tree: Any, value: Host) -> Nodes:
        """Of a compiled tree of scikit-learn, with a value of each node."""
        leaf = tree.children_left < 0
        return cls(
            tree.feature, tree.threshold, tree.children_left, tree.children_right, leaf, value
        )

    @classmethod
    def of_boosting(cls, nodes: Any) -> Nodes:
        """Of a tree of gradient boosting by histograms, without categories."""
        if nodes["is_categorical"].any():
            raise AttributeError("Sets of categories are walked through by scikit-learn alone.")
        feature, left, right = (
            nodes[name].astype(np.intp) for name in ("feature_idx", "left", "right")
        )
        return cls(
            feature, nodes["num_threshold"], left, right, nodes["is_leaf"] != 0, nodes["value"]
        )


class FlatTrees:
    """Trees that one row walks through together: a few array operations a level, not a call a tree.

    For a single row that is ten times faster than to ask each compiled tree. Many rows are faster
    in compiled trees, one after the other.

    Parameters
    ----------
    trees : sequence of Nodes
        The trees.
    shift : sequence of int
        What is added to the features of each tree, where trees see rows that were prepared in
        different ways and stand side by side.
    """

    def __init__(self, trees: Sequence[Nodes], shift: Sequence[int]) -> None:
        sizes = [len(tree.feature) for tree in trees]
        self.roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)
        own = np.arange(sum(sizes))
        starts = np.repeat(self.roots, sizes)
        leaf = np.concatenate([tree.is_leaf for tree in trees])
        feature = np.concatenate([t.feature + k for t, k in zip(trees, shift, strict=True)])
        self.feature = np.where(leaf, 0, feature)
        threshold = np.concatenate([tree.threshold for tree in trees])
        self.threshold = np.where(leaf, np.inf, threshold)
        left = np.concatenate([tree.left for tree in trees]) + starts
        right = np.concatenate([tree.right for tree in trees]) + starts
        # Both ways out of a node, side by side: which one is a look-up, not a choice.
        self.children = np.stack([np.where(leaf, own, right), np.where(leaf, own, left)], axis=1)
        self.value = np.concatenate([tree.value for tree in trees])
        self.depth = max(_depth(tree) for tree in trees)

    def values(self, x: Host) -> Host:
        """The value of the leaf that a row reaches in each tree."""
        at = self.roots
        for _ in range(self.depth):
            at = self.children[at, (x[self.feature[at]] <= self.threshold[at]).astype(np.intp)]
        found: Host = self.value[at]
        return found


def _depth(tree: Nodes) -> int:
    """Levels below the root."""
    level, depth = np.array([0]), 0
    while True:
        inner = level[~tree.is_leaf[level]]
        if not len(inner):
            return depth
        level, depth = np.concatenate([tree.left[inner], tree.right[inner]]), depth + 1
