"""Methods that learn from dirty rows and from answers.

A method makes a detector of a seed. It has ``fit(X, y)``, where y is None as long as there is no
answer, and else +1, −1, or 0 for rows that nobody has looked at; and ``score_samples``, high =
normal. ``predict`` is asked where there is one, for the share of false alarms, and ``query`` for
what to ask. Rivals are as their packages ship them. To add one, add a line to `METHODS`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

from lpfuse._arrays.operations import Host
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.components import default_detectors, fit_detectors
from lpfuse.fusion import BestSingle, FixedRule
from research.rivals.iterative import IterativeEnsemble
from research.studies.running import maker_at
from research.studies.tables.rivals import RIVALS, Score
from research.studies.tables.splits import Training

FOLDS = 5  # as many as a `FusedDetector` has
PYOD_CONTAMINATION = 0.1  # the share of training rows that PyOD's detectors call anomalies


class Method(NamedTuple):
    """How a detector is made, and how it is treated.

    Attributes
    ----------
    make : callable
        Seed → detector.
    package : str
        What must be installed.
    learns : bool
        Whether answers make a difference to it: it is not fitted again where they do not.
    needs_answers : bool
        Whether it has nothing to say without any.
    keeps : bool
        Whether one detector goes on learning through all rounds, as in the sessions of its
        package, which ask for one answer at a time as well.
    """

    make: Callable[[int], Any]
    package: str = "sklearn"
    learns: bool = True
    needs_answers: bool = False
    keeps: bool = False


class Rival:
    """A rival of the tables as a detector; the isolation forest as long as it knows no anomaly.

    Rows that nobody has looked at count as normal, which is what such methods assume.
    """

    def __init__(self, name: str, seed: int, offset: float = 0.5) -> None:
        self.name, self.seed, self.offset = name, seed, offset

    def fit(self, X: Host, y: NDArray[np.int_] | None = None) -> Self:
        y = np.zeros(len(X), int) if y is None else y
        self._score: Score
        if (y < 0).any() or RIVALS[self.name].labels != "needs":
            training = Training(X[y >= 0], X[y < 0], vouched=False)
            self._score, self._offset = RIVALS[self.name].learn(training, self.seed), self.offset
        else:
            forest = IsolationForest(random_state=self.seed).fit(X)
            self._score, self._offset = forest.score_samples, forest.offset_
        return self

    def score_samples(self, X: Host) -> Host:
        return self._score(X)

    def predict(self, X: Host) -> NDArray[np.int_]:
        return np.where(self.score_samples(X) < self._offset, -1, 1)


class PoolRule:
    """A rule of PyOD over z-scores of the default pool's one-class detectors but "knn samples".

    That one came later, and with it five subgroups of PyOD would no longer be the five detectors.

    Scale and threshold are by scores of rows that a detector has not learnt from (five folds), for
    PyOD's detectors do not count a training row among its own neighbours, and ours do. A tenth of
    these rows are called anomalies, as PyOD has it. Nothing of a `FusedDetector` but its pool.
    """

    def __init__(self, rule: str, seed: int) -> None:
        self.rule, self.seed = rule, seed

    def fit(self, X: Host, y: NDArray[np.int_] | None = None) -> Self:
        folds = KFold(FOLDS, shuffle=True, random_state=self.seed)
        held_out = [self._scores(self._pool(X[a]), X[b]) for a, b in folds.split(X)]
        raw = np.concatenate(held_out)
        self._scaler = StandardScaler().fit(raw)
        self._fusion = FixedRule(self.rule).fit(self._scaler.transform(raw))
        self._offset = np.quantile(self._fuse(raw), PYOD_CONTAMINATION)
        self._detectors = self._pool(X)
        return self

    def score_samples(self, X: Host) -> Host:
        return self._fuse(self._scores(self._detectors, X))

    def predict(self, X: Host) -> NDArray[np.int_]:
        return np.where(self.score_samples(X) < self._offset, -1, 1)

    def _pool(self, X: Host) -> list[Any]:
        pool = [entry for entry in default_detectors(len(X), 0) if entry[0] != "knn samples"]
        found = fit_detectors(pool, X, random_state=self.seed)
        return [detector for _, detector, _ in found]  # which all see every column

    def _scores(self, detectors: list[Any], X: Host) -> Host:
        return np.column_stack([detector.score_samples(X) for detector in detectors])

    def _fuse(self, raw: Host) -> Host:
        return self._fusion.score_samples(self._scaler.transform(raw))


def _aad_forest(seed: int, **options: Any) -> Any:
    from coniferest.aadforest import AADForest

    return AADForest(n_jobs=1, random_seed=seed, **options)


def _pine_forest(seed: int) -> Any:
    from coniferest.pineforest import PineForest

    return PineForest(n_jobs=1, random_seed=seed)


def _fused(seed: int, **options: Any) -> FusedDetector:
    return FusedDetector(random_state=seed, **options)


def _rule(rule: str) -> Method:
    return Method(partial(PoolRule, rule), learns=False)


METHODS: dict[str, Method] = {
    "lpfuse": Method(_fused),
    "sum of the pool": Method(partial(_fused, fusion=FixedRule("sum"))),
    "picked member": Method(partial(_fused, fusion=BestSingle())),
    "iterative": Method(lambda seed: IterativeEnsemble(random_state=seed)),
    "isolation forest": Method(lambda seed: IsolationForest(random_state=seed), learns=False),
    "PyOD average": _rule("sum"),
    "PyOD maximization": _rule("min"),
    "PyOD AOM": _rule("aom"),
    "PyOD MOA": _rule("moa"),
    "AADForest": Method(_aad_forest, "coniferest", keeps=True),
    "AADForest, prior 1": Method(
        partial(_aad_forest, prior_influence=1.0), "coniferest", keeps=True
    ),
    "PineForest": Method(_pine_forest, "coniferest", keeps=True),
    "XGBOD": Method(lambda seed: Rival("XGBOD", seed, -0.5), "xgboost", needs_answers=True),
    "ExtraTrees": Method(lambda seed: Rival("ExtraTrees", seed), needs_answers=True),
}


def method_named(name: str) -> Method:
    """One of `METHODS`, or whatever ``[TITLE=]module:function`` makes.

    Examples
    --------
    >>> method_named("lpfuse:FusedDetector").learns, method_named("PyOD MOA").learns
    (True, False)
    """
    if name in METHODS:
        return METHODS[name]
    make = maker_at(name, METHODS)
    return Method(lambda seed: make(random_state=seed), "lpfuse")
