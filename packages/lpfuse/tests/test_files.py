"""A file appears whole or not at all."""

import os
import signal
import stat
import subprocess
import sys

import pytest

from helpers.cases import cases
from lpfuse import _files
from lpfuse._files import check_writable, replacing


def test_the_old_file_is_replaced_at_the_end(tmp_path):
    path = tmp_path / "it"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("stop", [RuntimeError, KeyboardInterrupt])
def test_an_interruption_leaves_what_was_there(tmp_path, stop):
    path = tmp_path / "it"
    path.write_bytes(b"old")

    def interrupted():
        with replacing(path) as file:
            file.write(b"half")
            raise stop

    with pytest.raises(stop):
        interrupted()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "it")
    with replacing(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "it").read_bytes() == b"new"
    assert (tmp_path / "link").is_symlink()


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "no" / "it"):
        pass


def test_what_is_no_regular_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileExistsError, match="not a regular file"), replacing(tmp_path / "pipe"):
        pass
    assert (tmp_path / "pipe").is_fifo()
    with pytest.raises(FileExistsError), replacing(tmp_path):
        pass


def rights(path):
    return stat.S_IMODE(path.stat().st_mode)


@cases("mode", [0o600, 0o640, 0o444, 0o664])
def test_a_file_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "it"
    path.write_bytes(b"old")
    path.chmod(mode)
    (tmp_path / "link").symlink_to(path)
    for name in ("it", "link"):
        with replacing(tmp_path / name) as file:
            file.write(b"new")
            assert not rights(next(tmp_path.glob("*.tmp"))) & 0o077  # nobody reads it before
        assert rights(path) == mode


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_mode_of_other_new_files(tmp_path, mask):
    before = os.umask(mask)
    try:
        with replacing(tmp_path / "it"):
            pass
    finally:
        os.umask(before)
    assert rights(tmp_path / "it") == 0o666 & ~mask


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_file_keeps_its_owner(tmp_path):
    path = tmp_path / "it"
    path.write_bytes(b"old")
    os.chown(path, 1234, 4321)
    path.chmod(0o640)
    with replacing(path) as file:
        file.write(b"new")
    assert (path.stat().st_uid, path.stat().st_gid, rights(path)) == (1234, 4321, 0o640)


WRITES = """
import signal, sys, time
from lpfuse import _files
from lpfuse._files import check_writable, replacing
{before}
with replacing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep({seconds})
"""


def heed_hangups():
    """Tests may run under nohup, which children would inherit."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def writing(path, before="", seconds=60):
    """A process that has begun to write a file."""
    code = WRITES.format(before=before, seconds=seconds)
    process = subprocess.Popen(
        [sys.executable, "-c", code, path], stdout=subprocess.PIPE, preexec_fn=heed_hangups
    )
    assert process.stdout.readline() == b"writing\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("old", [None, b"old"])
def test_a_signal_leaves_what_was_there(tmp_path, number, old):
    path = tmp_path / "it"
    if old:
        path.write_bytes(old)
    with writing(path) as process:
        process.send_signal(number)
    assert process.returncode == (-number if number == signal.SIGINT else 128 + number)
    assert [each.read_bytes() for each in tmp_path.iterdir()] == ([old] if old else [])


def test_nothing_replaces_a_file_after_sigkill(tmp_path):
    path = tmp_path / "it"
    path.write_bytes(b"old")
    with writing(path) as process:
        process.kill()
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize(
    "before",
    [
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)",  # nohup
        "signal.signal(signal.SIGHUP, lambda *_: None)",
    ],
)
def test_who_deals_with_a_signal_goes_on_doing_so(tmp_path, before):
    with writing(tmp_path / "it", before, seconds=0.5) as process:
        process.send_signal(signal.SIGHUP)
    assert process.returncode == 0
    assert (tmp_path / "it").read_bytes() == b"half"


LATE = """
import os, signal, sys
from lpfuse._files import replacing
replace = os.replace
def signalled(*paths):
    os.kill(os.getpid(), signal.SIGTERM)
    replace(*paths)
os.replace = signalled
with replacing(sys.argv[1]) as file:
    file.write(b"new")
"""


def test_signal_at_the_end_of_a_write_is_not_lost(tmp_path):
    path = tmp_path / "it"
    path.write_bytes(b"old")
    ended = subprocess.run([sys.executable, "-c", LATE, path], check=False)
    assert ended.returncode == 128 + signal.SIGTERM
    assert [each.read_bytes() for each in tmp_path.iterdir()] in ([b"old"], [b"new"])


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="this system has no files without a name")
def test_kill_while_a_target_is_checked_leaves_nothing(tmp_path, monkeypatch):
    seen, original = [], _files.TemporaryFile

    def listed(*arguments, **options):
        file = original(*arguments, **options)
        seen.append(os.listdir(tmp_path))
        return file

    monkeypatch.setattr(_files, "TemporaryFile", listed)
    check_writable(tmp_path / "it")
    assert seen == [[]]
