"""``lpfuse reproduce uci``: the paper's table of ten data sets, ours beside it, and all rivals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from research.common.comparison import Figures, Methods, measure_methods
from research.common.drawing import figure_line
from research.common.options import Options
from research.common.protocol import FittedMethod, Method, TrainingData, threshold
from research.common.store import write_whole
from research.paper.learners import LEARNERS
from research.paper.methods import best_single, fusion, lp, single
from research.paper.ours import OUR_PRESET, all_known, defaults, validated
from research.paper.uci_page import draw, uci_page
from research.rivals.fusion import ENSEMBLES, NEEDS_LABELS, RIVALS, RULES, at_hand

SEARCHES = ("genetic", "swarm", "exhaustive", "templates", "cosine", "dynamic")


def ensemble(name: str, make: Callable[[int, int], Any]) -> Method:
    """A whole ensemble, ``make(seed, d)``, that learns from the normal rows by itself."""

    def method(training: TrainingData) -> FittedMethod:
        if name not in training.cache:  # one fit serves both settings
            made = make(training.seed, training.normals.shape[1])
            training.cache[name] = made.fit(training.normals)
        fitted = training.cache[name]
        offset = threshold(training, fitted.score_samples(training.validation))
        return FittedMethod(fitted.score_samples, offset)

    return method


METHODS: Methods = {
    **{learner: single(learner) for learner in LEARNERS},
    "best single": best_single(),
    **{rule: fusion(RIVALS[rule]) for rule in RULES},
    "ℓ2": lp([2.0]),
    "ℓ∞": lp([np.inf]),
    "ℓp": lp(),
    "ℓp, least squares": lp(loss="least_squares"),
    **{name: fusion(make, every=4) for name, make in at_hand().items() if name in SEARCHES},
    **{name: ensemble(name, make) for name, make in ENSEMBLES.items()},
    "lpfuse, defaults": defaults,
    "lpfuse, local": fusion(RIVALS["local lp"], OUR_PRESET, every=4),
    "lpfuse, validated": validated,
}
NON_PURE: Methods = {
    **{name: fusion(RIVALS[name]) for name in sorted(NEEDS_LABELS)},
    "lpfuse, all known": all_known,
}


def run(options: Options, methods: Methods = METHODS, non_pure: Methods = NON_PURE) -> str:
    """Measure what is missing, write results, page and figure, and return the page.

    Parameters
    ----------
    options : Options
        Data sets, splits, jobs and where to store.
    methods, non_pure : mapping
        Name → method; `non_pure` are those that need anomalies to learn from. Add your own with
        ``METHODS | {"mine": fusion(lambda seed: MyFusion())}``.
    """
    figures = Figures(measure_methods("uci", methods, options, non_pure), options.quick)
    drawn = figure_line(options.page_folder / "uci.png", lambda path: draw(figures, path))
    text = uci_page(figures, drawn)
    write_whole(options.page_folder / "uci.md", text)
    return text
