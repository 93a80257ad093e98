"""Records of CSV text, whole and broken, against the csv module of Python."""

import csv
import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpfuse_cli.watch import batches
from lpfuse_cli.watch.batches import WHOLE_LINES, cut_records

CELLS = st.text(st.sampled_from('ab1,"\n é'), max_size=6)


def cut(data, cells, **options):
    return cut_records(data, cells, ",", '"', "utf-8", **options)


def pieces(data, found):
    ends = [0, *found.ends.tolist()]
    return [data[a:b] for a, b in pairwise(ends)]


@given(
    st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=8), st.sampled_from(["\n", "\r\n"])
)
def test_records_of_csv_writer_are_found(records, line_end):
    file = io.StringIO()
    csv.writer(file, lineterminator=line_end).writerows(records)
    data = file.getvalue().encode()
    found = cut(data, 3)
    assert not found.why
    assert not found.empty.any()
    texts = [piece.decode() for piece in pieces(data, found)]
    parsed = [next(csv.reader(io.StringIO(text, newline=""))) for text in texts]
    assert parsed == records


@given(st.binary(max_size=80).filter(lambda b: b'"' not in b), st.integers(1, 4))
def test_without_quotes_every_line_is_a_record(data, cells):
    found = cut(data, cells)
    lines = data.split(b"\n")[:-1]
    assert pieces(data, found) == [line + b"\n" for line in lines]
    for place, line in enumerate(lines):
        empty = not line.strip(b"\r")
        assert found.empty[place] == empty
        wrong = line.count(b",") + 1 != cells
        try:
            line.decode()
        except UnicodeDecodeError:
            wrong = True
        assert (place in found.why) == ((wrong and not empty) or b"\0" in line), line


@given(st.text(st.sampled_from('a1,"\n'), max_size=60), st.booleans())
def test_cuts_are_line_ends_and_records_have_all_cells(text, final):
    data = text.encode()
    found = cut(data, 2, final=final)
    for place, piece in enumerate(pieces(data, found)):
        assert piece.endswith(b"\n") or (final and place == len(found.ends) - 1)
        if place not in found.why and not found.empty[place]:
            (record,) = csv.reader(io.StringIO(piece.decode(), newline=""))
            assert len(record) == 2
    if final:
        assert b"".join(pieces(data, found)) == data


@given(st.text(st.sampled_from('a1,"\n'), max_size=60), st.integers(0, 60))
def test_more_text_changes_no_earlier_record(text, length):
    """What was taken is taken: the same records come first, however much is there.

    Of broken quotes that is not so: more text may close them.
    """
    data = text.encode()
    clean = [line + b"\n" for line in data.split(b"\n")[:-1] if line.count(b'"') % 2 == 0]
    data = b"".join(clean)
    some, every = cut(data[:length], 2), cut(data, 2)
    good = min(min(some.why, default=99), min(every.why, default=99), len(some.ends))
    assert some.ends[:good].tolist() == every.ends[:good].tolist()


def test_stray_quote_breaks_its_line_only():
    lines = [b"1,2\n", b'3,"4\n', *[b"5,6\n"] * WHOLE_LINES]
    data = b"".join(lines)
    found = cut(data, 2)
    assert pieces(data, found) == lines
    assert list(found.why) == [1]
    waiting = cut(b"".join(lines[:-1]), 2)  # perhaps a long text: two lines are no proof
    assert waiting.ends.tolist() == [4]


def test_quote_closed_by_next_text_breaks_its_line_only():
    lines = [b'1,"a\n', b'2,"b"\n', b'3,"c"\n']
    data = b"".join(lines)
    found = cut(data, 2)
    assert pieces(data, found) == lines
    assert list(found.why) == [0]


def test_text_with_line_ends_is_one_cell():
    data = b'1,"two\nlines, and\nmore"\n2,x\n'
    found = cut(data, 2)
    assert pieces(data, found) == [data[:24], b"2,x\n"]
    assert not found.why


def test_unclosed_quote_is_stray_beyond_longest_record(monkeypatch):
    monkeypatch.setattr(batches, "MAX_RECORD", 2**10)
    data = b'1,"' + b"x\n" * 600
    found = cut(data, 2)
    assert min(found.why) == 0
    assert found.ends[0] == 5


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"1,\xff\n", "UTF-8"),
        (b"1,\0\n", "NUL"),
        (b"1\n", "1 cell, not 2"),
        (b"1,2,3\n", "3 cells"),
    ],
)
def test_broken_line_has_a_reason(line, told):
    found = cut(b"1,2\n" + line + b'"3",4\n', 2)
    assert list(found.why) == [1]
    assert told in found.why[1]
