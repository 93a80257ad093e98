"""A small model for all tests of streams."""

import pytest

from helpers.streams import rows
from lpfuse.frames import TableModel


@pytest.fixture(scope="package")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "pumps.lpfuse"
    frame = rows(400, seed=0).drop("serial")
    TableModel.fit(frame, detectors=["gmm", "histogram"]).save(path)
    return path
