"""Detector by the Mahalanobis distance from the most concentrated rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.special import ndtri

from lpfuse._arrays.operations import Host, column_ranks, one_blas_thread
from lpfuse._files import saved_as
from lpfuse._validation.params import check_number
from lpfuse.detectors.base import HeldOutDetector

# Concentration steps at most: they nearly always end by themselves after 5 to 15.
STEPS = 20
# Added to the variances, in units of their mean, for columns that depend on each other.
RIDGE = 1e-6
# The least that is left of a row's own variance when it is left out.
LEAST_LEFT = 1e-9


@saved_as("RobustCovarianceDetector")
class RobustCovarianceDetector(HeldOutDetector):
    r"""Mahalanobis distance from the most concentrated rows, which hidden anomalies hardly move.

    With mean :math:`\mu` and covariance :math:`C` of the share `support_fraction` of the training
    rows that is nearest by this very distance, the score is

    .. math:: -\log\bigl(1 + (x - \mu)^\top C^{-1} (x - \mu)\bigr)

    Parameters
    ----------
    support_fraction : float in [0.5, 1], default=0.55
        Share of the rows that set mean and covariance. Up to 1 less this share of the rows may be
        anomalies, wherever they lie.
    contamination : float in (0, 0.5], default=0.1
        Share of new normal rows below the threshold, by leave-one-out scores.

    Attributes
    ----------
    location_ : ndarray of shape (d,)
        The mean.
    whitening_ : ndarray of shape (d, d)
        Maps centred rows to rows whose squared length is the squared distance.
    support_ : ndarray of shape (h,)
        Positions of the training rows that set both.
    n_samples_ : int
        Number of training rows.
    held_out_scores_ : ndarray of shape (n,)
        Their leave-one-out scores.
    offset_ : float
        Threshold of the scores.
    n_features_in_ : int
        Number of features d.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features, when `X` had them.

    Notes
    -----
    Concentration steps (Rousseeuw and Van Driessen 1999) start, without a random draw, from the
    rows most central in normal scores, column by column; FastMCD of
    :class:`sklearn.covariance.MinCovDet` starts from 500 random subsets instead and takes about a
    hundred times as long. Leave-one-out scores are exact for a support that stays.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import RobustCovarianceDetector
    >>> rng = np.random.default_rng(0)
    >>> X = np.r_[rng.normal(size=(90, 2)), rng.normal(8, 0.1, size=(10, 2))]  # a hidden group
    >>> detector = RobustCovarianceDetector().fit(X)
    >>> detector.predict([[0.0, 0.0], [8.0, 8.0]])
    array([ 1, -1])
    """

    location_: Host
    whitening_: Host
    support_: NDArray[np.int64]
    relative_work = 0.5

    def __init__(self, support_fraction: float = 0.55, contamination: float = 0.1) -> None:
        self.support_fraction = support_fraction
        self.contamination = contamination

    def _check_parameters(self) -> None:
        check_number("support_fraction", self.support_fraction, at_least=0.5, at_most=1)

    def _learn(self, X: Host, rng: np.random.RandomState) -> Host:
        n, d = X.shape
        h = min(n, max(int(self.support_fraction * n), d + 2))
        with one_blas_thread, np.errstate(over="ignore", invalid="ignore"):
            normal = ndtri(column_ranks(X) / (n + 1))
            self._set_moments(normal, np.arange(n))
            support, former = self._nearest(normal, h), np.empty(0)
            for _ in range(STEPS):
                if np.array_equal(support, former):
                    break
                self._set_moments(X, support)
                former, support = support, self._nearest(X, h)
            self.support_ = former.astype(np.int64)
            return self._leave_one_out(X, np.arange(n))

    def _set_moments(self, X: Host, rows: NDArray[Any]) -> None:
        """Set mean and covariance to those of some rows."""
        self.location_ = X[rows].mean(axis=0)
        centred = X[rows] - self.location_
        covariance = centred.T @ centred / max(len(rows) - 1, 1)
        d = len(covariance)
        ridge = RIDGE * np.trace(covariance) / d or 1.0
        while True:  # a covariance of huge and tiny variances takes a larger ridge
            try:
                lower = cholesky(covariance + ridge * np.eye(d), lower=True)
                break
            except LinAlgError:
                ridge *= 100.0
        self.whitening_ = solve_triangular(lower, np.eye(d), lower=True).T

    def _squares(self, X: Host) -> Host:
        white = (X - self.location_) @ self.whitening_
        found: Host = np.einsum("ij,ij->i", white, white)
        return found

    def _nearest(self, X: Host, h: int) -> NDArray[Any]:
        return np.sort(np.argpartition(self._squares(X), h - 1)[:h])

    def _score(self, X: Host) -> Host:
        with one_blas_thread, np.errstate(over="ignore", invalid="ignore"):
            return -np.log1p(self._squares(X))

    def _leave_one_out(self, X: Host, index: NDArray[np.int64]) -> Host:
        h, squares = len(self.support_), self._squares(X)
        inside = np.isin(index, self.support_)
        if h > 2:
            # Without row i of the support the mean moves by (x − μ)/(h − 1), and the sum of outer
            # products loses h/(h − 1) (x − μ)(x − μ)ᵀ: the formula of Sherman and Morrison.
            grown = h / (h - 1)
            own = squares[inside] / (h - 1)
            left = np.maximum(1.0 - grown * own, LEAST_LEFT)
            squares[inside] = (h - 2) * grown**2 * own / left
        return -np.log1p(squares)
