"""Ways to learn weights: each against hand-made scores, the controls, and the published page."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from lpfuse import FusedDetector
from research.studies import learnt_weights
from research.studies.learnt_weights import (
    CONFIRMED,
    PAGE,
    SHIPPED,
    WAYS,
    Scores,
    asked,
    balanced,
    ball,
    by_rule,
    ceiling,
    fused_by,
    learn,
    logistic_around,
    page_of,
    ranks,
    raw_scores,
    read,
    read_scores,
    rows_of,
    shuffled,
    told,
)
from research.studies.tables.splits import split_table, table_key

# One of the made-up detectors is inverted on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::lpfuse._validation.tables.DirectionWarning")

NAMES = np.array(["good", "fair", "inverted"])
PRIOR = np.full(3, 1 / 3)


def drawn(seed=0, n=300, m=60, inverted=-2.0):
    """Scores of a good detector, of a fair one and of one that takes anomalies for normal."""
    rng = np.random.default_rng(seed)
    middle = np.array([2.0, 1.0, inverted])
    normal, test = rng.normal(size=(2, n, 3))
    known, sought = rng.normal(size=(2, m, 3)) - middle
    S, y = np.concatenate([normal, known]), np.repeat([1.0, -1.0], [n, m])
    fold = np.concatenate([np.arange(n), np.arange(m)]) % 5
    fused = np.concatenate([test, sought]) @ PRIOR
    return Scores(NAMES, S, y, fold, test, sought, PRIOR, fused)


@pytest.fixture(scope="module")
def row():
    return rows_of({("seen", 100): drawn()})[0]


def test_free_signs_turn_an_inverted_detector_round():
    scores = drawn()
    free = ball(None, 3.0)(scores.S, scores.y, None, PRIOR)
    bound = ball(None, 3.0, signs="nonnegative")(scores.S, scores.y, None, PRIOR)
    assert free[2] < -0.3
    assert bound.min() >= 0.0


def test_what_all_ways_give_where_signs_matter(row):
    auc = row["auc"]
    assert set(WAYS) < set(auc) == set(row["precision"])
    assert auc["around zero, r = 3, free"] > auc["around zero, r = 3, nonnegative"] + 2
    assert auc["around the prior, r = 4, free"] > auc["prior alone"] + 5
    assert auc["prior alone"] == auc["sum"]


def test_controls_fail(row):
    """Labels of other rows lead away from a good prior; a noise detector changes little."""
    gaps = []
    for seed in range(6):
        scores = drawn(seed, inverted=1.5)
        rows, is_normal = scores.of_test()
        way = ball(1, 1.0)
        taught, misled = (
            roc_auc_score(is_normal, rows @ each(scores.S, scores.y, None, PRIOR))
            for each in (way, shuffled(way))
        )
        gaps.append(100 * (taught - misled))
    assert np.mean(gaps) > 5
    clean = row["auc"]["around 4 times the prior, r = 1, free"]
    noisy = row["auc"]["around 4 times the prior, r = 1, free, a noise detector more"]
    assert abs(noisy - clean) < 1.5


def test_shuffled_labels_are_the_same_labels():
    seen = []
    shuffled(lambda S, y, c, prior: seen.append(y) or prior)(*drawn()[1:3], None, PRIOR)
    assert (seen[0] != drawn().y).any()
    assert (np.sort(seen[0]) == np.sort(drawn().y)).all()


def test_logistic_loss_around_the_prior():
    """A large penalty keeps the centre; at the optimum no step lowers the objective."""
    scores = drawn()
    assert logistic_around(4, 1e6)(scores.S, scores.y, None, PRIOR) == pytest.approx(
        4 * PRIOR, abs=1e-3
    )
    found = logistic_around(4, 0.03)(scores.S, scores.y, None, PRIOR)
    cost = balanced(scores.y, None)

    def objective(w):
        values = [
            cost @ np.logaddexp(0, -scores.y * (scores.S @ w + b)) for b in np.linspace(-6, 6, 1201)
        ]
        return min(values) + 0.015 * np.sum((w - 4 * PRIOR) ** 2)

    best = objective(found)
    steps = np.concatenate([0.05 * np.eye(3), -0.05 * np.eye(3)])
    assert all(objective(found + step) > best - 1e-5 for step in steps)


def test_rule_leaves_the_prior_by_evidence_only():
    scores = drawn()
    assert by_rule(scores, scores.S, 1, "free")[2] < PRIOR[2]
    rng = np.random.default_rng(3)
    noise = scores._replace(S=rng.normal(size=scores.S.shape))
    moved = [
        (
            by_rule(noise._replace(S=rng.normal(size=noise.S.shape)), noise.S, 1, "free") != PRIOR
        ).any()
        for _ in range(6)
    ]
    assert sum(moved) <= 3


def test_ranks_are_normal_quantiles():
    of = np.arange(99.0)[:, None]
    found = ranks(of, np.array([[49.0], [-5.0], [200.0]]))
    assert found[0] == pytest.approx(0.0, abs=1e-12)
    assert found[1] == pytest.approx(-found[2])
    assert found[2] > 1.1


def test_ceiling_judges_on_rows_that_taught_nothing():
    more, shipped = ceiling(drawn(inverted=0.0)._replace(fused=np.zeros(360)))
    assert shipped == 50.0
    assert 85 < more < 99
    rng = np.random.default_rng(1)
    nothing = ceiling(
        drawn()._replace(test=rng.normal(size=(300, 3)), sought=rng.normal(size=(60, 3)))
    )
    assert abs(nothing[0] - 50) < 12


def test_scores_of_a_table_are_stored_and_read(tmp_path):
    """What is stored of a table gives the shipped AUC again; too few labels give no row."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(260, 3)) + 2.0 * (np.arange(260) >= 200)[:, None]
    is_anomaly = np.arange(260) >= 200
    found = raw_scores(X, is_anomaly, {"seen": [5]})
    assert {key.rpartition("|")[0] for key in found} == {"seen|5"}
    np.savez(tmp_path / "a.npz", **found)
    scores = read_scores(tmp_path / "a.npz")["seen", 5]
    split = split_table(X, is_anomaly, 0, "seen")
    training = split.training(5)
    fused = FusedDetector(random_state=0).fit(training.X, training.y)
    rows = np.concatenate([split.test, split.sought])
    assert scores.fused == pytest.approx(fused.score_samples(rows))
    shipped = rows_of({("seen", 5): scores})[0]["auc"][SHIPPED]
    is_normal = np.repeat([1, 0], [len(split.test), len(split.sought)])
    assert shipped == pytest.approx(100 * roc_auc_score(is_normal, scores.fused), abs=1e-3)
    few = scores._replace(y=np.where(np.arange(len(scores.y)) < len(scores.y) - 2, 1.0, -1.0))
    assert rows_of({("seen", 5): few}) == []


