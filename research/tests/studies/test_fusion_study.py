"""The study of the fused detector's defaults: its parts, its rules, and what its tables say."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from lpfuse import LpFusion
from research.studies.fusion import pool, rules, study, tables
from research.studies.fusion.parts import FOLDS, parts_of
from research.studies.fusion.pool import Scores
from research.studies.fusion.rules import Rule


@pytest.fixture
def rows():
    """Normals around 0; anomalies of two kinds, twenty here and ten there."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(80, 3)), rng.normal(4, 0.5, (20, 3)), rng.normal(-6, 0.5, (10, 3))]
    return np.vstack(parts), np.repeat([False, True], [80, 30])


@pytest.fixture
def parts(rows):
    return parts_of(*rows, seed=0)


@pytest.fixture
def few(monkeypatch):
    """Two cheap detectors and one cheap expert."""
    chosen = {name: pool.DETECTORS[name] for name in ("svdd", "gmm")}
    monkeypatch.setattr(pool, "DETECTORS", chosen)
    monkeypatch.setattr(study, "DETECTORS", chosen)
    monkeypatch.setattr(study, "POOLS", {"six": ("gmm", "svdd"), "four": ("svdd",)})
    experts = {"logistic": pool.EXPERTS["logistic"], "free": lambda seed: LogisticRegression(C=10)}
    monkeypatch.setattr(pool, "EXPERTS", experts)
    monkeypatch.setattr(study, "EXPERTS", experts)
    pools = {"two experts": ("logistic",), "three experts": ("logistic", "free")}
    monkeypatch.setattr(study, "EXPERT_POOLS", pools)
    monkeypatch.setattr(study, "LABELS", (0, 2, 5, 20, 50))
    monkeypatch.setattr(study, "RULES", {"chosen": rules.CHOSEN, "no imaginary": Rule(imaginary=0)})


def test_training_rows_set_the_scale_and_all_have_folds(parts):
    assert parts.train.shape == (56, 3)
    assert len(parts.test) == 24
    assert parts.train.mean(axis=0) == pytest.approx(0, abs=1e-12)
    assert parts.train.std(axis=0) == pytest.approx(1)
    assert np.bincount(parts.fold_of_train).tolist() == [12, 11, 11, 11, 11]
    assert np.bincount(parts.fold_of_anomalies).tolist() == [6] * FOLDS


def test_unseen_kinds_are_those_of_the_larger_cluster(parts):
    (seen, half, rest), (unseen, known, sought) = parts.situations()
    assert (seen, unseen) == ("seen", "unseen")
    assert sorted([*half, *rest]) == sorted([*known, *sought]) == list(range(30))
    assert len(half) == 15
    assert (parts.anomalies[known] < 0).all()
    assert (parts.anomalies[sought] > 0).all()
    assert len(known) == 10


def test_rows_are_scored_by_detectors_that_have_not_seen_them(parts, few):
    found = pool.one_class_scores(parts)
    fold, own = parts.fold_of_train == 3, parts.fold_of_anomalies == 3
    detector = pool.DETECTORS["svdd"](0, 0).fit(parts.train[~fold])
    assert found.train[fold, 0] == pytest.approx(detector.score_samples(parts.train[fold]))
    expected = detector.score_samples(parts.anomalies[own])
    assert found.anomalies_by_fold[own, 0] == pytest.approx(expected)
    detector.fit(parts.train)
    assert found.test[:, 0] == pytest.approx(detector.score_samples(parts.test))
    assert found.anomalies[:, 0] == pytest.approx(detector.score_samples(parts.anomalies))
    assert found.jittered[:, 0].mean() < found.train[:, 0].mean()


