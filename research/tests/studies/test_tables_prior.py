"""The prior weights: learnt by hand-made pairs, and the file of the package against its page."""

import json

import numpy as np
import pytest
from scipy.optimize import minimize

from research.studies.tables.prior import (
    FILE,
    PAGE,
    PAIRS,
    RIDGE,
    SEEN,
    Pairs,
    held_out_order,
    learn_weights,
    prior_page,
)
from research.studies.tables.splits import LABELS, MODES

NAMES = ("good", "fair", "bad")


def drawn(rng, labels=0, mode="seen"):
    """A detector that tells all, one that tells little, and one that is wrong."""
    middle = np.array([2.0, 0.5, -1.0])
    return Pairs(NAMES, labels, mode, middle + rng.normal(size=(PAIRS, 3)))


@pytest.fixture
def parts():
    rng = np.random.default_rng(0)
    return [drawn(rng, k, mode) for k in LABELS for _ in range(8) for mode in MODES]


def test_weights_are_the_minimum(parts):
    some = [part for part in parts if part.labels == 0]
    counts = np.array([SEEN if part.mode == "seen" else 1.0 for part in some])

    def naive(w):
        losses = [np.mean(np.log1p(np.exp(-(part.differences @ w)))) for part in some]
        return np.average(losses, weights=counts) + RIDGE / 2 * ((w - w.mean()) ** 2).sum()

    bounds = [(0.0, None)] * 3
    best = minimize(naive, np.ones(3) / 3, method="Nelder-Mead", bounds=bounds, tol=1e-10).x
    found = learn_weights(some)
    np.testing.assert_allclose(list(found.values()), best / best.sum(), atol=2e-3)
    assert found["good"] > found["fair"] > found["bad"] == 0.0


def test_what_is_left_out_is_missed_as_it_deserves(parts):
    some = [part for part in parts if part.labels == 0]
    whole = held_out_order(some)
    assert (held_out_order(some, "good") < whole - 5).all()
    assert (abs(held_out_order(some, "bad") - whole) < 1).all()


def test_the_page_has_all_members(parts):
    text = prior_page(parts)
    assert all(f"| {name} |" in text and f"| without {name} |" in text for name in NAMES)


def test_the_page_shows_the_weights_of_the_package():
    content = json.loads(FILE.read_text(encoding="utf-8"))
    shown = PAGE.read_text(encoding="utf-8")
    for name in content["weights"][-1]["weights"]:
        weights = [row["weights"].get(name) for row in content["weights"]]
        cells = ["" if weight is None else f"{weight:.2f}" for weight in weights]
        assert "| " + " | ".join([name, *cells]) + " |" in shown.replace("|  |", "|  |")
