"""Streams of numbers that are watched together, and the bets on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse._saved import ANY, saved_as
from lpfuse.monitor._alternatives import Alternatives
from lpfuse.monitor._bins import ReferenceBins
from lpfuse.monitor._counts import StreamHistory, count_blocks
from lpfuse.monitor._evidence import RECENT, Evidence
from lpfuse.monitor._status import BODY, COLUMN, FUSED, MEMBER, TAIL, Drift

TAIL_SHARE = 0.1  # of the reference, which "strange rows" are
# Share of the divergence from the reference, within the middle of it, up to which only extremes
# have changed. By hand; it is for words alone.
MIDDLE = 0.2
# How the bets share the level. Most things that happen to rows show in a column first, and in its
# extremes or its middle alike; strange rows are what people want to know of.
SHARES = {"strange rows": 0.25, "usual rows": 0.1, "detectors": 0.15, "columns": 0.5}

Part = Literal["all", "tail", "body"]


@saved_as("Bet", names=ANY, part=("all", "tail", "body"))
@dataclass(frozen=True, eq=False)
class Bet:
    """A bet on some streams, or on some bins of one.

    Attributes
    ----------
    names : list of str
        What the streams are called.
    first, last : int
        The streams, among those watched together.
    part : {"all", "tail", "body"}
        Their bins: all; the first `strange` ones, and all others as one; or these others. By the
        Dirichlet law the last two say nothing of each other.
    strange : int
        Bins of the tail.
    share : float
        Its share of the level, which its streams share alike.
    evidence : Evidence
        What came of it.
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
        """The bet on streams from the first on."""
        strange = _strange_bins(gaps)
        some = _bins_of(gaps, part, strange)
        laws = {"all": Alternatives.of_values, "tail": Alternatives.of_tail,
                "body": Alternatives.of_body}[part](some)  # fmt: skip
        evidence = Evidence.before(some, laws, len(names))
        return cls(names, first, first + len(names), part, strange, share, evidence)

    def update(self, blocks: Host, rows: NDArray[np.int64]) -> Host:
        """Take in counts of all streams that are watched together: `Evidence.update`."""
        some = _bins_of(blocks[:, self.first : self.last], self.part, self.strange)
        return self.evidence.update(some, rows)

    def line(self, level: float) -> float:
        """The logarithm of E from which on drift is declared."""
        return float(np.log(len(self.names) / (self.share * level)))

    def leading(self, stream: int) -> tuple[str, int]:
        """What fits a stream best, and since when: `Evidence.leading`.

        Where that is the law of recent rows, it has a name if it differs in the extremes alone.
        """
        what, since = self.evidence.leading(stream)
        if what != RECENT or self.part == "body":
            return what, since
        usual = self.evidence.gaps / self.evidence.gaps.sum()
        recent = self.evidence.recent_law(stream)
        inside = np.zeros(len(usual), dtype=bool)
        inside[self.strange : -1 if self.part == "all" else None] = True
        if self.part == "all":
            inside[np.cumsum(usual) > 1 - TAIL_SHARE + 1e-9] = False
        share, before = recent[inside].sum(), usual[inside].sum()
        gain = recent * np.log(recent / usual)
        within = gain[inside].sum() - share * np.log(share / before)
        if within > MIDDLE * gain.sum():
            return what, since
        return ("more extremes" if share < before else "fewer extremes"), since


def _strange_bins(gaps: Host) -> int:
    return max(1, int(np.searchsorted(np.cumsum(gaps), TAIL_SHARE * gaps.sum() + 0.5)))


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
    """Streams of numbers with one reference.

    Attributes
    ----------
    names : list of J str
        What the streams are called.
    bins : ReferenceBins
        Of the reference.
    bets : list of Bet
        On the streams.
    history : StreamHistory
        How they went.
    """

    names: list[str]
    bins: ReferenceBins
    bets: list[Bet]
    history: StreamHistory

    @classmethod
    def columns(cls, reference: Host, names: list[str], seed: int) -> WatchedStreams:
        """The columns of rows; `reference` of shape (n, d)."""
        bins, names = ReferenceBins.of(reference, seed), [COLUMN + name for name in names]
        bets = [Bet.on(names, 0, bins.gaps, SHARES["columns"])]
        return cls(names, bins, bets, StreamHistory.empty(len(names)))

    @classmethod
    def scores(cls, reference: Host, detectors: list[str], seed: int) -> WatchedStreams:
        """The fused score and those of the detectors; `reference` of shape (n, 1 + R)."""
        bins, members = ReferenceBins.of(reference, seed), [MEMBER + name for name in detectors]
        bets = [
            Bet.on([TAIL], 0, bins.gaps, SHARES[TAIL], "tail"),
            Bet.on([BODY], 0, bins.gaps, SHARES[BODY], "body"),
            Bet.on(members, 1, bins.gaps, SHARES["detectors"]),
        ]
        return cls([FUSED, *members], bins, bets, StreamHistory.empty(1 + len(members)))

    def count(self, values: Host, first_row: int, rows: NDArray[np.int64]) -> Host:
        """Counts of bins, of shape (blocks, J, B); nothing changes."""
        return count_blocks(self.bins.places(values, first_row), len(self.bins.gaps), rows)

    def update(
        self, blocks: Host, rows: NDArray[np.int64], level: float, start: int
    ) -> list[Drift]:
        """Take in counts of the rows from `start` on; what is proven by then, or was before."""
        self.history = self.history.with_blocks(blocks, rows, self.bins.gaps)
        found = []
        ends = start + np.cumsum(rows)
        for bet in self.bets:
            logs = bet.update(blocks, rows)
            over = logs >= bet.line(level)
            before = int(ends[-1]) - bet.evidence.n_rows  # rows from before the bet began
            for j in np.flatnonzero(over.any(axis=0)).tolist():
                what, since = bet.leading(j)
                declared = int(ends[np.argmax(over[:, j])])
                found.append(Drift(bet.names[j], what, before + since, declared))
        return found

    def merge(self, other: WatchedStreams, level: float, n_rows: int) -> list[Drift]:
        """Take in what was seen elsewhere; what is proven by both."""
        self.history = self.history.beside(other.history)
        found: list[Drift] = []
        for bet, theirs in zip(self.bets, other.bets, strict=True):
            bet.evidence.merge(theirs.evidence)
            over = np.flatnonzero(bet.evidence.log_values >= bet.line(level)).tolist()
            found += [Drift(bet.names[j], *bet.leading(j), n_rows) for j in over]
        return found

    @property
    def evidence(self) -> dict[str, float]:
        """By name, decimal logarithms of E over the correction for all streams."""
        found: dict[str, float] = {}
        for bet in self.bets:
            corrected = bet.evidence.log_values - bet.line(1.0)
            found |= dict(zip(bet.names, (corrected / np.log(10.0)).tolist(), strict=True))
        return found
