"""Thresholds by a false alarm rate, by contamination or by labels, and conformal p-values."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betainc, betaincinv
from sklearn.utils import check_random_state

from lpfuse._arrays.blocks import arrays_of, map_rows
from lpfuse._arrays.operations import Array, Host, is_blocked, to_host
from lpfuse._quantiles import QuantileSketch, VectorInBlocks
from lpfuse._validation.dask_blocks import check_vector_blocks
from lpfuse._validation.params import check_confidence, check_count, check_share, check_values
from lpfuse.metrics import best_g_mean, halfway

# --------------------------------------------------------------------------------------------------
# Guarantees of n calibration rows.

TAIL = 0.025  # on each side of the intervals: 95 %, as everywhere in a report


MANY = 1e15  # cap of the number of rows, which would overflow for rates near 0


@dataclass(frozen=True)
class CalibrationPromise:
    r"""The guarantee on false alarms of a threshold set by n calibration rows.

    The threshold is the k-th smallest calibration score. The long-run share of normal rows below it
    is a random number of the calibration set with distribution
    :math:`\mathrm{Beta}(k, n + 1 - k)`, or less with ties. This holds for held-out rows; for
    out-of-fold scores it is not a theorem, and `sentence` says so.

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
        The long-run rate lies between these for nine calibration sets of ten.
    needed : int
        Calibration rows needed for the rate and confidence.
    lowest_rate : float
        The lowest rate that n rows can guarantee.
    because : str
        Why nothing is promised although there are enough rows; the promise is then false, as it is
        where k is 0.
    burst : int or None
        Of rows in time order, judged by an adaptive level: how many alarms may come at once.
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
    because: str = ""
    burst: int | None = None

    def __bool__(self) -> bool:
        return self.k > 0 and not self.because

    def sentence(self) -> str:
        """Return the guarantee as a sentence.

        Examples
        --------
        >>> from lpfuse.threshold import calibration_promise
        >>> calibration_promise(60, 0.01).sentence()
        '60 rows cannot promise 1 %: nothing would be called an anomaly. It takes 99 rows, or ask \
for 1.7 % or more.'
        """
        asked, sure = _percent(self.false_alarm_rate), ""
        if self.because:
            return f"No rate of false alarms is promised: {self.because}."
        if self.burst is not None and self.k:
            return (
                f"Of any n consecutive rows, at most {asked} and {self.burst + 1} more are called "
                f"anomalies, whatever the rows do; {asked} in the long run, where rows change no "
                f"faster than in the {self.n} rows of the rehearsal."
            )
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
    r"""Return the guarantee on false alarms that n calibration rows allow.

    Parameters
    ----------
    n : int
        Normal rows that set the threshold.
    false_alarm_rate : float in (0, 0.5]
        The share of normal rows that may be called anomalies.
    confidence : float in [0.5, 0.9999], optional
        Probability, over calibration sets, with which the rate holds; without it the rate holds on
        average over them. As in :func:`conformal_offset`.
    out_of_fold : bool, default=False
        Whether the calibration scores are out-of-fold, for which the distribution of the rate is
        an approximation, not a theorem.

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
    low, high = (float(betaincinv(k, n + 1 - k, at)) if k else 0.0 for at in (0.05, 0.95))
    if confidence is None:
        rows, lowest = 1 / alpha - 1, 1 / (n + 1)
    else:
        # k = 1 is enough: some calibration row must lie among the lowest share α of normal rows.
        rows = math.log1p(-confidence) / math.log1p(-alpha)
        lowest = -math.expm1(math.log1p(-confidence) / n)
    needed = math.ceil(min(rows - 1e-9, MANY))  # may exceed an integer by rounding
    return CalibrationPromise(
        n, alpha, confidence, out_of_fold,
        k, k / (n + 1), low, high, needed, lowest,
    )  # fmt: skip


def guaranteed_rank(n: int, rate: float, confidence: float | None) -> int:
    r"""Return the largest rank k whose calibration score guarantees the rate; 0 if none does.

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
    from scipy.stats import binom

    # P(Beta(k, n + 1 − k) ≤ r) = P(Bin(n, r) ≥ k): the quantile is k up to rounding.
    k = int(binom.ppf(1 - confidence, n, rate)) + 1
    while k > 0 and betainc(k, n + 1 - k, rate) < confidence:
        k -= 1
    return k


