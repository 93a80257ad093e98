"""Displays of weights, contributions, attributions and paths, drawn with matplotlib."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.optimize import isotonic_regression
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from lpfuse._arrays.operations import Host, to_host
from lpfuse._format import name_of_p, number, shortened
from lpfuse._validation.params import check_p
from lpfuse.optim import Certificate, LpPath
from lpfuse.plots import drawing
from lpfuse.plots.drawing import COLOURS, INK, PLAIN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.container import BarContainer
    from matplotlib.lines import Line2D


# --------------------------------------------------------------------------------------------------
# Attributions of a row to columns


# For an anomaly, for a normal row, and neither: the rest, summed.
DOWN, UP, REST = COLOURS[5], COLOURS[0], "0.8"


class AttributionsDisplay:
    """Contribution of each column to the score of one row, the largest first, with error bars.

    Bars to the left, towards an anomaly, and bars to the right sum to the score minus the
    base value, the mean score of the rows compared with. Error bars are two standard errors to
    either side.

    Parameters
    ----------
    values : array-like of shape (d,)
        What each column adds: a row of ``explanation.values``.
    names : sequence of d str, optional
        Names of the columns; "column j" otherwise.
    standard_errors : array-like of shape (d,), optional
        Of the values.
    base_value : float, optional
        The mean score of the background, for the caption.

    Attributes
    ----------
    bars_ : BarContainer
        The bars, from the largest; the sum of those that are not shown comes last.
    ax_ : Axes
        Where they are drawn.
    figure_ : Figure
        The figure of the axes.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import FusedDetector, GMMDetector
    >>> from lpfuse.plots import AttributionsDisplay
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> fused = FusedDetector([("gmm", GMMDetector())], random_state=0).fit(X)
    >>> display = AttributionsDisplay.from_estimator(fused, [[0.0, 5.0, 0.0]])
    >>> display.ax_.get_yticklabels()[0].get_text()
    'column 1'
    """

    bars_: BarContainer
    ax_: Axes
    figure_: Any

    def __init__(
        self,
        values: Any,
        names: Sequence[Any] | None = None,
        standard_errors: Any = None,
        base_value: float | None = None,
    ) -> None:
        self.values = values
        self.names = names
        self.standard_errors = standard_errors
        self.base_value = base_value

    @classmethod
    def from_explanation(
        cls,
        explanation: Any,
        row: int = 0,
        *,
        ax: Axes | None = None,
        max_columns: int = 10,
        **kwargs: Any,
    ) -> Self:
        """Draw one row of an explanation.

        Parameters
        ----------
        explanation : Explanation
            Of :meth:`lpfuse.FusedDetector.explain`.
        row : int, default=0
            Which of its rows.
        ax, max_columns, **kwargs
            As in `plot`.

        Returns
        -------
        AttributionsDisplay
            The display.
        """
        drawing.require_matplotlib(cls)
        display = cls(
            explanation.values[row],
            explanation.feature_names,
            explanation.standard_errors[row],
            explanation.base_value,
        )
        return display.plot(ax, max_columns=max_columns, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        row: int = 0,
        *,
        ax: Axes | None = None,
        max_columns: int = 10,
        **kwargs: Any,
    ) -> Self:
        """Explain rows, and draw one of them.

        Parameters
        ----------
        estimator : FusedDetector
            Fitted.
        X : array-like or data frame of shape (n, d)
            Rows.
        row : int, default=0
            Which of them is drawn.
        ax, max_columns, **kwargs
            As in `plot`.

        Returns
        -------
        AttributionsDisplay
            The display.
        """
        drawing.require_matplotlib(cls)
        found = estimator.explain(X)
        return cls.from_explanation(found, row, ax=ax, max_columns=max_columns, **kwargs)

    def plot(self, ax: Axes | None = None, *, max_columns: int = 10, **kwargs: Any) -> Self:
        """Draw the attributions.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure otherwise.
        max_columns : int, default=10
            How many columns are shown one by one; the others are summed.
        **kwargs
            For matplotlib's ``barh``.

        Returns
        -------
        AttributionsDisplay
            The display itself.
        """
        drawing.require_matplotlib(type(self))
        values = drawing.numbers("values", self.values, ndim=1)
        d = len(values)
        names = [f"column {j}" for j in range(d)] if self.names is None else self.names
        told, shown = (
            drawing.labels_of(names, d),
            drawing.largest(np.abs(values), max_columns=max_columns),
        )
        errors = np.zeros(d)
        if self.standard_errors is not None:
            errors = drawing.numbers("standard_errors", self.standard_errors, ndim=1, missing=True)
            if errors.shape != values.shape:
                raise ValueError(f"standard_errors must be one a column: {d}, got {len(errors)}.")
            errors = np.nan_to_num(errors)
        lengths, widths = values[shown], 2 * errors[shown]
        labels = [told[j] for j in shown]
        colours = [DOWN if length < 0 else UP for length in lengths]
        if d > len(shown):  # no error: those of the others are not independent
            others = [j for j in range(d) if j not in shown]
            lengths, widths = np.append(lengths, values[others].sum()), np.append(widths, 0.0)
            labels.append(f"{len(others)} others, summed")
            colours.append(REST)
        ax = drawing.axes(ax, 1.2 + 0.36 * len(labels))
        self.ax_, self.figure_ = ax, ax.figure
        style = drawing.bar_style({"height": 0.6, "color": colours}, kwargs)
        self.bars_ = ax.barh(range(len(labels)), lengths, **style)
        certain = widths > 0
        places = np.arange(len(labels))[certain]
        ax.errorbar(
            lengths[certain], places, xerr=widths[certain], fmt="none", ecolor=INK, capsize=2.5
        )
        drawing.label_bars(ax, labels)
        ax.set_xlabel("added to the fused score  (below zero: for an anomaly)", **PLAIN)
        if self.base_value is not None:
            total = number(self.base_value + values.sum())
            drawing.caption(
                ax, f"from {number(self.base_value)}, the mean of normal rows, to {total}"
            )
        drawing.title(ax, "What each column adds", captioned=self.base_value is not None)
        return self


# --------------------------------------------------------------------------------------------------
# Why a row is strange: what each detector adds to its fused score.


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
        drawing.require_matplotlib(cls)
        contribute = drawing.fitted_attribute(estimator, "contributions")
        positions = np.arange(_num_samples(X))
        if rows is not None:
            positions = positions[np.asarray(rows)]
            X = _safe_indexing(X, positions)
        table = to_host(contribute(X))
        shown = _lowest_scores(table.sum(axis=1), max_rows)
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
        names = drawing.names_of(estimator, table.shape[1])
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
        drawing.require_matplotlib(type(self))
        table = drawing.numbers("contributions", self.contributions, ndim=2, missing=True)
        n, R = table.shape
        names, rows = drawing.labels_of(self.names, R), self._row_names(n)
        scores = _sums(table) if self.scores is None else _per_row("scores", self.scores, n)
        offsets = _per_row("offset", np.nan if self.offset is None else self.offset, n)
        shown = _lowest_scores(scores, max_rows)
        table, scores, offsets = table[shown], scores[shown], offsets[shown]

        single = drawing.largest(np.nansum(np.abs(table), axis=0), max_detectors=max_detectors)
        told = [names[j] for j in single]
        parts = [(table[:, j], drawing.bar_props(j)) for j in single]
        others = [j for j in range(R) if j not in single]
        if others:
            told.append(f"{len(others)} others, summed")
            parts.append((_sums(table[:, others]), SUMMED))
        height, is_ours = 1.4 + 0.36 * len(shown), ax is None
        ax = drawing.axes(ax, height)
        self.ax_, self.figure_ = ax, ax.figure
        self.bars_ = _stack(ax, parts, kwargs)
        drawing.label_bars(ax, [rows[i] for i in shown])
        for place, missing in enumerate(np.isnan(table)):
            _name_missing(ax, place, [names[j] for j in np.flatnonzero(missing)])
        self.scores_, self.threshold_ = _draw_scores(ax, scores, offsets)
        ax.use_sticky_edges = False  # bars would end at the edge, and cut the diamonds there
        _truncate_axis(ax, table, scores)

        ax.set_xlabel("contribution to the fused score  (below zero: for an anomaly)", **PLAIN)
        told += ["fused score", *_threshold_label(offsets)]
        handles = [*self.bars_, self.scores_, self.threshold_][: len(told)]
        added = drawing.legend_below(ax, handles, told)
        if is_ours:
            self.figure_.set_figheight(height + added)
        cut = f"the {len(shown)} strangest of {n} rows"
        drawing.caption(ax, cut if len(shown) < n else "the strangest row first")
        drawing.title(ax, "What each detector contributes", captioned=True)
        return self

    def _row_names(self, n: int) -> list[str]:
        rows = range(n) if self.rows is None else list(self.rows)
        if len(rows) != n:
            raise ValueError(f"rows must name each row: expected {n} names, got {len(rows)}.")
        return [shortened(f"row {row}" if isinstance(row, Integral) else str(row)) for row in rows]


def _per_row(what: str, values: Any, n: int) -> Host:
    """Return one number a row, broadcast if single; infinite ones become NaN."""
    array = np.asarray(values, dtype=np.float64)
    array = np.full(n, array) if array.ndim == 0 else array
    if array.shape != (n,):
        raise ValueError(f"{what} must have one entry a row: expected {n}, got {array.shape}.")
    return np.where(np.isinf(array), np.nan, array)


def _sums(table: Host) -> Host:
    """Sum rows, ignoring NaN; NaN if all are."""
    return np.where(np.isnan(table).all(axis=1), np.nan, np.nansum(table, axis=1))


def _lowest_scores(scores: Host, max_rows: Any) -> list[int]:
    """Return positions of the lowest scores, in rising order; those without a score come last."""
    return drawing.largest(-scores, max_rows=max_rows)


def _stack(
    ax: Axes, parts: list[tuple[Host, dict[str, Any]]], given: dict[str, Any]
) -> list[BarContainer]:
    """Draw bars stacked away from zero, to either side."""
    bars = []
    left = right = np.zeros(len(parts[0][0]))
    for values, look in parts:
        start = np.where(values < 0, left, right)
        style = drawing.bar_style({"height": 0.6} | look, given)
        bars.append(ax.barh(range(len(values)), values, left=start, **style))
        left = left + np.fmin(values, 0.0)  # fmin and fmax take NaN for zero
        right = right + np.fmax(values, 0.0)
    return bars


def _draw_scores(ax: Axes, scores: Host, offsets: Host) -> tuple[Line2D, LineCollection]:
    """Draw fused scores as diamonds, and thresholds as dashes that join if equal."""
    places = np.arange(len(scores))
    (diamonds,) = ax.plot(scores, places, "wD", markeredgecolor="k", markersize=7, zorder=4)
    dashes = ax.vlines(offsets, places - 0.5, places + 0.5, colors="black", linestyles="dashed")
    return diamonds, dashes


def _truncate_axis(ax: Axes, table: Host, scores: Host) -> None:
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


def _threshold_label(offsets: Host) -> list[str]:
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


# --------------------------------------------------------------------------------------------------
# Fusion weights


NEGLIGIBLE = 1e-3  # of the largest weight: what a solver leaves of a zero; chosen by hand


class WeightsDisplay:
    """The weight of each detector, the largest first.

    Parameters
    ----------
    weights : array-like of shape (R,)
        One weight a detector.
    names : sequence of R str, optional
        Names of the detectors; "detector j" otherwise.
    certificate : Certificate, optional
        Proof of the weights' quality, put into words under the title.

    Attributes
    ----------
    bars_ : BarContainer
        The bars, from the top.
    ax_ : Axes
        Where they are drawn.
    figure_ : Figure
        The figure of the axes.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import LpFusion
    >>> from lpfuse.plots import WeightsDisplay
    >>> S = np.random.default_rng(0).normal([0.1, 1.0, 0.5], 0.5, size=(200, 3))
    >>> display = WeightsDisplay.from_estimator(LpFusion(p=2).fit(S))
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['detector 1', 'detector 2', 'detector 0']
    >>> display.figure_.savefig("weights.png")  # doctest: +SKIP
    """

    bars_: BarContainer
    ax_: Axes
    figure_: Any

    def __init__(
        self,
        weights: Any,
        names: Sequence[Any] | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        self.weights = weights
        self.names = names
        self.certificate = certificate

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Axes | None = None, max_detectors: int = 20, **kwargs: Any
    ) -> Self:
        """Draw the weights of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Anything fitted that has ``weights_``: `LpFusion`, `FixedRule`, `FusedDetector`.
        ax : Axes, optional
            Where to draw; a new figure otherwise.
        max_detectors : int, default=20
            How many bars at most, those of the largest weights.
        **kwargs
            For matplotlib's ``barh``.

        Returns
        -------
        WeightsDisplay
            What was drawn.
        """
        weights = drawing.fitted_attribute(estimator, "weights_")
        names = drawing.names_of(estimator, len(weights))
        display = cls(weights, names, getattr(estimator, "certificate_", None))
        return display.plot(ax, max_detectors=max_detectors, **kwargs)

    def plot(self, ax: Axes | None = None, *, max_detectors: int = 20, **kwargs: Any) -> Self:
        """Draw the weights.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure otherwise.
        max_detectors : int, default=20
            How many bars at most, those of the largest weights.
        **kwargs
            For matplotlib's ``barh``.

        Returns
        -------
        WeightsDisplay
            The display itself.
        """
        drawing.require_matplotlib(type(self))
        weights = drawing.numbers("weights", self.weights, ndim=1)
        names = drawing.labels_of(self.names, len(weights))
        sizes = np.abs(weights)
        shown = drawing.largest(sizes, max_detectors=max_detectors)
        ax = drawing.axes(ax, height=1.1 + 0.29 * len(shown))
        looks = [drawing.bar_props(j) for j in shown]
        look = {key: [each[key] for each in looks] for key in looks[0]}
        bars = ax.barh(range(len(shown)), weights[shown], **drawing.bar_style(look, kwargs))
        told = ["≈ 0" if 0 < s < NEGLIGIBLE * sizes.max() else "" for s in sizes[shown]]
        told = [text or number(weight) for text, weight in zip(told, weights[shown], strict=True)]
        ax.bar_label(bars, told, padding=3, fontsize="small", **PLAIN)
        ax.margins(x=0.2)  # room for these numbers
        drawing.label_bars(ax, [names[j] for j in shown])
        left_out = np.delete(sizes, shown)
        rest = (
            f"\n({len(left_out)} more, none beyond ±{left_out.max():.2g})" if len(left_out) else ""
        )
        ax.set_xlabel("weight" + rest, **PLAIN)
        if self.certificate is not None:
            drawing.caption(ax, _certificate_text(self.certificate))
        drawing.title(ax, "Fusion weights", captioned=self.certificate is not None)
        self.bars_, self.ax_, self.figure_ = bars, ax, ax.figure
        return self


def _certificate_text(certificate: Certificate) -> str:
    if certificate.relative_gap <= 0:
        return "proven: no other weights have a lower loss"
    gap = f"{certificate.relative_gap:.2g}"
    if certificate.status == "optimal":
        return f"proven: within {gap} of the least loss (relative)"
    return f"not optimal: up to {gap} above the least loss (relative)"


# --------------------------------------------------------------------------------------------------

# Chosen by eye.
END = 0.01  # keeps p = 1 and p = ∞ at a finite distance
LABELLED = 10  # lines that can be named at their ends; more get a legend
UNNAMED = {"color": "0.6", "linewidth": 0.7, "zorder": 1.5}


class PathDisplay:
    r"""The weight of each detector against p.

    From p = 1, which keeps few detectors, to p = ∞, which keeps all of them, p stands at

    .. math:: x(p) = \log \frac{1/q + \varepsilon}{1/p + \varepsilon}, \qquad 1/p + 1/q = 1

    That is ``log(p − 1)`` but near the ends, where ε = 0.01 makes room for 1 and ∞; p and its
    conjugate q lie on opposite sides of 2, at the same distance.

    Parameters
    ----------
    ps : array-like of shape (k,)
        The grid, in any order.
    weights : array-like of shape (k, R)
        A row for each p.
    names : sequence of R str, optional
        Names of the detectors; "detector j" otherwise.
    chosen_p : float, optional
        The p to mark.

    Attributes
    ----------
    lines_ : list of R Line2D
        A line a detector, in the order of `names`, from the smallest p to the largest.
    ax_ : Axes
        Where they are drawn.
    figure_ : Figure
        The figure of the axes.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import lp_path
    >>> from lpfuse.plots import PathDisplay
    >>> S = np.random.default_rng(0).normal([0.1, 1.0, 0.5], 0.5, size=(200, 3))
    >>> path = lp_path(S, ps=[1, 4 / 3, 2, float("inf")])
    >>> display = PathDisplay.from_path(path, chosen_p=4 / 3)
    >>> [label.get_text() for label in display.ax_.get_xticklabels()]
    ['1', '4/3', '2', '∞']
    """

    lines_: list[Line2D]
    ax_: Axes
    figure_: Any

    def __init__(
        self,
        ps: Any,
        weights: Any,
        names: Sequence[Any] | None = None,
        chosen_p: float | None = None,
    ) -> None:
        self.ps = ps
        self.weights = weights
        self.names = names
        self.chosen_p = chosen_p

    @classmethod
    def from_path(
        cls,
        path: LpPath,
        names: Sequence[Any] | None = None,
        *,
        chosen_p: float | None = None,
        ax: Axes | None = None,
        max_detectors: int = 20,
        **kwargs: Any,
    ) -> Self:
        """Draw a path that is solved already.

        Parameters
        ----------
        path : LpPath
            What `lp_path` returned.
        names : sequence of R str, optional
            Names of the detectors.
        chosen_p : float, optional
            The p to mark.
        ax : Axes, optional
            Where to draw; a new figure otherwise.
        max_detectors : int, default=20
            How many lines have a name; the others, of the smallest weights, are grey.
        **kwargs
            For matplotlib's ``plot``.

        Returns
        -------
        PathDisplay
            What was drawn.
        """
        display = cls(path.ps, path.weights, names, chosen_p)
        return display.plot(ax, max_detectors=max_detectors, **kwargs)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Axes | None = None, max_detectors: int = 20, **kwargs: Any
    ) -> Self:
        """Draw the path along which a fitted estimator chose its p, and mark that p.

        Parameters
        ----------
        estimator : estimator
            Anything fitted that has ``path_``: `FusedDetectorCV`.
        ax : Axes, optional
            Where to draw; a new figure otherwise.
        max_detectors : int, default=20
            How many lines have a name; the others, of the smallest weights, are grey.
        **kwargs
            For matplotlib's ``plot``.

        Returns
        -------
        PathDisplay
            What was drawn.
        """
        path = drawing.fitted_attribute(estimator, "path_")
        return cls.from_path(
            path,
            drawing.names_of(estimator, path.weights.shape[1]),
            chosen_p=getattr(estimator, "best_params_", {}).get("p"),
            ax=ax,
            max_detectors=max_detectors,
            **kwargs,
        )

    def plot(self, ax: Axes | None = None, *, max_detectors: int = 20, **kwargs: Any) -> Self:
        """Draw the path.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure otherwise.
        max_detectors : int, default=20
            How many lines have a name; the others, of the smallest weights, are grey.
        **kwargs
            For matplotlib's ``plot``.

        Returns
        -------
        PathDisplay
            The display itself.
        """
        drawing.require_matplotlib(type(self))
        ps, weights = self._sorted()
        chosen = [] if self.chosen_p is None else [check_p(self.chosen_p)]
        names = drawing.labels_of(self.names, weights.shape[1])
        named = drawing.largest(np.abs(weights).max(axis=0), max_detectors=max_detectors)
        ax = drawing.axes(ax, height=4.8)
        lines = []
        for j, column in enumerate(weights.T):
            look = drawing.line_props(j) if j in named else UNNAMED
            lines += ax.plot(position(ps), column, **drawing.line_style(look, kwargs))
        ax.axhline(0, color=INK, linewidth=0.8, zorder=1)
        ax.set_ylabel("weight")
        _write_ps(ax, ps, chosen)
        # From the top of the right end down; lines that meet there in the order they came in.
        order = [j for j in np.lexsort(weights.round(3))[::-1] if j in named]
        shown, told = [lines[j] for j in order], [names[j] for j in order]
        rest = [line for j, line in enumerate(lines) if j not in named]
        if rest:
            drawing.legend_right(ax, [*shown, rest[0]], [*told, f"{len(rest)} others"])
        elif len(shown) > LABELLED:
            drawing.legend_right(ax, shown, told)
        else:
            _label_line_ends(ax, shown, told)
        self.lines_, self.ax_, self.figure_ = lines, ax, ax.figure
        return self

    def _sorted(self) -> tuple[Host, Host]:
        ps = np.array([check_p(p) for p in np.ravel(self.ps)])
        weights = drawing.numbers("weights", self.weights, ndim=2)
        if len(ps) != len(weights):
            raise ValueError(
                f"weights must have a row for each p: expected {len(ps)} rows, got {len(weights)}."
            )
        order = np.argsort(ps, kind="stable")
        return ps[order], weights[order]


def position(p: Any) -> Any:
    """Return where p stands on the axis.

    Examples
    --------
    >>> position([1, 4 / 3, 2, 4, float("inf")]).round(2)
    array([-4.62, -1.07,  0.  ,  1.07,  4.62])
    """
    inverse = 1 / np.asarray(p, dtype=np.float64)
    return np.log((1 - inverse + END) / (inverse + END))


def _write_ps(ax: Axes, ps: Host, chosen: list[float]) -> None:
    """Name the x axis and what is on it: the grid, and the p that was chosen."""
    ticks = _ticks(ps, chosen)
    ax.set_xticks(position(ps), minor=True)
    ax.set_xticks(position(ticks), [name_of_p(p) for p in ticks], fontsize="small", **PLAIN)
    ax.set_xlabel("p  (1: few detectors … ∞: all of them)", **PLAIN)
    for p in chosen:
        ax.axvline(position(p), color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        drawing.caption(ax, f"chosen p = {name_of_p(p)}", at=position(p))
    drawing.title(ax, "Fusion weights against p", captioned=bool(chosen))


def _ticks(ps: Host, chosen: list[float]) -> list[float]:
    """Return the p with tick labels: the chosen one, the ends, and others that fit."""
    width = np.ptp(position([*ps, *chosen]))
    ticks: list[float] = []
    for p in [*chosen, ps[0], ps[-1], *ps[ps == 2], *ps]:
        letters = [len(name_of_p(p)) + len(name_of_p(tick)) for tick in ticks]
        room = width * (0.02 + 0.009 * np.array(letters))
        if (np.abs(position(p) - position(ticks)) > room).all():
            ticks.append(float(p))
    return sorted(ticks)


def _label_line_ends(ax: Axes, lines: list[Line2D], names: list[str]) -> None:
    """Write names beside the right ends of lines, from the top down, moved apart if they meet."""
    ax.set_ylim(ax.get_ylim())
    ends = [(np.asarray(line.get_xdata())[-1], np.asarray(line.get_ydata())[-1]) for line in lines]
    heights = ax.transAxes.inverted().transform(ax.transData.transform(ends))[:, 1]
    room = 1.4 * drawing.small_font_size() / 72 * ax.figure.dpi / ax.get_window_extent().height
    heights = _separate(heights[::-1], room)[::-1]
    outside: dict[str, Any] = {"transform": ax.transAxes, "clip_on": False}
    for line, end, name, height in zip(lines, ends, names, heights, strict=True):
        look: dict[str, Any] = {"color": line.get_color(), "linewidth": 0.8}
        leader = {"arrowstyle": "-", "shrinkA": 0, "shrinkB": 3, **look}
        ax.annotate("", end, (1.05, height), textcoords=ax.transAxes, arrowprops=leader)
        ax.plot(1.05, height, marker=line.get_marker(), markersize=4.5, **look, **outside)
        ax.text(1.075, height, name, va="center", fontsize="small", **outside, **PLAIN)


def _separate(heights: Host, room: float) -> Host:
    """Rising heights in [0, 1], moved as little as can be until neighbours are `room` apart.

    >>> _separate(np.array([0.0, 0.5, 0.5]), 0.25)
    array([0.   , 0.375, 0.625])
    """
    steps = min(room, 1 / len(heights)) * np.arange(len(heights))
    return np.clip(isotonic_regression(heights - steps).x, 0.0, 1 - steps[-1]) + steps
