"""Figures of pages, drawn without a display; without matplotlib the page says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def figure_line(path: Path, draw: Callable[[Path], None], words: str) -> str:
    """Draw a figure and return the line that shows it; without matplotlib, one that says so.

    `words` are for who cannot see it.
    """
    try:
        new_figure(1, 1)
    except ImportError as error:
        return f"No figure. {error}"
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(path)
    return f"![{words}]({path.name})"


def new_figure(width: float, height: float) -> Any:
    """An empty figure, sizes in inches; `savefig` draws it without a display."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            'Figures need matplotlib. Install it: pip install "lpfuse[plots]".'
        ) from error
    return Figure(figsize=(width, height), layout="constrained")
