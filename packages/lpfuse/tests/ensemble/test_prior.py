"""Prior weights: the file of them, those of users, and how far labelled rows lead away."""

import json
from importlib.resources import files

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from helpers.model_files import members_of, write_members
from helpers.pools import Distance, both, normal_rows
from lpfuse import FusedDetector, GMMDetector, OneClassGP, TwoSidedMinMax
from lpfuse.ensemble.calibration import OutOfFoldScores
from lpfuse.ensemble.components import default_detectors, default_fusion
from lpfuse.ensemble.defaults import (
    FEW,
    ROBUST,
    _placements,
    learnt_prior,
    prior_fusion,
    prior_of_tables,
    scale_for,
)
from lpfuse.io import load, save

NEAR, FAR, ALL = ("near", Distance(), [0, 1]), ("far", Distance(), [2, 3]), ("all", Distance())
POOL = [NEAR, FAR, ALL]
EXPERT = ("expert", LogisticRegression())
X, Y = both(60, 10)
ROWS = learnt_prior()["weights"]


def name_of(row):
    return f"{row['scale']} {row['labels']}"


def trained(prior, y=Y, pool=POOL, **options):
    return FusedDetector(pool, prior=prior, random_state=0, **options).fit(X, y)


# ------------------------------------------------------------------------------------- the file


def test_the_file_is_complete():
    text = files("lpfuse.ensemble").joinpath("prior.json").read_text(encoding="utf-8")
    found = json.loads(text)
    assert found == learnt_prior()
    assert (found["version"], found["made_by"]) == (3, "python -m research.studies.tables prior")
    tail, two_sided = (counts_on(scale) for scale in ("tail", "two-sided"))
    assert len(tail) + len(two_sided) == len(found["weights"])
    assert tail[0] == 0
    assert tail[-1] == two_sided[0] == FEW  # each scale has weights for its numbers of labels
    assert tail == sorted(set(tail))
    assert two_sided == sorted(set(two_sided))


def counts_on(scale):
    return [row["labels"] for row in ROWS if row["scale"] == scale]


def test_each_number_of_labels_has_a_scale():
    assert [scale_for(n) for n in (0, 1, FEW - 1)] == ["tail"] * 3
    assert [scale_for(n) for n in (FEW, 100)] == ["two-sided"] * 2


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_each_of_its_rows_weighs_the_default_pool(row):
    pool = [name for name, _ in default_detectors(300, row["labels"])]
    assert list(row["weights"]) == pool
    weights = np.array(list(row["weights"].values()))
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1, abs=5e-4 * len(pool))  # of four digits


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_prior_at_stored_label_counts_is_the_file(row):
    if scale_for(row["labels"]) != row["scale"]:
        row = next(r for r in ROWS if (r["labels"], r["scale"]) == (FEW, "two-sided"))
    found = prior_of_tables(list(row["weights"]), row["labels"])
    total = sum(row["weights"].values())
    assert found == pytest.approx({name: w / total for name, w in row["weights"].items()})
    assert sum(found.values()) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("n", [1, FEW - 1, FEW + 1, 10, 19])
def test_between_two_numbers_of_labels_they_are_linear(n):
    """On the scale of that number; from `FEW` on in the logarithm."""
    rows = [row for row in ROWS if row["scale"] == scale_for(n)]
    few = max((row for row in rows if row["labels"] <= n), key=lambda row: row["labels"])
    more = min((row for row in rows if row["labels"] > n), key=lambda row: row["labels"])
    names = list(more["weights"])
    start, here, end = few["labels"], n, more["labels"]
    if n >= FEW:
        start, here, end = np.log([1 + start, 1 + here, 1 + end])
    share = (here - start) / (end - start)
    wanted = {
        name: (1 - share) * few["weights"].get(name, 0.0) + share * more["weights"][name]
        for name in names
    }
    total = sum(wanted.values())
    found = prior_of_tables(names, n)
    assert found == pytest.approx({name: weight / total for name, weight in wanted.items()})


def test_beyond_the_last_number_they_are_constant():
    names = list(ROWS[-1]["weights"])
    assert prior_of_tables(names, 100_000) == prior_of_tables(names, ROWS[-1]["labels"])


def test_prior_of_absent_detectors_goes_to_the_others():
    names = list(ROWS[-1]["weights"])
    whole, part = prior_of_tables(names, 7), prior_of_tables(names[:-1], 7)
    grown = {name: whole[name] / (1 - whole[names[-1]]) for name in names[:-1]}
    assert part == pytest.approx(grown)


def test_nothing_was_learnt_of_another_pool():
    assert prior_of_tables(["svdd", "gp", "lof"], 5) is None


SUSPECTED = learnt_prior()["suspected"]
ONE_CLASS = list(ROWS[0]["weights"])


