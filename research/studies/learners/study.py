"""One set and one seed: the test AUC of every option, as a record to be stored."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from lpfuse.detectors import KernelWidthWarning, fit_together, score_together
from lpfuse.detectors._diagnostics import warn_about_width
from lpfuse.detectors._kernels import Kernel

from .options import GAMMAS, LEARNERS, OPTIONS, make_detector, width
from .parts import Parts, parts_of

MOST_TRAIN = 1000  # rows

Record = dict[str, Any]


def header() -> Record:
    """Which options the figures of a record belong to."""
    return {"options": [[option.learner, dict(option.settings)] for option in OPTIONS]}


def record_of(name: str, X: np.ndarray, is_anomaly: np.ndarray, seed: int) -> Record:
    parts = parts_of(X, is_anomaly, seed, MOST_TRAIN)
    return {
        "set": name, "seed": seed, "n": len(parts.train), "d": parts.train.shape[1],
        "warned": warned_widths(parts.train),
        "auc": [round(auc, 2) for auc in aucs_of(parts, seed)],
    }  # fmt: skip


def warned_widths(train: np.ndarray) -> list[str]:
    """The widths that a user would be warned about on these rows."""
    warned = []
    for gamma in GAMMAS:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", KernelWidthWarning)
            warn_about_width(Kernel("rbf", width(gamma, train)), train)
        warned += [gamma] if caught else []
    return warned


def aucs_of(parts: Parts, seed: int) -> list[float]:
    """In the order of `OPTIONS`."""
    ours = [option for option in OPTIONS if option.learner in LEARNERS]
    others = OPTIONS[len(ours) :]  # the yardsticks come last
    detectors = [make_detector(option, parts.train, seed) for option in ours]
    scores = score_together(fit_together(detectors, parts.train), parts.test)
    yardsticks = [make_detector(option, parts.train, seed).fit(parts.train) for option in others]
    columns = [*scores.T, *(yardstick.score_samples(parts.test) for yardstick in yardsticks)]
    return [parts.auc(column) for column in columns]
