import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from helpers.cases import cases
from helpers.contract import assert_passes_checks
from lpfuse import FixedRule, TailScaler, TwoSidedMinMax
from oracles.tail_scaler import tail_scaler
from oracles.two_sided_min_max import two_sided_min_max

IDLE_COLUMNS = "ignore:Scores have no spread:UserWarning", "ignore:Some detectors give:UserWarning"

# Eighths: sums and differences are exact, and ties are common.
columns = st.integers(-800, 800).map(lambda eighths: eighths / 8)
score_tables = st.tuples(st.integers(1, 25), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=columns)
)
rhos = st.sampled_from([0, 1, 5, 10, 33.3, 99])
clips = st.sampled_from([False, True, "soft"])


@pytest.fixture
def scores():
    return np.random.default_rng(0).normal(size=(201, 3)) * [1.0, 20.0, 0.1] + [0.0, -50.0, 3.0]


class LabelsDropped(TwoSidedMinMax):
    """Fit without y: scikit-learn's checks feed labels other than ±1, which we refuse."""

    def fit(self, S, y=None):
        return super().fit(S)


class TailLabelsDropped(TailScaler):
    """The same of the other scaler."""

    def fit(self, S, y=None):
        return super().fit(S)


@pytest.mark.filterwarnings(*IDLE_COLUMNS)
@pytest.mark.parametrize("scaler", [LabelsDropped(), TailLabelsDropped()], ids=str)
def test_scikit_learn_contract(scaler):
    assert_passes_checks(scaler)


@pytest.mark.slow
@pytest.mark.filterwarnings(*IDLE_COLUMNS)
def test_scikit_learn_contract_of_variants():
    assert_passes_checks(LabelsDropped(clip="soft", feature_range=(0, 1)))


