import numpy as np
import pytest
from joblib import delayed
from sklearn.base import clone
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
from lpfuse.ensemble._defaults import make_members
from lpfuse.ensemble._experts import _on_one_level, fit_experts
from lpfuse.ensemble._members import Member
from lpfuse.ensemble._out_of_fold import (
    EXPERT_ROWS,
    FitScheduler,
    fit_one_class,
    learners_of_experts,
)
from lpfuse.ensemble._training import Training, labels_for_weights, make_folds

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


def watched(y, fit=None, **settings):
    """What the one-class detectors and the experts of a fused detector saw: two journals."""
    ours, experts = Journal(), Journal()
    pool = [("witness", Witness(ours)), ("other", Distance(), [1, 2])]
    if y is not None and settings.get("cv") != "in-sample":
        pool.append(("expert", ExpertWitness(experts)))
    FusedDetector(pool, fusion=FixedRule(), random_state=0, **settings).fit(X, y, **(fit or {}))
    return ours, experts


def held_out(journal):
    """What was asked, but for the final fit's check that a row's batch does not matter to it."""
    final = max(journal.fits, key=len, default=frozenset())
    return [(learnt, rows) for learnt, rows in journal.asked if not (learnt == final > rows)]


def rows_with(y, *labels):
    y = np.ones(70) if y is None else y
    return {i for i in range(70) if y[i] in labels}


# ------------------------------------------------------------------------- who sees which rows


@some_labels
@pytest.mark.parametrize("cv", [5, KFold(3), 2], ids=str)
def test_nobody_scores_what_they_learnt_from(y, cv):
    for journal in watched(y, cv=cv):
        for learnt, scored in held_out(journal):
            assert not learnt & scored


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
    fit_one_class([Member("witness", Witness(journal))], training(y), FitScheduler())
    scored = [row for _, rows in held_out(journal) for row in rows]
    assert sorted(scored) == list(range(70))


@pytest.mark.parametrize("y", [Y, HALF, ONLY_ANOMALIES], ids=["all", "half", "anomalies"])
def test_experts_learn_from_rows_of_both_classes(y):
    _, experts = watched(y)
    assert set(range(70)) in experts.fits  # unlabelled rows stand in for normal ones
    for learnt in experts.fits:
        assert learnt & rows_with(y, -1)
        assert learnt & rows_with(y, 0, 1)


@some_labels
def test_groups_never_straddle(y):
    for journal in watched(y, fit={"groups": GROUPS}):
        for learnt, scored in held_out(journal):
            assert not {GROUPS[i] for i in learnt} & {GROUPS[i] for i in scored}


def test_kinds_are_hidden_from_experts():
    kind = np.arange(70) % 3
    _, experts = watched(Y, fit={"kind": kind})
    anomalies = rows_with(Y, -1)
    assert held_out(experts)
    for learnt, scored in held_out(experts):
        assert not {kind[i] for i in learnt & anomalies} & {kind[i] for i in scored & anomalies}


@some_labels
def test_rows_kept_back_are_kept_from_everything_but_the_threshold(y):
    ours, experts = watched(y, calibration="split", false_alarm_rate=0.4)
    kept_back = set(ours.asked[-1][1])
    assert len(kept_back) == round(0.2 * len(rows_with(y, 0, 1)))
    for journal in (ours, experts):
        assert not any(learnt & kept_back for learnt in journal.fits)
        assert not any(rows & kept_back for _, rows in journal.asked[:-1])


def test_experts_see_scores_beside_their_columns():
    for sees, columns, width in [(True, None, 7), (False, None, 5), (True, [0, 3], 4)]:
        expert = ExpertWitness(Journal())
        pool = [("a", Distance(), [1, 2]), ("b", Distance(power=2)), ("expert", expert, columns)]
        fused = FusedDetector(pool, experts_see_scores=sees, random_state=0).fit(X, Y)
        assert fused.detectors_[2][1].classifier_.width_ == width


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


def test_the_stranger_a_row_that_nobody_looked_at_the_less_it_counts():
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
    fitted, scores = fit_one_class(members, training(y), FitScheduler())
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


def test_the_formula_is_not_for_groups_splitters_gaps_or_artificial_anomalies():
    gaps = np.where(np.arange(70)[:, None] == [3, -1, -1, -1, -1], np.nan, X)
    cases = [
        training(groups=GROUPS),
        training(cv=KFold(3)),
        training(cv=None),
        training(X=gaps),
        training(jittered=X[:5] + 1, source=np.arange(5)),
    ]
    for case in cases:
        _, scores = fit_one_class([Member("gp", GP)], case, FitScheduler())
        if case.folds is not None:
            for learn, score in case.folds.pairs:
                usable = [i for i in learn if not np.isnan(case.X[i]).any()]
                score = [i for i in score if not np.isnan(case.X[i]).any()]
                expected = clone(GP).fit(X[usable]).score_samples(X[score])
                np.testing.assert_allclose(scores[score, 0], expected, rtol=1e-9)
    assert CountingGP.used == 0


def test_members_that_share_their_preparation_share_it_with_the_formula_too():
    def scaled(detector):
        return make_pipeline(StandardScaler(), detector)

    made = [scaled(SVDD()), scaled(GP), scaled(KernelPCADetector(3))]
    members = [Member(f"{i}", detector) for i, detector in enumerate(made)]
    case = training(Y)
    _, scores = fit_one_class(members, case, FitScheduler())
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
    _, scores = fit_one_class([Member("witness", Witness(journal))], case, FitScheduler())
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
    _, scores = fit_one_class([Member("witness", Witness(journal))], case, FitScheduler())
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
def test_experts_out_of_fold(weights):
    case = training(HALF)
    (expert,) = make_members([("a", LogisticRegression(), [1, 3])], X)
    (fitted,), scores = fit_experts([expert], X, case, FitScheduler(), weights)
    view = X[:, [1, 3]]
    for learn, score in case.folds.pairs:
        expected = judge(learn, weights).decision_function(view[score])
        np.testing.assert_allclose(scores[score, 0], expected)
    expected = judge(np.arange(70), weights).decision_function(view)
    np.testing.assert_allclose(fitted.estimator.score_samples(view), expected)


def test_of_very_many_rows_experts_see_all_anomalies_and_those_that_were_vouched_for():
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


def test_of_very_many_rows_that_were_vouched_for_experts_see_some():
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
        fit_one_class([Member("a", Distance())], case, FitScheduler())


def test_a_workshop_tells_of_all_that_is_done_and_to_come():
    told = []
    scheduler = FitScheduler(progress=lambda *step: told.append(step))
    scheduler.later = 2
    assert list(scheduler.run([delayed(abs)(-i) for i in range(3)])) == [0, 1, 2]
    scheduler.later = 0
    assert list(scheduler.run([delayed(abs)(-5)] * 2)) == [5, 5]
    assert told == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]
    assert list(FitScheduler(n_jobs=1).run([])) == []


def test_what_parts_the_experts_of_folds_alone_is_no_scale():
    """Where every fold's expert gives all its normal rows one score, so do all together."""
    fold, labels = np.repeat([0, 1, 2], 4), np.tile([1, 1, 1, -1], 3)
    scores = np.array([5.0, 5.0, 5.0, -2.0, 5.1, 5.1, 5.1, -3.0, 5.4, 5.4, np.nan, -1.0])[:, None]
    found = _on_one_level(scores, labels, fold)
    np.testing.assert_allclose(
        found[:, 0], [5.1, 5.1, 5.1, -1.9, 5.1, 5.1, 5.1, -3.0, 5.1, 5.1, np.nan, -1.3]
    )
