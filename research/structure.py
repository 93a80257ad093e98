"""How large the code is, how it is cut, and how many files a call walks through.

``python -m research.structure [-v]`` prints it, beside the goals.

A *walk* is the set of files of our packages in which a function is entered while a call runs,
threads included. Lines of code are lines that are no comment, no docstring and not blank.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import sys
import tempfile
import threading
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from tools.budget import budget

ROOT = Path(__file__).parents[1]
PACKAGES = ROOT / "packages"
CORE = PACKAGES / "lpfuse" / "src"
# The most files that a call may walk through.
WALKS = {
    "LpFusion.fit": 12,
    "FusedDetector.fit": 32,
    "FusedDetector.predict": 17,
    "lpfuse score": 32,
    "lpfuse fit": 45,
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Size(NamedTuple):
    """Lines of some files."""

    files: int
    code: int
    comments: int
    imports: int


class Figure(NamedTuple):
    """Something counted, and the most that it may be; what was counted, where it can be named."""

    found: float
    most: float
    names: Iterable[str] = ()


def size_of(*folders: Path) -> Size:
    """Lines of the Python files below folders, but for tests."""
    files = [path for folder in folders for path in folder.rglob("*.py")]
    counts = [_lines_of(path.read_text()) for path in files if "tests" not in path.parts]
    return Size(len(counts), *(sum(column) for column in zip(*counts, strict=True)))


def _lines_of(source: str) -> tuple[int, int, int]:
    docstrings, imports = set[int](), set[int]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstrings |= _span(node.body[0])
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports |= _span(node)
    told = {place: line.strip() for place, line in enumerate(source.splitlines(), 1)}
    comments = {place for place, line in told.items() if line.startswith("#")} - docstrings
    code = {place for place, line in told.items() if line} - docstrings - comments
    return len(code), len(comments), len(code & imports)


def _span(node: ast.stmt) -> set[int]:
    return {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def core_figures() -> dict[str, Figure]:
    """Size and cut of the code, read off its files."""
    limits, core = budget(), size_of(CORE)
    shares = 100 * core.imports / core.code
    modules = _modules()
    repeated, alone = _names_of_several(modules), _with_one_importer(modules)
    public = _public_names(modules)
    return {
        "core, lines of code": Figure(core.code, limits.core),
        "core, files": Figure(core.files, limits.core_files),
        "core, imports in %": Figure(round(shares, 1), limits.imports),
        "all packages, lines of code": Figure(size_of(*PACKAGES.glob("*/src")).code, limits.all),
        "modules with one importer": Figure(len(alone), 25, alone),
        "file names that stand twice or more": Figure(len(repeated), 5, repeated),
        "public names": Figure(len(public), 110, public),
    }


def call_figures() -> dict[str, Figure]:
    """What a user has to choose, read off the signatures."""
    from lpfuse import FusedDetector

    parameters = [*inspect.signature(FusedDetector).parameters]
    return {
        "parameters of FusedDetector": Figure(len(parameters), 14, parameters),
        "options of lpfuse watch": Figure(len(options := _options("watch")), 18, options),
    }


def _modules() -> dict[str, tuple[Path, ast.Module]]:
    """The modules of the core by name."""
    found = {}
    for path in sorted(CORE.rglob("*.py")):
        parts = path.relative_to(CORE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path, ast.parse(path.read_text())
    return found


def _names_of_several(modules: dict[str, tuple[Path, ast.Module]]) -> list[str]:
    stems = Counter(path.stem.lstrip("_") for path, _ in modules.values())
    return sorted(name for name in stems if stems[name] > 1 and name not in ("init__", "main__"))


def _with_one_importer(modules: dict[str, tuple[Path, ast.Module]]) -> list[str]:
    """Modules that one other module imports, at its top or late: a room with one door."""
    importers = defaultdict(set)
    for name, (path, tree) in modules.items():
        package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                wanted = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) + 1 - node.level] if node.level else []
                home = ".".join(filter(None, [*above, node.module]))
                inside = [f"{home}.{each.name}" for each in node.names]
                wanted = [each if each in modules else home for each in inside]
            else:
                continue
            for each in wanted:
                importers[each].add(name)
    plain = [name for name, (path, _) in modules.items() if not path.stem.startswith("__")]
    return sorted(name for name in plain if len(importers[name] - {name}) == 1)


def _public_names(modules: dict[str, tuple[Path, ast.Module]]) -> list[str]:
    """What `__all__` lists, in modules without an underscore in their path."""
    found: set[str] = set()
    for name, (_, tree) in modules.items():
        if "._" not in name:
            for node in tree.body:
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                    found |= set(ast.literal_eval(node.value))
    return sorted(found)


def _options(command: str) -> list[str]:
    from typer.main import get_command

    group: Any = get_command(import_module("lpfuse_cli.app").app)
    found = group.commands[command].params
    return [each.name for each in found if each.param_type_name == "option"]


def walk(call: Callable[[], Any]) -> list[str]:
    """The files of our packages in which a function is entered while the call runs."""
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
            "lpfuse score": score,
            "lpfuse fit": fit,
        }
        found = {}
        for name, call in calls.items():
            call()
            found[name] = walk(call)
    return found


def _commands(folder: Path, X: Any, y: Any) -> tuple[Callable[[], None], Callable[[], None]]:
    """``lpfuse fit`` of the rows, and ``lpfuse score`` of the model that it has made of them."""
    table, model = folder / "rows.csv", folder / "model.lpfuse"
    lines = [",".join(map(str, [*row, label])) for row, label in zip(X, y, strict=True)]
    table.write_text("\n".join(["a,b,c,label", *lines]))

    def fit() -> None:
        _command("fit", table, "--label", "label", "--normal", "1", "-o", model)

    fit()
    return fit, lambda: _command("score", model, table, "-o", folder / "scores.csv")


def _command(*words: Any) -> None:
    main = import_module("lpfuse_cli").main
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
    """Print all figures as a table, and with ``-v`` what each of them counts."""
    for folder in [*sorted(PACKAGES.glob("*/src")), ROOT / "research"]:
        name = folder.parent.name if folder.name == "src" else folder.name
        size = size_of(folder)
        told = f"{size.files} files, {size.imports / size.code:.1%} imports"
        print(f"{name}: {size.code:,} lines of code, {told}, {size.comments:,} lines of comments")
    figures = {**core_figures(), **call_figures()}
    for call, files in walks().items():
        figures[f"files that {call} walks through"] = Figure(len(files), WALKS[call], files)
    print(f"\n{'':<46} {'found':>8} {'goal':>8}")
    for name, figure in figures.items():
        over = "  over" if figure.found > figure.most else ""
        print(f"{name:<46} {figure.found:>8,} {figure.most:>8,}{over}")
        if "-v" in sys.argv:
            print(*(f"    {each}" for each in figure.names), sep="\n")


if __name__ == "__main__":
    main()
