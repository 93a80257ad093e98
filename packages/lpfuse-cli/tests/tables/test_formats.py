"""Files as people have them: separators, quotes, encodings, decimal signs, spreadsheets."""

import csv
import io
import random
import sys
import zipfile
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.pumps import pumps
from lpfuse.frames import TableFormat
from lpfuse.frames.cells import SEPARATORS, plain_numbers, without_unit
from lpfuse_cli.tables import (
    CsvFile,
    Decoder,
    found_format,
    numbered_errors,
    read_sample,
    read_table,
    split_labels,
)
from lpfuse_cli.watch.batches import CsvText


def table(tmp_path, content, name="mine.csv", **told):
    (tmp_path / name).write_bytes(content)
    notes = []
    frame = read_table(tmp_path / name, format=TableFormat(**told), notes=notes)
    return frame, notes


# --------------------------------------------------------------------------------------- separators


@pytest.mark.parametrize("separator", SEPARATORS)
@pytest.mark.parametrize("quoted", [True, False])
def test_every_separator_is_found_and_said(tmp_path, separator, quoted):
    cell = f'"x{separator} y"' if quoted else "x y"
    lines = [f"a{separator}b", f"1{separator}{cell}", f"2{separator}z"]
    frame, notes = table(tmp_path, "\n".join(lines).encode())
    assert frame.columns == ["a", "b"]
    assert frame["b"][0] == (f"x{separator} y" if quoted else "x y")
    called = SEPARATORS[separator]
    assert notes == ([] if separator == "," else [f"File: {called} between columns."])


def test_separators_are_those_that_duckdb_finds(tmp_path):
    """On files with decimal commas, quotes, and texts that hold other separators."""
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    rng = random.Random(0)
    texts = ["ok", "north, east", "a;b", "x|y", 'say "hi"', "10%", "", "two words", "it's"]
    for number in range(40):
        separator = rng.choice(",;\t|")
        sign = "," if separator != "," and rng.random() < 0.5 else "."
        columns = range(rng.randint(2, 8))
        kinds = [rng.choice(["number", "text", "date"]) for _ in columns]
        path = tmp_path / f"{number}.csv"
        with path.open("w", newline="") as file:
            quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
            writer = csv.writer(file, delimiter=separator, quoting=quoting)
            writer.writerow([f"column {j}" for j in columns])
            for _ in range(rng.choice([3, 10, 60])):
                made = {
                    "number": f"{rng.gauss(0, 10):.2f}".replace(".", sign),
                    "text": rng.choice(texts),
                    "date": f"2026-{rng.randint(1, 12):02d}-01 12:{rng.randint(0, 59):02d}",
                }
                writer.writerow([made[kind] for kind in kinds])
        ((theirs,),) = duckdb.execute("SELECT Delimiter FROM sniff_csv(?)", [str(path)]).fetchall()
        ours = found_format(path.read_text(), TableFormat()).separator
        assert ours == separator == theirs.replace("\\t", "\t")


def test_commas_in_names_and_numbers_do_not_hide_semicolons(tmp_path):
    frame, notes = table(tmp_path, b"Temp, C;Flow, l\n1,5;2,5\n2,5;3,5\n")
    assert frame.columns == ["Temp, C", "Flow, l"]
    assert frame.rows() == [("1.5", "2.5"), ("2.5", "3.5")]
    assert notes == ["File: semicolons between columns and decimal commas."]


def test_one_column_has_no_separator(tmp_path):
    assert table(tmp_path, b"a\n1\n2\n")[0].columns == ["a"]


def test_a_first_line_may_tell_the_separator(tmp_path):
    assert table(tmp_path, b"sep=;\r\na;b\r\n1;2\r\n")[0].rows() == [("1", "2")]


NAMES = st.lists(
    st.text('ab", ;\né', min_size=1).map(str.strip).filter(bool), min_size=1, unique=True
)


@given(NAMES)
def test_names_are_those_that_the_csv_module_wrote(names):
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerow(names)
    content = file.getvalue().encode() + b",".join([b"1"] * len(names)) + b"\n"
    told = TableFormat(",", ".", "utf-8", '"')
    assert CsvFile("t", io.BytesIO(content), None, told).columns == names
    text = CsvText(told, 1000, "t")
    text.add(content)
    assert text.take(1).load().frame.columns == names


