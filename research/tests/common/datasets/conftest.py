import pytest
import sklearn.datasets


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """No folder in the environment, and a network that fails the test that touches it."""
    monkeypatch.delenv("LPFUSE_DATA", raising=False)

    def touched(*args, **kwargs):
        raise AssertionError("the network was touched")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", touched)
