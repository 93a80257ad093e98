"""Moments of least squares: one pass over the scores, then R×R matrices only.

With r = 1 − y(Sw + b) and y² = 1, f(w, b) = Σ c (y − Sw − b)² is a quadratic in G = SᵀCS, SᵀCy and
the weighted means; the intercept is eliminated by centring.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lpfuse._arrays.operations import Array, Host, is_numpy, like, total
from lpfuse.optim.balls import LpBall
from lpfuse.optim.bounds import additions_per_term, gamma, row_products
from lpfuse.optim.results import Bounds, Candidate

if TYPE_CHECKING:
    from lpfuse.optim.problem import Block, Problem


@dataclass(frozen=True)
class Moments:
    """``f(w, b) = constant − 2 cross·w + wᵀ gram w + mass (b − b*)²``.

    ``b* = mean_label − (mean_score + shift)·w`` is the best intercept for w. Without an intercept
    all three are 0, and so is b.
    """

    gram: Host
    cross: Host
    constant: float
    mean_score: Host  # of the scores less `shift`
    mean_label: float
    mass: float
    shift: Host
    spread: float  # Σ c ‖s − shift‖²
    summed: float  # how often a sum over rows has rounded one of its terms

    @classmethod
    def of(cls, problem: Problem) -> Moments:
        """Compute the moments in one pass over the scores."""
        k, shift = problem.total_cost, np.zeros(problem.R)
        if problem.fit_intercept:
            # Scores are shifted near their mean first: sums of squares of scores far from zero
            # would cancel in the centring.
            assert problem.origin is not None  # least squares has one with an intercept
            shift = problem.origin
        work = partial(_moments, shift if problem.fit_intercept else None)
        gram, cross, total_score, total_label, summed = problem.reduce(work, _add)
        if not problem.fit_intercept:
            return cls(gram, cross, k, shift, 0.0, k, shift, float(np.trace(gram)), summed)
        mean_score, mean_label = total_score / k, float(total_label) / k
        return cls(
            gram - k * np.outer(mean_score, mean_score),
            cross - k * mean_label * mean_score,
            k * (1.0 - mean_label**2),
            mean_score,
            mean_label,
            k,
            shift,
            float(np.trace(gram)),
            summed,
        )

    def bounds(self, ball: LpBall, candidate: Candidate) -> Bounds:
        """``f(w, b)``, and ``D(α)`` for the multipliers ``α_i = 2 r_i(w̃, b*)`` of dual weights w̃.

        With z = y − Sw̃ − b* = y r, Σ c z = 0 and y² = 1: Σ c (α − α²/4) = Σ c (2 y z − z²), where
        Σ c y z = constant − cross·w̃ and Σ c z² = constant − 2 cross·w̃ + w̃ᵀGw̃, and
        Σ c α y s = 2 (cross − G w̃).
        """
        w, dual_w = candidate.point[: self.cross.size], candidate.dual_weights
        value = self.constant - 2.0 * float(self.cross @ w) + float(w @ self.gram @ w)
        value_error = self._rounding(w) * self._size(w) ** 2
        if candidate.point.size > w.size:
            b = float(candidate.point[-1])
            missed = abs(b - self.intercept(w))
            means = np.abs(self.mean_score) + np.abs(self.shift)
            off = gamma(w.size + 8) * (abs(b) + 1.0 + float(means @ np.abs(w)))
            value += self.mass * missed**2
            value_error += self.mass * off * (2.0 * missed + off)
        found = Bounds(max(value, 0.0), -math.inf, value_error)
        if dual_w is None:
            return found
        curved = self.gram @ dual_w
        slope = 2.0 * (self.cross - curved)
        pull, size = ball.support_size(slope), self._size(dual_w)
        error = size**2 + ball.stretch(w.size, 2.0) * self.spread**0.5 * size
        return found._replace(
            dual=self.constant - float(dual_w @ curved) - ball.support(slope),
            dual_error=self._rounding(w) * (error + pull),
            pull=pull,
        )

    def _size(self, w: Host) -> float:
        """``√Σ c (1 + |s − shift|·|w|)²`` at most: the size of the terms that f(w) consists of."""
        return self.mass**0.5 + (self.spread * float(w @ w)) ** 0.5

    def _rounding(self, w: Host) -> float:
        """Return the relative error of sums of such terms.

        Each entry of G and of SᵀCy is a centred sum over rows, and f uses R² of them: a factor of
        2, doubled for safety.
        """
        return 4.0 * gamma(self.summed + 4.0 * w.size + 64.0)

    @cached_property
    def null_space(self) -> Host:
        """Null space of the Gram matrix, as columns."""
        eigenvalues, vectors = np.linalg.eigh(self.gram)
        return vectors[:, eigenvalues <= 1e-12 * max(float(eigenvalues[-1]), 1e-300)]

    def intercept(self, w: Host) -> float:
        """Return the optimal b for given weights; 0 without an intercept."""
        return self.mean_label - float((self.mean_score + self.shift) @ w)

    def shifted_intercept(self, w: Host) -> float:
        """Return the optimal b for scores minus `shift`, without cancellation."""
        return self.mean_label - float(self.mean_score @ w)


def _moments(shift: Host | None, block: Block) -> tuple[Host, Host, Host, float, float]:
    """Return a block's part of SᵀCS, SᵀCy and the sums of scores and labels, and their rounding."""
    S, labels = block.S, _labels(block)
    if shift is not None:
        S = S - like(shift, S)
    weighted = S if isinstance(block.c, float) else S * block.c[:, None]
    sums = row_products(weighted, S), row_products(labels, S)
    summed = additions_per_term(int(S.shape[0]), is_numpy(S))
    if shift is None:
        return *sums, np.zeros(S.shape[1]), 0.0, summed
    ones = block.times_costs(1.0 + 0.0 * labels)
    return *sums, row_products(ones, S), total(labels), summed


def _labels(block: Block) -> Array:
    """``c y``, one number a row."""
    labels = block.times_costs(block.y)
    return labels + 0.0 * block.S[:, 0] if isinstance(labels, float) else labels


def _add(parts: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    *groups, summed = zip(*parts, strict=True)
    return *(np.sum(group, axis=0) for group in groups), max(summed)
