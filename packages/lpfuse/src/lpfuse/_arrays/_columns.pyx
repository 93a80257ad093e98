# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Numbers of a table found among ascending ones of each column: see `views` and `columns`."""

import numpy as np

from libc.math cimport fmax, fmin, isnan
from libc.stdint cimport int32_t, int64_t

cdef enum:
    CHUNK = 256  # rows at a time


cdef tuple _flat(lists):
    """Numbers of all columns one after the other, and where each column starts."""
    starts = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(one) for one in lists], out=starts[1:])
    if not len(lists) or (np.diff(starts) < 1).any():
        raise ValueError("Columns without numbers. Refit the detector.")
    return np.ascontiguousarray(np.concatenate(lists), dtype=np.float64), starts


cdef void _last_up_to(const double *x, Py_ssize_t rows, const double *values, Py_ssize_t m, int32_t *place) noexcept nogil:
    """Position of the last value that is no larger; 0 where there is none. Without a branch, rows
    side by side, as each waits for memory."""
    cdef Py_ssize_t i, half, left = m
    for i in range(rows):
        place[i] = 0
    while left > 1:
        half = left // 2
        for i in range(rows):
            place[i] += <int32_t>half & -<int32_t>(values[place[i] + half] <= x[i])
        left -= half


def last_up_to(const double[:, :] X, values):
    """For each column the position of the last of its ascending values up to x: int32 (n, d).

    Parameters
    ----------
    X : float64 of shape (n, d)
        Rows.
    values : list of ndarray
        For each column; 0 stands for rows below all of them, too.
    """
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], i, j, block, start, rows
    cdef const double[::1] every
    cdef const int64_t[::1] starts
    if len(values) != d:
        raise ValueError(f"{d} columns for {len(values)}")
    every, starts = _flat(values)
    found = np.empty((d, n), np.int32)
    cdef int32_t[:, ::1] places = found
    cdef double[CHUNK] x
    with nogil:
        for j in range(d):
            for block in range((n + CHUNK - 1) // CHUNK):
                start = block * CHUNK
                rows = min(CHUNK, n - start)
                for i in range(rows):
                    x[i] = X[start + i, j]
                _last_up_to(x, rows, &every[starts[j]], starts[j + 1] - starts[j], &places[j, start])
    return found.T


def interpolate(const double[:, :] X, knots, values, const double[::1] scale, double farthest):
    """``np.interp`` of each column, plus (x − knot) / scale beyond its first and last knot, cut at
    ±`farthest`; to the bit as NumPy has it.

    Parameters
    ----------
    X : float64 of shape (n, d)
        Rows.
    knots, values : lists of ndarray
        For each column, ascending knots and what they are mapped to.
    scale : float64 of shape (d,)
        Divisors.
    farthest : float
        Largest distance.
    """
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], i, j, m, at, block, start, rows
    cdef const double[::1] every, mapped
    cdef const int64_t[::1] starts, others
    if not len(knots) == len(values) == scale.shape[0] == d:
        raise ValueError(f"{d} columns for {len(knots)}")
    every, starts = _flat(knots)
    mapped, others = _flat(values)
    if not np.array_equal(starts, others):
        raise ValueError("Knots and their quantiles do not fit. Refit the view.")
    found = np.empty((n, d))
    cdef double[:, ::1] out = found
    cdef double[CHUNK] x
    cdef int32_t[CHUNK] place
    cdef const double *u
    cdef const double *z
    cdef double slope, y, beyond
    with nogil:
        for j in range(d):
            u, z, m = &every[starts[j]], &mapped[starts[j]], starts[j + 1] - starts[j]
            for block in range((n + CHUNK - 1) // CHUNK):
                start = block * CHUNK
                rows = min(CHUNK, n - start)
                for i in range(rows):
                    x[i] = X[start + i, j]
                _last_up_to(x, rows, u, m, place)
                for i in range(rows):
                    at = place[i]
                    if x[i] <= u[0]:
                        y = z[0]
                    elif at == m - 1:
                        y = z[m - 1]
                    elif x[i] == u[at]:
                        y = z[at]
                    else:
                        slope = (z[at + 1] - z[at]) / (u[at + 1] - u[at])
                        y = slope * (x[i] - u[at]) + z[at]
                        if isnan(y):  # as NumPy does where a difference overflows
                            y = slope * (x[i] - u[at + 1]) + z[at + 1]
                    beyond = (x[i] - fmin(fmax(x[i], u[0]), u[m - 1])) / scale[j]
                    out[start + i, j] = y + fmin(fmax(beyond, -farthest), farthest)
    return found
