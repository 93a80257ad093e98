"""Rows in time order from fit to alarm: what is said, noticed, promised, kept and refused."""

import datetime as dt
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.cases import cases
from lpfuse import FusedDetector, load
from lpfuse.ensemble.folds import BLOCKS, make_folds
from lpfuse.ensemble.rows import correlation_length, look_at_order
from lpfuse.threshold import conformal_pvalues
from lpfuse.time import AdaptiveLevel, Stream, Windows
from lpfuse.time.order import UNTOLD, read_times

POOL = ["gmm", "histogram"]
NOTICED = "no rate of false alarms is promised"


def waves(n, seed=0, d=2, memory=0.8):
    """Columns that remember the row before."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    for t in range(1, n):
        rows[t] += memory * rows[t - 1]
    return rows


def fitted(X=None, y=None, *, detectors=POOL, **how):
    options = {
        name: how.pop(name) for name in ("calibration", "cv", "contamination") if name in how
    }
    how = how or {"order": "time"}
    return FusedDetector(detectors, random_state=0, **options).fit(
        waves(300) if X is None else X, y, **how
    )


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture(scope="module")
def rows():
    found = waves(120, seed=1)
    found[80:100] += 6
    return found


# ------------------------------------------------------------------------------------------ times

NOON = dt.datetime(2024, 2, 28, 12)
SECONDS = NOON.replace(tzinfo=dt.UTC).timestamp()
MINUTES = [NOON + dt.timedelta(minutes=i) for i in range(3)]
EXPECTED = [SECONDS, SECONDS + 60, SECONDS + 120]


@cases(
    "time",
    [
        EXPECTED,
        MINUTES,
        [f"2024-02-28 12:0{i}" for i in range(3)],
        [f"2024-02-28T12:0{i}:00Z" for i in range(3)],
        [f"2024-02-28T14:0{i}:00+02:00" for i in range(3)],
        [f"28.02.2024 12:0{i}" for i in range(3)],
        np.array(MINUTES, dtype="datetime64[ns]"),
        pd.Series(MINUTES),
        pd.Series(MINUTES).dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin"),
        pd.DatetimeIndex(MINUTES),
        pl.Series(MINUTES),
        pl.Series(MINUTES).dt.cast_time_unit("ms"),
    ],
)
def test_times_are_read_as_seconds(time):
    assert read_times(time, 3).tolist() == EXPECTED


@cases(
    "time, words",
    [
        ([1.0, 2.0], "each of the 3 rows, got 2"),
        ([1.0, np.nan, 2.0], "missing in row 1"),
        ([1.0, 2.0, np.inf], "missing in row 2"),
        ([NOON, NOON, None], "missing in row 2"),
        (pd.Series([NOON, pd.NaT, NOON]), "missing in row 1"),
        (["now", "then", "later"], "'now', which is no time"),
        ([dt.timedelta(1)] * 3, "which is no time"),
        ([dt.time(1)] * 3, "which is no time"),
        ([[1.0], [2.0], [3.0]], "one dimension"),
    ],
)
def test_what_is_no_time_is_refused(time, words):
    with pytest.raises(ValueError, match=words):
        read_times(time, 3)


# ---------------------------------------------------------------------------------------- noticed


def test_rows_in_an_untold_order_are_noticed_and_promised_nothing(tmp_path):
    with pytest.warns(UserWarning, match=NOTICED) as told:
        found = FusedDetector(POOL, random_state=0).fit(waves(300))
    assert 'order="random"' in str(told[0].message)
    assert not found.calibration_promise_
    assert "resemble each other" in found.calibration_promise_.sentence()
    assert found.order_.spacing > 3
    assert found.windows_ is None
    found.save(tmp_path / "model.lpfuse")
    again = load(tmp_path / "model.lpfuse")
    assert again.order_ == found.order_
    assert again.calibration_promise_ == found.calibration_promise_
    found.teach(waves(300)[:3], [1, 1, -1])  # knowledge of the order stays
    assert not found.calibration_promise_


def test_a_slow_trend_is_noticed():
    X = np.random.default_rng(0).normal(size=(300, 2)) + np.linspace(0, 4, 300)[:, None]
    with pytest.warns(UserWarning, match=NOTICED):
        FusedDetector(POOL, random_state=0).fit(X)


def test_known_anomalies_below_the_others_are_no_order(recwarn):
    normal, far = np.split(np.random.default_rng(0).normal(size=(240, 2)), [200])
    y = np.repeat([1, -1], [200, 40])
    found = FusedDetector(POOL, random_state=0).fit(np.r_[normal, far + 4], y)
    assert found.order_ == UNTOLD
    assert not recwarn.list
    with pytest.warns(UserWarning, match=NOTICED):
        FusedDetector(POOL, random_state=0).fit(np.r_[waves(200), far + 4], y)


def test_shuffled_rows_are_as_before(recwarn):
    X = np.random.default_rng(0).permutation(waves(300))
    found = [FusedDetector(POOL, random_state=0).fit(X, order=order) for order in (None, "random")]
    assert not recwarn.list
    assert all(each.calibration_promise_ for each in found)
    np.testing.assert_array_equal(*(each.score_samples(X[:50]) for each in found))
    silent = FusedDetector(POOL, random_state=0).fit(waves(300), order="random")
    assert silent.calibration_promise_
    assert not recwarn.list


def test_independent_rows_raise_no_warning():
    for seed in range(100):
        X = np.random.default_rng(seed).standard_t(3, size=(200, 5))
        assert look_at_order(None, X, None) == UNTOLD, seed
    assert look_at_order(None, waves(200), None) != UNTOLD


def test_the_correlation_length_is_that_of_a_wave():
    found = correlation_length(waves(100_000, d=1, memory=0.8)[:, 0])
    assert found == pytest.approx((1 + 0.8) / (1 - 0.8), rel=0.15)  # of autoregressive rows
    assert correlation_length(np.random.default_rng(0).normal(size=10_000)) < 1.2
    assert correlation_length(np.ones(9)) == 1.0
    assert correlation_length(np.full(9, np.nan)) == 1.0


# ------------------------------------------------------------------------------------------- said


def test_a_fit_is_one_of_windows_and_a_rehearsal(model):
    assert model.windows_.features == Windows().features
    assert model.n_features_in_ == 2
    promise = model.calibration_promise_
    assert promise
    assert promise.burst == 100
    assert "5 % and 101 more" in promise.sentence()
    assert promise.n == 300 - 100 - 11  # after the first third and a window
    assert model.result_.calibration.by == "forward"


def test_folds_are_blocks():
    folds = make_folds(5, np.ones(200), None, None, np.random.RandomState(0), in_time=True)
    runs = 1 + np.count_nonzero(np.diff(folds.of_row))
    assert runs == 5 * BLOCKS
    assert np.bincount(folds.of_row).tolist() == [40] * 5
    apart = make_folds(5, np.ones(200), None, None, np.random.RandomState(0))
    assert 1 + np.count_nonzero(np.diff(apart.of_row)) > 100


def rehearsed(model):
    """Calibration scores, in the order of their rows."""
    return model.held_out_.fused[model.held_out_.is_calibrating]


def test_the_rehearsal_sees_only_what_came_before(model):
    """Changed rows after the first third move no calibration score but their own and later ones."""
    X, calibrating = waves(300), rehearsed(model)
    assert len(calibrating) == 300 - 100 - 11
    other = X.copy()
    other[250:] = np.random.default_rng(1).permutation(other[250:])
    found = rehearsed(fitted(other))
    before = slice(0, 250 - 111)
    np.testing.assert_allclose(found[before], calibrating[before], rtol=1e-9)
    assert not np.allclose(found[250 - 111 :], calibrating[250 - 111 :])


@cases(
    "how, words",
    [
        ({"time": np.arange(299)}, "each of the 300 rows, got 299"),
        ({"time": np.arange(300)[::-1]}, "time goes back in row 1"),
        ({"time": "when"}, "names no column"),
        ({"order": "sorted"}, "order"),
        ({"order": "time", "groups": np.arange(300)}, "groups, not both"),
        ({"order": "time", "kind": "clusters"}, "kind, not both"),
        ({"time": np.arange(300), "chances": np.ones(300)}, "chances, not both"),
    ],
)
def test_what_does_not_go_together_is_refused(how, words):
    with pytest.raises(ValueError, match=words):
        fitted(**how)


def test_rows_of_dask_are_refused():
    da = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match="compute"):
        fitted(da.from_array(waves(300)))


def test_time_is_for_models_that_were_fitted_with_it():
    X = np.random.default_rng(0).normal(size=(100, 2))
    found = FusedDetector(POOL, random_state=0).fit(X)
    for call in (found.pvalues, found.predict, found.score_samples, found.verdicts):
        with pytest.raises(ValueError, match="fitted without time"):
            call(X[:3], time=[1, 2, 3])
    with pytest.raises(ValueError, match="fitted without time"):
        found.follow()


def test_a_promise_without_a_rehearsal_is_withheld():
    assert not fitted(calibration="plain").calibration_promise_
    few = fitted(waves(20))
    assert not few.calibration_promise_
    assert "no rehearsal" in few.calibration_promise_.sentence()
    with pytest.warns(UserWarning, match="9 normal rows cannot hold"):
        few = fitted(waves(30))
    assert not few.calibration_promise_
    assert "too few rows" in few.calibration_promise_.sentence()


@pytest.mark.filterwarnings("ignore:9 normal rows cannot hold")
@cases("n", [30, 60, 200])
def test_few_rows_are_enough_to_go_on(n):
    found = fitted(waves(n), detectors=["gmm"])
    p = found.pvalues(waves(500, seed=n))
    assert np.isfinite(p).all()
    assert (p <= 0.05).mean() <= 0.05 + 101 / 500


@pytest.mark.filterwarnings("ignore:.*numbers only grow")
@cases(
    "change",
    [
        lambda X: np.round(X),  # ties
        lambda X: np.column_stack([X, np.ones(len(X))]),  # a constant column
        lambda X: np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X),
        lambda X: np.column_stack([X, np.arange(len(X))]),
        lambda X: X.astype(np.float32),
        lambda X: np.repeat(X[::5], 5, axis=0),  # rows that recur
    ],
)
def test_odd_columns(change):
    X = change(waves(700))
    found = fitted(X[:300], detectors=None)
    p = found.pvalues(X[300:])
    assert np.isfinite(p).all()
    assert (p <= 0.05).sum() <= 0.05 * 400 + 101


def test_a_row_without_values_has_a_verdict(model):
    X = waves(30, seed=2)
    X[10] = np.nan
    p = model.pvalues(X)
    assert np.isfinite(np.delete(p, 10)).all()


# ---------------------------------------------------------------------------------------- verdicts


def test_levels_are_the_two_questions(model, rows):
    fixed, adaptive = model.pvalues(rows, level="fixed"), model.pvalues(rows)
    scores = model.score_samples(rows)
    calibration = rehearsed(model)
    np.testing.assert_array_equal(fixed, conformal_pvalues(calibration, scores))
    level = AdaptiveLevel(calibration, 0.05)
    np.testing.assert_array_equal(adaptive, level.update(scores))
    assert not np.array_equal(fixed, adaptive)
    with pytest.raises(ValueError, match="level"):
        model.pvalues(rows, level="both")


def test_decisions_are_pvalues_of_at_most_the_rate(model, rows):
    p = model.pvalues(rows)
    expected = np.where(p <= 0.05, -1, 1)
    np.testing.assert_array_equal(model.predict(rows), expected)
    np.testing.assert_array_equal(model.decision_function(rows) < 0, p <= 0.05)
    assert expected.min() == -1
    assert model.score(rows, np.repeat([1, -1, 1], [80, 20, 20])) > 0.9
    found = model.verdicts(rows)
    np.testing.assert_array_equal(found.pvalues, p)
    np.testing.assert_array_equal(found.scores, model.score_samples(rows))


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.integers(0, 1000))
def test_a_stream_in_batches_and_after_restarts_is_one_call(model, sizes, seed):
    X = waves(sum(sizes), seed)
    X[len(X) // 2 :] += 3
    parts, state = [], Stream(model).state()
    for part in np.split(X, np.cumsum(sizes)[:-1]):
        stream = model.follow().restore(json.loads(json.dumps(state)))
        parts.append(stream.judge(part))
        state = stream.state()
    scores, p = (
        np.concatenate([getattr(v, name) for v in parts]) for name in ("scores", "pvalues")
    )
    np.testing.assert_allclose(scores, model.score_samples(X), rtol=1e-10)
    np.testing.assert_allclose(p, model.pvalues(X), rtol=1e-8)


def test_training_rows_do_not_move_the_level(model, rows):
    both = model.pvalues(np.concatenate([waves(300), rows]))
    np.testing.assert_allclose(both[320:], model.pvalues(rows)[20:], rtol=0.3)
    assert (both[:300] <= 0.05).mean() < 0.1


def test_rows_like_the_training_rows_are_judged_by_the_level():
    """A machine with few states repeats its windows: such rows are new all the same."""
    states = np.random.default_rng(0).choice(4, size=60, p=[0.4, 0.3, 0.27, 0.03])
    X = np.repeat(states, 20)[:, None] * 1.0
    found, later = fitted(X[:400]), X[400:]
    p = found.pvalues(later)
    np.testing.assert_array_equal(p, found.follow().judge(later).pvalues)
    fixed = found.pvalues(later, level="fixed")
    assert np.sum(p <= 0.05) <= 0.05 * len(p) + 101 < np.sum(fixed <= 0.05)


def test_features_in_batches_are_one_call_to_the_bit(model, rows):
    stream = model.follow()
    parts = [stream.features(part) for part in np.split(rows, [1, 20, 33])]
    np.testing.assert_array_equal(np.concatenate(parts), model.follow().features(rows))
    scores = model.score_samples(model.follow().features(rows))  # with their windows
    np.testing.assert_array_equal(scores, model.score_samples(rows))


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 119), st.integers(0, 1000))
def test_nothing_looks_ahead(model, now, seed):
    X = waves(120, seed)
    other = X.copy()
    other[now:] = 5 + np.random.default_rng(seed).permutation(X[now:])
    found, moved = model.verdicts(X), model.verdicts(other)
    np.testing.assert_array_equal(found.scores[:now], moved.scores[:now])
    np.testing.assert_array_equal(found.pvalues[:now], moved.pvalues[:now])
    assert not np.array_equal(found.scores[now:], moved.scores[now:])


def test_a_gap_in_time_begins_a_series(rows):
    found = fitted(time=60.0 * np.arange(300))
    near, far = 60.0 * (300 + np.arange(120)), 60.0 * (3000 + np.arange(120))
    np.testing.assert_array_equal(found.score_samples(rows, near), found.score_samples(rows))
    scores, apart = found.score_samples(rows), found.score_samples(rows, far)
    assert scores[0] != apart[0]
    np.testing.assert_array_equal(scores[11:], apart[11:])


def test_a_saved_model_goes_on(model, rows, tmp_path):
    stream = model.follow()
    stream.judge(rows[:50])
    model.save(tmp_path / "model.lpfuse")
    state = json.loads(json.dumps(stream.state()))
    again = load(tmp_path / "model.lpfuse")
    other = again.follow().restore(state)
    np.testing.assert_array_equal(other.judge(rows[50:]).pvalues, stream.judge(rows[50:]).pvalues)
    assert again.calibration_promise_ == model.calibration_promise_
    assert again.order_ == model.order_
    assert other.state() == stream.state()


# ------------------------------------------------------------------------------------------ frames


def frames_of(X, clock):
    texts = {
        "german": [when.strftime("%d.%m.%Y %H:%M") for when in clock],
        "iso": [when.isoformat() for when in clock],
        "datetime": clock,
        "seconds": [when.timestamp() for when in clock],
    }
    columns = {"bar": X[:, 0], "flow": X[:, 1]}
    for time in texts.values():
        yield pd.DataFrame({"when": time, **columns})
        yield pl.DataFrame({"bar": X[:, 0], "when": time, "flow": X[:, 1]})


def test_a_column_of_times_in_every_form(model, rows):
    clock = [NOON + dt.timedelta(minutes=i) for i in range(420)]
    past, later = frames_of(waves(300), clock[:300]), frames_of(rows, clock[300:])
    expected = model.pvalues(rows)
    for frame, new in zip(past, later, strict=True):
        found = fitted(frame, time="when")
        assert found.n_features_in_ == 2
        assert list(found.feature_names_in_) == ["bar", "flow"]
        np.testing.assert_allclose(found.pvalues(new), expected, rtol=1e-9)
        without = new.drop(columns="when") if isinstance(new, pd.DataFrame) else new.drop("when")
        np.testing.assert_allclose(found.pvalues(without), expected, rtol=1e-9)


def test_a_column_of_times_with_gaps_is_refused():
    frame = pd.DataFrame({"when": ["28.02.2024 12:00", None, "28.02.2024 12:02"] * 20})
    with pytest.raises(ValueError, match="missing in row 1"):
        fitted(frame.assign(bar=waves(60)[:, 0]), time="when")


def test_words_of_a_frame_become_windows(tmp_path):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"bar": waves(300)[:, 0], "kind": rng.choice(["a", "b"], 300)})
    found = fitted(frame)
    p = found.pvalues(frame[:50])
    assert np.isfinite(p).all()
    found.save(tmp_path / "model.lpfuse")
    np.testing.assert_array_equal(load(tmp_path / "model.lpfuse").pvalues(frame[:50]), p)


# ------------------------------------------------------------------ explaining, teaching, moving on


def test_explanations_sum_to_the_score_and_name_the_columns(rows):
    frame = pl.DataFrame(waves(300), schema=["bar", "flow"])
    found, new = fitted(frame), rows.copy()
    new[:, 1] = waves(120, seed=1)[:, 1]  # only bar is strange
    told = found.explain(pl.DataFrame(new[:90], schema=["bar", "flow"]))
    scores = found.score_samples(pl.DataFrame(new[:90], schema=["bar", "flow"]))
    np.testing.assert_allclose(told.values.sum(axis=1) + told.base_value, scores, rtol=1e-6)
    assert list(told.feature_names) == ["bar", "flow"]
    assert told.reasons(85)[0] == "bar"
    assert fitted().explain(new[:86]).reasons(85)[0] == "column 0"
    stream = found.follow()
    features = stream.features(pl.DataFrame(new[:90], schema=["bar", "flow"]))
    np.testing.assert_allclose(found.explain(features).values, told.values, rtol=1e-6)


def test_answers_about_rows_of_a_stream_teach(rows):
    model = fitted()
    stream = model.follow()
    features = stream.features(rows)
    before = model.score_samples(features)
    model.teach(features[78:100], np.repeat([1, -1], [2, 20]), chances=np.full(22, 0.5))
    assert model.order_.order == "time"
    assert model.windows_ is not None
    assert model.audit_answers().n_answers == 22
    after = model.score_samples(features)
    assert not np.array_equal(before, after)
    assert after[80:100].mean() - after[:80].mean() < before[80:100].mean() - before[:80].mean()
    assert np.isfinite(model.follow().judge(rows).pvalues).all()


def with_episodes(X, starts, height=5):
    y = np.ones(len(X))
    for start in starts:
        X[start : start + 4, 0] += height
        y[start : start + 4] = -1
    return X, y


def test_experts_learn_from_answers_in_time_order():
    model = fitted(detectors=None)
    X, y = with_episodes(waves(400, seed=6), range(10, 400, 30))
    features = model.follow().features(X)
    model.teach(features, y)
    assert len(model.detector_names_) > 6
    np.testing.assert_array_equal(model.rows_.values[300:], features)  # in their order
    new, truth = with_episodes(waves(200, seed=7), range(20, 200, 40))
    assert model.score(new, truth) > 0.9
    assert np.isfinite(model.pvalues(new)).all()


def test_known_anomalies_teach_in_time_order():
    X, y = with_episodes(waves(400), range(10, 400, 30))  # in all folds
    found = fitted(X, y, detectors=None)
    new = waves(200, seed=5)
    new[150:] += 6
    assert found.score(new, np.repeat([1, -1], [150, 50])) > 0.9
    assert len(found.detector_names_) > 6  # experts, too
    assert found.calibration_promise_


def test_a_new_threshold_keeps_order_and_windows(model, rows):
    found = fitted().recalibrate(waves(300, seed=9))
    assert found.windows_ is not None
    assert np.isfinite(found.pvalues(rows)).all()
    other = model.with_fusion(None)
    assert other.order_ == model.order_
    np.testing.assert_allclose(other.pvalues(rows), model.pvalues(rows))


def test_questions_are_asked_of_rows_in_time_order(model, rows):
    positions = model.query(rows, 5)
    assert len(set(positions)) == 5


def test_a_share_of_anomalies_is_the_rate(rows):
    found = fitted(contamination=0.1)
    np.testing.assert_array_equal(found.predict(rows) < 0, found.pvalues(rows) <= 0.1)
