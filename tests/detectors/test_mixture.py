import numpy as np
import pytest
from scipy.spatial.distance import mahalanobis
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from lpfuse import GMMDetector

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


@every_covariance
@pytest.mark.parametrize("n_components", [1, 3])
def test_the_score_is_the_distance_to_the_nearest_component(covariance_type, n_components):
    X, new = clusters(), clusters(1)[::5]
    detector = GMMDetector(n_components, covariance_type=covariance_type, random_state=0).fit(X)
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


@every_covariance
@pytest.mark.parametrize("n_components", [1, 3])
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


@pytest.mark.parametrize("different", [1, 2, 5])
@every_covariance
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


@every_covariance
@pytest.mark.parametrize("score_type", ["mahalanobis", "log_likelihood"])
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
    monkeypatch.setattr("lpfuse._arrays.BLOCK_BYTES", 1)  # as small as blocks get
    monkeypatch.setattr("lpfuse._arrays.PARALLEL_BYTES", 1)
    np.testing.assert_allclose(detector.score_samples(X), whole, rtol=1e-12)


def test_sample_weights_are_not_taken():
    with pytest.raises(TypeError, match="sample_weight"):
        GMMDetector().fit(clusters(), sample_weight=np.ones(180))
