"""What may have happened to a column: laws of its bins to bet on.

On the scale of the reference a value is a number u, its quantile there, or z, that of the standard
normal law. Laws are bins' chances, each row one law.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr, ndtri

from lpfuse._arrays.operations import Host
from lpfuse._saved import ANY, saved_as

# Sizes to bet on, so that what lies between two of them costs little: by hand, in factors of two.
SHIFTS = (0.15, 0.3, 0.6, 1.2, 2.4)
SPREADS = (0.25, 0.5, 0.75, 1.33, 2.0, 4.0)
# (further share of the rows, among the most extreme share of the reference; 0: beyond all of it)
EXTRA = (
    (0.01, 0.0), (0.05, 0.0), (0.3, 0.0), (0.01, 0.01), (0.04, 0.01),
    (0.02, 0.02), (0.08, 0.02), (0.05, 0.05), (0.2, 0.05),
)  # fmt: skip
FEWER = (0.5, 0.2)  # what is left of the lowest bins
STUCK = 0.9  # share of the rows in one bin
CLUMP = 0.2  # further share of the rows in three neighbouring bins
SURE = 0.98  # of a law; the rest is the reference's, so that no bin is impossible
# How the stakes are parted: what few rows show, such as a sensor that is stuck, needs less.
STAKES = {
    "higher": 0.25, "lower": 0.25, "wider": 0.08, "narrower": 0.05, "stuck": 0.04,
    "clumped": 0.1, "more extremes": 0.18, "fewer extremes": 0.05,
}  # fmt: skip


@saved_as("Alternatives", names=ANY)
@dataclass(frozen=True, eq=False)
class Alternatives:
    """K laws of B bins.

    Attributes
    ----------
    laws : ndarray of shape (K, B)
        Chances of the bins.
    names : list of K str
        What happened: "higher", "lower", "wider", "narrower", "stuck", "clumped", "more extremes"
        or "fewer extremes".
    stakes : ndarray of shape (K,)
        What is staked on each, 1 in all.
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
        """For a whole column, whose bins hold so many gaps."""
        found = [*_moved(gaps), *_stuck(gaps), *_clumped(gaps)]
        found += [("more extremes", law) for law in _extra(gaps)]
        found += [("more extremes", law[::-1]) for law in _extra(gaps[::-1])]
        return cls._mixed(found, gaps)

    @classmethod
    def of_tail(cls, gaps: Host) -> Alternatives:
        """For bins of which the last one is all that is not strange."""
        usual = gaps / gaps.sum()
        found = [("more extremes", law) for law in _extra(gaps)]
        for left in FEWER:
            law = usual * left
            law[-1] = 1 - law[:-1].sum()
            found.append(("fewer extremes", law))
        return cls._mixed(found, gaps)

    @classmethod
    def of_body(cls, gaps: Host) -> Alternatives:
        """For the bins that are not strange."""
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
    usual = gaps / gaps.sum()
    found = []
    for middle in range(len(gaps)):
        law = np.where(abs(np.arange(len(gaps)) - middle) <= 1, usual, 0.0)
        found.append(("clumped", (1 - CLUMP) * usual + CLUMP * law / law.sum()))
    return found


def _extra(gaps: Host) -> list[Host]:
    """More rows among the lowest of the reference."""
    usual = gaps / gaps.sum()
    found = []
    for share, among in EXTRA:
        # As many of the lowest bins as that share of the reference has, and one at least.
        last = max(1, int(np.searchsorted(np.cumsum(usual), among + 1e-9)))
        inside = np.arange(len(gaps)) < last
        law = np.where(inside, usual, 0.0)
        found.append((1 - share) * usual + share * law / law.sum())
    return found
