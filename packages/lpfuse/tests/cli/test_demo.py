import json
from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import lpfuse
from helpers.pools import Distance
from lpfuse.cli import _demo as demo
from lpfuse.cli._app import app


@pytest.fixture(autouse=True)
def quick(tmp_path, monkeypatch):
    """A small pool: the demo itself takes ten seconds."""
    detectors = [
        ("far", make_pipeline(StandardScaler(), Distance())),
        ("means", make_pipeline(StandardScaler(), Distance(slice(10)))),
        ("logistic", make_pipeline(StandardScaler(), LogisticRegression(C=0.1))),
    ]
    small = partial(lpfuse.FusedDetector, detectors, cv=3)
    monkeypatch.setattr(lpfuse, "FusedDetector", small)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def run(*arguments):
    return CliRunner().invoke(app, ["demo", *arguments])


def test_the_demo_shows_what_single_detectors_rules_and_the_fusion_reach(tmp_path):
    answer = run()
    assert answer.exit_code == 0, answer.output
    for name in ("far", "means", "logistic", "sum", "median", "min", "max", "ℓp fusion"):
        assert f"| {name} " in answer.stdout
    assert answer.stdout.count("expert: learns from the known anomalies too") == 1
    assert answer.stdout.count("detector: learns what is normal") == 2
    assert "mean ± sd of 3 splits" in answer.stdout
    assert "lpfuse fit YOURS.csv" in answer.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "mean radius" in page or "worst" in page
    assert "Fitting …" in answer.stderr.splitlines()


def test_figures_for_machines(tmp_path):
    answer = run("--json", "-o", "page.html")
    found = json.loads(answer.stdout)
    assert answer.stderr == ""
    assert found["report"] == "page.html"
    aucs, summary = demo.compare(None)
    assert found["headline"] == summary["headline"]
    assert found["results"] == [
        {"kind": kind, "name": name, "auc": auc} for (kind, name), auc in aucs.items()
    ]
    kinds = [result["kind"] for result in found["results"]]
    assert kinds == ["detector"] * 2 + ["expert"] + ["rule"] * 4 + ["fusion"]
    assert {len(result["auc"]) for result in found["results"]} == {3}
    assert (tmp_path / "page.html").exists()


def test_quiet_is_the_table_alone():
    answer = run("--quiet")
    assert {line[0] for line in answer.stdout.splitlines()} == {"|"}
    assert answer.stderr == ""


def test_the_fusion_is_judged_as_the_model_scores():
    from sklearn.datasets import load_breast_cancer
    from sklearn.metrics import roc_auc_score

    X, benign = load_breast_cancer(return_X_y=True)
    y = np.where(benign == 1, 1, -1)
    fused = lpfuse.FusedDetector(random_state=0).fit(X[:200], y[:200])
    found = demo.areas_of(fused, X[200:], y[200:])
    assert found[demo.FUSION] == pytest.approx(roc_auc_score(y[200:], fused.score_samples(X[200:])))
    raw = fused.detector_scores(X[200:])
    assert found["detector", "far"] == roc_auc_score(y[200:], raw[:, 0])
    assert found["expert", "logistic"] == roc_auc_score(y[200:], raw[:, 2])


def test_gains_are_what_the_figures_say():
    aucs = {
        ("detector", "gmm"): [0.8, 0.9],
        ("expert", "trees"): [0.9, 0.96],
        ("rule", "sum"): [0.9, 0.9],
        demo.FUSION: [0.88, 0.94],
    }
    told = demo.gains(aucs).splitlines()
    assert told[1] == "  +1.0  1  their plain sum"
    assert told[2] == "  +2.0  2  an average one of them"
    assert told[3].startswith("  −2.0  0  the best of them, trees")


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
