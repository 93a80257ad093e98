"""Scores out of fold, against a loop over folds."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold

from lpfuse import OneClassGP
from lpfuse.detectors import gamma_from_sigma
from research.common.protocol import SETTINGS
from research.paper.held_out import out_of_fold_tables, shared_tables
from research.tests.small import small_training

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of widths far from the data


@pytest.mark.parametrize("setting", SETTINGS)
def test_training_rows_are_scored_out_of_fold(setting):
    training = small_training(setting)
    tables, plain = out_of_fold_tables(training), shared_tables(training)
    j = list(tables.names).index("GP")
    learner = OneClassGP(gamma=gamma_from_sigma(tables.settings["GP sigma"]), score_type="mean")
    learner.set_params(approximation=None)
    expected = np.empty(len(training.normals))
    folds = KFold(5, shuffle=True, random_state=training.seed)
    for rest, fold in folds.split(training.normals):
        fitted = clone(learner).fit(training.normals[rest])
        expected[fold] = fitted.score_samples(training.normals[fold])
    np.testing.assert_allclose(tables.normals[:, j], expected, rtol=1e-6, atol=1e-9)
    assert (tables.normals != plain.normals).any(axis=0).all()
    np.testing.assert_array_equal(tables.validation, plain.validation)
    np.testing.assert_array_equal(tables.labelled, plain.labelled)
    assert tables.settings == plain.settings
