"""The oldest versions that both packages say they work with, as constraints for pip.

    python -m tools.oldest            # write tools/oldest.txt anew
    python -m tools.oldest --check    # say whether it is that of today's pyproject.toml

The step `oldest` installs these, and runs tests with them: a lower bound is a promise, not a guess.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECTS = [ROOT / "packages" / name / "pyproject.toml" for name in ("lpfuse", "lpfuse-faces")]
FILE = Path(__file__).with_name("oldest.txt")
HEAD = "# The lower bounds of both pyproject.toml. Made by `python -m tools.oldest`; do not edit.\n"


def requirements(project: Path) -> Iterator[Requirement]:
    """What a package and its extras require, but for packages of this repository."""
    table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    listed = chain(table["dependencies"], *table["optional-dependencies"].values())
    for requirement in map(Requirement, listed):
        if not requirement.name.startswith("lpfuse"):
            yield requirement


def lower_bound(requirement: Requirement) -> Version:
    """The version behind ``>=``, which every requirement has."""
    found = [Version(each.version) for each in requirement.specifier if each.operator == ">="]
    if len(found) != 1:
        raise ValueError(f"{requirement} must have one lower bound, such as {requirement.name}>=1.")
    return found[0]


def constraints() -> str:
    """The text of the file: of two bounds the higher is the oldest that both admit."""
    bounds: dict[str, Version] = {}
    for project in PROJECTS:
        for requirement in requirements(project):
            bound = lower_bound(requirement)
            bounds[requirement.name] = max(bound, bounds.get(requirement.name, bound))
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
