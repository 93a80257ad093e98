from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from helpers.pools import Lowest
from lpfuse import (
    FixedRule,
    FusedDetector,
    GMMDetector,
    KernelPCADetector,
    LpFusion,
    TwoSidedMinMax,
)
from lpfuse._base import rows_by_gaps
from lpfuse.ensemble.calibration import HeldOutScores, OutOfFoldScores
from lpfuse.ensemble.combination import Combination, scale_scores, without_gaps
from oracles.fused import growth, weigh

rng = np.random.default_rng(0)
S = rng.normal(size=(40, 3)) * [1, 5, 0.1]
Y = np.where(np.arange(40) % 3, 1.0, -1.0)
LEAST_SQUARES = LpFusion(p=1.5, loss="least_squares", class_weight="balanced")
numbers = st.floats(-5, 5)
gappy = arrays(float, (6, 3), elements=st.one_of(st.just(np.nan), numbers))


def combination(fusion=LEAST_SQUARES, scaler=None):
    return Combination.learn(scaler or TwoSidedMinMax(), fusion, S, Y)


def held_out_scores(fusion, S, y, fold):
    scores = OutOfFoldScores(S, y, np.asarray(fold), y, None)
    return HeldOutScores.out_of_fold(TwoSidedMinMax(), fusion, scores)


def holes():
    return np.where(np.random.default_rng(1).random(S.shape) < 0.2, np.nan, S)


@pytest.mark.parametrize("scaler", [TwoSidedMinMax(), StandardScaler()])
def test_gaps_stay_gaps_on_any_scale(scaler):
    fitted = clone(scaler).fit(S)
    np.testing.assert_array_equal(scale_scores(fitted, S), fitted.transform(S))
    gaps = holes()
    scaled = scale_scores(fitted, gaps)
    np.testing.assert_array_equal(np.isnan(scaled), np.isnan(gaps))
    known = ~np.isnan(gaps)
    np.testing.assert_array_equal(scaled[known], fitted.transform(S)[known])


def test_scalers_may_answer_in_frames():
    scaler = MinMaxScaler().set_output(transform="pandas").fit(S)
    assert isinstance(scaler.transform(S), pd.DataFrame)
    for scores in (S, holes()):
        assert isinstance(scale_scores(scaler, scores), np.ndarray)


def test_normal_rows_set_the_scale_and_copies_are_fitted():
    scaler, fusion = TwoSidedMinMax(), clone(LEAST_SQUARES)
    learnt = Combination.learn(scaler, fusion, S, Y)
    expected = TwoSidedMinMax().fit(S[Y > 0])
    np.testing.assert_array_equal(learnt.scaler.lower_, expected.lower_)
    alone = clone(fusion).fit(expected.transform(S), Y)
    np.testing.assert_array_equal(learnt.fusion.weights_, alone.weights_)
    assert not hasattr(scaler, "lower_")
    assert not hasattr(fusion, "weights_")


def test_normal_rows_alone_need_no_labels():
    """A fusion may then do what it does without anomalies."""

    class Told(FixedRule):
        def fit(self, S, y=None):
            self.told_ = y
            return super().fit(S)

    assert Combination.learn(TwoSidedMinMax(), Told(), S, np.ones(40)).fusion.told_ is None
    np.testing.assert_array_equal(Combination.learn(TwoSidedMinMax(), Told(), S, Y).fusion.told_, Y)


def test_needs_scorer_gives_scaled_scores_of_other_rows():
    rows = np.random.default_rng(2).normal(size=(5, 2))

    class Asking(FixedRule):
        needs_scorer = True

        def fit(self, S, y=None, ask=None):
            self.answer_ = ask(rows)
            return super().fit(S)

    pool = [("kpca", KernelPCADetector()), ("gmm", GMMDetector())]
    fused = FusedDetector(pool, fusion=Asking(), random_state=0).fit(S[:, :2])
    combination = fused.combination_
    expected = combination.scaler.transform(fused.detector_scores(rows))
    np.testing.assert_allclose(combination.fusion.answer_, expected)


@pytest.mark.parametrize("fusion", [LEAST_SQUARES, FixedRule()])
def test_contributions_sum_to_the_score(fusion):
    fused = combination(fusion)
    scaled = fused.scaler.transform(S)
    np.testing.assert_allclose(fused.terms(S), scaled * fused.fusion.weights_)
    np.testing.assert_array_equal(fused.contributions(S), fused.terms(S))
    np.testing.assert_allclose(fused.score_samples(S), fused.fusion.score_samples(scaled))
    np.testing.assert_array_equal(fused.abs_weights, np.abs(fused.fusion.weights_))


