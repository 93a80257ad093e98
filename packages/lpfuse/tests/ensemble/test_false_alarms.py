"""What `false_alarm_rate` promises, on fresh normal rows and over forty fits."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from lpfuse import SVDD, FusedDetector, OneClassGP

ONE_CLASS = [("svdd", SVDD()), ("gp", OneClassGP())]  # one by folds, one by leaving one out
EXPERT = ("logistic", LogisticRegression(class_weight="balanced"))
ROWS = 299  # 5 % and 10 % of one more are whole numbers


def rows_and_labels(rng, anomalies):
    if anomalies == 0:
        return rng.normal(size=(ROWS, 3)), None
    X = np.vstack([rng.normal(size=(ROWS, 3)), rng.normal(2.5, 1.0, size=(anomalies, 3))])
    return X, np.repeat([1, -1], [ROWS, anomalies])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("calibration", "anomalies", "detectors"),
    [
        ("cross", 0, ONE_CLASS),
        ("cross", 10, [*ONE_CLASS, EXPERT]),
        ("split", 0, ONE_CLASS),
        ("split", 10, ONE_CLASS),
    ],
)
def test_false_alarms_are_within_a_point_of_the_rate(calibration, anomalies, detectors):
    at_five, at_ten = [], []
    for repetition in range(40):
        rng = np.random.default_rng([anomalies, repetition])
        X, y = rows_and_labels(rng, anomalies)
        fresh = rng.normal(size=(300, 3))
        fused = FusedDetector(
            detectors, calibration=calibration, false_alarm_rate=0.05, random_state=repetition
        ).fit(X, y)
        alarms, pvalues = fused.predict(fresh) == -1, fused.pvalues(fresh)
        np.testing.assert_array_equal(alarms, pvalues <= 0.05)
        at_five.append(alarms.mean())
        at_ten.append(np.mean(pvalues <= 0.1))
    assert np.mean(at_five) == pytest.approx(0.05, abs=0.01)
    assert np.mean(at_ten) == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("anomalies", [2, 4])
def test_a_handful_of_labels_does_not_flag_every_row(anomalies):
    """Two labels once taught weights of next to nothing, and flagged all rows of some tables."""
    for repetition in range(2):
        rng = np.random.default_rng([anomalies, repetition])
        X = np.vstack([rng.normal(size=(300, 3)), rng.normal(0.5, 1.5, size=(anomalies, 3))])
        y = np.repeat([0, -1], [300, anomalies])
        fused = FusedDetector(random_state=repetition).fit(X, y)
        assert (fused.predict(rng.normal(size=(1_000, 3))) == -1).mean() < 0.12
        assert fused.weights_.sum() == pytest.approx(1)
