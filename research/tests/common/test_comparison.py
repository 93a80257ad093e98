"""Methods × data sets × splits: rows that are complete, measured once, and read back."""

from dataclasses import replace
from itertools import product

import numpy as np
import polars as pl
import pytest

from helpers.cases import cases
from lpfuse import FixedRule
from research.common import experiment
from research.common.comparison import Figures, measure_methods
from research.common.datasets import UCI, Dataset
from research.common.options import Options
from research.common.protocol import PAPER, QUICK, SETTINGS, FittedMethod, threshold
from research.common.splits import split
from research.common.store import read_rows
from research.paper.methods import fusion, lp, single
from research.tests.small import rows_and_labels

COLUMNS = ("set", "seed", "setting", "method", "metric")
calls = []


def distance(power):
    """A method that is quick, says what it does, and keeps count of itself."""

    def method(training):
        calls.append((training.seed, len(training.labelled) > 0, training.protocol))

        def score(X):
            return -(np.abs(X) ** power).sum(axis=1)

        return FittedMethod(
            score, threshold(training, score(training.validation)), {"power": power}
        )

    return method


METHODS = {"city block": distance(1.0), "Euclid": distance(2.0)}
NON_PURE = {"fourth": distance(4.0)}
EACH_SPLIT = 2 * len(METHODS) + len(NON_PURE)


@pytest.fixture(autouse=True)
def count():
    calls.clear()


@pytest.fixture
def sets(monkeypatch):
    """Any name is a data set."""
    seeds = {name: number for number, name in enumerate(UCI)}

    def load(name, **given):
        return Dataset(name, *rows_and_labels(seed=seeds[name]), ("a", "b"), "made up")

    monkeypatch.setattr(experiment, "load_dataset", load)
    return load


@pytest.fixture
def table(tmp_path):
    """A user's own file: two numbers, one of them with gaps, a category, and a status."""
    X, y = rows_and_labels()
    frame = pl.DataFrame({
        "pressure": [None if i % 7 == 0 else value for i, value in enumerate(X[:, 0])],
        "flow": X[:, 1],
        "site": ["north" if value > 0 else "south" for value in X[:, 0]],
        "status": ["ok" if label > 0 else "worn" for label in y],
    })  # fmt: skip
    path = tmp_path / "pumps.csv"
    frame.write_csv(path)
    return path


# ------------------------------------------------------------------------------------------ figures


def rows_of(values, **place):
    return [place | {"seed": seed, "value": value} for seed, value in enumerate(values)]


PURE = {"setting": "pure", "metric": "auc"}
ROWS = [
    *rows_of([90.0, 94.0], set="wine", method="sum", **PURE),
    *rows_of([70.0, 80.0], set="wine", method="max", **PURE),
    *rows_of([50.0, 60.0], set="glass", method="sum", **PURE),
    *rows_of([1.0, 2.0], set="glass", method="max", **PURE),
    *rows_of([11.0, 12.0], set="wine", method="sum", setting="pure", metric="g_mean"),
    *rows_of([3.0, 5.0], set="glass", method="sum", setting="pure", metric="g_mean"),
    *rows_of([99.0, 97.0], set="wine", method="stack", setting="non-pure", metric="auc"),
    *rows_of([98.0, 98.0], set="glass", method="stack", setting="non-pure", metric="auc"),
]


def test_figures_by_set_and_method():
    figures = Figures(ROWS)
    assert figures.sets == ("wine", "glass")
    assert figures.seeds == 2
    assert figures.methods("pure") == ["sum", "max"]
    assert figures.methods("pure", "g_mean") == ["sum"]
    assert figures.methods("non-pure") == ["stack"]
    assert figures.methods("else") == []
    np.testing.assert_array_equal(figures.of("pure", "max", "wine"), [70, 80])
    np.testing.assert_array_equal(figures.means("pure", "sum"), [92, 55])
    np.testing.assert_array_equal(figures.means("pure", "sum", "g_mean"), [11.5, 4])
    np.testing.assert_array_equal(figures.table("pure", ["max", "sum"]), [[75, 92], [1.5, 55]])


def test_figures_follow_the_order_of_sets_not_rows():
    by_seed = sorted(ROWS, key=lambda row: row["seed"])
    figures, other = Figures(ROWS), Figures(by_seed)
    np.testing.assert_array_equal(
        other.table("pure", ["sum", "max"]), figures.table("pure", ["sum", "max"])
    )


