"""Detectors on rows of Dask: sums over all blocks, the rest from a sample, scores lazily."""

import pickle

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from helpers.pairwise import each_value
from lpfuse import (
    SVDD,
    ColumnForest,
    GMMDetector,
    HistogramDetector,
    KernelPCADetector,
    KNNDetector,
    OneClassGP,
)
from lpfuse._base import conformal_quantile
from lpfuse.detectors import fit_together, score_together
from lpfuse.detectors import kernels as sampling
from lpfuse.detectors.kernels import Kernel, nystroem
from lpfuse.views import FilledGaps, NormalQuantiles

NAMES = ["a", "b", "c"]
UNEVEN = (100, 0, 7, 193, 1, 99)  # one block is empty
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 3)) * [1.0, 2.0, 0.5]
NEW = rng.normal(size=(60, 3))
WEIGHTS = rng.uniform(0, 3, 400) * (np.arange(400) % 4 > 0)

NYSTROEM = {"approximation": "nystroem", "random_state": 0}
BY_SUMS = [
    *(OneClassGP(score, n_components=30, **NYSTROEM) for score in ("mean", "variance", "density")),
    OneClassGP("ratio", contamination="auto", n_components=30, **NYSTROEM),
    OneClassGP("density", kernel="poly", degree=2, n_components=12, **NYSTROEM),
    KernelPCADetector(4, n_approximation=30, **NYSTROEM),
    KernelPCADetector(0.8, gamma="median", n_approximation=30, **NYSTROEM),
    OneClassGP(approximation="fourier", n_components=40, random_state=0),
]
BY_SAMPLE = [
    SVDD(n_components=30, random_state=0),
    SVDD(approximation=None, contamination=0.2, n_components=30, random_state=0),
    SVDD(n_components=25, **NYSTROEM),
]
GMM = GMMDetector(2, random_state=0)
HELD_OUT = [
    KNNDetector(2, n_subspaces=3, random_state=0),
    HistogramDetector(),
    ColumnForest(8, random_state=0),
]


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def small_sample(monkeypatch):
    """Samples of as few rows as there may be: eighty."""
    monkeypatch.setattr(sampling.sample_size, "rows", 80)
    monkeypatch.setattr(sampling.sample_size, "per_landmark", 1)


def as_array(values, chunks=UNEVEN):
    values = np.asarray(values)
    return da.from_array(values, chunks=(chunks, *((-1,) * (values.ndim - 1))))


def with_unknown_rows(array):
    return array.map_blocks(np.asarray, chunks=((np.nan,) * array.numblocks[0], *array.chunks[1:]))


def as_frame(values, chunks=UNEVEN):
    whole = pd.DataFrame(values, columns=NAMES) if np.ndim(values) == 2 else pd.Series(values)
    stops = np.cumsum(chunks)
    parts = [whole.iloc[stop - rows : stop] for rows, stop in zip(chunks, stops, strict=True)]
    return dd.from_map(lambda part: part, parts, meta=whole.iloc[:0])


def unknown_rows(values):
    return with_unknown_rows(as_array(values))


FORMS = [as_array, unknown_rows, as_frame]
every_form = pytest.mark.parametrize("form", FORMS)


def assert_same(blocked, plain, rtol=1e-7, atol=1e-9):
    new = pd.DataFrame(NEW, columns=NAMES) if hasattr(blocked, "feature_names_in_") else NEW
    np.testing.assert_allclose(
        blocked.score_samples(new), plain.score_samples(NEW), rtol=rtol, atol=atol
    )
    np.testing.assert_allclose(blocked.offset_, plain.offset_, rtol=rtol, atol=atol)


# --------------------------------------------------------------------- sums over all the blocks


@each_value(detector=BY_SUMS, form=FORMS)
def test_sums_over_blocks_are_the_fit_in_memory(form, detector):
    blocked = clone(detector).fit(form(X))
    assert_same(blocked, clone(detector).fit(X))
    assert blocked.n_features_in_ == 3
    assert hasattr(blocked, "feature_names_in_") == (form is as_frame)


