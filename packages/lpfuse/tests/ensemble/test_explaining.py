"""Attributions of the fused score, against SHAP, the definition, and what must hold of them."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator

from lpfuse import FusedDetector, GMMDetector, HistogramDetector, KNNDetector, load
from lpfuse.adapters import ScoreColumn, ScoreFunction
from lpfuse.ensemble.explain import BATCH, draw_orders, shapley_values
from oracles.shapley import shapley_by_all_orders


def pool(d=None):
    columns = [] if d is None else [slice(0, d)]
    return [
        ("gmm", GMMDetector(), *columns),
        ("knn", KNNDetector(n_neighbors=2), *columns),
        ("histogram", HistogramDetector(), *columns),
    ]


def rows_of(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)))


@pytest.fixture(scope="module")
def fused():
    """Of seven columns, so that walks are drawn, on the scale of cubes that has no closed form."""
    return FusedDetector(random_state=0, calibration="plain").fit(rows_of(150, 7))


@pytest.fixture(scope="module")
def alarms():
    X = rows_of(5, 7, seed=1)
    X[np.arange(5), [0, 1, 2, 3, 4]] += 6
    return X


@pytest.fixture(scope="module")
def background():
    return rows_of(4, 7, seed=2)


# --------------------------------------------------------------------------------------- exactness


@pytest.mark.parametrize("groups", [None, {"pair": [1, 4], "three": [0, 5, 6]}])
def test_all_coalitions_are_the_definition(fused, alarms, background, groups):
    listed = [[j] for j in range(7)] if groups is None else [[0, 5, 6], [1, 4], [2], [3]]
    if groups is None:  # 5,040 orders would take too long: six columns that are one
        groups, listed = {"rest": [2, 3, 4, 5, 6]}, [[0], [1], [2, 3, 4, 5, 6]]
    found = fused.explain(alarms[:2], background=background, n_permutations="all", groups=groups)
    for x, values in zip(alarms, found.values, strict=False):
        expected = shapley_by_all_orders(fused.score_samples, x, background, listed)
        np.testing.assert_allclose(values, expected, atol=1e-9)
    assert (found.standard_errors == 0).all()


@pytest.mark.slow  # SHAP compiles itself first
def test_shap_says_the_same(fused, alarms, background):
    shap = pytest.importorskip("shap", reason="shap is not installed")
    exact = shap.ExactExplainer(fused.score_samples, shap.maskers.Independent(background, 100))
    expected = exact(alarms)
    found = fused.explain(alarms, background=background, n_permutations="all")
    np.testing.assert_allclose(found.values, expected.values, atol=1e-9)
    np.testing.assert_allclose(found.base_value, expected.base_values[0])


def test_an_explanation_is_one_of_shap(fused, alarms, background):
    shap = pytest.importorskip("shap", reason="shap is not installed")
    found = fused.explain(alarms, background=background)
    for rows in (alarms, pd.DataFrame(alarms)):
        given = found.to_shap(rows)
        assert isinstance(given, shap.Explanation)
        assert np.array_equal(given.values, found.values)
        assert np.array_equal(given.data, alarms)
        assert given.feature_names == found.feature_names
        assert np.allclose(given.values.sum(axis=1) + given.base_values, found.scores)
        assert given[0].values.shape == (7,)
    assert found.to_shap().data is None
    with pytest.raises(ValueError, match=r"X must have a row .* \(5, 7\), got \(4, 7\)"):
        found.to_shap(alarms[:4])


def test_walks_agree_with_shap_within_their_errors(fused, alarms, background):
    exact = fused.explain(alarms, background=background, n_permutations="all")
    rough = fused.explain(alarms, background=background, n_permutations=6)
    assert rough.standard_errors.max() > 0
    off = np.abs(rough.values - exact.values) / rough.standard_errors
    assert off.max() < 6
    assert not np.allclose(rough.values, exact.values, atol=1e-6)


@pytest.mark.parametrize("permutations", [None, 1, 3, "all"])
def test_values_add_up_to_the_score(fused, alarms, background, permutations):
    for rows in (None, 10, background):
        found = fused.explain(alarms, background=rows, n_permutations=permutations)
        total = found.values.sum(axis=1) + found.base_value
        np.testing.assert_allclose(total, fused.score_samples(alarms), rtol=1e-10)
        np.testing.assert_allclose(found.scores, fused.score_samples(alarms))


def test_the_column_that_was_moved_is_the_reason(fused, alarms):
    found = fused.explain(alarms)
    assert [found.reasons(i, 1) for i in range(5)] == [[f"column {i}"] for i in range(5)]


def order_two(X):
    return X[:, 0] + X[:, 1] * X[:, 2] + np.sin(X[:, 3]) * X[:, 6] - X[:, 5] ** 2


def test_one_walk_both_ways_is_exact_for_pairs_of_columns(alarms, background):
    """Interactions of two columns, and functions of one, have no error at all."""
    detector = FusedDetector(
        [("two", ScoreFunction(order_two, high="normal"))], scaler=Linear(), calibration="plain"
    ).fit(rows_of(40, 7))
    exact = detector.explain(alarms, background=background, n_permutations="all")
    rough = detector.explain(alarms, background=background, n_permutations=2)
    np.testing.assert_allclose(rough.values, exact.values, atol=1e-10)
    assert rough.standard_errors.max() < 1e-10


class Linear(BaseEstimator):
    """A scale without clipping."""

    def fit(self, S, y=None):
        self.n_features_in_ = S.shape[1]
        return self

    def transform(self, S):
        return S / 7.0


def test_scores_of_files_are_attributed_without_error(alarms):
    """A fused score is a sum over its columns there, whatever the scale."""
    listed = [(f"tool {j}", ScoreColumn("normal"), [j]) for j in range(7)]
    fused = FusedDetector(listed, random_state=0).fit(rows_of(60, 7))
    background = rows_of(9, 7, seed=3)
    found = fused.explain(alarms, background=background)
    parts = fused.contributions(alarms) - fused.contributions(background).mean(axis=0)
    np.testing.assert_allclose(found.values, parts, atol=1e-9)
    assert found.standard_errors.max() < 1e-9


# ------------------------------------------------------------------------------------------ axioms


def test_a_column_that_no_detector_sees_gets_nothing(alarms):
    fused = FusedDetector(pool(5), random_state=0).fit(rows_of(80, 7))
    found = fused.explain(alarms)
    assert (found.values[:, 5:] == 0).all()
    assert (found.standard_errors[:, 5:] == 0).all()
    assert (found.values[:, :5] != 0).all()


def test_columns_that_play_the_same_part_get_the_same():
    def together(X):
        return -np.exp(X[:, 0] + X[:, 3]) * (1 + X[:, 1] ** 2) + X[:, 2]

    detector = FusedDetector([("one", ScoreFunction(together, high="normal"))], scaler=Linear())
    detector.fit(rows_of(40, 4))
    x, background = np.array([[0.5, 1.0, -1.0, 0.5]]), rows_of(6, 4)
    background[:, 3] = background[:, 0]
    found = detector.explain(x, background=background)
    assert found.values[0, 0] == pytest.approx(found.values[0, 3], abs=1e-12)


def test_a_row_of_the_background_differs_in_nothing(fused, background):
    found = fused.explain(background[:1], background=background[:1])
    assert (found.values == 0).all()
    assert (found.standard_errors == 0).all()
    assert found.base_value == pytest.approx(found.scores[0])


def test_cells_that_are_the_same_are_never_asked_about():
    seen = []

    def remember(X):
        seen.append(len(X))
        return X.sum(axis=1)

    detector = FusedDetector([("sum", ScoreFunction(remember, high="normal"))]).fit(rows_of(30, 9))
    background = rows_of(3, 9, seed=5)
    x = background[:1].copy()
    x[0, 4] += 1
    seen.clear()
    found = detector.explain(x, background=background[:1])
    assert sum(seen) == 2  # the row and its background: one cell is all that differs
    assert np.flatnonzero(found.values[0]).tolist() == [4]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 3), st.integers(0, 10**6))
def test_walks_are_unbiased_and_add_up(G, B, P, seed):
    """Of any game: efficiency always, the definition on average over orders."""
    random = np.random.RandomState(seed)
    table = random.normal(size=(1, B, 2**G))
    place = 2 ** np.arange(G)

    def game(rows, others, mask):
        return table[rows, others, mask @ place]

    def solve(P, orders=None):
        drawn = draw_orders(B, P, G, random) if orders is None else orders
        ends = table[:, 0, -1] * 0 + whole, table[0, :, 0]
        return shapley_values(game, *ends, lambda i: np.ones((B, G), bool), drawn)

    whole = table[0, 0, -1]
    table[0, :, -1] = whole  # the row itself scores the same, whatever it is compared with
    found, exact = solve(P), solve(0)
    for each in (found, exact):
        assert each.values.sum() == pytest.approx(whole - table[0, :, 0].mean())
    many = np.array([solve(max(P, 1)).values for _ in range(60)])
    error = many.std(axis=0) / np.sqrt(60)
    assert (np.abs(many.mean(axis=0) - exact.values) <= 6 * error + 1e-9).all()


# ---------------------------------------------------------------------------------------- the error


def test_errors_of_the_orders_are_as_large_as_they_say(fused, alarms, background):
    exact = fused.explain(alarms, background=background, n_permutations="all").values
    runs = [fused.explain(alarms, background=background, n_permutations=3, random_state=seed)
            for seed in range(25)]  # fmt: skip
    squared = np.mean([(run.values - exact) ** 2 for run in runs], axis=0)
    told = np.mean([run.standard_errors**2 for run in runs], axis=0)
    assert 0.7 < squared.sum() / told.sum() < 1.4
    off = np.array([np.abs(run.values - exact) / run.standard_errors for run in runs])
    assert np.mean(off < 2) > 0.85  # of few degrees of freedom: 4 backgrounds of 3 orders


def test_errors_cover_the_draw_of_the_background():
    """Against all rows that could have been drawn, of which 12 are."""
    fused = FusedDetector(pool(), random_state=0, calibration="plain").fit(rows_of(120, 6))
    X = rows_of(4, 6, seed=9) * 2
    rows = fused.rows_.values
    everything = rows[fused.decision_function(rows) >= 0]
    exact = fused.explain(X, background=everything, n_permutations="all").values
    runs = [fused.explain(X, background=12, random_state=seed) for seed in range(25)]
    off = np.array([np.abs(run.values - exact) / run.standard_errors for run in runs])
    assert 0.9 < np.mean(off < 2.2)  # 11 degrees of freedom
    assert np.mean(off < 0.5) < 0.6  # nor are they far too large


def test_more_rows_and_orders_mean_smaller_errors(fused, alarms):
    few, many = (fused.explain(alarms, background=B).standard_errors.sum() for B in (8, 64))
    assert many < 0.6 * few


# ------------------------------------------------------------------------------------ repeatability


def test_the_same_seed_gives_the_same_bits(fused, alarms):
    first, second = fused.explain(alarms), fused.explain(alarms)
    other = fused.explain(alarms, random_state=1)
    assert np.array_equal(first.values, second.values)
    assert np.array_equal(first.standard_errors, second.standard_errors)
    assert not np.array_equal(first.values, other.values)


def test_a_row_is_explained_alike_whatever_is_beside_it(fused, alarms):
    together, alone = fused.explain(alarms), fused.explain(alarms[3:4])
    np.testing.assert_allclose(together.values[3:4], alone.values, rtol=1e-9, atol=1e-9)
    assert together.base_value == pytest.approx(alone.base_value)


def test_batches_do_not_show(fused, alarms):
    many = np.repeat(alarms, 8, axis=0)
    assert len(many) * 2 * 32 * 6 > 1.5 * BATCH
    found = fused.explain(many).values
    np.testing.assert_allclose(found[::8], fused.explain(alarms).values, rtol=1e-9, atol=1e-9)


def test_a_saved_detector_explains_alike(fused, alarms, tmp_path):
    fused.save(tmp_path / "model")
    again = load(tmp_path / "model").explain(alarms)
    assert np.array_equal(again.values, fused.explain(alarms).values)


# -------------------------------------------------------------------------------------- odd tables


@pytest.mark.parametrize("n", [25, 40])
def test_one_column_gets_it_all(n):
    fused = FusedDetector([("knn", KNNDetector(n_neighbors=1))], random_state=0)
    fused.fit(rows_of(n, 1))
    found = fused.explain([[4.0]])
    assert found.values.shape == (1, 1)
    assert found.values[0, 0] == pytest.approx(found.scores[0] - found.base_value)


def test_constant_columns_get_nothing_until_they_move():
    X = np.column_stack([rows_of(60, 6), np.ones(60)])
    fused = FusedDetector(pool(), random_state=0).fit(X)
    x = np.vstack([X[0], X[0]])
    x[0, 0] += 5
    x[1, 6] = 3.0
    found = fused.explain(x)
    assert found.values[0, 6] == 0
    assert found.reasons(1, 1) == ["column 6"]


@pytest.mark.filterwarnings("ignore:.*missing.*:UserWarning")
def test_missing_cells_are_players_like_others():
    X = rows_of(120, 6)
    X[::9, 2] = np.nan
    fused = FusedDetector(random_state=0).fit(X)
    x = rows_of(3, 6, seed=4)
    x[0, 2], x[1, 0] = np.nan, 9.0
    found = fused.explain(x)
    assert np.isfinite(found.values).all()
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_value, found.scores)
    assert found.reasons(1, 1) == ["column 0"]


def test_silent_detectors_are_told_once_and_the_others_explain():
    X = rows_of(80, 6)
    listed = [("left", GMMDetector(), [0, 1, 2]), ("right", GMMDetector(), [3, 4, 5])]
    fused = FusedDetector(listed, random_state=0).fit(X)
    x = rows_of(2, 6, seed=4)
    x[0, 5] = np.nan
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = fused.explain(x, background=X[:5])
    assert len(told) == 1
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_value, found.scores)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_row_without_a_score_has_no_reasons():
    X = rows_of(60, 6)
    fused = FusedDetector([("gmm", GMMDetector())], random_state=0).fit(X)
    x = np.vstack([X[0], X[1] + 3])
    x[0] = np.nan
    found = fused.explain(x, background=X[:5])
    assert np.isnan(found.values[0]).all()
    assert found.reasons(0) == []
    assert np.isfinite(found.values[1]).all()
    assert np.isfinite(found.standard_errors[1]).all()


def test_known_anomalies_and_flagged_rows_are_no_background():
    X = rows_of(100, 3)
    X[:15] += 30
    y = np.r_[-np.ones(15), np.ones(85)]
    fused = FusedDetector(pool(), random_state=0).fit(X, y)
    normal = fused.score_samples(X[15:])
    found = fused.explain(X[:1])
    assert found.base_value > np.quantile(normal, 0.05)
    assert abs(found.base_value - normal[normal >= fused.offset_].mean()) < 0.3 * normal.std()


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_data_frames_of_any_library(kind):
    X = rows_of(80, 3)
    names = ["bar", "flow", "heat"]
    frame = kind({name: X[:, j] for j, name in enumerate(names)})
    fused = FusedDetector(pool(), random_state=0).fit(frame)
    plain = FusedDetector(pool(), random_state=0).fit(X)
    found = fused.explain(frame[:2], groups={"water": ["bar", "flow"]})
    expected = plain.explain(X[:2], groups={"water": [0, 1]})
    assert found.feature_names == ["water", "heat"]
    np.testing.assert_allclose(found.values, expected.values, atol=1e-9)


class Letters(BaseEstimator):
    """A number less the letters of a word."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def score_samples(self, X):
        return np.asarray(X["bar"], dtype=float) - np.array([len(word) for word in X["kind"]])


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_columns_of_words_need_a_background(kind):
    rng = np.random.default_rng(0)
    bar, words = rng.normal(size=60), np.where(rng.random(60) < 0.5, "ab", "abc")
    frame = kind({"bar": bar, "kind": words})
    fused = FusedDetector([("words", Letters())], scaler=Linear()).fit(frame, columns="as-is")
    x = kind({"bar": [0.0], "kind": ["a long one"]})
    with pytest.raises(ValueError, match=r"background=\.\.\."):
        fused.explain(x)
    found = fused.explain(x, background=frame[:20])
    lengths = [len(word) for word in words[:20]]
    weight = found.values[0, 0] / (0.0 - bar[:20].mean())
    assert found.values[0, 1] == pytest.approx(weight * (np.mean(lengths) - 10))