def test_the_weights_of_those_who_speak_grow():
    fused = combination()
    gaps = holes()
    scaled, weights = scale_scores(fused.scaler, gaps), fused.fusion.weights_
    assert (weights < 0).any()  # growth is by absolute value
    np.testing.assert_allclose(fused.score_samples(gaps), [weigh(row, weights) for row in scaled])
    parts = fused.contributions(gaps)
    spoken = ~np.isnan(gaps)
    nobody = ~spoken.any(axis=1)
    assert (parts[~spoken & ~nobody[:, None]] == 0).all()
    assert np.isnan(parts[nobody]).all()
    grown = np.array([growth(row, weights) for row in scaled])
    expected = (grown[:, None] * weights * scaled)[spoken]
    np.testing.assert_allclose(parts[spoken], expected)


def test_who_has_no_weight_cannot_speak_for_the_others():
    terms = np.array([[np.nan, 0.0], [1.0, np.nan], [2.0, 0.0], [np.nan, np.nan]])
    found = without_gaps(terms, np.array([1.0, 0.0]))
    np.testing.assert_array_equal(found.sum(axis=1), [np.nan, 1.0, 2.0, np.nan])


@given(gappy, arrays(float, (6, 3), elements=st.sampled_from([0.0, 0.3, 2.0])), arrays(bool, 3))
def test_gaps_as_one_by_one(terms, abs_weights, silent):
    found = without_gaps(terms, abs_weights, silent)
    for row, own, result in zip(terms, abs_weights, found, strict=True):
        heard = [np.nan if mute else term for term, mute in zip(row, silent, strict=True)]
        gaps = np.isnan(heard)
        factor = growth(heard, own) if gaps.any() else 1.0
        if np.isnan(factor):
            assert np.isnan(result).all()
        else:
            np.testing.assert_allclose(result, np.where(gaps, 0, np.nan_to_num(heard) * factor))


def test_without_gaps_nothing_changes():
    assert without_gaps(S, np.ones(3)) is S
    np.testing.assert_array_equal(without_gaps(S, np.ones(3), np.zeros(3, dtype=bool)), S)


# ----------------------------------------------------------------------------------- not a sum


def test_a_fusion_that_is_not_a_sum_has_one_term():
    fused = combination(Lowest())
    assert not fused.is_additive
    scaled = fused.scaler.transform(S)
    np.testing.assert_array_equal(fused.terms(S), scaled.min(axis=1, keepdims=True))
    gaps = holes()
    whole = ~np.isnan(gaps).any(axis=1)
    np.testing.assert_array_equal(np.isnan(fused.score_samples(gaps)), ~whole)
    np.testing.assert_array_equal(fused.score_samples(gaps)[whole], scaled.min(axis=1)[whole])
    np.testing.assert_array_equal(fused.score_samples(np.full((2, 3), np.nan)), [np.nan, np.nan])


def test_what_nobody_else_can_say_is_judged_by_all():
    held_out = HeldOutScores.by(combination(Lowest()), S, Y)
    scores, labels, _ = held_out.scores(np.array([True, False, True]))
    np.testing.assert_array_equal(scores, combination(Lowest()).score_samples(S))
    np.testing.assert_array_equal(labels, Y)


# ----------------------------------------------------------------------------------- held-out rows


def test_out_of_fold_combinations_one_by_one():
    fold = np.arange(40) // 10
    y = np.where(np.arange(40) % 7 == 3, 0, Y)
    gaps = holes()
    held_out = held_out_scores(LEAST_SQUARES, gaps, y, fold)
    np.testing.assert_array_equal(held_out.labels, y)
    teaches = (y != 0) & ~np.isnan(gaps).any(axis=1)
    for i in range(40):
        rest = teaches & (fold != fold[i])
        assert set(y[rest]) == {1, -1}
        own = Combination.learn(TwoSidedMinMax(), LEAST_SQUARES, gaps[rest], y[rest])
        np.testing.assert_allclose(held_out.terms[i], own.terms(gaps[[i]])[0])
        np.testing.assert_allclose(held_out.abs_weights[i], own.abs_weights)


def test_a_class_in_a_single_fold_is_not_lost():
    lone = np.where(Y < 0, 0, 1 + np.arange(40) % 2)
    held_out = held_out_scores(LEAST_SQUARES, S, Y, lone)
    everyone = combination()
    np.testing.assert_allclose(held_out.terms[Y < 0], everyone.terms(S)[Y < 0])
    at_home = held_out_scores(LEAST_SQUARES, S, Y, np.zeros(40, dtype=int))
    np.testing.assert_allclose(at_home.terms, everyone.terms(S))


