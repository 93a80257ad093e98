"""Stored records as the pages ask for them, and the model of cost that they support."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from research.common.store import Record, matching, read_records

from .growth import PowerLaw
from .plan import Model

RIVAL, LEARNERS = "cvxpy_clarabel", "device_learners-*.json"
LARGE = 100_000  # rows from which tables are solved by screening


class Results:
    """Finished and failed records of all devices, and the environments behind them."""

    def __init__(self, records: Iterable[Record], rivals: Iterable[Record] = ()) -> None:
        records = list(records)
        self.environments = {r["id"]: r for r in records if r["kind"] == "environment"}
        measured = [r for r in records if r["kind"] != "environment"]
        self.records = [r for r in measured if r["status"] == "finished"]
        self.failed = [r for r in measured if r["status"] == "error"]
        self.rivals = matching([*measured, *rivals], kind="solve", rival=RIVAL)

    @classmethod
    def load(cls, folder: Path) -> Results:
        """Every file in `scaling`, CLARABEL's times from `research.speed.solver`, and learners'."""
        measured = read_records(sorted((folder / "scaling").glob("*.jsonl")))
        learners = [r for path in folder.glob(LEARNERS) for r in learner_records(path)]
        return cls([*measured, *learners], read_records(folder.glob("solver.jsonl")))

    def select(self, kind: str, **fields: Any) -> list[Record]:
        """Finished records of a kind whose fields agree with these."""
        return matching(self.records, kind=kind, **fields)

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
    stored = json.loads(path.read_text())
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
