"""Words of a refusal: what was expected, what came, and what to do.

Texts that several checks share are written once, here; a text that one check alone uses stands
beside that check. They speak of arguments as Python calls them; the command line translates.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from math import prod
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from lpfuse._format import LONGEST_QUOTE, quote

ONLY_ANOMALIES = (
    "y holds only −1 (anomaly), but normal rows are needed too. Pass rows labelled +1 as well; if "
    "-1 marks the normal rows in your data, pass -y."
)
ZERO_AND_ONE = (
    "y holds 0 and 1 alone, which people read in three ways. Say which is meant:\n"
    "1 is an anomaly, 0 normal (as in PyOD): y = np.where(y == 1, -1, 1)\n"
    "1 is normal, 0 an anomaly: y = np.where(y == 1, 1, -1)\n"
    "1 is known to be normal, 0 is unlabelled: fit(X, y, unlabelled=0)"
)
NO_WEIGHT = "sample_weight is zero in every row; give some row a weight above zero."
# Of scores, and of the weights of all rows together: weights times squares of scores then stay
# below the largest double, 1.8e308, and what underflows is nothing beside them.
LARGEST_SCORE = LARGEST_WEIGHT = 1e100
LEAST_WEIGHT = 1e-100


class Table(NamedTuple):
    """How a table of the user's is called in messages."""

    letter: str
    noun: str
    shape: str
    mend: str  # what to do with columns that are not numbers

    def not_two_dimensional(self, ndim: int, shape: Sequence[int] | None = None) -> str:
        """Of an array with other than two dimensions, and its shape where that is known."""
        got = f"{ndim}D" + ("" if shape is None else f" of shape {tuple(shape)}")
        return (
            f"Expected a 2D array of {self.noun.lower()} ({self.shape}), got {got}. Reshape with "
            "(-1, 1) if it is one column, (1, -1) if one row."
        )

    def too_small(self, got: str) -> str:
        """Of a table without rows or without columns."""
        return f"{self.noun} need at least one row and one column, got {got}."

    def not_numbers(self, columns: str, what: str) -> str:
        """Of columns, as they are called, that hold something else."""
        return (
            f"{self.noun} must be numbers, but {columns} {what}. Leave such columns out, or "
            f"{self.mend}."
        )

    def not_finite(self, places: Sequence[str]) -> str:
        """Of places, such as columns, that hold NaN or infinity."""
        return (
            f"{self.noun} must be finite, but there is NaN or infinity in {listed(places)}. Drop "
            "those rows, or fill them in first (for instance with sklearn.impute.SimpleImputer)."
        )

    def too_large(self, columns: Sequence[str], largest: float) -> str:
        """Of columns with numbers beyond `LARGEST_SCORE`, and the largest of these."""
        return (
            f"{self.noun} beyond {LARGEST_SCORE:g} cannot be squared and weighted in double "
            f"precision, but {listed(columns)} reach {largest:.3g}. Divide them by "
            f"{largest:.0e} first."
        )


SCORES = Table("S", "Scores", "n samples × R detectors", "turn them into scores first")
FEATURES = Table(
    "X",
    "Features",
    "n samples × d features",
    "encode them as numbers first (lpfuse.tables.make_table_detector does, for text and dates)",
)


def not_one_a_row(argument: str, noun: str, n: int, shape: Sequence[int]) -> str:
    """Of labels, weights or other values that do not go with n rows.

    Examples
    --------
    >>> print(not_one_a_row("y", "label", 3, (3, 1)))
    y must hold one label for each row: expected shape (3,), got (3, 1). Pass y.ravel().
    """
    remedy = f" Pass {argument}.ravel()." if len(shape) > 1 and prod(shape) == n else ""
    return (
        f"{argument} must hold one {noun} for each row: expected shape ({n},), got "
        f"{tuple(shape)}.{remedy}"
    )


def not_one_dimensional(argument: str, got: str) -> str:
    """Of values that should be one number a row, but have other dimensions."""
    return f"{argument} must hold one number for each row: expected one dimension, got {got}."


def bad_weights(first: float, count: int, row: int | None = None) -> str:
    """Of weights that are negative, NaN or infinite: the first, its row, and how many there are."""
    where = "" if row is None else f" in row {row}"
    return (
        f"sample_weight must be finite and not negative, got {first}{where} ({count} such rows). "
        "Use 0 to leave a row out."
    )


def refuse_sum_of_weights(total: float) -> None:
    """Refuse weights, each finite and not negative, whose sum no arithmetic can be done with."""
    if total == 0.0:
        raise ValueError(NO_WEIGHT)
    if not LEAST_WEIGHT < total < LARGEST_WEIGHT:
        amount, factor = ("much", 1e-200) if total > 1.0 else ("little", 1e200)
        raise ValueError(
            f"sample_weight adds up to {total:.3g}, too {amount} for double precision: expected a "
            f"sum between {LEAST_WEIGHT:g} and {LARGEST_WEIGHT:g}. Multiply all weights by "
            f"{factor:g}."
        )


