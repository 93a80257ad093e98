import mmap
import os
import re
import warnings

import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator

from helpers.cases import cases
from helpers.pairwise import each_value
from lpfuse import LpFusion
from lpfuse._validation.params import (
    check_choice,
    check_count,
    check_labels,
    check_number,
    check_p,
    check_row_names,
    check_sample_weight,
    check_values,
    check_weights_like,
    read_labels,
)
from lpfuse._validation.tables import (
    check_features,
    check_scores,
    check_table,
    record_columns,
    warn_uninformative_columns,
)

SCORES = np.array([[0.5, 2.0, -1.0], [0.25, 1.0, 3.0]])
NAMES = ["forest", "svm", "lof"]


def read_message(function, *args, error=ValueError):
    with pytest.raises(error) as caught:
        function(*args)
    return str(caught.value)


# ---------------------------------------------------------------------------------------- scores


@cases(
    "given",
    [
        SCORES.tolist(),
        pd.DataFrame(SCORES, columns=NAMES),
        pl.DataFrame(SCORES, schema=NAMES),
        SCORES.astype(object),
    ],
)
def test_scores_of_any_kind_become_the_same_array(given):
    checked = check_scores(given)
    assert isinstance(checked, np.ndarray)
    np.testing.assert_array_equal(checked, SCORES)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_floating_scores_are_neither_copied_nor_converted(dtype):
    S = np.asfortranarray(SCORES, dtype=dtype)
    assert check_scores(S) is S


def test_integers_become_float64():
    assert check_scores([[1, 2]]).dtype == np.float64


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_the_estimator_remembers_names_and_refuses_others(frame):
    estimator = BaseEstimator()
    record_columns(estimator, frame(dict(zip(NAMES, SCORES.T, strict=True))))
    assert list(estimator.feature_names_in_) == NAMES
    other = frame(dict(zip(["forest", "svm", "knn"], SCORES.T, strict=True)))
    with pytest.raises(ValueError, match="knn"):
        check_scores(other, estimator=estimator)


def test_another_number_of_columns_is_refused_after_fit():
    estimator = BaseEstimator()
    record_columns(estimator, SCORES)
    with pytest.raises(ValueError, match=r"2 features.*3 features"):
        check_scores(SCORES[:, :2], estimator=estimator)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_not_finite_scores_are_found_by_column_name(frame, bad):
    S = SCORES.copy()
    S[1, 2] = bad
    S[:, 0] = bad
    message = read_message(check_scores, frame(dict(zip(NAMES, S.T, strict=True))))
    assert "column 'forest' (2 rows) and column 'lof' (1 row)" in message
    assert "'svm'" not in message
    assert "Drop those rows" in message


def test_not_finite_scores_are_found_by_position():
    S = SCORES.astype(np.float32)
    S[0, 1] = np.nan
    assert "column 1 (1 row)" in read_message(check_scores, S)


def test_infinities_of_both_signs_do_not_cancel():
    S = np.array([[np.inf, 1.0], [-np.inf, 1.0]])
    assert "column 0 (2 rows)" in read_message(check_scores, S)


def test_many_bad_columns_are_not_all_listed():
    message = read_message(check_scores, np.full((2, 40), np.nan))
    assert "column 4 (2 rows) and 35 more" in message


@pytest.fixture(params=["numpy", "array_api_strict", "torch"])
def library(request):
    return pytest.importorskip(request.param, reason=f"{request.param} is not installed")


def test_a_sum_that_overflows_is_not_an_infinity(library):
    X = library.asarray(np.full((3, 2), np.finfo(float).max))
    assert check_features(X) is X
    S = library.asarray(np.full((3, 2), 9.9e99))
    assert check_scores(S) is S


@pytest.mark.parametrize("value", [1.1e100, -1e250])
def test_training_scores_whose_squares_overflow_are_refused(library, value):
    S = library.asarray(np.array([[1.0, 2.0], [3.0, value]]))
    with pytest.raises(ValueError, match=r"squared.*column 1 reach.*Divide them by 1e\+") as caught:
        check_scores(S)
    factor = float(re.search(r"Divide them by (\S+) first", str(caught.value))[1])
    check_scores(S / factor)  # the advice works
    fitted = LpFusion(p=2).fit(np.random.default_rng(0).normal(size=(20, 2)))
    assert np.isfinite(float(fitted.score_samples(S)[1]))  # one odd row stops no file


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_text_columns_are_named(frame):
    S = frame({"forest": [0.1, 0.2], "comment": ["ok", "odd"], "site": ["a", "b"]})
    message = read_message(check_scores, S)
    assert "column 'comment' and column 'site'" in message
    assert "'forest'" not in message


