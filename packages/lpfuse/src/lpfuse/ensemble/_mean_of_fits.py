"""An expert that was fitted without each fold, as one detector: the mean of what the fits say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

from lpfuse._arrays.operations import Host, map_row_blocks, one_blas_thread
from lpfuse._saved import saved_as
from lpfuse.detectors.kernels import Kernel


@saved_as("MeanOfFits")
class MeanOfFits(BaseEstimator):
    """Several fits of one expert; a row gets the mean of their scores.

    What an expert of a `FusedDetector` is: see :attr:`lpfuse.FusedDetector.detectors_`.

    Parameters
    ----------
    fits : list of estimators
        Fitted, each with ``score_samples``, high = normal.

    Examples
    --------
    >>> from lpfuse.adapters import ScoreFunction
    >>> fits = [ScoreFunction(lambda X, k=k: k * X[:, 0], high="normal") for k in (1.0, 3.0)]
    >>> MeanOfFits(fits).score_samples(np.array([[5.0]]))
    array([10.])
    """

    learns_from_anomalies = True
    _adapts = "first"

    def __init__(self, fits: Sequence[Any]) -> None:
        self.fits = fits

    @property
    def first(self) -> Any:
        """One of them, which shows what kind of expert all are."""
        return self.fits[0]

    def fit(self, X: Any, y: Any = None) -> Self:
        """There is nothing to learn: the fits are what they are."""
        return self

    def score_samples(self, X: Any) -> Host:
        """The mean score of each row, high = normal.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            Scores.
        """
        return np.mean([_scores(fit, X) for fit in self.fits], axis=0)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _scores(fit: Any, X: Any) -> Host:
    """What a fit says; a support vector machine by one product, five times as fast as by libsvm."""
    inner: Any = getattr(fit, "classifier_", None)
    machine: Any = inner[-1] if isinstance(inner, Pipeline) else inner
    usual = type(machine) is SVC and machine.kernel == "rbf" and list(machine.classes_) == [-1, 1]
    if not usual:
        return np.asarray(fit.score_samples(X))
    rows = inner[:-1].transform(X) if isinstance(inner, Pipeline) and len(inner) > 1 else X
    rows = np.asarray(rows, dtype=np.float64)
    similarity = Kernel("rbf", gamma=machine._gamma).against(machine.support_vectors_)
    dual, intercept = machine.dual_coef_[0], machine.intercept_[0]

    def work(block: slice) -> Host:
        return similarity(rows[block]) @ dual + intercept

    with one_blas_thread:
        return np.concatenate(map_row_blocks(work, rows, width=len(dual)))
