"""TablePreparation: the columns of any table as the features that a model was fitted to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._checks.messages import counted, did_you_mean, quoted
from lpfuse._format import plain, quote
from lpfuse._saved import saved_as
from lpfuse.tables._reading import polars_module

if TYPE_CHECKING:
    import polars

MOST_NAMES = 30  # that a message lists; chosen by hand
NOTHING = "Not judged, for nothing is there to judge by: no score, and called an anomaly"
VALUE, GAP = 0, 1  # kinds of features: what a cell holds, and whether it holds nothing


@saved_as(
    "TablePreparation",
    **dict.fromkeys(
        ("number_columns", "text_columns", "truths", "gaps", "dropped", "doubtful"), (...,)
    ),
)
@dataclass(eq=False)
class TablePreparation:
    """How the columns of a table become features: numbers first, then texts.

    `learn_preparation` makes one. A number stays as it is, true and false become 1 and 0. A missing
    one becomes the median, and where cells were missing in the table that was learnt from, a second
    feature says so. A text becomes one feature of 0 and 1 for each text of its column; those of
    fewer than 5 rows, and those beyond the 100 commonest, share one, ``column=(other)``. A text
    that is new goes there too; where there is no such feature, it is 0 in all of them. So is a
    missing one, beside a feature that says so.

    Attributes
    ----------
    encoder : sklearn.compose.ColumnTransformer
        The fitted transformers: `SimpleImputer` for numbers (none for scores), `OneHotEncoder` and
        `MissingIndicator` for texts.
    scores : bool
        Whether the columns are scores, which stay missing where they are.
    number_columns, text_columns : list of str
        The columns that are used.
    truths : list of str
        Columns of numbers that hold true and false.
    gaps : dict of str: int
        Columns with missing cells, and how many.
    dropped : dict of str: str
        Columns that are not used, and why.
    doubtful : list of str
        Columns of numbers that may be no more than names of the rows.
    """

    encoder: Any = None
    scores: bool = False
    number_columns: list[str] = field(default_factory=list)
    text_columns: list[str] = field(default_factory=list)
    truths: list[str] = field(default_factory=list)
    gaps: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    doubtful: list[str] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        """The columns that are used."""
        return [*self.number_columns, *self.text_columns]

    @property
    def medians(self) -> dict[str, float]:
        """Columns of numbers, and what a missing one becomes; NaN: it stays missing."""
        if self.scores:
            return dict.fromkeys(self.number_columns, np.nan)
        if not self.number_columns:
            return {}
        values = self.encoder.named_transformers_["numbers"].statistics_.tolist()
        return dict(zip(self.number_columns, values, strict=True))

    @property
    def categories(self) -> dict[str, list[str]]:
        """Columns of text, and the texts that have a feature of their own."""
        return {
            name: [text for text in texts if text not in rare]
            for name, texts, rare in self._texts()
        }

    @property
    def others(self) -> list[str]:
        """Columns of text whose rarer ones share a feature."""
        return [name for name, _, rare in self._texts() if rare]

    def _texts(self) -> list[tuple[str, list[str], set[str]]]:
        """Columns of text, all texts that were in them, and the rare ones."""
        if not self.text_columns:
            return []
        one_hot = self.encoder.named_transformers_["texts"][-1]
        rare = [set() if texts is None else set(texts) for texts in one_hot.infrequent_categories_]
        return list(zip(self.text_columns, map(list, one_hot.categories_), rare, strict=True))

    def _layout(self) -> list[tuple[int, int, str]]:
        """The outputs of the encoder: column, value or gap, name of the feature.

        The encoder puts numbers, their gaps, texts and their gaps one after the other; sorted, the
        features of a column stand together.
        """
        numbers, texts = self.number_columns, self.text_columns
        places = {name: place for place, name in enumerate(self.columns)}
        found = [(places[name], VALUE, name) for name in numbers]
        if not self.scores:
            found += [(places[n], GAP, f"{n} is missing") for n in numbers if n in self.gaps]
        others = self.others
        for name, kept in self.categories.items():
            found += [(places[name], VALUE, f"{name}={text}") for text in kept]
            found += [(places[name], VALUE, f"{name}=(other)")] if name in others else []
        return found + [(places[n], GAP, f"{n} is missing") for n in texts if n in self.gaps]

    @property
    def feature_names(self) -> list[str]:
        """What the features are called."""
        return [name for *_, name in sorted(self._layout(), key=itemgetter(0, 1))]

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
        layout, cells = self._layout(), self.cells(frame, start)
        if frame.height == 0:  # scikit-learn refuses to transform no rows
            return np.empty((0, len(layout)))
        encoded: Host = np.asarray(self.encoder.transform(cells), dtype=np.float64)
        order = sorted(range(len(layout)), key=lambda k: layout[k][:2])  # stable
        features = encoded[:, order]
        # OneHotEncoder has no code for "no category": the encoder filled in the commonest text, and
        # a missing one becomes 0 in all features of its column but the one for gaps.
        kinds = np.array([layout[k][:2] for k in order])
        for place, name in enumerate(self.text_columns, start=len(self.number_columns)):
            own = (kinds == (place, VALUE)).all(axis=1)
            features[np.ix_(cells[name].is_null().to_numpy(), own)] = 0.0
        return features

    def cells(self, frame: polars.DataFrame, start: int = 0) -> polars.DataFrame:
        """The columns that are used: numbers, NaN where missing, and texts, null where missing.

        Parameters
        ----------
        frame, start
            As in `numbers`.
        """
        pl = polars_module()
        found: dict[str, Any] = {
            name: numbers_of(frame[name], start, truths=name in self.truths)
            for name in self.number_columns
        }
        return pl.DataFrame(found | {name: texts_of(frame[name]) for name in self.text_columns})

    def example(self) -> polars.DataFrame:
        """A row such as could occur, to try things out."""
        numbers = {name: [np.nan_to_num(median)] for name, median in self.medians.items()}
        texts = {name: kinds[:1] for name, kinds in self.categories.items()}
        return polars_module().DataFrame({**numbers, **texts})

    def all_missing(self, frame: polars.DataFrame) -> polars.Series:
        """Which rows, as in `numbers`, hold no value in any column: nothing to judge them by."""
        pl = polars_module()
        used = frame.select(self.columns)
        numbers = pl.selectors.float().fill_nan(None)
        return used.with_columns(numbers).select(pl.all_horizontal(pl.all().is_null())).to_series()

    def new_in(self, frame: polars.DataFrame) -> Counter[str]:
        """What rows hold that the table learnt from did not, in words, and in how many rows.

        Parameters
        ----------
        frame : polars.DataFrame
            As in `numbers`.
        """
        found = Counter({NOTHING: int(self.all_missing(frame).sum())})
        categories, others = self.categories, self.others
        for name in self.columns:
            missing = 0 if name in self.gaps else frame[name].null_count()
            found[f"Missing, as it never was in training: {quote(name)}"] += missing
            if name in categories and name not in others:
                texts = texts_of(frame[name]).drop_nulls()
                new = len(texts) - int(texts.is_in(categories[name]).sum())
                found[f"New, a text that was not in training: {quote(name)}"] += new
        return +found  # without those that did not occur

    @property
    def notes(self) -> list[str]:
        """What was taken as what, in sentences."""
        found = []
        if self.number_columns:
            what = "Scores" if self.scores else "Numbers"
            found.append(f"{what}: {quoted(self.number_columns, MOST_NAMES)}.")
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

    def _kinds(self, name: str) -> str:
        rest = " and rarer ones as one" if name in self.others else ""
        return counted(len(self.categories[name]), "text") + rest

    def _gap_note(self, name: str) -> str:
        note = f"Missing: {quote(name)} in {counted(self.gaps[name], 'row')}"
        if self.scores:
            return f"{note}; the others decide on these."
        if name in self.text_columns:
            return f"{note}, which has a feature of its own."
        return f"{note}; the median, {self.medians[name]:g}, stands in, and a feature says so."


# ------------------------------------------------------------------------------- names and cells


def check_names(wanted: Iterable[str], columns: list[str]) -> list[str]:
    """Names of columns as users write them: one by one, or several with commas between them.

    Parameters
    ----------
    wanted : iterable of str
        What was written.
    columns : list of str
        The columns that there are.

    Examples
    --------
    >>> check_names(["bar", "kind,wet"], ["bar", "kind", "wet"])
    ['bar', 'kind', 'wet']
    >>> check_names(["baar"], ["bar", "kind", "wet"])
    Traceback (most recent call last):
    ValueError: There is no column 'baar'. Did you mean 'bar'? There are 'bar', 'kind', 'wet'.
    """
    names = []
    for text in wanted:
        parts = [text] if text in columns else [part.strip() for part in text.split(",")]
        for name in parts:
            if name not in columns:
                raise ValueError(
                    f"There is no column {quote(name)}.{did_you_mean(name, columns)} There are "
                    f"{quoted(columns, 20)}."
                )
            names.append(name)
    return names


def is_number(column: polars.Series) -> bool:
    """Whether it holds numbers, or true and false."""
    return column.dtype.is_numeric() or column.dtype == polars_module().Boolean


def is_text(column: polars.Series) -> bool:
    """Whether it holds texts, under any name."""
    pl = polars_module()
    return column.dtype in (pl.String, pl.Categorical, pl.Enum)


def numbers_of(column: polars.Series, start: int = 0, truths: bool = False) -> Host:
    """Numbers, also where they are written as texts; NaN where one is missing.

    Parameters
    ----------
    column : polars.Series
        Of numbers, or of texts that spell some.
    start : int, default=0
        Rows before these, for messages.
    truths : bool, default=False
        Whether texts may say true and false.
    """
    pl = polars_module()
    if is_text(column):
        texts = texts_of(column)
        spelt = texts.str.to_lowercase().replace({"true": "1", "false": "0"}) if truths else texts
        numbers = spelt.cast(pl.Float64, strict=False)
    elif is_number(column) or column.dtype == pl.Null:
        numbers = column.cast(pl.Float64)
    else:
        kind = plain(column.dtype)
        raise ValueError(f"Column {quote(column.name)} must hold numbers; it holds {kind}.")
    wrong = (column.is_not_null() & numbers.is_null()) | numbers.is_infinite().fill_null(False)
    if wrong.any():
        raise ValueError(
            f"Column {quote(column.name)} must hold numbers; {first_cell(column, wrong, start)}. "
            "Correct the cell, or leave it empty where the value is missing."
        )
    return np.array(numbers.fill_null(np.nan), dtype=np.float64)


def texts_of(column: polars.Series) -> polars.Series:
    """Texts, also where whole numbers or truth values are what they are made of."""
    pl = polars_module()
    if column.dtype.is_float():
        column = column.fill_nan(None)
        if (column == column.round()).all():
            column = column.cast(pl.Int64, strict=False)
    return column.cast(pl.String)


def first_cell(column: polars.Series, where: polars.Series, start: int = 0) -> str:
    """The first of some cells, for messages; rows are counted from 1."""
    row = int(where.arg_true()[0])
    return f"row {start + row + 1:,} holds {quote(column[row])}"