def test_figures_say_how_much_was_measured():
    assert Figures(ROWS).scope == "2 random splits of each of 2 data sets"
    one = [row for row in ROWS if row["set"] == "wine" and row["seed"] == 0]
    assert Figures(one).scope == "one random split of one data set"
    assert "quick" in Figures(one, quick=True).scope
    going_on = [row for row in ROWS if row["set"] == "wine" or row["seed"] == 0]
    assert Figures(going_on).scope == "1 to 2 random splits of each of 2 data sets"


def test_the_paper_s_sets_are_all_ten_and_no_other():
    rows = [row | {"set": name} for name in UCI for row in ROWS[:1]]
    assert Figures(rows).are_the_papers
    assert not Figures(rows[1:]).are_the_papers
    assert not Figures([*rows, ROWS[0] | {"set": "pumps.csv"}]).are_the_papers


# ------------------------------------------------------------------------------------------ measure


def test_rows_are_complete(sets, tmp_path):
    rows = measure_methods("some", METHODS, Options(tmp_path, seeds=2), NON_PURE)
    expected = [
        *product(UCI, range(2), ["pure"], METHODS, ["auc", "g_mean"]),
        *product(UCI, range(2), ["non-pure"], [*METHODS, *NON_PURE], ["auc", "g_mean"]),
    ]
    assert sorted(tuple(row[c] for c in COLUMNS) for row in rows) == sorted(expected)
    assert len(calls) == 10 * 2 * EACH_SPLIT
    assert {protocol for *_, protocol in calls} == {PAPER}
    assert read_rows(tmp_path / "some.jsonl") == rows


def test_values_and_choices_are_those_of_a_split_by_hand(sets, tmp_path):
    rows = measure_methods("some", METHODS, Options(tmp_path, seeds=2, sets=("wine",)), NON_PURE)
    data = sets("wine")
    for seed, setting in product(range(2), SETTINGS):
        parts = split(data.X, data.y, PAPER, seed)
        fitted = METHODS["Euclid"](parts.training(setting))
        found = {
            row["metric"]: row
            for row in rows
            if (row["seed"], row["setting"], row["method"]) == (seed, setting, "Euclid")
        }
        assert {metric: row["value"] for metric, row in found.items()} == parts.judge(fitted)
        assert found["auc"]["choices"] == {"power": 2.0}


def test_non_pure_methods_are_measured_where_anomalies_teach(sets, tmp_path):
    rows = measure_methods("some", {}, Options(tmp_path, seeds=1, sets=("wine",)), NON_PURE)
    assert {row["setting"] for row in rows} == {"non-pure"}
    assert all(non_pure for _, non_pure, _ in calls)


def test_nothing_is_measured_twice(sets, tmp_path):
    options = Options(tmp_path, seeds=2, sets=("wine", "iris"))
    first = measure_methods("some", METHODS, options, NON_PURE)
    assert len(calls) == 4 * EACH_SPLIT
    assert measure_methods("some", METHODS, options, NON_PURE) == first
    assert len(calls) == 4 * EACH_SPLIT
    more = measure_methods("some", METHODS, replace(options, seeds=3), NON_PURE)
    assert len(calls) == 6 * EACH_SPLIT
    assert [row for row in more if row["seed"] < 2] == first


def test_an_interrupted_run_goes_on_where_it_stopped(sets, tmp_path):
    options = Options(tmp_path, seeds=3, sets=("wine",))

    def interrupted(training):
        if training.seed == 2 and not calls_went_on:
            raise KeyboardInterrupt
        return METHODS["Euclid"](training)

    calls_went_on = []
    with pytest.raises(KeyboardInterrupt):
        measure_methods("some", {"Euclid": interrupted}, options)
    assert {row["seed"] for row in read_rows(tmp_path / "some.jsonl")} == {0, 1}
    calls.clear()
    calls_went_on.append(True)
    rows = measure_methods("some", {"Euclid": interrupted}, options)
    assert {seed for seed, *_ in calls} == {2}
    assert rows == measure_methods("other", {"Euclid": METHODS["Euclid"]}, options)


def test_other_methods_are_other_figures(sets, tmp_path):
    options = Options(tmp_path, seeds=1, sets=("wine",))
    one = measure_methods("some", METHODS, options)
    two = measure_methods("some", {**METHODS, **NON_PURE}, options)
    assert {row["method"] for row in one} == set(METHODS)
    assert {row["method"] for row in two} == {*METHODS, *NON_PURE}


