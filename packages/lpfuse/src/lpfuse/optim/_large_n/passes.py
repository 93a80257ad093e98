"""Reading the scores: each method of `Reader` is one pass over S, or less, and is counted.

A pass brings home R numbers and the few rows that matter, never the data: whatever device reads,
the host thinks. What a pass does to a block of rows is a function of that block alone, so that a
block is used twice while it is in the cache, and so that blocks may live elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from lpfuse.optim._solvers.model import Guess, Model
from lpfuse.optim.balls import LpBall
from lpfuse.optim.problem import Block, Fold, Problem, Terms

Positions = NDArray[np.int64]


class Rows(NamedTuple):
    """Some rows, brought home: a_i = y_i s_i (with y_i last when there is an intercept)."""

    a: Host  # (k, coordinates)
    costs: Host  # (k,)
    side: Host  # (k,) where they were held before
    positions: Positions  # (k,) in S

    def at(self, chosen: NDArray[np.intp]) -> Rows:
        """Some of them."""
        return Rows(self.a[chosen], self.costs[chosen], self.side[chosen], self.positions[chosen])


class Cut(NamedTuple):
    """Where to part rows: by their distance from their kink at w, and how many to bring home.

    With a stride, only every so manieth of the rows in the band is brought, to stand for the
    others; without one they are all wanted, but not more than `most`.
    """

    w: Host
    band: float
    stride: int
    most: int


class Partition(NamedTuple):
    """The outcome of a partition pass at some w."""

    value: float
    n_near: int
    model: Model  # rows near the kink, the others folded
    fold: Fold
    positions: Positions  # in S, of the model's rows


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
        problem, a = self.problem, to_host(signed(self.problem.terms, block.S, block.y))
        return Model(
            columns=joined_columns([a]),
            costs=to_host(block.c + np.zeros(len(a)) if isinstance(block.c, float) else block.c),
            ball=problem.ball,
            linear=np.zeros(problem.size),
            free=int(problem.fit_intercept),
        )

    def partition(self, cuts: Sequence[Cut], balls: Sequence[LpBall]) -> list[Partition | Overflow]:
        """For each cut, fold the rows farther than its band from their kink; keep the others."""
        self.passes += 1.0
        problem = self.problem
        work = partial(_fold, problem.terms, cuts, problem.remembers_sides)
        folded = problem.reduce(work, partial(_merge_each, _join_folded, [c.most for c in cuts]))
        free = int(problem.fit_intercept)
        return [_partition(*each, free) for each in zip(folded, cuts, balls, strict=True)]

    def verify(
        self, points: Sequence[Host], folds: Sequence[Fold], most: Sequence[int]
    ) -> list[Verdict]:
        """For each point, its value and the rows that it has on the wrong side of a fold.

        Where these are more than `most`, they are counted only.
        """
        self.passes += 1.0
        problem = self.problem
        work = partial(_look, problem.terms, points, [Guess(f.w, f.band) for f in folds], most)
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
    k = int(a.shape[0])
    labels = y if isinstance(y, float) else take(y, chosen)
    costs = np.ones(k) if isinstance(c, float) else to_host(take(c, chosen))
    held = np.full(k, -1.0) if side is None else to_host(take(side, chosen))
    index = to_host(chosen).astype(np.int64) + start
    return Rows(to_host(signed(terms, a, labels)), costs, held, index)


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


def _fold(terms: Terms, cuts: Sequence[Cut], remember: bool, block: Block) -> list[_Folded]:
    return [_fold_at(terms, cut, remember, block) for cut in cuts]


def _fold_at(terms: Terms, cut: Cut, remember: bool, block: Block) -> _Folded:
    r = terms.residuals(block, cut.w)
    side = _sides(block, r, cut.band)
    held = as_float64(side > 0) * block.c
    pull = held * block.y
    xp = namespace(r)
    sums = pull @ block.S, xp.sum(pull), xp.sum(held), xp.sum(block.c * terms.loss.value(r))
    linear, intercept, constant, value = to_host_together(*sums)
    near = nonzero(side == 0)
    n_near = int(near.shape[0])
    near = near[:: cut.stride]
    rows = _rows(terms, block, near, side) if near.shape[0] <= cut.most else None
    if rows is not None and cut.stride > 1:
        rows = rows._replace(costs=rows.costs * (n_near / max(len(rows.costs), 1)))
    return _Folded(
        value=float(value),
        linear=np.append(linear, intercept) if terms.fit_intercept else linear,
        constant=float(constant),
        n_near=n_near,
        rows=rows,
        side=side if remember and cut.stride == 1 else None,
    )


def _join_folded(parts: list[_Folded], most: int) -> _Folded:
    return _Folded(
        value=math.fsum(part.value for part in parts),
        linear=np.sum([part.linear for part in parts], axis=0),
        constant=math.fsum(part.constant for part in parts),
        n_near=sum(part.n_near for part in parts),
        rows=_join_rows([part.rows for part in parts], most),
        side=None if parts[0].side is None else concatenate([part.side for part in parts]),
    )


def _partition(folded: _Folded, cut: Cut, ball: LpBall, free: int) -> Partition | Overflow:
    rows = folded.rows
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
    fold = Fold(cut.w, cut.band, folded.side)
    return Partition(folded.value, folded.n_near, model, fold, rows.positions)


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
    rows = _join_rows([part.rows for part in parts], most)
    return Verdict(math.fsum(part.value for part in parts), n_wrong, rows)


def _violations(terms: Terms, v: Host, most: int, block: Block) -> Verdict:
    r = terms.residuals(block, v)
    wrong = r > 0
    if block.is_weighted:
        wrong &= block.c > 0
    chosen = nonzero(wrong)
    n_wrong = int(chosen.shape[0])
    if n_wrong > most:
        worst = namespace(r).argsort(-take(r, chosen), stable=True)[:most]
        chosen = take(chosen, worst)
    rows = _rows(terms, block, chosen, None)
    return Verdict(total(block.c * terms.loss.value(r)), n_wrong, rows)


def _join_violations(v: Host, most: int, parts: list[Verdict]) -> Verdict:
    value, n_wrong = math.fsum(part.value for part in parts), sum(part.n_wrong for part in parts)
    rows = _join_rows([part.rows for part in parts], n_wrong)
    assert rows is not None
    return Verdict(value, n_wrong, _worst(rows, v, most))


def _worst(rows: Rows, v: Host, most: int) -> Rows:
    """The rows of the lowest margins."""
    order = np.argsort(rows.a @ v[: rows.a.shape[1]], kind="stable")[:most]
    return rows.at(order)


def _merge_each(join: Any, most: Sequence[int], parts: list[list[Any]]) -> list[Any]:
    """The results of blocks, joined for each of several guesses."""
    return [
        join(list(group), limit)
        for group, limit in zip(zip(*parts, strict=True), most, strict=True)
    ]


def _join_rows(parts: Sequence[Rows | None], most: int) -> Rows | None:
    """All rows as one; None where they are too many, or some were."""
    present = [part for part in parts if part is not None]
    if len(present) < len(parts) or sum(len(part.costs) for part in present) > most:
        return None
    a, costs, side, index = (np.concatenate(group) for group in zip(*present, strict=True))
    return Rows(a, costs, side, index)


def unknown(partition: Partition, rows: Rows) -> Rows:
    """The rows that are not in the model yet: where sides are worked out anew, some may be."""
    if partition.fold.side is not None:
        return rows
    return rows.at(np.flatnonzero(~np.isin(rows.positions, partition.positions)))


def admit(partition: Partition, rows: Rows) -> Partition:
    """The partition with rows taken out of the fold and into the model."""
    model, fold = partition.model, partition.fold
    sloping = np.where(rows.side > 0, rows.costs, 0.0)
    grown = Model(
        columns=joined_columns([model.columns.T, rows.a]),
        costs=np.concatenate([model.costs, rows.costs]),
        ball=model.ball,
        linear=model.linear + sloping @ rows.a,
        constant=model.constant - float(sloping.sum()),
        free=model.free,
    )
    if fold.side is not None:
        copied = namespace(fold.side).asarray(fold.side, copy=True)
        fold = fold._replace(side=put(copied, rows.positions, 0.0))
    index = np.concatenate([partition.positions, rows.positions])
    return Partition(partition.value, partition.n_near, grown, fold, index)
