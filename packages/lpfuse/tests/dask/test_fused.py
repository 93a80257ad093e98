"""Fused detectors and rows of Dask: trained on a part of them, lazy about all."""

import warnings

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import lpfuse
from helpers.cases import cases
from helpers.cuts import as_array, as_frame, untouchable, with_unknown_rows
from helpers.pairwise import each_value
from helpers.pools import Distance, Lowest, both, numbered
from lpfuse import FusedDetector, FusedDetectorCV, GMMDetector, LpFusion
from lpfuse._arrays.blocks import Blocks
from lpfuse.adapters import ScoreFunction
from lpfuse.ensemble import sampling as subsample
from lpfuse.ensemble.sampling import subsample_of

pytestmark = pytest.mark.usefixtures("in_this_thread")

NAMES = ["height", "width", "depth", "weight"]
X, Y = both(160, 20)
CHUNKS = (40, 0, 3, 77, 0, 60)
POOL = [("near", Distance(), [0, 1]), ("far", Distance(), [2, 3]), ("all", Distance(power=2))]
FORMS = {
    "array": lambda v: as_array(v, CHUNKS),
    "unknown rows": lambda v: with_unknown_rows(as_array(v, CHUNKS)),
    "frame": lambda v: as_frame(v, NAMES if np.ndim(v) > 1 else "label", CHUNKS),
}
ROWS = {form: FORMS[form](X) for form in FORMS}
METHODS = [
    "score_samples",
    "decision_function",
    "predict",
    "pvalues",
    "contributions",
    "detector_scores",
]
every_form = pytest.mark.parametrize("form", FORMS)


def in_memory(form, rows=X):
    return pd.DataFrame(rows, columns=NAMES) if form == "frame" else rows


def a_detector(**parameters):
    return FusedDetector(POOL, random_state=0, **parameters)


# ---------------------------------------------------------------------------------- scoring


@every_form
def test_answers_are_lazy_and_those_of_rows_in_memory(form):
    fused = a_detector().fit(in_memory(form), Y)
    for method in METHODS:
        answer = getattr(fused, method)(ROWS[form])
        expected = getattr(fused, method)(in_memory(form))
        assert isinstance(answer, da.Array)
        assert answer.dtype == expected.dtype
        assert answer.shape[1:] == expected.shape[1:]
        found = answer.compute()
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_nothing_is_computed_before_it_is_asked_for():
    fused = a_detector().fit(X, Y)
    for method in METHODS:
        answer = getattr(fused, method)(untouchable((5, 2), 4))
        assert answer.shape[0] == 7
        with pytest.raises(AssertionError, match="before it was asked for"):
            answer.compute()


def test_columns_are_checked_before_anything_is_computed():
    fused = a_detector().fit(X, Y)
    for method in METHODS:
        with pytest.raises(ValueError, match="expecting 4 features"):
            getattr(fused, method)(untouchable((5, 2), 3))


def test_one_that_chooses_answers_lazily_too():
    chosen = FusedDetectorCV(POOL, ps=[1, 2], random_state=0).fit(ROWS["array"], FORMS["array"](Y))
    same = FusedDetectorCV(POOL, ps=[1, 2], random_state=0).fit(X, Y)
    assert chosen.best_params_ == same.best_params_
    np.testing.assert_array_equal(chosen.weights_, same.weights_)
    for method in METHODS:
        np.testing.assert_allclose(
            getattr(chosen, method)(ROWS["array"]).compute(),
            getattr(same, method)(X),
            rtol=1e-12,
            atol=1e-13,
        )


