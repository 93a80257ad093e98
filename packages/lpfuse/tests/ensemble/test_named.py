"""Detectors by name, and p for short: one spelling for Python and the command line."""

import math
import re
import sys

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import ExtraTreesClassifier, IsolationForest, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from helpers.pools import Journal, Witness, numbered
from lpfuse import (
    SVDD,
    ColumnForest,
    FixedRule,
    FusedDetector,
    GMMDetector,
    KernelPCADetector,
    KNNDetector,
    LOFDetector,
    LpFusion,
    OneClassGP,
    TwoSidedMinMax,
    load,
)
from lpfuse._validation.params import ALIASES, NAMES
from lpfuse.ensemble.components import default_detectors, default_fusion, named_detectors
from lpfuse.views import NormalQuantiles
from lpfuse_cli.console import Detectors


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("svdd", SVDD),
        ("kpca", KernelPCADetector),
        ("gmm", GMMDetector),
        ("iforest", IsolationForest),
        ("forest", IsolationForest),
        ("isolation-forest", IsolationForest),
        ("IForest", IsolationForest),
        ("lof", LOFDetector),
        ("knn", KNNDetector),
        ("logistic", LogisticRegression),
        ("random-forest", RandomForestClassifier),
        ("random forest", RandomForestClassifier),
    ],
)
def test_each_name_is_a_detector_on_standardised_features(name, kind):
    ((found, pipeline),) = named_detectors([name], 100)
    assert found == name
    *_, scaler, detector = pipeline  # gaps may be filled in before
    assert isinstance(scaler, StandardScaler)
    assert isinstance(detector, kind)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gp", OneClassGP),
        ("GP", OneClassGP),
        ("knn-subspaces", KNNDetector),
        ("KNN subspaces", KNNDetector),
        ("columns", ColumnForest),
        ("trees", ExtraTreesClassifier),
        ("svm", SVC),
    ],
)
def test_others_are_on_normal_quantiles(name, kind):
    ((found, pipeline),) = named_detectors([name], 100)
    assert found == name
    *_, view, detector = pipeline  # gaps may be filled in before
    assert isinstance(view, NormalQuantiles)
    assert isinstance(detector, kind)


def test_all_of_the_default_pool_have_a_name():
    pool = dict(default_detectors(100, math.inf))
    named = dict(named_detectors([name.replace(" ", "-") for name in pool], 100))
    assert [repr(detector) for detector in named.values()] == list(map(repr, pool.values()))


@pytest.mark.parametrize("name", ["svdd", "kpca", "gp"])
def test_they_are_set_up_for_the_number_of_rows(name):
    ((_, few),) = named_detectors([name], 100)
    ((_, many),) = named_detectors([name], 100_000)
    assert (few[-1].approximation, many[-1].approximation) == (None, "nystroem")


@pytest.mark.parametrize(("n", "k"), [(1, 1), (50, 25), (200, 100), (100_000, 100)])
def test_lof_has_half_of_few_rows_as_neighbours(n, k):
    ((_, detector),) = named_detectors(["lof"], n)
    assert detector[-1].n_neighbors == k


def test_lof_finds_a_lone_anomaly_among_few_rows():
    """With all other rows as neighbours, the default of LOFDetector, it ranks among the last."""
    rows = np.random.default_rng(0).normal(size=(40, 3))
    rows[0] = 4.0
    ((_, detector),) = named_detectors(["lof"], len(rows))
    assert np.argmin(detector[-1].fit(rows).leave_one_out_scores(rows)) == 0


def test_named_detectors_ignore_row_limits():
    ((_, machine),) = named_detectors(["svm"], 100_000)
    assert isinstance(machine[-1], SVC)


@pytest.mark.parametrize("name", ["pyod:ECOD", "PyOD:ecod", "pyod:HBOS"])
def test_detectors_of_pyod(name):
    pytest.importorskip("pyod")
    ((found, pipeline),) = named_detectors([name], 100)
    assert found == name
    assert type(pipeline[-1]).__name__.upper() == name[5:].upper()


