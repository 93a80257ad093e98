"""Stored records → Markdown: mean AUC and rank of each option, paired comparisons over sets."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata, wilcoxon

from .study import CLIPS, GRID, LABELS, WEIGHTINGS, Record

REFERENCES = ("sum", "picked", "hindsight")


class Option(NamedTuple):
    """What a user would set: scaler, weighting (`Weighting.key`, or a reference's name), p."""

    clip: bool | str
    weighting: str
    p: str | None = None


Cells = dict[int, dict[Option, dict[str, float]]]  # labels → option → set → AUC, mean over seeds


def read_cells(path: Path) -> Cells:
    values: Any = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for record in _records(path):
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


def _records(path: Path) -> Iterable[Record]:
    lines = map(json.loads, path.read_text().splitlines())
    return (line for line in lines if "set" in line)


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
    return markdown(rows)


def mean_ranks(options: dict[Option, dict[str, float]]) -> dict[Option, float]:
    """1 = best; ties share their mean rank. The hindsight is no option: it is left unranked."""
    ranked = [option for option in options if option.weighting != "hindsight"]
    names = list(options[ranked[0]])
    aucs = np.array([[options[option][name] for name in names] for option in ranked])
    ranks = rankdata(-aucs, axis=0).mean(axis=1)
    return dict(zip(ranked, ranks.tolist(), strict=True))


def paired_table(cells: Cells, chosen: Option, rivals: Iterable[Option]) -> str:
    """The chosen option against others, set by set: won, lost, extremes, Wilcoxon's p-value."""
    rows = [["labels", "against", "ours", "theirs", "won : lost", "worst, best set", "Wilcoxon"]]
    for labels in LABELS:
        for rival in rivals:
            if rival not in cells[labels] or chosen not in cells[labels]:
                continue
            ours, theirs = cells[labels][chosen], cells[labels][rival]
            pairs = np.array([(ours[name], theirs[name]) for name in ours])
            difference = pairs[:, 0] - pairs[:, 1]
            won, lost = int((difference > 0).sum()), int((difference < 0).sum())
            extremes = f"{difference.min():+.1f}, {difference.max():+.1f}"
            p_value = wilcoxon(difference).pvalue if won + lost else 1.0
            means = [f"{mean:.1f}" for mean in pairs.mean(axis=0)]
            outcome = [f"{won} : {lost}", extremes, f"{p_value:.2g}"]
            rows.append([str(labels), describe(rival), *means, *outcome])
    return markdown(rows)


def describe(option: Option) -> str:
    p = f", p = {option.p}" if option.p else ""
    return f"{option.weighting}{p}, clip={option.clip!r}"


def markdown(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])
