"""What commands share, also those of other packages; the module that a plug-in may import.

A plug-in is a `typer.Typer` under an entry point of the group ``lpfuse.commands``. Its commands
take `Quiet` and `Json` as options, print with `show`, `show_json` and `table`, tell what they do
with `phases`, `progress` or `stream`, collect warnings with `remarks`, and raise errors as the
library does: in the words of the API. Those end as one sentence, in which parameters have become
options (`in_options`).
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lpfuse._files import as_json
from lpfuse._format import brief, plain, printable
from lpfuse.cli._messages import complain, exit_code, in_options, options_of, sentence
from lpfuse.cli._progress import Phases, Progress, Stream, called, phases, progress, stream

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

Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Nothing but the result, as plain text.")
]
Json = Annotated[bool, typer.Option("--json", help="The result as one JSON object, alone.")]
Norm = Annotated[
    str,
    typer.Option(
        "--p", metavar="auto|FLOAT", help="Norm of the weights: 1 trusts few detectors, inf all."
    ),
]
Seed = Annotated[int, typer.Option(min=0, metavar="INT", help="Seed of all that is random.")]


def root_options(
    quiet: Quiet = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show where in the code an error comes from.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="The version, and nothing else.",
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
    return plain(text).replace("|", "\\|")


def weights_table(found: dict[str, Any], noun: str = "detector", most: int | None = None) -> str:
    """The detectors, those with the largest weights first, and their fusion, in Markdown.

    Parameters
    ----------
    found : dict
        As `lpfuse.tables.outcome` makes it.
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
def remarks(quiet: bool) -> Iterator[list[str]]:
    """Warnings as sentences: on stderr, each once whatever its figures, and in a list.

    Parameters
    ----------
    quiet : bool
        Only in the list.
    """
    found: list[str] = []
    seen: set[str] = set()

    def remark(message: Warning | str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        shape = re.sub(r"\d+", "#", text)
        if shape not in seen:
            seen.add(shape)
            found.append(text)
            if not quiet:
                typer.secho(brief(f"Note: {text}"), fg="yellow", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = remark
        yield found
