"""Cases of one item are all run, and all that fail are named."""

import pytest

from helpers.cases import cases


@cases("a, b", [(1, 1), (2, 2)])
def test_each_case_has_its_own_folder(a, b, tmp_path):
    assert a == b
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()


def test_all_failing_cases_are_named():
    seen = []

    @cases("value", [1, 2, 3, 4])
    def odd(value):
        seen.append(value)
        if value == 4:
            with pytest.raises(ValueError, match="never"):
                pass
        assert value % 2

    with pytest.raises(AssertionError, match="2 of 4 cases failed") as told:
        odd()
    assert seen == [1, 2, 3, 4]
    assert "{'value': 2}" in str(told.value)
    assert "{'value': 4}" in str(told.value)


def test_changes_of_a_case_are_undone(monkeypatch):
    settings = {"size": 1}

    @cases("value", [2, 3])
    def changed(value, monkeypatch):
        assert settings["size"] == 1
        monkeypatch.setitem(settings, "size", value)

    changed(monkeypatch=monkeypatch)
    assert settings["size"] == 1
