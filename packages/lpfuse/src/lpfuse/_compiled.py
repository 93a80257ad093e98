"""Whether compiled code or NumPy computes the innermost formulas: decided here, once a process.

Some modules have a second form in Cython. It is built where a compiler is found when lpfuse is
installed, and comes ready with wheels for a platform; without it the form in NumPy serves, with the
same answers. All compiled modules serve, or none.
"""

from __future__ import annotations

import os
import warnings
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

PACKAGE = Path(__file__).parent
# A name for every .pyx file of the package: a test compares.
MODULES = (
    "lpfuse._arrays._rows",
    "lpfuse.optim._newton",
    "lpfuse.optim._surface",
)
SOURCES = (".pyx", ".pxd", ".h")  # what a compiled module is made of
REMEDY = (
    "Install lpfuse anew where a C compiler is found (LPFUSE_BUILD=required tells why it fails), "
    "or set LPFUSE_COMPILED=0 to use NumPy."
)


def compiled(name: str) -> ModuleType | None:
    """Return a compiled module by its full name, or None where NumPy serves.

    The variable LPFUSE_COMPILED of the environment decides: 0 is NumPy, 1 is an error where
    something compiled is missing; without it, whatever was built.
    """
    return _load(name) if _uses_compiled() else None


def solver_core() -> str:
    """Return which form of the solvers' innermost formulas serves: "compiled" or "NumPy".

    Both give the same answers to rounding, under the same certificates. `lpfuse version` tells it,
    too.

    Examples
    --------
    >>> from lpfuse.optim import solver_core
    >>> solver_core() in ("compiled", "NumPy")
    True
    """
    found = [compiled(name) is not None for name in MODULES]
    return "compiled" if found and all(found) else "NumPy"


def sources_digest(package: Path = PACKAGE) -> str:
    """Return a digest of all sources of compiled modules, which the build stamps into each of them.

    A library of other sources than those beside it is stale: `python -m tools.step compiled`
    builds it anew.
    """
    digest = sha256()
    for path in sorted(path for path in package.rglob("*") if path.suffix in SOURCES):
        digest.update(f"{path.relative_to(package).as_posix()}\n".encode())
        digest.update(path.read_text(encoding="utf-8").encode())  # whatever ends its lines
    return digest.hexdigest()


def library_of(name: str, package: Path = PACKAGE) -> Path | None:
    """Return the built library of a module, found on the disk.

    Importing it would import its parents.
    """
    stem = package.joinpath(*name.split(".")[1:])
    found = (stem.with_name(stem.name + suffix) for suffix in EXTENSION_SUFFIXES)
    return next((path for path in found if path.is_file()), None)


def _requested_mode() -> str | None:
    told = os.environ.get("LPFUSE_COMPILED") or None
    if told not in (None, "0", "1"):
        raise ImportError(f"LPFUSE_COMPILED must be 0 (NumPy) or 1 (compiled), not {told[:20]!r}.")
    return told


@cache
def _uses_compiled() -> bool:
    demand = _requested_mode()
    missing = [name for name in MODULES if library_of(name) is None]
    if demand == "1" and missing:
        raise ImportError(f"LPFUSE_COMPILED=1, but {missing[0]} was not built. {REMEDY}")
    return demand != "0" and not missing


@cache
def _load(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    # Cython raises TypeError where a function of SciPy has another signature than it was built for.
    except (ImportError, TypeError) as error:
        if _requested_mode() == "1":
            raise ImportError(f"{name} cannot be loaded: {error}. {REMEDY}") from error
        told = f"{name} cannot be loaded ({error}): NumPy serves, more slowly. {REMEDY}"
        warnings.warn(told, RuntimeWarning, stacklevel=2)
        return None
