"""What commands share, also those of other packages; the module that a plug-in may import.

A plug-in is a `typer.Typer` under an entry point of the group ``lpfuse.commands``. Its commands
take `Quiet` and `Json` as options, print with `show`, `show_json` and `table`, tell what they do
with `phases`, `progress` or `stream`, collect warnings with `remarks`, and raise errors as the
library does: in the words of the API. Those end as one sentence, in which parameters have become
options (`in_options`).
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from threading import Event, Lock, Thread, current_thread, main_thread
from time import monotonic
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer
from typer.core import TyperGroup

from lpfuse._files import as_json
from lpfuse._format import brief, plain, printable

__all__ = [
    "Json",
    "Norm",
    "Phases",
    "PlainErrors",
    "Progress",
    "Quiet",
    "Seed",
    "Stream",
    "called",
    "complain",
    "exit_code",
    "in_options",
    "is_quiet",
    "options_of",
    "phases",
    "progress",
    "remarks",
    "say",
    "sentence",
    "show",
    "show_json",
    "stream",
    "table",
    "weights_table",
]


# --------------------------------------------------------------------------------------------------
# Arguments and options that commands share, and what can be refused before the slow imports.


COLUMN, FLOAT, INT, OUTPUT = "COL", "FLOAT", "INT", ("--output", "-o")
STANDARD = "-"  # the name of standard input and output


def _table_argument(name: str) -> typer.models.ArgumentInfo:
    """Make the argument of a table to read."""
    return typer.Argument(
        metavar=name, help="A .csv, .parquet, .arrow or .xlsx file; - for CSV on standard input."
    )


Train = Annotated[str, _table_argument("TRAIN")]
Scores = Annotated[str, _table_argument("SCORES")]
Data = Annotated[str, _table_argument("DATA")]
Model = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A model file of `lpfuse fit` or of `save` in Python."),
]
NewModel = Annotated[Path, typer.Option(*OUTPUT, metavar="MODEL", help="The model file to write.")]
Weights = Annotated[
    Path | None,
    typer.Option(metavar="MODEL", help="A model file with the weights, for `lpfuse score`."),
]
Label = Annotated[
    str | None,
    typer.Option(
        metavar=COLUMN,
        help="The label column; rows with an empty label are unlabelled. Without --label all rows "
        "are unlabelled.",
    ),
]
Normal = Annotated[
    list[str] | None,
    typer.Option(
        metavar="VALUE",
        help="A label of normal rows, '' for the empty one; may be repeated. All other labels are "
        "anomalies.",
    ),
]
Anomaly = Annotated[
    list[str] | None,
    typer.Option(
        metavar="VALUE",
        help="A label of anomalies; may be repeated. Without --normal all other labels are normal.",
    ),
]
Detectors = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Names, comma-separated: gp, knn, knn-subspaces, knn-samples, histogram, columns; "
        "trees, boosting, svm; svdd, kpca, gmm, iforest, lof; logistic, random-forest; pyod:HBOS "
        "and others of PyOD. Or paper, for the four detectors of the paper.",
        show_default="the first six, and the next three with labelled anomalies",
    ),
]
Direction = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COL=anomaly",
        help="Whether high scores of a column mean anomaly; --direction anomaly for all. May be "
        "repeated.",
        show_default="normal",
    ),
]
FalseAlarms = Annotated[
    float, typer.Option(metavar=FLOAT, help="Share of normal rows that may be flagged.")
]
Confidence = Annotated[
    float | None,
    typer.Option(
        metavar=FLOAT,
        help="Keep the false-alarm rate with this probability, such as 0.9, instead of on average.",
    ),
]
Features = Annotated[
    list[str] | None,
    typer.Option(metavar=COLUMN, help="Use only this column; may be repeated."),
]
Drop = Annotated[
    list[str] | None, typer.Option(metavar=COLUMN, help="Leave out this column; may be repeated.")
]
Categories = Annotated[
    list[str] | None,
    typer.Option(metavar=COLUMN, help="A numeric column that is a category; may be repeated."),
]
As = Annotated[
    list[str] | None,
    typer.Option(
        "--as",
        metavar="COL=KIND",
        help="The type of a column: number, category, date, elapsed, id, text or drop; may be "
        "repeated.",
        show_default="detected and printed",
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        metavar=COLUMN,
        help="The time column, for rows in time order. Detectors use windows of the last rows, and "
        "the threshold follows slow changes. The column itself is not a feature.",
        show_default="a date column in whose order the rows are, if they are correlated",
    ),
]
Order = Annotated[
    str | None,
    typer.Option(
        metavar="time|random",
        help="The order of the rows: time (evenly spaced without --time) or random.",
    ),
]
READING = "Table format"  # what is not said is found in its first rows
Separator = Annotated[
    str | None,
    typer.Option(
        metavar="SIGN", help="Column separator of CSV: , ; | or tab.", rich_help_panel=READING
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(metavar="SIGN", help="Decimal sign: . or ,", rich_help_panel=READING),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Encoding, such as utf-8, utf-16, cp1252 or latin-1.",
        rich_help_panel=READING,
    ),
]
Quote = Annotated[
    str | None,
    typer.Option(
        metavar="SIGN",
        help="Quote character of CSV: \", ' or none.",
        rich_help_panel=READING,
    ),
]
Sheet = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Sheet of a spreadsheet.",
        show_default="the first",
        rich_help_panel=READING,
    ),
]
HeaderRow = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar=INT,
        help="The row with the column names; rows above it are skipped.",
        show_default="the first non-empty row",
        rich_help_panel=READING,
    ),
]
Sample = Annotated[
    int | None,
    typer.Option(
        min=2,
        metavar=INT,
        help="Learn from this number of rows, drawn at random while reading, so the table may be "
        "larger than the memory. All labelled anomalies are included, up to half of the number.",
        show_default="all rows, up to 2^30 cells",
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(metavar=COLUMN, help="Copy this column to the output; may be repeated."),
]
KeepOrId = Annotated[
    list[str] | None,
    typer.Option(
        metavar=COLUMN,
        help="Copy this column to the output; may be repeated; '' for none.",
        show_default="the id column",
    ),
]
Explain = Annotated[
    int,
    typer.Option(
        min=0,
        metavar=INT,
        help="Number of alarms with Shapley values of the columns, in the column `why`.",
        show_default="0",
    ),
]
Formulas = Annotated[
    bool,
    typer.Option(
        "--formulas",
        help="Do not escape texts in CSV that a spreadsheet would execute.",
        show_default="escaped with an apostrophe",
    ),
]
Processes = Annotated[
    int,
    typer.Option(
        "--jobs", "-j", min=-1, max=1000, metavar=INT, help="Number of processes; -1 for all cores."
    ),
]
ChunkRows = Annotated[int, typer.Option(min=1, metavar=INT, help="Rows per chunk.")]
Chunks = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        min=-1,
        metavar=INT,
        help="Chunks scored in parallel.",
        show_default="cores, up to 8",
    ),
]
Key = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A file with the secret that signs MODEL; models without this signature are refused.",
    ),
]
Trust = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TYPE", help="A type of another library that MODEL may contain; may be repeated."
    ),
]
Check = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Exit with code 3 if the alarm rate differs from the expected one, or cannot be "
        "compared (training rows, no threshold).",
    ),
]
PARTED = 3  # the exit code of --check


class TableOptions(NamedTuple):
    """How a table is written, as far as a user said: the values of six options."""

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    quote: str | None = None
    sheet: str | None = None
    header_row: int | None = None

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
    "header_row": HeaderRow,
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


def table_format(**told: Any) -> Any:
    """Return how a table is written, of the fields of `TableOptions` that are known."""
    return TableOptions(**told).format()


def parse_kinds(given: list[str] | None) -> dict[str, str]:
    """Parse what columns are to be taken as.

    Examples
    --------
    >>> parse_kinds(["bar=number", "a=b=date"])
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


