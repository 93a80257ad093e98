"""The tree that Sphinx reads: the Markdown of the repository, laid out as a site.

Guides are written where they are read on their own, with links between files. Here they are
copied to the places that they have on the site, and their links are moved along: what is a page
of the site becomes a link to it, any other file of the repository a download.

    python docs/site/sources.py build/site-source
"""

import re
import shutil
import sys
from pathlib import Path
from posixpath import normpath, relpath

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "docs" / "site"
sys.path.insert(0, str(SITE))
from dashboard import dashboard  # noqa: E402
from notebook import notebook_page  # noqa: E402

# Pages from outside docs/, and the place of each on the site.
ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "RELEASING.md": "releasing.md",
    "research/README.md": "research/index.md",
    "research/speed/README.md": "research/speed.md",
    "docs/adr/README.md": "adr/index.md",
    "examples/paper.ipynb": "paper.md",
    "examples/notebooks/pyod_user.ipynb": "notebooks/pyod-user.md",
    "examples/notebooks/analyst.ipynb": "notebooks/analyst.md",
    "examples/notebooks/researcher.ipynb": "notebooks/researcher.md",
}
# What llms.txt links to beside pages.
MAP = {"llms.txt": "llms.txt", "examples/gallery": "gallery/index.rst"}
# Pages that are written for readers of the files, and on the site list their neighbours.
LISTED = {
    "results/paper.md": "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n",
    "adr/index.md": "\n```{toctree}\n:hidden:\n:glob:\n\n0*\n```\n",
    "research/index.md": "\n```{toctree}\n:hidden:\n\nspeed\n```\n",
}
LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def table_of_readme() -> str:
    """The section of README.md on how good it is; its links lead from docs/site."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("\n## How good is it\n")[2].partition("\n## ")[0].strip()
    return section.replace("](docs/", "](../")


# What a page holds a mark for, and what takes its place.
MADE = {"<!-- dashboard -->": dashboard, "<!-- table of README -->": table_of_readme}


def pages() -> dict[str, str]:
    """Markdown files of the repository, and the place of each on the site."""
    found = dict(ELSEWHERE)
    for path in sorted((ROOT / "docs").rglob("*.md")):
        name = path.relative_to(ROOT).as_posix()
        inside = path.relative_to(SITE if path.is_relative_to(SITE) else ROOT / "docs")
        found.setdefault(name, inside.as_posix())
    return found


def write_sources(target: Path) -> None:
    """Copy pages and pictures, and what pages link to; files that are as before keep their time."""
    placed = pages()
    for source, place in placed.items():
        if source == "README.md":
            continue
        notebook = source.endswith(".ipynb")
        pictures = target / _folder(source)  # as for any page, at their place in the repository
        text = notebook_page(ROOT / source, pictures) if notebook else (ROOT / source).read_text()
        for mark, made in MADE.items():
            if mark in text:
                text = text.replace(mark, made())
        text, linked = moved(text, source, placed)
        text += LISTED.get(place, "")
        if notebook:
            file = relpath(f"files/{source}", _folder(place) or ".")
            text += f"\n[The notebook itself]({file}), to run it.\n"
            linked.append(source)
        _write(target / place, text)
        for file in linked:
            _copy(ROOT / file, target / "files" / file)
    _write(target / "extra" / "llms.txt", map_for_assistants(placed))
    for picture in [*(ROOT / "docs").rglob("*.png"), *(ROOT / "docs").rglob("*.svg")]:
        above = SITE if picture.is_relative_to(SITE) else ROOT / "docs"
        _copy(picture, target / picture.relative_to(above))


def moved(text: str, source: str, placed: dict[str, str]) -> tuple[str, list[str]]:
    """The text of a page with links that fit its place, and the files that are to be downloads."""
    files: list[str] = []
    folder, here = _folder(source), _folder(placed[source])

    def move(match: re.Match[str]) -> str:
        target, hash_, anchor = match[2].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        file = normpath(f"{folder}/{target}") if folder else normpath(target)
        place = placed.get(file)
        if place is None and file.endswith((".png", ".svg")):
            place = file.removeprefix("docs/site/").removeprefix("docs/")
        if place is None:
            files.append(file)
            place = f"files/{file}"
        return f"{match[1]}{relpath(place, here or '.')}{hash_}{anchor}{match[3]}"

    lines, fenced = [], False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
            while (
                not fenced and not lines[-1].strip()
            ):  # doctest wants a blank line, readers do not
                lines.pop()
        lines.append(line if fenced else LINK.sub(move, line))
    return "\n".join(lines) + "\n", files


def map_for_assistants(placed: dict[str, str]) -> str:
    """llms.txt, with links to the pages of the site."""
    text, _ = moved((ROOT / "llms.txt").read_text(), "llms.txt", {**placed, **MAP})
    return re.sub(r"(\]\([^)]+)\.(?:md|rst)\)", r"\1.html)", text)


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _copy(source: Path, target: Path) -> None:
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


if __name__ == "__main__":
    from browser import write_wheels
    from reference import write_reference

    write_sources(Path(sys.argv[1]))
    write_wheels(Path(sys.argv[1]) / "extra" / "run")
    write_reference(Path(sys.argv[1]) / "reference")
