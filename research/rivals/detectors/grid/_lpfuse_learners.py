"""The learners of the grid as lpfuse's classes; the two ways to fit them share this."""

from __future__ import annotations

import numpy as np

from lpfuse import SVDD, KernelPCADetector, OneClassGP
from research.common.judge import Ball, Matrix
from research.rivals.detectors._tasks import GridTask

Learners = list[SVDD | OneClassGP | KernelPCADetector]


def learners(task: GridTask) -> Learners:
    # The others set no threshold by refits, so here none is set either.
    exact = {"approximation": None, "offset_from": "training"}
    make = {
        "svdd": lambda m: SVDD(nu=task.nu, gamma=m.gamma, tol=task.tol, **exact),
        "gp": lambda m: OneClassGP("mean", task.noise, gamma=m.gamma, **exact),
        "kpca": lambda m: KernelPCADetector(m.q, gamma=m.gamma, **exact),
    }
    return [make[member.learner](member) for member in task.members()]


def as_ours(model: Learners, scores: Matrix) -> Matrix:
    return scores


def balls(model: Learners) -> list[Ball]:
    found = [learner for learner in model if isinstance(learner, SVDD)]
    return [Ball(np.asarray(svdd.support_), np.asarray(svdd.dual_coef_)) for svdd in found]
