r"""Support vector data description, after Tax & Duin (2004).

libsvm solves the dual. Where ``k(x, x)`` is the same for all rows and all are normal, it is the
one-class SVM's, up to constants. Any other case is brought to that form: since
:math:`\sum \beta` is fixed, a linear term :math:`\sum_i \ell_i \beta_i` equals a quadratic one with
the matrix :math:`(\ell_i + \ell_j) / (2 \sum \beta)`.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np

from lpfuse._arrays.blocks import head_of
from lpfuse._arrays.operations import Array, Host, is_blocked, take, to_host
from lpfuse._base import below_rounding
from lpfuse._checks.arguments import check_number
from lpfuse._checks.tables import remember_columns
from lpfuse._saved import saved_as
from lpfuse.detectors._base import KERNEL_WORDS, KernelDetector
from lpfuse.detectors._enclosing_ball import enclosing_ball
from lpfuse.detectors._features import FeatureMap
from lpfuse.detectors._kernels import Expansion, Kernel, Similarities
from lpfuse.detectors._libsvm import libsvm
from lpfuse.detectors._training import TrainingRows
from lpfuse.detectors._unseen import set_offsets
from lpfuse.detectors._working_set import similarities, working_set

# Rows from which a working set beats libsvm on all rows: 1.1 to 4.8 times as fast from 2,000 rows
# on (docs/benchmarks/detectors.md).
MANY = 2000
# Multipliers from which libsvm is faster with the whole matrix than with rows of its own. With 300
# of 1,000 rows it is, 1.2 to 1.4 times (the same page); the line below that is drawn by hand.
MATRIX_FROM = 200
# Parts that are left out in turn for a threshold. Of 300 rows with heavy tails (Student's t, 2
# degrees of freedom), on whose far rows the width hangs, 20 parts give 8.4 % for 10 %, 50 give 9.3.
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
        At most this share of the normal rows lies outside, where no anomalies are known to push
        the ball back: ``C = 1 / (nu · n)``.
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
        When the solver may stop: the tolerance of libsvm; for approximations, its square is the
        largest gap to the optimum as a share of the objective.
    contamination : float in (0, 0.5] or "auto", default="auto"
        Share of unseen rows like the normal ones that the threshold leaves below it, on average.
        "auto": the surface of the ball is the threshold, whatever share of unseen rows that leaves
        outside (15 % with 300 Gaussian rows and ``nu=0.1``).
    approximation : {"auto", None, "nystroem", "fourier"}, default="auto"
        None: exact, by libsvm. The others use explicit features, for the Gaussian kernel and
        ("nystroem") for any other. "auto": exact while an n×n matrix would fit, else "nystroem".
    n_components : int, default=500
        Number of features of the approximation.
    random_state : int, RandomState instance or None, default=None
        Seed of the approximation.
    offset_from : {"unseen", "training"}, default="unseen"
        Rows whose scores set the threshold. "unseen": each is scored by a refit without it; n rows
        can promise a share of 1 / (n + 1), not less. "training": their own scores, fast and
        flattering: for 10 %, 16 % of unseen rows with 300 Gaussian rows, and 34 % with 60.

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
    approximations are solved in their feature space by Newton's method, with a proof of how close
    the ball is to the smallest.

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

    _knows_auto = True

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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the ball from normal rows and, where there are some, known anomalies.

        Parameters
        ----------
        X : array-like, or Dask array or data frame, of shape (n, d)
            Rows. Of rows of Dask a sample is learnt from: 20,000 rows, or 20 a landmark.
        y : array-like, or Dask array or series, of shape (n,), optional
            +1 normal, −1 anomaly. Default: all rows are normal.
        sample_weight : array-like, or Dask array or series, of shape (n,), optional
            How often each row counts: its cost is multiplied by it. Rows of weight zero are left
            out.

        Returns
        -------
        SVDD
            The fitted detector.
        """
        # Not by the base class's fit: warnings point to the caller of this one.
        rows = self._rows(X, y, sample_weight)
        self._fit_rows(rows)
        set_offsets([self], rows)
        remember_columns(self, head_of(X) if is_blocked(X) else X)
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
        return self.dual_coef_ @ to_host(self.support_vectors_)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("nu", self.nu, above=0, at_most=1)
        check_number("tol", self.tol, above=0)
        for name in ("C", "C_negative"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), above=0)

    def _is_by_unseen(self) -> bool:
        return self.contamination != "auto" and super()._is_by_unseen()

    def _fewest_parts(self) -> int:
        return PARTS if self.features_ is None else 0

    def _refitted(self, rows: TrainingRows, kept: float) -> Self:
        alike = copy(self)
        alike.C = None if self.C is None else self.C / kept  # the same share outside
        return super(SVDD, alike)._refitted(rows, kept)

    def _settle_offset(self, rows: TrainingRows, scores: Array | None) -> None:
        if self.contamination == "auto":
            self.offset_ = below_rounding(-self._radius2, self._size_of_terms(rows), rows.X)
        else:
            super()._settle_offset(rows, scores)

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
        """The C of each row, and its side."""
        signs = np.ones(len(rows)) if rows.labels is None else rows.labels
        bounds = np.empty(len(rows))
        for side, cost in ((signs > 0, self.C), (signs < 0, self.C_negative)):
            weights = rows.weights[side]
            if weights.size:
                bounds[side] = weights * (1 / (self.nu * weights.sum()) if cost is None else cost)
        reach = bounds[signs > 0].sum()
        if reach < 1 - 1e-12:  # but for the rounding of a sum
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
        self.support_vectors_ = take(rows.X, support)


