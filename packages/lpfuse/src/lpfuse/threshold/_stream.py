"""Which rows of a stream to declare anomalies, one batch after the other, for ever."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import zeta

from lpfuse._arrays.operations import Host
from lpfuse._checks.arguments import check_choice
from lpfuse._saved import saved_as
from lpfuse.threshold._discoveries import ON_THE_LINE, check_pvalues, check_rate


def _slow(j: Host) -> Host:
    # Javanmard and Montanari (2018), with their constant: the sum is 0.976, a little below 1.
    logs = np.log(j)
    return 0.07720838 * np.log(np.maximum(j, 2)) / (j * np.exp(np.sqrt(logs)))


def _fast(j: Host) -> Host:
    return j**-1.6 / zeta(1.6)  # the exponent of Ramdas et al. (2018), for SAFFRON and ADDIS


@dataclass(frozen=True)
class _Investing:
    """A rule that invests in tests, and earns by discoveries: see `OnlineDiscoveries`.

    `gamma` gives the shares γ₁, γ₂, …; its clock advances where the p-value
    is above `candidate` and at most `kept`; levels are `factor` times what is invested, and at most
    `candidate` where there is one.
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


# Thresholds of candidates and of what is discarded as their authors recommend them.
INVESTING = {
    "lord": _Investing(_slow),
    "saffron": _Investing(_fast, candidate=0.5),
    "addis": _Investing(_fast, candidate=0.25, kept=0.5),
}
# Rules that invest work out their levels a page of rows ahead, and hold the discoveries of the last
# 2 · EXACT rows one by one: see the notes below.
PAGE = 64
EXACT = 256
METHODS = ("batch-bh", "lond", *INVESTING)


