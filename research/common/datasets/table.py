"""A table of one's own, CSV, Parquet or Arrow, as rows of numbers with labels."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse._validation.params import did_you_mean, meaning, quoted
from lpfuse.frames.cells import polars_module
from lpfuse.frames.preparation import parse_column
from lpfuse_cli.tables import kind_of, read_table
from research.common.datasets.base import Dataset, checked_dataset

if TYPE_CHECKING:
    import polars

MOST_CATEGORIES = 100  # texts of a column; more are names of rows


def load_table(path: str | os.PathLike[str], *, label: str = "label", normal: Any = 1) -> Dataset:
    r"""A table of one's own, with a column that tells which rows are normal.

    Numbers stay as they are, truth values become 0 and 1. A column of text or categories becomes
    one column of 0 and 1 for each text that occurs in it, ``column=text``. Dates are refused.

    Parameters
    ----------
    path : path
        A ``.csv`` file with a header and commas, a ``.parquet`` or an ``.arrow`` file; read with
        polars: ``pip install "lpfuse[cli]"``. An empty cell is missing, in CSV also ``?``, ``NA``,
        ``N/A``, ``NaN`` and ``null``. What is missing becomes NaN, in all columns of a text.
    label : str, default="label"
        The column that tells.
    normal : object, default=1
        What it holds for normal rows; everything else is an anomaly. Beware of tables where 1
        stands for anomalies: those need ``normal=0``. If no cell equals it, texts and numbers are
        compared too ("1" is 1, "true" is True), and case does not matter.

    Returns
    -------
    Dataset
        Rows and labels; its name is the file's without suffix.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, or no table of both classes in it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from research.common.datasets import load_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "pumps.csv"
    ...     _ = path.write_text("bar,kind,state\n2.5,a,ok\n,b,ok\n9.0,a,broken\n")
    ...     pumps = load_table(path, label="state", normal="ok")
    >>> pumps.feature_names, pumps.y
    (('bar', 'kind=a', 'kind=b'), array([ 1,  1, -1]))
    >>> pumps.X
    array([[2.5, 1. , 0. ],
           [nan, 0. , 1. ],
           [9. , 1. , 0. ]])
    """
    path = Path(path).expanduser()
    frame = read_table(path)
    if kind_of(path) == "CSV":
        frame = frame.select(parse_column(column) for column in frame)
    if label not in frame.columns:
        raise ValueError(
            f"{path.name} has no column {label!r}.{did_you_mean(label, frame.columns)} Pass "
            f"label= with one of its columns: {quoted(frame.columns)}."
        )
    if frame.height == 0 or frame.width == 1:
        raise ValueError(
            f"{path.name} must hold rows, and columns beside {label!r}; its shape is {frame.shape}."
        )
    y = _labels(frame[label], normal, f"Column {label!r} of {path.name}")
    features = [frame[name] for name in frame.columns if name != label]
    encoded = [pair for column in features for pair in _encoded(column, path.name)]
    names, columns = zip(*encoded, strict=True)
    return checked_dataset(path.stem, np.column_stack(columns), y, names, path.name)


def _labels(column: polars.Series, normal: Any, where: str) -> NDArray[np.int_]:
    if column.dtype.is_nested():
        raise ValueError(f"{where} holds {column.dtype}; expected one value a row.")
    values = column.to_list()
    missing = sum(value is None or value != value for value in values)  # NaN is not itself
    if missing:
        raise ValueError(
            f"{where} has no value in {missing} of {len(values)} rows. Label or remove those rows."
        )
    kinds = dict.fromkeys(values)
    meant = meaning(normal, kinds)
    if len(kinds) == max(1, len(meant)):
        raise ValueError(
            f"{where} holds {quoted(kinds)} only; expected normal rows and anomalies. Add rows of "
            "the other class, or pass label= with another column."
        )
    if not meant:
        raise ValueError(
            f"{where} holds {quoted(kinds)}, and nowhere normal={normal!r}. Pass normal= with the "
            "value that normal rows have."
        )
    return np.array([1 if value in meant else -1 for value in values])


def _encoded(column: polars.Series, file: str) -> list[tuple[str, Host]]:
    """A column as numbers: one column, or one for each category."""
    pl, where = polars_module(), f"Column {column.name!r} of {file}"
    if column.dtype.is_temporal():
        raise ValueError(
            f"{where} holds dates or times. Put a number in their place, such as the days since "
            "the first, or remove the column."
        )
    if column.null_count() == len(column):
        return [(column.name, np.full(len(column), np.nan))]
    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        return [(column.name, _floats(column))]
    if column.dtype not in (pl.String, pl.Categorical, pl.Enum):
        raise ValueError(
            f"{where} holds {column.dtype}; expected numbers, truth values, texts or categories. "
            "Turn it into some, or remove it."
        )
    texts = column.cast(pl.String)
    kinds = texts.drop_nulls().unique().sort()
    if len(kinds) > MOST_CATEGORIES:
        raise ValueError(
            f"{where} holds {len(kinds)} different texts, {quoted(kinds.to_list(), 3)}: too many "
            f"for categories (at most {MOST_CATEGORIES}). Write numbers as numbers, and remove "
            "what only names the rows."
        )
    return [(f"{column.name}={kind}", _floats(texts == kind)) for kind in kinds]


def _floats(column: polars.Series) -> Host:
    pl = polars_module()
    return np.asarray(column.cast(pl.Float64).fill_null(np.nan).to_numpy(), dtype=np.float64)