def check_page(path: str | Path, suffixes: Iterable[str] = (".html", ".htm")) -> None:
    """Refuse a name that promises another kind of file than a page.

    Parameters
    ----------
    path : path-like
        The file to write.
    suffixes : iterable of str
        Those that are right; a name without any is right, too.
    """
    from lpfuse._format import quote

    path, suffixes = Path(path), list(suffixes)
    first = suffixes[0]
    if path.suffix.casefold() not in ("", *suffixes):
        kind = "HTML, which a browser opens and prints to PDF" if first == ".html" else "Markdown"
        raise ValueError(
            f"The page is {kind}, so its name cannot end in {path.suffix}; got "
            f"{quote(path.name)}. Call it {quote(path.with_suffix(first).name)}."
        )


LEAST_KEY, MOST_KEY = 16, 2**20  # bytes; `lpfuse.save` takes no shorter one


def read_key(path: Path | None) -> bytes | None:
    """Read the secret that signs models; None without a file.

    Parameters
    ----------
    path : Path or None
        The value of the option.
    """
    from lpfuse._format import quote

    if path is None:
        return None
    check_there(path)
    path = path.expanduser()
    if not path.is_file():  # a pipe would wait for its writer, and some devices have no end
        raise ValueError(f"--key must name a file, but {quote(str(path))} is none. Name another.")
    with path.open("rb") as file:
        secret = file.read(MOST_KEY + 1)
    if not LEAST_KEY <= len(secret) <= MOST_KEY:
        count = f"more than {MOST_KEY:,}" if len(secret) > MOST_KEY else f"{len(secret):,}"
        raise ValueError(
            f"--key must name a file of {LEAST_KEY} to {MOST_KEY:,} random bytes, but "
            f"{quote(str(path))} has {count}. Make one: head -c 32 /dev/urandom > FILE"
        )
    return secret


