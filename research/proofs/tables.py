"""What a run of `research.proofs` found, as a table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from research.common.store import Record, Row
from research.common.tables import markdown, page, prose
from research.proofs.fuzz import merged

HEAD = (
    "family", "problems", "optimal", "not proven", "of these within tol", "refused", "false",
    "errors", "worst excess",
)  # fmt: skip


def families_of(rows: Iterable[Row]) -> dict[str, Row]:
    """The blocks of each family as one row, in the order in which they come."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["set"]].append(row)
    return {family: {"set": family} | merged(group) for family, group in groups.items()}


def table(rows: Iterable[Row]) -> str:
    """Per family: how certificates ended, and by how much the worst claimed too little."""
    families = families_of(rows)
    lines = [_line(name, row) for name, row in families.items()]
    return markdown([HEAD, *lines, _line("all", merged(list(families.values())))])


def _line(name: str, row: Row) -> tuple[str, ...]:
    counts: Counter[str] = Counter(row["outcomes"])
    ends = {"optimal", "refused", "false", "error"}  # all other statuses claim no proof
    unproven = sum(n for status, n in counts.items() if status not in ends)
    figures = (
        row["problems"], counts["optimal"], unproven, row["cautious"], counts["refused"],
        counts["false"], counts["error"],
    )  # fmt: skip
    worst = row["worst_excess"]
    return (name, *(f"{n:,}" for n in figures), "–" if worst is None else f"{float(worst):.0e}")


def refusals(rows: Iterable[Row]) -> str:
    """Each sentence, and how often."""
    return "\n".join(f"{n:>7,}  {sentence}" for sentence, n in _refusals(rows))


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


def page_of(published: Record) -> str:
    """The page about a run whose sums are stored."""
    rows = list(published["families"].values())
    every = merged(rows)
    above: Counter[str] = Counter(every["excesses"])  # of those that are not there, none
    judged = every["problems"] - every["outcomes"].get("refused", 0)
    return page(
        "# Certificates judged in exact arithmetic",
        prose(
            "Written by `python -m research.proofs --publish` from stored results: do not edit by "
            "hand. Each problem is fitted, and weights and witness are judged in rational numbers "
            "that are never rounded, by code that the library does not share."
        ),
        prose(
            "*Optimal*: proven within the tolerance, by the certificate and by the judge. *Not "
            "proven*: the certificate says so; in the next column those of them that exact "
            "arithmetic can prove. *Refused*: at the entrance, with a sentence. *False*: a claim "
            "that is better than the truth. *Worst excess*: by how much the true gap exceeds the "
            "claimed one, relative to the value (at least 1e-3 Σ c); negative: every claim was "
            "cautious. *Errors*: exceptions that are no refusal."
        ),
        table(rows),
        prose(
            f"Of {judged:,} that were judged, {above['0']:,} claimed less than the true gap by "
            f"anything at all, {above['1e-15']:,} by more than 1e-15, {above['1e-12']:,} by more "
            "than 1e-12, from where on a claim counts as false."
        ),
        "## Refusals",
        markdown([("sentence", "problems"), *((text, f"{n:,}") for text, n in _refusals(rows))]),
    )


def _refusals(rows: Iterable[Row]) -> list[tuple[str, int]]:
    counts: Counter[str] = sum((Counter(row["refusals"]) for row in rows), Counter())
    return counts.most_common()
