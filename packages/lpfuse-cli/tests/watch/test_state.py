"""Counts that do not grow, and states that cannot be used."""

import json

import pytest

import lpfuse
from lpfuse_cli.watch.judge import BUCKETS, Bucket, Places, Tally
from lpfuse_cli.watch.state import StateFolder, WatchState


def test_history_of_counts_stays_small():
    tally = Tally()
    for second in range(5 * BUCKETS):
        tally._add_bucket(Bucket(float(second), rows=1, evidence=second / 100))
    assert len(tally.buckets) <= BUCKETS
    assert tally.width == 8.0
    assert sum(each.rows for each in tally.buckets) == 5 * BUCKETS
    assert max(each.evidence for each in tally.buckets) == (5 * BUCKETS - 1) / 100
    again = Tally.from_state(json.loads(json.dumps(tally.state())))
    assert again == tally


def test_places_are_thinned_and_interpolated():
    places = Places()
    for batch in range(1, 2000):
        places.add(10 * batch, 100 * batch)
    assert len(places.pairs) <= 2 * BUCKETS
    assert places.row(0) == 0
    assert places.row(19_990) == 199_900
    assert places.row(4_321) == pytest.approx(43_210, abs=1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no state", "cannot be read: it is damaged"),
        (lpfuse.LpFusion(), "is not the state of a watch"),
        ({"version": 99}, "written by another version of lpfuse"),
    ],
)
def test_unusable_state_raises(tmp_path, content, message):
    folder = StateFolder(tmp_path)
    if isinstance(content, bytes):
        folder.file.write_bytes(content)
    elif isinstance(content, dict):
        lpfuse.io.save(WatchState(json.dumps(content)), folder.file)
    else:
        lpfuse.io.save(content, folder.file)
    with pytest.raises(ValueError, match=message):
        folder.read({})
