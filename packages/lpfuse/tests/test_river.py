"""What river asks of a detector, and its pipelines and evaluation with ours inside."""

import random
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from lpfuse import FusedDetector, GMMDetector, HistogramDetector, LpFusion

pytest.importorskip("river", reason="river is an extra, and needs a newer NumPy than our oldest")
from river import anomaly, base, compose, evaluate, metrics, preprocessing

from lpfuse.river import RiverFused, RiverFusion

POOL = [("gmm", GMMDetector(1, random_state=0)), ("histogram", HistogramDetector())]
rng = np.random.default_rng(0)
X = rng.normal(size=(300, 3))


@pytest.fixture(scope="module")
def fused():
    return FusedDetector(POOL, random_state=0).fit(X)


def named(row, names="abc"):
    return dict(zip(names, np.asarray(row).tolist(), strict=True))


def stream(n, seed=1, share=0.1, away=4.0):
    """Rows as river has them, with 1 for anomalies."""
    draw = np.random.default_rng(seed)
    for _ in range(n):
        y = int(draw.random() < share)
        yield named(draw.normal(size=3) + away * y), y


def river_pool():
    def scaled(detector):
        return compose.Pipeline(preprocessing.MinMaxScaler(), detector)

    return {
        "trees": scaled(anomaly.HalfSpaceTrees(n_trees=5, height=5, window_size=100, seed=1)),
        "svm": scaled(anomaly.OneClassSVM(nu=0.1)),
        "loda": anomaly.LODA(seed=1)
        if hasattr(anomaly, "LODA")
        else scaled(anomaly.HalfSpaceTrees(seed=2)),
    }


def test_scores_and_decisions_are_those_of_the_detector(fused):
    model, new = RiverFused(fused), rng.normal(size=(40, 3)) * 2
    found = [model.score_one(named(row)) for row in new]
    decision = fused.decision_function(new)
    np.testing.assert_allclose(found, (1 - decision / (1 + abs(decision))) / 2, atol=1e-9)
    assert isinstance(model, base.AnomalyDetector)
    filtered = anomaly.ThresholdFilter(model, threshold=0.5)
    alarms = [filtered.classify(filtered.score_one(named(row))) for row in new]
    assert np.mean(alarms == (fused.predict(new) < 0)) == 1


def test_a_row_at_the_threshold_is_normal_and_one_without_a_score_is_not(fused):
    class At(BaseEstimator):
        rows_, n_features_in_ = fused.rows_, 3

        def __init__(self, decision):
            self.decision = decision

        def decision_function(self, X):
            return np.array([self.decision])

        def __sklearn_is_fitted__(self):
            return True

        def fit(self, X):
            return self

    scores = [
        RiverFused(At(d)).score_one(named([0, 0, 0])) for d in (3.0, 1e-300, 0.0, -1e-300, np.nan)
    ]
    assert [score >= 0.5 for score in scores] == [False, False, False, True, True]


def test_learning_is_partial_fit_in_batches_and_leaves_the_original_alone(fused):
    before = fused.offset_
    model, twin = RiverFused(fused, batch_size=10), FusedDetector(POOL, random_state=0).fit(X)
    rows = list(stream(60))
    for x, y in rows:
        model.learn_one(x, y)
    table = np.array([list(x.values()) for x, _ in rows])
    labels = np.array([-1 if y else 1 for _, y in rows])
    for start in range(0, 60, 10):
        twin.partial_fit(table[start : start + 10], labels[start : start + 10])
    assert model.fused.offset_ == twin.offset_
    np.testing.assert_array_equal(model.fused.weights_, twin.weights_)
    assert fused.offset_ == before
    assert not hasattr(fused, "following_")


def test_columns_are_known_by_name(fused):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    by_name = RiverFused(FusedDetector(POOL, random_state=0).fit(frame), batch_size=1)
    plain = RiverFused(fused)
    x = {"c": 2.0, "unused": 9.0, "a": 0.5, "b": -1.0}
    assert by_name.score_one(x) == pytest.approx(plain.score_one(named([0.5, -1.0, 2.0])))
    by_name.learn_one(x, False)
    assert by_name.fused.following_.n_taught + by_name.fused.following_.n_calibrating == 1
    with pytest.raises(ValueError, match=r"lacks .*'b'"):
        by_name.score_one({"a": 1.0, "c": 2.0})
    with pytest.raises(ValueError, match="5 features"):
        plain.score_one({**x, "d": 1.0})


