"""Why a row was flagged: what each of its columns adds to the fused score."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Host, is_blocked
from lpfuse._format import quote
from lpfuse._validation.params import check_choice, check_count, listed
from lpfuse._validation.tables import check_table, column_names
from lpfuse.ensemble._kept_rows import numbers_of
from lpfuse.ensemble._recalibration import RecalibratableDetector
from lpfuse.ensemble._shapley import MOST, Mask, draw_orders, shapley_values
from lpfuse.ensemble._tables import Index, Table, column_positions, joined_rows

# Normal rows that a row is compared with. With one order for each, walked both ways, the columns
# that matter most have errors of a seventh of their values (docs/adr/0026).
BACKGROUND = 32
CANDIDATES = 10  # rows that are scored for each that is drawn, so that the drawn ones are spread
CLEAR = 2.0  # standard errors below zero from which a column certainly speaks for an anomaly


@dataclass(frozen=True)
class Explanation:
    """What each column adds to the fused scores of n rows: their Shapley values.

    Attributes
    ----------
    values : ndarray of shape (n, d)
        What each column, or group of columns, adds to the score. Below zero it speaks for an
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
        """Names of the columns that pushed the score of a row down most, the first one first.

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
        """Positions of these columns.

        Parameters
        ----------
        row, n : int
            As in `reasons`.
        """
        values, errors = self.values[row], np.nan_to_num(self.standard_errors[row])
        lowest = np.argsort(values, kind="stable")[: check_count("n", n)]
        return [int(j) for j in lowest if values[j] < 0 and values[j] + CLEAR * errors[j] < 0]

    def to_frame(self, library: Literal["pandas", "polars"] = "pandas") -> Any:
        """A line for each row and column, those that push down most first.

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


