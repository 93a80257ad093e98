"""The learning curve over labelled anomalies, on small sets and with a small pool."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import rankdata
from sklearn.naive_bayes import GaussianNB

from lpfuse import FixedRule, FusedDetector, KernelPCADetector, LpFusion, OneClassGP
from research.common.options import Options
from research.common.protocol import area
from research.common.splits import split
from research.common.store import read_rows
from research.paper import labels
from research.paper.labels import CurveData, learnt, rows_of, run
from research.paper.labels_page import HINDSIGHT, OUR_PICK, OUR_STACKER, OUR_SUM
from research.rivals.dynamic import DynamicEnsemble
from research.rivals.fusion import RIVALS

POOL = [("kpca", KernelPCADetector()), ("gp", OneClassGP(gamma=1.0))]
COUNTS = (0, 1, 2, 5, 10)
SPLIT = replace(labels.SPLIT, most_rows=60)
ALONE = {"kpca alone", "gp alone", HINDSIGHT}
fitted = []  # what methods learnt from, as (name, estimator, scores or rows, labels)


class RecordedLp(LpFusion):
    def fit(self, S, y=None, sample_weight=None):
        super().fit(S, y, sample_weight)
        fitted.append(("lp", self, S, y))
        return self


class Ours(FusedDetector):
    def fit(self, X, y=None):
        super().fit(X, y)
        fitted.append(("ours", self, X, y))
        return self


def ours(**given):
    """A FusedDetector of few detectors; an expert joins where there are labels enough."""
    assert list(given) == ["random_state"], "ours is the default with nothing but a seed"
    expert = ("tutor", GaussianNB())
    return Ours([*POOL, expert], cv=2, **given)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    rivals = {
        "sum": lambda seed: FixedRule("sum"),
        "lp": lambda seed: RecordedLp(2.0, class_weight="balanced"),
        "dynamic": lambda seed: DynamicEnsemble(random_state=seed),
    }
    monkeypatch.setattr(labels, "heterogeneous", lambda n: POOL)
    monkeypatch.setattr(labels, "FusedDetector", ours)
    monkeypatch.setattr(labels, "SUPERVISED", {"bayes alone": GaussianNB()})
    monkeypatch.setattr(labels, "at_hand", lambda: rivals)
    monkeypatch.setattr(
        labels, "ENSEMBLES", {"whole": lambda seed, d: KernelPCADetector(min(d, 2))}
    )
    monkeypatch.setattr(labels, "COUNTS", COUNTS)
    monkeypatch.setattr(labels, "SPLIT", SPLIT)
    monkeypatch.setattr(labels, "draw", lambda areas, path: path.write_text("figure"))
    fitted.clear()


def rows_and_labels(anomalies=20, seed=0):
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(size=(60, 3)), rng.normal(1.5, 1.0, size=(anomalies, 3))])
    return X, np.repeat([1, -1], [60, anomalies])


def areas_of(X, y, seed=0):
    """Test AUCs by number of labels and method."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few rows, as whoever measures splits does
        rows = rows_of(split(X, y, SPLIT, seed), COUNTS)
    return {(int(row["setting"].split()[0]), row["method"]): row["value"] for row in rows}


def positions(y, seed):
    """Which rows are where: a split deals them out by y and the seed alone."""
    parts = split(np.arange(len(y), dtype=float)[:, None], y, SPLIT, seed)
    found = [parts.train, parts.test, parts.known, parts.sought]
    ranks = rankdata(np.concatenate(found)[:, 0]).astype(int) - 1
    return np.split(ranks, np.cumsum([len(part) for part in found])[:-1])


@pytest.fixture
def folder(tmp_path):
    """A local folder: one set with five known anomalies, one with two."""
    (tmp_path / "anomaly").mkdir()
    for name, anomalies in (("many", 10), ("few", 4)):
        X, y = rows_and_labels(anomalies)
        np.savez(tmp_path / "anomaly" / f"{name}.npz", X=X, y=(y < 0).astype(int))
    return tmp_path


def options(folder, **changes):
    return Options(out=folder / "out", data=folder, **({"seeds": 2} | changes))


def anomalies_in(y):
    """How many are labelled; none where there are no labels, or one label for all rows."""
    return 0 if y is None else int((np.asarray(y) < 0).sum())


def weights_by_count():
    """What was learnt, by name and number of labels."""
    return {(name, anomalies_in(y)): estimator.weights_ for name, estimator, _, y in fitted}


# --------------------------------------------------------------------------------------- the split


