"""Models written by earlier versions load and score as before."""

import json
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.exceptions import InconsistentVersionWarning

from lpfuse import load

FOLDER = Path(__file__).parent / "saved_models"
# What ensemble/test_former_files.py loads is judged there.
PATHS = [path for path in sorted(FOLDER.glob("*.lpfuse")) if "former_layout" not in path.stem]
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
ROWS = {
    "numbers": np.array(EXPECTED["rows"]["numbers"]),
    "scores": np.array(EXPECTED["rows"]["scores"]),
    "table": pl.DataFrame(EXPECTED["rows"]["table"]),
}


def test_every_saved_model_has_expected_scores():
    assert [path.stem for path in PATHS] == sorted(EXPECTED["models"])


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_saved_model_loads_and_scores_as_before(path):
    expected = EXPECTED["models"][path.stem]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentVersionWarning)
        model = load(path)
    found = {name: getattr(model, name) for name in expected["attributes"]}
    found |= {name: getattr(model, name)(ROWS[expected["rows"]]) for name in expected["methods"]}
    for name, values in (expected["attributes"] | expected["methods"]).items():
        # Other processors and versions of NumPy round the last digits differently.
        np.testing.assert_allclose(found[name], values, rtol=1e-7, atol=1e-9, err_msg=name)
