"""skops saves what we fit, and loads it by the list of types that we hand out."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.ensemble import HistGradientBoostingClassifier, IsolationForest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lpfuse import SVDD, FusedDetector, KNNDetector, LpFusion
from lpfuse._files import saved_classes
from lpfuse.fusion import FixedRule
from lpfuse.io import skops_trusted_types

skops = pytest.importorskip("skops.io", reason="skops is an extra")

rng = np.random.default_rng(0)
X = np.concatenate([rng.normal(size=(120, 3)), rng.normal(2, 1, size=(12, 3))])
Y = np.repeat([1, -1], [120, 12])

MODELS = {
    "default": lambda: FusedDetector(random_state=0).fit(X),
    "experts": lambda: FusedDetector(
        [("boosting", HistGradientBoostingClassifier(max_iter=5)), ("line", LogisticRegression()),
         ("knn", KNNDetector(1, n_subspaces=4))], cv=3, random_state=0,
    ).fit(X, Y),
    "paper": lambda: FusedDetector("paper", cv=3, random_state=0).fit(X[:120]),
    "scikit-learn": lambda: FusedDetector(
        [("forest", IsolationForest(n_estimators=5)), ("lof", LocalOutlierFactor(novelty=True)),
         ("svdd", make_pipeline(StandardScaler(), SVDD()))],
        fusion=FixedRule("aom"), cv=3, random_state=0,
    ).fit(X),
    "pipeline": lambda: make_pipeline(StandardScaler(), LpFusion(p=2)).fit(-X, Y),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_fitted_model_comes_back_from_skops(name):
    model = MODELS[name]()
    model.score_samples(X[:1])  # what single rows need is prepared, and must not be in the way
    content = skops.dumps(model)
    assert set(skops.get_untrusted_types(data=content)) <= set(skops_trusted_types())
    copy = skops.loads(content, trusted=skops_trusted_types())
    assert_array_equal(copy.score_samples(X), model.score_samples(X))
    assert_array_equal(copy.predict(X), model.predict(X))


def test_a_detector_for_pyod_comes_back_from_skops():
    pyod = pytest.importorskip("lpfuse.pyod", exc_type=ImportError)
    clf = pyod.PyODFused(SVDD()).fit(X)
    copy = skops.loads(skops.dumps(clf), trusted=skops_trusted_types())
    assert_array_equal(copy.decision_function(X), clf.decision_function(X))
    assert copy.threshold_ == clf.threshold_


def test_every_class_that_files_may_hold_is_on_the_list():
    listed = skops_trusted_types()
    assert listed == sorted(set(listed))
    for cls in saved_classes().values():
        if cls.__module__.startswith("lpfuse."):
            assert f"{cls.__module__}.{cls.__qualname__}" in listed


def test_nothing_of_others_is_on_the_list():
    homes = {name.split(".")[0] for name in skops_trusted_types()}
    assert homes == {"lpfuse", "lpfuse_clients", "numpy", "sklearn"}


def test_without_the_list_skops_refuses():
    with pytest.raises(Exception, match=r"lpfuse\.detectors\.svdd\.SVDD"):
        skops.loads(skops.dumps(SVDD().fit(X)))
