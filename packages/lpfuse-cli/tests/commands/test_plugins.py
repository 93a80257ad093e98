"""Commands of other packages: under an entry point, on the path of a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lpfuse

CORE = Path(lpfuse.__file__).parents[1]
WORKING = """
import typer
from lpfuse_cli import console

app = typer.Typer(help="Greets.")

@app.callback()
def options() -> None: ...

@app.command()
def hello(name: str = "you", seed: console.Seed = 0) -> None:
    if seed:
        raise ValueError(f"random_state={seed} is too much. Pass name='nobody'.")
    print("hello", name)
"""


@pytest.fixture
def installed(tmp_path):
    """A function that puts a plug-in, as if installed, beside lpfuse."""

    def install(name, content):
        (tmp_path / f"{name}_plugin.py").write_text(content)
        about = tmp_path / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[lpfuse.commands]\n{name} = {name}_plugin:app\n")

    return install


@pytest.fixture
def run(tmp_path):
    """The command line in a process of its own, which knows the plug-ins of the test."""

    def call(*arguments, options=()):
        # Neither the plug-ins of this environment nor those of this repository: those of the test.
        script = (
            "import importlib.metadata as m, sys\n"
            f"sys.path[:0] = [{str(CORE)!r}, {str(tmp_path)!r}]\n"
            f"here = {{e.name: e for d in m.distributions(path=[{str(tmp_path)!r}])"
            " for e in d.entry_points}\n"
            "m.entry_points = lambda **k: list(here.values())\n"
            "from lpfuse_cli import main\n"
            "sys.argv[0] = 'lpfuse'\n"
            "main()\n"
        )
        command = [sys.executable, *options, "-c", script, *arguments]
        environment = {**os.environ, "TERM": "dumb", "COLUMNS": "200"}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    return call


def test_without_plugins_there_are_the_own_commands(run):
    answer = run("--help")
    assert answer.returncode == 0
    assert "score" in answer.stdout
    assert "faces" not in answer.stdout
    assert "reproduce" not in answer.stdout


def test_a_plugin_is_a_command_like_others(installed, run):
    installed("greet", WORKING)
    assert "Greets." in run("--help").stdout
    answer = run("greet", "hello", "--name", "Ada")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "hello Ada\n", "")


def test_its_errors_are_sentences_in_its_options(installed, run):
    installed("greet", WORKING)
    answer = run("greet", "hello", "--seed", "3")
    assert answer.returncode == 2
    assert answer.stderr == "Error: --seed 3 is too much. Pass --name nobody.\n"


BROKEN = ["raise RuntimeError('half installed')", "import nowhere_to_be_found", "app = ("]


def test_broken_plugins_refuse_and_the_others_work(installed, run):
    installed("greet", WORKING)
    for k, content in enumerate(BROKEN):
        installed(f"broken{k}", content)
    assert run("greet", "hello").stdout == "hello you\n"
    assert run("version", "--quiet").returncode == 0
    assert run("--help").stdout.count("Could not be loaded") == len(BROKEN)
    for k in range(len(BROKEN)):
        answer = run(f"broken{k}", "anything", "--at", "all")
        assert (answer.returncode, answer.stdout) == (2, "")
        told = f"Error: The command 'broken{k}' is a plug-in, broken{k}_plugin:app, that could not"
        assert answer.stderr.startswith(told)
        assert answer.stderr.count("\n") == 1


def test_help_with_a_plugin_loads_nothing_heavy(installed, run):
    installed("greet", WORKING)
    answer = run("greet", "--help", options=["-X", "importtime"])
    loaded = {line.split("|")[-1].strip() for line in answer.stderr.splitlines()}
    assert "Greets." in answer.stdout
    assert "lpfuse_cli.app" in loaded
    assert not loaded & {"numpy", "scipy", "sklearn", "joblib", "pandas", "polars", "matplotlib"}
