"""Newton's method on a model: what one step needs, in the form that NumPy serves.

The hinge of a row is c ξ with ξ ≥ r = 1 − aᵀw and ξ ≥ 0: two slacks, s = ξ − r and ξ, with the
multipliers α and c − α. The constraints of the ball are pairs slack × multiplier as well
(`ball_pairs`). A step drives the products of all pairs towards targets, by one Cholesky factor of
R×R.

`InteriorSystem` holds the pairs of all rows. `SmoothedSystem` has rounded hinges instead, and pairs
of the ball alone. `_compiled` has the same two classes without arrays between the formulas: what
follows what, how far to step and when to stop is told once, by `interior_point` and `smoothing`,
and `forms` says which of the two serves.
"""

from __future__ import annotations

from math import isfinite

import numpy as np
from scipy.linalg import lapack

from lpfuse._arrays.operations import Host
from lpfuse.optim._solvers.ball_pairs import BallPairs, BallStep, PairsState, Spread
from lpfuse.optim._solvers.model import Breakdown, Model
from lpfuse.optim.balls import LpBall


def _longest_step(x: Host, dx: Host) -> float:
    """The largest step with ``x + step·dx ≥ 0`` for positive x; no limit is 1e30."""
    worst = float((dx / x).min(initial=0.0))
    return -1.0 / worst if worst < 0.0 else 1e30


class NewtonFactor:
    """Curvature of the rows plus that of the ball, factored once and solved for several targets.

    H dw = pull + border·dη, with one Cholesky factor of H (R×R). z1 = H⁻¹·border is the same for
    all targets; each costs one back-substitution z0 = H⁻¹·pull, dη follows from Σ t = 1, and
    dw = z0 + z1 dη.
    """

    def __init__(self, curvature: Host, pairs: BallPairs) -> None:
        self.pairs = pairs
        self.R = R = pairs.v.size
        diagonal = curvature.reshape(-1)[:: curvature.shape[0] + 1]
        diagonal[:R] += pairs.linearise()
        self.factor = self._cholesky(curvature, diagonal)
        if pairs.lifted:
            border = np.zeros(diagonal.size)
            border[:R] = pairs.border
            self.z1 = lapack.dpotrs(self.factor, border, lower=1)[0]

    @staticmethod
    def _cholesky(matrix: Host, diagonal: Host) -> Host:
        # Relative to each entry: the diagonal spans twenty orders of magnitude near the optimum. It
        # begins at a few eps and grows a hundredfold for each factorisation that fails.
        ridge = 1e-15
        for _ in range(5):
            diagonal *= 1.0 + ridge
            factor, failed = lapack.dpotrf(matrix, lower=1)
            if not failed and isfinite(factor[-1, -1]):
                return factor
            ridge *= 100.0
        raise Breakdown("the Newton matrix is not positive definite")

    def solve(self, pull: Host, change: Host) -> tuple[Host, BallStep]:
        """dw for the rows' right-hand side, and the ball's step that changes its products."""
        whole = pull.copy()
        whole[: self.R] += self.pairs.pull(change)
        dw = lapack.dpotrs(self.factor, whole, lower=1)[0]
        d_eta = 0.0
        if self.pairs.lifted:
            d_eta = self.pairs.multiplier_step(dw[: self.R], self.z1[: self.R])
            dw = dw + d_eta * self.z1
        if not isfinite(float(dw.sum())):
            raise Breakdown("the step is not finite")
        return dw, self.pairs.direction(dw[: self.R], d_eta)


