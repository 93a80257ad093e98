import numpy as np
import pytest

from lpfuse import FusedDetector
from lpfuse.report import summarise
from tests.ensemble.pools import Distance, both, normal_rows

NASTY = "</script><img src=x onerror=\"document.title='hit'\">'&amp;\u2028{{ 7*7 }}\u202e"


def pool():
    """Detectors that are quick to fit; one looks at one column only."""
    return [
        ("all", Distance()),
        ("left", Distance(columns=slice(2))),
        ("right", Distance(columns=slice(1, 4))),
        ("first", Distance(), [0]),
    ]


def fitted(X, y=None, detectors=None, **options):
    return FusedDetector(detectors or pool(), random_state=0, **options).fit(X, y)


@pytest.fixture(scope="session")
def rows():
    return both(n=120, anomalies=24)


@pytest.fixture(scope="session")
def labelled(rows):
    return fitted(*rows)


@pytest.fixture(scope="session")
def pure():
    return fitted(normal_rows(100))


@pytest.fixture(scope="session")
def fresh():
    """Rows that no model was fitted to, some of them unlabelled."""
    X, y = both(n=60, anomalies=15, seed=7)
    y[::6] = 0
    return X, y


@pytest.fixture(scope="session")
def summary(labelled):
    return summarise(labelled)


@pytest.fixture(scope="session")
def hostile(rows, fresh):
    """A summary in which every string of a user is an attack."""
    names = [f"{NASTY}{j}" for j in range(4)]
    listed = [(name, *rest) for name, (_, *rest) in zip(names, pool(), strict=True)]
    found = summarise(fitted(*rows, listed), *fresh, names=[f"{NASTY}{j}" for j in range(4)])
    found["data"] |= {"label": NASTY, "normal": NASTY, "notes": [NASTY]}
    found["settings"] |= {NASTY: NASTY}
    found["detectors"][0]["what"] = NASTY
    return found


@pytest.fixture(scope="session")
def columns():
    """Names for columns."""
    return [f"feature {j}" for j in range(4)]


@pytest.fixture
def generator():
    return np.random.default_rng(0)
