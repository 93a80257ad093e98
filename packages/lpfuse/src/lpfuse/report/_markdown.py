"""Texts of others in Markdown: they stay text, whatever they hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from lpfuse._format import printable, shortened

# What begins markup inside a line: CommonMark and GitHub's tables, HTML, links, formulas, names.
MARKUP = re.compile(r"[\\`*_\[\]<>|~&$@]")
# What begins a block at the start of a line.
BLOCK = re.compile(r"^(?=[#+=-])|^(\d+)(?=[.)]\s)")
# What GitHub makes a link of without being asked: an entity is never a part of an address.
ADDRESS = re.compile(r":(?=//)|(?<=\bwww)\.", re.IGNORECASE)
WIDEST = 200  # columns of a text in a cell; chosen by hand


def escaped(text: object, width: int = WIDEST) -> str:
    r"""A text on one line that Markdown shows as it is.

    Parameters
    ----------
    text : object
        What somebody's table or call holds.
    width : int, default=200
        Columns from which its middle is left out.

    Examples
    --------
    >>> print(escaped("a|b *c*\n<i>"), escaped("# x"), escaped("1. y"), escaped("https://a.b"))
    a\|b \*c\* \<i\> \# x 1\. y https&#58;//a.b
    """
    line = shortened(printable(" ".join(str(text).split())), width)
    line = MARKUP.sub(lambda found: f"\\{found[0]}", line)
    line = BLOCK.sub(lambda found: (found[1] or "") + "\\", line)
    return ADDRESS.sub(lambda found: f"&#{ord(found[0])};", line)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    r"""A table; cells are escaped.

    Examples
    --------
    >>> print(table(["name", "rows"], [["a|b", 3]]))
    | name | rows |
    |---|---|
    | a\|b | 3 |
    """
    lines = [head, *([escaped(cell) for cell in row] for row in rows)]
    first, *rest = (f"| {' | '.join(cells)} |" for cells in lines)
    return "\n".join([first, "|" + "---|" * len(head), *rest])


def bullets(sentences: Iterable[str]) -> str:
    """A list; its items are escaped, and as long as they are.

    Examples
    --------
    >>> print(bullets(["One.", "Two."]))
    - One.
    - Two.
    """
    return "\n".join(f"- {escaped(sentence, 10 * WIDEST)}" for sentence in sentences)
