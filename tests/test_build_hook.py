"""What compiles lpfuse, on a package of one small module: with a compiler, and without."""

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="requirements-dev.txt")
pytest.importorskip("Cython", reason="requirements-dev.txt")

PACKAGE = Path(__file__).parents[1] / "packages" / "lpfuse"
MODULE = 'cdef extern from "_twice.h":\n    int twice(int)\n\ndef f(int x):\n    return twice(x)\n'
LIBRARY_NAMES = ("*.so", "*.pyd")


def loaded(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hook = loaded(PACKAGE / "hatch_build.py", "hatch_build")


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A folder of sources; whatever the environment asked for is forgotten."""
    monkeypatch.delenv("LPFUSE_BUILD", raising=False)
    folder = tmp_path / "src" / "lpfuse" / "inner"
    folder.mkdir(parents=True)
    for each in (folder, folder.parent):
        (each / "__init__.py").write_text("raise ImportError('nobody imports what is built')\n")
    shutil.copy(PACKAGE / "src" / "lpfuse" / "_compiled.py", folder.parent)
    (folder / "_small.pyx").write_text(MODULE)
    (folder / "_twice.h").write_text("static int twice(int x) { return 2 * x; }\n")
    return tmp_path / "src"


@pytest.fixture
def no_compiler(monkeypatch):
    if sys.platform == "win32":
        pytest.skip("the compiler of Windows is found by its registry, not by CC")
    monkeypatch.setenv("CC", "/nonexistent/compiler")


def libraries(source):
    return [path for pattern in LIBRARY_NAMES for path in source.rglob(pattern)]


@pytest.mark.skipif(
    sys.platform != "win32" and not (shutil.which("cc") or shutil.which("gcc")),
    reason="there is no C compiler here",
)
def test_a_library_lies_beside_its_sources_and_bears_their_digest(source, monkeypatch):
    monkeypatch.setenv("LPFUSE_BUILD", "required")
    told = []
    built = hook.build_in_place(source, told.append)
    (place,) = built.values()
    assert place.startswith("lpfuse/inner/_small.")
    assert libraries(source) == [source / place]
    module = loaded(source / place, "lpfuse.inner._small")
    assert module.f(21) == 42
    rules = loaded(source / "lpfuse" / "_compiled.py", "rules")
    assert module.__sources__ == rules.sources_digest(source / "lpfuse")
    assert told == []
    assert sorted(path.suffix for path in source.rglob("*_small*") if path.is_file()) == sorted(
        [".pyx", (source / place).suffix]  # nothing that was written on the way remains
    )


def test_without_a_compiler_a_note_is_printed(source, no_compiler):
    (source / "lpfuse" / "inner" / "_small.cpython-311.so").write_bytes(b"of yesterday")
    told = []
    assert hook.build_in_place(source, told.append) == {}
    assert libraries(source) == []
    (sentence,) = told
    assert "/nonexistent/compiler" in sentence
    assert "works all the same, with NumPy" in sentence


def test_without_a_compiler_what_is_required_fails(source, no_compiler, monkeypatch):
    monkeypatch.setenv("LPFUSE_BUILD", "required")
    with pytest.raises(RuntimeError, match=r"not compiled: .*nonexistent"):
        hook.build_in_place(source, pytest.fail)


def test_a_source_with_a_fault_is_not_fatal_either(source, monkeypatch):
    (source / "lpfuse" / "inner" / "_small.pyx").write_text("def f(:\n")
    told = []
    assert hook.build_in_place(source, told.append) == {}
    assert "not compiled" in told[0]
    monkeypatch.setenv("LPFUSE_BUILD", "required")
    with pytest.raises(RuntimeError, match=r"_small\.pyx"):
        hook.build_in_place(source, pytest.fail)


def test_never_is_never(source, monkeypatch):
    monkeypatch.setenv("LPFUSE_BUILD", "never")
    assert hook.build_in_place(source, pytest.fail) == {}


def test_another_word_is_refused(source, monkeypatch):
    monkeypatch.setenv("LPFUSE_BUILD", "maybe")
    with pytest.raises(ValueError, match="unset, required or never, not 'maybe'"):
        hook.build_in_place(source, pytest.fail)


def test_a_package_without_sources_is_pure(source):
    (source / "lpfuse" / "inner" / "_small.pyx").unlink()
    assert hook.build_in_place(source, pytest.fail) == {}
