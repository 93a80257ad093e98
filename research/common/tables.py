"""Stored results → Markdown: the one writer of tables and pages, and how numbers are told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill

from lpfuse._arrays.operations import Host
from research.common.statistics import Comparison, bootstrapped
from research.common.store import Record

NOTHING = "Nothing was measured yet.\n"


def markdown(rows: Iterable[Sequence[str]], *, numbers: bool = True) -> str:
    """A table; the first row is its head, the first column its names.

    Parameters
    ----------
    rows : iterable of sequences of str
        Cells.
    numbers : bool, default=True
        Whether all columns but the first hold numbers and are aligned to the right.

    Examples
    --------
    >>> from research.common.tables import markdown
    >>> print(markdown([["", "AUC"], ["sum", "88.6"]]))
    |  | AUC |
    |---|--:|
    | sum | 88.6 |
    """
    cells = list(rows)
    head, *body = (f"| {' | '.join(row)} |" for row in cells)
    rule = "|---|" + ("--:|" if numbers else "---|") * (len(cells[0]) - 1)
    return "\n".join([head, rule, *body])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of words and numbers, or a line that says there is nothing to show."""
    rows = list(rows)
    return markdown([head, *rows], numbers=False) + "\n" if rows else NOTHING


def prose(text: str) -> str:
    """A paragraph, its lines broken anew."""
    return fill(" ".join(text.split()), 118, break_long_words=False, break_on_hyphens=False)


def page(*parts: str) -> str:
    """Parts of a page with an empty line between them."""
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


# ---------------------------------------------------------------------------------------- numbers


def gain(found: Comparison, p_value: float | None = None) -> str:
    """A comparison in short; `p_value` replaces its own where several were corrected together.

    Examples
    --------
    >>> from research.common.statistics import compare
    >>> gain(compare([90, 80, 75, 60], [85, 80, 72, 56]))
    '+3.0 [-0.4, +6.4], 3:1:0, p = 0.25'
    """
    mean, p_value = found.difference, found.p_value if p_value is None else p_value
    score = f"{found.wins}:{found.ties}:{found.losses}"
    return f"{mean.mean:+.1f} [{mean.low:+.1f}, {mean.high:+.1f}], {score}, p = {p_value:.2g}"


def paired_gain(gains: Host) -> str:
    """A mean gain with the interval of the bootstrap over sets.

    Examples
    --------
    >>> import numpy as np
    >>> paired_gain(np.repeat([-1.0, 3.0], 60))
    '+1.0 [+0.6, +1.4]'
    """
    found = bootstrapped(gains)
    return f"{found.mean:+.1f} [{found.low:+.1f}, {found.high:+.1f}]"


def number(value: float | None, digits: int = 1) -> str:
    """So many digits; nothing where nothing was measured."""
    return "" if value is None else f"{value:.{digits}f}"


def gains_over_sets(rows: Sequence[Sequence[str]], sets: int) -> list[str]:
    """A table of gains with what they mean; nothing where there is but one set."""
    about = prose(
        """Mean gain with its 95 % interval over sets, sets won : equal : lost, Wilcoxon's p-value
        with Holm's correction for the comparisons of a row:"""
    )
    return [about, markdown(rows)] if sets > 1 else []


def milliseconds(seconds: float) -> str:
    """Three digits, without the unit."""
    return f"{1e3 * seconds:.3g}"


def mebibytes(number: float) -> str:
    """Whole MiB."""
    return f"{number / 2**20:.0f} MiB"


def gibibytes(number: float | None, digits: int = 2) -> str:
    """GiB; a dash where the system did not tell."""
    return "–" if number is None else f"{number / 2**30:.{digits}f} GiB"


# ---------------------------------------------------------------------------- goals, circumstances


@dataclass(frozen=True)
class Goal:
    """A row of the goal table; ``met`` is None where nothing was measured."""

    name: str
    target: str
    measured: str = "not measured"
    met: bool | None = None


def goal_table(goals: Iterable[Goal]) -> str:
    """Each goal with what was measured and whether it is met."""
    answers = {True: "yes", False: "**no**", None: "–"}
    rows = [[g.name, g.target, g.measured, answers[g.met]] for g in goals]
    return table(["goal", "target", "measured", "met"], rows)


def measured_with(
    environments: Mapping[str, Record], records: Iterable[Record], threads: int | str | None
) -> str:
    """Processor, threads, versions and commits behind the records."""
    used = {r.get("environment") for r in records}
    found = [e for key, e in environments.items() if key in used]
    if not found:
        return NOTHING
    latest = found[-1]
    versions = ", ".join(f"{name} {version}" for name, version in latest["versions"].items())
    commits = ", ".join(sorted({commit_name(e) for e in found}))
    return (
        f"- {latest['cpu']}, {latest['cores']} cores; threads: {threads}\n"
        f"- Python {latest['python']} on {latest['system']}; {', '.join(latest['blas'])}\n"
        f"- {versions}\n"
        f"- commits: {commits}\n"
        + "".join(f"- {note}\n" for note in sorted({e["note"] for e in found if "note" in e}))
    )


def commit_name(environment: Record) -> str:
    """The commit, and whether what was measured had been changed since."""
    changed = " (with uncommitted changes)" if environment["uncommitted_changes"] else ""
    return f"{environment['commit']}{changed}"
