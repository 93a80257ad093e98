import dask
import pytest


@pytest.fixture
def in_this_thread():
    """Tasks one after the other, where an error shows at its line."""
    with dask.config.set(scheduler="synchronous"):
        yield
