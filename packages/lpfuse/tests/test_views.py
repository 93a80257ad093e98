"""Views of a table against loops and closed forms."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, rankdata
from sklearn.pipeline import make_pipeline

from helpers.contract import assert_passes_checks
from lpfuse import FusedDetector, KNNDetector
from lpfuse.views import FilledGaps, NormalQuantiles


@pytest.mark.parametrize("view", [FilledGaps(), NormalQuantiles()], ids=str)
def test_scikit_learn_contract(view):
    assert_passes_checks(view)


# --------------------------------------------------------------------------------- normal quantiles


@pytest.mark.parametrize("ties", [False, True])
def test_training_rows_go_to_the_quantiles_of_their_mid_ranks(ties):
    X = np.random.default_rng(0).standard_cauchy(size=(200, 3))
    X = X.round() if ties else X
    expected = norm.ppf((rankdata(X, axis=0) - 0.5) / 200)
    np.testing.assert_allclose(NormalQuantiles().fit_transform(X), expected, atol=1e-12)


def test_between_knots_lines_and_beyond_them_distances():
    X = np.array([[1.0], [2.0], [4.0], [4.0]])
    z = norm.ppf([1 / 8, 3 / 8, 6 / 8])
    view = NormalQuantiles().fit(X)
    new = [[1.5], [3.5], [0.0], [-9.0], [10.0]]
    expected = [
        (z[0] + z[1]) / 2,
        0.25 * z[1] + 0.75 * z[2],
        z[0] - 1 / X.std(),
        z[0] - 10 / X.std(),
        z[2] + 6 / X.std(),
    ]
    np.testing.assert_allclose(view.transform(new)[:, 0], expected)


def test_many_values_keep_few_knots_and_the_ends():
    x = np.random.default_rng(0).lognormal(size=(5000, 1))
    view = NormalQuantiles().fit(x)
    assert len(view.knots_[0]) == 256
    assert view.knots_[0][[0, -1]].tolist() == [x.min(), x.max()]
    exact = norm.ppf((rankdata(x) - 0.5) / 5000)
    inner = np.abs(exact) < 2
    off = np.abs(view.transform(x)[:, 0] - exact)
    assert off[inner].max() < 0.05
    # Where half of the rows share one value, knots are still even by rank.
    x[:2500] = 1.0
    assert 100 < len(NormalQuantiles().fit(x).knots_[0]) <= 256


def test_a_constant_column_is_zero_and_keeps_distances():
    view = NormalQuantiles().fit(np.full((30, 1), 0.1))
    np.testing.assert_allclose(view.transform([[0.1], [3.1], [-1.9]])[:, 0], [0, 3, -2])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("n", "d"), [(2, 2), (9, 3), (255, 2), (700, 70)])
def test_a_table_is_mapped_as_column_by_column(n, d, order):
    """With and without ties, and numbers whose differences overflow."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d))
    X[:, ::2] = X[:, ::2].round(1)
    X[:, 1] *= 1.0 / np.abs(X[:, 1]).max()
    X[:, 1] *= 1.7e308
    X[rng.random((n, d)) < 0.1] = -0.0
    new = np.concatenate([X, rng.permuted(X, axis=0) * 0.9 + 1e-3, -X, X[:, ::-1]])
    view = NormalQuantiles().fit(np.asarray(X, order=order))
    expected = np.empty(new.shape)
    for j, x in enumerate(new.T):
        values, counts = np.unique(X[:, j], return_counts=True)
        z = norm.ppf((np.cumsum(counts) - counts / 2) / n)
        kept = np.isin(values, view.knots_[j])
        assert kept.all() if len(values) <= 256 else kept[[0, -1]].all() and 200 < kept.sum() <= 256
        np.testing.assert_allclose(view.quantiles_[j], z[kept], rtol=1e-12, atol=1e-15)
        with np.errstate(over="ignore"):
            beyond = (x - np.clip(x, values[0], values[-1])) / view.scale_[j]
        expected[:, j] = np.interp(x, values[kept], view.quantiles_[j])
        expected[:, j] += np.clip(beyond, -1e9, 1e9)
    found = view.transform(np.asarray(new, order=order))
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-15)
    np.testing.assert_array_equal(view.transform(new[:1]), found[:1])


def test_knots_that_do_not_fit_are_refused():
    X = np.random.default_rng(0).normal(size=(20, 2))
    view = NormalQuantiles().fit(X)
    view.quantiles_ = [z[:-1] for z in view.quantiles_]
    with pytest.raises(ValueError, match=r"fit|same length"):
        view.transform(X)


@pytest.mark.filterwarnings("error")
def test_any_finite_number_has_a_finite_place():
    X = np.array([[1e300, 1e-300], [-1e300, 2e-300], [0.0, 0.0]])
    assert np.isfinite(NormalQuantiles().fit(X).transform(X)).all()
    assert np.isfinite(NormalQuantiles().fit(X[:, 1:]).transform([[1e300]])).all()


# ---------------------------------------------------------------------------------------- all views


