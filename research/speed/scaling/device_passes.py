"""Passes over scores on a GPU: are they right, how near to the memory's speed, and what fits take.

Kernels are compared with plain torch and exact sums, timed beside a copy of the scores (a roofline
for work that reads each score once), and then in whole fits, which are split into the entrance,
passes and the host's share. A small grid of the numbers that decide how many rows a fit brings home
is tried at the end.
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
from lpfuse._arrays.linalg import cut_rows, may_fuse
from lpfuse.optim import Certifier, Problem, solve
from lpfuse.optim.passes import ScorePasses
from lpfuse.optim.tuning import DEFAULT
from research.common.machine import slug
from research.common.store import RecordStore
from research.speed.solver.problems import NEGATIVE_FRACTION, PAPER_P, parse_p

from .device import GAP, LEARNERS, PAPER_ROWS, device_name, surroundings
from .pass_checks import against_exact, as_asked, compared, drawn_problem, launches, whole_passes
from .scores import Learners

SMALL_ROWS = 20_000  # where there is no GPU: does the command work?
CHECKED = ((31, 4), (5000, 13), (40_001, 36), (3000, 129))
TOGETHER = (1, 9)  # candidates of a pass: of a fit, and of the nine-p path
REPEATS = 20
# Sample a weight, multiple that is kept, risk: the one in use and its neighbours.
BUDGETS = ((100, 4, 1.8), (100, 4, 1.5), (100, 4, 2.2), (70, 5, 1.8), (100, 6, 1.8), (140, 3, 1.8))
BUDGET_P = ("1", "32/31", "4/3", "2", "4", "10", "100", "inf")


def run(options: Namespace) -> None:
    """All parts; every number is stored as soon as it is known."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    warnings.simplefilter("ignore")
    if device.type == "cuda":
        from lpfuse._arrays.fused_gather import try_out

        print(f"kernels are right on a few rows: {try_out(torch.cuda.current_device())}")
    print(f"kernels serve: {may_fuse(torch.ones((2, 2), device=device))}", flush=True)
    n = options.n or (PAPER_ROWS if device.type == "cuda" else SMALL_ROWS)
    out = options.out / f"passes-{slug(device_name(device))}.jsonl"
    store = RecordStore(out, surroundings(device, options.commit))
    campaign = Passes(device, n, options, store)
    for part in options.parts:
        began = time.perf_counter()
        getattr(campaign, part)()
        print(f"-- {part}: {time.perf_counter() - began:.0f} s", flush=True)
    print(f"stored in {out}")


