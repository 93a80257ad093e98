"""What a search may spend, and what samples tell: the first guess, and how far it may be off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from lpfuse._arrays.operations import Array, Host, kth_smallest, namespace, on_accelerator, total
from lpfuse._arrays.threads import map_parallel
from lpfuse.optim._solvers.newton import Guess, Model
from lpfuse.optim._solvers.screening import open_share, pilot, pilot_rows, resolved, subsample
from lpfuse.optim._solvers.smoothing import approach
from lpfuse.optim._tuning import SearchTuning, Tuning
from lpfuse.optim.problem import Problem

LAYERS = 5  # of a thinned partition, by hand: each stands for five times as many rows

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


def layers_within(r: Array, n: int, band: float, wanted: int) -> tuple[tuple[float, int], ...]:
    """Layers up to a band, by the residuals of a sample: about `wanted` rows, as many from each.

    The innermost has no more rows than that, and each holds four times as many as all within it.
    """
    m, layers, inside = int(r.shape[0]), [], 0.0
    counts = [wanted / LAYERS * 5.0**k for k in range(LAYERS)]
    for k, count in enumerate(counts):
        rank = int(m * count / n)
        outer = band if rank >= m or k == LAYERS - 1 else min(band, kth_smallest(r, rank))
        rows = n * total(r <= outer) / m
        layers.append((outer, max(1, round((rows - inside) * LAYERS / wanted))))
        inside = rows
        if outer >= band:
            break
    return tuple(layers)


def two_guesses(sample: Model, tuning: Tuning) -> tuple[Host, Host, float, float]:
    """The guess of a sample, that of a part of it, and the share of their distance that it is off.

    Last comes the band that the sample was solved in.

    Of m rows, k have a guess with a variance of m/k times that of all; the difference of the two
    has the difference of their variances.
    """
    enough, m = resolved(sample.size, tuning), sample.n_rows
    k = max(m // tuning.search.first_part, min(pilot_rows(sample.size, tuning), m // 2))
    part = subsample(sample, k)
    before = part.feasible(approach(part, pilot(part, tuning), enough, tuning.smoothing).w)
    near = Guess(before, kth_smallest(abs(sample.residuals(before)), int(open_share(part) * m)))
    w = sample.feasible(approach(sample, near, enough, tuning.smoothing).w)
    return w, before, (k / (m - k)) ** 0.5, near.band


def band_at_risk(r: Array, off: Array) -> float:
    """The band of the rows that may change side: those with a margin that may be off by more.

    The outermost hundredth of them does not count.
    """
    at_risk = r * namespace(r).astype(r <= off, r.dtype)
    outermost = int(0.01 * total(at_risk > 0))
    return kth_smallest(at_risk, int(r.shape[0]) - 1 - outermost)


def band_of(r: Array, n: int, rows: int) -> float:
    """The band that holds about `rows` of n rows, by the residuals of a sample."""
    m = int(r.shape[0])
    return kth_smallest(abs(r), min(m - 1, m * rows // n))
