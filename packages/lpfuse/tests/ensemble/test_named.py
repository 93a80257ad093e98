import math
import sys

import pytest
from sklearn.ensemble import ExtraTreesClassifier, IsolationForest, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import LocalOutlierFactor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from lpfuse import SVDD, ColumnForest, GMMDetector, KernelPCADetector, KNNDetector, OneClassGP
from lpfuse.ensemble.components import default_detectors, named_detectors
from lpfuse.views import NormalQuantiles


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
        ("lof", LocalOutlierFactor),
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


def test_a_detector_that_many_rows_are_too_many_for_can_still_be_named():
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
