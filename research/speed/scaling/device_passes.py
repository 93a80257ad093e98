"""Passes over scores on a GPU within whole fits, split into entrance, passes and the host's share.

A small grid of the numbers that decide how many rows a fit brings home is tried at the end.
"""

from __future__ import annotations

import time
import warnings
from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from statistics import mean, median
from typing import Any
from unittest import mock

import torch

from lpfuse import LpFusion, lp_path
from lpfuse.optim import Problem, solve
from lpfuse.optim.certificate import Certifier
from lpfuse.optim.passes import ScorePasses
from lpfuse.optim.tuning import DEFAULT
from research.common.machine import slug
from research.common.store import RecordStore
from research.speed.solver.problems import NEGATIVE_FRACTION, PAPER_P, parse_p

from .device import GAP, LEARNERS, PAPER_ROWS, device_name, surroundings
from .scores import Learners

SMALL_ROWS = 20_000  # where there is no GPU: does the command work?
# Sample a weight, multiple that is kept, risk: the one in use and its neighbours.
BUDGETS = ((100, 4, 1.8), (100, 4, 1.5), (100, 4, 2.2), (70, 5, 1.8), (100, 6, 1.8), (140, 3, 1.8))
BUDGET_P = ("1", "32/31", "4/3", "2", "4", "10", "100", "inf")


