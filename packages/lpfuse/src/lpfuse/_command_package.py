"""The package of the command, lpfuse-cli, imported by name when it is asked for: it lies above."""

from __future__ import annotations

import sys
from importlib import import_module
from os import PathLike
from types import ModuleType
from typing import Any

INSTALL = 'Install it: pip install "lpfuse[cli]"'


def main() -> None:
    """Run the command ``lpfuse``, or say what it lacks."""
    try:
        command = _command_package("The lpfuse command needs lpfuse-cli.")
    except ImportError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    command.main()


def write_card(model: Any, path: str | PathLike[str], X: Any, y: Any, **texts: Any) -> None:
    """Write a model card; parameters as in ``lpfuse_cli.report.write_card``."""
    _command_package("Model cards are written by lpfuse-cli.")
    import_module("lpfuse_cli.report").write_card(model, path, X, y, **texts)


def _command_package(purpose: str) -> ModuleType:
    """Import lpfuse-cli; where it is not installed, say for what it is needed."""
    try:
        return import_module("lpfuse_cli")
    except ModuleNotFoundError as error:
        if error.name != "lpfuse_cli":
            raise
        raise ImportError(f"{purpose} {INSTALL}") from error
