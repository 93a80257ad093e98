"""Learners where the rows live: NumPy's numbers, no second matrix, no way through the host.

torch on the CPU and the strict array library stand for a GPU: the first can be watched while it
allocates, arrays of the second leave their device in one way only.
"""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from lpfuse import SVDD, GMMDetector, KernelPCADetector, OneClassGP, _arrays
from lpfuse._arrays import linalg as _linalg
from lpfuse.detectors import fit_together, gaussian_process, kernel_pca, score_together
from lpfuse.detectors._kernels import squared_distances
from lpfuse.detectors._training import lower_quantile
from oracles.kernel_learners import (
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
@precisions
@every_library
@pytest.mark.parametrize("detector", APPROXIMATE, ids=str)
def test_the_same_landmarks_give_the_same_scores(detector, library, precision):
    host, new = rows(300, precision=precision), rows(90, precision=precision)
    expected = clone(detector).fit(host)
    fitted = clone(detector).fit(library(host))
    close = 1e-6 if precision == np.float64 else 2e-2
    scores = fitted.score_samples(library(new))
    assert_beside(scores, library(new))
    np.testing.assert_allclose(on_host(scores), expected.score_samples(new), atol=close)
    assert fitted.offset_ == pytest.approx(expected.offset_, abs=close)


@every_library
@pytest.mark.parametrize("detector", APPROXIMATE, ids=str)
def test_landmarks_of_its_own_serve_a_device_as_well(detector, library):
    """Other landmarks approximate the same scores, about as well."""
    host = rows(300)
    exact = clone(detector).set_params(approximation=None).fit(host).score_samples(host)

    def error(X):
        seeds = (clone(detector).set_params(random_state=seed).fit(X) for seed in range(3))
        return np.mean([np.abs(on_host(fitted.score_samples(X)) - exact) for fitted in seeds])

    assert error(library(host)) < 1.5 * error(host)


@every_library
@precisions
@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
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

        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            known = {_storage(x) for x in tree_leaves((arguments, options or {}))}
            result = function(*arguments, **(options or {}))
            for x in tree_leaves(result):
                new = _storage(x) is not None and _storage(x) not in known
                if new and x.numel() >= self.entries:
                    self.made.append(str(function))
            return result

    monkeypatch.setattr(_arrays.limits, "device_block", 1)  # as few rows a block as there may be
    return Watch


def _storage(x):
    return x.untyped_storage().data_ptr() if hasattr(x, "untyped_storage") else None


@pytest.mark.parametrize("detector", [OneClassGP(), KernelPCADetector(4)], ids=str)
@precisions
def test_an_exact_fit_makes_one_matrix(large_arrays, detector, precision):
    X = torch(rows(1100, precision=precision))
    with large_arrays(1100) as watch:
        clone(detector).fit(X)
    assert len(watch.made) == 1


def test_learners_that_share_a_matrix_make_no_distances(large_arrays):
    """One to share, and one to overwrite."""
    X = torch(rows(1100))
    with large_arrays(1100) as watch:
        fit_together([KernelPCADetector(4), KernelPCADetector(2), OneClassGP()], X)
    assert len(watch.made) == 2


def test_a_matrix_to_overwrite_is_not_kept_before(large_arrays):
    with large_arrays(1100) as watch:
        fit_together([OneClassGP()], torch(rows(1100)))
    assert len(watch.made) == 1


def test_the_watch_sees_what_it_should(large_arrays):
    with large_arrays(1100) as watch:
        squared_distances(torch(rows(1100))) + 0.0
    assert len(watch.made) == 2


def test_a_failed_factor_is_gone_before_the_next_matrix_comes(monkeypatch):
    """Nothing but the factorisation itself may hold on to the matrix."""
    import weakref

    alive, factor = [], gaussian_process.cholesky

    def fails_once(matrix):
        assert not [one for one in alive if one() is not None]
        alive.append(weakref.ref(matrix))
        return None if len(alive) == 1 else factor(matrix)

    monkeypatch.setattr(gaussian_process, "cholesky", fails_once)
    assert OneClassGP(gamma=0.3).fit(torch(rows(50))).jitter_ == 1e-12
    assert len(alive) == 2


@pytest.mark.parametrize("library", [np.asarray, torch])
def test_jitter_that_single_precision_cannot_hold_is_not_tried(monkeypatch, library):
    tried = []
    monkeypatch.setattr(gaussian_process, "cholesky", lambda matrix: tried.append(matrix))
    with pytest.raises(ValueError, match="not positive definite"):
        OneClassGP(gamma=0.3).fit(library(rows(20, precision=np.float32)))
    assert len(tried) == 7  # none, and 1e-7 to 1e-2
    tried.clear()
    with pytest.raises(ValueError, match="not positive definite"):
        OneClassGP(gamma=0.3).fit(library(rows(20)))
    assert len(tried) == 12


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
    """Neither the rows' features nor anything with one entry a row."""
    X = strict_device(rows(20_000))
    size = "n_approximation" if isinstance(detector, KernelPCADetector) else "n_components"
    clone(detector).set_params(**{size: 12, "kernel": "poly", "degree": 2}).fit(X)
    assert max(transfers) < 20_000


# ----------------------------------------------------------------- eigenvalues that lie too close


@pytest.fixture
def restless(monkeypatch):
    """An iteration that never settles, and is used for few rows."""
    monkeypatch.setattr(kernel_pca, "ITERATE_FROM", 10)
    monkeypatch.setattr(kernel_pca, "FEW", 0.5)
    monkeypatch.setattr(_linalg, "RESTARTS", 1)
    monkeypatch.setattr(_linalg, "EXACT", 0.0)
    monkeypatch.setattr(
        kernel_pca,
        "eigh_leading",
        lambda *arguments: _linalg.eigh_leading(*arguments)._replace(settled=False),
    )


def test_few_rows_are_decomposed_where_an_iteration_does_not_settle(restless):
    X = rows(80)
    scores = KernelPCADetector(3).fit(torch(X)).score_samples(torch(X))
    expected = KernelPCADetector(3).fit(X).score_samples(X)
    np.testing.assert_allclose(on_host(scores), expected, atol=1e-9)


def test_many_rows_get_what_there_is_with_a_warning(restless, monkeypatch):
    monkeypatch.setattr(kernel_pca, "DECOMPOSE_UP_TO", 79)
    X = rows(80)
    with pytest.warns(ConvergenceWarning, match="the 3 main directions are only known to"):
        detector = KernelPCADetector(3).fit(torch(X))
    expected = KernelPCADetector(3).fit(X)
    np.testing.assert_allclose(
        detector.explained_variance_, expected.explained_variance_, rtol=1e-3
    )
