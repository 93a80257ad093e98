import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import NotFittedError

from helpers.cases import cases
from helpers.pairwise import each_value, pairwise
from lpfuse import KernelPCADetector
from lpfuse._arrays.operations import limits
from lpfuse._base import lower_quantile
from lpfuse.detectors.kernel_pca import by_arpack, iterated, spectrum_of_gram
from lpfuse.detectors.kernels import Kernel
from oracles import kernel_learners as naive
from oracles.kernel_learners import LIBRARIES, assert_beside, on_host

# Many tests are of few rows, with more components than these have.
pytestmark = pytest.mark.filterwarnings("ignore:n_components=.* rows. there are:UserWarning")
ANY_WIDTH = "ignore:gamma=:lpfuse.detectors.KernelWidthWarning"
NYSTROEM = {"approximation": "nystroem", "n_approximation": 12, "random_state": 0}

WAYS = [{}, NYSTROEM]
every_way = pytest.mark.parametrize("way", WAYS, ids=["exact", "nystroem"])
kernels = pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly", "linear", "cosine"])
steady = settings(deadline=None, derandomize=True, max_examples=20)


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(30, 3)) * [2.0, 1.0, 0.5]


@pytest.fixture
def new():
    return np.random.default_rng(1).normal(size=(17, 3)) * 1.5


# -------------------------------------------------------------------------------------- exactness


