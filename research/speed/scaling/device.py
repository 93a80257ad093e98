"""Solves, paths and scoring on one device: a CUDA GPU, or torch on the CPU.

Data are drawn on the device. Every time is the median of repeats after a warm-up of the very same
call, and ends when the device has nothing left to do.
"""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import Any

import torch

from lpfuse import LpFusion, TwoSidedMinMax, lp_path
from research.common.clock import repeated
from research.common.judge import gap_on_device
from research.common.machine import cpu_name, environment, slug
from research.common.store import Record, RecordStore
from research.common.tables import milliseconds
from research.speed.solver.problems import NEGATIVE_FRACTION, PAPER_P, Case, parse_p

from .scores import Learners

PACKAGES = ("lpfuse", "numpy", "scipy", "scikit-learn", "array-api-compat", "torch", "cvxpy")
GAP = 1e-8
PAPER_ROWS, LEARNERS = 2_339_189, 36  # the paper's largest set of scores
RIVAL_ROWS, RIVAL_P = 100_000, "2"  # a problem that `research.speed.solver` gives to CLARABEL
SMALL_ROWS = 200_000  # where there is no GPU
PARTS = ("units", "solve", "path", "float32", "rival", "scoring")
BUDGET_SECONDS = 3.0  # of repeats of one call; chosen by hand, so that all parts take minutes


