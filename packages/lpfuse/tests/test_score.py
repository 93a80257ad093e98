"""`score`: the area under the ROC curve, of detectors, fusions and fused detectors alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV

from helpers.cases import cases
from lpfuse import (
    SVDD,
    ColumnForest,
    FixedRule,
    FusedDetector,
    GMMDetector,
    HistogramDetector,
    KernelPCADetector,
    KNNDetector,
    LpFusion,
    OneClassGP,
)
from lpfuse._base import Scorer
from lpfuse.fusion import BestSingle, LogisticStacker

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(size=(60, 3)), RNG.normal(1.5, 1, size=(20, 3))])
Y = np.repeat([1, -1], [60, 20])


def pairs_in_order(y, scores, weights=None):
    """The definition: pairs of a normal row and an anomaly, one by one."""
    weights = np.ones(len(y)) if weights is None else weights
    won = total = 0.0
    for i in np.flatnonzero(y > 0):
        for j in np.flatnonzero(y < 0):
            weight = weights[i] * weights[j]
            total += weight
            won += weight * (1.0 if scores[i] > scores[j] else 0.5 * (scores[i] == scores[j]))
    return won / total


class Given(Scorer, BaseEstimator):
    """Its first column is its score."""

    offset_ = 0.0

    def score_samples(self, X):
        return np.asarray(X, dtype=float)[:, 0]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 1.0, 2.0, -3.5, 1e300, float("nan")]),
            st.sampled_from([1, -1, 0]),
            st.sampled_from([0.5, 1.0, 3.0]),
        ),
        min_size=2,
        max_size=12,
    ).filter(lambda rows: {1, -1} <= {label for _, label, _ in rows})
)
def test_it_is_the_share_of_pairs_in_order(rows):
    scores, y, weights = map(np.array, zip(*rows, strict=True))
    lowest = np.where(np.isnan(scores), -np.inf, scores)  # nobody speaks for such a row
    assert Given().score(scores[:, None], y) == pytest.approx(pairs_in_order(y, lowest))
    weighted = Given().score(scores[:, None], y, sample_weight=weights)
    assert weighted == pytest.approx(pairs_in_order(y, lowest, weights))


@pytest.mark.parametrize(
    "detector",
    [
        SVDD(), OneClassGP(), KernelPCADetector(), GMMDetector(random_state=0), KNNDetector(),
        HistogramDetector(), ColumnForest(4, random_state=0),
        FusedDetector(["gmm", "knn"], random_state=0),
    ],
    ids=lambda detector: type(detector).__name__,
)  # fmt: skip
def test_of_every_detector(detector):
    detector.fit(X[:60])
    assert detector.score(X, Y) == pytest.approx(pairs_in_order(Y, detector.score_samples(X)))
    assert detector.score(X, Y) > 0.7


@cases(
    "fusion",
    [LpFusion(), FixedRule("sum"), FixedRule("max"), BestSingle(), LogisticStacker()],
)
@pytest.mark.filterwarnings("ignore:The constraint .* is not active")
def test_of_every_fusion(fusion):
    S = Y[:, None] * [1.0, 0.5, 0.1] + RNG.normal(size=(80, 3))
    fusion.fit(S, Y)
    assert fusion.score(S, Y) == pytest.approx(pairs_in_order(Y, fusion.score_samples(S)))


@pytest.mark.filterwarnings("ignore:Some detectors could not score")
def test_rows_that_detectors_are_silent_about():
    fused = FusedDetector([("a", SVDD(), [0, 1]), ("b", GMMDetector(), [2])], random_state=0)
    fused.fit(X[:60])
    gappy = X.copy()
    gappy[::5, 2] = gappy[70] = np.nan
    decision = np.nan_to_num(fused.decision_function(gappy), nan=-np.inf)
    assert fused.score(gappy, Y) == pytest.approx(pairs_in_order(Y, decision))


def test_other_libraries():
    torch, da = pytest.importorskip("torch"), pytest.importorskip("dask.array")
    detector = OneClassGP().fit(X[:60])
    expected = detector.score(X, Y)
    assert detector.score(torch.tensor(X), torch.tensor(Y)) == pytest.approx(expected)
    blocks = da.from_array(X, chunks=(32, 3)), da.from_array(Y, chunks=32)
    assert detector.score(*blocks) == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore:y holds 1 and 0")
@pytest.mark.parametrize("y", [None, np.ones(80), np.repeat([0, 1], 40), -np.ones(80), Y + 1])
def test_labels_that_nothing_can_be_compared_by_are_refused(y):
    with pytest.raises(ValueError, match="normal"):
        OneClassGP().fit(X[:60]).score(X, y)


def test_searches_need_no_scoring():
    search = GridSearchCV(OneClassGP(), {"gamma": [0.01, 0.3]}, cv=3, error_score="raise")
    rows = RNG.permutation(80)
    search.fit(X[rows], Y[rows])
    assert 0.5 < search.best_score_ <= 1
