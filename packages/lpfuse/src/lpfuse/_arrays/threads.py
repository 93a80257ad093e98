"""Threads of our own and of libraries, and how much memory a block or a matrix may take."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from threading import Lock, current_thread, local
from typing import TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
X = TypeVar("X")

WORKER = "lpfuse-worker"  # how threads of our own are called
IN_BROWSER = sys.platform in ("emscripten", "wasi")  # where Python can start no threads


class MemoryLimits:
    """Sizes in bytes by which work is cut: `limits` holds those of the process, and may be changed.

    Attributes
    ----------
    block : int
        A block of rows: it should stay in a core's cache between its two uses (residuals, then
        sums over the rows). 4 MiB: on 1,000,000 × 36 scores, blocks from 0.5 to 4 MiB read equally
        fast, 8 MiB a third slower.
    parallel : int
        Below this, handing blocks to threads costs more than it saves. Chosen by hand: two blocks.
    device_block : int
        A block on a device, which must be large enough to keep it busy. Chosen by hand.
    matrix : int
        An n×n matrix of the host: 4 GiB are 23,170 rows in float64. Chosen by hand.
    """

    def __init__(self) -> None:
        self.block = 2**22
        self.parallel = 2**23
        self.device_block = 2**28
        self.matrix = 2**32


limits = MemoryLimits()


@cache
def _pool() -> ThreadPoolExecutor | None:
    """As many threads as there are cores; none where there is one core, for they would queue."""
    allowed = getattr(os, "sched_getaffinity", None)  # Linux: the cores this process may use
    cores = len(allowed(0)) if allowed else os.cpu_count()
    return None if cores == 1 else ThreadPoolExecutor(cores, thread_name_prefix=WORKER)


if hasattr(os, "register_at_fork"):  # threads do not survive a fork: the child starts its own
    os.register_at_fork(after_in_child=_pool.cache_clear)


_this_thread = local()


@contextmanager
def serially() -> Iterator[None]:
    """Have this thread do its work alone: others like it are busy beside it."""
    before = getattr(_this_thread, "alone", False)
    _this_thread.alone = True
    try:
        yield
    finally:
        _this_thread.alone = before


def map_parallel(work: Callable[[X], T], items: Sequence[X]) -> list[T]:
    """``work`` on each item, spread over the cores; for work that spends its time inside arrays."""
    # A worker that waits for workers would wait for ever.
    alone = getattr(_this_thread, "alone", False) or current_thread().name.startswith(WORKER)
    pool = None if alone or IN_BROWSER or len(items) == 1 else _pool()
    return [work(item) for item in items] if pool is None else list(pool.map(work, items))


@cache
def _thread_pools() -> ThreadpoolController:
    return ThreadpoolController()


class _OneThread:
    """Hold BLAS, or OpenMP, to one thread.

    The limit belongs to the process, so users of it that overlap share it: the first one in sets it
    and the last one out restores what was there.
    """

    def __init__(self, user_api: str) -> None:
        self.user_api = user_api
        self.lock = Lock()
        self.users = 0

    def __enter__(self) -> None:
        with self.lock:
            self.users += 1
            if self.users == 1:
                self.limit = _thread_pools().limit(limits=1, user_api=self.user_api)

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self.limit.restore_original_limits()


one_blas_thread = _OneThread("blas")  # our products are small or memory-bound
_one_openmp_thread = _OneThread("openmp")


def openmp_threads_for(n: int) -> AbstractContextManager[None]:
    """One thread of OpenMP for fits of fewer than 50,000 rows (by hand): its threads wait.

    Boosting 270 rows took 0.1 s with one, and up to minutes with two on cores that others use too.
    """
    return _one_openmp_thread if n < 50_000 else nullcontext()
