"""Shared parts of the displays: styles, labels, legends, and SVG output."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree  # nosec B405 # reads what matplotlib wrote

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Host
from lpfuse._format import shortened
from lpfuse._validation.params import check_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend


# --------------------------------------------------------------------------------------------------
# Styles, labels and legends

# Okabe and Ito's colours, which colour-blind readers can tell apart, without the yellow that is
# lost on white. Hatches, markers and line styles are for grey print and for more detectors.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
HATCHES = (None, "//", "..", "\\\\", "xx")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", ":", "-.")
INK = "0.2"  # a dark grey for lines and small texts of ours
PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}  # "$x_1$" is a name, not a formula


def require_matplotlib(display: type) -> None:
    """Raise if matplotlib is missing, before anything is computed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f'{display.__name__} needs matplotlib. Install it: pip install "lpfuse[plots]"'
        ) from error


def fitted_attribute(estimator: Any, attribute: str) -> Any:
    """Return a fitted attribute; raise if the estimator is not fitted or lacks it."""
    if not hasattr(estimator, attribute):
        check_is_fitted(estimator)
        raise TypeError(
            f"{type(estimator).__name__} has no {attribute}, so there is nothing to draw. Pass a "
            "fitted fusion object or fused detector; of a Pipeline, its last step."
        )
    return getattr(estimator, attribute)


def names_of(estimator: Any, count: int) -> list[str] | None:
    """Return the names of an estimator's detectors, where it knows them."""
    for attribute in ("detector_names_", "feature_names_in_"):
        names = getattr(estimator, attribute, None)
        if names is not None and len(names) == count:
            return [str(name) for name in names]
    return None


def numbers(what: str, values: Any, ndim: int, *, missing: bool = False) -> Host:
    """Check numbers: an array of `ndim` dimensions, NaN only if `missing`."""
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
    """Return positions of the largest sizes, in descending order, up to the named limit."""
    ((name, value),) = limit.items()
    return [int(j) for j in np.argsort(-sizes, kind="stable")[: check_count(name, value)]]


def labels_of(names: Sequence[Any] | None, count: int) -> list[str]:
    """Return short labels that differ where the names do."""
    full = [f"detector {j}" for j in range(count)] if names is None else [*map(str, names)]
    if len(full) != count:
        raise ValueError(f"names must name each detector: expected {count}, got {len(full)}.")
    short = [shortened(name) for name in full]
    times = Counter(short)
    return [
        f"{j}: {label}" if times[label] > 1 and label != name else label
        for j, (label, name) in enumerate(zip(short, full, strict=True))
    ]


def bar_props(j: int) -> dict[str, Any]:
    """Return how the bars of detector j look."""
    hatch = HATCHES[j % len(HATCHES)]  # five hatches by seven colours: 35 different looks
    return {"color": COLOURS[j % len(COLOURS)], "hatch": hatch, "edgecolor": "white"}