def test_unknown_names_are_told_with_the_closest():
    with pytest.raises(
        ValueError,
        match=r"no detector 'svd'\. Did you mean 'svdd'\? Known are gp, knn, knn-subspaces,",
    ):
        named_detectors(["svd"], 100)
    pytest.importorskip("pyod")
    with pytest.raises(ValueError, match=r"PyOD has no detector 'ECODD'\. Did you mean 'ecod'\?"):
        named_detectors(["pyod:ECODD"], 100)
    with pytest.raises(ValueError, match=r"PyOD has no detector 'base'"):
        named_detectors(["pyod:base"], 100)
    with pytest.raises(ValueError, match=r"PyOD has no detector 'os\.path'"):
        named_detectors(["pyod:os.path"], 100)


def test_without_pyod_the_extra_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "pyod"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyod", None)
    with pytest.raises(ImportError, match=r'pyod:ECOD needs PyOD: pip install "lpfuse\[pyod\]"'):
        named_detectors(["pyod:ECOD"], 100)


def test_what_pyod_itself_lacks_is_told(monkeypatch):
    pytest.importorskip("pyod")
    monkeypatch.setitem(sys.modules, "pyod.models.ecod", None)
    with pytest.raises(ValueError, match="pyod:ECOD needs a package that is not there"):
        named_detectors(["pyod:ECOD"], 100)


# --------------------------------------------------------------------------- in a fused detector

ROWS = np.random.default_rng(0).normal(size=(90, 3))


def same(one, other):
    np.testing.assert_array_equal(one.weights_, other.weights_)
    np.testing.assert_array_equal(one.score_samples(ROWS), other.score_samples(ROWS))


def test_names_are_the_detectors_that_they_name():
    names = ["gmm", "kpca", "IForest"]
    named = FusedDetector(names, random_state=0).fit(ROWS)
    assert named.detector_names_ == names
    assert named.get_params()["detectors"] is names  # stored untouched
    same(named, FusedDetector(named_detectors(names, 90), random_state=0).fit(ROWS))


def test_detectors_without_a_name_have_that_of_their_class():
    bare = FusedDetector(
        [SVDD(), "knn", KernelPCADetector(1), KernelPCADetector(2)], random_state=0
    )
    bare.fit(ROWS)
    assert bare.detector_names_ == ["svdd", "knn", "kernelpcadetector-1", "kernelpcadetector-2"]
    pair = [(f"kernelpcadetector-{n}", KernelPCADetector(n)) for n in (1, 2)]
    pool = [("svdd", SVDD()), "knn", *pair]
    same(bare, FusedDetector(pool, random_state=0).fit(ROWS))


def test_names_stand_beside_detectors_and_for_them():
    mixed = FusedDetector(["gmm", ("near", "knn", [0, 1]), ("mine", SVDD())], random_state=0)
    mixed.fit(ROWS)
    assert mixed.detector_names_ == ["gmm", "near", "mine"]
    assert mixed.detectors_[1][2].tolist() == [0, 1]
    ((_, knn),) = named_detectors(["knn"], 90)
    ((_, gmm),) = named_detectors(["gmm"], 90)
    plain = [("gmm", gmm), ("near", knn, [0, 1]), ("mine", SVDD())]
    same(mixed, FusedDetector(plain, random_state=0).fit(ROWS))


def test_the_command_line_and_python_name_the_same():
    frame = pl.DataFrame(ROWS, schema=["a", "b", "c"])
    for detectors in (["gmm", "knn-subspaces"], "paper"):
        table = FusedDetector(detectors, p=2.0, random_state=0).fit(frame)
        fused = FusedDetector(detectors, p=2, random_state=0).fit(ROWS)
        np.testing.assert_allclose(table.weights_, fused.weights_, rtol=1e-9)


