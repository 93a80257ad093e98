"""Problems of reports, as they were quoted: the first seeds of their families."""

from __future__ import annotations

from typing import Any

import numpy as np

_OFFSETS = [[80000009, 60000003], [80000001, 59999999], [79999996, 59999997], [79999997, 59999996]]


def _problem(S: Any, y: Any, weight: Any = None, **parameters: Any) -> dict[str, Any]:
    return {
        "S": np.asarray(S, dtype=np.float64),
        "y": np.asarray(y, dtype=np.float64),
        "sample_weight": None if weight is None else np.asarray(weight, dtype=np.float64),
        "parameters": parameters,
    }


def _decaying(seed: int) -> dict[str, Any]:
    """Half-life of 8 rows; the oldest of them are of broken sensors."""
    rng, n = np.random.default_rng(seed), 500
    y = np.where(rng.random(n) < 0.1, -1, 1)
    S = rng.normal(size=(n, 3)) * 0.5 + 3 * y[:, None]
    S[:50] = rng.normal(size=(50, 3)) * 5
    weight = np.exp(-np.arange(n)[::-1] / 12.0)
    return _problem(S, y, weight, p=2.0, fit_intercept=True, class_weight="balanced")


def _offset(seed: int, scale: float) -> dict[str, Any]:
    rng, n, R = np.random.default_rng(seed), 100, 5
    y = np.where(rng.random(n) < 0.1, -1, 1)
    S = rng.normal(size=(n, R)) + 0.5 * y[:, None]
    S += np.round(scale * rng.uniform(-1, 1, size=R))
    return _problem(
        S, y, p=(1.0, 4 / 3, 2.0)[seed % 3], loss="least_squares", nonnegative=bool(seed % 2),
        imaginary_anomalies=3.0,
    )  # fmt: skip


QUOTED: dict[str, tuple[dict[str, Any], ...]] = {
    "tiny weights, intercept": (
        _problem(
            [[3, 3], [4, 3], [-3, -3], [-4, -3], [50, 50]], [1, 1, -1, -1, -1],
            [1, 1, 1, 1, 1e-16], p=2.0, fit_intercept=True,
        ),
    ),
    "decaying weights, intercept": tuple(_decaying(seed) for seed in range(10)),
    "least squares, whole offsets": (
        _problem(_OFFSETS, [1, 1, -1, -1], p=2.0, loss="least_squares"),
    ),
    "least squares, offsets": tuple(
        _offset(seed, scale) for scale in (1e3, 1e4, 1e5, 1e6, 1e7, 1e8) for seed in range(6)
    ),
    "huge weights": (
        _problem([[1.0, 2.0], [2.0, 1.0], [-1.0, 0.5]], [1, 1, -1], [1e308] * 3, p=2.0),
        _problem([[1.0, 2.0], [2.0, 1.0], [-1.0, 0.5]], [1, 1, -1], [1e308, 1.0, 1.0], p=2.0),
    ),
}  # fmt: skip
