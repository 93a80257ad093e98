"""`LpFusion(groups=, q=)`: norms over families of detectors."""

import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest

from helpers.cases import cases
from lpfuse import FusedDetector, LpFusion, load, lp_path, verify
from lpfuse.io import save

NAMES = ["forest", "trees", "svm", "gp"]
FAMILIES = {"forest": "trees", "trees": "trees", "svm": "kernels", "gp": "kernels"}


@pytest.fixture
def labelled():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(120) < 0.25, -1, 1)
    return y[:, None] * [0.9, 0.8, 0.1, 0.0] + rng.normal(0.0, 0.6, (120, 4)), y


VARIANTS = [
    {"p": 1, "groups": [0, 0, 1, 1]},
    {"p": 2, "q": 1, "groups": ["a", "b", "a", "b"], "nonnegative": True},
    {"p": 4 / 3, "q": 8, "groups": [0, 1, 1, 1], "prior": [0.5, 0.2, 0.1, 0.1], "radius": 0.3},
    {"p": 1, "q": float("inf"), "groups": [0, 0, 1, 1], "loss": "least_squares"},
]


@cases("parameters", VARIANTS)
def test_weights_are_proven_saved_and_verified(labelled, parameters, tmp_path):
    S, y = labelled
    fusion = LpFusion(fit_intercept=True, class_weight="balanced", **parameters).fit(S, y)
    assert fusion.certificate_.status == "optimal"
    found = verify(fusion, S, y)
    assert found.holds
    assert found.relative_gap <= 1e-8
    save(fusion, tmp_path / "model.lpfuse")
    again = load(tmp_path / "model.lpfuse")
    np.testing.assert_array_equal(again.weights_, fusion.weights_)
    assert verify(again, S, y).holds
    again.radius = 0.5 * fusion.radius
    assert not verify(again, S, y).holds


def test_p_1_leaves_out_the_family_that_tells_nothing(labelled):
    S, y = labelled
    fusion = LpFusion(p=1, groups=[0, 0, 1, 1], q=2, nonnegative=True).fit(S, y)
    assert np.abs(fusion.weights_[2:]).max() < 1e-6 < 0.3 < fusion.weights_[:2].min()
    assert np.hypot(*fusion.weights_[:2]) == pytest.approx(1.0, abs=1e-6)
    mixed = LpFusion(p=1, groups=[0, 1, 0, 1], q=2, nonnegative=True).fit(S, y)
    assert mixed.certificate_.primal > fusion.certificate_.primal


def test_q_1_chooses_within_each_family(labelled):
    S, y = labelled
    S = np.column_stack([S[:, 0], S[:, 0] - 0.3 * y, S[:, 1], S[:, 1] - 0.3 * y])
    weights = LpFusion(p=2, groups=[0, 0, 1, 1], q=1, nonnegative=True).fit(S, y).weights_
    assert np.abs(weights[[1, 3]]).max() < 1e-6
    assert weights[[0, 2]].min() > 0.1


def test_families_by_name(labelled):
    S, y = labelled
    frame = pd.DataFrame(S, columns=NAMES)
    named = LpFusion(p=1, groups=FAMILIES).fit(frame, y)
    listed = LpFusion(p=1, groups=["t", "t", "k", "k"]).fit(S, y)
    np.testing.assert_array_equal(named.weights_, listed.weights_)
    assert named.groups_.tolist() == [0, 0, 1, 1]
    assert verify(named, frame, y).holds
    assert LpFusion().fit(S, y).groups_ is None


def test_dask_and_paths_have_groups_too(labelled):
    S, y = labelled
    parameters = {"groups": [0, 0, 1, 1], "q": 4.0}
    blocks = da.from_array(S, chunks=(40, 4)), da.from_array(y, chunks=40)
    in_memory = LpFusion(p=1, **parameters).fit(S, y)
    assert LpFusion(p=1, **parameters).fit(*blocks).certificate_.primal == pytest.approx(
        in_memory.certificate_.primal, rel=2e-8
    )
    path = lp_path(S, y, ps=[1, 2, np.inf], **parameters)
    assert path.certificates[0].primal == pytest.approx(in_memory.certificate_.primal, rel=2e-8)
    assert {c.status for c in path.certificates} == {"optimal"}


def test_blocks_whose_sample_has_no_normal_row_are_fitted():
    """A sample by weight: normal rows without weight are not drawn."""
    rng = np.random.default_rng(0)
    y, weight = np.array([-1.0, -1.0, 1.0]), np.array([1.0, 0.5, 0.0])
    blocks = (da.from_array(a, chunks=1) for a in (rng.normal(size=(3, 2)), y, weight))
    fusion = LpFusion(groups=[0, 1]).fit(*blocks)
    assert fusion.certificate_.status == "optimal"


def test_a_fused_detector_takes_them(tmp_path):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(60, 2)), rng.normal(3.0, 1.0, (10, 2))])
    y = np.repeat([1, -1], [60, 10])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fused = FusedDetector("paper", fusion=LpFusion(p=1, groups=[0, 0, 1, 1]), cv=2).fit(X, y)
    fused.save(tmp_path / "fused.lpfuse")
    assert verify(load(tmp_path / "fused.lpfuse")).holds


@cases(
    "parameters, told",
    [
        ({"groups": [0, 1]}, r"one label for each of 4 columns of scores, got \[0, 1\]"),
        ({"groups": "kernels"}, "one label for each of 4 columns of scores, got 'kernels'"),
        ({"groups": 3}, "one label for each of 4 columns of scores, got 3"),
        ({"groups": FAMILIES}, "the columns of S are without names"),
        ({"groups": [0, 0, 1, 1], "q": 0.5}, r"q must be in \[1, inf\], got 0.5"),
        ({"groups": [0, 0, 1, 1], "prior": [1, 0, 0, 0], "nonnegative": True}, "use nonneg"),
    ],
)
def test_what_is_refused(labelled, parameters, told):
    with pytest.raises(ValueError, match=told):
        LpFusion(**parameters).fit(*labelled)


def test_a_column_without_a_label_is_a_family_of_its_own(labelled):
    S, y = labelled
    frame = pd.DataFrame(S, columns=NAMES)
    fusion = LpFusion(p=1, groups={"forest": "trees", "trees": "trees", "absent": 1}).fit(frame, y)
    assert fusion.groups_.tolist() == [0, 0, 1, 2]
    assert verify(fusion, frame, y).holds
    with pytest.raises(ValueError, match=r"groups names \['a'\], the columns of S are \['forest"):
        LpFusion(groups={"a": 1}).fit(frame, y)


@pytest.mark.parametrize("solver", ["frank-wolfe", "smoothed-frank-wolfe"])
def test_frank_wolfe_stays_in_the_ball(labelled, solver):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for norm in ({"p": 2, "q": 1, "groups": [0, 0, 1, 1]}, {"p": 1, "groups": [0, 0, 1, 1]}):
            fusion = LpFusion(solver=solver, max_iter=300, **norm).fit(*labelled)
            best = LpFusion(**norm).fit(*labelled).certificate_.primal
            assert best <= fusion.certificate_.primal + 1e-8
            assert fusion.certificate_.relative_gap < 0.5
            assert verify(fusion, *labelled).holds
