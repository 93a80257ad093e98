import io
import json
import re
import subprocess
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.metadata import version

import numpy as np
import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from lpfuse._files import versions
from lpfuse_cli import console, main
from lpfuse_cli.app import app

COMMANDS = ["fit", "score", "fuse", "report", "card", "ask", "teach", "demo", "version"]
TABLE = "# Ours\n\n| method | AUC |\n|---|---|\n| sum [1] | 0.9 |\n"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def lpfuse(*arguments):
    return CliRunner().invoke(app, arguments)


def raising(error, *before):
    """The answer of a command line whose one command raises."""
    made = typer.Typer(cls=console.PlainErrors)
    made.callback()(console.root_options)

    @made.command()
    def work() -> None:
        raise error

    return CliRunner().invoke(made, [*before, "work"])


# ------------------------------------------------------------------------------- what comes at once


def test_the_version_alone():
    answer = lpfuse("--version")
    assert (answer.exit_code, answer.output) == (0, f"lpfuse {version('lpfuse')}\n")
    assert lpfuse("--version", "fit").output == answer.output  # before any command


WRONG = {
    "an option": (["fit", "x.csv", "-o", "m", "--nope"], "No such option.*--nope"),
    "p": (["fit", "x.csv", "-o", "m", "--p", "tight"], '--p must be "auto" or a number'),
    "p of scores": (["fuse", "x.csv", "--p", "0.5"], r"--p must be in \[1, inf\], got 0.5"),
    "a rate": (["fit", "x.csv", "-o", "m", "--false-alarm-rate", "5"], "--false-alarm-rate must"),
    "confidence": (["fit", "x.csv", "-o", "m", "--confidence", "2"], "--confidence must be"),
    "a detector": (["fit", "x.csv", "-o", "m", "--detectors", "svd"], "Did you mean 'svdd'"),
    "no detector": (["fit", "x.csv", "-o", "m", "--detectors", ","], "at least one detector"),
    "no table": (["fit", "none.csv", "-o", "m"], "There is no file 'none.csv'"),
    "no scores": (["fuse", "none.csv"], "There is no file 'none.csv'"),
    "no model": (["score", "none.lpfuse", "x.csv", "-o", "s.csv"], "There is no model"),
    "no rows": (["score", "x.csv", "none.csv", "-o", "s.csv"], "There is no file 'none.csv'"),
    "no model to report on": (["report", "none.lpfuse"], "There is no model 'none.lpfuse'"),
    "no model for a card": (["card", "none.lpfuse"], "There is no model 'none.lpfuse'"),
    "no model to ask": (["ask", "none.lpfuse", "x.csv"], "There is no model 'none.lpfuse'"),
    "no answers": (["teach", "x.csv", "none.csv", "-o", "m"], "There is no file 'none.csv'"),
}


SEVERAL = """
import json, sys
from typer.testing import CliRunner
from lpfuse_cli.app import app
answers = [CliRunner().invoke(app, call) for call in json.loads(sys.argv[1])]
print(json.dumps([[[a.exit_code, a.output] for a in answers], sorted(sys.modules)]))
"""


def in_one_process(calls, folder):
    """Exit code and output of each call in one fresh process, and the modules it loaded."""
    command = [sys.executable, "-c", SEVERAL, json.dumps(calls)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    answers, loaded = json.loads(done.stdout)
    return answers, set(loaded)


def test_wrong_calls_are_refused_before_heavy_imports(tmp_path):
    """No clock decides: what takes seconds to import is not there."""
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    answers, loaded = in_one_process([call for call, _ in WRONG.values()], tmp_path)
    for (code, said), (_, told) in zip(answers, WRONG.values(), strict=True):
        assert code == 2
        assert re.search(told, re.sub(r"[│\s]+", " ", said))
    assert not loaded & {"scipy", "sklearn", "joblib", "pandas", "polars", "matplotlib"}
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]


def loaded_by(code):
    """The modules that code in a fresh process loads, and what it prints."""
    told = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    return set(told[-1].split()), told[:-1]


def test_scoring_a_table_imports_little_beyond_scikit_learn_itself(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 2))
    pl.DataFrame(rows, schema=["a", "b"]).write_csv(tmp_path / "x.csv")
    in_one_process([["fit", "x.csv", "-o", "m.lpfuse"]], tmp_path)
    score = ["score", "m.lpfuse", "x.csv", "-o", "out.csv"]
    [(code, _)], loaded = in_one_process([score], tmp_path)
    assert code == 0
    # The members of a model without labels are made of these, which import each other.
    parts = "base exceptions frozen pipeline preprocessing tree utils"
    known, _ = loaded_by(f"import {', '.join(f'sklearn.{part}' for part in parts.split())}")
    heavy = {name for name in loaded if name.partition(".")[0] in ("sklearn", "scipy", "numpy")}
    assert heavy <= known
    assert not loaded & {"pandas", "pyarrow", "matplotlib", "plotly", "jinja2", "torch", "dask"}


def test_scikit_learn_is_imported_without_pandas_which_can_be_imported_later():
    loaded, told = loaded_by(
        "from lpfuse_cli.console import import_scikit_learn\n"
        "import_scikit_learn()\n"
        "import sys\n"
        "print([name for name in ('pandas', 'rich', 'sklearn.pipeline') if name in sys.modules])\n"
        "import pandas, rich.progress\n"
        "from sklearn.preprocessing import StandardScaler\n"
        "frame = pandas.DataFrame({'a': [1.0, 2.0]})\n"
        "scaler = StandardScaler().set_output(transform='pandas').fit(frame)\n"
        "print(scaler.feature_names_in_, type(scaler.transform(frame)).__name__)\n"
    )
    assert told == ["['sklearn.pipeline']", "['a'] DataFrame"]
    assert "pandas" in loaded


