import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from helpers.cases import cases
from lpfuse_cli.app import app
from research.commands import EXPERIMENTS
from research.common.options import Options
from research.common.store import read_rows

COMMANDS = [*EXPERIMENTS, "all"]
TABLE = "# Ours\n\n| method | AUC |\n|---|---|\n| sum [1] | 0.9 |\n"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in ("LPFUSE_DATA", "FORCE_COLOR", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def asked(monkeypatch):
    """Experiments that write down what they were asked."""
    calls = []

    def experiment(name):
        def run(options):
            calls.append((name, options))
            return TABLE.replace("Ours", name)

        return SimpleNamespace(run=run)

    for name in EXPERIMENTS:
        module = f"research.paper.{name.replace('-', '_')}"
        monkeypatch.setitem(sys.modules, module, experiment(name))
    return calls


def raising(monkeypatch, error, name="uci"):
    def run(options):
        raise error

    monkeypatch.setitem(sys.modules, f"research.paper.{name}", SimpleNamespace(run=run))


def lpfuse(*arguments):
    return CliRunner().invoke(app, arguments)


def text_of(answer):
    """Help without its frames and line breaks."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", answer.output).split())


# ------------------------------------------------------------------------------------------- help


@cases("arguments", [["--help"], ["-h"], ["reproduce", "--help"], ["reproduce"]])
def test_help_names_the_commands(arguments):
    answer = lpfuse(*arguments)
    names = COMMANDS if "reproduce" in arguments else ["fit", "reproduce"]
    assert all(name in answer.output.split() for name in names)


@cases("name", COMMANDS)
def test_help_of_an_experiment_explains_the_options_with_an_example(name):
    answer = lpfuse("reproduce", name, "--help")
    assert answer.exit_code == 0
    text = text_of(answer)
    assert f"Example: lpfuse reproduce {name} " in text
    for option in ("out", "data", "jobs", "seeds", "quick", "sets", "label", "normal", "show"):
        assert f"--{option} " in text
    assert "LPFUSE_DATA" in text


def test_help_loads_nothing_heavy():
    command = [sys.executable, "-X", "importtime", "-m", "lpfuse_cli", "reproduce", "uci", "--help"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Usage: lpfuse reproduce uci" in answer.stdout
    loaded = {line.split("|")[-1].strip() for line in answer.stderr.splitlines()}
    assert "lpfuse_cli.app" in loaded
    assert not loaded & {"numpy", "scipy", "sklearn", "joblib", "pandas", "polars", "matplotlib"}


def test_no_such_command():
    answer = lpfuse("reproduce", "nothing")
    assert answer.exit_code == 2
    assert "nothing" in answer.stderr


# -------------------------------------------------------------------------------------- reproduce


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_defaults(asked, name):
    answer = lpfuse("reproduce", name)
    assert answer.exit_code == 0
    assert answer.stdout == TABLE.replace("Ours", name)  # plain in a pipe
    ((called, options),) = asked
    assert called == name
    assert callable(options.progress)
    assert options == Options(jobs=-1, progress=options.progress)
    assert options.out == Path("results")
    assert options.seeds == 10


def test_every_option_arrives(asked, tmp_path):
    answer = lpfuse(
        "reproduce", "lp-effect", "--out", "there", "--data", str(tmp_path), "--jobs", "2",
        "--seeds", "3", "--quick", "--sets", "iris", "--sets", "my.csv", "--label", "status",
        "--normal", "ok", "--show", "--quiet", "--pages", "pages",
    )  # fmt: skip
    assert answer.exit_code == 0
    expected = Options(
        out=Path("there"),
        data=tmp_path,
        jobs=2,
        seeds=3,
        quick=True,
        sets=("iris", "my.csv"),
        label="status",
        normal="ok",
        show=True,
        pages=Path("pages"),
        progress=None,
    )
    assert asked == [("lp-effect", expected)]


def test_show_finds_published_rows_unless_there_are_own(asked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lpfuse("reproduce", "uci", "--show")
    published, pages = asked[0][1].out, asked[0][1].page_folder
    assert read_rows(published / "uci.jsonl")
    assert pages == Path("results")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "uci.jsonl").touch()
    lpfuse("reproduce", "uci", "--show")
    assert asked[1][1].out == Path("results")


def test_the_data_folder_comes_from_the_environment(asked, tmp_path, monkeypatch):
    monkeypatch.setenv("LPFUSE_DATA", str(tmp_path))
    lpfuse("reproduce", "uci")
    assert asked[0][1].data == tmp_path


def test_quiet_before_the_command(asked):
    lpfuse("--quiet", "reproduce", "uci")
    assert asked[0][1].progress is None


@cases(
    "arguments",
    [["--data", "nowhere"], ["--seeds", "0"], ["--jobs", "-2"], ["--jobs", "two"], ["--nothing"]],
)
def test_values_that_make_no_sense_are_refused_before_anything_runs(asked, arguments):
    answer = lpfuse("reproduce", "uci", *arguments)
    assert answer.exit_code == 2
    assert arguments[0] in answer.stderr
    assert asked == []


def test_all_runs_each_once_and_prints_in_order(asked):
    answer = lpfuse("reproduce", "all", "--seeds", "2", "--quiet")
    assert [name for name, _ in asked] == list(EXPERIMENTS)
    assert {options for _, options in asked} == {Options(jobs=-1, seeds=2)}
    assert re.findall("# (.*)", answer.stdout) == list(EXPERIMENTS)


def test_all_leaves_out_what_lacks_an_extra(asked, monkeypatch):
    raising(monkeypatch, ImportError('This needs cvxpy: pip install "lpfuse[bench]"'), "speed")
    answer = lpfuse("reproduce", "all")
    assert answer.exit_code == 2
    assert [name for name, _ in asked] == [name for name in EXPERIMENTS if name != "speed"]
    assert answer.stderr == (
        'Error: This needs cvxpy: pip install "lpfuse[bench]" So speed is left out.\n'
    )


@pytest.mark.parametrize("error", [ValueError("no such set"), ImportError("No module named 'x'")])
def test_all_stops_at_other_errors(asked, monkeypatch, error):
    raising(monkeypatch, error, "loss")
    assert lpfuse("reproduce", "all").exit_code == (2 if isinstance(error, ValueError) else 1)
    assert [name for name, _ in asked] == ["uci", "lp-effect"]


def test_an_error_of_an_experiment_is_a_sentence_in_options(monkeypatch):
    raising(monkeypatch, ValueError("Pass label= with one of its columns."))
    answer = lpfuse("reproduce", "uci")
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert answer.stderr == "Error: Pass --label with one of its columns.\n"


INTERRUPTED = """
import os, signal, sys
from types import SimpleNamespace
from lpfuse_cli import main
from research.common.measure import measure
from research.common.store import Cell

def work(cell):
    if cell.seed == 2:
        os.kill(os.getpid(), signal.SIGINT)
    return [{"value": 1.0}]

def run(options):
    cells = [Cell("iris", seed) for seed in range(options.seeds)]
    measure(work, cells, options.out / "uci.jsonl", protocol={}, progress=options.progress)

sys.modules["research.paper.uci"] = SimpleNamespace(run=run)
main()
"""


def test_ctrl_c_keeps_what_is_finished_and_says_so(tmp_path):
    arguments = ["reproduce", "uci", "--seeds", "3", "--jobs", "1", "--out", tmp_path]
    command = [sys.executable, "-c", INTERRUPTED, *arguments]
    stopped = subprocess.run(command, capture_output=True, text=True, check=False)
    assert stopped.returncode == 130
    assert stopped.stdout == ""
    *progress, last = stopped.stderr.splitlines()
    assert last == (
        "Interrupted. The finished splits are kept: the same command goes on from there."
    )
    assert progress[0] == "uci …"
    assert [row["seed"] for row in read_rows(tmp_path / "uci.jsonl")] == [0, 1]
