"""What PyOD asks of a detector, and its ensembles with ours inside.

The checks of the first part ask what PyOD's tests ask of each of its detectors, in words of ours;
`docs/adr/0028` says how many of theirs pass.
"""

import subprocess
import sys

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import GridSearchCV

from helpers.cases import cases
from helpers.pairwise import each_value
from lpfuse import (
    SVDD,
    ColumnForest,
    FusedDetector,
    GMMDetector,
    HistogramDetector,
    KernelPCADetector,
    KNNDetector,
    OneClassGP,
)

pytest.importorskip("pyod", reason="PyOD is an extra")
from pyod.models.base import BaseDetector
from pyod.models.lof import LOF
from pyod.utils.data import generate_data

from lpfuse.adapters import PyODDetector, as_detector
from lpfuse.pyod import PyODFused

X, NEW, Y, TRUTH = generate_data(n_train=200, n_test=100, contamination=0.1, random_state=42)


def small():
    """A fused detector that takes a tenth of a second."""
    members = [("gmm", GMMDetector(2)), ("knn", KNNDetector())]
    return FusedDetector(members, cv=3, calibration="plain")


DETECTORS = {
    "fused": small(),
    "knn": KNNDetector(),
    "scikit-learn": IsolationForest(n_estimators=20),
}
OTHERS = {
    "default": None,
    "svdd": SVDD(),
    "gp": OneClassGP(),
    "kpca": KernelPCADetector(),
    "gmm": GMMDetector(),
    "histogram": HistogramDetector(),
    "columns": ColumnForest(),
}


def wrapped(detector):
    return PyODFused(detector, contamination=0.1, random_state=0)


@pytest.fixture(scope="module", params=DETECTORS)
def clf(request):
    return wrapped(DETECTORS[request.param]).fit(X)


def are_probabilities(values, shape):
    return values.shape == shape and values.min() >= 0 and values.max() <= 1


# ------------------------------------------------------------------- what PyOD asks of a detector


@pytest.mark.parametrize("detector", [*DETECTORS.values(), *OTHERS.values()], ids=str)
def test_scores_and_labels_follow_the_convention_of_pyod(detector):
    clf = wrapped(detector).fit(X)
    assert isinstance(clf, BaseDetector)
    for name in ("decision_scores_", "labels_", "threshold_", "_mu", "_sigma"):
        assert getattr(clf, name) is not None
    assert clf.decision_scores_.shape == (200,)
    assert np.isfinite(clf.decision_scores_).all()
    assert_array_equal(clf.labels_, (clf.decision_scores_ > clf.threshold_).astype(int))
    assert clf.labels_.sum() == 20
    scores = clf.decision_function(NEW)
    assert scores.shape == (100,)
    assert roc_auc_score(TRUTH, scores) >= 0.8
    assert_array_equal(scores, -clf.detector_.score_samples(NEW))
    assert_array_equal(clf.predict(NEW), (scores > clf.threshold_).astype(int))
    assert are_probabilities(clf.predict_proba(NEW), (100, 2))


@cases("method", ["linear", "unify"])
def test_probabilities_by_method_grow_with_the_score(clf, method):
    found = clf.predict_proba(NEW, method=method)
    assert are_probabilities(found, (100, 2))
    assert_allclose(found.sum(axis=1), 1.0)
    order = np.argsort(clf.decision_function(NEW))
    assert (np.diff(found[order, 1]) >= 0).all()


def test_an_unknown_way_to_probabilities_is_refused(clf):
    with pytest.raises(ValueError, match="not a valid probability conversion"):
        clf.predict_proba(NEW, method="something")


def test_confidence_beside_labels(clf):
    labels, confidence = clf.predict(NEW, return_confidence=True)
    assert labels.shape == (100,)
    assert are_probabilities(confidence, (100,))
    assert_array_equal(confidence, clf.predict_confidence(NEW))


def test_confidence_beside_probabilities(clf):
    proba, confidence = clf.predict_proba(NEW, method="linear", return_confidence=True)
    assert are_probabilities(proba, (100, 2))
    assert are_probabilities(confidence, (100,))


@pytest.mark.filterwarnings("ignore:The cost of rejection")
def test_rejection_of_unsure_rows(clf):
    assert set(clf.predict_with_rejection(NEW)) <= {-2, 0, 1}
    _, stats = clf.predict_with_rejection(NEW, return_stats=True)
    assert all(0 <= share <= 1 for share in stats[:2])
    assert stats[2] >= 0


