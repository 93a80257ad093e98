"""Opening what somebody else may have put there: a regular file, or a sentence."""

from __future__ import annotations

import errno
import os
import stat
import zipfile
from io import FileIO
from typing import IO, Any

_MISSING = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)


class NotRegular(OSError):
    """Why something that is there cannot be read as a file, in a few words."""


def open_regular(path: Any) -> FileIO:
    """Return a regular file for reading, without a buffer.

    A pipe would block, and a device such as /dev/zero never ends, or does something when it is
    opened. What was looked at is also what is opened: the file is looked at once more when it is
    open, and opening does not wait.

    Examples
    --------
    >>> from lpfuse_faces._regular_file import open_regular
    >>> open_regular("/")
    Traceback (most recent call last):
    lpfuse_faces._regular_file.NotRegular: this is a folder
    """
    try:
        _check_mode(os.stat(path).st_mode)
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        file = FileIO(path, opener=lambda name, _: os.open(name, flags))
    except NotRegular:
        raise
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte
        if isinstance(error, ValueError) or error.errno in _MISSING:
            raise FileNotFoundError("there is no such file") from error
        raise NotRegular(f"the file cannot be read ({error.strerror})") from error
    try:
        _check_mode(os.fstat(file.fileno()).st_mode)
    except NotRegular:
        file.close()
        raise
    return file


def _check_mode(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise NotRegular("this is a folder")
    if not stat.S_ISREG(mode):
        raise NotRegular("this is no file but a pipe, a socket or a device, which may never end")


def check_stored(file: IO[bytes]) -> None:
    """Refuse an archive whose members are compressed: it may be far larger than it looks.

    Those that NumPy (``savez``) and torch write hold their members as they are, so that what comes
    out is never more than the file.
    """
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise ValueError("it is compressed, which such files are not")
    if sum(member.file_size for member in members) > size:
        raise ValueError("it claims to hold more than its own size")
    file.seek(0)


def read_regular(path: Any, most: int) -> bytes:
    """Return all of a regular file that has at most so many bytes.

    Parameters
    ----------
    path : path
        The file.
    most : int
        What such a file can have. More is a ValueError, whatever the file says of its size.

    Examples
    --------
    >>> from lpfuse_faces._regular_file import read_regular
    >>> read_regular(__file__, 10)
    Traceback (most recent call last):
    ValueError: ..._regular_file.py has more than 10 bytes, which no such file should have.
    """
    try:
        with open_regular(path) as file:
            content = file.read(most + 1)
    except OSError as error:
        raise type(error)(f"{os.fspath(path)}: {error}.") from error
    if len(content) > most:
        raise ValueError(
            f"{os.fspath(path)} has more than {most:,} bytes, which no such file should have."
        )
    return content
