"""ℓp fusion with weights that vary by region, each with its own certificate."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import softmax
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Array, Host, beside, map_row_blocks, to_host
from lpfuse._base import Scorer, signs
from lpfuse._validation.params import check_choice, check_count, check_number
from lpfuse._validation.tables import check_features, check_scores, record_columns
from lpfuse.fusion.lp import LpFusion, labels_and_weights
from lpfuse.optim import Certificate

# --------------------------------------------------------------------------------------------------
# Positions of rows, for fusions whose weights depend on them: features, or scores


class LocatedScores(NamedTuple):
    """Scores of the rows to learn from, with the position of each row.

    Attributes
    ----------
    scores : ndarray of shape (n, R)
        High = normal.
    labels : ndarray of shape (n,)
        +1 normal, −1 anomaly; some row is normal.
    sample_weight : ndarray of shape (n,)
        How much each row counts; above 0.
    positions : ndarray of shape (n, d)
        Standardised features, or else the scores.
    """

    scores: Host
    labels: Host
    sample_weight: Host
    positions: Host


class LocalFusion(Scorer):
    """Base of fusions whose weights depend on the position of a row: its features or scores."""

    uses_features = True  # `fit` and the scoring methods take the features X beside the scores

    feature_scaler_: Any  # a StandardScaler; None where positions are scores

    def score_samples(self, S: Any, X: Any = None) -> Array:  # type: ignore[override]
        """Return the fused score of each row, high = normal.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.
        X : array-like of shape (n, d), optional
            Features of the same rows, if `fit` had them.

        Returns
        -------
        array of shape (n,)
            Fused scores.
        """
        raise NotImplementedError

    def decision_function(self, S: Any, X: Any = None) -> Array:  # type: ignore[override]
        """Return ``score_samples(S, X) − offset_``: negative for anomalies.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.
        X : array-like of shape (n, d), optional
            Features of the same rows, if `fit` had them.

        Returns
        -------
        array of shape (n,)
            Signed distance to the threshold.
        """
        return self.score_samples(S, X) - self.offset_

    def predict(self, S: Any, X: Any = None) -> Array:  # type: ignore[override]
        """Return +1 for normal rows and −1 for anomalies.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.
        X : array-like of shape (n, d), optional
            Features of the same rows, if `fit` had them.

        Returns
        -------
        array of shape (n,)
            Integers +1 and −1.
        """
        return signs(self.decision_function(S, X))

    def _locate(self, S: Any, X: Any) -> tuple[Array, Host, Host]:
        """Check the input; return scores, scores on the host, and positions of the rows."""
        check_is_fitted(self)
        S = check_scores(S, estimator=self)
        scores = to_host(S)
        return S, scores, _positions(scores, X, self.feature_scaler_)


def located_scores(
    S: Any, y: Any, sample_weight: Any, X: Any
) -> tuple[LocatedScores, StandardScaler | None]:
    """Check the input of a fit; return it with the scaler of the features, None without X.

    Parameters
    ----------
    S : array-like of shape (n, R)
        Scores, high = normal.
    y, sample_weight : array-like of shape (n,), or None
        Labels ±1, and how much each row counts; rows of weight 0 are dropped.
    X : array-like of shape (n, d), or None
        Features of the rows; the normal ones set their scale.
    """
    scores = to_host(check_scores(S))
    n = len(scores)
    labels, weights = labels_and_weights(n, y, sample_weight)
    scaler = None if X is None else _fitted_scaler(X, n, np.where(labels > 0, weights, 0.0))
    positions = _positions(scores, X, scaler)
    kept = weights > 0
    return LocatedScores(scores[kept], labels[kept], weights[kept], positions[kept]), scaler


def _fitted_scaler(X: Any, n: int, sample_weight: Host) -> StandardScaler:
    features = to_host(check_features(X))
    _check_same_length(features, n)
    scaler = StandardScaler().fit(features, sample_weight=sample_weight)
    record_columns(scaler, X)
    return scaler


def _positions(scores: Host, X: Any, scaler: StandardScaler | None) -> Host:
    """Return positions of rows: standardised features, or scores, which share one scale."""
    if scaler is None:
        if X is not None:
            raise ValueError(
                "X was given, but fit had no X: positions are scores. Omit X here, or pass X to "
                "fit as well."
            )
        return scores
    if X is None:
        raise ValueError(
            f"X is missing: fit had {scaler.n_features_in_} features, so the features of the rows "
            "of S are required here too."
        )
    features = to_host(check_features(X, estimator=scaler))
    _check_same_length(features, len(scores))
    # Not `scaler.transform`, which would validate again and warn about feature names.
    standardised: Host = (features - scaler.mean_) / scaler.scale_
    return standardised


def _check_same_length(features: Host, n: int) -> None:
    if len(features) != n:
        raise ValueError(
            f"X must hold the features of the rows of S: expected {n} rows, got {len(features)}."
        )


# --------------------------------------------------------------------------------------------------
# The estimator

BLENDS = ("soft", "hard")
# The global fusion has issued these warnings already.
ALREADY_WARNED = "Scores have no spread|Some detectors give the same"


class LocalLpFusion(LocalFusion):
    r"""Fuse with ℓp-constrained weights that depend on the position of a row.

    In the style of arXiv 2411.06406. k-means divides the rows into K regions. The weights of region
    k are those of `LpFusion` with its own rows at full cost and all others at a share ρ of it
    (`sharing`),

    .. math::

        \min_{\|w\|_p \le 1} \sum_{i \in k} c_i\, \ell(1 - y_i (s_i^\top w + b))
        + \rho \sum_{i \notin k} c_i\, \ell(1 - y_i (s_i^\top w + b))

    so ρ = 0 is one fusion a region and ρ = 1 is the global one. Regions with too few rows use the
    global weights. A row at x is fused with

    .. math:: w(x) = \sum_k \pi_k(x) w_k, \qquad \pi_k(x) \propto \exp(-\|x - m_k\|^2 / 2h)

    where ``m_k`` is the centre of region k and ``h`` the mean of the squared distances of the
    training rows to their own centre; with ``blend="hard"``, ``w(x)`` is that of the nearest
    centre. Blended weights stay in the ball, which is convex.

    Parameters
    ----------
    fusion : LpFusion, optional
        How weights are learnt, globally and in every region; copies are fitted. None:
        ``LpFusion()``.
    n_regions : int, default=4
        K; fewer if there are fewer distinct rows. 1 is `LpFusion` itself.
    sharing : float in [0, 1], default=0.1
        ρ: the weight of a row in regions other than its own.
    min_rows : int, default=50
        Regions with fewer rows, or without normal rows, use the global weights.
    min_anomalies : int, default=3
        So do regions with fewer anomalies, if there are any anomalies.
    blend : {"soft", "hard"}, default="soft"
        Whether weights change smoothly between regions.
    random_state : int, RandomState or None, default=None
        Seeds k-means.

    Attributes
    ----------
    regions_ : ndarray of shape (K, d)
        The centres ``m_k``, among standardised features or among scores.
    weights_by_region_ : ndarray of shape (K, R)
        The weights ``w_k``.
    intercepts_by_region_ : ndarray of shape (K,)
        b of each region.
    certificates_ : list of K Certificate
        The certificate of each region's weights; that of the global ones, with the status "global",
        where a region uses these. They hold for the ``w_k``, not for blends of them.
    global_ : LpFusion
        The fusion of all rows.
    weights_ : ndarray of shape (R,)
        Only if K = 1: otherwise there is no single weight vector.
    bandwidth_ : float
        h.
    offset_ : float
        ``−global_.intercept_``: scores from here on count as normal.
    feature_scaler_ : StandardScaler or None
        Of the features; None where positions are scores.
    n_features_in_ : int
        Number of detectors R.
    feature_names_in_ : ndarray of shape (R,)
        Names of the detectors, when `S` had them.

    Notes
    -----
    Positions are the features, standardised by the normal rows, if `fit` is given X, and the scores
    otherwise. Regions, sharing and blending are ours: they follow the idea of the paper, not its
    construction.

    References
    ----------
    S. Nourmohammadi, A. S. Yenicesu, S. Rahimzadeh Arashloo and O. S. Oguz, "Locally adaptive
    one-class classifier fusion with dynamic ℓp-norm constraints for robust anomaly detection",
    arXiv 2411.06406.

    Examples
    --------
    Each detector is right in one half of the space, and wrong in the other:

    >>> import numpy as np
    >>> from lpfuse import LpFusion
    >>> from research.rivals.local import LocalLpFusion
    >>> rng = np.random.default_rng(0)
    >>> y, side = np.where(np.arange(400) < 100, -1, 1), rng.choice([-1, 1], (400, 1))
    >>> X = side + rng.normal(0, 0.1, (400, 1))
    >>> S = y[:, None] * side * [1, -1] + rng.normal(0, 0.5, (400, 2))
    >>> local = LocalLpFusion(n_regions=2, random_state=0).fit(S, y, X=X)
    >>> bool((local.predict(S, X) == y).mean() > 0.95)
    True
    >>> bool((LpFusion().fit(S, y).predict(S) == y).mean() > 0.7)
    False
    >>> [certificate.status for certificate in local.certificates_]
    ['optimal', 'optimal']
    """

    regions_: Host
    weights_by_region_: Host
    intercepts_by_region_: Host
    certificates_: list[Certificate]
    global_: LpFusion
    bandwidth_: float

    def __init__(
        self,
        fusion: LpFusion | None = None,
        n_regions: int = 4,
        sharing: float = 0.1,
        min_rows: int = 50,
        min_anomalies: int = 3,
        blend: Literal["soft", "hard"] = "soft",
        random_state: Any = None,
    ) -> None:
        self.fusion = fusion
        self.n_regions = n_regions
        self.sharing = sharing
        self.min_rows = min_rows
        self.min_anomalies = min_anomalies
        self.blend = blend
        self.random_state = random_state

    def fit(self, S: Any, y: Any = None, sample_weight: Any = None, X: Any = None) -> Self:
        """Find the regions and learn the weights of each.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.
        y : array-like of shape (n,), optional
            +1 normal, −1 anomaly. Without it all rows are normal.
        sample_weight : array-like of shape (n,), optional
            The costs c_i of the rows; also their weights in k-means.
        X : array-like of shape (n, d), optional
            Features of the same rows, which define positions. Default: the scores.

        Returns
        -------
        LocalLpFusion
            The fitted estimator.
        """
        self._check_parameters()
        rows, scaler = located_scores(S, y, sample_weight, X)
        fusion = LpFusion() if self.fusion is None else self.fusion
        global_fusion = clone(fusion).fit(S, y, sample_weight)
        if fusion.prior is not None:  # scores of a region have no column names
            fusion = clone(fusion).set_params(prior=global_fusion.prior_)
        centres, region = self._regions(rows)
        if len(centres) == 1:
            fitted, certificates = [global_fusion], [global_fusion.certificate_]
        else:
            own = [self._fit_region(rows, region == k, fusion) for k in range(len(centres))]
            fallback = replace(global_fusion.certificate_, status="global")
            fitted = [one or global_fusion for one in own]
            certificates = [one.certificate_ if one else fallback for one in own]
        self.feature_scaler_ = scaler
        self.global_ = global_fusion
        self.regions_ = centres
        self.bandwidth_ = _mean_squared_distance(rows, centres, region)
        self.weights_by_region_ = np.stack([one.weights_ for one in fitted])
        self.intercepts_by_region_ = np.array([one.intercept_ for one in fitted])
        self.certificates_ = certificates
        record_columns(self, S)
        return self

    def _check_parameters(self) -> None:
        if self.fusion is not None and not isinstance(self.fusion, LpFusion):
            raise ValueError(
                f"fusion must be an LpFusion, whose weights are certified; got {self.fusion!r}."
            )
        check_count("n_regions", self.n_regions)
        check_number("sharing", self.sharing, at_least=0, at_most=1)
        check_count("min_rows", self.min_rows)
        check_count("min_anomalies", self.min_anomalies)
        check_choice("blend", self.blend, BLENDS)

    def _regions(self, rows: LocatedScores) -> tuple[Host, NDArray[np.intp]]:
        """Return centres and the region of each row; no region is empty."""
        k = min(self.n_regions, len(rows.positions))
        means = KMeans(k, n_init=10, random_state=check_random_state(self.random_state))
        with warnings.catch_warnings():  # fewer distinct rows than regions: fewer regions
            warnings.simplefilter("ignore", ConvergenceWarning)
            means.fit(rows.positions, sample_weight=rows.sample_weight)
        used, region = np.unique(means.labels_, return_inverse=True)
        return means.cluster_centers_[used], region

    def _fit_region(
        self, rows: LocatedScores, inside: NDArray[np.bool_], fusion: LpFusion
    ) -> LpFusion | None:
        """Fit the fusion of one region; None if it has too few rows."""
        anomalous = rows.labels < 0
        if (
            inside.sum() < self.min_rows
            or not (inside & ~anomalous).any()
            or (anomalous.any() and (inside & anomalous).sum() < self.min_anomalies)
        ):
            return None
        weights = np.where(inside, 1.0, self.sharing) * rows.sample_weight
        counts = weights > 0
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ALREADY_WARNED, UserWarning)
            return clone(fusion).fit(rows.scores[counts], rows.labels[counts], weights[counts])

    @property
    def offset_(self) -> float:
        """Scores from here on count as normal."""
        return self.global_.offset_

    @property
    def weights_(self) -> Host:
        """The weights, where there is one region."""
        if len(self.weights_by_region_) > 1:
            raise AttributeError(
                "Weights differ from region to region: see weights_by_region_ and memberships."
            )
        return self.weights_by_region_[0]

    def memberships(self, S: Any, X: Any = None) -> Host:
        """Return the share ``π_k(x)`` of each region in the weights of each row.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.
        X : array-like of shape (n, d), optional
            Features of the same rows, if `fit` had them.

        Returns
        -------
        ndarray of shape (n, K)
            Not negative; rows sum to 1.
        """
        _, _, positions = self._locate(S, X)
        return self._memberships(positions)

    def score_samples(self, S: Any, X: Any = None) -> Array:  # type: ignore[override]
        """Return the fused score ``Σ_j w_j(x) s_ij + b(x) − b`` of each row, high = normal.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.
        X : array-like of shape (n, d), optional
            Features of the same rows, if `fit` had them.

        Returns
        -------
        array of shape (n,)
            In the library and precision of `S`. Intercepts are blended like weights, relative to
            the global one, so that `offset_` holds for all regions.
        """
        S, scores, positions = self._locate(S, X)
        shifts = self.intercepts_by_region_ - self.global_.intercept_

        def fused(block: slice) -> Host:
            memberships = self._memberships(positions[block])
            weights = memberships @ self.weights_by_region_
            return np.vecdot(scores[block], weights) + memberships @ shifts

        width = len(self.regions_) + scores.shape[1]
        return beside(np.concatenate(map_row_blocks(fused, positions, width)), S)

    def _memberships(self, positions: Host) -> Host:
        squared = cdist(positions, self.regions_, "sqeuclidean")
        if self.blend == "hard" or self.bandwidth_ == 0:
            return np.eye(len(self.regions_))[squared.argmin(axis=1)]
        further = squared - squared.min(axis=1, keepdims=True)
        # If every region is nearly a point, h is tiny and the division overflows to −∞; the softmax
        # then selects the nearest region, as intended.
        with np.errstate(over="ignore"):
            return softmax(-further / (2 * self.bandwidth_), axis=1)


def _mean_squared_distance(rows: LocatedScores, centres: Host, region: NDArray[np.intp]) -> float:
    """Return the mean squared distance of the rows to their own centre."""
    squared = ((rows.positions - centres[region]) ** 2).sum(axis=1)
    return float(np.average(squared, weights=rows.sample_weight))
