"""What must be reached, and whether it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from research.common.store import Record
from research.common.tables import Goal
from research.studies.alarms.cells import (
    HARM,
    MARGINS,
    SURE,
    TEST_LEVEL,
    CellFigures,
    mean_of,
    promised,
    too_small,
)
from research.studies.alarms.changes import paired
from research.studies.alarms.measures import RATES
from research.studies.alarms.sources import TABLES, Cell

MOST_FALSE_DISCOVERIES = 11.0  # per cent, where 10 are asked for
MOST_LOST = {"auc": 0.5, "hits_at_same": 1.0}  # points against the version before
SPREAD_SLACK = 1.1  # wider than the bound by so much may be chance: percentiles of 60 repetitions


def goals_of(cells: Mapping[Cell, CellFigures], rows: Iterable[Record]) -> list[Goal]:
    """All goals; what was not measured yet says so."""
    judged = [figures for cell, figures in cells.items() if cell.family != HARM]
    return [
        *(_mean_goal(judged, rate) for rate in RATES),
        _spread_goal(judged),
        _pvalue_goal(judged),
        _discovery_goal(judged),
        *_detection_goals(list(rows)),
    ]


def _mean_goal(judged: Sequence[CellFigures], rate: float) -> Goal:
    name = f"mean false alarms, {100 * rate:g} % asked, in every cell that n allows"
    target = f"within {MARGINS[rate]:g} points; discrete or repeated rows: or below"
    able = [f for f in judged if promised(rate, f.cell.n)]
    if not able:
        return Goal(name, target)
    off = [f for f in able if f.breaks(rate)]
    surely = [f for f in off if f.breaks(rate, SURE)]
    told = f"{len(able) - len(off)} of {len(able)} cells"
    if off:
        worst = max(off, key=lambda f: abs(mean_of(f.alarms(rate)).value - 100 * rate))
        told += (
            f"; outside by more than {SURE:g} standard errors: {len(surely)}; "
            f"worst {worst.cell.key} {mean_of(worst.alarms(rate))}"
        )
    return Goal(name, target, told, not surely)


def _spread_goal(judged: Sequence[CellFigures]) -> Goal:
    name = "spread over tables, 5–95 % of them at 5 %"
    target = f"no wider than {SPREAD_SLACK:g} of its bound"
    ratios = {
        figures.cell.key: _width(figures.spread(0.05)) / _width(figures.bound(0.05))
        for figures in judged
        if figures.cell.family == TABLES
    }
    if not ratios:
        return Goal(name, target)
    worst = max(ratios, key=ratios.__getitem__)
    met = ratios[worst] <= SPREAD_SLACK
    return Goal(name, target, f"at most {ratios[worst]:.2f} of it ({worst})", met)


def _width(ends: tuple[float, float]) -> float:
    return ends[1] - ends[0]


def _pvalue_goal(judged: Sequence[CellFigures]) -> Goal:
    name, target = "p-values of fresh normal rows", f"uniform or larger, level {TEST_LEVEL:g}"
    if not judged:
        return Goal(name, target)
    rejected = too_small(judged)
    return Goal(name, target, f"refuted in {len(rejected)} of {len(judged)} cells", not rejected)


def _discovery_goal(judged: Sequence[CellFigures]) -> Goal:
    name = "mean false discoveries at 10 %, either kind of anomalies"
    target = f"≤ {MOST_FALSE_DISCOVERIES:g} %"
    if not judged:
        return Goal(name, target)
    found = {f.cell.key: [mean_of(f.of("false_discoveries", a)) for a in (0, 1)] for f in judged}
    means = {key: max(pair, key=lambda mean: mean.value) for key, pair in found.items()}
    over = [key for key, mean in means.items() if mean.value > MOST_FALSE_DISCOVERIES]
    surely = [
        key for key in over if means[key].value > MOST_FALSE_DISCOVERIES + SURE * means[key].error
    ]
    worst = max(means, key=lambda key: means[key].value)
    told = (
        f"{len(means) - len(over)} of {len(means)} cells; above by more than {SURE:g} standard "
        f"errors: {len(surely)}; worst {worst} {means[worst]}"
    )
    return Goal(name, target, told, not surely)


def _detection_goals(rows: list[Record]) -> list[Goal]:
    """Against the version before, over the repetitions that both were measured on."""
    titles = {"auc": "AUC", "hits_at_same": "hits at the same false alarms"}
    goals = []
    for field, title in titles.items():
        name, target = f"{title}, against before", f"loses at most {MOST_LOST[field]:g} points"
        pairs = paired(rows, field)
        if not pairs:
            goals.append(Goal(name, target))
            continue
        gains = np.concatenate([now - before for before, now in pairs.values()])
        mean = mean_of(gains)
        told = f"{mean.value:+.2f} ± {mean.error:.2f} over {len(gains)} repetitions"
        goals.append(Goal(name, target, told, bool(mean.value >= -MOST_LOST[field])))
    return goals
