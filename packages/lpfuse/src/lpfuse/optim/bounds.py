"""Primal and dual sums of a candidate on one block of rows, with bounds of rounding errors.

A sum of k products, in any order, is off by at most γ(k) = ku/(1 − ku) times the sum of their
sizes, u = 2⁻⁵³ (N. J. Higham, Accuracy and stability of numerical algorithms, section 3.1). Where
that is too much, the rows with the largest scores are evaluated in twice the precision while their
block is in memory, without a second pass. Underflow of products is below 1e-300 and negligible for
costs that sum to at least 1e-100, as validation ensures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lpfuse._arrays import operations as ops
from lpfuse._arrays.operations import Array, Host
from lpfuse.optim.results import Watch
from lpfuse.optim.tuning import CHUNK, DEVICE_CHUNK, FLOOR, ROUNDING_SHARE

if TYPE_CHECKING:
    from lpfuse.optim.problem import Block, Problem, Terms

UNIT = 2.0**-53


def gamma(k: float) -> float:
    """Return the relative error bound of k consecutive roundings."""
    return k * UNIT / (1.0 - k * UNIT)


def row_products(x: Array, rows: Array) -> Host:
    """Return ``Σ x_i rows_i`` for numbers or vectors x_i, chunk by chunk.

    Rounding grows with the rows of a chunk plus the number of chunks, not with all rows.
    """
    n, one = int(rows.shape[0]), x.ndim == 1
    if ops.is_numpy(rows) and not one:  # one by one: NumPy computes half of a symmetric product
        parts = [slice(start, start + CHUNK) for start in range(0, n, CHUNK)]
        return np.sum([x[part].T @ rows[part] for part in parts], axis=0)
    size = CHUNK if ops.is_numpy(rows) else DEVICE_CHUNK
    k, xp = n // size, ops.namespace(rows)
    cut, width = k * size, 1 if one else x.shape[1]
    left = xp.matrix_transpose(xp.reshape(x[:cut, ...], (k, size, width)))
    heads = xp.sum(left @ xp.reshape(rows[:cut, :], (k, size, rows.shape[1])), axis=0)
    tail = ops.to_host((x[cut:] if one else x[cut:, :].T) @ rows[cut:, :])
    return ops.to_host(heads[0, :] if one else heads) + tail


def additions_per_term(m: int, on_host: bool) -> float:
    """Return how often a sum over m rows rounds one of its terms; 16 for products and merging."""
    size = CHUNK if on_host else DEVICE_CHUNK
    return min(m, size) + m / size + 16.0


class Reading(NamedTuple):
    """Settings of a pass over the rows."""

    terms: Terms
    origin: Host | None  # subtracted from the rows first, and compensated by b
    precision: float  # largest relative rounding error of a value
    costs_error: float  # relative error of each cost
    sizes: dict[int, float]  # the largest score of blocks that were read before, by their start

    @classmethod
    def of(cls, problem: Problem, tol: float = 1e-8) -> Reading:
        """Return the settings for a problem; scores far from zero are shifted to an origin."""
        return cls(problem.terms, problem.origin, ROUNDING_SHARE * tol, problem.costs_error, {})

    def seen(self, point: Host) -> Host:
        """Return (w, b) with the intercept relative to the origin, as a sum of two parts."""
        if self.origin is None:
            return point
        w, b = point[: self.terms.R], point[self.terms.R]
        moved = sum(map(Fraction.__mul__, map(Fraction, w), map(Fraction, self.origin)))
        there = Fraction(b) + moved
        return np.append(w, [float(there), float(there - Fraction(float(there)))])

    def rows(self, block: Block) -> _Rows:
        """Return a shifted block with its error bounds."""
        S = block.S if self.origin is None else block.S - ops.like(self.origin, block.S)
        m = int(S.shape[0])
        cost = ops.total(block.c) if block.is_weighted else float(m)
        if (size := self.sizes.get(block.start)) is None:
            size = self.sizes[block.start] = max(ops.largest(S), -ops.smallest(S))
        return _Rows(
            block._replace(S=S),
            size,
            cost,
            gamma(additions_per_term(m, ops.is_numpy(S))),
            block.S,
            self.origin,
        )


class _Rows(NamedTuple):
    """A shifted block, and bounds for the errors of its sums."""

    block: Block
    size: float  # the largest score in it
    cost: float  # Σ c
    summed: float  # relative error of a sum over all rows
    given: Array  # the original scores
    origin: Host | None

    def parts(self, some: Array) -> tuple[Array, Array]:
        """Return some rows as an exact sum of two parts."""
        return ops.less(ops.take(self.given, some), self.origin)


class DualSums(NamedTuple):
    """Contribution of rows to the dual value."""

    gain: float  # Σ c gain(α)
    pull: Host  # Σ c α y s
    balance: float  # Σ c α y
    net: float  # Σ c α
    mass: float  # Σ c |α|
    reach: float  # max_j Σ c |α s_j|, at most
    gain_error: float
    pull_error: float  # of each entry
    balance_error: float
    low: float  # the least and the largest α
    high: float
    # For multipliers that are computed from weights with errors δα: Σ c s and Σ c |δα s|.
    centre: Host | None
    pull_slack: Host | None


class Sides(NamedTuple):
    """Contribution of rows to primal and dual value of a candidate."""

    value: float
    error: float
    dual: DualSums | None
    watched: Any


def _residuals(terms: Terms, block: Block, point: Host) -> Array:
    # Independent of `Terms.residuals`, which solvers use.
    r = block.S @ ops.like(-point[: terms.R], block.S)
    if terms.fit_intercept:
        r -= float(point[terms.R])
    if not isinstance(block.y, float):
        r *= block.y
    r += 1.0
    return r


class _Value(NamedTuple):
    """The residuals of a block, and their loss."""

    r: Array
    off: Array  # error bound of each residual
    value: float  # Σ c loss(r)
    error: float

    @classmethod
    def of(cls, reading: Reading, rows: _Rows, r: Array, off: float) -> _Value:
        """Return the loss and its error bound, for residuals with errors up to `off`."""
        loss, block = reading.terms.loss, rows.block
        each = off + 2.0 * UNIT * abs(r)
        value = ops.total(block.times_costs(loss.value(r)))
        # The loss is convex: on an interval it is largest at one of the ends.
        ends = ops.namespace(r).maximum(loss.value(r + each), loss.value(r - each))
        highest = ops.total(block.times_costs(ends))
        return cls(r, each, value, highest - value + 2.0 * rows.summed * highest)


def value_at(reading: Reading, rows: _Rows, point: Host, most: float = math.inf) -> _Value:
    """Return residuals and loss of a point, in twice the precision for rows that need it.

    Each residual may be off by `most`.
    """
    terms, block = reading.terms, rows.block
    w = point[: terms.R]
    b = (*point[terms.R :].tolist(), 0.0, 0.0)[:2] if terms.fit_intercept else (0.0, 0.0)
    once, length, rest = gamma(terms.R + 8), float(np.abs(w).sum()), 1.0 + abs(b[0])
    off = once * (rest + rows.size * length)
    plain = _Value.of(reading, rows, _residuals(terms, block, point), off)
    enough = reading.precision * max(plain.value, FLOOR * rows.cost)
    # The error is convex in `off`, so a part of `off` makes no more than that part of it. Rows with
    # scores beyond the limit get more digits.
    share = min(enough / plain.error if plain.error > 0.0 else math.inf, most / off)
    if not (share < 1.0 and plain.error < math.inf):
        return plain
    limit = (off * share / once - rest) / length if length else -1.0
    far = ops.nonzero(ops.rows_beyond(block.S, limit))
    labels = block.y if isinstance(block.y, float) else ops.take(block.y, far)
    r = ops.put(plain.r, far, ops.accurate_residuals(rows.parts(far), labels, w, b))
    near = once * (rest + min(limit, rows.size) * length) if limit >= 0.0 else 0.0
    return _Value.of(reading, rows, r, near + once * off)


def dual_sums(
    reading: Reading,
    block: Block,
    alpha: Array,
    rows: _Rows | None = None,
    value: float = 0.0,
    off: Array | None = None,
) -> DualSums:
    """Return the dual sums of a block, in twice the precision for rows that need it.

    `off` bounds the errors of the multipliers.
    """
    terms, rows = reading.terms, rows or reading.rows(block)
    block = rows.block
    weighted = block.times_costs(alpha)
    signed = block.times_labels(weighted)
    gains = terms.loss.gain(alpha)
    gain, mass = ops.total(block.times_costs(gains)), ops.total(abs(weighted))
    # gain(α) may be a difference, of Σ c α and no more than that and itself.
    gain_error = rows.summed * (2.0 * mass + abs(gain))
    pull, pull_error, reach = _pull(reading, rows, alpha, signed, mass, value)
    centre = pull_slack = None
    balance_error = (reading.costs_error + 2.0 * UNIT) * mass
    if off is not None:
        ends = ops.namespace(alpha).minimum(
            terms.loss.gain(alpha + off), terms.loss.gain(alpha - off)
        )
        gain_error += ops.total(block.times_costs(gains - ends))
        pull_slack = row_products(block.times_costs(off), abs(block.S))
        balance_error += ops.total(block.times_costs(off))
        centre = row_products(block.times_costs(ops.filled(alpha.shape[0], 1.0, alpha)), block.S)
    balance = ops.accurate_total(signed) if terms.fit_intercept else 0.0
    extremes = ops.smallest(alpha), ops.largest(alpha)
    net = ops.total(weighted)
    sizes = mass, reach, gain_error, pull_error, balance_error
    return DualSums(gain, pull, balance, net, *sizes, *extremes, centre, pull_slack)


def _pull(
    reading: Reading, rows: _Rows, alpha: Array, signed: Array, mass: float, value: float
) -> tuple[Host, float, float]:
    """Return ``Σ c α y s`` from c α y, its error bound, and ``max_j Σ c |α s_j|``."""
    block, reach = rows.block, mass * rows.size
    enough = reading.precision * max(value, FLOOR * rows.cost) / reading.terms.R
    error = rows.summed * reach
    if not enough < error < math.inf:
        return row_products(signed, block.S), error, reach
    limit = rows.size * enough / error
    far = ops.nonzero(ops.rows_beyond(block.S, limit))
    parts, shares = rows.parts(far), ops.take(alpha, far)
    y, c = (v if isinstance(v, float) else ops.take(v, far) for v in (block.y, block.c))
    pull = ops.accurate_pull(parts, y, c, shares)
    reach = mass * limit + float(row_products(abs(c * shares), abs(parts[0])).max())
    error = rows.summed * mass * limit + gamma(8) * float(np.abs(pull).max())
    error += reading.costs_error * reach
    near = ops.put(ops.namespace(signed).asarray(signed, copy=True), far, 0.0)
    return pull + row_products(near, block.S), error, reach


def add_dual_sums(parts: list[DualSums]) -> DualSums:
    """Return the sums of several blocks."""
    gain, pull, balance, net, mass, reach, *errors, low, high, centre, pull_slack = zip(
        *parts, strict=True
    )
    gain_error, pull_error, balance_error = map(math.fsum, errors)
    return DualSums(
        gain=math.fsum(gain),
        pull=np.array([math.fsum(entries) for entries in np.transpose(pull).tolist()]),
        balance=math.fsum(balance),
        net=math.fsum(net),
        mass=math.fsum(mass),
        reach=math.fsum(reach),
        gain_error=gain_error,
        pull_error=pull_error,
        balance_error=balance_error,
        # Unlike Python's min and max, NumPy's propagate NaN.
        low=float(np.min(low)),
        high=float(np.max(high)),
        centre=None if centre[0] is None else np.sum(centre, axis=0),
        pull_slack=None if pull_slack[0] is None else np.sum(pull_slack, axis=0),
    )


def certify_block(
    reading: Reading,
    points: Mapping[int, tuple[Host, Host | None]],
    watch: Mapping[int, Watch],
    block: Block,
    *alphas: Array | None,
) -> dict[int, Sides]:
    """Return primal and dual sums of every candidate on one block, which is read once."""
    sides, terms = {}, reading.terms
    rows = reading.rows(block)
    for (k, (point, dual_point)), given in zip(points.items(), alphas, strict=True):
        at, alpha, off = value_at(reading, rows, point), given, None
        if alpha is not None:
            alpha = ops.like(alpha, block.S)  # rows of other machines may be of another library
        if dual_point is not None:
            # Errors of residuals are multiplied by the scores of their row.
            finer = reading._replace(precision=reading.precision / (1.0 + terms.R * rows.size))
            # For a nearly perfect fit errors of r vanish in r², but not in α = 2r.
            most = (
                0.5 * finer.precision * max(at.value / rows.cost, FLOOR) if rows.cost else math.inf
            )
            meant, slope = value_at(finer, rows, dual_point, most), terms.loss.slope
            alpha = slope(meant.r)
            ends = slope(meant.r + meant.off) - alpha, alpha - slope(meant.r - meant.off)
            off = ops.namespace(alpha).maximum(*ends)
        dual = None if alpha is None else dual_sums(reading, block, alpha, rows, at.value, off)
        watched = watch[k].work(block, at.r, alpha) if k in watch else None
        sides[k] = Sides(at.value, at.error, dual, watched)
    return sides


def merge_sides(watch: Mapping[int, Watch], parts: list[dict[int, Sides]]) -> dict[int, Sides]:
    """Merge primal and dual sums of every candidate over several blocks."""
    if len(parts) == 1 and not watch:
        return parts[0]
    merged = {}
    for k in parts[0]:
        value, error, dual, watched = zip(*(part[k] for part in parts), strict=True)
        sums = None if dual[0] is None else add_dual_sums(list(dual))
        seen = watch[k].merge(list(watched)) if k in watch else None
        merged[k] = Sides(math.fsum(value), math.fsum(error), sums, seen)
    return merged


# --------------------------------------------------------------------------------------------------
# The same sums for the hinge in compiled code, where double precision is enough. Blocks with larger
# rounding errors are left to `certify_block`.


Points = Mapping[int, tuple[Host, Host | None]]


def certify_rows(
    reading: Reading,
    points: Points,
    watch: Mapping[int, Watch],
    block: Block,
    *alphas: Array | None,
) -> dict[int, Sides]:
    """Return primal and dual sums of every candidate on one block, in its stored precision."""
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
        sides |= certify_block(reading, left, watch, block.in_double(), *rest)
    return sides


class _PlainRows(NamedTuple):
    """A block for compiled code, and bounds for the errors of its sums."""

    kernels: Any
    reading: Reading
    block: Block
    cost: float  # Σ c
    summed: float  # relative error of a sum over all rows

    @classmethod
    def of(cls, reading: Reading, block: Block) -> _PlainRows | None:
        kernels = ops.row_kernels(block.S)
        if kernels is None or reading.origin is not None or reading.terms.loss.name != "hinge":
            return None
        m = int(block.S.shape[0])
        cost = ops.total(block.c) if block.is_weighted else float(m)
        return cls(kernels, reading, block, cost, gamma(additions_per_term(m, on_host=True)))

    def sides(
        self, point: Host, alpha: Array | None
    ) -> tuple[Host, float, float, DualSums | None] | None:
        """Return residuals, value, error and dual sums; None where the precision is too low."""
        S, y, c, start = self.block
        terms, sizes = self.reading.terms, self.reading.sizes
        w, b = point[: terms.R], float(point[terms.R]) if terms.fit_intercept else 0.0
        alpha = None if alpha is None else ops.like(alpha, S)
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
            # The bound above uses the largest score of the block; use each row's own instead.
            each = self.kernels.row_sizes(S)
            off = once * (rest + each * length) + 2.0 * UNIT * np.abs(r)
            highest = ops.total(self.block.times_costs(np.maximum(r + off, 0.0)))
            error = highest - value + 2.0 * self.summed * highest
            if alpha is not None:
                reach = float(np.abs(self.block.times_costs(alpha)) @ each)
        if not (error <= enough and self.summed * reach <= enough / terms.R):
            return None
        if alpha is None:
            return r, value, error, None
        balance = 0.0
        if terms.fit_intercept:
            balance = ops.accurate_total(self.block.times_labels(self.block.times_costs(alpha)))
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
