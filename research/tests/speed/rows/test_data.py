"""Rows of a name are the same in every process, and of the kind that they say."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from lpfuse.ensemble.components import default_detectors
from research.speed.rows.data import DISCRETE_COLUMNS, HEAVY_COLUMNS, Rows
from research.speed.rows.latency import latencies, quantiles
from research.speed.rows.members import default_members, drawn

ROWS = Rows(n=400, d=8, labels=12)


def test_the_same_name_gives_the_same_rows():
    X, y = ROWS.training()
    again, _ = Rows(400, 8, 12).training()
    np.testing.assert_array_equal(X, again)
    np.testing.assert_array_equal(y, np.repeat([1, -1], [400, 12]))
    assert not np.array_equal(X, Rows(400, 8, 12, seed=1).training()[0])
    assert Rows(400, 8).training()[1] is None


def test_unseen_rows_do_not_depend_on_the_training_size():
    np.testing.assert_array_equal(ROWS.unseen(50), Rows(30, 8).unseen(50))


def test_columns_are_of_three_kinds():
    X = Rows(n=20_000, d=8).normal()
    discrete, rest = X[:, :DISCRETE_COLUMNS], X[:, DISCRETE_COLUMNS:]
    np.testing.assert_array_equal(discrete, np.round(discrete))
    assert len(np.unique(discrete[:, 0])) < 20
    assert all(len(np.unique(column)) == len(X) for column in rest.T)
    scaled = rest / np.median(np.abs(rest), axis=0)
    tails = (np.abs(scaled) > 8).mean(axis=0)
    assert (tails[:HEAVY_COLUMNS] > 0).all()
    assert (tails[HEAVY_COLUMNS:] == 0).all()
    correlations = np.corrcoef(X[:, -3:].T)[np.triu_indices(3, 1)]
    assert np.abs(correlations).max() > 0.1


def test_anomalies_can_be_told_from_normal_rows():
    rows = Rows(n=2000, d=12, labels=500)
    X, y = rows.training()
    far = np.abs(X[:, DISCRETE_COLUMNS + HEAVY_COLUMNS :]).sum(axis=1)
    assert roc_auc_score(y < 0, far) > 0.8


@pytest.mark.parametrize("module", ["data", "latency", "versions", "__main__"])
def test_another_version_can_still_be_chosen_after_these_imports(module):
    asked = f"import sys, research.speed.rows.{module}; sys.exit('lpfuse' in sys.modules)"
    root = Path(__file__).parents[4]
    assert subprocess.run([sys.executable, "-c", asked], cwd=root, check=False).returncode == 0


def test_each_member_of_the_default_pool_is_fitted_once():
    members = default_members(drawn(ROWS), seed=0)
    assert list(members) == [name for name, _ in default_detectors(400, 12)]
    experts = [name for name in members if name not in dict(default_detectors(400, 0))]
    assert [name for name, member in members.items() if member.is_expert] == experts
    for member in members.values():
        own = {k: v for k, v in member.member.get_params().items() if k.endswith("offset_from")}
        assert set(own.values()) <= {"training"}
        assert len(member.given[0]) == (412 if member.is_expert else 400)


def test_members_score_rows_the_same_each_time():
    unseen = ROWS.unseen(30)
    for name in ("gp", "columns"):
        member = default_members(drawn(ROWS), seed=0)[name]
        scores = member.fit().score_samples(unseen)
        assert np.isfinite(scores).all()
        np.testing.assert_array_equal(scores, member.fit().score_samples(unseen))


def test_single_rows_take_turns():
    seen = []
    actions = {name: lambda row, name=name: seen.append((name, row.item())) for name in "ab"}
    samples = latencies(actions, np.arange(7.0)[:, None])
    turns = [(name, row) for row in range(7) for name in "ab"]
    assert seen[-14:] == turns
    assert {name: len(found) for name, found in samples.items()} == {"a": 7, "b": 7}


def test_quantiles_are_those_of_each():
    samples = {"a": [0.0, 1.0, 2.0], "b": [5.0]}
    assert quantiles(samples) == {"a": {"p50": 1.0, "p95": pytest.approx(1.9)},
                                  "b": {"p50": 5.0, "p95": 5.0}}  # fmt: skip