@pytest.mark.parametrize("labels", [0, 5, 20])
@pytest.mark.parametrize("row", SUSPECTED, ids=lambda row: str(row["share"]))
def test_robust_detectors_take_their_part_of_the_one_class_weight(row, labels):
    base = prior_of_tables(list(ROWS[-1]["weights"])[: 6 if labels == 0 else None], labels)
    found = prior_of_tables([*base, *ROBUST], labels, row["share"])
    assert sum(found.values()) == pytest.approx(1, abs=1e-12)
    mass = sum(base[name] for name in ONE_CLASS)
    left = 1 - sum(row["weights"].values())
    for name, weight in base.items():
        assert found[name] == pytest.approx(weight * (left if name in ONE_CLASS else 1))
    for name, part in row["weights"].items():
        assert found[name] == pytest.approx(mass * part)


def test_between_two_shares_of_hidden_anomalies_parts_are_linear():
    names = [*ONE_CLASS, *ROBUST]
    low, middle, high = (prior_of_tables(names, 0, share) for share in (0.05, 0.075, 0.1))
    for name in names:
        assert middle[name] == pytest.approx((low[name] + high[name]) / 2)
    assert prior_of_tables(names, 0, 0.0)["lof"] == 0
    assert prior_of_tables(names, 0, 0.4) == high


# --------------------------------------------------------------------------------- without labels


def test_without_labels_the_default_weights_are_those_of_the_file():
    fused = FusedDetector(random_state=0).fit(normal_rows(50), np.ones(50))
    wanted = prior_of_tables(fused.detector_names_, 0)
    assert fused.weights_.tolist() == list(wanted.values())
    assert fused.fusion_.radius == 0
    assert fused.certificate_.status == "optimal"


@pytest.mark.parametrize("y", [None, np.ones(len(X)), np.zeros(len(X))])
def test_without_labels_they_are_those_of_the_user(y):
    fused = trained({"near": 3, "far": 1}, y=y)
    assert fused.weights_.tolist() == [0.75, 0.25, 0.0]
    assert fused.fusion_.radius == 0
    assert fused.certificate_.status == "optimal"


# -------------------------------------------------------------------------------- those of a user


def test_prior_arrays_follow_the_order_of_detectors():
    by_name = trained({"near": 1, "far": 2, "all": 3})
    np.testing.assert_array_equal(trained([1, 2, 3]).weights_, by_name.weights_)
    large = trained(np.array([10, 20, 30])).fusion_.prior
    np.testing.assert_allclose(large, [1 / 6, 1 / 3, 1 / 2], rtol=1e-12)


def test_the_order_of_detectors_is_not_that_of_the_weights():
    expert_first = trained([2, 1, 1], pool=[EXPERT, NEAR, FAR])
    assert expert_first.detector_names_ == ["near", "far", "expert"]
    assert expert_first.fusion_.prior.tolist() == [0.25, 0.25, 0.5]


def test_prior_of_left_out_experts_goes_to_others():
    with pytest.warns(UserWarning, match="'expert' are left out"):
        fused = trained([2, 3, 1], y=None, pool=[EXPERT, NEAR, FAR])
    assert fused.weights_.tolist() == [0.75, 0.25]
    with (
        pytest.warns(UserWarning, match="'expert' are left out"),
        pytest.raises(ValueError, match="zero for all detectors that there are, 'near', 'far'"),
    ):
        trained([2, 0, 0], y=None, pool=[EXPERT, NEAR, FAR])


def test_experts_see_equal_weights_without_one_class_prior():
    fused = trained({"expert": 1}, pool=[NEAR, FAR, EXPERT])
    assert fused.fusion_.prior.tolist() == [0, 0, 1]
    assert fused.pool_.score_weights.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ("x", r"prior must be one of 'tables'; got 'x'"),
        ({"narr": 1}, r"weight for none .* names \['narr'\], the columns are \['near', 'far'"),
        ({}, r"weight for none"),
        ({"near": -1, "far": 2}, r"negative weight, -1"),
        ([1, 2], r"prior has 2 weights, but there are 3"),
        ([[1], [2], [3]], r"got shape \(3, 1\)"),
        (1.0, r"got shape \(\)"),
        ([0, 0, 0], r"zero for all detectors .* use prior=None"),
        ([1, np.nan, 1], r"1 of 3 are NaN"),
        ({"near": np.inf}, r"finite weights of at most 1e\+09, got inf"),
    ],
)
def test_what_cannot_be_a_prior(prior, message):
    with pytest.raises(ValueError, match=message):
        trained(prior)


@pytest.mark.filterwarnings("ignore:Many weights are equally good")
@pytest.mark.parametrize("y", [None, Y])
def test_without_a_prior_the_fusion_is_the_default_one(y):
    wanted = trained("tables", y=y, fusion=default_fusion())
    for prior in (None, "tables"):  # tables say nothing of detectors of users
        found = trained(prior, y=y)
        assert repr(found.fusion_) == repr(default_fusion())
        np.testing.assert_array_equal(found.weights_, wanted.weights_)


