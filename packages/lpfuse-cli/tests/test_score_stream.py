"""Streams over a cluster of processes: in order, each batch once, also when a worker is killed."""

import itertools
import os
import signal
import subprocess
import sys
import time
from threading import Thread

import dask
import numpy as np
import pytest

from lpfuse import FusedDetector
from lpfuse.monitor import DriftMonitor

distributed = pytest.importorskip("distributed", reason="distributed is not installed")
from lpfuse_cli.cluster import score_stream  # noqa: E402

pytestmark = pytest.mark.slow  # starts processes

WORKERS = 2


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def all_workers(client):
    """Every test begins with all of them, and leaves nothing on the scheduler."""
    client.wait_for_workers(WORKERS, timeout=60)
    yield
    deadline = time.monotonic() + 20
    while known := client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks)):
        assert time.monotonic() < deadline, f"left behind: {known[:5]}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def fused():
    X = np.random.default_rng(0).normal(size=(600, 4))
    return FusedDetector(["gmm", "kpca"], random_state=0).fit(X)


def stream_of(n_batches, seed=1):
    """Batches of several sizes, with ties and gaps; from the middle on a column has moved."""
    rng = np.random.default_rng(seed)
    for k in range(n_batches):
        X = rng.normal(size=(int(rng.integers(1, 120)), 4)).round(1)
        X[rng.random(X.shape) < 0.02] = np.nan
        X[:, 2] += 1.0 * (k > n_batches // 2)
        yield X


def assert_same(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        # Sums of a product may be rounded otherwise in another process.
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def monitors(fused):
    """Two alike, that compare scores with the first rows and columns with training rows."""
    return [DriftMonitor(first_rows=200).fit(fused) for _ in range(2)]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes cannot be killed so here")
def test_a_worker_that_is_killed_changes_nothing(client, fused):
    here, there = monitors(fused)
    before = set(client.run(os.getpid).values())
    batches = list(stream_of(40))
    numbers, alarms = [], 0
    for X, batch in zip(batches, score_stream(fused, batches, client, monitor=there), strict=True):
        if batch.number == 15:  # several others are on their way
            os.kill(min(before), signal.SIGKILL)
        expected = fused.verdicts(X)
        assert_same(batch.verdicts, expected)
        status = here.update(X, expected)
        assert batch.status.n_rows == status.n_rows == batch.first_row + len(X)
        assert batch.status.evidence == pytest.approx(status.evidence)
        assert batch.status.alarm == status.alarm
        alarms += status.alarm
        numbers.append(batch.number)
    assert numbers == list(range(40))
    assert 0 < alarms < 40  # there was something to find, and not at once
    client.wait_for_workers(WORKERS, timeout=60)
    assert min(before) not in client.run(os.getpid).values()  # one of the two is new
    assert there.n_rows_ == sum(map(len, batches))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes cannot be killed so here")
def test_all_workers_may_die_at_once(client, fused):
    batches = list(stream_of(30))
    for X, batch in zip(batches, score_stream(fused, batches, client), strict=True):
        if batch.number == 10:
            for pid in client.run(os.getpid).values():
                os.kill(pid, signal.SIGKILL)
        assert_same(batch.verdicts, fused.verdicts(X))
    assert batch.number == 29


def test_few_batches_are_taken_ahead_of_an_endless_stream(client, fused):
    taken = itertools.count()
    endless = (X for X in itertools.cycle(list(stream_of(5))) if next(taken) >= 0)
    stream = score_stream(fused, endless, client, in_flight=3)
    first = [next(stream) for _ in range(7)]
    assert [batch.number for batch in first] == list(range(7))
    assert next(taken) <= 7 + 3
    stream.close()  # and nothing is left on the scheduler


def test_a_batch_that_is_refused_does_not_end_the_stream(client, fused):
    good = np.zeros((5, 4))
    batches = [good, np.zeros((5, 3)), good, [["a", "b", "c", "d"]], 7.0, good]
    (monitor, _) = monitors(fused)
    found = list(score_stream(fused, batches, client, monitor=monitor))
    assert [batch.refused is None for batch in found] == [True, False, True, False, False, True]
    assert [batch.verdicts is None for batch in found] == [False, True, False, True, True, False]
    assert "3 features" in found[1].refused
    assert [batch.first_row for batch in found] == [0, 5, 10, 15, 16, 16]
    assert monitor.n_rows_ == 15


def test_a_source_that_fails_is_heard_and_leaves_nothing(client, fused):
    def source():
        yield np.zeros((5, 4))
        raise OSError("the sensor is gone")

    with pytest.raises(OSError, match="the sensor is gone"):
        list(score_stream(fused, source(), client, in_flight=1))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes cannot be killed so here")
def test_a_batch_over_which_too_many_workers_died_is_named(fused):
    """One death is too many here, so that the test is short."""
    large = np.random.default_rng(0).normal(size=(400_000, 4))  # seconds of work

    def kill_who_works(client, pids):
        while not any(key.endswith("-1") for keys in client.processing().values() for key in keys):
            time.sleep(0.01)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as own,
    ):
        stream = score_stream(fused, [np.zeros((5, 4)), large], own, in_flight=1)
        assert next(stream).refused is None
        killer = Thread(target=kill_who_works, args=(own, list(own.run(os.getpid).values())))
        killer.start()
        with pytest.raises(RuntimeError, match="Batch 1, from row 5 of the stream on, was given"):
            next(stream)
        killer.join()


def test_frames_keep_their_index(client, fused):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame(np.zeros((3, 4)), index=["a", "b", "c"])
    (batch,) = score_stream(fused, [frame], client)
    assert batch.verdicts.to_frame().index.tolist() == ["a", "b", "c"]


def test_a_client_that_is_closed_first_is_no_error(client, fused):
    own = distributed.Client(client.scheduler.address, set_as_default=False)
    stream = score_stream(fused, itertools.repeat(np.zeros((5, 4))), own)
    assert next(stream).number == 0
    own.close()
    stream.close()


def test_no_batches_are_no_verdicts(client, fused):
    assert list(score_stream(fused, [], client)) == []


def test_what_cannot_be_used_is_told_at_once(client, fused):
    with pytest.raises(TypeError, match="fused must be a fitted FusedDetector, got list"):
        score_stream([], [], client)
    with pytest.raises(TypeError, match=r"client must be a distributed\.Client"):
        score_stream(fused, [], "localhost:8786")
    with pytest.raises(ValueError, match="in_flight must be"):
        score_stream(fused, [], client, in_flight=0)


def test_the_extra_is_named_where_it_is_missing():
    code = (
        "import sys; sys.modules['distributed'] = None\n"
        "from lpfuse_cli.cluster import score_stream\n"
        "try: score_stream(None, [], None)\n"
        "except ImportError as error: print(error)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "lpfuse[dask]"' in told.stdout
