r"""The share of alarms that was asked for, what is to be expected of it, and what was measured.

The threshold rests on n calibration scores, so that it is uncertain itself. As their k-th smallest
it flags a share of normal rows that is, over calibration sets, a Beta(k, n + 1 − k) variable, and
of m new rows a beta-binomial number (Vovk 2012; Bates et al. 2023). Both suppose that new rows are
exchangeable with the calibration rows.

References
----------
Vovk (2012). Conditional validity of inductive conformal predictors. Proceedings of the Asian
Conference on Machine Learning, 475–490.

Bates, Candès, Lei, Romano and Sesia (2023). Testing for outliers with conformal p-values. Annals of
Statistics 51(1), 149–178.

Clopper and Pearson (1934). The use of confidence or fiducial limits illustrated in the case of the
binomial. Biometrika 26(4), 404–413.
"""

from __future__ import annotations

from math import ceil, floor, log
from typing import Any

import numpy as np
from scipy.stats import beta, betabinom

from lpfuse.ensemble import FusedDetector
from lpfuse.tables._alarm_counts import KINDS, MOST, AlarmCounts, copied_rows

Figures = dict[str, Any]
TAIL = 0.025  # on each side of the intervals: 95 %, as everywhere in a report
LEAST = 1e-9  # what rounding may take from a product that is a whole number


def share_interval(k: int, n: int) -> tuple[float, float]:
    """The 95 % interval of Clopper and Pearson for a share, of which k of n rows were seen.

    Examples
    --------
    >>> low, high = share_interval(0, 60)
    >>> low, round(high, 3)
    (0.0, 0.06)
    """
    low = 0.0 if k == 0 else float(beta.ppf(TAIL, k, n - k + 1))
    high = 1.0 if k == n else float(beta.ppf(1 - TAIL, k + 1, n - k))
    return low, high


