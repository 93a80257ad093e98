"""``lpfuse faces evaluate --preset paper``, from videos to figures."""

import json
import sys
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from lpfuse_cli.app import app
from lpfuse_faces.clips import write_clips
from lpfuse_faces.evaluation import PAPER_SETS
from lpfuse_faces.stand_in import make_stand_in

KINDS = ["smoothed", "up-convolved"]
SPLITS = {"astronaut": "train", "camera": "val", "hopper": "test"}
ALEXNET = "alexnet-owt-7be5be79.pth"


@pytest.fixture(autouse=True)
def no_weights(monkeypatch, tmp_path):
    """A folder for weights, without any."""
    for name in ("LPFUSE_FACES_CACHE", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "weights"
    folder.mkdir()
    monkeypatch.setenv("LPFUSE_WEIGHTS", str(folder))
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Three faces, one for each of training, validation and test; and a cache."""
    folder = tmp_path_factory.mktemp("stand-in")
    clips = make_stand_in(
        folder, qualities=[23], kinds=KINDS, clips_per_face=3, frames=4, size=160, n_jobs=1
    )
    divided = [replace(clip, split=SPLITS[clip.identities[0]]) for clip in clips]
    write_clips(folder / "clips.csv", divided)
    return folder, tmp_path_factory.mktemp("features")


def evaluate(made, *arguments, preset="paper"):
    folder, cache = made
    line = ["faces", "evaluate", folder, "--cache", cache, "--preset", preset, "-j", 1, *arguments]
    return CliRunner().invoke(app, list(map(str, line)))


def samplings(made):
    found = [json.loads(path.read_text()) for path in made[1].glob("*/settings.json")]
    return [meaning["settings"]["sampling"] for meaning in found]


def test_from_videos_to_figures_as_published(made, no_weights, tmp_path):
    """All frames, four learners on each set, choices on validation; networks without weights."""
    page = tmp_path / "page.md"
    answer = evaluate(made, "--page", page, "--setting", "pure")
    assert answer.exit_code == 0, answer.output
    assert (
        "Note: Networks of the paper are left out (inception, darknet, alexnet: no weights in "
        f"{no_weights}). Azimuthal profiles stand in for them."
    ) in answer.stderr
    told = "26 for the learners on each of 3 feature sets, fitted to 12 genuine training frames"
    assert told in answer.stderr
    assert answer.stderr.index(told) < answer.stderr.index("Leaving out")  # before the work
    assert told in page.read_text()
    assert f"Left out of the paper's nine feature sets: {', '.join(PAPER_SETS)}." in answer.stdout
    assert {sampling["every"] for sampling in samplings(made)} == {1}

    found = json.loads(evaluate(made, "--json").stdout)
    areas = [row for row in found["rows"] if row["metric"] == "auc"]
    assert {row["kind"] for row in areas} == set(KINDS)
    assert len({row["method"] for row in areas}) == 2 + 3 * 4
    for row in areas:
        assert 0 <= row["value"] <= 100
        learner = row["method"].partition(":")[0]
        names = {"lp": {"p", "rho"}, "sum": {"rho"}, "kpca": {"sigma", "q"}, "gmm": set()}
        assert set(row["choices"]) == names.get(learner, {"sigma"})
    assert "Networks of the paper are left out" in found["warnings"][0]


def test_what_an_option_says_stays(made, no_weights):
    """Frames and features that are named are taken, and nobody is told of networks."""
    line = ["--frames", 2, "--features", "azimuthal", "--learners", "gmm", "--setting", "pure"]
    answer = evaluate(made, *line, "--json")
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    assert found["warnings"] == []
    told = "1 for the learners on each of 3 feature sets, fitted to 6 genuine training frames"
    assert told in found["rows"][0]["warnings"][0]
    assert 2 in [sampling["count"] for sampling in samplings(made)]


def test_weights_without_torch_are_of_no_use(made, no_weights, monkeypatch):
    (no_weights / ALEXNET).touch()
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    answer = evaluate(made, "--learners", "gmm", "--setting", "pure")
    assert answer.exit_code == 0, answer.output
    assert "(inception, darknet: no weights in " in answer.stderr
    assert "; alexnet: torch is not installed)" in answer.stderr


def test_the_default_looks_at_32_frames(made):
    answer = evaluate(made, "--learners", "gmm", "--json", preset="default")
    assert "two groups of people or more" in answer.stderr  # its folds share nobody
    assert 32 in [sampling["count"] for sampling in samplings(made)]


def test_what_is_refused(made, tmp_path):
    answer = evaluate(made, "-q", preset="published")
    assert answer.exit_code == 2
    assert answer.stderr == "Error: --preset must be one of 'default', 'paper'; got 'published'.\n"
    make_stand_in(
        tmp_path / "two", qualities=[23], kinds=KINDS, clips_per_face=1, frames=1, size=160
    )
    answer = evaluate((tmp_path / "two", made[1]), "-q")
    assert answer.exit_code == 2
    assert "chosen on validation clips" in answer.stderr
    assert "with the split val, or no splits at all" in answer.stderr
