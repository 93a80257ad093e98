"""Detectors of lpfuse as methods: the default, and what shows where its points come from."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from lpfuse.ensemble import FusedDetector
from lpfuse.fusion import BestSingle, FixedRule
from research.studies.tables.rivals import RIVALS, Method, Score
from research.studies.tables.splits import Training


def of_detector(make: Callable[..., Any]) -> Method:
    """A method from ``make(random_state=seed)``, whose `fit` takes y: +1, −1, 0 for "unknown"."""

    def learn(training: Training, seed: int) -> Score:
        return make(random_state=seed).fit(training.X, training.y).score_samples

    return Method(learn, "takes", "lpfuse")


def _default(**options: Any) -> Method:
    return of_detector(lambda random_state: FusedDetector(random_state=random_state, **options))


OURS: dict[str, Method] = {
    "lpfuse": _default(),
    "lpfuse, experts blind": _default(experts_see_scores=False),
    "lpfuse, sum": _default(fusion=FixedRule("sum")),
    "lpfuse, picked": _default(fusion=BestSingle()),
}


def method_named(name: str) -> Method:
    """A rival, one of ours, or whatever ``module:function`` makes.

    Examples
    --------
    >>> method_named("lpfuse:FusedDetector").labels, method_named("kNN-5").labels
    ('takes', 'ignores')
    """
    known = {**OURS, **RIVALS}
    if name in known:
        return known[name]
    module, colon, function = name.rpartition("=")[2].partition(":")
    if not colon:
        raise ValueError(
            f"There is no method {name!r}. Known are {'; '.join(known)}; and "
            "[TITLE=]module:function, which is called with random_state and returns a detector."
        )
    return of_detector(getattr(import_module(module), function))


def title(name: str) -> str:
    """What rows call a method: ``TITLE=module:function`` is called TITLE."""
    return name.partition("=")[0]
