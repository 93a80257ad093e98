"""`verify`: what is true passes, and no falsehood beyond rounding does."""

import math
import subprocess
import sys
from copy import copy
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

import lpfuse
from helpers.pairwise import pairwise
from lpfuse import FixedRule, FusedDetector, GMMDetector, KernelPCADetector, LpFusion, verify
from oracles import exact

pytestmark = pytest.mark.filterwarnings("ignore")  # "short of tol" is an answer here

LOSSES, BOTH = ("hinge", "least_squares"), (False, True)
EXPONENTS = [1.0, 1.01, 4 / 3, 2.0, 7.0, 100.0, math.inf]
# A small ball, so that the best weights of both losses lie on its surface.
TIGHT = {"p": 2, "fit_intercept": True, "class_weight": "balanced", "radius": 0.3}


def rows(seed, n=60, R=4, distance=0.5):
    """A quarter of anomalies, of which the columns know something."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.25, -1, 1)
    y[: min(2, n)] = [1, -1][: min(2, n)]
    return rng.normal(size=(n, R)) + distance * y[:, None], y


def fit(S, y=None, weight=None, **parameters):
    return LpFusion(**parameters).fit(S, y, weight)


# ------------------------------------------------------------------------------------------ honest


@pairwise(
    p=EXPONENTS,
    loss=LOSSES,
    intercept=BOTH,
    nonnegative=BOTH,
    balanced=BOTH,
    prior=BOTH,
    imaginary=BOTH,
)
def test_honest_certificates_hold(p, loss, intercept, nonnegative, balanced, prior, imaginary):
    S, y = rows(0)
    around = {"prior": [0.5, 0.0, 0.2, 0.1], "radius": 0.3} if prior else {}
    fusion = fit(
        S, y, p=p, loss=loss, fit_intercept=intercept, nonnegative=nonnegative,
        class_weight="balanced" if balanced else None, imaginary_anomalies=3.0 * imaginary,
        **around,
    )  # fmt: skip
    found = verify(fusion, S, y)
    assert found.holds, found.sentence()
    assert found.arithmetic == "exact"
    assert found.value[0] <= found.value[1] <= math.nextafter(found.value[0], math.inf)
    assert found.relative_gap <= 1e-8
    assert found.status == "optimal"


@pairwise(p=(1.0, 2.0, math.inf), loss=LOSSES, intercept=BOTH, nonnegative=BOTH, balanced=BOTH)
def test_both_sides_are_those_of_the_oracle(p, loss, intercept, nonnegative, balanced):
    S, y = rows(100, n=25)
    weight = np.random.default_rng(0).random(25)
    fusion = fit(
        S, y, weight, p=p, loss=loss, fit_intercept=intercept, nonnegative=nonnegative,
        class_weight="balanced" if balanced else None,
    )  # fmt: skip
    found = verify(fusion, S, y, weight)
    c = exact.costs(y, weight, balanced)
    r = exact.residuals(S, y, fusion.weights_, Fraction(fusion.intercept_))
    losses = [x * x if loss == "least_squares" else max(x, Fraction(0)) for x in r]
    low, high = found.value
    assert low <= exact.total(c, losses) <= high
    low, high = found.bound
    if loss == "hinge" and intercept:  # the oracle knows a second way to mend the balance
        assert low <= exact.bound(S, y, c, fusion)
    else:
        near = Fraction(1, 10**30)
        assert low - near <= exact.bound(S, y, c, fusion) <= high + near


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 12), st.sampled_from(EXPONENTS),
    st.sampled_from(["hinge", "least_squares"]), st.booleans(), st.booleans(),
    st.sampled_from([-150, -20, -5, 0, 0, 0, 5, 20, 90]),
)  # fmt: skip
def test_honest_certificates_hold_at_all_scales(seed, n, R, p, loss, intercept, nonnegative, power):
    rng = np.random.default_rng(seed)
    S, y = rows(seed, n, R)
    S = S * 10.0**power
    if seed % 3 == 0:
        S[:, rng.random(R) < 0.5] = 1.0
    if seed % 5 == 0:
        S = S[rng.integers(0, n, n)]
    weight = np.where(rng.random(n) < 0.3, 0.0, rng.random(n))
    weight[0] = 1.0
    fusion = fit(S, y, weight, p=p, loss=loss, fit_intercept=intercept, nonnegative=nonnegative)
    found = verify(fusion, S, y, weight)
    assert found.holds, found.sentence()


@pytest.mark.parametrize("seed", range(6))
def test_weights_from_zero_around_a_prior_near_p_of_one(seed):
    """The best u ≥ v lies far below the largest entry, where powers of 1e6 leave nothing of it."""
    S, y = rows(seed, n=15, R=7, distance=3.0)
    prior = np.random.default_rng(seed).random(7) * (np.arange(7) % 3 > 0)
    fusion = fit(S, y, p=1.000001, prior=prior, nonnegative=True, imaginary_anomalies=3.0)
    found = verify(fusion, S, y)
    assert found.holds, found.sentence()


def test_a_fit_that_fell_short_and_says_so_holds():
    S, y = rows(1)
    fusion = fit(S, y, p=2, solver="frank-wolfe", max_iter=3)
    found = verify(fusion, S, y)
    assert found.status != "optimal"
    assert found.holds, found.sentence()
    assert found.relative_gap > 1e-8


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_priors_by_name_are_found_by_name(kind):
    library = pytest.importorskip(kind)
    S, y = rows(2, R=3)
    frame = library.DataFrame({name: S[:, j] for j, name in enumerate(["a", "b", "c"])})
    prior = {"c": 0.5, "a": 0.3, "elsewhere": 9.0}
    fusion = LpFusion(p=2, prior=prior, radius=0.1).fit(frame, y)
    assert verify(fusion, frame, y).holds
    fusion.prior = {"c": 0.3, "a": 0.5}
    assert not verify(fusion, frame, y).holds


def test_single_precision_is_read_as_it_is():
    S, y = rows(3)
    S = S.astype(np.float32)
    fusion = fit(S, y, imaginary_anomalies=2.0)
    assert verify(fusion, S, y).holds
    assert not verify(fusion, S.astype(np.float64) * (1 + 1e-7), y).holds


def test_tensors_are_brought_to_numpy():
    torch = pytest.importorskip("torch")
    S, y = rows(16)
    tensor, labels = torch.asarray(S), torch.asarray(y)
    fusion = fit(tensor, labels, imaginary_anomalies=3.0)
    assert verify(fusion, tensor, labels) == verify(fusion, S, y)
    assert verify(fusion, S, y).holds


@pytest.mark.parametrize("loss", ["hinge", "least_squares"])
def test_what_was_fitted_in_blocks_is_verified_in_memory(loss):
    da = pytest.importorskip("dask.array")
    S, y = rows(17)
    blocks = da.from_array(S, chunks=(25, 4)), da.from_array(y, chunks=25)
    fusion = fit(*blocks, loss=loss, imaginary_anomalies=3.0, **TIGHT)
    assert verify(fusion, S, y).holds
    with pytest.raises(TypeError, match=r"Load them into memory first: S\.compute"):
        verify(fusion, *blocks)


# ------------------------------------------------------------------------------------------- large


@pytest.mark.parametrize("loss", ["hinge", "least_squares"])
@pytest.mark.parametrize("intercept", [False, True])
def test_many_scores_are_read_with_compensated_sums(loss, intercept):
    S, y = rows(4, n=12_000, R=10)
    S += 1e3 * np.arange(10)
    fusion = fit(
        S, y, p=4 / 3, loss=loss, fit_intercept=intercept, class_weight="balanced",
        imaginary_anomalies=3.0,
    )  # fmt: skip
    found = verify(fusion, S, y)
    assert found.arithmetic == "compensated"
    assert found.holds, found.sentence()
    # A part of the rows alone is another problem, seen by the same sums.
    y[7] = -y[7]
    other = verify(fusion, S, y)
    assert not other.holds
    assert other.arithmetic == "compensated"


@pytest.mark.parametrize("loss", ["hinge", "least_squares"])
def test_compensated_and_exact_sums_tell_the_same(loss):
    """Rows without weight change nothing but the number of scores, and so the arithmetic."""
    S, y = rows(5, n=5_000, R=10)
    small = fit(S, y, p=2, loss=loss, fit_intercept=True)
    one = verify(small, S, y)
    S2, y2 = np.vstack([S, rows(6, n=6_000, R=10)[0]]), np.append(y, np.ones(6_000))
    weight = np.append(np.ones(5_000), np.zeros(6_000))
    many, claim = copy(small), small.certificate_
    if loss == "hinge":
        many.certificate_ = replace(claim, alpha=np.append(claim.alpha, np.zeros(6_000)))
    two = verify(many, S2, y2, weight)
    assert (one.arithmetic, two.arithmetic) == ("exact", "compensated")
    assert two.holds
    for mine, other in ((one.value, two.value), (one.bound, two.bound)):
        assert mine[0] <= other[1]
        assert other[0] <= mine[1]
        assert other[1] - other[0] <= 1e-12 * other[1]


def test_what_floats_cannot_hold_is_read_in_rational_numbers():
    S, y = rows(7, n=12_000, R=10)
    S, weight = S * 1e98, np.full(12_000, 1e90)
    fusion = fit(S, y, weight, p=2, loss="least_squares")
    found = verify(fusion, S, y, weight)
    assert found.arithmetic == "exact"
    assert found.holds, found.sentence()


# ------------------------------------------------------------------------------------------ attacks


def changed(fusion, **attributes):
    other = copy(fusion)
    for name, value in attributes.items():
        setattr(other, name, value)
    return other


def claiming(fusion, **figures):
    """A forged certificate, whose class would refuse some of the figures."""
    certificate = copy(fusion.certificate_)
    vars(certificate).update(figures)
    return changed(fusion, certificate_=certificate)


def attacks(fusion, rng):
    """Each makes something untrue, by little."""
    claim, w = fusion.certificate_, fusion.weights_
    return {
        "value": claiming(fusion, primal=claim.primal * (1 - 1e-9)),
        "bound": claiming(fusion, dual=claim.dual * (1 + 1e-9)),
        "gap of 0": claiming(fusion, gap=0.0, rounding=0.0, dual=claim.primal),
        "negative gap": claiming(fusion, gap=-1e-9 * claim.primal),
        "relative gap": claiming(fusion, relative_gap=0.0),
        "not a number": claiming(fusion, gap=math.nan),
        "negative rounding": claiming(fusion, rounding=-1.0),
        "rounding covers all": claiming(fusion, primal=0.5 * claim.primal, rounding=1e9),
        "weights outside": changed(fusion, weights_=w * (1 + 1e-9)),
        "weights moved": changed(fusion, weights_=w * (1 - 1e-6)),
        "weights in another order": changed(fusion, weights_=w[::-1].copy()),
        "weights not finite": changed(fusion, weights_=np.full_like(w, np.nan)),
        "weights of another length": changed(fusion, weights_=w[:-1]),
        "intercept moved": changed(fusion, intercept_=fusion.intercept_ + 3.0),
        "another p": changed(fusion, p=7.0),
        "a smaller radius": changed(fusion, radius=0.3 * (1 - 1e-6)),
        "a larger radius": changed(fusion, radius=0.3 * (1 + 1e-6)),
        "another loss": changed(
            fusion, loss="hinge" if fusion.loss != "hinge" else "least_squares"
        ),
        "without balance": changed(fusion, class_weight=None),
        "another anomaly": changed(fusion, imaginary_anomalies=1.0),
        "a prior": changed(fusion, prior=rng.random(len(w))),
    }


@pytest.mark.parametrize("loss", ["hinge", "least_squares"])
def test_no_falsehood_passes(loss):
    S, y = rows(8)
    fusion = fit(S, y, loss=loss, **TIGHT)
    assert verify(fusion, S, y).holds
    for name, false in attacks(fusion, np.random.default_rng(0)).items():
        found = verify(false, S, y)
        assert not found.holds, name
        assert found.faults, name
        assert found.sentence().startswith("The certificate does not hold"), name


@pytest.mark.parametrize("p", EXPONENTS)
def test_an_optimum_must_be_within_tol(p):
    """The paper's algorithm stops early; the status of an optimum is then a lie."""
    S, y = rows(9)
    fusion = fit(S, y, p=p, solver="frank-wolfe", max_iter=2)
    if fusion.certificate_.status == "optimal":  # at p = 1 two steps can be enough
        pytest.skip("two steps were enough")
    found = verify(claiming(fusion, status="optimal"), S, y)
    assert not found.holds
    assert 'where "optimal" is at most' in found.sentence()


