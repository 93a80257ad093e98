import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.compose import make_column_selector
from sklearn.ensemble import ExtraTreesClassifier, IsolationForest
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, PredefinedSplit, TimeSeriesSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import LocalOutlierFactor
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import OneClassSVM

from helpers.pools import Distance, Lowest, Says, anomalous_rows, both, normal_rows
from lpfuse import (
    SVDD,
    FixedRule,
    FusedDetector,
    GMMDetector,
    KernelPCADetector,
    LpFusion,
    OneClassGP,
    TailScaler,
    TwoSidedMinMax,
)
from lpfuse._validation.tables import check_table
from lpfuse.ensemble.folds import Rows, choose_calibration_rows, plan_folds
from lpfuse.metrics import best_g_mean
from lpfuse.threshold import THRESHOLD_RULES, contamination_offset
from oracles.fused import NaiveFused, silent_in
from oracles.tail_scaler import tail_scaler
from oracles.two_sided_min_max import two_sided_min_max

# Least squares reach their best inside the ball more often than not.
pytestmark = pytest.mark.filterwarnings("ignore:The constraint ‖w‖_p ≤ 1 is not active")

SVM = SVDD(gamma=0.05)
KPCA = KernelPCADetector(4, gamma=0.05)
GP = OneClassGP(gamma=0.05)
GMM = GMMDetector(2, random_state=0)
LOF = LocalOutlierFactor(n_neighbors=5, novelty=True)
FOREST = IsolationForest(n_estimators=5, random_state=0)

OURS = [("svdd", SVM), ("kpca", KPCA, [0, 1, 2]), ("gmm", GMM, [2, 3])]
THEIRS = [("lof", LOF), ("forest", FOREST, [1, 2, 3]), ("svm", OneClassSVM(nu=0.2))]
MIXED = [*OURS[:2], *THEIRS[:2]]
EXPERTS = [("logistic", LogisticRegression()), ("bayes", GaussianNB(var_smoothing=1.0), [0, 3])]
QUICK = [("near", Distance(), [0, 1]), ("far", Distance(), [2, 3]), ("all", Distance(power=2))]
# Weights without a doubt: for the hinge loss the best ones can be many, and rounding decides.
SMOOTH = LpFusion(p=2, loss="least_squares", class_weight="balanced", tol=1e-12)
SPARSE = clone(SMOOTH).set_params(p=1)

X, Y = both(60, 10)
NORMAL = normal_rows(60)
HALF = np.where(np.arange(len(Y)) % 2, Y, 0)  # every other row is unlabelled
ONLY_ANOMALIES = np.where(Y > 0, 0, Y)
NEW = np.vstack([normal_rows(6, seed=8), anomalous_rows(6, seed=9)])
NAMES = ["height", "width", "depth", "weight"]
RULES = ", ".join(map(repr, THRESHOLD_RULES))


told_of_gaps = pytest.mark.filterwarnings("ignore:Some detectors could not score some rows")
SIGHTS = [(name, Distance(), [j]) for j, name in enumerate(NAMES)]
GAPPY = np.array(  # every pattern of missing cells
    [np.where([j >> k & 1 for k in range(4)], np.nan, NEW[j % len(NEW)]) for j in range(16)]
)


def with_gaps(X, share=0.25, seed=3):
    """Cells missing in the first two columns only, so that some rows can be scored by all."""
    holes = np.random.default_rng(seed).random((len(X), 4)) < share
    return np.where(holes & [True, True, False, False], np.nan, X)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


# ------------------------------------------------------------------ the whole flow, step by step


def dealt_out(
    X,
    y=None,
    *,
    cv,
    groups=None,
    kind=None,
    chances=None,
    calibration="cross",
    artificial_anomalies=False,
    **_,
):
    """The rows and folds of a fit with random_state=0, which deals them out first."""
    labels, random = np.zeros(len(X)) if y is None else y.astype(float), np.random.RandomState(0)
    rows = Rows(check_table(X), labels, groups, kind, chances)
    training = plan_folds(rows, cv, calibration, random)
    if artificial_anomalies and not (labels < 0).any():
        return training.with_artificial_anomalies(random)
    return training


def folds_of(part, training, cv):
    """Pairs of rows to learn from and to score, among those that a part was learnt from."""
    if training.folds is None:
        return None
    if not isinstance(cv, int):
        pairs = training.folds.among(part.learnt).pairs
        return [(set(learn), set(score)) for learn, score in pairs]
    fold = part.out_of_fold.fold
    every = set(range(len(fold)))
    scored = [set(np.flatnonzero(fold == number)) for number in np.unique(fold)]
    return [(every - score, score) for score in scored]


def assert_as_naive(pool, X, y=None, *, fit=None, views=None, naive=None, **settings):
    """A fused detector and one that does everything one by one agree; both are handed back."""
    settings = {"cv": 3} | settings
    fused = FusedDetector(pool, random_state=0, **settings).fit(X, y, **(fit or {}))
    training = dealt_out(X, y, **(fit or {}), **settings)
    everything = list(range(np.shape(X)[1]))
    views = views or [entry[2] if len(entry) > 2 else everything for entry in pool]
    folds = training.folds
    if training.jittered is not None:  # those of the parts are others, and are not kept
        settings["calibration"] = "plain"
        fused.set_params(calibration="plain").fit(X, y, **(fit or {}))
    parts = [
        (part.learnt, folds_of(part, training, settings["cv"]), part.out_of_fold.fold, part.hidden)
        for part in fused.unseen_.parts
    ]
    expected = NaiveFused(
        [(entry[1], view) for entry, view in zip(pool, views, strict=True)],
        np.asarray(training.X),
        training.labels,
        None if folds is None else [(set(learn), set(score)) for learn, score in folds.pairs],
        fused.out_of_fold_.fold,
        fusion=clone(fused.fusion_),
        kept_back=None if training.calibration_X is None else np.asarray(training.calibration_X),
        parts=parts,
        dealt=folds is None or folds.dealt,
        jittered=() if training.jittered is None else training.jittered,
        source=training.source,
        chances=training.chances,
        **(naive or {}),
    )
    close(fused.out_of_fold_.scores, expected.out_of_fold)
    assert (fused.out_of_fold_.weights is None) == (expected.counts is None)
    if expected.counts is not None:
        close(fused.out_of_fold_.weights[: len(training.labels)], expected.counts)
    close(fused.weights_, expected.weights)
    close(fused.calibration_, sorted(expected.calibration()))
    assert_scores_as_naive(fused, expected, NEW)
    return fused, expected