class InteriorSystem:
    """Pairs (s, α) and (ξ, c − α) of every row, as arrays of shape (2, m), and those of the ball.

    c − α is kept on its own: computed from α it would lose all its digits near α = c.

    A step to products `target`: from s α = τ₁ and ξ (c − α) = τ₂, with d(c − α) = −dα,
    ds = τ₁/α − s − (s/α) dα and dξ = τ₂/(c − α) − ξ + (ξ/(c − α)) dα. Slacks must keep
    ξ − s = r: dξ − ds = −aᵀdw + (r − ξ + s). Hence, with D = 1/(s/α + ξ/(c − α)),

        dα = D (r + τ₁/α − τ₂/(c − α) − aᵀdw)

    so that the rows add A D Aᵀ to the Newton matrix and A D (r + τ₁/α − τ₂/(c − α)) to its
    right-hand side. No row is ever left out for a small D: it may be the one that binds next.

    Parameters
    ----------
    model : Model
        Its rows may be none.
    w : array of shape (coordinates,)
        Where to start.
    residual : array of shape (m,)
        r there.
    mu : float
        What all products of the rows start at.

    Attributes
    ----------
    products : float
        Their sum over rows and ball: near the optimum, the gap.
    hinges : float
        Σ c ξ.
    """

    def __init__(self, model: Model, w: Host, residual: Host, mu: float) -> None:
        self.model, self.w = model, w
        self.residual = r = residual
        # A centred start, α s = (c − α) ξ = μ with s = ξ − r, is a quadratic equation in each row:
        # ξ = m + (r + √(r² + 4m²))/2 with m = μ/c. Of the two forms of each root the one in which
        # nothing cancels is taken.
        m = mu / model.costs
        root = np.sqrt(r * r + 4.0 * m * m) + np.abs(r)
        large, small = 0.5 * root + m, 2.0 * m * m / root + m
        self.x = np.stack([np.where(r < 0, large, small), np.where(r > 0, large, small)])
        self.z = mu / self.x
        self.slope = model.slope(w, self.alpha)

    def surround(self, ball: LpBall, place: Spread | PairsState) -> None:
        """Add the pairs of the ball: as they start at w, or as they were left there."""
        self.pairs = BallPairs(ball, self.w[: self.model.n_weights], place)
        self._weigh()

    @property
    def alpha(self) -> Host:
        """The multipliers of the rows."""
        return self.z[0]

    @property
    def count(self) -> int:
        """How many pairs there are."""
        return self.x.size + self.pairs.x.size

    def steepest(self) -> float:
        """The largest entry of the slope, by size."""
        return float(np.abs(self.slope).max())

    def factor(self) -> None:
        """Factor the Newton matrix at this point, and evaluate the slope."""
        model = self.model
        self.ratio = self.x / self.z
        self.D = 1.0 / (self.ratio[0] + self.ratio[1])
        scaled = model.columns * np.sqrt(self.D)
        curvature = scaled @ scaled.T
        if model.quadratic is not None:
            curvature = curvature + model.quadratic
        self.newton = NewtonFactor(curvature, self.pairs)
        self.slope = model.slope(self.w, self.alpha)
        self.slope[: model.n_weights] += self.pairs.force

    def aim(self, target: float, curved: bool, refinements: int) -> tuple[float, float]:
        """The direction to products `target`; returns its longest steps, primal and dual.

        A curved one aims at `target` less the second-order terms dx·dz of the direction before.
        """
        pairs, model = self.pairs, self.model
        row_target = target - self.dx * self.dz if curved else np.full_like(self.x, target)
        ball_target = target - self.ball.dx * self.ball.dz if curved else target
        change = ball_target - pairs.x * pairs.z
        shift = row_target / self.z
        force = self.D * (self.residual + shift[0] - shift[1])
        pull = model.columns @ force - self.slope
        self._direct(pull, change, shift, force)
        for _ in range(refinements):
            pull = pull - self._slope_after()
            self._direct(pull, change, shift, force)
        return (
            min(_longest_step(self.x, self.dx), _longest_step(pairs.x, self.ball.dx)),
            min(_longest_step(self.z, self.dz), _longest_step(pairs.z, self.ball.dz)),
        )

    def _direct(self, pull: Host, change: Host, shift: Host, force: Host) -> None:
        self.dw, self.ball = self.newton.solve(pull, change)
        self.slide = self.model.margins(self.dw)
        d_alpha = force - self.D * self.slide
        self.dz = np.stack([d_alpha, -d_alpha])
        self.dx = shift - self.x - self.ratio * self.dz

    def _slope_after(self) -> Host:
        """What a full step would leave of the slope: zero, but for the errors of the solve."""
        slope = self.slope - self.model.columns @ self.dz[0]
        slope[: self.model.n_weights] += self.pairs.pressure(self.ball.dz)
        return slope if self.model.quadratic is None else slope + self.model.quadratic @ self.dw

    def left(self, primal: float, dual: float) -> float:
        """The sum of products after a step of these lengths."""
        pairs, ball = self.pairs, self.ball
        rows = np.vdot(self.x + primal * self.dx, self.z + dual * self.dz)
        return float(rows + np.vdot(pairs.x + primal * ball.dx, pairs.z + dual * ball.dz))

    def move(self, primal: float, dual: float) -> None:
        """Take the step, with lengths of their own for slacks and multipliers."""
        self.x = self.x + primal * self.dx
        self.z = self.z + dual * self.dz
        self.residual = self.residual - primal * self.slide
        self.w = self.w + primal * self.dw
        self.pairs.move(self.ball, primal, dual)
        self._weigh()

    def _weigh(self) -> None:
        pairs = self.pairs
        self.products = float(np.vdot(self.x, self.z) + np.vdot(pairs.x, pairs.z))
        self.hinges = float(self.model.costs @ self.x[1])


