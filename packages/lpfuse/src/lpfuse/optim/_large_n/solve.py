"""The certified solver for many rows: a quick look, a search for each ball, and the tie-break."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from lpfuse._arrays.operations import Host, to_host, total
from lpfuse.optim._large_n.gathered import class_range, violating
from lpfuse.optim._large_n.passes import ScorePasses
from lpfuse.optim._large_n.search import search_rows
from lpfuse.optim._results import Candidate, Outcome
from lpfuse.optim._solvers.tie_break import Violations, nearest_to_uniform
from lpfuse.optim._tuning import Tuning
from lpfuse.optim.certificate import Certifier


def search_many_rows(certifier: Certifier, max_iter: int | None, tuning: Tuning) -> list[Outcome]:
    """For each ball: weights without any error where a quick look finds them, else a search."""
    problem, passes = certifier.problem, ScorePasses(certifier.problem)
    sources = [CertifiedRows(certifier, k, tuning) for k in range(len(certifier.balls))]
    points = [source.error_free(thorough=False) for source in sources]
    searched = [k for k, point in enumerate(points) if point is None]

    def without_error(k: int) -> bool:
        points[k] = sources[k].error_free(thorough=True)
        return points[k] is not None

    steps: dict[int, int] = {}
    if searched:
        steps = search_rows(certifier, passes, searched, max_iter, tuning, error_free=without_error)
    for k in searched:  # many points reach f* = 0
        if points[k] is None and certifier.value(k) <= certifier.tol * problem.scale:
            without_error(k)
    for k, point in enumerate(points):
        if point is not None:
            with sources[k].counting():
                certifier.prefer(k, point)
    return [
        Outcome(max(steps.get(source.k, 1), 1), own_passes=source.own_passes) for source in sources
    ]


class CertifiedRows:
    """Rows that the certifier reads for the tie-break over one ball, see `tie_break.RowSource`."""

    def __init__(self, certifier: Certifier, k: int, tuning: Tuning) -> None:
        self.certifier, self.k, self.tuning = certifier, k, tuning
        self.problem, self.ball = certifier.problem, certifier.balls[k]
        self.R, self.free = self.problem.R, int(self.problem.fit_intercept)
        self.total_cost = self.problem.total_cost
        self.own_passes = 0.0

    def error_free(self, *, thorough: bool) -> Host | None:
        """The weights without any error that are nearest to uniform, if they are found."""
        if not thorough:  # a few rows are asked before a pass is spent
            uniform = np.append(self.ball.preferred(self.R), np.zeros(self.free))
            some = self.problem.some_rows()
            if total(some.c * self.problem.terms.residuals(some, uniform) > 0):
                return None
        with self.counting():
            return nearest_to_uniform(self, self.ball, thorough=thorough, tuning=self.tuning)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the passes made meanwhile as those of this ball alone."""
        before = self.problem.passes
        yield
        self.own_passes += self.problem.passes - before

    def violations(self, point: Host, most: int) -> Violations:
        """The value of a point, and the rows that violate their margin most there."""
        watch = violating(self.problem.terms, point, most)
        bounds = self.certifier.examine({self.k: Candidate(point)}, {self.k: watch})[self.k]
        count, rows = bounds.watched
        return Violations(bounds.primal, count, rows)

    def class_range(self, point: Host) -> tuple[float, float]:
        """The lowest fused score of a normal row and the highest of an anomaly, without b."""
        return class_range(self.problem, point)

    def sample(self) -> Host | None:
        """Rows drawn evenly over the costs."""
        block = self.problem.draw(self.tuning.search.in_memory)
        return to_host(self.problem.terms.signed_rows(block.S, block.y))
