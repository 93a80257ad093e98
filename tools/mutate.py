"""Do tests notice? Flip an operator or a constant at a time, and run the tests of the file.

    python -m tools.mutate threshold --places 20 --seed 0

A place whose change no test notices is a survivor: a test is missing there, or the change makes no
difference, such as an equality at a tie. It is a tool for people; no step of CI fails by it.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

from tools.environments import ROOT

SOURCE, TESTS = (ROOT / "packages" / "lpfuse" / name for name in ("src", "tests"))
# Files to change, and the tests that should notice.
PARTS = {
    "threshold": (
        ["threshold/_offsets.py", "threshold/_pvalues.py", "threshold/_stream.py"],
        ["test_threshold.py", "test_threshold_promise.py", "test_threshold_stream.py"],
    ),
    "optim": (
        ["optim/balls.py", "optim/losses.py", "optim/certificate.py"],
        [
            "optim/test_balls.py",
            "optim/test_ball_pairs.py",
            "optim/test_losses.py",
            "optim/test_certificate.py",
        ],
    ),
}
LONGEST = 300  # seconds for one run of the tests: a change may make a loop endless
COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Div, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


class Change(NamedTuple):
    """One change of one file: the whole text that it then has, and what it is."""

    file: Path
    line: int
    before: str
    after: str
    text: str


def changes(file: Path) -> Iterator[Change]:
    """Every change that can be made to a file, but for annotations, decorators and docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    places = [node for node in _code(tree) if _flipped(deepcopy(node)) is not None]
    for node in places:
        before, kept = ast.unparse(node), dict(node.__dict__)
        _flipped(node)
        yield Change(file, node.lineno, before, ast.unparse(node), ast.unparse(tree))  # type: ignore[attr-defined]
        node.__dict__.update(kept)


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that compute something."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.keyword) and child.arg == "strict":
                continue  # of `zip`: a promise that the lengths agree, which they do
            if isinstance(child, ast.AST):
                yield child
                yield from _code(child)


def _flipped(node: ast.AST) -> ast.AST | None:
    """Change a node in its place; None where there is nothing to change."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        node.ops = [COMPARISONS[type(node.ops[0])](), *node.ops[1:]]
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        node.op = OPERATORS[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        node.value = not node.value
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        node.value = node.value + 1
    else:
        return None
    return node


def survives(change: Change, tests: list[str]) -> bool:
    """Whether all tests pass on a copy of the library with that change."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        (copy / change.file.relative_to(SOURCE)).write_text(change.text, encoding="utf-8")
        paths = os.pathsep.join([str(copy), str(ROOT)])
        variables = {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        variables["LPFUSE_COMPILED"] = "0"  # compiled code would not notice
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow"]
        command += ["-p", "no:cacheprovider", *(str(TESTS / name) for name in tests)]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=os.environ | variables, capture_output=True, timeout=LONGEST
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0


def main() -> int:
    """Tell of every place whether tests noticed; the exit status is that of a run that was made."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--places", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    files, tests = PARTS[asked.part]
    found = [each for name in files for each in changes(SOURCE / "lpfuse" / name)]
    drawn = random.Random(asked.seed).sample(found, min(asked.places, len(found)))
    survivors = 0
    for change in drawn:
        lives = survives(change, tests)
        survivors += lives
        place = f"{change.file.relative_to(SOURCE)}:{change.line}"
        verdict = "SURVIVED" if lives else "noticed "
        print(f"{verdict} {place}: {change.before} -> {change.after}", flush=True)
    print(f"{len(drawn) - survivors} of {len(drawn)} noticed; {len(found)} places in all.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
