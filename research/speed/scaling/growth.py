"""How cost grows with the number of rows and learners: t = a · n^α · R^β, with its confidence.

Where the number of learners is not in question, R is left out: t = a · n^α.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from research.common.judge import Matrix, Vector

LEVEL = 0.95


class Interval(NamedTuple):
    """An estimate between its confidence limits."""

    low: float
    value: float
    high: float


@dataclass(frozen=True)
class PowerLaw:
    """log t = log a + α log n + β log R, by least squares.

    `covariance` is that of (log a, α, β), estimated from the residuals with `freedom` degrees.
    """

    coefficients: Vector
    covariance: Matrix
    freedom: int

    @classmethod
    def fitted(
        cls, n: Sequence[float], R: Sequence[float] | None, seconds: Sequence[float]
    ) -> PowerLaw:
        """At least four measurements, with more than one n and more than one R; without R three."""
        design, logs = _design(n, R), np.log(seconds)
        unknown = design.shape[1]
        freedom = len(logs) - unknown
        if freedom < 1 or np.linalg.matrix_rank(design) < unknown:
            sizes = "n" if R is None else "n and R"
            raise ValueError(
                f"A power law in {sizes} needs {unknown + 1} measurements over several {sizes}."
            )
        coefficients, *_ = np.linalg.lstsq(design, logs)
        rest = logs - design @ coefficients
        variance = float(rest @ rest) / freedom
        return cls(coefficients, variance * np.linalg.inv(design.T @ design), freedom)

    @property
    def alpha(self) -> Interval:
        """The exponent of n."""
        return self._interval(1)

    @property
    def beta(self) -> Interval:
        """The exponent of R."""
        return self._interval(2)

    def seconds(self, n: ArrayLike, R: ArrayLike | None = None) -> tuple[Vector, Vector, Vector]:
        """Lower limit, estimate and upper limit of the curve at these sizes."""
        design = _design(n, R)
        logs = design @ self.coefficients
        spread = np.sqrt(np.einsum("ij,jk,ik->i", design, self.covariance, design))
        reach = self._quantile * spread
        return np.exp(logs - reach), np.exp(logs), np.exp(logs + reach)

    def _interval(self, k: int) -> Interval:
        value = float(self.coefficients[k])
        reach = self._quantile * float(self.covariance[k, k]) ** 0.5
        return Interval(value - reach, value, value + reach)

    @property
    def _quantile(self) -> float:
        return float(student.ppf(0.5 + LEVEL / 2, self.freedom))


def _design(n: ArrayLike, R: ArrayLike | None) -> Matrix:
    sizes = np.broadcast_arrays(*(np.atleast_1d(size) for size in (n, R) if size is not None))
    return np.column_stack([np.ones(sizes[0].size), *map(np.log, sizes)])
