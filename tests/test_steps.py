"""The tools that keep the repository in order do what they say."""

import ast
import subprocess

import pytest

from tools import mutate, prose, step
from tools.budget import Budget, budget
from tools.environments import ROOT, run
from tools.files import complaints
from tools.oldest import lower_bound
from tools.packaging_steps import TESTS_OF_OLDEST, digests, wheel


def test_steps_are_listed_with_what_they_do(capsys):
    assert step.main([]) == 0
    told = capsys.readouterr().out
    for name, function in step.STEPS.items():
        assert f"{name} " in told
        assert function.__doc__.splitlines()[0] in told


def test_a_step_that_there_is_not_is_an_error(capsys):
    assert step.main(["nothing"]) == 2
    assert "lint" in capsys.readouterr().out


def test_a_step_that_fails_ends_with_its_status(monkeypatch):
    def fail():
        raise subprocess.CalledProcessError(7, "something")

    monkeypatch.setitem(step.STEPS, "lint", fail)
    assert step.main(["lint"]) == 7


def test_commands_are_told_and_their_failure_is_raised(capfd):
    with pytest.raises(subprocess.CalledProcessError):
        run("git", "no-such-command")
    assert capfd.readouterr().out == "$ git no-such-command\n"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", None),
        (b"a\n", None),
        (b"a", "one line end"),
        (b"a\n\n", "one line end"),
        (b"<<<<<<< ours\na\n", "marks of a merge"),
        (b"\0\1", None),
        (b"\0" * (2**20 + 1), "bytes"),
    ],
)
def test_files_that_may_not_be(content, told, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    found = list(complaints(path))
    assert (not found) if told is None else (told in found[0])


def test_no_file_of_the_repository_is_one_of_them():
    if not (ROOT / ".git").exists():
        pytest.skip("no clone: nothing tells which files belong to it")
    assert step.main(["files"]) == 0


@pytest.mark.parametrize("text", ["numpy", "numpy<3", "numpy==2.1", "numpy>=2;python_version>'3'"])
def test_a_requirement_without_a_lower_bound_is_refused(text):
    with pytest.raises(ValueError, match="must be written as"):
        lower_bound(text)


def test_two_wheels_of_a_package_are_one_too_many(tmp_path):
    with pytest.raises(SystemExit, match="holds 0 wheels"):
        wheel(tmp_path, "lpfuse-faces")
    (tmp_path / "lpfuse_faces-0.1.0-py3-none-any.whl").write_bytes(b"a")
    assert wheel(tmp_path, "lpfuse-faces").name in digests(tmp_path)
    (tmp_path / "lpfuse_faces-0.2.0-py3-none-any.whl").write_bytes(b"b")
    with pytest.raises(SystemExit, match="holds 2 wheels"):
        wheel(tmp_path, "lpfuse-faces")
    assert len({*digests(tmp_path).values()}) == 2


def test_tests_for_the_oldest_versions_are_there():
    assert all((ROOT / "packages" / name).exists() for name in TESTS_OF_OLDEST)


def test_every_change_changes_one_place_and_can_be_read(tmp_path):
    source = "def f(x: int = 3) -> bool:\n    '''Adds 1.'''\n    return x + 1 < 2 and x != 0\n"
    (tmp_path / "f.py").write_text(source)
    found = list(mutate.changes(tmp_path / "f.py"))
    plain = ast.unparse(ast.parse(source))
    assert [change.after for change in found] == [
        "4", "x + 1 < 2 or x != 0", "x + 1 <= 2", "x - 1", "2", "3", "x == 0", "1",
    ]  # fmt: skip
    assert len({change.text for change in found} - {plain}) == len(found)
    for change in found:
        ast.parse(change.text)


@pytest.mark.parametrize("part", mutate.PARTS)
def test_files_to_change_and_their_tests_are_there(part):
    files, tests = mutate.PARTS[part]
    assert all(any((mutate.SOURCE / "lpfuse").glob(name)) for name in files)
    assert all(any(mutate.TESTS.glob(name)) for name in tests)


def test_a_sample_of_changes_survives_moves_and_renames(tmp_path):
    before, after = tmp_path / "before.py", tmp_path / "after.py"
    before.write_text("def f(x):\n    return x + 1\n\ndef g(x):\n    return x * 7 + x * 7\n")
    sample = [*mutate.keyed(mutate.changes(before))]
    assert "g: x * 7 -> x / 7 (2)" in sample
    after.write_text("class A:\n    def renamed(self, x):\n        return x + 1\n\n" + "y = 5\n")
    found = mutate.replayed(sample, mutate.keyed(mutate.changes(after)))
    assert found["f: x + 1 -> x - 1 (1)"].function == "A.renamed"
    assert found["g: x * 7 -> x / 7 (2)"] is None
    moved = tmp_path / "moved.py"
    moved.write_text("import os\n\n" + before.read_text())
    again = mutate.replayed(sample, mutate.keyed(mutate.changes(moved)))
    assert all(again[key].file == moved for key in sample)


def test_the_budget_is_that_of_the_maintainers(tmp_path):
    theirs = tmp_path / "budget.py"
    assert budget(theirs) == Budget()
    theirs.write_text("CORE, CORE_FILES, ALL, IMPORTS, TESTS = 1, 2, 3, 4.5, 6\n")
    assert budget(theirs) == Budget(1, 2, 3, 4.5, 6)


@pytest.mark.parametrize("name", step.WHERE)
def test_a_step_looks_for_tests_where_there_are_some(name):
    assert all((ROOT / path).exists() for path in step.WHERE[name])


@pytest.mark.parametrize(
    "wrong",
    [
        "It is is here.",
        "It is an detector.",
        "It is a anomaly, and an score.",
        "It could of been.",
        "This allows to fit.",
        "A knowledges base.",
        "It is a criteria.",
    ],
)
def test_grammar_that_is_found(wrong):
    assert next(line for line, _ in prose.complaints(f"# Title\n\n{wrong}\n")) == 3


def test_grammar_is_that_of_prose_and_not_of_code():
    text = "```\nan detector\n```\n\n`an score` of a unit, an hour, an SVM, a data frame, a one.\n"
    assert not list(prose.complaints(text + "\n| an | an |\n"))
    assert prose.prose(text).count("\n") == text.count("\n")


def test_a_misspelt_word_is_found(tmp_path, capfd):
    pytest.importorskip("codespell_lib")
    page = tmp_path / "page.md"
    page.write_text("A weig" + "th.\n")
    assert prose.main([str(page)]) == 1
    assert "==> weight" in capfd.readouterr().out
    page.write_text("A weight.\n")
    assert prose.main([str(page)]) == 0
