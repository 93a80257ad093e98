"""``lpfuse reproduce uci``: the paper's table of ten data sets, ours beside it, and all rivals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from research.common.comparison import Figures, Methods, measure_methods
from research.common.drawing import figure_line
from research.common.options import Options
from research.common.protocol import FittedMethod, Method, TrainingData, area, threshold
from research.common.store import write_whole
from research.paper.learners import LEARNERS
from research.paper.methods import (
    OUT_OF_FOLD_PRESET,
    PAPER_PRESET,
    SIGNED_OUT_OF_FOLD_PRESET,
    SIGNED_PRESET,
    best_single,
    fusion,
    lp,
    single,
)
from research.paper.ours import (
    OUR_PRESET,
    SUPERVISED,
    all_known,
    defaults,
    supervised,
    validated,
    validated_sum,
)
from research.paper.uci_page import (
    OUR_PICK,
    OUR_STACKER,
    OUR_SUM,
    VALIDATED_SUM,
    draw,
    out_of_fold,
    uci_page,
)
from research.rivals.fusion import ENSEMBLES, GRIDS, NEEDS_LABELS, RIVALS, RULES, TAUGHT, is_at_hand
from research.rivals.related import ScoreProduct

SEARCHES = (
    "genetic", "genetic selection", "swarm", "exhaustive", "templates", "cosine", "dynamic",
)  # fmt: skip
STACKERS = sorted(NEEDS_LABELS)
SIGNED = {"cosine"}  # rules that read where 0 lies


def ensemble(name: str, make: Callable[..., Any]) -> Method:
    """A whole ensemble, ``make(seed, d, **setting)``, with the setting that validation prefers.

    Those of `TAUGHT` learn from labelled anomalies, too, where there are any.
    """
    settings = GRIDS.get(name, ({},))

    def method(training: TrainingData) -> FittedMethod:
        labelled = training.labelled if name in TAUGHT else training.labelled[:0]
        key = f"{name}, {len(labelled)} labelled"
        if key not in training.cache:  # one fit serves both settings where no anomaly teaches
            X = np.concatenate([training.normals, labelled])
            y = np.repeat([1, -1], [len(training.normals), len(labelled)])
            training.cache[key] = [
                make(training.seed, X.shape[1], **setting).fit(X, y if len(labelled) else None)
                for setting in settings
            ]
        scores = [fitted.score_samples(training.validation) for fitted in training.cache[key]]
        best = int(np.argmax(area(training.labels, np.column_stack(scores))))
        fitted, offset = training.cache[key][best], threshold(training, scores[best])
        return FittedMethod(fitted.score_samples, offset, settings[best])

    return method


def at_its_best(name: str, *, out_of_fold: bool) -> Method:
    """A rival with every ρ and every setting of its grid, on the scores that suit it."""
    presets = {
        (False, False): PAPER_PRESET,
        (False, True): OUT_OF_FOLD_PRESET,
        (True, False): SIGNED_PRESET,
        (True, True): SIGNED_OUT_OF_FOLD_PRESET,
    }
    return fusion(RIVALS[name], presets[name in SIGNED, out_of_fold], GRIDS.get(name, ({},)))


def _learnt(names: Iterable[str]) -> Methods:
    """Rivals as published, on in-sample scores, and at their best, on scores out of fold."""
    names = [name for name in names if is_at_hand(name)]
    return {
        **{name: at_its_best(name, out_of_fold=False) for name in names},
        **{out_of_fold(name): at_its_best(name, out_of_fold=True) for name in names},
    }


METHODS: Methods = {
    **{learner: single(learner) for learner in LEARNERS},
    "best single": best_single(),
    **{rule: fusion(RIVALS[rule]) for rule in RULES},
    "product of scores": fusion(
        lambda seed, floor: ScoreProduct(floor),
        settings=[{"floor": floor} for floor in (0.0, 1e-3, 1e-2, 0.1)],
    ),
    "ℓ2": lp([2.0]),
    "ℓ∞": lp([np.inf]),
    "ℓp": lp(),
    out_of_fold("ℓp"): lp(preset=OUT_OF_FOLD_PRESET),
    "ℓp, least squares": lp(loss="least_squares"),
    **_learnt(SEARCHES),
    **{name: ensemble(name, make) for name, make in ENSEMBLES.items() if is_at_hand(name)},
    OUR_SUM: fusion(RIVALS["sum"], OUR_PRESET),
    OUR_PICK: best_single(OUR_PRESET),
    "lpfuse, defaults": defaults,
    "lpfuse, local": fusion(RIVALS["local lp"], OUR_PRESET),
    VALIDATED_SUM: validated_sum,
    "lpfuse, validated": validated,
}
NON_PURE: Methods = {
    **_learnt(STACKERS),
    **{name: supervised(classifier) for name, classifier in SUPERVISED.items()},
    OUR_STACKER: fusion(RIVALS["logistic"], OUR_PRESET, GRIDS["logistic"]),
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
    drawn = figure_line(
        options.page_folder / "uci.png",
        lambda path: draw(figures, path),
        "Mean AUC of every method with its interval over sets, and what the paper prints",
    )
    text = uci_page(figures, drawn)
    write_whole(options.page_folder / "uci.md", text)
    return text
