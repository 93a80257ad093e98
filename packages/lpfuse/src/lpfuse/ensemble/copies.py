"""Rows that repeat each other though no groups were passed: noticed, and told.

Several measurements of one machine, frames of one video or rows that were copied are no independent
rows: each is scored by fits to rows like it, looks usual, and the threshold becomes too
strict for new machines. (Groups of 5 rows that share 70, 90, 99 % of their variance: 8, 21, 95 %
false alarms for 5 % asked.) Two signs, each against what independent rows would give:

* *copies*: rows are equal in columns of which hardly two cells are;
* *neighbours apart from the rest*: the k nearest rows are far nearer than the one after them.

Columns of few values repeat by chance, and are not looked at. Groups in their order are found as
rows in time are (`lpfuse.ensemble.rows.look_at_order`); groups of shuffled rows that share less
than about 95 % of their variance look like independent rows: nothing is said of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host
from lpfuse._format import percent, quote
from lpfuse._validation.params import warn_user
from lpfuse._validation.tables import column_names
from lpfuse.ensemble.rows import Index, Table, as_numbers, row_keys

# Share of the rows that have a copy from which on copies are left out: fewer change false alarms by
# less than their share. Chosen by hand.
COPIED_FROM = 0.02
# A row recurs where it is there so many times as often as most rows are, and in so many rows, or in
# the share COPIED_FROM of them. Chosen by hand.
RECURS, OFTEN = 3, 10


def without_copies(X: Table, labels: Host, chances: Host | None) -> tuple[Table, Host, Host | None]:
    """Keep copied rows once."""
    once = rows_without_copies(X, labels)
    if once is None:
        return X, labels, chances
    asked = None if chances is None else chances[once]
    return _safe_indexing(X, once, axis=0), labels[once], asked


def rows_without_copies(X: Table, labels: Host) -> Index | None:
    """Find the rows to learn from; None where rows are equal by chance, or hardly ever.

    A copy makes its original look usual, and makes distances to the nearest row vanish:
    with two to five copies of each of 200 rows, 93 % of new rows were called anomalies where 5 %
    was asked for. Rows of numbers count as copies where columns hold as good as no two equal cells
    but theirs; rows of few values, such as indicators and counts, are equal by chance, and stay. Of
    copies the first one stays, of labelled ones the first with each label.

    A row that is there far more often than others, such as that of a machine at rest, recurs: new
    rows will equal it as often. It stays as often as it is there, in units of the other rows.
    Learnt from once, it was an alarm each time: 33 % alarms for 5 % where it was 30 % of the rows.
    """
    values = as_numbers(X)
    if values is None:
        return None
    first, number, count = np.unique(
        row_keys(values), return_index=True, return_inverse=True, return_counts=True
    )[1:]
    number = number.ravel()
    share = float((count[number] > 1).mean())
    some = np.sort(first)[np.linspace(0, len(first) - 1, min(len(first), MOST_ROWS)).astype(int)]
    if share < COPIED_FROM or unmistakable(np.nan_to_num(values[some])) is None:
        return None
    usual, recurs = int(np.median(count)), _recurs(count)
    recurs[number[labels < 0]] = False  # a known anomaly is as strange however often it comes
    order = np.argsort(number, kind="stable")
    place = np.arange(len(order)) - np.searchsorted(number[order], number[order])
    often = order[recurs[number[order]] & (place % usual == 0)]
    copied = (count[number] > 1) & ~recurs[number]
    labelled = np.flatnonzero((labels != 0) & ~recurs[number])
    _, kept = np.unique(np.column_stack([number, labels])[labelled], axis=0, return_index=True)
    unlabelled = first[~recurs & ~np.isin(np.arange(len(first)), number[labelled])]
    rows = np.sort(np.concatenate([labelled[kept], unlabelled, often]))
    if len(rows) < len(number) or recurs.any():
        _warn_of_copies(float(copied.mean()), count[recurs] / len(number))
    return rows


def rows_recur(X: Table) -> bool:
    """Tell whether some row is there far more often than others."""
    values = as_numbers(X)
    return values is not None and bool(
        _recurs(np.unique(row_keys(values), return_counts=True)[1]).any()
    )


def _recurs(count: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Tell which rows recur, from how many times each is there."""
    often = min(OFTEN, COPIED_FROM * count.sum())
    found: NDArray[np.bool_] = (count >= RECURS * int(np.median(count))) & (count >= often)
    return found


