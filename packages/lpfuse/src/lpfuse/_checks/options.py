"""Parameters that Python and the command line spell alike, checked without scikit-learn.

A command refuses them at once, and need not wait for imports. The detectors behind the names are in
``lpfuse.ensemble._named``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from lpfuse._checks.arguments import check_number, check_p, check_share
from lpfuse._checks.messages import did_you_mean
from lpfuse._format import quote

PAPER = "paper"  # the pool of that name, alone
PYOD = "pyod:"
NAMES = (
    "gp", "knn", "knn-subspaces", "knn-samples", "histogram", "columns",
    "trees", "boosting", "svm",
    "svdd", "kpca", "gmm", "forest", "lof", "logistic", "random-forest",
)  # fmt: skip
ALIASES = {"iforest": "forest", "isolation-forest": "forest"}
AUTO = "auto"  # p: that of the default fusion
MOST_CONFIDENCE = 0.9999  # 1 itself no number of rows can give


def settled_name(name: str) -> str:
    """The one of `NAMES` that is meant; detectors of PyOD as ``pyod:NAME``.

    Capitals do not matter, and spaces may stand for hyphens.

    Examples
    --------
    >>> settled_name("KNN subspaces"), settled_name("iforest"), settled_name("PyOD:HBOS")
    ('knn-subspaces', 'forest', 'pyod:HBOS')
    >>> settled_name("svd")
    Traceback (most recent call last):
    ValueError: There is no detector 'svd'. Did you mean 'svdd'? Known are gp, ...
    """
    if name.casefold().startswith(PYOD):
        return PYOD + name[len(PYOD) :]
    known = name.casefold().replace(" ", "-")
    known = ALIASES.get(known, known)
    if known not in NAMES:
        choices = [*NAMES, *ALIASES]
        alone = f" {PAPER!r} is a pool, and stands alone." if known == PAPER else ""
        raise ValueError(
            f"There is no detector {quote(name)}.{alone}{did_you_mean(name, choices)} Known are "
            f"{', '.join(choices)}, and those of PyOD as {PYOD}NAME."
        )
    return known


def listed_names(text: str) -> str | Sequence[str]:
    """Names as a command line lists them, with commas, as the parameter `detectors` takes them.

    Examples
    --------
    >>> listed_names("svdd, lof"), listed_names("paper")
    (['svdd', 'lof'], 'paper')
    """
    names = [name for part in text.split(",") if (name := part.strip())]
    if [name.casefold() for name in names] == [PAPER]:
        return PAPER
    if not names:
        raise ValueError(
            f"detectors must name at least one detector, got {quote(text)}. Leave it out for the "
            "default pool."
        )
    for name in names:
        settled_name(name)
    return names


def check_norm(p: Any) -> Any:
    """``"auto"``, or p as a number in [1, ∞], which a command line writes as a text.

    Examples
    --------
    >>> check_norm("auto"), check_norm("2"), check_norm(float("inf"))
    ('auto', 2.0, inf)
    >>> check_norm("tight")
    Traceback (most recent call last):
    ValueError: p must be "auto" or a number in [1, inf], got 'tight'.
    """
    if isinstance(p, str):
        if p == AUTO:
            return p
        with suppress(ValueError):
            p = float(p)
    if isinstance(p, str) or p is None:
        raise ValueError(f'p must be "auto" or a number in [1, inf], got {quote(p)}.')
    return check_p(p)


def check_false_alarm_rate(rate: Any) -> float:
    """A share of the normal rows."""
    return check_share("false_alarm_rate", rate, of="the normal rows")


def check_confidence(confidence: float | None) -> float | None:
    """A probability to be sure with, or None."""
    if confidence is None:
        return None
    hint = "It is a probability: write 0.9 for nine calibration sets of ten, or None."
    return check_number("confidence", confidence, at_least=0.5, at_most=MOST_CONFIDENCE, hint=hint)