def test_text_cells_in_a_list_are_found_by_position():
    assert "column 1 cannot be read as numbers" in read_message(check_scores, [[1, "x"], [2, 3]])


@cases(
    ("given", "words", "error"),
    [
        (SCORES[0], "Reshape your data", ValueError),
        (SCORES[None], "3", ValueError),
        (np.empty((0, 3)), r"0 sample\(s\)", ValueError),
        (np.empty((3, 0)), r"0 feature\(s\)", ValueError),
        (SCORES + 1j, "^Complex data not supported", ValueError),
        (sparse.csr_array(SCORES), "dense", TypeError),
        ([[1.0, 2.0], [3.0]], "inhomogeneous", ValueError),
    ],
)
def test_scores_of_a_wrong_shape_or_kind_are_refused(given, words, error):
    with pytest.raises(error, match=words):
        check_scores(given)


def test_array_api_scores_stay_in_their_library():
    S = array_api_strict.asarray(SCORES)
    assert check_scores(S) is S
    integers = array_api_strict.asarray([[1, 2]])
    assert check_scores(integers).dtype == array_api_strict.float64


def test_array_api_scores_are_counted_by_the_estimator():
    estimator = BaseEstimator()
    record_columns(estimator, array_api_strict.asarray(SCORES))
    assert estimator.n_features_in_ == 3
    with pytest.raises(ValueError, match="2 features"):
        check_scores(array_api_strict.asarray(SCORES[:, :2]), estimator=estimator)


@cases(
    ("given", "words"),
    [
        (SCORES[0], r"2D array.*\(-1, 1\)"),
        (np.empty((0, 3)), "at least one row"),
        (SCORES + 1j, "Complex data not supported"),
        (np.where(SCORES == 3.0, np.nan, SCORES), r"NaN or infinity in column 2 \(1 row\)"),
    ],
)
def test_unusable_array_api_scores_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        check_scores(array_api_strict.asarray(given))


def test_torch_scores_stay_in_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    S = torch.tensor(SCORES)
    assert check_scores(S) is S
    S[0, 1] = torch.nan
    assert "column 1 (1 row)" in read_message(check_scores, S)


# ---------------------------------------------------------------------------------------- labels


def test_no_labels_stay_none():
    assert check_labels(None, 3) is None


@given(st.lists(st.sampled_from([1, -1]), min_size=1).filter(lambda labels: 1 in labels))
def test_labels_survive_every_container(labels):
    for container in (list, np.array, pd.Series, pl.Series, array_api_strict.asarray):
        checked = check_labels(container(labels), len(labels))
        assert checked.dtype == np.float64
        assert checked.tolist() == labels


@cases("dtype", [object, np.int8, np.float32, "Int64"])
def test_labels_of_any_number_type(dtype):
    assert check_labels(pd.Series([1, -1], dtype=dtype), 2).tolist() == [1.0, -1.0]


WORDS = ["ok"] * 4 + ["fault"] * 2 + ["OK "]
BINARY = [0, 1, 1, 0, 0, 0, 0]
GAPPY = {
    "words": WORDS,
    "words with None": [*WORDS, None, None],
    "words with NaN": [*WORDS, np.nan, np.nan],
    "words with blanks": [*WORDS, "", "  "],
    "one word": ["fault", None, None, np.nan],
    "0 and 1": BINARY,
    "0 and 1 with gaps": [*map(float, BINARY), np.nan, np.nan],
    "1 with gaps": [1.0, np.nan, 1.0, np.nan],
    "0 with gaps": [0.0, np.nan],
    "booleans": [True, False, False],
    "booleans with gaps": [True, False, None],
    "other numbers": [1, 2, 2, 2],
    "other numbers with gaps": [1, 2, 2, None],
}


def without_nan(y):
    return pl.Series([None if value != value else value for value in y], strict=False)


CONTAINERS = [
    list,
    lambda y: np.array([*y, "object"], dtype=object)[:-1],
    pd.Series,
    lambda y: pd.Series(y).convert_dtypes(),
    without_nan,
]


def is_missing(value):
    return pd.isna(value) or (isinstance(value, str) and not value.strip())