def _warn_of_copies(copied: float, recurring: Host) -> None:
    """Say which share of the rows was copied, and the shares of the rows that recur."""
    told = []
    if copied:
        told.append(
            f"{percent(copied)} of the rows have an exact copy. Each is learnt from once with each "
            "of its labels: copies teach nothing, make each other look usual, and false alarms "
            "would exceed the rate."
        )
    if len(recurring):
        told.append(
            f"{percent(float(recurring.sum()))} of the rows are {len(recurring)} "
            f"row{'s' if len(recurring) > 1 else ''} that recur{'s' * (len(recurring) == 1)} far "
            "more often than others: new rows are expected to equal them as often."
        )
    told.append("Pass groups= where rows belong together in another way.")
    warn_user(" ".join(told))


# What is looked at: it takes well under a second, whatever the table.
MOST_ROWS, BLOCK = 20_000, 1_000  # of longer tables, stretches of so many rows
QUERIES = 300  # rows whose neighbours are searched
MOST_COLUMNS = 50
FEWEST_ROWS = 50  # below, chance can do anything
FEWEST_APART = 300  # with fewer, a cluster of a twentieth of the rows looks like a group

# Signs. Independent rows exceed a level by chance in fewer than one table of 1,000; the sizes are
# those from which false alarms exceed 5 % by about 2 points.
EXCESS = 0.15  # share of rows with a near copy beyond that by chance
NEIGHBOURS = 12  # groups of up to so many rows stand out from the rest
KINK = 2.0  # how much farther off the rest is than expected; independent rows: 1.0 to 1.6
FARTHEST = 1e9  # widths of the middle half; the squares stay finite
TOUCHING = 1e-9  # distance of rows that are equal in the columns looked at
STRAYS = 0.05  # share of rows, the most extreme, that do not count: small clusters
UNIQUE = 0.95  # share of different cells of a column that is not of few values
NEARLY_ALL, RARELY = 0.9, 0.2  # share of pairs, near and other, with equal cells: a group's name
GRID = 0.2  # a column on a grid has steps, in units of those of even cells, above this

REMEDY = (
    "Such rows make each other look usual, so false alarms on new rows will exceed the rate. Pass "
    "groups= to fit, one name a row ({which}): rows of a group then stay together. "
    "Where the rows are independent, ignore this."
)


class Repeats(NamedTuple):
    """What was seen: in words, and pairs of rows that are near copies."""

    told: str
    pairs: Index


def warn_of_repeats(X: Table, labels: Host) -> None:
    """Warn where rows seem to come in groups that were not passed.

    Parameters
    ----------
    X : table of shape (n, d)
        Training rows, in their order.
    labels : ndarray of shape (n,)
        −1 for anomalies, which are not looked at.
    """
    rows = np.flatnonzero(labels >= 0)
    if len(rows) < FEWEST_ROWS:
        return
    rows = rows[_stretches(len(rows))]
    columns = [np.asarray(_safe_indexing(X, j, axis=1)) for j in range(X.shape[1])]
    numbers = [c[rows].astype(np.float64) for c in columns if c.dtype.kind in "biuf"]
    found = find_repeats(np.column_stack(numbers)) if numbers else None
    if found is None:
        return
    names = column_names(X) or [f"column {j}" for j in range(X.shape[1])]
    which = _group_column([c[rows] for c in columns], names, found.pairs)
    warn_user(f"{found.told} {REMEDY.format(which=which)}")


def find_repeats(X: Host) -> Repeats | None:
    """Find the first sign of repeated rows; None where there is none.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows in their order; NaN where a cell is missing.
    """
    middle = np.nanmedian(np.where(np.isnan(X).all(axis=0), 0.0, X), axis=0)
    X = np.where(np.isnan(X), middle, X)
    unique, first, of_row = np.unique(X, axis=0, return_index=True, return_inverse=True)
    return _copied(X, unique, of_row.ravel()) or _apart(unique, first)


# ------------------------------------------------------------------------------------------- signs


def _copied(X: Host, unique: Host, of_row: Index) -> Repeats | None:
    """Find rows that are equal in all columns, two of which hardly ever have equal cells."""
    counts = np.bincount(of_row)
    share = (counts[of_row] > 1).mean()
    if share < EXCESS or unmistakable(unique) is None:
        return None
    order = np.argsort(of_row, kind="stable")
    same = of_row[order[1:]] == of_row[order[:-1]]
    told = f"Rows are repeated: {percent(share)} of {len(X)} rows have an exact copy."
    return Repeats(told, np.column_stack([order[:-1], order[1:]])[same])


