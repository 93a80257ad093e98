"""Dynamic selection: score each row with the detectors that are most reliable near it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import expit
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state

from lpfuse._arrays.operations import Array, Host, beside, map_row_blocks
from lpfuse._validation import tables
from lpfuse._validation.params import check_choice, check_count, check_number
from research.rivals.local import LocalFusion, LocatedScores, located_scores

# --------------------------------------------------------------------------------------------------
# Artificial outliers and distances between the classes


OUTLIER_MARGIN = 0.5  # artificial outliers reach this many ranges below the normal scores
# Times the median distance to the opposite class. Without this floor, a row that coincides with one
# of the opposite class would be infinitely far from all others.
MIN_REACH = 1e-6
MAX_TREE_DIMENSIONS = 5  # above it, brute force is faster than a tree (measured)


def add_artificial_outliers(
    rows: LocatedScores,
    scaler: Any,
    ask: Callable[[Host], Host] | None,
    random: np.random.RandomState,
) -> LocatedScores:
    """Append artificial outliers to the rows; `scaler` standardises features, if there are any."""
    normal = rows.labels > 0
    m = int(normal.sum())
    low, high = rows.scores[normal].min(axis=0), rows.scores[normal].max(axis=0)
    bottom = low - OUTLIER_MARGIN * (high - low)
    if scaler is None:
        positions = scores = random.uniform(bottom, high, (m, len(low)))  # nosec B311 # NumPy, seeded
    else:
        positions = _sample_box(rows.positions[normal], m, random)
        scores = random.uniform(bottom, low, (m, len(low)))  # nosec B311 # NumPy, seeded
    if ask is not None:
        scores = _outlier_scores(ask, positions * scaler.scale_ + scaler.mean_, scores)
    weights = np.full(m, rows.sample_weight[normal].mean())
    outliers = LocatedScores(scores, np.full(m, -1.0), weights, positions)
    return LocatedScores(*(np.concatenate(pair) for pair in zip(rows, outliers, strict=True)))


def _outlier_scores(ask: Callable[[Host], Host], features: Host, presumed: Host) -> Host:
    """Score artificial rows with the detectors; use the presumed score where one has none."""
    scores = np.asarray(ask(features), dtype=np.float64)
    if scores.shape != presumed.shape:
        raise ValueError(
            f"ask must return scores of shape {presumed.shape}, one row a sample and one column a "
            f"detector; got shape {scores.shape}."
        )
    return np.where(np.isfinite(scores), scores, presumed)


def _sample_box(positions: Host, m: int, random: np.random.RandomState) -> Host:
    low, high = positions.min(axis=0), positions.max(axis=0)
    margin = OUTLIER_MARGIN * (high - low)
    return random.uniform(low - margin, high + margin, (m, len(low)))  # nosec B311 # NumPy, seeded


def distance_to_opposite_class(positions: Host, labels: Host) -> Host:
    """Return ``δ(z)`` of each row, with a floor for rows that coincide with the opposite class."""
    reach = np.empty(len(labels))
    for side in (1, -1):
        opposite = _neighbours(positions[labels == -side], 1)
        reach[labels == side] = opposite.kneighbors(positions[labels == side])[0][:, 0]
    return np.maximum(reach, max(MIN_REACH * np.median(reach), np.finfo(np.float64).eps))


def _neighbours(positions: Host, k: int) -> NearestNeighbors:
    algorithm = "kd_tree" if positions.shape[1] <= MAX_TREE_DIMENSIONS else "brute"
    return NearestNeighbors(n_neighbors=k, algorithm=algorithm).fit(positions)


# --------------------------------------------------------------------------------------------------
# The estimator

MODES = ("auto", "winner", "fusion")
# Choices that the paper leaves open; see the Notes below.
THRESHOLD_SHARE = 0.05  # share of normal rows below the threshold of a single detector
CONFIDENCE = 0.9  # probability of "normal" at the median of the normal rows
# Competences are means of k probabilities: smaller differences are rounding.
ROUNDING = 1e-9


class DynamicEnsemble(LocalFusion):
    r"""Select or weight detectors row by row, by their accuracy on neighbouring rows.

    In the style of DEOD (Wang & Mao 2020). Scores become probabilities of "normal",
    ``p_j(s) = σ(log 9 · (s − t_j) / (m_j − t_j))``, with ``t_j`` and ``m_j`` the 5 % quantile and
    the median of the normal rows' scores, so that ``p_j(t_j) = 1/2`` and ``p_j(m_j) = 0.9``.
    The validation set holds the training rows and as many artificial outliers as there are normal
    rows. The distance of a row x to one of them, z, is divided by z's own distance ``δ(z)`` to the
    opposite class, and the k nearest rows by this measure give the competence of each detector:

    .. math::

        C_j(x) = \frac{\sum_z \omega_z P_j(y_z \mid z)}{\sum_z \omega_z},
        \qquad \omega_z = \frac{c_z}{1 + \|x - z\| / \delta(z)}

    with ``P_j(y_z | z)`` the probability that detector j gives to the right label of z, and ``c_z``
    its sample weight. A detector that is clearly the most competent one is used alone; otherwise
    those at least as competent as their mean are fused, ``Σ_j C_j p_j / Σ_j C_j``.

    Parameters
    ----------
    mode : {"auto", "winner", "fusion"}, default="auto"
        "winner" always takes the most competent detector alone, "fusion" never does.
    n_neighbors : int, default=20
        Neighbours k that competences are computed from; all rows where there are fewer.
    margin : float in [0, 1], default=0.2
        By how much the winner's competence must exceed the next one's in mode "auto".
    shortlist : int or None, default=4
        The adapted distance ranks only the ``shortlist · n_neighbors`` nearest rows by the plain
        distance. None ranks all rows, as published; rows far from the opposite class are then near
        to every row.
    max_rows : int, default=10000
        Maximum number of normal rows and of labelled anomalies in the validation set. More are
        subsampled, so the cost of scoring a row does not grow with the training set.
    random_state : int, RandomState or None, default=None
        Controls the artificial outliers and the subsampling.

    Attributes
    ----------
    offset_ : float
        0.5: rows that are more probably anomalous than not count as anomalies.
    labels_ : ndarray of shape (m,)
        Labels of the validation set; artificial outliers come last.
    correctness_ : ndarray of shape (m, R)
        ``P_j(y_z | z)``.
    reach_ : ndarray of shape (m,)
        ``δ(z)``.
    influence_ : ndarray of shape (m,)
        ``c_z``; an artificial outlier has the mean of the normal rows'.
    positions_ : ndarray of shape (m, d)
        Positions of the validation set: standardised features, or scores.
    feature_scaler_ : StandardScaler or None
        Of the features; None where positions are scores.
    thresholds_, medians_ : ndarray of shape (R,)
        ``t_j`` and ``m_j``. Where they coincide, ``m_j`` is replaced by ``t_j`` plus the range of
        the training scores; a constant detector has the probability 1/2 everywhere.
    n_features_in_ : int
        Number of detectors R.
    feature_names_in_ : ndarray of shape (R,)
        Names of the detectors, when `S` had them.

    Notes
    -----
    Rows are neighbours by their features, standardised by the normal rows, when `fit` is given X,
    and by their scores otherwise. Details that the paper leaves open:

    - Artificial outliers are drawn uniformly from the box of the normal rows' features, extended
      by half its width on both sides, and scored with `ask`; a `FusedDetector` of arrays passes
      its detectors. Without `ask`, every detector is presumed to recognise them: its score is drawn
      between its lowest score of a normal row and half a range below. Without features, outliers
      are drawn in score space, uniformly from the box of the normal rows' scores, extended
      downwards by half its width.
    - Labelled anomalies are added to the validation set.
    - Distances to all m rows of the validation set are computed, in blocks: a row costs O(m) to
      score, and memory beyond a copy of the rows does not depend on their number.

    References
    ----------
    B. Wang and Z. Mao, "A dynamic ensemble outlier detection model based on an adaptive k-nearest
    neighbor rule", Information Fusion 63 (2020).

    Examples
    --------
    Each detector is right in one half of the space:

    >>> import numpy as np
    >>> from research.rivals.dynamic import DynamicEnsemble
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.uniform(-1, 1, (400, 1)), np.where(np.arange(400) < 100, -1, 1)
    >>> S = np.where((X > 0) == [[True, False]], y[:, None], rng.uniform(-1, 1, (400, 2)))
    >>> fusion = DynamicEnsemble(random_state=0).fit(S, y, X=X)
    >>> fusion.competence([[0.5, 0.5], [0.5, 0.5]], X=[[-0.5], [0.5]]).argmax(axis=1)
    array([1, 0])
    """

    labels_: Host
    correctness_: Host
    reach_: Host
    influence_: Host
    positions_: Host
    thresholds_: Host
    medians_: Host

    def __init__(
        self,
        mode: Literal["auto", "winner", "fusion"] = "auto",
        n_neighbors: int = 20,
        margin: float = 0.2,
        shortlist: int | None = 4,
        max_rows: int = 10_000,
        random_state: Any = None,
    ) -> None:
        self.mode = mode
        self.n_neighbors = n_neighbors
        self.margin = margin
        self.shortlist = shortlist
        self.max_rows = max_rows
        self.random_state = random_state

    needs_scorer = True  # `fit` takes `ask`, which scores artificial rows

    def fit(
        self,
        S: Any,
        y: Any = None,
        sample_weight: Any = None,
        X: Any = None,
        ask: Callable[[Host], Host] | None = None,
    ) -> Self:
        """Build the validation set.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.
        y : array-like of shape (n,), optional
            +1 normal, −1 anomaly. Without it all rows are normal.
        sample_weight : array-like of shape (n,), optional
            How much each row counts in the competences; a row of weight 0 is left out.
        X : array-like of shape (n, d), optional
            Features of the same rows, which define neighbours. Default: the scores.
        ask : callable, optional
            Features of shape (m, d) → the detectors' scores of shape (m, R), on the scale of `S`.
            Requires `X`. Default: detectors are presumed to recognise artificial outliers.

        Returns
        -------
        DynamicEnsemble
            The fitted estimator.
        """
        self._check_parameters()
        if ask is not None and X is None:
            raise ValueError(
                "ask scores artificial outliers in feature space, but X was not given. Pass X, the "
                "features of the rows of S, or omit ask."
            )
        random = check_random_state(self.random_state)
        rows, scaler = located_scores(S, y, sample_weight, X)
        tables.warn_uninformative_columns(rows.scores, tables.column_names(S))
        rows = self._subsample(rows, random)
        self.thresholds_, self.medians_ = _threshold_and_median(rows)
        self.feature_scaler_ = scaler
        self._set_validation_set(add_artificial_outliers(rows, scaler, ask, random))
        self.offset_ = 0.5
        tables.record_columns(self, S)
        return self

    def _check_parameters(self) -> None:
        check_choice("mode", self.mode, MODES)
        check_count("n_neighbors", self.n_neighbors)
        check_number("margin", self.margin, at_least=0, at_most=1)
        if self.shortlist is not None:
            check_count("shortlist", self.shortlist)
        check_count("max_rows", self.max_rows)

    def _subsample(self, rows: LocatedScores, random: np.random.RandomState) -> LocatedScores:
        """Keep at most `max_rows` of each class, in their order."""
        kept = []
        for side in (1, -1):
            index = np.flatnonzero(rows.labels == side)
            if len(index) > self.max_rows:
                index = random.choice(index, self.max_rows, replace=False)  # nosec B311 # NumPy, seeded
            kept.append(index)
        index = np.sort(np.concatenate(kept))
        return LocatedScores(*(part[index] for part in rows))

    def _set_validation_set(self, rows: LocatedScores) -> None:
        normal = self._probabilities(rows.scores)
        self.labels_ = rows.labels
        self.influence_ = rows.sample_weight
        self.correctness_ = np.where(rows.labels[:, None] > 0, normal, 1.0 - normal)
        self.reach_ = distance_to_opposite_class(rows.positions, rows.labels)
        self.positions_ = rows.positions

    def _probabilities(self, S: Host) -> Host:
        above, width = S - self.thresholds_, self.medians_ - self.thresholds_
        steps = np.divide(above, width, out=np.zeros_like(above), where=width > 0)
        return expit(np.log(CONFIDENCE / (1 - CONFIDENCE)) * steps)

    def competence(self, S: Any, X: Any = None) -> Host:
        """Return the competence ``C_j(x)`` in [0, 1] of each detector at each row.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.
        X : array-like of shape (n, d), optional
            Features of the same rows, if `fit` had them.

        Returns
        -------
        ndarray of shape (n, R)
            Competences.
        """
        _, _, positions = self._locate(S, X)
        return self._in_blocks(positions, lambda block: self._competence(positions[block]))

    def score_samples(self, S: Any, X: Any = None) -> Array:  # type: ignore[override]
        """Return the fused probability of "normal" of each row.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.
        X : array-like of shape (n, d), optional
            Features of the same rows, if `fit` had them.

        Returns
        -------
        array of shape (n,)
            In [0, 1], in the library and precision of `S`.
        """
        S, scores, positions = self._locate(S, X)

        def fused(block: slice) -> Host:
            weights = self._weights(self._competence(positions[block]))
            return (weights * self._probabilities(scores[block])).sum(axis=1)

        return beside(self._in_blocks(positions, fused), S)

    def _in_blocks(self, positions: Host, work: Callable[[slice], Host]) -> Host:
        m, R = self.correctness_.shape
        width = 3 * m + self.n_neighbors * R  # distances, adapted ones, and an order
        return np.concatenate(map_row_blocks(work, positions, width))

    def _competence(self, positions: Host) -> Host:
        distance = cdist(positions, self.positions_)
        adapted, k = distance / self.reach_, self.n_neighbors
        if self.shortlist is not None:
            near = _k_smallest(distance, self.shortlist * k)
            nearest = np.take_along_axis(
                near, _k_smallest(np.take_along_axis(adapted, near, axis=1), k), axis=1
            )
        else:
            nearest = _k_smallest(adapted, k)
        adapted = np.take_along_axis(adapted, nearest, axis=1)
        influence = self.influence_[nearest] / (1.0 + adapted)
        correct = np.einsum("nk,nkj->nj", influence, self.correctness_[nearest])
        return correct / influence.sum(axis=1, keepdims=True)

    def _weights(self, competence: Host) -> Host:
        competent = competence >= competence.mean(axis=1, keepdims=True) - ROUNDING
        fused = np.where(competent, competence + ROUNDING, 0.0)  # all of them may be 0
        fused /= fused.sum(axis=1, keepdims=True)
        if self.mode == "fusion" or competence.shape[1] == 1:
            return fused
        alone = np.eye(competence.shape[1])[competence.argmax(axis=1)]
        if self.mode == "winner":
            return alone
        second, best = np.partition(competence, -2, axis=1)[:, -2:].T
        return np.where((best - second > self.margin)[:, None], alone, fused)


def _k_smallest(table: Host, k: int) -> NDArray[np.intp]:
    """Return the positions of the k smallest numbers of each row, unordered; all if fewer."""
    if k >= table.shape[1]:
        return np.broadcast_to(np.arange(table.shape[1]), table.shape)
    return np.argpartition(table, k - 1, axis=1)[:, :k]


def _threshold_and_median(rows: LocatedScores) -> tuple[Host, Host]:
    """Return the threshold and the median of each detector's normal scores."""
    normal = rows.labels > 0
    threshold, median = np.quantile(
        rows.scores[normal],
        [THRESHOLD_SHARE, 0.5],
        axis=0,
        weights=rows.sample_weight[normal],
        method="inverted_cdf",
    )
    spread = np.ptp(rows.scores, axis=0)
    return threshold, np.where(tables.is_constant(threshold, median), threshold + spread, median)
