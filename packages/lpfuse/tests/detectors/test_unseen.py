"""Thresholds by rows that a fit has not seen: `contamination` means that share of unseen rows."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from helpers.cases import cases
from helpers.pairwise import each_value
from lpfuse import SVDD, GMMDetector, KernelPCADetector, OneClassGP
from lpfuse._base import conformal_quantile
from lpfuse.detectors import ColumnForest, HistogramDetector, KNNDetector, fit_together

LANDMARKS = {"approximation": "nystroem", "random_state": 0}
DETECTORS = {
    "SVDD": SVDD(contamination=0.1),
    "SVDD, landmarks": SVDD(contamination=0.1, n_components=10, **LANDMARKS),
    "SVDD, cost": SVDD(C=0.1, contamination=0.1),
    "GP": OneClassGP(),
    "GP, auto": OneClassGP("density", gamma="median", contamination="auto"),
    "GP, landmarks": OneClassGP("density", n_components=10, **LANDMARKS),
    "KPCA": KernelPCADetector(4),
    "KPCA, landmarks": KernelPCADetector(4, n_approximation=10, **LANDMARKS),
    "GMM": GMMDetector(2, random_state=0),
}
every_detector = pytest.mark.parametrize("name", DETECTORS)
WEIGHABLE = [name for name in DETECTORS if name != "GMM" and "landmarks" not in name]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """On rows as few as these, scikit-learn's mixtures spend their time waiting for threads."""
    with threadpool_limits(1):
        yield


def detector(name, **parameters):
    return clone(DETECTORS[name]).set_params(**parameters)


def rows(n=30, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def one_by_one(made, X):
    """Scores of rows by refits without them and their copies, all learnt anew."""
    scores = np.empty(len(X))
    for i, x in enumerate(X):
        others = X[(X != x).any(axis=1)]
        refit = clone(made).set_params(offset_from="training")
        if getattr(made, "C", None) is not None:
            refit.set_params(C=made.C * len(X) / len(others))
        scores[i] = refit.fit(others).score_samples(X[i : i + 1])[0]
    return scores


# --------------------------------------------------------------------------------- against refits


@each_value(name=DETECTORS, rank=(1, 10))
def test_the_threshold_is_a_score_of_a_row_left_out(name, rank):
    X = rows()
    share = "auto" if name == "GP, auto" else rank / 31
    made = detector(name, contamination=share)
    expected = np.sort(one_by_one(made, X))[(3 if share == "auto" else rank) - 1]
    assert made.fit(X).offset_ == pytest.approx(expected, rel=1e-6, abs=1e-9)


@every_detector
def test_equal_rows_are_left_out_together(name):
    X = np.vstack([rows(20), rows(20)[:9], rows(20)[3:5]])
    made = detector(name, contamination=0.2)
    scores = np.sort(one_by_one(made, X))
    # Of 20 different rows with 31 / 20 copies each, on average: 1/5 of 21 of them less one.
    expected = scores[int((0.2 * 21 - 1) * 31 / 20)]
    assert made.fit(X).offset_ == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", WEIGHABLE)
def test_a_row_of_weight_two_counts_as_two_equal_rows(name):
    X, counts = rows(25), np.arange(25) % 3
    made = detector(name, contamination=0.3, gamma=0.3)  # a median does not know of weights
    weighted = clone(made).fit(X, sample_weight=counts)
    repeated = clone(made).fit(np.repeat(X, counts, axis=0))
    again = clone(made).fit(np.vstack([X[counts > 0], X[counts > 1]]))
    close = {"rel": 1e-3} if "SVDD" in name else {"rel": 1e-6, "abs": 1e-8}  # libsvm's tolerance
    assert weighted.offset_ == pytest.approx(repeated.offset_, **close)
    assert repeated.offset_ == pytest.approx(again.offset_, **close)


def exact_quantile(pairs, different, share):
    """The highest score with few enough rows strictly below: of n + 1, a share less one row."""
    whole = Fraction(sum(weight for _, weight in pairs))
    unit = whole / different
    allowed = share * (whole + unit) - unit
    scores = sorted(score for score, _ in pairs)
    below = {s: sum(weight for score, weight in pairs if score < s) for s in scores}
    return max((s for s in scores if below[s] <= max(allowed, 0)), default=scores[0])


@settings(deadline=None, derandomize=True)
@given(
    pairs=st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 4)), min_size=1, max_size=30),
    percent=st.sampled_from([1, 5, 10, 20, 25, 33, 50]),
)
def test_the_quantile_counts_exactly(pairs, percent):
    scores, weights = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    found = conformal_quantile(scores, weights, len(pairs), percent / 100)
    assert found == exact_quantile(pairs, len(pairs), Fraction(percent, 100))


