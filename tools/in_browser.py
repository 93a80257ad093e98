"""What Python in a browser can and cannot do with lpfuse: run there, by `in_browser.mjs`."""

import ast
import importlib
import sys
import warnings
from pathlib import Path


def modules_of(package: str) -> list[Path]:
    """The files of an installed package."""
    for folder in map(Path, sys.path):
        if (folder / package / "__init__.py").is_file():
            return sorted((folder / package).rglob("*.py"))
    raise SystemExit(f"{package} was not found on {sys.path}.")


def check_standard_library() -> str:
    """Every file is read by that version of Python, and all that it takes from it is there.

    What works in a terminal, on files that other processes share, takes what browsers do not have.
    """
    warnings.simplefilter("error")
    files, wanted = modules_of("lpfuse"), set()
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
        compile(tree, str(file), "exec")
        if {"cli", "watch"} & set(file.parts):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                wanted |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                wanted.add(str(node.module))
    wanted = {name for name in wanted if name.partition(".")[0] in sys.stdlib_module_names}
    for name in sorted(wanted):
        importlib.import_module(name)
    version = ".".join(map(str, sys.version_info[:3]))
    return f"{len(files)} files and {len(wanted)} modules of Python {version}"


def run_examples(*texts: str) -> str:
    """Examples of the gallery; each leaves a fit, whose proof must hold."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    plt.show = lambda *_, **__: None
    told = []
    for text in texts:
        names: dict[str, object] = {}
        exec(text, names)
        fitted = names.get("fused") or names["fusion"]
        certificate = fitted.certificate_  # type: ignore[attr-defined]
        if not certificate.relative_gap < 1e-6:
            raise SystemExit(f"The weights are not proven: {certificate}")
        told.append(f"{type(fitted).__name__}, relative gap {certificate.relative_gap:.1e}")
    return "; ".join(told)
