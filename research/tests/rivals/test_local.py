from math import exp

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score

from helpers.cases import cases
from helpers.contract import assert_passes_checks, refused_labels
from helpers.pairwise import pairwise
from lpfuse import FixedRule, LpFusion
from lpfuse.optim import Problem
from oracles import naive
from research.rivals.local import LocalLpFusion

IDLE_COLUMNS = "ignore:Scores have no spread:UserWarning", "ignore:Some detectors give:UserWarning"
BALANCED = LpFusion(class_weight="balanced", fit_intercept=True)


def two_regions(n=600, seed=0):
    """Each detector is right in one of two clusters, and all but upside down in the other."""
    rng = np.random.default_rng(seed)
    side = rng.choice([-1, 1], (n, 1))
    y = np.where(rng.random(n) < 0.3, -1, 1)
    S = y[:, None] * np.where(side > 0, [0.8, -0.7], [-0.7, 0.8]) + rng.normal(0, 0.4, (n, 2))
    return S, y, np.c_[100 * side, rng.normal(size=(n, 1))] + rng.normal(0, 10, (n, 2))


@pytest.fixture
def labelled():
    rng = np.random.default_rng(3)
    y = np.where(rng.random(300) < 0.3, -1, 1)
    X = rng.normal(size=(300, 3)) * [1, 10, 0.1]
    trust = np.where(X[:, :1] > 0, [0.9, 0.1, 0.4], [0.1, 0.9, 0.4])
    return y[:, None] * trust + rng.normal(0.0, 0.6, (300, 3)), y, X


class LabelsDropped(LocalLpFusion):
    """Fit without y: scikit-learn's checks feed labels other than ±1, which we refuse."""

    def fit(self, S, y=None, sample_weight=None):
        return super().fit(S, sample_weight=sample_weight)


@pytest.mark.filterwarnings(*IDLE_COLUMNS)
@pytest.mark.parametrize("estimator", [LabelsDropped()], ids=str)
def test_scikit_learn_contract(estimator):
    assert_passes_checks(estimator, refused_labels())


@pytest.mark.slow
@pytest.mark.filterwarnings(*IDLE_COLUMNS)
@pytest.mark.parametrize(
    "estimator", [LabelsDropped(n_regions=2, min_rows=1, blend="hard")], ids=str
)
def test_scikit_learn_contract_of_variants(estimator):
    assert_passes_checks(estimator, refused_labels())


# ------------------------------------------------------------------------------------- by the book


def squared_distances(place, centres):
    return [
        sum((a - b) ** 2 for a, b in zip(place, centre, strict=True)) for centre in centres.tolist()
    ]


def naive_scores(local, S, places):
    """Σ_k π_k(x) (w_kᵀ s + b_k − b), a row and a region at a time."""
    found = []
    for row, place in zip(S.tolist(), places.tolist(), strict=True):
        squared = squared_distances(place, local.regions_)
        if local.blend == "hard":
            shares = [float(k == squared.index(min(squared))) for k in range(len(squared))]
        else:
            shares = [exp(-(d - min(squared)) / (2 * local.bandwidth_)) for d in squared]
        fused = [
            sum(w * s for w, s in zip(weights, row, strict=True)) + b - local.global_.intercept_
            for weights, b in zip(
                local.weights_by_region_, local.intercepts_by_region_, strict=True
            )
        ]
        found.append(sum(p * f for p, f in zip(shares, fused, strict=True)) / sum(shares))
    return found


def naive_regions(local, places):
    return np.array(
        [np.argmin(squared_distances(place, local.regions_)) for place in places.tolist()]
    )


@pairwise(blend=("soft", "hard"), by_features=(False, True), sharing=(0.0, 0.2))
def test_regions_weights_and_scores_follow_the_definition(labelled, blend, by_features, sharing):
    S, y, X = labelled
    cost = np.random.default_rng(0).uniform(0.5, 2, 300)
    local = LocalLpFusion(
        BALANCED, n_regions=3, sharing=sharing, min_rows=1, min_anomalies=1, blend=blend,
        random_state=0,
    ).fit(S, y, cost, X=X if by_features else None)  # fmt: skip
    places = S
    if by_features:
        mean = np.average(X[y > 0], axis=0, weights=cost[y > 0])
        places = (X - mean) / np.average((X[y > 0] - mean) ** 2, axis=0, weights=cost[y > 0]) ** 0.5
    region = naive_regions(local, places)
    centres = [np.average(places[region == k], axis=0, weights=cost[region == k]) for k in range(3)]
    np.testing.assert_allclose(local.regions_, centres, atol=0.02)
    squared = [min(squared_distances(place, local.regions_)) for place in places.tolist()]
    assert local.bandwidth_ == pytest.approx(np.average(squared, weights=cost), rel=1e-3)
    for k in range(3):
        weights = cost * np.where(region == k, 1.0, sharing)
        alone = clone(BALANCED).fit(S[weights > 0], y[weights > 0], weights[weights > 0])
        np.testing.assert_allclose(local.weights_by_region_[k], alone.weights_, atol=1e-4)
        assert local.intercepts_by_region_[k] == pytest.approx(alone.intercept_, abs=1e-4)
    alone = clone(BALANCED).fit(S, y, cost)
    np.testing.assert_array_equal(local.global_.weights_, alone.weights_)
    found = local.score_samples(S, X) if by_features else local.score_samples(S)
    np.testing.assert_allclose(found, naive_scores(local, S, places), atol=1e-9)


