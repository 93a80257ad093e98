import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.preprocessing import FunctionTransformer

from lpfuse.ensemble.pool import Member, Pool
from lpfuse.ensemble.rows import (
    column_positions,
    complete_rows,
    frame_with_scores,
    joined_rows,
    missing_cells,
    numeric_columns,
    replace_numbers,
)

CELLS = {"a": [1.0, 2.0, 3.0], "b": [4, 5, 6], "c": ["x", "y", "z"], "d": [True, False, True]}
frames = pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])


def cells(table):
    return {name: np.asarray(table[name]).tolist() for name in table.columns}


def test_rows_one_below_the_other():
    table = pd.DataFrame(CELLS)
    parts = [table.iloc[:2], table.iloc[2:]]
    joined = joined_rows(parts)
    assert cells(joined) == CELLS
    assert joined.dtypes.equals(table.dtypes)
    assert joined_rows([np.ones((2, 1)), np.zeros((1, 1))]).tolist() == [[1.0], [1.0], [0.0]]


WANTED = {
    "position": (1, [1]),
    "positions": ((2, 0), [2, 0]),
    "array": (np.array([2, 0]), [2, 0]),
    "from the end": ([-1], [3]),
    "mask": (np.array([True, False, False, True]), [0, 3]),
    "bools": ([False, True, False, False], [1]),
    "slice": (slice(1, 3), [1, 2]),
    "step": (slice(None, None, 2), [0, 2]),
    "function": (lambda X: [X.shape[1] - 1], [3]),
    "same twice": ([1, 1], [1, 1]),
}
NAMED = {
    "name": ("c", [2]),
    "names": (["d", "a"], [3, 0]),
    "array of names": (np.array(["d", "a"]), [3, 0]),
    "slice of names": (slice("b", "c"), [1, 2]),
    "open slice of names": (slice("c", None), [2, 3]),
    "function": (lambda X: [name for name in X.columns if name > "b"], [2, 3]),
}


@pytest.mark.parametrize(("wanted", "expected"), WANTED.values(), ids=WANTED)
def test_positions_of_columns(wanted, expected):
    for table in (np.zeros((3, 4)), pd.DataFrame(CELLS), pl.DataFrame(CELLS)):
        found = column_positions(wanted, table, "mine")
        assert found.tolist() == expected
        assert found.dtype == np.intp


@frames
@pytest.mark.parametrize(("wanted", "expected"), NAMED.values(), ids=NAMED)
def test_positions_of_names(wanted, expected, frame):
    assert column_positions(wanted, frame(CELLS), "mine").tolist() == expected


def test_everything():
    assert column_positions(None, np.zeros((3, 4)), "mine") is None
    assert column_positions(lambda X: None, np.zeros((3, 4)), "mine") is None


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (4, "'mine' wants columns .*4.* of a table with 4 columns.*counted from 0"),
        ([0, -5], "out of bounds"),
        ([True, False], "boolean"),
        ([1.5], "Columns are names, positions, a mask, a slice or a function of X"),
        (1.5, "not iterable"),
        ([], r"'mine' was given no columns, \[\]"),
        (slice(9, None), "'mine' was given no columns"),
        (lambda X: [], "'mine' was given no columns"),
        (["a", "e", "f"], "'mine' wants columns that X does not have: 'e', 'f'. It has 'a', 'b'"),
        (["a", 0], "X does not have: 0"),
        (slice("a", "e"), "does not have: 'e'"),
    ],
)
def test_columns_that_are_not_there(wanted, words):
    with pytest.raises(ValueError, match=words):
        column_positions(wanted, pd.DataFrame(CELLS), "mine")


def test_names_of_what_has_none():
    with pytest.raises(ValueError, match=r"by name \('a'\), but X has no names. Pass a data frame"):
        column_positions("a", np.zeros((3, 4)), "mine")


# ---------------------------------------------------------------------------------- missing cells

