"""The default FusedDetector() of decision 0006 itself, on the development sets.

``python -m research.studies.fusion.verify`` measures, stores, and shows the table; cells
(set, seed) that are stored are not measured again. Against it stand the average of its one-class
detectors, and the single detector that separates the same labels best out of fold, among the
one-class ones (``picked``) and among all with experts (``picked_expert``). AUC in per cent.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from research.common.former import former_default
from research.common.protocol import auc
from research.common.statistics import compare
from research.common.store import Record, read_rows
from research.common.tables import markdown
from research.studies.running import RESULTS, measure_study, study_parser

from .parts import Parts, parts_of

LABELS = (0, 1, 2, 5, 20, 50, 100)
SITUATIONS = ("seen", "unseen")
RIVALS = ("average", "picked", "picked_expert")


def main() -> None:
    out = RESULTS / "fused.jsonl"
    options = study_parser("research.studies.fusion.verify", __doc__, seeds=2, out=out).parse_args()
    if not options.show:
        measure_study(_records, options.out, seeds=options.seeds, jobs=options.jobs)
    print(table(read_rows(options.out)))


def _records(X: np.ndarray, is_anomaly: np.ndarray, seed: int) -> list[Record]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows: widths, neighbours, thresholds
        return list(records_of(parts_of(X, is_anomaly, seed)))


def records_of(parts: Parts) -> Iterator[Record]:
    """A record for each situation and each number of labels that there are anomalies for."""
    for situation, may_be_known, sought in parts.situations():
        for labels in LABELS:
            if labels <= len(may_be_known):
                found = measured(parts, may_be_known[:labels], sought)
                yield {"situation": situation, "labels": labels, **found}


def measured(parts: Parts, known: np.ndarray, sought: np.ndarray) -> Record:
    X = np.concatenate([parts.train, parts.anomalies[known]])
    y = np.repeat([1, -1], [len(parts.train), len(known)])
    fused = former_default(len(parts.train), len(known), random_state=parts.seed).fit(X, y)
    tests = parts.test, parts.anomalies[sought]
    raw = [fused.detector_scores(rows) for rows in tests]
    one_class = len(fused.pool_.one_class)
    averages = [fused.scaler_.transform(scores)[:, :one_class].mean(axis=1) for scores in raw]
    found = {
        "ours": auc(*(fused.score_samples(rows) for rows in tests)),
        "average": auc(*averages),
    }
    if len(known):
        S, labels = fused.out_of_fold_.scores, fused.out_of_fold_.labels
        single = [auc(*columns) for columns in zip(*(scores.T for scores in raw), strict=True)]
        trained = [auc(column[labels > 0], column[labels < 0]) for column in S.T]
        found["picked"] = single[int(np.argmax(trained[:one_class]))]
        found["picked_expert"] = single[int(np.argmax(trained))]
    return {key: round(value, 2) for key, value in found.items()}


def means_of(records: list[Record], situation: str, labels: int, key: str) -> np.ndarray:
    """The mean over seeds for each set, in the order of their names."""
    by_set: dict[str, list[float]] = {}
    for record in records:
        if (record["situation"], record["labels"]) == (situation, labels) and key in record:
            by_set.setdefault(record["set"], []).append(record[key])
    return np.array([np.mean(by_set[name]) for name in sorted(by_set)])


def table(records: list[Record]) -> str:
    """Ours against every rival: mean AUC, gain, sets won and lost, Wilcoxon's p-value."""
    rows = [["situation", "labels", "sets", "ours", *RIVALS]]
    for situation in SITUATIONS:
        for labels in LABELS:
            ours = means_of(records, situation, labels, "ours")
            cells = [situation, str(labels), str(len(ours)), f"{ours.mean():.1f}"]
            for rival in RIVALS:
                theirs = means_of(records, situation, labels, rival)
                cells.append(_compared(ours, theirs) if len(theirs) else "–")
            rows.append(cells)
    return markdown(rows, numbers=False)


def _compared(ours: np.ndarray, theirs: np.ndarray) -> str:
    found = compare(ours, theirs)
    return f"{theirs.mean():.1f} ({found.wins} : {found.losses}, p = {found.p_value:.2g})"


if __name__ == "__main__":
    main()
