"""What p-values of a stream are worth: calm rows flagged, AUC over rows, points for alarms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from lpfuse._arrays.operations import Host
from lpfuse.time import alarm_episodes
from research.studies.streams.sources import StreamRows

RATE = 0.05  # asked for
SLACK = 0.03  # beyond it a promise is broken
QUIET = 50  # rows of silence after an alarm
FEWEST_CALM = 30  # rows that a rate can be told from
LEVELS = (
    1e-5, 1e-4, 3e-4, 0.001, 0.002, 0.003, 0.005, 0.007, 0.01,
    0.015, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3,
)  # fmt: skip
PENALTY = 0.11  # that a false alarm costs, of what a stretch is worth


def spans(fault: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First row and end of each faulty stretch.

    Examples
    --------
    >>> spans(np.array([False, True, True, False, True]))
    [(1, 3), (4, 5)]
    """
    edges = np.diff(np.concatenate([[0], fault.astype(int), [0]]))
    starts, ends = np.flatnonzero(edges > 0).tolist(), np.flatnonzero(edges < 0).tolist()
    return list(zip(starts, ends, strict=True))


def cooled_down(flagged: NDArray[np.bool_]) -> list[int]:
    """Flagged rows of which each is told, and silence kept for `QUIET` rows.

    Examples
    --------
    >>> cooled_down(np.isin(np.arange(200), [3, 4, 53, 54, 60, 199]))
    [3, 54, 199]
    """
    told: list[int] = []
    for row in np.flatnonzero(flagged).tolist():
        if not told or row - told[-1] > QUIET:
            told.append(row)
    return told


def _fading(position: Host) -> Host:
    """From 1 well before 0, over 0 there, to −1 long after."""
    return 2 / (1 + np.exp(5 * np.minimum(position, 100))) - 1


def earned(alarms: list[int], fault: NDArray[np.bool_]) -> float:
    """Points for alarms, in the manner of the Numenta Anomaly Benchmark (standard profile).

    The first alarm in a faulty stretch earns up to 1, the more the earlier; a stretch without one
    costs 1. An alarm elsewhere costs little soon after a stretch and up to 0.11 long after, or
    before the first.
    """
    stretches, at = spans(fault), np.array(alarms, dtype=int)
    total = 0.0
    for start, end in stretches:
        inside = at[(at >= start) & (at < end)]
        place = (inside[:1] - end) / (end - start)
        total += float(_fading(place).sum()) if len(inside) else -1.0
    for row in at[~fault[at]].tolist():
        since = [(row - end) / (end - start) for start, end in stretches if end <= row]
        total += PENALTY * float(_fading(np.array(min(since, default=100.0))))
    return total


def figures_of(stream: StreamRows, pvalues: Host, promise: bool) -> dict[str, Any]:
    """Measure the p-values of the rows after the healthy start.

    Returns
    -------
    dict
        ``promise``; ``flagged``, the share of calm rows at 5 % asked; ``hit``, that of faulty rows;
        ``auc`` over rows; ``cooldown`` and ``episodes``, the points at each of `LEVELS`, with
        silence after an alarm and by `lpfuse.time.alarm_episodes`; ``stretches``, how many faulty
        ones there are; ``excess``, the most alarms beyond 5 % of any consecutive rows.
    """
    fault, calm, flagged = stream.later, stream.calm, pvalues <= RATE
    found: dict[str, Any] = {"promise": promise, "excess": excess(flagged, RATE)}
    if calm.sum() >= FEWEST_CALM:
        found["flagged"] = float(flagged[calm].mean())
    if 0 < fault.mean() < 1:
        starts = [[each.start for each in alarm_episodes(pvalues, level)] for level in LEVELS]
        found |= {
            "hit": float(flagged[fault].mean()),
            "auc": float(roc_auc_score(fault, -pvalues)),
            "cooldown": [earned(cooled_down(pvalues <= level), fault) for level in LEVELS],
            "episodes": [earned(each, fault) for each in starts],
            "stretches": len(spans(fault)),
        }
    return found


def excess(flagged: NDArray[np.bool_], rate: float) -> float:
    """The most alarms beyond ``rate * T`` of any T consecutive rows.

    Examples
    --------
    >>> round(excess(np.array([False, True, True, False]), 0.1), 3)
    1.8
    """
    total = np.concatenate([[0.0], np.cumsum(flagged - rate)])
    return float((total - np.minimum.accumulate(total)).max())
