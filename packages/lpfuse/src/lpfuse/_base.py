"""From a score and a threshold to decisions: what detectors and fusion objects share."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial, wraps
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays import Array, is_blocked, namespace
from lpfuse._arrays.blocks import head_of, map_rows
from lpfuse._checks.data import check_columns

Method = TypeVar("Method", bound=Callable[..., Array])


def lazily(
    *, width: Callable[[Any], int] | None = None, dtype: str | None = None
) -> Callable[[Method], Method]:
    """Let a method that works row by row take Dask collections, and answer with a lazy Dask array.

    Parameters
    ----------
    width : callable, optional
        From the estimator to the number of columns of the result; None: one number a row.
    dtype : str, optional
        Of the result; by default float32 where the rows are, else float64.
    """

    def decorate(method: Method) -> Method:
        @wraps(method)
        def either(self: Any, *rows: Any, **named: Any) -> Array:
            X = (*rows, *named.values())  # by position or by name
            if not (X and is_blocked(X[0])):
                return method(self, *rows, **named)
            check_is_fitted(self)
            check_columns(head_of(X[0]), self)
            columns = None if width is None else width(self)
            work = partial(_apply, method.__name__, columns)
            # A copy, for the estimator may be fitted anew before anything is computed.
            return map_rows(work, X[0], copy(self), width=columns, dtype=dtype)

        return cast(Method, either)

    return decorate


def _apply(method: str, width: int | None, block: Any, estimator: Any) -> Array:
    """The method of that name on a block; of no rows there is nothing to ask."""
    if block.shape[0] == 0:
        return np.empty(0 if width is None else (0, width))
    return getattr(estimator, method)(block)


class Scorer(OutlierMixin, BaseEstimator):
    """Decisions from ``score_samples`` and ``offset_``; a subclass provides both."""

    offset_: Any  # a float; an attribute here, a property there

    def score_samples(self, X: Any) -> Array:
        """Score of each row, high = normal.

        Parameters
        ----------
        X : array-like of shape (n, columns)
            Rows with the columns that `fit` saw.

        Returns
        -------
        array of shape (n,)
            Scores.
        """
        raise NotImplementedError

    @lazily()
    def decision_function(self, X: Any) -> Array:
        """``score_samples(X) − offset_``: negative for anomalies.

        Parameters
        ----------
        X : array-like, or Dask array or data frame, of shape (n, columns)
            Rows with the columns that `fit` saw.

        Returns
        -------
        array of shape (n,)
            Signed distance to the threshold.
        """
        return self.score_samples(X) - self.offset_

    @lazily(dtype="int64")
    def predict(self, X: Any) -> Array:
        """+1 for normal rows, −1 for anomalies.

        Parameters
        ----------
        X : array-like, or Dask array or data frame, of shape (n, columns)
            Rows with the columns that `fit` saw.

        Returns
        -------
        array of shape (n,)
            Integers +1 and −1.
        """
        return signs(self.decision_function(X))


def signs(decision: Array) -> Array:
    """+1 where the signed distance to a threshold is not negative, −1 elsewhere."""
    xp = namespace(decision)
    return 2 * xp.astype(decision >= 0, xp.int64) - 1
