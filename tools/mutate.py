"""Do tests notice? Flip an operator or a constant at a time, and run the tests of the file.

    python -m tools.mutate threshold --places 20 --seed 0
    python -m tools.mutate threshold --sample before.json

A place whose change no test notices is a survivor: a test is missing there, or the change makes no
difference, such as an equality at a tie. It is a tool for people; no step of CI fails by it.

A place is named by its function and by what it says, not by its file and line, so that a sample
that was written to a file (``--sample``) is tried again after code has moved between files. The
place of a function that was renamed is found by what it says, where it says so only once.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

from tools.environments import ROOT

SOURCE, TESTS = (ROOT / "packages" / "lpfuse" / name for name in ("src", "tests"))
# Files to change, and the tests that should notice: patterns, since files move.
PARTS = {
    "threshold": (["threshold/*.py"], ["test_threshold*.py"]),
    "optim": (
        ["optim/balls.py", "optim/problem.py", "optim/certificate.py"],
        ["optim/test_ball*.py", "optim/test_losses.py", "optim/test_certificate.py"],
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
    function: str
    before: str
    after: str
    text: str

    @property
    def says(self) -> str:
        return f"{self.before} -> {self.after}"


def changes(file: Path) -> Iterator[Change]:
    """Every change that can be made to a file, but for annotations, decorators and docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    places = [(name, node) for name, node in _code(tree) if _flipped(deepcopy(node)) is not None]
    for name, node in places:
        before, kept = ast.unparse(node), dict(node.__dict__)
        line: int = node.lineno  # type: ignore[attr-defined]
        _flipped(node)
        yield Change(file, line, name, before, ast.unparse(node), ast.unparse(tree))
        node.__dict__.update(kept)


def _code(tree: ast.AST, within: str = "") -> Iterator[tuple[str, ast.AST]]:
    """The nodes that compute something, each with the qualified name of its function."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.keyword) and child.arg == "strict":
                continue  # of `zip`: a promise that the lengths agree, which they do
            if isinstance(child, ast.AST):
                named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                inside = f"{within}.{child.name}".lstrip(".") if named else within
                yield inside, child
                yield from _code(child, inside)


def keyed(found: Iterable[Change]) -> dict[str, Change]:
    """Changes by names that do not depend on files and lines, in the order of the names."""
    times: Counter[tuple[str, str]] = Counter()
    named = {}
    for change in found:
        times[change.function, change.says] += 1
        count = times[change.function, change.says]
        named[f"{change.function or '<module>'}: {change.says} ({count})"] = change
    return dict(sorted(named.items()))


def replayed(keys: Iterable[str], found: dict[str, Change]) -> dict[str, Change | None]:
    """The changes of a sample; None where its code is gone, or no longer the only one like it."""
    times = Counter(change.says for change in found.values())
    alone = {change.says: change for change in found.values() if times[change.says] == 1}
    says = {key: key.partition(": ")[2].rpartition(" (")[0] for key in keys}
    return {key: found.get(key) or alone.get(says[key]) for key in says}


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
        command += [
            "-p",
            "no:cacheprovider",
            *(str(path) for name in tests for path in sorted(TESTS.glob(name))),
        ]
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
    parser.add_argument("--sample", type=Path, help="the places: read, or drawn and written")
    asked = parser.parse_args()
    patterns, tests = PARTS[asked.part]
    files = [path for pattern in patterns for path in sorted((SOURCE / "lpfuse").glob(pattern))]
    found = keyed(change for path in files for change in changes(path))
    if asked.sample and asked.sample.exists():
        drawn = json.loads(asked.sample.read_text(encoding="utf-8"))
    else:
        drawn = random.Random(asked.seed).sample(list(found), min(asked.places, len(found)))
        if asked.sample:
            asked.sample.write_text(json.dumps(drawn, indent=1) + "\n", encoding="utf-8")
    counts = Counter[str]()
    for key, change in replayed(drawn, found).items():
        verdict = "gone" if change is None else "SURVIVED" if survives(change, tests) else "noticed"
        counts[verdict] += 1
        place = f" [{change.file.relative_to(SOURCE)}:{change.line}]" if change else ""
        print(f"{verdict:<8} {key}{place}", flush=True)
    tried = counts["noticed"] + counts["SURVIVED"]
    print(f"{counts['noticed']} of {tried} noticed; {len(found)} places in all.")
    if counts["gone"]:
        print(f"{counts['gone']} places of the sample are not in the code any more.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
