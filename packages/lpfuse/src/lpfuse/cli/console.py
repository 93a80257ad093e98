"""What commands share: errors as sentences, progress and time left, text for people and pipes."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from math import isfinite
from time import monotonic
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

Progress = Callable[[int, int], None]
Stream = Callable[[int, "float | None"], None]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Nothing but the result, as plain text.")
]
Json = Annotated[bool, typer.Option("--json", help="The result as one JSON object, alone.")]


def is_quiet(ctx: typer.Context, quiet: bool) -> bool:
    """Whether ``--quiet`` stood before the command or after it."""
    return quiet or bool(ctx.find_root().params.get("quiet"))


# ----------------------------------------------------------------------------------------- errors


class PlainErrors(TyperGroup):
    """Commands whose errors end in a sentence and an exit code.

    2 for what the user can change (a value, a file, a missing extra), 1 for what went wrong on the
    way, 130 for Ctrl-C. Anything else is a mistake of ours and keeps its traceback.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, Exception) as error:
            code = exit_code(error)
            if code is None or ctx.params.get("traceback"):
                raise
            complain(error)
            raise typer.Exit(code) from None


def complain(error: BaseException) -> None:
    """Say on stderr what went wrong."""
    typer.secho(sentence(error), fg="red", err=True)


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
    """An error in words, with the notes that it carries.

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
            said = "Interrupted"
        case OSError(strerror=str(reason), filename=name) if name is not None:
            said = f"Error: {reason}: {name}"
        case MemoryError():
            said = "Error: The memory is not enough"
        case _:
            said = f"Error: {error}".rstrip()
    said = said if said.endswith((".", "!", "?", ")", '"')) else f"{said}."
    return " ".join([said, *getattr(error, "__notes__", [])])


# ----------------------------------------------------------------------------------------- output


def show(markdown: str, quiet: bool) -> None:
    """Print Markdown: laid out on a terminal, as it is in a pipe."""
    if quiet or not sys.stdout.isatty():
        typer.echo(markdown.rstrip())
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(markdown))


def show_json(values: dict[str, Any]) -> None:
    """Print one JSON object; numbers that JSON does not know become null."""
    typer.echo(json.dumps(_plain(values), ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def table(header: list[str], rows: Iterable[list[str]]) -> str:
    r"""A table in Markdown, its columns in line; names may hold what they like.

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
    return (text if text.isprintable() else repr(text)).replace("|", "\\|")


@contextmanager
def remarks(quiet: bool) -> Iterator[list[str]]:
    """Warnings as sentences: on stderr, each once whatever its figures, and in a list.

    Parameters
    ----------
    quiet : bool
        Only in the list.
    """
    told: list[str] = []

    def remark(message: Warning | str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if _without_figures(text) not in map(_without_figures, told):
            told.append(text)
            if not quiet:
                typer.secho(f"Note: {text}", fg="yellow", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = remark
        yield told


def _without_figures(text: str) -> str:
    return re.sub(r"\d+", "#", text)


@contextmanager
def progress(title: str, quiet: bool) -> Iterator[Progress | None]:
    """A function that takes (done, total) and shows it, with the time that is left, on stderr.

    Parameters
    ----------
    title : str
        What is going on.
    quiet : bool
        Show nothing.
    """
    if quiet:
        yield None
    elif sys.stderr.isatty():
        with _bar(title) as report:
            yield report
    else:
        yield _lines(title)


@contextmanager
def _bar(title: str) -> Iterator[Progress]:
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),
        rich.TextColumn("left"),
        rich.TimeRemainingColumn(),
    )
    # A split can take minutes: the speed is that of the whole run.
    bar = rich.Progress(*columns, console=Console(stderr=True), speed_estimate_period=float("inf"))

    def report(done: int, total: int) -> None:
        if done < total:
            bar.start()  # only once, and not at all where everything is stored
        task = bar.tasks[-1] if bar.tasks else None
        if task is None or total != task.total or done < task.completed:
            bar.add_task(title, total=total, completed=done)
        else:
            bar.update(task.id, completed=done)

    try:
        yield report
    finally:
        bar.stop()


def _lines(title: str) -> Progress:
    """A line whenever another tenth is done; what was stored before tells nothing of the speed."""
    start = last = 0
    total_before = -1
    began = monotonic()

    def report(done: int, total: int) -> None:
        nonlocal start, last, total_before, began
        if total != total_before or done < last:
            start, last, total_before, began = done, done, total, monotonic()
        elif done > last and done * 10 // total > last * 10 // total:
            last = done
            taken = monotonic() - began
            left = taken / (done - start) * (total - done)
            print(
                f"{title}: {done} of {total} done in {_clock(taken)}, {_clock(left)} left",
                file=sys.stderr,
                flush=True,
            )

    return report


@contextmanager
def stream(title: str, quiet: bool) -> Iterator[Stream | None]:
    """A function that takes the rows done, and their share if it is known, and shows their rate.

    Parameters
    ----------
    title : str
        What is going on.
    quiet : bool
        Show nothing.
    """
    began = monotonic()

    def told(rows: int) -> str:
        return f"{rows:,} rows, {rows / max(1e-9, monotonic() - began):,.0f} a second"

    if quiet:
        yield None
    elif sys.stderr.isatty():
        with _stream_bar(title, told) as report:
            yield report
    else:
        last = 0.0

        def report(rows: int, share: float | None) -> None:
            nonlocal last
            if share is not None and int(10 * share) > int(10 * last):
                last = share
                print(f"{title}: {share:.0%}, {told(rows)}", file=sys.stderr, flush=True)

        yield report


@contextmanager
def _stream_bar(title: str, told: Callable[[int], str]) -> Iterator[Stream]:
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.TextColumn("{task.fields[told]}", markup=False),
        rich.TextColumn("left"),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True), speed_estimate_period=60) as bar:
        task = bar.add_task(title, total=None, told="")

        def report(rows: int, share: float | None) -> None:
            total = None if share is None else 1.0
            bar.update(task, total=total, completed=share or 0.0, told=told(rows))

        yield report


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