def test_experts_see_features_and_out_of_fold_scores(parts, few):
    known, sought = np.arange(7), np.arange(7, 30)
    scaled = pool.one_class_scores(parts).situation(known, sought).scaled()
    found = pool.expert_scores(parts, known, sought, scaled, seed=0)
    assert [part.shape for part in found] == [(56, 2), (7, 2), (24, 2), (23, 2)]
    rest, others = parts.fold_of_train != 1, np.arange(7) % FOLDS != 1
    table = np.column_stack([parts.train, scaled.train])
    anomalies = np.column_stack([parts.anomalies[known], scaled.known])
    teaching, y = np.r_[table[rest], anomalies[others]], np.ones(rest.sum() + others.sum())
    y[rest.sum() :] = -1
    expert = pool.EXPERTS["logistic"](0).fit(teaching, y)
    assert found.train[~rest, 0] == pytest.approx(expert.decision_function(table[~rest]))
    assert found.known[~others, 0] == pytest.approx(expert.decision_function(anomalies[~others]))


def test_the_imaginary_anomaly_shares_the_cost_of_the_labelled_ones():
    rng = np.random.default_rng(1)
    normal, known = rng.normal(0.2, 0.6, (40, 3)), rng.normal([-1, -0.5, 0.3], 0.5, (4, 3))
    weights, gap = Rule(p=2.0, imaginary=6.0, imaginary_score=-1.5).weights(normal, known)
    S = np.r_[normal, known, np.full((6, 3), -1.5)]  # six rows of weight one instead
    y = np.repeat([1, -1], [40, 10])
    expected = LpFusion(p=2, nonnegative=True, fit_intercept=True, class_weight="balanced")
    assert weights == pytest.approx(expected.fit(S, y).weights_, abs=1e-5)
    assert gap <= 1e-8


def test_without_an_imaginary_anomaly_the_problem_is_the_plain_one():
    rng = np.random.default_rng(2)
    normal, known = rng.normal(0.2, 0.6, (40, 3)), rng.normal([-1, -0.5, 0.9], 0.5, (4, 3))
    weights, _ = Rule(4.0, False, False, imaginary=0).weights(normal, known)
    plain = LpFusion(p=4, class_weight="balanced")
    plain.fit(np.r_[normal, known], np.repeat([1, -1], [40, 4]))
    assert weights == pytest.approx(plain.weights_, abs=1e-5)
    pure, _ = Rule(2.0, imaginary=0).weights(normal, known[:0])
    assert pure == pytest.approx(LpFusion(p=2, nonnegative=True).fit(normal).weights_, abs=1e-5)


def test_the_imaginary_anomaly_keeps_weights_from_vanishing():
    """Five labelled anomalies that score above the normal rows do not silence the detectors."""
    rng = np.random.default_rng(3)
    normal = rng.normal(0, 0.5, (200, 3))
    with pytest.warns(UserWarning, match="best weights are zero"):
        silent, _ = Rule(imaginary=0).weights(normal, normal[:5] + 1.0)
    assert silent == pytest.approx(0, abs=1e-6)
    weights, _ = Rule().weights(normal, normal[:5] + 1.0)
    assert weights.max() > 0.05


def test_references():
    good, bad = np.array([1.0, 2.0, 3.0]), np.array([0.0, 4.0, 0.5])
    raw = Scores(
        np.c_[-bad, good], np.array([[-1.0, 0.0]]), np.c_[bad, good], np.array([[2.0, 0.5]])
    )
    found = study.references(raw, raw)
    assert found["hindsight"] == 100
    assert found["picked"] == 100  # the second puts the labelled anomaly lowest
    assert found["sum"] == pytest.approx(100 * 2 / 3)
    assert "picked" not in study.references(raw._replace(known=raw.known[:0]), raw)


