"""A contact sheet as one page of HTML that needs nothing but a browser."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import Any

import numpy as np

from lpfuse._files import versions
from lpfuse._format import number
from lpfuse_faces._extras import needed
from lpfuse_faces.contact_sheet._contents import ContactSheet, Numbers, Shown, bar_labels

QUALITY = 90  # of JPEG


def html(sheet: ContactSheet) -> str:
    """Return the page.

    Parameters
    ----------
    sheet : ContactSheet
        What to show.
    """
    from markupsafe import Markup

    environment = _environment()
    style = environment.loader.get_source(environment, "sheet.css")[0]
    digest = b64encode(sha256(style.encode()).digest()).decode()
    page: str = environment.get_template("sheet.html").render(
        sheet=sheet,
        verdict=sheet.verdict,
        policy=f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'",
        style=Markup(style),  # nosec B704 # a file of this package
        frames=[_frame(shown) for shown in sheet.shown],
        chart=_chart(sheet) if sheet.shown else None,
        bars=[
            ("By set of features", _bars(sheet.sets)),
            ("By learner", _bars(sheet.learners)),
        ],
        version=versions()["lpfuse"],
    )
    return page.strip() + "\n"


def _environment() -> Any:
    jinja2 = needed("jinja2", "A contact sheet in HTML", extra="cli")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lpfuse_faces.contact_sheet", "template"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    return environment


def _frame(shown: Shown) -> dict[str, Any]:
    """Return what the template shows of a frame; places in pixels of the cutout."""
    x1, y1, x2, y2 = shown.box
    return {
        "time": f"{shown.time:.2f} s",
        "score": number(shown.score),
        "remark": shown.remark,
        "side": len(shown.cutout),
        "picture": _data(shown.cutout),
        "box": [f"{value:.1f}" for value in (x1, y1, x2 - x1, y2 - y1)],
        "landmarks": [(f"{x:.1f}", f"{y:.1f}") for x, y in shown.landmarks],
        "outlines": [
            " ".join(f"{x:.1f},{y:.1f}" for x, y in corners) for corners in shown.outlines.values()
        ],
        "regions": [
            {
                "name": name,
                "picture": _data(patch),
                "spectrum": _data(_coloured(shown.spectra[name])),
            }
            for name, patch in shown.regions.items()
        ],
    }


def _data(image: Numbers) -> str:
    """Return a picture as text that can stand in a page."""
    cv2 = needed("cv2", "Drawing a contact sheet")
    pixels = image if image.ndim == 2 else image[..., ::-1]
    _, content = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return f"data:image/jpeg;base64,{b64encode(content.tobytes()).decode()}"


def _coloured(values: Numbers) -> Numbers:
    """Values in [0, 1] in the colours of the picture's spectra."""
    colours = needed("matplotlib", "Drawing a contact sheet").colormaps["cividis"]
    return colours(values, bytes=True)[..., :3]


def _chart(sheet: ContactSheet) -> dict[str, Any]:
    """Return the score over time as points of a drawing of 100 by 100."""
    time, scores = sheet.verdict.time, sheet.verdict.frame_scores
    levels = [sheet.verdict.score, sheet.explained.threshold, *scores]
    finite = np.array([level for level in levels if np.isfinite(level)])
    low, high = finite.min(), finite.max()
    margin = 0.1 * (high - low) or 1.0
    low, high = low - margin, high + margin
    begin, end = float(time[0]), float(time[-1])

    def across(moment: float) -> str:
        return f"{100 * (moment - begin) / (end - begin) if end > begin else 50:.5g}"

    def down(level: float) -> str | None:
        return f"{100 * (high - level) / (high - low):.5g}" if np.isfinite(level) else None

    line = [(across(t), down(s)) for t, s in zip(time, scores, strict=True) if np.isfinite(s)]
    return {
        "line": " ".join(f"{x},{y}" for x, y in line),
        "dots": line,
        "shown": [(across(shown.time), down(shown.score)) for shown in sheet.shown],
        "score": down(sheet.verdict.score),
        "threshold": down(sheet.explained.threshold),
        "x_ticks": sorted({(across(t), f"{t:.2f}") for t in (begin, (begin + end) / 2, end)}),
        "rows": [(f"{t:.2f}", number(s)) for t, s in zip(time, scores, strict=True)],
    }


def _bars(parts: dict[str, float]) -> list[dict[str, str]]:
    """Bars to the left and to the right of one zero."""
    values = [0.0, *parts.values()]
    low, span = min(values), (max(values) - min(values)) or 1.0
    return [
        {
            "name": name,
            "value": label,
            "key": "odd" if value < 0 else "normal",
            "x": f"{100 * (min(value, 0.0) - low) / span:.5g}",
            "width": f"{100 * abs(value) / span:.5g}",
            "zero": f"{100 * -low / span:.5g}",
        }
        for (name, value), label in zip(parts.items(), bar_labels(parts), strict=True)
    ]
