"""The page of norms over families, and of joint weights of many classes, from stored rows.

python -m research.studies.norms_page
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lpfuse._arrays.operations import Host
from research.common.statistics import compare
from research.common.store import Row, write_whole
from research.common.tables import markdown, page, paired_gain, prose
from research.studies.joint_classes import MANY, METHODS, SEPARATE, SETS, SUPERVISED, TWO, stored
from research.studies.norms import LABELS, chosen_on, chosen_page, control_of, gains, told
from research.studies.running import RESULTS

PAGE = Path("docs/results/norms.md")
STACKED = "logistic regression on the scores"
SPARSE = (("p=1 q=2 views", "p=1"), ("free r=1 p=1 q=2 views", "free r=1 p=1"))
FACES = {"pure": 0, "non-pure": 100}  # setting → labels of the tables that chose the norms
Rows = Sequence[dict[str, Any]]


def rows_in(name: str) -> list[dict[str, Any]]:
    """Stored rows with an AUC."""
    lines = (RESULTS / f"{name}.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if "auc" in row]


class Setting:
    """Rows of one kind of pool and number of labels, and the forms that the tables chose for it."""

    def __init__(self, title: str, rows: Rows, labels: Any, of_kind: Mapping[str, str]) -> None:
        self.title, self.labels, self.of_kind = title, labels, of_kind
        self.over_sum = gains(rows, rows[0]["half"], labels, "sum")
        self.best = chosen_on(rows, rows[0]["half"], labels)  # in hindsight

    def gain(self, name: str, over: str) -> str:
        """Mean gain and its standard error."""
        return told(self.over_sum[name] - self.over_sum[over])

    @property
    def sets(self) -> str:
        """How many there are."""
        return str(len(self.over_sum["sum"]))


def settings_of(tables: Rows, development: Rows, faces: Rows) -> list[Setting]:
    """The development sets without and with useless views, and the stand-in of faces."""
    chosen = {labels: chosen_on(tables, "choose", labels) for labels in LABELS}
    found = [
        Setting(f"{title}, {labels} labels", some, labels, chosen[labels])
        for useless, title in ((0, "five views"), (4, "nine views, four useless"))
        for labels in LABELS
        if (some := [row for row in development if row["useless"] == useless])
    ]
    real = [row for row in faces if row["half"] == "faces"]
    for labels, like in FACES.items():
        found.append(Setting(f"faces, {labels}", real, labels, chosen[like]))
    return found


def transferred(settings: Sequence[Setting]) -> str:
    """What the forms that the tables chose are worth elsewhere."""
    head = ("", "sets", "ℓp", "over the sum", "groups", "over ℓp", "over shuffled", "in hindsight")
    table = [head]
    for one in settings:
        lp, groups = one.of_kind["ℓp"], one.of_kind["groups"]
        hindsight = one.gain(one.best["groups"], one.best["ℓp"])
        judged = one.gain(groups, lp), one.gain(groups, control_of(groups))
        table.append((one.title, one.sets, lp, one.gain(lp, "sum"), groups, *judged, hindsight))
    return markdown(table)


def sparse(settings: Sequence[Setting]) -> str:
    """Leaving out whole views: p = 1 over families beside p = 1 over detectors."""
    table = [("", "over p = 1", "over shuffled", "free, over p = 1", "free, over shuffled")]
    for one in settings:
        cells = [one.gain(form, over) for form, lp in SPARSE for over in (lp, control_of(form))]
        table.append((one.title, *cells))
    return markdown(table)


def untouched(faces: Rows) -> str:
    """Mean AUC of the control that is forged by name only."""
    control = [row["auc"] for row in faces if row["half"] == "control"]
    means = {name: np.mean([auc[name] for auc in control]) for name in control[0]}
    return f"{min(means.values()):.1f} to {max(means.values()):.1f}"


# ----------------------------------------------------------------------------------------- classes


def accuracies(rows: Sequence[Row]) -> dict[str, Host]:
    """Method → mean accuracy over splits, a set each."""
    found: Any = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row["method"]][row["set"]].append(row["value"])
    return {name: np.array([np.mean(of[s]) for s in SETS]) for name, of in found.items()}


def classes_tables(rows: Sequence[Row]) -> list[str]:
    """Means and paired gains of every method; accuracy by set of those that matter."""
    found, many = accuracies(rows), len(MANY)
    names = [*METHODS, SUPERVISED]
    head = ("", "3 classes and more", "2 classes", "over separate weights", "sets", "over stacking")
    table = [head]
    for name in names:
        values, score = found[name], compare(found[name], found[SEPARATE])
        means = f"{values[:many].mean():.1f}", f"{values[many:].mean():.1f}"
        gain = (paired_gain(values - found[SEPARATE]), f"{score.wins} : {score.losses}")
        own = ("", "") if name == SEPARATE else gain
        table.append(
            (name, *means, *own, "" if name == STACKED else paired_gain(values - found[STACKED]))
        )
    shown = [name for name in names if "ℓ1/ℓ2" not in name and "shuffled" not in name]
    by_set = [("", *SETS)] + [(name, *(f"{v:.1f}" for v in found[name])) for name in shown]
    return [markdown(table), markdown(zip(*by_set, strict=True))]


# -------------------------------------------------------------------------------------------- page


def norms_page(tables: Rows, development: Rows, faces: Rows, classes: Sequence[Row]) -> str:
    """The whole page."""
    settings = settings_of(tables, development, faces)

    def splits_of(useless: int) -> str:
        return f"{len({r['seed'] for r in development if r['useless'] == useless})} splits"

    gap = max(row["gap"] for row in (*tables, *development, *faces))
    class_gap = max(row.get("gap", 0.0) for row in classes)
    splits = len({row["seed"] for row in classes})
    return page(
        "# Norms over families of detectors, and joint weights of many classes",
        prose(
            f"""Does a norm that knows families of detectors beat the ℓp norm of all weights? A pool
            has four learners on several views of the columns; its families are the views, or the
            learners. Weights learn from out-of-fold scores with 0 to 100 labelled anomalies. Mean
            gains in AUC (percentage points) ± standard error over sets. Controls: the sum of the
            same pool, and the same norm over shuffled families. The largest certified relative gap
            of all fits is {gap:.0e}. What follows from it: [ADR 0053](../adr/0053-other-norms.md).
            Written by `python -m research.studies.norms_page` from `norms.jsonl`,
            `norms_development.jsonl`, `norms_faces.jsonl` and `joint_classes/rows.jsonl`; do not
            edit by hand."""
        ),
        "## Tables",
        prose(
            """Five views (columns, ranks, components, two random halves), one split of each table.
            Of each kind the form with the best mean on one half of the tables, judged on the other.
            The control of groups is shuffled groups, of regions one region, of others the sum."""
        ),
        chosen_page(tables),
        "## Anomaly sets, UCI sets and faces",
        prose(
            f"""The forms that the choosing half of the tables chose, on other data. *Five views*:
            20 anomaly sets and 10 UCI sets, as many as have anomalies enough, {splits_of(0)}. *Four
            useless*: the same with four views whose columns are shuffled, {splits_of(4)}. *Faces*:
            the stand-in of made-up clips, nine feature sets (three regions × three bands of
            azimuthal profiles; there are no pretrained networks) × four learners; a photograph and
            a kind of forgery are left out of training; a set is a photograph and a seed, its figure
            the mean over five kinds. *In hindsight*: the best group form less the best ℓp form,
            both chosen on these very sets, which flatters the kind with more forms."""
        ),
        transferred(settings),
        prose(
            f"""A control of the faces, clips that are forged by name only, has mean AUCs of
            {untouched(faces)} under all norms (eight clips against eight: by chance 50 ± 15, and ±
            5 the mean of nine). The sparse form, `p=1, q=2` over views, beside p = 1 over detectors
            and beside shuffled views; weights ≥ 0, and free:"""
        ),
        sparse(settings),
        "## Many classes",
        prose(
            f"""The paper's four learners for each class; half the rows train them, a quarter
            teaches the weights, a quarter tests. Joint weights of all classes are one problem of
            `LpFusion` with one certificate (`research.rivals.joint`): *margins* between the fused
            scores of a row's class and the others, with weights for the experts of the class, the
            same weights for all classes (*shared*), or weights for the experts of all classes
            (*crossed*); *one against all*, a hinge for each class. *Separate weights* have Platt's
            calibration for each class; *calibrated jointly* is softmax regression on the K fused
            scores instead. The largest relative gap is {class_gap:.0e}. Norms and radii were chosen
            on other splits of the same sets; joint calibration was added once the others were
            measured. Accuracy in %, {splits} splits of {len(MANY)} sets of three classes and more
            and {len(TWO)} of two (scikit-learn's, river's image segments, and UCI's; of glass, type
            2 against the others), at most 600 rows; gains with their 95 % interval over sets, and
            sets won : lost. *Stacking* is logistic regression on the scores. Controls: labels
            shuffled for the weights, families at random. The last line learns from the features of
            training and validation rows."""
        ),
        *classes_tables(classes),
    )


def main() -> None:
    """Write the page."""
    names = ("norms", "norms_development", "norms_faces")
    text = norms_page(*map(rows_in, names), stored())
    write_whole(PAGE, text)
    print(text)


if __name__ == "__main__":
    main()
