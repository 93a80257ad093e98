"""Hidden anomalies: who sees them, and that the page tells what was measured."""

import numpy as np
import pytest

from research.common.statistics import compare, holm
from research.paper import contamination
from research.paper.contamination import (
    HINGE,
    METHODS,
    READINGS,
    SQUARES,
    Levels,
    contaminated,
    contamination_page,
    reading_rows,
    robustness,
    rows_of,
)
from research.paper.methods import PAPER_PRESET, lp
from research.tests.small import small_split, tables_in

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of widths far from the data


def test_hidden_anomalies_join_the_training_rows_and_nobody_else():
    parts = small_split(normals=100, anomalies=60)
    clean, dirty = contaminated(parts, 0.0), contaminated(parts, 0.1)
    np.testing.assert_array_equal(clean.normals, parts.train)
    hidden = dirty.normals[len(parts.train) :]
    np.testing.assert_array_equal(hidden, parts.known[: len(hidden)])
    assert len(hidden) / len(dirty.normals) == pytest.approx(0.1, abs=0.01)
    for training in (clean, dirty):
        assert training.is_pure
        np.testing.assert_array_equal(training.validation, clean.validation)
        np.testing.assert_array_equal(training.labels, clean.labels)
    kept = clean.validation[clean.labels < 0]
    assert not set(map(tuple, hidden)) & set(map(tuple, kept))


def test_a_level_without_anomalies_enough_is_left_out():
    parts = small_split(normals=60, anomalies=8)
    assert contaminated(parts, 0.2) is None
    assert contaminated(parts, 0.02) is not None


def test_every_method_is_measured_at_every_level():
    rows = rows_of(small_split(), (0.0, 0.05))
    assert [(row["setting"], row["method"]) for row in rows if row["metric"] == "auc"] == [
        (level, method) for level in ("0 %", "5 %") for method in METHODS
    ]
    assert all(0 <= row["value"] <= 100 for row in rows)


def test_the_losses_are_compared_under_other_readings():
    """But not where nothing hides; and clipping changes what they learn."""
    parts = small_split(shift=1.0)
    rows = reading_rows(parts, (0.0, 0.05))
    assert [(row["setting"], row["reading"], row["method"]) for row in rows] == [
        ("5 %", reading, method) for reading in READINGS for method in (HINGE, SQUARES)
    ]
    training = contaminated(parts, 0.05)
    clipped, plain = (parts.judge(lp(preset=preset)(training)) for preset in (
        READINGS["clipped"], PAPER_PRESET))  # fmt: skip
    assert rows[0]["value"] == clipped["auc"]
    assert clipped != plain


def made_up(rng):
    return [
        {"set": f"set {k}", "seed": seed, "setting": level, "method": method, "metric": "auc",
         "value": 80 + rng.normal() + 5 * (method == HINGE) * (level != "0 %")}
        for k in range(8) for seed in range(2) for level in ("0 %", "5 %", "20 %")
        if (k, level) != (7, "20 %") for method in METHODS
    ]  # fmt: skip


def test_robustness_is_told_by_paired_tests_with_holm_s_correction():
    figures = Levels(made_up(np.random.default_rng(0)))
    found = robustness(figures)
    assert list(found) == ["5 %", "20 %"]
    by_hand = [compare(*figures.pair((x, HINGE), (x, SQUARES))) for x in found]
    assert [each.p_value for each in found.values()] == holm([e.p_value for e in by_hand]).tolist()
    assert sum((found["20 %"].wins, found["20 %"].ties, found["20 %"].losses)) == 7


def test_the_page_has_means_costs_and_tests():
    figures = Levels(made_up(np.random.default_rng(0)))
    means, costs, tests = tables_in(contamination_page(figures))
    mean = np.mean(list(figures.means("5 %", HINGE).values()))
    assert float(dict(means[HINGE])["5 % (8 sets)"]) == pytest.approx(mean, abs=0.051)
    here, clean = figures.pair(("20 %", HINGE), ("0 %", HINGE))
    assert len(here) == 7
    cost = float(dict(costs[HINGE])["20 % (7 sets)"])
    assert cost == pytest.approx(np.mean(here - clean), abs=0.051)
    assert f"{HINGE} − {SQUARES}" in tests


def test_ours_is_not_told_that_the_rows_are_normal(monkeypatch):
    told = []

    class Watched(contamination.FusedDetector):
        def fit(self, X, y=None):
            told.append(y)
            return super().fit(X, y)

    monkeypatch.setattr(contamination, "FusedDetector", Watched)
    METHODS[contamination.OURS](contaminated(small_split(), 0.0))
    assert told == [None]
