"""Detectors of columns: histograms per column, and trees that predict columns from others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.tree._tree import NODE_DTYPE, Tree

from lpfuse._arrays.operations import Host, map_row_blocks
from lpfuse._compiled import compiled
from lpfuse._files import saved_as
from lpfuse._quantiles import positions_among
from lpfuse._validation.params import check_count
from lpfuse._validation.tables import is_constant
from lpfuse.detectors.base import HeldOutDetector

# --------------------------------------------------------------------------------------------------
# Decision trees in common arrays, which a single row traverses at once.


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
        """Return the nodes of a scikit-learn tree, with a value per node."""
        leaf = tree.children_left < 0
        return cls(
            tree.feature, tree.threshold, tree.children_left, tree.children_right, leaf, value
        )

    @classmethod
    def of_boosting(cls, nodes: Any) -> Nodes:
        """Return the nodes of a histogram gradient boosting tree without categorical splits."""
        if nodes["is_categorical"].any():
            raise AttributeError("Categorical splits are not supported; use scikit-learn's tree.")
        feature, left, right = (
            nodes[name].astype(np.intp) for name in ("feature_idx", "left", "right")
        )
        return cls(
            feature, nodes["num_threshold"], left, right, nodes["is_leaf"] != 0, nodes["value"]
        )


class FlatTrees:
    """Trees that a single row traverses together: a few array operations per level.

    For a single row that is ten times faster than one call per compiled tree; for many rows the
    compiled trees are faster.

    Parameters
    ----------
    trees : sequence of Nodes
        The trees.
    shift : sequence of int
        Offset of each tree's features, where several transformed rows are concatenated.
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
        # Right and left child side by side: the comparison is the index.
        self.children = np.stack([np.where(leaf, own, right), np.where(leaf, own, left)], axis=1)
        self.value = np.concatenate([tree.value for tree in trees])
        self.depth = max(_depth(tree) for tree in trees)

    def values(self, x: Host) -> Host:
        """Return the value of a row's leaf in each tree."""
        at = self.roots
        for _ in range(self.depth):
            at = self.children[at, (x[self.feature[at]] <= self.threshold[at]).astype(np.intp)]
        found: Host = self.value[at]
        return found


def _depth(tree: Nodes) -> int:
    """Return the number of levels below the root."""
    level, depth = np.array([0]), 0
    while True:
        inner = level[~tree.is_leaf[level]]
        if not len(inner):
            return depth
        level, depth = np.concatenate([tree.left[inner], tree.right[inner]]), depth + 1


# --------------------------------------------------------------------------------------------------
# The detectors.

_core: Any = compiled("lpfuse.detectors._trees")
_search: Any = compiled("lpfuse._arrays._columns")

# Chosen by hand.
FEW = 30  # largest number of distinct values with one bin each
FEWEST_BINS, MOST_BINS = 10, 40  # of a histogram; between them √n
PSEUDO = 0.5  # pseudo-count of each bin
OUTSIDE = 0.25  # pseudo-count of all values outside
SMOOTHING = np.array([0.25, 0.5, 0.25])
FAR = 10.0  # standard errors at which a column's error is cut
LEAST_ERROR = 1e-6  # standard deviations; added to the error, which may be zero
# Columns that are tried in a node, at most; where there are more to predict, splits are chosen by
# random combinations of them: docs/adr/0057.
MOST_TRIED, DIRECTIONS = 64, 32
FARTHEST = 1e9  # standard deviations within the range of single precision


