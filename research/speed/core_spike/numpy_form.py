"""The piece in NumPy, as `RowPairs` of the interior point had it: the others must reproduce it."""

import numpy as np


def _longest(x, dx):
    worst = (dx / x).min()
    return -1.0 / worst if worst < 0.0 else 1e30


class Rows:
    def __init__(self, columns, x, z, residual):
        self.columns, self.x, self.z, self.residual = columns, x, z, residual

    def curvature(self):
        self.ratio = self.x / self.z
        self.D = 1.0 / (self.ratio[0] + self.ratio[1])
        self.target = None
        scaled = self.columns * self.D**0.5
        return scaled @ scaled.T

    def pull(self):
        t = self.target
        push = self.residual if t is None else self.residual + (t[0] - t[1])
        self.force = self.D * push
        return self.columns @ self.force

    def direction(self, dw):
        self.slide = dw @ self.columns
        d_alpha = self.force - self.D * self.slide
        self.dz = np.empty_like(self.x)
        self.dz[0] = d_alpha
        self.dz[1] = -d_alpha
        rest = -self.x if self.target is None else self.target - self.x
        self.dx = rest - self.ratio * self.dz
        return _longest(self.x, self.dx), _longest(self.z, self.dz)

    def aim(self, mu):
        self.target = (mu - self.dx * self.dz) / self.z

    def move(self, primal, dual):
        self.x = self.x + primal * self.dx
        self.z = self.z + dual * self.dz
        self.residual = self.residual - primal * self.slide
