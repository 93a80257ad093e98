"""The k-th nearest anchor in many subsets of the columns, against a loop over all of them."""

import copy
import pickle
from math import dist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpfuse._compiled import compiled
from lpfuse.detectors import neighbours as _nearest
from lpfuse.detectors.neighbours import ProductSearch, SubsetSearch

FORMS = (SubsetSearch, ProductSearch)  # compiled where it was built, and NumPy


def one_by_one(rows, samples, columns, X, k, own=None):
    """Row by row, subset by subset, anchor by anchor."""
    found = np.empty((len(X), len(samples)))
    for i, x in enumerate(X):
        for b, (anchors, some) in enumerate(zip(samples, columns, strict=True)):
            apart = sorted(
                dist(rows[anchor][some], x[some])
                for place, anchor in enumerate(anchors)
                if own is None or own[i, b] != place
            )
            found[i, b] = apart[min(k, len(apart)) - 1]
    return found


@st.composite
def searches(draw):
    """Rows on a coarse grid, so that many are equal or equally far; subsets; and a neighbour."""
    n, d = draw(st.integers(3, 9)), draw(st.integers(1, 4))
    cells = st.integers(-3, 3).map(float) | st.floats(-3, 3)
    rows = np.array(draw(st.lists(st.lists(cells, min_size=d, max_size=d), min_size=n, max_size=n)))
    size, n_subsets = draw(st.integers(2, n)), draw(st.integers(1, 5))
    samples = [np.array(draw(st.permutations(range(n)))[:size]) for _ in range(n_subsets)]
    width = [draw(st.integers(1, d)) for _ in range(n_subsets)]
    columns = [np.array(draw(st.permutations(range(d)))[:some]) for some in width]
    return rows, samples, columns, draw(st.integers(1, 4))


def assert_close(found, expected, scale=10.0):
    """Squares are taken apart, which costs half of the digits where rows are equal."""
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-7 * scale)


@given(case=searches(), offset=st.sampled_from([0.0, 1e6, -1e6]))
def test_it_is_the_kth_of_all_distances(case, offset):
    rows, samples, columns, k = case
    rows = rows + offset
    new = rows[::-1] + np.linspace(0, 1, rows.shape[1])
    for search in FORMS:
        found = search(rows, samples, columns).distances(new, k)
        assert_close(found, one_by_one(rows, samples, columns, new, k))


@given(case=searches(), offset=st.sampled_from([0.0, 1e6]))
def test_own_rows_do_not_count(case, offset):
    rows, samples, columns, k = case
    rows = rows + offset
    search = SubsetSearch(rows, samples, columns)
    own = search.places(np.arange(len(rows)))
    for i in range(len(rows)):
        for b, sample in enumerate(samples):
            place = own[i, b]
            assert i not in sample if place < 0 else sample[place] == i
    expected = one_by_one(rows, samples, columns, rows, k, own)
    by_products = ProductSearch(rows, samples, columns)
    for form in (search, by_products):
        assert_close(form.distances(rows, k, own), expected)
    of_anchors = search.own_distances(k, every=False)
    for b, sample in enumerate(samples):
        assert_close(of_anchors[:, b], expected[sample, b])
        assert_close(by_products.own_distances(b, k)[:, 0], expected[sample, b])
    np.testing.assert_array_equal(search.places(np.array([-1])), np.full((1, len(samples)), -1))


@given(case=searches())
def test_where_all_rows_are_anchors_one_search_serves_all_subsets(case):
    rows, _, columns, k = case
    samples = [np.arange(len(rows))] * len(columns)
    search = SubsetSearch(rows, samples, columns)
    own = np.repeat(np.arange(len(rows))[:, None], len(columns), axis=1)
    expected = one_by_one(rows, samples, columns, rows, k, own)
    assert_close(search.own_distances(k, every=True), expected)
    assert_close(search.own_distances(k, every=False), expected)


