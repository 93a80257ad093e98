import tracemalloc
from math import dist, exp, log

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from helpers.cases import cases
from helpers.contract import assert_passes_checks, refused_labels
from helpers.pairwise import pairwise
from lpfuse import FusedDetector, GMMDetector, KernelPCADetector, LpFusion
from research.rivals.dynamic import DynamicEnsemble

IDLE_COLUMNS = "ignore:Scores have no spread:UserWarning", "ignore:Some detectors give:UserWarning"
MODES = ["auto", "winner", "fusion"]


def two_halves(n=600, seed=0):
    """Detector 0 is right where x > 0 and upside down elsewhere; detector 1 the other way round."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    y = np.where(rng.random(n) < 0.3, -1, 1)
    sides = np.where(X[:, :1] > 0, [1, -1], [-1, 1])
    return y[:, None] * sides * 0.8 + rng.normal(0, 0.4, (n, 2)), y, X


@pytest.fixture
def labelled():
    rng = np.random.default_rng(3)
    y = np.where(rng.random(150) < 0.2, -1, 1)
    S = y[:, None] * [0.9, 0.4, 0.1] + rng.normal(0.0, 0.6, (150, 3))
    return S, y, rng.normal(size=(150, 4)) * [1, 10, 0.1, 1]


class LabelsDropped(DynamicEnsemble):
    """Fit without y: scikit-learn's checks feed labels other than ±1, which we refuse."""

    def fit(self, S, y=None, sample_weight=None):
        return super().fit(S, sample_weight=sample_weight)


def not_a_repetition(estimator):
    """Neighbours are rows, however much each of them weighs."""
    return {
        "check_sample_weight_equivalence_on_dense_data": "a row that weighs three is one neighbour"
    }


@pytest.mark.filterwarnings(*IDLE_COLUMNS)
@pytest.mark.parametrize("estimator", [LabelsDropped()], ids=str)
def test_scikit_learn_contract(estimator):
    assert_passes_checks(estimator, refused_labels() | not_a_repetition(estimator))


@pytest.mark.slow
@pytest.mark.filterwarnings(*IDLE_COLUMNS)
@pytest.mark.parametrize("estimator", [LabelsDropped(mode="winner", n_neighbors=3)], ids=str)
def test_scikit_learn_contract_of_variants(estimator):
    assert_passes_checks(estimator, refused_labels() | not_a_repetition(estimator))


# ------------------------------------------------------------------------------------- by the book


def naive_scores(fusion, S, places):
    """The definition, a row and a neighbour at a time, from the validation set alone."""
    members = fusion.positions_.tolist()
    labels = fusion.labels_.tolist()
    reach = [
        min(dist(z, other) for other, side in zip(members, labels, strict=True) if side != label)
        for z, label in zip(members, labels, strict=True)
    ]
    np.testing.assert_allclose(fusion.reach_, reach, rtol=1e-6)
    return [
        naive_score(fusion, row, place, members, reach)
        for row, place in zip(S.tolist(), places.tolist(), strict=True)
    ]


def naive_score(fusion, row, place, members, reach):
    k, R = fusion.n_neighbors, len(row)
    candidates = sorted(range(len(members)), key=lambda z: dist(place, members[z]))
    if fusion.shortlist is not None:
        candidates = candidates[: fusion.shortlist * k]
    nearest = sorted(candidates, key=lambda z: dist(place, members[z]) / reach[z])[:k]
    influence = {
        z: fusion.influence_[z] / (1 + dist(place, members[z]) / reach[z]) for z in nearest
    }
    competence = [
        sum(influence[z] * fusion.correctness_[z, j] for z in nearest) / sum(influence.values())
        for j in range(R)
    ]
    probability = [
        1 / (1 + exp(-log(9) * (s - t) / (m - t)))
        for s, t, m in zip(row, fusion.thresholds_, fusion.medians_, strict=True)
    ]
    ranked = sorted(range(R), key=lambda j: -competence[j])
    clear = competence[ranked[0]] - competence[ranked[1]] > fusion.margin
    if fusion.mode == "winner" or (fusion.mode == "auto" and clear):
        return probability[ranked[0]]
    competent = [j for j in range(R) if competence[j] >= sum(competence) / R]
    return sum(competence[j] * probability[j] for j in competent) / sum(
        competence[j] for j in competent
    )


