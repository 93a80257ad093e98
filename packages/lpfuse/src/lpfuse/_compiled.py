"""Choice between compiled code and NumPy for the innermost loops, once per process.

Some modules have a Cython implementation, which is built when lpfuse is installed with a compiler
and included in wheels. Without it NumPy computes the same results. Either all compiled modules are
used, or none.
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
# Every .pyx file of the package, checked by a test.
MODULES = (
    "lpfuse._arrays._columns",
    "lpfuse._arrays._rows",
    "lpfuse.detectors._neighbours",
    "lpfuse.detectors._trees",
    "lpfuse.optim._newton",
    "lpfuse.optim._surface",
)
SOURCES = (".pyx", ".pxd", ".h")
REMEDY = (
    "Reinstall lpfuse with a C compiler (LPFUSE_BUILD=required shows why a build fails), or set "
    "LPFUSE_COMPILED=0 to use NumPy."
)


def compiled(name: str) -> ModuleType | None:
    """Return a compiled module by its full name, or None where NumPy is used.

    The environment variable LPFUSE_COMPILED decides: 0 is NumPy, 1 raises where a compiled module
    is missing; without it, compiled modules are used if they were built.
    """
    return _load(name) if _uses_compiled() else None


def solver_core() -> str:
    """Return which implementation of the solvers is used: "compiled" or "NumPy".

    Both give the same results up to rounding, with the same certificates. `lpfuse version` shows
    it, too.

    Examples
    --------
    >>> from lpfuse.optim import solver_core
    >>> solver_core() in ("compiled", "NumPy")
    True
    """
    found = [compiled(name) is not None for name in MODULES]
    return "compiled" if found and all(found) else "NumPy"


def sources_digest(package: Path = PACKAGE) -> str:
    """Return a digest of all sources of compiled modules, which the build stores in each of them.

    A library with another digest is stale: `python -m tools.step compiled` rebuilds it.
    """
    digest = sha256()
    for path in sorted(path for path in package.rglob("*") if path.suffix in SOURCES):
        digest.update(f"{path.relative_to(package).as_posix()}\n".encode())
        digest.update(path.read_text(encoding="utf-8").encode())  # independent of line endings
    return digest.hexdigest()


def library_of(name: str, package: Path = PACKAGE) -> Path | None:
    """Return the path of a module's built library, without importing its parents."""
    stem = package.joinpath(*name.split(".")[1:])
    found = (stem.with_name(stem.name + suffix) for suffix in EXTENSION_SUFFIXES)
    return next((path for path in found if path.is_file()), None)


def _requested_mode() -> str | None:
    mode = os.environ.get("LPFUSE_COMPILED") or None
    if mode not in (None, "0", "1"):
        raise ImportError(f"LPFUSE_COMPILED must be 0 (NumPy) or 1 (compiled), not {mode[:20]!r}.")
    return mode


@cache
def _uses_compiled() -> bool:
    mode = _requested_mode()
    missing = [name for name in MODULES if library_of(name) is None]
    if mode == "1" and missing:
        raise ImportError(f"LPFUSE_COMPILED=1, but {missing[0]} was not built. {REMEDY}")
    return mode != "0" and not missing


@cache
def _load(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    # Cython raises TypeError where a SciPy function has another signature than at build time.
    except (ImportError, TypeError) as error:
        if _requested_mode() == "1":
            raise ImportError(f"{name} cannot be loaded: {error}. {REMEDY}") from error
        message = f"{name} cannot be loaded ({error}): the slower NumPy is used. {REMEDY}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return None
