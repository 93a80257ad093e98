import json
import os
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from helpers.cases import cases
from lpfuse._files import as_json
from research.common import measure as measuring
from research.common.measure import measure, versions
from research.common.store import Cell, protocol_hash, read_rows

PROTOCOL = {"splits": "70/20/10", "ps": [1.0, 2.0, float("inf")]}
CELLS = [Cell(name, seed) for name in ("vote", "iris") for seed in range(2)]  # not sorted by name


@pytest.fixture
def path(tmp_path):
    return tmp_path / "uci.jsonl"


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "uci.partial.jsonl"


def rows_of(cell):
    return [
        {"setting": setting, "method": "sum", "metric": "auc", "value": (len(cell.set) + i) / 7}
        for i, setting in enumerate(("pure", "non-pure"), start=cell.seed)
    ]


class Measured:
    """Work that keeps count; it can do something else first. Other processes can be told of it."""

    def __init__(self, folder, before=None):
        self.log = folder / "measured.txt"
        self.before = before or (lambda cell: None)

    def __call__(self, cell):
        with self.log.open("a") as file:
            file.write(f"{cell}\n")
        self.before(cell)
        return rows_of(cell)

    @property
    def counts(self):
        return Counter(self.log.read_text().splitlines()) if self.log.exists() else Counter()


def fails_at(cell, error):
    def before(found):
        if found == cell:
            raise error

    return before


def all_once(cells=CELLS):
    return Counter(map(str, cells))


def finished_file(folder, cells=CELLS, protocol=PROTOCOL):
    """What a run without any trouble writes."""
    measure(rows_of, cells, folder / "plain" / "uci.jsonl", protocol=protocol)
    return (folder / "plain" / "uci.jsonl").read_bytes()


# ------------------------------------------------------------------------------------ what is kept


def test_rows_follow_the_cells_with_place_and_origin(path, journal):
    rows = measure(rows_of, CELLS, path, protocol=PROTOCOL)
    stamp = {"protocol": protocol_hash(PROTOCOL), "versions": protocol_hash(versions())}
    assert rows == [
        {"set": cell.set, "seed": cell.seed, **row, **stamp}
        for cell in CELLS
        for row in rows_of(cell)
    ]
    assert read_rows(path) == read_rows(path, stamp["protocol"]) == rows
    assert read_rows(str(path)) == rows
    lines = list(map(json.loads, path.read_text().splitlines()))
    assert lines[:2] == [
        {
            "header": "protocol",
            "hash": stamp["protocol"],
            "content": {**PROTOCOL, "ps": [1.0, 2.0, "inf"]},
        },
        {"header": "versions", "hash": stamp["versions"], "content": versions()},
    ]
    assert lines[2:] == rows
    assert list(path.parent.iterdir()) == [path]


def test_cells_are_sorted_by_name_then_seed():
    assert sorted(CELLS) == [Cell("iris", 0), Cell("iris", 1), Cell("vote", 0), Cell("vote", 1)]
    assert len({*CELLS, Cell("vote", 1)}) == len(CELLS)


def test_folders_are_made(tmp_path):
    path = tmp_path / "some" / "where" / "uci.jsonl"
    measure(rows_of, CELLS, path, protocol=PROTOCOL)
    assert len(read_rows(path)) == 2 * len(CELLS)


def test_a_second_call_measures_nothing_and_leaves_the_file_alone(tmp_path, path):
    work = Measured(tmp_path)
    first = measure(work, CELLS, path, protocol=PROTOCOL)
    before = path.read_bytes(), path.stat().st_mtime_ns
    assert measure(work, CELLS, path, protocol=PROTOCOL) == first
    assert measure(work, CELLS[1:2], path, protocol=PROTOCOL) == first[2:4]  # what was asked for
    assert measure(work, [], path, protocol=PROTOCOL) == []
    assert work.counts == all_once()
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_a_cell_that_is_asked_for_twice_is_measured_once(tmp_path, path):
    work = Measured(tmp_path)
    rows = measure(work, [*CELLS, CELLS[0]], path, protocol=PROTOCOL)
    assert work.counts == all_once()
    assert len(rows) == 2 * len(CELLS)


