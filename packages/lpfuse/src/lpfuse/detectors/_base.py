"""The steps from rows to a fitted kernel learner, alone or with others on the same rows.

`KernelDetector.fit` checks the rows (`TrainingRows`), settles the kernel and hands both to the
learner: exactly, or through features that stand for the kernel. `fit_together` does so for several
learners on the same rows, each of which keeps what the next one can use.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS
from sklearn.utils import check_random_state
from sklearn.utils.validation import has_fit_parameter

from lpfuse._arrays.blocks import head_of
from lpfuse._arrays.linalg import blas_threads_for, matrix_budget
from lpfuse._arrays.operations import Array, is_blocked, take, to_host
from lpfuse._base import Detector
from lpfuse._checks.arguments import check_choice, check_count
from lpfuse._checks.tables import remember_columns
from lpfuse.detectors._features import FeatureMap, fourier, nystroem
from lpfuse.detectors._held_out import ROUGH_THRESHOLD_ROWS, HeldOutDetector
from lpfuse.detectors._kernels import Kernel, KernelScorer
from lpfuse.detectors._sampling import sample_size, sampled_rows
from lpfuse.detectors._training import (
    SCALES,
    TrainingRows,
    settle_kernel,
    training_rows,
    warn_about_width,
)
from lpfuse.detectors._unseen import OFFSET_FROM, RefittedDetector, set_offsets

# What the parameters of kernel learners can be, where they are strings.
KERNEL_WORDS = {
    "kernel": tuple(PAIRWISE_KERNEL_FUNCTIONS),
    "gamma": ("median", *SCALES),
    "contamination": ("auto",),
    "approximation": ("auto", "nystroem", "fourier"),
    "offset_from": OFFSET_FROM,
}


class KernelDetector(KernelScorer, RefittedDetector):
    """A kernel learner: `KernelScorer` says how it scores, this class how it is fitted.

    A subclass says how it learns from a kernel matrix (`_fit_exactly`) and how from explicit
    features (`_fit_features`), both of which set an `expansion_`, and how the values of its
    expansion become a score (`_score_from`).

    Attributes
    ----------
    features_ : FeatureMap or None
        The features that stand for the kernel; None where the fit is exact.
    """

    kernel: Any
    gamma: Any
    degree: float
    coef0: float
    kernel_params: dict[str, Any] | None
    approximation: Any
    random_state: Any

    relative_work = 8.0
    _learns_from_sums = False  # whether sums over features are all that its fit needs of the rows

    features_: FeatureMap | None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from normal rows.

        Parameters
        ----------
        X : array-like, or Dask array or data frame, of shape (n, d)
            Normal rows. Of rows of Dask a sample settles the kernel's width and the landmarks:
            20,000 rows, or 20 a landmark. What is learnt with them are sums over all rows.
        y : object
            Ignored; here for scikit-learn's conventions.
        sample_weight : array-like, or Dask array or series, of shape (n,), optional
            How often each row counts. A row of weight zero is left out.

        Returns
        -------
        estimator
            The fitted detector.
        """
        rows = self._rows(X, None, sample_weight)
        self._fit_rows(rows)
        set_offsets([self], rows)
        remember_columns(self, head_of(X) if is_blocked(X) else X)
        return self

    def _rows(self, X: Any, y: Any, sample_weight: Any) -> TrainingRows:
        """What a user passed to ``fit``, checked."""
        if not is_blocked(X):
            return training_rows(X, sample_weight, y)
        self._check_parameters()
        if self._learns_from_sums and self.approximation is None:
            raise ValueError(
                "approximation=None needs the similarity of every pair of rows, which rows of Dask "
                'do not have in one place. Use approximation="nystroem" (or "auto"), or pass a '
                "part of the rows as an array, for instance X[:10_000].compute()."
            )
        rng = check_random_state(self.random_state)
        at_least = sample_size.per_landmark * self._size()
        return sampled_rows(X, y, sample_weight, at_least, rng)

    def _fit_rows(self, rows: TrainingRows, *, thresholds: bool = True) -> None:
        """Fit to checked rows: exactly, or through features that stand for the kernel."""
        self._check_parameters()
        exact = not self._is_approximate(rows)
        with blas_threads_for(len(rows) if exact else self._size()):
            kernel = self._settled_kernel(rows)
            # Once for all learners that share the rows; "narrow" is narrow on purpose.
            if self.gamma != "narrow" and "warned" not in rows.cache(kernel):
                warn_about_width(kernel, rows.X)
                rows.cache(kernel)["warned"] = True
            scores = self._learn(kernel, rows, exact)
            if not (thresholds and self._is_by_unseen()):
                self._settle_offset(rows, scores)
        self._warn_of_few(rows)

    def _warn_of_few(self, rows: TrainingRows) -> None:
        """Warn whoever called ``fit`` where the rows are too few for what was asked."""

    def _learn(self, kernel: Kernel, rows: TrainingRows, exact: bool) -> Array | None:
        """Learn with a settled kernel; the scores of the rows where they come for free."""
        features = None if exact else self._features(kernel, rows)
        if features is None:
            scores = self._fit_exactly(kernel, rows)
        else:
            scores = self._fit_features(features, rows)
        self.features_ = features
        return scores

    def _refitted(self, rows: TrainingRows, kept: float) -> Self:
        other, exact = clone(self), self.features_ is None
        with blas_threads_for(len(rows) if exact else self._size()):
            other._learn(other._settled_kernel(rows), rows, exact)
        return other

    def _settled_kernel(self, rows: TrainingRows) -> Kernel:
        weights = rows.weights if rows.is_weighted else None
        parameters = self.kernel, self.gamma, self.degree, self.coef0, self.kernel_params
        return settle_kernel(rows.X, *parameters, weights)

    def _features(self, kernel: Kernel, rows: TrainingRows) -> FeatureMap:
        """The feature map that stands for the kernel."""
        make = fourier if self.approximation == "fourier" else nystroem
        # With a seed the map is the same for all that ask, and need not be made again.
        key = f"{make.__name__} of size {self._size()}, seed {self.random_state}"
        known = rows.cache(kernel)
        if not isinstance(self.random_state, Integral):
            known = {}
        if key not in known:
            known[key] = make(kernel, rows.X, self._size(), check_random_state(self.random_state))
        return known[key]

    def _is_approximate(self, rows: TrainingRows) -> bool:
        if self.approximation == "auto":
            in_blocks = rows.is_sample and self._learns_from_sums
            return in_blocks or rows.gram_bytes > matrix_budget(rows.X)
        return self.approximation is not None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("approximation", self.approximation, (None, *KERNEL_WORDS["approximation"]))
        check_count(self._size_name, self._size())

    _size_name = "n_components"

    def _size(self) -> Any:
        """How many features approximate the kernel."""
        return getattr(self, self._size_name)

    def _turn(self, rows: TrainingRows) -> tuple[str, float]:
        """What to sort detectors on the same rows by: those of a kernel follow each other."""
        return str(self._settled_kernel(rows)), 0.0

    def _size_of_terms(self, rows: TrainingRows) -> float:
        """How large the terms are that a score is the difference of."""
        if self.kernel_.has_unit_diagonal:
            return 1.0
        some = take(rows.X, np.linspace(0, len(rows) - 1, min(len(rows), 100)).astype(int))
        similarities = np.abs(to_host(self.kernel_.between(some, some)))
        return float(similarities.diagonal().mean() + similarities.mean())

    def _fit_exactly(self, kernel: Kernel, rows: TrainingRows) -> Array | None:
        """Set `expansion_` from the kernel; the scores of the rows where they come for free."""
        raise NotImplementedError

    def _fit_features(self, features: FeatureMap, rows: TrainingRows) -> Array | None:
        """Set `expansion_` from features; the scores of the rows where they come for free."""
        raise NotImplementedError


