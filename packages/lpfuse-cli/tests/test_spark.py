"""Rows of Spark DataFrames on two workers: scores and weights as in memory, also when one dies."""

import importlib.util
import os
import shutil
import signal
import sys
from collections import Counter
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.pipeline import make_pipeline

from lpfuse import FusedDetector, GMMDetector, KNNDetector, LpFusion, verify
from lpfuse.views import FilledGaps

MISSING = "pyspark" if importlib.util.find_spec("pyspark") is None else None
MISSING = MISSING or (None if shutil.which("java") else "Java 17")
pytestmark = [
    pytest.mark.slow,  # starts a Java process and two workers: half a minute
    pytest.mark.skipif(MISSING is not None, reason=f"{MISSING} is not installed: make test-spark"),
    pytest.mark.filterwarnings("ignore:.*pandas >= 3:FutureWarning", "ignore::ResourceWarning"),
]
if MISSING is None:
    from lpfuse_cli.spark import SparkTable, detector_scores, draw, score

N, PARTITIONS = 3000, 5
NAMES = ["a.b", "bar", "count", "kind", "when", "price"]


def rows(n=N, seed=0):
    """Numbers with gaps, whole numbers, texts, dates, decimals; an id beyond doubles; a label."""
    rng = np.random.default_rng(seed)
    odd = rng.random(n) < 0.1
    bar = rng.normal(2.5, 0.1, n) + 0.3 * odd
    return pd.DataFrame(
        {
            "id": pd.Series([2**60 + 1 + i if i % 7 else None for i in range(n)], dtype=object),
            "a.b": np.where(rng.random(n) < 0.05, None, 3 * bar + rng.normal(0, 0.2, n)),
            "bar": bar,
            "count": rng.poisson(4, n) + 6 * odd,
            "kind": rng.choice(["a", "b", "c"], n),
            "when": pd.date_range("2026-01-01", periods=n, freq="37min")[rng.permutation(n)],
            "price": [Decimal(int(each)) / 100 for each in rng.integers(100, 999, n)],
            "label": np.where(odd, -1, 1),
        }
    )


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    path = os.pathsep.join(each for each in sys.path if each)
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.executor.memory", "512m")
        .config("spark.driver.host", "localhost")
        .config("spark.executorEnv.PYTHONPATH", path)
        .config("spark.executorEnv.OMP_NUM_THREADS", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "250")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def table(spark):
    """On the workers, in partitions of several batches and one without rows."""
    values = rows()
    arrays = {name: pa.array(values[name].tolist()) for name in values}
    arrays["price"] = arrays["price"].cast(pa.decimal128(6, 2))
    frame = spark.createDataFrame(pa.table(arrays)).repartition(PARTITIONS)
    return frame.union(frame.limit(0).repartition(1)).cache()


@pytest.fixture(scope="module")
def fused(table):
    train = draw(table.select("label", *(f"`{name}`" for name in NAMES)), 600)
    pool = [
        (name, make_pipeline(FilledGaps(), detector))
        for name, detector in [("gmm", GMMDetector(2)), ("knn", KNNDetector())]
    ]
    X, y = train.drop(columns="label"), train["label"]
    return FusedDetector(pool, random_state=0).fit(X, y, order="random")


def in_memory(table):
    """The same rows on the driver, in the order of partitions."""
    from pyspark.sql.functions import col

    return table.withColumn("price", col("price").cast("double")).toArrow().to_pandas()


def test_scores_are_those_in_memory_bit_for_bit(table, fused):
    here = in_memory(table)
    found = score(fused, table, keep=["id", "label"]).toArrow()
    expected = fused.verdicts(here[NAMES]).to_frame()
    assert found.column_names == ["id", "label", *expected.columns]
    for name in expected.columns:
        np.testing.assert_array_equal(found[name].to_numpy(), expected[name].to_numpy())
    ids = found["id"].to_pylist()  # beyond 2**53, and some are missing
    assert ids == table.toArrow()["id"].to_pylist()
    assert set(filter(None, ids)) == {2**60 + 1 + i for i in range(N) if i % 7}
    assert set(found["decision"].to_pylist()) == {1, -1}


def test_p_values_hold_on_new_rows_and_not_on_moved_ones(spark, fused):
    new = rows(4000, seed=1)
    normal = new[new["label"] == 1].astype({"price": float, "a.b": float})[NAMES]
    frame = spark.createDataFrame(normal)
    share = score(fused, frame).where("p_value <= 0.05").count() / len(normal)
    assert share < 0.12  # a calibration with some 500 rows of 600
    moved = frame.withColumn("bar", frame["bar"] + 1)
    assert score(fused, moved).where("p_value <= 0.05").count() > 0.9 * len(normal)


