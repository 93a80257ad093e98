"""`verify` is total: whatever is put in place of a field, nothing false holds."""

import ast
import math
import re
from copy import copy, deepcopy
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

import lpfuse
from lpfuse import (
    FusedDetector,
    GMMDetector,
    KernelPCADetector,
    LpFusion,
    TailScaler,
    TwoSidedMinMax,
    verification,
    verify,
)
from lpfuse.ensemble.components import Combination
from lpfuse.io import save
from lpfuse.optim import Certificate

pytestmark = pytest.mark.filterwarnings("ignore")

INF, NAN = math.inf, math.nan
LOSSES = ("hinge", "least_squares")
FIGURES = ("primal", "dual", "gap", "relative_gap", "rounding")


class Liar(float):
    """A number that compares as it is asked to."""

    def __le__(self, other):
        return True

    __lt__ = __ge__ = __gt__ = __eq__ = __le__
    __hash__ = float.__hash__

    def __float__(self):
        return 0.0


class LyingArray(np.ndarray):
    """An array whose comparisons are always true."""

    def __le__(self, other):
        return np.ones(self.shape, dtype=bool)

    __lt__ = __ge__ = __gt__ = __le__


NO_NUMBERS = [
    NAN, INF, -INF, -1.0, -5e-324, True, np.True_, "1", "", b"1", 1 + 0j, np.complex128(1.0), None,
    [1.0], (), {}, np.array(1.0), np.array([1.0]), np.ma.masked, Liar(1.0), Decimal(1), object(),
    10**400, -(10**5000), Fraction(10**400), np.float64(NAN), np.datetime64("2020-01-01"), float,
]  # fmt: skip
NO_STATUSES = [
    "Optimal", "OPTIMAL", " optimal", "optimal\n", "proven", "", None, True, 1, NAN, b"optimal",
    ["optimal"], np.str_("optimal"),
]  # fmt: skip


def rows(seed=0, n=60, R=4):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.25, -1, 1)
    y[:2] = 1, -1
    return rng.normal(size=(n, R)) + 0.5 * y[:, None], y


def fitted(loss="hinge", **parameters):
    S, y = rows()
    parameters = {"p": 2, "fit_intercept": True, "radius": 0.3} | parameters
    fusion = LpFusion(loss=loss, **parameters).fit(S, y)
    assert verify(fusion, S, y).holds
    return fusion, S, y


def forged(fusion, **values):
    """A copy with other attributes, or other fields of the certificate: its class is not asked."""
    other = copy(fusion)
    other.certificate_ = copy(fusion.certificate_)
    for name, value in values.items():
        owner = other.certificate_ if hasattr(other.certificate_, name) else other
        vars(owner)[name] = value
    return other


def refused(fusion, S, y, name, value):
    """The verdict on one forged attribute, whose fault names it."""
    found = verify(forged(fusion, **{name: value}), S, y)
    assert found.holds is False, (name, value)
    assert any(fault.startswith(f"{name} must be") for fault in found.faults), (name, found.faults)
    assert found.sentence().startswith("The certificate does not hold")
    return found


# ----------------------------------------------------------------------------------------- domains


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", [*FIGURES, "passes"])
def test_figures_outside_their_domain_are_faults(loss, name):
    fusion, S, y = fitted(loss)
    for value in NO_NUMBERS:
        found = refused(fusion, S, y, name, value)
        assert found.relative_gap == INF  # nothing was recomputed


def test_statuses_outside_their_domain_are_faults():
    fusion, S, y = fitted()
    for value in NO_STATUSES:
        refused(fusion, S, y, "status", value)


@pytest.mark.parametrize("name", ["p", "tol", "radius", "imaginary_anomalies", "intercept_"])
def test_numbers_of_the_fit_outside_their_domain_are_faults(name):
    fusion, S, y = fitted()
    allowed = {"p": (INF,), "intercept_": (-1.0, -5e-324)}.get(name, ())
    for value in (*NO_NUMBERS, *([0.0, 1.0 - 1e-16] if name == "p" else ())):
        if not (type(value) is float and value in allowed):
            refused(fusion, S, y, name, value)


