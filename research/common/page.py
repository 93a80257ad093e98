"""Pieces of a page of results: Markdown tables, goals, and what the figures were measured with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .store import Record


@dataclass(frozen=True)
class Goal:
    """A row of the goal table; ``met`` is None where nothing was measured."""

    name: str
    target: str
    measured: str = "not measured"
    met: bool | None = None


def goal_table(goals: Iterable[Goal]) -> str:
    verdict = {True: "yes", False: "**no**", None: "–"}
    rows = [[g.name, g.target, g.measured, verdict[g.met]] for g in goals]
    return table(["goal", "target", "measured", "met"], rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, or a line that says there is nothing to show."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    if not lines:
        return "Nothing was measured yet.\n"
    return "\n".join(["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *lines]) + "\n"


def measured_with(
    environments: Mapping[str, Record], records: Iterable[Record], threads: int | str | None
) -> str:
    """Processor, threads, versions and commits behind the records."""
    used = {r.get("environment") for r in records}
    found = [e for key, e in environments.items() if key in used]
    if not found:
        return "Nothing was measured yet.\n"
    latest = found[-1]
    versions = ", ".join(f"{name} {version}" for name, version in latest["versions"].items())
    commits = ", ".join(sorted({_commit(e) for e in found}))
    return (
        f"- {latest['cpu']}, {latest['cores']} cores; threads: {threads}\n"
        f"- Python {latest['python']} on {latest['system']}; {', '.join(latest['blas'])}\n"
        f"- {versions}\n"
        f"- commits: {commits}\n"
    )


def _commit(environment: Record) -> str:
    changed = " (with uncommitted changes)" if environment["uncommitted_changes"] else ""
    return f"{environment['commit']}{changed}"
