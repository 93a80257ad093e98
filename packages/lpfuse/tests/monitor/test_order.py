"""DriftMonitor on rows in time order: what is monitored, by which rows, and what is left out."""

import numpy as np
import pytest
from scipy.signal import lfilter

import lpfuse
from lpfuse import FusedDetector
from lpfuse.ensemble.rows import correlation_length
from lpfuse.monitor import (
    FEWEST,
    SPACING,
    SURELY,
    DriftMonitor,
    DriftStatus,
    SpacedStreams,
    WatchedStreams,
    block_sizes,
)


def autocorrelated(rng, n, d, by=0.9):
    noise = rng.normal(size=(n + 200, d)) * np.sqrt(1 - by**2)
    return lfilter([1], [1, -by], noise, axis=0)[200:]


def declared(streams, X, level=0.1):
    rows = block_sizes(len(X))
    return streams.update(streams.count(X, 0, rows), rows, level, 0)


def fed(monitor, fused, X, size=100, stream=None):
    stream = fused.follow() if stream is None and fused.windows_ is not None else stream
    for start in range(0, len(X), size):
        batch = X[start : start + size]
        status = monitor.update(batch, fused.verdicts(batch, stream=stream))
    return status


@pytest.fixture(scope="module")
def rows():
    """Autocorrelated rows, with a column that grows."""
    X = autocorrelated(np.random.default_rng(1), 2400, 3, by=0.5)
    return np.column_stack([X, np.arange(2400) / 200 + X[:, 0]])


@pytest.fixture(scope="module")
def in_time(rows):
    names = ["bar", "flow", "heat", "wear"]
    fused = FusedDetector(["gmm", "histogram"], random_state=0).fit(rows[:1200], order="time")
    return fused, names


def test_autocorrelated_rows_are_no_drift_and_would_be_without_spacing(rng):
    names, level = [f"column:{j}" for j in range(40)], 0.1
    reference, X = autocorrelated(rng, 1500, 40), autocorrelated(rng, 4000, 40)
    spaced = SpacedStreams.of(reference, names, 0, level)
    assert len(spaced.parts) > 25
    assert len(declared(spaced, X, level)) <= 1  # all of them share the level
    every_row = WatchedStreams.columns(reference, names, 0)
    assert len(declared(every_row, X, level)) > 30


def test_shift_of_autocorrelated_rows_is_found_and_dated(rng):
    names = [f"column:{j}" for j in range(20)]
    reference, X = autocorrelated(rng, 3000, 20), autocorrelated(rng, 12_000, 20)
    X[6000:, ::2] += 1
    spaced = SpacedStreams.of(reference, names, 0, 0.01)
    found = {each.stream: each for each in declared(spaced, X, 0.01)}
    shifted = {names[j] for j in range(0, 20, 2)}
    assert len(found.keys() & shifted) >= 8
    assert not found.keys() - shifted
    assert all(5000 < each.since < each.declared for each in found.values())


def test_spaced_counts_are_those_of_every_so_manieth_row(rng):
    reference, X = autocorrelated(rng, 1000, 2, by=0.5), rng.normal(size=(500, 2))
    spaced = SpacedStreams.of(reference, ["column:a", "column:b"], 3, 0.01)
    assert spaced.places == [0, 1]
    for j, part in enumerate(spaced.parts):
        assert part.every == max(
            SPACING, int(np.ceil(SURELY * correlation_length(reference[:, j])))
        )
        alone = WatchedStreams.columns(reference[:: part.every, [j]], ["x"], 3 + j)
        places = [alone.bins.places(X[[i], j : j + 1], i) for i in range(0, 500, part.every)]
        expected = np.bincount(np.concatenate(places).ravel(), minlength=len(alone.bins.gaps))
        for size in (1, 7, 500):  # whatever the batches
            parts = [
                spaced.count(X[a : a + size], a, block_sizes(len(X[a : a + size])))
                for a in range(0, 500, size)
            ]
            counted = np.concatenate(parts)[:, j].sum(axis=0)[: len(expected)]
            np.testing.assert_array_equal(counted, expected)


def test_streams_that_change_by_themselves_are_left_out_with_a_reason(in_time, rows):
    fused, names = in_time
    monitor = DriftMonitor().fit(fused, column_names=names)
    status = monitor.status_
    assert {"column:bar", "column:flow", "column:heat"} <= status.evidence.keys()
    assert "column:wear" in status.left_out
    needed = status.left_out["column:wear"]
    assert needed > 1200
    assert f"'wear' (it takes about {needed:,} reference rows)" in status.sentence()
    assert not any(name.startswith("detector:") for name in status.evidence)


