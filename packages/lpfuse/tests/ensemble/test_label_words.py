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
NEW, NEW_SIGNS = X[:50] + 1e-9, SIGNS[:50]
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
        expected = by_signs.score(NEW, NEW_SIGNS)
        assert fused.score(NEW, WORDS[:50]) == fused.score(NEW, NEW_SIGNS) == expected


@pytest.mark.parametrize("answers", [["leak", "ok", None], [-1, 1, 0], [-1.0, 1.0, np.nan]])
def test_answers_are_words_or_signs(by_words, tmp_path, answers):
    by_words.save(tmp_path / "model")
    taught = lpfuse.load(tmp_path / "model").teach(X[60:63], answers)
    assert taught.out_of_fold_.known[60:63].tolist() == [-1, 1, 0]


def test_labels_keep_the_meaning_that_they_had_in_fit(tmp_path):
    """After normal=0, or False, an answer of 1 says anomaly: in `teach`, `score` and files."""
    numbers = np.select([SIGNS > 0, SIGNS < 0], [0.0, 1.0], np.nan)
    for y, normal in ((numbers, 0), (numbers == 1, False)):
        made().fit(X, y, normal=normal).save(tmp_path / "model")
        for answers in ([0, 1], ["0", "1.0"], [False, True]):
            taught = lpfuse.load(tmp_path / "model").teach(X[:2] + 1e-9, answers)
            assert taught.out_of_fold_.known[-2:].tolist() == [1, -1]
        fused = lpfuse.load(tmp_path / "model")
        assert fused.score(NEW, NEW_SIGNS < 0) == fused.score(NEW, (NEW_SIGNS < 0).astype(int))
        for refused in ([1, -1], [-1, -1], [0, 2], ["ok", "0"]):
            with pytest.raises(ValueError, match=r"which the fit did not see\. Known are"):
                fused.teach(X[:2], refused)
        with pytest.raises(ValueError, match=r"holds -1 \(10 rows\), which the fit did not see"):
            fused.score(NEW, NEW_SIGNS)


@pytest.mark.parametrize("unseen", ["claer", "fault", True, 2, "none"])
def test_labels_that_fit_did_not_see_are_refused(by_words, unseen):
    with pytest.raises(ValueError, match="which the fit did not see"):
        by_words.teach(X[60:62], ["ok", unseen])
    with pytest.raises(ValueError, match=r"'ok' \(normal\), 'leak' \(anomaly\), 1 \(normal\)"):
        by_words.score(NEW, ["ok"] * 39 + [unseen] + ["leak"] * 10)


def test_a_misspelled_label_is_named(by_words):
    with pytest.raises(ValueError, match=r"'laek' \(1 row\), .*Did you mean 'leak'\?"):
        by_words.teach(X[60:62], ["ok", "laek"])


def test_a_class_may_be_named_before_it_is_seen():
    only_normal = np.where(SIGNS > 0, "ok", None)
    fused = made().fit(X, only_normal, normal="ok", anomaly="leak")
    assert fused.label_words_ == {"normal": ["ok"], "anomaly": ["leak"]}
    taught = fused.teach(X[60:62], ["leak", "ok"])
    assert taught.out_of_fold_.known[60:62].tolist() == [-1, 1]


def test_words_of_files_of_former_versions_leave_the_rest_to_the_other_class(by_words, tmp_path):
    """They held what the user had said, not all labels that were seen."""
    by_words.save(tmp_path / "model")
    former = lpfuse.load(tmp_path / "model")
    former.label_words_ = {"normal": ["ok"]}
    assert former.score(NEW, np.where(NEW_SIGNS > 0, "OK", "worn")) == by_words.score(
        NEW, NEW_SIGNS
    )
    taught = former.teach(X[60:63], [1, "worn", 0])
    assert taught.out_of_fold_.known[60:63].tolist() == [1, -1, 0]


def test_rows_labelled_in_fit_are_not_asked_about(by_words):
    asked = by_words.query(X, 20, random_state=0)
    assert len(asked) == 20
    assert (SIGNS[asked] == 0).all()
    assert len(by_words.query(X[:50], 5)) == 5  # there are no others


def test_a_column_that_holds_the_labels_is_told():
    words = WORDS.str.strip().str.lower()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(state=words)
    with pytest.warns(UserWarning, match="y can be read off column 'state' of X"):
        made().fit(frame, words, anomaly="leak", order="random")
    with pytest.warns(UserWarning, match="y can be read off column 3 of X"):
        made().fit(np.column_stack([X, SIGNS]), SIGNS, order="random")
    made().fit(frame, words, anomaly="leak", columns={"state": "drop"})


def test_equal_rows_with_both_labels_are_told():
    twice = np.concatenate([X, X[:2]])
    with pytest.warns(
        UserWarning, match=r"rows . and 12. are equal, but one is normal and the oth"
    ):
        made().fit(twice, [*SIGNS, -1, -1])


def test_the_card_takes_the_labels_of_the_fit(by_words, tmp_path):
    by_words.card(tmp_path / "words.md", NEW, np.where(NEW_SIGNS > 0, "ok", "leak"))
    by_words.card(tmp_path / "signs.md", NEW, NEW_SIGNS)
    words, signs = (
        [line for line in (tmp_path / f"{name}.md").read_text().splitlines() if "AUC" in line]
        for name in ("words", "signs")
    )
    assert words == signs
    assert words
    with pytest.raises(ValueError, match=r"'laek' .* which the fit did not see"):
        by_words.card(tmp_path / "no.md", NEW, np.where(NEW_SIGNS > 0, "ok", "laek"))
