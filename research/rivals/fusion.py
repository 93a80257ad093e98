"""Whoever lpfuse is compared with, under the names that tables show.

A rival fuses the scores of detectors that it is given: ``make(seed)`` has ``fit(S, y)`` and
``score_samples(S)``; one that says ``uses_features`` takes the rows as `X` as well. A whole
ensemble brings its own detectors: ``make(seed, d)``, for rows of d columns, has ``fit(X)`` and
``score_samples(X)``. To add one, add a line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from math import comb, inf
from types import MappingProxyType
from typing import Any

from sklearn.ensemble import IsolationForest

from lpfuse.detectors import SVDD, GMMDetector, KernelPCADetector
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.components import default_fusion
from lpfuse.fusion import (
    BestSingle,
    CosineSimilarity,
    DecisionTemplates,
    DynamicEnsemble,
    ExhaustiveWeights,
    FixedRule,
    GeneticWeights,
    LinearSVMStacker,
    LocalLpFusion,
    LogisticStacker,
    LpFusion,
    SwarmWeights,
    fixed,
)
from lpfuse.iterative import IterativeEnsemble
from research.rivals.pools import bagged_one_class_svms, bootstraps, random_subspaces

Rival = Callable[[int], Any]
Ensemble = Callable[[int, int], Any]

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
    "linear SVM": lambda seed: LinearSVMStacker(),
    "logistic": lambda seed: LogisticStacker(),
    "genetic": lambda seed: GeneticWeights(random_state=seed),
    "swarm": lambda seed: SwarmWeights(random_state=seed),
    "exhaustive": lambda seed: ExhaustiveWeights(),
    "templates": lambda seed: DecisionTemplates(),
    "cosine": lambda seed: CosineSimilarity(),
    "dynamic": lambda seed: DynamicEnsemble(random_state=seed),
})  # fmt: skip

IGNORES_LABELS = frozenset(RULES)  # the same with and without labelled anomalies
NEEDS_LABELS = frozenset({"linear SVM", "logistic"})  # the sum rule without
PACKAGES = MappingProxyType({"genetic": ("pygad", "search")})  # package, and the extra it is in


def at_hand() -> dict[str, Rival]:
    """The rivals whose packages are installed.

    Examples
    --------
    >>> from research.rivals.fusion import RIVALS, at_hand
    >>> set(RIVALS) - set(at_hand()) <= {"genetic"}
    True
    """
    missing = {name for name, (package, _) in PACKAGES.items() if find_spec(package) is None}
    return {name: make for name, make in RIVALS.items() if name not in missing}


def _fused(detectors: Any, fusion: Any, seed: int) -> FusedDetector:
    return FusedDetector(detectors, fusion=fusion, random_state=seed)


def _subspaces(seed: int, d: int) -> FusedDetector:
    members = min(10, comb(d, d // 2))
    pool = random_subspaces(SVDD(gamma="narrow"), d, members, random_state=seed)
    return _fused(pool, FixedRule("max"), seed)


def _bagged_svms(seed: int, d: int) -> FusedDetector:
    return _fused(bagged_one_class_svms(random_state=seed), FixedRule("sum"), seed)


def _dynamic_bootstraps(seed: int, d: int) -> FusedDetector:
    pool = bootstraps(SVDD(gamma="narrow"), random_state=seed)
    return _fused(pool, DynamicEnsemble(random_state=seed), seed)


def _iterative(seed: int, d: int) -> IterativeEnsemble:
    """Four learners that are quick to fit in every round."""
    pool = [
        ("svdd", SVDD(gamma="narrow")),
        ("kpca", KernelPCADetector(gamma="narrow")),
        ("gmm", GMMDetector(score_type="mahalanobis")),
        ("forest", IsolationForest(n_estimators=50)),
    ]
    return IterativeEnsemble(_fused(pool, FixedRule("sum"), seed), random_state=seed)


ENSEMBLES: Mapping[str, Ensemble] = MappingProxyType({
    "subspaces + max": _subspaces,
    "bagged SVMs": _bagged_svms,
    "dynamic bootstraps": _dynamic_bootstraps,
    "iterative": _iterative,
})  # fmt: skip

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
})  # fmt: skip