@every_form
def test_a_silent_detector_is_made_up_for_in_its_block(form):
    rows = X.copy()
    rows[50, 0] = np.nan  # in the fourth block
    fused = a_detector().fit(in_memory(form), Y)
    with pytest.warns(UserWarning, match="1 row with missing cells, which no detector could"):
        expected = fused.decision_function(in_memory(form, rows))
    with pytest.warns(UserWarning, match="1 row with missing cells, which no detector could"):
        found = fused.decision_function(FORMS[form](rows)).compute()
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_contributions_that_do_not_exist_are_refused_at_once():
    fused = a_detector(fusion=Lowest()).fit(X, Y)
    with pytest.raises(AttributeError, match="does not add up"):
        fused.contributions(untouchable((5,), 4))


def test_verdicts_say_whom_to_ask_instead():
    with pytest.raises(TypeError, match="each of the other methods gives a lazy array"):
        a_detector().fit(X, Y).verdicts(untouchable((5,), 4))


@pytest.mark.parametrize("form", ["array", "frame"])
def test_several_answers_together_read_the_rows_once(form):
    reads = []

    def read(part):
        reads.append(1)
        return part

    fused = a_detector().fit(in_memory(form), Y)
    meta = in_memory(form)[:0]
    lazy = ROWS[form]
    lazy = (
        lazy.map_partitions(read, meta=meta)
        if form == "frame"
        else lazy.map_blocks(read, meta=meta)
    )
    dask.compute(fused.score_samples(lazy), fused.pvalues(lazy), fused.contributions(lazy))
    assert len(reads) == len(CHUNKS)


def test_what_was_fitted_then_is_what_answers_later():
    fused = a_detector().fit(X, Y)
    expected = fused.score_samples(X)
    later = fused.score_samples(ROWS["array"])
    fused.fit(10.0 + X[:, ::-1])
    np.testing.assert_allclose(later.compute(), expected, rtol=1e-12, atol=1e-13)


# ---------------------------------------------------------------------------------- training


@each_value(form=FORMS, labels=[np.asarray, list, "dask"])
def test_few_rows_are_trained_on_whole_and_as_in_memory(form, labels):
    y = FORMS[form](Y) if labels == "dask" else labels(Y)
    fused, same = a_detector().fit(ROWS[form], y), a_detector().fit(in_memory(form), Y)
    np.testing.assert_array_equal(fused.weights_, same.weights_)
    assert fused.offset_ == same.offset_
    assert vars(fused).keys() == vars(same).keys()
    assert fused.certificate_.status == "optimal"


def test_names_and_types_reach_the_detectors():
    frame = pd.DataFrame(X, columns=NAMES).assign(colour=np.where(X[:, 0] > 0, "red", "blue"))
    stops = np.cumsum(CHUNKS)
    parts = [frame.iloc[stop - k : stop] for k, stop in zip(CHUNKS, stops, strict=True)]
    lazy = dask.dataframe.from_map(lambda part: part, parts, meta=frame.iloc[:0])
    colours = make_pipeline(
        OneHotEncoder(sparse_output=False), IsolationForest(n_estimators=5, random_state=0)
    )
    detectors = [("size", Distance(), ["height", "width"]), ("colours", colours, ["colour"])]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*give most normal rows the same score")
        fused = FusedDetector(detectors, random_state=0).fit(lazy, Y)
        same = FusedDetector(detectors, random_state=0).fit(frame, Y)
    assert fused.feature_names_in_.tolist() == [*NAMES, "colour"]
    np.testing.assert_array_equal(fused.weights_, same.weights_)
    np.testing.assert_allclose(fused.score_samples(lazy).compute(), same.score_samples(frame))


@every_form
def test_cells_may_be_missing(form):
    rows = X.copy()
    rows[::9, 0] = np.nan
    with pytest.warns(UserWarning, match="could not score"):
        fused = a_detector().fit(FORMS[form](rows), Y)
    with pytest.warns(UserWarning, match="could not score"):
        same = a_detector().fit(in_memory(form, rows), Y)
    np.testing.assert_array_equal(fused.weights_, same.weights_)


