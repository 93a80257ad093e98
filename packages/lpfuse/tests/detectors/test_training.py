import numpy as np
import pandas as pd
import pytest

from helpers.cases import cases
from helpers.pairwise import each_value
from lpfuse.detectors.kernels import Kernel, TrainingRows, training_rows
from oracles.kernel_learners import LIBRARIES, assert_beside, every_library, on_host

X = np.random.default_rng(0).normal(size=(20, 3))
RBF, NARROW, LINEAR = Kernel("rbf", 0.5), Kernel("rbf", 5.0), Kernel("linear")


# --------------------------------------------------------------------------- weights and labels


def test_without_weights_all_rows_count_once():
    rows = TrainingRows(X, None)
    assert len(rows) == 20
    assert rows.X is X
    np.testing.assert_array_equal(rows.weights, np.ones(20))
    assert not rows.is_weighted
    assert rows.positions is None


def test_equal_weights_are_kept_but_weigh_nothing_differently():
    rows = TrainingRows(X, np.full(20, 2.0))
    np.testing.assert_array_equal(rows.weights, np.full(20, 2.0))
    assert not rows.is_weighted
    assert rows.positions is None


def test_rows_of_weight_zero_are_left_out():
    weights, labels = np.arange(20.0) % 4, np.where(np.arange(20) % 5, 1.0, -1.0)
    rows = TrainingRows(X, weights, labels)
    kept = np.flatnonzero(weights)
    np.testing.assert_array_equal(rows.positions, kept)
    np.testing.assert_array_equal(rows.X, X[kept])
    np.testing.assert_array_equal(rows.weights, weights[kept])
    np.testing.assert_array_equal(rows.labels, labels[kept])
    assert rows.is_weighted
    assert len(rows) == 15
    assert rows.gram(LINEAR).shape == (15, 15)


def test_weights_zero_or_one_leave_nothing_to_weigh():
    assert not TrainingRows(X, np.r_[0.0, np.ones(19)]).is_weighted


def test_labels_that_are_all_normal_are_no_labels():
    assert TrainingRows(X, None, np.ones(20)).labels is None
    only_zero_weight_is_an_anomaly = np.r_[-1.0, np.ones(19)]
    weights = np.r_[0.0, np.ones(19)]
    assert TrainingRows(X, weights, only_zero_weight_is_an_anomaly).labels is None


@every_library
def test_rows_of_other_libraries_stay_there(library):
    weights = np.arange(20.0) % 4
    rows, theirs = TrainingRows(X, weights), TrainingRows(library(X), weights)
    assert_beside(theirs.X, library(X))
    np.testing.assert_array_equal(on_host(theirs.X), rows.X)
    np.testing.assert_array_equal(theirs.weights, rows.weights)
    np.testing.assert_allclose(on_host(theirs.gram(RBF)), rows.gram(RBF), rtol=1e-12)


@every_library
def test_a_matrix_takes_so_many_bytes(library):
    assert TrainingRows(X, None).gram_bytes == 20 * 20 * 8
    assert TrainingRows(library(X), None).gram_bytes == 20 * 20 * 8
    assert TrainingRows(library(X.astype(np.float32)), None).gram_bytes == 20 * 20 * 4


# --------------------------------------------------------------------------------------- sharing


@each_value(kernel=(RBF, NARROW, LINEAR, Kernel("laplacian", 0.5)), share=(False, True, True))
def test_shared_or_not_the_matrix_is_the_same(kernel, share):
    gram = TrainingRows(X, None, share=share).gram(kernel)
    np.testing.assert_allclose(gram, kernel.between(X, X), rtol=1e-10, atol=1e-13)


def test_a_shared_matrix_is_computed_once():
    rows = TrainingRows(X, None, share=True)
    assert rows.gram(RBF) is rows.gram(Kernel("rbf", 0.5))
    alone = TrainingRows(X, None)
    assert alone.gram(RBF) is not alone.gram(RBF)


def test_the_distances_serve_every_width():
    rows = TrainingRows(X.copy(), None, share=True)
    for kernel in (RBF, NARROW, LINEAR, RBF):
        np.testing.assert_allclose(rows.gram(kernel), kernel.between(X, X), rtol=1e-10, atol=1e-13)
    rows.X[:] = 0.0  # nobody looks at the rows again, but for another kind of kernel
    np.testing.assert_allclose(rows.gram(NARROW), NARROW.between(X, X), rtol=1e-10, atol=1e-13)
    np.testing.assert_array_equal(rows.gram(LINEAR), 0.0)


@each_value(library=(*LIBRARIES, LIBRARIES[0]), share=(False, True))
def test_a_matrix_to_overwrite_is_nobody_elses(share, library):
    rows = TrainingRows(library(X), None, share=share)
    before = on_host(rows.gram(RBF)).copy()
    mine = rows.gram(RBF, to_overwrite=True)
    mine[:, :] = 0.0
    np.testing.assert_array_equal(on_host(rows.gram(RBF)), before)


def test_what_was_computed_is_kept_until_another_kernel_comes():
    rows = TrainingRows(X, None, share=True)
    rows.cache(RBF)["spectrum"] = "of the wide one"
    assert rows.cache(Kernel("rbf", 0.5)) == {"spectrum": "of the wide one"}
    assert rows.cache(NARROW) == {}
    assert rows.cache(RBF) == {}


def test_rows_that_are_not_shared_keep_nothing():
    rows = TrainingRows(X, None)
    rows.cache(RBF)["spectrum"] = "unwanted"
    assert rows.cache(RBF) == {}


# ---------------------------------------------------------------------------------------- checks


def test_what_a_user_passes_is_checked():
    rows = training_rows(X.tolist(), [1] * 19 + [0], [1] * 19 + [-1], share=True)
    np.testing.assert_array_equal(rows.X, X[:19])
    assert rows.labels is None
    assert rows.share


@cases(
    "arguments, words",
    [
        ({"X": pd.DataFrame({"age": [1.0, np.nan], "dose": [1.0, 2.0]})}, "column 'age' "),
        ({"X": X, "sample_weight": [1.0]}, "sample_weight"),
        ({"X": X, "sample_weight": np.zeros(20)}, "zero in every row"),
        ({"X": X, "y": np.zeros(20)}, r"\+1 \(normal\)"),
        ({"X": X, "y": -np.ones(20)}, "only −1"),
        ({"X": X[0]}, "2D"),
    ],
)
def test_what_cannot_be_used_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        training_rows(**arguments)
