"""Histograms and forests of columns against loops, closed forms and refits."""

import numpy as np
import pytest
from scipy.stats import ks_2samp
from sklearn.metrics import roc_auc_score
from sklearn.tree import DecisionTreeRegressor

from helpers.model_files import forge
from helpers.pairwise import each_value
from lpfuse import ColumnForest, HistogramDetector
from lpfuse.detectors.columns import grow_tree
from lpfuse.io import load, save

# ------------------------------------------------------------------------------------- histograms


def share(x, column):
    """What a histogram says of one number, by counting."""
    n, values = len(column), sorted(set(column))
    if len(values) <= 30:
        count = sum(column == x)
        return (count + 0.5) / (n + 0.5 * len(values)) if count else 0.25 / n
    if not values[0] <= x <= values[-1]:
        return 0.25 / n
    bins = int(min(max(np.sqrt(n), 10), 40))
    rows, edges = np.histogram(column, bins)
    k = min(int(np.searchsorted(edges, x, "right")) - 1, bins - 1)
    below, above = max(k - 1, 0), min(k + 1, bins - 1)
    smooth = 0.25 * rows[below] + 0.5 * rows[k] + 0.25 * rows[above]
    return (smooth + 0.5) / (n + 0.5 * bins)


@pytest.fixture
def mixed():
    rng = np.random.default_rng(0)
    return np.column_stack(
        [
            rng.normal(size=300),
            rng.integers(0, 5, 300),
            np.full(300, 7.0),
            rng.exponential(size=300),
        ]
    )


def test_scores_sum_the_logarithms_of_shares(mixed):
    rng = np.random.default_rng(1)
    new = np.vstack([mixed[:20], mixed[:20] + rng.normal(size=(20, 4)), mixed[:5] * 100])
    fitted = HistogramDetector().fit(mixed)
    expected = [
        sum(np.log(share(x, column)) for x, column in zip(row, mixed.T, strict=True)) for row in new
    ]
    np.testing.assert_allclose(fitted.score_samples(new), expected, rtol=1e-12)


def test_few_values_leave_one_out_as_a_refit_does():
    X = np.random.default_rng(0).geometric(0.4, size=(80, 3)).astype(float)
    assert (np.unique(X[:, 0], return_counts=True)[1] == 1).any()  # a value that one row has
    fitted = HistogramDetector().fit(X)
    refits = [
        HistogramDetector().fit(np.delete(X, i, axis=0)).score_samples(X[i : i + 1])[0]
        for i in range(80)
    ]
    np.testing.assert_allclose(fitted.leave_one_out_scores(X), refits, rtol=1e-12)


def test_bins_are_kept_and_the_row_is_taken_off_them():
    x = np.random.default_rng(0).normal(size=400)
    fitted = HistogramDetector().fit(x[:, None])
    scores = fitted.leave_one_out_scores(x[:, None])
    rows, edges = np.histogram(x, 20)
    for i in range(400):
        k = min(int(np.searchsorted(edges, x[i], "right")) - 1, 19)
        left = rows - (np.arange(20) == k)
        smooth = 0.25 * left[max(k - 1, 0)] + 0.5 * left[k] + 0.25 * left[min(k + 1, 19)]
        outside = x[i] in (x.min(), x.max())
        expected = np.log(0.25 / 399 if outside else (smooth + 0.5) / (399 + 10))
        assert scores[i] == pytest.approx(expected)


def test_values_survive_single_precision():
    X = np.tile([[0.1], [0.2], [0.3]], (20, 1))
    fitted = HistogramDetector().fit(X)
    np.testing.assert_allclose(fitted.score_samples(X.astype(np.float32)), fitted.score_samples(X))


# ----------------------------------------------------------------------------------------- forests


def related(n, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, n))
    return np.column_stack([x, z, x + z, x * z]) + 0.1 * rng.normal(size=(n, 4))


def test_rows_that_break_the_relation_are_found():
    normal, fitted = related(300, 1), ColumnForest(random_state=0).fit(related(600))
    shuffled = np.random.default_rng(2).permuted(normal, axis=0)
    scores = fitted.score_samples(np.vstack([normal, shuffled]))
    assert roc_auc_score(np.repeat([1, 0], 300), scores) > 0.9


