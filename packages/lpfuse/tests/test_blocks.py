"""Blocks of rows: how they are cut, what comes back, in which order, and how little is sent."""

import threading
from itertools import pairwise

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from lpfuse._arrays.blocks import FAN_IN, Blocks, arrays_of, dtype_of, map_blocks, map_rows, meta_of
from lpfuse._arrays.operations import is_blocked, map_parallel

TABLE = np.arange(24.0).reshape(12, 2)
CHUNKS = (5, 0, 3, 4)
ARRAY = da.from_array(TABLE, chunks=(CHUNKS, -1))
VECTOR = da.from_array(TABLE[:, 0], chunks=(CHUNKS,))
FRAME = dd.from_pandas(pd.DataFrame(TABLE, columns=["a", "b"]), npartitions=3)


@pytest.fixture(autouse=True, scope="module")
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def with_unknown_rows(array):
    return array.map_blocks(np.asarray, chunks=((np.nan,) * array.numblocks[0], *array.chunks[1:]))


# ------------------------------------------------------------------------------ what is what


@pytest.mark.parametrize("x", [ARRAY, VECTOR, FRAME, FRAME["a"]])
def test_collections_of_dask_are_known(x):
    assert is_blocked(x)


@pytest.mark.parametrize("x", [TABLE, pd.DataFrame(TABLE), [[1.0]], None, "dask.array", object()])
def test_other_things_are_not(x):
    assert not is_blocked(x)


def test_a_head_has_columns_and_no_rows():
    assert meta_of(ARRAY).shape == (0, 2)
    assert meta_of(with_unknown_rows(ARRAY)).shape == (0, 2)
    assert list(meta_of(FRAME).columns) == ["a", "b"]
    assert len(meta_of(FRAME)) == 0


@pytest.mark.parametrize("single", [ARRAY.astype("f4"), FRAME.astype("f4")])
def test_single_precision_is_kept_where_all_of_it_is(single):
    assert dtype_of(single) == np.float32


@pytest.mark.parametrize("other", [ARRAY, ARRAY.astype(int), FRAME.astype({"a": "f4"})])
def test_everything_else_becomes_double(other):
    assert dtype_of(other) == np.float64


def test_parts_of_a_block_become_floats():
    single = np.ones((2, 3), dtype=np.float32)
    S, y, c = arrays_of((single, pd.Series([1, -1]), None))
    assert S is single
    assert y.dtype == np.float64
    assert c is None
    assert arrays_of((pd.DataFrame({"a": [1, 2]}), None, None))[0].dtype == np.float64
    assert arrays_of((np.array([[True]]), None, [3]))[2].tolist() == [3.0]


# -------------------------------------------------------------------------------- reductions


def numbered(k, parts, *shared):
    return [(k, *(None if part is None else np.asarray(part).tolist() for part in parts), *shared)]


def joined(lists):
    return [item for items in lists for item in items]


def test_work_sees_its_block_and_what_belongs_to_it():
    found = Blocks.of(ARRAY, VECTOR).reduce(numbered, joined)
    stops = np.cumsum([0, *CHUNKS])
    expected = [
        (k, TABLE[a:b].tolist(), TABLE[a:b, 0].tolist())
        for k, (a, b) in enumerate(pairwise(stops.tolist()))
    ]
    assert found == expected


def test_a_vector_that_is_not_there_is_none():
    found = Blocks.of(FRAME, None, FRAME["a"], names=("X", "y", "c")).reduce(numbered, joined)
    assert all(y is None for _, _, y, _ in found)
    assert joined([c for *_, c in found]) == TABLE[:, 0].tolist()


def test_columns_of_a_block_are_put_together():
    (first, *_) = Blocks.of(ARRAY.rechunk((CHUNKS, 1))).reduce(numbered, joined)
    assert first == (0, TABLE[:5].tolist())


def test_merging_goes_a_few_at_a_time_and_in_order():
    n = FAN_IN * FAN_IN + 3
    groups = []

    def merge(lists):
        groups.append(len(lists))
        return joined(lists)

    blocks = Blocks.of(da.from_array(np.zeros((n, 1)), chunks=(1, 1)))
    found = blocks.reduce(numbered, merge)
    assert [k for k, _ in found] == list(range(n))
    assert max(groups) == FAN_IN
    assert len(groups) == FAN_IN + 1 + 2 + 1


def test_one_block_is_merged_too():
    blocks = Blocks.of(da.from_array(TABLE, chunks=(12, 2)))
    assert blocks.reduce(numbered, lambda lists: ("merged", len(lists))) == ("merged", 1)


def test_shared_things_are_sent_as_they_are():
    model = {"weights": [1, 2], "lazy": (3, "x")}
    found = Blocks.of(ARRAY).reduce(numbered, joined, model, None, TABLE)
    for *_, one, other, table in found:
        assert one == model
        assert other is None
        np.testing.assert_array_equal(table, TABLE)


def test_shared_things_are_not_copied_for_each_task():
    heavy, sent = object(), []

    def look(k, parts, shared):
        sent.append(shared)
        return [k]

    Blocks.of(ARRAY).reduce(look, joined, heavy)
    assert len(sent) == len(CHUNKS)
    assert all(each is heavy for each in sent)


