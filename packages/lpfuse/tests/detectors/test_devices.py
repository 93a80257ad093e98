"""Learners where the rows live: NumPy's numbers, no second matrix, no way through the host.

torch on the CPU and the strict array library stand for a GPU: the first can be watched while it
allocates, arrays of the second leave their device in one way only.
"""

from itertools import product
from weakref import WeakSet

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from helpers.cases import cases
from helpers.pairwise import each_value
from lpfuse import SVDD, GMMDetector, KernelPCADetector, OneClassGP
from lpfuse._arrays.operations import limits
from lpfuse._base import lower_quantile
from lpfuse.detectors import fit_together, score_together
from lpfuse.detectors.kernel_pca import by_blocks
from lpfuse.detectors.kernels import Kernel, squared_distances
from oracles.kernel_learners import (
    LIBRARIES,
    assert_beside,
    every_library,
    on_host,
    strict_device,
    torch,
)

NYSTROEM = {"approximation": "nystroem", "random_state": 0}
APPROXIMATE = [
    OneClassGP("density", n_components=60, **NYSTROEM),
    KernelPCADetector(4, n_approximation=60, **NYSTROEM),
    SVDD(n_components=60, **NYSTROEM),
]
ALL = [
    *APPROXIMATE,
    OneClassGP(),
    OneClassGP("ratio", contamination="auto"),
    KernelPCADetector(4),
    SVDD(),
    SVDD(contamination=0.2),
    GMMDetector(2, random_state=0),
    GMMDetector(2, "log_likelihood", random_state=0),
]
precisions = pytest.mark.parametrize("precision", [np.float64, np.float32])


def rows(n, d=4, precision=np.float64):
    rng = np.random.default_rng(0)
    return (
        rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.3 * rng.normal(size=(n, d))
    ).astype(precision)


# ------------------------------------------------------------------------------- the same numbers


@pytest.mark.usefixtures("same_landmarks")
@each_value(
    detector=(*APPROXIMATE, *APPROXIMATE[:1]), library=LIBRARIES, precision=(np.float64, np.float32)
)
def test_the_same_landmarks_give_the_same_scores(detector, library, precision):
    host, new = rows(300, precision=precision), rows(90, precision=precision)
    expected = clone(detector).fit(host)
    fitted = clone(detector).fit(library(host))
    close = 1e-6 if precision == np.float64 else 2e-2
    scores = fitted.score_samples(library(new))
    assert_beside(scores, library(new))
    np.testing.assert_allclose(on_host(scores), expected.score_samples(new), atol=close)
    assert fitted.offset_ == pytest.approx(expected.offset_, abs=close)


@each_value(detector=APPROXIMATE, library=LIBRARIES)
def test_landmarks_of_its_own_serve_a_device_as_well(detector, library):
    """Other landmarks approximate the same scores, about as well."""
    host = rows(300)
    exact = clone(detector).set_params(approximation=None).fit(host).score_samples(host)

    def error(X):
        seeds = (clone(detector).set_params(random_state=seed).fit(X) for seed in range(3))
        return np.mean([np.abs(on_host(fitted.score_samples(X)) - exact) for fitted in seeds])

    assert error(library(host)) < 1.5 * error(host)


@every_library
@cases("share, precision", product((0.1, 0.25, 0.5), (np.float64, np.float32)))
def test_quantiles_are_the_same_in_every_library(library, precision, share):
    rng = np.random.default_rng(0)
    scores, weights = rng.normal(size=40).round(1).astype(precision), rng.integers(1, 4, 40) * 1.0
    expected = lower_quantile(scores, weights, share)
    assert lower_quantile(library(scores), weights, share) == expected


# ------------------------------------------------------------------------------ no second matrix


@pytest.fixture
def large_arrays(monkeypatch):
    """Watches torch make arrays that are as large as a kernel matrix, or nearly."""
    pytest.importorskip("torch", reason="torch is not installed")
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Watch(TorchDispatchMode):
        def __init__(self, n):
            super().__init__()
            self.entries, self.made = n * n // 2, []
            self.alive, self.most_alive = WeakSet(), 0

        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            known = {_storage(x) for x in tree_leaves((arguments, options or {}))}
            result = function(*arguments, **(options or {}))
            for x in tree_leaves(result):
                new = _storage(x) is not None and _storage(x) not in known
                if new and x.numel() >= self.entries:
                    self.made.append(str(function))
                    self.alive.add(x)
                    self.most_alive = max(self.most_alive, len(self.alive))
            return result

    monkeypatch.setattr(limits, "device_block", 1)  # as few rows a block as there may be
    return Watch


def _storage(x):
    return x.untyped_storage().data_ptr() if hasattr(x, "untyped_storage") else None


@pytest.mark.parametrize("detector", [OneClassGP("mean"), KernelPCADetector(4)], ids=str)
@precisions
def test_an_exact_fit_makes_one_matrix(large_arrays, detector, precision):
    """Without the refits that its threshold takes, each of which makes one of its own."""
    X = torch(rows(1100, precision=precision))
    with large_arrays(1100) as watch:
        clone(detector).set_params(offset_from="training").fit(X)
    assert len(watch.made) == 1


