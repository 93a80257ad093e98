"""Thresholds from scores in Dask: exactly those of memory, p-values on the safe side of them."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from helpers.pairwise import pairwise
from lpfuse._quantiles import SIZE, QuantileSketch, VectorInBlocks
from lpfuse.threshold import (
    conformal_offset,
    conformal_pvalues,
    contamination_offset,
    control_false_discoveries,
    g_mean_offset,
)

TOO_FEW = "ignore:.*cannot hold false alarms:UserWarning"
LITTLE = 4  # values of a level: of a dozen rows a sketch is already inexact
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

few = st.integers(-4, 4).map(float)
CLOSE = [-np.inf, -1.0, 1 - 2**-53, 1.0, 1 + 2**-52, np.inf]
close = st.sampled_from(CLOSE)
many = st.floats(-100, 100)
some_rows = [st.lists(value, max_size=30) for value in (few, close, many)]
KINDS = {  # more rows than a sketch keeps: with many ties, nearly equal, and all different
    "few": lambda rng, n: rng.integers(-4, 5, n).astype(float),
    "close": lambda rng, n: rng.choice(CLOSE, n),
    "many": lambda rng, n: rng.uniform(-100, 100, n),
}
blocks = st.one_of(*(st.lists(rows, min_size=1, max_size=6) for rows in some_rows)).filter(any)


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def in_blocks(parts, dtype=float):
    pieces = [np.asarray(part, dtype=dtype) for part in parts]
    chunks = tuple(len(piece) for piece in pieces)
    return da.from_array(np.concatenate(pieces), chunks=(chunks,))


def as_series(parts):
    pieces = [pd.Series(part, dtype=float) for part in parts]
    return dd.from_map(lambda piece: piece, pieces, meta=pieces[0].iloc[:0])


def looked_at(array):
    """The array, and a list that grows by a number whenever a block is read."""
    looks = []

    def look(block):
        looks.append(len(block))
        return block

    return array.map_blocks(look, meta=np.empty(0)), looks


@pytest.mark.filterwarnings(TOO_FEW)
@pytest.mark.parametrize("collect", [in_blocks, as_series])
@QUICK
@given(parts=blocks, rate=st.floats(0.0, 0.5, exclude_min=True))
@example(parts=[[1.0] * 30, [1.0] * 30, [0.0]], rate=0.5)
def test_offsets_are_exactly_those_of_memory(collect, parts, rate):
    scores = np.concatenate(parts)
    assert conformal_offset(collect(parts), rate) == conformal_offset(scores, rate)
    assert contamination_offset(collect(parts), rate) == contamination_offset(scores, rate)


@pytest.mark.slow
@pytest.mark.parametrize("collect", [in_blocks, as_series])
@QUICK
@given(parts=blocks)
@example(parts=[[1.0] * 30, [1.0] * 30, [0.0]])
def test_every_rank_is_exact_though_the_sketch_is_not(collect, parts):
    scores = np.sort(np.concatenate(parts))
    found = VectorInBlocks.of(collect(parts), "scores", size=LITTLE)
    assert found.size == len(scores)
    assert found.smallest(range(len(scores))) == scores.tolist()
    assert [found.smallest([rank])[0] for rank in range(len(scores))] == scores.tolist()


@pairwise(kind=KINDS, chunks=[7_000, 20_000], rate=[0.0003, 0.05, 0.29, 0.5])
def test_offsets_of_many_rows_are_exactly_those_of_memory(kind, chunks, rate):
    scores = KINDS[kind](np.random.default_rng(0), 6 * SIZE)
    lazy = da.from_array(scores, chunks=chunks)
    assert conformal_offset(lazy, rate) == conformal_offset(scores, rate)
    assert contamination_offset(lazy, rate) == contamination_offset(scores, rate)


def test_offsets_read_many_rows_twice_and_few_rows_once():
    scores = np.random.default_rng(0).normal(size=5 * SIZE)
    lazy, looks = looked_at(da.from_array(scores, chunks=SIZE))
    assert conformal_offset(lazy, 0.05) == conformal_offset(scores, 0.05)
    assert len(looks) == 2 * 5
    lazy, looks = looked_at(da.from_array(scores[:SIZE], chunks=SIZE // 3))
    assert contamination_offset(lazy, 0.1) == contamination_offset(scores[:SIZE], 0.1)
    assert len(looks) == 3


def test_single_precision_and_integers_are_exact_too():
    scores = np.random.default_rng(0).normal(size=6 * SIZE)
    single = scores.astype(np.float32)
    lazy = da.from_array(single, chunks=SIZE)
    assert conformal_offset(lazy, 0.1) == conformal_offset(single, 0.1)
    whole = (100 * scores).astype(int)
    lazy = da.from_array(whole, chunks=SIZE)
    assert contamination_offset(lazy, 0.1) == contamination_offset(whole, 0.1)


def test_too_few_rows_warn_as_in_memory():
    with pytest.warns(UserWarning, match="3 normal rows cannot hold false alarms to 0.2"):
        assert conformal_offset(in_blocks([[1.0], [2.0, 3.0]]), 0.2) == -np.inf


@QUICK
@given(calibration=blocks, scores=st.lists(few | many | st.just(np.nan), max_size=20))
def test_few_calibration_rows_in_blocks_give_the_pvalues_of_memory(calibration, scores):
    expected = conformal_pvalues(np.concatenate(calibration), scores)
    np.testing.assert_array_equal(conformal_pvalues(in_blocks(calibration), scores), expected)
    np.testing.assert_array_equal(conformal_pvalues(as_series(calibration), scores), expected)


@settings(QUICK, max_examples=25)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    rows=st.lists(st.integers(0, 2 * SIZE), min_size=2, max_size=5).filter(any),
    seed=st.integers(0, 2**32 - 1),
    scores=st.lists(few | many | close, min_size=1, max_size=20),
)
def test_pvalues_from_a_sketch_are_never_too_small(kind, rows, seed, scores):
    rng = np.random.default_rng(seed)
    calibration = [KINDS[kind](rng, n) for n in rows]
    scores = [*scores, *rng.choice(np.concatenate(calibration), 50)]
    exact = conformal_pvalues(np.concatenate(calibration), scores)
    found = conformal_pvalues(in_blocks(calibration), scores)
    sketch = QuantileSketch.merge([QuantileSketch.of(part) for part in calibration])
    assert (exact <= found).all()
    assert (found <= exact + (sketch.under + sketch.over) / (sketch.n + 1) + 1e-12).all()
    assert (found <= 1).all()


def test_the_excess_that_the_docstring_quotes():
    # Two thousandths: twice the rank error, whose bound tests/test_quantiles.py holds.
    rng = np.random.default_rng(0)
    calibration, scores = rng.normal(size=200_000), rng.normal(size=1000)
    found = conformal_pvalues(da.from_array(calibration, chunks=20_000), scores)
    excess = found - conformal_pvalues(calibration, scores)
    assert 0 <= excess.min()
    assert 0 < excess.max() <= 0.002


@pytest.mark.parametrize("collect", [in_blocks, as_series])
@pytest.mark.parametrize("calibrate", [np.concatenate, in_blocks])
def test_pvalues_of_blocks_are_lazy(collect, calibrate):
    calibration = [[3.0, 1.0], [], [2.0, 4.0]]
    scores = [[0.0, np.nan], [], [2.0, 9.0, 2.5]]
    answer = conformal_pvalues(calibrate(calibration), collect(scores))
    assert isinstance(answer, da.Array)
    np.testing.assert_array_equal(answer.compute(), [0.2, np.nan, 0.6, 1.0, 0.6])
    lazy, looks = looked_at(in_blocks(scores))
    before = len(looks)
    lazy = conformal_pvalues(calibrate(calibration), lazy)
    assert len(looks) == before
    np.testing.assert_array_equal(lazy.compute(), answer.compute())


def test_pvalues_are_double_even_of_single_scores():
    scores = in_blocks([[0.5, 1.5]], np.float32)
    answer = conformal_pvalues([1.0, 2.0], scores)
    assert answer.dtype == answer.compute().dtype == np.float64


def test_what_needs_all_rows_brings_them_into_memory():
    scores = [[0.0, 1.0], [], [3.0, 4.0, 0.5]]
    labels = [[-1, -1], [], [1, 1, 1]]
    expected = g_mean_offset(np.concatenate(scores), np.concatenate(labels))
    assert g_mean_offset(in_blocks(scores), in_blocks(labels, int)) == expected
    assert g_mean_offset(as_series(scores), np.concatenate(labels)) == expected
    pvalues = [[0.01, 0.04], [0.03, np.nan], [0.5]]
    declared = control_false_discoveries(in_blocks(pvalues), rate=0.1)
    assert declared.tolist() == [True, True, True, False, False]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ([[1.0], [2.0, np.nan, np.nan]], r"NaN is in block 1 \(2 of its rows\)"),
        ([[], []], "empty"),
    ],
    ids=["NaN", "no rows"],
)
@pytest.mark.parametrize(
    "use",
    [
        lambda bad: conformal_offset(bad, 0.1),
        lambda bad: contamination_offset(bad, 0.1),
        lambda bad: conformal_pvalues(bad, [1.0]),
    ],
)
def test_what_cannot_be_used_is_told(use, bad, words):
    with pytest.raises(ValueError, match=words):
        use(in_blocks(bad))


def test_what_is_no_column_of_numbers_is_refused_unread():
    table, looks = looked_at(da.zeros((4, 2), chunks=2))
    with pytest.raises(ValueError, match="calibration must hold one number for each row"):
        conformal_offset(table, 0.1)
    with pytest.raises(ValueError, match="scores must hold one number for each row"):
        conformal_pvalues([1.0], table)
    words = dd.from_pandas(pd.Series(["a", "b"]), npartitions=1)
    with pytest.raises(ValueError, match="scores must be numbers"):
        contamination_offset(words, 0.1)
    with pytest.raises(ValueError, match=r"write 0\.05 for 5 %"):
        conformal_offset(table[:, 0], 5)
    assert sum(looks) == 0
