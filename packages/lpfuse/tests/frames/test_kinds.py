"""What columns are taken as: ids, sentences, numbers with units, dates, categories."""

from datetime import date, datetime, time, timedelta

import numpy as np
import polars as pl
import pytest

from helpers.pumps import pumps
from lpfuse import FusedDetector
from lpfuse.frames import learn_preparation
from lpfuse.frames.cells import order_of

B = [1.0, 2.0, 4.0] * 20  # a column that is of use, of 60 rows
rng = np.random.default_rng(0)


def learn(column, **options):
    return learn_preparation(pl.DataFrame({"a": column, "b": B[: len(column)]}), **options)


def from_csv(frame):
    return pl.read_csv(frame.write_csv().encode(), infer_schema=False)


# ------------------------------------------------------------------------------------ ids and texts

WORDS = ["pump", "leaks", "at", "seal", "checked", "by", "Bob", "fine", "noise", "again"]
NOTES = [" ".join(rng.choice(WORDS, 4)) for _ in range(60)]


@pytest.mark.parametrize(
    ("column", "kind", "why"),
    [
        ([f"P-{k:03d}" for k in range(60)], "id", "it names the rows (60 texts in 60 rows)"),
        (NOTES, "text", "it is free text"),
        (NOTES[:25] * 2 + NOTES[:10], "text", "it is free text (25 texts in 60 rows)"),
        ([f"c{k}" for k in range(40)] + ["c1"] * 20, "id", "most of its texts are rare"),
        (list(range(7, 67)), "id", "it numbers the rows"),
        (rng.permutation(60).tolist(), "id", "it numbers the rows, in another order"),
        (np.cumsum(rng.integers(1, 99, 60)).tolist(), "id", "it grows from row to row"),
        ([3] * 60, "constant", "it holds 3 in every row"),
        ([None] * 60, "constant", "it is empty"),
        ([timedelta(k) for k in range(60)], "unknown", "it holds Duration"),
    ],
)
def test_what_teaches_nothing_is_named_and_left_out(column, kind, why):
    made = learn(column)
    assert made.columns == ["b"]
    assert made.kinds["a"] == kind
    assert made.dropped["a"].startswith(why)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (["very happy with it", "not so happy with it", "no answer was given"] * 20, "category"),
        (["x", "y"] * 30, "category"),
        (["12A", "12B", "7C", "7D", "3E", "3F"] * 10, "category"),
        ((rng.permutation(60) * 1000).tolist(), "number"),  # all differ, but far apart
        (rng.integers(0, 40, 60).tolist(), "number"),
        (["1", "2"] * 30, "number"),
    ],
)
def test_what_looks_similar_is_used(column, kind):
    made = learn(column)
    assert made.kinds["a"] == kind
    assert "a" in made.columns


# ------------------------------------------------------------------------------------------- units


@pytest.mark.parametrize(
    ("column", "unit", "values"),
    [
        (["7.67 m3/h", "8 m3/h", "1,200.5 m3/h"], "m3/h", [7.67, 8, 1200.5]),
        (["12 %", "7%", "8"], "%", [12, 7, 8]),
        (["€ 3.50", "€4", "€ 1,000"], "€", [3.5, 4, 1000]),
        (["-5 °C", "+3.5 °C", "0 °C"], "°C", [-5, 3.5, 0]),
        (["EUR 5", "EUR 6.5", "EUR 7"], "EUR", [5, 6.5, 7]),
        (["5 µg/m³", "6 µg/m³", None], "µg/m³", [5, 6, np.nan]),
    ],
)
def test_numbers_with_a_unit_are_numbers(column, unit, values):
    made = learn(column * 20)
    assert made.kinds["a"] == f"number in {unit}"
    assert f"'a' ({unit})" in made.notes[0]
    frame = pl.DataFrame({"a": column, "b": B[:3]})
    np.testing.assert_array_equal(made.numbers(frame)[:, 0], values)


