"""Reading the scores: each method of `Reader` is one pass over S, or less, and is counted.

A pass returns R numbers and the few rows that matter, never a copy of the data. It works block by
block, so that a block is used twice while it is in the cache, and so that the same code can serve
blocks that live elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lpfuse._arrays import (
    Array,
    Host,
    as_float64,
    concatenate,
    filled,
    joined_columns,
    map_row_blocks,
    namespace,
    nonzero,
    put,
    take,
    to_host,
    total,
)
from lpfuse.optim.balls import LpBall
from lpfuse.optim.model import Guess, Model
from lpfuse.optim.problem import Problem


class Rows(NamedTuple):
    """Some rows, gathered: a_i = y_i s_i (with y_i last when there is an intercept)."""

    a: Array  # (k, coordinates)
    costs: Array  # (k,)
    side: Array  # (k,) where they were held before
    index: Array  # (k,) their positions in S


class Partition(NamedTuple):
    """The outcome of a partition pass at some w."""

    value: float
    model: Model  # rows near the kink, the others folded
    side: Array  # (n,) int8: +1 held on the slope, −1 held at zero, 0 kept in the model
    index: Array  # positions in S of the model's rows


class Reader:
    """Passes over the scores of one problem; `passes` counts them."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.passes = 0.0

    def whole(self) -> tuple[Model, Array]:
        """All rows with a positive cost as one model, and their positions."""
        self.passes += 1.0
        problem = self.problem
        if problem.costs is None:
            index = nonzero(filled(problem.n, 1.0, problem.S) > 0)
            S, y, c = problem.rows(slice(0, problem.n))
        else:
            index = nonzero(problem.costs > 0)
            S, y, c = self._gather(index)
        return self._model(self._signed(S, y), c), index

    def sample(self, m: int) -> Model:
        """About m rows as a model of the whole, drawn evenly over the rows' costs.

        Row i is drawn with probability ∝ c_i, one from each m-th part of the total cost, so that
        rows sorted by class are sampled as well as shuffled ones. Every run draws the same rows.
        """
        problem = self.problem
        self.passes += m / problem.n
        ticks = (np.arange(m) + np.random.default_rng(0).random(m)) / m
        if problem.costs is None:
            index = np.minimum((ticks * problem.n).astype(np.int64), problem.n - 1)
        else:
            heap = np.cumsum(to_host(problem.costs))
            index = np.searchsorted(heap, ticks * heap[-1], side="right").clip(0, problem.n - 1)
        S, y, _ = self._gather(index)
        return self._model(self._signed(S, y), 1.0)

    def _gather(self, index: Array) -> tuple[Array, Array | float, Array | float]:
        problem = self.problem
        y = 1.0 if problem.y is None else take(problem.y, index)
        c = 1.0 if problem.costs is None else take(problem.costs, index)
        return as_float64(take(problem.S, index)), y, c

    def _signed(self, S: Array, y: Array | float) -> Array:
        """The rows a_i of scores and labels."""
        xp = namespace(S)
        labels = filled(S.shape[0], 1.0, S) if isinstance(y, float) else y
        a = S if isinstance(y, float) else S * y[:, None]
        return xp.concat([a, labels[:, None]], axis=1) if self.problem.fit_intercept else a

    def _model(self, a: Array, costs: Array | float) -> Model:
        problem = self.problem
        return Model(
            columns=joined_columns([a]),
            costs=costs + filled(a.shape[0], 0.0, a),
            ball=problem.ball,
            linear=np.zeros(problem.size),
            free=int(problem.fit_intercept),
        )

    def partition(self, guesses: Sequence[Guess], balls: Sequence[LpBall]) -> list[Partition]:
        """For each guess, fold the rows farther than its band from their kink; keep the others."""
        self.passes += 1.0
        problem = self.problem
        sides = [filled(problem.n, 0, problem.S, "int8") for _ in guesses]

        def work(part: slice) -> list[_Folded]:
            block = problem.rows(part)
            pairs = zip(guesses, sides, strict=True)
            return [self._fold(part, *block, guess, side) for guess, side in pairs]

        blocks = map_row_blocks(work, problem.S)
        return [
            _partition([parts[k] for parts in blocks], sides[k], balls[k], problem.fit_intercept)
            for k in range(len(guesses))
        ]

    def _fold(
        self, part: slice, S: Array, y: Array | float, c: Array | float, guess: Guess, side: Array
    ) -> _Folded:
        problem, xp = self.problem, namespace(S)
        r = problem.residuals(S, y, guess.w)
        sloping, flat = r > guess.band, r < -guess.band
        if problem.costs is not None:
            flat |= c == 0
        side[part] = xp.astype(sloping, xp.int8) - xp.astype(flat, xp.int8)
        held = xp.astype(sloping, xp.float64) * c
        pull = held * y
        linear = to_host(pull @ S)
        if problem.fit_intercept:
            linear = np.append(linear, total(pull))
        rows = self._rows(part, S, y, c, nonzero(~(sloping | flat)), side)
        return _Folded(total(c * problem.loss.value(r)), linear, total(held), rows)

    def verify(self, points: Sequence[Host], sides: Sequence[Array]) -> list[tuple[float, Rows]]:
        """For each point, its value and the held rows on the other side of their kink there."""
        self.passes += 1.0
        problem = self.problem

        def look(part: slice, S: Array, y: Any, c: Any, v: Host, side: Array) -> tuple[float, Rows]:
            r = problem.residuals(S, y, v)
            crossed = r * as_float64(side[part]) < 0
            if problem.costs is not None:
                crossed &= c > 0
            rows = self._rows(part, S, y, c, nonzero(crossed), side)
            return total(c * problem.loss.value(r)), rows

        def work(part: slice) -> list[tuple[float, Rows]]:
            block = problem.rows(part)
            pairs = zip(points, sides, strict=True)
            return [look(part, *block, v, side) for v, side in pairs]

        verdicts = []
        for blocks in zip(*map_row_blocks(work, problem.S), strict=True):
            values, rows = zip(*blocks, strict=True)
            verdicts.append((math.fsum(values), _join(list(rows))))
        return verdicts

    def _rows(
        self, part: slice, S: Array, y: Array | float, c: Array | float, chosen: Array, side: Array
    ) -> Rows:
        a = take(S, chosen)
        labels = y if isinstance(y, float) else take(y, chosen)
        costs = take(c, chosen) if not isinstance(c, float) else filled(a.shape[0], 1.0, S)
        return Rows(self._signed(a, labels), costs, take(side[part], chosen), chosen + part.start)