def line_props(j: int) -> dict[str, Any]:
    """Return how the line of detector j looks."""
    return {
        "color": COLOURS[j % len(COLOURS)],
        "marker": MARKERS[j % len(MARKERS)],
        "linestyle": LINES[j // len(COLOURS) % len(LINES)],
        "markersize": 4.5,
        "linewidth": 1.6,
    }


def bar_style(look: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Merge bar properties with the user's arguments, under any alias."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.patches import Rectangle

    return look | normalize_kwargs(given, Rectangle)


def line_style(look: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Merge line properties with the user's arguments, under any alias."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return look | normalize_kwargs(given, Line2D)


def axes(ax: Axes | None, height: float) -> Axes:
    """Return the given axes, or those of a new figure `height` inches high."""
    if ax is None:
        import matplotlib.pyplot as plt
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        # The layout engine overlooks that a number at the end of the x axis sticks out to the side.
        figure = plt.figure(layout=ConstrainedLayoutEngine(w_pad=0.18))
        figure.set_figheight(height)
        ax = figure.add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def label_bars(ax: Axes, names: list[str]) -> None:
    """Write the names of horizontal bars, the first one at the top."""
    ax.set_yticks(range(len(names)), names, fontsize="small", **PLAIN)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.axvline(0, color=INK, linewidth=0.8)
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)


def title(ax: Axes, text: str, *, captioned: bool) -> None:
    """Set the title, above the caption if there is one."""
    ax.set_title(text, loc="left", pad=6 + captioned * 1.4 * small_font_size())


def caption(ax: Axes, text: str, at: float | None = None) -> None:
    """Write a small line below the title: on the left, or centred at a point of x."""
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


def legend_right(ax: Axes, handles: list[Any], labels: list[str]) -> None:
    """Draw a legend on the right of the axes."""
    _legend(ax, handles, labels, bbox_to_anchor=(1.02, 1.0))


def legend_below(ax: Axes, handles: list[Any], labels: list[str]) -> float:
    """Draw a legend below the x axis, in as many columns as fit; return its height in inches."""
    from matplotlib.transforms import ScaledTranslation

    drop = ScaledTranslation(0, -(3.8 * small_font_size() + 8) / 72, ax.figure.dpi_scale_trans)
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


def small_font_size() -> float:
    """Return the size of small text in points."""
    from matplotlib.font_manager import FontProperties

    return FontProperties(size="small").get_size_in_points()


# --------------------------------------------------------------------------------------------------
# A figure of matplotlib as an ``<svg>`` element to stand inside a page of HTML.
#
# What matplotlib writes is a file of its own: it carries a date, random ids, a font, and inline
# styles, which a page with a content security policy refuses. Here it becomes an element that is
#
# - the same, byte for byte, for the same figure and the same versions of matplotlib;
# - free of inline styles: each property becomes an attribute of the same name;
# - free to stand beside others: its ids begin with its own name;
# - in the page's font, and in the page's colours where it defines them (`SVG_COLOURS`), so that a
#   dark page has dark figures;
# - small: without hatches, which are nine tenths of a file that has them and are meant for grey
#   print, and with coordinates to a hundredth of a point.


# Colour → the custom property of CSS that takes its place where a page defines it. The black of
# texts and lines, the greys of INK and of the grid, and white are the page's own colours.
SVG_COLOURS: dict[str, str] = {
    **{colour.lower(): f"--d{j}" for j, colour in enumerate(COLOURS)},
    "#000000": "--ink",
    "#333333": "--ink",
    "#e6e6e6": "--grid",
    "#ffffff": "--raised",
}
_SVG, _XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_SET_BY_THE_PAGE = ("font-family",)  # properties that its style sheet sets


def detached_axes(width: float, height: float) -> Axes:
    """Return axes of a new figure outside of pyplot: no window, no global state."""
    from matplotlib.figure import Figure

    ax = Figure(figsize=(width, height), layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def svg(figure: Figure, *, name: str, label: str, colours: Mapping[str, str] = SVG_COLOURS) -> str:
    """Return the figure as an ``<svg>`` element.

    Parameters
    ----------
    figure : Figure
        What to write. Artists whose ``set_gid("x")`` was called keep the id ``name-x``, for a
        script to find them; no other element can be referred to from outside.
    name : str
        Unique on the page; the id of the element, and what all ids in it begin with.
    label : str
        What the figure shows, for those who cannot see it.
    colours : mapping from "#rrggbb" to "--property"
        Colours that the page may replace.

    Returns
    -------
    str
        One element without a width and a height: the page's style sheet says how wide it is.

    Examples
    --------
    >>> from lpfuse.plots import WeightsDisplay
    >>> ax = detached_axes(4, 2)
    >>> display = WeightsDisplay([0.8, 0.6], ["kernel PCA", "mixture"]).plot(ax)
    >>> text = svg(ax.figure, name="weights", label="Weights of two detectors.")
    >>> text[:48]
    '<svg id="weights" viewBox="0 0 288 144" role="im'
    >>> "kernel PCA" in text, "var(--d0, #0072b2)" in text, "style=" in text
    (True, True, False)
    """
    kept = {str(artist.get_gid()) for artist in figure.findobj() if artist.get_gid()}
    root = ElementTree.fromstring(_render_svg(figure, name))  # nosec B314 # matplotlib wrote it
    for child in [*root.findall(f"{_SVG}metadata"), *root.findall(f"{_SVG}defs")]:
        if child.tag.endswith("metadata") or child.find(f"{_SVG}style") is not None:
            root.remove(child)
    referred = {
        reference.removeprefix("#")
        for element in root.iter()
        for key, value in element.attrib.items()
        for reference in ([value] if key.endswith("href") else _REFERENCE.findall(value))
    }
    for element in root.iter():
        _rewrite(element, name, kept | referred, colours)
    body = "".join(ElementTree.tostring(child, encoding="unicode") for child in root)
    attributes = {
        "id": name,
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-label": label,
        # matplotlib leaves out a fill that is black, and says the other two in a style sheet.
        "fill": _css_colour("#000000", colours),
        "stroke-linejoin": "round",
        "stroke-linecap": "butt",
    }
    empty = ElementTree.Element("svg", attributes)
    return ElementTree.tostring(empty, encoding="unicode", short_empty_elements=False).replace(
        "></svg>", f">{body}</svg>"
    )


def _render_svg(figure: Figure, salt: str) -> str:
    """Return what matplotlib writes, with texts as texts, without hatches and without the date."""
    import matplotlib
    from matplotlib.patches import Patch

    file = StringIO()
    hatches = [(patch, patch.get_hatch()) for patch in figure.findobj(Patch)]
    try:
        for patch, _ in hatches:
            patch.set_hatch("")
        with matplotlib.rc_context({"svg.hashsalt": salt, "svg.fonttype": "none"}):
            figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
    finally:
        for patch, hatch in hatches:
            patch.set_hatch(hatch or "")
    return file.getvalue()


def _rewrite(
    element: ElementTree.Element, name: str, kept: set[str], colours: Mapping[str, str]
) -> None:
    """Rewrite an element: plain tags, attributes instead of styles, own ids, CSS colours."""
    element.tag = element.tag.removeprefix(_SVG)
    element.tail = None  # the indentation
    if element.tag != "text" and element.tag != "tspan":
        element.text = None
    attributes = dict(element.attrib)
    element.attrib.clear()
    for declaration in filter(None, attributes.pop("style", "").split("; ")):
        key, value = declaration.split(": ", 1)
        if key not in _SET_BY_THE_PAGE:
            attributes[key] = value
    if attributes.get("transform", "").startswith("rotate(-0 "):
        del attributes["transform"]
    own_id = attributes.pop("id", None)
    if own_id in kept:
        element.set("id", f"{name}-{own_id}")
    for key, value in attributes.items():
        if key == f"{_XLINK}href":
            key, value = "href", f"#{name}-{value.removeprefix('#')}"
        elif key in ("d", "x", "y", "transform"):
            value = _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.2f}", value)
            value = " ".join(value.split())
        elif key in ("fill", "stroke"):
            value = _css_colour(value, colours)
        element.set(key, _REFERENCE.sub(rf"url(#{name}-\1)", value))


def _css_colour(colour: str, colours: Mapping[str, str]) -> str:
    known = colours.get(colour.lower())
    return colour if known is None else f"var({known}, {colour.lower()})"
