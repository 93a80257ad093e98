"""Rows of a stream that are judged together, and what is noted of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars

BROKEN, LACKS, NO_NUMBER = "broken line", "missing column", "cell that is no number or date"
BACKWARDS, NO_TIME = "clock went backwards", "time that cannot be read"
EMPTY, UNREADABLE = "row without any value", "file that cannot be read"
BEGAN_AGAIN, GONE = "source began again", "rows lost by the source"
MOST_TEXT = 200  # characters of a note; chosen by hand

Numbers = NDArray[np.int64]


class Note(NamedTuple):
    """Something about a row, or about the source itself.

    Attributes
    ----------
    kind : str
        One of the above; counts are kept of these.
    row : int
        The row's number in the stream, from 1; of the source itself, that of the row before.
    text : str
        What was found.
    """

    kind: str
    row: int
    text: str


class Rows(NamedTuple):
    """Rows as they were read.

    Attributes
    ----------
    frame : polars.DataFrame of n rows
        Their cells.
    numbers : ndarray of shape (n,)
        Their places in the stream, from 1.
    notes : list of Note
        Of rows that could not be read, and are not in the frame.
    """

    frame: polars.DataFrame
    numbers: Numbers
    notes: list[Note]


@dataclass(frozen=True)
class Batch:
    """Consecutive rows of a stream; they are parsed where they are judged, on any thread.

    Attributes
    ----------
    load : callable
        Gives the `Rows`.
    position : dict
        Where the next row begins, in terms of JSON.
    last : int
        The number of its last row.
    notes : list of Note
        Of rows that no one needs to parse to know that they are broken.
    marks : dict
        Where the rows come from: columns of the output beside their numbers, each a value or an
        array of one value for every row that `load` may give, by place from the first row.
    finished : list of str
        Files that end with this batch.
    """

    load: Callable[[], Rows]
    position: dict[str, Any]
    last: int
    notes: list[Note] = field(default_factory=list)
    marks: dict[str, Any] = field(default_factory=dict)
    finished: list[str] = field(default_factory=list)
