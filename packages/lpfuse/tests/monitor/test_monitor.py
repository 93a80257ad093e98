"""DriftMonitor: reference, detected changes, merging and saving."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import lpfuse
from lpfuse import FusedDetector
from lpfuse.monitor import Drift, DriftMonitor, Evidence


@pytest.fixture(scope="module")
def fused():
    X = np.random.default_rng(0).normal(size=(3000, 5))
    return FusedDetector(["gmm", "histogram"], random_state=0).fit(X)


@pytest.fixture(scope="module")
def small():
    X = np.random.default_rng(1).normal(size=(200, 5))
    return FusedDetector(["gmm", "histogram"], random_state=0).fit(X)


def fed(monitor, fused, X, size=500):
    for start in range(0, len(X), size):
        batch = X[start : start + size]
        status = monitor.update(batch, fused.verdicts(batch))
    return status


def test_reference_defaults_to_rows_of_the_detector(fused, small, rng):
    assert DriftMonitor().fit(fused).n_reference_ == (3000, 600)
    assert DriftMonitor().fit(small).n_reference_ == (200, 0)
    assert DriftMonitor().fit(small, rng.normal(size=(80, 5))).n_reference_ == (80, 80)


def test_unchanged_rows_raise_no_alarm(fused, rng):
    status = fed(DriftMonitor().fit(fused), fused, rng.normal(size=(5000, 5)))
    assert not status.alarm
    assert (status.kind, status.since, status.n_rows) == ("none", None, 5000)
    assert status.sentence().startswith("5,000 rows, no drift")


@pytest.mark.parametrize(
    ("change", "stream", "what"),
    [
        (lambda X: X + np.array([0, 0.5, 0, 0, 0]), "column:1", "higher"),
        (lambda X: X - [0, 0, 1.0, 0, 0], "column:2", "lower"),
        (lambda X: X * [1, 1, 1, 2.0, 1], "column:3", "wider"),
        (lambda X: X * [1, 1, 1, 1, 0], "column:4", "stuck"),
        (lambda X: np.where(np.arange(5) == 0, np.nan, X), "column:0", "stuck"),
    ],
)
@pytest.mark.filterwarnings("ignore:There is no value")
def test_changed_column_is_named_and_dated(fused, rng, change, stream, what):
    monitor = DriftMonitor().fit(fused)
    fed(monitor, fused, rng.normal(size=(3000, 5)))
    status = fed(monitor, fused, change(rng.normal(size=(600, 5))), 100)
    drifts = {each.stream: each for each in status.drifts}
    assert drifts[stream].what == what
    assert abs(drifts[stream].since - 3000) <= 200
    assert 3000 < drifts[stream].declared <= 3600
    assert status.kind == "normal has changed"
    others = [f"column:{j}" for j in range(5) if f"column:{j}" != stream]
    assert not drifts.keys() & set(others)


def test_more_anomalies_differ_from_changed_normal_rows(fused, rng):
    monitor = DriftMonitor().fit(fused)
    X = rng.normal(size=(4000, 5))
    X[2000:][rng.random(2000) < 0.04] += 3.5
    status = fed(monitor, fused, X)
    assert status.kind == "more anomalies"
    assert {"strange rows"} <= {each.stream for each in status.drifts}
    assert "usual rows" not in {each.stream for each in status.drifts}


def test_first_rows_become_reference_of_a_small_model(small, rng):
    # Out-of-fold scores differ from those of the final detectors, and are no reference.
    monitor = DriftMonitor(first_rows=100).fit(small)
    X = rng.normal(size=(2070, 5))
    status = fed(monitor, small, X[:70], 70)
    assert status.waiting_for == 30
    assert "Scores are compared 30 rows from now." in status.sentence()
    status = fed(monitor, small, X[70:], 100)
    assert status.waiting_for == 0
    assert monitor.n_reference_ == (200, 100)
    assert not status.alarm
    status = fed(monitor, small, rng.normal(size=(500, 5)) * 1.5, 100)
    assert status.kind == "normal has changed"
    assert abs(status.since - 2070) <= 150


def test_counts_do_not_depend_on_batches(fused, rng):
    X = rng.normal(size=(250, 5))
    one, many = DriftMonitor().fit(fused), DriftMonitor().fit(fused)
    fed(one, fused, X, 250)
    fed(many, fused, X, 1)
    for streams in ("columns_", "scores_"):
        for bet, other in zip(getattr(one, streams).bets, getattr(many, streams).bets, strict=True):
            np.testing.assert_array_equal(bet.evidence.counts, other.evidence.counts)


def test_one_row_as_a_vector(fused, rng):
    x = rng.normal(size=5)
    assert DriftMonitor().fit(fused).update(x, fused.verdicts(x[None])).n_rows == 1


@pytest.mark.parametrize("first_rows", [None, 150])
def test_counts_of_workers_update_one_monitor(fused, small, rng, first_rows):
    detector = fused if first_rows is None else small
    there, here = (DriftMonitor(first_rows=first_rows or 300).fit(detector) for _ in range(2))
    X = rng.normal(size=(800, 5))
    X[500:, 1] += 1
    batches = np.split(X, 4)
    alone = fed(here, detector, X, 200)
    counts = [
        there.count(b, detector.verdicts(b), first_row=200 * i) for i, b in enumerate(batches)
    ]
    apart = DriftMonitor(first_rows=first_rows or 300).fit(detector)
    for each in counts:
        status = apart.update_counts(each)
    assert status == alone
    together = DriftMonitor(first_rows=first_rows or 300).fit(detector)
    assert together.update_counts(sum(counts[1:], counts[0])).n_rows == 800


def test_counts_before_and_after_reference_cannot_be_added(small, rng):
    monitor, X = DriftMonitor(first_rows=50).fit(small), rng.normal(size=(60, 5))
    before = monitor.count(X, small.verdicts(X))
    monitor.update_counts(before)
    after = monitor.count(X, small.verdicts(X))
    with pytest.raises(ValueError, match="one after the other"):
        before + after


def test_saved_monitor_continues(fused, rng, tmp_path):
    X = rng.normal(size=(700, 5))
    X[400:, 0] += 1
    whole = fed(DriftMonitor().fit(fused), fused, X, 100)
    monitor = DriftMonitor().fit(fused)
    for start in range(0, 700, 100):
        lpfuse.io.save(monitor, tmp_path / "monitor.lpfuse")
        monitor = lpfuse.load(tmp_path / "monitor.lpfuse")
        batch = X[start : start + 100]
        status = monitor.update(batch, fused.verdicts(batch))
    assert status == whole
    assert (tmp_path / "monitor.lpfuse").stat().st_size < 60_000


def test_frames_keep_names_of_numeric_columns(rng):
    def frame(n, shift=0.0):
        return pd.DataFrame(
            {
                "bar": rng.normal(size=n) + shift,
                "kind": rng.choice(["a", "b"], size=n),
                "count": pd.array(rng.integers(0, 4, size=n), dtype="Int64"),
            }
        )

    detectors = [("gmm", lpfuse.GMMDetector(), ["bar", "count"])]
    fused = FusedDetector(detectors, random_state=0).fit(frame(2500), columns="as-is")
    assert DriftMonitor().fit(fused).column_names_ == []  # text columns are not stored
    monitor = DriftMonitor().fit(fused, frame(500))
    assert monitor.column_names_ == ["bar", "count"]
    rows = frame(400, 1.0)
    verdicts = fused.verdicts(rows)
    rows.loc[3, "count"] = pd.NA
    status = monitor.update(rows, verdicts)
    assert "column:bar" in {each.stream for each in status.drifts}
    rows["bar"] = "broken"
    with pytest.raises(
        ValueError, match=r"'bar' is numeric in the reference, but the new rows hold text"
    ):
        monitor.update(rows, fused.verdicts(frame(400)))


def test_false_alarm_rate_of_whole_monitors(fused):
    # 60 streams of 1,000 rows, each with eight streams of numbers; level 10 %.
    alarms = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        monitor = DriftMonitor(level=0.1, random_state=seed).fit(fused, rng.normal(size=(300, 5)))
        alarms += fed(monitor, fused, rng.normal(size=(1000, 5)), 1000).alarm
    assert alarms <= 6


# ------------------------------------------------------------------------------------------ errors


def test_invalid_input_raises(fused, rng):
    monitor, X = DriftMonitor().fit(fused), rng.normal(size=(10, 5))
    verdicts = fused.verdicts(X)
    for rows in (X[:9], X[:, :4]):
        with pytest.raises(ValueError, match="same rows, and of 5 columns"):
            monitor.update(rows, verdicts)
    assert monitor.n_rows_ == 0
    with pytest.raises(NotFittedError, match=re.escape("call fit(fused) first")):
        DriftMonitor().update(X, verdicts)
    with pytest.raises(NotFittedError):
        DriftMonitor().fit(FusedDetector())
    with pytest.raises(ValueError, match="at least 20 rows"):
        DriftMonitor().fit(fused, X)
    with pytest.raises(ValueError, match="level must"):
        DriftMonitor(level=0).fit(fused)
    with pytest.raises(ValueError, match="first_rows must be at least 20"):
        DriftMonitor(first_rows=5).fit(fused)
    with pytest.raises(ValueError, match="must name 5 columns, got 1"):
        DriftMonitor().fit(fused, column_names=["a"])


def saved(monitor, folder):
    lpfuse.io.save(monitor, folder / "monitor.lpfuse")
    return (folder / "monitor.lpfuse").read_bytes()


@pytest.mark.parametrize("call", [1, 2, 5])
def test_interrupted_update_leaves_the_monitor_unchanged(fused, rng, tmp_path, monkeypatch, call):
    monitor, X = DriftMonitor().fit(fused), rng.normal(size=(400, 5))
    fed(monitor, fused, X)
    before, calls = saved(monitor, tmp_path), []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == call:
            raise KeyboardInterrupt
        return original(*arguments)

    verdicts = fused.verdicts(X + 1)
    for within, action in (
        ("_bet", lambda: monitor.update(X + 1, verdicts)),
        ("before", lambda: monitor.fit(fused, X)),
    ):
        original = getattr(Evidence, within)
        calls.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Evidence, within, interrupted)
            if call <= 2 or within == "_bet":
                with pytest.raises(KeyboardInterrupt):
                    action()
        assert saved(monitor, tmp_path) == before


FORGED = {
    "level": [0, -1.0, np.nan, "low", None],
    "n_rows_": [-1.5, np.nan, "many", 10**30, None],
    "drifts_": [None, [3], [Drift("column:0", "higher", None, 7)]],
    "columns_": ["text", 7, [1]],
    "columns_.bins.edges": [None, np.zeros(4), "text"],
    "columns_.bins.gaps": [np.array([]), "text", np.full(20, -1.0)],
    "columns_.history.sums": [np.zeros((2, 9)), None],
    "columns_.bets": [None, [None], 7],
    "scores_.bets": [None, ["bet"]],
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("place", FORGED)
def test_damaged_state_is_refused_in_a_sentence(fused, rng, place):
    X = rng.normal(size=(150, 5))
    verdicts = fused.verdicts(X)
    *parents, name = place.split(".")
    for value in FORGED[place]:
        monitor = DriftMonitor().fit(fused)
        monitor.update(X, verdicts)
        holder = monitor
        for parent in parents:
            holder = getattr(holder, parent)
        vars(holder)[name] = value
        with pytest.raises(ValueError, match=r"of this DriftMonitor is damaged.*Restore its file"):
            monitor.update(X, verdicts)
        assert vars(holder)[name] is value


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["counts", "recent", "log_stakes"])
def test_evidence_that_is_no_number_is_refused(fused, rng, name):
    X = rng.normal(size=(150, 5))
    monitor = DriftMonitor().fit(fused)
    evidence = monitor.columns_.bets[0].evidence
    setattr(evidence, name, np.full(getattr(evidence, name).shape, np.nan))
    with pytest.raises(ValueError, match="evidence finite"):
        monitor.update(X, fused.verdicts(X))
    assert monitor.n_rows_ == 0
