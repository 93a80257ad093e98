"""Leave one manipulation out: nothing of the kind that is left out is learnt from or chosen by."""

from collections import Counter
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, roc_auc_score

from lpfuse import FixedRule, LpFusion, TwoSidedMinMax
from lpfuse.ensemble._defaults import default_fusion
from lpfuse.fusion.lp import PAPER_GRID
from lpfuse.metrics import best_g_mean, g_mean
from lpfuse_faces.clips import Clip
from lpfuse_faces.features import VideoFeatures
from research.common.statistics import auc_interval
from research.common.store import read_rows
from research.paper import paper
from research.paper.forgery import (
    FACEFORENSICS,
    STAND_IN,
    leave_one_manipulation_out,
)
from research.paper.forgery_methods import (
    CHOSEN,
    DEFAULT,
    PAPERS,
    RHOS,
    Part,
    Round,
    Verdict,
    contenders,
    fusion,
    lp,
    quick_contenders,
    threshold,
)
from research.paper.forgery_page import forgery_page
from research.paper.forgery_scores import ScoredClips, score_clips
from research.rivals.fusion import at_hand

KINDS = ("blended", "resampled", "warped")
FRAMES = 4
LEARNERS = ("gmm", "kpca")


def video(name, informative, noise, **changes):
    n = len(informative)
    sets = {"azimuthal/face": informative, "azimuthal/mouth": noise}
    places = np.zeros((n, 4)), np.zeros((n, 5, 2))
    about = {"n_frames": n, **changes}
    return VideoFeatures(name, f"sha of {name}", np.arange(n), np.arange(n), *places, sets, **about)


@cache
def collection(n_train=8, n_val=4, n_test=4, kinds=KINDS, qualities=("c23",), split=True):
    """People of whom there is a genuine clip and one of each kind; one feature set tells."""
    rng = np.random.default_rng(0)
    splits = ["train"] * n_train + ["val"] * n_val + ["test"] * n_test
    clips, features = [], {}
    for quality in qualities:
        for person, part in enumerate(splits):
            for kind in (None, *kinds):
                path = Path(f"{quality}/{kind or 'genuine'}/{person:02d}.mp4")
                label = 1 if kind is None else -1
                part = part if split else None
                clips.append(Clip(path, label, kind, (f"{person:02d}",), part, quality))
                shift = 2.5 * np.eye(3)[kinds.index(kind)] if kind else 0.0
                rows = 0.4 * rng.normal(size=(1, 3)) + 0.4 * rng.normal(size=(FRAMES, 3)) + shift
                features[path] = video(str(path), rows, rng.normal(size=(FRAMES, 2)))
    return clips, features


def few(experts, *, taught, validated, also=()):
    """Those that are soon fitted; ρ and the best single expert are chosen, but no p."""
    found = quick_contenders(experts, taught=taught, validated=validated)
    wanted = (*also, DEFAULT, "sum", "best single", *experts)
    return {name: found[name] for name in wanted if name in found}


with_p = partial(few, also=[CHOSEN])


def run(clips, features, **options):
    return leave_one_manipulation_out(
        clips, features, **{"learners": LEARNERS, "methods": few, **options}
    )


@cache
def usual_rows(methods=few):
    return run(*collection(), methods=methods)


def figures(rows, kind, metric="auc"):
    return {
        (row["setting"], row["method"]): row["value"]
        for row in rows
        if row["kind"] == kind and row["metric"] == metric
    }


def garbage(features, clips):
    """The features of some clips, made up anew: like the strangest of genuine ones."""
    rng = np.random.default_rng(1)
    spoilt = {
        clip.path: video(
            str(clip.path),
            1.2 * rng.normal(size=(1, 3)) + np.zeros((FRAMES, 3)),
            np.ones((FRAMES, 2)),
        )
        for clip in clips
    }
    return {**features, **spoilt}


# ----------------------------------------------------------------------- what is left out stays out


