"""P-values with labelled anomalies: as defined, valid for fresh normal rows, and sharper."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from lpfuse.threshold import conformal_pvalues, integrative_pvalues

METHODS = ["ratio", "best"]


def auc(normal, anomalies):
    wins = (anomalies[:, None] < normal) + 0.5 * (anomalies[:, None] == normal)
    return wins.mean()


def likeness(row, anomalies):
    """The share of anomalies no closer to their nearest fellows than the row is to them."""
    unit = np.where(anomalies.std(axis=0) > 0, anomalies.std(axis=0), 1.0)
    k = min(3, len(anomalies) - 1)

    def near(x, others):
        return np.sort(np.sqrt((((x - others) / unit) ** 2).sum(axis=1)))[:k].mean()

    usual = [near(bad, np.delete(anomalies, j, axis=0)) for j, bad in enumerate(anomalies)]
    return (1 + sum(u >= near(row, anomalies) - 1e-12 for u in usual)) / (len(anomalies) + 1)


def naive(calibration, anomalies, new, method):
    """The definition for one new row, by an evidence that does not know which row is new."""
    rows = np.vstack([calibration, new])
    gains = [round(auc(rows[:, j], anomalies[:, j]), 12) for j in range(rows.shape[1])]
    column = rows[:, int(np.argmax(gains))]
    evidence = np.array([(column <= value).mean() for value in column])
    if method == "ratio":
        evidence = evidence / [likeness(row, anomalies) for row in rows]
    return np.mean(evidence <= evidence[-1] + 1e-9 * np.abs(evidence[-1]))


@pytest.mark.parametrize("method", METHODS)
@given(seed=st.integers(0, 999), members=st.integers(1, 4), n=st.integers(6, 25))
def test_pvalues_as_defined(method, seed, members, n):
    rng = np.random.default_rng(seed)
    calibration = rng.normal(size=(n, members)) @ rng.normal(size=(members, members))
    anomalies, new = (
        rng.normal(-1, 1, (rng.integers(2, 8), members)),
        rng.normal(-1, 2, (5, members)),
    )
    found = integrative_pvalues(calibration, anomalies, new, method)
    assert found == pytest.approx([naive(calibration, anomalies, row, method) for row in new])


def normal_rows(rng, size, kind):
    rows = rng.normal(size=size)
    return {"smooth": rows, "skewed": -np.exp(-rows), "ties": np.round(rows)}[kind]


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("best", "skewed"),
        ("ratio", "smooth"),
        ("ratio", "ties"),
        pytest.param("best", "smooth", marks=pytest.mark.slow),
        pytest.param("best", "ties", marks=pytest.mark.slow),
        pytest.param("ratio", "skewed", marks=pytest.mark.slow),
    ],
)
def test_fresh_normal_rows_have_valid_pvalues(method, kind):
    """At level 0.001: a p-value is as likely as any other, or too large where scores have ties.

    Few calibration rows, few anomalies and more members than that: a choice that knew which row is
    new would overfit badly. One fresh row a calibration set, for rows of one set are not
    independent.
    """
    rng = np.random.default_rng(11)
    found = []
    for _ in range(1500):
        calibration, new = normal_rows(rng, (19, 6), kind), normal_rows(rng, (1, 6), kind)
        anomalies = normal_rows(rng, (5, 6), kind) - 0.5
        found.append(integrative_pvalues(calibration, anomalies, new, method)[0])
    counts = np.bincount(np.rint(np.array(found) * 20).astype(int), minlength=21)[1:]
    if kind == "ties":
        # The one-sided distance of Kolmogorov and Smirnov from the uniform law.
        excess = (np.cumsum(counts) / 1500 - np.arange(1, 21) / 20).max()
        assert excess <= np.sqrt(-np.log(0.001) / (2 * 1500))
    else:
        assert chisquare(counts).pvalue > 0.001


def test_a_choice_that_knows_the_new_row_is_not_valid():
    # What the test above would see, had the least p-value of all members been taken.
    rng = np.random.default_rng(11)
    found = []
    for _ in range(500):
        calibration, new = rng.normal(size=(19, 6)), rng.normal(size=(1, 6))
        found.append(min(conformal_pvalues(calibration[:, j], new[:, j])[0] for j in range(6)))
    assert kstest(found, "uniform", alternative="greater").pvalue < 1e-9


def hits(shift, kind="smooth", n=300, n_labelled=30, members=8):
    """Share of anomalies with p ≤ 0.05, by the mean, the first member, and each method."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(20):
        calibration = rng.normal(size=(n, members))
        anomalies = rng.normal(size=(n_labelled, members)) + shift
        new = rng.normal(size=(200, members)) + shift
        row = [
            conformal_pvalues(calibration.mean(axis=1), new.mean(axis=1)),
            conformal_pvalues(calibration[:, 0], new[:, 0]),
        ]
        row += [integrative_pvalues(calibration, anomalies, new, method) for method in METHODS]
        found.append([np.mean(pvalues <= 0.05) for pvalues in row])
    names = ["mean", "first", *METHODS]
    return dict(zip(names, np.mean(found, axis=0), strict=True))


