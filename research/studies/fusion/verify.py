"""The default FusedDetector() of decision 0006 on the development sets, as it was measured.

``python -m research.studies.fusion.verify`` shows the table of stored rows. That default is gone
(decisions 0017 to 0023), so the rows are not measured again. Against it stand the average of its
one-class detectors, and the single detector that separates the same labels best out of fold, among
the one-class ones (``picked``) and among all with experts (``picked_expert``). AUC in per cent.
"""

from __future__ import annotations

import numpy as np

from research.common.statistics import compare
from research.common.store import Record, read_rows
from research.common.tables import markdown
from research.studies.running import RESULTS

LABELS = (0, 1, 2, 5, 20, 50, 100)
SITUATIONS = ("seen", "unseen")
RIVALS = ("average", "picked", "picked_expert")


def main() -> None:
    print(table(read_rows(RESULTS / "fused.jsonl")))


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