# ---------------------------------------------------------------------------- what a row can move


with_a_number = pytest.mark.parametrize("name", [name for name in DETECTORS if "auto" not in name])


@with_a_number
def test_a_row_turned_to_nonsense_is_scored_by_the_others(name):
    """Its own score is that of the nonsense by a fit that has not seen it, the lowest of all."""
    X = rows(30)
    for row in (0, 17):
        poisoned = X.copy()
        poisoned[row] = 1e3
        others = detector(name, offset_from="training")
        if name == "SVDD, cost":
            others.set_params(C=0.1 * 30 / 29)
        expected = others.fit(np.delete(X, row, axis=0)).score_samples(poisoned[row : row + 1])[0]
        lowest = detector(name, contamination=1 / 31).fit(poisoned).offset_
        assert lowest == pytest.approx(expected, rel=1e-6, abs=1e-9)


@with_a_number
def test_rows_of_one_part_do_not_move_each_other(name):
    """150 rows in parts: all rows of a part but one are poisoned, and its score stays."""
    X, count = rows(150), 50 if name in ("SVDD", "SVDD, cost") else 20
    parts = np.random.default_rng(0).permutation(np.arange(150) % count)
    part = np.flatnonzero(parts == 3)
    far = X.copy()
    far[part[0]] = 30.0  # beyond all others: the lowest score, whoever is left out
    nonsense = far.copy()
    nonsense[part[1:]] = rows(len(part) - 1, seed=5) / 100
    plain, moved = (detector(name, contamination=0.004).fit(each) for each in (far, nonsense))
    assert moved.offset_ == plain.offset_


# -------------------------------------------------------------------- false alarms on unseen rows


def draw_gaussian(rng, n):
    return rng.normal(size=(n, 4))


def draw_heavy(rng, n):
    return rng.standard_t(2, size=(n, 4))


def draw_binary(rng, n):
    return (rng.random((n, 4)) < [0.5, 0.3, 0.2, 0.1]).astype(float)


def alarms(made, draw, n, fits, share):
    """Alarms, a share a fit, on 1,000 unseen rows."""
    found = []
    for seed in range(fits):
        rng = np.random.default_rng(seed)
        fitted = clone(made).set_params(contamination=share).fit(draw(rng, n))
        found.append((fitted.predict(draw(rng, 1000)) == -1).mean())
    return np.array(found)


FAST = ["SVDD", "SVDD, landmarks", "GP", "GP, landmarks", "KPCA", "KPCA, landmarks"]


@each_value(name=(*FAST, "GMM"), draw=(draw_gaussian, draw_heavy))
def test_unseen_rows_lie_below_as_often_as_was_asked_for(name, draw):
    """At most the share, and not less by two points; tested at the level 0.001, one side each."""
    fits = 8 if name in ("GMM", "SVDD, landmarks") else 24  # the slow ones
    found = alarms(DETECTORS[name], draw, 120, fits, 0.1)
    margin = norm.isf(0.001) * found.std(ddof=1) / np.sqrt(len(found))
    assert 0.08 - margin < found.mean() < 0.1 + margin
    assert margin < 0.06


