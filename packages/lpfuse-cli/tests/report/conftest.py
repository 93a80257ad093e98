import shutil

import numpy as np
import pytest

from helpers.pools import both, normal_rows
from helpers.reports import NASTY, fitted, pool
from lpfuse_cli.report import summarise

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIETLY = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium, driven by Playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"no browser is installed: none of {', '.join(BROWSERS)}")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=QUIETLY)
        yield browser
        browser.close()


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
    found = summarise(
        fitted(*rows, listed),
        *fresh,
        names=names,
        keep={NASTY: [NASTY] * len(fresh[0])},
        files={"model": NASTY, "data": NASTY},
    )
    found["remarks"].append(NASTY)
    found["alarm_list"] |= {"total": 10**6, "command": NASTY}
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
