"""The paper's figures: copied without slips, and rightly doubted."""

from math import floor, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from helpers.cases import cases
from lpfuse.metrics import best_g_mean, g_mean
from lpfuse_faces.clips import KINDS
from research.paper import paper
from research.paper.paper import (
    DATASETS,
    FACEFORENSICS,
    FORGERIES,
    FORGERY_CLAIMS,
    LOSS,
    LP_EFFECT,
    METHODS,
    OWN,
    SPEED_UP,
    THIS_WORK,
    UCI,
    Mean,
    forgery_leads,
    impossible_cells,
    suspicious_cells,
)

# Sums over the ten data sets: of the means, of the standard deviations.
CHECKSUMS = {
    "auc": {
        "GMM": (834.58, 37.5), "SVDD": (819.69, 24.9), "GP": (844.11, 30.0),
        "KPCA": (751.12, 35.3), "pure": (899.87, 14.2), "non-pure": (920.56, 8.9),
        "Fatemifar": (0, 0), "DEOD homogeneous": (521.75, 0), "DEOD heterogeneous": (524.43, 0),
        "FNDF": (342.8, 0),
    },
    "g_mean": {
        "GMM": (801.91, 31.2), "SVDD": (787.96, 25.0), "GP": (821.09, 22.7),
        "KPCA": (729.45, 24.8), "pure": (881.42, 22.3), "non-pure": (898.81, 13.7),
        "Fatemifar": (581.43, 0), "DEOD homogeneous": (0, 0), "DEOD heterogeneous": (0, 0),
        "FNDF": (0, 0),
    },
}  # fmt: skip


def cut(value, digits):
    return floor(value * 10**digits + 1e-9) / 10**digits


@cases("metric", UCI)
@cases("method", METHODS)
def test_columns_add_up(metric, method):
    cells = [row[method] for row in UCI[metric].values() if method in row]
    sums = sum(cell.mean for cell in cells), sum(cell.std or 0.0 for cell in cells)
    assert sums == pytest.approx(CHECKSUMS[metric][method])


def test_small_tables_add_up():
    for table, sums in (
        (LP_EFFECT, [265.75, 270.32]),
        (LOSS, [178.68, 181.97]),
        (SPEED_UP, [1179.1, 49.7, 89.6, 71.6]),
    ):
        assert [sum(row.values()) for row in table.values()] == pytest.approx(sums)


def test_every_cell_has_its_place():
    for table in UCI.values():
        assert list(table) == list(DATASETS)
        for row in table.values():
            assert all(row[method].std is not None for method in OWN)
            assert all(row[method].std is None for method in row.keys() - set(OWN))
    assert UCI["auc"]["banknotes"]["GMM"] == Mean(83.91, 4.5)
    assert UCI["g_mean"]["hepatitis"]["Fatemifar"] == Mean(71.23)
    assert "FNDF" not in UCI["auc"]["vote"]


@pytest.mark.parametrize("setting", ["pure", "non-pure"])
def test_its_averages_are_those_of_its_table_cut_off(setting):
    """89.987 is printed as 89.98, and 92.056 as 92.05."""
    average = np.mean([row[setting].mean for row in UCI["auc"].values()])
    assert floor(100 * average) / 100 == LP_EFFECT[setting]["lp"] == LOSS[setting]["hinge"]


# Sums over the methods, and over the kinds of forgery.
FORGERY_CHECKSUMS = {
    "c40": ([511.9, 165.3, 99.2, 446.1, 135.0], [159.8, 276.9, 163.4, 166.4, 147.4, 443.6]),
    "c23": (
        [680.9, 408.1, 99.4, 645.3, 445.4],
        [314.2, 187.9, 192.9, 345.4, 356.8, 388.6, 493.3],
    ),
}


@pytest.mark.parametrize("quality", FACEFORENSICS)
def test_tables_of_forgeries_add_up(quality):
    table = FACEFORENSICS[quality]
    columns, rows = FORGERY_CHECKSUMS[quality]
    sums = [sum(row.get(kind, 0.0) for row in table.values()) for kind in FORGERIES]
    assert sums == pytest.approx(columns)
    assert [sum(row.values()) for row in table.values()] == pytest.approx(rows)
    assert list(table)[-1] == THIS_WORK
    assert list(table[THIS_WORK]) == list(FORGERIES)


def test_forgeries_have_their_places():
    assert FACEFORENSICS["c40"]["F²Trans-B (2023)"] == {"Deepfakes": 88.7, "Face2Face": 77.7}
    assert FACEFORENSICS["c23"]["Sun et al. (2021)"] == {
        "Deepfakes": 92.7, "FaceSwap": 64.0, "Face2Face": 80.2, "NeuralTextures": 77.3,
    }  # fmt: skip
    assert set(FORGERIES) == set(KINDS)


@pytest.mark.parametrize(("quality", "claimed"), FORGERY_CLAIMS.items())
def test_its_claims_on_forgeries_count_one_without_a_rival(quality, claimed):
    """Better than existing methods on four of five subsets, and on three: FaceShifter is one."""
    leads = forgery_leads(quality)
    assert [kind for kind, lead in leads.items() if lead is None] == ["FaceShifter"]
    assert sum(lead is not None and lead > 0 for lead in leads.values()) == claimed - 1
    assert leads["Face2Face"] == pytest.approx({"c40": -3.9, "c23": -3.5}[quality])


