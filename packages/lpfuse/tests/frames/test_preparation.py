import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.pumps import pumps
from lpfuse.frames import learn_preparation

nan = np.nan
numbers = st.one_of(st.none(), st.floats(-1e6, 1e6), st.integers(-1000, 1000).map(float))
words = st.sampled_from([None, "red", "blue", "d'or", "x,y", "ü=1"])
flags = st.sampled_from([None, True, False])


def as_csv(frame):
    """As its cells come out of a CSV file."""
    return pl.read_csv(frame.write_csv().encode(), infer_schema=False)


def learn(columns, **options):
    frame = pl.DataFrame(columns, strict=False)
    return learn_preparation(frame, **options)


def encoded(columns, **options):
    made = learn(columns, **options)
    return made.feature_names, made.numbers(pl.DataFrame(columns, strict=False))


def learnt(made):
    """All that a preparation keeps of the table, as plain values."""
    return vars(made), made.feature_names, made.kinds


# --------------------------------------------------------------------------------- what becomes of


def test_numbers_stay_and_gaps_stay_gaps():
    names, values = encoded({"a": [1.0, None, 3.0, 8.0], "b": [4, 3, 2, 2]})
    assert names == ["a", "b"]
    np.testing.assert_array_equal(values, [[1, 4], [nan, 3], [3, 2], [8, 2]])


def test_nan_is_a_gap_like_any_other():
    made = learn({"a": [1.0, nan, 3.0, nan]})
    assert (made.gaps, made.medians) == ({"a": 2}, {"a": 2.0})


def test_true_and_false_are_one_and_zero():
    names, values = encoded({"wet": [True, False, None, True]})
    assert names == ["wet"]
    np.testing.assert_array_equal(values, [[1], [0], [nan], [1]])


def test_texts_get_a_feature_each_and_rare_ones_share_one():
    texts = ["b"] * 6 + ["a"] * 5 + ["rare"] * 4 + [None]
    names, values = encoded({"t": texts})
    assert names == ["t=a", "t=b", "t=(other)"]
    expected = {"a": [1, 0, 0], "b": [0, 1, 0], "rare": [0, 0, 1], None: [nan] * 3}
    np.testing.assert_array_equal(values, [expected[text] for text in texts])


def test_the_twenty_commonest_texts_have_a_feature():
    texts = [f"t{i:03d}" for i in range(22) for _ in range(6 if i >= 2 else 5)]
    made = learn({"t": texts})
    assert made.categories == {"t": [f"t{i:03d}" for i in range(2, 22)]}
    assert made.rare == {"t": ["t000", "t001"]}
    assert made.feature_names[-1] == "t=(other)"


def test_rare_texts_share_a_feature_and_new_ones_are_missing():
    learnt = {"kind": ["a"] * 5 + ["b"] * 5, "colour": ["red"] * 5 + ["blue"] * 4 + ["grey"]}
    made = learn(learnt)
    assert made.feature_names == ["kind=a", "kind=b", "colour=red", "colour=(other)"]
    new = pl.DataFrame({"kind": ["z", None], "colour": ["z", "grey"]})
    np.testing.assert_array_equal(made.numbers(new), [[nan] * 4, [nan, nan, 0, 1]])


def test_no_rows_no_features():
    made = learn_preparation(pumps(60).drop("state"))
    assert made.numbers(pumps(60).clear()).shape == (0, len(made.feature_names))


def test_order_and_other_columns_do_not_matter():
    frame = pumps(60)
    made = learn_preparation(frame.drop("state"))
    other = frame.select("state", *reversed(made.columns)).with_columns(extra=1)
    np.testing.assert_array_equal(made.numbers(other), made.numbers(frame))
    assert made.check(other.columns) == ["state", "extra"]


