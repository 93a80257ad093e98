from math import log, pi, sqrt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from helpers.cases import cases
from helpers.pairwise import each_value, pairwise
from lpfuse import OneClassGP
from lpfuse._arrays.operations import limits
from lpfuse._base import lower_quantile
from lpfuse.detectors.gaussian_process import SCORES
from oracles import kernel_learners as naive
from oracles.kernel_learners import LIBRARIES, assert_beside, on_host

ANY_WIDTH = "ignore:gamma=:lpfuse.detectors.KernelWidthWarning"
NYSTROEM = {"approximation": "nystroem", "n_components": 12, "random_state": 0}

every_score = pytest.mark.parametrize("score", SCORES)
WAYS = [{}, NYSTROEM]
every_way = pytest.mark.parametrize("way", WAYS, ids=["exact", "nystroem"])
steady = settings(deadline=None, derandomize=True, max_examples=20)


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(30, 3))


@pytest.fixture
def new():
    return np.random.default_rng(1).normal(size=(17, 3)) * 1.5


# ------------------------------------------------------------------------------------- posterior


@pytest.mark.parametrize("score", SCORES)
@cases(
    "x, mean, explained",
    [(0.0, 3 / 2 * 4 / 7, 17 / 21), (2.0, 9 / 16 * 4 / 7, (5 / 64 - 1 / 2 + 5) / 21)],
)
def test_a_posterior_computed_by_hand(score, x, mean, explained):
    """K = (1, ½; ½, 1) and noise ¼, so (K + ¼I)⁻¹ = (20, −8; −8, 20)/21 and α = (4/7, 4/7).

    The similarities k* are (1, ½) at 0 and (1/16, ½) at 2.
    """
    detector = OneClassGP(score, noise=0.25, gamma=log(2)).fit([[0.0], [1.0]])
    variance = 1 - explained + 0.25
    expected = {
        "mean": mean,
        "variance": -variance,
        "density": -0.5 * log(2 * pi * variance) - (1 - mean) ** 2 / (2 * variance),
        "ratio": log(mean / sqrt(variance)),
    }
    assert detector.score_samples([[x]]).item() == pytest.approx(expected[score], rel=1e-12)


@pairwise(kernel=("rbf", "poly", "cosine"), score=SCORES, noise=(1e-4, 0.01, 2.0))
def test_scores_agree_with_naive_matrices(rows, new, score, noise, kernel):
    detector = OneClassGP(score, noise, kernel, gamma=0.3, degree=2).fit(rows)
    k = naive.kernel(kernel, 0.3, 2, 1)
    expected = naive.gp_scores(score, k, rows, new, noise)
    np.testing.assert_allclose(detector.score_samples(new), expected, rtol=1e-5, atol=1e-7)


@every_score
def test_a_function_is_a_kernel(rows, new, score):
    def plain(x, z, width):
        return float(np.exp(-np.abs(x - z).max() / width))

    detector = OneClassGP(score, 0.1, kernel=plain, kernel_params={"width": 0.4}).fit(rows)
    expected = naive.gp_scores(score, lambda x, z: plain(x, z, 0.4), rows, new, 0.1)
    np.testing.assert_allclose(detector.score_samples(new), expected, rtol=1e-9, atol=1e-9)


@every_score
def test_huge_offsets_cost_no_digits(rows, new, score):
    near = OneClassGP(score).fit(rows).score_samples(new)
    far = OneClassGP(score).fit(rows + 1e6).score_samples(new + 1e6)
    np.testing.assert_allclose(far, near, rtol=1e-5, atol=1e-6)


@every_score
def test_far_rows_get_the_prior(rows, score):
    detector = OneClassGP(score, noise=0.1).fit(rows)
    expected = naive.gp_score(score, 0.0, 1.1)
    np.testing.assert_allclose(detector.score_samples([[1e3] * 3]), [expected], rtol=1e-12)


# --------------------------------------------------------------------------------- approximations


