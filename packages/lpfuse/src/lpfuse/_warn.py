"""Warnings that point at the line of the user."""

from __future__ import annotations

import sys
import warnings


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line that is not of this package, however deep the caller is."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("lpfuse."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
