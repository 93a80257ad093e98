import pytest

from lpfuse.tabular import TableModel
from tests.tabular.pumps import DETECTORS, pumps


@pytest.fixture(scope="session")
def model():
    """Fitted to pumps; tests must not change it."""
    return TableModel.fit(pumps(), label="state", normal="ok", detectors=DETECTORS)
