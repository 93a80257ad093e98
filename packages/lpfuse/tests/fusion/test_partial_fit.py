"""Weights that follow labels: equal to a fit at first, within their regret bounds ever after."""

import warnings
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from lpfuse import LpFusion
from lpfuse.ensemble.components import default_fusion
from lpfuse.fusion.lp import IMAGINARY_SCORE
from lpfuse.fusion.online import KEPT, RECENT, LabelledWindow
from lpfuse.io import load, save
from lpfuse.optim import LpBall

R = 4
PRIOR = [0.4, 0.3, 0.2, 0.1]
FUSIONS = {
    "default": LpFusion(),
    "one": LpFusion(p=1),
    "infinity": LpFusion(p=float("inf"), nonnegative=True),
    "balanced": LpFusion(p=2, class_weight="balanced", nonnegative=True),
    "intercept": LpFusion(p=4, class_weight="balanced", fit_intercept=True),
    "pool": default_fusion(),
    "prior": LpFusion(p=2, prior=PRIOR, radius=0.3, nonnegative=True, fit_intercept=True),
    "squares": LpFusion(p=2, loss="least_squares", class_weight="balanced"),
}
every_fusion = pytest.mark.parametrize("name", FUSIONS)
STREAMS = ["still", "noise", "alternating", "turned", "waves"]


def stream(kind, n, seed=0):
    """Scores and labels; which detectors are right changes as `kind` says."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.2, -1.0, 1.0)
    t = np.arange(n)[:, None]
    use = {
        "still": np.array([0.9, 0.6, 0.3, 0.0]) + 0.0 * t,
        "noise": 0.0 * t + np.zeros(R),
        "alternating": np.where(t % 2, [0.9, 0.9, -0.9, -0.9], [-0.9, -0.9, 0.9, 0.9]),
        "turned": np.where(t < n // 2, [0.9, 0.9, 0.0, -0.9], [-0.9, 0.0, 0.9, 0.9]),
        "waves": np.sin(t / 40.0 + np.arange(R)),
    }[kind]
    return y[:, None] * use + rng.normal(scale=0.3, size=(n, R)), y


def begun(name, S, y):
    """After a first call with these rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some streams are nonsense, on purpose
        return clone(FUSIONS[name]).partial_fit(S, y)


def losses_of(fusion, rows, point):
    """The losses that `online_` speaks of, by hand."""
    total = 0.0
    for row in rows:
        margins = row.label * (row.scores @ point[:-1] + point[-1])
        far = -(IMAGINARY_SCORE * point[:-1].sum() + point[-1])
        for cost, residual in ((row.cost, 1 - margins), (row.imaginary, 1 - far)):
            total += cost * (max(residual, 0.0) if fusion.loss == "hinge" else residual**2)
    return total


