"""P-values that labelled anomalies make sharper, and no less valid."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.utils.validation import check_array

from lpfuse._arrays.operations import Host
from lpfuse._checks.arguments import check_choice
from lpfuse.threshold._offsets import in_memory

METHODS = ("ratio", "best")
NEIGHBOURS = 3  # labelled anomalies that a row is compared with: few, for there may be few
CELLS = 2_000_000  # comparisons at a time: 16 MB, which a processor's cache nearly holds


def integrative_pvalues(
    calibration: Any, anomalies: Any, scores: Any, method: str = "ratio"
) -> Host:
    r"""P-values from the scores of several members, sharpened by labelled anomalies.

    The p-value of a new row compares it with the n calibration rows by an evidence r, low =
    strange, that may use the labelled anomalies and, *without knowing which one is new*, the
    n + 1 rows at hand:

    .. math:: p = \frac{1 + \#\{i : r_i \le r_{\mathrm{new}}\}}{n + 1}

    A normal row is then as likely to be in any place as each calibration row, so that
    :math:`P(p \le \alpha) \le \alpha`, though the member is chosen anew for each new row.

    * "best": r is the score of the member that parts anomalies from the n + 1 rows best (by AUC).
    * "ratio" (Liang, Sesia and Sun 2024): :math:`r = u_0 / u_1`. :math:`u_0` is the rank of that
      score among the n + 1 rows, divided by n + 1. :math:`u_1`, a p-value too, says how like the
      labelled anomalies a row is: the share of them that are no closer to their three nearest
      fellows than the row is to its three nearest anomalies, where distances are between rows of
      scores, each member divided by its deviation over anomalies.

    Parameters
    ----------
    calibration : array-like of shape (n, M)
        Scores of normal rows that nothing was learnt from: one column a member, high = normal.
    anomalies : array-like of shape (n₁, M)
        Scores of labelled anomalies that the members were not learnt from: see the notes.
    scores : array-like of shape (m, M)
        Scores of new rows. A row with a NaN has p-value NaN.
    method : {"ratio", "best"}, default="ratio"
        How the evidence is made. A fused score, such as the mean, may be a column like any other.

    Returns
    -------
    ndarray of shape (m,)
        From 1/(n + 1) to 1.

    Notes
    -----
    **What may have been learnt from what.** Members must have seen neither calibration nor new
    rows, or p-values are not valid. Members that have seen the *anomalies* leave them valid, but
    do not use this function then: they part those anomalies better than others, and are chosen
    for it. The fused score of weights that were learnt from labels goes to
    :func:`conformal_pvalues`, with calibration rows of its own.

    **What the labels cannot do.** Anomalies unlike the labelled ones may get larger p-values than
    without labels. "best" of one member is :func:`conformal_pvalues`.

    **Many rows.** P-values of one batch are valid one by one. For their use with
    :func:`control_false_discoveries` or :class:`OnlineDiscoveries` there is no theorem: each has
    chosen its own evidence, and the positive dependence that is known of plain conformal p-values
    (PRDS) is not shown. Liang, Sesia and Sun correct for that in another way.

    Takes O(m n) comparisons, in little memory.

    References
    ----------
    Liang, Sesia and Sun (2024). Integrative conformal p-values for out-of-distribution testing
    with labelled outliers. Journal of the Royal Statistical Society B 86(3), 671–693.

    Examples
    --------
    Only the second of two members sees the anomalies, and the mean suffers from the first:

    >>> import numpy as np
    >>> from lpfuse.threshold import conformal_pvalues, integrative_pvalues
    >>> rng = np.random.default_rng(0)
    >>> calibration, anomalies = rng.normal(size=(199, 2)), rng.normal([0, -3], size=(20, 2))
    >>> new = rng.normal([0, -3], size=(500, 2))
    >>> plain = conformal_pvalues(calibration.mean(axis=1), new.mean(axis=1))
    >>> sharper = integrative_pvalues(calibration, anomalies, new)
    >>> print(np.mean(plain <= 0.05).round(2), np.mean(sharper <= 0.05).round(2))
    0.64 0.85
    """
    known = _table(calibration, "calibration")
    bad = _table(anomalies, "anomalies", known.shape[1])
    new = _table(scores, "scores", known.shape[1], may_miss=True)
    check_choice("method", method, METHODS)
    rows = ~np.isnan(new).any(axis=1)
    pvalues = np.full(new.shape[0], np.nan)
    counts = _no_less_strange(known, bad, new[rows], by_ratio=method == "ratio")
    pvalues[rows] = (1 + counts) / (known.shape[0] + 1)
    return pvalues


def _no_less_strange(known: Host, bad: Host, new: Host, by_ratio: bool) -> NDArray[np.intp]:
    """How many calibration rows are no less strange than each new row, by its best member."""
    chosen, counts = _best_member(known, bad, new), np.empty(new.shape[0], dtype=np.intp)
    alike, alike_new = _likeness(known, bad), _likeness(new, bad)
    for member in np.unique(chosen):
        own = np.flatnonzero(chosen == member)
        column, values = known[:, member], new[own, member]
        ordered = np.sort(column)
        places = np.searchsorted(ordered, values, side="right")
        if not by_ratio:
            counts[own] = places
            continue
        # Ranks among the n + 1 rows: a calibration row's is one more where the new row is below.
        rank = np.searchsorted(ordered, column, side="right")
        low, high = rank / alike, (rank + 1) / alike
        limits = (places + 1) / alike_new[own]
        for part in _parts(own.size, known.shape[0]):
            ratios = np.where(values[part, None] <= column, high, low)
            counts[own[part]] = (ratios <= limits[part, None]).sum(axis=1)
    return counts


def _best_member(known: Host, bad: Host, new: Host) -> NDArray[np.intp]:
    """For each new row the member with the highest AUC of anomalies against the n + 1 rows."""
    below = np.empty(new.shape)  # pairs of a row and an anomaly that is not the stranger one
    for member, (column, others) in enumerate(zip(known.T, bad.T, strict=True)):
        ordered = np.sort(others)
        below[:, member] = _pairs(ordered, column).sum() + _pairs(ordered, new[:, member])
    return below.argmin(axis=1)


def _pairs(ordered: Host, values: Host) -> Host:
    """How many of the ordered numbers are above each value; equal ones count half."""
    places = [np.searchsorted(ordered, values, side=side) for side in ("left", "right")]
    return ordered.size - (places[0] + places[1]) / 2


def _likeness(rows: Host, bad: Host) -> Host:
    """How like the anomalies each row is: the share of them that is no closer to its fellows."""
    n = bad.shape[0]
    if n < 2:
        return np.ones(rows.shape[0])  # one anomaly has no fellows to tell what is close
    unit, k = _spread(bad), min(NEIGHBOURS, n - 1)
    others = cdist(bad / unit, bad / unit)
    np.fill_diagonal(others, np.inf)
    usual = np.sort(np.sort(others, axis=1)[:, :k].mean(axis=1))
    distance = np.empty(rows.shape[0])
    for part in _parts(rows.shape[0], n):
        found = np.partition(cdist(rows[part] / unit, bad / unit), k - 1, axis=1)
        distance[part] = found[:, :k].mean(axis=1)
    return (1 + n - np.searchsorted(usual, distance, side="left")) / (n + 1)


def _spread(table: Host) -> Host:
    """The deviation of each column; 1 where there is none."""
    spread = table.std(axis=0)
    return np.where(spread > 0, spread, 1.0)


def _parts(n: int, cells: int) -> list[slice]:
    """Slices of n rows that take so many cells each, small enough for memory."""
    step = max(1, CELLS // cells)
    return [slice(start, start + step) for start in range(0, n, step)]


def _table(values: Any, name: str, columns: int | None = None, may_miss: bool = False) -> Host:
    table: Host = check_array(
        in_memory(values),
        dtype=np.float64,
        ensure_all_finite="allow-nan" if may_miss else True,
        ensure_min_samples=0 if may_miss else 1,
        input_name=name,
    )
    if columns is not None and table.shape[1] != columns:
        raise ValueError(
            f"{name} must have the columns of calibration, one a member: expected {columns}, got "
            f"{table.shape[1]}."
        )
    return table
