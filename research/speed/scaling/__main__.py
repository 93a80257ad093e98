"""Command line: ``python -m research.speed.scaling cpu | device | passes | dask | tables``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from research.speed.records import number
from research.speed.solver.problems import ALL_P, NEGATIVE_FRACTION

RESULTS = Path("research/results/speed/scaling")
SETTINGS = tuple(NEGATIVE_FRACTION)


def main(arguments: list[str]) -> None:
    if not arguments or arguments[0] not in COMMANDS:
        raise SystemExit(f"python -m research.speed.scaling {' | '.join(COMMANDS)}")
    COMMANDS[arguments[0]](arguments[1:])


def cpu_command(arguments: list[str]) -> None:
    from .cpu import LEARNERS, MAPPED_ROWS, PARTS, SIZES, run

    parser = command("cpu", "cost growth at one and two threads, and a fit from np.memmap")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--n", type=number, nargs="+", default=list(SIZES))
    parser.add_argument("--R", type=int, nargs="+", default=list(LEARNERS))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--mapped", type=number, default=MAPPED_ROWS, help="rows of the file")
    parser.add_argument("--repeats", type=int, default=15, help="at most; slow fits get fewer")
    parser.add_argument("--redo", action="store_true", help="measure again what is stored")
    parser.add_argument("--folder", type=Path, help="where the file lies; else a temporary one")
    run(parser.parse_args(arguments))


def device_command(arguments: list[str]) -> None:
    from .device import PARTS, run

    parser = command("device", "fits on a GPU, or on torch's CPU where there is none")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--n", type=number, help="rows of scores")
    parser.add_argument("--p", nargs="+", choices=ALL_P, default=list(ALL_P))
    parser.add_argument("--repeats", type=int, default=15, help="at most; slow calls get fewer")
    parser.add_argument("--commit", help="what is measured, where git cannot tell")
    run(parser.parse_args(arguments))


def passes_command(arguments: list[str]) -> None:
    from .device_passes import PARTS, run

    parser = command("passes", "passes on a GPU within fits: entrance, passes, host")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--n", type=number, help="rows of scores")
    parser.add_argument("--p", nargs="+", choices=ALL_P, default=list(ALL_P))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--commit", help="what is measured, where git cannot tell")
    run(parser.parse_args(arguments))


def dask_command(arguments: list[str]) -> None:
    from .cluster import BLOCK_ROWS, FIXED_ROWS, GOAL_ROWS, ROWS_EACH, TASKS, WORKERS, run

    parser = command("dask", "fits over processes: rows fixed, rows in proportion, and 1e7 rows")
    parser.add_argument("--workers", type=int, nargs="+", default=list(WORKERS))
    parser.add_argument("--rows", type=number, default=FIXED_ROWS, help="for any number of workers")
    parser.add_argument("--rows-each", type=number, default=ROWS_EACH, help="rows a worker")
    parser.add_argument("--goal-rows", type=number, default=GOAL_ROWS, help="0: left out")
    parser.add_argument("--block-rows", type=number, default=BLOCK_ROWS)
    parser.add_argument("--tasks", type=number, default=TASKS, help="that do nothing, to be timed")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--redo", action="store_true", help="measure again what is stored")
    parser.add_argument("--folder", type=Path, help="where files lie; else a temporary one")
    run(parser.parse_args(arguments))


def tables_command(arguments: list[str]) -> None:
    from .results import Results
    from .tables import write_tables

    parser = argparse.ArgumentParser("python -m research.speed.scaling tables")
    parser.add_argument("results", type=Path, nargs="?", default=RESULTS.parent, help="a folder")
    parser.add_argument("-o", "--out", type=Path, default=Path("docs/benchmarks/scaling.md"))
    parser.add_argument("--guide", type=Path, default=Path("docs/scaling.md"))
    options = parser.parse_args(arguments)
    write_tables(Results.load(options.results), options.out, options.guide)


def command(name: str, told: str) -> argparse.ArgumentParser:
    """What all measuring commands take."""
    parser = argparse.ArgumentParser(f"python -m research.speed.scaling {name}", description=told)
    parser.add_argument("--setting", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    return parser


COMMANDS = {
    "cpu": cpu_command,
    "device": device_command,
    "passes": passes_command,
    "dask": dask_command,
    "tables": tables_command,
}

if __name__ == "__main__":
    main(sys.argv[1:])