def test_another_unit_is_refused_with_its_row():
    made = learn(["5 m", "6 m", "7 m"] * 20)
    new = pl.DataFrame({"a": ["5 m", "6", "7 km"], "b": B[:3]})
    with pytest.raises(ValueError, match=r"'a' must hold numbers in 'm'; row 3 holds '7 km'"):
        made.numbers(new)


def test_several_units_are_told():
    made = learn([f"{k} {'m' if k % 2 else 'km'}" for k in range(60)])
    assert made.dropped["a"] == "its numbers have several units, 'km', 'm': convert them"


def test_texts_among_numbers_with_units_are_asked_about():
    with pytest.raises(ValueError, match=r"but for 1 of 60 rows: row 60 holds 'broken'") as told:
        learn([f"{k / 7:.2f} bar" for k in range(59)] + ["broken"])
    assert "columns={'a': 'number'} takes them as missing" in str(told.value)


def test_texts_that_number_takes_as_missing_are_told():
    made = learn([f"{k / 7:.2f} bar" for k in range(57)] + ["<0.1", "<0.1", "7 psi"],
                 kinds={"a": "number"})  # fmt: skip
    assert made.notes[:2] == [
        "Taken as missing: '7 psi' in 'a' (1 row).",
        "Read as their limit: '<0.1' in 'a' (2 rows).",
    ]


# --------------------------------------------------------------------- decimal signs and thousands


@pytest.mark.parametrize(
    ("cells", "values", "kind"),
    [
        (["8.863", "6.278", "117", "64"], [8863, 6278, 117, 64], "number"),
        (["8.863 €", "6.278 €", "117 €", "64"], [8863, 6278, 117, 64], "number in €"),
        (["1,234.50", "117.25", "64", "−2,000"], [1234.5, 117.25, 64, -2000], "number"),
        (["$1,234.50", "$117.25", "$64", "$2,000"], [1234.5, 117.25, 64, 2000], "number in $"),
        (["1,234", "117", "64", "2,000"], [1234, 117, 64, 2000], "number"),
        # No thousands: fewer decimals elsewhere, zeros before them, all with three, none below 10.
        (["8.863", "6.27", "117", "64"], [8.863, 6.27, 117, 64], "number"),
        (["8.863", "0.278", "117", "64"], [8.863, 0.278, 117, 64], "number"),
        (["8.863", "6.278", "1.117", "2.064"], [8.863, 6.278, 1.117, 2.064], "number"),
        (["8.863", "6.278", "1117", "64"], [8.863, 6.278, 1117, 64], "number"),
        (["8.863", "6.278", "0", "0"], [8.863, 6.278, 0, 0], "number"),
    ],
)
def test_thousands_and_decimals(cells, values, kind):
    frame = pl.DataFrame({"a": cells * 15, "b": [f"{b / 3:.2f}" for b in B]})
    made = learn_preparation(frame)
    assert made.kinds["a"] == kind
    np.testing.assert_array_equal(made.numbers(frame)[:4, 0], values)
    has_points = values[0] == 8863
    assert made.notes[0].startswith("Points between thousands: 'a'. ") == has_points
    later = pl.DataFrame({"a": cells[:1], "b": ["1"]})  # one row means what it did among others
    assert made.numbers(later)[0, 0] == values[0]


def test_a_decimal_sign_can_be_told():
    frame = pl.DataFrame({"a": ["8.863", "117"] * 30, "b": B})
    assert learn_preparation(frame, decimal=".").numbers(frame)[0, 0] == 8.863
    assert learn_preparation(frame, decimal=",").numbers(frame)[0, 0] == 8863


def test_numbers_that_fit_both_signs_are_like_the_other_columns():
    frame = pl.DataFrame({"a": ["1,234", "2,500"] * 30, "b": ["7,5", "8,25", "9"] * 20})
    assert learn_preparation(frame).numbers(frame)[0].tolist() == [1.234, 7.5]
    frame = frame.with_columns(b=pl.Series(["7.5", "8.25", "9"] * 20))
    assert learn_preparation(frame).numbers(frame)[0].tolist() == [1234, 7.5]