@pytest.mark.parametrize("name", [*FAST, "GMM"])
def test_training_rows_promise_too_little(name):
    """Why the in-sample rule has to be asked for by its name."""
    made = clone(DETECTORS[name]).set_params(offset_from="training")
    assert alarms(made, draw_gaussian, 40, 6, 0.05).mean() > 0.07


@each_value(name=(*FAST, "GMM"), share=(0.05, 0.1))
def test_of_discrete_rows_no_more_than_the_share(name, share):
    found = alarms(DETECTORS[name], draw_binary, 120, 6, share)
    margin = norm.isf(0.001) * found.std(ddof=1) / np.sqrt(len(found))
    assert found.mean() <= share + margin


@pytest.mark.parametrize(
    "made", [KNNDetector(), HistogramDetector(), ColumnForest(16, random_state=0)], ids=str
)
def test_detectors_with_leave_one_out_scores_keep_their_share_too(made):
    found = alarms(made, draw_gaussian, 120, 24, 0.1)
    margin = norm.isf(0.001) * found.std(ddof=1) / np.sqrt(len(found))
    assert 0.08 - margin < found.mean() < 0.1 + margin


# --------------------------------------------------------------------------- few rows, and labels


@pytest.mark.parametrize("name", DETECTORS)
@cases("n", [2, 5, 19])
@pytest.mark.filterwarnings("ignore::lpfuse.detectors.KernelWidthWarning")
@pytest.mark.filterwarnings("ignore:n_components=.* rows. there are:UserWarning")
def test_few_rows_have_a_threshold(name, n):
    C = {"C": 0.8} if name == "SVDD, cost" else {}
    fitted = detector(name, **C).fit(rows(n))
    assert np.isfinite(fitted.offset_)
    assert fitted.predict(rows(n)).shape == (n,)


@every_detector
def test_rows_that_are_all_alike_lie_above_their_threshold(name):
    X = np.tile([1.0, 2.0, 3.0], (12, 1))
    assert (detector(name).fit(X).predict(X) == 1).all()


def test_more_rows_than_five_thousand_are_split_once():
    X = rows(5001)
    fitted = OneClassGP(contamination=0.1, n_components=20, **LANDMARKS).fit(X)
    left_out = np.random.default_rng(0).permutation(np.arange(5001) % 10) == 0
    refit = clone(fitted).set_params(offset_from="training").fit(X[~left_out])
    scores = np.sort(refit.score_samples(X[left_out]))
    assert fitted.offset_ == pytest.approx(scores[int(0.1 * (len(scores) + 1)) - 1], rel=1e-8)


def test_known_anomalies_are_never_left_out():
    X, y = np.vstack([rows(30), 4 + rows(5, seed=1)]), np.repeat([1, -1], [30, 5])
    made = SVDD(gamma=0.3, contamination=0.1)
    scores = []
    for i in range(30):
        refit = clone(made).set_params(offset_from="training")
        refit.fit(np.delete(X, i, axis=0), np.delete(y, i))
        scores.append(refit.score_samples(X[i : i + 1])[0])
    assert made.fit(X, y).offset_ == pytest.approx(np.sort(scores)[2], rel=1e-3)


# ------------------------------------------------------------------------------ many at once


@pytest.mark.filterwarnings("error")
def test_refits_say_nothing_about_the_width_again():
    X = np.vstack([rows(40), [[50.0, 0, 0], [0, 50.0, 0]]])
    KernelPCADetector(4, gamma="narrow").fit(X)


@every_detector
def test_without_thresholds_a_fit_is_that_of_training_rows(name):
    X = rows(40)
    together = fit_together([detector(name)], X, thresholds=False)[0]
    alone = detector(name, offset_from="training").fit(X)
    assert together.offset_ == pytest.approx(alone.offset_, rel=1e-9, abs=1e-12)
    assert together.offset_from == "unseen"
    np.testing.assert_allclose(together.score_samples(X), alone.score_samples(X))
