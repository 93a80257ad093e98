"""Arguments and options that several commands have, or that would fill a screen in their place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

COLUMN, FLOAT, INT, OUTPUT = "COL", "FLOAT", "INT", ("--output", "-o")
STANDARD = "-"  # the name of standard input and output


def _table_argument(name: str) -> typer.models.ArgumentInfo:
    """A table to read."""
    return typer.Argument(metavar=name, help="A .csv, .parquet or .arrow file; - for CSV.")


Train = Annotated[str, _table_argument("TRAIN")]
Scores = Annotated[str, _table_argument("SCORES")]
Data = Annotated[str, _table_argument("DATA")]
Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A file of `lpfuse fit`, or of Python's save.")
]
NewModel = Annotated[Path, typer.Option(*OUTPUT, metavar="MODEL", help="The file for the model.")]
Weights = Annotated[
    Path | None, typer.Option(metavar="MODEL", help="A file for the weights, for `lpfuse score`.")
]
Label = Annotated[
    str | None,
    typer.Option(
        metavar=COLUMN,
        help="The column that tells normal rows from anomalies; empty cells: not known. "
        "Without it all rows are taken as normal.",
    ),
]
Normal = Annotated[
    str | None,
    typer.Option(metavar="VALUE", help="What the label of normal rows is; '' where it is empty."),
]
Detectors = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="With commas: gp, knn, knn-subspaces, knn-samples, histogram, columns; trees, "
        "boosting, svm; svdd, kpca, gmm, iforest, lof; logistic, random-forest; pyod:HBOS and "
        "others of PyOD. Or paper: the four of the paper.",
        show_default="the first six, and the next three with labelled anomalies",
    ),
]
Direction = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COL=anomaly",
        help="What high scores of a column mean, or of all: --direction anomaly. May be repeated.",
        show_default="normal",
    ),
]
FalseAlarms = Annotated[
    float, typer.Option(metavar=FLOAT, help="Share of normal rows that may be called anomalies.")
]
Confidence = Annotated[
    float | None,
    typer.Option(
        metavar=FLOAT,
        help="Hold false alarms to the rate with this probability, such as 0.9, not on average.",
    ),
]
Features = Annotated[
    list[str] | None,
    typer.Option(metavar=COLUMN, help="Use these columns only; may be repeated."),
]
Drop = Annotated[
    list[str] | None, typer.Option(metavar=COLUMN, help="Leave out a column; may be repeated.")
]
Categories = Annotated[
    list[str] | None,
    typer.Option(metavar=COLUMN, help="A column whose numbers are names; may be repeated."),
]
Sample = Annotated[
    int | None,
    typer.Option(
        min=2,
        metavar=INT,
        help="Learn from so many rows, drawn by chance while the table is read, which may then be "
        "larger than the memory. Of labelled anomalies all are taken, up to half of these.",
        show_default="all rows, up to 2^30 cells",
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(metavar=COLUMN, help="Carry a column along to the scores; may be repeated."),
]
Explain = Annotated[
    int,
    typer.Option(
        min=0,
        metavar=INT,
        help="Say of the first so many alarms which columns made them alarms, in a column `why`.",
        show_default="of none",
    ),
]
Formulas = Annotated[
    bool,
    typer.Option(
        "--formulas",
        help="Leave texts as they are in CSV, also those that a spreadsheet would run.",
        show_default="an apostrophe before them",
    ),
]
Processes = Annotated[
    int, typer.Option("--jobs", "-j", min=-1, metavar=INT, help="Processes; -1: all cores.")
]
ChunkRows = Annotated[int, typer.Option(min=1, metavar=INT, help="Rows at a time.")]
Chunks = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        min=-1,
        metavar=INT,
        help="Chunks scored at a time.",
        show_default="cores, up to 8",
    ),
]
Key = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="A secret that signs MODEL; any that it did not sign is refused."
    ),
]
Trust = Annotated[
    list[str] | None,
    typer.Option(metavar="TYPE", help="A type of another maker that MODEL may hold."),
]
Check = Annotated[
    bool,
    typer.Option(
        "--check",
        help="End with exit code 3 if more or fewer rows are called anomalies than the rate asked "
        "for explains, or if that cannot be told: for training rows, or without a threshold.",
    ),
]
PARTED = 3  # the exit code of --check
