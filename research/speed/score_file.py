"""`lpfuse score` on a long file, beside the detectors: ``python -m research.speed.score_file``.

The detectors' own work is scoring the same rows, parsed before the clock starts, in the same
chunks, one after the other. Memory is the peak above the loaded model. Each in a process of its
own.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl

from lpfuse_cli.fitting import fit_table
from lpfuse_cli.scoring import load_model, score_file
from lpfuse_cli.tables import read_table
from research.common.memory import peak_of

# Chosen by hand.
COLUMNS, TRAINING, ANOMALIES, CHUNK = 10, 2_000, 40, 10_000


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--jobs", type=int, nargs="*", default=[0], help="0: as many as cores")
    parser.add_argument("--out", default="scores.csv", help="its suffix tells the format")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        model, data = Path(folder) / "model.lpfuse", Path(folder) / "data.csv"
        rng = np.random.default_rng(0)
        train = table(rng, TRAINING, ANOMALIES)
        seconds, _ = measured(lambda: fit(train, model))
        print(
            f"fit, {TRAINING:,} rows: {seconds:.1f} s, model of {model.stat().st_size / 1e6:.1f} MB"
        )
        table(rng, int(options.rows), int(0.02 * options.rows)).drop("state").write_csv(data)
        print(f"{data.stat().st_size / 1e6:.0f} MB of CSV, {options.rows:,.0f} rows")
        own = apart(detectors_alone, model, data)
        print(f"detectors alone: {own:.1f} s")
        for jobs in options.jobs:
            out = Path(folder) / options.out
            seconds, extra = apart(whole_command, model, data, out, jobs or None)
            rate = options.rows / seconds
            print(
                f"lpfuse score, {jobs or 'all'} jobs: {seconds:.1f} s, {rate:,.0f} rows a second, "
                f"{seconds / own:.2f} times the detectors alone; {extra / 2**20:.0f} MiB above the "
                "model"
            )


def table(rng: np.random.Generator, rows: int, anomalies: int) -> pl.DataFrame:
    """Eight correlated columns of numbers with a few gaps, one of text, one of truth values."""
    mixing = np.random.default_rng(1).normal(size=(8, 8))
    X = rng.normal(size=(rows, 8)) @ mixing
    X[:anomalies] += 2 * rng.normal(size=(anomalies, 8))
    columns = {f"x{j}": X[:, j].round(6) for j in range(8)}
    frame = pl.DataFrame(
        {
            **columns,
            "kind": rng.choice(["a", "b", "c"], rows),
            "wet": rng.random(rows) < 0.3,
            "state": np.where(np.arange(rows) < anomalies, "worn", "ok"),
        }
    )
    gaps = pl.Series(rng.random(rows) < 0.01)
    return frame.with_columns(x0=pl.when(gaps).then(None).otherwise("x0"))


def fit(frame: pl.DataFrame, path: Path) -> None:
    fit_table(frame, label="state", normal="ok").save(path)


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's result, in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def detectors_alone(path: Path, data: Path) -> float:
    model = load_model(path)
    X = model.preparation_.rows_of(read_table(data))
    start = perf_counter()
    for first in range(0, len(X), CHUNK):
        model.detector_scores(X[first : first + CHUNK])
    return perf_counter() - start


def whole_command(path: Path, data: Path, out: Path, jobs: int | None) -> tuple[float, int]:
    model = load_model(path)
    return measured(lambda: score_file(model, data, out, jobs=jobs, chunk_rows=CHUNK))


def measured(action: Callable[[], object]) -> tuple[float, int]:
    """Seconds, and bytes above what was there before."""
    start = perf_counter()
    peak = peak_of(action)
    return perf_counter() - start, 0 if peak is None else peak.extra


if __name__ == "__main__":
    main()