def test_doubled_quotes_of_names_agree_with_parquet(tmp_path):
    frame = pl.DataFrame({'a "wide" pipe': [1, 2], '"': [3, 4], "b": [5, 6]})
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    found = [read_table(tmp_path / name).columns for name in ("t.csv", "t.parquet")]
    assert found == [frame.columns, frame.columns]


@pytest.mark.parametrize("header", ['a ""x"" y,b', '""a,b'])
def test_quotes_within_names_stay(tmp_path, header):
    plain = pl.read_csv(f"{header}\n1,2\n".encode()).columns
    assert table(tmp_path, f"{header}\n1,2\n".encode())[0].columns == plain


def test_the_separator_can_be_told(tmp_path):
    content = b"a;b,c;d\n1;2,3;4\n"
    assert table(tmp_path, content, separator=",")[0].columns == ["a;b", "c;d"]
    assert table(tmp_path, content, separator=";")[0].columns == ["a", "b,c", "d"]
    assert table(tmp_path, b"a\tb\n1\t2\n", separator="tab")[0].columns == ["a", "b"]


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"separator": "x"}, "separator='x' is none of 'tab', ';', '|', ','"),
        ({"decimal": "comma"}, r"decimal='comma' is none of '\.', ','"),
        ({"encoding": "zip"}, "encoding='zip' is none of 'utf-8'"),
        ({"encoding": "no such"}, "encoding='no such' is none of"),
        ({"quote": "("}, "quote='\\('"),
    ],
)
def test_what_no_file_is_written_in_is_refused(tmp_path, told, message):
    message = message.replace("|", r"\|")
    with pytest.raises(ValueError, match=message):
        table(tmp_path, b"a,b\n1,2\n", **told)


def test_ragged_rows_are_told_with_their_place(tmp_path):
    content = b"a,b\n" + b"1,2\n" * 6 + b"1,2,3\n"
    with pytest.raises(ValueError, match=r"row 8 has 3 cells, and the header 2\. Put quotes"):
        table(tmp_path, content)
    with pytest.raises(ValueError, match="cells that hold a semicolon"):
        table(tmp_path, content.replace(b",", b";"))


# ------------------------------------------------------------------------------------------- quotes


def test_quoted_cells_may_hold_anything(tmp_path):
    frame, notes = table(tmp_path, b'a;b\n"two\nlines";"in ""quotes"""\n"x;y";2\n')
    assert frame.rows() == [("two\nlines", 'in "quotes"'), ("x;y", "2")]
    assert notes == ["File: semicolons between columns."]


def test_apostrophes_are_quotes_where_they_stand_around_cells_alone(tmp_path):
    frame, notes = table(tmp_path, b"'a','b'\n'x,y','1'\n")
    assert (frame.rows(), notes) == ([("x,y", "1")], ["File: single quotes."])
    frame, notes = table(tmp_path, b"a,b\nit's,rock 'n' roll\n'x',1\n")
    assert (frame.rows(), notes) == ([("it's", "rock 'n' roll"), ("'x'", "1")], [])


def test_inches_are_no_quotes_if_told(tmp_path):
    content = b'pipe,n\n5",1\n7",2\n9",3\n'
    with pytest.raises(ValueError, match=r"could not be read as CSV: .*say quote='none'"):
        table(tmp_path, content)
    assert table(tmp_path, content, quote="none")[0]["pipe"].to_list() == ['5"', '7"', '9"']


# ----------------------------------------------------------------------------------------- encoding


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252"],
)
@pytest.mark.parametrize("head", [8, 2**18])
@pytest.mark.parametrize("block", [3, 1000])
def test_every_encoding_is_found(encoding, head, block):
    text = "größe,b\n1,é\n2,ü\n" + "3,x\n" * 50
    raw = text.encode(encoding)
    file = CsvFile("mine.csv", io.BytesIO(raw), len(raw), head_bytes=head, block_bytes=block)
    frame = pl.concat([chunk.frame for chunk in file.chunks(10)])
    assert frame.columns == ["größe", "b"]
    assert frame["b"][:2].to_list() == ["é", "ü"]
    assert frame.height == 52
    expected = {"utf-8-sig": "utf-8", "latin-1": "cp1252"}.get(encoding, encoding)
    assert file.format.encoding == expected


def test_letters_of_windows_far_into_a_file_are_read(tmp_path):
    content = b"a,b\n" + b"1,x\n" * 200_000 + "1,Größe – 5 €\n".encode("cp1252")
    frame, notes = table(tmp_path, content)
    assert frame["b"][-1] == "Größe – 5 €"
    assert notes == ["File: encoding cp1252."]


