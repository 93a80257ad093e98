"""The quadratic problem that libsvm solves, with a cost for each row."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.svm import OneClassSVM

from lpfuse._arrays.operations import Host


def libsvm(
    data: Host, bounds: Host, tol: float, reach: float = 1.0, **parameters: Any
) -> tuple[Host, float]:
    """The least ``αᵀQα`` with 0 ≤ α_i ≤ C_i and Σ α = `reach`, and the ρ that ``Qα`` has inside.

    libsvm wants the bounds as shares of the largest, and the sum as a share of theirs.
    """
    machine = OneClassSVM(nu=min(1.0, reach / bounds.sum()), tol=tol, **parameters)
    weighted = bounds.min() < bounds.max()
    with config_context(assume_finite=True, skip_parameter_validation=True):
        machine.fit(data, sample_weight=bounds / bounds.max() if weighted else None)
    coefficients = machine.dual_coef_.ravel()
    scale = reach / coefficients.sum()
    solution = np.zeros(len(data))
    solution[machine.support_] = coefficients * scale
    return solution, float(-machine.intercept_[0]) * scale
