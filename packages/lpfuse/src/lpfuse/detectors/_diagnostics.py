"""Early warnings about a kernel's width, from how training rows see each other."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from lpfuse._arrays import Array, Host, namespace, take, to_host
from lpfuse.detectors._kernels import MEDIAN_ROWS, Kernel, settle_gamma

PROBES = 32  # rows that are looked at as if they were held out
OTHERS = 20_000  # rows that they are compared with, at most
NEGLIGIBLE = 1e-3  # a similarity that no longer tells near from far
FEWEST = 20  # rows below which a share of them says little
MOST, SOME = 0.9, 0.1  # shares of the probes


class KernelWidthWarning(UserWarning):
    """The kernel's width makes scores tie, or nearly so."""


def warn_about_width(kernel: Kernel, X: Array) -> None:
    """Warn where the kernel matrix is near the identity or constant, or held-out rows saturate.

    A held-out row without any similar row gets the score of a point at infinity, whatever it is.
    """
    if kernel.name not in ("rbf", "laplacian") or X.shape[0] < 3:
        return
    similarities = _similarities_to_others(kernel, X)
    lonely = float((np.nanmax(similarities, axis=1) < NEGLIGIBLE).mean())
    if lonely > MOST:
        rule = "median"
        problem = "too narrow: the kernel matrix is near the identity, and all scores tie"
    elif lonely > SOME and X.shape[0] >= FEWEST:
        rule = "median"
        problem = (
            f"narrow: about {lonely:.0%} of the rows resemble no other row, so the scores of "
            "held-out rows like them are saturated, all alike"
        )
    elif np.nanmean(similarities) > 1 - NEGLIGIBLE and not _all_equal(X):
        rule = "narrow"
        problem = "too wide: the kernel matrix is nearly constant, and scores differ in few digits"
    else:
        return
    warnings.warn(
        f"gamma={kernel.gamma:.3g} makes the kernel {problem}. Try "
        f"{_better_gamma(kernel, X, rule)}.",
        KernelWidthWarning,
        stacklevel=4,
    )


def _all_equal(X: Array) -> bool:
    return bool(namespace(X).all(X == X[:1, :]))


def _better_gamma(kernel: Kernel, X: Array, rule: str) -> str:
    if kernel.name == "rbf":
        return f'gamma={settle_gamma(rule, X):.3g} (gamma="{rule}")'
    some = to_host(take(X, _evenly(X.shape[0], MEDIAN_ROWS)))
    distances = pdist(some, "cityblock")  # what a Laplacian kernel sees
    return f"gamma={1 / np.median(distances[distances > 0]):.3g}"


def _similarities_to_others(kernel: Kernel, X: Array) -> Host:
    """Similarities of some rows to the other rows, NaN for the row itself."""
    others = _evenly(X.shape[0], OTHERS)
    probes = _evenly(len(others), PROBES)
    known = X if len(others) == X.shape[0] else take(X, others)
    similarities = to_host(kernel.between(take(known, probes), known))
    similarities[np.arange(len(probes)), probes] = np.nan
    return similarities


def _evenly(n: int, at_most: int) -> NDArray[np.int64]:
    return np.linspace(0, n - 1, min(n, at_most)).astype(int)