def learnt(features, setting):
    """Left-out kind → method → threshold, choices and scores of the test, to the last digit."""
    found = []

    def recorded(experts, **given):
        log = {}
        found.append(log)

        def watched(name, method):
            def learn(given):
                verdict = method(given)

                def score(part):
                    scores = verdict.score(part)
                    log[name] = verdict.offset, verdict.choices, list(scores)
                    return scores

                return verdict._replace(score=score)

            return learn

        return {name: watched(name, method) for name, method in few(experts, **given).items()}

    run(collection()[0], features, methods=recorded, settings=[setting])
    return dict(zip(KINDS, found[-len(KINDS) :], strict=True))


@pytest.mark.parametrize("setting", ["pure", "non-pure"])
@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_what_is_left_out_reaches_nothing_but_its_test(setting, split):
    """Garbage in its place shows where the kind may teach, choose or be tested; nowhere else."""
    clips, features = collection()
    spoilt = [clip for clip in clips if clip.kind == "warped" and clip.split == split]
    before, after = learnt(features, setting), learnt(garbage(features, spoilt), setting)
    changed = {kind for kind in KINDS if before[kind] != after[kind]}
    others = set(KINDS[:2])
    expected = {
        "train": others if setting == "non-pure" else set(),
        "val": others,
        "test": {"warped"},
    }
    assert changed == expected[split]


def numbered(clips):
    """Scores that tell which clip they are of."""
    return ScoredClips(["number"], clips, [np.full((2, 1), i) for i in range(len(clips))])


@pytest.mark.parametrize("kind", KINDS)
def test_who_teaches_who_chooses_who_is_tested(kind):
    clips, _ = collection()
    tables = numbered(clips)

    def those(part):
        return {clips[int(number)] for number in part.scores[:, 0]}

    pure, taught = (tables.round(kind, setting, "mean", 0) for setting in ("pure", "non-pure"))
    assert {(clip.split, clip.kind) for clip in those(pure.teach)} == {("train", None)}
    others = {None, *KINDS} - {kind}
    assert {(c.split, c.kind) for c in those(taught.teach)} == {("train", each) for each in others}
    for given in (pure, taught):
        found = those(given.validation)
        assert {(c.split, c.kind) for c in found} == {("val", each) for each in others}
        assert len(found) == 4 * 3
    tested = those(tables.test(kind))
    assert {(clip.split, clip.kind) for clip in tested} == {("test", None), ("test", kind)}
    assert len(tested) == 8
    people = [{name for clip in those(part) for name in clip.identities}
              for part in (taught.teach, taught.validation, tables.test(kind))]  # fmt: skip
    assert len(set().union(*people)) == sum(map(len, people))


def test_labels_and_videos_go_with_the_scores():
    clips, _ = collection()
    part = numbered(clips).test("warped")
    for number, position in zip(part.scores[:, 0], part.video, strict=True):
        assert part.labels[position] == clips[int(number)].label
    assert list(part.pooled(part.scores[:, 0], "mean")) == list(part.scores[::2, 0])


# -------------------------------------------------------------------------------- scores by experts


def scores_by_path(features, clips):
    tables = score_clips(clips, features, learners=LEARNERS)
    paths = [clip.path for clip in tables.clips]
    return dict(zip(paths, tables.scores, strict=True))


def test_experts_learn_from_genuine_training_clips_of_other_people_alone():
    clips, features = collection()
    before = scores_by_path(features, clips)
    forged = [clip for clip in clips if clip.is_forged]
    after = scores_by_path(garbage(features, forged[:5]), clips)
    spoilt = {clip.path for clip in forged[:5]}
    assert {path for path in before if not np.array_equal(before[path], after[path])} == spoilt
    # A person's genuine training clip: what else there is of that person is scored without it.
    genuine = clips[0]
    after = scores_by_path(garbage(features, [genuine]), clips)
    same = {path.name for path in before if np.array_equal(before[path], after[path])}
    assert genuine.path.name in same
    unseen = [clip.path for clip in forged if clip.identities == genuine.identities]
    assert all(np.array_equal(before[path], after[path]) for path in unseen)
    tested = next(clip.path for clip in clips if clip.split == "test")
    assert not np.array_equal(before[tested], after[tested])


