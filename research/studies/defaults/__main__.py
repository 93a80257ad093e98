"""Measure the options on the development sets, store the results, show them as tables."""

from __future__ import annotations

import argparse
import json
import platform
import warnings
from importlib.metadata import version
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

from .data import read_sets
from .study import CLIPS, GRID, records_of
from .tables import Option, describe, means_table, paired_table, read_cells

PACKAGES = ("lpfuse", "numpy", "scipy", "scikit-learn")
CHOSEN = Option(clip="soft", weighting="plain", p="4/3")


def main() -> None:
    parser = argparse.ArgumentParser("python -m research.studies.defaults", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="random splits of each set")
    parser.add_argument("--out", type=Path, default=Path("research/results/studies/defaults.jsonl"))
    parser.add_argument("--show", action="store_true", help="tables from the stored results only")
    options = parser.parse_args()
    if not options.show:
        measure(options.out, options.seeds)
    cells = read_cells(options.out)
    print(means_table(cells), end="\n\n")
    print(f"Paired comparison: {describe(CHOSEN)}\n\n{paired_table(cells, CHOSEN, rivals())}")


def rivals() -> list[Option]:
    """The references, and all that differ from the chosen option in one respect."""
    references = [*(Option(clip, "sum") for clip in CLIPS), Option(CHOSEN.clip, "picked")]
    variants = [
        *(CHOSEN._replace(p=p) for p in GRID),
        *(CHOSEN._replace(clip=clip) for clip in CLIPS),
        *(CHOSEN._replace(weighting=name) for name in ("intercept", "balanced", "nonnegative")),
    ]
    return references + [option for option in variants if option != CHOSEN]


def measure(path: Path, seeds: int) -> None:
    # Mixtures and hostile scalings may stop early; each record keeps the gap that was reached.
    warnings.simplefilter("ignore", ConvergenceWarning)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")  # so that a run that stops early loses no results
    with unfinished.open("w") as file:
        versions = {name: version(name) for name in PACKAGES}
        header = {"versions": versions, "python": platform.python_version(), "p": list(GRID)}
        print(json.dumps(header), file=file)
        for name, X, is_anomaly in read_sets():
            for seed in range(seeds):
                for record in records_of(name, X, is_anomaly, seed):
                    print(json.dumps(record), file=file)
    unfinished.replace(path)


if __name__ == "__main__":
    main()
