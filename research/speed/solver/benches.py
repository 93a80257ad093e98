"""What runs inside the isolated process: timed solves, their memory, and the reading of S.

Data are built and everything is warmed up outside the clock.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from research.common.clock import timed
from research.common.judge import FusionProblem
from research.common.memory import peak_of
from research.rivals import solvers as rivals

from .problems import Case, parse_p


@dataclass(frozen=True)
class Run:
    """One timed solve."""

    seconds: float
    answer: rivals.Answer


class SolveBench:
    """One rival and one set of scores; p and the tolerance vary."""

    def __init__(self, rival: str, case: Case) -> None:
        self.rival = rivals.load(rival)
        self.case = case
        self.scores, self.labels = case.data()
        self._warmed: set[str] = set()

    def solve(self, p: str, tolerance: float, time_limit: float) -> Run:
        """Solve against the clock, after a warm-up on a small problem with the same p and R."""
        self._warm_up(p)
        problem = FusionProblem(self.scores, self.labels, parse_p(p))
        seconds, answer = timed(lambda: self.rival.solve(problem, tolerance, time_limit))
        return Run(seconds, answer)

    def extra_memory(self, p: str, tolerance: float, time_limit: float) -> int | None:
        """Bytes by which the resident set grew at its highest during one solve; None off Linux.

        The scores were built before, so that only the solve is counted.
        """
        self._warm_up(p)
        problem = FusionProblem(self.scores, self.labels, parse_p(p))
        peak = peak_of(lambda: self.rival.solve(problem, tolerance, time_limit))
        return None if peak is None else peak.extra

    def _warm_up(self, p: str) -> None:
        if p not in self._warmed:
            scores, labels = self.case.small().data()
            self.rival.solve(FusionProblem(scores, labels, parse_p(p)), 1e-3, 10.0)
            self._warmed.add(p)


class ReadBench:
    """How long it takes to read S once: the unit in which large problems are measured."""

    def __init__(self, case: Case) -> None:
        self.scores, _ = case.data()

    def seconds(self, threads: int, repeats: int = 7) -> float:
        """The faster of S.sum() and S @ w, in blocks of rows, by the median of the repeats."""
        w = np.ones(self.scores.shape[1])
        readers: Sequence[Callable[[np.ndarray], object]] = (np.sum, lambda block: block @ w)
        with threadpool_limits(threads):
            return min(self._median(reader, repeats) for reader in readers)

    def _median(self, reader: Callable[[np.ndarray], object], repeats: int) -> float:
        rows = max(
            1, (1 << 23) // self.scores.strides[0]
        )  # 8 MiB: BLAS can still share a block out
        blocks = [self.scores[i : i + rows] for i in range(0, len(self.scores), rows)]

        def read() -> None:
            for block in blocks:
                reader(block)

        return statistics.median(timed(read)[0] for _ in range(repeats))
