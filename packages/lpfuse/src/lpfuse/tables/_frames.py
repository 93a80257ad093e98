"""Data frames of any maker: read as polars, and judged by a model of tables."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse._format import quote
from lpfuse._validation.tables import is_frame, known_frame
from lpfuse.ensemble.rows import EmptyColumnWarning
from lpfuse.ensemble.scoring import score_columns
from lpfuse.tables._polars import polars_module

if TYPE_CHECKING:
    import polars

    from lpfuse.ensemble import FusedDetector
    from lpfuse.ensemble.components import Verdicts
    from lpfuse.tables._preparation import TablePreparation


def as_polars(X: Any) -> polars.DataFrame:
    """A data frame of pandas, polars, narwhals or Arrow as one of polars.

    Columns that hold values of several types become texts, as all cells of a CSV file are.

    Parameters
    ----------
    X : data frame
        Rows; the index of pandas is not looked at.

    Examples
    --------
    >>> import pandas as pd
    >>> as_polars(pd.DataFrame({"bar": [2.5, None], "kind": ["a", 1]})).rows()
    [(2.5, 'a'), (None, '1')]
    """
    pl, frame = polars_module(), known_frame(X)
    if isinstance(frame, pl.DataFrame):
        return frame
    if not is_frame(frame):
        raise TypeError(
            f"Expected a data frame with named columns, got {type(X).__name__}. Make it one, for "
            "instance pandas.DataFrame(X, columns=[...]); FusedDetector takes arrays of numbers."
        )
    names = [str(name) for name in frame.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"Columns need names of their own, but {quote(twice[0])} occurs twice.")
    columns = (frame.iloc[:, j] for j in range(len(names)))
    return pl.DataFrame([_series(name, each) for name, each in zip(names, columns, strict=True)])


def _series(name: str, column: Any) -> polars.Series:
    pl = polars_module()
    try:
        return pl.Series(name, column)
    except (TypeError, ValueError, pl.exceptions.PolarsError):
        there = column.notna()
        cells = [str(cell) if known else None for cell, known in zip(column, there, strict=True)]
        return pl.Series(name, cells, dtype=pl.String)


class JudgedRows(NamedTuple):
    """All that one pass over n rows, at least one, gives.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Their features, NaN where nothing is known.
    nothing : ndarray of shape (n,) of bool
        Which of them hold no value at all.
    verdicts : Verdicts
        What the fused detector says; of rows that hold nothing, what it says of zeros.
    table : polars.DataFrame of n rows
        The columns of `lpfuse.tables.TableModel.score`.
    """

    X: Host
    nothing: NDArray[np.bool_]
    verdicts: Verdicts
    table: polars.DataFrame


class FrameJudge:
    """What a model of tables says of the rows of a data frame, in scikit-learn's words."""

    preparation: TablePreparation
    fused: FusedDetector

    def numbers(self, frame: polars.DataFrame, start: int = 0) -> Host:
        """The features of rows, of shape (n, d), see :meth:`TablePreparation.numbers`.

        Parameters
        ----------
        frame, start : polars.DataFrame, int
            Rows, and how many were before these, for messages.
        """
        self.preparation.check(frame.columns)
        return self.preparation.numbers(frame, start)

    def judged(self, frame: polars.DataFrame, start: int = 0) -> JudgedRows:
        """Features, verdicts and the table of scores, from one pass.

        Parameters
        ----------
        frame, start : polars.DataFrame, int
            At least one row, and how many were before these, for messages.
        """
        pl = polars_module()
        X = self.numbers(frame, start)
        nothing = self.preparation.all_missing(frame).to_numpy()
        given = X
        if nothing.any() and not self.preparation.scores:
            # Told of in words of their own; their scores are taken away below.
            given = np.where(nothing[:, None], 0.0, X)
        # `column_changes` names them.
        with warnings.catch_warnings(action="ignore", category=EmptyColumnWarning):
            found = self.fused.verdicts(given)
        parts = found.contributions
        assert parts is not None  # tables are fused by weighted sums
        # No score, or one of cells that were all lent: an anomaly, for nothing speaks for it.
        decisions = np.where((found.decision >= 0) & ~nothing, 1, -1).astype(np.int8)
        columns = [found.scores, found.pvalues, decisions, *parts.T]
        names = score_columns(self.fused.detector_names_)
        table = pl.DataFrame(dict(zip(names, columns, strict=True)))
        numbers = pl.selectors.float().fill_nan(None)
        table = table.with_columns(pl.when(~pl.Series(nothing)).then(numbers).name.keep())
        return JudgedRows(X, nothing, found, table)

    def score_samples(self, X: Any) -> Host:
        """Fused score of each row, high = normal.

        Parameters
        ----------
        X : data frame of n rows
            Of pandas, polars, narwhals or Arrow, with the columns of the training in any order, and
            perhaps others.

        Returns
        -------
        ndarray of shape (n,)
            Scores; NaN of a row without any value, or that no detector could score.
        """
        return self._ask(self.fused.score_samples, X)

    def decision_function(self, X: Any) -> Host:
        """``score_samples(X)`` minus the threshold: negative for anomalies.

        Parameters
        ----------
        X : data frame of n rows
            As in `score_samples`.

        Returns
        -------
        ndarray of shape (n,)
            Signed distances; NaN where there is no score.
        """
        return self._ask(self.fused.decision_function, X)

    def pvalues(self, X: Any) -> Host:
        """How unusual each row is among normal ones: small for anomalies.

        Parameters
        ----------
        X : data frame of n rows
            As in `score_samples`.

        Returns
        -------
        ndarray of shape (n,)
            Conformal p-values; NaN of a row without any value.
        """
        return self._ask(self.fused.pvalues, X)

    def predict(self, X: Any) -> NDArray[np.intp]:
        """+1 for normal rows, −1 for anomalies, and where there is no score.

        Parameters
        ----------
        X : data frame of n rows
            As in `score_samples`.

        Returns
        -------
        ndarray of shape (n,)
            +1 or −1.
        """
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def _ask(self, method: Any, X: Any) -> Host:
        frame = as_polars(X)
        self.preparation.check(frame.columns)
        with warnings.catch_warnings(action="ignore", category=EmptyColumnWarning):
            found = method(self.preparation.numbers(frame))
        # Medians that nobody measured would be the most usual row there is.
        return np.where(self.preparation.all_missing(frame).to_numpy(), np.nan, found)
