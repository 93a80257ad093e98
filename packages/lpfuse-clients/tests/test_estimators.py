"""A detector as a classifier, and the removal of outliers before a fit."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import PrecisionRecallDisplay, RocCurveDisplay, log_loss, roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from helpers.cases import cases
from lpfuse import FusedDetector, GMMDetector, KNNDetector
from lpfuse_clients.estimators import DetectorClassifier, OutlierRemoval

mpl.use("agg")
FUSED = FusedDetector(["gmm", "knn"], cv=3, random_state=0)


def drawn(n, m, seed):
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(size=(n, 3)), rng.normal(1.2, 1, size=(m, 3))])
    order = rng.permutation(n + m)
    return X[order], np.repeat([1, -1], [n, m])[order]


X, Y = drawn(400, 100, 0)
NEW, TRUTH = drawn(1600, 400, 1)


@pytest.fixture(scope="module")
def clf():
    return DetectorClassifier(FUSED).fit(X, Y)


def test_displays_take_it(clf):
    shown = RocCurveDisplay.from_estimator(clf, NEW, TRUTH)
    assert shown.roc_auc == roc_auc_score(TRUTH, clf.detector_.score_samples(NEW))
    assert shown.roc_auc > 0.7
    assert (
        PrecisionRecallDisplay.from_estimator(clf, NEW, TRUTH, pos_label=-1).average_precision > 0.3
    )


@cases("detector", [FUSED, IsolationForest(n_estimators=20, random_state=0)])
def test_cross_val_predict_gives_decisions_with_labels(detector):
    decisions = cross_val_predict(
        DetectorClassifier(detector), X, Y, method="decision_function", cv=3
    )
    assert roc_auc_score(Y, decisions) > 0.7
    with pytest.raises((ValueError, AttributeError)):  # the detector itself, in scikit-learn 1.9
        cross_val_predict(detector, X, Y, method="decision_function", cv=3)


def calibration_error(chances, happened):
    """The mean distance between chance and frequency, over ten groups of equal size."""
    groups = np.array_split(np.argsort(chances), 10)
    return np.mean([abs(happened[some].mean() - chances[some].mean()) for some in groups])


def test_probabilities_are_calibrated(clf):
    anomalous = clf.predict_proba(NEW)[:, 0]
    assert_allclose(clf.predict_proba(NEW).sum(axis=1), 1)
    assert abs(anomalous.mean() - 0.2) < 0.04
    assert calibration_error(anomalous, TRUTH < 0) < 0.05
    assert log_loss(TRUTH < 0, anomalous) < log_loss(TRUTH < 0, np.full(len(TRUTH), 0.2)) - 0.03
    # The control: decisions on their own scale, taken as log-odds, are no probabilities.
    naive = 1 / (1 + np.exp(clf.detector_.decision_function(NEW)))
    assert calibration_error(naive, TRUTH < 0) > 0.05


@cases("good, bad", [(1, -1), (0, 1), ("ok", "worn"), ("worn", "ok")])
def test_labels_of_any_kind_give_the_same_answers(clf, good, bad):
    other = DetectorClassifier(FUSED, normal=good).fit(X, np.where(Y > 0, good, bad))
    assert_array_equal(other.predict(NEW) == good, clf.predict(NEW) == 1)
    found = other.predict_proba(NEW)[:, list(other.classes_).index(good)]
    assert_allclose(found, clf.predict_proba(NEW)[:, 1])
    named = np.where(TRUTH > 0, good, bad)
    shown = RocCurveDisplay.from_estimator(other, NEW, named, pos_label=good)
    assert_allclose(shown.roc_auc, roc_auc_score(TRUTH, clf.decision_function(NEW)))


def test_probabilities_are_refused_without_held_out_scores_of_both_classes():
    few = np.flatnonzero((Y > 0) | (np.cumsum(Y < 0) <= 5))
    with pytest.raises(ValueError, match="at least 10 rows of each class"):
        DetectorClassifier(FUSED).fit(X[few], Y[few]).predict_proba(NEW)
    with pytest.raises(ValueError, match="need a FusedDetector"):
        DetectorClassifier(GMMDetector()).fit(X, Y).predict_proba(NEW)


def test_weights_of_zero_leave_rows_out():
    weights = np.where(np.arange(len(X)) % 3, 2.0, 0.0)
    kept = weights > 0
    found = DetectorClassifier(FUSED).fit(pd.DataFrame(X), Y, sample_weight=weights)
    alone = DetectorClassifier(FUSED).fit(pd.DataFrame(X[kept]), Y[kept])
    frame = pd.DataFrame(NEW)
    assert_array_equal(found.decision_function(frame), alone.decision_function(frame))


@cases("weights", [np.arange(500.0), -np.ones(500), np.ones(3), np.zeros(500)])
def test_other_weights_are_refused(weights):
    with pytest.raises(ValueError, match="counts rows"):
        DetectorClassifier(FUSED).fit(X, Y, sample_weight=weights)


@cases("y", [np.ones(500), np.arange(500) % 3, np.where(Y > 0, "ok", "worn")])
def test_labels_without_the_normal_one_are_refused(y):
    with pytest.raises(ValueError, match="two labels, one of them normal=1"):
        DetectorClassifier(FUSED).fit(X, y)


# --------------------------------------------------------------------------- removal of outliers


def test_outliers_do_not_reach_the_estimator():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(300, 2))
    target = rows @ [1.0, -2.0]
    rows[:15] = rng.uniform(10, 60, size=(15, 2)) * rng.choice([-1, 1], size=(15, 2))
    target[:15] = 500
    forest = IsolationForest(contamination=0.1, random_state=0)
    model = make_pipeline(StandardScaler(), OutlierRemoval(LinearRegression(), forest))
    model.fit(rows, target)
    assert not model[-1].kept_[:15].any()
    assert model[-1].kept_.mean() > 0.85
    assert_allclose(model.predict(rows[15:]), target[15:], atol=1e-8)
    assert len(model.predict(rows)) == len(rows)  # no new row is removed
    plain = make_pipeline(StandardScaler(), LinearRegression()).fit(rows, target)
    assert plain.score(rows[15:], target[15:]) < 0.5  # the control


def test_removal_has_the_methods_of_what_is_inside():
    removal = OutlierRemoval(LogisticRegression(), GMMDetector())
    model = clone(removal).fit(X, Y, sample_weight=np.ones(len(X)))
    inside = LogisticRegression().fit(X[model.kept_], Y[model.kept_])
    assert_array_equal(model.predict_proba(NEW), inside.predict_proba(NEW))
    assert_array_equal(model.classes_, [-1, 1])
    assert not hasattr(model, "transform")
    assert cross_val_predict(removal, X, Y, method="predict_proba", cv=3).shape == (500, 2)
    scaled = OutlierRemoval(StandardScaler(), GMMDetector()).fit(X)
    assert_allclose(scaled.transform(X[scaled.kept_]).mean(axis=0), 0, atol=1e-12)


# ------------------------------------------------------------------------ embeddings as a view


def patches(pixels):
    """8 × 8 pixels to 4 × 4 means: a small embedding of images."""
    return pixels.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)


def test_images_are_scored_by_an_embedding_and_by_their_pixels():
    digits = load_digits()
    rng = np.random.default_rng(0)
    zeros, others = digits.data[digits.target == 0], digits.data[digits.target > 0]
    zeros = rng.permutation(zeros)  # the digits of a writer follow each other
    coarse = make_pipeline(FunctionTransformer(patches), KNNDetector())
    pool = [("coarse", coarse), ("pixels", KNNDetector())]
    images = FusedDetector(pool, random_state=0).fit(zeros[:120], 1)
    assert (images.predict(others[:200]) < 0).mean() > 0.9
    assert (images.predict(zeros[120:]) < 0).mean() < 0.2
    assert np.ptp(images.contributions(others[:50])[:, 0]) > 0  # the embedding takes part
