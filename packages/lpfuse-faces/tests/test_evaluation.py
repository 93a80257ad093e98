"""Leave one manipulation out: nothing of the kind that is left out is learnt from or chosen by."""

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, roc_auc_score

from face_oracles.made_up import FRAMES, KINDS, collection, garbage, video
from lpfuse import FixedRule, TwoSidedMinMax
from lpfuse.ensemble.components import default_fusion
from lpfuse.metrics import best_g_mean, g_mean
from lpfuse_faces.clips import Clip
from lpfuse_faces.evaluation import (
    FittedMethod,
    LearningData,
    ScoredClips,
    ScoredVideos,
    decision_threshold,
    fusion_methods,
    leave_one_manipulation_out,
    score_clips,
)

LEARNERS = ("gmm", "kpca")
SUM = FixedRule("sum")


def run(clips, features, **options):
    return leave_one_manipulation_out(clips, features, **{"learners": LEARNERS, **options})


@cache
def usual_rows():
    return run(*collection())


def figures(rows, kind, metric="auc"):
    return {
        (row["setting"], row["method"]): row["value"]
        for row in rows
        if row["kind"] == kind and row["metric"] == metric
    }


def parts(seed=0, n_videos=40, frames=3, forged=True):
    rng = np.random.default_rng(seed)
    labels = np.where(np.arange(n_videos) % 2 == 0, 1.0, -1.0 if forged else 1.0)
    video = np.repeat(np.arange(n_videos), frames)
    scores = rng.normal(size=(len(video), 3)) + np.outer(labels[video], [0.4, 0.2, -0.1])
    return ScoredVideos(scores * [1.0, 10.0, 0.1], video, labels)


def learnt(features, setting):
    """Left-out kind → method → threshold, choices and scores of the test, to the last digit."""
    found = []

    def recorded(learners, **given):
        log = {}
        found.append(log)

        def watched(name, method):
            def learn(given):
                fitted = method(given)

                def score(part):
                    scores = fitted.score(part)
                    log[name] = fitted.offset, fitted.choices, list(scores)
                    return scores

                return fitted._replace(score=score)

            return learn

        return {
            name: watched(name, method)
            for name, method in fusion_methods(learners, **given).items()
        }

    run(collection()[0], features, methods=recorded, settings=[setting])
    return dict(zip(KINDS, found[-len(KINDS) :], strict=True))


@cache
def learnt_from_all(setting):
    return learnt(collection()[1], setting)


@pytest.mark.parametrize("setting", ["pure", "non-pure"])
@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_what_is_left_out_reaches_nothing_but_its_test(setting, split):
    """Garbage in its place shows where the kind may teach, choose or be tested; nowhere else."""
    clips, features = collection()
    spoilt = [clip for clip in clips if clip.kind == "warped" and clip.split == split]
    before, after = learnt_from_all(setting), learnt(garbage(features, spoilt), setting)
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

    pure, both = (those(tables.training(kind, setting)) for setting in ("pure", "non-pure"))
    assert {(clip.split, clip.kind) for clip in pure} == {("train", None)}
    others = {None, *KINDS} - {kind}
    assert {(clip.split, clip.kind) for clip in both} == {("train", each) for each in others}
    validation = those(tables.validation(kind))
    assert {(clip.split, clip.kind) for clip in validation} == {("val", each) for each in others}
    assert len(validation) == 4 * 3
    tested = those(tables.test(kind))
    assert {(clip.split, clip.kind) for clip in tested} == {("test", None), ("test", kind)}
    assert len(tested) == 8
    people = [
        {name for clip in part for name in clip.identities} for part in (both, validation, tested)
    ]
    assert len(set().union(*people)) == sum(map(len, people))


def test_labels_and_videos_go_with_the_scores():
    clips, _ = collection()
    part = numbered(clips).test("warped")
    for number, position in zip(part.scores[:, 0], part.video, strict=True):
        assert part.labels[position] == clips[int(number)].label
    assert list(part.pooled(part.scores[:, 0], "mean")) == list(part.scores[::2, 0])


def scores_by_path(features, clips):
    tables = score_clips(clips, features, learners=LEARNERS)
    paths = [clip.path for clip in tables.clips]
    return dict(zip(paths, tables.scores, strict=True))


def test_learners_learn_from_genuine_training_clips_of_other_people_alone():
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


def test_every_clip_has_a_score_for_each_frame_and_learner():
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