def test_every_region_carries_its_proof(labelled):
    S, y, X = labelled
    fusion = LpFusion(p=4 / 3)
    local = LocalLpFusion(fusion, n_regions=2, sharing=0.3, random_state=0).fit(S, y, X=X)
    region = local.memberships(S, X).argmax(axis=1)
    assert [proof.status for proof in local.certificates_] == ["optimal", "optimal"]
    for k, proof in enumerate(local.certificates_):
        problem = Problem(S, y, p=4 / 3, costs=np.where(region == k, 1.0, 0.3))
        assert proof.relative_gap <= 1e-8
        assert naive.value(problem, local.weights_by_region_[k]) == pytest.approx(proof.primal)
        assert naive.dual_value(problem, proof.alpha) == pytest.approx(proof.dual)


@pytest.mark.parametrize("p", [1, 4 / 3, 2, float("inf")])
def test_blended_weights_stay_in_the_ball(labelled, p):
    S, y, X = labelled
    local = LocalLpFusion(LpFusion(p=p), random_state=0).fit(S, y, X=X)
    for weights in local.memberships(S[:40], X[:40]) @ local.weights_by_region_:
        assert naive.norm(weights.tolist(), p) <= 1 + 1e-12


# ------------------------------------------------------------------------------------------- local


@pytest.mark.filterwarnings("ignore:The best weights are zero:UserWarning")  # the global ones
@pytest.mark.parametrize("blend", ["soft", "hard"])
@pytest.mark.parametrize("fusion", [None, BALANCED, LpFusion(loss="least_squares", p=2)])
def test_detectors_right_in_different_regions_beat_one_weight_vector(blend, fusion):
    (S, y, X), (T, z, Z) = two_regions(), two_regions(seed=1)
    local = LocalLpFusion(fusion, n_regions=2, blend=blend, random_state=0).fit(S, y, X=X)
    assert roc_auc_score(z, local.score_samples(T, Z)) > 0.97
    assert (local.predict(T, Z) == z).mean() > 0.93
    for alike in (local.global_, FixedRule().fit(S)):
        assert roc_auc_score(z, alike.score_samples(T)) < 0.65
    right, left = np.argsort(-local.regions_[:, 0])
    assert local.weights_by_region_[right, 0] > 0.3 > -0.3 > local.weights_by_region_[right, 1]
    assert local.weights_by_region_[left, 1] > 0.3 > -0.3 > local.weights_by_region_[left, 0]


def test_full_sharing_is_the_global_fusion(labelled):
    S, y, X = labelled
    local = LocalLpFusion(BALANCED, n_regions=3, sharing=1.0, min_rows=1, random_state=0)
    local.fit(S, y, X=X)
    alone = clone(BALANCED).fit(S, y)
    np.testing.assert_allclose(local.weights_by_region_, [alone.weights_] * 3, atol=1e-6)
    np.testing.assert_allclose(local.score_samples(S, X), alone.score_samples(S), atol=1e-6)


def test_soft_weights_pass_smoothly_and_hard_ones_jump(labelled):
    S, y, X = labelled
    line = np.linspace(-3, 3, 601)[:, None] * np.array([[1.0, 0.0, 0.0]])
    rows = np.zeros((601, 3))
    jumps = {}
    for blend in ("soft", "hard"):
        local = LocalLpFusion(n_regions=2, blend=blend, random_state=0).fit(S, y, X=X * [5, 1, 1])
        weights = local.memberships(rows, line * 5) @ local.weights_by_region_
        jumps[blend] = np.abs(np.diff(weights, axis=0)).max() / np.ptp(weights, axis=0).max()
    assert jumps["hard"] == pytest.approx(1)
    assert jumps["soft"] < 0.05