def _solve_dual(
    kernel: Kernel, rows: TrainingRows, bounds: Host, signs: Host, tol: float
) -> tuple[Host, float, float]:
    """The ball of rows with the costs `bounds`, +1 inside and −1 outside.

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
    coefficients, vectors = beta[support], take(rows.X, support)
    similarities = to_host(kernel.between(vectors, vectors)) @ coefficients
    center_norm2 = float(coefficients @ similarities)
    surface = (coefficients > 0) & (coefficients < (1 - ON_BOUND) * bounds[support])
    if surface.any():
        # Equal but for the solver's tolerance; the largest leaves none of them outside.
        level = (to_host(kernel.diagonal(vectors)) - 2 * similarities)[surface].max()
    return beta, center_norm2, max(0.0, float(level) + center_norm2)


def _all_outside(kernel: Kernel, X: Array, bounds: Host, signs: Host) -> tuple[Host, float]:
    """The dual has one point, all normal rows at their bound: the centre is their mean."""
    beta = np.where(signs > 0, bounds, 0.0)
    return beta, (to_host(kernel.diagonal(X)) - 2 * similarities(kernel, X, beta, X)).min()


def _one_class_svm(
    kernel: Kernel, rows: TrainingRows, bounds: Host, tol: float
) -> tuple[Host, float]:
    few_take_part = 1 / bounds.max() < MATRIX_FROM  # at least so many have a multiplier
    if kernel.name == "rbf" and not rows.share:
        if len(rows) >= MANY:
            return working_set(kernel, rows.X, bounds, tol, libsvm)
        if few_take_part:
            return libsvm(to_host(rows.X), bounds, tol, kernel="rbf", gamma=kernel.gamma)
    return libsvm(to_host(rows.gram(kernel)), bounds, tol, kernel="precomputed")


def _shifted_one_class_svm(
    kernel: Kernel, rows: TrainingRows, bounds: Host, signs: Host, tol: float
) -> tuple[Host, float]:
    """For any kernel and for anomalies, whose β in [−C, 0] become γ = β + C in [0, C]."""
    Q = to_host(rows.gram(kernel, to_overwrite=True))
    lower = np.where(signs < 0, -bounds, 0.0)
    reach = 1 - lower.sum()
    linear = 2 * Q @ lower - Q.diagonal()
    Q += linear[:, None] / (2 * reach)
    Q += linear[None, :] / (2 * reach)
    # libsvm keeps single precision: a constant, which changes nothing, must not use it up.
    mean = float(Q.mean())
    size = float(Q.diagonal().mean()) - mean or 1.0  # half the mean squared distance
    Q -= mean
    Q /= size
    gamma, rho = libsvm(Q, bounds, tol, reach, kernel="precomputed")
    beta = lower + gamma
    beta[np.abs(beta) <= 1e-12 * bounds] = 0.0  # what adding and subtracting C left of a zero
    return beta, float(linear @ gamma) / reach - 2 * (size * rho + mean * reach)