@pytest.mark.parametrize("name", ["loss", "class_weight", "fit_intercept", "nonnegative"])
def test_choices_of_the_fit_outside_their_domain_are_faults(name):
    fusion, S, y = fitted()
    for value in ("Hinge", "hinge ", "BALANCED", NAN, 2, 1.0, [], object(), np.array([True])):
        refused(fusion, S, y, name, value)


def no_vectors(x):
    """What is put in place of an array of floats x."""
    return {
        "NaN": np.where(np.arange(len(x)) == 1, NAN, x),
        "infinite": np.where(np.arange(len(x)) == 1, INF, x),
        "too short": x[:-1],
        "too long": np.append(x, 0.0),
        "a column": x[:, None],
        "a number": float(x[0]),
        "0-dimensional": x[0],
        "empty": x[:0],
        "complex": x + 1j,
        "complex without an imaginary part": x + 0j,
        "objects": x.astype(object),
        "text": x.astype(str),
        "whole numbers": x.astype(int),
        "booleans": x > 0,
        "half precision": x.astype(np.float16),
        "long double": x.astype(np.longdouble),
        "another byte order": x.astype(x.dtype.newbyteorder()),
        "masked": np.ma.masked_array(x, np.arange(len(x)) == 1),
        "a matrix": np.asmatrix(x),
        "a record": x.view([("a", float)]),
        "a subclass that lies": x.view(LyingArray),
        "a list": x.tolist(),
        "a sparse matrix": pytest.importorskip("scipy.sparse").csr_array(x[None]),
        "text of numbers": str(x),
        "a mapping": dict(enumerate(x)),
        "an object": object(),
    }


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ["weights_", "dual point"])
def test_arrays_outside_their_domain_are_faults(loss, name):
    fusion, S, y = fitted(loss)
    dual = "alpha" if loss == "hinge" else "dual_weights"
    name = dual if name == "dual point" else name
    point = fusion.weights_ if name == "weights_" else getattr(fusion.certificate_, name)
    for kind, value in no_vectors(point).items():
        assert refused(fusion, S, y, name, value), kind
    if name == "weights_":
        refused(fusion, S, y, name, None)


def test_the_dual_point_of_the_other_loss_has_a_domain_too():
    for loss, name in zip(LOSSES, ("dual_weights", "alpha"), strict=True):
        fusion, S, y = fitted(loss)
        for value in (np.full(7, 0.5), "nothing", np.full(4, NAN)):
            refused(fusion, S, y, name, value)


def test_swapped_dual_points_are_faults():
    for loss in LOSSES:
        fusion, S, y = fitted(loss)
        claim = fusion.certificate_
        swapped = forged(fusion, alpha=claim.dual_weights, dual_weights=claim.alpha)
        assert not verify(swapped, S, y).holds


@pytest.mark.parametrize(
    "prior",
    [[1.0], np.ones(5), [NAN] * 4, [INF, 0, 0, 0], [1e10, 0, 0, 0], np.ones(4) * 1j, ["a"] * 4,
     [[1.0]] * 4, "prior", 3.0, object(), {"a": 1.0}, np.ones((4, 1)), [None] * 4],
)  # fmt: skip
def test_priors_outside_their_domain_are_faults(prior):
    fusion, S, y = fitted()
    refused(fusion, S, y, "prior", prior)