def test_the_threshold_and_the_weights_come_from_the_rows_drawn():
    fused = a_detector().fit(ROWS["array"], FORMS["array"](Y), subsample=60)
    assert len(fused.out_of_fold_.labels) == 60
    assert (fused.out_of_fold_.labels < 0).sum() == 20


def test_the_random_state_draws():
    def drawn(state):
        fused = FusedDetector(POOL, random_state=state).fit(ROWS["array"], subsample=50)
        return fused.score_samples(X)

    np.testing.assert_array_equal(drawn(0), drawn(0))
    assert (drawn(0) != drawn(1)).any()


@pytest.mark.parametrize(
    "parameters",
    [
        {"cv": 5, "calibration": "plain"},
        {"cv": 5, "calibration": "split"},
        {"cv": "in-sample", "calibration": "plain"},
    ],
)
def test_other_ways_of_training_take_dask_too(parameters):
    fused = a_detector(**parameters).fit(ROWS["frame"], Y)
    same = a_detector(**parameters).fit(in_memory("frame"), Y)
    np.testing.assert_array_equal(fused.weights_, same.weights_)


def test_experts_and_kinds_of_anomalies():
    detectors = [*POOL, ("expert", LogisticRegression())]
    fused = FusedDetector(detectors, random_state=0).fit(ROWS["array"], Y, kind="clusters")
    same = FusedDetector(detectors, random_state=0).fit(X, Y, kind="clusters")
    np.testing.assert_array_equal(fused.weights_, same.weights_)


def test_a_model_fitted_to_a_draw_is_saved(tmp_path):
    fused = FusedDetector([("gmm", GMMDetector())], random_state=0)
    fused.fit(ROWS["array"], subsample=90).save(tmp_path / "it.lpfuse")
    loaded = lpfuse.load(tmp_path / "it.lpfuse")
    assert len(loaded.rows_.values) == 90
    np.testing.assert_array_equal(
        loaded.score_samples(ROWS["array"]).compute(), fused.score_samples(ROWS["array"]).compute()
    )


@cases("size", [0, -5, 2.5, "many", True])
def test_a_size_that_is_none_is_refused(size):
    with pytest.raises(ValueError, match="subsample must be a whole number from 1"):
        FusedDetector().fit(untouchable((5,), 4), subsample=size)


