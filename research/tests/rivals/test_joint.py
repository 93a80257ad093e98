"""Joint problems of all classes: against cvxpy, loops, and the problems that they contain."""

import itertools
import warnings

import cvxpy as cp
import numpy as np
import pytest

from helpers.cases import cases
from lpfuse import LpFusion, verify
from oracles.cvxpy_models import minimise
from research.rivals.joint import FORMS, JointLp, joint_rows

K, J, N = 3, 4, 30
INF = float("inf")
NORMS = [
    {"p": 1.0},
    {"p": 4 / 3, "nonnegative": False},
    {"p": 1.0, "q": 2.0, "groups": "learners"},
    {"p": 2.0, "q": 1.0, "groups": "learners", "nonnegative": False, "radius": 2.0},
    {"p": 1.0, "q": INF, "groups": "classes"},
    {"p": 2.0, "q": 1.0, "groups": "classes", "loss": "least_squares", "nonnegative": False},
    {"p": 4 / 3, "q": 2.0, "groups": "random", "seed": 3},
]


def drawn(seed, n=N, classes=K, experts=J):
    """Experts that know less and less, and classes of different sizes."""
    rng = np.random.default_rng(seed)
    labels = np.minimum(rng.geometric(0.45, n) - 1, classes - 1)
    labels[:classes] = np.arange(classes)
    knows = np.where(labels[:, None] == np.arange(classes), 0.6, -0.4)
    skill = np.linspace(1.0, 0.0, experts)
    return knows[:, :, None] * skill + rng.normal(0.0, 0.5, (n, classes, experts)), labels


def seen(row, k, form):
    """What class k fuses of the scores of a row."""
    return row.ravel() if form == "crossed margins" else row[k]


def terms(profile, labels, form, W):
    """The argument 1 − … of every loss, by loops over rows and classes; W may be an expression."""
    for i, (row, y) in enumerate(zip(profile, labels, strict=True)):
        fused = [W[k] @ seen(row, k, form) for k in range(len(row))]
        for k in range(len(row)):
            if form == "one against all":
                yield i, 1 - (1 if k == y else -1) * fused[k]
            elif k != y and y >= 0:
                yield i, 1 - fused[y] + fused[k]


def families(joint, W):
    """The weights of each family; W may be an expression."""
    classes, experts = W.shape
    if joint.groups == "learners":
        return [[W[k, j] for k in range(classes)] for j in range(experts)]
    if joint.groups == "classes":
        return [[W[k, j] for j in range(experts)] for k in range(classes)]
    numbers = joint.fusion_.groups_  # the draw itself is tested below
    return [
        [W[divmod(int(place), experts)] for place in np.flatnonzero(numbers == number)]
        for number in range(max(numbers) + 1)
    ]


def best_value(joint, profile, labels, costs):
    """The optimum of the joint problem as one would state it, by CLARABEL."""
    told = joint.fusion_.get_params()
    classes, experts = joint.weights_.shape
    nonnegative = told["nonnegative"]
    if joint.form == "shared margins":
        w = cp.Variable(experts, nonneg=nonnegative)
        W, norm = [w] * classes, cp.norm(w, told["p"])
    else:
        W = cp.Variable((classes, experts), nonneg=nonnegative)
        if joint.groups is None:
            norm = cp.norm(cp.hstack([W[k] for k in range(classes)]), told["p"])
        else:
            parts = [cp.norm(cp.hstack(part), told["q"]) for part in families(joint, W)]
            norm = cp.norm(cp.hstack(parts), told["p"])
    loss = cp.pos if told["loss"] == "hinge" else cp.square
    total = sum(costs[i] * loss(r) for i, r in terms(profile, labels, joint.form, W))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = cp.Problem(cp.Minimize(total), [norm <= told["radius"]])
        minimise(model.objective.args[0], model.constraints)
    return joint_value(joint, profile, labels, costs, _inside(joint, W, told))


def _inside(joint, W, told):
    """The oracle's weights, scaled into the ball by the norm of the definition."""
    found = np.array([np.asarray(w.value) for w in W])
    found = np.maximum(found, 0.0) if told["nonnegative"] else found
    return found / max(1.0, norm_of(joint, found) / told["radius"])


def norm_of(joint, W):
    told = joint.fusion_.get_params()
    if joint.form == "shared margins":
        return np.linalg.norm(W[0], told["p"])
    if joint.groups is None:
        return np.linalg.norm(W.ravel(), told["p"])
    parts = [np.linalg.norm(part, told["q"]) for part in families(joint, W)]
    return np.linalg.norm(parts, told["p"])


def joint_value(joint, profile, labels, costs, W):
    square = joint.fusion_.loss == "least_squares"
    return sum(
        costs[i] * (r * r if square else max(0.0, r))
        for i, r in terms(profile, labels, joint.form, W)
    )


