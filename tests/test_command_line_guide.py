"""The guide to the command line tells what really happens."""

import doctest
import json
import re
import shlex
from pathlib import Path

from typer.testing import CliRunner

from helpers.pumps import pumps, score_table, write
from lpfuse_cli.app import app

GUIDE = Path(__file__).parents[1] / "docs" / "command-line.md"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def sessions():
    """Commands of the guide, and what they print."""
    for block in re.findall(r"```console\n(.*?)```", GUIDE.read_text(), re.S):
        yield from re.findall(r"^\$ lpfuse (.*)\n((?:(?!\$ ).*\n)*)", block, re.M)


def without_figures(text):
    """Words alone: figures, and which detectors there are, may change with any version."""
    lines = [line for line in text.splitlines() if not line.startswith("|")]
    return re.sub(r"-?\d[\d.,e-]*", "#", "\n".join(lines))


def answer_questions(folder):
    """What the page exports, when somebody answers it who knows the pumps; row 1 is the header."""
    page = (folder / "questions.html").read_text()
    (held,) = re.findall(r'type="application/json" id="questions">(.*?)</script>', page)
    found, states = json.loads(held), pumps(1000, seed=1)["state"]
    words = {"ok": "normal", "worn": "anomaly"}
    lines = [q["before"] + words[states[q["row"] - 2]] + q["behind"] for q in found["questions"]]
    (folder / "answers.csv").write_text("\n".join([found["header"], *lines]))


def test_what_the_guide_shows_is_what_happens(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(pumps(300), tmp_path / "pumps.csv")
    write(pumps(1000, seed=1), tmp_path / "new.csv")
    write(score_table(), tmp_path / "tools.csv")
    shown = list(sessions())
    assert len(shown) == 12
    for command, expected in shown:
        words, _, source = command.partition(" < ")
        given = Path(source).read_text() if source else None
        answer = CliRunner().invoke(app, shlex.split(words), input=given)
        last = answer.stderr.splitlines()[-1:] if expected else []
        printed = without_figures(answer.stdout or "".join(last))
        same = doctest.OutputChecker().check_output(without_figures(expected), printed, FLAGS)
        assert same, (command, printed)
        if command.startswith("ask "):
            answer_questions(tmp_path)
