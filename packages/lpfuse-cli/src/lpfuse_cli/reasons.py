"""Why rows were flagged: the columns, their values, and what normal rows usually hold."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host
from lpfuse._files import as_json
from lpfuse._format import number, percent, plain, readable, shortened
from lpfuse.ensemble.components import Explanation
from lpfuse.frames import TablePreparation
from lpfuse.frames.cells import polars_module, texts_of
from lpfuse.frames.preparation import TAIL

if TYPE_CHECKING:
    import polars

MOST_COLUMNS = 3  # that are told of a row; chosen by hand
MATTERS = 0.05  # of the strongest push, from where a column is worth a word; chosen by hand
USUAL = 0.05, 0.95  # quantiles between which a normal row usually lies: nine of ten do
# Background rows, so that a row costs about as much as one of a hundred columns at most; but never
# fewer than 8, for an error has to be told.
BACKGROUND, CELLS, FEWEST = 32, 3_200, 8
WHY, NO_REASON = "why", "no single column"  # a column of scores, and what it says then
DECISION = "decision"  # the column of scores that it stands behind


@dataclass(frozen=True)
class Reason:
    """A column that pushed the score of a row down.

    Attributes
    ----------
    name : str
        The column.
    value : number, str or None
        What the row holds there; None: nothing.
    usual : dict or None
        What normal rows hold: ``low`` and ``high`` of nine in ten, or the commonest ``text`` and
        its ``share``; None where that is not known.
    push, error : float
        The Shapley value, below zero, and its standard error.
    """

    name: str
    value: Any
    usual: dict[str, Any] | None
    push: float
    error: float

    def in_commas(self) -> Reason:
        """Return the reason for a reader who writes decimals behind commas."""
        return ReasonInCommas(**vars(self))

    def words(self) -> str:
        """One line, as `lpfuse score --explain` writes it.

        Examples
        --------
        >>> Reason("bar", 9.9, {"low": 2.31, "high": 2.69}, -3.1, 0.25).words()
        'bar 9.9 (usually 2.31 to 2.69): −3.1 ± 0.25'
        """
        return f"{self.value_and_usual()}: {self.push_words()}"

    def value_and_usual(self, what: str = "") -> str:
        """Format the column, the value of the row or `what` it is of it, and what is usual."""
        told = f"{shortened(plain(self.name))} {what}{self.value_words()}"
        return f"{told} ({self.usual_words()})".replace(" ()", "")

    def value_words(self) -> str:
        """Format the value of the row."""
        if self.value is None:
            return "missing"
        is_text = isinstance(self.value, str)
        return shortened(plain(self.value)) if is_text else self.written(self.value, 6)

    def usual_words(self) -> str:
        """Format the values of normal rows; empty where unknown."""
        if self.usual is None:
            return ""
        if "text" in self.usual:
            text, share = self.usual["text"], self.usual["share"]
            return f"usually {shortened(plain(text))}, {percent(share, 0)}"
        low, high = self.written(self.usual["low"]), self.written(self.usual["high"])
        return f"usually {low} to {high}" if low != high else f"usually {low}"

    def push_words(self) -> str:
        """How far it pushed the score."""
        told = self.written(self.push)
        is_exact = self.error <= ROUNDING * abs(self.push)
        return told if is_exact else f"{told} ± {self.written(self.error, 2)}"

    def written(self, value: float, digits: int = 3) -> str:
        """Format a number, see `written`."""
        return written(value, digits)


class ReasonInCommas(Reason):
    """A reason whose numbers have decimal commas.

    Examples
    --------
    >>> Reason("bar", 1086.19, {"low": 2.31, "high": 1054.0}, -3.1, 0.25).in_commas().words()
    'bar 1.086,19 (usually 2,31 to 1.054): −3,1 ± 0,25'
    """

    def written(self, value: float, digits: int = 3) -> str:
        """Format a number, see `written`."""
        return written(value, digits).translate(str.maketrans(",.", ".,"))


ROUNDING = 1e-6  # of a push: a smaller standard error is that of sums of doubles
TINY = 1e-4  # below, a number has too many zeros to be read


def written(value: float, digits: int = 3) -> str:
    """Format a number as a person writes it, with at most so many digits behind the point.

    Examples
    --------
    >>> written(1150.0), written(9.9, 6), written(0.000012), written(-0.5)
    ('1,150', '9.9', '1.2e−05', '−0.5')
    """
    if isinstance(value, str) or 0 < abs(value) < TINY:
        return number(value, digits)
    whole, point, rest = readable(value, digits).partition(".")
    return f"{whole}{point}{rest.rstrip('0')}".rstrip(".")


def reasons(
    model: Any,
    rows: Any,
    names: Sequence[str] | None = None,
    most: int = MOST_COLUMNS,
    background: Any = None,
    X: Host | None = None,
) -> list[list[Reason]]:
    """Find the columns that lowered the score of each row most.

    Parameters
    ----------
    model : FusedDetector
        Fitted.
    rows : polars.DataFrame, array or data frame
        As it takes them.
    names : sequence of str, optional
        Of the columns of an array.
    most : int, default=3
        Columns of a row; those that may as well have done nothing are left out.
    background : array or data frame, optional
        Normal rows to compare with, for a detector that learnt from words and keeps none.
    X : ndarray, optional
        Features of the rows with their windows, for a detector of rows in time.
    """
    is_table = model.preparation_ is not None
    rows = rows.select(model.preparation_.columns) if is_table else rows
    wide = len(model.preparation_.columns) if is_table else rows.shape[1]
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # scoring gave these
        size = max(FEWEST, min(BACKGROUND, CELLS // wide))
        given = rows if X is None or model.windows_ is None else X
        found = model.explain(given, background=size if background is None else background)
    told = found.feature_names if is_table or names is None else list(map(str, names))
    chosen = [_relevant_columns(found, i, most) for i in range(len(found.values))]
    if is_table:
        columns = {j: _of_table(model, rows, told[j]) for some in chosen for j in some}
    else:
        known = background
        if background is None:
            known = model.rows_.values[model.held_out_.labels > 0]
        columns = {
            j: _Column(_safe_indexing(rows, j, axis=1), _range(_safe_indexing(known, j, axis=1)))
            for some in chosen
            for j in some
        }
    return [
        [
            Reason(
                name=told[j],
                value=_cell(columns[j].cells, i),
                usual=columns[j].usual,
                push=float(found.values[i, j]),
                error=float(found.standard_errors[i, j]),
            )
            for j in some
        ]
        for i, some in enumerate(chosen)
    ]


def with_unusual(
    model: Any,
    frame: polars.DataFrame,
    scored: polars.DataFrame,
    X: Host,
    in_commas: bool = False,
) -> polars.DataFrame:
    """Return scores with the unusual columns of alarms behind the decision.

    Parameters
    ----------
    model : FusedDetector
        Fitted to a table.
    frame, scored, X : polars.DataFrame, polars.DataFrame, ndarray of shape (n, d)
        Rows, their scores, and their features.
    in_commas : bool, default=False
        Whether numbers have decimal commas.
    """
    alarms = _alarms(scored)
    told = unusual_columns(model, frame[alarms], X[alarms.to_numpy()], in_commas=in_commas)
    texts: list[str | None] = [None] * scored.height
    for row, text in zip(alarms, told, strict=True):
        texts[row] = text
    column = polars_module().Series(WHY, texts, dtype=polars_module().String)
    return scored.insert_column(scored.columns.index(DECISION) + 1, column)


def with_reasons(
    model: Any,
    frame: polars.DataFrame,
    X: Host,
    scored: polars.DataFrame,
    most: int,
    in_commas: bool = False,
) -> tuple[polars.DataFrame, int]:
    """Return scores with Shapley values as reasons of the first alarms, and how many these are."""
    rows = _alarms(scored).head(max(0, most))
    if not len(rows):
        return scored, 0
    texts = scored[WHY].to_list()
    told = reasons(model, frame[rows], X=X[rows.to_numpy()])
    for row, found in zip(rows, told, strict=True):
        found = [each.in_commas() for each in found] if in_commas else found
        texts[row] = "; ".join(each.words() for each in found) or NO_REASON
    column = polars_module().Series(WHY, texts, dtype=polars_module().String)
    return scored.with_columns(column), len(rows)


def _alarms(scored: polars.DataFrame) -> polars.Series:
    return ((scored[DECISION] < 0) & scored["score"].is_not_null()).arg_true()


IN_RANGE = "no column is out of its usual range, but together they are unusual"


def unusual_columns(
    model: Any,
    frame: polars.DataFrame | None,
    X: Host,
    most: int = MOST_COLUMNS,
    *,
    in_commas: bool = False,
) -> list[str]:
    """Say of each row which columns are farthest out of their usual range.

    Parameters
    ----------
    model : FusedDetector
        Fitted to a table.
    frame, X : polars.DataFrame or None, ndarray of shape (n, d)
        Rows, and their features; without the former, texts and gaps are not told.
    most : int, default=3
        Columns of a row.
    in_commas : bool, default=False
        Whether numbers have decimal commas.

    Returns
    -------
    list of str
        Of each row numbers outside of where 98 % of the normal training rows lie, by how many
        widths of that range they are outside; texts that were not in the training and cells that
        never were missing count as one width. Of a column and its windows, the farthest.
    """
    made: TablePreparation = model.preparation_
    places = {feature: j for j, feature in enumerate(made.feature_names)}
    names = list(made.ranges)
    ranges = np.reshape(list(made.ranges.values()), (-1, 2))
    own = [places[name] for name in names]
    found = _outside(X[:, own], names, ranges, in_commas)
    if model.windows_ is not None:
        beyond = _outside_in_windows(model, X, names, own, in_commas)
        found = [here + more for here, more in zip(found, beyond, strict=True)]
    if frame is not None:
        for name, new in made.unknown_texts(frame).items():
            for i in new.fill_null(False).arg_true():
                text = shortened(plain(str(frame[name][i])))
                told = f"{shortened(plain(name))} {text} (not in the training)"
                found[i].append((1.0, name, told))
        for name in (name for name in made.columns if name not in made.gaps):
            held = frame[name].fill_nan(None) if frame[name].dtype.is_float() else frame[name]
            for i in held.is_null().arg_true():
                told = f"{shortened(plain(name))} missing (never in the training)"
                found[i].append((1.0, name, told))
    return [_farthest(columns, most) for columns in found]


def unusual_numbers(X: Host, names: Sequence[str], normal: Host) -> list[str]:
    """Say of each row of an array which columns are farthest out of the range of normal rows.

    Parameters
    ----------
    X, names : ndarray of shape (n, d), sequence of d str
        Rows, and what their columns are called.
    normal : ndarray of shape (m, d)
        Normal rows.
    """
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # an empty column
        ranges = np.nanquantile(normal, [TAIL, 1 - TAIL], axis=0).T
    return [_farthest(columns, MOST_COLUMNS) for columns in _outside(X, names, ranges)]


Outside = list[list[tuple[float, str, str]]]


def _outside_in_windows(
    model: Any, X: Host, names: list[str], places: list[int], in_commas: bool
) -> Outside:
    """Of each row the windows of columns out of the range of normal rows, as `_outside`."""
    windows, known = model.windows_, model.rows_.values
    d, found = windows.n_features_in_, Outside([[] for _ in range(len(X))])
    normal = known[model.held_out_.labels > 0]
    for block, feature in enumerate(windows.features):
        if feature == "value":
            continue
        at = [block * d + place for place in places]
        here, usual = X[:, at], normal[:, at]
        if feature == "spread":  # as the columns are measured
            spreads = windows.usual_spread_[places]
            here, usual = np.exp(here) * spreads, np.exp(usual) * spreads
        ranges = np.nanquantile(usual, [TAIL, 1 - TAIL], axis=0).T
        what = f"{feature} of {windows.length} rows "
        for told, more in zip(found, _outside(here, names, ranges, in_commas, what), strict=True):
            told += more
    return found


def _outside(
    X: Host, names: Sequence[str], ranges: Host, in_commas: bool = False, what: str = ""
) -> Outside:
    """Of each row the numbers out of their ranges: by how many widths, whose, and in words."""
    found: Outside = [[] for _ in range(len(X))]
    for name, column, (low, high) in zip(names, X.T, ranges.tolist(), strict=True):
        width = high - low or abs(high) or 1.0
        outside = np.maximum(low - column, column - high) / width
        for i in np.flatnonzero(outside > 0).tolist():
            held = Reason(name, _cell(column, i), {"low": low, "high": high}, 0.0, 0.0)
            held = held.in_commas() if in_commas else held
            found[i].append((float(outside[i]), name, held.value_and_usual(what)))
    return found


def _farthest(columns: list[tuple[float, str, str]], most: int) -> str:
    by_column: dict[str, str] = {}
    for _, owner, words in sorted(columns, key=lambda each: -each[0]):
        by_column.setdefault(owner, words)
    return "; ".join([*by_column.values()][:most]) or IN_RANGE


def _relevant_columns(found: Explanation, row: int, most: int) -> list[int]:
    """Columns that pushed a row down, without those that hardly did."""
    down, values = found.pushed_down(row, most), found.values[row]
    return [j for j in down if values[j] <= MATTERS * values[down[0]]]


class _Column(NamedTuple):
    """What rows hold in a column, and what normal rows do."""

    cells: Any
    usual: dict[str, Any] | None


def _of_table(model: Any, frame: Any, name: str) -> _Column:
    preparation = model.preparation_
    own = preparation.groups[name]
    values = model.rows_.values[model.held_out_.labels > 0][:, own]
    features = [preparation.feature_names[k] for k in own]
    number = features.index(name) if name in features else None
    if number is not None and name not in preparation.truths:
        return _Column(preparation.cells(frame)[name], _range(values[:, number]))
    texts = [k for k, feature in enumerate(features) if feature.startswith(f"{name}=")]
    cells = texts_of(frame[name]) if texts else frame[name]
    known = values[~np.isnan(values).any(axis=1)]  # a missing cell is NaN in all of its features
    if not len(known) or (number is None and not texts):
        return _Column(cells, None)
    if number is not None:
        share = float(known[:, number].mean())
        usual = {"text": "true" if share >= 0.5 else "false", "share": max(share, 1 - share)}
        return _Column(cells, usual)
    shares = known[:, texts].mean(axis=0)
    commonest = features[texts[int(shares.argmax())]].removeprefix(f"{name}=")
    return _Column(cells, {"text": commonest, "share": float(shares.max())})


def _range(column: Any) -> dict[str, Any] | None:
    """Where nine in ten numbers lie; None of words."""
    numbers = np.asarray(column)
    if numbers.dtype.kind not in "biuf" or np.isnan(numbers).all():
        return None
    low, high = np.nanquantile(numbers.astype(np.float64), USUAL)
    return {"low": float(low), "high": float(high)}


def _cell(column: Any, i: int) -> Any:
    """Convert a cell to a JSON value; None where it is empty."""
    cell = column.iloc[i] if hasattr(column, "iloc") else column[i]
    cell = cell.item() if isinstance(cell, np.generic) else cell
    if cell is None or cell != cell:
        return None
    if isinstance(cell, bool):
        return str(cell).lower()
    return as_json(float(cell)) if isinstance(cell, int | float) else str(cell)
