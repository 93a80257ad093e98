"""What river asks of a detector, and its pipelines and evaluation with ours inside."""

import random
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.metrics import roc_auc_score

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


def test_row_at_the_threshold_is_normal_without_score_not(fused):
    class At(BaseEstimator):
        rows_, preparation_, n_features_in_ = fused.rows_, None, 3

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


def test_learning_recalibrates_on_the_window(fused):
    before = fused.offset_
    model = RiverFused(fused, batch_size=10, window_size=40)
    twin = FusedDetector(POOL, random_state=0).fit(X)
    rows = list(stream(90))
    for x, y in rows:
        model.learn_one(x, y)
    normal = np.array([list(x.values()) for x, y in rows if not y])
    end = len(normal) // 10 * 10
    twin.recalibrate(normal[end - 40 : end])
    assert model.fused.offset_ == twin.offset_ != before
    np.testing.assert_array_equal(model.fused.weights_, fused.weights_)
    assert fused.offset_ == before


def test_too_few_rows_for_the_rate_are_waited_for(fused):
    model = RiverFused(fused, batch_size=5)
    for k in range(19):
        assert model.fused.offset_ == fused.offset_
        model.learn_one(named(X[k] + 3.0))
    assert model.fused.offset_ != fused.offset_


def test_columns_are_known_by_name(fused):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    by_name = RiverFused(FusedDetector(POOL, random_state=0).fit(frame), batch_size=1)
    plain = RiverFused(fused)
    x = {"c": 2.0, "unused": 9.0, "a": 0.5, "b": -1.0}
    assert by_name.score_one(x) == pytest.approx(plain.score_one(named([0.5, -1.0, 2.0])))
    by_name.learn_one(x, False)
    assert by_name._normal[0] == {"a": 0.5, "b": -1.0, "c": 2.0}
    with pytest.raises(ValueError, match=r"lacks .*'b'"):
        by_name.score_one({"a": 1.0, "c": 2.0})
    with pytest.raises(ValueError, match="5 features"):
        plain.score_one({**x, "d": 1.0})


@pytest.mark.parametrize("y", [-1, 2, "yes"])
def test_other_labels_are_refused(fused, y):
    model = RiverFused(fused, batch_size=1)
    with pytest.raises(ValueError, match="y == -1"):
        model.learn_one(named([0.0, 0.0, 0.0]), y)
    assert not model._normal


def test_in_a_pipeline_behind_what_prepares_rows(fused):
    scaler = preprocessing.StandardScaler()
    model = compose.Pipeline(scaler, RiverFused(fused, supervised=True, batch_size=5))
    labels = []
    for x, y in stream(50):
        labels.append(y)
        score = model.score_one(x)
        assert np.isfinite(score)
        model.learn_one(x, y)
    assert 0 < sum(labels)
    assert len(model["RiverFused"]._normal) == 50 - sum(labels)
    assert model["RiverFused"].fused.offset_ != fused.offset_


def test_progressive_validation_scores_then_learns(fused):
    model = RiverFused(fused, supervised=True)
    found = evaluate.progressive_val_score(stream(300), model, metrics.ROCAUC())
    assert found.get() > 0.95
    assert model.fused.offset_ != fused.offset_


def test_a_quantile_filter_keeps_alarms_from_being_learnt(fused):
    model = anomaly.QuantileFilter(RiverFused(fused, batch_size=50), q=0.95)
    for x, _ in stream(200, away=8.0):
        model.learn_one(x)
    assert 0 < len(model.anomaly_detector._normal) <= 190


def test_clones_begin_anew(fused):
    model = RiverFused(fused, batch_size=20)
    for row in X[:20]:
        model.learn_one(named(row + 3.0))
    assert model.fused.offset_ != fused.offset_
    other = model.clone()
    assert other.fused.offset_ == fused.offset_
    assert other.score_one(named([9.0, 9.0, 9.0])) > 0.5


def test_rivers_own_detectors_are_fused():
    model = RiverFusion(river_pool())
    assert model.score_one(named([0.0, 0.0, 0.0])) == 0.0
    found = evaluate.progressive_val_score(stream(800), model, metrics.ROCAUC())
    assert found.get() > 0.8
    assert model.weights.keys() == {"trees", "svm", "loda"}


class Reads(base.AnomalyDetector):
    """A column as a score; it learns nothing."""

    def __init__(self, name):
        self.name = name

    def learn_one(self, x):
        pass

    def score_one(self, x):
        return x[self.name]


