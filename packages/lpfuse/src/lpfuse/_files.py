"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
