"""Measure methods on the tables (`run`), write the page (`page`), learn the prior (`prior`)."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from research.common.store import write_whole
from research.studies.running import RESULTS, listed
from research.studies.tables.comparison import TableFigures, read_tables
from research.studies.tables.page import tables_page, with_readme_table
from research.studies.tables.prior import FILE, write_prior
from research.studies.tables.prior_scores import FOLDER, measure_scores
from research.studies.tables.splits import HALVES, LABELS, MODES
from research.studies.tables.study import Plan, measure_tables

ROWS = RESULTS / "tables"
PAGE = Path("docs/benchmarks/tables.md")
README = Path("README.md")


def main() -> None:
    parser = ArgumentParser("python -m research.studies.tables", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure what is not stored yet")
    run.add_argument("--methods", required=True, help="a,b or 'a; b, with a comma'")
    run.add_argument("--labels", default=",".join(map(str, LABELS)))
    run.add_argument("--modes", default="seen", help=", ".join(MODES))
    run.add_argument("--seeds", type=int, default=1, help="random splits of each table")
    run.add_argument("--jobs", type=int, default=1, help="tables measured at a time")
    run.add_argument("--half", default="both", choices=[*HALVES, "both"])
    run.add_argument("--every", type=int, default=1, help="every so-manieth table only")
    run.add_argument("--out", type=Path, default=ROWS / "rows.jsonl")
    page = commands.add_parser("page", help="write the page, and the table of README.md")
    page.add_argument("--rows", type=Path, nargs="+", help=f"by default all files of {ROWS}")
    page.add_argument("--reference", default="lpfuse", help="differences are told from it")
    page.add_argument("--out", type=Path, default=PAGE)
    prior = commands.add_parser("prior", help="learn the prior weights of the default pool")
    steps = ("measure", "learn")
    prior.add_argument("step", nargs="?", choices=steps, help="by default one after the other")
    prior.add_argument("--jobs", type=int, default=1, help="tables measured at a time")
    prior.add_argument("--scores", type=Path, default=FOLDER, help="where raw scores are stored")
    prior.add_argument("--out", type=Path, default=FILE, help="by default the file of the package")
    options = parser.parse_args()
    if options.command == "prior":
        if options.step != "learn":
            measure_scores(options.scores, jobs=options.jobs)
        if options.step != "measure":
            write_prior(options.scores, options.out)
        return
    if options.command == "page":
        rows = read_tables(options.rows or sorted(ROWS.glob("*.jsonl")))
        write_whole(options.out, tables_page(rows, options.reference))
        if options.out == PAGE and not options.rows:
            readme = README.read_text(encoding="utf-8")
            write_whole(README, with_readme_table(readme, TableFigures(rows)))
        return
    plan = Plan(
        tuple(listed(options.methods)),
        tuple(map(int, listed(options.labels))),
        tuple(mode for mode in MODES if mode in listed(options.modes)),
        options.seeds,
        options.half,
        options.every,
    )
    measure_tables(plan, options.out, jobs=options.jobs)


if __name__ == "__main__":
    main()
