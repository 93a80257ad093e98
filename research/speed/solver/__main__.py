"""``python -m research.speed.solver [run | stress | tables] …``; ``run`` by default."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from research.common.machine import cores
from research.rivals import solvers as rivals
from research.speed.records import number

from . import campaign
from .measure import ONCE_FROM
from .problems import ALL_P, LEARNERS, NEGATIVE_FRACTION, SIZES

RESULTS = Path("research/results/speed")
PARTS = ("grid", "memory", "path", "banknotes")
QUICK = {"n": [1_000], "R": [4, 36], "p": ["32/31", "2", "100"], "time_limit": 10.0, "repeats": 3}


def main(arguments: list[str]) -> None:
    command = arguments[0] if arguments and arguments[0] in COMMANDS else "run"
    rest = arguments[1:] if arguments and arguments[0] == command else arguments
    COMMANDS[command](rest)


def run_command(arguments: list[str]) -> None:
    from .run import run

    parser = argparse.ArgumentParser(
        "python -m research.speed.solver [run]", description=run.__doc__
    )
    parser.add_argument("--n", type=number, nargs="+", default=list(SIZES))
    parser.add_argument("--R", type=int, nargs="+", default=list(LEARNERS))
    parser.add_argument("--p", nargs="+", choices=ALL_P, default=list(ALL_P))
    parser.add_argument(
        "--setting", nargs="+", choices=list(NEGATIVE_FRACTION), default=list(NEGATIVE_FRACTION)
    )
    parser.add_argument("--rivals", nargs="+", choices=rivals.names(), default=rivals.names())
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--gap", type=float, default=1e-8, help="relative gap the judge asks for")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds a run")
    parser.add_argument("--repeats", type=int, default=15, help="at most; slow runs get fewer")
    parser.add_argument("--threads", type=int, default=cores(), help="BLAS and OpenMP threads")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--once-from", type=float, default=ONCE_FROM, help="seconds of a run that is not repeated"
    )
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="into a new file that replaces the stored one at the end: rows of one commit",
    )
    parser.add_argument(
        "--campaign", action="store_true", help="what the page is made of: an hour of one core"
    )
    parser.add_argument("--stage", type=int, nargs="+", help="only these stages of a campaign")
    parser.add_argument("--commit", help="what is measured, where git cannot tell")
    parser.add_argument("--note", help="what else the page should say of the surroundings")
    parser.add_argument("--redo", action="store_true", help="measure again what is stored")
    parser.add_argument("--quick", action="store_true", help="a small grid: a few minutes")
    parser.add_argument("--out", type=Path, default=RESULTS / "solver.jsonl")
    if "--quick" in arguments:
        parser.set_defaults(**QUICK)
    if "--campaign" in arguments:
        parser.set_defaults(**campaign.DEFAULTS)
    run(parser.parse_args(arguments))


def stress_command(arguments: list[str]) -> None:
    from .stress import run_stress

    parser = argparse.ArgumentParser("python -m research.speed.solver stress")
    parser.add_argument("--gap", type=float, default=1e-8)
    parser.add_argument("--every", type=int, default=1, help="only every k-th problem")
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--out", type=Path, default=RESULTS / "stress.json")
    options = parser.parse_args(arguments)
    run_stress(options.out, options.gap, options.every, options.threads)


def tables_command(arguments: list[str]) -> None:
    from .tables import write_tables

    parser = argparse.ArgumentParser("python -m research.speed.solver tables")
    parser.add_argument(
        "results",
        type=Path,
        nargs="*",
        default=[RESULTS / "solver.jsonl", RESULTS / "stress.json"],
        help="files or folders",
    )
    parser.add_argument("-o", "--out", type=Path, default=Path("docs/benchmarks/solver.md"))
    options = parser.parse_args(arguments)
    write_tables(options.results, options.out)


COMMANDS = {"run": run_command, "stress": stress_command, "tables": tables_command}

if __name__ == "__main__":
    main(sys.argv[1:])