@pairwise(mode=MODES, d=(0, 4, 8), shortlist=(4, None))
def test_scores_follow_the_definition(labelled, mode, d, shortlist):
    S, y, X = labelled
    X = np.c_[X, X[::-1]][:, :d]
    weight = np.random.default_rng(0).uniform(0.1, 2, len(y))
    fusion = DynamicEnsemble(mode, 7, margin=0.1, shortlist=shortlist, random_state=0)
    if d:
        fusion.fit(S[50:], y[50:], weight[50:], X=X[50:])
        normal = y[50:] > 0
        mean = np.average(X[50:][normal], axis=0, weights=weight[50:][normal])
        scale = np.average((X[50:][normal] - mean) ** 2, axis=0, weights=weight[50:][normal]) ** 0.5
        found = fusion.score_samples(S[:50], X[:50])
        expected = naive_scores(fusion, S[:50], (X[:50] - mean) / scale)
    else:
        found = fusion.fit(S[50:], y[50:], weight[50:]).score_samples(S[:50])
        expected = naive_scores(fusion, S[:50], S[:50])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_validation_set_is_the_rows_and_then_artificial_outliers(labelled):
    S, y, _ = labelled
    fusion = DynamicEnsemble(random_state=0).fit(S, y)
    m = (y > 0).sum()
    assert fusion.labels_.tolist() == [*y.tolist(), *[-1] * m]
    normal = S[y > 0]
    drawn = fusion.positions_[150:]
    width = np.ptp(normal, axis=0)
    assert (drawn <= normal.max(axis=0)).all()
    assert (drawn >= normal.min(axis=0) - 0.5 * width).all()
    assert (drawn < normal.min(axis=0)).any()
    assert (drawn > np.median(normal, axis=0)).any()


def test_among_features_artificial_outliers_are_known_to_all(labelled):
    S, y, X = labelled
    fusion = DynamicEnsemble(random_state=0).fit(S, y, X=X)
    artificial = slice(150, None)
    assert (fusion.labels_[artificial] == -1).all()
    assert (fusion.correctness_[artificial] > 0.5).all()
    places, normal = fusion.positions_[artificial], fusion.positions_[:150][y > 0]
    assert ((places < normal.min(axis=0)) | (places > normal.max(axis=0))).any(axis=0).all()
    assert (places >= normal.min(axis=0) - 0.5 * np.ptp(normal, axis=0)).all()


def test_detectors_are_asked_about_artificial_outliers(labelled):
    S, y, X = labelled
    asked = []

    def ask(rows):
        asked.append(rows)
        return np.c_[np.full(len(rows), -3.0), np.full(len(rows), 3.0), np.full(len(rows), np.nan)]

    fusion = DynamicEnsemble(random_state=0).fit(S, y, X=X, ask=ask)
    presumed = DynamicEnsemble(random_state=0).fit(S, y, X=X)
    (rows,) = asked
    low, high = X[y > 0].min(axis=0), X[y > 0].max(axis=0)
    assert (rows >= low - 0.51 * (high - low)).all()  # in the units of X
    assert (rows <= high + 0.51 * (high - low)).all()
    assert (fusion.correctness_[150:, 0] > 0.5).all()
    assert (fusion.correctness_[150:, 1] < 0.5).all()  # it takes them for normal
    np.testing.assert_array_equal(fusion.correctness_[150:, 2], presumed.correctness_[150:, 2])
    with pytest.raises(ValueError, match="Pass X"):
        DynamicEnsemble().fit(S, y, ask=ask)
    with pytest.raises(ValueError, match=r"one column a detector; got shape \(\d+, 2\)"):
        DynamicEnsemble().fit(S, y, X=X, ask=lambda rows: rows[:, :2])


def test_probabilities_are_anchored_at_a_quantile_and_the_median():
    S = np.linspace(-1, 1, 101)[:, None]
    fusion = DynamicEnsemble(random_state=0).fit(S)
    found = fusion.score_samples([[-0.9], [0.0], [-0.95], [5.0], [-50.0]])
    np.testing.assert_allclose(found[:2], [0.5, 0.9], atol=1e-12)
    assert fusion.predict([[-0.9], [-0.95]]).tolist() == [1, -1]
    assert 0 < found[4] < found[2] < 0.5 < found[3] <= 1
    heavy = DynamicEnsemble(random_state=0).fit(S, sample_weight=np.where(S[:, 0] > 0.5, 1e6, 1.0))
    assert heavy.thresholds_ > 0.5
    assert heavy.medians_ == pytest.approx(0.76, abs=0.01)


