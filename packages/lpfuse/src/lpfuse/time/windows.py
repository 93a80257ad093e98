"""Features of the last rows: level, spread, slope, differences, and residuals from baselines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Host
from lpfuse._files import saved_as
from lpfuse._validation.params import check_count
from lpfuse._validation.tables import check_table
from lpfuse.time.order import read_times

SMALLEST = 0.1  # of the usual spread: what the logarithm of a spread of zero is taken of


@saved_as("History")
@dataclass(frozen=True, eq=False)
class History:
    """The rows before the next ones.

    Attributes
    ----------
    rows : ndarray of shape (m, d)
        The latest rows of the series, at most as many as the features look back.
    time : float
        Of the last of them, in seconds.
    """

    rows: Host
    time: float


class _Look(NamedTuple):
    """Rows and those before them: ``past(k)`` holds the rows k earlier, NaN where there is none."""

    rows: Host
    past: Callable[[int], Host]
    length: int
    season: int
    full: Host  # share of the window that lies in the series, of shape (n, 1)

    def sums(self, of: Callable[[int], Host], first: int = 0) -> tuple[Host, Host]:
        """Add up a function of the lag over the window; also return how many were there."""
        total, count = np.zeros_like(self.rows), np.zeros_like(self.rows)
        for lag in range(first, first + self.length):
            term = of(lag)
            there = ~np.isnan(term)
            total += np.where(there, term, 0.0)
            count += there
        return total, count

    def mean(self, first: int = 0) -> Host:
        """Mean of the window that ends `first` rows ago; NaN where it is empty."""
        total, count = self.sums(self.past, first)
        return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)

    def spread(self) -> Host:
        """Return the standard deviation of the window; NaN where it has one row."""
        mean = self.mean()
        total, count = self.sums(lambda lag: (self.past(lag) - mean) ** 2)
        variance = np.divide(total, count - 1, out=np.full_like(total, np.nan), where=count > 1)
        return np.sqrt(variance)

    def slope(self) -> Host:
        """Least-squares slope of the window, per row; 0 where it has one row."""
        mean = self.mean()
        lags, count = self.sums(lambda lag: np.where(np.isnan(self.past(lag)), np.nan, lag))
        middle = lags / np.maximum(count, 1)
        above, _ = self.sums(lambda lag: (middle - lag) * (self.past(lag) - mean))
        below, _ = self.sums(
            lambda lag: np.where(np.isnan(self.past(lag)), np.nan, (middle - lag) ** 2)
        )
        return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


FEATURES: dict[str, Callable[[_Look], Host]] = {
    "value": lambda look: look.rows,
    "lag": lambda look: look.past(1),
    "difference": lambda look: look.rows - look.past(1),
    "mean": lambda look: look.mean(),
    "spread": lambda look: look.spread(),
    "slope": lambda look: look.slope(),
    "residual": lambda look: look.rows - look.mean(first=1),
    "seasonal residual": lambda look: look.rows - look.past(look.season),
}


@saved_as("Windows", features=(*FEATURES, ...))
class Windows(TransformerMixin, BaseEstimator):
    r"""Describe each row by the rows before it.

    Of a column x and a window of L rows that ends at row t, with mean :math:`m_t`:

    .. math:: m_t = \frac1L \sum_{k<L} x_{t-k}, \qquad
        s_t^2 = \frac1{L-1} \sum_{k<L} (x_{t-k} - m_t)^2, \qquad r_t = x_t - m_{t-1}

    Nothing looks ahead: features of a row do not depend on later ones, but for the first rows of a
    fit. Windows end where time makes a step of more than `length` usual steps, or goes back: a new
    series begins there.

    Parameters
    ----------
    length : int, default=12
        Rows of a window, the row itself included.
    features : sequence of str, default=("value", "mean", "spread")
        Of "value", "lag" (the row before), "difference" (to the row before), "mean", "spread" (the
        logarithm of the standard deviation), "slope", "residual" (from the mean of the rows before)
        and "seasonal residual" (from the row one season before).
    season : int, default=0
        Rows of a season; needed for "seasonal residual".

    Attributes
    ----------
    history_ : History
        The end of the rows that were fitted: rows that follow them continue from there.
    step_ : float
        Usual seconds between rows; 1 where no time was told.
    usual_level_, usual_spread_ : ndarrays of shape (d,)
        Median of the rows that were fitted, and of the standard deviation in a window.

    Notes
    -----
    The columns of the result are in blocks, a block for each of `features`, with the d columns of
    the rows in their order. The first rows of the training have the features of the first full
    window. The first rows of later series have shorter windows, and are taken as usual for the
    rest: a feature counts as far as its window is full.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse.time import Windows
    >>> X = np.array([[1.0], [2.0], [3.0], [8.0]])
    >>> windows = Windows(length=2, features=("value", "mean")).fit(X)
    >>> windows.transform([[10.0]])  # the row after those that were fitted
    array([[10.,  9.]])
    """

    def __init__(
        self,
        length: int = 12,
        features: Sequence[str] = ("value", "mean", "spread"),
        season: int = 0,
    ) -> None:
        self.length = length
        self.features = features
        self.season = season

    def fit(self, X: Any, y: Any = None, *, time: Any = None) -> Self:
        """Learn the usual step and spread, and keep the last rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows in their order.
        y : None
            Ignored.
        time : array-like of shape (n,), optional
            Their times; without them rows come at even intervals.

        Returns
        -------
        Windows
            The fitted transformer.
        """
        self.fit_transform(X, time=time)
        return self

    def fit_transform(self, X: Any, y: Any = None, *, time: Any = None) -> Host:
        """Fit, and return the features of these rows: the first ones have those of a full window.

        Parameters
        ----------
        X, y, time
            As in `fit`.

        Returns
        -------
        ndarray of shape (n, d × features)
            Features.
        """
        rows = np.asarray(check_table(X), dtype=np.float64)
        return self.learn(rows, None if time is None else read_times(time, len(rows)))

    def learn(self, rows: Host, seconds: Host | None) -> Host:
        """Fit to checked rows and times, and return their features.

        Parameters
        ----------
        rows, seconds : ndarrays of shapes (n, d) and (n,)
            Rows in their order, and their times; None: at even intervals.
        """
        if check_count("length", self.length) < 2:
            raise ValueError("length must be at least 2: a window of one row is the row itself.")
        unknown = [name for name in self.features if name not in FEATURES]
        if unknown or not len(self.features):
            raise ValueError(f"features must be some of {list(FEATURES)}, got {self.features!r}.")
        if "seasonal residual" in self.features:
            check_count("season", self.season)
        times = np.arange(len(rows), dtype=np.float64) if seconds is None else seconds
        steps = np.diff(times)
        self.step_ = float(np.median(steps[steps > 0])) if (steps > 0).any() else 1.0
        self.n_features_in_ = rows.shape[1]
        self.usual_level_ = self.usual_spread_ = np.ones(rows.shape[1])
        none = History(rows[:0], -np.inf)
        look, new = self._look(rows, times, none)
        spread, empty = look.spread(), np.isnan(rows).all(axis=0)
        self.usual_level_ = np.nanmedian(np.where(empty, 0.0, rows), axis=0)
        spread[:, np.isnan(spread).all(axis=0)] = 1.0
        usual = np.nanmedian(spread, axis=0)
        self.usual_spread_ = np.where(usual > 0, usual, 1.0)
        found, self.history_ = self.follow(rows, times, none)
        d, changing = rows.shape[1], [name != "value" for name in self.features]
        columns = np.repeat(changing, d)
        starts = np.flatnonzero(new).tolist()
        for start, end in pairwise([*starts, len(rows)]):  # no full window: as the first full one
            full = min(start + self.length, end) - 1
            found[start:full, columns] = found[full, columns]
        return found

    def transform(self, X: Any, time: Any = None) -> Host:
        """Return the features of rows that follow the fitted ones, or of a series of their own.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows in their order.
        time : array-like of shape (n,), optional
            Their times. Rows that follow the fitted ones closely continue their windows, as rows
            without a time do; others begin a series.

        Returns
        -------
        ndarray of shape (n, d × features)
            Features; NaN where a row and its window hold no value.
        """
        check_is_fitted(self)
        rows = np.asarray(check_table(X, estimator=self), dtype=np.float64)
        return self.follow(rows, self.seconds_of(time, len(rows)), self.history_)[0]

    def seconds_of(self, time: Any, n: int, after: History | None = None) -> Host:
        """Return times in seconds; without times rows follow those before at the usual step."""
        if time is not None:
            return read_times(time, n)
        last = self.history_.time if after is None else after.time
        times: Host = last + self.step_ * np.arange(1.0, n + 1)
        return times

    def follow(self, rows: Host, seconds: Host, history: History) -> tuple[Host, History]:
        """Return the features of rows, and the history for the rows after them.

        Parameters
        ----------
        rows, seconds : ndarrays of shapes (n, d) and (n,)
            Checked, in their order.
        history : History
            Of the rows before.
        """
        look, new = self._look(rows, seconds, history)
        blocks = []
        for name in self.features:
            block = FEATURES[name](look)
            if name == "spread":
                block = np.log(np.maximum(block / self.usual_spread_, SMALLEST))
            # At the start of a series windows are short: the rest counts as usual.
            if name == "mean":
                block = look.full * block + (1 - look.full) * self.usual_level_
            elif name not in ("value", "lag"):
                block = np.where(np.isnan(block) & ~np.isnan(rows), 0.0, look.full * block)
            blocks.append(block)
        kept = np.concatenate([history.rows, rows])
        start = len(history.rows) + int(np.flatnonzero(new)[-1]) if new.any() else 0
        later = kept[max(start, len(kept) - self._back) :]
        return np.concatenate(blocks, axis=1), History(later, float(seconds[-1]))

    @property
    def _back(self) -> int:
        return max(self.length, self.season)

    def _look(self, rows: Host, seconds: Host, history: History) -> tuple[_Look, NDArray[np.bool_]]:
        """Return how to look back from rows, and which of them begin a series."""
        steps = np.diff(seconds, prepend=history.time)
        new = (steps < 0) | (steps > self.length * self.step_)
        if not len(history.rows):
            new[0] = True
        both, n, m = np.concatenate([history.rows, rows]), len(rows), len(history.rows)
        series = np.cumsum(np.concatenate([np.zeros(m, dtype=bool), new]))

        def past(lag: int) -> Host:
            found = np.full(rows.shape, np.nan)
            first = max(0, lag - m)  # rows from here on have a row `lag` before
            earlier = slice(m + first - lag, m + n - lag)
            if first < n:
                same = series[earlier] == series[m + first :]
                found[first:] = np.where(same[:, None], both[earlier], np.nan)
            return found

        index = np.arange(m, m + n)
        begun = np.maximum.accumulate(np.where(new, index, 0))
        full = np.minimum(index - begun + 1, self.length) / self.length
        return _Look(rows, past, self.length, self.season, full[:, None]), new

    def names_of(self, names: Sequence[str]) -> list[str]:
        """Return what the features of columns are called."""
        return [
            name if feature == "value" else f"{name} ({feature} of {self.length} rows)"
            for feature in self.features
            for name in names
        ]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the features.

        Parameters
        ----------
        input_features : sequence of d str, optional
            Names of the columns; x0, x1, … by default.

        Returns
        -------
        ndarray of str
            Names.
        """
        check_is_fitted(self)
        names = [f"x{j}" for j in range(self.n_features_in_)]
        return np.array(self.names_of(names if input_features is None else input_features), object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
