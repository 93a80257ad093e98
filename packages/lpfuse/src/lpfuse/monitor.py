r"""Detect drift of a stream of rows, with a bound on false alarms over any length of time.

`DriftMonitor` monitors the fused score, the scores of the detectors and the columns. Each of these
streams of numbers is compared with reference rows by the bins that values fall into, whose
probabilities are known exactly up to what the reference leaves open (`ReferenceBins`). A bet
against "nothing has changed" is a martingale (`Evidence`): with the probability :math:`P_0` of the
rows under no change, and :math:`P_k` under one of K alternatives (`Alternatives`), such as a shift
by half a standard deviation or a stuck sensor,

.. math:: E_t = \sum_k \sum_\tau \pi_{k \tau} \prod_{s = \tau}^t \frac{P_k^{(s)}}{P_0^{(s)}},
    \qquad \sum_{k, \tau} \pi_{k \tau} = 1, \qquad P(\exists t: E_t \ge 1/\alpha) \le \alpha

by Ville's inequality, over any length of time. There is a stake on every time :math:`\tau` of the
change, so that a change after a long calm stretch is found nearly as fast as an early one.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, log, log10
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr, ndtri
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Host
from lpfuse._files import ANY, saved_as, state_errors
from lpfuse._format import quote
from lpfuse._validation.params import check_count, check_share, listed
from lpfuse._validation.tables import check_table, column_names
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.components import Verdicts
from lpfuse.ensemble.rows import correlation_length

__all__ = ["Drift", "DriftMonitor", "DriftStatus", "StreamCounts"]

# ------------------------------------------------------------------------------------------- status

Kind = Literal["none", "more anomalies", "fewer anomalies", "normal has changed"]

FUSED = "fused score"
TAIL, BODY = "strange rows", "usual rows"  # of the fused score: its lowest tenth, and the rest
MEMBER, COLUMN = "detector:", "column:"  # before names
EXTREMES = ("more extremes", "fewer extremes")
LEFT_OUT = ("it changes by itself in the reference", "it takes about {:,} reference rows")
WHAT = ("higher", "lower", "wider", "narrower", "stuck", "clumped", *EXTREMES, "otherwise")


@saved_as("Drift", stream=ANY, what=WHAT)
@dataclass(frozen=True)
class Drift:
    """Describe a declared change.

    Attributes
    ----------
    stream : str
        "strange rows" or "usual rows", of the fused score; "detector:NAME"; or "column:NAME".
    what : str
        "higher", "lower", "wider", "narrower", "stuck", "clumped" (more rows than usual have some
        value), "more extremes", "fewer extremes" or "otherwise": the best fit.
    since : int
        The row of the change, by maximum likelihood; rows are counted from 0.
    declared : int
        How many rows had come when it was declared.
    """

    stream: str
    what: str
    since: int
    declared: int


@dataclass(frozen=True)
class DriftStatus:
    """Summarise what a monitor has found so far.

    Attributes
    ----------
    n_rows : int
        Rows so far.
    level : float
        Upper bound on the probability that drift is ever declared without a change.
    drifts : list of Drift
        Declared changes, in the order of their declaration.
    evidence : dict of str: float
        For each stream, the factor by which betting against "no change" has multiplied the stake,
        as a decimal logarithm, corrected for all streams: drift is declared from
        ``-log10(level)`` on.
    shifts, spreads : dicts of str: float
        Mean and standard deviation of the latest rows on the scale of the reference: in normal
        scores, where unchanged rows have 0 and about 1. At least a fiftieth of all rows.
    waiting_for : int
        Rows still missing before scores can be compared; 0 once they are.
    left_out : dict of str: int
        Streams of dependent rows that are not monitored: the reference rows that it would take, or
        0 where they change by themselves in the reference.
    """

    n_rows: int
    level: float
    drifts: list[Drift]
    evidence: dict[str, float]
    shifts: dict[str, float]
    spreads: dict[str, float]
    waiting_for: int = 0
    left_out: dict[str, int] = field(default_factory=dict)

    @property
    def alarm(self) -> bool:
        """Whether drift was declared, now or before."""
        return bool(self.drifts)

    @property
    def since(self) -> int | None:
        """The row of the change that was declared first; None without a declaration."""
        return self.drifts[0].since if self.drifts else None

    @property
    def kind(self) -> Kind:
        """Kind of drift: "none", "more anomalies", "fewer anomalies" or "normal has changed".

        Where only the extremes of scores and columns have changed, there are more or fewer
        anomalies; or normal rows have longer tails than before, or are of a new kind with
        extreme scores. Scores cannot tell these apart: inspect some of the rows.
        """
        found = {each.what for each in self.drifts}
        if found - {*EXTREMES}:
            return "normal has changed"
        return "more anomalies" if EXTREMES[0] in found else "fewer anomalies" if found else "none"

    def sentence(self) -> str:
        """Return the status as one sentence, and one on what is not monitored."""
        told = [
            f"{quote(name.removeprefix(COLUMN))} ({LEFT_OUT[n > 0].format(n)})"
            for name, n in self.left_out.items()
        ]
        return self._found() + (f" Not monitored: {listed(told)}." if told else "")

    def _found(self) -> str:
        if not self.drifts:
            strongest = max(self.evidence, key=lambda name: self.evidence[name], default=None)
            later = f" Scores are compared {self.waiting_for:,} rows from now."
            waiting = later if self.waiting_for else ""
            if strongest is None:
                nothing = "nothing is monitored" if self.left_out else "nothing to compare yet"
                return f"{self.n_rows:,} rows, {nothing}.{waiting}"
            return (
                f"{self.n_rows:,} rows, no drift (most evidence: {quote(strongest)}, "
                f"10^{self.evidence[strongest]:.1f} of 10^{-log10(self.level):.1f}).{waiting}"
            )
        first = self.drifts[0]
        found = [f"{each.stream} ({self._describe(each)})" for each in self.drifts]
        since = f"since about row {first.since:,} (declared after {first.declared:,} rows)"
        if first.since >= first.declared:  # of rows that came together
            since = f"(declared after {first.declared:,} rows, most since row {first.since:,})"
        return f"{self.kind[0].upper()}{self.kind[1:]} {since}: {listed(found, at_most=3)}."

    def _describe(self, drift: Drift) -> str:
        side = {"higher": 1, "lower": -1}.get(drift.what, 0)
        shift = side * self.shifts.get(drift.stream, 0.0)
        return f"{drift.what}, now by {shift:.1f} σ" if shift >= 0.05 else drift.what


# ---------------------------------------------------------------------------- bins of the reference

# Quantiles of the reference at which bins end, as far as its rows tell them: narrow at both ends,
# where anomalies are. Chosen by hand; detection hardly depends on them.
_LOW = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
LEVELS = (*_LOW, *(k / 10 for k in range(1, 10)), *(1 - level for level in reversed(_LOW)))

Bins = NDArray[np.int8]
Rows = NDArray[np.int64]


@saved_as("ReferenceBins")
@dataclass(frozen=True, eq=False)
class ReferenceBins:
    """Bins of J columns whose probabilities are known exactly.

    The n values of a column in the reference split the line into n + 1 gaps. Whatever continuous
    distribution the values follow, the probabilities of the gaps are a priori uniform on the
    simplex: Dirichlet with a parameter of 1 for each gap (Wilks 1962, chapter 8.7), and with a
    parameter of k for a bin of k gaps. Ties are broken at random, so that the same holds for
    counts, for encoded categories and for missing cells; these lie below all others.

    Wilks (1962). Mathematical Statistics. Wiley.

    Attributes
    ----------
    edges, ranks_among_ties : ndarrays of shape (B − 1, J)
        Upper ends of the bins: reference values, and numbers in (0, 1) that break ties with them.
    gaps : ndarray of shape (B,)
        The number of the n + 1 gaps in each bin.
    seed : int
        For breaking ties.
    """

    edges: Host
    ranks_among_ties: Host
    gaps: Host
    seed: int

    @classmethod
    def of(cls, reference: Host, seed: int) -> Self:
        """Build bins from a reference of shape (n, J); NaN marks missing values."""
        n, width = reference.shape
        ends = np.unique(np.rint(np.array(LEVELS) * (n + 1)).astype(int))
        # Values outside the range of the reference have bins of their own.
        ends = np.unique(np.clip(np.concatenate([[1], ends, [n]]), 1, n))
        ordered = np.sort(missing_to_minus_infinity(reference), axis=0)
        edges = ordered[ends - 1]
        ranks = np.empty(edges.shape)
        for j in range(width):
            ranks[:, j] = _ranks_among_ties(ordered[:, j], edges[:, j], ends, [seed, j])
        return cls(edges, ranks, np.diff(ends, prepend=0, append=n + 1).astype(np.float64), seed)

    def places(self, values: Host, first_row: int) -> Bins:
        """Return the bin of each value, of shape (m, J); rows are numbered from `first_row`."""
        values, rows = missing_to_minus_infinity(values), first_row + np.arange(len(values))
        found = np.empty(values.shape, dtype=np.int8)
        for j, (edges, ranks) in enumerate(zip(self.edges.T, self.ranks_among_ties.T, strict=True)):
            below, tied = edges < values[:, [j]], edges == values[:, [j]]
            if tied.any():  # by numbers drawn for each row
                below |= tied & (ranks < uniform_numbers(self.seed, rows, 1, j))
            found[:, j] = below.sum(axis=1)
        return found


def _ranks_among_ties(ordered: Host, edges: Host, ends: Any, seed: list[int]) -> Host:
    """Draw a tie-breaking number for each row; return those of the rows at which bins end."""
    rng = np.random.default_rng(seed)
    first = np.searchsorted(ordered, edges, side="left")
    last = np.searchsorted(ordered, edges, side="right")
    ranks = np.empty(len(edges))
    for start in np.unique(first):
        here = first == start
        drawn = np.sort(rng.random(last[here][0] - start))  # of all rows with that value
        ranks[here] = drawn[ends[here] - 1 - start]
    return ranks


def missing_to_minus_infinity(values: Host) -> Host:
    """Place missing values below all others."""
    return np.where(np.isnan(values), -np.inf, values)


def uniform_numbers(seed: int, rows: Rows, width: int, first: int = 0) -> Host:
    """Return pseudo-random numbers in (0, 1) that depend on seed, row and column alone.

    The result does not depend on batches, nor on the machine that counts a row.

    Examples
    --------
    >>> import numpy as np
    >>> uniform_numbers(0, np.arange(2), 3).round(2)
    array([[0.65, 0.7 , 0.39],
           [0.37, 0.94, 0.05]])
    """
    with np.errstate(over="ignore"):
        number = np.asarray(rows, dtype=np.int64).astype(np.uint64)[:, None]
        column = np.arange(first, first + width, dtype=np.uint64)
        mixed = _mix(_mix(number + np.uint64(seed)) + column * np.uint64(0x9E3779B97F4A7C15))
    return ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _mix(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix bits: each one of the result depends on all of a number (Steele, Lea, Flood 2014)."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


# ------------------------------------------------------------------------ alternatives to no change

# Sizes to bet on, in factors of about two, so that a size between two of them costs little.
SHIFTS = (0.15, 0.3, 0.6, 1.2, 2.4)
SPREADS = (0.25, 0.5, 0.75, 1.33, 2.0, 4.0)
# (additional share of the rows, in the most extreme share of the reference; 0: beyond all of it)
EXTRA = (
    (0.01, 0.0), (0.05, 0.0), (0.3, 0.0), (0.01, 0.01), (0.04, 0.01),
    (0.02, 0.02), (0.08, 0.02), (0.05, 0.05), (0.2, 0.05),
)  # fmt: skip
FEWER = (0.5, 0.2)  # remaining share of the lowest bins
STUCK = 0.9  # share of the rows in one bin
CLUMP = 0.2  # additional share of the rows in three neighbouring bins
SURE = 0.98  # weight of an alternative; the rest is the reference's, so that no bin is impossible
# Split of the stakes: a change that few rows prove, such as a stuck sensor, needs less.
STAKES = {
    "higher": 0.25, "lower": 0.25, "wider": 0.08, "narrower": 0.05, "stuck": 0.04,
    "clumped": 0.1, "more extremes": 0.18, "fewer extremes": 0.05,
}  # fmt: skip


@saved_as("Alternatives", names=ANY)
@dataclass(frozen=True, eq=False)
class Alternatives:
    """Distributions over B bins under K possible changes.

    On the scale of the reference a value is its quantile there, u, or the normal score of that, z.

    Attributes
    ----------
    laws : ndarray of shape (K, B)
        Probabilities of the bins.
    names : list of K str
        The changes: "higher", "lower", "wider", "narrower", "stuck", "clumped", "more extremes"
        or "fewer extremes".
    stakes : ndarray of shape (K,)
        Stakes on each, with sum 1.
    """

    laws: Host
    names: list[str]
    stakes: Host

    @cached_property
    def log_laws(self) -> Host:
        """Logarithms of the laws."""
        return np.log(self.laws)

    @classmethod
    def of_values(cls, gaps: Host) -> Alternatives:
        """Build alternatives for a whole column, from the gaps of its bins."""
        found = [*_moved(gaps), *_stuck(gaps), *_clumped(gaps)]
        found += [("more extremes", law) for law in _extra(gaps)]
        found += [("more extremes", law[::-1]) for law in _extra(gaps[::-1])]
        return cls._mixed(found, gaps)

    @classmethod
    def of_tail(cls, gaps: Host) -> Alternatives:
        """Build alternatives for the lowest bins, followed by one bin for all others."""
        usual = gaps / gaps.sum()
        found = [("more extremes", law) for law in _extra(gaps)]
        rest = [usual[:-1] * left for left in FEWER]
        found += [("fewer extremes", np.append(law, 1 - law.sum())) for law in rest]
        return cls._mixed(found, gaps)

    @classmethod
    def of_body(cls, gaps: Host) -> Alternatives:
        """Build alternatives for the bins above the lowest tenth."""
        return cls._mixed([*_moved(gaps), *_stuck(gaps), *_clumped(gaps)], gaps)

    @classmethod
    def _mixed(cls, found: list[tuple[str, Host]], gaps: Host) -> Alternatives:
        laws, names = np.array([law for _, law in found]), [name for name, _ in found]
        stakes = np.array([STAKES[name] / names.count(name) for name in names])
        mixed = SURE * laws + (1 - SURE) * gaps / gaps.sum()
        return cls(mixed, names, stakes / stakes.sum())


def _moved(gaps: Host) -> list[tuple[str, Host]]:
    ends = ndtri(np.concatenate([[0.0], np.cumsum(gaps) / gaps.sum()]))
    found = [("higher", ends - by) for by in SHIFTS] + [("lower", ends + by) for by in SHIFTS]
    found += [("wider" if by > 1 else "narrower", ends / by) for by in SPREADS]
    return [(name, np.diff(ndtr(moved))) for name, moved in found]


def _stuck(gaps: Host) -> list[tuple[str, Host]]:
    usual = gaps / gaps.sum()
    return [("stuck", STUCK * law + (1 - STUCK) * usual) for law in np.eye(len(gaps))]


def _clumped(gaps: Host) -> list[tuple[str, Host]]:
    usual, place = gaps / gaps.sum(), np.arange(len(gaps))
    laws = np.where(abs(place[:, None] - place) <= 1, usual, 0.0)
    return [("clumped", (1 - CLUMP) * usual + CLUMP * law / law.sum()) for law in laws]


def _extra(gaps: Host) -> list[Host]:
    """Add rows among the lowest of the reference."""
    usual = gaps / gaps.sum()
    found = []
    for share, among in EXTRA:
        # The lowest bins that hold that share of the reference, at least one.
        last = max(1, int(np.searchsorted(np.cumsum(usual), among + 1e-9)))
        law = np.where(np.arange(len(gaps)) < last, usual, 0.0)
        found.append((1 - share) * usual + share * law / law.sum())
    return found


# ----------------------------------------------------------------------------------------- evidence

FIRST_ROWS = 2000.0  # half of the stakes are placed within about twice as many rows
MEMORY = 300.0  # rows after which the weight of a row falls to 1/e in the recent law
TRUST = 20.0  # weight of the reference in it, in rows
ON_RECENT = 0.1  # its share of the stakes
RECENT = "otherwise"  # its name


@saved_as("Evidence")
@dataclass(eq=False)
class Evidence:
    r"""Test martingales of J streams of bins against "nothing has changed".

    Let :math:`a_b` be the gaps in bin b, and :math:`c_b` the rows of the stream there so far. While
    nothing has changed, the bins of the next m rows have, by the Dirichlet distribution of
    `ReferenceBins`, the probability

    .. math:: P_0 = \frac{\Gamma(A)}{\Gamma(A + m)} \prod_b \frac{\Gamma(a_b + c_b + m_b)}
        {\Gamma(a_b + c_b)}, \qquad A = \sum_b (a_b + c_b)

    exactly, whatever the distribution of the values: the uncertainty of n reference rows is
    accounted for. An alternative :math:`q_k` gives :math:`P_k = \prod_b q_{kb}^{m_b}`. So
    :math:`P_k / P_0` has mean 1 under the null, given the past, and a product of such ratios is a
    martingale; so is a sum of products that start at different rows, with weights that sum to 1:

    .. math:: E_t = G(t) + \sum_k v_k \sum_{\tau \le t} (G(\tau) - G(\tau + m_\tau))
        \prod_{s \ge \tau} \frac{P_k^{(s)}}{P_0^{(s)}}, \qquad
        G(t) = \frac{1}{1 + \log(1 + t / 2000)}

    By Ville's inequality :math:`P(\exists t: E_t \ge 1/\alpha) \le \alpha`, over any length of
    time. One recursion holds the inner sum for each k, so that the state does not grow. The last
    alternative is the exponentially weighted distribution of recent rows, updated at each step.

    Ville (1939). Étude critique de la notion de collectif. Gauthier-Villars.

    Vovk, Gammerman and Shafer (2005). Algorithmic Learning in a Random World, chapter 7. Springer.
    (betting against exchangeability)

    Attributes
    ----------
    gaps : ndarray of shape (B,)
        Gaps of the reference in each bin.
    alternatives : Alternatives
        Alternatives with stakes, apart from that of recent rows.
    counts : ndarray of shape (J, B)
        Rows so far, by bin.
    recent : ndarray of shape (J, B)
        The same with exponentially decaying weights.
    log_stakes : ndarray of shape (J, K)
        Logarithms of the wealth on each alternative, summed over all starts.
    best, since : ndarrays of shape (J, K)
        The log-likelihood ratio of an alternative against the null from its best start, and that
        start (Page's rule). They date a change; they do not declare it.
    n_rows : int
        Rows so far.
    """

    gaps: Host
    alternatives: Alternatives
    counts: Host
    recent: Host
    log_stakes: Host
    best: Host
    since: Rows
    n_rows: int = 0

    @classmethod
    def before(cls, gaps: Host, alternatives: Alternatives, n_streams: int) -> Evidence:
        """Return the evidence before the first row."""
        zeros = np.zeros((n_streams, len(gaps)))
        nothing = np.full((n_streams, len(alternatives.names) + 1), -np.inf)
        since = np.zeros(nothing.shape, dtype=np.int64)
        return cls(gaps, alternatives, zeros, zeros, nothing, nothing, since)

    def update(self, blocks: Host, rows: Rows) -> Host:
        """Update by counts of shape (blocks, J, B), block after block.

        A stream of some of the rows has lower counts. Returns the logarithms of E after each
        block, of shape (blocks, J).
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
        log_recent = (block * np.log(self.recent_laws())).sum(axis=1)
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

    def recent_laws(self) -> Host:
        """Return the distribution of recent rows of each stream, shrunk to the reference."""
        laws = self.recent + TRUST * self.gaps / self.gaps.sum()
        return laws / laws.sum(axis=1, keepdims=True)

    @property
    def log_values(self) -> Host:
        """The logarithm of E for each stream, of shape (J,)."""
        kept = np.full((len(self.log_stakes), 1), np.log(_not_placed(self.n_rows)))
        return _log_sum(np.column_stack([kept, self.log_stakes]))

    def leading(self, stream: int) -> tuple[str, int]:
        """Return the name of the best alternative of a stream, and the row of its change."""
        law = int(np.argmax(self.best[stream]))
        names = [*self.alternatives.names, RECENT]
        return names[law], int(self.since[stream, law])


def _not_placed(row: int) -> float:
    """Return G, the share of the stakes for changes after a row."""
    return float(1.0 / (1.0 + np.log1p(row / FIRST_ROWS)))


def _log_sum(logs: Host) -> Host:
    """Return ``log Σ exp`` of each row; each has a finite entry."""
    most = logs.max(axis=1)
    found: Host = most + np.log(np.exp(logs - most[:, None]).sum(axis=1))
    return found


# ------------------------------------------------------------------------------- counts and history

# Stakes are placed, and a change is dated, block by block: rows of a block at least, and blocks of
# a batch at most, for each block costs the same.
BLOCK, MOST_BLOCKS = 100, 20
# Blocks of the history; beyond, neighbours are merged in pairs.
REMEMBERED = 64


@dataclass(frozen=True, eq=False)
class StreamCounts:
    """Counts of bins of some rows; ``a + b`` appends the later rows of b.

    Attributes
    ----------
    rows : ndarray of shape (b,)
        Rows in each block.
    columns : ndarray of shape (b, d, B) or None
        Counts of the columns' bins; None without columns to compare.
    scores : ndarray of shape (b, 1 + R, B) or None
        Counts of the bins of the fused score and the detectors'.
    waiting : ndarray of shape (m, 1 + R) or None
        The scores themselves, while there are no bins yet.
    """

    rows: Rows
    columns: Host | None
    scores: Host | None
    waiting: Host | None

    def __add__(self, other: StreamCounts) -> StreamCounts:
        if (self.scores is None) != (other.scores is None):
            raise ValueError(
                "Counts from before and after scores had bins cannot be added. Pass them one after "
                "the other: monitor.update_counts(a), then monitor.update_counts(b)."
            )
        return StreamCounts(
            np.concatenate([self.rows, other.rows]),
            _joined(self.columns, other.columns),
            _joined(self.scores, other.scores),
            _joined(self.waiting, other.waiting),
        )


def _joined(one: Host | None, other: Host | None) -> Host | None:
    return None if one is None or other is None else np.concatenate([one, other])


def block_sizes(n: int) -> Rows:
    """Split n rows into blocks."""
    size = max(BLOCK, -(-n // MOST_BLOCKS))
    return np.diff(np.append(np.arange(0, n, size), n))


def count_blocks(places: Bins, n_bins: int, rows: Rows) -> Host:
    """Count rows by bin: shape (blocks, J, B)."""
    width = places.shape[1]
    block = np.repeat(np.arange(len(rows)), rows)
    index = (block[:, None] * width + np.arange(width)) * n_bins + places
    found = np.bincount(index.ravel(), minlength=len(rows) * width * n_bins)
    return found.reshape(len(rows), width, n_bins).astype(np.float64)


@saved_as("StreamHistory")
@dataclass(frozen=True, eq=False)
class StreamHistory:
    """Sums of J streams over at most `REMEMBERED` blocks of rows.

    Attributes
    ----------
    rows : ndarray of shape (h,)
        Rows of each block.
    sums, squares : ndarrays of shape (h, J)
        Of normal scores: quantiles of the reference as those of the standard normal distribution.
    """

    rows: Rows
    sums: Host
    squares: Host

    @classmethod
    def empty(cls, width: int) -> StreamHistory:
        """Return the history of no rows."""
        nothing = np.empty((0, width))
        return cls(np.empty(0, dtype=np.int64), nothing, nothing)

    def with_blocks(self, blocks: Host, rows: Rows, gaps: Host) -> StreamHistory:
        """Append the counts of further blocks, of shape (blocks, J, B)."""
        scores = normal_scores(gaps)
        new = rows, blocks @ scores, blocks @ scores**2
        old = self.rows, self.sums, self.squares
        held = [np.concatenate(pair) for pair in zip(old, new, strict=True)]
        while len(held[0]) > REMEMBERED:  # merge neighbours, from the first on
            held = [_sum_pairs(each) for each in held]
        return StreamHistory(*held)

    def latest(self) -> tuple[Host, Host]:
        """Return mean and standard deviation of the latest rows, at least a fiftieth of all."""
        if not self.rows.sum():
            empty = np.full(self.sums.shape[1], np.nan)
            return empty, empty
        back = np.cumsum(self.rows[::-1])
        first = len(self.rows) - 1 - int(np.searchsorted(back, max(BLOCK, 0.02 * back[-1])))
        first = max(first, 0)
        n = self.rows[first:].sum()
        mean = self.sums[first:].sum(axis=0) / n
        square = self.squares[first:].sum(axis=0) / n
        return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def _sum_pairs(values: Any) -> Any:
    even = len(values) // 2 * 2
    return np.concatenate([values[:even:2] + values[1:even:2], values[even:]])


def normal_scores(gaps: Host) -> Host:
    """Return the mean of the standard normal distribution in each bin."""
    ends = ndtri(np.concatenate([[0.0], np.cumsum(gaps) / gaps.sum()]))
    density = np.exp(-(ends**2) / 2) / np.sqrt(2 * np.pi)
    found: Host = -np.diff(density) / (gaps / gaps.sum())
    return found


# --------------------------------------------------------------------------------- streams and bets

TAIL_SHARE = 0.1  # of the reference, the "strange rows"
# Share of the divergence from the reference, within its middle, up to which only extremes have
# changed. It affects the name of a change alone.
MIDDLE = 0.2
# Split of the level among the bets. Most changes show in a column first, in its extremes or in its
# middle alike; strange rows matter most to users.
SHARES = {"strange rows": 0.25, "usual rows": 0.1, "detectors": 0.15, "columns": 0.5}

Part = Literal["all", "tail", "body"]


@saved_as("Bet", names=ANY, part=("all", "tail", "body"))
@dataclass(frozen=True, eq=False)
class Bet:
    """A bet on some streams, or on some bins of one.

    Attributes
    ----------
    names : list of str
        Names of the streams.
    first, last : int
        Their range among the streams of one reference.
    part : {"all", "tail", "body"}
        Their bins: all; the first `strange` ones, and all others as one; or these others. Under the
        Dirichlet distribution the last two are independent.
    strange : int
        Bins of the tail.
    share : float
        Its share of the level, split equally among its streams.
    evidence : Evidence
        The martingales.
    """

    names: list[str]
    first: int
    last: int
    part: Part
    strange: int
    share: float
    evidence: Evidence

    @classmethod
    def on(cls, names: list[str], first: int, gaps: Host, share: float, part: Part = "all") -> Bet:
        """Bet on streams from `first` on."""
        strange = max(1, int(np.searchsorted(np.cumsum(gaps), TAIL_SHARE * gaps.sum() + 0.5)))
        some = _bins_of(gaps, part, strange)
        laws = {"all": Alternatives.of_values, "tail": Alternatives.of_tail,
                "body": Alternatives.of_body}[part](some)  # fmt: skip
        evidence = Evidence.before(some, laws, len(names))
        return cls(names, first, first + len(names), part, strange, share, evidence)

    def update(self, blocks: Host, rows: Rows) -> Host:
        """Update by counts of all streams of the reference, see `Evidence.update`."""
        some = _bins_of(blocks[:, self.first : self.last], self.part, self.strange)
        return self.evidence.update(some, rows)

    def log_threshold(self, level: float) -> float:
        """Return the logarithm of E from which drift is declared."""
        return float(np.log(len(self.names) / (self.share * level)))

    def leading(self, stream: int) -> tuple[str, int]:
        """Return the best alternative of a stream, and the row of its change.

        See `Evidence.leading`. The distribution of recent rows gets a name if it differs from the
        reference in the extremes alone.
        """
        what, since = self.evidence.leading(stream)
        if what != RECENT or self.part == "body":
            return what, since
        usual = self.evidence.gaps / self.evidence.gaps.sum()
        recent = self.evidence.recent_laws()[stream]
        below = (np.cumsum(usual) <= 1 - TAIL_SHARE + 1e-9) | (self.part == "tail")
        inside = below & (np.arange(len(usual)) >= self.strange)
        share, before = recent[inside].sum(), usual[inside].sum()
        gain = recent * np.log(recent / usual)
        within = gain[inside].sum() - share * np.log(share / before)
        if within > MIDDLE * gain.sum():
            return what, since
        return ("more extremes" if share < before else "fewer extremes"), since


def _bins_of(counts: Host, part: Part, strange: int) -> Host:
    if part == "all":
        return counts
    if part == "body":
        return counts[..., strange:]
    rest = counts[..., strange:].sum(axis=-1, keepdims=True)
    return np.concatenate([counts[..., :strange], rest], axis=-1)


@saved_as("WatchedStreams", names=ANY)
@dataclass(eq=False)
class WatchedStreams:
    """Monitor streams of numbers that share one reference.

    Attributes
    ----------
    names : list of J str
        Names of the streams.
    bins : ReferenceBins
        Of the reference.
    bets : list of Bet
        Bets on the streams.
    history : StreamHistory
        Sums of their values over time.
    every : int
        The first of so many rows is looked at.
    """

    names: list[str]
    bins: ReferenceBins
    bets: list[Bet]
    history: StreamHistory
    every: int = 1
    left_out: ClassVar[dict[str, int]] = {}

    @classmethod
    def columns(cls, reference: Host, names: list[str], seed: int) -> WatchedStreams:
        """Monitor the columns of rows; `reference` has shape (n, d)."""
        bins, names = ReferenceBins.of(reference, seed), [COLUMN + name for name in names]
        bets = [Bet.on(names, 0, bins.gaps, SHARES["columns"])]
        return cls(names, bins, bets, StreamHistory.empty(len(names)))

    @classmethod
    def scores(cls, reference: Host, detectors: list[str], seed: int) -> WatchedStreams:
        """Monitor the fused score and the detectors'; `reference` has shape (n, 1 + R)."""
        bins, members = ReferenceBins.of(reference, seed), [MEMBER + name for name in detectors]
        bets = [
            Bet.on([TAIL], 0, bins.gaps, SHARES[TAIL], "tail"),
            Bet.on([BODY], 0, bins.gaps, SHARES[BODY], "body"),
            Bet.on(members, 1, bins.gaps, SHARES["detectors"]),
        ]
        bets = bets if members else bets[:2]
        return cls([FUSED, *members], bins, bets, StreamHistory.empty(1 + len(members)))

    def changes(self, values: Host, level: float) -> bool:
        """Tell whether rows of a stream look changed: there is less evidence than is declared."""
        rows = block_sizes(len(values))
        blocks = self.count(values[:, None], 0, rows)
        most = [(bet.update(blocks, rows).max(), bet.log_threshold(level)) for bet in self.bets]
        return any(found >= min(BY_ITSELF, line) for found, line in most)

    @property
    def parts(self) -> list[WatchedStreams]:
        """Streams that share a reference."""
        return [self]

    def count(self, values: Host, first_row: int, rows: Rows) -> Host:
        """Count rows by bin, shape (blocks, J, B), without a change of state."""
        places = self.bins.places(values, first_row)[-first_row % self.every :: self.every]
        before = -(-(first_row + np.append(0, np.cumsum(rows))) // self.every)
        return count_blocks(places, len(self.bins.gaps), np.diff(before))

    def copy(self) -> WatchedStreams:
        """Return streams whose updates do not affect these; arrays are never changed in place."""
        return replace(self, bets=[replace(b, evidence=copy(b.evidence)) for b in self.bets])

    def update(self, blocks: Host, rows: Rows, level: float, start: int) -> list[Drift]:
        """Update by counts of the rows from `start` on; return the changes declared so far."""
        counted = blocks[:, 0].sum(axis=1).astype(np.int64)
        self.history = self.history.with_blocks(blocks, counted, self.bins.gaps)
        found = []
        ends = start + np.cumsum(rows)
        for bet in self.bets:
            logs = bet.update(blocks, rows)
            over = logs >= bet.log_threshold(level)
            before = int(ends[-1]) - bet.evidence.n_rows  # rows before the bet began
            for j in np.flatnonzero(over.any(axis=0)).tolist():
                what, since = bet.leading(j)
                block = int(np.argmax(over[:, j]))  # a later change may be likelier by now
                since = min(before + since, int(ends[block] - rows[block]))
                found.append(Drift(bet.names[j], what, since, int(ends[block])))
        return found

    @property
    def evidence(self) -> dict[str, float]:
        """Decimal logarithms of E by name, corrected for the number of streams."""
        found: dict[str, float] = {}
        for bet in self.bets:
            corrected = bet.evidence.log_values - bet.log_threshold(1.0)
            found |= dict(zip(bet.names, (corrected / np.log(10.0)).tolist(), strict=True))
        return found


# --------------------------------------------------------------------------------- dependent rows

FEWEST = 20  # rows of a reference
# Rows from one that is looked at to the next, at least: 17 pumps had no drift before their faults
# with 8 or 12, 3 with 6, and 1 to 3 with means of that many rows.
SPACING = 12
# Of the estimated correlation length: of 200 autocorrelated streams (0.9) that did not change, 0
# had drift with 1.5, 3 with 1.25, 6 with 1, at a level of 1 %.
SURELY = 1.5
BY_ITSELF = log(20.0)  # evidence of a change within the reference from which it is not one


@saved_as("SpacedStreams", left_out=ANY)
@dataclass(frozen=True, eq=False)
class SpacedStreams:
    """Monitor streams of dependent numbers, each by rows that are nearly independent.

    Of a stream every b-th row is looked at, by how many rows tell as much as one independent row
    (`correlation_length`), and compared with every b-th reference row. Streams that change within
    their reference, or of which it holds too few such rows, are left out.

    Attributes
    ----------
    places : list of int
        Columns of the numbers that are monitored.
    parts : list of WatchedStreams
        For each of them.
    left_out : dict of str: int
        Others, see `DriftStatus`.
    """

    places: list[int]
    parts: list[WatchedStreams]
    left_out: dict[str, int]

    @classmethod
    def of(
        cls, reference: Host, names: list[str], seed: int, level: float, replayed: Any = None
    ) -> SpacedStreams:
        """Monitor streams, of the names that are in their status.

        `reference` has shape (n, J): consecutive rows. `replayed` are other rows in which nothing
        changes, of shape (m,); by default these.
        """
        found = [
            _spaced(values, names[j], seed + j, level, values if replayed is None else replayed)
            for j, values in enumerate(reference.T)
        ]
        parts = {j: part for j, part in enumerate(found) if not isinstance(part, int)}
        for part in parts.values():
            part.bets = [replace(bet, share=bet.share / len(parts)) for bet in part.bets]
        left_out = {names[j]: n for j, n in enumerate(found) if isinstance(n, int)}
        return cls([*parts], [*parts.values()], left_out)

    def count(self, values: Host, first_row: int, rows: Rows) -> Host:
        """Count rows by bin, as `WatchedStreams` does; bins that a part lacks have no row."""
        n_bins = max((len(part.bins.gaps) for part in self.parts), default=0)
        found = np.zeros((len(rows), len(self.parts), n_bins))
        for k, (j, part) in enumerate(zip(self.places, self.parts, strict=True)):
            found[:, [k], : len(part.bins.gaps)] = part.count(values[:, [j]], first_row, rows)
        return found

    def copy(self) -> SpacedStreams:
        """Return streams whose updates do not affect these."""
        return replace(self, parts=[part.copy() for part in self.parts])

    def update(self, blocks: Host, rows: Rows, level: float, start: int) -> list[Drift]:
        """Update by counts of the rows from `start` on; return the changes declared so far."""
        each = [(part, blocks[:, [k], : len(part.bins.gaps)]) for k, part in enumerate(self.parts)]
        return [found for part, some in each for found in part.update(some, rows, level, start)]


Watched = WatchedStreams | SpacedStreams


def _spaced(
    values: Host, name: str, seed: int, level: float, replayed: Host
) -> WatchedStreams | int:
    """Monitor one stream of dependent numbers; else say why not, as `DriftStatus.left_out` does."""
    every = max(SPACING, ceil(SURELY * correlation_length(values)))
    if len(values) < FEWEST * every:
        return FEWEST * every

    make: Any = WatchedStreams.scores if name == FUSED else WatchedStreams.columns
    known = [] if name == FUSED else [name.removeprefix(COLUMN)]

    def watched(rows: Host) -> WatchedStreams:
        return replace(make(rows[::every, None], known, seed), every=every)

    half, back = len(values) // 2 // every * every, values[::-1]
    pairs = [(watched(values), replayed)]
    pairs += [(watched(part[:half]), part[half:]) for part in (values, back)]
    return 0 if any(part.changes(after, level) for part, after in pairs) else watched(values)


# ----------------------------------------------------------------------------------- reference rows


class Reference(NamedTuple):
    """Columns and scores of the reference rows.

    Attributes
    ----------
    positions, names : lists
        Positions and names of the d numeric columns.
    columns : ndarray of shape (n, d) or None
        Their values; None without any.
    scores : ndarray of shape (m, 1 + R) or None
        The fused score and the raw ones of the detectors; None without held-out rows. Of rows in
        time order, the fused score alone.
    replayed : ndarray of shape (n,) or None
        Fused scores of the training rows in time order.
    """

    positions: list[int]
    names: list[str]
    columns: Host | None
    scores: Host | None
    replayed: Host | None = None


def reference_of(fused: FusedDetector, rows: Any, names: Sequence[str] | None) -> Reference:
    """Return the reference: the user's rows, or those that a fitted detector stores."""
    replayed = None
    if rows is not None:
        made = fused.preparation_
        table = check_table(rows, estimator=fused) if made is None else made.table(rows, fused)
        if table.shape[0] < FEWEST:
            raise ValueError(
                f"reference must have at least {FEWEST} rows, got {table.shape[0]}. Pass a few "
                "hundred to detect small shifts."
            )
        verdicts = fused.verdicts(rows)
        scores: Host | None = np.column_stack([verdicts.scores, verdicts.detector_scores])
    else:
        kept = fused.rows_.values
        normal = _not_anomalous(fused)
        table = None if kept is None or normal.sum() < FEWEST else kept[normal]
        scores = _held_out_scores(fused)
        if table is not None and fused.windows_ is not None:
            replayed = fused.score_samples(table)
            table = table[:, : fused.windows_.n_features_in_]
    all_names = _names(fused, names)
    if table is None:
        return Reference([], [], None, scores)
    positions = _number_positions(table)
    if fused.preparation_ is not None:  # later rows are later: no drift
        positions = [j for j in positions if j in fused.preparation_.lasting]
    values = numbers_at(table, positions) if positions else None
    return Reference(positions, [all_names[j] for j in positions], values, scores, replayed)


def numbers_at(table: Any, positions: list[int]) -> Host:
    """Convert some columns of a table to numbers; NaN marks missing cells."""
    if isinstance(table, np.ndarray):
        return table[:, positions].astype(np.float64, copy=False)
    found = []
    for j in positions:
        column = _safe_indexing(table, j, axis=1)
        try:  # NA of pandas becomes NaN
            column = column.astype(np.float64) if hasattr(column, "astype") else column
            found.append(np.asarray(column, dtype=np.float64))
        except (TypeError, ValueError):
            name = (column_names(table) or [])[j]
            raise ValueError(
                f"Column {quote(name)} is numeric in the reference, but the new rows hold text. "
                "Convert it to numbers or to missing cells first."
            ) from None
    return np.column_stack(found)


def _number_positions(table: Any) -> list[int]:
    columns = [_safe_indexing(table, j, axis=1) for j in range(table.shape[1])]
    kinds = [getattr(each.dtype, "kind", None) or np.asarray(each).dtype.kind for each in columns]
    return [j for j, kind in enumerate(kinds) if kind in "biuf"]


def _names(fused: FusedDetector, names: Sequence[str] | None) -> list[str]:
    made, d = fused.preparation_, fused.n_features_in_
    known = getattr(fused, "feature_names_in_", range(d)) if made is None else made.feature_names
    if names is not None and len(names) != d:
        raise ValueError(f"column_names must name {d} columns, got {len(names)}.")
    return [str(name) for name in (known if names is None else names)]


def _in_order(fused: FusedDetector) -> bool:
    """Tell whether rows come in time order, or look as if they did."""
    return fused.windows_ is not None or fused.order_.spacing > 1


def _not_anomalous(fused: FusedDetector) -> Any:
    """Select training rows, then held-out rows, that are not labelled as anomalies.

    Held-out rows that were drawn among rows in order are left out.
    """
    n = len(fused.held_out_.labels)
    known = fused.out_of_fold_.known
    normal = np.arange(n) < (fused.result_.n_learnt if _in_order(fused) else n)
    if known is not None:
        normal[: len(known)] = known >= 0
    return normal


def _held_out_scores(fused: FusedDetector) -> Host | None:
    """Return the scores of held-out calibration rows, if the final detectors made them.

    Those of calibration="cross" come from the detectors of the folds: close, but a long stream
    reveals even a small difference, which would be declared as drift.
    """
    unseen, found = fused.unseen_, fused.held_out_
    if unseen.by == "forward":  # rows that came after those that were learnt from
        return found.fused[found.is_calibrating][:, None]
    drawn = fused.windows_ is None and _in_order(fused)  # among rows that are like them
    if unseen.by != "split" or unseen.n_split < FEWEST or drawn:
        return None
    return np.column_stack([found.fused[-unseen.n_split :], unseen.scores])


# -------------------------------------------------------------------------------------- the monitor


@saved_as("DriftMonitor", column_names_=ANY, detector_names_=ANY)
class DriftMonitor:
    r"""Detect drift of the rows that a fused detector scores.

    Every row falls into a bin of the reference rows' values: for the fused score, for the score of
    each of R detectors, and for each of d columns. A bet against "rows still come as the reference
    did" multiplies its stake by a martingale :math:`E_t`, whose mean stays 1 as long as that is
    true, whatever the distribution of the rows (see `lpfuse.monitor`). Drift of a stream of numbers
    with the share :math:`v` of the level is declared once
    :math:`E_t \ge 1 / (v \, \mathrm{level})`, so that

    .. math:: P(\text{drift is ever declared} \mid \text{nothing changes}) \le \mathrm{level}

    over any length of time. Half of the level goes to the columns, a quarter to the tenth of the
    rows with the lowest fused scores, a tenth to the other rows, the rest to the detectors.

    Parameters
    ----------
    level : float in (0, 0.5], default=0.01
        Upper bound on the probability of a false drift alarm, ever.
    first_rows : int, default=300
        Rows of the stream that become the reference of the scores where there is no other.
    random_state : int, default=0
        Seed of the numbers that break ties.

    Attributes
    ----------
    n_rows_ : int
        Rows so far.
    status_ : DriftStatus
        Summary of them.
    n_reference_ : tuple of two ints
        Reference rows of columns and of scores; 0 while there are none.

    Notes
    -----
    **The guarantee** assumes rows that are exchangeable with the reference while nothing changes,
    for instance independent. Duplicates that `fit` removed make the training rows differ from the
    stream; and a detector fitted to normal rows alone, monitoring rows with some anomalies, will
    report these: pass a `reference` of rows as they usually come.

    **Rows in time order**, or that look dependent, are monitored by their columns and the fused
    score, each by every b-th row: 1.5 times the rows that tell as much as one independent row, at
    least 12. Each is first tried on the reference and the training rows. What changes there by
    itself, or is left with fewer than 20 rows, is not monitored, and the status says so. The bound
    on false alarms is then as good as the estimated dependence.

    **Limits.** A change before the first row is compared with the reference alone, and what its n
    rows leave open is not found, however long it lasts: with 400 rows half of the shifts of 0.4
    standard deviations in one of ten columns, with 50 rows most of those of 1. Unchanged rows of
    the stream extend the reference. Each row is scored by itself, so that a change of order is not
    found. See :attr:`DriftStatus.kind` for other causes of "more anomalies".

    **After an alarm** the monitor continues. `rearm` makes the next rows the reference. Once the
    model is recalibrated or fitted again, create a new monitor.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import FusedDetector
    >>> from lpfuse.monitor import DriftMonitor
    >>> rng = np.random.default_rng(0)
    >>> fused = FusedDetector(["gmm", "kpca"], random_state=0).fit(rng.normal(size=(3000, 4)))
    >>> monitor = DriftMonitor().fit(fused)
    >>> X = rng.normal(size=(2000, 4))
    >>> monitor.update(X, fused.verdicts(X)).alarm
    False
    >>> X = rng.normal(size=(500, 4))
    >>> X[:, 2] += 0.5  # a sensor is off by half a standard deviation
    >>> status = monitor.update(X, fused.verdicts(X))
    >>> status.kind, status.drifts[0].stream, status.drifts[0].what
    ('normal has changed', 'column:2', 'higher')
    """

    in_order_ = False

    def __init__(
        self, *, level: float = 0.01, first_rows: int = 300, random_state: int = 0
    ) -> None:
        self.level = level
        self.first_rows = first_rows
        self.random_state = random_state

    def fit(self, fused: FusedDetector, reference: Any = None, *, column_names: Any = None) -> Self:
        """Set the reference, and forget all rows so far.

        Parameters
        ----------
        fused : FusedDetector
            Fitted. It is not kept.
        reference : array-like or data frame of shape (n, d), optional
            Rows as they usually come, with as many anomalies as usual, that `fused` was not fitted
            to. Without them columns are compared with the training rows (without labelled
            anomalies), and scores with the held-out calibration rows; where there are none, below
            2,000 normal rows, with the first `first_rows` of the stream.
        column_names : list of str, optional
            Names of the columns; by default those of `fused`.

        Returns
        -------
        DriftMonitor
            The fitted monitor.
        """
        check_is_fitted(fused)
        check_share("level", self.level, of="the streams that do not change")
        if check_count("first_rows", self.first_rows) < FEWEST:
            raise ValueError(f"first_rows must be at least {FEWEST}, got {self.first_rows}.")
        found = reference_of(fused, reference, column_names)
        vars(self).update(vars(copy(self)._begin(fused, found)))
        return self

    def _begin(self, fused: FusedDetector, found: Reference) -> Self:
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.positions_, self.column_names_ = found.positions, found.names
        self.detector_names_, self.preparation_ = list(fused.detector_names_), fused.preparation_
        self.n_features_in_, self.in_order_ = fused.n_features_in_, _in_order(fused)
        self.n_rows_ = 0
        self.drifts_: list[Drift] = []
        columns, scores = found.columns, found.scores
        # None without a reference of columns, and before there is one of scores.
        self.columns_ = None if columns is None else self._watch_columns(columns)
        self.scores_ = None if scores is None else self._watch_scores(scores, found.replayed)
        self.first_scores_ = np.empty((0, self._n_scores))
        return self

    def rearm(self) -> Self:
        """Forget declared drifts, and make the next `first_rows` rows the reference.

        For a stream whose change is the new normal. To compare with rows since the change at once,
        pass them to `fit` as the reference.

        Returns
        -------
        DriftMonitor
            The monitor itself.
        """
        self.drifts_, self.columns_, self.scores_ = [], None, None
        self.first_scores_ = np.empty((0, self._n_scores + len(self.positions_)))
        return self

    @property
    def _n_scores(self) -> int:
        return 1 + len(self.detector_names_)

    def _watch_columns(self, reference: Host) -> Watched:
        names, seed = self.column_names_, self.seed_
        if self.in_order_:
            return SpacedStreams.of(reference, [COLUMN + name for name in names], seed, self.level)
        return WatchedStreams.columns(reference, names, seed)

    def _watch_scores(self, reference: Host, replayed: Host | None = None) -> Watched:
        seed = self.seed_ + 1
        if self.in_order_:
            return SpacedStreams.of(reference[:, :1], [FUSED], seed, self.level, replayed)
        return WatchedStreams.scores(reference, self.detector_names_, seed)

    # ------------------------------------------------------------------------- rows, one by one

    def update(self, X: Any, verdicts: Verdicts) -> DriftStatus:
        """Update by the next rows.

        Parameters
        ----------
        X : array-like or data frame of shape (m, d), or (d,) for one row
            Rows, in their order.
        verdicts : Verdicts
            Their verdicts, ``fused.verdicts(X)``.

        Returns
        -------
        DriftStatus
            Summary of all rows so far.
        """
        return self.update_counts(self.count(X, verdicts))

    def count(self, X: Any, verdicts: Verdicts, *, first_row: int | None = None) -> StreamCounts:
        """Count rows for `update_counts`, without a change of the monitor.

        Workers of a cluster count, and one monitor is updated by the counts.

        Parameters
        ----------
        X, verdicts
            As in `update`.
        first_row : int, optional
            Number of rows of the stream before these, which breaks ties; by default `n_rows_`.

        Returns
        -------
        StreamCounts
            Counts of the bins; ``+`` appends those of later rows.
        """
        if not hasattr(self, "seed_"):
            raise NotFittedError("This DriftMonitor is not fitted: call fit(fused) first.")
        start = self.n_rows_ if first_row is None else first_row
        scores = np.column_stack([verdicts.scores, verdicts.detector_scores])
        values = self._column_values(X, len(scores))
        rows = block_sizes(len(scores))
        with state_errors(self):
            columns = None if self.columns_ is None else self.columns_.count(values, start, rows)
            if self.scores_ is None:
                waiting = np.column_stack([scores, values])[:, : self.first_scores_.shape[1]]
                return StreamCounts(rows, columns, None, waiting)
            return StreamCounts(rows, columns, self.scores_.count(scores, start, rows), None)

    def update_counts(self, counts: StreamCounts) -> DriftStatus:
        """Update by the counts of the next rows, in their order.

        Parameters
        ----------
        counts : StreamCounts
            By `count` of this monitor, or of a copy with the same reference.

        Returns
        -------
        DriftStatus
            Summary of all rows so far.
        """
        after = copy(self)  # replaces the state at the end, unless an error or a signal comes
        with state_errors(self):
            after.drifts_ = list(self.drifts_)
            after.columns_ = self.columns_ and self.columns_.copy()
            after.scores_ = self.scores_ and self.scores_.copy()
            after._add(counts)
        status = after.status_  # raises where the state is damaged
        vars(self).update(vars(after))
        return status

    def _add(self, counts: StreamCounts) -> None:
        start, width = self.n_rows_, self._n_scores
        given = [(self.columns_, counts.columns, counts.rows, start)]
        if counts.waiting is None:
            given.append((self.scores_, counts.scores, counts.rows, start))
        else:
            later = self._after_first_rows(counts.waiting)
            first, rows = start + len(counts.waiting) - len(later), block_sizes(len(later))
            both = (self.scores_, later[:, :width]), (self.columns_, later[:, width:])
            for streams, values in both:
                if streams is not None and values.size:
                    given.append((streams, streams.count(values, first, rows), rows, first))
        found = []
        for streams, blocks, rows, first in given:
            if streams is not None and blocks is not None:
                found += streams.update(blocks, rows, self.level, first)
        known = {each.stream for each in self.drifts_}  # the others in their order
        new = [each for each in found if each.stream not in known]
        self.drifts_ += sorted(new, key=lambda each: each.declared)
        self.n_rows_ += int(counts.rows.sum())

    @property
    def status_(self) -> DriftStatus:
        """Summary of all rows so far."""
        evidence, shifts, spreads = (dict[str, float]() for _ in range(3))
        with state_errors(self):
            both = [each for each in (self.scores_, self.columns_) if each is not None]
            left = {name: n for each in both for name, n in each.left_out.items()}
            for streams in (part for each in both for part in each.parts):
                evidence |= streams.evidence
                mean, deviation = streams.history.latest()
                shifts |= dict(zip(streams.names, mean.tolist(), strict=True))
                spreads |= dict(zip(streams.names, deviation.tolist(), strict=True))
            waiting = 0 if self.scores_ is not None else self.first_rows - len(self.first_scores_)
            check_share("level", self.level, of="the streams that do not change")
            rows = [self.n_rows_, *(n for d in self.drifts_ for n in (d.since, d.declared))]
            if np.array(rows).dtype.kind != "i" or not np.isfinite([*evidence.values()]).all():
                raise ArithmeticError("rows must be integers, and evidence finite")
        return DriftStatus(
            self.n_rows_, self.level, [*self.drifts_], evidence, shifts, spreads, waiting, left
        )

    @property
    def n_reference_(self) -> tuple[int, int]:
        """Reference rows of columns and of scores; 0 while there are none."""
        both = [[] if each is None else each.parts for each in (self.columns_, self.scores_)]
        n, m = (max((int(p.bins.gaps.sum()) - 1 for p in parts), default=0) for parts in both)
        return n, m

    def _after_first_rows(self, scores: Host) -> Host:
        """Make the first scores the reference; return the remaining ones."""
        if self.scores_ is not None:  # counted by a copy without that reference
            return scores
        missing = self.first_rows - len(self.first_scores_)
        self.first_scores_ = np.concatenate([self.first_scores_, scores[:missing]])
        if len(self.first_scores_) == self.first_rows:
            width = self._n_scores
            self.scores_ = self._watch_scores(self.first_scores_[:, :width])
            if self.first_scores_.shape[1] > width:
                self.columns_ = self._watch_columns(self.first_scores_[:, width:])
            self.first_scores_ = self.first_scores_[:0, :width]
        return scores[missing:]

    def _column_values(self, X: Any, n: int) -> Host:
        X = np.reshape(X, (1, -1)) if np.ndim(X) == 1 and not hasattr(X, "columns") else X
        made, d = getattr(self, "preparation_", None), self.n_features_in_
        if made is not None:
            d = len(made.features)
            X = made.rows_of(X) if hasattr(X, "columns") or hasattr(X, "column_names") else X
        table = check_table(X)
        if table.shape != (n, d):
            raise ValueError(
                f"X and verdicts must be of the same rows, and of {d} columns; "
                f"got X of shape {table.shape} and {n} verdicts. Pass X and fused.verdicts(X)."
            )
        return numbers_at(table, self.positions_) if self.positions_ else np.empty((n, 0))
