"""The list of alarms as a table to page through: what the page shows before its script runs."""

from __future__ import annotations

from typing import Any

from lpfuse._format import MISSING, readable
from lpfuse._validation.params import counted
from lpfuse.report._charts import KNOWN

PAGE, CARDS = 25, 10  # alarms at a time, on a screen and on a phone; chosen by hand

# Places in a row of the list; columns that users keep follow.
ROW, LABEL, SCORE, P_VALUE, DETECTOR, KEPT = range(6)


def alarm_table(summary: dict[str, Any]) -> dict[str, Any]:
    """Columns, the first page of rows, and what is said above.

    Parameters
    ----------
    summary : dict
        What `summarise` returned.

    Returns
    -------
    dict
        ``columns``: place in the rows of ``alarm_list``, name, and whether the name is a user's, of
        each column in the order shown; ``rows``: of cells, as texts; ``words``; ``command``.
    """
    found, names = summary["alarm_list"], [each["name"] for each in summary["detectors"]]
    columns = [(ROW, "row", False)]
    columns += [(KEPT + k, name, True) for k, name in enumerate(found["kept"])]
    if any(row[LABEL] for row in found["rows"]):
        columns.append((LABEL, "known as", False))
    columns += [(SCORE, "score", False), (P_VALUE, "p-value", False)]
    if any(row[DETECTOR] is not None for row in found["rows"]):
        columns.append((DETECTOR, "loudest detector", False))
    return {
        "columns": columns,
        "page": PAGE,
        "cards": CARDS,
        "rows": [
            [_text(row[place], place, names) for place, *_ in columns]
            for row in found["rows"][:PAGE]
        ],
        "words": _words(summary),
        "command": found["command"] if found["total"] > len(found["rows"]) else None,
    }


def _text(value: Any, place: int, names: list[str]) -> str:
    if value is None:
        return MISSING
    if place == LABEL:
        return KNOWN[value][0]
    if place == DETECTOR:
        return names[value]
    return readable(value) if place in (SCORE, P_VALUE) else str(value)


def _words(summary: dict[str, Any]) -> str:
    found = summary["alarm_list"]
    total, shown = found["total"], len(found["rows"])
    if not total:
        return "No row lies below the threshold."
    which = "" if summary["judged_on"]["origin"] in ("given", "learnt") else " of the training data"
    told = f"{counted(total, 'alarm')}, the strongest first. Rows{which} count from 0."
    if shown < total:
        told = f"The strongest {shown:,} of {told}"
        if not found["command"]:
            told += " In Python, predict tells all of them."
    if any(row[DETECTOR] is not None for row in found["rows"]):
        told += " The loudest detector is the one that takes most from the score."
    silent = sum(row[SCORE] is None for row in found["rows"])
    if silent:
        told += f" {counted(silent, 'row')} could not be scored, and count as alarms."
    return told