def test_the_right_label_of_an_anomaly_is_anomaly(labelled):
    S, y, _ = labelled
    fusion = DynamicEnsemble(random_state=0).fit(S, y)
    alone = [
        DynamicEnsemble(random_state=0).fit(S[:, [j]], y).score_samples(S[:, [j]])
        for j in (0, 1, 2)
    ]
    probability = np.transpose(alone)
    np.testing.assert_allclose(fusion.correctness_[:150][y > 0], probability[y > 0])
    np.testing.assert_allclose(fusion.correctness_[:150][y < 0], 1 - probability[y < 0])


# ----------------------------------------------------------------------------------------- dynamic


@pytest.mark.parametrize("mode", MODES)
def test_detectors_right_in_different_places_beat_one_weight_vector(mode):
    (S, y, X), (T, z, Z) = two_halves(), two_halves(seed=1)
    fusion = DynamicEnsemble(mode, random_state=0).fit(S, y, X=X)
    assert roc_auc_score(z, fusion.score_samples(T, Z)) > 0.9
    assert roc_auc_score(z, LpFusion(class_weight="balanced").fit(S, y).score_samples(T)) < 0.65
    inside = np.abs(Z[:, 0]) > 0.2
    right = np.where(Z[:, 0] > 0, 0, 1)
    assert (fusion.competence(T, Z).argmax(axis=1) == right)[inside].mean() > 0.98


def test_without_labels_scores_still_tell_rows_that_no_detector_likes():
    rng = np.random.default_rng(0)
    normal = rng.normal(0.3, 0.4, (400, 3))
    fusion = DynamicEnsemble(random_state=0).fit(normal[:300])
    scores = fusion.score_samples(np.r_[normal[300:], rng.normal(-1.5, 0.4, (50, 3))])
    assert roc_auc_score([1] * 100 + [-1] * 50, scores) > 0.97


def test_a_lone_low_score_is_heard_among_artificial_outliers():
    S = np.random.default_rng(0).normal(0, 0.3, (500, 2))
    fusion = DynamicEnsemble(random_state=0).fit(S)
    assert fusion.predict([[-1.4, 0.2], [0.2, -1.4], [0.1, 0.1]]).tolist() == [-1, -1, 1]


