"""``lpfuse reproduce speed``: the paper's table of speed-ups over CVX, with true gaps beside it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.metadata import version
from itertools import product
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse.optim import Problem, solve
from lpfuse.optim.frank_wolfe import frank_wolfe
from research.common.comparison import Figures
from research.common.experiment import measure_splits
from research.common.judge import FusionProblem, Judge
from research.common.machine import cpu_name
from research.common.options import Options
from research.common.protocol import SETTINGS
from research.common.splits import Split
from research.common.store import Row, write_whole
from research.paper import paper
from research.paper.methods import PAPER_PRESET, Preset
from research.paper.speed_page import CLIPPED, figures, speed_page
from research.paper.weights import paper_problem

__all__ = ["algorithm_1", "figures", "measured", "run", "split_rows", "true_gap"]

REPEATS, QUICK_REPEATS = 15, 3
# The paper does not say whether scaled scores are clipped; Algorithm 1 takes fewer steps on those.
SCALES = {
    "": PAPER_PRESET,
    CLIPPED: Preset("clipped", PAPER_PRESET.tables, {**PAPER_PRESET.scaler, "clip": True}),
}
PATIENCE = 1_000_000  # steps within which Algorithm 1 meets its own rule


class Answer(NamedTuple):
    """Weights, and what is to be told of how they were found."""

    weights: Host
    facts: dict[str, float]


def run(options: Options) -> str:
    """Measure what is missing, write results and page, and return the page.

    Times are measured in this process, one after another, whatever `options.jobs` says.
    """
    rows = measured(options)
    text = speed_page(rows, Figures(rows, options.quick).scope)
    write_whole(options.page_folder / "speed.md", text)
    return text


def measured(options: Options) -> list[Row]:
    """The rows, for `figures`: measured where they are not stored."""
    if not options.show:
        _require_cvxpy()
    repeats = QUICK_REPEATS if options.quick else REPEATS
    return measure_splits(
        "speed",
        partial(split_rows, repeats=repeats),
        replace(options, seeds=1, jobs=1),
        sets=("banknotes",),
        repeats=repeats,
        scales=list(SCALES),
    )


def split_rows(parts: Split, repeats: int = REPEATS) -> list[Row]:
    """Times and true gaps of all solvers on one split, for every p and precision of the paper."""
    known = {"machine": _machine()}
    return [
        {"setting": setting + suffix, **row, **known}
        for suffix, preset in SCALES.items()
        for setting in SETTINGS
        for problem in [paper_problem(parts.training(setting), preset)[0]]
        for p in paper.SPEED_UP
        for row in _race(problem.with_ball(p), repeats)
    ]


def _race(problem: Problem, repeats: int) -> Iterator[Row]:
    """All solvers take turns, so that a slow moment of the machine meets all of them."""
    contenders: dict[tuple[str, float | None], Callable[[], Answer]] = {
        ("cvxpy", None): lambda: solve_with_cvxpy(problem),
        ("lpfuse", None): lambda: _certified(problem),
        **{
            ("Algorithm 1", precision): partial(algorithm_1, problem, precision)
            for precision in paper.SPEED_UP[problem.ball.p]
        },
    }
    bound = solve(problem, tol=1e-12).certificate.dual
    answers = {name: solver() for name, solver in contenders.items()}  # a warm-up, too
    seconds: dict[Any, list[float]] = {name: [] for name in contenders}
    inside: list[float] = []
    with _no_garbage_collection():
        for _, (name, solver) in product(range(repeats), contenders.items()):
            start = time.perf_counter()
            answer = solver()
            seconds[name].append(time.perf_counter() - start)
            inside += [answer.facts["solver_seconds"]] if name[0] == "cvxpy" else []
    for (method, precision), answer in answers.items():
        row = {"method": method, "p": problem.ball.p, "precision": precision}
        times = seconds[method, precision]
        yield row | {"metric": "seconds", "value": median(times), "repeats": times}
        if method == "cvxpy":
            yield row | {"metric": "solver_seconds", "value": median(inside), "repeats": inside}
        else:
            yield row | {"metric": "steps", "value": answer.facts["steps"]}
        gap = true_gap(problem, answer.weights, bound)
        yield row | {"metric": "relative_gap", "value": gap}


def true_gap(problem: Problem, w: Host, bound: float) -> float:
    """Relative gap of weights, scaled into the ball, to a certified lower bound of the optimum."""
    S, y, _, _ = problem.block(slice(None))
    labels = np.broadcast_to(y, len(S))  # 1.0 where all rows are normal
    return Judge(FusionProblem(S, labels, problem.ball.p), bound).judge(w).relative_gap


def algorithm_1(problem: Problem, precision: float, patience: int = PATIENCE) -> Answer:
    """The paper's Algorithm 1, stopped by its own rule or after so many steps."""
    found = frank_wolfe(problem, precision=precision, max_iter=patience)
    return Answer(found.weights, {"steps": found.n_iter})


def _certified(problem: Problem) -> Answer:
    found = solve(problem, tol=1e-8)
    return Answer(found.weights, {"steps": found.n_iter})


def solve_with_cvxpy(problem: Problem) -> Answer:
    """The problem as one would state it, solved by CLARABEL at its own tolerance."""
    from research.common import cvxpy_models

    rows, labels, _, _ = problem.block(slice(None))
    model, w, _ = cvxpy_models.primal(np.reshape(labels, (-1, 1)) * rows, problem.ball.p)
    cvxpy_models.run(model, "CLARABEL")
    inside = cvxpy_models.solver_seconds(model)
    return Answer(np.asarray(w.value), {"solver_seconds": inside})


def _require_cvxpy() -> None:
    try:
        import_module("clarabel")
        import_module("cvxpy")
    except ImportError as error:
        raise ImportError(
            "The table of speed-ups needs cvxpy and CLARABEL: "
            "pip install -r research/requirements.txt"
        ) from error


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Whoever runs when memory is tidied up would pay for all."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _machine() -> dict[str, Any]:
    packages = {name: version(name) for name in ("cvxpy", "clarabel")}
    return {"processor": cpu_name(), "threads": 1, **packages}
