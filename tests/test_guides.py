"""The guides: short enough to read, each with an example that runs."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import IsolationForest

import lpfuse
from lpfuse.adapters import ScoreColumn
from lpfuse.onnx_export import to_onnx
from lpfuse.plots import WeightsDisplay
from lpfuse.threshold import OnlineDiscoveries, calibration_promise, control_false_discoveries
from lpfuse_cli.report import ask, summarise, write_questions, write_report
from tools import readability

ROOT = Path(__file__).parents[1]
# Pages whose examples are run by tests of their own, and not by doctest.
RUN_ELSEWHERE = {
    "command-line.md": "tests/test_command_line_guide.py",
    "cheat-sheet.md": "tests/test_guides.py",
}


def test_the_guides_are_short_enough():
    words = {name: len(text.split()) for name, text in readability.guides().items()}
    assert sum(words.values()) <= readability.LIMIT, sorted(
        words.items(), key=lambda each: -each[1]
    )


def test_every_guide_has_an_example_that_runs():
    for name, text in readability.guides().items():
        if name in RUN_ELSEWHERE:
            assert name in (ROOT / RUN_ELSEWHERE[name]).read_text("utf-8")
        else:
            assert re.search(r"^>>> (?!.*# doctest: \+SKIP)", text, re.M), name


def test_the_code_of_the_cheat_sheet_runs(tmp_path, monkeypatch, capsys):
    """Line by line; what the sheet takes for granted is made here."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 3)), np.repeat([-1, 1], [6, 114])
    X[y < 0] += 4
    frame = pl.DataFrame(X, schema=["bar", "litres", "cam"])
    names = {name: getattr(lpfuse, name) for name in lpfuse.__all__} | {
        "IsolationForest": IsolationForest, "ScoreColumn": ScoreColumn, "ask": ask,
        "OnlineDiscoveries": OnlineDiscoveries, "WeightsDisplay": WeightsDisplay,
        "calibration_promise": calibration_promise, "summarise": summarise, "to_onnx": to_onnx,
        "control_false_discoveries": control_false_discoveries, "lpfuse": lpfuse,
        "write_questions": write_questions, "write_report": write_report,
        "X": X, "y": y, "frame": frame, "machine": np.repeat(np.arange(24), 5), "new": X[:50],
        "rows": X[:3], "S": rng.normal(size=(120, 3)), "pvalues": rng.random(50),
        "new_normal_rows": rng.normal(size=(200, 3)), "table": frame,
    }  # fmt: skip
    text = (ROOT / "docs" / "cheat-sheet.md").read_text("utf-8")
    lines = "".join(re.findall(r"```python\n(.*?)```", text, re.S)).splitlines()
    for line in filter(None, lines):
        if line.startswith("fused.save"):  # questions are asked of rows with names
            names |= {"fused": lpfuse.FusedDetector(["gmm"]).fit(frame), "new": frame[:50]}
        exec(line, names)
        if "query" in line:
            names["answers"] = y[names["rows"]]
    assert "10 answers took part" in capsys.readouterr().out
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {"pumps.lpfuse", "pumps.onnx", "report.html", "questions.html"}


@pytest.mark.parametrize(
    ("text", "sentences", "words"),
    [
        ("One two three. Four five.", 2, 5),
        ("# A title\n\nOne two.\n\n```python\n>>> 1 + 1\n2\n```\n", 1, 2),
        ("| a | table |\n|---|---|\n\nOne `x = 1` [two](three.md).", 1, 3),
        ("- One two\n- three four\n", 2, 4),
        ("    an indented block\n\nA version 1.5 of it.", 1, 5),
    ],
)
def test_sentences_are_those_of_running_text(text, sentences, words):
    found = readability.sentences(text)
    assert (len(found), sum(map(len, found))) == (sentences, words)


def test_long_words_in_long_sentences_are_harder_to_read():
    easy = readability.figures("The cat sat. The dog ran.")
    hard = readability.figures(
        "Notwithstanding considerable difficulties, the committee deliberated."
    )
    assert easy[0] == 6
    assert easy[1] == 3 < hard[1]
    assert easy[2] == pytest.approx(206.835 - 1.015 * 3 - 84.6)
    assert hard[2] < easy[2]


def test_two_versions_stand_beside_each_other():
    lines = readability.table([{"a.md": "One two."}, {"b.md": "One two three."}]).splitlines()
    assert lines[2].startswith("| a.md | 2 | 2.0 |")
    assert lines[2].endswith("| – | – | – |")
    assert lines[-1].startswith("| all | 2 |")
