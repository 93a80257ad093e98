import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from helpers.cases import cases
from lpfuse import (
    FixedRule,
    FusedDetector,
    GMMDetector,
    KernelPCADetector,
    OneClassEnsembleClassifier,
    load,
)
from lpfuse.ensemble.components import default_detectors
from lpfuse.io import save
from research.rivals.pools import (
    BaggedDetector,
    bagged_one_class_svms,
    bootstraps,
    heterogeneous,
    proximity,
    random_subspaces,
)


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(120, 4))


def fused(pool, rule="sum"):
    return FusedDetector(pool, fusion=FixedRule(rule), cv=3, random_state=0)


def test_a_bag_fits_its_detector_to_the_drawn_rows(rows):
    bag = BaggedDetector(GMMDetector(random_state=1), share=0.5, random_state=3).fit(rows)
    assert len(bag.rows_) == 60
    assert len(np.unique(bag.rows_)) < 60, "rows are drawn with replacement"
    alone = GMMDetector(random_state=1).fit(rows[bag.rows_])
    np.testing.assert_array_equal(bag.score_samples(rows), alone.score_samples(rows))


def test_a_bag_seeds_copies_of_its_detector(rows):
    forest = IsolationForest(n_estimators=5)
    first, second, other = (
        BaggedDetector(forest, random_state=seed).fit(rows).score_samples(rows)
        for seed in (0, 0, 1)
    )
    assert not hasattr(forest, "estimators_")
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_fitting_a_bag_does_not_change_its_parameters(rows):
    bag = BaggedDetector(IsolationForest(n_estimators=5), random_state=0).fit(rows)
    assert bag.detector.random_state is None
    assert bag.detector_.random_state is not None
    assert clone(bag).get_params()["random_state"] == 0


def test_proximity_is_a_kernel_density_of_standardised_rows(rows):
    rows = rows * [1.0, 100.0, 1e-3, 1.0]
    z = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    density = [sum(np.exp(-((a - b) ** 2).sum() / 4) for b in z) for a in z]
    np.testing.assert_allclose(proximity(rows), density / np.sum(density))


def test_with_many_rows_landmarks_stand_for_them():
    rows = np.random.default_rng(0).normal(size=(1300, 2))
    z = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    shares = proximity(rows, random_state=0)
    assert shares.sum() == pytest.approx(1)
    exact = np.exp(-((z[:, None] - z[None, :]) ** 2).sum(axis=2) / 2).sum(axis=1)
    assert np.corrcoef(shares, exact)[0, 1] > 0.99
    assert (shares != proximity(rows, random_state=1)).any()


def test_stray_rows_are_drawn_less_often(rows):
    rows[:12] += 8.0 * np.sign(rows[:12])
    drawn = {
        draw: np.mean(
            [
                (BaggedDetector(GMMDetector(1), draw=draw, random_state=i).fit(rows).rows_ < 12)
                for i in range(5)
            ]
        )
        for draw in ("uniform", "proximity")
    }
    assert drawn["uniform"] == pytest.approx(0.1, abs=0.04)
    assert drawn["proximity"] < 0.6 * drawn["uniform"]


def test_a_bag_takes_frames_with_names(rows):
    frame = pd.DataFrame(rows, columns=list("abcd"))
    bag = BaggedDetector(GMMDetector(), draw="proximity", random_state=0).fit(frame)
    assert list(bag.detector_.feature_names_in_) == list("abcd")
    plain = BaggedDetector(GMMDetector(), draw="proximity", random_state=0).fit(rows)
    np.testing.assert_array_equal(bag.rows_, plain.rows_)


@cases(
    ("parameters", "words"),
    [
        ({"draw": "weighted"}, "draw must be one of 'uniform', 'proximity'"),
        ({"share": 0}, "share must be"),
        ({"share": 1.5}, "share must be"),
        ({"detector": LogisticRegression()}, "learns from anomalies.*BaggingClassifier"),
    ],
)
def test_a_bag_is_checked_in_fit(rows, parameters, words):
    bag = BaggedDetector(GMMDetector()).set_params(**parameters)
    with pytest.raises(ValueError, match=words):
        bag.fit(rows)
    assert not hasattr(bag, "detector_")


