"""Newton's method on the surface of an ℓp ball: what one step needs, in the form of NumPy.

With x = (w − w₀)/r and v = −∇f, the slope against which the ball holds the weights, the optimum has

    v = η φ(x),   φ(x) = sign(x)|x|^{p−1},   Σ|x|^p = 1          or   v = 0 inside the ball,

a smooth equation in w for every p in (1, ∞). The hinges are rounded around multipliers α₀,

    max {α r − (α − α₀)²/2κ : 0 ≤ α ≤ c},   κ = c/2δ,   attained at α = clip(α₀ + κ r, 0, c),

so that only rows with 0 < α < c have curvature: J. A step solves

    (A_J κ A_Jᵀ + diag(η φ′)) dw + φ dη = −∇f − ηφ,    φᵀdw = 0

by one Cholesky factor of R×R. `_surface` is the compiled form of the same class.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from lpfuse._arrays.operations import Host
from lpfuse.optim._solvers.model import Breakdown, Model

SHORTER = 0.35  # by hand: what is left of a step along which the objective did not fall
ENOUGH = 1e-4  # by hand: the share of the promised decrease that must be kept
ALL = 1 << 62


class SurfaceSystem:
    """Where a run stands: x, the residuals, and the rounded hinges there.

    Parameters
    ----------
    model : Model
        Without a quadratic term, over a ball with 1 < p < ∞ in which weights may be negative.
    x : array of shape (R,)
        Of norm 1, or less where `inside`.
    free : array of shape (0,) or (1,)
        The intercept.
    inside : bool
        Whether the ball is left aside for now.

    Attributes
    ----------
    moved : float
        How far a margin of a row in J moves along the last step.
    n_near : int
        How many rows J has.
    """

    def __init__(self, model: Model, x: Host, free: Host, inside: bool) -> None:
        self.model, self.R, self.p = model, model.n_weights, model.ball.p
        self.A, self.c, self.g = model.columns, model.costs, model.linear
        self.x, self.free, self.inside = x, free, inside
        self.at = 0.5 * self.c
        self.w = self._point(x, free)
        self.r = 1.0 - self.w @ self.A

    def _point(self, x: Host, free: Host) -> Host:
        return np.concatenate([self.model.ball.at(self.model.ball.radius * x), free])

    def bounds(self) -> tuple[float, float]:
        """The objective, and the bound that α proves where b is not free; less the constant."""
        primal = float(self.g @ self.w + self.c @ np.maximum(self.r, 0.0))
        return primal, float(self.alpha.sum()) - self.model.ball.support(self.pull[: self.R])

    def n_within(self, band: float) -> int:
        """Rows so near to their kink."""
        return int(np.count_nonzero(np.abs(self.r) < band))

    def look(self, band: float) -> None:
        """Round the hinges with this band."""
        self.band, self.stiff = band, self.c / (2.0 * band)
        self.alpha, self.value = self._rounded(self.w, self.r)
        self.pull = self.A @ self.alpha - self.g

    def hold(self) -> None:
        """Round the hinges around the multipliers of now."""
        self.at = self.alpha

    def follow(self) -> None:
        """Round them around what the last step, a whole one, says that they will be."""
        near = self.near
        alpha = self.before
        alpha[near] -= self.stiff[near] * self.slide
        self.at = np.minimum(np.maximum(alpha, 0.0), self.c)

    def _rounded(self, w: Host, r: Host) -> tuple[Host, float]:
        alpha = np.minimum(np.maximum(self.at + self.stiff * r, 0.0), self.c)
        off = alpha - self.at
        return alpha, float(self.g @ w + alpha @ r - 0.5 * (off @ (off / self.stiff)))

    def newton(self, wanted: int) -> None:
        """The step from here; about `wanted` rows are enough to tell the curvature."""
        near = np.flatnonzero((self.alpha > 0.0) & (self.alpha < self.c))
        self.n_near = near.size
        stride = max(1, near.size // wanted)
        self.near = near = near[::stride]
        columns = self.A[:, near]
        matrix = (columns * (stride * self.stiff[near])) @ columns.T
        diagonal = matrix.reshape(-1)[:: matrix.shape[0] + 1]
        if self.model.free:  # an intercept with no row in the band has nothing else to hold it
            diagonal[-1] += 1e-9 * float(self.c.sum()) / self.band
        eta = float(self.pull[: self.R] @ self.x)
        self.inside = self.inside or eta <= 0.0
        self.dw = self._free(matrix) if self.inside else self._held(matrix, eta)
        if not np.isfinite(self.dw).all():
            raise Breakdown("the step is not finite")
        self.slide = self.dw @ columns
        self.moved = float(np.abs(self.slide).max(initial=0.0))

    @staticmethod
    def _factor(matrix: Host) -> Host:
        factor, failed = lapack.dpotrf(matrix, lower=1)
        if failed:
            raise Breakdown("the Newton matrix is not positive definite")
        return factor

    def _free(self, matrix: Host) -> Host:
        """Inside the ball the rows alone decide."""
        diagonal = matrix.reshape(-1)[:: matrix.shape[0] + 1]
        diagonal += 1e-9 * float(diagonal.max()) + 1e-300
        return lapack.dpotrs(self._factor(matrix), self.pull, lower=1)[0]

    def _held(self, matrix: Host, eta: float) -> Host:
        """On its surface they turn."""
        R, p, x = self.R, self.p, self.x
        size = np.abs(x)
        power = size ** (p - 2.0)
        bend = (eta * (p - 1.0) / self.model.ball.radius) * np.minimum(power, 1e60)
        diagonal = matrix.reshape(-1)[:: matrix.shape[0] + 1]
        diagonal[:R] += bend
        # Past p = 2 a weight near zero is not held by the ball at all.
        diagonal += 1e-14 * diagonal + (1e-12 * float(diagonal.max()) if p > 2.0 else 0.0)
        sides = np.zeros((diagonal.size, 2), order="F")
        phi = np.copysign(size ** (p - 1.0), x)
        sides[:, 0] = self.pull
        sides[:R, 0] -= eta * phi
        sides[:R, 1] = phi
        ahead, aside = lapack.dpotrs(self._factor(matrix), sides, lower=1)[0].T
        d_eta = float(phi @ ahead[:R]) / float(phi @ aside[:R])
        dw: Host = ahead - d_eta * aside
        self.size, self.power = size, power
        self.v, self.dv = eta * phi, bend * dw[:R] + d_eta * phi
        return dw

    def _ahead(self, dx: Host, length: float) -> tuple[Host, bool]:
        """x after a part of the step, and whether it has left the inside of the ball."""
        p = self.p
        if p < 2.0 and not self.inside:  # v changes little where x vanishes, or grows many times
            v = self.v + length * self.dv
            size = np.abs(v)
            z = (size / size.max()) ** (1.0 / (p - 1.0))
            return np.copysign(z / _norm(z, p), v), False
        x = self.x + length * dx
        if not self.inside:
            # |x|^{p−1} bends sharply: it may grow by what its tangent says, and a little.
            size = np.abs(x)
            grown = np.maximum((p - 1.0) * self.power * (size - self.size), 0.0)
            most = (self.size * self.power + grown + 0.1) ** (1.0 / (p - 1.0))
            x = np.copysign(np.minimum(size, most), x)
        norm = _norm(x, p)
        out = not self.inside or norm > 1.0
        return (x / norm if out else x), out

    def search(self, tries: int) -> float:
        """Take as much of the step as lets the rounded objective fall; returns how much, or 0."""
        dx, gain, length = (
            self.dw[: self.R] / self.model.ball.radius,
            float(self.pull @ self.dw),
            1.0,
        )
        for _ in range(tries):
            x, out = self._ahead(dx, length)
            free = self.free + length * self.dw[self.R :]
            w = self._point(x, free)
            r = 1.0 - w @ self.A
            alpha, value = self._rounded(w, r)
            if value <= self.value - ENOUGH * length * gain + 1e-13 * abs(self.value):
                self.x, self.free, self.w, self.r = x, free, w, r
                self.before, self.alpha, self.value = self.alpha, alpha, value
                self.pull = self.A @ alpha - self.g
                self.inside = self.inside and not out
                return length
            length *= SHORTER
        return 0.0


def _norm(x: Host, p: float) -> float:
    size = np.abs(x)
    top = float(size.max())
    return top * float(((size / top) ** p).sum() ** (1.0 / p))