@given(case=searches(), anchors=st.integers(1, 9), distances=st.integers(1, 40))
def test_blocks_of_any_size_say_the_same(case, anchors, distances):
    rows, samples, columns, k = case
    whole = ProductSearch(rows, samples, columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_nearest, "ANCHORS_AT_A_TIME", anchors)
        patch.setattr(_nearest, "DISTANCES_AT_A_TIME", distances)
        blocks = ProductSearch(rows, samples, columns)
        assert len(blocks.stacks) >= len(whole.stacks)
        own = SubsetSearch(rows, samples, columns).places(np.arange(len(rows)))
        for inside in (None, own):
            assert_close(blocks.distances(rows, k, inside), whole.distances(rows, k, inside))


@given(case=searches())
def test_new_rows_may_be_far_away(case):
    rows, samples, columns, k = case
    new = rows * 1e9 + 1e9
    for search in FORMS:
        found = search(rows, samples, columns).distances(new, k)
        assert_close(found, one_by_one(rows, samples, columns, new, k))


@pytest.mark.parametrize("far", ["one", "half"])
@pytest.mark.parametrize("k", [1, 3])
def test_far_training_rows_leave_the_others_their_neighbours(far, k):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 4))
    rows[29 if far == "one" else slice(15, 30)] += 1e9
    samples = [rng.permutation(30)[:12] for _ in range(5)]
    columns = [rng.permutation(4)[:2] for _ in range(5)]
    search = SubsetSearch(rows, samples, columns)
    own = search.places(np.arange(30))
    assert_close(
        search.distances(rows, k, own), one_by_one(rows, samples, columns, rows, k, own), scale=1
    )


@pytest.mark.parametrize("size", [16, 64, 65, 1000])
@pytest.mark.parametrize("k", [1, 2, 5, 16, 17, 100, 900])
def test_ties_and_near_ties_are_told_apart_in_double_precision(size, k):
    """Single precision takes these rows for equal: their distances differ by a billionth."""
    rng = np.random.default_rng(0)
    rows = 1.0 + 1e-9 * rng.integers(0, 50, size=(size, 3))
    samples, columns = [np.arange(size)] * 2, [np.arange(3), np.array([2])]
    X = np.vstack([rows[:5], rng.normal(size=(5, 3)), np.full((1, 3), 1e300)])
    own = np.full((len(X), 2), -1)
    own[:5] = np.arange(5)[:, None]
    with np.errstate(over="ignore"):
        expected = one_by_one(rows, samples, columns, X, k, own)
    for search in FORMS if size < 100 else FORMS[:1]:
        found = search(rows, samples, columns).distances(X, k, own)
        np.testing.assert_allclose(found[:10], expected[:10], rtol=1e-7, atol=1e-16)


@pytest.mark.parametrize("k", [1, 3, 20])
def test_neighbours_are_the_nearest_rows_but_their_own(k):
    rng = np.random.default_rng(1)
    rows = np.round(rng.normal(size=(90, 3)), 1)
    own = np.where(np.arange(90) < 60, np.arange(90), -1)[:, None]
    for search in FORMS:
        form = search(rows, [np.arange(90)], [np.arange(3)])
        places, apart = form.neighbours(rows, k, own)
        naive = np.linalg.norm(rows[:, None] - rows, axis=2)
        np.testing.assert_allclose(apart, np.take_along_axis(naive, places, 1), atol=1e-12)
        naive[np.arange(60), np.arange(60)] = np.inf
        np.testing.assert_allclose(np.sort(apart), np.sort(naive)[:, :k], atol=1e-12)
        assert all(len(set(some)) == k for some in places)


def test_a_copy_searches_as_the_original():
    rows = np.arange(12.0).reshape(4, 3)
    search = SubsetSearch(rows, [np.arange(4)], [np.array([0, 2])])
    found = search.distances(rows, 2)
    for other in (copy.deepcopy(search), pickle.loads(pickle.dumps(search))):  # noqa: S301
        np.testing.assert_array_equal(other.distances(rows, 2), found)


def test_positions_that_do_not_exist_are_refused():
    rows = np.arange(12.0).reshape(4, 3)
    refused = [([9], [0]), ([0], [3])]
    if compiled("lpfuse.detectors._neighbours"):  # NumPy counts from the end
        refused.append(([-1], [0]))
    for sample, columns in refused:
        with pytest.raises((ValueError, IndexError)):
            SubsetSearch(rows, [np.array(sample)], [np.array(columns)]).distances(rows, 1)