def check_fit_options(
    p: str,
    false_alarm_rate: float,
    confidence: float | None = None,
    detectors: str | None = None,
    jobs: int = 1,
) -> Any:
    """Refuse values of options that no table makes right; the detectors, as the library takes them.

    Parameters
    ----------
    p, false_alarm_rate, confidence, detectors, jobs
        As the options of these names.
    """
    from lpfuse._validation.params import (
        check_confidence,
        check_false_alarm_rate,
        check_norm,
        parse_detector_names,
    )

    if jobs == 0:
        raise ValueError("--jobs must be at least 1, or -1 for all cores; got 0.")
    check_norm(p)
    check_false_alarm_rate(false_alarm_rate)
    check_confidence(confidence)
    return None if detectors is None else parse_detector_names(detectors)


# ------------------------------------------------------------------------------------------- start


def import_scikit_learn() -> None:
    """Import scikit-learn without what only its data sets and progress bars use.

    It imports pandas (for ``fetch_openml``) and rich where they are installed, which takes half as
    long as all the rest. Both can be imported as usual afterwards.
    """
    absent = [name for name in ("pandas", "rich") if name not in sys.modules]
    sys.modules |= dict.fromkeys(absent)  # type: ignore[arg-type] # None: "not installed"
    try:
        import_module("sklearn.pipeline")
    finally:
        for name in absent:
            del sys.modules[name]


# ----------------------------------------------------------------------------- errors as sentences

