"""Both sides of a candidate on one block in compiled code, where plain double precision is enough.

The formulas are those of `_bounds`, for the hinge, and so are the bounds of what rounding did. A
block whose rounding takes more than its share is left to `_bounds`, which has more digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lpfuse._arrays.accurate import accurate_total
from lpfuse._arrays.operations import Array, Host, like, total
from lpfuse._arrays.rows import row_kernels
from lpfuse.optim._bounds import UNIT, DualSums, Reading, Sides, examine_block, gamma, in_a_row
from lpfuse.optim._results import Watch
from lpfuse.optim._tuning import FLOOR

if TYPE_CHECKING:
    from lpfuse.optim.problem import Block

Points = Mapping[int, tuple[Host, Host | None]]


def examine_rows(
    reading: Reading,
    points: Points,
    watch: Mapping[int, Watch],
    block: Block,
    *alphas: Array | None,
) -> dict[int, Sides]:
    """Both sides of every candidate on one block, with scores as they are stored."""
    given = dict(zip(points, alphas, strict=True))
    sides: dict[int, Sides] = {}
    rows = _PlainRows.of(reading, block)
    if rows is not None:
        for k, (point, dual_point) in points.items():
            found = rows.sides(point, given[k]) if dual_point is None else None
            if found is not None:
                r, value, error, dual = found
                watched = watch[k].work(block, r, given[k]) if k in watch else None
                sides[k] = Sides(value, error, dual, watched)
    left = {k: both for k, both in points.items() if k not in sides}
    if left:
        rest = [given[k] for k in left]
        sides |= examine_block(reading, left, watch, block.in_double(), *rest)
    return sides


class _PlainRows(NamedTuple):
    """A block that compiled code can read, and what bounds the errors of its sums."""

    kernels: Any
    reading: Reading
    block: Block
    cost: float  # Σ c
    summed: float  # relative error of a sum over all rows

    @classmethod
    def of(cls, reading: Reading, block: Block) -> _PlainRows | None:
        kernels = row_kernels(block.S)
        if kernels is None or reading.origin is not None or reading.terms.loss.name != "hinge":
            return None
        m = int(block.S.shape[0])
        cost = total(block.c) if block.is_weighted else float(m)
        return cls(kernels, reading, block, cost, gamma(in_a_row(m, on_host=True)))

    def sides(
        self, point: Host, alpha: Array | None
    ) -> tuple[Host, float, float, DualSums | None] | None:
        """Residuals, value, error and the sums of the dual; None where digits are too few."""
        S, y, c, start = self.block
        terms, sizes = self.reading.terms, self.reading.sizes
        w, b = point[: terms.R], float(point[terms.R]) if terms.fit_intercept else 0.0
        alpha = None if alpha is None else like(alpha, S)
        r, pull, size = self.kernels.residuals_and_pull(S, y, c, w, b, alpha, start not in sizes)
        size = sizes.setdefault(start, size)
        once, length, rest = gamma(terms.R + 8), float(np.abs(w).sum()), 1.0 + abs(b)
        # The hinge never falls: on an interval it is largest at the right end.
        value, highest = self.kernels.hinges(r, c, once * (rest + size * length), 2.0 * UNIT)
        net, mass, low, high = 0.0, 0.0, 0.0, 0.0
        if alpha is not None:
            net, mass, low, high = self.kernels.multiplier_totals(alpha, c)
        error, reach = highest - value + 2.0 * self.summed * highest, mass * size
        enough = self.reading.precision * max(value, FLOOR * self.cost)
        if not (error <= enough and self.summed * reach <= enough / terms.R):
            # One large score speaks for a whole block there: what each row has is less by far.
            each = self.kernels.row_sizes(S)
            off = once * (rest + each * length) + 2.0 * UNIT * np.abs(r)
            highest = total(self.block.times_costs(np.maximum(r + off, 0.0)))
            error = highest - value + 2.0 * self.summed * highest
            if alpha is not None:
                reach = float(np.abs(self.block.times_costs(alpha)) @ each)
        if not (error <= enough and self.summed * reach <= enough / terms.R):
            return None
        if alpha is None:
            return r, value, error, None
        balance = 0.0
        if terms.fit_intercept:
            balance = accurate_total(self.block.times_labels(self.block.times_costs(alpha)))
        dual = DualSums(
            gain=net,
            pull=pull,
            balance=balance,
            net=net,
            mass=mass,
            reach=reach,
            gain_error=self.summed * (2.0 * mass + abs(net)),
            pull_error=self.summed * reach,
            balance_error=(self.reading.costs_error + 2.0 * UNIT) * mass,
            low=low,
            high=high,
            centre=None,
            pull_slack=None,
        )
        return r, value, error, dual
