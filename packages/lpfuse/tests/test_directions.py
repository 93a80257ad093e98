"""Reversed score columns are named in a warning; weak but correct ones hardly ever."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from lpfuse import DirectionWarning, FusedDetector, GMMDetector, LpFusion
from lpfuse._arrays.operations import column_ranks
from lpfuse._validation.tables import reversed_columns
from lpfuse.adapters import ScoreColumn, ScoreFunction, has_known_direction


def tools(n, R, seed, common=1.0):
    """Scores of R detectors that share a part of what they see in normal rows."""
    rng = np.random.default_rng(seed)
    return common * rng.normal(size=(n, 1)) + rng.normal(size=(n, R))


def labelled(n, anomalies, R, seed, gap=2.0):
    y = np.ones(n)
    y[:anomalies] = -1
    return tools(n, R, seed) + gap * (y > 0)[:, None], y


def told(work):
    """The warnings about directions that some work gives rise to."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    return [str(one.message) for one in caught if one.category is DirectionWarning]


@pytest.mark.parametrize("anomalies", [3, 5, 60])
def test_labels_find_every_turned_column_even_a_majority(anomalies):
    S, y = labelled(300, anomalies, 4, seed=0, gap=6.0)
    turned = S * [1, -1, -1, -1]
    assert reversed_columns(turned, y).columns.tolist() == [1, 2, 3]
    assert reversed_columns(S, y).columns.tolist() == []
    assert f"AUC {roc_auc_score(y, turned[:, 1]):.2f}" in reversed_columns(turned, y).why


def test_one_anomaly_proves_nothing():
    S, y = labelled(300, 1, 3, seed=0, gap=-9.0)
    assert len(reversed_columns(S, y).columns) == 0


@pytest.mark.parametrize("R", [3, 5, 8])
def test_without_labels_the_minority_is_named(R):
    S = tools(200, R, seed=R)
    assert len(reversed_columns(S, None).columns) == 0
    S[:, 1] *= -1
    assert reversed_columns(S, None).columns.tolist() == [1]


def test_where_nothing_tells_who_is_right_both_sides_are_named():
    S = tools(200, 4, seed=0) * [1, -1, 1, -1]
    found = reversed_columns(S, None)
    assert found.columns.tolist() == [0, 1, 2, 3]
    assert "contradict each other" in found.why
    pair = reversed_columns(S[:, :2], None)
    assert pair.columns.tolist() == [0, 1]
    # A detector whose direction is known decides, even if alone.
    known = np.array([True, False, False, False])
    assert reversed_columns(S, None, known).columns.tolist() == [1, 3]
    alone = reversed_columns(S[:, [1, 0, 3]], None, np.array([False, True, False]))
    assert alone.columns.tolist() == [0, 2]
    assert len(reversed_columns(S, None, np.ones(4, dtype=bool)).columns) == 0


@given(st.integers(0, 10**6), st.integers(2, 6), st.booleans())
def test_only_ranks_and_the_order_of_columns_matter(seed, R, with_labels):
    rng = np.random.default_rng(seed)
    S, y = labelled(60, 12, R, seed)
    S, y = S * rng.choice([-1, 1], R), y if with_labels else None
    found = set(reversed_columns(S, y).columns)
    assert set(reversed_columns(np.exp(S / 4), y).columns) == found
    order = rng.permutation(R)
    assert {int(order[j]) for j in reversed_columns(S[:, order], y).columns} == found


def test_odd_columns_are_not_spoken_of():
    S = tools(100, 3, seed=0)
    S[:, 1] = 7.0
    assert len(reversed_columns(S, None).columns) == 0
    assert len(reversed_columns(S[:2], None).columns) == 0
    assert len(reversed_columns(S[:, :1], None).columns) == 0


@pytest.mark.parametrize(("n", "common", "gap"), [(20, 0.3, 0.0), (100, 0.0, 0.2), (500, 0.3, 0.2)])
def test_chance_and_weak_detectors_raise_no_alarm(n, common, gap):
    """In 400 tables of five columns, with labels and without: at a level of 1e-4, 0.2 expected."""
    alarms = 0
    for seed in range(200):
        S, y = labelled(n, max(2, n // 20), 5, seed, gap)
        S = S - (1 - common) * tools(n, 5, seed) + (1 - common) * tools(n, 5, seed + 1000, 0.0)
        alarms += bool(len(reversed_columns(S, y).columns))
        alarms += bool(len(reversed_columns(S, None).columns))
    assert alarms <= 2


def test_lp_fusion_names_columns_and_the_remedy():
    S, y = labelled(300, 20, 3, seed=0)
    frame = pd.DataFrame(S * [1, 1, -1], columns=["svm", "knn", "gp"])
    (text,) = told(lambda: LpFusion().fit(frame, y))
    assert text.startswith("Scores of column 'gp' are higher for known anomalies than for normal")
    assert text.endswith(
        "Does a high score mean normal there? If not, negate it: S[:, j] = -S[:, j]"
    )
    (text,) = told(lambda: LpFusion().fit((S * [1, 1, -1])[20:]))
    assert text.startswith(
        "Scores of column 2 put rows in the opposite order of the others, so one"
    )
    assert told(lambda: LpFusion().fit(S, y)) == []
    assert told(lambda: LpFusion().fit(S[20:])) == []


@pytest.mark.parametrize("with_labels", [True, False])
def test_columns_of_scores_in_a_fused_detector(with_labels):
    S, y = labelled(300, 20, 3, seed=0)
    S = S * [1, 1, -1]
    names = ["svm", "knn", "gp"]

    def fit(high):
        pool = [(name, ScoreColumn(high.get(name, "normal")), [j]) for j, name in enumerate(names)]
        fused = FusedDetector(pool, cv="prefit", random_state=0)
        return fused.fit(S, y) if with_labels else fused.fit(S[20:])

    (text,) = told(lambda: fit({}))
    assert text.startswith("Scores of 'gp' ")
    assert 'ScoreColumn(high="anomaly")' in text
    assert told(lambda: fit({"gp": "anomaly"})) == []


def test_functions_are_suspected_and_detectors_of_known_makers_are_not():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))

    def norm(rows):
        return np.linalg.norm(rows, axis=1)

    def fit(high):
        pool = [("gmm", GMMDetector()), ("mine", ScoreFunction(norm, high=high))]
        return FusedDetector(pool, random_state=0).fit(X)

    (text,) = told(lambda: fit("normal"))
    assert text.startswith("Scores of 'mine' put rows in the opposite order of the others")
    assert told(lambda: fit("anomaly")) == []


def test_whose_direction_is_known():
    assert has_known_direction(GMMDetector())
    assert has_known_direction(ScoreFunction(IsolationForest(), high="normal"))
    assert not has_known_direction(ScoreFunction(len, high="normal"))
    assert not has_known_direction(ScoreColumn("normal"))


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
def test_ranks_in_columns_are_scipys(library):
    library = pytest.importorskip(library)
    for digits in (0, 1, 12):  # many ties, some, none
        S = np.random.default_rng(0).normal(size=(50, 3)).round(digits)
        S[:, 2] = 1.0
        ranks = column_ranks(library.asarray(S))
        assert np.asarray(np.from_dlpack(ranks)).tolist() == rankdata(S, axis=0).tolist()
