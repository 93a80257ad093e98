"""CI leaves out what did not change since it last passed, and nothing else."""

import json
import subprocess

import pytest

from tools import changed, step
from tools.changed import Code, Unit
from tools.environments import ROOT

FILES = {
    "pyproject.toml": "",
    "packages/core/pyproject.toml": "dependencies = []",
    "packages/core/src/core/__init__.py": "",
    "packages/core/src/core/hidden.py": "from extra import data",
    "packages/core/src/core/page.html": "<p>",
    "packages/core/tests/helpers/rows.py": "def rows(): ...",
    "packages/other/src/other/__init__.py": "",
    "extra/data.py": "",
    "extra/unrelated.py": "",
    "lab/__init__.py": "",
    "lab/conftest.py": "import lab.plugin",
    "lab/late.py": "def f():\n    from lab import later",
    "lab/later.py": "",
    "lab/near.py": "from . import nearer",
    "lab/nearer.py": "",
    "lab/plugin.py": "",
    "lab/process.py": "",
    "lab/command/__init__.py": "",
    "lab/command/__main__.py": "",
    "lab/any/one.py": "",
    "lab/results/a.json": "1",
    "lab/tests/test_f.py": """\
'''An example.

>>> from lab.shown import (
...     f,
... )
'''
import core.metrics
from helpers.rows import rows
from lab import late, near
LEFT = ROOT / "results"
PAGE = ROOT / "docs" / f"{name}.md"
CALL = [python, "-m", "lab.command"]
CODE = "import lab.process; print(1)"
MODULE = import_module(f"lab.any.{name}")
""",
    "lab/shown.py": "",
    "docs/page.md": "",
    "README.md": "",
}
ROOTS = ("lab/tests/test_f.py",)


@pytest.fixture
def clone(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def digest(clone):
    files = [path.relative_to(clone).as_posix() for path in clone.rglob("*") if path.is_file()]
    return Code(files, clone).digest(Unit(ROOTS, ("*.toml",)))


UNRELATED = {"extra/unrelated.py", "packages/other/src/other/__init__.py", "README.md"}


@pytest.mark.parametrize("name", FILES)
def test_changed_inputs_change_the_digest_and_others_do_not(clone, name):
    before = digest(clone)
    with (clone / name).open("a") as file:
        file.write("\n# changed\n")
    assert (digest(clone) == before) == (name in UNRELATED)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("packages/core/src/core/new.py", True),
        ("lab/results/new.json", True),
        ("lab/any/new.py", True),
        ("lab/tests/conftest.py", True),
        ("extra/new.py", False),
    ],
)
def test_new_files_count_where_they_may_be_used(clone, name, counts):
    before = digest(clone)
    (clone / name).write_text("")
    assert (digest(clone) != before) == counts


def test_ends_of_lines_do_not_count(clone):
    before = digest(clone)
    page = clone / "lab" / "later.py"
    page.write_bytes(b"a = 1\r\n")
    there = digest(clone)
    page.write_bytes(b"a = 1\n")
    assert there == digest(clone) != before


# -------------------------------------------------------------------------------------------- runs


@pytest.fixture
def ran(monkeypatch, tmp_path):
    """The arguments of each run of a step with two test files, which passes."""
    calls = []
    for name in ("test_a.py", "test_b.py"):
        (tmp_path / name).write_text("")
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    monkeypatch.setattr(changed, "RECORD", tmp_path / "passed.json")
    monkeypatch.setitem(step.WHERE, "test-a", ("test_",))
    monkeypatch.setitem(changed.STEPS, "test-a", lambda *words: calls.append(words))
    monkeypatch.setattr(changed, "at_hand", lambda: ["torch"])
    for name in ("CI_ALL", "CI_RECORD"):
        monkeypatch.delenv(name, raising=False)
    return calls


def run_all(folder):
    changed.run("test-a", Code(["test_a.py", "test_b.py"], folder))


def record(monkeypatch, tmp_path):
    with monkeypatch.context() as patched:
        patched.setenv("CI_RECORD", "1")
        run_all(tmp_path)


def test_without_a_record_everything_runs(ran, tmp_path):
    run_all(tmp_path)
    run_all(tmp_path)
    assert ran == [(), ()]
    assert not changed.RECORD.exists()


def test_what_passed_is_left_out_with_a_line(ran, tmp_path, monkeypatch, capsys):
    record(monkeypatch, tmp_path)
    run_all(tmp_path)
    assert ran == [()]
    assert "test-a: all unchanged since they last passed; left out" in capsys.readouterr().out
    (tmp_path / "test_b.py").write_text("changed = 1")
    run_all(tmp_path)
    assert ran == [(), ("--ignore=test_a.py",)]
    assert "1 of 2 files unchanged" in capsys.readouterr().out


def test_everything_runs_where_that_is_asked_for(ran, tmp_path, monkeypatch):
    record(monkeypatch, tmp_path)
    monkeypatch.setenv("CI_ALL", "1")
    run_all(tmp_path)
    assert ran == [(), ()]


def test_a_pass_with_tests_skipped_counts_only_there(ran, tmp_path, monkeypatch):
    record(monkeypatch, tmp_path)
    monkeypatch.setattr(changed, "at_hand", list)
    run_all(tmp_path)
    assert ran == [()]
    monkeypatch.setattr(changed, "at_hand", lambda: ["torch", "chromium"])
    run_all(tmp_path)
    assert ran == [(), ()]


def test_a_failure_is_not_recorded(ran, tmp_path, monkeypatch):
    def fail(*words):
        raise subprocess.CalledProcessError(1, "pytest")

    monkeypatch.setitem(changed.STEPS, "test-a", fail)
    with pytest.raises(subprocess.CalledProcessError):
        record(monkeypatch, tmp_path)
    assert not changed.RECORD.exists()


def test_without_git_everything_runs(ran, tmp_path, monkeypatch):
    record(monkeypatch, tmp_path)
    changed.run("test-a", Code([], tmp_path))
    assert ran == [(), ()]


def test_a_step_that_there_is_not_is_refused():
    with pytest.raises(SystemExit, match="no step nothing"):
        changed.main(["nothing"])


@pytest.mark.parametrize("name", ["test-numpy", "test-slow"])
def test_a_file_left_out_is_not_named_to_pytest(name):
    there = step.places(name)
    files = [path for path in there if path.endswith(".py")]
    assert files
    assert {*step.places(name, (f"--ignore={files[0]}",))} == {*there} - {files[0]}


def test_the_record_names_steps_that_there_are():
    file = ROOT / ".ci" / "passed.json"
    told = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    assert {name.partition(":")[0] for name in told} <= changed.STEPS.keys()


@pytest.fixture(scope="module")
def code():
    """What the files of this clone reach, read once."""
    files = changed.files_of_clone()
    return Code(files) if files else pytest.skip("no clone tells which files belong to it")


@pytest.mark.parametrize("name", ["docs", "browser", "test-numpy", "test-research", "test-slow"])
def test_steps_have_units_that_depend_on_the_library(name, code):
    found = changed.units(name, code.files)
    assert found
    inputs = code.inputs(found[min(found)])
    assert {"pyproject.toml", "tools/changed.py", "packages/lpfuse/pyproject.toml"} <= inputs
    assert "packages/lpfuse/src/lpfuse/__init__.py" in inputs