def test_broken_utf8_raises_with_remedy(tmp_path):
    content = "a,b\né,1\n".encode() + b"\xff,2\n"
    with pytest.raises(ValueError, match=r"0xff is not UTF-8.*encoding='cp1252'"):
        table(tmp_path, content)
    assert table(tmp_path, content, encoding="latin-1")[0]["a"].to_list() == ["Ã©", "ÿ"]
    with pytest.raises(ValueError, match="0x81 is not CP1252"):
        table(tmp_path, b"a,b\n\x81,1\n")


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=30), st.integers(1, 5))
def test_blocks_decode_as_the_whole(text, size):
    for encoding in ("utf-8", "utf-16-le"):
        raw = text.encode(encoding)
        decode = Decoder("mine", encoding, raw)
        parts = [decode(raw[k : k + size]) for k in range(0, len(raw), size)]
        assert b"".join([*parts, decode(b"", last=True)]).decode() == text


# ------------------------------------------------------------------------------------ decimal signs

numbers = st.decimals(-99_999, 99_999, places=2, allow_nan=False)


def german(number):
    return f"{number:,}".replace(",", "_").replace(".", ",").replace("_", ".")


@settings(deadline=None, max_examples=50)
@given(st.lists(numbers, min_size=1, max_size=20))
def test_numbers_are_read_in_both_ways_of_writing(values):
    expected = [float(value) for value in values]
    for sign, texts in {",": map(german, values), ".": (f"{v:,}" for v in values)}.items():
        found = plain_numbers(pl.Series(list(texts)), sign)
        assert found.cast(pl.Float64).to_list() == expected


def test_quoted_decimal_commas_are_numbers_and_told(tmp_path):
    frame, notes = table(tmp_path, b'bar,n\n"2,5",1\n"2,75",2\n')
    assert frame.rows() == [("2.5", "1"), ("2.75", "2")]
    assert notes == ["File: decimal commas."]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'a,b\n"1,234",2.5\n', ["1234", "2.5"]),  # thousands, for others have points
        (b"a;b\n1,234;2,5\n", ["1.234", "2.5"]),
        (b"a;b\n1,234;2\n", ["1.234", "2"]),  # why else would it have semicolons?
        (b'a,b\n"0,123",2\n', ["0.123", "2"]),  # no group of thousands begins with a zero
        (b"a;b\n1.234;2,5\n", ["1234", "2.5"]),
        (b"a;b\n1.5;2.5\n", ["1.5", "2.5"]),
        (b"a;b;c\n1.5;2,5;3,5\n", ["1.5", "2.5", "3.5"]),  # a column with a sign of its own
        (b"a;b\n1.234.567,8;2,5\n", ["1234567.8", "2.5"]),
        ("a;b\n1 234,5;\u22122,5\n".encode(), ["1234.5", "-2.5"]),
        (b"a;b\n1'234.5;2.5\n", ["1234.5", "2.5"]),
        (b"a;b\n28.02.2024;2,5\n", ["28.02.2024", "2.5"]),
        (b"a;b\n1,5e3;2,5\n", ["1.5e3", "2.5"]),
        (b"a;b\nx,y;2,5\n", ["x,y", "2.5"]),
    ],
)
def test_decimal_signs(tmp_path, content, expected):
    assert list(table(tmp_path, content)[0].row(0)) == expected


def test_the_decimal_sign_can_be_told(tmp_path):
    assert table(tmp_path, b'a\n"1,234"\n', decimal=",")[0].item() == "1.234"
    assert table(tmp_path, b"a;b\n1,234;1\n", decimal=".")[0].row(0) == ("1234", "1")


def test_texts_with_few_numbers_stay_texts(tmp_path):
    content = b"a;b\n1,5;7,5\nsee 2,5;8,5\nfine;9,5\n"
    assert table(tmp_path, content)[0]["a"].to_list() == ["1,5", "see 2,5", "fine"]


def test_what_stands_beside_a_number_stays(tmp_path):
    frame, _ = table(tmp_path, "a;b\n7,67 m3/h;€ 3,50\n1.200,5 m3/h;€ 12\n".encode())
    assert frame.rows() == [("7.67 m3/h", "€ 3.50"), ("1200.5 m3/h", "€ 12")]
    assert without_unit(frame["a"])[0].to_list() == ["7.67", "1200.5"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=12), min_size=1, max_size=6))
