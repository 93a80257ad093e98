"""Models for tables in files."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from lpfuse._files import no_model
from lpfuse._format import plain
from lpfuse.io import load
from lpfuse.tables._model import TableModel


def load_model(
    path: str | PathLike[str], trusted: Iterable[str] = (), *, key: bytes | None = None
) -> TableModel:
    """Read a model of `TableModel.save`, and try it out on a row.

    Parameters
    ----------
    path : path-like
        The file.
    trusted : iterable of str, default=()
        Types of other makers that it may hold, see :func:`lpfuse.load`.
    key : bytes, optional
        The secret that signed it.
    """
    path = Path(path).expanduser()
    if not path.exists() or path.is_dir():
        raise FileNotFoundError(no_model(path))
    model = load(path, trusted, key=key)
    if not isinstance(model, TableModel):
        raise ValueError(
            f"{plain(path)} holds {type(model).__name__}, which knows no columns of tables. Fit a "
            "model with TableModel.fit, or score in Python."
        )
    try:
        with warnings.catch_warnings(action="ignore"):
            model.score(model.preparation.example())
    except Exception as error:  # whatever a forged file may lead to
        raise ValueError(
            f"{plain(path)} is damaged: it cannot score a row ({type(error).__name__}: "
            f"{plain(error)}). Fit the model again, or restore the file from a copy."
        ) from error
    return model
