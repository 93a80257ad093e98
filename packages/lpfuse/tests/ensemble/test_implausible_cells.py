"""Placeholders and typing errors among training cells: told, missing in training, and harmless."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from lpfuse import FusedDetector
from lpfuse.ensemble.rows import blank_implausible

RNG = np.random.default_rng(0)
COLUMNS = {
    "normal": RNG.normal(size=800),
    "lognormal": RNG.lognormal(sigma=2.0, size=800),
    "Cauchy": RNG.standard_cauchy(800),
    "counts": RNG.negative_binomial(0.1, 0.01, 800),
    "mostly zeros": np.where(RNG.random(800) < 0.8, 0.0, RNG.lognormal(sigma=2.0, size=800)),
    "all but zeros": np.where(np.arange(800) < 790, 0.0, 1e6),
    "codes": np.where(np.arange(800) < 5, 99.0, RNG.integers(3, size=800)),
    "a group far away": np.where(np.arange(800) < 20, 1e4, 0.0) + RNG.normal(size=800),
    "a twentieth": np.where(np.arange(800) < 40, -999.0, RNG.normal(size=800)),
    "few rows": np.append(RNG.normal(size=90), 1e6),
    "huge": np.append(RNG.normal(size=800), [1.5e308, -1.5e308, np.nan]) * 1.1,
}
MIX = np.array([[1.0, 0.0, 1.0, 1.0, 0.5], [0.0, 1.0, 1.0, -1.0, 1.0]])
TOLD = r"\(column {}: −999 \(3×\); column {}: 1,000,000 \(1×\)\).* replace them by NaN"


def rows(n, seed):
    """Five columns, of which each follows from two others."""
    rng = np.random.default_rng(seed)
    return 20 + rng.normal(size=(n, 2)) @ MIX + 0.3 * rng.normal(size=(n, 5))


def spoilt(X):
    X = X.copy()
    X[[3, 50, 51], 1], X[7, 2] = -999.0, 1e6
    return X


@pytest.mark.parametrize("name", [name for name in COLUMNS if name != "huge"])
def test_real_columns_stay_as_they_are(name):
    X = COLUMNS[name].astype(float)[:, None]
    assert blank_implausible(X, np.zeros(len(X))) is X


def test_numbers_near_overflow_are_told_and_blanked():
    X = COLUMNS["huge"][:, None]
    with pytest.warns(UserWarning, match="far outside"):
        blanked = blank_implausible(X, np.zeros(len(X)))
    assert np.flatnonzero(np.isnan(blanked[:, 0])).tolist() == [800, 801, 802]


@pytest.mark.parametrize("value", [-999.0, 1e6, 0.0])
@pytest.mark.parametrize("count", [1, 20])
def test_placeholders_beyond_an_empty_gap_are_found(value, count):
    X = 50 + RNG.normal(size=(800, 1))
    X[:count] = value
    with pytest.warns(UserWarning, match=rf"\({count}×\)"):
        blanked = blank_implausible(X, np.zeros(800))
    assert np.array_equal(np.isnan(blanked[:, 0]), np.arange(800) < count)


def test_placeholders_within_a_long_tail_are_found():
    X = RNG.lognormal(3.0, 2.0, size=(800, 1))
    X[:8] = -999.0
    assert X.max() > 999
    with pytest.warns(UserWarning, match=r"−999 \(8×\)"):
        blanked = blank_implausible(X, np.zeros(800))
    assert np.array_equal(np.isnan(blanked[:, 0]), np.arange(800) < 8)


@pytest.mark.parametrize("others", [[], [-999.0] * 40, [-999.0, -3.0]])
def test_lowest_values_are_no_placeholders(others):
    """One alone, too many, or beside other negative numbers."""
    X = RNG.lognormal(3.0, 2.0, size=(800, 1))
    X[: len(others) + 1, 0] = [-999.0, *others]
    assert blank_implausible(X, np.zeros(800)) is X


@pytest.mark.parametrize("frame", [np.asarray, np.float32, pd.DataFrame, pl.DataFrame])
def test_a_warning_names_column_value_and_count(frame):
    X = frame(spoilt(rows(200, 0)))
    names = getattr(X, "columns", None)
    labels = (1, 2) if names is None else [repr(names[j]) for j in (1, 2)]
    labels = [f"'{label}'" if frame is pd.DataFrame else label for label in labels]
    with pytest.warns(UserWarning, match=TOLD.format(*labels)):
        blanked = blank_implausible(X, np.zeros(200))
    assert type(blanked) is type(X)
    values = np.asarray(blanked)
    assert np.isnan(values).sum() == 4
    assert np.array_equal(values[8:50], np.asarray(X)[8:50])
    assert not np.isnan(np.asarray(X)).any()  # the user's rows are not written to


def test_texts_and_whole_numbers_of_a_frame_stay_usable():
    X = pd.DataFrame({"kind": ["a", "b"] * 100, "n": np.append(np.arange(199), 10**9)})
    with pytest.warns(UserWarning, match=r"column 'n': 1,000,000,000 \(1×\)"):
        blanked = blank_implausible(X, np.zeros(200))
    assert blanked["kind"].equals(X["kind"])
    assert blanked["n"].isna().tolist() == [False] * 199 + [True]


def test_known_anomalies_keep_their_cells():
    X, y = spoilt(rows(200, 0)), np.zeros(200)
    y[[3, 7, 50, 51]] = -1
    assert blank_implausible(X, y) is X


def test_scale_and_threshold_withstand_garbage_cells():
    X, new = rows(300, 1), rows(1_000, 2)
    strange = new + RNG.choice([-1.0, 1.0], size=new.shape)
    fused = FusedDetector(random_state=0).fit(X)
    with pytest.warns(UserWarning, match="far outside"):
        told = FusedDetector(random_state=0).fit(spoilt(X))
    hits, alarms = ([(f.predict(R) < 0).mean() for f in (fused, told)] for R in (strange, new))
    assert hits[1] > hits[0] - 0.05  # without: 11 points fewer
    assert abs(alarms[1] - alarms[0]) < 0.02
    # New rows are scored as they are.
    assert (told.predict(spoilt(X))[[3, 7, 50, 51]] == -1).all()
    assert told.predict(np.where(np.arange(5) == 4, 1e6, X[:1]))[0] == -1


def test_a_single_column_with_placeholders_can_be_fitted():
    X = RNG.normal(size=(150, 1))
    X[:2] = -999.0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some training cells")
        warnings.filterwarnings("ignore", "Some detectors could not score")
        fused = FusedDetector(["gmm"], random_state=0).fit(X)
    assert fused.predict([[0.0], [-999.0]]).tolist() == [1, -1]
