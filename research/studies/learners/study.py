"""One set and one seed: the test AUC of every option, as a record to be stored."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from lpfuse.detectors import KernelWidthWarning, fit_together, score_together
from lpfuse.detectors.kernels import Kernel, warn_about_width
from research.common.splits import StudySplit, study_split
from research.common.store import Record

from .options import GAMMAS, LEARNERS, MOST_TEST, OPTIONS, Option, make_detector, width

MOST_TRAIN = 1000  # rows; chosen by hand, so that all options take minutes


def about() -> Record:
    """Which options the figures of a record belong to."""
    return {"options": [[option.learner, dict(option.settings)] for option in OPTIONS]}


def records_of(X: np.ndarray, is_anomaly: np.ndarray, seed: int) -> list[Record]:
    """One record; anomalies teach nothing here, so all are for the test."""
    parts = study_split(
        X,
        is_anomaly,
        seed,
        most_train=MOST_TRAIN,
        most_test=MOST_TEST,
        most_anomalies=MOST_TEST,
    )
    return [
        {
            "n": len(parts.train),
            "d": parts.train.shape[1],
            "warned": warned_widths(parts.train),
            "auc": [round(auc, 2) for auc in aucs_of(parts, seed)],
        }
    ]


def warned_widths(train: np.ndarray) -> list[str]:
    """The widths that a user would be warned about on these rows."""
    warned = []
    for gamma in GAMMAS:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", KernelWidthWarning)
            warn_about_width(Kernel("rbf", width(gamma, train)), train)
        warned += [gamma] if caught else []
    return warned


def aucs_of(parts: StudySplit, seed: int, options: Sequence[Option] = OPTIONS) -> list[float]:
    """In the order of the options, of which the yardsticks come last."""
    ours = [option for option in options if option.learner in LEARNERS]
    others = options[len(ours) :]
    detectors = [make_detector(option, parts.train, seed) for option in ours]
    scores = score_together(fit_together(detectors, parts.train, thresholds=False), parts.tested)
    yardsticks = [make_detector(option, parts.train, seed).fit(parts.train) for option in others]
    columns = [*scores.T, *(yardstick.score_samples(parts.tested) for yardstick in yardsticks)]
    return [parts.auc(column) for column in columns]
