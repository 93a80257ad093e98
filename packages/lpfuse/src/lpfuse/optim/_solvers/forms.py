"""Which form of the innermost formulas serves: compiled where it was built, else that of NumPy."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from lpfuse.optim._solvers import systems as numpy_form


def _chosen() -> Any:
    if os.environ.get("LPFUSE_COMPILED") == "0":
        return numpy_form
    try:
        return import_module("lpfuse.optim._solvers._compiled")
    except ImportError:
        return numpy_form


form = _chosen()
