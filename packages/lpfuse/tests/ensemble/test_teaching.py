"""Answers enter a fitted detector: what changes, what does not, and what is refused."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import spearmanr
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from helpers.pools import Distance, Journal, Witness, both, normal_rows, numbered
from lpfuse import (
    FixedRule,
    FusedDetector,
    FusedDetectorCV,
    GMMDetector,
    KernelPCADetector,
    LpFusion,
    load,
)
from lpfuse.answers import audit_answers
from lpfuse.ensemble.active import estimate_share

pytestmark = [
    pytest.mark.filterwarnings("ignore:In column 0, numbers only grow"),  # rows are known by number
    pytest.mark.filterwarnings("ignore:The constraint"),
    pytest.mark.filterwarnings("ignore:'expert' are left out"),
]

X, Y = both(180, 20)
NAMES = ["height", "width", "depth", "weight"]
POOL = [("near", Distance(), [0, 1]), ("far", Distance(), [2, 3])]
EXPERT = ("expert", LogisticRegression())
ELSEWHERE, Y_ELSEWHERE = both(30, 6, seed=7)
ANOMALIES, NORMAL = np.flatnonzero(Y < 0), np.flatnonzero(Y > 0)
ASKED = np.r_[ANOMALIES[:6], NORMAL[:14]]


def fitted(pool=POOL, y=None, **settings):
    return FusedDetector(pool, random_state=0, **settings).fit(X, y)


def labels(rows, answers):
    y = np.zeros(len(X))
    y[rows] = answers
    return y


def assert_same(one, other, rows=X):
    for name in ("detector_scores", "score_samples", "decision_function", "pvalues"):
        np.testing.assert_array_equal(getattr(one, name)(rows), getattr(other, name)(rows))
    assert one.offset_ == other.offset_
    np.testing.assert_array_equal(one.weights_, other.weights_)


# ------------------------------------------------------------------ the same as a fit to the labels


def test_with_fitted_detectors_it_is_the_fit_to_the_bit():
    pool = [(f"{j}", Distance([j]).fit(normal_rows(50, seed=5))) for j in range(4)]
    chances = np.linspace(0.1, 1, len(ASKED))
    settings = {"cv": "prefit", "calibration": "plain", "random_state": 0}
    taught = FusedDetector(pool, **settings).fit(X)
    taught.teach(X[ASKED], Y[ASKED], chances=chances)
    told = np.full(len(X), np.nan)
    told[ASKED] = chances
    whole = FusedDetector(pool, **settings)
    whole.fit(X, labels(ASKED, Y[ASKED]), chances=told)
    assert_same(taught, whole)
    assert taught.contamination_ == whole.contamination_
    np.testing.assert_array_equal(taught.held_out_.fused, whole.held_out_.fused)


def test_frozen_detectors_among_folds_keep_their_scores():
    """Folds are others, which the threshold alone depends on."""
    frozen = [FrozenEstimator(Distance([j]).fit(normal_rows(50, seed=5))) for j in range(3)]
    pool = [(f"{j}", detector) for j, detector in enumerate(frozen)]
    taught = fitted(pool, fusion=LpFusion(p=2)).teach(X[ASKED], Y[ASKED])
    whole = fitted(pool, labels(ASKED, Y[ASKED]), fusion=LpFusion(p=2))
    np.testing.assert_array_equal(taught.weights_, whole.weights_)
    np.testing.assert_array_equal(taught.score_samples(X), whole.score_samples(X))
    np.testing.assert_array_equal(taught.out_of_fold_.weights, whole.out_of_fold_.weights)


@pytest.mark.parametrize("pool", [[*POOL, EXPERT], None], ids=["listed", "default"])
def test_with_experts_ranks_are_those_of_the_fit(pool):
    """Within 0.95 by rank correlation: one-class detectors keep what turned out anomalous.

    In the mean of five seeds, which part two fits of the default pool as far as teaching does.
    """
    new, _ = both(100, 20, seed=11)
    scores = np.zeros((2, len(new)))
    for seed in range(5):
        taught, whole = (FusedDetector(pool, random_state=seed) for _ in range(2))
        taught.fit(X).teach(X[ASKED], Y[ASKED])
        whole.fit(X, labels(ASKED, Y[ASKED]))
        assert taught.detector_names_ == whole.detector_names_
        scores += [taught.score_samples(new), whole.score_samples(new)]
    assert spearmanr(*scores).statistic > 0.95


def test_one_class_detectors_are_not_fitted_again():
    journal = Journal()
    rows = numbered(X)
    fused = FusedDetector([("witness", Witness(journal)), EXPERT], random_state=0).fit(rows)
    before, pool = len(journal.fits), fused.pool_.one_class
    fused.teach(rows[ASKED], Y[ASKED])
    assert len(journal.fits) == before
    assert fused.pool_.one_class is pool
    assert fused.detector_names_ == ["witness", "expert"]


# ----------------------------------------------------------------------------- rows by their values


def test_answers_are_for_rows_whatever_their_order():
    one, other = (fitted([*POOL, EXPERT]).teach(X[some], Y[some]) for some in (ASKED, ASKED[::-1]))
    assert_same(one, other)
    np.testing.assert_array_equal(one.out_of_fold_.known, labels(ASKED, Y[ASKED]))
    np.testing.assert_array_equal(one.rounds_, labels(ASKED, 1))


def test_rows_never_seen_are_added():
    fused = fitted([*POOL, EXPERT]).teach(
        np.concatenate([ELSEWHERE, X[:3]]), np.r_[Y_ELSEWHERE, Y[:3]]
    )
    known = fused.out_of_fold_.known
    assert len(known) == 200 + 36
    np.testing.assert_array_equal(known[200:][np.argsort(_places(fused))], Y_ELSEWHERE)
    np.testing.assert_array_equal(known[:3], Y[:3])
    assert (known[3:200] == 0).all()
    assert len(fused.held_out_.fused) == 236
    assert fused.rows_.n_added == 36
    fused.teach(ELSEWHERE[:4], Y_ELSEWHERE[:4])  # are known now
    assert len(fused.out_of_fold_.known) == 236
    scores = fused.detector_scores(ELSEWHERE)[:, :2]
    np.testing.assert_allclose(
        fused.out_of_fold_.scores[200:, :2][np.argsort(_places(fused))], scores
    )


def _places(fused):
    """Which of the rows from elsewhere each of the added rows is."""
    added = fused.rows_.values[200:]
    return np.array([int(np.flatnonzero((ELSEWHERE == row).all(axis=1))[0]) for row in added])


def test_copies_share_the_answer_and_one_of_them_the_chance():
    rows = np.concatenate([X, X[:5], X[:5]])
    fused = FusedDetector(POOL, random_state=0, calibration="plain").fit(rows)  # keeps copies
    fused.teach(rows[[0, 200]], [-1, -1], chances=[0.3, 0.3])
    known, chances = fused.out_of_fold_.known, fused.out_of_fold_.chances
    assert np.flatnonzero(known).tolist() == [0, 200, 205]
    assert (known[known != 0] == -1).all()
    assert np.flatnonzero(~np.isnan(chances)).tolist() == [0]
    assert fused.audit_answers().n_answers == 1
    assert not set(fused.query(rows, 100)) & {0, 200, 205}


@pytest.mark.filterwarnings("ignore:Some detectors could not score some rows")
def test_rows_with_gaps_are_known_again():
    rows = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    fused = FusedDetector(POOL, random_state=0).fit(rows)
    gappy = np.flatnonzero(np.isnan(rows).any(axis=1))[:10]
    fused.teach(rows[gappy], Y[gappy])
    np.testing.assert_array_equal(np.flatnonzero(fused.out_of_fold_.known), gappy)


@pytest.mark.parametrize("make", ["pandas", "polars", "float32"])
def test_tables_of_any_kind(make):
    def table(X):
        if make == "pandas":
            return pd.DataFrame(X, columns=NAMES)
        return pl.DataFrame(X, schema=NAMES) if make == "polars" else X.astype(np.float32)

    rows, more = (some.astype(np.float32).astype(float) for some in (X, ELSEWHERE))
    fused, arrays = (
        FusedDetector([*POOL, EXPERT], random_state=0)
        .fit(as_table(rows))
        .teach(as_table(rows[ASKED]), Y[ASKED])
        .teach(as_table(more), Y_ELSEWHERE)
        for as_table in (table, np.asarray)
    )
    assert len(fused.out_of_fold_.known) == 236
    assert (fused.out_of_fold_.known[ASKED] == Y[ASKED]).all()
    found = fused.score_samples(table(rows))
    np.testing.assert_allclose(found, arrays.score_samples(rows), rtol=1e-3, atol=1e-3)


# ------------------------------------------------------------------------------ answers of any kind


@pytest.mark.parametrize("answer", [1, -1])
@pytest.mark.parametrize("pool", [[*POOL, EXPERT], None], ids=["listed", "default"])
def test_answers_of_one_kind(pool, answer):
    rows = (NORMAL if answer > 0 else ANOMALIES)[:8]
    fused = fitted(pool).teach(X[rows], np.full(8, answer), chances=np.full(8, 0.5))
    assert np.isfinite(fused.score_samples(X)).all()
    assert fused.audit_answers().n_answers == 8
    assert fused.certificate_.status == "optimal"


def test_do_not_know_is_dropped():
    one = fitted().teach(X[:10], np.r_[Y[:5], np.zeros(5)], chances=np.full(10, 0.5))
    assert_same(one, fitted().teach(X[:5], Y[:5], chances=np.full(5, 0.5)))
    assert not set(range(5)) & set(one.query(X, 190))


def test_the_same_answer_twice_changes_nothing():
    once = fitted([*POOL, EXPERT]).teach(X[ASKED], Y[ASKED], chances=np.full(20, 0.4))
    audit = once.audit_answers()
    scores = once.score_samples(X)
    for chances in (None, np.full(20, 0.9)):  # it was asked for once
        twice = once.teach(X[ASKED], Y[ASKED], chances=chances)
        np.testing.assert_array_equal(twice.score_samples(X), scores)
        assert repr(twice.audit_answers()) == repr(audit)


def test_a_corrected_answer_overrides_and_keeps_its_chance():
    wrong = np.r_[-Y[ASKED][:3], Y[ASKED][3:]]
    fused = fitted([*POOL, EXPERT]).teach(X[ASKED], wrong, chances=np.full(20, 0.4))
    fused.teach(X[ASKED[:3]], Y[ASKED[:3]])
    assert_same(fused, fitted([*POOL, EXPERT]).teach(X[ASKED], Y[ASKED], chances=np.full(20, 0.4)))
    assert fused.audit_answers().n_anomalies == 6


def test_label_from_elsewhere_asked_for_later_is_audited():
    fused = fitted().teach(X[:10], Y[:10])
    with pytest.raises(ValueError, match="No row was asked about with a known chance"):
        fused.audit_answers()
    fused.teach(X[5:15], Y[5:15], chances=np.full(10, 0.2))
    assert fused.audit_answers().n_answers == 10
    assert (fused.rounds_[5:15] == 2).all()


# ---------------------------------------------------------------------------- refused: nothing lost


def state(fused):
    return dict(vars(fused))


@pytest.mark.parametrize(
    ("rows", "answers", "chances", "words"),
    [
        (X[[0, 1, 0]], [1, 1, -1], None, "rows 0 and 2 are equal, but one is normal"),
        (X[[3, 0, 1, 0]], [0, 1, 1, -1], None, "rows 1 and 3 are equal"),
        (X[:3], [0, 0, 0], None, "y has no answer: all rows are unlabelled"),
        (X[:3], [1, 1, -1], [0.5, 0.0, 0.5], "chances must lie between .* got 0 in row 1"),
        (X[:3], [1, 1, -1], [0.5, 1.2, 0.5], "got 1.2 in row 1"),
        (X[:3], [1, 1, -1], [0.5, 0.5], "chances must hold one number for each row"),
        (X[:3], [1, 1], None, "y must hold one label for each row"),
        (X[:3], [1, 2, 1], None, r"\+1 \(normal\), -1 \(anomaly\)"),
        (X[:3], ["fine", "odd", "fine"], None, r"\+1 \(normal\), -1 \(anomaly\)"),
        (X[:3, :2], [1, 1, -1], None, "features"),
        (X[:3] * np.inf, [1, 1, -1], None, "infinity"),
        (X[:0], [], None, "at least one row"),
        (X, -np.ones(200), None, "rows that are not anomalies"),
    ],
)
def test_what_is_refused_changes_nothing(rows, answers, chances, words):
    fused = fitted([*POOL, EXPERT]).teach(X[ASKED], Y[ASKED])
    before, scores = state(fused), fused.score_samples(X)
    with pytest.raises(ValueError, match=words):
        fused.teach(rows, answers, chances=chances)
    after = state(fused)
    assert before.keys() == after.keys()
    assert all(after[name] is value for name, value in before.items())
    np.testing.assert_array_equal(fused.score_samples(X), scores)


def test_wrong_columns_of_frames_change_nothing():
    frame = pd.DataFrame(X, columns=NAMES)
    fused = FusedDetector(POOL, random_state=0).fit(frame)
    before = state(fused)
    for wrong in (frame.drop(columns="depth"), frame.rename(columns={"depth": "x"})):
        with pytest.raises(ValueError, match=r"depth|features"):
            fused.teach(wrong[:5], Y[:5])
    assert all(vars(fused)[name] is value for name, value in before.items())


def test_detectors_that_cannot_be_taught():
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match="in memory"):
        fitted().teach(da.from_array(X, chunks=(70, 4)), Y)
    frame = pd.DataFrame(X, columns=NAMES).assign(word="a")
    with pytest.raises(ValueError, match="columns of words, which it does not keep"):
        FusedDetector(POOL).fit(frame, columns="as-is").teach(frame[:5], Y[:5])
    for settings in (
        {"cv": "in-sample"},
        {"artificial_anomalies": True},
    ):
        fused = fitted(POOL, **settings)
        with pytest.raises(ValueError, match="cannot be taught, nor judged by answers"):
            fused.teach(X[:5], Y[:5])
    with pytest.raises(TypeError, match="FusedDetectorCV chose its parameters"):
        FusedDetectorCV(POOL, random_state=0).fit(X).teach(X[:5], Y[:5])


def test_calibration_rows_that_turn_out_anomalous_teach():
    some = np.arange(200) % 4 == 0
    fused = FusedDetector(POOL, calibration="split", false_alarm_rate=0.2, random_state=0)
    fused.fit(X, np.where(some, Y, 0), chances=np.where(some, 0.25, np.nan))
    assert fused.audit_answers().n_answers == some.sum()
    assert 0 < fused.contamination_.value < 0.3
    aside = fused.rows_.values[-fused.unseen_.n_split :]
    calibration, n = fused.calibration_, len(fused.out_of_fold_.known)
    known = fused.unseen_.known[:, 0]
    asked = aside[np.flatnonzero(known == 0)[:4]]
    fused.teach(asked, np.array([-1, 1, 1, -1]), chances=np.full(4, 0.1))
    assert len(fused.calibration_) == len(calibration) - 2  # anomalies calibrate no longer
    assert len(fused.out_of_fold_.known) == n + 2  # but teach
    np.testing.assert_array_equal(fused.rows_.values[n : n + 2], asked[[0, 3]])
    np.testing.assert_array_equal(fused.out_of_fold_.known[n:], -1)
    assert fused.audit_answers().n_answers == some.sum() + 4
    assert len(fused.held_out_.labels) == len(fused.rows_.values) == 200
    again = fused.rows_.values[-fused.unseen_.n_split :]
    np.testing.assert_allclose(  # by the final detectors, which never saw them
        fused.score_samples(again), fused.held_out_.fused[-len(again) :], rtol=1e-12
    )


# --------------------------------------------------------------------------------- saved and loaded


def test_a_loaded_detector_learns_the_same(tmp_path):
    pool = [("gmm", GMMDetector()), ("kpca", KernelPCADetector(3)), EXPERT]
    fused = FusedDetector(pool, random_state=0).fit(pd.DataFrame(X, columns=NAMES))
    fused.save(tmp_path / "fitted")
    loaded = load(tmp_path / "fitted")
    frame, answered = pd.DataFrame(X, columns=NAMES), pd.DataFrame(ELSEWHERE, columns=NAMES)
    for model in (fused, loaded):
        model.teach(frame.iloc[ASKED], Y[ASKED], chances=np.full(20, 0.5))
        model.teach(answered, Y_ELSEWHERE, chances=np.full(36, 0.1))
    assert_same(fused, loaded, frame)
    loaded.save(tmp_path / "taught")
    again = load(tmp_path / "taught")
    assert_same(again, loaded, frame)
    assert repr(again.audit_answers()) == repr(fused.audit_answers())
    assert again.contamination_ == fused.contamination_
    for model in (fused, again):
        model.teach(frame[-5:], Y[-5:])
    assert_same(fused, again, frame)


def test_other_weights_after_teaching():
    fused = fitted([*POOL, EXPERT]).teach(X[ASKED], Y[ASKED], chances=np.full(20, 0.5))
    other = fused.with_fusion(FixedRule("sum"))
    assert other.weights_.tolist() == [1, 1, 1]
    assert other.audit_answers().n_answers == 20
    same = other.with_fusion(None)
    np.testing.assert_allclose(same.weights_, fused.weights_)
    same.teach(ELSEWHERE, Y_ELSEWHERE)
    assert len(fused.out_of_fold_.known) == 200  # the other is left alone


# ---------------------------------------------------------------------------------------- the audit


def test_the_audit_is_of_held_out_scores():
    fused = fitted([*POOL, EXPERT])
    rows, chances = fused.query(X, 40, explore=0.4, return_chances=True)
    fused.teach(X[rows], Y[rows], chances=chances)
    more, others = fused.query(X, 20, explore=0.4, return_chances=True)
    fused.teach(X[more], Y[more], chances=others)
    both_rounds = np.r_[rows, more]
    expected = audit_answers(
        fused.held_out_.fused[both_rounds],
        Y[both_rounds],
        np.r_[chances, others],
        offset=fused.offset_,
        n_rows=200,
        rounds=np.repeat([1, 2], [40, 20]),
    )
    found = fused.audit_answers()
    for name in ("anomaly_share", "hit_rate", "precision", "false_alarm_rate", "auc"):
        one, other = getattr(found, name), getattr(expected, name)
        assert one.value == pytest.approx(other.value, nan_ok=True)
    assert found.n_answers == 60
    assert found.anomaly_share.low <= 0.1 <= found.anomaly_share.high
    assert fused.contamination_.low <= 0.1 <= fused.contamination_.high
    wide, narrow = (fused.audit_answers(confidence=level).auc for level in (0.99, 0.5))
    assert wide.high - wide.low > narrow.high - narrow.low


def test_rows_asked_from_another_table_stand_for_that_table():
    """Of 36 new rows all were asked: 6 are anomalies, however many rows were trained on."""
    fused = fitted()
    rows, chances = fused.query(ELSEWHERE, 36, return_chances=True)
    fused.teach(ELSEWHERE[rows], Y_ELSEWHERE[rows], chances=chances)
    assert fused.audit_answers().anomaly_share.value == pytest.approx(6 / 36)


@pytest.mark.parametrize("found", [0.02, 0.1, 0.9])
def test_the_share_that_was_found_is_in_the_interval(found):
    """It may be all there is: of 100 strange rows none is an anomaly."""
    rank = (np.arange(100) + 0.5) / 200
    share = estimate_share(rank, np.ones(100), at_least=found)
    assert share.low == found <= share.value <= share.high
    assert estimate_share(rank[:1], -np.ones(1), at_least=1e-4).low > 1e-4


def test_without_chances_there_is_no_audit():
    fused, unknown = fitted(), estimate_share(np.empty(0), np.empty(0))
    assert fused.contamination_ == unknown
    for taught in (fused, fused.teach(X[:5], Y[:5])):
        with pytest.raises(ValueError, match=r"query\(X, n, return_chances=True\)"):
            taught.audit_answers()
    assert fused.contamination_ == unknown


# ------------------------------------------------------------------------------- tables of any size


@pytest.mark.parametrize("n", [50, 2_000, 20_000])
def test_tables_of_any_size(n):
    rows, y = both(n - n // 10, n // 10)
    fused = FusedDetector([*POOL, EXPERT], random_state=0, calibration="plain").fit(rows)
    asked, chances = fused.query(rows, 20, return_chances=True)
    fused.teach(rows[asked], y[asked], chances=chances)
    assert np.isfinite(fused.score_samples(rows)).all()
    assert fused.audit_answers().n_answers == 20
    assert len(fused.out_of_fold_.weights) == n
    assert (fused.out_of_fold_.weights > 0).all()


def test_tables_of_equal_rows():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = np.ones((60, 4))
        fused = FusedDetector(random_state=0).fit(rows)
        asked, chances = fused.query(rows, 5, return_chances=True)
        fused.teach(rows[asked], [1], chances=chances)
        assert (fused.out_of_fold_.known == 1).all()
        assert np.isfinite(fused.score_samples(rows)).all()


def test_a_prior_for_experts_alone_may_be_taught():
    fused = fitted([*POOL, EXPERT], labels(ASKED, Y[ASKED]), prior=[0, 0, 1])
    fused.teach(X[30:40], Y[30:40])
    assert fused.detector_names_ == ["near", "far", "expert"]
