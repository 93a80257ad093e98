import pytest

from lpfuse._arrays import beside, to_host
from lpfuse.detectors import _landmarks as landmarks


@pytest.fixture
def same_landmarks(monkeypatch):
    """Every library starts from the landmarks that NumPy arrays have."""

    def on_the_host(X, size, rng):
        return beside(landmarks._by_scikit_learn(to_host(X), size, rng), X)

    monkeypatch.setattr(landmarks, "_where_it_lives", on_the_host)