@pytest.mark.filterwarnings("ignore:Function fit_predict:FutureWarning")
def test_fit_and_predict_at_once(clf):
    assert_array_equal(clone(clf).fit_predict(X), clf.labels_)


@pytest.mark.filterwarnings("ignore:Function fit_predict_score:FutureWarning")
def test_fit_predict_and_score_at_once(clf):
    fresh = clone(clf)
    area = fresh.fit_predict_score(NEW, TRUTH, scoring="roc_auc_score")
    assert area == roc_auc_score(TRUTH, fresh.decision_scores_)
    assert 0 <= fresh.fit_predict_score(NEW, TRUTH, scoring="prc_n_score") <= 1
    with pytest.raises(NotImplementedError, match="only supports"):
        fresh.fit_predict_score(NEW, TRUTH, scoring="something")


@cases(("normalized", "most"), [(False, 200), (True, 1)])
def test_ranks_keep_the_order(clf, normalized, most):
    ranks = clf._predict_rank(NEW, normalized=normalized)
    assert ranks.min() >= 0
    assert ranks.max() <= most
    # Scores that no training row lies between have the same rank: order is kept, ties appear.
    order = np.argsort(clf.decision_function(NEW))
    assert (np.diff(ranks[order]) >= 0).all()


def test_ranks_follow_scores_closely():
    """PyOD's bound, for one detector: ranks among training rows are those among new rows ± 3."""
    clf = PyODFused(KNNDetector(), random_state=0).fit(X)
    ranks, scores = clf._predict_rank(NEW), clf.decision_function(NEW)
    assert_allclose(rankdata(ranks), rankdata(scores), atol=3)


def test_it_can_be_cloned(clf):
    copy = clone(clf)
    assert copy.get_params().keys() == clf.get_params().keys()
    assert not hasattr(copy, "decision_scores_")
    assert_array_equal(copy.fit(X).decision_scores_, clf.decision_scores_)


# ------------------------------------------------------------------------------- what is ours


def test_parameters_of_what_is_inside_can_be_set():
    clf = PyODFused(SVDD(nu=0.2)).set_params(detector__nu=0.3, contamination=0.2)
    assert clf.get_params()["detector__nu"] == 0.3
    assert clf.fit(X).detector_.nu == 0.3
    assert clf.labels_.sum() == 40


def test_the_detector_that_was_given_stays_as_it_is():
    inner = GMMDetector()
    clf = PyODFused(inner, random_state=0).fit(X)
    assert not hasattr(inner, "offset_")
    assert inner.random_state is None
    assert clf.detector_ is not inner


def test_training_scores_of_a_fused_detector_are_held_out():
    clf = PyODFused(small(), random_state=0).fit(X)
    fused = clf.detector_
    assert_array_equal(clf.decision_scores_, -fused.held_out_.fused)
    assert roc_auc_score(Y, clf.decision_scores_) > 0.9


@pytest.mark.filterwarnings("ignore:.* of the rows have an exact copy")
@pytest.mark.parametrize("n", [150, 2_500])  # below and above where a fifth is kept back
def test_each_training_row_gets_its_own_held_out_score(n):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, 2))
    rows[0] = 8.0  # must have the highest score, wherever the detector keeps it
    rows = np.concatenate([rows, rows[1:30]])  # copies, which it learns from once
    clf = PyODFused(FusedDetector(small().detectors, cv=3), random_state=0).fit(rows)
    assert clf.decision_scores_.shape == (n + 29,)
    assert clf.decision_scores_.argmax() == 0
    assert_array_equal(clf.decision_scores_[n:], clf.decision_scores_[1:30])
    in_sample = clf.decision_function(rows)
    assert np.corrcoef(rankdata(in_sample), rankdata(clf.decision_scores_))[0, 1] > 0.8


def test_training_scores_leave_the_row_out_where_the_detector_can():
    for detector in (KNNDetector(), OneClassGP()):
        clf = PyODFused(detector).fit(X)
        assert_array_equal(clf.decision_scores_, -clf.detector_.leave_one_out_scores(X))


def test_others_score_training_rows_as_new_ones():
    clf = PyODFused(SVDD()).fit(X)
    assert_array_equal(clf.decision_scores_, clf.decision_function(X))


