"""The versions that figures can depend on."""

from __future__ import annotations

import platform
from importlib.metadata import version


def versions() -> dict[str, str]:
    """Of lpfuse, Python, and what the figures are computed with.

    Examples
    --------
    >>> list(versions())
    ['lpfuse', 'python', 'numpy', 'scipy', 'scikit-learn']
    """
    return {
        "lpfuse": version("lpfuse"),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
    }
