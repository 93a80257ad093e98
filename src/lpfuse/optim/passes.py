"""Reading the scores: each method of `Reader` is one pass over S, or less, and is counted.

A pass brings back R numbers and the few rows that matter, never the data. What it does to a block
of rows is a function of that block alone, so that a block is used twice while it is in the cache,
and so that blocks may live elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lpfuse._arrays import (
    Array,
    Host,
    as_float64,
    concatenate,
    filled,
    joined_columns,
    namespace,
    nonzero,
    put,
    take,
    to_host,
    to_host_together,
    total,
)
from lpfuse.optim.balls import LpBall
from lpfuse.optim.model import Guess, Model
from lpfuse.optim.problem import Block, Fold, Problem, Terms


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
    fold: Fold
    index: Array  # positions in S of the model's rows


class Overflow(NamedTuple):
    """The outcome of a partition pass that found more rows near the kink than were wanted."""

    n_rows: int


class Verdict(NamedTuple):
    """The value of a point, and the held rows on the other side of their kink there."""

    value: float
    n_wrong: int
    rows: Rows | None  # None where they are too many to gather


class Reader:
    """Passes over the scores of one problem; `passes` counts them."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.passes = problem.passes_so_far

    def whole(self) -> tuple[Model, Array]:
        """All rows with a positive cost as one model, and their positions."""
        self.passes += 1.0
        block, index = self.problem.everything()
        return self._model(block), index

    def sample(self, m: int) -> Model:
        """About m rows as a model of the whole."""
        block = self.problem.draw(m)
        self.passes += self.problem.passes_of_draw(m)
        return self._model(block)

    def _model(self, block: Block) -> Model:
        problem, a = self.problem, signed(self.problem.terms, block.S, block.y)
        return Model(
            columns=joined_columns([a]),
            costs=block.c + filled(a.shape[0], 0.0, a),
            ball=problem.ball,
            linear=np.zeros(problem.size),
            free=int(problem.fit_intercept),
        )

    def partition(
        self, guesses: Sequence[Guess], balls: Sequence[LpBall], most: Sequence[int]
    ) -> list[Partition | Overflow]:
        """For each guess, fold the rows farther than its band from their kink; keep the others.

        Where these are more than `most`, they are counted only.
        """
        self.passes += 1.0
        problem = self.problem
        work = partial(_fold, problem.terms, guesses, most, problem.remembers_sides)
        folded = problem.reduce(work, partial(_merge_each, _join_folded, most))
        free = int(problem.fit_intercept)
        return [_partition(*each, free) for each in zip(folded, guesses, balls, strict=True)]

    def verify(
        self, points: Sequence[Host], folds: Sequence[Fold], most: Sequence[int]
    ) -> list[Verdict]:
        """For each point, its value and the rows that it has on the wrong side of a fold.

        Where these are more than `most`, they are counted only.
        """
        self.passes += 1.0
        problem = self.problem
        guesses = [Guess(fold.w, fold.band) for fold in folds]
        work = partial(_look, problem.terms, points, guesses, most)
        sides = [fold.side for fold in folds]
        return problem.reduce(work, partial(_merge_each, _join_verdicts, most), *sides)

    def violations(self, point: Host, most: int) -> Verdict:
        """The value of a point, and the rows that violate their margin most there."""
        self.passes += 1.0
        problem = self.problem
        work = partial(_violations, problem.terms, point, most)
        return problem.reduce(work, partial(_join_violations, point, most))


def signed(terms: Terms, S: Array, y: Array | float) -> Array:
    """The rows a_i of scores and labels."""
    xp = namespace(S)
    labels = filled(S.shape[0], 1.0, S) if isinstance(y, float) else y
    a = S if isinstance(y, float) else S * y[:, None]
    return xp.concat([a, labels[:, None]], axis=1) if terms.fit_intercept else a


def _rows(terms: Terms, block: Block, chosen: Array, side: Array | None) -> Rows:
    S, y, c, start = block
    a = take(S, chosen)
    labels = y if isinstance(y, float) else take(y, chosen)
    costs = filled(a.shape[0], 1.0, S) if isinstance(c, float) else take(c, chosen)
    held = filled(a.shape[0], -1, S, "int8") if side is None else take(side, chosen)
    return Rows(signed(terms, a, labels), costs, held, chosen + start)


class _Folded(NamedTuple):
    """What a block adds to a partition."""

    value: float
    linear: Host
    constant: float
    n_near: int
    rows: Rows | None
    side: Array | None


def _sides(block: Block, r: Array, band: float) -> Array:
    """Where rows are to be held, by their residuals: farther than the band, or at no cost."""
    xp = namespace(r)
    sloping, flat = r > band, r < -band
    if block.is_weighted:
        idle = block.c == 0
        sloping, flat = sloping & ~idle, flat | idle
    return xp.astype(sloping, xp.int8) - xp.astype(flat, xp.int8)


def _fold(
    terms: Terms, guesses: Sequence[Guess], most: Sequence[int], remember: bool, block: Block
) -> list[_Folded]:
    return [
        _fold_at(terms, guess, limit, remember, block)
        for guess, limit in zip(guesses, most, strict=True)
    ]


