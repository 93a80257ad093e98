"""The default pool: what is in it, and from how many labels on."""

import math

import numpy as np
import pytest

from lpfuse import FixedRule, FusedDetector, FusedDetectorCV, TailScaler, TwoSidedMinMax
from lpfuse.ensemble.components import default_detectors

ONE_CLASS = ["gp", "knn", "knn subspaces", "knn samples", "histogram", "columns"]
ROBUST = ["covariance", "lof", "knn 5", "knn half"]
EXPERTS = ["trees", "boosting", "svm"]


@pytest.mark.parametrize(
    ("n_anomalies", "experts"), [(0, []), (1, []), (2, EXPERTS), (math.inf, EXPERTS)]
)
def test_experts_join_with_labels(n_anomalies, experts):
    assert [name for name, _ in default_detectors(300, n_anomalies)] == [*ONE_CLASS, *experts]


def test_many_rows_have_approximate_kernels_and_no_support_vectors():
    for n, approximation in ((1_500, None), (1_501, "nystroem")):
        assert dict(default_detectors(n, 0))["gp"][-1].approximation == approximation
    assert "svm" in dict(default_detectors(5_000, 5))
    assert "svm" not in dict(default_detectors(5_001, 5))


def test_they_are_what_a_fused_detector_takes_by_itself():
    X = np.random.default_rng(0).normal(size=(40, 2))
    fused = FusedDetector(cv=2, calibration="plain", random_state=0).fit(X)
    assert fused.detector_names_ == [*ONE_CLASS, *ROBUST]


@pytest.mark.parametrize(
    ("options", "scaler"),
    [
        ({}, TailScaler),
        ({"prior": None}, TwoSidedMinMax),
        ({"prior": np.ones(10)}, TwoSidedMinMax),
        ({"prior": dict.fromkeys([*ONE_CLASS, *ROBUST], 1.0)}, TwoSidedMinMax),
        ({"fusion": FixedRule()}, TwoSidedMinMax),
        ({"detectors": "paper"}, TwoSidedMinMax),
        ({"fusion": FixedRule(), "scaler": TailScaler()}, TailScaler),
        ({"scaler": TwoSidedMinMax(rho=10)}, TwoSidedMinMax),
    ],
)
def test_default_scaler_follows_the_prior(options, scaler):
    X = np.random.default_rng(0).normal(size=(40, 2))
    fused = FusedDetector(cv=2, calibration="plain", random_state=0, **options).fit(X)
    assert type(fused.scaler_) is scaler


def test_default_scale_of_the_search_has_a_rho():
    X = np.random.default_rng(0).normal(size=(200, 3))
    given = {"ps": [2], "rhos": [1, 5], "prior": "tables"}
    fused = FusedDetectorCV(cv=2, calibration="plain", random_state=0, **given).fit(X)
    assert type(fused.scaler_) is TwoSidedMinMax


def test_no_one_class_detector_needs_folds():
    for _, made in default_detectors(300, 0):
        assert hasattr(made, "leave_one_out_scores") or hasattr(made[-1], "leave_one_out_scores")
