"""Commands that are told before they run, and environments that are thrown away."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"


def run(*command: object, cwd: Path = ROOT, **variables: str) -> None:
    """Say what is run, run it, and raise where it fails."""
    words = [str(word) for word in command]
    print("$", shlex.join(words), flush=True)
    subprocess.run(words, cwd=cwd, env=os.environ | variables, check=True)


class Environment:
    """A virtual environment in a folder of its own, which is also where its commands run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder / "venv", with_pip=True)
        self.programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")

    def run(
        self, program: str, *arguments: object, cwd: Path | None = None, **variables: str
    ) -> None:
        """Run one of its programs; nothing of the clone is on its path."""
        # A PYTHONPATH of who calls would show the sources in place of what is installed.
        variables |= {"PYTHONPATH": ""}
        run(self.programs / program, *arguments, cwd=cwd or self.folder, **variables)

    def pip(self, *arguments: object, **variables: str) -> None:
        """Run pip."""
        quiet = ("--quiet", "--disable-pip-version-check")
        self.run("python", "-m", "pip", *quiet, *arguments, **variables)


@contextmanager
def environment() -> Iterator[Environment]:
    """A clean environment of the Python that runs this, gone in the end."""
    # Programs of Windows may still be open for a moment after they have ended.
    options = {"ignore_cleanup_errors": True} if sys.platform == "win32" else {}
    with tempfile.TemporaryDirectory(prefix="step-", **options) as folder:
        yield Environment(Path(folder))