@saved_as("HistogramDetector")
class HistogramDetector(HeldOutDetector):
    r"""Sum of the logarithms of each column's histogram, as if columns were independent.

    A column with at most 30 different values has a bin for each, any other one
    :math:`\sqrt n` equal bins, 10 to 40, between its extremes, each count averaged with its two
    neighbours' (¼, ½, ¼). With :math:`c_j(x)` the count of a row's bin in column j, of
    :math:`m_j`, the score is

    .. math:: \sum_j \log \frac{c_j(x) + \frac12}{n + \frac12 m_j}

    where a value outside the range, or a new one of few, contributes :math:`\log (\frac14 / n)`.

    Parameters
    ----------
    contamination : float in (0, 0.5], default=0.1
        Share of new normal rows below the threshold, by leave-one-out scores.

    Attributes
    ----------
    edges_ : list of ndarray
        For each column its few values, or the edges of its bins.
    counts_ : list of ndarray
        Rows in each, smoothed for bins.
    n_samples_ : int
        Number of training rows.
    held_out_scores_ : ndarray of shape (n,)
        Their leave-one-out scores.
    offset_ : float
        Threshold of the scores.
    n_features_in_ : int
        Number of features d.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features, when `X` had them.

    Notes
    -----
    ``leave_one_out_scores`` subtract the row from its counts and keep the bins; a value that no
    other row has, or beyond those of all others, is then outside.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import HistogramDetector
    >>> X = np.array([[0.0], [0.0], [0.0], [1.0]])
    >>> detector = HistogramDetector().fit(X)
    >>> np.exp(detector.score_samples([[0.0], [1.0], [2.0]]))
    array([0.7   , 0.3   , 0.0625])
    """

    edges_: list[Host]
    counts_: list[Host]

    def __init__(self, contamination: float = 0.1) -> None:
        self.contamination = contamination

    def _learn(self, X: Host, rng: np.random.RandomState) -> Host:
        self.__dict__.pop("_table", None)  # of an earlier fit
        self.edges_, self.counts_ = _histograms(X)
        return self._log_likelihoods(X, 1)

    def _score(self, X: Host) -> Host:
        return self._score_one(X[0]) if len(X) == 1 else self._log_likelihoods(X, 0)

    @cached_property
    def _table(self) -> tuple[Host, Host, NDArray[np.bool_], Host]:
        """Edges and log shares of all columns, padded to equal lengths."""
        d, most = len(self.edges_), max(map(len, self.edges_))
        edges, logs = np.full((d, most), np.inf), np.zeros((d, most))
        few = np.array([len(e) == len(c) for e, c in zip(self.edges_, self.counts_, strict=True)])
        for j, (own, counts) in enumerate(zip(self.edges_, self.counts_, strict=True)):
            shares = (counts + PSEUDO) / (self.n_samples_ + PSEUDO * len(counts))
            edges[j, : len(own)], logs[j, : len(counts)] = own, np.log(shares)
        return edges, logs, few, np.array([own[-1] for own in self.edges_])

    def _score_one(self, x: Host) -> Host:
        """Return the score of one row, bit for bit that of `_log_likelihoods`."""
        edges, logs, few, last = self._table
        columns, bins = np.arange(len(x)), np.array([len(counts) for counts in self.counts_])
        place = np.clip((edges <= x[:, None]).sum(axis=1) - 1, 0, bins - 1)
        at = edges[columns, place]
        inside = np.where(few, at == x, (edges[:, 0] <= x) & (x <= last))
        found = np.where(inside, logs[columns, place], np.log(OUTSIDE / self.n_samples_))
        return np.cumsum(found)[-1:]  # the same order of summation as for several rows

    def _log_likelihoods(self, X: Host, less: int) -> Host:
        """Score rows; `less` is 1 for training rows, which are subtracted from the counts."""
        n, terms = self.n_samples_ - less, np.empty(X.shape[::-1])
        pairs = list(zip(self.edges_, self.counts_, strict=True))
        has_bins = np.array([len(edges) > len(counts) for edges, counts in pairs])
        for j in np.flatnonzero(~has_bins):
            values, counts = pairs[j]
            place = positions_among(values, X[:, j])
            inside = (place >= 0) & (counts[place] > less)
            different = len(counts) - (counts <= less)[place]
            shares = (counts[place] - less + PSEUDO) / (n + PSEUDO * different)
            terms[j] = np.log(np.where(inside, shares, OUTSIDE / n))
        if has_bins.any():  # as many in each of these columns
            rows = np.ascontiguousarray(X.T[has_bins])
            edges, counts = (
                np.stack([pair[k] for pair in pairs if len(pair[0]) > len(pair[1])]) for k in (0, 1)
            )
            bins = counts.shape[1]
            own = less * np.r_[0.75, np.full(bins - 2, 0.5), 0.75]
            with np.errstate(divide="ignore", invalid="ignore"):  # of bins without a training row
                logs = np.log((counts - own + PSEUDO) / (n + PSEUDO * bins))
            low, high = edges[:, :1], edges[:, -1:]
            if less:  # a row that alone has the minimum or maximum is outside
                low, high = (
                    np.where(
                        (rows == end).sum(axis=1, keepdims=True) > 1,
                        end,
                        np.nextafter(end, -inward),
                    )
                    for end, inward in ((low, -np.inf), (high, np.inf))
                )
            place = _bins_of(rows.T, edges).T + bins * np.arange(len(rows))[:, None]
            terms[has_bins] = np.where(
                (low <= rows) & (rows <= high), logs.ravel()[place], np.log(OUTSIDE / n)
            )
        total = np.zeros(len(X))
        for term in terms:
            total += term
        return total