def assert_scores_as_naive(fused, expected, new):
    """Also of rows that some detectors do not score."""
    frame = pd.DataFrame(new, columns=NAMES) if hasattr(fused, "feature_names_in_") else new
    raw = [expected.raw(row) for row in new]
    scores = np.array([expected.score(row) for row in new])
    close(fused.detector_scores(frame), raw)
    close(fused.score_samples(frame), scores)
    close(fused.contributions(frame), [expected.contributions(row) for row in new])
    close(fused.contributions(frame).sum(axis=1), scores)
    close(fused.pvalues(frame), [expected.pvalue(row) for row in new])
    if fused.threshold == "false-alarms" and fused.contamination is None:
        close(fused.offset_, expected.false_alarm_offset(fused.false_alarm_rate))
        silent = [silent_in(scores) for scores in raw]
        offsets = [expected.false_alarm_offset(fused.false_alarm_rate, some) for some in silent]
        close(fused.decision_function(frame), scores - offsets)
        np.testing.assert_array_equal(fused.predict(frame), np.where(scores >= offsets, 1, -1))


@pytest.mark.parametrize(
    ("pool", "fusion"),
    [(OURS, None), (THEIRS, FixedRule()), (MIXED, LpFusion(p=1.1))],
    ids=["ours", "theirs", "mixed"],
)
def test_only_normal_rows(pool, fusion):
    fused, _ = assert_as_naive(pool, NORMAL, fusion=fusion)
    assert len(fused.calibration_) == len(NORMAL)
    assert fused.detector_names_ == [entry[0] for entry in pool]
    assert (fused.certificate_ is None) == isinstance(fusion, FixedRule)


@pytest.mark.parametrize("y", [Y, HALF, ONLY_ANOMALIES], ids=["all", "half", "anomalies"])
def test_experts_with_labels_for_some_rows(y):
    fused, _ = assert_as_naive([*OURS[:2], *EXPERTS], X, y, fusion=SMOOTH)
    assert len(fused.calibration_) == (y >= 0).sum()


def test_labels_without_experts():
    assert_as_naive(MIXED, X, HALF, fusion=SMOOTH)


@pytest.mark.parametrize("y", [HALF, Y, ONLY_ANOMALIES], ids=["half", "all", "anomalies"])
@pytest.mark.parametrize("pool", [QUICK, [*QUICK, *EXPERTS]], ids=["without experts", "with"])
def test_answers_stand_for_rows_that_were_not_asked_about(y, pool):
    """Some were asked about, with chances that differ; some labels are from elsewhere."""
    chances = np.random.default_rng(0).choice([0.01, 0.4, 1.0, np.nan], len(y))
    fit = {"chances": np.where(y == 0, np.nan, chances)}
    fused, expected = assert_as_naive(pool, X, y, fusion=SMOOTH, fit=fit)
    assert max(expected.counts) == 10  # what is asked about with a small chance counts for many
    told, _ = assert_as_naive(pool, X, y, fusion=SMOOTH)
    assert (fused.weights_ != told.weights_).any()


@told_of_gaps
def test_rows_with_gaps_are_suspected_by_the_detectors_that_speak():
    fit = {"chances": np.where(HALF == 0, np.nan, 0.3)}
    assert_as_naive([*SIGHTS, EXPERTS[1]], with_gaps(X), HALF, fusion=SMOOTH, fit=fit)


def test_experts_alone():
    assert_as_naive(EXPERTS, X, Y, fusion=SMOOTH)


def splits_of_some_rows(cv, of=X):
    """Splits that score two rows of three, each learning from what is not scored with it."""
    return [(learn, score[score % 3 > 0]) for learn, score in cv.split(of)]


@pytest.mark.parametrize(
    "cv",
    [2, 3, 5, KFold(4, shuffle=True, random_state=0), splits_of_some_rows(KFold(3, shuffle=True))],
    ids=["two", "three", "five", "KFold", "list"],
)
def test_experts_with_folds_of_any_kind(cv):
    """Folds that were dealt out here make a mean of fits, of others there is a fit to all rows."""
    fused, expected = assert_as_naive([*QUICK, *EXPERTS], X, HALF, cv=cv, fusion=SMOOTH)
    fits = [getattr(expert.estimator, "fits", None) for expert in fused.pool_.experts]
    if isinstance(cv, int):
        assert [len(some) for some in fits] == [cv, cv]
        assert (np.array(expected.calms) < 1).all() == (cv > 2)
        assert len(fused.unseen_.parts) == cv
    else:
        assert fits == [None, None]
        assert expected.calms == [1.0, 1.0]
        assert len(fused.unseen_.parts) == len(list(cv)) if isinstance(cv, list) else 4


