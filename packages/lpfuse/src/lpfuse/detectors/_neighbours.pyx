# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Distances to the k-th nearest anchor in subsets of the columns: see `SubsetSearch` and `_neighbours.h`."""

import numpy as np

from libc.math cimport INFINITY, fabs, frexp, isfinite, ldexp, sqrt
from libc.stdint cimport int32_t, int64_t

from scipy.linalg.cython_blas cimport sgemm

cdef extern from "_neighbours.h" nogil:
    ctypedef struct Candidate:
        double square
        int64_t place
    ctypedef struct Anchors:
        const double *rows
        Py_ssize_t d
        const int64_t *sample
        Py_ssize_t size
        const int64_t *columns
        Py_ssize_t K
    void nearest(const double *x, const Anchors *anchors, const float *values, double slack, Py_ssize_t k, int every, float *least, int32_t *listed, Candidate *found)
    double kth_directly(const double *x, const Anchors *anchors, const double *side_by_side, Py_ssize_t k, Py_ssize_t own)

    enum: DIRECTLY, PART

# Values in single precision that are held at a time, which then stay in the second cache.
cdef Py_ssize_t AT_A_TIME = 131072
# Rounding of single precision, twice, and what is added where squares vanish in it.
cdef double ROUNDING = 2.0**-23, LEAST = 1e-30
# Sizes in units of the largest entry beyond which single precision is not asked.
cdef double MOST = 1e15