def test_show_only_reads(sets, tmp_path, monkeypatch):
    options = Options(tmp_path, seeds=1, sets=("wine",))
    shown = replace(options, show=True)
    with pytest.raises(FileNotFoundError, match="nothing has been measured yet"):
        measure_methods("some", METHODS, shown)
    assert not list(tmp_path.iterdir())
    rows = measure_methods("some", METHODS, options)
    calls.clear()
    monkeypatch.setattr(experiment, "load_dataset", None)
    assert measure_methods("some", METHODS, shown) == rows
    with pytest.raises(FileNotFoundError, match=r"no results of .* Leave --show out to measure"):
        measure_methods("some", NON_PURE, shown)
    assert not calls


def test_quick_rows_and_full_ones_never_mix(sets, tmp_path):
    full = Options(tmp_path, seeds=2, sets=("wine",))
    quick = replace(full, quick=True)
    slow_rows = measure_methods("some", METHODS, full)
    quick_rows = measure_methods("some", METHODS, quick)
    assert {protocol for *_, protocol in calls} == {PAPER, QUICK}
    assert not {row["protocol"] for row in slow_rows} & {row["protocol"] for row in quick_rows}
    assert {row["seed"] for row in quick_rows} == {0}
    for options, rows in ((full, slow_rows), (quick, quick_rows)):
        assert measure_methods("some", METHODS, replace(options, show=True)) == rows
        assert measure_methods("some", METHODS, options) == rows
    assert len(read_rows(tmp_path / "some.jsonl")) == len(slow_rows) + len(quick_rows)


# --------------------------------------------------------------------------------------- own tables


def options_for(table, **changes):
    given = {"seeds": 1, "sets": (str(table),), "label": "status", "normal": "ok"}
    return Options(table.parent / "out", **(given | changes))


def test_a_table_of_one_s_own(table):
    rows = measure_methods("some", METHODS, options_for(table), NON_PURE)
    assert {row["set"] for row in rows} == {"pumps.csv"}
    assert len(rows) == 2 * EACH_SPLIT
    assert min(row["value"] for row in rows if row["metric"] == "auc") > 50
    assert measure_methods("some", METHODS, options_for(table, show=True), NON_PURE) == rows


def test_a_table_with_other_read_options_is_measured_again(table):
    right, wrong = (
        measure_methods("some", METHODS, options_for(table, normal=normal))
        for normal in ("ok", "worn")
    )
    assert right != wrong
    table.write_text(table.read_text() + "0.1,0.2,north,ok\n")
    longer = measure_methods("some", METHODS, options_for(table))
    assert longer[0]["protocol"] not in {right[0]["protocol"], wrong[0]["protocol"]}


@cases(
    ("changes", "message"),
    [
        ({"sets": ("missing.csv",)}, "missing.csv"),
        ({"sets": ("irs",)}, "iris"),
        ({"label": "state"}, "status"),
        ({"normal": "fine"}, "normal="),
    ],
)
def test_what_cannot_be_read_is_refused_before_any_work(table, changes, message):
    changes = {"sets": ("iris", *changes.pop("sets", (str(table),))), **changes}
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        measure_methods("some", METHODS, options_for(table, **changes))
    assert not calls
    assert not (table.parent / "out").exists()


@pytest.mark.parametrize(("normals", "anomalies"), [(60, 2), (3, 24)])
def test_too_few_rows_are_refused_before_any_work(tmp_path, normals, anomalies):
    X, y = rows_and_labels(normals, anomalies)
    path = tmp_path / "few.csv"
    pl.DataFrame({"a": X[:, 0], "label": y}).write_csv(path)
    options = Options(tmp_path / "out", seeds=1, sets=("iris", str(path)))
    with pytest.raises(ValueError, match=rf"few.csv has {normals} normal rows and {anomalies}"):
        measure_methods("some", METHODS, options)
    assert not calls


@pytest.mark.slow
def test_rows_are_identical_for_any_number_of_jobs(table):
    methods = {"SVDD": single("SVDD"), "sum": fusion(lambda seed: FixedRule("sum")), "ℓp": lp()}
    one, two = (
        measure_methods(f"jobs{jobs}", methods, options_for(table, quick=True, jobs=jobs))
        for jobs in (1, 2)
    )
    assert one == two
    out = table.parent / "out"
    assert (out / "jobs1.jsonl").read_bytes() == (out / "jobs2.jsonl").read_bytes()