@each_value(kernel=("rbf", "laplacian", "poly", "linear", "cosine"), q=(1, 2, 3))
def test_scores_agree_with_explicit_centring(rows, new, kernel, q):
    detector = KernelPCADetector(q, kernel, gamma=0.3, degree=2).fit(rows)
    assert detector.n_components_ == q
    expected = naive.kernel_pca_scores(naive.kernel(kernel, 0.3, 2, 1), rows, new, q)
    np.testing.assert_allclose(detector.score_samples(new), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("q", [1, 5, 20, 29])
def test_many_components_agree_too(rows, new, q):
    detector = KernelPCADetector(q, gamma=1.0).fit(rows)
    expected = naive.kernel_pca_scores(naive.kernel("rbf", 1.0), rows, new, q)
    np.testing.assert_allclose(detector.score_samples(new), expected, rtol=1e-8, atol=1e-8)


@kernels
def test_variances_are_those_of_the_full_decomposition(rows, kernel):
    detector = KernelPCADetector(3, kernel, gamma=0.3, degree=2).fit(rows)
    _, _, variances = naive.kernel_pca(naive.kernel(kernel, 0.3, 2, 1), rows, rows)
    np.testing.assert_allclose(detector.explained_variance_, variances[:3], rtol=1e-9)
    ratios = variances[:3] / variances.sum()
    np.testing.assert_allclose(detector.explained_variance_ratio_, ratios, rtol=1e-8)


@each_value(kernel=("rbf", "poly", "cosine"), q=(2, 6))
def test_scores_agree_with_scikit_learn(rows, new, kernel, q):
    parameters = {"kernel": kernel, "gamma": 0.3, "degree": 2, "coef0": 1}
    theirs = KernelPCA(n_components=None, **parameters).fit(rows)
    detector = KernelPCADetector(q, **parameters).fit(rows)
    q = detector.n_components_
    k = naive.kernel(kernel, 0.3, 2, 1)
    distances, _, _ = naive.kernel_pca(k, rows, new)
    explained = (theirs.transform(new)[:, :q] ** 2).sum(axis=1)
    np.testing.assert_allclose(detector.score_samples(new), explained - distances, atol=1e-9)
    np.testing.assert_allclose(
        detector.explained_variance_, theirs.eigenvalues_[:q] / 30, rtol=1e-9
    )


@pytest.mark.parametrize("q", [2, 29])
def test_a_kernel_that_is_positive_once_centred_will_do(q):
    X, new = np.random.default_rng(0).uniform(size=(2, 30, 4))
    detector = KernelPCADetector(q, "additive_chi2").fit(X)
    expected = naive.kernel_pca_scores(naive.kernel("additive_chi2"), X, new, q)
    np.testing.assert_allclose(detector.score_samples(new), expected, rtol=1e-7, atol=1e-9)


@each_value(seed=range(5), q=(2, 29))
def test_good_kernels_are_not_refused(q, seed):
    """Rounding must not pass for a negative distance, whatever the sizes of rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 4))
    mostly_zero, one_huge = X * (np.arange(30)[:, None] % 3 == 0), X.copy()
    one_huge[7] *= 1e7
    for kernel, rows in (
        ("linear", mostly_zero),
        ("linear", one_huge),
        ("poly", one_huge / 1e7),
        ("additive_chi2", np.abs(X)),
        ("cosine", mostly_zero),
    ):
        detector = KernelPCADetector(q, kernel, gamma=1.0, degree=2).fit(rows)
        if q == 29 and kernel != "additive_chi2":
            assert (detector.predict(rows) == 1).sum() >= 27


@pytest.mark.parametrize("q", [3, 29])
@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_a_kernel_that_is_not_positive_is_refused(rows, q, precision):
    """Some errors would be negative: they are no squared distances."""
    with pytest.raises(ValueError, match=r"kernel='sigmoid' is not positive definite here"):
        KernelPCADetector(q, "sigmoid", gamma=0.3).fit(rows.astype(precision))


@pytest.mark.parametrize("q", [1, 2, 3])
def test_the_linear_kernel_is_principal_component_analysis(rows, new, q):
    scores = KernelPCADetector(q, "linear").fit(rows).score_samples(new)
    np.testing.assert_allclose(scores, naive.pca_scores(rows, new, q), atol=1e-9)


def test_a_function_is_a_kernel(rows, new):
    def similar(x, z, power):
        return float(1 + x @ z) ** power

    detector = KernelPCADetector(4, similar, kernel_params={"power": 2}).fit(rows)
    expected = naive.kernel_pca_scores(lambda x, z: similar(x, z, 2), rows, new, 4)
    np.testing.assert_allclose(detector.score_samples(new), expected, rtol=1e-8, atol=1e-8)


def test_huge_offsets_cost_no_digits(rows, new):
    near = KernelPCADetector(5).fit(rows).score_samples(new)
    far = KernelPCADetector(5).fit(rows + 1e6).score_samples(new + 1e6)
    np.testing.assert_allclose(far, near, atol=1e-6)


def test_errors_of_the_rows_are_the_variance_left_over(rows):
    detector = KernelPCADetector(4, gamma=0.3).fit(rows)
    left = detector.explained_variance_.sum() * (1 / detector.explained_variance_ratio_.sum() - 1)
    assert -detector.score_samples(rows).mean() == pytest.approx(left, rel=1e-10)


# ---------------------------------------------------------------------------------- how many


@pytest.mark.parametrize("wanted", [3, 4, 1000])
def test_there_are_no_more_components_than_dimensions(rows, new, wanted):
    detector = KernelPCADetector(wanted, "linear").fit(rows)
    assert detector.n_components_ == 3
    assert detector.explained_variance_.shape == (3,)
    assert detector.explained_variance_ratio_.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(detector.score_samples(new), 0.0, atol=1e-12)


def test_rows_have_one_component_less_than_they_are(rows, new):
    detector = KernelPCADetector(30, gamma=2.0).fit(rows)
    assert detector.n_components_ == 29
    np.testing.assert_allclose(detector.score_samples(rows), 0.0, atol=1e-12)
    k = naive.kernel("rbf", 2.0)
    expected = naive.kernel_pca_scores(k, rows, new, 29)
    np.testing.assert_allclose(detector.score_samples(new), expected, rtol=1e-8, atol=1e-8)


@cases("share", [0.01, 0.3, 0.5, 0.9, 0.99, 0.9999999])
def test_so_many_components_are_computed_as_the_share_needs(rows, share):
    """However few are computed first."""
    K, weights = Kernel("rbf", 1.0).gram(rows), np.full(30, 1 / 30)
    little, much = (spectrum_of_gram(K, weights, share, first=first) for first in (1, 32))
    count = much.count(share)
    assert little.count(share) == count <= len(little.values) <= 4 * count
    np.testing.assert_allclose(little.values[:count], much.values[:count], rtol=1e-9)


@cases("share", [0.01, 0.3, 0.5, 0.9, 0.99, 0.9999999])
def test_a_share_of_the_variance_decides_the_number(rows, new, share):
    k = naive.kernel("rbf", 1.0)
    _, _, variances = naive.kernel_pca(k, rows, rows)
    expected = int((np.cumsum(variances) / variances.sum() < share).sum()) + 1
    detector = KernelPCADetector(share, gamma=1.0).fit(rows)
    assert detector.n_components_ == expected
    assert detector.explained_variance_ratio_.sum() >= share
    assert detector.explained_variance_ratio_[:-1].sum() < share
    scores = naive.kernel_pca_scores(k, rows, new, expected)
    np.testing.assert_allclose(detector.score_samples(new), scores, rtol=1e-8, atol=1e-8)


def test_a_share_reached_exactly_is_reached():
    for d in range(2, 12):
        X = np.vstack([np.eye(d), -np.eye(d)])  # d components of equal variance
        for q in range(1, d):
            assert KernelPCADetector(q / d, "linear").fit(X).n_components_ == q
            assert KernelPCADetector(q / d + 1e-6, "linear").fit(X).n_components_ == q + 1


def test_a_share_of_the_variance_of_features(rows):
    detector = KernelPCADetector(0.8, gamma=0.5, **NYSTROEM).fit(rows)
    ratios = detector.explained_variance_ratio_
    assert ratios[:-1].sum() < 0.8 <= ratios.sum()


# ------------------------------------------------------------------------------------------ path


@every_way
def test_a_path_is_what_single_fits_say(rows, new, way):
    detector = KernelPCADetector(9, gamma=0.5, **way).fit(rows)
    wanted = [0, 1, 9, 4, 4]
    path = detector.score_path(new, wanted)
    assert path.shape == (17, 5)
    np.testing.assert_allclose(path[:, 2], detector.score_samples(new), rtol=1e-12)
    for column, q in zip(path.T, wanted, strict=True):
        if q:
            single = KernelPCADetector(q, gamma=0.5, **way).fit(rows).score_samples(new)
            np.testing.assert_allclose(column, single, rtol=1e-9, atol=1e-10)
    if not way:
        distances, _, _ = naive.kernel_pca(naive.kernel("rbf", 0.5), rows, new)
        np.testing.assert_allclose(path[:, 0], -distances, rtol=1e-12)
    assert (np.diff(path[:, [0, 1, 3, 2]], axis=1) >= -1e-12).all()


@cases("wanted", [[6], [-1], [1.0], ["1"], 3, [[1, 2]], [True]])
def test_a_path_stays_within_the_components(rows, wanted):
    detector = KernelPCADetector(5).fit(rows)
    with pytest.raises(ValueError, match="whole numbers from 0 to 5, got"):
        detector.score_path(rows, wanted)


def test_a_path_needs_a_fit(rows):
    with pytest.raises(NotFittedError):
        KernelPCADetector().score_path(rows, [1])


# ------------------------------------------------------------------------------------- iteration


MANY, FEW = 1000, 25  # rows from which few components are found by iteration, and how few


def dense(X, q, kernel="rbf", **fit):
    """The scores and the variances of a full decomposition, which one more component asks for."""
    parameters = {"gamma": 0.02, "degree": 2}
    detector = KernelPCADetector(FEW + 1, kernel, **parameters).fit(X, **fit)
    return lambda new: detector.score_path(new, [q])[:, 0], detector.explained_variance_[:q]


def wide_rows(n=MANY, d=30):
    return 3.0 + np.random.default_rng(0).normal(size=(n, d)) * np.linspace(2, 0.5, d)


def centred(K, w):
    H, roots = np.eye(len(K)) - w[None, :], np.sqrt(w)
    return roots[:, None] * (H @ K @ H.T) * roots[None, :]


@pairwise(
    q=(1, 4, 12),
    kernel=("rbf", "poly", "linear"),
    library=(np.asarray, naive.strict, naive.torch),
    weighted=(False, True),
)
def test_iterated_pairs_are_those_of_the_centred_matrix(q, kernel, weighted, library):
    X = wide_rows(80, 15)
    w = np.random.default_rng(1).uniform(0.2, 3, 80) if weighted else np.ones(80)
    w /= w.sum()
    K = Kernel(kernel, 0.02, 2).gram(X)
    values, vectors = iterated(library(K), library(w), q)
    expected = np.linalg.eigh(centred(K, w))
    np.testing.assert_allclose(values, expected[0][::-1][:q], rtol=1e-9)
    along = np.abs(np.sum(on_host(vectors) * expected[1][:, ::-1][:, :q], axis=0))
    np.testing.assert_allclose(along, 1.0, rtol=1e-9)


@each_value(q=(1, 4, 12, FEW), kernel=("rbf", "poly", "linear"), weighted=(False, True))
def test_iteration_finds_what_the_full_decomposition_finds(q, kernel, weighted):
    X = wide_rows()
    fit = {"sample_weight": np.random.default_rng(1).uniform(0.2, 3, MANY)} if weighted else {}
    detector = KernelPCADetector(q, kernel, gamma=0.02, degree=2).fit(X, **fit)
    scores, variances = dense(X, q, kernel, **fit)
    assert detector.n_components_ == q
    np.testing.assert_allclose(detector.explained_variance_, variances, rtol=1e-10)
    new = np.random.default_rng(2).normal(size=(20, 30))
    expected = scores(new)
    np.testing.assert_allclose(detector.score_samples(new), expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("library", [naive.strict, naive.torch])
@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_iteration_works_in_every_library(library, precision):
    host = np.random.default_rng(0).normal(size=(MANY, 5)) * [5, 3, 2, 1, 0.5]
    host = host.astype(precision)
    X = library(host)
    scores = KernelPCADetector(3, gamma=0.02).fit(X).score_samples(X)
    assert_beside(scores, X)
    close = 1e-9 if precision == np.float64 else 1e-4
    np.testing.assert_allclose(on_host(scores), dense(host, 3)[0](host), atol=close)


@pytest.mark.parametrize(("rows", "q", "whole"), [(MANY, FEW, 0), (MANY, FEW + 1, 1), (900, 5, 1)])
def test_few_of_many_components_need_no_full_decomposition(rows, q, whole):
    """A device's decompositions can be watched."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        sides = ()

        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            if "eigh" in str(function):
                self.sides = (*self.sides, arguments[0].shape[0])
            return function(*arguments, **(options or {}))

    X = torch.from_numpy(wide_rows(rows))
    with Watch() as watch:
        KernelPCADetector(q, gamma=0.02).fit(X)
    assert watch.sides.count(rows) == whole


def assert_sound(detector, X):
    """True of any components, though equal variances leave their choice open."""
    scores, path = detector.score_samples(X), detector.score_path(X, [0])[:, 0]
    assert np.isfinite(scores).all()
    total, explained = -path.mean(), detector.explained_variance_.sum()
    assert -scores.mean() == pytest.approx(total - explained, abs=1e-9)
    assert (scores >= path - 1e-9).all()
    assert scores.max() <= 1e-9


@pytest.mark.filterwarnings(ANY_WIDTH)
@pytest.mark.parametrize(
    "X",
    [
        np.random.default_rng(0).normal(size=(MANY, 10)) * 30,
        np.repeat(np.random.default_rng(0).normal(size=(4, 3)), MANY // 4, axis=0),
        np.vstack([np.eye(MANY // 2), -np.eye(MANY // 2)]),
        np.full((MANY, 2), 0.1),
    ],
    ids=["K = I", "repeated rows", "a sphere", "equal rows"],
)
def test_eigenvalues_that_coincide_are_no_obstacle(X):
    detector = KernelPCADetector(6, gamma=1.0).fit(X)
    assert_sound(detector, X)
    expected = KernelPCADetector(FEW + 1, gamma=1.0).fit(X)
    assert_sound(expected, X)
    q = detector.n_components_
    assert q == min(6, expected.n_components_)
    np.testing.assert_allclose(
        detector.explained_variance_, expected.explained_variance_[:q], atol=1e-12
    )


def test_an_iteration_that_does_not_end_is_left():
    """ARPACK may give up; then it is for the full decomposition to take over."""
    X = np.random.default_rng(0).normal(size=(200, 10))
    K, w = Kernel("rbf", 0.5).gram(X), np.full(200, 1 / 200)
    assert by_arpack(K, w, 6, restarts=1) is None
    values, _ = by_arpack(K, w, 6, restarts=10_000)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(centred(K, w))[::-1][:6], rtol=1e-9)


# --------------------------------------------------------------------------------- approximations


@pytest.mark.parametrize("weighted", [False, True])
def test_approximations_are_principal_components_of_their_features(rows, new, weighted):
    weights = np.arange(30) % 4 if weighted else np.ones(30, dtype=int)
    detector = KernelPCADetector(4, gamma=0.3, **NYSTROEM).fit(rows, sample_weight=weights)
    Phi, psi = detector.features_.of(rows), detector.features_.of(new)
    unexplained = 1 - (psi**2).sum(axis=1)
    expected = naive.pca_scores(np.repeat(Phi, weights, axis=0), psi, 4) - unexplained
    np.testing.assert_allclose(detector.score_samples(new), expected, atol=1e-8)


@each_value(kernel=("rbf", "poly", "laplacian", "linear"), q=(3, 0.7))
def test_all_rows_as_landmarks_are_exact(rows, new, kernel, q):
    exact = KernelPCADetector(q, kernel, degree=2, approximation=None).fit(rows)
    detector = clone(exact).set_params(**NYSTROEM).set_params(n_approximation=30).fit(rows)
    assert detector.features_ is not None
    assert detector.n_components_ == exact.n_components_
    np.testing.assert_allclose(
        detector.explained_variance_ratio_, exact.explained_variance_ratio_, rtol=1e-7
    )
    scores = exact.score_samples(new)
    np.testing.assert_allclose(detector.score_samples(new), scores, rtol=1e-6, atol=1e-7)
    assert detector.offset_ == pytest.approx(exact.offset_, rel=1e-6, abs=1e-9)


def test_the_error_falls_as_features_grow():
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(100, 2)), rng.normal(size=(50, 2))
    exact = KernelPCADetector(4, approximation=None).fit(X).score_samples(new)
    errors = [
        np.abs(
            KernelPCADetector(4, approximation="nystroem", n_approximation=size, random_state=0)
            .fit(X)
            .score_samples(new)
            - exact
        ).mean()
        for size in (5, 20, 80)
    ]
    assert errors[0] > 1.2 * errors[1] > 1.44 * errors[2]
    assert errors[2] < 1e-3


def test_too_large_a_matrix_is_approximated(monkeypatch, rows, new):
    parameters = {"n_components": 4, "n_approximation": 12, "random_state": 0}
    approximate = KernelPCADetector(approximation="nystroem", **parameters).fit(rows)
    monkeypatch.setattr(limits, "matrix", 30 * 30 * 8)
    assert KernelPCADetector(**parameters).fit(rows).features_ is None  # it just fits
    monkeypatch.setattr(limits, "matrix", 30 * 30 * 8 - 1)
    switched = KernelPCADetector(**parameters).fit(rows)
    np.testing.assert_array_equal(switched.score_samples(new), approximate.score_samples(new))
    assert KernelPCADetector(approximation=None, **parameters).fit(rows).features_ is None


def test_the_seed_decides_the_approximation(rows, new):
    one, same = (KernelPCADetector(3, **NYSTROEM).fit(rows).score_samples(new) for _ in range(2))
    np.testing.assert_array_equal(one, same)
    other = KernelPCADetector(3, **{**NYSTROEM, "random_state": 1}).fit(rows).score_samples(new)
    assert not np.allclose(one, other)


# --------------------------------------------------------------------------------------- weights


@every_way
@pytest.mark.parametrize("q", [4, 0.8])
def test_a_weight_is_a_number_of_repetitions(rows, new, way, q):
    weights = np.arange(30) % 4
    way = {**way, "n_approximation": 200}  # so that all rows are landmarks, repeated or not
    weighted = KernelPCADetector(q, gamma=0.3, **way).fit(rows, sample_weight=weights)
    repeated = KernelPCADetector(q, gamma=0.3, **way).fit(np.repeat(rows, weights, axis=0))
    assert weighted.n_components_ == repeated.n_components_
    np.testing.assert_allclose(
        weighted.explained_variance_, repeated.explained_variance_, rtol=1e-7
    )
    expected = repeated.score_samples(new)
    np.testing.assert_allclose(weighted.score_samples(new), expected, rtol=1e-6, atol=1e-8)
    assert weighted.offset_ == pytest.approx(repeated.offset_, rel=1e-6, abs=1e-8)


def test_only_the_proportions_of_weights_matter(rows, new):
    weights = np.random.default_rng(2).uniform(0.1, 3, size=30)
    one, other = (
        KernelPCADetector(4).fit(rows, sample_weight=factor * weights) for factor in (1, 17)
    )
    np.testing.assert_allclose(one.score_samples(new), other.score_samples(new), rtol=1e-10)
    plain = KernelPCADetector(4).fit(rows).score_samples(new)
    equal = KernelPCADetector(4).fit(rows, sample_weight=np.full(30, 0.3)).score_samples(new)
    np.testing.assert_allclose(equal, plain, rtol=1e-10)


# ------------------------------------------------------------------------------------- threshold


@each_value(way=WAYS, q=(4, 0.8, 1000, 4), weighted=(False, True))
def test_the_fit_knows_the_scores_of_its_rows(rows, way, q, weighted):
    """Each threshold from training rows lies where the scores, asked afterwards, put it."""
    weights = np.arange(30) % 3 + 0.5 if weighted else np.ones(30)
    for share in np.arange(0.05, 0.5, 0.05):
        settings = {"contamination": share, "offset_from": "training", **way}
        detector = KernelPCADetector(q, gamma=0.5, **settings)
        scores = detector.fit(rows, sample_weight=weights).score_samples(rows)
        expected = lower_quantile(scores, weights, share)
        assert detector.offset_ == pytest.approx(expected, rel=1e-8, abs=2e-9)


@each_value(way=WAYS, contamination=(0.1, 0.3, 0.5))
def test_the_share_of_training_rows_lies_below_the_threshold(rows, way, contamination):
    settings = {"contamination": contamination, "offset_from": "training", **way}
    detector = KernelPCADetector(4, gamma=0.5, **settings).fit(rows)
    assert (detector.predict(rows) == -1).sum() == round(contamination * 30)


def test_rounding_is_no_reason_to_call_a_row_anomalous():
    """As many components as there are: all errors are zero, but for rounding."""
    X = np.random.default_rng(0).normal(size=(8, 30))
    for scale in (1.0, 1e3):
        detector = KernelPCADetector(10, "linear").fit(X * scale)
        assert (detector.predict(X * scale) == 1).all()
    for order in (slice(None), slice(None, None, -1)):
        assert (KernelPCADetector(10).fit(X[order]).predict(X) == 1).all()


# -------------------------------------------------------------------------------- array libraries


@pytest.mark.usefixtures("same_landmarks")
@each_value(library=(*LIBRARIES, LIBRARIES[-1]), way=WAYS, q=(4, 0.8))
def test_every_library_gives_the_same_scores(rows, new, library, way, q):
    weights = np.arange(30.0) % 4
    host = KernelPCADetector(q, gamma=0.5, **way).fit(rows, sample_weight=weights)
    detector = clone(host).fit(library(rows), sample_weight=library(weights))
    scores = detector.score_samples(library(new))
    assert_beside(scores, library(new))
    near = {"rtol": 1e-8, "atol": 1e-9}
    np.testing.assert_allclose(on_host(scores), host.score_samples(new), **near)
    np.testing.assert_allclose(detector.explained_variance_, host.explained_variance_, **near)
    assert detector.offset_ == pytest.approx(host.offset_, rel=1e-7, abs=1e-9)
    path = detector.score_path(library(new), [0, 2])
    assert_beside(path, library(new))
    np.testing.assert_allclose(on_host(path), host.score_path(new, [0, 2]), **near)
    np.testing.assert_allclose(detector.score_samples(new), host.score_samples(new), **near)
    np.testing.assert_allclose(on_host(host.score_samples(library(new))), on_host(scores), **near)


@pytest.mark.usefixtures("same_landmarks")
@each_value(way=WAYS, library=(np.asfortranarray, naive.strict, naive.torch))
def test_single_precision_stays_single(rows, new, library, way):
    double = KernelPCADetector(4, gamma=0.5, **way).fit(rows)
    single = clone(double).fit(library(rows.astype(np.float32)))
    X = library(new.astype(np.float32))
    scores = single.score_samples(X)
    assert_beside(scores, X)
    close = 1e-4 if not way else 0.02  # single precision may drop directions of the features
    np.testing.assert_allclose(on_host(scores), double.score_samples(new), atol=close)


@pytest.mark.parametrize("q", [25, 1000])
def test_rounding_in_single_precision_is_no_component(rows, q):
    """More components than there are digits: no error may fall far below zero."""
    X = rows.astype(np.float32)
    detector = KernelPCADetector(q, gamma=0.01).fit(X)
    assert detector.n_components_ < 25
    assert detector.score_samples(X).max() < 1e-4
    assert detector.score_samples(X).min() > -1e-4


@every_way
def test_rows_in_blocks_get_the_same_scores(monkeypatch, way):
    X = np.random.default_rng(3).normal(size=(600, 3))
    whole = KernelPCADetector(5, gamma=0.5, **way).fit(X)
    scores, path = whole.score_samples(X), whole.score_path(X, [1, 3])
    monkeypatch.setattr(limits, "block", 1)
    monkeypatch.setattr(limits, "parallel", 1)
    np.testing.assert_allclose(whole.score_samples(X), scores, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(whole.score_path(X, [1, 3]), path, rtol=1e-9, atol=1e-11)
    blocks = clone(whole).fit(X)
    np.testing.assert_allclose(blocks.score_samples(X), scores, rtol=1e-7, atol=1e-9)


# ------------------------------------------------------------------------------- degenerate input


@pytest.mark.filterwarnings(ANY_WIDTH)
@each_value(way=WAYS, q=(1, 10, 0.5))
@pytest.mark.parametrize(
    "X",
    [
        np.array([[2.0, 3.0]]),
        np.array([[2.0, 3.0], [4.0, 5.0]]),
        np.full((5, 3), 0.1),
        np.column_stack([np.arange(5.0), np.full(5, 0.7)]),
        np.random.default_rng(0).normal(size=(4, 50)),
        np.repeat(np.eye(3), 4, axis=0),
    ],
    ids=["n = 1", "n = 2", "equal rows", "constant column", "d > n", "repeated rows"],
)
def test_little_data_is_enough(X, way, q):
    detector = KernelPCADetector(q, gamma=0.7, **way).fit(X)
    different = len(np.unique(X, axis=0))
    assert detector.n_components_ <= different - 1
    scores = detector.score_samples(np.vstack([X, X + 100]))
    assert np.isfinite(scores).all()
    assert scores[: len(X)].max() < 1e-9
    if q == 10 and not way:
        assert detector.n_components_ == different - 1
        np.testing.assert_allclose(scores[: len(X)], 0.0, atol=1e-9)
        assert scores[len(X) :].max() < -0.5


def test_columns_are_named(rows):
    frame = pd.DataFrame(rows, columns=["age", "dose", "mass"])
    detector = KernelPCADetector(3).fit(frame)
    assert list(detector.feature_names_in_) == ["age", "dose", "mass"]
    for score in (detector.score_samples, lambda X: detector.score_path(X, [1])):
        with pytest.raises(ValueError, match="feature names"):
            score(frame[["dose", "age", "mass"]])
        with pytest.raises(ValueError, match=r"NaN or infinity in column 'dose' \(1 row\)"):
            score(frame.assign(dose=[np.nan, *rows[1:, 1]]))


def test_sparse_rows_are_refused(rows):
    with pytest.raises(TypeError, match="dense"):
        KernelPCADetector().fit(sparse.csr_array(rows))


@cases("wanted", [0, -3, 0.0, 1.0, 1.5, np.nan, "10", None, True, [2]])
def test_numbers_of_components_are_checked(rows, wanted):
    with pytest.raises(ValueError, match=r"whole number from 1, or a share of the variance"):
        KernelPCADetector(wanted).fit(rows)


@pytest.mark.parametrize("wanted", [np.int64(3), np.float32(0.5), np.float64(0.5)])
def test_numbers_of_components_may_be_numpys(rows, wanted):
    plain = KernelPCADetector(wanted.item(), gamma=0.5).fit(rows)
    assert KernelPCADetector(wanted, gamma=0.5).fit(rows).n_components_ == plain.n_components_


@cases(
    "parameters, words",
    [
        ({"contamination": 0.6}, "contamination must be .* above 0 and at most 0.5"),
        ({"approximation": True}, "approximation must be one of"),
        ({"n_approximation": 0}, "n_approximation must be a whole number from 1, got 0"),
        ({"kernel": "gauss"}, "kernel must be one of"),
        ({"gamma": "auto"}, "gamma must be"),
    ],
)
def test_parameters_are_checked_in_fit(rows, parameters, words):
    detector = KernelPCADetector(**parameters)
    with pytest.raises(ValueError, match=words):
        detector.fit(rows)
    with pytest.raises(NotFittedError):
        detector.score_samples(rows)


# ------------------------------------------------------------------------------------ properties

problems = st.tuples(st.integers(3, 15), st.integers(1, 4), st.integers(0, 1000))


def random_rows(n, d, seed):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.filterwarnings(ANY_WIDTH)
@given(problem=problems, q=st.integers(1, 5), offset=st.floats(-1e4, 1e4))
@steady
def test_a_translation_changes_nothing(problem, q, offset):
    X = random_rows(*problem)
    detector = KernelPCADetector(q, gamma=0.5)
    expected = detector.fit(X).score_samples(X / 2)
    moved = detector.fit(X + offset).score_samples(X / 2 + offset)
    np.testing.assert_allclose(moved, expected, rtol=0, atol=1e-6)


@pytest.mark.filterwarnings(ANY_WIDTH)
@given(problem=problems, q=st.integers(1, 5), scale=st.floats(0.01, 100))
@steady
def test_scaling_rows_is_scaling_the_width(problem, q, scale):
    X = random_rows(*problem)
    expected = KernelPCADetector(q, gamma=0.5).fit(X).score_samples(X / 2)
    scaled = KernelPCADetector(q, gamma=0.5 * scale**2).fit(X / scale)
    np.testing.assert_allclose(scaled.score_samples(X / 2 / scale), expected, rtol=0, atol=1e-7)


@pytest.mark.filterwarnings(ANY_WIDTH)
@given(problem=problems, q=st.integers(1, 5), random=st.randoms(use_true_random=False))
@steady
def test_the_order_of_rows_does_not_matter(problem, q, random):
    X = random_rows(*problem)
    order = random.sample(range(len(X)), len(X))
    plain, shuffled = KernelPCADetector(q).fit(X), KernelPCADetector(q).fit(X[order])
    expected = plain.score_samples(X / 2)
    np.testing.assert_allclose(shuffled.score_samples(X / 2), expected, rtol=0, atol=1e-7)


@given(problem=problems, q=st.integers(1, 5))
@steady
def test_rotations_change_nothing(problem, q):
    n, d, seed = problem
    X = random_rows(n, d, seed)
    rotation = np.linalg.qr(random_rows(d, d, seed + 1))[0]
    plain = KernelPCADetector(q, gamma=0.3).fit(X)
    rotated = KernelPCADetector(q, gamma=0.3).fit(X @ rotation)
    expected = plain.score_samples(X / 2)
    np.testing.assert_allclose(rotated.score_samples(X / 2 @ rotation), expected, atol=1e-7)


@pytest.mark.parametrize("n", [2, 9, 10])
def test_fewer_rows_than_components_are_told_with_the_remedy(n):
    X = np.random.default_rng(0).normal(size=(n, 3))
    told = rf"n_components=10 of {n} rows: there are {n - 1} components.*n_components=0.95"
    with pytest.warns(UserWarning, match=told):
        detector = KernelPCADetector(gamma=0.3).fit(X)
    assert detector.n_components_ == n - 1
    np.testing.assert_allclose(detector.score_samples(X), 0, atol=1e-9)  # all lie in the span
    assert detector.score_samples(X + 1.0).max() < -1e-6


@pytest.mark.parametrize(("n", "components"), [(11, 10), (5, 0.95), (3, 2)])
def test_more_rows_than_components_and_shares_raise_no_warning(n, components):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelPCADetector(components, gamma=0.3).fit(np.random.default_rng(0).normal(size=(n, 3)))
