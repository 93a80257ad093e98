"""Detectors that work on the host, and know what training rows get from fits without them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.blocks import head_of
from lpfuse._arrays.operations import Array, Host, beside, is_blocked, to_host
from lpfuse._base import Detector, below_rounding, unseen_quantile
from lpfuse._checks.tables import check_features, remember_columns
from lpfuse.detectors._sampling import sampled_rows
from lpfuse.detectors._training import TrainingRows, training_rows

# Rows, spread evenly, whose scores set the threshold where they have to be computed for it: it is
# then that of a share that is right to 0.6 %. Chosen by hand.
THRESHOLD_ROWS = 10_000
# The same where nobody asks for the threshold: a member of a fused detector, which has its own.
ROUGH_THRESHOLD_ROWS = 500


class HeldOutDetector(Detector):
    """A detector whose threshold comes from the leave-one-out scores of its training rows.

    Scores of the training rows themselves would not do: each is its own nearest row. A subclass
    writes `_check_parameters`, `_learn`, `_score` and `_leave_one_out`, all on the host.
    """

    n_samples_: int
    held_out_scores_: Host | None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from normal rows.

        Parameters
        ----------
        X : array-like, or Dask array or data frame, of shape (n, d)
            Normal rows, at least 2. Of rows of Dask a sample of 20,000 is learnt from.
        y : object
            Ignored; here for scikit-learn's conventions.

        Returns
        -------
        Detector
            The fitted detector.
        """
        return self._fit_rows(X, THRESHOLD_ROWS)

    def _fit_rows(self, X: Any, threshold_rows: int) -> Self:
        """Fit; leave-one-out scores of so many rows set the threshold, if they must be computed."""
        self._check_contamination()
        self._check_parameters()
        rng = check_random_state(getattr(self, "random_state", 0))
        rows: TrainingRows = (
            sampled_rows(X, None, None, 0, rng) if is_blocked(X) else training_rows(X)
        )
        if len(rows) < 2:
            raise ValueError(
                f"{type(self).__name__} compares rows with others: it needs at least 2 of them, "
                f"got n_samples = {len(rows)}. Pass more normal rows."
            )
        host = to_host(rows.X)
        self.n_samples_ = len(host)
        self.held_out_scores_ = self._learn(host, rng)
        scores = self.held_out_scores_
        if scores is None:
            some = np.linspace(0, len(host) - 1, min(len(host), threshold_rows)).astype(np.int64)
            scores = self._leave_one_out(host[some], some)
        share, n = float(self.contamination), len(scores)
        quantile = unseen_quantile(scores, np.ones(n), n, share)
        self.offset_ = below_rounding(quantile, 0.0, scores)
        remember_columns(self, head_of(X) if is_blocked(X) else X)
        return self

    def leave_one_out_scores(self, X: Any) -> Array:
        """The score that each training row would get from a fit to others.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows that the detector was fitted on, in their order.

        Returns
        -------
        array of shape (n,)
            Scores, in the library and precision of `X`; what the fits share is told with the class.
        """
        check_is_fitted(self)
        if is_blocked(X):
            raise ValueError(
                "leave_one_out_scores needs the rows in memory, got rows of Dask. Fit to a part of "
                "them, for instance X[:10_000].compute(), and pass it."
            )
        X = check_features(X, estimator=self)
        if X.shape[0] != self.n_samples_:
            raise ValueError(
                f"X must be the {self.n_samples_} rows that the detector was fitted on, got "
                f"{X.shape[0]}. For other rows use score_samples."
            )
        if self.held_out_scores_ is not None:
            return beside(self.held_out_scores_, X)
        return beside(self._leave_one_out(to_host(X), np.arange(self.n_samples_)), X)

    def _check_parameters(self) -> None:
        """Refuse what cannot be."""

    def _learn(self, X: Host, rng: np.random.RandomState) -> Host | None:
        """Learn; the leave-one-out scores where they are at hand."""
        raise NotImplementedError

    def _score(self, X: Host) -> Host:
        raise NotImplementedError

    def _leave_one_out(self, X: Host, index: NDArray[np.int64]) -> Host:
        """Leave-one-out scores of the training rows at these positions."""
        raise NotImplementedError

    def _scores(self, X: Array) -> Array:
        return beside(self._score(to_host(X)), X)
