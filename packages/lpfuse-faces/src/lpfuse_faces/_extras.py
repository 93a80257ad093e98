"""Packages that are imported when they are first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def needed(package: str, purpose: str, extra: str = "") -> Any:
    """The package, or an error that says what to install.

    Examples
    --------
    >>> from lpfuse_faces._extras import needed
    >>> needed("no_such_package", "Reading videos")
    Traceback (most recent call last):
    ImportError: Reading videos needs no_such_package. Install it: pip install "lpfuse-faces"
    """
    try:
        return import_module(package)
    except ImportError as error:
        wanted = f"lpfuse-faces[{extra}]" if extra else "lpfuse-faces"
        raise ImportError(
            f'{purpose} needs {package}. Install it: pip install "{wanted}"'
        ) from error
