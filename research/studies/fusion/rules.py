"""Ways to learn the weights: one ℓp problem each, whatever the number of labels.

The imaginary anomaly is a row to which every detector gives the same low score. It shares the
anomalies' half of the cost with the labelled ones, as if it were so many of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression

from lpfuse import LpFusion


@dataclass(frozen=True)
class Rule:
    """What of the problem is varied."""

    p: float = 4.0
    nonnegative: bool = True
    fit_intercept: bool = True
    imaginary: float = 3.0  # labelled anomalies that the imaginary one counts for
    imaginary_score: float = -2.0
    radius: float = 1.0  # of the ball

    def weights(self, normal: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, float]:
        """Weights and the relative gap of their certificate, from scaled scores."""
        R = normal.shape[1]
        imaginary = np.full((int(self.imaginary > 0), R), self.imaginary_score)
        S = self.radius * np.vstack([normal, known, imaginary])
        y = np.repeat([1, -1], [len(normal), len(S) - len(normal)])
        counts = np.r_[np.ones(len(normal) + len(known)), self.imaginary * np.ones(len(imaginary))]
        for label in set(y.tolist()):  # each class costs the same in all
            counts[y == label] /= counts[y == label].sum()
        fusion = LpFusion(
            p=self.p, nonnegative=self.nonnegative, fit_intercept=self.fit_intercept
        ).fit(S, y, sample_weight=counts)
        return fusion.weights_, fusion.certificate_.relative_gap


CHOSEN = Rule()
RULES = {
    "chosen": CHOSEN,
    "p = 4/3": Rule(p=4 / 3),
    "p = 2": Rule(p=2.0),
    "p = ∞": Rule(p=np.inf),
    "imaginary at −1": Rule(imaginary_score=-1.0),
    "imaginary counts 1": Rule(imaginary=1.0),
    "imaginary counts 10": Rule(imaginary=10.0),
    "radius 2": Rule(radius=2.0),
    "no imaginary": Rule(imaginary=0.0),
    "no imaginary, no intercept": Rule(imaginary=0.0, fit_intercept=False),
    "no imaginary, free signs": Rule(imaginary=0.0, nonnegative=False),
    "free signs, no intercept": Rule(2.0, nonnegative=False, fit_intercept=False, imaginary=0.0),
}
JITTER_RULE = Rule(p=2.0, imaginary=0.0, fit_intercept=False)  # artificial anomalies as labels


def logistic_weights(normal: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Balanced logistic regression on the scaled scores: the usual way to stack."""
    y = np.repeat([1, -1], [len(normal), len(known)])
    model = LogisticRegression(class_weight="balanced", max_iter=1000)
    return np.asarray(model.fit(np.r_[normal, known], y).coef_[0])
