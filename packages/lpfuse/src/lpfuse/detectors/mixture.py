"""A Gaussian mixture as a detector: its density, or the distance to its nearest component."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.mixture import GaussianMixture
from sklearn.utils import check_random_state

from lpfuse._arrays.blocks import head_of
from lpfuse._arrays.linalg import blas_threads_for
from lpfuse._arrays.operations import (
    Array,
    Host,
    beside,
    concatenate,
    is_blocked,
    map_row_blocks,
    namespace,
    on_accelerator,
    to_host,
)
from lpfuse._arrays.threads import one_blas_thread
from lpfuse._checks.arguments import check_choice, check_count, check_number
from lpfuse._checks.tables import remember_columns
from lpfuse._saved import saved_as
from lpfuse.detectors._mixture_em import fit_on_device
from lpfuse.detectors._sampling import sampled_rows
from lpfuse.detectors._training import TrainingRows, training_rows
from lpfuse.detectors._unseen import OFFSET_FROM, RefittedDetector, set_offsets

SCORES = ("mahalanobis", "log_likelihood")
COVARIANCES = ("full", "tied", "diag", "spherical")


@saved_as("GMMDetector", score_type=SCORES, covariance_type=COVARIANCES, offset_from=OFFSET_FROM)
class GMMDetector(RefittedDetector):
    r"""Density of a Gaussian mixture, or distance to its nearest component.

    With :math:`\pi_k`, :math:`\mu_k` and :math:`\Sigma_k` the weights, means and covariances of the
    components, the scores "log_likelihood" and "mahalanobis" are

    .. math:: \log \sum_k \pi_k \, N(x; \mu_k, \Sigma_k), \qquad
              -\min_k \sqrt{(x - \mu_k)^\top \Sigma_k^{-1} (x - \mu_k)}

    Parameters
    ----------
    n_components : int, default=3
        Number of components; fewer where there are fewer different rows.
    score_type : {"mahalanobis", "log_likelihood"}, default="log_likelihood"
        Which score. "mahalanobis" is the paper's: level on clean rows, but a wide component around
        anomalies that nobody has found makes these look normal (``docs/adr/0029``).
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        Shape of the components, as in :class:`sklearn.mixture.GaussianMixture`.
    reg_covar : float, default=0.01
        Added to the variances; choose it to the scale of the features (1 where standardised).
    contamination : float in (0, 0.5], default=0.1
        Share of unseen rows like the training rows that the threshold leaves below it, on average.
    n_init : int, default=1
        Number of starts, of which the likeliest mixture is kept.
    max_iter : int, default=200
        Most steps of the EM algorithm.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts.
    offset_from : {"unseen", "training"}, default="unseen"
        Rows whose scores set the threshold. "unseen": each is scored by a refit without it; n rows
        can promise a share of 1 / (n + 1), not less. "training": their own scores, fast and
        flattering: for 10 %, 14 % of unseen rows with 300 Gaussian rows, and 32 % with 60.

    Attributes
    ----------
    mixture_ : GaussianMixture
        The fitted mixture of scikit-learn.
    n_iter_ : int
        Number of steps of the EM algorithm.
    offset_ : float
        Threshold of the scores.
    n_features_in_ : int
        Number of features d.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features, when `X` had them.

    Notes
    -----
    There are no sample weights: scikit-learn's EM algorithm has none. Rows on a GPU are learnt from
    there, by the same steps in float64 from means of a sample; other rows by scikit-learn, on the
    host. Scoring stays in the library, and on the device, of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import GMMDetector
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(-5, 1, size=(100, 2)), rng.normal(5, 1, size=(100, 2))])
    >>> detector = GMMDetector(2, score_type="mahalanobis", random_state=0).fit(X)
    >>> detector.score_samples([[5.0, 5.0], [0.0, 0.0]]).round(1)
    array([-0.1, -6.8])
    """

    mixture_: GaussianMixture

    def __init__(
        self,
        n_components: int = 3,
        score_type: str = "log_likelihood",
        covariance_type: str = "full",
        reg_covar: float = 0.01,
        contamination: float = 0.1,
        n_init: int = 1,
        max_iter: int = 200,
        random_state: Any = None,
        offset_from: str = "unseen",
    ) -> None:
        self.n_components = n_components
        self.score_type = score_type
        self.covariance_type = covariance_type
        self.reg_covar = reg_covar
        self.contamination = contamination
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.offset_from = offset_from

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the mixture from normal rows.

        Parameters
        ----------
        X : array-like, or Dask array or data frame, of shape (n, d)
            Normal rows. Of rows of Dask a sample of 20,000 is learnt from.
        y : object
            Ignored; here for scikit-learn's conventions.

        Returns
        -------
        GMMDetector
            The fitted detector.
        """
        rows = self._rows(X, None, None)
        self._fit_rows(rows)
        set_offsets([self], rows)
        remember_columns(self, head_of(X) if is_blocked(X) else X)
        return self

    def _rows(self, X: Any, y: Any, sample_weight: Any) -> TrainingRows:
        if not is_blocked(X):
            return training_rows(X)
        self._check_parameters()
        return sampled_rows(X, None, None, 0, check_random_state(self.random_state))

    def _fit_rows(self, rows: TrainingRows, *, thresholds: bool = True) -> None:
        self._check_parameters()
        self.mixture_ = self._mixture(rows.X)
        if not (thresholds and self._is_by_unseen()):
            self._settle_offset(rows, None)

    def _refitted(self, rows: TrainingRows, kept: float) -> Self:
        other = clone(self)
        other.mixture_ = other._mixture(rows.X)
        return other

    @property
    def n_iter_(self) -> int:
        """Number of steps of the EM algorithm."""
        return int(self.mixture_.n_iter_)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("score_type", self.score_type, SCORES)
        check_choice("covariance_type", self.covariance_type, COVARIANCES)
        for name in ("n_components", "n_init", "max_iter"):
            check_count(name, getattr(self, name))
        check_number("reg_covar", self.reg_covar, at_least=0)

    def _mixture(self, rows: Array) -> GaussianMixture:
        n = int(rows.shape[0])
        if n < 2:
            raise ValueError(
                f"A mixture needs at least 2 rows, got n_samples = {n}. Pass more normal "
                "rows, or use another detector."
            )
        mixture = GaussianMixture(
            n_components=_different_rows(rows, int(self.n_components)),
            covariance_type=self.covariance_type,
            reg_covar=self.reg_covar,
            n_init=self.n_init,
            max_iter=self.max_iter,
            random_state=self.random_state,
        )
        if on_accelerator(rows):
            return fit_on_device(mixture, rows)
        with blas_threads_for(n), config_context(array_api_dispatch=False):
            return mixture.fit(to_host(rows))

    def _scores(self, X: Array) -> Array:
        xp, mixture = namespace(X), self.mixture_
        means = [beside(mean, X) for mean in mixture.means_]
        roots = [beside(root, X) for root in precision_roots(mixture)]

        def distances2(block: Array) -> Array:
            """Squared Mahalanobis distances of rows to each component."""
            columns = []
            for mean, root in zip(means, roots, strict=True):
                centred = block - mean
                whitened = centred @ root if root.ndim == 2 else centred * root
                columns.append(xp.sum(whitened**2, axis=1))
            return xp.stack(columns, axis=1)

        heights = beside(log_heights(mixture), X)

        def work(rows: slice) -> Array:
            squares = distances2(X[rows, :])
            if self.score_type == "mahalanobis":
                return -xp.sqrt(xp.min(squares, axis=1))
            exponents = heights - 0.5 * squares
            highest = xp.max(exponents, axis=1, keepdims=True)
            sums = xp.sum(xp.exp(exponents - highest), axis=1)
            return highest[:, 0] + xp.log(sums)

        with one_blas_thread:
            return concatenate(map_row_blocks(work, X, width=2 * X.shape[1]))


def _different_rows(rows: Array, at_most: int) -> int:
    """How many different rows there are, up to a limit; they differ in a random direction."""
    direction = np.random.default_rng(0).normal(size=rows.shape[1])
    return min(at_most, len(np.unique(to_host(rows @ beside(direction, rows)))))


def precision_roots(mixture: GaussianMixture) -> list[Host]:
    """For each component a factor P with ``Σ⁻¹ = P Pᵀ``; a row where it is diagonal."""
    roots = mixture.precisions_cholesky_
    k, d = mixture.means_.shape
    if mixture.covariance_type == "tied":
        return [roots] * k
    if mixture.covariance_type == "spherical":
        return [np.full(d, root) for root in roots]
    return list(roots)


def log_heights(mixture: GaussianMixture) -> Host:
    """``log π_k + log det Σ_k^{−1/2} − d/2 · log 2π``: the logarithm of each component's peak."""
    roots = precision_roots(mixture)
    log_dets = [np.log(root.diagonal() if root.ndim == 2 else root).sum() for root in roots]
    d = mixture.means_.shape[1]
    return np.log(mixture.weights_) + np.array(log_dets) - 0.5 * d * np.log(2 * np.pi)
