"""Learning from more rows than a kernel matrix could hold, inside its own process."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score

from lpfuse import SVDD, KernelPCADetector, OneClassGP
from research.common.clock import timed
from research.common.memory import peak_of

from .data import Data

# One fit is timed, so thresholds come from it, not from refits without a part of the rows.
ONE_FIT: dict[str, Any] = {"random_state": 0, "offset_from": "training"}
LEARNERS: dict[str, Any] = {
    "SVDD": lambda r, how: SVDD(n_components=r, approximation=how, **ONE_FIT),
    "OneClassGP": lambda r, how: OneClassGP("mean", n_components=r, approximation=how, **ONE_FIT),
    "KernelPCADetector": lambda r, how: KernelPCADetector(
        n_approximation=r, approximation=how, **ONE_FIT
    ),
}
JUDGED_ROWS = 2000  # normal ones, and as many anomalies


class PastMemoryBench:
    """One learner and many training rows; the approximation is left to the learner.

    The same learner, exact, on `exact_rows` of the rows is what its quality is compared with.
    """

    def __init__(
        self, learner: str, n_components: int, data: Data, score_rows: int, exact_rows: int
    ) -> None:
        self.learner, self.data, self.exact_rows = learner, data, min(exact_rows, data.n)
        self.model = LEARNERS[learner](n_components, "auto")
        self.X, self.unseen = data.training(), data.unseen(score_rows)
        small = data.small()
        warm = LEARNERS[learner](50, "nystroem").fit(small.training())
        warm.score_samples(small.unseen(100))

    def run(self) -> dict[str, Any]:
        """Seconds and memory of one fit and one scoring, and how good the result is."""
        outcome: dict[str, Any] = {}

        def work() -> None:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                outcome["fit_seconds"], _ = timed(lambda: self.model.fit(self.X))
            outcome["converged"] = not any(w.category is ConvergenceWarning for w in told)
            scoring = lambda: self.model.score_samples(self.unseen)  # noqa: E731
            outcome["score_seconds"], scores = timed(scoring)
            outcome["finite"] = bool(np.isfinite(scores).all())

        peak = peak_of(work)
        outcome["approximated"] = self.model.features_ is not None
        if peak is not None:
            outcome |= {"peak_bytes": peak.total, "extra_bytes": peak.extra}
        return outcome | self._quality()

    def _quality(self) -> dict[str, float | None]:
        """How much of k(x, x) the features miss; AUC; agreement with an exact learner.

        The exact learner sees a sample of the rows only: the two need not agree to be good.
        """
        normal, anomalies = self.data.unseen(JUDGED_ROWS), self.data.anomalies(JUDGED_ROWS)
        rows = np.concatenate([normal, anomalies])
        labels = np.repeat([1, 0], JUDGED_ROWS)
        step = len(self.X) // self.exact_rows
        exact = LEARNERS[self.learner](50, None).fit(self.X[::step][: self.exact_rows])
        scores, exact_scores = self.model.score_samples(rows), exact.score_samples(rows)
        features = self.model.features_
        missed = None
        if features is not None:
            missed = float(1 - (features.of(normal) ** 2).sum(axis=1).mean())
        return {
            "missed": missed,
            "auc": float(roc_auc_score(labels, scores)),
            "exact_rows": self.exact_rows,
            "exact_auc": float(roc_auc_score(labels, exact_scores)),
            "rank_correlation": float(spearmanr(scores, exact_scores).statistic),
            "outside": float((self.model.predict(normal) < 0).mean()),
        }