@each_value(score=SCORES, weighted=(False, True, True))
def test_approximations_are_the_process_of_their_features(rows, new, score, weighted):
    weights = np.random.default_rng(2).uniform(0.5, 3, size=30) if weighted else None
    detector = OneClassGP(score, 0.05, gamma=0.3, **NYSTROEM).fit(rows, sample_weight=weights)
    Phi, psi = detector.features_.of(rows), detector.features_.of(new)
    expected = naive.gp_scores_of_features(score, Phi, psi, np.ones(len(new)), 0.05, weights)
    np.testing.assert_allclose(detector.score_samples(new), expected, rtol=1e-7, atol=1e-8)


@each_value(score=SCORES, kernel=("rbf", "poly", "laplacian"))
def test_all_rows_as_landmarks_are_exact(rows, new, score, kernel):
    exact = OneClassGP(score, kernel=kernel, degree=2, approximation=None).fit(rows)
    detector = clone(exact).set_params(**NYSTROEM).set_params(n_components=30).fit(rows)
    assert detector.features_ is not None
    scores = exact.score_samples(new)
    np.testing.assert_allclose(detector.score_samples(new), scores, rtol=1e-6, atol=1e-7)
    assert detector.offset_ == pytest.approx(exact.offset_, rel=1e-6)


@every_score
def test_the_error_falls_as_features_grow(score):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(100, 2)), rng.normal(size=(50, 2))
    settings = {"gamma": "scale", "random_state": 0}
    exact = OneClassGP(score, 0.1, approximation=None, **settings).fit(X).score_samples(new)
    errors = [
        np.abs(
            OneClassGP(score, 0.1, approximation="nystroem", n_components=size, **settings)
            .fit(X)
            .score_samples(new)
            - exact
        ).mean()
        for size in (5, 20, 80)
    ]
    assert errors[0] > 1.5 * errors[1] > 2.25 * errors[2]
    assert errors[2] < 1e-3


def test_nystroem_variance_grows_where_features_cannot_follow(rows):
    detector = OneClassGP("variance", noise=0.1, **NYSTROEM).fit(rows)
    np.testing.assert_allclose(detector.score_samples([[50.0] * 3]), [-1.1], rtol=1e-9)


def test_too_large_a_matrix_is_approximated(monkeypatch, rows, new):
    parameters = {"n_components": 12, "random_state": 0}
    exact = OneClassGP().fit(rows)
    approximate = OneClassGP(approximation="nystroem", **parameters).fit(rows)
    monkeypatch.setattr(limits, "matrix", 30 * 30 * 8)
    assert OneClassGP(**parameters).fit(rows).features_ is None  # it just fits
    monkeypatch.setattr(limits, "matrix", 30 * 30 * 8 - 1)
    switched = OneClassGP(**parameters).fit(rows)
    np.testing.assert_array_equal(switched.score_samples(new), approximate.score_samples(new))
    forced = OneClassGP(approximation=None, **parameters).fit(rows)
    np.testing.assert_array_equal(forced.score_samples(new), exact.score_samples(new))
    assert OneClassGP(**parameters).fit(rows.astype(np.float32)).features_ is None


def test_the_seed_decides_the_approximation(rows, new):
    one, same = (OneClassGP(**NYSTROEM).fit(rows).score_samples(new) for _ in range(2))
    np.testing.assert_array_equal(one, same)
    other = OneClassGP(**{**NYSTROEM, "random_state": 1}).fit(rows).score_samples(new)
    assert not np.allclose(one, other)


# ---------------------------------------------------------------------------- weights and noise


@each_value(score=SCORES, way=WAYS)
def test_a_weight_is_a_number_of_repetitions(rows, new, score, way):
    weights = np.arange(30) % 4
    way = {**way, "n_components": 200}  # so that all rows are landmarks, repeated or not
    weighted = OneClassGP(score, gamma=0.3, **way).fit(rows, sample_weight=weights)
    repeated = OneClassGP(score, gamma=0.3, **way).fit(np.repeat(rows, weights, axis=0))
    expected = repeated.score_samples(new)
    np.testing.assert_allclose(weighted.score_samples(new), expected, rtol=1e-6, atol=1e-7)
    assert weighted.offset_ == pytest.approx(repeated.offset_, rel=1e-6, abs=1e-7)


