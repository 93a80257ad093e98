# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Regression trees with random thresholds, grown and asked for many rows: see `columns` and `_trees.h`."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free, malloc

cdef extern from "_trees.h" nogil:
    ctypedef struct Learners:
        Py_ssize_t n, inputs, outputs, width, most
        const float *columns
        const double *targets
        const float *rounded
        const double *squares
        const double *told
        Py_ssize_t values
    ctypedef struct Memory:
        int32_t *order
        int32_t *lefts
        int32_t *rights
        float *values
        int64_t *features
        int64_t *constants
        int64_t *tried
        int64_t *counts
        double *thresholds
        double *gains
        float *sum
        float *whole
        double *total
        double *left
        double *sizes
    ctypedef struct Tree:
        int64_t *left
        int64_t *right
        int64_t *feature
        int64_t *samples
        double *threshold
        double *value
    ctypedef struct Waiting:
        pass
    Py_ssize_t grow(const Learners *rows, Memory *memory, Py_ssize_t fewest, uint32_t state, Waiting *stack, Tree *tree, int64_t *deepest)

LANES = 8  # columns in single precision are padded to so many


def grow_tree(rows, targets, predicted, Py_ssize_t fewest, Py_ssize_t tried, uint32_t state):
    """Nodes of a tree: left, right, feature, samples; threshold; values of leaves; its depth.

    Parameters
    ----------
    rows : float32 of shape (n, inputs)
        What is split.
    targets : float64 of shape (n, outputs)
        What splits are chosen by.
    predicted : float64 of shape (n, values)
        What leaves hold the means of.
    fewest : int
        Fewest rows in a leaf.
    tried : int
        Columns that are tried in a node, at most.
    state : int
        Of the generator.
    """
    cdef const float[:, ::1] columns = np.ascontiguousarray(rows.T, dtype=np.float32)
    cdef const double[:, ::1] y = np.ascontiguousarray(targets, dtype=np.float64)
    cdef const double[:, ::1] told = np.ascontiguousarray(predicted, dtype=np.float64)
    cdef Learners learners
    cdef Memory memory
    cdef Tree tree
    cdef int64_t deepest = 0
    cdef Py_ssize_t nodes, n = y.shape[0], d = columns.shape[0], outputs = y.shape[1]
    if n == 0 or d == 0 or outputs == 0 or told.shape[1] == 0 or not columns.shape[1] == told.shape[0] == n:
        raise ValueError(f"{columns.shape[1]} x {d} numbers to predict {n} x {outputs}")
    padded = np.zeros((n, -(-outputs // LANES) * LANES), np.float32)
    padded[:, :outputs] = targets
    cdef const float[:, ::1] rounded = padded
    cdef const double[::1] squares = np.einsum("ij,ij->i", y, y)
    learners.n, learners.inputs, learners.outputs, learners.width = n, d, outputs, rounded.shape[1]
    learners.most, learners.told, learners.values = tried, &told[0, 0], told.shape[1]
    learners.columns, learners.targets = &columns[0, 0], &y[0, 0]
    learners.rounded, learners.squares = &rounded[0, 0], &squares[0]
    cdef int32_t[:, ::1] of_rows = np.empty((3, n + 1), np.int32)
    cdef int64_t[:, ::1] of_columns = np.empty((4, d), np.int64)
    cdef float[::1] values = np.empty(n, np.float32)
    cdef float[:, ::1] sums = np.zeros((2, learners.width), np.float32)
    cdef double[:, ::1] gains = np.empty((2, d)), of_outputs = np.empty((3, outputs))
    memory.order, memory.lefts, memory.rights = &of_rows[0, 0], &of_rows[1, 0], &of_rows[2, 0]
    memory.features, memory.constants = &of_columns[0, 0], &of_columns[1, 0]
    memory.tried, memory.counts = &of_columns[2, 0], &of_columns[3, 0]
    memory.values, memory.sum, memory.whole = &values[0], &sums[0, 0], &sums[1, 0]
    memory.thresholds, memory.gains = &gains[0, 0], &gains[1, 0]
    memory.total, memory.left, memory.sizes = &of_outputs[0, 0], &of_outputs[1, 0], &of_outputs[2, 0]
    cdef Py_ssize_t most = max(1, 2 * (n // max(1, fewest)) - 1)  # each leaf has the fewest rows
    whole, cuts, predicted = np.empty((4, most), np.int64), np.empty(most), np.empty((most, told.shape[1]))
    cdef int64_t[:, ::1] links = whole
    cdef double[::1] thresholds = cuts
    cdef double[:, ::1] leaves = predicted
    tree.left, tree.right, tree.feature, tree.samples = &links[0, 0], &links[1, 0], &links[2, 0], &links[3, 0]
    tree.threshold, tree.value = &thresholds[0], &leaves[0, 0]
    cdef Waiting *stack = <Waiting *>malloc((n + 2) * sizeof(Waiting))
    if stack is NULL:
        raise MemoryError
    with nogil:
        nodes = grow(&learners, &memory, fewest, state, stack, &tree, &deepest)
    free(stack)
    return whole[:, :nodes], cuts[:nodes], predicted[:nodes], deepest


def add_predictions(tree, rows, seen, columns, total):
    """Add what a tree of scikit-learn predicts for rows to some columns of a total.

    Parameters
    ----------
    tree : sklearn.tree._tree.Tree
        Its children come after their parents.
    rows : float32 of shape (n, d)
        Rows, with all columns.
    seen, columns : int64 of shape (inputs,) and (outputs,)
        Columns that it splits by, and that it predicts.
    total : float64 of shape (n, d)
        Is added to.
    """
    cdef const float[:, ::1] X = rows
    cdef double[:, ::1] out = total
    cdef const int64_t[::1] inputs = np.ascontiguousarray(seen, dtype=np.int64)
    cdef const int64_t[::1] outputs = np.ascontiguousarray(columns, dtype=np.int64)
    cdef const Py_ssize_t[:] left = tree.children_left, right = tree.children_right
    cdef const Py_ssize_t[:] feature = tree.feature
    cdef const double[:] threshold = tree.threshold
    cdef const double[:, :] value = tree.value[:, :, 0]
    cdef Py_ssize_t i, k, node, d = X.shape[1], width = outputs.shape[0]
    if tree.n_features != len(seen) or value.shape[1] != width or out.shape[1] != d or len(rows) != len(total):
        raise ValueError("A tree was grown on other columns than it is given. Refit the detector.")
    if not 0 <= min(*seen, *columns) <= max(*seen, *columns) < d:
        raise ValueError("A tree was grown on columns that rows do not have. Refit the detector.")
    with nogil:
        for i in range(X.shape[0]):
            node = 0
            while left[node] >= 0:
                node = left[node] if X[i, inputs[feature[node]]] <= threshold[node] else right[node]
            for k in range(width):
                out[i, outputs[k]] += value[node, k]
