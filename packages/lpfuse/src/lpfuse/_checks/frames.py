"""Data frames: those of other makers as ones that are known here, and what all of them must be."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from lpfuse._checks.messages import FEATURES

COMPLEX = "Complex data not supported: {} must be real numbers."


def known_frame(X: Any) -> Any:
    """Tables of Arrow and frames of narwhals as frames of polars or pandas; all else as it is.

    Parameters
    ----------
    X : object
        What a user passed as rows.

    Examples
    --------
    >>> import pyarrow as pa
    >>> type(known_frame(pa.table({"bar": [2.5, None]}))).__module__.partition(".")[0]
    'polars'
    """
    maker = type(X).__module__.partition(".")[0]
    if type(X).__name__ == "LazyFrame":
        raise TypeError("X is a lazy frame, whose rows are not there yet. Pass X.collect().")
    if maker == "narwhals":
        return known_frame(X.to_native())
    is_table = hasattr(X, "schema") and hasattr(X, "column_names")  # of Arrow; arrays have neither
    if maker in ("polars", "pandas") or not (is_table and hasattr(X, "to_pandas")):
        return X
    try:
        import polars
    except ImportError:
        return X.to_pandas()  # which says what is missing, where pandas is
    return polars.DataFrame(X)


def is_frame(X: Any) -> bool:
    """Whether it is a data frame of pandas or polars, or one that looks like it."""
    return hasattr(X, "columns") and hasattr(X, "shape")


def check_frame(X: Any) -> bool:
    """Refuse a data frame without cells, or of complex numbers; tell whether it holds infinity."""
    if 0 in X.shape:
        raise ValueError(FEATURES.too_small(f"{tuple(X.shape)}"))
    columns = (np.asarray(_safe_indexing(X, j, axis=1)) for j in range(X.shape[1]))
    return any(_is_infinite(column) for column in columns)


def _is_infinite(column: NDArray[Any]) -> bool:
    if column.dtype.kind == "c":
        raise ValueError(COMPLEX.format("features"))
    return column.dtype.kind == "f" and bool(np.isinf(column).any())


def columns_of_dates(X: Any) -> list[int]:
    """Positions of the columns of dates or times, which some libraries hand on as nanoseconds."""
    if is_frame(X):
        kinds = list(X.dtypes)
    else:
        width = X.shape[1] if getattr(X, "ndim", 0) == 2 else 0
        kinds = [getattr(X, "dtype", None)] * width
    return [j for j, kind in enumerate(kinds) if _is_temporal(kind)]


def refuse_dates(X: Any) -> None:
    """Refuse columns of dates or times; who catches it says which."""
    if columns_of_dates(X):
        raise TypeError("dates or times are no numbers")


def _is_temporal(kind: Any) -> bool:
    """Of NumPy and pandas, whose kinds are letters, or of polars."""
    return getattr(kind, "kind", "") in ("m", "M") or bool(getattr(kind, "is_temporal", bool)())
