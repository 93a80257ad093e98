"""Why a row is strange: what each detector adds to its fused score."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from lpfuse._arrays.operations import Host, to_host
from lpfuse._format import number, shortened
from lpfuse.plots._drawing import (
    INK,
    PLAIN,
    axes,
    bar_look,
    bar_style,
    caption,
    labels_of,
    largest,
    learnt,
    legend_below,
    name_bars,
    names_of,
    numbers,
    require_matplotlib,
    title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.container import BarContainer
    from matplotlib.lines import Line2D

LONGEST = 8  # times the median bar is the longest one that is drawn whole; by hand
SUMMED = {"color": "0.8", "hatch": None, "edgecolor": "white"}


class ContributionsDisplay:
    """What each detector adds to the fused scores of a few rows, the strangest row first.

    Contributions below zero, which speak for an anomaly, are stacked to the left, the others to
    the right; the fused score of a row is their sum. A detector that could not score a row (NaN)
    has no bar there; its name is written under the row. A row that would leave the others no room
    is cut off where the axis ends, and its fused score is written there.

    Parameters
    ----------
    contributions : array-like of shape (n, R)
        Terms of the fused scores; NaN where a detector is missing.
    names : sequence of R str, optional
        Names of the detectors; "detector j" otherwise.
    scores : array-like of shape (n,), optional
        Fused scores; by default the sums of the contributions.
    offset : float or array-like of shape (n,), optional
        The threshold, or that of each row: scores below it are anomalies.
    rows : sequence of n int or str, optional
        What the rows are called; by default their positions.

    Attributes
    ----------
    bars_ : list of BarContainer
        The bars of each detector, from the one that contributes most; if some are not shown one by
        one, their sum comes last.
    scores_ : Line2D
        Marks at the fused scores.
    threshold_ : LineCollection
        Marks at the threshold; empty without an `offset`.
    ax_ : Axes
        Where they are drawn.
    figure_ : Figure
        The figure of the axes.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import LpFusion
    >>> from lpfuse.plots import ContributionsDisplay
    >>> S = np.random.default_rng(0).normal([0.1, 1.0, 0.5], 0.5, size=(200, 3))
    >>> S[7] = [-1.0, -2.0, 0.1]
    >>> display = ContributionsDisplay.from_estimator(LpFusion(p=2).fit(S), S, max_rows=3)
    >>> display.ax_.get_yticklabels()[0].get_text()
    'row 7'
    """

    bars_: list[BarContainer]
    scores_: Line2D
    threshold_: LineCollection
    ax_: Axes
    figure_: Any

    def __init__(
        self,
        contributions: Any,
        names: Sequence[Any] | None = None,
        scores: Any = None,
        offset: Any = None,
        rows: Any = None,
    ) -> None:
        self.contributions = contributions
        self.names = names
        self.scores = scores
        self.offset = offset
        self.rows = rows

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        rows: Sequence[int] | None = None,
        ax: Axes | None = None,
        max_rows: int = 10,
        max_detectors: int = 8,
        **kwargs: Any,
    ) -> Self:
        """Score rows and draw what makes the strangest of them strange.

        Parameters
        ----------
        estimator : estimator
            Anything fitted that has ``contributions``: `LpFusion`, `FixedRule`, `FusedDetector`.
        X : array-like of shape (n, columns)
            What the estimator takes: scores for the first two, features for the last.
        rows : sequence of int, optional
            Positions of the rows to look at; by default all.
        ax : Axes, optional
            Where to draw; a new figure otherwise.
        max_rows : int, default=10
            How many rows at most, those of the lowest fused scores.
        max_detectors : int, default=8
            How many detectors are shown one by one; the others are summed.
        **kwargs
            For matplotlib's ``barh``.

        Returns
        -------
        ContributionsDisplay
            What was drawn; it holds the rows that are shown and no others.
        """
        require_matplotlib(cls)
        contribute = learnt(estimator, "contributions")
        positions = np.arange(_num_samples(X))
        if rows is not None:
            positions = positions[np.asarray(rows)]
            X = _safe_indexing(X, positions)
        table = to_host(contribute(X))
        shown = _strangest(table.sum(axis=1), max_rows)
        table, offset = table[shown], getattr(estimator, "offset_", None)
        if hasattr(estimator, "detector_scores"):
            few = _safe_indexing(X, shown)
            with warnings.catch_warnings():  # what there is to say of gaps was said above
                warnings.simplefilter("ignore")
                gaps = np.isnan(estimator.detector_scores(few))
                if gaps.any():  # each pattern of gaps has a threshold of its own
                    theirs = table.sum(axis=1) - estimator.decision_function(few)
                    offset = np.where(gaps.any(axis=1), theirs, offset)
            table[gaps] = np.nan
        names = names_of(estimator, table.shape[1])
        display = cls(table, names, offset=offset, rows=positions[shown])
        return display.plot(ax, max_rows=max_rows, max_detectors=max_detectors, **kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        max_rows: int = 10,
        max_detectors: int = 8,
        **kwargs: Any,
    ) -> Self:
        """Draw the contributions.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure otherwise.
        max_rows : int, default=10
            How many rows at most, those of the lowest fused scores.
        max_detectors : int, default=8
            How many detectors are shown one by one; the others are summed.
        **kwargs
            For matplotlib's ``barh``.

        Returns
        -------
        ContributionsDisplay
            The display itself.
        """
        require_matplotlib(type(self))
        table = numbers("contributions", self.contributions, ndim=2, missing=True)
        n, R = table.shape
        names, rows = labels_of(self.names, R), self._row_names(n)
        scores = _sums(table) if self.scores is None else _one_a_row("scores", self.scores, n)
        offsets = _one_a_row("offset", np.nan if self.offset is None else self.offset, n)
        shown = _strangest(scores, max_rows)
        table, scores, offsets = table[shown], scores[shown], offsets[shown]

        single = largest(np.nansum(np.abs(table), axis=0), max_detectors=max_detectors)
        told = [names[j] for j in single]
        parts = [(table[:, j], bar_look(j)) for j in single]
        others = [j for j in range(R) if j not in single]
        if others:
            told.append(f"{len(others)} others, summed")
            parts.append((_sums(table[:, others]), SUMMED))
        height, is_ours = 1.4 + 0.36 * len(shown), ax is None
        ax = axes(ax, height)
        self.ax_, self.figure_ = ax, ax.figure
        self.bars_ = _stack(ax, parts, kwargs)
        name_bars(ax, [rows[i] for i in shown])
        for place, missing in enumerate(np.isnan(table)):
            _name_missing(ax, place, [names[j] for j in np.flatnonzero(missing)])
        self.scores_, self.threshold_ = _mark(ax, scores, offsets)
        ax.use_sticky_edges = False  # bars would end at the edge, and cut the diamonds there
        _cut(ax, table, scores)

        ax.set_xlabel("contribution to the fused score  (below zero: for an anomaly)", **PLAIN)
        told += ["fused score", *_threshold_in_words(offsets)]
        handles = [*self.bars_, self.scores_, self.threshold_][: len(told)]
        added = legend_below(ax, handles, told)
        if is_ours:
            self.figure_.set_figheight(height + added)
        cut = f"the {len(shown)} strangest of {n} rows"
        caption(ax, cut if len(shown) < n else "the strangest row first")
        title(ax, "What each detector contributes", captioned=True)
        return self

    def _row_names(self, n: int) -> list[str]:
        rows = range(n) if self.rows is None else list(self.rows)
        if len(rows) != n:
            raise ValueError(f"rows must name each row: expected {n} names, got {len(rows)}.")
        return [shortened(f"row {row}" if isinstance(row, Integral) else str(row)) for row in rows]


def _one_a_row(what: str, values: Any, n: int) -> Host:
    """One number a row, or one for all; infinite ones cannot be drawn."""
    array = np.asarray(values, dtype=np.float64)
    array = np.full(n, array) if array.ndim == 0 else array
    if array.shape != (n,):
        raise ValueError(f"{what} must have one entry a row: expected {n}, got {array.shape}.")
    return np.where(np.isinf(array), np.nan, array)


def _sums(table: Host) -> Host:
    """Sums of the rows over what is there; NaN where nothing is."""
    return np.where(np.isnan(table).all(axis=1), np.nan, np.nansum(table, axis=1))


def _strangest(scores: Host, max_rows: Any) -> list[int]:
    """Positions of the lowest scores, in rising order; those without a score come last."""
    return largest(-scores, max_rows=max_rows)


def _stack(
    ax: Axes, parts: list[tuple[Host, dict[str, Any]]], given: dict[str, Any]
) -> list[BarContainer]:
    """Bars that grow away from zero, to either side."""
    bars = []
    left = right = np.zeros(len(parts[0][0]))
    for values, look in parts:
        start = np.where(values < 0, left, right)
        style = bar_style({"height": 0.6} | look, given)
        bars.append(ax.barh(range(len(values)), values, left=start, **style))
        left = left + np.fmin(values, 0.0)  # fmin and fmax take NaN for zero
        right = right + np.fmax(values, 0.0)
    return bars


def _mark(ax: Axes, scores: Host, offsets: Host) -> tuple[Line2D, LineCollection]:
    """Fused scores as diamonds, thresholds as dashes that join where they are the same."""
    places = np.arange(len(scores))
    (diamonds,) = ax.plot(scores, places, "wD", markeredgecolor="k", markersize=7, zorder=4)
    dashes = ax.vlines(offsets, places - 0.5, places + 0.5, colors="black", linestyles="dashed")
    return diamonds, dashes


def _cut(ax: Axes, table: Host, scores: Host) -> None:
    """End the axis where a few rows leave the others no room, and write their scores there."""
    ends = np.nansum(np.fmin(table, 0.0), axis=1)
    end = LONGEST * float(np.median(ends))
    if not ends.min() < end < 0:
        return
    right = np.nansum(np.fmax(table, 0.0), axis=1).max()
    ax.set_xlim(end, right + 0.05 * (right - end))  # as wide a margin as there would be
    box = {"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none"}
    for place in np.flatnonzero(ends < end):
        ax.annotate(
            f"← {number(scores[place])}",
            (0.005, place),
            xycoords=ax.get_yaxis_transform(),
            va="center",
            fontsize="small",
            bbox=box,
            zorder=5,
            **PLAIN,
        )


def _threshold_in_words(offsets: Host) -> list[str]:
    known = np.unique(offsets[~np.isnan(offsets)])
    return ["threshold" + f" {number(known[0])}" * (len(known) == 1)] if len(known) else []


def _name_missing(ax: Axes, place: int, names: list[str]) -> None:
    """Write under a row which detectors could not score it."""
    if not names:
        return
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    ax.annotate(
        f"missing: {', '.join(names[:2])}{more}",
        (0.01, place + 0.31),
        xycoords=ax.get_yaxis_transform(),
        va="top",
        fontsize="x-small",
        style="italic",
        color=INK,
        **PLAIN,
    )
