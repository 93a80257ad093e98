"""Methods to compare: whatever turns a `TrainingData` into a `FittedMethod`.

Those that fuse tables of scores choose ρ, and p or settings of their own, by the AUC on validation;
every method's threshold has the best G-mean there.
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
from research.paper.held_out import out_of_fold_tables, shared_tables
from research.paper.learners import Tables

Scorer = Callable[[Host, Host], Host]  # scaled scores, features → fused scores, perhaps in columns
Seen = Callable[[Host], Host]  # features → scaled scores


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
PAPER_SCALE: dict[str, Any] = {"feature_range": (0, 1), "clip": False}
PAPER_PRESET = Preset("paper", shared_tables, PAPER_SCALE)
# The same learners on the same scale, to be at one's best: weights learn from rows that the
# learners have not seen, and 0 is the border where a rule reads signs or angles.
OUT_OF_FOLD_PRESET = Preset("out of fold", out_of_fold_tables, PAPER_SCALE)
SIGNED_PRESET = Preset("signed", shared_tables)
SIGNED_OUT_OF_FOLD_PRESET = Preset("signed, out of fold", out_of_fold_tables)


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


def fusion(
    make: Callable[..., Any],
    preset: Preset = PAPER_PRESET,
    settings: Sequence[dict[str, Any]] = ({},),
) -> Method:
    """Scores fused by an estimator: ``make(seed, **setting)`` has ``fit`` and ``score_samples``.

    It is fitted to scores and labels, ``fit(S, y)``, for every ρ and every setting. One that says
    ``uses_features`` is given the features as `X` too, and one that says ``needs_scorer`` what
    tells their scores of other rows, as `ask`.

    Examples
    --------
    >>> from lpfuse import FixedRule
    >>> from research.paper.methods import fusion
    >>> method = fusion(lambda seed: FixedRule("median"))
    """

    def learn(training: TrainingData, S: Host, y: Host | None, seen: Seen) -> Scorer:
        fitted = [make(training.seed, **setting) for setting in settings]
        rows = np.concatenate([training.normals, training.labelled])
        for fused in fitted:
            also: dict[str, Any] = {"X": rows} if looks(fused) else {}
            if getattr(fused, "needs_scorer", False):
                also["ask"] = seen
            fused.fit(S, y, **also)

        def scores(S: Host, X: Host) -> Host:
            return np.column_stack(
                [
                    np.asarray(fused.score_samples(S, **({"X": X} if looks(fused) else {})))
                    for fused in fitted
                ]
            )

        return scores

    def looks(fused: Any) -> bool:
        return bool(getattr(fused, "uses_features", False))

    return _chosen_on_validation(preset, learn, lambda training: settings)


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

    def learn(training: TrainingData, S: Host, y: Host | None, seen: Seen) -> Scorer:
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
    learn: Callable[[TrainingData, Host, Host | None, Seen], Scorer],
    choices: Callable[[TrainingData], Sequence[dict[str, Any]]],
) -> Method:
    """A method that learns for every ρ, and keeps the ρ and the column that validation prefers.

    Of equals the first ρ and the last column, the largest p, is kept.
    """

    def method(training: TrainingData) -> FittedMethod:
        tables = preset.tables_of(training)
        best: tuple[float, Any] = (-1.0, None)
        for rho in training.protocol.rhos:
            scaler = TwoSidedMinMax(rho, **preset.scaler).fit(tables.normals)
            seen = _seen_by(tables, scaler)
            scorer = learn(training, *learning_scores(scaler, tables), seen)
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


def _seen_by(tables: Tables, scaler: TwoSidedMinMax) -> Seen:
    return lambda X: scaler.transform(tables.score(X))


def learning_scores(scaler: TwoSidedMinMax, tables: Tables) -> tuple[Host, Host | None]:
    """Scaled scores of the rows that teach, and their labels; None: all are normal."""
    S = scaler.transform(np.concatenate([tables.normals, tables.labelled]))
    if len(tables.labelled) == 0:
        return S, None
    return S, np.repeat([1.0, -1.0], [len(tables.normals), len(tables.labelled)])


def _columns(scores: Host) -> Host:
    return scores if scores.ndim == 2 else scores[:, None]
