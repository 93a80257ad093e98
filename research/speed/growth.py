"""Growth of fit, score, save, load and watch with the number of rows, and memory beside it.

``python -m research.speed.growth measure --rows 1000 10000 --out FILE`` measures each number in a
process of its own; ``… page`` fits power laws and draws them. ``research/speed/README.md``.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess  # nosec B404 # starts this Python
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from research.common.machine import cpu_name, environment
from research.common.store import read_records
from research.speed.rows.data import Rows

RESULTS = Path("research/results/speed/file_to_verdict.jsonl")
COLUMNS = 20
SCORED = 10_000  # rows that are scored, whatever the number of training rows
STEPS = ("fit", "score", "save", "load")
PACKAGES = ("lpfuse", "numpy", "scipy", "scikit-learn", "pyod", "suod")


def append(path: Path, record: dict[str, Any]) -> None:
    """Store a record with the processor, and with the environment once before its first record."""
    about = environment(1, PACKAGES)
    known = read_records([path]) if path.exists() else []
    found = [{**record, "cpu": cpu_name(), "environment": about["id"]}]
    if all(r.get("id") != about["id"] for r in known):
        found.insert(0, {"kind": "environment", **about})
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in found)


def measure(rows: int, labels: int, steps: tuple[str, ...] = STEPS) -> dict[str, Any]:
    """CPU seconds of each step, and peak resident memory after it, in this process."""
    from lpfuse import FusedDetector, load

    warnings.simplefilter("ignore")
    FusedDetector(random_state=0).fit(Rows(60, COLUMNS, 8).training()[0])  # imports
    drawn = Rows(rows, COLUMNS, labels)
    (X, y), new = drawn.training(), drawn.unseen(SCORED)
    found: dict[str, Any] = {"start_bytes": _peak()}
    model = FusedDetector(random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.lpfuse"
        actions = {
            "fit": lambda: model.fit(X, y),
            "score": lambda: model.score_samples(new),
            "save": lambda: model.save(path),
            "load": lambda: load(path),
        }
        for step in steps:
            began = time.process_time()
            actions[step]()
            found |= {f"{step}_seconds": time.process_time() - began, f"{step}_bytes": _peak()}
        found["file_bytes"] = path.stat().st_size
        assert (load(path).score_samples(new[:100]) == model.score_samples(new[:100])).all()
    return found


def beside(rows: int, name: str, limit: int) -> dict[str, Any]:
    """CPU seconds of a method's fit and scores; stopped after `limit` seconds."""
    from research.speed.rows.methods import METHODS, Method
    from research.studies.tables.splits import Training

    warnings.simplefilter("ignore")
    method = METHODS.get(name) or Method(_forest, labels=0)
    small, drawn = Rows(60, COLUMNS, 8), Rows(rows, COLUMNS, method.labels)
    for seen in (small, drawn):  # the first for imports
        training = Training(seen.normal(), seen.anomalies()[: method.labels], vouched=True)
        if seen is drawn:
            resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + limit,) * 2)
        began = time.process_time()
        score = method.learn(training, 0)
        fitted = time.process_time()
        score(seen.unseen(SCORED))
    ended = time.process_time()
    return {"fit_seconds": fitted - began, "score_seconds": ended - fitted, "fit_bytes": _peak()}


def _forest(training: Any, seed: int) -> Any:
    from sklearn.ensemble import IsolationForest

    return IsolationForest(random_state=seed).fit(training.rows).score_samples


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(options: argparse.Namespace) -> None:
    """Measure each number of rows in a process of its own, several at a time."""
    started = [
        (rows, subprocess.Popen(  # nosec B603 # this Python, no shell
            [sys.executable, "-m", __spec__.name, "one", str(rows), str(options.labels)],
            stdout=subprocess.PIPE, text=True,
        ))
        for rows in options.rows
    ]  # fmt: skip
    for rows, process in started:
        told, _ = process.communicate()
        if process.returncode == 0:
            record = {"kind": "growth", "rows": rows, "labels": options.labels}
            append(options.out, record | json.loads(told))


def run_beside(options: argparse.Namespace) -> None:
    """Measure each method in a process of its own, one after the other."""
    for rows in options.rows:
        for name in options.methods:
            command = [sys.executable, "-m", __spec__.name, "one", str(rows), "--methods", name,
                       "--limit", str(options.limit)]  # fmt: skip
            told = subprocess.run(  # nosec B603 # this Python, no shell
                command, stdout=subprocess.PIPE, text=True, check=False
            )
            record = {"kind": "beside", "rows": rows, "method": name}
            failed = {"stopped": told.returncode in (-24, -9), "limit": options.limit}
            found = json.loads(told.stdout) if told.returncode == 0 else failed
            append(options.out, record | found)


def slope(rows: Any, values: Any) -> tuple[float, float]:
    """The exponent α of ``a n^α`` by least squares on logarithms, and its standard error."""
    x, z = np.log(rows), np.log(values)
    (alpha, _), covariance = np.polyfit(x, z, 1, cov=len(x) > 3) if len(x) > 3 else (
        np.polyfit(x, z, 1), np.full((2, 2), np.nan))  # fmt: skip
    return float(alpha), float(np.sqrt(covariance[0, 0]))


def main() -> None:
    parser = argparse.ArgumentParser("python -m research.speed.growth")
    parser.add_argument("what", choices=("measure", "beside", "one"))
    parser.add_argument("numbers", type=int, nargs="*")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--labels", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--methods", nargs="+", default=[])
    parser.add_argument("--limit", type=int, default=600, help="CPU seconds of a method")
    options = parser.parse_args()
    if options.what == "beside":
        run_beside(options)
    elif options.methods:
        print(json.dumps(beside(options.numbers[0], options.methods[0], options.limit)))
    elif options.what == "one":
        print(json.dumps(measure(*options.numbers)))
    else:
        run(options)


if __name__ == "__main__":
    main()