def lines_of(error, start):
    return [line for line in str(error.value).splitlines() if line.startswith(start)]


@pytest.mark.parametrize("values", GAPPY.values(), ids=GAPPY.keys())
def test_lines_shown_for_labels_keep_gaps_unlabelled(values):
    """Each line of the message is run; what its comment promises is what comes out."""
    missing = np.array([is_missing(value) for value in values])

    def fit(X, y, unlabelled=None, **words):
        return read_labels(y, len(values), zero=unlabelled, **words).values

    for container in CONTAINERS:
        y = container(values)
        with pytest.raises(ValueError, match="Choose one of") as told:
            read_labels(y, len(values))
        lines = lines_of(told, "fit(X, y, ")
        assert len(lines) >= 2
        for line in lines:
            labels = eval(line, {"fit": fit, "X": None, "y": y})  # noqa: S307 # ours
            assert not labels[missing].any()
            assert f"# {(labels > 0).sum()} normal row" in line
            assert f", {(labels < 0).sum()} anomal" in line
            assert ("unlabelled" in line.partition("#")[2]) == (labels == 0).any()


@pytest.mark.parametrize("unlabelled", [True, False])
@pytest.mark.parametrize("values", GAPPY.values(), ids=GAPPY.keys())
def test_lines_shown_without_keywords_keep_gaps_unlabelled(values, unlabelled):
    """LpFusion and others take ±1: a line maps the labels, and drops the rows that have none."""
    n, missing = len(values), np.array([is_missing(value) for value in values])
    for container in CONTAINERS:
        with pytest.raises(ValueError, match="Choose one of") as told:
            check_labels(container(values), n, unlabelled=unlabelled)
        lines = lines_of(told, "y = ")
        assert len(lines) >= 2
        for line in lines:
            known = {"np": np, "y": container(values), "S": np.arange(n)}
            exec(line, known)  # ours
            y = known["y"]
            assert known["S"].tolist() == np.flatnonzero(~missing | unlabelled).tolist()
            assert (y == 0).tolist() == missing[known["S"]].tolist()
            assert f"# {(y > 0).sum()} normal row" in line


@pytest.mark.parametrize("values", [[1, np.nan, -1], [1, None, -1], [1, 0, -1]])
def test_rows_that_must_have_labels_are_left_out(values):
    message = read_message(check_labels, values, 3)
    line = message.partition("Leave these rows out: ")[2]
    known = {"np": np, "y": values, "S": np.arange(3)}
    exec(line, known)  # ours
    assert check_labels(known["y"], 2).tolist() == [1, -1]
    assert known["S"].tolist() == [0, 2]


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA, pd.NaT, "", "  ", "nan"], ids=repr)
@pytest.mark.parametrize(
    ("normal", "anomaly", "signs"),
    [
        ("ok", None, [1, 1, -1, -1]),
        (None, "leak", [1, 1, -1, 1]),
        (["OK"], ["leak", "x"], [1, 1, -1, -1]),
    ],
)
def test_words_tell_normal_rows_and_anomalies(gap, normal, anomaly, signs):
    found = read_labels(["ok", " OK", "leak", "x", gap], 5, normal=normal, anomaly=anomaly)
    assert found.values.tolist() == [*signs, 0]


@pytest.mark.parametrize(
    ("y", "words", "signs"),
    [
        ([1.0, np.nan, -1.0, 0.0], {}, [1, 0, -1, 0]),
        (["normal", "leak", None], {}, [1, -1, 0]),
        (["-1", "1", None], {}, [-1, 1, 0]),
        ([None, None], {}, [0, 0]),
        ([None, "fraud"], {"normal": ""}, [1, -1]),
        ([None, "fraud", "ok"], {"normal": ["", "ok"]}, [1, -1, 1]),
        (np.array([0, 1]), {"anomaly": 1}, [1, -1]),
        (np.array([0.0, 1.0, np.nan]), {"normal": "0"}, [1, -1, 0]),
        ([True, False], {"normal": "false"}, [-1, 1]),
        (["1", "0", ""], {"anomaly": 1}, [-1, 1, 0]),
    ],
)
def test_labels_of_many_kinds_are_read(y, words, signs):
    assert read_labels(y, len(y), **words).values.tolist() == signs


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"normal": "okay"}, "holds 'ok' (2 rows) and 'leak' (1 row), and nowhere 'okay'. Did you"),
        ({"normal": "ok", "anomaly": "Ok"}, "'ok' cannot be normal and an anomaly"),
        ({"normal": ["ok", "", "leak"]}, "nowhere an empty label"),
        ({"anomaly": ["ok", "leak"]}, "y holds only anomalies. Pass normal or unlabelled rows as"),
    ],
)
def test_words_that_do_not_fit_are_refused(words, told):
    with pytest.raises(ValueError, match=r"y holds|cannot be") as error:
        read_labels(["ok", "leak", "ok"], 3, **words)
    assert told in str(error.value)


