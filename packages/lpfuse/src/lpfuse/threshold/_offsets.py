"""Thresholds: by a rate of false alarms, by a share of the rows, by labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lpfuse._arrays.operations import Host, is_blocked
from lpfuse._checks.arguments import check_share, check_values
from lpfuse._checks.options import check_confidence
from lpfuse._quantiles import VectorInBlocks
from lpfuse.metrics import best_g_mean, halfway
from lpfuse.threshold._promise import (
    calibration_promise,
    parts_within,
    promised_rank,
    rounded_from_above,
)


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
    k = promised_rank(reference.size, alpha, confidence)
    if k == 0:
        warnings.warn(_too_few(reference.size, alpha, confidence), UserWarning, stacklevel=2)
        return -np.inf
    return _smallest(reference, [k - 1])[0]


def _too_few(n: int, alpha: float, confidence: float | None) -> str:
    promise = calibration_promise(n, alpha, confidence)
    sure = "" if confidence is None else f" with confidence {confidence:g}"
    lowest = rounded_from_above(promise.lowest_rate, 3)
    offered = f", or a rate from {lowest:g} upwards" if lowest <= 0.5 else ""
    return (
        f"{n} normal rows cannot hold false alarms to {alpha:g}{sure}: it takes {promise.needed} "
        "that the weights were not learnt from. Until then nothing is called an anomaly. Pass more "
        f"rows{offered}."
    )


def contamination_offset(scores: Any, contamination: float) -> float:
    """The threshold that leaves a share of the rows below it.

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
    k = parts_within(share, values.size)
    return halfway(*_smallest(values, [max(k - 1, 0), k]))


def g_mean_offset(scores: Any, labels: Any) -> float:
    """The threshold with the highest geometric mean of the hit rates on both classes.

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
    return best_g_mean(in_memory(labels), in_memory(scores))[1]


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
    """The smallest numbers of given ranks, from 0, exactly."""
    if isinstance(values, VectorInBlocks):
        return values.smallest(ranks)
    return [float(value) for value in np.partition(values, ranks)[ranks]]


def in_memory(values: Any) -> Any:
    """Numbers of Dask as one array, others as they are."""
    return values.compute() if is_blocked(values) else values