@saved_as("OnlineDiscoveries", method=METHODS)
class OnlineDiscoveries:
    r"""Declare anomalies in a stream, so that few of all declared so far are normal.

    Decisions are made at once and never taken back. "batch-bh" (Zrnic et al. 2020) runs the rule
    of :func:`control_false_discoveries` on the t-th batch, of :math:`m_t` rows, with the rate

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
    p-values, such as ties make, cost nothing. :math:`N_\tau` includes the row τ itself.

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
    **What is proven.** P-values from one calibration set depend on each other, positively (PRDS;
    Bates et al. 2023, under the conditions of :func:`control_false_discoveries`). For such p-values
    "lond" keeps the rate after any number of batches, if that number and their sizes do not depend
    on the p-values: it declares only :math:`p \le c_t D_{t+1}`, the number of discoveries
    :math:`D_{t+1}` does not grow when a p-value does, so that
    :math:`E[1\{p \le c_t D_{t+1}\} / D_{t+1}] \le c_t` (Blanchard and Roquain 2008), and the
    :math:`m_t c_t` sum to the rate. It declares all that Batch-PRDS of Zrnic et al. does, or more.
    The others are proven for *independent* p-values. With one calibration set theirs is measured
    only: see the guide. Rates are averages over calibration sets; with one small set it is worse
    or better for the whole stream.

    **What an endless stream takes.** Of "batch-bh" the past is one number for each value of
    :math:`R_s^+ - R_s`, which batches share, and nothing is lost. The rules that invest remember
    the discoveries of the last 512 rows one by one; older ones count as made at the last mark
    before them, and at a distance of 256 · 2ᵏ rows marks are 2ᵏ rows apart: 256 more each time
    that the stream doubles. γ falls, so no level is above the published one for the same
    discoveries, which is what bounds the estimated share of false ones; and where marks are depends
    on row numbers alone, so levels still only grow when there are more discoveries or fewer steps
    of the clock, which the proofs of LORD++, SAFFRON and ADDIS ask for. Over 200,000 rows, with
    discoveries throughout or at the beginning only, levels were at most 0.3 % below the published.

    **What n calibration rows allow.** No p-value is below 1/(n + 1). Before the first discovery
    levels fall like :math:`\gamma_t`, and once below 1/(n + 1) nothing can be declared any more:
    with n = 1,000 and a rate of 0.1 LORD++ is there at the 2nd row, SAFFRON after four with
    p > 1/2. The first two rules add up the evidence of a batch. So batches of a hundred rows or
    more, and many calibration rows, are what a stream of rare anomalies takes.

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
        # Of "batch-bh": the values of R⁺ − R there were, and the sum of α R⁺ over their batches.
        self.excess_, self.committed_ = np.empty((2, 0))
        # Of those that invest: how far the clock is, and what its next readings invest.
        self.clock_ = 0
        self.invested_ = np.empty(0)
        # Rows that stand for themselves and those up to the next: their number, what the clock
        # was after them, what discoveries earned, in units of the rate.
        self.marks_, self.clocks_ = np.empty((2, 0), dtype=np.int64)
        self.earned_ = np.empty(0)

    def update(self, pvalues: Any) -> NDArray[np.bool_]:
        """Decide about the next rows, and remember what that takes.

        Parameters
        ----------
        pvalues : array-like of shape (m,)
            Of the next rows, in their order; batches may differ in size. NaN where there is none:
            such a row is never declared, and does not count.

        Returns
        -------
        ndarray of shape (m,)
            True for the rows declared anomalies.
        """
        known = check_pvalues(pvalues)
        rate = check_rate(self.rate)
        check_choice("method", self.method, METHODS)
        declared = ~np.isnan(known)
        values = known[declared]
        if values.size:
            self.n_batches_ += 1
            if self.method in INVESTING:
                chosen = self._by_investing(values, rate, INVESTING[self.method])
            elif self.method == "lond":
                chosen = self._by_number(values, rate)
            else:
                chosen = self._by_batch(values, rate)
            declared[declared] = chosen
            self.n_rows_ += values.size
            self.n_discoveries_ += int(chosen.sum())
        return declared

    def _by_batch(self, values: Host, rate: float) -> NDArray[np.bool_]:
        # R⁺ + D − R is D + excess: batches of one excess share a denominator, and are one number.
        spent = np.sum(self.committed_ / (self.n_discoveries_ + self.excess_))
        shares = 1 - zeta(1.6, self.n_batches_ + 1) / zeta(1.6)  # γ up to this batch
        # Rounding may leave a little less than nothing.
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
            self.committed_[here] += own * found_at_most
        return declared

    def _by_number(self, values: Host, rate: float) -> NDArray[np.bool_]:
        share = float(_fast(np.array([self.n_batches_ + 0.0]))[0])
        found: Host = np.arange(1, values.size + 1) + np.float64(self.n_discoveries_)
        return _step_up(values, rate * share / values.size * found)

    def _by_investing(self, values: Host, rate: float, rule: _Investing) -> NDArray[np.bool_]:
        declared = np.zeros(values.size, dtype=bool)
        done = 0
        while done < values.size:
            row = self.n_rows_ + done
            if row % PAGE == 0:
                self._turn_page(row, rate, rule)
            part = slice(done, done + PAGE - row % PAGE)
            declared[part] = self._on_this_page(values[part], row, rate, rule)
            done = part.stop
        return declared

    def _turn_page(self, row: int, rate: float, rule: _Investing) -> None:
        """Drop marks that `row` is far enough from, and work out what a page of readings invests.

        What a dropped mark has earned goes to the one before it: to an older reading of the clock,
        where it invests less.
        """
        if self.marks_.size:
            first = np.flatnonzero(_is_kept(self.marks_, row))
            self.earned_ = np.add.reduceat(self.earned_, first)
            self.marks_, self.clocks_ = self.marks_[first], self.clocks_[first]
        readings = self.clock_ + np.arange(1.0, PAGE + 2)  # no row moves the clock by more than 1
        held = np.flatnonzero(self.earned_)
        ages = readings - self.clocks_[held, None]
        self.invested_ = rate * (rule.gamma(readings) / 2 + self.earned_[held] @ rule.gamma(ages))

    def _on_this_page(
        self, values: Host, row: int, rate: float, rule: _Investing
    ) -> NDArray[np.bool_]:
        ticks = (values > rule.candidate) & (values <= rule.kept)
        after = np.cumsum(ticks)
        earned = np.zeros(values.size)
        invested = self.invested_
        earnings, now = rate * rule.gamma(np.arange(1.0, invested.size + 1)), 0
        nothing_yet = not self.earned_.any()
        for i, (value, tick) in enumerate(zip(values.tolist(), ticks.tolist(), strict=True)):
            level = min(rule.most, rule.factor * invested[now])
            now += tick
            if value <= level * ON_THE_LINE:
                earned[i] = 0.5 if nothing_yet else 1.0  # the other half was there from the start
                nothing_yet = False
                invested[now:] += earned[i] * earnings[: invested.size - now]
        self.marks_ = np.concatenate([self.marks_, row + np.arange(values.size)])
        self.clocks_ = np.concatenate([self.clocks_, self.clock_ + after])
        self.earned_ = np.concatenate([self.earned_, earned])
        self.invested_ = invested[now:]
        self.clock_ += now
        return earned > 0


def _is_kept(marks: NDArray[np.int64], row: int) -> NDArray[np.bool_]:
    """Marks of row numbers that stay when the stream has come to `row`: EXACT rows an octave.

    At a distance from EXACT · 2ᵏ to EXACT · 2ᵏ⁺¹, multiples of 2ᵏ stay; nearer ones all do. A mark
    that is dropped would never have come back, and 0 stays for ever.
    """
    octave = np.log2(np.maximum((row - marks) // EXACT, 1)).astype(np.int64)
    return marks % (np.int64(1) << octave) == 0


def _step_up(values: Host, lines: Host) -> NDArray[np.bool_]:
    """The r smallest values, for the largest r whose r-th smallest is on or below its line."""
    lines = lines * ON_THE_LINE
    below = np.flatnonzero(np.sort(values) <= lines)
    return values <= lines[below[-1]] if below.size else np.zeros(values.size, dtype=bool)
