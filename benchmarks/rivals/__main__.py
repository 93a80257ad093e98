"""Measure every rival on the development sets, store the results, write the page and the plot.

A run goes on where it stopped: cells (set, seed) that are stored are not measured again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.cells import measure, read_records

from .plot import draw
from .study import Record, ensembles_of, records_of
from .tables import joined, page

PAGE = Path("docs/benchmarks/rivals.md")
PLOT = Path("docs/benchmarks/rivals.png")


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.rivals", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="random splits of each set")
    parser.add_argument("--jobs", type=int, default=1, help="cells measured at a time")
    parser.add_argument("--out", type=Path, default=Path("docs/results/rivals.jsonl"))
    parser.add_argument(
        "--show", action="store_true", help="page and plot from stored results only"
    )
    options = parser.parse_args()
    ensembles = options.out.with_name(f"{options.out.stem}-ensembles{options.out.suffix}")
    if not options.show:
        measure(_cell, options.out, options.seeds, options.jobs)
        measure(_ensembles, ensembles, options.seeds, options.jobs)
    records = joined(read_records(options.out), read_records(ensembles))
    PAGE.write_text(f"{page(records)}\n![Critical differences]({PLOT.name})\n")
    draw(records, PLOT)
    print(page(records))


def _cell(*cell: object) -> list[Record]:
    return list(records_of(*cell))  # type: ignore[arg-type]


def _ensembles(*cell: object) -> list[Record]:
    return [ensembles_of(*cell)]  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
