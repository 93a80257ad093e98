"""Fit problems as users bring them, and have `lpfuse.verify` check each certificate.

Of every fit a falsified copy is checked, too: a claim, the weights, a label, p, the radius or the
dual point is changed, and `research.proofs.judge` says whether anything is untrue by then.

    python -m research.proofs.verified --problems 100000 --jobs 16 --limit 500 --out FILE
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

import numpy as np

from lpfuse import LpFusion, verify
from lpfuse._files import as_json
from research.common.measure import finished
from research.common.store import Cell, Row, json_line, read_document, write_document, write_whole
from research.proofs.drawn import EXPONENTS, ODD, USUAL, Drawn, draw
from research.proofs.judge import judge
from research.proofs.verified_page import page_of

PUBLISHED = Path("research/results/proofs/verified.json")
PAGE = Path("docs/benchmarks/verified.md")
ROWS = Path("build/verified.jsonl")
BLOCK = 100  # problems that are kept together
ATTACKS = (
    "value",
    "bound",
    "gap",
    "relative gap",
    "weights",
    "labels",
    "p",
    "radius",
    "dual point",
)


SIZES = {1.0: "to 1", 1e3: "to 1e3", 1e6: "to 1e6", 1e9: "to 1e9", 1e12: "to 1e12"}
BEYOND = "beyond"


def fitted(drawn: Drawn) -> LpFusion:
    """The fit, without its warnings: what it has to say is in its status."""
    problem = drawn.problem
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return LpFusion(**problem.parameters).fit(problem.S, problem.y, problem.sample_weight)


def outcome(seed: int) -> Row:
    """One problem, fitted, verified, falsified and verified again."""
    drawn = draw(seed)
    problem, parameters = drawn.problem, drawn.problem.parameters
    row: Row = {
        "at": seed,
        "kind": drawn.kind,
        "usual": drawn.is_usual,
        "p": parameters["p"],
        "loss": parameters["loss"],
        "size": size_of(float(np.abs(problem.S).max())),
        "n": len(problem.S),
        "R": problem.S.shape[1],
        "prior": drawn.has_prior,
        "intercept": parameters["fit_intercept"],
        "nonnegative": parameters["nonnegative"],
    }
    try:
        fusion = fitted(drawn)
    except Exception as error:
        # LinAlgError is a ValueError, but no sentence about what the user passed.
        refused = isinstance(error, ValueError) and not isinstance(error, np.linalg.LinAlgError)
        return row | {"status": "refused" if refused else "error", "why": str(error)[:200]}
    found = verify(fusion, problem.S, problem.y, problem.sample_weight)
    claim = fusion.certificate_
    row |= {
        "status": claim.status if found.holds else "false",
        "claimed": claim.relative_gap,
        "proven": found.relative_gap,
        "why": " ".join(found.faults),
        # A gap beyond tol under the name of an optimum would be uncertified without saying so.
        "silent": bool(claim.status == "optimal" and not claim.relative_gap <= fusion.tol),
    }
    return row | attacked(fusion, drawn, seed)


def size_of(largest: float) -> str:
    """Between which limits the largest score lies."""
    return next((name for limit, name in SIZES.items() if largest <= limit), BEYOND)


def attacked(fusion: LpFusion, drawn: Drawn, seed: int) -> Row:
    """A falsified copy: which attack, whether it made anything untrue, and whether that is seen."""
    rng = np.random.default_rng([seed, *b"attack"])
    attack = str(rng.choice(ATTACKS))
    S, y, weight = drawn.problem.S, drawn.problem.y, drawn.problem.sample_weight
    false, y = falsified(fusion, attack, rng, y, len(S))
    found = verify(false, S, y, weight)
    # The judge tolerates 1e-12 of the scale, the checker less: what it alone finds is no fault.
    untrue = judge(S, y, weight, false.get_params(), false).is_false
    return {"attack": attack, "untrue": untrue, "seen": not found.holds}


def falsified(
    fusion: LpFusion, attack: str, rng: np.random.Generator, y: Any, n: int
) -> tuple[LpFusion, Any]:
    """A copy of the fit with one thing changed, and the labels."""
    other, claim = copy(fusion), fusion.certificate_
    size = 10.0 ** rng.uniform(-9, 0)
    scale = max(claim.primal, claim.gap / claim.relative_gap if claim.relative_gap else 0.0)
    if attack == "value":
        other.certificate_ = replace(claim, primal=claim.primal - size * scale)
    elif attack == "bound":
        other.certificate_ = replace(claim, dual=claim.dual + size * scale)
    elif attack == "gap":
        other.certificate_ = replace(claim, gap=claim.gap * rng.random())
    elif attack == "relative gap":
        other.certificate_ = replace(claim, relative_gap=claim.relative_gap * rng.random())
    elif attack == "weights":
        other.weights_ = fusion.weights_ + size * rng.normal(size=fusion.weights_.shape)
    elif attack == "labels":
        y = np.ones(n) if y is None else y.copy()
        y[rng.integers(n)] *= -1.0
        y = y if (y > 0).any() else -y
    elif attack == "p":
        other.p = float(rng.choice([p for p in EXPONENTS if p != fusion.p]))
    elif attack == "radius":
        other.radius = fusion.radius * float(1.0 + rng.choice([-1.0, 1.0]) * size)
    elif fusion.loss == "least_squares" and claim.dual_weights is not None:
        moved = claim.dual_weights + size * rng.normal(size=claim.dual_weights.shape)
        other.certificate_ = replace(claim, dual_weights=moved)
    elif claim.alpha is not None:
        moved = np.clip(claim.alpha + size * rng.normal(size=claim.alpha.shape), 0.0, 1.0)
        other.certificate_ = replace(claim, alpha=moved)
    return other, y


def block(cell: Cell) -> list[Row]:
    """The problems of one block, summed up; those that are not proven are told one by one."""
    rows = [outcome(seed) for seed in range(cell.seed * BLOCK, (cell.seed + 1) * BLOCK)]
    return [{"set": cell.set, "seed": cell.seed} | summary(rows)]


def summary(rows: Sequence[Row]) -> Row:
    """Counts by kind, and each problem that is not proven, or must not occur."""
    told = [row for row in rows if row["status"] not in ("optimal", "refused")]
    missed = [row for row in rows if row.get("untrue") and not row["seen"]]
    return {
        "problems": len(rows),
        "kinds": {
            kind: dict(Counter(row["status"] for row in rows if row["kind"] == kind))
            for kind in (*USUAL, *ODD)
        },
        "sizes": {
            size: dict(Counter(ending(row) for row in rows if row["size"] == size))
            for size in (*SIZES.values(), BEYOND)
        },
        "silent": sum(row.get("silent", False) for row in rows),
        "attacks": {
            attack: [
                sum(row[name] for row in rows if row.get("attack") == attack)
                for name in ("untrue", "seen")
            ]
            for attack in ATTACKS
        },
        "told": told,
        "missed": missed,
    }


def ending(row: Row) -> str:
    """How a problem ended: short of the tolerance in all arithmetic, or in floats alone."""
    if row["status"] in ("optimal", "refused", "false", "error"):
        return str(row["status"])
    return "short in floats" if row["proven"] <= 1e-8 else "short"


def merged(rows: Sequence[Row]) -> Row:
    """Several blocks as one."""
    counts = {
        name: {
            kind: dict(sum((Counter(row[name][kind]) for row in rows), Counter()))
            for kind in rows[0][name]
        }
        for name in ("kinds", "sizes")
    }
    attacks = {
        attack: [sum(row["attacks"][attack][k] for row in rows) for k in (0, 1)]
        for attack in ATTACKS
    }
    return {
        **{name: sum(row[name] for row in rows) for name in ("problems", "silent")},
        **counts,
        "attacks": attacks,
        **{name: [each for row in rows for each in row[name]] for name in ("told", "missed")},
    }


def run(problems: int, jobs: int, limit: float) -> list[Row]:
    """Blocks in the order of their seeds; none is begun once the limit, in seconds, has passed."""
    end = time.monotonic() + limit

    def cells() -> Iterator[Cell]:
        for k in range(-(-problems // BLOCK)):
            if time.monotonic() > end:
                return
            yield Cell("drawn", k)

    rows = []
    for done in finished(block, cells(), jobs):
        rows += done
        if len(rows) % 20 == 0:
            print(f"{len(rows) * BLOCK:,} problems", flush=True)
    return sorted(rows, key=lambda row: int(row["seed"]))


def _versions() -> dict[str, str]:
    """As `lpfuse._files`, but lpfuse need not be installed."""
    names = ("numpy", "scipy", "scikit-learn")
    return {"python": python_version(), **{name: version(name) for name in names}}


def main() -> int:
    parser = ArgumentParser("python -m research.proofs.verified", description=__doc__)
    parser.add_argument("--problems", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=-1, help="processes; -1: all cores")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds")
    parser.add_argument("--out", type=Path, default=ROWS, help="rows, one a block")
    parser.add_argument("--publish", type=Path, metavar="ROWS", help="store sums, write the page")
    parser.add_argument("--seed", type=int, help="one problem, told in full")
    options = parser.parse_args()
    if options.seed is not None:
        print(draw(options.seed))
        print(outcome(options.seed))
        return 0
    if options.publish:
        first, *rows = map(json.loads, options.publish.read_text().splitlines())
        every = merged(rows)
        # Odd ones that ended short are counted; the page tells the others one by one.
        told = [row for row in every["told"] if row["usual"] or row["status"] in ("false", "error")]
        write_document(PUBLISHED, first | every | {"told": told})
        write_whole(PAGE, page_of(read_document(PUBLISHED)))
        return 0
    rows = run(options.problems, options.jobs, options.limit)
    if not rows:
        print(f"No block of {BLOCK} problems was begun within {options.limit:g} s: raise --limit.")
        return 1
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(
        options.out,
        "".join(json_line(as_json(r)).decode() for r in [{"versions": _versions()}, *rows]),
    )
    every = merged(rows)
    print(page_of({"versions": _versions()} | as_json(every)))
    return int(bool(every["missed"] or every["silent"] or _wrong(every)))


def _wrong(every: Row) -> int:
    """Certificates that are false, and fits that fail."""
    return sum(
        counts.get(end, 0) for counts in every["kinds"].values() for end in ("false", "error")
    )


if __name__ == "__main__":
    sys.exit(main())
