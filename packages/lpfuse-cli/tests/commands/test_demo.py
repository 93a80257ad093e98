import json

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import lpfuse
from lpfuse import FusedDetector, KNNDetector
from lpfuse_cli import demo
from lpfuse_cli.app import app


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@pytest.fixture
def quick(monkeypatch):
    """One set, of three classes."""
    monkeypatch.setattr(demo, "PARTS", {"wine": demo.PARTS["wine"]})


def run(*arguments):
    return CliRunner().invoke(app, ["demo", *arguments])


def test_demo_compares_fusion_with_alternatives(quick, tmp_path):
    answer = run()
    assert answer.exit_code == 0, answer.output
    for name in ("wine", "all"):
        assert f"| {name} " in answer.stdout
    for rival, words in demo.RIVALS.items():
        assert f" | {rival} " in answer.stdout
        assert f"{rival}: {words}" in answer.stdout
    assert "chosen after several had been tried" in answer.stdout
    assert "lpfuse fit YOURS.csv" in answer.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "malic_acid" in page
    assert "Fitting …" in answer.stderr.splitlines()


def test_figures_for_machines(quick, tmp_path):
    answer = run("--json", "-o", "page.html")
    found = json.loads(answer.stdout)
    assert answer.stderr == ""
    assert found["report"] == "page.html"
    assert [(each["set"], each["normal"]) for each in found["results"]] == [
        ("wine", "class_0"),
        ("wine", "class_1"),
        ("wine", "class_2"),
    ]
    for each in found["results"]:
        assert each["average"] <= each["hindsight"] <= 1
        assert each["picked"] <= each["hindsight"]
    assert (tmp_path / "page.html").exists()


def test_quiet_is_the_table_alone(quick):
    answer = run("--quiet")
    assert {line[0] for line in answer.stdout.splitlines()} == {"|"}
    assert answer.stderr == ""


def test_no_set_and_no_class_is_left_out():
    from sklearn import datasets

    listed = list(demo.tasks())
    assert list(demo.PARTS) == ["iris", "wine", "breast cancer", "digits"]
    for name in demo.PARTS:
        data = getattr(datasets, f"load_{name.replace(' ', '_')}")()
        inside = [task for task in listed if task.set == name]
        assert [task.normal for task in inside] == [str(each) for each in data.target_names]
        for task in inside:
            assert sorted(j for part in task.parts.values() for j in part) == [
                *range(data.data.shape[1])
            ]
            assert len(task.learn) + len(task.test) == len(data.data)
            assert (task.y_learn < 0).sum() == demo.KNOWN
            normal = task.learn[task.y_learn > 0]
            np.testing.assert_allclose(normal.mean(axis=0), 0, atol=1e-9)


def test_each_rival_is_what_its_words_say():
    task = next(task for task in demo.tasks() if task.set == "wine")
    detectors = [(name, KNNDetector(), columns) for name, columns in task.parts.items()]
    fused = FusedDetector(detectors, random_state=0).fit(task.learn, task.y_learn)
    found = demo.areas_of(fused, task)
    assert found.fusion == roc_auc_score(task.y_test, fused.score_samples(task.test))
    normal = task.learn[task.y_learn > 0]
    alone = [
        roc_auc_score(
            task.y_test, KNNDetector().fit(normal[:, part]).score_samples(task.test[:, part])
        )
        for part in task.parts.values()
    ]
    assert found.average == pytest.approx(np.mean(alone))
    assert found.hindsight == pytest.approx(max(alone))
    assert min(abs(found.picked - auc) for auc in alone) < 1e-9
    whole = KNNDetector().fit(normal).score_samples(task.test)
    assert found.whole == roc_auc_score(task.y_test, whole)


def areas(name, **values):
    return demo.Areas(**{"set": "set", "normal": name, "detectors": 3, **values})


def test_gains_are_what_the_figures_say():
    level = {"average": 0.7, "picked": 0.8, "hindsight": 0.9}
    told = demo.gains(
        [
            areas("a", **level, sum=0.8, whole=0.95, fusion=0.9),
            areas("b", **level, sum=0.85, whole=0.85, fusion=0.94),
        ]
    ).splitlines()
    assert "classes of 2" in told[0]
    assert told[1].split()[:3] == ["+22.0", "2", "0"]
    assert told[3].split()[:3] == ["+2.0", "1", "0"]
    assert told[5].split()[:3] == ["+2.0", "1", "1"]
    assert told[6:] == [
        "Fusing did not help, one detector that sees all columns was better: set a."
    ]


def test_a_folder_that_is_not_there():
    answer = run("-o", "nowhere/page.html")
    assert answer.exit_code == 2
    assert "nowhere" in answer.stderr


def test_interrupted_it_leaves_nothing(tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(lpfuse, "FusedDetector", stop)
    answer = run()
    assert answer.exit_code == 130
    assert list(tmp_path.iterdir()) == []
