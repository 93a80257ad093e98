"""Does the gap of the paper's Algorithm 1 fall as 1/T? Part of ``lpfuse reproduce claims``.

The rate that the paper quotes is proven for smooth losses, and the hinge is not smooth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lpfuse.optim import Problem, solve
from lpfuse.optim.frank_wolfe import frank_wolfe
from research.common.comparison import Figures
from research.common.drawing import figure_line
from research.common.experiment import measure_splits
from research.common.measure import measure
from research.common.options import Options
from research.common.protocol import SETTINGS
from research.common.splits import Split
from research.common.store import Cell, Row, protocol_hash, read_rows, write_whole
from research.paper.convergence_page import EXAMPLE, METHODS, convergence_page, draw, figures
from research.paper.weights import paper_problem

__all__ = ["figures", "measured", "run", "split_rows"]

STEPS = (10, 32, 100, 316, 1_000, 3_162, 10_000)
MORE_STEPS = (*STEPS, 31_623, 100_000)  # for the counterexample
QUICK_STEPS = STEPS[:5]

# Two scores of two learners, p = 2. The optimum is at w = (√3, 1) / 2, where the first row's hinge
# has its kink.
COUNTEREXAMPLE = np.array([[0.0, 2.0], [0.5, 0.0]])
OPTIMUM = 1.0 - np.sqrt(3.0) / 4.0


def run(options: Options) -> str:
    """Measure what is missing, write results, page and figure, and return the page.

    One split of each data set is enough: it gives a case for each p and setting.
    """
    rows = measured(options)
    picture = figure_line(
        options.page_folder / "convergence.png",
        partial(draw, rows),
        "Gap against the number of steps: the counterexample, then every case of each variant",
    )
    scope = Figures([row for row in rows if row["set"] != EXAMPLE], options.quick).scope
    text = convergence_page(rows, picture, scope)
    write_whole(options.page_folder / "convergence.md", text)
    return text


def measured(options: Options) -> list[Row]:
    """The rows, for `figures`: measured where they are not stored."""
    steps = QUICK_STEPS if options.quick else STEPS
    return [
        *_counterexample(options),
        *measure_splits(
            "convergence", partial(split_rows, steps=steps), replace(options, seeds=1), steps=steps
        ),
    ]


def split_rows(parts: Split, steps: Sequence[int] = STEPS) -> list[Row]:
    """True gaps for every p of the protocol, in both settings."""
    rows: list[Row] = []
    for setting in SETTINGS:
        problem, _ = paper_problem(parts.training(setting))
        for p in parts.protocol.ps:
            of_p = problem.with_ball(p)
            bound = solve(of_p, tol=1e-12).certificate.dual
            rows += [{"setting": setting, "p": p, **row} for row in _gaps(of_p, bound, steps)]
    return rows


def _counterexample(options: Options) -> list[Row]:
    steps = STEPS if options.quick else MORE_STEPS
    path, protocol = options.out / "convergence.jsonl", {"counterexample": True, "steps": steps}
    if options.show:
        return read_rows(path, protocol_hash(protocol))

    def work(cell: Cell) -> list[Row]:
        problem = Problem(COUNTEREXAMPLE, p=2.0)
        return [{"setting": "pure", "p": 2.0, **row} for row in _gaps(problem, OPTIMUM, steps)]

    return measure(work, [Cell(EXAMPLE, 0)], path, protocol=protocol)


def _gaps(problem: Problem, optimum: float, steps: Sequence[int]) -> Iterator[Row]:
    """Gap of the weights after so many steps, by each variant; relative to f*, or to 1e-3 Σ c."""
    for method, smoothing in METHODS.items():
        for T in steps:
            found = frank_wolfe(problem, max_iter=T, smoothing=smoothing)
            gap = max(problem.value(found.weights) - optimum, 0.0)
            scale = max(optimum, problem.scale)
            row: dict[str, Any] = {"method": method, "metric": "relative_gap", "steps": T}
            yield row | {"value": gap / scale, "gap": gap}