@every_score
def test_fractions_of_weights_divide_the_noise(rows, new, score):
    weights = np.random.default_rng(2).uniform(0.1, 3, size=30)
    detector = OneClassGP(score, 0.05, gamma=0.3).fit(rows, sample_weight=weights)
    k = naive.kernel("rbf", 0.3)
    expected = naive.gp_scores(score, k, rows, new, 0.05, weights)
    np.testing.assert_allclose(detector.score_samples(new), expected, rtol=1e-8, atol=1e-9)


@every_score
def test_equal_weights_are_not_the_same_as_none(rows, new, score):
    """Ten observations of each row say more than one; the width does not change."""
    tenfold = OneClassGP(score, 0.1, gamma="scale").fit(rows, sample_weight=np.full(30, 10.0))
    k = naive.kernel("rbf", naive.gamma_scale(rows))
    expected = naive.gp_scores(score, k, rows, new, 0.1, np.full(30, 10.0))
    np.testing.assert_allclose(tenfold.score_samples(new), expected, rtol=1e-8, atol=1e-9)


def test_without_noise_the_process_goes_through_the_rows(rows):
    detector = OneClassGP("mean", noise=0, gamma=2.0).fit(rows)
    assert detector.jitter_ == 0
    np.testing.assert_allclose(detector.score_samples(rows), 1.0, rtol=1e-9)
    variance = OneClassGP("variance", noise=0, gamma=2.0).fit(rows).score_samples(rows)
    np.testing.assert_allclose(variance, 0.0, atol=1e-9)
    assert (variance <= 0).all()


@pytest.mark.filterwarnings(ANY_WIDTH)
@each_value(score=SCORES, way=WAYS, precision=(np.float64, np.float32))
def test_repeated_rows_without_noise_get_a_little_jitter(rows, score, way, precision):
    X = np.repeat(rows[:6], 3, axis=0).astype(precision)
    detector = OneClassGP(score, noise=0, gamma=0.5, **way).fit(X)
    scores = detector.score_samples(X)
    assert np.isfinite(scores).all()
    if not way:
        assert 0 < detector.jitter_ <= (1e-10 if precision == np.float64 else 1e-3)
    if not way and score == "mean":
        np.testing.assert_allclose(scores, 1.0, atol=1e-3)


def test_jitter_is_measured_by_the_kernel():
    """It is a share of k(x, x), which may be large."""
    X = np.repeat(1e4 * np.eye(3), 2, axis=0)
    detector = OneClassGP("mean", noise=0, kernel="linear").fit(X)
    assert 1e-5 < detector.jitter_ < 1
    np.testing.assert_allclose(detector.score_samples(X), 1.0, atol=1e-6)


@every_score
def test_a_kernel_that_is_not_positive_is_refused(rows, score):
    with pytest.raises(
        ValueError, match=r"not positive definite.*kernel='sigmoid'.*larger noise \(now 0.01\)"
    ):
        OneClassGP(score, kernel="sigmoid", gamma=1.0, coef0=-1.0).fit(rows)
    assert OneClassGP(score, 50.0, "sigmoid", gamma=1.0, coef0=-1.0).fit(rows).jitter_ == 0


@every_score
def test_degenerate_logarithms_stay_finite(score):
    """A mean below zero has no logarithm, nor has a variance of zero."""
    X = np.array([[0.0], [0.5], [1.0]])
    for kernel in ("rbf", "linear"):
        detector = OneClassGP(score, noise=0, kernel=kernel, gamma=3.0).fit(X)
        assert np.isfinite(detector.score_samples([[-5.0], [0.0], [0.5], [1e6]])).all()


# -------------------------------------------------------------------------------- leave one out


@pytest.mark.parametrize("score", SCORES)
@cases("kernel, noise", [("rbf", 0.0), ("rbf", 0.01), ("laplacian", 0.0), ("poly", 1.0)])
def test_leaving_one_out_is_what_it_says(rows, score, kernel, noise):
    k = naive.kernel(kernel, 1.5, 2, 1)
    detector = OneClassGP(score, noise, kernel, gamma=1.5, degree=2).fit(rows)
    expected = naive.gp_leave_one_out(score, k, rows, noise)
    np.testing.assert_allclose(detector.leave_one_out_scores(rows), expected, rtol=1e-6, atol=1e-7)


