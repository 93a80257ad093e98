"""The rivals, one a file: every file here whose name does not start with ``_`` is one."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

from ._interface import Answer, Rival, tightening

PACKAGES = (
    "lpfuse", "numpy", "scipy", "scikit-learn", "cvxpy", "clarabel", "scs", "ecos", "highspy",
    "piqp", "qoco", "rehline", "skglm", "numba",
)  # fmt: skip
OURS = "lpfuse_interior_point"

__all__ = [
    "OURS", "PACKAGES", "Answer", "Rival", "load", "names", "tightening", "title",
]  # fmt: skip


def names() -> list[str]:
    """Every rival's file name, ours first."""
    found = [m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")]
    return sorted(found, key=lambda name: (name != OURS, name))


def load(name: str) -> Rival:
    """The rival in that file. ``ImportError`` when a package it needs is not installed."""
    rival: Rival = importlib.import_module(f"{__name__}.{name}")
    return rival


def title(name: str) -> str:
    """What a rival calls itself, read from its file: its packages need not be installed.

    Examples
    --------
    >>> title("liblinear"), title("a rival whose file is gone")
    ('LIBLINEAR (p = 2)', 'a rival whose file is gone')
    """
    file = Path(__file__).with_name(f"{name}.py")
    if not file.exists():
        return name
    for line in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "name":
            return str(ast.literal_eval(line.value))
    return name
