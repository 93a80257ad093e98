import warnings

import numpy as np
import pytest
from scipy.spatial.distance import mahalanobis
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from helpers.pairwise import each_value
from lpfuse import GMMDetector
from lpfuse._arrays.operations import limits
from lpfuse.detectors.mixture import _fill, _start, fit_on_device
from oracles.kernel_learners import LIBRARIES, every_library, strict_device, torch

COVARIANCES = ["full", "tied", "diag", "spherical"]
every_covariance = pytest.mark.parametrize("covariance_type", COVARIANCES)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """On rows as few as these, scikit-learn's mixtures spend their time waiting for threads."""
    with threadpool_limits(1):
        yield


def clusters(seed=0, n=60, d=3):
    """Three clusters of different shapes."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(0.0, 6.0, (3, d))
    shapes = rng.normal(0.0, 1.0, (3, d, d))
    return np.vstack(
        [
            centre + rng.normal(size=(n, d)) @ shape
            for centre, shape in zip(centres, shapes, strict=True)
        ]
    )


def covariances(mixture):
    """The covariance matrix of each component."""
    k, d = mixture.means_.shape
    found = mixture.covariances_
    return {
        "full": lambda: found,
        "tied": lambda: [found] * k,
        "diag": lambda: [np.diag(variances) for variances in found],
        "spherical": lambda: [variance * np.eye(d) for variance in found],
    }[mixture.covariance_type]()


@each_value(covariance_type=COVARIANCES, n_components=(3, 1, 3))
def test_the_score_is_the_distance_to_the_nearest_component(covariance_type, n_components):
    X, new = clusters(), clusters(1)[::5]
    settings = {"covariance_type": covariance_type, "random_state": 0}
    detector = GMMDetector(n_components, "mahalanobis", **settings).fit(X)
    mixture = detector.mixture_
    precisions = [np.linalg.inv(matrix) for matrix in covariances(mixture)]
    expected = [
        -min(
            mahalanobis(x, mean, precision)
            for mean, precision in zip(mixture.means_, precisions, strict=True)
        )
        for x in new
    ]
    np.testing.assert_allclose(detector.score_samples(new), expected, rtol=1e-9)


@each_value(covariance_type=COVARIANCES, n_components=(3, 1, 3))
def test_the_likelihood_is_scikit_learns(covariance_type, n_components):
    X, new = clusters(), np.vstack([clusters(1), 1e3 * clusters(2)[:5]])
    detector = GMMDetector(
        n_components, "log_likelihood", covariance_type=covariance_type, random_state=0
    ).fit(X)
    expected = detector.mixture_.score_samples(new)
    np.testing.assert_allclose(detector.score_samples(new), expected, rtol=1e-10)


@every_covariance
def test_the_mixture_is_the_one_that_was_asked_for(covariance_type):
    X = clusters()
    settings = {
        "n_components": 2,
        "covariance_type": covariance_type,
        "reg_covar": 0.5,
        "n_init": 2,
        "max_iter": 150,
        "random_state": 3,
    }
    detector, theirs = GMMDetector(**settings).fit(X), GaussianMixture(**settings).fit(X)
    ours = detector.mixture_
    assert ours.get_params() == theirs.get_params()
    assert detector.n_iter_ == theirs.n_iter_
    np.testing.assert_allclose(ours.means_, theirs.means_)
    np.testing.assert_allclose(ours.covariances_, theirs.covariances_)
    np.testing.assert_allclose(ours.weights_, theirs.weights_)


def test_one_gaussian_in_closed_form():
    X = clusters()[:60]
    for score_type in ("mahalanobis", "log_likelihood"):
        detector = GMMDetector(1, score_type, reg_covar=0.25).fit(X)
        mean, spread = X.mean(axis=0), np.cov(X.T, bias=True) + 0.25 * np.eye(3)
        if score_type == "mahalanobis":
            expected = [-mahalanobis(x, mean, np.linalg.inv(spread)) for x in X]
        else:
            expected = multivariate_normal(mean, spread).logpdf(X)
        np.testing.assert_allclose(detector.score_samples(X), expected, rtol=1e-9)


def test_few_steps_warn_as_scikit_learn_does():
    with pytest.warns(ConvergenceWarning):
        GMMDetector(max_iter=1, random_state=0).fit(clusters())


# --------------------------------------------------------------------------------- degenerate rows


@every_covariance
def test_two_rows(covariance_type):
    X = np.array([[0.0, 1.0], [4.0, 3.0]])
    detector = GMMDetector(covariance_type=covariance_type, random_state=0).fit(X)
    assert detector.mixture_.n_components == 2
    assert np.isfinite(detector.score_samples([[2.0, 2.0], *X.tolist()])).all()
    assert (detector.predict(X) == 1).all()
    assert detector.predict([[50.0, -50.0]]).tolist() == [-1]


@each_value(covariance_type=COVARIANCES, different=(1, 2, 5))
def test_there_are_no_more_components_than_different_rows(different, covariance_type):
    X = np.repeat(np.random.default_rng(0).normal(0, 3, (different, 2)), 6, axis=0)
    detector = GMMDetector(4, covariance_type=covariance_type, random_state=0).fit(X)
    assert detector.mixture_.n_components == min(4, different)
    assert np.isfinite(detector.score_samples(X)).all()
    assert (detector.predict(X) == 1).mean() >= 0.9
    assert detector.predict([[1e3, 1e3]]).tolist() == [-1]


def test_rows_that_differ_in_one_column_only_are_different():
    X = np.zeros((9, 5))
    X[:, 3] = [0.0, 1e-3, 2e-3] * 3
    assert GMMDetector(5, reg_covar=1e-9, random_state=0).fit(X).mixture_.n_components == 3


@every_covariance
def test_constant_columns(covariance_type):
    X = np.column_stack([clusters(d=2), np.full(180, 4.0)])
    detector = GMMDetector(covariance_type=covariance_type, random_state=0).fit(X)
    moved = X[:1] + np.array([0.0, 0.0, 5.0])
    assert np.isfinite(detector.score_samples(X)).all()
    assert detector.predict(moved).tolist() == [-1]


@every_covariance
def test_more_features_than_rows(covariance_type):
    X = np.random.default_rng(0).normal(size=(12, 40))
    detector = GMMDetector(2, covariance_type=covariance_type, random_state=0).fit(X)
    assert np.isfinite(detector.score_samples(X)).all()
    assert detector.score_samples(X).min() > detector.score_samples(X + 20.0).max()


def test_one_row_is_refused_in_words():
    with pytest.raises(ValueError, match=r"at least 2 rows, got n_samples = 1\. Pass more normal"):
        GMMDetector().fit([[1.0, 2.0]])


def test_a_mixture_that_needs_regularisation_says_so():
    X = np.repeat(np.eye(2), 5, axis=0)
    with pytest.raises(ValueError, match="reg_covar"):
        GMMDetector(reg_covar=0.0, random_state=0).fit(X)


# ---------------------------------------------------------------------------- libraries and blocks


@each_value(
    covariance_type=COVARIANCES, score_type=("mahalanobis", "log_likelihood", "mahalanobis")
)
def test_torch_rows_are_scored_in_torch(covariance_type, score_type):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    X = clusters()
    settings = {"covariance_type": covariance_type, "random_state": 0}
    detector = GMMDetector(3, score_type, **settings).fit(X)
    expected = detector.score_samples(X)
    for dtype, rtol in ((torch.float64, 1e-10), (torch.float32, 1e-3)):
        scores = detector.score_samples(torch.tensor(X, dtype=dtype))
        assert scores.dtype == dtype
        np.testing.assert_allclose(scores.numpy(), expected, rtol=rtol, atol=rtol)
    trained = GMMDetector(3, score_type, **settings).fit(torch.tensor(X))
    np.testing.assert_allclose(trained.score_samples(X), expected, rtol=1e-10)


@pytest.mark.parametrize("score_type", ["mahalanobis", "log_likelihood"])
def test_rows_are_scored_in_blocks(monkeypatch, score_type):
    X = np.random.default_rng(0).normal(size=(3000, 4))
    detector = GMMDetector(3, score_type, random_state=0).fit(X)
    whole = detector.score_samples(X)
    monkeypatch.setattr(limits, "block", 1)  # as small as blocks get
    monkeypatch.setattr(limits, "parallel", 1)
    np.testing.assert_allclose(detector.score_samples(X), whole, rtol=1e-12)


def test_sample_weights_are_not_taken():
    with pytest.raises(TypeError, match="sample_weight"):
        GMMDetector().fit(clusters(), sample_weight=np.ones(180))


# ------------------------------------------------------------------------------- on an accelerator


@pytest.fixture
def accelerator(monkeypatch):
    """Rows of other libraries are taken as those of a GPU."""
    monkeypatch.setattr(
        "lpfuse._arrays.operations.on_accelerator", lambda rows: not isinstance(rows, np.ndarray)
    )


def overlapping():
    """Clusters that take a while to be told apart."""
    rng = np.random.default_rng(0)
    return np.vstack([rng.normal(centre, 1.0 + centre, (80, 3)) for centre in (0.0, 1.0, 2.0)])


@each_value(covariance_type=COVARIANCES, library=LIBRARIES)
def test_the_steps_are_scikit_learns(covariance_type, library):
    X = overlapping()
    asked = {"covariance_type": covariance_type, "reg_covar": 0.01, "tol": 1e-4, "max_iter": 500}
    ours = GaussianMixture(3, random_state=0, **asked)
    rows, begun = library(X), clone(ours)
    _fill(begun, _start(rows, ours, np.random.RandomState(0)))
    theirs = GaussianMixture(
        3,
        weights_init=begun.weights_,
        means_init=begun.means_,
        precisions_init=begun.precisions_,
        **asked,
    ).fit(X)
    fit_on_device(ours, rows)
    assert (ours.n_iter_, ours.converged_) == (theirs.n_iter_, True)
    assert ours.n_iter_ > 5
    close = {"rtol": 1e-7, "atol": 1e-9}
    for name in ("weights_", "means_", "covariances_", "precisions_cholesky_", "precisions_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), **close)
    np.testing.assert_allclose(ours.lower_bounds_, theirs.lower_bounds_, **close)
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), **close)


@every_covariance
def test_rows_far_from_the_origin_cost_no_digits(covariance_type):
    X = overlapping()
    here, there = (
        fit_on_device(GaussianMixture(3, covariance_type=covariance_type, random_state=0), torch(x))
        for x in (X, X + 1e6)
    )
    np.testing.assert_allclose(there.means_ - 1e6, here.means_, atol=1e-6)
    np.testing.assert_allclose(there.covariances_, here.covariances_, rtol=1e-6)


@pytest.mark.usefixtures("accelerator")
@every_library
def test_rows_on_an_accelerator_give_a_mixture_as_good(library):
    X, new = clusters(), clusters(1)
    host = GMMDetector(3, "log_likelihood", random_state=0).fit(X)
    beside = GMMDetector(3, "log_likelihood", random_state=0).fit(library(X))
    assert beside.mixture_.lower_bound_ == pytest.approx(host.mixture_.lower_bound_, abs=1e-3)
    np.testing.assert_allclose(beside.score_samples(new), host.score_samples(new), rtol=0.02)
    assert beside.offset_ == pytest.approx(host.offset_, rel=0.02)


@pytest.mark.usefixtures("accelerator")
def test_rows_on_an_accelerator_stay_there(monkeypatch):
    sizes, leave = [], np.from_dlpack
    monkeypatch.setattr(np, "from_dlpack", lambda x: sizes.append(np.prod(x.shape)) or leave(x))
    X = np.repeat(clusters(), 5, axis=0)
    GMMDetector(3, random_state=0).fit(strict_device(X))
    assert max(sizes) <= len(X)  # one number a row at most


@pytest.mark.usefixtures("accelerator")
def test_the_best_start_is_kept():
    X = torch(np.random.default_rng(0).uniform(size=(150, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        bounds = [
            GMMDetector(6, random_state=0, n_init=n_init, max_iter=5).fit(X).mixture_.lower_bound_
            for n_init in (1, 2, 4)
        ]
    assert bounds[0] <= bounds[1] <= bounds[2]
    assert bounds[0] < bounds[2]


@every_covariance
def test_sums_do_not_depend_on_the_blocks(monkeypatch, covariance_type):
    X = torch(np.repeat(clusters(), 5, axis=0))
    whole = fit_on_device(GaussianMixture(3, covariance_type=covariance_type, random_state=0), X)
    monkeypatch.setattr(limits, "device_block", 1)  # as few rows a block as can be
    parts = fit_on_device(GaussianMixture(3, covariance_type=covariance_type, random_state=0), X)
    np.testing.assert_allclose(parts.covariances_, whole.covariances_, rtol=1e-9)
    np.testing.assert_allclose(parts.lower_bounds_, whole.lower_bounds_, rtol=1e-12)


def test_single_precision_is_summed_in_double():
    X = clusters(n=300).astype(np.float32)
    single = fit_on_device(GaussianMixture(3, random_state=0), torch(X))
    double = fit_on_device(GaussianMixture(3, random_state=0), torch(X.astype(np.float64)))
    np.testing.assert_allclose(single.covariances_, double.covariances_, rtol=1e-9)


@pytest.mark.usefixtures("accelerator")
def test_few_steps_on_an_accelerator_warn():
    with pytest.warns(ConvergenceWarning, match="not converged after 1 steps"):
        GMMDetector(max_iter=1, random_state=0).fit(torch(clusters()))


@pytest.mark.usefixtures("accelerator")
@every_covariance
def test_a_collapsed_component_is_told(covariance_type):
    X = torch(np.repeat(np.eye(2), 5, axis=0))
    with pytest.raises(ValueError, match=r"collapsed.*larger reg_covar"):
        GMMDetector(2, reg_covar=0.0, covariance_type=covariance_type, random_state=0).fit(X)
    assert GMMDetector(2, covariance_type=covariance_type, random_state=0).fit(X).n_iter_ >= 1
