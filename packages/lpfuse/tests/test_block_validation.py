"""The entrance for rows in blocks says of them what the entrance for arrays would."""

import warnings

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from dask.callbacks import Callback

from helpers.cases import cases
from helpers.cuts import as_array, as_frame, untouchable, with_unknown_rows
from lpfuse._arrays.blocks import Summary
from lpfuse._validation.dask_blocks import (
    check_feature_blocks,
    check_score_blocks,
    warn_constant_blocks,
)

rng = np.random.default_rng(0)
S = rng.normal(size=(60, 3))
Y = np.where(np.arange(60) % 4, 1.0, -1.0)
C = rng.uniform(0.5, 2.0, 60)
CHUNKS = (20, 0, 1, 39)
NAMES = ["a", "b", "c"]
FORMS = {
    "array": lambda v: as_array(v, CHUNKS),
    "unknown rows": lambda v: with_unknown_rows(as_array(v, CHUNKS)),
    "frame": lambda v: as_frame(v, NAMES if np.ndim(v) > 1 else "one", CHUNKS),
}
every_form = pytest.mark.parametrize("form", FORMS)


@pytest.fixture(autouse=True, scope="module")
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def changed(values, place, value):
    values = values.copy()
    values[place] = value
    return values


@pytest.fixture
def passes():
    """A list that grows whenever Dask starts to compute something."""
    made = []
    with Callback(start=made.append):
        yield made


# --------------------------------------------------------------------------------- what is seen


@every_form
@pytest.mark.parametrize("check", [check_score_blocks, check_feature_blocks])
def test_blocks_are_counted_and_measured(form, check, passes):
    cut = FORMS[form]
    found = check(cut(S), y=cut(Y), sample_weight=cut(C))
    assert len(passes) == 1
    assert found.blocks.sizes == list(CHUNKS)
    assert (found.n, found.width) == (60, 3)
    assert found.rows == (45, 15)
    assert found.mass == pytest.approx((C[Y > 0].sum(), C[Y < 0].sum()), rel=1e-14)
    np.testing.assert_array_equal(found.low, S.min(axis=0))
    np.testing.assert_array_equal(found.high, S.max(axis=0))
    assert found.names == (NAMES if form == "frame" else None)
    assert found.also is None


def test_without_labels_every_row_is_normal_with_weight_one():
    found = check_score_blocks(FORMS["array"](S))
    assert found.rows == (60, 0)
    assert found.mass == (60.0, 0.0)


@every_form
def test_vectors_in_memory_are_cut_to_fit(form):
    found = check_score_blocks(FORMS[form](S), Y.tolist(), C)
    labels = np.concatenate([parts[1] for parts in found.blocks.parts])
    weights = np.concatenate([parts[2] for parts in found.blocks.parts])
    np.testing.assert_array_equal(labels, Y)
    np.testing.assert_array_equal(weights, C)


def test_vectors_in_memory_cost_a_pass_for_unknown_sizes(passes):
    check_score_blocks(FORMS["array"](S), Y)
    assert len(passes) == 1
    check_score_blocks(FORMS["frame"](S), Y)
    assert len(passes) == 3


def add_up(k, rows, y, c):
    return k, rows.sum(), y.sum(), c.sum()


def add_all(parts):
    return tuple(sum(group) for group in zip(*parts, strict=True))


@pytest.mark.parametrize("given", ["summary", "function of the blocks"])
def test_something_else_is_learnt_in_the_same_pass(given, passes):
    summary = Summary(add_up, add_all)
    cut = FORMS["array"]
    also = summary if given == "summary" else lambda blocks: summary
    found = check_score_blocks(cut(S), cut(Y), cut(C), also)
    assert len(passes) == 1
    assert found.also == pytest.approx((5, S.sum(), Y.sum(), C.sum()))  # no block 1: it is empty


def test_a_further_block_is_counted_with_the_others():
    more = -9.0, -1.0, 4.0
    found = check_score_blocks(FORMS["array"](S), extra_row=more)
    assert found.rows == (60, 1)
    assert found.mass == (60.0, 4.0)
    assert found.blocks.sizes == [*CHUNKS, 1]
    np.testing.assert_array_equal(found.low, -9.0)


