# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Blocks of rows read once from memory: see `rows`, which says when this serves, and `_rows.h`."""

import numpy as np

from libc.stdint cimport int8_t, int64_t

cdef extern from "_rows.h" nogil:
    ctypedef struct Rows:
        Py_ssize_t m, R, stride
        const double *y
        const double *c
    ctypedef struct Point:
        const double *w
        double b
        const double *alpha
        double band
    ctypedef struct Sums:
        double *r
        double *pull
        double *size
        double *scratch
    int wide_vectors()
    void read_rows(const void *S, int is_float, int wide, Rows rows, Point point, Sums sums)
    void sizes_of_rows(const void *S, int is_float, Rows rows, double *sizes)
    Py_ssize_t sides_of(Py_ssize_t m, const double *r, const double *y, const double *c, double band, double beyond, int8_t *side, int64_t *near, double *sums)
    void hinge_sums(
        Py_ssize_t m, const double *r, const double *c, double off, double rounding, double *sums
    )
    void multiplier_sums(Py_ssize_t m, const double *alpha, const double *c, double *sums)
    Py_ssize_t layered_rows(Py_ssize_t m, const double *r, const double *c, Py_ssize_t layers, const double *bands, const int64_t *strides, int64_t *counts, int64_t *left, int64_t *found, int64_t *layer)
    Py_ssize_t crossed_rows(Py_ssize_t m, const double *r, const double *alpha, const double *c, int64_t *found)

    enum: CHUNK_ROWS

CHUNK = CHUNK_ROWS  # rows that are added up at a time
cdef int WIDE = wide_vectors()


def use_wide_vectors(bint wanted):
    """Whether the form for AVX2 serves, where the processor has it."""
    global WIDE
    WIDE = wanted and wide_vectors()


cdef const double[::1] _vector(values, Py_ssize_t m):
    """One number a row; nothing for the number 1 that stands for all ones."""
    if values is None or isinstance(values, float):
        return None
    cdef const double[::1] found = np.ascontiguousarray(values, dtype=np.float64)
    if found.shape[0] != m:
        raise ValueError(f"{found.shape[0]} numbers for {m} rows")
    return found


cdef inline const double *_first(const double[::1] values) noexcept:
    return NULL if values is None or values.shape[0] == 0 else &values[0]


cdef tuple _read(S, y, c, w, double b, alpha, double band, bint pulled, bint sized):
    cdef Rows rows
    cdef Point point
    cdef Sums sums
    cdef const double[:, :] doubles
    cdef const float[:, :] floats
    cdef const void *data = NULL
    cdef bint is_float = S.dtype == np.float32
    cdef int wide = WIDE
    cdef double top = 0.0
    rows.m, rows.R = S.shape
    if is_float:
        floats = S
        rows.stride = floats.strides[0] // 4
        data = <const void *>&floats[0, 0] if rows.m else NULL
    else:
        doubles = S
        rows.stride = doubles.strides[0] // 8
        data = <const void *>&doubles[0, 0] if rows.m else NULL
    cdef const double[::1] labels = _vector(y, rows.m), costs = _vector(c, rows.m)
    cdef const double[::1] shares = _vector(alpha, rows.m), weights = _vector(w, rows.R)
    residuals, pull = np.empty(rows.m), np.zeros(2 * rows.R)
    cdef double[::1] r = residuals, both = pull
    rows.y, rows.c = _first(labels), _first(costs)
    point.w, point.b, point.alpha, point.band = _first(weights), b, _first(shares), band
    sums.pull = &both[0] if pulled else NULL
    sums.scratch = &both[rows.R]
    sums.size = &top if sized else NULL
    if rows.m:
        sums.r = &r[0]
        with nogil:
            read_rows(data, is_float, wide, rows, point, sums)
    return residuals, pull[: rows.R], top


def residuals_and_pull(S, y, c, w, double b, alpha, bint sized):
    """r, Σ c α y s (zeros where α is None), and the largest size of a score where it is wanted."""
    return _read(S, y, c, w, b, alpha, 0.0, alpha is not None, sized)


