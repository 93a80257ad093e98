"""Rows of Dask through the scaler and the fusion rules: lazy, and the same numbers as in memory."""

import warnings

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from helpers.cases import cases
from helpers.pairwise import each_value
from lpfuse import FixedRule, LpFusion, TailScaler, TwoSidedMinMax
from lpfuse._quantiles import SIZE
from lpfuse.fusion.fixed import RULES
from lpfuse.fusion.stacking import BestSingle, LinearSVMStacker, LogisticStacker

NAMES = ["forest", "svm", "lof"]
rng = np.random.default_rng(0)
Y = np.where(np.arange(400) % 5, 1.0, -1.0)
S = Y[:, None] * [0.8, 0.5, 0.4] + rng.normal(scale=0.4, size=(400, 3))
UNEVEN = (100, 0, 7, 193, 1, 99)  # one block is empty


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def as_array(values, chunks=UNEVEN):
    values = np.asarray(values)
    return da.from_array(values, chunks=(chunks, *((-1,) * (values.ndim - 1))))


def with_unknown_rows(array):
    """The same blocks, whose numbers of rows only a look at them tells."""
    return array.map_blocks(np.asarray, chunks=((np.nan,) * array.numblocks[0], *array.chunks[1:]))


def as_frame(values, columns=NAMES, chunks=UNEVEN):
    """A data frame with partitions of those sizes, empty ones among them."""
    whole = pd.DataFrame(values, columns=columns)
    stops = np.cumsum(chunks)
    parts = [whole.iloc[stop - rows : stop] for rows, stop in zip(chunks, stops, strict=True)]
    return dd.from_map(lambda part: part, parts, meta=whole.iloc[:0])


def forms(values):
    return [as_array(values), with_unknown_rows(as_array(values)), as_frame(values)]


ARRAY, _, FRAME = FORMS = range(3)
METHODS = ["score_samples", "decision_function", "predict"]
FUSIONS = [
    *(FixedRule(rule, n_buckets=2) for rule in RULES),
    LpFusion(p=2),
    BestSingle(),
    LogisticStacker(),
    LinearSVMStacker(),
]