@pytest.mark.parametrize("calibration", ["plain", "split"])
@pytest.mark.parametrize("y", [Y, HALF], ids=["all", "half"])
def test_without_parts_experts_see_scores_of_all_rows(calibration, y):
    settings = {"calibration": calibration, "false_alarm_rate": 0.2, "fusion": SMOOTH}
    fused, _ = assert_as_naive([*QUICK, *EXPERTS], X, y, **settings)
    assert fused.unseen_.by == calibration


@pytest.mark.parametrize("y", [Y, HALF], ids=["all", "half"])
def test_groups_with_experts(y):
    """Also the anomalies of a group that is hidden are kept from what is learnt without it."""
    groups = np.arange(len(X)) * 7 % len(X) // 4
    fused, _ = assert_as_naive([*QUICK, *EXPERTS], X, y, fit={"groups": groups}, fusion=SMOOTH)
    assert len(fused.unseen_.parts) == 3
    for part in fused.unseen_.parts:
        assert not set(groups[part.learnt]) & set(groups[part.hidden])


@pytest.mark.parametrize("cv", [3, KFold(3)], ids=["dealt", "KFold"])
def test_averaged_expert_fits_have_different_seeds(cv):
    """Trees alone: a score that is off in the last digit might take another branch."""
    pool = [("trees", ExtraTreesClassifier(5, random_state=2**31 - 2)), EXPERTS[0]]
    assert_as_naive(pool, X, Y, cv=cv, fusion=SMOOTH)


@pytest.mark.parametrize("y", [None, Y], ids=["pure", "labels"])
def test_groups(y):
    groups = np.arange(len(X)) // 4
    assert_as_naive([*QUICK, ("gp", GP)], X, y, fit={"groups": groups})
    for learn, score in dealt_out(X, y, cv=3, groups=groups).folds.pairs:
        assert not set(groups[learn]) & set(groups[score])


@pytest.mark.parametrize("kind", [np.arange(len(Y)) % 3, "clusters"], ids=["names", "clusters"])
def test_kinds(kind):
    fused, _ = assert_as_naive([*QUICK, *EXPERTS], X, Y, fusion=SMOOTH, fit={"kind": kind})
    training = dealt_out(X, Y, cv=3, kind=kind)
    np.testing.assert_array_equal(fused.out_of_fold_.fold, training.folds.of_row)
    for learn, score in training.folds.pairs:
        learnt, scored = (rows[training.labels[rows] < 0] for rows in (learn, score))
        assert not set(training.kinds[learnt]) & set(training.kinds[scored])


@pytest.mark.parametrize("y", [None, Y], ids=["pure", "labels"])
def test_in_sample(y):
    fused, _ = assert_as_naive(MIXED, X, y, cv="in-sample", fusion=SMOOTH)
    rows = X if y is None else X[y > 0]
    own = clone(SVM).fit(rows).score_samples(X)
    close(fused.out_of_fold_.scores[:, 0], own)


@pytest.mark.parametrize("cv", ["in-sample", "prefit"])
def test_groups_stay_together_where_only_the_weights_have_folds(cv):
    groups = np.arange(len(X)) // 7
    pool = [(f"{j}", Distance([j]).fit(NORMAL)) for j in range(4)]
    fused = FusedDetector(pool, cv=cv, random_state=0).fit(X, Y, groups=groups)
    folds = [set(fused.out_of_fold_.fold[groups == group]) for group in set(groups)]
    assert {len(fold) for fold in folds} == {1}
    assert len(set.union(*folds)) == 5


def test_prefit():
    before = normal_rows(50, seed=5)
    detectors = [clone(detector).fit(before) for detector in (SVM, LOF, FOREST)]
    classifier = LogisticRegression().fit(*both(30, 30, seed=6))
    pool = [(f"{j}", detector) for j, detector in enumerate([*detectors, classifier])]
    fused, _ = assert_as_naive(pool, X, Y, cv="prefit", fusion=SMOOTH, naive={"prefit": True})
    close(fused.detector_scores(NEW)[:, 1], detectors[1].score_samples(NEW))
    close(fused.detector_scores(NEW)[:, 3], classifier.decision_function(NEW))


def test_what_is_frozen_stays_as_it_is_among_others():
    frozen = FrozenEstimator(clone(FOREST).fit(normal_rows(50, seed=5)))
    fused = FusedDetector([*QUICK, ("frozen", frozen)], random_state=0).fit(X, Y)
    close(fused.detector_scores(NEW)[:, 3], frozen.score_samples(NEW))


@pytest.mark.parametrize(
    "cv",
    [
        2,
        5,
        KFold(3),
        PredefinedSplit(np.arange(len(X)) % 4),
        list(KFold(4, shuffle=True, random_state=1).split(X)),
        PredefinedSplit(np.arange(len(X)) % 3 - 1),  # a third of the rows is never scored
        TimeSeriesSplit(3),
        [(np.arange(40), np.arange(40, 70))],  # a single split
    ],
    ids=["two", "five", "KFold", "predefined", "list", "partly", "in time", "single"],
)
def test_folds_of_any_kind(cv):
    fused, _ = assert_as_naive(QUICK, X, Y, cv=cv, fusion=SMOOTH)
    scored = fused.out_of_fold_.fold >= 0
    assert len(fused.calibration_) == (Y[scored] > 0).sum()


@pytest.mark.parametrize("y", [None, Y, HALF], ids=["pure", "labels", "half"])
@pytest.mark.parametrize("cv", [5, "in-sample"])
def test_split_calibration(y, cv):
    fused, _ = assert_as_naive(QUICK, X, y, cv=cv, calibration="split", false_alarm_rate=0.2)
    normal = len(X) if y is None else (y >= 0).sum()
    assert len(fused.calibration_) == round(normal / 5)
    labels = np.ones(len(X)) if y is None else np.where(y < 0, -1, 1)
    aside = choose_calibration_rows(labels, None, np.random.RandomState(0))
    assert aside.sum() == round(normal / 5)
    assert y is None or (y[aside] >= 0).all()
    assert len(fused.out_of_fold_.labels) == len(X) - aside.sum()


