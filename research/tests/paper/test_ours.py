"""What lpfuse does under the protocol, against the same by hand."""

from functools import cache, partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lpfuse import (
    SVDD,
    FixedRule,
    FusedDetector,
    GMMDetector,
    KernelPCADetector,
    OneClassGP,
    TwoSidedMinMax,
)
from lpfuse.ensemble.components import default_detectors
from lpfuse.metrics import best_g_mean
from research.common.protocol import SETTINGS
from research.paper import ours
from research.paper.ours import (
    SUPERVISED,
    all_known,
    defaults,
    supervised,
    validated,
    validated_sum,
)
from research.tests.small import (
    easy_training,
    exact_auc,
    plant_saplings,
    small_split,
    small_training,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of small and easy data
PROBE = np.random.default_rng(1).normal(size=(15, 2))


@pytest.fixture(autouse=True)
def saplings(monkeypatch):
    plant_saplings(monkeypatch)


def fitted_detector(training, detectors=None, **options):
    rows = np.vstack([training.normals, training.labelled])
    y = np.repeat([1, -1], [len(training.normals), len(training.labelled)])
    # As it is measured: scores alone count, and with labels they depend on the calibration.
    options = {"calibration": "plain", **options}
    return FusedDetector(detectors, random_state=training.seed, **options).fit(rows, y)


def check_is(fitted, fused, training):
    np.testing.assert_array_equal(fitted.score(PROBE), fused.score_samples(PROBE))
    scores = fused.score_samples(training.validation)
    assert fitted.offset == best_g_mean(training.labels, scores)[1]


def test_defaults_are_a_fused_detector_as_it_comes():
    parts = small_split(seed=3)
    for setting in SETTINGS:
        training = parts.training(setting)
        fused = fitted_detector(training)
        fitted = defaults(training)
        check_is(fitted, fused, training)
        assert ("trees" in fused.detector_names_) == (setting == "non-pure")
        assert fitted.choices == {}


def test_all_known_anomalies_teach_and_none_is_kept(monkeypatch):
    learnt = []

    class Watched(FusedDetector):
        def fit(self, X, y=None):
            learnt.append((X, y))
            return super().fit(X, y)

    monkeypatch.setattr(ours, "FusedDetector", Watched)
    parts = small_split()
    fitted = all_known(parts.training("non-pure"))
    ((X, y),) = learnt
    np.testing.assert_array_equal(X[y > 0], parts.train)
    assert {tuple(row) for row in X[y < 0]} == {tuple(row) for row in parts.known}
    assert (y < 0).sum() == len(parts.known)
    settings = {"threshold": "g-mean", "calibration": "plain", "random_state": parts.seed}
    by_hand = FusedDetector(**settings).fit(X, y)
    np.testing.assert_array_equal(fitted.score(PROBE), by_hand.score_samples(PROBE))
    assert fitted.offset == by_hand.offset_


# ---------------------------------------------------------------------------------------- validated


def grid_by_hand(training):
    n, d = training.normals.shape
    scale = 1 / (d * float(training.normals.var()))
    gammas = [width * scale for width in (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)]
    kernels = [{"gamma": gamma, "approximation": None} for gamma in gammas]
    return {
        "svdd": [SVDD(**kernel) for kernel in kernels],
        "gp": [
            OneClassGP(score_type=kind, **kernel)
            for kernel in kernels
            for kind in ("density", "mean")
        ],
        "kpca": [
            KernelPCADetector(share, **kernel)
            for kernel in kernels
            for share in (0.7, 0.9, 0.95, 0.99)
        ],
        "gmm": [
            GMMDetector(k, score_type=kind, random_state=training.seed)
            for k in (1, 3, 5)
            for kind in ("log_likelihood", "mahalanobis")
        ],
        "forest": [IsolationForest(n_estimators=3, random_state=training.seed)],
        "lof": [
            LocalOutlierFactor(n_neighbors=k, novelty=True)
            for k in (5, 10, 20, 50, 100)
            if k <= max(5, n // 2)
        ],
    }


@pytest.mark.parametrize("normals", [10, 60, 300])
def test_the_grid_of_validated_settings(normals):
    training = small_training(normals=normals)
    found = {}
    for kind, detector in ours.grid_of(training):
        found.setdefault(kind, []).append(str(detector))
    expected = grid_by_hand(training)
    assert found == {kind: list(map(str, detectors)) for kind, detectors in expected.items()}


@cache
def choice_by_hand(setting, seed):
    """The best setting of each kind, then the m that sum up best: fitted and tried one by one."""
    training = small_training(setting, seed=seed)
    auc = partial(exact_auc, training.labels)
    best = []
    for kind, settings in grid_by_hand(training).items():
        tried = []
        for detector in settings:
            scores = clone(detector).fit(training.normals).score_samples(training.validation)
            tried.append((auc(scores), scores, kind, detector))
        best.append(max(tried, key=lambda each: each[0]))
    best.sort(key=lambda each: -each[0])
    columns = np.column_stack([scores for _, scores, *_ in best])
    scaled = TwoSidedMinMax().fit(columns[training.labels > 0]).transform(columns)
    sums = [auc(scaled[:, :m].sum(axis=1)) for m in range(1, len(best) + 1)]
    m = max(m for m, value in enumerate(sums, start=1) if value == max(sums))
    return [(kind, detector) for *_, kind, detector in best[:m]]


CASES = [("pure", 2), ("non-pure", 5)]


@pytest.mark.parametrize(("setting", "seed"), CASES)
def test_validated_settings_and_members_are_those_of_a_loop(setting, seed):
    training = small_training(setting, seed=seed)
    chosen = choice_by_hand(setting, seed)
    n, n_anomalies = len(training.normals), len(training.labelled)
    experts = default_detectors(n, n_anomalies)[len(default_detectors(n, 0)) :]
    assert bool(experts) == (setting == "non-pure")
    pool = [(name, make_pipeline(StandardScaler(), detector)) for name, detector in chosen]
    fitted = validated(training)
    assert fitted.choices["members"] == [name for name, _ in chosen]
    fused = fitted_detector(training, [*pool, *experts])
    check_is(fitted, fused, training)
    check_is(validated_sum(training), fused.with_fusion(FixedRule("sum")), training)


def test_cases_differ_in_their_members():
    """Or the loop above would compare constants."""
    chosen = [[name for name, _ in choice_by_hand(*training)] for training in CASES]
    assert len({tuple(names) for names in chosen}) > 1
    assert len({len(names) for names in chosen}) > 1


def test_of_equals_the_most_members():
    members = validated(easy_training()).choices["members"]
    assert members[:4] == ["svdd", "gp", "kpca", "gmm"], "and the first kinds of equals first"
    assert len(members) == 6


@pytest.mark.parametrize("setting", SETTINGS)
def test_experts_join_where_anomalies_teach(setting, monkeypatch):
    given = []

    def record(detectors, **options):
        given.extend(name for name, _ in detectors)
        return FusedDetector(detectors, **options)

    monkeypatch.setattr(ours, "FusedDetector", record)
    members = validated(small_training(setting)).choices["members"]
    experts = ["trees", "boosting", "svm"] if setting == "non-pure" else []
    assert given == [*members, *experts]


def test_a_handful_of_rows_is_enough():
    training = small_training("non-pure", normals=10, anomalies=8)
    assert np.isfinite(validated(training).score(PROBE)).all()


@pytest.mark.parametrize("name", SUPERVISED)
def test_a_classifier_alone_learns_from_the_rows_that_teach(name):
    training = small_training("non-pure")
    fitted = supervised(SUPERVISED[name])(training)
    assert exact_auc(training.labels, fitted.score(training.validation)) > 0.7
    scores = fitted.score(training.validation)
    assert fitted.offset == best_g_mean(training.labels, scores)[1]
    again = supervised(SUPERVISED[name])(training)
    np.testing.assert_array_equal(again.score(PROBE), fitted.score(PROBE))