def test_subspaces_have_the_wanted_size_and_all_differ():
    pool = random_subspaces(GMMDetector(), 5, n_members=10, share=0.4, random_state=0)
    columns = [tuple(columns.tolist()) for _, _, columns in pool]
    assert len({name for name, _, _ in pool}) == len(set(columns)) == 10
    assert all(len(set(some)) == 2 and set(some) <= set(range(5)) for some in columns)
    assert len({id(detector) for _, detector, _ in pool}) == 10
    again = random_subspaces(GMMDetector(), 5, n_members=10, share=0.4, random_state=0)
    assert columns == [tuple(columns.tolist()) for _, _, columns in again]


def test_the_maximum_over_subspaces_is_the_best_score(rows):
    pool = random_subspaces(GMMDetector(1), 4, n_members=3, random_state=0)
    nanni = fused(pool, "max").fit(rows)
    scaled = nanni.scaler_.transform(nanni.detector_scores(rows))
    np.testing.assert_allclose(nanni.score_samples(rows), scaled.max(axis=1))
    for (_, _, columns), (_, detector, seen) in zip(pool, nanni.detectors_, strict=True):
        np.testing.assert_array_equal(columns, seen)
        assert detector.n_features_in_ == 2


@cases(
    ("arguments", "words"),
    [
        ({"n_members": 7}, "n_members=7 .*2 of 4 can be chosen in 6 ways"),
        ({"n_members": 0}, "n_members must be a whole number from 1"),
        ({"share": 1.2}, "share must be"),
        ({"n_features_in": 0}, "n_features_in must be a whole number"),
    ],
)
def test_subspaces_that_cannot_be_drawn_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        random_subspaces(**{"detector": GMMDetector(), "n_features_in": 4, **arguments})


def test_each_bag_of_a_pool_draws_rows_of_its_own(rows):
    pool = bootstraps(KernelPCADetector(2), n_members=3, random_state=0)
    drawn = [bag.fit(rows).rows_.tolist() for _, bag in pool]
    assert len(set(map(tuple, drawn))) == 3
    again = bootstraps(KernelPCADetector(2), n_members=3, random_state=0)
    assert drawn == [bag.fit(rows).rows_.tolist() for _, bag in again]


def test_an_unseeded_pool_is_seeded_by_the_fused_detector(rows):
    pool = bootstraps(KernelPCADetector(2), n_members=2)
    assert [bag.random_state for _, bag in pool] == [None, None]
    first, second = (fused(pool).fit(rows) for _ in range(2))
    np.testing.assert_array_equal(first.score_samples(rows), second.score_samples(rows))
    (_, one, _), (_, other, _) = first.detectors_
    assert (one.rows_ != other.rows_).any()


def test_bagged_one_class_svms_tell_anomalies_and_take_their_parameters(rows):
    pool = bagged_one_class_svms(3, nu=0.2, gamma=0.5, random_state=0)
    svm = pool[0][1].detector[-1]
    assert (svm.nu, svm.gamma, pool[0][1].draw) == (0.2, 0.5, "proximity")
    bagged = fused(pool).fit(rows)
    anomalies = np.random.default_rng(1).normal(size=(50, 4)) * 4
    truth = np.repeat([1, -1], [len(rows), 50])
    assert roc_auc_score(truth, bagged.score_samples(np.vstack([rows, anomalies]))) > 0.9


def test_the_heterogeneous_pool_is_the_default_pool():
    pool = heterogeneous(n=100)
    kinds = {type(detector[-1]) for _, detector in pool}
    assert len(kinds) == len(pool) - 2  # neighbours in all columns, in some, and of few rows
    assert [name for name, _ in pool] == [name for name, _ in default_detectors(300, 0)]
    few, many = (dict(heterogeneous(n))["gp"][-1].approximation for n in (100, 10_000))
    assert (few, many) == (None, "nystroem")
    with pytest.raises(ValueError, match="n must be a whole number"):
        heterogeneous(0)


@pytest.mark.parametrize(
    "estimator",
    [
        OneClassEnsembleClassifier(FusedDetector([("gmm", GMMDetector(1))]), random_state=0),
        BaggedDetector(GMMDetector(1), random_state=0),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_ensembles_can_be_saved_and_loaded(estimator, tmp_path):
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(40, 2)), rng.normal(4.0, 1.0, size=(40, 2))])
    y = np.repeat([0, 1], 40) if hasattr(estimator, "predict_proba") else None
    fitted = estimator.fit(rows, y)
    save(fitted, tmp_path / "ensemble")
    scores = getattr(fitted, "score_samples", None) or fitted.decision_function
    loaded = load(tmp_path / "ensemble")
    again = getattr(loaded, "score_samples", None) or loaded.decision_function
    np.testing.assert_array_equal(again(rows), scores(rows))
