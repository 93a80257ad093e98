import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler

from helpers.pools import Distance, normal_rows
from lpfuse import SVDD, GMMDetector, KernelPCADetector, OneClassGP
from lpfuse.adapters import ClassifierExpert, ScoreFunction
from lpfuse.ensemble.defaults import make_members, seed_members
from lpfuse.ensemble.pool import Member, group_members

X = normal_rows(30)


def seed():
    return np.random.RandomState(0)


def test_entries_become_members():
    expert = LogisticRegression()
    made = [SVDD(), IsolationForest(), expert, ScoreFunction(len, high="normal")]
    members = make_members(
        [("a", made[0]), ["b", made[1], [2, 0]], ("c", expert, 1), ("d", made[3], None)], X
    )
    assert [member.name for member in members] == ["a", "b", "c", "d"]
    columns = [None if member.columns is None else member.columns.tolist() for member in members]
    assert columns == [None, [2, 0], [1], None]
    assert members[0].estimator is made[0]
    assert isinstance(members[2].estimator, ClassifierExpert)
    assert [member.learns_from_anomalies for member in members] == [False, False, True, False]
    assert [member.is_own for member in members] == [True, False, False, False]


@pytest.mark.parametrize(
    ("entries", "words", "error"),
    [
        ([], "at least one entry", ValueError),
        ({"a": SVDD()}, 'detectors must be None, "paper" or a list', ValueError),
        (SVDD(), 'detectors must be None, "paper" or a list', ValueError),
        ([SVDD()], r"\(name, detector, columns\), with a string as name; got SVDD\(\)", ValueError),
        ([("a",)], "must be .*name, detector", ValueError),
        ([("a", SVDD(), 0, 1)], "must be .*name, detector", ValueError),
        ([(1, SVDD())], "a string as name; got .1, SVDD", ValueError),
        (
            [("a", SVDD()), ("a", SVDD()), ("b", SVDD())],
            "names of their own, but 'a' o",
            ValueError,
        ),
        ([("cv", SVDD())], "cannot be called 'cv'", ValueError),
        ([("a__b", SVDD())], "cannot be called 'a__b'.*double underscore", ValueError),
        ([("a", SVDD(), "width")], "'a' wants columns by name .'width'.*no names", ValueError),
        ([("a", np.mean)], "ScoreFunction", TypeError),
        ([("a", StandardScaler())], "no score_samples.*ScoreFunction", TypeError),
    ],
)
def test_entries_that_cannot_be(entries, words, error):
    with pytest.raises(error, match=words):
        make_members(entries, X, reserved=["cv", "fusion"])


def test_what_is_fitted_is_frozen():
    fitted = SVDD().fit(X)
    (member,) = make_members([("a", fitted)], X, prefit=True)
    np.testing.assert_array_equal(
        member.estimator.fit(X[:3]).score_samples(X), fitted.score_samples(X)
    )
    (expert,) = make_members([("a", RandomForestClassifier(2).fit(X, np.r_[[-1], [1] * 29]))], X,
                           prefit=True)  # fmt: skip
    assert not expert.learns_from_anomalies
    (frozen,) = make_members([("a", FrozenEstimator(fitted))], X)
    assert not frozen.is_own


def test_a_pipeline_is_a_head_and_a_last_step():
    member = Member("a", Pipeline([("scale", StandardScaler()), ("mine", SVDD())]))
    assert isinstance(member.last, SVDD)
    assert member.last_name == "mine"
    assert [name for name, _ in member.head.steps] == ["scale"]
    assert member.is_own
    alone = Member("a", make_pipeline(SVDD()))
    assert alone.head is None
    assert isinstance(alone.last, SVDD)
    bare = Member("a", SVDD())
    assert (bare.head, bare.last, bare.last_name) == (None, bare.estimator, "a")
    expert = Member("a", make_pipeline(StandardScaler(), ClassifierExpert(LogisticRegression())))
    assert expert.learns_from_anomalies


