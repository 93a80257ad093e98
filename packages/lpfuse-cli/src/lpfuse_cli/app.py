"""The root of the command line, and commands of other packages."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points

import typer

from lpfuse_cli import commands
from lpfuse_cli.assistants import mcp
from lpfuse_cli.console import Json, PlainErrors, Quiet, is_quiet, root_options, show_json
from lpfuse_cli.demo import demo
from lpfuse_cli.watch_command import watch

GROUP = "lpfuse.commands"


def add_plugins(app: typer.Typer) -> None:
    """Add the commands of what is installed, or on the path, beside lpfuse; in order of names.

    One that cannot be imported stays in the list, and says why when it is called: a broken plug-in
    must not take the other commands with it.
    """
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            app.add_typer(entry.load(), name=entry.name)
        except Exception as error:
            _add_broken(app, entry, error)


def _add_broken(app: typer.Typer, entry: EntryPoint, error: Exception) -> None:
    """Add a command that always raises."""
    reason = f"{type(error).__name__}: {error}"

    @app.command(
        entry.name,
        help=f"Could not be loaded ({reason}).",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def refuse() -> None:
        raise ImportError(
            f"The command {entry.name!r} is a plug-in, {entry.value}, that could not be loaded "
            f"({reason}). Reinstall its package: pip install --upgrade --force-reinstall"
        ) from error


app = typer.Typer(
    cls=PlainErrors,
    help="Combine anomaly detectors into one, with certified weights and a false-alarm rate.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
EXAMPLES: dict[Callable[..., None], str] = {
    commands.fit: "lpfuse fit pumps.csv --label state --normal ok -o pumps.lpfuse",
    commands.score: "lpfuse score pumps.lpfuse new.csv -o scores.csv --keep serial",
    commands.fuse: "lpfuse fuse scores.csv --label fake --normal no --direction knn=anomaly",
    watch: "lpfuse watch pumps.lpfuse live.csv -o verdicts.csv --page status.html",
    commands.report: "lpfuse report pumps.lpfuse new.csv -o report.html",
    commands.card: "lpfuse card pumps.lpfuse -o card.md",
    commands.audit: "lpfuse audit pumps.lpfuse",
    commands.ask: "lpfuse ask pumps.lpfuse new.csv -o questions.html",
    commands.teach: "lpfuse teach pumps.lpfuse answers.csv -o better.lpfuse",
    commands.recalibrate: "lpfuse recalibrate pumps.lpfuse june.csv -o june.lpfuse",
    demo: "lpfuse demo -o report.html",
    mcp: "lpfuse mcp pumps/",
}
for _command, _example in EXAMPLES.items():
    app.command(epilog=f"Example: {_example}")(_command)
add_plugins(app)
app.callback()(root_options)


@app.command(epilog="Example: lpfuse version --quiet")
def version(ctx: typer.Context, as_json: Json = False, quiet: Quiet = False) -> None:
    """Print the versions of lpfuse and its dependencies; with --quiet, of lpfuse only."""
    from lpfuse._files import versions

    found = versions()
    if as_json:
        show_json(found)
    elif is_quiet(ctx, quiet):
        typer.echo(found["lpfuse"])
    else:
        typer.echo("\n".join(f"{name} {number}" for name, number in found.items()))
