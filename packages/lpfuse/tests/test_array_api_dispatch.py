"""With scikit-learn's array-API dispatch switched on, tensors in are tensors out."""

import os
import subprocess
import sys

import pytest

# SciPy reads SCIPY_ARRAY_API when it is imported first: hence a process of its own.
SCRIPT = """
import warnings

import numpy as np
import sklearn
import torch
from sklearn.pipeline import make_pipeline

from lpfuse import FixedRule, LpFusion, TailScaler, TwoSidedMinMax
from lpfuse.fusion.fixed import RULES

warnings.simplefilter("error")
rng = np.random.default_rng(0)
y = np.repeat([1.0, -1.0], [250, 50])
S = rng.normal(size=(300, 4)) + y[:, None]
rows, labels = torch.tensor(S), torch.tensor(y)

rules = [FixedRule(rule, n_buckets=2) for rule in RULES]
pairs = [(TwoSidedMinMax(), fusion) for fusion in (LpFusion(p=2), *rules)]
for scaler, fusion in [*pairs, (TailScaler(), FixedRule())]:
    expected = make_pipeline(sklearn.clone(scaler), sklearn.clone(fusion)).fit(S, y)
    with sklearn.config_context(array_api_dispatch=True):
        pipeline = make_pipeline(scaler, fusion).fit(rows, labels)
        for method in ("score_samples", "decision_function", "predict"):
            found = getattr(pipeline, method)(rows)
            assert isinstance(found, torch.Tensor), (fusion, method, type(found))
            np.testing.assert_allclose(found.numpy(), getattr(expected, method)(S), atol=1e-6)
        single = pipeline.score_samples(rows.float())
        assert single.dtype == torch.float32, (fusion, single.dtype)
        assert isinstance(pipeline[:-1].transform(rows), torch.Tensor)
        if hasattr(fusion, "contributions"):
            assert isinstance(fusion.contributions(rows), torch.Tensor)
"""


def test_estimators_return_tensors_under_dispatch():
    pytest.importorskip("torch", reason="torch is not installed")
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
