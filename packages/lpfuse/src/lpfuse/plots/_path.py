"""How the weights change with p."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.optimize import isotonic_regression

from lpfuse._arrays.operations import Host
from lpfuse._checks.arguments import check_p
from lpfuse._checks.tables import column_names
from lpfuse._format import name_of_p
from lpfuse.fusion.lp import PAPER_GRID, lp_path
from lpfuse.optim import LpPath
from lpfuse.plots._drawing import (
    INK,
    PLAIN,
    axes,
    caption,
    labels_of,
    largest,
    learnt,
    legend_beside,
    line_look,
    line_style,
    names_of,
    numbers,
    require_matplotlib,
    small_size,
    title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

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
    >>> from lpfuse.plots import PathDisplay
    >>> S = np.random.default_rng(0).normal([0.1, 1.0, 0.5], 0.5, size=(200, 3))
    >>> display = PathDisplay.from_scores(S, ps=[1, 4 / 3, 2, float("inf")], chosen_p=4 / 3)
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
    def from_scores(
        cls,
        S: Any,
        y: Any = None,
        *,
        ps: Sequence[float] = PAPER_GRID,
        names: Sequence[Any] | None = None,
        chosen_p: float | None = None,
        ax: Axes | None = None,
        max_detectors: int = 20,
        **parameters: Any,
    ) -> Self:
        """Solve a path and draw it.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.
        y : array-like of shape (n,), optional
            +1 normal, −1 anomaly. Without it all rows are normal.
        ps : sequence of float
            The grid; by default the nine values of the paper.
        names : sequence of R str, optional
            Names of the detectors; by default those of the columns of `S`.
        chosen_p : float, optional
            The p to mark.
        ax : Axes, optional
            Where to draw; a new figure otherwise.
        max_detectors : int, default=20
            How many lines have a name; the others, of the smallest weights, are grey.
        **parameters
            For `lp_path`.

        Returns
        -------
        PathDisplay
            What was drawn.
        """
        require_matplotlib(cls)
        path = lp_path(S, y, ps=ps, **parameters)
        names = column_names(S) if names is None else names
        return cls.from_path(path, names, chosen_p=chosen_p, ax=ax, max_detectors=max_detectors)

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
        path = learnt(estimator, "path_")
        return cls.from_path(
            path,
            names_of(estimator, path.weights.shape[1]),
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
        require_matplotlib(type(self))
        ps, weights = self._sorted()
        chosen = [] if self.chosen_p is None else [check_p(self.chosen_p)]
        names = labels_of(self.names, weights.shape[1])
        named = largest(np.abs(weights).max(axis=0), max_detectors=max_detectors)
        ax = axes(ax, height=4.8)
        lines = []
        for j, column in enumerate(weights.T):
            look = line_look(j) if j in named else UNNAMED
            lines += ax.plot(position(ps), column, **line_style(look, kwargs))
        ax.axhline(0, color=INK, linewidth=0.8, zorder=1)
        ax.set_ylabel("weight")
        _write_ps(ax, ps, chosen)
        # From the top of the right end down; lines that meet there in the order they came in.
        order = [j for j in np.lexsort(weights.round(3))[::-1] if j in named]
        shown, told = [lines[j] for j in order], [names[j] for j in order]
        rest = [line for j, line in enumerate(lines) if j not in named]
        if rest:
            legend_beside(ax, [*shown, rest[0]], [*told, f"{len(rest)} others"])
        elif len(shown) > LABELLED:
            legend_beside(ax, shown, told)
        else:
            _name_ends(ax, shown, told)
        self.lines_, self.ax_, self.figure_ = lines, ax, ax.figure
        return self

    def _sorted(self) -> tuple[Host, Host]:
        ps = np.array([check_p(p) for p in np.ravel(self.ps)])
        weights = numbers("weights", self.weights, ndim=2)
        if len(ps) != len(weights):
            raise ValueError(
                f"weights must have a row for each p: expected {len(ps)} rows, got {len(weights)}."
            )
        order = np.argsort(ps, kind="stable")
        return ps[order], weights[order]


def position(p: Any) -> Any:
    """Where p stands on the axis.

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
        caption(ax, f"chosen p = {name_of_p(p)}", at=position(p))
    title(ax, "Fusion weights against p", captioned=bool(chosen))


def _ticks(ps: Host, chosen: list[float]) -> list[float]:
    """The p that are written at the axis: the chosen one, the ends, and what else has room."""
    width = np.ptp(position([*ps, *chosen]))
    ticks: list[float] = []
    for p in [*chosen, ps[0], ps[-1], *ps[ps == 2], *ps]:
        letters = [len(name_of_p(p)) + len(name_of_p(tick)) for tick in ticks]
        room = width * (0.02 + 0.009 * np.array(letters))
        if (np.abs(position(p) - position(ticks)) > room).all():
            ticks.append(float(p))
    return sorted(ticks)


def _name_ends(ax: Axes, lines: list[Line2D], names: list[str]) -> None:
    """Write names beside the right ends of lines, from the top down, moved apart if they meet."""
    ax.set_ylim(ax.get_ylim())
    ends = [(np.asarray(line.get_xdata())[-1], np.asarray(line.get_ydata())[-1]) for line in lines]
    heights = ax.transAxes.inverted().transform(ax.transData.transform(ends))[:, 1]
    room = 1.4 * small_size() / 72 * ax.figure.dpi / ax.get_window_extent().height
    heights = _spread(heights[::-1], room)[::-1]
    outside: dict[str, Any] = {"transform": ax.transAxes, "clip_on": False}
    for line, end, name, height in zip(lines, ends, names, heights, strict=True):
        look: dict[str, Any] = {"color": line.get_color(), "linewidth": 0.8}
        leader = {"arrowstyle": "-", "shrinkA": 0, "shrinkB": 3, **look}
        ax.annotate("", end, (1.05, height), textcoords=ax.transAxes, arrowprops=leader)
        ax.plot(1.05, height, marker=line.get_marker(), markersize=4.5, **look, **outside)
        ax.text(1.075, height, name, va="center", fontsize="small", **outside, **PLAIN)


def _spread(heights: Host, room: float) -> Host:
    """Rising heights in [0, 1], moved as little as can be until neighbours are `room` apart.

    >>> _spread(np.array([0.0, 0.5, 0.5]), 0.25)
    array([0.   , 0.375, 0.625])
    """
    steps = min(room, 1 / len(heights)) * np.arange(len(heights))
    return np.clip(isotonic_regression(heights - steps).x, 0.0, 1 - steps[-1]) + steps
