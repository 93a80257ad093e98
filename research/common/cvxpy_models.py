"""The cvxpy models that tests compare with, for rivals to be timed: loaded where they lie.

Their home is ``packages/lpfuse/tests/oracles/cvxpy_models.py``, because the tests of the library
must run without `research`. Loading the file itself needs no setting of the path.
"""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

HOME = Path(__file__).parents[2] / "packages" / "lpfuse" / "tests" / "oracles" / "cvxpy_models.py"

_spec = spec_from_file_location("oracles.cvxpy_models", HOME)
assert _spec is not None
assert _spec.loader is not None
_models = module_from_spec(_spec)
_spec.loader.exec_module(_models)

dual = _models.dual
primal = _models.primal
primal_with_slacks = _models.primal_with_slacks
run = _models.run
solver_seconds = _models.solver_seconds
