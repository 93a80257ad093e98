"""Measure what is missing on the tables of a folder (`run`), write the page (`page`)."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

import numpy as np

from research.common.datasets.base import local_folder
from research.common.store import Record, read_records, write_whole
from research.leaderboard.methods import METHODS
from research.leaderboard.page import leaderboard_page
from research.leaderboard.protocol import ASKED, measure
from research.studies.running import RESULTS, listed
from research.studies.tables.comparison import read_tables

ROWS = RESULTS.parent / "leaderboard"
PAGE = Path("docs/benchmarks/leaderboard.md")


def public_rows(folder: Path = ROWS) -> list[Record]:
    """Stored rows of the protocol."""
    found = read_records(sorted(folder.glob("*.jsonl")), ASKED)
    return [row for row in found if row["kind"] == "auc"]


def held_out_rows() -> list[Record]:
    """Rows of the same splits on tables that had no say, from the study of tables."""
    rows = read_tables(sorted((RESULTS / "tables").glob("*.jsonl")))
    asked = {"half": "confirm", "mode": "seen", "seed": 0}
    return [
        row
        for row in rows
        if row["method"] in METHODS and all(row[name] == value for name, value in asked.items())
    ]


def fetch(name: str, anomaly: str, folder: Path) -> Path:
    """Fetch a table of numbers from OpenML, and write it as ``NAME.npz``; needs a network."""
    from sklearn.datasets import fetch_openml

    data = fetch_openml(name, version="active", as_frame=True, parser="auto")
    X = data.data.select_dtypes("number").to_numpy(dtype=np.float64)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / f"{name}.npz", X=X, y=(data.target.astype(str) == anomaly))
    return folder / f"{name}.npz"


def main() -> None:
    parser = ArgumentParser("python -m research.leaderboard", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure what is not stored yet")
    run.add_argument("folder", type=Path, nargs="?", help="tables NAME.npz with X and y")
    run.add_argument("--methods", default="; ".join(METHODS), help="'a; b'")
    run.add_argument("--jobs", type=int, default=1, help="tables measured at a time")
    run.add_argument("--out", type=Path, default=ROWS / "rows.jsonl")
    page = commands.add_parser("page", help="write the page from stored rows")
    page.add_argument("--out", type=Path, default=PAGE)
    get = commands.add_parser("fetch", help="fetch a table from OpenML")
    get.add_argument("name")
    get.add_argument("folder", type=Path)
    get.add_argument("--anomaly", required=True, help="the label of anomalies")
    options = parser.parse_args()
    if options.command == "fetch":
        print(fetch(options.name, options.anomaly, options.folder))
    elif options.command == "page":
        write_whole(options.out, leaderboard_page(public_rows(), held_out_rows()))
    else:
        local = local_folder(None)
        folder = options.folder or (None if local is None else local / "anomaly")
        if folder is None:
            parser.error("name a folder of tables NAME.npz, or set LPFUSE_DATA")
        measure(folder, listed(options.methods), options.out, jobs=options.jobs)


if __name__ == "__main__":
    main()
