"""Windows: every feature against loops, in batches, over gaps and series, and never ahead."""

from math import inf, isnan, log, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from helpers.cases import cases
from lpfuse.io import load, save
from lpfuse.time import Windows
from lpfuse.time.windows import FEATURES, SMALLEST, History

ALL = tuple(FEATURES)
SEASON = 7


def mean_of(values):
    there = [value for value in values if not isnan(value)]
    return sum(there) / len(there) if there else nan


def deviation_of(values):
    there = [value for value in values if not isnan(value)]
    if len(there) < 2:
        return nan
    middle = mean_of(there)
    return (sum((value - middle) ** 2 for value in there) / (len(there) - 1)) ** 0.5


def slope_of(values):
    there = [(i, value) for i, value in enumerate(values) if not isnan(value)]
    if len(there) < 2:
        return 0.0
    at, height = mean_of([i for i, _ in there]), mean_of([value for _, value in there])
    below = sum((i - at) ** 2 for i, _ in there)
    return sum((i - at) * (value - height) for i, value in there) / below


def series_of(times, length, step):
    """The number of the series of each row."""
    number, found = 0, []
    for row, time in enumerate(times):
        since = 0.0 if row == 0 else time - times[row - 1]
        number += since < 0 or since > length * step
        found.append(number)
    return found


def naive_features(column, times, length, season, step, usual, level):
    """Every feature of one column, row by row, as its docstring has it."""
    number = series_of(times, length, step)
    rows = []
    for t, value in enumerate(column):
        back = [u for u in range(t + 1) if number[u] == number[t]]
        window = [column[u] for u in back if u > t - length]
        before = [column[u] for u in back if t - length - 1 < u < t]
        last = column[t - 1] if t - 1 in back else nan
        seasonal = column[t - season] if t - season in back else nan
        changes = [value - last, value - mean_of(before), value - seasonal]
        spread = deviation_of(window)
        relative = spread if isnan(spread) else log(max(spread / usual, SMALLEST))
        full = min(len(back), length) / length
        changes = [full * each for each in [*changes, relative, slope_of(window)]]
        changes = [0.0 if isnan(each) and not isnan(value) else each for each in changes]
        found = {
            "value": value, "lag": last, "mean": full * mean_of(window) + (1 - full) * level,
            "difference": changes[0], "residual": changes[1], "seasonal residual": changes[2],
            "spread": changes[3], "slope": changes[4],
        }  # fmt: skip
        rows.append([found[name] for name in ALL])
    return np.array(rows)


def usual_spread(column, times, length, step):
    number = series_of(times, length, step)
    found = []
    for t in range(len(column)):
        window = [column[u] for u in range(t + 1) if number[u] == number[t] and u > t - length]
        found.append(deviation_of(window))
    there = [each for each in found if not isnan(each)]
    middle = float(np.median(there)) if there else 0.0
    return middle if middle > 0 else 1.0


def as_naive(windows, past, past_times, rows, times):
    """Features of rows that follow others, by loops over both."""
    both, every = np.concatenate([past, rows]), [*past_times, *times]
    columns = []
    for j in range(past.shape[1]):
        usual = usual_spread(past[:, j].tolist(), list(past_times), windows.length, windows.step_)
        columns.append(
            naive_features(
                both[:, j].tolist(),
                every,
                windows.length,
                windows.season,
                windows.step_,
                usual,
                windows.usual_level_[j],
            )
        )
    return np.stack(columns, axis=2).reshape(len(both), -1)[len(past) :]


def drawn(rng, n, d=2, gaps=0.15):
    rows = np.cumsum(rng.normal(size=(n, d)), axis=0)
    rows[rng.random(rows.shape) < gaps] = nan
    return rows


def drawn_times(rng, n, start=0.0):
    """Even steps but for some short and some long gaps."""
    steps = np.ones(n)
    steps[rng.random(n) < 0.1] = 3.0
    steps[rng.random(n) < 0.05] = 40.0
    return start + np.cumsum(steps)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6), st.sampled_from([0.0, 0.2, 0.9]))
