"""A figure of matplotlib as an ``<svg>`` element to stand inside a page of HTML.

What matplotlib writes is a file of its own: it carries a date, random ids, a font, and inline
styles, which a page with a content security policy refuses. Here it becomes an element that is

- the same, byte for byte, for the same figure and the same versions of matplotlib;
- free of inline styles: each property becomes an attribute of the same name;
- free to stand beside others: its ids begin with its own name;
- in the page's font, and in the page's colours where it defines them (`PAGE_COLOURS`), so that a
  dark page has dark figures;
- small: without hatches, which are nine tenths of a file that has them and are meant for grey
  print, and with coordinates to a hundredth of a point.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import StringIO
from typing import TYPE_CHECKING
from xml.etree import ElementTree  # nosec B405 # reads what matplotlib wrote

from lpfuse.plots._drawing import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colour → the custom property of CSS that takes its place where a page defines it. The black of
# texts and lines, the greys of INK and of the grid, and white are the page's own colours.
PAGE_COLOURS: dict[str, str] = {
    **{colour.lower(): f"--d{j}" for j, colour in enumerate(COLOURS)},
    "#000000": "--ink",
    "#333333": "--ink",
    "#e6e6e6": "--grid",
    "#ffffff": "--raised",
}
_SVG, _XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_LEFT_TO_THE_PAGE = ("font-family",)  # properties that its style sheet sets


def blank_axes(width: float, height: float) -> Axes:
    """Axes of a new figure, in inches, that pyplot does not know: no window, no global state."""
    from matplotlib.figure import Figure

    ax = Figure(figsize=(width, height), layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def svg(figure: Figure, *, name: str, label: str, colours: Mapping[str, str] = PAGE_COLOURS) -> str:
    """The figure as an ``<svg>`` element.

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
    >>> ax = blank_axes(4, 2)
    >>> display = WeightsDisplay([0.8, 0.6], ["kernel PCA", "mixture"]).plot(ax)
    >>> text = svg(ax.figure, name="weights", label="Weights of two detectors.")
    >>> text[:48]
    '<svg id="weights" viewBox="0 0 288 144" role="im'
    >>> "kernel PCA" in text, "var(--d0, #0072b2)" in text, "style=" in text
    (True, True, False)
    """
    kept = {str(artist.get_gid()) for artist in figure.findobj() if artist.get_gid()}
    root = ElementTree.fromstring(_written(figure, name))  # nosec B314 # matplotlib wrote it
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
        "fill": _variable("#000000", colours),
        "stroke-linejoin": "round",
        "stroke-linecap": "butt",
    }
    empty = ElementTree.Element("svg", attributes)
    return ElementTree.tostring(empty, encoding="unicode", short_empty_elements=False).replace(
        "></svg>", f">{body}</svg>"
    )


def _written(figure: Figure, salt: str) -> str:
    """What matplotlib writes, with texts as texts, without hatches and without the date."""
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
    """Plain tags, attributes instead of styles, ids of our own, colours of the page."""
    element.tag = element.tag.removeprefix(_SVG)
    element.tail = None  # the indentation
    if element.tag != "text" and element.tag != "tspan":
        element.text = None
    attributes = dict(element.attrib)
    element.attrib.clear()
    for declaration in filter(None, attributes.pop("style", "").split("; ")):
        key, value = declaration.split(": ", 1)
        if key not in _LEFT_TO_THE_PAGE:
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
            value = _variable(value, colours)
        element.set(key, _REFERENCE.sub(rf"url(#{name}-\1)", value))


def _variable(colour: str, colours: Mapping[str, str]) -> str:
    known = colours.get(colour.lower())
    return colour if known is None else f"var({known}, {colour.lower()})"
