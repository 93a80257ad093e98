"""On a cluster of processes: the same weights, also when a worker dies or memory is short."""

import os
import signal
import sys
import time
from pathlib import Path

import dask
import dask.array as da
import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

from helpers.cuts import as_array
from lpfuse import FusedDetector, GMMDetector, KernelPCADetector, LpFusion, TwoSidedMinMax
from lpfuse.threshold import conformal_offset

distributed = pytest.importorskip("distributed", reason="distributed is not installed")
cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")

pytestmark = pytest.mark.slow  # starts processes

WORKERS = 2
MEBIBYTE = 2**20
LIMIT = 400 * MEBIBYTE  # of each worker


@pytest.fixture(scope="module")
def client():
    here = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(here)  # workers need not import this file
    with (
        distributed.LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            processes=True,
            memory_limit=LIMIT,
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
    cloudpickle.unregister_pickle_by_value(here)


@pytest.fixture(autouse=True)
def all_workers(client):
    """Every test begins with all of them, and with nothing left on them."""
    client.wait_for_workers(WORKERS, timeout=60)
    yield
    assert_clean(client)


def assert_clean(client, patience=20.0):
    """Nothing is held on any worker, nor known to the scheduler, after a moment."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        known = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))
        held = [key for keys in client.has_what().values() for key in keys]
        if not known and not held:
            return
        time.sleep(0.05)
    raise AssertionError(f"left behind: {known[:5]} {held[:5]}")


def rows(n=40_000, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.2, -1.0, 1.0)
    return y[:, None] * [0.8, 0.5, 0.3] + rng.normal(scale=0.7, size=(n, 3)), y


CHUNKS = (9_000, 0, 1, 15_999, 0, 15_000)


def assert_as_good(ours, theirs):
    one, other = ours.certificate_, theirs.certificate_
    assert one.status == other.status == "optimal"
    assert one.passes <= 6
    assert abs(one.primal - other.primal) <= max(one.gap, other.gap) + 1e-12 * other.primal
    np.testing.assert_allclose(ours.weights_, theirs.weights_, rtol=0, atol=1e-4)


def test_a_fit_is_as_good_as_in_memory(client):
    S, y = rows()
    ours = LpFusion(fit_intercept=True).fit(as_array(S, CHUNKS), as_array(y, CHUNKS))
    assert_as_good(ours, LpFusion(fit_intercept=True).fit(S, y))
    assert ours.certificate_.alpha.compute().shape == (len(S),)


# ---------------------------------------------------------------------- a worker that dies


def fateful(k, path):
    """A block; the second time that the third one is wanted, its worker is killed, once."""
    if k == 2:
        seen, dead = Path(path) / "seen", Path(path) / "dead"
        if seen.exists() and not dead.exists():
            dead.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        seen.touch()
    return rows(10_000, seed=k)[0] + 0.2


def fateful_rows(path):
    task = dask.delayed(fateful, pure=False)
    return da.concatenate(
        [da.from_delayed(task(k, str(path)), shape=(10_000, 3), dtype=float) for k in range(5)]
    )


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes cannot be killed so here")
def test_a_worker_that_is_killed_changes_nothing(client, tmp_path):
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    undisturbed.mkdir()
    disturbed.mkdir()
    (undisturbed / "dead").touch()  # as if somebody had died before
    expected = LpFusion().fit(fateful_rows(undisturbed))
    pids = set(client.run(os.getpid).values())
    found = LpFusion().fit(fateful_rows(disturbed))
    assert int((disturbed / "dead").read_text()) in pids
    np.testing.assert_array_equal(found.weights_, expected.weights_)
    assert str(found.certificate_) == str(expected.certificate_)


# ---------------------------------------------------------------------- more than memory


def generated(k):
    S = np.random.default_rng(k).random((250_000, 12))
    S -= 0.3
    return S


def test_data_larger_than_the_memory_of_all_workers(client):
    task = dask.delayed(generated, pure=False)
    blocks = [da.from_delayed(task(k), shape=(250_000, 12), dtype=float) for k in range(40)]
    scores = da.concatenate(blocks)
    assert scores.nbytes > WORKERS * LIMIT
    pids = set(client.run(os.getpid).values())
    proof = LpFusion().fit(scores).certificate_
    assert proof.status == "optimal"
    assert proof.passes <= 6
    assert set(client.run(os.getpid).values()) == pids  # nobody ran out of memory


# ---------------------------------------------------------------------------- bad input


def test_after_a_refusal_nothing_is_left_on_the_workers(client):
    S, y = rows()
    flawed = S.copy()
    flawed[20_000, 1] = np.nan
    fusion = LpFusion()
    with pytest.raises(ValueError, match=r"block 3, column 1 \(1 row\)"):
        fusion.fit(as_array(flawed, CHUNKS), as_array(y, CHUNKS))
    assert_clean(client)
    assert vars(fusion) == LpFusion().get_params()
    assert_as_good(fusion.fit(as_array(S, CHUNKS), as_array(y, CHUNKS)), LpFusion().fit(S, y))


# ------------------------------------------------------------------------------- in a row


def test_scale_weights_and_threshold_one_after_the_other(client):
    S, y = rows()
    raw, labels = as_array(5.0 + 3.0 * S, CHUNKS), as_array(y, CHUNKS)
    scaler = TwoSidedMinMax().fit(raw, labels)
    fused = LpFusion(class_weight="balanced").fit(scaler.transform(raw), labels)
    scores = fused.score_samples(scaler.transform(raw))
    offset = conformal_offset(scores[labels > 0], 0.05)
    host = TwoSidedMinMax().fit(5.0 + 3.0 * S, y)
    scaled = host.transform(5.0 + 3.0 * S)
    in_memory = LpFusion(class_weight="balanced").fit(scaled, y)
    np.testing.assert_allclose(fused.weights_, in_memory.weights_, rtol=0, atol=0.01)
    alarms = (fused.score_samples(host.transform(5.0 + 3.0 * S))[y > 0] < offset).mean()
    assert alarms == pytest.approx(0.05, abs=0.002)


# ---------------------------------------------------------------------- joblib's backend


class Located(BaseEstimator):
    """Minus the distance to the mean; knows in which process it was fitted."""

    def fit(self, X, y=None):
        self.mean_ = X.mean(axis=0)
        self.pid_ = os.getpid()
        return self

    def score_samples(self, X):
        return -np.linalg.norm(X - self.mean_, axis=1)


def test_detectors_and_folds_are_spread_by_joblib(client):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(200) % 8, 1, -1)
    X = rng.normal(size=(200, 3)) + 1.5 * (y[:, None] < 0)
    detectors = [
        ("kpca", KernelPCADetector()),
        ("gmm", GMMDetector()),
        ("far", Located()),
        ("expert", LogisticRegression()),
    ]
    here = FusedDetector(detectors, random_state=0).fit(X, y)
    done = []
    with joblib.parallel_config(backend="dask"):
        there = FusedDetector(detectors, random_state=0, n_jobs=-1)
        there.fit(X, y, progress=lambda *count: done.append(count))
        scores = there.score_samples(X)
    assert there.detectors_[2][1].pid_ in client.run(os.getpid).values()
    np.testing.assert_array_equal(there.weights_, here.weights_)
    np.testing.assert_array_equal(scores, here.score_samples(X))
    assert there.offset_ == here.offset_
    work = [count for count, _ in done]
    assert sorted(work) == work
    assert done[-1] == (work[-1], work[-1])  # all of it is told in the end


def test_rows_of_dask_are_trained_on_and_scored(client):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 3))
    cut = (1_000, 0, 1_990, 10)
    detectors = [("gmm", GMMDetector()), ("far", Located())]
    fused = FusedDetector(detectors, random_state=0).fit(as_array(X, cut), subsample=400)
    assert len(fused.out_of_fold_.labels) == 400
    scores = fused.score_samples(as_array(X, cut))
    np.testing.assert_allclose(scores.compute(), fused.score_samples(X), rtol=1e-12, atol=1e-12)