# Parameters of the API, and of commands, that mean the same under two names.
SYNONYMS = {
    "random_state": "seed", "n_jobs": "jobs", "trusted": "trust", "high": "direction",
    "columns": "kinds",
}  # fmt: skip
# What the API says with a method or a value of Python, and the command line otherwise.
WORDINGS = {
    "FusedDetector.save": "`lpfuse fit`",
    ", or None.": ", or leave the option out.",
    "Decide, or leave both unlabelled (None).": 'Decide, or answer "don\'t know".',
    "convert these columns to numbers first.": "say --decimal .",
}
_TEXT = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_ARGUMENT = re.compile(
    # What a user wrote comes in quotes, and stays as it is; an apostrophe has a letter before it.
    rf"(?<!\w)(?:{_TEXT})"
    # name= and a text, a list of texts, a column and its kind, a placeholder in capitals, a number
    # (infinity is a call), or nothing
    rf"|(?<![\w-])([a-z]\w*)=({_TEXT}|\[(?:{_TEXT})(?:, (?:{_TEXT}))*\]"
    rf"|\{{(?:{_TEXT}): (?:{_TEXT})(?:, (?:{_TEXT}): (?:{_TEXT}))*\}}"
    rf"|[A-Z]+\b|[\d.]+\b|float\((?:{_TEXT})\)|)"
)
_SUBJECT = re.compile(r"(?:^|(?<=[.:] ))([a-z]\w*)(?= must )")  # "p must be …", as checks write


def options_of(command: Any) -> dict[str, str]:
    """Parameters of a command, or of all commands of a group, and what their options are called."""
    if command is None:
        return {}
    found = {
        parameter.name: max(parameter.opts, key=len)
        for parameter in command.params
        if parameter.opts[0].startswith("-")
    }
    for part in getattr(command, "commands", {}).values():
        found |= options_of(part)
    return found


def in_options(text: str, options: Mapping[str, str]) -> str:
    """Translate a message of the library: parameters become options.

    Parameters
    ----------
    text : str
        Where it names parameters, it does so as Python code does, or begins a sentence with one.
    options : mapping of str: str
        Parameters of the command, and its options, see `options_of`.

    Examples
    --------
    >>> options = {"drop": "--drop", "normal": "--normal", "p": "--p", "trust": "--trust"}
    >>> in_options("Leave it out: drop=['the site', 'when'], or say normal='ok'.", options)
    "Leave it out: --drop 'the site' --drop when, or say --normal ok."
    >>> in_options("p must be at least 1.", options), in_options("Pass trusted=['a.B'].", options)
    ('--p must be at least 1.', 'Pass --trust a.B.')
    >>> in_options('Use p=1 or p=float("inf").', options)
    'Use --p 1 or --p inf.'
    >>> in_options("There is no column 'a drop=b'; keep= is not known.", options)
    "There is no column 'a drop=b'; keep= is not known."
    """

    def option(match: re.Match[str]) -> str:
        name = options.get(SYNONYMS.get(match[1], match[1]))
        if name is None:
            return match[0]
        value = match[2] if match.re is _ARGUMENT else ""
        value = value.removeprefix("float(").removesuffix(")")
        if value[:1] in {"'", '"', "[", "{"}:
            values = ast.literal_eval(value)
            values = [f"{k}={v}" for k, v in values.items()] if value[0] == "{" else values
            values = [values] if isinstance(values, str) else values
            return " ".join(f"{name} {shlex.quote(each)}" for each in values)
        return f"{name} {value}".rstrip()

    text = _ARGUMENT.sub(option, _SUBJECT.sub(option, text))
    for words, said in WORDINGS.items():
        text = text.replace(words, said)
    return text


def complain(error: BaseException, options: Mapping[str, str] | None = None) -> None:
    """Say on stderr what went wrong; `options` as in `in_options`."""
    typer.secho(brief(in_options(sentence(error), options or {})), fg="red", err=True)


def exit_code(error: BaseException) -> int | None:
    """How a command ends that raised this; None where a sentence would not do.

    Parameters
    ----------
    error : BaseException
        What was raised.

    Examples
    --------
    >>> exit_code(ValueError("p must be at least 1")), exit_code(OSError("no space left"))
    (2, 1)
    """
    from concurrent.futures import BrokenExecutor

    match error:
        case KeyboardInterrupt():
            return 130
        case BrokenPipeError():  # `lpfuse … | head`: the command line knows what to do
            return None
        case ImportError():
            return 2 if "pip install" in str(error) else None
        case ValueError() | FileNotFoundError() | PermissionError():
            return 2
        case FileExistsError() | NotADirectoryError() | IsADirectoryError():
            return 2
        case OSError() | MemoryError() | BrokenExecutor():
            return 1
    return None


