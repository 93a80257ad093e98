import polars as pl
import pytest

from lpfuse.frames.cells import labels_of
from lpfuse_cli.tables import describe_labels, split_labels


def column(values):
    return pl.Series("state", values, strict=False)


def test_labels_in_words():
    values = column(["ok"] * 3 + ["leak"] + ["worn"] * 2 + [None])
    told = describe_labels(values, labels_of(values, "ok"))
    assert told == (
        "Label: 'state'; normal is 'ok' (3 rows); anomalies are 'worn' (2), 'leak' (1); 1 row "
        "without a label."
    )
    values = column([None] * 1200 + [f"kind {i}" for i in range(10)])
    told = describe_labels(values, labels_of(values, ""))
    assert told.startswith("Label: 'state'; normal is an empty cell (1,200 rows); anomalies are 'k")
    assert told.endswith("'kind 7' (1) and 2 more.")
    values = column(["ok", "OK", "leak"])
    told = describe_labels(values, labels_of(values, "ok"))
    assert told.endswith(
        "(2 rows); anomalies are 'leak' (1). Labels 'OK' (1 row) are taken as 'ok'."
    )


def test_anomalies_may_be_named_instead():
    frame = pl.DataFrame({"x": [1, 2, 3], "state": ["ok", "leak", None]})
    rest, labels, words, note = split_labels(frame, "state", anomaly=["leak"])
    assert (rest.columns, labels.tolist()) == (["x"], [1, -1, 0])
    assert words == {"normal": "ok", "anomaly": "leak"}
    assert "normal is 'ok' (1 row); anomalies are 'leak' (1)" in note
    with pytest.raises(ValueError, match="anomaly='leak' says what labels mean, but not in which"):
        split_labels(frame, None, anomaly="leak")
