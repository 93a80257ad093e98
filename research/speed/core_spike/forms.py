"""Build each form into a folder, by the plain tools of its toolchain; what is missing is told."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess  # nosec B404 # compilers and this Python, with words of our own
import sys
import sysconfig
from importlib.metadata import distribution
from pathlib import Path

HERE = Path(__file__).parent
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
C_FLAGS = (
    "-O3", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared", "-s",
)  # fmt: skip


def _run(*command: object) -> None:
    words = [str(word) for word in command]
    subprocess.run(words, check=True, capture_output=True)  # nosec B603 # no shell


def _seconds_of_children() -> float:
    return os.times().children_user + os.times().children_system


def _python_headers() -> str:
    return f"-I{sysconfig.get_path('include')}"


def _cython(out: Path, suffix: str = SUFFIX, *more: str) -> Path:
    c, library = out / "cython_form.c", out / f"cython_form{suffix}"
    _run(sys.executable, "-m", "cython", "-3", HERE / "cython_form.pyx", "-o", c)
    _run("gcc", *C_FLAGS, *more, _python_headers(), f"-I{HERE}", c, "-o", library)
    return library


def _cython_abi3(out: Path) -> Path:
    return _cython(out, ".abi3.so", "-DPy_LIMITED_API=0x030B0000")


def _nanobind(out: Path) -> Path:
    import nanobind

    folder, library = Path(nanobind.__file__).parent, out / f"nanobind_form{SUFFIX}"
    include = [f"-I{folder / 'include'}", f"-I{folder / 'ext' / 'robin_map' / 'include'}"]
    sources = [HERE / "nanobind_form.cpp", folder / "src" / "nb_combined.cpp"]
    options = ["-std=c++17", "-DNDEBUG", "-fvisibility=hidden", f"-I{HERE}", _python_headers()]
    _run("g++", *C_FLAGS, *options, *include, *sources, "-o", library)
    return library


def _rust(out: Path) -> Path:
    library = out / "librust_form.so"
    options = ["--edition=2021", "--crate-type=cdylib", "-Copt-level=3", "-Cstrip=symbols"]
    _run("rustc", *options, HERE / "rust_form.rs", "-o", library)
    return library


BUILDERS = {
    "Cython": (_cython, "gcc", "Cython"),
    "Cython, abi3": (_cython_abi3, "gcc", "Cython"),
    "nanobind": (_nanobind, "g++", "nanobind"),
    "Rust": (_rust, "rustc", None),
}


def built(out: Path) -> dict[str, tuple[Path, float]]:
    """Library and CPU seconds of each toolchain that is there; a word on each that is not."""
    libraries = {}
    for name, (build, compiler, package) in BUILDERS.items():
        if shutil.which(compiler) is None or (package and not importlib.util.find_spec(package)):
            print(f"{name} is left out: {compiler} or its Python package is missing.")
            continue
        start = _seconds_of_children()
        try:
            libraries[name] = build(out), _seconds_of_children() - start
        except subprocess.CalledProcessError as error:
            print(f"{name} is left out: {error.stderr.decode()[-2000:]}")
    return libraries


def rows_of(name: str, library: Path | None) -> type:
    """The class `Rows` of a form."""
    if name == "Rust":
        from research.speed.core_spike.rust_form import load

        return load(library)
    if library is None:
        return importlib.import_module(f"research.speed.core_spike.{name.lower()}_form").Rows
    spec = importlib.util.spec_from_file_location(library.name.split(".")[0], library)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Rows


def installed_size(*packages: str) -> int:
    """Bytes of what these packages have put on the disk."""
    files = (file for name in packages for file in distribution(name).files or ())
    return sum(p.stat().st_size for f in files if (p := Path(f.locate())).is_file())