def test_columns_without_spread_are_warned_of():
    flat = changed(S, (slice(None), 1), 2.0)
    with pytest.warns(UserWarning, match="no spread.*'b'"):
        warn_constant_blocks(check_score_blocks(FORMS["frame"](flat)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_constant_blocks(check_score_blocks(FORMS["array"](S)))


# ------------------------------------------------------------------------------------ refusals


@cases("value", [np.nan, np.inf, -np.inf])
@every_form
def test_a_flaw_is_told_with_its_block_and_column(form, value):
    rows = changed(changed(S, (30, 1), value), (31, 1), np.nan)
    column = "column 'b'" if form == "frame" else "column 1"
    with pytest.raises(ValueError, match=rf"in block 3, {column} \(2 rows\)\. Drop those rows"):
        check_score_blocks(FORMS[form](rows), Y)


def test_flaws_in_several_blocks_are_all_told():
    rows = changed(changed(S, (0, 0), np.nan), (20, 2), np.inf)
    with pytest.raises(ValueError, match=r"block 0, column 0 \(1 row\) and block 2, column 2"):
        check_score_blocks(FORMS["array"](rows))


def test_of_many_flaws_a_few_are_told():
    with pytest.raises(ValueError, match=r"block 4, column 0 \(1 row\) and \d+ more"):
        check_score_blocks(da.from_array(np.full((60, 1), np.nan), chunks=(1, 1)))


def test_large_numbers_are_no_flaw():
    huge = np.array([[1.5e308], [-1.5e308], [0.0]])
    assert check_feature_blocks(da.from_array(huge, chunks=(1, 1))).n == 3
    with pytest.raises(ValueError, match=r"beyond 1e[+]100 cannot be squared.*column 0 reach 1.5e"):
        check_score_blocks(da.from_array(huge, chunks=(1, 1)))


@pytest.mark.parametrize("more", [None, (-9.0, -1.0, 4.0)])
@pytest.mark.parametrize(("size", "told"), [(1e308, "too much"), (5e-324, "too little"), (0, "")])
def test_weights_must_have_a_sum_to_compute_with(size, told, more):
    weights = FORMS["array"](np.full(60, size))
    with pytest.raises(ValueError, match=told or "zero in every row"):
        check_score_blocks(FORMS["array"](S), None, weights, extra_row=more)


def test_small_weights_count_beside_a_further_block():
    weights = FORMS["array"](np.full(60, 1e-20))
    found = check_score_blocks(FORMS["array"](S), None, weights, extra_row=(-9.0, -1.0, 4.0))
    assert found.mass == pytest.approx((60e-20, 4.0))


def test_masked_cells_are_missing():
    mask = changed(np.zeros((60, 3), dtype=bool), (25, 1), True)
    rows = da.ma.masked_array(FORMS["array"](S), mask=FORMS["array"](mask))
    with pytest.raises(ValueError, match=r"block 3, column 1 \(1 row\)"):
        check_score_blocks(rows)
    labels = da.ma.masked_array(FORMS["array"](Y), mask=FORMS["array"](mask[:, 1]))
    with pytest.raises(ValueError, match="and 1 missing"):
        check_score_blocks(FORMS["array"](S), labels)


def test_the_words_are_those_of_what_came():
    with pytest.raises(ValueError, match="Features must be finite"):
        check_feature_blocks(FORMS["array"](changed(S, (0, 0), np.nan)))
    with pytest.raises(ValueError, match="y must have the same blocks as X"):
        check_feature_blocks(FORMS["array"](S), as_array(Y, (30, 30)))


def test_the_first_complaint_is_told():
    labels = changed(changed(Y, 59, 3.0), 20, 2.0)
    with pytest.raises(ValueError, match=r"block 2: y must be .*got 2\."):
        check_score_blocks(FORMS["array"](S), FORMS["array"](labels))


@cases(
    "bad",
    [
        lambda cut: (cut(changed(S, (0, 0), np.nan)),),
        lambda cut: (cut(S), cut(changed(Y, 0, 5.0))),
        lambda cut: (cut(S), cut(np.where(Y > 0, "fine", "odd"))),
        lambda cut: (cut(S), None, cut(-C)),
        lambda cut: (cut(S), None, cut(np.where(Y > 0, "much", "little"))),
        lambda cut: (cut(S), as_frame(Y, "y", (21, 0, 0, 39))),
    ],
)
def test_bad_input_fails_no_task(bad):
    failed = []
    with (
        Callback(finish=lambda graph, state, errored: failed.append(errored)),
        pytest.raises(ValueError, match="block 0"),
    ):
        check_score_blocks(*bad(FORMS["frame"]))
    assert failed == [False]


@cases(
    ("bad", "told"),
    [
        (lambda: untouchable((5, 2), 3)[:, :0], "at least one row and one column, got no column"),
        (lambda: untouchable((5, 2), 3)[:, 0], "2D"),
        (lambda: untouchable((5, 2), 3).astype(str), "must be numbers"),
        (lambda: untouchable((5, 2), 3).astype(object), "must be numbers"),
    ],
)
def test_what_the_head_tells_is_refused_before_anything_is_computed(bad, told):
    with pytest.raises(ValueError, match=told):
        check_score_blocks(bad())


def test_columns_of_words_are_named():
    frame = as_frame(S, NAMES, CHUNKS).assign(b=lambda f: f["b"].astype(str))
    with pytest.raises(ValueError, match="must be numbers, but column 'b'"):
        check_score_blocks(frame)


def test_nullable_numbers_are_numbers():
    frame = as_frame(pd.DataFrame(S).astype("Float64"), NAMES, CHUNKS)
    assert check_score_blocks(frame.astype("Float64")).n == 60
