"""Columns of a table as numbers: what is taken as what, learnt from one table, kept for others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import TYPE_CHECKING

import numpy as np

from lpfuse._arrays import Host
from lpfuse._checks.messages import did_you_mean, quoted
from lpfuse._saved import saved_as
from lpfuse.tables._columns import (
    all_differ,
    common_texts,
    counted,
    is_number,
    names_rows,
    numbers_of,
    refuse_numbers_among,
    settled,
    texts_of,
    useless,
)
from lpfuse.tables._files import polars_module

if TYPE_CHECKING:
    import polars

MOST_NAMES = 30  # that a message lists


@saved_as("TablePreparation")
@dataclass(eq=False)
class TablePreparation:
    """How the columns of a table become features: numbers first, then texts.

    A number stays as it is, true and false become 1 and 0. A missing one becomes the median, and
    where cells were missing in the table that was learnt from, a second feature says so. A text
    becomes one feature of 0 and 1 for each text of its column; those of fewer than 5 rows, and
    those beyond the 100 commonest, share one, ``column=(other)``. A text that is new goes there
    too; where there is no such feature, it is 0 in all of them. So is a missing one, beside a
    feature that says so.

    Attributes
    ----------
    medians : dict of str: float
        Columns of numbers, and what a missing one becomes; NaN: it stays missing.
    truths : list of str
        Those of them that hold true and false.
    categories : dict of str: list of str
        Columns of text, and the texts that have a feature of their own.
    others : list of str
        Columns of text whose rarer ones share a feature.
    gaps : dict of str: int
        Columns with missing cells, and how many.
    dropped : dict of str: str
        Columns that are not used, and why.
    doubtful : list of str
        Columns of numbers that may be no more than names of the rows.

    Examples
    --------
    >>> import polars as pl
    >>> from lpfuse.tables import TablePreparation
    >>> frame = pl.DataFrame(
    ...     {"site": ["north"] * 12, "kind": ["a", "b"] * 6, "bar": [2.5, None, 2.7] * 4}
    ... )
    >>> preparation = TablePreparation.learn(frame)
    >>> preparation.feature_names
    ['bar', 'bar is missing', 'kind=a', 'kind=b']
    >>> preparation.dropped
    {'site': "it holds 'north' in every row"}
    >>> preparation.numbers(pl.DataFrame({"kind": ["b", "z"], "bar": [None, 9.0]}))
    array([[2.6, 1. , 0. , 1. ],
           [9. , 0. , 0. , 0. ]])
    """

    medians: dict[str, float] = field(default_factory=dict)
    truths: list[str] = field(default_factory=list)
    categories: dict[str, list[str]] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    gaps: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    doubtful: list[str] = field(default_factory=list)

    @classmethod
    def learn(
        cls,
        frame: polars.DataFrame,
        *,
        features: Sequence[str] = (),
        drop: Sequence[str] = (),
        categories: Sequence[str] = (),
        scores: bool = False,
    ) -> TablePreparation:
        """Settle what each column is.

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
        scores : bool, default=False
            Whether the columns are scores: no texts, and what is missing stays missing.

        Returns
        -------
        TablePreparation
            With at least one feature.
        """
        made = cls()
        for column in frame:
            name = column.name
            if name in drop:
                why = "as asked"
            elif features and name not in features:
                why = "not among the features asked for"
            elif name in categories:
                column = texts_of(column)
                why = made._take_texts(column)
            else:
                column = settled(column)
                why = made._take(column, asked_for=name in features, scores=scores)
            if why:
                made.dropped[name] = why
            elif column.null_count():
                made.gaps[name] = column.null_count()
        if not made.columns:
            told = "; ".join(f"{name!r}: {why}" for name, why in made.dropped.items())
            raise ValueError(f"No column is left to learn from ({told or 'there was none'}).")
        return made

    def _take(self, column: polars.Series, *, asked_for: bool, scores: bool) -> str:
        """Use a column, or say why not."""
        if not is_number(column):
            if scores:
                return useless(column) or "it holds text, not scores"
            refuse_numbers_among(column)
            return self._take_texts(column)
        name = column.name
        why = useless(column) or ("" if asked_for else names_rows(column))
        if not why:
            numbers = numbers_of(column)
            self.medians[name] = np.nan if scores else float(np.nanmedian(numbers))
            self.truths += [name] if column.dtype == polars_module().Boolean else []
            doubtful = all_differ(column) and not asked_for and not scores
            self.doubtful += [name] if doubtful else []
        return why

    def _take_texts(self, column: polars.Series) -> str:
        why = useless(column)
        if not why:
            kept, rare, why = common_texts(texts_of(column))
        if not why:
            self.categories[column.name] = kept
            self.others += [column.name] if rare else []
        return why

    @property
    def columns(self) -> list[str]:
        """The columns that are used."""
        return [*self.medians, *self.categories]

    @property
    def feature_names(self) -> list[str]:
        """What the features are called."""
        names = []
        for column in self.columns:
            names += [column] if column in self.medians else []
            names += [f"{column}={text}" for text in self.categories.get(column, ())]
            names += [f"{column}=(other)"] if column in self.others else []
            names += [f"{column} is missing"] if self._tells_gaps(column) else []
        return names

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
            One column for each of `feature_names`.
        """
        made = [part for name in self.columns for part in self._encoded(frame[name], start)]
        return np.column_stack(made).astype(np.float64, copy=False)

    def example(self) -> polars.DataFrame:
        """A row such as could occur, to try things out."""
        numbers = {name: [np.nan_to_num(median)] for name, median in self.medians.items()}
        texts = {name: kinds[:1] for name, kinds in self.categories.items()}
        return polars_module().DataFrame({**numbers, **texts})

    def surprises(self, frame: polars.DataFrame) -> Counter[str]:
        """What rows hold that the table learnt from did not, in words, and in how many rows.

        Parameters
        ----------
        frame : polars.DataFrame
            As in `numbers`.
        """
        found: Counter[str] = Counter()
        for name in self.columns:
            missing = 0 if name in self.gaps else frame[name].null_count()
            found[f"Missing, as it never was in training: {name!r}"] += missing
            if name in self.categories and name not in self.others:
                texts = texts_of(frame[name]).drop_nulls()
                new = len(texts) - int(texts.is_in(self.categories[name]).sum())
                found[f"New, a text that was not in training: {name!r}"] += new
        return +found  # without those that did not occur

    def _encoded(self, column: polars.Series, start: int) -> list[Host]:
        name = column.name
        if name in self.medians:
            numbers = numbers_of(column, start, truths=name in self.truths)
            missing = np.isnan(numbers)
            made = [np.where(missing, self.medians[name], numbers)]
        else:
            texts = texts_of(column)
            missing = texts.is_null().to_numpy()
            made = [(texts == text).fill_null(False).to_numpy() for text in self.categories[name]]
            made += [~missing & ~np.any(made, axis=0)] if name in self.others else []
        return [*made, missing] if self._tells_gaps(name) else made

    def _tells_gaps(self, column: str) -> bool:
        return column in self.gaps and not np.isnan(self.medians.get(column, 0.0))

    @property
    def notes(self) -> list[str]:
        """What was taken as what, in sentences."""
        told = []
        if self.medians:
            what = "Scores" if all(map(np.isnan, self.medians.values())) else "Numbers"
            told.append(f"{what}: {quoted(self.medians, MOST_NAMES)}.")
        if self.categories:
            kinds = ", ".join(f"{name!r} ({self._kinds(name)})" for name in self.categories)
            told.append(f"Categories, a feature for each: {kinds}.")
        told += [self._told_gap(name) for name in self.gaps]
        told += [f"Dropped: {name!r}, {why}." for name, why in self.dropped.items()]
        told += [
            f"Doubtful: {name!r} holds another whole number in every row. If it only names "
            f"the rows, leave it out: --drop {quote(name)}"
            for name in self.doubtful
        ]
        return told

    def _kinds(self, name: str) -> str:
        rest = " and rarer ones as one" if name in self.others else ""
        return counted(len(self.categories[name]), "text") + rest

    def _told_gap(self, name: str) -> str:
        told = f"Missing: {name!r} in {counted(self.gaps[name], 'row')}"
        if not self._tells_gaps(name):
            return f"{told}; the others decide on these."
        if name in self.categories:
            return f"{told}, which has a feature of its own."
        return f"{told}; the median, {self.medians[name]:g}, stands in, and a feature says so."
