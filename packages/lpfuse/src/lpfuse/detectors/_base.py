"""What every detector shares: contamination, and the steps from rows to a fitted learner."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays import (
    Array,
    blas_threads_for,
    is_blocked,
    is_single,
    matrix_budget,
    take,
    to_host,
)
from lpfuse._arrays.blocks import head_of
from lpfuse._base import Scorer, lazily
from lpfuse._checks.data import check_features, remember_columns
from lpfuse._checks.parameters import check_choice, check_count, check_number
from lpfuse.detectors._diagnostics import warn_about_width
from lpfuse.detectors._expansion import Expansion
from lpfuse.detectors._features import FeatureMap, fourier, nystroem
from lpfuse.detectors._kernels import Kernel, settle_kernel
from lpfuse.detectors._landmarks import ROWS_A_CENTRE
from lpfuse.detectors._sampling import sampled_rows
from lpfuse.detectors._training import TrainingRows, training_rows


class Detector(Scorer):
    """A learner with a threshold: `contamination` of the training rows lie below it."""

    contamination: Any
    _knows_auto = False  # whether there is a threshold of its own, contamination="auto"

    @lazily()
    def score_samples(self, X: Any) -> Array:
        """Score of each row, high = normal.

        Parameters
        ----------
        X : array-like, or Dask array or data frame, of shape (n, d)
            Rows to score; however many there are, memory stays bounded.

        Returns
        -------
        array of shape (n,)
            Scores, in the library and precision of `X`; of rows of Dask, a lazy Dask array.
        """
        check_is_fitted(self)
        return self._scores(check_features(X, estimator=self))

    def _scores(self, X: Array) -> Array:
        """Scores of checked rows."""
        raise NotImplementedError

    def _set_offset(self, rows: TrainingRows, scores: Array, size: float = 0.0) -> None:
        """The threshold that leaves the share `contamination` of the rows, by weight, below it.

        A hair lower, for scores whose terms are of that size.
        """
        quantile = rows.lower_quantile(scores, float(self.contamination), self._scores)
        self.offset_ = a_hair_below(quantile, size, scores)

    def _check_contamination(self) -> None:
        named = isinstance(self.contamination, str) and self.contamination == "auto"
        if self._knows_auto and named:
            return
        choice = ' Or pass "auto".' if self._knows_auto else ""
        hint = f"It is the share of the training rows below the threshold.{choice}"
        check_number("contamination", self.contamination, above=0, at_most=0.5, hint=hint)


def a_hair_below(threshold: float, size: float, scores: Array) -> float:
    """The threshold, lowered so little that rounding alone can tell, for terms of that size.

    A row that decided the threshold must not fall below it by rounding when it is scored again.
    """
    of_score, of_terms = (1e-6, 1e-6) if is_single(scores) else (1e-9, 1e-12)
    return threshold - of_score * abs(threshold) - of_terms * size


class KernelDetector(Detector):
    """A learner whose score is a function of ``k(x, x)`` and of an expansion in a kernel.

    A subclass says how it learns from a kernel matrix and how from explicit features, and how the
    values of its expansion become a score. Both ways it leaves an `expansion_`.
    """

    kernel: Any
    gamma: Any
    degree: float
    coef0: float
    kernel_params: dict[str, Any] | None
    approximation: Any
    random_state: Any

    _learns_from_sums = False  # whether sums over features are all that its fit needs of the rows

    expansion_: Expansion
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
        self._learn(self._rows(X, None, sample_weight))
        remember_columns(self, head_of(X) if is_blocked(X) else X)
        return self

    @property
    def kernel_(self) -> Kernel:
        """The kernel, with its width as a number."""
        return self.expansion_.basis.kernel

    def _scores(self, X: Array) -> Array:
        return self.expansion_.map(X, self._finish)

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
        return sampled_rows(X, y, sample_weight, ROWS_A_CENTRE * self._size(), rng)

    def _learn(self, rows: TrainingRows) -> None:
        """Fit to checked rows: exactly, or through features that stand for the kernel."""
        self._check_parameters()
        exact = not self._is_approximate(rows)
        with blas_threads_for(len(rows) if exact else self._size()):
            kernel = self._settled_kernel(rows)
            if "width" not in rows.kept(kernel):
                warn_about_width(kernel, rows.X)
                rows.kept(kernel)["width"] = kernel.gamma
            features = None if exact else self._features(kernel, rows)
            if features is None:
                scores = self._learn_exactly(kernel, rows)
            else:
                scores = self._learn_from_features(features, rows)
            self.features_ = features
            self._settle_offset(rows, scores)

    def _settled_kernel(self, rows: TrainingRows) -> Kernel:
        weights = rows.weights if rows.is_weighted else None
        parameters = self.kernel, self.gamma, self.degree, self.coef0, self.kernel_params
        return settle_kernel(rows.X, *parameters, weights)

    def _features(self, kernel: Kernel, rows: TrainingRows) -> FeatureMap:
        """The feature map that stands for the kernel."""
        make = fourier if self.approximation == "fourier" else nystroem
        # With a seed the map is the same for all that ask, and need not be made again.
        key = f"{make.__name__} of size {self._size()}, seed {self.random_state}"
        known = rows.kept(kernel)
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
        self._check_contamination()
        check_choice("approximation", self.approximation, ("auto", None, "nystroem", "fourier"))
        check_count(self._size_name, self._size())

    _size_name = "n_components"

    def _size(self) -> Any:
        """How many features approximate the kernel."""
        return getattr(self, self._size_name)

    def _settle_offset(self, rows: TrainingRows, scores: Array | None) -> None:
        if scores is None:
            scores = self._scores(rows.X)
        self._set_offset(rows, scores, self._size_of_terms(rows))

    def _size_of_terms(self, rows: TrainingRows) -> float:
        """How large the terms are that a score is the difference of."""
        if self.kernel_.has_unit_diagonal:
            return 1.0
        some = take(rows.X, np.linspace(0, len(rows) - 1, min(len(rows), 100)).astype(int))
        similarities = np.abs(to_host(self.kernel_.between(some, some)))
        return float(similarities.diagonal().mean() + similarities.mean())

    def _learn_exactly(self, kernel: Kernel, rows: TrainingRows) -> Array | None:
        """Set `expansion_` from the kernel; the scores of the rows where they come for free."""
        raise NotImplementedError

    def _learn_from_features(self, features: FeatureMap, rows: TrainingRows) -> Array | None:
        """Set `expansion_` from features; the scores of the rows where they come for free."""
        raise NotImplementedError

    def _finish(self, diagonal: Array, values: Array) -> Array:
        """Scores from ``k(x, x)`` and the values of the expansion."""
        raise NotImplementedError
