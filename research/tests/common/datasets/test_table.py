import datetime as dt
import sys

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.cases import cases
from research.common.datasets import load_table

SUFFIXES = ["csv", "parquet"]

numbers = st.one_of(
    st.none(), st.floats(allow_nan=False, allow_infinity=False), st.integers(-(10**30), 10**30)
)
words = st.sampled_from([None, "red", "Blue", "d'or", "x, y", "ü=1", 'in "quotes"', "two\nlines"])
flags = st.sampled_from([None, True, False])


def small_tables():
    """Columns of one kind each, and labels of both classes."""

    def of_height(n):
        column = st.one_of(
            st.lists(numbers.map(lambda x: x if x is None else float(x)), min_size=n, max_size=n),
            st.lists(words, min_size=n, max_size=n),
            st.lists(flags, min_size=n, max_size=n),
        )
        labels = st.permutations(["normal"] * (n - n // 2) + ["odd"] * (n // 2))
        return st.tuples(st.lists(column, min_size=1, max_size=4), labels)

    return st.integers(2, 8).flatmap(of_height)


def write(folder, frame, suffix="csv", name="mine"):
    path = folder / f"{name}.{suffix}"
    frame.write_csv(path) if suffix == "csv" else frame.write_parquet(path)
    return path


def text(folder, content):
    path = folder / "mine.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def naive(cells):
    """Columns that one column becomes, by the rules of the docstring."""
    kinds = sorted({cell for cell in cells if isinstance(cell, str)})
    if not kinds:
        return [[np.nan if cell is None else float(cell) for cell in cells]]
    return [[np.nan if cell is None else float(cell == kind) for cell in cells] for kind in kinds]


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=small_tables())
def test_what_was_written_is_read_again(tmp_path, suffix, table):
    columns, labels = table
    series = {f"c{j}": pl.Series(cells, strict=False) for j, cells in enumerate(columns)}
    path = write(tmp_path, pl.DataFrame({**series, "kind": labels}), suffix)
    data = load_table(path, label="kind", normal="normal")
    expected = [column for cells in columns for column in naive(cells)]
    np.testing.assert_array_equal(data.X, np.transpose(expected))
    assert data.y.tolist() == [1 if label == "normal" else -1 for label in labels]
    assert len(data.feature_names) == data.X.shape[1]
    assert (data.name, data.source) == ("mine", f"mine.{suffix}")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_each_kind_of_column(tmp_path, suffix):
    frame = pl.DataFrame(
        {
            "count": [1, None, 3],
            "size": [0.5, 1e300, None],
            "wet": [True, False, None],
            "colour": ["red", None, "blue"],
            "label": [1, -1, 1],
        }
    )
    data = load_table(write(tmp_path, frame, suffix))
    assert data.feature_names == ("count", "size", "wet", "colour=blue", "colour=red")
    nan = np.nan
    np.testing.assert_array_equal(
        data.X, [[1, 0.5, 1, 0, 1], [nan, 1e300, 0, nan, nan], [3, nan, nan, 1, 0]]
    )
    assert data.y.tolist() == [1, -1, 1]
    assert (data.X.dtype, data.y.dtype.kind, data.X.flags.c_contiguous) == (float, "i", True)


def test_types_that_only_parquet_has(tmp_path):
    frame = pl.DataFrame(
        {
            "small": pl.Series([1, 2], dtype=pl.UInt8),
            "price": pl.Series(["1.25", "2.50"]).cast(pl.Decimal(6, 2)),
            "grade": pl.Series(["b", "a"], dtype=pl.Categorical),
            "rank": pl.Series(["low", "high"], dtype=pl.Enum(["low", "high", "unused"])),
            "digits": pl.Series(["2", "10"]),
            "nothing": pl.Series([None, None]),
            "no text": pl.Series([None, None], dtype=pl.String),
            "label": [1, 0],
        }
    )
    data = load_table(write(tmp_path, frame, "parquet"))
    numbers, categories = ["small", "price"], ["grade=a", "grade=b", "rank=high", "rank=low"]
    codes, empty = ["digits=10", "digits=2"], ["nothing", "no text"]
    assert data.feature_names == (*numbers, *categories, *codes, *empty)
    nan = np.nan
    np.testing.assert_array_equal(
        data.X, [[1, 1.25, 0, 1, 0, 1, 0, 1, nan, nan], [2, 2.5, 1, 0, 1, 0, 1, 0, nan, nan]]
    )


def test_csv_written_by_hand(tmp_path):
    content = "\ufeff a , b,c ,label\r\n 1, 2.5, x ,1 \r\n\r\n?,NA, ?,-1\r\n4, nan,y,1\r\n\r\n"
    with pytest.warns(UserWarning, match="Left out, for there is no value in it: 2 lines"):
        data = load_table(text(tmp_path, content))
    assert data.feature_names == ("a", "b", "c=x", "c=y")
    nan = np.nan
    np.testing.assert_array_equal(data.X, [[1, 2.5, 1, 0], [nan, nan, nan, nan], [4, nan, 0, 1]])
    assert data.y.tolist() == [1, -1, 1]


@cases("word", ["", "?", "NA", "N/A", "NaN", "nan", "null", "NULL"])
def test_words_for_missing_do_not_make_text_of_numbers(tmp_path, word):
    data = load_table(text(tmp_path, f"a,b,label\n1,{word},1\n2,5,0\n"))
    np.testing.assert_array_equal(data.X, [[1, np.nan], [2, 5]])


def test_words_for_missing_make_text_of_nothing_else(tmp_path):
    data = load_table(text(tmp_path, "wet,label\ntrue,1\nNA,0\nfalse,1\n"))
    np.testing.assert_array_equal(data.X, [[1], [np.nan], [0]])
    with pytest.raises(ValueError, match=r"Column 'when' .* holds dates"):
        load_table(text(tmp_path, "when,label\n2024-02-28,1\nNA,0\n2024-02-29,1\n"))


@pytest.mark.parametrize("early", ["", "7"])
def test_the_whole_file_tells_what_a_column_is(tmp_path, early):
    rows = [f"{early if i < 2000 else i / 2},{i % 2}" for i in range(2500)]
    data = load_table(text(tmp_path, "\n".join(["a,label", *rows])))
    assert data.X[2001, 0] == 1000.5
    np.testing.assert_array_equal(data.X[:2000], np.full((2000, 1), float(early or "nan")))


def test_names_of_files_are_not_patterns(tmp_path):
    (tmp_path / "m1.csv").write_text("a,label\n7,1\n8,0\n")
    (tmp_path / "m[1].csv").write_text("a,label\n1,1\n2,0\n")
    assert load_table(tmp_path / "m[1].csv").X.ravel().tolist() == [1, 2]
    (tmp_path / "BIG.CSV").write_text("a,label\n1,1\n2,0\n")
    assert load_table(str(tmp_path / "BIG.CSV")).name == "BIG"


def test_a_home_folder_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    text(tmp_path, "a,label\n1,1\n2,0\n")
    assert load_table("~/mine.csv").X.shape == (2, 1)


@cases(
    ("labels", "normal"),
    [
        ([1, 0, 1], 1),
        ([1, 0, 1], 1.0),
        ([1, 0, 1], "1"),
        ([1, 0, 1], "1.0"),
        ([1, 0, 1], True),
        ([1, 0, 1], "true"),
        ([-1, 1, -1], "-1"),
        ([1.0, 2.0, 1.0], 1),
        ([1.0, 2.0, 1.0], "1"),
        ([0.5, 2.0, 0.5], "0.5"),
        ([True, False, True], True),
        ([True, False, True], 1),
        ([True, False, True], "1"),
        ([True, False, True], "True"),
        ([False, True, False], "0"),
        (["ok", "bad", "ok"], "ok"),
        (["OK", "bad", "OK"], "ok"),
        (["ok", "bad", "ok"], " 'ok' "),
        (["1", "0", "1"], 1),
        (["1", "0", "1"], "1"),
        (["true", "no", "true"], True),
        (["Ok", "ok", "Ok"], "Ok"),
    ],
)
@cases("suffix", SUFFIXES)
def test_normal_is_compared_with_sense(tmp_path, suffix, labels, normal):
    path = write(tmp_path, pl.DataFrame({"a": [1, 2, 3], "label": labels}), suffix)
    assert load_table(path, normal=normal).y.tolist() == [1, -1, 1]


def test_equal_text_comes_before_the_same_number(tmp_path):
    frame = pl.DataFrame({"a": [1, 2, 3], "label": ["1", "1.0", "1"]})
    assert load_table(write(tmp_path, frame, "parquet"), normal="1").y.tolist() == [1, -1, 1]


def test_all_other_values_are_anomalies(tmp_path):
    path = write(tmp_path, pl.DataFrame({"a": [1, 2, 3, 4], "class": ["x", "y", "z", "y"]}))
    assert load_table(path, label="class", normal="y").y.tolist() == [-1, 1, -1, 1]


def test_a_missing_label_column_suggests_the_closest(tmp_path):
    path = write(tmp_path, pl.DataFrame({"a": [1, 2], "b": [1, 2], "Class": [0, 1]}))
    with pytest.raises(ValueError, match=r"has no column 'class_'\. Did you mean 'Class'\?"):
        load_table(path, label="class_")
    with pytest.raises(ValueError, match=r"'label'\. Pass label= with .*: 'a', 'b', 'Class'\."):
        load_table(path)


def test_semicolons_and_decimal_commas_are_read(tmp_path):
    found = load_table(text(tmp_path, "a;b;label\n1,5;2;1\n3;4,25;-1\n"))
    np.testing.assert_array_equal(found.X, [[1.5, 2], [3, 4.25]])


@cases(
    ("labels", "normal", "told"),
    [
        ([1, 1], 1, r"holds 1 only; expected normal rows and anomalies"),
        (["bad", "bad"], 1, r"holds 'bad' only"),
        (["OK", "ok"], "Ok", r"holds 'OK', 'ok' only"),
        (["ok", "bad"], 1, r"holds 'ok', 'bad', and nowhere normal=1\. Pass normal="),
        ([1, 0], "one", r"holds 1, 0, and nowhere normal='one'"),
        ([2**53, 2**53 + 1], 2**53 + 2, r"holds \d+, \d+, and nowhere"),
        ([1, None, 0], 1, r"has no value in 1 of 3 rows"),
        ([1.0, np.nan, None], 1, r"has no value in 2 of 3 rows"),
        ([[1], [0]], 1, r"holds List\(Int64\); expected one value a row"),
    ],
)
def test_labels_that_do_not_tell_are_refused(tmp_path, labels, normal, told):
    path = write(tmp_path, pl.DataFrame({"a": range(len(labels)), "label": labels}), "parquet")
    with pytest.raises(ValueError, match=rf"Column 'label' of mine\.parquet {told}"):
        load_table(path, normal=normal)


def test_many_values_are_not_all_listed(tmp_path):
    path = write(tmp_path, pl.DataFrame({"a": range(20), "label": range(20)}))
    with pytest.raises(ValueError, match=r"holds 0, 1, 2, 3, 4, 5, 6, 7 and 12 more, and nowhere"):
        load_table(path, normal="ok")


@cases("suffix", SUFFIXES)
@cases(
    "moment",
    [dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12, 30), dt.time(12, 30, 5)],
)
def test_dates_are_refused(tmp_path, suffix, moment):
    frame = pl.DataFrame({"a": [1, 2, 3], "when": [moment, None, moment], "label": [1, 0, 1]})
    with pytest.raises(ValueError, match=rf"Column 'when' of mine\.{suffix} holds dates or times"):
        load_table(write(tmp_path, frame, suffix))


