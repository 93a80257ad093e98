import numpy as np
import pytest
from joblib import delayed, parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from helpers.pools import Distance, ExpertWitness, Journal, Witness, anomalous_rows, both, numbered
from lpfuse import (
    SVDD,
    FixedRule,
    FusedDetector,
    KernelPCADetector,
    LpFusion,
    OneClassGP,
    TwoSidedMinMax,
)
from lpfuse.ensemble.defaults import make_members
from lpfuse.ensemble.folds import Training, labels_for_weights, make_folds
from lpfuse.ensemble.out_of_fold import (
    EXPERT_ROWS,
    FitScheduler,
    align_fold_medians,
    fit_experts,
    fit_one_class,
    learners_of_experts,
)
from lpfuse.ensemble.pool import Member

# Rows are known by number.
pytestmark = pytest.mark.filterwarnings("ignore:In column 0, numbers only grow")

ROWS, Y = both(60, 10)
X = numbered(ROWS)
HALF = np.where(np.arange(70) % 2, Y, 0)
ONLY_ANOMALIES = np.where(Y > 0, 0, Y)
GROUPS = np.arange(70) // 4
some_labels = pytest.mark.parametrize(
    "y", [None, Y, HALF, ONLY_ANOMALIES], ids=["pure", "all", "half", "anomalies"]
)


def seed():
    return np.random.RandomState(0)


def training(y=None, cv=5, X=X, groups=None, kinds=None, **more):
    labels = np.ones(len(X)) if y is None else y.astype(float)
    folds = None if cv is None else make_folds(cv, labels, groups, kinds, seed())
    return Training(X, labels, folds, groups, kinds, **more)


def fit_once(members, case):
    """Fitted members, and scores of the rows out of fold."""
    (found,) = fit_one_class(members, [(case, None)], FitScheduler())
    assert found.hidden is None
    return found.members, found.scores


def watched(y, fit=None, **settings):
    """What the one-class detectors and the experts of a fused detector saw: two journals."""
    ours, experts = Journal(), Journal()
    pool = [("witness", Witness(ours)), ("other", Distance(), [1, 2])]
    if y is not None and settings.get("cv") != "in-sample":
        pool.append(("expert", ExpertWitness(experts)))
    FusedDetector(pool, fusion=FixedRule(), random_state=0, **settings).fit(X, y, **(fit or {}))
    return ours, experts


GIVEN_AWAY = 1e6


class Indiscreet(ClassifierMixin, BaseEstimator):
    """An expert that gives away whom it has learnt from: rows of a name that it knows.

    `names` are those of the rows, by their numbers in the first column.
    """

    def __init__(self, names):
        self.names = names

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.known_ = np.unique(self._names(X))
        return self

    def decision_function(self, X):
        known = np.isin(self._names(X), self.known_)
        return np.where(known, GIVEN_AWAY, np.asarray(X)[:, 1])

    def _names(self, X):
        return np.asarray(self.names)[np.asarray(X)[:, 0].astype(int)]


def kept_of_experts(y, names, fit=None, **settings):
    """All scores by an `Indiscreet` expert that anything is learnt from, or calibrated by."""
    pool = [("other", Distance(), [1, 2]), ("expert", Indiscreet(names))]
    fused = FusedDetector(pool, fusion=FixedRule(), random_state=0, **settings)
    fused.fit(X, y, **(fit or {}))
    parts = fused.unseen_.parts
    assert (fused.detector_scores(X)[:, 1] > GIVEN_AWAY / 10).all()  # somebody has seen each row
    found = [fused.out_of_fold_.scores, *(part.out_of_fold.scores for part in parts)]
    hidden = [part.scores for part in parts]
    assert (fused.unseen_.by == "cross") == (len(parts) > 0)
    return np.concatenate([*found, *hidden])[:, 1]


def held_out(journal):
    """What was asked, but for the final fit's check that a row's batch does not matter to it."""
    final = max(journal.fits, key=len, default=frozenset())
    return [(learnt, rows) for learnt, rows in journal.asked if not (learnt == final > rows)]


def rows_with(y, *labels):
    y = np.ones(70) if y is None else y
    return {i for i in range(70) if y[i] in labels}


# ------------------------------------------------------------------------- who sees which rows


@pytest.mark.parametrize(
    ("y", "cv"), [(None, 5), (Y, KFold(3)), (HALF, 2), (ONLY_ANOMALIES, 5)], ids=str
)
def test_nobody_scores_what_they_learnt_from(y, cv):
    ours, _ = watched(y, cv=cv)
    assert held_out(ours)
    for learnt, scored in held_out(ours):
        assert not learnt & scored


