"""Several learners on the same rows: the kernel's work is done once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from lpfuse._arrays import (
    Array,
    beside,
    concatenate,
    is_blocked,
    map_row_blocks,
    namespace,
    one_blas_thread,
)
from lpfuse._arrays.blocks import head_of, map_rows
from lpfuse._arrays.linalg import times_few_columns
from lpfuse._checks.data import check_columns, check_features, remember_columns
from lpfuse.detectors._base import Detector, KernelDetector
from lpfuse.detectors._expansion import Similarities
from lpfuse.detectors._kernels import Kernel, distances_to
from lpfuse.detectors._training import TrainingRows, training_rows
from lpfuse.detectors.kernel_pca import KernelPCADetector


def fit_together(
    detectors: Sequence[Detector], X: Any, sample_weight: Any = None
) -> list[Detector]:
    """Fit detectors on the same normal rows, faster than one by one, with the same result.

    Squared distances are computed once for all widths, a kernel matrix once for all learners of a
    width, and one eigendecomposition serves all numbers of components.

    Parameters
    ----------
    detectors : sequence of detectors
        They are fitted in place. Those without a kernel are fitted as they are.
    X : array-like of shape (n, d)
        Normal rows.
    sample_weight : array-like of shape (n,), optional
        How often each row counts.

    Returns
    -------
    list of detectors
        The same detectors, fitted, in the same order.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import SVDD, KernelPCADetector, OneClassGP
    >>> from lpfuse.detectors import fit_together, score_together
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> gammas = [0.1, 0.5]
    >>> grid = [make(gamma=gamma) for gamma in gammas for make in (SVDD, OneClassGP)]
    >>> grid += [KernelPCADetector(q, gamma=gamma) for gamma in gammas for q in (2, 6, 10)]
    >>> score_together(fit_together(grid, X), X).shape
    (100, 10)
    """
    if is_blocked(X):  # nothing is kept of them that could be shared
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return [detector.fit(X, **weights) for detector in detectors]
    rows = training_rows(X, sample_weight, share=True)
    for detector in detectors:
        if sample_weight is not None and not has_fit_parameter(detector, "sample_weight"):
            raise ValueError(
                f"{type(detector).__name__} cannot weigh its rows. Fit it apart, or leave "
                "sample_weight out."
            )
    with_kernel = [detector for detector in detectors if isinstance(detector, KernelDetector)]
    # One kernel after the other, so that one matrix is held at a time; the most components first,
    # so that their decomposition holds what the others need.
    for detector in with_kernel:
        detector._check_parameters()
    for detector in sorted(with_kernel, key=lambda detector: _turn(detector, rows)):
        detector._learn(rows)
        remember_columns(detector, X)
    for detector in detectors:
        if not isinstance(detector, KernelDetector):
            weights = {} if sample_weight is None else {"sample_weight": sample_weight}
            detector.fit(X, **weights)
    return list(detectors)


def score_together(detectors: Sequence[Detector], X: Any) -> Array:
    """The scores of several fitted detectors, faster than one by one.

    Learners with the same training rows share the distances to them, and those of the same width
    the kernel's values. No more than a block of either is held at a time.

    Parameters
    ----------
    detectors : sequence of detectors
        Fitted, for instance by `fit_together`.
    X : array-like of shape (n, d)
        Rows to score.

    Returns
    -------
    array of shape (n, R)
        One column a detector, high = normal.
    """
    if not detectors:
        raise ValueError("There are no detectors to score with; pass at least one.")
    for detector in detectors:
        check_is_fitted(detector)
        check_columns(head_of(X) if is_blocked(X) else X, detector)
    if is_blocked(X):
        return map_rows(_scores_of_block, X, list(detectors), width=len(detectors))
    checked = check_features(X)
    columns: dict[int, Array] = {}
    for group in _groups(detectors):
        if len(group) == 1:
            columns[group[0]] = detectors[group[0]].score_samples(X)
        else:
            scores = _share_distances([detectors[i] for i in group], checked)
            columns.update((i, scores[:, j]) for j, i in enumerate(group))
    return namespace(checked).stack([columns[i] for i in range(len(detectors))], axis=1)


def _scores_of_block(block: Any, detectors: list[Detector]) -> Array:
    if block.shape[0] == 0:
        return np.empty((0, len(detectors)))
    return score_together(detectors, block)


def _turn(detector: KernelDetector, rows: TrainingRows) -> tuple[str, float]:
    many = detector.n_components if isinstance(detector, KernelPCADetector) else 0
    return str(detector._settled_kernel(rows)), -many


def _groups(detectors: Sequence[Detector]) -> list[list[int]]:
    """Positions of detectors whose Gaussian kernels have the same anchors."""
    groups: dict[Any, list[int]] = {}
    for i, detector in enumerate(detectors):
        anchors = _anchors(detector)
        groups.setdefault(("alone", i) if anchors is None else id(anchors), []).append(i)
    return list(groups.values())


def _anchors(detector: Detector) -> Array | None:
    """The rows that a Gaussian kernel compares with; None for other detectors."""
    basis = detector.expansion_.basis if isinstance(detector, KernelDetector) else None
    if isinstance(basis, Similarities) and basis.kernel.name == "rbf":
        return basis.anchors
    return None


def _share_distances(detectors: list[Any], X: Array) -> Array:
    """Scores of detectors whose Gaussian kernels have the same anchors."""
    xp = namespace(X)
    expansions = [detector.expansion_ for detector in detectors]
    distances = distances_to(beside(expansions[0].basis.anchors, X), 1.0)
    # What is to be computed: the most columns that anyone needs of some kernel and coefficients.
    products: dict[tuple[Kernel, int], Array] = {}
    for expansion in sorted(expansions, key=lambda expansion: expansion.columns):
        columns = beside(expansion.coefficients[:, : expansion.columns], X)
        products[expansion.basis.kernel, id(expansion.coefficients)] = columns

    def work(block: slice) -> Array:
        some = X[block, :]
        apart = distances(some)
        similarities: dict[Kernel, Array] = {}
        values = {}
        for (kernel, coefficients), columns in products.items():
            if kernel not in similarities:
                similarities[kernel] = kernel.of_distances(apart)
            values[kernel, coefficients] = times_few_columns(similarities[kernel], columns)
        scores = [
            detector._finish(
                expansion.basis.kernel.diagonal(some),
                values[expansion.basis.kernel, id(expansion.coefficients)],
            )
            for detector, expansion in zip(detectors, expansions, strict=True)
        ]
        return xp.stack(scores, axis=1)

    with one_blas_thread:
        return concatenate(map_row_blocks(work, X, width=expansions[0].basis.width))
