"""Arguments and options that commands share, and what can be refused before the slow imports."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer

COLUMN, FLOAT, INT, OUTPUT = "COL", "FLOAT", "INT", ("--output", "-o")
STANDARD = "-"  # the name of standard input and output


def _table_argument(name: str) -> typer.models.ArgumentInfo:
    """A table to read."""
    return typer.Argument(metavar=name, help="A .csv, .parquet, .arrow or .xlsx file; - for CSV.")


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
As = Annotated[
    list[str] | None,
    typer.Option(
        "--as",
        metavar="COL=KIND",
        help="Take a column as number, category, date, elapsed, id, text, or drop it; may be "
        "repeated.",
        show_default="what it looks like, which is said",
    ),
]
READING = "How the table is written"  # what is not said is found in its first rows
Separator = Annotated[
    str | None,
    typer.Option(
        metavar="SIGN", help="Between columns of CSV: , ; | or tab.", rich_help_panel=READING
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(metavar="SIGN", help="Before decimals: . or ,", rich_help_panel=READING),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Such as utf-8, utf-16, cp1252, latin-1.", rich_help_panel=READING
    ),
]
Quote = Annotated[
    str | None,
    typer.Option(
        metavar="SIGN",
        help="Around cells of CSV: \" or ', or none.",
        rich_help_panel=READING,
    ),
]
Sheet = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Of a spreadsheet.",
        show_default="the first",
        rich_help_panel=READING,
    ),
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


def seconds(panel: str, words: str) -> Any:
    """An option of so many seconds, in a panel of the help."""
    return typer.Option(min=0.0, metavar="SECONDS", help=words, rich_help_panel=panel)


class TableOptions(NamedTuple):
    """How a table is written, as far as a user said: the values of five options."""

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    quote: str | None = None
    sheet: str | None = None

    def format(self) -> Any:
        """Return the checked `TableFormat`; imports the library, which takes seconds."""
        from lpfuse.frames import TableFormat

        return TableFormat(*self).checked()


AS_FOUND = TableOptions()  # what is not said is found in the first rows
TABLE_OPTIONS = {
    "separator": Separator,
    "decimal": Decimal,
    "encoding": Encoding,
    "quote": Quote,
    "sheet": Sheet,
}


def with_table_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `TableOptions` in place of its parameter ``table``.

    Parameters
    ----------
    command : callable
        A command of typer, of which one parameter is called ``table``.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        if name == "table":
            kind = Parameter.POSITIONAL_OR_KEYWORD
            parameters += [
                Parameter(option, kind, default=None, annotation=annotation)
                for option, annotation in TABLE_OPTIONS.items()
            ]
        else:
            parameters.append(parameter.replace(annotation=hints[name]))

    @wraps(command)
    def with_format(**values: Any) -> None:
        table = TableOptions(*(values.pop(option) for option in TABLE_OPTIONS))
        command(**values, table=table)

    with_format.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    with_format.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_format


def table_format(*told: str | None) -> Any:
    """Return how a table is written, of separator, decimal sign, encoding, quotes and sheet."""
    return TableOptions(*told).format()


def kinds_of(given: list[str] | None) -> dict[str, str]:
    """What columns are to be taken as.

    Examples
    --------
    >>> kinds_of(["bar=number", "a=b=date"])
    {'bar': 'number', 'a=b': 'date'}
    """
    from lpfuse._format import quote

    found = {}
    for text in given or []:
        column, equals, kind = text.rpartition("=")
        if not equals:
            raise ValueError(f"--as says what a column is: COL=KIND; got {quote(text)}.")
        found[column] = kind.strip()
    return found


# ------------------------------------------------------------------------------------ early checks


def check_there(*tables: Any, model: Any = None) -> None:
    """Refuse tables and a model that are not there.

    Parameters
    ----------
    *tables : path-like or None
        Tables to read; None and ``-`` are no files.
    model : path-like, optional
        A model to read.
    """
    from lpfuse._files import missing_file_message, missing_model_message

    if model is not None:
        path = Path(model).expanduser()
        if not path.exists() or path.is_dir():
            raise FileNotFoundError(missing_model_message(path))
    for table in tables:
        if table is not None and str(table) != STANDARD:
            path = Path(table).expanduser()
            if not path.exists():
                raise FileNotFoundError(missing_file_message(path))


def settled_detectors(
    p: str, false_alarm_rate: float, confidence: float | None = None, detectors: str | None = None
) -> Any:
    """Refuse values of options that no table makes right; the detectors, as the library takes them.

    Parameters
    ----------
    p, false_alarm_rate, confidence, detectors
        As the options of these names.
    """
    from lpfuse._validation.params import (
        check_confidence,
        check_false_alarm_rate,
        check_norm,
        parse_detector_names,
    )

    check_norm(p)
    check_false_alarm_rate(false_alarm_rate)
    check_confidence(confidence)
    return None if detectors is None else parse_detector_names(detectors)