def test_memberships_are_shares(labelled):
    S, y, X = labelled
    for blend in ("soft", "hard"):
        shares = LocalLpFusion(blend=blend, random_state=0).fit(S, y, X=X).memberships(S, X)
        assert shares.shape == (300, 4)
        assert (shares >= 0).all()
        np.testing.assert_allclose(shares.sum(axis=1), 1)
        assert (shares.max(axis=1) == 1).all() == (blend == "hard")


# ---------------------------------------------------------------------------------------- fallback


@pytest.mark.parametrize("n_labels", [0, 90])
@pytest.mark.parametrize("fusion", [None, BALANCED])
def test_one_region_is_lp_fusion(labelled, fusion, n_labels):
    S, y, X = labelled
    y = y if n_labels else None
    local = LocalLpFusion(fusion, n_regions=1, min_rows=1000).fit(S, y, X=X)
    alone = clone(fusion or LpFusion()).fit(S, y)
    np.testing.assert_array_equal(local.weights_, alone.weights_)
    np.testing.assert_array_equal(local.weights_by_region_, [alone.weights_])
    np.testing.assert_allclose(local.score_samples(S, X), alone.score_samples(S), rtol=1e-12)
    np.testing.assert_allclose(local.decision_function(S, X), alone.decision_function(S))
    assert local.offset_ == alone.offset_
    assert local.certificates_ == [alone.certificate_]
    assert local.certificates_[0].status == "optimal"


def test_several_regions_have_no_single_weight_vector(labelled):
    S, y, X = labelled
    local = LocalLpFusion(n_regions=2, random_state=0).fit(S, y, X=X)
    assert not hasattr(local, "weights_")
    assert not hasattr(local, "contributions")
    assert local.uses_features
    with pytest.raises(AttributeError, match="weights_by_region_"):
        _ = local.weights_


@pytest.mark.parametrize(
    "thin", [{"min_rows": 151}, {"min_anomalies": 31}, {"min_rows": 151, "min_anomalies": 1}]
)
def test_thin_regions_take_the_global_weights(thin):
    rng = np.random.default_rng(0)
    first = np.arange(400) < 250  # 250 rows with 50 anomalies, and 150 with 30
    y = np.where(np.arange(400) % 5 == 0, -1, 1)
    X = np.where(first, -5.0, 5.0)[:, None] + rng.normal(size=(400, 1))
    S = y[:, None] * np.where(first[:, None], [1, 0], [0, 1]) + rng.normal(0, 0.5, (400, 2))
    local = LocalLpFusion(n_regions=2, random_state=0, **thin).fit(S, y, X=X)
    alone = LpFusion().fit(S, y)
    rich, poor = np.argsort(local.regions_[:, 0])
    assert local.certificates_[rich].status == "optimal"
    assert local.certificates_[poor].status == "global"
    assert local.certificates_[poor].primal == alone.certificate_.primal
    assert local.certificates_[poor].alpha is local.global_.certificate_.alpha
    np.testing.assert_array_equal(local.weights_by_region_[poor], alone.weights_)
    assert np.abs(local.weights_by_region_[rich] - alone.weights_).max() > 0.1
    enough = {"min_rows": 150, "min_anomalies": 30}
    both = LocalLpFusion(n_regions=2, random_state=0, **enough).fit(S, y, X=X)
    assert [proof.status for proof in both.certificates_] == ["optimal", "optimal"]


def test_regions_share_the_prior_by_name(labelled):
    S, y, _ = labelled
    prior = [0.5, 0.3, 0.1]
    fusion = LpFusion(prior={"lof": 0.1, "svm": 0.3, "forest": 0.5}, radius=0.1, p=2)
    local = LocalLpFusion(fusion, n_regions=2, random_state=0)
    local.fit(pd.DataFrame(S, columns=["forest", "svm", "lof"]), y)
    assert len(local.weights_by_region_) == 2
    assert (np.linalg.norm(local.weights_by_region_ - prior, axis=1) <= 0.1 * (1 + 1e-9)).all()


def test_without_anomalies_none_are_asked_for(labelled):
    S, _, X = labelled
    local = LocalLpFusion(n_regions=2, random_state=0).fit(S, X=X)
    assert [proof.status for proof in local.certificates_] == ["optimal", "optimal"]
    assert np.isfinite(local.score_samples(S, X)).all()


