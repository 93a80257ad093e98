"""The rivals, one a file: every file here whose name does not start with ``_`` is one."""

from __future__ import annotations

import importlib
import pkgutil

from ._interface import Answer, Rival, tightening

PACKAGES = (
    "lpfuse", "numpy", "scipy", "scikit-learn", "cvxpy", "clarabel", "scs", "ecos", "highspy",
    "piqp", "qoco", "rehline", "skglm", "numba",
)  # fmt: skip
OURS = "lpfuse_interior_point"

__all__ = ["OURS", "PACKAGES", "Answer", "Rival", "load", "names", "tightening"]


def names() -> list[str]:
    """Every rival's file name, ours first."""
    found = [m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")]
    return sorted(found, key=lambda name: (name != OURS, name))


def load(name: str) -> Rival:
    """The rival in that file. ``ImportError`` when a package it needs is not installed."""
    rival: Rival = importlib.import_module(f"{__name__}.{name}")
    return rival
