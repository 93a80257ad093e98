"""Run the steps of CI whose inputs have changed since they last passed; name those left out.

    python -m tools.changed docs test-research               # what changed
    CI_ALL=1 python -m tools.changed docs test-research      # everything
    CI_RECORD=1 python -m tools.changed docs test-research   # and note what passed

A step has units: a test file each, or one for the whole of it. The inputs of a unit are found by
reading the code: the unit, the conftest.py files above it, every module that these import, on top,
inside a function or by name in a string, the files that their paths name, all of an installed
package of which anything is imported, and what everything depends on (EVERYWHERE). The record,
`.ci/passed.json`, holds a digest of the inputs of each unit that has passed: a unit whose digest is
still the same is left out.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from itertools import accumulate, chain, combinations
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from tools.environments import ROOT
from tools.step import STEPS, WHERE, places

NOTHING_SELECTED = 5  # an exit status of pytest
RECORD = ROOT / ".ci" / "passed.json"
# In these patterns * stands for slashes, too.
EVERYWHERE = (
    "pyproject.toml", "packages/*/pyproject.toml", "packages/*/hatch_build.py",
    "*requirements*.txt", "Makefile", ".ci/run",
    "tools/changed.py", "tools/environments.py", "tools/step.py",
)  # fmt: skip
# Folders from which modules are imported, beside the root.
HOMES = re.compile(r"(packages/[^/]+/(src|tests)|docs/site)/")
EXAMPLE = re.compile(r"^[ \t]*>>> (.*(?:\n[ \t]*\.\.\. ?.*)*)", re.M)


class Unit(NamedTuple):
    """Files to begin with, and patterns of more files that count."""

    roots: tuple[str, ...]
    more: tuple[str, ...] = ()


class Code:
    """The files of a clone, and what each of them reaches."""

    def __init__(self, files: Iterable[str], root: Path = ROOT) -> None:
        self.root, self.files = root, sorted(files)
        self.modules: dict[str, set[str]] = defaultdict(set)
        self.named: dict[str, set[str]] = defaultdict(set)  # by each part of a path: a/b/c by b/c
        for name in self.files:
            parts = name.split("/")
            for start, end in combinations(range(len(parts) + 1), 2):
                self.named["/".join(parts[start:end])].add(name)
            if name.endswith(".py"):
                dotted = HOMES.sub("", name, count=1).removesuffix(".py").replace("/", ".")
                self.modules[dotted.removesuffix(".__init__")].add(name)
        self.reached, self.content = cache(self._reached), cache(self._content)

    def inputs(self, unit: Unit) -> set[str]:
        """All files that a unit depends on."""
        above = {f"{folder}/conftest.py" for root in unit.roots for folder in _folders(root)}
        found = {name for name in self.files if _matches(name, (*EVERYWHERE, *unit.more))}
        todo = {*unit.roots, *(above & {*self.files})}
        for root in unit.roots:
            todo |= self.reached(root, examples=True)
            if "/src/" in root:  # its examples import the package that it is in
                todo |= self.named["/".join(root.split("/")[:3])]
        while todo:
            name = todo.pop()
            found.add(name)
            todo |= self.reached(name) - found
        return found

    def digest(self, unit: Unit) -> str:
        """One number for the names and contents of all inputs, alike on every platform."""
        lines = [f"{name} {self.content(name)}" for name in sorted(self.inputs(unit))]
        return sha256("\n".join(lines).encode()).hexdigest()[:16]

    def _content(self, name: str) -> str:
        return sha256((self.root / name).read_bytes().replace(b"\r\n", b"\n")).hexdigest()

    def _reached(self, name: str, examples: bool = False) -> set[str]:
        """The files that a file imports or names, or that the examples in its text do."""
        if examples:
            text = (self.root / name).read_text(encoding="utf-8")
            calls = [re.sub(r"\n[ \t]*\.\.\. ?", "\n", call) for call in EXAMPLE.findall(text)]
            trees = [tree for tree in map(_parsed, calls) if tree]
        else:
            trees = [ast.parse((self.root / name).read_bytes())] if name.endswith(".py") else []
        modules = {module for tree in trees for module in _imports(tree, name)}
        paths = {path for tree in trees for path in _paths(tree)}
        return set().union(*map(self._home, modules), *(self.named.get(path, ()) for path in paths))

    def _home(self, module: str) -> set[str]:
        """The files of a module and of those above it; of an installed package, all of them.

        Its names are loaded on demand, by entry points and by names in files: what of it a test
        does not need cannot be read off its imports.
        """
        found: set[str] = set()
        for name in accumulate(module.split("."), "{}.{}".format):
            found |= self.modules.get(name, set())
        for name in [*found]:
            if "/src/" in name:
                found |= self.named["/".join(name.split("/")[:3])]
        if module.endswith("."):
            found |= {*chain(*(self.modules[m] for m in self.modules if m.startswith(module)))}
        return found


def _folders(name: str) -> list[PurePosixPath]:
    return [*PurePosixPath(name).parents]


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _parsed(text: str) -> ast.AST | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _imports(tree: ast.AST, name: str) -> Iterator[str]:
    """Names that may be modules, wherever they stand; with a dot at the end, all below it."""
    package = HOMES.sub("", name, count=1).split("/")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            yield from (".".join(filter(None, [*above, node.module, n.name])) for n in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if "import " in node.value and (code := _parsed(node.value)):
                yield from _imports(code, name)  # for another process
            elif re.fullmatch(r"\w+\.[\w.]*", node.value):
                # Of `python -m`, `import_module` or `monkeypatch`; f"package.{name}" ends in a dot.
                yield from (node.value, f"{node.value}.__main__")


def _paths(node: ast.AST) -> Iterator[str]:
    """Paths that code names: `ROOT / "docs" / "page.md"`, and strings that look like one."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        parts: list[str] = []
        while isinstance(node, ast.BinOp):
            right, node = node.right, node.left
            if isinstance(right, ast.Constant) and isinstance(right.value, str):
                parts = [right.value, *parts]
            else:
                yield from _paths(right)
                parts = []  # which file below it is not known: all of them count
        if parts and ast.unparse(node) != "tmp_path":
            yield "/".join(parts)
    elif isinstance(node, ast.Constant) and re.search(r"\w[/.]\w", str(node.value)):
        yield str(node.value).removeprefix("./").strip("/")
    for child in ast.iter_child_nodes(node):
        yield from _paths(child)


