"""Compile the Cython modules of lpfuse when it is built or installed, where there is a compiler.

LPFUSE_BUILD in the environment says what is wanted:

- unset: compile; where that fails, say so in a sentence and go on, as NumPy serves as well
- required: a failure is an error (wheels for a release, CI)
- never: compile nothing (the wheel for every platform)

A wheel with compiled modules is tagged for its platform and Python; one without for all. In an
editable install libraries lie beside their sources; ``python hatch_build.py`` puts them there anew,
with the Cython, setuptools and SciPy of the environment.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WHEN = ("", "required", "never")
# Loops may become vectors where a square root or a quotient sets no flag that anyone reads; sums
# keep their order. Nothing is compiled for this very processor: a wheel runs on others.
UNIX = ("-O3", "-g0", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math")
WINDOWS = ("/O2", "/std:c11")
STRIPPED = {"linux": ["-s"], "darwin": ["-Wl,-x"]}  # else names of this machine's folders remain


class CompiledModules(BuildHookInterface):  # type: ignore[type-arg]
    """Adds what was compiled to a wheel, or puts it beside the sources."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before files are collected; `version` is "standard" or "editable"."""
        source = Path(self.root, "src")
        if version == "editable":
            built = build_in_place(source, self.app.display_warning)
        else:
            self.temporary = tempfile.TemporaryDirectory(prefix="lpfuse-")
            built = build(source, Path(self.temporary.name), self.app.display_warning)
            build_data["force_include"] |= {str(path): place for path, place in built.items()}
        if built:
            build_data |= {"pure_python": False, "infer_tag": True}

    def finalize(self, version: str, *_: Any) -> None:
        """Remove the temporary folder after the wheel is written."""
        if version != "editable":
            self.temporary.cleanup()


def build_in_place(source: Path, tell: Callable[[str], None]) -> dict[Path, str]:
    """Put libraries beside their sources, where nothing older serves in their place."""
    for path in libraries(source):
        path.unlink()
    with tempfile.TemporaryDirectory(prefix="lpfuse-") as folder:
        built = build(source, Path(folder), tell)
        for path, place in built.items():
            shutil.copyfile(path, source / place)
    return built


def build(source: Path, folder: Path, tell: Callable[[str], None]) -> dict[Path, str]:
    """Return libraries built in a folder, by path and place; none if a compilation fails."""
    when = os.environ.get("LPFUSE_BUILD", "")
    if when not in WHEN:
        raise ValueError(f"LPFUSE_BUILD must be unset, required or never, not {when!r}.")
    if when == "never":
        return {}
    told = io.StringIO()
    try:
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            return compile_all(source, folder)
    except (Exception, SystemExit) as error:  # whatever a compiler or its absence brings forth
        if when == "required":
            raise RuntimeError(f"lpfuse was not compiled: {error}\n{told.getvalue()}") from error
        tell(
            f"lpfuse was not compiled ({error}): it works all the same, with NumPy, more slowly. "
            "With LPFUSE_BUILD=required the whole story is told."
        )
        return {}


def libraries(source: Path) -> Iterator[Path]:
    """Yield compiled modules beside their sources."""
    for pyx in source.rglob("*.pyx"):
        for suffix in (".so", ".pyd"):
            yield from pyx.parent.glob(f"{pyx.stem}.*{suffix}")
            yield from pyx.parent.glob(f"{pyx.stem}{suffix}")


def compile_all(source: Path, folder: Path) -> dict[Path, str]:
    """Copy the sources, stamp them, and compile; paths are relative so that no folder is told."""
    rules = _rules(source)
    modules = sorted(path.relative_to(source) for path in source.rglob("*.pyx"))
    if not modules:
        return {}
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension

    for path in source.rglob("*"):
        if path.suffix in rules.SOURCES or path.name == "__init__.py":
            copy = folder / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            # An empty __init__ tells Cython that a folder is a package.
            shutil.copyfile(path, copy) if path.suffix in rules.SOURCES else copy.touch()
    stamp = f'\n__sources__ = "{rules.sources_digest(source / "lpfuse")}"\n'
    windows = sys.platform == "win32"
    extensions = []
    for path in modules:
        with (folder / path).open("a", encoding="utf-8") as file:
            file.write(stamp)
        name = ".".join(path.with_suffix("").parts)
        flags, linked = list(WINDOWS if windows else UNIX), STRIPPED.get(sys.platform, [])
        extension = Extension(
            name, [path.as_posix()], extra_compile_args=flags, extra_link_args=linked
        )
        extensions.append(extension)
    with contextlib.chdir(folder):
        made = cythonize(extensions, compiler_directives={"language_level": 3}, quiet=True)
        command = Distribution({"name": "lpfuse", "ext_modules": made}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = "built", "objects"
        command.parallel = len(made)  # each compiler is a process of its own
        command.ensure_finalized()
        command.run()
    built = sorted(path for path in (folder / "built").rglob("*") if path.is_file())
    return {path: path.relative_to(folder / "built").as_posix() for path in built}


def _rules(source: Path) -> Any:
    """`lpfuse._compiled`, which needs nothing but Python: lpfuse is not installed yet."""
    spec = spec_from_file_location("_compiled_rules", source / "lpfuse" / "_compiled.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    for library in build_in_place(Path(__file__).parent / "src", print).values():
        print(f"Built {library}.")
