import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from helpers.cases import cases
from lpfuse import SVDD, GMMDetector, KernelPCADetector, OneClassGP
from lpfuse._arrays.operations import limits
from lpfuse.detectors import PAPER_WIDTHS, fit_together, gamma_from_sigma, score_together
from lpfuse.detectors.gaussian_process import SCORES
from lpfuse.detectors.kernels import training_rows
from oracles import kernel_learners as naive
from oracles.kernel_learners import assert_beside, every_library, on_host

ANY_WIDTH = "ignore:gamma=:lpfuse.detectors.KernelWidthWarning"


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(50, 3)) * [2.0, 1.0, 0.5]


@pytest.fixture
def new():
    return np.random.default_rng(1).normal(size=(23, 3)) * 1.5


def kernel_grid():
    """Every kernel learner at several widths, in no helpful order."""
    gammas = ("scale", 0.1, 1.0)
    grid = [KernelPCADetector(q, gamma=gamma) for q in (2, 10, 6) for gamma in gammas]
    grid += [make(gamma=gamma) for gamma in gammas for make in (SVDD, OneClassGP)]
    grid += [OneClassGP(name, gamma=0.1) for name in SCORES]
    return [*grid, KernelPCADetector(0.9, gamma=0.1), KernelPCADetector(0.2, gamma=1.0)]


def mixed_grid():
    """And other kernels, approximations, and a learner without any kernel."""
    return [
        GMMDetector(2, random_state=0),
        *kernel_grid(),
        OneClassGP(kernel="poly", degree=2),
        SVDD(kernel="linear", C=0.1),
        KernelPCADetector(3, "cosine"),
        OneClassGP("density", approximation="nystroem", n_components=20, random_state=0),
        KernelPCADetector(4, approximation="nystroem", n_approximation=20, random_state=0),
        SVDD(approximation="nystroem", n_components=20, random_state=0),
        GMMDetector(2, "log_likelihood", random_state=0),
    ]


def assert_same(together, alone, X, rtol=1e-7, atol=1e-8):
    """Each detector as if it had been fitted alone, and all scores as if asked one by one."""
    scores = on_host(score_together(together, X))
    assert scores.shape == (X.shape[0], len(together))
    for detector, other, column in zip(together, alone, scores.T, strict=True):
        name = repr(detector)
        expected = on_host(other.score_samples(X))
        own = on_host(detector.score_samples(X))
        np.testing.assert_allclose(own, expected, rtol=rtol, atol=atol, err_msg=name)
        np.testing.assert_allclose(column, own, rtol=rtol, atol=atol, err_msg=name)
        assert detector.offset_ == pytest.approx(other.offset_, rel=1e-6, abs=1e-8), name
        assert detector.n_features_in_ == other.n_features_in_


def test_a_mixed_grid_is_fitted_as_one_by_one(rows, new):
    grid = mixed_grid()
    together = fit_together(grid, rows)
    assert all(fitted is given for fitted, given in zip(together, grid, strict=True))
    assert_same(together, [clone(detector).fit(rows) for detector in grid], new)


@pytest.mark.filterwarnings(ANY_WIDTH)
def test_the_grid_of_the_paper(rows, new):
    grid = []
    for sigma in PAPER_WIDTHS:
        gamma = gamma_from_sigma(sigma)
        grid += [SVDD(gamma=gamma), OneClassGP(gamma=gamma)]
        grid += [KernelPCADetector(q, gamma=gamma) for q in (2, 6, 10)]
    X = rows / 50  # no width leaves the identity, whose components nobody could tell apart
    alone = [clone(detector).fit(X) for detector in grid]
    assert_same(fit_together(grid, X), alone, new / 50)


@pytest.mark.parametrize("zeros", [False, True])
def test_weights_reach_every_learner(rows, new, zeros):
    weights = np.random.default_rng(2).integers(0 if zeros else 1, 4, size=50).astype(float)
    grid = [detector for detector in mixed_grid() if not isinstance(detector, GMMDetector)]
    alone = [clone(detector).fit(rows, sample_weight=weights) for detector in grid]
    assert_same(fit_together(grid, rows, weights), alone, new)


def test_a_learner_that_cannot_weigh_rows_says_so(rows):
    grid = [OneClassGP(), GMMDetector()]
    with pytest.raises(ValueError, match="GMMDetector does not support sample_weight"):
        fit_together(grid, rows, np.ones(50))
    with pytest.raises(NotFittedError):
        grid[0].score_samples(rows)


