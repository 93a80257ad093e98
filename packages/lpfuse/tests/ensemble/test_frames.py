"""What a `FusedDetector` takes as rows: frames of any maker, single precision, no sparse matrix."""

import datetime

import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from lpfuse import FusedDetector, GMMDetector, KNNDetector, LpFusion, TwoSidedMinMax
from lpfuse.io import load, save

X = np.random.default_rng(0).normal(size=(80, 3))
X[::9, 1] = np.nan
COLUMNS = dict(zip("abc", X.T, strict=True))
POOL = [("gmm", GMMDetector(), ["a", "c"]), ("knn", KNNDetector(), ["c"])]
FRAMES = {
    "pandas": pd.DataFrame,
    "pandas of Arrow": lambda d: pd.DataFrame(d).convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.DataFrame,
    "Arrow table": pa.table,
    "Arrow batch": pa.RecordBatch.from_pydict,
    "narwhals of pandas": lambda d: narwhals.from_native(pd.DataFrame(d)),
    "narwhals of polars": lambda d: narwhals.from_native(pl.DataFrame(d)),
    "narwhals of Arrow": lambda d: narwhals.from_native(pa.table(d)),
}


@pytest.mark.parametrize("maker", FRAMES)
def test_frames_of_any_maker_are_alike(maker, tmp_path):
    frame = FRAMES[maker](COLUMNS)
    fused = FusedDetector(POOL, random_state=0).fit(frame)
    expected = FusedDetector(POOL, random_state=0).fit(pd.DataFrame(COLUMNS))
    assert fused.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(
        fused.score_samples(frame), expected.score_samples(pd.DataFrame(COLUMNS))
    )
    save(fused, tmp_path / "fused.lpfuse")
    again = load(tmp_path / "fused.lpfuse")
    np.testing.assert_array_equal(again.predict(frame), fused.predict(frame))


@pytest.mark.parametrize("maker", ["Arrow table", "Arrow batch", "narwhals of Arrow"])
def test_scores_and_features_of_any_maker(maker):
    frame = FRAMES[maker]({name: COLUMNS[name] for name in "ac"})
    expected = LpFusion().fit(X[:, [0, 2]]).weights_
    fusion = LpFusion().fit(frame)
    np.testing.assert_array_equal(fusion.weights_, expected)
    assert fusion.feature_names_in_.tolist() == ["a", "c"]
    assert TwoSidedMinMax().fit_transform(frame).shape == (80, 2)
    assert GMMDetector().fit(frame).score_samples(frame).shape == (80,)


@pytest.mark.parametrize("lazy", [pl.LazyFrame, lambda d: narwhals.from_native(pl.LazyFrame(d))])
def test_lazy_frames_are_to_be_collected_first(lazy):
    with pytest.raises(TypeError, match=r"lazy frame.*Pass X\.collect\(\)"):
        FusedDetector(POOL).fit(lazy(COLUMNS))


@pytest.mark.parametrize("made", [sparse.csr_matrix, sparse.coo_array])
def test_sparse_matrices_are_refused_with_the_remedy(made):
    rows = np.nan_to_num(X)
    fused = FusedDetector([("gmm", GMMDetector())], random_state=0)
    with pytest.raises(TypeError, match=r"(?i)sparse data was passed.*toarray\(\)"):
        fused.fit(made(rows))
    fused.fit(rows)
    with pytest.raises(TypeError, match=r"(?i)sparse data was passed.*toarray\(\)"):
        fused.predict(made(rows))


KIND = ["x", "y"] * 40
WHEN = [datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=k) for k in range(80)]


@pytest.mark.parametrize("pool", [None, "paper", [("gmm", GMMDetector())]])
@pytest.mark.parametrize("maker", ["pandas", "polars", "Arrow table"])
def test_text_and_dates_are_features(maker, pool):
    frame = FRAMES[maker]({"a": COLUMNS["a"], "kind": KIND, "when": WHEN})
    fused = FusedDetector(pool, random_state=0).fit(frame)
    assert fused.columns_ == {"a": "number", "kind": "category", "when": "date"}
    assert np.isfinite(fused.score_samples(frame)).all()


def test_arrays_of_dates_are_refused_with_the_remedy():
    with pytest.raises(TypeError, match=r"column 0 cannot be read as numbers.*data frame"):
        FusedDetector(random_state=0).fit(np.array(WHEN, "M8[ns]")[:, None])


def test_a_pool_that_knows_words_gets_them():
    frame = pd.DataFrame({**COLUMNS, "kind": KIND})
    encode = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["kind"]), ("passthrough", ["a", "c"])
    )
    fused = FusedDetector([("knn", make_pipeline(encode, KNNDetector()))], random_state=0)
    assert np.isfinite(fused.fit(frame).score_samples(frame)).all()


def test_single_precision_stays_where_it_can(tmp_path):
    rows = X.astype(np.float32)
    fused = FusedDetector(random_state=0).fit(rows)
    assert fused.rows_.values.dtype == np.float32
    assert fused.score_samples(rows).dtype == np.float64  # sums of what may differ by little
    save(fused, tmp_path / "fused.lpfuse")
    again = load(tmp_path / "fused.lpfuse")
    assert again.rows_.values.dtype == np.float32
    np.testing.assert_array_equal(again.score_samples(rows), fused.score_samples(rows))
    asked = fused.query(rows, 5)
    taught = fused.teach(rows[asked], np.array([-1, -1, 1, 1, 1]))
    assert (taught.out_of_fold_.known != 0).sum() == 5
