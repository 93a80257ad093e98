"""Methods that choose on validation, against loops that try everything."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from lpfuse import FixedRule, LpFusion, TwoSidedMinMax
from lpfuse.ensemble.components import default_fusion
from lpfuse.fusion import BestSingle
from lpfuse.metrics import best_g_mean
from research.common.protocol import SETTINGS
from research.paper import methods
from research.paper.learners import LEARNERS, in_sample_tables
from research.paper.methods import PAPER_PRESET, Preset, best_single, fusion, lp, single
from research.paper.ours import OUR_PRESET
from research.paper.pooled import pooled
from research.tests.small import (
    THIN,
    easy_training,
    exact_auc,
    plant_saplings,
    small_split,
    small_training,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of widths far from the data
PROBE = np.random.default_rng(1).normal(size=(15, 2))
RHOS = (1.0, 10.0, 40.0)
CASES = [(setting, seed) for setting in SETTINGS for seed in (0, 1)]


@pytest.fixture(params=CASES, ids=str)
def training(request):
    setting, seed = request.param
    return small_training(setting, protocol=replace(THIN, rhos=RHOS), seed=seed)


def teaching(training, rho, feature_range=(0, 1), clip=False):
    """What the paper's preset teaches: scaled in-sample scores, their labels, and the scaling."""
    tables = in_sample_tables(training)
    scaler = TwoSidedMinMax(rho, feature_range, clip).fit(tables.normals)
    S = scaler.transform(np.vstack([tables.normals, tables.labelled]))
    y = np.repeat([1, -1], [len(tables.normals), len(tables.labelled)])
    return S, y, lambda X: scaler.transform(tables.score(X))


def naive(training, makes, rhos=RHOS):
    """Every ρ with every estimator; the first ρ and the last estimator of the best."""
    best = None
    for rho in rhos:
        S, y, scaled = teaching(training, rho)
        tried = []
        for name, make in makes.items():
            fused = make().fit(S, y if len(training.labelled) else None)
            scores = fused.score_samples(scaled(training.validation))
            tried.append((exact_auc(training.labels, scores), name, fused, scores))
        top = max(auc for auc, *_ in tried)
        auc, name, fused, scores = [each for each in tried if each[0] == top][-1]
        if best is None or auc > best[0]:
            best = auc, rho, name, fused, scores, scaled
    _, rho, name, fused, scores, scaled = best
    return rho, name, fused.score_samples(scaled(PROBE)), best_g_mean(training.labels, scores)[1]


# -------------------------------------------------------------------------------------- single ones


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_single_learner(training, learner):
    tables = in_sample_tables(training)
    j = LEARNERS.index(learner)
    fitted = single(learner)(training)
    np.testing.assert_array_equal(fitted.score(PROBE), tables.score(PROBE)[:, j])
    assert fitted.offset == best_g_mean(training.labels, tables.validation[:, j])[1]
    settings = {key for key in tables.settings if key.split()[0] == learner}
    assert fitted.choices == {key: tables.settings[key] for key in settings}


def test_the_best_single_learner_is_best_on_validation(training):
    tables = in_sample_tables(training)
    aucs = [exact_auc(training.labels, column) for column in tables.validation.T]
    learner = LEARNERS[aucs.index(max(aucs))]
    fitted = best_single()(training)
    alone = single(learner)(training)
    assert fitted.choices == {"learner": learner, **alone.choices}
    assert fitted.offset == alone.offset
    np.testing.assert_array_equal(fitted.score(PROBE), alone.score(PROBE))


def test_cases_differ_in_their_best_learner():
    """Or the test above would compare constants."""
    found = {best_single()(small_training(seed=seed)).choices["learner"] for seed in range(5)}
    assert len(found) > 1


def test_of_equal_learners_the_first():
    assert best_single()(easy_training()).choices["learner"] == LEARNERS[0]


# ------------------------------------------------------------------------------------------- fusion


