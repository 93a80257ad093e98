"""What all studies share: development sets, cells (set, seed) measured once, paired comparisons.

``LPFUSE_DATA`` names the folder that holds ``anomaly/*.npz`` and ``uci/*.csv``.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from lpfuse._arrays.operations import Host
from research.common.datasets import UCI, anomaly_names, load_anomaly, load_uci, uci_file
from research.common.measure import finished, measure, versions
from research.common.statistics import compare
from research.common.store import Cell, Record, RecordStore

RESULTS = Path("research/results/studies")

Study = Callable[[Host, Host, int], Iterable[Record]]  # features, is_anomaly, seed → records
LoadSet = Callable[[str], tuple[Host, Host]]
M = TypeVar("M", bound="HasPackage")


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


# ---------------------------------------------------------------------- methods, measured once each


class HasPackage(Protocol):
    """A method that may need a package which is not installed."""

    @property
    def package(self) -> str:
        """Its name, as it is imported."""


def listed(text: str) -> list[str]:
    """Parts of a list with commas; names that hold a comma are ended by semicolons."""
    parts = (part.strip() for part in text.split(";" if ";" in text else ","))
    return [part for part in parts if part]


def title(name: str) -> str:
    """What rows call a method: ``TITLE=module:function`` is called TITLE."""
    return name.partition("=")[0]


def maker_at(name: str, known: Iterable[str]) -> Callable[..., Any]:
    """The function that ``[TITLE=]module:function`` names, which makes a detector."""
    module, colon, function = name.rpartition("=")[2].partition(":")
    if not colon:
        raise ValueError(
            f"There is no method {name!r}. Known are {'; '.join(known)}; and "
            "[TITLE=]module:function, which is called with random_state and returns a detector."
        )
    return getattr(import_module(module), function)


def installed(methods: Mapping[str, M]) -> dict[str, M]:
    """Methods by name without those whose package is missing, which are told."""
    missing = [name for name, method in methods.items() if find_spec(method.package) is None]
    for name in missing:
        print(f"{name} is left out: {methods[name].package} is not installed.", file=sys.stderr)
    return {name: method for name, method in methods.items() if name not in missing}


def append_missing(
    store: RecordStore,
    missing: Mapping[Cell, Sequence[Any]],
    rows_of: Callable[[Cell], list[Record]],
    *,
    jobs: int = 1,
) -> None:
    """Measure the cells of which something is missing; a cell's rows come when all are there.

    What a method cannot do on a set is told and not stored: the next run tries again.

    Parameters
    ----------
    store : RecordStore
        Where the rows are appended.
    missing : mapping
        Cell → questions that are not answered yet.
    rows_of : callable
        Cell → rows; one that is ``failed`` says why.
    jobs : int
        Cells measured at a time.
    """
    for rows in finished(rows_of, [cell for cell, asked in missing.items() if asked], jobs):
        for row in rows:
            if "failed" in row:
                where = row.get("table", row.get("set"))
                print(f"{row['method']} failed on {where}: {row['failed']}", file=sys.stderr)
            else:
                store.append(row)


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
