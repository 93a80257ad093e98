"""Problems as users may bring them, and odd ones: each known by its seed, with what kind it is.

`research.proofs.families` is made to break certificates. Here four in five problems are of a usual
scale, so that it can be counted how many of those end short of the tolerance, and of which kind.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from research.proofs.families import HARD, WEIGHTS, FusionInput
from research.proofs.priors import draw_prior

Rng = np.random.Generator
EXPONENTS = (1.0, 1.01, 4 / 3, 2.0, 7.0, 100.0, math.inf)
# Of a usual scale: scores of size 1 or so, or whole numbers up to some thousands.
USUAL = (
    "plain", "duplicates", "ties", "constant columns", "collinear columns", "separable",
    "near the kink", "zero scores",
)  # fmt: skip
ODD = (
    "scale", "scale by column", "hinge, offsets", "integers", "outliers", "heavy tails",
    "products that underflow", "enormous scores", "weights of all scales", "one huge weight",
)  # fmt: skip
SHARE_OF_ODD = 0.2


class Drawn(NamedTuple):
    """A problem and what kind it is."""

    problem: FusionInput
    kind: str  # a name in `USUAL` or `ODD`
    is_usual: bool
    has_prior: bool


def draw(seed: int) -> Drawn:
    """The problem with this seed: 1 to 300 rows, 1 to 40 columns, tol = 1e-8.

    Examples
    --------
    >>> draw(3).kind == draw(3).kind, draw(3).problem.S.shape == draw(3).problem.S.shape
    (True, True)
    """
    rng = np.random.default_rng([seed, *b"drawn"])
    usual = rng.random() >= SHARE_OF_ODD
    kind = str(rng.choice(USUAL if usual else ODD))
    n = int(rng.integers(1, 301) if rng.random() < 0.7 else rng.integers(1, 20))
    R = int(rng.integers(1, 41) if rng.random() < 0.5 else rng.integers(1, 9))
    y = np.where(rng.random(n) < rng.choice([0.02, 0.1, 0.3, 0.5]), -1.0, 1.0)
    y[int(rng.integers(n))] = 1.0  # anomalies alone are refused, which tells nothing
    S = rng.normal(size=(n, R)) + rng.choice([0.0, 0.3, 1.0, 3.0]) * y[:, None] * rng.random(R)
    if kind == "constant columns":
        S[:, rng.random(R) < 0.4] = rng.choice([0.0, 1.0, -1.0, 0.3])
    elif kind == "separable":
        S = 0.1 * S + y[:, None] * 10.0 ** rng.uniform(-1, 2)
    else:
        S = HARD[kind][0](rng, S, y)
    parameters = _parameters(rng)
    has_prior = bool(rng.random() < 0.2)
    if has_prior:
        parameters |= _usual_prior(rng, R) if usual else draw_prior(rng, R, True)
    labels = None if rng.random() < 0.1 else y
    return Drawn(
        FusionInput(S, labels, _weight(rng, S, y, usual, kind), parameters), kind, usual, has_prior
    )


def _parameters(rng: Rng) -> dict[str, Any]:
    return {
        "p": float(rng.choice(EXPONENTS)),
        "loss": str(rng.choice(["hinge", "least_squares"])),
        "fit_intercept": bool(rng.random() < 0.5),
        "nonnegative": bool(rng.random() < 0.4),
        "class_weight": "balanced" if rng.random() < 0.5 else None,
        "imaginary_anomalies": float(rng.choice([0.0, 0.0, 3.0])),
    }


def _usual_prior(rng: Rng, R: int) -> dict[str, Any]:
    prior = np.full(R, 1 / R) if rng.random() < 0.5 else rng.random(R) * (rng.random(R) < 0.7)
    return {"prior": prior, "radius": float(rng.choice([0.0, 0.1, 0.5, 1.0]))}


def _weight(rng: Rng, S: Any, y: Any, usual: bool, kind: str) -> Any:
    if fixed := HARD[kind][1]:
        if not usual:
            return fixed(rng, S, y)
    elif not usual:
        return WEIGHTS[int(rng.integers(len(WEIGHTS)))](rng, S, y)
    weight = rng.random(len(S)) + 1e-3
    which = rng.random()
    if which < 0.5:
        return None
    if which < 0.75:
        weight[rng.random(len(S)) < 0.4] = 0.0
        weight[np.flatnonzero(y > 0)[0]] = 1.0
    return weight
