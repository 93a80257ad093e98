"""The piece in Numba: compiled when first called."""

from math import sqrt

import numpy as np
from numba import njit

# A minimum is only turned into vectors if NaN and the sign of zero may be ignored.
jit = njit(error_model="numpy", fastmath={"nnan", "nsz", "contract"})


@jit
def _scale(columns, x, z, ratio, D, root, scaled):
    R, m = columns.shape
    for i in range(m):
        ratio[0, i] = x[0, i] / z[0, i]
        ratio[1, i] = x[1, i] / z[1, i]
        D[i] = 1.0 / (ratio[0, i] + ratio[1, i])
        root[i] = sqrt(D[i])
    for j in range(R):
        for i in range(m):
            scaled[j, i] = columns[j, i] * root[i]
    return np.dot(scaled, scaled.T)


@jit
def _push(columns, residual, target, D, force):
    for i in range(force.size):
        force[i] = D[i] * (residual[i] + (target[0, i] - target[1, i]))
    return np.dot(columns, force)


@jit
def _turn(columns, dw, x, z, ratio, D, force, target, slide, dx, dz):
    slide[:] = np.dot(dw, columns)
    primal = dual = 0.0
    for i in range(force.size):
        a = force[i] - D[i] * slide[i]
        ds = target[0, i] - x[0, i] - ratio[0, i] * a
        dxi = target[1, i] - x[1, i] + ratio[1, i] * a
        dz[0, i] = a
        dz[1, i] = -a
        dx[0, i] = ds
        dx[1, i] = dxi
        primal = min(primal, min(ds / x[0, i], dxi / x[1, i]))
        dual = min(dual, min(a / z[0, i], -a / z[1, i]))
    return (-1.0 / primal if primal < 0 else 1e30), (-1.0 / dual if dual < 0 else 1e30)


@jit
def _aim(mu, dx, dz, z, target):
    for k in range(2):
        for i in range(dx.shape[1]):
            target[k, i] = (mu - dx[k, i] * dz[k, i]) / z[k, i]


@jit
def _move(primal, dual, dx, dz, slide, x, z, residual):
    for k in range(2):
        for i in range(dx.shape[1]):
            x[k, i] += primal * dx[k, i]
            z[k, i] += dual * dz[k, i]
    for i in range(slide.size):
        residual[i] -= primal * slide[i]


class Rows:
    def __init__(self, columns, x, z, residual):
        self.columns = columns
        self.x, self.z, self.residual = x.copy(), z.copy(), residual.copy()
        R, m = columns.shape
        self.ratio, self.target = np.empty((2, m)), np.zeros((2, m))
        self.dx, self.dz, self.scaled = np.empty((2, m)), np.empty((2, m)), np.empty((R, m))
        self.D, self.root, self.force, self.slide = (np.empty(m) for _ in range(4))

    def curvature(self):
        self.target[:] = 0.0
        return _scale(self.columns, self.x, self.z, self.ratio, self.D, self.root, self.scaled)

    def pull(self):
        return _push(self.columns, self.residual, self.target, self.D, self.force)

    def direction(self, dw):
        given = self.ratio, self.D, self.force, self.target, self.slide, self.dx, self.dz
        return _turn(self.columns, dw, self.x, self.z, *given)

    def aim(self, mu):
        _aim(mu, self.dx, self.dz, self.z, self.target)

    def move(self, primal, dual):
        _move(primal, dual, self.dx, self.dz, self.slide, self.x, self.z, self.residual)