def fitted(estimator, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(estimator).fit(*arguments)


def never():
    raise AssertionError("computed before it was asked for")


def untouchable(columns=3):
    """Blocks that cannot be computed."""
    blocks = [
        da.from_delayed(dask.delayed(never)(), shape=(rows, columns), dtype=float)
        for rows in (5, 2)
    ]
    return da.concatenate(blocks)


# ------------------------------------------------------------------------------- row by row


@each_value(fusion=FUSIONS, form=FORMS)
def test_fusion_answers_as_in_memory(fusion, form):
    rows = pd.DataFrame(S, columns=NAMES) if form == FRAME else S
    fused = fitted(fusion, rows, Y)
    for method in METHODS:
        answer = getattr(fused, method)(forms(S)[form])
        assert isinstance(answer, da.Array)
        expected = getattr(fused, method)(rows)
        found = answer.compute()
        assert answer.dtype == found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
        if form == ARRAY:
            assert answer.chunks == (UNEVEN,)


@each_value(form=FORMS, fusion=[LpFusion(p=2), FixedRule("sum")])
def test_contributions_add_up_to_the_scores(fusion, form):
    fused = fitted(fusion, pd.DataFrame(S, columns=NAMES) if form == FRAME else S, Y)
    rows = forms(S)[form]
    parts = fused.contributions(rows)
    assert parts.shape[1] == 3
    np.testing.assert_allclose(
        parts.compute().sum(axis=1), fused.score_samples(rows).compute(), rtol=1e-12, atol=1e-13
    )


@each_value(
    scaler=[TailScaler(), *(TwoSidedMinMax(clip=clip) for clip in (False, True, "soft"))],
    form=FORMS,
)
def test_the_scaler_answers_as_in_memory(scaler, form):
    frame = pd.DataFrame(S, columns=NAMES)
    scaler = fitted(scaler, frame if form == FRAME else S)
    scaled = scaler.transform(forms(S)[form])
    assert isinstance(scaled, da.Array)
    assert scaled.shape[1] == 3
    expected = scaler.transform(frame if form == FRAME else S)
    np.testing.assert_array_equal(scaled.compute(), expected)


@cases("estimator", [*FUSIONS, TailScaler(), TwoSidedMinMax()])
def test_nothing_is_computed_before_it_is_asked_for(estimator):
    done = fitted(estimator, S, Y)
    rows = untouchable()
    for name in ("score_samples", "decision_function", "predict", "contributions", "transform"):
        if hasattr(done, name):
            answer = getattr(done, name)(rows)
            assert answer.shape[0] == 7
            with pytest.raises(AssertionError, match="before it was asked for"):
                answer.compute()


def test_rows_can_be_passed_by_name():
    fused = FixedRule("min").fit(S)
    np.testing.assert_array_equal(fused.score_samples(S=S), S.min(axis=1))
    np.testing.assert_array_equal(fused.score_samples(S=as_array(S)).compute(), S.min(axis=1))


def test_a_method_without_rows_is_refused_as_ever():
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        FixedRule("sum").fit(S).score_samples()


@pytest.mark.parametrize(
    "estimator", [LpFusion(p=2), FixedRule("median"), TailScaler(), TwoSidedMinMax()]
)
def test_single_precision_stays_single(estimator):
    single = S.astype(np.float32)
    done = fitted(estimator, S)
    method = "transform" if hasattr(done, "transform") else "score_samples"
    for rows in (as_array(single), as_frame(single, columns=list("abc"))):
        if hasattr(rows, "columns"):
            done = fitted(estimator, pd.DataFrame(S, columns=list("abc")))
        answer = getattr(done, method)(rows)
        assert answer.dtype == answer.compute().dtype == np.float32


def test_columns_split_over_blocks_are_joined():
    fused = FixedRule("median").fit(S)
    np.testing.assert_array_equal(
        fused.score_samples(da.from_array(S, chunks=(150, 2))).compute(), fused.score_samples(S)
    )


def test_what_was_fitted_then_is_what_answers_later():
    fused = LpFusion(p=2).fit(S, Y)
    expected = fused.score_samples(S)
    later = fused.score_samples(as_array(S))
    fused.set_params(p=1).fit(S[:, ::-1], Y)
    np.testing.assert_allclose(later.compute(), expected, rtol=1e-12, atol=1e-13)


# --------------------------------------------------------------------------------- refusals


def test_columns_are_checked_before_anything_is_computed():
    with pytest.raises(ValueError, match="expecting 3 features"):
        FixedRule("min").fit(S).predict(untouchable(columns=2))
    fused = FixedRule("min").fit(pd.DataFrame(S, columns=NAMES))
    with pytest.raises(ValueError, match="feature names should match"):
        fused.predict(as_frame(S, columns=["forest", "svm", "knn"]))
    with pytest.raises(NotFittedError):
        FixedRule("min").predict(untouchable())


@each_value(estimator=[LpFusion(p=2), FixedRule("vote"), TwoSidedMinMax()], value=[np.nan, np.inf])
def test_a_flaw_is_told_with_its_block_and_column(estimator, value):
    flawed = S.copy()
    flawed[150, 1] = value
    done = fitted(estimator, pd.DataFrame(S, columns=NAMES))
    method = done.transform if hasattr(done, "transform") else done.predict
    with pytest.raises(ValueError, match=r"block 3: .*NaN or infinity in column 'svm' \(1 row\)"):
        method(as_frame(flawed)).compute()


# -------------------------------------------------------------------------------- fixed rules


@each_value(rule=RULES, form=FORMS)
def test_a_rule_is_fitted_on_blocks_as_in_memory(rule, form):
    frame = pd.DataFrame(S, columns=NAMES)
    ours = FixedRule(rule, n_buckets=2).fit(forms(S)[form])
    expected = FixedRule(rule, n_buckets=2).fit(frame if form == FRAME else S)
    assert vars(ours).keys() == vars(expected).keys()
    new = frame if form == FRAME else S
    np.testing.assert_array_equal(ours.decision_function(new), expected.decision_function(new))


def test_a_rule_that_is_refused_blocks_keeps_what_it_was():
    fused = FixedRule("sum").fit(S[:, :2])
    flawed = S.copy()
    flawed[399, 2] = np.nan
    with pytest.raises(ValueError, match=r"block 5, column 2 \(1 row\)"):
        fused.fit(as_array(flawed))
    with pytest.raises(ValueError, match=r"pass y\.compute"):
        fused.fit(as_array(S), as_array(Y > 0))
    with pytest.raises(ValueError, match="not negative"):
        fused.fit(as_array(S), sample_weight=as_array(Y))
    assert fused.n_features_in_ == 2


# ------------------------------------------------------------------------------------ scaler


# More rows than the summary of a block keeps, and a block of few.
MANY = (3 * SIZE, 100, 2 * SIZE, SIZE)
MANY_Y = np.where(np.arange(sum(MANY)) % 5, 1.0, -1.0)
MANY_S = MANY_Y[:, None] * [0.8, 0.5, 0.4] + rng.normal(scale=0.4, size=(sum(MANY), 3))


@each_value(rho=[0, 5, 33.3, 99], form=FORMS, labelled=[True, False, False, True])
def test_few_rows_have_the_thresholds_of_memory(form, labelled, rho):
    y = as_array(Y) if labelled else None
    scaler = TwoSidedMinMax(rho).fit(forms(S)[form], y)
    expected = TwoSidedMinMax(rho).fit(S, Y if labelled else None)
    np.testing.assert_array_equal(scaler.lower_, expected.lower_)
    np.testing.assert_array_equal(scaler.upper_, expected.upper_)
    assert scaler.quantile_error_ == expected.quantile_error_ == 0.0
    assert scaler.n_features_in_ == 3
    assert hasattr(scaler, "feature_names_in_") == (form == FRAME)


@each_value(rho=[0, 5, 30, 60], labelled=[False, True])
def test_thresholds_of_many_rows_are_within_their_stated_error(labelled, rho):
    y = as_array(MANY_Y, MANY) if labelled else None
    scaler = TwoSidedMinMax(rho).fit(as_array(MANY_S, MANY), y)
    reference = np.sort(MANY_S[MANY_Y > 0] if labelled else MANY_S, axis=0)
    n = len(reference)
    assert 0 < scaler.quantile_error_ < 0.001
    for threshold, share in ((scaler.lower_, rho / 200), (scaler.upper_, 1 - rho / 200)):
        wrong = scaler.quantile_error_ * n + 1  # between two ranks
        low = reference[max(0, int(np.floor(share * (n - 1) - wrong)))]
        high = reference[min(n - 1, int(np.ceil(share * (n - 1) + wrong)))]
        assert (low <= threshold).all()
        assert (threshold <= high).all()
    if rho == 0:
        np.testing.assert_array_equal(scaler.lower_, reference[0])
        np.testing.assert_array_equal(scaler.upper_, reference[-1])
    else:
        exact = TwoSidedMinMax(rho).fit(MANY_S, MANY_Y if labelled else None)
        assert (scaler.lower_ != exact.lower_).any()  # it is the sketch that was asked


def test_the_same_blocks_have_the_same_thresholds():
    one, other = (TwoSidedMinMax().fit(as_array(MANY_S, MANY)) for _ in range(2))
    np.testing.assert_array_equal(one.lower_, other.lower_)
    np.testing.assert_array_equal(one.upper_, other.upper_)


def test_blocks_are_read_once():
    looks = []

    def look(block):
        looks.append(len(block))
        return block

    S_ = as_array(S).map_blocks(look, meta=np.empty((0, 0)))
    TwoSidedMinMax().fit(S_, as_array(Y))
    assert sorted(looks) == sorted(UNEVEN)


def test_a_block_of_anomalies_alone_changes_nothing():
    far = np.vstack([S, S[:50] - 1000.0])
    chunks = (*UNEVEN, 50)
    y = np.r_[np.ones(400), -np.ones(50)]
    scaler = TwoSidedMinMax().fit(as_array(far, chunks), as_array(y, chunks))
    np.testing.assert_array_equal(scaler.lower_, TwoSidedMinMax().fit(S).lower_)


def test_a_column_without_spread_among_the_normal_rows_is_told():
    flat = S.copy()
    flat[Y > 0, 1] = 7.0
    with pytest.warns(UserWarning, match="no spread in column 'svm'"):
        scaler = TwoSidedMinMax().fit(as_frame(flat), as_array(Y))
    np.testing.assert_array_equal(scaler.transform(as_frame(flat)).compute()[:, 1], 0.0)


@pytest.mark.parametrize(
    ("rows", "labels", "words"),
    [
        (np.where(S == S[150, 2], np.nan, S), None, r"block 3, column 2 \(1 row\)"),
        (S, np.where(np.arange(400) == 300, 3.0, Y), "block 4: y must be"),
        (S, -np.ones(400), "only −1"),
    ],
    ids=["NaN", "label", "no normal row"],
)
def test_what_the_scaler_refuses_leaves_it_as_it_was(rows, labels, words):
    scaler = TwoSidedMinMax().fit(S[:, :2])
    with pytest.raises(ValueError, match=words):
        scaler.fit(as_array(rows), None if labels is None else as_array(labels))
    assert scaler.n_features_in_ == scaler.lower_.size == 2


def test_blocks_of_labels_must_be_those_of_the_scores():
    with pytest.raises(ValueError, match="y must have the same blocks as S"):
        TwoSidedMinMax().fit(as_array(S), da.from_array(Y, chunks=200))


@each_value(form=FORMS, scaler=[TailScaler(), TwoSidedMinMax()])
def test_a_pipeline_of_scaler_and_rule_stays_lazy(scaler, form):
    rows = forms(S)[form]
    pipeline = make_pipeline(clone(scaler), FixedRule("median")).fit(rows)
    answer = pipeline.score_samples(rows)
    assert isinstance(answer, da.Array)
    expected = make_pipeline(clone(scaler), FixedRule("median")).fit(S).score_samples(S)
    np.testing.assert_array_equal(answer.compute(), expected)


def test_a_pipeline_learns_weights_from_blocks():
    lazy = make_pipeline(TwoSidedMinMax(), LpFusion(p=2)).fit(as_array(S), as_array(Y))
    plain = make_pipeline(TwoSidedMinMax(), LpFusion(p=2)).fit(S, Y)
    np.testing.assert_allclose(lazy[-1].weights_, plain[-1].weights_, atol=1e-4)
    np.testing.assert_array_equal(lazy.predict(as_array(S)).compute(), lazy.predict(S))


def test_a_pipeline_fitted_in_memory_scores_blocks():
    pipeline = make_pipeline(TwoSidedMinMax(), LpFusion(p=2)).fit(S, Y)
    answer = pipeline.predict(as_array(S))
    np.testing.assert_array_equal(answer.compute(), pipeline.predict(S))


def test_scaled_rows_are_cut_as_the_rows_were():
    scaled = TwoSidedMinMax().fit(S).transform(as_array(S))
    assert scaled.chunks == (UNEVEN, (3,))
    FixedRule("min").fit(scaled, as_array(Y))