@pytest.mark.parametrize("loss", ["hinge", "least_squares"])
def test_dual_points_that_prove_less(loss):
    S, y = rows(10)
    fusion = fit(S, y, loss=loss, **TIGHT)
    name = "alpha" if loss == "hinge" else "dual_weights"
    point = getattr(fusion.certificate_, name)
    for false in (None, 0.5 * point, 0 * point, point[::-1].copy()):
        found = verify(claiming(fusion, **{name: false}), S, y)
        assert not found.holds
        assert any("dual point proves" in fault for fault in found.faults)


def test_multipliers_beyond_one_are_a_fault():
    """α = 2 on rows short of their margin would prove a bound above the optimum."""
    S, y = rows(11)
    fusion = fit(S, y, p=2)
    found = verify(claiming(fusion, alpha=2.0 * fusion.certificate_.alpha), S, y)
    assert not found.holds
    assert found.faults[0].startswith(
        "alpha must be an array of 60 floats, at least 0 and at most 1, got 1.9"
    )


def test_multipliers_that_favour_a_class_prove_nothing():
    """With b free, all multipliers on normal rows would prove a bound that b takes away."""
    S, y = rows(12)
    fusion = fit(S, y, p=2, fit_intercept=True)
    lopsided = np.where(y > 0, 1.0, 0.0)
    assert verify(claiming(fusion, alpha=lopsided), S, y).bound == (0.0, 0.0)


