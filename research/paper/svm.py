"""Is p = 2 the support vector machine? The two compared on the paper's scores."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.svm import SVC, LinearSVC

from lpfuse._arrays.operations import Host
from lpfuse.optim import Problem, solve
from research.common.experiment import measure_splits
from research.common.options import Options
from research.common.splits import Split
from research.common.store import Row
from research.paper.weights import paper_problem


def measured(options: Options) -> list[Row]:
    """Rows, measured where they are missing: each split in the non-pure setting."""
    return measure_splits("svm", split_rows, options)


def figures(rows: list[Row]) -> dict[str, Any]:
    """What the rows tell.

    Returns
    -------
    dict
        ``splits``; ``active``: in how many the constraint is; of these the ``median`` and the
        ``worst`` deviation of the direction of the weights from that of the SVM without bias whose
        C is the one that the multiplier of the constraint stands for; ``cosine``: quartiles of the
        cosine between the weights and those of a conventional SVM with bias and C = 1.
    """

    def of(metric: str) -> Host:
        return np.array([row["value"] for row in rows if row["metric"] == metric])

    deviations = of("deviation")
    return {
        "splits": len(of("cosine")),
        "active": len(deviations),
        "median": float(np.median(deviations)),
        "worst": float(deviations.max()),
        "cosine": np.quantile(of("cosine"), [0.25, 0.5, 0.75]).tolist(),
    }


def split_rows(parts: Split) -> list[Row]:
    """How far the weights for p = 2 are from those of two support vector machines."""
    problem, _ = paper_problem(parts.training("non-pure"))
    return [
        {"setting": "non-pure", "method": "p = 2", "metric": metric, "value": value}
        for metric, value in _compared(problem.with_ball(2.0))
    ]


def _compared(problem: Problem) -> Iterator[tuple[str, float]]:
    S, y, costs, _ = problem.block(slice(None))
    solution = solve(problem)
    ours = _direction(solution.weights)
    conventional = _direction(SVC(kernel="linear").fit(S, y).coef_[0])
    yield "cosine", float(ours @ conventional)
    # min Σ h(w) over ‖w‖ ≤ 1 and min Σ h(w) + λ/2 ‖w‖² have the same solution where λ is the
    # multiplier of the ball, ‖Σ α a‖: a support vector machine without bias, with C = 1/λ.
    pull = np.asarray(solution.certificate.alpha) * costs * y
    multiplier = float(np.linalg.norm(pull @ S))
    if multiplier > 1e-6 * problem.n:
        machine = LinearSVC(
            C=1 / multiplier, loss="hinge", fit_intercept=False, tol=1e-8, max_iter=200_000
        )
        with warnings.catch_warnings():  # short of its tolerance: the deviation tells
            warnings.simplefilter("ignore")
            theirs = _direction(machine.fit(S, y).coef_[0])
        yield "deviation", float(np.abs(ours - theirs).max())


def _direction(w: Host) -> Host:
    length = float(np.linalg.norm(w))
    return w / length if length > 0 else w
