import pytest
from hypothesis import settings

from lpfuse.optim import screening, search, solvers

# A busy machine must not fail a test, and a run should find tomorrow what it finds today;
# `--hypothesis-profile=default` looks for new examples.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")


@pytest.fixture
def low_thresholds(monkeypatch):
    """From 60 rows on a model is screened, from 400 on a problem is sampled.

    Small problems, which naive loops can check, then go the way of large ones.
    """
    for module in (search, solvers):
        monkeypatch.setattr(module, "MANY", 400)
    monkeypatch.setattr(search, "MOST", 100)
    for module in (search, screening):
        monkeypatch.setattr(module, "few", lambda size: 60)
        monkeypatch.setattr(module, "enough", lambda size: 2 * size)
    monkeypatch.setattr(screening, "_kept", lambda size: 2 * size + 10)