@pytest.mark.parametrize("loss", ["hinge", "least_squares"])
def test_other_rows_are_told_from_those_of_the_fit(loss):
    S, y = rows(13)
    weight = np.linspace(0.5, 1.5, len(S))
    fusion = fit(S, y, weight, p=2, loss=loss)
    moved, flipped, heavier = S.copy(), y.copy(), weight.copy()
    moved[3, 1] += 1e-6
    flipped[5] *= -1
    heavier[2] *= 1 + 1e-6
    if loss == "hinge":  # rows beyond the margin add nothing: take one that is short of it
        short = int(np.argmax(1 - y * (S @ fusion.weights_)))
        moved, heavier = S.copy(), weight.copy()
        moved[short] += 1e-6
        heavier[short] *= 1 + 1e-6
    for rows_, labels, weights in (
        (moved, y, weight), (S, flipped, weight), (S, y, heavier), (S, y, None), (S, None, weight),
    ):  # fmt: skip
        found = verify(fusion, rows_, labels, weights)
        assert not found.holds
        assert "other rows, labels or sample weights" in found.sentence()


def test_signs_and_intercepts_that_were_not_asked_for():
    S, y = rows(14)
    S[:, 0] *= -1
    free = fit(S, y, p=2)
    assert free.weights_[0] < 0
    assert "A weight is negative" in verify(changed(free, nonnegative=True), S, y).sentence()
    assert "an intercept" in verify(changed(free, intercept_=1e-9), S, y).sentence()


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6), st.sampled_from(EXPONENTS), st.sampled_from(["hinge", "least_squares"]),
    st.floats(1e-11, 1.0),
)  # fmt: skip
def test_no_claim_of_less_than_the_gap_passes(seed, p, loss, share):
    """A gap below the proven one, by a share of it that rounding cannot explain."""
    S, y = rows(seed, n=30)
    fusion = fit(S, y, p=p, loss=loss, solver="frank-wolfe", max_iter=5)
    honest = verify(fusion, S, y)
    assert honest.holds
    if honest.relative_gap < 1e-9:
        return
    less = (1 - share) * honest.gap
    assert not verify(claiming(fusion, gap=less), S, y).holds
    assert not verify(claiming(fusion, relative_gap=(1 - share) * honest.relative_gap), S, y).holds