@pytest.mark.parametrize("y", [-1, 2, "yes"])
def test_other_labels_are_refused(fused, y):
    model = RiverFused(fused, batch_size=1)
    with pytest.raises(ValueError, match="y == -1"):
        model.learn_one(named([0.0, 0.0, 0.0]), y)
    assert not hasattr(model.fused, "following_")


def test_in_a_pipeline_behind_what_prepares_rows(fused):
    scaler = preprocessing.StandardScaler()
    model = compose.Pipeline(scaler, RiverFused(fused, supervised=True, batch_size=5))
    for x, y in stream(50):
        score = model.score_one(x)
        assert np.isfinite(score)
        model.learn_one(x, y)
    inside = model["RiverFused"].fused.following_
    assert inside.n_taught + inside.n_calibrating == 50
    assert inside.n_anomalies > 0


def test_progressive_validation_scores_then_learns(fused):
    model = RiverFused(fused, supervised=True)
    found = evaluate.progressive_val_score(stream(300), model, metrics.ROCAUC())
    assert found.get() > 0.95
    assert model.fused.following_.n_anomalies > 10


def test_a_quantile_filter_keeps_alarms_from_being_learnt(fused):
    model = anomaly.QuantileFilter(RiverFused(fused, batch_size=1), q=0.95)
    for x, _ in stream(200, away=8.0):
        model.learn_one(x)
    learnt = model.anomaly_detector.fused.following_
    assert 0 < learnt.n_taught + learnt.n_calibrating <= 190


def test_clones_begin_anew(fused):
    model = RiverFused(fused, batch_size=1)
    model.learn_one(named([0.0, 0.0, 0.0]))
    other = model.clone()
    assert not hasattr(other.fused, "following_")
    assert other.score_one(named([9.0, 9.0, 9.0])) > 0.5


def test_rivers_own_detectors_are_fused():
    model = RiverFusion(river_pool())
    assert model.score_one(named([0.0, 0.0, 0.0])) == 0.0
    found = evaluate.progressive_val_score(stream(800), model, metrics.ROCAUC())
    assert found.get() > 0.8
    assert model.weights.keys() == {"trees", "svm", "loda"}
    online = model._combination.fusion.online_
    bound = online.regret_bounds()["average"]
    assert online.losses["used"] <= online.losses["average"] + bound


def test_weights_go_to_the_detector_that_is_right():
    class Reads(base.AnomalyDetector):
        """Says what stands in a column."""

        def __init__(self, name):
            self.name = name

        def learn_one(self, x):
            pass

        def score_one(self, x):
            return x[self.name]

    model, draw = RiverFusion({"a": Reads("a"), "b": Reads("b")}, grace_period=50), random.Random(0)
    for _ in range(600):
        y = draw.random() < 0.2
        model.learn_one({"a": draw.gauss(0, 1) + 4 * y, "b": draw.gauss(0, 1)}, y)
    assert model.weights["a"] > 3 * abs(model.weights["b"])
    unseen = RiverFusion({"a": Reads("a"), "b": Reads("b")}, supervised=False, grace_period=50)
    for _ in range(300):
        unseen.learn_one({"a": draw.gauss(0, 1), "b": draw.gauss(0, 1)})
    assert unseen.weights["a"] == pytest.approx(unseen.weights["b"], rel=0.2)
    # A detector without a score is made up for, and teaches nothing.
    before = dict(model.weights)
    model.learn_one({"a": float("nan"), "b": 0.0}, False)
    assert model.weights == before
    assert np.isfinite(model.score_one({"a": float("nan"), "b": 0.0}))


def test_the_members_of_a_fusion_are_copies_and_anomalies_do_not_teach_them():
    class Counts(base.AnomalyDetector):
        """Counts what it learns."""

        def __init__(self):
            self.n = 0

        def learn_one(self, x):
            self.n += 1

        def score_one(self, x):
            return abs(x["a"])

    counts = Counts()
    model = RiverFusion({"counts": counts}, grace_period=5, fusion=LpFusion(p=2))
    for k in range(20):
        model.learn_one({"a": k / 10}, k % 4 == 3)
    assert counts.n == 0
    assert model._members["counts"].n == 15


def test_no_detectors_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        RiverFusion({}).learn_one({"a": 1.0})


def test_without_river_the_extra_is_named():
    code = (
        "import sys; sys.modules['river'] = None\n"
        "try:\n    import lpfuse.river\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'lpfuse.river needs an extra: pip install "lpfuse[river]"'
