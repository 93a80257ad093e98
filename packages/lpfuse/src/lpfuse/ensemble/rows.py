"""Tables that users bring: columns, missing cells, and the training rows that a detector stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host, column_ranks
from lpfuse._files import ANY, saved_as
from lpfuse._format import percent, quote, readable
from lpfuse._validation.params import check_choice, column_labels, listed, quoted, warn_user
from lpfuse._validation.tables import column_names, does_grow
from lpfuse.adapters import call_on_protected_rows
from lpfuse.frames import TablePreparation
from lpfuse.time.order import RANDOM, TIME, UNTOLD, RowOrder
from lpfuse.time.windows import Windows

Table = Any  # an n×d array of floats, or a data frame
Index = NDArray[np.intp]
FEWEST_GROWING = 50  # rows of an array from which a sorted column is told; chosen by hand


FEWEST_PREDICTED = 20  # rows from which all being training rows is no coincidence
FEWEST_TOLD = 3  # rows of all labels but the most frequent, from which a column is no coincidence


class TrainingRowsWarning(UserWarning):
    """Rows to be judged are those that the detector learnt from."""


class EmptyColumnWarning(UserWarning):
    """A column that detectors use holds no value."""


def draw_seed(random: np.random.RandomState) -> int:
    """Draw a seed for what has none of its own."""
    return int(random.randint(np.iinfo(np.int32).max))  # nosec B311 # NumPy, seeded


def joined_rows(parts: Sequence[Table]) -> Table:
    """Join arrays, or data frames of one library, one below the other."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    if not hasattr(parts[0], "iloc"):
        import polars

        return polars.concat(parts, how="vertical_relaxed")
    import pandas

    return pandas.concat(parts, ignore_index=True)


def column_positions(columns: Any, X: Table, name: str) -> Index | None:
    """Return positions of the columns that a detector shall see.

    Parameters
    ----------
    columns : None, str, int, slice, sequence or callable
        All; a name or a position, or several; a mask; a function of `X` that gives one of these.
    X : table
        The training rows.
    name : str
        The detector, for the message of a refusal.
    """
    if callable(columns):
        columns = columns(X)
    if columns is None:
        return None
    d = X.shape[1]
    if isinstance(columns, slice):
        found = np.arange(d)[_slice_of_positions(columns, X, name)]
    else:
        several = [columns] if isinstance(columns, str | Integral) else columns
        found = _positions_of_several(several, X, name)
    if found.size == 0:
        raise ValueError(
            f"Detector {quote(name)} was given no columns, {quote(columns)}: name one."
        )
    return found.astype(np.intp)


def feature_positions(columns: Any, made: TablePreparation, name: str) -> list[int]:
    """Return positions of the features that are made of columns of a data frame.

    Parameters
    ----------
    columns : str, int, slice or sequence
        As in `column_positions`, of the training rows.
    made : TablePreparation
        How columns became features.
    name : str
        The detector, for the message of a refusal.
    """
    import polars  # the rows were a data frame

    found = column_positions(columns, polars.DataFrame(schema=[*made.names]), name)
    wanted = [made.names[k] for k in ([] if found is None else found)]
    places = [place for column in wanted for place in made.groups.get(column, [])]
    if not places:
        why = listed(f"{quote(each)}: {made.dropped.get(each, 'no feature')}" for each in wanted)
        raise ValueError(
            f"{quote(name)} is left without columns, for none of those named is used ({why})."
        )
    return places


def players_of(groups: Mapping[str, Any] | None, made: TablePreparation) -> dict[str, list[int]]:
    """Return positions of the features of groups of columns, and of all other columns."""
    found = {
        str(name): feature_positions(some, made, name) for name, some in (groups or {}).items()
    }
    taken = {place for places in found.values() for place in places}
    rest = {name: places for name, places in made.groups.items() if places}
    return found | {name: some for name, some in rest.items() if not taken & {*some}}


def seen_features(
    columns: Any, made: TablePreparation | None, windows: Windows | None, name: str
) -> Any:
    """Return the features that are made of the columns which a detector shall see.

    Parameters
    ----------
    columns, name
        As in `column_positions`.
    made : TablePreparation or None
        How the columns of a data frame became features.
    windows : Windows or None
        How features of rows in time order became those with windows, block by block.
    """
    if made is not None:
        columns = feature_positions(columns, made, name)
    if windows is None:
        return columns
    d = windows.n_features_in_
    found = column_positions(columns, np.empty((1, d)), name)
    base = np.arange(d) if found is None else found
    return np.concatenate([base + k * d for k in range(len(windows.features))])


