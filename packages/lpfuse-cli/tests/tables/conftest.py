import pytest


@pytest.fixture(scope="session")
def model(pump_model):
    return pump_model
