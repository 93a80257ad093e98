"""Which form of the innermost formulas serves: compiled where it was built, else that of NumPy."""

from __future__ import annotations

from typing import Any

from lpfuse._compiled import compiled
from lpfuse.optim._solvers import systems as numpy_form

form: Any = compiled("lpfuse.optim._solvers._compiled") or numpy_form
