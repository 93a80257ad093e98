"""Measure false alarms (`run`), write the page and its figure (`page`)."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from research.studies.alarms.study import MOST_TABLES, REPS, Plan, measure_alarms, read_alarms

ROWS = Path("research/results/studies/alarms")
PAGE = Path("docs/benchmarks/false-alarms.md")


def main() -> None:
    options = _options()
    if options.command == "page":
        _write_page(options)
        return
    plan = Plan(
        tuple(options.cells),
        dict(zip(REPS, _three(options.reps), strict=True)),
        options.tables,
        options.version,
        options.calibration,
    )
    if options.count:
        print(f"{len(plan.tasks())} repetitions")
        return
    measure_alarms(plan, options.out, jobs=options.jobs, limit=options.limit)


def _options() -> Namespace:
    parser = ArgumentParser("python -m research.studies.alarms", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure what is not stored yet")
    run.add_argument(
        "--cells", nargs="+", default=[], help="t2:60:0, cats:200, '*:*:30'; by default all"
    )
    told = ",".join(map(str, REPS.values()))
    run.add_argument(
        "--reps", default=told, help=f"below 5,000 rows, below 20,000, from there on; {told}"
    )
    run.add_argument("--tables", type=int, default=MOST_TABLES, help="real tables at each size")
    run.add_argument("--version", default="now", help="what rows call the state of the library")
    run.add_argument("--calibration", help="passed to the detector; by default its own")
    run.add_argument("--jobs", type=int, default=1, help="processes")
    run.add_argument("--limit", type=float, help="seconds; nothing begins that would end later")
    run.add_argument("--out", type=Path, default=ROWS / "rows.jsonl")
    run.add_argument("--count", action="store_true", help="only tell how many repetitions")
    page = commands.add_parser("page", help="write the page from stored rows")
    page.add_argument("--rows", type=Path, nargs="+", help=f"by default all files of {ROWS}")
    page.add_argument("--out", type=Path, default=PAGE)
    return parser.parse_args()


def _three(reps: str) -> list[int]:
    """Repetitions by size; the last one given stands for those that are not."""
    given = [int(part) for part in reps.split(",")]
    return (given + given[-1:] * len(REPS))[: len(REPS)]


def _write_page(options: Namespace) -> None:
    # Here, for a run needs neither matplotlib nor what tables are written with.
    from research.common.drawing import figure_line
    from research.common.store import write_whole
    from research.studies.alarms.figure import draw
    from research.studies.alarms.page import PICTURED, alarms_page

    rows = read_alarms(options.rows or sorted(ROWS.glob("*.jsonl")))
    figure_line(options.out.with_suffix(".png"), lambda path: draw(rows, path), PICTURED)
    write_whole(options.out, alarms_page(rows))


if __name__ == "__main__":
    main()
