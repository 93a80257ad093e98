"""Models in files, as several commands read them: a fused detector, bare or for tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def load_detector(path: Path, trusted: Iterable[str], key: Path | None, use: str) -> Any:
    """A `TableModel` or a `FusedDetector`; anything else is refused, for this use."""
    from lpfuse import FusedDetector, load
    from lpfuse.tables import TableModel, load_model

    secret = None if key is None else key.read_bytes()
    path = path.expanduser()
    if path.is_file():
        model = load(path, trusted, key=secret)
        if isinstance(model, FusedDetector):
            return model
        if not isinstance(model, TableModel):
            raise ValueError(
                f"{path} holds {type(model).__name__}. {use} needs a fused detector, of "
                "`lpfuse fit` or of FusedDetector.save."
            )
    return load_model(path, trusted, key=secret)


@contextmanager
def model_errors(path: Path, purpose: str) -> Iterator[None]:
    """Say of errors which model they are of; a file that was tampered with may hold anything."""
    try:
        yield
    except ValueError as error:
        error.add_note(f"The model is {path}.")
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
        raise ValueError(
            f"{path} cannot be {purpose}: it is damaged, or of another version of lpfuse "
            f"({type(error).__name__}: {error}). Fit the model again, or restore the file."
        ) from error