def test_weights_from_all_rows():
    rng = np.random.default_rng(0)
    n = 4000
    y = np.where(rng.random(n) < 0.1, -1, 1)
    rows = rng.normal(size=(n, 4)) + 1.5 * (y[:, None] < 0) * [1, 1, 0, 0]
    cut = (1500, 0, 500, 2000)
    lazy, labels = as_array(rows, cut), as_array(y, cut)
    fused = a_detector().fit(lazy, labels, subsample=300)
    scores = fused.scaler_.transform(fused.detector_scores(lazy))
    assert isinstance(scores, da.Array)
    ours = LpFusion(class_weight="balanced").fit(scores, labels)
    host = fused.scaler_.transform(fused.detector_scores(rows))
    theirs = LpFusion(class_weight="balanced").fit(host, y)
    assert ours.certificate_.status == "optimal"
    assert ours.certificate_.primal == pytest.approx(theirs.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(ours.weights_, theirs.weights_, rtol=0, atol=1e-5)
    new = rng.normal(size=(10, 4))
    assert ours.score_samples(fused.scaler_.transform(fused.detector_scores(new))).shape == (10,)


# ---------------------------------------------------------------------------------- refusals


def flawed(place, value):
    rows = X.copy()
    rows[place] = value
    return rows


def labelled(place, value):
    labels = Y.astype(float)
    labels[place] = value
    return labels


REFUSED = {
    "infinity": (lambda: (FORMS["array"](flawed((50, 2), np.inf)),), "block 3: X holds infinity"),
    "infinity in a frame": (
        lambda: (FORMS["frame"](flawed((50, 2), np.inf)), Y),
        "block 3: X holds infinity",
    ),
    "strange labels": (
        lambda: (ROWS["array"], FORMS["array"](labelled(50, 2))),
        r"block 3: y must be \+1 \(normal\), -1 \(anomaly\) or 0",
    ),
    "words for labels": (
        lambda: (ROWS["array"], FORMS["array"](np.where(Y > 0, "fine", "odd"))),
        r"got 'fine' and 'odd'(?s:.)*fit\(X, y, normal='fine'\)",
    ),
    "strange labels in memory": (lambda: (ROWS["frame"], labelled(50, 2)), "y must be"),
    "too few labels": (lambda: (ROWS["unknown rows"], Y[:-1]), r"expected shape \(180,\)"),
    "labels of another length in a block": (
        lambda: (ROWS["frame"], as_frame(Y, "y", (41, 0, 2, 77, 0, 60))),
        r"block 0: y must hold one label for each row: expected shape \(40,\), got \(41,\)",
    ),
    "labels that are cut differently": (
        lambda: (ROWS["array"], as_array(Y, (90, 90))),
        "y must have the same blocks as X",
    ),
    "only anomalies": (lambda: (ROWS["array"], FORMS["array"](-np.ones(180))), "only −1"),
    "no rows": (lambda: (ROWS["array"][:0],), "got no row in any block"),
    "no rows of an unknown number": (
        lambda: (ROWS["array"][ROWS["array"][:, 0] > 99],),
        "got no row in any block",
    ),
    "no columns": (
        lambda: (ROWS["array"][:, :0],),
        "at least one row and one column, got no column",
    ),
    "one dimension": (lambda: (ROWS["array"][:, 0],), "2D"),
    "words": (lambda: (ROWS["array"].astype(str).astype("U9") + "a",), "block 0: "),
}


@cases("case", REFUSED)
def test_bad_input_is_refused_and_leaves_no_trace(case):
    data, message = REFUSED[case]
    fused = FusedDetector(POOL)
    with pytest.raises(ValueError, match=message):
        fused.fit(*data())
    assert vars(fused) == FusedDetector(POOL).get_params(deep=False)


@pytest.mark.parametrize("name", ["groups", "kind"])
def test_what_goes_with_rows_in_memory_alone_is_refused(name):
    with pytest.raises(TypeError, match=f"{name} cannot go with rows of Dask"):
        a_detector().fit(untouchable((5,), 4), **{name: Y})


def test_names_that_are_no_strings_are_refused_at_once():
    with pytest.raises(TypeError, match="string names"):
        a_detector().fit(as_frame(X, ["a", 1, "b", 2], CHUNKS))


# ---------------------------------------------------------------------------------- the draw

reduce_blocks = Blocks.reduce


@pytest.fixture
def passes(monkeypatch):
    made = []

    def count(self, *arguments):
        made.append(1)
        return reduce_blocks(self, *arguments)

    monkeypatch.setattr(Blocks, "reduce", count)
    return made


def drawn_from(n, chunks, most, labels=None, unknown=False, seed=0):
    """Numbers of the rows drawn, and their labels."""
    rows = as_array(numbered(np.zeros((n, 1))), chunks)
    y = None if labels is None else as_array(labels, chunks)
    if unknown:
        rows, y = with_unknown_rows(rows), None if y is None else with_unknown_rows(y)
    found, known = subsample_of(rows, y, most, seed)
    return found[:, 0].astype(int), known


both_sizes = pytest.mark.parametrize("unknown", [False, True])
ALIKE, SKEWED = (250,) * 20, (1, 0, 4, *(2,) * 16, 4963)
LOPSIDED = (*(100,) * 19, 3100)  # the last block hands in less than its share at first


@both_sizes
def test_rows_are_drawn_without_replacement_and_in_order(unknown):
    found, labels = drawn_from(5000, ALIKE, 700, unknown=unknown)
    assert len(found) == 700
    assert (np.diff(found) > 0).all()
    assert labels is None


@both_sizes
def test_where_there_are_no_more_all_are_taken(unknown, passes):
    y = np.where(np.arange(5000) % 7, 1, -1)
    for chunks in (ALIKE, SKEWED):
        found, labels = drawn_from(5000, chunks, 5000, y, unknown)
        np.testing.assert_array_equal(found, np.arange(5000))
        np.testing.assert_array_equal(labels, y)


@pytest.mark.slow
@both_sizes
@pytest.mark.parametrize("chunks", [ALIKE, SKEWED, LOPSIDED], ids=["alike", "skewed", "lopsided"])
def test_every_row_has_the_same_chance(unknown, chunks):
    times, most = 40, 500
    counts = np.zeros(5000)
    for seed in range(times):
        found, _ = drawn_from(5000, chunks, most, unknown=unknown, seed=seed)
        assert len(found) == most
        counts[found] += 1
    tenths = counts.reshape(10, 500).sum(axis=1)  # each near its share, give or take 4 σ
    expected = times * most / 10
    assert np.abs(tenths - expected).max() <= 4 * np.sqrt(expected * 0.9)
    assert counts.max() <= times * 0.1 + 6 * np.sqrt(times * 0.09)


def test_one_pass_is_enough_but_for_very_uneven_blocks(passes):
    drawn_from(5000, ALIKE, 500)
    drawn_from(5000, ALIKE, 500, unknown=True)
    drawn_from(5000, SKEWED, 500)
    assert len(passes) == 3
    drawn_from(5000, SKEWED, 500, unknown=True)
    assert len(passes) == 5


@both_sizes
@pytest.mark.parametrize("chunks", [ALIKE, SKEWED], ids=["alike", "skewed"])
def test_all_known_anomalies_are_taken(unknown, chunks):
    y = np.where(np.arange(5000) >= 4800, -1, np.arange(5000) % 2)  # all in the last blocks
    found, labels = drawn_from(5000, chunks, 500, y, unknown)
    assert len(found) == 500
    assert set(range(4800, 5000)) <= set(found)
    np.testing.assert_array_equal(labels, y[found])
    assert (labels == 0).sum() > 80


@both_sizes
def test_anomalies_are_half_of_the_rows_at_most(unknown):
    y = np.where(np.arange(5000) % 2, -1, 1)
    found, labels = drawn_from(5000, ALIKE, 500, y, unknown)
    assert len(found) == 500
    assert (labels < 0).sum() == 250


def test_little_is_handed_in_by_a_block(monkeypatch):
    sizes = []
    together = subsample._together

    def weigh(most, parts):
        sizes.extend(len(part.drawn[0].keys) for part in parts if len(part.sizes) == 1)
        return together(most, parts)

    monkeypatch.setattr(subsample, "_together", weigh)
    drawn_from(5000, ALIKE, 500)
    drawn_from(5000, ALIKE, 500, unknown=True)
    assert max(sizes) <= 4 * 500 / 20 + 50


def test_arrays_of_other_libraries_come_home():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    blocks = Blocks([(torch.ones((5, 2)), None), (torch.zeros((3, 2)), None)], [5, 3])
    seen = subsample._pass_over(blocks, 100, 0)
    assert isinstance(seen.drawn[0].rows, np.ndarray)
    assert seen.drawn[0].rows.sum() == 10


class Rowwise(BaseEstimator):
    def __call__(self, rows):
        return -np.abs(np.asarray(rows)).sum(axis=1)


def test_a_function_can_be_fused_and_sent():
    detectors = [("sum", ScoreFunction(Rowwise(), high="normal")), ("all", Distance())]
    fused = FusedDetector(detectors, random_state=0).fit(ROWS["array"])
    np.testing.assert_allclose(
        fused.score_samples(ROWS["array"]).compute(), fused.score_samples(X), rtol=1e-12
    )
