"""Rows that a person is asked about, and the file of the answers: cells come back as they were."""

from __future__ import annotations

import csv
import io
import json
import re
from codecs import BOM_UTF8
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse._format import plain, quote
from lpfuse._validation.params import counted, quoted
from lpfuse.ensemble import FusedDetector
from lpfuse.tables._cells import check_names, first_cell, numbers_of
from lpfuse.tables._csv_format import MISSING, OPEN, TableFormat
from lpfuse.tables._in_memory import read_table
from lpfuse.tables._kinds import typed
from lpfuse.tables._model import TableModel
from lpfuse.tables._polars import polars_module
from lpfuse.tables._writing import FORMULA

if TYPE_CHECKING:
    import polars

MEANINGS = {"normal": 1.0, "anomaly": -1.0, "don't know": 0.0}
OWN_COLUMNS = ("row", "answer", "chance")  # of the file, before those of the rows
# Texts that would not come back as they are: those in apostrophes, and those with what readers of
# CSV disagree on, above all in names of columns.
_PROTECTED = re.compile(r"'.*'|.*[\"\x00-\x1f\x7f].*", re.DOTALL)


def cells_of(model: TableModel | FusedDetector, frame: polars.DataFrame) -> polars.DataFrame:
    """The columns that a model uses, as it sees them: numbers, texts, and gaps.

    Parameters
    ----------
    model : TableModel or FusedDetector
        Fitted. A detector that was fitted to an array knows no names, and uses all columns.
    frame : polars.DataFrame
        Rows of a file, the cells of which may be texts.
    """
    if isinstance(model, TableModel):
        model.preparation.check(frame.columns)
        return model.preparation.cells(frame)
    names = getattr(model, "feature_names_in_", frame.columns)
    for name in names:
        check_names([name], frame.columns)
    return frame.select(map(typed, frame.select(list(names))))


def features_of(model: TableModel | FusedDetector, frame: polars.DataFrame) -> Any:
    """Rows of a file as the fused detector takes them; parameters as in `cells_of`."""
    if isinstance(model, TableModel):
        return model.numbers(frame)
    cells = cells_of(model, frame)
    if hasattr(model, "feature_names_in_"):
        return cells
    return np.column_stack([numbers_of(column) for column in cells])


def are_empty(cells: polars.DataFrame) -> NDArray[np.bool_]:
    """Rows that hold no value at all: nobody could be asked about them."""
    pl = polars_module()
    known = cells.with_columns(pl.selectors.float().fill_nan(None))
    found: NDArray[np.bool_] = (
        known.select(pl.all_horizontal(pl.all().is_null())).to_series().to_numpy()
    )
    return found


def answer_file(
    rows: polars.DataFrame, positions: Sequence[int], chances: Sequence[float]
) -> tuple[str, list[tuple[str, str]]]:
    """The file that takes the answers, but for these: CSV, in pieces.

    Texts that `read_table` would change, or a spreadsheet run, and names that are those of
    `OWN_COLUMNS`, stand in apostrophes, written as in JSON; so do those that stand in apostrophes
    already. What `read_answers` reads is thereby what was written.

    Parameters
    ----------
    rows : polars.DataFrame of n rows
        Those that are asked about, without other columns than theirs.
    positions, chances : sequences of length n
        Where they are in their file, from 0, and with which chance each was asked.

    Returns
    -------
    header : str
        The first line.
    lines : list of (str, str)
        Of each row what stands before its answer, and behind it.
    """
    names = [_protected(name, OWN_COLUMNS) for name in rows.columns]
    lines = [
        (_line([position]) + ",", "," + _line([float(chance), *map(_written, row)]))
        for position, chance, row in zip(positions, chances, rows.iter_rows(), strict=True)
    ]
    return _line([*OWN_COLUMNS, *names]), lines


