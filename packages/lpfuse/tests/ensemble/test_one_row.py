"""A single row goes through the pool without checks on the way, to the scores that a table gets."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

from lpfuse import ColumnForest, FusedDetector, HistogramDetector, OneClassGP
from lpfuse.adapters import ClassifierExpert
from lpfuse.detectors.columns import FlatTrees, Nodes
from lpfuse.ensemble.pool import MeanOfFits, Member, SingleRowScorer, quick_scorer, score_members
from lpfuse.views import FilledGaps, NormalQuantiles

RNG = np.random.default_rng(0)
NORMAL = np.column_stack([RNG.normal(size=(150, 3)), RNG.integers(0, 3, size=150)])
ANOMALIES = NORMAL[:15] + RNG.normal(2.0, 1.0, size=(15, 4))
X, Y = np.concatenate([NORMAL, ANOMALIES]), np.repeat([1, -1], [150, 15])
# Training rows, new ones, values between the few of a column, and rows far outside.
NEW = np.concatenate([X[::20], NORMAL[:10] + 0.3, 50.0 * NORMAL[:4], 1e6 * NORMAL[:2]])


def one_by_one(score, rows):
    return np.concatenate([score(rows[i : i + 1]) for i in range(len(rows))])


@pytest.mark.parametrize("y", [None, Y], ids=["unlabelled", "labelled"])
def test_default_pool_scores_one_row_as_in_a_table(y):
    fused = FusedDetector(random_state=0).fit(NORMAL if y is None else X, y)
    together, alone = fused.detector_scores(NEW), one_by_one(fused.detector_scores, NEW)
    np.testing.assert_allclose(alone, together, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(one_by_one(fused.predict, NEW), fused.predict(NEW))
    np.testing.assert_allclose(one_by_one(fused.pvalues, NEW), fused.pvalues(NEW))
    quick = fused.pool_._of_one_row(NEW[:1])
    np.testing.assert_array_equal(quick, alone[:1])  # it was the quick way


def test_other_rows_take_the_usual_way():
    fused = FusedDetector(random_state=0).fit(NORMAL)
    assert fused.pool_._of_one_row(NEW[:2]) is None
    assert fused.pool_._of_one_row(NEW[:1].astype(np.float32)) is None
    gap = NEW[:1].copy()
    gap[0, 1] = np.nan
    assert fused.pool_._of_one_row(gap) is None
    assert np.isfinite(fused.score_samples(gap)).all()


def test_members_that_are_not_known_are_asked_as_they_are():
    pool = [
        ("forest", IsolationForest(n_estimators=5, random_state=0)),
        ("gp", make_pipeline(MinMaxScaler(), OneClassGP("density")), [0, 2]),
    ]
    fused = FusedDetector(pool, random_state=0).fit(NORMAL)
    expected = fused.detector_scores(NEW)
    np.testing.assert_allclose(one_by_one(fused.detector_scores, NEW), expected, rtol=1e-9)


@pytest.mark.parametrize("left_out", ["with_mean", "with_std"])
def test_a_scaler_that_only_shifts_or_scales_does_so_for_one_row(left_out):
    scaled = make_pipeline(StandardScaler(**{left_out: False}), OneClassGP())
    fused = FusedDetector([("gp", scaled), ("other", OneClassGP())], random_state=0).fit(NORMAL)
    expected = fused.detector_scores(NEW)
    np.testing.assert_allclose(one_by_one(fused.detector_scores, NEW), expected, rtol=1e-9)


def test_failing_member_on_one_row_is_reported():
    fused = FusedDetector([("gp", OneClassGP()), ("columns", ColumnForest())], random_state=0)
    fused.fit(NORMAL)
    del fused.pool_.one_class[1].estimator.trees_
    with pytest.warns(UserWarning, match="columns"):
        scores = fused.detector_scores(NEW[:1])
    assert np.isfinite(scores[0, 0])
    assert np.isnan(scores[0, 1])


def test_copies_hold_what_was_learnt_and_nothing_that_was_prepared():
    fused = FusedDetector(random_state=0).fit(NORMAL)
    expected = fused.score_samples(NEW[:1])
    copy = deepcopy(fused)
    assert "_quick" in vars(fused.pool_)
    assert "_quick" not in vars(copy.pool_)
    np.testing.assert_array_equal(copy.score_samples(NEW[:1]), expected)


def test_a_preparation_that_members_share_is_done_once():
    fused = FusedDetector(random_state=0).fit(NORMAL)
    # Quantiles of the process, the subspaces, the samples and the columns; z-scores; as they are.
    assert len(SingleRowScorer(fused.pool_.one_class).views) == 3


# ------------------------------------------------------------------------------ detectors, views


@pytest.mark.parametrize("seed", range(5))
def test_histogram_scores_one_row_bit_for_bit(seed):
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.normal(size=200), rng.integers(0, 4, 200), np.zeros(200)])
    detector = HistogramDetector().fit(rows)
    new = np.concatenate([rows[:20], rows[:5] + 0.5, rows[:5] - 100, rows[:5] * 1e9])
    np.testing.assert_array_equal(
        one_by_one(detector.score_samples, new), detector.score_samples(new)
    )


@pytest.mark.parametrize("d", [1, 2, 5])
def test_so_has_a_forest_of_columns(d):
    rows = np.random.default_rng(d).normal(size=(80, d))
    detector = ColumnForest(8, random_state=0).fit(rows)
    new = np.concatenate([rows[:10], 3 * rows[:10]])
    np.testing.assert_array_equal(
        one_by_one(detector.score_samples, new), detector.score_samples(new)
    )
    detector.fit(rows + 5)  # what was prepared for single rows is of this fit
    np.testing.assert_array_equal(
        one_by_one(detector.score_samples, new), detector.score_samples(new)
    )


values = st.floats(-100, 100).map(lambda x: round(x, 2))


@settings(deadline=None)
@given(
    rows=arrays(float, st.tuples(st.integers(2, 40), st.just(2)), elements=values),
    new=arrays(float, (5, 2), elements=st.one_of(values, st.sampled_from([1e9, -1e300]))),
)
def test_quantiles_of_a_row_are_those_of_a_table(rows, new):
    view = NormalQuantiles().fit(rows)
    new = np.concatenate([new, rows[:3]])
    quick = view.single_row_transform()
    np.testing.assert_array_equal(one_by_one(quick, new), view.transform(new))


@pytest.mark.parametrize("forest", [ExtraTreesClassifier, RandomForestClassifier])
def test_flat_trees_end_in_the_leaves_of_the_trees(forest):
    made = forest(7, random_state=0).fit(X, Y)
    trees = [tree.tree_ for tree in made.estimators_]
    numbered = [Nodes.of_tree(tree, np.arange(tree.node_count, dtype=float)) for tree in trees]
    flat = FlatTrees(numbered, [0] * 7)
    found = [flat.values(x.astype(np.float32).astype(float)) for x in NEW]
    np.testing.assert_array_equal(found, made.apply(NEW))


@pytest.mark.parametrize(
    "classifier",
    [
        ExtraTreesClassifier(5, class_weight="balanced", random_state=0),
        RandomForestClassifier(5, random_state=0),
        HistGradientBoostingClassifier(max_iter=6, min_samples_leaf=2, random_state=0),
        SVC(class_weight="balanced"),
        SVC(kernel="linear"),  # left to scikit-learn
    ],
    ids=lambda made: type(made).__name__,
)
def test_mean_of_fits_agrees_for_one_row_and_many(classifier):
    made = make_pipeline(FilledGaps(), NormalQuantiles(), StandardScaler(), classifier)
    fits = [ClassifierExpert(made).fit(X[k::3], Y[k::3]) for k in range(3)]
    expected = np.mean([fit.score_samples(NEW) for fit in fits], axis=0)
    mean = MeanOfFits(fits)
    np.testing.assert_allclose(mean.score_samples(NEW), expected, rtol=1e-9, atol=1e-9)
    quick = quick_scorer(mean)
    np.testing.assert_allclose([quick(row[None]) for row in NEW], expected, rtol=1e-9, atol=1e-9)
    (column,) = score_members([Member("mean", mean)], NEW).T
    np.testing.assert_allclose(column, expected, rtol=1e-9, atol=1e-9)


def test_a_triangle_of_coefficients_is_multiplied_by_half_the_operations():
    rows, new = (np.random.default_rng(k).normal(size=(300, 3)) for k in range(2))
    detector = OneClassGP("density", gamma="narrow").fit(rows)
    learnt = detector.expansion_
    assert learnt._triangle is not None
    products = learnt.basis.kernel.between(new, rows) @ learnt.coefficients
    expected = detector._score_from(np.ones(300), products)
    np.testing.assert_allclose(detector.score_samples(new), expected, rtol=1e-9)
    np.testing.assert_allclose(one_by_one(detector.score_samples, new), expected, rtol=1e-9)
    scores = detector.score_samples(new)
    detector.expansion_ = replace(learnt, coefficients=learnt.coefficients.copy("C"))  # as in files
    np.testing.assert_array_equal(detector.score_samples(new), scores)


def test_coefficients_that_are_no_triangle_are_multiplied_in_full():
    rows = np.random.default_rng(0).normal(size=(60, 3))
    detector = OneClassGP("density", gamma="narrow").fit(rows)
    learnt = detector.expansion_
    full = learnt.coefficients.copy()
    full[-1, 1] = 0.5  # below the diagonal
    detector.expansion_ = replace(learnt, coefficients=full)
    assert detector.expansion_._triangle is None
    products = learnt.basis.kernel.between(rows, rows) @ full
    expected = detector._score_from(np.ones(60), products)
    np.testing.assert_allclose(detector.score_samples(rows), expected, rtol=1e-9)