def run(options: Namespace) -> None:
    """Measure every part on the device, store what was found and say it."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu":
        print("There is no CUDA device here: torch runs on the CPU, at smaller sizes.")
    n = options.n or (PAPER_ROWS if device.type == "cuda" else SMALL_ROWS)
    out = options.out / f"device-{slug(device_name(device))}.jsonl"
    warnings.simplefilter("ignore")  # the paper's p near 1 is warned about, rightly, at every fit
    Campaign(device, n, options, RecordStore(out, surroundings(device, options.commit))).run()
    print(f"stored in {out}")


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"torch on {cpu_name()}"


def surroundings(device: torch.device, commit: str | None) -> Record:
    """The environment of the records, with what torch knows of the device."""
    told: Record = {"device": device_name(device), "cuda": torch.version.cuda}
    if commit:
        told["commit"] = commit
    if device.type == "cuda":
        told["device_bytes"] = torch.cuda.get_device_properties(device).total_memory
    return environment(torch.get_num_threads(), PACKAGES, **told)


class Campaign:
    """All measurements on one device."""

    def __init__(
        self, device: torch.device, n: int, options: Namespace, store: RecordStore
    ) -> None:
        self.device, self.n, self.options, self.store = device, n, options, store
        self.asked = {"device": device_name(device), "seed": options.seed}

    def run(self) -> None:
        parts = self.options.parts
        for setting in self.options.setting:
            S, y = self.data(setting)
            for part in (self.units, self.solve, self.path, self.float32, self.scoring):
                if part.__name__ in parts:
                    part(S, y, setting)
        if "rival" in parts:
            for setting in self.options.setting:
                self.rival(setting)

    def data(self, setting: str) -> tuple[Any, Any]:
        """Scores on the device, and labels or None."""
        learners = Learners.drawn(LEARNERS, self.options.seed)
        fraction, seed = NEGATIVE_FRACTION[setting], self.options.seed
        S, y = learners.on_device(self.n, fraction, seed, self.device)
        return S, y if fraction else None

    def units(self, S: Any, y: Any, setting: str) -> None:
        """The yardsticks, with plain torch: one read of S, and one AᵀDA."""
        w, d = torch.ones_like(S[0]), torch.rand_like(S[:, 0])
        units = {"read": lambda: S @ w, "gram": lambda: S.T @ (d[:, None] * S)}
        samples = {name: self.seconds(action) for name, action in units.items()}
        found = {f"{name}_seconds": median(times) for name, times in samples.items()}
        self.record("device-units", S, setting, **found, samples=samples)

    def solve(self, S: Any, y: Any, setting: str, ps: Sequence[str] | None = None) -> None:
        """`LpFusion.fit` for each p, the certificate recomputed by other code."""
        for p in ps or self.options.p:
            fusion = LpFusion(parse_p(p), tol=GAP)
            samples = self.seconds(lambda: fusion.fit(S, y))  # noqa: B023 (called at once)
            proof = fusion.certificate_
            self.record(
                "device-solve", S, setting, p=p, gap=GAP, seconds=median(samples), samples=samples,
                passes=proof.passes, relative_gap=proof.relative_gap, iterations=fusion.n_iter_,
                judged_gap=judged_gap(S, y, fusion), extra_bytes=self.extra_bytes(fusion, S, y),
            )  # fmt: skip

    def path(self, S: Any, y: Any, setting: str) -> None:
        """`lp_path` over the paper's nine p."""
        grid = [parse_p(p) for p in PAPER_P]
        found = lp_path(S, y, ps=grid, tol=GAP)
        samples = self.seconds(lambda: lp_path(S, y, ps=grid, tol=GAP))
        self.record(
            "device-path", S, setting, gap=GAP, seconds=median(samples), samples=samples,
            passes=max(c.passes for c in found.certificates),
            relative_gap=max(c.relative_gap for c in found.certificates),
        )  # fmt: skip

    def float32(self, S: Any, y: Any, setting: str) -> None:
        """The same solves on data of half the size; certificates are of these data, in float64."""
        self.solve(S.to(torch.float32), y, setting, ps=("4/3", "2"))

    def scoring(self, S: Any, y: Any, setting: str) -> None:
        """Rows a second, of fitted estimators."""
        actions: dict[str, Callable[[], Any]] = {
            "LpFusion.score_samples": partial(LpFusion(2.0).fit(S, y).score_samples, S),
            "TwoSidedMinMax.fit": partial(TwoSidedMinMax().fit, S, y),
            "TwoSidedMinMax.transform": partial(TwoSidedMinMax().fit(S, y).transform, S),
        }
        for name, action in actions.items():
            samples = self.seconds(action)
            self.record(
                "device-scoring", S, setting, form=name, seconds=median(samples), samples=samples,
                rows_a_second=S.shape[0] / median(samples),
            )  # fmt: skip

    def rival(self, setting: str) -> None:
        """Ours on the device where cvxpy+CLARABEL was timed on a CPU: the very same scores."""
        case = Case(RIVAL_ROWS, LEARNERS, setting, self.options.seed)
        scores, labels = case.data()
        S = torch.as_tensor(scores, device=self.device)
        y = None if setting == "pure" else torch.as_tensor(labels, device=self.device)
        self.solve(S, y, setting)
        if find_spec("cvxpy") is None or find_spec("clarabel") is None:
            print("cvxpy and CLARABEL are not installed: their stored times stand beside these.")
            return
        from research.speed.solver.__main__ import run_command

        run_command([
            "--n", str(RIVAL_ROWS), "--R", str(LEARNERS), "--setting", setting, "--p", RIVAL_P,
            "--rivals", "cvxpy_clarabel", "--parts", "grid", "--gap", str(GAP),
            "--out", str(self.options.out / "rival.jsonl"),
        ])  # fmt: skip

    def seconds(self, action: Callable[[], Any]) -> list[float]:
        """Seconds of repeats after a warm-up: as many as fit the budget, at least three."""

        def finished() -> None:
            action()
            self.wait()

        return repeated(finished, self.options.repeats, budget=BUDGET_SECONDS)

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def extra_bytes(self, fusion: LpFusion, S: Any, y: Any) -> int | None:
        """The most that a fit takes on the device beside its data."""
        if self.device.type != "cuda":
            return None
        torch.cuda.reset_peak_memory_stats(self.device)
        before = torch.cuda.memory_allocated(self.device)
        fusion.fit(S, y)
        return int(torch.cuda.max_memory_allocated(self.device)) - before

    def record(self, kind: str, S: Any, setting: str, **found: Any) -> None:
        n, R = S.shape
        asked = {"n": n, "R": R, "setting": setting, "dtype": str(S.dtype).removeprefix("torch.")}
        self.append({"kind": kind, **self.asked, **asked, "status": "finished"} | found)

    def append(self, record: Record) -> None:
        self.store.append(record)
        print(describe(record), flush=True)


def judged_gap(S: Any, y: Any, fusion: LpFusion) -> float | None:
    """The relative gap from the weights and α alone, by plain torch in float64."""
    alpha = fusion.certificate_.alpha
    return None if alpha is None else gap_on_device(S, y, fusion.weights_, alpha, fusion.p)


def describe(record: Record) -> str:
    """One line a record, for whoever watches."""
    parts = list(_named(record))
    units = {"seconds": "ms", "read_seconds": "ms a read", "gram_seconds": "ms AᵀDA"}
    for field, unit in units.items():
        if field in record:
            parts.append(f"{milliseconds(record[field])} {unit}")
    if "passes" in record:
        parts.append(f"{record['passes']:.1f} passes, gap {record['relative_gap']:.1e}")
    if record.get("judged_gap") is not None:
        parts.append(f"judged {record['judged_gap']:.1e}")
    if "rows_a_second" in record:
        parts.append(f"{record['rows_a_second']:.3g} rows/s")
    return "  ".join(parts)


def _named(record: Record) -> Iterator[str]:
    yield f"{record['kind']}  {record['n']}×{record['R']}"
    for field in ("form", "setting", "dtype"):
        if field in record:
            yield str(record[field])
    if "p" in record:
        yield f"p={record['p']}"
