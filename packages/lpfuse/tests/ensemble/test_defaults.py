"""The default pool: what is in it, and from how many labels on."""

import math

import numpy as np
import pytest
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from lpfuse import FusedDetector
from lpfuse.ensemble.components import default_detectors

ONE_CLASS = ["svdd", "gp", "kpca", "gmm", "forest", "lof"]


@pytest.mark.parametrize(
    ("n_anomalies", "experts"),
    [
        (0, []),
        (1, []),
        (2, ["trees", "logistic"]),
        (49, ["trees", "logistic"]),
        (50, ["trees", "logistic", "random forest"]),
        (math.inf, ["trees", "logistic", "random forest"]),
    ],
)
def test_experts_join_as_labels_grow(n_anomalies, experts):
    assert [name for name, _ in default_detectors(300, n_anomalies)] == [*ONE_CLASS, *experts]


def test_all_see_standardised_features():
    for _, made in default_detectors(300, math.inf):
        assert isinstance(made, Pipeline)
        assert isinstance(made[0], StandardScaler)


def test_many_rows_have_approximate_kernels():
    for n, approximation in ((1_500, None), (1_501, "nystroem")):
        pool = dict(default_detectors(n, 0))
        assert {pool[name][-1].approximation for name in ("svdd", "gp", "kpca")} == {approximation}


def test_they_are_what_a_fused_detector_takes_by_itself():
    X = np.random.default_rng(0).normal(size=(40, 2))
    fused = FusedDetector(cv=2, calibration="plain", random_state=0).fit(X)
    assert fused.detector_names_ == ONE_CLASS