def _positions_of_several(wanted: Any, X: Table, name: str) -> Index:
    d = X.shape[1]
    try:
        listed = list(wanted)
        if any(isinstance(column, str) for column in listed):
            listed = _positions_of_names(listed, X, name)
        return np.arange(d)[listed]
    except (IndexError, TypeError) as error:
        raise ValueError(
            f"Detector {quote(name)} wants columns {quote(wanted)} of a table with {d} columns "
            f"(counted from 0): {error}. Columns are names, positions, a mask, a slice or a "
            "function of X."
        ) from error


def _slice_of_positions(wanted: slice, X: Table, name: str) -> slice:
    """Turn a slice of names, with its last one as in scikit-learn, into one of positions."""
    start, stop = wanted.start, wanted.stop
    if isinstance(start, str):
        (start,) = _positions_of_names([start], X, name)
    if isinstance(stop, str):
        stop = _positions_of_names([stop], X, name)[0] + 1
    return slice(start, stop, wanted.step)


def _positions_of_names(wanted: Sequence[Any], X: Table, name: str) -> list[int]:
    known = column_names(X)
    if known is None:
        raise ValueError(
            f"Detector {quote(name)} wants columns by name ({quoted(wanted)}), but X has "
            "no names. Pass a data frame, or positions."
        )
    unknown = [column for column in wanted if column not in known]
    if unknown:
        raise ValueError(
            f"Detector {quote(name)} wants columns that X does not have: "
            f"{quoted(unknown)}. It has {quoted(known)}."
        )
    return [known.index(column) for column in wanted]


def missing_cells(X: Table) -> NDArray[np.bool_]:
    """Tell which cells are NaN, or whatever else a data frame calls missing."""
    if isinstance(X, np.ndarray):
        return np.isnan(X)
    return np.column_stack([_missing(_column(X, j)) for j in range(X.shape[1])])


def _missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    if column.dtype.kind in "biu":
        return np.zeros(len(column), dtype=bool)
    if column.dtype.kind in "fcmM":
        return np.isnat(column) if column.dtype.kind in "mM" else np.isnan(column)
    return np.array([_is_missing(cell) for cell in column.tolist()])


def _is_missing(cell: Any) -> bool:
    """Tell whether a cell is None, NaN or NaT, or pandas' NA, which cannot be compared."""
    try:
        return cell is None or bool(cell != cell)
    except TypeError:
        return True


def empty_columns(X: Table) -> Index:
    """Find the columns without a single value."""
    first = np.flatnonzero(missing_cells(_safe_indexing(X, np.arange(1), axis=0))[0])
    some = missing_cells(_safe_indexing(X, first, axis=1)) if len(first) else np.empty((1, 0))
    return first[some.all(axis=0)]


def warn_of_empty_columns(X: Table, columns: Index, done: str) -> None:
    """Name columns without a value, and what is done about it; none: nothing is said."""
    if len(columns):
        told = listed(column_labels(columns, column_names(X)))
        text = f"There is no value in {told} of {X.shape[0]:,} rows: {done}."
        warn_user(text, EmptyColumnWarning)


def warn_of_growing_columns(X: Host) -> None:
    """Name columns of an array that only grow or fall from row to row, unless all of them do."""
    found = [j for j in range(X.shape[1]) if does_grow(X[:, j], FEWEST_GROWING)]
    if 0 < len(found) < X.shape[1]:
        warn_user(
            f"In {listed(column_labels(found, None))}, numbers only grow or fall from row to row, "
            "as row numbers and times do: later rows lie outside of what was learnt. Leave it out, "
            f"np.delete(X, {found}, axis=1), or pass groups of rows from one time.",
        )


NO_COMPLETE_ROW = (
    "Detectors that refuse missing cells need complete rows, but every row has a missing cell. "
    "Fill them in: make_pipeline(lpfuse.views.FilledGaps(), detector)."
)


def numeric_columns(X: Table) -> Host:
    """Return the columns that hold numbers, as an array of floats."""
    if isinstance(X, np.ndarray):
        return X.astype(np.float64, copy=False)
    columns = [_column(X, j) for j in range(X.shape[1])]
    numeric = [column.astype(np.float64) for column in columns if column.dtype.kind in "biuf"]
    if not numeric:
        raise ValueError("X has no column of numbers, which this needs. Encode some as numbers.")
    return np.column_stack(numeric)