GAPS = {
    "float": [None, 1.0, 2.0],
    "word": ["x", None, "y"],
    "day": [datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 2), None],
    "flag": [None, True, False],
    "whole": [None, 1, 2],
}
MISSING = [[1, 0, 0, 1, 1], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0]]


@frames
def test_missing_cells_of_every_type(frame):
    table = frame(GAPS | {"none": [1, 2, 3]})
    np.testing.assert_array_equal(missing_cells(table), np.column_stack([MISSING, [0, 0, 0]]))
    assert complete_rows(table[["none"]]).tolist() == [0, 1, 2]
    assert complete_rows(table[["float", "none"]]).tolist() == [1, 2]


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean", "string", "category"])
def test_missing_cells_of_types_that_only_pandas_knows(dtype):
    values = ["x", None, "y"] if dtype in ("string", "category") else [1, None, 0]
    table = pd.DataFrame({"column": pd.array(values, dtype=dtype)})
    assert missing_cells(table).ravel().tolist() == [False, True, False]


def test_missing_cells_of_arrays():
    X = np.array([[1.0, np.nan], [2.0, 3.0]])
    assert complete_rows(X).tolist() == [1]


# ---------------------------------------------------------------------------------------- numbers


@frames
def test_columns_of_numbers(frame):
    expected = np.column_stack([CELLS["a"], CELLS["b"], CELLS["d"]])
    np.testing.assert_array_equal(numeric_columns(frame(CELLS)), expected)
    with pytest.raises(ValueError, match=r"no column of numbers.*Encode some"):
        numeric_columns(frame(CELLS)[["c"]])


@frames
def test_other_numbers_in_the_place_of_these(frame):
    table = frame(CELLS)
    other = replace_numbers(table, numeric_columns(table) + 0.5)
    assert list(other.columns) == ["a", "b", "c", "d"]
    assert cells(other) == CELLS | {
        "a": [1.5, 2.5, 3.5],
        "b": [4.5, 5.5, 6.5],
        "d": [1.5, 0.5, 1.5],
    }
    assert cells(table) == CELLS


def test_numbers_of_arrays_keep_their_precision():
    X = np.ones((2, 2), dtype=np.float32)
    assert numeric_columns(X).dtype == np.float64
    assert replace_numbers(X, numeric_columns(X) + 1).dtype == np.float32


# ----------------------------------------------------------------------------------------- scores

SCORES = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, np.nan]])


@frames
def test_scores_stand_to_the_right_under_their_names(frame):
    table = frame(CELLS)
    wide = frame_with_scores(table, SCORES, ["svdd", "gp"])
    assert list(wide.columns) == [*CELLS, "score of svdd", "score of gp"]
    np.testing.assert_array_equal(np.asarray(wide["score of gp"]), SCORES[:, 1])
    assert list(table.columns) == list(CELLS)


def test_scores_beside_an_array():
    X = np.zeros((3, 2))
    members = [Member("svdd", None), Member("gp", None)]
    wide = Pool(members, [], FunctionTransformer()).expert_inputs(X, SCORES)
    np.testing.assert_array_equal(wide, np.hstack([X, SCORES]))


def test_scores_beside_a_frame_without_names():
    wide = frame_with_scores(
        pd.DataFrame(np.zeros((3, 2)), index=[5, 6, 7]), SCORES, ["svdd", "gp"]
    )
    assert list(wide.columns) == [0, 1, 2, 3]
    np.testing.assert_array_equal(wide[3].to_numpy(), SCORES[:, 1])


@frames
def test_a_column_with_the_name_of_a_score_stays(frame):
    table = frame({"score of svdd": [1.0, 2.0, 3.0]})
    wide = frame_with_scores(table, SCORES, ["svdd", "gp"])
    assert wide.shape == (3, 3)
    assert np.asarray(wide["score of svdd"]).tolist() == [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(wide.to_numpy()[:, 1:], SCORES)
