"""Splits of data sets under the protocol: measured once, or read back."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lpfuse._validation.params import key
from research.common.datasets import UCI, Dataset, load_dataset
from research.common.datasets.uci import ALIASES
from research.common.measure import measure
from research.common.options import Options
from research.common.protocol import PAPER, QUICK, Protocol
from research.common.splits import Split, split
from research.common.store import Cell, Row, protocol_hash, read_rows

Variant = tuple[str, Callable[[Dataset], Dataset]]


def measure_splits(
    name: str,
    work: Callable[[Split], list[Row]],
    options: Options,
    *,
    sets: Sequence[str] = tuple(UCI),
    protocol: Protocol | None = None,
    quick_splits: int = 2,
    variants: Mapping[str, Variant] = MappingProxyType({}),
    **description: Any,
) -> list[Row]:
    """Rows of every split of every data set; what is stored is not measured again.

    Parameters
    ----------
    name : str
        Of the experiment, and so of its file.
    work : callable
        Takes a split, returns its rows.
    options : Options
        Data sets, splits, jobs and where to store.
    sets : sequence of str
        Data sets, unless the options name some.
    protocol : Protocol, optional
        By default the paper's, or its quick version.
    quick_splits : int
        Splits of a quick run.
    variants : mapping
        Name → a set and what is changed in it; `sets` may name them.
    **description
        What the rows depend on besides the protocol.

    Raises
    ------
    FileNotFoundError
        When nothing is stored that could be shown.
    """
    protocol = protocol or (QUICK if options.quick else PAPER)
    sources = _named(options.sets or sets)
    # What a user's file means depends on more than its bytes.
    files = {
        f"file {short}": [_digest(Path(source)), options.label, options.normal]
        for short, source in sources.items()
        if Path(source).is_file()
    }
    whole = {**protocol.description, **description, **files}
    splits = min(options.seeds, quick_splits) if options.quick else options.seeds
    path = options.out / f"{name}.jsonl"
    if options.show:
        stored = read_rows(path, protocol_hash(whole))
        asked = set(sources) if options.sets else {row["set"] for row in stored}
        rows = [row for row in stored if row["set"] in asked and row["seed"] < splits]
        if not rows:
            raise FileNotFoundError(
                f"{path} holds no results of this protocol, these methods and these data sets. "
                "Leave --show out to measure them."
            )
        return rows
    load = partial(_load, sources, options.data, options.label, options.normal, variants)
    for source in sources:  # what cannot be used is told before hours of work
        _check_sizes(load(source), protocol)
    # Seed by seed, so that a run that is interrupted has something of every set.
    cells = [Cell(source, seed) for seed in range(splits) for source in sources]
    task = partial(_rows, load=load, protocol=protocol, work=work)
    return measure(task, cells, path, protocol=whole, jobs=options.jobs, progress=options.progress)


def _named(sources: Sequence[str]) -> dict[str, str]:
    """Name → source. A file keeps its suffix: it is never taken for a set of the paper."""
    named: dict[str, str] = {}
    for source in sources:
        path = Path(source)
        name = path.name if path.suffix else ALIASES.get(key(source), source)
        if named.setdefault(name, source) != source and path.suffix:
            raise ValueError(
                f"Two data sets are called {name!r}: {named[name]} and {source}. Rename one of the "
                "files, for results tell them apart by name."
            )
    return named


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()[:12]


def _load(
    sources: Mapping[str, str],
    data: Path | None,
    label: str | None,
    normal: str | None,
    variants: Mapping[str, Variant],
    name: str,
) -> Dataset:
    named: dict[str, Any] = {"label": label, "normal": normal}
    given = {option: value for option, value in named.items() if value is not None}
    source, change = variants.get(sources[name], (sources[name], lambda data: data))
    found = load_dataset(source, data_home=data, **given)  # nosec B615 # ours, of a folder
    return replace(change(found), name=name)


def _check_sizes(data: Dataset, protocol: Protocol) -> None:
    """Every part of a split must have rows."""
    parts = split(data.X, data.y, protocol, seed=0)
    needed = [parts.train[1:], parts.test, parts.sought]
    if protocol.validation:
        non_pure = parts.training("non-pure")
        kept = non_pure.validation[non_pure.labels < 0]
        needed += [parts.held_out, non_pure.labelled, kept]
    if not all(len(rows) for rows in needed):
        normals, anomalies = int((data.y > 0).sum()), int((data.y < 0).sum())
        raise ValueError(
            f"{data.name} has {normals} normal rows and {anomalies} anomalies, too few for the "
            "split into training, validation and test. Bring at least 10 normal rows and 4 "
            "anomalies."
        )


def _rows(
    cell: Cell,
    *,
    load: Callable[[str], Dataset],
    protocol: Protocol,
    work: Callable[[Split], list[Row]],
) -> list[Row]:
    data = load(cell.set)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of odd widths, tied scores: the figures tell
        return work(split(data.X, data.y, protocol, cell.seed))