class SmoothedSystem:
    """Hinges rounded to a parabola for |r| < δ, δ the band: their slopes, and who has curvature.

    The slope of a row is ``α_i = c_i · clip(½ + r_i / 2δ, 0, 1)``.

    Parameters
    ----------
    model, w, residual
        As for the `InteriorSystem`.
    band : float
        δ.

    Attributes
    ----------
    n_inside : float
        How many rows are in the band.
    """

    def __init__(self, model: Model, w: Host, residual: Host, band: float) -> None:
        self.model, self.w, self.residuals = model, w, residual
        self.look(band)

    def surround(self, ball: LpBall, place: Spread | PairsState) -> None:
        """Add the pairs of the ball: as they start at w, or as they were left there."""
        self.pairs = BallPairs(ball, self.w[: self.model.n_weights], place)

    @property
    def state(self) -> PairsState:
        """Where the pairs of the ball are."""
        return self.pairs.state

    def steepest(self) -> float:
        """The largest entry of the slope, by size."""
        return float(np.abs(self.slope).max())

    def look(self, band: float) -> None:
        """Smooth with this band."""
        self.band = band
        self.pull, self.n_inside = self._smoothed(self.residuals)
        self.slope = self.model.slope_of(self.w, self.pull)

    def _smoothed(self, r: Host) -> tuple[Host, float]:
        alpha = np.clip(0.5 + r / (2.0 * self.band), 0.0, 1.0) * self.model.costs
        return self.model.columns @ alpha, float(np.count_nonzero(np.abs(r) < self.band))

    def newton(self, product: float, wanted: int) -> tuple[float, float, float, float]:
        """The step to products `product` of the ball.

        Returns the longest lengths of the ball's slacks and multipliers, how much the objective
        falls to first order, and dwᵀH dw, with the curvature by at most about `wanted` rows.
        """
        pairs = self.pairs
        self.slope[: self.model.n_weights] += pairs.force
        curvature = self._curvature(wanted)
        newton = NewtonFactor(curvature.copy(), pairs)
        self.dw, self.ball = newton.solve(-self.slope, product - pairs.x * pairs.z)
        self.slide = self.model.margins(self.dw)
        self.promised = float(self.dw @ curvature @ self.dw)
        return (
            _longest_step(pairs.x, self.ball.dx),
            _longest_step(pairs.z, self.ball.dz),
            -float(self.slope @ self.dw),
            self.promised,
        )

    def _curvature(self, wanted: int) -> Host:
        """``A D Aᵀ`` over the rows in the band, and the curvature that the model has without."""
        model, rows = self.model, np.flatnonzero(np.abs(self.residuals) < self.band)
        stride = max(1, rows.size // wanted)  # a sample tells the curvature
        rows = rows[::stride]
        columns = model.columns.take(rows, axis=1)
        weight = model.costs.take(rows) * (0.5 * stride / self.band)
        matrix = (columns * weight) @ columns.T
        if model.free:  # an intercept with no row in the band has nothing else to hold it
            matrix[-1, -1] += 1e-6 * float(model.costs.sum()) / self.band
        return matrix if model.quadratic is None else matrix + model.quadratic

    def ahead(self, step: float) -> float:
        """By how much the slope along a step of this length overshoots what was promised."""
        self.r_ahead = self.residuals - step * self.slide
        self.pull_ahead, self.inside_ahead = self._smoothed(self.r_ahead)
        return float((self.pull - self.pull_ahead) @ self.dw) - step * self.promised

    def move(self, primal: float, dual: float) -> None:
        """Take the step whose length `ahead` was asked last."""
        self.residuals, self.pull, self.n_inside = self.r_ahead, self.pull_ahead, self.inside_ahead
        self.pairs.move(self.ball, primal, dual)
        self.w = self.w + primal * self.dw
        self.slope = self.model.slope_of(self.w, self.pull)

    def largest_slide(self) -> float:
        """How far a margin moves at most along the last step, at length 1."""
        return float(np.abs(self.slide).max(initial=0.0))

    def stationarity(self) -> float:
        """How far the slope and the ball's multipliers are from balance."""
        R = self.model.n_weights
        free = float(np.abs(self.slope[R:]).max(initial=0.0))
        return max(free, self.pairs.radius * float(np.abs(self.slope[:R] + self.pairs.force).max()))
