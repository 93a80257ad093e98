"""Forgeries never seen: the rivals, what they choose, what is stored, and the page."""

import json
import subprocess
import sys
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

from face_oracles.made_up import KINDS, collection, garbage, video
from helpers.cases import cases
from lpfuse import FixedRule, LpFusion, TwoSidedMinMax
from lpfuse.detectors import PAPER_WIDTHS
from lpfuse.ensemble.components import default_fusion
from lpfuse.fusion import PAPER_GRID
from lpfuse.metrics import best_g_mean
from lpfuse_cli.app import app
from lpfuse_faces import make_stand_in
from lpfuse_faces.evaluation import PAPER_RHOS, LearningData, ScoredVideos
from lpfuse_faces.evaluation._chosen import PAPER_SCALE
from lpfuse_faces.evaluation._paper_grid import component_grid, grid_size
from research.common.protocol import PAPER
from research.common.statistics import auc_interval
from research.common.store import read_rows
from research.paper import paper
from research.paper.forgery import FACEFORENSICS, STAND_IN, forgery_rows
from research.paper.forgery_methods import (
    CHOSEN,
    DEFAULT,
    PAPERS,
    RHOS,
    contenders,
    fusion,
    lp,
    quick_contenders,
)
from research.paper.forgery_page import forgery_page
from research.paper.learners import candidates
from research.paper.methods import PAPER_PRESET
from research.rivals.fusion import at_hand

LEARNERS = ("gmm", "kpca")


def test_both_experiments_have_the_same_grids():
    """On faces (``lpfuse faces evaluate --preset paper``) as on the ten tables of UCI."""
    assert (PAPER.widths, PAPER.rhos, PAPER.ps) == (PAPER_WIDTHS, PAPER_RHOS, PAPER_GRID)
    assert PAPER_PRESET.scaler == PAPER_SCALE
    assert PAPER_PRESET.fusion == {}
    grid = candidates(PAPER, n=21, seed=0)
    assert len(grid) == grid_size(["svdd", "gp", "kpca", "gmm"], 21)
    numbers = {each.settings["q"] for each in grid if each.learner == "KPCA"}
    assert numbers == set(component_grid(21))


def few(learners, *, with_forgeries, validated, also=()):
    """Those that are soon fitted; ρ and the best single learner are chosen, but no p."""
    found = quick_contenders(learners, with_forgeries=with_forgeries, validated=validated)
    wanted = (*also, DEFAULT, "sum", "best single", *learners)
    return {name: found[name] for name in wanted if name in found}


with_p = partial(few, also=[CHOSEN])


def run(clips, features, **options):
    return forgery_rows(clips, features, **{"learners": LEARNERS, "methods": few, **options})


@cache
def usual_rows(methods=few):
    return run(*collection(), methods=methods)


def figures(rows, kind, metric="auc"):
    return {
        (row["setting"], row["method"]): row["value"]
        for row in rows
        if row["kind"] == kind and row["metric"] == metric
    }


# ------------------------------------------------------------------------------------------ figures


def test_what_tells_is_found_and_what_does_not_is_not():
    for kind in KINDS:
        found = figures(usual_rows(with_p), kind)
        for setting in ("pure", "non-pure"):
            assert found[setting, CHOSEN] >= 90
            assert found[setting, DEFAULT] >= 90
            assert found[setting, "gmm: azimuthal/face"] >= 90
            assert found[setting, "gmm: azimuthal/mouth"] < 90


def test_the_interval_is_that_of_the_people_in_the_test():
    for row in (row for row in usual_rows() if row["metric"] == "auc"):
        interval = auc_interval(row["value"] / 100, 4, 4)
        assert (row["low"], row["high"]) == (100 * interval.low, 100 * interval.high)


def test_clips_of_the_same_people_count_once_for_the_interval():
    clips, features = collection()
    again = [
        replace(clip, path=Path("again") / clip.path) for clip in clips if clip.split == "test"
    ]
    copies = {
        clip.path: video(str(clip.path), *features[clip.path.relative_to("again")].sets.values())
        for clip in again
    }
    twice = run([*clips, *again], {**features, **copies})
    pairs = zip(twice, usual_rows(), strict=True)
    for row, before in ((a, b) for a, b in pairs if a["metric"] == "auc"):
        assert row["n_genuine"] == 2 * before["n_genuine"]
        assert (row["low"], row["high"]) == pytest.approx((before["low"], before["high"]))


