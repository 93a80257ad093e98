"""What the figures were measured with: processor, threads, versions, commit."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

PACKAGES = (
    "lpfuse", "numpy", "scipy", "scikit-learn", "cvxpy", "clarabel", "scs", "ecos", "highspy",
)  # fmt: skip
THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS",
)  # fmt: skip


def set_threads(threads: int) -> None:
    """For every process started from here on: libraries read these when they are loaded."""
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(threads)


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def physical_memory() -> int:
    """Bytes of main memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def environment(threads: int) -> dict[str, Any]:
    """A record of the surroundings, with a short ``id`` that other records refer to."""
    record: dict[str, Any] = {
        "cpu": _cpu_name(),
        "cores": cores(),
        "threads": threads,
        "system": platform.system(),
        "python": platform.python_version(),
        "blas": sorted({f"{lib['internal_api']} {lib['version']}" for lib in threadpool_info()}),
        "versions": _versions(),
        "commit": _git("rev-parse", "--short", "HEAD") or "none",
        "uncommitted_changes": bool(_git("status", "--porcelain", "--", "src", "benchmarks")),
    }
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
    return {"id": digest[:10], **record}


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _git(*arguments: str) -> str:
    here = Path(__file__).parent
    found = subprocess.run(
        ["git", *arguments], cwd=here.parent.parent, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() if found.returncode == 0 else ""