def test_modes_differ_only_in_the_detectors_used(labelled):
    S, y, _ = labelled
    fusions = {mode: DynamicEnsemble(mode, margin=0.05, random_state=0).fit(S, y) for mode in MODES}
    weights = {mode: fusion._weights(fusion.competence(S)) for mode, fusion in fusions.items()}
    competence = fusions["auto"].competence(S)
    for W in weights.values():
        assert (W >= 0).all()
        np.testing.assert_allclose(W.sum(axis=1), 1)
    assert (weights["winner"].max(axis=1) == 1).all()
    np.testing.assert_array_equal(weights["winner"].argmax(axis=1), competence.argmax(axis=1))
    ordered = np.sort(competence, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > 0.05
    assert 0 < clear.sum() < len(clear)
    np.testing.assert_array_equal(
        weights["auto"], np.where(clear[:, None], weights["winner"], weights["fusion"])
    )
    below = competence < competence.mean(axis=1, keepdims=True) - 1e-6
    assert (weights["fusion"][below] == 0).all()
    assert (weights["fusion"][~below] > 0).all()


def test_equally_competent_detectors_have_equal_weights():
    for R in (3, 7):
        fusion = _fit_quietly(np.ones((20, R)))
        weights = fusion._weights(fusion.competence(np.ones((5, R))))
        np.testing.assert_allclose(weights, 1 / R)


def test_a_row_counts_by_its_weight(labelled):
    S, y, X = labelled
    fusion = DynamicEnsemble(random_state=0)
    kept = np.arange(150) % 3 > 0
    without = clone(fusion).fit(S[kept], y[kept], X=X[kept])
    unweighted = clone(fusion).fit(S, y, kept, X=X)
    np.testing.assert_allclose(unweighted.score_samples(S, X), without.score_samples(S, X))
    tenfold = clone(fusion).fit(S, y, 10 * kept, X=X)
    np.testing.assert_allclose(tenfold.score_samples(S, X), without.score_samples(S, X))
    heavy = clone(fusion).fit(S, y, np.where(y < 0, 50.0, 1.0), X=X)
    anomalies = heavy.correctness_[:150][y < 0].mean(axis=0)
    near = X[y < 0]
    assert (
        np.abs(heavy.competence(S[y < 0], near) - anomalies).mean()
        < np.abs(clone(fusion).fit(S, y, X=X).competence(S[y < 0], near) - anomalies).mean()
    )


def test_the_units_of_features_do_not_matter(labelled):
    S, y, X = labelled
    fusion = DynamicEnsemble(random_state=0)
    plain = clone(fusion).fit(S, y, X=X).score_samples(S, X)
    other = X * [1000, 1, 0.01, 8] + [3, 0, -7, 100]
    np.testing.assert_allclose(clone(fusion).fit(S, y, X=other).score_samples(S, other), plain)


# ------------------------------------------------------------------------------ in a FusedDetector

POOL = [("kpca", KernelPCADetector(), [0, 1]), ("gmm", GMMDetector(), [0, 1])]


def in_a_detector(X, y=None):
    return FusedDetector(POOL, fusion=DynamicEnsemble(), random_state=0).fit(X, y)


def test_it_fuses_the_detectors_of_a_fused_detector():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(120, 2)), rng.normal(3.0, 1.0, size=(20, 2))])
    y = np.repeat([1, -1], [120, 20])
    for fused in (in_a_detector(X[:120]), in_a_detector(X, y)):
        assert set(fused.predict(X)) == {1, -1}
        assert roc_auc_score(y, fused.score_samples(X)) > 0.9
        assert ((fused.pvalues(X) > 0) & (fused.pvalues(X) <= 1)).all()


def test_a_fused_detector_lets_it_ask_the_detectors(labelled):
    """Scores of artificial outliers that are presumed would be others."""
    X = labelled[2]
    fused = in_a_detector(X)
    fusion, scaler = fused.combination_.fusion, fused.combination_.scaler
    features = fusion.positions_[len(X) :] * fusion.feature_scaler_.scale_
    scores = scaler.transform(fused.detector_scores(features + fusion.feature_scaler_.mean_))
    expected = 1.0 - fusion._probabilities(scores)
    np.testing.assert_allclose(fusion.correctness_[len(X) :], expected, atol=1e-9)


def test_features_that_no_detector_reads_may_be_missing():
    X = np.random.default_rng(0).normal(size=(120, 3))
    X[::7, 2] = np.nan
    fused = in_a_detector(X)
    at_mean = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    found = fused.score_samples(X)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, fused.score_samples(at_mean))


# ------------------------------------------------------------------------------------------- scale


@pytest.mark.parametrize("d", [None, 3, 20])
def test_blocks_of_rows_do_not_change_the_scores(d):
    rng = np.random.default_rng(0)
    S, T = rng.normal(size=(400, 4)), rng.normal(size=(1500, 4))
    X, Z = (None, None) if d is None else (rng.normal(size=(400, d)), rng.normal(size=(1500, d)))
    fusion = DynamicEnsemble(n_neighbors=5, random_state=0).fit(S, X=X)
    blocks = [slice(i, i + 97) for i in range(0, 1500, 97)]
    parts = [fusion.score_samples(T[b], None if Z is None else Z[b]) for b in blocks]
    np.testing.assert_allclose(np.concatenate(parts), fusion.score_samples(T, Z), rtol=1e-9)


def test_many_rows_are_scored_in_blocks():
    rng = np.random.default_rng(0)
    S, T = rng.normal(size=(500, 3)), rng.normal(size=(20_000, 3))
    fusion = DynamicEnsemble(n_neighbors=5, random_state=0).fit(S)
    tracemalloc.start()
    scores = fusion.score_samples(T)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(T) * len(fusion.labels_) * 8 / 4  # all distances at once are 160 MB
    assert scores.shape == (20_000,)
    np.testing.assert_allclose(scores[-10:], fusion.score_samples(T[-10:]), rtol=1e-9)


