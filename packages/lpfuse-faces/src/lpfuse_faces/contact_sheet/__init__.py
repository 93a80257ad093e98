"""A contact sheet: what a video was judged by, on one picture or page.

``contents`` gathers what there is to see, ``picture`` and ``page`` show it.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from lpfuse._files import replacing
from lpfuse_faces._explanation import Explained, usual_contributions
from lpfuse_faces.contact_sheet._contents import ContactSheet, contact_sheet

SUFFIXES = (".png", ".html")

__all__ = [
    "SUFFIXES",
    "ContactSheet",
    "Explained",
    "check_suffix",
    "contact_sheet",
    "usual_contributions",
    "write_sheet",
]


def write_sheet(sheet: ContactSheet, path: str | PathLike[str]) -> None:
    """Write a contact sheet; the file appears whole or not at all.

    Parameters
    ----------
    sheet : ContactSheet
        What to show.
    path : path-like
        A ``.png`` file, or an ``.html`` file that needs nothing but a browser.
    """
    if check_suffix(path) == ".html":
        from lpfuse_faces.contact_sheet._page import html

        content = html(sheet).encode("utf-8", "backslashreplace")  # a name may be no valid text
    else:
        from lpfuse_faces.contact_sheet._picture import png

        content = png(sheet)
    with replacing(path) as file:
        file.write(content)


def check_suffix(path: str | PathLike[str]) -> str:
    """Return the suffix of a file that a sheet can be written to."""
    suffix = Path(path).suffix.casefold()
    if suffix not in SUFFIXES:
        raise ValueError(
            f"A contact sheet is written as {' or '.join(SUFFIXES)} file, not as {str(path)!r}. "
            "Give it one of these suffixes."
        )
    return suffix
