"""Records that are appended as they come, documents, and stored files as they are."""

import json
import math
from pathlib import Path

import pytest

from helpers.cases import cases
from research.common.store import (
    CellFile,
    RecordStore,
    read_document,
    read_records,
    read_rows,
    write_document,
)

RESULTS = Path(__file__).parents[2] / "results"
ENVIRONMENT = {"id": "e1", "cpu": "some"}
ASKED = {"kind": "solve", "n": 100, "p": "2", "rival": "ours"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new" / "solver.jsonl"


def test_a_record_is_found_by_what_was_asked(path):
    store = RecordStore(path, ENVIRONMENT)
    store.append({**ASKED, "seconds": 1.5})
    assert store.find(**ASKED)["seconds"] == 1.5
    assert store.find(**ASKED | {"p": "4"}) is None
    assert RecordStore(path, ENVIRONMENT).find(**ASKED) == {
        **ASKED, "seconds": 1.5, "environment": "e1",
    }  # fmt: skip
    assert [line["kind"] for line in lines(path)] == ["environment", "solve"]  # once


def test_measured_again_the_last_line_counts(path):
    store = RecordStore(path, ENVIRONMENT)
    for seconds in (1.5, 1.2):
        store.append({**ASKED, "seconds": seconds})
    other = RecordStore(path, {"id": "e2", "cpu": "other"})
    other.append({**ASKED, "p": "4", "seconds": 9.0})
    environments, records = split(read_records([path]))
    assert [r["seconds"] for r in records] == [1.2, 9.0]
    assert [r["environment"] for r in records] == ["e1", "e2"]
    assert [e["id"] for e in environments] == ["e1", "e2"]
    assert [r["p"] for r in other.select(kind="solve", n=100)] == ["2", "4"]


def test_an_interrupted_run_goes_on_where_it_stopped(path):
    store = RecordStore(path, ENVIRONMENT)
    for p in ("2", "4"):
        store.append({**ASKED, "p": p, "seconds": 1.0})
    whole = path.read_text()
    path.write_text(whole[:-20])  # torn in the middle of a line
    store = RecordStore(path, ENVIRONMENT)
    assert store.find(**ASKED) is not None
    assert store.find(**ASKED | {"p": "4"}) is None
    store.append({**ASKED, "p": "4", "seconds": 1.0})
    assert len(read_records([path])) == 3


def test_what_json_has_not_becomes_null(path):
    RecordStore(path, ENVIRONMENT).append({**ASKED, "gaps": [math.inf, math.nan, 1e-9]})
    assert lines(path)[-1]["gaps"] == [None, None, 1e-9]


def test_documents_come_back(tmp_path):
    write_document(tmp_path / "new" / "stress.json", {"rows": [{"gap": math.inf, "n": 3}]})
    assert read_document(tmp_path / "new" / "stress.json") == {"rows": [{"gap": None, "n": 3}]}


@cases("path", sorted((RESULTS / "speed").rglob("*.jsonl")))
def test_stored_records_are_read_as_they_are(path):
    environments, records = split(read_records([path]))
    ids = {e["id"] for e in environments}
    assert records
    assert all(r["environment"] in ids for r in records)
    stored = lines(path)
    assert all(r in stored for r in records)


@cases("path", sorted((RESULTS / "paper").glob("*.jsonl")))
def test_stored_experiments_are_read_and_written_unchanged(path, tmp_path):
    rows = [line for line in lines(path) if "header" not in line]
    assert sorted(map(str, read_rows(path))) == sorted(map(str, rows))
    CellFile.read(path).write(tmp_path / path.name, first=())
    assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def split(records):
    is_environment = [r["kind"] == "environment" for r in records]
    return (
        [r for r, told in zip(records, is_environment, strict=True) if told],
        [r for r, told in zip(records, is_environment, strict=True) if not told],
    )