def test_labels_find_the_member_that_sees_the_anomalies():
    found = hits(np.array([-3.0, 0, 0, 0, 0, 0, 0, 0]))
    assert found["best"] == pytest.approx(found["first"], abs=0.01)
    assert found["ratio"] > found["first"] - 0.05
    assert found["best"] > found["mean"] + 0.5


def test_labels_find_anomalies_by_their_likeness_to_known_ones():
    found = hits(np.array([-1.7, 1.5, 1.5, 0, 0, 0, 0, 0]))
    assert found["ratio"] > max(found["mean"], found["first"], found["best"]) + 0.05


def test_labels_that_say_nothing_cost_nothing():
    found = hits(np.zeros(8))
    assert all(0.03 < share < 0.07 for share in found.values())


@pytest.mark.parametrize("method", METHODS)
def test_a_copy_of_a_calibration_row_counts_it(method):
    rng = np.random.default_rng(2)
    calibration = 1e6 + rng.normal(size=(40, 3))
    anomalies = 1e6 + rng.normal(-2, 1, (6, 3))
    found = integrative_pvalues(calibration, anomalies, calibration, method)
    assert (found >= 2 / 41 - 1e-12).all()


@pytest.mark.parametrize("method", METHODS)
def test_row_order_and_member_units_do_not_matter(method):
    rng = np.random.default_rng(3)
    calibration, anomalies = rng.normal(size=(50, 3)), rng.normal(-1, 1, (9, 3))
    new = rng.normal(-1, 2, (20, 3))
    found = integrative_pvalues(calibration, anomalies, new, method)
    unit, place = np.array([1e-3, 1.0, 50.0]), np.array([0.0, -7.0, 1e3])
    moved = [table * unit + place for table in (calibration[::-1], anomalies[::-1], new)]
    assert integrative_pvalues(*moved, method) == pytest.approx(found)


@pytest.mark.parametrize("method", METHODS)
def test_constant_members_and_a_single_anomaly_do_no_harm(method):
    rng = np.random.default_rng(4)
    calibration, new = rng.normal(size=(60, 2)), rng.normal(-3, 1, (200, 2))
    calibration[:, 1] = new[:, 1] = 0.1
    found = integrative_pvalues(calibration, [[-3.0, 0.1]], new, method)
    np.testing.assert_array_equal(found, conformal_pvalues(calibration[:, 0], new[:, 0]))


def test_a_row_with_a_gap_has_no_pvalue():
    rng = np.random.default_rng(5)
    calibration, anomalies = rng.normal(size=(30, 2)), rng.normal(-1, 1, (4, 2))
    new = rng.normal(size=(3, 2))
    expected = integrative_pvalues(calibration, anomalies, new)
    new = np.insert(new, 1, [0.0, np.nan], axis=0)
    found = integrative_pvalues(calibration, anomalies, new)
    np.testing.assert_array_equal(found, np.insert(expected, 1, np.nan))
    assert integrative_pvalues(calibration, anomalies, np.empty((0, 2))).shape == (0,)


def test_what_cannot_be_used_is_told():
    good = np.arange(6.0).reshape(3, 2)
    with pytest.raises(ValueError, match=r"anomalies must have one column .* expected 2, got 1"):
        integrative_pvalues(good, good[:, :1], good)
    with pytest.raises(ValueError, match="scores must have one column per member"):
        integrative_pvalues(good, good, good[:, :1])
    with pytest.raises(ValueError, match="calibration contains NaN"):
        integrative_pvalues(good * np.nan, good, good)
    with pytest.raises(ValueError, match="method must be"):
        integrative_pvalues(good, good, good, method="worst")
