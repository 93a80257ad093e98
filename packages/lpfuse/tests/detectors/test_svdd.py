import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import OneClassSVM

from helpers.pairwise import each_value, pairwise
from lpfuse import SVDD
from lpfuse.detectors import KernelWidthWarning
from lpfuse.detectors.kernels import Kernel, training_rows
from lpfuse.detectors.svdd import MANY, libsvm, working_set
from oracles import enclosing_ball as oracle

EXACT = {"approximation": None, "tol": 1e-7}


def rows(seed=0, n=30, d=3, shift=0.0):
    return np.random.default_rng(seed).normal(shift, 1.0, (n, d))


def histograms(seed=0, n=30, d=4):
    return np.random.default_rng(seed).random((n, d)) + 0.05


def intersection(x, z, power=1.0):
    return float(np.minimum(x**power, z**power).sum())


def costs(signs, nu, C=None, C_negative=None, weights=None):
    """C_i of each row, as the class documents it."""
    weights = np.ones(len(signs)) if weights is None else np.asarray(weights, dtype=float)
    result = np.empty(len(signs))
    for sign, cost in ((1, C), (-1, C_negative)):
        side = signs == sign
        if side.any():
            result[side] = weights[side] * (cost or 1 / (nu * weights[side].sum()))
    return result


def alpha_of(detector, n):
    alpha = np.zeros(n)
    alpha[detector.support_] = detector.dual_coef_
    return alpha


def assert_optimal(detector, X, K, y=None, weights=None, *, rel=1e-5):
    """The multipliers, the ball and its distances are cvxpy's; all from public attributes."""
    n = len(X)
    signs = np.ones(n) if y is None else np.asarray(y, dtype=float)
    C = costs(signs, detector.nu, detector.C, detector.C_negative, weights)
    best = oracle.by_dual(K, C, signs)
    alpha = alpha_of(detector, n)
    assert alpha.sum() == pytest.approx(1.0, abs=1e-9)
    assert (signs * alpha >= 0).all()
    assert (signs * alpha <= C * (1 + 1e-9)).all()
    assert oracle.dual_value(K, alpha) == pytest.approx(best.value, rel=rel)
    distances2 = -detector.score_samples(X)
    reached = oracle.primal_value(distances2, detector.radius_**2, C, signs)
    assert reached == pytest.approx(best.value, rel=10 * rel)
    expected = oracle.distances2(best.beta, K, K, K.diagonal())
    np.testing.assert_allclose(distances2, expected, rtol=0, atol=2e-5 * expected.max())


# ------------------------------------------------------------------------------ libsvm as a judge


@pairwise(nu=(0.05, 0.3, 0.8), gamma=(0.05, 0.5, 3.0), weighted=(False, True))
def test_a_gaussian_ball_is_the_one_class_svm(nu, gamma, weighted):
    X, new = rows(n=80), rows(1, n=500, d=3) * 1.5
    weights = np.random.default_rng(2).uniform(0.2, 2.0, 80) if weighted else None
    detector = SVDD(nu=nu, gamma=gamma, tol=1e-8).fit(X, sample_weight=weights)
    # libsvm's bound is nu times the sum of the weights, whatever nu: C = 1 / (nu · Σ w) here.
    machine = OneClassSVM(nu=nu, gamma=gamma, tol=1e-8).fit(X, sample_weight=weights)
    size = machine.dual_coef_.sum()
    expected = 2 / size * machine.score_samples(new) - 1 - detector.center_norm2_
    np.testing.assert_allclose(detector.score_samples(new), expected, rtol=0, atol=1e-6)
    # The surface as such belongs to the ball, so rows on it (to the tolerance) are left out.
    clear = np.abs(machine.decision_function(new)) > 1e-5 * size
    assert clear.mean() > 0.99
    np.testing.assert_array_equal(detector.predict(new)[clear], machine.predict(new)[clear])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("nu", [0.01, 0.1, 0.6])
