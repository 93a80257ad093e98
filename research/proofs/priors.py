"""Priors made to break a certificate: centres of all kinds and scales, radii from nothing on."""

from __future__ import annotations

from typing import Any

import numpy as np


def draw_prior(rng: np.random.Generator, R: int, nonnegative: bool) -> dict[str, Any]:
    """A centre of any kind and scale, and a radius from nothing to far beyond it."""
    kinds = (
        np.zeros(R), np.full(R, 1 / R), np.eye(R)[int(rng.integers(R))], rng.random(R),
        rng.random(R) * (rng.random(R) < 0.5), rng.normal(size=R), 10.0 ** rng.uniform(-12, 3, R),
    )  # fmt: skip
    prior = kinds[int(rng.integers(len(kinds)))]
    if rng.random() < 0.3:
        prior = prior * 10.0 ** rng.uniform(-9, 6)
    radius = float(rng.choice([0.0, 1e-3, 0.1, 0.5, 1.0, 1.0, 10.0, 10.0 ** rng.uniform(-18, 6)]))
    if rng.random() < 0.1:  # w = 0 on the surface, where the pull of all bounds meets
        radius = float(np.linalg.norm(prior, rng.choice([1, 2, np.inf])))
    return {"prior": np.abs(prior) if nonnegative else prior, "radius": radius}