def test_names_and_detectors_correspond():
    """The list is checked before scikit-learn is there; it must be that of the detectors."""
    assert len(named_detectors(NAMES, 100)) == len(NAMES)
    pool = [name.replace(" ", "-") for name, _ in default_detectors(100, math.inf)]
    assert set(pool) < set(NAMES)
    assert set(ALIASES.values()) <= set(NAMES)
    help_text = Detectors.__metadata__[0].help
    told = re.findall(r"[a-z]+(?:-[a-z]+)*", help_text.partition("pyod")[0])[2:]
    assert {ALIASES.get(name, name) for name in told} == set(NAMES)


@pytest.mark.parametrize("detectors", [["gmm", "svd"], ["paper", "gmm"], [("mine", "svd")]])
@pytest.mark.filterwarnings("ignore:In column 0, numbers only grow")
def test_a_wrong_name_is_told_before_anything_is_fitted(detectors):
    journal = Journal()
    with pytest.raises(ValueError, match=r"There is no detector '(svd|paper)'"):
        FusedDetector([("witness", Witness(journal)), *detectors]).fit(numbered(ROWS))
    assert not journal.fits


def test_prior_weights_go_by_name():
    fused = FusedDetector(["gmm", "kpca"], prior={"gmm": 3.0, "kpca": 1.0}, random_state=0)
    np.testing.assert_allclose(fused.fit(ROWS).weights_, [0.75, 0.25])


def test_names_are_saved(tmp_path):
    fused = FusedDetector(["gmm", "kpca"], p=3, random_state=0).fit(ROWS)
    fused.save(tmp_path / "model")
    found = load(tmp_path / "model")
    assert (found.detectors, found.p) == (["gmm", "kpca"], 3)
    same(found, fused)
    found.fit(ROWS)  # by its parameters
    same(found, fused)


# ------------------------------------------------------------------------------------- p, for short


def test_p_is_that_of_the_default_fusion():
    pool = ["gmm", "kpca", "iforest"]
    short = FusedDetector(pool, p=2, random_state=0).fit(ROWS)
    assert short.fusion_.p == 2
    long = FusedDetector(pool, fusion=default_fusion().set_params(p=2.0), random_state=0)
    same(short, long.fit(ROWS))
    auto = FusedDetector(pool, random_state=0).fit(ROWS)
    assert auto.fusion_.p == default_fusion().p
    assert auto.p == "auto"


def test_p_of_the_default_pool_drops_the_prior():
    normal = np.ones(len(ROWS))
    fused = FusedDetector(p=float("inf"), random_state=0).fit(ROWS, normal)
    table = FusedDetector(p=np.inf, random_state=0).fit(pl.DataFrame(ROWS), normal)
    assert fused.fusion_.prior is None
    assert isinstance(fused.scaler_, TwoSidedMinMax)
    np.testing.assert_allclose(fused.weights_, table.weights_)


@pytest.mark.parametrize("fusion", [LpFusion(p=3), FixedRule("max")])
def test_a_p_that_contradicts_the_fusion_is_refused(fusion):
    with pytest.raises(ValueError, match=r"p=2 contradicts fusion=.* Pass one of them"):
        FusedDetector(["gmm"], p=2, fusion=fusion).fit(ROWS)
    agreed = FusedDetector(["gmm", "kpca"], p=3, fusion=default_fusion().set_params(p=3))
    assert agreed.fit(ROWS).fusion_.p == 3


@pytest.mark.parametrize("p", [0.5, "tight", None, float("nan"), True])
def test_no_other_p(p):
    with pytest.raises(ValueError, match=r"p must be .* \[1, inf\]"):
        FusedDetector(["gmm"], p=p).fit(ROWS)


def test_another_fusion_forgets_p():
    fused = FusedDetector(["gmm", "kpca"], p=2, random_state=0).fit(ROWS)
    other = fused.with_fusion(FixedRule("sum"))
    assert (other.p, fused.p) == ("auto", 2)
    np.testing.assert_array_equal(other.weights_, [1.0, 1.0])
