"""Groups that were not passed: noticed where they raise false alarms, and not where rows tie."""

import warnings

import numpy as np
import pandas as pd
import pytest

from lpfuse.ensemble.copies import find_repeats, warn_of_repeats
from lpfuse.ensemble.rows import look_at_order

FAMILIES = {
    "gaussian": lambda rng, n: rng.normal(size=(n, 5)),
    "heavy tails": lambda rng, n: rng.standard_cauchy(size=(n, 3)),
    "counts": lambda rng, n: rng.poisson(1.0, size=(n, 3)).astype(float),
    "binary": lambda rng, n: (rng.random((n, 4)) < 0.3).astype(float),
    "one-hot": lambda rng, n: np.eye(24)[rng.integers(24, size=n)],
    "rounded": lambda rng, n: np.round(rng.normal(size=(n, 3)), 1),
    "mostly zeros": lambda rng, n: np.where(rng.random((n, 5)) < 0.7, 0, rng.random((n, 5))),
    "one column": lambda rng, n: rng.normal(size=(n, 1)),
    "whole numbers twice": lambda rng, n: np.round(30 * rng.normal(size=(n, 1))) * [1, 2],
    "clusters": lambda rng, n: 6.0 * rng.integers(2, size=(n, 2)) + 0.5 * rng.normal(size=(n, 2)),
    "constant": lambda rng, n: np.ones((n, 3)),
    "gaps": lambda rng, n: np.where(rng.random((n, 4)) < 0.2, np.nan, rng.normal(size=(n, 4))),
    "1e200": lambda rng, n: 1e200 * rng.normal(size=(n, 3)),
}


def in_groups(n, shared, seed=0, size=5, d=5):
    """Rows of a group share so much of their variance; every row is standard normal."""
    rng = np.random.default_rng(seed)
    group = np.arange(n) // size
    own = np.sqrt(1 - shared) * rng.normal(size=(n, d))
    return np.sqrt(shared) * rng.normal(size=(n, d))[group] + own, group


def in_order(X):
    """What is said of the order of a table."""
    return look_at_order(None, X, None).because


def told(X, labels=None):
    """The warnings about a table."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_repeats(X, np.ones(len(X)) if labels is None else labels)
    return [str(each.message) for each in caught]


@pytest.mark.parametrize(
    ("name", "n"), list(zip(FAMILIES, [60, 300, 1_500] * len(FAMILIES), strict=False))
)
def test_independent_rows_are_no_groups(name, n):
    for seed in range(5):
        X = FAMILIES[name](np.random.default_rng(seed), n)
        assert told(X) == []
        assert in_order(X) == ""


def test_rows_sorted_by_a_column_are_no_groups():
    X = np.random.default_rng(0).normal(size=(500, 2))
    for by in (X[:, 0], -X[:, 1]):
        assert told(X[np.argsort(by)]) == []
        assert in_order(X[np.argsort(by)]) == ""


@pytest.mark.parametrize(("n", "shared"), [(100, 0.8), (300, 0.7), (300, 0.95), (2_000, 0.9)])
def test_groups_that_raise_false_alarms_are_told(n, shared):
    for seed in range(5):
        X, _ = in_groups(n, shared, seed)
        assert in_order(X).startswith("consecutive rows resemble each other (rank correlation 0.")


def test_weak_groups_are_not_told():
    for seed in range(5):
        assert told(in_groups(300, 0.2, seed)[0]) == []
        assert in_order(in_groups(300, 0.2, seed)[0]) == ""


def test_a_series_is_told():
    rng = np.random.default_rng(0)
    X = np.empty((400, 3))
    X[0] = 0.0
    for t in range(1, 400):
        X[t] = 0.9 * X[t - 1] + rng.normal(size=3)
    assert "resemble each other (rank correlation 0.9" in in_order(X)
    assert in_order(rng.permutation(X)) == ""


def test_shuffled_groups_are_told_where_they_stand_apart():
    X, _ = in_groups(600, 0.99)
    (message,) = told(X[np.random.default_rng(1).permutation(600)])
    assert "most have about 4 others far nearer than all the rest" in message
    X, _ = in_groups(600, 0.995, size=2)
    (message,) = told(X[np.random.default_rng(1).permutation(600)])
    assert "most have about 1 other far nearer" in message


def test_copies_are_told_wherever_they_are():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    X[250:] = X[:50]
    X = X[rng.permutation(300)]
    (message,) = told(X)
    assert message.startswith("Rows are repeated: 33.3 % of 300 rows have an exact copy.")
    assert told(X[:, :1]) == []  # a single column of numbers may repeat
    assert told(np.round(X)) == []


@pytest.mark.parametrize("shuffled", [False, True])
def test_the_column_that_names_the_groups_is_named(shuffled):
    X, group = in_groups(400, 0.99)
    frame = pd.DataFrame(X, columns=list("abcde")).assign(day=np.arange(400) % 2)
    frame["machine"] = [f"m{g}" for g in group]
    order = np.random.default_rng(0).permutation(400) if shuffled else np.arange(400)
    assert "(perhaps 'machine')" in told(frame.iloc[order])[0]
    assert "(perhaps 'column 5')" in told(np.column_stack([X, group % 50])[order])[0]
    assert "(the machine, person, video or day it comes from)" in told(X[order])[0]


def test_repeats_ignore_anomalies_words_and_few_rows():
    X = np.random.default_rng(0).normal(size=(200, 3))
    X[100:] = 7.0 + 1e-3 * X[100:]  # all near each other
    assert told(X, labels=np.repeat([1.0, -1.0], 100)) == []
    assert told(pd.DataFrame({"word": ["a", "b"] * 100})) == []
    assert told(np.repeat(X[:10], 4, axis=0)) == []


def test_long_tables_are_looked_at_in_stretches():
    assert in_order(in_groups(60_000, 0.97)[0])
    independent = np.random.default_rng(0).normal(size=(60_000, 3))
    assert told(independent) == []
    assert in_order(independent) == ""


def test_what_is_found_are_pairs_of_one_group():
    X, group = in_groups(300, 0.999)
    found = find_repeats(X)
    assert (group[found.pairs[:, 0]] == group[found.pairs[:, 1]]).all()
    order = np.random.default_rng(0).permutation(300)
    found = find_repeats(X[order])
    assert (group[order][found.pairs[:, 0]] == group[order][found.pairs[:, 1]]).mean() > 0.95