def test_a_region_of_anomalies_alone_takes_the_global_weights():
    rng = np.random.default_rng(0)
    y = np.repeat([1, -1], 60)
    X = 50.0 * y[:, None] + rng.normal(size=(120, 1))
    S = y[:, None] * [1.0, 0.2] + rng.normal(0, 0.5, (120, 2))
    local = LocalLpFusion(n_regions=2, min_rows=10, sharing=0, random_state=0).fit(S, y, X=X)
    assert [proof.status for proof in local.certificates_] == ["global", "global"]
    assert len(local.certificates_) == 2
    np.testing.assert_allclose(local.score_samples(S, X), local.global_.score_samples(S))


def test_rows_of_no_weight_are_as_if_not_there(labelled):
    S, y, X = labelled
    kept = np.arange(300) % 3 > 0
    local = LocalLpFusion(n_regions=2, min_rows=20, random_state=0)
    with_zeros = clone(local).fit(S, y, kept, X=X)
    without = clone(local).fit(S[kept], y[kept], X=X[kept])
    np.testing.assert_allclose(with_zeros.regions_, without.regions_)
    np.testing.assert_allclose(with_zeros.weights_by_region_, without.weights_by_region_, atol=1e-5)


# ------------------------------------------------------------------------------- estimator's habits


def test_a_seed_fixes_everything(labelled):
    S, y, X = labelled
    local = LocalLpFusion(n_regions=5, random_state=0)
    first, second = (clone(local).fit(S, y, X=X) for _ in range(2))
    np.testing.assert_array_equal(first.regions_, second.regions_)
    np.testing.assert_array_equal(first.score_samples(S, X), second.score_samples(S, X))
    np.testing.assert_array_equal(
        first.score_samples(S, X), clone(local).fit(S, y, X=X).score_samples(S, X)
    )


def test_the_prototype_is_not_fitted(labelled):
    S, y, X = labelled
    prototype = LpFusion(p=2)
    local = LocalLpFusion(prototype, random_state=0).fit(S, y, X=X)
    assert not hasattr(prototype, "weights_")
    assert local.global_.p == 2
    assert local.get_params()["fusion__p"] == 2


def test_decisions_follow_the_offset(labelled):
    S, y, X = labelled
    local = LocalLpFusion(BALANCED, random_state=0).fit(S, y, X=X)
    assert local.offset_ == -local.global_.intercept_ != 0
    decision = local.decision_function(S, X)
    np.testing.assert_array_equal(decision, local.score_samples(S, X) - local.offset_)
    np.testing.assert_array_equal(local.predict(S, X), np.where(decision >= 0, 1, -1))


def test_many_rows_in_blocks_score_as_a_few():
    rng = np.random.default_rng(0)
    local = LocalLpFusion(n_regions=3, random_state=0).fit(rng.normal(0.5, 1, (500, 4)))
    T = rng.normal(size=(100_000, 4))
    scores = local.score_samples(T)
    np.testing.assert_allclose(scores[-5000:], local.score_samples(T[-5000:]), rtol=1e-10)


def test_scores_come_back_in_their_library(labelled):
    S, y, _ = labelled
    local = LocalLpFusion(random_state=0).fit(array_api_strict.asarray(S), y)
    found = local.score_samples(array_api_strict.asarray(S))
    assert found.__array_namespace__() is array_api_strict
    np.testing.assert_allclose(
        np.asarray(found), LocalLpFusion(random_state=0).fit(S, y).score_samples(S)
    )
    assert local.score_samples(S.astype(np.float32)).dtype == np.float32


def test_names_of_detectors_and_features_are_remembered(labelled):
    S, y, X = labelled
    frame, features = pd.DataFrame(S, columns=list("abc")), pd.DataFrame(X, columns=list("xyz"))
    local = LocalLpFusion(random_state=0).fit(frame, y, X=features)
    assert local.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(
        local.score_samples(frame, features),
        LocalLpFusion(random_state=0).fit(S, y, X=X).score_samples(S, X),
    )
    with pytest.raises(ValueError, match="feature names"):
        local.score_samples(frame, features[["y", "x", "z"]])


# ------------------------------------------------------------------------------------- degenerate


def test_one_detector(labelled):
    S, y, X = labelled
    local = LocalLpFusion(n_regions=2, random_state=0).fit(S[:, :1], y, X=X)
    assert local.weights_by_region_.shape == (2, 1)
    assert np.isfinite(local.score_samples(S[:, :1], X)).all()


