"""The command line of lpfuse: tables in files, reports, questions, streams.

What takes long to import is imported inside the commands: ``lpfuse --help`` answers at once.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say what it lacks."""
    try:
        from lpfuse_cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "lpfuse").startswith("lpfuse"):
            raise
        print(
            f'The lpfuse command needs {error.name}. Install it: pip install "lpfuse[cli]"',
            file=sys.stderr,
        )
        sys.exit(2)
    app(prog_name="lpfuse")