def test_labels_of_neither_class_are_counted():
    y = ["ok", "leak", "test", "test"]
    with pytest.raises(ValueError, match=r"holds 'test' \(2 rows\), neither") as error:
        read_labels(y, 4, normal="ok", anomaly="leak")
    for line, signs in zip(lines_of(error, "fit"), ([1, -1, -1, -1], [1, -1, 1, 1]), strict=True):
        fitted = eval(line, {"fit": lambda X, y, **w: read_labels(y, 4, **w), "X": 0, "y": y})  # noqa: S307
        assert fitted.values.tolist() == signs


def test_labels_of_neither_class_may_be_left_empty():
    message = read_message(
        lambda y: read_labels(y, 4, normal="ok", anomaly="leak"), ["ok", "leak", "test", "test"]
    )
    assert "Leave them empty (None) if they say neither. Choose one of:" in message
    found = read_labels(["ok", "leak", None, None], 4, normal="ok", anomaly="leak")
    assert found.values.tolist() == [1, -1, 0, 0]


@pytest.mark.parametrize("words", [{}, {"normal": "ok"}, {"anomaly": "bad"}])
def test_anomalies_alone_are_never_offered_as_a_remedy(words):
    """The line that is shown is run; rows of one label alone cannot be anomalies."""
    with pytest.raises(ValueError, match="Pass normal or unlabelled rows as well") as error:
        read_labels(["bad"] * 3, 3, **words)
    (line,) = lines_of(error, "fit")
    fitted = eval(line, {"fit": lambda X, y, **w: read_labels(y, 3, **w), "X": 0, "y": ["bad"] * 3})  # noqa: S307
    assert fitted.values.tolist() == [1, 1, 1]


def test_the_remedy_for_a_column_of_labels_works():
    for column in (pd.DataFrame({"y": [1, -1]}), pl.DataFrame({"y": [1, -1]}), [[1], [-1]]):
        message = read_message(lambda y: read_labels(y, 2), column)
        remedy = message.partition("Pass ")[2].rstrip(".")
        read = read_labels(eval(remedy, {"np": np, "y": column}), 2)  # noqa: S307
        assert read.values.tolist() == [1, -1]


@pytest.mark.parametrize(
    ("y", "words", "signs"),
    [
        ([1, 0], {"normal": [0], "anomaly": [1]}, [-1, 1]),
        (["1", False], {"normal": [0], "anomaly": [1]}, [-1, 1]),
        ([1, -1, 0, "ok"], {"normal": ["ok"], "anomaly": []}, [1, -1, 0, 1]),
        ([1, -1, 0], {"normal": [1], "anomaly": [-1]}, [1, -1, 0]),
        ([1, 0], {"normal": [1]}, [1, -1]),
        ([1, 0, "x"], {"normal": ["ok"]}, [1, 0, -1]),
    ],
)
def test_later_labels_mean_what_earlier_ones_did(y, words, signs):
    assert read_labels(y, len(y), is_later=True, **words).values.tolist() == signs


def test_new_labels_are_refused_or_unlabelled():
    words = {"normal": ["ok"], "anomaly": ["leak"]}
    with pytest.raises(ValueError, match="which the fit did not see"):
        read_labels(["ok", "new"], 2, is_later=True, **words)
    assert read_labels(["ok", "new"], 2, is_later="open", **words).values.tolist() == [1, 0]


def test_all_labels_are_remembered_once():
    read = read_labels(["ok", "OK", "leak", "worn", None], 5, normal="Ok")
    assert read.words == {"normal": ["Ok"], "anomaly": ["leak", "worn"]}
    again = read_labels(["worn", "ok"], 2, is_later=True, **read.words)
    assert again.values.tolist() == [-1, 1]
    assert read_labels([1, -1, 0], 3).words == {}
    assert read_labels(again, 2) is again