def test_its_sentences_fit_its_figures():
    haberman = UCI["g_mean"]["haberman"]
    assert haberman["pure"].mean - haberman["Fatemifar"].mean > 6
    assert LOSS["pure"]["hinge"] - LOSS["pure"]["least_squares"] > 1
    assert LOSS["non-pure"]["hinge"] - LOSS["non-pure"]["least_squares"] > 2
    factors = [factor for row in SPEED_UP.values() for factor in row.values()]
    assert len(factors) == 12
    assert (min(factors), max(factors)) == (14.6, 898.2)
    for row in (*UCI["auc"].values(), *UCI["g_mean"].values()):
        others = [row[method].mean for method in row if method not in ("pure", "non-pure")]
        assert max(others) < row["pure"].mean < row["non-pure"].mean


def test_what_is_impossible_and_why():
    reasons = {(doubt.set, doubt.method): doubt.reason for doubt in impossible_cells()}
    assert reasons == {
        ("banknotes", "GMM"): "AUC is 83.91, but G² is 96.70 or more",
        ("banknotes", "SVDD"): "AUC is 97.18, but G² is 98.34 or more",
        ("iris", "pure"): "no mean of ten AUCs on 5 normals and 50 anomalies is 99.95",
        ("iris", "non-pure"): "ten splits with 5 normals and 50 anomalies and mean 99.90 "
        "deviate by 0.29 or more",
    }


def test_what_is_suspicious_and_why():
    found = suspicious_cells()
    assert len(found) == 20
    reasons = {(doubt.set, doubt.method, *doubt.metrics): doubt.reason for doubt in found}
    assert reasons["iris", "SVDD", "g_mean"].startswith("90.55±0.0 on 5 test normals: a single")
    assert reasons["haberman", "pure", "auc"].endswith("a single one is 4.5 % of the pairs")
    assert ("vote", "non-pure", "auc") not in reasons  # 99.99
    assert ("australia", "pure", "auc") not in reasons  # ± 0.1


@cases("printed", [round, cut])
@cases("name", ["glass", "iris", "wine", "hepatitis"])
def test_honest_experiments_are_not_doubted(monkeypatch, name, printed):
    """Ten splits of made-up scores, good and bad, in the places of the paper's figures."""
    rng = np.random.default_rng(0)
    tables = {metric: {name: {}} for metric in UCI}
    monkeypatch.setattr(paper, "UCI", tables)
    monkeypatch.setattr(paper, "DATASETS", {name: DATASETS[name]})
    for distance in (0.5, 2.0, 4.0):
        for method in OWN:
            for metric, values in zip(UCI, ten_splits(rng, name, distance), strict=True):
                mean, std = 100 * np.mean(values), 100 * np.std(values, ddof=1)
                tables[metric][name][method] = Mean(printed(mean, 2), printed(std, 1))
        assert impossible_cells() == []


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), min_size=2, max_size=30))
def test_auc_is_at_least_g_squared_of_any_threshold(rows):
    y = np.array([1, -1, *(1 if is_normal else -1 for is_normal, _ in rows)])
    scores = np.array([5, 5, *(score for _, score in rows)])
    auc = roc_auc_score(y, scores)
    for threshold in range(11):
        assert auc >= g_mean(y, np.where(scores >= threshold, 1, -1)) ** 2 - 1e-12


@given(st.lists(st.booleans(), min_size=2, max_size=30))
def test_auc_is_at_most_what_the_best_threshold_allows(order):
    y = np.array([-1, *(1 if is_normal else -1 for is_normal in order), 1])
    scores = np.arange(y.size)
    best = best_g_mean(y, scores)[0] ** 2
    assert roc_auc_score(y, scores) <= best * (1 - log(best)) + 1e-12


@given(st.lists(st.integers(0, 60), min_size=10, max_size=10), st.sampled_from(["auc", "g_mean"]))
def test_ten_values_vary_as_much_as_their_grain_demands(grains, metric):
    """3 normals and 10 anomalies: 60 steps of AUC; products of hits for G²."""
    values = [100 * grain / 60 if metric == "auc" else g_of(grain) for grain in grains]
    cell = Mean(round(float(np.mean(values)), 2))
    assert paper._least_std(metric, cell, 3, 10) <= np.std(values) + 1e-6
    if metric == "auc":
        assert paper._is_mean_of_aucs(cell, 3, 10)
        assert paper._is_mean_of_aucs(Mean(cut(np.mean(values), 2)), 3, 10)


def test_the_least_deviation_is_reached_by_the_two_neighbours():
    """Nine of ten at 100 and one at G = √(49/50): the smallest deviation for their mean."""
    values = np.array([100.0] * 9 + [100 * sqrt(49 / 50)])
    least = paper._least_std("g_mean", Mean(values.mean()), 5, 50)
    assert least == pytest.approx(values.std(), rel=0.06)
    assert least < values.std()


def test_shares_may_be_rounded_either_way():
    assert paper._test_sizes("iris") == [(5, 50)]
    assert paper._test_sizes("glass") == [(6, 69), (7, 69), (8, 69)]
    assert paper._test_sizes("wine") == [(n, m) for n in (6, 7, 8) for m in (53, 54)]


def g_of(grain):
    kept, rejected = divmod(grain, 11)
    return 100 * sqrt(min(kept, 3) / 3 * rejected / 10)


def ten_splits(rng, name, distance):
    """AUC and G-mean on ten test sets of the paper's size."""
    n, m = paper._test_sizes(name)[rng.integers(len(paper._test_sizes(name)))]
    y = np.repeat([1, -1], [n, m])
    aucs, g_means = [], []
    for _ in range(10):
        scores = np.round(rng.normal(size=n + m) + distance * (y > 0), 1)
        aucs.append(roc_auc_score(y, scores))
        g_means.append(best_g_mean(y, scores)[0])
    return aucs, g_means
