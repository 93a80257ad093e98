"""Work over cells (set, seed): measured once, in processes of one thread each, kept when stopped.

While a run goes on, each finished cell is one line of a journal (``uci.partial.jsonl``). At the end
the whole file (``uci.jsonl``) takes its place. What the files hold: `research.common.store`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from lpfuse import _files
from lpfuse._files import as_json
from research.common.machine import measured_commit
from research.common.store import (
    Cell,
    CellFile,
    Origin,
    Row,
    json_line,
    locked_journal,
    size_of,
    sync,
)

__all__ = ["Cell", "Progress", "Row", "finished", "measure", "versions"]

Progress = Callable[[int, int], None]


def versions() -> dict[str, Any]:
    """What figures depend on: versions of the libraries, and the commit."""
    return {**_files.versions(), **measured_commit()}


def measure(
    work: Callable[[Cell], list[Row]],
    cells: Sequence[Cell],
    path: Path | str,
    *,
    protocol: Mapping[str, Any] | None,
    opening: Mapping[str, Any] | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> list[Row]:
    """Measure the cells that are not stored yet, and return the rows of all.

    However it is interrupted (Ctrl-C, ``kill -9``, an error in a cell), every finished cell is kept
    and the next call goes on from there. The finished file is the same, byte for byte, for any
    `jobs` and however often it was interrupted.

    Parameters
    ----------
    work : callable
        Takes a cell, returns its rows: dicts with ``setting``, ``method``, ``metric``, ``value``
        and what else is worth keeping; ``set`` and ``seed`` are filled in. It may depend on nothing
        but the cell, and runs with one thread for linear algebra. Values are numbers, strings,
        booleans, None, or lists and dicts of those. What comes from NumPy becomes plain Python.
        JSON has neither NaN, which becomes None, nor infinity, which becomes ``"inf"``: ``float``
        reads it.
    cells : sequence of Cell
        In the order in which the file holds them.
    path : path
        The results file; its folder is made. Cells of another protocol, and those that are not
        asked for this time, stay in it.
    protocol : mapping
        All that the figures depend on. Cells count as stored under the same `protocol_hash` only.
        None: the file holds one kind of run, and every cell in it counts as stored.
    opening : mapping, optional
        First line of a new file without a protocol: what its rows were measured with.
    jobs : int, default=1
        Processes; −1 for one on each core.
    progress : callable, optional
        Called with the number of cells done, stored ones included, and the number of all: at the
        start and after each cell.

    Returns
    -------
    list of dict
        Rows of `cells`, in their order, each with the hashes ``protocol`` and ``versions`` where
        there is a protocol.

    Raises
    ------
    BlockingIOError
        When another process measures into the same file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from research.common.measure import Cell, measure
    >>> def work(cell):
    ...     print("measuring", cell)
    ...     return [{"method": "sum", "metric": "auc", "value": 0.9}]
    >>> protocol = {"splits": "70/20/10"}
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "results" / "uci.jsonl"
    ...     one = measure(work, [Cell("iris", 0)], path, protocol=protocol)
    ...     two = measure(work, [Cell("iris", 0), Cell("iris", 1)], path, protocol=protocol)
    measuring iris, seed 0
    measuring iris, seed 1
    >>> [row["seed"] for row in two]
    [0, 1]
    """
    path = Path(path)
    if jobs == 0:
        raise ValueError("jobs must be a number of processes, or -1 for all cores; got 0.")
    origin = Origin() if protocol is None else Origin(as_json(protocol), versions())
    wanted = {(origin.hashes.get("protocol"), cell): cell for cell in cells}
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked_journal(path) as journal:
        stored = CellFile.read(path)
        if opening is not None and not path.exists():
            stored.opening = [as_json(opening)]
        missing = [cell for key, cell in wanted.items() if key not in stored.cells]
        done = len(wanted) - len(missing)
        report = progress or (lambda done, total: None)
        report(done, len(wanted))
        for rows in finished(partial(_rows_of, work), missing, jobs):
            journal.write(json_line({**origin._asdict(), "rows": rows}))
            sync(journal)
            stored.add(origin, rows)
            done += 1
            report(done, len(wanted))
        if size_of(journal) > 0:
            stored.write(path, first=wanted)
            journal.truncate(0)
    return [row for key in wanted for row in stored.cells[key]]


def _rows_of(work: Callable[[Cell], list[Row]], cell: Cell) -> list[Row]:
    """The rows of a cell as they are stored."""
    rows = work(cell)
    if not rows:
        raise ValueError("A cell must give at least one row, got none.")
    place = {"set": cell.set, "seed": cell.seed}
    for row in rows:
        if taken := {"header", "protocol", "versions"} & row.keys():
            raise ValueError(f"Rows may not use the names that the file uses: {sorted(taken)}.")
        if (found := {name: row.get(name, place[name]) for name in place}) != place:
            raise ValueError(f"A row of the cell {place} says that it belongs to {found}.")
    return [as_json(place | row) for row in rows]


def finished(
    work: Callable[[Cell], list[Row]], cells: Iterable[Cell], jobs: int
) -> Iterator[list[Row]]:
    """The rows of each cell, in the order in which they come.

    After an error no more cells are begun; those under way are waited for, then it is raised.

    Parameters
    ----------
    work : callable
        Takes a cell, returns its rows.
    cells : sequence of Cell
        What to measure.
    jobs : int
        Processes; 1 stays in this one, −1 is one on each core.
    """
    from joblib import Parallel, delayed

    failures: list[_Failure] = []

    def tasks() -> Iterator[Any]:
        for cell in cells:
            if failures:
                return
            yield delayed(_attempt)(work, cell)

    parallel = Parallel(
        jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs", max_nbytes=None
    )
    for outcome in parallel(tasks()):
        if isinstance(outcome, _Failure):
            failures.append(outcome)
        else:
            yield outcome
    if failures:
        error, text = failures[0]
        if error.__traceback__ is None:
            error.__cause__ = RuntimeError(f"in another process:\n{text}")
        raise error


class _Failure(NamedTuple):
    error: Exception
    text: str  # its traceback, which does not travel between processes


def _attempt(work: Callable[[Cell], list[Row]], cell: Cell) -> list[Row] | _Failure:
    """One cell, in whichever process; an error is returned, so that it does not stop the others."""
    # Loaded first, because the limit reaches only the libraries that are there. One thread: how
    # sums are split among threads shows in their last digits.
    import scipy.linalg  # noqa: F401
    import sklearn.utils  # noqa: F401
    from sklearn import config_context
    from threadpoolctl import threadpool_limits

    try:
        # scikit-learn's checks of parameters take a tenth of what many small fits take.
        with threadpool_limits(1), config_context(skip_parameter_validation=True):
            return work(cell)
    except Exception as error:
        error.add_note(f"This happened while measuring {cell}.")
        return _Failure(error, traceback.format_exc())