def fitted(form, norm, seed):
    profile, labels = drawn(seed)
    costs = np.random.default_rng(seed).uniform(0.5, 2.0, len(labels))
    return JointLp(form, **norm).fit(profile, labels, None, costs), profile, labels, costs


@cases("form", FORMS)
@pytest.mark.parametrize("norm", NORMS, ids=str)
def test_the_optimum_is_that_of_cvxpy_within_1e_8(form, norm):
    joint, profile, labels, costs = fitted(form, norm, seed=len(str(norm)))
    certificate = joint.certificate_
    assert certificate.status == "optimal"
    # The value is that of the definition, and the weights are in the ball of the definition.
    value = joint_value(joint, profile, labels, costs, joint.weights_)
    assert certificate.primal == pytest.approx(value, rel=1e-12)
    assert norm_of(joint, joint.weights_) <= joint.fusion_.radius * (1 + 1e-12)
    best = best_value(joint, profile, labels, costs)
    assert certificate.dual <= best * (1 + 1e-12)
    assert best == pytest.approx(value, rel=1e-8)


@cases("form", FORMS)
@pytest.mark.parametrize("norm", NORMS, ids=str)
def test_the_dual_bound_by_its_formula(form, norm):
    """Σ c gain(α) − r‖Σ c α a‖_*, the norm of conjugate exponents, bounds the value anywhere."""
    joint, profile, labels, costs = fitted(form, norm, seed=5)
    told, alpha = joint.fusion_.get_params(), joint.certificate_.alpha
    classes, experts = joint.weights_.shape
    V, gain = np.zeros((classes, experts)), 0.0
    pairs = [
        (i, k)
        for i, k in itertools.product(range(len(labels)), range(classes))
        if form == "one against all" or k != labels[i]
    ]
    if alpha is None:  # least squares: the slopes at weights that may lie outside the ball
        outside = joint.certificate_.dual_weights.reshape(-1, experts)
        W = np.broadcast_to(outside, (classes, experts))
        alpha = [2 * r for _, r in terms(profile, labels, form, W)]
    for a, (i, k) in zip(alpha, pairs, strict=True):
        y = labels[i]
        gain += costs[i] * (a if told["loss"] == "hinge" else a - a * a / 4)
        if form == "one against all":
            V[k] += costs[i] * a * (1 if k == y else -1) * profile[i, k]
        else:
            V[y] += costs[i] * a * seen(profile[i], y, form)
            V[k] -= costs[i] * a * seen(profile[i], k, form)
    V = V.sum(axis=0, keepdims=True) if form == "shared margins" else V
    V = np.maximum(V, 0.0) if told["nonnegative"] else V
    p, q = (1.0 if x == INF else INF if x == 1.0 else x / (x - 1.0) for x in (told["p"], told["q"]))
    if form == "shared margins" or joint.groups is None:
        pull = np.linalg.norm(V.ravel(), p)
    else:
        pull = np.linalg.norm([np.linalg.norm(part, q) for part in families(joint, V)], p)
    bound = gain - told["radius"] * pull
    assert joint.certificate_.dual == pytest.approx(max(bound, 0.0), rel=1e-9, abs=1e-9)
    rng = np.random.default_rng(0)
    for _ in range(20):
        W = rng.normal(size=(1 if form == "shared margins" else classes, experts))
        W = np.abs(W) if told["nonnegative"] else W
        W = np.broadcast_to(W, (classes, experts)) * (told["radius"] / norm_of(joint, W))
        assert joint_value(joint, profile, labels, costs, W) >= bound - 1e-9


@cases("form", FORMS)
def test_the_independent_checker_agrees_and_refuses_other_weights(form):
    joint, profile, labels, costs = fitted(form, {"p": 4 / 3, "groups": "learners"}, seed=1)
    rows = joint_rows(profile, labels, form)
    assert verify(joint.fusion_, rows.scores, rows.labels, costs[rows.row]).holds
    joint.fusion_.weights_ = 1.1 * joint.fusion_.weights_
    assert not verify(joint.fusion_, rows.scores, rows.labels, costs[rows.row]).holds


@cases("form", FORMS)
@cases("groups", [None, "learners", "classes"])
def test_classes_in_another_order_have_the_same_weights(form, groups):
    profile, labels = drawn(7)
    order = np.array([2, 0, 1])
    here = JointLp(form, groups=groups).fit(profile, labels)
    there = JointLp(form, groups=groups).fit(profile[:, order], np.argsort(order)[labels])
    assert there.certificate_.primal == pytest.approx(here.certificate_.primal, rel=2e-8)
    np.testing.assert_array_equal(order[there.predict(profile[:, order])], here.predict(profile))
    if form != "crossed margins":  # there the experts change their order, too
        np.testing.assert_allclose(there.weights_, here.weights_[order], atol=1e-3)


