"""Values that a file holds as they are, for reading and writing alike."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

PLAIN_TYPES = (type(None), bool, int, str, float)  # what JSON holds as it is
BIT_GENERATORS = {
    make.__name__: make
    for make in (np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.SFC64)
}
# Types of numbers, which encoders take as a parameter.
NUMBER_TYPES: dict[str, Any] = {
    each.__name__: each
    for each in (np.float64, np.float32, np.int64, np.int32, np.int8, np.uint8, np.bool_)
} | {"builtin float": float, "builtin int": int, "builtin bool": bool}


def is_key(key: Any) -> bool:
    """Whether something, or each part of a tuple, can be compared at once: keys get hashed."""
    parts = key if type(key) is tuple else (key,)
    return all(
        type(part) in (*PLAIN_TYPES, bytes) or isinstance(part, np.generic) for part in parts
    )


def lpfuse_version() -> str:
    """Of the lpfuse that writes or reads a file."""
    try:
        return version("lpfuse")
    except PackageNotFoundError:
        return "unknown"
