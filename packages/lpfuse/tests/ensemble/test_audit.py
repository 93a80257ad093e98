import warnings

import numpy as np
import pytest
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import LocalOutlierFactor

from helpers.pools import Distance, Says, both, normal_rows
from lpfuse import SVDD, FixedRule, FusedDetector, KernelPCADetector, LpFusion, TwoSidedMinMax
from lpfuse.ensemble.learning import audit, nearly_constant

rng = np.random.default_rng(0)
NAMES = ["first", "second", "third"]
Y = np.where(np.arange(200) % 10, 1.0, -1.0)
HEALTHY = rng.normal(size=(200, 3)) + 1.5 * (Y > 0)[:, None] * [1, 0.7, 0.3]


def heard(S, y=Y, fusion=None):
    """What an audit says."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        audit(S, y, NAMES, fusion or FixedRule().fit(S))
    assert all(issubclass(warning.category, UserWarning) for warning in caught)
    return [str(warning.message) for warning in caught]


def with_column(j, values, S=HEALTHY):
    S = S.copy()
    S[:, j] = values
    return S


@pytest.mark.parametrize("y", [np.ones(200), Y], ids=["pure", "labels"])
def test_healthy_detectors_are_not_spoken_of(y):
    assert heard(HEALTHY, y) == []


@pytest.mark.parametrize("share", [1.0, 0.95])
@pytest.mark.parametrize("y", [np.ones(200), Y], ids=["pure", "labels"])
def test_who_says_nothing_is_named(y, share):
    dull = np.where(rng.random(200) < share, 7.0, HEALTHY[:, 1])
    (text,) = heard(with_column(1, dull), y)
    assert text.startswith("'second' ")
    assert "same score" in text
    assert "'first'" not in text


def test_two_that_say_nothing_are_not_also_called_alike():
    for dull in (7.0, np.where(np.arange(200) % 20, 7.0, HEALTHY[:, 1])):
        (text,) = heard(with_column(2, dull, with_column(1, dull)))
        assert text.startswith("'second', 'third' ")


def test_confident_expert_is_not_called_constant():
    assert heard(with_column(1, np.where(Y > 0, 6.9, HEALTHY[:, 1]))) == []


def test_some_ties_give_no_warning():
    few = np.where(np.arange(200) % 2, 7.0, HEALTHY[:, 1])
    assert heard(with_column(1, few)) == []


@pytest.mark.parametrize("copy", [lambda s: s, lambda s: 3 * s + 1, np.exp], ids=range(3))
def test_who_says_the_same_is_named(copy):
    (text,) = heard(with_column(2, copy(HEALTHY[:, 0])))
    assert "'first' = 'third'" in text
    assert "'second'" not in text


def test_who_nearly_says_the_same_is_not():
    assert heard(with_column(2, HEALTHY[:, 0] + 0.3 * HEALTHY[:, 1])) == []


def test_alike_among_many_rows():
    """So many that some of them are compared."""
    S = np.repeat(np.random.default_rng(1).normal(size=(7001, 2)), [1, 2], axis=1)
    (text,) = heard(S, np.ones(7001))
    assert "'second' = 'third'" in text
    assert "'first'" not in text


def test_who_is_upside_down_is_named():
    (text,) = heard(with_column(0, -HEALTHY[:, 0]))
    assert text.startswith("Scores of 'first' ")
    assert "ScoreFunction" in text
    assert "'second'" not in text


def test_who_is_upside_down_by_chance_is_not():
    for seed in range(20):
        noise = np.random.default_rng(seed).normal(size=200)
        assert heard(with_column(0, noise)) == []
    few = np.where(np.arange(200) == 3, -1.0, 1.0)  # one anomaly proves nothing
    assert heard(with_column(0, -HEALTHY[:, 0]), few) == []


def fusion_on(S, y=None, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LpFusion(**parameters).fit(S, y)


def test_weights_that_are_not_the_only_ones():
    easy = 5 + np.abs(HEALTHY)
    (text,) = heard(easy, np.ones(200), fusion_on(easy, p=2))
    assert "equally good" in text


def test_a_constraint_that_does_not_bind():
    noise = np.random.default_rng(5).normal(size=(200, 3))
    fusion = fusion_on(noise, Y, p=2, loss="least_squares")
    assert np.linalg.norm(fusion.weights_) < 0.9
    (text,) = heard(noise, Y, fusion)
    assert "not active" in text
    for p in (1, 1.5, float("inf")):
        active = fusion_on(HEALTHY, np.ones(200), p=p)
        assert heard(HEALTHY, np.ones(200), active) == []


def test_values_that_are_everywhere():
    S = np.column_stack([np.arange(10.0), np.repeat([1.0, 2.0], [9, 1]), np.repeat([1, 2], [8, 2])])
    assert nearly_constant(S).tolist() == [False, True, False]


# ---------------------------------------------------------------------- what a fused detector says

X, LABELS = both(100, 20)
SUM = FixedRule()
GOOD = [("near", Distance(), [0, 1]), ("far", Distance(), [2, 3]), ("svdd", SVDD())]


def warned(pool, y=LABELS, X=X, fusion=SUM):
    """What is said while a pool is fitted and asked; and the fused detector."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fused = FusedDetector(pool, fusion=fusion, random_state=0).fit(X, y)
        fused.decision_function(X)
    return [str(warning.message) for warning in caught], fused


