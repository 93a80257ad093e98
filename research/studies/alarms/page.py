"""The page: asked and measured, from stored rows alone; no single table is named."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from research.common.store import Record
from research.common.tables import goal_table, markdown, page, prose
from research.studies.alarms.cells import (
    EXCESS_LEVEL,
    FEWEST_TABLES,
    MARGINS,
    SURE,
    TEST_LEVEL,
    CellFigures,
    cells_of,
    kind_of,
    mean_of,
    too_small,
)
from research.studies.alarms.changes import changes_of
from research.studies.alarms.families import ABOUT, FAMILIES
from research.studies.alarms.goals import goals_of
from research.studies.alarms.measures import BATCH_NORMALS, RATES
from research.studies.alarms.sources import FAR_ONES, FAR_SHIFT, FRESH, SHIFT, SOUGHT, TABLES, Cell

PICTURED = "False alarms over training rows, by rate and labels, beside what was asked"

Cells = dict[Cell, CellFigures]
Told = Callable[[CellFigures], str]
KINDS = ("continuous", "discrete", "dependent", "tables")


def alarms_page(rows: Iterable[Record]) -> str:
    """All figures as Markdown: of the version "now", or of what there is."""
    rows = list(rows)
    versions = list(dict.fromkeys(row["version"] for row in rows))
    version = "now" if "now" in versions else (versions or ["now"])[0]
    cells = cells_of(rows, version)
    return page(
        "# False alarms, asked and measured",
        *_about(cells, version),
        goal_table(goals_of(cells, rows)),
        f"![{PICTURED}](false-alarms.png)",
        *_alarms(cells),
        *_spread(cells),
        *_pvalues(cells),
        *_discoveries(cells),
        *_detection(cells),
        *_costs(cells),
        *changes_of(rows),
    )


def _about(cells: Cells, version: str) -> list[str]:
    counts = [len(figures.rows) for figures in cells.values()]
    measured = f"{sum(counts):,} fits" if counts else "no fit yet"
    shown = "" if version == "now" else f' Shown is the version "{version}".'
    families = [[name, kind_of(name), ABOUT[name]] for name in (*FAMILIES, TABLES)]
    return [
        prose(
            f"""How many fresh normal rows `FusedDetector()`, with nothing but its defaults, calls
            anomalies when 1, 5 or 10 % are asked for; {measured}, each with rows of its own, and at
            most {FRESH:,} fresh rows behind each.{shown} 30 labelled anomalies or none. Anomalies
            of made-up families are normal rows, shifted by ±{SHIFT:g} in every column; those of
            tables are real. Made by `python -m research.studies.alarms page` from the rows in
            `research/results/studies/alarms`; `… run` measures what is missing."""
        ),
        prose(
            f"""**What can be promised.** Where n rows set the threshold, and are like the fresh
            ones, ⌊α(n + 1)⌋ of n + 1 rows are alarms on average: 60 rows cannot promise 1 %. The
            rate of a single fit scatters around that by the law Beta(k, n + 1 − k), k = ⌊α(n + 1)⌋,
            and what is counted by the noise of the fresh rows as well: the bound, which no method
            that uses n rows can undercut. Rows that come in groups or copies count as so many
            fewer. ▲ and ▽ mark means that are off by more than {MARGINS[0.05]:g} point
            ({MARGINS[0.01]:g} at 1 %); with "?", by less than {SURE:g} standard errors more.
            Discrete rows have ties, which only make alarms rarer; brackets: nothing is promised.
            Of fewer than {FEWEST_TABLES} tables nothing is shown."""
        ),
        markdown([["family", "kind", "rows"], *families], numbers=False),
    ]


# ----------------------------------------------------------------------------------------- tables


def grid(cells: Cells, labels: int, told: Told) -> str:
    """Families × numbers of rows; empty where nothing was measured."""
    here = {cell: figures for cell, figures in cells.items() if cell.labels == labels}
    sizes = sorted({cell.n for cell in here})
    rows = [
        [name, *(told(here[c]) if (c := Cell(name, n, labels)) in here else "" for n in sizes)]
        for name in (*FAMILIES, TABLES)
    ]
    return markdown([["rows", *(f"{n:,}" for n in sizes)], *(row for row in rows if any(row[1:]))])


def both(cells: Cells, told: Told) -> list[str]:
    """The same table without and with labelled anomalies."""
    return [
        part
        for labels in sorted({cell.labels for cell in cells})
        for part in (
            f"{labels or 'No'} labelled anomalies:",
            grid(cells, labels, told),
        )
    ]


def _alarms(cells: Cells) -> list[str]:
    parts = ["## False alarms: mean over repetitions ± standard error, in per cent"]
    for rate in RATES:
        parts += [f"### {100 * rate:g} % asked", *both(cells, lambda f, r=rate: _mean(f, r))]
    return parts


def _mean(figures: CellFigures, rate: float) -> str:
    told = str(mean_of(figures.alarms(rate)))
    verdict = figures.verdict(rate)
    if verdict == "not promised":
        return f"({told})"
    mark = {"above": " ▲", "below": " ▽", "kept": ""}[verdict]
    doubtful = mark and figures.verdict(rate, SURE) == "kept"
    return told + mark + ("?" if doubtful else "")


def _spread(cells: Cells) -> list[str]:
    return [
        "## Spread over repetitions at 5 %, and its bound",
        prose(
            """From the 5th to the 95th percentile of the repetitions; in brackets, what n
            calibration rows and the fresh rows must give. Of tables, each repetition is another
            table."""
        ),
        *both(cells, _spread_of),
    ]


def _spread_of(figures: CellFigures) -> str:
    (low, high), (least, most) = figures.spread(0.05), figures.bound(0.05)
    return f"{low:.1f}–{high:.1f} ({least:.1f}–{most:.1f})"


def _pvalues(cells: Cells) -> list[str]:
    rejected = too_small(cells.values())

    def told(figures: CellFigures) -> str:
        mark = " ▲" if figures.cell in rejected else ""
        return f"{figures.excess:+.1f}{mark} ({figures.excess_share:.0f} %)"

    return [
        "## P-values of fresh normal rows: uniform or larger?",
        prose(
            f"""The most points by which the mean share of p-values below t exceeds t, t from 0.5 to
            90 %; ▲ where "uniform or larger" is refuted at {100 * TEST_LEVEL:g} % for all cells
            together (Student's test at each t, Bonferroni; Holm over cells). In brackets, the
            share of repetitions in which Smirnov's one-sided test refutes it at
            {100 * EXCESS_LEVEL:g} %: valid p-values have at most that."""
        ),
        *both(cells, told),
    ]


def _discoveries(cells: Cells) -> list[str]:
    def told(figures: CellFigures) -> str:
        shifted, strangest = (mean_of(figures.of("false_discoveries", at)) for at in (0, 1))
        return f"{shifted} / {strangest}"

    return [
        "## False discoveries at 10 %, in per cent",
        prose(
            f"""`control_false_discoveries` at 10 % on {BATCH_NORMALS} fresh normal rows and
            {FAR_ONES} anomalies: shifted by ±{FAR_SHIFT:g} (of tables, real ones) / with the
            smallest p-value that there is, 1/(n + 1)."""
        ),
        *both(cells, told),
    ]


def _detection(cells: Cells) -> list[str]:
    def told(figures: CellFigures) -> str:
        shown = (figures.of(name).mean() for name in ("auc", "hits", "hits_at_same"))
        return " / ".join(f"{value:.1f}" for value in shown)

    return [
        "## Detection: AUC / hits at 5 % / hits where exactly 5 % of the fresh rows are alarms",
        prose(f"On at most {SOUGHT} anomalies that nothing has seen, in per cent."),
        *both(cells, told),
    ]


def _costs(cells: Cells) -> list[str]:
    def told(figures: CellFigures) -> str:
        rows = int(np.median(figures.of("calibration_rows")))
        return f"{figures.of('seconds').mean():.1f} s, {rows:,} ({len(figures.rows)})"

    return [
        "## Seconds of the processor for a fit, calibration rows, and repetitions in brackets",
        *both(cells, told),
    ]
