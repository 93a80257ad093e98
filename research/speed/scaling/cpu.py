"""One machine without a GPU: cost growth at one and two threads, and data that stay on disk.

Every cell runs in a process of its own that may use so many cores; lpfuse takes as many threads as
it finds cores, and BLAS is held to one. One read of S is timed in the same process, before and
after, with the same threads.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from lpfuse import LpFusion, lp_path
from lpfuse.optim import Certificate
from research.common.clock import repeats_for, timed
from research.common.isolation import Isolated, Stopped
from research.common.judge import Matrix
from research.common.machine import cores, cpu_name, environment, quiet, set_threads, slug
from research.common.memory import sampled_peaks
from research.common.store import Record, RecordStore
from research.common.tables import milliseconds
from research.speed.solver.problems import NEGATIVE_FRACTION, PAPER_P, Case, parse_p

from .scores import Learners

PACKAGES = ("lpfuse", "numpy", "scipy", "scikit-learn")
PARTS = ("grid", "memmap")
GAP = 1e-8
# Sizes by hand: in the cache and far beyond it; the paper's numbers of learners and some between.
SIZES, LEARNERS = (10_000, 100_000, 1_000_000, 4_000_000), (4, 12, 36, 128)
MOST_NUMBERS = 1.6e8  # of one table: larger ones take too long to draw
GRID_P = ("32/31", "4/3", "2", "100")
PATH_LEARNERS = 36
MAPPED_ROWS, MAPPED_P, MAPPED_BLOCK = 10_000_000, "4/3", 250_000
READ_BYTES = 2**22  # of a block, as large as those that lpfuse reads
TIME_LIMIT = 900.0  # seconds a call; chosen by hand


def run(options: Namespace) -> None:
    """Measure what the store does not hold yet."""
    set_threads(1)
    surroundings = environment(1, PACKAGES, device=cpu_name())
    store = RecordStore(options.out / f"cpu-{slug(cpu_name())}.jsonl", surroundings)
    campaign = Campaign(options, store)
    if "grid" in options.parts:
        for case in cases(options):
            for threads in options.threads:
                campaign.grid(case, threads)
    if "memmap" in options.parts:
        for setting in options.setting:
            campaign.memmap(options.mapped, LEARNERS[2], setting)
    print(f"stored in {store.path}")


def cases(options: Namespace) -> Iterator[Case]:
    """Small ones first."""
    for n in sorted(options.n):
        for R in sorted(options.R):
            for setting in options.setting:
                if n * R <= MOST_NUMBERS:
                    yield Case(n, R, setting, options.seed)


class Campaign:
    """All measurements on one processor."""

    def __init__(self, options: Namespace, store: RecordStore) -> None:
        self.options, self.store = options, store

    def grid(self, case: Case, threads: int) -> None:
        """Every p, and the path of nine where R is the paper's, with one process for all."""
        asked = {**asdict(case), "threads": threads, "device": cpu_name(), "gap": GAP}
        calls = [({"kind": "cpu-solve", **asked, "p": p}, "solve", p) for p in GRID_P]
        if case.R == PATH_LEARNERS:
            calls.append(({"kind": "cpu-path", **asked}, "path"))
        with Isolated(quiet, threads, GridBench, case, threads) as bench:  # started when needed
            for question, method, *inputs in calls:
                if not self._known(question):
                    self._record(question, bench, method, *inputs, self.options.repeats)

    def memmap(self, n: int, R: int, setting: str) -> None:
        """A fit from a file, in a process that has seen nothing else."""
        asked = {"kind": "cpu-memmap", "n": n, "R": R, "setting": setting, "p": MAPPED_P,
                 "seed": self.options.seed, "threads": cores(), "dtype": "float32", "gap": GAP,
                 "device": cpu_name()}  # fmt: skip
        if self._known(asked):
            return
        with TemporaryDirectory(dir=self.options.folder) as folder:
            path = Path(folder) / "scores.bin"
            labels = write_scores(path, n, R, NEGATIVE_FRACTION[setting], self.options.seed)
            y = labels if setting == "negatives" else None
            with Isolated(quiet, cores(), MappedBench, path, (n, R), y) as bench:
                self._record(asked, bench, "fit", MAPPED_P)

    def _known(self, asked: Record) -> bool:
        return self.store.find(**asked) is not None and not self.options.redo

    def _record(self, asked: Record, bench: Isolated, method: str, *inputs: Any) -> None:
        try:
            found = {"status": "finished", **bench.call(method, *inputs, limit=TIME_LIMIT)}
        except Stopped as stop:
            found = {"status": stop.reason, "message": str(stop)}
        record = {**asked, **found}
        self.store.append(record)
        print(describe(record), flush=True)


