import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from helpers.pools import Distance, Says, both, normal_rows
from lpfuse import SVDD, FixedRule, FusedDetector, KernelPCADetector, OneClassGP, TwoSidedMinMax
from lpfuse.adapters import as_detector
from lpfuse.ensemble.defaults import Strategy, make_members
from lpfuse.ensemble.folds import Training, make_folds
from lpfuse.ensemble.out_of_fold import FitScheduler, add_experts, fit_one_class
from lpfuse.ensemble.pool import Member, Pool

X, Y = both(60, 10)
NEW = normal_rows(9, seed=5)


def learnt(entries, scaler=None):
    """A fitted pool, and the scores that its weights are learnt from."""
    random = np.random.RandomState(0)
    labels = Y.astype(float)
    training = Training(X, labels, make_folds(5, labels, None, None, random))
    members = make_members(entries, X)
    one_class = [member for member in members if not member.learns_from_anomalies]
    experts = [member for member in members if member.learns_from_anomalies]
    (found,) = fit_one_class(one_class, [(training, None)], FitScheduler())
    strategy = Strategy(entries, scaler)
    return add_experts(found, experts, training, FitScheduler(), strategy)[:2]


def without_each_fold(seen):
    """What a logistic regression says of new rows, in the mean of its fits without each fold."""
    folds = make_folds(5, Y.astype(float), None, None, np.random.RandomState(0)).pairs
    fits = [LogisticRegression().fit(seen[learn], Y[learn]) for learn, _ in folds]
    return lambda new: np.mean([one.decision_function(new) for one in fits], axis=0)


def complain(X):
    raise RuntimeError("no")


ONE_CLASS = [("a", Distance(), [0, 1]), ("b", Distance(), [2, 3])]


def test_one_class_detectors_come_before_experts():
    pool, scores = learnt([("expert", LogisticRegression()), *ONE_CLASS])
    assert [member.name for member in pool.members] == ["a", "b", "expert"]
    assert scores.shape == (70, 3)
    assert not np.isnan(scores).any()
    raw, errors = pool.scores(NEW)
    assert errors == {}
    for j, member in enumerate(pool.members):
        seen = pool.expert_inputs(NEW, raw[:, :2]) if member.learns_from_anomalies else NEW
        view = seen if member.columns is None else seen[:, member.columns]
        np.testing.assert_array_equal(raw[:, j], member.estimator.score_samples(view))


def test_experts_see_the_fused_score_beside_the_features():
    entries = [*ONE_CLASS, ("expert", LogisticRegression(), [3])]
    pool, scores = learnt(entries, scaler=TwoSidedMinMax(rho=20))
    expected = TwoSidedMinMax(rho=20).fit(scores[Y > 0, :2])
    np.testing.assert_array_equal(pool.score_scaler.lower_, expected.lower_)
    (expert,) = pool.experts
    assert expert.columns.tolist() == [3, 4]
    raw, _ = pool.scores(NEW)
    seen = np.column_stack([NEW[:, 3], expected.transform(raw[:, :2]).mean(axis=1)])
    np.testing.assert_allclose(raw[:, 2], expert.estimator.score_samples(seen))
    together = expected.transform(scores[:, :2]).mean(axis=1)
    alone = without_each_fold(np.column_stack([X[:, 3], together]))
    np.testing.assert_allclose(raw[:, 2], alone(seen))


def test_experts_alone_see_features_alone():
    pool, scores = learnt([("expert", LogisticRegression())], scaler=TwoSidedMinMax())
    assert pool.score_scaler is None
    assert scores.shape == (70, 1)
    np.testing.assert_allclose(pool.scores(NEW)[0][:, 0], without_each_fold(X)(NEW))


class LastTwo(Strategy):
    """Keeps two of three detectors, from the last to the first."""

    def keep_members(self, members, scores, training):
        assert [member.name for member in members] == ["a", "b", "c"]
        assert scores.shape == (len(training.labels), 3)
        return np.array([2, 1])


