"""Who is timed as rows get more: a function each, from rows to a fitted method that scores others.

To add one, add a line to `METHODS`; one whose package is missing is left out, and the page says so.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from lpfuse import FusedDetector
from research.studies.tables.rivals import RIVALS
from research.studies.tables.splits import Training

from .data import Matrix
from .members import default_members

Score = Callable[[Matrix], Any]
LABELS = 20  # for those that take labels


class Method(NamedTuple):
    """How it learns, how many labels it is given, and which package it needs."""

    learn: Callable[[Training, int], Score]
    labels: int = LABELS
    package: str = "lpfuse"


def _fused(training: Training, seed: int) -> Score:
    return FusedDetector(random_state=seed).fit(training.X, training.y).predict


def _plain_loop(training: Training, seed: int) -> Score:
    """The default pool, each member fitted once, raw scores averaged: no folds, no calibration."""
    fitted = [member.fit() for member in default_members(training, seed).values()]
    return lambda X: np.mean([member.score_samples(X) for member in fitted], axis=0)


def _suod(training: Training, seed: int) -> Score:
    """SUOD with the pool that PyOD gives it; what it prints, although asked not to, is dropped."""
    from pyod.models.suod import SUOD

    fitted = _silently(SUOD(n_jobs=1, verbose=False).fit, training.rows)
    return lambda X: _silently(fitted.decision_function, X)


def _silently(action: Callable[..., Any], *arguments: Any) -> Any:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return action(*arguments)


OURS, OURS_UNLABELLED, LOOP = "lpfuse", "lpfuse, no labels", "plain loop"
METHODS: dict[str, Method] = {
    OURS: Method(_fused),
    OURS_UNLABELLED: Method(_fused, labels=0),
    LOOP: Method(_plain_loop),
    "XGBOD": Method(RIVALS["XGBOD"].learn, package="xgboost"),  # as on the page of tables
    "SUOD": Method(_suod, labels=0, package="suod"),
}


def missing_methods() -> dict[str, str]:
    """Those whose package cannot be imported, and what it said."""
    missing = {}
    for name, method in METHODS.items():
        try:
            import_module(method.package)
        except ImportError as error:
            missing[name] = str(error)
    return missing