def test_cells_are_quoted_as_they_are_written():
    cells = [f"{k},50 €" for k in range(59)]
    made = learn([*cells, "1.234,50 €"])
    with pytest.raises(ValueError, match=r"numbers in '€'; row 1 holds '1\.234,50 \$'"):
        made.numbers(pl.DataFrame({"a": ["1.234,50 $"], "b": [1.0]}))
    with pytest.raises(ValueError, match=r"1 of 60 rows: row 60 holds '1\.234,50 \$'"):
        learn([*cells, "1.234,50 $"])


# ------------------------------------------------------------------------------------------- dates

DAY = datetime(2024, 2, 28)  # a Wednesday


@pytest.mark.parametrize(
    ("pattern", "order"),
    [
        ("%Y-%m-%d %H:%M", "%Y-%m-%d"),
        ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d"),
        ("%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d"),
        ("%Y-%m-%dT%H:%M:%S+00:00", "%Y-%m-%d"),
        ("%d.%m.%Y %H:%M", "%d.%m.%Y"),
        ("%d/%m/%Y %H:%M:%S", "%d/%m/%Y"),
        ("%m/%d/%Y %H:%M", "%m/%d/%Y"),
        ("%Y/%m/%d %H:%M", "%Y/%m/%d"),
    ],
)
def test_dates_are_known_however_they_are_written(pattern, order):
    moments = [DAY + timedelta(hours=7 * k) for k in range(60)]
    made = learn([moment.strftime(pattern) for moment in moments])
    assert made.orders == {"a": order}
    parse_column = learn(moments)
    assert parse_column.parts == made.parts == {"a": ["time of day", "weekday"]}
    frame = pl.DataFrame({"a": moments, "b": B})
    np.testing.assert_allclose(made.numbers(frame), parse_column.numbers(frame))
    texts = frame.with_columns(pl.Series("a", [m.strftime(pattern) for m in moments]))
    np.testing.assert_allclose(made.numbers(texts), made.numbers(frame), atol=1e-9)


def test_waves_of_time_against_plain_loops():
    moments = [DAY + timedelta(minutes=617 * k) for k in range(59)]
    frame = pl.DataFrame({"a": [*moments, None], "b": B})
    made = learn_preparation(frame)
    assert made.feature_names == [
        "b",
        *(f"a: {part} ({wave})" for part in ("time of day", "weekday") for wave in ("sin", "cos")),
    ]
    found = made.numbers(frame)[:, 1:]
    for moment, row in zip(moments, found[:-1], strict=True):
        clock = 2 * np.pi * (moment.hour + moment.minute / 60) / 24
        week = 2 * np.pi * moment.weekday() / 7
        expected = [np.sin(clock), np.cos(clock), np.sin(week), np.cos(week)]
        np.testing.assert_allclose(row, expected, atol=1e-9)
    assert np.isnan(found[-1]).all()


def test_parts_that_do_not_vary_are_left_out():
    assert learn([date(2024, 1, 1) + timedelta(k) for k in range(60)]).parts == {"a": ["weekday"]}
    assert learn([time(k % 24, 30) for k in range(60)]).parts == {"a": ["time of day"]}
    assert learn(["12:30", "13:45:10"] * 30).parts == {"a": ["time of day"]}
    made = learn([date(2024, 1, 1) + timedelta(7 * k) for k in range(60)])
    assert made.kinds["a"] == "date"
    assert "columns={'a': 'elapsed'}" in made.dropped["a"]


def test_elapsed_time_if_asked_for():
    days = [date(2024, 1, 1) + timedelta(7 * k) for k in range(60)]
    made = learn(days, kinds={"a": "elapsed"})
    assert made.feature_names == ["b", "a: days since the first"]
    found = made.numbers(pl.DataFrame({"a": days, "b": B}))[:, 1]
    np.testing.assert_allclose(found, np.arange(60) * 7)
    assert made.kinds["a"] == "elapsed"