def asked_of(fused: FusedDetector) -> Figures:
    """The rate that was asked for, and the calibration that holds it.

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
        too_few = _too_few(found["asked"], n, found["confidence"])
    found |= {"calibration_rows": n, "too_few": too_few, "long_run": None}
    if found["asked"] is not None and too_few is None and n:
        least, most = _ranks(fused, found)
        ends = beta.ppf(TAIL, least, n + 1 - least), beta.ppf(1 - TAIL, most, n + 1 - most)
        found["long_run"] = [float(end) for end in ends]
    return found


def _too_few(rate: float, n: int, confidence: float | None) -> Figures:
    """The lowest of n scores is a threshold at a rate from 1/(n + 1) on.

    With probability `confidence`: from 1 − (1 − confidence)^(1/n) on, by Beta(1, n).
    """
    if confidence is None:
        return {"needed": ceil(1 / rate - 1 - LEAST), "least_rate": 1 / (n + 1)}
    least = 1.0 if n == 0 else 1 - (1 - confidence) ** (1 / n)
    return {"needed": ceil(log(1 - confidence) / log(1 - rate) - LEAST), "least_rate": least}


def _ranks(fused: FusedDetector, asked: Figures) -> tuple[int, int]:
    """Between which ranks the threshold lies among the n calibration scores.

    The rule sets the k-th smallest, k = ⌊rate (n + 1)⌋. Fewer scores lie below where some are
    equal, and where the rate is held with a probability: that lowers the threshold on purpose.
    """
    n = asked["calibration_rows"]
    if asked["of"] == "training":  # halfway between two scores of all rows, not of normal ones
        k = floor(asked["asked"] * n + LEAST)
        return max(k, 1), min(k + 1, n)
    below = int(np.searchsorted(fused.calibration_, fused.offset_)) + 1
    k = floor(asked["asked"] * (n + 1) + LEAST)
    most = below if asked["confidence"] is not None else k
    return max(1, min(k, below)), min(max(1, most), n)


def alarm_figures(fused: FusedDetector, counts: AlarmCounts) -> Figures:
    """The alarms of some rows beside those that were asked for.

    Parameters
    ----------
    fused : FusedDetector
        Fitted.
    counts : AlarmCounts
        Of rows that it has judged.

    Returns
    -------
    dict
        What `asked_of` gives; ``rows``, ``normal``, ``anomalies``, ``unlabelled``, ``complete``,
        ``incomplete`` (a cell is missing, or holds a text that was not in the training), each None
        where there is no such row, else a dict of ``rows``, ``flagged``, ``share``, ``low`` and
        ``high``, the ends of its 95 % interval; ``trained_on``: ``rows`` that the detector learnt
        from, whether these are so many that the whole ``flatters``, and the share of them whose
        ``held_out`` scores lie below the threshold.

        ``normal`` and ``unlabelled`` have ``expected`` as well: the ends of the 95 % interval of
        flagged ones among as many new rows like those of the calibration; and ``verdict``: "more",
        "fewer" or "as expected"; ``unlabelled`` also has ``false``, see `likely_false`. They are
        None where there is nothing to compare with.
    """
    learnt, asked = copied_rows(fused, counts), asked_of(fused)
    most = learnt >= MOST * counts.table.sum() > 0
    # New rows alone are compared, if there are others among them.
    table = counts.table[:, :, 0] if learnt and not most else counts.table.sum(axis=2)
    found: Figures = {**asked, "rows": _share(*counts.table.sum(axis=(0, 1, 2)))}
    for place, kind in enumerate(KINDS):
        found[kind] = _share(*table[place].sum(axis=0))
    for kind in ("normal", "unlabelled"):
        if found[kind] is not None:
            # A share of all rows, anomalies included, says nothing of normal rows alone.
            fits = kind == "unlabelled" or asked["of"] == "normal"
            found[kind] |= _compared(fused, asked if fits and not most else None, found[kind])
    for place, kind in enumerate(("complete", "incomplete")):
        found[kind] = _share(*counts.table[:, place].sum(axis=(0, 1)))
    held_out, below = counts.held_out
    known = _share(held_out - below, below) if learnt else None
    found["trained_on"] = {"rows": learnt, "flatters": bool(most), "held_out": known}
    return found


def share_figures(flagged: Any) -> Figures | None:
    """How many rows were flagged, their share, and its interval; None of no rows.

    Parameters
    ----------
    flagged : ndarray of shape (n,) of bool
        Which were.

    Examples
    --------
    >>> share_figures(np.array([True, False, False, False]))["share"]
    0.25
    """
    return _share((~flagged).sum(), flagged.sum())


def _share(others: Any, flagged: Any) -> Figures | None:
    k, n = int(flagged), int(flagged) + int(others)
    if n == 0:
        return None
    low, high = share_interval(k, n)
    return {"rows": n, "flagged": k, "share": k / n, "low": low, "high": high}


def _compared(fused: FusedDetector, asked: Figures | None, found: Figures) -> Figures:
    """How many alarms are to be expected, and whether there are as many."""
    if asked is None or asked["long_run"] is None:
        return {"expected": None, "verdict": None, "excess": None, "false": None}
    n, m, flagged = asked["calibration_rows"], found["rows"], found["flagged"]
    least, most = _ranks(fused, asked)
    low = int(betabinom.ppf(TAIL, m, least, n + 1 - least))
    high = int(betabinom.ppf(1 - TAIL, m, most, n + 1 - most))
    verdict = "more" if flagged > high else "fewer" if flagged < low else "as expected"
    # Of the rows that are no anomalies the asked share is flagged: f = a + rate (m − a).
    rate = asked["asked"]
    excess = round((flagged - rate * m) / (1 - rate)) if verdict == "more" else None
    compared = {"expected": [low / m, high / m], "verdict": verdict, "excess": excess}
    false = likely_false(m, flagged, (least, most), n) if asked["of"] == "normal" else None
    return compared | {"false": false}


def likely_false(m: int, flagged: int, ranks: tuple[int, int], n: int) -> Figures:
    r"""How many of the alarms among m rows are false, if normal rows are as in the calibration.

    Of :math:`m_0` normal rows a beta-binomial number V is flagged. There are at most m of them and,
    where no anomaly is missed, at least those that are not flagged. As V grows with :math:`m_0`,

    .. math:: \min(f, q_{0.025}(m - f)) \le V \le \min(f, q_{0.975}(m))

    holds with a probability of 95 % or more, f being the alarms and q quantiles of the number for
    so many normal rows. With anomalies that are missed the upper end holds, too.

    Parameters
    ----------
    m, flagged : int
        Rows, and alarms among them.
    ranks : tuple of int
        Between which ranks the threshold lies among the calibration scores.
    n : int
        How many of these there are.

    Returns
    -------
    dict
        ``value``: what is to be expected, where no anomaly is missed, the mean of the solution of
        :math:`f = a + r (m - a)`; ``low`` and ``high``.

    Examples
    --------
    >>> likely_false(1000, 143, (13, 13), 268)
    {'value': 44, 'low': 20, 'high': 81}
    >>> likely_false(1000, 10, (13, 13), 268)  # fewer than normal rows alone would give
    {'value': 10, 'low': 10, 'high': 10}
    """
    least, most = ranks
    rate = (least + most) / 2 / (n + 1)
    low = min(flagged, int(betabinom.ppf(TAIL, m - flagged, least, n + 1 - least)))
    high = min(flagged, int(betabinom.ppf(1 - TAIL, m, most, n + 1 - most)))
    value = rate * (m - flagged) / (1 - rate) if rate < 1 else flagged
    return {"value": max(low, min(high, round(value))), "low": low, "high": high}
