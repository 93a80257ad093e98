"""The rows everyone is given, named by a few numbers so that any process can draw them again.

Nothing here imports lpfuse: a process that measures another version of it draws its rows here, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

# Of the columns, as tables of many fields have them; shares and strengths chosen by hand.
DISCRETE_COLUMNS = 3  # hold whole numbers
HEAVY_COLUMNS = 2  # have tails of Student's t with `TAIL_FREEDOM` degrees of freedom
TAIL_FREEDOM = 3
NOISE = 1.5  # standard deviations on top of a normal row make an anomaly of it
FEWEST_COLUMNS = DISCRETE_COLUMNS + HEAVY_COLUMNS + 1
SMALL_ROWS, SMALL_LABELS = 60, 8  # enough for every part of a fit to be entered once


@dataclass(frozen=True)
class Rows:
    """Correlated Gaussian rows; some columns are whole numbers, some have heavy tails.

    Attributes
    ----------
    n, d : int
        Normal rows to learn from, and columns, at least `FEWEST_COLUMNS`.
    labels : int
        Labelled anomalies beside the normal rows.
    seed : int
        Rows of one seed and one d are of one distribution, whatever n.
    """

    n: int
    d: int
    labels: int = 0
    seed: int = 0

    def normal(self) -> Matrix:
        """The n normal rows to learn from."""
        return self._draw(self.n, part=0)

    def anomalies(self) -> Matrix:
        """The labelled anomalies."""
        return self._draw(self.labels, part=1, noise=NOISE)

    def training(self) -> tuple[Matrix, NDArray[np.int_] | None]:
        """All rows, the labelled anomalies last, and ±1 for each; None where none is labelled."""
        if not self.labels:
            return self.normal(), None
        y = np.repeat([1, -1], [self.n, self.labels])
        return np.concatenate([self.normal(), self.anomalies()]), y

    def unseen(self, rows: int) -> Matrix:
        """Further normal rows, of which one in twenty is an anomaly."""
        few = rows // 20
        return np.concatenate(
            [self._draw(rows - few, part=2), self._draw(few, part=3, noise=NOISE)]
        )

    def small(self) -> Rows:
        """A little sibling, to warm up on."""
        return Rows(min(self.n, SMALL_ROWS), self.d, min(self.labels, SMALL_LABELS), self.seed)

    def _draw(self, rows: int, part: int, noise: float = 0.0) -> Matrix:
        rng = np.random.default_rng([self.seed, 10 + part])
        X = rng.normal(size=(rows, self.d)) @ self._mixing()
        X += noise * rng.normal(size=(rows, self.d))
        heavy = slice(DISCRETE_COLUMNS, DISCRETE_COLUMNS + HEAVY_COLUMNS)
        chi_squared = rng.chisquare(TAIL_FREEDOM, size=(rows, HEAVY_COLUMNS))
        X[:, heavy] /= np.sqrt(chi_squared / TAIL_FREEDOM)
        X[:, :DISCRETE_COLUMNS] = np.round(X[:, :DISCRETE_COLUMNS])
        return X

    def _mixing(self) -> Matrix:
        """Columns of variance about 1 that share half of it, in directions of the seed."""
        rng = np.random.default_rng([self.seed, 1])
        shared = rng.normal(size=(self.d, self.d)) / np.sqrt(self.d)
        return np.sqrt(0.5) * (np.eye(self.d) + shared)