PARTS = ("checks", "kernels", "passes", "fits", "paths", "budgets")


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

    # ------------------------------------------------------------------------------ are they right

    def checks(self) -> None:
        """Every difference from plain torch and from exact sums, in units of what is allowed."""
        for (n, R), dtype, labelled, costs, free in product(
            CHECKED, (torch.float64, torch.float32), (False, True), (False, True), (False, True)
        ):
            if free and not labelled:
                continue
            problem = drawn_problem(n, R, dtype, labelled, costs, free, self.device)
            worst = compared(problem)
            if n * R <= 1500:
                worst |= against_exact(problem)
            form = f"{n}×{R} {'labels ' * labelled}{'costs ' * costs}{'intercept' * free}".strip()
            off = {name: value for name, value in worst.items() if not value <= 1.0}
            text = f"WRONG: {off}" if off else f"right (worst {max(worst.values()):.1e} of allowed)"
            self.record("device-check", problem.S, "labelled" if labelled else "pure", text,
                        form=form, worst=worst, right=not off)  # fmt: skip

    # --------------------------------------------------------------------- how fast kernels can be

    def kernels(self) -> None:
        """The two kernels alone, by events, for several ways to cut rows; beside a copy of S."""
        if self.device.type != "cuda":
            print("kernels are timed on a CUDA device only")
            return
        for dtype in (torch.float64, torch.float32):
            S, y = self.data("negatives")
            self.of_kernels(S.to(dtype), y)

    def of_kernels(self, S: Any, y: Any) -> None:
        other = torch.empty_like(S)
        seconds = self.events(lambda: other.copy_(S))
        bandwidth = 2 * S.nbytes / seconds
        self.record("device-kernel", S, "negatives", f"{bandwidth / 1e12:.2f} TB/s",
                    form="copy", seconds=seconds, bandwidth=bandwidth)  # fmt: skip
        usual = cut_rows(*S.shape, single=S.dtype == torch.float32)
        cuts = [usual, usual._replace(rows=2 * usual.rows)]
        for cut, tiles, k in product(cuts, (4, 8, 16), TOGETHER):
            chunks = -(-S.shape[0] // (cut.rows * tiles))
            cut = cut._replace(tiles=tiles, chunks=chunks)
            for name, action in launches(S, y, cut, k).items():
                moved = S.nbytes + 8 * len(y) + len(y) * k * (9 if name == "examine" else 1)
                seconds = self.events(action)
                share = moved / seconds / bandwidth
                form = f"{name} {k}, tiles {tiles} of {cut.rows}, {cut.warps} warps"
                self.record("device-kernel", S, "negatives",
                            f"{1e3 * seconds:.3f} ms, {share:.2f} of the copy", form=form,
                            seconds=seconds, share=share, moved_bytes=moved)  # fmt: skip

    def events(self, action: Callable[[], Any]) -> float:
        """Seconds of one action on the device: the median of repeats by events."""
        action()
        times = []
        for _ in range(REPEATS):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            action()
            end.record()
            end.synchronize()
            times.append(1e-3 * begin.elapsed_time(end))
        return median(times)

    # --------------------------------------------------------------------------------- whole passes

    def passes(self) -> None:
        """Passes as fits make them, host work included: fused and plain, by turns."""
        for setting in NEGATIVE_FRACTION:
            S, y = self.data(setting)
            for dtype in (torch.float64, torch.float32):
                problem = Problem(S.to(dtype), y)
                for k, name in product(TOGETHER, ("partition", "examine")):
                    self.of_pass(problem, setting, name, k)

    def of_pass(self, problem: Problem, setting: str, name: str, k: int) -> None:
        action = whole_passes(problem, k)[name]
        times: dict[str, list[float]] = {"fused": [], "plain": []}
        for turn in range(6):
            for form in times:
                with as_asked(form):
                    began = time.perf_counter()
                    action()
                    if turn:
                        times[form].append(time.perf_counter() - began)
        for form, samples in times.items():
            self.record("device-pass", problem.S, setting, f"{1e3 * median(samples):.2f} ms",
                        form=f"{name} {k}, {form}", seconds=median(samples), samples=samples,
                        moved_bytes=problem.S.nbytes)  # fmt: skip

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
        """Times by turns, and one further run of each form that is split into its parts."""
        times: dict[str, list[float]] = {"fused": [], "plain": []}
        turns = {"fused": self.options.repeats, "plain": 3}
        for turn in range(max(turns.values()) + 1):
            for form in times:
                if turn <= turns[form]:
                    with as_asked(form):
                        self.wait()
                        began = time.perf_counter()
                        action()
                        self.wait()
                        if turn:
                            times[form].append(time.perf_counter() - began)
        for form, samples in times.items():
            with as_asked(form), split() as parts:
                began = time.perf_counter()
                found = action()
                self.wait()
                whole = time.perf_counter() - began
            proofs = getattr(found, "certificates", None) or [found.certificate_]
            host = whole - sum(parts.seconds.values())
            inner = {name: round(1e3 * value, 2) for name, value in parts.seconds.items()}
            calls = ", ".join(
                f"{name} {count}× {inner[name]}" for name, count in parts.calls.items()
            )
            self.record("device-split", S, setting,
                        f"{1e3 * median(samples):6.1f} ms: {calls}, host {1e3 * host:.1f}",
                        form=form, p=p, seconds=median(samples), samples=samples, split=whole,
                        parts=dict(parts.seconds), calls=dict(parts.calls), host_seconds=host,
                        passes=max(c.passes for c in proofs),
                        relative_gap=max(c.relative_gap for c in proofs))  # fmt: skip

    def told(self, kind: str) -> None:
        """Medians over p, as the goals ask for them."""
        for setting, form in product(NEGATIVE_FRACTION, ("fused", "plain")):
            found = [r for r in self.store.select(kind=kind, setting=setting, form=form)
                     if r["p"] != "path" and r["n"] == self.n]  # fmt: skip
            times = [1e3 * r["seconds"] for r in found]
            print(f"== {setting}, {form}: {median(times):.1f} ms median, {max(times):.1f} worst; "
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