def test_csv_round_trip_gives_the_same_numbers():
    frame = pumps(80).drop("state")
    parse_column, texts = learn_preparation(frame), learn_preparation(as_csv(frame))
    assert learnt(parse_column) == learnt(texts)
    np.testing.assert_array_equal(parse_column.numbers(frame), texts.numbers(as_csv(frame)))
    np.testing.assert_array_equal(parse_column.numbers(as_csv(frame)), texts.numbers(frame))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_against_plain_loops(data):
    n = data.draw(st.integers(6, 24))

    def column(cells):
        return data.draw(st.lists(cells, min_size=n, max_size=n))

    columns = {"x": column(numbers), "t": column(words), "f": column(flags), "z": [0.5] * n}
    frame = pl.DataFrame({**columns, "one": range(0, n * n, n)[::-1]}, strict=False)
    made = learn_preparation(frame, features=frame.columns)
    expected = {}
    for name in made.columns:
        cells = frame[name].to_list()
        if name in made.medians:
            known = sorted(float(cell) for cell in cells if cell is not None)
            middle = (known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2
            assert made.medians[name] == pytest.approx(middle)
            expected[name] = [nan if cell is None else float(cell) for cell in cells]
        else:
            common = sorted({c for c in cells if c is not None and cells.count(c) >= 5})
            tests = {f"{name}={text}": text.__eq__ for text in common}
            if {*cells} - {None, *common}:
                tests[f"{name}=(other)"] = lambda cell, common=common: cell not in common
            for feature, holds in tests.items():
                expected[feature] = [nan if c is None else float(holds(c)) for c in cells]
    assert made.feature_names == list(expected)
    np.testing.assert_allclose(made.numbers(frame), np.transpose(list(expected.values())), 1e-12)
    assert "z" in made.dropped


# ------------------------------------------------------------------------------- what is left out


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ([None] * 12, "it is empty"),
        ([7] * 12, "it holds 7 in every row"),
        (["x"] * 12, "it holds 'x' in every row"),
        ([f"id{i}" for i in range(12)], "it names the rows (12 texts in 12 rows)"),
        ([f"id{i}" for i in range(11)] + ["id0"], "it names the rows (11 texts in 12 rows)"),
        (["a", "b", "c"] * 4, "no text in it occurs in 5 rows"),
        (list(range(12)), "it numbers the rows"),
        (list(range(100, 76, -2)), "it numbers the rows"),
        ([[1, 2]] * 6 + [[3]] * 6, "it holds List(Int64), neither numbers nor text"),
        ([b"x", b"y"] * 6, "it holds Binary, neither numbers nor text"),
    ],
)
def test_columns_that_teach_nothing_are_dropped_with_the_reason(column, why):
    made = learn({"a": column, "b": [1.0, 2.0, 4.0] * 4})
    assert made.dropped == {"a": why}
    assert made.columns == ["b"]
    assert f"Dropped: 'a', {why}." in made.notes


def test_few_numbers_in_a_row_are_a_coincidence():
    assert learn({"a": [1, 2, 3, 4, 5, 6, 7, 8, 9]}).columns == ["a"]


def test_row_numbers_are_used_if_asked_for():
    assert learn({"a": list(range(12)), "b": [1, 2, 4] * 4}, features=["a"]).columns == ["a"]


def test_whole_numbers_that_all_differ_are_doubted_but_used():
    codes = [5, 3, 9, 1, 8, 2, 7, 4, 6, 0]
    made = learn({"the customer": codes, "b": [1.5, 2.0] * 5})
    assert made.columns == made.feature_names == ["the customer", "b"]
    assert made.doubtful == ["the customer"]
    assert made.notes[-1].endswith("leave it out: columns={'the customer': 'drop'}")
    assert learn({"customer": codes}, features=["customer"]).doubtful == []
    assert learn({"customer": [*codes, 0]}).doubtful == []
    assert learn({"customer": codes[:9]}).doubtful == []
    assert learn({"customer": codes}, scores=True).doubtful == []


def test_what_users_ask_for():
    frame = pumps(40).drop("state")
    made = learn_preparation(frame, drop=["bar", "kind"])
    assert made.columns == ["flow", "wet", "when"]
    assert made.dropped["bar"] == "as asked"
    made = learn_preparation(frame, features=["kind", "flow", "site"])
    assert made.columns == ["flow", "kind"]
    assert made.dropped["bar"] == "not among the features asked for"
    assert made.dropped["site"] == "it holds 'north' in every row"


@pytest.mark.parametrize("codes", [[1, 2], [1.0, 2.0], ["1", "2"], ["01", "02"]])
def test_numbers_can_be_names(codes):
    made = learn({"zip": codes * 6}, categories=["zip"])
    first, second = ("01", "02") if codes == ["01", "02"] else ("1", "2")
    assert made.categories == {"zip": [first, second]}
    expected = [[1, 0], [0, 1], [nan, nan]]
    texts = pl.DataFrame({"zip": [first, second, "3"]})
    np.testing.assert_array_equal(made.numbers(texts), expected)
    if codes != ["01", "02"]:
        for kind in (pl.Int64, pl.Float64):
            numbers = texts.with_columns(pl.col("zip").cast(kind))
            np.testing.assert_array_equal(made.numbers(numbers), expected)


def test_nothing_left_is_an_error_that_tells_why():
    with pytest.raises(ValueError, match=r"No column is left.*'a': it is empty; 'b': as asked\)"):
        learn({"a": [None] * 3, "b": [1, 2, 3]}, drop=["b"])
    with pytest.raises(ValueError, match=r"No column is left to learn from \(there was none\)"):
        learn_preparation(pl.DataFrame())


def test_scores_keep_their_gaps_and_are_no_texts():
    frame = pl.DataFrame(
        {"s": [0.5, None, 0.1], "name": ["x", "y", "y"], "ok": [True, False, True]}
    )
    made = learn_preparation(frame, scores=True)
    assert made.feature_names == ["s", "ok"]
    assert made.dropped == {"name": "it holds text, not scores"}
    np.testing.assert_array_equal(made.numbers(frame), [[0.5, 1], [nan, 0], [0.1, 1]])
    assert made.notes[:2] == [
        "Scores: 's', 'ok'.",
        "Missing: 's' in 1 row; the others decide on these.",
    ]


