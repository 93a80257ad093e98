"""All that is said of rows, as arrays and as a data frame with names."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, Self

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._validation.params import check_choice

CONTRIBUTION = "contribution:"  # before the name of a detector
LIBRARIES = ("pandas", "polars")


def score_columns(detector_names: Sequence[str]) -> list[str]:
    """What the columns of scored tables are called, here and in files of the command line.

    Examples
    --------
    >>> score_columns(["gmm"])
    ['score', 'p_value', 'decision', 'contribution:gmm']
    """
    return ["score", "p_value", "decision", *(f"{CONTRIBUTION}{name}" for name in detector_names)]


class _Arrays(NamedTuple):
    scores: Host
    decision: Host
    pvalues: Host
    contributions: Host | None
    detector_scores: Host


class Verdicts(_Arrays):
    """All that a fused detector says of n rows: a tuple of arrays.

    Attributes
    ----------
    scores : ndarray of shape (n,)
        Fused scores, high = normal.
    decision : ndarray of shape (n,)
        Signed distance to the threshold: negative for anomalies.
    pvalues : ndarray of shape (n,)
        Small for anomalies.
    contributions : ndarray of shape (n, R) or None
        What each detector adds to the score; None where that is no sum.
    detector_scores : ndarray of shape (n, R)
        What each detector says, before scaling.
    detector_names : list of str
        Names of the R detectors.
    index : pandas.Index or None
        That of the rows, where they had one.
    library : {"pandas", "polars"} or None
        That of the rows, where they were a data frame of one of these.
    """

    detector_names: list[str]
    index: Any
    library: str | None

    def of_rows(self, X: Any, detector_names: Sequence[str]) -> Self:
        """Remember the names of the detectors, and what a data frame of the rows needs."""
        module = type(X).__module__.partition(".")[0]
        self.library = module if module in LIBRARIES else None
        self.index = X.index if self.library == "pandas" else None
        self.detector_names = list(detector_names)
        return self

    def to_frame(self, library: str | None = None, **ids: Any) -> Any:
        """The same as a data frame, with the columns of ``lpfuse score``.

        Parameters
        ----------
        library : {"pandas", "polars"}, optional
            By default that of the rows; of arrays, whichever is installed, pandas first.
        **ids : array-like of shape (n,)
            Columns to stand before the others, such as ``serial=pumps["serial"]``.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
            ``score`` (high = normal), ``p_value``, ``decision`` (1 normal, −1 anomaly, as `predict`
            has it) and ``contribution:NAME``, which add up to the score, where it is a sum. Of
            pandas, the index is that of the rows. Where no detector could score a row, NaN; null in
            polars.
        """
        library = library or self.library or _installed()
        check_choice("library", library, LIBRARIES)
        decisions = np.where(self.decision >= 0, 1, -1).astype(np.int8)
        parts = () if self.contributions is None else self.contributions.T
        names = score_columns(self.detector_names[: len(parts)])
        clash = [name for name in ids if name in names]
        if clash:
            raise ValueError(
                f"{', '.join(map(repr, clash))}: the scores have a column of that name. Give the "
                "ids another one."
            )
        ids = {name: np.asarray(values) for name, values in ids.items()}
        columns = ids | dict(
            zip(names, [self.scores, self.pvalues, decisions, *parts], strict=True)
        )
        if library == "pandas":
            return import_module("pandas").DataFrame(columns, index=self.index)
        pl = import_module("polars")
        return pl.DataFrame(columns).with_columns(pl.col(names).fill_nan(None))


def _installed() -> str:
    """The library for a data frame of what came as an array."""
    for library in LIBRARIES:
        if find_spec(library) is not None:
            return library
    raise ImportError("A data frame needs pandas or polars: pip install pandas")