def _apart(unique: Host, first: Index) -> Repeats | None:
    r"""Find rows whose k nearest are far nearer than the next.

    With the distances :math:`r_1 \le r_2 \le \dots` of a row to the others, the
    :math:`k \log(r_{k+1} / r_k)` of independent rows all have the same distribution, exponential
    with the mean one over the dimension (Facco and others, 2017). In groups of k + 1 rows the k-th
    stands out.
    """
    Z = unmistakable(unique)
    if Z is None or len(Z) < FEWEST_APART:
        return None
    queries = _evenly(len(Z), QUERIES)
    every = np.arange(len(Z))
    away = _distances(Z[queries], Z, queries, every)
    nearest = np.argpartition(away, NEIGHBOURS, axis=1)[:, : NEIGHBOURS + 1]
    r = np.sort(np.sqrt(np.take_along_axis(away, nearest, axis=1)), axis=1)
    r = np.maximum(r, TOUCHING)
    k = np.arange(1, NEIGHBOURS + 1)
    gaps = np.sort(k * np.log(r[:, 1:] / r[:, :-1]), axis=0)
    means = gaps[: round((1 - STRAYS) * len(gaps))].mean(axis=0)
    top = int(means.argmax())
    if not means[top] > KINK * np.median(means):
        return None
    told = (
        f"Rows seem to come in groups: most have about {top + 1} other"
        f"{'s' if top else ''} far nearer than all the rest."
    )
    return Repeats(told, first[np.column_stack([queries, away.argmin(axis=1)])])


# ------------------------------------------------------------------------------------------- tools


def _stretches(n: int) -> Index:
    """Choose all rows, or stretches of them, spread evenly."""
    if n <= MOST_ROWS:
        return np.arange(n)
    starts = np.linspace(0, n - BLOCK, MOST_ROWS // BLOCK).astype(np.intp)
    return np.unique(starts[:, None] + np.arange(BLOCK))


def _evenly(n: int, most: int) -> Index:
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.intp))


def unmistakable(unique: Host) -> Host | None:
    """Return at least two columns in which hardly two of some different rows agree, scaled.

    A column on a grid, such as whole numbers, is none: it may have more rows than values.
    """
    found = []
    for column in unique.T:
        values = np.unique(column)
        if len(values) < max(2, UNIQUE * len(unique)):
            continue
        step = np.diff(values).min() / (values[-1] - values[0])
        if step * (len(values) - 1) < GRID:
            found.append(column)
    return _scaled(found) if len(found) > 1 else None


def _scaled(columns: list[Host]) -> Host | None:
    """Put columns side by side, in units of the middle half of their cells."""
    if not columns:
        return None
    Z = np.column_stack([columns[j] for j in _evenly(len(columns), MOST_COLUMNS)])
    low, middle, high = np.quantile(Z, [0.25, 0.5, 0.75], axis=0)
    with np.errstate(over="ignore", invalid="ignore"):  # numbers whose squares overflow
        width = np.where(high > low, high - low, Z.std(axis=0))
        scaled = (Z - middle) / np.where(width > 0, width, 1.0)
    return np.clip(np.nan_to_num(scaled), -FARTHEST, FARTHEST)


def _distances(queries: Host, Z: Host, own: Index, positions: Index) -> Host:
    """Return squared distances of some rows to all; infinite to themselves."""
    away = cdist(queries, Z, "sqeuclidean")
    away[own[:, None] == positions] = np.inf
    return away


def _group_column(columns: list[NDArray[Any]], names: list[str], pairs: Index) -> str:
    """Name a column that near copies share and other rows do not: perhaps the group."""
    others = np.random.default_rng(0).permutation(len(columns[0]))[: len(pairs)]
    for column, name in zip(columns, names, strict=True):
        same = (column[pairs[:, 0]] == column[pairs[:, 1]]).mean()
        by_chance = (column[pairs[: len(others), 0]] == column[others]).mean()
        if same > NEARLY_ALL and by_chance < RARELY:
            return f"perhaps {quote(name)}"
    return "the machine, person, video or day it comes from"