def _histograms(X: Host) -> tuple[list[Host], list[Host]]:
    """Return values and counts of columns with few of them, else bin edges and smoothed counts."""
    first = np.sort(X[: 4 * FEW].T, axis=1)  # which tell of most columns that they have many
    has_bins = (first[:, 1:] != first[:, :-1]).sum(axis=1) >= FEW
    edges, counts = [np.empty(0)] * X.shape[1], [np.empty(0)] * X.shape[1]
    for j in np.flatnonzero(~has_bins):
        edges[j], rows = np.unique(X[:, j], return_counts=True)
        counts[j], has_bins[j] = rows.astype(np.float64), len(rows) > FEW
    if has_bins.any():
        k, bins = has_bins.sum(), int(np.clip(np.sqrt(len(X)), FEWEST_BINS, MOST_BINS))
        low, high = X.min(axis=0)[has_bins], X.max(axis=0)[has_bins]
        found = np.linspace(low, high, bins + 1, axis=1)
        place = _bins_of(X[:, has_bins], found) + bins * np.arange(k)
        rows = np.bincount(place.ravel(), minlength=k * bins).reshape(k, bins)
        padded = np.concatenate([rows[:, :1], rows, rows[:, -1:]], axis=1)
        windows = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=1)
        for j, own, smooth in zip(
            np.flatnonzero(has_bins), found, windows @ SMOOTHING, strict=True
        ):
            edges[j], counts[j] = own, smooth
    return edges, counts


def _bins_of(X: Host, edges: Host) -> NDArray[np.int32]:
    """Return the bin of each number, from the edges of each column; the first or last outside."""
    if _search is not None:
        found = _search.last_up_to(np.asarray(X, dtype=np.float64), list(edges))
    else:
        pairs = zip(edges, X.T, strict=True)
        found = np.stack([np.searchsorted(own, x, "right") for own, x in pairs], axis=1) - 1
    return np.clip(found, 0, edges.shape[1] - 2, dtype=np.int32)