def test_priors_below_zero_are_faults_with_nonnegative_weights():
    fusion, S, y = fitted(nonnegative=True)
    refused(fusion, S, y, "prior", [-0.1, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("certificate", [None, "optimal", object(), {}, 0.0])
def test_what_is_no_certificate_does_not_hold(certificate):
    fusion, S, y = fitted()
    other = copy(fusion)
    other.certificate_ = certificate
    found = verify(other, S, y)
    assert not found.holds
    assert len(found.faults) == 7


def test_numbers_of_numpy_and_fractions_hold():
    fusion, S, y = fitted()
    claim = fusion.certificate_
    for kind in (np.float64, Fraction):
        same = forged(fusion, **{name: kind(getattr(claim, name)) for name in FIGURES})
        assert verify(same, S, y).holds
    b = np.float64(fusion.intercept_)
    assert verify(forged(fusion, intercept_=b, p=np.int64(2), radius=Fraction(0.3)), S, y).holds


# -------------------------------------------------------------------------------------------- lies


WRONG = np.array([0.0, 0.0, 0.0, -0.3])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "lie",
    [
        {"primal": -INF, "dual": INF, "gap": -INF, "relative_gap": -INF, "status": "stopped"},
        {"primal": -INF, "dual": INF, "gap": -INF, "relative_gap": -INF, "status": "Optimal"},
        {"primal": 0.0, "dual": 0.0, "rounding": 1e300, "gap": 1e300, "relative_gap": INF},
        {"primal": 0.0, "dual": 0.0, "rounding": 1e300, "gap": 1e300, "relative_gap": 1e300},
        {"primal": 0.0, "dual": 0.0, "rounding": INF, "gap": INF, "relative_gap": INF},
        {"primal": 0.0, "dual": 0.0, "rounding": 1e4, "gap": 1e4, "relative_gap": 1e6},
        {"primal": 0.0, "dual": 0.0, "rounding": 1e4, "gap": 1e4, "relative_gap": 1e6}
        | {"radius": 1e9},
        {"primal": -0.0, "dual": -0.0, "gap": -0.0, "relative_gap": -0.0, "rounding": -0.0},
        {"primal": 5e-324, "dual": 5e-324, "gap": 5e-324, "relative_gap": 5e-324},
        {"primal": 1e308, "dual": 1e308, "gap": 1e308, "relative_gap": 1.0, "rounding": 1e308},
    ],
)  # fmt: skip
def test_wrong_weights_hold_with_no_lie(loss, lie):
    fusion, S, y = fitted(loss)
    for status in ("optimal", "rounding", "stopped", "max_iter"):
        false = forged(fusion, weights_=WRONG, **{"status": status} | lie)
        assert not verify(false, S, y).holds


@pytest.mark.parametrize("loss", LOSSES)
def test_status_of_rounding_must_be_within_tol_and_rounding(loss):
    S, y = rows()
    fusion = LpFusion(p=2, loss=loss, solver="frank-wolfe", max_iter=3).fit(S, y)
    assert verify(fusion, S, y).holds
    assert not verify(forged(fusion, status="rounding"), S, y).holds


@pytest.mark.parametrize("loss", LOSSES)
def test_swapped_figures_do_not_hold(loss):
    S, y = rows()
    fusion = LpFusion(p=2, loss=loss, solver="frank-wolfe", max_iter=3).fit(S, y)
    claim = fusion.certificate_
    for one in FIGURES:
        for two in FIGURES:
            a, b = getattr(claim, one), getattr(claim, two)
            # A lower bound and a larger gap say less than is known, but nothing false.
            if a != b and {one, two} != {"dual", "gap"}:
                assert not verify(forged(fusion, **{one: b, two: a}), S, y).holds, (one, two)


@pytest.mark.parametrize("loss", LOSSES)
def test_parameters_changed_since_the_fit_do_not_hold(loss):
    fusion, S, y = fitted(loss, class_weight="balanced")
    for name, value in {
        "p": 1.5, "radius": 0.31, "fit_intercept": False, "class_weight": None,
        "imaginary_anomalies": 1e-3, "prior": [0.01, 0.0, 0.0, 0.0],
        "loss": LOSSES[loss == "hinge"], "intercept_": fusion.intercept_ + 0.1,
    }.items():  # fmt: skip
        assert not verify(forged(fusion, **{name: value}), S, y).holds, name


@pytest.mark.parametrize("loss", LOSSES)
def test_permuted_columns_labels_and_rows_do_not_hold(loss):
    fusion, S, y = fitted(loss)
    order = np.random.default_rng(1).permutation(len(S))
    assert not verify(fusion, S[:, ::-1], y).holds
    assert not verify(fusion, S, y[order]).holds
    assert not verify(fusion, S[order], y).holds
    assert not verify(fusion, S, -y).holds
    assert not verify(fusion, S, None).holds
    # Least squares needs no multiplier of each row: the same rows in another order are the same.
    assert verify(fusion, S[order], y[order]).holds is (loss == "least_squares")


figures = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -0.0, 5e-324, 1e-16, 1e-8, 1.0, 1e300, INF, -INF, NAN]),
)