def test_every_pass_reads_anew():
    reads = []
    counted = ARRAY.map_blocks(lambda block: reads.append(1) or block, meta=np.empty((0, 2)))
    blocks = Blocks.of(counted)
    for _ in range(2):
        blocks.reduce(numbered, joined)
    assert len(reads) == 2 * len(CHUNKS)


def test_a_task_leaves_the_other_cores_to_other_tasks():
    def in_this_thread(k, parts):
        here = threading.current_thread().name
        return [
            here == worker
            for worker in map_parallel(lambda _: threading.current_thread().name, range(4))
        ]

    assert all(Blocks.of(ARRAY).reduce(in_this_thread, joined))


def test_a_block_of_ones_own_can_be_added():
    blocks = Blocks.of(ARRAY, VECTOR)
    blocks.append((np.full((1, 2), 7.0), np.ones(1)))
    assert len(blocks) == 5
    assert blocks.sizes == [*CHUNKS, 1]
    assert blocks.reduce(numbered, joined)[-1] == (4, [[7.0, 7.0]], [1.0])
    unknown = Blocks.of(FRAME)
    unknown.append((TABLE,))
    assert unknown.sizes is None


# -------------------------------------------------------------------------------------- cuts


def test_sizes_are_known_where_dask_knows_them():
    assert Blocks.of(ARRAY).sizes == list(CHUNKS)
    assert Blocks.of(with_unknown_rows(ARRAY)).sizes is None
    assert Blocks.of(FRAME).sizes is None


@pytest.mark.parametrize(
    ("vector", "told"),
    [
        (da.ones(12, chunks=6), r"S has 4 blocks \(5, 0, 3, 4 rows\), y has 2 blocks \(6, 6 rows"),
        (da.ones(12, chunks=((5, 0, 4, 3),)), r"y has 4 blocks \(5, 0, 4, 3 rows\)"),
        (da.ones(12, chunks=2), r"y has 6 blocks \(2, 2, 2, 2, 2, … rows\)"),
        (FRAME["a"], "y has 3 blocks of unknown sizes"),
    ],
)
def test_a_vector_that_is_cut_differently_is_refused(vector, told):
    with pytest.raises(ValueError, match=told):
        Blocks.of(ARRAY, vector)


def test_unknown_sizes_get_the_benefit_of_the_doubt():
    assert len(Blocks.of(with_unknown_rows(ARRAY), VECTOR)) == 4


def test_small_partitions_of_a_file_stay_what_they_are(tmp_path):
    frame = pd.DataFrame(TABLE, columns=["a", "b"]).assign(y=1.0)
    for k in range(4):
        frame.iloc[3 * k : 3 * k + 3].to_parquet(tmp_path / f"{k}.parquet")
    read = dd.read_parquet(tmp_path)
    found = Blocks.of(read[["a", "b"]], read["y"]).reduce(numbered, joined)
    assert [len(y) for _, _, y in found] == [3, 3, 3, 3]
    assert joined([table for _, table, _ in found]) == TABLE.tolist()


# ------------------------------------------------------------------------------- row by row


def sums(block, factor=1.0):
    return factor * np.asarray(block).sum(axis=1)


@pytest.mark.parametrize("x", [ARRAY, with_unknown_rows(ARRAY), FRAME])
def test_one_number_a_row(x):
    found = map_rows(sums, x, 2.0)
    assert isinstance(found, da.Array)
    np.testing.assert_array_equal(found.compute(), 2.0 * TABLE.sum(axis=1))


def test_several_numbers_a_row():
    found = map_rows(lambda block: np.column_stack([block, block]), ARRAY, width=4)
    assert found.shape == (12, 4)
    np.testing.assert_array_equal(found.compute(), np.hstack([TABLE, TABLE]))


def test_results_are_cut_as_the_rows_are():
    assert map_rows(sums, ARRAY).chunks == (CHUNKS,)
    wide = map_rows(lambda block: np.asarray(block), ARRAY, width=2)
    assert wide.chunks == (CHUNKS, (2,))


def test_the_type_is_the_one_that_was_told():
    assert map_rows(sums, ARRAY, dtype="int64").compute().dtype == np.int64
    assert map_rows(sums, ARRAY.astype("f4")).compute().dtype == np.float32


def test_an_error_names_the_block_and_stays_what_it_is():
    def picky(block):
        if block[0, 0] >= 16:
            raise TypeError("not these")
        return sums(block)

    full = da.from_array(TABLE, chunks=(4, 2))
    with pytest.raises(TypeError, match="block 2: not these"):
        map_rows(picky, full).compute()


def test_a_vector_over_blocks_may_have_more_for_each():
    def shifted(k, parts, more):
        return parts[0][:, 0] + more

    found = map_blocks(shifted, Blocks.of(ARRAY), along=[0.0, 10.0, 20.0, 30.0])
    expected = TABLE[:, 0] + np.repeat([0.0, 10.0, 20.0, 30.0], CHUNKS)
    np.testing.assert_array_equal(found.compute(), expected)
