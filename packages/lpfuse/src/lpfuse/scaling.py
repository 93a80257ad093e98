"""Scalers that put scores of different detectors on one scale."""

from __future__ import annotations

from math import ceil, floor
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.blocks import Summary, meta_of
from lpfuse._arrays.operations import Array, Host, is_blocked, is_numpy, like, namespace, to_host
from lpfuse._base import lazily
from lpfuse._files import saved_as
from lpfuse._quantiles import QuantileSketch
from lpfuse._validation import tables
from lpfuse._validation.dask_blocks import check_score_blocks
from lpfuse._validation.params import check_labels

__all__ = ["TailScaler", "TwoSidedMinMax"]

# Robust standard deviations beyond which `TailScaler` is logarithmic. Chosen by hand.
FAR = 10.0
# The quartiles of a normal distribution are this many standard deviations apart.
QUARTILES = 1.349


class _QuantileScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Base of scalers by two quantiles of each column; `_map` maps the scaled scores."""

    rho: float
    lower_: Host
    upper_: Host
    quantile_error_: float

    def fit(self, S: Any, y: Any = None) -> Self:
        """Learn the thresholds.

        Parameters
        ----------
        S : array-like, or Dask array or data frame, of shape (n, R)
            Reference scores, high = normal.
        y : array-like, or Dask array or series, of shape (n,), optional
            +1 normal, −1 anomaly. If given, only normal rows set the thresholds.

        Returns
        -------
        transformer
            The fitted scaler.
        """
        self._check_parameters()
        if is_blocked(S):
            return self._fit_blocks(S, y)
        scores = tables.check_scores(S)
        labels = check_labels(y, scores.shape[0])
        reference = scores if labels is None else scores[like(labels, scores) > 0]
        tables.warn_uninformative_columns(reference, tables.column_names(S))
        ranks = _Ranks(reference.shape[0], float(self.rho))
        self.lower_, self.upper_ = ranks.thresholds(_order_statistics(reference, ranks.needed))
        self.quantile_error_ = 0.0
        tables.record_columns(self, S)
        return self

    def _fit_blocks(self, S: Any, y: Any) -> Self:
        """Fit in one pass over blocks of rows, with a quantile sketch of the normal ones."""
        checked = check_score_blocks(S, y, also=Summary(_sketch_normal, QuantileSketch.merge))
        sketch: QuantileSketch = checked.also
        tables.warn_constant_columns(
            tables.is_constant(sketch.lowest, sketch.highest), checked.names
        )
        ranks = _Ranks(sketch.n, float(self.rho))
        smallest = {rank: sketch.order_statistic(rank) for rank in ranks.needed}
        self.lower_, self.upper_ = ranks.thresholds(smallest)
        self.quantile_error_ = sketch.rank_error / sketch.n
        tables.record_columns(self, meta_of(S))
        return self

    @lazily(width=lambda scaler: scaler.n_features_in_)
    def transform(self, S: Any) -> Array:
        """Return scores on the common scale.

        Parameters
        ----------
        S : array-like, or Dask array or data frame, of shape (n, R)
            Scores, high = normal.

        Returns
        -------
        array of shape (n, R)
            In the library and precision of `S`; the order within a column is kept. A lazy Dask
            array for Dask collections.
        """
        check_is_fitted(self)
        S = tables.check_scores(S, estimator=self)
        xp = namespace(S)
        width = self.upper_ - self.lower_
        slope = np.divide(1.0, width, out=np.zeros_like(width), where=width > 0)
        # z = (s − l) / (u − l), measured from the middle: a column without width has slope 0 and
        # z = 1/2 without a special case.
        middle = self.lower_ + width / 2
        middle, slope = (xp.astype(like(values, S), S.dtype) for values in (middle, slope))
        return self._map(0.5 + (S - middle) * slope)

    def _map(self, z: Array) -> Array:
        raise NotImplementedError

    def _check_parameters(self) -> None:
        pass

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@saved_as("TwoSidedMinMax", clip=("soft",))
class TwoSidedMinMax(_QuantileScaler):
    r"""Scale each detector's scores by two quantiles, robust to extreme scores.

    Column by column, with `l` and `u` the quantiles of the reference scores at
    ``rho/200`` and ``1 − rho/200`` (``rho`` % of them lie outside, half in each tail):

    .. math:: z = (s - l) / (u - l), \qquad s' = a + (b - a)\, z

    where ``(a, b)`` is `feature_range`.

    Parameters
    ----------
    rho : float in [0, 100), default=5.0
        Percentage of the reference scores outside the thresholds. 0 is the plain min–max.
    feature_range : tuple (a, b) with a < b, default=(-1, 1)
        Images of the lower and the upper threshold. With a signed range, low scores count against
        "normal"; with (0, 1) only scores below the lower threshold do.
    clip : bool or "soft", default="soft"
        How to treat scores beyond the thresholds. False: no clipping. True: clip to the range.
        "soft": continue logarithmically, which keeps their order; ``z`` becomes ``−log(1 − z)``
        below, and ``1 + log(z)`` above.

    Attributes
    ----------
    lower_, upper_ : ndarray of shape (R,)
        The thresholds `l` and `u`.
    quantile_error_ : float
        Bound of the rank error of `l` and `u`, as a share of the reference rows: 0.0 for arrays in
        memory, whose quantiles are exact.
    n_features_in_ : int
        Number of detectors R.
    feature_names_in_ : ndarray of shape (R,)
        Names of the detectors, when `S` had them.

    Notes
    -----
    Fit on scores of held-out rows: in-sample scores are higher than those of new normal rows.

    If `l` and `u` coincide because of ties, the column's minimum and maximum replace them. A
    constant column carries no information: `fit` warns, and every score of that column becomes the
    middle of `feature_range`.

    Dask arrays and data frames are read once. Quantile sketches of the blocks are merged on the
    workers. They are exact up to 9,000 rows; up to two billion rows the quantile at 2.5 % is
    guaranteed to be one at 2.4 to 2.6 %, and `quantile_error_` bounds the error. Results depend on
    the blocks only; minimum and maximum are exact.

    Examples
    --------
    >>> from lpfuse import TwoSidedMinMax
    >>> S = [[0.0, -10.0], [1.0, -30.0], [2.0, -20.0]]
    >>> TwoSidedMinMax(rho=0).fit_transform(S)
    array([[-1.,  1.],
           [ 0., -1.],
           [ 1.,  0.]])
    """

    def __init__(
        self,
        rho: float = 5.0,
        feature_range: tuple[float, float] = (-1, 1),
        clip: bool | Literal["soft"] = "soft",
    ) -> None:
        self.rho = rho
        self.feature_range = feature_range
        self.clip = clip

    def _map(self, z: Array) -> Array:
        if self.clip:
            inside = namespace(z).clip(z, 0.0, 1.0)
            z = inside + _logarithmic(z - inside) if self.clip == "soft" else inside
        low, high = self.feature_range
        return low + (high - low) * z

    def _check_parameters(self) -> None:
        if not isinstance(self.rho, Real) or not 0 <= self.rho < 100:
            raise ValueError(
                f"rho must be a percentage in [0, 100), got {self.rho!r}. "
                "Use 5 to leave 5 % of the reference scores outside the thresholds."
            )
        ends = np.asarray(self.feature_range, dtype=object)
        if ends.shape != (2,) or not -np.inf < ends[0] < ends[1] < np.inf:
            raise ValueError(
                "feature_range must be two finite numbers (a, b) with a < b, such as (-1, 1); "
                f"got {self.feature_range!r}."
            )
        if self.clip not in (False, True, "soft"):
            raise ValueError(f'clip must be False, True or "soft", got {self.clip!r}.')


@saved_as("TailScaler")
class TailScaler(_QuantileScaler):
    r"""Scale scores so that a single very low score dominates the sum.

    Normal scores become values near 0, anomalous ones large negative values. Column by column, in
    robust standard deviations z from the middle of the quartiles:

    .. math:: u = \max(0, 1 - z), \qquad s' = -(u / 2)^3

    from u = 10 on with :math:`10 (1 + \log(u / 10))` in place of u, which keeps the order. A robust
    standard deviation is the distance of the quartiles of the reference scores over 1.349. Scores
    more than one of them above the middle are all 0.

    A sum of scores on a linear scale is an average: four detectors with normal scores outweigh one
    with a very low score. A sum of cubes is close to the minimum but still a sum, so weights,
    certificates and contributions keep their meaning. This helps most if training rows contain
    anomalies, which some but not all detectors then consider normal.

    Attributes
    ----------
    lower_, upper_ : ndarray of shape (R,)
        The quartiles, which are robust to less than a quarter of outliers.
    quantile_error_ : float
        Bound of their rank error, as a share of the reference rows; 0.0 in memory.
    n_features_in_ : int
        Number of detectors R.
    feature_names_in_ : ndarray of shape (R,)
        Names of the detectors, when `S` had them.

    Notes
    -----
    For Dask, ties and constant columns see :class:`TwoSidedMinMax`; a constant column becomes −1/8.
    The power and the quartiles were chosen on 120 tables and confirmed on 20 sets
    (``docs/adr/0019``).

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import TailScaler
    >>> S = np.linspace(-3.0, 3.0, 61)[:, None]
    >>> TailScaler().fit(S).transform([[0.0], [3.0], [-3.0], [-9.0]]).round(2)[:, 0]
    array([ -0.12,   0.  ,  -1.62, -16.07])
    """

    rho = 50.0

    def _map(self, z: Array) -> Array:
        xp = namespace(z)
        u = xp.clip(1.0 - QUARTILES * (z - 0.5), 0.0, None)
        far = xp.clip(u, FAR, None)
        # 0.0 − x instead of −x, to avoid −0.0 in the output.
        return 0.0 - ((xp.clip(u, None, FAR) + FAR * xp.log(far / FAR)) / 2) ** 3


class _Ranks:
    """The order statistics of n scores that define the thresholds.

    A quantile at the share q is interpolated at position ``q (n − 1)`` of the sorted scores:
    NumPy's default definition, "linear". Only these few are needed, so that arrays and sketches
    share it.
    """

    def __init__(self, n: int, rho: float) -> None:
        self.last = n - 1
        self.positions = rho / 200 * self.last, (1 - rho / 200) * self.last
        ends = {0, self.last}  # replace quantiles that coincide
        self.needed = sorted(ends.union(map(floor, self.positions), map(ceil, self.positions)))

    def thresholds(self, smallest: dict[int, Host]) -> tuple[Host, Host]:
        """Return the quantiles of each column; its extremes if ties make them coincide."""
        lower, upper = (_interpolate(smallest, position) for position in self.positions)
        tied = tables.is_constant(lower, upper)
        lower = np.where(tied, smallest[0], lower)
        upper = np.where(tied, smallest[self.last], upper)
        return lower, np.where(tables.is_constant(lower, upper), lower, upper)


def _sketch_normal(k: int, S: Array, y: Array | None, c: Array | None) -> QuantileSketch:
    return QuantileSketch.of(S if y is None else S[like(y, S) > 0])


def _order_statistics(S: Array, ranks: list[int]) -> dict[int, Host]:
    """Return, for each rank k, the k-th smallest score of each column."""
    # Partitioning is several times faster than sorting, but not part of the array API.
    ordered = np.partition(S, ranks, axis=0) if is_numpy(S) else namespace(S).sort(S, axis=0)
    return {rank: to_host(ordered[rank, :]) for rank in ranks}


def _interpolate(smallest: dict[int, Host], position: float) -> Host:
    low, high = smallest[floor(position)], smallest[ceil(position)]
    return low + (position - floor(position)) * (high - low)


def _logarithmic(excess: Array) -> Array:
    """Return ``±log(1 + |excess|)``: slope one at zero, so that the map is smooth."""
    xp = namespace(excess)
    return xp.sign(excess) * xp.log1p(xp.abs(excess))