class GridBench:
    """One set of scores in memory."""

    def __init__(self, case: Case, threads: int) -> None:
        self.threads = threads
        self.S, labels = case.data()
        self.y = labels if case.setting == "negatives" else None
        small, labels = case.small().data()
        LpFusion(2.0).fit(small, labels)

    def solve(self, p: str, most: int) -> Record:
        """`LpFusion.fit` at one p, in seconds and in reads of S."""
        fusion = LpFusion(parse_p(p), tol=GAP)
        return self._beside_reads(lambda: [fusion.fit(self.S, self.y).certificate_], most)

    def path(self, most: int) -> Record:
        """`lp_path` over the paper's nine p."""
        ps = [parse_p(p) for p in PAPER_P]
        return self._beside_reads(
            lambda: lp_path(self.S, self.y, ps=ps, tol=GAP).certificates, most
        )

    def _beside_reads(self, action: Callable[[], list[Certificate]], most: int) -> Record:
        first, proofs = timed(action)
        passes = max(proof.passes for proof in proofs)
        gap = max(proof.relative_gap for proof in proofs)
        del proofs  # they hold a number for each row
        reads = read_samples(self.S, self.threads)
        samples = [timed(action)[0] for _ in range(repeats_for(first, most))]
        reads += read_samples(self.S, self.threads)
        return {
            "seconds": median(samples), "samples": samples, "read_seconds": median(reads),
            "passes": passes, "relative_gap": gap,
        }  # fmt: skip


class MappedBench:
    """Scores in a file, none of them in memory yet."""

    def __init__(self, path: Path, shape: tuple[int, int], y: Any) -> None:
        self.S = np.memmap(path, dtype=np.float32, mode="r", shape=shape)
        self.y = y
        LpFusion(2.0).fit(np.random.default_rng(0).random((64, shape[1])))
        forget(path)

    def fit(self, p: str) -> Record:
        """Seconds from a cold file, and memory at its highest by kind."""
        fusion, clock = LpFusion(parse_p(p), tol=GAP), []
        peaks = sampled_peaks(lambda: clock.append(timed(lambda: fusion.fit(self.S, self.y))[0]))
        proof = fusion.certificate_
        found = {"seconds": clock[0], "passes": proof.passes, "relative_gap": proof.relative_gap}
        if peaks is not None:
            found |= {"peak_bytes": peaks["VmHWM"], "own_bytes": peaks["RssAnon"],
                      "mapped_bytes": peaks["RssFile"]}  # fmt: skip
        return found | {"score_bytes": self.S.nbytes}


def write_scores(
    path: Path, n: int, R: int, fraction: float, seed: int, block: int = MAPPED_BLOCK
) -> Any:
    """A file of float32 scores, drawn block by block; the labels are returned."""
    learners, labels = Learners.drawn(R, seed), []
    with path.open("wb") as file:
        for k, start in enumerate(range(0, n, block)):
            rng = np.random.default_rng([seed, k])
            S, y = learners.block(min(block, n - start), fraction, rng)
            file.write(S.astype(np.float32).tobytes())
            labels.append(y)
    return np.concatenate(labels)


def forget(path: Path) -> None:
    """Ask the system to drop what it holds of the file, so that reading it means the disk."""
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_samples(S: Matrix, threads: int, repeats: int = 5) -> list[float]:
    """Seconds of reading S once, by sums over blocks that the threads share."""
    rows = max(1, READ_BYTES // S.strides[0])
    blocks = [S[start : start + rows] for start in range(0, len(S), rows)]
    with ThreadPoolExecutor(threads) as pool:
        read = lambda: list(pool.map(np.sum, blocks))  # noqa: E731
        read()
        return [timed(read)[0] for _ in range(repeats)]


def describe(record: Record) -> str:
    """One line a record, for whoever watches."""
    parts = [record["kind"], f"{record['n']}×{record['R']}", record["setting"]]
    parts += [f"{record['threads']} threads", f"p={record.get('p', 'path')}", record["status"]]
    if record["status"] != "finished":
        return "  ".join([*parts, record["message"]])
    parts.append(f"{milliseconds(record['seconds'])} ms, {record['passes']:.1f} passes")
    if "read_seconds" in record:
        parts.append(f"{record['seconds'] / record['read_seconds']:.1f} reads")
    if "peak_bytes" in record:
        kinds = (record[kind] / 2**20 for kind in ("peak_bytes", "own_bytes", "mapped_bytes"))
        parts.append("peak {:.0f} MiB (own {:.0f}, mapped {:.0f})".format(*kinds))
    return "  ".join(parts)
