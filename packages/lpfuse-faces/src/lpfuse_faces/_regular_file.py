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
    """Why something cannot be read as a file, in a few words."""


def open_regular(path: Any) -> FileIO:
    """A regular file for reading, without a buffer.

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
        missing = getattr(error, "errno", None) in (*_MISSING, None)
        reason = getattr(error, "strerror", None)
        told = "there is no such file" if missing else f"the file cannot be read ({reason})"
        raise NotRegular(told) from error
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
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        size = file.seek(0, os.SEEK_END)
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("it is compressed, which these files never are")
        if sum(member.file_size for member in members) > size:
            raise ValueError("it claims to hold more than its own size")
    file.seek(0)
