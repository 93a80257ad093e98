"""Every Markdown file: links lead to files and headings that there are, and code is code."""

import ast
import json
import re
import subprocess
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
FENCED = re.compile(r"^( *)(`{3,})([^\n`]*)\n(.*?)^\1\2 *$", re.M | re.S)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")


def parse_bash(code):
    """Read a script without running it."""
    told = subprocess.run(["bash", "-n"], input=code, text=True, capture_output=True, check=False)
    if told.returncode:
        raise SyntaxError(told.stderr)


PARSED_BY = {
    "bash": parse_bash,
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


def test_links_lead_to_files_and_headings():
    assert FILES
    broken = {path.relative_to(ROOT).as_posix(): [*broken_links(path)] for path in FILES}
    assert not {name: links for name, links in broken.items() if links}


def test_links_that_lead_nowhere_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One `two`, three\n[a](#one-two-three) [b](#one) [c](x.md) `[d](y.md)`\n# Two\n# Two\n"
    )
    assert list(broken_links(page)) == ["#one", "x.md#"]
    assert anchors(page) == ["one-two-three", "two", "two-1"]


def unreadable_code(path):
    """Blocks that their language cannot parse. Examples with prompts are run, by doctest."""
    for _, _, language, code in FENCED.findall(path.read_text(encoding="utf-8")):
        parse = PARSED_BY.get(language.strip())
        try:
            if parse and ">>>" not in code:
                parse(code)
        except Exception as error:  # each parser has exceptions of its own
            yield f"{language}: {error}\n{code}"


def test_code_blocks_parse_in_their_language():
    unreadable = {path.relative_to(ROOT).as_posix(): [*unreadable_code(path)] for path in FILES}
    assert not {name: blocks for name, blocks in unreadable.items() if blocks}


def test_code_blocks_that_do_not_parse_are_found(tmp_path):
    page = tmp_path / "page.md"
    blocks = {"python": "a = = b", "json": "{a}", "toml": "a", "yaml": "a: b: c", "bash": "if true"}
    page.write_text("".join(f"```{name}\n{code}\n```\n" for name, code in blocks.items()))
    found = [each.partition(":")[0] for each in unreadable_code(page)]
    assert found == list(blocks)


def test_prompts_are_where_doctest_finds_them():
    """A guide with prompts lies where `make test` looks."""
    looked_at = ("docs/", "README.md", "packages/")
    for path in FILES:
        name = path.relative_to(ROOT).as_posix()
        if re.search(r"^ *>>> ", path.read_text(encoding="utf-8"), re.M):
            assert name.startswith(looked_at), name
            assert not name.startswith("docs/site/"), name


def overtaken_by(status):
    """Numbers of the decisions that a status says have changed this one."""
    parts = [part for part in status.split(";") if re.search(r"(amended|replaced) by", part)]
    return {number for part in parts for number in re.findall(r"\[(\d{4})\]\(", part)}


def test_the_index_of_decisions_says_what_their_files_say():
    folder = ROOT / "docs" / "adr"
    rows = re.findall(
        r"^\| \[(\d{4})\]\((.+?)\) \| (.+?) \| (.+?) \| (.+?) \|$",
        (folder / "README.md").read_text(),
        re.M,
    )
    files = sorted(path.name for path in folder.glob("0*.md"))
    assert [name for _, name, *_ in rows] == files
    assert (folder / "README.md").read_text().count("\n|") == len(files) + 2  # nothing else
    for _, name, _, _, status in rows:
        told = re.search(r"^\*\*Status:\*\* (.+)$", (folder / name).read_text(), re.M)
        assert told, f"{name} has no line '**Status:** …'"
        assert overtaken_by(status) == overtaken_by(told[1]), name


def test_overtaken_decisions_are_found():
    status = "accepted; adds to [0001](a.md); scores amended by [0002](b.md), [0003](c.md)"
    assert overtaken_by(status) == {"0002", "0003"}
    assert not overtaken_by("in force")
