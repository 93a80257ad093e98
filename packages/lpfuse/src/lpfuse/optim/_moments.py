"""Least squares needs the scores once: after one pass everything is R×R.

With r = 1 − y(Sw + b) and y² = 1, f(w, b) = Σ c (y − Sw − b)² is a quadratic in G = SᵀCS, SᵀCy and
the weighted means; the intercept is eliminated by centring.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lpfuse._arrays.operations import Array, Host, like, to_host, total

if TYPE_CHECKING:
    from lpfuse.optim.problem import Block, Problem


@dataclass(frozen=True)
class Moments:
    """``f(w, b) = constant − 2 cross·w + wᵀ gram w + mass (b − b*)²``.

    ``b* = mean_label − mean_score·w`` is the best intercept for w. Without an intercept both means
    are 0, and so is b.
    """

    gram: Host
    cross: Host
    constant: float
    mean_score: Host
    mean_label: float
    mass: float

    @classmethod
    def of(cls, problem: Problem) -> Moments:
        """Sum them up in one pass over the scores."""
        k, R = problem.total_cost, problem.R
        if not problem.fit_intercept:
            gram, cross = problem.reduce(_products, _add)
            return cls(gram, cross, k, np.zeros(R), 0.0, k)
        # With an intercept scores are shifted near their mean first: the sums of squares of scores
        # far from zero would cancel in the centring and take the proof with them.
        shift = to_host(problem.some_rows().S).mean(axis=0)
        gram, cross, total_score, total_label = problem.reduce(partial(_moments, shift), _add)
        mean_score, mean_label = total_score / k, float(total_label) / k
        return cls(
            gram - k * np.outer(mean_score, mean_score),
            cross - k * mean_label * mean_score,
            k * (1.0 - mean_label**2),
            mean_score + shift,
            mean_label,
            k,
        )

    def rounding(self, w: Host) -> float:
        """How much of f(w) can be rounding: its terms are sums that largely cancel."""
        size = np.abs(w)
        return 1e-15 * float(
            self.constant + 2 * np.abs(self.cross) @ size + size @ np.abs(self.gram) @ size
        )

    @cached_property
    def null_space(self) -> Host:
        """Directions of w that no score tells about, as columns."""
        eigenvalues, vectors = np.linalg.eigh(self.gram)
        return vectors[:, eigenvalues <= 1e-12 * max(float(eigenvalues[-1]), 1e-300)]

    def intercept(self, w: Host) -> float:
        """The best b for given weights; 0 when none is fitted."""
        return self.mean_label - float(self.mean_score @ w)


def _products(block: Block) -> tuple[Host, Host]:
    """What a block adds to SᵀCS and SᵀCy."""
    S = block.S
    weighted = S if isinstance(block.c, float) else S * block.c[:, None]
    return to_host(weighted.T @ S), to_host(_labels(block) @ S)


def _moments(shift: Host, block: Block) -> tuple[Host, Host, Host, float]:
    """The same of shifted scores, with their sum and that of the labels."""
    S, labels = block.S - like(shift, block.S), _labels(block)
    gram, cross = _products(block._replace(S=S))
    ones = block.times_costs(1.0 + 0.0 * labels)
    return gram, cross, to_host(ones @ S), total(labels)


def _labels(block: Block) -> Array:
    """``c y``, one number a row."""
    labels = block.times_costs(block.y)
    return labels + 0.0 * block.S[:, 0] if isinstance(labels, float) else labels


def _add(parts: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(np.sum(group, axis=0) for group in zip(*parts, strict=True))