@pytest.mark.parametrize("rule", ["sum", "max", "vote", "product"])
def test_a_fusion_is_that_of_a_loop_over_rho(training, rule):
    fitted = fusion(lambda seed: FixedRule(rule))(training)
    rho, _, scores, offset = naive(training, {rule: lambda: FixedRule(rule)})
    assert fitted.choices == {"rho": rho}
    np.testing.assert_allclose(fitted.score(PROBE), scores, rtol=1e-9)
    assert fitted.offset == pytest.approx(offset, rel=1e-9)


def test_labels_teach_a_fusion_where_there_are_some():
    for setting in SETTINGS:
        training = small_training(setting)
        fitted = fusion(lambda seed: BestSingle())(training)
        rho, _, scores, _ = naive(training, {"": BestSingle}, THIN.rhos)
        assert fitted.choices == {"rho": rho}
        np.testing.assert_allclose(fitted.score(PROBE), scores)


def test_settings_are_chosen_on_validation_with_rho(training):
    rules = ("max", "min", "median")
    method = fusion(lambda seed, rule: FixedRule(rule), settings=[{"rule": rule} for rule in rules])
    rho, rule, scores, _ = naive(
        training, {rule: lambda rule=rule: FixedRule(rule) for rule in rules}
    )
    fitted = method(training)
    assert fitted.choices == {"rho": rho, "rule": rule}
    np.testing.assert_allclose(fitted.score(PROBE), scores)


def test_detectors_are_asked_on_the_scale_of_their_scores(training):
    asked = []

    class Asking(FixedRule):
        needs_scorer = True

        def fit(self, S, y=None, ask=None):
            asked.append(ask(PROBE))
            return super().fit(S, y)

    fusion(lambda seed: Asking("sum"))(training)
    for found, rho in zip(asked, RHOS, strict=True):
        np.testing.assert_allclose(found, teaching(training, rho)[2](PROBE))


def test_of_equals_the_first_rho():
    for rhos in ((1.0, 10.0), (10.0, 1.0)):
        training = easy_training(protocol=replace(THIN, rhos=rhos))
        assert fusion(lambda seed: FixedRule("sum"))(training).choices == {"rho": rhos[0]}


class Watcher:
    """Remembers what it is given."""

    uses_features = True

    def __init__(self, seed):
        self.seed = seed
        self.seen = []

    def fit(self, S, y=None, X=None):
        self.learnt = S, y, X
        return self

    def score_samples(self, S, X):
        self.seen.append(X)
        return S.sum(axis=1)


def test_who_uses_features_is_given_them(training):
    made = []
    fitted = fusion(lambda seed: made.append(Watcher(seed)) or made[-1])(training)
    assert len(made) == len(RHOS)
    for watcher, rho in zip(made, RHOS, strict=True):
        assert watcher.seed == training.seed
        S, y, X = watcher.learnt
        np.testing.assert_array_equal(X, np.vstack([training.normals, training.labelled]))
        by_hand, labels, _ = teaching(training, rho)
        np.testing.assert_allclose(S, by_hand, rtol=1e-9)
        assert (y is None) if training.is_pure else (y == labels).all()
        np.testing.assert_array_equal(watcher.seen[0], training.validation)
    fitted.score(PROBE)
    chosen = made[RHOS.index(fitted.choices["rho"])]
    np.testing.assert_array_equal(chosen.seen[-1], PROBE)


def test_who_does_not_use_features_is_spared_them():
    training = small_training()
    fitted = fusion(lambda seed: BestSingle())(training)
    assert np.isfinite(fitted.score(PROBE)).all()


# ----------------------------------------------------------------------------------------------- ℓp


@pytest.mark.parametrize("loss", ["hinge", "least_squares"])
def test_lp_is_that_of_a_loop_over_rho_and_p(training, loss):
    fitted = lp(loss=loss)(training)
    makes = {p: lambda p=p: LpFusion(p, loss=loss) for p in THIN.ps}
    rho, p, scores, offset = naive(training, makes)
    assert fitted.choices == {"rho": rho, "p": p}
    np.testing.assert_allclose(fitted.score(PROBE), scores, rtol=1e-4)
    assert fitted.offset == pytest.approx(offset, rel=1e-4)