# ---------------------------------------------------------------------------------- fused detectors


@pytest.fixture(scope="module")
def fused():
    X = np.random.default_rng(0).normal(size=(300, 3))
    X[:20] += 3
    y = np.where(np.arange(300) < 20, -1, 1)
    pool = [("kpca", KernelPCADetector()), ("gmm", GMMDetector())]
    return FusedDetector(pool, random_state=0).fit(X, y)


def test_a_fused_detector_keeps_what_its_weights_were_learnt_from(fused, tmp_path):
    assert verify(fused).holds
    fused.save(tmp_path / "model.lpfuse")
    again = lpfuse.load(tmp_path / "model.lpfuse")
    assert verify(again) == verify(fused)
    again.fusion_.weights_ = again.fusion_.weights_[::-1].copy()
    assert not verify(again).holds


def test_weights_stay_proven_when_the_scale_moves(fused, tmp_path):
    fused.save(tmp_path / "model.lpfuse")
    moved = lpfuse.load(tmp_path / "model.lpfuse")
    moved.recalibrate(np.random.default_rng(1).normal(1.0, 2.0, size=(300, 3)))
    assert verify(moved).holds


# ---------------------------------------------------------------------------------------- refusals


def test_refusals(fused):
    S, y = rows(15)
    fusion = fit(S, y)
    with pytest.raises(TypeError, match="'FixedRule' comes without a certificate"):
        verify(FixedRule("sum").fit(S), S)
    with pytest.raises(NotFittedError):
        verify(LpFusion(), S)
    with pytest.raises(TypeError, match=r"keeps no scores.*pass those that it was fitted to"):
        verify(fusion)
    with pytest.raises(TypeError, match="without S, y and sample_weight"):
        verify(fused, y=y)
    with pytest.raises(ValueError, match="expecting 4 features"):
        verify(fusion, S[:, :3], y)
    with pytest.raises(ValueError, match="y must hold one label"):
        verify(fusion, S, y[:-1])
    with pytest.raises(ValueError, match="NaN"):
        verify(fusion, np.where(S > 1, np.nan, S), y)
    with pytest.raises(TypeError, match="comes without a certificate"):
        verify(fused.with_fusion(FixedRule("sum")))


def test_the_checker_loads_nothing_of_the_optimiser():
    code = "import sys, lpfuse.verification; print('lpfuse.optim' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
