"""The rows every rival is given, named by a few numbers so that any process can draw them again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from research.common.judge import Matrix, Vector

SHAPES = ("clusters", "round")
CLUSTERS = 3
DECAY = 0.85  # of the spread from one direction of a cluster to the next
NOISE = 0.2  # that makes an anomaly of a normal row


@dataclass(frozen=True)
class Data:
    """Standardised rows: three stretched clusters, or one round cloud.

    A round cloud is the hardest case for an iterative eigensolver: its eigenvalues nearly tie.
    """

    n: int
    d: int
    seed: int = 0
    shape: str = "clusters"

    def training(self) -> Matrix:
        """The n rows to learn from, with mean 0 and variance 1 in every column."""
        return self._standardised(self._draw(self.n, part=0))

    def unseen(self, rows: int) -> Matrix:
        """Further rows of the same kind, standardised as the training rows were."""
        return self._standardised(self._draw(rows, part=1))

    def anomalies(self, rows: int) -> Matrix:
        """Rows of the same kind with independent noise on top."""
        rng = np.random.default_rng([self.seed, 2])
        return self._standardised(self._draw(rows, part=2)) + NOISE * rng.normal(
            size=(rows, self.d)
        )

    def small(self) -> Data:
        """A little sibling, to warm up on."""
        return Data(min(self.n, 300), self.d, self.seed + 1, self.shape)

    def _standardised(self, rows: Matrix) -> Matrix:
        mean, spread = self._moments
        rows -= mean
        rows /= spread
        return rows

    @cached_property
    def _moments(self) -> tuple[Vector, Vector]:
        rows = self._draw(self.n, part=0)
        return rows.mean(axis=0), rows.std(axis=0)

    def _draw(self, rows: int, part: int) -> Matrix:
        rng = np.random.default_rng([self.seed, 10 + part])
        drawn = rng.normal(size=(rows, self.d))
        if self.shape == "clusters":
            centres, axes = self._clusters()
            drawn = drawn @ axes
            drawn += centres[rng.integers(CLUSTERS, size=rows)]
        return drawn

    def _clusters(self) -> tuple[Matrix, Matrix]:
        """Centres, and the axes that all clusters share, the longest first."""
        rng = np.random.default_rng([self.seed, 1])
        turn, _ = np.linalg.qr(rng.normal(size=(self.d, self.d)))
        spreads = DECAY ** np.arange(self.d)
        return rng.normal(size=(CLUSTERS, self.d)), spreads[:, None] * turn