def test_every_clip_has_a_score_for_each_frame_and_expert():
    clips, features = collection()
    features = {**features, clips[0].path: video("short", np.zeros((2, 3)), np.zeros((2, 2)))}
    found = scores_by_path(features, clips)
    assert found.keys() == {clip.path for clip in clips}
    assert found[clips[0].path].shape == (2, 4)
    assert all(found[clip.path].shape == (FRAMES, 4) for clip in clips[1:])
    assert all(np.isfinite(table).all() for table in found.values())


def test_folds_need_two_groups_of_people():
    clips, features = collection()
    alone = [clip for clip in clips if clip.split != "train" or clip.identities == ("00",)]
    with pytest.raises(ValueError, match=r"two groups of people or more, .* there are 1"):
        run(alone, features)


# ------------------------------------------------------------------------------------------ figures


def test_figures_are_those_of_scikit_learn():
    """Judged by hand from what a method is given, with a quantile in place of the mean."""
    seen = []

    def spy(experts, *, taught, validated):
        def method(given):
            def score(part):
                frames = part.scores @ np.arange(1.0, 5.0)
                scores = [np.quantile(frames[part.video == v], 0.25) for v in np.unique(part.video)]
                assert part.pooled(frames, given.pooling) == pytest.approx(scores)
                seen.append((part.labels, np.array(scores)))
                return np.array(scores)

            return Verdict(score, float(np.median(score(given.validation))), {"by": "hand"})

        return {"spy": method}

    rows = run(*collection(), methods=spy, pooling=0.25, settings=["pure"])
    for kind, (validation, test) in zip(
        KINDS, zip(seen[::2], seen[1::2], strict=True), strict=True
    ):
        labels, scores = test
        decisions = np.where(scores >= np.median(validation[1]), 1, -1)
        expected = {
            "auc": roc_auc_score(labels, scores),
            "accuracy": accuracy_score(labels, decisions),
            "balanced_accuracy": balanced_accuracy_score(labels, decisions),
            "g_mean": g_mean(labels, decisions),
        }
        found = {row["metric"]: row["value"] for row in rows if row["kind"] == kind}
        assert found == pytest.approx({name: 100 * value for name, value in expected.items()})
        interval = auc_interval(expected["auc"], 4, 4)
        (row,) = (row for row in rows if (row["kind"], row["metric"]) == (kind, "auc"))
        assert (row["low"], row["high"]) == pytest.approx((100 * interval.low, 100 * interval.high))
        assert (row["n_genuine"], row["n_forged"], row["choices"]) == (4, 4, {"by": "hand"})


def test_what_tells_is_found_and_what_does_not_is_not():
    for kind in KINDS:
        found = figures(usual_rows(with_p), kind)
        for setting in ("pure", "non-pure"):
            assert found[setting, CHOSEN] >= 90
            assert found[setting, DEFAULT] >= 90
            assert found[setting, "gmm: azimuthal/face"] >= 90
            assert found[setting, "gmm: azimuthal/mouth"] < 90


def test_the_order_of_the_clips_does_not_matter():
    clips, features = collection()
    backwards = run(clips[::-1], dict(reversed(features.items())))
    assert backwards == usual_rows()


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


def test_qualities_are_measured_each_by_itself():
    clips, features = collection(n_train=4, n_val=2, n_test=2, qualities=("c40", "c23"))
    both = run(clips, features)
    assert [*dict.fromkeys(row["quality"] for row in both)] == ["c23", "c40"]
    alone = run([clip for clip in clips if clip.quality == "c40"], features)
    for kind in KINDS:
        assert figures([row for row in both if row["quality"] == "c40"], kind) == figures(
            alone, kind
        )


# -------------------------------------------------------------------------------- choices, settings


