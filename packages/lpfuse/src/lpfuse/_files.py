"""Writing files: whole or not at all, and values in terms of JSON."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from numbers import Integral, Real
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