# ------------------------------------------------------------------------------------------- steps


def units(step: str, files: list[str]) -> dict[str, Unit]:
    """The units of a step by name, those of tests being files; a step without any always runs."""
    source = ("packages/*/src/*",)
    if step == "docs":
        shown = tuple(name for name in files if _matches(name, ("docs/site/*.py", "examples/*.py")))
        return {"site": Unit(shown, ("docs/*", "examples/*", "*.md", "llms.txt", *source))}
    if step == "browser":
        tools = ("docs/site/browser.py", "tools/site_steps.py", "tools/in_browser.py")
        more = ("docs/site/pyodide.json", "tools/in_browser.mjs", "examples/gallery/*", *source)
        return {"examples": Unit(tools, more)}
    if step not in WHERE:
        return {}
    there = places(step)
    return {
        name: Unit((name,))
        for name in files
        if name.startswith(there) and name.endswith((".py", ".md"))
        if PurePosixPath(name).name.startswith("test_")
        or ">>>" in (ROOT / name).read_text(encoding="utf-8")
    }


def at_hand() -> list[str]:
    """What decides which tests are skipped: a pass without a browser is none with one."""
    found = [name for name in ("torch", "triton", "river") if find_spec(name)]
    found += [name for name in ("cc", "chromium", "npm") if shutil.which(name)]
    return found + [name for name in ("LPFUSE_DATA",) if os.environ.get(name)]


def run(asked: str, code: Code) -> None:
    """Run what changed of a step, such as `docs` or `browser:standard-library`; record a pass."""
    name, *words = asked.split(":")
    now = {unit: code.digest(inputs) for unit, inputs in units(name, code.files).items()}
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    before = record.get(asked, {"with": [], "passed": {}})
    known = {} if os.environ.get("CI_ALL") or {*at_hand()} - {*before["with"]} else before["passed"]
    same = [unit for unit in now if known.get(unit) == now[unit]]
    if same:
        what = f"{len(same)} of {len(now)} files" if len(same) < len(now) else "all"
        print(f"{asked}: {what} unchanged since they last passed; left out (CI_ALL=1 runs all)")
    if not now or len(same) < len(now):
        try:
            STEPS[name](*words, *(f"--ignore={unit}" for unit in same))
        except subprocess.CalledProcessError as error:
            # What is left may hold tests of other steps alone.
            if not (same and error.returncode == NOTHING_SELECTED):
                raise
    if os.environ.get("CI_RECORD"):
        record[asked] = {"with": at_hand(), "passed": now}
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def files_of_clone() -> list[str]:
    """Files that belong to the clone, committed or not; none where git does not tell."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    told = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return [name for name in told.splitlines() if (ROOT / name).is_file()]


def main(names: list[str]) -> int:
    """Run steps by name, up to one that fails."""
    if unknown := [name for name in names if name.partition(":")[0] not in STEPS]:
        raise SystemExit(f"There is no step {unknown[0]}. Steps: {', '.join(STEPS)}.")
    code = Code(files_of_clone())
    try:
        for name in names:
            run(name, code)
    except subprocess.CalledProcessError as error:
        return error.returncode or 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
