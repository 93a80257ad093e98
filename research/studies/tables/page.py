"""The page: figures over many tables, from stored rows alone; no single table is named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from research.common.statistics import DRAWS
from research.common.store import Record
from research.common.tables import markdown, number, page, paired_gain, prose
from research.studies.figures import Place
from research.studies.tables.comparison import MUCH, TableFigures
from research.studies.tables.ours import control_names, is_control
from research.studies.tables.rivals import RIVALS
from research.studies.tables.splits import HALVES, LABELS, Half, Mode

FEWEST = 20  # tables behind a figure: with fewer, single ones show through
# Rows of the table in README.md, and the stored method behind each.
README_ROWS = {
    "**`FusedDetector()`**": "lpfuse",
    "plain sum of the same detectors": "lpfuse, sum",
    "stacker on the same scores": "lpfuse, stacked",
    "CatBoost, 300 trees": "CatBoost",
    "PyOD, average of eight": "PyOD, average of eight",
}
# Measured by others; no row of it is stored here.
ELSEWHERE = prose(
    """An independent study on 557 other tables, one split each, had these means of the AUC with 0 /
    5 / 20 / 100 labels: `FusedDetector` 79.7 / 87.0 / 90.2 / 92.5, XGBOD – / 83.4 / 88.3 / 91.7,
    extremely randomised trees – / 82.4 / 88.0 / 91.6. Without labels the plain sum of the same pool
    had 79.8: that learnt weights add a point without labels, as they do below, did not hold there.
    What held is the gain of the pool and of the experts. Learning the weights from 5 / 20 / 100
    labels added 0.28 / 0.19 / 0.13 points to the prior weights, and in two thirds of the tables it
    moved nothing."""
)
TITLES: dict[Mode, str] = {
    "seen": "Seen kinds: labelled anomalies and those of the test are of one mix",
    "unseen": "Unseen kinds: labels from one cluster of anomalies, test on the other",
    "contaminated": "Contaminated: 5 % of the training rows are anomalies that nobody labelled",
}


def tables_page(rows: Iterable[Record], reference: str = "lpfuse") -> str:
    """All figures as Markdown.

    Parameters
    ----------
    rows : iterable of dict
        Stored rows.
    reference : str
        Differences are told from this method; where it was not measured, from CatBoost.
    """
    figures = TableFigures(rows)
    reference = reference if reference in figures.methods else "CatBoost"
    parts = ["# Real tables: lpfuse and whom people pick instead", _about(figures)]
    for mode, title in TITLES.items():
        if any(figures.count((half, mode, k)) for half in HALVES for k in LABELS):
            parts.append(f"## {title}")
            for half in reversed(HALVES):  # nothing was fitted to the half that comes first
                parts += _of_half(figures, half, mode, reference)
    parts += ["## Seconds of the processor for one fit", markdown(_seconds(figures, reference))]
    return page(*parts)


def readme_table(figures: TableFigures) -> str:
    """Means of README.md, on the confirming tables that `FusedDetector()` was measured on.

    Where these are more with some number of labels than with others, the column says how many.
    """
    places: list[Place] = [("confirm", "seen", k) for k in LABELS]
    ours = README_ROWS["**`FusedDetector()`**"]
    counts = [len(figures.of(place, ours)) for place in places]
    heads = [
        f"{k}" + f" ({count} tables)" * (count > min(counts))
        for k, count in zip(LABELS, counts, strict=True)
    ]
    lines = [
        "| labelled anomalies | " + " | ".join(heads) + " |",
        "|---|" + "--:|" * len(LABELS),
    ]
    for title, method in README_ROWS.items():
        cells = []
        for place in places:
            measured, on = figures.of(place, method), figures.of(place, ours)
            # Of a rival that was measured on fewer tables, no mean stands beside the others.
            mean = sum(measured[name] for name in on) / len(on) if {*on} <= {*measured} else None
            cells.append("–" if mean is None else f"{mean:.1f}")
        cells = [f"**{cell}**" for cell in cells] if method == ours else cells
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def with_readme_table(readme: str, figures: TableFigures) -> str:
    """README.md with its table made anew; its text says on how many tables, and a test checks."""
    return re.sub(
        r"^\| labelled anomalies .*(?:\n\|.*)*", readme_table(figures), readme, flags=re.M
    )


def _about(figures: TableFigures) -> str:
    seeds = "one random split" if figures.seeds == 1 else f"{figures.seeds} random splits"
    return "\n\n".join(
        [
            prose(
                f"""Mean AUC in per cent on {len(figures.sets)} real tables of many fields,
                {seeds} each: at most 1,200 normal training rows, 0 to 100 labelled anomalies,
                features as z-scores. Sources alternate, by name within a collection, between the
                half that *chooses* and the half that *confirms*. Prior weights and all other fitted
                numbers come from the half that chooses."""
            ),
            prose(
                """The half that confirms is no untouched test. The prototypes of the pool were
                compared on both halves (decision 0017), the tail scale on 120 tables of both
                (decision 0019), and its figures were looked at throughout. The choices agree on the
                two halves, but means on the half that confirms may still be somewhat optimistic."""
            ),
            prose(
                """A number in brackets tells on how many tables a method was measured, where not on
                all: such means are not to be read beside the others; their differences, which are
                paired, are. Rivals are as their packages ship them, without tuning and without
                weights of classes; forests and CatBoost have 300 trees. Methods without a figure
                at 0 need labels; those with no other ignore them. Below the rivals are other pools
                of lpfuse than today's, with their own controls; what was not measured in a half has
                no row there."""
            ),
            prose(
                """Made by `python -m research.studies.tables page` from the rows in
                `research/results/studies/tables`; `… run --methods NAME` adds a method."""
            ),
            "## Elsewhere",
            ELSEWHERE,
        ]
    )


def _of_half(figures: TableFigures, half: Half, mode: Mode, reference: str) -> list[str]:
    """Means, differences and heavy losses in one half."""
    counts = [k for k in LABELS if figures.count((half, mode, k)) >= FEWEST]
    places: list[Place] = [(half, mode, k) for k in counts]
    methods = [
        method
        for method in _ordered(figures, reference)
        if any(len(figures.of(place, method)) >= FEWEST for place in places)
    ]
    if not methods:
        return []
    head = ["", *(f"{k} labels" for k in counts)]
    of = ", ".join(f"{figures.count(place)} at {place[2]}" for place in places)
    means = [[m, *(_mean(figures, place, m) for place in places)] for m in methods]
    best = [number(figures.hindsight(place, methods)) for place in places]
    means += [["*the best of them in hindsight*", *best]] if any(best) else []
    parts = [
        f"### The half that {half}s",
        f"Tables: {of} labels.",
        markdown([head, *means]),
    ]
    others = [m for m in methods if m != reference]
    gains = [[m, *(_gain(figures, place, m, reference) for place in places)] for m in others]
    gains = [row for row in gains if any(row[1:])]
    if gains:
        about = f"Method − {reference}, paired, 95 % intervals over tables ({DRAWS} bootstraps):"
        parts += [about, markdown([head, *gains])]
    ours = [m for m in methods if f"{m}, sum" in methods]
    losses = [[m, *(_losses(figures, place, m) for place in places)] for m in ours]
    losses = [row for row in losses if any(row[1:])]
    if losses:
        about = (
            f"Share of tables that lose more than {MUCH:g} points to the best of its controls "
            "(sum of the pool, picked member, stacker, each supervised expert alone), and the mean "
            "loss:"
        )
        parts += [about, markdown([head, *losses])]
    return parts


def _ordered(figures: TableFigures, reference: str) -> list[str]:
    """The reference with its controls, rivals in the order of their list, then others of ours."""
    ours = [method for method in figures.methods if method not in RIVALS]
    fits = [method for method in ours if not is_control(method)]
    first = [method for method in ours if _fit_of(method, fits) == reference]
    rivals = [method for method in RIVALS if method in figures.methods]
    return [*first, *rivals, *(method for method in ours if method not in first)]


def _fit_of(method: str, fits: Sequence[str]) -> str:
    """The method whose fit these rows come from: the longest name that this one begins with."""
    told = [fit for fit in fits if method == fit or method.startswith(f"{fit}, ")]
    return max(told, key=len, default=method)


def _mean(figures: TableFigures, place: Place, method: str) -> str:
    count = len(figures.of(place, method))
    if count < FEWEST:
        return ""
    partial = f" ({count})" if count < figures.count(place) else ""
    return number(figures.mean(place, method)) + partial


def _gain(figures: TableFigures, place: Place, method: str, reference: str) -> str:
    gains = figures.gains(place, method, reference)
    return paired_gain(gains) if len(gains) >= FEWEST else ""


def _losses(figures: TableFigures, place: Place, method: str) -> str:
    lost = figures.losses(place, method, control_names(method))
    return f"{100 * (lost > MUCH).mean():.1f} %, {lost.mean():.2f}" if len(lost) >= FEWEST else ""


def _seconds(figures: TableFigures, reference: str) -> list[Sequence[str]]:
    spent = [
        [m, *(number(figures.seconds(k, m), digits=2) for k in LABELS)]
        for m in _ordered(figures, reference)
        if not is_control(m)
    ]
    return [["", *(f"{k} labels" for k in LABELS)], *spent]
