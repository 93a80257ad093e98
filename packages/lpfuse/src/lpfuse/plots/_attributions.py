"""Why a row was flagged: what each of its columns adds to its score, with errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lpfuse._format import number
from lpfuse.plots._drawing import (
    COLOURS,
    INK,
    PLAIN,
    axes,
    bar_style,
    caption,
    labels_of,
    largest,
    name_bars,
    numbers,
    require_matplotlib,
    title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer

# For an anomaly, for a normal row, and neither: the rest, summed.
DOWN, UP, REST = COLOURS[5], COLOURS[0], "0.8"


class AttributionsDisplay:
    """What each column adds to the score of one row, the largest first, with error bars.

    Bars to the left, which speak for an anomaly, and bars to the right sum to the score less the
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
            Of :meth:`lpfuse.FusedDetector.explain`, or of a `TableModel`.
        row : int, default=0
            Which of its rows.
        ax, max_columns, **kwargs
            As in `plot`.

        Returns
        -------
        AttributionsDisplay
            The display.
        """
        require_matplotlib(cls)
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
        estimator : FusedDetector or TableModel
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
        require_matplotlib(cls)
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
        require_matplotlib(type(self))
        values = numbers("values", self.values, ndim=1)
        d = len(values)
        names = [f"column {j}" for j in range(d)] if self.names is None else self.names
        told, shown = labels_of(names, d), largest(np.abs(values), max_columns=max_columns)
        errors = np.zeros(d)
        if self.standard_errors is not None:
            errors = numbers("standard_errors", self.standard_errors, ndim=1, missing=True)
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
        ax = axes(ax, 1.2 + 0.36 * len(labels))
        self.ax_, self.figure_ = ax, ax.figure
        style = bar_style({"height": 0.6, "color": colours}, kwargs)
        self.bars_ = ax.barh(range(len(labels)), lengths, **style)
        certain = widths > 0
        places = np.arange(len(labels))[certain]
        ax.errorbar(
            lengths[certain], places, xerr=widths[certain], fmt="none", ecolor=INK, capsize=2.5
        )
        name_bars(ax, labels)
        ax.set_xlabel("added to the fused score  (below zero: for an anomaly)", **PLAIN)
        if self.base_value is not None:
            total = number(self.base_value + values.sum())
            caption(ax, f"from {number(self.base_value)}, the mean of normal rows, to {total}")
        title(ax, "What each column adds", captioned=self.base_value is not None)
        return self
