"""``lpfuse reproduce weights``: the paper's figure of weights for four p, and the whole path."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from lpfuse.optim import Problem, solve_path
from lpfuse.scaling import TwoSidedMinMax
from research.common.comparison import Figures
from research.common.drawing import figure_line
from research.common.experiment import measure_splits
from research.common.options import Options
from research.common.protocol import SETTINGS, TrainingData, area
from research.common.splits import Split
from research.common.store import Row, write_whole
from research.paper.methods import PAPER_PRESET, Preset, lp, single
from research.paper.weights_page import ENDS, draw, figures, fits, weights_page

__all__ = ["figures", "measured", "paper_problem", "run", "split_rows"]

STEPS = 40  # of the path, evenly spaced in 1/p
PATH = (*(STEPS / k for k in range(STEPS, 0, -1)), np.inf)


def paper_problem(training: TrainingData, preset: Preset = PAPER_PRESET) -> tuple[Problem, float]:
    """What the paper's weights minimise on a split, and the ρ that validation chose for it.

    In-sample scores of the four learners, free signs, rows of equal cost. The ball is that of
    p = 2; `Problem.with_ball` gives the others.
    """
    rho = lp(preset=preset)(training).choices["rho"]
    tables = preset.tables_of(training)
    scaler = TwoSidedMinMax(rho, **preset.scaler).fit(tables.normals)
    S = scaler.transform(np.concatenate([tables.normals, tables.labelled]))
    y = np.repeat([1.0, -1.0], [len(tables.normals), len(tables.labelled)])
    return Problem(S, y), rho


def run(options: Options) -> str:
    """Measure what is missing, write results, page and figure, and return the page."""
    rows = measured(options)
    found = fits(rows)
    shown = [fit for fit in found if (fit.set, fit.seed) == (found[0].set, found[0].seed)]
    picture = figure_line(
        options.page_folder / "weights.png",
        partial(draw, shown),
        "Weights of the learners: bars for four p of the paper, lines over all p",
    )
    text = weights_page(rows, shown, picture, Figures(rows, options.quick).scope)
    write_whole(options.page_folder / "weights.md", text)
    return text


def measured(options: Options) -> list[Row]:
    """The rows, for `figures`: measured where they are not stored."""
    return measure_splits("weights", split_rows, options, weights_at=ENDS, path=PATH)


def split_rows(parts: Split) -> list[Row]:
    """Weights with their certified gaps, and the AUC of each learner; of seed 0 the whole path."""
    return [
        {"setting": setting, **row}
        for setting in SETTINGS
        for row in (
            *_weights(parts, parts.training(setting)),
            *_areas(parts, parts.training(setting)),
        )
    ]


def _weights(parts: Split, training: TrainingData) -> Iterator[Row]:
    problem, rho = paper_problem(training)
    ps = sorted({*ENDS, *(PATH if parts.seed == 0 else ())})
    for p, solution in zip(ps, solve_path(problem, ps), strict=True):
        for name, w in zip(PAPER_PRESET.tables_of(training).names, solution.weights, strict=True):
            yield {"method": name, "metric": "weight", "value": w, "p": p}
        gap = solution.certificate.relative_gap
        yield {"method": "ℓp", "metric": "relative_gap", "value": gap, "p": p, "rho": rho}


def _areas(parts: Split, training: TrainingData) -> Iterator[Row]:
    tables = PAPER_PRESET.tables_of(training)
    validation = 100 * area(training.labels, tables.validation)
    for name, known in zip(tables.names, validation, strict=True):
        yield {"method": name, "metric": "validation_auc", "value": known}
        unseen = parts.judge(single(name)(training))["auc"]
        yield {"method": name, "metric": "auc", "value": unseen}