@cases("groups", [None, "learners"])
def test_experts_in_another_order_have_the_same_weights(groups):
    profile, labels = drawn(8)
    order = np.array([3, 1, 0, 2])
    here = JointLp(groups=groups).fit(profile, labels)
    there = JointLp(groups=groups).fit(profile[:, :, order], labels)
    np.testing.assert_allclose(there.weights_, here.weights_[:, order], atol=1e-3)


@cases("parameters", [{"p": 1.0}, {"p": 2.0, "nonnegative": False}])
def test_one_class_is_the_binary_problem(parameters):
    profile, labels = drawn(9)
    one, y = profile[:, :1], np.where(labels == 0, 1, -1)
    joint = JointLp("one against all", **parameters).fit(one, np.where(labels == 0, 0, -1))
    binary = LpFusion(**{"nonnegative": True} | parameters).fit(one[:, 0], y)
    np.testing.assert_array_equal(joint.weights_, binary.weights_[None])
    assert joint.certificate_.primal == binary.certificate_.primal


def test_crossed_weights_contain_those_of_own_experts():
    """The ball of the crossed form holds that of the other: its optimum is at most as large."""
    profile, labels = drawn(16)
    own, crossed = (JointLp(form).fit(profile, labels) for form in ("margins", "crossed margins"))
    assert crossed.certificate_.primal <= own.certificate_.primal
    assert crossed.weights_.shape == (K, K * J)


def test_two_opposite_classes_are_the_binary_problem():
    """With s₂ = −s₁ the margin is twice that of one score: the shared form is LpFusion on 2 s."""
    profile, labels = drawn(10, classes=2)
    mirrored = np.stack([profile[:, 0], -profile[:, 0]], axis=1)
    joint = JointLp("shared margins", p=2.0).fit(mirrored, labels)
    binary = LpFusion(2.0, nonnegative=True).fit(2 * profile[:, 0], np.where(labels == 0, 1, -1))
    np.testing.assert_allclose(joint.weights_[0], binary.weights_, atol=1e-6)


@cases("q", [1.0, 4 / 3, 2.0])
def test_the_largest_norm_over_classes_falls_apart_into_separate_problems(q):
    profile, labels = drawn(11)
    joint = JointLp("one against all", groups="classes", p=INF, q=q, tol=1e-10)
    joint.fit(profile, labels)
    values = 0.0
    for k in range(K):
        alone = LpFusion(q, nonnegative=True, tol=1e-10)
        alone.fit(profile[:, k], np.where(labels == k, 1, -1))
        values += alone.certificate_.primal
        np.testing.assert_allclose(joint.weights_[k], alone.weights_, atol=1e-4)
    assert joint.certificate_.primal == pytest.approx(values, rel=1e-8)


def test_a_norm_of_p_1_over_learners_leaves_out_those_that_guess_for_all_classes():
    profile, labels = drawn(12, n=120)
    learners = JointLp(groups="learners", p=1.0).fit(profile, labels).weights_
    used = learners.max(axis=0) > 1e-5
    assert used[0]
    assert not used[-1]
    np.testing.assert_array_equal(learners[:, ~used].round(5), 0.0)


def test_labels_at_random_teach_nothing():
    """The control: weights of shuffled labels predict worse than those of the true ones."""
    profile, labels = drawn(13, n=200)
    shuffled = np.random.default_rng(0).permutation(labels)
    for form in FORMS:
        right = {
            taught: (JointLp(form, nonnegative=False).fit(profile[:100], y[:100]).predict(
                profile[100:]) == labels[100:]).mean()
            for taught, y in (("true", labels), ("shuffled", shuffled))
        }  # fmt: skip
        assert right["true"] > 0.7
        assert right["shuffled"] < right["true"] - 0.1


def test_random_families_have_the_sizes_of_learners():
    profile, labels = drawn(14)
    drawn_families = [
        JointLp(groups="random", seed=seed).fit(profile, labels).fusion_.groups_.tolist()
        for seed in (0, 0, 1)
    ]
    assert drawn_families[0] == drawn_families[1] != drawn_families[2]
    assert np.bincount(drawn_families[0]).tolist() == [K] * J


def test_rows_of_no_class_have_no_margins_but_count_against_all():
    profile, labels = drawn(15)
    labels = np.where(labels == 2, -1, labels)
    assert len(joint_rows(profile, labels).row) == (K - 1) * (labels >= 0).sum()
    rows = joint_rows(profile, labels, "one against all")
    assert (rows.labels[np.isin(rows.row, np.flatnonzero(labels < 0))] == -1).all()