def test_split_calibration_with_groups():
    groups = np.arange(len(X)) // 5
    settings = {"calibration": "split", "false_alarm_rate": 0.2, "fit": {"groups": groups}}
    fused, _ = assert_as_naive(QUICK, X, HALF, **settings)
    stand_in = np.where(HALF < 0, -1, 1)
    aside = choose_calibration_rows(stand_in, groups, np.random.RandomState(0))
    assert len(fused.out_of_fold_.labels) == len(X) - aside.sum()
    assert aside.any()
    assert not set(groups[aside]) & set(groups[~aside])


def test_artificial_anomalies_are_scored_without_their_source():
    fused, _ = assert_as_naive([*QUICK, ("gp", GP)], NORMAL, artificial_anomalies=True)
    assert (fused.out_of_fold_.labels < 0).sum() == len(NORMAL)
    np.testing.assert_array_equal(fused.held_out_.labels, 1)
    labelled = FusedDetector(QUICK, artificial_anomalies=True, random_state=0).fit(X, Y)
    assert len(labelled.out_of_fold_.labels) == len(X)  # there are real ones


VIEWS = {
    "names": (["width", "depth"], [1, 2]),
    "position": (np.int64(2), [2]),
    "mask": (np.array([True, False, True, False]), [0, 2]),
    "slice": (slice(1, 3), [1, 2]),
    "function": (lambda X: [3, 2], [3, 2]),
    "selector": (make_column_selector(pattern="^w"), [1, 3]),
    "everything": (None, [0, 1, 2, 3]),
}


@pytest.mark.parametrize(("view", "positions"), VIEWS.values(), ids=VIEWS)
def test_views(view, positions):
    pool = [("near", Distance(), [0, 1]), ("far", Distance(power=2), view), (*EXPERTS[1][:2], view)]
    frame = pd.DataFrame(X, columns=NAMES)
    fused, _ = assert_as_naive(pool, frame, Y, views=[[0, 1], positions, positions])
    found = {name: columns for name, _, columns in fused.detectors_}["far"]
    assert (found is None) == (view is None)
    assert view is None or found.tolist() == positions


@pytest.mark.parametrize("scaler", [TwoSidedMinMax(rho=20, clip=True), MinMaxScaler()])
def test_scalers_of_any_kind(scaler):
    def scaling(reference, scores):
        if isinstance(scaler, TwoSidedMinMax):
            return two_sided_min_max(reference, scores, rho=20, clip=True)
        low, high = np.min(reference, axis=0), np.max(reference, axis=0)
        return ((np.array(scores) - low) / (high - low)).tolist()

    naive = {"scaling": scaling}
    assert_as_naive([*QUICK, EXPERTS[0]], X, Y, scaler=scaler, fusion=FixedRule(), naive=naive)


def test_the_scale_on_which_the_loudest_is_heard():
    pool, naive = [*QUICK, EXPERTS[0]], {"scaling": tail_scaler}
    fused, _ = assert_as_naive(pool, X, Y, scaler=TailScaler(), fusion=FixedRule(), naive=naive)
    assert fused.score_samples(NEW).min() < -8  # beyond any score of a linear scale


def test_leave_one_out_by_the_formula_is_leave_one_out():
    pool = [QUICK[0], ("gp", GP), EXPERTS[0]]
    assert_as_naive(pool, X, HALF, fusion=SMOOTH, naive={"one_by_one": [1]})


# ---------------------------------------------------------------------------------- thresholds


def test_threshold_uses_held_out_rows():
    for rate in (0.05, 0.2, 0.5):
        fused = FusedDetector(QUICK, false_alarm_rate=rate, random_state=0).fit(X, Y)
        assert (fused.calibration_ < fused.offset_).sum() == int(rate * 61) - 1
        new = fused.score_samples(NEW)
        np.testing.assert_array_equal(fused.pvalues(NEW) <= rate, new < fused.offset_)


@pytest.mark.parametrize("y", [Y, HALF], ids=["all", "half"])
def test_g_mean_threshold_is_best_on_held_out_rows(y):
    """Rows that nobody looked at stand in for normal ones."""
    fused, expected = assert_as_naive(QUICK, X, y, threshold="g-mean", fusion=SMOOTH)
    scores, labels, _ = zip(*expected.scored(), strict=True)
    assert labels.count(1) == (y >= 0).sum()
    close(fused.offset_, best_g_mean(labels, scores)[1])


@pytest.mark.parametrize("calibration", ["cross", "split"])
def test_contamination_is_a_share_of_rows_that_nobody_has_seen(calibration):
    settings = {"contamination": 0.2, "calibration": calibration, "random_state": 0}
    fused = FusedDetector([*QUICK, EXPERTS[0]], **settings).fit(X, HALF)
    held_out = fused.held_out_
    assert len(held_out.fused) == len(X)  # every row, by detectors without it
    if calibration == "cross":
        assert fused.offset_ == contamination_offset(held_out.fused, 0.2)
        return
    # Each normal row that was kept back stands for as many as there are to one of them.
    normal, aside = held_out.labels > 0, held_out.calibrates
    each = normal.sum() / aside.sum()
    below = held_out.fused < fused.offset_
    share = (below[aside].sum() * each + below[~normal].sum()) / len(X)
    assert share <= 0.2 < share + each / len(X)


