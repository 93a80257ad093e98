"""Rows that are brought to the host, and what is watched while a point is certified.

Each is a function of a block of rows alone, so that blocks may live elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import (
    Array,
    Host,
    as_float64,
    joined_columns,
    namespace,
    nonzero,
    take,
    to_host,
)
from lpfuse._arrays.rows import row_kernels
from lpfuse.optim._results import Watch
from lpfuse.optim.problem import Block, Problem, Terms

Positions = NDArray[np.int64]


class GatheredRows(NamedTuple):
    """Some rows, brought to the host: a_i = y_i s_i (with y_i last when there is an intercept)."""

    a: Host  # (k, coordinates)
    costs: Host  # (k,)
    slopes: Host  # (k,) 1 for rows on the rising piece of their hinge, 0 for rows at zero
    positions: Positions  # (k,) in S

    def at(self, chosen: NDArray[np.intp]) -> GatheredRows:
        """Some of them."""
        a, costs, slopes, positions = self
        return GatheredRows(a[chosen], costs[chosen], slopes[chosen], positions[chosen])


def gathered(terms: Terms, block: Block, chosen: Array, slopes: Array | None) -> GatheredRows:
    S, y, c, start = block
    a = as_float64(take(S, chosen))
    k = int(a.shape[0])
    labels = y if isinstance(y, float) else take(y, chosen)
    costs = np.ones(k) if isinstance(c, float) else to_host(take(c, chosen))
    on = np.zeros(k) if slopes is None else to_host(take(slopes, chosen))
    index = to_host(chosen).astype(np.int64) + start
    return GatheredRows(to_host(terms.signed_rows(a, labels)), costs, on, index)


def as_rows(found: Any) -> GatheredRows | None:
    """Rows that a kernel has gathered."""
    if found is None:
        return None
    return GatheredRows(found.columns.T, found.costs, found.slopes, found.positions)


def join_rows(most: int, parts: Sequence[GatheredRows | None]) -> GatheredRows | None:
    """All rows as one; None where they are too many, or some were."""
    present = [part for part in parts if part is not None]
    if len(present) < len(parts) or sum(len(part.costs) for part in present) > most:
        return None
    if len(present) == 1:
        return present[0]
    a, costs, slopes, positions = zip(*present, strict=True)
    # Joined in the order of a model's columns: the model then needs no second copy.
    return GatheredRows(
        joined_columns(list(a)).T,
        np.concatenate(costs),
        np.concatenate(slopes),
        np.concatenate(positions),
    )


def class_range(problem: Problem, point: Host) -> tuple[float, float]:
    """The lowest fused score of a normal row and the highest of an anomaly, without b: one pass."""
    return problem.reduce(partial(_class_range, problem.terms, point), _extremes)


def crossings(terms: Terms, most: int) -> Watch:
    """What tells the rows on the wrong side of their linear piece, while a point is certified.

    Those are the rows with α = 1 though r < 0, or with α = 0 though r > 0. Where they are more than
    `most`, None comes back.
    """
    merge = partial(join_rows, most)
    return Watch(partial(_crossed, terms, most), merge, most, lambda rows: merge([as_rows(rows)]))


def violating(terms: Terms, point: Host, most: int) -> Watch:
    """What counts the rows short of their margin, while a point is certified, and brings the worst.

    The answer is (count, rows a_i).
    """
    return Watch(partial(_violating, terms, most), partial(_join_violating, point, most))


def _crossed(
    terms: Terms, most: int, block: Block, r: Array, alpha: Array | None
) -> GatheredRows | None:
    assert alpha is not None
    if (kernels := row_kernels(block.S)) is not None:
        crossed = kernels.crossed(r, alpha, block.c)
        return gathered(terms, block, crossed, alpha) if len(crossed) <= most else None
    # First what two comparisons can tell, then the exact rule on the few rows that are left.
    suspects = nonzero((r > 0) != (alpha > 0.5))
    r, on = take(r, suspects), take(alpha, suspects)
    wrong = ((on == 1.0) & (r < 0)) | ((on == 0.0) & (r > 0))
    if block.is_weighted:
        wrong &= take(block.c, suspects) > 0
    crossed = suspects[wrong]
    return gathered(terms, block, crossed, alpha) if crossed.shape[0] <= most else None


def _violating(
    terms: Terms, most: int, block: Block, r: Array, alpha: Array | None
) -> tuple[int, Host]:
    wrong = r > 0
    if block.is_weighted:
        wrong &= block.c > 0
    chosen = nonzero(wrong)
    count = int(chosen.shape[0])
    if count > most:
        worst = namespace(r).argsort(-take(r, chosen), stable=True)[:most]
        chosen = take(chosen, worst)
    return count, gathered(terms, block, chosen, None).a


def _join_violating(point: Host, most: int, parts: list[tuple[int, Host]]) -> tuple[int, Host]:
    counts, rows = zip(*parts, strict=True)
    a = np.concatenate(rows)
    worst = np.argsort(a @ point, kind="stable")[:most]
    return sum(counts), a[worst]


def _class_range(terms: Terms, point: Host, block: Block) -> tuple[float, float]:
    fused = 1.0 - terms.residuals(block._replace(y=1.0), np.append(point[:-1], 0.0))
    xp = namespace(block.S)
    y = xp.sign(block.c * block.y + 0.0 * fused)  # a row without cost has no say
    return (
        float(xp.min(xp.where(y > 0, fused, fused + np.inf))),
        float(xp.max(xp.where(y < 0, fused, fused - np.inf))),
    )


def _extremes(parts: list[tuple[float, float]]) -> tuple[float, float]:
    lows, highs = zip(*parts, strict=True)
    return min(lows), max(highs)
