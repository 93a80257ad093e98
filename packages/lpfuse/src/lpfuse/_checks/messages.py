"""Words of a refusal: names that are close, values in a list, texts that spell a value."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from typing import Any


def key(name: object) -> str:
    """A name without what does not matter in it: case, spaces, hyphens and underscores."""
    return re.sub(r"[\s_-]", "", str(name)).casefold()


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A question for the end of a message, where a known name is close to the one that came."""
    keys = {key(choice): choice for choice in known}
    closest = get_close_matches(key(name), keys, n=1)
    return f" Did you mean {keys[closest[0]]!r}?" if closest else ""


def listed(items: Iterable[str], at_most: int = 5, last: str = " and ") -> str:
    """Items as a phrase.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b"]), listed("abcdefg", at_most=3)
    ('a', 'a and b', 'a, b, c and 4 more')
    """
    items = list(items)
    if len(items) > at_most:
        items, last = [*items[:at_most], f"{len(items) - at_most} more"], " and "
    return last.join(filter(None, [", ".join(items[:-1]), items[-1]]))


def quoted(values: Iterable[object], at_most: int = 8) -> str:
    """Values with commas between them, as Python writes them: 1 is not "1".

    Examples
    --------
    >>> quoted(["ok", 1, "1"])
    "'ok', 1, '1'"
    """
    return listed(map(repr, values), at_most, last=", ")


def meaning(wanted: Any, values: Iterable[Any]) -> set[Any]:
    """Those of the values that equal what was wanted; if none does, those that spell it.

    Examples
    --------
    >>> meaning("1", [1, 2]), meaning(True, ["true", "false"]), meaning("1", ["1", "1.0"])
    ({1}, {'true'}, {'1'})
    """
    kinds = set(values)
    same = {kind for kind in kinds if kind == wanted}
    return same or {kind for kind in kinds if _spelled(kind) == _spelled(wanted)}


def _spelled(value: Any) -> Any:
    """A text as the number or the truth value that it spells; all else as it is."""
    if not isinstance(value, str):
        return value
    text = value.strip().strip("'\"").casefold()
    with suppress(ValueError):
        return float(text)
    return {"true": True, "false": False}.get(text, text)
