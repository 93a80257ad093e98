import numpy as np
import pytest

from helpers.pumps import DETECTORS, pumps
from lpfuse import FusedDetector


@pytest.fixture(scope="session")
def model():
    """Fitted to pumps; tests must not change it."""
    frame = pumps()
    labels = np.where(frame["state"] == "ok", 1, -1)
    return FusedDetector(DETECTORS, random_state=0).fit(frame.drop("state"), labels)