def _line(cells: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()


def _written(value: Any) -> str:
    """A cell: empty where it is missing; floats with all digits that they need."""
    if value is None or value != value:
        return ""
    return _protected(value) if isinstance(value, str) else str(value)


def _protected(text: str, taken: Sequence[str] = ()) -> str:
    """A text in apostrophes, where it would not come back without."""
    runs = re.match(FORMULA, text) and not _spells(text)
    if runs or text != text.strip() or text in {*MISSING, *taken} or _PROTECTED.fullmatch(text):
        inside = json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', "\\u0022")
        return f"'{inside}'"
    return text


def _restored(text: str | None) -> str | None:
    """What `_protected` was given; other texts stay as they are."""
    if text is None or len(text) < 2 or not text[0] == text[-1] == "'":
        return text
    with suppress(ValueError):
        return str(json.loads(f'"{text[1:-1]}"'))
    return text


def _spells(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


@dataclass(frozen=True)
class Answers:
    """What a person said about rows.

    Attributes
    ----------
    rows : polars.DataFrame of n rows
        With the columns of the file that they are from.
    y : ndarray of shape (n,)
        +1 normal, −1 anomaly.
    chances : ndarray of shape (n,)
        With which each was asked; NaN where the file says nothing.
    undecided : int
        How many rows more there were, with "don't know" or nothing for an answer.
    """

    rows: polars.DataFrame
    y: Host
    chances: Host
    undecided: int


def _format_of(path: str | Path) -> TableFormat:
    """How the page writes, where a file begins as its own do; other programs may save it anew."""
    path = Path(path).expanduser()
    if path.is_file():  # a pipe would wait for its writer: `read_table` refuses it
        with suppress(OSError), path.open("rb") as file:
            if file.read(32).removeprefix(BOM_UTF8).startswith(b"row,answer,chance"):
                return TableFormat(separator=",", decimal=".", encoding="utf-8", quote='"')
    return TableFormat(quote='"')


def read_answers(path: str | Path, format: TableFormat = OPEN) -> Answers:
    r"""Read a file of answers, as the page of `lpfuse.report.write_questions` exports it.

    Parameters
    ----------
    path : str or path
        A table, see `read_table`, with the columns ``answer`` and ``chance`` beside those of rows.
    format : TableFormat, optional
        How it is written; quotes are double ones, for apostrophes protect texts.

    Examples
    --------
    >>> path = getfixture("tmp_path") / "answers.csv"
    >>> lines = ["row,answer,chance,bar", "7,normal,0.5,2.5", "9,don't know,0.5,2.6"]
    >>> _ = path.write_text("\n".join(lines))
    >>> answers = read_answers(path)
    >>> answers.rows.rows(), answers.y, answers.undecided
    ([('2.5',)], array([1.]), 1)
    """
    pl, table = polars_module(), read_table(path, format=format | _format_of(path))
    name = "Standard input" if str(path) == "-" else plain(Path(path).name)
    lacking = [column for column in ("answer", "chance") if column not in table.columns]
    if lacking:
        raise ValueError(
            f"{name} lacks {quoted(lacking)}: expected the file that the page of `lpfuse ask` "
            f"exports, with {quoted(OWN_COLUMNS)} before the columns of the rows. Export it again."
        )
    y = _meanings(name, table["answer"])
    decided = y != 0
    if not decided.any():
        raise ValueError(
            f"{name} says of no row whether it is normal or an anomaly ({counted(len(y), 'row')} "
            "without an answer), so there is nothing to learn. Answer some questions first."
        )
    chances = numbers_of(table["chance"])
    wrong = pl.Series((chances <= 0) | (chances > 1))
    if wrong.any():
        raise ValueError(
            f"{name}: a chance must lie above 0 and be 1 at most; "
            f"{first_cell(table['chance'], wrong)}. Export the answers again, or leave the cell "
            "empty where a label is from elsewhere."
        )
    rows = table.drop(OWN_COLUMNS, strict=False)
    texts = pl.selectors.string().map_elements(_restored, return_dtype=pl.String)
    rows = rows.with_columns(texts).rename({name: str(_restored(name)) for name in rows.columns})
    return Answers(rows.filter(decided), y[decided], chances[decided], int((~decided).sum()))


def _meanings(name: str, column: polars.Series) -> Host:
    """+1, −1, and 0 where nothing is known."""
    pl = polars_module()
    texts = column.cast(pl.String).str.strip_chars().str.to_lowercase().str.replace("’", "'")
    y = texts.replace_strict(MEANINGS, default=None, return_dtype=pl.Float64)
    wrong = y.is_null() & texts.is_not_null()
    if wrong.any():
        *others, last = map(quote, MEANINGS)
        raise ValueError(
            f"{name}: an answer must be {', '.join(others)} or {last}; {first_cell(column, wrong)}."
            " Correct it, or leave the cell empty."
        )
    return np.array(y.fill_null(0.0))
