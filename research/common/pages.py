"""Stored rows → Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from lpfuse._files import replacing
from research.common.statistics import Comparison


def markdown(rows: Iterable[Sequence[str]]) -> str:
    """A table; the first row is its head, the first column its names.

    Examples
    --------
    >>> from research.common.pages import markdown
    >>> print(markdown([["", "AUC"], ["sum", "88.6"]]))
    |  | AUC |
    |---|--:|
    | sum | 88.6 |
    """
    head, *body = (["", *row[1:]] if not row[0] else list(row) for row in rows)
    rule = "|---|" + "--:|" * (len(head) - 1)
    lines = [f"| {' | '.join(row)} |" for row in [head, *body]]
    return "\n".join([lines[0], rule, *lines[1:]])


def prose(text: str) -> str:
    """A paragraph, its lines broken anew."""
    return fill(" ".join(text.split()), 118, break_long_words=False, break_on_hyphens=False)


def page(*parts: str) -> str:
    """Parts of a page with an empty line between them."""
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def gain(found: Comparison, p_value: float | None = None) -> str:
    """A comparison in short; `p_value` replaces its own where several were corrected together.

    Examples
    --------
    >>> from research.common.statistics import compare
    >>> gain(compare([90, 80, 75, 60], [85, 80, 72, 56]))
    '+3.0 [-0.4, +6.4], 3:1:0, p = 0.25'
    """
    mean, p_value = found.difference, found.p_value if p_value is None else p_value
    score = f"{found.wins}:{found.ties}:{found.losses}"
    return f"{mean.mean:+.1f} [{mean.low:+.1f}, {mean.high:+.1f}], {score}, p = {p_value:.2g}"


def gains_over_sets(rows: Sequence[Sequence[str]], sets: int) -> list[str]:
    """A table of gains with what they mean; nothing where there is but one set."""
    about = (
        "Mean gain with its 95 % interval over sets, sets won : equal : lost, Wilcoxon's p-value:"
    )
    return [about, markdown(rows)] if sets > 1 else []


def figure_line(path: Path, draw: Callable[[Path], None]) -> str:
    """Draw a figure and return the line that shows it; without matplotlib, one that says so."""
    try:
        new_figure(1, 1)
    except ImportError as error:
        return f"No figure. {error}"
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(path)
    return f"![{path.stem}]({path.name})"


def new_figure(width: float, height: float) -> Any:
    """An empty figure, sizes in inches; `savefig` draws it without a display."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            'Figures need matplotlib. Install it: pip install "lpfuse[plots]".'
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def write_whole(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(text.encode())
