"""Stored rows as cells: means, spreads, what n rows must give, and what counts as kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.stats import betabinom, t

from lpfuse._arrays.operations import Host
from research.common.statistics import holm
from research.common.store import Record, matching
from research.studies.alarms.families import FAMILIES, Family, Kind
from research.studies.alarms.measures import POINTS, RATES
from research.studies.alarms.sources import TABLES, Cell

MARGINS = {0.01: 0.3, 0.05: 1.0, 0.1: 1.0}  # points of per cent around the rate: the goals
SPREAD = (5, 95)  # per cent of the repetitions between which the spread is told
SURE = 2.0  # standard errors: what is outside by less may be chance
TEST_LEVEL = 0.01  # of the test that p-values are uniform or larger, over all cells together
EXCESS_LEVEL = 0.05  # of the test of one repetition
FEWEST_TABLES = 20  # behind a figure: with fewer, single ones show through
HARM = "groups-untold"  # shows what groups cost that nobody passed, and is no promise

Verdict = Literal["kept", "above", "below", "not promised"]


def family_named(name: str) -> Family | None:
    """A made-up family; None for the tables."""
    return FAMILIES.get(name)


def kind_of(name: str) -> Kind:
    """What makes a family hard."""
    return "tables" if name == TABLES else FAMILIES[name].kind


def promised(rate: float, n: int) -> int:
    """Alarms among n + 1 rows: ⌊rate (n + 1)⌋; nothing can be promised where that is 0.

    Examples
    --------
    >>> promised(0.05, 60), promised(0.01, 60), promised(0.05, 199)
    (3, 0, 10)
    """
    return int(np.floor(rate * (n + 1) + 1e-9))


def bound(rate: float, n: int, fresh: int, copies: float = 1.0) -> tuple[float, float]:
    r"""Between which per cent of alarms 90 % of all repetitions must lie, at best.

    The rate of a threshold that n exchangeable rows set has the law Beta(k, n + 1 − k) with
    :math:`k = \lfloor \alpha (n + 1) \rfloor` (Vovk 2012), and alarms among m fresh rows are
    binomial: together the beta-binomial law. Training rows that come `copies` at a time count as so
    many fewer.

    References
    ----------
    Vovk, "Conditional validity of inductive conformal predictors", ACML 2012.

    Examples
    --------
    >>> bound(0.05, 199, 10**6)  # so many fresh rows add no noise of their own
    (2.7..., 7.7...)
    """
    k = promised(rate, n)
    if k == 0:
        return 0.0, 0.0
    law = betabinom(fresh, k / copies, (n + 1 - k) / copies)
    low, high = (100 * float(law.ppf(share / 100)) / fresh for share in SPREAD)
    return low, high


@dataclass(frozen=True)
class Mean:
    """A mean over repetitions, and its standard error."""

    value: float
    error: float

    def __str__(self) -> str:
        told = f"{self.value:.1f}"
        return f"{told} ± {self.error:.1f}" if np.isfinite(self.error) else told


def mean_of(values: Host) -> Mean:
    """Mean and standard error; of a single value the error is unknown, told as infinite."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.inf
    return Mean(float(values.mean()), float(error))


@dataclass(frozen=True, eq=False)
class CellFigures:
    """All repetitions of a cell."""

    cell: Cell
    rows: list[Record]

    def of(self, field: str, at: int | None = None) -> Host:
        """A field of each repetition, or one entry of it."""
        return np.array([row[field] if at is None else row[field][at] for row in self.rows], float)

    def alarms(self, rate: float) -> Host:
        """Per cent of fresh normal rows, in each repetition."""
        return self.of("alarms", RATES.index(rate))

    def verdict(self, rate: float, slack: float = 0.0) -> Verdict:
        """Whether the mean is within the margin, widened by so many standard errors."""
        if promised(rate, self.cell.n) == 0:
            return "not promised"
        found = mean_of(self.alarms(rate))
        off, margin = found.value - 100 * rate, MARGINS[rate] + slack * found.error
        return "above" if off > margin else "below" if off < -margin else "kept"

    def breaks(self, rate: float, slack: float = 0.0) -> bool:
        """Whether the promise is broken: too few alarms are no fault where rows repeat.

        Scores of discrete rows have ties, and no threshold lies within one.
        """
        verdict = self.verdict(rate, slack)
        strict = kind_of(self.cell.family) in ("continuous", "tables")
        return verdict == "above" or (verdict == "below" and strict)

    def spread(self, rate: float) -> tuple[float, float]:
        """Between which per cent 90 % of the repetitions lie."""
        low, high = np.percentile(self.alarms(rate), SPREAD)
        return float(low), float(high)

    def bound(self, rate: float) -> tuple[float, float]:
        """What the training rows must give: see `bound`."""
        family = family_named(self.cell.family)
        fresh = int(np.median(self.of("fresh")))
        return bound(rate, self.cell.n, fresh, 1.0 if family is None else family.copies)

    @cached_property
    def excess(self) -> float:
        """Points by which p-values are too small on average, where they are most."""
        return float(np.max(self._distribution.mean(axis=0) - 100 * np.array(POINTS)))

    @cached_property
    def excess_pvalue(self) -> float:
        """Of "uniform or larger": Student's test at each of POINTS, corrected for their number."""
        values, points = self._distribution, 100 * np.array(POINTS)
        if len(values) < 2:
            return 1.0
        off, error = values.mean(axis=0) - points, values.std(axis=0, ddof=1)
        error = np.maximum(error / np.sqrt(len(values)), 1e-9)  # all alike: decided by the sign
        smallest = t.sf(off / error, len(values) - 1).min()
        return float(min(1.0, len(points) * smallest))

    @property
    def excess_share(self) -> float:
        r"""Per cent of repetitions whose p-values are too small for n and m independent rows.

        Smirnov's one-sided test of two samples: :math:`P(D^+ > d) \approx e^{-2 d^2 nm / (n + m)}`.
        """
        family, n = family_named(self.cell.family), self.cell.n
        units, fresh = n if family is None else family.units(n), self.of("fresh")
        critical = np.sqrt(-np.log(EXCESS_LEVEL) / 2 * (units + fresh) / (units * fresh))
        return 100 * float(np.mean(self.of("excess") > critical))

    @property
    def _distribution(self) -> Host:
        return np.array([row["distribution"] for row in self.rows], float)


def cells_of(rows: Iterable[Record], version: str) -> dict[Cell, CellFigures]:
    """The cells of a version, with the detector's own calibration; of few tables, none."""
    found: dict[Cell, list[Record]] = {}
    for row in matching(rows, version=version, calibration=None):
        found.setdefault(Cell(row["family"], row["n"], row["labels"]), []).append(row)
    return {
        cell: CellFigures(cell, of_cell)
        for cell, of_cell in found.items()
        if cell.family != TABLES or len(of_cell) >= FEWEST_TABLES
    }


def too_small(cells: Iterable[CellFigures]) -> set[Cell]:
    """Cells whose p-values are not "uniform or larger", at TEST_LEVEL for all of them together."""
    cells = list(cells)
    if not cells:
        return set()
    corrected = holm([figures.excess_pvalue for figures in cells])
    return {f.cell for f, p in zip(cells, corrected, strict=True) if p <= TEST_LEVEL}
