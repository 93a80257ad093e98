"""Stored records as the pages of all benchmarks ask for them; sizes as their commands take them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from research.common.store import Record, matching


class Records:
    """What was measured, and the environments behind it.

    Attributes
    ----------
    environments : dict
        Id → environment.
    threads : int or None
        The number of threads of most records.
    records : list of dict
        Those that tables show.
    """

    def __init__(self, records: Iterable[Record], *, same_threads: bool = False) -> None:
        records = list(records)
        self.environments = {r["id"]: r for r in records if r["kind"] == "environment"}
        measured = [r for r in records if r["kind"] != "environment"]
        counts = Counter(r.get("threads") for r in measured)
        self.threads = counts.most_common(1)[0][0] if counts else None
        if same_threads:  # times with other numbers of threads do not compare
            measured = [r for r in measured if r["threads"] == self.threads]
        self.records = measured

    def select(self, kind: str, **fields: Any) -> list[Record]:
        """Records of a kind whose fields agree with these."""
        return matching(self.records, kind=kind, **fields)


def number(text: str) -> int:
    """A size from the command line: accepts 1e5 as well as 100000."""
    return int(float(text))
