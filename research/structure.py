"""How large the code is, and how many files a call walks through.

``python -m research.structure [-v]`` prints it.

A *walk* is the set of files of lpfuse in which a function is entered while a call runs, threads
included. Lines of code are lines with code on them: no blank line, comment or docstring counts.
"""

from __future__ import annotations

import ast
import contextlib
import io
import sys
import tempfile
import threading
import tokenize
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
CORE = ROOT / "packages" / "lpfuse" / "src"
COMMAND = ROOT / "packages" / "lpfuse-cli" / "src"
FACES = ROOT / "packages" / "lpfuse-faces" / "src"
LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Size(NamedTuple):
    """Lines of some files."""

    files: int
    code: int
    comments: int


def size_of(folder: Path) -> Size:
    """Lines of code and of comments of the Python files below a folder, but for its tests."""
    files = [path for path in folder.rglob("*.py") if "tests" not in path.parts]
    counts = [_lines_of(path.read_text()) for path in files]
    return Size(len(files), sum(code for code, _ in counts), sum(told for _, told in counts))


def _lines_of(source: str) -> tuple[int, int]:
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstrings |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    code, comments = set(), set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        if token.type not in LAYOUT:
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings), len(comments)


def walk(call: Callable[[], Any]) -> list[str]:
    """The files of lpfuse in which a function is entered while the call runs."""
    seen: set[str] = set()

    def look(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        # The body of a module runs once, when it is imported: that is no part of a walk.
        if event == "call" and "/src/lpfuse" in name and frame.f_code.co_name != "<module>":
            seen.add(name.partition("/src/")[2])

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(seen)


def walks() -> dict[str, list[str]]:
    """The walks of the calls that users make most, each warmed up before."""
    from lpfuse import FusedDetector, LpFusion

    rng = np.random.default_rng(0)
    S, labels = rng.normal(0.5, 1, size=(500, 6)), np.repeat([1, -1], [450, 50])
    X = np.concatenate([rng.normal(size=(300, 3)), rng.normal(1.5, 1, size=(20, 3))])
    y = np.repeat([1, -1], [300, 20])
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        fused = FusedDetector(random_state=0).fit(X, y)
        fit, score = _commands(Path(folder), X, y)
        calls: dict[str, Callable[[], Any]] = {
            "LpFusion.fit": lambda: LpFusion(p=2).fit(S, labels),
            "FusedDetector.fit": lambda: FusedDetector(random_state=0).fit(X, y),
            "FusedDetector.predict": lambda: fused.predict(X),
            "lpfuse fit": fit,
            "lpfuse score": score,
        }
        found = {}
        for name, call in calls.items():
            call()
            found[name] = walk(call)
    return found


def _commands(folder: Path, X: Any, y: Any) -> tuple[Callable[[], None], Callable[[], None]]:
    """``lpfuse fit`` of the rows, and ``lpfuse score`` of the model that it makes."""
    table, model = folder / "rows.csv", folder / "model.lpfuse"
    lines = [",".join(map(str, [*row, label])) for row, label in zip(X, y, strict=True)]
    table.write_text("\n".join(["a,b,c,label", *lines]))

    def fit() -> None:
        _command("fit", table, "--label", "label", "--normal", "1", "-o", model)

    return fit, lambda: _command("score", model, table, "-o", folder / "scores.csv")


def _command(*words: Any) -> None:
    from lpfuse_cli import main

    before, sys.argv = sys.argv, ["lpfuse", *map(str, words)]
    told = io.StringIO()
    try:
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            main()
    except SystemExit as end:
        if end.code:
            raise RuntimeError(told.getvalue()) from end
    finally:
        sys.argv = before


def main() -> None:
    """Print the sizes, the walks, and with ``-v`` the files of each walk."""
    for name, folder in {
        "core": CORE,
        "command": COMMAND,
        "faces": FACES,
        "research": ROOT / "research",
    }.items():
        size = size_of(folder)
        share = size.comments / size.code
        print(f"{name}: {size.code:,} lines of code, {size.files} files, {share:.1%} comments")
    for name, files in walks().items():
        print(f"{name}: {len(files)} files")
        if "-v" in sys.argv:
            print(*(f"    {file}" for file in files), sep="\n")


if __name__ == "__main__":
    main()
