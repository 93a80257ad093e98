"""What was found by the fuzzer, and by reading beside it, each as a file that is refused now.

`save` reads what it would write by the rules of `load`, so a forged model cannot be saved either.
"""

import os

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.neighbors import KNeighborsClassifier

from fuzz.corpus import X, Y
from lpfuse import GMMDetector, load
from lpfuse.io import save


def test_nothing_hides_under_a_mask(tmp_path):
    """Sums and comparisons leave masked cells out; compiled code read them: signal 11."""
    model = KNeighborsClassifier(3, algorithm="brute", metric="manhattan").fit(X, Y)
    labels = np.full(len(X), 2**40)
    labels[0] = 0
    model._y = np.ma.MaskedArray(labels, np.arange(len(X)) > 0)
    with pytest.raises(TypeError, match="KNeighborsClassifier"):
        save(model, tmp_path / "model")


def test_an_ensemble_knows_its_columns(tmp_path):
    """Without `n_features_in_` only the first tree was asked, and others read beyond the row."""
    wide = np.random.default_rng(0).normal(size=(len(X), 500))
    model = GradientBoostingClassifier(n_estimators=1).fit(X, Y)
    others = GradientBoostingClassifier(n_estimators=3, max_features=10).fit(wide, Y)
    model.estimators_ = np.concatenate([model.estimators_, others.estimators_])
    model.n_estimators = model.n_estimators_ = len(model.estimators_)
    del model.n_features_in_
    with pytest.raises(TypeError, match="GradientBoostingClassifier"):
        save(model, tmp_path / "model")


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_file_of_holes_is_not_read_into_memory(is_empty, tmp_path):
    """A disk holds 2**42 zeros for nothing; their size was asked of the memory."""
    path = tmp_path / "model"
    save(GMMDetector(1, random_state=0).fit(X), path)
    os.truncate(path, 0 if is_empty else path.stat().st_size)
    os.truncate(path, 2**42)
    with pytest.raises(ValueError, match=r"is refused|is damaged") as refusal:
        load(path)
    assert not isinstance(refusal.value.__cause__, MemoryError)