def test_a_run_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(learnt_weights, "tables_of", lambda half: ["odd-a", "odd-b"])
    monkeypatch.setattr(
        learnt_weights, "rows_of", lambda new, ways: [{"mode": m, "labels": k} for m, k in new]
    )
    (tmp_path / "choose").mkdir()
    scores = drawn(n=20, m=6)
    out, cells = tmp_path / "rows.jsonl", {}
    for name, cell in (("odd-a", "seen|5"), ("odd-b", "seen|5"), ("odd-b", "unseen|5")):
        file = tmp_path / "choose" / f"{table_key(name)}.npz"
        here = {f"{cell}|{part}": getattr(scores, part) for part in learnt_weights.PARTS}
        cells[name] = cells.get(name, {}) | here
        np.savez(file, **cells[name])
        learn("choose", tmp_path, out)
    found = [(row["table"], row["mode"], row["labels"]) for row in read(out)]
    a, b = table_key("odd-a"), table_key("odd-b")
    assert found == [(a, "seen", 5), (b, "seen", 5), (b, "unseen", 5)]


def test_every_table_is_asked_for_labels_of_its_own_mix():
    assert all(asked(i)["seen"] == [5, 20, 100] for i in range(8))
    assert sum("unseen" in asked(i) for i in range(8)) == 4
    assert sum("contaminated" in asked(i) for i in range(8)) == 2


def test_intervals_count_sources_not_tables():
    gains = np.random.default_rng(0).normal(size=40)
    alone = told(gains, [f"{i}" for i in range(40)])
    copies = told(np.repeat(gains, 4), [f"{i}" for i in np.repeat(np.arange(40), 4)])
    assert alone == copies != told(np.repeat(gains, 4), [f"{i}" for i in range(160)])


def test_page_is_made_from_the_stored_rows():
    assert PAGE.read_text(encoding="utf-8") == page_of(read())


def test_stored_rows_hold_every_way():
    rows = read()
    ways = {"choose": {*fused_by(drawn(n=40, m=12))}, "confirm": {*CONFIRMED}}
    assert all({*row["auc"]} == {*row["precision"]} == ways[row["half"]] for row in rows)
    assert len({(row["table"], row["mode"], row["labels"]) for row in rows}) == len(rows)
