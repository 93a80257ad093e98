"""Weights learnt in every way: losses, p, and two presets. `lp_effect` and `loss` read it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from lpfuse._format import name_of_p
from research.common.comparison import Figures, measure_methods
from research.common.options import Options
from research.common.protocol import PAPER, QUICK, Method
from research.paper.methods import PAPER_PRESET, lp
from research.paper.ours import OUR_PRESET

PRESETS = {preset.name: preset for preset in (PAPER_PRESET, OUR_PRESET)}
LOSSES = ("hinge", "least_squares")
PRESET_NOTE = """*paper*: the four learners of the paper with settings chosen on validation,
    in-sample scores in [0, 1], free signs, no balance of the classes. *ours*: the detectors and
    weights of `FusedDetector()`, but for p and ρ: out-of-fold scores, signed scale, w ≥ 0, balanced
    classes, an imaginary anomaly, and experts where anomalies teach."""


def method_name(preset: str, loss: str, p: float | None) -> str:
    """The name that rows have; p = None: chosen on validation."""
    return f"{preset}, {loss}, p {'chosen' if p is None else f'= {name_of_p(p)}'}"


def grid(options: Options) -> list[float]:
    """Every p that is measured by itself."""
    return sorted({*(QUICK if options.quick else PAPER).ps, 2.0, np.inf})


def ablation(options: Options) -> Figures:
    """The figures, measured where they are missing."""
    return Figures(measure_methods("ablation", dict(every_method(options)), options), options.quick)


def every_method(options: Options) -> Iterator[tuple[str, Method]]:
    for preset, loss in product(PRESETS.values(), LOSSES):
        for p in (None, *grid(options)):
            method = lp(None if p is None else [p], loss, preset)
            yield method_name(preset.name, loss, p), method
