"""Command line: ``python -m research.speed.rows [PART ...]``, with the parts in `PARTS`.

``python -m research.speed.rows page`` writes the page. Nothing that imports lpfuse is imported up
here: processes that measure another version of it begin with this file.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

RESULTS = Path("research/results/speed/rows.jsonl")
PAGE = Path("docs/benchmarks/rows.md")
PARTS = ("budget", "growth", "one-row", "before", "large", "samples")
SIZES: dict[str, Any] = {
    "columns": 16, "growth_columns": 20, "labels": [0, 20, 100], "row_labels": [0, 20],
    "budget_n": [200, 1200, 5000, 20_000],
    "growth_n": [500, 1000, 2000, 5000, 20_000, 50_000, 200_000],
    "row_n": [300, 1200], "large_n": [200_000], "samples_n": [50_000], "samples_seeds": 2,
    "before_cells": [(1200, 0), (1200, 20), (1200, 100), (20_000, 20)],
    "predicted": 10_000, "single": 200,
}  # fmt: skip
QUICK: dict[str, Any] = {
    "columns": 7, "growth_columns": 7, "labels": [0, 20], "row_labels": [0, 20],
    "budget_n": [60], "growth_n": [60, 90], "row_n": [60], "large_n": [120],
    "samples_n": [100], "samples_seeds": 1,
    "before_cells": [(60, 0)], "predicted": 40, "single": 10,
}  # fmt: skip


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["page"]:
        page_command(arguments[1:])
    else:
        from .run import run

        run(run_options(arguments))


def run_options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m research.speed.rows")
    told = f"{', '.join(PARTS)}; all of them where none is named"
    parser.add_argument("parts", nargs="*", type=_part, metavar="part", help=told)
    parser.add_argument("--before", type=Path, help="a checkout of another version of lpfuse")
    parser.add_argument("--repeats", type=int, help="at most, 7; slow runs get fewer")
    parser.add_argument("--time-limit", type=float, default=300.0, help="seconds a turn in growth")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--redo", action="store_true", help="measure again what is stored")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does everything work?")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    options.parts = options.parts or list(PARTS)
    options.repeats = options.repeats or (1 if options.quick else 7)
    options.out = options.out or (Path("build/rows-quick.jsonl") if options.quick else RESULTS)
    return argparse.Namespace(**vars(options), **(QUICK if options.quick else SIZES))


def _part(name: str) -> str:
    """A part by its name; argparse's own `choices` would refuse to be given none."""
    if name not in PARTS:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(PARTS)}, page")
    return name


def page_command(arguments: list[str]) -> None:
    from .results import Results
    from .tables import write_page

    parser = argparse.ArgumentParser("python -m research.speed.rows page")
    parser.add_argument("results", type=Path, nargs="*", default=[RESULTS])
    parser.add_argument("-o", "--out", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    write_page(Results.load(options.results), options.out)


if __name__ == "__main__":
    main(sys.argv[1:])
