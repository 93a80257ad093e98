"""Files that hurt: foreign notation, new texts, columns in another unit."""

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import roc_auc_score

from helpers.pumps import pumps
from lpfuse.frames import column_changes
from lpfuse_cli.fitting import fit_table
from lpfuse_cli.scoring import score_file, score_frame
from lpfuse_cli.tables import read_table


def area(model, frame):
    return roc_auc_score(
        np.where(frame["state"] == "ok", 1, -1), score_frame(model, frame)["score"]
    )


def normal(frame):
    return frame.filter(pl.col("state") == "ok").drop("state")


def foreign(frame, path):
    """With semicolons, decimal commas and units, in latin-1."""
    lines = ["Druck;Fluß;kind;state"]
    for bar, flow, kind, state in frame.select("bar", "flow", "kind", "state").rows():
        bar = "" if bar is None else f'"{bar:.5f}"'
        lines.append(f"{bar};{flow:.5f} m3/h;{kind};{state}".replace(".", ","))
    path.write_bytes("\n".join(lines).encode("latin-1"))
    return path


def test_german_file_gives_the_same_auc_as_plain(tmp_path):
    train, test = pumps(300), pumps(300, seed=9)
    columns = ["bar", "flow", "kind", "state"]
    plain = fit_table(normal(train.select(columns)))
    read = read_table(foreign(train, tmp_path / "train.csv"))
    model = fit_table(normal(read))
    assert model.preparation_.kinds == {
        "Druck": "number",
        "Fluß": "number in m3/h",
        "kind": "category",
    }
    found = area(model, read_table(foreign(test, tmp_path / "test.csv")))
    assert found == pytest.approx(area(plain, test.select(columns)), abs=0.005)
    assert found > 0.9


def test_new_text_is_reported_and_does_not_flag_all_rows(tmp_path):
    model = fit_table(pumps(400, worn=0).drop("state"))
    new = pumps(500, seed=5, worn=0).drop("state").with_columns(kind=pl.lit("d"))
    new.write_csv(tmp_path / "new.csv")
    with pytest.warns(UserWarning, match="'kind' holds texts or units that the training did not"):
        scored = score_file(model, tmp_path / "new.csv", tmp_path / "out.csv", chunk_rows=100)
    assert scored.anomalies < 50
    assert scored.left_range == [{"column": "kind", "rows": 500, "share": 1.0, "unknown": 500}]
    assert any("was not in training, and taken as missing: 'kind'" in n for n in scored.notes)


def test_a_column_in_another_unit_is_named(tmp_path):
    model = fit_table(pumps(300, worn=0).drop("state"), detectors=["gmm", "kpca"])
    new = pumps(500, seed=5, worn=0).with_columns(pl.col("bar") * 1000)
    new.write_csv(tmp_path / "new.csv")
    scored = score_file(model, tmp_path / "new.csv", tmp_path / "out.csv", chunk_rows=70)
    (found,) = scored.left_range
    there = 500 - new["bar"].null_count()
    assert (found["column"], found["rows"], found["above"]) == ("bar", there, there)
    assert (found["below"], found["factor"], found["share"]) == (0, 1000.0, 1.0)
    figures, told = column_changes(model.preparation_, new)
    assert figures == scored.left_range
    assert told[0].endswith(
        f"above it in {there} rows (100 %), by about 1,000 times what it was. Has its unit changed?"
    )
    _, told = column_changes(model.preparation_, new.with_columns(pl.col("bar") / 100_000))
    assert "about 1/100 of what it was" in told[0]