def sentence(error: BaseException) -> str:
    """Describe an error in words, with the notes that it carries.

    Parameters
    ----------
    error : BaseException
        What was raised.

    Examples
    --------
    >>> sentence(PermissionError(13, "Permission denied", "results"))
    'Error: Permission denied: results.'
    """
    match error:
        case KeyboardInterrupt():
            words = "Interrupted"
        case OSError(strerror=str(reason), filename=name) if name is not None:
            words = f"Error: {reason}: {plain(name)}"
        case MemoryError():
            words = "Error: The memory is not enough"
        case _:
            words = f"Error: {error}".rstrip()
    words = words if words.endswith((".", "!", "?", ")", '"')) else f"{words}."
    return " ".join([words, *getattr(error, "__notes__", [])])


# ---------------------------------------------------------------------------------------- progress

Progress = Callable[[int, int], None]
Stream = Callable[[int, "float | None"], None]
Clock = Callable[[], float]

# All chosen by hand:
EVIDENCE_SECONDS = 2.0  # of work, before which nothing is said about the time to go,
EVIDENCE_SHARE = 0.03  # and this much of it,
ENOUGH_SECONDS = 30.0  # unless so long has passed that less will do
SMOOTHING = 0.5  # how far an estimate of the end moves towards a new one
SECONDS_BETWEEN_LINES = 5.0  # where there is no terminal,
SHARE_BETWEEN_LINES = 0.05  # or this much of the time that has passed, if it is more
BAR_WIDTH = 24  # characters


class TimeToGo:
    """How long the rest of some work takes, by the time that a part of it took.

    Parameters
    ----------
    clock : callable
        Seconds.
    first : float, default=0.0
        What was done before, and tells nothing of the speed: results that were stored, say.
    """

    def __init__(self, clock: Clock, first: float = 0.0) -> None:
        self.clock, self.began = clock, clock()
        self.first = self.done = first
        self.total = self.step = 0.0
        self.end: float | None = None  # when it is expected, by the clock

    @property
    def passed(self) -> float:
        """Seconds since it began."""
        return self.clock() - self.began

    def report(self, done: float, total: float) -> None:
        """Take in how much is done, and how much there is in all."""
        self.step, self.done, self.total = done - self.done, done, total
        if done > self.first:
            end = self.clock() + self._rest(done)
            self.end = end if self.end is None else self.end + SMOOTHING * (end - self.end)

    def _rest(self, done: float) -> float:
        return self.passed * (self.total - done) / (done - self.first)

    def seconds(self) -> float | None:
        """Estimate the time to go; None without evidence, or where the work is done."""
        known = self.end is not None and self.done < self.total
        if not known or self.passed < EVIDENCE_SECONDS:
            return None
        share = (self.done - self.first) / (self.total - self.first)
        if share < EVIDENCE_SHARE and self.passed < ENOUGH_SECONDS:
            return None
        assert self.end is not None
        # Where a step takes longer than the one before, it ends at this moment at best.
        rest = self._rest(min(self.total, self.done + self.step))
        return max(self.end - self.clock(), rest) or None


def format_time_to_go(seconds: float) -> str:
    """Format a time to go, no finer than it can be known.

    Examples
    --------
    >>> [format_time_to_go(seconds) for seconds in (3, 41, 100, 1000, 9000)]
    ['a few seconds', 'about 45 s', 'about 2 min', 'about 17 min', 'about 2.5 h']
    """
    if seconds < 10:
        return "a few seconds"
    if seconds <= 90:
        return f"about {5 * -(-seconds // 5):.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


