"""`lpfuse watch` beside `lpfuse score`: ``python -m research.speed.watch``.

Both judge the same rows of one CSV file with one model, in one process, taking turns; and one watch
follows ten million rows, of which the resident memory is written down as they pass. Results are
records in ``research/results/speed/watch.jsonl``; ``page`` writes ``docs/benchmarks/watch.md``.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import numpy as np
import polars as pl

from lpfuse.tables import TableModel, load_model, score_file
from lpfuse.watch import watch
from research.common.machine import environment
from research.common.store import Record, RecordStore, read_records, write_whole
from research.speed.records import number
from research.speed.score_file import TRAINING, table

ROOT = Path(__file__).parents[2]
STORE = ROOT / "research" / "results" / "speed" / "watch.jsonl"
PAGE = ROOT / "docs" / "benchmarks" / "watch.md"
ASKED = ("kind", "model", "rows", "jobs", "repeat")
PACKAGES = ("lpfuse", "numpy", "polars", "scikit-learn")
# Models by what a row costs; chosen by hand.
MODELS = ("three scores, fused", "gmm and histogram, 10 columns", "default pool, 10 columns")


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["ratio", "memory", "page"])
    parser.add_argument("--rows", type=number, default=200_000)
    parser.add_argument("--model", choices=MODELS, default=MODELS[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if options.part == "page":
        write_whole(PAGE, page(read_records([STORE], ASKED)))
        return
    store = RecordStore(STORE, environment(1, PACKAGES), ASKED)
    with TemporaryDirectory() as name:
        folder = Path(name)
        model, data = prepared(folder, options.model, options.rows)
        if options.part == "ratio":
            ratio(store, folder, model, data, options)
        else:
            memory(store, folder, model, data, options)


def prepared(folder: Path, name: str, rows: int) -> tuple[Path, Path]:
    """A model, and a file of rows for it."""
    model, data = folder / "model.lpfuse", folder / "data.csv"
    rng = np.random.default_rng(0)
    make: Callable[[int], pl.DataFrame]
    if name == MODELS[0]:
        make = lambda n: pl.DataFrame(rng.normal(size=(n, 3)).round(5), schema=["a", "b", "c"])
        TableModel.fuse(make(5_000)).save(model)
    else:
        make = lambda n: table(rng, n, 0).drop("state")
        detectors = ["gmm", "histogram"] if name == MODELS[1] else None
        TableModel.fit(make(TRAINING), detectors=detectors).save(model)
    with data.open("wb") as file:
        for first in range(0, rows, 500_000):
            part = make(min(500_000, rows - first))
            part.write_csv(file, include_header=first == 0)
    return model, data


def ratio(store: RecordStore, folder: Path, model: Path, data: Path, options: Any) -> None:
    """Seconds of both, on the wall and of CPU, taking turns."""
    loaded = load_model(model)

    def score() -> None:
        score_file(loaded, data, folder / "scores.csv", jobs=options.jobs)

    def follow() -> None:
        (folder / "verdicts.csv").unlink(missing_ok=True)
        rmtree(folder / "verdicts.csv.watch", ignore_errors=True)
        page = folder / "status.html"
        watch(model, data, folder / "verdicts.csv", once=True, jobs=options.jobs, page=page)

    for repeat in range(options.repeats):
        record: Record = {
            "kind": "ratio", "model": options.model, "rows": options.rows, "jobs": options.jobs,
            "repeat": repeat,
        }  # fmt: skip
        turns = [("score", score), ("watch", follow)]
        for name, action in turns if repeat % 2 == 0 else turns[::-1]:
            wall, cpu = perf_counter(), process_time()
            action()
            record |= {f"{name}_s": perf_counter() - wall, f"{name}_cpu_s": process_time() - cpu}
        store.append(record)
        print(record, flush=True)


def memory(store: RecordStore, folder: Path, model: Path, data: Path, options: Any) -> None:
    """Resident memory as rows pass, a figure for each hundredth of them."""
    marks: list[list[float]] = []

    def tell(told: Any) -> None:
        rows = told.tally.rows
        if not marks or rows >= (len(marks) + 1) * options.rows / 100:
            marks.append([rows, resident()])

    start = perf_counter()
    page = folder / "status.html"
    watch(model, data, folder / "verdicts.csv", once=True, jobs=options.jobs, page=page, tell=tell)
    store.append(
        {
            "kind": "memory", "model": options.model, "rows": options.rows, "jobs": options.jobs,
            "repeat": 0, "seconds": perf_counter() - start, "resident_mib": marks,
        }
    )  # fmt: skip
    print(marks[:3], marks[-3:])


def resident() -> float:
    """MiB of main memory that this process holds now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


# -------------------------------------------------------------------------------------------- page


def page(records: list[Record]) -> str:
    """The stored records as tables."""
    lines = [
        "# Rows that keep coming", "",
        "Written by `python -m research.speed.watch page` from stored results: do not edit by hand.",
        "", "## `lpfuse watch` beside `lpfuse score`", "",
        "The same CSV file, the same model, one process, taking turns; `watch` with its status page, "
        "its monitor of drift and", "its state on disk. Medians over repeats; the share is the median "
        "over the repeats of the quotient of both. Wall: by the",
        "clock, on two cores that others used as well; CPU: seconds that the process worked.", "",
        "| model | rows | jobs | repeats | `score`, rows a second | `watch`, rows a second | share, wall | share, CPU | goal, 80 % |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    ratios = [r for r in records if r["kind"] == "ratio"]
    for key in dict.fromkeys((r["model"], r["rows"], r["jobs"]) for r in ratios):
        these = [r for r in ratios if (r["model"], r["rows"], r["jobs"]) == key]
        wall = median(r["score_s"] / r["watch_s"] for r in these)
        cpu = median(r["score_cpu_s"] / r["watch_cpu_s"] for r in these)
        scored, followed = (median(r["rows"] / r[f"{n}_s"] for r in these) for n in ("score", "watch"))
        met = "met" if min(wall, cpu) >= 0.8 else "**not met**"
        lines.append(
            f"| {key[0]} | {key[1]:,} | {key[2]} | {len(these)} | {scored:,.0f} | {followed:,.0f} | "
            f"{wall:.0%} | {cpu:.0%} | {met} |"
        )
    lines += ["", "## Memory", "", "Resident memory of the process while one watch follows a file.", "",
              "| model | rows | jobs | seconds | after 10 % | after half | at the end | most |",
              "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for r in (r for r in records if r["kind"] == "memory"):
        held = [mib for _, mib in r["resident_mib"]]
        tenth, half = held[len(held) // 10], held[len(held) // 2]
        lines.append(
            f"| {r['model']} | {r['rows']:,} | {r['jobs']} | {r['seconds']:,.0f} | {tenth:.0f} MiB | "
            f"{half:.0f} MiB | {held[-1]:.0f} MiB | {max(held):.0f} MiB |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
