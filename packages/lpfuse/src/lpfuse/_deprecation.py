"""Names and parameters that are to go: one decorator, and the policy that it carries out.

A public name or parameter warns for at least one minor version before it goes, and names what to
use instead. The warning is a `FutureWarning`, which Python shows to everybody.
"""

from __future__ import annotations

import warnings
from functools import wraps
from inspect import signature
from typing import Any


def deprecated(*, since: str, until: str, instead: str, parameter: str | None = None) -> Any:
    """Make a function, a method or a class warn that it goes.

    Parameters
    ----------
    since, until : str
        The version that warns first, and the first without it.
    instead : str
        A sentence that says what to use.
    parameter : str, optional
        Warn of this parameter, where it is passed, and not of the whole.

    Examples
    --------
    >>> import pytest
    >>> @deprecated(since="0.2", until="0.3", instead="Use fit.")
    ... def learn(X):
    ...     return len(X)
    >>> with pytest.warns(FutureWarning, match="learn is deprecated since lpfuse 0.2"):
    ...     learn([1, 2])
    2
    """

    def mark(thing: Any) -> Any:
        called = vars(thing)["__init__"] if isinstance(thing, type) else thing
        name = thing.__qualname__ if parameter is None else f"{parameter} of {thing.__qualname__}"
        message = f"{name} is deprecated since lpfuse {since} and goes in {until}. {instead}"
        known = signature(called)

        @wraps(called)
        def warn(*args: Any, **kwargs: Any) -> Any:
            if parameter is None or parameter in known.bind_partial(*args, **kwargs).arguments:
                warnings.warn(message, FutureWarning, stacklevel=2)
            return called(*args, **kwargs)

        if not isinstance(thing, type):
            return warn
        type.__setattr__(thing, "__init__", warn)
        return thing

    return mark
