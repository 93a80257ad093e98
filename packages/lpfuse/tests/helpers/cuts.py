"""Rows in memory, cut into Dask collections of every form."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd


def as_array(values, chunks):
    """An array in blocks of those sizes."""
    values = np.asarray(values)
    return da.from_array(values, chunks=(chunks, *((-1,) * (values.ndim - 1))))


def with_unknown_rows(array):
    """The same blocks, whose numbers of rows only a look at them tells."""
    return array.map_blocks(np.asarray, chunks=((np.nan,) * array.numblocks[0], *array.chunks[1:]))


def as_frame(values, columns, chunks):
    """A data frame with partitions of those sizes; a series where `columns` is one name."""
    make = pd.Series if isinstance(columns, str) else pd.DataFrame
    whole = make(np.asarray(values), **{"name" if make is pd.Series else "columns": columns})
    stops = np.cumsum(chunks)
    parts = [whole.iloc[stop - rows : stop] for rows, stop in zip(chunks, stops, strict=True)]
    return dd.from_map(_same, parts, meta=whole.iloc[:0])


def _same(part):
    return part


def _never():
    raise AssertionError("computed before it was asked for")


def untouchable(chunks, columns):
    """Blocks that cannot be computed."""
    return da.concatenate(
        [
            da.from_delayed(dask.delayed(_never)(), shape=(rows, columns), dtype=float)
            for rows in chunks
        ]
    )
