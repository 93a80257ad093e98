"""Methods to compare: whatever turns a `TrainingData` into a `FittedMethod`.

Those that fuse tables of scores choose ρ (and p) by the AUC on validation; every method's
threshold has the best G-mean there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse.fusion.lp import lp_path
from lpfuse.optim import LpPath
from lpfuse.scaling import TwoSidedMinMax
from research.common.protocol import FittedMethod, Method, TrainingData, area, threshold
from research.paper.learners import Tables, in_sample_tables

Scorer = Callable[[Host, Host], Host]  # scaled scores, features → fused scores, perhaps in columns


@dataclass(frozen=True)
class Preset:
    """Which scores teach the weights, on which scale, and by which costs.

    Attributes
    ----------
    name : str
        "paper" or "ours".
    tables : callable
        TrainingData → Tables.
    scaler : dict
        Parameters of `TwoSidedMinMax`, but for ρ.
    fusion : dict
        Parameters of `LpFusion`, but for p and the loss.
    """

    name: str
    tables: Callable[[TrainingData], Tables]
    scaler: dict[str, Any] = field(default_factory=dict)
    fusion: dict[str, Any] = field(default_factory=dict)

    def tables_of(self, training: TrainingData) -> Tables:
        """The tables, made once for all methods."""
        key = f"tables, {self.name}, {'pure' if training.is_pure else 'non-pure'}"
        if key not in training.cache:
            training.cache[key] = self.tables(training)
        found: Tables = training.cache[key]
        return found


# The paper gives normalisation in words only: s′ = (s − l) / (u − l), without clipping, is the
# reading under which its figures come out best.
PAPER_PRESET = Preset("paper", in_sample_tables, {"feature_range": (0, 1), "clip": False})


def single(learner: str, preset: Preset = PAPER_PRESET) -> Method:
    """One learner, with the best setting of its grid."""

    def method(training: TrainingData) -> FittedMethod:
        tables = preset.tables_of(training)
        j = list(tables.names).index(learner)
        chosen = {key: value for key, value in tables.settings.items() if key.startswith(learner)}
        offset = threshold(training, tables.validation[:, j])
        return FittedMethod(lambda X: tables.score(X)[:, j], offset, chosen)

    return method


def best_single(preset: Preset = PAPER_PRESET) -> Method:
    """The learner with the highest AUC on validation."""

    def method(training: TrainingData) -> FittedMethod:
        tables = preset.tables_of(training)
        best = int(np.argmax(area(training.labels, tables.validation)))
        learner = tables.names[best]
        fitted = single(learner, preset)(training)
        return fitted._replace(choices={"learner": learner, **fitted.choices})

    return method


def fusion(make: Callable[[int], Any], preset: Preset = PAPER_PRESET, *, every: int = 1) -> Method:
    """Scores fused by an estimator: ``make(seed)`` has ``fit(S, y)`` and ``score_samples(S)``.

    One that says ``uses_features`` is given the features as `X` too. For one that is slow to fit,
    `every` thins the grid of ρ: 4 tries every fourth.

    Examples
    --------
    >>> from lpfuse import FixedRule
    >>> from research.paper.methods import fusion
    >>> method = fusion(lambda seed: FixedRule("median"))
    """

    def learn(training: TrainingData, S: Host, y: Host | None) -> Scorer:
        fused = make(training.seed)
        looks = getattr(fused, "uses_features", False)
        rows = np.concatenate([training.normals, training.labelled])
        fused.fit(S, y, **({"X": rows} if looks else {}))
        return lambda S, X: fused.score_samples(S, **({"X": X} if looks else {}))

    def choices(training: TrainingData) -> Sequence[dict[str, Any]]:
        return [{}]

    return _chosen_on_validation(preset, learn, choices, every)


def lp(
    ps: Sequence[float] | None = None, loss: str = "hinge", preset: Preset = PAPER_PRESET
) -> Method:
    """ℓp-norm constrained weights; p is chosen from `ps`, by default the protocol's grid.

    Examples
    --------
    >>> from research.paper.methods import lp
    >>> method = lp(ps=[2.0])
    """

    def grid(training: TrainingData) -> Sequence[float]:
        return training.protocol.ps if ps is None else ps

    def learn(training: TrainingData, S: Host, y: Host | None) -> Scorer:
        wanted = grid(training)
        path = _shared_path(training, S, y, loss, preset, wanted)
        columns = np.searchsorted(path.ps, wanted)
        return lambda S, X: S @ path.weights[columns].T

    def choices(training: TrainingData) -> Sequence[dict[str, Any]]:
        return [{"p": p} for p in grid(training)]

    return _chosen_on_validation(preset, learn, choices)


def _shared_path(
    training: TrainingData,
    S: Host,
    y: Host | None,
    loss: str,
    preset: Preset,
    wanted: Sequence[float],
) -> LpPath:
    """Weights for every p of the protocol, ℓ2 and ℓ∞, from one path; for others by themselves."""
    usual = {*training.protocol.ps, 2.0, np.inf}
    ps = sorted(usual if usual >= set(wanted) else set(wanted))
    key = f"path, {preset.name}, {loss}, {ps}, {hash((S.tobytes(), y is None))}"
    if key not in training.cache:
        training.cache[key] = lp_path(S, y, ps=ps, loss=loss, **preset.fusion)
    path: LpPath = training.cache[key]
    return path


def _chosen_on_validation(
    preset: Preset,
    learn: Callable[[TrainingData, Host, Host | None], Scorer],
    choices: Callable[[TrainingData], Sequence[dict[str, Any]]],
    every: int = 1,
) -> Method:
    """A method that learns for every ρ, and keeps the ρ and the column that validation prefers.

    Of equals the first ρ and the last column, the largest p, is kept.
    """

    def method(training: TrainingData) -> FittedMethod:
        tables = preset.tables_of(training)
        best: tuple[float, Any] = (-1.0, None)
        for rho in training.protocol.rhos[::every]:
            scaler = TwoSidedMinMax(rho, **preset.scaler).fit(tables.normals)
            scorer = learn(training, *learning_scores(scaler, tables))
            scores = _columns(scorer(scaler.transform(tables.validation), training.validation))
            areas = area(training.labels, scores)
            column = len(areas) - 1 - int(np.argmax(areas[::-1]))
            if areas[column] > best[0]:
                best = areas[column], (rho, scaler, scorer, column, scores[:, column])
        rho, scaler, scorer, column, scores = best[1]

        def score(X: Host) -> Host:
            return _columns(scorer(scaler.transform(tables.score(X)), X))[:, column]

        chosen = {"rho": rho, **choices(training)[column]}
        return FittedMethod(score, threshold(training, scores), chosen)

    return method


def learning_scores(scaler: TwoSidedMinMax, tables: Tables) -> tuple[Host, Host | None]:
    """Scaled scores of the rows that teach, and their labels; None: all are normal."""
    S = scaler.transform(np.concatenate([tables.normals, tables.labelled]))
    if len(tables.labelled) == 0:
        return S, None
    return S, np.repeat([1.0, -1.0], [len(tables.normals), len(tables.labelled)])


def _columns(scores: Host) -> Host:
    return scores if scores.ndim == 2 else scores[:, None]
