"""lpfuse's SVDD: besides the coefficients it finds the radius and checks the kernel's width."""

from __future__ import annotations

from lpfuse import SVDD
from research.common.judge import Ball, Matrix, Vector
from research.rivals.detectors._tasks import SVDDTask

name = "lpfuse SVDD"


def fit(X: Matrix, task: SVDDTask) -> SVDD:
    return SVDD(nu=task.nu, gamma=task.gamma, tol=task.tol, approximation=None).fit(X)


def score(model: SVDD, X: Matrix) -> Vector:
    return model.score_samples(X)


def as_ours(model: SVDD, scores: Vector) -> Vector:
    return scores


def balls(model: SVDD) -> list[Ball]:
    return [Ball(model.support_, model.dual_coef_)]
