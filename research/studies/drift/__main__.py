"""Measure watchers (`run`), hand streams to others as files (`export`, `files`), write the page.

`more` measures what needs no watcher but ours: sizes of the reference, and recalibration.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from time import monotonic

import numpy as np

from research.studies.drift.peers import PEERS
from research.studies.drift.records import kept

ROWS = Path("research/results/studies/drift")
PAGE = Path("docs/benchmarks/drift.md")
CHANGES = ("shift", "cluster", "dead", "doubled")
CALM = 100_000  # seeds of streams that do not change begin here


def main() -> None:
    options = _options()
    commands = {"run": _run, "export": _export, "files": _files, "more": _more, "page": _page}
    commands[options.command](options)


def _options() -> Namespace:
    parser = ArgumentParser("python -m research.studies.drift", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure watchers")
    export = commands.add_parser("export", help="write streams as watchers see them")
    for each in (run, export):
        each.add_argument("--calm", type=int, default=200, help="streams that do not change")
        each.add_argument("--seeds", type=int, default=40, help="streams of each change")
        each.add_argument("--bases", nargs="+", default=["gauss", "mixed"])
    run.add_argument(
        "--watchers", nargs="+", default=["lpfuse"], help=f"lpfuse, {', '.join(PEERS)}"
    )
    run.add_argument("--jobs", type=int, default=1)
    run.add_argument("--limit", type=float, help="seconds after which nothing begins")
    run.add_argument("--out", type=Path, default=ROWS / "lpfuse.jsonl")
    export.add_argument("--out", type=Path, required=True)
    files = commands.add_parser("files", help="measure a watcher on exported streams")
    files.add_argument("--streams", type=Path, required=True)
    files.add_argument("--watcher", required=True)
    files.add_argument("--out", type=Path, required=True)
    commands.add_parser("more", help="measure sizes of the reference, and recalibration")
    page = commands.add_parser("page", help="write the page from stored rows")
    page.add_argument("--out", type=Path, default=PAGE)
    return parser.parse_args()


def _streams(options: Namespace) -> list[tuple[str, str | None, int]]:
    # The calm ones first and in turns, so that a run that is cut short is of use.
    found: list[tuple[str, str | None, int]] = []
    for base in options.bases:
        found += [(base, None, CALM + seed) for seed in range(options.calm)]
        found += [(base, change, seed) for seed in range(options.seeds) for change in CHANGES]
    return sorted(found, key=lambda each: each[2] % CALM)


def _run(options: Namespace) -> None:
    from research.studies.drift.study import run

    tasks = [(name, *stream) for stream in _streams(options) for name in options.watchers]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("a", encoding="utf-8") as file:
        for records in run(tasks, options.jobs, options.limit):
            file.writelines(json.dumps(record) + "\n" for record in records)
            file.flush()


def _export(options: Namespace) -> None:
    from research.studies.drift.streams import stream
    from research.studies.drift.study import detector
    from research.studies.drift.watchers import standardised

    options.out.mkdir(parents=True, exist_ok=True)
    for base, change, seed in _streams(options):
        reference, rows = standardised(detector(base), stream(base, change, seed))
        path = options.out / f"{base}-{change or 'calm'}-{seed}.npz"
        np.savez(path, reference=reference.astype(np.float32), rows=rows.astype(np.float32))


def _files(options: Namespace) -> None:
    options.out.parent.mkdir(parents=True, exist_ok=True)
    order = sorted(
        options.streams.glob("*.npz"), key=lambda path: int(path.stem.split("-")[2]) % CALM
    )
    with options.out.open("a", encoding="utf-8") as file:
        for path in order:
            base, named, seed = path.stem.split("-")
            change = None if named == "calm" else named
            with np.load(path) as held:
                reference, rows = (held[name].astype(np.float64) for name in ("reference", "rows"))
            began = monotonic()
            numbers = PEERS[options.watcher](reference, rows)
            about = {"watcher": options.watcher, "base": base, "change": change, "seed": int(seed)}
            seconds = {"seconds": round(monotonic() - began, 3)}
            file.write(json.dumps(about | seconds | kept(numbers, change)) + "\n")
            file.flush()


def _more(options: Namespace) -> None:
    from research.studies.drift import recalibration, reference_size

    for module in (reference_size, recalibration):
        path = ROWS / f"{module.__name__.rpartition('.')[2]}.json"
        path.write_text(json.dumps(module.measure(), indent=0) + "\n", encoding="utf-8")


def _page(options: Namespace) -> None:
    # Here, for a run needs neither matplotlib nor what tables are written with.
    from research.common.drawing import figure_line
    from research.common.store import write_whole
    from research.studies.drift.page import FIGURE, draw, drift_page, read_more, read_rows

    rows = read_rows(sorted(ROWS.glob("*.jsonl")))
    figure_line(options.out.with_suffix(".png"), lambda path: draw(rows, path), FIGURE)
    write_whole(options.out, drift_page(rows, read_more(ROWS)))


if __name__ == "__main__":
    main()
