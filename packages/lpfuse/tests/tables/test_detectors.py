import sys

import pytest
from sklearn.ensemble import ExtraTreesClassifier, IsolationForest, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import LocalOutlierFactor
from sklearn.preprocessing import StandardScaler

from lpfuse import SVDD, GMMDetector, KernelPCADetector, OneClassGP
from lpfuse.tables._detectors import named_detectors


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("svdd", SVDD),
        ("gp", OneClassGP),
        ("kpca", KernelPCADetector),
        ("gmm", GMMDetector),
        ("iforest", IsolationForest),
        ("forest", IsolationForest),
        ("isolation-forest", IsolationForest),
        ("IForest", IsolationForest),
        ("lof", LocalOutlierFactor),
        ("trees", ExtraTreesClassifier),
        ("logistic", LogisticRegression),
        ("random-forest", RandomForestClassifier),
    ],
)
def test_each_name_is_a_detector_on_standardised_features(name, kind):
    ((found, pipeline),) = named_detectors([name], 100)
    assert found == name
    scaler, detector = pipeline
    assert isinstance(scaler, StandardScaler)
    assert isinstance(detector, kind)


def test_they_are_set_up_for_the_number_of_rows():
    ((_, few),) = named_detectors(["svdd"], 100)
    ((_, many),) = named_detectors(["svdd"], 100_000)
    assert (few[-1].approximation, many[-1].approximation) == (None, "nystroem")


@pytest.mark.parametrize("name", ["pyod:ECOD", "PyOD:ecod", "pyod:HBOS"])
def test_detectors_of_pyod(name):
    pytest.importorskip("pyod")
    ((found, pipeline),) = named_detectors([name], 100)
    assert found == name
    assert type(pipeline[-1]).__name__.upper() == name[5:].upper()


def test_unknown_names_are_told_with_the_closest():
    with pytest.raises(
        ValueError, match=r"no detector 'svd'\. Did you mean 'svdd'\? Known are svdd,"
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