def test_learners_that_share_a_matrix_make_no_distances(large_arrays):
    """One to share, and one to overwrite."""
    X = torch(rows(1100))
    with large_arrays(1100) as watch:
        detectors = [KernelPCADetector(4), KernelPCADetector(2), OneClassGP("mean")]
        fit_together(detectors, X, thresholds=False)
    assert len(watch.made) == 2


def test_a_matrix_to_overwrite_is_not_kept_before(large_arrays):
    with large_arrays(1100) as watch:
        fit_together([OneClassGP("mean")], torch(rows(1100)), thresholds=False)
    assert len(watch.made) == 1


def test_the_watch_sees_what_it_should(large_arrays):
    with large_arrays(1100) as watch:
        squared_distances(torch(rows(1100))) + 0.0
    assert len(watch.made) == 2


NEGATIVE = {"kernel": "sigmoid", "gamma": 1e-3, "coef0": -3.0}  # no matrix of it is positive


def test_a_failed_factor_is_gone_before_the_next_matrix_comes(large_arrays):
    """Nothing but the factorisation itself may hold on to the matrix."""
    with large_arrays(1100) as watch, pytest.raises(ValueError, match="not positive definite"):
        OneClassGP(**NEGATIVE).fit(torch(rows(1100)))
    assert len(watch.made) >= 12  # one a trial, at least
    assert watch.most_alive == 1


def trials_of(X):
    """How many matrices a fit makes before it gives up."""
    n, pairs = len(X), []

    def never_positive(x, z):
        pairs.append(0)
        return -1.0

    with pytest.raises(ValueError, match="not positive definite"):
        OneClassGP(kernel=never_positive).fit(X)
    return round(len(pairs) / n**2 - 0.5)  # scikit-learn asks for half of the pairs, or for all


def test_jitter_that_single_precision_cannot_hold_is_not_tried():
    double, single = rows(20), rows(20, precision=np.float32)
    assert trials_of(double) == 12
    assert trials_of(single) == 7  # none, and 1e-7 to 1e-2


# ------------------------------------------------------------------------- no way through the host


@pytest.fixture
def transfers(monkeypatch):
    """How many numbers each array has that leaves its device."""
    sizes, leave = [], np.from_dlpack

    def counted(x, **options):
        sizes.append(int(np.prod(x.shape)))
        return leave(x, **options)

    monkeypatch.setattr(np, "from_dlpack", counted)
    return sizes


@pytest.mark.parametrize("detector", ALL, ids=str)
def test_scores_do_not_leave_the_device(transfers, detector):
    fitted = clone(detector).fit(strict_device(rows(120)))
    new = strict_device(rows(5000))
    transfers.clear()
    for method in (fitted.score_samples, fitted.decision_function, fitted.predict):
        assert method(new).device == new.device
    assert max(transfers, default=0) < 5000


def test_several_learners_do_not_either(transfers):
    fitted = fit_together([OneClassGP(), KernelPCADetector(3)], strict_device(rows(120)))
    new = strict_device(rows(5000))
    transfers.clear()
    assert score_together(fitted, new).device == new.device
    assert max(transfers, default=0) < 5000


@pytest.mark.parametrize("detector", APPROXIMATE[:2], ids=str)
def test_sums_leave_the_device_as_few_numbers(transfers, detector):
    """Neither the rows' features nor anything with one entry a row; to find equal rows, one."""
    X = strict_device(rows(20_000))
    size = "n_approximation" if isinstance(detector, KernelPCADetector) else "n_components"
    detector = clone(detector).set_params(**{size: 12, "kernel": "poly", "degree": 2})
    clone(detector).set_params(offset_from="training").fit(X)
    assert max(transfers) < 20_000
    transfers.clear()
    detector.fit(X)
    assert sorted(transfers)[-2] < 20_000 == max(transfers)


# ----------------------------------------------------------------- eigenvalues that lie too close


@pytest.fixture
def crowded():
    """A matrix whose eigenvalues lie too close together for one start, and equal weights."""
    X = np.random.default_rng(0).normal(size=(400, 5))
    K = Kernel("rbf", 5.0).gram(X)
    return K, np.full(400, 1 / 400)


def test_few_rows_are_decomposed_where_an_iteration_does_not_settle(crowded):
    assert by_blocks(*map(torch, crowded), 3, restarts=1) is None


def test_many_rows_get_what_there_is_with_a_warning(crowded):
    K, w = crowded
    with pytest.warns(ConvergenceWarning, match="the 3 main directions are only known to"):
        values, _ = by_blocks(torch(K), torch(w), 3, restarts=1, decompose_up_to=399)
    H = np.eye(400) - 1 / 400
    np.testing.assert_allclose(values, np.linalg.eigvalsh(H @ K @ H)[::-1][:3] / 400, rtol=1e-3)
