import math
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpfuse.frames.cells import numbers_of
from lpfuse_cli.report import read_answers
from lpfuse_cli.report.questions import MEANINGS, answer_file, rows_without_cells

# All that CSV, spreadsheets or `read_table` might take for something else than a text.
ODD_TEXTS = [
    "", " ", "NA", "nan", "null", "?", "'", "''", "'a'", "'=1'", "a'", "=1+1", "+x", "-", "-3.2",
    "@SUM(A1)", "＝1", "\t=1", " padded ", 'say "no"', "a,b", "two\nlines", "cr\rlf\r\n", "nul\0",
    "ünï\u2028\u202e漢字🙂", "<b>&amp;", "1_000", "don't know", "0x1F", "1e5", "−3",
    "\\n", '\\"', "'\\'",
]  # fmt: skip
ODD_NAMES = [
    "row",
    "answer",
    "chance",
    "'row'",
    "=a",
    " b",
    "a,b",
    'q"q',
    "two\nlines",
    "",
]
texts = st.one_of(
    st.sampled_from(ODD_TEXTS),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)


def exported(rows, answers, chances=None, positions=None):
    """The file as the page puts it together."""
    n = rows.height
    chances = [0.5] * n if chances is None else chances
    header, lines = answer_file(rows, positions or list(range(n)), chances)
    told = [
        before + answer + behind for answer, (before, behind) in zip(answers, lines, strict=True)
    ]
    return "\n".join([header, *told]) + "\n"


def read_back(content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.csv"
        path.write_bytes(content.encode())
        return read_answers(path)


# ---------------------------------------------------------------------------------- there and back


def test_every_odd_text_comes_back_as_it_was():
    rows = pl.DataFrame(dict.fromkeys(ODD_NAMES, ODD_TEXTS))
    found = read_back(exported(rows, ["normal"] * rows.height))
    assert found.rows.equals(rows)
    assert found.rows.columns == ODD_NAMES


@given(
    st.lists(st.tuples(texts, st.none() | texts), min_size=1, max_size=5),
    st.sets(texts, min_size=2, max_size=2),
)
def test_texts_and_names_come_back(cells, names):
    one, other = names
    if one.strip() == other.strip():  # so no CSV file can have them, whoever writes it
        one, other = "one", "other"
    rows = pl.DataFrame(cells, schema={one: pl.String, other: pl.String}, orient="row")
    found = read_back(exported(rows, ["anomaly"] * len(cells)))
    assert found.rows.rows() == rows.rows()
    assert found.rows.columns == [one, other]


@given(st.lists(st.none() | st.floats(allow_infinity=False), min_size=1, max_size=8))
def test_numbers_come_back_to_the_last_bit(values):
    rows = pl.DataFrame(
        {"row": values, "there": ["x"] * len(values)}, schema_overrides={"row": pl.Float64}
    )
    found = numbers_of(read_back(exported(rows, ["normal"] * len(values))).rows["row"])
    expected = np.array([math.nan if v is None else v for v in values])
    assert found.tobytes() == expected.tobytes() or np.array_equal(found, expected, equal_nan=True)


def test_whole_numbers_and_truths_come_back():
    rows = pl.DataFrame({"i": [2**60 + 1, -3], "b": [True, None], "d": [None, "x"]})
    found = read_back(exported(rows, ["normal", "anomaly"])).rows
    assert found["i"].to_list() == [str(2**60 + 1), "-3"]
    assert numbers_of(found["b"], truths=True).tolist()[0] == 1.0
    assert found["b"][1] is None


@given(st.floats(1e-18, 1))  # lower ones are refused
def test_chances_come_back_to_the_last_bit(chance):
    content = exported(pl.DataFrame({"a": ["x"]}), ["normal"], [chance], [7])
    assert read_back(content).chances.tolist() == [chance]
    assert content.splitlines()[1].startswith("7,normal,")
    assert content.splitlines()[1].endswith(",x")


def test_formulas_do_not_run_in_a_spreadsheet():
    rows = pl.DataFrame({"=name": ["=1+1", "@x", "-3.2"], "b": ["+cmd", "－1", "ok"]})
    header, lines = answer_file(rows, [0, 1, 2], [1.0] * 3)
    cells = [
        cell for line in [header, *(behind for _, behind in lines)] for cell in line.split(",")
    ]
    assert [cell for cell in cells if cell[:1] in {"=", "+", "@", "-", "－"}] == ["-3.2"]


# ------------------------------------------------------------------------------------- what is read


def test_answers_are_told_apart_and_the_undecided_left_out():
    rows = pl.DataFrame({"a": ["1", "2", "3", "4"]})
    found = read_back(exported(rows, [*MEANINGS, ""], chances=[0.1, 0.2, 0.3, 0.4]))
    assert found.y.tolist() == [1, -1]
    assert found.rows["a"].to_list() == ["1", "2"]
    assert found.chances.tolist() == [0.1, 0.2]
    assert found.undecided == 2


def test_words_as_a_spreadsheet_may_have_left_them():
    found = read_back("answer,chance,a\nNormal,0.5,1\n Anomaly ,,2\nDon’t know,1,3\n")
    assert found.y.tolist() == [1, -1]
    assert found.chances[0] == 0.5
    assert np.isnan(found.chances[1])
    assert found.undecided == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("row,a\n1,2\n", "lacks 'answer', 'chance': expected the file that the page"),
        ("row,answer,a\n1,normal,2\n", "lacks 'chance'"),
        ("answer,chance,a\nyes,1,2\n", "'normal', 'anomaly' or \"don't know\"; row 2 holds 'yes'"),
        (
            "answer,chance,a\nnormal,0,2\n",
            "a chance must lie between 1e-18 and 1; row 2 holds",
        ),
        ("answer,chance,a\nnormal,1.5,2\n", "1e-18 and 1; row 2 holds '1.5'"),
        ("answer,chance,a\nnormal,-0.5,2\n", "between 1e-18"),
        ("answer,chance,a\nnormal,1e-320,2\n", "row 2 holds '1e-320'"),
        ("answer,chance,a,'a'\nnormal,1,2,3\n", "answers.csv: two columns are called 'a'. Export"),
        ("answer,chance,a\nnormal,half,2\n", "must hold numbers; row 2 holds 'half'"),
        ("answer,chance,a\ndon't know,1,2\n", r"says of no row .* \(1 row without an answer\)"),
        ("answer,chance,a\n", r"\(0 rows without an answer\)"),
        ("", "could not be read"),
    ],
)
def test_a_file_that_is_none_is_refused_in_a_sentence(content, words):
    with pytest.raises(ValueError, match=words):
        read_back(content)


def test_a_line_without_a_value_counts_in_the_number_of_a_row():
    with pytest.warns(UserWarning, match="1 line"), pytest.raises(ValueError, match="row 4 holds"):
        read_back("answer,chance,a\n,,\nnormal,1,2\nyes,1,2\n")


def test_escapes_of_no_text_stay_as_they_are():
    found = read_back("answer,chance,a\nnormal,1,'\\ud800'\nanomaly,1,'\\u0041'\n")
    assert found.rows["a"].to_list() == ["'\\ud800'", "A"]


def test_rows_without_a_value_are_empty():
    cells = pl.DataFrame({"n": [math.nan, 1.0, math.nan], "t": [None, None, ""]})
    assert rows_without_cells(cells).tolist() == [True, False, False]
