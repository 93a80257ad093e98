"""Estimators in a file, without pickle: reading one executes nothing that the file says.

The file is a zip archive: a manifest of plain values (``objects``), arrays as ``.npy`` members
(``archive``), and other makers' estimators as skops members (``foreign``).
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from typing import Any

from lpfuse.io._archive import Archive, Refused, write
from lpfuse.io._objects import Reader, Writer

# 2: classes go by the names of `lpfuse._saved`. Format 1 was never released, and is refused.
FORMAT, FORMAT_VERSION = "lpfuse", 2

__all__ = ["load", "save"]


def save(estimator: Any, path: str | PathLike[str]) -> None:
    """Write an estimator, fitted or not, to a file that `load` reads.

    Parameters
    ----------
    estimator : estimator
        Of lpfuse, or a pipeline of such. Parts of scikit-learn and of other makers need skops:
        ``pip install "lpfuse[persist]"``. Functions, and classes that no other program could
        import, are refused before anything is written.
    path : str or path
        The file. One that exists is replaced, and only when the new one is complete.

    Notes
    -----
    What parts share, they share in the file and after loading too. Arrays of torch and other
    libraries come back as NumPy arrays; scores are computed in the library of the scored rows
    anyway.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from lpfuse import SVDD
    >>> from lpfuse.io import load, save
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> detector = SVDD().fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(detector, Path(folder) / "detector.lpfuse")
    ...     copy = load(Path(folder) / "detector.lpfuse")
    >>> bool((copy.score_samples(X) == detector.score_samples(X)).all())
    True
    """
    writer = Writer()
    manifest = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "lpfuse": _version(),
        "root": writer.value(estimator, ""),
        "objects": writer.objects,
    }
    write(path, manifest, writer.members)


def load(path: str | PathLike[str], trusted: Iterable[str | type] = ()) -> Any:
    """Read what `save` wrote; it scores exactly as before.

    Parameters
    ----------
    path : str or path
        The file.
    trusted : iterable of str or type, default=()
        Further types that the file may hold, such as those of PyOD. lpfuse and scikit-learn are
        trusted already. Without them, the message of the error names what is missing; name a type
        only if you trust the file, for code of that type will run.

    Returns
    -------
    estimator
        As it was saved.

    Raises
    ------
    ValueError
        For a file that is damaged, is of a newer format, or holds what is not trusted.
    """
    names = _names([trusted] if isinstance(trusted, str | type) else trusted)
    with open(path, "rb") as file:
        try:
            archive = Archive(file)
            root, objects = _checked(archive.manifest())
            estimator = Reader(archive, names).read(root, objects)
            archive.refuse_leftovers()
        except (ImportError, Warning):
            raise
        except Refused as error:
            raise ValueError(f"{path} is refused. {error}") from error
        except Exception as error:  # whatever a reader may stumble over in a damaged file
            raise ValueError(
                f"{path} is damaged, or was not written by lpfuse ({type(error).__name__}: "
                f"{error}). Save the estimator again, or restore the file from a copy."
            ) from error
    return estimator


def _checked(manifest: Any) -> tuple[Any, Any]:
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise Refused("The file was not written by lpfuse: its manifest does not say so.")
    number = manifest.get("version")
    if type(number) is not int or number < 1:
        raise Refused(f"The version of the file's format must be a whole number, got {number!r}.")
    if number > FORMAT_VERSION:
        raise Refused(
            f"The file has format {number}, of lpfuse {manifest.get('lpfuse')}; this is lpfuse "
            f"{_version()}, which reads format {FORMAT_VERSION}. Upgrade: "
            "pip install --upgrade lpfuse"
        )
    if number < FORMAT_VERSION:
        raise Refused(
            f"The file has format {number}, of an lpfuse before its first release; this is lpfuse "
            f"{_version()}, which reads format {FORMAT_VERSION}. Fit and save the model again."
        )
    return manifest["root"], manifest["objects"]


def _names(trusted: Iterable[str | type]) -> list[str]:
    return [t if isinstance(t, str) else f"{t.__module__}.{t.__qualname__}" for t in trusted]


def _version() -> str:
    try:
        return version("lpfuse")
    except PackageNotFoundError:
        return "unknown"
