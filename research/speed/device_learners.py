"""Kernel learners where the rows live: ``python -m research.speed.device_learners``.

Exact Gaussian process and kernel PCA, then all three kernel learners by Nyström features, on a GPU
where there is one. Seconds are split into stages: the functions that make up a stage are wrapped,
and the device is waited for before and after. What lies between them is "rest".
"""

from __future__ import annotations

import gc
import warnings
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple
from unittest.mock import patch

import torch

from lpfuse import SVDD, KernelPCADetector, OneClassGP
from lpfuse._arrays import operations
from lpfuse.detectors import base, svdd
from lpfuse.detectors import kernels as features
from lpfuse.detectors.kernels import FeatureMap, Kernel
from research.common.machine import cpu_name, environment
from research.common.memory import peak_of
from research.common.store import write_document
from research.common.tables import table

PACKAGES = ("lpfuse", "torch", "numpy", "scipy", "scikit-learn", "array-api-compat")
Record = dict[str, Any]
STAGES: dict[str, list[tuple[Any, str]]] = {
    "width": [(base, "warn_about_width"), (base, "resolve_kernel")],
    "landmarks": [(features, "centres")],
    "kernel": [(Kernel, "gram")],
    "eigen": [(operations, "eigh"), (operations, "eigh_leading")],
    "moments": [(FeatureMap, "moments"), (FeatureMap, "of")],
    "solve": [
        (operations, "cholesky"),
        (operations, "solve_lower"),
        (svdd, "enclosing_ball"),
    ],
    "threshold": [
        (OneClassGP, "_set_training_offset"),
        (KernelPCADetector, "_set_training_offset"),
        (SVDD, "_set_training_offset"),
    ],
}


class Sizes(NamedTuple):
    """torch.Tensor and columns of both parts, and how many landmarks."""

    exact: tuple[int, int]
    nystroem: tuple[int, int]
    landmarks: int
    scored: int


GOAL = Sizes((100_000, 128), (366_000, 2_048), 5_000, 100_000)
SMALL = Sizes((3_000, 128), (10_000, 256), 300, 2_000)
TINY = Sizes((300, 16), (400, 32), 40, 100)


class Task(NamedTuple):
    """Learners that share a goal, on the same rows."""

    name: str
    shape: tuple[int, int]
    dtype: torch.dtype
    learners: list[Any]
    goal: str


def tasks(sizes: Sizes) -> list[Task]:
    # One fit is timed, so thresholds come from it, not from refits without a part of the rows.
    one_fit: dict[str, Any] = {"offset_from": "training"}
    alone: dict[str, Any] = {"approximation": None, **one_fit}
    exact = [OneClassGP("mean", **alone), KernelPCADetector(**alone)]
    some: dict[str, Any] = {"approximation": "nystroem", "random_state": 0, **one_fit}
    m = sizes.landmarks
    by_features = [
        OneClassGP("mean", n_components=m, **some),
        KernelPCADetector(n_approximation=m, **some),
        SVDD(n_components=m, **some),
    ]
    return [
        Task("exact", sizes.exact, torch.float32, exact, "30 s in all"),
        Task("exact", sizes.exact, torch.float64, exact, "30 s in all"),
        Task("Nyström", sizes.nystroem, torch.float32, by_features, "10 s each"),
        # Double precision tells small directions from rounding, and keeps nearly all of them.
        Task("Nyström", sizes.nystroem, torch.float64, by_features, "10 s each"),
    ]


def main(arguments: list[str] | None = None) -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"))
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does everything work?")
    parser.add_argument("--output", type=Path, default=Path("research/results/speed"))
    options = parser.parse_args(arguments)
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name() if device == "cuda" else cpu_name()
    if device == "cpu":
        print("No CUDA device is used: smaller sizes, on the CPU. The goals are a GPU's.")
    sizes = TINY if options.quick else GOAL if device == "cuda" else SMALL
    for task in tasks(TINY):  # libraries are loaded and kernels compiled before the clock starts
        measure(task, TINY, device)
    records = [record for task in tasks(sizes) for record in measure(task, sizes, device)]
    path = options.output / f"device_learners-{device}.json"
    about = environment(torch.get_num_threads(), PACKAGES, device=name, cuda=torch.version.cuda)
    write_document(path, {"environment": about, "records": records})
    print(f"{name}, torch {torch.__version__}\n\n{as_table(records)}\nwritten to {path}")