# ------------------------------------------------------------------------------ result and refusals


def test_the_frame_lists_what_pushes_down_first(fused, alarms):
    found = fused.explain(alarms)
    for library in ("pandas", "polars"):
        frame = found.to_frame(library)
        assert list(frame.columns) == ["row", "feature", "value", "standard_error"]
        assert frame.shape == (35, 4)
        assert list(frame["feature"])[::7] == [f"column {i}" for i in range(5)]
        assert np.allclose(np.asarray(frame["value"]).reshape(5, 7), np.sort(found.values, axis=1))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"background": 0}, "background must be"),
        ({"n_permutations": 0}, "n_permutations must be"),
        ({"n_permutations": "some"}, "n_permutations must be"),
        ({"groups": {"a": [0, 1], "b": [1]}}, "must not overlap: 'column 1'"),
        ({"groups": {"column 3": [0, 1]}}, "names that no other column has"),
        ({"groups": {"a": [9]}}, "a table with 7 columns"),
        ({"background": np.zeros((3, 2))}, "2 features"),
    ],
)
def test_refusals_say_what_was_expected(fused, alarms, options, words):
    with pytest.raises(ValueError, match=words):
        fused.explain(alarms, **options)


def test_all_coalitions_of_many_columns_are_refused():
    fused = FusedDetector([("h", HistogramDetector())], random_state=0).fit(rows_of(40, 17))
    with pytest.raises(ValueError, match="up to 16 columns"):
        fused.explain(rows_of(1, 17), n_permutations="all")
