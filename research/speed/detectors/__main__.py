"""Command line: ``python -m research.speed.detectors [run | tables] …`` (``run`` by default)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from research.common.machine import cores
from research.rivals.detectors._tasks import PAPER_COMPONENTS
from research.speed.records import number

from .data import SHAPES
from .scoring import LEARNERS

RESULTS = Path("research/results/speed/detectors.jsonl")
PARTS = ("svdd", "kpca", "grid", "score-rows", "past-memory")
QUICK: dict[str, Any] = {
    "svdd_n": [200], "svdd_d": [4], "nu": [0.1], "kpca_n": [120], "kpca_d": 4,
    "shapes": ["clusters"], "grid_n": [60], "grid_d": 4, "components": [2, 6],
    "score_rows": 200, "rows": 2000, "train_n": 100, "rows_d": 4, "past_n": 24_000, "past_d": 4,
    "n_components": [20], "past_score_rows": 500, "exact_rows": 200, "repeats": 2,
    "out": Path("build/detectors-quick.jsonl"),
}  # fmt: skip


def main(arguments: list[str]) -> None:
    command = arguments[0] if arguments and arguments[0] in COMMANDS else "run"
    rest = arguments[1:] if arguments and arguments[0] == command else arguments
    COMMANDS[command](rest)


def run_command(arguments: list[str]) -> None:
    from .run import run

    run(run_options(arguments))


def run_options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m research.speed.detectors [run]")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--repeats", type=int, default=31, help="at most; slow runs get fewer")
    parser.add_argument("--threads", type=int, default=cores(), help="for everyone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time-limit", type=float, default=7200.0, help="seconds a cell")
    parser.add_argument("--redo", action="store_true", help="measure again what is stored")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does everything work?")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--tol", type=float, default=1e-3, help="of libsvm")
    parser.add_argument(
        "--shapes", nargs="+", choices=SHAPES, default=list(SHAPES), help="of svdd and kpca"
    )
    parser.add_argument("--score-rows", type=number, default=10_000, help="after each fit")
    group = parser.add_argument_group("svdd")
    group.add_argument("--svdd-n", type=number, nargs="+", default=[500, 1000, 2000, 5000, 10_000])
    group.add_argument("--svdd-d", type=int, nargs="+", default=[8, 32])
    group.add_argument("--nu", type=float, nargs="+", default=[0.05, 0.1, 0.3])
    group = parser.add_argument_group("kpca")
    group.add_argument("--kpca-n", type=number, nargs="+", default=[1000, 2000, 5000, 10_000])
    group.add_argument("--kpca-d", type=int, default=16)
    group.add_argument("--q", type=int, default=10)
    group = parser.add_argument_group("grid")
    group.add_argument("--grid-n", type=number, nargs="+", default=[250, 500, 1000, 2000])
    group.add_argument("--grid-d", type=int, default=8)
    group.add_argument("--components", type=int, nargs="+", default=list(PAPER_COMPONENTS))
    group = parser.add_argument_group("score-rows")
    group.add_argument("--rows", type=number, default=1_000_000)
    group.add_argument("--train-n", type=number, default=2000)
    group.add_argument("--rows-d", type=int, default=16)
    group.add_argument("--learners", nargs="+", choices=list(LEARNERS), default=list(LEARNERS))
    group = parser.add_argument_group("past-memory")
    group.add_argument("--past-n", type=number, default=500_000)
    group.add_argument("--past-d", type=int, default=64)
    group.add_argument("--n-components", type=int, nargs="+", default=[500, 1000])
    group.add_argument("--past-score-rows", type=number, default=100_000)
    group.add_argument("--exact-rows", type=number, default=5000, help="to compare quality with")
    if "--quick" in arguments:
        parser.set_defaults(**QUICK)
    return parser.parse_args(arguments)


def tables_command(arguments: list[str]) -> None:
    from .tables import write_tables

    parser = argparse.ArgumentParser("python -m research.speed.detectors tables")
    parser.add_argument("results", type=Path, nargs="*", default=[RESULTS])
    parser.add_argument("-o", "--out", type=Path, default=Path("docs/benchmarks/detectors.md"))
    options = parser.parse_args(arguments)
    write_tables(options.results, options.out)


COMMANDS = {"run": run_command, "tables": tables_command}

if __name__ == "__main__":
    main(sys.argv[1:])
