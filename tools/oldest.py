"""The oldest versions that all packages say they work with, as constraints for pip.

    python -m tools.oldest            # write tools/oldest.txt anew
    python -m tools.oldest --check    # say whether it is that of today's pyproject.toml

The step `oldest` installs these, and runs tests with them: a lower bound is a promise, not a guess.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECTS = [
    ROOT / "packages" / name / "pyproject.toml"
    for name in ("lpfuse", "lpfuse-cli", "lpfuse-onnx", "lpfuse-clients", "lpfuse-faces")
]
FILE = Path(__file__).with_name("oldest.txt")
HEAD = "# The lower bounds of all pyproject.toml. Made by `python -m tools.oldest`; do not edit.\n"


def requirements(project: Path) -> Iterator[str]:
    """What a package and its extras require, but for packages of this repository."""
    table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    listed = chain(table["dependencies"], *table["optional-dependencies"].values())
    yield from (each for each in listed if not each.startswith("lpfuse"))


def lower_bound(requirement: str) -> tuple[str, str]:
    """Name and the version behind ``>=``, which every requirement has.

    By the standard library alone: a step must run where nothing is installed yet.
    """
    found = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\w.]+)(?:,<[\w.]+)?", requirement)
    if found is None:
        raise ValueError(f"{requirement} must be written as name>=1.2 or name>=1.2,<3.")
    return found[1], found[2]


def constraints() -> str:
    """The text of the file. Two requirements of one package must have the same bound."""
    bounds: dict[str, str] = {}
    for name, bound in map(lower_bound, chain.from_iterable(map(requirements, PROJECTS))):
        if bounds.setdefault(name, bound) != bound:
            raise ValueError(f"{name} has two lower bounds, {bounds[name]} and {bound}.")
    lines = (f"{name}=={bound}" for name, bound in sorted(bounds.items()))
    return HEAD + "\n".join(lines) + "\n"


def main() -> None:
    if sys.argv[1:] == ["--check"]:
        if FILE.read_text(encoding="utf-8") != constraints():
            sys.exit("tools/oldest.txt is not that of pyproject.toml. Run: python -m tools.oldest")
        return
    FILE.write_text(constraints(), encoding="utf-8")


if __name__ == "__main__":
    main()
