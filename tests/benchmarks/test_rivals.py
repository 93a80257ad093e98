"""The comparison of rivals: ranks, critical differences, page and plot, from made-up figures."""

import numpy as np
import pytest

from benchmarks.rivals.plot import cliques, draw
from benchmarks.rivals.study import ENSEMBLES, LABELS, RIVALS, ensembles_of, records_of
from benchmarks.rivals.tables import NAMES, aucs_of, critical_difference, joined, mean_ranks, page


def made_up(sets=8):
    """The first rival is the best everywhere, the last the worst; two seeds a set."""
    names = NAMES
    rng = np.random.default_rng(0)
    return [
        {
            "set": f"set {i}", "seed": seed, "labels": labels,
            "auc": {name: 90 - 2 * j + seed + float(rng.normal()) for j, name in enumerate(names)},
            "seconds": {name: 0.1 * j for j, name in enumerate(names)},
        }
        for i in range(sets) for seed in (0, 1) for labels in LABELS
    ]  # fmt: skip


def test_seeds_are_averaged_and_the_best_has_rank_one():
    records = made_up()
    aucs = aucs_of(records, 5)
    assert aucs.shape == (8, len(NAMES))
    of_one = [r["auc"]["sum"] for r in records if r["set"] == "set 3" and r["labels"] == 5]
    assert aucs[3, NAMES.index("sum")] == pytest.approx(np.mean(of_one))
    ranks = mean_ranks(np.array([[90.0, 80.0, 80.0], [70.0, 60.0, 50.0]]))
    np.testing.assert_array_equal(ranks, [1.0, 2.25, 2.75])


@pytest.mark.parametrize(("rivals", "sets", "q"), [(4, 14, 2.569), (10, 30, 3.164)])
def test_the_critical_difference_is_that_of_demsar_s_table(rivals, sets, q):
    expected = q * np.sqrt(rivals * (rivals + 1) / (6 * sets))
    assert critical_difference(rivals, sets) == pytest.approx(expected, rel=1e-3)


def test_cliques_are_the_longest_runs_within_the_difference():
    assert cliques(np.array([3.0, 1.0, 2.0]), 0.5) == []
    assert cliques(np.array([3.0, 1.0, 2.0]), 1.0) == [(0, 1), (1, 2)]
    assert cliques(np.array([3.0, 1.0, 2.0]), 5.0) == [(0, 2)]


def test_the_page_names_every_rival_and_compares_with_the_default():
    text = page(made_up())
    for name in NAMES:
        assert f"| {name} |" in text
    assert "8 : 0" in text
    assert "Friedman p" in text


def test_the_plot_is_written(tmp_path):
    draw(made_up(), tmp_path / "rivals.png")
    assert (tmp_path / "rivals.png").stat().st_size > 10_000


def test_every_rival_is_measured_on_rows(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(90, 3)), rng.normal(2.0, 1.0, size=(14, 3))])
    quick = {name: make for name, make in RIVALS.items() if name != "genetic"}
    monkeypatch.setattr("benchmarks.rivals.study.RIVALS", quick)
    none, five = records_of("toy", X, np.arange(104) >= 90, seed=0)
    assert (none["labels"], five["labels"]) == (0, 5)
    assert none["auc"].keys() == five["seconds"].keys() == quick.keys()
    assert all(50 < area <= 100 for area in five["auc"].values())


def test_whole_ensembles_are_measured_once_for_all_labels():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 3)), rng.normal(3.0, 1.0, size=(10, 3))])
    found = ensembles_of("toy", X, np.arange(70) >= 60, seed=0)
    assert found["auc"].keys() == found["seconds"].keys() == ENSEMBLES.keys()
    assert all(50 < area <= 100 for area in found["auc"].values())
    records = [
        {"set": "toy", "seed": 0, "labels": labels, "auc": {"sum": 90.0}, "seconds": {"sum": 1.0}}
        for labels in (0, 5)
    ]
    for record in joined(records, [found]):
        assert record["auc"] == {"sum": 90.0} | found["auc"]
