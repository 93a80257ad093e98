"""Lloyd's algorithm where the rows live, against loops over rows and centres."""

import numpy as np
import pytest
from sklearn.utils import check_random_state

from helpers.pairwise import each_value
from lpfuse._arrays.operations import limits
from lpfuse.detectors.kernels import centres, kmeans_parallel_init, lloyd, lloyd_step
from oracles.kernel_learners import LIBRARIES, assert_beside, every_library, on_host, torch

precisions = pytest.mark.parametrize("precision", [np.float64, np.float32])


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(700, 3))


def naive_step(X, means):
    nearest = [np.argmin([np.sum((x - mean) ** 2) for mean in means]) for x in X]
    return np.array(
        [
            X[[k for k, label in enumerate(nearest) if label == j]].mean(axis=0)
            if j in nearest
            else mean
            for j, mean in enumerate(means)
        ]
    )


@each_value(library=(*LIBRARIES, LIBRARIES[0]), precision=(np.float32, np.float64))
def test_a_step_moves_centres_to_the_means_of_their_rows(rows, library, precision):
    rows = rows.astype(precision)
    moved = lloyd_step(library(rows), library(rows[:9]))
    assert_beside(moved, library(rows))
    close = 1e-12 if precision == np.float64 else 1e-5
    np.testing.assert_allclose(on_host(moved), naive_step(rows, rows[:9]), atol=close)


@every_library
def test_a_centre_without_rows_stays(rows, library):
    means = np.vstack([rows[:4], [[50.0, 50.0, 50.0]]])
    moved = on_host(lloyd_step(library(rows), library(means)))
    np.testing.assert_array_equal(moved[4], means[4])
    np.testing.assert_allclose(moved, naive_step(rows, means), atol=1e-12)


def test_blocks_of_rows_give_the_same_step(rows, monkeypatch):
    whole = lloyd_step(torch(rows), torch(rows[:9]))
    monkeypatch.setattr(limits, "device_block", 1)  # 256 rows at a time
    np.testing.assert_allclose(
        on_host(lloyd_step(torch(rows), torch(rows[:9]))), on_host(whole), atol=1e-12
    )


@each_value(library=(*LIBRARIES, LIBRARIES[0]), precision=(np.float32, np.float64))
def test_centres_are_those_of_lloyds_algorithm(rows, library, precision):
    rows = rows[:100].astype(precision)
    found = centres(library(rows), 6, check_random_state(0))
    assert_beside(found, library(rows))
    rng = check_random_state(0)
    drawn = rows[np.sort(rng.choice(100, 100, replace=False))]
    start = drawn[kmeans_parallel_init(drawn, 6, rng)]
    expected = lloyd(drawn, start)
    close = 1e-12 if precision == np.float64 else 1e-4
    np.testing.assert_allclose(on_host(found), expected, atol=close)


@each_value(library=(*LIBRARIES, LIBRARIES[0]), precision=(np.float32, np.float64))
def test_so_many_steps_are_taken(rows, library, precision):
    rows = rows[:100].astype(precision)
    start = expected = rows[:6]
    found = lloyd(library(rows), library(start), steps=3, still=0.0)
    for _ in range(3):
        expected = naive_step(rows, expected)
    close = 1e-12 if precision == np.float64 else 1e-4
    np.testing.assert_allclose(on_host(found), expected, atol=close)


@each_value(size=(1, 7, 8, 30, 100), library=LIBRARIES)
def test_the_start_is_the_same_in_every_library(rows, library, size):
    chosen = kmeans_parallel_init(rows[:100], size, check_random_state(0))
    assert len(set(chosen)) == len(chosen) == size
    assert set(chosen) <= set(range(100))
    np.testing.assert_array_equal(
        kmeans_parallel_init(library(rows[:100]), size, check_random_state(0)), chosen
    )


def test_rounding_draws_no_row_twice():
    sides = np.where(np.arange(100) % 2, 300.0, -300.0)[:, None]
    X = sides + 0.05 * np.random.default_rng(0).normal(size=(100, 40))
    X = X.astype(np.float32)  # distances within a side are mostly rounding
    for seed in range(5):
        assert len(set(kmeans_parallel_init(X, 60, check_random_state(seed)))) == 60


def test_the_start_finds_small_groups_far_away(rows):
    """One row in a hundred lies in one of eight places; at random, most would be missed."""
    places = 1000 * np.random.default_rng(1).normal(size=(8, 3))
    X = np.vstack([rows, places])
    chosen = X[kmeans_parallel_init(X, 32, check_random_state(0))]
    assert all((chosen == place).all(axis=1).any() for place in places)


@pytest.mark.parametrize("different", [1, 3, 9])
def test_the_start_takes_equal_rows_where_there_are_no_others(rows, different):
    X = np.tile(rows[:different], (10, 1))
    chosen = kmeans_parallel_init(X, 10, check_random_state(0))
    assert len(set(chosen)) == 10


def test_it_stops_when_centres_stand_still(rows):
    """However many steps it may take: else this would not end."""
    groups = np.repeat(100 * rows[:5], 12, axis=0)
    found = lloyd(torch(groups), torch(groups[[0, 20, 40]]), steps=10**9)
    np.testing.assert_allclose(naive_step(groups, on_host(found)), on_host(found), atol=1e-9)


def test_equal_rows_are_no_obstacle():
    same = torch(np.ones((40, 2)))
    np.testing.assert_array_equal(on_host(centres(same, 5, check_random_state(0))), np.ones((5, 2)))


@pytest.mark.parametrize("library", [np.asarray, torch])
def test_landmarks_come_from_few_of_many_rows(rows, library):
    """From as many rows as centres: each is a cluster of its own."""
    found = on_host(centres(library(rows), 20, check_random_state(0), rows_per_centre=1)).round(12)
    rows = rows.round(12)
    assert {tuple(row) for row in found} <= {tuple(row) for row in rows}


def test_clusters_are_about_as_tight_as_scikit_learns(rows):
    def spread(found):
        return ((rows[:, None, :] - found[None, :, :]) ** 2).sum(axis=2).min(axis=1).mean()

    ours = np.mean(
        [spread(on_host(centres(torch(rows), 30, check_random_state(k)))) for k in range(5)]
    )
    theirs = np.mean([spread(centres(rows, 30, check_random_state(k))) for k in range(5)])
    assert ours < 1.1 * theirs