def test_a_large_training_set_is_thinned_class_by_class():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(400) < 60, -1, 1)
    S = rng.normal(size=(400, 2))
    fusion = DynamicEnsemble(max_rows=50, random_state=0).fit(S, y)
    assert (fusion.labels_ > 0).sum() == 50
    assert (fusion.labels_ < 0).sum() == 50 + 50
    assert len(DynamicEnsemble(max_rows=100, random_state=0).fit(S, y).labels_) == 100 + 60 + 100
    known = {tuple(row) for row in S[y > 0]}
    drawn = {tuple(row) for row in fusion.positions_[fusion.labels_ > 0]}
    assert len(drawn) == 50
    assert drawn < known


# ------------------------------------------------------------------------------- estimator's habits


@pytest.mark.parametrize("by_features", [False, True])
def test_a_seed_fixes_everything(labelled, by_features):
    S, y, X = labelled
    X = X if by_features else None

    def scores(seed):
        return DynamicEnsemble(max_rows=60, random_state=seed).fit(S, y, X=X).score_samples(S, X)

    np.testing.assert_array_equal(scores(0), scores(0))
    assert (scores(0) != scores(1)).any()


def test_decisions_follow_the_offset(labelled):
    S, y, X = labelled
    fusion = DynamicEnsemble(random_state=0).fit(S, y, X=X)
    assert fusion.offset_ == 0.5
    decision = fusion.decision_function(S, X)
    np.testing.assert_array_equal(decision, fusion.score_samples(S, X) - 0.5)
    np.testing.assert_array_equal(fusion.predict(S, X), np.where(decision >= 0, 1, -1))


def test_it_looks_at_features_and_is_no_weighted_sum(labelled):
    fusion = DynamicEnsemble(random_state=0).fit(*labelled[:2])
    assert fusion.uses_features
    assert not hasattr(fusion, "weights_")
    assert not hasattr(fusion, "contributions")


def test_scores_come_back_in_their_library(labelled):
    S, y, _ = labelled
    fusion = DynamicEnsemble(random_state=0).fit(array_api_strict.asarray(S), y)
    found = fusion.score_samples(array_api_strict.asarray(S))
    assert found.__array_namespace__() is array_api_strict
    np.testing.assert_allclose(
        np.asarray(found), DynamicEnsemble(random_state=0).fit(S, y).score_samples(S)
    )
    assert fusion.score_samples(S.astype(np.float32)).dtype == np.float32


def test_names_of_detectors_and_features_are_remembered(labelled):
    S, y, X = labelled
    frame, features = pd.DataFrame(S, columns=list("abc")), pd.DataFrame(X, columns=list("wxyz"))
    fusion = DynamicEnsemble(random_state=0).fit(frame, y, X=features)
    assert fusion.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(
        fusion.score_samples(frame, features),
        DynamicEnsemble(random_state=0).fit(S, y, X=X).score_samples(S, X),
    )
    with pytest.raises(ValueError, match="feature names"):
        fusion.score_samples(frame, features[["x", "w", "y", "z"]])


# ------------------------------------------------------------------------------------- degenerate


def test_one_detector_alone_gives_its_own_probabilities(labelled):
    S, y, _ = labelled
    for mode in MODES:
        fusion = DynamicEnsemble(mode, random_state=0).fit(S[:, :1], y)
        np.testing.assert_array_equal(fusion._weights(fusion.competence(S[:, :1])), 1.0)
        assert (np.argsort(fusion.score_samples(S[:, :1])) == np.argsort(S[:, 0])).all()


def test_one_anomaly_is_enough(labelled):
    S, y, X = labelled
    y = np.where(np.arange(150) == 0, -1, 1)
    assert np.isfinite(DynamicEnsemble(random_state=0).fit(S, y, X=X).score_samples(S, X)).all()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_fewer_rows_than_neighbours(n):
    S = np.random.default_rng(0).normal(size=(n, 2))
    with np.errstate(all="raise"):
        fusion = DynamicEnsemble(random_state=0).fit(S) if n > 1 else _fit_quietly(S)
        scores = fusion.score_samples(np.r_[S, [[9.0, -9.0]]])
    assert fusion.labels_.tolist() == [1] * n + [-1] * n
    assert ((scores >= 0) & (scores <= 1)).all()


