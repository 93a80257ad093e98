import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, RepeatedKFold, TimeSeriesSplit

from lpfuse.ensemble.folds import Folds, assign_folds, make_folds, number_kinds

labels_of_rows = st.lists(st.sampled_from([1, 1, 1, 0, -1]), min_size=2, max_size=40).filter(
    lambda labels: sum(label >= 0 for label in labels) >= 2
)


def seed(number=0):
    return np.random.RandomState(number)


def settle(cv, labels, groups=None, kinds=None, number=0):
    labels = np.array(labels, dtype=float)
    groups = None if groups is None else np.asarray(groups)
    kinds = None if kinds is None else np.asarray(kinds)
    return make_folds(cv, labels, groups, kinds, seed(number))


def assert_a_partition(folds, n):
    """Every row is scored once, and learnt from in all other folds."""
    assert sorted(np.concatenate([score for _, score in folds.pairs])) == list(range(n))
    for k, (learn, score) in enumerate(folds.pairs):
        assert sorted([*learn, *score]) == list(range(n))
        assert (folds.of_row[score] == k).all()


@given(labels_of_rows, st.integers(2, 7))
def test_labels_are_spread_evenly(labels, cv):
    folds = settle(cv, labels)
    assert_a_partition(folds, len(labels))
    assert folds.independent
    assert len(folds.pairs) <= cv
    for label in set(labels):
        counts = [sum(labels[i] == label for i in score) for _, score in folds.pairs]
        assert max(counts) <= -(-labels.count(label) // min(cv, sum(y >= 0 for y in labels)))


@given(labels_of_rows, st.integers(2, 5), st.integers(2, 9))
def test_groups_stay_together(labels, cv, n_groups):
    groups = np.arange(len(labels)) % n_groups
    folds = settle(cv, labels, groups)
    assert_a_partition(folds, len(labels))
    assert not folds.independent
    for learn, score in folds.pairs:
        assert not set(groups[learn]) & set(groups[score])


def test_groups_may_have_any_names_and_share_labels_evenly():
    labels = np.where(np.arange(60) % 10 == 0, -1, 1)
    groups = np.array([f"person {i // 3}" for i in range(60)])
    folds = settle(3, labels, groups)
    assert all((labels[score] < 0).sum() == 2 for _, score in folds.pairs)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=20), st.integers(2, 5))
def test_kinds_of_anomalies_stay_together(kinds, cv):
    labels = [1] * 10 + [-1] * len(kinds)
    kinds = np.array([0] * 10 + kinds)
    folds = settle(cv, labels, kinds=kinds)
    assert_a_partition(folds, len(labels))
    for learn, score in folds.pairs:
        learnt, scored = ({kinds[i] for i in rows if i >= 10} for rows in (learn, score))
        assert not learnt & scored
    used = [k for k, (_, score) in enumerate(folds.pairs) if max(score) >= 10]
    assert len(used) == min(cv, len(set(kinds[10:])))


def test_the_seed_deals():
    labels = [1] * 40
    same, again, other = (settle(5, labels, number=k).of_row for k in (0, 0, 1))
    np.testing.assert_array_equal(same, again)
    assert (same != other).any()


def test_few_rows_have_few_folds():
    assert len(settle(5, [1, 1, 1]).pairs) == 3
    assert len(settle(5, [1, 0, -1, -1, -1, -1]).pairs) == 2


@pytest.mark.parametrize("cv", [KFold(3), LeaveOneOut(), TimeSeriesSplit(3)], ids=repr)
def test_splitters(cv):
    folds = settle(cv, [1] * 12)
    pairs = list(cv.split(np.zeros(12)))
    assert len(folds.pairs) == len(pairs)
    for found, expected in zip(folds.pairs, pairs, strict=True):
        np.testing.assert_array_equal(np.concatenate(found), np.concatenate(expected))
    scored = np.concatenate([score for _, score in pairs])
    assert (np.flatnonzero(folds.of_row >= 0) == np.sort(scored)).all()
    assert not folds.independent


def test_splitters_see_groups_and_labels():
    groups = np.arange(12) // 3
    folds = settle(GroupKFold(2), [1] * 12, groups)
    for learn, score in folds.pairs:
        assert not set(groups[learn]) & set(groups[score])


