"""Which rows are asked about, and with which chances."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

from helpers.pools import Distance, both, normal_rows
from lpfuse import FixedRule, FusedDetector, GMMDetector, load
from lpfuse.ensemble.active import appeal_of, neighbouring_order, strangest_of
from lpfuse.ensemble.rows import find_rows, hash_rows

X, Y = both(180, 20)
POOL = [("near", Distance(), [0, 1]), ("far", Distance(), [2, 3])]
EXPERT = ("expert", LogisticRegression())
NAMES = ["height", "width", "depth", "weight"]


@pytest.fixture(scope="module")
def fused():
    return FusedDetector(POOL, random_state=0).fit(X)


def with_gaps(X):
    return np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)


# -------------------------------------------------------------------------------- what is returned


@pytest.mark.parametrize("n", [1, 2, 10, 100, 199, 200, 5_000])
def test_as_many_rows_as_asked_for_each_once(fused, n):
    rows, chances = fused.query(X, n, return_chances=True)
    assert len(rows) == len(chances) == min(n, 200)
    assert len(set(rows)) == len(rows)
    assert set(rows) <= set(range(200))
    assert (chances > 0).all()
    assert (chances <= 1).all()
    np.testing.assert_array_equal(fused.query(X, n), rows)
    if n >= 200:
        np.testing.assert_array_equal(chances, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n_instances": 0}, "n_instances"),
        ({"n_instances": 2.5}, "n_instances"),
        ({"explore": 0}, "explore must be"),
        ({"explore": 1.1}, "explore must be"),
        ({"groups": [1, 2]}, "groups must hold one name for each row"),
    ],
)
def test_questions_that_cannot_be(fused, arguments, words):
    with pytest.raises((ValueError, TypeError), match=words):
        fused.query(X, **arguments)


def test_rows_of_another_width_are_refused(fused):
    with pytest.raises(ValueError, match="features"):
        fused.query(X[:, :3])


def test_the_seed_decides(fused):
    one, again, other = (fused.query(X, 10, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert set(one) != set(other)
    unseeded = FusedDetector(POOL).fit(X)
    assert len({tuple(unseeded.query(X, 10)) for _ in range(5)}) > 1


@pytest.mark.parametrize("explore", [0.3, 1.0])
def test_rows_are_drawn_with_the_chances_that_are_told(fused, explore):
    """By 400 draws: no row further off than five standard errors."""
    drawn, told = np.zeros(200), np.full(200, np.nan)
    for seed in range(400):
        rows, chances = fused.query(X, 12, explore=explore, random_state=seed, return_chances=True)
        drawn[rows] += 1
        assert np.isnan(told[rows]).all() or np.allclose(
            told[rows][~np.isnan(told[rows])], chances[~np.isnan(told[rows])]
        )
        told[rows] = chances
    assert not np.isnan(told).any()  # no region stays without an answer
    assert told.sum() == pytest.approx(12)
    error = np.sqrt(told * (1 - told) / 400)
    assert (np.abs(drawn / 400 - told) <= 5 * error + 1e-12).all()
    if explore == 1:
        np.testing.assert_allclose(told, 12 / 200)


def test_most_questions_go_to_the_strangest(fused):
    held_out = fused.held_out_.fused
    rows = np.concatenate([fused.query(X, 10, random_state=seed) for seed in range(20)])
    assert np.isin(rows, np.argsort(held_out)[:20]).mean() > 0.7


# ------------------------------------------------------------------------- equal rows, and groups


def test_equal_rows_are_never_both_asked_about(fused):
    twice = np.concatenate([X, X, -0.0 * X, 0.0 * X])
    for seed in range(20):
        rows, chances = fused.query(twice, 60, random_state=seed, return_chances=True)
        assert len(rows) == 60
        assert len(np.unique(twice[rows] + 0.0, axis=0)) == 60
        assert chances.max() <= 1


def test_fewer_rows_that_differ_than_questions(fused):
    rows, chances = fused.query(np.repeat(X[:3], 5, axis=0), 10, return_chances=True)
    assert sorted(rows // 5) == [0, 1, 2]
    np.testing.assert_array_equal(chances, 1)
    assert fused.query(X[:1], 10).tolist() == [0]


def test_rows_with_the_same_gaps_are_equal():
    rows = np.array([[np.nan, 1.0], [-np.nan, 1.0], [1.0, np.nan], [0.0, 1.0], [-0.0, 1.0]])
    numbers = hash_rows(rows)
    assert numbers[0] == numbers[1]
    assert numbers[3] == numbers[4]
    assert len(set(numbers)) == 3
    np.testing.assert_array_equal(find_rows(rows[[2, 0]], rows), [1, 1, 0, -1, -1])
    np.testing.assert_array_equal(find_rows(rows.astype("f4"), rows), find_rows(rows, rows))


@pytest.mark.parametrize("make", [np.zeros_like, np.ones_like], ids=["zeros", "ones"])
def test_rows_that_differ_in_one_cell_differ(make):
    grid = make(np.empty((4_001, 7)))
    for i in range(4_000):
        grid[i, i % 7] = (i - 2_000) * (1.0 if i % 2 else 2.0**-40)
    differ = len(np.unique(grid, axis=0))
    assert len(np.unique(hash_rows(grid))) == differ


def test_of_a_group_one_row_is_asked_about(fused):
    groups = np.arange(200) // 10
    for seed in range(10):
        rows = fused.query(X, 8, groups=groups, random_state=seed)
        assert len(set(groups[rows])) == 8
    assert len(fused.query(X, 100, groups=groups)) == 20
    named = np.array([f"day {g}" for g in groups])
    np.testing.assert_array_equal(np.sort(groups[fused.query(X, 100, groups=named)]), np.arange(20))


# ------------------------------------------------------------------------------ tables of any kind


@pytest.mark.parametrize("n_rows", [50, 2_000, 20_000])
def test_tables_of_any_size(n_rows):
    rows, y = both(n_rows - n_rows // 20, n_rows // 20)
    some = FusedDetector(POOL, random_state=0, calibration="plain").fit(rows[:2_000])
    found, chances = some.query(rows, 20, return_chances=True)
    assert len(set(found)) == 20
    assert 1 / chances.min() <= n_rows / (0.1 * 20) + 1e-9
    assert (y[found] < 0).mean() > 0.05  # more than there are


@pytest.mark.filterwarnings("ignore:Some detectors", "ignore:Scores have no spread")
@pytest.mark.parametrize("rows", [np.ones((60, 4)), np.round(X / 4)], ids=["constant", "ties"])
def test_tables_of_ties(rows):
    some = FusedDetector(POOL, random_state=0, fusion=FixedRule()).fit(
        rows + np.r_[1.0, np.zeros(len(rows) - 1)][:, None] * 1e-3
    )
    found = some.query(rows, 7)
    assert len(found) == min(7, len(np.unique(rows, axis=0)))


@pytest.mark.filterwarnings("ignore:Some detectors could not score some rows")
@pytest.mark.filterwarnings("ignore:.* with missing cells, which no detector could score")
def test_rows_with_gaps():
    rows = with_gaps(X)
    rows[3] = np.nan
    some = FusedDetector(POOL, random_state=0).fit(rows)
    found, chances = some.query(rows, 15, return_chances=True)
    assert len(set(found)) == 15
    assert (chances > 0).all()
    drawn = [3 in some.query(rows, 15, random_state=seed) for seed in range(40)]
    assert np.mean(drawn) > 0.5  # what nobody can score is strange


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames(fused, make):
    frame = make(X, columns=NAMES) if make is pd.DataFrame else make(X, schema=NAMES)
    some = FusedDetector(POOL, random_state=0).fit(frame)
    np.testing.assert_array_equal(some.query(frame, 10), fused.query(X, 10))


def test_frames_with_words():
    frame = pd.DataFrame(X, columns=NAMES).assign(word=np.where(Y > 0, "a", "b"))
    some = FusedDetector(POOL, random_state=0).fit(frame)
    assert len(set(some.query(frame, 10))) == 10


@pytest.mark.parametrize("blocks", ["array", "frame"])
@pytest.mark.parametrize("experts", [False, True])
def test_dask_rows_are_judged_as_those_in_memory(blocks, experts):
    """But for the order of like rows, which needs all features: where it plays no part, alike."""
    pool = [*POOL, EXPERT] if experts else POOL
    if blocks == "array":
        rows = pytest.importorskip("dask.array").from_array(X, chunks=(70, 4))
        memory = X
    else:
        memory = pd.DataFrame(X, columns=NAMES)
        rows = pytest.importorskip("dask.dataframe").from_pandas(memory, npartitions=3)
    some = FusedDetector(pool, random_state=0).fit(memory, Y if experts else None)
    for n in (1, 120, 200):  # with more than half as many questions as rows there are no clusters
        lazy, told = some.query(rows, n, return_chances=True)
        found, chances = some.query(memory, n, return_chances=True)
        np.testing.assert_array_equal(lazy, found)
        np.testing.assert_array_equal(told, chances)
    assert len(set(some.query(rows, 10))) == 10


def test_equal_rows_of_other_blocks_are_not_asked_about_twice(fused):
    da = pytest.importorskip("dask.array")
    rows = np.concatenate([X, X])
    found = fused.query(da.from_array(rows, chunks=(90, 4)), 100)
    assert len(set(found % 200)) == 100


def test_a_saved_model_asks_the_same(tmp_path):
    some = FusedDetector([("gmm", GMMDetector())], random_state=0).fit(X)
    some.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    for one, other in zip(
        *(model.query(X, 10, return_chances=True) for model in (some, loaded)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


# ---------------------------------------------------------------------------------- held-out scores


def test_query_uses_held_out_scores_of_training_rows():
    """One that learns rows by heart calls none of its own strange, a twin nearby is."""

    class ByHeart(Distance):
        def score_samples(self, X):
            known = self.known_
            return -np.array([np.abs(known - row).sum(axis=1).min() for row in np.asarray(X)])

        def fit(self, X, y=None):
            self.known_ = np.asarray(X)
            return self

    rows = np.concatenate([normal_rows(80), [[60.0, 0, 0, 0]]])
    some = FusedDetector([("by heart", ByHeart())], random_state=0).fit(rows)
    assert some.score_samples(rows[[80]]) == some.score_samples(rows[[0]])
    drawn = [80 in some.query(rows, 2, random_state=seed) for seed in range(30)]
    assert np.mean(drawn) > 0.8


@pytest.mark.parametrize("calibration", ["cross", "plain", "split"])
@pytest.mark.parametrize("cv", [5, "in-sample"])
def test_any_detector_can_ask(calibration, cv):
    settings = {"calibration": calibration, "cv": cv, "false_alarm_rate": 0.2}
    some = FusedDetector(POOL, random_state=0, **settings).fit(X)
    assert len(set(some.query(X, 10))) == 10


def test_a_fusion_that_is_no_sum_can_ask():
    some = FusedDetector([*POOL, EXPERT], fusion=FixedRule("min"), random_state=0).fit(X, Y)
    assert len(set(some.query(X[Y > 0], 10))) == 10


# --------------------------------------------------------------------------------------- the appeal


def test_what_either_calls_strange_comes_first():
    parts = np.column_stack([np.arange(50.0), np.arange(50.0)[::-1]])
    ranks = strangest_of(parts)
    assert set(np.argsort(ranks)[:2]) == {0, 49}
    assert ranks.max() == pytest.approx(ranks[[24, 25]].mean(), abs=0.02)
    np.testing.assert_array_equal(strangest_of(parts[:, :1]), (np.arange(50) + 0.5) / 50)


@pytest.mark.parametrize("n", [1, 10, 300])
@pytest.mark.parametrize("explore", [0.01, 0.1, 1.0])
def test_the_appeal_is_a_share_and_falls_with_the_rank(n, explore):
    rank = (np.arange(300) + 0.5) / 300
    appeal = appeal_of(rank, 0.0, n, explore)  # none is flagged: doubt is at the strangest, too
    assert appeal.sum() == pytest.approx(1)
    assert (appeal >= 0).all()
    assert (np.diff(appeal) <= 1e-15).all()
    near = appeal_of(rank, 0.5, n, explore)
    assert near[150] > appeal[150]


@pytest.mark.parametrize("n", [1, 2, 40])
def test_like_rows_are_neighbours(n):
    random = np.random.RandomState(0)
    numbers = np.concatenate([random.normal(size=(50, 2)) + 100 * k for k in range(2)])
    numbers[::9, 0] = np.nan
    order = neighbouring_order(numbers, random.uniform(size=100), n, random)
    assert sorted(order) == list(range(100))
    empty = np.column_stack([numbers, np.full(100, np.nan)])
    assert sorted(neighbouring_order(empty, random.uniform(size=100), n, random)) == list(
        range(100)
    )
    if n == 2:
        assert np.count_nonzero(np.diff(order >= 50)) <= 3