# ------------------------------------------------------------------------------------------ seeds


def test_unset_seeds_are_set_on_copies():
    forest, own = IsolationForest(), IsolationForest(random_state=7)
    pipeline = make_pipeline(PCA(2), GMMDetector())
    expert = RandomForestClassifier()
    entries = [("a", forest), ("b", own), ("c", pipeline), ("d", expert), ("e", Distance())]
    before = make_members(entries, X)
    after = seed_members(before, seed())
    a, b, c, d, e = (member.estimator for member in after)
    assert isinstance(a.random_state, int)
    assert b.random_state == 7
    assert isinstance(c[0].random_state, int)
    assert isinstance(c[-1].random_state, int)
    assert isinstance(d.classifier.random_state, int)
    assert isinstance(e, Distance)
    assert a.random_state != d.classifier.random_state
    assert forest.random_state is pipeline[0].random_state is expert.random_state is None
    assert all(old.estimator is not new.estimator for old, new in zip(before, after, strict=True))
    again = seed_members(before, seed())
    assert [repr(member.estimator) for member in again] == [
        repr(member.estimator) for member in after
    ]


def test_what_is_frozen_needs_no_seed():
    fitted = IsolationForest(n_estimators=2).fit(X)
    members = make_members([("a", FrozenEstimator(fitted))], X)
    (member,) = seed_members(members, seed())
    assert fitted.random_state is None
    np.testing.assert_array_equal(member.estimator.fit(X).score_samples(X), fitted.score_samples(X))


# ----------------------------------------------------------------------------------------- groups


def groups(*estimators, columns=None):
    columns = columns or [None] * len(estimators)
    members = [
        Member(f"{i}", made, None if some is None else np.array(some))
        for i, (made, some) in enumerate(zip(estimators, columns, strict=True))
    ]
    return group_members(members)


def test_own_detectors_with_the_same_preparation_are_together():
    scaled = [make_pipeline(StandardScaler(), made) for made in (SVDD(), GMMDetector())]
    found = groups(
        SVDD(), IsolationForest(), *scaled, OneClassGP(), make_pipeline(KernelPCADetector()),
        make_pipeline(MinMaxScaler(), SVDD()), IsolationForest(),
        make_pipeline(StandardScaler(with_mean=False), SVDD()),
        make_pipeline(StandardScaler(), IsolationForest()),
    )  # fmt: skip
    assert sorted(found) == [[0, 4, 5], [1], [2, 3], [6], [7], [8], [9]]


def test_names_of_steps_do_not_keep_detectors_apart():
    first = Pipeline([("a", StandardScaler()), ("b", SVDD())])
    second = Pipeline([("c", StandardScaler()), ("d", OneClassGP())])
    assert groups(first, second) == [[0, 1]]


def test_other_columns_are_other_rows():
    found = groups(SVDD(), SVDD(), SVDD(), SVDD(), columns=[[0, 1], [1, 0], [0, 1], None])
    assert sorted(found) == [[0, 2], [1], [3]]


def test_what_cannot_be_compared_is_shared_with_nobody():
    heads = [FunctionTransformer(lambda X, power=power: X**power) for power in (1, 2)]
    found = groups(*(make_pipeline(head, SVDD()) for head in (*heads, heads[0])))
    assert sorted(found) == [[0], [1], [2]]


def test_fitted_ones_are_together_where_they_hold_the_same_preparation():
    shared, other = StandardScaler().fit(X), StandardScaler().fit(X)
    members = [
        Member(f"{i}", Pipeline([("scale", scaler), ("last", SVDD())]))
        for i, scaler in enumerate([shared, other, shared])
    ]
    assert sorted(group_members(members, fitted=True)) == [[0, 2], [1]]


def test_views_of_frames():
    frame = pd.DataFrame(X, columns=list("abcd"))
    (member,) = make_members([("a", SVDD(), slice("b", "c"))], frame)
    assert member.columns.tolist() == [1, 2]
