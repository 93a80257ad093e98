"""Stored AUCs of the options → Markdown: one setting at a time, pairs of settings, yardsticks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from research.common.store import CellFile, read_rows
from research.common.tables import markdown
from research.studies.running import paired as paired_cells

from .options import GAMMAS, PAPER, SETTINGS, YARDSTICKS, Option, Setting

NARROWER = "3 scale"  # the width that the decision is about
RELATED = (  # two selections from the same source
    ("Cardiotocography", "cardio"), ("landsat", "satellite"), ("annthyroid", "thyroid"),
    ("WBC", "d06_breastw"),
)  # fmt: skip

Aucs = dict[Option, dict[str, float]]  # option → set → AUC, mean over seeds

GRIDS = (  # learner, rows, columns; the other settings as in PAPER
    ("SVDD", "gamma", "nu"),
    ("OneClassGP", "gamma", "score_type"),
    ("OneClassGP", "score_type", "noise"),
    ("KernelPCADetector", "gamma", "n_components"),
    ("GMMDetector", "n_components", "reg_covar"),
)


def read_aucs(path: Path) -> Aucs:
    stored = CellFile.read(path)
    (about,), records = stored.opening, [row for rows in stored.cells.values() for row in rows]
    options = [Option(learner, tuple(settings.items())) for learner, settings in about["options"]]
    values: dict[str, list[list[float]]] = defaultdict(list)
    for record in records:
        values[record["set"]].append(record["auc"])
    means = {name: np.mean(aucs, axis=0).tolist() for name, aucs in values.items()}
    return {
        option: {name: aucs[i] for name, aucs in means.items()} for i, option in enumerate(options)
    }


def warnings_table(path: Path) -> str:
    """In how many cells, each a set and a seed, a width comes with a warning."""
    records = read_rows(path)
    counts = [sum(gamma in record["warned"] for record in records) for gamma in GAMMAS]
    rows = [["gamma", *GAMMAS], [f"of {len(records)} fits", *map(str, counts)]]
    return markdown(rows, numbers=False)


def report(aucs: Aucs) -> str:
    """All tables, each under a line that says what it holds."""
    n_sets = len(next(iter(aucs.values())))
    sections = [f"Mean test AUC, in %, over {n_sets} sets; Wilcoxon's p-values are uncorrected."]
    narrower = [
        paper.but(gamma=NARROWER) for paper in PAPER.values() if "gamma" in dict(paper.settings)
    ]
    for base in (*PAPER.values(), *narrower):
        sections += [f"{base}, and one setting changed", one_at_a_time(aucs, base)]
        if base in narrower:
            sections += ["The same, related sets counted once", one_at_a_time(once(aucs), base)]
    for learner, rows, columns in GRIDS:
        sections += [f"{learner}: {rows} × {columns}", grid(aucs, learner, rows, columns)]
    for learner in PAPER:
        sections += [f"{learner}: the highest means in hindsight", leaders(aucs, learner)]
    sections += ["Chosen on the other sets", chosen_elsewhere(aucs)]
    sections += ["Against yardsticks", yardsticks(aucs, [*PAPER.values(), *narrower])]
    return "\n\n".join(sections)


def one_at_a_time(aucs: Aucs, base: Option) -> str:
    rivals = [
        (f"{name}={value}", base.but(**{name: value}))
        for name, values in SETTINGS[base.learner].items()
        for value in values
        if value != base[name]
    ]
    return paired(aucs, base, rivals)


def paired(aucs: Aucs, ours: Option, rivals: Iterable[tuple[str, Option]]) -> str:
    """One option against others, set by set: won, lost, extremes, Wilcoxon's p-value."""
    rows = [["against", "ours", "theirs", "won : lost", "worst, best set", "Wilcoxon"]]
    for name, rival in rivals:
        rows.append([name, *compare(aucs[ours], aucs[rival])])
    return markdown(rows, numbers=False)


def compare(ours: dict[str, float], theirs: dict[str, float]) -> list[str]:
    found = paired_cells(ours, theirs, decimals=6)
    return [*found[:2], found.won_lost, found.extremes, found.p_value]


def grid(aucs: Aucs, learner: str, rows: str, columns: str) -> str:
    def cell(row: Setting, column: Setting) -> str:
        return f"{mean(aucs[PAPER[learner].but(**{rows: row, columns: column})]):.1f}"

    values = SETTINGS[learner]
    body = [[str(row), *(cell(row, column) for column in values[columns])] for row in values[rows]]
    head = [f"{rows} \\ {columns}", *map(str, values[columns])]
    return markdown([head, *body], numbers=False)


def leaders(aucs: Aucs, learner: str, many: int = 5) -> str:
    """The best combinations of all settings, against the paper's."""
    best = sorted(options_of(aucs, learner), key=lambda option: -mean(aucs[option]))[:many]
    return paired(aucs, PAPER[learner], [(str(option), option) for option in best])


def chosen_elsewhere(aucs: Aucs) -> str:
    """What choosing by the mean is worth on a set that had no say: leave-one-set-out."""
    rows = [["learner", "paper", "chosen", "won : lost", "worst, best set", "Wilcoxon"]]
    for learner, paper in PAPER.items():
        rows.append([learner, *compare(aucs[paper], left_out(aucs, options_of(aucs, learner)))])
    return markdown(rows, numbers=False)


def left_out(aucs: Aucs, options: Sequence[Option]) -> dict[str, float]:
    """Of each set, the AUC of the option with the highest mean over all other sets."""
    names = list(aucs[options[0]])
    values = np.array([[aucs[option][name] for name in names] for option in options])
    others = values.sum(axis=1, keepdims=True) - values
    return dict(zip(names, values[others.argmax(axis=0), range(len(names))].tolist(), strict=True))


def yardsticks(aucs: Aucs, options: Iterable[Option]) -> str:
    rows = [["learner", "mean", *(f"{name}: theirs, won : lost, Wilcoxon" for name in YARDSTICKS)]]
    for option in options:
        outcomes = []
        for name in YARDSTICKS:
            _, theirs, won_lost, _, p_value = compare(aucs[option], aucs[Option(name)])
            outcomes.append(f"{theirs}, {won_lost}, {p_value}")
        rows.append([str(option), f"{mean(aucs[option]):.1f}", *outcomes])
    return markdown(rows, numbers=False)


def once(aucs: Aucs) -> Aucs:
    """Related sets as one, with their mean: as votes they are hardly two."""

    def merged(by_set: dict[str, float]) -> dict[str, float]:
        names = {name: name for name in by_set}
        names |= {name: pair[0] for pair in RELATED if set(pair) <= set(names) for name in pair}
        groups = defaultdict(list)
        for name, value in by_set.items():
            groups[names[name]].append(value)
        return {name: float(np.mean(values)) for name, values in groups.items()}

    return {option: merged(by_set) for option, by_set in aucs.items()}


def options_of(aucs: Aucs, learner: str) -> list[Option]:
    return [option for option in aucs if option.learner == learner]


def mean(by_set: dict[str, float]) -> float:
    return float(np.mean(list(by_set.values())))
