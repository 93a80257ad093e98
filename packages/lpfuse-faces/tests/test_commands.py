"""From a folder of clips to verdicts, all through the command line."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import lpfuse
from helpers.cases import cases
from lpfuse.io import save
from lpfuse_cli.app import app
from lpfuse_faces import _extractor as extractor_module
from lpfuse_faces._extractor import Extractor
from lpfuse_faces._model_file import load_model, settings_of
from lpfuse_faces._video import write_video
from lpfuse_faces.cli._demo import BEWARE, QUICK, Size, area_table, demonstrate, next_steps
from lpfuse_faces.cli.app import EXAMPLES
from lpfuse_faces.clips import read_clips, write_clips
from lpfuse_faces.stand_in import make_stand_in

KINDS = ["smoothed", "up-convolved"]
COMMANDS = [command.__name__ for command in EXAMPLES]
RANDOM = "features of alexnet come from random weights, seed 0: they mean nothing"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in ("LPFUSE_FACES_CACHE", "LPFUSE_FACES_MODEL", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """Two genuine clips of each of three faces, and each once in two kinds of forgery."""
    folder = tmp_path_factory.mktemp("stand-in")
    make_stand_in(
        folder, qualities=[23], kinds=KINDS, clips_per_face=2, frames=2, size=160, n_jobs=1
    )
    return folder


def faces(command, *arguments):
    return CliRunner().invoke(app, ["faces", command, *map(str, arguments)])


@pytest.fixture(scope="module")
def extracted(clips, tmp_path_factory):
    """The cache, and what the command said."""
    cache = tmp_path_factory.mktemp("features") / "cache"
    return cache, faces("extract", clips, "--cache", cache, "--frames", 2, "--jobs", 1)


TRAIN = ["--frames", 2, "--jobs", 1, "--learners", "gmm,kpca", "--leave-out", "up-convolved"]
RATE = ["--false-alarm-rate", 0.25]


@pytest.fixture(scope="module")
def trained(clips, extracted, tmp_path_factory):
    """The model, and what the command said."""
    path = tmp_path_factory.mktemp("model") / "faces.lpfuse"
    return path, faces("train", clips, "--cache", extracted[0], "-o", path, *TRAIN, *RATE)


@pytest.fixture
def decoded(monkeypatch):
    """Names of the videos that are read, not found in a cache."""
    names = []
    extract = Extractor.extract

    def counted(self, path, sha256=None):
        names.append(Path(path).name)
        return extract(self, path, sha256)

    monkeypatch.setattr(Extractor, "extract", counted)
    return names


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def complaint(folder, *arguments, code=2):
    """The one sentence that a command ends with; it has written nothing."""
    before = files(folder)
    answer = faces(*arguments, "-q")
    assert answer.exit_code == code, answer.output
    assert answer.stdout == ""
    assert answer.stderr.startswith("Error: ")
    assert answer.stderr.count("\n") == 1
    assert files(folder) == before
    return answer.stderr


# ------------------------------------------------------------------------------------------- help


@cases("command", COMMANDS)
def test_help_has_an_example(command):
    answer = faces(command, "--help")
    assert answer.exit_code == 0
    assert f"Example: lpfuse faces {command} " in answer.stdout


def test_help_loads_nothing_heavy():
    line = [sys.executable, "-X", "importtime", "-m", "lpfuse_cli", "faces", "train", "--help"]
    answer = subprocess.run(line, capture_output=True, text=True, check=True)
    loaded = {line.split("|")[-1].strip() for line in answer.stderr.splitlines()}
    assert {f"lpfuse_faces.cli._{command}" for command in COMMANDS} <= loaded
    heavy = {"numpy", "scipy", "sklearn", "av", "cv2", "torch", "onnxruntime", "matplotlib"}
    assert not loaded & heavy


# ---------------------------------------------------------------------------------------- extract


def test_extract_says_what_was_done(extracted):
    cache, answer = extracted
    assert answer.exit_code == 0, answer.output
    said = answer.stdout.strip().splitlines()
    assert said[0].startswith("18 videos: 18 extracted in ")
    assert re.fullmatch(r"36 frames looked at, [0-3] of them without a face\.", said[1])
    (key,) = [path.name for path in cache.iterdir()]
    assert said[2] == f"Features are in {cache}, under {key}."
    assert answer.stderr.startswith("Extracting …\n")


def test_what_is_in_the_cache_is_not_read_again(clips, extracted, decoded):
    answer = faces("extract", clips, "--cache", extracted[0], "--frames", 2, "--json")
    found = json.loads(answer.stdout)
    assert decoded == []
    assert answer.stderr == ""
    assert (found["videos"], found["extracted"], found["found"]) == (18, 0, 18)
    assert (found["frames"], found["skipped"]) == (36, {})
    assert f"{found['without_face']} of them without a face." in extracted[1].stdout
    other = faces("extract", clips / "c23/genuine", "--cache", extracted[0], "--every", 2, "-q")
    assert (other.exit_code, other.output) == (0, "")
    assert len(decoded) == 6  # other frames: other features


def test_an_interrupted_extraction_goes_on(clips, tmp_path, monkeypatch, decoded):
    counted = Extractor.extract

    def stopped(self, path, sha256=None):
        if len(decoded) == 4:
            raise KeyboardInterrupt
        return counted(self, path, sha256)

    genuine = clips / "c23/genuine"
    line = ["extract", genuine, "--cache", tmp_path / "c", "--frames", 1, "--jobs", 1]
    monkeypatch.setattr(Extractor, "extract", stopped)
    answer = faces(*line)
    assert answer.exit_code == 130
    assert "The finished videos are kept: the same command goes on" in answer.stderr
    first = list(decoded)
    monkeypatch.setattr(Extractor, "extract", counted)
    assert "2 extracted" in faces(*line).stdout
    assert len(first) == 4
    assert sorted(decoded) == sorted(path.name for path in genuine.iterdir())


def test_broken_files_are_named_and_skipped(clips, tmp_path):
    shutil.copy(clips / "c23/genuine/hopper-00.mp4", tmp_path)
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_text("a video, believe me")
    answer = faces("extract", tmp_path, "--cache", tmp_path / "c", "--frames", 1)
    assert answer.exit_code == 0
    assert "3 videos: 1 extracted" in answer.stdout
    assert ", 2 skipped." in answer.stdout
    rows = [line for line in answer.stdout.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert "empty.mp4" in rows[2]
    assert "empty" in rows[2].split("|")[2]
    (tmp_path / "hopper-00.mp4").unlink()
    answer = faces("extract", tmp_path, "--cache", tmp_path / "c", "-q")
    assert answer.exit_code == 2
    assert answer.stderr.startswith("Error: None of 2 videos could be read: empty.mp4: ")


@cases(
    ("arguments", "told"),
    [
        (["{where}/nowhere"], "There is no file or folder"),
        (["{clips}", "--quality", "c40"], "has no clips of quality 'c40'"),
        (["{clips}", "--frames", "3", "--every", "2"], "--frames and --every both say"),
        (["{clips}", "--features", "azimuthal,resnet"], "'resnet'"),
        (["{clips}", "--features", ""], "features must name something"),
        (["{clips}", "--weights", "alexnet"], "NAME=PATH or NAME=random; got 'alexnet'"),
        (["{clips}", "--weights", "resnet=random"], "'resnet'"),
        (["{clips}", "--face", "nicest"], "'nicest'"),
        (["{clips}", "--features", "alexnet"], "--weights NAME=PATH, or NAME=random."),
        (["{clips}/c23/warm.mp4"], "There is no file or folder"),
        (["{clips}/c23/genuine", "--features", "alexnet"], "none is known here"),
        (["{clips}", "--cache", "{where}/file"], "is a file"),
    ],
)
def test_what_cannot_be_extracted(clips, tmp_path, monkeypatch, arguments, told):
    monkeypatch.setenv("LPFUSE_WEIGHTS", str(tmp_path))
    (tmp_path / "file").touch()
    line = [text.format(clips=clips, where=tmp_path) for text in arguments]
    assert told in complaint(tmp_path, "extract", "--cache", tmp_path / "c", *line)


# ------------------------------------------------------------------------------------------ train


def test_train_says_what_it_learnt(clips, extracted, trained):
    path, answer = trained
    assert answer.exit_code == 0, answer.output
    head, table, end, last = (part.splitlines() for part in answer.stdout.split("\n\n"))
    assert head == [
        f"{clips}: 18 clips, 8 to learn from",
        "  Genuine: 4.",
        "  Forged: smoothed 4.",
        "  Not touched: 6 of the test split.",
    ]
    model = load_model(path)
    names = [line.strip("| ").split("|")[0].strip() for line in table]
    assert names[0] == "learner"
    assert sorted(names[2:-1]) == sorted(model.learner_names_)
    assert names[-1] == "fusion"
    assert end[0].startswith("6 learners; weights proven within 1e-")
    frames = len(model.out_of_fold_.labels)
    assert end[1] == f"learnt from 4 genuine and 4 forged videos ({frames} frames)."
    assert 12 <= frames <= 16  # of two frames a video
    assert end[3] == (
        f"A video that scores below {model.offset_:.4g} is called forged; about 25 % of genuine "
        "ones will be."
    )
    assert last == [
        f"Saved {path}. Next: lpfuse faces score VIDEO --model {path} --sheet sheet.html"
    ]


def test_a_model_carries_what_it_needs(clips, extracted, trained):
    model = lpfuse.load(trained[0])
    assert model.settings["settings"]["sampling"] == {"every": None, "count": 2}
    assert model.settings["about"] == {"left_out": ["up-convolved"], "pure": False}
    assert model.settings["meaning"] == Extractor(settings_of(model)).meaning
    learnt = [clip for clip in read_clips(clips) if clip.split == "train"]
    assert len(model.labels_) == sum(clip.kind != "up-convolved" for clip in learnt)


def test_train_for_machines(clips, extracted, tmp_path, decoded):
    line = ["train", clips, "--cache", extracted[0], "-o", tmp_path / "m", "--frames", 2, "-j", 1]
    answer = faces(
        *line, "--pure", "--json", "--learners", "gmm", "--p", 2, "--pooling", 0.1, *RATE
    )
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    assert decoded == []
    assert answer.stderr == ""
    model = lpfuse.load(tmp_path / "m")
    assert list(found["weights"].values()) == model.weights_.tolist()
    assert (found["p"], model.pooling) == (2.0, 0.1)
    assert found["learnt_from"] == {
        "genuine": 4,
        "forged": 0,
        "frames": len(model.out_of_fold_.fold),
    }
    assert found["auc"] is None
    assert found["extraction"]["videos"] == 4


def test_too_few_genuine_videos_are_said(clips, extracted, tmp_path):
    answer = faces("train", clips, "--cache", extracted[0], "-o", tmp_path / "m", *TRAIN)
    assert "Note: The genuine clips are of 2 people or groups that share clips." in answer.stderr
    assert "No video will be called forged: for 5 % false alarms" in answer.stdout
    assert "Note: 4 genuine videos cannot hold false alarms to 0.05" in answer.stderr


@cases(
    ("arguments", "told"),
    [
        (["--leave-out", "warped"], "no such kind of forgery, only smoothed, up-convolved."),
        (["--learners", "gmm,knn"], "'knn'"),
        (["--p", "0.5"], "--p must be auto, or a number from 1 to inf; got '0.5'"),
        (["--pooling", "most"], "--pooling must be mean, or a quantile such as 0.1"),
        (["--false-alarm-rate", "5"], "--false-alarm-rate must"),
        (["-o", "{where}/nowhere/m"], "There is no folder"),
        (["-o", "{where}"], "is no file"),
    ],
)
def test_what_cannot_be_trained(clips, extracted, tmp_path, arguments, told):
    line = [text.format(where=tmp_path) for text in arguments]
    line = ["-o", tmp_path / "m", "--frames", 2, *line]
    assert told in complaint(tmp_path, "train", clips, "--cache", extracted[0], *line)


def test_somebody_must_know_what_is_genuine(clips, extracted, tmp_path):
    line = ["--cache", extracted[0], "-o", tmp_path / "m"]
    told = complaint(tmp_path, "train", clips / "c23" / "genuine", *line)
    assert "No clip is known to be genuine" in told


# ------------------------------------------------------------------------------------------ score


def clip(clips, kind="up-convolved", name="hopper-00"):
    return clips / "c23" / kind / f"{name}.mp4"


def test_a_verdict_on_one_video(clips, trained, tmp_path):
    sheet = tmp_path / "sheet.html"
    answer = faces("score", clip(clips), "--model", trained[0], "--sheet", sheet)
    assert answer.exit_code == 0, answer.output
    model = load_model(trained[0])
    said = answer.stdout.splitlines()
    assert said[0] in ("hopper-00.mp4: genuine", "hopper-00.mp4: forged")
    assert said[1].startswith("  Score ")
    threshold = f"the threshold is {model.offset_:.3g}".replace("-", "−")
    assert threshold in answer.stdout
    assert "  A face was found in 2 of 2 frames that were looked at." in said
    assert said[-1] == f"Written to {sheet}."
    assert max(map(len, said[:-1])) <= 80
    assert sheet.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert answer.stderr == ""


def test_the_verdict_is_that_of_the_library(clips, extracted, trained, tmp_path):
    line = ["score", clip(clips), "--model", trained[0], "--cache", extracted[0]]
    found = json.loads(faces(*line, "--json").stdout)
    (video,) = found["videos"].values()
    model = load_model(trained[0])
    features = Extractor(settings_of(model)).extract(clip(clips))
    assert video["score"] == pytest.approx(model.score_samples([features])[0])
    assert video["p_value"] == pytest.approx(model.pvalues([features])[0])
    assert video["threshold"] == pytest.approx(model.offset_)
    assert np.mean(video["frame_scores"]) == pytest.approx(video["score"])
    assert sum(video["regions"].values()) == pytest.approx(sum(video["learners"].values()))
    assert found["skipped"] == {}
    assert found["warnings"] == []
    verdict = model.verdict(features).verdict
    assert faces(*line, "-q").stdout == f"hopper-00.mp4: {verdict}, score {video['score']:.3g}\n"


def test_many_videos_become_a_table_and_a_file(clips, extracted, trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(trained[0], "faces.lpfuse")  # where score looks if nobody names a model
    broken = tmp_path / "broken.mp4"
    broken.touch()
    write_video("grey.mp4", [np.full((64, 64, 3), 128, np.uint8)] * 2)
    videos = [clips / "c23/genuine", clip(clips), broken, "grey.mp4"]
    answer = faces("score", *videos, "--cache", extracted[0], "-o", "s.csv", "--sheets", "sheets")
    assert answer.exit_code == 0, answer.output
    rows = [line.strip("| ").split("|") for line in answer.stdout.splitlines() if "|" in line]
    assert [cell.strip() for cell in rows[0]] == ["video", "verdict", "score", "p-value", "faces"]
    assert "no face found" in rows[9][1]
    assert [cell.strip() for cell in rows[10]] == ["skipped", "why"]
    scores = [float(row[2]) for row in rows[2:9]]
    assert scores == sorted(scores)
    assert "8 videos: " in answer.stdout
    table = pl.read_csv("s.csv")
    assert table.height == 9
    assert table["verdict"].to_list()[-2:] == ["no face found", "unreadable"]
    parts = table.select(pl.sum_horizontal("^contribution:.*$")).to_series()
    assert (parts[:7] - table["score"][:7]).abs().max() < 1e-9
    assert table["score"].is_null().to_list() == [False] * 7 + [True] * 2
    assert "empty" in table["note"][-1]
    names = sorted(path.name for path in Path("sheets").iterdir())
    assert names == sorted(
        [f"{face}-{n:02d}.html" for face in ("astronaut", "camera", "hopper") for n in (0, 1)]
        + ["grey.html", "hopper-00-2.html"]
    )


def test_a_picture_instead_of_a_page(clips, trained, tmp_path, monkeypatch):
    monkeypatch.setenv("LPFUSE_FACES_MODEL", str(trained[0]))
    assert faces("score", clip(clips), "--sheet", tmp_path / "s.png", "-q").exit_code == 0
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def unfit_models(trained, tmp_path):
    """A folder of files that are no models of videos, or models that others have made."""
    model = load_model(trained[0])
    save(lpfuse.GMMDetector(), tmp_path / "table")
    (tmp_path / "torn").write_bytes(trained[0].read_bytes()[:-100])
    (tmp_path / "file").touch()
    carried = model.settings
    changes = {
        "bare": {},
        "other": carried | {"meaning": carried["meaning"] | {"detector": "sha256:00"}},
        "newer": carried | {"meaning": carried["meaning"] | {"format": 0}},
    }
    for name, settings in changes.items():
        model.set_params(settings=settings).save(tmp_path / name)
    return tmp_path


@cases(
    ("arguments", "told"),
    [
        (["--model", "{where}/none"], "Train one: lpfuse faces train WHERE --cache DIR"),
        (["--model", "{where}/table"], "holds GMMDetector, which knows nothing of videos"),
        (["--model", "{where}/torn"], "damaged"),
        (["--model", "{where}/bare"], "does not say how its features are measured"),
        (["--model", "{where}/other"], "trained with other weights of the face detector: sha"),
        (["--model", "{where}/newer"], "measures other features than the one that trained"),
        (["--sheet", "{where}/sheet.pdf"], "written as .png or .html"),
        (["--sheet", "{where}/nowhere/s.png"], "There is no folder"),
        (["--sheet", "{where}/s.png", "{clips}/c23/genuine"], "--sheet shows one video, and"),
        (["--sheets", "{where}/file"], "is there, and is no folder"),
        (["-o", "{where}/scores.ods"], "Tables are written as"),
        (["-o", "{clips}/clips.csv", "{clips}/clips.csv"], "is read, so it cannot be written"),
        (["--weights", "alexnet"], "NAME=PATH"),
    ],
)
def test_what_cannot_be_scored(clips, trained, unfit_models, arguments, told):
    line = [text.format(clips=clips, where=unfit_models) for text in arguments]
    line = ["score", clip(clips), "--model", trained[0], *line]
    assert told in complaint(unfit_models, *line)


def test_one_video_that_is_none(trained, tmp_path):
    (tmp_path / "text.mp4").write_text("a video, believe me")
    told = complaint(tmp_path, "score", tmp_path / "text.mp4", "--model", trained[0])
    assert told.startswith("Error: text.mp4: ")
    told = complaint(tmp_path, "score", tmp_path / "no.mp4", "--model", trained[0])
    assert told == "Error: no.mp4: there is no such file.\n"


# --------------------------------------------------------------------------------- random weights


class Noise:
    """A network that needs no weights."""

    name, width, size, is_random, digest = "alexnet", 3, 8, True, "random:0"

    def __call__(self, images):
        return images[:, 0, :3]


@pytest.fixture
def noise(monkeypatch):
    network = Noise()
    monkeypatch.setattr(extractor_module, "load_network", lambda *_, **__: network)
    return network


def test_random_weights_are_marked_everywhere(clips, tmp_path, noise, decoded):
    options = ["--frames", 1, "--features", "alexnet", "--weights", "alexnet=random"]
    cache = ["--cache", tmp_path / "c"]
    answer = faces("extract", clips, *cache, *options)
    assert f"Warning: {RANDOM}.\n" in answer.stderr
    assert "Learning the range of spectra from 4 genuine clips." in answer.stderr
    model = tmp_path / "faces.lpfuse"
    seen = len(decoded)
    learners = ["--learners", "gmm", "--jobs", 1, *RATE]
    answer = faces("train", clips, *cache, *options, *learners, "-o", model)
    assert f"Beware: {RANDOM}." in answer.stdout
    assert "Learning the range" not in answer.stderr  # it is in the cache
    assert len(decoded) == seen
    line = ["score", clip(clips), "--model", model, *cache]
    answer = faces(*line, "-o", tmp_path / "s.csv", "--sheet", tmp_path / "s.html")
    assert f"Beware: {RANDOM}." in " ".join(answer.stdout.split())
    assert pl.read_csv(tmp_path / "s.csv")["note"].to_list() == [RANDOM]
    assert f"Beware: {RANDOM}." in (tmp_path / "s.html").read_text(encoding="utf-8")
    assert RANDOM in faces(*line, "-q").stdout
    found = json.loads(faces(*line, "--json").stdout)
    assert found["videos"][str(clip(clips))]["random_weights"] == [RANDOM]
    several = faces("score", clips / "c23/smoothed", "--model", model, *cache)
    assert several.stdout.count("(!)") == 6
    answer = faces("evaluate", clips, *cache, *options, *learners[:4], "--setting", "pure")
    assert RANDOM in " ".join(answer.stdout.split())
    noise.digest = "random:1"
    told = complaint(tmp_path, *line)
    assert "trained with other weights of alexnet: random:0, and these are random:1" in told


# --------------------------------------------------------------------------------------- evaluate


EVALUATE = ["--frames", 2, "--learners", "gmm", "--jobs", 1]


def test_kinds_are_left_out_one_after_the_other(clips, extracted, tmp_path, decoded):
    out, page = tmp_path / "figures.csv", tmp_path / "page.md"
    line = [
        "evaluate",
        clips,
        "--cache",
        extracted[0],
        "--frames",
        2,
        "--learners",
        "gmm",
        "--jobs",
        1,
        "-o",
        out,
    ]
    answer = faces(*line, "--page", page)
    assert answer.exit_code == 0, answer.output
    assert decoded == []
    assert "Leaving out …" in answer.stderr
    assert answer.stdout.startswith(page.read_text().rstrip())
    assert answer.stdout.splitlines()[-2:] == [f"Written to {out}.", f"Written to {page}."]
    head = next(line for line in answer.stdout.splitlines() if "smoothed" in line)
    assert [cell.strip() for cell in head.split("|")] == ["", "", "smoothed", "up-convolved", ""]
    found = json.loads(faces(*line, "--json").stdout)
    table = pl.read_csv(out)
    assert table["value"].to_list() == [row["value"] for row in found["rows"]]
    assert table.columns[:4] == ["quality", "kind", "setting", "method"]
    assert {row["kind"] for row in found["rows"]} == set(KINDS)
    assert {row["setting"] for row in found["rows"]} == {"pure", "non-pure"}


def test_several_qualities(clips, extracted, tmp_path):
    both = [*read_clips(clips)]
    copies = []
    for one in both:
        target = tmp_path / one.path.parent.name / one.path.name
        target.parent.mkdir(exist_ok=True)
        copies.append(type(one)(shutil.copy(one.path, target), *list(vars(one).values())[1:5], "x"))
    write_clips(tmp_path / "clips.csv", [*both, *copies])
    line = ["evaluate", tmp_path, "--cache", extracted[0], *EVALUATE, "--setting", "pure", "--json"]
    found = json.loads(faces(*line).stdout)
    assert {row["quality"] for row in found["rows"]} == {"c23", "x"}
    found = json.loads(faces(*line, "--quality", "x").stdout)
    assert {row["quality"] for row in found["rows"]} == {"x"}
    told = complaint(tmp_path, "extract", tmp_path, "--cache", extracted[0])
    assert "several qualities: c23, x. Choose one: --quality c23" in told


def test_what_cannot_be_evaluated(clips, extracted, tmp_path):
    line = ["evaluate", clips, "--cache", extracted[0], "--frames", 2]
    told = complaint(tmp_path, *line, "--setting", "impure")
    assert "'impure'" in told
    assert "There is no folder" in complaint(tmp_path, *line, "-o", tmp_path / "no" / "r.csv")


# ------------------------------------------------------------------------------------------- demo


SMALL = Size(
    clips_per_face=2,
    false_alarm_rate=0.1,
    frames=1,
    stand_in={"kinds": KINDS, "frames": 2, "size": 160},
    learners=("gmm",),
)
MADE = {"clips", "features", "faces.lpfuse", "genuine.html", "up-convolved.html", "page.md"}


@pytest.mark.filterwarnings("ignore::UserWarning")  # few people, few videos
def test_the_demo_goes_all_the_way(tmp_path):
    out = tmp_path / "demo"
    rows, verdicts = demonstrate(out, SMALL, seed=3, jobs=1, silent=True)
    assert {path.name for path in out.iterdir()} == MADE
    assert BEWARE in (out / "page.md").read_text()
    table = area_table(rows).splitlines()
    assert [line.split("|")[1].strip() for line in table] == [
        "AUC in %", "-" * len(table[1].split("|")[1]), "fusion, non-pure", "fusion, pure",
        "plain sum",
    ]  # fmt: skip
    model = load_model(out / "faces.lpfuse")
    assert len(model.labels_) == 10  # not the scene that it is asked about, nor what is left out
    assert set(verdicts) == {"genuine", "up-convolved"}
    text = next_steps(verdicts, out)
    assert "genuine/hopper-00.mp4: " in text
    assert "up-convolved/hopper-00.mp4: " in text


@pytest.mark.slow
def test_the_demo_of_the_command_line(tmp_path, monkeypatch):
    short = replace(QUICK, frames=2, stand_in={"kinds": KINDS, "frames": 3, "size": 200})
    monkeypatch.setattr("lpfuse_faces.cli._demo.QUICK", short)
    out = tmp_path / "demo"
    answer = faces("demo", "-o", out, "--quick", "-j", 1)
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.startswith(BEWARE)
    assert "It is no evidence" in answer.stdout
    assert "up-convolved/hopper-00.mp4: " in answer.stdout
    assert {path.name for path in out.iterdir()} == MADE
    found = json.loads(faces("demo", "-o", out, "--quick", "-j", 1, "--json").stdout)
    assert set(found["videos"]) == {"genuine", "up-convolved"}
    # Two frames a clip are too few for a threshold, but the forgery lies lower.
    scores = {name: video["score"] for name, video in found["videos"].items()}
    assert scores["up-convolved"] < scores["genuine"]
    assert "no evidence" in found["beware"]


def test_the_demo_replaces_nothing_of_others(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    assert "is not empty" in complaint(tmp_path, "demo", "-o", tmp_path / "mine")
    assert "is no folder" in complaint(tmp_path, "demo", "-o", tmp_path / "mine" / "notes.txt")