# --------------------------------------------------------------------------------------- mistakes


def test_texts_among_numbers_are_asked_about():
    columns = {"bar": ["1.5", "2.5", "error", "2", "3"], "b": [1, 2, 3, 4, 7]}
    with pytest.raises(
        ValueError, match="'bar' holds numbers, but for 1 of 5 rows: row 3 holds"
    ) as e:
        learn(columns)
    assert "'error'. Correct those cells" in str(e.value)
    assert "columns={'bar': 'number'} takes them as missing" in str(e.value)
    assert learn(columns, drop=["bar"]).columns == ["b"]
    assert learn({"bar": ["1", "A"] * 5 + ["A"]}, categories=["bar"]).categories == {
        "bar": ["1", "A"]
    }
    assert learn({"bar": ["1", "A"] * 5 + ["A"]}).categories == {"bar": ["1", "A"]}  # mostly texts


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (["1", "2", "oops"], "must hold numbers; line 1,004 holds 'oops'. Correct"),
        (["1", "inf", "oops"], "line 1,003 holds 'inf'"),
        ([1.0, -np.inf, 3.0], "line 1,003 holds -inf"),
        (["true", "2", "3"], "line 1,002 holds 'true'"),
        ([[1], [2], [3]], "must hold numbers; it holds List(Int64)"),
        (pl.Series([1, 2, 3]).cast(pl.Date), "must hold numbers; it holds Date"),
    ],
)
def test_what_is_no_number_is_told_with_its_row(column, told):
    made = learn({"bar": [1.0, 2.0, 4.0]})
    with pytest.raises(ValueError, match=r"Column 'bar' ") as refusal:
        made.numbers(pl.DataFrame({"bar": column}), start=1000)
    assert told in str(refusal.value)


def test_infinity_is_refused_when_learning():
    with pytest.raises(ValueError, match="'bar' must hold numbers; row 2 holds inf"):
        learn({"bar": [1.0, np.inf, 2.0]})


def test_truths_may_be_written_in_any_way_later():
    made = learn({"wet": [True, False, True]})
    for cells in (["True", "FALSE"], ["1", "0"], [1, 0], [True, False]):
        np.testing.assert_array_equal(made.numbers(pl.DataFrame({"wet": cells})), [[1], [0]])
    with pytest.raises(ValueError, match="row 1 holds 'yes'"):
        made.numbers(pl.DataFrame({"wet": ["yes", "no"]}))


def test_missing_columns_are_named_with_the_closest():
    made = learn({"Pressure": [1, 2, 4], "flow": [1, 2, 4], "z": [3, 3, 4]})
    lacks = r"lack 1 column that the model was trained on: 'Pressure'\."
    with pytest.raises(ValueError, match=rf"{lacks} Did you mean 'pressure'\? Then rename it\."):
        made.check(["pressure", "flow", "z"])
    with pytest.raises(ValueError, match=rf"{lacks} Add columns that are not there, or fit"):
        made.check(["flow", "z"])
    with pytest.raises(ValueError, match=r"lack 2 columns .*: 'Pressure', 'z'\."):
        made.check(["flow"])


def test_surprises_are_counted():
    numbers = {"a": [1, None, 2, 4] * 3, "b": [1, 3, 2, 9] * 3}
    rows = {**numbers, "k": ["x", "y"] * 6, "o": ["p"] * 9 + ["q"] * 3}
    made = learn(rows)
    new = pl.DataFrame({"a": [None, 1], "b": [None, None], "k": ["z", None], "o": ["new", "p"]})
    assert made.new_in(new) == {
        "Missing, as it never was in training: 'b'": 2,
        "Missing, as it never was in training: 'k'": 1,
        "New, a text that was not in training, and taken as missing: 'k'": 1,
        "New, a text that was not in training, and taken as missing: 'o'": 1,
    }
    assert made.new_in(pl.DataFrame(rows)) == {}


def test_notes_tell_what_was_taken_as_what():
    made = learn_preparation(pumps(60).drop("state"))
    assert made.notes == [
        "Numbers: 'bar', 'flow', 'wet'.",
        "Dates: 'when' (weekday).",
        "Categories, a feature for each: 'kind' (3 texts).",
        f"Missing: 'bar' in {made.gaps['bar']} rows; the other columns decide.",
        "Dropped: 'serial', it names the rows (60 texts in 60 rows).",
        "Dropped: 'site', it holds 'north' in every row.",
    ]
    assert made.kinds == {
        "bar": "number",
        "flow": "number",
        "wet": "true or false",
        "when": "date",
        "kind": "category",
        "serial": "id",
        "site": "constant",
    }
    made = learn({"t": ["a"] * 6 + ["b"] * 5 + ["c", None]})
    assert made.notes == [
        "Categories, a feature for each: 't' (2 texts, 1 rarer as one).",
        "Missing: 't' in 1 row; the other columns decide.",
    ]
