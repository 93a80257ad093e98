"""Resident memory of this process at its highest, as the kernel counts it. Linux only.

It sees what BLAS, LAPACK and libsvm allocate as well as NumPy's arrays.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")


class Peak(NamedTuple):
    """Bytes: the high-water mark, and how far it lies above what was resident before."""

    total: int
    extra: int


def peak_of(action: Callable[[], object]) -> Peak | None:
    """The peak while the action runs; None where the system does not tell."""
    if not CLEAR_REFS.exists():
        return None
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # hand freed pages back, lest they hide what is asked for
    CLEAR_REFS.write_text("5")  # the high-water mark starts again from here
    before = _bytes("VmRSS")
    action()
    total = _bytes("VmHWM")
    return Peak(total, max(0, total - before))


def _bytes(field: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024
