"""river's own checks, on rows made here: for detectors river would fetch a data set."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("river", reason="river is an extra, and needs a newer NumPy than our oldest")
from river import anomaly, checks, preprocessing

from helpers.cases import cases
from lpfuse import FusedDetector
from lpfuse.river import RiverFused, RiverFusion

rng = np.random.default_rng(0)
COLUMNS = tuple("abcde")  # some checks drop three
ROWS = [
    (dict(zip(COLUMNS, rng.normal(3 * is_anomaly, 1, size=5).tolist(), strict=True)), is_anomaly)
    for is_anomaly in (rng.random(300) < 0.1).tolist()
]
FITTED = FusedDetector(["gmm", "histogram"], random_state=0).fit(
    pd.DataFrame(rng.normal(size=(200, 5)), columns=COLUMNS)
)
MODELS = {
    "fused": lambda: RiverFused(FITTED),
    "fusion": lambda: RiverFusion(
        {
            "trees": preprocessing.MinMaxScaler()
            | anomaly.HalfSpaceTrees(n_trees=5, height=4, window_size=50, seed=0),
            "svm": preprocessing.MinMaxScaler() | anomaly.OneClassSVM(nu=0.1),
        }
    ),
}
# What each model does not do, and why.
EXPECTED = {
    "fused": {
        "check_init_has_default_params_for_tests": "the detector inside is fitted by the user",
        "check_emerging_features": "a fitted detector knows its columns, and refuses others",
        "check_disappearing_features": "as above",
        "check_radically_disappearing_features": "as above",
    },
    "fusion": {
        "check_init_has_default_params_for_tests": "the detectors inside are the user's choice",
    },
}


def named_checks(model, monkeypatch):
    monkeypatch.setattr(checks, "_yield_datasets", lambda model, scale=1: [ROWS])
    return {check.__name__: check for check in checks.yield_checks(model)}


@cases("name", list(MODELS))
def test_checks_of_river_pass_but_for_those_listed(name, monkeypatch):
    failed = {}
    for check_name, check in named_checks(MODELS[name](), monkeypatch).items():
        if check_name not in MODELS[name]()._unit_test_skips():
            try:
                check(MODELS[name]())
            except Exception as error:
                failed[check_name] = repr(error)
    assert failed.keys() == EXPECTED[name].keys(), failed


def test_the_checks_can_fail(monkeypatch):
    class Reversed(RiverFused):
        def score_one(self, x):
            return 1 - super().score_one(x)

    check = named_checks(RiverFused(FITTED), monkeypatch)["check_roc_auc"]
    check(RiverFused(FITTED))
    with pytest.raises(AssertionError):
        check(Reversed(FITTED))