@pytest.mark.parametrize("values", [[[1, 2], [3]], [{"x": 1}, {"x": 2}], [b"1", b"2"]])
def test_cells_that_are_no_values_are_refused(tmp_path, values):
    frame = pl.DataFrame({"odd": values, "label": [1, 0]})
    with pytest.raises(ValueError, match=r"Column 'odd' of mine\.parquet holds .*; expected numb"):
        load_table(write(tmp_path, frame, "parquet"))


def test_texts_that_are_no_categories_are_refused(tmp_path):
    frame = pl.DataFrame({"id": [f"n{i:03d}" for i in range(101)], "label": [0] * 50 + [1] * 51})
    assert load_table(write(tmp_path, frame[1:])).X.shape == (100, 100)
    told = "'id' of mine.csv holds 101 different texts, 'n000', 'n001', 'n002' and 98 more: too"
    with pytest.raises(ValueError, match=told):
        load_table(write(tmp_path, frame))


@cases("suffix", SUFFIXES)
@cases("cell", [np.inf, -np.inf])
def test_infinity_is_refused_with_the_column(tmp_path, suffix, cell):
    frame = pl.DataFrame({"a": [1.0, 2.0], "b": [1.0, cell], "label": [1, 0]})
    with pytest.raises(ValueError, match=rf"mine \(mine\.{suffix}\) holds infinity.* in 'b'\."):
        load_table(write(tmp_path, frame, suffix))