def format_elapsed(seconds: float) -> str:
    """Format elapsed time: seconds, and minutes if any."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def called(path: str | Path) -> str:
    """Return the name of a file for a line of progress."""
    return "standard input" if str(path) == "-" else Path(path).name


class Phases:
    """One thing after another that a command does, each told of when it begins.

    Parameters
    ----------
    quiet : bool
        Say nothing.
    clock : callable
        Seconds.
    """

    def __init__(self, quiet: bool, clock: Clock = monotonic) -> None:
        self.quiet, self.clock = quiet, clock
        self.title = self.detail = ""
        self.time_to_go = TimeToGo(clock)
        self.next_line = 0.0
        self.lock = Lock()  # of the lines: work that is reported and the ticker may both print
        self.view: Any = None

    def begin(self, title: str, done: float = 0.0) -> None:
        """Go on to the next thing, of which so much was done before, and say so at once."""
        self.end()
        self.title, self.detail, self.time_to_go = title, "", TimeToGo(self.clock, done)
        if self.quiet:
            return
        if sys.stderr.isatty():
            self.view = _live_line(self)
        else:
            self._print_line()
            self.view = _Ticker(self.tick)

    def restart_clock(self) -> None:
        """Start timing again: what went before, such as imports, is not part of the work."""
        self.time_to_go = TimeToGo(self.clock)

    def end(self) -> None:
        """Report that the phase is done, and stop."""
        if isinstance(self.view, _Ticker) and self.time_to_go.passed >= SECONDS_BETWEEN_LINES:
            self._print(f"{self.title}: done in {format_elapsed(self.time_to_go.passed)}")
        self.stop()

    def stop(self) -> None:
        """Stop the display, whether the work is done or not."""
        if self.view is not None:
            self.view.stop()
        self.view = None

    @property
    def progress(self) -> Progress | None:
        """A function that takes the work done, and all that there is, in any unit."""

        def report(done: int, total: int) -> None:
            # What follows the last unit (a threshold, say) is a part of the work, too.
            self.report(done, total, f"{min(99, 100 * done // max(1, total)):.0f} %")

        return None if self.quiet else report

    @property
    def stream(self) -> Stream | None:
        """A function that takes the rows done, and their share of all if it is known."""

        def report(rows: int, share: float | None) -> None:
            rate = f"{rows:,} rows, {rows / max(1e-9, self.time_to_go.passed):,.0f} a second"
            known = "" if share is None else f"{100 * share:.0f} %, "
            self.report(share or 0.0, 0.0 if share is None else 1.0, known + rate)

        return None if self.quiet else report

    def report(self, done: float, total: float, detail: str) -> None:
        """Take in how much is done, in numbers and in words; if less than before, of other work."""
        if done < self.time_to_go.done:
            self.time_to_go = TimeToGo(self.clock, done)
        self.time_to_go.report(done, total)
        self.detail = detail
        self.tick()

    def words(self) -> str:
        """Describe the current work in a line."""
        left, passed = self.time_to_go.seconds(), self.time_to_go.passed
        time = "" if passed < EVIDENCE_SECONDS else f"{format_elapsed(passed)} so far"
        time = time if left is None else f"{format_time_to_go(left)} to go"
        said = ", ".join(filter(None, [self.detail, time]))
        return printable(f"{self.title}: {said}" if said else f"{self.title} …")

    def tick(self) -> None:
        """Print a line, where there is no terminal and the last one is old enough."""
        with self.lock:
            if isinstance(self.view, _Ticker) and self.clock() >= self.next_line:
                self._print_line()

    def _print_line(self) -> None:
        wait = max(SECONDS_BETWEEN_LINES, SHARE_BETWEEN_LINES * self.time_to_go.passed)
        self.next_line = self.clock() + wait
        self._print(self.words())

    def _print(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class _Ticker:
    """Looks at the clock while work goes on that reports nothing."""

    def __init__(self, tick: Callable[[], None]) -> None:
        self.over = Event()
        self.thread = Thread(target=self._run, args=(tick,), daemon=True)
        self.thread.start()

    def _run(self, tick: Callable[[], None]) -> None:
        while not self.over.wait(1.0):
            tick()

    def stop(self) -> None:
        self.over.set()
        self.thread.join()


def _live_line(phases: Phases) -> Any:
    """Start a line that is redrawn several times a second until it is stopped."""
    from rich.console import Console
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.spinner import Spinner
    from rich.table import Table
    from rich.text import Text

    spinner = Spinner("dots")

    def line() -> Table:
        grid, work = Table.grid(padding=(0, 1)), phases.time_to_go
        bar = ProgressBar(total=work.total, completed=work.done, width=BAR_WIDTH)
        # A Text and no str, in which rich would take [brackets] of a file's name as its own.
        words = Text(phases.words(), no_wrap=True, overflow="ellipsis")
        grid.add_row(spinner, *([bar] if work.total else []), words)
        return grid

    # What goes to standard output is none of its business: that may be a file.
    live = Live(
        get_renderable=line, console=Console(stderr=True), transient=True, redirect_stdout=False
    )
    live.start(refresh=True)
    return live


@contextmanager
def phases(quiet: bool, clock: Clock = monotonic) -> Iterator[Phases]:
    """Show the phases of a command on stderr.

    Parameters
    ----------
    quiet : bool
        Show nothing.
    clock : callable
        Seconds.
    """
    found = Phases(quiet, clock)
    try:
        yield found
        found.end()
    finally:
        found.stop()


@contextmanager
def progress(title: str, quiet: bool, clock: Clock = monotonic) -> Iterator[Progress | None]:
    """Yield a function that takes (done, total) and shows them, with the time to go.

    What is done at the first report was stored before; where that is all, nothing is shown.

    Parameters
    ----------
    title : str
        What is going on.
    quiet : bool
        Show nothing.
    clock : callable
        Seconds.
    """
    with phases(quiet, clock) as shown:

        def report(done: int, total: int) -> None:
            if not shown.title and done < total:
                shown.begin(title, done)
            if shown.title:
                shown.report(done, total, f"{done:,} of {total:,}")

        yield None if quiet else report


@contextmanager
def stream(title: str, quiet: bool, clock: Clock = monotonic) -> Iterator[Stream | None]:
    """Yield a function that takes rows done and their share, if known, and shows the rate.

    Parameters
    ----------
    title : str
        What is going on.
    quiet : bool
        Show nothing.
    clock : callable
        Seconds.
    """
    with phases(quiet, clock) as shown:
        shown.begin(title)
        yield shown.stream


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result, as plain text.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
Norm = Annotated[
    str,
    typer.Option(
        "--p",
        metavar="auto|FLOAT",
        help="Norm of the weights, from 1 (few detectors) to inf (equal trust).",
    ),
]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, metavar="INT", help="Random seed.")]


def root_options(
    quiet: Quiet = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show the traceback of an error.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version of lpfuse.",
            is_eager=True,
            callback=lambda asked: _show_version() if asked else None,
        ),
    ] = False,
) -> None:
    """Take the options that stand before a command; they are read from the context."""


def _show_version() -> None:
    from importlib.metadata import version

    typer.echo(f"lpfuse {version('lpfuse')}")
    raise typer.Exit


def is_quiet(ctx: typer.Context, quiet: bool) -> bool:
    """Whether ``--quiet`` stood before the command or after it."""
    return quiet or bool(ctx.find_root().params.get("quiet"))


# ----------------------------------------------------------------------------------------- errors


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise SystemExit, so that worker processes end with the command.

    By default they end this process alone; the others would wait for work for minutes. Signals that
    somebody else deals with are left alone, and so are all outside the main thread.
    """

    def leave(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    ours = [each for each in numbers if signal.getsignal(each) is signal.SIG_DFL]
    ours = ours if current_thread() is main_thread() else []
    for each in ours:
        signal.signal(each, leave)
    try:
        yield
    finally:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)


