"""Thresholds: by a rate of false alarms, by a share of the rows, by labels."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betainc
from scipy.stats import beta, binom
from sklearn.utils import check_random_state

from lpfuse._arrays.blocks import arrays_of, map_rows
from lpfuse._arrays.operations import Array, Host, is_blocked, to_host
from lpfuse._quantiles import QuantileSketch, VectorInBlocks
from lpfuse._validation.dask_blocks import check_vector_blocks
from lpfuse._validation.params import check_confidence, check_count, check_share, check_values
from lpfuse.metrics import best_g_mean, halfway

# --------------------------------------------------------------------------------------------------
# What a number of calibration rows can promise, as numbers and in words.


MANY = 1e15  # more rows than anyone has: of rates near 0 their number would overflow


@dataclass(frozen=True)
class CalibrationPromise:
    r"""What a threshold set by n calibration rows promises about false alarms.

    It is the k-th smallest calibration score, and the share of normal rows below it, in the long
    run, is a number drawn from :math:`\mathrm{Beta}(k, n + 1 - k)` with the calibration set (of
    scores with ties it is that or less). All of it follows from n, k, and the rows having been
    held out; of scores that come out of folds it is not a theorem, and `sentence` says so.

    Attributes
    ----------
    n, false_alarm_rate, confidence, out_of_fold
        As given to :func:`calibration_promise`.
    k : int
        Rank of the calibration score that is the threshold; 0 where there are too few rows, and
        nothing is called an anomaly.
    mean : float
        The rate of false alarms on average over calibration sets, :math:`k / (n + 1)`.
    low, high : float
        Between these the long-run rate lies in nine calibration sets of ten.
    needed : int
        Calibration rows that the rate, with that confidence, takes.
    lowest_rate : float
        The lowest rate that n rows can promise.
    """

    n: int
    false_alarm_rate: float
    confidence: float | None
    out_of_fold: bool
    k: int
    mean: float
    low: float
    high: float
    needed: int
    lowest_rate: float

    def sentence(self) -> str:
        """Return the promise in plain words.

        Examples
        --------
        >>> from lpfuse.threshold import calibration_promise
        >>> calibration_promise(60, 0.01).sentence()
        '60 rows cannot promise 1 %: nothing would be called an anomaly. It takes 99 rows, or ask \
for 1.7 % or more.'
        """
        asked, sure = _percent(self.false_alarm_rate), ""
        if self.confidence is not None:
            sure = f" with probability {self.confidence:g}"
        if self.k == 0:
            ask = f", or ask for {_percent(self.lowest_rate, up=True)} or more"
            return (
                f"{self.n} rows cannot promise {asked}{sure}: nothing would be called an anomaly. "
                f"It takes {self.needed} rows{ask if self.lowest_rate <= 0.5 else ''}."
            )
        spread = f"between {_percent(self.low)} and {_percent(self.high)} in nine sets of ten"
        mean = f"{_percent(self.mean)} on average over calibration sets"
        if self.out_of_fold:
            return (
                f"{self.n} rows scored out of folds aim at {asked}{sure}: about {mean}, and one "
                f"set's rate about {spread}. That is the law of held-out rows; for scores out of "
                "folds it is no theorem."
            )
        if self.confidence is None:
            return (
                f"{self.n} rows promise false alarms of at most {asked} on average: {mean}, and "
                f"with one set, in the long run, {spread}."
            )
        return (
            f"{self.n} rows promise false alarms of at most {asked}{sure} over calibration sets: "
            f"{mean}, {spread}."
        )


def calibration_promise(
    n: int,
    false_alarm_rate: float,
    confidence: float | None = None,
    *,
    out_of_fold: bool = False,
) -> CalibrationPromise:
    r"""What n calibration rows can promise about false alarms, before or after there are any.

    Parameters
    ----------
    n : int
        Normal rows that set the threshold.
    false_alarm_rate : float in (0, 0.5]
        The share of normal rows that may be called anomalies.
    confidence : float in [0.5, 0.9999], optional
        With it, the rate is to hold with this probability over calibration sets; without, on
        average over them. As in :func:`conformal_offset`.
    out_of_fold : bool, default=False
        Whether the calibration scores come out of folds, for which the law of the rate is a guide
        and no theorem.

    Returns
    -------
    CalibrationPromise
        Numbers, and a ``sentence()``.

    Examples
    --------
    >>> from lpfuse.threshold import calibration_promise
    >>> promise = calibration_promise(199, 0.05)
    >>> promise.k, promise.mean, round(promise.low, 3), round(promise.high, 3)
    (10, 0.05, 0.028, 0.078)
    >>> sure = calibration_promise(199, 0.05, confidence=0.9)
    >>> sure.k, sure.mean, round(sure.high, 3), sure.needed
    (6, 0.03, 0.052, 45)
    """
    n = check_count("n", n)
    alpha = check_share("false_alarm_rate", false_alarm_rate, of="the normal rows")
    confidence = check_confidence(confidence)
    k = guaranteed_rank(n, alpha, confidence)
    low, high = (float(beta.ppf(at, k, n + 1 - k)) if k else 0.0 for at in (0.05, 0.95))
    if confidence is None:
        rows, lowest = 1 / alpha - 1, 1 / (n + 1)
    else:
        # k = 1 is enough: some calibration row must lie among the α strangest normal rows.
        rows = math.log1p(-confidence) / math.log1p(-alpha)
        lowest = -math.expm1(math.log1p(-confidence) / n)
    needed = math.ceil(min(rows - 1e-9, MANY))  # it may be a rounding error above a whole number
    return CalibrationPromise(
        n, alpha, confidence, out_of_fold,
        k, k / (n + 1), low, high, needed, lowest,
    )  # fmt: skip


def guaranteed_rank(n: int, rate: float, confidence: float | None) -> int:
    r"""Return the largest k whose k-th smallest calibration score keeps the promise.

    0 where none does.

    On average, :math:`k / (n + 1) \le` rate; with confidence,
    :math:`P(\mathrm{Beta}(k, n + 1 - k) \le \mathrm{rate}) \ge` confidence.

    Examples
    --------
    >>> (
    ...     guaranteed_rank(199, 0.05, None),
    ...     guaranteed_rank(199, 0.05, 0.9),
    ...     guaranteed_rank(40, 0.05, 0.9),
    ... )
    (10, 6, 0)
    """
    if confidence is None:
        return floor_share(rate, n + 1)
    # P(Beta(k, n + 1 − k) ≤ r) = P(Bin(n, r) ≥ k): the quantile is k, or one off by rounding.
    k = int(binom.ppf(1 - confidence, n, rate)) + 1
    while k > 0 and betainc(k, n + 1 - k, rate) < confidence:
        k -= 1
    return k


def floor_share(share: float, n: int) -> int:
    """Return the largest k with ``k / n <= share``.

    ``floor(share · n)`` without its rounding error.

    Examples
    --------
    >>> floor_share(0.29, 100), math.floor(0.29 * 100)
    (29, 28)
    """
    k = round(share * n)  # the floor, or one more: never less, for rounding is far below 1/2
    return k if k / n <= share else k - 1


def round_up(value: float, digits: int) -> float:
    """Return a number with few digits that is not below the value: what it offers is enough.

    Examples
    --------
    >>> round_up(1 / 9, 3), round_up(0.25, 3)
    (0.112, 0.25)
    """
    step = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    return float(f"{math.ceil(value / step - 1e-9) * step:.{digits}g}")


def _percent(share: float, up: bool = False) -> str:
    return f"{100 * round_up(share, 2):.3g} %" if up else f"{100 * share:.2g} %"


# --------------------------------------------------------------------------------------------------


def conformal_offset(
    calibration: Any, false_alarm_rate: float, confidence: float | None = None
) -> float:
    r"""The highest threshold that holds false alarms to a rate, on average or with confidence.

    It is the k-th smallest calibration score. On average over calibration sets the rate holds for
    :math:`k = \lfloor \alpha (n + 1) \rfloor`, and

    .. math:: s < c_{(k)} \iff p(s) \le \alpha

    for the p-values of :func:`conformal_pvalues`. With a confidence γ, k is the largest for which

    .. math:: P(\mathrm{Beta}(k, n + 1 - k) \le \alpha) \ge \gamma

    Parameters
    ----------
    calibration : array-like, or Dask array or series, of shape (n,)
        Scores of normal rows that were not learnt from, in any order. Dask's are read twice.
    false_alarm_rate : float in (0, 0.5]
        :math:`\alpha`, the share of normal rows that may be called anomalies.
    confidence : float in [0.5, 0.9999], optional
        γ, the probability, over calibration sets, that the long-run rate is at most α. By default
        the rate holds on average over calibration sets, and in about half of them it is exceeded.

    Returns
    -------
    float
        The threshold: a row is normal where ``score >= offset``. Minus infinity, with a warning,
        where there are too few rows for the rate: it takes :math:`n \ge 1/\alpha - 1`, and with
        confidence :math:`n \ge \log(1 - \gamma) / \log(1 - \alpha)`.

    Notes
    -----
    The guarantee, for a new normal row that is exchangeable with the calibration rows (for
    instance, all drawn independently from one distribution) and scores that saw none of them:

    .. math:: \alpha - \frac{1}{n + 1} < P(\text{false alarm}) = \frac{k}{n + 1} \le \alpha

    where ties can only make false alarms rarer. It is *marginal*, an average over calibration
    sets as well as new rows. Given one calibration set, the rate of false alarms in the long run
    is a number drawn from :math:`\mathrm{Beta}(k, n + 1 - k)`: for α = 0.05 and n = 199, between
    0.024 and 0.084 in 19 of 20 sets. A confidence bounds that number (it is then called PAC, or
    training-conditional; Vovk 2012), at the price of a lower threshold: for γ = 0.9 and n = 199
    the rate is 0.03 on average. :func:`calibration_promise` says what n rows can promise.

    Where calibration scores come out of folds, nothing so exact is known. Cross-conformal
    prediction, which scores a new row by the model of each fold, is close to α in practice (Vovk
    2015) and cannot do much worse than 2α (Barber et al. 2021, for CV+). One model refitted on all
    rows, whose scores are set against those of the folds' models, is close where leaving a fold
    out changes scores little, and has no bound where it changes them much.

    References
    ----------
    Vovk (2015). Cross-conformal predictors. Annals of Mathematics and Artificial Intelligence
    74, 9–28.

    Barber, Candès, Ramdas and Tibshirani (2021). Predictive inference with the jackknife+. Annals
    of Statistics 49(1), 486–507.

    Vovk (2012). Conditional validity of inductive conformal predictors. Proceedings of Machine
    Learning Research 25, 475–490.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse.threshold import conformal_offset
    >>> conformal_offset(np.arange(1, 100), false_alarm_rate=0.05)
    5.0
    >>> conformal_offset(np.arange(1, 100), false_alarm_rate=0.05, confidence=0.9)
    2.0
    """
    alpha = check_share("false_alarm_rate", false_alarm_rate, of="the normal rows")
    confidence = check_confidence(confidence)
    reference = checked(calibration, "calibration")
    k = guaranteed_rank(reference.size, alpha, confidence)
    if k == 0:
        warnings.warn(
            _too_few_message(reference.size, alpha, confidence), UserWarning, stacklevel=2
        )
        return -np.inf
    return _smallest(reference, [k - 1])[0]


def _too_few_message(n: int, alpha: float, confidence: float | None) -> str:
    promise = calibration_promise(n, alpha, confidence)
    sure = "" if confidence is None else f" with confidence {confidence:g}"
    lowest = round_up(promise.lowest_rate, 3)
    offered = f", or a rate from {lowest:g} upwards" if lowest <= 0.5 else ""
    return (
        f"{n} normal rows cannot hold false alarms to {alpha:g}{sure}: it takes {promise.needed} "
        "that the weights were not learnt from. Until then nothing is called an anomaly. Pass more "
        f"rows{offered}."
    )


def contamination_offset(scores: Any, contamination: float) -> float:
    """Return the threshold that leaves a share of the rows below it.

    Parameters
    ----------
    scores : array-like, or Dask array or series, of shape (n,)
        High = normal. Dask's are read twice.
    contamination : float in (0, 0.5]
        The share. Where it falls between two rows, or between equal scores, fewer rows lie below.

    Returns
    -------
    float
        Halfway between the last score below and the first above.

    Examples
    --------
    >>> from lpfuse.threshold import contamination_offset
    >>> contamination_offset([3.0, 1.0, 2.0, 4.0], contamination=0.25)
    1.5
    """
    share = check_share("contamination", contamination, of="the rows")
    values = checked(scores, "scores")
    k = floor_share(share, values.size)
    return halfway(*_smallest(values, [max(k - 1, 0), k]))


def g_mean_offset(scores: Any, labels: Any) -> float:
    """Return the threshold with the highest geometric mean of the hit rates on both classes.

    Parameters
    ----------
    scores : array-like, or Dask array or series, of shape (n,)
        High = normal. Dask's are brought into memory: this takes all of them in order.
    labels : array-like, or Dask array or series, of shape (n,)
        +1 normal, −1 anomaly; both must occur.

    Returns
    -------
    float
        The offset of :func:`lpfuse.metrics.best_g_mean`.

    Examples
    --------
    >>> from lpfuse.threshold import g_mean_offset
    >>> g_mean_offset([0.0, 1.0, 3.0, 4.0], [-1, -1, 1, 1])
    2.0
    """
    return best_g_mean(to_memory(labels), to_memory(scores))[1]


@dataclass(frozen=True)
class ThresholdRule:
    """A way to set the threshold of a detector by rows that its weights were not learnt from.

    A line of ``THRESHOLD_RULES`` is all that a new one takes: `FusedDetector` accepts its name,
    refuses labels that it cannot work with, and the report says its words.

    Attributes
    ----------
    offset : callable
        ``offset(scores, labels, false_alarm_rate) -> float``: held-out fused scores of shape (m,),
        high = normal, their labels (+1 normal, −1 anomaly), and the share of normal rows that may
        be called anomalies. A row is normal where its score is not below the result.
    words : str
        What the rule does, for the report; ``{false_alarm_rate}`` stands for the rate.
    needs_anomalies : bool
        Whether both classes are compared. If so, it is given all labelled rows, of which some must
        be anomalies; if not, the normal rows alone.
    """

    offset: Callable[[Host, Host, float], float]
    words: str
    needs_anomalies: bool = False


THRESHOLD_RULES = {
    "false-alarms": ThresholdRule(
        lambda scores, _labels, false_alarm_rate: conformal_offset(scores, false_alarm_rate),
        words="conformal, for false alarms on {false_alarm_rate:.3g} of the normal rows",
    ),
    "g-mean": ThresholdRule(
        lambda scores, labels, _false_alarm_rate: g_mean_offset(scores, labels),
        words="best geometric mean of the hit rates on labelled rows",
        needs_anomalies=True,
    ),
}


def checked(values: Any, name: str) -> Host | VectorInBlocks:
    """One number a row, without NaN, of some rows; in memory, or in blocks where it came so."""
    known = VectorInBlocks.of(values, name) if is_blocked(values) else check_values(values, name)
    if known.size == 0:
        raise ValueError(f"{name} must hold the score of at least one row, but it is empty.")
    return known


def _smallest(values: Host | VectorInBlocks, ranks: list[int]) -> list[float]:
    """Return the smallest numbers of given ranks, from 0, exactly."""
    if isinstance(values, VectorInBlocks):
        return values.smallest(ranks)
    return [float(value) for value in np.partition(values, ranks)[ranks]]


def to_memory(values: Any) -> Any:
    """Numbers of Dask as one array, others as they are."""
    return values.compute() if is_blocked(values) else values


# --------------------------------------------------------------------------------------------------
# P-values of scores among those of normal rows.


def conformal_pvalues(calibration: Any, scores: Any, *, random_state: Any = None) -> Array:
    r"""Return how unusual each score is among those of normal rows, as a p-value.

    .. math:: p(s) = \frac{1 + \#\{i : c_i \le s\}}{n + 1}

    A normal row that is exchangeable with the n calibration rows has
    :math:`P(p \le \alpha) \le \alpha` for every :math:`\alpha`, whatever the distribution of the
    scores: see :func:`conformal_offset` for what that does and does not say.

    Parameters
    ----------
    calibration : array-like, or Dask array or series, of shape (n,)
        Scores of normal rows that were not learnt from, in any order.
    scores : array-like, or Dask array or series, of shape (m,)
        Scores of new rows, high = normal. NaN where there is none.
    random_state : int or RandomState, optional
        Break ties between scores at random, which makes p-values exact: see the notes. By default
        a tie counts as no stranger. Takes scores in memory.

    Returns
    -------
    ndarray of shape (m,)
        From 1/(n + 1), for a row below all calibration rows, to 1; NaN where the score is. Lazy
        where `scores` are Dask's.

    Notes
    -----
    Without ties :math:`P(p \le \alpha) = \lfloor \alpha (n + 1) \rfloor / (n + 1)` for a normal
    row. With ties it is less, and much less where few different scores occur: valid, but blunt.
    With a `random_state` every row, of both tables, draws a number that decides its ties, and
    the equality holds again; so does what :func:`control_false_discoveries` promises for scores
    without ties. Two rows with equal scores may then have different p-values.

    Calibration scores in Dask are read at once, and summarised. Counts are then known up to a
    proven error (of up to 9,000 rows, exactly); the highest count possible is taken, so that
    p-values stay valid, and are too large by 0.002 at most. Where smaller ones matter, as in
    :func:`control_false_discoveries`, calibrate on a random part that fits in memory instead.

    References
    ----------
    Bates, Candès, Lei, Romano and Sesia (2023). Testing for outliers with conformal p-values.
    Annals of Statistics 51(1), 149–178.

    Examples
    --------
    >>> from lpfuse.threshold import conformal_pvalues
    >>> conformal_pvalues([3.0, 1.0, 2.0, 4.0], [0.0, 2.0, 9.0])
    array([0.2, 0.6, 1. ])
    """
    known = checked(calibration, "calibration")
    if random_state is not None:
        if is_blocked(scores) or isinstance(known, VectorInBlocks):
            raise ValueError(
                "random_state breaks ties between scores in memory, but some are Dask's. Pass "
                "their .compute(), or leave random_state out."
            )
        values = check_values(scores, "scores", allow_nan=True)
        known, values = _break_ties(known, values, check_random_state(random_state))
        return _pvalues(values, np.sort(known))
    # A stable sort is linear where scores are sorted already, as those of a fused detector are.
    reference = known.sketch if isinstance(known, VectorInBlocks) else np.sort(known, kind="stable")
    if not is_blocked(scores):
        return _pvalues(check_values(scores, "scores", allow_nan=True), reference)
    check_vector_blocks(scores, "scores")
    return map_rows(_block_pvalues, scores, reference, dtype=np.float64)


def _block_pvalues(scores: Any, reference: Host | QuantileSketch) -> Host:
    return _pvalues(to_host(arrays_of((scores, None, None))[0]), reference)


def _pvalues(scores: Host, reference: Host | QuantileSketch) -> Host:
    if isinstance(reference, QuantileSketch):
        n, up_to = reference.n, reference.ranks(scores[:, None])[1][:, 0]
    else:
        n, up_to = reference.size, np.searchsorted(reference, scores, side="right")
    return np.where(np.isnan(scores), np.nan, (1 + up_to) / (n + 1))


def _break_ties(known: Host, scores: Host, random: np.random.RandomState) -> tuple[Host, Host]:
    """Other numbers in the same order, where equal scores are in a random order."""
    different, place = np.unique(np.concatenate([known, scores]), return_inverse=True)
    # Places are whole numbers, so that draws from [0, 1) change the order of equal ones alone.
    places = place + random.random_sample(place.size)
    places = np.where(np.isnan(different[place]), np.nan, places)
    return places[: known.size], places[known.size :]
