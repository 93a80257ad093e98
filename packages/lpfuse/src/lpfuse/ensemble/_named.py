"""Detectors by name, as Python and the command line write them."""

from __future__ import annotations

from collections.abc import Sequence
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

from lpfuse._format import quote
from lpfuse._validation.params import PYOD, canonical_detector_name, did_you_mean, key
from lpfuse.detectors import SVDD, GMMDetector, KernelPCADetector
from lpfuse.ensemble._default_pool import default_detectors
from lpfuse.views import FilledGaps


def named_detectors(names: Sequence[str], n: int) -> list[tuple[str, Any]]:
    """Detectors of lpfuse, set up for the table at hand, and of PyOD, by name.

    Parameters
    ----------
    names : sequence of str
        Those of the default pool, such as "knn-subspaces" (spaces may be hyphens); "svdd", "kpca",
        "gmm", "iforest", "lof", "logistic", "random-forest"; or "pyod:HBOS". All are looked at
        before any is made.
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
    settled = [canonical_detector_name(name) for name in names]
    # Of a few rows first: who names a detector that many rows are too many for shall have it.
    pool = dict(default_detectors(0, inf)) | dict(default_detectors(n, inf))
    pool |= _further_detectors(n, pool["gp"][-1].approximation)
    by_name = {known.replace(" ", "-"): detector for known, detector in pool.items()}
    made = [_of_pyod(name) if name.startswith(PYOD) else by_name[name] for name in settled]
    return list(zip(names, made, strict=True))


def with_named(entries: Any, n: int) -> Any:
    """What a user listed as detectors, with detectors in the place of their names.

    Parameters
    ----------
    entries : sequence
        Names, ``(name, detector)`` and ``(name, detector, columns)``, where a detector may be a
        name, too. Anything else is left as it is.
    n : int
        Rows that they will learn from.

    Examples
    --------
    >>> with_named(["lof", ("near", "knn", [0, 1])], n=1000)[1][::2]
    ('near', [0, 1])
    """
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        return entries
    pairs = [(entry, entry) if isinstance(entry, str) else entry for entry in entries]
    places = [
        place
        for place, pair in enumerate(pairs)
        if isinstance(pair, tuple | list) and len(pair) in (2, 3) and isinstance(pair[1], str)
    ]
    made = named_detectors([pairs[place][1] for place in places], n) if places else []
    for place, (_, detector) in zip(places, made, strict=True):
        name, _, *columns = pairs[place]
        pairs[place] = (name, detector, *columns)
    return pairs


def _further_detectors(n: int, approximation: str | None) -> dict[str, Any]:
    """Detectors that are not in the default pool, in the settings of ``docs/adr/0006``."""
    kernel: dict[str, Any] = {"gamma": "narrow", "approximation": approximation}
    further = {
        "svdd": SVDD(**kernel),
        "kpca": KernelPCADetector(n_components=0.95, **kernel),
        "gmm": GMMDetector(),
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


def _of_pyod(name: str) -> Any:
    """``pyod:NAME`` in its default settings, on standardised features."""
    return _filled(_found_in_pyod(name[len(PYOD) :]))


def _found_in_pyod(name: str) -> Any:
    """A detector of PyOD; AutoEncoder is in ``auto_encoder``, and so on."""
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
