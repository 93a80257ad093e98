"""Rows that keep coming, scored by several processes or machines: over a cluster of Dask.

Batches go to the workers and verdicts come back in the order of the batches, each of them once,
also where a worker dies on the way. See `score_stream`.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

from lpfuse._validation.params import check_count
from lpfuse.ensemble.components import Verdicts
from lpfuse.io import load, save
from lpfuse.monitor import DriftMonitor, DriftStatus, StreamCounts

__all__ = ["ScoredBatch", "score_stream"]


@dataclass(frozen=True, eq=False)
class ScoredBatch:
    """What is said of one batch.

    Attributes
    ----------
    number : int
        Which batch it is, from 0.
    first_row : int
        How many rows the batches before it had.
    verdicts : Verdicts or None
        Those of its rows; None where the batch was refused.
    refused : str or None
        Why it was refused: what is wrong with its rows.
    status : DriftStatus or None
        What the monitor says of all rows up to this batch, where there is a monitor.
    """

    number: int
    first_row: int
    verdicts: Verdicts | None
    refused: str | None
    status: DriftStatus | None


def score_stream(
    fused: Any,
    batches: Iterable[Any],
    client: Any,
    *,
    monitor: DriftMonitor | None = None,
    in_flight: int | None = None,
    trusted: Iterable[str | type] = (),
) -> Iterator[ScoredBatch]:
    """Score batches of rows on the workers of a cluster, in their order, for as long as they come.

    Parameters
    ----------
    fused : FusedDetector
        Fitted.
    batches : iterable of array-likes or data frames of shape (m, d)
        Rows; it may never end. Batches of a thousand rows or more are worth sending.
    client : distributed.Client
        Of the cluster; one that is not asynchronous. ``pip install "lpfuse[dask]"``
    monitor : DriftMonitor, optional
        Takes in every batch that was scored, once, in order: counts are made where the rows are.
    in_flight : int, optional
        How many batches are taken from `batches` and not yet given back, at most; by default twice
        as many as the workers have threads when the stream begins. It bounds the memory of all.
    trusted : iterable of str or type, default=()
        As in :func:`lpfuse.io.load`, for detectors of other makers.

    Yields
    ------
    ScoredBatch
        One for each batch, in order. One whose rows the detector refuses is given back with the
        reason, is not shown to the monitor, and does not end the stream.

    Raises
    ------
    RuntimeError
        Where worker after worker died over the same batch, as often as the cluster allows
        (Dask's ``distributed.scheduler.allowed-failures``).

    Notes
    -----
    **A worker that dies** loses nothing: the scheduler holds each batch until its verdicts are
    here, and gives it to another worker. It may then be scored twice, to the same result, of which
    one comes back. Where no worker is left, the stream waits for one. What this does not cover is
    the death of this process or of the scheduler. To go on after that, note the last `number`
    together with what was written of it, save the monitor, and begin with the batch behind.

    **The model** travels once to each worker, as the bytes of `lpfuse.io.save`, and is the one that
    it was when the stream began. Dask itself speaks pickle between its processes: whoever can
    reach the ports of scheduler and workers can run code there, so keep them to a network of your
    own, or use its TLS.

    **The monitor** is here, on the driver, and gets the same evidence as without a cluster, where
    no batch was refused; behind a refused one, ties are broken by other random numbers. What
    detectors warn of, such as gaps, is in the workers' logs.

    Examples
    --------
    Of a cluster elsewhere, ``Client("tcp://scheduler:8786")``; here it is in this process.

    >>> import numpy as np
    >>> from distributed import Client
    >>> from lpfuse import FusedDetector
    >>> from lpfuse_cli.cluster import score_stream
    >>> rng = np.random.default_rng(0)
    >>> fused = FusedDetector(["gmm", "kpca"], random_state=0).fit(rng.normal(size=(300, 2)))
    >>> batches = [np.zeros((3, 2)), np.full((2, 2), 9.0), np.zeros((1, 5))]
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     for batch in score_stream(fused, batches, client):
    ...         if batch.refused is None:
    ...             print(batch.number, (batch.verdicts.decision < 0).tolist())
    ...         else:
    ...             print(batch.number, batch.refused)
    0 [False, False, False]
    1 [True, True]
    2 X has 5 features, but FusedDetector is expecting 2 features as input...
    """
    killed = _killed_worker()
    if not callable(getattr(fused, "verdicts", None)):
        raise TypeError(
            f"fused must be a fitted FusedDetector, got {type(fused).__name__}. Detectors and "
            "fusions by themselves give no verdicts."
        )
    if getattr(client, "asynchronous", True):
        raise TypeError(
            "client must be a distributed.Client that is not asynchronous, got "
            f"{type(client).__name__}. Make one: Client(address)."
        )
    if in_flight is not None:
        check_count("in_flight", in_flight)
    content = saved_bytes(fused), None if monitor is None else saved_bytes(monitor)
    return _scored(content, tuple(trusted), batches, client, monitor, in_flight, killed)


def _scored(
    content: tuple[bytes, bytes | None],
    trusted: tuple[Any, ...],
    batches: Iterable[Any],
    client: Any,
    monitor: DriftMonitor | None,
    in_flight: int | None,
    killed: type[Exception],
) -> Iterator[ScoredBatch]:
    name = f"lpfuse-{uuid4().hex}"
    most = in_flight or max(2, 2 * sum(client.nthreads().values()))
    # A task, not scattered data: should all workers be lost, the scheduler can make it again.
    with _large_graphs():
        model = client.submit(_kept, content, key=f"{name}-model", pure=False)
    started = 0 if monitor is None else monitor.n_rows_
    flying: deque[tuple[int, int, Any]] = deque()
    number = first_row = 0
    coming = iter(batches)
    try:
        while True:
            while len(flying) < most:
                try:
                    rows = next(coming)
                except StopIteration:
                    most = 0
                    break
                with _large_graphs():
                    work = client.submit(
                        _verdicts_of, name, model, trusted, rows, started + first_row,
                        key=f"{name}-{number}", pure=False,
                    )  # fmt: skip
                flying.append((number, first_row, work))
                number, first_row = number + 1, first_row + _length(rows)
            if not flying:
                return
            yield _landed(*flying.popleft(), monitor, killed)
    finally:  # also where the reader has had enough, or an error ends it
        if client.status == "running":  # a client that was closed first has let go of all of it
            for *_, work in flying:
                work.cancel()
            model.release()


def _landed(
    number: int, first_row: int, work: Any, monitor: DriftMonitor | None, killed: type[Exception]
) -> ScoredBatch:
    try:
        verdicts, counts, refused = work.result()
    except killed as error:
        raise RuntimeError(
            f"Batch {number}, from row {first_row} of the stream on, was given up: every worker "
            "that was scoring it died. See the workers' logs; where memory ran out, make batches "
            "smaller or give workers more of it."
        ) from error
    work.release()
    if monitor is not None and counts is not None:
        monitor.update_counts(counts)
    status = None if monitor is None else monitor.status_
    return ScoredBatch(number, first_row, verdicts, refused, status)


# ------------------------------------------------------------------------------- on the workers

_MODELS: dict[str, tuple[Any, DriftMonitor | None]] = {}  # of this process, by stream
_MOST_MODELS = 4  # streams that take turns on one cluster without loading models again and again
_LOADING = Lock()  # a worker has several threads


def _kept(content: Any) -> Any:
    return content


def kept_models(
    stream: str, content: tuple[bytes, bytes | None], trusted: Any
) -> tuple[Any, DriftMonitor | None]:
    """Return the models of a stream, which a process loads once."""
    with _LOADING:
        if stream not in _MODELS:
            while len(_MODELS) >= _MOST_MODELS:
                del _MODELS[next(iter(_MODELS))]
            _MODELS[stream] = (
                _loaded(content[0], trusted),
                None if content[1] is None else _loaded(content[1], ()),
            )
        return _MODELS[stream]


def _verdicts_of(
    stream: str, content: tuple[bytes, bytes | None], trusted: Any, rows: Any, first_row: int
) -> tuple[Verdicts | None, StreamCounts | None, str | None]:
    """Verdicts and counts; or neither, and what is wrong with the rows."""
    fused, monitor = kept_models(stream, content, trusted)
    try:
        verdicts = fused.verdicts(rows)
        counts = None if monitor is None else monitor.count(rows, verdicts, first_row=first_row)
    except (ValueError, TypeError) as error:  # what the entrance says of rows
        return None, None, str(error)
    return verdicts, counts, None


# --------------------------------------------------------------------------------- small parts


def saved_bytes(thing: Any) -> bytes:
    """Return what `lpfuse.io.save` writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sent.lpfuse"
        save(thing, path)
        return path.read_bytes()


def _loaded(content: bytes, trusted: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sent.lpfuse"
        path.write_bytes(content)
        return load(path, trusted)


def _length(rows: Any) -> int:
    try:
        return len(rows)
    except TypeError:  # a single number, which the worker will refuse
        return 0


def _large_graphs() -> Any:
    """No warning of tasks above 10 MB: what is scattered instead would die with its worker."""
    import dask

    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"})


def _killed_worker() -> type[Exception]:
    try:
        from distributed import KilledWorker
    except ImportError as error:
        raise ImportError('A cluster needs an extra: pip install "lpfuse[dask]"') from error
    found: type[Exception] = KilledWorker
    return found
