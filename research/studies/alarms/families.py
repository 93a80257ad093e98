"""Made-up families of normal rows, each hard for calibration in a way of its own.

A family draws independent normal rows; two of them train on rows that are not independent, and say
how many of the training rows are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host

Draw = Callable[[np.random.Generator, int], Host]
Kind = Literal["continuous", "discrete", "dependent", "tables"]

COPIES = (2, 5)  # of each row of the family "duplicates", drawn evenly
GROUP_SIZE = 5  # rows of one group
GROUP_SPREAD = 2.0  # of what the rows of a group share, in standard deviations of what they do not
GAP_SHARE = 0.07  # of the rows have a gap, one cell each: 79 rows of 1,200 were what users met


class Trained(NamedTuple):
    """Normal rows to learn from, and the group of each where the detector is told."""

    rows: Host
    groups: NDArray[np.int_] | None = None


class Family(NamedTuple):
    """How rows are drawn.

    Attributes
    ----------
    draw : callable
        Generator and a number → so many independent normal rows.
    kind : str
        What makes it hard; pages put families of one kind together.
    trained : callable, optional
        Generator and a number → training rows, where they are not independent.
    copies : float
        Training rows for each independent one, on average.
    """

    draw: Draw
    kind: Kind = "continuous"
    trained: Callable[[np.random.Generator, int], Trained] | None = None
    copies: float = 1.0

    def training(self, rng: np.random.Generator, n: int) -> Trained:
        """So many normal rows to learn from."""
        return Trained(self.draw(rng, n)) if self.trained is None else self.trained(rng, n)

    def units(self, n: int) -> int:
        """Independent rows among n training rows: what a promise can rest on."""
        return int(n / self.copies)


# ------------------------------------------------------------------------------------- continuous

_CORNERS = 6.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
_CENTRES = np.array([[0, 0, 0, 0, 0, 0], [3, 3, 0, 0, -2, 0], [-2, 2, 3, 0, 0, 2]], dtype=float)
_WIDTHS = np.array([1.0, 0.6, 1.4])


def _t2(rng: np.random.Generator, n: int) -> Host:
    return rng.standard_t(2, size=(n, 5))


def _cauchy(rng: np.random.Generator, n: int) -> Host:
    return rng.standard_cauchy(size=(n, 3))


def _lognormal(rng: np.random.Generator, n: int) -> Host:
    return np.exp(2 * rng.normal(size=(n, 4)))


def _clusters(rng: np.random.Generator, n: int) -> Host:
    corner = rng.choice(4, n, p=[0.6, 0.25, 0.1, 0.05])
    return _CORNERS[corner] + 0.5 * rng.normal(size=(n, 2))


def _gaussian(rng: np.random.Generator, n: int) -> Host:
    return rng.normal(size=(n, 30))


def _mixture(rng: np.random.Generator, n: int) -> Host:
    part = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    return _CENTRES[part] + _WIDTHS[part, None] * rng.normal(size=(n, 6))


def _gaps(rng: np.random.Generator, n: int) -> Host:
    X = rng.normal(size=(n, 4))
    holed = np.flatnonzero(rng.random(n) < GAP_SHARE)
    X[holed, rng.integers(4, size=len(holed))] = np.nan
    return X


# --------------------------------------------------------------------------------------- discrete


def _binary(rng: np.random.Generator, n: int) -> Host:
    return (rng.random((n, 4)) < 0.3).astype(float)


def _categories(rng: np.random.Generator, n: int) -> Host:
    """Three categorical columns, one-hot, as the command line makes them: 24 patterns."""
    chances = ([0.5, 0.3, 0.15, 0.05], [0.6, 0.3, 0.1], [0.8, 0.2])
    drawn = [rng.choice(len(p), n, p=p)[:, None] == np.arange(len(p)) for p in chances]
    return np.hstack(drawn).astype(float)


def _poisson(rng: np.random.Generator, n: int) -> Host:
    return rng.poisson(1.0, size=(n, 3)).astype(float)


def _zero_inflated(rng: np.random.Generator, n: int) -> Host:
    return np.where(rng.random((n, 5)) < 0.7, 0.0, rng.exponential(size=(n, 5)))


def _mixed(rng: np.random.Generator, n: int) -> Host:
    """Two continuous columns, two of three categories, one rounded to a tenth."""
    whole = rng.integers(0, 3, size=(n, 2))
    return np.column_stack([rng.normal(size=(n, 2)), whole, rng.normal(size=n).round(1)])


# -------------------------------------------------------------------------------------- dependent


def _single(rng: np.random.Generator, n: int) -> Host:
    return rng.normal(size=(n, 4))


def _repeated(rng: np.random.Generator, n: int) -> Trained:
    low, high = COPIES
    copies = rng.integers(low, high + 1, size=n // low + 1)
    rows = np.repeat(_single(rng, len(copies)), copies, axis=0)[:n]
    return Trained(rng.permutation(rows))


def _of_own_group(rng: np.random.Generator, n: int) -> Host:
    """Each row from a group that has no other: independent, and distributed as all others are."""
    return GROUP_SPREAD * rng.normal(size=(n, 4)) + rng.normal(size=(n, 4))


def _grouped(rng: np.random.Generator, n: int) -> Trained:
    groups = np.arange(n) // GROUP_SIZE
    shared = GROUP_SPREAD * rng.normal(size=(groups[-1] + 1, 4))
    return Trained(shared[groups] + rng.normal(size=(n, 4)), groups)


def _grouped_unknown(rng: np.random.Generator, n: int) -> Trained:
    return Trained(_grouped(rng, n).rows)


FAMILIES: dict[str, Family] = {
    "t2": Family(_t2),
    "cauchy": Family(_cauchy),
    "lognorm": Family(_lognormal),
    "clusters": Family(_clusters),
    "gauss30": Family(_gaussian),
    "mixture": Family(_mixture),
    "gaps": Family(_gaps),
    "binary": Family(_binary, "discrete"),
    "cats": Family(_categories, "discrete"),
    "poisson": Family(_poisson, "discrete"),
    "zeros": Family(_zero_inflated, "discrete"),
    "mixed": Family(_mixed, "discrete"),
    "duplicates": Family(_single, "dependent", _repeated, sum(COPIES) / 2),
    "groups": Family(_of_own_group, "dependent", _grouped, GROUP_SIZE),
    "groups-untold": Family(_of_own_group, "dependent", _grouped_unknown, GROUP_SIZE),
}
ABOUT: dict[str, str] = {
    "t2": "Student's t with 2 degrees of freedom, 5 columns",
    "cauchy": "Cauchy, 3 columns",
    "lognorm": "log-normal with σ = 2, 4 columns",
    "clusters": "four clusters of 60, 25, 10 and 5 %, 2 columns",
    "gauss30": "Gaussian, 30 columns",
    "mixture": "three overlapping Gaussians of unlike widths, 6 columns",
    "gaps": f"Gaussian, 4 columns; {100 * GAP_SHARE:.0f} % of the rows lack a cell",
    "binary": "four binary columns",
    "cats": "three one-hot columns, 24 patterns",
    "poisson": "counts, 3 columns",
    "zeros": "70 % zeros, the others exponential, 5 columns",
    "mixed": "two continuous columns, two of three categories, one rounded",
    "duplicates": "Gaussian, 4 columns; each training row is there 2 to 5 times, fresh rows once",
    "groups": "training rows in groups of five that share an effect, passed as `groups`",
    "groups-untold": "the same groups, not passed: what that costs",
    "tables": "real tables, another for each repetition",
}
