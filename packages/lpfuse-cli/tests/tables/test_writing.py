import io
import os
import subprocess
import sys

import polars as pl
import pytest

from helpers.pumps import read
from lpfuse._files import check_writable
from lpfuse_cli.tables import check_table_target, csv_writer, table_writer

SUFFIXES = ["csv", "parquet", "arrow"]
FRAMES = [pl.DataFrame({"a": [1, 2], "b": ["x", "é"]}), pl.DataFrame({"a": [3], "b": ["y,z"]})]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("part_rows", [1, 2, 100])
def test_what_is_added_is_there_in_its_order(tmp_path, suffix, part_rows):
    path = tmp_path / f"mine.{suffix}"
    path.write_text("old")
    with table_writer(path, part_rows) as add:
        for frame in FRAMES:
            add(frame)
        assert path.read_text() == "old"  # until all is there
    assert read(path).equals(pl.concat(FRAMES))
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_rows_are_a_table_too(tmp_path, suffix):
    with table_writer(tmp_path / f"mine.{suffix}") as add:
        add(FRAMES[0].clear())
    assert read(tmp_path / f"mine.{suffix}").columns == ["a", "b"]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("old", [True, False])
def test_what_is_interrupted_leaves_no_trace(tmp_path, suffix, error, old):
    path = tmp_path / f"mine.{suffix}"
    if old:
        path.write_text("old")

    def interrupted():
        with table_writer(path, part_rows=1) as add:
            add(FRAMES[0])
            raise error

    with pytest.raises(error):
        interrupted()
    assert os.listdir(tmp_path) == ([path.name] if old else [])
    assert not old or path.read_text() == "old"


FULL = """
import resource, sys
import polars as pl
from lpfuse_cli.tables import table_writer

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # as a disk with little room
for name in sys.argv[1:]:
    try:
        with table_writer(name) as add:
            for _ in range(20):
                add(pl.DataFrame({"a": range(5000)}).select(pl.all().shuffle(), b=pl.all().hash()))
    except OSError as error:
        print(error)
"""


def test_no_room_is_a_sentence_and_leaves_nothing(tmp_path):
    names = [f"mine.{suffix}" for suffix in SUFFIXES]
    command = [sys.executable, "-c", FULL, *(tmp_path / name for name in names)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == [
        f"{name} could not be written: File too large. No partial file is left; free disk "
        "space, or choose another folder, and try again."
        for name in names
    ]
    assert os.listdir(tmp_path) == []


def test_standard_output_is_csv(monkeypatch):
    stream = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(stream))
    with table_writer("-") as add:
        for frame in FRAMES:
            add(frame)
    assert stream.getvalue().decode() == 'a,b\n1,x\n2,é\n3,"y,z"\n'


def test_partial_writes_are_completed():
    class Narrow(io.BytesIO):
        def write(self, data):
            return super().write(bytes(data[:3]))

    file = Narrow()
    add = csv_writer(file, "narrow")
    add(FRAMES[0])
    add(FRAMES[1])
    assert file.getvalue().decode() == pl.concat(FRAMES).write_csv()


def test_full_disk_error_names_the_table():
    told = r"^mine\.csv could not be written: No space left on device\. No partial"
    with open("/dev/full", "wb", buffering=0) as file, pytest.raises(OSError, match=told):
        csv_writer(file, "mine.csv")(FRAMES[0])


# ------------------------------------------------------------------------- refused before any work


def test_targets_that_cannot_be_written_are_refused_at_once(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"no folder '.*nowhere'\. Make it, or name another"
    ):
        check_writable(tmp_path / "nowhere" / "a.csv")
    with pytest.raises(ValueError, match="is there, and is no file"):
        check_writable(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe' is there, and is no file"):
        check_writable(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"as \.arrow, .* or \.xlsx files, not as '.*a\.ods'"):
        check_table_target(tmp_path / "a.ods")
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_folder_without_permission_is_refused_at_once(tmp_path, monkeypatch):
    def denied(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("lpfuse._files.TemporaryFile", denied)
    with pytest.raises(PermissionError, match=r"Nothing can be written to .*: Permission denied\."):
        check_writable(tmp_path / "a.csv")


def test_what_is_read_is_not_written_over(tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("a\n1\n")
    (tmp_path / "link.csv").symlink_to(data)
    for target in (data, tmp_path / "link.csv"):
        with pytest.raises(ValueError, match="is read, so it cannot be written"):
            check_writable(target, ["-", "nowhere.csv", data])
    check_writable(tmp_path / "other.csv", [data])
    check_table_target("-", [data])
    assert sorted(os.listdir(tmp_path)) == ["data.csv", "link.csv"]


def test_a_link_leads_to_the_file(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "folder" / "real.csv")
    with table_writer(tmp_path / "link.csv") as add:
        add(FRAMES[0])
    assert (tmp_path / "link.csv").is_symlink()
    assert read(tmp_path / "folder" / "real.csv").equals(FRAMES[0])
