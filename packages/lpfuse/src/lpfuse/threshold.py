"""From scores to decisions: thresholds, p-values, and control of false discoveries.

All work on scores alone, high = normal; a row is an anomaly where its score is below the threshold.
*Calibration* scores are those of normal rows that neither detectors nor weights have learnt from.

Scores may be Dask arrays or series. Order statistics take two reads and are as exact as in memory;
what needs all scores in one place says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import false_discovery_control

from lpfuse._arrays.blocks import arrays_of, map_rows
from lpfuse._arrays.operations import Array, Host, is_blocked, to_host
from lpfuse._checks.arguments import check_share, check_values
from lpfuse._checks.blocks import check_vector_blocks
from lpfuse._quantiles import QuantileSketch, VectorInBlocks
from lpfuse.metrics import best_g_mean, halfway

__all__ = [
    "THRESHOLD_RULES", "ThresholdRule", "conformal_offset", "conformal_pvalues",
    "contamination_offset", "control_false_discoveries", "g_mean_offset",
]  # fmt: skip


def conformal_pvalues(calibration: Any, scores: Any) -> Array:
    r"""How unusual each score is among those of normal rows, as a p-value.

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

    Returns
    -------
    ndarray of shape (m,)
        From 1/(n + 1), for a row below all calibration rows, to 1; NaN where the score is. Lazy
        where `scores` are Dask's.

    Notes
    -----
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
    known = _checked(calibration, "calibration")
    # A stable sort is linear where scores are sorted already, as those of a fused detector are.
    reference = known.sketch if isinstance(known, VectorInBlocks) else np.sort(known, kind="stable")
    if not is_blocked(scores):
        return _pvalues(check_values(scores, "scores", may_miss=True), reference)
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


def conformal_offset(calibration: Any, false_alarm_rate: float) -> float:
    r"""The highest threshold that holds false alarms to a rate.

    With :math:`k = \lfloor \alpha (n + 1) \rfloor` it is the k-th smallest calibration score, and

    .. math:: s < c_{(k)} \iff p(s) \le \alpha

    for the p-values of :func:`conformal_pvalues`.

    Parameters
    ----------
    calibration : array-like, or Dask array or series, of shape (n,)
        Scores of normal rows that were not learnt from, in any order. Dask's are read twice.
    false_alarm_rate : float in (0, 0.5]
        :math:`\alpha`, the share of normal rows that may be called anomalies.

    Returns
    -------
    float
        The threshold: a row is normal where ``score >= offset``. Minus infinity, with a warning,
        where there are too few rows for the rate: it takes :math:`n \ge 1/\alpha - 1`.

    Notes
    -----
    The guarantee, for a new normal row that is exchangeable with the calibration rows (for
    instance, all drawn independently from one distribution) and scores that saw none of them:

    .. math:: \alpha - \frac{1}{n + 1} < P(\text{false alarm}) = \frac{k}{n + 1} \le \alpha

    where ties can only make false alarms rarer. It is *marginal*, an average over calibration
    sets as well as new rows. Given one calibration set, the rate of false alarms in the long run
    is a number drawn from :math:`\mathrm{Beta}(k, n + 1 - k)`: for α = 0.05 and n = 199, between
    0.024 and 0.084 in 19 of 20 sets.

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

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse.threshold import conformal_offset
    >>> conformal_offset(np.arange(1, 100), false_alarm_rate=0.05)
    5.0
    """
    alpha = check_share("false_alarm_rate", false_alarm_rate, of="the normal rows")
    reference = _checked(calibration, "calibration")
    k = _parts_within(alpha, reference.size + 1)
    if k == 0:
        warnings.warn(
            f"{reference.size} normal rows cannot hold false alarms to {alpha:g}: it takes "
            f"{np.ceil(1 / alpha - 1 - 1e-9):.0f} that the weights were not learnt from. Until "
            "then nothing is called an anomaly. Pass more rows, or a rate from "
            f"{1 / (reference.size + 1):.3g} upwards.",
            UserWarning,
            stacklevel=2,
        )
        return -np.inf
    return _smallest(reference, [k - 1])[0]


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
    values = _checked(scores, "scores")
    k = _parts_within(share, values.size)
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
    return best_g_mean(_in_memory(labels), _in_memory(scores))[1]


def control_false_discoveries(pvalues: Any, rate: float) -> NDArray[np.bool_]:
    r"""Which rows of a batch to declare anomalies, so that few of those declared are normal.

    Benjamini and Hochberg's rule: with the p-values of the m rows in ascending order, declare the
    first j rows for the largest j such that

    .. math:: p_{(j)} \le \mathrm{rate} \cdot j / m

    Parameters
    ----------
    pvalues : array-like, or Dask array or series, of shape (m,)
        Of one batch, for instance from :func:`conformal_pvalues`. NaN where there is none: such a
        row is never declared, and does not count. Dask's are brought into memory.
    rate : float in (0, 1]
        The false discovery rate: the expected share of normal rows among those declared, where
        none declared counts as zero.

    Returns
    -------
    ndarray of shape (m,)
        True for the rows declared anomalies.

    Notes
    -----
    Conformal p-values of one batch all lean on one calibration set, and so are not independent.
    Bates et al. (2023) show that they depend positively (PRDS), and that the rule therefore keeps
    the rate (indeed the rate times the share of normal rows), when

    * scores saw none of the calibration rows, as in split calibration: for scores that come out
      of folds there is no such theorem;
    * the rows of the batch are independent of each other and of the calibration rows, and the
      normal ones follow the same distribution;
    * scores have no ties.

    The rate is an average over batches and calibration sets. With n calibration rows no p-value
    is below 1/(n + 1): fewer than m / (rate · (n + 1)) anomalies in a batch cannot be declared.

    References
    ----------
    Benjamini and Hochberg (1995). Controlling the false discovery rate. Journal of the Royal
    Statistical Society B 57(1), 289–300.

    Bates et al. (2023): see :func:`conformal_pvalues`.

    Examples
    --------
    >>> from lpfuse.threshold import control_false_discoveries
    >>> control_false_discoveries([0.01, 0.04, 0.03, 0.5], rate=0.1)
    array([ True,  True,  True, False])
    """
    known = check_values(_in_memory(pvalues), "pvalues", may_miss=True)
    level = check_share("rate", rate, of="the rows declared anomalies", at_most=1)
    if ((known < 0) | (known > 1)).any():
        raise ValueError(
            f"pvalues must lie in [0, 1], got values from {np.nanmin(known):g} to "
            f"{np.nanmax(known):g}. Turn scores into p-values with conformal_pvalues."
        )
    declared = ~np.isnan(known)
    adjusted = false_discovery_control(known[declared], method="bh")
    # p-values are fractions and often lie on the line exactly: rounding (1e-16) must not decide.
    declared[declared] = adjusted <= level * (1 + 1e-12)
    return declared


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


def _checked(values: Any, name: str) -> Host | VectorInBlocks:
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


def _in_memory(values: Any) -> Any:
    """Numbers of Dask as one array, others as they are."""
    return values.compute() if is_blocked(values) else values


def _parts_within(share: float, n: int) -> int:
    """The largest k with ``k / n <= share``: ``floor(share · n)`` without its rounding error.

    Examples
    --------
    >>> import math
    >>> _parts_within(0.29, 100), math.floor(0.29 * 100)
    (29, 28)
    """
    k = round(share * n)  # the floor, or one more: never less, for rounding is far below 1/2
    return k if k / n <= share else k - 1
