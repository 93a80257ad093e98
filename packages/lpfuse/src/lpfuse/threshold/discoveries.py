"""False discovery rate control for batches and streams, and integrative conformal p-values."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import zeta
from sklearn.utils.validation import check_array

from lpfuse._arrays.operations import Host
from lpfuse._files import saved_as, state_errors
from lpfuse._validation.params import check_choice, check_share, check_values
from lpfuse.threshold.offsets import to_memory

# p-values are fractions and often equal a critical value exactly: rounding (1e-16) must not decide.
ON_THE_LINE = 1 + 1e-12


def control_false_discoveries(pvalues: Any, rate: float) -> NDArray[np.bool_]:
    r"""Return which rows of a batch to declare anomalies at a false discovery rate.

    The procedure of Benjamini and Hochberg: with the p-values of the m rows in ascending order,
    declare the first j rows for the largest j such that

    .. math:: p_{(j)} \le \mathrm{rate} \cdot j / m

    Parameters
    ----------
    pvalues : array-like, or Dask array or series, of shape (m,)
        Of one batch, for instance from :func:`conformal_pvalues`. A row with NaN is never declared
        and not counted. Dask collections are loaded into memory.
    rate : float in (0, 1]
        The false discovery rate: the expected share of normal rows among those declared, where
        none declared counts as zero.

    Returns
    -------
    ndarray of shape (m,)
        True for the rows declared anomalies.

    Notes
    -----
    Conformal p-values of one batch share a calibration set and are not independent. Bates et al.
    (2023) show that they are positively dependent (PRDS), and that the procedure therefore controls
    the rate (even the rate times the share of normal rows), when

    * the detector was fitted without the calibration rows, as in split calibration: for
      out-of-fold scores there is no such theorem;
    * the rows of the batch are independent of each other and of the calibration rows, and the
      normal ones follow the same distribution;
    * scores have no ties, or `random_state` broke them.

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
    from scipy.stats import false_discovery_control

    known = check_pvalues(pvalues)
    level = check_rate(rate)
    declared = ~np.isnan(known)
    adjusted = false_discovery_control(known[declared], method="bh")
    declared[declared] = adjusted <= level * ON_THE_LINE
    return declared


def check_pvalues(pvalues: Any) -> Host:
    """Check p-values of one batch in memory; NaN is allowed."""
    known = check_values(to_memory(pvalues), "pvalues", allow_nan=True)
    if ((known < 0) | (known > 1)).any():
        raise ValueError(
            f"pvalues must lie in [0, 1], got values from {np.nanmin(known):g} to "
            f"{np.nanmax(known):g}. Turn scores into p-values with conformal_pvalues."
        )
    return known


def check_rate(rate: Any) -> float:
    """Check a false discovery rate."""
    return check_share("rate", rate, of="the rows declared anomalies", at_most=1)


# --------------------------------------------------------------------------------------------------
# Integrative conformal p-values, which use labelled anomalies.


INTEGRATIVE_METHODS = ("ratio", "best")
NEIGHBOURS = 3  # nearest labelled anomalies of a row
CELLS = 2_000_000  # comparisons at a time: 16 MB, about the size of a processor's cache


