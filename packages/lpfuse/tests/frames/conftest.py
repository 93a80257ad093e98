import pytest

from helpers.pumps import DETECTORS, pumps
from lpfuse.frames import TableModel


@pytest.fixture(scope="session")
def model():
    """Fitted to pumps; tests must not change it."""
    return TableModel.fit(pumps(), label="state", normal="ok", detectors=DETECTORS)
