"""Play the streams (`run`), write the page and its figure (`page`)."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from research.studies.regret.study import SEEDS, measure_regret, read_regret

ROWS = Path("research/results/studies/regret/rows.jsonl")
PAGE = Path("docs/benchmarks/regret.md")


def main() -> None:
    parser = ArgumentParser("python -m research.studies.regret", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure what is not stored yet")
    run.add_argument("--seeds", type=int, default=SEEDS, help="streams of each table")
    run.add_argument("--jobs", type=int, default=1, help="processes")
    run.add_argument("--out", type=Path, default=ROWS)
    page = commands.add_parser("page", help="write the page from stored rows")
    page.add_argument("--rows", type=Path, default=ROWS)
    page.add_argument("--out", type=Path, default=PAGE)
    options = parser.parse_args()
    if options.command == "run":
        measure_regret(options.out, seeds=options.seeds, jobs=options.jobs)
    else:
        _write_page(options.rows, options.out)


def _write_page(rows_file: Path, out: Path) -> None:
    # Here, for a run needs neither matplotlib nor what tables are written with.
    from research.common.drawing import figure_line
    from research.common.store import write_whole
    from research.studies.regret.figure import draw
    from research.studies.regret.page import regret_page

    rows = read_regret([rows_file])
    figure_line(out.with_suffix(".png"), lambda path: draw(rows, path))
    write_whole(out, regret_page(rows))


if __name__ == "__main__":
    main()
