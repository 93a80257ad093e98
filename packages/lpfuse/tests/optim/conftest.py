import pytest

from lpfuse.optim import solve as solvers
from lpfuse.optim._large_n import screening, search


@pytest.fixture
def low_thresholds(monkeypatch):
    """From 60 rows on a model is screened, from 400 on a problem is sampled.

    Small problems, which naive loops can check, then go the way of large ones.
    """

    def lower(name, value):
        owners = [module for module in (screening, search, solvers) if hasattr(module, name)]
        assert owners, f"{name} has moved: these tests would not test what they say"
        for module in owners:
            monkeypatch.setattr(module, name, value)

    lower("MANY", 400)
    lower("MOST", 100)
    lower("few", lambda size: 60)
    lower("pilot_rows", lambda size: 60)
    lower("enough", lambda size: 2 * size)
    lower("_kept", lambda size: 2 * size + 10)
