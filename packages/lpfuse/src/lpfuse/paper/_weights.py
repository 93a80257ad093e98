"""Weights for every ρ and p, and the ones that validation prefers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse.fusion.lp import lp_path
from lpfuse.metrics import auc_of_columns
from lpfuse.optim import Certificate
from lpfuse.scaling import TwoSidedMinMax


class Scores(NamedTuple):
    """Scores of the chosen learners, high = normal: one column each."""

    normals: Host
    anomalies: Host  # teach the weights; perhaps none
    validation: Host


class Weights(NamedTuple):
    """What was chosen."""

    rho: float
    p: float
    scaler: TwoSidedMinMax
    weights: Host
    certificate: Certificate
    fused: Host  # of the validation rows
    areas: Host  # of every ρ and p on validation


def choose_weights(
    scores: Scores, labels: Host, rhos: Sequence[float], ps: Sequence[float], loss: str
) -> Weights:
    """The weights with the highest AUC on validation; of equals the first ρ and the largest p.

    Parameters
    ----------
    scores, labels : Scores, ndarray of shape (v,)
        Of all rows, and ±1 of the validation rows.
    rhos, ps : sequence of float
        The grid; `ps` ascending.
    loss : str
        Of `LpFusion`.
    """
    S = np.concatenate([scores.normals, scores.anomalies])
    y = np.repeat([1.0, -1.0], [len(scores.normals), len(scores.anomalies)])
    areas = np.empty((len(rhos), len(ps)))
    best: Weights | None = None
    for i, rho in enumerate(rhos):
        # The paper gives normalisation in words only: unclipped, its figures come out best.
        scaler = TwoSidedMinMax(float(rho), feature_range=(0, 1), clip=False)
        with warnings.catch_warnings():  # what there is to say of learners, `fit` says once
            warnings.simplefilter("ignore", UserWarning)
            path = lp_path(scaler.fit(scores.normals).transform(S), y, ps=ps, loss=loss)
        fused = scaler.transform(scores.validation) @ path.weights.T
        areas[i] = auc_of_columns(labels, fused)
        j = len(ps) - 1 - int(np.argmax(areas[i, ::-1]))
        if i == 0 or areas[i, j] > areas[:i].max():
            proof = path.certificates[j]
            best = Weights(float(rho), ps[j], scaler, path.weights[j], proof, fused[:, j], areas)
    assert best is not None
    return best
