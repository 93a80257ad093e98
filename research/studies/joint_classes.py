"""Many classes: weights of one-class experts from one ℓp problem, beside separate weights.

The paper's four learners for each class; weights learn from validation rows that no learner has
seen (half the rows train, a quarter validates, a quarter tests). `METHODS` has the joint problems
of `research.rivals.joint` under norms that were chosen on splits 100 to 105 of the same sets, their
rivals, and the controls that must fail: labels shuffled for the weights, and families at random.

    python -m research.studies.joint_classes [--show]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lpfuse._arrays.operations import Host
from research.common.datasets import load_uci
from research.common.measure import Cell, Row, measure
from research.common.store import read_rows
from research.paper.learners import LEARNERS
from research.paper.related import CLASSES, MOST_ROWS, load_classes, profiles_of
from research.rivals.classes import (
    BestLearner,
    JointlyCalibrated,
    LpPerClass,
    StackedScores,
    SumOfExperts,
    units_of,
)
from research.rivals.joint import JointLp
from research.studies.running import RESULTS, study_parser

MANY = ("iris", "wine", "digits", "image segments")
TWO = (
    "breast cancer", "banknotes", "ionosphere", "vote", "glass", "breast-cancer-wisconsin",
    "australia", "haberman", "hepatitis",
)  # fmt: skip
SETS = (*MANY, *TWO)
STORED = RESULTS / "joint_classes" / "rows.jsonl"


class Shuffled:
    """A control: the weights learn from labels in random order."""

    def __init__(self, joint: Any) -> None:
        self.joint = joint

    def fit(self, profile: Host, labels: Host, X: Host) -> Self:
        """Learn from what tells nothing."""
        self.joint.fit(profile, np.random.default_rng(0).permutation(labels), X)
        return self

    def predict(self, profile: Host, X: Host) -> Host:
        """The class of each row, of shape (n,)."""
        classes: Host = self.joint.predict(profile, X)
        return classes


SEPARATE, MARGINS, CROSSED = "separate ℓ2 weights", "margins, ℓ4/3", "crossed margins, ℓ2"
METHODS: Mapping[str, Callable[[], Any]] = {
    "sum of experts": SumOfExperts,
    "best single learner": BestLearner,
    SEPARATE: LpPerClass,
    f"{SEPARATE}, calibrated jointly": lambda: JointlyCalibrated(LpPerClass()),
    "shared margins, ℓ4/3": lambda: JointLp("shared margins", p=4 / 3),
    "one against all, ℓ4/3": lambda: JointLp("one against all", p=4 / 3),
    "one against all, ℓ4/3, calibrated jointly": lambda: JointlyCalibrated(
        METHODS["one against all, ℓ4/3"]()
    ),
    "one against all, ℓ1/ℓ2 over learners": lambda: _grouped("one against all", 1.0),
    MARGINS: lambda: JointLp(p=4 / 3, radius=3.0),
    f"{MARGINS}, calibrated jointly": lambda: JointlyCalibrated(METHODS[MARGINS]()),
    "margins, ℓ1/ℓ2 over learners": lambda: _grouped("margins", 3.0),
    "margins, ℓ1/ℓ2 over classes": lambda: _grouped("margins", 3.0, "classes"),
    "margins, ℓ1/ℓ2 over random families": lambda: _grouped("margins", 3.0, "random"),
    CROSSED: lambda: JointLp("crossed margins", p=2.0, nonnegative=False),
    "crossed margins, ℓ1/ℓ2 over experts": lambda: _grouped("crossed margins", 3.0),
    "crossed margins, ℓ1/ℓ2 over random families": lambda: _grouped(
        "crossed margins", 3.0, "random"
    ),
    "logistic regression on the scores": StackedScores,
    f"{SEPARATE}, labels shuffled": lambda: Shuffled(LpPerClass()),
    f"{MARGINS}, labels shuffled": lambda: Shuffled(METHODS[MARGINS]()),
    f"{CROSSED}, labels shuffled": lambda: Shuffled(METHODS[CROSSED]()),
}
SUPERVISED = "logistic regression on the features"


def _grouped(form: Any, radius: float, groups: Any = "learners") -> JointLp:
    free = form == "crossed margins"
    return JointLp(form, groups=groups, p=1.0, q=2.0, radius=radius, nonnegative=not free)


def load(name: str, seed: int) -> tuple[Host, Host]:
    """Rows and classes, at most `MOST_ROWS` drawn with a seed."""
    if name in CLASSES:
        return load_classes(name, seed)
    if name == "image segments":  # UCI's, as river brings it
        from river.datasets import ImageSegments

        found = list(ImageSegments())
        X = np.array([list(row.values()) for row, _ in found], dtype=float)
        labels = np.unique([label for _, label in found], return_inverse=True)[1]
    else:  # normal and not; of glass the latter are five types
        data = load_uci(name, download=False)
        X, labels = data.X, (data.y < 0).astype(int)
    chosen = np.random.default_rng(seed).permutation(len(X))[:MOST_ROWS]
    return X[chosen], labels[chosen]


def rows_of(cell: Cell) -> list[Row]:
    """Accuracy of every method on one split, in %; of joint problems also the certified gap."""
    X, labels = load(cell.set, cell.seed)
    seed = cell.seed
    train, rest, y_train, y_rest = train_test_split(
        X, labels, train_size=0.5, stratify=labels, random_state=seed
    )
    known, test, y_known, y_test = train_test_split(
        rest, y_rest, train_size=0.5, stratify=y_rest, random_state=seed
    )
    scale = make_pipeline(SimpleImputer(strategy="median"), StandardScaler()).fit(train)
    train, known, test = map(scale.transform, (train, known, test))
    units = units_of(y_train, None, int(labels.max()) + 1)
    of_known, of_test = profiles_of(train, units, known, test)
    rows: list[Row] = []
    for name, make in METHODS.items():
        method = make().fit(of_known, y_known, known)
        row = {"method": name, "metric": "accuracy"}
        row["value"] = 100 * float(np.mean(method.predict(of_test, test) == y_test))
        if isinstance(method, JointLp):
            row["gap"] = method.certificate_.relative_gap
        rows.append(row)
    both, y = np.concatenate([train, known]), np.concatenate([y_train, y_known])
    supervised = LogisticRegression(max_iter=2000).fit(both, y)
    value = 100 * float(supervised.score(test, y_test))
    return [*rows, {"method": SUPERVISED, "metric": "accuracy", "value": value}]


def stored(path: Path = STORED) -> list[Row]:
    """Rows of the latest methods."""
    return read_rows(path)


def main() -> None:
    """Measure what is missing, and show means over the splits."""
    parser = study_parser("research.studies.joint_classes", __doc__, 10, STORED)
    options = parser.parse_args()
    if not options.show:
        cells = [Cell(name, seed) for seed in range(options.seeds) for name in SETS]
        protocol = {"methods": list(METHODS), "rows": MOST_ROWS, "experts": LEARNERS}
        measure(rows_of, cells, options.out, protocol=protocol, jobs=options.jobs)
    from research.studies.norms_page import classes_tables

    print(*classes_tables(stored(options.out)), sep="\n\n")


if __name__ == "__main__":
    main()
