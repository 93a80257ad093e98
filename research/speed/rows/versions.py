"""Two versions of lpfuse, each in a process of its own, on the very same rows.

Nothing here imports lpfuse before the process knows which version it is to be.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from research.common.clock import cpu_timed

from .data import Rows
from .latency import latencies

SOURCE = Path("packages/lpfuse/src")
NOW = Path(__file__).parents[3] / SOURCE


def source_in(folder: Path) -> Path:
    """Where a checkout, or a folder with lpfuse itself in it, holds the package."""
    for source in (folder / SOURCE, folder):
        if (source / "lpfuse" / "__init__.py").is_file():
            return source.resolve()
    raise FileNotFoundError(
        f"There is no lpfuse in {folder}: expected a checkout with {SOURCE}/lpfuse, or a folder "
        "with lpfuse in it."
    )


def import_from(source: Path) -> Any:
    """The package lpfuse of this folder and of no other."""
    if "lpfuse" in sys.modules:
        raise RuntimeError("lpfuse was imported before it was known which version to take.")
    sys.path.insert(0, str(source))
    found = import_module("lpfuse")
    if not Path(str(found.__file__)).resolve().is_relative_to(source):
        raise ImportError(f"Expected lpfuse of {source}, got {found.__file__}.")
    return found


class VersionBench:
    """One version: fits, then verdicts by what was fitted last."""

    def __init__(self, source: Path, rows: Rows, scored: int, single: int) -> None:
        make = import_from(source).FusedDetector
        self.fused = make(random_state=rows.seed)
        self.X, self.y = rows.training()
        self.unseen, self.single = rows.unseen(scored), rows.unseen(single)
        small = rows.small()
        make(random_state=rows.seed).fit(*small.training()).predict(small.unseen(20))

    def fit(self) -> float:
        """CPU seconds of a fit."""
        return cpu_timed(lambda: self.fused.fit(self.X, self.y))[0]

    def predict(self) -> float:
        """CPU seconds of verdicts on many rows."""
        return cpu_timed(lambda: self.fused.predict(self.unseen))[0]

    def row(self) -> float:
        """Median seconds of scoring one row."""
        found = latencies({"row": self.fused.score_samples}, self.single)["row"]
        return median(found)