# ------------------------------------------------------------------------------------ the radius


def out_of_fold(seed, gain, R=4, n=300, n_anomalies=30):
    """The first scores tell anomalies, by `gain` standard deviations; the others tell nothing."""
    rng = np.random.default_rng(seed)
    S, y = rng.normal(size=(n, R)), np.ones(n)
    y[rng.choice(n, n_anomalies, replace=False)] = -1
    S[y < 0, 0] -= gain
    return OutOfFoldScores(S, y, rng.permutation(n) % 5, y, None)


def fusion_for(scores):
    uniform = dict.fromkeys("abcd", 0.25)
    return prior_fusion(uniform, scores, TwoSidedMinMax())


def test_labels_that_are_noise_leave_the_prior_alone():
    radii = [fusion_for(out_of_fold(seed, gain=0.0)).radius for seed in range(10)]
    assert radii.count(0.0) > 5


def test_a_detector_that_is_clearly_better_leads_away():
    for seed in range(5):
        scores = out_of_fold(seed, gain=3.0)
        fusion = fusion_for(scores)
        assert fusion.radius > 0
        S = TwoSidedMinMax().fit(scores.scores[scores.labels > 0]).transform(scores.scores)
        weights = fusion.fit(S, scores.labels).weights_
        assert np.argmax(weights) == 0
        assert np.linalg.norm(weights - 0.25) <= fusion.radius * (1 + 1e-9)
        assert (weights >= 0).all()


@pytest.mark.parametrize("n_anomalies", [0, 1, 2, 4])
def test_too_few_anomalies_to_hold_out_leave_the_prior_alone(n_anomalies):
    assert fusion_for(out_of_fold(0, gain=9.0, n_anomalies=n_anomalies)).radius == 0


def test_rows_that_teach_nothing_have_no_say():
    """Unlabelled rows, and rows that a detector is silent of."""
    scores = out_of_fold(0, gain=3.0)
    more = out_of_fold(1, gain=-9.0)
    more.labels[::2], more.scores[1::2, 1] = 0, np.nan
    pairs = [
        (getattr(scores, name), getattr(more, name))
        for name in ("scores", "labels", "fold", "truth")
    ]
    both_of_them = OutOfFoldScores(*map(np.concatenate, pairs), None)
    assert fusion_for(both_of_them).radius == fusion_for(scores).radius


def test_placements_are_those_of_a_loop():
    scores = out_of_fold(2, gain=1.0, n=60, n_anomalies=7)
    scores.scores[:] = np.round(scores.scores)  # ties
    scores.scores[3, 1] = np.nan
    scores.labels[5] = 0
    fusion = fusion_for(scores).set_params(radius=0.3)
    wanted = []
    for number in range(5):
        usable = [i for i in range(60) if scores.labels[i] and not np.isnan(scores.scores[i]).any()]
        rest = [i for i in usable if scores.fold[i] != number]
        inside = [i for i in usable if scores.fold[i] == number]
        scaler = TwoSidedMinMax().fit([scores.scores[i] for i in rest if scores.labels[i] > 0])
        fusion.fit(scaler.transform(scores.scores[rest]), scores.labels[rest])
        fused = {i: fusion.score_samples(scaler.transform(scores.scores[[i]]))[0] for i in inside}
        normal = [i for i in inside if scores.labels[i] > 0]
        for i in inside:
            if scores.labels[i] < 0:
                higher = [(fused[k] > fused[i]) + (fused[k] == fused[i]) / 2 for k in normal]
                wanted.append(sum(higher) / len(normal))
    found = _placements(fusion, scores, TwoSidedMinMax())
    np.testing.assert_allclose(sorted(found), sorted(wanted), atol=1e-12)
    assert len(found) == (scores.labels[scores.usable] < 0).sum()


# ---------------------------------------------------------------------------------- model files


def test_models_from_before_the_prior_can_be_loaded(tmp_path):
    """Of the default pool of that time, in names of that time."""
    path = tmp_path / "old.lpfuse"
    pool = [("svdd", GMMDetector()), ("gp", OneClassGP()), ("logistic", LogisticRegression())]
    fused = trained(None, pool=pool)
    save(fused, path)
    members = members_of(path.read_bytes())
    manifest = json.loads(members["manifest.json"])
    held = {
        kind: state
        for kind, state in (one["object"] for one in manifest["objects"] if "object" in one)
        if kind in ("FusedDetector", "Pool")
    }
    held["FusedDetector"]["detectors"] = None
    del held["FusedDetector"]["prior"]
    write_members(path, {**members, "manifest.json": json.dumps(manifest)})
    old = load(path)
    np.testing.assert_array_equal(old.score_samples(X), fused.score_samples(X))
    np.testing.assert_array_equal(old.with_fusion(None).weights_, fused.weights_)
