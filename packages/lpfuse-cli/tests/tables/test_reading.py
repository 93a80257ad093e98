import io
import sys

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.pumps import pumps, write
from lpfuse_cli.tables import (
    CsvFile,
    first_record_end,
    last_record_end,
    open_table,
    read_table,
    rechunk,
)

SUFFIXES = ["csv", "parquet", "arrow"]

cells = st.sampled_from(["1", "2.5", "", " x ", "NA", '"a,b"', '"two\nlines"', '"in ""quotes"""'])
lines = st.lists(cells, min_size=1, max_size=4).map(",".join)
tables = st.lists(lines, max_size=12).map("\n".join).map(str.encode)
scraps = st.lists(st.sampled_from([*'ab1.,;" \t-é\x00?', "\n", "\r\n", ",", '"']), max_size=60)
contents = st.one_of(st.binary(max_size=60), scraps.map("".join).map(str.encode), tables)


def whole(content):
    (chunk,) = CsvFile("mine.csv", io.BytesIO(content), len(content)).chunks(1000)
    return chunk.frame


def in_chunks(content, rows, block):
    file = CsvFile("mine.csv", io.BytesIO(content), len(content), block_bytes=block)
    chunks = list(file.chunks(rows))
    assert all(chunk.frame.height == rows for chunk in chunks[:-1])
    assert all(0 <= chunk.share <= 1 for chunk in chunks)
    assert [chunk.start for chunk in chunks] == [rows * k for k in range(len(chunks))]
    return pl.concat([chunk.frame for chunk in chunks])


def or_refusal(read, *arguments):
    """A table, or a clean refusal; anything else is an error."""
    try:
        return read(*arguments)
    except ValueError as error:
        refusal = str(error)
    assert refusal.startswith("mine.csv ")
    assert "\n" not in refusal
    return None


@settings(max_examples=300, deadline=None)
@given(content=contents, block=st.integers(1, 30), rows=st.integers(1, 5))
@example(content=b'a,"b\nc"\n1,2\n', block=1, rows=1)
@example(content=b"\xef\xbb\xbf\n\na\n1", block=2, rows=1)
@example(content=b'a\n"', block=1, rows=1)
@example(content=b'"', block=1, rows=1)
@example(content=b',"', block=1, rows=1)
def test_chunks_equal_the_whole_for_any_csv(content, block, rows):
    parts = or_refusal(in_chunks, content, rows, block)
    expected = or_refusal(whole, content)
    assert (parts is None) == (expected is None)
    assert expected is None or parts.equals(expected)


def naive_ends(data):
    inside, ends = False, [0]
    for place, byte in enumerate(data):
        inside ^= byte == ord('"')
        if byte == ord("\n") and not inside:
            ends.append(place + 1)
    return ends


@settings(deadline=None)
@given(st.lists(st.sampled_from(['"', "\n", "a"]), max_size=20).map("".join).map(str.encode))
def test_line_ends_in_quotes_end_no_record(data):
    ends = naive_ends(data)
    assert last_record_end(data) == ends[-1]
    assert first_record_end(data) == (ends[1] if len(ends) > 1 else 0)


