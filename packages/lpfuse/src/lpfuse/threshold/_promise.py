"""What a number of calibration rows can promise, as numbers and in words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import betainc
from scipy.stats import beta, binom

from lpfuse._checks.arguments import check_count, check_share
from lpfuse._checks.options import check_confidence

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
        """The promise in plain words.

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
    k = promised_rank(n, alpha, confidence)
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


def promised_rank(n: int, rate: float, confidence: float | None) -> int:
    r"""The largest k whose k-th smallest calibration score keeps the promise; 0 where none does.

    On average, :math:`k / (n + 1) \le` rate; with confidence,
    :math:`P(\mathrm{Beta}(k, n + 1 - k) \le \mathrm{rate}) \ge` confidence.

    Examples
    --------
    >>> promised_rank(199, 0.05, None), promised_rank(199, 0.05, 0.9), promised_rank(40, 0.05, 0.9)
    (10, 6, 0)
    """
    if confidence is None:
        return parts_within(rate, n + 1)
    # P(Beta(k, n + 1 − k) ≤ r) = P(Bin(n, r) ≥ k): the quantile is k, or one off by rounding.
    k = int(binom.ppf(1 - confidence, n, rate)) + 1
    while k > 0 and betainc(k, n + 1 - k, rate) < confidence:
        k -= 1
    return k


def parts_within(share: float, n: int) -> int:
    """The largest k with ``k / n <= share``: ``floor(share · n)`` without its rounding error.

    Examples
    --------
    >>> parts_within(0.29, 100), math.floor(0.29 * 100)
    (29, 28)
    """
    k = round(share * n)  # the floor, or one more: never less, for rounding is far below 1/2
    return k if k / n <= share else k - 1


def rounded_from_above(value: float, digits: int) -> float:
    """A number with few digits that is not below the value: what it offers is enough.

    Examples
    --------
    >>> rounded_from_above(1 / 9, 3), rounded_from_above(0.25, 3)
    (0.112, 0.25)
    """
    step = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    return float(f"{math.ceil(value / step - 1e-9) * step:.{digits}g}")


def _percent(share: float, up: bool = False) -> str:
    return f"{100 * rounded_from_above(share, 2):.3g} %" if up else f"{100 * share:.2g} %"