def best_in_hindsight(fusion, rows):
    """The weights with the least loss on the rows, certified, by an ordinary fit."""
    S = np.array([row.scores for row in rows] + [np.full(R, IMAGINARY_SCORE)])
    y = np.array([row.label for row in rows] + [-1.0])
    costs = np.array([row.cost for row in rows] + [sum(row.imaginary for row in rows)])
    alone = clone(fusion).set_params(class_weight=None, imaginary_anomalies=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = alone.fit(S[costs > 0], y[costs > 0], costs[costs > 0])
    return np.append(found.weights_, found.intercept_)


@every_fusion
def test_the_first_call_is_a_fit(name):
    S, y = stream("still", 120)
    fitted, first = clone(FUSIONS[name]).fit(S, y), begun(name, S, y)
    np.testing.assert_array_equal(first.weights_, fitted.weights_)
    assert first.intercept_ == fitted.intercept_
    assert first.certificate_.gap == fitted.certificate_.gap
    np.testing.assert_allclose(first.online_.point, [*fitted.weights_, fitted.intercept_])
    assert first.online_.n_rows == 0


@every_fusion
@pytest.mark.parametrize("kind", STREAMS)
def test_regret_is_within_its_bounds(name, kind):
    S, y = stream(kind, 700)
    fusion, rows = begun(name, S[:60], y[:60]), []
    average = fusion.online_.strategies["average"]
    used = 0.0
    for s, label in zip(S[60:], y[60:], strict=True):
        row = fusion.online_.row(s, label, 1.0)
        used += losses_of(fusion, [row], np.append(fusion.weights_, fusion.intercept_))
        rows.append(row)
        fusion.partial_fit([s], [label])
    online, bounds = fusion.online_, fusion.online_.regret_bounds()
    assert online.losses["used"] == pytest.approx(used)
    assert online.losses["average"] == pytest.approx(losses_of(fusion, rows, average))
    assert used - losses_of(fusion, rows, average) <= bounds["average"]
    best = best_in_hindsight(fusion, rows)
    assert online.learner.low <= best[-1] <= online.learner.high or not fusion.fit_intercept
    assert used - losses_of(fusion, rows, best) <= bounds["best"]
    assert sum(online.shares.values()) == pytest.approx(1.0)


@given(seed=st.integers(0, 10_000), name=st.sampled_from(sorted(FUSIONS)))
@settings(max_examples=25, deadline=None)
def test_weights_stay_in_the_ball_whatever_comes(seed, name):
    rng = np.random.default_rng(seed)
    S, y = stream("still", 30, seed)
    fusion = begun(name, S, y)
    rows = rng.standard_t(1.5, size=(80, R)) * 10.0 ** rng.integers(-3, 4)
    fusion.partial_fit(rows, rng.choice([-1, 1], 80), rng.choice([0.0, 1.0, 30.0], 80))
    ball = LpBall(float(fusion.p), fusion.nonnegative, fusion.prior_, fusion.radius)
    assert np.isfinite([*fusion.weights_, fusion.intercept_]).all()
    assert ball.gauge(fusion.weights_) <= 1 + 1e-12
    assert not fusion.nonnegative or fusion.weights_.min() >= 0


@every_fusion
def test_rows_of_one_call_are_learnt_one_after_the_other(name):
    S, y = stream("turned", 200)
    one, many = begun(name, S[:50], y[:50]), begun(name, S[:50], y[:50])
    many.partial_fit(S[50:], y[50:])
    for s, label in zip(S[50:], y[50:], strict=True):
        one.partial_fit([s], [label])
    np.testing.assert_array_equal(one.weights_, many.weights_)
    assert one.online_.losses == many.online_.losses


def test_weights_follow_a_change_that_fixed_ones_do_not():
    S, y = stream("turned", 1200)
    fusion = begun("balanced", S[:300], y[:300])
    fixed = np.append(fusion.weights_, 0.0)
    fusion.partial_fit(S[300:], y[300:])
    assert fusion.weights_[2:].min() > 0.3 > fusion.weights_[0]
    rows = [fusion.online_.row(s, label, 1.0) for s, label in zip(S[700:], y[700:], strict=True)]
    now = np.append(fusion.weights_, 0.0)
    assert losses_of(fusion, rows, now) < 0.5 * losses_of(fusion, rows, fixed)


def test_the_certificate_is_that_of_the_rows_that_are_kept():
    S, y = stream("still", 400)
    fusion = begun("balanced", S[:100], y[:100]).partial_fit(S[100:], y[100:])
    # No row was let go: solved last when an eighth was new.
    n = 400 - int(fusion.online_.news[0])
    alone = clone(fusion).fit(S[:n], y[:n])
    certified = fusion.online_.strategies["certified"]
    np.testing.assert_allclose(certified[:-1], alone.weights_, atol=1e-6)
    assert fusion.certificate_.status == "optimal"
    assert fusion.certificate_.primal == pytest.approx(alone.certificate_.primal, rel=1e-6)


def test_the_window_keeps_the_last_rows_of_each_class():
    rng, window, twin = np.random.default_rng(0), LabelledWindow(2, kept=20), LabelledWindow(2, 20)
    S, y = rng.normal(size=(500, 2)), np.where(rng.random(500) < 0.1, -1.0, 1.0)
    for s, label in zip(S, y, strict=True):
        window.add(s, label, 2.0)
    for rows in np.array_split(np.arange(500), 7):
        twin.extend(S[rows], y[rows], np.full(len(rows), 2.0))
    np.testing.assert_array_equal(window.rows, twin.rows)
    np.testing.assert_array_equal(window.mass, twin.mass)
    found, labels, costs = window.problem()
    for label in (1.0, -1.0):
        last = S[y == label][-20:]
        of_class = found[labels == label]
        np.testing.assert_array_equal(np.sort(of_class[:, 0]), np.sort(last[:, 0]))
        assert costs[labels == label].sum() == pytest.approx(2.0 * (y == label).sum())


def test_the_last_rows_hold_both_classes():
    window = LabelledWindow(1)
    y = np.repeat([-1.0, 1.0], [50, 600])
    window.extend(np.arange(650.0)[:, None], y, np.ones(650))
    found, labels, _ = window.problem(RECENT)
    np.testing.assert_array_equal(np.sort(found[labels > 0, 0]), np.arange(650 - RECENT, 650))
    np.testing.assert_array_equal(np.sort(found[labels < 0, 0]), np.arange(30, 50))


@pytest.mark.slow
def test_memory_is_bounded_over_two_hundred_thousand_rows():
    S, y = stream("waves", 200_000)
    fusion = begun("pool", S[:100], y[:100]).partial_fit(S[100:20_000], y[100:20_000])
    sizes = []
    for part in np.array_split(np.arange(20_000, 200_000), 4):
        fusion.partial_fit(S[part], y[part])
        sizes.append(_bytes_of(fusion.online_))
    assert len(set(sizes)) == 1
    assert fusion.online_.window.rows.shape == (2, KEPT, R + 2)
    assert fusion.online_.losses["used"] < fusion.online_.losses["average"] + 100


def _bytes_of(thing):
    """What arrays in an object, and in those that it holds, take."""
    if isinstance(thing, np.ndarray):
        return thing.nbytes
    parts = thing if isinstance(thing, list | tuple) else vars(thing).values() if hasattr(
        thing, "__dict__") else []  # fmt: skip
    return sum(_bytes_of(part) for part in parts)


def test_after_a_fit_it_goes_on_from_the_fitted_weights():
    S, y = stream("still", 300)
    fusion = LpFusion(p=2).fit(S[:200], y[:200])
    before = fusion.weights_.copy()
    fusion.partial_fit(S[200:201], y[200:201])
    assert np.abs(fusion.weights_ - before).max() < 0.2
    assert fusion.online_.n_rows == 1
    assert not hasattr(fusion.fit(S, y), "online_")


@pytest.mark.parametrize(
    ("S", "y", "weight", "told"),
    [
        ([[1.0, 2.0]], [1], None, "4"),
        ([[np.nan] * R], [1], None, "NaN"),
        ([[1.0] * R], [0], None, r"\+1"),
        ([[1.0] * R], [1, 1], None, "y"),
        ([[1.0] * R], [1], [-1.0], "sample_weight"),
    ],
)
def test_what_is_refused_changes_nothing(S, y, weight, told):
    rows, labels = stream("still", 60)
    fusion = begun("pool", rows, labels).partial_fit(rows[:5], labels[:5])
    before = deepcopy(vars(fusion))
    with pytest.raises(ValueError, match=told):
        fusion.partial_fit(S, y, weight)
    assert fusion.online_.losses == before["online_"].losses
    np.testing.assert_array_equal(fusion.weights_, before["weights_"])


def test_blocks_are_refused():
    da = pytest.importorskip("dask.array")
    S, y = stream("still", 60)
    with pytest.raises(ValueError, match="a block at a time"):
        begun("default", S, y).partial_fit(da.from_array(S), y)


def test_a_loaded_fusion_goes_on_as_if_nothing_had_happened(tmp_path):
    S, y = stream("turned", 300)
    one = begun("pool", S[:100], y[:100]).partial_fit(S[100:200], y[100:200])
    save(one, tmp_path / "fusion.lpfuse")
    other = load(tmp_path / "fusion.lpfuse")
    for fusion in (one, other):
        fusion.partial_fit(S[200:], y[200:])
    np.testing.assert_array_equal(one.weights_, other.weights_)
    assert one.online_.regret_bounds() == other.online_.regret_bounds()


def test_normal_rows_alone_do_not_lift_the_intercept():
    S, _ = stream("still", 200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fusion = LpFusion(p=2, fit_intercept=True).partial_fit(np.abs(S[:50]))
    fusion.partial_fit(np.abs(S[50:]))
    assert fusion.intercept_ == 0.0


def test_rows_without_weight_teach_nothing_and_break_nothing():
    S, y = stream("still", 100)
    fusion = begun("balanced", S[:10], np.ones(10))
    fusion.partial_fit(S, y, np.where(y < 0, 0.0, 1.0))
    assert np.isfinite(fusion.weights_).all()
    assert fusion.online_.n_solves > 0


@pytest.mark.parametrize("name", ["default", "balanced", "pool", "prior"])
def test_labels_that_contradict_the_weights_in_use_break_no_bound(name):
    """An adversary who sees the weights and calls normal what they find strange, and so on."""
    S, y = stream("still", 60)
    fusion, rows, rng = begun(name, S, y), [], np.random.default_rng(1)
    average = fusion.online_.strategies["average"]
    for s in rng.normal(size=(500, R)):
        label = -1.0 if s @ fusion.weights_ + fusion.intercept_ > 0 else 1.0
        rows.append(fusion.online_.row(s, label, 1.0))
        fusion.partial_fit([s], [label])
    used, bounds = fusion.online_.losses["used"], fusion.online_.regret_bounds()
    assert used - losses_of(fusion, rows, average) <= bounds["average"]
    best = best_in_hindsight(fusion, rows)
    if fusion.online_.learner.low <= best[-1] <= fusion.online_.learner.high:
        assert used - losses_of(fusion, rows, best) <= bounds["best"]