def test_splits_by_hand():
    folds = settle([([0, 1], [2]), ([2], [0])], [1, 1, 1, 1])
    assert folds.of_row.tolist() == [1, -1, 0, -1]
    generator = (pair for pair in [([0, 1], [2, 3]), ([2, 3], [0, 1])])
    assert settle(generator, [1, 1, 1, 1]).of_row.tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize(
    ("cv", "labels", "more", "words"),
    [
        (1, [1] * 9, {}, "cv >= 2 and at least 2 rows that are not anomalies, got cv=1 and n_sa"),
        (5, [1, -1, -1], {}, "got cv=5 and n_samples=1. Bring more rows"),
        (0, [1] * 9, {}, "cv must be a number of folds .at least 2., a splitter, .*; got 0"),
        (True, [1] * 9, {}, "cv must be a number of folds.*got True"),
        (object, [1] * 9, {}, "cv must be a number of folds"),
        ([], [1] * 9, {}, "cv gave no splits"),
        (RepeatedKFold(n_splits=2, n_repeats=2), [1] * 9, {}, "cv scores some rows twice"),
        (3, [1] * 9, {"groups": ["a"] * 9}, "groups must name at least 2 groups.*, got 1"),
        (KFold(2), [1] * 9, {"kinds": [0] * 9}, "kind hides a kind .* Pass a number of folds"),
    ],
    ids=str,
)
def test_folds_that_cannot_be(cv, labels, more, words):
    with pytest.raises(ValueError, match=words):
        settle(cv, labels, **more)


@given(st.integers(1, 30), st.integers(1, 6))
def test_rows_are_dealt_out_evenly(n, n_folds):
    dealt = assign_folds(n, None, n_folds, seed())
    counts = np.bincount(dealt, minlength=n_folds)
    assert counts.max() - counts.min() <= 1
    groups = np.arange(n) // 3
    by_groups = assign_folds(n, groups, n_folds, seed())
    assert all(len(set(by_groups[groups == group])) == 1 for group in groups)


# ------------------------------------------------------------------------------------------ kinds

LABELS = np.array([1.0, -1, -1, 0, -1, 1])
ROWS = np.array([[0.0, 0], [9, 9], [-9, 9], [0.1, 0], [9.1, 9], [0.2, 1]])


def kinds_of(kind, X=ROWS, labels=LABELS):
    return number_kinds(kind, X, labels, seed())


def test_kinds_by_name():
    assert kinds_of(None) is None
    for names in (["-", "b", "a", "-", "b", "?"], [0, 2, 1, 9, 2, 8], [None, "y", "x", 3, "y", 1]):
        assert kinds_of(np.array(names, dtype=object))[LABELS < 0].tolist() == [1, 0, 1]


@pytest.mark.parametrize("kind", ["clusters", np.arange(3)], ids=["clusters", "names"])
def test_no_anomalies_have_no_kinds(kind):
    assert kinds_of(kind, ROWS[:3], np.ones(3)) is None


def test_kinds_by_clusters():
    rows = np.vstack([ROWS, 9 + ROWS[:1], [[-9, 9.2]]])
    labels = np.r_[LABELS, -1, -1]
    found = number_kinds("clusters", rows, labels, seed())
    far = found[labels < 0]
    assert far[0] == far[2] == far[3] != far[1] == far[4]
    frame = pd.DataFrame(rows, columns=["a", "b"]).assign(colour="red")
    np.testing.assert_array_equal(number_kinds("clusters", frame, labels, seed()), found)


def test_clusters_are_in_units_of_the_normal_rows():
    """There the second column is the longer way; in units of all rows it would be the first."""
    normal = [[8.0, 99.0], [10.0, 101.0], [8.0, 101.0], [10.0, 99.0]]
    anomalies = [[0.0, 10.0], [0.0, -10.0], [18.0, 10.0], [18.0, -10.0]]
    labels = np.repeat([1.0, -1.0], 4)
    found = number_kinds("clusters", np.array(normal + anomalies), labels, seed())[4:]
    assert found[0] == found[2] != found[1] == found[3]


def test_clusters_do_with_missing_cells_and_equal_rows():
    rows = np.where(ROWS == 9.1, np.nan, ROWS)
    assert kinds_of("clusters", rows).shape == (6,)
    assert set(kinds_of("clusters", np.ones((6, 2)))) == {0}


def test_kinds_of_no_known_sort():
    for labels in (LABELS, np.ones(6)):
        with pytest.raises(ValueError, match="one name a row, or \"clusters\"; got 'cluster'"):
            kinds_of("cluster", labels=labels)


def test_folds_among_some_rows_are_the_same_ones_numbered_anew():
    folds = Folds.by_number(np.arange(10) % 5, independent=True)
    some = folds.among(np.array([1, 2, 6, 9]))  # nothing is left of the first and the fourth
    assert [(learn.tolist(), score.tolist()) for learn, score in some.pairs] == [
        ([1, 3], [0, 2]),
        ([0, 2, 3], [1]),
        ([0, 1, 2], [3]),
    ]
    np.testing.assert_array_equal(some.of_row, [0, 1, 0, 2])
    assert some.independent