@cache
def proven(loss, short):
    """A fit with a small gap, or one that falls short of it, and its verdict."""
    S, y = rows()
    solver = {"solver": "frank-wolfe", "max_iter": 5} if short else {}
    fusion = LpFusion(p=2, loss=loss, **solver).fit(S, y)
    return fusion, S, y, verify(fusion, S, y)


@pytest.mark.parametrize("loss", LOSSES)
def test_rounding_excuses_one_side_at_a_time(loss):
    """Value and bound may each be off by it; a gap that uses it twice is below the proven one."""
    fusion, S, y, honest = proven(loss, True)
    value, bound, off = honest.value[0], honest.bound[1], 1e-8
    figures = {"primal": value - off, "dual": bound + off, "rounding": off, "relative_gap": 1.0}
    found = verify(forged(fusion, gap=value - bound - off, **figures), S, y)
    assert not found.holds
    assert "The proven gap is" in found.sentence()
    assert verify(forged(fusion, gap=value - bound + off, **figures), S, y).holds


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(LOSSES), st.booleans())
def test_no_false_figure_holds(data, loss, short):
    """The property itself: what holds is true up to the rounding that the scores allow."""
    fusion, S, y, honest = proven(loss, short)
    claim = fusion.certificate_
    assert honest.holds
    told = {}
    for name in data.draw(st.sets(st.sampled_from(FIGURES), min_size=1)):
        near = st.floats(-1.0, 1.0).map(lambda e, name=name: getattr(claim, name) * (1 + e * 1e-3))
        told[name] = data.draw(figures | near)
    status = data.draw(st.sampled_from([claim.status, "optimal", "rounding", "stopped"]))
    found = verify(forged(fusion, status=status, **told), S, y)
    says = {name: told.get(name, getattr(claim, name)) for name in FIGURES}
    size = (1 + 8 * np.abs(S).max()) ** (1 + (loss == "least_squares")) * len(S)
    off = 1e-9 * size  # what rounding can do to sums of these rows
    true = (
        all(0.0 <= x < INF for x in says.values())
        and says["rounding"] <= off
        and abs(says["primal"] - honest.value[1]) <= off
        and says["dual"] <= honest.bound[1] + off
        and says["gap"] >= honest.gap - 1e-12 * honest.value[1]
        and says["relative_gap"] >= honest.relative_gap - 1e-12
        and (status != "optimal" or honest.relative_gap <= 1e-8 + 1e-12)
    )
    assert true or not found.holds


# ---------------------------------------------------------------------------- certificates in files


@pytest.mark.parametrize("name", ["gap", "relative_gap", "rounding"])
@pytest.mark.parametrize("value", [-INF, -1.0, -5e-324])
def test_certificates_below_zero_are_not_made(name, value):
    fusion, _, _ = fitted()
    with pytest.raises(ValueError, match="at least 0"):
        replace(fusion.certificate_, **{name: value})
    with pytest.raises(ValueError, match="at least 0"):
        Certificate(**{**vars(fusion.certificate_), name: value})


@pytest.mark.parametrize("name", ["gap", "relative_gap", "rounding"])
def test_files_with_gaps_below_zero_are_refused(name, tmp_path, monkeypatch):
    fusion, _, _ = fitted()
    with monkeypatch.context() as patch:  # as a forger writes it
        patch.setattr(Certificate, "not_below_zero", ())
        save(forged(fusion, **{name: -INF}), tmp_path / "lie.lpfuse")
    with pytest.raises(ValueError, match="at least 0"):
        lpfuse.load(tmp_path / "lie.lpfuse")


def test_files_hold_known_statuses_only(tmp_path):
    fusion, _, _ = fitted()
    with pytest.raises(TypeError, match="none of the strings"):
        save(forged(fusion, status="Optimal"), tmp_path / "lie.lpfuse")


# ------------------------------------------------------------------------------------------- scale


@pytest.fixture(scope="module", params=["cross", "split"])
def fused(request):
    X = np.random.default_rng(0).normal(size=(300, 3))
    X[:20] += 3
    y = np.where(np.arange(300) < 20, -1, 1)
    pool = [("kpca", KernelPCADetector()), ("gmm", GMMDetector())]
    return FusedDetector(pool, calibration=request.param, random_state=0).fit(X, y)


