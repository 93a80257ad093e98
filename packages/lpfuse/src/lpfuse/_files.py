"""Atomic writing of files, JSON values, versions, and messages about files."""

from __future__ import annotations

import math
import os
import platform
import shutil
import signal
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape, glob
from importlib.metadata import version
from numbers import Integral, Real
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any
from uuid import uuid4

from lpfuse._compiled import solver_core
from lpfuse._format import plain, quote


def versions() -> dict[str, str]:
    """Return the versions that results depend on: lpfuse, Python, libraries, solver core.

    Examples
    --------
    >>> list(versions())
    ['lpfuse', 'python', 'numpy', 'scipy', 'scikit-learn', 'solver core']
    """
    return {
        "lpfuse": version("lpfuse"),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
        "solver core": solver_core(),
    }


def missing_file_message(path: Any) -> str:
    """Return the message for a missing table."""
    return f"There is no file {quote(str(path))}. Check its path."


def missing_model_message(path: Any) -> str:
    """Return the message for a missing model."""
    return f"There is no model {quote(str(path))}. TableModel.fit makes one."


@contextmanager
def replacing(path: Any) -> Iterator[IO[bytes]]:
    """Write a file atomically: yield a temporary file that replaces `path` when the block ends.

    After an error, an interruption or a signal the former file is unchanged and no temporary file
    is left. A replaced file keeps its mode, owner and group. Devices and pipes raise an error.
    """
    target = os.path.realpath(path)
    there = os.path.exists(target)
    if there and not os.path.isfile(target):
        raise FileExistsError(f"{plain(path)} is not a regular file and cannot be replaced.")
    unfinished = f"{target}.{uuid4().hex}.tmp"
    # Readable by the owner only until it gets the mode of the file that it replaces.
    mode = 0o600 if there else 0o666
    with _remove_on_signals(unfinished):
        try:
            with open(unfinished, "xb", opener=lambda p, flags: os.open(p, flags, mode)) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if there:
                _copy_permissions(target, unfinished)
            os.replace(unfinished, target)
        except BaseException:
            _remove(unfinished)
            raise


def _copy_permissions(source: str, path: str) -> None:
    """Copy mode, owner and group of a file; no group gains permissions."""
    status = os.stat(source)
    mode = stat.S_IMODE(status.st_mode)
    if hasattr(os, "chown"):  # not on Windows
        try:
            os.chown(path, status.st_uid, status.st_gid)
        except OSError:
            mode &= 0o777 if os.stat(path).st_gid == status.st_gid else 0o707
    os.chmod(path, mode)


@contextmanager
def _remove_on_signals(unfinished: str) -> Iterator[None]:
    """Let SIGTERM and SIGHUP remove the unfinished file before they end the process.

    A separate thread removes it, because Python's handlers wait for the main thread, which may be
    in compiled code. The exit code is 128 plus the signal number, as in shells. Nothing is done
    where the program handles a signal itself, outside the main thread (Python sets handlers only
    there), or without threads (in a browser).
    """
    main = threading.current_thread() is threading.main_thread()
    main = main and sys.platform not in ("emscripten", "wasi")
    known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    ours = [each for each in known if main and signal.getsignal(each) is signal.SIG_DFL]
    if not ours:
        yield
        return
    numbers, write_end = os.pipe()
    os.set_blocking(write_end, False)

    def watch() -> None:
        while number := os.read(numbers, 1):
            if number[0] in ours:
                _remove(unfinished)
                os._exit(128 + number[0])
        os.close(numbers)

    before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for each in ours:
        signal.signal(each, lambda *_: None)
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)
        signal.set_wakeup_fd(before)
        os.close(write_end)  # which ends the thread


def _remove(unfinished: str) -> None:
    """Remove a file or folder, and all paths that start with its name."""
    for path in glob(f"{escape(unfinished)}*"):
        with suppress(OSError):
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


def check_writable(path: str | Path, sources: Iterable[str | Path] = ()) -> None:
    """Raise, before any work, where a file cannot or should not be written.

    Parameters
    ----------
    path : str or path
        The file to write.
    sources : iterable of path
        Input files, which must not be overwritten.
    """
    path = Path(path).expanduser()
    folder = path.resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"There is no folder {quote(str(folder))}. Make it, or name another."
        )
    if path.exists() and not path.is_file():
        raise ValueError(f"{quote(str(path))} is there, and is no file. Name another.")
    for source in map(Path, sources):
        if path.exists() and source.exists() and path.samefile(source):
            raise ValueError(f"{quote(str(path))} is read, so it cannot be written. Name another.")
    try:
        # Permissions are not enough: the disk may be full or read-only.
        with TemporaryDirectory(dir=folder, prefix="."):
            pass
    except OSError as error:
        reason = f"Nothing can be written to {quote(str(folder))}: {error.strerror}."
        raise type(error)(f"{reason} Name another folder, or ask for access to it.") from error


class WriteError(OSError):
    """A write failed; the message says why and what to do."""


@contextmanager
def write_errors(name: str, *kinds: type[Exception]) -> Iterator[None]:
    """Convert errors of writing to `WriteError` with a message of one sentence.

    Parameters
    ----------
    name : str
        Name of the file.
    *kinds : type of exception
        Exceptions that a library raises in place of an OSError.
    """
    refused: tuple[type[Exception], ...] = (OSError, *kinds)
    try:
        yield
    except (BrokenPipeError, WriteError):  # `lpfuse … | head`; or converted already
        raise
    except refused as error:
        # polars: "… error: File too large (os error 27)"
        text = str(error).rpartition("error: ")[2].partition(" (os error")[0]
        reason = getattr(error, "strerror", None) or text
        raise WriteError(
            f"{plain(name)} could not be written: {reason}. No partial file is left; free disk "
            "space, or choose another folder, and try again."
        ) from error


def as_json(value: Any, *, infinite: bool = True) -> Any:
    """Convert a value to JSON types; JSON has neither NaN nor infinity.

    Parameters
    ----------
    value : object
        A number, string, boolean or None, of Python or NumPy, or arrays, lists and mappings of
        these.
    infinite : bool, default=True
        Whether infinity becomes ``"inf"``, which ``float`` reads; if not, it becomes None, as NaN
        always does.

    Examples
    --------
    >>> as_json({"p": float("inf"), "gap": float("nan"), "passes": (3, 4)})
    {'p': 'inf', 'gap': None, 'passes': [3, 4]}
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        if math.isinf(number):
            return str(number) if infinite else None
        return None if math.isnan(number) else number
    if hasattr(value, "tolist"):  # arrays, booleans and strings of NumPy and its relatives
        return as_json(value.tolist(), infinite=infinite)
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return {str(key): as_json(item, infinite=infinite) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item, infinite=infinite) for item in value]
    raise TypeError(
        "Results hold numbers, strings, booleans, None, and lists or dicts of those; got "
        f"{quote(value)} of type {type(value).__name__}."
    )