def test_figures_are_those_of_scikit_learn():
    """Judged by hand from what a method is given, with a quantile in place of the mean."""
    seen = []

    def spy(learners, *, with_forgeries, validated):
        def method(given):
            def score(part):
                frames = part.scores @ np.arange(1.0, 5.0)
                scores = [np.quantile(frames[part.video == v], 0.25) for v in np.unique(part.video)]
                assert part.pooled(frames, given.pooling) == pytest.approx(scores)
                seen.append((part.labels, np.array(scores)))
                return np.array(scores)

            return FittedMethod(score, float(np.median(score(given.validation))), {"by": "hand"})

        return {"spy": method}

    rows = run(*collection(), methods=spy, pooling=0.25, settings=["pure"])
    parts = zip(seen[::3], seen[1::3], seen[2::3], strict=True)
    for kind, (validation, test, frames) in zip(KINDS, parts, strict=True):
        labels, scores = test
        assert len(frames[0]) > len(labels)  # the same videos, frame by frame
        of_frames = np.where(frames[1] >= np.median(validation[1]), 1, -1)
        decisions = np.where(scores >= np.median(validation[1]), 1, -1)
        expected = {
            "auc": roc_auc_score(labels, scores),
            "accuracy": accuracy_score(labels, decisions),
            "balanced_accuracy": balanced_accuracy_score(labels, decisions),
            "g_mean": g_mean(labels, decisions),
            "frame_auc": roc_auc_score(*frames),
            "frame_accuracy": accuracy_score(frames[0], of_frames),
        }
        found = {row["metric"]: row["value"] for row in rows if row["kind"] == kind}
        assert found == pytest.approx({name: 100 * value for name, value in expected.items()})
        (row,) = (row for row in rows if (row["kind"], row["metric"]) == (kind, "auc"))
        assert (row["n_genuine"], row["n_forged"], row["choices"]) == (4, 4, {"by": "hand"})


def test_the_order_of_the_clips_does_not_matter():
    clips, features = collection()
    backwards = run(clips[::-1], dict(reversed(features.items())))
    assert backwards == usual_rows()


def test_qualities_are_measured_each_by_itself():
    clips, features = collection(n_train=4, n_val=2, n_test=2, qualities=("c40", "c23"))
    both = run(clips, features)
    assert [*dict.fromkeys(row["quality"] for row in both)] == ["c23", "c40"]
    alone = run([clip for clip in clips if clip.quality == "c40"], features)
    for kind in KINDS:
        assert figures([row for row in both if row["quality"] == "c40"], kind) == figures(
            alone, kind
        )


def test_genuine_videos_alone_set_the_threshold_by_their_false_alarms():
    scores = np.arange(101.0)
    assert decision_threshold(np.ones(101), scores) == 5.0


def test_so_many_frames_of_each_class_teach():
    given = LearningData(parts(0), most_frames=10)
    S, y = given.frames
    assert sorted(y) == [-1.0] * 10 + [1.0] * 10
    labels = given.training.labels[given.training.video]
    for row, label in zip(S, y, strict=True):
        assert label in labels[(given.training.scores == row).all(axis=1)]
    assert np.array_equal(LearningData(parts(0), most_frames=10).frames[0], S)
    pure = LearningData(parts(0, forged=False), most_frames=10).frames
    assert pure[0].shape == (10, 3)
    assert pure[1] is None


def test_a_single_kind_leaves_nothing_to_learn_from():
    clips, features = collection(n_train=4, n_val=2, n_test=2, kinds=("swap",))
    rows = run(clips, features)
    assert {row["setting"] for row in rows} == {"pure"}
    assert all(row["choices"] == {} for row in rows if row["metric"] == "auc")
    with pytest.raises(ValueError, match=r"No forgery of another kind than swap"):
        run(clips, features, settings=["non-pure"])


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
    rows = run(clips, features, seed=3, settings=["pure"])
    assert rows == run(clips[::-1], features, seed=3, settings=["pure"])
    assert rows != run(clips, features, seed=4, settings=["pure"])
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


class OnDemand(dict):
    """Features that are read when they are asked for."""

    def __init__(self, features):
        super().__init__(features)
        self.asked = Counter()

    def __getitem__(self, path):
        self.asked[path] += 1
        return super().__getitem__(path)


def test_features_are_read_twice_one_quality_at_a_time():
    clips, features = collection(n_train=4, n_val=2, n_test=2, qualities=("c40", "c23"))
    features = OnDemand(features)

    def looks(learners, **given):
        if len(learners) > 1:  # while the first quality is measured
            looked.append(sum(count > 1 for count in features.asked.values()))
        return fusion_methods(learners, **given)

    looked = []
    run(clips, features, methods=looks)
    assert set(features.asked.values()) == {2}
    assert (looked[0], looked[-1]) == (len(clips) / 2, len(clips))


@pytest.mark.parametrize("forged", [True, False])
@pytest.mark.parametrize(("name", "make"), [("lp", default_fusion), ("sum", lambda: SUM)])
def test_the_methods_are_the_fusions_of_the_library(name, make, forged):
    given = LearningData(parts(0, forged=forged), parts(1))
    fitted = fusion_methods(["a", "b", "c"], with_forgeries=forged, validated=True)[name](given)
    S, y = given.training.scores, given.training.labels[given.training.video]
    scaler = TwoSidedMinMax().fit(S[y > 0])
    fusion = make().fit(scaler.transform(S), y if forged else None)
    tested = parts(2)
    frames = fusion.score_samples(scaler.transform(tested.scores))
    expected = [frames[tested.video == v].mean() for v in np.unique(tested.video)]
    assert fitted.score(tested) == pytest.approx(expected, abs=1e-6)
    videos = given.validation
    assert fitted.offset == best_g_mean(videos.labels, fitted.score(videos))[1]


def test_remarks_are_in_every_row_and_progress_is_told():
    clips, features = collection(n_train=4, n_val=0, n_test=2)
    seen = []
    rows = run(clips, features, progress=lambda *at: seen.append(at), settings=["pure"])
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]
    told = ["There are no validation clips: nothing is chosen, and training clips set thresholds."]
    assert all(row["warnings"] == told for row in rows)
