import numpy as np
import pytest

from helpers.cases import cases
from lpfuse import FusedDetector
from lpfuse_faces._learners import learner_pool

NINE = {
    f"{network}/{region}": width
    for network, width in (("inception", 2048), ("darknet", 1024), ("alexnet", 4096))
    for region in ("face", "mouth", "nose")
}


def test_nine_sets_and_four_algorithms_make_36_learners():
    pool = learner_pool(NINE)
    assert len(pool) == len({name for name, _, _ in pool}) == 36
    assert pool[0][0] == "svdd: inception/face"
    assert pool[-1][0] == "gmm: alexnet/nose"
    covered = [np.arange(3 * 7168)[columns] for _, _, columns in pool[::4]]
    np.testing.assert_array_equal(np.concatenate(covered), np.arange(3 * 7168))
    assert all(columns == pool[k - k % 4][2] for k, (_, _, columns) in enumerate(pool))


def test_learners_can_be_chosen_and_others_are_refused():
    assert [name for name, _, _ in learner_pool({"a/b": 3}, ["gmm", "gp"])] == [
        "gmm: a/b",
        "gp: a/b",
    ]
    with pytest.raises(ValueError, match="svdd"):
        learner_pool({"a/b": 3}, ["forest"])


def test_kernels_of_many_frames_are_approximated():
    def approximations(n):
        return [pipeline[-1].approximation for _, pipeline, _ in learner_pool({"a/b": 3}, n=n)[:3]]

    assert approximations(None) == approximations(1_500) == [None] * 3
    assert approximations(1_501) == ["nystroem"] * 3


@pytest.mark.parametrize("shape", [(14, 300), (200, 6), (40, 1)])
def test_wide_narrow_and_small_tables_can_be_learnt_from(shape):
    """Fewer frames than columns, as of networks; few columns; a single one."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(shape[0], 3)) @ rng.normal(size=(3, shape[1]))).astype(np.float32)
    X += 0.1 * rng.normal(size=shape).astype(np.float32)
    fused = FusedDetector(
        learner_pool({"a/b": shape[1]}), cv=3, false_alarm_rate=0.2, random_state=0
    )
    fused.fit(X)
    far = fused.detector_scores(X + 10.0)
    assert (np.median(fused.detector_scores(X), axis=0) > np.median(far, axis=0)).all()


def test_kernel_learners_share_the_preparation():
    """They are then fitted together: the kernel's work is done once."""
    fused = FusedDetector(learner_pool({"a/b": 20}), cv=2, random_state=0)
    fused.fit(np.random.default_rng(0).normal(size=(40, 20)))
    heads = [tuple(id(step) for step in pipeline[:2]) for _, pipeline, _ in fused.detectors_]
    assert len(set(heads[:3])) == 1
    assert [len(pipeline) for _, pipeline, _ in fused.detectors_] == [3, 3, 3, 4]


@cases(("width", "directions"), [(17, 16), (64, 16), (128, 32), (4096, 64)])
def test_many_columns_are_brought_down_to_their_main_directions(width, directions):
    for _, pipeline, _ in learner_pool({"a/b": width}):
        assert pipeline[1].n_components == directions
    assert [len(pipeline) for _, pipeline, _ in learner_pool({"a/b": 16})] == [2, 2, 2, 3]


def test_the_mixture_sees_directions_of_equal_spread():
    X = np.random.default_rng(0).normal(size=(90, 30)) * np.geomspace(1, 50, 30)
    pipeline = (
        learner_pool({"a/b": 30}, ["gmm"])[0][1].set_params(truncatedsvd__random_state=0).fit(X)
    )
    np.testing.assert_allclose(pipeline[:-1].transform(X).std(axis=0), 1, rtol=1e-6)