def test_spellings_taken_as_another_are_told():
    found = read_labels(["ok", "OK", " ok", "leak"], 4, normal="ok")
    assert found.notes == ["Labels ' ok', 'OK' (2 rows) are taken as 'ok'."]
    assert read_labels([1, 0], 2, normal="1").notes == []


def test_words_without_labels_are_refused():
    assert read_labels(None, 3) is None
    with pytest.raises(ValueError, match="y=None has no labels for normal to name"):
        read_labels(None, 3, normal="ok")


def test_labels_without_a_normal_row_are_refused():
    assert "only −1" in read_message(check_labels, [-1, -1], 2)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([1, 1], r"shape \(3,\), got \(2,\)"),
        ([[1], [1], [1]], r"got \(3, 1\). Pass np.ravel\(y\)"),
        (1, r"got \(\)"),
    ],
    ids=["short", "column", "scalar"],
)
def test_labels_of_another_shape_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        check_labels(given, 3)


def test_rows_may_be_unlabelled_where_that_is_allowed():
    for container in (list, np.array, pd.Series, pl.Series, array_api_strict.asarray):
        checked = check_labels(container([1, 0, -1]), 3, unlabelled=True)
        assert checked.tolist() == [1.0, 0.0, -1.0]
    assert check_labels([0, -1, 0], 3, unlabelled=True).tolist() == [0.0, -1.0, 0.0]
    assert check_labels([0, 0], 2, unlabelled=True).tolist() == [0.0, 0.0]
    assert check_labels(None, 3, unlabelled=True) is None
    assert "got -1, 0 and 1" in read_message(check_labels, [1, 0, -1], 3)


@pytest.mark.parametrize("dtype", [int, float, object])
def test_ones_and_zeros_could_mean_anything(dtype):
    y = np.array([0, 1, 1], dtype=dtype)
    with pytest.raises(ValueError, match="y holds only 0 and 1") as told:
        check_labels(y, 3, unlabelled=True)
    assert "fit(X, y, unlabelled=0)" in str(told.value)
    assert check_labels(y, 3, unlabelled=True, zero=0).tolist() == [0.0, 1.0, 1.0]
    with pytest.raises(ValueError, match="unlabelled must be one of None, 0; got 1"):
        check_labels(y, 3, unlabelled=True, zero=1)


def test_labels_that_are_refused_though_rows_may_be_unlabelled():
    def check(labels, n):
        check_labels(labels, n, unlabelled=True)

    message = read_message(check, [1, 2, 0], 3)
    assert "y must be +1 (normal), -1 (anomaly) or 0 (unlabelled), got 0, 1 and 2" in message
    assert "or 0 (unlabelled)" in read_message(check, [True, False], 2)
    assert "only −1" in read_message(check, [-1, -1], 2)
    assert "expected shape (3,), got (2,)" in read_message(check, [1, 0], 3)


# ------------------------------------------------------------------------------- names of rows


def test_names_of_rows_may_be_numbers_or_words():
    assert check_row_names(None, 3, "groups") is None
    for names in (["a", "b", "a"], [1, 2, 1], pd.Series(["a", "b", "a"]), pl.Series([1, 2, 1])):
        checked = check_row_names(names, 3, "groups")
        assert isinstance(checked, np.ndarray)
        assert checked.tolist() == list(names)
    mixed = check_row_names(pd.Series([None, "b", "a"], dtype=object), 3, "kind")
    assert mixed[1:].tolist() == ["b", "a"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["a"], r"groups must hold one name for each row: expected shape \(3,\), got \(1,\)"),
        ([["a"]] * 3, r"got \(3, 1\). Pass np.ravel\(groups\)"),
        ("abc", r"got \(\)"),
    ],
)
def test_names_of_another_shape_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        check_row_names(given, 3, "groups")


# ---------------------------------------------------------------------------- odd kinds of arrays


MASK = np.array([[False, True, False], [False, False, False]])


@cases("kind", [np.float64, np.float32, int, bool])
def test_masked_cells_are_missing(kind):
    S = np.ma.array(SCORES.astype(kind), mask=MASK)
    for check in (check_scores, check_features):
        with pytest.raises(ValueError, match=r"NaN or infinity in column 1 \(1 row\)"):
            check(S)
    table = check_table(S)
    assert not isinstance(table, np.ma.MaskedArray)
    np.testing.assert_array_equal(np.isnan(table), MASK)
    np.testing.assert_array_equal(check_scores(np.ma.array(SCORES, mask=False)), SCORES)