@pytest.mark.parametrize("share", [0.05, 0.1])
def test_contamination_keeps_its_word_on_fresh_rows(share):
    """By scores of the training rows themselves it raised 17 % for 5 %, and 20 % for 10 %."""
    rng = np.random.default_rng(0)
    alarms = []
    for _ in range(20):
        rows, fresh = rng.normal(size=(200, 3)), rng.normal(size=(500, 3))
        fused = FusedDetector([("gp", OneClassGP())], contamination=share, random_state=0)
        alarms.append((fused.fit(rows).predict(fresh) < 0).mean())
    assert abs(np.mean(alarms) - share) < 0.02


def test_too_few_rows_for_the_rate_call_nothing_an_anomaly():
    with pytest.warns(UserWarning, match="10 normal rows cannot hold false alarms to 0.05"):
        fused = FusedDetector(QUICK, random_state=0).fit(NORMAL[:10])
    assert fused.offset_ == -np.inf
    np.testing.assert_array_equal(fused.predict(100 * NEW), 1)


# ---------------------------------------------------------------------------- silent detectors


@told_of_gaps
@pytest.mark.parametrize("fusion", [FixedRule(), SMOOTH, SPARSE])
@pytest.mark.parametrize("gaps", [False, True], ids=["new rows", "all rows"])
def test_every_pattern_of_gaps_has_its_own_threshold(gaps, fusion):
    rows = with_gaps(X) if gaps else X
    fused, expected = assert_as_naive(SIGHTS, rows, Y, fusion=fusion)
    assert_scores_as_naive(fused, expected, GAPPY)


@told_of_gaps
@pytest.mark.parametrize("threshold", ["g-mean", "contamination", "split"])
def test_every_threshold_knows_gaps(threshold):
    settings = {
        "g-mean": {"threshold": "g-mean"},
        "contamination": {"contamination": 0.2},
        "split": {"calibration": "split", "false_alarm_rate": 0.2},
    }[threshold]
    fused, expected = assert_as_naive(SIGHTS, with_gaps(X), Y, fusion=FixedRule(), **settings)
    assert_scores_as_naive(fused, expected, GAPPY)
    for row in GAPPY[:-1]:
        silent = silent_in(row)
        if threshold == "g-mean":
            scores, labels, _ = zip(*expected.scored(silent), strict=True)
            offset = best_g_mean(labels, scores)[1]
        elif threshold == "contamination":
            offset = contamination_offset([score for score, *_ in expected.scored(silent)], 0.2)
        else:
            offset = expected.false_alarm_offset(0.2, silent)
        decision = fused.decision_function(row[None])
        close(decision, expected.score(row) - offset)


@told_of_gaps
def test_gaps_everywhere_with_tolerant_detectors():
    pool = [*SIGHTS[:2], ("forest", FOREST), ("lof", LOF), *EXPERTS]
    fused, expected = assert_as_naive(pool, with_gaps(X), Y, fusion=SMOOTH)
    assert_scores_as_naive(fused, expected, GAPPY)
    assert not np.isnan(fused.detector_scores(GAPPY)[:, 2]).any()  # forests know missing cells


@told_of_gaps
def test_expert_recovers_when_anomalies_are_complete():
    """In the fold that hides the only complete one, nothing is left to learn from."""
    rows, y = both(40, 3)
    rows[np.flatnonzero(y < 0)[:2], 0] = np.nan
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* are left out")
        fused = FusedDetector([*SIGHTS, EXPERTS[0]], random_state=0).fit(rows, y)
    assert fused.detector_names_[:4] == NAMES
    assert np.isfinite(fused.decision_function(NEW)).all()


@told_of_gaps
def test_one_row_at_a_time_or_all_at_once():
    fused = FusedDetector(SIGHTS, random_state=0).fit(X, Y)
    for method in ("score_samples", "decision_function", "predict", "pvalues", "contributions"):
        ask = getattr(fused, method)
        close(ask(GAPPY), np.concatenate([ask(row[None]) for row in GAPPY]))


def test_gaps_are_told_with_their_numbers():
    fused = FusedDetector(SIGHTS, fusion=FixedRule(), random_state=0).fit(X, Y)
    with pytest.warns(UserWarning, match="could not score some rows") as caught:
        scores = fused.score_samples(GAPPY)
    assert [str(warning.message) for warning in caught] == [
        "Some detectors could not score some rows: 'height' (8 of 16 rows), 'width' (8 of 16 rows),"
        " 'depth' (8 of 16 rows), 'weight' (8 of 16 rows). The others decide on those rows. No"
        " detector with a weight could score 1 of them."
    ]
    np.testing.assert_array_equal(np.isnan(scores), np.arange(16) == 15)
    with pytest.warns(UserWarning, match="could not score"):
        assert fused.predict(GAPPY)[15] == -1  # nobody vouches for it
    with pytest.warns(
        UserWarning, match=r"'height' \(1 of 1 rows\). The others decide on those rows.$"
    ):
        fused.predict(GAPPY[[1]])


def test_who_has_no_weight_decides_nothing():
    fused = FusedDetector(SIGHTS, fusion=LpFusion(p=1), random_state=0).fit(X)
    idle = int(np.argmin(np.abs(fused.weights_)))
    assert abs(fused.weights_[idle]) < 1e-6
    row = np.where(np.arange(4) == idle, 1.0, np.nan)[None]
    with pytest.warns(UserWarning, match="No detector with a weight could score 1 of them"):
        assert np.isnan(fused.score_samples(row))
    with pytest.warns(UserWarning, match="No detector with a weight"):
        assert fused.predict(row) == -1


