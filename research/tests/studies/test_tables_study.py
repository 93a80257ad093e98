"""Tables: splits against a naive version, halves, rivals, rows that are measured once."""

import json
import os
from collections import Counter

import numpy as np
import pytest
from scipy.stats import rankdata
from sklearn.cluster import KMeans

from helpers.cases import cases
from lpfuse import FusedDetector, TwoSidedMinMax
from research.common.store import read_records
from research.studies.tables.ours import OURS, control_names, method_named
from research.studies.tables.rivals import RIVALS, Method
from research.studies.tables.splits import (
    LABELS,
    MODES,
    Training,
    half_of,
    load_rows,
    source_of,
    split_table,
    table_key,
    table_names,
)
from research.studies.tables.study import ASKED, Plan, measure_tables

needs_tables = pytest.mark.skipif(
    not os.environ.get("LPFUSE_DATA"), reason="LPFUSE_DATA names no folder with tables/*.npz"
)


def random_table(normals=160, anomalies=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(normals + anomalies, 3)) * [1.0, 50.0, 1e-3]
    X[normals:] += rng.choice([-4.0, 4.0], size=(anomalies, 1)) * [1.0, 50.0, 1e-3]
    order = rng.permutation(len(X))
    return X[order], (np.arange(len(X)) >= normals)[order]


