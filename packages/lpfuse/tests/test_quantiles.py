import pickle
from math import log2

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from helpers.pairwise import each_value, pairwise
from lpfuse._quantiles import SIZE, QuantileSketch

# Few values, so that ties are common, and some that only the last digit tells apart.
numbers = st.integers(-4, 4).map(float) | st.sampled_from([-np.inf, 1 - 2**-53, 1.0, np.inf])
sizes = st.integers(2, 9)
columns = st.integers(1, 3)


@st.composite
def tables(draw):
    """Blocks of one width: empty ones, single rows, many rows; in any order, or sorted."""
    R = draw(columns)
    elements = numbers if draw(st.booleans()) else st.floats(-1e3, 1e3, width=32)
    rows = draw(st.lists(st.integers(0, 40), min_size=1, max_size=8))
    blocks = [draw(arrays(np.float64, (n, R), elements=elements)) for n in rows]
    match draw(st.sampled_from(["as it is", "sorted", "reversed"])):
        case "sorted":
            blocks = [np.sort(block, axis=0) for block in blocks]
        case "reversed":
            blocks = [np.sort(block, axis=0)[::-1] for block in blocks]
    return blocks


def merged(sketches, random):
    """The sketches merged in a random tree: neighbours first, then merges of merges."""
    while len(sketches) > 1:
        start = random.randrange(len(sketches))
        stop = random.randint(start + 1, len(sketches))
        sketches[start:stop] = [QuantileSketch.merge(sketches[start:stop])]
    return sketches[0]


def number_up_to(x, column):
    return int((column <= x).sum())


def check_every_promise(sketch, table):
    n, R = table.shape
    assert sketch.n == n
    assert sum(2**level * len(kept) for level, kept in enumerate(sketch.levels)) == n
    assert all(len(kept) <= sketch.size for kept in sketch.levels)
    limit = n / (2 * sketch.size) * max(0.0, log2(2 * max(n, 1) / sketch.size))
    assert sketch.rank_error <= limit + 1
    if n == 0:
        return
    ordered = np.sort(table, axis=0)
    np.testing.assert_array_equal(sketch.lowest, ordered[0])
    np.testing.assert_array_equal(sketch.highest, ordered[-1])
    for k in range(n):
        low, high = sketch.bounds(k)
        assert (low <= ordered[k]).all()
        assert (ordered[k] <= high).all()
        inside = ((table > low) & (table < high)).sum(axis=0)
        assert (inside <= 2 * (sketch.under + sketch.over)).all()
        found = sketch.order_statistic(k)
        for j in range(R):
            first = int((table[:, j] < found[j]).sum())
            last = number_up_to(found[j], table[:, j]) - 1
            assert first <= last  # it is one of the values
            assert first - sketch.rank_error <= k <= last + sketch.rank_error
    x = np.concatenate([table, np.nextafter(table, -np.inf), np.nextafter(table, np.inf)])
    at_least, at_most = sketch.ranks(x)
    expected = np.array(
        [[number_up_to(row[j], table[:, j]) for j in range(R)] for row in x]
    ).reshape(x.shape)
    assert (at_least <= expected).all()
    assert (expected <= at_most).all()
    assert (at_most - at_least <= sketch.under + sketch.over).all()
    beyond = (x < sketch.lowest) | (x >= sketch.highest)
    assert (at_least == at_most)[beyond].all()
    assert (at_least[x >= sketch.lowest] > 0).all()
    assert (at_most[x < sketch.highest] < n).all()


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(blocks=tables(), size=sizes, random=st.randoms(use_true_random=False))
def test_everything_a_sketch_says_is_within_its_proven_error(blocks, size, random):
    sketches = [QuantileSketch.of(block, size) for block in blocks]
    for sketch, block in zip(sketches, blocks, strict=True):
        check_every_promise(sketch, block)
    check_every_promise(merged(sketches, random), np.concatenate(blocks))


@settings(max_examples=60, deadline=None)
@given(blocks=tables(), size=sizes)
def test_columns_do_not_see_each_other(blocks, size):
    together = QuantileSketch.merge([QuantileSketch.of(block, size) for block in blocks])
    for j in range(blocks[0].shape[1]):
        alone = QuantileSketch.merge([QuantileSketch.of(block[:, j], size) for block in blocks])
        assert (alone.under, alone.over) == (together.under, together.over)
        for kept, of_all in zip(alone.levels, together.levels, strict=True):
            np.testing.assert_array_equal(kept[:, 0], of_all[:, j])


@given(blocks=tables(), random=st.randoms(use_true_random=False))
def test_up_to_the_size_of_a_level_everything_is_exact(blocks, random):
    table = np.concatenate(blocks)
    sketch = merged([QuantileSketch.of(block) for block in blocks], random)
    assert sketch.rank_error == 0
    for k, row in enumerate(np.sort(table, axis=0)):
        np.testing.assert_array_equal(sketch.order_statistic(k), row)
        np.testing.assert_array_equal(sketch.bounds(k), [row, row])