def floor_share(share: float, n: int) -> int:
    """Return the largest k with ``k / n <= share``: ``floor(share · n)`` without rounding error.

    Examples
    --------
    >>> floor_share(0.29, 100), math.floor(0.29 * 100)
    (29, 28)
    """
    k = round(share * n)  # the floor, or one more
    return k if k / n <= share else k - 1


def round_up(value: float, digits: int) -> float:
    """Round a number up to the given significant digits.

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
# Thresholds.


def conformal_offset(
    calibration: Any, false_alarm_rate: float, confidence: float | None = None
) -> float:
    r"""Return the highest threshold with a false alarm rate, on average or with confidence.

    It is the k-th smallest calibration score. On average over calibration sets the rate holds for
    :math:`k = \lfloor \alpha (n + 1) \rfloor`, and

    .. math:: s < c_{(k)} \iff p(s) \le \alpha

    for the p-values of :func:`conformal_pvalues`. With a confidence γ, k is the largest for which

    .. math:: P(\mathrm{Beta}(k, n + 1 - k) \le \alpha) \ge \gamma

    Parameters
    ----------
    calibration : array-like, or Dask array or series, of shape (n,)
        Scores of held-out normal rows, in any order. Dask collections are read twice.
    false_alarm_rate : float in (0, 0.5]
        :math:`\alpha`, the share of normal rows that may be called anomalies.
    confidence : float in [0.5, 0.9999], optional
        γ, the probability, over calibration sets, that the long-run rate is at most α. By default
        the rate holds on average over calibration sets, and in about half of them it is exceeded.

    Returns
    -------
    float
        The threshold: a row is normal where ``score >= offset``. Minus infinity, with a warning,
        where there are too few rows for the rate: :math:`n \ge 1/\alpha - 1` are needed, and with
        confidence :math:`n \ge \log(1 - \gamma) / \log(1 - \alpha)`.

    Notes
    -----
    The guarantee, for a new normal row that is exchangeable with the calibration rows (for
    instance, all drawn independently from one distribution) and a detector fitted without them:

    .. math:: \alpha - \frac{1}{n + 1} < P(\text{false alarm}) = \frac{k}{n + 1} \le \alpha

    where ties can only make false alarms rarer. It is *marginal*, an average over calibration
    sets as well as new rows. Given one calibration set, the long-run false alarm rate has the
    distribution :math:`\mathrm{Beta}(k, n + 1 - k)`: for α = 0.05 and n = 199, between 0.024 and
    0.084 in 19 of 20 sets. A confidence bounds it (then called PAC, or training-conditional; Vovk
    2012), at the price of a lower threshold: for γ = 0.9 and n = 199 the rate is 0.03 on average.
    :func:`calibration_promise` returns the guarantee of n rows.

    For out-of-fold calibration scores no such exact result is known. Cross-conformal prediction,
    which scores a new row by the model of each fold, is close to α in practice (Vovk 2015) and at
    most about 2α (Barber et al. 2021, for CV+). One model refitted on all rows, whose scores are
    compared with those of the folds' models, is close where leaving a fold out changes scores
    little, and has no bound otherwise.

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
        f"held-out normal rows. Until then nothing is called an anomaly. Pass more rows{offered}."
    )


