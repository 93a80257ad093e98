"""Related work: stacks, missing cells and classes, measured on splits and told on a page."""

import numpy as np
import pytest

from research.common.store import Cell
from research.paper import related
from research.paper.related import MISSING, STACKS, class_rows, related_page, split_rows
from research.tests.small import small_split, tables_in

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of widths far from the data


@pytest.fixture(scope="module")
def rows():
    return [{"set": "small", "seed": 0, **row} for row in split_rows(small_split(seed=1))]


def test_every_method_is_measured_at_every_share(rows):
    settings = {row["setting"] for row in rows}
    assert settings == {"pure", "non-pure", *(f"{share:.0%} missing" for share in MISSING)}
    assert {row["method"] for row in rows if row["setting"] == "pure"} == set(STACKS)
    assert all(0 <= row["value"] <= 100 for row in rows)


def test_without_gaps_filling_changes_nothing(rows):
    from research.paper.methods import lp

    parts = small_split(seed=1)
    expected = parts.judge(lp()(parts.training("pure")))["auc"]
    (found,) = (
        row["value"]
        for row in rows
        if (row["setting"], row["method"]) == ("0% missing", "four learners, ℓp")
    )
    assert found == pytest.approx(expected)


def test_stacks_are_several_svdds():
    training = small_split(seed=1).training("non-pure")
    tables = related.stack_tables(training)
    assert list(tables.names) == ["SVDD, width 2", "SVDD, width 0.5"]
    np.testing.assert_allclose(tables.score(training.validation), tables.validation)


def test_holes_are_as_many_as_asked():
    rng = np.random.default_rng(0)
    rows = np.zeros((500, 20))
    assert np.isnan(related._with_holes(rows, 0.3, rng)).mean() == pytest.approx(0.3, abs=0.02)
    assert not np.isnan(related._with_holes(rows, 0.0, rng)).any()


def test_joints_of_iris_beat_a_guess():
    pytest.importorskip("pygad", reason="pygad is not installed")
    found = {row["method"]: row["value"] for row in class_rows(Cell("iris", 0))}
    assert found["sum of experts"] > 80
    assert found["logistic regression, supervised"] > 90
    assert len(found) == 8


def test_the_page_marks_the_best_of_each_column(rows):
    classes = [
        {
            "set": name,
            "seed": 0,
            "method": m,
            "metric": "accuracy",
            "value": v,
            "setting": "classes",
        }
        for name in related.CLASSES
        for m, v in (("sum of experts", 90.0), ("ECOC", 80.0))
    ]
    tables = tables_in(related_page(rows, classes))
    assert dict(tables[2]["sum of experts"])["iris"] == "**90.0**"
    assert dict(tables[2]["ECOC"])["iris"] == "80.0"
    assert [len(table) for table in tables] == [4, 6, 2]