def integrative_pvalues(
    calibration: Any, anomalies: Any, scores: Any, method: str = "ratio"
) -> Host:
    r"""Return p-values from the scores of several members and of labelled anomalies.

    The p-value of a new row compares it with the n calibration rows by a statistic r, low =
    anomalous, that may depend on the labelled anomalies and, *symmetrically*, on the n + 1 rows:

    .. math:: p = \frac{1 + \#\{i : r_i \le r_{\mathrm{new}}\}}{n + 1}

    A normal row is then exchangeable with the calibration rows, so that
    :math:`P(p \le \alpha) \le \alpha`, although the member is chosen for each new row.

    * "best": r is the score of the member that separates anomalies from the n + 1 rows best (AUC).
    * "ratio" (Liang, Sesia and Sun 2024): :math:`r = u_0 / u_1`. :math:`u_0` is the rank of that
      score among the n + 1 rows, divided by n + 1. :math:`u_1`, a p-value too, measures the
      similarity to labelled anomalies: the share of them that are no closer to their three nearest
      anomalies than the row is, by distances of score vectors, each member divided by its standard
      deviation over anomalies.

    Parameters
    ----------
    calibration : array-like of shape (n, M)
        Scores of held-out normal rows: one column per member, high = normal.
    anomalies : array-like of shape (n₁, M)
        Scores of labelled anomalies that were held out from the members: see the notes.
    scores : array-like of shape (m, M)
        Scores of new rows. A row with a NaN has p-value NaN.
    method : {"ratio", "best"}, default="ratio"
        The statistic. A fused score, such as the mean, may be one of the columns.

    Returns
    -------
    ndarray of shape (m,)
        From 1/(n + 1) to 1.

    Notes
    -----
    **Training data of the members.** Members must be fitted without calibration and new rows, or
    p-values are not valid. Members fitted to the *anomalies* leave them valid, but separate those
    anomalies better than others and are therefore selected: do not use this function then. A
    fused score with weights fitted to labels belongs in :func:`conformal_pvalues`, with its own
    calibration rows.

    **Limits.** Anomalies unlike the labelled ones may get larger p-values than without labels.
    "best" of one member is :func:`conformal_pvalues`.

    **Many rows.** P-values of one batch are valid individually. For
    :func:`control_false_discoveries` or :class:`OnlineDiscoveries` there is no theorem: each
    p-value has its own statistic, and positive dependence (PRDS), as of plain conformal p-values,
    is not shown. Liang, Sesia and Sun correct for that in another way.

    Takes O(m n) comparisons, in little memory.

    References
    ----------
    Liang, Sesia and Sun (2024). Integrative conformal p-values for out-of-distribution testing
    with labelled outliers. Journal of the Royal Statistical Society B 86(3), 671–693.

    Examples
    --------
    Only the second of two members detects the anomalies, and the mean suffers from the first:

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
    new = _table(scores, "scores", known.shape[1], allow_nan=True)
    check_choice("method", method, INTEGRATIVE_METHODS)
    rows = ~np.isnan(new).any(axis=1)
    pvalues = np.full(new.shape[0], np.nan)
    counts = _count_at_most(known, bad, new[rows], by_ratio=method == "ratio")
    pvalues[rows] = (1 + counts) / (known.shape[0] + 1)
    return pvalues


def _count_at_most(known: Host, bad: Host, new: Host, by_ratio: bool) -> NDArray[np.intp]:
    """Return the number of calibration rows with a statistic at most that of each new row."""
    chosen, counts = _best_member(known, bad, new), np.empty(new.shape[0], dtype=np.intp)
    alike, alike_new = _similarity_pvalues(known, bad), _similarity_pvalues(new, bad)
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
    """Return for each new row the member with the highest AUC for anomalies vs the n + 1 rows."""
    below = np.empty(new.shape)  # pairs of a row and an anomaly in the wrong order
    for member, (column, others) in enumerate(zip(known.T, bad.T, strict=True)):
        ordered = np.sort(others)
        below[:, member] = _pairs(ordered, column).sum() + _pairs(ordered, new[:, member])
    return below.argmin(axis=1)


def _pairs(ordered: Host, values: Host) -> Host:
    """Return the number of ordered values above each value; ties count half."""
    places = [np.searchsorted(ordered, values, side=side) for side in ("left", "right")]
    return ordered.size - (places[0] + places[1]) / 2


def _similarity_pvalues(rows: Host, bad: Host) -> Host:
    """Return p-values of the similarity to labelled anomalies: u₁ of `integrative_pvalues`."""
    n = bad.shape[0]
    if n < 2:
        return np.ones(rows.shape[0])  # no distance between anomalies
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
    """Return the standard deviation of each column; 1 where it is 0."""
    spread = table.std(axis=0)
    return np.where(spread > 0, spread, 1.0)


def _parts(n: int, cells: int) -> list[slice]:
    """Return slices of n rows with `cells` comparisons each, at most `CELLS` in total."""
    step = max(1, CELLS // cells)
    return [slice(start, start + step) for start in range(0, n, step)]


def _table(values: Any, name: str, columns: int | None = None, allow_nan: bool = False) -> Host:
    table: Host = check_array(
        to_memory(values),
        dtype=np.float64,
        ensure_all_finite="allow-nan" if allow_nan else True,
        ensure_min_samples=0 if allow_nan else 1,
        input_name=name,
    )
    if columns is not None and table.shape[1] != columns:
        raise ValueError(
            f"{name} must have one column per member, as calibration: expected {columns}, got "
            f"{table.shape[1]}."
        )
    return table


# --------------------------------------------------------------------------------------------------
# Online false discovery rate control.


def _slow(j: Host) -> Host:
    # Javanmard and Montanari (2018), with their constant: the sum is 0.976, a little below 1.
    logs = np.log(j)
    return 0.07720838 * np.log(np.maximum(j, 2)) / (j * np.exp(np.sqrt(logs)))


def _fast(j: Host) -> Host:
    return j**-1.6 / zeta(1.6)  # the exponent of Ramdas et al. (2018), for SAFFRON and ADDIS


@dataclass(frozen=True)
class _AlphaInvesting:
    """An alpha-investing rule: see `OnlineDiscoveries`.

    `gamma` gives the shares γ₁, γ₂, …; the clock advances where the p-value is above `candidate`
    and at most `kept`; levels are `factor` times the invested wealth, and at most `candidate` where
    there is one.
    """

    gamma: Callable[[Host], Host]
    candidate: float = -np.inf
    kept: float = 1.0

    @property
    def factor(self) -> float:
        return self.kept - max(self.candidate, 0.0)

    @property
    def most(self) -> float:
        return self.candidate if self.candidate > 0 else 1.0


# Thresholds of candidates and discarding as recommended by the authors.
INVESTING = {
    "lord": _AlphaInvesting(_slow),
    "saffron": _AlphaInvesting(_fast, candidate=0.5),
    "addis": _AlphaInvesting(_fast, candidate=0.25, kept=0.5),
}
# Investing rules compute levels for a page of rows at a time, and keep the discoveries of the last
# 2 · EXACT rows individually: see the notes below.
PAGE = 64
EXACT = 256
STREAM_METHODS = ("batch-bh", "lond", *INVESTING)


@saved_as("OnlineDiscoveries", method=STREAM_METHODS)
class OnlineDiscoveries:
    r"""Declare anomalies in a stream with online control of the false discovery rate.

    Decisions are immediate and final. "batch-bh" (Zrnic et al. 2020) runs
    :func:`control_false_discoveries` on the t-th batch, of :math:`m_t` rows, with the rate

    .. math:: \alpha_t = \Big( \mathrm{rate} \sum_{s \le t} \gamma_s
        - \sum_{s < t} \frac{\alpha_s R_s^+}{R_s^+ + D_t - R_s} \Big) \frac{m_t + D_t}{m_t},
        \qquad \sum_{t=1}^\infty \gamma_t \le 1

    where batch s made :math:`R_s` discoveries, would have made :math:`R_s^+` had its largest
    p-value been 0, and :math:`D_t = \sum_{s < t} R_s`. "lond" declares the r smallest p-values of
    the batch for the largest r such that

    .. math:: p_{(r)} \le \mathrm{rate} \cdot \gamma_t \cdot (D_t + r) / m_t

    which for batches of one row is LOND (Javanmard and Montanari 2015). The others take one row
    after the other, whatever the batches, and declare where :math:`p \le \alpha_t`, with
    discoveries at :math:`\tau_1, \tau_2, …`:

    .. math:: \alpha_t = c \Big( \tfrac{\mathrm{rate}}{2} \gamma_{1 + N_t}
        + \tfrac{\mathrm{rate}}{2} \gamma_{1 + N_t - N_{\tau_1}}
        + \mathrm{rate} \sum_{j \ge 2} \gamma_{1 + N_t - N_{\tau_j}} \Big)

    "lord" (LORD++): c = 1, and N counts all rows before. "saffron": c = 1/2, and N counts those
    with p > 1/2. "addis": c = 1/4, and N counts those with 1/4 < p ≤ 1/2, so that very large
    p-values, for instance from ties, cost nothing. :math:`N_\tau` includes the row τ itself.

    Parameters
    ----------
    rate : float in (0, 1]
        The false discovery rate: the expected share of normal rows among all declared so far,
        where none declared counts as zero.
    method : {"batch-bh", "lond", "lord", "saffron", "addis"}, default="batch-bh"
        See above and the notes.

    Attributes
    ----------
    n_rows_, n_batches_ : int
        Rows with a p-value, and batches with such rows, so far.
    n_discoveries_ : int
        Rows declared so far.

    Notes
    -----
    **Guarantees.** P-values from one calibration set are positively dependent (PRDS; Bates et al.
    2023, under the conditions of :func:`control_false_discoveries`). For such p-values "lond"
    controls the rate after any number of batches, if that number and their sizes do not depend
    on the p-values: it declares only :math:`p \le c_t D_{t+1}`, the number of discoveries
    :math:`D_{t+1}` does not grow when a p-value does, so that
    :math:`E[1\{p \le c_t D_{t+1}\} / D_{t+1}] \le c_t` (Blanchard and Roquain 2008), and the
    :math:`m_t c_t` sum to the rate. It declares all that Batch-PRDS of Zrnic et al. does, or more.
    The others are proven for *independent* p-values; with one calibration set their rate is only
    measured: see the guide. Rates are averages over calibration sets; with one small set the rate
    of the whole stream may be higher or lower.

    **Memory.** For "batch-bh" the past is one number for each value of :math:`R_s^+ - R_s`, without
    approximation. The investing rules keep the discoveries of the last 512 rows individually; older
    ones are assigned to the last mark before them, and at a distance of 256 · 2ᵏ rows marks are 2ᵏ
    rows apart: 256 more each time that the stream doubles. γ decreases, so no level is above the
    published one for the same discoveries, which bounds the estimated share of false ones; and
    marks depend on row numbers only, so levels are still monotone in discoveries and in the clock,
    which the proofs of LORD++, SAFFRON and ADDIS need. Over 200,000 rows, with discoveries
    throughout or at the beginning only, levels were at most 0.3 % below the published ones.

    **Number of calibration rows.** No p-value is below 1/(n + 1). Before the first discovery
    levels decrease like :math:`\gamma_t`, and below 1/(n + 1) nothing can be declared any more:
    with n = 1,000 and a rate of 0.1, LORD++ reaches it at the 2nd row, SAFFRON after four with
    p > 1/2. The first two rules combine the evidence of a batch. A stream of rare anomalies
    therefore needs batches of a hundred rows or more, and many calibration rows.

    References
    ----------
    Javanmard and Montanari (2015). On online control of false discovery rate. arXiv 1502.06197.

    Javanmard and Montanari (2018). Online rules for control of false discovery rate and false
    discovery exceedance. Annals of Statistics 46(2), 526–554.

    Ramdas, Yang, Wainwright and Jordan (2017). Online control of the false discovery rate with
    decaying memory. NeurIPS 30 (LORD++).

    Ramdas, Zrnic, Wainwright and Jordan (2018). SAFFRON: an adaptive algorithm for online control
    of the false discovery rate. ICML, PMLR 80, 4286–4294.

    Tian and Ramdas (2019). ADDIS: an adaptive discarding algorithm for online FDR control with
    conservative nulls. NeurIPS 32.

    Zrnic, Jiang, Ramdas and Jordan (2020). The power of batching in multiple hypothesis testing.
    AISTATS, PMLR 108, 3806–3815.

    Blanchard and Roquain (2008). Two simple sufficient conditions for FDR control. Electronic
    Journal of Statistics 2, 963–992.

    Examples
    --------
    >>> from lpfuse.threshold import OnlineDiscoveries
    >>> stream = OnlineDiscoveries(rate=0.1)
    >>> stream.update([0.001, 0.4, 0.002, 0.9])
    array([ True, False,  True, False])
    >>> stream.update([0.5, 0.003]), stream.n_discoveries_
    (array([False,  True]), 3)
    """

    def __init__(self, rate: float, method: str = "batch-bh") -> None:
        self.rate = rate
        self.method = method
        self.n_rows_ = 0
        self.n_batches_ = 0
        self.n_discoveries_ = 0
        # "batch-bh": the values of R⁺ − R, and the sum of α R⁺ over their batches.
        self.excess_, self.committed_ = np.empty((2, 0))
        # Investing rules: the clock, and the wealth invested at its next readings.
        self.clock_ = 0
        self.invested_ = np.empty(0)
        # Marks, each for the rows up to the next one: row number, clock after it, and wealth earned
        # by discoveries in units of the rate.
        self.marks_, self.clocks_ = np.empty((2, 0), dtype=np.int64)
        self.earned_ = np.empty(0)

    def update(self, pvalues: Any) -> NDArray[np.bool_]:
        """Decide about the next rows and update the state.

        After an error or an interruption the state is unchanged.

        Parameters
        ----------
        pvalues : array-like of shape (m,)
            Of the next rows, in order; batches may differ in size. A row with NaN is never declared
            and not counted.

        Returns
        -------
        ndarray of shape (m,)
            True for the rows declared anomalies.
        """
        known = check_pvalues(pvalues)
        rate = check_rate(self.rate)
        check_choice("method", self.method, STREAM_METHODS)
        declared = ~np.isnan(known)
        values = known[declared]
        if values.size:
            after = copy(self)  # no array of it is changed in place
            with state_errors(self):
                self._check()
                after.n_batches_ += 1
                if self.method in INVESTING:
                    chosen = after._decide_investing(values, rate, INVESTING[self.method])
                elif self.method == "lond":
                    chosen = after._decide_lond(values, rate)
                else:
                    chosen = after._decide_batch_bh(values, rate)
                after.n_rows_ += values.size
                after.n_discoveries_ += int(chosen.sum())
                after._check()
            declared[declared] = chosen
            vars(self).update(vars(after))
        return declared

    def _check(self) -> None:
        """Raise an error if the state, which may be from a file, is none that `update` leaves."""
        counts = np.array([self.n_rows_, self.n_batches_, self.n_discoveries_, self.clock_])
        pairs = [(self.excess_, self.committed_), (self.marks_, self.clocks_)]
        parts = [counts, *pairs[0], self.invested_, self.earned_, *pairs[1]]
        kinds = "".join(each.dtype.kind for each in parts)
        held = all(((each >= 0) & (each < 2.0**53)).all() for each in parts)
        if kinds != "iffffii" or not held or any(len(one) != len(two) for one, two in pairs):
            raise ArithmeticError("expected counts, and arrays of finite numbers from 0")

    def _decide_batch_bh(self, values: Host, rate: float) -> NDArray[np.bool_]:
        # R⁺ + D − R is D + excess: batches of equal excess share a denominator and are summed.
        spent = np.sum(self.committed_ / (self.n_discoveries_ + self.excess_))
        shares = 1 - zeta(1.6, self.n_batches_ + 1) / zeta(1.6)  # γ up to this batch
        # May be slightly negative by rounding.
        own = max(0.0, rate * shares - spent) * (1 + self.n_discoveries_ / values.size)
        lines = own * np.arange(1, values.size + 1) / values.size
        declared = _step_up(values, lines)
        with_zero = np.where(np.arange(values.size) == values.argmax(), 0.0, values)
        found_at_most = float(_step_up(with_zero, lines).sum())
        if own > 0:  # then a p-value of 0 is declared, and no denominator is ever 0
            excess = found_at_most - float(declared.sum())
            here = self.excess_ == excess
            if not here.any():
                self.excess_ = np.append(self.excess_, excess)
                self.committed_ = np.append(self.committed_, 0.0)
                here = np.append(here, True)
            self.committed_ = self.committed_ + np.where(here, own * found_at_most, 0.0)
        return declared

    def _decide_lond(self, values: Host, rate: float) -> NDArray[np.bool_]:
        share = float(_fast(np.array([self.n_batches_ + 0.0]))[0])
        found: Host = np.arange(1, values.size + 1) + np.float64(self.n_discoveries_)
        return _step_up(values, rate * share / values.size * found)

    def _decide_investing(
        self, values: Host, rate: float, rule: _AlphaInvesting
    ) -> NDArray[np.bool_]:
        declared = np.zeros(values.size, dtype=bool)
        done = 0
        while done < values.size:
            row = self.n_rows_ + done
            if row % PAGE == 0:
                self._start_page(row, rate, rule)
            part = slice(done, done + PAGE - row % PAGE)
            declared[part] = self._decide_page(values[part], row, rate, rule)
            done = part.stop
        return declared

    def _start_page(self, row: int, rate: float, rule: _AlphaInvesting) -> None:
        """Drop distant marks, and compute the wealth invested on the next page.

        The wealth of a dropped mark goes to the one before it, an older reading of the clock, where
        it invests less.
        """
        if self.marks_.size:
            first = np.flatnonzero(_is_kept(self.marks_, row))
            self.earned_ = np.add.reduceat(self.earned_, first)
            self.marks_, self.clocks_ = self.marks_[first], self.clocks_[first]
        readings = self.clock_ + np.arange(1.0, PAGE + 2)  # no row moves the clock by more than 1
        held = np.flatnonzero(self.earned_)
        ages = readings - self.clocks_[held, None]
        self.invested_ = rate * (rule.gamma(readings) / 2 + self.earned_[held] @ rule.gamma(ages))

    def _decide_page(
        self, values: Host, row: int, rate: float, rule: _AlphaInvesting
    ) -> NDArray[np.bool_]:
        ticks = (values > rule.candidate) & (values <= rule.kept)
        after = np.cumsum(ticks)
        earned = np.zeros(values.size)
        invested = self.invested_.copy()
        earnings, now = rate * rule.gamma(np.arange(1.0, invested.size + 1)), 0
        nothing_yet = not self.earned_.any()
        for i, (value, tick) in enumerate(zip(values.tolist(), ticks.tolist(), strict=True)):
            level = min(rule.most, rule.factor * invested[now])
            now += tick
            if value <= level * ON_THE_LINE:
                earned[i] = 0.5 if nothing_yet else 1.0  # the other half is the initial wealth
                nothing_yet = False
                invested[now:] += earned[i] * earnings[: invested.size - now]
        self.marks_ = np.concatenate([self.marks_, row + np.arange(values.size)])
        self.clocks_ = np.concatenate([self.clocks_, self.clock_ + after])
        self.earned_ = np.concatenate([self.earned_, earned])
        self.invested_ = invested[now:]
        self.clock_ += now
        return earned > 0


def _is_kept(marks: NDArray[np.int64], row: int) -> NDArray[np.bool_]:
    """Return which marks are kept at `row`: EXACT rows per octave.

    At a distance from EXACT · 2ᵏ to EXACT · 2ᵏ⁺¹, multiples of 2ᵏ are kept; all nearer ones are. A
    dropped mark would never be kept later, and 0 is always kept.
    """
    octave = np.log2(np.maximum((row - marks) // EXACT, 1)).astype(np.int64)
    return marks % (np.int64(1) << octave) == 0


def _step_up(values: Host, lines: Host) -> NDArray[np.bool_]:
    """Return the r smallest values, for the largest r whose r-th smallest is at most its line."""
    lines = lines * ON_THE_LINE
    below = np.flatnonzero(np.sort(values) <= lines)
    return values <= lines[below[-1]] if below.size else np.zeros(values.size, dtype=bool)