COMMAND = "lpfuse.command"  # the key of the command that runs, in the context's memory


class PlainErrors(TyperGroup):
    """Commands whose errors end in a sentence and an exit code.

    2 for what the user can change (a value, a file, a missing extra), 1 for what went wrong on the
    way, 130 for Ctrl-C. Anything else is a mistake of ours and keeps its traceback.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command, and remember it for messages."""
        found = super().resolve_command(ctx, args)
        ctx.meta[COMMAND] = found[1]
        return found

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, Exception) as error:
            code = exit_code(error)
            if code is None or ctx.params.get("traceback"):
                raise
            complain(error, options_of(ctx.meta.get(COMMAND)))
            raise typer.Exit(code) from None


# ----------------------------------------------------------------------------------------- output


def say(text: str, *, err: bool = False) -> None:
    """Print lines that may quote a user's file, with nothing that a terminal would obey."""
    typer.echo(printable(text), err=err)


def show(markdown: str, quiet: bool) -> None:
    """Print Markdown: laid out on a terminal, as it is in a pipe."""
    if quiet or not sys.stdout.isatty():
        say(markdown.rstrip())
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(markdown))


def show_json(values: dict[str, Any]) -> None:
    """Print one JSON object; numbers that JSON does not know become null."""
    found = as_json(values, infinite=False)
    text = json.dumps(found, ensure_ascii=False, allow_nan=False)
    typer.echo(text if text.isprintable() else json.dumps(found, allow_nan=False))


