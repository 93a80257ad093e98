"""TablePreparation: columns of a data frame as features, and their ranges in training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._files import ANY, saved_as
from lpfuse._format import per_cent, plain, quote
from lpfuse._validation.params import (
    FEATURES,
    IsLater,
    check_choice,
    counted,
    did_you_mean,
    quoted,
    warn_user,
)
from lpfuse._validation.tables import (
    check_columns,
    check_table,
    does_grow,
    is_frame,
    to_known_frame,
)
from lpfuse.frames.cells import (
    CYCLES,
    ELAPSED,
    LIMIT,
    NO_DATE,
    OPEN,
    SINCE,
    TableFormat,
    as_polars,
    check_names,
    days_of,
    decimal_signs,
    features_of_moments,
    first_cell,
    has_grouping_points,
    is_number,
    is_text,
    labels_of,
    moments_of,
    names_of_parts,
    numbers_of,
    order_of,
    parts_of,
    plain_numbers,
    polars_module,
    read_moments,
    read_numbers,
    says_missing,
    texts_of,
    without_gaps,
    without_unit,
    zone_of,
)
from lpfuse.threshold.offsets import share_interval

if TYPE_CHECKING:
    import polars

# --------------------------------------------------------------------------------------------------
# What a column is: numbers, categories, dates, or something that nothing can be learnt from.


# What a user may say of a column.
KINDS = ("number", "category", "date", ELAPSED, "id", "text", "drop")

# All chosen by hand but for MOST_CATEGORIES:
FEWEST_ROWS = 5  # that share a text, for a feature of its own: one for each of five folds
# Texts of a column that have a feature of their own, the commonest: with twenty a column that tells
# nothing costs little, and one that tells something has its say (docs/adr/0024).
MOST_CATEGORIES = 20
NEARLY_ALL = 0.9  # share of different texts from which a column names the rows
MOSTLY = 0.5  # share of numbers from which the texts among them look like mistakes
COMMON = 0.5  # share of rows with common texts below which a column is none of categories
SENTENCE = 3  # words from which a text is a sentence
FEWEST_NUMBERS = 10  # rows from which 1, 2, 3, … is no coincidence
# Rows from which whole numbers that all differ, within twice as many, are none: of 40 numbers, 20
# drawn by chance all differ once in 3,000 times.
FEWEST_CODES = 20
MOST_UNITS = 5  # that are told as such
MIXED = "mixed"  # the kind of a column of numbers with mistakes, which is refused


class ColumnKind(NamedTuple):
    """What a column is: its kind, why it is not used (empty: it is), its values, and a detail."""

    kind: str
    why: str
    column: polars.Series
    detail: str = ""  # the unit of numbers, the order of dates


def check_kinds(kinds: Mapping[str, str], columns: list[str]) -> dict[str, str]:
    """Check the kinds of columns that a user named.

    Examples
    --------
    >>> check_kinds({"bar": "numbr"}, ["bar"])
    Traceback (most recent call last):
    ValueError: A column can be taken as number, category, ...; got 'numbr'. Did you mean 'number'?
    """
    for kind in kinds.values():
        if kind not in KINDS:
            raise ValueError(
                f"A column can be taken as {', '.join(KINDS[:-1])} or {KINDS[-1]}; got "
                f"{quote(kind)}.{did_you_mean(kind, KINDS)}"
            )
    return {check_names([name], columns)[0]: kind for name, kind in kinds.items()}


def parse_column(column: polars.Series) -> polars.Series:
    """Convert a column of texts to numbers, truth values or dates, if all of them are such.

    Numbers that are NaN are missing.
    """
    pl = polars_module()
    if column.dtype.is_float():
        return column.fill_nan(None)
    if column.dtype != pl.String:
        return column
    gaps = column.null_count()
    for kind in (pl.Int64, pl.Float64):
        numbers = column.cast(kind, strict=False)
        if numbers.null_count() == gaps:
            return numbers.fill_nan(None) if kind == pl.Float64 else numbers
    lower = column.str.to_lowercase()
    if lower.is_in(["true", "false"]).sum() == len(column) - gaps:
        return lower == "true"
    order = order_of(column)
    return column if order is None else moments_of(column, order)


# --------------------------------------------------------------------------------- what a column is


def kind_as_given(column: polars.Series, kind: str, start: int | None) -> ColumnKind:
    """Take a column as the user says; refuse it where it cannot be that."""
    name = quote(column.name)
    column = without_gaps(column, of_texts=kind == "category")
    if kind in ("drop", "id", "text"):
        return ColumnKind("dropped" if kind == "drop" else kind, "as asked", column)
    if column.null_count() == len(column):
        return ColumnKind("constant", "it is empty", column)
    first = first_cell(column, column.is_not_null(), start)
    if kind == "category":
        texts = texts_of(column)
        return ColumnKind(kind, _why_uninformative(texts) or _why_all_rare(texts), texts)
    if kind == "number":
        values, unit = parse_column(column), ""
        if is_text(values):
            unit = next(iter(_units(without_unit(texts_of(values))[1])), "")
            values = read_numbers(values, False, unit, True, None)[1].alias(column.name)
        if not is_number(values) or (values.null_count() == len(values) > column.null_count()):
            raise ValueError(
                f"Column {name} cannot be taken as numbers: {first}. Say what it is: "
                f"columns={{{name}: 'category'}} or columns={{{name}: 'drop'}}"
            )
        return ColumnKind(kind, _why_uninformative(values), values, unit)
    order = order_of(column)
    if order is None:
        raise ValueError(
            f"Column {name} cannot be taken as dates: {first}. Dates are written as 2024-02-28, "
            "28.02.2024, 28/02/2024 or 02/28/2024, perhaps with a time."
        )
    return ColumnKind(kind, "", moments_of(column, order), order)


def infer_kind(column: polars.Series, *, asked_for: bool, scores: bool) -> ColumnKind:
    """Take a column as what it looks like; signs such as "-" are gaps unless it holds texts."""
    taken = _infer_kind(without_gaps(column), asked_for, scores)
    if is_text(taken.column) and taken.kind != MIXED:
        return _infer_kind(without_gaps(column, of_texts=True), asked_for, scores)
    return taken


def _infer_kind(column: polars.Series, asked_for: bool, scores: bool) -> ColumnKind:
    given, column = column, parse_column(column)
    if is_number(column):
        why, kind = _why_uninformative(column), "constant"
        if not why and not asked_for and not scores:
            why, kind = _why_identifier(column), "id"
        return ColumnKind(kind if why else "number", why, column)
    if column.null_count() == len(column):
        return ColumnKind("constant", "it is empty", column)
    if scores:
        return ColumnKind("text", "it holds text, not scores", column)
    if column.dtype.is_temporal():
        order = order_of(given)
        if order is None:
            why = f"it holds {plain(column.dtype)}, which is no date"
            return ColumnKind("unknown", why, column)
        why = _why_uninformative(column)
        return ColumnKind("constant" if why else "date", why, moments_of(column, order), order)
    if not is_text(column):
        return ColumnKind("unknown", _why_uninformative(column), column)
    return _infer_text_kind(texts_of(column))


def _infer_text_kind(texts: polars.Series) -> ColumnKind:
    """Texts as numbers with a unit, as names, as sentences or as categories."""
    pl = polars_module()
    bare, units = without_unit(texts)
    known = _units(units)
    if bare.null_count() == texts.null_count() and len(known) == 1:
        numbers = bare.cast(pl.Float64, strict=False).alias(texts.name)
        why = _why_uninformative(numbers)
        return ColumnKind("constant" if why else "number", why, numbers, known[0])
    wrong, many = _mistakes(texts, bare, units), len(texts) - texts.null_count()
    if wrong.any():
        told = f"holds numbers, but for {wrong.sum():,} of {many:,} rows"
        return ColumnKind(MIXED, told, texts.set(~wrong, None))
    why = _why_uninformative(texts)
    if why:
        return ColumnKind("constant", why, texts)
    rows = texts.drop_nulls()
    different = rows.n_unique()
    said = f"{counted(different, 'text')} in {counted(len(rows), 'row')}"
    if bare.null_count() == texts.null_count() and 1 < len(known) <= MOST_UNITS < different:
        why = f"its numbers have several units, {quoted(known)}: convert them"
        return ColumnKind("text", why, texts)
    words: Any = rows.str.split(" ").list.len().median()
    is_prose = words >= SENTENCE
    if different >= NEARLY_ALL * len(rows) and different > 1:
        why = "it is free text" if is_prose else "it names the rows"
        return ColumnKind("text" if is_prose else "id", f"{why} ({said})", texts)
    if is_prose and different > MOST_CATEGORIES:
        return ColumnKind("text", f"it is free text ({said})", texts)
    why, counts = _why_all_rare(texts), rows.value_counts()["count"]
    if not why and counts.filter(counts >= FEWEST_ROWS).sum() < COMMON * len(rows):
        return ColumnKind("id", f"most of its texts are rare ({said}), as names are", texts)
    return ColumnKind("id" if why else "category", why, texts)


def _units(units: polars.Series) -> list[str]:
    """List the units that occur, the commonest first."""
    counts = units.drop_nulls().rename("unit").value_counts(sort=True)["unit"]
    return [unit for unit in counts.to_list() if unit]


def _why_uninformative(column: polars.Series) -> str:
    """Why nothing can be learnt from it, whatever it means; empty if something can."""
    if column.null_count() == len(column):
        return "it is empty"
    if not (is_number(column) or is_text(column) or column.dtype.is_temporal()):
        return f"it holds {plain(column.dtype)}, neither numbers nor text"
    if column.n_unique() == 1:
        value = column[0] if is_number(column) or is_text(column) else str(column[0])
        return f"it holds {quote(value)} in every row"
    return ""


def all_differ(numbers: polars.Series) -> bool:
    """Whether every row, of more than a few, has a whole number of its own."""
    whole = numbers.dtype.is_integer() and len(numbers) >= FEWEST_NUMBERS
    return whole and numbers.n_unique() == len(numbers)


def _why_identifier(numbers: polars.Series) -> str:
    """Why a column of numbers is not used though something could be learnt from it."""
    values = np.array(numbers.cast(polars_module().Float64).fill_null(np.nan))
    is_code = all_differ(numbers) and not numbers.null_count()
    if is_code and len(np.unique(np.diff(values))) == 1:
        return "it numbers the rows"
    if grows := does_grow(values, FEWEST_CODES):
        kinds = f"columns={{{quote(numbers.name)}: 'number'}}"
        return f"it {grows} from row to row (if it is a measurement, say {kinds})"
    if is_code and FEWEST_CODES <= len(values) > np.ptp(values) / 2:
        return "it numbers the rows, in another order"
    return ""


def _why_all_rare(texts: polars.Series) -> str:
    """Why texts give no feature; empty if they do."""
    most: Any = texts.drop_nulls().value_counts()["count"].max()
    return "" if (most or 0) >= FEWEST_ROWS else f"no text in it occurs in {FEWEST_ROWS} rows"


def _mistakes(texts: polars.Series, bare: polars.Series, units: polars.Series) -> polars.Series:
    """Tell which texts seem to be mistakes among numbers."""
    known = _units(units)[:1]
    wrong = texts.is_not_null() & (bare.is_null() | ~units.is_in(["", *known]))
    # Codes such as 7b and 12c are no numbers with units.
    single: Any = units.filter(bare.is_not_null()).is_in(["", *known]).mean() if known else 1.0
    rows = len(texts) - texts.null_count()
    is_mixed = 0 < wrong.sum() <= (1 - MOSTLY) * rows and (single or 0) > NEARLY_ALL
    return wrong & is_mixed


def _refuse_mistakes(mixed: list[ColumnKind], rows: polars.DataFrame, start: int | None) -> None:
    """Refuse columns of text that seem to be numbers with mistakes, all at once."""
    found = {quote(wrong.name): f"{why}: {first_cell(rows[wrong.name], wrong.is_not_null(), start)}"
             for _, why, wrong, _ in mixed[:MOST_NAMES]}  # fmt: skip
    told = "; column ".join(f"{name} {mistake}" for name, mistake in found.items())
    more = f"; and {len(mixed) - MOST_NAMES:,} more" if len(mixed) > MOST_NAMES else ""
    kinds = ", ".join(f"{name}: 'number'" for name in found)
    raise ValueError(
        f"Column {told}{more}. Correct those cells, leave them empty where the value is missing, "
        f"or say what the column is: columns={{{kinds}}} takes them as missing; 'category' and "
        "'drop' are other kinds"
    )


# --------------------------------------------------------------------------------------------------

MOST_NAMES = 30  # that a message lists; chosen by hand
NOTHING = "Not judged, for nothing is there to judge by: no score, and called an anomaly"
OTHER = "(other)"


# Columns by name, and what was seen in them; orders of dates are checked before they are used.
NAMED = (
    "number_columns", "text_columns", "truths", "units", "forgiving", "orders", "parts", "origins",
    "since", "medians", "categories", "rare", "gaps", "dropped", "kinds_dropped", "doubtful",
    "ranges", "names", "told", "commas", "points", "zones", "times",
)  # fmt: skip


@saved_as("TablePreparation", **dict.fromkeys(NAMED, (...,)), label=ANY, normal=ANY, anomaly=ANY)
@dataclass(eq=False)
class TablePreparation:
    """How the columns of a table become features: numbers first, then dates, then texts.

    `learn_preparation` makes one. A number stays as it is, without its unit; true and false become
    1 and 0. A date becomes sine and cosine of its time of day and of its day of the week, by the
    local clock: that of the time zone of the training rows, or as it is written (`zones`). A text
    becomes one feature of 0 and 1 for each of the commonest texts of its column; the others share
    one, ``column=(other)``. What is missing is NaN in all features of its column, and so is a text
    that the training did not hold: detectors fill it in, and rows are judged by what is there.

    Attributes
    ----------
    scores : bool
        Whether the columns are scores of other detectors.
    number_columns, text_columns : list of str
        The columns of numbers and of texts that are used.
    truths : list of str
        Columns of numbers that hold true and false.
    units : dict of str: str
        Columns of numbers that have a unit.
    forgiving : list of str
        Columns of numbers in which texts are missing values, as was asked.
    orders : dict of str: str
        Columns of dates and times, and how they are written.
    parts : dict of str: list of str
        What is used of these.
    origins : dict of str: float
        Days since 1970 that elapsed times are counted from.
    since : dict of str: str
        The column of dates that another one is counted from.
    medians : dict of str: float
        Of columns of numbers.
    categories, rare : dict of str: list of str
        Columns of text, the texts that have a feature of their own, and those that share one.
    gaps : dict of str: int
        Columns with missing cells, and how many.
    dropped, kinds_dropped : dict of str: str
        Columns that are not used, why, and what they were taken as.
    doubtful : list of str
        Columns of numbers that may be no more than names of the rows.
    ranges : dict of str: list of float
        Of features that are no waves and no texts, where 98 % of the training rows lie.
    names : tuple of str
        All columns of the training rows, in their order.
    commas, points : tuple of str
        Columns of texts that are numbers with decimal commas, and those with decimal points that
        Python would not read, such as 1,234.5.
    zones : dict of str: str or None
        Columns of dates and times, and the time zone whose clock counts: times of other zones are
        converted. Where it is empty, the clock of each time counts as it is written. None in files
        of former versions: texts are converted to UTC, others are as written.
    times : tuple of str
        The column that tells when rows were, which is no feature, and how its times are written.
    label : str or None
        The column of labels that came with the rows.
    normal, anomaly : str, list of str or None
        What normal rows hold there, and anomalies.
    told : tuple of str
        Sentences on the rows themselves, such as how they were drawn and labelled.
    format : TableFormat
        How files of such rows are written, as far as a user has told; for files to come.
    row_numbers : ndarray or None
        What the training rows are called in their file, where they are of one.
    """

    scores: bool = False
    number_columns: list[str] = field(default_factory=list)
    text_columns: list[str] = field(default_factory=list)
    truths: list[str] = field(default_factory=list)
    units: dict[str, str] = field(default_factory=dict)
    forgiving: list[str] = field(default_factory=list)
    orders: dict[str, str] = field(default_factory=dict)
    parts: dict[str, list[str]] = field(default_factory=dict)
    origins: dict[str, float] = field(default_factory=dict)
    since: dict[str, str] = field(default_factory=dict)
    medians: dict[str, float] = field(default_factory=dict)
    categories: dict[str, list[str]] = field(default_factory=dict)
    rare: dict[str, list[str]] = field(default_factory=dict)
    gaps: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    kinds_dropped: dict[str, str] = field(default_factory=dict)
    doubtful: list[str] = field(default_factory=list)
    ranges: dict[str, list[float]] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    commas: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    zones: dict[str, str] | None = None
    times: tuple[str, ...] = ()
    label: str | None = None
    normal: Any = None
    anomaly: Any = None
    told: tuple[str, ...] = ()
    format: TableFormat = OPEN
    row_numbers: Host | None = None

    @property
    def columns(self) -> list[str]:
        """The columns that are used."""
        return [*self.number_columns, *self.orders, *self.text_columns]

    @property
    def features(self) -> list[tuple[str, str]]:
        """Of each feature the column that it is made of, and what it is called."""
        found = [(name, name) for name in self.number_columns]
        for name, parts in self.parts.items():
            found += [(name, part) for part in names_of_parts(name, parts, self.since.get(name))]
        for name, texts in self.categories.items():
            others = [OTHER] if self.rare[name] else []
            found += [(name, f"{name}={text}") for text in [*texts, *others]]
        return found

    @property
    def feature_names(self) -> list[str]:
        """What the features are called."""
        return [feature for _, feature in self.features]

    @property
    def is_plain(self) -> bool:
        """Whether the features are the columns themselves: numbers, all of them used."""
        return list(self.names) == self.number_columns

    @property
    def groups(self) -> dict[str, list[int]]:
        """Positions of the features that are made of each column."""
        found: dict[str, list[int]] = {name: [] for name in self.columns}
        for place, (name, _) in enumerate(self.features):
            found[name].append(place)
        return found

    @property
    def lasting(self) -> list[int]:
        """Positions of the features that say what a row is like, and not when it was."""
        groups = self.groups
        return [place for name in self.columns if name not in self.orders for place in groups[name]]

    def labels(self, frame: polars.DataFrame, is_later: IsLater = True) -> Host | None:
        """Return +1 normal, −1 anomaly, 0 unlabelled; None where there is no column of labels."""
        if self.label is None or self.label not in frame.columns:
            return None
        words = {"normal": self.normal, "anomaly": self.anomaly}
        return labels_of(frame[self.label], **words, is_later=is_later).values

    def table(self, X: Any, estimator: Any) -> Host:
        """Return the features of rows: of a data frame, or an array that holds them already.

        Parameters
        ----------
        X : data frame or array-like of n rows
            A frame with the columns of the training, and perhaps others. Where these are all
            numbers, they must stand in their order, as scikit-learn has it.
        estimator : estimator
            What was fitted to the training rows.
        """
        frame, d = to_known_frame(X), len(self.features)
        if is_frame(frame):
            rows = as_polars(frame)
            if self.is_plain and [n for n in rows.columns if n in self.names] != [*self.names]:
                check_columns(frame, estimator)
            X = self.rows_of(rows)
            for found in range_figures(self, count_outside(self, rows, X)):
                new, few = found.get("unknown", 0), FAR * (found["column"] in self.categories)
                if share_interval(new, found["rows"])[0] > few:  # of units, any
                    warn_user(_sentence(found))
            return X
        if self.is_plain:
            return np.asarray(check_table(X, estimator=estimator), dtype=np.float64)
        table: Host = check_table(X)
        if table.shape[1] != d:
            raise ValueError(
                f"The detector was fitted to a data frame with the columns {quoted(self.names)}. "
                f"Expected such a frame, or its {d} features, got an array of {table.shape[1]} "
                "columns. Pass a data frame."
            )
        return table

    def rows_of(self, X: Any) -> Host:
        """Return the features of rows of a data frame of any maker, see `numbers`.

        Parameters
        ----------
        X : data frame of n rows
            Of pandas, polars, narwhals or Arrow, with the columns of the training in any order, and
            perhaps others.
        """
        frame = as_polars(X)
        self.check(frame.columns)
        return self.numbers(frame)

    @property
    def kinds(self) -> dict[str, str]:
        """What each column was taken as, in a word or two."""
        found = dict.fromkeys(self.number_columns, "score" if self.scores else "number")
        found |= {name: f"number in {unit}" for name, unit in self.units.items()}
        found |= dict.fromkeys(self.truths, "true or false")
        found |= {name: ELAPSED if ELAPSED in self.parts[name] else "date" for name in self.orders}
        return found | dict.fromkeys(self.text_columns, "category") | self.kinds_dropped

    def check(self, columns: Iterable[str]) -> list[str]:
        """Refuse a table that lacks columns; return those that the model does not know.

        Parameters
        ----------
        columns : iterable of str
            The columns of the table, in any order.
        """
        there = list(columns)
        missing = [name for name in self.columns if name not in there]
        if missing:
            unknown = [name for name in there if name not in self.columns]
            meant = did_you_mean(missing[0], unknown)
            raise ValueError(
                f"The data lack {counted(len(missing), 'column')} that the model was trained on: "
                f"{quoted(missing)}.{meant and f'{meant} Then rename it.'} Add columns that are "
                "not there, or fit a model without them."
            )
        return [name for name in there if name not in {*self.columns, *self.kinds_dropped}]

    def numbers(self, frame: polars.DataFrame, start: int | None = None) -> Host:
        """Return the features of rows.

        Parameters
        ----------
        frame : polars.DataFrame
            With the columns that were learnt, in any order, and perhaps others.
        start : int, optional
            Rows before these in their file, for messages.

        Returns
        -------
        ndarray of shape (n, d)
            One column for each of `feature_names`; NaN where nothing is known.
        """
        cells = self.cells(frame, start)
        blocks = [cells[name].to_numpy().reshape(-1, 1) for name in self.number_columns]
        for name, parts in self.parts.items():
            origin: Any = self.origins.get(name, 0.0)
            if SINCE in parts:
                origin = days_of(cells[self.since[name]])
            blocks.append(features_of_moments(cells[name], parts, origin))
        blocks += [
            one_hot(cells[name], self.categories[name], self.rare[name])
            for name in self.text_columns
        ]
        return np.hstack(blocks).astype(np.float64)

    def cells(self, frame: polars.DataFrame, start: int | None = None) -> polars.DataFrame:
        """Convert the columns in use: numbers, NaN where missing; dates and texts, null there.

        Parameters
        ----------
        frame, start
            As in `numbers`.
        """
        found: dict[str, Any] = {name: self._texts(frame[name]) for name in self.text_columns}
        mistakes = []
        for name in [*self.number_columns, *self.orders]:
            try:
                if name in self.orders:
                    found[name] = moments_of(frame[name], *self._clock(name), start)
                else:
                    found[name] = numbers_of(frame[name], start, *self._reading(name))
            except ValueError as error:
                mistakes.append(str(error))
        if mistakes:
            raise ValueError(" ".join(mistakes[:MOST_NAMES]))
        return polars_module().DataFrame(found)

    def _sign(self, name: str) -> str | None:
        """Return the decimal sign of texts that Python would not read as numbers; else None."""
        is_lenient = name in self.points or (name in self.forgiving and name not in self.units)
        return "," if name in self.commas else "." if is_lenient else None

    def _spelt(self, column: polars.Series) -> polars.Series:
        """Return texts with numbers as Python writes them."""
        return plain_numbers(texts_of(column), self._sign(column.name))

    def _texts(self, column: polars.Series) -> polars.Series:
        """Return texts, null where one says that there is none and the training did not hold it."""
        texts, known = self._spelt(column), [*self.categories[column.name], *self.rare[column.name]]
        return texts.set(says_missing(texts, of_texts=True) & ~texts.is_in(known), None)

    def _reading(self, name: str) -> tuple[bool, str | None, bool, str | None]:
        """How the numbers of a column are written, for `read_numbers`."""
        return name in self.truths, self.units.get(name), name in self.forgiving, self._sign(name)

    def _clock(self, name: str) -> tuple[str, str | None]:
        """How the dates of a column are written, and the zone whose clock counts."""
        return self.orders[name], (self.zones or {}).get(name)

    def wrong_cells(self, frame: polars.DataFrame) -> dict[str, polars.Series]:
        """Of columns that `numbers` would refuse, which rows hold no number or date there.

        Parameters
        ----------
        frame : polars.DataFrame
            As in `numbers`.
        """
        wrong = {}
        for name in [*self.number_columns, *self.orders]:
            try:
                if name in self.orders:
                    here = read_moments(frame[name], *self._clock(name))[1]
                else:
                    here = read_numbers(frame[name], *self._reading(name))[2]
            except ValueError:  # a type that holds no numbers at all
                here = frame[name].is_not_null()
            if here.any():
                wrong[name] = here
        return wrong

    def all_missing(self, frame: polars.DataFrame) -> polars.Series:
        """Which rows, as in `numbers`, hold no value in any column: nothing to judge them by."""
        pl, cells = polars_module(), self.cells(frame).fill_nan(None)
        return cells.select(pl.all_horizontal(pl.all().is_null())).to_series()

    def unknown_texts(self, frame: polars.DataFrame) -> dict[str, polars.Series]:
        """Of each column of texts, which rows hold one that was not in the training.

        Of a column of numbers in which texts are missing: which hold a number in another unit.

        Parameters
        ----------
        frame : polars.DataFrame
            As in `numbers`.
        """
        found = {
            name: self._texts(frame[name]).is_in([*self.categories[name], *self.rare[name]]).not_()
            for name in self.text_columns
        }
        for name in (name for name in self.forgiving if is_text(frame[name])):
            numbers, units = without_unit(self._spelt(frame[name]))
            found[name] = numbers.is_not_null() & ~units.is_in(["", self.units.get(name, "")])
        return found

    def new_in(self, frame: polars.DataFrame) -> Counter[str]:
        """Count, in words, what rows hold that the training rows did not.

        Parameters
        ----------
        frame : polars.DataFrame
            As in `numbers`.
        """
        found = Counter({NOTHING: int(self.all_missing(frame).sum())})
        unknown, cells = self.unknown_texts(frame), self.cells(frame).fill_nan(None)
        for name in self.columns:
            missing = 0 if name in self.gaps else cells[name].null_count()
            found[f"Missing, as it never was in training: {quote(name)}"] += missing
            if name in unknown:
                told = f"New, a text that was not in training, and taken as missing: {quote(name)}"
                found[told] += int(unknown[name].sum())
        return +found  # without those that did not occur

    @property
    def notes(self) -> list[str]:
        """What was taken as what, in sentences."""
        found = list(self.told)
        if self.number_columns:
            what = "Scores" if self.scores else "Numbers"
            names = [quote(n) + (f" ({self.units[n]})" if n in self.units else "")
                     for n in self.number_columns]  # fmt: skip
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            found.append(f"{what}: {', '.join(names[:MOST_NAMES])}{more}.")
        if self.orders:
            named = ", ".join(f"{quote(name)} ({self._parts(name)})" for name in self.orders)
            found.append(f"Dates: {named}.")
        if self.text_columns:
            kinds = ", ".join(f"{quote(name)} ({self._kinds(name)})" for name in self.text_columns)
            found.append(f"Categories, a feature for each: {kinds}.")
        rest = "the others decide on these" if self.scores else "the other columns decide"
        found += [f"Missing: {quote(name)} in {counted(rows, 'row')}; {rest}."
                  for name, rows in self.gaps.items()]  # fmt: skip
        found += [f"Dropped: {quote(name)}, {why}." for name, why in self.dropped.items()]
        found += [
            f"Doubtful: {quote(name)} holds another whole number in every row. If it only names "
            f"the rows, leave it out: columns={{{quote(name)}: 'drop'}}"
            for name in self.doubtful
        ]
        return found

    def _parts(self, name: str) -> str:
        first = quote(self.since[name]) if name in self.since else "the first"
        days = (f"days since {first}" if p in (ELAPSED, SINCE) else p for p in self.parts[name])
        return ", ".join(days) or "others are counted from it"

    def _kinds(self, name: str) -> str:
        rest = f", {len(self.rare[name]):,} rarer as one" if self.rare[name] else ""
        return counted(len(self.categories[name]), "text") + rest


def one_hot(texts: polars.Series, known: list[str], rare: list[str]) -> Host:
    """Encode texts as a column of 0 and 1 each, and one for all rare ones, if any.

    Parameters
    ----------
    texts : polars.Series of n texts
        NaN in all columns where one is missing, or neither known nor rare.
    known, rare : list of str
        No text is in both.

    Examples
    --------
    >>> import polars as pl
    >>> one_hot(pl.Series(["a", "z", "c"]), ["a", "b"], ["c"])
    array([[ 1.,  0.,  0.],
           [nan, nan, nan],
           [ 0.,  0.,  1.]])
    """
    pl = polars_module()
    places = dict(zip(known, range(len(known)), strict=True)) | dict.fromkeys(rare, len(known))
    codes = texts.replace_strict(places, default=None, return_dtype=pl.Int64).fill_null(-1)
    found = np.equal.outer(codes.to_numpy(), np.arange(len(known) + bool(rare))).astype(np.float64)
    found[codes.to_numpy() < 0] = np.nan
    return found


# ------------------------------------------------------------------------------------- learning it


def learn_preparation(
    frame: polars.DataFrame,
    *,
    features: Sequence[str] = (),
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    scores: bool = False,
    start: int | None = None,
    decimal: str | None = None,
) -> TablePreparation:
    """Settle what each column is, and learn how it becomes features.

    Parameters
    ----------
    frame : polars.DataFrame
        The rows to learn from, without their label. Texts that all are numbers count as such.
    features : sequence of str, default=()
        The columns to use, even if they look like row numbers; none: all that are of use.
    drop : sequence of str, default=()
        Columns to leave out.
    categories : sequence of str, default=()
        Columns whose numbers are names of something.
    kinds : mapping of str: str, optional
        What columns are, where that should not be found by looking at them: "number" (texts that
        are none are missing), "category", "date", "elapsed" (days since the first), or "id",
        "text" and "drop", which are left out.
    scores : bool, default=False
        Whether the columns are scores: no texts and no dates.
    start : int, optional
        Rows before these in their file, for messages; by default the rows are of no file.
    decimal : {".", ","}, optional
        The decimal sign of texts; by default that of each column is found by looking at it.

    Returns
    -------
    TablePreparation
        With at least one feature.

    Examples
    --------
    >>> import polars as pl
    >>> from lpfuse.frames import learn_preparation
    >>> frame = pl.DataFrame(
    ...     {
    ...         "site": ["north"] * 12,
    ...         "kind": ["a", "b"] * 6,
    ...         "bar": ["2.5 bar", None, "2.7 bar"] * 4,
    ...     }
    ... )
    >>> preparation = learn_preparation(frame)
    >>> preparation.feature_names
    ['bar', 'kind=a', 'kind=b']
    >>> preparation.kinds
    {'bar': 'number in bar', 'kind': 'category', 'site': 'constant'}
    >>> preparation.numbers(pl.DataFrame({"kind": ["b", "z"], "bar": [None, "9 bar"]}))
    array([[nan,  0.,  1.],
           [ 9., nan, nan]])
    """
    names = frame.columns
    features, drop = check_names(features, names), check_names(drop, names)
    categories, given = check_names(categories, names), check_kinds(kinds or {}, names)
    signs = {name: decimal or sign for name, sign in decimal_signs(frame).items()}
    whole = [n for n, sign in signs.items() if not sign and has_grouping_points(frame[n])]
    commas = tuple(name for name, sign in signs.items() if sign == "," or name in whole)
    made = TablePreparation(scores=scores, names=tuple(names), commas=commas, points=tuple(signs))
    written, frame = frame, frame.with_columns(made._spelt(frame[name]) for name in signs)
    made.points = tuple(n for n in signs if n not in commas and (frame[n] != written[n]).any())
    told = dict.fromkeys(categories, "category") | dict.fromkeys(drop, "drop") | given
    kept, words, limits = [], [], []
    for column in frame:
        name = column.name
        if features and name not in features and name not in given and name not in drop:
            taken = ColumnKind("unused", "not among the features asked for", column)
        elif name in told:
            taken = kind_as_given(column, told[name], start)
        else:
            taken = infer_kind(column, asked_for=name in features, scores=scores)
        _record_kind(made, taken, cycles=1 if name in told else CYCLES)
        kept.append(taken)
        if is_text(written[name]) and not taken.why:
            missing = taken.column.is_null()
            words += _count_cells(written[name], missing)
            if taken.kind == "number":
                limits += _count_cells(written[name], ~missing, LIMIT)
    if mixed := [taken for taken in kept if taken.kind == MIXED]:
        _refuse_mistakes(mixed, written, start)
    made.told = (f"Taken as missing: {', '.join(words[:MOST_NAMES])}.",) if words else ()
    made.told += (f"Read as their limit: {', '.join(limits[:MOST_NAMES])}.",) if limits else ()
    if whole := [name for name in whole if name in made.number_columns]:
        what = "If they stand before decimals, convert these columns to numbers first."
        made.told += (f"Points between thousands: {quoted(whole)}. {what}",)
    made.zones = {name: zone_of(frame[name]) for name in made.orders}
    frame = frame.with_columns(taken.column for taken in kept if taken.kind == "category")
    _count_from_first_date(made)
    if not made.columns:
        reasons = "; ".join(f"{quote(name)}: {why}" for name, why in made.dropped.items())
        reasons = "nothing varies in a single row: pass more" if frame.height == 1 else reasons
        raise ValueError(f"No column is left to learn from ({reasons or 'there was none'}).")
    unasked = [] if scores else [n for n in made.number_columns if n not in {*features, *told}]
    made.doubtful = [name for name in unasked if all_differ(parse_column(frame[name]))]
    made.forgiving = [name for name in made.number_columns if told.get(name) == "number"]
    _learn_values(made, frame, start)
    return made


def _count_cells(texts: polars.Series, where: polars.Series, pattern: str = "") -> list[str]:
    """List some cells of a column of texts, and in how many rows each is."""
    cells = texts_of(texts.filter(where)).drop_nulls().str.strip_chars()
    counts = Counter(filter(None, cells.filter(cells.str.contains(pattern)).to_list()))
    return [f"{quote(word)} in {quote(texts.name)} ({counted(rows, 'row')})"
            for word, rows in counts.most_common()]  # fmt: skip


def _record_kind(made: TablePreparation, taken: ColumnKind, cycles: int) -> None:
    """Write down what a column is."""
    name, column = taken.column.name, taken.column
    if taken.why:
        made.dropped[name], made.kinds_dropped[name] = taken.why, taken.kind
        return
    if column.null_count():
        made.gaps[name] = column.null_count()
    if taken.kind == "category":
        made.text_columns.append(name)
    elif taken.kind == "number":
        made.number_columns.append(name)
        made.truths += [name] if column.dtype == polars_module().Boolean else []
        made.units |= {name: taken.detail} if taken.detail else {}
    else:
        made.orders[name] = taken.detail
        made.parts[name] = parts_of(column, taken.detail, cycles)
        if taken.kind == ELAPSED:
            made.parts[name].append(ELAPSED)
            made.origins[name] = float(np.nanmin(days_of(column)))


def _count_from_first_date(made: TablePreparation) -> None:
    """With several dates a row: the days between the first column of them and each other one."""
    dates = [name for name, order in made.orders.items() if order != NO_DATE]
    for name in dates[1:]:
        made.parts[name].append(SINCE)
        made.since[name] = dates[0]
    for name in [name for name, parts in made.parts.items() if not parts]:
        if name in made.since.values():
            continue
        del made.orders[name], made.parts[name]
        made.gaps.pop(name, None)
        made.kinds_dropped[name] = "date"
        made.dropped[name] = (
            "nothing recurs in its dates: a time of day must vary over "
            f"{CYCLES} days at least, a day of the week over {CYCLES} weeks (if what counts is how "
            f"long ago it was, say columns={{{quote(name)}: 'elapsed'}})"
        )


def _learn_values(made: TablePreparation, frame: polars.DataFrame, start: int | None) -> None:
    """Medians and gaps of numbers, and the texts of categories."""
    pl = polars_module()
    for name in made.text_columns:
        counts = texts_of(frame[name]).drop_nulls().rename("text").value_counts(name="rows")
        counts = counts.sort(["rows", "text"], descending=[True, False])
        common = counts.filter(pl.col("rows") >= FEWEST_ROWS).head(MOST_CATEGORIES)["text"]
        made.categories[name] = sorted(common.to_list())
        made.rare[name] = sorted(set(counts["text"].to_list()) - {*made.categories[name]})
    if made.number_columns:
        values = made.cells(frame, start).select(made.number_columns).fill_nan(None)
        made.medians = {column.name: float(column.median()) for column in values}  # type: ignore[arg-type]
        made.gaps |= {column.name: gaps for column in values if (gaps := column.null_count())}


def prepare_frame(X: Any, columns: Any) -> tuple[Any, TablePreparation | None]:
    """Return rows as detectors take them, and how they were made of the columns of a data frame.

    Parameters
    ----------
    X : array-like or data frame
        The user's rows. Arrays stay as they are, and so do frames of numbers without polars.
    columns : mapping of str: str, TablePreparation, "as-is" or None
        What columns are, where looking at them would not tell; a preparation that was learnt from
        these rows; or "as-is", for detectors that take the frame itself.
    """
    if isinstance(columns, str):
        check_choice("columns", columns, ("as-is",))
    frame = to_known_frame(X)
    if isinstance(columns, str) or not is_frame(frame):
        return X, None
    all_numbers = all(getattr(kind, "kind", "O") in "biuf" for kind in frame.dtypes)
    if find_spec("polars") is None and not columns and all_numbers:
        return X, None
    table = as_polars(frame)
    if 0 in table.shape:
        raise ValueError(FEATURES.too_small(f"{table.shape}"))
    is_made = isinstance(columns, TablePreparation)
    made = columns if is_made else learn_preparation(table, kinds=columns)
    return made.rows_of(table), made


def take_time(X: Any, time: str) -> tuple[Any, Any]:
    """Take the column of times out of a data frame, and read it.

    Parameters
    ----------
    X : array-like or data frame
        The user's rows.
    time : str
        The name of the column.

    Returns
    -------
    X, time
        The other columns, and the times in seconds.
    """
    frame = to_known_frame(X)
    if not is_frame(frame) or time not in frame.columns:
        there = f" Its columns are {quoted(list(frame.columns))}." if is_frame(frame) else ""
        raise ValueError(
            f"time={quote(time)} names no column of X.{there} Pass the name of the column of "
            "times of a data frame, or the times themselves, one a row."
        )
    rest = frame.drop(columns=[time]) if hasattr(frame, "iloc") else frame.drop(time)
    column = as_polars(frame)[time]
    order = order_of(column) if is_text(column) else None
    if order is not None:
        return rest, 86_400 * days_of(read_moments(column, order)[0])
    return rest, column.to_numpy()


# ------------------------------------------------------------------------------------------ ranges

TAIL = 0.01  # of the training rows on either side of the range: single outliers have no say
# Share of rows outside, surely exceeded, from where on a column is said to have left its range: ten
# times that of training rows. Batches that hold a tenth of anomalies stay below it.
FAR = 0.2


def learn_ranges(preparation: TablePreparation, X: Host) -> None:
    """Keep where numbers lie.

    Parameters
    ----------
    preparation : TablePreparation
        Gets `ranges`.
    X : ndarray of shape (n, d)
        Its features of normal rows.
    """
    names, waves = preparation.feature_names, (" (sin)", " (cos)")
    texts = sum(len(preparation.groups[name]) for name in preparation.text_columns)
    for j, name in enumerate(names[: len(names) - texts]):
        column = X[:, j][~np.isnan(X[:, j])]
        is_wave = j >= len(preparation.number_columns) and name.endswith(waves)
        if len(column) and not is_wave:
            ends = np.quantile(column, [TAIL, 1 - TAIL], method="inverted_cdf")
            preparation.ranges[name] = [float(end) for end in ends]


@dataclass
class RangeCounts:
    """Rows below and above the range of a feature; counts of two batches can be added.

    Attributes
    ----------
    rows : Counter of str
        Rows that have the value.
    below, above, unknown : Counter of str
        Rows outside, and those with a text that was not in the training, by column.
    powers : Counter of (str, int)
        By which power of ten those outside differ from the middle of the range.
    """

    rows: Counter[str] = field(default_factory=Counter)
    below: Counter[str] = field(default_factory=Counter)
    above: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    powers: Counter[tuple[str, int]] = field(default_factory=Counter)

    def __add__(self, other: RangeCounts) -> RangeCounts:
        return RangeCounts(**{name: each + vars(other)[name] for name, each in vars(self).items()})


def count_outside(preparation: TablePreparation, frame: polars.DataFrame, X: Host) -> RangeCounts:
    """Count what is outside of the ranges of the training.

    Parameters
    ----------
    preparation : TablePreparation
        With ranges.
    frame, X : polars.DataFrame, ndarray of shape (n, d)
        Rows, and their features.
    """
    found = RangeCounts()
    places = {name: j for j, name in enumerate(preparation.feature_names)}
    for name, (low, high) in preparation.ranges.items():
        column = X[:, places[name]]
        column = column[~np.isnan(column)]
        found.rows[name] = len(column)
        found.below[name], found.above[name] = int((column < low).sum()), int((column > high).sum())
        middle = (low + high) / 2
        outside = column[((column < low) | (column > high)) & (column != 0)]
        if middle and len(outside):
            powers = np.rint(np.log10(np.abs(outside / middle))).astype(int)
            for power, times in zip(*np.unique(powers, return_counts=True), strict=True):
                found.powers[name, int(power)] = int(times)
    for name, new in preparation.unknown_texts(frame).items():
        found.rows[name] = frame[name].len() - frame[name].null_count()
        found.unknown[name] = int(new.sum())
    return found


def range_figures(preparation: TablePreparation, counts: RangeCounts) -> list[dict[str, Any]]:
    """List the columns that left their range, the largest share of rows first.

    Parameters
    ----------
    preparation, counts : TablePreparation, RangeCounts
        Of a model, and of rows.

    Returns
    -------
    list of dict
        ``column``; ``rows`` that have a value; of numbers ``low`` and ``high``, between which 98 %
        of the training rows lie, how many rows are ``below`` and ``above``, and ``factor``, the
        power of ten by which most of them differ (None: none); of texts how many are ``unknown``;
        and the ``share`` of all of these.
    """
    found = []
    for name, rows in counts.rows.items():
        below, above, unknown = counts.below[name], counts.above[name], counts.unknown[name]
        outside = below + above + unknown
        if not outside or (not unknown and share_interval(outside, rows)[0] <= FAR):
            continue
        figures: dict[str, Any] = {"column": name, "rows": rows, "share": outside / rows}
        if unknown:
            found.append(figures | {"unknown": unknown})
            continue
        low, high = preparation.ranges[name]
        powers = {power: n for (of, power), n in counts.powers.items() if of == name and power}
        most = max(powers, key=lambda power: powers[power], default=None)
        factor = 10.0**most if most is not None and powers[most] > 0.5 * outside else None
        ends = {"low": low, "high": high, "below": below, "above": above, "factor": factor}
        found.append(figures | ends)
    return sorted(found, key=lambda each: -each["share"])


def describe_ranges(figures: list[dict[str, Any]]) -> list[str]:
    """Describe what `range_figures` found, a sentence for each column."""
    return [_sentence(each) for each in figures]


def _sentence(figures: dict[str, Any]) -> str:
    name, share = quote(figures["column"]), per_cent(figures["share"])
    if "unknown" in figures:
        return (
            f"{name} holds texts or units that the training did not in "
            f"{counted(figures['unknown'], 'row')} ({share} of those with a value): these were "
            "judged by the other columns. Has its spelling or its unit changed?"
        )
    sides = [f"{side} it in {counted(figures[side], 'row')}"
             for side in ("below", "above") if figures[side]]  # fmt: skip
    told = (
        f"{name} left the range of the training, {figures['low']:.4g} to {figures['high']:.4g}: "
        f"{' and '.join(sides)} ({share})"
    )
    if figures["factor"]:
        factor = figures["factor"]
        times = f"{factor:,.0f} times" if factor > 1 else f"1/{1 / factor:,.0f} of"
        return f"{told}, by about {times} what it was. Has its unit changed?"
    return f"{told}. Alarms of these rows may be about that column alone."


def column_changes(
    preparation: TablePreparation, frame: polars.DataFrame, X: Host | None = None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Which columns of a table left the range of the training: figures, and sentences.

    Parameters
    ----------
    preparation : TablePreparation
        ``preparation_`` of a fitted detector.
    frame : polars.DataFrame
        Rows.
    X : ndarray of shape (n, d), optional
        Their features, if they are known already.

    Returns
    -------
    figures, sentences : list of dict, list of str
        See `range_figures`.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from lpfuse import FusedDetector
    >>> from lpfuse.frames import column_changes
    >>> rng = np.random.default_rng(0)
    >>> rows = pl.DataFrame({"bar": rng.normal(2.5, 0.1, 200), "flow": rng.normal(7.0, 1.0, 200)})
    >>> fused = FusedDetector(["gmm"], random_state=0).fit(rows)
    >>> _, told = column_changes(fused.preparation_, rows.with_columns(pl.col("bar") * 1000))
    >>> print(*told)
    'bar' left the range of the training, 2.263 to 2.682: above it in 200 rows (100 %), by about
    1,000 times what it was. Has its unit changed?
    """
    X = preparation.numbers(frame) if X is None else X
    figures = range_figures(preparation, count_outside(preparation, frame, X))
    return figures, describe_ranges(figures)