class _Folded(NamedTuple):
    """What a block adds to a partition."""

    value: float
    linear: Host
    constant: float
    rows: Rows


def _partition(blocks: list[_Folded], side: Array, ball: LpBall, fit_intercept: bool) -> Partition:
    rows = [block.rows for block in blocks]
    model = Model(
        columns=joined_columns([part.a for part in rows]),
        costs=concatenate([part.costs for part in rows]),
        ball=ball,
        linear=-np.sum([block.linear for block in blocks], axis=0),
        constant=math.fsum(block.constant for block in blocks),
        free=int(fit_intercept),
    )
    index = concatenate([part.index for part in rows])
    return Partition(math.fsum(block.value for block in blocks), model, side, index)


def _join(parts: list[Rows]) -> Rows:
    return Rows(*(concatenate(list(group)) for group in zip(*parts, strict=True)))


def admit(partition: Partition, rows: Rows) -> Partition:
    """The partition with rows taken out of the fold and into the model."""
    model, xp = partition.model, namespace(rows.a)
    sloping = xp.where(rows.side > 0, rows.costs, 0.0 * rows.costs)
    grown = Model(
        columns=joined_columns([model.columns.T, rows.a]),
        costs=concatenate([model.costs, rows.costs]),
        ball=model.ball,
        linear=model.linear + to_host(sloping @ rows.a),
        constant=model.constant - total(sloping),
        free=model.free,
    )
    side = put(xp.asarray(partition.side, copy=True), rows.index, 0.0)
    return Partition(partition.value, grown, side, concatenate([partition.index, rows.index]))