def delayed_auc(model, rows, labels, delay, start=150):
    """Score each row before its label is told, `delay` rows later."""
    for x in rows[:start]:
        model.learn_one(x, 0)
    scores = []
    for i in range(start, len(rows)):
        scores.append(model.score_one(rows[i]))
        if i - delay >= start:
            model.learn_one(rows[i - delay], int(labels[i - delay]))
    return roc_auc_score(labels[start:], scores)


def noise_rows(n, seed):
    return [named(row) for row in np.random.default_rng(seed).normal(size=(n, 3))]


@pytest.mark.parametrize("delay", [0, 100])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_block_labels_are_not_echoed(delay, seed):
    labels = (np.arange(1500) // 150) % 2
    model = RiverFusion({name: Reads(name) for name in "abc"})
    assert abs(delayed_auc(model, noise_rows(1500, seed), labels, delay) - 0.5) < 0.06


@pytest.mark.parametrize("delay", [0, 100])
def test_an_informative_column_is_learnt(delay):
    labels = (np.arange(1500) // 150) % 2
    rows = noise_rows(1500, 0)
    for x, label in zip(rows, labels, strict=True):
        x["b"] += 3.0 * label
    model = RiverFusion({name: Reads(name) for name in "abc"})
    assert delayed_auc(model, rows, labels, delay) > 0.93
    assert model.weights["b"] > 3 * max(abs(model.weights["a"]), abs(model.weights["c"]))


def test_weights_follow_a_change_within_a_window():
    model = RiverFusion({"a": Reads("a"), "b": Reads("b")}, window_size=300)
    draw, right = random.Random(0), []
    for k in range(1200):
        y = draw.random() < 0.2
        shift = {"a": 4.0 * y, "b": 0.0} if k < 600 else {"a": 0.0, "b": 4.0 * y}
        model.learn_one({name: draw.gauss(0, 1) + by for name, by in shift.items()}, y)
        if k in (599, 1199):
            right.append(max(model.weights, key=model.weights.get))
    assert right == ["a", "b"]


def test_unlabelled_rows_keep_weights_near_equal():
    draw = random.Random(0)
    model = RiverFusion({"a": Reads("a"), "b": Reads("b")}, supervised=False, grace_period=50)
    for _ in range(300):
        model.learn_one({"a": draw.gauss(0, 1), "b": draw.gauss(0, 1)})
    assert model.weights["a"] == pytest.approx(model.weights["b"], rel=0.2)


def test_detectors_without_a_score_are_left_out():
    draw = random.Random(0)
    model = RiverFusion({"a": Reads("a"), "b": Reads("b")}, grace_period=50, refit_every=1)
    for _ in range(100):
        model.learn_one({"a": draw.gauss(0, 1), "b": draw.gauss(0, 1)}, 0)
    before, nan = dict(model.weights), float("nan")
    model.learn_one({"a": nan, "b": 0.0}, 0)
    assert model.weights == before
    assert model.score_one({"a": nan, "b": 9.0}) > 0.5 > model.score_one({"a": nan, "b": -9.0})
    assert model.score_one({"a": nan, "b": nan}) == 0.0


@pytest.mark.filterwarnings("ignore:Scores of column:UserWarning")
@pytest.mark.filterwarnings("ignore:The best weights are zero:UserWarning")
def test_weights_of_zero_count_all_alike():
    turned = LpFusion(p=2, nonnegative=True, class_weight="balanced", fit_intercept=True)
    model = RiverFusion({"a": Reads("a"), "b": Reads("b")}, grace_period=20, fusion=turned)
    for k in range(40):
        y = k % 2
        model.learn_one({"a": k % 5 - 9.0 * y, "b": k % 7 - 9.0 * y}, y)
    assert model.weights == {"a": 1.0, "b": 1.0}


def test_members_are_copies_that_anomalies_do_not_teach():
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


def test_a_window_below_the_grace_period_is_refused():
    with pytest.raises(ValueError, match="Raise window_size"):
        RiverFusion({"a": Reads("a")}, window_size=50).learn_one({"a": 1.0})


def test_without_river_the_extra_is_named():
    code = (
        "import sys; sys.modules['river'] = None\n"
        "try:\n    import lpfuse.river\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'lpfuse.river needs an extra: pip install "lpfuse[river]"'