def table(header: list[str], rows: Iterable[list[str]]) -> str:
    r"""Format a table in Markdown with aligned columns; cells are escaped.

    Examples
    --------
    >>> print(table(["detector", "weight"], [["gmm", "0.71"], ["a|b", "0.5"]]))
    | detector | weight |
    |----------|--------|
    | gmm      | 0.71   |
    | a\|b     | 0.5    |
    """
    cells = [[_cell(text) for text in row] for row in [header, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return plain(text).replace("|", "\\|")


def weights_table(found: dict[str, Any], noun: str = "detector", most: int | None = None) -> str:
    """Tabulate the detectors in Markdown, the largest weights first, and their fusion.

    Parameters
    ----------
    found : dict
        As `lpfuse.frames.outcome` makes it.
    noun : str, default="detector"
        What they are.
    most : int, optional
        Rows at most; the others share one.
    """
    areas, weights = found["auc"] or {}, found["weights"]
    total = sum(map(abs, weights.values())) or 1.0
    order = sorted(weights, key=lambda name: -weights[name])
    shown = order[:most]
    header = [noun, "weight", "share", *(["AUC"] if areas else [])]
    rows = [
        [name, f"{weights[name]:.3f}", f"{abs(weights[name]) / total:.0%}", *_area(areas, name)]
        for name in shown
    ]
    rest = order[len(shown) :]
    if rest:
        share = sum(abs(weights[name]) for name in rest) / total
        rows.append([f"{len(rest)} others", "", f"{share:.0%}", *([""] if areas else [])])
    last = [["fusion", "", "", *_area(areas, "fusion")]] if areas else []
    return table(header, rows + last)


def _area(areas: dict[str, float | None], name: str) -> list[str]:
    area = areas.get(name)
    return [] if not areas else ["" if area is None else f"{area:.3f}"]


@contextmanager
def remarks(quiet: bool, reword: Callable[[str], str] = str, but: str = "") -> Iterator[list[str]]:
    """Warnings as sentences: on stderr, each once whatever its figures, and in a list.

    Parameters
    ----------
    quiet : bool
        Only in the list.
    reword : callable, optional
        Says what the library says in the words of the command.
    but : str, default=""
        A pattern: warnings that match it from their beginning are left out.
    """
    found: list[str] = []
    seen: set[str] = set()

    def remark(message: Warning | str, *_: Any, **__: Any) -> None:
        text = reword(" ".join(str(message).split()))
        shape = re.sub(r"\d+", "#", text)
        if shape not in seen:
            seen.add(shape)
            found.append(text)
            if not quiet:
                typer.secho(brief(f"Note: {text}"), fg="yellow", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        if but:
            warnings.filterwarnings("ignore", message=but)
        warnings.showwarning = remark
        yield found
