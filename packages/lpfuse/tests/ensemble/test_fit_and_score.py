import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from helpers.pools import Distance, Says, both, normal_rows
from lpfuse import SVDD, GMMDetector, KernelPCADetector, OneClassGP
from lpfuse.adapters import as_detector
from lpfuse.ensemble.pool import (
    Member,
    fit_members,
    group_members,
    leave_one_out_scores,
    score_members,
)

X, NEW = normal_rows(60), normal_rows(20, seed=5)
GAPS = np.where(np.arange(60)[:, None] % 7 == [0, 9, 9, 9], np.nan, X)


def scaled(detector):
    return make_pipeline(StandardScaler(), detector)


KERNELS = [
    SVDD(),
    OneClassGP(),
    OneClassGP("density", gamma=0.5),
    KernelPCADetector(5),
    KernelPCADetector(0.9, gamma=0.5),
    GMMDetector(2, random_state=0),
    SVDD(approximation="nystroem", n_components=10, random_state=0),
]


@pytest.mark.parametrize("prepare", [lambda made: made, scaled], ids=["bare", "in a pipeline"])
@pytest.mark.parametrize("columns", [None, np.array([3, 0])], ids=["all", "some"])
def test_members_fitted_together_score_as_if_fitted_apart(prepare, columns):
    members = [Member(f"{i}", prepare(made), columns) for i, made in enumerate(KERNELS)]
    assert group_members(members) == [list(range(len(KERNELS)))]
    fitted = fit_members(members, X)
    assert group_members(fitted, fitted=True) == [list(range(len(KERNELS)))]
    view = slice(None) if columns is None else columns
    together = score_members(fitted, NEW)
    for j, (member, made) in enumerate(zip(fitted, KERNELS, strict=True)):
        expected = prepare(clone(made)).fit(X[:, view]).score_samples(NEW[:, view])
        alone = member.estimator.score_samples(NEW[:, view])  # each is whole on its own
        np.testing.assert_allclose(together[:, j], expected, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(alone, expected, rtol=1e-7, atol=1e-9)


class CountingScaler(StandardScaler):
    """Tells, by a counter that all copies share, how often rows were prepared."""

    fits = 0

    def fit_transform(self, X, y=None):
        CountingScaler.fits += 1
        return super().fit_transform(X, y)


def test_equal_preparations_are_done_once():
    members = [
        Member(f"{i}", make_pipeline(CountingScaler(), made)) for i, made in enumerate(KERNELS)
    ]
    fitted = fit_members(members, X)
    assert CountingScaler.fits == 1
    assert len({id(member.head.steps[0][1]) for member in fitted}) == 1


def test_steps_that_cannot_be_hashed_are_no_obstacle():
    heads = [FunctionTransformer(lambda X, power=power: X**power) for power in (1, 3)]
    members = [Member(f"{i}", make_pipeline(head, SVDD())) for i, head in enumerate(heads)]
    for group, power in zip(group_members(members), (1, 3), strict=True):
        (fitted,) = fit_members([members[i] for i in group], X)
        expected = SVDD().fit(X**power).score_samples(NEW**power)
        np.testing.assert_allclose(score_members([fitted], NEW)[:, 0], expected)


def test_originals_are_not_fitted_and_keep_their_names():
    made = Pipeline([("scale", StandardScaler()), ("mine", SVDD())])
    (fitted,) = fit_members([Member("a", made)], X)
    assert not hasattr(made["scale"], "mean_")
    assert not hasattr(made["mine"], "offset_")
    assert [name for name, _ in fitted.estimator.steps] == ["scale", "mine"]
    (bare,) = fit_members([Member("a", LocalOutlierFactor(novelty=True))], X)
    assert isinstance(bare.estimator, LocalOutlierFactor)


def test_labels_are_for_experts():
    rows, y = both(40, 10)
    (expert,) = fit_members([Member("a", as_detector(LogisticRegression()))], rows, y)
    expected = LogisticRegression().fit(rows, y).decision_function(NEW)
    np.testing.assert_array_equal(score_members([expert], NEW)[:, 0], expected)


# ---------------------------------------------------------------------------------- missing cells


@pytest.mark.parametrize("prepare", [lambda made: made, scaled], ids=["bare", "in a pipeline"])
def test_refused_rows_with_gaps_are_left_out(prepare):
    complete = ~np.isnan(GAPS).any(axis=1)
    members = [Member("svdd", prepare(SVDD())), Member("kpca", prepare(KernelPCADetector(3)))]
    fitted = fit_members(members, GAPS)
    scores = score_members(fitted, GAPS)
    assert np.isnan(scores[~complete]).all()
    expected = prepare(SVDD()).fit(X[complete]).score_samples(X[complete])
    np.testing.assert_allclose(scores[complete, 0], expected, rtol=1e-9)


def test_missing_cells_in_other_columns_do_not_matter():
    (fitted,) = fit_members([Member("svdd", SVDD(), np.array([1, 2]))], GAPS)
    assert not np.isnan(score_members([fitted], GAPS)).any()


def test_detectors_that_know_missing_cells_get_them():
    (fitted,) = fit_members([Member("forest", IsolationForest(random_state=0))], GAPS)
    expected = IsolationForest(random_state=0).fit(GAPS).score_samples(GAPS)
    np.testing.assert_array_equal(score_members([fitted], GAPS)[:, 0], expected)


def test_labels_follow_their_rows():
    rows, y = both(40, 10)
    rows[::6, 0] = np.nan
    complete = ~np.isnan(rows[:, 0])
    (expert,) = fit_members([Member("a", as_detector(LogisticRegression()))], rows, y)
    expected = LogisticRegression().fit(rows[complete], y[complete]).decision_function(NEW)
    np.testing.assert_allclose(score_members([expert], NEW)[:, 0], expected)


def test_nothing_but_gaps_has_no_scores():
    (fitted,) = fit_members([Member("svdd", SVDD())], X)
    assert np.isnan(score_members([fitted], np.full((3, 4), np.nan))).all()


def test_scores_that_are_infinite_become_large():
    scores = np.array([np.inf, -np.inf, np.nan, 1e300, -3.0])
    (member,) = fit_members([Member("a", Says(lambda X: scores))], X)
    found = score_members([member], X[:5])[:, 0]
    assert found[0] == found[3] == -found[1] >= 1e50
    assert np.isfinite(found[[0, 1]] ** 2).all()  # squares are still numbers
    assert np.isnan(found[2])
    assert found[4] == -3.0


# ----------------------------------------------------------------- detectors that change their rows


class Scribbler(Distance):
    """Uses the rows that it is given as scratch paper, with the same result."""

    def fit(self, X, y=None):
        super().fit(X)
        self.fitted_on_ = np.array(X)
        self.scribble(X)
        return self

    def score_samples(self, X):
        scores = super().score_samples(X)
        self.scribble(X)
        return scores

    @staticmethod
    def scribble(X):
        if hasattr(X, "iloc"):
            X.iloc[:] = 1e9
        else:
            X -= 1e9


@pytest.mark.parametrize("kind", [np.array, pd.DataFrame])
@pytest.mark.parametrize("columns", [None, np.array([3, 0])], ids=["all", "some"])
def test_no_detector_changes_the_rows_of_others(kind, columns):
    rows, new = kind(X), kind(NEW)
    (fitted,) = fit_members([Member("rude", Scribbler(), columns)], rows)
    view = slice(None) if columns is None else columns
    np.testing.assert_array_equal(fitted.estimator.fitted_on_, X[:, view])
    expected = Distance().fit(X[:, view]).score_samples(NEW[:, view])
    np.testing.assert_allclose(score_members([fitted], new)[:, 0], expected)
    np.testing.assert_array_equal(np.asarray(rows), X)
    np.testing.assert_array_equal(np.asarray(new), NEW)


@pytest.mark.parametrize("answer", [NEW[:, 0] + 1j, np.zeros(20, dtype=complex)])
def test_complex_scores_are_refused_by_name(answer):
    (fitted,) = fit_members([Member("odd", Says(lambda X: answer))], X)
    with pytest.raises(ValueError, match=r"'odd' must give real numbers, got complex128 values"):
        score_members([fitted], NEW)


def test_masked_scores_are_missing():
    answer = np.ma.array(NEW[:, 0], mask=np.arange(20) == 4)
    (fitted,) = fit_members([Member("odd", Says(lambda X: answer))], X)
    assert np.flatnonzero(np.isnan(score_members([fitted], NEW)[:, 0])).tolist() == [4]


# ----------------------------------------------------------------------------------------- errors


def notes_of(caught):
    return " ".join(caught.value.__notes__)


def test_errors_name_who_they_happened_to():
    with pytest.raises(ValueError, match="nu must be") as caught:
        fit_members([Member("first", SVDD()), Member("second", SVDD(nu=7))], X)
    assert "while fitting 'first', 'second'" in notes_of(caught)
    with pytest.raises(ValueError, match="nu must be") as caught:
        fit_members([Member("first", SVDD(nu=7))], GAPS)
    assert "while fitting 'first'" in notes_of(caught)
    (fitted,) = fit_members([Member("first", Distance())], X)
    with pytest.raises(ValueError, match="broadcast") as caught:
        score_members([fitted], X[:, :3])
    assert "while scoring with 'first'" in notes_of(caught)


@pytest.mark.parametrize("shape", [(20, 1), (20, 2), (1,), ()])
def test_one_score_for_each_row(shape):
    (fitted,) = fit_members([Member("odd", Says(lambda X: np.zeros(shape)))], X)
    with pytest.raises(ValueError, match=r"'odd' must give one score .* \(20,\), got"):
        score_members([fitted], NEW)


# ------------------------------------------------------------------------------- leaving one out


@pytest.mark.parametrize(
    ("score_type", "columns"),
    [
        ("mean", None),
        ("variance", np.array([2, 1])),
        ("density", None),
        ("ratio", np.array([2, 1])),
    ],
)
def test_leaving_one_out_by_formula(score_type, columns):
    made = OneClassGP(score_type, gamma=0.05)
    columns = None if columns is None else np.array(columns)
    (fitted,) = fit_members([Member("gp", made, columns)], X)
    view = X if columns is None else X[:, columns]
    expected = [
        clone(made).fit(np.delete(view, i, axis=0)).score_samples(view[[i]])[0]
        for i in range(len(X))
    ]
    np.testing.assert_allclose(leave_one_out_scores([fitted], X)[:, 0], expected, rtol=1e-7)


def test_leaving_one_out_behind_a_preparation_and_for_frames():
    (fitted,) = fit_members([Member("gp", scaled(OneClassGP(gamma=0.1)))], X)
    rows = StandardScaler().fit_transform(X)
    expected = [
        OneClassGP(gamma=0.1).fit(np.delete(rows, i, axis=0)).score_samples(rows[[i]])[0]
        for i in range(len(X))
    ]
    np.testing.assert_allclose(leave_one_out_scores([fitted], X)[:, 0], expected, rtol=1e-7)
    frame = pd.DataFrame(X, columns=list("abcd"))
    (named,) = fit_members([Member("gp", OneClassGP(gamma=0.1), np.array([1]))], frame)
    assert leave_one_out_scores([named], frame).shape == (60, 1)


def test_scores_of_single_precision_are_bounded_in_double():
    rows = X.astype(np.float32)
    members = [Member(str(j), clone(made), None) for j, made in enumerate(KERNELS)]
    scores = score_members(fit_members(members, rows), rows)
    assert scores.dtype == np.float64
    assert np.isfinite(scores).all()
