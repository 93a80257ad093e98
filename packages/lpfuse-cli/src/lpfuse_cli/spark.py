"""Rows of a Spark DataFrame: drawn, scored where they are, and weighed.

Detectors learn from a sample on the driver. Workers score batches of rows with the same code as in
memory, and weights over all rows come from the passes that Dask collections take, too.
"""

from __future__ import annotations

import pickle  # nosec B403 # between a driver and its workers
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from lpfuse._arrays import operations as ops
from lpfuse._arrays.blocks import Blocks
from lpfuse._format import quote
from lpfuse._validation.params import check_count, quoted
from lpfuse.ensemble.scoring import score_columns
from lpfuse_cli.cluster import kept_models, saved_bytes

if TYPE_CHECKING:
    import pandas
    from pyspark.sql import DataFrame

__all__ = ["SparkTable", "SparkVector", "detector_scores", "draw", "score"]

# ---------------------------------------------------------------------------------------- learning


def draw(frame: DataFrame, n_rows: int = 20_000, *, random_state: int = 0) -> pandas.DataFrame:
    """Draw rows at random, on the driver: what detectors learn from.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Rows.
    n_rows : int, default=20_000
        How many, at most.
    random_state : int, default=0
        Seed. The same rows are drawn again from a DataFrame in the same partitions.

    Returns
    -------
    pandas.DataFrame
        They hold columns of numbers, texts and dates as `FusedDetector.fit` takes them.

    Examples
    --------
    ::

        rows = draw(frame.drop("serial"))
        fused = FusedDetector(random_state=0).fit(
            rows.drop(columns="state"), rows["state"], normal="ok"
        )
    """
    from pyspark.sql import functions

    check_count("n_rows", n_rows)
    drawn = _plain(frame).orderBy(functions.rand(random_state)).limit(n_rows)
    return drawn.toArrow().to_pandas()


# ----------------------------------------------------------------------------------------- scoring


def score(
    fused: Any, frame: DataFrame, *, keep: Sequence[str] = (), trusted: Iterable[str | type] = ()
) -> DataFrame:
    """Score the rows of a DataFrame on its workers, lazily.

    Parameters
    ----------
    fused : FusedDetector
        Fitted to a data frame, whose columns are found by name.
    frame : pyspark.sql.DataFrame
        Rows, in any order; each is scored by itself.
    keep : sequence of str, default=()
        Columns that are carried along.
    trusted : iterable of str or type, default=()
        As in :func:`lpfuse.io.load`, for detectors of other makers.

    Returns
    -------
    pyspark.sql.DataFrame
        The columns of `keep`, then those of ``fused.verdicts(X).to_frame()``: score, p_value,
        decision (+1 or −1) and ``contribution:NAME`` of each detector.

    Notes
    -----
    lpfuse and its command must be installed on the workers. The model travels as the bytes of
    `lpfuse.io.save` and is loaded once a process. A task whose worker dies runs elsewhere, to the
    same numbers.

    Where a worker has another processor or another version of NumPy, the last digits may differ.

    Examples
    --------
    ::

        scored = score(fused, frame, keep=["serial"])
        scored.where("decision = -1").write.parquet("alarms")
    """
    _check_usable(fused)
    names = fused.detector_names_ if fused.combination_.is_additive else ()
    return _mapped(_verdicts, fused, frame, keep, score_columns(names), trusted)


def detector_scores(
    fused: Any, frame: DataFrame, *, keep: Sequence[str] = (), trusted: Iterable[str | type] = ()
) -> DataFrame:
    """Score rows by each detector, on the scale that the weights are learnt on.

    Parameters
    ----------
    fused, frame, keep, trusted
        As in `score`; labels may be kept.

    Returns
    -------
    pyspark.sql.DataFrame
        The columns of `keep`, then one for each detector: what
        ``fused.scaler_.transform(fused.detector_scores(X))`` gives in memory.
    """
    _check_usable(fused)
    return _mapped(_scaled, fused, frame, keep, fused.detector_names_, trusted)


def _mapped(
    work: Callable[[Any, Any], Any],
    fused: Any,
    frame: DataFrame,
    keep: Sequence[str],
    found: Sequence[str],
    trusted: Iterable[str | type],
) -> DataFrame:
    from pyspark.sql.types import DoubleType, IntegerType, StructField, StructType

    names, kept = list(fused.feature_names_in_), list(keep)
    _check_columns("The training", names, frame)
    _check_columns("keep", kept, frame)
    if clash := [name for name in kept if name in found]:
        raise ValueError(f"keep names {quoted(clash)}, which the scores have, too. Rename them.")
    content, stream = (saved_bytes(fused), None), f"lpfuse-{uuid4().hex}"
    task = partial(_on_batches, work, stream, content, tuple(trusted), names, kept, list(found))
    types = {"decision": IntegerType()}
    scores = [StructField(name, types.get(name, DoubleType())) for name in found]
    rows = frame.select([_column(name) for name in dict.fromkeys([*names, *kept])])
    plain = _plain(rows, but=[name for name in kept if name not in names])
    schema = StructType([*(plain.schema[name] for name in kept), *scores])
    return _numbered(plain).mapInArrow(partial(task, plain.columns), schema)


