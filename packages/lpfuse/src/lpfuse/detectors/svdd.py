r"""Support vector data description, after Tax & Duin (2004).

libsvm solves the exact dual. Where ``k(x, x)`` is the same for all rows and all are normal, it is
the one-class SVM's, up to constants. Any other case is transformed to that form: since
:math:`\sum \beta` is fixed, a linear term :math:`\sum_i \ell_i \beta_i` equals a quadratic one with
the matrix :math:`(\ell_i + \ell_j) / (2 \sum \beta)`. Approximate features are solved by Newton's
method on a smoothed hinge.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning

from lpfuse._arrays import operations as ops
from lpfuse._arrays.blocks import meta_of
from lpfuse._arrays.operations import Array, Host
from lpfuse._base import logged_once, lower_by_rounding
from lpfuse._files import saved_as
from lpfuse._validation.params import check_number
from lpfuse._validation.tables import record_columns
from lpfuse.detectors.base import KERNEL_WORDS, KernelDetector, set_offsets
from lpfuse.detectors.kernels import Expansion, FeatureMap, Kernel, Similarities, TrainingRows

# --------------------------------------------------------------------------------------------------
# The smallest ball, with slack, around rows of explicit features.
#
# With C_i the bound of row i, y_i = ±1 its side of the ball and κ_i = k(x_i, x_i), the centre a and
# the squared radius ρ + ‖a‖² minimise the convex function
#
#     F(a, ρ) = ‖a‖² + ρ + Σ_i C_i max(0, t_i),    t_i = y_i (v_i − ρ),    v_i = κ_i − 2 φ_iᵀa.
#
# Any β with β_i y_i in [0, C_i] and Σ β_i = 1 bounds it from below. For the β of a hinge that is
# smoothed over a band of width μ, that is β_i = C_i y_i α_i with α_i = t_i / μ cut to [0, 1], and
# for the point g = Σ β_i φ_i, the distance to the optimum is at most
#
#     gap = ‖a − g‖² + Σ_i C_i (max(0, t_i) − α_i t_i).
#
# Newton steps on the smoothed function reduce the first term and a narrower band the second. A step
# takes two passes over the features and one r×r system.


# Chosen by hand.
NARROWER = 0.1  # shrinkage of the band, once it dominates the gap
MOST_STEPS = 200  # of both kinds together
# Relative rounding error: float64 resolves 2e-16, and sums over rows and features lose a few more
# digits.
ROUNDING = 1e-13


@dataclass(frozen=True)
class Ball:
    """A ball, its dual point, and the duality gap."""

    centre: Host  # (r,)
    radius2: float
    beta: Host  # (n,)
    gap: float


def enclosing_ball(
    features: Array,
    kappa: Array,
    bounds: Host,
    signs: Host,
    tol: float,
    max_steps: int = MOST_STEPS,
) -> Ball:
    """Return the smallest ball around the rows of side +1, away from those of side −1.

    Parameters
    ----------
    features : array of shape (n, r)
        The rows φ_i; they are overwritten.
    kappa : array of shape (n,)
        Their ``k(x_i, x_i)``, at least ‖φ_i‖².
    bounds : ndarray of shape (n,)
        The C_i: cost of a row on the wrong side.
    signs : ndarray of shape (n,)
        +1 inside, −1 outside.
    tol : float
        Largest gap, as a share of F.
    max_steps : int
        Steps after which the ball is returned with a `ConvergenceWarning`.
    """
    with ops.one_blas_thread:
        return _Descent(features, kappa, bounds, signs).run(tol, max_steps)


class _Descent:
    """State of the iteration: the point a and v at it, relative to the rows' mean."""

    def __init__(self, features: Array, kappa: Array, bounds: Host, signs: Host) -> None:
        self.features = features
        self.C, self.y = ops.like(bounds, features), ops.like(signs, features)
        inside = bounds * (signs > 0)
        self.mean = self.backward(ops.like(inside / inside.sum(), features))
        whole = ops.as_float64(kappa)
        own = whole - self.squares()  # the part of κ outside the features
        own = own * ops.as_float64(own > ROUNDING * whole)
        self.features -= ops.beside(self.mean, features)
        self.kappa = self.squares() + own
        # The ball is a point where rows are equal up to rounding (1e-14 in distance).
        self.is_point = bool(ops.largest(self.kappa) <= 1e-28 * ops.largest(whole))
        self.a = np.zeros(len(self.mean))
        self.v = self.kappa
        # Σ β = 1 then leaves no choice: every normal row is at its bound.
        self.all_outside = bool(inside.sum() <= 1 + 1e-12)

    def run(self, tol: float, max_steps: int) -> Ball:
        """Take Newton steps, and narrow the band, until the gap is small enough."""
        size = ops.largest(self.kappa)
        if self.all_outside or self.is_point:
            share = ops.positive_part(self.y) * self.C
            return self.ball(ops.smallest(self.v), share / ops.total(share), 0.0)
        band, rho, steps = size, ops.smallest(self.v), 0
        while True:
            rho = self.balance(self.v, band, rho)
            t, alpha = self.hinge(self.v, band, rho)
            alpha = self.balanced(alpha)
            beta = self.C * self.y * alpha
            g = self.backward(beta)
            distance2 = float(np.sum((self.a - g) ** 2))
            cost = ops.dot(self.C, ops.positive_part(t))
            hidden = cost - ops.dot(self.C, alpha * t)
            value = float(self.a @ self.a) + rho + cost
            gap = distance2 + hidden
            enough = max(tol * value, ROUNDING * size)
            if gap <= enough or steps >= max_steps:
                break
            steps += 1
            # A step reduces the first part of the gap, a narrower band the second.
            if distance2 <= NARROWER * hidden:
                self.narrow(t, alpha, NARROWER * band)
                band *= NARROWER
            else:
                self.step(alpha, g, band, rho)
        if gap > enough:
            warnings.warn(
                f"The enclosing ball was not found to tol={tol:g} of its size: after {steps} steps "
                f"the gap is {gap / value:.2g}. Use fewer n_components, or a larger tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        # All rows on the surface, up to the band's width, are inside.
        normal = ops.as_float64((alpha > 0) & (alpha < 1) & (self.y > 0))
        return self.ball(rho + ops.largest(normal * t), beta, gap)

    def ball(self, surface: float, beta: Array, gap: float) -> Ball:
        return Ball(self.mean + self.a, surface + float(self.a @ self.a), ops.to_host(beta), gap)

    def hinge(self, v: Array, band: float, rho: float) -> tuple[Array, Array]:
        t = self.y * (v - rho)
        return t, ops.namespace(t).clip(t / band, 0.0, 1.0)

    def balance(self, v: Array, band: float, guess: float) -> float:
        """Return the ρ with ``Σ β = 1``, by Newton's method safeguarded by bisection."""
        low, high = ops.smallest(v) - band, ops.largest(v) + band
        # Σ β changes by up to ΣC · Δρ / band: the rounding of ρ limits the precision.
        enough = 1e-15 * ops.total(self.C) * (1 + max(abs(low), abs(high)) / band)
        rho = min(max(guess, low), high)
        for _ in range(100):  # bisection alone needs 60 for all digits
            _, alpha = self.hinge(v, band, rho)
            excess = ops.dot(self.C * self.y, alpha) - 1.0
            if abs(excess) <= enough:
                break
            low, high = (rho, high) if excess > 0 else (low, rho)
            slope = ops.total(self.C * ops.as_float64((alpha > 0) & (alpha < 1))) / band
            proposal = rho + excess / slope if slope > 0 else np.inf
            rho = proposal if low < proposal < high else (low + high) / 2
        return rho

    def balanced(self, alpha: Array) -> Array:
        """Return α with ``Σ β = 1``, by distributing the rounding error over rows in the band."""
        excess = ops.dot(self.C * self.y, alpha) - 1.0
        if excess == 0.0:
            return alpha
        falling = ops.as_float64(self.y * excess > 0)  # rows whose α decreases
        room = self.C * (falling * alpha + (1 - falling) * (1 - alpha))
        in_band = ops.as_float64((alpha > 0) & (alpha < 1))
        if ops.dot(room, in_band) < 2 * abs(excess):
            in_band = in_band * 0 + 1
        share = abs(excess) / ops.dot(room, in_band) * in_band
        return alpha + share * ((1 - falling) - alpha)

    def step(self, alpha: Array, g: Host, band: float, rho: float) -> None:
        """Take a Newton step in a, with a line search on the smoothed function and ρ optimal."""
        gradient = 2 * (self.a - g)
        curvature, _ = self.curvature(_between(alpha), band)
        direction = -_solve(curvature, gradient)
        change = -2 * self.forward(direction)

        def slope_at(length: float) -> float:
            v = self.v + length * change
            _, alpha = self.hinge(v, band, self.balance(v, band, rho))
            ahead = 2 * float((self.a + length * direction) @ direction)
            return ahead + ops.dot(self.C * self.y * alpha, change)

        length = _first_flat(slope_at, float(gradient @ direction))
        self.a = self.a + length * direction
        self.v = self.v + length * change

    def narrow(self, t: Array, alpha: Array, band: float) -> None:
        """Move to where the rows in the band keep their α in a narrower one."""
        inside = _between(alpha)
        kept = alpha + 0.0
        kept = ops.put(kept, inside, ops.take(t, inside) / band)  # α without clipping
        beta = self.C * self.y * kept
        curvature, mean = self.curvature(inside, band)
        gradient = 2 * (self.a - self.backward(beta)) - 2 * mean * (1 - ops.total(beta))
        direction = -_solve(curvature, gradient)
        self.a = self.a + direction
        self.v = self.v - 2 * self.forward(direction)

    def curvature(self, inside: Array, band: float) -> tuple[Array, Host]:
        """Return ``2I + (4/μ) Σ C_i (φ_i − φ̄)(φ_i − φ̄)ᵀ`` over rows in the band, and their mean."""
        r, xp = len(self.a), ops.namespace(self.features)
        if inside.shape[0] == 0:
            return ops.like(2 * np.eye(r), self.features), np.zeros(r)

        def moments(block: slice) -> Array:
            some = ops.as_float64(ops.take(self.features, inside[block]))
            some = xp.concat([some, xp.ones_like(some[:, :1])], axis=1)
            return some.T @ (ops.take(self.C, inside[block])[:, None] * some)

        second = ops.sum_row_blocks(moments, inside, r)
        weight = second[-1, -1]
        mean = second[-1, :-1] / weight
        matrix = 4 / band * (second[:-1, :-1] - weight * (mean[:, None] * mean[None, :]))
        # With a very narrow band the 2 would vanish: the ridge keeps the matrix regular.
        return ops.add_to_diagonal(
            matrix, 2 + 1e-15 * ops.total(ops.diagonal_of(matrix))
        ), ops.to_host(mean)

    def squares(self) -> Array:
        """``‖φ_i‖²`` for all rows."""

        def work(block: slice) -> Array:
            some = ops.as_float64(self.features[block, :])
            return ops.namespace(some).sum(some**2, axis=1)

        return ops.concatenate(ops.map_row_blocks(work, self.features))

    def forward(self, a: Host) -> Array:
        """``φ_iᵀ a`` for all rows."""
        direction = ops.beside(a, self.features)

        def work(block: slice) -> Array:
            return ops.as_float64(self.features[block, :] @ direction)

        return ops.concatenate(ops.map_row_blocks(work, self.features))

    def backward(self, beta: Array) -> Host:
        """``Σ β_i φ_i``."""
        factors = ops.beside(beta, self.features)

        def work(block: slice) -> Host:
            return ops.to_host(factors[block] @ self.features[block, :])

        return np.sum(ops.map_row_blocks(work, self.features), axis=0)


def _solve(curvature: Array, gradient: Host) -> Host:
    return ops.to_host(ops.solve_positive(curvature, ops.like(gradient, curvature)))


def _between(alpha: Array) -> Array:
    """Return positions of the rows inside the band."""
    return ops.nonzero((alpha > 0) & (alpha < 1))


def _first_flat(slope_at: Callable[[float], float], start: float) -> float:
    """Return a step length with a small slope; 1 where that is enough.

    Regula falsi on the slope, which increases along the step, since the function is convex. A full
    Newton step may leave half of the slope: near the optimum it is accurate. The shares 0.5, 0.05
    and 0.95 are chosen by hand.
    """
    slope = slope_at(1.0)
    if abs(slope) <= 0.5 * abs(start) or slope < 0:
        return 1.0
    low, high, slope_low, slope_high = 0.0, 1.0, start, slope
    length = 1.0
    while abs(slope) > 0.05 * abs(start) and high - low > 1e-14:
        share = slope_low / (slope_low - slope_high)
        length = low + (high - low) * min(max(share, 0.05), 0.95)
        slope = slope_at(length)
        if slope < 0:
            low, slope_low = length, slope
        else:
            high, slope_high = length, slope
    return length


# --------------------------------------------------------------------------------------------------
# The exact dual by libsvm; a working set for many rows, of which few are support vectors.


def libsvm(
    data: Host, bounds: Host, tol: float, reach: float = 1.0, **parameters: Any
) -> tuple[Host, float]:
    """Minimise ``αᵀQα`` over 0 ≤ α_i ≤ C_i and Σ α = `reach`; return α and the offset ρ.

    libsvm takes the bounds relative to the largest, and the sum relative to theirs.
    """
    from sklearn.svm import OneClassSVM

    machine = OneClassSVM(nu=min(1.0, reach / bounds.sum()), tol=tol, **parameters)
    weighted = bounds.min() < bounds.max()
    with config_context(assume_finite=True, skip_parameter_validation=True):
        machine.fit(data, sample_weight=bounds / bounds.max() if weighted else None)
    coefficients = machine.dual_coef_.ravel()
    scale = reach / coefficients.sum()
    solution = np.zeros(len(data))
    solution[machine.support_] = coefficients * scale
    return solution, float(-machine.intercept_[0]) * scale


Solver = Callable[..., tuple[Host, float]]
FEW = 250  # least number of rows of the pilot; chosen by hand


def working_set(
    kernel: Kernel, X: Array, bounds: Host, tol: float, solve: Solver, few: int = FEW
) -> tuple[Host, float]:
    """Return the multipliers of all rows, and ρ, from solutions on a working set.

    Rows inside the ball have multiplier zero. The working set starts with rows that are likely to
    be outside or on the surface, and grows by the rows outside the current ball; without any, the
    solution is that of all rows, up to the solver's tolerance.

    Parameters
    ----------
    kernel : Kernel
        A Gaussian kernel.
    X : array of shape (n, d)
        All rows.
    bounds : ndarray of shape (n,)
        The C_i.
    tol : float
        The tolerance of `solve`.
    solve : callable
        ``solve(data, bounds, tol, **parameters)`` returns multipliers and ρ for a kernel matrix
        (``kernel="precomputed"``) or for rows.
    few : int
        Least number of rows of the pilot.
    """
    chosen = _likely_outside(kernel, X, bounds, tol, solve, few)
    tolerance = tol * bounds.max()  # libsvm's, for coefficients that sum to one
    while True:
        part = ops.take(X, chosen)
        # Most of these rows are support vectors, so their matrix is computed once.
        beta, rho = solve(ops.to_host(kernel.gram(part)), bounds[chosen], tol, kernel="precomputed")
        support = np.flatnonzero(beta)
        near = similarities(kernel, ops.take(part, support), beta[support], X)
        outside = near < rho - tolerance
        outside[chosen] = False
        if not outside.any():
            solution = np.zeros(X.shape[0])
            solution[chosen] = beta
            return solution, rho
        # The worst first: the new ball may include the others.
        worst = np.argsort(np.where(outside, near, np.inf))[: len(chosen) // 2]
        chosen = np.union1d(chosen, worst[outside[worst]])


def _likely_outside(
    kernel: Kernel, X: Array, bounds: Host, tol: float, solve: Solver, few: int
) -> NDArray[np.intp]:
    """Return positions of rows that are likely outside, by the ball of evenly spaced rows."""
    n = X.shape[0]
    n_pilot = max(few, n // 10)
    chosen = np.linspace(0, n - 1, n_pilot).astype(int)
    pilot, costs = ops.take(X, chosen), bounds[chosen] * (bounds.sum() / bounds[chosen].sum())
    beta, _ = solve(ops.to_host(pilot), costs, tol, kernel="rbf", gamma=kernel.gamma)
    if np.count_nonzero(beta) > n_pilot / 2:  # so narrow a kernel leaves hardly any row inside
        return np.arange(n)
    order = np.argsort(similarities(kernel, pilot, beta, X))
    # Rows outside have multipliers at their bounds, which sum to at most 1: bounds that sum to 1.4
    # allow for errors of the pilot. Chosen by hand.
    count = int(np.searchsorted(np.cumsum(bounds[order]), 1.4)) + few // 2
    return np.sort(order[:count])


def similarities(kernel: Kernel, anchors: Array, coefficients: Host, X: Array) -> Host:
    """``Σ_j k(x, z_j) c_j`` for all rows x of X."""
    expansion = Expansion(Similarities(kernel, anchors), ops.beside(coefficients[:, None], X), 1)
    return ops.to_host(expansion.map(X, lambda _, values: values[:, 0]))


# --------------------------------------------------------------------------------------------------
# The detector.

# Rows from which a working set is faster than libsvm on all rows: 1.1 to 4.8 times from 2,000 rows
# on (docs/benchmarks/detectors.md).
MANY = 2000
# Support vectors from which libsvm is faster with the whole matrix than with its own rows: with 300
# of 1,000 rows 1.2 to 1.4 times (the same page); the threshold is chosen by hand.
MATRIX_FROM = 200
# Held-out parts for a threshold. For 300 rows with heavy tails (Student's t, 2 degrees of freedom),
# whose outliers determine the width, 20 parts give 8.4 % for 10 %, 50 give 9.3.
PARTS = 50
ON_BOUND = 1e-9  # a multiplier this close to its bound, as a share, is on it; chosen by hand


@saved_as("SVDD", **KERNEL_WORDS)
class SVDD(KernelDetector):
    r"""The smallest ball, in the kernel's feature space, around the normal rows.

    Slack lets rows stay outside at a cost C each. The ball's dual is

    .. math:: \max_\alpha \; \sum_i \alpha_i k_{ii} - \sum_{ij} \alpha_i \alpha_j k_{ij}
              \quad \text{subject to} \quad \sum_i \alpha_i = 1, \; 0 \le \alpha_i \le C

    its centre is :math:`a = \sum_i \alpha_i \varphi(x_i)`, and the score is minus the squared
    distance to it, :math:`-\|\varphi(x) - a\|^2
    = -\bigl(k(x, x) - 2 \sum_i \alpha_i k(x_i, x) + \|a\|^2\bigr)`.
    Known anomalies, if there are any, are kept outside at a cost of their own: they enter the sums
    with a negative sign, and with :math:`0 \le \alpha_i \le C_\text{negative}`.

    Parameters
    ----------
    nu : float in (0, 1], default=0.1
        Largest share of the normal rows outside, without labelled anomalies:
        ``C = 1 / (nu · n)``.
    C : float, optional
        The cost of a normal row outside, instead of `nu`; at least ``1 / n``.
    C_negative : float, optional
        The cost of a known anomaly inside. Default: ``1 / (nu · number of anomalies)``.
    kernel : str or callable, default="rbf"
        A kernel of :mod:`sklearn.metrics.pairwise`, or a function of two rows.
    gamma : float, "scale", "narrow" or "median", default="scale"
        Width of the kernel, as in ``exp(−γ‖x − x′‖²)``. "scale": ``1 / (d · Var X)``, as in
        scikit-learn; "narrow": three times that, which ranks rows better on most data; "median":
        ``1 / (2 m)``, m the median squared distance of two rows, however they weigh. For a
        width σ use :func:`lpfuse.detectors.gamma_from_sigma`.
    degree, coef0 : float, default=3 and 1
        Of the polynomial and sigmoid kernels.
    kernel_params : dict, optional
        Further arguments of a callable kernel.
    tol : float, default=1e-3
        The tolerance of libsvm; for approximations, its square is the largest relative duality
        gap.
    contamination : float in (0, 0.5] or "auto", default="auto"
        Share of new normal rows below the threshold, on average. "auto": the surface of the ball
        is the threshold, whatever the share of new rows outside (15 % with 300 Gaussian rows and
        ``nu=0.1``).
    approximation : {"auto", None, "nystroem"}, default="auto"
        None: exact, by libsvm. "nystroem": explicit features, for any kernel. "auto": exact while
        an n×n matrix would fit, else "nystroem".
    n_components : int, default=500
        Number of features of the approximation.
    random_state : int, RandomState instance or None, default=None
        Seed of the approximation.
    offset_from : {"unseen", "training"}, default="unseen"
        Rows whose scores set the threshold. "unseen": each is scored by a refit without it; the
        smallest share of n rows is 1 / (n + 1). "training": in-sample scores, which are fast but
        optimistically biased: for 10 %, 16 % of new rows lie below with 300 Gaussian rows, and 34 %
        with 60.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Positions, in the training rows, of the support vectors.
    support_vectors_ : array of shape (n_support, d)
        The support vectors.
    dual_coef_ : ndarray of shape (n_support,)
        Their α, negative for anomalies; they sum to 1.
    boundary_ : ndarray
        Positions of the support vectors on the surface of the ball (0 < α < C).
    radius_ : float
        Radius of the ball.
    center_ : ndarray of shape (d,)
        Centre of the ball in the space of the data; with the linear kernel only.
    center_norm2_ : float
        Squared distance of the centre from the origin of the feature space.
    offset_ : float
        Threshold of the scores: ``−radius_²`` with ``contamination="auto"``.
    kernel_ : Kernel
        The kernel, with its width as a number.
    n_features_in_ : int
        Number of features d.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features, when `X` had them.

    Notes
    -----
    libsvm solves the dual, also for kernels whose ``k(x, x)`` varies and with anomalies. The
    approximations are solved in their feature space by Newton's method, with a bound of the gap to
    the smallest ball.

    References
    ----------
    D. M. J. Tax, R. P. W. Duin, Support vector data description, Machine Learning 54 (2004).

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import SVDD
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> detector = SVDD(nu=0.05).fit(X)
    >>> detector.predict([[0.0, 0.0], [4.0, 4.0]])
    array([ 1, -1])
    >>> bool((detector.predict(X) == -1).mean() <= 0.05)
    True
    """

    _accepts_auto = True

    def __init__(
        self,
        nu: float = 0.1,
        C: float | None = None,
        C_negative: float | None = None,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        tol: float = 1e-3,
        contamination: Any = "auto",
        approximation: str | None = "auto",
        n_components: int = 500,
        random_state: Any = None,
        offset_from: str = "unseen",
    ) -> None:
        self.nu = nu
        self.C = C
        self.C_negative = C_negative
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.tol = tol
        self.contamination = contamination
        self.approximation = approximation
        self.n_components = n_components
        self.random_state = random_state
        self.offset_from = offset_from

    @logged_once
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the ball from normal rows and, where there are some, known anomalies.

        Parameters
        ----------
        X : array-like, or Dask array or data frame, of shape (n, d)
            Rows. Of Dask rows a sample is used: 20,000 rows, or 20 per landmark.
        y : array-like, or Dask array or series, of shape (n,), optional
            +1 normal, −1 anomaly. Default: all rows are normal.
        sample_weight : array-like, or Dask array or series, of shape (n,), optional
            Factors of the rows' costs. Rows of weight zero are left out.

        Returns
        -------
        SVDD
            The fitted detector.
        """
        # Not `super().fit`: the stack level of warnings would be wrong.
        rows = self._rows(X, y, sample_weight)
        self._fit_rows(rows)
        set_offsets([self], rows)
        record_columns(self, meta_of(X) if ops.is_blocked(X) else X)
        return self

    @property
    def radius_(self) -> float:
        """Radius of the ball."""
        return float(np.sqrt(self._radius2))

    @property
    def center_(self) -> Host:
        """Centre of the ball in the space of the data; with the linear kernel only."""
        if self.kernel_.name != "linear":
            raise AttributeError(
                "center_ exists for kernel='linear' only: with another kernel the centre lies in "
                "the kernel's feature space. Its distance to rows is -score_samples(X)."
            )
        return self.dual_coef_ @ ops.to_host(self.support_vectors_)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("nu", self.nu, above=0, at_most=1)
        check_number("tol", self.tol, above=0)
        for name in ("C", "C_negative"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), above=0)

    def _uses_held_out_rows(self) -> bool:
        return self.contamination != "auto" and super()._uses_held_out_rows()

    def _min_parts(self) -> int:
        return PARTS if self.features_ is None else 0

    def _refit(self, rows: TrainingRows, kept: float) -> Self:
        alike = copy(self)
        alike.C = None if self.C is None else self.C / kept  # the same share outside
        return super(SVDD, alike)._refit(rows, kept)

    def _set_training_offset(self, rows: TrainingRows, scores: Array | None) -> None:
        if self.contamination == "auto":
            self.offset_ = lower_by_rounding(-self._radius2, self._term_scale(rows), rows.X)
        else:
            super()._set_training_offset(rows, scores)

    def _fit_exactly(self, kernel: Kernel, rows: TrainingRows) -> Array | None:
        bounds, signs = self._bounds(rows)
        beta, self.center_norm2_, self._radius2 = _solve_dual(kernel, rows, bounds, signs, self.tol)
        self._keep_support(rows, beta, bounds)
        basis = Similarities(kernel, self.support_vectors_)
        self.expansion_ = Expansion(basis, self.dual_coef_[:, None], 1)
        return None

    def _fit_features(self, features: FeatureMap, rows: TrainingRows) -> Array | None:
        bounds, signs = self._bounds(rows)
        kappa = features.basis.kernel.diagonal(rows.X)
        ball = enclosing_ball(features.of(rows.X), kappa, bounds, signs, self.tol**2)
        self._keep_support(rows, ball.beta, bounds)
        self.center_norm2_, self._radius2 = float(ball.centre @ ball.centre), ball.radius2
        self.expansion_ = features.expansion(ball.centre[:, None], rows.X)
        return None

    def _score_from(self, diagonal: Array, values: Array) -> Array:
        return 2 * values[:, 0] - diagonal - self.center_norm2_

    def _bounds(self, rows: TrainingRows) -> tuple[Host, Host]:
        """Return the cost bound and the side of each row."""
        signs = np.ones(len(rows)) if rows.labels is None else rows.labels
        bounds = np.empty(len(rows))
        for side, cost in ((signs > 0, self.C), (signs < 0, self.C_negative)):
            weights = rows.weights[side]
            if weights.size:
                bounds[side] = weights * (1 / (self.nu * weights.sum()) if cost is None else cost)
        reach = bounds[signs > 0].sum()
        if reach < 1 - 1e-12:  # up to rounding
            raise ValueError(
                f"C={self.C:g} is too small: the costs of the normal rows must sum to 1 or more, "
                f"got {reach:.3g}. Use C of at least {self.C / reach:.3g}, or nu instead."
            )
        return bounds, signs

    def _keep_support(self, rows: TrainingRows, beta: Host, bounds: Host) -> None:
        support = np.flatnonzero(beta)
        free = np.abs(beta[support]) < (1 - ON_BOUND) * bounds[support]
        positions = support if rows.positions is None else rows.positions[support]
        self.support_, self.boundary_ = positions, positions[free]
        self.dual_coef_ = beta[support]
        self.support_vectors_ = ops.take(rows.X, support)


def _solve_dual(
    kernel: Kernel, rows: TrainingRows, bounds: Host, signs: Host, tol: float
) -> tuple[Host, float, float]:
    """Solve the dual for rows inside (+1) and outside (−1) the ball.

    Returns the multipliers β = ±α, ‖a‖² of the centre, and the squared radius.
    """
    if bounds[signs > 0].sum() <= 1 + 1e-12:
        beta, level = _all_outside(kernel, rows.X, bounds, signs)
    elif kernel.has_unit_diagonal and rows.labels is None:
        beta, rho = _one_class_svm(kernel, rows, bounds, tol)
        level = 1 - 2 * rho
    else:
        beta, level = _shifted_one_class_svm(kernel, rows, bounds, signs, tol)
    support = np.flatnonzero(beta)
    coefficients, vectors = beta[support], ops.take(rows.X, support)
    similarities = ops.to_host(kernel.between(vectors, vectors)) @ coefficients
    center_norm2 = float(coefficients @ similarities)
    surface = (coefficients > 0) & (coefficients < (1 - ON_BOUND) * bounds[support])
    if surface.any():
        # Equal up to the solver's tolerance; the largest leaves none of them outside.
        level = (ops.to_host(kernel.diagonal(vectors)) - 2 * similarities)[surface].max()
    return beta, center_norm2, max(0.0, float(level) + center_norm2)


def _all_outside(kernel: Kernel, X: Array, bounds: Host, signs: Host) -> tuple[Host, float]:
    """Return the only dual point, all normal rows at their bound: the centre is their mean."""
    beta = np.where(signs > 0, bounds, 0.0)
    return beta, (ops.to_host(kernel.diagonal(X)) - 2 * similarities(kernel, X, beta, X)).min()


def _one_class_svm(
    kernel: Kernel, rows: TrainingRows, bounds: Host, tol: float
) -> tuple[Host, float]:
    few_take_part = 1 / bounds.max() < MATRIX_FROM  # lower bound of the support vectors
    if kernel.name == "rbf" and not rows.share:
        if len(rows) >= MANY:
            return working_set(kernel, rows.X, bounds, tol, libsvm)
        if few_take_part:
            return libsvm(ops.to_host(rows.X), bounds, tol, kernel="rbf", gamma=kernel.gamma)
    return libsvm(ops.to_host(rows.gram(kernel)), bounds, tol, kernel="precomputed")


def _shifted_one_class_svm(
    kernel: Kernel, rows: TrainingRows, bounds: Host, signs: Host, tol: float
) -> tuple[Host, float]:
    """Solve for any kernel and with anomalies, whose β in [−C, 0] become γ = β + C in [0, C]."""
    Q = ops.to_host(rows.gram(kernel, to_overwrite=True))
    lower = np.where(signs < 0, -bounds, 0.0)
    reach = 1 - lower.sum()
    linear = 2 * Q @ lower - Q.diagonal()
    Q += linear[:, None] / (2 * reach)
    Q += linear[None, :] / (2 * reach)
    # libsvm works in single precision: subtract a constant that does not change the solution.
    mean = float(Q.mean())
    size = float(Q.diagonal().mean()) - mean or 1.0  # half the mean squared distance
    Q -= mean
    Q /= size
    gamma, rho = libsvm(Q, bounds, tol, reach, kernel="precomputed")
    beta = lower + gamma
    beta[np.abs(beta) <= 1e-12 * bounds] = 0.0  # rounding of adding and subtracting C
    return beta, float(linear @ gamma) / reach - 2 * (size * rho + mean * reach)