def test_many_rows_are_the_one_class_svm_too(nu, weighted):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(0, 1, (MANY, 2)), rng.normal(4, 0.3, (400, 2))])
    weights = rng.uniform(0.1, 3.0, len(X)) if weighted else None
    detector = SVDD(nu=nu, gamma=0.5, tol=1e-6).fit(X, sample_weight=weights)
    machine = OneClassSVM(nu=nu, gamma=0.5, tol=1e-6).fit(X, sample_weight=weights)
    new = rng.uniform(-5, 7, (2000, 2))
    size = machine.dual_coef_.sum()
    expected = 2 / size * machine.score_samples(new) - 1 - detector.center_norm2_
    np.testing.assert_allclose(detector.score_samples(new), expected, rtol=0, atol=2e-5)
    clear = np.abs(machine.decision_function(new)) > 1e-4 * size
    np.testing.assert_array_equal(detector.predict(new)[clear], machine.predict(new)[clear])


@pytest.mark.parametrize("seed", range(6))
def test_no_row_that_matters_is_overlooked(seed):
    """Rows that libsvm is not shown must be inside, however badly the first guess was made."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 2)) * rng.choice([0.2, 1.0, 3.0], (60, 1))
    bounds = costs(np.ones(60), 0.2, weights=rng.uniform(0.05, 2.0, 60))
    shown = []

    def solve(data, bounds, tol, **parameters):
        shown.append(len(data))
        return libsvm(data, bounds, tol, **parameters)

    kernel = Kernel("rbf", 0.7)
    beta, rho = working_set(kernel, X, bounds, EXACT["tol"], solve, few=4)
    assert shown[0] == 6  # a tenth of the rows, which guess who is outside
    K = kernel.gram(X)
    best = oracle.by_dual(K, bounds, np.ones(60))
    assert beta.sum() == pytest.approx(1.0, abs=1e-9)
    assert ((beta >= 0) & (beta <= bounds * (1 + 1e-9))).all()
    assert oracle.dual_value(K, beta) == pytest.approx(best.value, rel=1e-5)
    assert (K @ beta)[beta == 0].min() >= rho - 1e-5
    assert (K @ beta)[beta >= bounds * (1 - 1e-9)].max() <= rho + 1e-5


# ------------------------------------------------------------------------------ cvxpy as a judge

KERNELS = {
    "rbf": (rows(), {"gamma": 0.4}, {"gamma": 0.4}),
    "linear": (rows(shift=2.0), {}, {}),
    "poly": (
        rows(),
        {"gamma": 0.5, "degree": 2, "coef0": 1.5},
        {"gamma": 0.5, "degree": 2, "coef0": 1.5},
    ),
    "polynomial": (
        rows(),
        {"gamma": 0.2, "degree": 3},
        {"gamma": 0.2, "degree": 3, "coef0": 1},
    ),
    "laplacian": (rows(), {"gamma": 0.3}, {"gamma": 0.3}),
    "cosine": (rows(shift=1.0), {}, {}),
    # tanh is a kernel for no parameters, but far to the left it is nearly an exponential.
    "sigmoid": (rows(), {"gamma": 0.05, "coef0": -3.0}, {"gamma": 0.05, "coef0": -3.0}),
    "chi2": (histograms(), {"gamma": 0.7}, {"gamma": 0.7}),
    "additive_chi2": (histograms(), {}, {}),
    "function": (histograms(), {"kernel": intersection}, {}),
    "function with parameters": (
        histograms(),
        {"kernel": intersection, "kernel_params": {"power": 2.0}},
        {"power": 2.0},
    ),
}


def of_kernel(name):
    """Rows, the detector's settings, and scikit-learn's own kernel matrix."""
    X, settings, arguments = KERNELS[name]
    settings = {"kernel": name, **settings}
    return X, settings, pairwise_kernels(X, metric=settings["kernel"], **arguments)


@each_value(kernel=KERNELS, weighted=(False, True))
def test_every_kernel_is_solved_correctly(kernel, weighted):
    X, settings, K = of_kernel(kernel)
    weights = np.random.default_rng(3).uniform(0.2, 2.0, len(X)) if weighted else None
    detector = SVDD(nu=0.15, **settings, **EXACT).fit(X, sample_weight=weights)
    assert_optimal(detector, X, K, weights=weights)


@each_value(
    kernel=("rbf", "linear", "poly", "additive_chi2", "function"), C_negative=(None, 0.02, 0.5)
)
def test_known_anomalies_are_kept_out_at_their_own_cost(kernel, C_negative):
    X, settings, K = of_kernel(kernel)
    y = np.where(np.random.default_rng(4).random(len(X)) < 0.25, -1, 1)
    detector = SVDD(nu=0.2, C_negative=C_negative, **settings, **EXACT).fit(X, y)
    assert (np.sign(detector.dual_coef_) == y[detector.support_]).all()
    assert_optimal(detector, X, K, y)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_two_costs_and_weights_act_together(kernel):
    X, settings, K = of_kernel(kernel)
    rng = np.random.default_rng(5)
    y, weights = np.where(rng.random(len(X)) < 0.3, -1, 1), rng.uniform(0.2, 2.0, len(X))
    detector = SVDD(C=0.3, C_negative=0.15, **settings, **EXACT)
    detector.fit(X, y, sample_weight=weights)
    assert_optimal(detector, X, K, y, weights)


@pytest.mark.parametrize("C_negative", [0.1, 2.0])
def test_an_offset_of_the_data_costs_no_digits(C_negative):
    X = rows(shift=300.0)
    y = np.where(np.arange(30) % 4 == 0, -1, 1)
    detector = SVDD(nu=0.5, C_negative=C_negative, kernel="linear", **EXACT).fit(X, y)
    centred = X - 300.0
    assert_optimal(detector, X, centred @ centred.T, y)


def test_labels_that_are_all_normal_change_nothing():
    X = rows()
    plain, labelled = SVDD().fit(X), SVDD().fit(X, np.ones(30))
    np.testing.assert_array_equal(plain.score_samples(X), labelled.score_samples(X))
    assert plain.offset_ == labelled.offset_


def test_a_known_anomaly_pushes_the_ball_away():
    X = np.vstack([rows(n=100, d=2), [[1.0, 1.0]]])
    y = np.r_[np.ones(100), -1]
    plain = SVDD(gamma=0.5).fit(X[:100])
    warned = SVDD(gamma=0.5, C_negative=1.0).fit(X, y)
    assert plain.predict(X[-1:]) == [1]
    assert warned.predict(X[-1:]) == [-1]


# ------------------------------------------------------------------------------ closed forms

TRIANGLE = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 3**0.5 / 2]])
HARD = {"C": 10.0, "kernel": "linear", **EXACT}  # no row can stay outside


@pytest.mark.parametrize("move", [0.0, 7.0])
@pytest.mark.parametrize(
    ("X", "centre", "radius"),
    [
        ([[1.0, 2.0], [3.0, 2.0]], [2.0, 2.0], 1.0),
        (TRIANGLE, [0.5, 3**-0.5 / 2], 3**-0.5),
        ([[-2.0, 0.0], [2.0, 0.0], [0.0, 1.0]], [0.0, 0.0], 2.0),  # obtuse: two rows decide
        ([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0], [1.0, 1.0]], [1.5, 2.0], 2.5),  # a right angle
        (np.vstack([np.eye(4), 0.3 * np.ones((1, 4))]), [0.25] * 4, 0.75**0.5),  # a simplex
    ],
    ids=["two points", "equilateral", "obtuse", "right angle", "simplex"],
)
def test_a_linear_ball_is_the_smallest_enclosing_one(X, centre, radius, move):
    X = np.asarray(X) + move
    detector = SVDD(**HARD).fit(X)
    np.testing.assert_allclose(detector.center_, np.asarray(centre) + move, atol=1e-5)
    assert detector.radius_ == pytest.approx(radius, abs=1e-5)
    assert (detector.predict(X) == 1).all()
    distances2 = ((X - detector.center_) ** 2).sum(axis=1)
    np.testing.assert_allclose(detector.score_samples(X), -distances2, atol=1e-9 + 1e-11 * move**2)


def test_the_multipliers_of_an_equilateral_triangle():
    detector = SVDD(**HARD).fit(np.vstack([TRIANGLE, TRIANGLE.mean(axis=0)]))
    assert sorted(detector.support_) == sorted(detector.boundary_) == [0, 1, 2]
    np.testing.assert_allclose(detector.dual_coef_, 1 / 3, atol=1e-6)
    assert detector.center_norm2_ == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("C_negative", "multiplier"), [(0.5, 0.5), (1.0, 1.0), (1.5, 1.5), (5.0, 1.5)]
)
def test_an_anomaly_between_two_rows_moves_the_centre(C_negative, multiplier):
    # Rows at (±1, 0), an anomaly at (0, h): the centre is (0, −γh) and R² = 1 + γ²h², until at
    # γ = (1/h² − 1)/2 the anomaly lies on the surface.
    X = [[-1.0, 0.0], [1.0, 0.0], [0.0, 0.5]]
    detector = SVDD(C=10.0, C_negative=C_negative, kernel="linear", **EXACT).fit(X, [1, 1, -1])
    np.testing.assert_allclose(detector.center_, [0.0, -0.5 * multiplier], atol=1e-5)
    assert detector.radius_ == pytest.approx((1 + multiplier**2 / 4) ** 0.5, abs=1e-5)
    halves = (1 + multiplier) / 2
    np.testing.assert_allclose(detector.dual_coef_, [halves, halves, -multiplier], atol=1e-5)
    assert (2 in detector.boundary_) == (C_negative > 1.5)


def test_with_nu_of_one_the_centre_is_the_mean():
    X = rows(shift=5.0)
    weights = np.arange(1.0, 31.0)
    detector = SVDD(nu=1.0, kernel="linear").fit(X, sample_weight=weights)
    np.testing.assert_allclose(detector.center_, np.average(X, axis=0, weights=weights))
    np.testing.assert_allclose(detector.dual_coef_, weights / weights.sum())
    nearest = ((X - detector.center_) ** 2).sum(axis=1).min() ** 0.5
    assert detector.radius_ == pytest.approx(nearest, rel=1e-6)
    assert len(detector.boundary_) == 0


@pytest.mark.parametrize("approximation", [None, "nystroem"])
def test_with_nu_of_one_anomalies_bound_only_the_radius(approximation):
    X, y = np.array([[-1.0], [1.0], [0.1]]), [1, 1, -1]
    detector = SVDD(nu=1.0, kernel="linear", approximation=approximation).fit(X, y)
    np.testing.assert_allclose(-detector.score_samples(X), [1.0, 1.0, 0.01], atol=1e-12)
    assert detector.radius_ <= 0.1 * (1 + 1e-6)


def test_the_gaussian_ball_of_two_rows():
    X = np.array([[0.0, 0.0], [1.0, 1.0]])
    similarity = np.exp(-2 * 0.7)
    detector = SVDD(gamma=0.7).fit(X)
    np.testing.assert_allclose(detector.dual_coef_, 0.5, atol=1e-6)
    assert detector.center_norm2_ == pytest.approx((1 + similarity) / 2)
    assert detector.radius_**2 == pytest.approx((1 - similarity) / 2)
    assert detector.predict(X).tolist() == [1, 1]


def test_a_centre_in_a_feature_space_cannot_be_shown():
    detector = SVDD().fit(rows())
    with pytest.raises(AttributeError, match=r"kernel='linear' only.*-score_samples\(X\)"):
        _ = detector.center_
    assert not hasattr(detector, "center_")


# ------------------------------------------------------------------------------ optimality, nu, C


@each_value(kernel=("rbf", "linear", "poly", "laplacian"), nu=(0.05, 0.25, 0.7))
def test_multipliers_tell_where_a_row_lies(kernel, nu):
    X, settings, _ = of_kernel(kernel)
    detector = SVDD(nu=nu, **settings, **EXACT).fit(X)
    alpha, C = alpha_of(detector, 30), 1 / (nu * 30)
    excess = -detector.score_samples(X) - detector.radius_**2
    slack = 1e-4 * detector.radius_**2
    assert excess[alpha == 0].max(initial=-np.inf) <= slack
    assert excess[alpha >= C * (1 - 1e-9)].min(initial=np.inf) >= -slack
    assert set(detector.boundary_) == set(np.flatnonzero((alpha > 0) & (alpha < C * (1 - 1e-9))))
    np.testing.assert_allclose(excess[detector.boundary_], 0.0, atol=slack)
    outside = (detector.predict(X) == -1).sum()
    assert outside <= nu * 30 <= len(detector.support_)


def test_rows_on_the_surface_are_inside():
    X = rows(n=200)
    for tol in (1e-3, 1e-6):
        detector = SVDD(nu=0.1, tol=tol).fit(X)
        assert (detector.predict(X[detector.boundary_]) == 1).all()
        assert detector.offset_ == pytest.approx(-(detector.radius_**2), rel=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_C_says_what_nu_says(kernel):
    X, settings, _ = of_kernel(kernel)
    by_nu = SVDD(nu=0.2, **settings, **EXACT).fit(X)
    by_cost = SVDD(nu=0.9, C=1 / (0.2 * 30), **settings, **EXACT).fit(X)
    np.testing.assert_allclose(by_cost.score_samples(X), by_nu.score_samples(X), atol=1e-6)
    assert by_cost.radius_ == pytest.approx(by_nu.radius_, rel=1e-5)


@pytest.mark.parametrize("approximation", [None, "nystroem"])
def test_a_cost_too_small_is_refused_with_the_least(approximation):
    X, y = rows(), np.where(np.arange(30) < 10, -1, 1)
    detector = SVDD(C=0.04, C_negative=0.5, gamma=0.3, approximation=approximation)
    with pytest.raises(
        ValueError, match=r"C=0\.04 is too small.*got 0\.8\..*at least 0\.05"
    ) as told:
        detector.fit(X, y)
    assert "or nu instead" in str(told.value)
    detector.set_params(C=0.05).fit(X, y)
    np.testing.assert_allclose(detector.dual_coef_[detector.dual_coef_ > 0], 0.05)


def test_a_sample_weight_is_a_repetition():
    X, times = rows(), np.arange(30) % 3 + 1
    y = np.where(np.arange(30) % 7 == 0, -1, 1)
    again, labels = np.repeat(X, times, axis=0), np.repeat(y, times)
    for settings in ({"gamma": 0.3}, {"kernel": "linear"}):
        for truth, truths in ((None, None), (y, labels)):
            detector = SVDD(nu=0.3, **settings, **EXACT)
            weighted = clone(detector).fit(X, truth, sample_weight=times).score_samples(X)
            repeated = clone(detector).fit(again, truths).score_samples(X)
            np.testing.assert_allclose(weighted, repeated, rtol=0, atol=2e-4 * np.ptp(repeated))


def test_rows_without_weight_are_left_out_and_positions_remain():
    X, y = rows(n=40), np.where(np.arange(40) % 5 == 0, -1, 1)
    weights = (np.arange(40) % 4 != 1) * 1.0
    kept = np.flatnonzero(weights)
    for truth, truths in ((None, None), (y, y[kept])):
        detector = SVDD(nu=0.3, gamma=0.3).fit(X, truth, sample_weight=weights)
        alone = SVDD(nu=0.3, gamma=0.3).fit(X[kept], truths)
        np.testing.assert_array_equal(detector.support_, kept[alone.support_])
        np.testing.assert_array_equal(detector.boundary_, kept[alone.boundary_])
        np.testing.assert_array_equal(detector.support_vectors_, X[detector.support_])
        np.testing.assert_array_equal(detector.dual_coef_, alone.dual_coef_)
        assert detector.radius_ == alone.radius_


@each_value(kernel=("rbf", "linear", "laplacian"), with_labels=(False, True))
def test_fits_that_share_rows_are_as_good_as_alone(kernel, with_labels):
    X, settings, _ = of_kernel(kernel)
    y = np.where(np.arange(30) % 5 == 0, -1, 1) if with_labels else None
    shared = training_rows(X, None, y, share=True)
    for nu in (0.2, 0.6, 1.0, 0.2):  # the last one sees what the first ones left behind
        detector, alone = SVDD(nu=nu, **settings, **EXACT), SVDD(nu=nu, **settings, **EXACT)
        detector._fit_rows(shared)
        alone.fit(X, y)
        atol = 1e-5 * np.ptp(alone._scores(X))
        np.testing.assert_allclose(detector._scores(X), alone._scores(X), rtol=0, atol=atol)
        assert detector.radius_ == pytest.approx(alone.radius_, rel=1e-5)
    # Other learners share the matrix too.
    kernel = detector.kernel_
    np.testing.assert_allclose(shared.gram(kernel), kernel.gram(X), rtol=1e-12)


# ------------------------------------------------------------------------------ degenerate rows

WAYS = [
    {"gamma": 0.5},
    {"kernel": "linear"},
    {"kernel": "poly", "degree": 2},
    {"kernel": "cosine"},
    {"kernel": "laplacian", "gamma": 0.5},
    {"gamma": 0.5, "approximation": "nystroem"},
    {"kernel": "linear", "approximation": "nystroem"},
]
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))


@each_value(way=WAYS, row=([3.0, 4.0], [0.1, 0.7], [0.1, 0.7]))
def test_one_row_is_a_ball_of_no_size(way, row):
    detector = SVDD(**way).fit([row])
    assert detector.support_.tolist() == [0]
    np.testing.assert_allclose(detector.dual_coef_, [1.0])
    size = float(detector.kernel_.diagonal(np.array([row]))[0])
    assert detector.radius_**2 <= 1e-9 * size
    np.testing.assert_allclose(detector.score_samples([row]), 0.0, atol=1e-9 * size)
    assert detector.predict([row, [-4.0, 3.0]]).tolist() == [1, -1]


@each_value(way=WAYS, dtype=(np.float64, np.float32, np.float32))
@pytest.mark.filterwarnings("ignore::lpfuse.detectors.KernelWidthWarning")  # all rows are equal
def test_equal_rows_are_a_ball_of_no_size(way, dtype):
    X = np.repeat(np.array([[3.1, 0.7]], dtype=dtype), 12, axis=0)
    for nu in (0.1, 0.5, 1.0):
        detector = SVDD(nu=nu, **way).fit(X)
        assert detector.dual_coef_.sum() == pytest.approx(1.0)
        resolution = 10 * float(np.finfo(dtype).eps * detector.kernel_.diagonal(X[:1])[0])
        np.testing.assert_allclose(detector.score_samples(X), 0.0, atol=resolution)
        assert (detector.predict(X) == 1).all()
        assert detector.predict(np.array([[-0.7, 3.1]], dtype=dtype)).tolist() == [-1]


@every_way
def test_two_rows_share_the_weight(way):
    X = np.array([[1.0, 2.0], [2.0, 1.0]])
    detector = SVDD(**way).fit(X)
    np.testing.assert_allclose(detector.dual_coef_, [0.5, 0.5], atol=1e-3)
    scores = detector.score_samples(X)
    assert scores[0] == pytest.approx(scores[1], rel=1e-2)
    assert (detector.predict(X) == 1).all()


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_repeated_rows_and_constant_columns(kernel):
    X = np.column_stack([np.repeat(rows(n=8, d=2), 4, axis=0), np.full(32, 7.0)])
    detector = SVDD(nu=0.2, kernel=kernel, gamma=0.5, **EXACT).fit(X)
    arguments = {"gamma": 0.5} if kernel == "rbf" else {}
    moved = X - [0.0, 0.0, 7.0] if kernel == "linear" else X
    assert_optimal(detector, X, pairwise_kernels(moved, metric=kernel, **arguments))


def test_only_constant_columns_but_one():
    X = np.column_stack([np.ones(20), np.arange(20.0), np.zeros(20)])
    detector = SVDD(**HARD).fit(X)
    np.testing.assert_allclose(detector.center_, [1.0, 9.5, 0.0], atol=1e-6)
    assert detector.radius_ == pytest.approx(9.5)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_more_features_than_rows(kernel):
    X = rows(n=10, d=60)
    settings = {"gamma": 0.01, "degree": 2}
    detector = SVDD(nu=0.3, kernel=kernel, **settings, **EXACT).fit(X)
    arguments = {
        "rbf": {"gamma": 0.01},
        "linear": {},
        "poly": {"gamma": 0.01, "degree": 2, "coef0": 1},
    }
    assert_optimal(detector, X, pairwise_kernels(X, metric=kernel, **arguments[kernel]))


@pytest.mark.parametrize("approximation", [None, "nystroem"])
def test_an_identity_as_kernel_matrix_gives_a_warning(approximation):
    X = 100.0 * np.arange(20.0)[:, None]
    with pytest.warns(KernelWidthWarning, match="near the identity"):
        detector = SVDD(gamma=10.0, nu=0.5, approximation=approximation).fit(X)
    assert detector.center_norm2_ == pytest.approx(1 / 20, rel=1e-3)
    assert detector.radius_**2 == pytest.approx(1 - 1 / 20, rel=1e-3)
    assert detector.score_samples([[50.0]]) == pytest.approx([-1 - 1 / 20], rel=1e-3)
    assert (detector.predict(X) == 1).all()
    assert detector.predict([[50.0]]) == [-1]