def fit_imputer(X: Table, labels: Host) -> Any:
    """Fit an imputer for a fusion that looks at features: the mean of rows not anomalous."""
    from sklearn.impute import SimpleImputer

    imputer = SimpleImputer(keep_empty_features=True)
    return imputer.fit(numeric_columns(X)[labels >= 0])


def impute_features(imputer: Any, X: Table) -> Host:
    """Return the columns of numbers, with missing cells filled in."""
    return np.asarray(imputer.transform(numeric_columns(X)))


def replace_numbers(X: Table, numbers: Host) -> Table:
    """Put other values into the columns of numbers of a table."""
    if isinstance(X, np.ndarray):
        return numbers.astype(X.dtype)
    names = list(X.columns)
    numeric = [j for j in range(X.shape[1]) if _column(X, j).dtype.kind in "biuf"]
    return _with_columns(X, {names[j]: numbers[:, k] for k, j in enumerate(numeric)})


def frame_with_scores(X: Table, scores: Host, names: Sequence[str]) -> Table:
    """Add a column of scores for each name to the right of a data frame."""
    d = X.shape[1]
    named = all(isinstance(name, str) for name in X.columns)  # numbers go on as numbers
    keys = [_free(f"score of {name}", X) if named else d + j for j, name in enumerate(names)]
    return _with_columns(X, {key: scores[:, j] for j, key in enumerate(keys)})


def _free(name: str, X: Table) -> str:
    """Return the name, marked where a column has it already."""
    return _free(f"{name}′", X) if name in X.columns else name


def _with_columns(X: Table, columns: dict[Any, Host]) -> Table:
    """Add or replace some columns of a data frame."""
    if hasattr(X, "assign"):  # pandas
        copy = X.copy()
        for name, values in columns.items():
            copy[name] = values
        return copy
    import polars  # the frame at hand is one of its own

    return X.with_columns(**{name: polars.Series(values) for name, values in columns.items()})


def _column(X: Table, j: int) -> NDArray[Any]:
    return np.asarray(_safe_indexing(X, j, axis=1))


# -------------------------------------------------------------------- implausible cells

# Cells are implausible where they, at most 3 % of a column, lie beyond an empty gap: at least five
# times as far from the median as all others, and farther than the tail of these explains (under a
# power law, such a gap has a chance of exp(−8)). Many different values are a group of rows, not
# placeholders; a column of few values holds codes. Chosen on 332 tables: docs/adr/0047.
GAP, SURPRISE, MOST_IMPLAUSIBLE, MOST_DIFFERENT = 5.0, 8.0, 0.03, 0.01
FEWEST_CELLS, FEWEST_VALUES = 100, 5
# Implausible wherever they lie, where several rows hold one, and no other cell is negative.
PLACEHOLDERS = (-99.0, -999.0, -9999.0, -99999.0, -999999.0)


def blank_implausible(X: Table, labels: Host, names: Sequence[str] | None = None) -> Table:
    """Make implausible cells of training rows missing, and warn of them.

    Placeholders (−999) and typing errors (1e6) would stretch the scale of their column and spend
    the false alarms. Known anomalies keep their cells, and so do new rows, where such a value is
    as strange as it looks. Without such cells the table is returned as it came.

    Parameters
    ----------
    X : table of shape (n, d)
        Training rows.
    labels : ndarray of shape (n,)
        +1 normal, −1 anomaly, 0 unlabelled.
    names : sequence of d str, optional
        Of the columns of an array.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 1))
    >>> blank_implausible(X, np.zeros(200)) is X
    True
    """
    rows = np.flatnonzero(labels >= 0)
    columns: dict[int, Host] = {}
    told = []
    for j, label in enumerate(column_labels(range(X.shape[1]), names or column_names(X))):
        column = _column(X, j)
        found = rows[_implausible(column[rows])] if column.dtype.kind in "iuf" else rows[:0]
        if len(found):
            values, counts = np.unique(column[found], return_counts=True)
            cells = listed([f"{readable(v)} ({c}×)" for v, c in zip(values, counts, strict=True)])
            told.append(f"{label}: {cells}")
            columns[j] = column.astype(np.result_type(column, np.float32))
            columns[j][found] = np.nan
    if not columns:
        return X
    warn_user(
        f"Some training cells lie far outside of the rest of their columns ({'; '.join(told)}). "
        "They are treated as missing in training. New rows with such cells are scored as they are, "
        "and add to the alarms. Where they are placeholders, replace them by NaN in all rows.",
    )
    if not isinstance(X, np.ndarray):
        return _with_columns(X, {X.columns[j]: values for j, values in columns.items()})
    X = X.copy()
    X[:, list(columns)] = np.column_stack(list(columns.values()))
    return X


