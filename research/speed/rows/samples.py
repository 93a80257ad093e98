"""What members lose by learning from samples: the default pool beside one that keeps more rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from lpfuse import FusedDetector
from lpfuse.ensemble.components import default_detectors
from research.common.clock import cpu_timed
from research.studies.alarms.families import FAMILIES

from .data import Matrix

# Families whose anomalies are neither impossible nor trivial to tell at these sizes.
NAMES = ("t2", "lognorm", "clusters", "gauss30", "mixture", "poisson", "mixed")
# How many times as much the other pool keeps: rows of neighbours and of forests, and landmarks.
SIZES = {"max_samples": 4, "n_components": 2}
# Of the distance from the tenth to the ninetieth percentile: how far one cell of a row is moved to
# make an anomaly of it. By hand, so that a good detector finds most and no detector all.
MOVED = 0.75


class SamplesBench:
    """One family of made-up rows: AUC with the samples of the default, and with larger ones."""

    def __init__(self, family: str, n: int, scored: int, seed: int) -> None:
        rng = np.random.default_rng([seed, n])
        draw = FAMILIES[family].draw
        self.seed, self.X = seed, draw(rng, n)
        few = scored // 10
        anomalies = moved(draw(rng, few), self.X, rng)
        self.unseen = np.concatenate([draw(rng, scored), anomalies])
        self.y = np.repeat([1, -1], [scored, few])

    def run(self) -> dict[str, Any]:
        """AUC in percent and CPU seconds of fit and scores, by pool."""
        found: dict[str, Any] = {"auc": {}, "seconds": {}}
        for name, times in (("default", None), ("more", SIZES)):
            fused = FusedDetector(list(pool(len(self.X), times)), random_state=self.seed)
            found["seconds"][name], scores = cpu_timed(
                lambda fused=fused: fused.fit(self.X).score_samples(self.unseen)
            )
            found["auc"][name] = 100 * float(roc_auc_score(self.y, scores))
        return found


def pool(n: int, times: dict[str, int] | None) -> Iterator[tuple[str, Any]]:
    """One-class members of the default pool; with `times`, samples are so many times as large."""
    for name, pipeline in default_detectors(n, 0):
        detector = pipeline[-1]
        kept = detector.get_params()
        if name != "knn samples":  # whose samples of 16 rows are small on purpose
            detector.set_params(**{
                key: many * kept[key] for key, many in (times or {}).items() if key in kept
            })  # fmt: skip
        yield name, pipeline


def moved(rows: Matrix, normal: Matrix, rng: np.random.Generator) -> Matrix:
    """Rows with one cell moved, up or down, by a share of its column's spread."""
    low, high = np.quantile(normal, [0.1, 0.9], axis=0)
    columns = rng.integers(rows.shape[1], size=len(rows))
    by = MOVED * (high - low)[columns] * rng.choice([-1.0, 1.0], size=len(rows))
    rows[np.arange(len(rows)), columns] += by
    return rows
