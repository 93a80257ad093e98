"""Measure methods on streams (`run`), write the page and its figure (`page`).

- ``python -m research.studies.streams run --jobs 2`` measures what is not stored yet: methods on 40
  real streams of ``LPFUSE_DATA``, as they are and changed by controls that must fail, and the rate
  of alarms on simulated rows. All of it takes about half an hour on two cores.
- ``… pictures`` stores p-values of four streams, for the figure.
- ``… page`` writes ``docs/benchmarks/time.md`` from stored rows alone.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from research.studies.streams.study import (
    PICTURED,
    REPEATS,
    measure_streams,
    pictures_of,
    read_streams,
)

FOLDER = Path("research/results/studies/streams")
PAGE = Path("docs/benchmarks/time.md")


def main() -> None:
    options = _options()
    if options.command == "run":
        measure_streams(
            options.out, jobs=options.jobs, repeats=options.repeats, parts=options.methods
        )
    elif options.command == "pictures":
        from research.common.store import write_document

        write_document(FOLDER / "pictures.json", pictures_of(PICTURED))
    else:
        _write_page(options)


def _options() -> Namespace:
    parser = ArgumentParser("python -m research.studies.streams", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure what is not stored yet")
    run.add_argument("--methods", nargs="+", default=[], help="by default all")
    run.add_argument("--repeats", type=int, default=REPEATS, help="simulations of each kind")
    run.add_argument("--jobs", type=int, default=1, help="processes")
    run.add_argument("--out", type=Path, default=FOLDER / "rows.jsonl")
    commands.add_parser("pictures", help="store p-values of four streams")
    page = commands.add_parser("page", help="write the page from stored rows")
    page.add_argument("--out", type=Path, default=PAGE)
    return parser.parse_args()


def _write_page(options: Namespace) -> None:
    # Here, for a run needs neither matplotlib nor what tables are written with.
    from research.common.drawing import figure_line
    from research.common.store import read_document, write_whole
    from research.studies.streams.page import FIGURE, draw, streams_page

    rows, pictures = read_streams(FOLDER.glob("*.jsonl")), read_document(FOLDER / "pictures.json")
    figure_line(options.out.with_suffix(".png"), lambda path: draw(pictures, path), FIGURE)
    write_whole(options.out, streams_page(rows))


if __name__ == "__main__":
    main()
