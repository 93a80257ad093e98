"""What the displays share: how a detector looks, how its name is written, where things go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Host
from lpfuse._checks.arguments import check_count
from lpfuse._format import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend

# Okabe and Ito's colours, which colour-blind readers can tell apart, without the yellow that is
# lost on white. Hatches, markers and line styles are for grey print and for more detectors.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
HATCHES = (None, "//", "..", "\\\\", "xx")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", ":", "-.")
INK = "0.2"  # a dark grey for lines and small texts of ours
PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}  # "$x_1$" is a name, not a formula


def require_matplotlib(display: type) -> None:
    """Refuse to draw without matplotlib, before anything is computed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f'{display.__name__} needs matplotlib. Install it: pip install "lpfuse[plots]"'
        ) from error


def learnt(estimator: Any, attribute: str) -> Any:
    """What an estimator learnt, or a message that says why it has nothing to draw."""
    if not hasattr(estimator, attribute):
        check_is_fitted(estimator)
        raise TypeError(
            f"{type(estimator).__name__} has no {attribute}, so there is nothing to draw. Pass a "
            "fitted fusion object or fused detector; of a Pipeline, its last step."
        )
    return getattr(estimator, attribute)


def names_of(estimator: Any, count: int) -> list[str] | None:
    """The names of an estimator's detectors, where it knows them."""
    for attribute in ("detector_names_", "feature_names_in_"):
        names = getattr(estimator, attribute, None)
        if names is not None and len(names) == count:
            return [str(name) for name in names]
    return None


def numbers(what: str, values: Any, ndim: int, *, missing: bool = False) -> Host:
    """A user's numbers as an array of `ndim` dimensions; NaN only where they may be missing."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != ndim or not array.size:
        raise ValueError(
            f"{what} must have {ndim} dimension{'s' * (ndim > 1)} and at least one entry, got "
            f"shape {array.shape}."
        )
    if not (np.isfinite(array) | (np.isnan(array) & missing)).all():
        raise ValueError(f"{what} must be finite{', or NaN where missing' * missing}.")
    return array


def largest(sizes: Host, **limit: Any) -> list[int]:
    """Positions of the largest sizes, in falling order, at most as many as the limit named."""
    ((name, value),) = limit.items()
    return [int(j) for j in np.argsort(-sizes, kind="stable")[: check_count(name, value)]]


def labels_of(names: Sequence[Any] | None, count: int) -> list[str]:
    """Names as they are written: short, and different where the names are."""
    full = [f"detector {j}" for j in range(count)] if names is None else [*map(str, names)]
    if len(full) != count:
        raise ValueError(f"names must name each detector: expected {count}, got {len(full)}.")
    short = [shortened(name) for name in full]
    times = Counter(short)
    return [
        f"{j}: {label}" if times[label] > 1 and label != name else label
        for j, (label, name) in enumerate(zip(short, full, strict=True))
    ]


def bar_look(j: int) -> dict[str, Any]:
    """How the bars of detector j look."""
    hatch = HATCHES[j % len(HATCHES)]  # five hatches by seven colours: 35 different looks
    return {"color": COLOURS[j % len(COLOURS)], "hatch": hatch, "edgecolor": "white"}


def line_look(j: int) -> dict[str, Any]:
    """How the line of detector j looks."""
    return {
        "color": COLOURS[j % len(COLOURS)],
        "marker": MARKERS[j % len(MARKERS)],
        "linestyle": LINES[j // len(COLOURS) % len(LINES)],
        "markersize": 4.5,
        "linewidth": 1.6,
    }


def bar_style(look: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Our look of bars, overruled by the user's arguments, under whichever alias they come."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.patches import Rectangle

    return look | normalize_kwargs(given, Rectangle)


def line_style(look: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Our look of lines, overruled likewise."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return look | normalize_kwargs(given, Line2D)


def axes(ax: Axes | None, height: float) -> Axes:
    """Axes to draw in: the user's, or those of a new figure `height` inches high."""
    if ax is None:
        import matplotlib.pyplot as plt
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        # The layout engine overlooks that a number at the end of the x axis sticks out to the side.
        figure = plt.figure(layout=ConstrainedLayoutEngine(w_pad=0.18))
        figure.set_figheight(height)
        ax = figure.add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def name_bars(ax: Axes, names: list[str]) -> None:
    """Write the names of horizontal bars, the first one at the top."""
    ax.set_yticks(range(len(names)), names, fontsize="small", **PLAIN)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.axvline(0, color=INK, linewidth=0.8)
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)


def title(ax: Axes, text: str, *, captioned: bool) -> None:
    """The title, above the caption where there is one."""
    ax.set_title(text, loc="left", pad=6 + captioned * 1.4 * small_size())


def caption(ax: Axes, text: str, at: float | None = None) -> None:
    """A small line between the title and the axes: on the left, or centred at a point of x."""
    ax.annotate(
        text,
        (0.0 if at is None else at, 1.0),
        xycoords=ax.transAxes if at is None else ax.get_xaxis_transform(),
        xytext=(0, 4),
        textcoords="offset points",
        ha="left" if at is None else "center",
        fontsize="small",
        color=INK,
        **PLAIN,
    )


def legend_beside(ax: Axes, handles: list[Any], labels: list[str]) -> None:
    """A legend on the right of the axes."""
    _legend(ax, handles, labels, bbox_to_anchor=(1.02, 1.0))


def legend_below(ax: Axes, handles: list[Any], labels: list[str]) -> float:
    """A legend below the x axis, in as many columns as there is room for; its height in inches."""
    from matplotlib.transforms import ScaledTranslation

    drop = ScaledTranslation(0, -(3.8 * small_size() + 8) / 72, ax.figure.dpi_scale_trans)
    place = {"bbox_to_anchor": (0.0, 0.0), "bbox_transform": ax.transAxes + drop}
    for columns in (4, 3, 2, 1):
        legend = _legend(ax, handles, labels, ncols=columns, **place)
        extent = legend.get_window_extent()
        if extent.width <= 1.1 * ax.get_window_extent().width:
            break
    return float(extent.height / ax.figure.dpi)


def _legend(ax: Axes, handles: list[Any], labels: list[str], **place: Any) -> Legend:
    legend = ax.legend(
        handles,
        labels,
        loc="upper left",
        fontsize="small",
        frameon=False,
        borderaxespad=0.0,
        **place,
    )
    for text in legend.get_texts():
        text.update(PLAIN)
    return legend


def small_size() -> float:
    """Height of small letters in points."""
    from matplotlib.font_manager import FontProperties

    return FontProperties(size="small").get_size_in_points()