def _implausible(column: NDArray[Any]) -> Index:
    """Find the implausible cells of a column."""
    there = np.flatnonzero(np.isfinite(column))
    n, none = len(there), there[:0]
    if n < FEWEST_CELLS:
        return none
    cells, most, tail = column[there].astype(np.float64), int(n * MOST_IMPLAUSIBLE), n // 10
    is_lowest = cells == cells.min()
    if cells.min() in PLACEHOLDERS and 1 < is_lowest.sum() == (cells < 0).sum() <= most:
        others = np.where(column == cells.min(), np.nan, column)
        return np.sort(np.concatenate([there[is_lowest], _implausible(others)]))
    with np.errstate(over="ignore", invalid="ignore"):
        distances = np.abs(cells - np.median(cells))
        kept = n - 1 - most - tail
        farthest = np.sort(np.partition(distances, kept)[kept:])[::-1]
        if farthest[-1] == 0:  # most cells are equal: there is no scale to be far by
            return none
        logs = np.log(farthest)
        jumps = logs[:most] - logs[1 : most + 1]
    for m in np.flatnonzero(jumps > np.log(GAP))[::-1] + 1:
        # The Hill estimate: the mean spacing of logarithms at the end of a power law that has the
        # tail of the cells inside of the gap. A tenth keeps ties from making it zero.
        spacing = max(logs[m : m + tail].mean() - logs[m + tail], 0.1)
        beyond = distances >= farthest[m - 1]
        if (
            jumps[m - 1] > SURPRISE * spacing
            and len(np.unique(cells[beyond])) <= max(3, n * MOST_DIFFERENT)
            and len(np.unique(cells[~beyond])) >= FEWEST_VALUES
        ):
            return there[beyond]
    return none


# --------------------------------------------------------------- rows with missing cells

T = TypeVar("T")
LARGEST_SQUARED = 1e150  # beyond it, sums of squares overflow


def complete_rows(X: Table) -> Index:
    """Find the rows without a missing cell."""
    return np.flatnonzero(~missing_cells(X).any(axis=1))


def rows_with_any_cell(X: Table) -> Index:
    """Find the rows with at least one cell."""
    return np.flatnonzero(~missing_cells(X).all(axis=1))


def on_usable_rows(
    work: Callable[[Table, Index], T], X: Table, doing: str, fills_gaps: bool, must_have: bool
) -> tuple[T, Index]:
    """Do the work on all rows or, where it refuses missing cells, on the complete ones.

    Whether a detector accepts missing cells is found by trying: scikit-learn's ``allow_nan`` is
    about NaN, not missing words, and other makers have no tags. One that fills cells in
    is not asked about rows without any: filled in, these would be the most usual rows there are.

    Parameters
    ----------
    work : callable
        A function of rows and their positions.
    X : table of shape (n, d)
        Rows, with the columns that the detector sees.
    doing : str
        What is done, with which detectors, for errors.
    fills_gaps : bool
        Whether the work begins with filling missing cells in.
    must_have : bool
        Whether there must be a row.

    Returns
    -------
    result : object
        What the work gave.
    rows : ndarray of positions
        The rows that it was done on.
    """
    every = rows_with_any_cell(X) if fills_gaps else np.arange(X.shape[0])
    view = X if len(every) == X.shape[0] else _safe_indexing(X, every, axis=0)
    try:
        try:
            return call_on_protected_rows(lambda rows: work(rows, every), view), every
        except Exception:
            complete = complete_rows(view)
            if len(complete) == X.shape[0]:  # no missing cell: the error has another reason
                raise
            if len(complete) == 0 and must_have:
                raise ValueError(NO_COMPLETE_ROW) from None
            whole, index = _safe_indexing(view, complete, axis=0), every[complete]
            return call_on_protected_rows(lambda rows: work(rows, index), whole), index
    except Exception as error:
        error.add_note(f"This happened while {doing}.")
        if isinstance(X, np.ndarray) and np.abs(X).max(initial=0.0) > LARGEST_SQUARED:
            error.add_note("X holds numbers beyond 1e150, whose squares overflow. Divide them.")
        raise