# -------------------------------------------------------------------------------- choices, settings


def parts(seed=0, n_videos=40, frames=3, forged=True):
    rng = np.random.default_rng(seed)
    labels = np.where(np.arange(n_videos) % 2 == 0, 1.0, -1.0 if forged else 1.0)
    video = np.repeat(np.arange(n_videos), frames)
    scores = rng.normal(size=(len(video), 3)) + np.outer(labels[video], [0.4, 0.2, -0.1])
    return ScoredVideos(scores * [1.0, 10.0, 0.1], video, labels)


@pytest.mark.parametrize("taught", [True, False])
def test_rho_and_p_are_those_that_validation_prefers(taught):
    given = LearningData(parts(0, forged=taught), parts(1))
    parameters = default_fusion().get_params()
    del parameters["p"], parameters["solver"]
    method = lp(parameters)(given)
    S, y = given.training.scores, given.training.labels[given.training.video]
    best, areas = (-1.0, None), set()
    for rho in RHOS:
        scaler = TwoSidedMinMax(rho).fit(S[y > 0])
        for p in (*PAPER_GRID, np.inf)[::-1]:
            fitted = LpFusion(**{**parameters, "p": p})
            fitted.fit(scaler.transform(S), y if taught else None)

            def score(part, scaler=scaler, fitted=fitted):
                frames = scaler.transform(part.scores) @ fitted.weights_
                return np.array([frames[part.video == v].mean() for v in np.unique(part.video)])

            area = roc_auc_score(given.validation.labels, score(given.validation))
            areas.add(area)
            if area > best[0]:
                best = area, (rho, p, score)
    rho, p, score = best[1]
    assert len(areas) > 5
    assert method.choices == {"rho": rho, "p": p}
    tested = parts(2)
    assert method.score(tested) == pytest.approx(score(tested), abs=1e-4)
    expected = best_g_mean(given.validation.labels, score(given.validation))[1]
    assert method.offset == pytest.approx(expected, abs=1e-4)


def test_without_validation_nothing_is_chosen():
    given = LearningData(parts(0))
    fitted = fusion(lambda seed: FixedRule("sum"))(given)
    scaler = TwoSidedMinMax(5.0).fit(
        given.training.scores[given.training.labels[given.training.video] > 0]
    )
    fused = FixedRule("sum").fit(scaler.transform(given.training.scores)).score_samples
    expected = given.training.pooled(fused(scaler.transform(given.training.scores)), "mean")
    assert fitted.score(given.training) == pytest.approx(expected)
    assert fitted.choices == {}
    assert fitted.offset == best_g_mean(given.training.labels, fitted.score(given.training))[1]


@pytest.mark.parametrize("taught", [True, False])
def test_everybody_at_hand_is_compared(taught):
    """With labels and validation, and without either."""
    given = LearningData(parts(0, forged=taught), parts(1) if taught else None)
    found = contenders(["a", "b", "c"], with_forgeries=taught, validated=taught)
    everybody = {*at_hand(), "a", "b", "c"}
    chosen, needy = {CHOSEN, PAPERS}, {"linear SVM", "logistic"}
    assert set(found) == (everybody | chosen if taught else everybody - needy)
    tested = parts(2)
    for name, method in found.items():
        fitted = method(given)
        assert fitted.score(tested).shape == (40,)
        assert np.isfinite([*fitted.score(tested), fitted.offset]).all()
        assert bool(fitted.choices) == (taught and name not in (DEFAULT, "a", "b", "c"))


def test_the_best_single_learner_is_the_best_on_validation():
    given = LearningData(parts(0), parts(1))
    fitted = contenders(["good", "fair", "poor"], with_forgeries=True, validated=True)[
        "best single"
    ](given)
    assert fitted.choices == {"learner": "good"}
    tested = parts(2)
    assert np.array_equal(fitted.score(tested), tested.pooled(tested.scores[:, 0], "mean"))


