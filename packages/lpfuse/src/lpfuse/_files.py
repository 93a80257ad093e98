"""Writing files: whole or not at all, values in terms of JSON, sentences for what fails."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from numbers import Integral, Real
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any
from uuid import uuid4


@contextmanager
def replacing(path: Any) -> Iterator[IO[bytes]]:
    """A file to write to, beside the one at `path`, which it replaces when the block ends.

    An error, or an interruption, leaves what was there before, and nothing else. A device or a
    pipe is refused: it would be gone.
    """
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        raise FileExistsError(f"{path} exists and is no regular file, so it cannot be replaced.")
    unfinished = f"{target}.{uuid4().hex}.tmp"
    try:
        with open(unfinished, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    except BaseException:
        with suppress(OSError):
            os.remove(unfinished)
        raise


def check_target(path: str | Path, sources: Iterable[str | Path] = ()) -> None:
    """Refuse, before any work, a file that could not be written or should not be.

    Parameters
    ----------
    path : str or path
        The file to write.
    sources : iterable of path
        Files that are read, and must not be lost.
    """
    path = Path(path).expanduser()
    folder = path.resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {str(folder)!r}. Make it, or name another.")
    if path.exists() and not path.is_file():
        raise ValueError(f"{str(path)!r} is there, and is no file. Name another.")
    for source in map(Path, sources):
        if path.exists() and source.exists() and path.samefile(source):
            raise ValueError(f"{str(path)!r} is read, so it cannot be written. Name another.")
    try:
        # Rights alone do not tell: the folder may be on a disk that is full or read-only.
        with TemporaryDirectory(dir=folder, prefix="."):
            pass
    except OSError as error:
        reason = f"Nothing can be written to {str(folder)!r}: {error.strerror}."
        raise type(error)(f"{reason} Name another folder, or ask for access to it.") from error


class NotWritten(OSError):
    """Why something could not be written, in a sentence."""


@contextmanager
def write_errors(name: str, *kinds: type[Exception]) -> Iterator[None]:
    """Say in one sentence why something could not be written.

    Parameters
    ----------
    name : str
        What it is called.
    *kinds : type of exception
        What a library raises in place of an OSError.
    """
    refused: tuple[type[Exception], ...] = (OSError, *kinds)
    try:
        yield
    except (BrokenPipeError, NotWritten):  # `lpfuse … | head`; or it has its sentence already
        raise
    except refused as error:
        # polars: "… error: File too large (os error 27)"
        text = str(error).rpartition("error: ")[2].partition(" (os error")[0]
        reason = getattr(error, "strerror", None) or text
        raise NotWritten(
            f"{name} could not be written: {reason}. Nothing of it is left; make room, or name "
            "another folder, and try again."
        ) from error


def as_json(value: Any, *, infinite: bool = True) -> Any:
    """A value in terms of JSON, which has neither NaN nor infinity.

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
        f"{value!r} of type {type(value).__name__}."
    )
