"""TablePreparation: the columns of any table as the features that a model was fitted to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._format import quote
from lpfuse._saved import saved_as
from lpfuse._validation.params import counted, did_you_mean, quoted
from lpfuse.tables._cells import numbers_of, read_numbers, texts_of
from lpfuse.tables._moments import (
    ELAPSED,
    SINCE,
    days_of,
    features_of_moments,
    moments_of,
    names_of_parts,
    read_moments,
)
from lpfuse.tables._polars import polars_module

if TYPE_CHECKING:
    import polars

MOST_NAMES = 30  # that a message lists; chosen by hand
NOTHING = "Not judged, for nothing is there to judge by: no score, and called an anomaly"
OTHER = "(other)"


# Columns by name, and what was seen in them; orders of dates are checked before they are used.
NAMED = (
    "number_columns", "text_columns", "truths", "units", "forgiving", "orders", "parts", "origins",
    "since", "medians", "categories", "rare", "gaps", "dropped", "kinds_dropped", "doubtful",
    "ranges",
)  # fmt: skip


@saved_as("TablePreparation", **dict.fromkeys(NAMED, (...,)))
@dataclass(eq=False)
class TablePreparation:
    """How the columns of a table become features: numbers first, then dates, then texts.

    `learn_preparation` makes one. A number stays as it is, without its unit; true and false become
    1 and 0. A date becomes sine and cosine of its time of day and of its day of the week. A text
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

    @property
    def columns(self) -> list[str]:
        """The columns that are used."""
        return [*self.number_columns, *self.orders, *self.text_columns]

    @property
    def others(self) -> list[str]:
        """Columns of text whose rarer ones share a feature."""
        return [name for name in self.text_columns if self.rare[name]]

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
            raise ValueError(
                f"The data lack {counted(len(missing), 'column')} that the model was trained on: "
                f"{quoted(missing)}.{did_you_mean(missing[0], unknown)} Add them, or fit a model "
                "without them."
            )
        return [name for name in there if name not in {*self.columns, *self.dropped}]

    def numbers(self, frame: polars.DataFrame, start: int = 0) -> Host:
        """The features of rows.

        Parameters
        ----------
        frame : polars.DataFrame
            With the columns that were learnt, in any order, and perhaps others.
        start : int, default=0
            Rows before these, for messages.

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

    def cells(self, frame: polars.DataFrame, start: int = 0) -> polars.DataFrame:
        """The columns that are used: numbers, NaN where missing, moments and texts, null there.

        Parameters
        ----------
        frame, start
            As in `numbers`.
        """
        found: dict[str, Any] = {
            name: numbers_of(frame[name], start, *self._reading(name))
            for name in self.number_columns
        }
        found |= {n: moments_of(frame[n], order, start) for n, order in self.orders.items()}
        found |= {name: texts_of(frame[name]) for name in self.text_columns}
        return polars_module().DataFrame(found)

    def _reading(self, name: str) -> tuple[bool, str | None, bool]:
        """How the numbers of a column are written: `truths`, `unit` and `forgiving`."""
        return name in self.truths, self.units.get(name), name in self.forgiving

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
                    here = read_moments(frame[name], self.orders[name])[1]
                else:
                    here = read_numbers(frame[name], *self._reading(name))[2]
            except ValueError:  # a type that holds no numbers at all
                here = frame[name].is_not_null()
            if here.any():
                wrong[name] = here
        return wrong

    def example(self) -> polars.DataFrame:
        """A row such as could occur, to try things out."""
        pl = polars_module()
        numbers = {name: [np.nan_to_num(median)] for name, median in self.medians.items()}
        moments = {name: pl.Series([0]).cast(pl.Datetime("us")) for name in self.orders}
        texts = {name: kinds[:1] for name, kinds in self.categories.items()}
        return pl.DataFrame({**numbers, **moments, **texts})

    def all_missing(self, frame: polars.DataFrame) -> polars.Series:
        """Which rows, as in `numbers`, hold no value in any column: nothing to judge them by."""
        pl = polars_module()
        used = frame.select(self.columns)
        numbers = pl.selectors.float().fill_nan(None)
        return used.with_columns(numbers).select(pl.all_horizontal(pl.all().is_null())).to_series()

    def unknown_texts(self, frame: polars.DataFrame) -> dict[str, polars.Series]:
        """Of each column of texts, which rows hold one that was not in the training.

        Parameters
        ----------
        frame : polars.DataFrame
            As in `numbers`.
        """
        return {
            name: texts_of(frame[name]).is_in([*self.categories[name], *self.rare[name]]).not_()
            for name in self.text_columns
        }

    def new_in(self, frame: polars.DataFrame) -> Counter[str]:
        """What rows hold that the table learnt from did not, in words, and in how many rows.

        Parameters
        ----------
        frame : polars.DataFrame
            As in `numbers`.
        """
        found = Counter({NOTHING: int(self.all_missing(frame).sum())})
        unknown = self.unknown_texts(frame)
        for name in self.columns:
            column = frame[name].fill_nan(None) if frame[name].dtype.is_float() else frame[name]
            missing = 0 if name in self.gaps else column.null_count()
            found[f"Missing, as it never was in training: {quote(name)}"] += missing
            if name in unknown:
                told = f"New, a text that was not in training, and taken as missing: {quote(name)}"
                found[told] += int(unknown[name].sum())
        return +found  # without those that did not occur

    @property
    def notes(self) -> list[str]:
        """What was taken as what, in sentences."""
        found = []
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
        found += [self._gap_note(name) for name in self.gaps]
        found += [f"Dropped: {quote(name)}, {why}." for name, why in self.dropped.items()]
        found += [
            f"Doubtful: {quote(name)} holds another whole number in every row. If it only names "
            f"the rows, leave it out: drop=[{quote(name)}]"
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

    def _gap_note(self, name: str) -> str:
        note = f"Missing: {quote(name)} in {counted(self.gaps[name], 'row')}; "
        return note + (
            "the others decide on these." if self.scores else "the other columns decide."
        )


def one_hot(texts: polars.Series, known: list[str], rare: list[str]) -> Host:
    """A column of 0 and 1 for each known text, and one for the rare ones together, if any.

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
