"""The table of speed-ups from stored times: the paper's figures, ours, and the gaps behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from lpfuse._format import name_of_p
from research.common.store import Row
from research.common.tables import markdown, page, prose
from research.paper import paper

CLIPPED = ", clipped"  # ends the name of a setting whose scaled scores are clipped to [0, 1]
CLAIM = 14.0  # "at least, more than 14 times faster than the CVX package"

Contender = tuple[str, float, float | None]  # method, p, precision

NOTES = """
Seconds of cvxpy with CLARABEL (at its default tolerance) divided by those of the other solver, on
the scores of the paper's four learners ({scope}): median over {repeats} turns in which all
solvers run one after another. *Whole call* counts what a user of cvxpy waits for, modelling
included; *solver* counts CLARABEL alone. Algorithm 1 stops by its own rule: no weight changes by
more than the precision in a step, which the shrinking step brings about by itself. The true
relative gap beside it is to a certified optimum. lpfuse solves to a certified 1e-8, whatever the
precision. Times vary from run to run, and with the machine: here {processor}, {threads} thread,
cvxpy {cvxpy}, CLARABEL {clarabel}. *Clipped*: scaled scores are clipped to [0, 1], which the paper
leaves open.
"""
SEEN = """
**{name}, {setting}.** Algorithm 1 is at least {claim:.0f} times faster than cvxpy in {fast} of
{cells} cells if the whole call counts, in {fast_solver} if CLARABEL alone does; the least
speed-ups are {least:.2g}× and {least_solver:.2g}×. Its true gap is larger than the precision in
{loose} cells, {worst_gap:.1e} at most; cvxpy's is at most {cvxpy_gap:.1e}. lpfuse, certified to
{lpfuse_gap:.0e}, is faster than cvxpy by {lpfuse[0]:.2g}× to {lpfuse[1]:.2g}× (CLARABEL alone:
{lpfuse_solver[0]:.2g}× to {lpfuse_solver[1]:.2g}×).
"""


@dataclass(frozen=True)
class Race:
    """A solver beside cvxpy: how many times faster it is, how good its weights are."""

    whole: float  # times faster than the whole call of cvxpy
    solver: float  # than CLARABEL alone
    gap: float  # true relative gap
    milliseconds: float


def figures(rows: Sequence[Row]) -> dict[tuple[str, str], dict[str, Any]]:
    """(Set, setting) → speed-ups over cvxpy, and the gaps behind them.

    Returns
    -------
    dict
        For each set and setting a dict with

        - ``races``: (method, p, precision) → `Race`; only Algorithm 1 has a precision;
        - of Algorithm 1: ``cells``, their number; ``fast``, ``fast_solver``: in how many it is
          at least 14 times faster than cvxpy, counting the whole call or CLARABEL alone;
          ``least``, ``least_solver``: the smallest speed-ups; ``loose``: in how many cells its
          true gap exceeds the precision; ``worst_gap``: the largest;
        - ``cvxpy_gap``, ``lpfuse_gap``: the largest of the others; ``lpfuse``,
          ``lpfuse_solver``: the smallest and the largest speed-up of the certified solver.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["set"], row["setting"]), []).append(row)
    return {key: _figures(_races(group)) for key, group in groups.items()}


def _races(rows: Sequence[Row]) -> dict[Contender, Race]:
    known = {(row["method"], row["p"], row["precision"], row["metric"]): row for row in rows}

    def faster(p: float, counted: str, contender: Contender) -> float:
        """Turn by turn, since the machine may be slower in one turn than in the next."""
        theirs = known["cvxpy", p, None, counted]["repeats"]
        ours = known[*contender, "seconds"]["repeats"]
        return median(a / b for a, b in zip(theirs, ours, strict=True))

    return {
        (method, p, precision): Race(
            faster(p, "seconds", (method, p, precision)),
            faster(p, "solver_seconds", (method, p, precision)),
            known[method, p, precision, "relative_gap"]["value"],
            1e3 * row["value"],
        )
        for (method, p, precision, metric), row in known.items()
        if metric == "seconds"
    }


def _figures(races: dict[Contender, Race]) -> dict[str, Any]:
    by_method: dict[str, list[Race]] = {}
    for (method, _, _), race in races.items():
        by_method.setdefault(method, []).append(race)
    paper_s, ours = by_method["Algorithm 1"], by_method["lpfuse"]
    return {
        "races": races,
        "cells": len(paper_s),
        "fast": sum(race.whole >= CLAIM for race in paper_s),
        "fast_solver": sum(race.solver >= CLAIM for race in paper_s),
        "least": min(race.whole for race in paper_s),
        "least_solver": min(race.solver for race in paper_s),
        "loose": sum(race.gap > stop for (_, _, stop), race in races.items() if stop is not None),
        "worst_gap": max(race.gap for race in paper_s),
        "cvxpy_gap": max(race.gap for race in by_method["cvxpy"]),
        "lpfuse_gap": max(race.gap for race in ours),
        "lpfuse": (min(race.whole for race in ours), max(race.whole for race in ours)),
        "lpfuse_solver": (min(race.solver for race in ours), max(race.solver for race in ours)),
    }


def speed_page(rows: Sequence[Row], scope: str) -> str:
    """The tables, one for each set and setting, and what they say."""
    first = rows[0]
    parts = []
    for (name, setting), found in figures(rows).items():
        words = SEEN.format(**found, name=name, setting=setting, claim=CLAIM)
        parts += [f"## {name}, {setting}", _table(found["races"]), prose(words)]
    notes = NOTES.format(scope=scope, repeats=len(first["repeats"]), **first["machine"])
    return page("# Speed-up over CVX", prose(notes), *parts)


def _table(races: dict[Contender, Race]) -> str:
    head = ["p, precision", "paper", "Algorithm 1: whole call", "solver", "its true gap",
            "lpfuse: whole call", "solver", "its gap", "ms: cvxpy (solver) / Algorithm 1 / lpfuse",
            "gap of cvxpy"]  # fmt: skip
    table = [head]
    for (method, p, precision), race in races.items():
        if method != "Algorithm 1" or precision is None:
            continue
        ours, theirs = races["lpfuse", p, None], races["cvxpy", p, None]
        table.append([
            f"{name_of_p(p)}, {precision:.0e}",
            f"{paper.SPEED_UP[p][precision]:.1f}×",
            f"{race.whole:.3g}×", f"{race.solver:.3g}×", f"{race.gap:.1e}",
            f"{ours.whole:.3g}×", f"{ours.solver:.3g}×", f"{ours.gap:.1e}",
            f"{theirs.milliseconds:.3g} ({theirs.milliseconds * theirs.solver:.3g}) / "
            f"{race.milliseconds:.3g} / {ours.milliseconds:.3g}",
            f"{theirs.gap:.1e}",
        ])  # fmt: skip
    return markdown(table)