@every_score
def test_leaving_out_a_weighted_row_leaves_out_all_of_it(rows, score):
    weights = np.random.default_rng(2).uniform(0.1, 3, size=30)
    k = naive.kernel("rbf", 0.7)
    detector = OneClassGP(score, 0.05, gamma=0.7).fit(rows, sample_weight=weights)
    expected = naive.gp_leave_one_out(score, k, rows, 0.05, weights)
    scores = detector.leave_one_out_scores(rows, weights)
    np.testing.assert_allclose(scores, expected, rtol=1e-8, atol=1e-9)


@each_value(score=SCORES, way=WAYS)
def test_rows_of_weight_zero_were_left_out_anyway(rows, score, way):
    weights = np.arange(30.0) % 3
    kept = weights > 0
    detector = OneClassGP(score, 0.05, gamma=0.7, **way).fit(rows, sample_weight=weights)
    scores = detector.leave_one_out_scores(rows, weights)
    np.testing.assert_allclose(scores[~kept], detector.score_samples(rows)[~kept])
    alone = detector.leave_one_out_scores(rows[kept], weights[kept])
    np.testing.assert_array_equal(scores[kept], alone)


@each_value(score=SCORES, weighted=(False, True, True))
def test_leaving_one_out_of_features_is_what_it_says(rows, score, weighted):
    weights = np.random.default_rng(2).uniform(0.1, 3, size=30) if weighted else None
    detector = OneClassGP(score, 0.05, gamma=0.7, **NYSTROEM).fit(rows, sample_weight=weights)
    Phi = detector.features_.of(rows)
    expected = naive.gp_leave_one_out_of_features(score, Phi, np.ones(30), 0.05, weights)
    scores = detector.leave_one_out_scores(rows, weights)
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-7)


@every_score
def test_the_only_row_left_out_leaves_the_prior(score):
    scores = OneClassGP(score, 0.1, gamma=1.0).fit([[3.0]]).leave_one_out_scores([[3.0]])
    np.testing.assert_allclose(scores, [naive.gp_score(score, 0.0, 1.1)], rtol=1e-12)


@pytest.mark.parametrize("wrong", [slice(0, 20), (slice(None), slice(0, 2))])
def test_other_rows_than_those_of_the_fit_are_refused(rows, wrong):
    with pytest.raises(ValueError, match=r"features|rows that the detector was fitted"):
        OneClassGP().fit(rows).leave_one_out_scores(rows[wrong])


def test_leaving_one_out_needs_a_fit(rows):
    with pytest.raises(NotFittedError):
        OneClassGP().leave_one_out_scores(rows)


# ------------------------------------------------------------------------------------- threshold


def assert_the_fit_knew_the_scores(detector, X, weights, close):
    """Each threshold from training rows lies where the scores, asked afterwards, put it."""
    detector.set_params(offset_from="training")
    for share in np.arange(0.05, 0.5, 0.05):
        detector.set_params(contamination=share).fit(X, sample_weight=weights)
        scores = detector.score_samples(X)
        expected = lower_quantile(scores, np.ones(len(X)) if weights is None else weights, share)
        assert detector.offset_ == pytest.approx(expected, rel=close, abs=close)


@each_value(score=SCORES, way=WAYS, noise=(0.0, 0.01))
def test_the_fit_knows_the_scores_of_its_rows(rows, score, way, noise):
    X = np.vstack([rows, rows[:4]]) if not way else rows  # exact: jitter is needed without noise
    weights = np.arange(len(X)) % 3 + 0.5
    detector = OneClassGP(score, noise, gamma=2.0, **way)
    close = 1e-8 if noise or score == "mean" else 1e-4
    assert_the_fit_knew_the_scores(detector, X, weights, close)