def test_streams_that_change_within_their_reference_are_left_out(rng):
    X = rng.normal(size=(1200, 3))
    X[600:, 1] *= 4
    names = [f"column:{j}" for j in range(3)]
    spaced = SpacedStreams.of(X, names, 0, 0.01)
    assert (spaced.places, spaced.left_out) == ([0, 2], {"column:1": 0})
    shares = {part.bets[0].share for part in spaced.parts}
    assert shares == {0.25}  # of the level, half of which is that of all columns
    assert SpacedStreams.of(X[:, :1], names, 0, 0.01, X[:, 0] + 1).left_out == {"column:0": 0}


def test_sentence_says_what_is_not_monitored():
    left_out = {"column:heat": 0, "fused score": 740}
    sentence = DriftStatus(60, 0.01, [], {}, {}, {}, left_out=left_out).sentence()
    assert sentence == (
        "60 rows, nothing is monitored. Not monitored: 'heat' (it changes by itself in the "
        "reference) and 'fused score' (it takes about 740 reference rows)."
    )


def test_no_drift_in_the_training_rows_and_a_shift_after_them_is_found(in_time, rows):
    fused, names = in_time
    for size in (50, 1200):
        monitor = DriftMonitor().fit(fused, column_names=names)
        assert not fed(monitor, fused, rows[:1200], size).alarm
    later = rows[1200:].copy()
    later[400:, 1] += 2
    status = fed(DriftMonitor().fit(fused, column_names=names), fused, later)
    drift = status.drifts[0]
    assert (drift.stream, drift.what) == ("column:flow", "higher")
    assert 200 < drift.since < drift.declared
    assert drift.declared > 400


def test_rows_that_look_dependent_are_spaced_without_a_word_about_time(rows):
    with pytest.warns(UserWarning, match="resemble"):
        fused = FusedDetector(["gmm", "histogram"], random_state=0).fit(rows[:600])
    assert fused.order_.spacing > 1
    monitor = DriftMonitor().fit(fused)
    assert all(part.every >= SPACING for part in monitor.columns_.parts)
    assert monitor.status_.waiting_for == 300  # rows of the stream become that of the score
    assert fed(monitor, fused, rows[600:1000, :]).waiting_for == 0
    assert "fused score" in monitor.status_.left_out or monitor.scores_.parts[0].every >= SPACING


def test_saved_monitor_of_rows_in_order_continues(in_time, rows, tmp_path):
    fused, names = in_time
    later = rows[1200:1500].copy()
    later[100:, 2] -= 3
    whole = fed(DriftMonitor().fit(fused, column_names=names), fused, later, 50)
    monitor, stream = DriftMonitor().fit(fused, column_names=names), fused.follow()
    for start in range(0, 300, 50):
        lpfuse.io.save(monitor, tmp_path / "monitor.lpfuse")
        monitor = lpfuse.load(tmp_path / "monitor.lpfuse")
        status = fed(monitor, fused, later[start : start + 50], stream=stream)
    assert status == whole


# ----------------------------------------------------------------------------------------- any rows


@pytest.fixture(scope="module")
def fused():
    X = np.random.default_rng(0).normal(size=(2500, 3))
    return FusedDetector(["gmm", "histogram"], random_state=0).fit(X, order="random")


def test_rearmed_monitor_takes_the_next_rows_as_reference(fused, rng, tmp_path):
    monitor, X = DriftMonitor(first_rows=200).fit(fused), rng.normal(size=(3000, 3))
    X[:, 1] += 2
    assert fed(monitor, fused, X[:300]).alarm
    assert not monitor.rearm().status_.alarm
    status = fed(monitor, fused, X[300:450])
    assert (status.waiting_for, monitor.n_reference_) == (50, (0, 0))
    assert status.sentence().endswith("Scores are compared 50 rows from now.")
    lpfuse.io.save(monitor, tmp_path / "monitor.lpfuse")
    monitor = lpfuse.load(tmp_path / "monitor.lpfuse")
    assert not fed(monitor, fused, X[450:2500]).alarm
    assert monitor.n_reference_ == (200, 200)
    status = fed(monitor, fused, X[2500:] - [0, 2, 0])  # as before the first change
    assert "column:1" in {each.stream for each in status.drifts}
    assert 2300 <= status.since < status.drifts[0].declared


def test_rearmed_monitor_of_rows_in_order_learns_their_spacing(in_time, rows):
    fused, names = in_time
    monitor = DriftMonitor(first_rows=600).fit(fused, column_names=names).rearm()
    status = fed(monitor, fused, rows[1200:2000])
    assert status.waiting_for == 0
    assert not status.alarm
    assert {"column:bar", "column:flow"} <= status.evidence.keys()
    assert monitor.n_reference_[0] >= FEWEST


def test_change_is_dated_before_its_declaration_within_a_batch(fused, rng):
    X = rng.normal(size=(4000, 3))
    X[300:, 1] += 0.7
    X[3000:, 1] -= 6  # likelier than the first change, by the end of the batch
    status = fed(DriftMonitor().fit(fused), fused, X, 4000)
    assert status.drifts
    assert all(each.since < each.declared for each in status.drifts)
    assert "since about row" in status.sentence()
