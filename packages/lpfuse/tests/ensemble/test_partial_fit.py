"""A fused detector that follows new rows: what learns, what stays, what its threshold promises."""

import warnings
from copy import deepcopy

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import SGDClassifier, SGDOneClassSVM
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from lpfuse import FixedRule, FusedDetector, FusedDetectorCV, GMMDetector, HistogramDetector, load
from lpfuse.adapters import ScoreFunction
from lpfuse.ensemble._updating import can_update
from lpfuse.fusion import LocalLpFusion

POOL = [("gmm", GMMDetector(1, random_state=0)), ("histogram", HistogramDetector())]


def normal(n, seed=0, at=0.0):
    return np.random.default_rng(seed).normal(at, 1.0, size=(n, 3))


def mixed(n, seed=0, share=0.1, at=0.0):
    """Rows with anomalies among them, and labels."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < share, -1, 1)
    return rng.normal(at, 1.0, size=(n, 3)) + 4.0 * (y < 0)[:, None], y


class Remembers(OutlierMixin, BaseEstimator):
    """A detector that keeps all rows it was ever given."""

    def fit(self, X, y=None):
        self.n_features_in_, self.seen_ = X.shape[1], np.array(X)
        return self

    def partial_fit(self, X, y=None):
        if (X > 1e6).any():
            raise RuntimeError("too large for me")
        self.seen_ = np.concatenate([self.seen_, X])
        return self

    def score_samples(self, X):
        return -((X - self.seen_.mean(axis=0)) ** 2).sum(axis=1)

    def decision_function(self, X):
        return self.score_samples(X) + 1

    def predict(self, X):
        return np.where(self.decision_function(X) < 0, -1, 1)


def remembering(**more):
    pool = [("remembers", Remembers()), ("gmm", GMMDetector(1, random_state=0))]
    return FusedDetector(pool, random_state=0, **more)


def test_the_first_call_is_a_fit():
    X, y = mixed(300)
    first = FusedDetector(POOL, random_state=0).partial_fit(X, y)
    fitted = FusedDetector(POOL, random_state=0).fit(X, y)
    np.testing.assert_array_equal(first.weights_, fitted.weights_)
    assert first.offset_ == fitted.offset_
    assert not hasattr(first, "following_")


def test_rows_that_calibrate_teach_nothing():
    X, y = mixed(400, seed=1)
    fused = remembering().fit(normal(200))
    before = len(fused.pool_.members[0].estimator.seen_)
    for rows in np.array_split(np.arange(400), 20):
        fused.partial_fit(X[rows], y[rows])
    told = fused.following_
    assert told.n_taught + told.n_calibrating == 400
    assert 120 < told.n_calibrating < 240
    assert told.n_anomalies == (y < 0).sum()
    assert told.updated == ["remembers"]
    seen = fused.pool_.members[0].estimator.seen_[before:]
    known = {row.tobytes() for row in X[y > 0]}
    assert {row.tobytes() for row in seen} <= known  # anomalies are not for one-class members
    assert len(seen) == told.n_taught - told.n_anomalies
    assert not {row.tobytes() for row in seen} & {row.tobytes() for row in told.values}
    # The threshold rests on these rows, scored by what there is now.
    m = fused.unseen_.n_kept_back
    assert 0.85 * len(told.values) <= m <= len(told.values)
    assert fused.unseen_.by == "split"


def test_the_buffer_is_of_the_last_rows_and_bounded():
    fused = FusedDetector(POOL, random_state=0).fit(normal(100))
    X = np.column_stack([normal(5000, 1)[:, :2], np.linspace(0, 1, 5000)])
    for part in np.array_split(X, 5):
        fused.partial_fit(part)
    assert fused.following_.values.shape == (1000, 3)
    assert fused.following_.values[:, 2].min() > 0.55
    assert len(fused.calibration_) == 1000


def test_alarms_keep_to_the_rate_after_a_change():
    rates, before = [], []
    for seed in range(12):
        fused = FusedDetector(POOL, random_state=seed).fit(normal(300, seed))
        fresh = normal(2000, 100 + seed, at=0.8)
        before.append(np.mean(fused.predict(fresh) < 0))
        for part in np.array_split(normal(1200, 50 + seed, at=0.8), 12):
            fused.partial_fit(part)
        rates.append(np.mean(fused.predict(fresh) < 0))
        assert (fused.pvalues(fresh[:200]) <= 0.05).tolist() == (
            fused.predict(fresh[:200]) < 0
        ).tolist()
    assert np.mean(before) > 0.12
    # 600 rows calibrate: the mean over twelve scatters by 0.3 points.
    assert abs(np.mean(rates) - 0.05) < 0.012


def test_weights_follow_the_detector_that_is_right():
    rng = np.random.default_rng(0)
    pool = [
        ("first", ScoreFunction(lambda X: -abs(X[:, 0]), "normal")),
        ("second", ScoreFunction(lambda X: -abs(X[:, 1]), "normal")),
    ]
    y = np.where(rng.random(900) < 0.2, -1, 1)
    X = rng.normal(size=(900, 2))
    X[np.arange(900) < 300, 0] += 5.0 * (y[:300] < 0)
    X[300:, 1] += 5.0 * (y[300:] < 0)
    fused = FusedDetector(pool, random_state=0).fit(X[:300], y[:300])
    assert fused.weights_[0] > fused.weights_[1]
    late = slice(700, 900)
    before = fused.score(X[late], y[late])
    for row, label in zip(X[300:700], y[300:700], strict=True):
        fused.partial_fit(row[None], [label])
    assert fused.weights_[1] > fused.weights_[0]
    assert fused.score(X[late], y[late]) > before + 0.1
    online = fused.fusion_.online_
    bound = online.regret_bounds()["average"]
    assert online.losses["used"] <= online.losses["average"] + bound
    assert fused.certificate_ is None  # of these weights there is none
    assert fused.fusion_.certificate_.status == "optimal"


@pytest.mark.filterwarnings("ignore::lpfuse.DirectionWarning")  # a line is a poor detector
def test_members_that_can_learn_do_and_others_stay():
    X, y = mixed(300)
    frozen = FrozenEstimator(SGDOneClassSVM(random_state=0).fit(normal(50)))
    pool = [
        *POOL,
        ("svm", make_pipeline(StandardScaler(), SGDOneClassSVM(random_state=0))),
        ("frozen", frozen),
        ("expert", SGDClassifier(loss="log_loss", random_state=0)),
    ]
    fused = FusedDetector(pool, random_state=0).fit(X, y)
    members = {member.name: member.estimator for member in fused.pool_.members}
    assert [name for name in members if can_update(members[name])] == ["svm", "expert"]
    copies = deepcopy(members)
    fused.partial_fit(*mixed(80, seed=5))
    now = {member.name: member.estimator for member in fused.pool_.members}
    assert sorted(fused.following_.updated) == ["expert", "svm"]
    assert now["gmm"] is members["gmm"]
    assert now["frozen"] is members["frozen"]
    assert now["svm"][0] is members["svm"][0]  # what prepares the rows stays
    assert abs(now["svm"][-1].coef_ - copies["svm"][-1].coef_).max() > 0
    np.testing.assert_array_equal(members["svm"][-1].coef_, copies["svm"][-1].coef_)
    for fit, before in zip(now["expert"].fits, copies["expert"].fits, strict=True):
        assert abs(fit.classifier_.coef_ - before.classifier_.coef_).max() > 0


def test_rows_that_nobody_looked_at_change_nothing():
    fused = FusedDetector(POOL, random_state=0).fit(normal(100))
    before = deepcopy(vars(fused))
    fused.partial_fit(normal(20, 1), np.zeros(20))
    np.testing.assert_array_equal(fused.weights_, before["fusion_"].weights_)
    assert fused.offset_ == before["offset_"]
    assert fused.following_.n_taught == fused.following_.n_calibrating == 0


@pytest.mark.parametrize(
    ("X", "y", "told"),
    [
        (normal(5)[:, :2], None, "3"),
        (normal(5), [1, 1], "y"),
        (normal(5), [1, 2, 1, 1, 1], r"\+1"),
        (np.full((5, 3), 1e7), -np.ones(5) + 2 * np.eye(5)[0] + 2 * np.eye(5)[1], "too large"),
    ],
)
def test_what_is_refused_changes_nothing(X, y, told):
    fused = remembering().fit(*mixed(200))
    fused.partial_fit(*mixed(100, 3))
    before = deepcopy(vars(fused))
    rows = np.concatenate([X] * 4) if told == "too large" else X
    labels = None if y is None else np.concatenate([y] * 4) if told == "too large" else y
    with pytest.raises(ValueError, match=told):
        fused.partial_fit(rows, labels)
    assert fused.following_.n_taught == before["following_"].n_taught
    assert fused.offset_ == before["offset_"]
    np.testing.assert_array_equal(fused.weights_, before["fusion_"].weights_)
    assert fused.fusion_.online_.losses == before["fusion_"].online_.losses


def test_a_loaded_detector_goes_on_as_if_nothing_had_happened(tmp_path):
    pool = [*POOL, ("svm", SGDOneClassSVM(random_state=0))]
    one = FusedDetector(pool, random_state=0).fit(*mixed(200)).partial_fit(*mixed(150, 1))
    one.save(tmp_path / "fused.lpfuse")
    other = load(tmp_path / "fused.lpfuse")
    new = normal(50, 9)
    for fused in (one, other):
        for seed in (2, 3):
            fused.partial_fit(*mixed(60, seed))
    np.testing.assert_array_equal(one.score_samples(new), other.score_samples(new))
    np.testing.assert_array_equal(one.pvalues(new), other.pvalues(new))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_are_followed_too(frame):
    names = ["a", "b", "c"]

    def framed(X):
        return frame(dict(zip(names, X.T, strict=True)))

    fused = FusedDetector(POOL, random_state=0).fit(framed(normal(200)))
    fused.partial_fit(framed(normal(100, 1, at=1.0)))
    plain = FusedDetector(POOL, random_state=0).fit(normal(200))
    plain.partial_fit(normal(100, 1, at=1.0))
    np.testing.assert_allclose(fused.offset_, plain.offset_)
    with pytest.raises(ValueError, match="names"):
        fused.partial_fit(framed(normal(5)).rename({"a": "z"}) if frame is pl.DataFrame else
                          framed(normal(5)).rename(columns={"a": "z"}))  # fmt: skip


def test_words_are_scored_and_teach_but_do_not_calibrate():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"kind": rng.choice(["u", "v"], 200), "size": rng.normal(size=200)})
    pool = [
        ("kinds", make_pipeline(OneHotEncoder(sparse_output=False), GMMDetector(1)), ["kind"]),
        ("sizes", HistogramDetector(), ["size"]),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fused = FusedDetector(pool, random_state=0).fit(X)
        fused.partial_fit(X.iloc[:50])
    assert fused.following_.values is None
    assert np.isfinite(fused.score_samples(X[:5])).all()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_rows_with_gaps_teach_those_that_can_use_them():
    X, y = mixed(200)
    fused = FusedDetector([*POOL, ("svm", SGDOneClassSVM(random_state=0))], random_state=0)
    fused.fit(X, y)
    new, labels = mixed(100, 4)
    new[::3, 0] = np.nan
    fused.partial_fit(new, labels)
    assert np.isfinite(fused.weights_).all()
    assert np.isfinite(fused.offset_)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "settings",
    [
        {"fusion": FixedRule("sum")},
        {"fusion": LocalLpFusion(n_regions=2, random_state=0)},
        {"threshold": "g-mean"},
        {"contamination": 0.1},
        {"calibration": "split"},
        {"calibration": "plain"},
        {"confidence": 0.9},
    ],
    ids=str,
)
def test_every_kind_of_detector_goes_on(settings):
    fused = FusedDetector(POOL, random_state=0, **settings).fit(*mixed(300))
    for seed in range(1, 4):
        fused.partial_fit(*mixed(80, seed))
    fresh = normal(500, 9)
    assert np.isfinite(fused.score_samples(fresh)).all()
    assert np.mean(fused.predict(fresh) < 0) < 0.25


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_chosen_detector_goes_on():
    fused = FusedDetectorCV(POOL, ps=[1.0, 2.0], cv=2, random_state=0).fit(*mixed(200))
    fused.partial_fit(*mixed(100, 1))
    assert fused.following_.n_taught > 0


def test_default_weights_may_leave_a_prior_that_labels_speak_against():
    X = normal(150)
    fused = FusedDetector(random_state=0).fit(X)
    prior = fused.weights_.copy()
    assert fused.fusion_.radius == 0
    new, labels = mixed(200, 1, share=0.3)
    fused.partial_fit(new, labels)
    assert fused.fusion_.radius == pytest.approx(np.linalg.norm(prior))
    assert np.abs(fused.weights_ - prior).max() > 0
    assert fused.weights_.min() >= 0


def test_a_fit_forgets_what_was_followed():
    fused = FusedDetector(POOL, random_state=0).fit(normal(100)).partial_fit(normal(50, 1))
    assert hasattr(fused, "following_")
    assert not hasattr(fused.fit(normal(100)), "following_")


def test_blocks_are_refused():
    da = pytest.importorskip("dask.array")
    fused = FusedDetector(POOL, random_state=0).fit(normal(100))
    with pytest.raises(ValueError, match="a block of Dask at a time"):
        fused.partial_fit(da.from_array(normal(10)))


def test_a_followed_detector_is_reported_without_a_proof_of_other_weights(tmp_path):
    pytest.importorskip("jinja2", reason="the report is an extra")
    from lpfuse_cli.report import summarise, write_report

    fused = FusedDetector(POOL, random_state=0).fit(*mixed(200)).partial_fit(*mixed(100, 1))
    summary = summarise(fused)
    assert summary["certificate"] is None
    write_report(summary, tmp_path / "report.html")
    assert "<br>weights:" not in fused._html_repr()
    fused.card(tmp_path / "card.md")
    text = (tmp_path / "card.md").read_text()
    assert "**Proof.** Loss" not in text
