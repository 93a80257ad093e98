"""What a table of results can tell by ranks. Numbers in, numbers out.

A *table* has a row for each data set and a column for each method; the higher, the better. SciPy
has Friedman's test and the studentised range; scikit-posthocs gives p-values of Nemenyi's test, not
the critical difference that diagrams show (the tests compare the two), and neither it nor
statsmodels has the Skillings–Mack test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import chi2, friedmanchisquare, rankdata, studentized_range

from lpfuse._arrays.operations import Host


@dataclass(frozen=True)
class RankTest:
    """Are all methods alike? A statistic that is χ² distributed if they are."""

    statistic: float
    degrees: int
    p_value: float


def mean_ranks(table: Any) -> Host:
    """Mean rank of each method over the data sets.

    Parameters
    ----------
    table : array-like of shape (sets, methods)
        The higher, the better.

    Returns
    -------
    ndarray of shape (methods,)
        1 is the best; ties share their ranks.

    Examples
    --------
    >>> from research.common.ranks import mean_ranks
    >>> mean_ranks([[90, 80, 80], [70, 60, 50]])
    array([1.  , 2.25, 2.75])
    """
    return rankdata(-_table(table), axis=1).mean(axis=0)


def friedman(table: Any) -> RankTest:
    """Friedman's test whether methods differ in their ranks, corrected for ties.

    Parameters
    ----------
    table : array-like of shape (sets, methods)
        Three or more methods, no missing figure (see :func:`skillings_mack`).

    Returns
    -------
    RankTest
        With p-value 1 where all methods are equal on every data set.

    Examples
    --------
    >>> from research.common.ranks import friedman
    >>> friedman([[3, 2, 1], [6, 5, 4], [9, 8, 7]])
    RankTest(statistic=6.0, degrees=2, p_value=0.0497...)
    """
    values = _table(table)
    methods = values.shape[1]
    if methods < 3:
        raise ValueError(
            f"Friedman's test needs three or more methods, got {methods}. For two, use compare."
        )
    if (values == values[:, :1]).all():
        return RankTest(0.0, methods - 1, 1.0)
    found = friedmanchisquare(*values.T)
    return RankTest(float(found.statistic), methods - 1, float(found.pvalue))


def skillings_mack(table: Any) -> RankTest:
    r"""Friedman's test for tables with gaps.

    Within each of the sets, the :math:`k_i` methods that are there are ranked. With the ranks
    :math:`r_{ij}` and the number :math:`n_{jl}` of sets that have both methods j and l,

    .. math::
        A_j = \sum_i \sqrt{\tfrac{12}{k_i + 1}} \left( r_{ij} - \tfrac{k_i + 1}{2} \right), \qquad
        T = A^\top \Sigma^{+} A, \qquad
        \Sigma_{jl} = -n_{jl}, \quad \Sigma_{jj} = \textstyle\sum_{l \ne j} n_{jl}

    and T is χ² distributed, with as many degrees of freedom as Σ has ranks: one less than there
    are methods, unless some of them share no set with the others, even by way of third ones.

    Parameters
    ----------
    table : array-like of shape (sets, methods)
        NaN where a figure is missing. That it is missing must not depend on what it would be.

    Returns
    -------
    RankTest
        Without gaps and ties, that of :func:`friedman`. Tied methods share their ranks, for which
        T makes no allowance: with many ties its p-value is too large.

    References
    ----------
    Skillings & Mack, "On the use of a Friedman-type statistic in balanced and unbalanced block
    designs", Technometrics 23 (1981).

    Examples
    --------
    >>> from research.common.ranks import skillings_mack
    >>> nan = float("nan")
    >>> skillings_mack([[3, 2, 1], [6, 5, 4], [9, 8, nan]])
    RankTest(statistic=4.866..., degrees=2, p_value=0.0877...)
    """
    values = _table(table, gaps=True)
    there = ~np.isnan(values)
    together = there.T.astype(float) @ there
    covariance = np.diag(together.sum(axis=0)) - together
    degrees = int(np.linalg.matrix_rank(covariance, hermitian=True))
    if not degrees:
        raise ValueError(
            "The Skillings-Mack test needs data sets with two or more figures, but no data set has "
            "more than one. Leave out methods that were not measured."
        )
    methods = there.sum(axis=1, keepdims=True)
    from_middle = rankdata(values, axis=1, nan_policy="omit") - (methods + 1) / 2
    sums = np.nansum(np.sqrt(12 / (methods + 1)) * from_middle, axis=0)
    statistic = float(sums @ np.linalg.pinv(covariance, hermitian=True) @ sums)
    return RankTest(statistic, degrees, float(chi2.sf(statistic, degrees)))


def critical_difference(methods: int, sets: int, *, level: float = 0.05) -> float:
    r"""Nemenyi's: mean ranks that differ by less are not told apart.

    .. math:: \mathrm{CD} = q_\alpha \sqrt{\frac{k (k + 1)}{6 N}}

    for k methods on N data sets, with :math:`q_\alpha` the quantile of the studentised range for
    k means, divided by √2 (Demšar 2006).

    Parameters
    ----------
    methods, sets : int
        k and N.
    level : float in (0, 1), default=0.05
        Chance α that any two of k equal methods differ by more.

    References
    ----------
    Demšar, "Statistical comparisons of classifiers over multiple data sets", Journal of Machine
    Learning Research 7 (2006).

    Examples
    --------
    >>> from research.common.ranks import critical_difference
    >>> round(critical_difference(4, 14), 2)  # Demšar's example
    1.25
    """
    q = studentized_range.ppf(1 - level, methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(methods * (methods + 1) / (6 * sets)))


def cliques(ranks: Any, difference: float) -> list[tuple[int, int]]:
    """Longest runs of methods that are not told apart: the bars of Demšar's diagram.

    Parameters
    ----------
    ranks : array-like of shape (methods,)
        Mean ranks, in any order.
    difference : float
        The critical difference.

    Returns
    -------
    list of tuple (first, last)
        Places in the order of the ranks, 0 for the best, of both ends of each run.

    Examples
    --------
    >>> from research.common.ranks import cliques
    >>> cliques([3.0, 1.0, 2.0], 1.0)
    [(0, 1), (1, 2)]
    """
    found: list[tuple[int, int]] = []
    ordered = np.sort(np.asarray(ranks, dtype=np.float64))
    for first, rank in enumerate(ordered):
        last = int(np.searchsorted(ordered, rank + difference, side="right")) - 1
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


def _table(table: Any, *, gaps: bool = False) -> Host:
    found = np.asarray(table, dtype=np.float64)
    if found.ndim != 2 or not found.size:
        raise ValueError(
            "A table must have a row for each data set and a column for each method, got shape "
            f"{found.shape}."
        )
    if np.isinf(found).any() or (np.isnan(found).any() and not gaps):
        raise ValueError(
            "A table must hold finite numbers. For one with gaps (NaN), use skillings_mack."
        )
    return found