def test_every_method_warns_of_gaps():
    fused = FusedDetector(SIGHTS, random_state=0).fit(X, Y)
    for method in ("score_samples", "predict", "pvalues", "contributions", "detector_scores"):
        with pytest.warns(UserWarning, match=r"'width' \(1 of 2 rows\)"):
            getattr(fused, method)(GAPPY[[0, 2]])
    with pytest.warns(UserWarning, match=r"'height' \(\d+ of 70 rows\), 'width'"):
        FusedDetector(SIGHTS).fit(with_gaps(X), Y)


def fails_for_large(X):
    if (np.abs(X) > 50).any():
        raise RuntimeError("out of range")
    return -np.abs(X).sum(axis=1)


def test_an_error_while_scoring_silences_one_detector():
    fused = FusedDetector([*QUICK, ("shy", Says(fails_for_large))], random_state=0).fit(X)
    far = np.where(NEW == NEW[0, 0], 60.0, NEW)
    told = r"'shy' \(12 of 12 rows: RuntimeError: out of range\)"
    with pytest.warns(UserWarning, match=told):
        raw = fused.detector_scores(far)
    assert np.isnan(raw[:, 3]).all()
    close(raw[:, :3], FusedDetector(QUICK, random_state=0).fit(X).detector_scores(far))
    with pytest.warns(UserWarning, match=told):
        assert not np.isnan(fused.decision_function(far)).any()


def test_a_score_that_is_not_a_number_is_a_gap():
    moody = ("moody", Says(lambda X: np.where(X[:, 0] > 0, np.nan, X[:, 1])))
    with pytest.warns(UserWarning, match=r"'moody' \(\d+ of 70 rows\)"):
        fused = FusedDetector([*QUICK, moody], random_state=0).fit(X)
    with pytest.warns(UserWarning, match="'moody'"):
        raw = fused.detector_scores(NEW)
    np.testing.assert_array_equal(np.isnan(raw[:, 3]), NEW[:, 0] > 0)


def test_scores_without_bounds_stay_in_order():
    def boundless(X):
        return np.select([X[:, 0] < -1.5, X[:, 0] > 1.8], [-np.inf, np.inf], X[:, 0])

    for scaler in (TwoSidedMinMax(), TwoSidedMinMax(clip=False), StandardScaler()):
        pool = [*QUICK, ("boundless", Says(boundless))]
        fused = FusedDetector(pool, scaler=scaler, random_state=0).fit(X)
        rows = np.repeat([[-2.0], [0.0], [2.0]], 4, axis=1)
        raw = fused.detector_scores(rows)
        assert np.isfinite(raw).all()
        assert raw[0, 3] < -1e50
        assert raw[2, 3] > 1e50
        assert np.isfinite(fused.decision_function(rows)).all()


@told_of_gaps
def test_a_fusion_that_is_not_a_sum_needs_every_detector():
    fused = FusedDetector(SIGHTS, fusion=Lowest(), random_state=0).fit(X, Y)
    with pytest.raises(AttributeError, match=r"Lowest.* does not add up the scores"):
        fused.contributions(NEW)
    scaled = fused.scaler_.transform(fused.detector_scores(NEW))
    close(fused.score_samples(NEW), scaled.min(axis=1))
    some = fused.decision_function(GAPPY)
    np.testing.assert_array_equal(np.isnan(some), np.arange(16) > 0)
    np.testing.assert_array_equal(np.isnan(fused.pvalues(GAPPY)), np.arange(16) > 0)


# ------------------------------------------------------------- what a fit keeps, and leaves alone


def fitted_state(fused):
    return {name: value for name, value in vars(fused).items() if name.endswith("_")}


SEEDED = [
    ("forest", IsolationForest(n_estimators=5)),
    ("gmm", GMMDetector(2)),
    ("svdd", SVDD(gamma=0.05, approximation="nystroem", n_components=10)),
    ("kpca", KPCA),
    ("trees", ExtraTreesClassifier(5)),
    ("own seed", IsolationForest(n_estimators=5, random_state=3)),
]


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_the_seed_decides_and_not_the_number_of_jobs(backend):
    with parallel_config(backend=backend):
        first, again, other = (
            FusedDetector(SEEDED, random_state=seed, n_jobs=jobs, cv=2).fit(X, Y, kind="clusters")
            for seed, jobs in [(0, 1), (0, 2), (1, 1)]
        )
    for method in ("detector_scores", "decision_function", "pvalues", "contributions"):
        one, two, three = (getattr(fused, method)(NEW) for fused in (first, again, other))
        np.testing.assert_array_equal(one, two)
        assert (one != three).any()
    np.testing.assert_array_equal(first.calibration_, again.calibration_)
    raw, others = first.detector_scores(NEW), other.detector_scores(NEW)
    same = (raw == others).all(axis=0)
    names = np.array(first.detector_names_)
    assert names[same].tolist() == ["kpca", "own seed"]  # neither asks for our seed


def test_without_a_seed_fits_differ():
    first, again = (FusedDetector(QUICK).fit(X, Y).calibration_ for _ in range(2))
    assert (first != again).any()


def test_what_users_pass_is_never_modified():
    pool = [(name, clone(detector), *columns) for name, detector, *columns in [*MIXED, *EXPERTS]]
    scaler, fusion = TwoSidedMinMax(), clone(SMOOTH)
    before = repr([detector.get_params() for _, detector, *_ in pool])
    rows, labels = X.copy(), HALF.copy()
    fused = FusedDetector(pool, scaler=scaler, fusion=fusion, random_state=0)
    parameters = fused.get_params(deep=False)
    fused.fit(rows, labels).predict(rows)
    assert repr([detector.get_params() for _, detector, *_ in pool]) == before
    assert fused.get_params(deep=False) == parameters
    for estimator in (scaler, fusion, *(entry[1] for entry in pool)):
        assert not fitted_state(estimator)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(labels, HALF)


