"""The page about certificates that `lpfuse.verify` checked, from stored sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from lpfuse._format import name_of_p, percent
from research.common.store import Record
from research.common.tables import markdown, page, prose
from research.proofs.drawn import ODD, USUAL

STATUSES = ("optimal", "rounding", "max_iter", "stopped", "refused", "false", "error")
HEAD = ("problems", *(name.replace("_", " ") for name in STATUSES))


def page_of(stored: Record) -> str:
    """The whole page."""
    kinds = {kind: Counter(stored["kinds"][kind]) for kind in (*USUAL, *ODD)}
    short = [
        row for row in stored["told"] if row["usual"] and row["status"] not in ("false", "error")
    ]
    usual, odd = (sum((kinds[kind] for kind in some), Counter()) for some in (USUAL, ODD))
    solved = usual.total() - usual["refused"]
    versions = ", ".join(f"{name} {number}" for name, number in stored["versions"].items())
    return page(
        "# Certificates under attack",
        prose(
            "Written by `python -m research.proofs.verified --publish` from stored sums: do not "
            f"edit by hand. {stored['problems']:,} problems of 1 to 300 rows and 1 to 40 columns, "
            "tol = 1e-8, four in five of a usual scale. Each is fitted, and "
            "`lpfuse.verify` recomputes its certificate, by code that imports nothing of the "
            "solver. The judge of [the families made to break certificates](certificates.md) is "
            f"other code again. Measured with {versions}."
        ),
        prose(
            f"False certificates: {usual['false'] + odd['false']}. Fits that ended in an "
            f"exception: {usual['error'] + odd['error']}. Short of the tolerance under the name "
            f"of an optimum: {stored['silent']}. Of {solved:,} problems of a usual scale "
            f"{len(short)} ended short of 1e-8, and said so: {_one_in(len(short), solved)}."
        ),
        "## How they ended",
        markdown(
            [
                ("scores", *HEAD),
                *(_line(kind, kinds[kind]) for kind in USUAL),
                _line("usual scale, all", usual),
                *(_line(kind, kinds[kind]) for kind in ODD),
                _line("odd, all", odd),
            ]
        ),
        prose(
            "*Rounding*: the tolerance is met but for what rounding may have done. *Max iter* and "
            "*stopped*: not met. All three say so in the status and in a warning. *Refused*: at "
            "the entrance, with a sentence. *False*: a certificate that does not hold. *Error*: an "
            "exception that is no refusal."
        ),
        "## Those of a usual scale that ended short",
        _shortfalls(short),
        "## By the largest score",
        prose(
            "A weight has sixteen digits, so that scores of size 10^k leave the fused score "
            "uncertain by 10^(k − 16), whatever the solver; sums with the slopes of the loss lose "
            "as much again. Over all kinds, *short in floats* are those within 1e-8 in exact "
            "arithmetic, which floats could not prove; *short* are those whose weights may be "
            "farther from the best ones. The remedy is that of the warning: scale the scores "
            "first, as `TwoSidedMinMax` and `TailScaler` do."
        ),
        _by_size(stored["sizes"]),
        "## Falsified certificates",
        prose(
            "Of every fit a copy is falsified in one place, at random and by as little as 1e-9, "
            "and verified again. *Untrue*: something is by now, says the judge, which tolerates "
            "1e-12. *Not seen*: of these, what `verify` let pass. *Seen* may be more than untrue: "
            "it tolerates sixteen units in the last place, and no gap below value − bound."
        ),
        _attacks(stored["attacks"], stored["missed"]),
    )


def _one_in(few: int, many: int) -> str:
    return f"one in {round(many / few):,}" if few else "none"


def _line(name: str, counts: Counter[str]) -> tuple[str, ...]:
    return (name, f"{counts.total():,}", *(f"{counts[status]:,}" for status in STATUSES))


def _shortfalls(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "None."
    head = ("scores", "n × R", "p", "loss", "options", "status", "claimed", "proven", "seed")
    return markdown(
        [
            head,
            *(
                (
                    row["kind"], f"{row['n']} × {row['R']}", name_of_p(float(row["p"])),
                    row["loss"].replace("_", " "), _options(row), row["status"].replace("_", " "),
                    f"{float(row['claimed']):.1e}", f"{float(row['proven']):.1e}", str(row["at"]),
                )
                for row in sorted(rows, key=lambda row: -float(row["claimed"]))[:40]
            ),
        ]
    )  # fmt: skip


def _by_size(sizes: Mapping[str, Mapping[str, int]]) -> str:
    ends = ("optimal", "short in floats", "short", "refused")
    lines = []
    for size, found in sizes.items():
        counts = Counter(found)
        share = (counts["short"] + counts["short in floats"]) / max(counts.total(), 1)
        figures = (f"{counts[end]:,}" for end in ends)
        lines.append((size, f"{counts.total():,}", *figures, percent(share, 2)))
    return markdown([("largest score", "problems", *ends, "ended short"), *lines])


def _options(row: Mapping[str, Any]) -> str:
    names = {"intercept": "b", "nonnegative": "w ≥ 0", "prior": "prior"}
    return ", ".join(told for name, told in names.items() if row[name]) or "–"


def _attacks(attacks: Mapping[str, Sequence[int]], missed: Sequence[Mapping[str, Any]]) -> str:
    unseen = Counter(row["attack"] for row in missed)
    lines = [
        (
            attack,
            f"{untrue:,}",
            f"{seen:,}",
            f"{unseen[attack]:,}",
            percent(1 - unseen[attack] / max(untrue, 1), 2),
        )
        for attack, (untrue, seen) in attacks.items()
    ]
    return markdown([("changed", "untrue", "seen", "not seen", "of the untrue seen"), *lines])
