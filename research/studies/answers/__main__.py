"""Measure methods on dirty rows and answers (`run`), write the page (`page`)."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from research.common.store import write_whole
from research.studies.answers.page import answers_page
from research.studies.answers.protocols import POINTS
from research.studies.answers.splits import COLLECTIONS
from research.studies.answers.study import Plan, measure_answers, read_answers
from research.studies.running import RESULTS, listed

ROWS = RESULTS / "answers"
PAGE = Path("docs/benchmarks/answers.md")


def main() -> None:
    parser = ArgumentParser("python -m research.studies.answers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure what is not stored yet")
    run.add_argument("protocol", choices=list(POINTS))
    run.add_argument("--methods", required=True, help="a,b or 'a; b, with a comma'")
    run.add_argument("--sets", default="anomaly", choices=list(COLLECTIONS))
    run.add_argument("--most", type=int, help="so many sets, drawn evenly; by default all")
    run.add_argument("--seeds", type=int, default=1, help="random splits of each set")
    run.add_argument("--modes", default="", help="own, one by one, lowest, random; default: all")
    run.add_argument("--jobs", type=int, default=1, help="sets measured at a time")
    run.add_argument("--out", type=Path, default=ROWS / "rows.jsonl")
    page = commands.add_parser("page", help="write the page from stored rows")
    page.add_argument("--rows", type=Path, nargs="+", help=f"by default all files of {ROWS}")
    page.add_argument("--reference", default="lpfuse", help="differences are told from it")
    page.add_argument("--out", type=Path, default=PAGE)
    options = parser.parse_args()
    if options.command == "page":
        rows = read_answers(options.rows or sorted(ROWS.glob("*.jsonl")))
        write_whole(options.out, answers_page(rows, options.reference))
        return
    plan = Plan(
        options.protocol,
        tuple(listed(options.methods)),
        options.sets,
        options.most,
        options.seeds,
        tuple(listed(options.modes)),
    )
    measure_answers(plan, options.out, jobs=options.jobs)


if __name__ == "__main__":
    main()
