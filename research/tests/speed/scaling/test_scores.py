"""Scores drawn block by block: like each other, like real ones, and the same again."""

import numpy as np
import pytest

from lpfuse import LpFusion
from research.speed.scaling.scores import Learners
from research.speed.solver.problems import synthetic_scores

LEARNERS = Learners.drawn(6, seed=3)


def block(n=20_000, fraction=0.2, seed=0):
    return LEARNERS.block(n, fraction, np.random.default_rng(seed))


def on_device(n=20_000, fraction=0.2, seed=0):
    pytest.importorskip("torch")
    S, y = LEARNERS.on_device(n, fraction, seed, "cpu")
    return S.numpy(), y.numpy()


@pytest.mark.parametrize("draw", [block, on_device])
def test_scores_are_those_of_learners_that_agree(draw):
    S, y = draw()
    assert S.shape == (20_000, 6)
    assert np.mean(y < 0) == pytest.approx(0.2, abs=0.01)
    between = np.corrcoef(S, rowvar=False)[np.triu_indices(6, 1)]
    assert 0.1 < between.min() < between.max() < 0.95
    assert (S[y > 0].mean(axis=0) > S[y < 0].mean(axis=0) + 0.05).all()


@pytest.mark.parametrize("draw", [block, on_device])
def test_learners_agree_by_their_skill(draw):
    S, _ = draw(fraction=0.0)
    pairs = np.triu_indices(6, 1)
    expected = np.outer(LEARNERS.skill, LEARNERS.skill)[pairs]
    np.testing.assert_allclose(np.corrcoef(S, rowvar=False)[pairs], expected, atol=0.12)


@pytest.mark.parametrize("draw", [block, on_device])
def test_the_range_is_that_of_the_solver_benchmark(draw):
    S, y = draw(fraction=0.0)
    assert (y == 1).all()
    assert np.mean(S < 0) == pytest.approx(0.02, abs=0.005)
    assert np.mean(S > 1) == pytest.approx(0.02, abs=0.005)
    theirs, _ = synthetic_scores(20_000, 6, 0.0, seed=0)
    assert S.mean() == pytest.approx(theirs.mean(), abs=0.05)


@pytest.mark.parametrize("fraction", [0.0, 0.2])
def test_no_weights_are_without_error(fraction):
    S, y = block(2_000, fraction)
    assert LpFusion(p=2).fit(S, y).certificate_.dual > 0.01 * len(S)


@pytest.mark.parametrize("draw", [block, on_device])
def test_the_same_seed_draws_the_same_rows(draw):
    (first, _), (again, _), (other, _) = draw(100, seed=5), draw(100, seed=5), draw(100, seed=6)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_numpy_and_torch_draw_from_one_law():
    (ours, _), (theirs, _) = block(fraction=0.2), on_device(fraction=0.2)
    points = [0.05, 0.25, 0.5, 0.75, 0.95]
    np.testing.assert_allclose(
        np.quantile(ours, points, axis=0), np.quantile(theirs, points, axis=0), atol=0.03
    )