def test_between_two_dates_the_days_count():
    first = [date(2024, 1, 1) + timedelta(k) for k in range(60)]
    second = [day + timedelta(k % 9) for k, day in enumerate(first)]
    frame = pl.DataFrame({"made": first, "broke": second, "b": B})
    made = learn_preparation(frame)
    j = made.feature_names.index("broke: days since made")
    np.testing.assert_allclose(made.numbers(frame)[:, j], np.arange(60) % 9)
    assert "Dates: 'made' (weekday), 'broke' (weekday, days since 'made')." in made.notes


def test_what_is_no_date_is_told_with_its_row():
    made = learn([f"{k % 28 + 1:02d}.02.2024" for k in range(60)])
    with pytest.raises(ValueError, match=r"dates as 28\.02\.2024; line 13 holds '2024-02-28'"):
        made.numbers(pl.DataFrame({"a": ["01.02.2024", "2024-02-28"], "b": [1, 2]}), start=10)
    with pytest.raises(ValueError, match="must hold dates as"):
        made.numbers(pl.DataFrame({"a": [1, 2], "b": [1, 2]}))
    missing = made.numbers(pl.DataFrame({"a": [None, None], "b": [1, 2]}))
    assert np.isnan(missing[:, 1:]).all()


@pytest.mark.parametrize("texts", [["1.2.3", "4.5.6"], ["99:99"], ["2024"], ["30.02.2024"], []])
def test_what_is_no_date(texts):
    assert order_of(pl.Series(texts, dtype=pl.String)) is None


def zoned_forms(moments):
    """The same instants, as data frames write them."""
    utc = pl.Series(moments).dt.replace_time_zone("UTC")
    berlin = utc.dt.convert_time_zone("Europe/Berlin")
    return {
        "Z": utc.dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "+00:00": utc.dt.strftime("%Y-%m-%d %H:%M%:z"),
        "UTC": utc,
        "Berlin": berlin,
        "Berlin texts": berlin.dt.strftime("%Y-%m-%dT%H:%M:%S%:z"),
        "Berlin clock": berlin.dt.replace_time_zone(None),
    }


# Weeks in which the offset of Berlin changes.
FORMS = zoned_forms([datetime(2024, 3, 11) + timedelta(hours=7 * k) for k in range(90)])


def waves(made, form):
    return made.numbers(pl.DataFrame({"a": FORMS[form], "b": B[:1] * 90}))


@pytest.mark.parametrize(
    ("trained", "zone", "same"),
    [
        ("Z", "UTC", {"Z", "+00:00", "UTC", "Berlin", "Berlin texts"}),
        ("+00:00", "UTC", {"Z", "+00:00", "UTC", "Berlin", "Berlin texts"}),
        ("UTC", "UTC", {"Z", "+00:00", "UTC", "Berlin", "Berlin texts"}),
        ("Berlin", "Europe/Berlin", set(FORMS)),
        # Texts with other offsets have a clock, and no zone that UTC could be converted to.
        ("Berlin texts", "", {"Berlin", "Berlin texts", "Berlin clock"}),
        ("Berlin clock", "", {"Berlin", "Berlin texts", "Berlin clock"}),
    ],
)
def test_one_clock_counts_however_instants_are_written(trained, zone, same):
    made = learn_preparation(pl.DataFrame({"a": FORMS[trained], "b": [1.0, 2.0] * 45}))
    assert made.zones == {"a": zone}
    expected = waves(made, trained)
    found = {form for form in FORMS if np.allclose(waves(made, form), expected)}
    assert found == same
    own = {"UTC": FORMS["UTC"], "Europe/Berlin": FORMS["Berlin"]}.get(zone, FORMS["Berlin"])
    clock = 2 * np.pi * (own.dt.hour() + own.dt.minute() / 60).to_numpy() / 24
    np.testing.assert_allclose(expected[:, 1], np.sin(clock), atol=1e-9)


