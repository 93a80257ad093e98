"""Pages of the reference: every name that a public module lists in ``__all__``, on one page.

A name that several modules offer is described where its path is shortest.
"""

import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path
from types import GenericAlias, ModuleType
from typing import Any

PACKAGES = ("lpfuse", "lpfuse_cli", "lpfuse_onnx", "lpfuse_clients", "lpfuse_faces")
KINDS = {"class": "Classes", "exception": "Warnings and errors", "function": "Functions",
         "data": "Constants",
         "alias": "Types"}  # fmt: skip

# What is looked for, and where it is: modules, or single names of `lpfuse`.
TASKS = {
    "Fuse detectors": (
        "lpfuse.FusedDetector", "lpfuse.FusedDetectorCV", "lpfuse.OneClassEnsembleClassifier",
        "lpfuse.DirectionWarning", "lpfuse.ensemble.components", "lpfuse.adapters", "lpfuse.frames",
        "lpfuse.views",
    ),
    "Fuse scores": (
        "lpfuse.LpFusion", "lpfuse.lp_path", "lpfuse.FixedRule", "lpfuse.TwoSidedMinMax",
        "lpfuse.TailScaler", "lpfuse.fusion",
    ),
    "Detect anomalies with one detector": (
        "lpfuse.SVDD", "lpfuse.OneClassGP", "lpfuse.KernelPCADetector", "lpfuse.GMMDetector",
        "lpfuse.KNNDetector", "lpfuse.LOFDetector", "lpfuse.HistogramDetector",
        "lpfuse.ColumnForest", "lpfuse.RobustCovarianceDetector", "lpfuse.detectors",
    ),
    "Set thresholds, control false alarms": ("lpfuse.threshold", "lpfuse.metrics"),
    "Ask for labels and learn from them": ("lpfuse.answers",),
    "Check that weights are optimal": ("lpfuse.verify", "lpfuse.verification", "lpfuse.optim"),
    "Follow rows in time, detect drift": ("lpfuse.time", "lpfuse.monitor"),
    "Draw": ("lpfuse.plots",),
    "Save, load, export": ("lpfuse.load", "lpfuse.io", "lpfuse.onnx_export", "lpfuse_onnx"),
    "Use with other libraries": ("lpfuse.pyod", "lpfuse.river", "lpfuse.spark"),
    "Run the paper's method": ("lpfuse.paper",),
    "Work with files: lpfuse-cli": ("lpfuse_cli",),
    "Work with videos: lpfuse-faces": ("lpfuse_faces",),
}  # fmt: skip

# Constants whose value is no longer than this are shown with it.
SHORT = 150


def public_modules() -> list[ModuleType]:
    """Modules without an underscore in their path that say what is public, by package."""
    names = list(PACKAGES)
    for package in PACKAGES:
        walked = pkgutil.walk_packages(import_module(package).__path__, f"{package}.")
        names += [found.name for found in walked if "._" not in found.name]
    modules = [import_module(name) for name in names if not name.endswith("__main__")]
    listed = [module for module in modules if hasattr(module, "__all__")]
    return sorted(listed, key=_order)


def _order(module: ModuleType) -> tuple[int, int, str]:
    package = module.__name__.partition(".")[0]
    return PACKAGES.index(package), module.__name__.count("."), module.__name__


def public_names() -> dict[str, dict[str, str]]:
    """Of each module, the names that are described on its page, and what kind each is of."""
    homes: dict[Any, str] = {}
    found: dict[str, dict[str, str]] = {}
    for module in public_modules():
        own = {}
        for name in sorted(module.__all__):
            value = getattr(module, name)
            key = id(value)
            if key not in homes:
                homes[key] = f"{module.__name__}.{name}"
                own[name] = kind_of(value)
        if own:
            found[module.__name__] = own
    return found


def kind_of(value: Any) -> str:
    """How autodoc calls it."""
    if isinstance(value, GenericAlias):
        return "alias"
    if inspect.isclass(value):
        return "exception" if issubclass(value, BaseException) else "class"
    return "function" if callable(value) else "data"


def write_reference(folder: Path) -> None:
    """A page for each module, and one that lists them all."""
    folder.mkdir(parents=True, exist_ok=True)
    found = public_names()
    for module, names in found.items():
        _write(folder / f"{module}.rst", module_page(module, names))
    _write(folder / "index.rst", index_page(found))
    current = {f"{module}.{name}" for module, names in found.items() for name in names}
    for stub in (folder / "names").glob("*.rst"):  # of an earlier build, of names that are gone
        if stub.stem not in current:
            stub.unlink()


