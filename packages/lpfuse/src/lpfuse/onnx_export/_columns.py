"""Views of a table, and learners of columns and neighbours, as formulas of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._quantiles import tolerance_of
from lpfuse.detectors import ColumnForest, HistogramDetector, KNNDetector, columns, neighbours
from lpfuse.onnx_export._graph import Converters, Tensor, side_by_side
from lpfuse.onnx_export._trees import Tree, as_trees_see, sum_of_leaves
from lpfuse.views import FilledGaps, Indicators, NormalQuantiles
from lpfuse.views._columns import FARTHEST, UNKNOWN

# Columns that are looked up at once: each number is compared with up to 255 edges, which takes
# 10 MB for 256 rows; one by one, 500 columns would be thousands of nodes. Chosen by hand.
TOGETHER = 32


def normal_quantiles(view: NormalQuantiles | Indicators, X: Tensor) -> Tensor:
    """Each column on the line between two knots; beyond them with the distance that it has."""
    parts = []
    for some in _groups(len(view.knots_)):
        knots, levels = [view.knots_[j] for j in some], [view.quantiles_[j] for j in some]
        # After the last knot, and after one alone, the line is level.
        slopes = [np.r_[np.diff(z) / np.diff(u), 0.0] for u, z in zip(knots, levels, strict=True)]
        ends = [np.array([u[end] for u in knots]) for end in (0, -1)]
        x = X.take(some)
        inside = x.apply("Max", ends[0]).apply("Min", ends[1])
        beyond = ((x - inside) / view.scale_[some]).clip(-FARTHEST, FARTHEST)
        start, level, slope = _of_bins(inside, [u[1:] for u in knots], knots, levels, slopes)
        parts.append((level + (inside - start) * slope) + beyond)
    return side_by_side(parts)


def indicators(view: Indicators, X: Tensor) -> Tensor:
    """Columns with many values as normal quantiles, then a column for each of the few values."""
    few = [j for j, values in enumerate(view.values_) if len(values)]
    many = [j for j, values in enumerate(view.values_) if not len(values)]
    parts = [normal_quantiles(view, X.take(many))] if many else []
    if few:
        hits, owner = _hits(X, few, [view.values_[j] for j in few])
        unknown = UNKNOWN * (1.0 - hits @ owner)
        heights = np.concatenate([view.heights_[j] for j in few])
        # Each column's "none of these" comes after its values.
        order = np.argsort(np.r_[owner.argmax(axis=1), np.arange(len(few))], kind="stable")
        parts.append(side_by_side([hits * heights, unknown]).take(order))
    return side_by_side(parts)


def width_of(transformer: Any) -> int:
    """How many columns a scaler or a view gives."""
    if isinstance(transformer, Indicators):  # a column each, and one for "none of these"
        return sum(len(values) + 1 for values in transformer.values_)
    return int(transformer.n_features_in_)


def filled_gaps(view: FilledGaps, X: Tensor) -> Tensor:
    """The rows as they are: those with a missing cell get NaN in the end."""
    return X


def histogram(detector: HistogramDetector, X: Tensor) -> Tensor:
    """The sum of the logarithms of shares."""
    n, half, parts = detector.n_samples_, columns.PSEUDO, []
    outside = float(np.log(columns.OUTSIDE / n))
    # What a bin says beyond what lies outside of all.
    gains = [np.log((c + half) / (n + half * len(c))) - outside for c in detector.counts_]
    pairs = list(zip(detector.edges_, gains, strict=True))
    few = [j for j, (edges, gain) in enumerate(pairs) if len(edges) == len(gain)]
    many = [j for j in range(len(pairs)) if j not in few]
    if few:
        hits, _ = _hits(X, few, [detector.edges_[j] for j in few])
        parts.append((hits * np.concatenate([gains[j] for j in few])).sum(keepdims=True))
    for group in _groups(len(many)):
        some = [many[k] for k in group]
        edges, x = [detector.edges_[j] for j in some], X.take(some)
        low, high = (np.array([each[end] for each in edges]) for end in (0, -1))
        inside = _true(x, "GreaterOrEqual", low) * _true(x, "LessOrEqual", high)
        (found,) = _of_bins(x, [each[1:-1] for each in edges], [gains[j] for j in some])
        parts.append((inside * found).sum(keepdims=True))
    return side_by_side(parts).sum() + outside * len(pairs)


def nearest_neighbours(detector: KNNDetector, X: Tensor) -> Tensor:
    """The mean distance to the k-th nearest row over subsets of the columns."""
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
    return -side_by_side(parts).sum() / len(parts)


def column_forest(detector: ColumnForest, X: Tensor) -> Tensor:
    """How far columns are from what trees predict of them."""
    d, trees = detector.n_features_in_, []
    for tree, seen, told in zip(detector.trees_, detector.inputs_, detector.outputs_, strict=True):
        values = np.zeros((tree.node_count, d))
        values[:, told] = tree.value[:, :, 0]
        trees.append(Tree.of(tree, values, seen if len(seen) else None))
    far = columns.FARTHEST
    rows = ((X - detector.mean_) / detector.scale_).clip(-far, far)
    count = np.bincount(np.concatenate(detector.outputs_), minlength=d) * 1.0
    predicted = sum_of_leaves(as_trees_see(rows), trees) / count
    off = ((rows - predicted) / detector.errors_).apply("Abs").clip(high=columns.FAR)
    return -(off**2).sum()


def _groups(count: int) -> list[list[int]]:
    return [list(range(k, min(k + TOGETHER, count))) for k in range(0, count, TOGETHER)]


def _of_bins(x: Tensor, inner: list[Host], *tables: list[Host]) -> list[Tensor]:
    """What tables say of the bin of each number; `inner`, for each column, are edges of bins."""
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


def _hits(X: Tensor, which: list[int], values: list[Host]) -> tuple[Tensor, Host]:
    """1 in the column of the value that a number is, else 0; and in whose column each value is."""
    sizes = [len(each) for each in values]
    off = (X.take(np.repeat(which, sizes)) - np.concatenate(values)).apply("Abs")
    near = np.repeat([tolerance_of(each) for each in values], sizes)
    return _true(off, "LessOrEqual", near), np.repeat(np.eye(len(sizes)), sizes, axis=0)


def _true(x: Tensor, comparison: str, other: Host | float) -> Tensor:
    return x.apply(comparison, other).cast(np.float64)


TRANSFORMERS: Converters = {
    FilledGaps: filled_gaps,
    NormalQuantiles: normal_quantiles,
    Indicators: indicators,
}
DETECTORS: Converters = {
    KNNDetector: nearest_neighbours,
    HistogramDetector: histogram,
    ColumnForest: column_forest,
}