def test_preparations_of_former_files_read_zones_as_before():
    made = learn_preparation(pl.DataFrame({"a": FORMS["Berlin clock"], "b": [1.0, 2.0] * 45}))
    made.zones = None
    np.testing.assert_allclose(waves(made, "Berlin texts"), waves(made, "UTC"), atol=1e-9)
    np.testing.assert_allclose(waves(made, "Berlin"), waves(made, "Berlin clock"), atol=1e-9)


def test_a_fixed_offset_is_no_zone():
    texts = FORMS["Berlin texts"].head(30)  # all +01:00
    fixed = FORMS["UTC"].head(30).dt.convert_time_zone("Etc/GMT-1")
    for cells in (texts, fixed):
        made = learn_preparation(pl.DataFrame({"a": cells, "b": [1.0, 2.0] * 15}))
        assert made.zones == {"a": ""}
        np.testing.assert_allclose(
            waves(made, "Berlin"), waves(made, "Berlin texts"), atol=1e-9
        )  # in summer, too


# ----------------------------------------------------------------------------------- what users say


def test_every_kind_can_be_told():
    codes = [f"{k % 3}" for k in range(60)]
    assert learn(codes, kinds={"a": "category"}).feature_names == ["b", "a=0", "a=1", "a=2"]
    assert learn(list(range(60)), kinds={"a": "number"}).feature_names == ["a", "b"]
    for kind in ("id", "text", "drop"):
        made = learn(codes, kinds={"a": kind})
        assert made.dropped == {"a": "as asked"}
        assert made.kinds["a"] == ("dropped" if kind == "drop" else kind)
    assert learn(["-"] * 60, kinds={"a": "date"}).dropped == {"a": "it is empty"}
    made = learn(["12:30", "13:30"] * 30, kinds={"a": "category"})
    assert made.kinds["a"] == "category"


def test_as_numbers_texts_are_missing_then_and_later():
    made = learn([f"{k / 7:.2f}" for k in range(58)] + ["broken", "off"], kinds={"a": "number"})
    assert made.gaps == {"a": 2}
    found = made.numbers(pl.DataFrame({"a": ["1.5", "off", None], "b": [1, 2, 3]}))
    np.testing.assert_array_equal(found[:, 0], [1.5, np.nan, np.nan])


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        ({"a": "numbr"}, "can be taken as number, .*; got 'numbr'. Did you mean 'number'"),
        ({"x": "number"}, "There is no column 'x'"),
        ({"kind": "number"}, "'kind' cannot be taken as numbers: row 1 holds"),
        ({"kind": "date"}, "'kind' cannot be taken as dates: row 1 holds .* 2024-02-28"),
    ],
)
def test_what_cannot_be_is_refused(kinds, told):
    with pytest.raises(ValueError, match=told):
        FusedDetector(["gmm"]).fit(pumps(60).drop("state"), columns=kinds)
    with pytest.raises(ValueError, match=told):
        FusedDetector(["gmm"]).fit(from_csv(pumps(60).drop("state")), columns=kinds)


# ---------------------------------------------------------------------------------- words for gaps

NUMBERS = [f"{k * k % 61}.5" for k in range(57)]


@pytest.mark.parametrize(
    "word", ["n/a", "NA", "N/A", "-", "--", "?", "null", "None", "#N/A", ".", " "]
)
def test_words_for_no_value_are_gaps_among_numbers(word):
    made = learn([*NUMBERS, word, word, None])
    assert (made.kinds["a"], made.gaps) == ("number", {"a": 3})
    told = [note for note in made.notes if note.startswith("Taken as missing")]
    assert told == ([f"Taken as missing: '{word}' in 'a' (2 rows)."] if word.strip() else [])
    later = pl.DataFrame({"a": ["1.5", word], "b": [1.0, 2.0]})
    np.testing.assert_array_equal(made.numbers(later)[:, 0], [1.5, np.nan])
    assert made.wrong_cells(later) == {}