def module_page(module: str, names: dict[str, str]) -> str:
    """What the module says of itself, and a table of its names."""
    lines = [f"``{module}``", "=" * (len(module) + 4), ""]
    lines += [f".. automodule:: {module}", "   :no-members:", ""]
    lines += [f".. currentmodule:: {module}", ""]
    for kind, title in KINDS.items():
        of_kind = [name for name, its in names.items() if its == kind]
        if not of_kind:
            continue
        lines += [title, "-" * len(title), ""]
        if kind == "alias":
            for name in of_kind:
                lines += [
                    f".. py:type:: {name}",
                    f"   :canonical: {getattr(import_module(module), name)}",
                    "",
                ]
            continue
        if kind == "data":
            for name in of_kind:
                lines += constant(module, name)
            continue
        lines += [".. autosummary::", "   :toctree: names", "   :nosignatures:", ""]
        lines += [f"   {name}" for name in of_kind] + [""]
    return "\n".join(lines)


def constant(module: str, name: str) -> list[str]:
    """A constant with its value, if that is short, and the comment above its definition."""
    value = repr(getattr(import_module(module), name))
    lines = [f".. py:data:: {name}"] + [f"   :value: {value}"] * (len(value) <= SHORT)
    said = _comment(module, name)
    return [*lines, "", f"   {said}", ""] if said else [*lines, ""]


def _comment(module: str, name: str) -> str:
    """What the source says above the definition of a constant, or behind it."""
    definition = re.compile(rf"((?:^# .*\n)*)^{name}\b[^=\n]*= (?:.*?  # (.*))?", re.M)
    package = Path(import_module(module.partition(".")[0]).__path__[0])
    near = Path(import_module(module).__file__ or "").parent
    for source in [*sorted(near.rglob("*.py")), *sorted(package.rglob("*.py"))]:
        if found := definition.search(source.read_text()):
            said = " ".join(found[1].replace("# ", "").split()) or found[2] or ""
            return said[:1].upper() + said[1:] if said.isascii() else said
    return ""


def tasks(found: dict[str, dict[str, str]]) -> dict[str, list[tuple[str, list[str]]]]:
    """Of each task, its modules with their names; what no task claims is listed at the end.

    A task that claims a package claims the modules inside it, unless another names them.
    """
    claimed = {name: task for task, names in TASKS.items() for name in names}
    order = {name: number for number, name in enumerate(claimed)}
    listed: dict[str, dict[str, list[str]]] = {task: {} for task in [*TASKS, "More"]}
    for module, names in found.items():
        package = module.partition(".")[0]
        home = claimed.get(module) or (claimed.get(package) if package != "lpfuse" else None)
        for name in sorted(names, key=lambda name: order.get(f"{module}.{name}", len(order))):
            task = claimed.get(f"{module}.{name}") or home or "More"
            listed[task].setdefault(module, []).append(name)
    return {task: [*modules.items()] for task, modules in listed.items() if modules}


def index_page(found: dict[str, dict[str, str]]) -> str:
    """Names by task, with what each module is for, and the toctree."""
    lines = ["API reference", "=============", ""]
    lines += [
        "Every public name, by task. A name that is not listed here is private, and may change.",
        "",
    ]
    for task, modules in tasks(found).items():
        lines += [task, "-" * len(task), "", ".. list-table::", "   :widths: 35 65", ""]
        for module, names in modules:
            if module == "lpfuse":
                for name in names:
                    lines += [f"   * - :py:obj:`{name} <{module}.{name}>`"]
                    lines += [f"     - {_summary(getattr(import_module(module), name))}"]
                continue
            lines += [f"   * - :doc:`{module} <{module}>`"]
            lines += [f"     - {_summary(import_module(module))}"]
        lines += [""]
    lines += [".. toctree::", "   :hidden:", "   :maxdepth: 1", ""]
    return "\n".join(lines + [f"   {module}" for module in found] + [""])


def _summary(value: Any) -> str:
    """The first paragraph of a docstring, on one line."""
    first = (inspect.getdoc(value) or "").partition("\n\n")[0]
    return " ".join(first.split())


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