def test_missing_cells_are_refused_by_name():
    view = NormalQuantiles()
    frame = pd.DataFrame({"height": [1.0, 2.0, 3.0], "width": [1.0, np.nan, 0.0]})
    with pytest.raises(ValueError, match=r"NaN or infinity in column 'width' \(1 row\)"):
        view.fit(frame)
    with pytest.raises(ValueError, match="NaN or infinity"):
        view.fit(frame.fillna(0)).transform(frame)


def test_torch_in_torch_out():
    view = NormalQuantiles()
    torch = pytest.importorskip("torch", reason="torch is not installed")
    X = np.random.default_rng(0).integers(0, 20, (50, 3)) * 1.0
    Z = view.fit(torch.tensor(X)).transform(torch.tensor(X))
    assert isinstance(Z, torch.Tensor)
    np.testing.assert_allclose(Z.numpy(), view.fit(X).transform(X))


def test_below_a_fused_detector_rows_with_gaps_are_left_out():
    X = np.random.default_rng(0).normal(size=(80, 3))
    gaps = X.copy()
    gaps[::9, 1] = np.nan
    members = [
        ("quantiles", make_pipeline(NormalQuantiles(), KNNDetector(3))),
        ("filled", make_pipeline(FilledGaps(), KNNDetector(1))),
    ]
    with pytest.warns(UserWarning, match="could not score some rows"):
        fitted = FusedDetector(members, cv=3, random_state=0).fit(gaps)
    scores = fitted.score_samples(X)
    assert np.isfinite(scores).all()


# ------------------------------------------------------------------------------------- filled gaps


def lend(row, lenders, medians, scale):
    """The same as a loop over cells and rows."""
    found = row.copy()
    known = ~np.isnan(row)
    for j in np.flatnonzero(~known):
        distances = [
            sum(
                (row[k] / scale[k] - (medians if np.isnan(other[k]) else other)[k] / scale[k]) ** 2
                for k in np.flatnonzero(known)
            )
            if not np.isnan(other[j])
            else np.inf
            for other in lenders
        ]
        nearest = lenders[int(np.argmin(distances))][j]
        found[j] = nearest if known.any() and not np.isnan(nearest) else medians[j]
    return found


@pytest.mark.parametrize("decimals", [0, 3])  # with ties, the first row lends
def test_gaps_are_filled_as_by_a_loop(decimals):
    rng = np.random.default_rng(0)
    X, new = np.round(2 * rng.normal(size=(2, 60, 4)), decimals)
    X[rng.random(X.shape) < 0.2] = np.nan
    new[rng.random(new.shape) < 0.4] = np.nan
    new[0] = np.nan
    view = FilledGaps().fit(X)
    np.testing.assert_allclose(view.scale_, np.nanstd(X, axis=0))
    expected = [lend(row, X, np.nanmedian(X, axis=0), view.scale_) for row in new]
    np.testing.assert_array_equal(view.transform(new), expected)
    np.testing.assert_array_equal(view.transform(new[7:8]), expected[7:8])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_medians_and_scales_do_not_depend_on_gaps_elsewhere(dtype):
    X = np.random.default_rng(0).normal(size=(300, 5)).astype(dtype)
    gaps = X.copy()
    gaps[::7, 0], gaps[:, 1] = np.nan, np.nan
    whole, holed = FilledGaps().fit(X), FilledGaps().fit(gaps)
    for name in ("medians_", "scale_"):
        np.testing.assert_array_equal(getattr(whole, name)[2:], getattr(holed, name)[2:])
    assert np.isnan(holed.medians_[1])
    assert holed.scale_[1] == 1


def test_rows_without_gaps_stay_to_the_bit_in_their_precision():
    X = np.random.default_rng(0).normal(size=(40, 3))
    for rows in (X, X.astype(np.float32), np.asfortranarray(X)):
        found = FilledGaps().fit(rows).transform(rows)
        np.testing.assert_array_equal(found, rows)
        assert found.dtype == rows.dtype
        assert found.flags.f_contiguous == rows.flags.f_contiguous


def test_an_empty_column_is_zero_and_lends_nothing():
    X = np.array([[1.0, np.nan, 5.0], [2.0, np.nan, np.nan], [3.0, np.nan, 7.0]])
    view = FilledGaps().fit(X)
    new = [[2.9, 400.0, np.nan], [np.nan, 1.0, np.nan], [1.0, np.nan, 2.0]]
    expected = [[2.9, 0.0, 7.0], [2.0, 0.0, 6.0], [1.0, 0.0, 2.0]]
    np.testing.assert_array_equal(view.transform(new), expected)


def test_many_rows_lend_evenly():
    X = np.arange(3_000.0)[:, None] + [0.0, 0.5]
    view = FilledGaps().fit(X)
    assert view.rows_.shape == (1_000, 2)
    found = view.transform([[0.0, np.nan], [1_500.0, np.nan], [2_999.0, np.nan]])
    np.testing.assert_allclose(found[:, 1], [0.5, 1_500.5, 2_999.5], atol=2)


def test_what_is_no_number_is_named_and_infinity_refused():
    frame = pd.DataFrame({"a": [1.0, np.nan], "b": ["x", "y"]})
    with pytest.raises(ValueError, match="'b'"):
        FilledGaps().fit(frame)
    with pytest.raises(ValueError, match="infinity"):
        FilledGaps().fit([[np.inf], [1.0]])