def measure(task: Task, sizes: Sizes, device: str) -> list[Record]:
    """Fit and score every learner of the task; what fails is recorded, and the next one runs."""
    X = rows(*task.shape, task.dtype, device)
    records = []
    for learner in task.learners:
        record: Record = {
            "task": task.name,
            "learner": type(learner).__name__,
            "n": task.shape[0],
            "d": task.shape[1],
            "landmarks": sizes.landmarks if task.name == "Nyström" else None,
            "dtype": str(task.dtype).removeprefix("torch."),
            "goal": task.goal,
        }
        try:
            record |= one(learner, X, sizes.scored)
        except RuntimeError as error:  # out of memory
            record["error"] = str(error).splitlines()[0]
        print(record, flush=True)
        records.append(record)
        for name in [name for name in vars(learner) if name.endswith("_")]:
            delattr(learner, name)
        gc.collect()
        if device == "cuda":
            torch.cuda.empty_cache()
    return records


def one(learner: Any, X: torch.Tensor, scored: int) -> Record:
    with stages(X.device.type) as seconds, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        peak = peak_bytes(lambda: timed(seconds, "fit", learner.fit, X), X.device.type)
    with stages(X.device.type) as again:
        scores = timed(again, "score", learner.score_samples, X[:scored])
    fit = seconds.pop("fit")
    return {
        "seconds": fit,
        "stages": {**seconds, "rest": fit - sum(seconds.values())},
        "peak_bytes": peak,
        "scored_a_second": scored / again["score"],
        "features": None if learner.features_ is None else learner.features_.width,
        "outside": float((scores < learner.offset_).double().mean()),
        "jitter": getattr(learner, "jitter_", None),
        "warnings": [str(warning.message) for warning in told],
    }


def rows(n: int, d: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    """Ten hidden factors, seen through all columns with some noise."""
    generator = torch.Generator(device).manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=dtype)

    X = normal(n, d)
    X *= 0.5
    X += normal(n, 10) @ normal(10, d)
    return X


@contextmanager
def stages(device: str) -> Iterator[dict[str, float]]:
    """Seconds by stage of all that happens inside."""
    seconds: dict[str, float] = defaultdict(float)
    running: set[str] = set()
    patches = [
        patch.object(owner, name, clocked(seconds, running, stage, getattr(owner, name), device))
        for stage, functions in STAGES.items()
        for owner, name in functions
    ]
    for each in patches:
        each.start()
    try:
        yield seconds
    finally:
        for each in patches:
            each.stop()


def clocked(
    seconds: dict[str, float],
    running: set[str],
    stage: str,
    function: Callable[..., Any],
    device: str,
) -> Callable[..., Any]:
    def run(*arguments: Any, **options: Any) -> Any:
        if stage in running:  # a call inside another one of its stage counts once
            return function(*arguments, **options)
        running.add(stage)
        try:
            return timed(seconds, stage, function, *arguments, device=device, **options)
        finally:
            running.discard(stage)

    return run


def timed(
    seconds: dict[str, float],
    stage: str,
    function: Callable[..., Any],
    *arguments: Any,
    device: str = "",
    **options: Any,
) -> Any:
    wait(device)
    start = perf_counter()
    result = function(*arguments, **options)
    wait(device)
    seconds[stage] += perf_counter() - start
    return result


def wait(device: str) -> None:
    if device != "cpu" and torch.cuda.is_available():
        torch.cuda.synchronize()


def peak_bytes(action: Callable[[], object], device: str) -> int | None:
    """The most memory in use on the device; on the CPU, above what was resident before."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        action()
        return torch.cuda.max_memory_allocated()
    peak = peak_of(action)
    return None if peak is None else peak.extra


def as_table(records: list[Record]) -> str:
    named = list(dict.fromkeys(stage for r in records for stage in r.get("stages", {})))
    head = ["task", "learner", "n × d", "dtype", "seconds", *named, "peak GiB", "rows scored / s"]
    lines = []
    for r in records:
        asked = [r["task"], r["learner"], f"{r['n']:,} × {r['d']:,}", r["dtype"]]
        if "error" in r:
            lines.append([*asked, r["error"], *[""] * (len(named) + 2)])
            continue
        split = [f"{r['stages'][stage]:.2f}" if stage in r["stages"] else "" for stage in named]
        peak = "" if r["peak_bytes"] is None else f"{r['peak_bytes'] / 2**30:.1f}"
        lines.append([*asked, f"{r['seconds']:.2f}", *split, peak, f"{r['scored_a_second']:,.0f}"])
    return table(
        [*head, "goal"], [[*line, r["goal"]] for line, r in zip(lines, records, strict=True)]
    )


if __name__ == "__main__":
    main()