@pytest.mark.usefixtures("same_landmarks")
@every_library
def test_every_library_gives_the_same_scores(rows, new, library):
    together = fit_together(mixed_grid(), library(rows))
    scores = score_together(together, library(new))
    assert_beside(scores, library(new))
    alone = [detector.fit(rows) for detector in mixed_grid()]
    assert_same(together, alone, new, rtol=1e-6)
    expected = np.column_stack([detector.score_samples(new) for detector in alone])
    np.testing.assert_allclose(on_host(scores), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("library", [np.asfortranarray, naive.torch])
def test_single_precision_stays_single(rows, new, library):
    X, Z = (library(x.astype(np.float32)) for x in (rows, new))
    scores = score_together(fit_together(mixed_grid()[::3], X), Z)
    assert_beside(scores, Z)
    alone = [on_host(detector.fit(X).score_samples(Z)) for detector in mixed_grid()[::3]]
    np.testing.assert_allclose(on_host(scores), np.column_stack(alone), rtol=5e-3, atol=5e-3)


def test_blocks_and_threads_change_nothing(monkeypatch, rows):
    new = np.random.default_rng(3).normal(size=(600, 3))
    together = fit_together(mixed_grid(), rows)
    whole = score_together(together, new)
    monkeypatch.setattr(limits, "block", 1)
    monkeypatch.setattr(limits, "parallel", 1)
    np.testing.assert_allclose(score_together(together, new), whole, rtol=1e-8, atol=1e-9)


def test_the_order_of_detectors_does_not_matter(rows, new):
    forth = score_together(fit_together(mixed_grid(), rows), new)
    back = score_together(fit_together(mixed_grid()[::-1], rows), new)
    np.testing.assert_allclose(back[:, ::-1], forth, rtol=1e-8, atol=1e-9)


def test_a_detector_may_come_twice_and_be_fitted_before(rows, new):
    detector = OneClassGP(gamma=0.3).fit(new)
    scores = score_together(fit_together([detector, detector], rows), new)
    expected = OneClassGP(gamma=0.3).fit(rows).score_samples(new)
    np.testing.assert_allclose(scores, np.column_stack([expected, expected]), rtol=1e-9)


def test_detectors_of_different_rows_are_scored_together(rows, new):
    detectors = [
        *fit_together([OneClassGP(gamma=0.3), KernelPCADetector(3, gamma=0.3)], rows),
        *fit_together([OneClassGP(gamma=0.3), KernelPCADetector(3, gamma=0.3)], new),
        OneClassGP(gamma=0.3).fit(rows[::2]),
    ]
    expected = np.column_stack([detector.score_samples(new) for detector in detectors])
    np.testing.assert_allclose(score_together(detectors, new), expected, rtol=1e-8, atol=1e-9)


# ------------------------------------------------------------------------------------- economy


def test_learners_of_a_kernel_share_its_matrix():
    rows, pairs = np.random.default_rng(0).normal(size=(250, 3)), []

    def similar(x, z):
        pairs.append(0)
        return float(np.exp(-0.1 * np.sum((x - z) ** 2)))

    def calls_of(fit):
        pairs.clear()
        fit()
        return len(pairs)

    grid = [KernelPCADetector(q, similar) for q in (2, 10, 6)] + [OneClassGP(kernel=similar)]
    alone = calls_of(lambda: fit_together([clone(grid[0])], rows, thresholds=False))
    together = calls_of(lambda: fit_together(grid, rows, thresholds=False))
    # Three more learners ask for less than one more matrix, of which half the pairs are computed:
    # for diagonals, and for how large the terms of a score are.
    assert together - alone < len(rows) * (len(rows) + 1) / 2
    # So in each of the 20 refits for thresholds; there, each scores the rows that were left out.
    refits = calls_of(lambda: fit_together([clone(each) for each in grid], rows)) - together
    assert refits < (20 + len(grid)) * len(rows) ** 2


def test_one_decomposition_serves_all_numbers_of_components(rows):
    gammas = (0.1, 0.3, 1.0)
    grid = [KernelPCADetector(q, gamma=gamma) for q in (2, 10, 6) for gamma in gammas]
    grid += [make(gamma=gamma) for gamma in gammas for make in (SVDD, OneClassGP)]
    fit_together(grid, rows)
    assert len({id(detector.expansion_.coefficients) for detector in grid[:9]}) == 3


def test_the_distances_to_training_rows_are_shared_by_scores(rows, new):
    """Of torch all that is computed can be watched: a product and an exponential a block."""
    pytest.importorskip("torch", reason="what is computed is watched through torch")
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        def __init__(self, shape):
            super().__init__()
            self.shape, self.made = shape, []

        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            result = function(*arguments, **(options or {}))
            if getattr(result, "shape", None) == self.shape:
                self.made.append(str(function).split(".")[1].rstrip("_"))
            return result

    grid = [OneClassGP(gamma=gamma) for gamma in (0.1, 0.3)]
    grid += [KernelPCADetector(q, gamma=gamma) for q in (2, 6) for gamma in (0.1, 0.3)]
    fit_together(grid, naive.torch(rows))
    with Watch((len(new), len(rows))) as watch:
        score_together(grid, naive.torch(new))
    assert watch.made.count("mm") == 1
    assert watch.made.count("exp") == 2


def test_more_components_than_were_kept_are_computed(rows, new):
    """A share of the variance comes after the numbers, and may want more than they."""
    grid = [KernelPCADetector(2, gamma=1.0), KernelPCADetector(0.99, gamma=1.0)]
    alone = [clone(detector).fit(rows) for detector in grid]
    together = fit_together(grid, rows)
    assert together[1].n_components_ == alone[1].n_components_ > 10
    assert_same(together, alone, new)


def test_more_components_may_come_in_any_order(rows, new):
    """Whoever comes first, all find on shared rows what they would find alone."""
    shared = training_rows(rows, share=True)
    for q in (2, 5, 0.9, 3, 0.95, 20):
        detector = KernelPCADetector(q, gamma=0.5)
        detector._fit_rows(shared)
        alone = KernelPCADetector(q, gamma=0.5).fit(rows)
        assert detector.n_components_ == alone.n_components_
        expected = alone.score_samples(new)
        np.testing.assert_allclose(detector._scores(new), expected, rtol=1e-8, atol=1e-9)


# ----------------------------------------------------------------------------------------- checks


def test_columns_are_named_for_every_detector(rows, new):
    names = ["age", "dose", "mass"]
    grid = fit_together(
        [GMMDetector(random_state=0), OneClassGP()], pd.DataFrame(rows, columns=names)
    )
    for detector in grid:
        assert list(detector.feature_names_in_) == names
    with pytest.raises(ValueError, match="feature names"):
        score_together(grid, pd.DataFrame(new, columns=names[::-1]))
    with pytest.raises(ValueError, match="NaN or infinity in column 'dose'"):
        fit_together([OneClassGP()], pd.DataFrame(rows, columns=names).assign(dose=np.nan))


def test_detectors_that_are_not_fitted_say_so(rows):
    fitted = OneClassGP().fit(rows)
    for unfitted in (OneClassGP(), GMMDetector(), SVDD(), KernelPCADetector()):
        for grid in ([unfitted], [fitted, unfitted]):
            with pytest.raises(NotFittedError):
                score_together(grid, rows)


def test_nothing_to_fit_is_nothing_fitted(rows):
    assert fit_together([], rows) == []
    with pytest.raises(ValueError, match="detectors is empty"):
        score_together([], rows)


@cases(
    "bad, words",
    [
        (KernelPCADetector("ten"), "n_components must be a whole number"),
        (OneClassGP(noise=-1), "noise"),
        (OneClassGP(gamma="auto"), "gamma must be"),
        (SVDD(nu=0), "nu"),
        (GMMDetector(n_components=0), "n_components"),
    ],
)
def test_parameters_are_checked(rows, bad, words):
    with pytest.raises(ValueError, match=words):
        fit_together([OneClassGP(), bad], rows)


def test_functions_with_arrays_for_parameters_can_be_fitted_together(rows, new):
    def similar(x, z, widths):
        return float(np.exp(-np.sum(((x - z) / widths) ** 2)))

    grid = [
        OneClassGP(kernel=similar, kernel_params={"widths": np.array(widths)})
        for widths in ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [3.0, 2.0, 1.0])
    ]
    alone = [clone(detector).fit(rows) for detector in grid]
    assert_same(fit_together(grid, rows), alone, new)


@pytest.mark.filterwarnings(ANY_WIDTH, "ignore:n_components=.* rows. there are:UserWarning")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_little_data_is_enough(rows, new, n):
    grid = kernel_grid()
    alone = [clone(detector).fit(rows[:n]) for detector in grid]
    assert_same(fit_together(grid, rows[:n]), alone, new)
