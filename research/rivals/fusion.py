"""Whoever lpfuse is compared with, under the names that tables show.

A rival fuses the scores of detectors that it is given: ``make(seed)`` has ``fit(S, y)`` and
``score_samples(S)``; one that says ``uses_features`` takes the rows as `X` as well. A whole
ensemble brings its own detectors: ``make(seed, d)``, for rows of d columns, has ``fit(X, y)`` and
``score_samples(X)``. Both take the settings of `GRIDS` by name, among which whoever has validation
rows chooses. To add one, add a line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from math import comb, inf
from types import MappingProxyType
from typing import Any

from lpfuse.detectors import (
    PAPER_WIDTHS,
    SVDD,
    GMMDetector,
    KernelPCADetector,
    OneClassGP,
    gamma_from_sigma,
)
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.components import default_fusion
from lpfuse.fusion import BestSingle, FixedRule, LinearSVMStacker, LogisticStacker, LpFusion, fixed
from research.rivals.dynamic import DynamicEnsemble
from research.rivals.iterative import IterativeEnsemble
from research.rivals.local import LocalLpFusion
from research.rivals.pools import bagged_one_class_svms, bootstraps, random_subspaces
from research.rivals.related import SIMILARITIES, FuzzyNeighbours, GeneticSelection
from research.rivals.search import ExhaustiveWeights, GeneticWeights, SwarmWeights
from research.rivals.templates import CosineSimilarity, DecisionTemplates

Rival = Callable[..., Any]  # seed, settings
Ensemble = Callable[..., Any]  # seed, columns, settings

# What tables call the fixed rules, and their names in the library.
TITLES = {"trimmed_mean": "trimmed mean", "aom": "AOM", "moa": "MOA"}
RULES = {TITLES.get(rule, rule): rule for rule in fixed.RULES}


def _rule(rule: str) -> Rival:
    return lambda seed: FixedRule(rule)


def _balanced(p: float, **options: Any) -> Rival:
    """ℓp weights w ≥ 0 with an intercept, both classes counting alike."""
    always: dict[str, Any] = {
        "class_weight": "balanced",
        "fit_intercept": True,
        "nonnegative": True,
    }
    return lambda seed: LpFusion(p=p, **always, **options)


RIVALS: Mapping[str, Rival] = MappingProxyType({
    **{name: _rule(rule) for name, rule in RULES.items()},
    "best single": lambda seed: BestSingle(),
    "lp, default": lambda seed: default_fusion(),
    "lp, paper": lambda seed: LpFusion(p=2.0),
    "lp, p = 4/3": _balanced(4 / 3),
    "lp, p = 2": _balanced(2.0),
    "lp, p = ∞": _balanced(inf),
    "least squares": _balanced(2.0, loss="least_squares"),
    "local lp": lambda seed: LocalLpFusion(default_fusion(), random_state=seed),
    "linear SVM": lambda seed, **settings: LinearSVMStacker(**settings),
    "logistic": lambda seed, **settings: LogisticStacker(**settings),
    "genetic": lambda seed, **settings: GeneticWeights(random_state=seed, **settings),
    "genetic selection": lambda seed: GeneticSelection(random_state=seed),
    "swarm": lambda seed, **settings: SwarmWeights(random_state=seed, **settings),
    "exhaustive": lambda seed: ExhaustiveWeights(),
    "templates": lambda seed: DecisionTemplates(),
    "cosine": lambda seed: CosineSimilarity(),
    "dynamic": lambda seed, **settings: DynamicEnsemble(random_state=seed, **settings),
})  # fmt: skip

IGNORES_LABELS = frozenset(RULES)  # the same with and without labelled anomalies
NEEDS_LABELS = frozenset({"linear SVM", "logistic"})  # the sum rule without
# Packages among research/requirements.txt that some need.
PACKAGES = MappingProxyType({
    "genetic": "pygad",
    "genetic selection": "pygad",
    "fuzzy neighbours": "pygad",
})  # fmt: skip

Settings = tuple[dict[str, Any], ...]
_STRENGTHS: Settings = tuple({"C": C} for C in (0.01, 0.1, 1.0, 10.0))
_PAPER: Settings = tuple({"gamma": gamma_from_sigma(sigma)} for sigma in PAPER_WIDTHS)
_WIDTHS: Settings = ({"gamma": "narrow"}, *_PAPER)
# Of four weights a genetic search has found the best ones after 20 generations.
_SHORT = 20
# What is chosen on validation rows, the default among it.
GRIDS: Mapping[str, Settings] = MappingProxyType({
    "linear SVM": _STRENGTHS,
    "logistic": _STRENGTHS,
    "genetic": tuple({"prune": prune, "generations": _SHORT} for prune in (0.0, 0.5)),
    "swarm": tuple({"prune": prune, "iterations": _SHORT} for prune in (0.0, 0.5)),
    "dynamic": tuple(
        {"n_neighbors": k, "shortlist": shortlist} for k in (5, 20, 50) for shortlist in (4, None)
    ),
    "subspaces + max": _WIDTHS,
    "bagged SVMs": ({"gamma": "scale"}, *_PAPER),
    "dynamic bootstraps": _WIDTHS,
    "iterative": _WIDTHS,
    "fuzzy neighbours": ({"n_neighbors": 1}, {"n_neighbors": 5}),
})  # fmt: skip


def at_hand() -> dict[str, Rival]:
    """The rivals whose packages are installed.

    Examples
    --------
    >>> from research.rivals.fusion import RIVALS, at_hand
    >>> set(RIVALS) - set(at_hand()) <= {"genetic", "genetic selection"}
    True
    """
    return {name: make for name, make in RIVALS.items() if is_at_hand(name)}


def is_at_hand(name: str) -> bool:
    """Whether the package that a rival or an ensemble needs is installed."""
    return name not in PACKAGES or find_spec(PACKAGES[name]) is not None


def _fused(detectors: Any, fusion: Any, seed: int) -> FusedDetector:
    # Scores are all that is asked of it: no rows are spent on a threshold.
    return FusedDetector(detectors, fusion=fusion, calibration="plain", random_state=seed)


def _subspaces(seed: int, d: int, gamma: float | str = "narrow") -> FusedDetector:
    members = min(10, comb(d, d // 2))
    pool = random_subspaces(SVDD(gamma=gamma), d, members, random_state=seed)
    return _fused(pool, FixedRule("max"), seed)


def _bagged_svms(seed: int, d: int, gamma: float | str = "scale") -> FusedDetector:
    return _fused(bagged_one_class_svms(gamma=gamma, random_state=seed), FixedRule("sum"), seed)


def _dynamic_bootstraps(seed: int, d: int, gamma: float | str = "narrow") -> FusedDetector:
    pool = bootstraps(SVDD(gamma=gamma), random_state=seed)
    return _fused(pool, DynamicEnsemble(random_state=seed), seed)


def _fuzzy_neighbours(seed: int, d: int, n_neighbors: int = 5) -> FusedDetector:
    pool = [(metric, FuzzyNeighbours(metric, n_neighbors)) for metric in SIMILARITIES]
    return _fused(pool, GeneticWeights(generations=_SHORT, random_state=seed), seed)


def _iterative(seed: int, d: int, gamma: float | str = "narrow") -> IterativeEnsemble:
    """The paper's four learners, with fixed settings but for the width."""
    pool = [
        ("svdd", SVDD(gamma=gamma)),
        ("kpca", KernelPCADetector(gamma=gamma)),
        ("gmm", GMMDetector(score_type="mahalanobis")),
        ("gp", OneClassGP(gamma=gamma)),
    ]
    return IterativeEnsemble(_fused(pool, FixedRule("sum"), seed), random_state=seed)


