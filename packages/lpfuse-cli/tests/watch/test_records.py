"""Records of CSV text, whole and broken, against the csv module of Python."""

import csv
import io
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpfuse.frames import TableFormat
from lpfuse_cli.watch.batches import WHOLE_LINES, CsvText, cut_records

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


def test_unclosed_quote_is_stray_beyond_longest_record():
    data = b'1,"' + b"x\n" * 600
    assert not cut(data, 2, max_record=2**11).why
    found = cut(data, 2, max_record=2**10)
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


# --------------------------------------------------------------------------------- long records


def taken(pieces, max_record):
    """Return numbers, cells and positions of the rows of a text that comes in pieces."""
    text = CsvText(TableFormat(separator=",", quote='"', encoding="utf-8"), max_record, "t.csv")
    good, notes, positions, held = [], [], [], 0
    for piece in [*pieces, None]:
        text.end() if piece is None else text.add(piece)
        while (batch := text.take(2)) is not None:
            found = batch.load()
            good += [
                (int(k), row) for k, row in zip(found.numbers, found.frame.rows(), strict=True)
            ]
            notes += [(note.kind, note.row) for note in [*batch.notes, *found.notes]]
            positions.append((batch.position["offset"], batch.last))
        held = max(held, len(text._data))
    return good, notes, positions, held


LINES = st.lists(st.sampled_from(["1,2", "3", "4," + 60 * "5", 'x,"a b"', 90 * "6"]), max_size=8)


@given(LINES, st.lists(st.integers(1, 40), min_size=1, max_size=30), st.booleans())
def test_long_records_break_alone_in_any_pieces(lines, lengths, ended):
    data = "\n".join(["a,b", *lines]).encode() + (b"\n" if ended and lines else b"")
    cuts = np.cumsum(lengths).tolist()
    pieces = [data[a:b] for a, b in pairwise([0, *cuts, len(data) + sum(cuts)])]
    good, notes, positions, _ = taken(pieces, 32)
    fine = [k for k, line in enumerate(lines, start=1) if "," in line and len(line) < 32]
    assert [number for number, _ in good] == fine
    assert [row for _, row in notes] == [k for k in range(1, len(lines) + 1) if k not in fine]
    ends = np.cumsum([len(line) + 1 for line in ["a,b", *lines]])
    for offset, row in positions:  # a start at this place continues with the next row
        assert offset == min(ends[row], len(data))


@pytest.mark.parametrize("start", [b"x", b'1,"x', b'1,x\n2,"y\n', b'"'], ids=repr)
def test_record_without_end_is_not_held(start):
    pieces = [b"a,b\n1,2\n" + start, *[b"y" * 100] * 200, b"\n3,4\n"]
    good, notes, positions, held = taken(pieces, 150)
    assert good[0] == (1, ("1", "2"))
    assert good[-1][1] == ("3", "4")
    assert {kind for kind, _ in notes} == {"broken line"}
    assert held < 500
    assert positions[-1][0] == sum(map(len, pieces))


def test_unclosed_quote_holds_no_more_than_a_record():
    pieces = [b'a,b\n1,"2\n', *[b"y\n" * 50] * 200, b"3,4\n"]
    good, _, positions, held = taken(pieces, 150)
    assert good == [(10_002, ("3", "4"))]
    assert held < 500
    assert positions[-1][0] == sum(map(len, pieces))


def test_empty_lines_before_the_header_are_not_held():
    good, _, positions, held = taken([*[b"\n" * 100] * 50, b"a,b\n1,2\n"], 150)
    assert good == [(1, ("1", "2"))]
    assert held <= 150
    assert positions == [(5008, 1)]


@pytest.mark.parametrize("start", [b"a," * 100, b'"' + b"a\n" * 100], ids=["line", "quote"])
def test_header_without_end_raises(start):
    text = CsvText(TableFormat(), 150, "t.csv")
    text.add(start)
    with pytest.raises(ValueError, match=r"its header is longer than 150 bytes\. Look for a quote"):
        text.n_available()
