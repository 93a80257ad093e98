"""Who takes part: a line each. To add one, add a line to `METHODS`, then `make leaderboard`.

A method learns from `Training` and a seed, and returns a function that scores rows, high = normal.
"needs": labels; "ignores": them; "takes": both. One whose package is missing is left out with a
word. Without a line: ``--methods TITLE=module:function``, a function of ``random_state`` that
returns a detector with ``fit(X, y)`` and ``score_samples``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sklearn.covariance import EllipticEnvelope
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity

from lpfuse import FusedDetector
from lpfuse._arrays.operations import Host
from research.studies.running import maker_at
from research.studies.tables.rivals import RIVALS, Learn, Method, Score
from research.studies.tables.splits import Training


def _on_rows(make: Any) -> Learn:
    """A detector of scikit-learn, on the normal rows alone."""
    return lambda training, seed: make(seed).fit(training.rows).score_samples


def _of_pyod(module: str, name: str, *, seeded: bool = False) -> Method:
    """A detector of PyOD as it ships it, on the normal rows alone."""

    def learn(training: Training, seed: int) -> Score:
        made = getattr(import_module(f"pyod.models.{module}"), name)
        fitted = made(**({"random_state": seed} if seeded else {})).fit(training.rows)
        return lambda rows: -fitted.decision_function(rows)

    return Method(learn, "ignores", "pyod")


def _taught(make: Any) -> Method:
    """A detector with the convention of labels of lpfuse: +1, −1, 0."""

    def learn(training: Training, seed: int) -> Score:
        fitted = make(random_state=seed).fit(training.X, training.y)

        def score(rows: Host) -> Host:
            return fitted.score_samples(rows)

        return score

    return Method(learn, "takes", "lpfuse")


METHODS: dict[str, Method] = {
    "lpfuse": _taught(FusedDetector),
    **{name: rival for name, rival in RIVALS.items() if name != "CatBoost, balanced"},
    "COPOD": _of_pyod("copod", "COPOD"),
    "HBOS": _of_pyod("hbos", "HBOS"),
    "INNE": _of_pyod("inne", "INNE", seeded=True),
    "Gaussian mixture": Method(
        _on_rows(lambda seed: GaussianMixture(5, reg_covar=1e-3, random_state=seed)), "ignores"
    ),
    "kernel density": Method(_on_rows(lambda seed: KernelDensity()), "ignores"),
    "robust covariance": Method(
        _on_rows(lambda seed: EllipticEnvelope(random_state=seed)), "ignores"
    ),
}


def method_named(name: str) -> Method:
    """A method of the list, or what ``[TITLE=]module:function`` makes."""
    return METHODS[name] if name in METHODS else _taught(maker_at(name, METHODS))
