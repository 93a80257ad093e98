"""Passes over scores on a GPU: what is compared, and what is timed by `device_passes`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import torch

from lpfuse.optim import Candidate, Certifier, Problem
from lpfuse.optim.distributed import crossings
from lpfuse.optim.passes import PartitionPlan, ScorePasses

from .device import GAP


@contextmanager
def as_asked(form: str) -> Iterator[None]:
    """Passes by kernels wherever these serve, or by plain torch."""
    if form == "fused":
        yield
        return
    with (
        mock.patch("lpfuse.optim.passes.may_fuse", return_value=False),
        mock.patch("lpfuse.optim.certificate.may_fuse", return_value=False),
    ):
        yield


def points_for(R: int, k: int) -> np.ndarray:
    """Weights in the ball of p = 1, different for each candidate."""
    return np.random.default_rng(R).dirichlet(np.full(R, 4.0), size=k)


def launches(S: Any, y: Any, cut: Any, k: int) -> dict[str, Callable[[], Any]]:
    """The kernels alone."""
    from lpfuse.optim._large_n import fused_partition as other

    from lpfuse._arrays.fused_rows import Found, RowArrays
    from lpfuse.optim._fused_bounds import TERMS, read_both_sides

    rows, R = RowArrays(S, y, None), int(S.shape[1])
    w = points_for(R, k)
    sides = rows.beside(np.c_[w, np.zeros(k), np.full(k, 0.05)])
    points = rows.beside(np.c_[w, np.zeros(k), np.ones(k), np.full(k, 1e-14)])
    alphas = torch.rand((k, S.shape[0]), dtype=torch.float64, device=S.device)
    first = Found.room(rows, cut, k, R + other.TERMS, 1)
    second = Found.room(rows, cut, k, R + TERMS, 2)
    return {
        "partition": partial(other.read_sides, rows, cut, sides, first),
        "examine": partial(read_both_sides, rows, cut, alphas, points, second, free=False),
    }


def whole_passes(problem: Problem, k: int) -> dict[str, Callable[[], Any]]:
    """Passes as a search asks for them: some thousand rows come home."""
    w = points_for(problem.R, k)
    some = problem.some_rows(20_000)
    r = 1.0 - some.times_labels(some.S @ torch.as_tensor(w[0], device=some.S.device))
    band = float(torch.quantile(r.abs(), min(1.0, 12_000 / problem.n)))
    plans = [PartitionPlan(each, band, 1, 10**6) for each in w]
    first = ScorePasses(problem).partition(plans, [problem.ball] * k)
    candidates = {
        j: Candidate(
            each, problem.multipliers(part.pieces, part.positions, 0.5 + 0 * part.model.costs)
        )
        for j, (each, part) in enumerate(zip(w, first, strict=True))
    }
    watch = {j: crossings(problem.terms, 2000) for j in candidates}
    certifier = Certifier(problem, [problem.ball] * k, GAP)
    return {
        "partition": lambda: ScorePasses(problem).partition(plans, [problem.ball] * k),
        "examine": lambda: certifier.examine(candidates, watch),
    }


def drawn_problem(
    n: int, R: int, dtype: Any, labelled: bool, costs: bool, free: bool, device: Any
) -> Problem:
    rng = np.random.default_rng(n + R)
    S = torch.as_tensor(rng.normal(size=(n, R)), device=device).to(dtype)
    y = torch.as_tensor(np.where(rng.random(n) < 0.3, -1.0, 1.0), device=device)
    c = torch.as_tensor(rng.exponential(size=n) * (rng.random(n) < 0.9), device=device)
    return Problem(
        S, y if labelled else None, p=1.0, costs=c if costs else None, fit_intercept=free
    )


def compared(problem: Problem) -> dict[str, float]:
    """Differences between fused and plain passes, as shares of what rounding may do."""
    device, free = problem.S.device, [0.1] * problem.fit_intercept
    worst: dict[str, float] = defaultdict(float)
    alphas = torch.rand((3, problem.n), dtype=torch.float64, device=device).mul(3).clamp(max=1.0)
    alphas[alphas < 0.5] = 0.0
    if problem.fit_intercept:
        balance(problem, alphas)
    for k in (1, 3):
        w = np.c_[points_for(problem.R, k), np.tile(free, (k, 1))]
        plans = [PartitionPlan(each, 0.2, 1 + j, 10**9) for j, each in enumerate(w)]
        candidates = {j: Candidate(each, alphas[j]) for j, each in enumerate(w)}
        watch = {j: crossings(problem.terms, 10**9) for j in candidates}
        found = {}
        for form in ("fused", "again", "plain"):
            with as_asked("plain" if form == "plain" else "fused"):
                parts = ScorePasses(problem).partition(plans, [problem.ball] * k)
                certifier = Certifier(problem, [problem.ball] * k, GAP)
                found[form] = parts, certifier.examine(candidates, watch)
        for ours, again, plain in zip(*(found[form][0] for form in found), strict=True):
            close(worst, "value", ours.value, plain.value, 1e-12)
            close(worst, "constant", ours.model.constant, plain.model.constant, 1e-12)
            scale = 1e-12 * (problem.n + 1)
            close(worst, "linear", ours.model.linear, plain.model.linear, 0.0, scale)
            same(worst, "near", ours.positions, plain.positions)
            same(worst, "rows", ours.model.columns, plain.model.columns)
            same(worst, "again", ours.model.linear, again.model.linear)
        for j in candidates:
            ours, again, plain = (found[form][1][j] for form in found)
            allowed = ours.primal_error + plain.primal_error
            close(worst, "primal", ours.primal, plain.primal, 0.0, allowed)
            if math.isfinite(plain.dual):
                allowed = ours.dual_error + plain.dual_error
                close(worst, "dual", ours.dual, plain.dual, 0.0, allowed)
            else:
                worst["dual"] = max(worst["dual"], 0.0 if ours.dual == plain.dual else math.inf)
            same(worst, "crossed", ours.watched.positions, plain.watched.positions)
            same(worst, "crossed rows", ours.watched.a, plain.watched.a)
            same(worst, "again", [ours.primal, ours.dual], [again.primal, again.dual])
    return dict(worst)


def balance(problem: Problem, alphas: Any) -> None:
    """Make Σ c α y zero: else a bound depends on how it is mended, and either way is right."""
    c = 1.0 if problem.costs is None else problem.costs
    up, down = ((alphas * c * (problem.y * sign > 0)).sum(dim=1) for sign in (1, -1))
    alphas *= torch.where(
        problem.y > 0, (down / up).clamp(max=1.0)[:, None], (up / down).clamp(max=1.0)[:, None]
    )


def against_exact(problem: Problem) -> dict[str, float]:
    """The value and the bound beside exact sums, as shares of the errors they admit."""
    if problem.fit_intercept:
        return {}
    alpha = torch.rand(problem.n, dtype=torch.float64, device=problem.S.device)
    w = points_for(problem.R, 1)[0]
    found = Certifier(problem, [problem.ball], GAP).examine({0: Candidate(w, alpha)})[0]
    one = np.ones(problem.n)
    S = problem.S.to(torch.float64).cpu().numpy()
    y, c = (one if x is None else x.cpu().numpy() for x in (problem.y, problem.costs))
    value, gain, pull = Fraction(0), Fraction(0), [Fraction(0)] * problem.R
    weights = list(map(Fraction, w))
    for s, label, cost, share in zip(S, y, c, alpha.cpu().numpy(), strict=True):
        row = list(map(Fraction, s.tolist()))
        r = 1 - int(label) * sum(map(Fraction.__mul__, row, weights))
        value += Fraction(float(cost)) * max(r, Fraction(0))
        x = Fraction(float(cost)) * Fraction(float(share))
        gain += x
        pull = [total + int(label) * x * each for total, each in zip(pull, row, strict=True)]
    bound = gain - max(map(abs, pull))
    return {
        "exact value": float(abs(Fraction(found.primal) - value) / Fraction(found.primal_error)),
        "exact bound": float(abs(Fraction(found.dual) - bound) / Fraction(found.dual_error)),
    }


def close(
    worst: dict[str, float], name: str, a: Any, b: Any, relative: float, absolute: float = 1e-300
) -> None:
    allowed = relative * np.abs(b) + absolute
    worst[name] = max(worst[name], float(np.max(np.abs(np.subtract(a, b)) / allowed, initial=0.0)))


def same(worst: dict[str, float], name: str, a: Sequence[Any], b: Sequence[Any]) -> None:
    worst[name] = max(worst[name], 0.0 if np.array_equal(a, b) else math.inf)
