"""A small model for all tests of streams."""

import pytest

from helpers.streams import rows
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