@saved_as("ColumnForest")
class ColumnForest(HeldOutDetector):
    r"""Prediction errors of columns, each predicted from other columns by random trees.

    A random half of the columns is predicted from the other half, and vice versa, by two trees
    grown on a random half of the rows and two grown on the other half; this is repeated with new
    halves. With :math:`\hat x_j` the mean prediction of column j, and :math:`\sigma_j` the root
    mean squared error of held-out predictions, the score is

    .. math:: -\sum_j \min\Bigl(\frac{|x_j - \hat x_j|}{\sigma_j}, 10\Bigr)^2

    A single column is predicted by its mean. From 129 columns on a node tries a random 64 columns
    to split by, and splits are chosen by 32 random linear combinations of the columns to predict.

    Parameters
    ----------
    n_trees : int, default=60
        Number of trees, rounded up to a multiple of four.
    min_samples_leaf : int, default=2
        Fewest rows in a leaf.
    max_samples : int, default=10_000
        Largest number of training rows; of more, a sample is drawn.
    contamination : float in (0, 0.5], default=0.1
        Share of new normal rows below the threshold, by leave-one-out scores.
    random_state : int, RandomState instance or None, default=None
        Seed of the sample, the parts, the halves and the trees.

    Attributes
    ----------
    trees_ : list of Tree
        Trees of scikit-learn.
    inputs_, outputs_ : list of ndarray
        The input and output columns of each tree.
    errors_ : ndarray of shape (d,)
        The errors :math:`\sigma_j`, in standard deviations of the columns.
    mean_, scale_ : ndarray of shape (d,)
        Means and standard deviations of the columns.
    kept_, kept_scores_ : ndarray of shape (min(n, max_samples),)
        Positions of the rows in the fit, and their leave-one-out scores.
    rows_ : ndarray of shape (min(n, max_samples), d)
        These rows.
    learnt_ : list of ndarray
        For each tree, which of these rows it learnt from: the values of its leaves are their means.
    n_samples_ : int
        Number of training rows.
    held_out_scores_ : ndarray of shape (n,) or None
        Their leave-one-out scores; None where there are more than `max_samples`.
    offset_ : float
        Threshold of the scores.
    n_features_in_ : int
        Number of features d.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features, when `X` had them.

    Notes
    -----
    ``leave_one_out_scores`` use the half of the trees that were grown without the row, and have a
    little more noise than scores of new rows. Computation is on the host for all array libraries.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import ColumnForest
    >>> x = np.linspace(0, 1, 200)
    >>> detector = ColumnForest(random_state=0).fit(np.column_stack([x, x**2]))
    >>> detector.predict([[0.5, 0.25], [0.5, 0.9]])
    array([ 1, -1])
    """

    relative_work = 3.0

    trees_: list[Any]
    inputs_: list[NDArray[np.int64]]
    outputs_: list[NDArray[np.int64]]
    errors_: Host
    mean_: Host
    scale_: Host
    kept_: NDArray[np.int64]
    kept_scores_: Host
    rows_: Host
    learnt_: list[NDArray[np.bool_]]

    def __init__(
        self,
        n_trees: int = 60,
        min_samples_leaf: int = 2,
        max_samples: int = 10_000,
        contamination: float = 0.1,
        random_state: Any = None,
    ) -> None:
        self.n_trees = n_trees
        self.min_samples_leaf = min_samples_leaf
        self.max_samples = max_samples
        self.contamination = contamination
        self.random_state = random_state

    def _check_parameters(self) -> None:
        for name in ("n_trees", "min_samples_leaf", "max_samples"):
            check_count(name, getattr(self, name))

    def _learn(self, X: Host, rng: np.random.RandomState) -> Host | None:
        self.__dict__.pop("_flat", None)  # of an earlier fit
        most = max(2, int(self.max_samples))  # both halves need a row
        self.kept_ = np.sort(rng.permutation(len(X))[:most])
        with np.errstate(over="ignore", invalid="ignore"):
            self.mean_, deviations = X.mean(axis=0), X.std(axis=0)
        constant = is_constant(X.min(axis=0), X.max(axis=0))
        sizes = np.where(constant, np.abs(self.mean_), deviations)
        self.scale_ = np.where(sizes > 0, sizes, 1.0)
        self.rows_ = X[self.kept_]
        rows = self._standardised(self.rows_)
        predicted = self._grow(rows, rng)
        self.errors_ = np.sqrt(((rows - predicted) ** 2).mean(axis=0)) + LEAST_ERROR
        self.kept_scores_ = self._negative_squared_errors(rows, predicted)
        return self.kept_scores_ if len(rows) == len(X) else None

    def _grow(self, rows: Host, rng: np.random.RandomState) -> Host:
        """Grow the trees; return the held-out predictions of the rows."""
        n, d = rows.shape
        self.trees_, self.inputs_, self.outputs_, self.learnt_ = [], [], [], []
        total, draws = np.zeros(rows.shape), -(-int(self.n_trees) // 4)
        single = rows.astype(np.float32, order="C")
        for _ in range(draws):
            columns, parts = rng.permutation(d), np.array_split(rng.permutation(n), 2)
            halves, first = np.split(columns, [max(1, d // 2)]), np.zeros(n, dtype=bool)
            first[parts[0]] = True
            for (unseen, learnt), (outputs, seen) in product(
                ((parts[1], first), (parts[0], ~first)), (halves, halves[::-1])
            ):
                if not len(outputs):
                    continue
                tree = grow_tree(
                    rows[learnt], seen, outputs, int(self.min_samples_leaf), rng.randint(2**31 - 1)
                )
                self.trees_.append(tree)
                self.inputs_.append(seen)
                self.outputs_.append(outputs)
                self.learnt_.append(learnt)
                held_out = np.zeros((len(unseen), d))
                _add_predicted(tree, single[unseen], seen, outputs, held_out)
                total[unseen] += held_out
        return total / draws

    def saved_state(self) -> tuple[dict[str, Any], int]:
        """Return what files hold, trees without the values that rows determine, and their size."""
        if not hasattr(self, "learnt_"):
            return dict(vars(self)), 0
        size = sum(tree.value.nbytes for tree in self.trees_)
        return vars(self) | {"trees_": [_without_values(tree) for tree in self.trees_]}, size

    def restored(self, charge: Callable[[int], None]) -> ColumnForest:
        """Compute the values of leaves of trees without them."""
        rows = self._standardised(self.rows_) if hasattr(self, "learnt_") else np.empty(0)
        for k, tree in enumerate(self.trees_ if len(rows) else []):
            if not tree.value.any():
                charge(tree.value.nbytes)
                _set_leaves(tree, rows[self.learnt_[k]], self.inputs_[k], self.outputs_[k])
        return self

    def _standardised(self, X: Host) -> Host:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.clip(np.nan_to_num((X - self.mean_) / self.scale_), -FARTHEST, FARTHEST)

    def _negative_squared_errors(self, rows: Host, predicted: Host) -> Host:
        off = np.abs(rows - predicted) / self.errors_
        return -(np.minimum(off, FAR) ** 2).sum(axis=1)

    @cached_property
    def _flat(self) -> tuple[FlatTrees, Host, tuple[NDArray[np.intp], ...]]:
        """Return all trees in common arrays, for single rows.

        The value of a leaf is where the numbers that it predicts begin in the second array. The
        others tell how many each tree predicts, their places in a leaf, and of which columns.
        """
        nodes, start = [], 0
        sizes = np.array([len(outputs) for outputs in self.outputs_])
        for tree, seen, size in zip(self.trees_, self.inputs_, sizes.tolist(), strict=True):
            made = Nodes.of_tree(tree, start + size * np.arange(tree.node_count, dtype=np.float64))
            nodes.append(made._replace(feature=seen[np.maximum(made.feature, 0)]))
            start += size * tree.node_count
        values = np.concatenate([tree.value.ravel() for tree in self.trees_])
        within = np.concatenate([np.arange(size) for size in sizes])
        flat = FlatTrees(nodes, [0] * len(nodes))
        return flat, values, (sizes, within, np.concatenate(self.outputs_))

    def _score_one(self, X: Host) -> Host:
        rows, (trees, values, (sizes, within, outputs)) = self._standardised(X), self._flat
        starts = trees.values(rows[0].astype(np.float32).astype(np.float64)).astype(np.intp)
        predicted = values[np.repeat(starts, sizes) + within]
        # Sums in the order of the trees, as of several rows.
        total, count = (np.bincount(outputs, each, X.shape[1]) for each in (predicted, None))
        return self._negative_squared_errors(rows, total / count)

    def _score(self, X: Host) -> Host:
        if len(X) == 1 and all(len(seen) for seen in self.inputs_):
            return self._score_one(X)

        def work(block: slice) -> Host:
            rows = self._standardised(X[block])
            single = rows.astype(np.float32, order="C")
            total, count = np.zeros(rows.shape), np.zeros(rows.shape[1])
            for tree, seen, outputs in zip(self.trees_, self.inputs_, self.outputs_, strict=True):
                _add_predicted(tree, single, seen, outputs, total)
                count[outputs] += 1
            return self._negative_squared_errors(rows, total / count)

        return np.concatenate(map_row_blocks(work, X, width=2 * X.shape[1]))

    def _leave_one_out(self, X: Host, index: NDArray[np.int64]) -> Host:
        known = np.full(self.n_samples_, np.nan)
        known[self.kept_] = self.kept_scores_
        return np.where(np.isnan(known[index]), self._score(X), known[index])


def _columns(rows: Host, seen: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return input columns for a tree; a column of zeros where there is none."""
    taken = rows.take(seen, axis=1) if len(seen) else np.zeros((len(rows), 1))
    return taken.astype(np.float32, order="C")


def grow_tree(
    rows: Host, seen: NDArray[np.int64], outputs: NDArray[np.int64], fewest: int, seed: int
) -> Any:
    """Grow a regression tree with random thresholds, as scikit-learn does.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        Rows to learn from.
    seen, outputs : ndarrays of positions
        Columns to split by, and to predict.
    fewest : int
        Fewest rows in a leaf.
    seed : int
        Seed of the thresholds.

    Returns
    -------
    sklearn.tree._tree.Tree
        That of ``DecisionTreeRegressor(splitter="random", max_features=64)``, up to ties and
        rounding. More than 64 outputs are replaced by 32 random combinations of them, with normal
        coefficients, when splits are chosen; distances are kept up to a factor near 1 (Johnson and
        Lindenstrauss). The values of leaves are sums of all outputs in the order of the rows, those
        of other nodes are 0, as are impurities.
    """
    inputs, predicted = _columns(rows, seen), rows.take(outputs, axis=1)
    tried, targets = min(inputs.shape[1], MOST_TRIED), predicted
    if len(outputs) > MOST_TRIED:
        rng = np.random.RandomState(seed)
        targets = predicted @ rng.normal(size=(len(outputs), DIRECTIONS))
    tree = Tree(inputs.shape[1], np.ones(len(outputs), dtype=np.intp), len(outputs))
    if _core is None:
        from sklearn.tree import DecisionTreeRegressor

        made = DecisionTreeRegressor(
            splitter="random", min_samples_leaf=fewest, max_features=tried, random_state=seed
        ).fit(inputs, targets, check_input=False).tree_.__getstate__()  # fmt: skip
        made["nodes"]["impurity"] = 0.0
        tree.__setstate__(made | {"values": np.zeros((made["node_count"], len(outputs), 1))})
        _set_leaves(tree, rows, seen, outputs)
        return tree
    state = np.random.RandomState(seed).randint(2**31 - 1)  # scikit-learn's own, from the seed
    (left, right, feature, samples), threshold, values, depth = _core.grow_tree(
        inputs, targets, predicted, fewest, tried, state
    )
    nodes = np.zeros(len(left), dtype=NODE_DTYPE)
    nodes["left_child"], nodes["right_child"], nodes["feature"] = left, right, feature
    nodes["threshold"], nodes["n_node_samples"] = threshold, samples
    nodes["weighted_n_node_samples"] = samples
    nodes["missing_go_to_left"] = (left >= 0) & (samples[left] > samples[right])
    made = {"max_depth": depth, "node_count": len(nodes), "nodes": nodes}
    tree.__setstate__(made | {"values": values[:, :, None]})
    return tree


def _set_leaves(tree: Any, rows: Host, seen: NDArray[np.int64], outputs: NDArray[np.int64]) -> None:
    """Set the values of leaves to the means of their rows, summed in the order of the rows."""
    leaf, n = _leaves(tree, rows, seen), len(rows)
    members = csr_array((np.ones(n), (leaf, np.arange(n))), shape=(tree.node_count, n))
    counts = np.maximum(np.bincount(leaf, minlength=tree.node_count), 1)
    tree.value[:, :, 0] = (members @ rows[:, outputs]) / counts[:, None]


def _without_values(tree: Any) -> Any:
    """Return a copy of a tree whose values are zero."""
    bare = copy(tree)
    bare.value[:] = 0.0
    return bare


def _leaves(tree: Any, rows: NDArray[Any], seen: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the leaf of each row."""
    columns = _columns(rows, seen)
    if columns.shape[1] != tree.n_features:  # not checked by the compiled tree
        raise ValueError("A tree was grown on other columns than it is given. Refit the detector.")
    leaves: NDArray[np.intp] = tree.apply(columns)
    return leaves


def _add_predicted(
    tree: Any,
    rows: NDArray[np.float32],
    seen: NDArray[np.int64],
    outputs: NDArray[np.int64],
    total: Host,
) -> None:
    """Add a tree's predictions to the columns that it predicts; `rows` and `total` hold all."""
    if _core is not None and len(seen):
        _core.add_predictions(tree, rows, seen, outputs, total)
    else:
        total[:, outputs] += tree.value[_leaves(tree, rows, seen), :, 0]
