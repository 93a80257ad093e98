"""A small model for all tests of streams."""

import polars as pl
import pytest

from helpers.streams import rows
from helpers.timed import pump
from lpfuse_cli.fitting import fit_table
from lpfuse_cli.watch import sources


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "pumps.lpfuse"
    frame = rows(400, seed=0).drop("serial")
    fit_table(frame, detectors=["gmm", "histogram"]).save(path)
    return path


@pytest.fixture(autouse=True)
def files_settle_at_once(monkeypatch):
    monkeypatch.setattr(sources, "SETTLED", 0.0)


@pytest.fixture(scope="session")
def new_rows():
    """Rows that follow the training, with two faults."""
    rows = pump(620).tail(320).with_columns(serial=pl.Series([f"P-{k}" for k in range(320)]))
    flow = rows["flow"].to_numpy().copy()
    flow[100:130] += 8
    flow[250:260] += 8
    return rows.with_columns(flow=pl.Series(flow.round(4)))
