"""Problems made to break a certificate: wide scales, offsets, ties, outliers, odd weights.

A problem is known by family and seed. A family fixes what is hard about it (`HARD`); all else is
drawn: sizes, p, loss, intercept, sign, class weights, imaginary anomalies, tolerance, and in the
families of priors the centre and radius of the ball. Where some are quoted in a report, seeds 0, 1,
… are those (`research.proofs.quoted`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from research.proofs.norms import draw_norm
from research.proofs.priors import draw_prior
from research.proofs.quoted import QUOTED

Array = np.ndarray
Rng = np.random.Generator
GRID = (1.0, 32 / 31, 16 / 15, 8 / 7, 4 / 3, 2.0, 4.0, 10.0, 100.0, math.inf)
EXTREME = (1 + 1e-8, 1 + 1e-6, 1.001, 1.01, 1.5, 3.0, 1e3, 1e6, 1e9)


@dataclass
class FusionInput:
    """What `LpFusion(**parameters).fit(S, y, sample_weight)` is called with.

    `form` is how: "fit"; "path", `lp_path` over some p; "blocks" of Dask; "tensors" of torch.
    """

    S: Array
    y: Array | None
    sample_weight: Array | None
    parameters: dict[str, Any] = field(default_factory=dict)
    form: str = "fit"


def make(family: str, seed: int) -> FusionInput:
    """The problem of a family with this seed.

    Examples
    --------
    >>> problem = make("ties", 3)
    >>> problem.S.shape == make("ties", 3).S.shape, problem.parameters["p"] in GRID
    (True, True)
    """
    quoted = QUOTED.get(family, ())
    if seed < len(quoted):
        return FusionInput(**quoted[seed])
    rng = np.random.default_rng([seed, *family.encode()])
    scores, weights, fixed = HARD[family]
    S, labels = _plain(rng, many=family.endswith("many rows"))
    S = _mixture(rng, S, labels) if scores is None else scores(rng, S, labels)
    weight = (weights or _any_weight)(rng, S, labels)
    y: Array | None = labels
    if family == "one class" or rng.random() < 0.03:
        y = None if rng.random() < 0.5 else np.ones(len(S))
    parameters = _parameters(rng) | fixed
    if family.endswith("extreme p"):
        parameters["p"] = float(rng.choice(EXTREME))
    if family.startswith("groups"):
        parameters |= draw_norm(rng, S.shape[1])
        if "prior" in family:
            parameters["nonnegative"] = False
    if "prior" in family:
        parameters |= draw_prior(rng, S.shape[1], parameters["nonnegative"])
    return FusionInput(S, y, weight, parameters, FORMS.get(family, "fit"))


def _parameters(rng: Rng) -> dict[str, Any]:
    return {
        "p": float(rng.choice(GRID)),
        "loss": "least_squares" if rng.random() < 0.4 else "hinge",
        "fit_intercept": bool(rng.random() < 0.5),
        "nonnegative": bool(rng.random() < 0.3),
        "class_weight": "balanced" if rng.random() < 0.4 else None,
        "imaginary_anomalies": float(rng.choice([0.0, 0.0, 0.0, 3.0, 10.0 ** rng.uniform(-8, 8)])),
        "tol": float(rng.choice([1e-8, 1e-8, 1e-8, 1e-8, 1e-3, 1e-5, 1e-10, 1e-12])),
    }


def _plain(rng: Rng, many: bool) -> tuple[Array, Array]:
    """Normal rows around μ, anomalies around −μ or anywhere; how well they separate is drawn."""
    n = int(rng.integers(1, 401) if rng.random() < 0.05 else 1 + 60 * rng.random() ** 1.5)
    if many:
        n = int(10 ** rng.uniform(2.6, 4.2))
    R = int(rng.integers(1, 9))
    y = np.where(rng.random(n) < rng.choice([0.02, 0.1, 0.3, 0.5]), -1.0, 1.0)
    distance = rng.choice([0.0, 0.3, 1.0, 3.0])
    return rng.normal(size=(n, R)) + distance * y[:, None] * rng.random(R), y


# ------------------------------------------------------------------------------------------ scores


def _as_is(rng: Rng, S: Array, y: Array) -> Array:
    return S


def _scaled(rng: Rng, S: Array, y: Array) -> Array:
    return S * 10.0 ** rng.uniform(-12, 12)


def _columns_scaled(rng: Rng, S: Array, y: Array) -> Array:
    return S * 10.0 ** rng.uniform(-12, 12, size=S.shape[1])


def _far_away(rng: Rng, S: Array, y: Array) -> Array:
    far = 10.0 ** rng.uniform(0, 8) * rng.uniform(-1, 1, size=S.shape[1])
    return S + (np.round(far) if rng.random() < 0.5 else far)


def _integers(rng: Rng, S: Array, y: Array) -> Array:
    return np.round(S * rng.choice([1.0, 3.0, 1e3, 1e9]))


def _integers_far_away(rng: Rng, S: Array, y: Array) -> Array:
    return np.round(S * 10) + np.round(10.0 ** rng.uniform(2, 9, size=S.shape[1]))


def _ties(rng: Rng, S: Array, y: Array) -> Array:
    few = rng.normal(size=int(rng.integers(1, 4)))
    return rng.choice(few, size=S.shape)


def _duplicates(rng: Rng, S: Array, y: Array) -> Array:
    return S[rng.integers(0, max(1, len(S) // 5), size=len(S))]


def _constants(rng: Rng, S: Array, y: Array) -> Array:
    S = S.copy()
    flat = rng.random(S.shape[1]) < 0.5
    S[:, flat] = rng.choice(
        [0.0, 1.0, -1.0, 1e-300, 1e8, rng.normal()], size=np.count_nonzero(flat)
    )
    return S


def _collinear(rng: Rng, S: Array, y: Array) -> Array:
    rank = int(rng.integers(1, S.shape[1] + 1))
    mixed = S[:, :rank] @ rng.normal(size=(rank, S.shape[1]))
    return mixed + rng.choice([0.0, 1e-15, 1e-12, 1e-9, 1e-6]) * rng.normal(size=S.shape)


def _separable(rng: Rng, S: Array, y: Array) -> Array:
    return S * rng.choice([0.0, 1e-8, 0.1, 1.0]) + y[:, None] * 10.0 ** rng.uniform(-1, 4)


def _heavy_tails(rng: Rng, S: Array, y: Array) -> Array:
    return rng.standard_t(rng.choice([0.3, 0.7, 1.0, 2.0]), size=S.shape).clip(-1e150, 1e150)


def _outliers(rng: Rng, S: Array, y: Array) -> Array:
    S = S.copy()
    some = np.less(rng.random(S.shape), rng.choice([1 / S.size, 0.02, 0.2]))
    S[some] *= 10.0 ** rng.uniform(6, 12, size=np.count_nonzero(some))
    return S


def _near_the_kink(rng: Rng, S: Array, y: Array) -> Array:
    """Residuals at 0 to the last digit, for unit vectors and for the uniform weights."""
    S = y[:, None] * rng.choice([1.0, 1.0, 1 - 2.0**-53, 1 + 2.0**-52], size=S.shape)
    S[rng.random(len(S)) < 0.1] *= -1
    return S


def _single(rng: Rng, S: Array, y: Array) -> Array:
    return (S * 10.0 ** rng.uniform(-5, 5)).astype(np.float32)


def _exact_zeros(rng: Rng, S: Array, y: Array) -> Array:
    return np.where(rng.random(S.shape) < 0.7, 0.0, S)


def _broken_past(rng: Rng, S: Array, y: Array) -> Array:
    """The oldest rows, which come first, are of broken sensors."""
    S = 0.5 * S + 3 * y[:, None]
    old = max(1, len(S) // 3)
    S[:old] = rng.normal(size=(old, S.shape[1])) * rng.choice([5.0, 50.0, 1e4])
    return S


def _denormal(rng: Rng, S: Array, y: Array) -> Array:
    return S * 10.0 ** rng.uniform(-323, -290)


def _large(rng: Rng, S: Array, y: Array) -> Array:
    return S * 10.0 ** rng.uniform(40, 102)


def _small(rng: Rng, S: Array, y: Array) -> Array:
    return S * 10.0 ** rng.uniform(-170, -100)


def _enormous(rng: Rng, S: Array, y: Array) -> Array:
    return S * 10.0 ** (rng.uniform(12, 101) if rng.random() < 0.8 else rng.uniform(99, 307))


SCORES: tuple[Callable[[Rng, Array, Array], Array], ...] = (
    _as_is, _scaled, _columns_scaled, _far_away, _integers, _integers_far_away, _ties, _duplicates,
    _constants, _collinear, _separable, _heavy_tails, _outliers, _near_the_kink, _exact_zeros,
    _broken_past,
)  # fmt: skip


def _mixture(rng: Rng, S: Array, y: Array) -> Array:
    """Two things at once, one after the other."""
    for k in rng.integers(len(SCORES), size=2):
        S = SCORES[k](rng, S, y)
    return S


# ----------------------------------------------------------------------------------------- weights


def _equal(rng: Rng, S: Array, y: Array) -> Array | None:
    return None


def _uniform(rng: Rng, S: Array, y: Array) -> Array:
    return rng.random(len(S)) + 1e-3


def _decay(rng: Rng, S: Array, y: Array) -> Array:
    """exp(−age / 12), down to denormals over long ages; the last row is the newest."""
    age = np.arange(len(S))[::-1] * rng.choice([1.0, 3.0, 700 * 12 / len(S), 744 * 12 / len(S)])
    return np.exp(-age / 12)


def _mixed_scales(rng: Rng, S: Array, y: Array) -> Array:
    return 10.0 ** rng.uniform(-16, 16, size=len(S))


def _some_tiny(rng: Rng, S: Array, y: Array) -> Array:
    tiny = rng.random(len(S)) < rng.choice([1 / len(S), 0.3, 0.9])
    return np.where(tiny, 10.0 ** -rng.choice([8.0, 12.0, 15.0, 16.0, 17.0, 20.0, 100.0]), 1.0)


def _some_zero(rng: Rng, S: Array, y: Array) -> Array:
    weight = np.where(rng.random(len(S)) < 0.4, 0.0, rng.random(len(S)))
    weight[int(rng.integers(len(S)))] = 1.0
    return weight


def _beyond(rng: Rng, last: float) -> float:
    """An exponent: mostly one that the entrance lets in (its limits are at 100), or any."""
    return float(rng.uniform(50, 101) if rng.random() < 0.8 else rng.uniform(99, last))


def _huge(rng: Rng, S: Array, y: Array) -> Array:
    return (rng.random(len(S)) + 1e-6) * 10.0 ** _beyond(rng, 308)


def _one_huge(rng: Rng, S: Array, y: Array) -> Array:
    weight = np.ones(len(S))
    weight[int(rng.integers(len(S)))] = 10.0 ** rng.choice([12.0, 16.0, 20.0, 100.0, 300.0])
    return weight


def _minute(rng: Rng, S: Array, y: Array) -> Array:
    return (rng.random(len(S)) + 1e-6) * 10.0 ** -_beyond(rng, 323)


def _heavy(rng: Rng, S: Array, y: Array) -> Array:
    return rng.random(len(S)) * 10.0 ** rng.uniform(40, 100)


def _light(rng: Rng, S: Array, y: Array) -> Array:
    return rng.random(len(S)) * 10.0 ** -rng.uniform(40, 100)


def _light_class(rng: Rng, S: Array, y: Array) -> Array:
    """One class weighs next to nothing, so that its total as a difference cancels."""
    light = 10.0 ** -rng.uniform(8, 40)
    return np.where(y > 0, 1.0, light) if rng.random() < 0.5 else np.where(y > 0, light, 1.0)


WEIGHTS: tuple[Callable[[Rng, Array, Array], Array | None], ...] = (
    _equal, _equal, _equal, _uniform, _decay, _mixed_scales, _some_tiny, _some_zero, _one_huge,
    _light_class,
)  # fmt: skip


def _any_weight(rng: Rng, S: Array, y: Array) -> Array | None:
    return WEIGHTS[int(rng.integers(len(WEIGHTS)))](rng, S, y)


# ---------------------------------------------------------------------------------------- families

B, HINGE, SQUARES = {"fit_intercept": True}, {"loss": "hinge"}, {"loss": "least_squares"}
# Scores (None: a mixture), weights (None: any), and the parameters that are not drawn.
HARD: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "tiny weights, intercept": (_separable, _some_tiny, HINGE | B),
    "decaying weights, intercept": (_broken_past, _decay, B),
    "least squares, offsets": (_far_away, None, SQUARES),
    "least squares, whole offsets": (_integers_far_away, _equal, SQUARES),
    "balanced, light class": (_as_is, _light_class, {"class_weight": "balanced"}),
    "huge weights": (_as_is, _huge, {}),
    "hinge, offsets": (_far_away, None, HINGE),
    "hinge, offsets, intercept": (_far_away, None, HINGE | B),
    "plain": (_as_is, _equal, {}),
    "scale": (_scaled, None, {}),
    "scale by column": (_columns_scaled, None, {}),
    "integers": (_integers, None, {}),
    "ties": (_ties, None, {}),
    "duplicates": (_duplicates, None, {}),
    "constant columns": (_constants, None, {}),
    "collinear columns": (_collinear, None, {}),
    "separable": (_separable, None, {}),
    "heavy tails": (_heavy_tails, None, {}),
    "outliers": (_outliers, None, {}),
    "near the kink": (_near_the_kink, None, {}),
    "zero scores": (_exact_zeros, None, {}),
    "weights of all scales": (_as_is, _mixed_scales, {}),
    "zero weights": (_as_is, _some_zero, {}),
    "one huge weight": (_as_is, _one_huge, {}),
    "minute weights": (_as_is, _minute, {}),
    "single precision": (_single, None, {}),
    "denormal scores": (_denormal, None, {}),
    "enormous scores": (_enormous, None, {}),
    "products that overflow": (_large, _heavy, {}),
    "products that underflow": (_small, _light, {}),
    "extreme p": (None, None, {}),
    "one class": (None, None, {}),
    "many rows": (None, None, {}),
    "path": (None, None, {}),
    "blocks": (None, None, {}),
    "tensors": (None, None, {}),
    "Frank–Wolfe": (None, None, {"solver": "frank-wolfe", "max_iter": 50}),
    "mixtures": (None, None, {}),
    "mixtures, intercept": (None, None, B),
    "mixtures, least squares": (None, None, SQUARES),
    "prior": (_as_is, None, {}),
    "prior, w ≥ 0": (_as_is, None, {"nonnegative": True}),
    "prior, w ≥ 0, mixtures": (None, None, {"nonnegative": True}),
    "prior, mixtures, intercept": (None, None, HINGE | B),
    "prior, least squares": (None, None, SQUARES),
    "prior, extreme p": (None, None, {}),
    "prior, path": (None, None, {}),
    "prior, blocks": (None, None, {}),
    "prior, Frank–Wolfe": (None, None, {"solver": "frank-wolfe", "max_iter": 50}),
    "prior, many rows": (None, None, {}),
    "groups": (_as_is, None, {}),
    "groups, mixtures": (None, None, {}),
    "groups, hinge, intercept": (None, None, HINGE | B),
    "groups, least squares": (None, None, SQUARES),
    "groups, prior": (None, None, {}),
    "groups, many rows": (None, None, {}),
    "groups, path": (None, None, {}),
    "groups, blocks": (None, None, {}),
    "groups, Frank–Wolfe": (None, None, {"solver": "frank-wolfe", "max_iter": 50}),
}
FORMS = {
    "path": "path", "blocks": "blocks", "tensors": "tensors", "prior, path": "path",
    "prior, blocks": "blocks", "groups, path": "path", "groups, blocks": "blocks",
}  # fmt: skip
FAMILIES = tuple(HARD)
