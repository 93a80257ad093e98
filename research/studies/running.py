"""What all studies share: development sets, cells (set, seed) measured once, paired comparisons.

``LPFUSE_DATA`` names the folder that holds ``anomaly/*.npz`` and ``uci/*.csv``.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lpfuse._arrays.operations import Host
from research.common.datasets import UCI, anomaly_names, load_anomaly, load_uci, uci_file
from research.common.measure import measure, versions
from research.common.statistics import compare
from research.common.store import Cell, Record

RESULTS = Path("research/results/studies")

Study = Callable[[Host, Host, int], Iterable[Record]]  # features, is_anomaly, seed → records
LoadSet = Callable[[str], tuple[Host, Host]]


def set_names() -> list[str]:
    """The development sets, in a fixed order and as the stored results call them."""
    if not os.environ.get("LPFUSE_DATA"):
        raise SystemExit("Set LPFUSE_DATA to the folder that holds anomaly/*.npz and uci/*.csv.")
    return [*anomaly_names(), *_uci_names()]


def load_set(name: str) -> tuple[Host, Host]:
    """Features and ``is_anomaly`` of a development set."""
    uci = _uci_names()
    data = load_uci(uci[name]) if name in uci else load_anomaly(name)
    return data.X, data.y == -1


def _uci_names() -> dict[str, str]:
    """Stem of the file → name, for the UCI sets that are there."""
    return {Path(UCI[name].file).stem: name for name in filter(uci_file, UCI)}


def study_parser(command: str, about: str | None, seeds: int, out: Path) -> ArgumentParser:
    """Options that every study takes."""
    parser = ArgumentParser(f"python -m {command}", description=about)
    parser.add_argument("--seeds", type=int, default=seeds, help="random splits of each set")
    parser.add_argument("--jobs", type=int, default=1, help="cells measured at a time")
    parser.add_argument("--out", type=Path, default=out)
    parser.add_argument("--show", action="store_true", help="tables from the stored results only")
    return parser


def measure_study(
    study: Study,
    path: Path,
    *,
    seeds: int,
    jobs: int = 1,
    names: Iterable[str] | None = None,
    load: LoadSet = load_set,
    **about: object,
) -> None:
    """Measure the cells that are not stored yet.

    Parameters
    ----------
    study : callable
        Features, ``is_anomaly`` and the seed of a split → records.
    path : Path
        Where the records are stored.
    seeds, jobs : int
        Random splits of each set, and cells measured at a time.
    names : iterable of str, optional
        By default all development sets.
    load : callable
        Name → features and ``is_anomaly``.
    **about
        What the records depend on: it opens a new file, beside the versions.
    """
    known = versions()
    python = known.pop("python")
    names = set_names() if names is None else list(names)
    cells = [Cell(name, seed) for seed in range(seeds) for name in names]
    work = partial(_records, study=study, load=load)
    opening = {"versions": known, "python": python, **about}
    measure(work, cells, path, protocol=None, opening=opening, jobs=jobs)


def _records(cell: Cell, study: Study, load: LoadSet) -> list[Record]:
    return list(study(*load(cell.set), cell.seed))


class Paired(NamedTuple):
    """Two options over the same sets, as cells of a table."""

    ours: str
    theirs: str
    won_lost: str
    extremes: str  # the smallest and the largest gain
    worst: str  # the set with the smallest gain
    p_value: str  # Wilcoxon's


def paired(
    ours: Mapping[str, float], theirs: Mapping[str, float], decimals: int | None = None
) -> Paired:
    """Mean AUCs of two options by set, and how they compare set by set.

    With `decimals`, gains are rounded first, so that means of equal figures are equal; the tables
    of ADR 0003 and 0006 were made without.
    """
    pairs = np.array([(ours[name], theirs[name]) for name in ours])
    gains = pairs[:, 0] - pairs[:, 1]
    gains = gains if decimals is None else gains.round(decimals)
    found = compare(gains, np.zeros(len(gains)))
    worst = int(np.argmin(gains))
    our_mean, their_mean = pairs.mean(axis=0)
    return Paired(
        f"{our_mean:.1f}",
        f"{their_mean:.1f}",
        f"{found.wins} : {found.losses}",
        f"{gains.min():+.1f}, {gains.max():+.1f}",
        f"{list(ours)[worst]} {gains[worst]:+.1f}",
        f"{found.p_value:.2g}",
    )
