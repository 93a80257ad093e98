"""What a run of `research.proofs` found, as a table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from research.common.store import Row
from research.common.tables import markdown

HEAD = (
    "family", "problems", "optimal", "not proven", "of these within tol", "refused", "false",
    "errors", "worst excess",
)  # fmt: skip


def table(rows: Iterable[Row]) -> str:
    """Per family: how certificates ended, and by how much the worst claimed too little."""
    families: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        families[row["set"]].append(row)
    every = [row for group in families.values() for row in group]
    lines = [_line(name, group) for name, group in families.items()]
    return markdown([HEAD, *lines, _line("all", every)])


def _line(name: str, rows: list[Row]) -> tuple[str, ...]:
    counts: Counter[str] = sum((Counter(row["outcomes"]) for row in rows), Counter())
    ends = {"optimal", "refused", "false", "error"}  # all other statuses claim no proof
    unproven = sum(n for status, n in counts.items() if status not in ends)
    excesses = [float(row["worst_excess"]) for row in rows if row["worst_excess"] is not None]
    figures = (
        sum(row["problems"] for row in rows), counts["optimal"], unproven,
        sum(row["cautious"] for row in rows), counts["refused"], counts["false"], counts["error"],
    )  # fmt: skip
    worst = f"{max(excesses):.0e}" if excesses else "–"
    return (name, *(f"{figure:,}" for figure in figures), worst)


def refusals(rows: Iterable[Row]) -> str:
    """Each sentence, and how often."""
    counts: Counter[str] = sum((Counter(row["refusals"]) for row in rows), Counter())
    return "\n".join(f"{n:>7,}  {sentence}" for sentence, n in counts.most_common())


def told(rows: Iterable[Row]) -> str:
    """Each problem that must not occur, worst first: how to make it again, and what was wrong."""
    found = [(entry, row["set"]) for row in rows for entry in row["told"]]
    found.sort(key=lambda pair: -float(pair[0].get("excess") or 0))
    return "\n".join(
        f"make({family!r}, {entry['at']}): {entry['why']}"
        + (
            f" [excess {float(entry['excess']):.1e}, claimed {float(entry['claimed']):.1e}, "
            f"proven {float(entry['proven']):.1e}]"
            if entry.get("excess") is not None
            else ""
        )
        for entry, family in found
    )
