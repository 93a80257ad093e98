r"""Evidence against "rows still come as those of the reference did", good at any time.

Let :math:`a_b` be the gaps in bin b, and :math:`c_b` the rows of the stream there so far. While
nothing has changed, the bins of the next m rows have, by the Dirichlet law of their chances
(`lpfuse.monitor._bins`), the probability

.. math:: P_0 = \frac{\Gamma(A)}{\Gamma(A + m)} \prod_b \frac{\Gamma(a_b + c_b + m_b)}
    {\Gamma(a_b + c_b)}, \qquad A = \sum_b (a_b + c_b)

exactly, whatever the law of the values: what a reference of n rows does not tell is accounted for,
and no more is claimed. A law :math:`q_k` of what may have happened gives
:math:`P_k = \prod_b q_{kb}^{m_b}`. So :math:`P_k / P_0` has the mean 1 under the null, given the
past, and a product of such ratios is a martingale; so is a sum of products that start at different
rows, with weights that sum to 1:

.. math:: E_t = G(t) + \sum_k v_k \sum_{\tau \le t} (G(\tau) - G(\tau + m_\tau))
    \prod_{s \ge \tau} \frac{P_k^{(s)}}{P_0^{(s)}}, \qquad G(t) = \frac{1}{1 + \log(1 + t / 2000)}

By Ville's inequality :math:`P(\exists t: E_t \ge 1/\alpha) \le \alpha`, over any length of time.
One recursion holds the inner sum for each k, so that the state does not grow. The last law is that
of the rows before, the recent ones counting most: it may be chosen anew at each step.

Ville (1939). Étude critique de la notion de collectif. Gauthier-Villars.

Vovk, Gammerman and Shafer (2005). Algorithmic Learning in a Random World, chapter 7. Springer.
(betting against exchangeability)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from lpfuse._arrays.operations import Host
from lpfuse._saved import saved_as
from lpfuse.monitor._alternatives import Alternatives

FIRST_ROWS = 2000.0  # within about twice as many rows half of the stakes are placed
MEMORY = 300.0  # rows after which a row counts for 1/e in the law of recent rows
TRUST = 20.0  # rows that the reference counts for in it
ON_RECENT = 0.1  # share of the stakes that are on it
RECENT = "otherwise"  # what that law is called


@saved_as("Evidence")
@dataclass(eq=False)
class Evidence:
    """The martingales of J streams of bins.

    Attributes
    ----------
    gaps : ndarray of shape (B,)
        Gaps of the reference in each bin.
    alternatives : Alternatives
        The laws that are bet on, beside that of recent rows.
    counts : ndarray of shape (J, B)
        Rows so far.
    recent : ndarray of shape (J, B)
        The same, the recent ones counting most.
    log_stakes : ndarray of shape (J, K)
        What each law has won, all starts together: logarithms.
    best, since : ndarrays of shape (J, K)
        The logarithm of the likelihood ratio of a law against the null from the best start on, and
        that start (Page's rule): it tells since when, and decides nothing.
    n_rows : int
        How many rows there were.
    """

    gaps: Host
    alternatives: Alternatives
    counts: Host
    recent: Host
    log_stakes: Host
    best: Host
    since: NDArray[np.int64]
    n_rows: int = 0

    @classmethod
    def before(cls, gaps: Host, alternatives: Alternatives, n_streams: int) -> Evidence:
        """Of no rows."""
        zeros = np.zeros((n_streams, len(gaps)))
        nothing = np.full((n_streams, len(alternatives.names) + 1), -np.inf)
        since = np.zeros(nothing.shape, dtype=np.int64)
        return cls(gaps, alternatives, zeros, zeros, nothing, nothing, since)

    def update(self, blocks: Host, rows: NDArray[np.int64]) -> Host:
        """Take in counts of shape (blocks, J, B), one block of so many rows after the other.

        Where a stream is of some of the rows, its bins count fewer of them. Returns the logarithms
        of E after each block, of shape (blocks, J).
        """
        past = self.counts + np.cumsum(blocks, axis=0) - blocks + self.gaps
        before, size = past.sum(axis=2), blocks.sum(axis=2)
        log_null = gammaln(before) - gammaln(before + size)
        log_null += (gammaln(past + blocks) - gammaln(past)).sum(axis=2)
        log_laws = blocks @ self.alternatives.log_laws.T
        found = np.empty(blocks.shape[:2])
        for i, n in enumerate(rows.tolist()):
            self._bet(blocks[i], log_laws[i], log_null[i], n)
            found[i] = self.log_values
        return found

    def _bet(self, block: Host, log_laws: Host, log_null: Host, n: int) -> None:
        log_recent = (block * np.log(self._recent_laws())).sum(axis=1)
        gains = np.column_stack([log_laws, log_recent]) - log_null[:, None]
        placed = _not_placed(self.n_rows) - _not_placed(self.n_rows + n)
        new = np.append((1 - ON_RECENT) * self.alternatives.stakes, ON_RECENT) * placed
        self.log_stakes = np.logaddexp(self.log_stakes, np.log(new)) + gains
        anew = self.best < 0
        self.since = np.where(anew, self.n_rows, self.since)
        self.best = np.where(anew, 0.0, self.best) + gains
        self.recent = self.recent * np.exp(-n / MEMORY) + block
        self.counts = self.counts + block
        self.n_rows += n

    def _recent_laws(self) -> Host:
        laws = self.recent + TRUST * self.gaps / self.gaps.sum()
        return laws / laws.sum(axis=1, keepdims=True)

    def recent_law(self, stream: int) -> Host:
        """The law of recent rows of a stream, mixed with the reference's, of shape (B,)."""
        return self._recent_laws()[stream]

    @property
    def log_values(self) -> Host:
        """The logarithm of E for each stream, of shape (J,)."""
        kept = np.full((len(self.log_stakes), 1), np.log(_not_placed(self.n_rows)))
        return _log_sum(np.column_stack([kept, self.log_stakes]))

    def leading(self, stream: int) -> tuple[str, int]:
        """What speaks most for a change of a stream: its name, and the row since when."""
        law = int(np.argmax(self.best[stream]))
        names = [*self.alternatives.names, RECENT]
        return names[law], int(self.since[stream, law])

    def merge(self, other: Evidence) -> None:
        """The evidence of both, of rows that were looked at apart: the mean of two martingales."""
        both = np.logaddexp(self.log_values, other.log_values) - np.log(2.0)
        stakes = np.logaddexp(self.log_stakes, other.log_stakes) - np.log(2.0)
        self.counts = self.counts + other.counts
        self.recent = self.recent + other.recent
        further = other.best > self.best
        self.best = np.where(further, other.best, self.best)
        self.since = np.where(further, other.since, self.since)
        self.n_rows += other.n_rows
        # After more rows less is left to place: what is over goes to the laws, in proportion.
        laws = both + np.log1p(-_not_placed(self.n_rows) * np.exp(-both))
        self.log_stakes = stakes + (laws - _log_sum(stakes))[:, None]


def _not_placed(row: int) -> float:
    """G: the share of the stakes for changes after that row."""
    return float(1.0 / (1.0 + np.log1p(row / FIRST_ROWS)))


def _log_sum(logs: Host) -> Host:
    """``log Σ exp`` of each row, where some number is finite."""
    most = logs.max(axis=1)
    found: Host = most + np.log(np.exp(logs - most[:, None]).sum(axis=1))
    return found
