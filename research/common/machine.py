"""What the figures were measured with, and the same number of threads for everyone."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess  # nosec B404 # asks git for the commit
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS",
)  # fmt: skip

COMMIT_VARIABLE = "LPFUSE_COMMIT"  # names the commit of a copy without git

# What figures depend on; results are left out, because a run changes them itself.
MEASURED = ("packages", "research", ":(exclude)research/results")


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


def quiet(threads: int, factory: Callable[..., Any], *arguments: Any) -> Any:
    """``factory(*arguments)`` in a process that runs on so many cores and does not warn.

    BLAS and OpenMP read their limits from the environment; lpfuse asks for the cores it may use.
    """
    if threads < cores() and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    warnings.simplefilter("ignore")
    return factory(*arguments)


def environment(threads: int, packages: Sequence[str], **more: Any) -> dict[str, Any]:
    """A record of the surroundings, with a short ``id`` that other records refer to."""
    record: dict[str, Any] = {
        "cpu": cpu_name(),
        "cores": cores(),
        "threads": threads,
        "system": platform.system(),
        "python": platform.python_version(),
        "blas": sorted({f"{lib['internal_api']} {lib['version']}" for lib in threadpool_info()}),
        "versions": {package: _version(package) for package in packages},
        **measured_commit(),
        **more,
    }
    return identified(record)


def identified(record: dict[str, Any]) -> dict[str, Any]:
    """The record with the short ``id`` that its contents have."""
    told = {name: value for name, value in record.items() if name != "id"}
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    return {"id": digest[:10], **told}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def cpu_name() -> str:
    """The processor as it calls itself."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def slug(name: str) -> str:
    """A device's name as part of a file name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def measured_commit() -> dict[str, Any]:
    """The commit that figures are measured at, and whether what they depend on was changed since.

    Results are left out of the latter, because a run changes them itself.
    """
    named = os.environ.get(COMMIT_VARIABLE)
    return {
        "commit": named or _git("rev-parse", "--short", "HEAD") or "none",
        "uncommitted_changes": not named and bool(_git("status", "--porcelain", "--", *MEASURED)),
    }


def commit_of(folder: Path) -> str:
    """The commit that a folder's files are of, and whether they were changed since."""
    commit = _git("rev-parse", "--short", "HEAD", folder=folder)
    changed = _git("status", "--porcelain", "--", ".", folder=folder) if commit else ""
    return f"{commit or 'none'}{' (with uncommitted changes)' if changed else ''}"


def _git(*arguments: str, folder: Path = Path(__file__).parents[2]) -> str:
    if shutil.which("git") is None:
        return ""
    found = subprocess.run(  # nosec B603 B607 # the git that the user has, no shell, fixed words
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() if found.returncode == 0 else ""
