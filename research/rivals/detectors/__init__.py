"""The rivals: a folder for each race, a file for each rival.

A rival is a module with

    name                        for the table head
    fit(X, task)                learn; the model, with all that scoring and the threshold need
    score(model, X)             scores in the rival's own convention
    as_ours(model, scores)      the same in lpfuse's: high = normal, same units (not timed)

and, where the task has balls to find, ``balls(model)``: those balls, for the judge.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

OURS = {"svdd": "lpfuse_svdd", "kpca": "lpfuse_kpca", "grid": "lpfuse_together"}


def names(race: str) -> list[str]:
    """Every rival's file name, ours first."""
    folder = importlib.import_module(f"{__name__}.{race}")
    found = [m.name for m in pkgutil.iter_modules(folder.__path__) if not m.name.startswith("_")]
    return sorted(found, key=lambda name: (name != OURS[race], name))


def load(race: str, name: str) -> ModuleType:
    """The rival in that file. ``ImportError`` when a package it needs is not installed."""
    return importlib.import_module(f"{__name__}.{race}.{name}")


def label(race: str, name: str) -> str:
    """A rival's name for a table; its file name where its packages are not installed."""
    try:
        return str(load(race, name).name)
    except ImportError:
        return name