cdef class Search:
    """Rows, and subsets of them and of their columns; what is searched is prepared once.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        All anchors.
    samples : ndarray of shape (subsets, s)
        Positions of the anchors of each subset.
    columns : list of ndarray
        The columns of each subset.
    centre : ndarray of shape (d,)
        What is subtracted before numbers are rounded to single precision.
    """

    cdef const double[:, ::1] rows
    cdef const int64_t[:, ::1] samples
    cdef const int64_t[::1] columns, starts
    cdef const double[::1] centre
    cdef Py_ssize_t size, d, subsets, widest
    cdef double scale
    cdef float[::1] packed  # for each subset: −2 z, column by column, then ‖z‖²
    cdef double[::1] largest  # ‖z‖ of each subset
    cdef double[::1] side_by_side  # of few anchors: their columns
    cdef tuple given

    def __init__(self, rows, samples, columns, centre):
        self.given = rows, samples, columns, centre
        self.rows = np.ascontiguousarray(rows, dtype=np.float64)
        self.samples = np.ascontiguousarray(samples, dtype=np.int64)
        columns = [np.unique(some) for some in columns]
        lengths = [len(some) for some in columns]
        self.columns = np.concatenate(columns).astype(np.int64)
        self.starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.centre = np.ascontiguousarray(centre, dtype=np.float64)
        self.d, self.subsets, self.size = self.rows.shape[1], len(lengths), self.samples.shape[1]
        # Models may come from files: what compiled loops index by is checked.
        if not 0 <= np.min(samples) <= np.max(samples) < len(rows):
            raise ValueError("Anchors that are no rows. Refit the detector.")
        if not 0 <= np.min(self.columns) <= np.max(self.columns) < self.d:
            raise ValueError("Columns that rows do not have. Refit the detector.")
        if len(self.centre) != self.d or len(self.samples) != self.subsets:
            raise ValueError("Subsets do not fit their rows. Refit the detector.")
        self.widest = max(lengths)
        cdef Py_ssize_t b, last = self.starts[self.subsets]
        if self.size <= DIRECTLY:
            self.side_by_side = np.empty(last * self.size)
        self.scale = self._power_of_two()
        self.packed = np.empty((last + self.subsets) * self.size, np.float32)
        self.largest = np.zeros(self.subsets)
        for b in range(self.subsets):
            self._pack(b)

    def __reduce__(self):
        return Search, self.given

    def distances(self, X, Py_ssize_t k, own):
        """Distances to the k-th nearest anchor of each subset: (m, subsets); −1 in `own`: none."""
        found = np.empty((len(X), self.subsets))
        self._kth(X, k, own, None, found, 0, self.subsets)
        return np.sqrt(found, out=found)

    def own_distances(self, Py_ssize_t b, Py_ssize_t k):
        """Distances of a subset's anchors to the k-th nearest other one: (s, 1)."""
        found, places = np.empty((self.size, 1)), np.arange(self.size)[:, None]
        X = np.asarray(self.rows)[np.asarray(self.samples)[b]]
        self._kth(X, k, places, None, found, b, b + 1)
        return np.sqrt(found, out=found)

    def neighbours(self, X, Py_ssize_t k, own):
        """Positions of the k nearest anchors of the first subset, and distances: (m, k) each."""
        places, found = np.empty((len(X), k), np.int64), np.empty((len(X), k))
        self._kth(X, k, own, places, found, 0, 1)
        return places, np.sqrt(found, out=found)

    cdef double _power_of_two(self):
        """Return what makes the largest entry about 1; 0 where single precision cannot serve."""
        cdef double most = 0.0
        cdef int exponent
        cdef Py_ssize_t i, j
        for i in range(self.rows.shape[0]):
            for j in range(self.d):
                most = max(most, fabs(self.rows[i, j] - self.centre[j]))
        if not (1e-290 < most < 1e290):
            return 0.0
        frexp(most, &exponent)
        return ldexp(1.0, -exponent)

    cdef Anchors _anchors(self, Py_ssize_t b) noexcept nogil:
        cdef Anchors found
        found.rows, found.d = &self.rows[0, 0], self.d
        found.sample, found.size = &self.samples[b, 0], self.size
        found.K = self.starts[b + 1] - self.starts[b]
        found.columns = NULL if found.K == self.d else &self.columns[self.starts[b]]
        return found

    cdef void _pack(self, Py_ssize_t b) noexcept nogil:
        cdef Py_ssize_t i, c, j, at, K = self.starts[b + 1] - self.starts[b], s = self.size
        cdef double value, norm
        at = (self.starts[b] + b) * s
        for i in range(s):
            norm = 0.0
            for c in range(K):
                j = self.columns[self.starts[b] + c]
                value = self.rows[self.samples[b, i], j]
                if s <= DIRECTLY:
                    self.side_by_side[(self.starts[b] + c) * s + i] = value
                value = (value - self.centre[j]) * self.scale
                self.packed[at + c * s + i] = <float>(-2.0 * value)
                norm += value * value
            self.packed[at + K * s + i] = <float>norm
            self.largest[b] = max(self.largest[b], sqrt(norm))

    cdef _kth(self, queries, Py_ssize_t k, own, places, squares, Py_ssize_t first, Py_ssize_t last):
        """Write squared distances to the k-th nearest anchor, (m, last − first), or, where places
        are wanted, of all k: (m, k)."""
        cdef const double[:, ::1] X = np.ascontiguousarray(queries, dtype=np.float64)
        cdef Py_ssize_t m = X.shape[0], s = self.size, b, i, j, c, start, stop, inside, wanted, block
        if X.shape[1] != self.d:
            raise ValueError(f"{X.shape[1]} columns for {self.d}")
        cdef const int64_t[:, :] excluded = own
        cdef int64_t[:, ::1] at = places
        cdef double[:, ::1] out = squares
        cdef bint every = places is not None
        block = max(1, min(m, AT_A_TIME // s))
        cdef float[::1] left = np.empty(block * (self.widest + 1), np.float32)
        cdef float[::1] products = np.empty(block * s, np.float32)
        cdef float[::1] least = np.empty(s // PART + 1, np.float32)
        cdef double[::1] reach = np.empty(block)
        cdef int32_t[::1] listed = np.empty(s + 1, np.int32)
        cdef double[::1] memory = np.empty(2 * s + 2)
        cdef Candidate *found = <Candidate *>&memory[0]
        cdef Anchors anchors
        cdef double value, norm, slack
        cdef float one = 1.0, zero = 0.0
        cdef float *values
        cdef int blas_m = <int>s, blas_n, blas_k
        cdef char plain = b"N"
        with nogil:
            for b in range(first, last):
                anchors = self._anchors(b)
                start = 0
                while start < m:
                    stop = min(m, start + block)
                    if s > DIRECTLY or every:
                        for i in range(stop - start):
                            norm = 0.0
                            for c in range(anchors.K):
                                j = self.columns[self.starts[b] + c]
                                value = (X[start + i, j] - self.centre[j]) * self.scale
                                left[i * (anchors.K + 1) + c] = <float>value
                                norm += value * value
                            left[i * (anchors.K + 1) + anchors.K] = 1.0
                            reach[i] = sqrt(norm)
                        blas_n, blas_k = <int>(stop - start), <int>(anchors.K + 1)
                        sgemm(&plain, &plain, &blas_m, &blas_n, &blas_k, &one, &self.packed[(self.starts[b] + b) * s], &blas_m, &left[0], &blas_k, &zero, &products[0], &blas_m)
                    for i in range(stop - start):
                        inside = excluded[start + i, b - first] if excluded is not None and s > 1 else -1
                        wanted = max(1, min(k, s - (inside >= 0)))
                        if s <= DIRECTLY and not every:
                            out[start + i, b - first] = kth_directly(&X[start + i, 0], &anchors, &self.side_by_side[self.starts[b] * s], wanted, inside)
                            continue
                        values = &products[i * s]
                        slack = (anchors.K + 4) * ROUNDING * self.largest[b] * (self.largest[b] + 2.0 * reach[i]) + LEAST
                        if self.scale == 0.0 or not reach[i] < MOST:
                            slack = INFINITY
                            for j in range(s):
                                values[j] = 0.0
                        if inside >= 0:
                            values[inside] = INFINITY
                        nearest(&X[start + i, 0], &anchors, values, slack, wanted, every, &least[0], &listed[0], found)
                        if not every:
                            out[start + i, b - first] = found[wanted - 1].square
                            continue
                        for j in range(wanted):
                            out[start + i, j], at[start + i, j] = found[j].square, found[j].place
                    start = stop
