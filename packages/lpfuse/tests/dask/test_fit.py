"""Weights learnt from Dask collections: those of the same rows in memory, to the certified gap."""

import pickle
import warnings
from collections import deque
from functools import partial

import array_api_strict
import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from dask.callbacks import Callback
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from helpers.cases import cases
from helpers.cuts import as_array, as_frame, untouchable, with_unknown_rows
from helpers.pairwise import each_value
from lpfuse import LpFusion, lp_path
from lpfuse.optim import Problem

pytestmark = pytest.mark.usefixtures("in_this_thread")

NAMES = ["forest", "svm", "lof", "knn"]
FEW, MANY = 600, 40_000  # the latter are more than are copied as a whole
UNEVEN = (0.25, 0.0, 0.001, 0.4, 0.0, 0.3, 0.049)  # shares of the rows; some blocks are empty


def rows(n=FEW, seed=0):
    """Scores, labels, weights."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.2, -1.0, 1.0)
    S = y[:, None] * [0.8, 0.5, 0.3, 0.6] + rng.normal(scale=0.7, size=(n, 4))
    return S, y, rng.uniform(0.0, 2.0, n) * (rng.random(n) < 0.9)


def uneven(n=FEW):
    """Sizes of blocks, which sum to n."""
    stops = np.round(np.cumsum(UNEVEN) * n).astype(int)
    return tuple(np.diff(stops, prepend=0).tolist())


FORMS = {
    "array": lambda v: as_array(v, uneven(len(v))),
    "unknown rows": lambda v: with_unknown_rows(as_array(v, uneven(len(v)))),
    "frame": lambda v: as_frame(v, NAMES if np.ndim(v) > 1 else "one", uneven(len(v))),
}
every_form = pytest.mark.parametrize("form", FORMS)


def quietly(fusion, *data, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fusion.fit(*data, **named)


def assert_as_good(ours, theirs, passes=6.0):
    """Two certified fits: each value lies within the gaps that the two have proven."""
    one, other = ours.certificate_, theirs.certificate_
    assert one.status == other.status == "optimal"
    rounding = 1e-12 * abs(other.primal) + 1e-12
    assert abs(one.primal - other.primal) <= max(one.gap, other.gap) + rounding
    assert one.dual <= other.primal + rounding
    assert other.dual <= one.primal + rounding
    assert one.passes <= passes
    np.testing.assert_allclose(ours.weights_, theirs.weights_, rtol=0, atol=1e-4)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-4)


# ------------------------------------------------------------------------- as in memory

SETTINGS = {
    "pure": ({}, ()),
    "labelled": ({}, ("y",)),
    "weighted": ({}, ("y", "sample_weight")),
    "weighted, pure": ({}, ("sample_weight",)),
    "balanced": ({"class_weight": "balanced"}, ("y",)),
    "balanced and weighted": ({"class_weight": "balanced"}, ("y", "sample_weight")),
    "intercept": ({"fit_intercept": True}, ("y",)),
    "intercept without anomalies": ({"fit_intercept": True}, ()),
    "not negative": ({"nonnegative": True}, ("y",)),
    "imaginary": ({"imaginary_anomalies": 3.0, "fit_intercept": True}, ()),
    "imaginary and balanced": ({"imaginary_anomalies": 3.0, "class_weight": "balanced"}, ()),
    "imaginary, balanced, weighted": (
        {"imaginary_anomalies": 3.0, "class_weight": "balanced"},
        ("sample_weight",),
    ),
    "imaginary and all": (
        {"imaginary_anomalies": 3.0, "fit_intercept": True, "class_weight": "balanced"},
        ("y", "sample_weight"),
    ),
    "squares": ({"loss": "least_squares"}, ("y",)),
    "squares and all": (
        {"loss": "least_squares", "fit_intercept": True, "class_weight": "balanced"},
        ("y", "sample_weight"),
    ),
}


@each_value(setting=[*SETTINGS, *SETTINGS], n=[FEW, MANY], p=[1.0, 4 / 3, np.inf, 4 / 3])
def test_a_fit_is_as_good_as_in_memory(setting, p, n):
    parameters, given = SETTINGS[setting]
    S, y, c = rows(n)
    beside = {"y": y, "sample_weight": c}
    fusion = LpFusion(p=p, **parameters)
    ours = fusion.fit(FORMS["array"](S), **{name: FORMS["array"](beside[name]) for name in given})
    theirs = LpFusion(p=p, **parameters).fit(S, **{name: beside[name] for name in given})
    assert_as_good(ours, theirs)


@every_form
@pytest.mark.parametrize("n", [FEW, MANY])
def test_every_form_gives_the_same(form, n):
    S, y, c = rows(n)
    cut = FORMS[form]
    ours = LpFusion(class_weight="balanced").fit(cut(S), cut(y), cut(c))
    frame = pd.DataFrame(S, columns=NAMES) if form == "frame" else S
    theirs = LpFusion(class_weight="balanced").fit(frame, y, c)
    assert_as_good(ours, theirs)
    assert vars(ours).keys() == vars(theirs).keys()


@each_value(kind=[np.asarray, list, pd.Series, FORMS["array"], FORMS["frame"]], form=FORMS)
def test_labels_may_be_in_memory_or_of_dask(form, kind):
    S, y, c = rows()
    ours = LpFusion().fit(FORMS[form](S), kind(y.astype(int)), kind(c))
    assert_as_good(ours, LpFusion().fit(S, y, c))


@each_value(solver=["frank-wolfe", "smoothed-frank-wolfe"], loss=["hinge", "least_squares"])
def test_frank_wolfe_takes_the_same_steps(solver, loss):
    S, y, c = rows(200)
    fusion = partial(LpFusion, p=2, solver=solver, loss=loss, max_iter=20, tol=1e-3)
    cut = FORMS["array"]
    ours = quietly(fusion(), cut(S), cut(y), cut(c))
    theirs = quietly(fusion(), S, y, c)
    np.testing.assert_allclose(ours.weights_, theirs.weights_, rtol=0, atol=1e-10)
    assert ours.n_iter_ == theirs.n_iter_
    assert ours.certificate_.primal == pytest.approx(theirs.certificate_.primal, rel=1e-12)


@pytest.mark.parametrize("n", [FEW, MANY])
@pytest.mark.parametrize("loss", ["hinge", "least_squares"])
def test_a_path_is_as_good_as_in_memory(loss, n):
    S, y, _ = rows(n)
    ours = lp_path(FORMS["array"](S), FORMS["array"](y), ps=[1, 2, np.inf], loss=loss)
    theirs = lp_path(S, y, ps=[1, 2, np.inf], loss=loss)
    np.testing.assert_allclose(ours.weights, theirs.weights, rtol=0, atol=1e-4)
    for one, other in zip(ours.certificates, theirs.certificates, strict=True):
        assert one.status == "optimal"
        assert one.passes <= 6
        assert abs(one.primal - other.primal) <= max(one.gap, other.gap) + 1e-12 * other.primal


@pytest.mark.parametrize("n", [FEW, MANY])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_among_many_best_weights_those_nearest_to_uniform_are_taken(n, fit_intercept):
    S, y, _ = rows(n)
    S = S + 8.0 * y[:, None] * [1.0, 0.1, 0.4, 0.2]
    fusion = partial(LpFusion, p=2, fit_intercept=fit_intercept)
    ours, theirs = fusion().fit(FORMS["array"](S), FORMS["array"](y)), fusion().fit(S, y)
    assert ours.certificate_.primal == ours.certificate_.dual == 0.0
    np.testing.assert_allclose(ours.weights_, theirs.weights_, rtol=0, atol=1e-6)
    assert ours.certificate_.alpha.compute().shape == (n,)
    assert ours.certificate_.passes <= 6


def test_columns_may_be_split_over_blocks():
    S, y, _ = rows()
    ours = LpFusion().fit(da.from_array(S, chunks=(150, 3)), da.from_array(y, chunks=150))
    assert_as_good(ours, LpFusion().fit(S, y))


@each_value(dtype=[np.float32, np.int8, np.int64, bool], form=["array", "frame"])
def test_other_types_of_numbers_are_taken(dtype, form):
    S, y, _ = rows()
    S = (4 * S).astype(dtype) if dtype is not bool else S > 0
    assert_as_good(LpFusion().fit(FORMS[form](S), y), LpFusion().fit(S.astype(float), y))


def test_filtered_rows_keep_their_labels():
    S, y, _ = rows()
    kept = S[:, 0] > 0
    scores, labels = FORMS["array"](S), FORMS["array"](y)
    mask = scores[:, 0] > 0
    ours = LpFusion().fit(scores[mask], labels[mask])
    assert_as_good(ours, LpFusion().fit(S[kept], y[kept]))


def test_names_are_remembered():
    S, y, _ = rows()
    fused = LpFusion().fit(FORMS["frame"](S), y)
    assert fused.feature_names_in_.tolist() == NAMES
    assert fused.n_features_in_ == 4
    assert not hasattr(LpFusion().fit(FORMS["array"](S), y), "feature_names_in_")


def test_a_refit_forgets_the_names():
    S, y, _ = rows()
    fused = LpFusion().fit(FORMS["frame"](S), y).fit(FORMS["array"](S), y)
    assert not hasattr(fused, "feature_names_in_")


def test_warnings_are_those_of_rows_in_memory():
    S, y, _ = rows()
    S[:, 1], S[:, 3] = 1.0, S[:, 2]
    told = []
    for scores in (S, FORMS["array"](S)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            LpFusion().fit(scores, y)
        told.append([str(each.message) for each in caught])
    assert told[0] == told[1]
    assert len(told[0]) == 2


# ------------------------------------------------------------------------ the certificate


@each_value(form=[*FORMS, "array"], n=[FEW, MANY], fit_intercept=[False, True, True, False])
def test_alpha_proves_the_bound(form, n, fit_intercept):
    S, y, c = rows(n)
    cut = FORMS[form]
    proof = LpFusion(p=2, fit_intercept=fit_intercept).fit(cut(S), cut(y), cut(c)).certificate_
    assert isinstance(proof.alpha, da.Array)
    alpha = proof.alpha.compute()
    assert alpha.shape == (n,)
    assert alpha.min() >= 0
    assert alpha.max() <= 1
    assert not alpha[c == 0].any()
    problem = Problem(S, y, p=2.0, costs=c, fit_intercept=fit_intercept)
    rounding = 1e-12 * problem.total_cost
    assert problem.dual_value(alpha) == pytest.approx(proof.dual, rel=1e-10, abs=rounding)


def test_alpha_is_cut_like_the_scores():
    S, y, _ = rows()
    proof = LpFusion().fit(FORMS["array"](S), FORMS["array"](y)).certificate_
    assert proof.alpha.shape == (FEW,)
    sizes = [size for size in proof.alpha.chunks[0] if size]
    assert sizes == [size for size in uneven() if size]


class Counted:
    """Blocks of rows that say how often they were read."""

    def __init__(self, S, chunks):
        self.reads = [0] * len(chunks)
        stops = np.cumsum(chunks)
        whole = as_array(S, chunks)
        self.array = whole.map_blocks(self._read, dtype=float, meta=np.empty((0, S.shape[1])))
        assert stops[-1] == len(S)

    def _read(self, block, block_id=None):
        self.reads[block_id[0]] += 1
        return block


@pytest.mark.parametrize("n", [FEW, MANY])
def test_rows_are_read_once_a_pass_and_never_for_alpha(n):
    S, y, _ = rows(n)
    counted = Counted(S, uneven(n))
    fused = LpFusion().fit(counted.array, FORMS["array"](y))
    passes = fused.certificate_.passes
    assert counted.reads == [int(passes)] * len(UNEVEN)
    assert passes <= 6
    fused.certificate_.alpha.compute()
    assert counted.reads[3] == passes + 1


# -------------------------------------------------------------------- what comes back


@pytest.fixture
def returned():
    """Sizes in bytes of what each computation of Dask brings to the driver: its last result."""
    results, sizes = deque(maxlen=1), []

    def weigh(graph, state, errored):
        sizes.append(len(pickle.dumps(results.pop())))

    with Callback(posttask=lambda key, result, *rest: results.append(result), finish=weigh):
        yield sizes


def test_few_rows_come_back_of_many(returned):
    n = 2_000_000
    S, y, _ = rows(n)
    fused = LpFusion().fit(FORMS["array"](S), FORMS["array"](y))
    assert fused.certificate_.status == "optimal"
    row = 8 * (4 + 4)  # R scores, and its cost, label, side and position
    sample, kept = 2 * 40_000, 4 * round(n ** (2 / 3))
    assert returned[0] <= 1.2 * row * sample
    assert max(returned[1:]) <= 1.2 * row * kept
    assert len(returned) == fused.certificate_.passes


def test_least_squares_brings_back_moments_alone(returned):
    S, y, _ = rows(MANY)
    LpFusion(loss="least_squares").fit(FORMS["array"](S), FORMS["array"](y))
    assert all(size < 4_000 for size in returned[1:])


# ------------------------------------------------------------------ however rows are cut


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    cuts=st.lists(st.integers(0, FEW), max_size=9),
    unknown=st.booleans(),
    fit_intercept=st.booleans(),
)
def test_the_cut_does_not_matter(cuts, unknown, fit_intercept):
    S, y, c = rows()
    chunks = tuple(np.diff([0, *sorted(cuts), FEW]).tolist())
    S_cut, y_cut, c_cut = (as_array(v, chunks) for v in (S, y, c))
    if unknown:
        S_cut, y_cut, c_cut = map(with_unknown_rows, (S_cut, y_cut, c_cut))
    fusion = partial(LpFusion, p=2, fit_intercept=fit_intercept)
    assert_as_good(fusion().fit(S_cut, y_cut, c_cut), fusion().fit(S, y, c))


def test_repeated_fits_are_equal_bit_for_bit():
    S, y, _ = rows(MANY)
    one, other = (LpFusion().fit(FORMS["array"](S), FORMS["array"](y)) for _ in range(2))
    np.testing.assert_array_equal(one.weights_, other.weights_)


def test_threads_change_nothing():
    S, y, _ = rows(MANY)
    expected = LpFusion().fit(FORMS["array"](S), FORMS["array"](y))
    with dask.config.set(scheduler="threads", num_workers=4):
        found = LpFusion().fit(FORMS["array"](S), FORMS["array"](y))
    np.testing.assert_array_equal(found.weights_, expected.weights_)


# ------------------------------------------------------------------------------- refusals


def changed(values, place, value):
    values = values.copy()
    values[place] = value
    return values


def _nullable(part):
    return part.astype("Float64")


S0, Y0, C0 = rows()
CUT = {form: FORMS[form](S0) for form in FORMS}
REFUSED = {
    "NaN": (lambda: (FORMS["array"](changed(S0, (200, 1), np.nan)),), r"block 3, column 1 \(1 row"),
    "infinity": (
        lambda: (FORMS["unknown rows"](changed(S0, (599, 0), np.inf)),),
        r"block 6, column 0 \(1 row",
    ),
    "NaN in a named column": (
        lambda: (FORMS["frame"](changed(S0, (200, 1), np.nan)), Y0),
        r"block 3, column 'svm' \(1 row",
    ),
    "chunks that differ": (
        lambda: (CUT["array"], da.from_array(Y0, chunks=100)),
        r"y must have the same blocks as S: S has 7 blocks .* y has 6 blocks \(100, 100",
    ),
    "weights that are cut differently": (
        lambda: (CUT["array"], None, da.from_array(C0, chunks=100)),
        "sample_weight must have the same blocks as S",
    ),
    "partitions that differ": (
        lambda: (CUT["frame"], as_frame(Y0, "y", (300, 300))),
        "7 blocks of unknown sizes, y has 2 blocks of unknown sizes",
    ),
    "lengths that differ in a block": (
        lambda: (CUT["frame"], as_frame(Y0, "y", (uneven()[0] + 1, 0, 0, *uneven()[3:]))),
        r"block 0: y must hold one label for each row: expected shape \(150,\), got \(151,\)",
    ),
    "too few labels in memory": (lambda: (CUT["frame"], Y0[:-1]), r"expected shape \(600,\)"),
    "labels 0 and 1": (
        lambda: (CUT["array"], FORMS["array"]((Y0 < 0).astype(int))),
        r"block 0: .*got 0 and 1\. .* pass y\.compute\(\)",
    ),
    "labels 0 and 1 in memory": (lambda: (CUT["array"], (Y0 < 0).astype(int)), r"Choose one of"),
    "labels that are words": (
        lambda: (CUT["array"], FORMS["array"](np.where(Y0 > 0, "fine", "odd"))),
        r"block 0: .*'fine' and 'odd'\. .* pass y\.compute\(\)",
    ),
    "weights that are words": (
        lambda: (CUT["array"], None, FORMS["array"](np.where(Y0 > 0, "fine", "odd"))),
        "block 0: ",
    ),
    "cells that are missing in pandas' own way": (
        lambda: (FORMS["frame"](changed(S0, (200, 1), np.nan)).map_partitions(_nullable),),
        r"block 3, column 'svm' \(1 row",
    ),
    "missing labels": (
        lambda: (CUT["array"], FORMS["array"](changed(Y0, 599, np.nan))),
        r"block 6: .*and 1 missing",
    ),
    "only anomalies": (lambda: (CUT["array"], FORMS["array"](-np.ones(FEW))), "only −1"),
    "negative weights": (
        lambda: (CUT["array"], None, FORMS["array"](changed(C0, 599, -1.0))),
        r"block 6: sample_weight must be finite and not negative, got -1.0 \(1 such",
    ),
    "no weight": (lambda: (CUT["array"], None, FORMS["array"](0 * C0)), "zero in every row"),
    "no rows": (
        lambda: (CUT["array"][:0],),
        "at least one row and one column, got no row in any block",
    ),
    "no rows of an unknown number": (
        lambda: (CUT["array"][CUT["array"][:, 0] > 99],),
        "got no row in any block",
    ),
    "no columns": (
        lambda: (CUT["array"][:, :0],),
        "at least one row and one column, got no column",
    ),
    "one dimension": (lambda: (CUT["array"][:, 0],), "2D"),
    "strings": (lambda: (CUT["array"].astype(str),), "must be numbers"),
    "strings in a column": (
        lambda: (CUT["frame"].assign(svm=CUT["frame"]["svm"].astype(str)),),
        "must be numbers, but column 'svm'",
    ),
    "complex": (lambda: (CUT["array"] * 1j,), "must be numbers"),
    "labels that are no vector": (lambda: (CUT["array"], FORMS["array"](Y0[:, None])), "shape"),
}


@cases("case", REFUSED)
def test_bad_input_is_refused_and_leaves_no_trace(case):
    data, message = REFUSED[case]
    for imaginary in (0.0, 3.0):
        fusion = LpFusion(imaginary_anomalies=imaginary)
        with pytest.raises(ValueError, match=message):
            fusion.fit(*data())
        assert vars(fusion) == LpFusion(imaginary_anomalies=imaginary).get_params()


@pytest.mark.parametrize("case", ["NaN", "labels 0 and 1", "lengths that differ in a block"])
def test_bad_input_is_refused_by_the_path_too(case):
    data, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        lp_path(*data())


def test_a_refused_fit_keeps_the_one_before():
    fused = LpFusion().fit(CUT["array"], Y0)
    before = dict(vars(fused))
    with pytest.raises(ValueError, match="block 3"):
        fused.fit(*REFUSED["NaN"][0]())
    assert vars(fused) == before


def test_parameters_are_checked_before_any_block_is():
    with pytest.raises(ValueError, match="loss must be one of"):
        LpFusion(loss="absolute").fit(untouchable((5, 2), 3))


@pytest.mark.parametrize("vector", ["y", "sample_weight"])
def test_mixed_devices_are_refused(vector):
    def on(device, values):
        return array_api_strict.asarray(values, device=array_api_strict.Device(device))

    fusion = LpFusion()
    with pytest.raises(ValueError, match=rf"S and {vector} must be on one device.*device1"):
        fusion.fit(on("CPU_DEVICE", S0), **{vector: on("device1", np.abs(Y0))})
    assert vars(fusion) == LpFusion().get_params()


# -------------------------------------------------------------------------- afterwards


@every_form
def test_what_was_learnt_from_blocks_answers_lazily(form):
    fused = LpFusion(fit_intercept=True).fit(CUT[form], FORMS[form](Y0))
    table = pd.DataFrame(S0, columns=NAMES) if form == "frame" else S0
    for method in ("score_samples", "decision_function", "predict", "contributions"):
        answer = getattr(fused, method)(CUT[form])
        assert isinstance(answer, da.Array)
        np.testing.assert_allclose(
            answer.compute(), getattr(fused, method)(table), rtol=1e-12, atol=1e-13
        )


@pytest.mark.parametrize("n", [500, 40_000])
def test_blocks_may_be_arrays_of_another_library(n):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    rng = np.random.default_rng(0)
    y = np.where(rng.random(n) < 0.2, -1.0, 1.0)
    S = rng.normal(0.4 * (1 + y[:, None]), 1.0, (n, 4))

    def as_tensors(values):
        parts = np.array_split(values, 3)
        make = dask.delayed(torch.tensor)
        return da.concatenate([da.from_delayed(make(p), p.shape, p.dtype) for p in parts])

    settings = {"class_weight": "balanced", "fit_intercept": True}
    ours = LpFusion(**settings).fit(S, y)
    theirs = LpFusion(**settings).fit(as_tensors(S), as_tensors(y))
    assert theirs.certificate_.status == "optimal"
    assert theirs.certificate_.primal == pytest.approx(ours.certificate_.primal, rel=2e-8)
    np.testing.assert_allclose(theirs.weights_, ours.weights_, atol=1e-4)