def test_only_new_cells_are_measured_and_placed_in_order(tmp_path, path):
    work = Measured(tmp_path)
    measure(work, CELLS[::2], path, protocol=PROTOCOL)
    rows = measure(work, CELLS, path, protocol=PROTOCOL)
    assert work.counts == all_once()
    assert len(rows) == 2 * len(CELLS)
    assert path.read_bytes() == finished_file(tmp_path)


def test_cells_that_are_not_asked_for_stay(tmp_path, path):
    work = Measured(tmp_path)
    measure(work, CELLS[:2], path, protocol=PROTOCOL)
    later = measure(work, CELLS[2:], path, protocol=PROTOCOL)
    assert [row["set"] for row in later] == ["iris"] * 4
    assert len(read_rows(path)) == 2 * len(CELLS)
    measure(work, CELLS, path, protocol=PROTOCOL)
    assert work.counts == all_once()


def test_other_protocols_stay_but_neither_count_nor_show(tmp_path, path):
    work = Measured(tmp_path)
    other = {**PROTOCOL, "splits": "50/50"}
    before = measure(work, CELLS[:2], path, protocol=other)
    rows = measure(work, CELLS[:2], path, protocol=PROTOCOL)
    assert work.counts == Counter({str(cell): 2 for cell in CELLS[:2]})
    assert {row["protocol"] for row in rows} == {protocol_hash(PROTOCOL)}
    assert read_rows(path, protocol_hash(PROTOCOL)) == rows
    assert read_rows(path, protocol_hash(other)) == before
    assert read_rows(path) == before + rows
    assert read_rows(path, "0" * 12) == []
    lines = map(json.loads, path.read_text().splitlines())
    headers = [line.get("header") for line in lines]
    assert headers == ["protocol", "protocol", "versions", *[None] * len(before + rows)]
    # The first one grows where it is.
    grown = measure(work, CELLS[:3], path, protocol=other)
    assert read_rows(path) == grown + rows


def test_rows_keep_the_versions_they_were_measured_with(path, monkeypatch):
    old = measure(rows_of, CELLS[:1], path, protocol=PROTOCOL)
    monkeypatch.setattr(measuring, "versions", lambda: {"lpfuse": "99"})
    both = measure(rows_of, CELLS[:2], path, protocol=PROTOCOL)
    assert both[:2] == old
    assert both[2]["versions"] == both[3]["versions"] == protocol_hash({"lpfuse": "99"})
    contents = [json.loads(line).get("content") for line in path.read_text().splitlines()]
    assert {"lpfuse": "99"} in contents
    assert versions() in contents


def test_nothing_stored_is_an_error_that_says_so(path):
    with pytest.raises(FileNotFoundError, match=r"no results in .*uci\.jsonl"):
        read_rows(path)


# ----------------------------------------------------------------------------------- interruptions


@pytest.mark.parametrize("error", [ValueError("no such luck"), KeyboardInterrupt()])
def test_finished_cells_survive_an_interruption(tmp_path, path, journal, error):
    with pytest.raises(type(error)) as caught:
        measure(Measured(tmp_path, fails_at(CELLS[2], error)), CELLS, path, protocol=PROTOCOL)
    notes = getattr(caught.value, "__notes__", [])
    told = ["This happened while measuring iris, seed 0."] if isinstance(error, Exception) else []
    assert notes == told
    assert not path.exists()
    kept = read_rows(path, protocol_hash(PROTOCOL))
    assert {(row["set"], row["seed"]) for row in kept} == {("vote", 0), ("vote", 1)}
    calls = []
    work = Measured(tmp_path)
    rows = measure(
        work, CELLS, path, protocol=PROTOCOL, progress=lambda *counts: calls.append(counts)
    )
    assert rows[:4] == kept
    assert work.counts == all_once() + Counter({str(CELLS[2]): 1})  # the one that failed, again
    assert calls == [(2, 4), (3, 4), (4, 4)]
    assert path.read_bytes() == finished_file(tmp_path)
    assert not journal.exists()


