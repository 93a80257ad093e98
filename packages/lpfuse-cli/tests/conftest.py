import pytest

from helpers import timed
from helpers.pumps import DETECTORS, pumps
from lpfuse_cli.fitting import fit_table


@pytest.fixture(scope="session")
def pump_model():
    """Fitted to pumps; tests must not change it."""
    return fit_table(pumps(), label="state", normal="ok", detectors=DETECTORS)


@pytest.fixture(scope="session")
def pump_model_file(pump_model, tmp_path_factory):
    """The same in a file."""
    path = tmp_path_factory.mktemp("pumps") / "pumps.lpfuse"
    pump_model.save(path)
    return path


@pytest.fixture(scope="session")
def small_model_file(tmp_path_factory):
    """Of three columns and the label, in a file."""
    path = tmp_path_factory.mktemp("small") / "pumps.lpfuse"
    frame = pumps().select("bar", "flow", "kind", "state")
    fit_table(frame, label="state", normal="ok", detectors=DETECTORS).save(path)
    return path


@pytest.fixture(scope="session")
def timed_model():
    """Fitted to rows in time, whose column of times was found; tests must not change it."""
    return fit_table(timed.pump(300), detectors=timed.DETECTORS)


@pytest.fixture(scope="session")
def timed_model_file(timed_model, tmp_path_factory):
    """The same in a file."""
    path = tmp_path_factory.mktemp("timed") / "pump.lpfuse"
    timed_model.save(path)
    return path