class ExplainableDetector(RecalibratableDetector):
    """Says which columns of a row made its score what it is."""

    def explain(
        self,
        X: Any,
        *,
        background: Any = None,
        n_permutations: int | Literal["all"] | None = None,
        groups: Mapping[str, Any] | None = None,
        random_state: Any = 0,
    ) -> Explanation:
        r"""Which columns pushed the scores of rows down, and how far: Shapley values.

        Columns of the row are put one by one, in a random order, into a row of the background, and
        the score is watched; what a column adds is the mean over orders and background rows:

        .. math:: \sum_j \phi_j(x) = f(x) - \frac1B \sum_b f(b)

        with f = `score_samples`. These are the values that SHAP calls interventional. Every order
        is walked both ways, so that sums of functions of one or two columns are attributed without
        error; up to five columns, nothing is left to chance but the background.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows, for instance alarms. Each costs ``2 B (d − 1)`` scores with B background rows and
            one order for each.
        background : int, array-like or data frame, default=None
            What to compare with: rows, which are taken as they are, or a number of training rows
            to draw that are no known anomalies and that the detector calls normal, evenly along
            their scores. None: 32.
        n_permutations : int or "all", default=None
            Orders for each background row. None: 1 where these are drawn, whose spread tells the
            error of both draws; 2 where they are given. "all": the exact values, by all coalitions
            of up to 16 columns or groups.
        groups : mapping of str to columns, optional
            Columns that only make sense together, such as the indicators of a category: they move
            as one. Names or positions; columns that it does not mention stay on their own.
        random_state : int, RandomState or None, default=0
            Draws background and orders. A row gets the same explanation whatever rows are beside
            it.

        Returns
        -------
        Explanation
            ``values``, ``standard_errors``, ``base_value``, ``scores``, ``feature_names``.

        Examples
        --------
        >>> import numpy as np
        >>> from lpfuse import FusedDetector, GMMDetector
        >>> X = np.random.default_rng(0).normal(size=(200, 3))
        >>> fused = FusedDetector([("gmm", GMMDetector())], random_state=0).fit(X)
        >>> found = fused.explain([[0.0, 5.0, 0.0]])
        >>> found.reasons(0)
        ['column 1']
        >>> total = found.values.sum(axis=1) + found.base_value
        >>> bool(np.allclose(total, fused.score_samples([[0.0, 5.0, 0.0]])))
        True
        """
        check_is_fitted(self)
        if is_blocked(X):
            raise TypeError("Rows in memory are explained, got rows of Dask. Pass X.compute().")
        table, random = check_table(X, estimator=self), check_random_state(random_state)
        names, players = _players(groups, table, self)
        scores = self.score_samples(table)  # first: it says what there is to say about gaps
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            others, drawn = self._background(background, random)
            P = _check_permutations(n_permutations, drawn, len(names))
            orders = draw_orders(others.shape[0], P, len(names), random)
            mixed = _MixedRows(others, self._as_trained(table), players)
            base = self.score_samples(others)
            found = shapley_values(
                lambda *which: self.score_samples(mixed.rows(*which)),
                scores, base, mixed.differ, orders,
            )  # fmt: skip
        # One order for each row cannot tell its own error; the spread over rows is a bound of it.
        which = drawn | np.isnan(found.of_orders)
        variances = np.where(which, found.of_background, found.of_orders)
        return Explanation(found.values, np.sqrt(variances), float(base.mean()), scores, names)

    def _background(self, given: Any, rng: np.random.RandomState) -> tuple[Table, bool]:
        """The rows to compare with, and whether they are a draw from more."""
        if given is not None and np.ndim(given) > 0:
            return self._as_trained(check_table(given, estimator=self)), False
        B = BACKGROUND if given is None else check_count("background", given)
        if self.rows_.values is None:
            raise ValueError(
                "The detector learnt from columns of words, which it does not keep, so there are "
                "no rows to compare with. Pass some that are normal: explain(X, background=...)."
            )
        normal = np.flatnonzero(self.held_out_.labels > 0)
        several = np.sort(rng.permutation(normal)[: CANDIDATES * B])
        decision = self.decision_function(self.rows_.table(several))
        kept = decision >= 0 if (decision >= 0).any() else np.ones(len(several), dtype=bool)
        ascending = several[kept][np.argsort(decision[kept], kind="stable")]
        if len(ascending) <= B:
            return self.rows_.table(ascending), len(normal) > len(ascending)
        parts = np.array_split(ascending, B)
        return self.rows_.table(np.array([rng.choice(part) for part in parts])), True

    def _as_trained(self, table: Table) -> Table:
        """Rows in the form of the training rows, where these are kept; words stay as they are."""
        numbers = None if self.rows_.values is None else numbers_of(table)
        return table if numbers is None else replace(self.rows_, values=numbers).table()


def _check_permutations(value: Any, drawn: bool, players: int) -> int:
    """Orders for each background row; 0: all coalitions."""
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


def _players(
    groups: Mapping[str, Any] | None, X: Table, estimator: Any
) -> tuple[list[str], NDArray[np.intp]]:
    """Names of the players, by their first columns, and whose each column is."""
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
        """Which players of row i hold something else than those of each background row."""
        other = self.codes[: self.start] != self.codes[self.start + i]
        found = np.zeros((self.start, self.n_players), dtype=bool)
        for j, player in enumerate(self.players):
            found[:, player] |= other[:, j]
        return found

    def rows(self, row: Index, other: Index, mask: Mask) -> Table:
        """Mixed rows, as the detector takes them."""
        index = np.where(mask[:, self.players], self.start + row[:, None], other[:, None])
        if isinstance(self.all, np.ndarray):
            return self.all[index, np.arange(index.shape[1])]
        if hasattr(self.all, "iloc"):
            import pandas

            columns = [self.all.iloc[at, j].reset_index(drop=True) for j, at in enumerate(index.T)]
            return pandas.concat(columns, axis=1)
        return type(self.all)([self.all.to_series(j).gather(at) for j, at in enumerate(index.T)])


def _codes(column: NDArray[Any]) -> NDArray[np.intp]:
    """Numbers that are equal for equal cells; missing cells are equal."""
    if column.dtype.kind not in "biufM":
        column = np.array([str(cell) for cell in column])
    return np.unique(column, return_inverse=True)[1].ravel()