# ------------------------------------------------------------------- rows known by value


@saved_as("KeptRows", names=ANY)
@dataclass(frozen=True)
class StoredRows:
    """The training rows, in a form that a file can hold.

    Attributes
    ----------
    values : ndarray of shape (n, d) or None
        Numbers: rows learnt from, then those set aside; None where some column has words, which
        are not kept.
    names : list of str or None
        Of the columns, where the rows were a data frame.
    of_polars : bool
        Whether that was one of polars.
    n_added : int
        Rows at the end of those learnt from that came with answers.
    """

    values: Host | None
    names: list[str] | None = None
    of_polars: bool = False
    n_added: int = 0

    def table(self, rows: Index | slice = slice(None)) -> Table:
        """Return the rows, or some of them, as they were fitted to."""
        if self.values is None:
            raise ValueError(
                "The detector learnt from columns of words, which it does not keep, so it cannot "
                "be taught. Fit it again with y=, or encode the words as numbers first."
            )
        values = self.values[rows]
        if self.names is None:
            return values
        if self.of_polars:
            import polars

            return polars.DataFrame(values, schema=self.names)
        import pandas

        return pandas.DataFrame(values, columns=self.names)


def store_rows(table: Table, below: Table | None = None) -> StoredRows:
    """Store training rows and, where there are some, others below them."""
    names, of_polars = None, False
    if not isinstance(table, np.ndarray):
        names, of_polars = column_names(table), not hasattr(table, "iloc")
    # Arrays as they are: rows of single precision take half the memory, and half the file.
    both = [part for part in (table, below) if part is not None]
    parts = [part if isinstance(part, np.ndarray) else as_numbers(part) for part in both]
    values = [part for part in parts if part is not None]
    whole = len(values) == len(parts)
    return StoredRows(np.concatenate(values) if whole else None, names, of_polars)


def as_numbers(table: Table) -> Host | None:
    """Return the rows as numbers; None where some column has words."""
    try:
        values = numeric_columns(table)
    except ValueError:
        return None
    return values if values.shape[1] == table.shape[1] else None


def row_keys(values: Host) -> NDArray[Any]:
    """Return a value for each row that is equal for equal rows; missing cells are equal."""
    values = values.astype(np.float64, copy=False) + 0.0  # −0.0 is 0.0
    whole = np.ascontiguousarray(np.where(np.isnan(values), np.nan, values))
    return whole.view(np.dtype((np.void, whole.dtype.itemsize * whole.shape[1]))).ravel()


def find_rows(known: Host, rows: Host) -> Index:
    """Find each of the rows among the known ones; −1 where it is none of them."""
    keys, sought = row_keys(known), row_keys(rows)
    order = np.argsort(keys)
    at = np.minimum(np.searchsorted(keys, sought, sorter=order), len(keys) - 1)
    found = order[at]
    return np.where(keys[found] == sought, found, -1)


def hash_rows(values: Host) -> Host:
    """Return a number from 0 to 2⁵³ for each row, equal for equal rows.

    Of a million rows that differ two have the same with a chance of 1 in 18,000; each block of rows
    can be numbered by itself.
    """
    bits = row_keys(values).view(np.uint64).reshape(values.shape)
    odd = np.random.RandomState(0).randint(1, 2**62, size=(2, values.shape[1]), dtype=np.uint64)
    mixed = (bits ^ (bits >> np.uint64(29))) * (2 * odd[0] + 1)
    mixed = ((mixed ^ (mixed >> np.uint64(32))) * (2 * odd[1] + 1)).sum(axis=1, dtype=np.uint64)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64)


def places_in_training(stored: StoredRows | None, X: Table) -> Index:
    """Find rows among those that a detector stores, by their values.

    Equal rows have the same place, also where several training rows are equal.

    Parameters
    ----------
    stored : StoredRows or None
        ``rows_`` of a fitted `FusedDetector`, where it has any.
    X : array or data frame of shape (n, d)
        Rows, checked.

    Returns
    -------
    ndarray of shape (n,)
        Positions in `stored`; −1 where a row is none of these, and for all rows where none is
        stored, having words in some columns.

    Examples
    --------
    >>> import numpy as np
    >>> stored = store_rows(np.arange(12.0).reshape(6, 2))
    >>> places_in_training(stored, np.array([[4.0, 5.0], [0.0, 0.0]]))
    array([ 2, -1])
    """
    sought = as_numbers(X)
    if stored is None or stored.values is None or sought is None or not len(sought):
        return np.full(X.shape[0], -1, dtype=np.intp)
    # By numbers made of the rows, which sort many times faster than the rows themselves.
    known, wanted = hash_rows(stored.values), hash_rows(sought)
    order = np.argsort(known, kind="stable")
    found = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)]
    return np.where(known[found] == wanted, found, -1)


