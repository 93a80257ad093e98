"""What no file of the repository may be: ``python -m tools.files FILE…``; without files, of all.

A text ends with one line end and holds no marks of a merge; no file is larger than a megabyte, but
for stored results.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.environments import ROOT

LARGEST = 2**20  # bytes
LARGEST_RESULT = 2**23  # of research/results: figures of every split and method, line by line
MERGE = re.compile(rb"^(<<<<<<<|>>>>>>>) ", re.MULTILINE)


def complaints(path: Path) -> Iterator[str]:
    """What is wrong with a file, in sentences."""
    content = path.read_bytes()
    most = LARGEST_RESULT if "results" in path.parts else LARGEST
    if len(content) > most:
        yield f"{path} has {len(content):,} bytes; {most:,} are the most."
    if b"\0" in content or not content:  # binary, or there to be empty
        return
    if not content.endswith(b"\n") or content.endswith(b"\n\n"):
        yield f"{path} must end with one line end."
    if MERGE.search(content):
        yield f"{path} holds marks of a merge."


def tracked() -> list[Path]:
    """The files that git knows, but for links and what was deleted."""
    told = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    names = (ROOT / name for name in told.stdout.decode().split("\0") if name)
    return [path for path in names if path.is_file() and not path.is_symlink()]


def main(names: list[str]) -> int:
    """Tell what is wrong, and return the exit status."""
    found = [each for path in map(Path, names or tracked()) for each in complaints(path)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
