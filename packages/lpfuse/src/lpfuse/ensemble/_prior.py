"""Where the weights of a `FusedDetector` start, and how far its own rows may lead them away.

Without labels the weights are the prior's. With labelled anomalies they are the best ones within a
radius of it, and the radius is the one that held-out rows speak for: 0 where they speak for none.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from sklearn.base import clone

from lpfuse._arrays.operations import Host
from lpfuse.ensemble._calibration import OutOfFoldScores
from lpfuse.ensemble._scoring import Combination, scale_scores
from lpfuse.fusion.lp import LpFusion

FILE = "prior.json"  # written by `python -m research.studies.tables prior`
# Radii to choose from, in multiples of ‖w₀‖₂: half as far from the prior as zero is, as far, twice.
RADII = (0.5, 1.0, 2.0)
# Standard errors by which held-out anomalies must gain before the weights leave the prior, or
# leave it further: docs/adr/0018.
CERTAIN = 1.0
# Labelled anomalies below which weights are the prior's, for so few speak for nothing, and scores
# are on the scale that hears the loudest detector: from there on experts know more than a loud
# voice, and the two-sided scale does better (docs/adr/0019).
FEW = 5


@cache
def learnt_prior() -> dict[str, Any]:
    """What hundreds of tables say of the default pool: the file that ships with the package.

    Examples
    --------
    >>> sorted(learnt_prior())
    ['made_by', 'provenance', 'version', 'weights']
    """
    text = files("lpfuse.ensemble").joinpath(FILE).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def scale_for(n_anomalies: int) -> str:
    """The scale of the scores: "tail" or "two-sided", as `lpfuse.scaling` has them."""
    return "tail" if n_anomalies < FEW else "two-sided"


def prior_of_tables(names: Sequence[str], n_anomalies: int) -> dict[str, float] | None:
    """Prior weights of the default pool, by name; their sum is 1. None of any other pool.

    They were learnt for some numbers of labelled anomalies, on the scale that is used with these:
    between two numbers they are linear, from `FEW` on in the logarithm, beyond the last one
    constant.

    Parameters
    ----------
    names : sequence of str
        The detectors that there are; weights of others are left out. A model that was saved when
        the default pool was another one has names that nothing was learnt of.
    n_anomalies : int
        Labelled anomalies.

    Examples
    --------
    >>> weights = prior_of_tables(["gp", "knn", "trees"], 10)
    >>> round(sum(weights.values()), 9)
    1.0
    """
    rows = learnt_prior()["weights"]
    if not set(names) <= {name for row in rows for name in row["weights"]}:
        return None
    scale = scale_for(n_anomalies)
    rows = [row for row in rows if row["scale"] == scale]
    measure = np.asarray if scale == "tail" else np.log1p
    counts = measure([row["labels"] for row in rows])
    found = {
        name: np.interp(
            measure(n_anomalies), counts, [row["weights"].get(name, 0.0) for row in rows]
        )
        for name in names
    }
    total = sum(found.values())
    return {name: float(weight / total) for name, weight in found.items()}


def prior_fusion(prior: Mapping[str, float], scores: OutOfFoldScores, scaler: Any) -> LpFusion:
    """The fusion around prior weights, with the radius that held-out rows speak for.

    Parameters
    ----------
    prior : mapping
        Weights w₀ by detector, in the order of the columns of scores.
    scores : OutOfFoldScores
        What the weights are to be learnt from.
    scaler : transformer
        Puts scores on one scale; not changed.

    Returns
    -------
    LpFusion
        To be fitted: ``‖w − w₀‖₂ ≤ r``, w ≥ 0, with an intercept and balanced classes.
    """
    centre = np.fromiter(prior.values(), dtype=np.float64)
    fusion = LpFusion(
        p=2.0,
        class_weight="balanced",
        fit_intercept=True,
        nonnegative=True,
        prior=centre,
        radius=0.0,
    )
    if (scores.labels[scores.usable] < 0).sum() < FEW:
        return fusion
    radii = [float(r * np.linalg.norm(centre)) for r in RADII]
    return fusion.set_params(radius=_radius(fusion, scores, scaler, radii))


def _radius(fusion: LpFusion, scores: OutOfFoldScores, scaler: Any, radii: list[float]) -> float:
    """The radius at which held-out anomalies lie lowest among held-out normal rows.

    For each labelled anomaly the share of the normal rows of its fold that score higher, by weights
    learnt without that fold; the mean over anomalies is the AUC within folds. A radius takes the
    place of a smaller one if the anomalies gain, on average, `CERTAIN` standard errors.
    """
    chosen, best = 0.0, _placements(fusion, scores, scaler)
    for radius in radii:
        found = _placements(clone(fusion).set_params(radius=radius), scores, scaler)
        gain = found - best
        error = float(np.std(gain, ddof=1)) / np.sqrt(gain.size) if gain.size > 1 else np.inf
        if gain.size and float(gain.mean()) > CERTAIN * error:
            chosen, best = radius, found
    return chosen


def _placements(fusion: LpFusion, scores: OutOfFoldScores, scaler: Any) -> Host:
    """For each anomaly, the share of normal rows of its fold that score higher; ties count half."""
    S, y, fold, usable = scores.scores, scores.labels, scores.fold, scores.usable
    found = []
    for number in np.unique(fold[usable & (y < 0)]):
        inside, rest = usable & (fold == number), usable & (fold != number)
        if not ((y[inside] > 0).any() and (y[rest] > 0).any() and (y[rest] < 0).any()):
            continue
        with warnings.catch_warnings():  # what there is to say is said of the final weights
            warnings.simplefilter("ignore")
            if fusion.radius == 0:  # the weights are the prior's, and the intercept moves no rank
                scale = clone(scaler).fit(S[rest & (y > 0)])
                fused = scale_scores(scale, S[inside]) @ fusion.prior
            else:
                weights = scores.weights_of(rest)
                combination = Combination.learn(scaler, fusion, S[rest], y[rest], weights=weights)
                fused = combination.score_samples(S[inside])
        normal, anomalous = np.sort(fused[y[inside] > 0]), fused[y[inside] < 0]
        below = [np.searchsorted(normal, anomalous, side) for side in ("left", "right")]
        found.append(1.0 - (below[0] + below[1]) / (2.0 * normal.size))
    return np.concatenate(found) if found else np.empty(0)
