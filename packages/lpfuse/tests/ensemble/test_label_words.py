"""Labels in the user's own words, from the fit to files and answers."""

import numpy as np
import pandas as pd
import pytest

import lpfuse
from lpfuse import FusedDetector

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 3))
X[40:50] += 3.0
SIGNS = np.repeat([1.0, -1.0, 0.0], [40, 10, 70])
WORDS = pd.Series(["ok"] * 38 + ["OK", " ok"] + ["leak"] * 10 + [None] * 70)


def made():
    return FusedDetector(["gmm", "histogram"], random_state=0)


@pytest.fixture(scope="module")
def by_signs():
    return made().fit(X, SIGNS)


@pytest.fixture(scope="module")
def by_words():
    with pytest.warns(UserWarning, match=r"Labels ' ok', 'OK' \(2 rows\) are taken as 'ok'\."):
        return made().fit(X, WORDS, normal="ok")


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.where(SIGNS == 0, np.nan, SIGNS), {}),
        (np.select([SIGNS > 0, SIGNS < 0], [0.0, 1.0], np.nan), {"anomaly": 1}),
        (pd.Series(WORDS).str.strip().str.lower(), {"anomaly": "leak"}),
    ],
)
def test_every_way_to_say_it_fits_alike(by_signs, y, words):
    fitted = made().fit(X, y, **words)
    np.testing.assert_array_equal(fitted.score_samples(X), by_signs.score_samples(X))


def test_words_are_remembered_by_score_and_files(by_signs, by_words, tmp_path):
    np.testing.assert_array_equal(by_words.score_samples(X), by_signs.score_samples(X))
    by_words.save(tmp_path / "model")
    for fused in (by_words, lpfuse.load(tmp_path / "model")):
        assert fused.score(X, WORDS) == fused.score(X, SIGNS) == by_signs.score(X, SIGNS)


@pytest.mark.parametrize("answers", [["leak", "ok", None], [-1, 1, 0], [-1.0, 1.0, np.nan]])
def test_answers_are_words_or_signs(by_words, tmp_path, answers):
    by_words.save(tmp_path / "model")
    taught = lpfuse.load(tmp_path / "model").teach(X[60:63], answers)
    assert taught.out_of_fold_.known[60:63].tolist() == [-1, 1, 0]


def test_numbers_never_become_words():
    """After anomaly=1, an answer of 1 still says normal."""
    fused = made().fit(X, np.select([SIGNS > 0, SIGNS < 0], [0, 1], 0), anomaly=1)
    taught = fused.teach(X[60:62], [1, -1])
    assert taught.out_of_fold_.known[60:62].tolist() == [1, -1]