def test_masked_labels_weights_and_values_are_missing():
    mask = [False, True]
    for labels in (np.array([1, -1]), np.array([1.0, -1.0]), np.array(["a", "b"])):
        with pytest.raises(ValueError, match="and 1 missing"):
            check_labels(np.ma.array(labels, mask=mask), 2)
    with pytest.raises(ValueError, match="nan in row 1"):
        check_sample_weight(np.ma.array([1.0, 1e9], mask=mask), 2)
    with pytest.raises(ValueError, match="1 of 2 are NaN"):
        check_values(np.ma.array([1.0, 1e9], mask=mask), "scores")


@pytest.mark.parametrize("kind", [complex, object])
def test_complex_numbers_are_refused_in_a_sentence(kind):
    for check, noun in ((check_scores, "scores"), (check_table, "features")):
        told = read_message(check, (SCORES + 1j).astype(kind))
        assert told == f"Complex data not supported: {noun} must be real numbers."
    told = read_message(check_table, pd.DataFrame(SCORES + 1j))
    assert told == "Complex data not supported: features must be real numbers."
    with pytest.raises(ValueError, match=r"got \(1\+1j\)\.$"):
        check_labels(np.array([1 + 1j]).astype(kind), 1)
    with pytest.raises(ValueError, match="must be numbers"):
        check_sample_weight(np.array([1 + 1j]).astype(kind), 1)


@cases("odd", [{}, [], object(), b"a", np.datetime64("2020-01-01")])
def test_labels_may_be_odd(odd):
    labels = np.empty(2, dtype=object)
    labels[:] = [1, odd]
    with pytest.raises(ValueError, match=r"y must (be \+1|hold one label)"):
        check_labels(labels, 2)
    with pytest.raises(ValueError, match="y must hold one label for each row"):
        check_labels([[1], [1, -1]], 2)


@cases(
    "change",
    [
        lambda S: S.astype(">f8"),
        lambda S: S.astype(np.longdouble),
        lambda S: S[::-1, ::-1].copy()[::-1, ::-1],
        lambda S: np.lib.stride_tricks.as_strided(S, writeable=False),
    ],
)
def test_scores_in_another_layout_are_the_same_scores(change):
    checked = check_scores(change(SCORES))
    assert checked.dtype == np.float64
    np.testing.assert_array_equal(checked, SCORES)


def test_what_no_double_can_hold_is_infinite():
    huge = np.array([[np.longdouble("1e4000"), 1.0]])
    assert "infinity in column 0" in read_message(check_scores, huge)
    assert "inf in row 0" in read_message(check_sample_weight, huge[0], 2)
    assert "column 0 cannot be read as numbers" in read_message(check_scores, [[10**400, 1]])


@each_value(
    view=[lambda S: S, np.asarray, lambda S: S[1:, ::2]],
    offset=[0, 8, 2 * mmap.ALLOCATIONGRANULARITY + 8],
)
def test_a_memory_map_whose_file_became_shorter_is_refused(tmp_path, view, offset):
    path = tmp_path / "scores"
    path.write_bytes(bytes(offset) + SCORES.tobytes())
    S = view(np.memmap(path, dtype=np.float64, shape=SCORES.shape, mode="r", offset=offset))
    assert np.isfinite(check_scores(S)).all()
    os.truncate(path, offset + 20)
    for check in (check_scores, check_features, check_table):
        with pytest.raises(ValueError, match=r"has become shorter: expected .* bytes, got"):
            check(S)
    with pytest.raises(ValueError, match="has become shorter"):
        check_sample_weight(S[:, 0], len(S))


# -------------------------------------------------------------------------- what messages quote


ODD_TEXTS = ["a" * 10**6, "\x1b[2J\x1b]0;title\x07" * 1000, "\u202etxt.exe\x9b1m\x00", "a\nb"]


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_no_message_obeys_or_repeats_a_text(text):
    frame = pd.DataFrame({text: [1.0, np.nan], "b": ["x", text]})
    messages = [
        read_message(check_scores, frame[[text]]),
        read_message(check_scores, frame),
        read_message(check_labels, [text, "b"], 2),
        read_message(check_labels, [[text], ["b"]], 2),
        read_message(check_number, "nu", text),
        read_message(check_choice, "score", text, ["mean"]),
        read_message(check_p, text),
        read_message(check_count, "n_init", text),
    ]
    for told in messages:
        assert len(told) < 2000
        assert told.replace("\n", " ").isprintable()