def part(S, y, c, w, double b, double band, double beyond, bint placed):
    """Sides and residuals of all rows, positions of near ones, Σ c y s over rising ones, three sums.

    Those are Σ c max(0, r) and, over the rising rows, Σ c and Σ c y. Rows are near where |r| is
    within the band, and rise in sums where r is beyond another number. Positions are not looked for
    unless they are wanted, `placed`.
    """
    residuals, pull, _ = _read(S, y, c, w, b, None, beyond, True, False)
    cdef const double[::1] r = residuals
    cdef Py_ssize_t m = r.shape[0], count = 0
    cdef const double[::1] labels = _vector(y, m), costs = _vector(c, m)
    sides, positions = np.empty(m, np.int8), np.empty(m if placed else 0, np.int64)
    totals = np.zeros(3)
    cdef int8_t[::1] side = sides
    cdef int64_t[::1] near = positions
    cdef double[::1] sums = totals
    cdef const double *labels_at = _first(labels)
    cdef const double *costs_at = _first(costs)
    if m:
        with nogil:
            count = sides_of(m, &r[0], labels_at, costs_at, band, beyond, &side[0], &near[0] if placed else NULL, &sums[0])
    return sides, residuals, positions[:count].copy(), pull, *totals.tolist()


def row_sizes(S):
    """The largest size of a score in each row."""
    cdef Rows rows
    cdef const double[:, :] doubles
    cdef const float[:, :] floats
    cdef bint is_float = S.dtype == np.float32
    cdef const void *data = NULL
    rows.m, rows.R = S.shape
    rows.y = rows.c = NULL
    found = np.empty(rows.m)
    cdef double[::1] sizes = found
    if rows.m:
        if is_float:
            floats = S
            rows.stride, data = floats.strides[0] // 4, <const void *>&floats[0, 0]
        else:
            doubles = S
            rows.stride, data = doubles.strides[0] // 8, <const void *>&doubles[0, 0]
        with nogil:
            sizes_of_rows(data, is_float, rows, &sizes[0])
    return found


def hinges(values, c, double off, double rounding):
    """``Σ c max(0, r)``, and the same for ``r + off + rounding |r|``."""
    cdef const double[::1] r = values
    cdef const double[::1] costs = _vector(c, r.shape[0])
    cdef const double *costs_at = _first(costs)
    cdef double[2] sums
    sums[0] = sums[1] = 0.0
    if r.shape[0]:
        with nogil:
            hinge_sums(r.shape[0], &r[0], costs_at, off, rounding, sums)
    return sums[0], sums[1]


def multiplier_totals(values, c):
    """``Σ c α``, ``Σ c |α|``, and the least and the largest α."""
    cdef const double[::1] alpha = np.ascontiguousarray(values, dtype=np.float64)
    cdef const double[::1] costs = _vector(c, alpha.shape[0])
    cdef const double *costs_at = _first(costs)
    cdef double[4] sums
    if not alpha.shape[0]:
        raise ValueError("no multipliers")
    with nogil:
        multiplier_sums(alpha.shape[0], &alpha[0], costs_at, sums)
    return sums[0], sums[1], sums[2], sums[3]


def crossed(values, multipliers, c):
    """Positions of rows that cost something, with α = 1 though r < 0, or α = 0 though r > 0."""
    cdef const double[::1] r = values
    cdef Py_ssize_t m = r.shape[0], count = 0
    cdef const double[::1] alpha = _vector(multipliers, m), costs = _vector(c, m)
    positions = np.empty(m, np.int64)
    cdef int64_t[::1] found = positions
    cdef const double *costs_at = _first(costs)
    if m:
        with nogil:
            count = crossed_rows(m, &r[0], &alpha[0], costs_at, &found[0])
    return positions[:count].copy()


def layered(values, c, bands, strides):
    """Of rows in layers of |r|, every k-th of each: positions, layers, and how many each has.

    Rows without cost and beyond the last band are in no layer.
    """
    cdef const double[::1] r = values, outer = bands
    cdef const int64_t[::1] every = strides
    cdef Py_ssize_t m = r.shape[0], layers = outer.shape[0], count = 0
    cdef const double[::1] costs = _vector(c, m)
    cdef const double *costs_at = _first(costs)
    found, numbers = np.empty((2, m), np.int64), np.zeros((2, layers), np.int64)
    cdef int64_t[:, ::1] both = found, numbered = numbers
    if m:
        with nogil:
            count = layered_rows(m, &r[0], costs_at, layers, &outer[0], &every[0], &numbered[0, 0], &numbered[1, 0], &both[0, 0], &both[1, 0])
    return found[0, :count].copy(), found[1, :count].copy(), numbers[0].tolist()
