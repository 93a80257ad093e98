"""Cells (set, seed), the units of work, and their way through processes of one thread each."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

Row = dict[str, Any]


@dataclass(frozen=True, order=True)
class Cell:
    """The unit of work that is done whole or not at all.

    Attributes
    ----------
    set : str
        Name of the data set.
    seed : int
        Of the random split.
    """

    set: str
    seed: int

    def __str__(self) -> str:
        return f"{self.set}, seed {self.seed}"


def finished(
    work: Callable[[Cell], list[Row]], cells: Sequence[Cell], jobs: int
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
    from threadpoolctl import threadpool_limits

    try:
        with threadpool_limits(1):
            return work(cell)
    except Exception as error:
        error.add_note(f"This happened while measuring {cell}.")
        return _Failure(error, traceback.format_exc())
