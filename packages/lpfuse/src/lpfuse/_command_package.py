"""Packages above the library, such as that of the command: imported by name when asked for."""

from __future__ import annotations

import sys
from importlib import import_module
from os import PathLike
from types import ModuleType
from typing import Any


def main() -> None:
    """Run the command ``lpfuse``, or say what it lacks."""
    try:
        command = import_package("lpfuse_cli", "The lpfuse command needs lpfuse-cli.", extra="cli")
    except ImportError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    command.main()


def write_card(model: Any, path: str | PathLike[str], X: Any, y: Any, **texts: Any) -> None:
    """Write a model card; parameters as in ``lpfuse_cli.report.write_card``."""
    import_package("lpfuse_cli", "Model cards are written by lpfuse-cli.", extra="cli")
    import_module("lpfuse_cli.report").write_card(model, path, X, y, **texts)


def import_package(name: str, purpose: str, *, extra: str) -> ModuleType:
    """Import a package above this one; where it is not installed, say for what it is needed."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise
        message = f'{purpose} Install it: pip install "lpfuse[{extra}]"'
        raise ImportError(message) from error