def test_one_anomaly_leaves_the_global_weights(labelled):
    S, _, X = labelled
    y = np.where(np.arange(300) == 0, -1, 1)
    local = LocalLpFusion(random_state=0).fit(S, y, X=X)
    assert {proof.status for proof in local.certificates_} == {"global"}
    single = LocalLpFusion(min_anomalies=1, random_state=0).fit(S, y, X=X)
    assert sorted(proof.status for proof in single.certificates_) == ["global"] * 3 + ["optimal"]


def test_a_constant_column_is_told_once(labelled):
    S, y, X = labelled
    S = np.c_[S, np.full(300, 0.7)]
    with pytest.warns(UserWarning, match="no spread in column 3") as told:
        local = LocalLpFusion(random_state=0).fit(S, y, X=X)
    assert len(told) == 1
    assert np.isfinite(local.score_samples(S, X)).all()


@pytest.mark.parametrize("X", [None, np.ones((5, 2))])
def test_rows_that_lie_together_make_one_region(X):
    S = np.full((5, 2), 0.5)
    with pytest.warns(UserWarning, match="no spread"):
        local = LocalLpFusion(random_state=0).fit(S, X=X)
    assert len(local.regions_) == len(local.certificates_) == 1
    assert local.bandwidth_ == 0
    np.testing.assert_array_equal(local.weights_, local.global_.weights_)
    assert np.isfinite(local.score_samples(S, X)).all()


def test_fewer_rows_than_regions():
    S = np.array([[0.5, 0.1], [0.2, 0.7]])
    local = LocalLpFusion(n_regions=8, min_rows=1, sharing=0.5, random_state=0).fit(S)
    assert len(local.regions_) == 2
    assert local.bandwidth_ < 1e-30
    assert local.memberships(S).max(axis=1).tolist() == [1, 1]
    local.bandwidth_ = 1e-310
    assert local.memberships(S).max(axis=1).tolist() == [1, 1]


def test_weights_short_of_the_tolerance_warn_from_every_region(labelled):
    S, y, X = labelled
    fusion = LpFusion(p=4 / 3, max_iter=2)
    with pytest.warns(ConvergenceWarning, match="max_iter") as told:
        local = LocalLpFusion(fusion, n_regions=2, random_state=0).fit(S, y, X=X)
    assert len(told) == 3
    assert [proof.status for proof in local.certificates_] == ["max_iter", "max_iter"]


# ------------------------------------------------------------------------------------------ refusal


@cases(
    "parameters, words",
    [
        ({"fusion": FixedRule()}, "fusion must be an LpFusion"),
        ({"fusion": LpFusion}, "fusion must be an LpFusion"),
        ({"fusion": LpFusion(p=0.5)}, "p must be in"),
        ({"n_regions": 0}, "n_regions must be a whole number from 1, got 0"),
        ({"sharing": 1.1}, "sharing must be a finite number at least 0 and at most 1"),
        ({"min_rows": 0}, "min_rows"),
        ({"min_anomalies": 2.0}, "min_anomalies"),
        ({"blend": "none"}, "blend must be one of 'soft', 'hard'; got 'none'"),
    ],
)
def test_impossible_parameters_are_refused(parameters, words):
    local = LocalLpFusion(**parameters)
    with pytest.raises(ValueError, match=words):
        local.fit(np.eye(3))
    assert vars(local) == local.get_params(deep=False)


@cases(
    "arguments, words",
    [
        ({"y": [0, 1, 1]}, "Choose one of"),
        ({"sample_weight": [1, 1]}, "one number for each row"),
        ({"y": [1, -1, -1], "sample_weight": [0, 1, 1]}, "zero for every normal row"),
        ({"X": [[1.0], [2.0]]}, "expected 3 rows, got 2"),
        ({"X": [["a"], ["b"], ["c"]]}, "Features must be numbers"),
    ],
)
def test_unusable_data_is_refused_without_a_trace(arguments, words):
    local = LocalLpFusion()
    with pytest.raises(ValueError, match=words):
        local.fit(np.eye(3), **arguments)
    assert vars(local) == local.get_params(deep=False)


def test_features_are_required_exactly_where_fit_had_them(labelled):
    S, y, X = labelled
    placed, unplaced = (LocalLpFusion(random_state=0).fit(S, y, X=Z) for Z in (X, None))
    for method in ("score_samples", "predict", "memberships"):
        with pytest.raises(ValueError, match="X is missing: fit had 3 features"):
            getattr(placed, method)(S)
        with pytest.raises(ValueError, match="Omit X here, or pass X to fit"):
            getattr(unplaced, method)(S, X)
    with pytest.raises(ValueError, match="expected 300 rows, got 299"):
        placed.score_samples(S, X[1:])
