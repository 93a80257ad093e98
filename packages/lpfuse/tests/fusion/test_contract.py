"""What every way to fuse scores must do, whoever invented it."""

import inspect
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from helpers.pools import Nearby
from lpfuse import FixedRule, FusedDetector, GMMDetector, KernelPCADetector, LpFusion
from lpfuse.fusion.stacking import BestSingle, LinearSVMStacker, LogisticStacker

RIVALS = [
    LpFusion(class_weight="balanced", nonnegative=True),
    LpFusion(loss="least_squares", p=2),
    *(FixedRule(rule) for rule in ("sum", "product", "aom")),
    BestSingle(),
    LinearSVMStacker(),
    LogisticStacker(),
]
rng = np.random.default_rng(0)
Y = np.repeat([1.0, -1.0], [120, 20])
S = Y[:, None] * [0.8, 0.5, 0.4] + rng.normal(scale=0.4, size=(140, 3))


def quietly(fusion, *arguments):
    """Fitted; stackers say that they cannot learn from normal rows alone, and so on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(fusion).fit(*arguments)


every_rival = pytest.mark.parametrize("rival", RIVALS, ids=str)


def pure_and_labelled(scores):
    """Both kinds of training data: normal rows alone, and all rows with their labels."""
    return (scores[Y > 0], None), (scores, Y)


@every_rival
def test_methods_agree_and_a_fit_can_be_repeated(rival):
    for rows, y in pure_and_labelled(S):
        fused = quietly(rival, rows, y)
        scores = fused.score_samples(S)
        assert scores.shape == (140,)
        assert np.isfinite(scores).all()
        assert isinstance(float(fused.offset_), float)
        np.testing.assert_allclose(fused.decision_function(S), scores - fused.offset_, atol=1e-12)
        np.testing.assert_array_equal(fused.predict(S), np.where(scores >= fused.offset_, 1, -1))
        assert fused.n_features_in_ == 3
        assert scores[Y > 0].mean() > scores[Y < 0].mean()
        np.testing.assert_array_equal(quietly(rival, rows, y).score_samples(S), scores)


def test_fit_takes_scores_labels_and_weights():
    for rival in RIVALS:
        names = list(inspect.signature(rival.fit).parameters)
        assert names[:3] == ["S", "y", "sample_weight"], rival


@every_rival
def test_one_detector_keeps_its_order(rival):
    for rows, y in pure_and_labelled(S[:, :1]):
        low, high = quietly(rival, rows, y).score_samples([[-0.5], [0.5]])
        assert low <= high


@every_rival
def test_one_anomaly_is_enough(rival):
    fused = quietly(rival, S[:121], Y[:121])
    assert np.isfinite(fused.score_samples(S)).all()


@every_rival
def test_a_constant_column_does_no_harm(rival):
    flat = np.column_stack([S, np.full(140, 0.3)])
    for rows, y in pure_and_labelled(flat):
        scores = quietly(rival, rows, y).score_samples(flat)
        assert np.isfinite(scores).all()
        assert scores[Y > 0].mean() >= scores[Y < 0].mean()


@every_rival
def test_refusals_are_in_words_and_change_nothing(rival):
    with pytest.raises(NotFittedError):
        clone(rival).score_samples(S)
    fused = quietly(rival, S, Y)
    before = fused.score_samples(S)
    with pytest.raises(ValueError, match="NaN"):
        fused.fit(np.where(S > 1, np.nan, S), Y)
    with pytest.raises(ValueError, match="y must be"):
        fused.fit(S, Y * 3)
    with pytest.raises(ValueError, match="2 features"):
        fused.score_samples(S[:, :2])
    np.testing.assert_array_equal(fused.score_samples(S), before)


@every_rival
def test_each_has_a_place_in_the_fused_detector(rival):
    X = np.concatenate([rng.normal(size=(120, 2)), rng.normal(3.0, 1.0, size=(20, 2))])
    pool = [("kpca", KernelPCADetector()), ("gmm", GMMDetector())]
    for rows, y in pure_and_labelled(X):
        fused = quietly(FusedDetector(pool, fusion=rival, random_state=0), rows, y)
        assert set(fused.predict(X)) <= {1, -1}
        scores = fused.score_samples(X)
        assert scores[Y > 0].mean() > scores[Y < 0].mean()
        assert ((fused.pvalues(X) > 0) & (fused.pvalues(X) <= 1)).all()


@every_rival
def test_each_can_be_saved_and_loaded(rival, tmp_path):
    pytest.importorskip("skops", reason="parts of scikit-learn are saved by skops")
    from lpfuse import load
    from lpfuse.io import save

    fused = quietly(rival, S, Y)
    save(fused, tmp_path / "fusion")
    np.testing.assert_array_equal(
        load(tmp_path / "fusion").score_samples(S), fused.score_samples(S)
    )


def test_features_that_no_detector_reads_may_be_missing():
    X = rng.normal(size=(120, 3))
    X[::7, 2] = np.nan
    pool = [("kpca", KernelPCADetector(), [0, 1]), ("gmm", GMMDetector(), [0, 1])]
    fused = quietly(FusedDetector(pool, fusion=Nearby(), random_state=0), X)
    assert np.isfinite(fused.score_samples(X)).all()
    at_mean = X.copy()
    at_mean[::7, 2] = np.nanmean(X[:, 2])
    np.testing.assert_allclose(fused.score_samples(X), fused.score_samples(at_mean))