@pytest.mark.parametrize("y", [None, LABELS], ids=["pure", "labels"])
@pytest.mark.parametrize("pool", [GOOD, "paper"], ids=["good", "paper"])
def test_healthy_data_is_silent(pool, y):
    rows = normal_rows(120) if y is None else X
    assert warned(pool, y, rows, fusion=None if y is None else SUM)[0] == []


def test_each_fault_is_told_once_and_by_name():
    faulty = [
        ("constant", Says(lambda X: np.zeros(len(X)))),
        ("nearly", Says(lambda X: np.where(X[:, 0] < -2, X[:, 0], 0.0))),
        ("copy", Distance(), [0, 1]),
        ("inverted", Says(lambda X: X[:, 0])),
    ]
    told, _ = warned([*GOOD, *faulty])
    assert [text.split(" give")[0] for text in told if "same score" in text] == [
        "'constant', 'nearly'"
    ]
    assert [text for text in told if "'near' = 'copy'" in text]
    assert [text for text in told if text.startswith("Scores of 'inverted' are higher for known")]
    assert len(told) == 3


def test_a_detector_that_is_constant_does_not_win_unseen():
    """Near p = 1 the highest mean score wins, even that of a detector that says nothing."""
    constant = ("constant", Says(lambda X: np.where(X[:, 0] < -2.2, -1.0, 1.0)))
    told, _ = warned([*GOOD, constant], None, normal_rows(120), fusion=LpFusion(p=1.01))
    assert any(text.startswith("'constant'") for text in told)


def test_equally_good_weights_and_slack_constraints_are_told():
    easy = FusedDetector(GOOD, fusion=LpFusion(p=2), scaler=TwoSidedMinMax(feature_range=(4, 5)))
    with pytest.warns(UserWarning, match="equally good"):
        easy.set_params(random_state=0).fit(normal_rows(100))
    slack = LpFusion(p=100, loss="least_squares", class_weight="balanced")
    told, fused = warned(GOOD, fusion=slack)
    assert np.abs(fused.weights_).max() < 1
    assert any("not active" in text for text in told)


def test_experts_bring_no_second_voice():
    """The scaler of the scores that experts see keeps what the audit says to itself."""
    pool = [*GOOD, ("constant", Says(lambda X: np.zeros(len(X)))), ("expert", LogisticRegression())]
    told, _ = warned(pool)
    assert len(told) == 1
    assert told[0].startswith("'constant'")


@pytest.mark.parametrize(
    "detector",
    [IsolationForest(n_estimators=10), LocalOutlierFactor(novelty=True), KernelPCADetector(3)],
    ids=lambda made: type(made).__name__,
)
def test_ordinary_detectors_are_not_accused(detector):
    assert warned([*GOOD[:2], ("third", detector)])[0] == []