def parts(seed=0, n_videos=40, frames=3, forged=True):
    rng = np.random.default_rng(seed)
    labels = np.where(np.arange(n_videos) % 2 == 0, 1.0, -1.0 if forged else 1.0)
    video = np.repeat(np.arange(n_videos), frames)
    scores = rng.normal(size=(len(video), 3)) + np.outer(labels[video], [0.4, 0.2, -0.1])
    return Part(scores * [1.0, 10.0, 0.1], video, labels)


@pytest.mark.parametrize("taught", [True, False])
def test_rho_and_p_are_those_that_validation_prefers(taught):
    given = Round(parts(0, forged=taught), parts(1))
    parameters = default_fusion().get_params()
    del parameters["p"], parameters["solver"]
    verdict = lp(parameters)(given)
    S, y = given.teach.scores, given.teach.labels[given.teach.video]
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
    assert verdict.choices == {"rho": rho, "p": p}
    tested = parts(2)
    assert verdict.score(tested) == pytest.approx(score(tested), abs=1e-4)
    expected = best_g_mean(given.validation.labels, score(given.validation))[1]
    assert verdict.offset == pytest.approx(expected, abs=1e-4)


def test_without_validation_nothing_is_chosen():
    given = Round(parts(0))
    verdict = fusion(lambda seed: FixedRule("sum"))(given)
    scaler = TwoSidedMinMax(5.0).fit(given.teach.scores[given.teach.labels[given.teach.video] > 0])
    fused = FixedRule("sum").fit(scaler.transform(given.teach.scores)).score_samples
    expected = given.teach.pooled(fused(scaler.transform(given.teach.scores)), "mean")
    assert verdict.score(given.teach) == pytest.approx(expected)
    assert verdict.choices == {}
    assert verdict.offset == best_g_mean(given.teach.labels, verdict.score(given.teach))[1]


def test_genuine_videos_alone_set_the_threshold_by_their_false_alarms():
    scores = np.arange(101.0)
    assert threshold(np.ones(101), scores) == 5.0


def test_so_many_frames_of_each_class_teach():
    given = Round(parts(0), most_frames=10)
    S, y = given.lesson
    assert sorted(y) == [-1.0] * 10 + [1.0] * 10
    labels = given.teach.labels[given.teach.video]
    for row, label in zip(S, y, strict=True):
        assert label in labels[(given.teach.scores == row).all(axis=1)]
    assert np.array_equal(Round(parts(0), most_frames=10).lesson[0], S)
    pure = Round(parts(0, forged=False), most_frames=10).lesson
    assert pure[0].shape == (10, 3)
    assert pure[1] is None


@pytest.mark.parametrize("taught", [True, False])
def test_everybody_at_hand_is_compared(taught):
    """With labels and validation, and without either."""
    given = Round(parts(0, forged=taught), parts(1) if taught else None)
    found = contenders(["a", "b", "c"], taught=taught, validated=taught)
    everybody = {*at_hand(), "a", "b", "c"}
    chosen, needy = {CHOSEN, PAPERS}, {"linear SVM", "logistic"}
    assert set(found) == (everybody | chosen if taught else everybody - needy)
    tested = parts(2)
    for name, method in found.items():
        verdict = method(given)
        assert verdict.score(tested).shape == (40,)
        assert np.isfinite([*verdict.score(tested), verdict.offset]).all()
        assert bool(verdict.choices) == (taught and name not in (DEFAULT, "a", "b", "c"))


def test_the_best_single_expert_is_the_best_on_validation():
    given = Round(parts(0), parts(1))
    verdict = contenders(["good", "fair", "poor"], taught=True, validated=True)["best single"](
        given
    )
    assert verdict.choices == {"expert": "good"}
    tested = parts(2)
    assert np.array_equal(verdict.score(tested), tested.pooled(tested.scores[:, 0], "mean"))