@each_value(detector=BY_SUMS, form=FORMS, in_memory=[False, True])
def test_weights_count_as_in_memory(form, detector, in_memory):
    weights = WEIGHTS if in_memory else form(WEIGHTS)
    blocked = clone(detector).fit(form(X), sample_weight=weights)
    assert_same(blocked, clone(detector).fit(X, sample_weight=WEIGHTS))


def test_auto_means_nystroem_for_what_sums_can_learn():
    for detector in (OneClassGP(random_state=0), KernelPCADetector(random_state=0)):
        assert clone(detector).fit(X).features_ is None
        blocked = detector.fit(as_array(X))
        assert blocked.features_ is not None
        assert_same(blocked, clone(detector).set_params(approximation="nystroem").fit(X))


def test_all_rows_are_summed_although_few_are_drawn(small_sample):
    detector = OneClassGP("mean", gamma=0.3, n_components=20, **NYSTROEM).fit(as_array(X))
    drawn = sampling._spread(400, 80, check_random_state(0))
    features = nystroem(Kernel("rbf", 0.3), X[drawn], 20, check_random_state(0))
    Phi = features.of(X)
    expected = np.linalg.solve(Phi.T @ Phi + 0.01 * np.eye(Phi.shape[1]), Phi.sum(axis=0))
    np.testing.assert_allclose(
        detector.score_samples(NEW), features.of(NEW) @ expected, rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("detector", [*BY_SUMS, *BY_SAMPLE], ids=str)
def test_the_cut_changes_nothing_but_rounding(small_sample, detector):
    cuts = (400,), UNEVEN, (40,) * 10
    first, *others = (clone(detector).fit(as_array(X, cut)) for cut in cuts)
    for other in others:
        assert_same(other, first)


def test_single_precision_rows_give_single_precision_scores():
    detector = KernelPCADetector(3, n_approximation=30, **NYSTROEM)
    blocked = clone(detector).fit(as_array(X.astype(np.float32)))
    assert_same(blocked, detector.fit(X.astype(np.float32)), rtol=1e-3, atol=1e-4)
    assert blocked.score_samples(as_array(NEW.astype(np.float32), (50, 10))).dtype == np.float32


@pytest.mark.parametrize("make", [OneClassGP, KernelPCADetector])
def test_an_exact_fit_is_refused_with_a_way_out(make):
    detector = make(approximation=None)
    with pytest.raises(ValueError, match=r'Use approximation="nystroem"'):
        detector.fit(as_array(X))
    with pytest.raises(NotFittedError):
        detector.score_samples(NEW)


# ------------------------------------------------------------------------------------- the sample


@pytest.mark.parametrize(("n", "count"), [(1000, 80), (81, 80), (10**9, 500)])
def test_a_sample_has_one_row_of_every_span(n, count):
    drawn = sampling._spread(n, count, check_random_state(0))
    assert len(drawn) == count
    edges = [n * i // count for i in range(count + 1)]
    assert (drawn >= edges[:-1]).all()
    assert (drawn < edges[1:]).all()
    assert (sampling._spread(n, count, check_random_state(1)) != drawn).any()


def test_a_sample_of_few_rows_is_all_of_them():
    np.testing.assert_array_equal(sampling._spread(5, 80, check_random_state(0)), np.arange(5))


@every_form
def test_the_sample_is_rows_of_the_whole(small_sample, form):
    labels = np.where(np.arange(400) % 7, 1.0, -1.0)
    rows = sampling.sampled_rows(form(X), form(labels), form(WEIGHTS), 50, check_random_state(0))
    drawn = sampling._spread(400, 80, check_random_state(0))
    counted = drawn[WEIGHTS[drawn] > 0]
    np.testing.assert_array_equal(rows.positions, counted)
    np.testing.assert_array_equal(rows.X, X[counted])
    np.testing.assert_array_equal(rows.weights, WEIGHTS[counted])
    np.testing.assert_array_equal(rows.labels, labels[counted])


def test_more_landmarks_ask_for_a_larger_sample(small_sample):
    rows = sampling.sampled_rows(as_array(X), None, None, 300, check_random_state(0))
    assert len(rows) == 300


@each_value(detector=BY_SAMPLE, form=FORMS)
def test_a_ball_is_learnt_from_the_sample(small_sample, form, detector):
    drawn = sampling._spread(400, 80, check_random_state(0))
    plain = clone(detector).fit(X[drawn])
    blocked = clone(detector).fit(form(X))
    if detector.contamination != "auto":
        plain.offset_ = blocked.offset_  # by one part of the sample, not by all parts
    assert_same(blocked, plain)
    np.testing.assert_array_equal(blocked.support_, drawn[plain.support_])
    np.testing.assert_allclose(blocked.support_vectors_, X[blocked.support_])


@every_form
def test_a_ball_keeps_known_anomalies_out(form):
    y = np.where(np.arange(400) % 9 == 1, -1, 1)
    blocked = SVDD(gamma=0.5).fit(form(X), form(y), sample_weight=form(WEIGHTS))
    assert_same(blocked, SVDD(gamma=0.5).fit(X, y, sample_weight=WEIGHTS))
    assert (blocked.dual_coef_ < 0).any()


@every_form
def test_a_mixture_is_learnt_from_the_sample(small_sample, form):
    drawn = sampling._spread(400, 80, check_random_state(0))
    blocked, plain = clone(GMM).fit(form(X)), clone(GMM).fit(X[drawn])
    plain.offset_ = blocked.offset_  # by one part of the sample, not by all parts
    assert_same(blocked, plain)


@each_value(detector=HELD_OUT, form=FORMS)
def test_thresholds_by_held_out_scores_are_those_of_the_sample(small_sample, form, detector):
    fitted = clone(detector).fit(form(X))
    assert fitted.n_samples_ == 80
    scores, close = fitted.held_out_scores_, 1e-6  # a histogram's may tie
    # The 8th of 80 scores: ⌊81 / 10⌋.
    assert (scores < fitted.offset_).sum() < 8 <= (scores < fitted.offset_ + close).sum()
    again = clone(detector).fit(form(X))
    assert again.offset_ == fitted.offset_
    with pytest.raises(ValueError, match="leave_one_out_scores needs the rows in memory"):
        fitted.leave_one_out_scores(form(X))


@each_value(view=[NormalQuantiles(), FilledGaps()], form=FORMS)
def test_views_are_lazy_and_learnt_in_memory(form, view):
    rows = pd.DataFrame(X, columns=NAMES) if form is as_frame else X
    fitted = clone(view).fit(rows)
    lazy = fitted.transform(form(X))
    assert isinstance(lazy, da.Array)
    np.testing.assert_array_equal(lazy.compute(), fitted.transform(rows))
    with pytest.raises(TypeError, match="Load them into memory"):
        clone(view).fit(form(X))


def test_a_sample_in_which_nothing_counts_is_refused(small_sample):
    weights = np.zeros(400)
    weights[3] = 1.0
    assert 3 not in sampling._spread(400, 80, check_random_state(0))
    with pytest.raises(ValueError, match="None of 80 rows sampled evenly from X is normal"):
        SVDD(n_components=30, random_state=0).fit(as_array(X), sample_weight=as_array(weights))


@each_value(detector=[GMM, *BY_SUMS[:3], *BY_SUMS[4:], BY_SAMPLE[1]], weighted=[False, True])
def test_from_training_rows_the_threshold_is_that_of_all_rows(small_sample, detector, weighted):
    """The highest score in the sample with no more than the share of all rows below it."""
    weights = WEIGHTS if weighted else np.ones(400)
    given = {"sample_weight": as_array(weights)} if weighted else {}
    detector = clone(detector).set_params(offset_from="training").fit(as_array(X), **given)
    drawn = sampling._spread(400, 80, check_random_state(0))
    scores, cuts = detector.score_samples(X), detector.score_samples(X[drawn[weights[drawn] > 0]])
    share = float(detector.contamination) * weights.sum()
    fitting = [cut for cut in cuts if weights[scores < cut - 1e-9].sum() <= share]
    expected = max(fitting, default=cuts.min())
    assert detector.offset_ == pytest.approx(expected, rel=1e-6, abs=1e-8)


@each_value(detector=[GMM, *BY_SUMS, BY_SAMPLE[1]], weighted=[False, True])
def test_the_threshold_leaves_out_a_part_of_the_sample(small_sample, detector, weighted):
    """Of sums over all rows what that part adds is taken off again."""
    weights = WEIGHTS if weighted else np.ones(400)
    given = {"sample_weight": as_array(weights)} if weighted else {}
    fitted = clone(detector).fit(as_array(X), **given)
    drawn = sampling._spread(400, 80, check_random_state(0))
    drawn = drawn[weights[drawn] > 0]
    part = np.random.default_rng(0).permutation(np.arange(len(drawn)) % 10) == 0
    blocks = as_array(X), None, given.get("sample_weight"), 0, check_random_state(0)
    without = sampling.sampled_rows(*blocks).without(np.flatnonzero(part))
    np.testing.assert_array_equal(without.X, X[drawn[~part]])
    if detector in BY_SUMS:
        others = np.delete(np.arange(400), drawn[part])
        expected = fitted.features_.moments(X[others], weights[others])
        for found, sums in zip(without.moments(fitted.features_), expected, strict=True):
            np.testing.assert_allclose(found, sums, rtol=1e-9, atol=1e-9)
    refit = fitted._refit(without, 1 - float(weights[drawn[part]].sum() / weights[drawn].sum()))
    scores, counts = refit._scores(X[drawn[part]]), weights[drawn[part]]
    share = 0.1 if fitted.contamination == "auto" else fitted.contamination
    expected = conformal_quantile(scores, counts, int(part.sum()), share)
    assert fitted.offset_ == pytest.approx(expected, rel=1e-6, abs=1e-8)


def test_rows_on_a_cut_do_not_lie_below_it():
    values, weights = np.array([1.0, 2.0, 2.0, 3.5, 5.0]), np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    cuts = np.array([2.0, 3.0, 3.5, 4.0])
    parts = values[:, None], None, weights
    found = np.cumsum(sampling._weight_below_cuts(0, parts, lambda rows: rows[:, 0], cuts))
    np.testing.assert_array_equal(found, [weights[values < cut].sum() for cut in cuts])


@pytest.mark.parametrize(
    ("detector", "passes"),
    [
        (BY_SUMS[0], 4),  # the last sums with landmarks that a part of the sample has not seen
        (BY_SUMS[5], 4),
        (clone(BY_SUMS[5]).set_params(offset_from="training"), 4),  # ... finds the threshold
        (BY_SAMPLE[0], 2),
        (BY_SAMPLE[1], 2),
        (clone(BY_SAMPLE[1]).set_params(offset_from="training"), 3),
        (GMM, 2),
        *((detector, 2) for detector in HELD_OUT),
    ],
    ids=str,
)
def test_few_passes_are_made(small_sample, detector, passes):
    calls = []

    def seen(block):
        calls.append(len(block))
        return block

    clone(detector).fit(as_array(X).map_blocks(seen, meta=np.empty((0, 3))))
    assert sorted(calls) == sorted(UNEVEN * passes)


# ---------------------------------------------------------------------------------- what is refused


@each_value(detector=[BY_SUMS[0], BY_SUMS[5], SVDD(), GMM, *HELD_OUT], form=FORMS)
def test_nan_is_refused_with_its_block_and_column(form, detector):
    flawed = X.copy()
    flawed[150, 1] = np.nan
    detector = clone(detector)
    column = "column 'b'" if form is as_frame else "column 1"
    with pytest.raises(ValueError, match=rf"block 3, {column} \(1 row\)"):
        detector.fit(form(flawed))
    assert not [name for name in vars(detector) if name.endswith("_")]


def test_parameters_are_refused_before_any_block_is_read():
    unreadable = da.from_delayed(dask.delayed(never)(), shape=(5, 3), dtype=float)
    for detector in (OneClassGP(noise=-1), SVDD(nu=2), GMMDetector(0), KernelPCADetector(0)):
        with pytest.raises(ValueError, match=r"noise|nu|n_components"):
            detector.fit(unreadable)


def test_held_out_scores_need_rows_in_memory():
    fitted = OneClassGP(random_state=0).fit(as_array(X))
    with pytest.raises(ValueError, match="needs the rows in memory"):
        fitted.leave_one_out_scores(as_array(X))


def test_other_columns_are_refused():
    fitted = SVDD().fit(as_frame(X))
    with pytest.raises(ValueError, match="feature names"):
        fitted.score_samples(as_frame(X).rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="2 features"):
        score_together([SVDD().fit(as_array(X))], as_array(X[:, :2]))


# ----------------------------------------------------------------------------------------- scoring


def never():
    raise AssertionError("computed before it was asked for")


@each_value(detector=[*BY_SUMS, *BY_SAMPLE, GMM, *HELD_OUT], form=FORMS)
def test_scores_are_lazy_and_those_of_memory(form, detector):
    fitted = clone(detector).fit(X) if form is not as_frame else clone(detector).fit(form(X))
    rows = pd.DataFrame(X, columns=NAMES) if form is as_frame else X
    for method in ("score_samples", "decision_function", "predict"):
        lazy = getattr(fitted, method)(form(X))
        assert isinstance(lazy, da.Array)
        np.testing.assert_allclose(lazy.compute(), getattr(fitted, method)(rows), atol=1e-9)
    unread = da.from_delayed(dask.delayed(never)(), shape=(5, 3), dtype=float)
    if form is as_array:
        assert fitted.score_samples(unread).shape == (5,)


@every_form
def test_paths_and_several_detectors_are_scored_lazily(form):
    detectors = fit_together([KernelPCADetector(5), SVDD(), OneClassGP(), GMM], X)
    given = form(X) if form is not as_frame else as_array(X)
    together = score_together(detectors, given)
    assert isinstance(together, da.Array)
    np.testing.assert_allclose(together.compute(), score_together(detectors, X), atol=1e-9)
    path = detectors[0].score_path(given, [0, 2, 5])
    assert isinstance(path, da.Array)
    np.testing.assert_allclose(path.compute(), detectors[0].score_path(X, [0, 2, 5]), atol=1e-9)


def test_several_detectors_are_fitted_to_the_same_blocks():
    weights = as_array(WEIGHTS)
    grid = [clone(BY_SUMS[0]), clone(BY_SUMS[5]), SVDD()]
    for fitted, plain in zip(
        fit_together(grid, as_array(X), weights), [BY_SUMS[0], BY_SUMS[5], SVDD()], strict=True
    ):
        assert_same(fitted, clone(plain).fit(X, sample_weight=WEIGHTS))


def test_what_goes_to_workers_can_travel():
    features = clone(BY_SUMS[0]).fit(as_array(X)).features_
    work = sampling._rows_at, sampling._joined, sampling._moments_of_block, sampling._sum_of_moments
    sent, *functions = pickle.loads(pickle.dumps((features, *work)))  # noqa: S301
    assert functions == list(work)
    for moment, expected in zip(
        sampling._moments_of_block(0, (X[:10], None, None), sent),
        features.moments(X[:10], np.ones(10)),
        strict=True,
    ):
        np.testing.assert_array_equal(moment, expected)
