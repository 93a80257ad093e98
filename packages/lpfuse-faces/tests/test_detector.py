import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin, OutlierMixin, clone
from sklearn.exceptions import NotFittedError

from helpers.cases import cases
from helpers.pools import Nearby
from lpfuse import FixedRule, GMMDetector, KernelPCADetector, LpFusion, TwoSidedMinMax, load
from lpfuse_faces._detector import VideoDetector
from lpfuse_faces._features import VideoFeatures
from lpfuse_faces._scoring import FRAMES_AT_A_TIME

RANDOM = "features of darknet come from random weights, seed 0"
SETS = ("azimuthal/face", "azimuthal/mouth", "darknet/face")
WIDTHS = (3, 2, 4)


class Distance(OutlierMixin, BaseEstimator):
    """Minus the distance to the mean of the training rows: quick, and a copy is easy to make."""

    def fit(self, X, y=None):
        self.mean_ = np.asarray(X, dtype=float).mean(axis=0)
        return self

    def score_samples(self, X):
        return -np.linalg.norm(X - self.mean_, axis=1)


POOL = [
    ("far: azimuthal/face", Distance(), "azimuthal/face"),
    ("far: azimuthal/mouth", Distance(), ["azimuthal/mouth"]),
    ("far: darknet/face", Distance(), "darknet/face"),
]


def video(name="clip.mp4", *, shift=0.0, frames=6, seed=0, without=1, warnings=(), widths=WIDTHS):
    """Frames that differ far less from each other than videos do."""
    rng = np.random.default_rng([seed, *name.encode()])
    sets = {
        each: rng.normal(size=(1, d)) + 0.1 * rng.normal(size=(frames, d)) + shift
        for each, d in zip(SETS, widths, strict=False)
    }
    index = np.arange(frames)
    places = np.zeros((frames, 4)), np.zeros((frames, 5, 2))
    n_frames = frames + without
    return VideoFeatures(name, "00", index, index / 25, *places, sets, n_frames, tuple(warnings))


def genuine(count=24, **options):
    return [video(f"{k}.mp4", **options) for k in range(count)]


def forged(count=8, **options):
    return [video(f"forged-{k}.mp4", shift=4.0, **options) for k in range(count)]


def labelled(normal=24, anomalies=8):
    videos = [*genuine(normal), *forged(anomalies)]
    return videos, np.repeat([1, -1], [normal, anomalies])


def detector(**options):
    return VideoDetector(**{"detectors": POOL, "random_state": 0, **options})


# ------------------------------------------------------------------------------ scores of videos


def test_forgeries_are_told_from_genuine_videos():
    fitted = VideoDetector(random_state=0).fit(*labelled())
    assert len(fitted.learner_names_) == len(fitted.weights_) == 12
    assert fitted.learner_names_[0] == "svdd: azimuthal/face"
    assert fitted.certificate_.relative_gap <= 1e-8
    new = [*genuine(8, seed=1), *forged(8, seed=1)]
    assert fitted.score_samples(new)[:8].min() > fitted.score_samples(new)[8:].max()
    assert fitted.predict(forged(8, seed=1)).tolist() == [-1] * 8


def test_the_score_is_pooled_over_frames():
    fitted = detector().fit(genuine())
    new = [*genuine(3, seed=1), video(frames=2), *forged(2)]
    frames = [fitted.fused_.score_samples(one.table(SETS)) for one in new]
    np.testing.assert_allclose(fitted.score_samples(new), [x.mean() for x in frames], rtol=1e-12)
    lower = detector(pooling=0.2).fit(genuine())
    expected = [np.quantile(lower.fused_.score_samples(one.table(SETS)), 0.2) for one in new]
    np.testing.assert_allclose(lower.score_samples(new), expected, rtol=1e-12)


