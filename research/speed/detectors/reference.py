"""One pass of plain kernel evaluations, as fast as NumPy lets it be: the unit for scoring.

Each thread takes a contiguous part of the rows and fills one buffer over and over: a product, then
exp in place. Nothing is done with the values. It shares no code with lpfuse.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

from .data import Matrix

BLOCKS = (64, 128, 256, 512, 1024, 2048)  # rows a block, of which the fastest is used
TRIAL_ROWS = 40_000  # of a trial of a block size; chosen by hand

Use = Callable[[int, Matrix], None]


def kernel_pass(
    X: Matrix, anchors: Matrix, gamma: float, threads: int, block: int, use: Use | None = None
) -> None:
    """``exp(−γ‖x − z‖²)`` of all rows and anchors; ``use(first row, values)`` sees every block."""
    right = np.vstack([2 * gamma * anchors.T, np.full(len(anchors), -gamma)])
    right = np.vstack([right, -gamma * (anchors**2).sum(axis=1)])
    cuts = [len(X) * part // threads for part in range(threads + 1)]

    def part(index: int) -> None:
        left = np.ones((block, X.shape[1] + 2))
        values = np.empty((block, len(anchors)))
        for start in range(cuts[index], cuts[index + 1], block):
            rows = X[start : min(start + block, cuts[index + 1])]
            some, filled = left[: len(rows)], values[: len(rows)]
            some[:, :-2] = rows
            np.einsum("ij,ij->i", rows, rows, out=some[:, -2])
            np.matmul(some, right, out=filled)
            np.exp(filled, out=filled)
            if use is not None:
                use(start, filled)

    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        list(pool.map(part, range(threads)))


def fastest_block(X: Matrix, anchors: Matrix, gamma: float, threads: int) -> int:
    """The block size that suits these anchors and this processor best."""
    rows = X[:TRIAL_ROWS]

    def seconds(block: int) -> float:
        start = time.perf_counter()
        kernel_pass(rows, anchors, gamma, threads, block)
        return time.perf_counter() - start

    return min(BLOCKS, key=lambda block: min(seconds(block) for _ in range(3)))
