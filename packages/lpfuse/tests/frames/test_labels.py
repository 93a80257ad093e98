import numpy as np
import polars as pl
import pytest

from lpfuse.frames.cells import check_names, labels_of

nan = np.nan


def column(values):
    return pl.Series("state", values, strict=False)


def settled(values, normal=None):
    return labels_of(column(values), normal).values.tolist()


@pytest.mark.parametrize(
    ("values", "normal", "labels"),
    [
        (["ok", "worn", None, "leak"], "ok", [1, -1, 0, -1]),
        (["ok", "worn", None], "OK", [1, -1, 0]),
        (["1", "0", None], "0", [-1, 1, 0]),
        ([1, 0, None], "0", [-1, 1, 0]),
        ([1.0, 0.0, nan], "1", [1, -1, 0]),
        ([True, False, None], "false", [-1, 1, 0]),
        (["yes", None, None], "", [-1, 1, 1]),
        (["ok", None, "ok"], "ok", [1, 0, 1]),
    ],
)
def test_labels_as_the_user_says(values, normal, labels):
    assert settled(values, normal) == labels


@pytest.mark.parametrize(
    ("values", "normal"),
    [
        ([1, -1, 1], "1"),
        ([1.0, -1.0, nan], "1"),
        (["-1", "1", None], "1"),
        (["normal", "fraud", "theft"], "normal"),
        (["Normal", "Anomaly"], "Normal"),
    ],
)
def test_what_hardly_anybody_would_take_otherwise_need_not_be_said(values, normal):
    assert settled(values) == settled(values, normal)
    assert 1 in settled(values)


@pytest.mark.parametrize("values", [[0, 1], ["0", "1"], [True, False], ["ok", "bad"], [1, 2]])
def test_what_is_ambiguous_is_asked_for(values):
    with pytest.raises(ValueError, match=rf"Which is normal\? Say normal='{values[0]}' \(1 nor"):
        labels_of(column(values))


@pytest.mark.parametrize(
    ("values", "normal"),
    [(["fraud", None, None], None), (["fraud", None], "no"), (["fraud", "theft", None], None)],
)
def test_only_anomalies_are_labelled(values, normal):
    """The remedy is in the message, and works."""
    with pytest.raises(ValueError, match="or normal='' ") as e:
        labels_of(column(values), normal)
    assert "normal='fraud' (1 normal row, " in str(e.value)
    assert settled(values, "") == [1 if value is None else -1 for value in values]


@pytest.mark.parametrize(
    ("values", "normal", "told"),
    [
        (["ok", "ok"], None, "Say normal='ok' (2 normal rows, 0 anomalies)"),
        ([None, None], "ok", "is empty. Name another column, or none"),
        (["ok", "bad"], "okay", "(1 row), and nowhere 'okay'. Did you mean 'ok'? Say normal="),
        ([0, 1], "2", "nowhere '2'. Say normal='0' (1 normal row, 1 ano"),
        (["yes", "no"], "", "nowhere an empty label"),
        ([[1], [2]], "1", "holds List(Int64); expected one value a row"),
    ],
)
def test_labels_that_do_not_tell_are_refused(values, normal, told):
    with pytest.raises(ValueError, match="The label column 'state'") as refusal:
        labels_of(column(values), normal)
    assert told in str(refusal.value)


@pytest.mark.parametrize(("values", "normal"), [(["ok", "ok "], "ok"), ([1, 1], None)])
def test_all_rows_may_be_normal(values, normal):
    """Rows that are known to be normal are not unlabelled ones."""
    assert labels_of(column(values), normal).values.tolist() == [1, 1]


def test_a_value_never_seen_is_refused_later_where_all_labels_are_known():
    words = {"normal": ["ok"], "anomaly": ["worn"]}
    with pytest.raises(ValueError, match=r"'state' holds 'new' \(1 row\), which the fit"):
        labels_of(column(["new", "ok", None]), **words, is_later=True)
    later = labels_of(column(["new", "worn", None]), **words, is_later="open")
    assert later.values.tolist() == [0, -1, 0]


def test_a_value_never_seen_is_of_the_other_class_where_one_class_is_known():
    later = labels_of(column(["new", "newer", None]), "ok", is_later=True)
    assert later.values.tolist() == [-1, -1, 0]
    later = labels_of(column(["new", None]), anomaly="leak", is_later=True)
    assert later.values.tolist() == [1, 0]


def test_names_of_columns_with_and_without_commas():
    columns = ["a", "b", "c,d"]
    assert check_names([], columns) == []
    assert check_names(["c,d", "b"], columns) == ["c,d", "b"]
    assert check_names(["a, b"], columns) == ["a", "b"]
    with pytest.raises(ValueError, match="There is no column 'c'"):
        check_names(["a,c"], columns)


def test_numbers_in_another_spelling_are_not_told():
    found = labels_of(column(["0.0", "1.0", None]), anomaly="1")
    assert found.values.tolist() == [1, -1, 0]
    assert found.notes == []
