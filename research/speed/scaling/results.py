"""Stored records as the pages ask for them, and the model of cost that they support."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from research.common.store import Record, matching, read_document, read_records
from research.speed.records import Records

from .growth import PowerLaw
from .plan import Model

RIVAL, LEARNERS = "cvxpy_clarabel", "device_learners-*.json"
LARGE = 100_000  # rows from which tables are solved by screening


class Results(Records):
    """Finished and failed records of all devices, and the environments behind them."""

    def __init__(self, records: Iterable[Record], rivals: Iterable[Record] = ()) -> None:
        super().__init__(records)
        self.rivals = matching([*self.records, *rivals], kind="solve", rival=RIVAL)
        self.failed = [r for r in self.records if r["status"] == "error"]
        self.records = [r for r in self.records if r["status"] == "finished"]

    @classmethod
    def load(cls, folder: Path) -> Results:
        """Every file in `scaling`, CLARABEL's times from `research.speed.solver`, and learners'."""
        measured = read_records(sorted((folder / "scaling").glob("*.jsonl")))
        learners = [r for path in folder.glob(LEARNERS) for r in learner_records(path)]
        return cls([*measured, *learners], read_records(folder.glob("solver.jsonl")))

    def devices(self, kind: str) -> list[str]:
        """Names of the devices that such records come from."""
        return list(dict.fromkeys(r["device"] for r in self.select(kind)))

    def cells(self, **fields: Any) -> dict[tuple[int, int], list[Record]]:
        """Fits on the CPU by n and R, over all p."""
        found: dict[tuple[int, int], list[Record]] = {}
        for record in self.select("cpu-solve", **fields):
            found.setdefault((record["n"], record["R"]), []).append(record)
        return dict(sorted(found.items()))

    def growth(self, least: int = LARGE, **fields: Any) -> PowerLaw | None:
        """The power law through medians over p, n from `least` on; None where they are few."""
        cells = [(n, R, median_of(found)) for (n, R), found in self.cells(**fields).items()]
        large = [cell for cell in cells if cell[0] >= least]
        try:
            n, R, seconds = zip(*large, strict=True)
            return PowerLaw.fitted(n, R, seconds)
        except ValueError:
            return None

    def dask_model(self) -> Model | None:
        """From fits on Parquet whose workers had a core each; None where there are none."""
        found = [
            r
            for r in self.select("dask-fit", form="parquet")
            if r["workers"] <= self.environments[r["environment"]]["cores"]
        ]
        tasks = self.select("dask-task")
        in_memory = self.growth(setting="negatives", threads=1)
        if len(found) < 2 or not tasks or in_memory is None:
            return None
        return Model.fitted(found, max(r["seconds"] for r in tasks), in_memory)

    def rival_seconds(self, record: Record) -> tuple[float, bool] | None:
        """CLARABEL's time to the same gap on the same scores, and whether it is a lower bound."""
        same = {name: record[name] for name in ("n", "R", "setting", "seed", "p", "gap")}
        times = [
            (r["seconds"], False) if r["status"] == "accepted" else (r["time_limit"], True)
            for r in matching(self.rivals, **same)
            if r["status"] in ("accepted", "time")
        ]
        return min(times, default=None)


def learner_records(path: Path) -> Iterator[Record]:
    """What `research.speed.device_learners` stored, in the words of the records here."""
    stored = read_document(path)
    environment = stored["environment"]
    yield {"kind": "environment", **environment}
    for r in stored["records"]:
        how = f"{r['task']} {r['landmarks']:,}" if r["landmarks"] else r["task"]
        yield {
            "kind": "device-learner", "device": environment["device"], "n": r["n"], "R": r["d"],
            "dtype": r["dtype"], "form": f"{r['learner']}, {how}", "seconds": r.get("seconds"),
            "rows_a_second": r.get("scored_a_second"), "peak_bytes": r.get("peak_bytes"),
            "status": "error" if "error" in r else "finished", "message": r.get("error"),
            "environment": environment["id"],
        }  # fmt: skip


def median_of(records: Iterable[Record], field: str = "seconds") -> float:
    return median(record[field] for record in records)
