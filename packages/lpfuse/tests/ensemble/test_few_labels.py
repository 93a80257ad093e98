"""Five labels of each kind beside thousands of rows that nobody looked at: all rows teach."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from lpfuse import FusedDetector, GMMDetector, KNNDetector
from lpfuse.adapters import ScoreColumn

FEW = 5
QUICK = [
    ("gmm", GMMDetector(n_components=2)),
    ("knn", KNNDetector()),
    ("expert", LogisticRegression()),
]


def healthy(rng, n):
    return rng.choice([-2.0, 2.0], size=(n, 1)) + rng.normal(size=(n, 6))


def broken(rng, n):
    return rng.normal([1, -1, 0, 0, 0, 0], 1.6, size=(n, 6))


def rows_and_labels(n, seed):
    """Rows with 1.3 % of anomalies, of which five are known, as five normal rows are."""
    rng = np.random.default_rng(seed)
    bad = round(n / 75)
    X = np.concatenate([healthy(rng, n - bad), broken(rng, bad)])
    y = np.zeros(n)
    y[:FEW], y[-FEW:] = 1, -1
    return X, y, healthy(rng, 2_000), broken(rng, 500)


def area(fused, new, bad):
    truth = np.repeat([1, 0], [len(new), len(bad)])
    return roc_auc_score(truth, fused.score_samples(np.concatenate([new, bad])))


@pytest.mark.parametrize(
    ("n", "pool", "seeds"),
    [
        (600, QUICK, range(4)),
        (3_000, QUICK, range(4)),
        pytest.param(3_000, None, range(2), marks=pytest.mark.slow),
    ],
    ids=["600", "3,000", "3,000 by the default pool"],
)
@pytest.mark.filterwarnings("ignore:The constraint", "ignore:5 normal", "ignore:'expert' give")
def test_rows_without_a_label_set_weights_and_threshold(n, pool, seeds):
    gains = []
    for seed in seeds:
        X, y, new, bad = rows_and_labels(n, seed)
        fused = FusedDetector(pool, random_state=0).fit(X, y)
        few = FusedDetector(pool, random_state=0).fit(X[y != 0], y[y != 0])
        gains.append(area(fused, new, bad) - area(few, new, bad))
        # 5 % asked. The threshold by a fifth of 3,000 rows, or by 600, has a standard error of 0.9.
        assert 0.02 < (fused.predict(new) < 0).mean() < 0.08
        assert len(fused.calibration_) >= (n - FEW) // 5
        known, weights = fused.out_of_fold_.known, fused.out_of_fold_.weights
        assert (weights[known == 0] > 0).all()
        assert (weights[known != 0] == 1).all()
    assert np.mean(gains) > 0.02


@pytest.mark.filterwarnings("ignore:The constraint")
def test_of_score_files_too():
    """Scores of two tools: the weights lean to the better one, by more than ten rows could tell."""
    rng = np.random.default_rng(0)
    truth = np.where(np.arange(3_000) < 2_960, 1, -1)
    S = np.column_stack([2.0 * truth, 0.2 * truth]) + rng.normal(size=(3_000, 2))
    y = np.zeros(3_000)
    y[:FEW], y[-FEW:] = 1, -1
    tools = [(name, ScoreColumn("normal"), [j]) for j, name in enumerate(["good", "poor"])]
    fused = FusedDetector(tools, cv="prefit", random_state=0).fit(S, y)
    assert fused.weights_[0] > fused.weights_[1]
    new = np.column_stack([np.full(4_000, 2.0), np.full(4_000, 0.2)]) + rng.normal(size=(4_000, 2))
    assert 0.03 < (fused.predict(new) < 0).mean() < 0.07
    assert len(fused.calibration_) > 500