@pytest.mark.filterwarnings(*IDLE_COLUMNS)
@given(S=score_tables, rho=rhos, clip=clips, feature_range=st.sampled_from([(-1, 1), (0, 1)]))
def test_agrees_with_the_naive_version(S, rho, clip, feature_range):
    scaler = TwoSidedMinMax(rho, feature_range, clip).fit(S)
    new = np.vstack([S, S[::-1] * 3 - 1])
    expected = two_sided_min_max(S.tolist(), new.tolist(), rho, feature_range, clip)
    np.testing.assert_allclose(scaler.transform(new), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings(*IDLE_COLUMNS)
@given(S=score_tables, rho=rhos, clip=clips, random=st.randoms(use_true_random=False))
def test_the_order_of_rows_and_columns_does_not_matter(S, rho, clip, random):
    rows = random.sample(range(S.shape[0]), S.shape[0])
    cols = random.sample(range(S.shape[1]), S.shape[1])
    plain = TwoSidedMinMax(rho, clip=clip).fit(S)
    shuffled = TwoSidedMinMax(rho, clip=clip).fit(S[rows][:, cols])
    np.testing.assert_array_equal(shuffled.lower_, plain.lower_[cols])
    np.testing.assert_array_equal(shuffled.transform(S[:, cols]), plain.transform(S)[:, cols])


@pytest.mark.filterwarnings(*IDLE_COLUMNS)
@given(S=score_tables, rho=rhos, clip=clips, factor=st.sampled_from([0.25, 2, 64]), shift=columns)
def test_units_of_a_detector_do_not_matter(S, rho, clip, factor, shift):
    plain = TwoSidedMinMax(rho, clip=clip).fit_transform(S)
    moved = TwoSidedMinMax(rho, clip=clip).fit_transform(factor * S + shift)
    np.testing.assert_allclose(moved, plain, rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings(*IDLE_COLUMNS)
@given(S=score_tables, rho=rhos, clip=clips)
def test_order_is_kept_and_nothing_overflows(S, rho, clip):
    scaled = TwoSidedMinMax(rho, clip=clip).fit_transform(S)
    assert np.isfinite(scaled).all()
    order = np.argsort(S, axis=0)
    assert (np.diff(np.take_along_axis(scaled, order, axis=0), axis=0) >= 0).all()


@settings(max_examples=30)
@given(n=st.integers(40, 400), rho=st.floats(0, 60), seed=st.integers(0, 100))
def test_rho_percent_lie_outside_half_in_each_tail(n, rho, seed):
    S = np.random.default_rng(seed).normal(size=(n, 2))
    scaler = TwoSidedMinMax(rho).fit(S)
    for tail in (S < scaler.lower_, S > scaler.upper_):
        np.testing.assert_allclose(tail.mean(axis=0), rho / 200, atol=1.0 / n + 1e-12)


def test_thresholds_reach_the_ends_of_the_range(scores):
    scaler = TwoSidedMinMax(rho=10, feature_range=(-2, 3)).fit(scores)
    np.testing.assert_allclose(scaler.transform(scaler.lower_[None]), [[-2, -2, -2]])
    np.testing.assert_allclose(scaler.transform(scaler.upper_[None]), [[3, 3, 3]])


def test_hard_clipping_stops_at_the_range_soft_does_not(scores):
    far = scores.mean(axis=0) + np.array([[-50.0], [-10.0], [10.0], [50.0]]) * scores.std(axis=0)
    hard, soft, free = (
        TwoSidedMinMax(clip=clip).fit(scores).transform(far) for clip in (True, "soft", False)
    )
    np.testing.assert_array_equal(hard, np.repeat([[-1.0], [-1.0], [1.0], [1.0]], 3, axis=1))
    assert (np.diff(soft, axis=0) > 0).all()
    assert ((np.abs(hard) < np.abs(soft)) & (np.abs(soft) < np.abs(free))).all()


def test_clipping_changes_nothing_between_the_thresholds(scores):
    scaler = TwoSidedMinMax().fit(scores)
    inside = scores[((scores > scaler.lower_) & (scores < scaler.upper_)).all(axis=1)]
    for clip in (True, "soft"):
        clipped = clone(scaler).set_params(clip=clip).fit(scores).transform(inside)
        np.testing.assert_allclose(clipped, scaler.transform(inside))


@pytest.mark.parametrize("usual", [0.0, 1.0])
def test_tied_quantiles_fall_back_to_the_extremes(usual):
    votes = np.full((100, 1), usual)
    votes[0] = 1.0 - usual
    scaler = TwoSidedMinMax(rho=10).fit(votes)
    assert (scaler.lower_.item(), scaler.upper_.item()) == (0.0, 1.0)
    np.testing.assert_array_equal(scaler.transform([[0.0], [0.5], [1.0]]), [[-1], [0], [1]])


@pytest.mark.parametrize("clip", [False, True, "soft"])
def test_a_constant_column_becomes_the_middle_with_a_warning(scores, clip):
    frame = pd.DataFrame(scores, columns=["forest", "svm", "lof"]).assign(svm=7.0)
    scaler = TwoSidedMinMax(feature_range=(0, 1), clip=clip)
    with pytest.warns(UserWarning, match="no spread in column 'svm'"):
        scaler.fit(frame)
    new = frame.assign(svm=np.linspace(-1e9, 1e9, len(frame)))
    np.testing.assert_array_equal(scaler.transform(new)[:, 1], 0.5)


def test_anomalies_do_not_move_the_thresholds(scores):
    anomalies = scores[:40] - 1000.0
    y = np.r_[np.ones(len(scores)), -np.ones(40)]
    labelled = TwoSidedMinMax().fit(np.vstack([scores, anomalies]), y)
    alone = TwoSidedMinMax().fit(scores)
    np.testing.assert_array_equal(labelled.lower_, alone.lower_)
    np.testing.assert_array_equal(labelled.upper_, alone.upper_)


def test_a_column_constant_among_normals_is_flat_though_anomalies_differ(scores):
    scores[:100, 0] = 1.0
    y = np.r_[np.ones(100), -np.ones(101)]
    with pytest.warns(UserWarning, match="no spread in column 0"):
        scaled = TwoSidedMinMax().fit(scores, y).transform(scores)
    np.testing.assert_array_equal(scaled[:, 0], 0.0)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_output_can_be_a_named_frame(scores, library):
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library]
    S = frame(dict(zip(["forest", "svm", "lof"], scores.T, strict=True)))
    scaled = TwoSidedMinMax().set_output(transform=library).fit_transform(S)
    assert isinstance(scaled, frame)
    assert list(scaled.columns) == ["forest", "svm", "lof"]
    np.testing.assert_array_equal(scaled.to_numpy(), TwoSidedMinMax().fit_transform(scores))


def test_float32_stays_float32(scores):
    scaled = TwoSidedMinMax(clip="soft").fit_transform(scores.astype(np.float32))
    assert scaled.dtype == np.float32
    expected = TwoSidedMinMax(clip="soft").fit_transform(scores)
    np.testing.assert_allclose(scaled, expected, atol=1e-4)


@pytest.mark.parametrize("clip", [False, True, "soft"])
def test_array_api_scores_give_the_same_numbers(scores, clip):
    y = np.where(np.arange(len(scores)) % 5, 1, -1)
    ours = TwoSidedMinMax(clip=clip).fit(scores, y).transform(scores)
    S = array_api_strict.asarray(scores)
    theirs = TwoSidedMinMax(clip=clip).fit(S, y).transform(S)
    assert theirs.__array_namespace__() is array_api_strict
    np.testing.assert_allclose(np.asarray(theirs), ours, rtol=1e-12)


@pytest.mark.parametrize("clip", [False, True, "soft"])
def test_torch_scores_give_the_same_numbers(scores, clip):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    scaler = TwoSidedMinMax(clip=clip).fit(torch.tensor(scores))
    scaled = scaler.transform(torch.tensor(scores))
    assert isinstance(scaled, torch.Tensor)
    expected = TwoSidedMinMax(clip=clip).fit_transform(scores)
    np.testing.assert_allclose(scaled.numpy(), expected, rtol=1e-12)


def test_quantiles_of_arrays_in_memory_are_exact(scores):
    assert TwoSidedMinMax().fit(scores).quantile_error_ == 0.0


def test_works_in_a_pipeline_before_a_fusion_rule(scores):
    pipeline = make_pipeline(TwoSidedMinMax(), FixedRule()).fit(scores)
    expected = TwoSidedMinMax().fit_transform(scores).sum(axis=1)
    np.testing.assert_allclose(pipeline.score_samples(scores), expected)


@cases(
    ("parameters", "words"),
    [
        ({"rho": -1}, r"rho must be a percentage in \[0, 100\), got -1"),
        ({"rho": 100}, "got 100"),
        ({"rho": np.nan}, "got nan"),
        ({"rho": "5"}, "got '5'"),
        ({"feature_range": (1, -1)}, r"a < b.*got \(1, -1\)"),
        ({"feature_range": (0, np.inf)}, "finite"),
        ({"feature_range": (0, 1, 2)}, "two finite numbers"),
        ({"clip": "hard"}, "\"soft\", got 'hard'"),
    ],
)
def test_parameters_are_checked_in_fit(scores, parameters, words):
    scaler = TwoSidedMinMax(**parameters)
    with pytest.raises(ValueError, match=words):
        scaler.fit(scores)


# --------------------------------------------------------------------------------- TailScaler


@pytest.mark.filterwarnings(*IDLE_COLUMNS)
@given(S=score_tables)
def test_cubes_agree_with_the_naive_version(S):
    new = np.vstack([S, S[::-1] * 300 - 1])  # also beyond ten deviations
    expected = tail_scaler(S.tolist(), new.tolist())
    np.testing.assert_allclose(TailScaler().fit(S).transform(new), expected, rtol=1e-9, atol=1e-12)


def test_cubes_of_normal_scores_are_those_of_standard_deviations():
    S = np.random.default_rng(0).normal(3.0, 20.0, size=(200_000, 1))
    deviations = np.array([[5.0], [1.0], [0.0], [-1.0], [-3.0]])
    found = TailScaler().fit(S).transform(3.0 + 20.0 * deviations)
    np.testing.assert_allclose(found[:, 0], [0.0, 0.0, -1 / 8, -1.0, -8.0], rtol=0.05, atol=1e-4)


def test_the_loudest_detector_outweighs_four_that_find_a_row_usual():
    S = np.random.default_rng(0).normal(size=(400, 5))
    one_is_sure, all_have_doubts = [0.5, 0.5, 0.5, 0.5, -5.0], [-0.8] * 5
    for scaler, first_is_lower in ((TailScaler(), True), (TwoSidedMinMax(), False)):
        fused = scaler.fit(S).transform([one_is_sure, all_have_doubts]).sum(axis=1)
        assert (fused[0] < fused[1]) is np.bool_(first_is_lower)


@pytest.mark.filterwarnings(*IDLE_COLUMNS)
@given(S=score_tables, factor=st.sampled_from([0.25, 2, 64]), shift=columns)
def test_cubes_keep_the_order_and_do_not_depend_on_units(S, factor, shift):
    scaled = TailScaler().fit_transform(S)
    assert (np.isfinite(scaled) & (scaled <= 0)).all()
    ordered = np.take_along_axis(scaled, np.argsort(S, axis=0), axis=0)
    assert (np.diff(ordered, axis=0) >= 0).all()
    moved = TailScaler().fit_transform(factor * S + shift)
    np.testing.assert_allclose(moved, scaled, rtol=1e-9, atol=1e-9)


def test_below_the_usual_no_two_scores_become_one(scores):
    far = -np.logspace(-1, 12, 60)[:, None] * scores.std(axis=0) + scores.mean(axis=0)
    assert (np.diff(TailScaler().fit(scores).transform(far), axis=0) < 0).all()


def test_just_under_a_quarter_of_outliers_keeps_the_scale(scores):
    strange = np.full((66, 3), -1e12)  # of 267 rows
    moved = TailScaler().fit(np.vstack([scores, strange]))
    assert (moved.lower_ >= scores.min(axis=0)).all()


def test_cubes_of_ties_of_one_row_and_of_constant_columns():
    votes = np.ones((100, 1))
    votes[0] = 0.0
    scaler = TailScaler().fit(votes)  # the quartiles coincide: the extremes take their place
    assert (scaler.lower_.item(), scaler.upper_.item()) == (0.0, 1.0)
    for flat in (np.full((1, 2), 3.0), np.full((50, 2), 3.0)):
        with pytest.warns(UserWarning, match="no spread"):
            scaler = TailScaler().fit(flat)
        np.testing.assert_array_equal(scaler.transform([[-1e300, 1e300]]), -1 / 8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cubes_of_huge_scores_are_finite(scores, dtype):
    scaler = TailScaler().fit(scores.astype(dtype))
    huge = np.finfo(dtype).max / 64 * np.array([[-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]], dtype)
    scaled = scaler.transform(huge)
    assert scaled.dtype == dtype
    assert np.isfinite(scaled).all()
    np.testing.assert_array_equal(scaled[1], 0.0)
    assert not np.signbit(scaled[1]).any()  # −0.0 would be odd in a table


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_cubes_of_what_is_no_number_are_refused(scores, value):
    scaler = TailScaler().fit(scores)
    scores[3, 1] = value
    for method in (scaler.transform, TailScaler().fit):
        with pytest.raises(ValueError, match="NaN or infinity"):
            method(scores)


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_cubes_of_other_libraries_are_the_same(scores, library):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    far = np.vstack([scores, scores * 50])
    y = np.where(np.arange(len(scores)) % 5, 1, -1)
    scaled = TailScaler().fit(xp.asarray(scores), y).transform(xp.asarray(far))
    assert isinstance(scaled, type(xp.asarray(far)))
    expected = TailScaler().fit(scores[y > 0]).transform(far)
    np.testing.assert_allclose(np.asarray(scaled), expected, rtol=1e-12, atol=1e-15)
    single = TailScaler().fit(xp.asarray(scores)).transform(xp.asarray(far, dtype=xp.float32))
    assert single.dtype == xp.float32
    again = TailScaler().fit(scores).transform(far)
    np.testing.assert_allclose(np.asarray(single), again, rtol=1e-3, atol=1e-3)
