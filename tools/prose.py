"""Spelling and simple grammar of everything that is written: ``python -m tools.prose FILE…``.

Spelling is codespell's, over all text files of the repository; words that only look misspelt are
listed in ``pyproject.toml``. Grammar is a few rules that a pattern can decide, over the prose of
the Markdown files, without code, links and tables.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.environments import ROOT
from tools.files import tracked

TEXTS = {".md", ".py", ".toml", ".txt", ".yml", ".yaml", ".cff", ".rst", ".pyx", ".js", ".css"}
# Vowels that are spoken as consonants, and consonants that are not spoken.
AS_CONSONANT = r"uni|use|usa|usual|one\b|once|eu|ut"
SILENT = r"hour|honest|honou?r|heir|x-|svm\b|lp\b|html\b|mcp\b|onnx\b|ℓ|8|11\b|18\b"
PLURAL = r"data(?! frame| set| col| point)|criteria|phenomena|hypotheses|analyses"
RULES = {
    "a word is repeated": r"\b(?!(?:that|had|very)\b)([a-z]{2,}) \1\b",
    "'an' before a consonant": rf"(?<!\w)an (?=(?:{AS_CONSONANT})|[bcdfgjkpqtvwyz][a-z])",
    "'a' before a vowel": rf"(?<![\w'])a (?!{AS_CONSONANT}|about)(?=[aeio][a-z]|u\w\w|{SILENT})",
    "'of' for 'have'": r"\b(?:could|should|would|must) of\b",
    "'allows to' lacks an object": r"\b(?:allow|permit)s? to\b",
    "no such plural": r"\b(?:evidences|knowledges|feedbacks)\b",
    "a plural after 'a'": rf"\ban? (?:{PLURAL})\b",
    "'its' has no apostrophe": r"\bits's\b|\bit's own\b",
}
NOT_PROSE = re.compile(
    r"^ *```.*?^ *```|^(?: {4}|\t).*$|^\|.*$|`[^`\n]*`|\$[^$\n]*\$|\]\([^)]*\)|<[^>\n]*>|https?://\S+",
    re.M | re.S,
)


def prose(text: str) -> str:
    """The running text of a Markdown file, each character at its place, the rest as dots."""
    return NOT_PROSE.sub(lambda found: re.sub(r"[^\n]", ".", found[0]), text)


def complaints(text: str) -> Iterator[tuple[int, str]]:
    """Lines and what is wrong there."""
    said = prose(text)
    for words, rule in RULES.items():
        for found in re.finditer(rule, said, re.I):
            line = said.count("\n", 0, found.start()) + 1
            near = " ".join(text[max(0, found.start() - 20) : found.end() + 20].split())
            yield line, f"{words}: …{near}…"


def main(names: list[str]) -> int:
    """Tell what is wrong, and return the exit status."""
    paths = [path for path in map(Path, names or tracked()) if path.suffix in TEXTS]
    # Written by code, whose words are read where they stand; numbers and cut names are no prose.
    paths = [path for path in paths if path.parent != ROOT / "docs" / "benchmarks"]
    run = [sys.executable, "-m", "codespell_lib", "--toml", str(ROOT / "pyproject.toml")]
    spelling = subprocess.run([*run, *map(str, paths)], cwd=ROOT, check=False).returncode
    found = [
        f"{path}:{line}: {told}"
        for path in paths
        if path.suffix == ".md"
        for line, told in complaints(path.read_text(encoding="utf-8"))
    ]
    print("\n".join(found), end="\n" if found else "")
    return 1 if spelling or found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
