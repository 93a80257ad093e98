"""The page: means with intervals, and ranks, of stored rows alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from research.common.ranks import cliques, critical_difference, friedman, mean_ranks
from research.common.statistics import DRAWS, bootstrapped
from research.common.store import Record
from research.common.tables import markdown, number, page, paired_gain, prose
from research.studies.figures import SetFigures

FEWEST = 5  # tables behind a ranking
ELSEWHERE = "Seconds are of several machines, which the rows name, and only roughly comparable."


def board(rows: Sequence[Record], labels: int) -> list[str]:
    """A track: mean, interval, rank and difference from the best mean of each method."""
    figures = SetFigures([row for row in rows if row["labels"] == labels], ("labels",), "table")
    found = {name: figures.of((labels,), name) for name in figures.methods}
    common = sorted(set.intersection(*map(set, found.values()))) if found else []
    if len(common) < FEWEST or len(found) < 3:
        return []
    table = np.array([[found[name][each] for name in found] for each in common])
    ranks, order = mean_ranks(table), np.argsort(-table.mean(axis=0), kind="stable")
    names, best = list(found), order[0]
    head = ["", "mean AUC", "95 % interval", "− first", "mean rank", "won", "seconds a fit"]
    cells: list[Sequence[str]] = [head]
    for j in order:
        mean = bootstrapped(table[:, j])
        spent = figures.mean((labels,), names[j], "seconds")
        cells.append(
            [
                names[j],
                number(mean.mean),
                f"{mean.low:.1f} to {mean.high:.1f}",
                "" if j == best else paired_gain(table[:, j] - table[:, best]),
                number(float(ranks[j]), 2),
                str(int((table[:, j] == table.max(axis=1)).sum())),
                number(spent, 2),
            ]
        )
    difference = critical_difference(len(names), len(common))
    by_rank = [names[j] for j in np.argsort(ranks, kind="stable")]
    alike = [f"{by_rank[first]} to {by_rank[last]}" for first, last in cliques(ranks, difference)]
    test = friedman(table)
    return [
        markdown(cells),
        prose(
            f"""{len(common)} tables on which all were measured, {figures.seeds}
            {"split" if figures.seeds == 1 else "splits"} each; intervals by {DRAWS} bootstraps over
            tables. Friedman's test that all are alike: p = {test.p_value:.2g}. Mean ranks that
            differ by less than {difference:.2f} are not told apart (Nemenyi, 5 %)"""
            + (": " + "; ".join(alike) + "." if alike else ".")
            + (" " + ELSEWHERE if len({row["environment"] for row in rows}) > 1 else "")
        ),
    ]


def leaderboard_page(public: Iterable[Record], held_out: Iterable[Record]) -> str:
    """All tracks of both collections as Markdown."""
    parts = [
        "# Leaderboard",
        prose(
            """Anomaly detectors as their packages ship them, on the same splits of the same tables.
            The protocol is one file, `research/leaderboard/protocol.py`; a method is one line of
            `research/leaderboard/methods.py`. `make leaderboard FOLDER=…` measures what is missing
            on the tables of a folder and writes this page; the rows are in
            `research/results/leaderboard`."""
        ),
    ]
    about = {
        "Public tables": (
            public,
            """Tables of ADBench, by their names there. lpfuse chose some of its defaults on these
            very tables, among others, and the other methods did not: this ranking flatters lpfuse.
            The next one does not.""",
        ),
        "Held-out tables": (
            held_out,
            """Real tables of many fields that had no say in any choice of lpfuse: the half that
            confirms of [real tables](tables.md), whose rows these are, by one split. Their
            licences allow measuring only, so they are not named.""",
        ),
    }
    for title, (rows, words) in about.items():
        kept = list(rows)
        for k, labels in enumerate(sorted({row["labels"] for row in kept})):
            shown = board(kept, labels)
            parts += [f"## {title}", prose(words)] if k == 0 else []
            parts += [f"### {labels} labelled anomalies", *shown] if shown else []
    return page(*parts)
