"""Files of rows to files of scores: in chunks, on all cores, in the order of the rows."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lpfuse._arrays import one_blas_thread
from lpfuse._checks.messages import quoted
from lpfuse.tables._columns import counted
from lpfuse.tables._model import TableModel
from lpfuse.tables._reading import Chunk, open_table
from lpfuse.tables._writing import table_writer

if TYPE_CHECKING:
    import polars

X = TypeVar("X")
T = TypeVar("T")
MOST_WORKERS = 8  # chunks that are held at a time, however many cores there are


@dataclass(frozen=True)
class Tally:
    """What came of scoring a file: rows, those called anomalies, and remarks in sentences."""

    rows: int
    anomalies: int
    notes: list[str]


def score_file(
    model: TableModel,
    data: str | Path,
    out: str | Path,
    *,
    keep: Sequence[str] = (),
    chunk_rows: int = 10_000,
    jobs: int | None = None,
    progress: Callable[[int, float | None], None] | None = None,
) -> Tally:
    """Score a file that may be larger than the memory.

    Parameters
    ----------
    model : TableModel
        Fitted.
    data : str or path
        The rows, see :func:`lpfuse.tables._reading.open_table`.
    out : str or path
        The scores, in the order of the rows, see :func:`lpfuse.tables._writing.table_writer`.
    keep : sequence of str, default=()
        Columns of the data to be put before the scores.
    chunk_rows : int, default=10000
        Rows that are scored at a time.
    jobs : int, optional
        Chunks that are scored at a time; None: one on each core, up to 8.
    progress : callable, optional
        Is told the number of rows that are scored, and the share of the file, if it is known.

    Returns
    -------
    Tally
        How many rows, and what to know of them.
    """
    with open_table(data) as table:
        kept = model.check_kept(keep, table.columns)
        known = {*kept, model.label}
        strange = [name for name in model.preparation.check(table.columns) if name not in known]

        def work(chunk: Chunk) -> tuple[float | None, polars.DataFrame, Counter[str]]:
            scored = model.score(chunk.frame, start=chunk.start, keep=kept)
            return chunk.share, scored, model.preparation.surprises(chunk.frame)

        rows = anomalies = 0
        surprises: Counter[str] = Counter()
        with one_blas_thread, table_writer(out) as add:  # the chunks are spread over the cores
            for share, scored, found in in_order(work, table.chunks(chunk_rows), jobs or _cores()):
                add(scored)
                rows += scored.height
                anomalies += int((scored["decision"] < 0).sum())
                surprises += found
                if progress is not None:
                    progress(rows, share)
    notes = [f"Ignored, for the model does not know it: {quoted(strange, 20)}."] if strange else []
    notes += [f"{told} in {counted(number, 'row')}." for told, number in surprises.items()]
    return Tally(rows, anomalies, notes)


def in_order(work: Callable[[X], T], items: Iterable[X], workers: int) -> Iterator[T]:
    """``work`` on each item, on so many threads; results in their order, few of them waiting."""
    pool = ThreadPoolExecutor(workers)
    waiting: deque[Future[T]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _cores() -> int:
    allowed = getattr(os, "sched_getaffinity", None)  # Linux: the cores this process may use
    return min(MOST_WORKERS, len(allowed(0)) if allowed else os.cpu_count() or 1)
