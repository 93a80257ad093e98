import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from helpers.cases import cases
from helpers.contract import assert_passes_checks, refused_labels
from helpers.pools import Distance
from lpfuse import FixedRule, FusedDetector, GMMDetector, TwoSidedMinMax
from research.rivals.iterative import IterativeEnsemble

IDLE = (
    "ignore:Scores have no spread:UserWarning",
    "ignore:Some detectors:UserWarning",
    "ignore:.* normal rows cannot hold false alarms:UserWarning",
    "ignore:Consecutive rows resemble each other:UserWarning",  # iris is sorted by its species
)


def prototype(**parameters):
    detectors = [("ellipse", GMMDetector(n_components=1)), ("distance", Distance())]
    defaults = {"detectors": detectors, "fusion": FixedRule("sum"), "cv": 2}
    return FusedDetector(**defaults | parameters)


def ensemble(**parameters):
    return IterativeEnsemble(prototype(), **{"random_state": 0, **parameters})


@pytest.fixture
def contaminated():
    """150 normal rows, then 15 far anomalies among which no two are alike."""
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, 2 * np.pi, size=15)
    far = rng.uniform(5, 9, size=15)[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    return np.vstack([rng.normal(size=(150, 2)), far])


class LabelsDropped(IterativeEnsemble):
    """Fit without y: scikit-learn's checks feed labels other than ±1, which we refuse."""

    def fit(self, X, y=None):
        return super().fit(X)


@pytest.mark.filterwarnings(*IDLE)
def test_scikit_learn_contract():
    two = prototype(detectors=[("near", Distance()), ("far", Distance(power=2.0))])
    ensemble = LabelsDropped(two, max_rounds=2, random_state=0)
    assert_passes_checks(ensemble, refused_labels())


def test_the_rounds_by_hand(contaminated):
    """The same flow in plain steps: two rounds, of which the second lacks the lowest tenth."""
    found = IterativeEnsemble(
        prototype(random_state=7), share=0.1, max_rounds=2, contamination=0.2
    ).fit(contaminated)

    def held_out(fused):
        return fused.held_out_.scores()[0]

    X, n = contaminated, len(contaminated)
    first = prototype(random_state=7, calibration="plain").fit(X)
    worst = np.argsort(held_out(first))[: n // 10]
    kept = np.delete(np.arange(n), worst)
    np.testing.assert_array_equal(np.flatnonzero(found.kept_), kept)

    second = prototype(random_state=7, calibration="plain").fit(X[kept])
    scores = np.column_stack([held_out(first), np.empty(n)])
    scores[kept, 1], scores[worst, 1] = held_out(second), second.score_samples(X[worst])
    scaler = TwoSidedMinMax().fit(scores[kept])
    weights = np.array([1, 2]) / 3
    np.testing.assert_allclose(found.weights_, weights)
    votes = (scaler.transform(scores) @ weights)[kept]
    third = clone(found).set_params(max_rounds=3).fit(X)
    left = np.sort(kept[np.argsort(votes)][len(kept) // 10 :])
    np.testing.assert_array_equal(np.flatnonzero(third.kept_), left)

    new = np.random.default_rng(1).normal(size=(20, 2)) * 3
    both = np.column_stack([first.score_samples(new), second.score_samples(new)])
    np.testing.assert_allclose(found.score_samples(new), scaler.transform(both) @ weights)
    assert (found.predict(X) < 0).sum() == n // 5
    np.testing.assert_array_equal(
        found.predict(new), np.where(found.score_samples(new) >= found.offset_, 1, -1)
    )


def test_anomalies_leave_and_normal_rows_stay(contaminated):
    found = ensemble(share=0.05).fit(contaminated)
    assert found.n_rounds_ == len(found.rounds_) == len(found.weights_) == 4
    assert found.kept_[150:].sum() <= 2
    assert found.kept_[:150].mean() > 0.93
    np.testing.assert_allclose(found.weights_, np.array([1, 2, 4, 8]) / 15)


def test_more_rounds_find_more_of_the_anomalies_to_come(contaminated):
    rng = np.random.default_rng(5)
    X = np.vstack([rng.normal(size=(300, 2)), rng.normal(size=(100, 2)) * 3])
    one, several = (ensemble(max_rounds=rounds).fit(contaminated) for rounds in (1, 4))
    alarms = [fitted.predict(X) < 0 for fitted in (one, several)]
    assert alarms[1][300:].mean() > alarms[0][300:].mean()
    false = [alarm[:300].mean() for alarm in alarms]
    assert max(false) < 0.05


def test_the_share_says_how_many_leave(contaminated):
    found = ensemble(share=0.2, max_rounds=3).fit(contaminated)
    first = int(0.2 * 165)
    assert (~found.kept_).sum() == first + int(0.2 * (165 - first))


def test_it_ends_where_nothing_can_leave(contaminated):
    found = ensemble(share=0.001).fit(contaminated)
    assert found.n_rounds_ == 1
    assert found.kept_.all()
    alone = prototype(random_state=found.rounds_[0].random_state).fit(contaminated)
    order = np.argsort(alone.score_samples(contaminated))
    assert (np.diff(found.score_samples(contaminated)[order]) >= 0).all()


def test_rows_that_someone_vouches_for_never_leave(contaminated):
    y = np.zeros(165)
    y[150:155] = 1  # strange, but known to be normal
    y[155:160] = -1  # known anomalies
    y[:30] = 1
    found = ensemble().fit(contaminated, y)
    assert found.kept_[150:155].all()
    assert not found.kept_[155:].any()
    labels = [fused.held_out_.labels for fused in found.rounds_]
    assert all((one < 0).sum() == 5 for one in labels), "known anomalies teach in every round"


def test_a_seed_makes_it_repeatable(contaminated):
    first, second = (ensemble(max_rounds=2).fit(contaminated) for _ in range(2))
    np.testing.assert_array_equal(
        first.score_samples(contaminated), second.score_samples(contaminated)
    )
    seeds = [fused.random_state for fused in first.rounds_]
    assert len(set(seeds)) == 2
    assert first.detector.random_state is None


def test_frames_pipelines_and_missing_cells(contaminated):
    frame = pd.DataFrame(contaminated, columns=["a", "b"])
    found = ensemble(max_rounds=2).fit(frame)
    assert list(found.feature_names_in_) == ["a", "b"]
    plain = ensemble(max_rounds=2).fit(contaminated)
    np.testing.assert_allclose(found.score_samples(frame), plain.score_samples(contaminated))
    pipeline = make_pipeline(StandardScaler(), ensemble(max_rounds=2)).fit(contaminated)
    assert pipeline.predict([[0.0, 0.0], [9.0, 9.0]]).tolist() == [1, -1]


@pytest.mark.filterwarnings("ignore:Some detectors could not score")
def test_a_row_without_scores_is_kept_and_ignored(contaminated):
    contaminated[3] = np.nan
    found = ensemble(max_rounds=2).fit(contaminated)
    assert found.kept_[3]
    assert np.isnan(found.score_samples(contaminated[3:4])).all()
    assert np.isfinite(found.offset_)


@cases(
    ("parameters", "error", "words"),
    [
        ({"share": 0}, ValueError, "share must be .* above 0"),
        ({"share": 0.6}, ValueError, "at most 0.5, got 0.6"),
        ({"max_rounds": 0}, ValueError, "max_rounds must be a whole number from 1"),
        ({"contamination": 2}, ValueError, "contamination must be"),
        ({"detector": GMMDetector()}, TypeError, "must be a FusedDetector.*Wrap it"),
    ],
)
def test_parameters_are_checked_in_fit(contaminated, parameters, error, words):
    refused = clone(ensemble()).set_params(**parameters)
    with pytest.raises(error, match=words):
        refused.fit(contaminated)
    assert not hasattr(refused, "n_features_in_")
