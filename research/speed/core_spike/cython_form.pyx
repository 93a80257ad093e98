# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The piece in Cython: loops from rows.h, BLAS from SciPy by cimport."""

import numpy as np

from scipy.linalg.cython_blas cimport dgemv, dsyrk


cdef extern from "rows.h" nogil:
    void scale_rows(long, long, const double *, const double *, const double *, double *, double *, double *, double *)
    void push_rows(long, const double *, const double *, const double *, double *)
    void turn_rows(long, const double *, const double *, const double *, const double *, const double *,
                   const double *, const double *, double *, double *, double *)
    void aim_rows(long, double, const double *, const double *, const double *, double *)
    void move_rows(long, double, double, const double *, const double *, const double *, double *, double *, double *)


cdef class Rows:
    cdef readonly object x, z, residual
    cdef double[:, ::1] columns, _x, _z, ratio, target, dx, dz, scaled
    cdef double[::1] _residual, D, root, force, slide
    cdef int m, R

    def __init__(self, columns, x, z, residual):
        self.columns, self.x, self.z, self.residual = columns, x.copy(), z.copy(), residual.copy()
        self._x, self._z, self._residual = self.x, self.z, self.residual
        self.R, self.m = columns.shape
        self.ratio, self.target = np.empty((2, self.m)), np.zeros((2, self.m))
        self.dx, self.dz = np.empty((2, self.m)), np.empty((2, self.m))
        self.D, self.root = np.empty(self.m), np.empty(self.m)
        self.force, self.slide = np.empty(self.m), np.empty(self.m)
        self.scaled = np.empty((self.R, self.m))

    def curvature(self):
        cdef double[:, ::1] H
        cdef double one = 1.0, zero = 0.0
        cdef int i, j
        out = np.empty((self.R, self.R))
        H = out
        scale_rows(self.m, self.R, &self.columns[0, 0], &self._x[0, 0], &self._z[0, 0],
                   &self.ratio[0, 0], &self.D[0], &self.root[0], &self.scaled[0, 0])
        dsyrk("L", "T", &self.R, &self.m, &one, &self.scaled[0, 0], &self.m, &zero, &H[0, 0], &self.R)
        for i in range(self.R):
            for j in range(i):
                H[i, j] = H[j, i]
        self.target[:, :] = 0.0
        return out

    def pull(self):
        cdef double[::1] p
        cdef double one = 1.0, zero = 0.0
        cdef int step = 1
        out = np.empty(self.R)
        p = out
        push_rows(self.m, &self._residual[0], &self.target[0, 0], &self.D[0], &self.force[0])
        dgemv("T", &self.m, &self.R, &one, &self.columns[0, 0], &self.m, &self.force[0], &step, &zero, &p[0], &step)
        return out

    def direction(self, double[::1] dw):
        cdef double one = 1.0, zero = 0.0
        cdef int step = 1
        cdef double worst[2]
        dgemv("N", &self.m, &self.R, &one, &self.columns[0, 0], &self.m, &dw[0], &step, &zero, &self.slide[0], &step)
        turn_rows(self.m, &self._x[0, 0], &self._z[0, 0], &self.ratio[0, 0], &self.D[0], &self.force[0],
                  &self.target[0, 0], &self.slide[0], &self.dx[0, 0], &self.dz[0, 0], worst)
        return -1.0 / worst[0] if worst[0] < 0 else 1e30, -1.0 / worst[1] if worst[1] < 0 else 1e30

    def aim(self, double mu):
        aim_rows(self.m, mu, &self.dx[0, 0], &self.dz[0, 0], &self._z[0, 0], &self.target[0, 0])

    def move(self, double primal, double dual):
        move_rows(self.m, primal, dual, &self.dx[0, 0], &self.dz[0, 0], &self.slide[0],
                  &self._x[0, 0], &self._z[0, 0], &self._residual[0])
