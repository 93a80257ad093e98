"""Studies of norms: by hand on a few rows, the stored page against its rows, one cell measured."""

from pathlib import Path

import numpy as np
import pytest

from research.common.measure import Cell
from research.rivals.joint import JointLp
from research.studies.joint_classes import CROSSED, MARGINS, METHODS, SETS, rows_of, stored
from research.studies.norms import LABELS, chosen_on, control_of, gains, groups_of
from research.studies.norms_page import PAGE, accuracies, norms_page, rows_in, settings_of

ROOT = Path(__file__).parents[3]


def test_the_page_says_what_the_rows_say():
    names = ("norms", "norms_development", "norms_faces")
    assert norms_page(*map(rows_in, names), stored()) == (ROOT / PAGE).read_text()


def row(name, labels=5, half="choose", **auc):
    return {"set": name, "half": half, "seed": 0, "labels": labels, "useless": 0, "auc": auc}


def rows(**auc):
    return [row(f"set {i}", **{k: v[i] for k, v in auc.items()}) for i in range(2)]


def test_gains_are_means_over_seeds_of_each_set():
    some = [*rows(sum=[80, 70], two=[82, 71]), *rows(sum=[90, 70], two=[90, 70])]
    np.testing.assert_allclose(gains(some, "choose", 5, "sum")["two"], [1.0, 0.5])
    assert not gains(some, "choose", 20, "sum")


def test_forms_are_chosen_on_one_half_and_judged_elsewhere():
    values = {"sum": [80, 70], "p=1": [81, 70], "p=2": [80, 70], "p=1 q=2 views": [80, 70]}
    values |= {"p=2 q=1 views": [79, 69], "p=1 q=2 shuffled": [78, 69], "free r=1 p=1": [0, 0]}
    values |= {f"free r=1 {name}": [0, 0] for name in ("p=1 q=2 views", "p=1 q=2 shuffled")}
    some = [r | {"labels": k} for k in (*LABELS, "pure", "non-pure") for r in rows(**values)]
    assert chosen_on(some, "choose", 5) == {"ℓp": "p=1", "groups": "p=1 q=2 views"}
    elsewhere = [r | {"half": "faces", "auc": r["auc"] | {"p=1": 0}} for r in some]
    first = settings_of(some, elsewhere, elsewhere)[0]
    assert (first.of_kind["ℓp"], first.best["ℓp"]) == ("p=1", "p=2")
    assert first.gain("p=1 q=2 views", control_of("p=1 q=2 views")) == "+1.50 ± 0.50"


def test_families_of_a_pool_and_their_shuffled_control():
    assert groups_of("views", 8, 0).tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert groups_of("learners", 8, 0).tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    shuffled = groups_of("shuffled", 36, 0)
    assert np.bincount(shuffled).tolist() == [4] * 9
    assert (shuffled != groups_of("views", 36, 0)).any()


def test_the_stored_rows_of_classes_are_whole_and_proven():
    found = stored()
    assert len(found) == len(SETS) * 10 * (len(METHODS) + 1)
    gaps = [each["gap"] for each in found if "gap" in each]
    joint = [make for make in METHODS.values() if isinstance(make(), JointLp)]
    assert len(gaps) == len(SETS) * 10 * len(joint)
    assert max(gaps) <= 1e-8
    means = {name: values.mean() for name, values in accuracies(found).items()}
    for name in (MARGINS, CROSSED):  # the control that must fail
        assert means[f"{name}, labels shuffled"] < means[name] - 10


@pytest.mark.filterwarnings("ignore:The best weights are zero")  # of shuffled labels
def test_a_cell_is_measured_as_it_is_stored():
    found = {each["method"]: each["value"] for each in rows_of(Cell("iris", 3))}
    kept = {
        each["method"]: each["value"]
        for each in stored()
        if (each["set"], each["seed"]) == ("iris", 3)
    }
    assert found.keys() == kept.keys()
    for name, value in found.items():
        assert value == pytest.approx(kept[name], abs=3), name  # a row of 38 is 2.6