def warn_of_training_rows(known: Host | None, table: Table, done: str, least: float = 1.0) -> None:
    """Warn where of several rows at least a share was learnt from.

    Parameters
    ----------
    known : ndarray of shape (n, d) or None
        Rows that were learnt from; None where these are not known, or nothing learnt.
    table : table of shape (m, d)
        Rows that should be others.
    done : str
        What comes of it, as the end of a sentence.
    least : float, default=1.0
        The share.
    """
    rows = as_numbers(table)
    if known is None or rows is None or len(rows) < FEWEST_PREDICTED:
        return
    if least == 1.0 and find_rows(rows[:1], known).max() < 0:  # a look at one spares the rest
        return
    share = float(np.mean(find_rows(known, rows) >= 0))
    if share >= least:
        some = f"All {len(rows):,}" if share == 1.0 else f"{percent(share)} of the"
        warn_user(
            f"{some} rows are training rows. Detectors find rows that they learnt from less "
            f"strange, so {done}.",
            TrainingRowsWarning,
        )


def find_contradictions(labels: Host, number: NDArray[Any]) -> list[str]:
    """Say in a sentence which equal rows are normal and anomalies; in none where none are.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        +1 normal, −1 anomaly, 0 for neither.
    number : ndarray of shape (n,)
        Equal for equal rows.
    """
    known = np.flatnonzero(labels)
    order = known[np.lexsort((labels[known], number[known]))]
    first, second = order[:-1], order[1:]
    torn = np.flatnonzero((number[first] == number[second]) & (labels[first] < labels[second]))
    if not len(torn):
        return []
    one, other = sorted((int(first[torn[0]]), int(second[torn[0]])))
    return [
        f"Labels contradict each other: rows {one} and {other} are equal, but one is normal and "
        f"the other an anomaly ({len(torn)} such rows). Decide, or leave both unlabelled (None)."
    ]


def warn_of_label_columns(X: Table, y: Any, made: TablePreparation | None) -> None:
    """Warn of columns of features that tell the labels one by one: `y` was perhaps left in X."""
    names = column_names(X)
    used = [j for j in range(X.shape[1]) if made is None or (names or [])[j] in made.columns]
    found = [j for j in used if _are_one_to_one(_safe_indexing(X, j, axis=1), y)]
    if found:
        warn_user(
            f"The labels y can be read off {listed(column_labels(found, names))} of X, "
            "row by row. Leave it out, unless new rows will hold it too before they are judged.",
        )


def _are_one_to_one(cells: Any, labels: Any) -> bool:
    """Tell whether each cell stands for one label, and each label for one cell."""
    for n in (FEWEST_GROWING, len(labels)):  # the first rows spare most columns the rest
        pairs = Counter(zip(map(str, cells[:n]), map(str, labels[:n]), strict=True))
        if not len(pairs) == len({cell for cell, _ in pairs}) == len({label for _, label in pairs}):
            return False
    return n - max(pairs.values()) >= FEWEST_TOLD


def duplicated_rows(table: Table) -> Index:
    """Find the rows that have an equal among them; words are compared as well.

    Examples
    --------
    >>> import numpy as np
    >>> duplicated_rows(np.array([[1.0, 2.0], [0.0, 0.0], [1.0, 2.0]]))
    array([0, 2])
    """
    values = as_numbers(table)
    if values is None:
        columns = [np.asarray(_safe_indexing(table, j, axis=1)) for j in range(table.shape[1])]
        texts = [np.array([str(cell) for cell in column]) for column in columns]
        numbers = [np.unique(column, return_inverse=True)[1] for column in texts]
        values = np.column_stack(numbers).astype(np.float64)
    number, count = np.unique(row_keys(values), return_inverse=True, return_counts=True)[1:]
    return np.flatnonzero(count[number.ravel()] > 1)


# ------------------------------------------------------------------ dependence of consecutive rows