def test_cases_differ_in_their_best_rho_and_p():
    """Or the loop above would compare constants."""
    protocol = replace(THIN, rhos=RHOS)
    chosen = [
        lp()(small_training(setting, protocol=protocol, seed=seed)).choices
        for setting in SETTINGS
        for seed in range(4)
    ]
    assert len({choice["rho"] for choice in chosen}) > 1
    assert len({choice["p"] for choice in chosen}) > 1


@pytest.mark.parametrize("p", [2.0, inf, 100.0, 3.0])
def test_a_single_p_is_that_p(training, p):
    """3 is neither in the grid nor ℓ2 nor ℓ∞."""
    fitted = lp([p])(training)
    rho, _, scores, _ = naive(training, {p: lambda: LpFusion(p)})
    assert fitted.choices == {"rho": rho, "p": p}
    np.testing.assert_allclose(fitted.score(PROBE), scores, rtol=1e-4)


def test_of_equals_the_largest_p_and_the_first_rho():
    for setting in SETTINGS:
        assert lp()(easy_training(setting)).choices == {"rho": THIN.rhos[0], "p": 100.0}


def test_all_p_come_from_one_path(monkeypatch):
    solved = []
    path = methods.lp_path
    monkeypatch.setattr(
        methods, "lp_path", lambda S, y, **given: solved.append(given) or path(S, y, **given)
    )
    parts = small_split()
    for setting in SETTINGS:
        for method in (lp(), lp([2.0]), lp([inf]), lp([32 / 31])):
            method(parts.training(setting))
        assert len(solved) == len(THIN.rhos)
        assert {tuple(given["ps"]) for given in solved} == {(32 / 31, 2.0, 100.0, inf)}
        solved.clear()
    lp(loss="least_squares")(parts.training("pure"))
    assert [given["loss"] for given in solved] == ["least_squares"] * len(THIN.rhos)


# ------------------------------------------------------------------------------------------ presets


def test_the_published_scale_is_0_to_1_and_unclipped():
    training = small_training()
    seen = []
    fusion(lambda seed: seen.append(Watcher(seed)) or seen[-1])(training)
    tables = in_sample_tables(training)
    for watcher, rho in zip(seen, THIN.rhos, strict=True):
        low, high = np.percentile(tables.normals, [rho / 2, 100 - rho / 2], axis=0)
        by_hand = (tables.normals - low) / (high - low)
        np.testing.assert_allclose(watcher.learnt[0], by_hand, rtol=1e-9)
        assert by_hand.min() < 0 < 1 < by_hand.max()


def test_the_published_weights_have_free_signs_and_no_intercept():
    assert PAPER_PRESET.fusion == {}
    assert LpFusion().class_weight is None
    assert not LpFusion().fit_intercept
    assert not LpFusion().nonnegative


@pytest.mark.parametrize("setting", SETTINGS)
def test_our_scores_are_the_out_of_fold_pool_scores(setting, monkeypatch):
    plant_saplings(monkeypatch)
    training = small_training(setting)
    tables = OUR_PRESET.tables_of(training)
    pool = pooled(training.normals, training.labelled, seed=training.seed)
    assert tuple(tables.names) == pool.names
    assert ("trees" in tables.names) == (setting == "non-pure")
    np.testing.assert_array_equal(tables.normals, pool.normals)
    np.testing.assert_array_equal(tables.labelled, pool.labelled)
    np.testing.assert_array_equal(tables.validation, pool.score(training.validation))
    np.testing.assert_array_equal(tables.score(PROBE), pool.score(PROBE))


def test_our_weights_differ_from_the_default_in_p_and_loss():
    assert OUR_PRESET.scaler == {}
    ours = LpFusion(4.0, **OUR_PRESET.fusion).get_params()
    assert ours == default_fusion().get_params()
    assert not {"p", "loss"} & OUR_PRESET.fusion.keys()


def test_tables_are_made_once_a_setting():
    made = []
    preset = Preset("mine", lambda training: made.append(training) or in_sample_tables(training))
    parts = small_split()
    for _ in range(2):
        for setting in SETTINGS:
            fusion(lambda seed: FixedRule("sum"), preset)(parts.training(setting))
    assert [training.is_pure for training in made] == [True, False]
