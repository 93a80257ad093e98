import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """On rows as few as these, threads would only wait for each other."""
    with threadpool_limits(1):
        yield