def test_scores_follow_from_the_trees():
    """The formula, tree by tree."""
    X, new = related(120), related(15, 1)
    fitted = ColumnForest(16, random_state=0).fit(X)
    z = (new - X.mean(axis=0)) / X.std(axis=0)
    total = np.zeros(15)
    for j in range(4):
        predicted = [
            tree.predict(z[:, seen].astype(np.float32)).reshape(15, -1)[:, list(told).index(j)]
            for tree, seen, told in zip(fitted.trees_, fitted.inputs_, fitted.outputs_, strict=True)
            if j in told
        ]
        assert len(predicted) == 8
        off = np.abs(z[:, j] - np.mean(predicted, axis=0)) / fitted.errors_[j]
        total -= np.minimum(off, 10) ** 2
    np.testing.assert_allclose(fitted.score_samples(new), total, rtol=1e-9)


@pytest.mark.parametrize("d", [2, 3, 7])
def test_columns_are_predicted_equally_often_and_never_from_themselves(d):
    fitted = ColumnForest(9, random_state=0).fit(np.random.default_rng(0).normal(size=(51, d)))
    assert len(fitted.trees_) == 12
    assert np.bincount(np.concatenate(fitted.outputs_)).tolist() == [6] * d
    for seen, told in zip(fitted.inputs_, fitted.outputs_, strict=True):
        assert sorted([*seen, *told]) == list(range(d))
    rows = [int(tree.n_node_samples[0]) for tree in fitted.trees_]
    assert sorted(rows) == [25] * 6 + [26] * 6  # halves of the rows, in turn


def test_held_out_scores_leave_out_trees_that_saw_the_row():
    """Noise is learnt by heart by trees with leaves of one row, and by no others."""
    X = np.random.default_rng(0).normal(size=(300, 4))
    fitted = ColumnForest(40, min_samples_leaf=1, random_state=0).fit(X)
    z = np.sqrt(-fitted.leave_one_out_scores(X).mean() / 4)
    assert z == pytest.approx(1.0, abs=0.01)  # root mean squared errors, in units of themselves
    assert (fitted.errors_ > 1).all()  # worse than the mean: nothing can be known
    assert np.mean(fitted.score_samples(X)) > 0.6 * np.mean(fitted.leave_one_out_scores(X))


def test_held_out_scores_are_like_those_of_new_rows():
    X, new = related(1000), related(1000, 1)
    fitted = ColumnForest(random_state=0).fit(X)
    assert ks_2samp(fitted.leave_one_out_scores(X), fitted.score_samples(new)).statistic < 0.08


def test_of_many_rows_a_sample_is_learnt_from():
    X = related(400)
    fitted = ColumnForest(8, max_samples=100, random_state=0).fit(X)
    assert len(set(fitted.kept_)) == 100
    assert fitted.trees_[0].n_node_samples[0] == 50
    held_out, scores = fitted.leave_one_out_scores(X), fitted.score_samples(X)
    unseen = ~np.isin(np.arange(400), fitted.kept_)
    np.testing.assert_array_equal(held_out[unseen], scores[unseen])
    assert (held_out[~unseen] != scores[~unseen]).all()
    assert fitted.offset_ == pytest.approx(np.sort(held_out)[39], rel=1e-6)  # the 40th: ⌊401 / 10⌋


def test_a_single_column_is_predicted_by_its_mean():
    x = np.random.default_rng(0).normal(5, 2, size=(200, 1))
    fitted = ColumnForest(random_state=0).fit(x)
    new = np.array([[5.0], [9.0], [20.0]])
    expected = -(((new[:, 0] - x.mean()) / x.std()) ** 2)
    np.testing.assert_allclose(fitted.score_samples(new), expected, rtol=0.1, atol=0.05)


