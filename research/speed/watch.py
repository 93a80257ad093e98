"""`lpfuse watch` beside `lpfuse score`: ``python -m research.speed.watch``.

Both judge the same rows of one CSV file with one model, in one process, taking turns; and one watch
follows ten million rows, of which the resident memory is written down as they pass. Results are
records in ``research/results/speed/watch.jsonl``; ``page`` writes ``docs/benchmarks/watch.md``.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import numpy as np
import polars as pl

from lpfuse_cli.fitting import fit_table, fuse_table
from lpfuse_cli.scoring import load_model, score_file
from lpfuse_cli.watch import watch
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

    def make(n: int) -> pl.DataFrame:
        if name == MODELS[0]:
            return pl.DataFrame(rng.normal(size=(n, 3)).round(5), schema=["a", "b", "c"])
        return table(rng, n, 0).drop("state")

    if name == MODELS[0]:
        fuse_table(make(5_000)).save(model)
    else:
        detectors = ["gmm", "histogram"] if name == MODELS[1] else None
        fit_table(make(TRAINING), detectors=detectors).save(model)
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

    def on_batch(progress: Any) -> None:
        rows = progress.tally.rows
        if not marks or rows >= (len(marks) + 1) * options.rows / 100:
            marks.append([rows, resident()])

    start = perf_counter()
    page = folder / "status.html"
    watch(
        model, data, folder / "verdicts.csv", once=True, jobs=options.jobs, page=page,
        on_batch=on_batch,
    )  # fmt: skip
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


HEAD = """# Rows that keep coming

Written by `python -m research.speed.watch page` from stored results: do not edit by hand.

## `lpfuse watch` beside `lpfuse score`

The same CSV file, the same model, one process, taking turns; `watch` with its status page, its
monitor of drift and its state on disk, loading its model each time. Medians over repeats; a share
is the median over the repeats of the quotient of both. Wall: by the clock, on two cores that
others used as well; CPU: seconds that the process worked.
"""
RATIO_HEAD = (
    "model", "rows", "jobs", "repeats", "`score`, rows a second", "`watch`, rows a second",
    "share, wall", "share, CPU", "goal: 80 %",
)  # fmt: skip
MEMORY_HEAD = ("model", "rows", "jobs", "seconds", "after 10 %", "after half", "at the end", "most")


def page(records: list[Record]) -> str:
    """The stored records as tables."""
    ratios = [r for r in records if r["kind"] == "ratio"]
    keys = dict.fromkeys((r["model"], r["rows"], r["jobs"]) for r in ratios)
    shares = [
        _shares([r for r in ratios if (r["model"], r["rows"], r["jobs"]) == key]) for key in keys
    ]
    held = [_held(r) for r in records if r["kind"] == "memory"]
    parts = [HEAD, markdown(RATIO_HEAD, shares)]
    parts += ["\n## Memory\n\nResident memory of the process while one watch follows a file.\n"]
    return "\n".join([*parts, markdown(MEMORY_HEAD, held)]) + "\n"


def markdown(head: Sequence[str], rows: list[list[str]]) -> str:
    lines = [list(head), ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _shares(these: list[Record]) -> list[str]:
    wall = median(r["score_s"] / r["watch_s"] for r in these)
    cpu = median(r["score_cpu_s"] / r["watch_cpu_s"] for r in these)
    rates = (median(r["rows"] / r[f"{name}_s"] for r in these) for name in ("score", "watch"))
    asked = these[0]
    return [
        asked["model"], f"{asked['rows']:,}", str(asked["jobs"]), str(len(these)),
        *(f"{rate:,.0f}" for rate in rates), f"{100 * wall:.0f} %", f"{100 * cpu:.0f} %",
        "met" if min(wall, cpu) >= 0.8 else "**not met**",
    ]  # fmt: skip


def _held(record: Record) -> list[str]:
    mib = [held for _, held in record["resident_mib"]]
    some = (mib[len(mib) // 10], mib[len(mib) // 2], mib[-1], max(mib))
    asked = [record["model"], f"{record['rows']:,}", str(record["jobs"])]
    return [*asked, f"{record['seconds']:,.0f}", *(f"{each:.0f} MiB" for each in some)]


if __name__ == "__main__":
    main()