def test_the_paper_is_a_pool_of_the_command_line(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 2))
    pl.DataFrame(rows, schema=["a", "b"]).write_csv(tmp_path / "x.csv")
    names = ["--detectors", "paper", "--json"]
    answer = lpfuse("fit", str(tmp_path / "x.csv"), "-o", str(tmp_path / "m"), *names)
    assert list(json.loads(answer.stdout)["weights"]) == ["svdd", "gp", "kpca", "gmm"]


# ------------------------------------------------------------------------------------------- help


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_help_names_the_commands(arguments):
    answer = lpfuse(*arguments)
    assert all(name in answer.output.split() for name in COMMANDS)


def test_help_loads_nothing_heavy(tmp_path):
    answers, loaded = in_one_process([[name, "--help"] for name in COMMANDS], tmp_path)
    for (code, said), name in zip(answers, COMMANDS, strict=True):
        assert code == 0
        assert re.search(rf"Usage: \w+ {name} ", said)
    assert not loaded & {"numpy", "scipy", "sklearn", "joblib", "pandas", "polars", "matplotlib"}


def test_no_such_command():
    answer = lpfuse("nothing")
    assert answer.exit_code == 2
    assert "nothing" in answer.stderr


# ---------------------------------------------------------------------------------------- version


def test_version_in_a_process_of_its_own():
    command = [sys.executable, "-m", "lpfuse_cli", "version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == [f"{name} {found}" for name, found in versions().items()]
    assert answer.stderr == ""


def test_versions_in_words_and_for_programs():
    told = lpfuse("version").stdout.splitlines()
    assert told == [f"{name} {found}" for name, found in versions().items()]
    assert json.loads(lpfuse("version", "--json").stdout) == versions()


@pytest.mark.parametrize(
    "arguments", [["--quiet", "version"], ["version", "--quiet"], ["version", "-q"]]
)
def test_quiet_version_is_the_number_alone(arguments):
    assert lpfuse(*arguments).stdout == version("lpfuse") + "\n"


def test_without_the_extra_the_command_names_it(monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("lpfuse_cli.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == 'The lpfuse command needs typer. Install it: pip install "lpfuse[cli]"\n'


def test_a_mistake_of_ours_is_not_blamed_on_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "lpfuse_cli.app", None)
    with pytest.raises(ImportError, match=r"lpfuse_cli\.app"):
        main()


def test_main_runs_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["anything", "version", "--quiet"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert capsys.readouterr().out == version("lpfuse") + "\n"


# ----------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ValueError("p must be [1, inf]"), 2, "Error: p must be [1, inf].\n"),
        (ValueError("Wrong. Do it right."), 2, "Error: Wrong. Do it right.\n"),
        (FileNotFoundError("There are no results."), 2, "Error: There are no results.\n"),
        (FileNotFoundError(2, "No such file", "a.csv"), 2, "Error: No such file: a.csv.\n"),
        (PermissionError(13, "Permission denied", "a"), 2, "Error: Permission denied: a.\n"),
        (NotADirectoryError(20, "Not a directory", "a"), 2, "Error: Not a directory: a.\n"),
        (IsADirectoryError(21, "Is a directory", "a"), 2, "Error: Is a directory: a.\n"),
        (FileExistsError(17, "File exists", "a"), 2, "Error: File exists: a.\n"),
        (ImportError('pip install "lpfuse[x]"'), 2, 'Error: pip install "lpfuse[x]"\n'),
        (OSError(28, "No space left on device", "a"), 1, "Error: No space left on device: a.\n"),
        (OSError(28, "No space left on device"), 1, "Error: [Errno 28] No space left on device.\n"),
        (BlockingIOError("Another process."), 1, "Error: Another process.\n"),
        (MemoryError(), 1, "Error: The memory is not enough.\n"),
    ],
)
def test_errors_are_sentences(error, code, message):
    answer = raising(error)
    assert (answer.exit_code, answer.stdout, answer.stderr) == (code, "", message)


def test_a_worker_that_dies_is_a_sentence():
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    answer = raising(TerminatedWorkerError("A worker ended."))
    assert (answer.exit_code, answer.stderr) == (1, "Error: A worker ended.\n")


def test_notes_of_an_error_follow_it():
    error = ValueError("Singular")
    error.add_note("This happened while measuring iris, seed 3.")
    assert raising(error).stderr == (
        "Error: Singular. This happened while measuring iris, seed 3.\n"
    )


@pytest.mark.parametrize("error", [TypeError("ours"), ImportError("No module named 'x'")])
def test_mistakes_of_ours_keep_their_traceback(error):
    answer = raising(error)
    assert answer.exit_code == 1
    assert answer.exception is error
    assert answer.stderr == ""


def test_a_traceback_can_be_asked_for():
    error = ValueError("yours")
    assert raising(error, "--traceback").exception is error


def test_a_closed_pipe_is_no_error_to_talk_about():
    assert console.exit_code(BrokenPipeError()) is None


# -------------------------------------------------------------------------------------- terminals


class Terminal(io.StringIO):
    def isatty(self):
        return True


@contextmanager
def terminal():
    with redirect_stdout(Terminal()) as screen, redirect_stderr(screen):
        yield screen


def test_text_is_laid_out_on_a_terminal():
    with terminal() as screen:
        console.show(TABLE, quiet=False)
    assert "|---|" not in screen.getvalue()
    assert "sum [1]" in screen.getvalue()


def test_quiet_text_is_plain_on_a_terminal_too():
    with terminal() as screen:
        console.show(TABLE, quiet=True)
    assert screen.getvalue() == TABLE