def contamination_offset(scores: Any, contamination: float) -> float:
    """Return the threshold with a share of the rows below it.

    Parameters
    ----------
    scores : array-like, or Dask array or series, of shape (n,)
        High = normal. Dask collections are read twice.
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
        High = normal. Dask collections are loaded into memory.
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
    """A rule that sets the threshold of a detector by held-out rows.

    An entry in ``THRESHOLD_RULES`` adds a rule: `FusedDetector` accepts its name, checks the labels
    that it needs, and the report prints its words.

    Attributes
    ----------
    offset : callable
        ``offset(scores, labels, false_alarm_rate) -> float``: held-out fused scores of shape (m,),
        high = normal, their labels (+1 normal, −1 anomaly), and the share of normal rows that may
        be called anomalies. A row is normal where its score is not below the result.
    words : str
        Description for the report; ``{false_alarm_rate}`` is replaced by the rate.
    needs_anomalies : bool
        Whether the rule needs labelled anomalies. If so, it gets all labelled rows, otherwise the
        normal rows only.
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
    """Check one number per row, without NaN and not empty, in memory or in Dask blocks."""
    known = VectorInBlocks.of(values, name) if is_blocked(values) else check_values(values, name)
    if known.size == 0:
        raise ValueError(f"{name} must hold the score of at least one row, but it is empty.")
    return known


def _smallest(values: Host | VectorInBlocks, ranks: list[int]) -> list[float]:
    """Return the exact order statistics of given ranks, from 0."""
    if isinstance(values, VectorInBlocks):
        return values.smallest(ranks)
    return [float(value) for value in np.partition(values, ranks)[ranks]]


def to_memory(values: Any) -> Any:
    """Load a Dask collection into memory; return anything else unchanged."""
    return values.compute() if is_blocked(values) else values


# --------------------------------------------------------------------------------------------------
# Conformal p-values.


