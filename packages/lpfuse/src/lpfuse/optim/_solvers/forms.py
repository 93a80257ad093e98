"""Which form of the innermost formulas serves: compiled where it was built, else that of NumPy."""

from __future__ import annotations

from typing import Any

from lpfuse._compiled import compiled
from lpfuse.optim._solvers import surface as surface_of_numpy
from lpfuse.optim._solvers import systems as systems_of_numpy

systems: Any = compiled("lpfuse.optim._solvers._compiled") or systems_of_numpy
surface: Any = compiled("lpfuse.optim._solvers._surface") or surface_of_numpy
