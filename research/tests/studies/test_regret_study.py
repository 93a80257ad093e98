"""Streams that drift as they say, methods that see no label before its time, and the page."""

from pathlib import Path

import numpy as np
import pytest

from helpers.cases import cases
from research.studies.regret.figure import draw
from research.studies.regret.page import BEST, goals_of, mean_auc, mean_loss, regret, regret_page
from research.studies.regret.strategies import METHODS, play
from research.studies.regret.streams import DRIFTS, START, STREAMS, Stream, stream_of
from research.studies.regret.study import curves_of, read_regret

ROOT = Path(__file__).parents[3]
STORED = ROOT / "research/results/studies/regret/rows.jsonl"


def table(seed=0):
    rng = np.random.default_rng(seed)
    is_anomaly = np.arange(400) >= 320
    X = rng.normal(size=(400, 4))
    X[320:360, 0] += 5.0
    X[360:, 1] -= 5.0
    return X, is_anomaly


def made_up(n=700, seed=0):
    """Of two detectors one is right, and from the middle on the other."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.2, -1.0, 1.0)
    right = np.where(np.arange(n)[:, None] < n // 2, [0.9, 0.0], [0.0, 0.9])
    told = (np.arange(n) < START) | (rng.random(n) < 0.5)
    return Stream(y[:, None] * right + rng.normal(scale=0.3, size=(n, 2)), y, told)


@cases("drift", DRIFTS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_streams_have_the_shape_that_they_say(drift):
    stream = stream_of(*table(), drift, seed=3, rows=600)
    assert stream.scores.shape == (600, 6)
    assert np.isfinite(stream.scores).all()
    assert stream.told[:START].all()
    assert 0.03 < (stream.labels < 0).mean() < 0.2
    again = stream_of(*table(), drift, seed=3, rows=600)
    np.testing.assert_array_equal(stream.scores, again.scores)
    early = stream.labels[:300] < 0
    found = stream.scores[:300].mean(axis=1)
    assert found[early].mean() < found[~early].mean()


def test_every_drift_has_two_tables():
    assert sorted(STREAMS.values()) == sorted([*DRIFTS] * 2)


def test_no_method_knows_a_label_before_it_is_told():
    stream = made_up()
    last = np.flatnonzero(stream.told)[-1]
    other = stream.labels.copy()
    other[last] *= -1
    one, two = play(stream), play(stream._replace(labels=other))
    for name in METHODS:
        if name != BEST:
            np.testing.assert_array_equal(one.losses[name][:-1], two.losses[name][:-1])
            np.testing.assert_array_equal(
                one.scores[name][: last - START + 1], two.scores[name][: last - START + 1]
            )


def test_following_helps_where_something_changes_and_bounds_hold():
    stream = made_up(1400)
    played = play(stream)
    row = curves_of(stream, played)
    total = {name: losses.sum() for name, losses in played.losses.items()}
    assert total["ours"] < 0.8 * total["fixed"]
    assert total[BEST] <= min(total["fixed"], total["average"])
    assert regret(row, "average") <= row["bounds"]["average"]
    assert regret(row, BEST) <= row["bounds"]["best"]
    assert row["losses"]["ours"][-1] == pytest.approx(total["ours"], abs=1e-3)
    assert row["labelled"] == stream.told[START:].sum()


def stored(ours=0.1, average=0.2, best=0.05, bound=2.0, drift="kinds"):
    names = dict.fromkeys(METHODS, 0.15) | {"ours": ours, "average": average, BEST: best}
    return {
        "kind": "regret", "stream": next(k for k, v in STREAMS.items() if v == drift), "seed": 1,
        "drift": drift, "labelled": 100, "anomalies": 10, "gap": 1e-9, "seconds": 0.001,
        "losses": {name: [50 * loss, 100 * loss] for name, loss in names.items()},
        "labels_at": [50, 100], "aucs": {name: [90.0, 80.0] for name in METHODS},
        "bounds": {"average": bound, "best": 30.0},
    }  # fmt: skip


def test_the_page_by_hand():
    row = stored()
    assert mean_loss(row, "ours") == pytest.approx(100)
    assert regret(row, "average") == pytest.approx(-10)
    assert mean_auc(row | {"aucs": {"ours": [90.0, None]}}, "ours") == 90.0  # one class: no AUC
    goals = {goal.name: goal for goal in goals_of([row])}
    assert all(goal.met for goal in goals.values())
    missed = goals_of([stored(ours=0.3)])
    assert [goal.met for goal in missed] == [False, True, False, False, False]
    told = regret_page([row])
    assert "| PageBlocks, columns |" not in told
    assert "1 of 1 streams" in told
    assert "Nothing was measured yet" in regret_page([])


def test_the_figure_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    draw([stored(), stored(drift="none")], tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 1000


@pytest.mark.skipif(not STORED.exists(), reason="nothing is stored yet")
def test_the_page_is_what_the_rows_say():
    page = ROOT / "docs/benchmarks/regret.md"
    assert page.read_text() == regret_page(read_regret([STORED]))