def run(options: Namespace) -> None:
    """All parts; every number is stored as soon as it is known."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    warnings.simplefilter("ignore")
    n = options.n or (PAPER_ROWS if device.type == "cuda" else SMALL_ROWS)
    out = options.out / f"passes-{slug(device_name(device))}.jsonl"
    store = RecordStore(out, surroundings(device, options.commit))
    campaign = Passes(device, n, options, store)
    for part in options.parts:
        began = time.perf_counter()
        getattr(campaign, part)()
        print(f"-- {part}: {time.perf_counter() - began:.0f} s", flush=True)
    print(f"stored in {out}")


PARTS = ("fits", "paths", "budgets")


class Passes:
    """All measurements of passes on one device."""

    def __init__(
        self, device: torch.device, n: int, options: Namespace, store: RecordStore
    ) -> None:
        self.device, self.n, self.options, self.store = device, n, options, store
        self.drawn: dict[str, tuple[Any, Any]] = {}

    def data(self, setting: str) -> tuple[Any, Any]:
        """Scores and labels, or None, drawn once."""
        if setting not in self.drawn:
            learners, fraction = Learners.drawn(LEARNERS, self.options.seed), NEGATIVE_FRACTION
            made = learners.on_device(self.n, fraction[setting], self.options.seed, self.device)
            self.drawn[setting] = made[0], made[1] if fraction[setting] else None
        return self.drawn[setting]

    def record(self, kind: str, S: Any, setting: str, text: str, **found: Any) -> None:
        n, R = map(int, S.shape)
        asked = {"n": n, "R": R, "setting": setting, "dtype": str(S.dtype).removeprefix("torch.")}
        who = {"device": device_name(self.device), "seed": self.options.seed}
        self.store.append({"kind": kind, **who, **asked, "status": "finished", **found})
        print(
            f"{kind}  {setting}  {found.get('form', '')}  p={found.get('p', '')}  {text}",
            flush=True,
        )

    # ---------------------------------------------------------------------------------- whole fits

    def fits(self) -> None:
        for setting in NEGATIVE_FRACTION:
            S, y = self.data(setting)
            for p in self.options.p:
                self.of_fit(S, y, setting, p, lambda p=p: LpFusion(parse_p(p), tol=GAP).fit(S, y))  # noqa: B023
        self.told("device-split")

    def paths(self) -> None:
        grid = [parse_p(p) for p in PAPER_P]
        for setting in NEGATIVE_FRACTION:
            S, y = self.data(setting)
            self.of_fit(S, y, setting, "path", lambda: lp_path(S, y, ps=grid, tol=GAP))  # noqa: B023

    def of_fit(self, S: Any, y: Any, setting: str, p: str, action: Callable[[], Any]) -> None:
        """Time repeats after a warm-up, and split one further run into its parts."""
        samples = []
        for turn in range(self.options.repeats + 1):
            self.wait()
            began = time.perf_counter()
            action()
            self.wait()
            if turn:
                samples.append(time.perf_counter() - began)
        with split() as parts:
            began = time.perf_counter()
            found = action()
            self.wait()
            whole = time.perf_counter() - began
        proofs = getattr(found, "certificates", None) or [found.certificate_]
        host = whole - sum(parts.seconds.values())
        inner = {name: round(1e3 * value, 2) for name, value in parts.seconds.items()}
        calls = ", ".join(f"{name} {count}× {inner[name]}" for name, count in parts.calls.items())
        # "plain" tells these runs from stored ones of the fused kernels that the library once had.
        self.record("device-split", S, setting,
                    f"{1e3 * median(samples):6.1f} ms: {calls}, host {1e3 * host:.1f}",
                    form="plain", p=p, seconds=median(samples), samples=samples, split=whole,
                    parts=dict(parts.seconds), calls=dict(parts.calls), host_seconds=host,
                    passes=max(c.passes for c in proofs),
                    relative_gap=max(c.relative_gap for c in proofs))  # fmt: skip

    def told(self, kind: str) -> None:
        """Medians over p, as the goals ask for them."""
        for setting in NEGATIVE_FRACTION:
            found = [r for r in self.store.select(kind=kind, setting=setting, form="plain")
                     if r["p"] != "path" and r["n"] == self.n]  # fmt: skip
            times = [1e3 * r["seconds"] for r in found]
            print(f"== {setting}: {median(times):.1f} ms median, {max(times):.1f} worst; "
                  f"gap {max(r['relative_gap'] for r in found):.1e}")  # fmt: skip

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    # ------------------------------------------------------------------------ how many rows to keep

    def budgets(self) -> None:
        """Solves with other samples, bands and risks: mean and worst over p and both settings."""
        for sample, kept, risk in BUDGETS:
            search = DEFAULT.search._replace(
                device_sample_per_weight=sample, device_kept=kept, device_risk=risk
            )
            times, passes = [], []
            for setting, p in product(NEGATIVE_FRACTION, BUDGET_P):
                problem = Problem(*self.data(setting), p=parse_p(p))
                samples = []
                for _ in range(2):
                    self.wait()
                    began = time.perf_counter()
                    found = solve(problem, tuning=DEFAULT._replace(search=search))
                    samples.append(time.perf_counter() - began)
                times.append(min(samples))
                passes.append(found.certificate.passes)
            self.record("device-budget", problem.S, "both",
                        f"{1e3 * mean(times):.1f} ms mean, {1e3 * median(times):.1f} median, "
                        f"{1e3 * max(times):.1f} worst, {mean(passes):.1f} passes",
                        form=f"sample {sample}, kept {kept}, risk {risk}", seconds=mean(times),
                        median=median(times), worst=max(times), samples=times,
                        passes=mean(passes))  # fmt: skip


class Split:
    """Seconds and calls of the parts of a fit."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()

    def timed(self, name: str, action: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **named: Any) -> Any:
            began = time.perf_counter()
            result = action(*args, **named)
            self.seconds[name] += time.perf_counter() - began
            self.calls[name] += 1
            return result

        return wrapped


@contextmanager
def split() -> Iterator[Split]:
    """Have the entrance, the sample, multipliers and both kinds of passes timed."""
    parts = Split()
    names = {
        "entrance": (LpFusion, "_problem"),
        "sample": (Problem, "draw"),
        "multipliers": (Problem, "multipliers"),
        "partition": (ScorePasses, "partition"),
        "examine": (Certifier, "examine"),
    }
    patches = [
        mock.patch.object(owner, name, parts.timed(told, getattr(owner, name)))
        for told, (owner, name) in names.items()
    ]
    for patch in patches:
        patch.start()
    try:
        yield parts
    finally:
        for patch in patches:
            patch.stop()