def test_out_of_fold_combinations_keep_their_warnings_to_themselves():
    flat = np.column_stack([S, np.zeros(40)])
    held_out = held_out_scores(FixedRule(), flat, Y, np.arange(40) % 4)
    assert held_out.terms.shape == (40, 4)


def test_scores_had_some_been_silent():
    fold = np.arange(40) % 4
    gaps = holes()
    held_out = held_out_scores(LEAST_SQUARES, gaps, Y, fold)
    for silent in product([False, True], repeat=3):
        unheard = np.isnan(gaps) | silent
        scores, labels, _ = held_out.scores(np.array(silent))
        if unheard.all():
            np.testing.assert_array_equal(scores, held_out.scores()[0])
            continue
        some = ~unheard.all(axis=1)
        np.testing.assert_array_equal(labels, Y[some])
        expected = [
            sum(t for t, mute in zip(terms, mutes, strict=True) if not mute)
            * abs_weights.sum() / abs_weights[~mutes].sum()
            for terms, abs_weights, mutes in zip(
                held_out.terms, held_out.abs_weights, unheard, strict=True
            )
            if not mutes.all()
        ]  # fmt: skip
        np.testing.assert_allclose(scores, expected)


def test_where_only_anomalies_would_be_left_all_rows_decide():
    terms = np.array([[np.nan, 1.0], [np.nan, 2.0], [3.0, 4.0]])
    held_out = HeldOutScores(terms, np.ones((3, 2)), np.array([1.0, 1, -1]))
    scores, labels, _ = held_out.scores(np.array([False, True]))
    np.testing.assert_array_equal(scores, [2.0, 4.0, 7.0])
    np.testing.assert_array_equal(labels, [1, 1, -1])


def test_held_out_rows_can_be_joined_and_picked():
    first, second = (
        HeldOutScores.by(combination(), S[:5], Y[:5]),
        HeldOutScores.by(combination(), S[5:], Y[5:]),
    )
    whole = HeldOutScores.by(combination(), S, Y)
    joined = HeldOutScores.concatenate([first, second])
    for name in ("terms", "abs_weights", "labels"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name))
        picked = getattr(whole[whole.labels < 0], name)
        np.testing.assert_array_equal(picked, getattr(whole, name)[Y < 0])


@given(arrays(bool, (7, 3)))
def test_rows_by_their_gaps(gaps):
    found = rows_by_gaps(gaps)
    assert sum(rows.sum() for rows, _ in found) == 7
    assert len({tuple(silent) for _, silent in found}) == len(found)
    for rows, silent in found:
        assert (gaps[rows] == silent).all()


def test_a_weight_that_is_next_to_nothing_is_no_voice():
    fused = combination(FixedRule())
    fused.fusion.weights_ = np.array([2.0, -1e-7, 1e-3])
    np.testing.assert_array_equal(fused.abs_weights, [2.0, 0.0, 1e-3])
    only = np.full((3, 3), np.nan)
    np.fill_diagonal(only, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(np.isnan(fused.score_samples(only)), [False, True, False])


def test_moved_scores_move_equally_with_missing_scores():
    terms = np.array([[3.0, 1.0], [np.nan, 2.0], [1.0, 5.0], [np.nan, np.nan]])
    weights = np.array([[1.0, 3.0], [2.0, 2.0], [1.0, 0.0], [1.0, 1.0]])
    held_out = HeldOutScores(terms, weights, np.ones(4))
    by = np.array([0.5, -2.0, 1.0, 7.0])
    for silent in (None, np.array([True, False]), np.array([False, True])):
        before, after = (h.scores(silent)[0] for h in (held_out, held_out.moved(by)))
        speaks = ~np.isnan(held_out._fused(silent))
        np.testing.assert_allclose(after - before, by[speaks])


def test_normal_rows_that_calibrate_stand_for_all():
    terms, labels = np.arange(6.0)[:, None], np.array([1.0, 1, 1, 1, -1, 0])
    calibrates = np.array([False, True, False, True, False, False])
    held_out = HeldOutScores(terms, np.ones((6, 1)), labels, calibrates)
    np.testing.assert_array_equal(held_out.normal_scores(), [1, 3])
    scores, known, counts = held_out.scores()
    np.testing.assert_array_equal(scores, [1, 3, 4, 5])
    np.testing.assert_array_equal(known, [1, 1, -1, 0])
    np.testing.assert_array_equal(counts, [2, 2, 1, 1])
    np.testing.assert_array_equal(held_out[2:].normal_scores(), [3])
    everyone = HeldOutScores(terms, np.ones((6, 1)), labels)
    both = HeldOutScores.concatenate([held_out, everyone])
    np.testing.assert_array_equal(both.normal_scores(), [0, 1, 1, 2, 3, 3])