def test_more_frames_than_are_held_at_a_time_change_nothing():
    fitted = detector().fit(genuine())
    new = [video(frames=n) for n in (FRAMES_AT_A_TIME // 2, 1, FRAMES_AT_A_TIME - 1, 7, 3)]
    alone = [fitted.score_samples([one])[0] for one in new]
    np.testing.assert_allclose(fitted.score_samples(new), alone, rtol=1e-12)
    frames = np.concatenate([fitted.learner_scores([one]).scores for one in new])
    np.testing.assert_allclose(fitted.learner_scores(new).scores, frames, rtol=1e-12)


def test_decisions_follow_from_scores():
    fitted, new = detector().fit(genuine(40)), [*genuine(5, seed=1), *forged(5)]
    scores = fitted.score_samples(new)
    np.testing.assert_array_equal(fitted.decision_function(new), scores - fitted.offset_)
    np.testing.assert_array_equal(fitted.predict(new), np.where(scores >= fitted.offset_, 1, -1))
    assert set(fitted.predict(new)) == {1, -1}
    np.testing.assert_array_equal(fitted.pvalues(new) <= 0.05, fitted.predict(new) < 0)


def test_learners_see_their_own_set_and_no_other():
    fitted = detector().fit(genuine())
    one, other = video(seed=3), video(seed=3)
    other.sets["azimuthal/mouth"] = other.sets["azimuthal/mouth"] + 5
    moved = fitted.learner_scores([one]).scores != fitted.learner_scores([other]).scores
    np.testing.assert_array_equal(moved.all(axis=0), [False, True, False])
    np.testing.assert_array_equal(moved.any(axis=0), [False, True, False])


def test_sets_can_be_chosen():
    fitted = VideoDetector(["darknet/face"], ["gmm"], random_state=0).fit(genuine())
    assert fitted.learner_names_ == ["gmm: darknet/face"]
    assert (fitted.sets_, fitted.widths_) == (["darknet/face"], {"darknet/face": 4})
    one, other = video(seed=3), video(seed=3)
    other.sets["azimuthal/face"] = other.sets["azimuthal/face"] + 9
    assert fitted.score_samples([one]) == fitted.score_samples([other])


# ---------------------------------------------------------------------------- folds and threshold


def test_frames_and_videos_of_a_group_share_a_fold():
    videos, y = labelled()
    taught = detector().fit(videos, y).out_of_fold_
    for k in range(len(videos)):
        assert len(np.unique(taught.fold[taught.video == k])) == 1
    assert len(np.unique(taught.fold)) == 5
    people = np.array([f"person {k % 8}" for k in range(len(videos))])
    grouped = detector().fit(videos, y, groups=people).out_of_fold_
    for person in np.unique(people):
        frames = people[grouped.video] == person
        assert len(np.unique(grouped.fold[frames])) == 1


def test_out_of_fold_scores_come_from_learners_without_the_fold():
    videos, y = labelled()
    taught = detector().fit(videos, y).out_of_fold_
    X = np.concatenate([one.table(SETS) for one in videos])
    np.testing.assert_array_equal(taught.labels, np.repeat(y, 6))
    for fold in range(5):
        inside = taught.fold == fold
        learn = X[~inside & (taught.labels > 0)][:, :3]
        expected = Distance().fit(learn).score_samples(X[inside][:, :3])
        np.testing.assert_allclose(taught.scores[inside, 0], expected, rtol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", 0.3])
def test_the_threshold_rests_on_whole_videos(pooling):
    """By hand: scale and sum out of fold, pool, and take the k-th smallest genuine video."""
    videos, y = labelled(normal=41)
    asked = {"fusion": FixedRule("sum"), "calibration": "plain", "pooling": pooling}
    fitted = detector(**asked, false_alarm_rate=0.1).fit(videos, y)
    taught, frames = fitted.out_of_fold_, np.empty(47 * 6 + 2 * 6)
    for fold in range(5):
        inside = taught.fold == fold
        rest = taught.scores[~inside & (taught.labels > 0)]
        scaled = TwoSidedMinMax().fit(rest).transform(taught.scores[inside])
        frames[inside] = FixedRule("sum").fit(scaled).score_samples(scaled)
    by_video = frames.reshape(49, 6)[:41]
    pooled = by_video.mean(axis=1) if pooling == "mean" else np.quantile(by_video, pooling, axis=1)
    np.testing.assert_allclose(fitted.calibration_, np.sort(pooled), rtol=1e-9)
    assert fitted.offset_ == pytest.approx(np.sort(pooled)[3])  # ⌊0.1 · 42⌋ = 4 of them below


def test_calibration_videos_are_scored_by_learners_without_their_frames():
    fitted = detector(fusion=FixedRule("sum")).fit(genuine())
    frames, parts = fitted.fused_.held_out_, fitted.fused_.unseen_.parts
    assert fitted.fused_.unseen_.by == "cross"
    np.testing.assert_array_equal(np.sort(np.concatenate([p.hidden for p in parts])), range(144))
    for part in parts:
        assert not set(fitted.frame_videos_[part.learnt]) & set(fitted.frame_videos_[part.hidden])
    expected = np.sort(frames.fused.reshape(24, 6).mean(axis=1))
    np.testing.assert_allclose(fitted.calibration_, expected, rtol=1e-9)


def test_false_alarms_are_held_to_the_rate_of_videos():
    """Frames are near copies: a threshold from frames would let far too many videos through."""
    fitted = detector(false_alarm_rate=0.2).fit(genuine(60, frames=20))
    alarms = (fitted.predict(genuine(300, seed=9, frames=20)) < 0).mean()
    assert 0.1 < alarms < 0.3


def test_few_genuine_videos_set_no_threshold():
    with pytest.warns(UserWarning, match=r"12 genuine videos cannot.*it takes 19.*from 0\.0769"):
        fitted = detector().fit(genuine(12))
    assert fitted.offset_ == -np.inf
    assert (fitted.predict(forged()) == 1).all()
    found = fitted.verdict(forged(1)[0])
    assert (found.is_genuine, found.verdict) == (None, "undecided")
    assert found.pvalue == pytest.approx(1 / 13)


def test_few_frames_are_not_complained_of_beside_few_videos():
    with pytest.warns(UserWarning, match="genuine videos cannot") as told:
        fitted = detector(fusion=FixedRule("sum")).fit(genuine(12, frames=1))
    assert len(told) == 1
    with pytest.warns(UserWarning, match="genuine videos cannot") as told:
        fitted.with_fusion(FixedRule("min"))
    assert len(told) == 1


class KnowsKinds(ClassifierMixin, BaseEstimator):
    """Calls a row forged if it has seen its kind, which the first column holds."""

    def fit(self, X, y):
        self.classes_, self.kinds_ = np.array([-1, 1]), np.unique(X[y < 0, 0].round())
        return self

    def predict_proba(self, X):
        sure = 0.9 - 0.01 * np.abs(np.tanh(X[:, 1]))  # not the same of all rows
        seen = np.isin(X[:, 0].round(), self.kinds_)
        return np.where(
            seen[:, None], np.column_stack([sure, 1 - sure]), np.column_stack([1 - sure, sure])
        )


def test_classifiers_have_not_seen_the_kind_that_they_score():
    videos, y = labelled(20, 20)
    kinds = np.array([""] * 20 + [f"kind {k % 4}" for k in range(20)])
    for k, one in enumerate(videos):
        one.sets["darknet/face"][:, 0] = 0 if k < 20 else 1 + k % 4
    pool = [POOL[0], ("classifier", KnowsKinds(), "darknet/face")]
    for kind, surprised in ((kinds, True), (None, False)):
        fitted = detector(detectors=pool).fit(videos, y, kind=kind)
        taught = fitted.out_of_fold_
        of_forged = taught.scores[taught.labels < 0, 1]
        assert (of_forged > 0).all() if surprised else (of_forged < 0).all()
        folds = [np.unique(taught.fold[taught.video == k]) for k in range(40)]
        assert all(len(found) == 1 for found in folds)


def test_kinds_change_nothing_where_no_learner_learns_from_forgeries():
    videos, y = labelled()
    kinds = np.array(["a", "b"] * 16)
    one, other = detector().fit(videos, y), detector().fit(videos, y, kind=kinds)
    np.testing.assert_array_equal(one.weights_, other.weights_)
    assert one.offset_ == other.offset_


# -------------------------------------------------------------------------------------- validation


def test_validation_videos_teach_the_weights_and_nothing_else():
    videos, y = labelled(40, 20)
    inside = np.arange(60) % 2 == 0
    fitted = detector().fit(videos, y, validation=inside)
    learn = [one for one, label, val in zip(videos, y, inside, strict=True) if label > 0 > val - 1]
    by_hand = [Distance().fit(np.concatenate([one.sets[each] for one in learn])) for each in SETS]
    new = genuine(3, seed=5)
    expected = [
        learner.score_samples(np.concatenate([one.sets[each] for one in new]))
        for learner, each in zip(by_hand, SETS, strict=True)
    ]
    np.testing.assert_allclose(fitted.learner_scores(new).scores.T, expected, rtol=1e-5)
    taught = fitted.out_of_fold_
    assert set(taught.video) == set(np.flatnonzero(inside))
    np.testing.assert_array_equal(taught.labels, y[taught.video])
    assert len(fitted.calibration_) == 20
    assert (fitted.predict(forged(5, seed=3)) == -1).all()


def test_validation_needs_genuine_videos_on_both_sides():
    videos, y = labelled()
    with pytest.raises(ValueError, match="none is left to fit learners to"):
        detector().fit(videos, y, validation=y > 0)
    with pytest.raises(ValueError, match="normal"):
        detector().fit(videos, y, validation=y < 0)
    with pytest.raises(ValueError, match="True or False of each of the 32 videos"):
        detector().fit(videos, y, validation=[0, 1])


# ------------------------------------------------------------------------ comparing fusion rules


def test_another_fusion_is_as_if_fitted_with_it():
    videos, y = labelled()
    new = [*genuine(4, seed=1), video(frames=0), *forged(4, seed=1)]
    first = detector().fit(videos, y)
    seen = first.learner_scores(new)
    assert seen.names == first.learner_names_
    for fusion, scaler in ((LpFusion(p=2.0), None), (FixedRule("max"), TwoSidedMinMax(rho=1.0))):
        fitted = detector(fusion=fusion, scaler=scaler).fit(videos, y)
        other = first.with_fusion(fusion, scaler)
        assert (other.fusion, other.offset_) == (fusion, fitted.offset_)
        np.testing.assert_array_equal(other.calibration_, fitted.calibration_)
        np.testing.assert_array_equal(other.score_samples(new), fitted.score_samples(new))
        np.testing.assert_allclose(other.score_frames(seen), fitted.score_samples(new))
    np.testing.assert_allclose(first.score_frames(seen), first.score_samples(new))


def test_a_fusion_that_looks_at_features_is_fitted_anew():
    videos, y = labelled()
    fusion = Nearby()
    with pytest.raises(ValueError, match="fit anew"):
        detector().fit(videos, y).with_fusion(fusion)
    fitted = detector(fusion=fusion).fit(videos, y)
    assert np.isfinite(fitted.score_samples(videos)).all()


# ---------------------------------------------------------------------------------------- verdicts


@pytest.mark.parametrize("pooling", ["mean", 0.35])
def test_contributions_add_up_to_the_score(pooling):
    fitted = detector(pooling=pooling).fit(genuine())
    new = forged(1)[0]
    found = fitted.verdict(new)
    assert found.score == pytest.approx(fitted.score_samples([new])[0])
    assert found.decision == pytest.approx(fitted.decision_function([new])[0])
    assert found.pvalue == fitted.pvalues([new])[0]
    assert found.contributions.shape == (3,)
    for parts in (found.by_set, found.by_region, found.by_algorithm):
        assert sum(parts.values()) == pytest.approx(found.score)
    assert list(found.by_set) == list(SETS)
    assert list(found.by_region) == ["face", "mouth"]
    assert found.by_region["mouth"] == pytest.approx(found.contributions[1])
    assert list(found.by_algorithm) == ["far"]
    np.testing.assert_array_equal(found.time, new.time)
    np.testing.assert_allclose(found.frame_scores, fitted.fused_.score_samples(new.table(SETS)))
    if pooling == "mean":
        parts = fitted.fused_.contributions(new.table(SETS))
        np.testing.assert_allclose(found.contributions, parts.mean(axis=0))


def test_an_learner_of_several_sets_is_filed_so():
    pool = [("both", Distance(), ["azimuthal/face", "darknet/face"]), ("all", Distance())]
    found = detector(detectors=pool).fit(genuine()).verdict(video())
    assert list(found.by_set) == list(found.by_region) == ["several"]
    assert list(found.by_algorithm) == ["both", "all"]


def test_a_rule_that_is_no_sum_has_no_contributions():
    found = detector(fusion=FixedRule("max")).fit(genuine()).verdict(video())
    assert found.contributions is None
    assert found.by_set == {}


def test_a_verdict_in_words():
    fitted = detector().fit([*genuine(23), video("x.mp4", warnings=[RANDOM])])
    found = fitted.verdict(video("new.mp4", shift=5.0))
    assert (found.verdict, found.is_genuine, found.has_face) == ("forged", False, True)
    assert (found.n_frames, found.n_without_face) == (7, 1)
    assert str(found).startswith("new.mp4: forged (score -")
    assert str(found).endswith(f"6 of 7 frames show a face)\nWarning: {RANDOM}")
    assert fitted.verdict(video("new.mp4")).verdict == "genuine"
    also = fitted.verdict(video("new.mp4", warnings=["from a draft", RANDOM]))
    assert also.warnings == (RANDOM, "from a draft")


# ------------------------------------------------------------------------- videos without a face


def test_videos_without_a_face_are_left_out_with_a_warning():
    empty = video("dark.mp4", frames=0, without=5)
    with pytest.warns(UserWarning, match=r"1 of 25 videos show no face.*: dark\.mp4"):
        fitted = detector().fit([empty, *genuine()])
    expected = detector().fit(genuine())
    np.testing.assert_array_equal(fitted.weights_, expected.weights_)
    np.testing.assert_array_equal(fitted.calibration_, expected.calibration_)
    assert set(fitted.out_of_fold_.video) == set(range(1, 25))


def test_a_video_without_a_face_has_no_score():
    fitted = detector().fit(genuine())
    empty = video("dark.mp4", frames=0, without=5)
    new = [empty, video(), empty]
    for numbers in (fitted.score_samples(new), fitted.decision_function(new), fitted.pvalues(new)):
        np.testing.assert_array_equal(np.isnan(numbers), [True, False, True])
    assert fitted.predict(new).tolist() == [0, 1, 0]
    assert fitted.learner_scores([empty]).scores.shape == (0, 3)
    assert np.isnan(fitted.score_samples([empty])).all()
    found = fitted.verdict(empty)
    assert (found.verdict, found.is_genuine, found.has_face) == ("no face found", None, False)
    assert found.contributions is None
    assert str(found) == "dark.mp4: no face found (0 of 5 frames show a face)"


# ----------------------------------------------------------------------------------- refused input


@cases(
    ("videos", "error", "told"),
    [
        ([], ValueError, "no videos"),
        (video(), TypeError, r"Put it in a list: \[video\]"),
        (["clip.mp4"], TypeError, "must be VideoFeatures, got str"),
        ([video(frames=0)], ValueError, "None of the 1 videos shows a face"),
        (
            [*genuine(5), video("odd.mp4", widths=(3, 2))],
            ValueError,
            r"odd\.mp4 has no features darknet/face, only azimuthal/face, azimuthal/mouth",
        ),
        (
            [*genuine(5), video("odd.mp4", widths=(3, 7, 4))],
            ValueError,
            r"odd\.mp4 has 7 columns in azimuthal/mouth, where 2 are expected",
        ),
    ],
)
def test_videos_that_cannot_be_learnt_from(videos, error, told):
    with pytest.raises(error, match=told):
        detector().fit(videos)


def test_new_videos_need_the_features_of_the_training():
    fitted = detector().fit(genuine())
    with pytest.raises(ValueError, match=r"odd\.mp4 has no features darknet/face"):
        fitted.score_samples([video(), video("odd.mp4", widths=(3, 2))])
    with pytest.raises(ValueError, match="has 9 columns in darknet/face, where 4 are expected"):
        fitted.verdict(video(widths=(3, 2, 9)))
    with pytest.raises(TypeError, match="Put it in a list"):
        fitted.predict(video())
    with pytest.raises(NotFittedError):
        detector().score_samples([video()])


@cases(
    ("options", "told"),
    [
        ({"pooling": "median"}, "pooling"),
        ({"false_alarm_rate": 5}, r"share of the genuine videos: write 0\.05"),
        ({"calibration": "split"}, "calibration"),
        ({"cv": "prefit"}, "cv"),
        ({"sets": ["inception/face"]}, r"0\.mp4 has no features inception/face"),
        ({"sets": []}, "at least one feature set"),
        ({"detectors": [("a", Distance(), "nose")]}, "'a' shall see 'nose', but the feature sets"),
        ({"detectors": None, "learners": ["forest"]}, "learner must be"),
    ],
)
def test_a_refused_fit_leaves_no_trace(options, told):
    refused = detector(**options)
    with pytest.raises(ValueError, match=told):
        refused.fit(genuine())
    assert not [name for name in vars(refused) if name.endswith("_")]


def test_labels_and_names_must_fit_the_videos():
    videos, y = labelled()
    with pytest.raises(ValueError, match="y"):
        detector().fit(videos, y[:-1])
    with pytest.raises(ValueError, match="groups"):
        detector().fit(videos, y, groups=["a"])


# ----------------------------------------------------------------------- parameters, saving, files


def test_parameters_are_scikit_learns():
    asked = VideoDetector(
        ["azimuthal/face"], pooling=0.5, fusion=LpFusion(p=2.0), settings={"k": 1}
    )
    copy = clone(asked)
    assert copy.get_params()["fusion__p"] == 2.0
    assert copy.set_params(fusion__p=4.0).fusion.p == 4.0
    assert asked.fusion.p == 2.0
    assert copy.settings == {"k": 1}


@pytest.mark.parametrize("validation", [False, True])
def test_a_saved_detector_says_the_same(tmp_path, validation):
    videos, y = labelled(44, 8)
    pool = [
        ("gmm: azimuthal/face", GMMDetector(2), "azimuthal/face"),
        ("kpca: darknet/face", KernelPCADetector(3), "darknet/face"),
    ]
    told = []
    fitted = detector(detectors=pool, settings={"sampling": {"count": 32}, "regions": ["face"]})
    inside = np.arange(52) % 2 == 0 if validation else None
    fitted.fit(videos, y, validation=inside, progress=lambda *n: told.append(n))
    assert told[-1][0] == told[-1][1] > 1
    fitted.save(tmp_path / "model.lpfuse")
    again = load(tmp_path / "model.lpfuse")
    new = [*genuine(3, seed=1), *forged(3), video(frames=0)]
    np.testing.assert_array_equal(again.score_samples(new), fitted.score_samples(new))
    np.testing.assert_array_equal(again.pvalues(new), fitted.pvalues(new))
    assert (again.offset_, again.settings) == (fitted.offset_, fitted.settings)
    assert again.verdict(new[0]).by_set == fitted.verdict(new[0]).by_set
    rule = FixedRule("min")
    assert again.with_fusion(rule).offset_ == fitted.with_fusion(rule).offset_


def test_the_result_does_not_depend_on_the_number_of_jobs():
    videos, y = labelled()
    with parallel_config(backend="threading"):  # quicker to start than processes
        alone, together = (
            VideoDetector(learners=["gp", "gmm"], n_jobs=n_jobs, random_state=0).fit(videos, y)
            for n_jobs in (1, 2)
        )
    np.testing.assert_array_equal(alone.weights_, together.weights_)
    assert alone.offset_ == together.offset_
