"""Detectors by name and fusions by their p, as they are written on a command line."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from inspect import isclass
from math import inf
from pkgutil import iter_modules
from typing import Any

from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from lpfuse._checks.arguments import check_p
from lpfuse._checks.messages import did_you_mean, key
from lpfuse._format import quote
from lpfuse.detectors import SVDD, GMMDetector, KernelPCADetector
from lpfuse.ensemble.components import default_detectors, default_fusion
from lpfuse.fusion.lp import LpFusion
from lpfuse.views import FilledGaps

PYOD = "pyod:"
ALIASES = {"iforest": "forest", "isolation-forest": "forest"}


def named_detectors(names: Sequence[str], n: int) -> list[tuple[str, Any]]:
    """Detectors of lpfuse, set up for the table at hand, and of PyOD, by name.

    Parameters
    ----------
    names : sequence of str
        Those of the default pool, such as "knn-subspaces" (spaces may be hyphens); "svdd", "kpca",
        "gmm", "iforest", "lof", "logistic", "random-forest"; or "pyod:HBOS".
    n : int
        Rows that they will learn from.

    Returns
    -------
    list of (name, detector)
        Set up as in the default pool; those that are not in it are on standardised features.

    Examples
    --------
    >>> [name for name, _ in named_detectors(["gmm", "iforest"], n=1000)]
    ['gmm', 'iforest']
    """
    # Of a few rows first: who names a detector that many rows are too many for shall have it.
    pool = dict(default_detectors(0, inf)) | dict(default_detectors(n, inf))
    pool |= _further_detectors(n, pool["gp"][-1].approximation)
    by_name = {known.replace(" ", "-"): detector for known, detector in pool.items()}
    return [(name, _detector(name, by_name)) for name in names]


def _further_detectors(n: int, approximation: str | None) -> dict[str, Any]:
    """Detectors that are not in the default pool, in the settings of ``docs/adr/0006``."""
    kernel: dict[str, Any] = {"gamma": "narrow", "approximation": approximation}
    further = {
        "svdd": SVDD(**kernel),
        "kpca": KernelPCADetector(n_components=0.95, **kernel),
        "gmm": GMMDetector(score_type="log_likelihood"),
        "forest": IsolationForest(),
        "lof": LocalOutlierFactor(n_neighbors=min(50, max(1, n // 2)), novelty=True),
        "logistic": LogisticRegression(class_weight="balanced", C=0.1, max_iter=500),
        "random forest": RandomForestClassifier(
            class_weight="balanced_subsample", min_samples_leaf=2
        ),
    }
    return {name: _filled(made) for name, made in further.items()}


def _filled(detector: Any) -> Pipeline:
    """On standardised features, without gaps: rows with a missing cell are judged like others."""
    return make_pipeline(FilledGaps(), StandardScaler(), detector)


def _detector(name: str, pool: dict[str, Any]) -> Any:
    if name.casefold().startswith(PYOD):
        return _filled(_of_pyod(name[len(PYOD) :]))
    known = name.casefold().replace(" ", "-")
    known = ALIASES.get(known, known)
    if known not in pool:
        choices = [*pool, *ALIASES]
        raise ValueError(
            f"There is no detector {quote(name)}.{did_you_mean(name, choices)} Known are "
            f"{', '.join(choices)}, and those of PyOD as {PYOD}NAME."
        )
    return pool[known]


def _of_pyod(name: str) -> Any:
    """A detector of PyOD in its default settings; AutoEncoder is in ``auto_encoder``, and so on."""
    try:
        folder = import_module("pyod.models").__path__
    except ImportError as error:
        raise ImportError(f'{PYOD}{name} needs PyOD: pip install "lpfuse[pyod]"') from error
    modules = {key(module.name): module.name for module in iter_modules(folder)}
    if key(name) not in modules:
        known = did_you_mean(name, modules.values())
        raise ValueError(f"PyOD has no detector {quote(name)}.{known} Look for it in PyOD's list.")
    try:
        module = import_module(f"pyod.models.{modules[key(name)]}")
        for found in filter(isclass, vars(module).values()):
            if key(found.__name__) == key(name):
                return found()
    except ImportError as error:
        raise ValueError(f"{PYOD}{name} needs a package that is not there: {error}.") from error
    raise ValueError(f"PyOD has no detector {quote(name)}: {module.__name__} holds none.")


def fusion_with(p: float | str) -> LpFusion | None:
    """The default fusion with another p; None where it shall be its own."""
    if p == "auto":
        return None
    with suppress(ValueError):
        p = float(p)
    return default_fusion().set_params(p=check_p(p))