@settings(deadline=None)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=6), st.integers(1, 5))
def test_rows_are_regrouped_in_their_order(heights, rows):
    values = pl.DataFrame({"a": range(sum(heights))})
    starts = [sum(heights[:k]) for k in range(len(heights))]
    frames = [values.slice(s, h) for s, h in zip(starts, heights, strict=True)]
    groups = list(rechunk(frames, rows))
    assert pl.concat(groups).equals(values)
    assert [group.height for group in groups[:-1]] == [rows] * (len(groups) - 1)
    assert groups[-1].height > 0 or len(groups) == 1


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("rows", [1, 7, 20, 50])
def test_each_kind_of_file_in_chunks(tmp_path, suffix, rows):
    path = write(pumps(20), tmp_path / f"mine.{suffix}")
    with open_table(path) as table:
        assert table.columns == pumps(20).columns
        chunks = list(table.chunks(rows))
    assert pl.concat([chunk.frame for chunk in chunks]).equals(read_table(path))
    assert len(chunks) == -(-20 // rows)
    shares = [chunk.share for chunk in chunks]
    assert shares == pytest.approx([min(1, (k + 1) * rows / 20) for k in range(len(chunks))])


def test_a_csv_file_gives_texts_and_others_what_they_hold(tmp_path):
    frame = pumps(20)
    assert set(read_table(write(frame, tmp_path / "a.csv")).dtypes) == {pl.String}
    assert read_table(write(frame, tmp_path / "a.parquet")).equals(frame)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_without_rows_is_one_chunk_without_rows(tmp_path, suffix):
    with open_table(write(pumps(20).clear(), tmp_path / f"mine.{suffix}")) as table:
        (chunk,) = table.chunks(5)
    assert chunk.frame.shape == (0, 8)


def test_standard_input_is_csv(monkeypatch):
    content = b"a,b\n1,2\n3,4\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert read_table("-").rows() == [("1", "2"), ("3", "4")]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    with open_table("-") as table:
        (chunk,) = table.chunks(10)
    assert chunk.frame.rows() == [("1", "2"), ("3", "4")]
    assert chunk.share is None  # nobody knows how much is to come


def test_a_long_file_is_never_in_memory_whole():
    class Endless(io.RawIOBase):
        """Rows for ever; what was read is counted."""

        taken = 0

        def read(self, size=-1):
            self.taken += size
            return (
                b"a,b\n" + b"1,2\n" * (size // 4) if self.taken == size else b"1,2\n" * (size // 4)
            )

    file = Endless()
    chunks = CsvFile("endless.csv", file, None, head_bytes=400, block_bytes=400).chunks(250)
    for _ in range(4):
        next(chunks)
    assert file.taken <= 11 * 400


def test_a_row_without_end_is_refused():
    file = io.BytesIO(b'a,b\n1,"2\n' + b"x" * 2**23)
    with pytest.raises(ValueError, match=r"a row is longer than 1 MiB\. Look for a quote"):
        list(CsvFile("mine.csv", file, None, longest_record=2**20).chunks(10))


def test_two_columns_of_one_name_are_refused(tmp_path):
    (tmp_path / "mine.csv").write_text("a,b,a\n1,2,3\n")
    with pytest.raises(ValueError, match="two columns are called 'a'"):
        read_table(tmp_path / "mine.csv")


def test_names_of_files_are_not_patterns(tmp_path):
    for suffix in SUFFIXES:
        write(pl.DataFrame({"a": [7]}), tmp_path / f"m1.{suffix}")
        path = write(pl.DataFrame({"a": [1, 2]}), tmp_path / f"m[1].{suffix}")
        with open_table(path) as table:
            (chunk,) = table.chunks(9)
        assert chunk.frame.height == 2


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_a_torn_file_is_refused(tmp_path, suffix, keep):
    path = write(pl.DataFrame({"a": range(500)}), tmp_path / f"mine.{suffix}")
    path.write_bytes(path.read_bytes()[:keep])
    message = rf"^mine\.{suffix} could not be read as {suffix.upper()}: .* Check"
    with pytest.raises(ValueError, match=message), open_table(path) as table:
        list(table.chunks(100))
    with pytest.raises(ValueError, match=message):
        read_table(path)


def test_pages_that_are_damaged_are_refused(tmp_path):
    path = write(pl.DataFrame({"a": [f"{i}" for i in range(5000)]}), tmp_path / "mine.parquet")
    content = bytearray(path.read_bytes())
    content[100:400] = bytes(300)
    path.write_bytes(content)
    with pytest.raises(ValueError, match="could not be read as PARQUET"), open_table(path) as table:
        list(table.chunks(1000))


def test_errors_of_the_system_stay_what_they_are(tmp_path, monkeypatch):
    def denied(*_):
        raise PermissionError(13, "Permission denied", "mine.csv")

    (tmp_path / "mine.csv").write_text("a\n1\n")
    monkeypatch.setattr("pathlib.Path.open", denied)
    with pytest.raises(PermissionError):
        read_table(tmp_path / "mine.csv")


def test_without_polars_it_is_said_what_to_install(tmp_path, monkeypatch):
    path = write(pumps(20), tmp_path / "pumps.csv")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match=r'pip install "lpfuse\[frames\]"'):
        read_table(path)