ENSEMBLES: Mapping[str, Ensemble] = MappingProxyType({
    "subspaces + max": _subspaces,
    "bagged SVMs": _bagged_svms,
    "dynamic bootstraps": _dynamic_bootstraps,
    "iterative": _iterative,
    "fuzzy neighbours": _fuzzy_neighbours,
})  # fmt: skip
TAUGHT = frozenset({"dynamic bootstraps", "iterative", "fuzzy neighbours"})  # by anomalies, if any

NOTES: Mapping[str, str] = MappingProxyType({
    "AOM": "average of maxima over groups of detectors",
    "MOA": "maximum of averages over groups of detectors",
    "best single": "by AUC; without labels, the detector that agrees most with the others",
    "lp, default": "the weights of `FusedDetector`: p = 4, w ≥ 0, an imaginary anomaly",
    "lp, paper": "p = 2, free signs, no intercept, no balance of the classes",
    "lp, p = 4/3": "w ≥ 0, intercept, balanced classes; so are p = 2, p = ∞ and least squares",
    "local lp": "the default, region by region: in the style of Nourmohammadi et al. (2024)",
    "linear SVM": "without labels, the sum rule",
    "logistic": "without labels, the sum rule",
    "genetic": "weights by genetic search: in the style of Fatemifar et al. (2022)",
    "swarm": "weights by a particle swarm: in the style of Fatemifar et al. (2022)",
    "exhaustive": "weights on a grid of the simplex: in the style of Bergamini et al. (2009)",
    "templates": "distance to the mean scores: in the style of Kuncheva et al. (2001)",
    "cosine": "angle to the mean scores: in the style of Lai et al. (2002)",
    "dynamic": "in the style of DEOD (Wang & Mao 2020), heterogeneous pool",
    "dynamic bootstraps": "in the style of DEOD, homogeneous pool: ten SVDDs on bootstraps",
    "subspaces + max": "in the style of Nanni (2006): ten SVDDs on halves of the columns",
    "bagged SVMs": "in the style of Shieh & Kamm (2009): ten one-class SVMs on bootstraps, summed",
    "iterative": "in the style of FNDF (Wang et al. 2022): four learners, up to four rounds",
    "genetic selection": "mean of a subset by genetic search: in the style of He et al. (2004)",
    "fuzzy neighbours": "in the style of Di Gesù & Lo Bosco (2007): five kinds of them, weighted",
})  # fmt: skip