def conformal_pvalues(calibration: Any, scores: Any, *, random_state: Any = None) -> Array:
    r"""Return the conformal p-value of each score with respect to normal rows.

    .. math:: p(s) = \frac{1 + \#\{i : c_i \le s\}}{n + 1}

    A normal row that is exchangeable with the n calibration rows has
    :math:`P(p \le \alpha) \le \alpha` for every :math:`\alpha`, whatever the distribution of the
    scores; :func:`conformal_offset` discusses the guarantee.

    Parameters
    ----------
    calibration : array-like, or Dask array or series, of shape (n,)
        Scores of held-out normal rows, in any order.
    scores : array-like, or Dask array or series, of shape (m,)
        Scores of new rows, high = normal. NaN where there is none.
    random_state : int or RandomState, optional
        Break ties between scores at random, which makes p-values exact: see the notes. By default
        ties increase the p-value. Needs scores in memory.

    Returns
    -------
    ndarray of shape (m,)
        From 1/(n + 1), for a row below all calibration rows, to 1; NaN where the score is. Lazy
        where `scores` are Dask's.

    Notes
    -----
    Without ties :math:`P(p \le \alpha) = \lfloor \alpha (n + 1) \rfloor / (n + 1)` for a normal
    row. With ties it is less, and much less with few distinct scores: valid, but conservative.
    With a `random_state`, ties are broken by a random number per row, and the equality holds
    again; so does the guarantee of :func:`control_false_discoveries` for scores without ties. Two
    rows with equal scores may then have different p-values.

    Calibration scores in Dask are summarised in one pass. Counts are known up to a proven error
    (exactly up to 9,000 rows); the largest possible count is used, so that p-values stay valid,
    and are too large by 0.002 at most. Where small p-values matter, as in
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
                "random_state needs scores in memory, but some are Dask collections. Pass "
                "their .compute(), or leave random_state out."
            )
        values = check_values(scores, "scores", allow_nan=True)
        known, values = _break_ties(known, values, check_random_state(random_state))
        return _pvalues(values, np.sort(known))
    # A stable sort is linear for sorted scores, such as those of a fused detector.
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
    """Return numbers in the same order as the scores, with ties in random order."""
    different, place = np.unique(np.concatenate([known, scores]), return_inverse=True)
    # Places are integers: draws from [0, 1) change only the order of ties.
    places = place + random.random_sample(place.size)
    places = np.where(np.isnan(different[place]), np.nan, places)
    return places[: known.size], places[known.size :]


def share_interval(k: int, n: int) -> tuple[float, float]:
    """Compute the 95 % Clopper-Pearson interval of a share, from k of n rows.

    Examples
    --------
    >>> from lpfuse.threshold.offsets import share_interval
    >>> low, high = share_interval(0, 60)
    >>> low, round(high, 3)
    (0.0, 0.06)
    """
    low = 0.0 if k == 0 else float(betaincinv(k, n - k + 1, TAIL))
    high = 1.0 if k == n else float(betaincinv(k + 1, n - k, 1 - TAIL))
    return low, high


# ------------------------------------------------------------------- what the threshold promises

Figures = dict[str, Any]


LEAST = 1e-9  # what rounding may take from a product that is a whole number


def requested_rate(fused: Any) -> Figures:
    """Return the requested rate of false alarms, and the calibration that holds it.

    Parameters
    ----------
    fused : FusedDetector
        Fitted.

    Returns
    -------
    dict
        ``asked``: the rate; None where the threshold was set by something else. ``of``: of which
        rows. ``confidence``: the probability with which the rate is kept; None: on average.
        ``calibration_rows``: n. ``long_run``: ends of the 95 % interval of the share of alarms
        among ever more of such rows. ``too_few``: None or, where n rows cannot hold the rate, the
        number that can, and the least rate that n rows can.
    """
    n, confidence = len(fused.calibration_), getattr(fused, "confidence", None)
    found: Figures = {"asked": None, "of": "normal", "confidence": confidence}
    if fused.contamination is not None:
        found |= {"asked": float(fused.contamination), "of": "training", "confidence": None}
    elif fused.threshold == "false-alarms":
        found["asked"] = float(fused.false_alarm_rate)
    too_few = None
    if found["asked"] is not None and np.isneginf(fused.offset_):
        too_few = _rows_needed(found["asked"], n, found["confidence"])
    found |= {"calibration_rows": n, "too_few": too_few, "long_run": None}
    if found["asked"] is not None and too_few is None and n and fused.order_.spacing == 1:
        least, most = threshold_ranks(fused, found)
        ends = betaincinv([least, most], [n + 1 - least, n + 1 - most], [TAIL, 1 - TAIL])
        found["long_run"] = ends.tolist()
    return found


def _rows_needed(rate: float, n: int, confidence: float | None) -> Figures:
    """Compute the rows needed: the lowest of n scores holds rates from 1/(n + 1) on.

    With probability `confidence`: from 1 − (1 − confidence)^(1/n) on, by Beta(1, n).
    """
    if confidence is None:
        return {"needed": math.ceil(1 / rate - 1 - LEAST), "least_rate": 1 / (n + 1)}
    least = 1.0 if n == 0 else 1 - (1 - confidence) ** (1 / n)
    return {
        "needed": math.ceil(math.log(1 - confidence) / math.log(1 - rate) - LEAST),
        "least_rate": least,
    }


def threshold_ranks(fused: Any, asked: Figures) -> tuple[int, int]:
    """Between which ranks the threshold lies among the n calibration scores.

    The rule sets the k-th smallest, k = ⌊rate (n + 1)⌋. Fewer scores lie below where some are
    equal, and where the rate is held with a probability: that lowers the threshold on purpose.
    """
    n = asked["calibration_rows"]
    if asked["of"] == "training":  # halfway between two scores of all rows, not of normal ones
        k = math.floor(asked["asked"] * n + LEAST)
        return max(k, 1), min(k + 1, n)
    below = int(np.searchsorted(fused.calibration_, fused.offset_)) + 1
    k = math.floor(asked["asked"] * (n + 1) + LEAST)
    most = below if asked["confidence"] is not None else k
    return max(1, min(k, below)), min(max(1, most), n)