def test_more_labels_contain_fewer():
    X, y = rows_and_labels()
    areas_of(X, y)
    for method in ("ours", "lp"):
        tables = {anomalies_in(t): S for name, _, S, t in fitted if name == method}
        assert tuple(tables) == COUNTS
        for k, S in tables.items():
            assert len(S) == 42 + k
            np.testing.assert_array_equal(S, tables[10][: 42 + k])


def test_labelled_anomalies_and_those_sought_share_no_row():
    X, y = rows_and_labels()
    parts = split(X, y, SPLIT, 0)
    areas_of(X, y)
    learnt_from = {tuple(row) for name, _, rows, _ in fitted if name == "ours" for row in rows}
    assert learnt_from == {tuple(row) for row in (*parts.train, *parts.known)}
    assert not learnt_from & {tuple(row) for row in (*parts.test, *parts.sought)}


def test_rows_of_the_test_teach_nothing():
    X, y = rows_and_labels()
    _, test, _, sought = positions(y, 0)
    honest = areas_of(X, y)
    weights = weights_by_count()
    corrupt = X.copy()
    corrupt[np.concatenate([test, sought])] = np.random.default_rng(1).normal(size=(28, 3))
    fitted.clear()
    changed = areas_of(corrupt, y)
    assert weights_by_count().keys() == weights.keys()
    for key, found in weights_by_count().items():
        np.testing.assert_array_equal(found, weights[key])
    assert changed[10, "lp"] != honest[10, "lp"]


def test_anomalies_teach_from_the_number_on_that_labels_them():
    X, y = rows_and_labels()
    *_, known, _ = positions(y, 0)
    areas_of(X, y)
    weights = weights_by_count()
    X[known[5:]] += 3.0
    fitted.clear()
    areas_of(X, y)
    for (method, k), found in weights_by_count().items():
        assert np.array_equal(found, weights[method, k]) == (k <= 5), (method, k)


def test_areas_come_from_detectors_trained_on_normal_rows():
    X, y = rows_and_labels()
    parts = split(X, y, SPLIT, 3)
    found = areas_of(X, y, 3)
    rows = np.concatenate([parts.test, parts.sought])
    truth = np.repeat([1, -1], [len(parts.test), len(parts.sought)])
    alone = {
        name: 100 * area(truth, detector.fit(parts.train).score_samples(rows))
        for name, detector in POOL
    }
    for name, value in alone.items():
        assert found[0, f"{name} alone"] == pytest.approx(value)
    assert found[0, HINDSIGHT] == pytest.approx(max(alone.values())) != min(alone.values())
    ours = next(e for name, e, _, t in fitted if name == "ours" and anomalies_in(t) == 5)
    assert found[5, "ours"] == pytest.approx(100 * area(truth, ours.score_samples(rows)))
    tutor = ours.detector_scores(rows)[:, 2]
    assert found[5, "expert tutor alone"] == pytest.approx(100 * area(truth, tutor))


def test_rivals_see_scores_on_a_scale_of_normal_rows():
    X, y = rows_and_labels()
    parts = split(X, y, SPLIT, 0)
    data = CurveData.of(parts.train, parts.known, 0)
    normal = data.scaled[: len(parts.train)]
    np.testing.assert_array_equal(((normal < -1) | (normal > 1)).sum(axis=0), 4)  # 2.5 % are 1.05
    assert data.scaled[len(parts.train) :].mean() < normal.mean() - 0.5


@pytest.mark.filterwarnings("ignore:'tutor' give most normal rows the same score")
@pytest.mark.filterwarnings("ignore:n_components=10 of 10 rows")
def test_what_needs_features_is_given_them():
    X, y = rows_and_labels()
    parts = split(X, y, SPLIT, 0)
    data = CurveData.of(parts.train, parts.known, 0)
    score = {(k, name): score for k, name, score in learnt(data, (5,))}[5, "dynamic"]
    rows = data.seen(parts.test)
    given = {"X": data.rows(5), "ask": lambda X: data.seen(X).scaled}
    by_hand = DynamicEnsemble(random_state=0).fit(data.scaled[:47], data.labels(5), **given)
    np.testing.assert_array_equal(score(rows), by_hand.score_samples(rows.scaled, X=parts.test))