class Choosy(FusedDetector):
    def _strategy(self, preparation):
        return LastTwo(**self._choices(preparation))


def test_some_one_class_detectors_can_be_chosen_by_their_scores():
    entries = [*ONE_CLASS, ("c", Distance(power=2)), ("expert", LogisticRegression())]
    settings = {"calibration": "plain", "random_state": 0}
    chosen = Choosy(entries, **settings).fit(X, Y)
    alone = FusedDetector([entries[2], entries[1], entries[3]], **settings).fit(X, Y)
    assert chosen.detector_names_ == alone.detector_names_ == ["c", "b", "expert"]
    np.testing.assert_array_equal(chosen.out_of_fold_.scores, alone.out_of_fold_.scores)
    np.testing.assert_array_equal(chosen.detector_scores(NEW), alone.detector_scores(NEW))
    np.testing.assert_array_equal(chosen.calibration_, alone.calibration_)


def test_without_each_part_detectors_are_chosen_anew():
    entries = [*ONE_CLASS, ("c", Distance(power=2)), ("expert", LogisticRegression())]
    fused = Choosy(entries, fusion=FixedRule(), random_state=0).fit(X, Y)
    assert len(fused.unseen_.parts) == 5
    for part in fused.unseen_.parts:
        learn = part.learnt[Y[part.learnt] > 0]
        for j, (detector, columns) in enumerate(
            [(Distance(power=2), [0, 1, 2, 3]), ONE_CLASS[1][1:]]
        ):
            alone = clone(detector).fit(X[learn][:, columns])
            hidden = alone.score_samples(X[part.hidden][:, columns])
            np.testing.assert_allclose(part.scores[:, j], hidden)


def test_an_error_silences_one_and_is_told():
    fitted = [
        Member("fine", Distance().fit(X)),
        Member("broken", Says(complain).fit(X)),
        Member("expert", as_detector(LogisticRegression()).fit(X, Y)),
    ]
    scores, errors = Pool(fitted[:2], fitted[2:]).scores(NEW)
    assert errors == {"broken": "RuntimeError: no"}
    assert np.isnan(scores[:, 1]).all()
    assert not np.isnan(scores[:, [0, 2]]).any()
    broken_expert, errors = Pool(fitted[:1], [Member("expert", Says(complain).fit(X))]).scores(NEW)
    assert errors == {"expert": "RuntimeError: no"}
    assert not np.isnan(broken_expert[:, 0]).any()


class Sulking(SVDD):
    def _scores(self, X):
        raise RuntimeError("sulks")

    def _finish(self, *arguments):
        raise RuntimeError("sulks")


def test_one_of_several_that_share_their_work_can_fail():
    scaler = StandardScaler().fit(X)
    rows = scaler.transform(X)
    made = {"svdd": SVDD(), "sulking": Sulking(), "kpca": KernelPCADetector(3)}
    members = [
        Member(name, Pipeline([("scale", scaler), ("last", detector.fit(rows))]))
        for name, detector in made.items()
    ]
    scores, errors = Pool(members, []).scores(NEW)
    assert errors == {"sulking": "RuntimeError: sulks"}
    for j, name in [(0, "svdd"), (2, "kpca")]:
        expected = made[name].score_samples(scaler.transform(NEW))
        np.testing.assert_allclose(scores[:, j], expected)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_shared_and_unshared_scores_are_the_same(n_jobs):
    made = [SVDD(), OneClassGP(), KernelPCADetector(3)]
    entries = [(f"{j}", detector) for j, detector in enumerate(made)]
    pool, _ = learnt([*entries, ("apart", SVDD(), [0, 1, 2, 3])])
    raw, _ = pool.scores(NEW, n_jobs)
    for j, detector in enumerate(made):
        np.testing.assert_allclose(raw[:, j], detector.fit(X[Y > 0]).score_samples(NEW))
    np.testing.assert_allclose(raw[:, 3], raw[:, 0])