def test_no_text_breaks_the_search_for_units(texts):
    bare, units = without_unit(pl.Series(texts))
    assert (bare.is_null() == units.is_null()).all()
    for text in bare.drop_nulls():
        float(text)


# ---------------------------------------------------------------------------- spreadsheets, samples


def sheet(path, rows, **more):
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("fastexcel")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for name, content in more.items():
        other = book.create_sheet(name)
        for row in content:
            other.append(row)
    book.save(path)
    return path


def test_a_sheet_is_a_table(tmp_path):
    when = [datetime(2024, 1, k, 12) for k in (1, 2, 3)]
    rows = [["n", "bar", "when", "kind"], [1, 2.5, when[0], " a "], [2, None, when[1], "NA"]]
    path = sheet(tmp_path / "t.xlsx", [*rows, [None] * 4, [3, 1.5, when[2], "b"]])
    with pytest.warns(UserWarning, match="no value in it: 1 line"):
        frame = read_table(path)
    assert frame.columns == rows[0]
    assert frame["n"].to_list() == [1, 2, 3]
    assert frame["n"].dtype == pl.Int64
    assert frame["bar"].to_list() == [2.5, None, 1.5]
    assert frame["when"].to_list() == when
    assert frame["kind"].to_list() == ["a", None, "b"]


def test_sheets_by_name(tmp_path):
    path = sheet(tmp_path / "t.xlsx", [["a"], ["1,5"]], other=[["b"], [2]])
    assert read_table(path).rows() == [("1.5",)]
    notes = []
    frame = read_table(path, format=TableFormat(sheet="other"), notes=notes)
    assert (frame.rows(), notes) == ([(2,)], ["File: sheet 'other'."])
    with pytest.raises(ValueError, match=r"has no sheet 'nope'\. It has 'Sheet', 'other'"):
        read_table(path, format=TableFormat(sheet="nope"))


def test_without_its_library_the_remedy_is_told(tmp_path, monkeypatch):
    path = sheet(tmp_path / "t.xlsx", [["a"], [1]])
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    with pytest.raises(ImportError, match=r'pip install "lpfuse\[excel\]". Or save it as CSV'):
        read_table(path)


def test_what_is_no_spreadsheet_is_refused(tmp_path):
    pytest.importorskip("fastexcel")
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"t\.xlsx could not be read as a spreadsheet"):
        read_table(tmp_path / "t.xlsx")
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as archive:
        archive.writestr("a.txt", "hello")
    with pytest.raises(ValueError, match=r"t\.xlsx could not be read as a spreadsheet"):
        read_table(tmp_path / "t.xlsx")


def test_bombs_and_lies_about_sizes_are_refused(tmp_path, monkeypatch):
    path = sheet(tmp_path / "t.xlsx", [["a"], [1]])
    whole = path.read_bytes()
    monkeypatch.setattr("lpfuse_cli.tables.MOST_BYTES", 1000)
    with pytest.raises(ValueError, match="unpacks to more than"):
        read_table(path)
    monkeypatch.undo()
    with zipfile.ZipFile(path) as archive:
        part = max(archive.infolist(), key=lambda part: part.file_size)
    size, lie = part.file_size.to_bytes(4, "little"), (10).to_bytes(4, "little")
    path.write_bytes(whole.replace(size, lie))
    with pytest.raises(ValueError, match="could not be read as a spreadsheet"):
        read_table(path)


def test_a_sample_of_a_foreign_file(tmp_path):
    frame = pumps(300).select("bar", "flow", "kind", "state").fill_null(2.5)
    lines = ["bar;flow;größe;state"]
    for bar, flow, kind, state in frame.rows():
        lines.append(f"{bar:.3f};{flow:.3f};{kind};{state}".replace(".", ","))
    path = tmp_path / "mine.csv"
    path.write_bytes("\n".join(lines).encode("latin-1"))
    notes, steps = [], []
    drawn, rows = read_sample(
        path, 50, label="state", normal="ok", notes=notes, progress=lambda *s: steps.append(s)
    )
    assert (drawn.height, rows, drawn.columns[2]) == (50, 300, "größe")
    assert notes == ["File: semicolons between columns, decimal commas and encoding cp1252."]
    assert steps[-1] == (300, 1.0)
    assert np.isin(drawn["bar"].cast(pl.Float64), frame["bar"].round(3)).all()


