"""Growth of fit, score, save, load and watch with the number of rows, and memory beside it.

``python -m research.speed.growth measure`` measures each number of rows in processes of their own,
one after the other, and replaces what was stored of an earlier run; ``beside`` measures rivals at
one size. `research.speed.file_to_verdict` fits power laws and draws them.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess  # nosec B404 # starts this Python
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from research.common.machine import cpu_name, environment
from research.common.store import read_records
from research.speed.rows.data import Rows

RESULTS = Path("research/results/speed/file_to_verdict.jsonl")
COLUMNS = 20
SCORED = 10_000  # rows that are scored, whatever the number of training rows
ROWS = [1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000]
WATCHING = 1_200  # rows of the model that watches
STEPS = ("fit", "score", "score_all", "save", "load")
GROWING = ("growth", "watch")  # kinds of records that a run replaces
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


def measure(rows: int, labels: int) -> dict[str, Any]:
    """CPU seconds of each step, and the highest resident memory during it, in this process.

    ``score`` is of `SCORED` rows, ``score_all`` of as many as were learnt from.
    """
    from lpfuse import FusedDetector, load

    warnings.simplefilter("ignore")
    FusedDetector(random_state=0).fit(Rows(60, COLUMNS, 8).training()[0])  # imports
    drawn = Rows(rows, COLUMNS, labels)
    (X, y), new = drawn.training(), drawn.unseen(max(rows, SCORED))
    new = np.random.default_rng(0).permutation(new)  # the last ones are anomalies
    found: dict[str, Any] = {"start_bytes": _peak()}
    model = FusedDetector(random_state=0)

    def timed(step: str, action: Callable[..., Any], *given: Any) -> Any:
        _forget_peak()
        began = time.process_time()
        result = action(*given)
        found.update({f"{step}_seconds": time.process_time() - began, f"{step}_bytes": _peak()})
        return result

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.lpfuse"
        timed("fit", model.fit, X, y)
        expected = timed("score", model.score_samples, new[:SCORED])
        timed("score_all", model.score_samples, new[:rows])
        timed("save", model.save, path)
        found["file_bytes"] = path.stat().st_size
        del model, X, y
        gc.collect()
        loaded = timed("load", load, path)
        assert (loaded.score_samples(new[:SCORED]) == expected).all()
    return found


def watch(rows: Sequence[int]) -> Iterator[dict[str, Any]]:
    """``lpfuse watch --once`` on files of different lengths: CPU seconds and memory."""
    import polars as pl

    lpfuse, names = [sys.executable, "-m", "lpfuse_cli"], [f"x{k}" for k in range(COLUMNS)]
    environ = {**os.environ, "PYTHONPATH": ""}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train, data, model = (folder / each for each in ("train.csv", "rows.csv", "model.lpfuse"))
        drawn = Rows(WATCHING, COLUMNS)
        pl.DataFrame(drawn.normal(), schema=names).write_csv(train)
        subprocess.run(  # nosec B603 # this Python, no shell
            [*lpfuse, "fit", str(train), "-o", str(model), "-q"], env=environ, check=True
        )
        for n in rows:
            pl.DataFrame(drawn.unseen(n), schema=names).write_csv(data, float_precision=9)
            out = folder / f"scores{n}.csv"
            command = [*lpfuse, "watch", str(model), str(data), "--once", "-q", "-o", str(out)]
            process = subprocess.Popen(  # nosec B603 # this Python, no shell
                command, env=environ, stdout=subprocess.DEVNULL
            )
            _, status, used = os.wait4(process.pid, 0)
            assert status == 0, f"watch ended with status {status}"
            with out.open("rb") as lines:
                assert sum(1 for _ in lines) == n + 1, "watch left rows out"
            seconds, memory = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
            yield {"kind": "watch", "rows": n, "seconds": seconds, "bytes": memory}


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
    """Return the highest resident memory since `_forget_peak`, where Linux tells it, or ever."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _forget_peak() -> None:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def run(options: argparse.Namespace) -> None:
    """Measure each number of rows, and the stream of as many; a process at a time."""
    kept = ""
    if options.out.exists():
        lines = options.out.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = "".join(each for each in lines if json.loads(each)["kind"] not in GROWING)
    options.out.write_text(kept, encoding="utf-8")
    for rows in options.rows:
        command = [sys.executable, "-m", __spec__.name, "one", str(rows), str(options.labels)]
        told = subprocess.run(  # nosec B603 # this Python, no shell
            command, stdout=subprocess.PIPE, text=True, check=True
        ).stdout
        record = {"kind": "growth", "rows": rows, "labels": options.labels}
        append(options.out, record | json.loads(told))
        print(told, flush=True)
    for record in watch(options.rows):
        append(options.out, record)
        print(record, flush=True)


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
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
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
