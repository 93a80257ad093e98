"""Rows calibrate by detectors, experts, scale and weights that have not seen them: by construction.

A row is poisoned, that is, replaced by nonsense far away. All that has seen it moves. What has not
stays as it was, to the last bit: the raw scores of the rows that were hidden with it, and those of
the rows that these are compared with.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lpfuse import SVDD, FusedDetector, GMMDetector, KernelPCADetector, LpFusion, OneClassGP
from lpfuse.ensemble.calibration import map_quantiles
from lpfuse.ensemble.folds import (
    FEWEST_ROWS,
    PARTS,
    SPLIT_FROM,
    SPLIT_GROUPS_FROM,
    Training,
    calibration_parts,
    make_folds,
    uses_split_calibration,
)
from lpfuse.ensemble.rows import duplicated_rows
from lpfuse.threshold import conformal_offset, integrative_pvalues

RNG = np.random.default_rng(0)
NORMAL, ANOMALIES = RNG.normal(size=(90, 3)), RNG.normal(3.0, 1.0, size=(12, 3))
X = np.concatenate([NORMAL, ANOMALIES])
Y = np.repeat([1, -1], [90, 12])

SCALED = {
    "svdd": SVDD(),
    "svdd by landmarks": SVDD(approximation="nystroem", n_components=20),
    "gp": OneClassGP("density"),
    "gp by landmarks": OneClassGP("density", approximation="nystroem", n_components=4),
    "kpca": KernelPCADetector(4),
    "kpca by landmarks": KernelPCADetector(4, approximation="nystroem", n_approximation=20),
    "gmm": GMMDetector(2),
    "lof": LocalOutlierFactor(n_neighbors=5, novelty=True),
    "forest": IsolationForest(n_estimators=5),
}
POOLS = {name: [(name, make_pipeline(StandardScaler(), made))] for name, made in SCALED.items()}
EXPERT = ("logistic", LogisticRegression())
TWO = [("gmm", GMMDetector(2)), ("lof", LocalOutlierFactor(n_neighbors=5, novelty=True))]


def fit(X, y, pool, **settings):
    with np.errstate(all="ignore"):
        return FusedDetector(pool, random_state=0, **settings).fit(X, y)


def poisoned(row):
    """The rows with one that is nonsense."""
    rows = X.copy()
    rows[row] = [1e3, -1e3, 1e3]
    return rows


def assert_unmoved_in_parts(before, after, row):
    """Nothing that the rows of the poisoned one's part calibrate by has moved.

    Experts without another fold have learnt from the row: what they say of that fold moves, and by
    it scale and weights of the part, which are a few numbers out of all rows.
    """
    strict = len(before.pool_.one_class)
    for one, other in zip(before.unseen_.parts, after.unseen_.parts, strict=True):
        np.testing.assert_array_equal(one.hidden, other.hidden)
        if row not in one.hidden:
            assert row in one.learnt
            assert not np.array_equal(one.scores, other.scores)  # it was learnt from, and shows
            continue
        others = one.hidden != row
        first, second = one.scores[others], other.scores[others]
        np.testing.assert_array_equal(first[:, :strict], second[:, :strict])
        # Experts' scores are moved to the level of other folds, and shrunk as a mean would be, by
        # two numbers out of all rows: the order of the rows is that of fits without the part.
        for before_it, after_it in zip(first[:, strict:].T, second[:, strict:].T, strict=True):
            order = np.argsort(before_it, kind="stable")
            assert (np.diff(after_it[order]) >= -1e-9).all()
            assert (np.diff(before_it[np.argsort(after_it, kind="stable")]) >= -1e-9).all()
        first, second = (each.out_of_fold.scores[:, :strict] for each in (one, other))
        np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(one.out_of_fold.labels, other.out_of_fold.labels)


@pytest.mark.filterwarnings("ignore")  # of what nonsense looks like to detectors
@pytest.mark.parametrize("pool", [*POOLS.values(), None], ids=[*POOLS, "default"])
def test_poisoned_row_moves_no_calibration_score_of_its_part(pool):
    before, after = (fit(rows, None, pool, calibration="cross") for rows in (X, poisoned(7)))
    assert before.unseen_.by == "cross"
    assert_unmoved_in_parts(before, after, 7)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("pool", [[*TWO, EXPERT], None], ids=["own", "default"])
def test_poisoned_row_does_not_reach_experts_of_its_part(pool):
    before, after = (fit(rows, Y, pool, calibration="cross") for rows in (X, poisoned(7)))
    assert before.pool_.experts
    assert_unmoved_in_parts(before, after, 7)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("pool", [next(iter(POOLS.values())), [*TWO, EXPERT], None])
def test_a_poisoned_row_set_aside_moves_nothing_else(pool):
    settings = {"calibration": "split", "false_alarm_rate": 0.2}
    first = fit(X, Y, pool, **settings)
    aside = first.rows_.values[-first.unseen_.n_split :]
    row = int(np.flatnonzero((X == aside[3]).all(axis=1))[0])
    second = fit(poisoned(row), Y, pool, **settings)
    others = np.arange(len(aside)) != 3
    np.testing.assert_array_equal(first.unseen_.scores[others], second.unseen_.scores[others])
    np.testing.assert_array_equal(first.score_samples(X), second.score_samples(X))
    np.testing.assert_array_equal(first.weights_, second.weights_)


def test_hidden_rows_are_scored_by_a_fit_without_their_part():
    """A stranger would fit without the rows of the part, and score them."""
    fused = fit(X, Y, [*TWO, EXPERT], calibration="cross", fusion=LpFusion(p=2.0))
    for part in fused.unseen_.parts:
        assert not set(part.learnt) & set(part.hidden)
        assert set(np.flatnonzero(Y < 0)) <= set(part.learnt)
        alone = FusedDetector([*TWO], calibration="plain", random_state=1)
        alone.fit(X[part.learnt][Y[part.learnt] > 0])
        np.testing.assert_allclose(
            alone.detector_scores(X[part.hidden])[:, 1], part.scores[:, 1]
        )  # the one that draws nothing at random


# -------------------------------------------------------------------------------- which rows


def training(labels, groups=None, cv=5):
    labels, random = np.asarray(labels, dtype=float), np.random.RandomState(0)
    folds = make_folds(cv, labels, groups, None, random)
    return Training(np.zeros((len(labels), 1)), labels, folds, groups)


@pytest.mark.parametrize("experts", [False, True])
def test_every_normal_row_is_hidden_once_and_no_anomaly_ever(experts):
    labels = np.tile([1, 0, 0, -1], 20)
    parts = calibration_parts(training(labels), 5, experts, np.random.RandomState(1))
    assert len(parts) == PARTS
    hidden = np.concatenate([hide for _, hide in parts])
    np.testing.assert_array_equal(np.sort(hidden), np.flatnonzero(labels >= 0))
    for learn, hide in parts:
        assert set(learn) | set(hide) == set(range(80))
        assert not set(learn) & set(hide)


def test_groups_are_hidden_whole():
    groups = np.arange(80) // 4
    labels = np.tile([1, 1, 0, -1], 20)
    for learn, hide in calibration_parts(
        training(labels, groups), 5, False, np.random.RandomState(1)
    ):
        assert not set(groups[learn]) & set(groups[hide])
        assert (labels[hide] >= 0).all()


def test_too_few_groups_or_splits_give_no_parts():
    two = np.arange(90) % 2
    fused = fit(X[:90], None, TWO, cv=5, false_alarm_rate=0.2, calibration="cross")
    assert fused.unseen_.by == "cross"
    fused = FusedDetector(TWO, false_alarm_rate=0.2, random_state=0).fit(X[:90], groups=two)
    assert fused.unseen_.by == "plain"
    halves = [(np.flatnonzero(two == k), np.flatnonzero(two != k)) for k in (0, 1)]
    fused = FusedDetector(TWO, cv=halves, false_alarm_rate=0.2, random_state=0).fit(X[:90])
    assert fused.unseen_.by == "plain"


def test_few_rows_have_no_parts():
    few = training(np.ones(FEWEST_ROWS - 1))
    assert calibration_parts(few, 5, False, np.random.RandomState(0)) == []
    assert fit(X[: FEWEST_ROWS - 1], None, TWO[:1], false_alarm_rate=0.5).unseen_.by == "plain"


def test_many_rows_use_split_calibration_without_a_warning():
    many, few = np.zeros(SPLIT_FROM), np.r_[np.zeros(SPLIT_FROM - 1), -np.ones(99)]
    assert uses_split_calibration("auto", many, None, 5)
    assert not uses_split_calibration("auto", few, None, 5)
    for n_groups, keeps in ((SPLIT_GROUPS_FROM, True), (SPLIT_GROUPS_FROM - 1, False)):
        assert uses_split_calibration("auto", many, np.arange(SPLIT_FROM) % n_groups, 5) == keeps
    assert not uses_split_calibration("auto", many, None, [([0], [1])])
    assert uses_split_calibration("split", few, None, 5)
    assert not uses_split_calibration("cross", many, None, 5)


def test_folds_of_anomalies_alone_hide_nothing():
    """Twelve normal rows of two labels are dealt out to six folds of ten, anomalies to all."""
    rows = np.random.default_rng(0).normal(size=(22, 3))
    y = np.repeat([1, 0, -1], [6, 6, 10])
    fused = fit(rows, y, [*TWO, EXPERT], cv=10, false_alarm_rate=0.3)
    hidden = [part.hidden for part in fused.unseen_.parts]
    assert [len(some) for some in hidden] == [2] * 6 + [0] * 4
    assert len(fused.calibration_) == 12
    assert not np.isnan(fused.out_of_fold_.scores).any()


# --------------------------------------------------------------------------- brought over, ties

scores = arrays(float, st.integers(3, 40), elements=st.floats(-5, 5).map(lambda x: round(x, 2)))


@given(own=scores, reference=scores, some=scores)
def test_quantile_map_keeps_order(own, reference, some):
    found = map_quantiles(np.sort(some), own, reference)
    assert (np.diff(found) >= -1e-9).all()
    assert found.max() <= reference.max() + 1e-9


@given(own=scores, some=scores)
def test_quantile_map_to_itself_keeps_scores_up_to_ties(own, some):
    found = map_quantiles(some, own, own)
    inside = some <= own.max()
    assert (found[inside] <= some[inside] + 0.3).all()  # levels of half a per cent
    low = some < np.quantile(own, 0.05)
    np.testing.assert_allclose(found[low], some[low])


def test_copies_are_known_by_their_values():
    rows = np.array([[1.0, np.nan], [0.0, 0.0], [1.0, np.nan], [-0.0, 0.0], [2.0, 0.0]])
    np.testing.assert_array_equal(duplicated_rows(rows), [0, 1, 2, 3])
    pandas = pytest.importorskip("pandas")
    words = pandas.DataFrame({"a": ["x", "y", "x"], "b": [1.0, 1.0, 1.0]})
    np.testing.assert_array_equal(duplicated_rows(words), [0, 2])


def test_no_row_calibrates_above_what_its_copies_get():
    rows = np.random.default_rng(1).integers(0, 2, size=(120, 3)).astype(float)
    fused = fit(rows, None, [("gmm", GMMDetector(2)), ("kpca", KernelPCADetector(3))])
    assert len(fused.unseen_.copied) == 120
    assert (fused.held_out_.fused <= fused.score_samples(rows) + 1e-9).all()


# ------------------------------------------------------------------------- labelled anomalies


def test_integrative_pvalues_are_those_of_the_scores_at_hand():
    pool = [*TWO, EXPERT]
    fused = fit(X, Y, pool, calibration="split", false_alarm_rate=0.2)
    new = np.random.default_rng(2).normal(1.0, 2.0, size=(40, 3))
    columns = [
        np.column_stack([fused.detector_scores(rows), fused.score_samples(rows)])
        for rows in (fused.rows_.values[-fused.unseen_.n_split :], new)
    ]
    known = np.column_stack([fused.out_of_fold_.scores, fused.held_out_.fused[:84]])
    known = known[fused.out_of_fold_.known < 0]
    for method in ("ratio", "best"):
        expected = integrative_pvalues(columns[0], known, columns[1], method)
        np.testing.assert_array_equal(fused.integrative_pvalues(new, method), expected)


@pytest.mark.parametrize(("y", "calibration"), [(None, "split"), (Y, "cross")])
def test_integrative_pvalues_need_rows_kept_back_and_anomalies(y, calibration):
    fused = fit(X, y, TWO, calibration=calibration, false_alarm_rate=0.2)
    with pytest.raises(ValueError, match=r'Fit with calibration="split" and some y = -1'):
        fused.integrative_pvalues(X)


# ---------------------------------------------------------------------------------- confidence


def test_confidence_lowers_the_threshold():
    rows = np.random.default_rng(3).normal(size=(400, 2))
    usual = FusedDetector(TWO[:1], random_state=0).fit(rows)
    sure = FusedDetector(TWO[:1], random_state=0, confidence=0.9).fit(rows)
    assert sure.offset_ == conformal_offset(sure.calibration_, 0.05, 0.9) < usual.offset_
    np.testing.assert_array_equal(sure.pvalues(rows), usual.pvalues(rows))
    for wrong in ({"contamination": 0.1}, {"threshold": "g-mean"}):
        with pytest.raises(ValueError, match="confidence is that of a false-alarm rate"):
            FusedDetector(TWO, confidence=0.9, **wrong).fit(X, Y)
    with pytest.raises(ValueError, match="confidence"):
        FusedDetector(TWO, confidence=5).fit(X)
