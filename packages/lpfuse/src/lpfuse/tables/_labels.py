"""What a column says about rows: normal, anomaly, or nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._format import plain, quote
from lpfuse._validation.params import counted, did_you_mean, meaning, quoted
from lpfuse.tables._cells import check_names
from lpfuse.tables._frames import as_polars

if TYPE_CHECKING:
    import polars

EMPTY = ""  # as the normal value: rows without a label are the normal ones


def settle_labels(
    frame: polars.DataFrame, label: str | None, normal: str | None
) -> tuple[polars.DataFrame, Host, str | None, str]:
    """The columns beside the label, labels of the rows, what is normal, and a sentence.

    Parameters
    ----------
    frame : polars.DataFrame
        Rows to learn from.
    label, normal
        As in `TableModel.fit`.
    """
    frame = as_polars(frame)
    if frame.height == 0:
        raise ValueError("The table has no rows. Bring some to learn from.")
    if label is None:
        if normal is not None:
            raise ValueError(
                f"normal={quote(normal)} says what normal rows hold, but not in which column. Name "
                "it: label=COLUMN"
            )
        note = f"Label: none; all {frame.height:,} rows are taken as normal."
        return frame, np.ones(frame.height), None, note
    (label,) = check_names([label], frame.columns)
    normal = settle_normal(frame[label], normal)
    labels = labels_of(frame[label], normal)
    return frame.drop(label), labels, normal, labels_note(frame[label], normal, labels)


def labels_of(column: polars.Series, normal: str) -> Host:
    """+1 for normal rows, −1 for anomalies, 0 for those without a label.

    Parameters
    ----------
    column : polars.Series
        One value a row.
    normal : str
        What normal rows hold, and everything else is an anomaly; empty: normal rows hold nothing.
    """
    values = _values(column)
    meant = meaning(normal, set(values) - {None})
    without = 1.0 if normal == EMPTY else 0.0
    return np.array([without if v is None else 1.0 if v in meant else -1.0 for v in values])


def settle_normal(column: polars.Series, normal: str | None) -> str:
    """What normal rows hold in the column of labels: as the user says, or as is usual.

    Parameters
    ----------
    column : polars.Series
        One value a row; missing where it is not known.
    normal : str or None
        What the user gave, see `labels_of`. None: 1 beside −1, or the word "normal".
    """
    where = f"The label column {quote(column.name)}"
    if column.dtype.is_nested():
        raise ValueError(f"{where} holds {plain(column.dtype)}; expected one value a row.")
    values = _values(column)
    kinds = dict.fromkeys(value for value in values if value is not None)
    held = quoted(kinds) if kinds else "nothing"
    without = None in values
    if len(kinds) == 0 or (len(kinds) == 1 and not without):
        raise ValueError(
            f"{where} holds {held} in every row, so it tells nothing. Name another column, or "
            "none: all rows are then taken as normal."
        )
    if normal is None:
        normal = _usual_normal(kinds)
        if normal is None:
            raise ValueError(f"{where} holds {held}. {_which_is_normal(kinds, without)}")
    if normal == EMPTY:
        if not without:
            raise ValueError(f"{where} has no empty cell, so none is normal; it holds {held}.")
        return EMPTY
    meant = meaning(normal, kinds)
    if not meant:
        raise ValueError(
            f"{where} holds {held}, and nowhere {quote(normal)}."
            f"{did_you_mean(normal, map(str, kinds))} {_which_is_normal(kinds, without)}"
        )
    if len(meant) == len(kinds) and not without:
        raise ValueError(f"{where} holds {held}, all of which are normal. Leave it out.")
    return normal


def _which_is_normal(kinds: Iterable[Any], without: bool) -> str:
    """What to say, by the values of the column, and whether some cells are empty."""
    first = quote(str(next(iter(kinds))))
    if not without:
        return f"Which is normal? Say normal={first}, or whichever it is."
    return (
        "Other cells are empty. If these rows are normal and all others anomalies, say normal=''; "
        f"if rows with {first} are normal and empty ones unlabelled, normal={first}"
    )


def labels_note(column: polars.Series, normal: str, labels: Host) -> str:
    """Which rows were taken as what, in a sentence."""
    kinds: dict[str, int] = {}
    for value, label in zip(_values(column), labels, strict=True):
        if label < 0:
            kinds[str(value)] = kinds.get(str(value), 0) + 1
    rows = counted(int((labels > 0).sum()), "row")
    parts = [f"normal is {quote(normal) if normal else 'an empty cell'} ({rows})"]
    if kinds:
        most = sorted(kinds.items(), key=lambda kind: -kind[1])
        shown = ", ".join(f"{quote(kind)} ({number:,})" for kind, number in most[:8])
        more = f" and {len(most) - 8} more" if len(most) > 8 else ""
        parts.append(f"anomalies are {shown}{more}")
    if (labels == 0).any():
        parts.append(f"{counted(int((labels == 0).sum()), 'row')} without a label")
    return f"Label: {quote(column.name)}; {'; '.join(parts)}."


def _usual_normal(kinds: Iterable[Any]) -> str | None:
    """The normal value, where hardly anybody would take another."""
    spelled = {str(kind).strip().casefold(): str(kind) for kind in kinds}
    if set(spelled) in ({"1", "-1"}, {"1.0", "-1.0"}):
        return "1"
    return spelled.get("normal")


def _values(column: polars.Series) -> list[Any]:
    """The cells; None where there is none."""
    return [None if value != value else value for value in column.to_list()]