def _fold_at(terms: Terms, guess: Guess, limit: int, remember: bool, block: Block) -> _Folded:
    r = terms.residuals(block, guess.w)
    side = _sides(block, r, guess.band)
    held = as_float64(side > 0) * block.c
    pull = held * block.y
    xp = namespace(r)
    sums = pull @ block.S, xp.sum(pull), xp.sum(held), xp.sum(block.c * terms.loss.value(r))
    linear, intercept, constant, value = to_host_together(*sums)
    near = nonzero(side == 0)
    n_near = int(near.shape[0])
    return _Folded(
        value=float(value),
        linear=np.append(linear, intercept) if terms.fit_intercept else linear,
        constant=float(constant),
        n_near=n_near,
        rows=_rows(terms, block, near, side) if n_near <= limit else None,
        side=side if remember else None,
    )


def _join_folded(parts: list[_Folded], most: int) -> _Folded:
    n_near = sum(part.n_near for part in parts)
    return _Folded(
        value=math.fsum(part.value for part in parts),
        linear=np.sum([part.linear for part in parts], axis=0),
        constant=math.fsum(part.constant for part in parts),
        n_near=n_near,
        rows=_join_rows([part.rows for part in parts]) if n_near <= most else None,
        side=None if parts[0].side is None else concatenate([part.side for part in parts]),
    )


def _partition(folded: _Folded, guess: Guess, ball: LpBall, free: int) -> Partition | Overflow:
    fold, rows = Fold(guess.w, guess.band, folded.side), folded.rows
    if rows is None:
        return Overflow(folded.n_near)
    model = Model(
        columns=joined_columns([rows.a]),
        costs=rows.costs,
        ball=ball,
        linear=-folded.linear,
        constant=folded.constant,
        free=free,
    )
    return Partition(folded.value, model, fold, rows.index)


def _look(
    terms: Terms,
    points: Sequence[Host],
    guesses: Sequence[Guess],
    most: Sequence[int],
    block: Block,
    *sides: Array | None,
) -> list[Verdict]:
    each = zip(points, guesses, sides, most, strict=True)
    return [_look_at(terms, block, *one) for one in each]


def _look_at(
    terms: Terms, block: Block, v: Host, guess: Guess, side: Array | None, limit: int
) -> Verdict:
    r = terms.residuals(block, v)
    if side is None:
        side = _sides(block, terms.residuals(block, guess.w), guess.band)
    wrong = r * as_float64(side) < 0
    if block.is_weighted:
        wrong &= block.c > 0
    crossed = nonzero(wrong)
    n_wrong = int(crossed.shape[0])
    rows = _rows(terms, block, crossed, side) if n_wrong <= limit else None
    return Verdict(total(block.c * terms.loss.value(r)), n_wrong, rows)


def _join_verdicts(parts: list[Verdict], most: int) -> Verdict:
    n_wrong = sum(part.n_wrong for part in parts)
    rows = _join_rows([part.rows for part in parts]) if n_wrong <= most else None
    return Verdict(math.fsum(part.value for part in parts), n_wrong, rows)


def _violations(terms: Terms, v: Host, most: int, block: Block) -> Verdict:
    r = terms.residuals(block, v)
    wrong = r > 0
    if block.is_weighted:
        wrong &= block.c > 0
    chosen = nonzero(wrong)
    rows = _worst(_rows(terms, block, chosen, None), v, most)
    return Verdict(total(block.c * terms.loss.value(r)), int(chosen.shape[0]), rows)


def _join_violations(v: Host, most: int, parts: list[Verdict]) -> Verdict:
    value, n_wrong = math.fsum(part.value for part in parts), sum(part.n_wrong for part in parts)
    return Verdict(value, n_wrong, _worst(_join_rows([part.rows for part in parts]), v, most))


def _worst(rows: Rows, v: Host, most: int) -> Rows:
    """The rows of the lowest margins, on the host."""
    a, costs, side, index = (np.asarray(to_host(part)) for part in rows)
    order = np.argsort(a @ v[: a.shape[1]], kind="stable")[:most]
    return Rows(a[order], costs[order], side[order], index[order])


def _merge_each(join: Any, most: Sequence[int], parts: list[list[Any]]) -> list[Any]:
    """The results of blocks, joined for each of several guesses."""
    return [
        join(list(group), limit)
        for group, limit in zip(zip(*parts, strict=True), most, strict=True)
    ]


def _join_rows(parts: Sequence[Rows | None]) -> Rows:
    return Rows(*(concatenate(list(group)) for group in zip(*parts, strict=True)))


def unknown(partition: Partition, rows: Rows) -> Rows:
    """The rows that are not in the model yet: where sides are worked out anew, some may be."""
    if partition.fold.side is not None:
        return rows
    new = np.flatnonzero(~np.isin(rows.index, partition.index))
    return Rows(*(part[new] for part in rows))


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
    fold, index = partition.fold, concatenate([partition.index, rows.index])
    if fold.side is not None:
        fold = fold._replace(side=put(xp.asarray(fold.side, copy=True), rows.index, 0.0))
    return Partition(partition.value, grown, fold, index)