def test_words_for_gaps_of_all_columns_stand_in_one_note():
    days = [f"{k % 28 + 1:02d}.{k % 12 + 1:02d}.2024" for k in range(58)]
    frame = {"x": [*NUMBERS, "-", "-", "n/a"], "when": [*days, "n/a", "--"], "c": ["-", "u"] * 30}
    made = learn_preparation(pl.DataFrame({**frame, "comma": ["1,5", "-", "2,5"] * 20}))
    assert made.notes[0] == (
        "Taken as missing: '-' in 'x' (2 rows), 'n/a' in 'x' (1 row), 'n/a' in 'when' (1 row), "
        "'--' in 'when' (1 row), '-' in 'comma' (20 rows)."
    )
    assert made.categories == {"c": ["-", "u"]}  # a category may be called so
    assert made.commas == ("comma",)


def test_words_for_gaps_in_categories_are_those_of_pandas():
    made = learn(["red", "-", "N/A", "none"] * 15)
    assert made.categories == {"a": ["-", "none", "red"]}
    assert made.gaps == {"a": 15}
    new = pl.DataFrame({"a": ["red", "null", "blue"], "b": [1.0, np.nan, 2.0]})
    assert made.all_missing(new).to_list() == [False, True, False]
    assert made.unknown_texts(new)["a"].to_list() == [False, None, True]


def test_mistakes_of_all_columns_are_told_at_once():
    frame = pl.DataFrame({"a": [*NUMBERS, "off", "-", "off"], "b": [*NUMBERS, "1", "2", "broken"]})
    with pytest.raises(ValueError, match="Correct those cells") as told:
        learn_preparation(frame)
    assert str(told.value).startswith(
        "Column 'a' holds numbers, but for 2 of 59 rows: row 58 holds 'off'; column 'b' holds "
        "numbers, but for 1 of 60 rows: row 60 holds 'broken'. "
    )
    assert "columns={'a': 'number', 'b': 'number'}" in str(told.value)
    with pytest.raises(ValueError, match=r"line 59 holds 'off'; column 'b' .* line 61 holds"):
        learn_preparation(frame, start=0)


def test_gaps_are_counted_as_they_are_read():
    cells = ["1,234.5", "7", "8.5", "12 bar", "off"] * 12
    made = learn(cells, kinds={"a": "number"})
    found = made.numbers(pl.DataFrame({"a": cells, "b": B}))[:, 0]
    assert made.gaps == {"a": np.isnan(found).sum()}


# ----------------------------------------------------------------- dates and numbers that only grow


def test_calendars_need_several_days_and_weeks():
    def parts(hours, **options):
        return learn([DAY + timedelta(hours=hours * k) for k in range(60)], **options).parts

    assert parts(0.5) == {}
    assert parts(1) == {"a": ["time of day"]}
    assert parts(7) == {"a": ["time of day", "weekday"]}
    assert parts(0.5, kinds={"a": "date"}) == {"a": ["time of day", "weekday"]}
    made = learn([DAY + timedelta(hours=0.5 * k) for k in range(60)])
    assert made.dropped["a"].startswith("nothing recurs in its dates: a time of day must vary")


@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_that_only_grow_or_fall_are_left_out(sign):
    times = sign * np.cumsum(rng.exponential(size=60))
    times[[3, 30]] = np.nan
    made = learn(times)
    assert made.kinds["a"] == "id"
    assert made.dropped["a"].startswith(f"it {'grows' if sign > 0 else 'falls'} from row to row")
    assert learn(times, kinds={"a": "number"}).columns == ["a", "b"]
    assert learn(times[:19]).columns == ["a", "b"]  # too few rows to tell
    assert learn(np.where(np.arange(60) == 40, 0.0, times)).columns == ["a", "b"]
