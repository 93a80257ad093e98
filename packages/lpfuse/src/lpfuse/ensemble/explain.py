"""Why a row was flagged: what each of its columns adds to the fused score, as Shapley values.

The players are the columns of a row, or groups of them. In a coalition players hold what the row
holds, and all others what a row of the background does; the game is the score of that mixed row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host
from lpfuse._format import quote
from lpfuse._validation.params import check_choice, check_count, listed
from lpfuse._validation.tables import column_names
from lpfuse.ensemble.rows import Index, StoredRows, Table, column_positions, joined_rows

# Normal rows that a row is compared with. With one order for each, walked both ways, the columns
# that matter most have errors of a seventh of their values (docs/adr/0026).
BACKGROUND = 32
CANDIDATES = 10  # rows that are scored for each that is drawn, so that the drawn ones are spread
CLEAR = 2.0  # standard errors below zero from which a column certainly points to an anomaly


@dataclass(frozen=True)
class Explanation:
    """What each column adds to the fused scores of n rows: their Shapley values.

    Attributes
    ----------
    values : ndarray of shape (n, d)
        What each column, or group of columns, adds to the score. Below zero it points to an
        anomaly. ``values.sum(axis=1) + base_value`` are the `scores`. NaN where there is none.
    standard_errors : ndarray of shape (n, d)
        How far the values would move, had chance drawn other orders, and other background rows
        where these are drawn; zero where nothing is drawn.
    base_value : float
        The mean score of the background.
    scores : ndarray of shape (n,)
        ``score_samples`` of the rows.
    feature_names : list of d str
        Names of the columns or groups.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse.ensemble.components import Explanation
    >>> values, errors = np.array([[-3.0, 0.5, -0.1]]), np.array([[0.2, 0.1, 0.2]])
    >>> found = Explanation(values, errors, 1.0, np.array([-1.6]), ["bar", "flow", "kind"])
    >>> found.reasons(0)
    ['bar']
    """

    values: Host
    standard_errors: Host
    base_value: float
    scores: Host
    feature_names: list[str]

    def reasons(self, row: int, n: int = 3) -> list[str]:
        """Name the columns that pushed the score of a row down most, the first one first.

        Parameters
        ----------
        row : int
            Position of the row.
        n : int, default=3
            How many at most. Those whose values could as well be zero, by two standard errors,
            are left out.
        """
        return [self.feature_names[j] for j in self.pushed_down(row, n)]

    def pushed_down(self, row: int, n: int = 3) -> list[int]:
        """Return positions of these columns.

        Parameters
        ----------
        row, n : int
            As in `reasons`.
        """
        values, errors = self.values[row], np.nan_to_num(self.standard_errors[row])
        lowest = np.argsort(values, kind="stable")[: check_count("n", n)]
        return [int(j) for j in lowest if values[j] < 0 and values[j] + CLEAR * errors[j] < 0]

    def to_shap(self, X: Any = None) -> Any:
        """Return a :class:`shap.Explanation`, for the plots of shap.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d), optional
            The rows that were explained, to be shown as the values of the columns. Not with groups
            of columns.

        Returns
        -------
        shap.Explanation
            ``values`` and ``base_values`` are those of the fused score: high = normal.
        """
        try:
            import shap
        except ImportError as error:
            raise ImportError("to_shap needs the package shap: pip install shap") from error
        data = None if X is None else np.asarray(X)
        if data is not None and data.shape != self.values.shape:
            raise ValueError(
                f"X must have a row and a column for each value, shape {self.values.shape}, got "
                f"{data.shape}. Pass the rows that were explained, or omit X."
            )
        return shap.Explanation(
            self.values,
            base_values=np.full(len(self.values), self.base_value),
            data=data,
            feature_names=list(self.feature_names),
        )

    def to_frame(self, library: Literal["pandas", "polars"] = "pandas") -> Any:
        """Return a data frame with a line for each row and column, lowest values first.

        Parameters
        ----------
        library : {"pandas", "polars"}, default="pandas"
            Of the data frame.

        Returns
        -------
        DataFrame
            With columns ``row``, ``feature``, ``value`` and ``standard_error``.
        """
        check_choice("library", library, ("pandas", "polars"))
        n, d = self.values.shape
        order = np.argsort(self.values, axis=1, kind="stable")
        columns = {
            "row": np.repeat(np.arange(n), d),
            "feature": [self.feature_names[j] for j in order.ravel()],
            "value": np.take_along_axis(self.values, order, axis=1).ravel(),
            "standard_error": np.take_along_axis(self.standard_errors, order, axis=1).ravel(),
        }
        if library == "polars":
            import polars

            return polars.DataFrame(columns)
        import pandas

        return pandas.DataFrame(columns)


def explain_rows(
    X: Table,
    scores: Host,
    score: Callable[[Table], Host],
    background: Table,
    players: tuple[list[str], Index],
    *,
    n_permutations: int | Literal["all"] | None,
    drawn: bool,
    random: np.random.RandomState,
) -> Explanation:
    """Explain the scores of rows by their columns.

    Parameters
    ----------
    X, scores : table of shape (n, d), ndarray of shape (n,)
        Rows and their scores.
    score : callable
        From rows to scores.
    background : table of shape (B, d)
        Rows to compare with.
    players : (names, owner of each column)
        As `find_players` finds them.
    n_permutations : int, "all" or None
        As in :meth:`lpfuse.FusedDetector.explain`.
    drawn : bool
        Whether the background is a draw from more rows.
    random : RandomState
        Draws orders.
    """
    names, owner = players
    P = _check_permutations(n_permutations, drawn, len(names))
    orders = draw_orders(background.shape[0], P, len(names), random)
    mixed, base = _MixedRows(background, X, owner), score(background)
    found = shapley_values(
        lambda *which: score(mixed.rows(*which)), scores, base, mixed.differ, orders
    )
    # One order for each row cannot tell its own error; the spread over rows is a bound of it.
    which = drawn | np.isnan(found.of_orders)
    variances = np.where(which, found.of_background, found.of_orders)
    return Explanation(found.values, np.sqrt(variances), float(base.mean()), scores, names)


def draw_background(
    rows: StoredRows,
    labels: Host,
    decide: Callable[[Table], Host],
    n: int,
    rng: np.random.RandomState,
) -> tuple[Table, bool]:
    """Draw n normal training rows, evenly along their scores; also tell whether there are more.

    Parameters
    ----------
    rows, labels : StoredRows, ndarray
        Training rows, of which those with the label +1 are normal.
    decide : callable
        From rows to signed distances to the threshold.
    n, rng
        How many to draw; draws them.
    """
    if rows.values is None:
        raise ValueError(
            "The detector learnt from columns of words, which it does not keep, so there are no "
            "rows to compare with. Pass some that are normal: explain(X, background=...)."
        )
    normal = np.flatnonzero(labels > 0)
    several = np.sort(rng.permutation(normal)[: CANDIDATES * n])
    decision = decide(rows.table(several))
    kept = decision >= 0 if (decision >= 0).any() else np.ones(len(several), dtype=bool)
    ascending = several[kept][np.argsort(decision[kept], kind="stable")]
    if len(ascending) <= n:
        return rows.table(ascending), len(normal) > len(ascending)
    parts = np.array_split(ascending, n)
    return rows.table(np.array([rng.choice(part) for part in parts])), True


def _check_permutations(value: Any, drawn: bool, players: int) -> int:
    """Return the orders for each background row; 0: all coalitions."""
    if value is None:
        return 1 if drawn else 2
    if isinstance(value, str):
        check_choice("n_permutations", value, ("all",))
        if players > MOST:
            raise ValueError(
                f'n_permutations="all" asks about every coalition of up to {MOST} columns or '
                f"groups, got {players}. Use a number, such as 4, or groups of columns."
            )
        return 0
    return check_count("n_permutations", value)


def find_players(
    groups: Mapping[str, Any] | None, X: Table, estimator: Any
) -> tuple[list[str], NDArray[np.intp]]:
    """Name the players, by their first columns, and tell whose each column is."""
    known = column_names(X, estimator)
    names = [f"column {j}" for j in range(X.shape[1])] if known is None else list(map(str, known))
    owner: list[str | None] = [None] * X.shape[1]
    for group, columns in (groups or {}).items():
        positions = column_positions(columns, X, str(group))
        for j in range(X.shape[1]) if positions is None else positions:
            if owner[j] is not None:
                raise ValueError(
                    f"groups must not overlap: {quote(names[j])} is in {quote(owner[j])} and in "
                    f"{quote(group)}."
                )
            owner[j] = str(group)
    told = [name if own is None else own for name, own in zip(names, owner, strict=True)]
    alone = {told[j] for j in range(len(told)) if owner[j] is None}
    clash = sorted(alone & {own for own in owner if own is not None})
    if clash:
        raise ValueError(f"groups need names that no other column has, got {listed(clash)}.")
    found = list(dict.fromkeys(told))
    return found, np.array([found.index(name) for name in told])


class _MixedRows:
    """Rows of which some players come from the rows explained, the others from the background."""

    def __init__(self, background: Table, X: Table, players: Index) -> None:
        self.all, self.start = joined_rows([background, X]), background.shape[0]
        self.players, self.n_players = players, int(players.max()) + 1
        d = X.shape[1]
        codes = [_codes(np.asarray(_safe_indexing(self.all, j, axis=1))) for j in range(d)]
        self.codes = np.column_stack(codes)

    def differ(self, i: int) -> Mask:
        """Tell which players of row i differ from those of each background row."""
        other = self.codes[: self.start] != self.codes[self.start + i]
        found = np.zeros((self.start, self.n_players), dtype=bool)
        for j, player in enumerate(self.players):
            found[:, player] |= other[:, j]
        return found

    def rows(self, row: Index, other: Index, mask: Mask) -> Table:
        """Return mixed rows, as the detector takes them."""
        index = np.where(mask[:, self.players], self.start + row[:, None], other[:, None])
        if isinstance(self.all, np.ndarray):
            return self.all[index, np.arange(index.shape[1])]
        if hasattr(self.all, "iloc"):
            import pandas

            columns = [self.all.iloc[at, j].reset_index(drop=True) for j, at in enumerate(index.T)]
            return pandas.concat(columns, axis=1)
        return type(self.all)([self.all.to_series(j).gather(at) for j, at in enumerate(index.T)])


def _codes(column: NDArray[Any]) -> NDArray[np.intp]:
    """Return numbers that are equal for equal cells; missing cells are equal."""
    if column.dtype.kind not in "biufM":
        column = np.array([str(cell) for cell in column])
    return np.unique(column, return_inverse=True)[1].ravel()


# ----------------------------------------------------------------------------------- Shapley values


Mask = NDArray[np.bool_]
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
    r"""Compute Shapley values of each player, the mean over the rows of the background.

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
    """Draw orders of the players, P for each of n rows."""
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
    """Score all coalitions of some pairs."""
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
    """Return what each player adds, in the mean of both walks of each order: (P, v)."""
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
    """Return all sets of v players, from none to all: (2^v, v)."""
    return (np.arange(2**v)[:, None] >> np.arange(v)) & 1 > 0


@lru_cache(maxsize=MOST + 1)
def _weights(v: int) -> Host:
    """Return Shapley's weights: a row times the scores of all coalitions is a player's value."""
    inside, size = _coalitions(v).T, _coalitions(v).sum(axis=1)
    # s! (v − s − 1)! / v! for the s players who came before.
    before = np.array([1 / (v * comb(v - 1, s)) for s in range(v)] + [0.0])
    return np.where(inside, before[size - 1], -before[size])
