"""How long the guides are and how easy to read: ``python -m tools.readability [REVISION]``.

For each page of docs/: its words as ``wc -w`` counts them, and of its running text the mean length
of a sentence in words and Flesch's reading ease,

    206.835 − 1.015 · words/sentence − 84.6 · syllables/word.

Higher is easier. Code, tables and headings are no running text. With a revision of git, the figures
of that revision stand beside those of today.
"""

from __future__ import annotations

import re
import subprocess
import sys

from tools.environments import ROOT

LIMIT = 25_000  # words of all guides together
DROPPED = re.compile(
    r"^( *)(`{3,}|:{3,})[^\n]*\n.*?^\1\2 *$"  # code and directives
    r"|<!--.*?-->|!\[[^\]]*\]\([^)]*\)"
    r"|^ *\|[^\n]*$|^#[^\n]*$|^ {4,}[^\n]*$",  # tables, headings, indented blocks
    re.M | re.S,
)
# A sentence ends with a mark before a capital, with a paragraph, or with an item of a list.
ENDS = re.compile(r"(?<=[.!?:;])[)\"*]*\s+(?=[\"'(*\[`]*[A-Z0-9])|\n\s*\n|\n *(?:[-*]|\d+\.) ")


def sentences(text: str) -> list[list[str]]:
    """The sentences of the running text, each as its words; what backquotes hold is one word."""
    text = DROPPED.sub("\n\n", text)
    text = re.sub(r"`[^`\n]+`", "Code", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    found = [re.findall(r"[A-Za-z][A-Za-z'’-]*|\d[\d.,]*", part) for part in ENDS.split(text)]
    return [words for words in found if len(words) > 1]


def syllables(word: str) -> int:
    """Groups of vowels, without a silent e at the end; a number counts as one."""
    plain = re.sub(r"(?<=[^aeiouyl])e$|(?<=[^aeiouytd])ed$", "", word.lower())
    return max(1, len(re.findall(r"[aeiouy]+", plain)))


def figures(text: str) -> tuple[int, float, float]:
    """Words, words a sentence, reading ease."""
    parts = sentences(text)
    words = [word for part in parts for word in part]
    if not words:
        return len(text.split()), 0.0, 0.0
    length = len(words) / len(parts)
    ease = 206.835 - 1.015 * length - 84.6 * sum(map(syllables, words)) / len(words)
    return len(text.split()), length, ease


def guides() -> dict[str, str]:
    """The guides by name."""
    return {path.name: path.read_text("utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}


def guides_of(revision: str) -> dict[str, str]:
    """The guides as a revision of git has them."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, check=True, text=True
        ).stdout

    names = git("ls-tree", "--name-only", revision, "docs/").split()
    return {
        name.removeprefix("docs/"): git("show", f"{revision}:{name}")
        for name in names
        if name.endswith(".md")
    }


def table(versions: list[dict[str, str]]) -> str:
    """The figures of one or several versions of the guides as a Markdown table."""
    lines = []
    for name in sorted({name for pages in versions for name in pages}):
        cells = [
            "{:,} | {:.1f} | {:.0f}".format(*figures(pages[name])) if name in pages else "– | – | –"
            for pages in versions
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    totals = []
    for pages in versions:
        words, length, ease = figures("\n\n".join(pages.values()))
        totals.append(f"{words:,} | {length:.1f} | {ease:.0f}")
    head = " | ".join(["words | words a sentence | reading ease"] * len(versions))
    return "\n".join(
        [f"| page | {head} |", "|---" + "|--:" * 3 * len(versions) + "|", *lines,
         f"| all | {' | '.join(totals)} |"]
    )  # fmt: skip


if __name__ == "__main__":
    before = [guides_of(revision) for revision in sys.argv[1:]]
    print(table([*before, guides()]))
