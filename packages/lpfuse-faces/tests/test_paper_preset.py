"""The paper's settings: its grids, chosen on validation, and weights from in-sample scores."""

from functools import cache, partial

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from face_oracles.made_up import KINDS, collection, garbage, video
from lpfuse import SVDD, GMMDetector, KernelPCADetector, LpFusion, OneClassGP, TwoSidedMinMax
from lpfuse.detectors import PAPER_WIDTHS
from lpfuse.fusion import PAPER_GRID
from lpfuse_faces.evaluation import (
    PAPER_RHOS,
    PAPER_SETS,
    LearningData,
    LeaveOneManipulationOut,
    ScoredVideos,
    fusion_methods,
    leave_one_manipulation_out,
    paper_methods,
)
from lpfuse_faces.evaluation._paper_grid import (
    EXACT_ROWS,
    WideMixture,
    component_grid,
    fitted_grid,
    grid_size,
    n_fits,
)

ALL = ["svdd", "gp", "kpca", "gmm"]
run = partial(leave_one_manipulation_out, preset="paper")


# The numbers that the paper prints


def test_grids_are_those_of_the_paper():
    assert PAPER_WIDTHS == (0.01, 0.1, 0.5, 1, 10)
    assert PAPER_GRID == (32 / 31, 16 / 15, 8 / 7, 4 / 3, 2, 4, 8, 10, 100)
    assert PAPER_RHOS == (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    assert list(component_grid(21)) == [2, 6, 10, 14, 18]
    assert list(component_grid(22)) == [2, 6, 10, 14, 18, 22]
    regions = ("face", "mouth", "nose")
    networks = ("inception", "darknet", "alexnet")
    assert PAPER_SETS == tuple(f"{network}/{region}" for network in networks for region in regions)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of narrow widths
def test_every_setting_of_the_grid_is_fitted():
    X = np.random.default_rng(0).normal(size=(22, 3))
    steps = list(fitted_grid(ALL, X, 0))
    assert len(steps) == n_fits(ALL) == 6
    found = [(each.name, setting) for step in steps for each in step for setting in each.settings]
    expected = [("gmm", {})]
    for sigma in PAPER_WIDTHS:
        expected += [("svdd", {"sigma": sigma}), ("gp", {"sigma": sigma})]
        expected += [("kpca", {"sigma": sigma, "q": q}) for q in (2, 6, 10, 14, 18, 22)]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert len(found) == grid_size(ALL, 22)
    for step, sigma in zip(steps, (10, 1, 0.5, 0.1, 0.01), strict=False):
        gammas = [each.detector.gamma for each in step]
        assert gammas == pytest.approx([1 / (2 * sigma**2)] * 3)
        assert {each.detector.approximation for each in step} == {None}
        assert step[1].detector.score_type == "mean"
    (mixture,) = steps[-1]
    parameters = mixture.detector.get_params()
    assert (parameters["n_components"], parameters["covariance_type"]) == (3, "full")
    assert parameters["score_type"] == "mahalanobis"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_kernels_of_many_frames_are_approximated():
    X = np.random.default_rng(0).normal(size=(EXACT_ROWS + 1, 2)).astype(np.float32)
    step = next(fitted_grid(ALL, X, 0))
    assert {each.detector.approximation for each in step} == {"nystroem"}
    assert max(setting["q"] for setting in step[2].settings) <= 500
    assert step[2].scores(X[:3]).shape == (3, len(step[2].settings))
    assert grid_size(ALL, EXACT_ROWS + 1) == 5 * (2 + 125) + 1


# The whole of it against a plain loop


def videos_of(clips, split, kind, forged=True):
    wanted = [clip for clip in clips if clip.split == split and clip.kind != kind]
    return [clip for clip in wanted if forged or not clip.is_forged]


def frames(clips, features, name):
    return np.concatenate([features[clip.path].sets[name].astype(float) for clip in clips])


def means(scores, n_videos):
    return scores.reshape(n_videos, -1).mean(axis=1)


def detectors(n):
    """Widths and numbers of components in the order in which equals are preferred."""
    mixture = {"score_type": "mahalanobis", "covariance_type": "full", "random_state": 0}
    yield "gmm", {}, GMMDetector(3, **mixture)
    for sigma in (10.0, 1.0, 0.5, 0.1, 0.01):
        kernel = {"gamma": 1 / (2 * sigma**2), "approximation": None}
        yield "svdd", {"sigma": sigma}, SVDD(**kernel)
        yield "gp", {"sigma": sigma}, OneClassGP("mean", **kernel)
        for q in range(2, n + 1, 4):
            yield "kpca", {"sigma": sigma, "q": q}, KernelPCADetector(q, **kernel)


def plainly(clips, features, kind):
    """What is chosen, and the AUC of the test, one estimator after the other."""
    training = videos_of(clips, "train", kind, forged=False)
    validation = videos_of(clips, "val", kind)
    test = [clip for clip in clips if clip.split == "test" and clip.kind in (None, kind)]
    teaching = videos_of(clips, "train", kind)
    chosen, best = {}, {}
    for name in ("azimuthal/face", "azimuthal/mouth"):
        scaler = StandardScaler().fit(frames(training, features, name))
        X, V = (scaler.transform(frames(part, features, name)) for part in (training, validation))
        labels = [clip.label for clip in validation]
        for learner, setting, detector in detectors(len(X)):
            fitted = detector.fit(X)
            area = roc_auc_score(labels, means(fitted.score_samples(V), len(validation)))
            if area > chosen.get((learner, name), (0,))[0]:
                chosen[learner, name] = area, setting, fitted, scaler

    def scores(part):
        return np.column_stack(
            [
                fitted.score_samples(scaler.transform(frames(part, features, name)))
                for (_, name), (_, _, fitted, scaler) in chosen.items()
            ]
        )

    y = np.repeat([clip.label for clip in teaching], len(frames(teaching[:1], features, name)))
    S, V = scores(teaching), scores(validation)
    for rho in range(1, 11):
        scaler = TwoSidedMinMax(float(rho), (0, 1), clip=False).fit(S[y > 0])
        for p in sorted(PAPER_GRID, reverse=True):
            fusion = LpFusion(p=p).fit(scaler.transform(S), y)
            fused = means(fusion.score_samples(scaler.transform(V)), len(validation))
            area = roc_auc_score(labels, fused)
            if area > best.get("area", 0) + 1e-12:
                best = {"area": area, "p": p, "rho": rho, "fusion": fusion, "scaler": scaler}
    fused = best["fusion"].score_samples(best["scaler"].transform(scores(test)))
    settings = {f"{learner}: {name}": value[1] for (learner, name), value in chosen.items()}
    auc = roc_auc_score([clip.label for clip in test], means(fused, len(test)))
    return settings | {"lp": {"p": best["p"], "rho": best["rho"]}}, 100 * auc


@cache
def hard():
    """Forgeries that are near genuine clips, so that settings differ in what they find."""
    clips, features = collection()
    rng = np.random.default_rng(5)
    nearer = {}
    for clip in clips:
        rows = features[clip.path].sets["azimuthal/face"].astype(float)
        shift = 2.5 * np.eye(3)[KINDS.index(clip.kind)] if clip.is_forged else 0.0
        rows = rows - 0.7 * shift
        nearer[clip.path] = video(str(clip.path), rows, rng.normal(size=(len(rows), 2)))
    return clips, nearer


@cache
def paper_rows():
    return run(*hard(), learners=ALL, settings=["non-pure"])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_figures_and_choices_are_those_of_a_plain_loop():
    clips, features = hard()
    kind = KINDS[0]
    settings, auc = plainly(clips, features, kind)
    mine = [
        row
        for row in paper_rows()
        if (row["kind"], row["setting"], row["metric"]) == (kind, "non-pure", "auc")
    ]
    found = {row["method"]: row["choices"] for row in mine if row["method"] != "sum"}
    assert found == settings
    (fused,) = (row["value"] for row in mine if row["method"] == "lp")
    assert fused == pytest.approx(auc)
    assert 50 < auc < 100  # neither all nor nothing is found


# What differs from the default, as the guide's table says


def test_the_presets_differ_where_the_guide_says():
    """Scores out of fold or in sample; all frames or some; a scale and p that are fixed or not."""
    clips, features = collection(n_train=4, n_val=2, n_test=2)
    seen = {}

    def spy(learners, **given):
        def method(data):
            seen[preset] = data
            return fusion_methods(learners, **given)["sum"](data)

        return {"spy": method}

    for preset in ("default", "paper"):
        leave_one_manipulation_out(
            clips, features, preset=preset, learners=["gmm"], settings=["pure"], methods=spy
        )
    ours, papers = seen["default"], seen["paper"]
    assert (ours.most_frames, papers.most_frames) == (10_000, None)
    assert ours.training.scores.shape == papers.training.scores.shape
    genuine = [clip for clip in clips if clip.split == "train" and not clip.is_forged]
    X = StandardScaler().fit_transform(frames(genuine, features, "azimuthal/face"))
    mixture = GMMDetector(3, score_type="mahalanobis", random_state=0).fit(X)
    in_sample = np.sort(mixture.score_samples(X))
    np.testing.assert_allclose(np.sort(papers.training.scores[:, 0]), in_sample)
    assert not np.allclose(np.sort(ours.training.scores[:, 0]), in_sample)
    names = ["gmm: azimuthal/face"]
    given = {"with_forgeries": True, "validated": True}
    assert list(paper_methods(names, **given)) == list(fusion_methods(names, **given))
    lp = paper_methods(names, **given)["lp"]
    assert lp.scale == {"feature_range": (0, 1), "clip": False}
    assert [column["p"] for column in lp.columns] == list(PAPER_GRID)


def test_all_frames_teach_where_no_number_is_given():
    rng = np.random.default_rng(0)
    videos = ScoredVideos(rng.normal(size=(30, 2)), np.arange(30), np.repeat([1.0, -1.0], 15))
    S, y = LearningData(videos, most_frames=None).frames
    assert S.shape == (30, 2)
    assert list(y) == list(videos.labels)


def results_by_kind(features):
    rows = run(hard()[0], features, learners=["kpca", "gmm"], settings=["non-pure"])
    return {
        kind: [(row["value"], row.get("choices")) for row in rows if row["kind"] == kind]
        for kind in KINDS
    }


@cache
def untouched_results():
    return results_by_kind(hard()[1])


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_what_is_left_out_reaches_nothing_but_its_test(split):
    clips, features = hard()
    spoilt = [clip for clip in clips if clip.kind == "warped" and clip.split == split]
    before, after = untouched_results(), results_by_kind(garbage(features, spoilt))
    changed = {kind for kind in KINDS if before[kind] != after[kind]}
    assert changed <= ({"warped"} if split == "test" else set(KINDS[:2]))
    assert changed


# What is told, and what is refused


def test_readers_are_told_how_far_it_is_the_papers_experiment():
    told = paper_rows()[0]["warnings"]
    assert told[0].startswith(
        "Settings as published: 51 for the learners on each of 2 feature sets, fitted to 32 "
        "genuine training frames; "
    )
    assert told[1] == f"Left out of the paper's nine feature sets: {', '.join(PAPER_SETS)}."
    assert told[2] == "Not among the paper's feature sets: azimuthal/face, azimuthal/mouth."
    assert len(told) == 3


def test_progress_counts_fits_clips_and_kinds():
    clips, features = collection(n_train=4, n_val=2, n_test=2)
    seen = []
    run(
        clips,
        features,
        learners=["gmm", "gp"],
        settings=["pure"],
        progress=lambda *at: seen.append(at),
    )
    total = 2 * n_fits(["gmm", "gp"]) + len(clips) + len(KINDS)
    assert seen == [(done, total) for done in range(total + 1)]


def test_features_are_read_set_by_set_and_not_kept():
    clips, features = collection(n_train=4, n_val=2, n_test=2)
    asked = dict.fromkeys(features, 0)

    class OnDemand(dict):
        def __getitem__(self, path):
            asked[path] += 1
            return super().__getitem__(path)

    run(clips, OnDemand(features), learners=["gmm"], settings=["pure"])
    by_use = {(clip.split, clip.is_forged): asked[clip.path] for clip in clips}
    twice, also_for_each_set = 2, 2 + 2
    assert by_use == {
        ("train", False): also_for_each_set,
        ("train", True): twice,
        ("val", False): also_for_each_set,
        ("val", True): also_for_each_set,
        ("test", False): twice,
        ("test", True): twice,
    }


def test_an_unknown_preset():
    with pytest.raises(ValueError, match=r"preset must be one of 'default', 'paper'; got 'seed'"):
        leave_one_manipulation_out(*collection(), preset="seed")
    with pytest.raises(ValueError, match=r"Each of learners must be one of .*'forest'"):
        run(*collection(), learners=["forest"])


def test_without_validation_clips_nothing_can_be_chosen():
    clips, features = collection(n_train=4, n_val=0, n_test=2)
    with pytest.raises(ValueError, match=r"chosen on validation clips.* there are none in valid"):
        LeaveOneManipulationOut(clips, features, preset="paper")
    clips, features = collection(n_train=4, n_val=2, n_test=2, kinds=("swap",))
    with pytest.raises(ValueError, match=r"While swap is left out there are genuine.* swap in val"):
        LeaveOneManipulationOut(clips, features, preset="paper")


def test_clips_must_have_the_same_feature_sets():
    clips, features = collection(n_train=4, n_val=2, n_test=2)
    wide = video("wide", np.zeros((4, 5)), np.zeros((4, 2)))
    with pytest.raises(ValueError, match=r"azimuthal/face \(5 columns\).*Extract all videos with"):
        run(clips, {**features, clips[-1].path: wide})


def test_a_mixture_of_few_rows_is_the_same_in_their_own_space():
    """More columns than rows: the rotation onto the rows' space changes no distance."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(shift, 1, size=(12, 60)) for shift in (0.0, 4.0, -4.0)])
    other = rng.normal(0, 3, size=(20, 60))
    settings = {"score_type": "mahalanobis", "covariance_type": "full", "random_state": 0}
    whole = GMMDetector(3, **settings).fit(X)
    found = WideMixture(GMMDetector(3, **settings)).fit(X)
    for rows in (X, other):
        np.testing.assert_allclose(found.score_samples(rows), whole.score_samples(rows), rtol=1e-6)
    assert found.basis_.shape == (60, 35)
    assert found.mixture.n_features_in_ == 35
    (fitted,) = next(fitted_grid(["gmm"], X, seed=0))
    np.testing.assert_allclose(fitted.scores(other)[:, 0], whole.score_samples(other), rtol=1e-6)