@cases(
    ("content", "told"),
    [
        ("", "could not be read as CSV: empty CSV"),
        ("\n\n", "could not be read as CSV"),
        ("a,label\n", "must hold rows, and columns beside 'label'; its shape is (0, 2)"),
        ("label\n1\n0\n", "must hold rows, and columns beside 'label'; its shape is (2, 1)"),
        ("a,label\n1,0\n1,2,3,4\n", "could not be read as CSV"),
        ("a, a,label\n1,2,3\n4,5,6\n", "could not be read as CSV"),
        (b"a,label\n\x81\xfe\xfa,1\n1,2\n", "could not be read as CSV"),
        (b"\x00\x01\x02PK\x03\x04", "could not be read as CSV: it holds NUL bytes"),
    ],
)
def test_files_that_hold_no_table_are_refused(tmp_path, content, told):
    with pytest.raises(ValueError, match=r"^mine\.csv ") as refusal:
        load_table(text(tmp_path, content))
    assert told in str(refusal.value)
    assert "\n" not in str(refusal.value)


@cases("keep", [0, 4, 100, -1])
def test_a_torn_parquet_file_is_refused(tmp_path, keep):
    path = write(tmp_path, pl.DataFrame({"a": range(50), "label": [1, 0] * 25}), "parquet")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"^mine\.parquet could not be read as PARQUET: .* Check"):
        load_table(path)


def test_a_panic_of_the_reader_is_an_error_like_others(tmp_path, monkeypatch):
    def panics(file, **_):
        raise pl.exceptions.PanicException("index out of range")

    path = write(tmp_path, pl.DataFrame({"a": [1], "label": [1]}), "parquet")
    monkeypatch.setattr(pl, "scan_parquet", panics)
    with pytest.raises(ValueError, match="could not be read as PARQUET: index out of range"):
        load_table(path)


def test_what_is_no_table_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no file '.*nowhere\.csv'"):
        load_table(tmp_path / "nowhere.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ValueError, match=r"folder\.csv' is not a file"):
        load_table(tmp_path / "folder.csv")
    (tmp_path / "mine.doc").write_text("a,label\n1,1\n2,0\n")
    with pytest.raises(ValueError, match=r"Tables are read from .*, not from 'mine\.doc'"):
        load_table(tmp_path / "mine.doc")


def test_without_polars_the_extra_is_named(tmp_path, monkeypatch):
    path = text(tmp_path, "a,label\n1,1\n2,0\n")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match=r'pip install "lpfuse\[frames\]"'):
        load_table(path)