# -------------------------------------------------------------------------------- sample weights


def test_sample_weights_become_float64():
    assert check_sample_weight(None, 2) is None
    checked = check_sample_weight(pd.Series([0, 2]), 2)
    assert checked.dtype == np.float64
    assert checked.tolist() == [0.0, 2.0]


@cases(
    ("given", "words"),
    [
        ([1.0, -0.5], "-0.5 in row 1"),
        ([1.0, np.nan], "nan in row 1"),
        ([np.inf, 1.0], "inf in row 0"),
        ([0.0, 0.0], "zero in every row"),
        ([1e308, 1e308], "adds up to inf, too much for double precision.*by 1e-200"),
        ([5e-324, 5e-324], "adds up to 9.88e-324, too little for double precision.*by 1e[+]200"),
        ([1.0], r"shape \(2,\), got \(1,\)"),
        ([[1.0], [1.0]], r"np.ravel\(sample_weight\)"),
        (["a", "b"], "must be numbers"),
    ],
)
def test_unusable_sample_weights_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        check_sample_weight(given, 2)


@pytest.mark.parametrize("size", [1e308, 5e-324])
def test_weights_beside_torch_rows_must_have_a_sum(size):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    S, weights = torch.ones((2, 1)), torch.full((2,), size, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"adds up to .* for double precision"):
        check_weights_like(weights, S)


# ------------------------------------------------------------------------------ idle columns


@pytest.fixture
def scores():
    return np.random.default_rng(0).normal(size=(50, 4))


def test_good_columns_raise_no_warning(scores):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_uninformative_columns(scores)


@pytest.mark.parametrize("level", [0.0, -3.0, 1e6])
def test_flat_columns_are_named(scores, level):
    scores[:, 2] = level
    with pytest.warns(UserWarning, match=r"no spread in column 2:"):
        warn_uninformative_columns(scores)
    with pytest.warns(UserWarning, match="no spread in column 'lof':"):
        warn_uninformative_columns(scores, ["forest", "svm", "lof", "gmm"])


def test_a_spread_lost_to_rounding_counts_as_flat(scores):
    scores[:, 1] = 1.0 + 1e-13 * scores[:, 1]
    with pytest.warns(UserWarning, match="no spread in column 1:"):
        warn_uninformative_columns(scores)


def test_equal_columns_are_paired(scores):
    scores[:, 3] = scores[:, 1]
    with pytest.warns(UserWarning, match="same scores twice: column 3 = column 1"):
        warn_uninformative_columns(scores)


def test_columns_that_differ_in_one_row_are_not_equal(scores):
    """Whichever row it is: some rows are compared first."""
    for row in range(len(scores)):
        S = scores.copy()
        S[:, 3] = S[:, 1]
        S[row, 3] += 1e-9
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warn_uninformative_columns(S)


def test_flat_columns_are_not_called_equal_too(scores):
    scores[:, :2] = 0.0
    with pytest.warns(UserWarning, match="no spread in column 0 and column 1:") as caught:
        warn_uninformative_columns(scores)
    assert len(caught) == 1


# -------------------------------------------------------------------------------------- features


@cases(
    "given",
    [
        SCORES.tolist(),
        pd.DataFrame(SCORES, columns=NAMES),
        pl.DataFrame(SCORES, schema=NAMES),
        SCORES.astype(object),
    ],
)
def test_features_of_any_kind_become_the_same_array(given):
    checked = check_features(given)
    assert isinstance(checked, np.ndarray)
    np.testing.assert_array_equal(checked, SCORES)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_floating_features_are_neither_copied_nor_converted(dtype):
    X = np.asfortranarray(SCORES, dtype=dtype)
    assert check_features(X) is X
    foreign = array_api_strict.asarray(X)
    assert check_features(foreign) is foreign


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_unusable_features_are_called_features(frame):
    X = dict(zip(NAMES, SCORES.T, strict=True))
    message = read_message(check_features, frame(X | {"svm": [np.nan, 1.0]}))
    assert message.startswith("Features must be finite")
    assert "column 'svm' (1 row)" in message
    message = read_message(check_features, frame(X | {"svm": ["red", "blue"]}))
    assert message.startswith("Features must be numbers, but column 'svm'")
    assert "encode them as numbers first" in message