def _check_columns(argument: str, names: Sequence[str], frame: DataFrame) -> None:
    if missing := [name for name in names if name not in frame.columns]:
        raise ValueError(f"{argument} names {quoted(missing)}, which the DataFrame does not have.")


def _check_usable(fused: Any) -> None:
    """Refuse what is no fitted detector of named columns that judges rows one by one."""
    if not callable(getattr(fused, "verdicts", None)) or not hasattr(fused, "result_"):
        raise TypeError(f"fused must be a fitted FusedDetector, got {type(fused).__name__}.")
    if fused.windows_ is not None:
        raise ValueError(
            "This detector judges rows by those before them, and rows of a DataFrame come in no "
            'order. Fit with order="random", or score in order: fused.verdicts, lpfuse watch.'
        )
    if not hasattr(fused, "feature_names_in_"):
        raise ValueError(
            "This detector was fitted to an array and knows no names of columns. Fit it to a data "
            "frame: fused.fit(draw(frame))."
        )


# ------------------------------------------------------------------------------------ all the rows


class SparkVector:
    """One number a row of a `SparkTable`: a column, or what a fit says of each row, lazily.

    `LpFusion.fit` takes it as labels or as weights of rows beside its table.
    """

    ndim = 1
    dtype = np.dtype("float64")

    def __init__(self, blocks: _SparkBlocks) -> None:
        self._blocks = blocks

    def lpfuse_blocks(self, *vectors: Any) -> Blocks:
        """Return the blocks, as `Blocks.of` asks for them."""
        return self._blocks

    def compute(self) -> Any:
        """Return the numbers, on the driver, in the order of partitions."""
        return np.concatenate(self._blocks.reduce(_first_part, _joined))


class SparkTable:
    """Columns of numbers of a Spark DataFrame, as `LpFusion.fit` takes those of Dask.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Rows. Each pass of a fit reads them again, and they must be the same each time: `cache` it,
        or write it down. Partitions are counted at once.
    columns : sequence of str
        Scores, high = normal.

    Notes
    -----
    A partition is a block: the same functions work on it as on a block of Dask, and a few rows come
    back. Results are merged on the driver, in the order of partitions.

    Examples
    --------
    ::

        scores = detector_scores(fused, frame, keep=["label"]).cache()  # label: 1 or −1
        table = SparkTable(scores, fused.detector_names_)
        LpFusion().fit(table, table.vector("label")).certificate_
    """

    ndim = 2

    def __init__(self, frame: DataFrame, columns: Sequence[str]) -> None:
        import pandas as pd

        self.frame, self.columns = _plain(frame), list(columns)
        self._meta = pd.DataFrame({name: np.empty(0) for name in self.columns})
        self.dtypes = self._meta.dtypes
        _check_columns("columns", self.columns, frame)
        self._counted = _SparkBlocks(self.frame, [(_FromRows(self.columns),)], None)
        found = self._counted.partitions(_count)
        self._sizes = [found.get(k, 0) for k in range(max(found, default=0) + 1)]

    def vector(self, column: str) -> SparkVector:
        """Return a column of the same DataFrame."""
        if column not in self.frame.columns:
            raise ValueError(f"The DataFrame has no column {quote(column)}.")
        parts = [(_FromRows(column),)] * len(self._sizes)
        return SparkVector(_SparkBlocks(self.frame, parts, self._sizes))

    def lpfuse_blocks(self, *vectors: Any) -> Blocks:
        """Return the blocks of the table and of vectors (or None) of the same DataFrame."""
        columns: list[list[Any]] = [[_FromRows(self.columns)] * len(self._sizes)]
        for vector in vectors:
            if vector is not None and vector.lpfuse_blocks().frame is not self.frame:
                raise ValueError(
                    "y and sample_weight must be columns of the table's own DataFrame: take them "
                    "from table.vector(NAME), or pass an array in the order of partitions."
                )
            none = [None] * len(self._sizes)
            columns.append(
                none if vector is None else [part for (part,) in vector.lpfuse_blocks().parts]
            )
        return _SparkBlocks(self.frame, list(zip(*columns, strict=True)), self._sizes)


@dataclass(frozen=True)
class _FromRows:
    """A part of a block that is read from its partition: a column, or several."""

    name: Any

    def of(self, rows: Any) -> Any:
        if isinstance(self.name, str):
            return rows[self.name].to_numpy().astype(np.float64)
        columns = [rows[name].to_numpy().astype(np.float64) for name in self.name]
        return np.column_stack(columns)


@dataclass(frozen=True)
class _Deferred:
    """A part of a block that is worked out from others."""

    work: Callable[..., Any]
    k: int
    parts: tuple[Any, ...]
    more: tuple[Any, ...]

    def of(self, rows: Any) -> Any:
        return self.work(self.k, _read(self.parts, rows), *self.more)


def _read(parts: tuple[Any, ...], rows: Any) -> tuple[Any, ...]:
    return tuple(p.of(rows) if isinstance(p, _FromRows | _Deferred) else p for p in parts)


