"""Every Markdown file: links lead to files and headings that there are, and code is code."""

import ast
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
FENCED = re.compile(r"^( *)(`{3,})([^\n`]*)\n(.*?)^\1\2 *$", re.M | re.S)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
PARSED_BY = {
    "python": ast.parse,
    "json": json.loads,
    "toml": tomllib.loads,
    "yaml": yaml.safe_load,
}


def markdown_files():
    """Those of the repository, and those that are about to be."""
    if not (ROOT / ".git").exists():
        return sorted(ROOT.rglob("*.md"))
    told = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return [ROOT / name for name in told.stdout.splitlines() if (ROOT / name).is_file()]


FILES = markdown_files()


def prose(path):
    """The text without code, in which brackets are no links."""
    return re.sub(r"`[^`\n]+`", "", FENCED.sub("", path.read_text(encoding="utf-8")))


def anchors(path):
    """What the headings of a file are called in links, as GitHub and MyST call them."""
    found, text = [], FENCED.sub("", path.read_text(encoding="utf-8"))
    for heading in re.findall(r"^#{1,6} +(.*?) *#*$", text, re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        plain = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        earlier = sum(
            re.fullmatch(rf"{re.escape(plain)}(-\d+)?", each) is not None for each in found
        )
        found.append(f"{plain}-{earlier}" if earlier else plain)
    return found


def broken_links(path):
    for target, anchor in LINK.findall(prose(path)):
        if "://" in target or target.startswith("mailto:"):
            continue
        file = path.parent / target if target else path
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            yield f"{target}#{anchor}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings(path):
    assert not list(broken_links(path))


def test_links_that_lead_nowhere_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One `two`, three\n[a](#one-two-three) [b](#one) [c](x.md) `[d](y.md)`\n# Two\n# Two\n"
    )
    assert list(broken_links(page)) == ["#one", "x.md#"]
    assert anchors(page) == ["one-two-three", "two", "two-1"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_code_can_be_read_by_what_it_is_for(path):
    """Examples with prompts are run, by doctest; here are those without."""
    for _, _, language, code in FENCED.findall(path.read_text(encoding="utf-8")):
        parse = PARSED_BY.get(language.strip())
        if parse and ">>>" not in code:
            parse(code)
        elif language.strip() == "bash":
            subprocess.run(["bash", "-n"], input=code, text=True, check=True)


def test_prompts_are_where_doctest_finds_them():
    """A guide with prompts lies where `make test` looks."""
    looked_at = ("docs/", "README.md", "packages/")
    for path in FILES:
        name = path.relative_to(ROOT).as_posix()
        if re.search(r"^ *>>> ", path.read_text(encoding="utf-8"), re.M):
            assert name.startswith(looked_at), name
            assert not name.startswith("docs/site/"), name