def test_too_many_experts_for_a_grid():
    names = [f"expert {i}" for i in range(36)]
    few_experts, many = (contenders(e, taught=True, validated=True) for e in (names[:3], names))
    assert set(few_experts) - set(many) == {"exhaustive"}
    rows = [{**row, "method": "swarm"} for row in usual_rows() if row["method"] == "sum"]
    assert "*exhaustive*: left out: the grid over 4 experts" in forgery_page([*usual_rows(), *rows])
    assert "*exhaustive*" not in forgery_page(usual_rows())


def test_a_single_kind_leaves_nothing_to_learn_from():
    clips, features = collection(n_train=4, n_val=2, n_test=2, kinds=("swap",))
    rows = run(clips, features)
    assert {row["setting"] for row in rows} == {"pure"}
    assert all(row["choices"] == {} for row in rows if row["metric"] == "auc")
    with pytest.raises(ValueError, match=r"No forgery of another kind than swap"):
        run(clips, features, settings=["non-pure"])


# -------------------------------------------------------------------------------------- what is odd


def test_nobody_may_be_in_two_splits():
    clips, _ = collection()
    moved = [replace(clip, split="test") if clip == clips[1] else clip for clip in clips]
    with pytest.raises(ValueError, match=r"'00' is in two splits: train .* and test"):
        run(moved, {})  # before anything is computed


def test_one_video_under_two_names():
    clips, features = collection()
    first, last = clips[0].path, clips[-1].path
    same = {**features, last: replace(features[last], sha256=features[first].sha256)}
    with pytest.raises(ValueError, match=r"00.mp4 \(train\) and .*15.mp4 \(test\) are the same"):
        run(clips, same)


def test_clips_without_splits_are_divided_by_people():
    clips, features = collection(split=False)
    rows = run(clips, features, seed=3)
    assert rows == run(clips[::-1], features, seed=3)
    assert {row["seed"] for row in rows} == {3}
    assert {row["n_genuine"] for row in rows} == {2}  # 14 % of 16
    half = [replace(clip, split="train") for clip in clips[:5]]
    with pytest.raises(ValueError, match=r"59 of 64 clips have no split"):
        run([*half, *clips[5:]], features)


def test_clips_that_cannot_be_measured():
    clips, features = collection()
    unknown = Clip(Path("what.mp4"), split="test")
    with pytest.raises(ValueError, match=r"Whether what.mp4 .* not known"):
        run([*clips, unknown], features)
    with pytest.raises(ValueError, match=r"no genuine clips for test of quality c23"):
        run([clip for clip in clips if clip.split != "test" or clip.is_forged], features)
    with pytest.raises(ValueError, match=r"Each of settings .*non-pure.*'unpure'"):
        run(clips, features, settings=["pure", "unpure"])
    with pytest.raises(ValueError, match=r"no forged clips for test"):
        run([clip for clip in clips if clip.split != "test" or not clip.is_forged], features)


def test_what_readers_must_know_is_in_every_row_and_on_the_page():
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


class OnDemand(dict):
    """Features that are read when they are asked for."""

    def __init__(self, features):
        super().__init__(features)
        self.asked = Counter()

    def __getitem__(self, path):
        self.asked[path] += 1
        return super().__getitem__(path)


def test_features_are_asked_for_twice_and_those_of_one_quality_at_a_time():
    clips, features = collection(n_train=4, n_val=2, n_test=2, qualities=("c40", "c23"))
    features = OnDemand(features)

    def looks(experts, **given):
        if len(experts) > 1:  # while the first quality is measured
            looked.append(sum(count > 1 for count in features.asked.values()))
        return few(experts, **given)

    looked = []
    run(clips, features, methods=looks)
    assert set(features.asked.values()) == {2}
    assert (looked[0], looked[-1]) == (len(clips) / 2, len(clips))


def test_results_are_stored_and_not_measured_again(tmp_path):
    clips, features = collection()
    calls = []

    def counted(experts, **given):
        calls.append(experts)
        return few(experts, **given)

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


@pytest.mark.parametrize("auc", [0.0, 0.3, 0.5, 0.9, 1.0])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (4, 9), (140, 140)])
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