def test_the_fit_knows_them_with_much_jitter_too():
    def not_quite_positive(x, z):
        return float(x @ z - 0.002 * (x @ x) * (z @ z))

    X = np.linspace(0.1, 1, 10)[:, None]
    detector = OneClassGP(noise=0, kernel=not_quite_positive)
    assert_the_fit_knew_the_scores(detector, X, None, 1e-8)
    assert detector.jitter_ > 1e-4


@each_value(score=SCORES, way=WAYS, contamination=(0.1, 0.3, 0.5))
def test_the_share_of_training_rows_lies_below_the_threshold(rows, score, way, contamination):
    settings = {"contamination": contamination, "offset_from": "training", **way}
    detector = OneClassGP(score, gamma=0.5, **settings).fit(rows)
    assert (detector.predict(rows) == -1).sum() == round(contamination * 30)
    np.testing.assert_array_equal(
        detector.decision_function(rows), detector.score_samples(rows) - detector.offset_
    )


# -------------------------------------------------------------------------------- array libraries


@pytest.mark.usefixtures("same_landmarks")
@each_value(score=SCORES, way=WAYS, library=LIBRARIES)
def test_every_library_gives_the_same_scores(rows, new, library, score, way):
    host = OneClassGP(score, gamma=0.5, **way).fit(rows)
    detector = clone(host).fit(library(rows))
    scores = detector.score_samples(library(new))
    assert_beside(scores, library(new))
    near = {"rtol": 1e-7, "atol": 1e-8}
    np.testing.assert_allclose(on_host(scores), host.score_samples(new), **near)
    assert detector.offset_ == pytest.approx(host.offset_, rel=1e-7)
    held_out = detector.leave_one_out_scores(library(rows))
    assert_beside(held_out, library(rows))
    np.testing.assert_allclose(on_host(held_out), host.leave_one_out_scores(rows), **near)
    np.testing.assert_allclose(detector.score_samples(new), host.score_samples(new), **near)
    np.testing.assert_allclose(on_host(host.score_samples(library(new))), on_host(scores), **near)