@pytest.mark.parametrize(
    ("spoil", "arguments"),
    [
        ({}, (NORMAL * np.inf,)),
        ({}, (X[:, :2],)),
        ({}, (X, Y + 5)),
        ({"cv": "twice"}, (X,)),
        ({"threshold": "g-mean"}, (NORMAL,)),
        ({"near__columns": [7]}, (NORMAL,)),
        ({"scaler": TwoSidedMinMax(rho=-1)}, (X, Y)),
        ({"fusion": LpFusion(p=0.5)}, (X, Y)),
    ],
)
def test_a_refused_fit_leaves_no_trace(spoil, arguments):
    fused = FusedDetector([(name, clone(made), *view) for name, made, *view in QUICK])
    fused.set_params(random_state=0).fit(pd.DataFrame(X, columns=NAMES), Y)
    before = fitted_state(fused)
    fused.set_params(**spoil)
    with pytest.raises((ValueError, IndexError)):
        fused.fit(*arguments)
    after = fitted_state(fused)
    assert before.keys() == after.keys()
    assert all(after[name] is value for name, value in before.items())


def test_progress_is_told_to_the_end():
    told = []
    pool = [*OURS, ("gp", GP), *THEIRS[:1], *EXPERTS]
    FusedDetector(pool, random_state=0).fit(X, Y, progress=lambda *step: told.append(step))
    done, total = np.array(told).T
    assert (np.diff(done) > 0).all()
    assert done[0] > 0
    assert (np.diff(total) <= 0).all()  # what is left never grows
    assert (done[:-1] < total[:-1]).all()
    assert done[-1] == total[-1]
    # What was foreseen, before there were experts, is not far from what it came to.
    assert total[0] <= 1.2 * total[-1]


