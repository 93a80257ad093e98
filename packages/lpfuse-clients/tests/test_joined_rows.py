"""PyOD's batch detectors, one row at a time: each is compared with PyOD on the joined rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from helpers.cases import cases
from lpfuse import FusedDetector, load
from lpfuse.adapters import PyODDetector

pytest.importorskip("pyod", reason="PyOD is an extra")
from pyod.models.cd import CD
from pyod.models.cof import COF
from pyod.models.copod import COPOD
from pyod.models.ecod import ECOD
from pyod.models.rod import ROD
from pyod.models.sod import SOD

rng = np.random.default_rng(0)
SKEWED = np.column_stack([rng.exponential(size=120), -rng.exponential(size=120)])
X = np.column_stack([SKEWED, rng.normal(size=(120, 2))])
NEW = np.vstack(
    [rng.normal(size=(25, 4)) * 2, X[:3], np.full((1, 4), 50.0), np.full((1, 4), -50.0)]
)
TIED = np.column_stack([rng.integers(0, 3, 60), rng.integers(0, 2, 60), np.full(60, 7.0)]).astype(
    float
)
NEW_TIED = np.array([[0, 1, 7], [2, 0, 7], [5, -1, 7], [1, 1, 8], [1, 0.5, 7]], dtype=float)
TABLES = {
    "skewed": (X, NEW),
    "symmetric": (np.vstack([X, -X]), NEW),  # the row decides on which side the skewness is
    "tied and constant": (TIED, NEW_TIED),
    "three columns": (X[:, :3], NEW[:, :3]),
    "two columns, odd": (X[:101, :2], NEW[:, :2]),
}
DETECTORS = {
    "ECOD": ECOD(), "COPOD": COPOD(), "COF": COF(n_neighbors=8),
    "COF, memory": COF(method="memory"), "CD": CD(), "ROD": ROD(),
}  # fmt: skip


def joined(detector, X, new):
    """Score each row by PyOD, as the last of a batch with the training rows."""
    if hasattr(detector, "X_train"):  # ECOD and COPOD join them by themselves
        return np.array([detector.decision_function(row[None])[0] for row in new])
    return np.array([detector.decision_function(np.vstack([X, row]))[-1] for row in new])


@pytest.mark.filterwarnings("ignore:Precision loss")  # PyOD, of the constant column
@cases("table", list(TABLES))
@cases("name", list(DETECTORS))
def test_scores_are_those_of_pyod_on_the_joined_rows(table, name):
    X, new = TABLES[table]
    if table == "tied and constant" and name in ("COF", "COF, memory"):
        return  # of equal distances PyOD takes any
    adapter = PyODDetector(DETECTORS[name]).fit(X)
    expected = joined(adapter.detector_, X, new)
    known = np.isfinite(expected)
    assert known.any()
    assert_allclose(-adapter.score_samples(new)[known], expected[known], rtol=1e-9, atol=1e-12)


def test_behind_a_pipeline_rows_are_those_that_it_gives():
    scaled = StandardScaler().fit(X)
    alone = PyODDetector(COF(n_neighbors=8)).fit(scaled.transform(X))
    piped = PyODDetector(make_pipeline(StandardScaler(), COF(n_neighbors=8))).fit(X)
    assert_allclose(piped.score_samples(NEW), alone.score_samples(scaled.transform(NEW)))


def by_shared_neighbours(X, x, k=20, size=10, alpha=0.8):
    """SOD of the last row of [X, x], naively; of rows that share as many the nearest are taken."""
    rows = np.vstack([X, x])
    distances = np.linalg.norm(rows[:, None] - rows, axis=2)
    np.fill_diagonal(distances, np.inf)
    lists = [set(np.argsort(each)[:k]) for each in distances]
    shared = [(-len(lists[j] & lists[-1]), distances[-1, j], j) for j in range(len(X))]
    alike = X[[j for _, _, j in sorted(shared)[:size]]]
    narrow = alike.var(axis=0) < alpha * alike.var(axis=0).mean()
    return np.sqrt(((x - alike.mean(axis=0)) ** 2)[narrow].mean()) if narrow.any() else 0.0


@cases("k, size", [(20, 10), (7, 3)])
def test_sod_is_that_of_the_joined_rows(k, size):
    adapter = PyODDetector(SOD(n_neighbors=k, ref_set=size)).fit(X)
    found = -adapter.score_samples(NEW)
    assert_allclose(found, [by_shared_neighbours(X, x, k, size) for x in NEW], rtol=1e-9)
    # PyOD takes any of the rows that share as many neighbours.
    assert np.corrcoef(found, joined(adapter.detector_, X, NEW))[0, 1] > 0.95


@cases("detector", [*DETECTORS.values(), SOD()])
def test_a_row_gets_the_same_score_in_any_batch(detector):
    adapter = PyODDetector(detector).fit(X)
    whole = adapter.score_samples(NEW)
    alone = [adapter.score_samples(row[None])[0] for row in NEW]
    assert_allclose(alone, whole, rtol=1e-12)  # BLAS rounds by the size of the batch
    assert np.ptp(whole) > 0


@cases("detector", [ECOD(), COF(n_neighbors=8), SOD()])
def test_control_pyod_scores_the_batch(detector):
    """Without the training rows, the scores would depend on the batch."""
    frozen = PyODDetector(FrozenEstimator(detector.fit(X))).fit(X)
    assert frozen.reference_ is None
    assert not np.allclose(frozen.score_samples(NEW)[:22], frozen.score_samples(NEW[:22]))


def test_members_are_calibrated_as_all_others():
    rng = np.random.default_rng(1)
    rows, new = rng.normal(size=(400, 3)), rng.normal(size=(2000, 3))
    pool = [("ecod", ECOD()), ("copod", COPOD()), ("sod", SOD()), ("rod", ROD())]
    fused = FusedDetector(pool, false_alarm_rate=0.1, cv=3, random_state=0).fit(rows, 1)
    alarms = [(fused.predict(some) < 0).mean() for some in (new, new[:1000], new[1000:])]
    assert abs(alarms[0] - 0.1) < 0.04
    assert_allclose(np.mean(alarms[1:]), alarms[0])
    assert (fused.predict(np.full((1, 3), 6.0)) < 0).all()


@cases("detector", [ECOD(), COF(n_neighbors=8)])
def test_what_is_kept_of_the_training_rows_is_saved(detector, tmp_path):
    fused = FusedDetector([("mine", detector)], cv=2, random_state=0).fit(X, 1)
    fused.save(tmp_path / "model")
    again = load(tmp_path / "model", trusted=[type(detector)])
    assert_allclose(again.score_samples(NEW), fused.score_samples(NEW), rtol=0, atol=0)


def test_cook_distances_use_at_most_a_thousand_rows():
    rows = np.random.default_rng(2).normal(size=(1500, 3))
    assert PyODDetector(CD()).fit(rows).reference_["rows"].shape == (1000, 3)
