"""Forms of the two products of a pass, and paths with and without products for several p at once.

Every time is the median of repeats on a device after a warm-up, beside a copy of the scores.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import torch

from lpfuse import LpFusion, lp_path
from lpfuse.optim import passes
from research.speed.solver.problems import NEGATIVE_FRACTION, PAPER_P, parse_p

from .device import GAP, LEARNERS, PAPER_ROWS, device_name
from .scores import Learners


def main(out: str, rows: str = str(PAPER_ROWS)) -> None:
    """Measure, print, and write what was found to a file."""
    warnings.simplefilter("ignore")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    drawn, found = Learners.drawn(LEARNERS, 0), {"device": device_name(device), "n": int(rows)}
    for setting, fraction in NEGATIVE_FRACTION.items():
        S, labels = drawn.on_device(int(rows), fraction, 0, device)
        y = labels if fraction else None
        if not fraction:
            found["forms"] = {name: seconds(form, 15) for name, form in forms(S).items()}
        found[setting] = whole(S, y)
    Path(out).write_text(json.dumps(found))
    print(json.dumps(found, indent=1))


def forms(S: Any) -> dict[str, Callable[[], Any]]:
    """Ways to compute ``S w`` and ``vᵀ S``, for one and nine vectors."""
    n, R = S.shape
    w, v, many = torch.rand_like(S[0]), torch.rand_like(S[:, 0]), torch.rand_like(S[:9, :])
    rows, single = torch.rand_like(S[:, :9]).T.contiguous(), S.to(torch.float32)
    parts = S[: n // 1024 * 1024].view(1024, -1, R)
    pieces = v[: n // 1024 * 1024].view(1024, 1, -1)
    return {
        "copy": S.clone,
        "S w": lambda: S @ w,
        "S w, single": lambda: single @ w.to(torch.float32),
        "S W, nine": lambda: many @ S.T,
        "v S": lambda: v @ S,
        "v S, single": lambda: v.to(torch.float32) @ single,
        "v S, by parts": lambda: torch.bmm(pieces, parts).sum(dim=0),
        "v S, two": lambda: rows[:2] @ S,
        "v S, nine": lambda: rows @ S,
        "nonzero": lambda: torch.nonzero(v > 0.999),
        "sums": lambda: torch.stack([v.sum(), (v > 0.5).sum(), v.clamp_min(0.5).sum()]).cpu(),
    }


def whole(S: Any, y: Any) -> dict[str, Any]:
    """Fits and the path of nine p, with products for all p at once and one by one."""
    grid, found = [parse_p(p) for p in PAPER_P], {}
    for p in PAPER_P:
        fusion = LpFusion(parse_p(p), tol=GAP)
        found[p] = seconds(lambda: fusion.fit(S, y), 5)  # noqa: B023 (called at once)
        found[f"{p}, gap"] = fusion.certificate_.relative_gap
    together = passes._split_rows

    def one_by_one(terms: Any, plans: Any, block: Any) -> Any:
        return [part for plan in plans for part in together(terms, [plan], block)]

    gaps = [c.relative_gap for c in lp_path(S, y, ps=grid, tol=GAP).certificates]
    found["path"] = seconds(lambda: lp_path(S, y, ps=grid, tol=GAP), 5)
    with mock.patch.object(passes, "_split_rows", one_by_one):
        found["path, one by one"] = seconds(lambda: lp_path(S, y, ps=grid, tol=GAP), 5)
    return found | {"path, gap": max(gaps)}


def seconds(action: Callable[[], Any], repeats: int) -> float:
    """The median after a warm-up."""
    samples = []
    for _ in range(repeats + 1):
        wait()
        began = time.perf_counter()
        action()
        wait()
        samples.append(time.perf_counter() - began)
    return median(samples[1:])


def wait() -> None:
    """Until the device has nothing left to do."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


if __name__ == "__main__":
    main(*sys.argv[1:])