# Consecutive rows resemble each other where the rank correlation of a column is this large, and so
# many standard errors from 0; chosen by hand: of 322 tables in the order of their files see
# docs/adr/0050.
CORRELATED, SURELY = 0.2, 5.0
FEWEST_ORDERED = 50  # rows in which dependence shows
SEGMENT, SEGMENTS = 500, 10  # consecutive rows that are looked at, and how often
REMEDY = (
    'Pass time= with the time of each row, or order="time" where rows come at even intervals; '
    "groups= where rows belong together, such as those of a machine or a person; or "
    'order="random" where the order means nothing.'
)


def look_at_order(
    order: str | None,
    table: Host | None,
    names: Sequence[str] | None,
    columns: Sequence[int] | None = None,
) -> RowOrder:
    """Estimate how far consecutive rows depend on each other.

    Parameters
    ----------
    order : {"time", "random"} or None
        As the user said.
    table : array of shape (n, d) or None
        Rows as they came. Columns that only grow or fall are left out: rows may be sorted by them.
    names : sequence of d str or None
        Of the columns.
    columns : sequence of positions, optional
        Of the columns to look at; None: all.
    """
    check_choice("order", order, (None, TIME, RANDOM))
    columns = [] if table is None else range(table.shape[1]) if columns is None else columns
    if order == RANDOM or table is None or len(table) < FEWEST_ORDERED or not len(columns):
        return RowOrder(order)
    table = table[:, columns]
    starts = np.linspace(0, max(len(table) - SEGMENT, 0), SEGMENTS).astype(int)
    segments = [table[start : start + SEGMENT] for start in np.unique(starts)]
    correlation = np.mean([_rank_correlations(part) for part in segments], axis=0)
    error = 1 / np.sqrt(sum(map(len, segments)))
    most = int(np.argmax(correlation))
    if order is None and correlation[most] < max(CORRELATED, SURELY * error):
        return UNTOLD
    spacing = max(correlation_length(column) for column in table[: SEGMENT * SEGMENTS].T)
    if order == TIME:
        return RowOrder(order, max(1.0, spacing))
    place = columns[most]
    name = f"column {place}" if names is None else quote(names[place])
    because = (
        f"consecutive rows resemble each other (rank correlation {correlation[most]:.2f} in "
        f"{name}), as rows in time or of one group do, and the order was not told"
    )
    return RowOrder(None, max(1.0, spacing), because)


def _rank_correlations(table: Host) -> Host:
    """Return rank correlations of each value with the next one; 0 where all steps are alike.

    Of shape (d,), for consecutive rows of shape (n, d); missing values are left out.
    """
    found, gaps = np.zeros(table.shape[1]), np.isnan(table)
    for j in np.flatnonzero(gaps.any(axis=0)):
        found[j] = _rank_correlations(table[~gaps[:, j], j][:, None])[0]
    there = table[:, ~gaps.any(axis=0)]
    if len(there) < FEWEST_ORDERED:
        return found
    steps = np.diff(there, axis=0)
    moving = (steps < 0).any(axis=0) & (steps > 0).any(axis=0)
    ranks = column_ranks(there[:, moving])
    ranks -= ranks.mean(axis=0)
    squares = np.einsum("ij,ij->j", ranks, ranks)
    some = np.zeros(there.shape[1])
    some[moving] = np.einsum("ij,ij->j", ranks[1:], ranks[:-1]) / squares
    found[~gaps.any(axis=0)] = some
    return found


def correlation_length(values: Host) -> float:
    r"""Return how many consecutive values tell as much as one independent value.

    .. math:: \tau = 1 + 2 \sum_{k \ge 1} \rho_k

    with the autocorrelations :math:`\rho_k` of the ranks, up to the first that is not positive.

    Parameters
    ----------
    values : ndarray of shape (n,)
        In their order; NaN is left out.

    Returns
    -------
    float
        From 1 to n.
    """
    ranks = column_ranks(values[~np.isnan(values), None])[:, 0] if len(values) else values
    n = len(ranks)
    if n < 2 or ranks.min() == ranks.max():
        return 1.0
    ranks -= ranks.mean()
    power = np.abs(np.fft.rfft(ranks, 2 * n)) ** 2
    covariance = np.fft.irfft(power)[: n // 2]
    positive = covariance > 0
    end = len(positive) if positive.all() else int(np.argmin(positive))
    return float(min(n, 2 * covariance[:end].sum() / covariance[0] - 1)) if end else 1.0
