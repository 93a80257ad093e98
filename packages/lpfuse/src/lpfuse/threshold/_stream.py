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
        # Of "batch-bh", one a batch: its rate, its discoveries, and R⁺.
        self.rates_, self.found_, self.found_at_most_ = np.empty((3, 0))
        # Of those that invest: how far the clock is, and where it was at each discovery.
        self.clock_ = 0
        self.discovered_at_ = np.empty(0, dtype=np.int64)

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
            self.n_rows_ += values.size
            self.n_batches_ += 1
            if self.method in INVESTING:
                chosen = self._by_investing(values, rate, INVESTING[self.method])
            elif self.method == "lond":
                chosen = self._by_number(values, rate)
            else:
                chosen = self._by_batch(values, rate)
            declared[declared] = chosen
            self.n_discoveries_ += int(chosen.sum())
        return declared

    def _by_batch(self, values: Host, rate: float) -> NDArray[np.bool_]:
        others = self.n_discoveries_ - self.found_
        spent = np.sum(self.rates_ * self.found_at_most_ / (self.found_at_most_ + others))
        shares = _fast(np.arange(1.0, self.n_batches_ + 1)).sum()
        # Rounding may leave a little less than nothing.
        own = max(0.0, rate * shares - spent) * (1 + self.n_discoveries_ / values.size)
        lines = own * np.arange(1, values.size + 1) / values.size
        declared = _step_up(values, lines)
        with_zero = np.where(np.arange(values.size) == values.argmax(), 0.0, values)
        self.rates_ = np.append(self.rates_, own)
        self.found_ = np.append(self.found_, declared.sum())
        self.found_at_most_ = np.append(self.found_at_most_, _step_up(with_zero, lines).sum())
        return declared

    def _by_number(self, values: Host, rate: float) -> NDArray[np.bool_]:
        share = float(_fast(np.array([self.n_batches_ + 0.0]))[0])
        found: Host = np.arange(1, values.size + 1) + np.float64(self.n_discoveries_)
        return _step_up(values, rate * share / values.size * found)

    def _by_investing(self, values: Host, rate: float, rule: _Investing) -> NDArray[np.bool_]:
        ticks = (values > rule.candidate) & (values <= rule.kept)
        ahead = np.arange(1.0, ticks.sum() + 2)  # the clock reads one of these, less 1, from now
        # What is invested at each reading; a discovery adds to all that follow.
        invested = rate / 2 * rule.gamma(ahead + self.clock_)
        for j, then in enumerate(self.discovered_at_):
            earned = rate if j else rate / 2  # the other half was there from the start
            invested += earned * rule.gamma(ahead + (self.clock_ - then))
        earnings, now = rate * rule.gamma(ahead), 0
        found: list[int] = []
        declared = np.zeros(values.size, dtype=bool)
        for i, (value, tick) in enumerate(zip(values.tolist(), ticks.tolist(), strict=True)):
            level = min(rule.most, rule.factor * invested[now])
            now += tick
            if value <= level * ON_THE_LINE:
                first = not (found or self.discovered_at_.size)
                more = earnings[: ahead.size - now]
                invested[now:] += more / 2 if first else more
                found.append(self.clock_ + now)
                declared[i] = True
        self.discovered_at_ = np.concatenate([self.discovered_at_, np.array(found, dtype=np.int64)])
        self.clock_ += now
        return declared


def _step_up(values: Host, lines: Host) -> NDArray[np.bool_]:
    """The r smallest values, for the largest r whose r-th smallest is on or below its line."""
    lines = lines * ON_THE_LINE
    below = np.flatnonzero(np.sort(values) <= lines)
    return values <= lines[below[-1]] if below.size else np.zeros(values.size, dtype=bool)
