"""Deprecation and logging: what a user hears, and when."""

import inspect
import logging
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

from lpfuse import FusedDetector, LpFusion
from lpfuse._deprecation import deprecated

GOES = {"since": "0.2", "until": "0.3", "instead": "Use other."}


@deprecated(**GOES)
def old(a, b=1):
    """Add."""
    return a + b


class Kept(BaseEstimator):
    @deprecated(**GOES, parameter="power")
    def __init__(self, p=2, power=None):
        self.p, self.power = p, power


@deprecated(**GOES)
class Gone(BaseEstimator):
    def __init__(self, p=2):
        self.p = p


def test_deprecated_names_and_parameters_warn_and_work():
    with pytest.warns(
        FutureWarning, match=r"old is deprecated since lpfuse 0\.2 .* Use other\."
    ) as w:
        assert old(1, b=2) == 3
    assert w[0].filename == __file__  # of the line that called
    assert old.__doc__ == "Add."
    assert list(inspect.signature(old).parameters) == ["a", "b"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Kept(3).p == 3
    with pytest.warns(FutureWarning, match="power of Kept.__init__ is deprecated"):
        assert Kept(power=1).power == 1
    with pytest.warns(FutureWarning, match="Gone is deprecated"):
        gone = Gone(p=4)
    assert isinstance(gone, Gone)
    with pytest.warns(FutureWarning):
        assert clone(gone).get_params() == {"p": 4}


def test_a_fit_logs_its_steps(caplog):
    X = np.random.default_rng(0).normal(size=(60, 2))
    fused = FusedDetector(["gmm", "kpca"], random_state=0)
    with caplog.at_level(logging.INFO, logger="lpfuse"):
        fused.fit(X)
    said = [record.getMessage() for record in caplog.records]
    assert said == ["fitted and scored 2 detectors on 60 rows", "learnt the weights", "calibrated"]


def test_passes_over_blocks_are_logged_for_who_looks_closely(caplog):
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    S = da.from_array(np.random.default_rng(0).normal(1, 0.5, size=(300, 2)), chunks=(100, 2))
    with caplog.at_level(logging.DEBUG, logger="lpfuse"):
        passes = LpFusion().fit(S).certificate_.passes
    # The first pass checks, and is one of the validation.
    numbers = [int(record.args[0]) for record in caplog.records]
    assert numbers == list(range(2, int(passes) + 1))


def test_nothing_is_printed_unless_asked_for():
    code = (
        "import numpy as np; from lpfuse import FusedDetector\n"
        "FusedDetector(['gmm', 'kpca']).fit(np.random.default_rng(0).normal(size=(60, 2)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""


@pytest.mark.parametrize("method", ["fit", "fit_predict"])
def test_a_warning_of_a_fit_points_at_the_line_of_the_user(method):
    X = np.random.default_rng(0).normal(size=(60, 2))
    X[:, 1] = np.arange(60)  # numbers that only grow
    with pytest.warns(UserWarning, match="only grow") as found:
        getattr(FusedDetector(["gmm", "kpca"], random_state=0), method)(X)
    grown = [warning for warning in found if "only grow" in str(warning.message)]
    assert [warning.filename for warning in grown] == [__file__]