def test_records_of_a_set(rows, few):
    records = list(study.records_of(*rows, seed=0))
    seen = [record for record in records if record["situation"] == "seen"]
    assert [record["labels"] for record in seen] == [0, 2, 5, 20, 50]
    assert [record["known"] for record in seen] == [0, 2, 5, 15, 15]
    assert seen[-1]["auc"] == seen[-2]["auc"]
    assert "jitter" in seen[0]["auc"]["six"]
    assert set(seen[0]["auc"]) == {"six", "four"}
    assert set(seen[1]["auc"]) == {
        "six",
        "four",
        "alone",
        "six + two experts",
        "six + three experts",
    }
    assert set(seen[2]["auc"]["alone"]) == {"logistic", "free"}
    assert {"chosen", "no imaginary", "picked"} <= set(seen[2]["auc"]["six + two experts"])
    assert "no imaginary" not in seen[2]["auc"]["six + three experts"]
    assert set(seen[2]["auc"]["four"]) == {"sum", "hindsight", "picked", "stacked", "chosen"}
    assert seen[2]["auc"]["six + two experts"]["chosen"] > 95
    assert max(record["relative_gap"] for record in records) <= 1e-8


def test_too_few_anomalies_make_no_record(rows, few):
    X, is_anomaly = rows
    records = list(study.records_of(X[:88], is_anomaly[:88], seed=0))
    assert {record["labels"] for record in records if record["situation"] == "seen"} == {0, 2}


def _record(name, labels, chosen, rival, seed=0, situation="seen"):
    aucs = {"sum": rival, "chosen": chosen, "p = 2": rival}
    alone = dict.fromkeys(aucs, 50.0)  # what "six" has where experts take part
    found = {"six": alone, "six + two experts": aucs} if labels else {"six": aucs}
    return {"set": name, "seed": seed, "situation": situation, "labels": labels, "known": labels,
            "relative_gap": 1e-9, "auc": found}  # fmt: skip


@pytest.fixture
def records():
    return [
        _record("a", 0, 80.0, 70.0),
        _record("a", 0, 90.0, 70.0, seed=1),
        _record("b", 0, 60.0, 65.0),
        _record("d01_c", 0, 50.0, 40.0),
        _record("a", 5, 88.0, 70.0),
        _record("b", 5, 88.0, 70.0),
    ]


def test_means_are_over_seeds_first_and_families_are_kept_apart(records):
    text = tables.means_table(tables.Results(records), "seen", "six")
    assert "| chosen | 72.5 / 50.0 | 50.0 / – |" in text
    assert "| sum | 67.5 / 40.0 | 50.0 / – |" in text


@pytest.mark.parametrize(
    ("known", "expected"),
    [(1, "six"), (2, "six + two experts"), (49, "six + two experts"), (50, "six + three experts")],
)
def test_the_default_pool_goes_by_the_anomalies_that_are_known(known, expected):
    assert tables.default_pool(known) == expected


def test_the_default_is_compared_with_experts_and_the_sum():
    record = _record("a", 5, 88.0, 70.0)
    record["auc"]["alone"] = {"trees": 81.0}
    found = tables.of_default(record)
    assert (found["chosen"], found["trees alone"], found["one-class sum"]) == (88.0, 81.0, 50.0)


def test_safety_is_judged_set_by_set(records):
    lines = tables.safety_table(tables.Results(records)).splitlines()
    assert "| seen | 0 | sum | 65.0 | 58.3 | 2 : 1 | b -5.0 | 0.5 |" in lines
    assert any(line.startswith("| seen | 5 | sum | 88.0 | 70.0 | 2 : 0 |") for line in lines)


def test_the_choice_is_checked_on_the_other_halves(records):
    text = tables.halves_table(tables.Results(records))
    assert "| chosen | 70.17 |" in text
    assert "| p = 2 |" in text
    assert "sum" not in text


def test_gains_of_other_choices_use_the_other_halves():
    records = [
        _record(name, 0, level, level + 5) for name, level in zip("abc", (10, 50, 90), strict=True)
    ]
    text = tables.halves_table(tables.Results(records))
    assert "| p = 2 | 55.00 | 100% |" in text
    assert text.endswith("on the other halves: +5.00")


def test_the_report_names_the_largest_gap(records):
    assert tables.report(records).startswith("Largest relative gap of a certificate: 1.0e-09")