def _fit_quietly(S):
    with pytest.warns(UserWarning, match="no spread"):
        return DynamicEnsemble(random_state=0).fit(S)


@pytest.mark.filterwarnings(*IDLE_COLUMNS)
def test_a_constant_detector_says_neither(labelled):
    S, y, X = labelled
    S = np.c_[S, np.full(150, 0.7)]
    for features in (None, X):
        fusion = DynamicEnsemble("fusion", random_state=0).fit(S, y, X=features)
        np.testing.assert_array_equal(fusion.correctness_[:, 3], 0.5)
        assert np.isfinite(fusion.score_samples(S, features)).all()
    np.testing.assert_array_equal(
        _fit_quietly(np.ones((20, 2))).score_samples([[1.0, 1.0], [5.0, -5.0]]), 0.5
    )


def test_a_detector_that_ties_all_normal_rows_is_still_heard():
    S = np.r_[np.ones(50), -np.ones(10)][:, None]
    fusion = DynamicEnsemble(random_state=0).fit(S, [1] * 50 + [-1] * 10)
    assert fusion.predict([[1.0], [-1.0]]).tolist() == [1, -1]


def test_rows_equal_to_the_other_class_keep_a_distance():
    S = np.r_[np.zeros((5, 2)), np.zeros((5, 2)), np.random.default_rng(0).normal(size=(40, 2))]
    fusion = DynamicEnsemble(random_state=0).fit(S, [1] * 5 + [-1] * 5 + [1] * 40)
    assert (fusion.reach_ > 0).all()
    members, competence = fusion.positions_, fusion.competence(S[20:])
    assert np.isfinite(competence).all()
    fusion.correctness_ = np.where((members == 0).all(axis=1)[:, None], 0.0, fusion.correctness_)
    np.testing.assert_array_equal(fusion.competence(S[20:]), competence)  # others are nearer


# ------------------------------------------------------------------------------------------ refusal


@cases(
    "parameters, words",
    [
        ({"mode": "best"}, "mode must be one of 'auto', 'winner', 'fusion'; got 'best'"),
        ({"n_neighbors": 0}, "n_neighbors must be a whole number from 1, got 0"),
        ({"margin": -0.1}, "margin must be a finite number at least 0 and at most 1"),
        ({"margin": 2}, "margin"),
        ({"max_rows": 1.5}, "max_rows must be a whole number"),
    ],
)
def test_impossible_parameters_are_refused(parameters, words):
    fusion = DynamicEnsemble(**parameters)
    with pytest.raises(ValueError, match=words):
        fusion.fit(np.eye(3))
    assert not hasattr(fusion, "n_features_in_")


@cases(
    "arguments, words",
    [
        ({"y": [0, 1, 1]}, "Choose one of"),
        ({"sample_weight": [1, 1]}, "one number for each row"),
        ({"y": [1, -1, -1], "sample_weight": [0, 1, 1]}, "zero for every normal row"),
        ({"X": [[1.0], [2.0]]}, "expected 3 rows, got 2"),
        ({"X": [[1.0], [2.0], [np.nan]]}, "Features must be finite"),
    ],
)
def test_unusable_data_is_refused_without_a_trace(arguments, words):
    fusion = DynamicEnsemble()
    with pytest.raises(ValueError, match=words):
        fusion.fit(np.eye(3), **arguments)
    assert vars(fusion) == DynamicEnsemble().get_params()


def test_features_are_required_exactly_where_fit_had_them(labelled):
    S, y, X = labelled
    placed, unplaced = (DynamicEnsemble(random_state=0).fit(S, y, X=Z) for Z in (X, None))
    for method in ("score_samples", "decision_function", "predict", "competence"):
        with pytest.raises(ValueError, match="X is missing: fit had 4 features"):
            getattr(placed, method)(S)
        with pytest.raises(ValueError, match="Omit X here, or pass X to fit"):
            getattr(unplaced, method)(S, X)
    with pytest.raises(ValueError, match="expected 150 rows, got 149"):
        placed.score_samples(S, X[1:])
    with pytest.raises(ValueError, match="features"):
        placed.score_samples(S, X[:, 1:])
