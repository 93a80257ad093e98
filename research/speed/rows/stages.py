"""Where the time of a fit and of scores goes, stage by stage: this version beside another.

``python -m research.speed.rows.stages --before FOLDER`` measures both in turns, a process each, and
prints a table in Markdown. Times are CPU seconds; a stage is without the stages inside it.
Nothing here imports lpfuse before the process knows which version it is to be.
"""

from __future__ import annotations

import argparse
import json
import subprocess  # nosec B404 # starts this Python
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from research.common.machine import set_threads

from .data import Matrix, Rows
from .versions import NOW, import_from, source_in

RESULTS = Path("research/results/speed/stages.json")
REST = "everything else"
DETECTORS = "lpfuse.detectors"
# Functions by stage; those that a version does not have are left out.
STAGES: dict[str, list[tuple[str, str]]] = {
    "nearest neighbours": [
        (f"{DETECTORS}.neighbours", "SubsetSearch.__init__"),
        (f"{DETECTORS}.neighbours", "SubsetSearch.distances"),
        (f"{DETECTORS}.neighbours", "SubsetSearch.own_distances"),
        (f"{DETECTORS}.local_density", "LOFDetector._neighbours"),
    ],
    "trees of columns": [
        (f"{DETECTORS}.columns", "ColumnForest._grow"),
        (f"{DETECTORS}.columns", "ColumnForest._score"),
    ],
    "Gaussian process": [
        (f"{DETECTORS}.base", "KernelDetector._fit_rows"),
        (f"{DETECTORS}.gaussian_process", "OneClassGP.leave_one_out_scores"),
        (f"{DETECTORS}.kernels", "KernelScorer._scores"),
    ],
    "other one-class members": [
        (f"{DETECTORS}.base", "HeldOutDetector._fit_rows"),
        (f"{DETECTORS}.base", "HeldOutDetector.leave_one_out_scores"),
        (f"{DETECTORS}.base", "HeldOutDetector._scores"),
    ],
    "experts": [
        ("lpfuse.adapters", "ClassifierExpert.fit"),
        ("lpfuse.adapters", "ClassifierExpert.score_samples"),
        ("lpfuse.ensemble.pool", "MeanOfFits.score_samples"),
    ],
    "standardised and quantile views": [
        ("lpfuse.views", "NormalQuantiles.fit"),
        ("lpfuse.views", "NormalQuantiles.transform"),
        ("lpfuse.views", "FilledGaps.fit"),
        ("lpfuse.views", "FilledGaps.transform"),
    ],
    "scale and weights": [("lpfuse.ensemble.combination", "Combination.learn")],
    "audit of the scores": [("lpfuse.ensemble.learning", "audit")],
    "rows at the entrance": [("lpfuse.ensemble.fused", "prepare_rows")],
}


class Clock:
    """CPU seconds by stage, each without what it calls in others."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys([*STAGES, REST], 0.0)
        self.inside, self.since = [REST], process_time()

    def switch(self) -> None:
        """Book the time up to now."""
        now = process_time()
        self.seconds[self.inside[-1]] += now - self.since
        self.since = now

    def around(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, its time booked for a stage."""

        @wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            self.switch()
            self.inside.append(stage)
            try:
                return function(*arguments, **named)
            finally:
                self.switch()
                self.inside.pop()

        return timed


@contextmanager
def clocked() -> Iterator[Clock]:
    """Book the time of the functions of `STAGES` while the context lasts."""
    clock, former = Clock(), []
    for stage, functions in STAGES.items():
        for module, path in functions:
            owner: Any = import_module(module)
            *outer, name = path.split(".")
            for each in outer:
                owner = getattr(owner, each, None)
            found = vars(owner).get(name) if owner is not None else None
            if found is None:
                continue
            former.append((owner, name, found))
            inner = found.__func__ if isinstance(found, classmethod) else found
            timed = clock.around(stage, inner)
            setattr(owner, name, classmethod(timed) if isinstance(found, classmethod) else timed)
    clock.since = process_time()
    try:
        yield clock
        clock.switch()
    finally:
        for owner, name, found in former:
            setattr(owner, name, found)


