"""A file appears whole or not at all."""

import os

import pytest

from lpfuse._files import replacing


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
    with pytest.raises(FileExistsError, match="no regular file"), replacing(tmp_path / "pipe"):
        pass
    assert (tmp_path / "pipe").is_fifo()
    with pytest.raises(FileExistsError), replacing(tmp_path):
        pass