@pytest.mark.parametrize("labelled", [False, True])
def test_weights_over_all_rows_are_those_of_the_passes_of_dask(table, fused, labelled):
    import dask
    import dask.array as da

    scores = detector_scores(fused, table, keep=["label"]).cache()
    here = scores.toArrow()
    S = np.column_stack([here[name].to_numpy() for name in fused.detector_names_])
    y = here["label"].to_numpy() if labelled else None
    np.testing.assert_array_equal(
        S, fused.scaler_.transform(fused.detector_scores(in_memory(table)[NAMES]))
    )
    spread = SparkTable(scores, fused.detector_names_)
    fusion = LpFusion().fit(spread, spread.vector("label") if labelled else None)
    sizes = [size for size in spread.lpfuse_blocks().sizes if size]
    with dask.config.set(scheduler="synchronous"):
        by_dask = LpFusion().fit(
            da.from_array(S, chunks=(tuple(sizes), 2)),
            None if y is None else da.from_array(y.astype(float), chunks=(tuple(sizes),)),
        )
    np.testing.assert_allclose(fusion.weights_, by_dask.weights_, rtol=0, atol=1e-7)
    assert fusion.certificate_.status == "optimal"
    fusion.certificate_ = fusion.certificate_.__class__(
        **{**vars(fusion.certificate_), "alpha": fusion.certificate_.alpha.compute()}
    )
    S = pd.DataFrame(S, columns=fused.detector_names_)
    assert verify(fusion, S, y).holds
    assert not verify(fusion, S[:-1], None if y is None else y[:-1]).holds
    # A product of a block is rounded otherwise than that of all rows.
    by_block, at_once = fusion.score_samples(spread).compute(), fusion.score_samples(S)
    np.testing.assert_allclose(by_block, at_once, rtol=1e-13, atol=1e-13)


def executor():
    """The process of Java, two above the Python that runs a task."""
    with open(f"/proc/{os.getppid()}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])


def executors(spark):
    """Those that are running."""

    def tell(batches):
        for _ in batches:
            yield pa.record_batch({"pid": [executor()]})

    found = spark.range(80, numPartitions=8).mapInArrow(tell, "pid long").collect()
    return {row.pid for row in found}


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes cannot be killed so here")
def test_a_worker_that_is_killed_changes_nothing(spark, table, fused, tmp_path):
    expected = score(fused, table).toArrow()
    killed = tmp_path / "killed"

    def kill_once(batches):
        """Kill the worker of one task, in the middle of it."""
        for k, batch in enumerate(batches):
            if k == 1 and not killed.exists():
                killed.write_text(str(executor()))
                os.kill(executor(), signal.SIGKILL)
            yield pa.RecordBatch.from_arrays(batch.columns, names=names)

    before = executors(spark)
    assert len(before) == 2
    names = table.columns
    deadly = table.toDF(*(f"c{j}" for j in range(len(names)))).mapInArrow(kill_once, table.schema)
    found = score(fused, deadly).toArrow()
    assert int(killed.read_text()) in before - executors(spark)
    assert found.equals(expected)
    assert Counter(found["decision"].to_pylist())[-1] > 100


def test_draws_are_repeatable_and_of_all_partitions(table):
    one, two = draw(table, 500, random_state=1), draw(table, 500, random_state=1)
    assert one.equals(two)
    assert not one.equals(draw(table, 500, random_state=2))
    assert len(one) == 500
    assert len(draw(table, 10 * N)) == N
    places = rows()["bar"].tolist()
    drawn = {places.index(bar) * PARTITIONS // N for bar in one["bar"]}
    assert drawn == set(range(PARTITIONS))


def test_what_cannot_be_used_is_told_at_once(table, fused):
    with pytest.raises(ValueError, match="The training names 'bar', which the DataFrame does not"):
        score(fused, table.drop("bar"))
    with pytest.raises(ValueError, match="keep names 'nothing'"):
        score(fused, table, keep=["nothing"])
    with pytest.raises(ValueError, match="'score', which the scores have, too"):
        score(fused, table.withColumnRenamed("id", "score"), keep=["score"])
    with pytest.raises(TypeError, match="must be a fitted FusedDetector, got list"):
        score([], table)
    unnamed = FusedDetector(["gmm", "kpca"]).fit(np.random.default_rng(0).normal(size=(60, 2)))
    with pytest.raises(ValueError, match="knows no names of columns"):
        score(unnamed, table)
    spread = SparkTable(table, ["bar", "count"])
    with pytest.raises(ValueError, match="must be columns of the table's own DataFrame"):
        LpFusion().fit(spread, SparkTable(table.limit(5), ["bar"]).vector("label"))
    with pytest.raises(ValueError, match="The DataFrame has no column 'none'"):
        spread.vector("none")
    with pytest.raises(ValueError, match=r"Scores must be finite, .* in block 0, column 'a\.b'"):
        LpFusion().fit(SparkTable(table, ["a.b", "bar"]))
