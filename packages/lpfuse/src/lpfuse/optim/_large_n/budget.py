"""What a search over many rows may spend: passes, rows that are kept, threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from lpfuse._arrays.operations import on_accelerator
from lpfuse._arrays.threads import map_parallel
from lpfuse.optim._tuning import SearchTuning
from lpfuse.optim.problem import Problem

T = TypeVar("T")
X = TypeVar("X")


class PassBudget(NamedTuple):
    """What to spend: passes are dear where rows must be read from far, rows where all is near.

    An accelerator reads all rows in the time that the host needs for a few thousand of them: there
    it pays to take small steps, with a partition after each. Elsewhere it pays to keep more rows
    than one needs, and to spare a pass.
    """

    sample: int  # rows that give the first guess
    kept: int  # rows of a first partition
    overfull: int  # how many times as many may be at risk before they are thinned
    risk: float  # how many times its expected error a margin may move
    serial: bool  # whether searches run one after another: with few rows, threads only queue
    layered: bool = False  # whether thinned partitions take more of the rows closer to the kink

    @classmethod
    def of(cls, problem: Problem, tuning: SearchTuning) -> PassBudget:
        """For the rows of a problem, by where they are and how many."""
        if on_accelerator(problem.S):
            few = tuning.device_sample + tuning.device_sample_per_weight * problem.size
            kept = tuning.device_kept * few
            return cls(few, kept, tuning.device_overfull, tuning.device_risk, serial=True)
        # From m of n rows margins are off by about m^(-1/2), which leaves n·m^(-1/2) rows open: of
        # n^(2/3) rows as many are drawn as are then left to decide.
        balanced = round(problem.n ** (2 / 3))
        sample = max(tuning.sample, tuning.sample_per_weight * problem.size, balanced)
        kept, overfull = max(tuning.kept, round(tuning.kept_share * problem.n)), tuning.overfull
        if not problem.in_memory:
            kept, overfull = max(tuning.far_kept, 4 * balanced), tuning.far_overfull
        rules = kept, overfull, tuning.risk
        return cls(min(sample, problem.n), *rules, serial=False, layered=True)

    def each(self, work: Callable[[X], T], items: Sequence[X]) -> list[T]:
        """``work`` on each item."""
        return [work(item) for item in items] if self.serial else map_parallel(work, items)
