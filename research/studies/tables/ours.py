"""Detectors of lpfuse as methods: the default, and what shows where its points come from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from lpfuse._arrays.operations import Host
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.components import Combination, default_detectors
from lpfuse.fusion import BestSingle, FixedRule, LogisticStacker
from research.studies.running import maker_at
from research.studies.tables.rivals import RIVALS, Method, Score
from research.studies.tables.splits import LABELS, MOST_TRAINING, Training

CONTROLS = (", sum", ", picked", ", stacked")  # the same detectors with the same labels


def of_detector(make: Callable[..., Any]) -> Method:
    """A method from ``make(random_state=seed)``, whose `fit` takes y: +1, −1, 0 for "unknown".

    A `FusedDetector` answers for its controls as well, from the same fit: see `controls`.
    """

    def learn(training: Training, seed: int) -> Score:
        fitted = make(random_state=seed).fit(training.X, training.y)
        return partial(controls, fitted) if hasattr(fitted, "with_fusion") else fitted.score_samples

    return Method(learn, "takes", "lpfuse")


def controls(fused: FusedDetector, rows: Host) -> dict[str, Host]:
    """Fused scores, and those of what a fused detector must not fall below, by suffix.

    The sum of the same pool, the member that the same labels pick (experts included), a stacker on
    the same scores where there are labels, and each member alone.
    """
    raw = fused.detector_scores(rows)
    found = {"": fused.score_samples(rows)}
    rules = {", sum": FixedRule("sum"), ", picked": BestSingle()}
    known = fused.out_of_fold_.known
    if known is not None and (known < 0).any():
        rules[", stacked"] = LogisticStacker()
    for suffix, rule in rules.items():
        other = fused.with_fusion(rule)
        found[suffix] = Combination(other.scaler_, other.fusion_).score_samples(raw)
    alone = zip(fused.detector_names_, raw.T, strict=True)
    return found | {f", {name} alone": scores for name, scores in alone}


def is_control(name: str) -> bool:
    """Whether rows of this name come from the fit of another method."""
    return name.endswith((*CONTROLS, " alone"))


def control_names(name: str) -> list[str]:
    """What a fused detector is held against: sum, pick, stacker, each supervised expert alone."""
    # Some experts join with many labels only, so as many as there ever are.
    taught = dict(default_detectors(MOST_TRAINING, max(LABELS)))
    untaught = dict(default_detectors(MOST_TRAINING, 0))
    experts = [member for member in taught if member not in untaught]
    return [name + suffix for suffix in (*CONTROLS, *(f", {expert} alone" for expert in experts))]


OURS: dict[str, Method] = {
    "lpfuse": of_detector(lambda random_state: FusedDetector(random_state=random_state)),
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
    return of_detector(maker_at(name, known))
