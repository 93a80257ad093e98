"""The page of benchmarks: headline figures, each with its date and commit, and goals met.

Figures are read from the tables of the pages, which tests compare with the stored rows; none is
written here. The date is that on which the rows were last stored, the commit the one whose code was
measured, where the rows tell, and else the one that stored them.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RESULTS = "research/results"


class Figure(NamedTuple):
    """A cell of a page: the table below a heading, its row and its column."""

    words: str
    page: str
    heading: str
    row: str
    column: str
    rows: str  # the file or folder of stored rows


TABLES = ("benchmarks/tables.md", "The half that confirms")
OF_TABLES = "studies/tables/lpfuse.jsonl"
ALARMS = ("benchmarks/false-alarms.md", "False alarms, asked and measured")
SOLVER = ("benchmarks/solver.md", "Goals")
FIGURES = {
    "Accuracy on real tables, mean AUC in % (in brackets: number of tables)": [
        *(
            Figure(
                f"`FusedDetector()`, {k} labelled anomalies",
                *TABLES,
                "lpfuse",
                f"{k} labels",
                OF_TABLES,
            )
            for k in (0, 5, 20, 100)
        ),
        *(
            Figure(
                f"plain sum of the same detectors, {k}",
                *TABLES,
                "lpfuse, sum",
                f"{k} labels",
                OF_TABLES,
            )
            for k in (0, 100)
        ),
        Figure(
            "stacker on the same scores, 100", *TABLES, "lpfuse, stacked", "100 labels", OF_TABLES
        ),
        Figure("CatBoost, 100", *TABLES, "CatBoost", "100 labels", "studies/tables/rivals.jsonl"),
    ],
    "False alarms": [
        Figure(
            "5 % asked: cells within a point of it",
            *ALARMS,
            "mean false alarms, 5 % asked, in every cell that n allows",
            "measured",
            "studies/alarms/now.jsonl",
        ),
        Figure(
            "rows in time order, 17 pumps, 5 % asked",
            "benchmarks/time.md",
            "Beside what people use",
            "lpfuse",
            "calm rows flagged",
            "studies/streams/rows.jsonl",
        ),
        Figure(
            "calm streams in which drift is declared, 5 % asked",
            "benchmarks/drift.md",
            "False alarms at the stated level",
            "5 %",
            "normal columns, of 500",
            "studies/drift/lpfuse.jsonl",
        ),
    ],
    "Optimality": [
        Figure(
            "certified relative gap, stress suite",
            *SOLVER,
            "certified relative gap",
            "measured",
            "speed/solver.jsonl",
        ),
        Figure(
            "false certificates among problems of a usual scale",
            "benchmarks/verified.md",
            "How they ended",
            "usual scale, all",
            "false",
            "proofs/verified.json",
        ),
    ],
    "Time": [
        Figure(
            "fit, 1,200 rows, no labels",
            "benchmarks/rows.md",
            "Goals",
            "fit, 1,200 rows, 0 labels",
            "measured",
            "speed/rows.jsonl",
        ),
        Figure(
            "one row, `score_samples`",
            "benchmarks/rows.md",
            "Goals",
            "one row, `score_samples`",
            "measured",
            "speed/rows.jsonl",
        ),
        Figure(
            "weights, 10,000 rows, against cvxpy with CLARABEL",
            *SOLVER,
            "against cvxpy+CLARABEL, same gap, n = 1e4",
            "measured",
            "speed/solver.jsonl",
        ),
        Figure(
            "weights, 1,000,000 × 36, milliseconds, one thread",
            "benchmarks/scaling.md",
            "One machine",
            "1,000,000 | 36 | pure",
            "ms, 1 thread",
            "speed/scaling",
        ),
        Figure(
            "`lpfuse watch`, three scores: rows a second",
            "benchmarks/watch.md",
            "`lpfuse watch` beside",
            "three scores, fused",
            "`watch`, rows a second",
            "speed/watch.jsonl",
        ),
    ],
    "The paper, mean AUC over its ten data sets": [
        Figure(
            "ℓp fusion as published, normal rows only (in brackets: the paper's figure)",
            "results/uci.md",
            "AUC in %",
            "mean",
            "ℓp, pure",
            "paper/uci.jsonl",
        ),
        Figure(
            "ℓp fusion as published, with anomalies",
            "results/uci.md",
            "AUC in %",
            "mean",
            "ℓp, non-pure",
            "paper/uci.jsonl",
        ),
    ],
}


def dashboard() -> str:
    """Markdown: a table for each section, then how many goals each page meets."""
    parts = []
    for section, figures in FIGURES.items():
        lines = ["| figure | value | date | commit | page |", "|---|--:|---|---|---|"]
        for figure in figures:
            date, commit = stored(figure.rows)
            page = f"[{figure.page.rpartition('/')[2][:-3]}](../{figure.page})"
            cell = value(figure).partition(";")[0]
            lines.append(f"| {figure.words} | {cell} | {date} | `{commit}` | {page} |")
        parts += [f"### {section}", "\n".join(lines)]
    lines = ["| page | goals | met | not met |", "|---|--:|--:|--:|"]
    for page, met in goals():
        title = (DOCS / page).read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        lines.append(f"| [{title}](../{page}) | {len(met)} | {sum(met)} | {len(met) - sum(met)} |")
    about = (
        "Many pages state goals that were set before measuring. Goals that are not met stay there."
    )
    return "\n\n".join([*parts, "### Goals", about, "\n".join(lines)])


def value(figure: Figure) -> str:
    """The cell, without marks; KeyError where the page has no such cell."""
    for heading, header, rows in tables((DOCS / figure.page).read_text(encoding="utf-8")):
        if not heading.startswith(figure.heading) or figure.column not in header:
            continue
        wanted = figure.row.split(" | ")
        for cells in rows:
            if [cell.strip("*") for cell in cells[: len(wanted)]] == wanted:
                return cells[header.index(figure.column)].replace("*", "")
    raise KeyError(f"{figure.page} has no cell {figure.row!r}, {figure.column!r}")


def tables(text: str) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Heading above, names of columns, and rows, of each table of a page."""
    heading, block = "", []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            block.append([cell.strip() for cell in line.strip("|").split(" | ")])
            continue
        if block:
            yield heading, block[0], block[2:]
            block = []
        if line.startswith("#"):
            heading = line.lstrip("# ")


