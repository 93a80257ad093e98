"""The root of the command line."""

from __future__ import annotations

from typing import Annotated

import typer

from lpfuse.cli import reproduce
from lpfuse.cli.console import PlainErrors, Quiet, is_quiet

app = typer.Typer(
    cls=PlainErrors,
    help="Fuse several anomaly detectors into one, and prove how good the fusion is.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
app.add_typer(reproduce.app, name="reproduce")


@app.callback()
def options(
    quiet: Quiet = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show where in the code an error comes from.")
    ] = False,
) -> None:
    """Take the options that stand before a command; `console` reads them from the context."""


@app.command(epilog="Example: lpfuse version --quiet")
def version(ctx: typer.Context, quiet: Quiet = False) -> None:
    """Versions of lpfuse and of what it works with; with --quiet, the first number alone."""
    from lpfuse._versions import versions

    found = versions()
    if is_quiet(ctx, quiet):
        typer.echo(found["lpfuse"])
    else:
        typer.echo("\n".join(f"{name} {number}" for name, number in found.items()))
