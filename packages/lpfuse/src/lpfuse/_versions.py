"""The versions that figures can depend on, and which form of the solvers' core computed them."""

from __future__ import annotations

import platform
from importlib.metadata import version

from lpfuse._compiled import solver_core


def versions() -> dict[str, str]:
    """Of lpfuse, Python, and what the figures are computed with.

    Examples
    --------
    >>> list(versions())
    ['lpfuse', 'python', 'numpy', 'scipy', 'scikit-learn', 'solver core']
    """
    return {
        "lpfuse": version("lpfuse"),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
        "solver core": solver_core(),
    }
