"""Which form of the innermost formulas serves: compiled where it was built, else that of NumPy."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from lpfuse.optim._solvers import surface as surface_of_numpy
from lpfuse.optim._solvers import systems as systems_of_numpy


def _chosen(compiled: str, of_numpy: Any) -> Any:
    if os.environ.get("LPFUSE_COMPILED") == "0":
        return of_numpy
    try:
        return import_module(f"lpfuse.optim._solvers.{compiled}")
    except ImportError:
        return of_numpy


form = _chosen("_compiled", systems_of_numpy)
surface = _chosen("_surface", surface_of_numpy)
