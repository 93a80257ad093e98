"""Blocks of rows in compiled code: residuals and sums while a row is in the cache, hardly a copy.

What is computed is written down in array operations by those who use it, `optim._large_n.passes`
and `optim._bounds`: that is what serves other libraries, other layouts, and where nothing was
compiled. Each function of `_rows.pyx` is one of their formulas, and tests compare the two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lpfuse._arrays.operations import Array, is_numpy
from lpfuse._compiled import compiled

_kernels: Any = compiled("lpfuse._arrays._rows")
TYPES = (np.dtype(np.float64), np.dtype(np.float32))


def row_kernels(S: Array) -> Any:
    """The compiled functions, where they can read these rows as they lie in memory; else None."""
    if _kernels is None or not is_numpy(S) or S.dtype not in TYPES or not S.flags.aligned:
        return None
    size = S.itemsize
    in_rows = S.ndim == 2 and S.shape[1] > 0 and S.strides[1] == size and S.strides[0] % size == 0
    return _kernels if in_rows else None
