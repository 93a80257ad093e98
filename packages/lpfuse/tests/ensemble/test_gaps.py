"""Rows with missing cells are judged like others, by the default pool and what fills them in."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.impute import SimpleImputer
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.svm import OneClassSVM

from lpfuse import FusedDetector, KNNDetector
from lpfuse.adapters import ScoreColumn
from lpfuse.ensemble.components import default_detectors
from lpfuse.ensemble.pool import Member, scorable_rows
from lpfuse.io import load, save
from lpfuse.views import FilledGaps, NormalQuantiles

MIX = np.array([[1.0, 0.0, 1.0, 1.0, 0.5], [0.0, 1.0, 1.0, -1.0, 1.0]])


def rows(n, seed):
    """Five columns, of which each follows from two others: a median in a gap would be strange."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) @ MIX + 0.1 * rng.normal(size=(n, 5))


def with_gaps(X, share, seed=0, column=None):
    """One cell is missing in that share of the rows: in one column, or in any."""
    rng, X = np.random.default_rng(seed), X.copy()
    where = rng.permutation(len(X))[: round(share * len(X))]
    X[where, rng.integers(5, size=len(where)) if column is None else column] = np.nan
    return X


def alarms(fused, X):
    return (fused.predict(X) < 0).mean()


@pytest.mark.parametrize(("share", "column"), [(0.0, None), (0.07, None), (0.07, 1), (1.0, None)])
def test_rows_with_a_gap_are_flagged_as_often_as_others(share, column):
    new = rows(4_000, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nobody is silent
        warnings.filterwarnings("ignore", "There is no value in column 1 of 4,000 rows: other")
        fused = FusedDetector(random_state=0).fit(with_gaps(rows(300, seed=0), share, 0, column))
        gappy = alarms(fused, with_gaps(new, 1.0, 2, column))
    # With medians, 23 to 33 % of the rows with a gap were flagged. The threshold of one fit to 300
    # rows has a standard error of 1.3 points, which moves both rates alike.
    assert abs(gappy - alarms(fused, new)) < 0.03
    assert gappy < 0.10


def test_a_gap_does_not_hide_what_the_other_cells_show():
    fused = FusedDetector(random_state=0).fit(with_gaps(rows(300, seed=0), 0.1))
    assert fused.predict([[9.0, np.nan, -9.0, 9.0, 9.0]])[0] == -1
    assert fused.predict([[1.0, np.nan, 2.0, 0.0, 1.5]])[0] == 1  # as the second column were 1


@pytest.mark.parametrize("frame", [np.asarray, pd.DataFrame, pl.DataFrame])
def test_gaps_in_arrays_and_frames_with_labels_saved_and_loaded(frame, tmp_path):
    X, labels = rows(120, seed=0), np.ones(120, dtype=int)
    X[:6] += 5.0
    labels[:6] = -1
    named = with_gaps(X, 0.2)
    names = list("abcde")
    table = named if frame is np.asarray else frame(dict(zip(names, named.T, strict=True)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fused = FusedDetector(random_state=0).fit(table, labels)
        scores = fused.detector_scores(table)
    assert scores.shape == (120, 9)
    assert np.isfinite(scores).all()
    save(fused, tmp_path / "fused.lpfuse")
    np.testing.assert_array_equal(load(tmp_path / "fused.lpfuse").detector_scores(table), scores)


def test_scores_do_not_depend_on_which_rows_come_together():
    fused = FusedDetector(random_state=0).fit(np.round(with_gaps(rows(200, seed=0), 0.3)))
    new = np.round(with_gaps(rows(50, seed=1), 0.5))
    one_by_one = np.concatenate([fused.score_samples(row[None]) for row in new])
    np.testing.assert_allclose(one_by_one, fused.score_samples(new), rtol=1e-9)


def test_a_column_without_a_single_cell_tells_nothing():
    X, new = rows(200, seed=0), rows(1_000, seed=1)
    X[:, 2] = np.nan
    with pytest.warns(UserWarning, match="no value in column 2 of 200 rows: left out, and not loo"):
        fused = FusedDetector(random_state=0).fit(X)
    scores = fused.score_samples(new)
    assert alarms(fused, new) < 0.1
    for other in (np.nan, 1e6):
        new[:, 2] = other
        np.testing.assert_array_equal(fused.score_samples(new), scores)
    without = FusedDetector(random_state=0).fit(np.delete(X, 2, axis=1))
    np.testing.assert_allclose(without.score_samples(np.delete(new, 2, axis=1)), scores, rtol=1e-9)


@pytest.mark.parametrize("frame", [np.asarray, pd.DataFrame, pl.DataFrame])
def test_empty_columns_are_left_out_everywhere(frame, tmp_path):
    X = rows(100, seed=0)
    X[:, 1] = np.nan
    table = X if frame is np.asarray else frame(dict(zip("abcde", X.T, strict=True)))
    named = "column 1" if frame is np.asarray else "column 'b'"
    pool = [("all", OneClassSVM()), ("two", OneClassSVM(), [1, 2])]
    with pytest.warns(UserWarning, match=f"no value in {named} of 100 rows"):
        fused = FusedDetector(pool, random_state=0).fit(table, columns="as-is")
    assert [columns.tolist() for _, _, columns in fused.detectors_] == [[0, 2, 3, 4], [2]]
    save(fused, tmp_path / "fused.lpfuse")
    again = load(tmp_path / "fused.lpfuse").score_samples(table)
    np.testing.assert_array_equal(again, fused.score_samples(table))
    with pytest.raises(ValueError, match="Detector 'two' has nothing to learn from: its columns"):
        FusedDetector([*pool[:1], ("two", OneClassSVM(), [1])]).fit(table, columns="as-is")


def test_column_empty_in_new_rows_is_named():
    fused = FusedDetector(random_state=0).fit(rows(100, seed=0))
    new = rows(10, seed=1)
    new[:, 3] = np.nan
    with pytest.warns(UserWarning, match="no value in column 3 of 10 rows: other columns decide"):
        fused.predict(new)
    fused.predict(new[:9])  # a few gaps are nothing to speak of


LEFT_SILENT = {
    "both refuse": [("lof", LocalOutlierFactor(novelty=True)), ("svm", OneClassSVM())],
    "one column": [("a", OneClassSVM(), [0, 1, 2]), ("b", OneClassSVM(), [2, 3, 4])],
    "paper": "paper",
}


@pytest.mark.filterwarnings("ignore:Some detectors could not score some rows")
@pytest.mark.filterwarnings("ignore:.* with missing cells, which no detector could score")
@pytest.mark.parametrize("pool", LEFT_SILENT)
@pytest.mark.parametrize(
    ("n", "share"), [(50, 0.07), (500, 0.0), pytest.param(2_500, 0.07, marks=pytest.mark.slow)]
)
def test_rows_that_every_detector_refuses_are_scored(n, pool, share):
    """All of them were NaN, and called anomalies, for a single gap."""
    fused = FusedDetector(LEFT_SILENT[pool], random_state=0)
    fused.fit(with_gaps(rows(n, seed=0), share))
    new = rows(1_000, seed=1)
    gappy = with_gaps(new, 1.0, 2)
    assert np.isfinite(fused.score_samples(gappy)).all()
    assert abs(alarms(fused, gappy) - alarms(fused, new)) < 0.03


def test_imputed_rows_are_warned_of():
    pool, gappy = LEFT_SILENT["both refuse"], with_gaps(rows(40, seed=1), 0.5)
    fused = FusedDetector(pool, random_state=0).fit(rows(60, seed=0))
    with pytest.warns(UserWarning, match="20 rows with missing cells, which no detector could sco"):
        scores = fused.score_samples(gappy)
    filled = FilledGaps().fit(fused.rows_.values).transform(gappy)
    np.testing.assert_array_equal(scores, fused.score_samples(filled))


def test_score_columns_are_not_imputed():
    S = rows(60, seed=0)[:, :3]
    pool = [(name, ScoreColumn("normal"), [j]) for j, name in enumerate("ab")]
    fused = FusedDetector(pool, cv="prefit", random_state=0).fit(S)
    new = S[:4].copy()
    new[1, :2] = np.nan
    with pytest.warns(UserWarning, match="No detector with a weight could score 1 of them"):
        assert np.isnan(fused.score_samples(new)).tolist() == [False, True, False, False]


def test_a_row_without_a_single_cell_is_not_judged():
    X = rows(200, seed=0)
    fused = FusedDetector(random_state=0).fit(X)
    new = with_gaps(rows(5, seed=1), 0.5)
    alone = fused.score_samples(new)
    new[3] = np.nan
    with pytest.warns(UserWarning, match="No detector with a weight could score 1 of them"):
        scores = fused.score_samples(new)
    with pytest.warns(UserWarning, match="could not score"):
        assert fused.predict(new)[3] == -1
    np.testing.assert_array_equal(np.isnan(scores), np.arange(5) == 3)
    np.testing.assert_array_equal(scores[:3], alone[:3])  # the others are judged as before
    X[7] = np.nan
    with pytest.warns(UserWarning, match=r"'gp' \(1 of 200 rows\)"):
        again = FusedDetector(random_state=0).fit(X)
    np.testing.assert_array_equal(
        np.isnan(again.out_of_fold_.scores).all(axis=1), np.arange(200) == 7
    )


def test_infinite_cells_are_refused_and_named():
    X = rows(60, seed=0)
    fused = FusedDetector(random_state=0).fit(X)
    X[3, 1] = np.inf
    with pytest.raises(ValueError, match="X holds infinity"):
        FusedDetector(random_state=0).fit(X)
    with pytest.raises(ValueError, match="X holds infinity"):
        fused.predict(X)


def test_no_default_detector_sees_a_gap():
    for _, made in default_detectors(300, 20):
        assert isinstance(made[0], FilledGaps)


def test_row_empty_in_the_columns_of_one_detector():
    X = rows(100, seed=0)
    X[::10, 1] = np.nan
    filled = make_pipeline(SimpleImputer(), KNNDetector())
    detectors = [("second", filled, [1]), ("all", filled)]
    with pytest.warns(UserWarning, match=r"'second' \(10 of 100 rows\)"):
        fused = FusedDetector(detectors, random_state=0).fit(X)
    found = fused.out_of_fold_.scores
    np.testing.assert_array_equal(
        np.isnan(found), (np.arange(100) % 10 == 0)[:, None] & [True, False]
    )


def test_which_rows_a_member_can_judge():
    X = np.array([[1.0, np.nan], [np.nan, np.nan], [1.0, 2.0]])
    bare, filled = KNNDetector(), make_pipeline(SimpleImputer(), KNNDetector())
    scaled = make_pipeline(NormalQuantiles(), KNNDetector())
    for estimator, columns, expected in [
        (bare, None, [2]),
        (scaled, None, [2]),
        (bare, np.array([0]), [0, 2]),
        (filled, None, [0, 2]),
        (filled, np.array([1]), [2]),
    ]:
        assert scorable_rows(Member("a", estimator, columns), X).tolist() == expected