@pytest.mark.filterwarnings("ignore::UserWarning")  # of few rows
def test_controls_have_the_detectors_and_labels_of_ours():
    X, y = rows_and_labels()
    parts = split(X, y, SPLIT, 0)
    data = CurveData.of(parts.train, parts.known, 0)
    found = {(k, name): score for k, name, score in learnt(data, (5,))}
    rows = data.seen(parts.test)
    ours = next(estimator for name, estimator, *_ in fitted if name == "ours")
    added = ours.with_fusion(FixedRule("sum"))
    assert "tutor" in added.detector_names_
    np.testing.assert_array_equal(found[5, OUR_SUM](rows), added.score_samples(parts.test))
    by_hand = GaussianNB().fit(data.rows(5), data.labels(5)).predict_proba(parts.test)[:, 1]
    ranks = rankdata(found[5, "bayes alone"](rows))
    np.testing.assert_array_equal(ranks, rankdata(by_hand))


# ----------------------------------------------------------------------------------- the whole run


def test_rows_are_complete(folder):
    run(options(folder))
    stored = read_rows(folder / "out" / "labels.jsonl")
    found = {(row["set"], row["seed"], row["setting"], row["method"]) for row in stored}
    assert len(found) == len(stored)
    expected = set()
    for seed in (0, 1):
        for name, counts in (("many", (0, 1, 2, 5)), ("few", (0, 1, 2))):
            for k in counts:
                methods = {"ours", "lp", "dynamic", OUR_SUM, OUR_PICK}
                methods |= {"sum", "whole", *ALONE} if k == 0 else {OUR_STACKER}
                methods |= {"expert tutor alone", "bayes alone"} if k >= 2 else set()
                setting = "1 label" if k == 1 else f"{k} labels"
                expected |= {(name, seed, setting, method) for method in methods}
    assert found == expected
    assert {row["metric"] for row in stored} == {"auc"}
    assert all(0 <= row["value"] <= 100 for row in stored)


def test_show_measures_nothing(folder, monkeypatch):
    text = run(options(folder, seeds=1))
    assert (folder / "out" / "labels.md").read_text() == text
    (folder / "out" / "labels.md").unlink()
    (folder / "out" / "labels.png").unlink()
    monkeypatch.setattr(labels, "rows_of", lambda parts, counts: 1 / 0)
    monkeypatch.setattr(labels, "anomaly_names", None)
    shown = run(Options(out=folder / "out", data=folder / "nowhere", show=True))
    assert shown == text == (folder / "out" / "labels.md").read_text()
    assert (folder / "out" / "labels.png").read_text() == "figure"


def test_quick_and_full_figures_do_not_mix(folder, monkeypatch):
    monkeypatch.setattr(labels, "QUICK_COUNTS", (0, 1))
    with pytest.raises(FileNotFoundError, match="nothing has been measured"):
        run(options(folder, show=True))
    text = run(options(folder, quick=True))
    assert "1 random split of" in text
    assert "2 labels" not in text
    with pytest.raises(FileNotFoundError, match="Leave --show out"):
        run(options(folder, show=True))


def test_sets_can_be_chosen(folder):
    text = run(options(folder, seeds=1, sets=("few",)))
    assert "| few |" in text
    assert "| many |" not in text


def test_without_the_local_folder_a_message_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cannot be downloaded.*LPFUSE_DATA"):
        run(options(tmp_path))


def test_the_protocol_is_the_one_that_was_asked_for(monkeypatch):
    monkeypatch.undo()
    assert labels.COUNTS == (0, 1, 2, 5, 10, 20, 50, 100)
    assert labels.QUICK_COUNTS == (0, 5, 20)
    split = labels.SPLIT
    shares = split.training, split.validation, split.known, split.most_rows
    assert shares == (0.7, 0.0, 0.5, 1000)
    assert labels.QUICK_SPLIT == replace(split, most_rows=300)


def test_results_name_every_method_even_unavailable_ones(folder, monkeypatch):
    """Rows that were measured without an optional package can be shown where it is installed."""
    asked = {}
    monkeypatch.setattr(
        labels, "measure_splits", lambda name, work, options, **given: asked.update(given) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        run(options(folder))
    controls = {OUR_SUM, OUR_PICK, OUR_STACKER, "bayes alone"}
    assert set(asked["methods"]) == {"ours", *controls, *RIVALS, "whole"}
    assert "genetic" in asked["methods"]
    assert (asked["labels"], asked["protocol"]) == (COUNTS, SPLIT)
    with pytest.raises(ZeroDivisionError):
        run(options(folder, quick=True))
    assert (asked["labels"], asked["protocol"]) == (labels.QUICK_COUNTS, labels.QUICK_SPLIT)