class _SparkBlocks(Blocks):
    """Blocks whose rows are partitions; further blocks, such as an imaginary row, are here."""

    def __init__(self, frame: Any, parts: Sequence[tuple[Any, ...]], sizes: Any) -> None:
        super().__init__(parts, sizes)
        self.frame, self.n_partitions = frame, len(self.parts)

    def reduce(
        self, work: Callable[..., Any], merge: Callable[[list[Any]], Any], *shared: Any
    ) -> Any:
        found = self.partitions(partial(_on_parts, work, self.parts[: self.n_partitions], shared))
        empty = self.frame.limit(0).toArrow() if len(found) < self.n_partitions else None
        for k, parts in enumerate(self.parts):
            if k not in found:  # rows that are here, or a partition without any
                found[k] = work(k, _read(parts, empty), *shared)
        return merge([found[k] for k in range(len(self.parts))])

    def lazy(
        self,
        work: Callable[..., Any],
        shared: Sequence[Any],
        width: int | None,
        dtype: Any,
        along: Sequence[Any] | None = None,
    ) -> SparkVector:
        if width is not None:
            raise TypeError(
                "Of a Spark DataFrame several numbers a row come from lpfuse_cli.spark.score."
            )
        each = [()] * len(self) if along is None else [(item,) for item in along]
        parts = [
            (_Deferred(work, k, parts, (*each[k], *shared)),) for k, parts in enumerate(self.parts)
        ]
        found = _SparkBlocks(self.frame, parts, self.sizes)
        found.n_partitions = self.n_partitions
        return SparkVector(found)

    def partitions(self, work: Callable[[int, Any], Any]) -> dict[int, Any]:
        """Return ``work(k, rows)`` of all partitions k that hold rows."""
        task = partial(_on_partition, work, self.frame.columns)
        rows = _numbered(self.frame).mapInArrow(task, "k int, found binary")
        # What these workers wrote; Spark itself speaks pickle with them.
        read = pickle.loads  # nosec B301
        return {row.k: read(bytes(row.found)) for row in rows.collect()}


def _count(k: int, rows: Any) -> int:
    return len(rows)


def _first_part(k: int, parts: tuple[Any, ...]) -> list[Any]:
    return [parts[0]]


def _joined(lists: list[list[Any]]) -> list[Any]:
    return [item for items in lists for item in items]


# ---------------------------------------------------------------------------------- on the workers


def _on_parts(
    work: Callable[..., Any],
    parts: list[tuple[Any, ...]],
    shared: tuple[Any, ...],
    k: int,
    rows: Any,
) -> Any:
    return work(k, _read(parts[k], rows), *shared)


def _on_partition(
    work: Callable[[int, Any], Any], columns: list[str], batches: Iterator[Any]
) -> Iterator[Any]:
    import pyarrow as pa
    from pyspark import TaskContext

    context, read = TaskContext.get(), list(batches)
    assert context is not None
    if sum(map(len, read)):
        k = context.partitionId()
        with ops.single_threaded(), ops.one_blas_thread:
            found = work(k, pa.Table.from_batches(read).rename_columns(columns))
        yield pa.record_batch({"k": pa.array([k], pa.int32()), "found": [pickle.dumps(found)]})


def _on_batches(
    work: Callable[[Any, Any], Any],
    stream: str,
    content: tuple[bytes, None],
    trusted: tuple[Any, ...],
    names: list[str],
    keep: list[str],
    found: list[str],
    columns: list[str],
    batches: Iterator[Any],
) -> Iterator[Any]:
    import pyarrow as pa

    fused, _ = kept_models(stream, content, trusted)
    for batch in batches:
        if len(batch):
            rows = pa.Table.from_batches([batch]).rename_columns(columns)
            with ops.single_threaded(), ops.one_blas_thread:
                scores = work(fused, rows.select(names).to_pandas())
            values = [rows[name].combine_chunks() for name in keep]
            values += [pa.array(each, from_pandas=True) for each in scores]
            yield pa.record_batch(values, names=[*keep, *found])


def _verdicts(fused: Any, rows: Any) -> list[Any]:
    frame = fused.verdicts(rows).to_frame("pandas").astype({"decision": np.int32})
    return [frame[name].to_numpy() for name in frame.columns]


def _scaled(fused: Any, rows: Any) -> list[Any]:
    return list(np.asarray(fused.scaler_.transform(fused.detector_scores(rows))).T)


# ------------------------------------------------------------------------------------- small parts


def _column(name: str) -> str:
    """Quote a name, whatever dots it holds."""
    return "`" + name.replace("`", "``") + "`"


def _numbered(frame: DataFrame) -> DataFrame:
    """Name columns by their places: Spark does not hand on those with dots in their names."""
    return frame.toDF(*(f"column_{j}" for j in range(len(frame.columns))))


def _plain(frame: DataFrame, but: Sequence[str] = ()) -> DataFrame:
    """Make numbers of decimals, which pandas would hold as objects."""
    return frame.withColumns(
        {
            field.name: frame[_column(field.name)].cast("double")
            for field in frame.schema
            if field.dataType.typeName() == "decimal" and field.name not in but
        }
    )