def test_new_normal_rows_exceed_the_threshold_at_the_contamination():
    rng = np.random.default_rng(0)
    held_out, in_sample = [], []
    for seed in range(10):
        rows, new = rng.normal(size=(60, 5)), rng.normal(size=(1_000, 5))
        clf = PyODFused(small(), contamination=0.1, random_state=seed).fit(rows)
        scores = clf.decision_function(new)
        held_out.append((scores > clf.threshold_).mean())
        in_sample.append((scores > np.quantile(clf.decision_function(rows), 0.9)).mean())
    # A tenth of 60 rows has a standard deviation of 4 points, the mean of ten sets of 1.2.
    assert 0.06 < np.mean(held_out) < 0.14
    assert np.mean(in_sample) > 0.15  # which is why training scores are held out


def test_labels_of_pyod_teach():
    rng = np.random.default_rng(1)
    rows = np.concatenate([rng.normal(size=(150, 4)), rng.normal(1, 1, size=(30, 4))])
    y = np.repeat([0, 1], [150, 30])
    gmm, expert = GMMDetector(random_state=0), LogisticRegression(random_state=0)
    pool = [("gmm", gmm), ("expert", expert)]
    fused = FusedDetector(pool, cv=3, calibration="plain", random_state=0)
    clf = PyODFused(fused).fit(rows, y)
    ours = clone(fused).fit(rows, 1 - 2 * y)
    assert_array_equal(clf.decision_function(rows), -ours.score_samples(rows))
    assert clf.detector_.detector_names_ == ["gmm", "expert"]


@cases("y", [[1, -1], [0, 2], [0, np.nan], ["0", "1"]])
def test_other_labels_are_refused_before_anything_is_fitted(y):
    clf = PyODFused()
    with pytest.raises(ValueError, match=r"0 \(normal\) and 1 \(anomaly\), got"):
        clf.fit([[0.0], [1.0]], y)
    assert not hasattr(clf, "detector_")


def test_a_seed_makes_it_reproducible_and_does_not_overrule():
    once, again = (PyODFused(ColumnForest(), random_state=3).fit(X) for _ in range(2))
    assert_array_equal(once.decision_scores_, again.decision_scores_)
    assert PyODFused(ColumnForest(random_state=7)).fit(X).detector_.random_state == 7


def test_what_is_not_usable_is_refused():
    for contamination in (0.0, 0.6, -1):
        with pytest.raises(ValueError, match="contamination must be in"):
            PyODFused(contamination=contamination)
    with pytest.raises(NotFittedError):
        PyODFused().decision_function(X)
    with pytest.raises(NotFittedError):
        PyODFused().predict(X)
    with pytest.raises(TypeError, match="has no score_samples"):
        PyODFused(object()).fit(X)
    clf = PyODFused(SVDD()).fit(X)
    with pytest.raises(ValueError, match="2 features"):
        clf.predict(np.zeros((3, 5)))
    with pytest.raises(ValueError, match="NaN"):
        clf.predict(np.full((1, 2), np.nan))


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_training_rows_without_a_score_are_refused_by_position():
    class Picky(GMMDetector):
        def score_samples(self, X):
            return np.where(np.arange(len(X)) == 5, np.nan, super().score_samples(X))

    with pytest.raises(ValueError, match=r"no score to 1 of its 200 training rows, .*position 5"):
        PyODFused(Picky()).fit(X)


def test_gaps_are_no_obstacle_to_the_default():
    rows = X.copy()
    rows[::9, 0] = np.nan
    clf = PyODFused(random_state=0).fit(rows)
    assert np.isfinite(clf.decision_scores_).all()
    assert np.isfinite(clf.decision_function(rows)).all()


def test_data_frames_go_through():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b"])
    clf = PyODFused(small(), random_state=0).fit(frame)
    same = PyODFused(small(), random_state=0).fit(X)
    assert_allclose(clf.decision_scores_, same.decision_scores_, rtol=1e-9)
    assert clf.predict(frame).shape == (200,)


def test_scikit_learn_searches_over_it():
    search = GridSearchCV(
        PyODFused(SVDD()),
        {"detector__nu": [0.05, 0.3]},
        cv=2,
        scoring=lambda clf, rows, y: average_precision_score(y, clf.decision_function(rows)),
    )
    order = np.random.default_rng(0).permutation(200)
    assert search.fit(X[order], Y[order].astype(int)).best_params_["detector__nu"] in (0.05, 0.3)


