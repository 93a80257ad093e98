"""Scores of the paper's learners for rows that they have not learnt from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold

from lpfuse.detectors import fit_together, score_together
from research.common.protocol import TrainingData
from research.paper.learners import FittedGrid, Tables, in_sample_tables

FOLDS = 5


def out_of_fold_tables(training: TrainingData) -> Tables:
    """As `in_sample_tables`, with the same settings, but training normals are scored out of fold.

    Learners fitted to four fifths of the rows score the fifth; all other rows are scored by the
    learners that were fitted to all.
    """
    tables = shared_tables(training)
    chosen = _chosen(training, tables)
    normals = np.empty_like(tables.normals)
    folds = KFold(min(FOLDS, len(normals)), shuffle=True, random_state=training.seed)
    for rest, fold in folds.split(training.normals):
        learners = [clone(learner) for learner in chosen]
        fit_together(learners, training.normals[rest], thresholds=False)
        normals[fold] = score_together(learners, training.normals[fold])
    return replace(tables, normals=normals)


def shared_tables(training: TrainingData) -> Tables:
    """`in_sample_tables`, made once for all who start from them."""
    key = f"in-sample tables, {len(training.labelled)} labelled"
    if key not in training.cache:
        training.cache[key] = in_sample_tables(training)
    tables: Tables = training.cache[key]
    return tables


def _chosen(training: TrainingData, tables: Tables) -> list[Any]:
    """The learners behind the columns of the tables."""
    found = {}
    for candidate in FittedGrid.of(training).grid:
        wanted = {
            name.removeprefix(f"{candidate.learner} "): value
            for name, value in tables.settings.items()
            if name.startswith(f"{candidate.learner} ")
        }
        if candidate.settings == wanted:
            found[candidate.learner] = candidate.detector
    return [found[name] for name in tables.names]
