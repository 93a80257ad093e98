"""Shapley values of a function of rows against a background: by walks, or by all coalitions.

The players are the columns of a row, or groups of them. In a coalition players hold what the row
holds, and all others what a row of the background does; the game is the function of that mixed row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host

Mask = NDArray[np.bool_]
Index = NDArray[np.intp]
# Scores of mixed rows: positions of the rows (m,), of the background (m,), and which players hold
# what the row holds (m, players).
Game = Callable[[Index, Index, Mask], Host]

BATCH = 8_192  # mixed rows that are scored at a time: more is hardly faster, and takes memory
# Players up to which all coalitions are asked: the 30 of five cost less than the walks of twenty.
FEW = 5
MOST = 16  # players of which all coalitions can be asked at all: 65,536 of them


class ShapleyValues(NamedTuple):
    """Values of n rows and G players, with what is known of their errors.

    Attributes
    ----------
    values : ndarray of shape (n, G)
        Means over the background.
    of_background : ndarray of shape (n, G)
        Variances of these means, had the background been drawn by chance; NaN of one row.
    of_orders : ndarray of shape (n, G)
        Variances over the orders alone; NaN where there is one pair of walks for each row of the
        background, which cannot tell.
    """

    values: Host
    of_background: Host
    of_orders: Host


class _Pair(NamedTuple):
    """A row and a row of the background: what differs, and the coalitions to ask about."""

    row: int
    other: int
    players: Index
    ranks: Index | None  # (P, v), of the players in each order; None: all coalitions
    members: Mask  # (m, v)


def shapley_values(
    game: Game, rows: Host, background: Host, differ: Callable[[int], Mask], orders: Index
) -> ShapleyValues:
    r"""Shapley values of each player, the mean over the rows of the background.

    .. math:: \phi_g = \frac1B \sum_b \mathrm{E}_\pi
              [f(x_{S_\pi \cup g}, b) - f(x_{S_\pi}, b)]

    with :math:`S_\pi` the players before g in the order π. Every order is walked both ways, which
    makes the value exact for whatever is a sum of functions of one or two players, and so leaves
    interactions of three and more to chance. Players that hold the same in both rows change
    nothing, and are not asked about; where few are left, all coalitions are. The values of a row
    add up to its score less the mean score of the background, whatever the orders.

    Parameters
    ----------
    game : callable
        Scores of mixed rows.
    rows, background : ndarray of shape (n,) and (B,)
        Scores of rows as they are.
    differ : callable
        Position of a row ↦ which players differ from each row of the background, (B, G).
    orders : ndarray of shape (B, P, G)
        P orders of the players for each row of the background; P = 0: all coalitions.
    """
    n, B, (P, G) = len(rows), len(background), orders.shape[1:]
    mean, squares, within = (np.zeros((n, G)) for _ in range(3))
    waiting: list[_Pair] = []

    def settle() -> None:
        scores = _asked(game, waiting, G)
        for pair in waiting:
            own, scores = np.split(scores, [len(pair.members)])
            ends = background[pair.other], rows[pair.row]
            drawn = np.zeros((max(1, P), G))
            drawn[:, pair.players] = _marginals(pair, own, *ends)
            found = drawn.mean(axis=0)
            # Welford's sums, for differences of large squares would hide small errors.
            step = found - mean[pair.row]
            mean[pair.row] += step / (pair.other + 1)
            squares[pair.row] += step * (found - mean[pair.row])
            if pair.ranks is not None:
                within[pair.row] += drawn.var(axis=0, ddof=1) / P if P > 1 else np.nan
        waiting.clear()

    for i in range(n):
        for b, vary in enumerate(differ(i)):
            waiting.append(_pair(i, b, np.flatnonzero(vary), orders[b]))
        if sum(len(pair.members) for pair in waiting) >= BATCH:
            settle()
    settle()
    of_background = squares / (B * (B - 1)) if B > 1 else np.full((n, G), np.nan)
    return ShapleyValues(mean, of_background, within / B**2)


def draw_orders(n: int, P: int, players: int, random: np.random.RandomState) -> Index:
    """Orders of the players, P for each of n rows."""
    return random.random_sample((n, P, players)).argsort(axis=2)


def _pair(row: int, other: int, players: Index, orders: Index) -> _Pair:
    v, P = len(players), len(orders)
    if v <= FEW or P == 0 or 2**v - 2 <= 2 * P * (v - 1):
        return _Pair(row, other, players, None, _coalitions(v)[1:-1])
    # The places of the players in each order, among themselves.
    ranks = orders.argsort(axis=1)[:, players].argsort(axis=1).argsort(axis=1)
    first = ranks[:, None, :] < np.arange(1, v)[:, None]  # (P, v − 1, v): the first k of an order
    # The last k are those that the first v − k leave out: the same walk from its other end.
    members = np.stack([first, ~first[:, ::-1]], axis=1).reshape(-1, v)
    return _Pair(row, other, players, ranks, members)


def _asked(game: Game, pairs: list[_Pair], G: int) -> Host:
    """Scores of all coalitions of some pairs."""
    counts = [len(pair.members) for pair in pairs]
    masks = np.zeros((sum(counts), G), dtype=bool)
    start = 0
    for pair, count in zip(pairs, counts, strict=True):
        masks[start : start + count, pair.players] = pair.members
        start += count
    rows = np.repeat([pair.row for pair in pairs], counts)
    others = np.repeat([pair.other for pair in pairs], counts)
    blocks = [slice(at, at + BATCH) for at in range(0, len(masks), BATCH)]
    parts = [game(rows[some], others[some], masks[some]) for some in blocks]
    return np.concatenate([np.empty(0), *parts])


def _marginals(pair: _Pair, own: Host, empty: float, whole: float) -> Host:
    """What each player adds, in the mean of both walks of each order: (P, v)."""
    v = len(pair.players)
    if pair.ranks is None:
        scores = np.concatenate([[empty], own, [whole]]) if v else np.zeros(1)
        return (_weights(v) @ scores)[None]
    P = len(pair.ranks)
    walks = np.empty((P, 2, v + 1))
    walks[..., 0], walks[..., -1] = empty, whole
    walks[..., 1:-1] = own.reshape(P, 2, v - 1)
    steps = np.diff(walks, axis=2)
    both = (steps[:, 0] + steps[:, 1, ::-1]) / 2
    return np.take_along_axis(both, pair.ranks, axis=1)


@lru_cache(maxsize=MOST + 1)
def _coalitions(v: int) -> Mask:
    """All sets of v players, from none to all: (2^v, v)."""
    return (np.arange(2**v)[:, None] >> np.arange(v)) & 1 > 0


@lru_cache(maxsize=MOST + 1)
def _weights(v: int) -> Host:
    """Shapley's weights: the value of each player is a row times the scores of all coalitions."""
    inside, size = _coalitions(v).T, _coalitions(v).sum(axis=1)
    # s! (v − s − 1)! / v! for the s players who came before.
    before = np.array([1 / (v * comb(v - 1, s)) for s in range(v)] + [0.0])
    return np.where(inside, before[size - 1], -before[size])
