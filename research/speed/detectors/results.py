"""Stored records as the tables ask for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from research.common.clock import ratio
from research.common.store import Record, read_records
from research.speed.records import Records


class Ratio(NamedTuple):
    """A ratio and the record that it comes from."""

    value: float
    record: Record

    @property
    def where(self) -> str:
        return f"n = {self.record['n']:,}, {self.record['setting']}"


class Results(Records):
    """The finished records of one thread count, and the environments behind them."""

    def __init__(self, records: Iterable[Record]) -> None:
        super().__init__(records, same_threads=True)
        self.failed = [r for r in self.records if r["status"] != "finished"]
        self.records = [r for r in self.records if r["status"] == "finished"]

    @classmethod
    def load(cls, paths: Sequence[Path]) -> Results:
        return cls(read_records(path for path in paths if path.is_file()))

    def select(self, kind: str, **fields: Any) -> list[Record]:
        """Records of a kind whose fields agree with these, small n first."""
        return sorted(super().select(kind, **fields), key=lambda r: r["n"])

    def ratios(self, kind: str, clock: str, name: str, other: str, **fields: Any) -> list[Ratio]:
        """Seconds of one over seconds of the other, for every record that has both."""
        return [
            Ratio(found, record)
            for record in self.select(kind, **fields)
            if (found := ratio(record[clock], name, other)) is not None
        ]
