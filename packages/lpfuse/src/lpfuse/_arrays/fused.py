"""Whether passes over rows on a CUDA device may be fused, and how rows are cut for that.

Triton, which comes with torch's CUDA builds, compiles the kernels of `fused_rows` and of the two
passes. Where it is missing, cannot compile, or the scores are of another library, device or order
in memory, the same sums are taken by plain array operations.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

import array_api_compat

from lpfuse._arrays.operations import Array

MOST_COLUMNS = 512  # a tile of more columns does not fit the registers
GROUPS = 64  # partial sums that reach the host, which adds them up one after the other
WARPS = 4  # of a program
# Tiles of a chunk: sums over a chunk stay in registers. Of several candidates each reads the chunk
# again, from the cache if it is small. On an H200, 2,339,189 × 36 in float64, tiles of 32 rows, ms
# (docs/adr/0040; the page of scaling tells later runs):
#
#     tiles               2      4      8     16     32
#     partition, one   0.343  0.261  0.261  0.217  0.247
#     examine, one     0.457  0.358  0.344  0.285  0.308
#     partition, nine  2.425  1.643  1.371  1.703  1.758
#     examine, nine    3.935  3.069  3.109  4.605  4.655
#
# Tiles of 64 rows took 0.252 and 0.326 at best, and 1.340 and 3.582; with eight warps all took
# longer.
TILES, TILES_OF_SEVERAL = 16, 8


def may_fuse(S: Array) -> bool:
    """Whether the fused kernels take these scores."""
    if not array_api_compat.is_torch_array(S) or S.device.type != "cuda":
        return False
    fits = S.ndim == 2 and 1 <= S.shape[1] <= MOST_COLUMNS and S.is_contiguous()
    return bool(fits and str(S.dtype) in _TAKEN and _works(S.device.index))


_TAKEN = ("torch.float64", "torch.float32")


@cache
def _works(device: int) -> bool:
    """Whether kernels can be compiled and run on the device, tried once on a few rows."""
    if os.environ.get("LPFUSE_COMPILED") == "0" or find_spec("triton") is None:
        return False
    try:
        from lpfuse._arrays.fused_gather import try_out

        return try_out(device)
    except Exception:  # no compiler, an old driver, a chip it does not know: all mean "not here"
        return False


class Cut(NamedTuple):
    """How rows are cut: tiles of rows × (slices of columns), chunks of tiles, groups of chunks.

    A thread holds neighbouring columns of every slice, 16 bytes of them: so products with a point
    are first added up in its registers, and only then over the few threads of a row.
    """

    slices: int
    width: int  # columns of a slice
    rows: int  # of a tile
    warps: int
    tiles: int  # of a chunk
    chunks: int

    @property
    def group(self) -> int:
        """Chunks of a group."""
        return -(-self.chunks // GROUPS)

    @property
    def roundings(self) -> float:
        """How often a sum over all rows rounds one of its terms, at most.

        In a thread over the tiles of a chunk, by halves over the rows of a tile; over the chunks of
        a group at a time `TOGETHER`, by halves over these; on the host over the groups. 16 for
        products and merging.
        """
        halves = self.rows.bit_length() + TOGETHER.bit_length()
        return self.tiles + halves + -(-self.group // TOGETHER) + GROUPS + 16.0


TOGETHER = 16  # chunks whose sums are added up at a time


def cut_rows(n: int, R: int, several: bool = False, *, single: bool = False) -> Cut:
    """How to cut n rows of R columns, for one candidate or for several, of double precision or not.

    In single precision a slice is twice as wide, so that every thread has columns of its own.
    """
    together = 4 if single else 2  # columns of a thread in a slice
    # At most eight slices: a tile and its sums then fit the registers beside all else.
    width = 4 if R <= 4 else max(4 * together, _power_of_two(-(-R // 8)))
    slices = _power_of_two(-(-R // width))
    # A warp has 32 threads; tiles of few columns are longer.
    rows = max(WARPS * 32 * together // width, 512 // (slices * width))
    tiles = TILES_OF_SEVERAL if several else TILES
    return Cut(slices, width, rows, WARPS, tiles, -(-n // (rows * tiles)))


def _power_of_two(k: int) -> int:
    """The least one that is not below k."""
    return 1 << (k - 1).bit_length()