def test_too_many_learners_for_a_grid():
    names = [f"learner {i}" for i in range(36)]
    few_learners, many = (
        contenders(e, with_forgeries=True, validated=True) for e in (names[:3], names)
    )
    assert set(few_learners) - set(many) == {"exhaustive"}
    rows = [{**row, "method": "swarm"} for row in usual_rows() if row["method"] == "sum"]
    assert "*exhaustive*: left out: the grid over 4 learners" in forgery_page(
        [*usual_rows(), *rows]
    )
    assert "*exhaustive*" not in forgery_page(usual_rows())


# -------------------------------------------------------------------------------------- what is odd


def test_warnings_are_in_every_row_and_on_the_page():
    clips, features = collection(n_train=4, n_val=0, n_test=2)
    marked = {
        **features,
        clips[0].path: replace(features[clips[0].path], warnings=("features of random weights",)),
        clips[1].path: video("nobody", np.empty((0, 3)), np.empty((0, 2)), n_frames=5),
    }
    del marked[clips[2].path]
    clips = [*clips[:5], replace(clips[5], identities=()), *clips[6:]]
    rows = run(clips, marked, remarks=["half a copy"])
    told = [
        "half a copy",
        "1 of 24 videos could not be read, and are left out.",
        "1 of 24 videos show no face, and are left out.",
        "1 of 22 clips name nobody: whether a person is in two splits cannot be told.",
        "There are no validation clips: nothing is chosen, and training clips set thresholds.",
        "features of random weights",
    ]
    assert all(row["warnings"] == told for row in rows)
    assert all(f"- {text}\n" in forgery_page(rows) for text in told)


# ------------------------------------------------------------------------------------------ storing


def test_results_are_stored_and_not_measured_again(tmp_path):
    clips, features = collection()
    calls = []

    def counted(learners, **given):
        calls.append(learners)
        return few(learners, **given)

    path = tmp_path / "results" / "forgery.jsonl"
    seen = []
    first = run(clips, features, methods=counted, path=path, progress=lambda *at: seen.append(at))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert first == usual_rows()
    assert read_rows(path) == first
    measured = len(calls)
    assert run(clips, features, methods=counted, path=path) == first
    assert len(calls) == measured + 1  # for the names alone
    other = garbage(features, clips[:1])
    assert run(clips, other, methods=counted, path=path) != first
    assert len(calls) > measured + 2


# ----------------------------------------------------------------------------------------- interval


@cases("auc", [0.0, 0.3, 0.5, 0.9, 1.0])
@cases(("n", "m"), [(1, 1), (4, 9), (140, 140)])
def test_the_interval_holds_what_its_own_deviation_allows(auc, n, m):
    theta = np.linspace(0, 1, 20_001)
    q1, q2 = theta / (2 - theta), 2 * theta**2 / (1 + theta)
    both = (n + m) / 2 - 1  # Newcombe: the mean of n and m for both terms of Hanley and McNeil
    variance = theta * (1 - theta) + both * (q1 - theta**2) + both * (q2 - theta**2)
    allowed = theta[np.abs(theta - auc) <= 1.959964 * np.sqrt(np.maximum(variance, 0) / (n * m))]
    found = auc_interval(auc, n, m)
    assert found.low == pytest.approx(allowed.min() if len(allowed) else auc, abs=1e-4)
    assert found.high == pytest.approx(allowed.max() if len(allowed) else auc, abs=1e-4)
    assert found.low <= auc <= found.high
    assert auc_interval(1 - auc, m, n).high == pytest.approx(1 - found.low, abs=1e-9)


# --------------------------------------------------------------------------------------------- page