# ----------------------------------------------------------------------------------- rows of titles

LINES = ["Invoices, all of 2024", "", "bar;kind", "2,5;a", "", "3,5;b"]


@pytest.mark.filterwarnings("ignore:.*Left out")
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf", b"sep=;\n"])
def test_the_header_may_be_below_titles(tmp_path, mark):
    path, numbers, notes = tmp_path / "t.csv", [], []
    path.write_bytes(mark + "\n".join(LINES).encode())
    frame = read_table(path, format=TableFormat(header_row=3), numbers=numbers, notes=notes)
    assert frame.rows() == [("2.5", "a"), ("3.5", "b")]
    assert notes == ["File: semicolons between columns, decimal commas and header in row 3."]
    assert numbers == [4, 6]


def test_the_header_of_a_sheet_may_be_below_titles(tmp_path):
    rows = [[None, None], ["Title", None], ["bar", "kind"], [2.5, "a"], [None, None], [3.5, "b"]]
    path, numbers = sheet(tmp_path / "t.xlsx", rows), []
    with pytest.warns(UserWarning, match="1 line"):
        frame = read_table(path, format=TableFormat(header_row=3), numbers=numbers)
    assert (frame.rows(), numbers) == ([(2.5, "a"), (3.5, "b")], [4, 6])


@pytest.mark.filterwarnings("ignore:.*Left out")
def test_rows_of_a_sheet_count_from_its_top(tmp_path):
    """Where nothing stands above the header, it is the first row that holds something."""
    path, numbers = sheet(tmp_path / "t.xlsx", [[None], [None], ["a"], [1], [2]]), []
    assert read_table(path, numbers=numbers)["a"].to_list() == [1, 2]
    assert numbers == [4, 5]


@pytest.mark.filterwarnings("ignore:.*Left out")
def test_errors_about_columns_name_the_row_that_looks_like_the_header(tmp_path):
    path = tmp_path / "t.csv"
    for lines in (LINES, ["Invoices 2024;", *LINES[1:]], ["Invoices 2024", *LINES[1:]]):
        path.write_text("\n".join(lines))
        hints = []
        told = pytest.raises(ValueError, match=r"columns|column|cells")
        with told as caught, numbered_errors(list, hints):
            split_labels(read_table(path, hints=hints), "kind")
        assert caught.value.__notes__ == [
            "If the header is in row 3 ('bar', 'kind'), say header_row=3."
        ]
    path.write_text("bar;kind\n1;a\n2;b\n")
    notes = []
    read_table(path, notes=notes, format=TableFormat(header_row=1))
    assert not any("header_row=" in note for note in notes)


def test_errors_about_columns_name_the_other_sheets(tmp_path):
    path, hints, notes = sheet(tmp_path / "t.xlsx", [["a"], [1]], other=[["b"], [2]]), [], []
    frame = read_table(path, hints=hints, notes=notes)
    with pytest.raises(ValueError, match="no column 'b'") as caught, numbered_errors(list, hints):
        split_labels(frame, "b")
    assert caught.value.__notes__ == ["If the table is in another sheet, say sheet='other'."]
    assert notes[1] == "Sheet: if the table is in another sheet, say sheet='other'."
    with pytest.raises(ValueError, match="holds no such") as caught, numbered_errors(list, hints):
        raise ValueError("It holds no such text.")  # which no other sheet explains
    assert not hasattr(caught.value, "__notes__")


def test_a_header_row_that_is_not_there_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"no row 9 to take as the header: the file has 2 rows"):
        read_table(path, format=TableFormat(header_row=9))
    with pytest.raises(ValueError, match="header_row must be a whole number"):
        read_table(path, format=TableFormat(header_row=0))


def test_equal_names_are_to_be_renamed(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,sex,sex\n1,2,3\n")
    with pytest.raises(ValueError, match=r"two columns are called 'sex'\. Rename one of them\.$"):
        read_table(path)


def test_durations_are_numbers_of_seconds(tmp_path):
    lengths = [timedelta(seconds=90), None, timedelta(milliseconds=-500)]
    frame = pl.DataFrame({"a": [1, 2, 3], "took": lengths})
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_ipc(tmp_path / "t.arrow")
    for name in ("t.parquet", "t.arrow"):
        assert read_table(tmp_path / name)["took"].to_list() == [90.0, None, -0.5]
