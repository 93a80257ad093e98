import re
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers.cases import cases
from helpers.pairwise import each_value
from lpfuse import SVDD, KernelPCADetector, OneClassGP
from lpfuse.detectors import KernelWidthWarning, fit_together
from lpfuse.detectors.kernels import Kernel, resolve_gamma, warn_about_width
from oracles.kernel_learners import every_library

DETECTORS = [SVDD, OneClassGP, KernelPCADetector]
every_detector = pytest.mark.parametrize("make", DETECTORS)


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(60, 3))


def cluster_with_strays(strays, n=100):
    """A cluster, and rows that are far from it and from each other, in between."""
    X = np.random.default_rng(0).normal(size=(n, 2))
    lonely = np.linspace(0, n - 1, strays).astype(int)
    X[lonely] = 100.0 * np.arange(2, strays + 2)[:, None]
    return X


def message_of(kernel, X, **sizes):
    """The warning's words; None where there is no warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_about_width(kernel, X, **sizes)
    assert len(caught) <= 1
    assert all(warning.category is KernelWidthWarning for warning in caught)
    return str(caught[0].message) if caught else None


def advised(message):
    return float(re.search(r"Try gamma=([\d.e+-]*\d)", message).group(1))


# ------------------------------------------------------------------------------------- when


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
@pytest.mark.parametrize("gamma", [1e4, 1e8])
def test_a_matrix_near_the_identity_is_noticed(rows, name, gamma):
    message = message_of(Kernel(name, gamma), rows)
    assert message.startswith(f"gamma={gamma:.3g} makes the kernel too narrow")
    assert "near the identity" in message


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
@pytest.mark.parametrize("gamma", [1e-5, 1e-9])
def test_a_matrix_near_a_constant_is_noticed(rows, name, gamma):
    message = message_of(Kernel(name, gamma), rows)
    assert message.startswith(f"gamma={gamma:.3g} makes the kernel too wide")
    assert "nearly constant" in message


@pytest.mark.parametrize("strays", [20, 50, 80])
def test_rows_that_would_saturate_if_held_out_are_noticed(strays):
    message = message_of(Kernel("rbf", 0.5), cluster_with_strays(strays))
    share = int(re.search(r"about (\d+)% of the rows resemble no other row", message).group(1))
    assert abs(share - strays) <= 15  # some rows stand for all
    assert "saturated" in message


@pytest.mark.parametrize("strays", [0, 1, 4])
def test_a_few_strays_are_what_detectors_are_for(strays):
    assert message_of(Kernel("rbf", 0.5), cluster_with_strays(strays)) is None


@cases(
    "gamma, d", [(gamma, d) for gamma in ("narrow", "scale", "median", 0.02) for d in (1, 3, 30)]
)
def test_healthy_widths_pass_in_silence(gamma, d):
    X = np.random.default_rng(0).normal(size=(60, d))
    settled = resolve_gamma(gamma, X) if isinstance(gamma, str) else gamma * 3 / d
    assert message_of(Kernel("rbf", settled), X) is None


def test_two_clusters_are_healthy(rows):
    assert message_of(Kernel("rbf", 0.5), np.vstack([rows, rows + 1000])) is None


@pytest.mark.parametrize("name", ["linear", "poly", "cosine", "sigmoid"])
def test_other_kernels_have_no_width_to_warn_of(rows, name):
    assert message_of(Kernel(name, 1e9), rows) is None


@pytest.mark.parametrize("n", [1, 2])
def test_two_rows_are_too_few_to_tell(rows, n):
    assert message_of(Kernel("rbf", 1e9), rows[:n]) is None


def test_three_rows_are_enough_to_tell(rows):
    assert "near the identity" in message_of(Kernel("rbf", 1e9), rows[:3])


def test_no_width_is_advised_where_none_can_help():
    message = message_of(Kernel("rbf", 1.0), np.full((10, 2), 0.1))
    assert message is None or "Try gamma" not in message


# ----------------------------------------------------------------------------------- advice


@each_value(scale=(1e-3, 1.0, 1e3), name=("rbf", "laplacian"), gamma=(1e-10, 1e10, 1e10))
def test_the_advised_width_gives_no_warning(rows, name, scale, gamma):
    message = message_of(Kernel(name, gamma), rows * scale)
    assert message_of(Kernel(name, advised(message)), rows * scale) is None


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    n=st.integers(3, 60),
    d=st.integers(1, 40),
    scale=st.floats(1e-3, 1e3),
    seed=st.integers(0, 1000),
    exponent=st.floats(-9, 9),
    heavy=st.booleans(),
)
def test_the_advised_width_gives_no_warning_for_any_rows(n, d, scale, seed, exponent, heavy):
    rng = np.random.default_rng(seed)
    X = scale * (rng.standard_t(3, size=(n, d)) if heavy else rng.uniform(size=(n, d)))
    message = message_of(Kernel("rbf", 10**exponent), X)
    assume(message is not None)
    assert message_of(Kernel("rbf", advised(message)), X) is None


@pytest.mark.parametrize(("gamma", "rule"), [(1e8, "median"), (1e-9, "narrow")])
def test_the_advice_is_the_other_end_of_the_rules(rows, gamma, rule):
    message = message_of(Kernel("rbf", gamma), rows)
    assert advised(message) == pytest.approx(resolve_gamma(rule, rows), rel=5e-3)
    assert f'(gamma="{rule}")' in message


# ------------------------------------------------------------------------------------ whence


@every_detector
@pytest.mark.parametrize(("gamma", "words"), [(1e8, "too narrow"), (1e-9, "too wide")])
def test_every_kernel_learner_warns_where_the_user_fits_it(rows, make, gamma, words):
    with pytest.warns(KernelWidthWarning, match=words) as caught:
        make(gamma=gamma).fit(rows)
    assert len(caught) == 1
    assert caught[0].filename == __file__


@every_detector
def test_approximations_warn_too(rows, make):
    with pytest.warns(KernelWidthWarning, match="too narrow"):
        make(gamma=1e8, approximation="nystroem", random_state=0).fit(rows)


@every_detector
def test_healthy_fits_are_silent(rows, make):
    for gamma in ("scale", "median", 0.3):
        make(gamma=gamma).fit(rows)  # warnings are errors


def test_learners_together_warn_once_for_each_width(rows):
    grid = [make(gamma=gamma) for gamma in (1e8, 0.3, 1e-9) for make in DETECTORS]
    with pytest.warns(KernelWidthWarning) as caught:
        fit_together(grid, rows)
    assert sorted(str(warning.message).split()[0] for warning in caught) == [
        "gamma=1e+08",
        "gamma=1e-09",
    ]
    assert {warning.filename for warning in caught} == {__file__}


@every_library
def test_every_library_is_warned(rows, library):
    X = library(rows)
    assert message_of(Kernel("rbf", 1e8), X) == message_of(Kernel("rbf", 1e8), rows)
    assert message_of(Kernel("rbf", 1e-9), X) == message_of(Kernel("rbf", 1e-9), rows)
    assert message_of(Kernel("rbf", 0.3), X) is None


def test_of_many_rows_some_are_looked_at(rows):
    sizes = []

    class Counted(Kernel):
        def between(self, X, Z):
            sizes.append((len(X), len(Z)))
            return super().between(X, Z)

    few = {"probes": 7, "others": 30}
    assert message_of(Counted("rbf", 0.3), rows, **few) is None
    assert sizes == [(7, 30)]
    assert "too narrow" in message_of(Kernel("rbf", 1e8), rows, **few)
    assert "too wide" in message_of(Kernel("rbf", 1e-9), rows, **few)