def test_constant_columns_and_equal_rows():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(60, 0.1), rng.normal(size=60), np.full(60, 1e9)])
    fitted = ColumnForest(random_state=0).fit(X)
    assert (fitted.predict(X) == 1).mean() > 0.85
    other = X[:1] + np.array([0.5, 0, 0])
    assert fitted.score_samples(other)[0] < fitted.score_samples(X[:1])[0] - 90
    single = fitted.score_samples(X.astype(np.float32))
    np.testing.assert_allclose(single, fitted.score_samples(X), rtol=1e-3, atol=0.1)
    same = ColumnForest(random_state=0).fit(np.ones((10, 3)))
    np.testing.assert_allclose(same.leave_one_out_scores(np.ones((10, 3))), 0)


@each_value(n=(2, 3, 5), d=(1, 2, 3))
def test_few_rows_will_do(n, d):
    X = np.random.default_rng(0).normal(size=(n, d))
    for detector in (ColumnForest(random_state=0), HistogramDetector()):
        fitted = detector.fit(X)
        assert np.isfinite(fitted.leave_one_out_scores(X)).all()
        assert np.isfinite(fitted.score_samples(1e300 * X)).all()


def test_units_do_not_matter():
    X, new = related(200), related(20, 1)
    plain = ColumnForest(random_state=0).fit(X).score_samples(new)
    moved = ColumnForest(random_state=0).fit(X / 1024).score_samples(new / 1024)
    np.testing.assert_allclose(moved, plain, rtol=1e-9)


def test_a_file_cannot_lead_a_tree_out_of_its_columns(tmp_path):
    """The compiled search does not look how many columns there are."""
    X = related(60)
    fitted = ColumnForest(8, random_state=0).fit(X)
    wide = DecisionTreeRegressor(random_state=0).fit(np.tile(X, 10), X[:, :2])
    fitted.trees_[0] = wide.tree_
    path = tmp_path / "model.lpfuse"
    with pytest.raises(TypeError, match="could not be loaded: A tree was grown on other columns"):
        save(fitted, path)
    forge(fitted, path)
    with pytest.raises(ValueError, match="other columns"):
        load(path)
    del fitted.learnt_  # as in files of format 4, which hold the values of leaves
    save(fitted, path)
    with pytest.raises(ValueError, match="other columns"):
        load(path).score_samples(X)


def test_leaves_are_means_of_the_rows_that_their_tree_learnt_from():
    X = related(60)
    fitted = ColumnForest(8, random_state=0).fit(X)
    rows = (fitted.rows_ - fitted.mean_) / fitted.scale_
    for tree, learnt, seen, outputs in zip(
        fitted.trees_, fitted.learnt_, fitted.inputs_, fitted.outputs_, strict=True
    ):
        leaf = tree.apply(rows[:, seen].astype(np.float32))
        for node in np.unique(leaf[learnt]):
            mean = rows[learnt & (leaf == node)][:, outputs].mean(axis=0)
            np.testing.assert_allclose(tree.value[node, :, 0], mean, rtol=0, atol=1e-12)