def test_an_interruption_spares_what_was_there_before(tmp_path, path):
    before = measure(rows_of, CELLS[:1], path, protocol=PROTOCOL)
    work = Measured(tmp_path, fails_at(CELLS[2], KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        measure(work, CELLS, path, protocol=PROTOCOL)
    assert read_rows(path)[:2] == before
    assert len(read_rows(path)) == 4
    measure(rows_of, CELLS, path, protocol=PROTOCOL)
    assert path.read_bytes() == finished_file(tmp_path)


def test_nothing_is_left_behind_when_nothing_was_finished(tmp_path, path):
    work = Measured(tmp_path, fails_at(CELLS[0], ValueError("at once")))
    with pytest.raises(ValueError, match="at once"):
        measure(work, CELLS, path, protocol=PROTOCOL)
    assert work.counts == all_once(CELLS[:1])
    assert list(tmp_path.iterdir()) == [work.log]


KILLED = """
import os, signal, sys
from research.common.measure import measure
from research.common.store import Cell

def work(cell):
    if cell == Cell("iris", 0):
        os.kill(os.getpid(), signal.SIGKILL)
    return [{"value": cell.seed}]

cells = [Cell(name, seed) for name in ("vote", "iris") for seed in range(2)]
measure(work, cells, sys.argv[1], protocol={})
"""


def test_finished_cells_survive_a_kill_but_its_lock_does_not(tmp_path, path, journal):
    killed = subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert killed.returncode == -9
    assert len(journal.read_text().splitlines()) == 2
    kept = read_rows(path)
    work = Measured(tmp_path)
    rows = measure(work, CELLS, path, protocol={})
    assert rows[:2] == kept
    assert work.counts == all_once(CELLS[2:])


@pytest.mark.parametrize("torn", [b'{"protocol": {}, "vers', "{“".encode()[:-1], b"\0\0\0"])
def test_a_torn_line_is_measured_again(tmp_path, path, journal, torn):
    work = Measured(tmp_path, fails_at(CELLS[2], KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        measure(work, CELLS, path, protocol=PROTOCOL)
    first, second = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(first + torn)
    assert len(read_rows(path)) == 2
    # Interrupted once more, so that whole lines follow the torn one.
    work.before = fails_at(CELLS[3], KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        measure(work, CELLS, path, protocol=PROTOCOL)
    assert second in journal.read_bytes()
    assert len(read_rows(path)) == 6
    measure(Measured(tmp_path), CELLS, path, protocol=PROTOCOL)
    assert work.counts[str(CELLS[0])] == 1
    assert work.counts[str(CELLS[1])] == 2
    assert path.read_bytes() == finished_file(tmp_path)


def test_a_line_that_lacks_its_end_alone_is_whole(tmp_path, path, journal):
    with pytest.raises(KeyboardInterrupt):
        measure(
            Measured(tmp_path, fails_at(CELLS[2], KeyboardInterrupt)),
            CELLS,
            path,
            protocol=PROTOCOL,
        )
    journal.write_bytes(journal.read_bytes().rstrip())
    work = Measured(tmp_path)
    measure(work, CELLS, path, protocol=PROTOCOL)
    assert work.counts[str(CELLS[1])] == 1
    assert path.read_bytes() == finished_file(tmp_path)


def test_stopped_between_the_file_and_its_journal(tmp_path, path, journal, monkeypatch):
    """The file is written whole, or not at all; a journal that outlives it does no harm."""
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        measure(rows_of, CELLS, path, protocol=PROTOCOL)
    assert not path.exists()
    monkeypatch.setattr(os, "replace", replace)
    cells = journal.read_bytes()
    work = Measured(tmp_path)
    measure(work, CELLS, path, protocol=PROTOCOL)
    journal.write_bytes(cells)
    measure(work, CELLS, path, protocol=PROTOCOL)
    assert work.counts == Counter()
    assert path.read_bytes() == finished_file(tmp_path)
    assert not journal.exists()


def test_each_cell_is_safe_before_it_counts(path, journal, monkeypatch):
    """On the disk as a whole line when its progress is reported."""
    found, synced = [], []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(file), fsync(file)))

    def progress(done, total):
        lines = journal.read_bytes().count(b"\n")
        found.append((done, lines, len(synced), len(read_rows(path))))

    measure(rows_of, CELLS, path, protocol=PROTOCOL, progress=progress)
    assert found == [(done, done, done, 2 * done) for done in range(len(CELLS) + 1)]
    assert len(synced) == len(CELLS) + 1  # the file itself, before it takes its name


# ------------------------------------------------------------------------------------- one at once


def test_two_at_once_are_refused(tmp_path, path):
    work = Measured(tmp_path)

    def meanwhile(cell):
        if cell == CELLS[1]:
            with pytest.raises(BlockingIOError, match=r"Another process .*uci\.jsonl.*Wait"):
                measure(work, CELLS, path, protocol=PROTOCOL)
            measure(rows_of, CELLS, path.with_name("speed.jsonl"), protocol=PROTOCOL)
        return rows_of(cell)

    measure(meanwhile, CELLS, path, protocol=PROTOCOL)
    assert work.counts == Counter()
    assert path.read_bytes() == finished_file(tmp_path)


def test_a_journal_whose_owner_has_just_finished_is_not_used(tmp_path, path, journal, monkeypatch):
    import fcntl

    flock = fcntl.flock

    def late(file, operation):
        journal.unlink()
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    work = Measured(tmp_path)
    with pytest.raises(BlockingIOError, match="Another process"):
        measure(work, CELLS, path, protocol=PROTOCOL)
    assert work.counts == Counter()


# -------------------------------------------------------------------------------------- processes


def wait_for(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_any_number_of_processes_writes_the_same_bytes(tmp_path, path):
    log, expected = tmp_path / "finished.txt", finished_file(tmp_path)

    def out_of_order(cell):
        if cell.set == "vote" and cell.seed == 0:  # the first one is the last but one
            wait_for(lambda: log.exists() and log.read_text().count("\n") >= 2)
        with log.open("a") as file:
            file.write(f"{cell}\n")
        return rows_of(cell)

    calls = []
    rows = measure(
        out_of_order, CELLS, path, protocol=PROTOCOL, jobs=2, progress=lambda *n: calls.append(n)
    )
    assert log.read_text().splitlines()[:2] == ["vote, seed 1", "iris, seed 0"]
    assert [(row["set"], row["seed"]) for row in rows[::2]] == [(c.set, c.seed) for c in CELLS]
    assert path.read_bytes() == expected
    assert calls == [(done, 4) for done in range(5)]


def test_an_error_in_one_process_loses_nothing_of_the_others(tmp_path, path):
    """What is under way is finished and kept; nothing more is begun."""
    cells = [Cell("set", seed) for seed in range(20)]

    def trouble(cell):
        if cell.seed == 0:
            wait_for(lambda: "set, seed 1" in work.counts)
            raise LookupError("lost")
        if cell.seed == 1:
            time.sleep(0.2)  # still under way when the error arrives

    work = Measured(tmp_path, trouble)
    with pytest.raises(LookupError, match="lost") as caught:
        measure(work, cells, path, protocol=PROTOCOL, jobs=2)
    assert caught.value.__notes__ == ["This happened while measuring set, seed 0."]
    assert "in trouble" in str(caught.value.__cause__)  # where it happened, in the other process
    kept = {row["seed"] for row in read_rows(path)}
    assert 1 in kept
    begun = work.counts
    assert len(begun) < len(cells)
    assert kept == {int(name.split()[-1]) for name in begun} - {0}
    again = Measured(tmp_path)
    measure(again, cells, path, protocol=PROTOCOL, jobs=2)
    assert again.counts == all_once(cells) + Counter({"set, seed 0": 1})
    assert path.read_bytes() == finished_file(tmp_path, cells)


@pytest.mark.parametrize("jobs", [1, 2])
def test_one_thread_inside_a_cell(path, jobs):
    """And the last digits of linear algebra do not depend on the process."""

    def work(cell):
        import scipy.linalg

        A = np.random.default_rng(cell.seed).normal(size=(200, 200))
        threads = sorted((pool["user_api"], pool["num_threads"]) for pool in threadpool_info())
        return [{"value": scipy.linalg.eigvalsh(A @ A.T), "threads": threads}]

    with threadpool_limits(2):
        outside = sorted((pool["user_api"], pool["num_threads"]) for pool in threadpool_info())
        rows = measure(work, CELLS[:2], path, protocol=PROTOCOL, jobs=jobs)
        after = sorted((pool["user_api"], pool["num_threads"]) for pool in threadpool_info())
    assert 2 in dict(outside).values()
    assert after == outside
    with threadpool_limits(1):
        expected = [as_json(work(cell)[0]["value"]) for cell in CELLS[:2]]
    for row, values in zip(rows, expected, strict=True):
        assert {api for api, _ in row["threads"]} >= {"blas", "openmp"}
        assert {count for _, count in row["threads"]} == {1}
        assert row["value"] == values


def test_jobs_that_make_no_sense(path):
    with pytest.raises(ValueError, match="jobs must be a number of processes, or -1"):
        measure(rows_of, CELLS, path, protocol=PROTOCOL, jobs=0)
    assert not path.parent.joinpath("uci.partial.jsonl").exists()


# ----------------------------------------------------------------------------------------- values


def test_what_json_cannot_hold_has_a_stated_form(path):
    row = {
        "value": np.float64(0.1),
        "single": np.float32(0.5),
        "count": np.int64(3),
        "flag": np.bool_(True),
        "plain flag": False,
        "name": np.str_("ℓp \u2028"),
        "nan": float("nan"),
        "numpy nan": np.float64("nan"),
        "p": float("inf"),
        "below": -np.inf,
        "weights": np.array([[1.0, np.nan]]),
        "tuple": (1, None, "a"),
        "nested": {"p": np.inf, 2: [np.int8(1)]},
    }
    expected = {
        "value": 0.1,
        "single": 0.5,
        "count": 3,
        "flag": True,
        "plain flag": False,
        "name": "ℓp \u2028",
        "nan": None,
        "numpy nan": None,
        "p": "inf",
        "below": "-inf",
        "weights": [[1.0, None]],
        "tuple": [1, None, "a"],
        "nested": {"p": "inf", "2": [1]},
    }
    measured = measure(lambda cell: [row], CELLS[:1], path, protocol=PROTOCOL)
    assert read_rows(path) == measured
    (found,) = measured
    place = {"set": "vote", "seed": 0}
    assert {name: found[name] for name in [*place, *expected]} == place | expected
    assert list(map(type, found.values())) == [
        *map(type, place.values()),
        *map(type, expected.values()),
        str,
        str,
    ]
    assert float(found["p"]) == np.inf


def test_numbers_come_back_to_the_last_digit(path):
    values = np.random.default_rng(0).normal(size=50) * 10.0 ** np.arange(-25, 25)
    measure(lambda cell: [{"value": values}], CELLS[:1], path, protocol=PROTOCOL)
    assert read_rows(path)[0]["value"] == values.tolist()


def test_seeds_of_numpy_are_seeds(tmp_path, path):
    work = Measured(tmp_path)
    measure(work, [Cell(np.str_("vote"), np.int64(0))], path, protocol=PROTOCOL)
    measure(work, CELLS[:1], path, protocol=PROTOCOL)
    assert work.counts == all_once(CELLS[:1])


@cases(
    ("rows", "error", "message"),
    [
        ([], ValueError, "at least one row"),
        ([{"value": 1}, {"seed": 5, "value": 1}], ValueError, "says that it belongs to .*5"),
        ([{"set": "iris", "value": 1}], ValueError, "says that it belongs to .*iris"),
        ([{"protocol": "ours"}], ValueError, r"names that the file uses: \['protocol'\]"),
        ([{"value": {1, 2}}], TypeError, r"Results hold numbers.*got \{1, 2\} of type set"),
    ],
)
def test_rows_that_cannot_be_stored_are_refused(path, rows, error, message):
    with pytest.raises(error, match=message) as caught:
        measure(lambda cell: rows, CELLS, path, protocol=PROTOCOL)
    assert "vote, seed 0" in caught.value.__notes__[0]


def test_rows_may_say_where_they_belong(path):
    def work(cell):
        return [{"set": cell.set, "seed": cell.seed, "value": 1.0}]

    assert len(measure(work, CELLS, path, protocol=PROTOCOL)) == len(CELLS)


# ------------------------------------------------------------------------------ hash and versions


def test_the_hash_of_a_protocol():
    plain = protocol_hash({"a": 1, "b": [1.0, np.inf]})
    assert plain == protocol_hash({"b": (1.0, float("inf")), "a": np.int64(1)})
    assert plain == protocol_hash(json.loads(json.dumps({"a": 1, "b": [1.0, "inf"]})))
    assert len(plain) == 12
    assert set(plain) <= set("0123456789abcdef")
    others = [{}, {"a": 1}, {"a": 2, "b": [1.0, np.inf]}, {"a": 1, "b": [np.inf, 1.0]}]
    assert len({plain, *map(protocol_hash, others)}) == 5
    with pytest.raises(TypeError, match="of type set"):
        protocol_hash({"a": {1}})


def test_versions_are_those_in_use():
    found = versions()
    assert found["numpy"] == np.__version__
    assert found["python"] == sys.version.split()[0]
    libraries = ["lpfuse", "python", "numpy", "scipy", "scikit-learn", "solver core"]
    assert list(found) == [*libraries, "commit", "uncommitted_changes"]


# ---------------------------------------------------------------------- places that cannot be used


def test_a_file_as_folder_is_refused_before_any_work(tmp_path):
    (tmp_path / "taken").write_text("")
    work = Measured(tmp_path)
    with pytest.raises(OSError, match="taken"):
        measure(work, CELLS, tmp_path / "taken" / "uci.jsonl", protocol=PROTOCOL)
    assert work.counts == Counter()


def test_a_folder_as_file_is_refused_before_any_work(tmp_path, path):
    path.mkdir()
    work = Measured(tmp_path)
    with pytest.raises(OSError, match=r"uci\.jsonl"):
        measure(work, CELLS, path, protocol=PROTOCOL)
    assert work.counts == Counter()
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may write everywhere")
def test_a_folder_without_permission_is_refused_before_any_work(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    work = Measured(tmp_path)
    with pytest.raises(PermissionError, match="closed"):
        measure(work, CELLS, folder / "uci.jsonl", protocol=PROTOCOL)
    assert work.counts == Counter()


@pytest.mark.parametrize("damage", ["{not JSON", '{"a": 1}', "[]", "7"])
def test_a_file_of_something_else_is_refused_and_not_touched(tmp_path, path, damage):
    measure(rows_of, CELLS, path, protocol=PROTOCOL)
    number = path.read_text().count("\n") + 1
    path.write_text(path.read_text() + damage + "\n")
    before, work = path.read_bytes(), Measured(tmp_path)
    for act in (lambda: measure(work, CELLS, path, protocol={}), lambda: read_rows(path)):
        with pytest.raises(
            ValueError, match=rf"Line {number} of .*uci\.jsonl does not hold results"
        ):
            act()
    assert work.counts == Counter()
    assert path.read_bytes() == before
