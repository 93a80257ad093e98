"""The package of the command, lpfuse-cli, imported by name when it is asked for: it lies above."""

from __future__ import annotations

import sys
from importlib import import_module
from os import PathLike
from typing import Any

INSTALL = 'Install it: pip install "lpfuse[cli]"'


def main() -> None:
    """Run the command ``lpfuse``, or say what it lacks."""
    try:
        command = import_module("lpfuse_cli")
    except ModuleNotFoundError as error:
        if error.name != "lpfuse_cli":
            raise
        print(f"The lpfuse command needs lpfuse-cli. {INSTALL}", file=sys.stderr)
        sys.exit(2)
    command.main()


def write_card(model: Any, path: str | PathLike[str], X: Any, y: Any, **texts: Any) -> None:
    """Write a model card; parameters as in ``lpfuse_cli.report.write_card``."""
    try:
        report = import_module("lpfuse_cli.report")
    except ModuleNotFoundError as error:
        if error.name != "lpfuse_cli":
            raise
        raise ImportError(f"Model cards are written by lpfuse-cli. {INSTALL}") from error
    report.write_card(model, path, X, y, **texts)