def refuse_cut_off(view: Any) -> None:
    """Refuse a view of a memory map that its file does not fill any more.

    To read the rest would end the process, without a chance to say why.
    """
    start = 0
    while isinstance(view, np.ndarray):
        if isinstance(view, np.memmap):
            start = view.offset - view.offset % mmap.ALLOCATIONGRANULARITY
        view = view.base
    if isinstance(view, mmap.mmap) and view.size() < start + len(view):
        raise ValueError(
            f"The file of a memory map has become shorter: expected {start + len(view):,} bytes, "
            f"got {view.size():,}. Write it again, and leave it alone until all is read."
        )


def key(name: object) -> str:
    """A name without what does not matter in it: case, spaces, hyphens and underscores."""
    return re.sub(r"[\s_-]", "", str(name)).casefold()


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A question for the end of a message, where a known name is close to the one that came."""
    keys = {key(choice): choice for choice in known}
    # Letter by letter, so that long names would take long.
    closest = get_close_matches(key(name)[:LONGEST_QUOTE], keys, n=1)
    return f" Did you mean {quote(keys[closest[0]])}?" if closest else ""


def listed(items: Iterable[str], at_most: int = 5, last: str = " and ") -> str:
    """Items as a phrase.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b"]), listed("abcdefg", at_most=3)
    ('a', 'a and b', 'a, b, c and 4 more')
    """
    items = list(items)
    if len(items) > at_most:
        items, last = [*items[:at_most], f"{len(items) - at_most} more"], " and "
    return last.join(filter(None, [", ".join(items[:-1]), items[-1]]))


def quoted(values: Iterable[object], at_most: int = 8) -> str:
    """Values with commas between them, as Python writes them: 1 is not "1".

    Examples
    --------
    >>> quoted(["ok", 1, "1"])
    "'ok', 1, '1'"
    """
    return listed(map(quote, values), at_most, last=", ")


def counted(number: int, noun: str) -> str:
    """So many of something.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def meaning(wanted: Any, values: Iterable[Any]) -> set[Any]:
    """Those of the values that equal what was wanted; if none does, those that spell it.

    Examples
    --------
    >>> meaning("1", [1, 2]), meaning(True, ["true", "false"]), meaning("1", ["1", "1.0"])
    ({1}, {'true'}, {'1'})
    """
    kinds = set(values)
    same = {kind for kind in kinds if kind == wanted}
    return same or {kind for kind in kinds if _spelled(kind) == _spelled(wanted)}


def _spelled(value: Any) -> Any:
    """A text as the number or the truth value that it spells; all else as it is."""
    if not isinstance(value, str):
        return value
    text = value.strip().strip("'\"").casefold()
    with suppress(ValueError):
        return float(text)
    return {"true": True, "false": False}.get(text, text)


def how_to_label(labels: list[Any], unlabelled: bool) -> str:
    """What is wrong with labels, and the line that mends them."""
    expected = "+1 (normal)" + (
        ", -1 (anomaly) or 0 (unlabelled)" if unlabelled else " or -1 (anomaly)"
    )
    missing = sum(label is None or label != label for label in labels)
    if missing:
        mend = "Pass 0 for those rows" if unlabelled else "Drop those rows from both S and y"
        return (
            f"y must be {expected} in every row, but {missing} of {len(labels)} labels are missing "
            f"(NaN or None). {mend}."
        )
    if not all(isinstance(label, str | Real) for label in labels):  # lists, complex numbers, …
        return f"y must be {expected}, got {listed(dict.fromkeys(map(quote, labels)))}."
    values = sorted(set(labels), key=lambda value: (str(type(value)), value))
    last = quote(values[-1])
    chosen = f"y == {last}" if not isinstance(values[-1], bool) else "y"
    return (
        f"y must be {expected}, got {listed(map(quote, values))}.\n"
        f"If {last} means anomaly (as 1 does in PyOD): y = np.where({chosen}, -1, 1)\n"
        f"If {last} means normal: y = np.where({chosen}, 1, -1)"
    )


def labels_of_columns(columns: Iterable[int], names: Sequence[str] | None) -> list[str]:
    """How columns are called in messages: by name, or by position."""
    return [f"column {quote(names[j])}" if names is not None else f"column {j}" for j in columns]


def with_rows(place: str, rows: int) -> str:
    """A place and the number of its rows that are meant.

    Examples
    --------
    >>> with_rows("column 2", 1)
    'column 2 (1 row)'
    """
    return f"{place} ({rows} {'row' if rows == 1 else 'rows'})"
