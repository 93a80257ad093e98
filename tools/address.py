"""Where the project lives on the web: said here once, and written wherever an index looks for it.

    python -m tools.address             # write ADDRESS into pyproject.toml, README.md, CITATION.cff
    python -m tools.address --check     # say which of them do not hold it

While ADDRESS is empty, none of them names an address, and `tests/test_metadata.py` says so.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ADDRESS = ""  # of the repository, such as https://example.org/lpfuse/lpfuse

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))
# What an index shows, and where in the repository it is.
PAGES = {
    "Documentation": "/blob/main/docs/site/guide.md",
    "Source": "",
    "Issues": "/issues",
    "Changelog": "/blob/main/CHANGELOG.md",
}
URLS = re.compile(r"\n\[project\.urls\]\n(?:.+\n)*")
LINKS = re.compile(r"<!-- links -->\n(?:.*\n)*?<!-- end -->\n|\Z")
CODE = re.compile(r'^repository-code: ".*"\n|(?=^license: )', re.MULTILINE)


def in_project(text: str, address: str) -> str:
    """Return a pyproject.toml with the table of addresses before its scripts and entry points."""
    pages = "".join(f'{name} = "{address}{path}"\n' for name, path in PAGES.items())
    text = URLS.sub("", text)
    table = f"\n[project.urls]\n{pages}" if address else ""
    head, _, rest = text.partition("\n[project.optional-dependencies]\n")
    return f"{head}{table}\n[project.optional-dependencies]\n{rest}"


def in_readme(text: str, address: str) -> str:
    """Return a README whose last paragraph links to the pages; links in full, as an index needs."""
    listed = " · ".join(f"[{name}]({address}{path})" for name, path in PAGES.items())
    shown = f"<!-- links -->\n{listed}\n<!-- end -->\n" if address else ""
    return (
        LINKS.sub(lambda _: shown, LINKS.sub("", text).rstrip() + "\n\n", count=1).rstrip() + "\n"
    )


def in_citation(text: str, address: str) -> str:
    """Return a CITATION.cff that names the repository."""
    shown = f'repository-code: "{address}"\n' if address else ""
    return CODE.sub(lambda _: shown, re.sub(r'^repository-code: ".*"\n', "", text, flags=re.M), 1)


def files(root: Path = ROOT) -> dict[Path, object]:
    """Return every file that holds the address, with the function that writes it."""
    found: dict[Path, object] = {root / "CITATION.cff": in_citation}
    for name in PACKAGES:
        found[root / "packages" / name / "pyproject.toml"] = in_project
        found[root / "packages" / name / "README.md"] = in_readme
    return found


def wrong(address: str, root: Path = ROOT) -> list[Path]:
    """Return the files that do not hold the address."""
    read = {path: path.read_text(encoding="utf-8") for path in files(root)}
    return [path for path, put in files(root).items() if put(read[path], address) != read[path]]


def main(arguments: list[str]) -> int:
    stale = wrong(ADDRESS)
    if arguments == ["--check"]:
        print("\n".join(f"{path} does not hold ADDRESS: python -m tools.address" for path in stale))
        return bool(stale)
    for path in stale:
        put = files()[path]
        path.write_text(put(path.read_text(encoding="utf-8"), ADDRESS), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
