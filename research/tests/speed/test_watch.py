"""The page on `lpfuse watch` is that of the stored records; a small run makes such records."""

import sys

import pytest

from research.common.store import read_records
from research.speed import watch as bench


def test_the_page_is_that_of_the_stored_records():
    assert bench.PAGE.read_text() == bench.page(read_records([bench.STORE], bench.ASKED))


@pytest.mark.parametrize("part", ["ratio", "memory"])
def test_a_small_run_is_stored_and_shown(part, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench, "STORE", tmp_path / "watch.jsonl")
    options = ["--rows", "2000", "--repeats", "2", "--model", bench.MODELS[0]]
    monkeypatch.setattr(sys, "argv", ["watch", part, *options])
    bench.main()
    assert capsys.readouterr().out
    records = read_records([bench.STORE], bench.ASKED)
    kinds = [record["kind"] for record in records]
    assert kinds == ["environment", *[part] * (2 if part == "ratio" else 1)]
    assert "| three scores, fused | 2,000 | 2 |" in bench.page(records)
