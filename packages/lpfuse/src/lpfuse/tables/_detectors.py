"""Detectors by name and fusions by their p, as they are written on a command line."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from inspect import isclass
from math import inf
from pkgutil import iter_modules
from typing import Any

from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lpfuse._checks.arguments import check_p
from lpfuse._checks.messages import did_you_mean, key
from lpfuse._format import quote
from lpfuse.ensemble.components import default_detectors, default_fusion
from lpfuse.fusion.lp import LpFusion

PYOD = "pyod:"
ALIASES = {"iforest": "forest", "isolation-forest": "forest", "random-forest": "random forest"}


def named_detectors(names: Sequence[str], n: int) -> list[tuple[str, Any]]:
    """Detectors of the default pool, and of PyOD, by name.

    Parameters
    ----------
    names : sequence of str
        Such as "svdd", "gp", "kpca", "gmm", "iforest", "lof", "trees", "logistic", "random-forest"
        or "pyod:ECOD".
    n : int
        Rows that they will learn from.

    Returns
    -------
    list of (name, detector)
        Set up as in the default pool, on standardised features.

    Examples
    --------
    >>> [name for name, _ in named_detectors(["gmm", "iforest"], n=1000)]
    ['gmm', 'iforest']
    """
    pool = dict(default_detectors(n, inf))
    return [(name, _detector(name, pool)) for name in names]


def _detector(name: str, pool: dict[str, Any]) -> Any:
    if name.casefold().startswith(PYOD):
        return make_pipeline(StandardScaler(), _of_pyod(name[len(PYOD) :]))
    known = ALIASES.get(name.casefold(), name.casefold())
    if known not in pool:
        choices = [*pool, *ALIASES]
        raise ValueError(
            f"There is no detector {quote(name)}.{did_you_mean(name, choices)} Known are "
            f"{', '.join(choice for choice in choices if ' ' not in choice)}, and those of PyOD as "
            f"{PYOD}NAME."
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