def test_progress_can_be_a_line_on_standard_error(capsys):
    FusedDetector(QUICK, cv=2, random_state=0).fit(X, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.removesuffix("\n").split("\r")
    assert len(lines) == 1 + 54  # three detectors, all rows and two folds; and five parts
    told = [int(line.removeprefix("Fitting detectors: ").removesuffix("%")) for line in lines[1:]]
    assert told == sorted(told)
    assert told[0] < 5
    assert told[-1] == 100
    assert err.count("\n") == 1
    assert err.endswith("\n")
    FusedDetector(QUICK, cv=2, random_state=0).fit(X)
    assert capsys.readouterr() == ("", "")


# ----------------------------------------------------------------------------- pools by name


def test_the_paper_and_the_default():
    paper = FusedDetector("paper", cv=2, random_state=0).fit(X)
    assert paper.detector_names_ == ["svdd", "gp", "kpca", "gmm"]
    pure, many, in_sample = (
        FusedDetector(cv=cv, random_state=0).fit(X, y).detector_names_
        for cv, y in [(2, np.ones(len(X))), (2, Y), ("in-sample", Y)]
    )
    assert pure == many[: len(pure)]
    assert len(many) > len(pure) > 4
    assert in_sample == pure  # an expert knows the rows that it has learnt from


def test_the_best_weights_carry_their_proof():
    fused = FusedDetector(QUICK, fusion=LpFusion(p=1.5), random_state=0).fit(X, Y)
    assert fused.certificate_.status == "optimal"
    assert fused.certificate_ is fused.fusion_.certificate_
    assert np.linalg.norm(fused.weights_, 1.5) <= 1 + 1e-12


# ------------------------------------------------------------------------------------- errors


def refused(words, *arguments, error=ValueError, fit=None, pool=QUICK, **settings):
    with pytest.raises(error, match=words) as caught:
        FusedDetector(pool, **settings).fit(*(arguments or [X, Y]), **(fit or {}))
    return caught.value


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"threshold": "best"}, f"threshold must be one of {RULES}; got 'best'"),
        ({"calibration": "none"}, "calibration must be one of .*, 'split'; got 'none'"),
        ({"cv": "folds"}, "cv must be one of 'in-sample', 'prefit'; got 'folds'"),
        ({"cv": None}, "cv must be a number of folds.*a splitter.*got None"),
        ({"cv": 2.0}, r"cv must be a number of folds.*got 2\.0"),
        ({"cv": 1}, "need cv >= 2 .* got cv=1 and n_samples=60"),
        ({"cv": iter([])}, "cv gave no splits: an iterator that was used before"),
        ({"cv": [([0, 1], [2, 3]), ([0], [3])]}, "cv scores some rows twice.*such as KFold"),
        ({"false_alarm_rate": 5}, "false_alarm_rate must be .* at most 0.5, got 5.*0.05 for 5 %"),
        ({"false_alarm_rate": 0}, "false_alarm_rate must be .*above 0"),
        ({"contamination": 0.7}, "contamination must be .* at most 0.5, got 0.7.*0.05 for 5 %"),
        ({"pool": "papers"}, "no detector 'papers'. Did you mean 'paper'. Known are gp,"),
        ({"pool": None, "cv": "prefit"}, "needs a list of fitted detectors, got detectors=None"),
        ({"pool": "paper", "cv": "prefit"}, "got detectors='paper', which have yet to be fitted"),
        ({"cv": list(KFold(2).split(X)), "calibration": "split"}, "a list of splits cannot be"),
        ({"pool": EXPERTS, "cv": "in-sample"}, r"'logistic', 'bayes' learn from .*Use folds: cv=5"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"scaler": TwoSidedMinMax(rho=-1)}, "rho must be a percentage"),
        ({"fusion": LpFusion(p=0)}, r"p must be in \[1, inf\]"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be(settings, words):
    refused(words, **settings)


def test_labels_that_cannot_be():
    refused(r"\+1 \(normal\), -1 \(anomaly\) or 0 \(unlabelled\), got 1 and 2", X, (Y < 0) + 1)
    refused("y holds only −1", X, -np.ones(70))
    refused(r"y must hold one label for each row: expected shape \(70,\), got \(69,\)", X, Y[1:])
    refused('threshold="g-mean" needs labelled anomalies', NORMAL, threshold="g-mean")
    refused(r"y holds only 0 and 1(.|\n)*fit\(X, y, normal=0\)", X, (Y > 0).astype(int))


def test_rows_known_to_be_normal_beside_unlabelled_ones():
    """0 and 1 alone, explained: nothing is an anomaly, and no row is taken for one."""
    known = (np.arange(70) < 30).astype(int)
    fused = FusedDetector(QUICK, random_state=0).fit(X, known, unlabelled=0)
    np.testing.assert_array_equal(fused.out_of_fold_.known, known)
    assert (fused.out_of_fold_.labels > 0).all()


def test_groups_and_kinds_that_cannot_be():
    refused(r"groups must hold one name for each row.*got \(3,\)", fit={"groups": [1, 2, 3]})
    refused(r"kind must hold one name for each row.*got \(3,\)", fit={"kind": ["a", "b", "c"]})
    refused("kind must be one name a row, or \"clusters\"; got 'cluster'", fit={"kind": "cluster"})
    both = {"groups": np.arange(70), "kind": np.arange(70)}
    refused("Pass groups or kind, not both", fit=both)
    refused("groups must name at least 2 groups to keep apart, got 1", fit={"groups": [1] * 70})
    refused("kind hides .* cannot come from cv=KFold", cv=KFold(2), fit={"kind": "clusters"})
    refused("kind hides .* takes folds; got cv='in-sample'", cv="in-sample", fit={"kind": Y})
    alone = {"groups": np.where(Y > 0, -1, np.arange(70))}
    refused("A fold leaves no normal row to learn from", fit=alone)


def test_rows_that_cannot_be():
    refused("X holds infinity.*by NaN where the value is missing", np.where(X > 3, np.inf, X))
    frame = pd.DataFrame(X, columns=NAMES)
    refused("row 1 holds inf", frame.replace(X[0, 0], np.inf))
    refused("row 1 holds inf", pl.from_pandas(frame.replace(X[0, 0], np.inf)))
    refused("could not convert string to float|cannot be read as numbers", [["a"], ["b"]])
    refused("Found array with 0 sample", np.empty((0, 4)))
    refused(r"Features need at least one row and one column, got \(0, 4\)", frame[:0])
    refused("Expected a 2D array", NORMAL[0])
    refused("at least 2 rows that are not anomalies, got cv=5 and n_samples=1", X[:1])
    refused("all input features have string names", frame.rename(columns={"width": 1}),
            error=TypeError)  # fmt: skip


def test_experts_without_enough_labels_are_left_out_and_told():
    one = np.where(np.cumsum(Y < 0) == 1, Y, 1)
    for y in (None, one, np.minimum(one, 0)):
        with pytest.warns(UserWarning, match=r"'logistic' are left out.*at least 2 of each"):
            fused = FusedDetector([*QUICK, EXPERTS[0]], random_state=0).fit(X, y)
        assert fused.detector_names_ == ["near", "far", "all"]
    one_kind = {"kind": np.zeros(70)}
    with pytest.warns(UserWarning, match=r"'logistic' are left out.*2 groups or kinds"):
        FusedDetector([*QUICK, EXPERTS[0]], random_state=0).fit(X, Y, **one_kind)
    one_group = {"groups": np.where(Y > 0, np.arange(70), -1)}
    with pytest.warns(UserWarning, match=r"'logistic' are left out"):
        FusedDetector([*QUICK, EXPERTS[0]], random_state=0).fit(X, Y, **one_group)
    refused("'logistic', 'bayes' cannot be fitted: .*label at least 2 of each", X, pool=EXPERTS)


def test_errors_of_detectors_name_the_detector():
    error = refused("nu must be", pool=[*QUICK, ("mine", SVDD(nu=7))])
    assert "while fitting 'mine'" in error.__notes__[0]
    error = refused("nu must be", with_gaps(X), pool=[*QUICK[:1], ("mine", SVDD(nu=7))])
    assert "while fitting 'mine'" in error.__notes__[0]
    error = refused("not fitted yet", pool=[("mine", SVDD())], cv="prefit", error=NotFittedError)
    assert "while fitting 'mine'" in error.__notes__[0]
    error = refused(r"'two' must give one score for each row: expected shape \(\d+,\), got",
                    pool=[*QUICK, ("two", Says(lambda X: X))])  # fmt: skip
    assert "while scoring with 'two'" in error.__notes__[0]


@told_of_gaps
def test_detectors_that_never_speak_are_named():
    mute = ("mute", Says(lambda X: np.full(len(X), np.nan)))
    refused("^'mute' scored none of the normal rows", X, pool=[*QUICK, mute])
    empty = np.where(np.arange(70)[:, None] % 4 == np.arange(4), np.nan, X)
    refused("No normal row has a score by every detector.*Fill them in", empty, pool=SIGHTS)


def test_folds_may_hold_anomalies_alone():
    rows = np.arange(len(X))
    halves = [(rows[rows % 2 != k], rows[(rows % 2 == k) & (Y > 0)]) for k in (0, 1)]
    anomalies = [(rows[Y > 0], rows[Y < 0])]
    apart = FusedDetector(QUICK, fusion=SMOOTH, cv=[*halves, *anomalies]).fit(X, Y)
    assert np.isfinite(apart.out_of_fold_.scores).all()
    assert np.isfinite(apart.offset_)
