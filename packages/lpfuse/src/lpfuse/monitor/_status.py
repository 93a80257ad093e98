"""What a monitor says: whether rows have changed, which of them, how far and since when."""

from __future__ import annotations

from dataclasses import dataclass
from math import log10
from typing import Literal

from lpfuse._format import quote
from lpfuse._saved import ANY, saved_as
from lpfuse._validation.params import listed

Kind = Literal["none", "more anomalies", "fewer anomalies", "normal has changed"]

FUSED = "fused score"
TAIL, BODY = "strange rows", "usual rows"  # of the fused score: its lowest tenth, and the rest
MEMBER, COLUMN = "detector:", "column:"  # before names
EXTREMES = ("more extremes", "fewer extremes")
WHAT = ("higher", "lower", "wider", "narrower", "stuck", "clumped", *EXTREMES, "otherwise")


@saved_as("Drift", stream=ANY, what=WHAT)
@dataclass(frozen=True)
class Drift:
    """A change that is proven.

    Attributes
    ----------
    stream : str
        "strange rows" or "usual rows", of the fused score; "detector:NAME"; or "column:NAME".
    what : str
        "higher", "lower", "wider", "narrower", "stuck", "clumped" (more rows than usual have some
        value), "more extremes", "fewer extremes" or "otherwise": what fits best.
    since : int
        The row since when, by maximum likelihood; rows are counted from 0.
    declared : int
        How many rows it took in all.
    """

    stream: str
    what: str
    since: int
    declared: int


@dataclass(frozen=True)
class DriftStatus:
    """The state of a monitor after some rows.

    Attributes
    ----------
    n_rows : int
        Rows so far.
    level : float
        The chance that drift is ever declared of rows that do not change, at most.
    drifts : list of Drift
        What is proven, in the order in which it was.
    evidence : dict of str: float
        For each stream, by what factor betting against "no change" has multiplied what was staked,
        as a decimal logarithm, after the correction for all streams: drift is declared from
        ``-log10(level)`` on.
    shifts, spreads : dicts of str: float
        Mean and standard deviation of the latest rows on the scale of the reference: in normal
        scores, where rows that have not changed have 0 and about 1. As many of the latest as the
        monitor remembers apart, a fiftieth of all rows at least.
    waiting_for : int
        Rows that are still to come before scores can be compared; 0 where they are.
    """

    n_rows: int
    level: float
    drifts: list[Drift]
    evidence: dict[str, float]
    shifts: dict[str, float]
    spreads: dict[str, float]
    waiting_for: int = 0

    @property
    def alarm(self) -> bool:
        """Whether drift was declared, now or before."""
        return bool(self.drifts)

    @property
    def since(self) -> int | None:
        """The row since when, by what was declared first; None where nothing was."""
        return self.drifts[0].since if self.drifts else None

    @property
    def kind(self) -> Kind:
        """What it looks like: "none", "more anomalies", "fewer anomalies", "normal has changed".

        Where nothing but the extremes has changed, of scores and of columns, there are more or
        fewer anomalies; or normal rows have longer tails than before, or are of a new kind that the
        detectors find strange. Scores cannot tell these apart: look at some of the rows.
        """
        if not self.drifts:
            return "none"
        if any(each.what not in EXTREMES for each in self.drifts):
            return "normal has changed"
        fewer = all(each.what == "fewer extremes" for each in self.drifts)
        return "fewer anomalies" if fewer else "more anomalies"

    def sentence(self) -> str:
        """One line for people."""
        if not self.drifts:
            strongest = max(self.evidence, key=lambda name: self.evidence[name], default=None)
            if strongest is None:
                return f"{self.n_rows:,} rows, nothing to compare yet."
            waiting = f" Scores are compared {self.waiting_for:,} rows from now." * bool(
                self.waiting_for
            )
            return (
                f"{self.n_rows:,} rows, no drift (most evidence: {quote(strongest)}, "
                f"10^{self.evidence[strongest]:.1f} of 10^{-log10(self.level):.1f}).{waiting}"
            )
        first = self.drifts[0]
        parts = [f"{each.stream} ({self._how(each)})" for each in self.drifts[:3]]
        more = len(self.drifts) - len(parts)
        if more:
            parts.append(f"{more} more")
        return (
            f"{self.kind[0].upper()}{self.kind[1:]} since about row {first.since:,} (declared "
            f"after {first.declared:,}): {listed(parts)}."
        )

    def _how(self, drift: Drift) -> str:
        shift = self.shifts.get(drift.stream)
        if shift is None or drift.what not in ("higher", "lower"):
            return drift.what
        return f"{drift.what}, now by {abs(shift):.1f} σ" if abs(shift) >= 0.05 else drift.what