@cases(
    ("given", "words"),
    [
        (SCORES[0], r"2D array of features \(n samples × d features\)"),
        (np.empty((0, 3)), "Features need at least one row"),
        (SCORES + 1j, "features must be real numbers"),
        (np.where(SCORES == 3.0, np.inf, SCORES), r"Features must be finite.* column 2 \(1 row\)"),
    ],
)
def test_unusable_array_api_features_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        check_features(array_api_strict.asarray(given))


@cases(
    ("given", "words", "error"),
    [
        (SCORES[0], "Reshape your data", ValueError),
        (np.empty((0, 3)), r"0 sample\(s\)", ValueError),
        (SCORES + 1j, "^Complex data not supported", ValueError),
        (sparse.csr_array(SCORES), "dense", TypeError),
    ],
)
def test_features_of_a_wrong_shape_or_kind_are_refused(given, words, error):
    with pytest.raises(error, match=words):
        check_features(given)


def test_features_must_have_the_columns_of_the_fit():
    estimator = BaseEstimator()
    record_columns(estimator, pd.DataFrame(SCORES, columns=NAMES))
    check_features(pd.DataFrame(SCORES, columns=NAMES), estimator=estimator)
    with pytest.raises(ValueError, match="feature names"):
        check_features(pd.DataFrame(SCORES, columns=NAMES[::-1]), estimator=estimator)
    nameless = BaseEstimator()
    record_columns(nameless, SCORES)
    with pytest.raises(ValueError, match=r"2 features.*3 features"):
        check_features(array_api_strict.asarray(SCORES[:, :2]), estimator=nameless)


# ---------------------------------------------------------------------------------------- tables

GAPS = np.where(SCORES == 2.0, np.nan, SCORES)


@pytest.mark.parametrize("given", [GAPS, GAPS.tolist(), GAPS.astype(object)])
def test_tables_of_numbers_become_arrays_and_keep_their_gaps(given):
    checked = check_table(given)
    assert isinstance(checked, np.ndarray)
    np.testing.assert_array_equal(checked, GAPS)
    assert check_table(GAPS.astype(np.float32)).dtype == np.float32


def test_tables_of_other_libraries_become_arrays():
    np.testing.assert_array_equal(check_table(array_api_strict.asarray(GAPS)), GAPS)
    torch = pytest.importorskip("torch", reason="torch is not installed")
    np.testing.assert_array_equal(check_table(torch.tensor(GAPS, requires_grad=True)), GAPS)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_stay_what_they_are(frame):
    table = frame({"a": [1.0, None], "b": ["x", None], "c": [1, 2], "d": [True, False]})
    assert check_table(table) is table


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_tables_must_have_the_columns_of_the_fit(frame):
    table = frame(dict(zip(NAMES, SCORES.T, strict=True)))
    estimator = BaseEstimator()
    record_columns(estimator, table)
    assert check_table(table, estimator=estimator) is table
    with pytest.raises(ValueError, match="feature names"):
        check_table(frame(dict(zip(NAMES[::-1], SCORES.T, strict=True))), estimator=estimator)
    nameless = BaseEstimator()
    record_columns(nameless, SCORES)
    with pytest.raises(ValueError, match=r"2 features.*3 features"):
        check_table(SCORES[:, :2], estimator=nameless)


@cases(
    ("given", "words", "error"),
    [
        (np.where(SCORES == 2.0, np.inf, SCORES), "X holds infinity.*by NaN where", ValueError),
        (pd.DataFrame({"a": [1.0, -np.inf], "b": ["x", "y"]}), "X holds infinity", ValueError),
        (pl.DataFrame({"a": [1.0, -np.inf], "b": ["x", "y"]}), "X holds infinity", ValueError),
        (pd.DataFrame({"a": []}), r"at least one row and one column, got \(0, 1\)", ValueError),
        (pl.DataFrame({"a": []}), r"at least one row and one column, got \(0, 1\)", ValueError),
        (pd.DataFrame(index=[0, 1]), r"got \(2, 0\)", ValueError),
        (pd.DataFrame({"a": [1], 2: [3]}), "string names", TypeError),
        (SCORES[0], "Reshape your data", ValueError),
        (np.empty((0, 3)), r"0 sample\(s\)", ValueError),
        ([["a", "b"]], "Features must be numbers, but column 0 and column 1", ValueError),
        (SCORES + 1j, "^Complex data not supported", ValueError),
        (sparse.csr_array(SCORES), "dense", TypeError),
    ],
)
def test_tables_that_cannot_be_used_are_refused(given, words, error):
    with pytest.raises(error, match=words):
        check_table(given)