@pytest.mark.parametrize(
    ("y", "cv", "calibration"),
    [
        (Y, 5, "cross"),
        (Y, KFold(3), "plain"),
        (Y, 2, "cross"),
        (HALF, 5, "plain"),
        (HALF, KFold(3), "cross"),
        (ONLY_ANOMALIES, 5, "cross"),
        (ONLY_ANOMALIES, 2, "plain"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:Scores of 'expert' are higher for known anomalies")
def test_no_expert_score_is_in_sample(y, cv, calibration):
    """They are asked about rows that they know, to tell how much fits differ, and no more."""
    scores = kept_of_experts(y, np.arange(70), cv=cv, calibration=calibration)
    assert np.abs(scores).max() < 100


@some_labels
@pytest.mark.parametrize("cv", [5, "in-sample"])
def test_one_class_detectors_never_see_an_anomaly(y, cv):
    ours, _ = watched(y, cv=cv)
    for learnt in ours.fits:
        assert not learnt & rows_with(y, -1)
    assert rows_with(y, 0, 1) in ours.fits  # in the end all normal and unlabelled rows


@some_labels
def test_all_rows_are_scored_once(y):
    journal = Journal()
    fit_once([Member("witness", Witness(journal))], training(y))
    scored = [row for _, rows in held_out(journal) for row in rows]
    assert sorted(scored) == list(range(70))


@pytest.mark.parametrize("y", [Y, HALF, ONLY_ANOMALIES], ids=["all", "half", "anomalies"])
def test_experts_learn_from_rows_of_both_classes(y):
    _, experts = watched(y)
    times = np.bincount([row for learnt in experts.fits for row in learnt])
    assert len(experts.fits) == 5
    assert times.tolist() == [4] * 70  # unlabelled rows stand in for normal ones
    for learnt in experts.fits:
        assert learnt & rows_with(y, -1)
        assert learnt & rows_with(y, 0, 1)


def test_experts_with_own_folds_are_fitted_to_all_rows():
    _, experts = watched(Y, cv=KFold(3))
    assert len(experts.fits) == 3 + 1
    assert experts.fits[-1] == set(range(70))


@pytest.mark.filterwarnings("ignore:Scores of 'expert' are higher for known anomalies")
@some_labels
def test_groups_never_straddle(y):
    ours, _ = watched(y, fit={"groups": GROUPS})
    assert held_out(ours)
    for learnt, scored in held_out(ours):
        assert not {GROUPS[i] for i in learnt} & {GROUPS[i] for i in scored}
    if y is not None:
        assert np.abs(kept_of_experts(y, GROUPS, {"groups": GROUPS})).max() < 100


@pytest.mark.filterwarnings("ignore:Scores of 'expert' are higher for known anomalies")
def test_kinds_are_hidden_from_experts():
    kind = np.arange(70) % 3
    names = np.where(Y < 0, kind, 100 + np.arange(70))
    assert np.abs(kept_of_experts(Y, names, {"kind": kind})).max() < 100
    assert np.abs(kept_of_experts(Y, names)).max() > 100  # as it is, unless it is asked for


@some_labels
def test_rows_kept_back_are_kept_from_everything_but_the_threshold(y):
    ours, experts = watched(y, calibration="split", false_alarm_rate=0.4)
    aside = set(ours.asked[-1][1])
    assert len(aside) == round(0.2 * len(rows_with(y, 0, 1)))
    for journal, n_fits in [(ours, 1), (experts, 5 if y is not None else 0)]:
        assert not any(learnt & aside for learnt in journal.fits)
        in_the_end = len(journal.asked) - n_fits
        assert not any(rows & aside for _, rows in journal.asked[:in_the_end])
        assert all(rows == aside for _, rows in journal.asked[in_the_end:])


def test_experts_see_the_fused_score_beside_their_columns():
    for columns, width in [(None, 6), ([0, 3], 3)]:
        expert = ExpertWitness(Journal())
        pool = [("a", Distance(), [1, 2]), ("b", Distance(power=2)), ("expert", expert, columns)]
        fused = FusedDetector(pool, random_state=0).fit(X, Y)
        widths = [fit.classifier_.width_ for fit in fused.detectors_[2][1].fits]
        assert widths == [width] * 5


@pytest.mark.parametrize("y", [HALF, ONLY_ANOMALIES], ids=["half", "anomalies"])
def test_rows_that_nobody_looked_at_always_teach(y):
    """Of fitted detectors: whatever else is labelled, their scores move weights and threshold."""
    odd = np.where(y[:, None] == 0, 3 * ROWS, ROWS)
    pool = [("a", Distance([0]).fit(ROWS)), ("b", Distance([1, 2]).fit(ROWS))]
    fused = FusedDetector(pool, fusion=LpFusion(p=2), cv="prefit", random_state=0)
    one, other = (clone(fused).set_params(detectors=pool).fit(rows, y) for rows in (ROWS, odd))
    assert (one.weights_ != other.weights_).any()
    assert len(one.calibration_) == (y >= 0).sum()
    assert (one.calibration_ != other.calibration_).any()


def test_strange_unlabelled_rows_count_less():
    pool = [("a", Distance([0]).fit(ROWS)), ("b", Distance([1, 2]).fit(ROWS))]
    fused = FusedDetector(pool, cv="prefit", random_state=0).fit(ROWS, HALF)
    weights, unseen = fused.out_of_fold_.weights, HALF == 0
    np.testing.assert_array_equal(weights[~unseen], 1)  # labels count in full
    assert (weights[unseen] < 1).all()
    assert (weights > 0).all()
    seen = TwoSidedMinMax().fit(fused.out_of_fold_.scores[HALF >= 0])
    together = seen.transform(fused.out_of_fold_.scores).mean(axis=1)
    assert (np.diff(weights[unseen][np.argsort(together[unseen])]) >= 0).all()


# ------------------------------------------------------------------------------- leaving one out


class CountingGP(OneClassGP):
    """Tells, by a counter that all copies share, how often the closed form was used."""

    used = 0

    def leave_one_out_scores(self, X):
        CountingGP.used += 1
        return super().leave_one_out_scores(X)


@pytest.fixture(autouse=True)
def not_used_yet():
    CountingGP.used = 0


GP = CountingGP(gamma=0.05)


@some_labels
def test_the_formula_replaces_the_folds_where_rows_stand_for_themselves(y):
    journal = Journal()
    members = [Member("gp", GP), Member("witness", Witness(journal)), Member("svdd", SVDD())]
    fitted, scores = fit_once(members, training(y))
    assert CountingGP.used == 1
    y = np.ones(70) if y is None else y
    for i in range(70):
        others = [k for k in range(70) if y[k] >= 0 and k != i]
        expected = clone(GP).fit(X[others]).score_samples(X[[i]])
        np.testing.assert_allclose(scores[[i], 0], expected, rtol=1e-8)
    assert len(journal.fits) == 6
    np.testing.assert_allclose(
        fitted[0].estimator.score_samples(X), clone(GP).fit(X[y >= 0]).score_samples(X)
    )


def test_leave_one_out_formula_needs_independent_complete_rows():
    gaps = np.where(np.arange(70)[:, None] == [3, -1, -1, -1, -1], np.nan, X)
    cases = [
        training(groups=GROUPS),
        training(cv=KFold(3)),
        training(cv=None),
        training(X=gaps),
        training(jittered=X[:5] + 1, source=np.arange(5)),
    ]
    for case in cases:
        _, scores = fit_once([Member("gp", GP)], case)
        if case.folds is not None:
            for learn, score in case.folds.pairs:
                usable = [i for i in learn if not np.isnan(case.X[i]).any()]
                score = [i for i in score if not np.isnan(case.X[i]).any()]
                expected = clone(GP).fit(X[usable]).score_samples(X[score])
                np.testing.assert_allclose(scores[score, 0], expected, rtol=1e-9)
    assert CountingGP.used == 0


def test_shared_preparation_serves_the_leave_one_out_formula():
    def scaled(detector):
        return make_pipeline(StandardScaler(), detector)

    made = [scaled(SVDD()), scaled(GP), scaled(KernelPCADetector(3))]
    members = [Member(f"{i}", detector) for i, detector in enumerate(made)]
    case = training(Y)
    _, scores = fit_once(members, case)
    assert CountingGP.used == 1
    for column in (0, 2):
        for learn, score in case.folds.pairs:
            judge = clone(made[column]).fit(X[[i for i in learn if Y[i] > 0]])
            np.testing.assert_allclose(scores[score, column], judge.score_samples(X[score]))


# -------------------------------------------------------------------------------- other scores


def test_artificial_anomalies_are_scored_in_the_fold_of_their_source():
    journal = Journal()
    jittered = numbered(anomalous_rows(20)) + np.eye(5)[0] * 100
    source = np.arange(40, 60)
    case = training(jittered=jittered, source=source)
    _, scores = fit_once([Member("witness", Witness(journal))], case)
    assert scores.shape == (90, 1)
    assert not np.isnan(scores).any()
    for learnt, scored in held_out(journal):
        assert not learnt & scored
        assert not learnt & {source[i - 100] for i in scored if i >= 100}
    assert (case.truth == np.r_[np.ones(70), -np.ones(20)]).all()
    np.testing.assert_array_equal(
        case.fold_of_truth, np.r_[case.folds.of_row, case.folds.of_row[source]]
    )


def test_in_sample_scores():
    journal = Journal()
    jittered = numbered(anomalous_rows(3)) + np.eye(5)[0] * 100
    case = training(Y, cv=None, jittered=jittered, source=np.arange(3))
    _, scores = fit_once([Member("witness", Witness(journal))], case)
    assert not np.isnan(scores).any()
    assert journal.fits == [frozenset(rows_with(Y, 1))]


def test_labels_that_teach():
    np.testing.assert_array_equal(labels_for_weights(np.array([1.0, 0, -1])), [1, 1, -1])
    np.testing.assert_array_equal(labels_for_weights(np.array([0.0, 0, -1])), [1, 1, -1])


def test_experts_can_learn_where_both_classes_remain():
    y = np.repeat([1, -1], [68, 2])
    assert training(y).experts_can_learn
    assert not training(np.repeat([1, -1], [69, 1])).experts_can_learn
    assert not training().experts_can_learn
    assert training(np.repeat([0, -1], [68, 2])).experts_can_learn
    assert not training(y, kinds=np.zeros(70, dtype=int)).experts_can_learn
    assert training(y, kinds=np.arange(70)).experts_can_learn


def judge(rows, weights=None):
    """A classifier that learnt from some rows, unlabelled ones as normal."""
    labels = np.where(HALF < 0, -1, 1)
    counts = None if weights is None else weights[rows]
    return LogisticRegression().fit(X[rows][:, [1, 3]], labels[rows], sample_weight=counts)


@pytest.mark.parametrize("weights", [None, np.linspace(0.1, 3, 70)], ids=["alike", "weights"])
@pytest.mark.parametrize("cv", [5, KFold(4, shuffle=True, random_state=1)], ids=["dealt", "KFold"])
def test_experts_out_of_fold(weights, cv):
    case = training(HALF, cv=cv)
    (expert,) = make_members([("a", LogisticRegression(), [1, 3])], X)
    whole = X, weights
    (fitted,), scores, shrinkage = fit_experts(
        [expert], whole, [whole] * len(case.folds.pairs), case, FitScheduler()
    )
    view = X[:, [1, 3]]
    judges = [judge(learn, weights) for learn, _ in case.folds.pairs]
    for (_, score), one in zip(case.folds.pairs, judges, strict=True):
        np.testing.assert_allclose(scores[score, 0], one.decision_function(view[score]))
    judges = judges if cv == 5 else [judge(np.arange(70), weights)]
    expected = np.mean([one.decision_function(view) for one in judges], axis=0)
    np.testing.assert_allclose(fitted.estimator.score_samples(view), expected)
    assert (shrinkage is None) == (cv != 5)
    assert shrinkage is None or 0 < shrinkage < 1


def test_experts_learn_by_what_they_see_without_each_fold():
    """And what is seen of all rows is for nobody where folds were dealt out."""
    case = training(HALF)
    (expert,) = make_members([("a", LogisticRegression())], X)
    views = [(X * scale, np.linspace(1, scale, 70)) for scale in range(2, 7)]
    nothing = X * np.nan, np.full(70, np.nan)
    (fitted,), scores, _ = fit_experts([expert], nothing, views, case, FitScheduler())
    labels, judges = np.where(HALF < 0, -1, 1), []
    for (learn, score), (seen, counts) in zip(case.folds.pairs, views, strict=True):
        judges.append(
            LogisticRegression().fit(seen[learn], labels[learn], sample_weight=counts[learn])
        )
        moved = scores[score, 0] - judges[-1].decision_function(seen[score])
        np.testing.assert_allclose(moved, moved[0], rtol=1e-9)  # to the level of the other folds
    expected = np.mean([one.decision_function(X) for one in judges], axis=0)
    np.testing.assert_allclose(fitted.estimator.score_samples(X), expected)


def test_several_trainings_run_together():
    members = [Member("a", Distance()), Member("gp", GP), Member("shy", Distance(), np.array([1]))]
    learn, hide = np.arange(50), np.arange(50, 70)
    gaps = np.where(np.arange(5) == 1, np.nan, X[hide])
    whole, part = fit_one_class(
        members, [(training(Y), None), (training(Y[learn], X=X[learn]), gaps)], FitScheduler()
    )
    fitted, scores = fit_once(members, training(Y))
    np.testing.assert_array_equal(whole.scores, scores)
    for one, other in zip(whole.members, fitted, strict=True):
        np.testing.assert_array_equal(*(m.estimator.score_samples(
            X if m.columns is None else X[:, m.columns]) for m in (one, other)))  # fmt: skip
    _, scores = fit_once(members, training(Y[learn], X=X[learn]))
    np.testing.assert_array_equal(part.scores, scores)
    assert part.members == members  # as they were given: their fits have said all that they will
    assert np.isnan(part.hidden).all()
    seen = fit_one_class(members[:1], [(training(Y[learn], X=X[learn]), X[hide])], FitScheduler())
    alone = clone(members[0].estimator).fit(X[learn][Y[learn] >= 0])
    np.testing.assert_array_equal(seen[0].hidden[:, 0], alone.score_samples(X[hide]))


def test_experts_see_all_labelled_rows_of_very_many():
    n = 5_000
    y = np.zeros(n)
    y[7::50], y[9::70] = 1, -1
    rows = np.arange(0, n, 2)
    case = training(y, X=np.zeros((n, 1)))
    found = learners_of_experts(case, rows)
    assert len(found) == len(set(found))
    assert set(found) <= set(rows)
    for label in (-1, 1):
        assert set(rows[y[rows] == label]) <= set(found)
    assert (y[found] >= 0).sum() == EXPERT_ROWS
    unseen = np.sort(found[y[found] == 0])
    assert np.diff(unseen).max() <= 8  # evenly
    few = rows[:100]
    np.testing.assert_array_equal(learners_of_experts(case, few), few)


def test_experts_see_some_of_very_many_labelled_rows():
    y = np.r_[np.ones(6_000), -np.ones(30), np.zeros(500)]
    case = training(y, X=np.zeros((len(y), 1)))
    found = learners_of_experts(case, np.arange(len(y)))
    counts = [(y[found] == label).sum() for label in (-1, 0, 1)]
    assert counts[0] == 30
    assert sum(counts) == EXPERT_ROWS + 30
    assert counts[2] > 0
    assert counts[1] > 0


def test_folds_without_a_normal_row_are_refused():
    case = training(Y, cv=[(np.flatnonzero(Y < 0), np.flatnonzero(Y > 0))])
    with pytest.raises(ValueError, match="A fold leaves no normal row to learn from"):
        fit_once([Member("a", Distance())], case)


def test_scheduler_reports_done_and_total_work():
    told = []
    scheduler = FitScheduler(progress=lambda *step: told.append(step))
    scheduler.later = 2
    assert list(scheduler.run([delayed(abs)(-i) for i in range(3)])) == [0, 1, 2]
    scheduler.later = 0
    assert list(scheduler.run([delayed(abs)(-5)] * 2)) == [5, 5]
    assert told == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]
    assert list(scheduler.run([delayed(abs)(-7)] * 2, [10, 30])) == [7, 7]
    assert told[5:] == [(15, 45), (45, 45)]  # by how long each takes
    assert list(FitScheduler(n_jobs=1).run([])) == []


def test_what_parts_the_experts_of_folds_alone_is_no_scale():
    """Where every fold's expert gives all its normal rows one score, so do all together."""
    fold, labels = np.repeat([0, 1, 2], 4), np.tile([1, 1, 1, -1], 3)
    scores = np.array([5.0, 5.0, 5.0, -2.0, 5.1, 5.1, 5.1, -3.0, 5.4, 5.4, np.nan, -1.0])[:, None]
    found = align_fold_medians(scores, labels, fold)
    np.testing.assert_allclose(
        found[:, 0], [5.1, 5.1, 5.1, -1.9, 5.1, 5.1, 5.1, -3.0, 5.1, 5.1, np.nan, -1.3]
    )


@pytest.mark.parametrize("backend", ["multiprocessing", "threading", "loky"])
def test_scores_do_not_depend_on_the_backend_of_joblib(backend):
    detectors, told = [("svdd", SVDD()), ("expert", LogisticRegression())], []
    alone = FusedDetector(detectors, cv=3, random_state=0).fit(ROWS, Y)
    with parallel_config(backend=backend, n_jobs=2):
        fused = FusedDetector(detectors, cv=3, random_state=0, n_jobs=2).fit(
            ROWS, Y, progress=lambda *step: told.append(step)
        )
    np.testing.assert_array_equal(fused.score_samples(ROWS), alone.score_samples(ROWS))
    assert told[-1][0] == told[-1][1]