def fit_together(
    detectors: Sequence[Detector], X: Any, sample_weight: Any = None, *, thresholds: bool = True
) -> list[Detector]:
    """Fit detectors on the same normal rows, faster than one by one, with the same result.

    Squared distances are computed once for all widths, a kernel matrix once for all learners of a
    width, and one eigendecomposition serves all numbers of components; so in each of the refits
    that set thresholds, too.

    Parameters
    ----------
    detectors : sequence of detectors
        They are fitted in place. Those without a kernel are fitted as they are.
    X : array-like of shape (n, d)
        Normal rows.
    sample_weight : array-like of shape (n,), optional
        How often each row counts.
    thresholds : bool, default=True
        False, where scores are all that is wanted: nothing is fitted again for a threshold, which
        then comes from scores of the training rows, as with ``offset_from="training"``, or from
        leave-one-out scores of a few of them.

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
    own = [detector for detector in detectors if isinstance(detector, RefittedDetector)]
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    if is_blocked(X):  # nothing is kept of them that could be shared
        for detector in own:
            rows = detector._rows(X, None, sample_weight)
            detector._fit_rows(rows, thresholds=thresholds)
            _finish([detector], rows, head_of(X), thresholds)
    else:
        rows = training_rows(X, sample_weight, share=True)
        _check_together(detectors, own, weighted=sample_weight is not None)
        # One kernel after the other, so that one matrix is held at a time; the most components
        # first, so that their decomposition holds what the others need.
        in_turn = sorted(own, key=lambda detector: detector._turn(rows))
        for detector in in_turn:
            detector._fit_rows(rows, thresholds=thresholds)
        _finish(in_turn, rows, X, thresholds)
    for other in detectors:
        if isinstance(other, HeldOutDetector) and not (thresholds or weights):
            other._fit_rows(X, ROUGH_THRESHOLD_ROWS)
        elif not isinstance(other, RefittedDetector):
            other.fit(X, **weights)
    return list(detectors)


def _check_together(
    detectors: Sequence[Detector], own: Sequence[RefittedDetector], *, weighted: bool
) -> None:
    """Refuse, before any of them is fitted, what cannot be fitted."""
    for detector in detectors:
        if weighted and not has_fit_parameter(detector, "sample_weight"):
            raise ValueError(
                f"{type(detector).__name__} cannot weigh its rows. Fit it apart, or leave "
                "sample_weight out."
            )
    for checked in own:
        checked._check_parameters()


def _finish(
    detectors: Sequence[RefittedDetector], rows: TrainingRows, X: Any, thresholds: bool
) -> None:
    """What comes after the fits."""
    if thresholds:
        set_offsets(detectors, rows)
    for detector in detectors:
        remember_columns(detector, X)