def deep_rows(n: int, d: int, labels: int, seed: int = 0) -> tuple[Matrix, Matrix | None]:
    """Rows like the features of a network: many columns of few causes, cut from below."""
    rng = np.random.default_rng(seed)
    causes = rng.normal(size=(n + labels, 40))
    causes[n:] *= 1.6
    X = causes @ rng.normal(size=(40, d)) / np.sqrt(40) + 0.5 * rng.normal(size=(n + labels, d))
    return np.maximum(X, -0.3), np.repeat([1.0, -1.0], [n, labels]) if labels else None


def tables(quick: bool) -> dict[str, tuple[Any, Any, Any]]:
    """Rows, labels and rows to score of each line of the table."""
    sizes = [("1,200 rows", 1200, 20), ("1,000 × 512", 1000, 512), ("20,000 rows", 20_000, 20)]
    found = {}
    for name, n, d in [("60 rows", 60, 8)] if quick else sizes:
        for labels in (0, 20):
            rows = Rows(n, d, labels, 0)
            X, y = rows.training() if d < 100 else deep_rows(n, d, labels)
            new = rows.unseen(10_000 if d > 8 else 50) if d < 100 else X[:500]
            found[f"{name}, {labels} labels"] = X, y, new
    return found


def measure(source: Path, quick: bool) -> dict[str, dict[str, float]]:
    """CPU seconds by stage of fits and scores, and of one row in ms, for one version."""
    make = import_from(source).FusedDetector
    found: dict[str, dict[str, float]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = Rows(60, 20, 8, 0)
        make(random_state=0).fit(*small.training()).predict(small.unseen(20))
        for name, (X, y, new) in tables(quick).items():
            with clocked() as clock:
                fused = make(random_state=0).fit(X, y)
            found[f"fit, {name}"] = clock.seconds
            fused.score_samples(new[:300])
            with clocked() as clock:
                fused.score_samples(new)
            found[f"score {len(new):,}, {name}"] = clock.seconds
            start = process_time()
            for i in range(50):
                fused.score_samples(new[i : i + 1])
            found[f"one row in ms, {name}"] = {REST: 20.0 * (process_time() - start)}
    return found


def medians(runs: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Return the median over runs, number by number."""
    return {
        line: {stage: median(run[line][stage] for run in runs) for stage in stages}
        for line, stages in runs[0].items()
    }


def as_table(found: Mapping[str, dict[str, dict[str, float]]]) -> str:
    """Write before → now of each line and its largest stages, in Markdown."""
    lines = ["| what | before | now | ratio | stages, before → now |", "|---|---|---|---|---|"]
    for line, now in found["now"].items():
        former = found["before"][line]
        whole = [sum(stages.values()) for stages in (former, now)]
        largest = sorted(former, key=lambda stage: -former[stage])
        told = [
            f"{stage} {former[stage]:.2f} → {now[stage]:.2f}"
            for stage in largest
            if former[stage] > 0.03 * whole[0] and len(former) > 1
        ]
        cells = [line, f"{whole[0]:.2f}", f"{whole[1]:.2f}", f"{whole[1] / whole[0]:.2f}"]
        lines.append(f"| {' | '.join([*cells, ', '.join(told)])} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser("python -m research.speed.rows.stages")
    parser.add_argument("--before", type=Path, required=True, help="a checkout of another version")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does everything work?")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    set_threads(1)
    if options.measure:
        print(json.dumps(measure(options.before, options.quick)))
        return
    sources = {"before": source_in(options.before), "now": NOW}
    runs: dict[str, list[Any]] = {name: [] for name in sources}
    for _ in range(options.rounds):
        for name, source in sources.items():
            command = [sys.executable, "-m", "research.speed.rows.stages", "--measure"]
            command += ["--before", str(source), *(["--quick"] if options.quick else [])]
            done = subprocess.run(  # nosec B603 # this Python, no shell
                command, check=True, capture_output=True, text=True
            )
            runs[name].append(json.loads(done.stdout.splitlines()[-1]))
    found = {name: medians(some) for name, some in runs.items()}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(as_table(found))


if __name__ == "__main__":
    main(sys.argv[1:])