def test_the_papers_tables_stand_beside_ours():
    clips, features = collection(
        n_train=4, n_val=2, n_test=2, kinds=("Deepfakes", "Face2Face", "FaceSwap")
    )
    rows = run(clips, features, collection=FACEFORENSICS, methods=with_p)
    text = forgery_page(rows)
    low, high = text.index("## Low quality (c40)"), text.index("## High quality (c23)")
    for quality, part in (("c40", text[low:high]), ("c23", text[high:])):
        for method, printed in paper.FACEFORENSICS[quality].items():
            cells = [f"{printed[kind]:.1f}" if kind in printed else "–" for kind in paper.FORGERIES]
            assert any(
                method in line and line.endswith(f" | {' | '.join(cells)} |")
                for line in part.splitlines()
            )
    assert "| lpfuse, non-pure, p chosen | – | – | – | – | – |" in text[low:high]
    found = {
        row["kind"]: f"{row['value']:.1f} [{row['low']:.0f}, {row['high']:.0f}]"
        for row in rows
        if (row["setting"], row["method"], row["metric"]) == ("non-pure", CHOSEN, "auc")
    }
    ours = " | ".join(found.get(kind, "–") for kind in paper.FORGERIES)
    assert f"| lpfuse, non-pure, p chosen | {ours} |" in text[high:]
    assert "of the 4 with rivals it is ahead on 3" in text
    assert "no evidence" not in text


@pytest.mark.parametrize("name", ["", STAND_IN])
def test_other_clips_are_no_evidence_for_the_papers_figures(name):
    text = forgery_page([{**row, "collection": name} for row in usual_rows()])
    plain = " ".join(text.split())
    assert "no evidence for or against the paper's figures" in plain
    assert ("proves the plumbing" in plain) == (name == STAND_IN)
    assert "This work" not in text
    assert "Haliassos" not in text
    assert "| blended | resampled | warped |" in text
    assert "Test videos: 4 genuine and 4 forged of blended; 4 genuine" in plain


def test_means_on_the_page_are_over_the_kinds():
    rows = usual_rows()
    text = forgery_page(rows)
    place = ("pure", "sum", "auc")
    values = [r["value"] for r in rows if (r["setting"], r["method"], r["metric"]) == place]
    lines = text[text.index("### Every method") :].splitlines()
    (line,) = (line for line in lines if line.startswith("| sum |"))
    assert line.split(" | ")[1] == f"{np.mean(values):.1f}"


def test_a_method_that_some_kinds_lack_has_no_mean():
    """Validation that knows one kind has none to choose by while that kind is left out."""
    clips, features = collection()
    kept = [clip for clip in clips if clip.split != "val" or clip.kind in (None, "warped")]
    rows = run(kept, features, methods=with_p)
    assert {row["kind"] for row in rows if row["method"] == CHOSEN} == {"blended", "resampled"}
    text = forgery_page(rows)
    assert f"| {CHOSEN} |" not in text
    assert "| lpfuse, non-pure, p chosen |" in text


def test_nothing_measured_is_no_page():
    with pytest.raises(ValueError, match=r"nothing to show"):
        forgery_page([])


# ------------------------------------------------------------------------------------------ command


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stand-in")
    options = {"qualities": [23], "clips_per_face": 2, "frames": 2, "size": 160}
    make_stand_in(folder / "clips", kinds=["smoothed", "warped"], **options)
    return folder


def test_the_command_stores_rows_and_writes_the_page(stand_in, tmp_path):
    out, page = tmp_path / "results.jsonl", tmp_path / "page.md"
    line = ["reproduce", "forgery", stand_in / "clips", "--cache", stand_in / "features"]
    line += ["--learners", "gmm", "--frames", 1, "--quick", "-o", out, "--setting", "pure"]
    answer = CliRunner().invoke(app, [*map(str, line), "--page", str(page)])
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.startswith(page.read_text().rstrip())
    assert answer.stdout.splitlines()[-2:] == [f"Written to {out}.", f"Written to {page}."]
    rows = read_rows(out)
    assert page.read_text() == forgery_page(rows)
    assert {row["kind"] for row in rows} == {"smoothed", "warped"}
    again = CliRunner().invoke(app, [*map(str, line), "--json"])
    assert json.loads(again.stdout)["rows"] == json.loads(json.dumps(rows))


def test_the_help_of_the_command_loads_nothing_heavy():
    line = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "lpfuse_cli",
        "reproduce",
        "forgery",
        "--help",
    ]
    answer = subprocess.run(line, capture_output=True, text=True, check=True)
    assert "Example: lpfuse reproduce forgery " in answer.stdout
    loaded = {line.split("|")[-1].strip() for line in answer.stderr.splitlines()}
    assert "research.paper.forgery_command" in loaded
    assert not loaded & {"numpy", "scipy", "sklearn", "av", "cv2", "torch", "matplotlib"}