@pytest.mark.usefixtures("same_landmarks")
@each_value(library=LIBRARIES, way=WAYS)
def test_every_library_weighs_rows(rows, new, library, way):
    weights = np.arange(30.0) % 4
    host = OneClassGP("density", gamma=0.5, **way).fit(rows, sample_weight=weights)
    detector = clone(host).fit(library(rows), sample_weight=library(weights))
    scores = on_host(detector.score_samples(library(new)))
    np.testing.assert_allclose(scores, host.score_samples(new), rtol=1e-7, atol=1e-8)
    held_out = on_host(detector.leave_one_out_scores(library(rows), weights))
    expected = host.leave_one_out_scores(rows, weights)
    np.testing.assert_allclose(held_out, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.usefixtures("same_landmarks")
@each_value(score=SCORES, way=WAYS, library=(np.asfortranarray, naive.strict, naive.torch))
def test_single_precision_stays_single(rows, new, library, score, way):
    double = OneClassGP(score, 0.1, gamma=0.5, **way).fit(rows.astype(np.float32).astype(float))
    single = clone(double).fit(library(rows.astype(np.float32)))
    X = library(new.astype(np.float32))
    scores = single.score_samples(X)
    assert_beside(scores, X)
    close = 2e-3 if not way else 0.05  # single precision may drop directions of the features
    np.testing.assert_allclose(on_host(scores), double.score_samples(new), rtol=close, atol=close)
    held_out = single.leave_one_out_scores(library(rows.astype(np.float32)))
    assert_beside(held_out, X)


@every_way
def test_rows_in_blocks_get_the_same_scores(monkeypatch, rows, way):
    new = np.random.default_rng(3).normal(size=(600, 3))
    detector = OneClassGP("density", gamma=0.5, **way).fit(rows)
    whole, held_out = detector.score_samples(new), detector.leave_one_out_scores(rows)
    monkeypatch.setattr(limits, "block", 1)
    monkeypatch.setattr(limits, "parallel", 1)
    np.testing.assert_allclose(detector.score_samples(new), whole, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(detector.leave_one_out_scores(rows), held_out, rtol=1e-12)


@every_way
def test_fits_in_blocks_are_the_same(monkeypatch, way):
    X = np.random.default_rng(3).normal(size=(600, 2))
    whole = OneClassGP("density", gamma=0.5, **way).fit(X)
    monkeypatch.setattr(limits, "block", 1)
    monkeypatch.setattr(limits, "parallel", 1)
    blocks = clone(whole).fit(X)
    expected = whole.score_samples(X)
    np.testing.assert_allclose(blocks.score_samples(X), expected, rtol=1e-6, atol=1e-7)


# ------------------------------------------------------------------------------- degenerate input

LITTLE = {
    "n = 1": np.array([[2.0, 3.0]]),
    "n = 2": np.array([[2.0, 3.0], [4.0, 5.0]]),
    "equal rows": np.full((5, 3), 0.1),
    "constant column": np.column_stack([np.arange(5.0), np.full(5, 0.7)]),
    "d > n": np.random.default_rng(0).normal(size=(4, 50)),
    "repeated rows": np.repeat(np.eye(3), 4, axis=0),
}


@pytest.mark.filterwarnings(ANY_WIDTH)
@each_value(case=(*LITTLE, *LITTLE), score=(*SCORES, SCORES[0]), way=WAYS)
def test_little_data_is_enough(case, score, way):
    X = LITTLE[case]
    detector = OneClassGP(score, 0.1, **way).fit(X)
    scores = detector.score_samples(X)
    assert np.isfinite(scores).all()
    assert detector.leave_one_out_scores(X).shape == (len(X),)
    if not way:
        k = naive.kernel("rbf", detector.kernel_.gamma)
        np.testing.assert_allclose(
            scores, naive.gp_scores(score, k, X, X, 0.1), rtol=1e-9, atol=1e-9
        )
    far = X + 100.0
    assert detector.score_samples(far).max() < scores.min()


@pytest.mark.parametrize("score", ["mean", "density"])
def test_rows_that_resemble_nothing_tie_with_a_warning(rows, score):
    with pytest.warns(UserWarning, match="near the identity"):
        detector = OneClassGP(score, 0.25, gamma=1e6).fit(rows)
    expected = naive.gp_score(score, 0.8, 0.25 + 0.2)
    np.testing.assert_allclose(detector.score_samples(rows), expected, rtol=1e-6)


def test_columns_are_named(rows):
    frame = pd.DataFrame(rows, columns=["age", "dose", "mass"])
    detector = OneClassGP().fit(frame)
    assert list(detector.feature_names_in_) == ["age", "dose", "mass"]
    expected = OneClassGP().fit(rows).score_samples(rows)
    np.testing.assert_allclose(detector.score_samples(frame), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        detector.score_samples(frame[["dose", "age", "mass"]])
    with pytest.raises(ValueError, match=r"NaN or infinity in column 'dose' \(1 row\)"):
        detector.score_samples(frame.assign(dose=[np.nan, *rows[1:, 1]]))


def test_sparse_rows_are_refused(rows):
    with pytest.raises(TypeError, match="dense"):
        OneClassGP().fit(sparse.csr_array(rows))


@cases(
    "parameters, words",
    [
        (
            {"score_type": "median"},
            "score_type must be one of 'mean', 'variance', 'density', 'ratio'",
        ),
        ({"noise": -0.1}, r"noise must be .* at least 0, got -0.1. It is a variance."),
        ({"noise": None}, "noise must be"),
        ({"contamination": 0.0}, "contamination must be .* above 0 and at most 0.5"),
        ({"contamination": "some"}, "contamination must be"),
        ({"approximation": "nystrom"}, "None, 'auto', 'nystroem'; got 'nystrom'"),
        ({"n_components": 0}, "n_components must be a whole number from 1, got 0"),
        ({"n_components": 10.0}, "n_components must be a whole number"),
        ({"kernel": "gauss"}, "kernel must be one of"),
        ({"gamma": -1}, "gamma must be"),
    ],
)
def test_parameters_are_checked_in_fit(rows, parameters, words):
    detector = OneClassGP(**parameters)
    with pytest.raises(ValueError, match=words):
        detector.fit(rows)
    with pytest.raises(NotFittedError):
        detector.score_samples(rows)


# ------------------------------------------------------------------------------------ properties

problems = st.tuples(st.integers(1, 15), st.integers(1, 4), st.integers(0, 1000))
scores = st.sampled_from(SCORES)


def random_rows(n, d, seed):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.filterwarnings(ANY_WIDTH)
@given(problem=problems, score=scores, offset=st.floats(-1e4, 1e4))
@steady
def test_a_translation_changes_nothing(problem, score, offset):
    X = random_rows(*problem)
    detector = OneClassGP(score, gamma=0.5)
    expected = detector.fit(X).score_samples(X[:3])
    moved = detector.fit(X + offset).score_samples(X[:3] + offset)
    np.testing.assert_allclose(moved, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings(ANY_WIDTH)
@given(problem=problems, score=scores, scale=st.floats(0.01, 100))
@steady
def test_scaling_rows_is_scaling_the_width(problem, score, scale):
    X = random_rows(*problem)
    expected = OneClassGP(score, gamma=0.5).fit(X).score_samples(X[:3])
    scaled = OneClassGP(score, gamma=0.5 * scale**2).fit(X / scale).score_samples(X[:3] / scale)
    np.testing.assert_allclose(scaled, expected, rtol=1e-7, atol=1e-7)
    for word in ("narrow", "scale", "median"):
        plain = OneClassGP(score, gamma=word).fit(X).score_samples(X)
        other = OneClassGP(score, gamma=word).fit(X * 8).score_samples(X * 8)
        np.testing.assert_allclose(other, plain, rtol=1e-7, atol=1e-7)


@pytest.mark.filterwarnings(ANY_WIDTH)
@given(problem=problems, score=scores, random=st.randoms(use_true_random=False))
@steady
def test_the_order_of_rows_does_not_matter(problem, score, random):
    X = random_rows(*problem)
    order = random.sample(range(len(X)), len(X))
    plain, shuffled = OneClassGP(score).fit(X), OneClassGP(score).fit(X[order])
    np.testing.assert_allclose(
        shuffled.score_samples(X), plain.score_samples(X), rtol=1e-7, atol=1e-7
    )
    np.testing.assert_allclose(
        shuffled.leave_one_out_scores(X[order]),
        plain.leave_one_out_scores(X)[order],
        rtol=1e-6,
        atol=1e-6,
    )


# ------------------------------------------------------------------------- an honest threshold


@each_value(
    score=SCORES, approximation=(None, "nystroem"), offset_from=("unseen", "training", "training")
)
def test_auto_is_a_tenth(score, approximation, offset_from):
    X = np.random.default_rng(0).normal(size=(80, 4))
    settings = {"approximation": approximation, "n_components": 40, "random_state": 0}
    auto, tenth = (
        OneClassGP(score, contamination=share, offset_from=offset_from, **settings).fit(X)
        for share in ("auto", 0.1)
    )
    assert auto.offset_ == tenth.offset_


@pytest.mark.parametrize("score", ["mean", "density"])
def test_a_given_width_takes_the_threshold_of_left_out_rows(score):
    """Nothing but the rows themselves is learnt: the closed form knows each refit."""
    X = np.random.default_rng(0).normal(size=(80, 4))
    detector = OneClassGP(score, gamma=0.2, contamination=0.1).fit(X)
    eighth = np.sort(detector.leave_one_out_scores(X))[7]  # of 81 tenths
    assert detector.offset_ == pytest.approx(eighth, rel=1e-6)


def test_the_threshold_raises_no_more_false_alarms_than_it_says():
    rng = np.random.default_rng(0)
    X, unseen = rng.normal(size=(300, 8)), rng.normal(size=(4000, 8))
    rates = [
        float((OneClassGP(offset_from=source).fit(X).predict(unseen) == -1).mean())
        for source in ("training", "unseen")
    ]
    assert rates[0] > 0.2  # the training rows' own scores flatter
    assert rates[1] == pytest.approx(0.1, abs=0.04)
