"""Resident memory of this process at its highest, as the kernel counts it. Linux only.

It sees what BLAS, LAPACK and libsvm allocate as well as NumPy's arrays.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")
KINDS = ("VmHWM", "RssAnon", "RssFile")


class Peak(NamedTuple):
    """Bytes: the high-water mark, and how far it lies above what was resident before."""

    total: int
    extra: int


def peak_of(action: Callable[[], object]) -> Peak | None:
    """The peak while the action runs; None where the system does not tell."""
    before = restart_peak()
    if before is None:
        return None
    action()
    total = _bytes("VmHWM")
    return Peak(total, max(0, total - before))


def restart_peak() -> int | None:
    """Let the high-water mark start again from what is resident now, which is returned."""
    if not CLEAR_REFS.exists():
        return None
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # hand freed pages back, lest they hide what is asked for
    CLEAR_REFS.write_text("5")
    return _bytes("VmRSS")


def highest_since() -> int | None:
    """The high-water mark since `restart_peak`."""
    return _bytes("VmHWM") if CLEAR_REFS.exists() else None


def sampled_peaks(action: Callable[[], object], every: float = 0.01) -> dict[str, int] | None:
    """The high-water mark (VmHWM) while the action runs, and of what kinds memory was, in bytes.

    The kernel keeps a mark of the sum alone. Memory of our own (RssAnon) and pages of mapped files
    (RssFile), which it may drop at will, are told apart by looking often: the largest of each.
    """
    if restart_peak() is None:
        action()
        return None
    peaks = dict.fromkeys(KINDS, 0)
    done = Event()

    def watch() -> None:
        last = False
        while not last:
            last = done.wait(every)
            status = _status()
            peaks.update({kind: max(peaks[kind], status[kind]) for kind in KINDS})

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        action()
    finally:
        done.set()
        watcher.join()
    return peaks


def _bytes(field: str) -> int:
    return _status()[field]


def _status() -> dict[str, int]:
    """Every field of the status that is an amount of memory."""
    fields = (line.split() for line in STATUS.read_text().splitlines())
    return {name.rstrip(":"): 1024 * int(rest[0]) for name, *rest in fields if rest[1:] == ["kB"]}
