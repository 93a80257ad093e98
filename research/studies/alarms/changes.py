"""Before and now: the same rows, two versions of the library."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lpfuse._arrays.operations import Host
from research.common.store import Record, matching
from research.common.tables import markdown, prose
from research.studies.alarms.cells import FEWEST_TABLES, mean_of
from research.studies.alarms.sources import TABLES, Cell

Pairs = dict[Cell, tuple[Host, Host]]  # before and now, the same repetitions


def paired(rows: Iterable[Record], field: str, at: int | None = None) -> Pairs:
    """A field, or one entry of it, of both versions: on the repetitions that both have."""
    rows = list(rows)
    before, now = (
        {
            (Cell(row["family"], row["n"], row["labels"]), row["rep"]): row
            for row in matching(rows, version=version, calibration=None)
        }
        for version in ("before", "now")
    )
    found: dict[Cell, list[tuple[float, float]]] = {}
    for key in before:  # in their order: sums of numbers depend on it
        if key not in now:
            continue
        pair = before[key][field], now[key][field]
        found.setdefault(key[0], []).append(pair if at is None else (pair[0][at], pair[1][at]))
    return {
        cell: (np.array(pairs)[:, 0], np.array(pairs)[:, 1])
        for cell, pairs in sorted(found.items(), key=lambda item: item[0].key)
        if cell.family != TABLES or len(pairs) >= FEWEST_TABLES
    }


def changes_of(rows: Iterable[Record]) -> list[str]:
    """A line a cell; nothing where a version is missing."""
    rows = list(rows)
    alarms = paired(rows, "alarms", 1)
    if not alarms:
        return []
    fields = ("auc", "hits", "hits_at_same", "seconds")
    others = {field: paired(rows, field) for field in fields}
    told = [
        [
            cell.key,
            str(len(before)),
            f"{before.mean():.1f} → {now.mean():.1f}",
            *(_gain(*others[field][cell]) for field in fields[:3]),
            "{:.1f} → {:.1f}".format(*(part.mean() for part in others["seconds"][cell])),
        ]
        for cell, (before, now) in alarms.items()
    ]
    head = ["cell", "fits", "alarms at 5 %", "AUC", "hits at 5 %", "hits at same", "seconds"]
    return [
        "## Before and now",
        prose(
            """A cell is a family, its rows and its labels. On the same rows with the same seeds:
            mean alarms at 5 %, and how AUC and hits changed, in points ± standard error. "Hits at
            5 %" change with the alarms that come with them; "hits at same" are those where exactly
            5 % of the fresh rows are alarms."""
        ),
        markdown([head, *told]),
    ]


def _gain(before: Host, now: Host) -> str:
    mean = mean_of(now - before)
    return f"{mean.value:+.1f} ± {mean.error:.1f}"