def test_low_ranks_stay_below_the_kept_values():
    # One side was charged more than the other, and all that is kept lies above the lowest rows.
    parts = np.array([-1.0, 0.0, 0.0]), np.repeat([-2.0, -1.0, 0.0], [2, 3, 7])
    sketch = QuantileSketch.merge([QuantileSketch.of(part, 2) for part in parts])
    assert np.concatenate(sketch.levels).max() == np.concatenate(sketch.levels).min() == 0.0
    check_every_promise(sketch, np.concatenate(parts)[:, None])


def test_the_order_of_rows_within_a_block_does_not_matter():
    block = np.random.default_rng(0).normal(size=(500, 2))
    one, other = QuantileSketch.of(block, 16), QuantileSketch.of(block[::-1], 16)
    for kept, same in zip(one.levels, other.levels, strict=True):
        np.testing.assert_array_equal(kept, same)


def test_errors_to_either_side_are_shared():
    rng = np.random.default_rng(0)
    sketch = QuantileSketch.merge([QuantileSketch.of(rng.random(100), 8) for _ in range(200)])
    heaviest = 2 ** (len(sketch.levels) - 2)  # of what was halved
    assert abs(sketch.under - sketch.over) <= heaviest
    assert sketch.rank_error == -(-(sketch.under + sketch.over) // 2)


# Rows that come one sorted stretch after another are the worst for summaries that sample.
@each_value(order=["random", "sorted", "interleaved"], fan_in=[2, 16, 300])
def test_errors_that_occur_are_well_below_those_proven(order, fan_in):
    n, rows = 300_000, 1000
    ranks = np.random.default_rng(1).permutation(n) if order == "random" else np.arange(n)
    blocks = ranks.reshape(-1, rows) if order != "interleaved" else ranks.reshape(rows, -1).T
    sketches = [QuantileSketch.of(block.astype(float), 256) for block in blocks]
    while len(sketches) > 1:
        groups = range(0, len(sketches), fan_in)
        sketches = [QuantileSketch.merge(sketches[k : k + fan_in]) for k in groups]
    errors = [abs(sketches[0].order_statistic(k)[0] - k) for k in range(0, n, 997)]
    assert 0 < max(errors) <= sketches[0].rank_error
    assert sketches[0].rank_error < {2: 0.012, 16: 0.006, 300: 0.005}[fan_in] * n


@pytest.mark.parametrize(
    ("rows", "fan_in", "share"),
    [(10**6, 16, 4e-4), (10**5, 16, 4e-4), (10**6, 2, 1e-3), (SIZE + 1, 16, 5e-4)],
)
def test_of_a_billion_rows_the_default_size_proves_a_thousandth(rows, fan_in, share):
    # What is proven depends on numbers of rows alone, so that a table without columns will do.
    sketches = [QuantileSketch.of(np.empty((rows, 0)))] * (10**9 // rows)
    while len(sketches) > 1:
        groups = range(0, len(sketches), fan_in)
        sketches = [QuantileSketch.merge(sketches[k : k + fan_in]) for k in groups]
    assert sketches[0].n == 10**9 // rows * rows
    assert 0 < sketches[0].rank_error <= share * sketches[0].n
    assert sum(map(len, sketches[0].levels)) <= (3 if fan_in > 2 else 6) * SIZE


def test_a_long_chain_of_merges_is_no_exception():
    block = QuantileSketch.of(np.empty((10**5, 0)))
    sketch = block
    for _ in range(2000):
        sketch = QuantileSketch.merge([sketch, block])
    assert sketch.rank_error <= 1e-3 * sketch.n


@pairwise(
    library=["torch", "strict"], dtype=["float64", "float32"], shape=[(700, 2), (700,), (0, 2)]
)
def test_blocks_of_other_libraries_have_the_same_sketch(library, dtype, shape):
    block = np.random.default_rng(0).normal(size=shape).astype(dtype)
    if library == "torch":
        foreign = pytest.importorskip("torch", reason="torch is not installed").tensor(block)
    else:
        foreign = array_api_strict.asarray(block)
    ours, theirs = QuantileSketch.of(block, 32), QuantileSketch.of(foreign, 32)
    assert (ours.n, ours.under, ours.over) == (theirs.n, theirs.under, theirs.over)
    for mine, other in zip(
        [*ours.levels, ours.lowest, ours.highest],
        [*theirs.levels, theirs.lowest, theirs.highest],
        strict=True,
    ):
        assert isinstance(other, np.ndarray)
        assert other.dtype == np.float64
        np.testing.assert_array_equal(mine, other)


def test_a_sketch_leaves_its_block_unchanged_and_pickles():
    block = np.array([[3.0], [1.0], [2.0]])
    sketch = QuantileSketch.of(block, 2)
    assert block.tolist() == [[3.0], [1.0], [2.0]]
    copy = pickle.loads(pickle.dumps(sketch))  # noqa: S301
    np.testing.assert_array_equal(copy.order_statistic(1), sketch.order_statistic(1))


def test_a_sketch_does_not_keep_its_block_alive():
    block = np.random.default_rng(0).normal(size=(10_000, 2))
    sketch = QuantileSketch.of(block, 64)
    kept = sum(
        level.base.nbytes if level.base is not None else level.nbytes for level in sketch.levels
    )
    assert kept < block.nbytes / 10