def test_inside_a_fused_detector_the_sign_is_turned_back():
    assert isinstance(as_detector(PyODFused()), PyODDetector)
    inner = PyODDetector(PyODFused(SVDD(), random_state=0)).fit(X)
    assert_array_equal(inner.score_samples(NEW), SVDD().fit(X).score_samples(NEW))


def test_the_model_inside_can_be_saved(tmp_path):
    import lpfuse

    clf = PyODFused(small(), random_state=0).fit(X)
    clf.detector_.save(tmp_path / "model")
    copy = lpfuse.load(tmp_path / "model")
    assert_array_equal(-copy.score_samples(NEW), clf.decision_function(NEW))


def test_it_survives_the_way_in_which_pyod_saves(tmp_path):
    clf = PyODFused(small(), random_state=0).fit(X)
    joblib.dump(clf, tmp_path / "clf.joblib")
    copy = joblib.load(tmp_path / "clf.joblib")
    assert_array_equal(copy.decision_function(NEW), clf.decision_function(NEW))
    assert_array_equal(copy.labels_, clf.labels_)


def test_without_the_extra_it_is_named():
    code = (
        "import sys; sys.modules['pyod'] = None\n"
        "try:\n    import lpfuse.pyod\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'lpfuse.pyod needs an extra: pip install "lpfuse[pyod]"'


# ------------------------------------------------------------------------- PyOD's ensembles

WIDE, WIDE_NEW, WIDE_Y, WIDE_TRUTH = generate_data(
    n_train=150, n_test=60, n_features=6, contamination=0.1, random_state=42
)
INSIDE = {
    "fused": lambda: PyODFused(small(), random_state=0),
    "svdd": lambda: PyODFused(SVDD()),
    "gp": lambda: PyODFused(OneClassGP()),
    "kpca": lambda: PyODFused(KernelPCADetector()),
    "gmm": lambda: PyODFused(GMMDetector(), random_state=0),
}


def finds_the_anomalies(ensemble):
    assert ensemble.decision_scores_.shape == (150,)
    assert set(ensemble.predict(WIDE_NEW)) == {0, 1}
    return roc_auc_score(WIDE_TRUTH, ensemble.decision_function(WIDE_NEW)) > 0.95


@each_value(inside=INSIDE, combination=["average", "max"])
def test_feature_bagging_takes_ours(inside, combination):
    pyod = pytest.importorskip("pyod.models.feature_bagging", exc_type=ImportError)
    bagging = pyod.FeatureBagging(
        INSIDE[inside](), n_estimators=3, combination=combination, random_state=0
    ).fit(WIDE)
    assert finds_the_anomalies(bagging)
    seeds = [each.random_state for each in bagging.estimators_]
    assert len(set(seeds)) == 3  # it seeds each of them


@pytest.mark.filterwarnings("ignore:The number of histogram bins")
def test_lscp_takes_ours_beside_its_own():
    from pyod.models.lscp import LSCP

    members = [*(make() for make in INSIDE.values()), LOF()]
    assert finds_the_anomalies(LSCP(members, random_state=0).fit(WIDE))


@pytest.mark.filterwarnings("ignore:UNK does not have a predefined code")
def test_suod_takes_ours_beside_its_own():
    pytest.importorskip("suod", reason="SUOD is not installed")
    from pyod.models.suod import SUOD

    members = [*(make() for make in INSIDE.values()), LOF()]
    # Without its forecast of costs, which trains a forest at each fit, and knows PyOD's names only.
    suod = SUOD(members, n_jobs=1, bps_flag=False, verbose=False).fit(WIDE)
    assert finds_the_anomalies(suod)


@pytest.mark.filterwarnings("ignore:y should not be presented", r"ignore:\[")  # and of "silent"
def test_xgbod_takes_ours_beside_its_own():
    pytest.importorskip("xgboost", reason="XGBOD needs xgboost, which is not installed")
    from pyod.models.xgbod import XGBOD

    members = [*(make() for make in INSIDE.values()), LOF()]
    xgbod = XGBOD(members, random_state=0).fit(WIDE, WIDE_Y)
    assert finds_the_anomalies(xgbod)
    assert xgbod.X_train_add_.shape == (150, 6)
