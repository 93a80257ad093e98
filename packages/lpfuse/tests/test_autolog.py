"""MLflow's automatic logging: one run and one model for a fit, with the real package."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.cases import cases

SCRIPT = Path(__file__).parent / "helpers" / "autologged.py"
# The classes of the runs that each case leaves; "control" shows that scikit-learn is logged.
RUNS = {
    "off": [],
    "fused": ["FusedDetector"],
    "threads": ["FusedDetector"],
    "exclusive": [None],  # the run of the user, and nothing in it
    "run of the user": ["FusedDetector"],
    "single": ["GMMDetector"],
    "neighbours": ["KNNDetector"],
    "classes": ["OneClassEnsembleClassifier"],
    "teach": ["FusedDetector", "FusedDetector"],
    "pipeline": ["Pipeline"],  # by MLflow, which knows the pipeline
    "search": ["GridSearchCV"],
    "traced": ["FusedDetector"],
    "fails": ["FusedDetector"],
    "control": ["OneClassSVM"],
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    pytest.importorskip("mlflow", reason="MLflow is not installed")
    folder = tmp_path_factory.mktemp("runs")
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, SCRIPT, folder], cwd=folder, env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "did not log the fit" not in done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@cases("case", list(RUNS))
def test_a_fit_is_one_run_of_its_estimator(told, case):
    assert told[case]["runs"] == RUNS[case]
    assert all((count > 0) == (name is not None) for name, count in told[case]["runs_params"])
    assert told[case]["models"] == (["model"] if case == "fused" else [])
    assert told[case]["spans"] == ([1] if case == "traced" else [])
