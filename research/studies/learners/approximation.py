"""How close a learner from approximate features comes to the exact one, as the features grow.

A record holds one cell (set, seed, width, learner, way to approximate): for each number of features
below the number of training rows, the test AUC and Spearman's rank correlation of the test scores
with those of the exact learner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from types import MappingProxyType

import numpy as np
from scipy.stats import spearmanr

from lpfuse import SVDD, KernelPCADetector, OneClassGP
from lpfuse.detectors.base import KernelDetector
from lpfuse.detectors.kernels import FeatureMap, Kernel, TrainingRows, nystroem
from research.common.splits import STUDY_SHARE, StudySplit, study_split
from research.common.store import Record

from .options import MOST_TEST, width

MOST_TRAIN = 3000  # rows; chosen by hand, so that exact learners take seconds
SIZES = (32, 64, 125, 250, 500, 1000)
LEARNERS: dict[str, tuple[type[KernelDetector], Record]] = {
    "SVDD": (SVDD, {}),
    "GP mean": (OneClassGP, {"score_type": "mean"}),
    "GP density": (OneClassGP, {"score_type": "density"}),
    "KPCA": (KernelPCADetector, {}),
}
GAMMAS = ("scale", "3 scale")
# Ways, with the most features of each. "nystroem" is the library's, with the centres of k-means as
# landmarks; "drawn" takes rows drawn at random instead. "rows": the exact learner of that many
# random rows, which the others should beat. Stored results also hold "fourier": random Fourier
# features, which the library had until these results spoke against them (docs/adr/0004).
WAYS = {"nystroem": 1000, "drawn": 1000, "rows": 1000}


def about() -> Record:
    """What the figures of a record depend on."""
    return {"sizes": list(SIZES), "most_train": MOST_TRAIN}


def has_enough_rows(is_anomaly: np.ndarray) -> bool:
    """Whether there are more training rows than the fewest features."""
    return int(STUDY_SHARE * (~is_anomaly).sum()) > min(SIZES)


def records_of(
    X: np.ndarray,
    is_anomaly: np.ndarray,
    seed: int,
    sizes: Sequence[int] = SIZES,
    ways: Mapping[str, int] = MappingProxyType(WAYS),
) -> Iterator[Record]:
    """A record for each width, learner and way; none for a set with fewer rows than features."""
    parts = study_split(
        X,
        is_anomaly,
        seed,
        most_train=MOST_TRAIN,
        most_test=MOST_TEST,
        most_anomalies=MOST_TEST,
    )
    sizes = [size for size in sizes if size < len(parts.train)]
    for gamma, learner in product(GAMMAS, LEARNERS) if sizes else ():
        make = partial(scores_of, parts, learner, width(gamma, parts.train))
        exact = make()
        for way, most in ways.items():
            scores = [make(way, size, seed) for size in sizes if size <= most]
            yield {
                "n": len(parts.train), "d": parts.train.shape[1],
                "gamma": gamma, "learner": learner, "way": way, "exact": round(parts.auc(exact), 2),
                "auc": [round(parts.auc(each), 2) for each in scores],
                "spearman": [round(float(spearmanr(each, exact)[0]), 4) for each in scores],
            }  # fmt: skip


def scores_of(
    parts: StudySplit, learner: str, gamma: float, way: str = "exact", size: int = 1, seed: int = 0
) -> np.ndarray:
    """Test scores of a learner that has `size` features, or the kernel itself."""
    make, settings = LEARNERS[learner]
    train = parts.train
    if way == "rows":
        train = train[np.random.default_rng(seed).choice(len(train), size, replace=False)]
    if way == "drawn":
        make = with_drawn_rows(make)
    if way in ("nystroem", "drawn"):
        settings = settings | {"approximation": "nystroem", make._size_name: size}
    else:
        settings = settings | {"approximation": None}
    detector = make(gamma=gamma, random_state=seed, **settings)
    return np.asarray(detector.fit(train).score_samples(parts.tested))


def with_drawn_rows(make: type[KernelDetector]) -> type[KernelDetector]:
    """The learner with rows drawn at random as landmarks, which the library does not offer."""

    class WithDrawnRows(make):  # type: ignore[misc, valid-type]
        __init__ = make.__init__  # scikit-learn reads the parameters from it

        def _features(self, kernel: Kernel, rows: TrainingRows) -> FeatureMap:
            random = np.random.RandomState(self.random_state)
            drawn = rows.X[random.choice(len(rows), self._size(), replace=False)]  # nosec B311 # NumPy, seeded
            return nystroem(kernel, drawn, self._size(), random)

    return WithDrawnRows