def naive_split(X, y, seed, mode):
    """The protocol once more, a row at a time; None or (train, test, sought, known)."""
    rng = np.random.default_rng(1000 + seed)
    normals = list(rng.permutation([i for i in range(len(y)) if not y[i]]))[:2400]
    anomalies = list(rng.permutation([i for i in range(len(y)) if y[i]]))[:1600]
    cut = int(0.75 * len(normals))
    train, test = normals[:cut], normals[cut:]
    train = train[:1200]

    def z(rows, by):
        columns = []
        for j in range(X.shape[1]):
            known = np.array([X[i, j] for i in by])
            spread = known.std() if known.std() > 0 else 1.0
            values = [(X[i, j] - known.mean()) / spread for i in rows]
            columns.append([min(max(v, -10.0), 10.0) for v in values])
        return np.array(columns).T

    hidden = []
    known, sought = anomalies[: len(anomalies) // 2], anomalies[len(anomalies) // 2 :]
    if mode == "unseen":
        cluster = KMeans(2, n_init=5, random_state=0).fit(z(anomalies, train)).labels_
        sides = [[i for i, c in zip(anomalies, cluster, strict=True) if c == k] for k in (0, 1)]
        known, sought = sorted(sides, key=len)
    if mode == "contaminated":
        n_hidden = min(round(len(train) / 19), len(known) // 2)  # 5 % of all, so 1 : 19
        hidden = known[len(known) - n_hidden :]
        known = known[: len(known) - n_hidden]
    if len(known) < 5 or len(sought) < 5:
        return None
    rows = train + hidden
    return z(rows, rows), z(test, rows), z(sought[:600], rows), z(known[:100], rows)


def assert_same_split(X, y, seed, mode):
    ours, naive = split_table(X, y, seed, mode), naive_split(X, y, seed, mode)
    assert (ours is None) == (naive is None)
    if naive is not None:
        found = ours.train, ours.test, ours.sought, ours.known
        for mine, theirs in zip(found, naive, strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-7)  # float columns of heavy tails


@cases("mode", MODES)
@cases("sizes", [(160, 60), (1800, 450), (60, 9), (40, 21)])
def test_rows_are_split_as_the_naive_version_splits_them(mode, sizes):
    for seed in (0, 1):
        assert_same_split(*random_table(*sizes, seed=3), seed, mode)


@needs_tables
@pytest.mark.parametrize("mode", MODES)
def test_real_tables_are_split_as_the_naive_version_splits_them(mode):
    for name in table_names()[::60]:
        assert_same_split(*load_rows(name), 0, mode)


def test_a_constant_column_stays_finite():
    X, y = random_table()
    parts = split_table(np.c_[X, np.full(len(X), 7.0)], y, 0, "seen")
    assert np.isfinite(parts.train).all()
    assert np.isfinite(parts.sought).all()


@cases(
    ("anomalies", "counts"),
    [(400, [0, 5, 20, 100]), (60, [0, 5, 20, 100]), (40, [0, 5, 20]), (24, [0, 5, 20])],
)
def test_too_many_labels_stand_for_all_there_are_once(anomalies, counts):
    parts = split_table(*random_table(160, anomalies), 0, "seen")
    assert parts.label_counts(LABELS) == counts
    assert len(parts.training(100).anomalies) == min(100, anomalies // 2)


def test_labels_say_unknown_where_nobody_vouches():
    rows = {mode: split_table(*random_table(), 0, mode) for mode in ("seen", "contaminated")}
    assert (rows["seen"].training(0).y == 1).all()  # somebody vouches for them
    assert Counter(rows["seen"].training(5).y) == {1: 120, -1: 5}
    assert Counter(rows["contaminated"].training(5).y) == {0: 126, -1: 5}


# ----------------------------------------------------------------------------------------- halves


def test_sources_alternate_within_families_and_stay_whole():
    names = ["odd-B", "odd-A", "odd-C", "ovr-b_i1", "ovr-b_i2", "ovr-a-a2", "ovr-a-d1", "ovr-c"]
    choosing = [name for name, half in half_of(names).items() if half == "choose"]
    assert choosing == ["odd-A", "odd-C", "ovr-a-a2", "ovr-a-d1", "ovr-c"]
    assert half_of(names) == half_of(sorted(names, reverse=True))


@needs_tables
def test_halves_have_equal_size_and_share_no_source():
    halves = half_of(table_names())
    counts = Counter((name[:3], half) for name, half in halves.items())
    for family in ("odd", "ovr"):
        assert abs(counts[family, "choose"] - counts[family, "confirm"]) <= 2
    of_source = {}
    for name, half in halves.items():
        assert of_source.setdefault(source_of(name), half) == half
    assert len({table_key(name) for name in halves}) == len(halves)


# ----------------------------------------------------------------------------------------- rivals


@pytest.mark.parametrize("name", [name for name in RIVALS if name != "XGBOD"])
def test_a_rival_scores_normal_rows_higher(name):
    method = RIVALS[name]
    pytest.importorskip(method.package)
    parts = split_table(*random_table(200, 60), 0, "seen")
    score = method.learn(parts.training(20 if method.labels == "needs" else 0), 0)
    normal, anomalous = score(parts.test), score(parts.sought)
    assert normal.shape == (len(parts.test),)
    assert normal.mean() > anomalous.mean()


@pytest.mark.filterwarnings(
    "ignore::UserWarning"
)  # PyOD and XGBoost, of how the one calls the other
def test_xgbod_scores_normal_rows_higher():
    for package in ("pyod", "xgboost"):
        pytest.importorskip(package)
    parts = split_table(*random_table(90, 30), 0, "seen")
    score = RIVALS["XGBOD"].learn(parts.training(10), 0)
    assert score(parts.test).mean() > score(parts.sought).mean()


def test_the_nearest_neighbours_of_few_rows():
    rows = np.array([[0.0], [1.0], [3.0]])
    score = RIVALS["kNN-5"].learn(Training(rows, rows[:0], True), 0)
    np.testing.assert_array_equal(score(np.array([[0.0], [5.0]])), [-3.0, -5.0])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # PyOD's PCA divides by zero
def test_the_average_survives_a_column_without_variance():
    pytest.importorskip("pyod")
    X, y = random_table()
    parts = split_table(np.c_[X, np.full(len(X), 7.0)], y, 0, "seen")
    score = RIVALS["PyOD, average of eight"].learn(parts.training(0), 0)
    assert np.isfinite(score(parts.sought)).all()


def test_a_name_that_nobody_knows():
    with pytest.raises(ValueError, match=r"no method 'CatBost'.*CatBoost.*module:function"):
        method_named("CatBost")


# ------------------------------------------------------------------------------------------- rows


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "tables").mkdir()
    for number, name in enumerate(["odd-A", "odd-B", "ovr-c"]):
        X, y = random_table(120, 30, seed=number)
        np.savez(tmp_path / "tables" / f"{name}.npz", X=X.astype(np.float32), y=y.astype(int))
    monkeypatch.setenv("LPFUSE_DATA", str(tmp_path))
    return tmp_path


def rows_of(path):
    return [row for row in read_records([path], ASKED) if row["kind"] == "auc"]


def test_rows_are_measured_once_and_name_no_table(folder):
    path = folder / "rows.jsonl"
    plan = Plan(("kNN-5", "logistic regression"), modes=("seen", "unseen"), seeds=2)
    measure_tables(plan, path)
    written = path.read_text()
    rows = rows_of(path)
    asked = Counter((row["method"], row["labels"]) for row in rows if row["mode"] == "seen")
    assert asked == {("kNN-5", 0): 6, **{("logistic regression", k): 6 for k in (5, 20)}}
    assert {row["table"] for row in rows} == {table_key(n) for n in ("odd-A", "odd-B", "ovr-c")}
    assert "odd-A" not in written
    assert all(0 <= row["auc"] <= 100 and row["seconds"] >= 0 for row in rows)
    measure_tables(plan, path)
    assert path.read_text() == written
    measure_tables(Plan(("isolation forest",), half="confirm"), path)
    assert path.read_text().startswith(written)
    added = [row for row in rows_of(path) if row["method"] == "isolation forest"]
    assert [(row["family"], row["half"]) for row in added] == [("odd", "confirm")]


def test_one_fit_without_labels_serves_both_kinds_of_anomalies(folder, monkeypatch):
    fitted = []

    def learn(training, seed):
        fitted.append(training)
        return lambda rows: -np.abs(rows).sum(axis=1)

    monkeypatch.setitem(RIVALS, "counted", Method(learn, "takes"))
    measure_tables(Plan(("counted",), (0, 5), MODES, half="confirm"), folder / "rows.jsonl")
    found = rows_of(folder / "rows.jsonl")
    assert [(row["mode"], row["labels"]) for row in found] == [
        (m, k) for m in MODES for k in (0, 5)
    ]
    assert len(fitted) == 5  # of six rows


def test_a_failure_is_told_and_tried_again(folder, monkeypatch, capsys):
    def learn(training, seed):
        raise MemoryError("too many rows")

    path = folder / "rows.jsonl"
    plan = Plan(("broken", "kNN-5"), (0,), half="confirm")
    monkeypatch.setitem(RIVALS, "broken", Method(learn, "ignores"))
    measure_tables(plan, path)
    assert "broken failed on" in capsys.readouterr().err
    assert [row["method"] for row in rows_of(path)] == ["kNN-5"]
    monkeypatch.setitem(RIVALS, "broken", RIVALS["LOF"])
    measure_tables(plan, path)
    assert [row["method"] for row in rows_of(path)] == ["kNN-5", "broken"]


def test_a_missing_package_leaves_its_rival_out_with_a_word(folder, monkeypatch, capsys):
    monkeypatch.setitem(RIVALS, "absent", Method(RIVALS["LOF"].learn, "ignores", "no_such_package"))
    measure_tables(Plan(("absent", "LOF"), (0,)), folder / "rows.jsonl")
    assert "absent is left out: no_such_package is not installed." in capsys.readouterr().err
    assert {row["method"] for row in rows_of(folder / "rows.jsonl")} == {"LOF"}


def test_a_folder_without_tables_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("LPFUSE_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="set LPFUSE_DATA to a folder that holds tables"):
        Plan(("LOF",)).tables()


@pytest.mark.parametrize("address", ["lpfuse:GMMDetector", "the mixture=lpfuse:GMMDetector"])
def test_a_detector_of_ours_is_measured_by_its_address(folder, address):
    measure_tables(Plan((address,), (0,), half="confirm"), folder / "rows.jsonl")
    (row,) = rows_of(folder / "rows.jsonl")
    assert row["method"] == address.partition("=")[0]
    assert json.dumps(row)  # plain numbers


def test_a_fused_detector_answers_for_its_controls_from_one_fit():
    parts = split_table(*random_table(80, 40), 0, "seen")
    training = parts.training(10)
    found = OURS["lpfuse"].learn(training, 0)(parts.test)
    fused = FusedDetector(random_state=0).fit(training.X, training.y)
    np.testing.assert_array_equal(found[""], fused.score_samples(parts.test))
    known = fused.out_of_fold_
    scaler = TwoSidedMinMax().fit(known.scores[known.usable & (known.labels > 0)])
    summed = scaler.transform(fused.detector_scores(parts.test)).sum(axis=1)
    np.testing.assert_allclose(found[", sum"], summed)
    members = [f", {name} alone" for name in fused.detector_names_]
    assert list(found) == ["", ", sum", ", picked", ", stacked", *members]
    untaught = OURS["lpfuse"].learn(parts.training(0), 0)(parts.test)
    assert ", stacked" not in untaught, "it would be the sum once more"
    picked = [rankdata(found[member]) for member in members]
    assert any((rankdata(found[", picked"]) == ranks).all() for ranks in picked)
    held_against = {name.removeprefix("lpfuse") for name in control_names("lpfuse")}
    assert {", sum", ", picked", ", trees alone", ", svm alone"} <= held_against & set(found)
