"""What the figures were measured with, and the same number of threads for everyone."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from benchmarks.solver.machine import cores
from benchmarks.solver.machine import environment as solver_environment

PACKAGES = ("lpfuse", "numpy", "scipy", "scikit-learn", "pyod")


def environment(threads: int) -> dict[str, Any]:
    """A record of the surroundings, with a short ``id`` that other records refer to."""
    record = {k: v for k, v in solver_environment(threads).items() if k != "id"}
    record["versions"] = {package: _version(package) for package in PACKAGES}
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
    return {"id": digest[:10], **record}


def quiet(threads: int, factory: Callable[..., Any], *arguments: Any) -> Any:
    """``factory(*arguments)`` in a process that runs on so many cores and does not warn.

    BLAS and OpenMP read their limits from the environment; lpfuse asks for the cores it may use.
    The paper's narrow widths are warned about, rightly, and 75 times a run.
    """
    if threads < cores() and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    warnings.simplefilter("ignore")
    return factory(*arguments)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
