"""Scores for tables too long to be drawn, or held, as a whole; in NumPy or on a device.

The rows are of the kind of `research.speed.solver.problems.synthetic_scores`. What all rows share,
the `Learners`, is known from a few numbers, so that any process can draw its own block of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np

from research.common.judge import Matrix, Vector
from research.speed.solver.problems import OUTLIER_FRACTION

PILOT_ROWS = 20_000  # that the scale is taken from, as in `synthetic_scores`


@dataclass(frozen=True)
class Learners:
    """R one-class learners of different skill: how they see the quality of a sample."""

    skill: Vector
    shift: Vector
    low: Vector
    width: Vector

    @classmethod
    def drawn(cls, R: int, seed: int) -> Learners:
        """Scaled so that 2 % of the scores of normal rows lie below 0 and 2 % above 1."""
        rng = np.random.default_rng(seed)
        skill = rng.uniform(0.3, 0.9, R)
        shift = 0.5 * np.log(rng.uniform(2.0, 6.0, R) / rng.uniform(1.2, 4.0, R))
        unscaled = cls(skill, shift, np.zeros(R), np.ones(R))
        scores, _ = unscaled.block(PILOT_ROWS, 0.0, rng)
        low, high = np.quantile(scores, [0.02, 0.98], axis=0)
        return cls(skill, shift, low, high - low)

    def block(
        self, n: int, negative_fraction: float, rng: np.random.Generator
    ) -> tuple[Matrix, Vector]:
        """Scores and labels (±1) of n rows."""
        labels = np.where(rng.random(n) < negative_fraction, -1.0, 1.0)
        outlying = (labels > 0) & (rng.random(n) < OUTLIER_FRACTION)
        level = quality(labels, outlying, rng.standard_normal(n))
        return self.seen(level, rng.standard_normal((n, self.skill.size))), labels

    def on_device(
        self, n: int, negative_fraction: float, seed: int, device: Any
    ) -> tuple[Any, Any]:
        """The same kind of rows as torch tensors in float64, drawn where they will live."""
        import torch

        source = torch.Generator(device).manual_seed(seed)
        where: dict[str, Any] = {"generator": source, "device": device, "dtype": torch.float64}
        one = torch.ones((), device=device, dtype=torch.float64)
        labels = torch.where(torch.rand(n, **where) < negative_fraction, -one, one)
        outlying = (labels > 0) & (torch.rand(n, **where) < OUTLIER_FRACTION)
        level = quality(labels, outlying, torch.randn(n, **where))
        return self.seen(level, torch.randn((n, self.skill.size), **where)), labels

    def seen(self, level: Any, noise: Any) -> Any:
        """Scores (n, R) of samples of this quality, each learner with its own noise and warp."""
        xp = array_api_compat.array_namespace(noise)
        device = array_api_compat.device(noise)
        parts = self.skill, np.sqrt(1.0 - self.skill**2), self.shift, self.low, self.width
        skill, blur, shift, low, width = (xp.asarray(part, device=device) for part in parts)
        noise *= blur
        noise += level[:, None] * skill
        return (1.0 / (1.0 + xp.exp(-0.9 * noise - shift)) - low) / width


def quality(labels: Any, outlying: Any, noise: Any) -> Any:
    """What all learners see of a sample: anomalies and outlying normals lie lower."""
    return noise - 1.6 * (labels < 0) - 2.5 * outlying
