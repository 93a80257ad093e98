"""Stored records as the tables ask for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from research.common.clock import ratio
from research.common.store import Record, matching, read_records


class Ratio(NamedTuple):
    """A ratio and the record that it comes from."""

    value: float
    record: Record

    @property
    def where(self) -> str:
        return f"n = {self.record['n']:,}, {self.record['setting']}"


class Results:
    """The finished records of one thread count, and the environments behind them."""

    def __init__(self, records: Iterable[Record]) -> None:
        records = list(records)
        self.environments = {r["id"]: r for r in records if r["kind"] == "environment"}
        measured = [r for r in records if r["kind"] != "environment"]
        counts = Counter(r["threads"] for r in measured)
        self.threads = counts.most_common(1)[0][0] if counts else None
        measured = [r for r in measured if r["threads"] == self.threads]
        self.records = [r for r in measured if r["status"] == "finished"]
        self.failed = [r for r in measured if r["status"] != "finished"]

    @classmethod
    def load(cls, paths: Sequence[Path]) -> Results:
        return cls(read_records(path for path in paths if path.is_file()))

    def select(self, kind: str, **fields: Any) -> list[Record]:
        """Records of a kind whose fields agree with these, small n first."""
        return sorted(matching(self.records, kind=kind, **fields), key=lambda r: r["n"])

    def ratios(self, kind: str, clock: str, name: str, other: str, **fields: Any) -> list[Ratio]:
        """Seconds of one over seconds of the other, for every record that has both."""
        return [
            Ratio(found, record)
            for record in self.select(kind, **fields)
            if (found := ratio(record[clock], name, other)) is not None
        ]