@pytest.mark.parametrize("fewest", [1, 2, 7])
def test_trees_are_those_of_scikit_learn_but_for_ties(fewest):
    """In a small node several columns may split the same rows; trees differ from there on."""
    compared = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n, inputs, outputs = rng.integers([20, 1, 1], [500, 12, 20])
        X = rng.normal(size=(n, inputs)).astype(np.float32)
        X[:, : inputs // 3] = np.round(X[:, : inputs // 3])
        noise = rng.normal(size=(n, outputs))
        Y = 10.0 ** (seed % 7 - 3) * (X @ rng.normal(size=(inputs, outputs)) + noise)
        both = np.column_stack([X, Y])
        ours = grow_tree(both, np.arange(inputs), inputs + np.arange(outputs), fewest, seed)
        grown = DecisionTreeRegressor(
            splitter="random", min_samples_leaf=fewest, random_state=seed
        ).fit(X, Y)
        theirs, shared = grown.tree_, min(ours.node_count, grown.tree_.node_count)
        assert ours.max_depth == ours.compute_node_depths().max() - 1
        assert ours.n_node_samples[ours.children_left < 0].min() >= fewest
        found, expected = (tree.__getstate__()["nodes"][:shared] for tree in (ours, theirs))
        names = ["feature", "threshold", "n_node_samples", "weighted_n_node_samples"]
        same = found[names] == expected[names]
        first = shared if same.all() else int(np.argmin(same))
        if first < shared:
            assert expected["n_node_samples"][first] <= 4 * fewest + 4
            first -= 1  # children of a tie may have changed sides
        ends = np.flatnonzero(theirs.children_left[:first] < 0)
        np.testing.assert_allclose(
            ours.value[ends], theirs.value[ends], rtol=1e-9, atol=1e-12 * abs(Y).max()
        )
        compared += first
    assert compared > 300


@pytest.mark.parametrize(("inputs", "outputs"), [(90, 70), (70, 64), (64, 65)])
def test_trees_of_wide_tables_are_those_of_scikit_learn_on_combinations(inputs, outputs):
    compared = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(300, inputs)).astype(np.float32)
        Y = X[:, :9] @ rng.normal(size=(9, outputs)) + rng.normal(size=(300, outputs))
        ours = grow_tree(
            np.column_stack([X, Y]), np.arange(inputs), inputs + np.arange(outputs), 2, seed
        )
        draws = np.random.RandomState(seed).normal(size=(outputs, 32))
        theirs = DecisionTreeRegressor(
            splitter="random", min_samples_leaf=2, max_features=64, random_state=seed
        ).fit(X, Y @ draws if outputs > 64 else Y).tree_  # fmt: skip
        shared = min(ours.node_count, theirs.node_count)
        found, expected = (tree.__getstate__()["nodes"][:shared] for tree in (ours, theirs))
        same = found[["feature", "threshold"]] == expected[["feature", "threshold"]]
        first = shared if same.all() else int(np.argmin(same))
        assert first == shared or expected["n_node_samples"][first] <= 12  # a tie
        leaf = ours.apply(X)
        for node in np.unique(leaf):
            mean = Y[leaf == node].mean(axis=0)
            np.testing.assert_allclose(ours.value[node, :, 0], mean, rtol=0, atol=1e-12)
        compared += first
    assert compared > 25


def test_histograms_of_all_columns_are_those_of_each():
    """Columns with and without bins, side by side: to the bit the sum over single columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    X[:, 1], X[:, 4] = rng.integers(0, 5, 400), X[:, 4].round()
    X[0, 3], X[:2, 5] = 9.0, 9.0  # a maximum that one row has, and one that two have
    new = np.vstack([X[:50] + 0.01, 3 * X[:50], X[:50]])
    every = HistogramDetector().fit(X)
    singles = [HistogramDetector().fit(x[:, None]) for x in X.T]
    for rows, method in ((X, "leave_one_out_scores"), (new, "score_samples")):
        total = np.zeros(len(rows))
        for single, x in zip(singles, rows.T, strict=True):
            total += getattr(single, method)(x[:, None])
        np.testing.assert_array_equal(getattr(every, method)(rows), total)
    for j, single in enumerate(singles):
        np.testing.assert_array_equal(every.edges_[j], single.edges_[0])
        np.testing.assert_array_equal(every.counts_[j], single.counts_[0])


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_tree_of_rows_that_do_not_vary_is_a_leaf(outputs):
    for X, Y in (
        (np.ones((9, 2)), np.arange(9.0)[:, None] * np.ones(outputs)),  # no column to split
        (np.arange(18.0).reshape(9, 2), np.full((9, outputs), 0.5)),  # nothing to tell apart
        (np.zeros((1, 2)), np.ones((1, outputs))),
    ):
        both = np.column_stack([X, Y])
        tree = grow_tree(both, np.arange(2), 2 + np.arange(outputs), 1, 0)
        assert tree.node_count == 1
        np.testing.assert_allclose(tree.value[0, :, 0], Y.mean(axis=0))


def test_trees_of_other_columns_are_refused():
    X = np.random.default_rng(0).normal(size=(40, 4))
    detector = ColumnForest(n_trees=4, random_state=0).fit(X)
    detector.inputs_ = [seen[:1] for seen in detector.inputs_]
    with pytest.raises(ValueError, match="other columns"):
        detector.score_samples(X)
    detector.inputs_ = [np.array([0, 9]) for _ in detector.inputs_]
    with pytest.raises((ValueError, IndexError)):
        detector.score_samples(X)
