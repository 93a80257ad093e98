"""Stored records → Markdown: mean AUC and rank of each option, paired comparisons over sets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from research.common import ranks as ranking
from research.common.store import read_rows
from research.common.tables import markdown
from research.studies.running import paired

from .study import CLIPS, GRID, LABELS, WEIGHTINGS

REFERENCES = ("sum", "picked", "hindsight")


class Option(NamedTuple):
    """What a user would set: scaler, weighting (`Weighting.key`, or a reference's name), p."""

    clip: bool | str
    weighting: str
    p: str | None = None


Cells = dict[int, dict[Option, dict[str, float]]]  # labels → option → set → AUC, mean over seeds


def read_cells(path: Path) -> Cells:
    values: Any = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for record in read_rows(path):
        at_labels = values[record["labels"]]
        for name in REFERENCES:
            if record[name] is not None:
                at_labels[Option(record["clip"], name)][record["set"]].append(record[name])
        for weighting, aucs in record["lp"].items():
            for p, auc in zip(GRID, aucs, strict=True):
                at_labels[Option(record["clip"], weighting, p)][record["set"]].append(auc)
    return {
        labels: {
            option: {name: float(np.mean(aucs)) for name, aucs in sets.items()}
            for option, sets in options.items()
        }
        for labels, options in values.items()
    }


def means_table(cells: Cells) -> str:
    """Mean AUC (mean rank among all options of that label count) by label count × option."""
    rows = [["labels (sets)", "clip", "weighting", *(f"p = {p}" for p in GRID), *REFERENCES]]
    for labels in LABELS:
        ranks = mean_ranks(cells[labels])
        means = {option: np.mean(list(aucs.values())) for option, aucs in cells[labels].items()}
        shown = {
            option: f"{mean:.1f}" + (f" ({ranks[option]:.0f})" if option in ranks else "")
            for option, mean in means.items()
        }
        n_sets = len(next(iter(cells[labels].values())))
        for clip in CLIPS:
            for weighting in (weighting.key for weighting in WEIGHTINGS):
                options = [Option(clip, weighting, p) for p in GRID]
                if options[0] not in means:
                    continue
                options += [Option(clip, name) for name in REFERENCES]
                cells_shown = [shown.get(option, "–") for option in options]
                rows.append([f"{labels} ({n_sets})", str(clip), weighting, *cells_shown])
    return markdown(rows, numbers=False)


def mean_ranks(options: dict[Option, dict[str, float]]) -> dict[Option, float]:
    """1 = best; ties share their mean rank. The hindsight is no option: it is left unranked."""
    ranked = [option for option in options if option.weighting != "hindsight"]
    names = list(options[ranked[0]])
    aucs = np.array([[options[option][name] for option in ranked] for name in names])
    ranks = ranking.mean_ranks(aucs)
    return dict(zip(ranked, ranks.tolist(), strict=True))


def paired_table(cells: Cells, chosen: Option, rivals: Iterable[Option]) -> str:
    """The chosen option against others, set by set: won, lost, extremes, Wilcoxon's p-value."""
    rows = [["labels", "against", "ours", "theirs", "won : lost", "worst, best set", "Wilcoxon"]]
    for labels in LABELS:
        for rival in rivals:
            if rival not in cells[labels] or chosen not in cells[labels]:
                continue
            found = paired(cells[labels][chosen], cells[labels][rival])
            means, outcome = found[:2], (found.won_lost, found.extremes, found.p_value)
            rows.append([str(labels), describe(rival), *means, *outcome])
    return markdown(rows, numbers=False)


def describe(option: Option) -> str:
    p = f", p = {option.p}" if option.p else ""
    return f"{option.weighting}{p}, clip={option.clip!r}"