def test_features_are_those_of_loops(seed, length, gaps):
    rng = np.random.default_rng(seed)
    past, rows = drawn(rng, 40, gaps=gaps), drawn(rng, 30, gaps=gaps)
    past_times = drawn_times(rng, 40)
    times = drawn_times(rng, 30, past_times[-1])
    windows = Windows(length, ALL, SEASON).fit(past, time=past_times)
    found = windows.transform(rows, times)
    expected = as_naive(windows, past, past_times, rows, times)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_a_wrong_window_would_be_noticed():
    """The comparison above is no comparison of a thing with itself."""
    rng = np.random.default_rng(0)
    past, rows = drawn(rng, 40), drawn(rng, 30)
    windows = Windows(5, ALL, SEASON).fit(past)
    expected = as_naive(windows, past, range(40), rows, range(40, 70))
    np.testing.assert_allclose(windows.transform(rows), expected, rtol=1e-9, atol=1e-9)
    other = Windows(6, ALL, SEASON).fit(past).transform(rows)
    for k, name in enumerate(ALL):
        same = np.allclose(other[:, 2 * k : 2 * k + 2], expected[:, 2 * k : 2 * k + 2], equal_nan=1)
        assert same == (name in ("value", "lag", "difference", "seasonal residual")), name


def test_training_rows_before_the_first_full_window_have_its_features():
    rng = np.random.default_rng(1)
    past, times = drawn(rng, 40, gaps=0.0), np.arange(40.0)
    windows = Windows(5, ALL, SEASON)
    found = windows.fit_transform(past, time=times)
    expected = as_naive(windows, past[:0], times[:0], past, times)
    usual = [usual_spread(past[:, j].tolist(), times.tolist(), 5, 1.0) for j in range(2)]
    at = 2 * ALL.index("spread")
    expected[:, at : at + 2] += 0 - np.log(usual)  # without past rows they are 1
    np.testing.assert_allclose(found[4:], expected[4:], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(found[:4, :2], past[:4])  # values are their own
    np.testing.assert_array_equal(found[:4, 2:], np.tile(found[4, 2:], (4, 1)))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_batches_are_one_call_to_the_bit(seed, sizes):
    rng = np.random.default_rng(seed)
    past, n = drawn(rng, 30), sum(sizes)
    rows, past_times = drawn(rng, n), drawn_times(rng, 30)
    times = drawn_times(rng, n, past_times[-1])
    windows = Windows(4, ALL, SEASON).fit(past, time=past_times)
    history, parts, start = windows.history_, [], 0
    for size in sizes:
        part = slice(start, start + size)
        found, history = windows.follow(rows[part], times[part], history)
        parts.append(found)
        start += size
    np.testing.assert_array_equal(np.concatenate(parts), windows.transform(rows, times))
    assert len(history.rows) <= SEASON


@given(st.integers(0, 10_000), st.integers(1, 29))
def test_later_rows_change_nothing(seed, now):
    rng = np.random.default_rng(seed)
    windows = Windows(4, ALL, SEASON).fit(drawn(rng, 30))
    rows = drawn(rng, 30)
    other = rows.copy()
    other[now:] = 100 * rng.permutation(rows[now:])
    found, moved = windows.transform(rows), windows.transform(other)
    np.testing.assert_array_equal(found[:now], moved[:now])
    assert not np.array_equal(found[now:], moved[now:], equal_nan=True)  # these may


def test_a_series_begins_after_a_long_gap_or_where_time_goes_back():
    windows = Windows(3, ("value", "mean")).fit([[1.0], [2.0], [3.0]], time=[0, 10, 20])
    later = [[9.0], [9.0], [30.0]]
    assert windows.transform(later, [30, 40, 50])[0].tolist() == [9.0, 14 / 3]
    assert windows.transform(later, [50, 60, 70])[0, 1] == 14 / 3  # three steps: the length
    alone = (9.0 + 2 * 2.0) / 3  # what is not there counts as usual: the median of 1, 2 and 3
    assert windows.transform(later, [51, 60, 70])[0, 1] == pytest.approx(alone)
    assert windows.transform(later, [0, 10, 20])[0, 1] == pytest.approx(alone)
    expected = [14 / 3, alone, (2 * 19.5 + 2.0) / 3]
    assert windows.transform(later, [30, 0, 10])[:, 1].tolist() == pytest.approx(expected)


def test_rows_without_time_follow_at_the_usual_step():
    rows = np.arange(12.0)[:, None]
    windows = Windows(3).fit(rows, time=10 * np.arange(12.0))
    np.testing.assert_array_equal(
        windows.transform(rows), windows.transform(rows, 120 + 10 * np.arange(12.0))
    )
    assert windows.seconds_of(None, 2).tolist() == [120, 130]
    assert Windows(3).fit(rows, time=np.zeros(12)).step_ == 1.0  # all at once


def test_a_column_that_never_moves_is_usual_until_it_does():
    windows = Windows(3, ("spread",)).fit(np.ones((20, 1)))
    assert windows.transform([[1.0]]).item() == pytest.approx(log(SMALLEST))
    assert windows.transform([[5.0]]).item() > 0


def test_a_row_without_values_has_the_features_of_its_window():
    windows = Windows(3, ALL, 3).fit(np.arange(9.0)[:, None])
    found = dict(zip(ALL, windows.transform([[nan]])[0], strict=True))
    assert found["mean"] == 7.5
    assert found["lag"] == 8.0
    assert found["slope"] == 1.0
    assert isnan(found["value"])
    assert isnan(found["difference"])


@cases(
    "options, words",
    [
        ({"length": 1}, "at least 2"),
        ({"length": 2.5}, "length"),
        ({"features": ("values",)}, "some of"),
        ({"features": ()}, "some of"),
        ({"features": ("seasonal residual",)}, "season"),
    ],
)
def test_other_options_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        Windows(**options).fit(np.ones((20, 1)))


@cases("time, words", [([0, 1], "each of the 3 rows, got 2"), ([0, nan, 1], "missing in row 1")])
def test_other_times_are_refused(time, words):
    for call in (Windows(2).fit, Windows(2).fit_transform):
        with pytest.raises(ValueError, match=words):
            call(np.ones((3, 1)), time=time)
    with pytest.raises(ValueError, match=words):
        Windows(2).fit(np.ones((9, 1))).transform(np.ones((3, 1)), time)


def test_rows_come_after_a_fit():
    with pytest.raises(NotFittedError):
        Windows().transform([[1.0]])
    with pytest.raises(ValueError, match="features"):
        Windows(2).fit(np.ones((9, 1))).transform(np.ones((3, 2)))


def test_names_say_what_was_done():
    windows = Windows(5, ("value", "spread")).fit(np.ones((9, 2)))
    assert windows.get_feature_names_out(["bar", "flow"]).tolist() == [
        "bar", "flow", "bar (spread of 5 rows)", "flow (spread of 5 rows)",
    ]  # fmt: skip
    assert windows.get_feature_names_out()[0] == "x0"


def test_a_saved_one_goes_on(tmp_path):
    rng = np.random.default_rng(2)
    windows = Windows(4, ALL, SEASON).fit(drawn(rng, 30), time=drawn_times(rng, 30))
    save(windows, tmp_path / "windows.lpfuse")
    again, rows = load(tmp_path / "windows.lpfuse"), drawn(rng, 9)
    np.testing.assert_array_equal(again.transform(rows), windows.transform(rows))
    assert isinstance(again.history_, History)
    assert History(rows, -inf).time == -inf


@parametrize_with_checks(
    [Windows(2)],
    expected_failed_checks=lambda _: dict.fromkeys(
        (
            "check_methods_subset_invariance", "check_methods_sample_order_invariance",
            "check_transformer_general", "check_transformer_data_not_an_array",
        ),
        "a row depends on those before it",
    ),
)  # fmt: skip
def test_estimators_of_scikit_learn(estimator, check):
    check(estimator)
