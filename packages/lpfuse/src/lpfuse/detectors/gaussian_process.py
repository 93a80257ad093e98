"""The one-class Gaussian process of Kemmler et al. (2013)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import log, pi
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays import operations as ops
from lpfuse._arrays.operations import Array, Host
from lpfuse._files import saved_as
from lpfuse._validation.params import check_choice, check_number
from lpfuse._validation.tables import check_features
from lpfuse.detectors.base import KERNEL_WORDS, KernelDetector
from lpfuse.detectors.kernels import (
    Expansion,
    FeatureMap,
    Kernel,
    Similarities,
    TrainingRows,
    recomputed,
    training_rows,
)

SCORES = ("mean", "variance", "density", "ratio")
# Rows per landmark for which leave-one-out scores are nearly those of new rows: with fewer, all
# rows move landmarks (ROWS_PER_CENTRE). With 4 rows per landmark, one new row in 6 lies below the
# lowest 5 % of these scores; with 20, one in 14.
ROWS_PER_LANDMARK = 20
SMALLEST_MEAN = 1e-12  # the logarithm of a mean needs it to be positive; chosen by hand
AUTO_CONTAMINATION = 0.1  # contamination="auto": the default of the others
# Jitter of the diagonal, relative to its largest entry, tried until the Cholesky factor exists.
# Chosen by hand.
JITTERS = tuple(10.0**k for k in range(-12, -1))


@saved_as("OneClassGP", score_type=SCORES, **KERNEL_WORDS)
class OneClassGP(KernelDetector):
    r"""One-class classification by Gaussian process regression.

    All training rows have the target 1, the prior mean is 0: the further a row is from the
    training rows, the closer its mean falls to 0 and the larger its variance grows. With K the
    kernel matrix of the training rows, :math:`k_*` the similarities of x to them and
    :math:`\sigma^2` the noise,

    .. math:: \mu = k_*^\top (K + \sigma^2 I)^{-1} 1, \qquad
              s^2 = k(x, x) - k_*^\top (K + \sigma^2 I)^{-1} k_* + \sigma^2

    ============ =====================================================
    score_type   high = normal
    ============ =====================================================
    "mean"       ``μ``
    "variance"   ``−s²``
    "density"    ``log N(1; μ, s²) = −½ log(2π s²) − (1 − μ)² / (2 s²)``
    "ratio"      ``log(μ / s)``, with μ at least 1e-12
    ============ =====================================================

    Parameters
    ----------
    score_type : {"mean", "variance", "density", "ratio"}, default="density"
        Which score: docs/adr/0029. All but "mean", which is the paper's, cost n² rather than n
        operations for each scored row.
    noise : float, default=0.01
        The variance σ² of the noise, at least 0.
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
    contamination : float in (0, 0.5] or "auto", default=0.1
        Share of new normal rows below the threshold, on average. "auto": 0.1.
    approximation : {"auto", None, "nystroem"}, default="auto"
        None: exact, with an n×n matrix. "nystroem": explicit features, for any kernel. "auto":
        exact while that matrix fits, else "nystroem"; for rows of Dask always "nystroem".
    n_components : int, default=500
        Number of features of the approximation.
    random_state : int, RandomState instance or None, default=None
        Seed of the approximation.
    offset_from : {"unseen", "training"}, default="unseen"
        Rows whose scores set the threshold. "unseen": each is scored by a refit without it; the
        smallest share of n rows is 1 / (n + 1). "training": in-sample scores, which are fast but
        optimistically biased: for 10 %, 44 % of new rows lie below with 300 Gaussian rows, and 95 %
        with 60.

    Attributes
    ----------
    offset_ : float
        Threshold of the scores.
    jitter_ : float
        Jitter added to the diagonal, beyond the noise, to make the matrix positive definite.
    kernel_ : Kernel
        The kernel, with its width as a number.
    n_features_in_ : int
        Number of features d.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features, when `X` had them.

    Notes
    -----
    A sample weight divides the noise of its row: a row of weight 2 counts as two equal rows.

    With features Φ the model is that of Quiñonero-Candela & Rasmussen (2005) called "deterministic
    training conditional": its variance still grows outside the span of the features. The mean is
    close to 1 wherever rows are dense, including unlabelled anomalies, and is sensitive to the
    approximation.

    References
    ----------
    M. Kemmler, E. Rodner, E.-S. Wacker, J. Denzler, One-class classification with Gaussian
    processes, Pattern Recognition 46 (2013).

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import OneClassGP
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> detector = OneClassGP().fit(X)
    >>> detector.predict([[0.0, 0.0], [6.0, 6.0]])
    array([ 1, -1])
    >>> OneClassGP(score_type="mean").fit(X).score_samples([[6.0, 6.0]]).round(3)
    array([0.])
    """

    _accepts_auto = True
    _needs_only_sums = True

    def __init__(
        self,
        score_type: str = "density",
        noise: float = 0.01,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        contamination: Any = 0.1,
        approximation: str | None = "auto",
        n_components: int = 500,
        random_state: Any = None,
        offset_from: str = "unseen",
    ) -> None:
        self.score_type = score_type
        self.noise = noise
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.contamination = contamination
        self.approximation = approximation
        self.n_components = n_components
        self.random_state = random_state
        self.offset_from = offset_from

    def leave_one_out_scores(self, X: Any, sample_weight: Any = None) -> Array:
        """Return the score of each training row by a fit to the others, in closed form.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows that the detector was fitted on.
        sample_weight : array-like of shape (n,), optional
            The weights of the fit.

        Returns
        -------
        array of shape (n,)
            Leave-one-out scores without n refits; the kernel's width is kept.

        Notes
        -----
        With ``A = (K + σ² I)⁻¹``, the mean is ``1 − (A 1)_i / A_ii`` and the variance ``1 / A_ii``.

        Examples
        --------
        >>> import numpy as np
        >>> from lpfuse import OneClassGP
        >>> X = np.array([[0.0], [0.1], [0.2], [2.0]])
        >>> OneClassGP("mean", gamma=1.0).fit(X).leave_one_out_scores(X).round(2)
        array([0.97, 1.  , 0.99, 0.03])
        """
        check_is_fitted(self)
        if ops.is_blocked(X):
            raise ValueError(
                "leave_one_out_scores needs the rows in memory, got rows of Dask. Pass a part of "
                "them, for instance X[:10_000].compute()."
            )
        rows = training_rows(check_features(X, estimator=self), sample_weight)
        width = self.expansion_.basis.width
        if self.features_ is None and len(rows) != width:
            raise ValueError(
                f"X must be the {width} rows that the detector was fitted on, got {len(rows)}. For "
                "other rows use score_samples."
            )
        held_out = self._leave_one_out(rows)
        if rows.positions is None:
            return held_out
        return ops.put(self.score_samples(X), rows.positions, held_out)  # weight 0: not in the fit

    def leaves_one_out_of(self, n: int) -> bool:
        """Return whether `leave_one_out_scores` of n rows are nearly unbiased.

        Landmarks are means of training rows and are kept: with few rows per landmark, these are
        too close to it.
        """
        return self.approximation != "nystroem" or n >= ROWS_PER_LANDMARK * int(self.n_components)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("score_type", self.score_type, SCORES)
        check_number("noise", self.noise, at_least=0, hint="It is a variance.")

    def _share(self) -> float:
        return AUTO_CONTAMINATION if self.contamination == "auto" else super()._share()

    def _fit_exactly(self, kernel: Kernel, rows: TrainingRows) -> Array | None:
        coefficients, self.jitter_ = self._coefficients(kernel, rows)
        basis, columns = Similarities(kernel, rows.anchors), int(coefficients.shape[1])
        self.expansion_ = Expansion(basis, coefficients, columns)
        # With the noise N on the diagonal (K + N) α = 1, and with A = (K + N)⁻¹ the diagonal of
        # K − K A K is N − N A N: means and variances of these rows need no further product.
        noise = ops.beside(self.noise / rows.weights + self.jitter_, rows.X)
        mean, spread = _targets(rows) - noise * coefficients[:, 0], noise
        if self.score_type != "mean":
            spread = ops.positive_part(noise - noise**2 * self._inverse_diagonal()) + self.noise
        return self._score(mean, spread)

    def _coefficients(self, kernel: Kernel, rows: TrainingRows) -> tuple[Array, float]:
        L, jitter = self._factor(kernel, rows)
        targets = _targets(rows)[:, None]
        if self.score_type == "mean":
            return ops.solve_lower(L, ops.solve_lower(L, targets), transposed=True), jitter
        inverse, xp = ops.invert_lower(L), ops.namespace(L)
        mean = inverse.T @ (inverse @ targets)
        # Column by column in memory, as products with a triangle take it.
        return xp.concat([mean.T, inverse], axis=0).T, jitter

    def saved_state(self) -> tuple[dict[str, Any], int]:
        """Return what files hold, no n×n matrix that the training rows determine, and its size."""
        self.__dict__.pop("_known", None)
        whole = getattr(self, "expansion_", None)
        if whole is None or self.features_ is not None or self.score_type == "mean":
            return dict(vars(self)), 0
        kernel, anchors, n = whole.basis.kernel, whole.basis.anchors, whole.basis.width
        rows = TrainingRows(anchors, None, share=True)
        if not recomputed(
            kernel, anchors, lambda: self._coefficients(kernel, rows)[0], whole.coefficients
        ):
            return dict(vars(self)), 0
        bare = replace(whole, coefficients=np.empty((n, 0)))
        return vars(self) | {"expansion_": bare}, 8 * n**2

    def restored(self, charge: Callable[[int], None]) -> OneClassGP:
        """Compute the coefficients, if a file does not hold them."""
        whole = getattr(self, "expansion_", None)
        if whole is not None and whole.coefficients.shape[1] == 0:
            charge(8 * whole.basis.width**2)
            rows = TrainingRows(whole.basis.anchors, None, share=True)
            with ops.blas_threads_for(len(rows)):
                coefficients = self._coefficients(whole.basis.kernel, rows)[0]
            self.expansion_ = replace(whole, coefficients=coefficients)
        return self

    def _inverse_diagonal(self) -> Array:  # of (K + N)⁻¹, from the factor that a fit keeps
        inverse = self.expansion_.coefficients[:, 1:]
        return ops.namespace(inverse).sum(inverse**2, axis=1)

    def _fit_features(self, features: FeatureMap, rows: TrainingRows) -> Array | None:
        # `leave_one_out_scores` of the same rows, which comes next in a fused fit, takes it over.
        self._known = features, self._posterior(features, rows)
        precision, vectors, target = self._known[1]
        directions = (vectors @ ops.beside(precision * target, vectors))[:, None]
        if self.score_type != "mean":
            # φᵀφ − σ² φᵀ(ΦᵀΦ + σ² I)⁻¹φ: the variance that the training rows explain.
            known = np.sqrt(ops.positive_part(1 - self.noise * precision)) * (precision > 0)
            known = vectors * ops.beside(known, vectors)
            directions = ops.namespace(vectors).concat([directions, known], axis=1)
        self.expansion_, self.jitter_ = features.expansion(directions, rows.X), 0.0
        return None

    def _score_from(self, diagonal: Array, values: Array) -> Array:
        mean = values[:, 0]
        if self.score_type == "mean":
            return mean
        known = ops.namespace(values).sum(values[:, 1:] ** 2, axis=1)
        return self._score(mean, ops.positive_part(diagonal - known) + self.noise)

    def _score(self, mean: Array, variance: Array) -> Array:
        if self.score_type == "mean":
            return mean
        if self.score_type == "variance":
            return -variance
        xp = ops.namespace(mean)
        variance = xp.clip(variance, min=float(xp.finfo(mean.dtype).eps))  # without noise: zero
        if self.score_type == "density":
            return -0.5 * (log(2 * pi) + xp.log(variance) + (1 - mean) ** 2 / variance)
        return xp.log(xp.clip(mean, min=SMALLEST_MEAN)) - 0.5 * xp.log(variance)

    def _factor(self, kernel: Kernel, rows: TrainingRows) -> tuple[Array, float]:
        """Return the Cholesky factor of ``K + σ² diag(1/c)``, with the least jitter needed."""
        noise = self.noise / rows.weights
        largest_entry = ops.largest(kernel.diagonal(rows.X))
        resolution = float(ops.namespace(rows.X).finfo(rows.X.dtype).eps)
        for share in (0.0, *(share for share in JITTERS if share > resolution / 2)):
            jitter = share * largest_entry
            more = ops.beside(noise + jitter, rows.X)
            # No reference to the matrix is kept: only one n×n matrix is held at a time.
            L = ops.cholesky(ops.add_to_diagonal(rows.gram(kernel, to_overwrite=True), more))
            if L is not None:
                return L, jitter
        raise ValueError(
            f"The matrix K + noise·I is not positive definite, even with {jitter:.1g} added to its "
            f"diagonal: kernel={kernel.name!r} is not positive definite here. Use a larger noise "
            f"(now {self.noise:g}) or another kernel."
        )

    def _posterior(self, features: FeatureMap, rows: TrainingRows) -> tuple[Host, Array, Host]:
        """Return inverse eigenvalues and eigenvectors of ``ΦᵀCΦ + σ² I``, and rotated ``ΦᵀC1``."""
        first, second = rows.moments(features)
        values, vectors = ops.eigh(second)
        values = ops.positive_part(values) + self.noise
        # Without noise, directions outside the span of the rows have eigenvalues of rounding only.
        seen = values > 1e-14 * values[-1]
        precision = np.divide(1.0, values, out=np.zeros_like(values), where=seen)
        return precision, vectors, ops.to_host(vectors.T @ first)

    def _leave_one_out(self, rows: TrainingRows) -> Array:
        if self.features_ is None:
            with ops.blas_threads_for(len(rows)):
                return self._score(*self._leave_one_out_exactly(rows))
        return self._score(*self._leave_one_out_of_features(self.features_, rows))

    def _leave_one_out_exactly(self, rows: TrainingRows) -> tuple[Array, Array]:
        residuals = ops.beside(self.expansion_.coefficients[:, 0], rows.X)
        if self.score_type == "mean":  # whose fit keeps no inverse
            inverse = ops.invert_lower(self._factor(self.kernel_, rows)[0])
            diagonal = ops.namespace(inverse).sum(inverse**2, axis=0)
        else:
            diagonal = ops.beside(self._inverse_diagonal(), rows.X)
        own_noise = ops.beside(self.noise / rows.weights + self.jitter_, rows.X)
        variance = ops.positive_part(1 / diagonal - own_noise) + self.noise
        return 1 - residuals / diagonal, variance

    def _leave_one_out_of_features(
        self, features: FeatureMap, rows: TrainingRows
    ) -> tuple[Array, Array]:
        known = self.__dict__.pop("_known", (None, None))
        whole = known[0] is features and not rows.is_weighted
        precision, vectors, target = known[1] if whole else self._posterior(features, rows)
        expansion = features.expansion(vectors, rows.X)
        xp = ops.namespace(rows.X)
        precision, target = ops.beside(precision, rows.X), ops.beside(target, rows.X)

        def finish(diagonal: Array, values: Array) -> Array:
            mean = values @ (precision * target)
            leverage = (values**2) @ precision
            unexplained = ops.positive_part(diagonal - xp.sum(values**2, axis=1))
            return xp.stack([mean, leverage, unexplained], axis=1)

        parts = expansion.map(rows.X, finish)
        mean, leverage, unexplained = parts[:, 0], parts[:, 1], parts[:, 2]
        share = leverage * ops.beside(rows.weights, rows.X)  # of a row in its own mean
        others = xp.clip(1 - share, min=float(xp.finfo(share.dtype).eps))
        variance = unexplained + self.noise * leverage / others + self.noise
        return (mean - share) / others, variance


def _targets(rows: TrainingRows) -> Array:
    """1, and −1 of the anomalies that `lpfuse.paper` can give."""
    return ops.beside(np.ones(len(rows)) if rows.labels is None else rows.labels, rows.X)
