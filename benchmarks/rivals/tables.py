"""Stored records → a page: mean AUC and rank of every rival, paired tests, fit time."""

from __future__ import annotations

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range, wilcoxon

from benchmarks.defaults.tables import markdown

from .study import ENSEMBLES, LABELS, RIVALS, Record

REFERENCE = "lp (default)"
LEVEL = 0.05


NAMES = [*RIVALS, *ENSEMBLES]


def joined(records: list[Record], ensembles: list[Record]) -> list[Record]:
    """Records with the figures of the whole ensembles, which are the same for all labels."""
    known = {(record["set"], record["seed"]): record for record in ensembles}
    return [
        record
        | {
            key: record[key] | known[record["set"], record["seed"]][key]
            for key in ("auc", "seconds")
        }
        for record in records
    ]


def aucs_of(records: list[Record], labels: int) -> np.ndarray:
    """Sets × rivals: the mean over seeds."""
    by_set: dict[str, list[list[float]]] = {}
    for record in records:
        if record["labels"] == labels:
            by_set.setdefault(record["set"], []).append([record["auc"][name] for name in NAMES])
    return np.array([np.mean(by_set[name], axis=0) for name in sorted(by_set)])


def mean_ranks(aucs: np.ndarray) -> np.ndarray:
    """1 is the best; ties share their ranks."""
    return rankdata(-aucs, axis=1).mean(axis=0)


def critical_difference(rivals: int, sets: int) -> float:
    """Nemenyi's: mean ranks that differ by less are not told apart at the 5 % level."""
    q = studentized_range.ppf(1 - LEVEL, rivals, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(rivals * (rivals + 1) / (6 * sets)))


def page(records: list[Record]) -> str:
    parts = [
        "# Rivals",
        "Six one-class detectors, their out-of-fold scores fused in every way that lpfuse knows;\n"
        "test AUC in % on the development sets, labelled and sought anomalies from one mix.\n"
        "Written by `python -m benchmarks.rivals`; a label count uses the sets with anomalies\n"
        "enough. Ranks: 1 is the best; mean ranks closer than CD (Nemenyi) are not told apart.\n"
        f"Whole ensembles ({', '.join(ENSEMBLES)}) bring detectors of their own, ten SVDDs or\n"
        "one-class SVMs, or four quick learners in each round, and do not use labels.",
        "## Mean AUC (mean rank)",
        _means(records),
        f"## Against {REFERENCE}: sets won : lost by it, Wilcoxon's p-value",
        _paired(records),
        "## Seconds to fit (median)",
        _seconds(records),
    ]
    return "\n\n".join(parts) + "\n"


def _means(records: list[Record]) -> str:
    cells = {}
    heads = []
    for labels in LABELS:
        aucs = aucs_of(records, labels)
        sets, rivals = aucs.shape
        p_value = friedmanchisquare(*aucs.T).pvalue
        told = f"Friedman p = {p_value:.1g}, CD {critical_difference(rivals, sets):.1f}"
        heads.append(f"{labels} labels, {sets} sets; {told}")
        pairs = zip(NAMES, aucs.mean(axis=0), mean_ranks(aucs), strict=True)
        cells[labels] = {name: f"{mean:.1f} ({rank:.1f})" for name, mean, rank in pairs}
    rows = [[name, *(cells[labels][name] for labels in LABELS)] for name in NAMES]
    return markdown([["", *heads], *rows])


def _paired(records: list[Record]) -> str:
    names = NAMES
    rows = []
    for name in names:
        if name == REFERENCE:
            continue
        row = [name]
        for labels in LABELS:
            aucs = aucs_of(records, labels)
            gain = aucs[:, names.index(REFERENCE)] - aucs[:, names.index(name)]
            won, lost = int((gain > 0).sum()), int((gain < 0).sum())
            p_value = wilcoxon(gain).pvalue if won + lost else 1.0
            row.append(f"{gain.mean():+.1f}, {won} : {lost}, {p_value:.2g}")
        rows.append(row)
    return markdown([["", *(f"{labels} labels" for labels in LABELS)], *rows])


def _seconds(records: list[Record]) -> str:
    rows = []
    for name in NAMES:
        times = [
            np.median([record["seconds"][name] for record in records if record["labels"] == labels])
            for labels in LABELS
        ]
        rows.append([name, *(f"{seconds:.3f}" for seconds in times)])
    return markdown([["", *(f"{labels} labels" for labels in LABELS)], *rows])
