"""Members that score a row by its batch, or at random, are refused; all others are left alone."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata
from sklearn.base import BaseEstimator
from sklearn.covariance import EllipticEnvelope
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, IsolationForest, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import OneClassSVM

from helpers.pools import Distance, both, normal_rows
from lpfuse import SVDD, FusedDetector, KernelPCADetector
from lpfuse.adapters import ScoreFunction, as_detector
from lpfuse.ensemble.pool import FEWEST_CHECKED, MOST_CHECKED, Member, check_scores_by_row

X = normal_rows(120)
BY_BATCH = r"scores a row by what else is in its batch: .* Leave it out, or use a detector"


def norms(rows):
    return np.linalg.norm(rows, axis=1)


def by_function(score):
    return ScoreFunction(score, high="anomaly")


def check(detector, rows=X, columns=None):
    """Fit a detector, and ask whether it is one to be refused."""
    fitted = as_detector(detector).fit(rows if columns is None else rows[:, columns])
    check_scores_by_row(Member("mine", fitted, columns), rows)


def of_pyod(name, **parameters):
    module, make = name.split(".")
    return getattr(pytest.importorskip(f"pyod.models.{module}"), make)(**parameters)


BATCH_DEPENDENT = {
    "standardised": lambda rows: (norms(rows) - norms(rows).mean()) / norms(rows).std(),
    "centred": lambda rows: norms(rows - rows.mean(axis=0)),
    "min-max": lambda rows: norms(rows) / norms(rows).max(),
    "count of those below": lambda rows: rankdata(norms(rows)),
    "count of those above": lambda rows: -rankdata(-norms(rows)),
    "ranks": lambda rows: rankdata(norms(rows)) / len(rows),
    "hardly": lambda rows: norms(rows) + 0.01 * norms(rows).mean(),
    "size of the batch": lambda rows: norms(rows) + len(rows),
    "some infinite": lambda rows: np.where(norms(rows) > 5, np.inf, norms(rows) / len(rows)),
}


@pytest.mark.parametrize("score", BATCH_DEPENDENT.values(), ids=BATCH_DEPENDENT)
def test_batch_dependent_scores_raise(score):
    with pytest.raises(ValueError, match=rf"'mine' \(function\) {BY_BATCH}"):
        check(by_function(score))


def test_so_is_a_preparation_that_looks_at_the_batch():
    ranks = FunctionTransformer(lambda rows: rankdata(rows, axis=0) / len(rows))
    with pytest.raises(ValueError, match=BY_BATCH):
        check(make_pipeline(ranks, IsolationForest(random_state=0)))


def test_a_batch_that_joins_many_training_rows_is_noticed():
    class Joined(BaseEstimator):  # as PyOD's ECOD does
        def fit(self, X, y=None):
            self.rows_ = X
            return self

        def score_samples(self, X):
            ranks = rankdata(np.concatenate([self.rows_, X]), axis=0)[len(self.rows_) :]
            return np.log(ranks / (len(self.rows_) + len(X))).sum(axis=1)

    for n in (50, 2_000, 200_000):
        with pytest.raises(ValueError, match=BY_BATCH):
            check(Joined(), np.random.default_rng(0).normal(size=(n, 3)))


ROW_BY_ROW = {
    "distance": Distance(),
    "constant": by_function(lambda rows: np.ones(len(rows))),
    "whole numbers": by_function(lambda rows: norms(rows).astype(int)),
    "some infinite": by_function(lambda rows: np.where(norms(rows) > 5, np.inf, norms(rows))),
    "all missing": by_function(lambda rows: np.full(len(rows), np.nan)),
    "single precision": by_function(lambda rows: norms(np.float32(rows))),
    "small beside its level": by_function(lambda rows: np.float32(1e4 + norms(rows))),
    "rounding of the batch": by_function(
        lambda rows: norms(rows) + 1e-7 * np.sin(len(rows) * norms(rows))
    ),
    "nothing but rounding": by_function(lambda rows: 1e-16 * (norms(rows) > norms(rows).mean())),
    "isolation forest": IsolationForest(random_state=0),
    "local outlier factor": LocalOutlierFactor(novelty=True),
    "one-class SVM": OneClassSVM(),
    "ellipse": EllipticEnvelope(random_state=0),
    "pipeline": make_pipeline(StandardScaler(), PCA(2), OneClassSVM()),
    "frozen": FrozenEstimator(IsolationForest(random_state=0).fit(X)),
}


@pytest.mark.parametrize("detector", ROW_BY_ROW.values(), ids=ROW_BY_ROW)
def test_row_by_row_scores_are_accepted(detector):
    check(detector, X)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("name", ["distance", "constant", "all missing", "isolation forest"])
def test_few_rows_are_accepted(name, n):
    check(ROW_BY_ROW[name], X[:n])


def test_who_scores_at_random_is_told_so():
    rng = np.random.default_rng(0)
    noisy = by_function(lambda rows: norms(rows) + rng.normal(size=len(rows)))
    words = r"'mine' \(function\) scores at random: the same 32 rows got other scores .* Fix its"
    with pytest.raises(ValueError, match=words):
        check(noisy)


def test_detector_that_needs_a_large_batch_raises():
    def neighbours(rows):
        if len(rows) < 40:
            raise IndexError("no fortieth row")
        return norms(rows)

    words = r"scores 120 rows, but not 32 of them by themselves \(IndexError: no fortieth row\)"
    with pytest.raises(ValueError, match=words):
        check(by_function(neighbours))


def test_who_always_fails_does_so_with_its_own_error():
    def broken(rows):
        raise ZeroDivisionError("out of order")

    with pytest.raises(ZeroDivisionError, match="out of order"):
        check(by_function(broken))


def test_few_rows_are_asked_about_and_own_detectors_never():
    asked = []

    def counted(rows):
        asked.append(len(rows))
        return norms(rows)

    for n, most in [(120, FEWEST_CHECKED), (20_000, 100), (500_000, MOST_CHECKED)]:
        asked.clear()
        check(by_function(counted), np.random.default_rng(0).normal(size=(n, 2)))
        assert asked == [most, most // 2]

    class Silent(SVDD):
        def score_samples(self, X):
            raise AssertionError("was asked")

    check(Silent())
    check(make_pipeline(StandardScaler(), Silent()))
    check(FrozenEstimator(Silent().fit(X)))


# ------------------------------------------------------------------------- in a fused detector


def pool(detector, *columns):
    return [("mine", detector, *columns), ("kpca", KernelPCADetector())]


def test_a_fused_detector_refuses_them_and_stays_as_it_was():
    fused = FusedDetector(pool(by_function(BATCH_DEPENDENT["ranks"])), random_state=0)
    with pytest.raises(ValueError, match=BY_BATCH):
        fused.fit(X)
    assert not hasattr(fused, "offset_")


@pytest.mark.parametrize("cv", [3, "in-sample", "prefit"])
def test_fitted_or_not(cv):
    class Ranks(BaseEstimator):
        def fit(self, X, y=None):
            self.fitted_ = True
            return self

        def score_samples(self, X):
            return -BATCH_DEPENDENT["ranks"](X)

    detectors = [("mine", Ranks().fit(X)), ("other", Distance().fit(X))]
    with pytest.raises(ValueError, match=rf"'mine' \(Ranks\) {BY_BATCH}"):
        FusedDetector(detectors, cv=cv, random_state=0).fit(X)


def test_experts_as_well():
    class Expert(RandomForestClassifier):
        def predict_proba(self, X):
            share = super().predict_proba(X)
            return (share + share.mean(axis=0)) / 2

    rows, y = both(60, 12)
    expert = Expert(n_estimators=20, random_state=0)
    with pytest.raises(ValueError, match=rf"\(Expert\) {BY_BATCH}"):
        FusedDetector(pool(expert), random_state=0).fit(rows, y)


@pytest.mark.parametrize("complete", [60, 2, 1])
def test_rows_with_gaps_are_scored_where_they_can_be(complete):
    rows = X.copy()
    rows[complete:, 0] = np.nan
    check_scores_by_row(Member("mine", Distance().fit(X)), rows)
    with pytest.raises(ValueError, match=BY_BATCH):  # knows what to do with gaps
        check(by_function(lambda part: norms(np.nan_to_num(part)) * len(part)), rows)


def test_gaps_in_unused_columns_do_not_matter():
    rows = X.copy()
    rows[:, 0] = np.nan
    with pytest.raises(ValueError, match=BY_BATCH):
        check(by_function(BATCH_DEPENDENT["centred"]), rows, columns=np.array([1, 2]))


def test_words_in_data_frames():
    frame = pd.DataFrame({"a": X[:, 0], "word": np.where(X[:, 1] > 0, "yes", None)})
    encode = FunctionTransformer(lambda part: part.assign(word=part["word"].eq("yes") * 1.0))
    FusedDetector(
        [("forest", make_pipeline(encode, IsolationForest(random_state=0)))], random_state=0
    ).fit(frame, columns="as-is")


def test_an_expert_that_takes_gaps():
    rows, y = both(60, 12)
    rows[::3, 0] = np.nan
    detectors = [("trees", HistGradientBoostingClassifier(max_iter=5)), ("mine", Distance())]
    with pytest.warns(UserWarning, match="'mine' .24 of 72 rows"):
        FusedDetector(detectors, random_state=0).fit(rows, y)


SLOWLY = pytest.mark.slow  # one of each kind is enough while one works


@pytest.mark.parametrize(
    "name",
    ["lmdd.LMDD", *(pytest.param(name, marks=SLOWLY) for name in ("sos.SOS", "loci.LOCI"))],
)
def test_batch_dependent_detectors_of_pyod_raise(name):
    with pytest.raises(ValueError, match=rf"'mine' \({name.split('.')[1]}\) scores"):
        check(of_pyod(name))


FURTHER = (
    "lof.LOF", "hbos.HBOS", "pca.PCA", "ocsvm.OCSVM", "gmm.GMM", "kde.KDE", "mcd.MCD", "inne.INNE",
    "cblof.CBLOF", "loda.LODA", "abod.ABOD", "kpca.KPCA",
    "copod.COPOD", "cof.COF", "sod.SOD", "cd.CD", "rod.ROD",  # joined to the training rows
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "knn.KNN",
        "iforest.IForest",
        "ecod.ECOD",
        *(pytest.param(name, marks=SLOWLY) for name in FURTHER),
    ],
)
def test_row_by_row_detectors_of_pyod_are_accepted(name):
    check(of_pyod(name))