def with_scaler(fused, scaler):
    other = copy(fused)
    other.result_ = replace(fused.result_, combination=Combination(scaler, fused.fusion_))
    return other


def altered(scaler, **attributes):
    other = deepcopy(scaler)
    vars(other).update(attributes)
    return other


def false_scales(fused):
    kept, used = fused.out_of_fold_, fused.scaler_
    normal = kept.scores[kept.usable & (kept.labels > 0)]
    return {
        "another class, fitted alike": TailScaler().fit(normal),
        "of scikit-learn": StandardScaler().fit(normal),
        "fitted to other rows": TwoSidedMinMax().fit(normal[: len(normal) // 2]),
        "moved": altered(used, lower_=used.lower_ - 1e-6),
        "columns exchanged": altered(used, lower_=used.lower_[::-1], upper_=used.upper_[::-1]),
        "wider": altered(used, upper_=used.upper_ + np.array([1e-6, 0.0])),
        "another range": altered(used, feature_range=(0, 1)),
        "another share": altered(used, rho=10.0),
        "hard limits": altered(used, clip=True),
        "NaN": altered(used, lower_=used.lower_ * NAN),
        "text": altered(used, lower_="low"),
        "of another length": altered(used, lower_=used.lower_[:1]),
        "not fitted": TwoSidedMinMax(),
        "none": None,
        "a string": "TwoSidedMinMax",
    }


def test_exchanged_and_altered_scales_are_noticed(fused):
    assert isinstance(fused.scaler_, TwoSidedMinMax)
    assert verify(with_scaler(fused, deepcopy(fused.scaler_))).holds
    for name, scaler in false_scales(fused).items():
        found = verify(with_scaler(fused, scaler))
        assert not found.holds, name
        assert found.faults, name


def test_altered_scales_after_recalibration_are_noticed(fused, tmp_path):
    fused.save(tmp_path / "model.lpfuse")
    moved = lpfuse.load(tmp_path / "model.lpfuse")
    moved.recalibrate(np.random.default_rng(1).normal(1.0, 2.0, size=(300, 3)))
    assert not np.allclose(moved.scaler_.lower_, fused.scaler_.lower_)
    assert verify(moved).holds
    used = moved.scaler_
    false = altered(used, lower_=used.lower_ - 1e-6)
    assert "scaler_ is neither" in verify(with_scaler(moved, false)).sentence()
    false = altered(used, upper_=used.upper_[::-1].copy())
    assert not verify(with_scaler(moved, false)).holds


def test_altered_stored_scores_do_not_hold(fused):
    kept = fused.out_of_fold_
    scores, nothing = kept.scores, np.full(len(kept.labels), NAN)
    for name, value in [
        ("scores", scores[:, ::-1]), ("labels", -kept.labels), ("weights", nothing),
        ("scores", scores + 1j), ("scores", scores.astype(str)), ("scores", scores[:, :1]),
        ("scores", None), ("scores", scores[:0]), ("labels", "normal"), ("labels", None),
    ]:  # fmt: skip
        other = copy(fused)
        other.result_ = replace(fused.result_, out_of_fold=replace(kept, **{name: value}))
        found = verify(other)
        assert not found.holds, name
        assert found.faults, name


# ----------------------------------------------------------------------------------- what is shared

SHARED = {
    "lpfuse._arrays.operations": {"is_blocked", "is_numpy", "to_host"},
    "lpfuse._format": {"number", "quote"},
    "lpfuse._validation.params": {"check_labels", "check_sample_weight"},
    "lpfuse._validation.tables": {"check_scores", "column_names"},
}


def test_the_checker_shares_what_its_docstring_lists():
    """What it imports of the package is what the docstring and the decision say, name by name."""
    found = {}
    for path in Path(verification.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                assert not any(alias.name.startswith("lpfuse") for alias in node.names)
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0
                if node.module.startswith("lpfuse") and "verification" not in node.module:
                    found.setdefault(node.module, set()).update(a.name for a in node.names)
    assert found == SHARED
    decision = Path(__file__).parents[4] / "docs/adr/0038-a-checker-of-its-own.md"
    for text in (verification.__doc__, decision.read_text("utf-8")):
        for names in SHARED.values():
            for name in names:
                assert re.search(rf"`{name}`", text), name