def goals() -> Iterator[tuple[str, list[bool]]]:
    """Pages with a table of goals, and which of these are met, of those that were measured."""
    for path in sorted(DOCS.glob("benchmarks/*.md")):
        met = [
            cells[3].strip("*") == "yes"
            for _, header, rows in tables(path.read_text(encoding="utf-8"))
            if header[:4] == ["goal", "target", "measured", "met"]
            for cells in rows
            if cells[3].strip("*") in ("yes", "no")
        ]
        if met:
            yield path.relative_to(DOCS).as_posix(), met


def stored(rows: str) -> tuple[str, str]:
    """Date and commit of stored rows; "not known" in a copy without its whole history."""
    path = f"{RESULTS}/{rows}"
    told = ""
    if _git("rev-parse", "--is-shallow-repository") == "false":
        told = _git("log", "-1", "--format=%cs %h", "--", path)
    date, commit = told.split() if told else ("not known", "not known")
    return date, measured_at(ROOT / path) or commit


def _git(*arguments: str) -> str:
    """What git prints; nothing where there is no repository."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def measured_at(path: Path) -> str | None:
    """The last commit that the rows themselves name."""
    files = sorted(path.glob("*.json*")) if path.is_dir() else [path]
    found = None
    for file in files:
        for commit in re.findall(r'"commit": "([0-9a-f]{7})', file.read_text(encoding="utf-8")):
            found = commit
    return found
